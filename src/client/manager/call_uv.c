/* Calls to the manager, and their answers (libmorsel_uv.h, behind_uv.h). */
#include "client/coherence/lease_uv.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"

enum { NO_SESSION_RETRIES_MAX = 3 };

/* The page of a directory is kept by whoever reads that (dir_ops_fuse.c). */
static bool is_kept(const struct meta_call *call)
{
    return call->reply_type == &morsel__readdir_reply__descriptor;
}

static int unpack(const struct meta_call *call, const struct rpc_reply *reply,
                  struct rpc_room *room, void **message)
{
    int rv = is_kept(call)
                 ? rpc_try_unpack(call->reply_type, reply->body, reply->body_count, message)
                 : rpc_unpack_in(room, call->reply_type, reply->body, reply->body_count, message);

    if (rv == MORSEL_MALFORMED) {
        log_error(call->client->options.log, "answer of the manager to %s is malformed",
                  message_name(call->type));
    }
    return rv;
}

void meta_call_replied(struct rpc_call *rpc_call, int status, struct rpc_reply *reply)
{
    struct meta_call *call = rpc_call->data;
    struct client *client = call->client;
    struct rpc_room room;
    void *message = NULL;
    bool kept;

    if (status == 0 && call->reply_type != NULL) {
        status = unpack(call, reply, &room, &message);
        if (status == MORSEL_NOMEM) { /* It is done, and answered to us again. */
            reply->again = true;
            return;
        }
    }
    if (status == MORSEL_NO_SESSION) {
        lease_refused(client);
    }
    if (status == MORSEL_NO_SESSION && !client_is_ending(client) &&
        call->retries < NO_SESSION_RETRIES_MAX) {
        /* The session ran out while we could not reach the manager: begin a new one, and ask again.
         */
        call->retries++;
        reply->again = true;
        if (!lease_is_joining(client)) {
            log_warning(
                client->options.log,
                "manager %s had given us up, for it did not hear from us; joining again (files "
                "that were deleted while open may be gone)",
                rpc_peer_address(client->manager));
            client_rejoin(client);
        }
        return;
    }
    if (call->sequence != 0) {
        op_numbers_return(&call->client->calls->numbers, call->sequence);
        call->sequence = 0;
        call_queue_pump(client);
    }
    if (status != MORSEL_TIMEDOUT && status != MORSEL_UNREACHABLE && status != MORSEL_CANCELED &&
        status != MORSEL_SHUTDOWN && status != MORSEL_NO_SESSION && status != MORSEL_TOO_LATE) {
        lease_answered(client, call->sent_ns);
    }
    if (message != NULL) {
        lease_learn(client, call->reply_type, message);
        client->calls->hooks->learned(client, call->reply_type, message);
    }
    kept = is_kept(call);
    call->done(call, status, message);
    if (message != NULL) {
        protobuf_c_message_free_unpacked(message, kept ? NULL : &room.allocator);
    }
}

void meta_call_init(struct meta_call *call, struct client *client, enum message_type type,
                    const ProtobufCMessageDescriptor *reply_type, meta_call_cb done)
{
    call->client = client;
    call->done = done;
    call->type = type;
    call->reply_type = reply_type;
    call->sequence = 0;
    call->retries = 0;
    call->rpc.data = call;
}

int meta_call_start(struct meta_call *call, struct client *client, enum message_type type,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                    meta_call_cb done)
{
    meta_call_init(call, client, type, reply_type, done);
    return call_queue_start(call, request, NULL);
}

int meta_change_start(struct meta_call *call, struct client *client, enum message_type type,
                      const ProtobufCMessage *request, Morsel__OpId **op,
                      const ProtobufCMessageDescriptor *reply_type, meta_call_cb done)
{
    meta_call_init(call, client, type, reply_type, done);
    return call_queue_start(call, request, op);
}

void meta_call_cancel(struct meta_call *call)
{
    if (!call_queue_cancel(call)) {
        rpc_call_cancel(&call->rpc);
    }
}
