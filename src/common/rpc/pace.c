/* The rate of a link from what it has carried, and how much may be under way by it. */
#include "common/rpc/pace.h"

#include "common/base/check.h"

#include <string.h>

enum { US_PER_S = 1000000, GREW_PERCENT = 125 };

void pace_init(struct pace *p)
{
    memset(p, 0, sizeof(*p));
    p->growing = true;
}

static uint64_t bytes_in(const struct pace *p, uint64_t us)
{
    uint64_t rate = p->rate > UINT64_MAX / US_PER_S / 64 ? UINT64_MAX / US_PER_S / 64 : p->rate;

    return rate * (us < 64 * (uint64_t)US_PER_S ? us : 64 * (uint64_t)US_PER_S) / US_PER_S;
}

static uint64_t believable(const struct pace *p, uint64_t rate)
{
    return p->rate != 0 && rate / PACE_GROWTH > p->rate ? p->rate * PACE_GROWTH : rate;
}

/* Of the last `count` rates, as far as there are so many. */
static uint64_t mean(const struct pace *p, uint32_t count)
{
    uint64_t sum = 0;

    count = count < p->recent_at ? count : p->recent_at;
    CHECK(count > 0);
    for (uint32_t i = 1; i <= count; i++) {
        sum += p->recent[(p->recent_at - i) % PACE_RATES];
    }
    return sum / count;
}

/* The rate that was seen while the bound held us back. */
static void take_rate(struct pace *p, uint64_t rate)
{
    uint64_t known = p->rate, of_two, of_all;

    rate = believable(p, rate);
    p->recent[p->recent_at++ % PACE_RATES] = rate;
    p->level = known == 0 || rate >= known * GREW_PERCENT / 100 ? 0 : p->level + 1;
    p->rises = p->level == 0 ? p->rises + 1 : 0;
    p->growing = p->growing ? p->level < PACE_LEVEL : p->rises >= PACE_RISES;
    of_two = mean(p, 2);
    of_all = mean(p, PACE_RATES);
    /* What fell for a moment counts little, what rises counts soon. */
    if (p->growing) {
        p->rate = rate > known ? rate : known;
    } else {
        p->rate = of_two > of_all ? of_two : of_all;
    }
}

/* Seen while there was nothing more to carry. */
static void raise_rate(struct pace *p, uint64_t rate)
{
    if (rate > p->rate) {
        p->rate = believable(p, rate);
        p->recent[p->recent_at++ % PACE_RATES] = p->rate;
    }
}

static uint64_t rate_of(uint64_t bytes, uint64_t us)
{
    return bytes > UINT64_MAX / US_PER_S ? UINT64_MAX / US_PER_S
                                         : bytes * US_PER_S / (us == 0 ? 1 : us);
}

bool pace_observe(struct pace *p, uint64_t now_us, uint64_t acknowledged, uint64_t under_way)
{
    uint64_t stretch = p->round_trip_us > PACE_STRETCH_US ? p->round_trip_us : PACE_STRETCH_US;
    bool ended = false;

    if (p->measuring && now_us > p->since_us &&
        (under_way == 0 || now_us - p->since_us >= stretch)) {
        uint64_t rate = rate_of(acknowledged - p->since_bytes, now_us - p->since_us);

        if (under_way > 0 && p->held_back) {
            take_rate(p, rate);
        } else {
            raise_rate(p, rate);
        }
        p->measuring = false;
        ended = true;
    }
    if (!p->measuring && under_way > 0) {
        p->measuring = true;
        p->held_back = false;
        p->since_us = now_us;
        p->since_bytes = acknowledged;
    }
    return ended;
}

static uint64_t first_bytes(const struct pace *p)
{
    return p->round_trip_us > 0 && p->round_trip_us < PACE_NEAR_US ? PACE_NEAR_BYTES
                                                                   : PACE_FIRST_BYTES;
}

/* What is asked for at once comes in a round trip and what it waits. While nothing is known that is
 * little, and may have come faster than the link is: out of a buffer in front of it. */
static uint64_t rate_grown(const struct pace *p)
{
    return p->rate == 0 ? rate_of(PACE_GROWTH * first_bytes(p), p->round_trip_us + PACE_QUEUE_US)
                        : PACE_GROWTH * p->rate;
}

void pace_flowed(struct pace *p, uint64_t bytes, uint64_t took_us)
{
    uint64_t rate = rate_of(bytes, took_us);

    take_rate(p, rate < rate_grown(p) ? rate : rate_grown(p));
}

void pace_came_whole(struct pace *p, uint64_t bytes)
{
    uint64_t window = pace_window(p);

    if (p->held_back) {
        p->since_bytes += bytes;
        if (p->since_bytes >= window) {
            p->since_bytes = 0;
            p->held_back = false;
            raise_rate(p, rate_grown(p));
        }
    }
}

uint64_t pace_window(const struct pace *p)
{
    uint64_t us = p->round_trip_us + PACE_QUEUE_US, window;

    if (p->rate == 0) {
        return first_bytes(p);
    }
    if (p->growing && us < 2 * p->round_trip_us) {
        us = 2 * p->round_trip_us;
    }
    window = bytes_in(p, us);
    return window > PACE_FRAME_STEP ? window : PACE_FRAME_STEP;
}

bool pace_has_room(struct pace *p, uint64_t under_way)
{
    if (under_way < pace_window(p)) {
        return true;
    }
    p->held_back = true;
    return false;
}

uint32_t pace_frame_bytes(const struct pace *p)
{
    uint64_t bytes = p->rate == 0 ? first_bytes(p) : bytes_in(p, PACE_FRAME_US);

    if (bytes >= PACE_FRAME_BYTES_MAX) {
        return PACE_FRAME_BYTES_MAX;
    }
    return bytes < PACE_FRAME_BYTES_MIN ? PACE_FRAME_BYTES_MIN
                                        : (uint32_t)(bytes / PACE_FRAME_STEP * PACE_FRAME_STEP);
}
