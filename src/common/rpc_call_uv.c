/* Calls: from their start to the answer, over any number of connections. */
#include "common.pb-c.h"
#include "common/rpc_internal_uv.h"
#include "common/status.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_MS = 1000000 };

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
    rpc_peer_go(s->peer, s);
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

void rpc_calls_end(struct rpc_peer *peer, int status)
{
    struct list *node;

    while ((node = list_front(&peer->sent)) != NULL ||
           (node = list_front(&peer->waiting)) != NULL) {
        call_end_later(peer->rpc, LIST_ENTRY(node, struct rpc_call_state, node), status);
    }
}

/* ---- On their way ---- */

static uint64_t term_number(const struct rpc *rpc)
{
    return rpc->term_number == NULL ? 0 : *rpc->term_number;
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

void rpc_call_send(struct rpc_peer *peer, struct rpc_call_state *s)
{
    struct frame_header header = { .type = (uint16_t)s->type, .request_id = s->id };
    uint64_t now = uv_now(peer->rpc->loop);
    uint8_t *body = NULL;

    if (s->deadline.place != 0) {
        uint64_t left_ms = s->deadline.key > now ? s->deadline.key - now : 1;

        header.deadline_ms = left_ms > UINT32_MAX ? 0 : (uint32_t)left_ms;
    }
    if (s->call->bounded) {
        if (s->term_number != term_number(peer->rpc)) {
            call_end_later(peer->rpc, s, MORSEL_TOO_LATE);
            return;
        }
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

void rpc_calls_send(struct rpc_peer *peer)
{
    while (peer->state == PEER_UP && !list_empty(&peer->waiting)) {
        rpc_call_send(peer, LIST_ENTRY(list_front(&peer->waiting), struct rpc_call_state, node));
    }
}

void rpc_calls_take_back(struct rpc_peer *peer)
{
    struct list *node;

    while ((node = peer->sent.prev) != &peer->sent) {
        list_remove(node);
        LIST_ENTRY(node, struct rpc_call_state, node)->sent = false;
        list_push_front(&peer->waiting, node);
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

void rpc_call_take_reply(struct rpc_peer *peer, const struct frame_header *header,
                         const uint8_t *body, struct payload **payload)
{
    struct rpc_call_state *s = find_sent(peer, header->request_id);
    struct rpc_reply reply = {
        .body = body, .body_count = header->body_length, .payload = *payload, .text = ""
    };
    Morsel__Failure *failure = NULL;

    if (s == NULL) {
        return;
    }
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

/* ---- The public face ---- */

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
    s->term_number = term_number(rpc);
    call->peer = peer;
    call->done = done;
    call->state = s;
    list_push_back(&peer->waiting, &s->node);
    rpc_peer_go(peer, s);
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
