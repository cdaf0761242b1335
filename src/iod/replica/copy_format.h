/* What a server's copy of a group looks like in files, but for what differs between members
 * (dirty_format.h). Pure.
 *
 *   state   "MORSCOPY", format, checksum of the rest; the group with its members, struct group_record
 *   memory  "MORSOPER", format, checksum of the rest; the group. Then entries of one size, each with
 *           its checksum: an operation was begun, or done
 *
 * Numbers are little-endian. The state is replaced as a whole; entries are only appended: of those
 * behind the last sync any may be missing after a loss of power, which an entry of zeros or with a wrong
 * checksum shows. A newer format keeps the first
 * 16 bytes, and is refused. */
#ifndef MORSEL_IOD_REPLICA_COPY_FORMAT_H
#define MORSEL_IOD_REPLICA_COPY_FORMAT_H

#include "common/base/buf.h"
#include "common/fs/placing.h"
#include "iod/replica/group.h"
#include "iod/replica/op_memory.h"

enum {
    COPY_FORMAT = 1,
    COPY_STATE_BYTES = 80,
    COPY_MEMORY_HEADER_BYTES = 24,
    COPY_OPERATION_BYTES = 64
};

/* Whose copy it is. */
struct copy_name
{
    group_number group;
    uint32_t count, me;
    server_id
        servers[REPLICAS_MAX]; /* By place; 0: vacant, and behind the last place. Ours is held. */
    uint64_t since;            /* When our place was given to this server (Group.since). */
};

void copy_state_put(struct buf *b, const struct copy_name *name, const struct group_record *record);

/* MORSEL_CORRUPT, MORSEL_VERSION: `name` and `record` are zero. */
int copy_state_parse(struct slice bytes, struct copy_name *name, struct group_record *record);

struct copy_operation
{
    bool done;     /* Otherwise it was only begun. */
    uint64_t boot; /* Of the kernel on whose clock `known.until_ms` is. */
    struct op_known known;
};

void copy_memory_header_put(struct buf *b, group_number group);

/* MORSEL_CORRUPT, MORSEL_VERSION: `group` is 0. */
int copy_memory_header_parse(struct slice bytes, group_number *group);

void copy_operation_put(uint8_t bytes[COPY_OPERATION_BYTES], const struct copy_operation *op);

/* False: this is no entry. */
bool copy_operation_parse(const uint8_t bytes[COPY_OPERATION_BYTES], struct copy_operation *op);

#endif
