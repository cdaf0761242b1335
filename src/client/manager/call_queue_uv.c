/* Calls to the manager that wait for a place among its answers, or behind attributes that were set
 * before. */
#include "client/manager/behind_uv.h"

#include "client/coherence/lease_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

struct queued_call
{
    struct list node; /* In one of the client's lists. */
    struct meta_call *call;
    const ProtobufCMessageDescriptor *request_type;
    uint8_t *body;
    size_t body_count;
    size_t op_at;         /* Of the field for its id, in the request; 0: a question. */
    uint64_t lease_epoch; /* Of the time when it was started. */
    uint64_t deadline_ms; /* UINT64_MAX: none. */
    uint64_t stamp;       /* It stays behind what had been set by then (attr_behind.h), */
    uint64_t mark;        /* and, in client->calls->syncing, behind its answers. */
    int status;           /* In client->calls->ended. */
};

static void queued_free(struct queued_call *queued)
{
    list_remove(&queued->node);
    queued->call->queued = NULL;
    free(queued->body);
    free(queued);
}

/* To the manager, now. `timeout_ms` of it are left. */
static int send_now(struct meta_call *call, const ProtobufCMessage *request, Morsel__OpId **op,
                    uint64_t epoch, uint64_t timeout_ms)
{
    struct client *client = call->client;
    Morsel__OpId id = MORSEL__OP_ID__INIT;
    int rv;

    if (op != NULL) {
        call->sequence =
            op_numbers_take(&client->calls->numbers, call->bounded ? 0 : CLIENT_OPS_RESERVED);
        if (call->sequence == 0) {
            return MORSEL_AGAIN;
        }
        id.client = client->calls->id;
        id.sequence = call->sequence;
        id.answered = client->calls->numbers.answered;
        id.lease_epoch = call->bounded ? epoch : 0;
        *op = &id;
    }
    call->sent_ns = rpc_boot_ns();
    rv = rpc_call_start(&call->rpc, client->manager, call->type, request, NULL, 0, timeout_ms,
                        meta_call_replied);
    if (op != NULL) {
        *op = NULL;
    }
    if (rv != 0 && call->sequence != 0) {
        op_numbers_return(&client->calls->numbers, call->sequence);
        call->sequence = 0;
    }
    return rv;
}

static uint64_t timeout_ms_of(const struct meta_call *call)
{
    return call->patient ? RPC_NO_DEADLINE : call->client->options.io_timeout_ms;
}

/* Is what was set on the inode that it covers not with the manager? */
static bool must_cover(const struct meta_call *call)
{
    return call->covers != INODE_NONE && behind_has(call->client, call->covers);
}

/* Those under a lease or a size lock, and questions, wait for nobody else and go first. */
static struct list *list_of(const struct meta_call *call, bool change)
{
    if (must_cover(call)) {
        return &call->client->calls->syncing;
    }
    return change && !call->bounded ? &call->client->calls->waiting : &call->client->calls->urgent;
}

static int enqueue(struct meta_call *call, const ProtobufCMessage *request, Morsel__OpId **op)
{
    struct client *client = call->client;
    struct queued_call *queued = calloc(1, sizeof(*queued));
    uint64_t timeout_ms = timeout_ms_of(call);

    if (queued == NULL) {
        return MORSEL_NOMEM;
    }
    queued->body_count = protobuf_c_message_get_packed_size(request);
    queued->body = malloc(queued->body_count + 1);
    if (queued->body == NULL) {
        free(queued);
        return MORSEL_NOMEM;
    }
    (void)protobuf_c_message_pack(request, queued->body);
    queued->request_type = request->descriptor;
    queued->op_at = op == NULL ? 0 : (size_t)((const char *)op - (const char *)request);
    queued->lease_epoch = lease_epoch(client);
    queued->deadline_ms =
        timeout_ms == RPC_NO_DEADLINE ? UINT64_MAX : uv_now(client->loop) + timeout_ms;
    queued->stamp = attr_behind_stamp(client->calls->attributes);
    queued->mark = attr_behind_mark(client->calls->attributes);
    queued->call = call;
    call->queued = queued;
    list_init(&queued->node);
    list_push_back(list_of(call, op != NULL), &queued->node);
    client->counters.calls_queued++;
    return MORSEL_OK;
}

int call_queue_start_now(struct meta_call *call, const ProtobufCMessage *request, Morsel__OpId **op)
{
    return send_now(call, request, op, lease_epoch(call->client), timeout_ms_of(call));
}

int call_queue_start(struct meta_call *call, const ProtobufCMessage *request, Morsel__OpId **op)
{
    struct client *client = call->client;
    int rv = MORSEL_AGAIN;

    if (must_cover(call)) {
        attr_behind_retry(client->calls->attributes);
    }
    behind_push(client);
    if (!must_cover(call) && attr_behind_waiting(client->calls->attributes) == 0 &&
        list_empty(&client->calls->urgent) && list_empty(list_of(call, op != NULL))) {
        rv = call_queue_start_now(call, request, op);
    }
    return rv == MORSEL_AGAIN ? enqueue(call, request, op) : rv;
}

/* ---- Out of the queue ---- */

static void end_with(struct queued_call *queued, int status)
{
    struct meta_call *call = queued->call;

    queued_free(queued);
    call->done(call, status, NULL);
}

/* False: it must wait on. */
static bool start_queued(struct queued_call *queued)
{
    struct meta_call *call = queued->call;
    struct client *client = call->client;
    uint64_t now_ms = uv_now(client->loop), left_ms = RPC_NO_DEADLINE;
    ProtobufCMessage *request;
    Morsel__OpId **op = NULL;
    int rv;

    if (attr_behind_waits(client->calls->attributes, queued->stamp)) {
        return false;
    }
    if (queued->deadline_ms != UINT64_MAX) {
        left_ms = queued->deadline_ms > now_ms ? queued->deadline_ms - now_ms : 1;
    }
    rv = rpc_try_unpack(queued->request_type, queued->body, queued->body_count, (void **)&request);
    if (rv == 0) {
        if (queued->op_at != 0) {
            op = (Morsel__OpId **)(void *)((char *)request + queued->op_at);
        }
        rv = send_now(call, request, op, queued->lease_epoch, left_ms);
        protobuf_c_message_free_unpacked(request, NULL);
    }
    if (rv == MORSEL_AGAIN) {
        return false;
    }
    if (rv != 0) {
        end_with(queued, rv);
    } else {
        queued_free(queued);
    }
    return true;
}

static void pump_list(struct list *calls)
{
    struct list *node;

    while ((node = list_front(calls)) != NULL &&
           start_queued(LIST_ENTRY(node, struct queued_call, node))) {
    }
}

/* Each waits for an inode of its own. */
static void pump_syncing(struct client *client)
{
    struct list *calls = &client->calls->syncing;
    struct list seen;

    list_init(&seen);
    while (!list_empty(calls)) {
        list_push_back(&seen, list_pop_front(calls));
    }
    while (!list_empty(&seen)) {
        struct list *node = list_pop_front(&seen);
        struct queued_call *queued = LIST_ENTRY(node, struct queued_call, node);
        int owes = attr_behind_owes(client->calls->attributes, queued->call->covers, queued->mark);

        if (owes != 0 && owes != MORSEL_AGAIN) {
            end_with(queued, owes);
        } else if (owes == MORSEL_AGAIN || !start_queued(queued)) {
            list_push_back(calls, node);
        }
    }
}

void call_queue_pump(struct client *client)
{
    if (client->calls->pumping) {
        return; /* Somebody's end has begun something new: the one who is at it sees to that. */
    }
    client->calls->pumping = true;
    behind_push(client);
    pump_list(&client->calls->urgent);
    pump_syncing(client);
    pump_list(&client->calls->waiting);
    client->calls->pumping = false;
}

bool call_queue_cancel(struct meta_call *call)
{
    struct queued_call *queued = call->queued;

    if (queued == NULL) {
        return false;
    }
    if (queued->status == 0) {
        queued->status = MORSEL_CANCELED;
        list_remove(&queued->node);
        list_push_back(&call->client->calls->ended, &queued->node);
    }
    return true;
}

static void expire(struct client *client, struct list *calls)
{
    uint64_t now_ms = uv_now(client->loop);

    LIST_FOREACH_SAFE(node, calls)
    {
        struct queued_call *queued = LIST_ENTRY(node, struct queued_call, node);

        if (now_ms >= queued->deadline_ms) {
            queued->status =
                rpc_peer_connected(client->manager) ? MORSEL_TIMEDOUT : MORSEL_UNREACHABLE;
            list_remove(node);
            list_push_back(&client->calls->ended, node);
        }
    }
}

static void end_all(struct list *calls, int status)
{
    struct list *node;

    while ((node = list_front(calls)) != NULL) {
        struct queued_call *queued = LIST_ENTRY(node, struct queued_call, node);

        end_with(queued, queued->status != 0 ? queued->status : status);
    }
}

void call_queue_tick(struct client *client)
{
    expire(client, &client->calls->urgent);
    expire(client, &client->calls->waiting);
    expire(client, &client->calls->syncing);
    end_all(&client->calls->ended, MORSEL_CANCELED);
    call_queue_pump(client);
}

void call_queue_close(struct client *client)
{
    end_all(&client->calls->ended, MORSEL_SHUTDOWN);
    end_all(&client->calls->urgent, MORSEL_SHUTDOWN);
    end_all(&client->calls->waiting, MORSEL_SHUTDOWN);
    end_all(&client->calls->syncing, MORSEL_SHUTDOWN);
}
