/* Which servers hold a new file of the durable class.
 *
 * Pure. A file of width w lies on w servers that follow each other in the order of their ids,
 * beginning with one that the inode id picks: ids are given out one by one, so the first columns,
 * where small files lie entirely, are dealt out evenly. Servers with less free space than the
 * reserve are left out as long as there are others.
 */
#ifndef MORSEL_META_CLUSTER_PLACEMENT_H
#define MORSEL_META_CLUSTER_PLACEMENT_H

#include "common/base/limits.h"
#include "common/base/types.h"

/* A server below 1/128 of its size, or below this, is nearly full. */
enum { PLACEMENT_RESERVE_SHIFT = 7, PLACEMENT_RESERVE_BYTES = 64 << 20 };

struct placement_server
{
    server_id id;
    bool live; /* Heard of lately, and connected. */
    uint64_t bytes_total, bytes_free;
};

/* Choose for `inode` up to `width` different servers, in column order. Servers are sorted by id.
 * Returns how many: min(width, live servers with space), or, where none has space, min(width, live
 * servers); 0 when none is live. */
uint32_t placement_choose(const struct placement_server *servers, uint32_t count, inode_id inode,
                          uint32_t width, server_id chosen[STRIPE_WIDTH_MAX]);

#endif
