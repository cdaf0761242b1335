/* How the modules of a client are put together, and its life. */
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
#include "client/data/chunk_uv.h"
#include "client/data/closes_uv.h"
#include "client/data/durable_uv.h"
#include "client/data/fetch_uv.h"
#include "client/data/file_uv.h"
#include "client/data/size_uv.h"
#include "client/data/source_uv.h"
#include "client/datasets/donors_uv.h"
#include "client/datasets/set_uv.h"
#include "client/manager/behind_uv.h"
#include "client/manager/changes.h"
#include "client/manager/groups_uv.h"
#include "client/manager/servers_uv.h"
#include "client/manager/session_uv.h"
#include "common.pb-c.h"
#include "common/base/presence.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { LEAVE_MS = 1000, PAYLOAD_IDLE_BYTES = 64 << 20 };

enum life_state { LIFE_GOES_ON, LIFE_ENDS };

struct client_life
{
    enum life_state state;
    struct presence presence; /* client_present_ms(); looked at with each tick. */
    uv_timer_t tick; /* Every CLIENT_TICK_MS: old dirty data, size reports, closes, interrupted
                        waits. */
    uint64_t opened_due_ms;
    struct rpc_call leaving; /* The last word to the manager. */
    void (*closed)(void *data);
    void *closed_data;
};

bool client_is_ending(const struct client *client)
{
    return client->life->state == LIFE_ENDS;
}

int client_errno(const struct client *client, int status)
{
    if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
        return client->options.soft ? ETIMEDOUT : EIO;
    }
    return status_to_errno(status);
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
    durable_change_lost(client, inode);
}

/* It is told as closed with the next one. */
static bool is_open_here(struct client *client, inode_id inode)
{
    struct file *file = file_find(client, inode);

    if (file != NULL) {
        file_note_counted(file);
    }
    return file != NULL;
}

static const struct servers_hooks servers_hooks = { .room = on_room,
                                                    .known = on_servers_known,
                                                    .groups = client_groups_changed };
static const struct lease_hooks lease_hooks = { .join = session_join,
                                                .renew = session_renew,
                                                .forget_all = held_drop_all,
                                                .give_back = recall_carry_out,
                                                .learned = on_learned,
                                                .evicted = recalls_give_back_evicted,
                                                .unpinned = recalls_look };
static const struct behind_hooks behind_hooks = { .lost = on_behind_lost,
                                                  .learned = durable_learn };

/* ---- Life ---- */

static void on_tick(uv_timer_t *timer)
{
    struct client *client = timer->data;
    struct client_life *life = client->life;
    uint64_t now_ms = uv_now(client->loop);

    (void)client_present_ms(client);
    behind_tick(client);
    if (kernel_drops_take_owed(client)) {
        held_drop_all(client);
    }
    recalls_tick(client);
    lease_tick(client);
    if (now_ms >= life->opened_due_ms) {
        life->opened_due_ms = now_ms + OPENED_TICK_MS;
        opened_tick(client);
    }
    append_tick(client, now_ms);
    size_lock_tick(client);
    session_tick(client);
    files_let_go_sure(client);
    closes_send(client);
    servers_tick(client);
    client_groups_tick(client);
    files_age(client, now_ms);
    size_asks_tick(client);
    sources_tick(client);
    data_sets_tick(client);
}

static client_id draw_id(void)
{
    client_id id;

    if (uv_random(NULL, NULL, &id, sizeof(id), 0, NULL) != 0) {
        id = uv_hrtime();
    }
    return id | 1; /* 0 means "none". */
}

static void client_free(struct client *client)
{
    client_groups_close(client);
    servers_close(client);
    data_version_cache_free(client->data.versions);
    free(client->data.changes);
    kernel_drops_close(client);
    recalls_close(client);
    lease_close(client);
    size_lock_client_close(client);
    behind_close(client);
    lock_holder_free(&client->locks);
    closes_close(client);
    appends_close(client);
    size_asks_close(client);
    fetches_close(client);
    write_buffers_close(client);
    files_close(client);
    data_sets_close(client);
    sources_close(client);
    donors_close(client);
    session_close(client);
    free(client->life);
    free(client);
}

/* The lower ones first. */
static int open_parts(struct client *client, client_id id)
{
    int rv = lock_holder_init(&client->locks, id, LOCK_HOLDER_RANGES_MAX);

    size_locks_init(&client->size_locks);
    client->data.versions = data_version_cache_new();
    client->data.changes = calloc(1, sizeof(*client->data.changes));
    if (client->life == NULL || client->data.versions == NULL || client->data.changes == NULL) {
        return MORSEL_NOMEM;
    }
    changes_init(client->data.changes);
    if (rv != 0 || (rv = kernel_drops_open(client, on_kernel_dropped)) != 0 ||
        (rv = servers_open(client, &servers_hooks)) != 0 ||
        (rv = client_groups_open(client)) != 0 || (rv = lease_open(client, &lease_hooks)) != 0 ||
        (rv = behind_open(client, id, &behind_hooks)) != 0 || (rv = donors_open(client)) != 0 ||
        (rv = data_sets_open(client)) != 0 || (rv = sources_open(client)) != 0 ||
        (rv = closes_open(client, is_open_here)) != 0 ||
        (rv = files_open(client, &durable_column_hooks)) != 0 ||
        (rv = write_buffers_open(client)) != 0 || (rv = fetches_open(client)) != 0 ||
        (rv = appends_open(client)) != 0 || (rv = size_asks_open(client)) != 0) {
        return rv;
    }
    return MORSEL_OK;
}

static int connect_to(struct client *client, client_id id, struct errmsg *err)
{
    struct rpc_options rpc_options = { .role = ROLE_CLIENT,
                                       .node_id = id,
                                       .payload_idle_bytes_max = PAYLOAD_IDLE_BYTES,
                                       .program = client->options.program };
    int rv = rpc_new(client->loop, &rpc_options, &client->rpc);

    if (rv == 0 &&
        (rv = rpc_peer_new(client->rpc, client->options.manager, &client->manager, err)) != 0) {
        rpc_close(client->rpc, NULL, NULL);
    }
    return rv;
}

uint64_t client_present_ms(struct client *client)
{
    return presence_now_ms(&client->life->presence, uv_now(client->loop));
}

int client_new(uv_loop_t *loop, const struct client_options *options, struct client **client_out,
               void (*ready)(void *data, int status, const char *text), void *data,
               struct errmsg *err)
{
    struct client *client = calloc(1, sizeof(*client));
    client_id id = draw_id();
    int rv;

    *client_out = NULL;
    if (client == NULL) {
        return MORSEL_NOMEM;
    }
    client->loop = loop;
    client->options = *options;
    client->life = calloc(1, sizeof(*client->life));
    if ((rv = open_parts(client, id)) != 0 || (rv = session_open(client, ready, data)) != 0 ||
        (rv = connect_to(client, id, err)) != 0) {
        client_free(client);
        return rv;
    }
    lease_bind(client, client->rpc);
    presence_init(&client->life->presence, uv_now(loop));
    (void)uv_timer_init(loop, &client->life->tick);
    client->life->tick.data = client;
    (void)uv_timer_start(&client->life->tick, on_tick, CLIENT_TICK_MS, CLIENT_TICK_MS);
    session_begin(client);
    *client_out = client;
    return MORSEL_OK;
}

static void on_idle(struct client *client)
{
    void (*closed)(void *data) = client->life->closed;
    void *data = client->life->closed_data;

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
    struct client *client = call->data;

    (void)status;
    (void)reply;
    rpc_close(client->rpc, on_rpc_closed, client);
}

void client_close(struct client *client, void (*closed)(void *data), void *data)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;
    struct client_life *life = client->life;

    CHECK(files_count(client) == 0);
    life->state = LIFE_ENDS;
    data_sets_empty(client);
    session_end(client);
    call_queue_close(client);
    uv_close((uv_handle_t *)&life->tick, NULL);
    closes_send(client);
    rpc_peer_on_push(client->manager, NULL); /* A recall may still be on its way. */
    rpc_peer_watch(client->manager, NULL, NULL, NULL);
    life->closed = closed;
    life->closed_data = data;
    life->leaving.data = client;
    request.leave = true;
    if (!rpc_peer_connected(client->manager) ||
        rpc_call_start(&life->leaving, client->manager, MSG_SESSION, &request.base, NULL, 0,
                       LEAVE_MS, on_left) != 0) {
        rpc_close(client->rpc, on_rpc_closed, client);
    }
}
