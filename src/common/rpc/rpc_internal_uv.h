/* What rpc_loop_uv.c, rpc_peer_uv.c, rpc_call_uv.c and rpc_serve_uv.c share. Not for others:
 * rpc_uv.h is the interface. */
#ifndef MORSEL_COMMON_RPC_RPC_INTERNAL_UV_H
#define MORSEL_COMMON_RPC_RPC_INTERNAL_UV_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/rpc/address.h"
#include "common/rpc/conn_uv.h"
#include "common/rpc/op_numbers.h"
#include "common/rpc/pace.h"
#include "common/rpc/rpc_uv.h"

struct rpc
{
    uv_loop_t *loop;
    enum rpc_role role;
    uint64_t node_id;
    struct cluster_id cluster_id;
    char program[64];
    const uint64_t *lease_until_ns; /* NULL: bounded calls have no bound. */
    const uint64_t *lease_epoch;
    uint64_t start_id; /* Random; tells this run of the process from others. */
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
    bool numbers_freed;  /* A call may go that waits for a number. */

    bool closing;
    size_t
        handles; /* Connections, timers, listeners not yet closed; at 0 a closing rpc is freed. */
    void (*closed)(void *data);
    void *closed_data;
};

/* What goes before what: small calls always, the others as far as the link takes them. */
enum call_kind {
    CALL_SMALL,
    CALL_FETCHES, /* Its answer brings bytes. */
    CALL_SENDS,   /* It brings bytes itself. */
    CALL_KINDS
};

/* The connection of a peer:
 *
 *   IDLE -> RESOLVING -> CONNECTING -> GREETING -> UP
 *     ^         |            |            |        |
 *     +---------+------ BACKOFF <---------+--------+      a failure; without calls back to IDLE
 */
enum peer_state {
    PEER_IDLE,
    PEER_RESOLVING,
    PEER_CONNECTING,
    PEER_GREETING,
    PEER_UP,
    PEER_BACKOFF
};

struct rpc_peer
{
    struct rpc *rpc;
    struct list node; /* In rpc->peers. */
    char text[ADDRESS_TEXT_MAX];
    struct address address;
    enum peer_state state;
    struct conn *conn; /* From CONNECTING to UP. */
    uv_timer_t timer;  /* Backoff, or the limit for connecting. */
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    uint64_t backoff_ms;
    struct list waiting[CALL_KINDS], sent;
    uint64_t last_id;
    uint64_t start_id;
    struct frame_clock clock;
    bool asked_clock; /* While greeting: HELLO did not tell it. */
    bool clockless;   /* It is of a version that knows nothing of clocks, and of bounds. */
    struct pace sends, fetches;
    uint64_t fetching;      /* Bytes asked for, of the fetches that were sent. */
    uint64_t waiting_bytes; /* Of calls that bring bytes and wait. */
    uint64_t acknowledged;  /* Bytes of this connection, when that was looked at last. */
    uint64_t
        moved_ms; /* When that was more than before, or there was nothing else, or there had been. */
    bool all_acknowledged;     /* When that was looked at last. */
    uint64_t trip_at_us;       /* When the kernel was asked for the round trip. */
    bool room_wanted;          /* Somebody has been told since `room` ran that there is none; */
    bool fetch_room_wanted;    /* the same of fetches. */
    struct op_numbers numbers; /* Of the calls that are `once`; rpc_once_uv.c */
    op_sequence *numbers_out;  /* NULL: there was none yet. */
    bool number_wanted;        /* A call waits for one. */
    void (*room)(void *data);
    uint64_t expected_node; /* 0: anybody. */
    bool closing, timer_closed;
    unsigned pins; /* libuv requests and connections that still point here. */
    void (*up)(void *data);
    void (*refused)(void *data);
    void (*down)(void *data, const char *why);
    void (*push)(void *data, enum message_type type, const uint8_t *body, size_t body_count);
    void *watch_data;
};

/* A call is in exactly one place: waiting (to be sent), sent (to be answered), or ended (its
 * callback is due). */
struct rpc_call_state
{
    struct rpc_call *call;
    struct rpc_peer *peer;
    struct list node; /* In peer->waiting, peer->sent or rpc->ended. */
    enum call_kind kind;
    struct heap_node deadline; /* When to look whether it has moved, or to give it up. */
    uint64_t timeout_ms;       /* RPC_NO_DEADLINE: never. */
    uint64_t moved_ms;         /* When it was started, or has moved last. */
    uint64_t moved_to;         /* How far, by call_position(). */
    uint64_t id;
    enum message_type type;
    enum { CALL_NOWHERE, CALL_WAITING, CALL_SENT } place;
    int status; /* Once in rpc->ended. */
    uint64_t started_ns, sent_ns;
    uint64_t out_end;     /* Of its frame, among all bytes of the connection. */
    uint64_t lease_epoch; /* In which it was started. */
    op_sequence number;   /* Of one that is `once`, while it is out; 0: not sent yet. */
    uint64_t sent_to;     /* The start_id of the server to which that was sent last; 0: none. */
    uint8_t *body;
    size_t body_count;
    unsigned pieces_count;
    struct rpc_piece pieces[];
};

/* One handle less; frees a closing rpc with the last. */
void rpc_handle_gone(void *rpc);

/* Make sure that the timer fires no later than the earliest deadline. */
void rpc_arm(struct rpc *rpc);

void rpc_peers_close(struct rpc *rpc);
void rpc_servers_close(struct rpc *rpc);

/* A call waits: send it, or see to a connection. */
void rpc_peer_go(struct rpc_peer *peer);

/* ---- Calls: rpc_call_uv.c ---- */

/* It backs off, and somebody asks: the next try comes soon. */
void rpc_peer_hurry(struct rpc_peer *peer);

/* There is no connection: those that are impatient end. */
void rpc_calls_give_up(struct rpc_peer *peer);

/* End those whose deadline has come; run the callbacks that are due. */
void rpc_calls_expire(struct rpc *rpc);
void rpc_calls_run_ended(struct rpc *rpc);

/* All calls of the peer end with `status`, later. */
void rpc_calls_end(struct rpc_peer *peer, int status);

/* The connection broke: what was sent goes back to the front of what waits, in its old order. */
void rpc_calls_take_back(struct rpc_peer *peer);

/* The peer is up: send what waits, as far as the link takes it. */
void rpc_calls_send(struct rpc_peer *peer);

/* The answer to one of them; others are passed over: they were cancelled or timed out. `*payload`
 * is taken. */
void rpc_call_take_reply(struct rpc_peer *peer, const struct frame_header *header,
                         const uint8_t *body, struct payload **payload);

/* ---- Calls that are `once`: rpc_once_uv.c ---- */

enum { RPC_ONCE_BYTES = 20 };

/* Before the first is started. MORSEL_NOMEM. */
int rpc_once_begin(struct rpc_peer *peer);

/* Is there a number for it, or has it one? */
bool rpc_once_may_go(struct rpc_peer *peer, const struct rpc_call_state *s);

/* It is about to be sent: MORSEL_OK, and its number and what goes with it are written behind the
 * packed request, RPC_ONCE_BYTES at `end`; or MORSEL_UNSURE: it must not be sent (again). */
int rpc_once_send(struct rpc_peer *peer, struct rpc_call_state *s, uint8_t *end);

/* It has ended, whatever came of it. Harmless for one that has no number. */
void rpc_once_ended(struct rpc_call_state *s);

/* Numbers have become free: calls that wait for them go on. */
void rpc_once_go_on(struct rpc *rpc);

/* ---- Their pace: rpc_pace_uv.c ---- */

/* A new connection: nothing is known of the link, and nothing is under way. */
void rpc_pace_begin(struct rpc_peer *peer);

/* It is connected: the round trip of that is known. */
void rpc_pace_connected(struct rpc_peer *peer);

/* Look how far the bytes of the connection have come. The number under way. */
uint64_t rpc_pace_look(struct rpc_peer *peer);

/* Does the link take another call of this kind now? */
bool rpc_pace_may_go(struct rpc_peer *peer, enum call_kind kind);

/* The call waits (front: before the others); it is in the connection's queue; its answer brings so
 * many bytes; it is not in line any more, answered or not. */
void rpc_pace_waits(struct rpc_peer *peer, struct rpc_call_state *s, bool front);
void rpc_pace_sent(struct rpc_peer *peer, struct rpc_call_state *s);
void rpc_pace_answered(struct rpc_peer *peer, const struct rpc_call_state *s, uint64_t bytes);
void rpc_pace_ended(struct rpc_peer *peer, struct rpc_call_state *s);

/* Something has come or gone: there may be room. */
void rpc_pace_go_on(struct rpc_peer *peer);

/* Pack into fresh memory; NULL with *count 0 for an empty message, NULL with *count SIZE_MAX when
 * that fails. */
uint8_t *rpc_pack(const ProtobufCMessage *message, size_t *count);

#endif
