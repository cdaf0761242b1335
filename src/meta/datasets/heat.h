/* Which morsels are read most: heat is accesses divided by copies, aged with time (Tammineedi 2005, chapter 5, has it for data sets;
 * design: scavenging.md).
 *
 * Pure. Benefactors tell with their reports what was read most there (benefactor/hottest.h); here that is added up, and loses half
 * each HEAT_HALF_MS, in HEAT_STEPS steps. It is soft state: a manager that starts knows of no heat, and nothing is wrong because of
 * that, but some order.
 *
 *   told --add--> known, as long as there is something left of it, its set lives, and nothing hotter needs its place
 *   known --rank--> the HEAT_HOT_MAX hottest, whom repair.h, relocate.h and surplus.h look at
 *
 * Bounded: HEAT_BUCKETS * HEAT_WAYS morsels of 24 bytes. A morsel has its bucket, by its number; in a bucket that is full what was
 * read more takes the place of what is coldest, and what was read less is not counted.
 *
 * Invariants (heat_check()): each morsel is known once, in its bucket; the hottest descend, and are not more than may be. What is
 * known of a morsel is never more than was told of it.
 */
#ifndef MORSEL_META_DATASETS_HEAT_H
#define MORSEL_META_DATASETS_HEAT_H

#include "meta/datasets/sets.h"

enum {
    HEAT_WAYS = 16,
    HEAT_BUCKETS = 1024,
    HEAT_HOT_MAX = 64,
    HEAT_HALF_MS = 3600000,
    HEAT_STEPS = 8,
    HEAT_ONE = 256 /* An access. */
};

struct heat_item
{
    uint64_t set;
    uint64_t reads; /* HEAT_ONE each; 0: the place is free. */
    uint32_t morsel;
};

struct heat_hot
{
    uint64_t set;
    uint64_t heat; /* Of a copy: HEAT_ONE is an access. */
    uint32_t morsel;
};

struct heat
{
    struct heat_item items[HEAT_BUCKETS][HEAT_WAYS];
    struct heat_hot hot[HEAT_HOT_MAX]; /* At the last ranking, the hottest first. */
    uint32_t hot_count;
    uint64_t aged_ms, ranked_ms;
};

void heat_init(struct heat *h, uint64_t now_ms);

/* It was read so often. Times do not descend. */
void heat_add(struct heat *h, uint64_t set, uint32_t morsel, uint32_t reads, uint64_t now_ms);

/* Accesses to it, aged, HEAT_ONE each; 0: hardly any are known. */
uint64_t heat_reads(const struct heat *h, uint64_t set, uint32_t morsel);

/* Who is hottest is found anew. What nobody has any more is forgotten. */
void heat_rank(struct heat *h, const struct sets *sets, uint64_t now_ms);

/* Is it among the hottest? NULL: nothing is. */
bool heat_is_hot(const struct heat *h, uint64_t set, uint32_t morsel);

/* Accesses to all morsels of these sets that are known, HEAT_ONE each, are put into `sums`; the numbers ascend. */
void heat_sum(const struct heat *h, const uint64_t *sets, uint64_t *sums, uint32_t count);

/* CHECKs the invariants. */
void heat_check(const struct heat *h);

#endif
