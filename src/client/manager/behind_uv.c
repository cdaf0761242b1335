/* Attributes on their way to the manager, and the word in the log about what does not get there. */
#include "client/manager/behind_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/coherence/meta_cache.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"

#include <stdlib.h>

/* A change that was answered already. */
struct behind_call
{
    struct meta_call call;
    struct client *client;
    inode_id inode;
    uint64_t lease_epoch; /* Under which it was made. */
};

void behind_note_progress(struct client *client)
{
    client->calls->progress_ms = uv_now(client->loop);
    client->calls->warned = false;
}

bool behind_is_passing(int status)
{
    switch (status) {
    case MORSEL_TIMEDOUT:
    case MORSEL_UNREACHABLE:
    case MORSEL_NO_SESSION:
    case MORSEL_OVERLOAD:
    case MORSEL_NOMEM:
    case MORSEL_IO:
    case MORSEL_NOSPC:
        return true;
    default:
        return false;
    }
}

/* Whoever has the file open, or opens it, hears of it. */
static void lose(struct client *client, inode_id inode, const char *why)
{
    meta_cache_forget_attr(client->cache, inode);
    client->calls->hooks->lost(client, inode);
    log_error(client->options.log,
              "inode %lu: mode, owner or times that were set on it are lost: %s (manager %s)",
              (unsigned long)inode, why, rpc_peer_address(client->manager));
}

static void on_set(struct meta_call *call, int status, void *message)
{
    struct behind_call *behind = CONTAINER_OF(call, struct behind_call, call);
    struct client *client = behind->client;
    const Morsel__Node *node = message;
    inode_id inode = behind->inode;
    bool again = behind_is_passing(status) && behind->lease_epoch == lease_epoch(client);

    free(behind);
    if (attr_behind_ended(client->calls->attributes, inode, again ? status : MORSEL_OK)) {
        meta_cache_dirty(client->cache, inode, -1);
    }
    if (status == 0 && node->attr != NULL) {
        behind_note_progress(client);
        meta_cache_learn(client->cache, node->attr, (enum lease_mode)node->lease, NULL);
    } else if (!again && status != MORSEL_NOENT && status != MORSEL_STALE) { /* It is deleted. */
        lose(client, inode, status_words(status));
    }
    lease_unpinned(client);
    call_queue_pump(client);
}

static int send_change(struct client *client, inode_id inode, const struct attr_change *change)
{
    Morsel__SetattrRequest request = MORSEL__SETATTR_REQUEST__INIT;
    struct behind_call *behind = calloc(1, sizeof(*behind));
    int rv;

    if (behind == NULL) {
        return MORSEL_NOMEM;
    }
    behind->client = client;
    behind->inode = inode;
    behind->lease_epoch = change->lease_epoch;
    behind->call.bounded = true;
    behind->call.patient = true;
    request.inode = inode;
    request.valid = change->valid;
    request.mode = change->mode;
    request.uid = change->uid;
    request.gid = change->gid;
    request.atime_ns = change->atime_ns;
    request.mtime_ns = change->mtime_ns;
    request.set_ns = change->set_ns;
    meta_call_init(&behind->call, client, MSG_SETATTR, &morsel__node__descriptor, on_set);
    rv = call_queue_start_now(&behind->call, &request.base, &request.op);
    if (rv != 0) {
        free(behind);
    }
    return rv;
}

void behind_push(struct client *client)
{
    struct attr_change change;
    inode_id inode;

    while ((inode = attr_behind_next(client->calls->attributes, &change)) != INODE_NONE) {
        if (send_change(client, inode, &change) != 0) {
            attr_behind_put_back(client->calls->attributes, inode);
            return; /* The next end of a call, or the next tick, goes on. */
        }
    }
}

bool behind_set(struct client *client, inode_id inode, const struct attr_change *change)
{
    bool first = behind_is_empty(client);

    switch (attr_behind_set(client->calls->attributes, inode, change)) {
    case ATTR_BEHIND_FULL:
        return false;
    case ATTR_BEHIND_TAKEN:
        meta_cache_dirty(client->cache, inode, 1);
        break;
    case ATTR_BEHIND_MERGED:
        client->counters.attributes_merged++;
        break;
    }
    if (first) {
        behind_note_progress(client);
    }
    if (attr_behind_waiting(client->calls->attributes) > BEHIND_HELD_MAX) {
        behind_push(client);
    }
    return true;
}

bool behind_has(const struct client *client, inode_id inode)
{
    return attr_behind_has(client->calls->attributes, inode);
}

bool behind_is_empty(const struct client *client)
{
    return attr_behind_count(client->calls->attributes) == 0 && client->calls->reports == 0;
}

void behind_note_report(struct client *client, int change)
{
    if (behind_is_empty(client)) {
        behind_note_progress(client);
    }
    client->calls->reports += (unsigned)change;
}

/* ---- Losing ---- */

static bool is_lost(void *data, inode_id inode)
{
    struct client *client = data;

    if (lease_is_for_writing(client, inode)) {
        return false;
    }
    lose(client, inode, "its lease was lost");
    return true;
}

static void on_gone(void *data, inode_id inode)
{
    struct client *client = data;

    meta_cache_dirty(client->cache, inode, -1);
}

void behind_lose(struct client *client)
{
    attr_behind_lose(client->calls->attributes, is_lost, client, on_gone);
}

/* ---- Time ---- */

/* What is behind waits as long as it takes; the log says so, once. */
static void warn(struct client *client)
{
    uint64_t limit_ms = client->options.io_timeout_ms < BEHIND_WARN_MS_MAX
                            ? client->options.io_timeout_ms
                            : BEHIND_WARN_MS_MAX;

    if (client->calls->warned || behind_is_empty(client) ||
        uv_now(client->loop) < client->calls->progress_ms + limit_ms) {
        return;
    }
    client->calls->warned = true;
    log_warning(client->options.log,
                "manager %s has not taken anything for %lu ms: what was written to %u files and "
                "closed, and mode, owner or times of %u, still wait here for it",
                rpc_peer_address(client->manager), (unsigned long)limit_ms, client->calls->reports,
                attr_behind_count(client->calls->attributes));
}

void behind_tick(struct client *client)
{
    uint64_t now_ms = uv_now(client->loop);

    if (now_ms >= client->calls->retry_ms) {
        client->calls->retry_ms = now_ms + BEHIND_RETRY_MS;
        attr_behind_retry(client->calls->attributes);
    }
    call_queue_tick(client); /* And so what waits for company goes out. */
    warn(client);
}

bool behind_takes_report(const struct client *client)
{
    return client->calls->reports < BEHIND_REPORTS_MAX;
}

uint32_t behind_count(const struct client *client)
{
    return attr_behind_count(client->calls->attributes);
}

int behind_open(struct client *client, client_id id, const struct behind_hooks *hooks)
{
    struct calls *calls = calloc(1, sizeof(*calls));

    client->calls = calls;
    if (calls == NULL) {
        return MORSEL_NOMEM;
    }
    calls->hooks = hooks;
    calls->id = id;
    op_numbers_init(&calls->numbers, calls->numbers_out, CLIENT_OPS_PENDING_MAX);
    list_init(&calls->urgent);
    list_init(&calls->waiting);
    list_init(&calls->syncing);
    list_init(&calls->ended);
    calls->attributes = attr_behind_new(BEHIND_INODES_MAX);
    return calls->attributes == NULL ? MORSEL_NOMEM : MORSEL_OK;
}

void behind_close(struct client *client)
{
    if (client->calls != NULL) {
        attr_behind_free(client->calls->attributes);
        free(client->calls);
    }
}
