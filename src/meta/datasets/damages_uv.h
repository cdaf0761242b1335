/* Copies that readers found wrong are looked at, and leave the maps: damage.h and cluster/blame.h in the manager's host. */
#ifndef MORSEL_META_DATASETS_DAMAGES_UV_H
#define MORSEL_META_DATASETS_DAMAGES_UV_H

#include "meta/datasets/repair.h"
#include "meta/meta_uv.h"

void damages_open(struct meta *meta);

/* `reader`, a number that is its own, has found that copy wrong. */
void damages_named(struct meta *meta, uint64_t reader, const struct damage_copy *copy);

/* `looker` says what it found; DONE: it is right. */
void damages_looked(struct meta *meta, donor_id looker, uint64_t order,
                    enum repair_outcome outcome);

void damages_tick(struct meta *meta, uint64_t now_ms);

#endif
