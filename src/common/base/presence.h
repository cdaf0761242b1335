/* A clock of presence: it stands still while its process does.
 *
 * Pure. Whoever is not there cannot hear: stopped, swapped out, suspended, waiting for its disk. So the manager does not
 * hold against others what they did not say meanwhile: lease periods, recalls, sessions and heartbeats are counted
 * on this clock; and a mount does not take for over what its kernel began before and still waits to ask. It leaves out every gap longer than
 * PRESENCE_GAP_MS between two looks at it. The host looks at it with each request, and every
 * PRESENCE_PULSE_MS without one.
 *
 * Invariants:
 *  - it never runs backwards, and never faster than the clock below: a span on it is at least as
 *    long in true time. So a lease period that has ended on it has ended (its holder counts true time), and
 *    safety needs nothing else (docs/leases.md);
 *  - without gaps it runs as the clock below.
 */
#ifndef MORSEL_COMMON_BASE_PRESENCE_H
#define MORSEL_COMMON_BASE_PRESENCE_H

#include "common/base/types.h"

enum {
    PRESENCE_PULSE_MS = 100,
    PRESENCE_GAP_MS = 250 /* Two pulses and a half; with the time between two words of a client far
                             less than a lease period, the shortest (LEASE_MS_MIN) included */
};

struct presence
{
    uint64_t seen_ms; /* Of the clock below, at the last look. */
    uint64_t away_ms; /* All gaps together. */
    uint64_t gaps;
};

/* `clock_ms`: monotonic. */
void presence_init(struct presence *p, uint64_t clock_ms);

/* What the clock of presence shows when the one below shows `clock_ms`, which is not earlier than
 * at the last look. */
uint64_t presence_now_ms(struct presence *p, uint64_t clock_ms);

#endif
