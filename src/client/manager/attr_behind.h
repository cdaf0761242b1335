/* Attributes that were set under a W lease, answered, and are not with the manager yet.
 *
 * Pure. One pending change per inode: what is set again before it was sent is merged into it, field
 * by field, the latest wins. At most one change of an inode is under way; what is set meanwhile
 * waits, and so the manager hears of one inode's changes in their order.
 *
 *   attr_behind_set() -> WAITING -> attr_behind_next() -> UNDER WAY -> attr_behind_ended()
 *                          ^                                              |
 *                          +--- attr_behind_retry() <--- REFUSED <--------+ `again`
 *
 * What waits has a stamp, growing with time, so that others can be told to stay behind it; what was
 * refused holds nobody up. Bounded by `inodes_max`: beyond it nothing is taken, and whoever sets an
 * attribute waits for the manager.
 */
#ifndef MORSEL_CLIENT_MANAGER_ATTR_BEHIND_H
#define MORSEL_CLIENT_MANAGER_ATTR_BEHIND_H

#include "common/base/types.h"

#include <stdbool.h>

/* Fields as in SetattrRequest; times are always explicit. */
struct attr_change
{
    uint32_t valid; /* Of SETATTR_MODE, _UID, _GID, _ATIME, _MTIME. */
    uint32_t mode, uid, gid;
    uint64_t atime_ns, mtime_ns;
    uint64_t set_ns; /* When the last of it was set. */
    uint64_t
        lease_epoch; /* Under which we have the right to it: nothing is merged across lease epochs. */
};

struct attr_behind;

struct attr_behind *attr_behind_new(uint32_t inodes_max); /* NULL: out of memory. */
void attr_behind_free(struct attr_behind *b);             /* NULL is allowed. */

enum attr_behind_verdict {
    ATTR_BEHIND_TAKEN,  /* The first of the inode. */
    ATTR_BEHIND_MERGED, /* Into what is here of it already. */
    ATTR_BEHIND_FULL    /* Too many inodes, or no memory: nothing was done. */
};
enum attr_behind_verdict attr_behind_set(struct attr_behind *b, inode_id inode,
                                         const struct attr_change *change);

/* The oldest that waits and has nothing under way: it is under way from now on. INODE_NONE: none.
 */
inode_id attr_behind_next(struct attr_behind *b, struct attr_change *change);

/* attr_behind_next() cannot be sent just now: it waits again, where it was. */
void attr_behind_put_back(struct attr_behind *b, inode_id inode);

/* What was under way has come to its end. `refusal`: it was not carried out, for this reason, and is
 * to be sent once more; 0: it was, or is lost. True: nothing of the inode is left here. */
bool attr_behind_ended(struct attr_behind *b, inode_id inode, int refusal);

/* What was refused waits again. */
void attr_behind_retry(struct attr_behind *b);

/* Anything of the inode, waiting, refused or under way. */
bool attr_behind_has(const struct attr_behind *b, inode_id inode);

/* What a sync that begins now covers goes up to this mark. */
uint64_t attr_behind_mark(const struct attr_behind *b);

/* Has the manager what was set on the inode up to the mark? MORSEL_OK; MORSEL_AGAIN: it waits, or is
 * under way; otherwise why it was refused. */
int attr_behind_owes(const struct attr_behind *b, inode_id inode, uint64_t mark);

/* Of the newest that waits or waited. */
uint64_t attr_behind_stamp(const struct attr_behind *b);

/* Does something with this stamp or an older one still wait? */
bool attr_behind_waits(const struct attr_behind *b, uint64_t stamp);

uint32_t attr_behind_count(const struct attr_behind *b);   /* Inodes. */
uint32_t attr_behind_waiting(const struct attr_behind *b); /* Of them, those that wait. */

/* Forget what is not under way of each inode of which `lost` says so; `gone`: then nothing of it is
 * left here. `lost` must not call us. */
void attr_behind_lose(struct attr_behind *b, bool (*lost)(void *data, inode_id inode), void *data,
                      void (*gone)(void *data, inode_id inode));

#endif
