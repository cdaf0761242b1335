/* Peers: whom we call, and the connections to them. */
#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/rpc_internal_uv.h"

#include <stdlib.h>
#include <string.h>

enum {
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 500,
    BACKOFF_HURRY_MS = 50, /* ... at most, when a call goes elsewhere meanwhile. */
    CONNECT_MS = 3000      /* For name, connection and HELLO together */
};

static void peer_connect(struct rpc_peer *peer);

static bool calls_wait(const struct rpc_peer *peer)
{
    bool wait = false;

    for (unsigned i = 0; i < CALL_KINDS; i++) {
        wait = wait || !list_empty(&peer->waiting[i]);
    }
    return wait;
}

static void peer_free_if_done(struct rpc_peer *peer)
{
    struct rpc *rpc = peer->rpc;

    if (!peer->closing || !peer->timer_closed || peer->pins > 0) {
        return;
    }
    CHECK(!calls_wait(peer) && list_empty(&peer->sent));
    list_remove(&peer->node);
    free(peer->numbers_out);
    free(peer);
    rpc_handle_gone(rpc);
}

static void unpin(struct rpc_peer *peer)
{
    CHECK(peer->pins > 0);
    peer->pins--;
    peer_free_if_done(peer);
}

static void on_timer(uv_timer_t *timer)
{
    struct rpc_peer *peer = timer->data;

    if (peer->state == PEER_BACKOFF) {
        peer->state = PEER_IDLE;
        if (calls_wait(peer) || peer->up != NULL) {
            peer_connect(peer);
        }
    } else if (peer->conn != NULL) {
        conn_close(peer->conn, "no connection in time");
    }
}

void rpc_peer_hurry(struct rpc_peer *peer)
{
    if (peer->state == PEER_BACKOFF && uv_timer_get_due_in(&peer->timer) > BACKOFF_HURRY_MS) {
        (void)uv_timer_start(&peer->timer, on_timer, BACKOFF_HURRY_MS, 0);
    }
}

static void peer_back_off(struct rpc_peer *peer)
{
    if (peer->closing) {
        return;
    }
    rpc_calls_give_up(peer);
    peer->state = PEER_BACKOFF;
    (void)uv_timer_start(&peer->timer, on_timer, peer->backoff_ms, 0);
    peer->backoff_ms *= 2;
    if (peer->backoff_ms > BACKOFF_MS_MAX) {
        peer->backoff_ms = BACKOFF_MS_MAX;
    }
}

static void on_conn_closed(struct conn *conn, const char *why)
{
    struct rpc_peer *peer = conn->data;
    bool was_up = peer->state == PEER_UP;

    peer->conn = NULL;
    rpc_calls_take_back(peer);
    peer->state = PEER_IDLE;
    if (was_up && peer->down != NULL && !peer->closing) {
        peer->down(peer->watch_data, why);
    }
    peer_back_off(peer);
    conn_drop(conn);
    unpin(peer);
}

void rpc_peer_note_clock(struct rpc_peer *peer, uint64_t server_ms)
{
    frame_clock_note(&peer->clock, (uint32_t)server_ms, rpc_boot_ms() + 1); /* Rounded up. */
}

bool rpc_peer_is_asked(const struct rpc_peer *peer)
{
    return peer->state == PEER_UP && !list_empty(&peer->sent);
}

bool rpc_peer_is_awaited(const struct rpc_peer *peer)
{
    return peer->state != PEER_UP && calls_wait(peer);
}

bool rpc_peer_clock_is_old(const struct rpc_peer *peer, uint64_t age_ms)
{
    return peer->state == PEER_UP && !peer->clockless &&
           rpc_boot_ms() >= peer->clock.noted_ms + age_ms;
}

static void peer_is_up(struct rpc_peer *peer)
{
    peer->state = PEER_UP;
    peer->backoff_ms = BACKOFF_MS_MIN;
    (void)uv_timer_stop(&peer->timer);
    if (peer->up != NULL) {
        peer->up(peer->watch_data);
    }
    rpc_calls_send(peer);
}

static int check_hello_reply(struct rpc_peer *peer, const struct frame_header *header,
                             const uint8_t *body)
{
    struct rpc *rpc = peer->rpc;
    Morsel__HelloReply *reply = NULL;
    struct cluster_id id = { { 0 } };
    struct rpc_room room;
    bool stranger;
    int rv;

    if (header->status != 0) {
        return header->status;
    }
    rv = rpc_unpack_in(&room, &morsel__hello_reply__descriptor, body, header->body_length,
                       (void **)&reply);
    if (rv != 0) {
        return rv;
    }
    if (reply->cluster_id.len == sizeof(id.bytes)) {
        memcpy(id.bytes, reply->cluster_id.data, sizeof(id.bytes));
    }
    peer->start_id = reply->start_id;
    if (reply->boot_ms != 0) {
        rpc_peer_note_clock(peer, reply->boot_ms);
    }
    stranger = peer->expected_node != 0 && reply->node_id != peer->expected_node;
    rpc_room_free(&room, reply);
    if (stranger) {
        return MORSEL_UNREACHABLE;
    }
    if (!cluster_id_known(&rpc->cluster_id)) {
        rpc->cluster_id = id;
    }
    return cluster_id_known(&id) && !cluster_id_equal(&id, &rpc->cluster_id) ? MORSEL_WRONG_CLUSTER
                                                                             : 0;
}

/* A bounded call must not go out before the server's clock is known. */
static void ask_clock(struct rpc_peer *peer)
{
    struct frame_header header = { .type = MSG_CLOCK };

    peer->asked_clock = true;
    if (!conn_send(peer->conn, &header, NULL, 0, NULL, 0)) {
        conn_close(peer->conn, "out of memory");
    }
}

static void take_clock_reply(struct rpc_peer *peer, const struct frame_header *header,
                             const uint8_t *body)
{
    struct rpc_room room;
    Morsel__Clock *clock = NULL;

    if (header->status == MORSEL_UNKNOWN_TYPE) {
        peer->clockless = true;
    } else if (header->status == 0) {
        (void)rpc_unpack_in(&room, &morsel__clock__descriptor, body, header->body_length,
                            (void **)&clock);
    }
    if (clock != NULL && clock->boot_ms != 0) {
        rpc_peer_note_clock(peer, clock->boot_ms);
    }
    if (clock != NULL) {
        rpc_room_free(&room, clock);
    }
    if (peer->clock.known || peer->clockless) {
        peer_is_up(peer);
    } else {
        conn_close(peer->conn, "server does not tell its clock");
    }
}

static void take_hello_reply(struct rpc_peer *peer, const struct frame_header *header,
                             const uint8_t *body)
{
    int rv = check_hello_reply(peer, header, body);

    if (rv == 0) {
        if (peer->clock.known || peer->rpc->lease_until_ns == NULL) {
            peer_is_up(peer);
        } else {
            ask_clock(peer);
        }
        return;
    }
    if (rv == MORSEL_UNREACHABLE) {
        conn_close(peer->conn, "another server answers at this address");
        return;
    }
    if (rv != MORSEL_NOMEM) { /* Else trying again would give the same answer. */
        rpc_calls_end(peer, rv);
    }
    conn_close(peer->conn, status_words(rv));
}

static void on_frame(struct conn *conn, const struct frame_header *header, const uint8_t *body,
                     struct payload **payload)
{
    struct rpc_peer *peer = conn->data;

    if ((header->flags & FRAME_REPLY) == 0) {
        if ((header->flags & FRAME_ONEWAY) == 0 || peer->state != PEER_UP || peer->push == NULL) {
            conn_close(conn, "server sent a request");
            return;
        }
        peer->push(peer->watch_data, (enum message_type)header->type, body, header->body_length);
        return;
    }
    if (peer->state == PEER_GREETING && peer->asked_clock) {
        take_clock_reply(peer, header, body);
        return;
    }
    if (peer->state == PEER_GREETING) {
        take_hello_reply(peer, header, body);
        return;
    }
    if (peer->state == PEER_UP) {
        rpc_call_take_reply(peer, header, body, payload);
    }
}

static void on_sent(struct conn *conn)
{
    struct rpc_peer *peer = conn->data;

    if (peer->state == PEER_UP && !list_empty(&peer->waiting[CALL_SENDS])) {
        rpc_calls_send(peer);
    }
}

static void on_flowed(struct conn *conn, uint64_t bytes, uint64_t took_us)
{
    struct rpc_peer *peer = conn->data;

    pace_flowed(&peer->fetches, bytes, took_us);
}

static const struct conn_hooks peer_hooks = { .frame = on_frame,
                                              .sent = on_sent,
                                              .flowed = on_flowed,
                                              .closed = on_conn_closed,
                                              .freed = rpc_handle_gone };

static void say_hello(struct rpc_peer *peer)
{
    struct rpc *rpc = peer->rpc;
    Morsel__Hello hello = MORSEL__HELLO__INIT;
    struct frame_header header = { .type = MSG_HELLO };
    size_t count;
    uint8_t *body;

    hello.role = rpc->role;
    hello.node_id = rpc->node_id;
    hello.program = rpc->program;
    if (cluster_id_known(&rpc->cluster_id)) {
        hello.cluster_id.data = rpc->cluster_id.bytes;
        hello.cluster_id.len = sizeof(rpc->cluster_id.bytes);
    }
    body = rpc_pack(&hello.base, &count);
    if (count == SIZE_MAX || !conn_send(peer->conn, &header, body, count, NULL, 0)) {
        conn_close(peer->conn, "out of memory");
    }
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct rpc_peer *peer = connect->data;

    if (status == 0 && peer->conn != NULL && !peer->conn->closing) {
        status = conn_established(peer->conn);
        peer->state = PEER_GREETING;
        if (status == 0) {
            conn_keep_little(peer->conn);
            rpc_pace_connected(peer);
            say_hello(peer);
        }
    }
    if (status != 0 && peer->conn != NULL) {
        conn_close(peer->conn, uv_strerror(status));
    }
    if (status == UV_ECONNREFUSED && peer->refused != NULL && !peer->closing) {
        peer->refused(peer->watch_data);
    }
    unpin(peer);
}

static void peer_connect_to(struct rpc_peer *peer, const struct sockaddr *address)
{
    struct rpc *rpc = peer->rpc;
    int rv;

    peer->conn =
        conn_new(rpc->loop, rpc->payloads, &rpc->statistics, &peer_hooks, rpc, &rpc->dirty);
    if (peer->conn == NULL) {
        peer_back_off(peer);
        return;
    }
    rpc->handles++;
    peer->pins++; /* The connection's; let go in on_conn_closed(). */
    peer->conn->data = peer;
    peer->clock = (struct frame_clock){ .known = false };
    peer->asked_clock = peer->clockless = false;
    rpc_pace_begin(peer);
    peer->state = PEER_CONNECTING;
    peer->connect.data = peer;
    (void)uv_timer_start(&peer->timer, on_timer, CONNECT_MS, 0);
    rv = uv_tcp_connect(&peer->connect, &peer->conn->tcp, address, on_connect);
    if (rv != 0) {
        conn_close(peer->conn, uv_strerror(rv));
        return;
    }
    peer->pins++; /* The request's; let go in on_connect(). */
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *list)
{
    struct rpc_peer *peer = resolve->data;

    if (!peer->closing) {
        if (status == 0 && list != NULL) {
            peer_connect_to(peer, list->ai_addr);
        } else {
            peer_back_off(peer);
        }
    }
    uv_freeaddrinfo(list);
    unpin(peer);
}

static void peer_connect(struct rpc_peer *peer)
{
    struct sockaddr_storage address;
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };

    CHECK(peer->state == PEER_IDLE);
    if (conn_address_numeric(&peer->address, &address)) {
        peer_connect_to(peer, (struct sockaddr *)&address);
        return;
    }
    peer->resolve.data = peer;
    peer->state = PEER_RESOLVING;
    if (uv_getaddrinfo(peer->rpc->loop, &peer->resolve, on_resolved, peer->address.host,
                       peer->address.port, &hints) != 0) {
        peer_back_off(peer);
        return;
    }
    peer->pins++;
}

/* ---- The public face ---- */

int rpc_peer_set_address(struct rpc_peer *peer, const char *text, struct errmsg *err)
{
    struct address address;
    int rv = address_parse(text, &address, err);

    if (rv != 0 || strcmp(text, peer->text) == 0) {
        return rv;
    }
    peer->address = address;
    (void)snprintf(peer->text, sizeof(peer->text), "%s", text);
    if (peer->conn != NULL) {
        conn_close(peer->conn, "the server has another address now");
    }
    return MORSEL_OK;
}

int rpc_peer_new(struct rpc *rpc, const char *address, struct rpc_peer **peer_out,
                 struct errmsg *err)
{
    struct rpc_peer *peer = calloc(1, sizeof(*peer));
    int rv;

    *peer_out = NULL;
    if (peer == NULL) {
        errmsg_set(err, "%s", status_words(MORSEL_NOMEM));
        return MORSEL_NOMEM;
    }
    rv = rpc_peer_set_address(peer, address, err);
    if (rv != 0) {
        free(peer);
        return rv;
    }
    peer->rpc = rpc;
    peer->backoff_ms = BACKOFF_MS_MIN;
    list_init(&peer->node);
    for (unsigned i = 0; i < CALL_KINDS; i++) {
        list_init(&peer->waiting[i]);
    }
    rpc_pace_begin(peer);
    list_init(&peer->sent);
    list_push_back(&rpc->peers, &peer->node);
    (void)uv_timer_init(rpc->loop, &peer->timer);
    peer->timer.data = peer;
    rpc->handles++;
    *peer_out = peer;
    return MORSEL_OK;
}

const char *rpc_peer_address(const struct rpc_peer *peer)
{
    return peer->text;
}

bool rpc_peer_connected(const struct rpc_peer *peer)
{
    return peer->state == PEER_UP;
}

bool rpc_peer_own_address(const struct rpc_peer *peer, uint16_t port, char *text)
{
    struct sockaddr_storage address;
    int size = sizeof(address);
    char host[48];

    if (peer->state != PEER_UP ||
        uv_tcp_getsockname(&peer->conn->tcp, (struct sockaddr *)&address, &size) != 0 ||
        uv_ip_name((struct sockaddr *)&address, host, sizeof(host)) != 0) {
        return false;
    }
    (void)snprintf(text, ADDRESS_TEXT_MAX, address.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
                   host, port);
    return true;
}

uint64_t rpc_peer_start_id(const struct rpc_peer *peer)
{
    return peer->start_id;
}

void rpc_peer_watch(struct rpc_peer *peer, void (*up)(void *data),
                    void (*down)(void *data, const char *why), void *data)
{
    peer->up = up;
    peer->down = down;
    peer->watch_data = data;
}

void rpc_peer_on_refused(struct rpc_peer *peer, void (*refused)(void *data))
{
    peer->refused = refused;
}

void rpc_peer_on_push(struct rpc_peer *peer, void (*push)(void *data, enum message_type type,
                                                          const uint8_t *body, size_t body_count))
{
    peer->push = push;
}

void rpc_peer_expect(struct rpc_peer *peer, uint64_t node_id)
{
    peer->expected_node = node_id;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct rpc_peer *peer = handle->data;

    peer->timer_closed = true;
    peer_free_if_done(peer);
}

static void peer_end(struct rpc_peer *peer, int status)
{
    if (peer->closing) {
        return;
    }
    peer->closing = true;
    rpc_calls_end(peer, status);
    uv_close((uv_handle_t *)&peer->timer, on_timer_closed);
    if (peer->conn != NULL) {
        conn_close(peer->conn, "closed");
    }
    if (peer->state == PEER_RESOLVING) {
        (void)uv_cancel((uv_req_t *)&peer->resolve);
    }
}

void rpc_peer_close(struct rpc_peer *peer)
{
    peer_end(peer, MORSEL_CANCELED);
}

void rpc_peer_give_up(struct rpc_peer *peer, int status)
{
    rpc_calls_end(peer, status);
}

void rpc_peers_close(struct rpc *rpc)
{
    LIST_FOREACH_SAFE(node, &rpc->peers)
    {
        peer_end(LIST_ENTRY(node, struct rpc_peer, node), MORSEL_SHUTDOWN);
    }
}

void rpc_peer_go(struct rpc_peer *peer)
{
    if (peer->state == PEER_UP) {
        rpc_calls_send(peer);
    } else if (peer->state == PEER_IDLE) {
        peer_connect(peer);
    }
}
