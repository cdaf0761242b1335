/* What rpc_uv.c, rpc_call_uv.c and rpc_serve_uv.c share. Not for others: rpc_uv.h is the interface.
 */
#ifndef MORSEL_COMMON_RPC_INTERNAL_UV_H
#define MORSEL_COMMON_RPC_INTERNAL_UV_H

#include "common/conn_uv.h"
#include "common/heap.h"
#include "common/list.h"
#include "common/rpc_uv.h"

struct rpc
{
    uv_loop_t *loop;
    enum rpc_role role;
    uint64_t node_id;
    struct cluster_id cluster_id;
    char program[64];
    const uint64_t *term_until_ns; /* NULL: bounded calls have no bound. */
    uint64_t start_id;             /* Random; tells this run of the process from others. */
    struct payload_pool *payloads;
    struct rpc_statistics statistics;

    uv_prepare_t prepare; /* Before the loop waits: end calls, flush connections. */
    uv_timer_t deadline;  /* Fires at `armed_ms`, at or before the earliest deadline of a call. */
    uint64_t armed_ms;    /* UINT64_MAX: not armed. */
    struct heap deadlines;
    struct list ended;   /* Calls whose `done` is due. */
    struct list dirty;   /* Connections with frames to write. */
    struct list peers;   /* struct rpc_peer */
    struct list servers; /* struct rpc_server */

    bool closing;
    size_t
        handles; /* Connections, timers, listeners not yet closed; at 0 a closing rpc is freed. */
    void (*closed)(void *data);
    void *closed_data;
};

struct rpc_call_state
{
    struct rpc_call *call;
    struct rpc_peer *peer;
    struct list node; /* In peer->waiting, peer->sent or rpc->ended. */
    struct heap_node deadline;
    uint64_t id;
    enum message_type type;
    bool sent;
    int status; /* Once in rpc->ended. */
    uint64_t started_ns;
    uint8_t *body;
    size_t body_count;
    unsigned pieces_count;
    struct rpc_piece pieces[];
};

/* One handle less; frees a closing rpc with the last. */
void rpc_handle_gone(void *rpc);

/* Make sure that the timer fires no later than the earliest deadline. */
void rpc_arm(struct rpc *rpc);

/* Calls: end those whose deadline has come; run the callbacks that are due; close all peers. */
void rpc_calls_expire(struct rpc *rpc);
void rpc_calls_run_ended(struct rpc *rpc);
void rpc_peers_close(struct rpc *rpc);
void rpc_servers_close(struct rpc *rpc);

/* Pack into fresh memory; NULL with *count 0 for an empty message, NULL with *count SIZE_MAX when
 * that fails. */
uint8_t *rpc_pack(const ProtobufCMessage *message, size_t *count);

#endif
