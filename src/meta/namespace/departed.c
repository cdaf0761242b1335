/* A queue by age, and a table to find an inode in it. */
#include "meta/namespace/departed.h"

#include "common/base/check.h"

void departed_init(struct departed *d)
{
    d->first = d->count = 0;
}

bool departed_has(const struct departed *d, inode_id inode)
{
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->items[(d->first + i) % DEPARTED_MAX].inode == inode) {
            return true;
        }
    }
    return false;
}

static inode_id take_first(struct departed *d)
{
    inode_id inode = d->items[d->first].inode;

    d->first = (d->first + 1) % DEPARTED_MAX;
    d->count--;
    return inode;
}

inode_id departed_add(struct departed *d, inode_id inode, uint64_t now_ms)
{
    inode_id gone = d->count == DEPARTED_MAX ? take_first(d) : INODE_NONE;

    CHECK(d->count < DEPARTED_MAX && inode != INODE_NONE);
    d->items[(d->first + d->count) % DEPARTED_MAX] =
        (struct departed_inode){ inode, now_ms + DEPARTED_MS };
    d->count++;
    return gone;
}

inode_id departed_pop(struct departed *d, uint64_t now_ms)
{
    return d->count > 0 && d->items[d->first].due_ms <= now_ms ? take_first(d) : INODE_NONE;
}
