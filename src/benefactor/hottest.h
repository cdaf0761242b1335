/* Which morsels were read most here since the last report.
 *
 * Pure. Space-saving (Metwally, Agrawal, El Abbadi: Efficient computation of frequent and top-k elements in data streams, ICDT
 * 2005): HOTTEST_MAX counters; a morsel that has none takes over the lowest one, goes on from what that has counted, and remembers
 * how much of it is not its own (`error`). So whatever was read more often than a HOTTEST_MAX-th part of all reads has a counter.
 *
 * Told is what is certain, the count without the error: never more than was read. What is told is forgotten; what a report says that
 * gets lost is lost, for heat is a hint (meta/datasets/heat.h).
 *
 * Invariants (hottest_check()): no morsel has two counters; the error is less than the count; all counts together are all reads.
 */
#ifndef MORSEL_BENEFACTOR_HOTTEST_H
#define MORSEL_BENEFACTOR_HOTTEST_H

#include "common/base/limits.h"
#include "common/base/types.h"

struct hottest_item
{
    uint64_t set;
    uint32_t morsel;
    uint32_t count, error;
};

struct hottest
{
    struct hottest_item items[HOTTEST_MAX];
    uint32_t item_count;
    uint64_t reads; /* Since the last report. */
};

/* Somebody reads it, from its beginning. */
void hottest_read(struct hottest *h, uint64_t set, uint32_t morsel);

/* What is certain of each, in `count` (never 0), without an order; HOTTEST_MAX at most, which is returned. All of it is forgotten. */
uint32_t hottest_take(struct hottest *h, struct hottest_item *out);

/* CHECKs the invariants. */
void hottest_check(const struct hottest *h);

#endif
