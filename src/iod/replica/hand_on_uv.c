/* Requests on their way to who orders, and answers on their way back. */
#include "iod/replica/hand_on_uv.h"

#include "common/base/status.h"
#include "common/serve/object_handler_uv.h"
#include "replica.pb-c.h"

#include <stdlib.h>
#include <string.h>

struct hand_on
{
    struct list node;
    struct hand_ons *all;
    struct rpc_call call;
    struct rpc_request *request;
    struct rpc_peer *to;
    group_number group;
};

/* Of an object that has copies; 0: it is nothing that can be handed on. */
static group_number group_of(const Morsel__HandOnRequest *m)
{
    const struct object_handler *handler = object_handler_of(m->request);
    struct object_reach reach;
    struct job job = { .status = 0 };

    if (handler == NULL || handler->use == OBJECT_USE_NONE || handler->use == OBJECT_USE_DELETE) {
        return 0;
    }
    job.message = protobuf_c_message_unpack(handler->descriptor, NULL, m->body.len, m->body.data);
    if (job.message == NULL) {
        return 0;
    }
    handler->reach(&job, &reach);
    protobuf_c_message_free_unpacked(job.message, NULL);
    return placing_group(reach.object.column);
}

/* ---- Here ---- */

/* The request that is in it takes its place. */
static void do_here(struct hand_ons *h, struct rpc_request *request, const Morsel__HandOnRequest *m)
{
    request->type = (enum message_type)m->request;
    request->body += request->body_count - m->body.len;
    request->body_count = m->body.len;
    if (m->client != 0) {
        request->role = ROLE_CLIENT;
        request->node_id = m->client;
    }
    object_handle(h->server, request);
}

/* ---- Elsewhere ---- */

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct hand_on *o = CONTAINER_OF(call, struct hand_on, call);
    struct payload *payload = reply->payload;

    list_remove(&o->node);
    o->all->count--;
    reply->payload = NULL;
    if (status == MORSEL_OK) {
        rpc_reply_packed(o->request, (struct slice){ reply->body, reply->body_count }, payload);
    } else {
        bool silent = status == MORSEL_CANCELED || status == MORSEL_TIMEDOUT ||
                      status == MORSEL_UNREACHABLE || status == MORSEL_SHUTDOWN;

        payload_drop(payload);
        rpc_reply_failure(o->request, silent ? MORSEL_NOT_HERE : status,
                          silent ? "the server that orders does not answer this one either"
                                 : reply->text);
    }
    free(o);
}

/* Until when it may be carried out, on our clock; 0: whenever. */
static uint64_t until_ms(const struct rpc_request *request)
{
    uint64_t now_ms = rpc_boot_ms();
    int32_t left_ms = (int32_t)(request->not_after - (uint32_t)now_ms);

    if (request->not_after == 0) {
        return 0;
    }
    return left_ms > 0 ? now_ms + (uint64_t)left_ms : 1;
}

static uint64_t time_of(const struct hand_ons *h, const struct rpc_request *request)
{
    uint64_t now_ms = rpc_now_ms(h->server->rpc);
    uint64_t left_ms = request->deadline_ms > now_ms ? request->deadline_ms - now_ms : 1;

    return left_ms < HAND_ON_MS ? left_ms : HAND_ON_MS;
}

static int hand_on(struct hand_ons *h, struct rpc_request *request, Morsel__HandOnRequest *m,
                   struct rpc_peer *to, group_number group)
{
    struct hand_on *o = h->count < HAND_ONS_MAX ? calloc(1, sizeof(*o)) : NULL;
    struct rpc_piece piece = { .payload = request->payload };
    int rv;

    if (o == NULL) {
        return MORSEL_OVERLOAD;
    }
    piece.count = request->payload != NULL ? request->payload->count : 0;
    o->all = h;
    o->request = request;
    o->to = to;
    o->group = group;
    o->call.impatient = true;
    o->call.until_ms = until_ms(request);
    m->client = request->node_id;
    rv = rpc_call_start(&o->call, to, MSG_HAND_ON, &m->base, piece.payload != NULL ? &piece : NULL,
                        piece.payload != NULL, time_of(h, request), on_answer);
    if (rv != MORSEL_OK) {
        free(o);
        return rv;
    }
    list_init(&o->node);
    list_push_back(&h->under_way, &o->node);
    h->count++;
    return MORSEL_OK;
}

/* ---- Both ---- */

/* MORSEL_OK: it may be done, here or elsewhere. */
static int check(const struct hand_ons *h, const struct rpc_request *request,
                 const Morsel__HandOnRequest *m)
{
    bool of_client = request->role == ROLE_CLIENT && request->node_id != 0 && m->client == 0;
    bool of_member =
        request->role == ROLE_IOD && m->client != 0 && h->is_member(h->data, request->node_id);

    if (!of_client && !of_member) {
        return MORSEL_PERM;
    }
    /* The body is used where it lies. */
    return m->body.len <= request->body_count &&
                   memcmp(request->body + request->body_count - m->body.len, m->body.data,
                          m->body.len) == 0
               ? MORSEL_OK
               : MORSEL_MALFORMED;
}

static void take(struct hand_ons *h, struct rpc_request *request, Morsel__HandOnRequest *m)
{
    group_number group = group_of(m);
    int rv = group == 0 ? MORSEL_MALFORMED : check(h, request, m);
    struct rpc_peer *to = rv == MORSEL_OK && m->client == 0 ? h->orderer(h->data, group) : NULL;

    if (rv == MORSEL_OK && to == NULL) {
        do_here(h, request, m);
        return;
    }
    if (rv == MORSEL_OK) {
        rv = hand_on(h, request, m, to, group);
    }
    if (rv != MORSEL_OK) {
        rpc_reply_failure(request, rv, "this is not handed on");
    }
}

void hand_on_take(struct hand_ons *h, struct rpc_request *request)
{
    Morsel__HandOnRequest *m;

    if (!h->open) {
        list_init(&h->under_way);
        h->open = true;
    }
    if (h->closing) {
        rpc_reply_failure(request, MORSEL_SHUTDOWN, NULL);
        return;
    }
    m = rpc_request_unpack(request, &morsel__hand_on_request__descriptor);
    if (m != NULL) {
        take(h, request, m);
        morsel__hand_on_request__free_unpacked(m, NULL);
    }
}

void hand_ons_look(struct hand_ons *h)
{
    if (h->count == 0) {
        return;
    }
    LIST_FOREACH(node, &h->under_way)
    {
        struct hand_on *o = LIST_ENTRY(node, struct hand_on, node);

        if (h->closing || h->orderer(h->data, o->group) != o->to) {
            rpc_call_cancel(&o->call);
        }
    }
}

void hand_ons_close(struct hand_ons *h)
{
    h->closing = true;
    hand_ons_look(h);
}
