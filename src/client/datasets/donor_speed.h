/* How fast a benefactor gives out what it is asked for, and how soon more would be here.
 *
 * Pure. How long an answer takes says little, for most of that we have queued there ourselves. So what is measured is the rate while
 * something is under way:
 *
 *   idle --asked--> busy: a stretch begins --an answer, DONOR_SPEED_STRETCH_NS later or as the last--> its rate counts, the next one begins
 *     ^                                                        |
 *     '----------------------- nothing is under way -----------'
 *
 * A rate is a quarter of what is known, or all of it where the last one is older than DONOR_SPEED_STALE_NS. Who has been asked and has not
 * come as far as that by now is as slow as that shows, before he answers. What is not waited for any longer, because another copy came
 * first, has come by half, as far as anybody knows, and makes nobody faster. Who is slow is hardly asked, and so not measured: with each DONOR_SPEED_STALE_NS without a measure he is taken
 * to be twice as fast, until that is worth a try, or nothing is known of him.
 *
 * The fastest of all is what one of whom nothing is known is taken for: else one that is known to be slow would be taken for no slower
 * than him.
 *
 * `asked` is the bytes that are under way, always; `rate` is 0 as long as nothing is known. Times are nanoseconds on one clock that does
 * not go back. */
#ifndef MORSEL_CLIENT_DATASETS_DONOR_SPEED_H
#define MORSEL_CLIENT_DATASETS_DONOR_SPEED_H

#include <stdbool.h>
#include <stdint.h>

#define DONOR_SPEED_STRETCH_NS UINT64_C(20000000)
#define DONOR_SPEED_STALE_NS   UINT64_C(15000000000)

enum donor_speed_end {
    DONOR_SPEED_CAME,
    DONOR_SPEED_LEFT, /* It is not waited for any more. */
    DONOR_SPEED_FAILED
};

/* Zeroed: nothing is known. */
struct donor_speed
{
    uint64_t asked;
    uint64_t rate;        /* Bytes per second, */
    uint64_t measured_ns; /* and of when. */
    uint64_t came;        /* In the stretch, */
    uint64_t since_ns;    /* which began then. */
};

/* It is asked for so many bytes. */
void donor_speed_asked(struct donor_speed *speed, uint32_t bytes, uint64_t now_ns);

/* Of what it was asked for so much is not under way any more. */
void donor_speed_ended(struct donor_speed *speed, uint32_t bytes, enum donor_speed_end how,
                       uint64_t now_ns);

/* Bytes per second, as far as is known now; 0: not known. */
uint64_t donor_speed_rate(const struct donor_speed *speed, uint64_t now_ns);

/* Of several benefactors: the greatest rate that was measured of late. Zeroed: none was. */
struct donor_speed_best
{
    uint64_t rate;
    uint64_t measured_ns;
};

/* Something of `speed` has ended. */
void donor_speed_best_note(struct donor_speed_best *best, const struct donor_speed *speed,
                           uint64_t now_ns);

#endif
