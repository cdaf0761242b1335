/* Calls: from their start to the answer, over any number of connections. */
#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/rpc/rpc_internal_uv.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_MS = 1000000, LOOKS = 8 };

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
    rpc_pace_waits(s->peer, s, false);
    rpc_peer_go(s->peer);
    rpc_arm(rpc);
    return true;
}

/* It is in no list any more, and has no number. For one that has ended already, nothing. */
static void call_leave(struct rpc *rpc, struct rpc_call_state *s)
{
    heap_remove(&rpc->deadlines, &s->deadline);
    rpc_pace_ended(s->peer, s);
    rpc_once_ended(s);
}

/* Take the call out of every list and tell its owner. */
static void call_end(struct rpc *rpc, struct rpc_call_state *s, int status, struct rpc_reply *reply)
{
    struct rpc_call *call = s->call;
    struct rpc_type_statistics *statistics = &rpc->statistics.types[s->type];

    call_leave(rpc, s);
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
    call_leave(rpc, s);
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
    rpc_once_go_on(rpc);
}

/* How far the bytes of the call have come on this connection. Those of a call that waits for its
 * turn are moving when those before it are. What its server does behind that does not count: a call
 * on which it is stuck must end, whatever else it answers. */
static uint64_t call_position(const struct rpc_call_state *s)
{
    struct rpc_peer *peer = s->peer;

    if (peer->state != PEER_UP) {
        return 0;
    }
    (void)rpc_pace_look(peer);
    if (s->place != CALL_SENT) {
        return s->kind == CALL_FETCHES ? peer->conn->in_total : peer->acknowledged;
    }
    return (peer->acknowledged < s->out_end ? peer->acknowledged : s->out_end) +
           conn_received_of(peer->conn, s->id);
}

/* When the call is looked at next: those that bring bytes several times before they are given up. Never now, however
 * little time there is: time stands still while deadlines are looked at. */
static uint64_t call_next_look(const struct rpc_call_state *s, uint64_t now)
{
    uint64_t end = s->moved_ms + s->timeout_ms, look = now + s->timeout_ms / LOOKS + 1;

    return s->kind == CALL_SMALL || end < look ? end : look;
}

/* True: it has moved, or has some time left, and is looked at again. */
static bool call_goes_on(struct rpc *rpc, struct rpc_call_state *s, uint64_t now)
{
    /* One that can be asked elsewhere has its time from the start: its few bytes are no sign of life. */
    bool counts = s->kind != CALL_SMALL || !s->call->impatient;
    uint64_t position = counts ? call_position(s) : s->moved_to;

    if (position > s->moved_to) {
        s->moved_ms = now;
    }
    s->moved_to = position;
    if (now >= s->moved_ms + s->timeout_ms) {
        return false;
    }
    heap_move(&rpc->deadlines, &s->deadline, call_next_look(s, now));
    return true;
}

void rpc_calls_expire(struct rpc *rpc)
{
    uint64_t now = uv_now(rpc->loop);
    struct heap_node *first;

    while ((first = heap_min(&rpc->deadlines)) != NULL && first->key <= now) {
        struct rpc_call_state *s = CONTAINER_OF(first, struct rpc_call_state, deadline);

        if (!call_goes_on(rpc, s, now)) {
            call_end_later(rpc, s,
                           s->peer->state == PEER_UP ? MORSEL_TIMEDOUT : MORSEL_UNREACHABLE);
        }
    }
    rpc_calls_run_ended(rpc);
}

void rpc_calls_end(struct rpc_peer *peer, int status)
{
    struct list *node;

    while ((node = list_front(&peer->sent)) != NULL) {
        call_end_later(peer->rpc, LIST_ENTRY(node, struct rpc_call_state, node), status);
    }
    for (unsigned i = 0; i < CALL_KINDS; i++) {
        while ((node = list_front(&peer->waiting[i])) != NULL) {
            call_end_later(peer->rpc, LIST_ENTRY(node, struct rpc_call_state, node), status);
        }
    }
}

void rpc_calls_give_up(struct rpc_peer *peer)
{
    for (unsigned i = 0; i < CALL_KINDS; i++) {
        LIST_FOREACH_SAFE(node, &peer->waiting[i])
        {
            struct rpc_call_state *s = LIST_ENTRY(node, struct rpc_call_state, node);

            if (s->call->impatient) {
                call_end_later(peer->rpc, s, MORSEL_UNREACHABLE);
            }
        }
    }
}

/* ---- On their way ---- */

static uint64_t lease_epoch(const struct rpc *rpc)
{
    return rpc->lease_epoch == NULL ? 0 : *rpc->lease_epoch;
}

/* A time of our clock on the server's, at the earliest. */
static uint32_t at_server(const struct rpc_peer *peer, uint64_t until_ms)
{
    if (peer->clockless) {
        return 0;
    }
    CHECK(peer->clock.known);
    return frame_not_after(until_ms, peer->clock.server_ms, peer->clock.noted_ms);
}

/* Of a bounded call the end of our lease period, which may lie far behind: it is 0 without a lease. 0: whenever. */
static uint32_t not_after(const struct rpc_peer *peer, const struct rpc_call *call)
{
    const uint64_t *lease_until_ns = peer->rpc->lease_until_ns;

    if (call->bounded) {
        return lease_until_ns == NULL ? 0 : at_server(peer, *lease_until_ns / NS_PER_MS);
    }
    return call->until_ms == 0 ? 0 : at_server(peer, call->until_ms);
}

static uint32_t time_left_ms(const struct rpc_call_state *s, uint64_t now)
{
    uint64_t end, left;

    if (s->timeout_ms == RPC_NO_DEADLINE) {
        return 0;
    }
    end = s->moved_ms + s->timeout_ms;
    left = end > now ? end - now : 1;
    return left > UINT32_MAX ? 0 : (uint32_t)left;
}

/* What goes out: the body is kept for another try after a broken connection. */
static int call_body(struct rpc_peer *peer, struct rpc_call_state *s, uint8_t **body, size_t *count)
{
    int rv = MORSEL_OK;

    *body = NULL;
    *count = s->body_count + (s->call->once ? RPC_ONCE_BYTES : 0);
    if (*count == 0) {
        return rv;
    }
    *body = malloc(*count);
    if (*body == NULL) {
        return MORSEL_NOMEM;
    }
    if (s->body_count > 0) {
        memcpy(*body, s->body, s->body_count);
    }
    if (s->call->once && (rv = rpc_once_send(peer, s, *body + s->body_count)) != 0) {
        free(*body);
    }
    return rv;
}

static void call_send(struct rpc_peer *peer, struct rpc_call_state *s)
{
    struct frame_header header = { .type = (uint16_t)s->type, .request_id = s->id };
    uint8_t *body;
    size_t count;
    int rv;

    header.deadline_ms = time_left_ms(s, uv_now(peer->rpc->loop));
    if (s->call->bounded) {
        if (s->lease_epoch != lease_epoch(peer->rpc)) {
            /* One that was sent before may have been carried out in its time. */
            call_end_later(peer->rpc, s, s->sent_to != 0 ? MORSEL_UNSURE : MORSEL_TOO_LATE);
            return;
        }
    }
    header.not_after = not_after(peer, s->call);
    rv = call_body(peer, s, &body, &count);
    if (rv != 0) {
        call_end_later(peer->rpc, s, rv);
    } else if (!conn_send(peer->conn, &header, body, count, s->pieces, s->pieces_count)) {
        call_end_later(peer->rpc, s, MORSEL_NOMEM);
    } else {
        rpc_pace_sent(peer, s);
    }
}

void rpc_calls_send(struct rpc_peer *peer)
{
    for (enum call_kind kind = CALL_SMALL; kind < CALL_KINDS; kind++) {
        struct list *waiting = &peer->waiting[kind];

        while (peer->state == PEER_UP && !list_empty(waiting) && rpc_pace_may_go(peer, kind)) {
            struct rpc_call_state *s = LIST_ENTRY(list_front(waiting), struct rpc_call_state, node);

            if (!rpc_once_may_go(peer, s)) {
                break;
            }
            call_send(peer, s);
        }
    }
}

void rpc_calls_take_back(struct rpc_peer *peer)
{
    struct list *node;

    while ((node = peer->sent.prev) != &peer->sent) {
        struct rpc_call_state *s = LIST_ENTRY(node, struct rpc_call_state, node);

        rpc_pace_ended(peer, s);
        rpc_pace_waits(peer, s, true);
        s->moved_to = 0;
    }
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

/* The server ends in good order, and its connection is about to: so it is as if nothing had been
 * answered, and the call goes to its next life. Not where that could not say whether it is done. */
static bool goes_to_the_next_life(const struct rpc_call_state *s, int status)
{
    return status == MORSEL_SHUTDOWN && !s->call->impatient &&
           (!s->call->once || s->call->exclusive);
}

void rpc_call_take_reply(struct rpc_peer *peer, const struct frame_header *header,
                         const uint8_t *body, struct payload **payload)
{
    struct rpc_call_state *s = find_sent(peer, header->request_id);
    struct rpc_reply reply = {
        .body = body, .body_count = header->body_length, .payload = *payload, .text = ""
    };
    struct rpc_room room;
    Morsel__Failure *failure = NULL;

    if (header->clock_ms != 0) {
        rpc_peer_note_clock(peer, header->clock_ms);
    }
    if (s == NULL || goes_to_the_next_life(s, header->status)) {
        return;
    }
    rpc_pace_answered(peer, s, FRAME_HEADER_BYTES + header->body_length + header->payload_length);
    if (header->status != 0) {
        (void)rpc_unpack_in(&room, &morsel__failure__descriptor, body, header->body_length,
                            (void **)&failure);
        reply.text = failure != NULL ? failure->text : "";
        reply.body = NULL;
        reply.body_count = 0;
    }
    *payload = NULL;
    call_end(peer->rpc, s, header->status, &reply);
    payload_drop(reply.payload);
    if (failure != NULL) {
        rpc_room_free(&room, failure);
    }
    rpc_pace_go_on(peer);
}

/* ---- The public face ---- */

static int fill_state(struct rpc_call_state *s, const struct rpc_piece *pieces,
                      unsigned pieces_count)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < pieces_count; i++) {
        bytes += pieces[i].count;
    }
    if (bytes > FRAME_PAYLOAD_BYTES_MAX) {
        return MORSEL_TOO_LARGE;
    }
    for (unsigned i = 0; i < pieces_count; i++) {
        s->pieces[i] = pieces[i];
        payload_ref(pieces[i].payload);
    }
    s->pieces_count = pieces_count;
    return MORSEL_OK;
}

/* `body` is the call's from here on. */
static int start(struct rpc_call *call, struct rpc_peer *peer, enum message_type type,
                 uint8_t *body, size_t body_count, const struct rpc_piece *pieces,
                 unsigned pieces_count, uint64_t timeout_ms, rpc_call_cb done)
{
    struct rpc *rpc = peer->rpc;
    struct rpc_call_state *s = calloc(1, sizeof(*s) + pieces_count * sizeof(s->pieces[0]));
    int rv;

    if (s == NULL) {
        free(body);
        return MORSEL_NOMEM;
    }
    list_init(&s->node);
    s->body = body;
    s->body_count = body_count;
    rv = fill_state(s, pieces, pieces_count);
    s->kind = pieces_count > 0 ? CALL_SENDS : call->fetches > 0 ? CALL_FETCHES : CALL_SMALL;
    s->timeout_ms = timeout_ms;
    s->moved_ms = uv_now(rpc->loop);
    if (rv == 0 && call->once) {
        rv = rpc_once_begin(peer);
    }
    if (rv == 0 && timeout_ms != RPC_NO_DEADLINE &&
        !heap_push(&rpc->deadlines, &s->deadline, call_next_look(s, s->moved_ms))) {
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
    s->lease_epoch = lease_epoch(rpc);
    call->peer = peer;
    call->done = done;
    call->state = s;
    rpc_pace_waits(peer, s, call->first);
    rpc_peer_go(peer);
    if (call->impatient && peer->state == PEER_BACKOFF) {
        rpc_calls_give_up(peer);
        rpc_peer_hurry(peer);
    }
    rpc_arm(rpc);
    return MORSEL_OK;
}

int rpc_call_start(struct rpc_call *call, struct rpc_peer *peer, enum message_type type,
                   const ProtobufCMessage *request, const struct rpc_piece *pieces,
                   unsigned pieces_count, uint64_t timeout_ms, rpc_call_cb done)
{
    size_t count;
    uint8_t *body;

    CHECK(pieces_count <= RPC_PIECES_MAX && (call->bounded || !call->once));
    if (peer->rpc->closing || peer->closing) {
        return MORSEL_SHUTDOWN;
    }
    if (request != NULL && protobuf_c_message_get_packed_size(request) > FRAME_BODY_BYTES_MAX) {
        return MORSEL_TOO_LARGE;
    }
    body = rpc_pack(request, &count);
    if (count == SIZE_MAX) {
        return MORSEL_NOMEM;
    }
    return start(call, peer, type, body, count, pieces, pieces_count, timeout_ms, done);
}

int rpc_call_start_packed(struct rpc_call *call, struct rpc_peer *peer, enum message_type type,
                          struct slice request, const struct rpc_piece *pieces,
                          unsigned pieces_count, uint64_t timeout_ms, rpc_call_cb done)
{
    uint8_t *body;

    CHECK(pieces_count <= RPC_PIECES_MAX && !call->once);
    if (peer->rpc->closing || peer->closing) {
        return MORSEL_SHUTDOWN;
    }
    if (request.count > FRAME_BODY_BYTES_MAX) {
        return MORSEL_TOO_LARGE;
    }
    body = malloc(request.count + 1);
    if (body == NULL) {
        return MORSEL_NOMEM;
    }
    memcpy(body, request.data, request.count);
    return start(call, peer, type, body, request.count, pieces, pieces_count, timeout_ms, done);
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
    if (count == SIZE_MAX || !conn_send(peer->conn, &header, body, count, NULL, 0)) {
        rpc_peer_break(peer);
    }
}

void rpc_peer_break(struct rpc_peer *peer)
{
    if (peer->conn != NULL) {
        conn_break(peer->conn, "out of memory for a message");
    }
}
