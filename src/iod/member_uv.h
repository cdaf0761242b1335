/* Membership of an I/O daemon: registers with the manager, says every heartbeat that it is there,
 * deletes the objects that the manager has no use for any more.
 *
 *   APART --REGISTER--> REGISTERED --(manager does not know us, or the connection is new)--> APART
 *
 * The token, random since the directory was made, is who we are; the id is the manager's short name
 * for it. The cluster is learned at the first registration and remembered: a manager of another
 * cluster is refused for ever. While the manager is away we go on serving and keep knocking.
 */
#ifndef MORSEL_IOD_MEMBER_UV_H
#define MORSEL_IOD_MEMBER_UV_H

#include "common/rpc/rpc_uv.h"

struct iod;
struct job;

struct member
{
    struct iod *iod;
    struct rpc_peer *manager; /* The iod's; NULL: not started. */
    struct rpc_call call;     /* REGISTER or HEARTBEAT; one at a time. */
    uv_timer_t timer;         /* The next registration or heartbeat. */
    bool registered;
    bool away; /* Said in the log that the manager is away. */
    bool stopping;
    uint32_t heartbeat_ms;
    struct job *measuring;     /* Looks at the space before a heartbeat. */
    struct job *collecting;    /* Deletes. */
    struct object_id *garbage; /* Deleted, to be reported. */
    size_t garbage_count;
    uint64_t bytes_total, bytes_free, objects, device; /* At the last look. */
    uint64_t wanted;                                   /* The last SPACE_WANTED; */
    uint64_t measured;                                 /* and that before the last look. */
};

/* Begin to register. The iod listens and has its directory. */
void member_start(struct member *member, struct iod *iod);
void member_stop(struct member *member);

#endif
