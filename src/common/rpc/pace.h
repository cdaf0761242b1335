/* How much may be under way on a link, in one direction: as many bytes as it carries in its round
 * trip and PACE_QUEUE_US more, and a frame, by the rate that was seen.
 *
 * Pure: no clock, no socket. Two feeders, one for each direction:
 *
 * - pace_observe(), what we send: how many of our bytes the peer's machine has acknowledged. The
 *   rate is what was acknowledged over a stretch of time in which something was under way
 *   throughout. A server that is slow to answer does not look like a slow link, for its machine
 *   acknowledges all the same.
 * - pace_flowed(), what we are sent: bytes of a frame whose beginning had come already, and the
 *   time that they were waited for. The sender has the whole frame ready, so the link decides.
 *   Where frames come all at once, it does not: pace_came_whole().
 *
 * A rate that was seen while we held something back is the link's, or our share of it: a mean of
 * the last few counts. One that was seen while there was nothing more to send says only that the
 * link carries as much: it can raise what is known, and not lower it. (As in BBR: Cardwell et al.,
 * "BBR: congestion-based congestion control", ACM Queue 14(5), 2016.) The bound grows by itself: as
 * long as the link is faster than what is known, what is under way comes back within the round
 * trip, and the next rate is higher; until that ends it doubles each time.
 */
#ifndef MORSEL_COMMON_RPC_PACE_H
#define MORSEL_COMMON_RPC_PACE_H

#include "common/base/types.h"

enum {
    PACE_QUEUE_US = 100000,  /* What waits in front of the link. Others wait behind it, so short;
                                but long enough that the link does not run dry. */
    PACE_FRAME_US = 100000,  /* What one frame takes. */
    PACE_STRETCH_US = 50000, /* Rates are taken over so long at least, and a round trip. */
    PACE_RATES = 4,
    PACE_RISES = 2,  /* Rates that grow: it carries more than it did. */
    PACE_LEVEL = 3,  /* Rates that do not grow: this is what the link carries. */
    PACE_GROWTH = 2, /* A rate counts as so many times the last one at most: what a lost packet held
                        up is acknowledged all at once. */
    PACE_FIRST_BYTES = 16 << 10,    /* While nothing is known: what TCP sends at first. */
    PACE_NEAR_US = 2000,            /* A round trip within a building: it is hardly a slow link, */
    PACE_NEAR_BYTES = 128 << 10,    /* and begins with so much (10 Mbit/s: PACE_FRAME_US). */
    PACE_FRAME_STEP = 4 << 10,      /* The unit of checksums */
    PACE_FRAME_BYTES_MIN = 8 << 10, /* Heads are 2 % of it. */
    PACE_FRAME_BYTES_MAX = 1 << 20
};

struct pace
{
    uint64_t rate;          /* Bytes per second; 0: not known. */
    uint64_t round_trip_us; /* Of the link when nothing waits; 0: not known. */
    uint64_t recent[PACE_RATES];
    uint32_t recent_at;
    bool growing;   /* We have not met the link's bound. */
    uint32_t level; /* So many rates in a row were not much higher than what was known; */
    uint32_t rises; /* so many were. */

    /* The stretch that is being measured. */
    bool measuring;
    bool held_back; /* Something was not sent because of the bound. */
    uint64_t since_us;
    uint64_t since_bytes;
};

void pace_init(struct pace *p);

/* `acknowledged` bytes in all, `under_way` not yet, at `now_us`. True: a stretch has ended, and
 * this is a good time to learn the round trip. */
bool pace_observe(struct pace *p, uint64_t now_us, uint64_t acknowledged, uint64_t under_way);

/* `bytes` took `took_us` to come in. */
void pace_flowed(struct pace *p, uint64_t bytes, uint64_t took_us);

/* A frame of `bytes` came all at once, or faster than the link was known to be: if we held back,
 * that was too much. */
void pace_came_whole(struct pace *p, uint64_t bytes);

/* How many bytes may be under way before the last frame is added. */
uint64_t pace_window(const struct pace *p);

/* May another frame be sent behind `under_way`? If not, that is noted: the link is the bound. */
bool pace_has_room(struct pace *p, uint64_t under_way);

/* How long a frame may be: a multiple of PACE_FRAME_STEP. */
uint32_t pace_frame_bytes(const struct pace *p);

#endif
