/* The write-intent set: where the copies of a group may differ because a change was under way
 * (docs/replication.md, Write; tests/model/pair_model.py, rule `intent`).
 *
 * Pure, bounded as changed.h is, in regions of INTENT_REGION_BYTES: like the bitmap of a RAID. A
 * region is in the set on the disk before a byte of it changes. It leaves when what was changed is
 * on the disks of all members and all are vouched for; and goes into the logs of those who are
 * outside then, for they may have left while the change was under way.
 *
 *     intent_add()      begin_sync()          end_sync(true)           end_rewrite(true)
 *   ---------------> OPEN ----------> SYNCING --------------> over ------------------> off the disk
 *                     ^                  |
 *                     +--- not synced, or not all are vouched for
 *
 * Changes that are under way when a sync begins are not in it: whoever begins one adds them again
 * behind intent_begin_sync().
 *
 * The disk is only ever told more, until it is rewritten as a whole: that can wait, and goes on
 * beside changes. What intent_add() wants on the disk meanwhile goes behind the new whole.
 *
 * Invariant (intent_check()): without a sync nothing is being synced. */
#ifndef MORSEL_IOD_REPLICA_INTENT_H
#define MORSEL_IOD_REPLICA_INTENT_H

#include "iod/replica/dirty_log.h"

enum { INTENT_REGION_BYTES = 1 << 20, INTENT_OBJECTS_MAX = 16384, INTENT_SPANS_MAX = 2 * 16384 };

struct intent
{
    struct changed *open, *syncing;
    struct changed *disk, *next; /* What it says, and is being rewritten to. */
    bool is_syncing, is_rewriting;
};

/* False: out of memory; intent_free() is allowed then as well. */
bool intent_init(struct intent *n, uint32_t objects_max, uint32_t spans_max);
void intent_free(struct intent *n);

/* What the file said at the start: all of it is in doubt; and it may be in the kernel's hands alone, where the process of
 * before was killed ahead of its sync, or the disk refused that: a rewrite is due. */
void intent_load(struct intent *n, const struct changed *disk);

/* Is about to change. False: it is not on the disk yet, which has to be told first, and then
 * intent_written(). */
bool intent_add(struct intent *n, const struct change *change);
void intent_written(struct intent *n, const struct change *change);

/* All members begin to sync what was carried out so far. One sync at a time. */
void intent_begin_sync(struct intent *n);

/* It has come to its end: `synced` on the disks of all members of the set, which are all vouched
 * for. `outside`: the logs of those who are not in it. Otherwise nothing leaves. */
void intent_end_sync(struct intent *n, bool synced, struct dirty_log *const *outside,
                     uint32_t count);

/* The disk is to say what intent_next() says, instead of what it says; then whether it does. One
 * rewrite at a time. */
void intent_begin_rewrite(struct intent *n);
const struct changed *intent_next(const struct intent *n);
void intent_end_rewrite(struct intent *n, bool written);

/* Nothing is in doubt, on the disk either. */
bool intent_empty(const struct intent *n);
void intent_check(const struct intent *n);

#endif
