/* Calls to the manager, closes that are told in batches, and the life of a client. */
#include "client/libmorsel_uv.h"

#include "client/coherence/data_versions.h"
#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/append_uv.h"
#include "client/data/durable_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/behind_uv.h"
#include "client/manager/changes.h"
#include "client/manager/servers_uv.h"
#include "client/manager/session_uv.h"
#include "common.pb-c.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { LEAVE_MS = 1000, NO_SESSION_RETRIES_MAX = 3, PAYLOAD_IDLE_BYTES = 64 << 20 };

uint64_t client_clock_ns(const struct client *client)
{
    return rpc_boot_ns() + (uint64_t)client->clock_offset_ns;
}

int client_errno(const struct client *client, int status)
{
    if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
        return client->options.soft ? ETIMEDOUT : EIO;
    }
    return status_to_errno(status);
}

/* ---- Calls to the manager ---- */

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
    if (status == MORSEL_NO_SESSION && !client->stopping &&
        call->retries < NO_SESSION_RETRIES_MAX) {
        /* The session ran out while we could not reach the manager: begin a new one, and ask again.
         */
        call->retries++;
        reply->again = true;
        if (client->holder.joins_asked == 0) {
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
        op_numbers_return(&call->client->numbers, call->sequence);
        call->sequence = 0;
        call_queue_pump(client);
    }
    if (status != MORSEL_TIMEDOUT && status != MORSEL_UNREACHABLE && status != MORSEL_CANCELED &&
        status != MORSEL_SHUTDOWN && status != MORSEL_NO_SESSION && status != MORSEL_TOO_LATE) {
        lease_holder_answered(&client->holder, call->sent_ns, uv_now(client->loop));
    }
    if (message != NULL) {
        lease_learn(client, call->reply_type, message);
        durable_learn(client, call->reply_type, message);
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

/* ---- Closes, in batches ---- */

/* The manager counts what is closed as open, for it is not told of the close: so the next
 * close is told whether or not its opening was. */
static bool is_open(struct client *client, inode_id inode)
{
    struct file *file = file_find(client, inode);

    if (file != NULL) {
        file->counted = true;
        return true;
    }
    LIST_FOREACH(node, &client->opening)
    {
        if (LIST_ENTRY(node, struct client_opening, node)->inode == inode) {
            return true;
        }
    }
    return false;
}

static void closes_send(struct client *client)
{
    Morsel__CloseRequest request = MORSEL__CLOSE_REQUEST__INIT;

    for (size_t i = 0; i < client->closed_count; i++) {
        if (!is_open(client, client->closed_inodes[i])) {
            client->closed_inodes[request.n_inodes++] = client->closed_inodes[i];
        }
    }
    client->closed_count = 0;
    request.inodes = client->closed_inodes;
    if (request.n_inodes > 0) {
        /* Lost with the connection? Then the next SESSION lists what is open, and that is the
         * truth. */
        rpc_send_oneway(client->manager, MSG_CLOSE, &request.base);
    }
}

void client_close_inode(struct client *client, inode_id inode)
{
    client->closed_inodes[client->closed_count++] = inode;
    if (client->closed_count == CLOSED_BATCH_MAX) {
        closes_send(client);
    }
}

void client_opening_begin(struct client *client, struct client_opening *opening, inode_id inode)
{
    opening->inode = inode;
    list_init(&opening->node);
    list_push_back(&client->opening, &opening->node);
}

void client_opening_end(struct client_opening *opening)
{
    list_remove(&opening->node);
}

/* ---- Life ---- */

static void on_tick(uv_timer_t *timer)
{
    struct client *client = timer->data;
    uint64_t now = uv_now(client->loop);

    behind_tick(client);
    lease_tick(client);
    append_tick(client, now);
    size_lock_tick(client);
    session_tick(client);
    file_settle_unsure(client);
    closes_send(client);
    servers_tick(client);
    LIST_FOREACH_SAFE(node, &client->dirty_files)
    {
        file_age(LIST_ENTRY(node, struct file, dirty_node), now);
    }
}

static void client_init(struct client *client, uv_loop_t *loop,
                        const struct client_options *options)
{
    client->loop = loop;
    client->options = *options;
    if (uv_random(NULL, NULL, &client->id, sizeof(client->id), 0, NULL) != 0) {
        client->id = uv_hrtime();
    }
    client->id |= 1; /* 0 means "none". */
    op_numbers_init(&client->numbers, client->numbers_out, CLIENT_OPS_PENDING_MAX);
    list_init(&client->members_waiting);
    list_init(&client->dirty_files);
    list_init(&client->unsure_files);
    list_init(&client->room_waiting);
    list_init(&client->fetch_room_waiting);
    list_init(&client->opening);
    lease_holder_init(&client->holder);
    list_init(&client->untold);
    size_locks_init(&client->size_locks);
    list_init(&client->appends);
}

static void client_free(struct client *client)
{
    servers_free(client);
    data_version_cache_free(client->versions);
    free(client->changes);
    lease_close(client);
    size_lock_client_close(client);
    behind_close(client);
    lock_holder_free(&client->locks);
    free(client->closed_inodes);
    free(client);
}

int client_new(uv_loop_t *loop, const struct client_options *options, struct client **client_out,
               void (*ready)(void *data, int status, const char *text), void *data,
               struct errmsg *err)
{
    struct client *client = calloc(1, sizeof(*client));
    struct rpc_options rpc_options = { .role = ROLE_CLIENT,
                                       .payload_idle_bytes_max = PAYLOAD_IDLE_BYTES,
                                       .program = options->program };
    int rv;

    *client_out = NULL;
    if (client == NULL) {
        return MORSEL_NOMEM;
    }
    client_init(client, loop, options);
    client->closed_inodes = malloc(CLOSED_BATCH_MAX * sizeof(client->closed_inodes[0]));
    client->versions = data_version_cache_new();
    client->changes = calloc(1, sizeof(*client->changes));
    client->cache = meta_cache_new(CLIENT_CACHE_INODES_MAX, CLIENT_CACHE_NAMES_MAX);
    rpc_options.node_id = client->id;
    rv = lock_holder_init(&client->locks, client->id, LOCK_HOLDER_RANGES_MAX);
    if (kernel_drops_open(client) != 0 || behind_open(client) != 0 ||
        client->closed_inodes == NULL || client->versions == NULL || client->changes == NULL ||
        client->cache == NULL) {
        rv = MORSEL_NOMEM;
    } else {
        changes_init(client->changes);
    }
    if (rv == 0) {
        rv = rpc_new(loop, &rpc_options, &client->rpc);
    }
    if (rv == 0 && (rv = rpc_peer_new(client->rpc, options->manager, &client->manager, err)) != 0) {
        rpc_close(client->rpc, NULL, NULL);
    }
    if (rv != 0) {
        client_free(client);
        return rv;
    }
    rpc_set_lease(client->rpc, &client->holder.until_ns, &client->holder.lease_epoch);
    client->ready = ready;
    client->ready_data = data;
    (void)uv_timer_init(loop, &client->tick);
    client->tick.data = client;
    (void)uv_timer_start(&client->tick, on_tick, CLIENT_TICK_MS, CLIENT_TICK_MS);
    session_begin(client);
    *client_out = client;
    return MORSEL_OK;
}

static void on_idle(struct client *client)
{
    void (*closed)(void *data) = client->closed;
    void *data = client->closed_data;

    client_free(client);
    if (closed != NULL) {
        closed(data);
    }
}

static void on_rpc_closed(void *data)
{
    struct client *client = data;

    if (client->kernel_drops == 0) {
        on_idle(client);
    } else {
        client->idle = on_idle; /* The kernel has not answered yet. */
    }
}

static void on_left(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct client *client = CONTAINER_OF(call, struct client, leaving);

    (void)status;
    (void)reply;
    rpc_close(client->rpc, on_rpc_closed, client);
}

void client_close(struct client *client, void (*closed)(void *data), void *data)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;

    CHECK(client->files == NULL);
    client->stopping = true;
    client->ready = NULL;
    call_queue_close(client);
    uv_close((uv_handle_t *)&client->tick, NULL);
    closes_send(client);
    rpc_peer_watch(client->manager, NULL, NULL, NULL);
    client->closed = closed;
    client->closed_data = data;
    request.leave = true;
    if (!rpc_peer_connected(client->manager) ||
        rpc_call_start(&client->leaving, client->manager, MSG_SESSION, &request.base, NULL, 0,
                       LEAVE_MS, on_left) != 0) {
        rpc_close(client->rpc, on_rpc_closed, client);
    }
}
