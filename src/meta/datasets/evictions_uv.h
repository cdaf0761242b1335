/* Data sets as a cache, as the manager's host sees them: when they are used, and how room is made (evict.h, lru_k.h). */
#ifndef MORSEL_META_DATASETS_EVICTIONS_UV_H
#define MORSEL_META_DATASETS_EVICTIONS_UV_H

#include "common/fs/eviction.h"
#include "meta/datasets/evict.h"
#include "meta/meta_uv.h"

/* Learn the sets that there are. MORSEL_NOMEM. */
int evictions_open(struct meta *meta);
void evictions_free(struct meta *meta);

/* The set has just been sealed. */
void evictions_stored(struct meta *meta, uint64_t set);

/* The client opens the file to read it, or asks where its morsels are. */
void evictions_used(struct meta *meta, inode_id file, client_id client);

/* Somebody has found no room for a morsel of that size, or not for all of its copies; `failed` have refused him. True: room is being made,
 * and he is to try again. */
bool evictions_make_room(struct meta *meta, uint32_t morsel_bytes, const donor_id *failed,
                         size_t failed_count);

/* Something of the set has left the map because its owner says so: who had it is asked to be quick with deleting it. */
void evictions_hurry(struct meta *meta, const struct data_set *set);

/* The same of a set that is gone: these had it. */
void evictions_hurry_all(struct meta *meta, const donor_id *donors, uint32_t count);

/* Every PRESENCE_PULSE_MS: ahead of who needs room, and uses are written down. */
void evictions_pulse(struct meta *meta, uint64_t now_ms);

/* The manager ends: uses are written down. */
void evictions_close(struct meta *meta);

/* Why the set does not go now. */
enum eviction_state evictions_state(const struct meta *meta, const struct data_set *set);

/* The set that goes next, as things are; 0: none may. */
uint64_t evictions_next(struct meta *meta);

/* When it was last used; 0: never, as far as is known. */
int64_t evictions_last_ns(const struct meta *meta, const struct data_set *set);

#endif
