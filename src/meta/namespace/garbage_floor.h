/* Where the queue of deleted objects begins, for each storage server.
 *
 * Pure. The store keeps what was deleted from it as tombstones until it compacts, and a queue is
 * emptied from its front: who looks for its first record would walk over all that were there
 * before, at each heartbeat. So this remembers below which object a server has none.
 *
 * Invariant: no record of a server lies below its floor. Unknown servers have the lowest floor. */
#ifndef MORSEL_META_NAMESPACE_GARBAGE_FLOOR_H
#define MORSEL_META_NAMESPACE_GARBAGE_FLOOR_H

#include "common/base/limits.h"
#include "common/base/types.h"

struct garbage_floors
{
    uint32_t count;
    struct garbage_floor
    {
        server_id server;
        bool none; /* The server has no record at all. */
        struct object_id object;
    } items[SERVERS_MAX]; /* Ascending by server. */
};

/* False: there is nothing to look for. Otherwise look from `*from` on. */
bool garbage_floor_from(const struct garbage_floors *f, server_id server, struct object_id *from);

/* A record is put. */
void garbage_floor_lower(struct garbage_floors *f, server_id server, struct object_id object);

/* Who looked from the floor on found this first; NULL: nothing. */
void garbage_floor_found(struct garbage_floors *f, server_id server, const struct object_id *first);

#endif
