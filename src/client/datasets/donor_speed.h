/* How long a benefactor takes to give out a piece of a morsel, as far as is known now.
 *
 * Pure. An answer is an eighth of the mean, or all of it behind DONOR_SPEED_HALF_MS without one. Of one that was not waited for, because another copy came first, is known that it
 * would have taken longer than that: it counts so, but never makes the mean less. Who is slow is asked last, and so it is not
 * measured any more: what is known of him is halved with each DONOR_SPEED_HALF_MS, so that he gets another chance. */
#ifndef MORSEL_CLIENT_DATASETS_DONOR_SPEED_H
#define MORSEL_CLIENT_DATASETS_DONOR_SPEED_H

#include <stdbool.h>
#include <stdint.h>

enum { DONOR_SPEED_HALF_MS = 15000 };

struct donor_speed
{
    uint64_t mean_ns; /* 0: not known. */
    uint64_t at_ms;   /* Of that time, on any clock that does not go back. */
};

/* It has answered, or was not waited for any longer (`answered` is false) when so much time had gone by. */
void donor_speed_note(struct donor_speed *speed, uint64_t took_ns, bool answered, uint64_t now_ms);

/* Nanoseconds for a piece; 0: not known. */
uint64_t donor_speed_ns(const struct donor_speed *speed, uint64_t now_ms);

#endif
