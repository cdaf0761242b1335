/* Requests and replies over TCP on a libuv loop: calls with deadlines, reconnection, backpressure.
 *
 * One rpc_uv a process (or a test). Everything runs on the loop's thread. All connections of
 * MorselFS are made and accepted in conn_uv.c, where TLS will be added.
 *
 * Calls. A call goes to a peer, which connects when first needed and reconnects with a short
 * backoff (20 ms, doubling to 500 ms; 50 ms where calls go elsewhere meanwhile) while calls are waiting. A call whose connection breaks
 * before the answer came is sent again on the next one, until its deadline: so every request must
 * be harmless when it arrives twice (reads are by nature; changes of metadata carry an operation
 * id, and those of data are `once`). The same with one that a server answers with MORSEL_SHUTDOWN,
 * because it is ending: an end in good order costs no more than one without.
 *
 * Once. A call that is `once` is a change of data, which must not take effect a second time behind
 * what others have changed meanwhile. When it is sent first it gets a number of its own at that
 * server, which goes with it (data.proto, Change) each time, and under which the server remembers
 * the answer (src/common/serve/repeats.h). At most DATA_OPS_PENDING_MAX are out; others wait. A
 * server that was started again since it was sent remembers nothing: then the call ends with
 * MORSEL_UNSURE, unless it is `exclusive`: nobody else can have changed the same as long as the
 * lease period lasts in which it was begun.
 *
 * Callback law: a start function that returns non-zero never calls back; one that returns 0 calls
 * back exactly once, never before it returns.
 *
 * Reconnection. A peer that has connected again gets no answer before the bounded requests of its older
 * connections have come to their end: what it sends again must not be overtaken by what it sent
 * before.
 *
 * Not after. A call that is `bounded` is not carried out by a server after the end of the caller's
 * lease period (rpc_set_lease()), however long it lay in a queue or a broken network: it says so in the
 * server's own time (frame.h), which it knows from HELLO, or CLOCK, and every answer since; a
 * server that tells it in none of them is of a version that knows no bounds. The server refuses it
 * with MORSEL_TOO_LATE then. Both clocks go on while the machine sleeps. Lease periods have numbers: a call
 * that was begun in one is not sent (again) in another, and ends with MORSEL_TOO_LATE here.
 *
 * Pace. Calls with a payload, and those whose answer brings one (`fetches`), go out as far as the
 * link takes them within a fraction of a second (pace.h), in their order; all others go before
 * them. So a call that is bounded gets its bound when its bytes go to the socket, and what shares
 * the link waits behind little. Their time-outs count from when their bytes moved last; those of
 * other calls from the start.
 *
 * Backpressure. A server connection that holds more than its share of memory, for requests without
 * an answer or because its peer does not take its answers, is not read until that has changed:
 * rpc_guests_uv.c.
 */
#ifndef MORSEL_COMMON_RPC_RPC_UV_H
#define MORSEL_COMMON_RPC_RPC_UV_H

#include "common/base/errmsg.h"
#include "common/base/list.h"
#include "common/base/types.h"
#include "common/rpc/messages.h"
#include "common/rpc/payload.h"
#include "common/rpc/rpc_types.h"

#include <protobuf-c/protobuf-c.h>
#include <stdalign.h>
#include <stddef.h>
#include <uv.h>

struct rpc;

struct rpc_options
{
    enum rpc_role role;
    uint64_t node_id; /* Sent in HELLO; may be changed with rpc_set_node_id(). */
    struct cluster_id
        cluster_id; /* All zero: not known yet; learned from the first server that knows. */
    size_t payload_idle_bytes_max; /* See payload_pool_new(). */
    const char *program;           /* "morsel-iod 0.1.0" */
};

/* `loop` is borrowed and must outlive the rpc. MORSEL_NOMEM. */
int rpc_new(uv_loop_t *loop, const struct rpc_options *options, struct rpc **rpc_out);

/* Close everything; pending calls end with MORSEL_SHUTDOWN. `closed` runs once, later, and then the
 * rpc is freed. */
void rpc_close(struct rpc *rpc, void (*closed)(void *data), void *data);

/* When the lease period of bounded calls ends, on rpc_boot_ns(), and its number; read at each sending, and
 * the number when a call is started. Without them they have no bound. */
void rpc_set_lease(struct rpc *rpc, const uint64_t *until_ns, const uint64_t *number);

/* Nanoseconds since the machine was started, the time that it slept included. */
uint64_t rpc_boot_ns(void);
uint64_t rpc_boot_ms(void);

/* The number of this process, random, never 0: those that it serves hear it with HELLO (rpc_peer_start_id()). */
uint64_t rpc_start_id(const struct rpc *rpc);

void rpc_set_node_id(struct rpc *rpc, uint64_t node_id);
void rpc_set_cluster_id(struct rpc *rpc, const struct cluster_id *id);
const struct cluster_id *rpc_cluster_id(const struct rpc *rpc);
bool cluster_id_known(const struct cluster_id *id);
bool cluster_id_equal(const struct cluster_id *a, const struct cluster_id *b);
struct payload_pool *rpc_payloads(struct rpc *rpc);
uv_loop_t *rpc_loop(struct rpc *rpc);

/* Milliseconds on the loop's monotonic clock (uv_now). */
uint64_t rpc_now_ms(const struct rpc *rpc);

/* ---- Calling ---- */

struct rpc_peer; /* A server that we call. Owned by the rpc; lives until rpc_close() or
                    rpc_peer_close(). */

/* `address` is "host:port" (IPv4, [IPv6] or a name). MORSEL_INVAL with words for one that is
 * neither. No connection is made yet. */
int rpc_peer_new(struct rpc *rpc, const char *address, struct rpc_peer **peer_out,
                 struct errmsg *err);
int rpc_peer_set_address(struct rpc_peer *peer, const char *address, struct errmsg *err);
const char *rpc_peer_address(const struct rpc_peer *peer);
bool rpc_peer_connected(const struct rpc_peer *peer);

/* Our address on the connection to the peer, with another port: where others reach us who are where it is. Into
 * ADDRESS_TEXT_MAX bytes (address.h). False: not connected. */
bool rpc_peer_own_address(const struct rpc_peer *peer, uint16_t port, char *text);

/* The server's start_id of the last HELLO; 0 before the first. */
uint64_t rpc_peer_start_id(const struct rpc_peer *peer);

/* `up` runs after each successful HELLO, before waiting calls are sent; `down` when a connection
 * that was up is lost, with the reason. Either may be NULL. */
void rpc_peer_watch(struct rpc_peer *peer, void (*up)(void *data),
                    void (*down)(void *data, const char *why), void *data);

/* `refused` runs, with the data of rpc_peer_watch(), when the server's machine has said that nobody
 * listens there: its process is not running. May be NULL. */
void rpc_peer_on_refused(struct rpc_peer *peer, void (*refused)(void *data));

/* `push` runs for each message that the server sends unasked (rpc_push()), in order with the
 * replies of the connection, with the data of rpc_peer_watch(). `body` is valid during the call.
 * Without it such a message ends the connection. */
void rpc_peer_on_push(struct rpc_peer *peer, void (*push)(void *data, enum message_type type,
                                                          const uint8_t *body, size_t body_count));

/* Connected, and owing an answer? */
bool rpc_peer_is_asked(const struct rpc_peer *peer);

/* The server's answer to CLOCK: its clock was `boot_ms` at some time before now. Newer servers tell
 * it in every answer. */
void rpc_peer_note_clock(struct rpc_peer *peer, uint64_t boot_ms);

/* Connected, and nothing has been heard of its clock for so long? */
bool rpc_peer_clock_is_old(const struct rpc_peer *peer, uint64_t age_ms);

/* Connected, and its machine has acknowledged what was sent, or some of it within `age_ms`? An answer says less: it may have
 * been on its way to us, or in the making, when our bytes ceased to arrive. As true as it is asked often, for time is counted
 * from one question to the next; while an answer is owed, that is. */
bool rpc_peer_hears(struct rpc_peer *peer, uint64_t age_ms);

/* May another frame of rpc_peer_frame_bytes() be sent now, without more being under way than the
 * link carries in short time (pace.h)? A call with a payload that is started all the same waits
 * here until it may. True while the peer is not connected, and while nothing has moved for a
 * second: then what is sent is to wait, and to end by its deadline. */
bool rpc_peer_has_room(struct rpc_peer *peer);
uint32_t rpc_peer_frame_bytes(const struct rpc_peer *peer);

/* The same for what is asked for. */
bool rpc_peer_has_fetch_room(struct rpc_peer *peer);
uint32_t rpc_peer_fetch_bytes(const struct rpc_peer *peer);

/* `room` runs, with the data of rpc_peer_watch(), when an answer has come and there is room again,
 * to send or to fetch, of which somebody has been told that there was none. */
void rpc_peer_on_room(struct rpc_peer *peer, void (*room)(void *data));

/* Only talk to the server of this id: addresses are used again, and another server's objects must
 * never be taken for this one's. While somebody else answers there, the peer counts as unreachable.
 * 0: anybody. */
void rpc_peer_expect(struct rpc_peer *peer, uint64_t node_id);

/* Not connected, and somebody waits for that? */
bool rpc_peer_is_awaited(const struct rpc_peer *peer);

/* Nobody will ever answer there: pending calls end with `status`, later. */
void rpc_peer_give_up(struct rpc_peer *peer, int status);

/* Pending calls end with MORSEL_CANCELED, later. */
void rpc_peer_close(struct rpc_peer *peer);

struct rpc_call;

struct rpc_reply
{
    const uint8_t *body; /* Packed message, valid during the callback. With a failure: empty. */
    size_t body_count;
    struct payload *payload; /* May be NULL. The callee may take it: set the field to NULL. */
    const char *text;        /* With a failure: what the server said, or "". */
    bool again; /* Set by the callee: send the same request once more, under its old deadline. Then
                   the call must stay. */
};

/* `status` is 0, what the server answered, or ours: MORSEL_TIMEDOUT (connected, no answer),
 * MORSEL_UNREACHABLE (not connected at the deadline), MORSEL_CANCELED, MORSEL_SHUTDOWN,
 * MORSEL_WRONG_CLUSTER, MORSEL_VERSION, MORSEL_NOMEM, MORSEL_UNSURE (it may have been carried out
 * once). `reply` is never NULL. The call may be started again or freed inside. */
typedef void (*rpc_call_cb)(struct rpc_call *call, int status, struct rpc_reply *reply);

/* Embed it in what the request is about. Fields are the module's own. */
struct rpc_call
{
    struct rpc_peer *peer;
    rpc_call_cb done;
    void *data;     /* The caller's. */
    bool bounded;   /* The caller's; false unless it says otherwise. */
    bool first;     /* The caller's: goes before all that waits already. */
    bool once;      /* The caller's: a change of data; bounded, too. */
    bool exclusive; /* The caller's, of one that is `once`: we alone may change the object. */
    /* The caller's: another server can be asked. It ends with MORSEL_UNREACHABLE when its connection
     * breaks or cannot be made, and with MORSEL_SHUTDOWN when its server answers that. It may have been
     * carried out. */
    bool impatient;
    uint32_t fetches; /* The caller's: about so many bytes come with the answer; 0: few. */
    uint64_t
        until_ms; /* The caller's, of one that is not bounded: not after this, on rpc_boot_ms(); 0: whenever. */
    struct rpc_call_state *state; /* NULL while not started. */
};

/* Deadline that never comes. */
#define RPC_NO_DEADLINE UINT64_MAX

/* Start a call. `request` is packed before this returns. `pieces` (at most RPC_PIECES_MAX; NULL for
 * none) go out as payload; the rpc takes references of its own, and the bytes must stay as they are
 * until `done`. `timeout_ms` counts from now (RPC_NO_DEADLINE: for ever). MORSEL_NOMEM,
 * MORSEL_TOO_LARGE. */
int rpc_call_start(struct rpc_call *call, struct rpc_peer *peer, enum message_type type,
                   const ProtobufCMessage *request, const struct rpc_piece *pieces,
                   unsigned pieces_count, uint64_t timeout_ms, rpc_call_cb done);

/* The same with a request that is packed already; the bytes are copied. */
int rpc_call_start_packed(struct rpc_call *call, struct rpc_peer *peer, enum message_type type,
                          struct slice request, const struct rpc_piece *pieces,
                          unsigned pieces_count, uint64_t timeout_ms, rpc_call_cb done);

/* End a call early: `done` runs later with MORSEL_CANCELED. Harmless for a call that is not
 * started. */
void rpc_call_cancel(struct rpc_call *call);
bool rpc_call_active(const struct rpc_call *call);

/* A request without reply: sent if the peer is connected, dropped otherwise. Without memory for it
 * the connection ends, soon: what must not get lost is said again after the next one. */
void rpc_send_oneway(struct rpc_peer *peer, enum message_type type,
                     const ProtobufCMessage *request);

/* There is no memory for what the server has pushed: begin again, with another connection, soon. */
void rpc_peer_break(struct rpc_peer *peer);

/* Unpack a body; NULL when it is malformed, or there is no memory. Free with
 * protobuf_c_message_free_unpacked(). */
void *rpc_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *body, size_t body_count);

/* The same, with the reason: MORSEL_MALFORMED or MORSEL_NOMEM; `message` is NULL then. */
int rpc_try_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *body, size_t body_count,
                   void **message);

/* Where a message is unpacked to: all but the large ones need no memory then. For the stack of
 * whoever is told of an answer or a push, which cannot be asked for again. */
struct rpc_room
{
    ProtobufCAllocator allocator;
    size_t used;
    bool failed; /* There was no memory for what does not fit. */
    alignas(max_align_t) uint8_t bytes[4096];
};

/* As rpc_try_unpack(). Free with rpc_room_free(). */
int rpc_unpack_in(struct rpc_room *room, const ProtobufCMessageDescriptor *type,
                  const uint8_t *body, size_t body_count, void **message);
void rpc_room_free(struct rpc_room *room, void *message); /* NULL is allowed. */

/* ---- Serving ---- */

struct rpc_server;

/* One request, from its arrival until rpc_reply(). */
struct rpc_request
{
    enum message_type
        type; /* Not checked against the list: answer unknown ones with MORSEL_UNKNOWN_TYPE. */
    const uint8_t *body; /* Packed message; lives as long as the request. */
    size_t body_count;
    struct payload *payload; /* May be NULL. The handler may take it: set the field to NULL. */
    uint64_t deadline_ms;    /* On rpc_now_ms(); UINT64_MAX: none. */
    uint32_t not_after;      /* rpc_request_is_late() */
    enum rpc_role role;      /* What the peer said that it is. */
    uint64_t node_id;        /* Its client_id or server_id; 0: none. */
    bool oneway;             /* rpc_reply() is still due, and sends nothing. */
    void *data;              /* The handler's. */
    struct conn *conn;       /* The module's own. */
    struct list node;        /* Of those with a not_after, until they are answered. */
    uint64_t request_id;
    uint64_t arrived_ns;
    uint64_t begun_ns; /* 0: when it arrived. See rpc_request_worked(). */
    size_t budget_bytes;
};

typedef void (*rpc_handler)(void *data, struct rpc_request *request);

struct rpc_server_hooks
{
    rpc_handler handle; /* Each request; must lead to one rpc_reply(). */
    void (*gone)(void *data, enum rpc_role role,
                 uint64_t node_id); /* The last connection of a peer ended. May be NULL. */
    bool (*valued)(void *data, enum rpc_role role,
                   uint64_t node_id); /* When there is room for some only: is it one of those whom
                                         this cluster is for? NULL: nobody is. */
    void *data;
};

/* Listen on "host:port" (port 0: any). MORSEL_BUSY and other statuses with one clear sentence in
 * `err`. */
int rpc_listen(struct rpc *rpc, const char *address, const struct rpc_server_hooks *hooks,
               struct rpc_server **server_out, struct errmsg *err);

/* Take at most so many connections; SERVER_CONNS_MAX before. For a process that may not open more.
 */
void rpc_server_set_conns_max(struct rpc_server *server, uint32_t conns_max);

/* A connection of a client is to have so many bytes of requests without an answer at most, beyond its first one;
 * more is not read from it, and waits on the other side as in front of a slow link. 0: as many as there is room for. */
void rpc_server_set_client_share(struct rpc_server *server, size_t bytes);

struct rpc_server_statistics
{
    uint32_t connections, strangers;
    size_t queued_bytes; /* That all connections hold. */
};

void rpc_server_statistics(const struct rpc_server *server, struct rpc_server_statistics *out);

/* "127.0.0.1:40123": where it really listens. */
const char *rpc_server_address(const struct rpc_server *server);

/* Answer, once, and free the request. `reply` may be NULL (Empty). `payload` may be NULL; the
 * reference is taken over. With a failure status, `text` (may be NULL) travels along instead of
 * `reply`. */
void rpc_reply(struct rpc_request *request, const ProtobufCMessage *reply, struct payload *payload);
void rpc_reply_failure(struct rpc_request *request, int status, const char *text);

/* As rpc_reply(), with a message that another server has packed; the bytes are copied. */
void rpc_reply_packed(struct rpc_request *request, struct slice body, struct payload *payload);

/* The same for what nobody will hear the end of, and which must not get lost: there was no memory
 * for it, and so the connection ends, soon. */
void rpc_request_lost(struct rpc_request *request);

/* Send a peer that is connected something unasked, without a reply, in order with the replies that
 * it is sent. False: no such peer is connected, or its connection has just been closed for want of
 * memory. */
bool rpc_push(struct rpc_server *server, enum rpc_role role, uint64_t node_id,
              enum message_type type, const ProtobufCMessage *message);

/* The peer of this request has just been given `node_id`, which its HELLO could not name yet: from
 * now on it is found by it. */
void rpc_request_name_peer(struct rpc_request *request, uint64_t node_id);

/* The address of a peer that is connected, into ADDRESS_TEXT_MAX bytes (address.h). False: it is
 * not. */
bool rpc_node_address(const struct rpc_server *server, enum rpc_role role, uint64_t node_id,
                      char *text);

/* Close the connections of a peer; hooks->gone follows. */
void rpc_disconnect(struct rpc_server *server, enum rpc_role role, uint64_t node_id,
                    const char *why);

/* Unpack the request's body, or answer MORSEL_MALFORMED (which ends the request) and return NULL.
 */
void *rpc_request_unpack(struct rpc_request *request, const ProtobufCMessageDescriptor *type);

/* Must the request not be carried out any more? From any thread. */
bool rpc_request_is_late(const struct rpc_request *request);

/* For the statistics: the request waited until `begun_ns` (uv_hrtime()), and from then until
 * `ended_ns` a thread was at work on it. What the handler does before it returns is counted without
 * this. */
void rpc_request_worked(struct rpc_request *request, uint64_t begun_ns, uint64_t ended_ns);

/* Address of the peer, for logs. */
const char *rpc_request_peer(const struct rpc_request *request);

/* ---- Statistics ---- */

const struct rpc_statistics *rpc_statistics(const struct rpc *rpc);

#endif
