/* What rpc_serve_uv.c, rpc_guests_uv.c and rpc_listen_uv.c share. Not for others. */
#ifndef MORSEL_COMMON_RPC_RPC_SERVER_INTERNAL_UV_H
#define MORSEL_COMMON_RPC_RPC_SERVER_INTERNAL_UV_H

#include "common/rpc/rpc_internal_uv.h"

enum { GUEST_BUCKETS = 1 << 12 };

struct rpc_server
{
    union {
        uv_tcp_t tcp;
        uv_handle_t handle;
        uv_stream_t stream;
    };
    struct rpc *rpc;
    struct list node;                   /* In rpc->servers. */
    struct list conns;                  /* Those that were silent longest first. */
    struct list strangers;              /* Of them: they have not said HELLO. The oldest first. */
    struct list held;                   /* Their HELLO waits for requests of before. */
    struct list greeted[GUEST_BUCKETS]; /* By the hash of who they are. */
    struct list bounded;                /* Requests with a not_after that have not been answered. */
    uint32_t conns_count, conns_max, strangers_count;
    size_t client_share; /* 0: CONN_BUDGET_BYTES. */
    size_t memory;       /* That all connections hold. */
    uv_timer_t strangers_timer;
    uv_tcp_t discard; /* For those for whom there is no memory. */
    bool discarding, discard_more;
    struct rpc_server_hooks hooks;
    char address[ADDRESS_TEXT_MAX];
    bool closing;
    unsigned pins; /* The handle, the timer, `discard`, and each connection. */
};

void rpc_server_unpin(struct rpc_server *server);

extern const struct conn_hooks rpc_server_conn_hooks;

/* Begin: lists and the timer. */
void guests_init(struct rpc_server *server);
void guests_close(struct rpc_server *server);

/* Somebody knocks at the listener. */
void guests_accept(uv_stream_t *listener, int status);

/* The connection has got its answer to HELLO; has said something; is down. */
void guests_greeted(struct rpc_server *server, struct conn *conn);
void guests_heard(struct rpc_server *server, struct conn *conn);

/* It is found by this id from now on. */
void guests_named(struct rpc_server *server, struct conn *conn, uint64_t node_id);
void guests_left(struct rpc_server *server, struct conn *conn);

/* A greeted connection of the peer that stands, other than `but` (may be NULL). */
struct conn *guests_find(const struct rpc_server *server, enum rpc_role role, uint64_t node_id,
                         const struct conn *but);

/* Backpressure: stop reading who holds more than its share, and go on when it holds half of it.
 * When all together hold too much, connections are closed. */
void guests_pause_if_full(struct rpc_server *server, struct conn *conn);
void guests_begun(struct conn *conn); /* A payload: it may be too much for all. */
void guests_resume(struct conn *conn);

#endif
