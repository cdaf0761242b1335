/* Receiving: frames are put together in the buffer of the connection, payloads where they are
 * used. */
#include "common/rpc/conn_uv.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

enum {
    IN_BYTES =
        16
        << 10, /* Enough for a batch of small frames; a payload's start is copied out of it once. */
    DEAD_PEER_MS =
        10000 /* Sent bytes without an acknowledgement: the path is gone, connect again. */
};

struct conn *conn_new(uv_loop_t *loop, struct payload_pool *pool, struct rpc_statistics *statistics,
                      const struct conn_hooks *hooks, void *owner, struct list *dirty)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    if (uv_tcp_init(loop, &conn->tcp) != 0) {
        free(conn);
        return NULL;
    }
    conn->hooks = hooks;
    conn->owner = owner;
    conn->pool = pool;
    conn->statistics = statistics;
    conn->dirty = dirty;
    conn->references = 1;
    list_init(&conn->out);
    list_init(&conn->dirty_node);
    list_init(&conn->node);
    list_init(&conn->by_node);
    list_init(&conn->unanswered);
    return conn;
}

bool conn_address_numeric(const struct address *address, struct sockaddr_storage *socket_address)
{
    memset(socket_address, 0, sizeof(*socket_address));
    return uv_ip4_addr(address->host, address->port_number, (struct sockaddr_in *)socket_address) ==
               0 ||
           uv_ip6_addr(address->host, address->port_number,
                       (struct sockaddr_in6 *)socket_address) == 0;
}

struct conn *conn_ref(struct conn *conn)
{
    CHECK(conn->references > 0);
    conn->references++;
    return conn;
}

void conn_charge(struct conn *conn, size_t bytes)
{
    conn->memory += bytes;
    if (conn->memory_total != NULL) {
        *conn->memory_total += bytes;
    }
}

void conn_discharge(struct conn *conn, size_t bytes)
{
    CHECK(bytes <= conn->memory);
    conn->memory -= bytes;
    if (conn->memory_total != NULL) {
        CHECK(bytes <= *conn->memory_total);
        *conn->memory_total -= bytes;
    }
}

static void conn_free_if_done(struct conn *conn)
{
    void (*freed)(void *owner) = conn->hooks->freed;
    void *owner = conn->owner;

    if (!conn->closed || conn->references > 0) {
        return;
    }
    CHECK(conn->memory == 0);
    free(conn);
    freed(owner);
}

void conn_drop(struct conn *conn)
{
    CHECK(conn->references > 0);
    conn->references--;
    if (conn->references == 0 && !conn->closing) {
        conn_close(conn, "not needed any more");
    }
    conn_free_if_done(conn);
}

/* An idle connection has no buffer: there may be many. */
static void release_in(struct conn *conn)
{
    if (conn->in_count == 0 && conn->payload == NULL) {
        free(conn->in);
        conn->in = NULL;
        conn->in_capacity = 0;
        conn_discharge(conn, conn->in_charged);
        conn->in_charged = 0;
    }
}

size_t conn_coming_bytes(const struct conn *conn)
{
    return conn->in_charged + (conn->payload != NULL ? conn->header.payload_length : 0);
}

size_t conn_stuck_bytes(const struct conn *conn)
{
    return conn->out_bytes + conn_coming_bytes(conn);
}

/* What goes with the connection counts no more from its closing, so that whoever makes room sees
 * the room that it has made. */
static void count_out(struct conn *conn)
{
    if (conn->memory_total != NULL) {
        conn->released = conn_stuck_bytes(conn);
        *conn->memory_total -= conn->released;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;

    if (conn->memory_total != NULL) {
        *conn->memory_total += conn->released; /* It is counted out one by one. */
    }
    conn_forget_queued(conn);
    if (conn->payload != NULL) {
        conn_discharge(conn, conn->header.payload_length);
        payload_drop(conn->payload);
        conn->payload = NULL;
    }
    conn->in_count = 0;
    release_in(conn);
    conn->closed = true;
    conn_free_if_done(conn);
}

void conn_close(struct conn *conn, const char *why)
{
    if (conn->closing) {
        return;
    }
    conn->closing = true;
    count_out(conn);
    list_remove(&conn->dirty_node);
    conn->handle.data = conn;
    /* The user may drop its reference in `closed`, so the handle is closed first: it ends
     * asynchronously. */
    uv_close(&conn->handle, on_closed);
    conn->hooks->closed(conn, why);
}

void conn_break(struct conn *conn, const char *why)
{
    conn->broken = why;
    if (!conn->closing && list_empty(&conn->dirty_node)) {
        list_push_back(conn->dirty, &conn->dirty_node);
    }
}

/* ---- Receiving ---- */

static bool grow_in(struct conn *conn, size_t capacity)
{
    uint8_t *in = realloc(conn->in, capacity);

    if (in == NULL) {
        return false;
    }
    conn_discharge(conn, conn->in_charged);
    conn_charge(conn, capacity);
    conn->in_charged = conn->in_capacity = capacity;
    conn->in = in;
    return true;
}

static size_t in_bytes(const struct conn *conn)
{
    size_t most = FRAME_HEADER_BYTES + conn->frame_bytes_max;

    return conn->frame_bytes_max != 0 && most < IN_BYTES ? most : IN_BYTES;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *conn = handle->data;

    (void)suggested;
    if (conn->payload != NULL) {
        buf->base = (char *)conn->payload->data + conn->payload_filled;
        buf->len = conn->header.payload_length - conn->payload_filled;
        return;
    }
    if (conn->in == NULL && !grow_in(conn, in_bytes(conn))) {
        *buf = uv_buf_init(NULL, 0); /* on_read() is told. */
        return;
    }
    buf->base = (char *)conn->in + conn->in_count;
    buf->len = conn->in_capacity - conn->in_count;
}

static void deliver(struct conn *conn, const uint8_t *body)
{
    struct payload *payload = conn->payload;

    if (payload != NULL) {
        conn_discharge(conn, conn->header.payload_length); /* Whoever takes it counts it. */
    }
    conn->payload = NULL;
    conn->have_header = false;
    conn->hooks->frame(conn, &conn->header, body, &payload);
    payload_drop(payload);
}

/* Drop the first `count` bytes of the input buffer. */
static void consume(struct conn *conn, size_t count)
{
    memmove(conn->in, conn->in + count, conn->in_count - count);
    conn->in_count -= count;
}

static bool grow_for_body(struct conn *conn, size_t need)
{
    if (need > conn->in_capacity && !grow_in(conn, need)) {
        conn_close(conn, "out of memory for a message");
        return false;
    }
    return true;
}

static bool take_header(struct conn *conn, const uint8_t *at)
{
    int rv = frame_decode(at, &conn->header);

    if (rv == MORSEL_OK && conn->frame_bytes_max != 0 &&
        conn->header.body_length + (size_t)conn->header.payload_length > conn->frame_bytes_max) {
        conn->statistics->frames_malformed++;
        conn_close(conn, "too large a message of somebody unknown");
        return false;
    }
    if (rv == MORSEL_OK) {
        conn->have_header = true;
        return true;
    }
    conn->statistics->frames_malformed++;
    if (rv == MORSEL_VERSION) {
        /* The sender learns why before the line goes dead: the head of every version is the same.
         */
        struct frame_header reply = { .version = FRAME_VERSION,
                                      .flags = FRAME_REPLY,
                                      .type = conn->header.type,
                                      .request_id = conn->header.request_id,
                                      .status = MORSEL_VERSION };
        if (conn_send(conn, &reply, NULL, 0, NULL, 0)) {
            conn_flush(conn);
        }
        conn_close(conn, "peer speaks another version of the protocol");
    } else {
        conn_close(conn, "malformed frame");
    }
    return false;
}

/* Header and body lie at `at`; begin the payload with what is there of it. Returns the bytes used
 * from `rest`, or SIZE_MAX when the connection was closed. */
static size_t begin_payload(struct conn *conn, const uint8_t *rest, size_t rest_count)
{
    size_t take = rest_count;

    conn->payload = payload_new(conn->pool, conn->header.payload_length);
    if (conn->payload == NULL) {
        conn_close(conn, "out of memory for a payload");
        return SIZE_MAX;
    }
    conn_charge(conn, conn->header.payload_length);
    if (conn->hooks->begun != NULL) {
        conn->hooks->begun(conn);
        if (conn->closing) {
            return SIZE_MAX;
        }
    }
    if (take > conn->header.payload_length) {
        take = conn->header.payload_length;
    }
    memcpy(conn->payload->data, rest, take);
    conn->payload_filled = take;
    return take;
}

/* Deliver the whole frames that lie in the input buffer, until somebody says that it is enough for
 * now. A frame whose payload is still to come keeps its body at the front of the buffer. */
static void parse_frames(struct conn *conn)
{
    size_t at = 0;

    while (!conn->closing && !conn->paused) {
        size_t left = conn->in_count - at, head, used;

        if (!conn->have_header &&
            (left < FRAME_HEADER_BYTES || !take_header(conn, conn->in + at))) {
            break;
        }
        head = FRAME_HEADER_BYTES + conn->header.body_length;
        if (left < head) {
            consume(conn, at);
            (void)grow_for_body(conn, head);
            return;
        }
        if (crc32c(0, conn->in + at + FRAME_HEADER_BYTES, conn->header.body_length) !=
            conn->header.body_crc) {
            conn->statistics->frames_malformed++;
            conn_close(conn, "message does not match its checksum");
            return;
        }
        if (conn->header.payload_length > 0) {
            used = begin_payload(conn, conn->in + at + head, left - head);
            if (used == SIZE_MAX) {
                return;
            }
            if (used < conn->header.payload_length) {
                consume(conn, at);
                conn->in_count = head;
                return;
            }
            deliver(conn, conn->in + at + FRAME_HEADER_BYTES);
            at += head + used;
        } else {
            deliver(conn, conn->in + at + FRAME_HEADER_BYTES);
            at += head;
        }
    }
    if (!conn->closing) {
        consume(conn, at);
    }
}

static void parse(struct conn *conn)
{
    conn->parsing = true;
    parse_frames(conn);
    conn->parsing = false;
    if (!conn->closing) {
        release_in(conn);
    }
}

void conn_go_on(struct conn *conn)
{
    if (conn->closing || conn->paused || conn->parsing || conn->payload != NULL ||
        conn->in_count == 0) {
        return;
    }
    conn_ref(conn);
    parse(conn);
    conn_drop(conn);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;
    bool drained = count >= 0 && (size_t)count < buf->len;

    if (count == 0 || conn->closing) {
        return;
    }
    if (count < 0) {
        conn_close(conn, count == UV_EOF ? "closed by the peer" : uv_strerror((int)count));
        return;
    }
    conn->statistics->bytes_in += (uint64_t)count;
    conn->moved_ms = uv_now(conn->handle.loop);
    conn->in_total += (uint64_t)count;
    conn->flowed = conn->flow_at_us != 0;
    conn_ref(conn);
    if (conn->payload == NULL) {
        conn->in_count += (size_t)count;
        parse(conn);
    } else {
        conn->payload_filled += (size_t)count;
        if (conn->payload_filled == conn->header.payload_length) {
            deliver(conn, conn->in + FRAME_HEADER_BYTES);
            conn->in_count = 0;
            if (!conn->closing) {
                release_in(conn);
            }
        }
    }
    if (conn->hooks->flowed != NULL && !conn->closing) {
        conn_note_flow(conn, (size_t)count, drained);
    }
    conn_drop(conn);
}

/* Both ends are this socket: see choose_port() in rpc_serve_uv.c. */
static bool is_connected_to_itself(struct conn *conn, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own;
    int size = sizeof(own);

    memset(&own, 0, sizeof(own));
    return uv_tcp_getsockname(&conn->tcp, (struct sockaddr *)&own, &size) == 0 &&
           memcmp(&own, peer, (size_t)size) == 0;
}

int conn_established(struct conn *conn)
{
    struct sockaddr_storage address;
    int size = sizeof(address), fd, on = 1, dead_ms = DEAD_PEER_MS;
    char host[48] = "?";
    uint16_t port = 0;

    memset(&address, 0, sizeof(address));
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &size) == 0) {
        (void)uv_ip_name((struct sockaddr *)&address, host, sizeof(host));
        port = address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                             : ((struct sockaddr_in *)&address)->sin_port;
    }
    (void)snprintf(conn->peer, sizeof(conn->peer),
                   address.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, ntohs(port));
    if (is_connected_to_itself(conn, &address)) {
        return UV_ECONNREFUSED;
    }
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    (void)uv_tcp_keepalive(&conn->tcp, 1, 5);
    if (uv_fileno(&conn->handle, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
    }
    conn->handle.data = conn;
    conn->reading = true;
    return uv_read_start(&conn->stream, on_alloc, on_read);
}

void conn_pause(struct conn *conn, bool pause)
{
    if (conn->closing || conn->paused == pause) {
        return;
    }
    conn->paused = pause;
    if (pause) {
        (void)uv_read_stop(&conn->stream);
    } else {
        (void)uv_read_start(&conn->stream, on_alloc, on_read);
        if (conn->in_count > 0 && !conn->parsing && list_empty(&conn->dirty_node)) {
            list_push_back(conn->dirty, &conn->dirty_node); /* conn_go_on() sees to the rest. */
        }
    }
}
