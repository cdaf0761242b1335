/* MSG_HAND_ON: a client that cannot reach the other servers of a group has one of them ask who orders.
 *
 *   client --HAND_ON--> a member --HAND_ON, with the client's id--> who orders
 *                        orders itself, or knows nobody: as if asked without HAND_ON
 *
 * What a server hands on is never handed on again. The request is the same, with its number, verifier and
 * bytes; until when it may be carried out is said on the other's clock. Its answer is the client's. Who does
 * not answer, or does not order any more, leaves MORSEL_NOT_HERE, and the client asks again. */
#ifndef MORSEL_IOD_REPLICA_HAND_ON_UV_H
#define MORSEL_IOD_REPLICA_HAND_ON_UV_H

#include "common/fs/placing.h"
#include "common/serve/object_server_uv.h"

enum {
    HAND_ONS_MAX = 1024, /* Under way, of one server. */
    HAND_ON_MS = 4000    /* At most, for one. */
};

struct hand_ons
{
    /* The owner's; all else is zero. */
    struct object_server *server;
    /* The way to who is believed to order the group's changes; NULL: we do, or nobody is known. */
    struct rpc_peer *(*orderer)(void *data, group_number group);
    /* Does this server share groups with us? */
    bool (*is_member)(void *data, uint64_t server);
    void *data;

    /* The module's own. */
    struct list under_way;
    uint32_t count;
    bool open, closing;
};

/* One MSG_HAND_ON: it is answered. */
void hand_on_take(struct hand_ons *h, struct rpc_request *request);

/* Somebody else may order by now: who asked him asks again. Often. */
void hand_ons_look(struct hand_ons *h);

/* What is under way ends with the links. */
void hand_ons_close(struct hand_ons *h);

#endif
