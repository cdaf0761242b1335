/* Where the copies of a column lie: the number that names a column's object on a server.
 *
 * Pure. A file with one copy lies on servers, and the number of a column's object is that of the
 * column. A file with more copies lies on *groups* of servers that hold the same objects
 * (docs/replication.md): then the number has the group in its upper bits. So a server knows from the
 * object alone whose it is, requests and files on disk need no other field, and a server can list
 * what a group has. Numbers of groups are never used again: an object that is left over from an
 * earlier placing of the file is never taken for one of a later. */
#ifndef MORSEL_COMMON_FS_PLACING_H
#define MORSEL_COMMON_FS_PLACING_H

#include "common/base/limits.h"
#include "common/base/types.h"
#include "common/fs/stripe.h"

typedef uint32_t group_number; /* From 1; 0: one copy, of no group. */

enum {
    PLACING_COLUMN_BITS = 8,
    PLACING_GROUPS_MAX = 1 << 15, /* Of one cluster, ever. */
    SERVER_GROUPS_MAX = 1024,     /* Of which one server is a member. */
    SERVER_STATES_MAX = 256 /* Of its copies that are not well a server tells so many at most. */
};

static_assert(STRIPE_WIDTH_MAX <= 1 << PLACING_COLUMN_BITS, "a column fits below its group");
static_assert(PLACING_GROUPS_MAX <= 1 << (32 - PLACING_COLUMN_BITS),
              "a group fits above its column");

/* Of column `column` of a file that lies on `group` there. */
static inline uint32_t placing_object(group_number group, uint32_t column)
{
    return group << PLACING_COLUMN_BITS | column;
}

static inline group_number placing_group(uint32_t object_column)
{
    return object_column >> PLACING_COLUMN_BITS;
}

static inline uint32_t placing_column(uint32_t object_column)
{
    return object_column & ((1U << PLACING_COLUMN_BITS) - 1);
}

/* Where the bytes of a file lie. */
struct placing
{
    inode_id body; /* By whose number its objects are called. */
    uint32_t layout_class, replicas;
    struct stripe stripe;
    const uint32_t *columns; /* With one copy the server of each, otherwise its group. */
};

/* A number that is another one when the bytes lie elsewhere, but for one of four billion such places (CRC-32C): so
 * whoever is told it notices that a layout which he has known for long is not that of now. Never PLACE_UNKNOWN. */
enum { PLACE_UNKNOWN = 0 };
uint32_t placing_place(const struct placing *p);

#endif
