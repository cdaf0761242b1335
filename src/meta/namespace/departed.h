/* Files and symbolic links that have just been replaced by a rename: they may still be opened and
 * read for a moment by whoever has looked their name up before.
 *
 * Pure. Looking a name up and using what was found are two requests. On a local disk the first pins
 * the inode; here nobody knows who has looked it up, so a replaced inode stays, as an orphan, for
 * DEPARTED_MS. Otherwise open(2) of a name that always exists would say ESTALE: the kernel asks
 * again, but once only. A name that was unlinked needs none of this: asked again, it is not there.
 *
 * First in, first out; what does not fit goes earlier: DEPARTED_MAX bounds memory and orphans.
 */
#ifndef MORSEL_META_NAMESPACE_DEPARTED_H
#define MORSEL_META_NAMESPACE_DEPARTED_H

#include "common/base/types.h"

enum { DEPARTED_MS = 1000, DEPARTED_MAX = 4096 };

struct departed
{
    struct departed_inode
    {
        inode_id inode;
        uint64_t due_ms;
    } items[DEPARTED_MAX]; /* A ring. */
    uint32_t first, count;
};

void departed_init(struct departed *d);
bool departed_has(const struct departed *d, inode_id inode);

/* `inode` is not there yet. Returns one that must go for it; INODE_NONE: none. */
inode_id departed_add(struct departed *d, inode_id inode, uint64_t now_ms);

/* One whose time is over; INODE_NONE: none. */
inode_id departed_pop(struct departed *d, uint64_t now_ms);

#endif
