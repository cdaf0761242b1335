/* What one benefactor has, copy by copy, and whether a morsel has others that count: for whoever takes copies away (relocate.h,
 * surplus.h).
 *
 * Pure. Walks are bounded by looks, of which each morsel and each set that is passed costs one.
 */
#ifndef MORSEL_META_DATASETS_COPIES_AT_H
#define MORSEL_META_DATASETS_COPIES_AT_H

#include "meta/datasets/repair.h"

enum copies_kind {
    COPIES_ALL,
    COPIES_OF_FAT_SETS /* Of sets in which some morsel has more copies than are wanted. */
};

/* The next morsel from `at` on of which it has a copy; `at` comes to lie behind it. False: there is none before `looks` are used
 * up, or at all (`end`). */
bool copies_at_next(const struct sets *sets, donor_id id, enum copies_kind kind,
                    struct repair_place *at, uint32_t *looks, bool *end,
                    const struct data_set **set, struct set_morsel *m);

/* How many copies of the morsel count (repair.h) beside that benefactor's. One that is known to be damaged does not. */
uint32_t copies_elsewhere(const struct repair *r, const struct data_set *set,
                          const struct set_morsel *m, donor_id id, uint64_t now_ms);

#endif
