/* One framed TCP connection on a libuv loop: the place through which every byte of MorselFS comes
 * and goes, and where TLS will be added.
 *
 * Receiving: header and body are collected in a small buffer, the payload goes straight into a
 * payload of the pool. Sending: frames queue up and leave in batches when the loop is about to wait
 * (conn_flush(), called by the owner's prepare handle), so that many small frames cost one system
 * call.
 *
 * Life and receiving are in conn_uv.c, sending in conn_send_uv.c, how fast bytes come and go in
 * conn_pace_uv.c. A connection is counted: it lives until it is closed and every reference is
 * dropped.
 */
#ifndef MORSEL_COMMON_RPC_CONN_UV_H
#define MORSEL_COMMON_RPC_CONN_UV_H

#include "common/base/list.h"
#include "common/rpc/address.h"
#include "common/rpc/frame.h"
#include "common/rpc/payload.h"
#include "common/rpc/rpc_types.h"

#include <uv.h>

struct conn;

struct conn_hooks
{
    /* A whole frame. `body` is valid during the call; `*payload` may be taken by setting it to
     * NULL. */
    void (*frame)(struct conn *conn, const struct frame_header *header, const uint8_t *body,
                  struct payload **payload);
    /* The payload of a frame begins, and its memory counts. May be NULL. */
    void (*begun)(struct conn *conn);
    /* Bytes have left: the queue is shorter. May be NULL. */
    void (*sent)(struct conn *conn);
    /* So many bytes, of frames whose beginning had come already, took so long to come. NULL: not
     * wanted. */
    void (*flowed)(struct conn *conn, uint64_t bytes, uint64_t took_us);
    /* The connection is down (once); references may still be held. */
    void (*closed)(struct conn *conn, const char *why);
    /* Last reference dropped and handle closed: the owner's count of connections may fall. */
    void (*freed)(void *owner);
};

enum { CONN_PEER_NAME_MAX = 64 };

struct conn
{
    union {
        uv_tcp_t tcp;
        uv_handle_t handle;
        uv_stream_t stream;
    };
    const struct conn_hooks *hooks;
    void *owner; /* For hooks->freed. */
    void *data;  /* The user's. */
    struct payload_pool *pool;
    struct rpc_statistics *statistics;
    char peer[CONN_PEER_NAME_MAX];
    uint32_t references;
    bool closing, closed, reading, paused;
    const char *broken;   /* Why it is closed at the next iteration of the loop; NULL: it is not. */
    bool parsing;         /* Frames are being delivered. */
    bool have_header;     /* Of the frame that comes in. */
    bool flowed;          /* The link was waited for in the middle of the frame. */
    bool writing;         /* A uv_write is under way. */
    size_t memory;        /* Bytes that it holds: conn_charge(). */
    size_t *memory_total; /* Of all that share a limit; the owner's. May be NULL. */
    size_t frame_bytes_max; /* Body and payload of a frame that is taken; 0: any. */
    uint64_t moved_ms;      /* uv_now() when bytes came, left, or were the first to wait. */

    /* Receiving */
    uint8_t *in; /* Header and body of the frame in work, perhaps the start of the next. */
    size_t in_count, in_capacity; /* No buffer while nothing lies in it. */
    size_t in_charged;
    size_t released; /* Closing: what it gives back when the loop has turned, counted out. */
    struct frame_header header;
    struct payload *payload; /* Being filled; header and body are complete. */
    size_t payload_filled;
    /* How fast it comes; only with hooks->flowed. */
    uint64_t flow_at_us; /* When the last bytes came, if we wait for more of their frame; or 0. */
    uint64_t flow_bytes, flow_us;
    uint64_t in_total;

    /* Sending */
    struct list out;    /* struct out_frame */
    size_t out_bytes;   /* Queued, including what libuv is writing. */
    uint64_t out_total; /* Queued ever. */
    size_t out_offset;  /* Of the first frame, already written. */
    uv_write_t write;
    struct list *dirty; /* Connections to be flushed; the owner's list. */
    struct list dirty_node;

    /* The user's */
    struct list node;
    enum rpc_role role;
    uint64_t node_id;
    bool greeted;
    bool held; /* Its HELLO, `held_id`, is answered later. */
    uint64_t held_id;
    uint64_t came_ms;
    struct list by_node;    /* Among those of its peer's hash; greeted ones. */
    struct list unanswered; /* Among strangers, or among those that are held. */
};

/* A connection with one reference (the user's) and an initialised, unconnected handle. NULL: no
 * memory. */
struct conn *conn_new(uv_loop_t *loop, struct payload_pool *pool, struct rpc_statistics *statistics,
                      const struct conn_hooks *hooks, void *owner, struct list *dirty);

/* The handle is connected: set options, name the peer, begin to read. A libuv status. */
int conn_established(struct conn *conn);

/* Let the kernel hold little that it cannot send yet. For those who send what loses its worth, not
 * for those who answer: it costs them more system calls. */
void conn_keep_little(struct conn *conn);

/* Queue a frame. `body` (malloc'd, may be NULL) is taken over in every case; payload references are
 * taken again. False: no memory, or the connection is closing; nothing was queued. Lengths and
 * checksums of `header` are filled in. */
bool conn_send(struct conn *conn, struct frame_header *header, uint8_t *body, size_t body_count,
               const struct rpc_piece *pieces, unsigned pieces_count);

/* It is closed: what is queued does not go any more. */
void conn_forget_queued(struct conn *conn);

/* `count` bytes have come, and were looked at: for hooks->flowed. `drained`: there were no more. */
void conn_note_flow(struct conn *conn, size_t count, bool drained);

/* The frame that is delivered came in one piece, or in pieces that came faster than `rate`. */
bool conn_flows_faster(const struct conn *conn, uint64_t rate);

/* Bytes that were queued and that the peer's machine has not acknowledged. */
uint64_t conn_under_way(const struct conn *conn);

/* The least round trip that the kernel has seen, in microseconds; 0: not known. */
uint64_t conn_round_trip_us(const struct conn *conn);

/* Bytes that have come of the answer to `request_id`; 0: it has not begun. */
uint64_t conn_received_of(const struct conn *conn, uint64_t request_id);

/* Write what is queued as far as the socket takes it. */
void conn_flush(struct conn *conn);

/* Stop and go on reading and delivering: backpressure. What lies in the buffer is delivered by
 * conn_go_on(), which the owner's prepare handle calls for each connection on `dirty`. */
void conn_pause(struct conn *conn, bool pause);
void conn_go_on(struct conn *conn);

/* The connection holds so many bytes more, or less: its own buffers count by themselves, what its
 * frames lead to is the user's to count. Less before the last reference is dropped. */
void conn_charge(struct conn *conn, size_t bytes);
void conn_discharge(struct conn *conn, size_t bytes);

/* Of what it holds, what only reading on can end: the frame that comes in, and the buffer for it. */
size_t conn_coming_bytes(const struct conn *conn);

/* Of what it holds, what goes with it when it is closed: the frames that go out, and what has come
 * of the one that comes in. */
size_t conn_stuck_bytes(const struct conn *conn);

/* Begin to close: hooks->closed runs later, once. Harmless when repeated. `why` must be a literal
 * or live in the connection. */
void conn_close(struct conn *conn, const char *why);

/* The same from the next iteration of the loop, for those who may be in the middle of something: what is
 * lost now must be lost with the connection, so that both ends begin again. */
void conn_break(struct conn *conn, const char *why);

/* A socket address for a numeric host; false when a name must be looked up. */
bool conn_address_numeric(const struct address *address, struct sockaddr_storage *socket_address);

struct conn *conn_ref(struct conn *conn);
void conn_drop(struct conn *conn);

#endif
