/* Which inodes were changed here, as the manager says, and may not be on its disk yet. Pure.
 *
 * Each answer to a change names the manager's run and the change's number in its log (runs.h of the
 * manager: numbers recur after a loss of power, runs do not). What the manager says that it has on
 * disk, of this run and of those before, decides about each: it is there, it is still to be synced,
 * or it is lost.
 */
#ifndef MORSEL_CLIENT_MANAGER_CHANGES_H
#define MORSEL_CLIENT_MANAGER_CHANGES_H

#include "common/base/list.h"
#include "common/base/types.h"

/* One slot for an inode, shared by those with the same hash; what finds its slot taken counts as a
 * change of any inode. */
enum { CHANGES_SLOTS = 4096 };

struct change
{
    struct list node; /* In changes->used, unless it is empty. */
    inode_id inode;   /* INODE_NONE: empty. */
    uint64_t run, number;
    bool lost; /* And nobody was told. */
};

struct changes
{
    struct change slots[CHANGES_SLOTS];
    struct change others; /* Of any inode. */
    struct list used;     /* By the time of the last change. */
};

void changes_init(struct changes *c);

/* `number` is on disk of `run`. */
struct changes_held
{
    uint64_t run, number;
};

/* The manager has answered a change of `inode` with this run and number. */
void changes_note(struct changes *c, inode_id inode, uint64_t run, uint64_t number);

/* Everything up to `number` of this run is on the manager's disk. */
void changes_durable(struct changes *c, uint64_t run, uint64_t number);

/* The manager's word of what it has on disk: of its own run first, then of those before. `lost`
 * runs for each inode of which changes are lost now; INODE_NONE: of any inode. */
void changes_heard(struct changes *c, const struct changes_held *held, size_t count,
                   void (*lost)(void *data, inode_id inode), void *data);

/* A change of the inode that was answered here has not come to the manager, and never will. */
void changes_lose(struct changes *c, inode_id inode);

/* May changes of the inode be lost, of which nobody was told? */
bool changes_lost(const struct changes *c, inode_id inode);

/* Somebody has been told. */
void changes_told(struct changes *c, inode_id inode);

#endif
