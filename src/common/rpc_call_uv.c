/* Calling: peers, their connections, and the calls that wait for answers.
 *
 *   IDLE -> RESOLVING -> CONNECTING -> GREETING -> UP
 *     ^         |            |            |        |
 *     +---------+------ BACKOFF <---------+--------+      a failure; without calls back to IDLE
 *
 * A call is in exactly one place: waiting (to be sent), sent (to be answered), or ended (its
 * callback is due).
 */
#include "common.pb-c.h"
#include "common/address.h"
#include "common/buf.h"
#include "common/rpc_internal_uv.h"
#include "common/status.h"

#include <stdlib.h>
#include <string.h>

enum {
    NS_PER_MS = 1000000,
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 500,
    CONNECT_MS = 3000 /* For name, connection and HELLO together */
};

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
    struct list waiting, sent;
    uint64_t last_id;
    uint64_t start_id;
    uint64_t clock_ms, clock_at_ns; /* Its clock was that, at our time; 0: not known. */
    uint64_t expected_node;         /* 0: anybody. */
    bool closing, timer_closed;
    unsigned pins; /* libuv requests and connections that still point here. */
    void (*up)(void *data);
    void (*down)(void *data, const char *why);
    void (*push)(void *data, enum message_type type, const uint8_t *body, size_t body_count);
    void *watch_data;
};

static void peer_connect(struct rpc_peer *peer);
static void peer_go(struct rpc_peer *peer, struct rpc_call_state *s);

/* ---- Ends of calls ---- */

static void call_state_free(struct rpc_call_state *s)
{
    for (unsigned i = 0; i < s->pieces_count; i++) {
        payload_drop(s->pieces[i].payload);
    }
    free(s->body);
    free(s);
}

/* Put the call back among those that wait to be sent. False: it cannot be had, and its owner has
 * been told. */
static bool call_repeat(struct rpc *rpc, struct rpc_call *call, struct rpc_call_state *s)
{
    struct rpc_reply none = { .text = "" };

    CHECK(call->state == NULL);
    if (rpc->closing || s->peer->closing ||
        (s->deadline.key != 0 && !heap_push(&rpc->deadlines, &s->deadline, s->deadline.key))) {
        call->done(call, MORSEL_CANCELED, &none);
        return false;
    }
    call->state = s;
    s->id = ++s->peer->last_id;
    s->sent = false;
    list_push_back(&s->peer->waiting, &s->node);
    peer_go(s->peer, s);
    rpc_arm(rpc);
    return true;
}

/* Take the call out of every list and tell its owner. */
static void call_end(struct rpc *rpc, struct rpc_call_state *s, int status, struct rpc_reply *reply)
{
    struct rpc_call *call = s->call;
    struct rpc_type_statistics *statistics = &rpc->statistics.types[s->type];

    list_remove(&s->node);
    heap_remove(&rpc->deadlines, &s->deadline);
    statistics->called++;
    statistics->called_ns += uv_hrtime() - s->started_ns;
    statistics->called_bytes +=
        s->body_count + reply->body_count + (reply->payload == NULL ? 0 : reply->payload->count);
    for (unsigned i = 0; i < s->pieces_count; i++) {
        statistics->called_bytes += s->pieces[i].count;
    }
    call->state = NULL;
    call->done(call, status, reply);
    if (!reply->again || !call_repeat(rpc, call, s)) {
        call_state_free(s);
    }
}

/* The same, from the prepare handle: for those who must not be called back at once. The peer may be
 * freed before it runs. */
static void call_end_later(struct rpc *rpc, struct rpc_call_state *s, int status)
{
    list_remove(&s->node);
    heap_remove(&rpc->deadlines, &s->deadline);
    s->status = status;
    list_push_back(&rpc->ended, &s->node);
}

void rpc_calls_run_ended(struct rpc *rpc)
{
    struct list *node;

    while ((node = list_front(&rpc->ended)) != NULL) {
        struct rpc_call_state *s = LIST_ENTRY(node, struct rpc_call_state, node);
        struct rpc_reply reply = { .text = "" };

        call_end(rpc, s, s->status, &reply);
    }
}

void rpc_calls_expire(struct rpc *rpc)
{
    uint64_t now = uv_now(rpc->loop);
    struct heap_node *first;

    while ((first = heap_min(&rpc->deadlines)) != NULL && first->key <= now) {
        struct rpc_call_state *s = CONTAINER_OF(first, struct rpc_call_state, deadline);

        call_end_later(rpc, s, s->peer->state == PEER_UP ? MORSEL_TIMEDOUT : MORSEL_UNREACHABLE);
    }
    rpc_calls_run_ended(rpc);
}

static void end_all(struct rpc_peer *peer, int status)
{
    struct list *node;

    while ((node = list_front(&peer->sent)) != NULL ||
           (node = list_front(&peer->waiting)) != NULL) {
        call_end_later(peer->rpc, LIST_ENTRY(node, struct rpc_call_state, node), status);
    }
}

/* ---- The connection of a peer ---- */

static void peer_free_if_done(struct rpc_peer *peer)
{
    struct rpc *rpc = peer->rpc;

    if (!peer->closing || !peer->timer_closed || peer->pins > 0) {
        return;
    }
    CHECK(list_empty(&peer->waiting) && list_empty(&peer->sent));
    list_remove(&peer->node);
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
        if (!list_empty(&peer->waiting) || peer->up != NULL) {
            peer_connect(peer);
        }
    } else if (peer->conn != NULL) {
        conn_close(peer->conn, "no connection in time");
    }
}

static void peer_back_off(struct rpc_peer *peer)
{
    if (peer->closing) {
        return;
    }
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
    struct list *node;

    peer->conn = NULL;
    /* What was sent goes back to the front of what waits, in its old order. */
    while ((node = peer->sent.prev) != &peer->sent) {
        list_remove(node);
        LIST_ENTRY(node, struct rpc_call_state, node)->sent = false;
        list_push_front(&peer->waiting, node);
    }
    peer->state = PEER_IDLE;
    if (was_up && peer->down != NULL && !peer->closing) {
        peer->down(peer->watch_data, why);
    }
    peer_back_off(peer);
    conn_drop(conn);
    unpin(peer);
}

void rpc_peer_note_clock(struct rpc_peer *peer, uint64_t boot_ms)
{
    peer->clock_ms = boot_ms;
    peer->clock_at_ns = rpc_boot_ns();
}

/* The end of our term on the server's clock, at the earliest. */
static uint32_t not_after(const struct rpc_peer *peer)
{
    const uint64_t *until_ns = peer->rpc->term_until_ns;

    return until_ns == NULL || peer->clock_ms == 0
               ? 0
               : frame_not_after(*until_ns / NS_PER_MS, peer->clock_ms,
                                 (peer->clock_at_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void send_call(struct rpc_peer *peer, struct rpc_call_state *s)
{
    struct frame_header header = { .type = (uint16_t)s->type, .request_id = s->id };
    uint64_t now = uv_now(peer->rpc->loop);
    uint8_t *body = NULL;

    if (s->deadline.place != 0) {
        uint64_t left_ms = s->deadline.key > now ? s->deadline.key - now : 1;

        header.deadline_ms = left_ms > UINT32_MAX ? 0 : (uint32_t)left_ms;
    }
    if (s->call->bounded) {
        header.not_after = not_after(peer);
    }
    /* The body is kept for another try after a broken connection. */
    if (s->body_count > 0 && (body = malloc(s->body_count)) != NULL) {
        memcpy(body, s->body, s->body_count);
    }
    if ((s->body_count > 0 && body == NULL) ||
        !conn_send(peer->conn, &header, body, s->body_count, s->pieces, s->pieces_count)) {
        call_end_later(peer->rpc, s, MORSEL_NOMEM);
        return;
    }
    s->sent = true;
    list_remove(&s->node);
    list_push_back(&peer->sent, &s->node);
}

static void peer_is_up(struct rpc_peer *peer)
{
    peer->state = PEER_UP;
    peer->backoff_ms = BACKOFF_MS_MIN;
    (void)uv_timer_stop(&peer->timer);
    if (peer->up != NULL) {
        peer->up(peer->watch_data);
    }
    while (peer->state == PEER_UP && !list_empty(&peer->waiting)) {
        send_call(peer, LIST_ENTRY(list_front(&peer->waiting), struct rpc_call_state, node));
    }
}

static int check_hello_reply(struct rpc_peer *peer, const struct frame_header *header,
                             const uint8_t *body)
{
    struct rpc *rpc = peer->rpc;
    Morsel__HelloReply *reply;
    struct cluster_id id = { { 0 } };
    bool stranger;

    if (header->status != 0) {
        return header->status;
    }
    reply = rpc_unpack(&morsel__hello_reply__descriptor, body, header->body_length);
    if (reply == NULL) {
        return MORSEL_MALFORMED;
    }
    if (reply->cluster_id.len == sizeof(id.bytes)) {
        memcpy(id.bytes, reply->cluster_id.data, sizeof(id.bytes));
    }
    peer->start_id = reply->start_id;
    rpc_peer_note_clock(peer, reply->boot_ms);
    stranger = peer->expected_node != 0 && reply->node_id != peer->expected_node;
    morsel__hello_reply__free_unpacked(reply, NULL);
    if (stranger) {
        return MORSEL_UNREACHABLE;
    }
    if (!cluster_id_known(&rpc->cluster_id)) {
        rpc->cluster_id = id;
    }
    return cluster_id_known(&id) && !cluster_id_equal(&id, &rpc->cluster_id) ? MORSEL_WRONG_CLUSTER
                                                                             : 0;
}

static void take_hello_reply(struct rpc_peer *peer, const struct frame_header *header,
                             const uint8_t *body)
{
    int rv = check_hello_reply(peer, header, body);

    if (rv == 0) {
        peer_is_up(peer);
        return;
    }
    if (rv == MORSEL_UNREACHABLE) {
        conn_close(peer->conn, "another server answers at this address");
        return;
    }
    /* Trying again would give the same answer. */
    end_all(peer, rv);
    conn_close(peer->conn, status_words(rv));
}

static struct rpc_call_state *find_sent(struct rpc_peer *peer, uint64_t id)
{
    /* Answers come mostly in the order of the requests, so the search is short. */
    LIST_FOREACH(node, &peer->sent)
    {
        struct rpc_call_state *s = LIST_ENTRY(node, struct rpc_call_state, node);

        if (s->id == id) {
            return s;
        }
    }
    return NULL;
}

static void take_reply(struct rpc_peer *peer, struct rpc_call_state *s,
                       const struct frame_header *header, const uint8_t *body,
                       struct payload **payload)
{
    struct rpc_reply reply = {
        .body = body, .body_count = header->body_length, .payload = *payload, .text = ""
    };
    Morsel__Failure *failure = NULL;

    if (header->status != 0) {
        failure = rpc_unpack(&morsel__failure__descriptor, body, header->body_length);
        reply.text = failure != NULL ? failure->text : "";
        reply.body = NULL;
        reply.body_count = 0;
    }
    *payload = NULL;
    call_end(peer->rpc, s, header->status, &reply);
    payload_drop(reply.payload);
    if (failure != NULL) {
        morsel__failure__free_unpacked(failure, NULL);
    }
}

static void on_frame(struct conn *conn, const struct frame_header *header, const uint8_t *body,
                     struct payload **payload)
{
    struct rpc_peer *peer = conn->data;
    struct rpc_call_state *s;

    if ((header->flags & FRAME_REPLY) == 0) {
        if ((header->flags & FRAME_ONEWAY) == 0 || peer->state != PEER_UP || peer->push == NULL) {
            conn_close(conn, "server sent a request");
            return;
        }
        peer->push(peer->watch_data, (enum message_type)header->type, body, header->body_length);
        return;
    }
    if (peer->state == PEER_GREETING) {
        take_hello_reply(peer, header, body);
        return;
    }
    /* No such call: it was cancelled or timed out, and nobody waits for the answer. */
    if (peer->state == PEER_UP && (s = find_sent(peer, header->request_id)) != NULL) {
        take_reply(peer, s, header, body, payload);
    }
}

static const struct conn_hooks peer_hooks = { .frame = on_frame,
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
            say_hello(peer);
        }
    }
    if (status != 0 && peer->conn != NULL) {
        conn_close(peer->conn, uv_strerror(status));
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
    list_init(&peer->waiting);
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
    end_all(peer, status);
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

void rpc_peers_close(struct rpc *rpc)
{
    LIST_FOREACH_SAFE(node, &rpc->peers)
    {
        peer_end(LIST_ENTRY(node, struct rpc_peer, node), MORSEL_SHUTDOWN);
    }
}

/* A call waits: send it, or see to a connection. */
static void peer_go(struct rpc_peer *peer, struct rpc_call_state *s)
{
    if (peer->state == PEER_UP) {
        send_call(peer, s);
    } else if (peer->state == PEER_IDLE) {
        peer_connect(peer);
    }
}

static int fill_state(struct rpc_call_state *s, const ProtobufCMessage *request,
                      const struct rpc_piece *pieces, unsigned pieces_count)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < pieces_count; i++) {
        bytes += pieces[i].count;
    }
    if (bytes > FRAME_PAYLOAD_BYTES_MAX ||
        (request != NULL && protobuf_c_message_get_packed_size(request) > FRAME_BODY_BYTES_MAX)) {
        return MORSEL_TOO_LARGE;
    }
    s->body = rpc_pack(request, &s->body_count);
    if (s->body_count == SIZE_MAX) {
        return MORSEL_NOMEM;
    }
    for (unsigned i = 0; i < pieces_count; i++) {
        s->pieces[i] = pieces[i];
        payload_ref(pieces[i].payload);
    }
    s->pieces_count = pieces_count;
    return MORSEL_OK;
}

int rpc_call_start(struct rpc_call *call, struct rpc_peer *peer, enum message_type type,
                   const ProtobufCMessage *request, const struct rpc_piece *pieces,
                   unsigned pieces_count, uint64_t timeout_ms, rpc_call_cb done)
{
    struct rpc *rpc = peer->rpc;
    struct rpc_call_state *s;
    int rv;

    CHECK(pieces_count <= RPC_PIECES_MAX);
    if (rpc->closing || peer->closing) {
        return MORSEL_SHUTDOWN;
    }
    s = calloc(1, sizeof(*s) + pieces_count * sizeof(s->pieces[0]));
    if (s == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&s->node);
    rv = fill_state(s, request, pieces, pieces_count);
    if (rv == 0 && timeout_ms != RPC_NO_DEADLINE &&
        !heap_push(&rpc->deadlines, &s->deadline, uv_now(rpc->loop) + timeout_ms)) {
        rv = MORSEL_NOMEM;
    }
    if (rv != 0) {
        call_state_free(s);
        return rv;
    }
    s->call = call;
    s->peer = peer;
    s->id = ++peer->last_id;
    s->type = type;
    s->started_ns = uv_hrtime();
    call->peer = peer;
    call->done = done;
    call->state = s;
    list_push_back(&peer->waiting, &s->node);
    peer_go(peer, s);
    rpc_arm(rpc);
    return MORSEL_OK;
}

void rpc_call_cancel(struct rpc_call *call)
{
    if (call->state != NULL) {
        call_end_later(call->state->peer->rpc, call->state, MORSEL_CANCELED);
    }
}

bool rpc_call_active(const struct rpc_call *call)
{
    return call->state != NULL;
}

void rpc_send_oneway(struct rpc_peer *peer, enum message_type type, const ProtobufCMessage *request)
{
    struct frame_header header = { .type = (uint16_t)type, .flags = FRAME_ONEWAY };
    size_t count;
    uint8_t *body;

    if (peer->state != PEER_UP) {
        return;
    }
    body = rpc_pack(request, &count);
    if (count != SIZE_MAX) {
        (void)conn_send(peer->conn, &header, body, count, NULL, 0);
    }
}
