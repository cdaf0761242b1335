/* How the modules of a client are put together, closes that are told in batches, and its life. */
#include "client/libmorsel_uv.h"

#include "client/coherence/data_versions.h"
#include "client/coherence/held_uv.h"
#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/coherence/opened_uv.h"
#include "client/coherence/recall_uv.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/append_uv.h"
#include "client/data/durable_uv.h"
#include "client/data/fetch_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/behind_uv.h"
#include "client/manager/changes.h"
#include "client/manager/servers_uv.h"
#include "client/manager/session_uv.h"
#include "common.pb-c.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { LEAVE_MS = 1000, PAYLOAD_IDLE_BYTES = 64 << 20 };

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

/* ---- What the lower modules tell the upper ones ---- */

static void on_kernel_dropped(struct client *client, inode_id inode)
{
    struct file *file = file_find(client, inode);

    if (file != NULL) {
        file_note_kernel_changed(file);
    }
}

static void on_room(struct client *client, struct rpc_peer *peer)
{
    room_made(client, peer);
    fetch_room_made(client, peer);
}

static void on_servers_known(struct client *client)
{
    session_tell_ready(client, 0, "");
}

/* A file that was shared may be ours again from here on: its size must be that of now. */
static void on_learned(struct client *client, const Morsel__Attr *attr, enum lease_mode mode)
{
    struct file *file = file_find(client, attr->inode);

    if (mode != LEASE_NONE) {
        size_lock_let_go(client, attr->inode);
    }
    if (file != NULL) {
        file_refresh(file, attr);
    }
}

static void on_behind_lost(struct client *client, inode_id inode)
{
    struct file *file = file_find(client, inode);

    if (file != NULL) {
        file_fail(file, MORSEL_IO);
    }
}

static const struct servers_hooks servers_hooks = { .room = on_room, .known = on_servers_known };
static const struct lease_hooks lease_hooks = { .join = session_join,
                                                .renew = session_renew,
                                                .forget_all = held_drop_all,
                                                .give_back = recall_carry_out,
                                                .learned = on_learned,
                                                .evicted = recalls_give_back_evicted,
                                                .unpinned = recalls_settle };
static const struct behind_hooks behind_hooks = { .lost = on_behind_lost,
                                                  .learned = durable_learn };

/* ---- Life ---- */

static void on_tick(uv_timer_t *timer)
{
    struct client *client = timer->data;
    uint64_t now = uv_now(client->loop);

    behind_tick(client);
    if (kernel_drops_take_owed(client)) {
        held_drop_all(client);
    }
    recalls_tick(client);
    lease_tick(client);
    opened_tick(client);
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
    list_init(&client->dirty_files);
    list_init(&client->unsure_files);
    list_init(&client->room_waiting);
    list_init(&client->fetch_room_waiting);
    list_init(&client->opening);
    list_init(&client->untold);
    size_locks_init(&client->size_locks);
    list_init(&client->appends);
}

static void client_free(struct client *client)
{
    servers_close(client);
    data_version_cache_free(client->versions);
    free(client->changes);
    kernel_drops_close(client);
    CHECK(list_empty(&client->untold));
    recalls_close(client);
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
    rpc_options.node_id = client->id;
    rv = lock_holder_init(&client->locks, client->id, LOCK_HOLDER_RANGES_MAX);
    client->column_hooks = &durable_column_hooks;
    if (kernel_drops_open(client, on_kernel_dropped) != 0 ||
        servers_open(client, &servers_hooks) != 0 || lease_open(client, &lease_hooks) != 0 ||
        behind_open(client, &behind_hooks) != 0 || client->closed_inodes == NULL ||
        client->versions == NULL || client->changes == NULL) {
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
    lease_bind(client, client->rpc);
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
    kernel_drops_when_idle(data, on_idle); /* Perhaps the kernel has not answered yet. */
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
