#include "meta/meta_uv.h"

#include "common/check.h"
#include "common/status.h"
#include "meta/fsck.h"
#include "meta/kv_leveldb.h"
#include "meta/reply_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    WAITING_MAX = 4096, /* Requests of clients that are not admitted yet. */
    SWEEP_STEP = 64,    /* Orphans looked at in one turn of the loop. */
    SPACE_CHECK_MS = 1000,
    SPACE_RESERVE_BYTES = 64 << 20 /* LevelDB needs room to write out what it holds. */
};

int64_t meta_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Changes ------------------------------------------------------------------------------------
 */

/* Operations that need room go no further when the disk is nearly full; those that free some do. */
static bool needs_space(const struct meta_op *op)
{
    return op->kind == OP_MAKE || op->kind == OP_LINK || op->kind == OP_RENAME ||
           (op->kind == OP_XATTR && !op->xattr.remove);
}

int meta_execute(struct meta *meta, struct meta_op *op, struct errmsg *err)
{
    int rv;

    if (meta->space_low && needs_space(op)) {
        errmsg_set(err, "the disk of the manager's database is nearly full");
        return MORSEL_NOSPC;
    }
    rv = ns_execute(meta->ns, op, err);
    if (ns_broken(meta->ns) != 0 && !meta->broken_logged) {
        meta->broken_logged = true;
        log_error(meta->log,
                  "cannot write the database in %s: %s; every change is refused until the disk is "
                  "in order and morsel-meta was started again",
                  meta->settings->data_dir, err->text);
    }
    if (rv == 0) {
        sync_changed(&meta->sync);
    }
    return rv;
}

static void on_sync_failed(void *data, int status, const struct errmsg *err)
{
    struct meta *meta = data;

    ns_fail(meta->ns, status);
    if (!meta->broken_logged) {
        meta->broken_logged = true;
        log_error(meta->log,
                  "cannot make changes durable: %s; every change is refused until the disk is in "
                  "order and morsel-meta was started again",
                  err->text);
    }
}

struct durable_reply
{
    struct sync_waiter waiter;
    struct meta *meta;
    struct rpc_request *request;
    void (*reply)(struct meta *meta, struct rpc_request *request);
};

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct durable_reply *d = CONTAINER_OF(waiter, struct durable_reply, waiter);

    if (status != 0) {
        rpc_reply_failure(d->request, status, "the manager's database could not be synced");
    } else {
        d->reply(d->meta, d->request);
    }
    free(d);
}

void meta_reply_durable(struct meta *meta, struct rpc_request *request,
                        void (*reply)(struct meta *meta, struct rpc_request *request))
{
    struct durable_reply *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    if (ns_broken(meta->ns) != 0) {
        rpc_reply_failure(request, ns_broken(meta->ns), "the manager's database is damaged");
        free(d);
        return;
    }
    d->meta = meta;
    d->request = request;
    d->reply = reply;
    list_init(&d->waiter.node);
    sync_wait(&meta->sync, &d->waiter, on_durable);
}

/* ---- Deadlines ----------------------------------------------------------------------------------
 */

static void on_timer(uv_timer_t *timer);

/* One timer for both cores: its next run is the earlier of their deadlines. */
static void arm(struct meta *meta)
{
    uint64_t sessions_ms = session_deadline_ms(meta->sessions);
    uint64_t members_ms = members_deadline_ms(&meta->members);
    uint64_t due_ms = sessions_ms < members_ms ? sessions_ms : members_ms;
    uint64_t now_ms = uv_now(meta->loop);

    if (meta->closing || due_ms == meta->timer_due_ms) {
        return;
    }
    meta->timer_due_ms = due_ms;
    if (due_ms == UINT64_MAX) {
        uv_timer_stop(&meta->timer);
    } else {
        uv_timer_start(&meta->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct meta *meta = timer->data;
    uint64_t now_ms = uv_now(meta->loop);
    struct session_event session = { .now_ms = now_ms, .type = SESSION_TICK };
    struct members_event member = { .now_ms = now_ms, .type = MEMBERS_TICK };

    meta->timer_due_ms = 0;
    meta_session_step(meta, &session);
    meta_members_step(meta, &member);
    arm(meta);
}

/* ---- Orphans ------------------------------------------------------------------------------------
 */

/* Nobody holds the inode any more: if it has no name either, its time has come. */
static void collect(struct meta *meta, inode_id inode)
{
    struct meta_op op = { .kind = OP_COLLECT, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    bool orphan;
    int rv;

    if (session_holds(meta->sessions, inode) || ns_broken(meta->ns) != 0) {
        return;
    }
    if ((rv = ns_is_orphan(meta->ns, inode, &orphan, &err)) == 0 && orphan) {
        op.collect.inode = inode;
        rv = meta_execute(meta, &op, &err);
    }
    if (rv != 0) {
        log_error(meta->log, "cannot collect the unlinked inode %" PRIu64 ": %s", inode,
                  err.text[0] != 0 ? err.text : status_words(rv));
    }
}

/* A few orphans a turn, so that requests are served in between. */
static void on_sweep(uv_idle_t *idle)
{
    struct meta *meta = idle->data;
    inode_id orphans[SWEEP_STEP];
    struct errmsg err = { "" };
    uint32_t count = 0;
    int rv = ns_orphans(meta->ns, meta->sweep_from, orphans, SWEEP_STEP, &count, &err);

    for (uint32_t i = 0; i < count; i++) {
        collect(meta, orphans[i]);
    }
    if (rv != 0 || count < SWEEP_STEP) {
        meta->sweep_from = 0;
        uv_idle_stop(idle);
        return;
    }
    meta->sweep_from = orphans[count - 1] + 1;
}

static void sweep_start(struct meta *meta)
{
    if (!meta->closing) {
        meta->sweep_from = 1;
        uv_idle_start(&meta->sweep, on_sweep);
    }
}

/* ---- Sessions -----------------------------------------------------------------------------------
 */

/* A SessionRequest, or another request of a client that is not admitted yet. */
struct waiting_request
{
    struct list node;
    struct rpc_request *request;
};

static void dispatch(struct meta *meta, struct rpc_request *request);

static bool park(struct meta *meta, struct rpc_request *request)
{
    struct waiting_request *w;

    if (meta->waiting_count == WAITING_MAX || (w = calloc(1, sizeof(*w))) == NULL) {
        rpc_reply_failure(request, MORSEL_OVERLOAD, NULL);
        return false;
    }
    w->request = request;
    list_init(&w->node);
    list_push_back(&meta->waiting, &w->node);
    meta->waiting_count++;
    return true;
}

static struct rpc_request *unpark(struct meta *meta, struct waiting_request *w)
{
    struct rpc_request *request = w->request;

    list_remove(&w->node);
    meta->waiting_count--;
    free(w);
    return request;
}

static void reply_session(struct meta *meta, struct rpc_request *request)
{
    Morsel__SessionReply reply = MORSEL__SESSION_REPLY__INIT;

    reply.session_ms = (uint32_t)meta->settings->session_ms;
    reply.cache_ms = meta_cache_ms(meta, request);
    reply.clock_ns = (uint64_t)meta_clock_ns();
    rpc_reply(request, &reply.base, NULL);
}

/* Serve (status 0) or refuse what waits for the client, in the order of arrival. */
static void release_waiting(struct meta *meta, client_id client, int status)
{
    LIST_FOREACH_SAFE(node, &meta->waiting)
    {
        struct waiting_request *w = LIST_ENTRY(node, struct waiting_request, node);
        struct rpc_request *request;

        if (w->request->node_id != client) {
            continue;
        }
        request = unpark(meta, w);
        if (status != 0) {
            rpc_reply_failure(request, status, NULL);
        } else if (request->type == MSG_SESSION) {
            reply_session(meta, request);
        } else {
            dispatch(meta, request);
        }
    }
}

static void persist_grantee(struct meta *meta, client_id client)
{
    struct meta_op op = { .kind = OP_GRANTEE, .time_ns = meta_clock_ns() };
    struct session_event event = { .now_ms = uv_now(meta->loop), .type = SESSION_PERSISTED };
    struct errmsg err = { "" };

    op.grantee.client = client;
    event.client = client;
    if (meta_execute(meta, &op, &err) == 0) {
        meta_session_step(meta, &event);
    }
}

static void perform_session(struct meta *meta, const struct session_action *action)
{
    switch (action->type) {
    case SESSION_ADMIT:
        release_waiting(meta, action->client, 0);
        break;
    case SESSION_REFUSE:
        release_waiting(meta, action->client, action->status);
        break;
    case SESSION_END:
        log_info(meta->log, "client %016" PRIx64 " %s", action->client,
                 action->status == 0 ? "has left"
                                     : "is gone: no word from it within the session time");
        release_waiting(meta, action->client, MORSEL_NO_SESSION);
        break;
    case SESSION_PERSIST_GRANTEE:
        persist_grantee(meta, action->client);
        break;
    case SESSION_GRACE_OVER:
        sweep_start(meta);
        break;
    }
}

void meta_session_step(struct meta *meta, const struct session_event *event)
{
    struct session_actions out;
    inode_id inode;

    out.count = 0;
    session_step(meta->sessions, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform_session(meta, &out.items[i]);
    }
    while (session_pop_released(meta->sessions, &inode)) {
        collect(meta, inode);
    }
    arm(meta);
}

uint32_t meta_cache_ms(struct meta *meta, const struct rpc_request *request)
{
    if (request->role != ROLE_CLIENT) {
        return 0;
    }
    return session_cache_ms(meta->sessions, request->node_id, uv_now(meta->loop));
}

int meta_note_open(struct meta *meta, const struct rpc_request *request, inode_id inode)
{
    struct session_event event = { .now_ms = uv_now(meta->loop), .type = SESSION_OPENED };

    if (request->role != ROLE_CLIENT) {
        return 0;
    }
    if (session_opens(meta->sessions) >= SESSION_OPENS_MAX) {
        return MORSEL_OVERLOAD;
    }
    event.client = request->node_id;
    event.inodes = &inode;
    event.inodes_count = 1;
    meta_session_step(meta, &event);
    return 0;
}

void handle_session(struct meta *meta, struct rpc_request *request)
{
    struct session_event event = { .now_ms = uv_now(meta->loop), .type = SESSION_ASK };
    Morsel__SessionRequest *m;

    if (request->role != ROLE_CLIENT || request->node_id == 0) {
        rpc_reply_failure(request, MORSEL_INVAL, "only a client with an id has a session");
        return;
    }
    m = rpc_request_unpack(request, &morsel__session_request__descriptor);
    if (m == NULL) {
        return;
    }
    event.client = request->node_id;
    event.inodes = m->open_inodes;
    event.inodes_count = m->n_open_inodes;
    if (m->leave) {
        event.type = SESSION_LEAVE;
        meta_session_step(meta, &event);
        rpc_reply(request, NULL, NULL);
    } else if (park(meta, request)) {
        meta_session_step(meta, &event);
    }
    message_free(m);
}

/* ---- Members ------------------------------------------------------------------------------------
 */

static void on_member_durable(struct meta *meta, struct rpc_request *request);

static void persist_member(struct meta *meta, server_id id)
{
    const struct member *member = members_find(&meta->members, id);
    struct members_event event = { .now_ms = uv_now(meta->loop), .type = MEMBERS_PERSISTED };
    struct meta_op op = { .kind = OP_MEMBER, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };

    CHECK(member != NULL);
    op.member = member->record;
    event.persisted.id = id;
    event.persisted.status = meta_execute(meta, &op, &err);
    meta_members_step(meta, &event);
}

static void perform_member(struct meta *meta, const struct members_action *action)
{
    struct rpc_request *request = (struct rpc_request *)(uintptr_t)action->tag;
    const struct member *member = members_find(&meta->members, action->id);

    switch (action->type) {
    case MEMBERS_PERSIST:
        persist_member(meta, action->id);
        break;
    case MEMBERS_WELCOME:
        request->data = (void *)(uintptr_t)action->id;
        meta_reply_durable(meta, request, on_member_durable);
        break;
    case MEMBERS_ALIVE:
        break; /* The handler goes on when it was not refused. */
    case MEMBERS_REFUSE:
        if (action->status != MORSEL_NO_SESSION) {
            log_warning(meta->log, "storage server at %s refused: %s", rpc_request_peer(request),
                        action->reason);
        }
        rpc_reply_failure(request, action->status, action->reason);
        break;
    case MEMBERS_UP:
        log_info(meta->log, "storage server %u (%s) is up", action->id, member->record.address);
        break;
    case MEMBERS_DOWN:
        log_warning(meta->log,
                    "storage server %u (%s) is down: no heartbeat; its files are out of reach "
                    "until it is back",
                    action->id, member->record.address);
        break;
    }
}

void meta_members_step(struct meta *meta, const struct members_event *event)
{
    struct members_actions out;

    out.count = 0;
    members_step(&meta->members, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform_member(meta, &out.items[i]);
    }
    arm(meta);
}

/* The id of a new server is durable before the server hears of it. */
static void on_member_durable(struct meta *meta, struct rpc_request *request)
{
    Morsel__RegisterReply reply = MORSEL__REGISTER_REPLY__INIT;
    const struct super *super = ns_super(meta->ns);

    reply.id = (uint32_t)(uintptr_t)request->data;
    reply.cluster_id.data = (uint8_t *)(uintptr_t)super->cluster.bytes;
    reply.cluster_id.len = sizeof(super->cluster.bytes);
    reply.heartbeat_ms = meta->members.heartbeat_ms;
    rpc_reply(request, &reply.base, NULL);
}

/* ---- Requests -----------------------------------------------------------------------------------
 */

static const struct dispatch_entry
{
    meta_handler handle;
    bool anybody; /* Without a session too. */
} dispatch_table[MESSAGE_TYPES_MAX] = {
    [MSG_STATISTICS] = { handle_statistics, true },
    [MSG_SESSION] = { handle_session, true },
    [MSG_LOOKUP] = { handle_lookup, false },
    [MSG_GETATTR] = { handle_getattr, false },
    [MSG_SETATTR] = { handle_setattr, false },
    [MSG_MAKE] = { handle_make, false },
    [MSG_UNLINK] = { handle_unlink, false },
    [MSG_RENAME] = { handle_rename, false },
    [MSG_LINK] = { handle_link, false },
    [MSG_READLINK] = { handle_readlink, false },
    [MSG_READDIR] = { handle_readdir, false },
    [MSG_OPEN] = { handle_open, false },
    [MSG_CLOSE] = { handle_close, false },
    [MSG_WROTE] = { handle_wrote, false },
    [MSG_XATTR_GET] = { handle_xattr_get, false },
    [MSG_XATTR_SET] = { handle_xattr_set, false },
    [MSG_XATTR_LIST] = { handle_xattr_list, false },
    [MSG_STATFS] = { handle_statfs, false },
    [MSG_FSYNC] = { handle_fsync, false },
    [MSG_POLICY] = { handle_policy, false },
    [MSG_MEMBERS] = { handle_members, true },
    [MSG_REGISTER] = { handle_register, true },
    [MSG_HEARTBEAT] = { handle_heartbeat, true },
    [MSG_STATUS] = { handle_status, true },
    [MSG_FSCK] = { handle_fsck, true },
    [MSG_FSCK_OBJECTS] = { handle_fsck_objects, true },
};

static void dispatch(struct meta *meta, struct rpc_request *request)
{
    dispatch_table[request->type].handle(meta, request);
}

static void on_request(void *data, struct rpc_request *request)
{
    struct meta *meta = data;
    const struct dispatch_entry *entry =
        request->type < MESSAGE_TYPES_MAX ? &dispatch_table[request->type] : NULL;

    if (entry == NULL || entry->handle == NULL) {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, NULL);
    } else if (meta->closing) {
        rpc_reply_failure(request, MORSEL_SHUTDOWN, NULL);
    } else if (entry->anybody || request->role == ROLE_ADMIN ||
               (request->role == ROLE_CLIENT &&
                session_joined(meta->sessions, request->node_id, uv_now(meta->loop)))) {
        dispatch(meta, request);
    } else if (request->role == ROLE_CLIENT && session_joining(meta->sessions, request->node_id)) {
        (void)park(meta, request);
    } else {
        rpc_reply_failure(request, MORSEL_NO_SESSION, NULL);
    }
}

static void on_gone(void *data, enum rpc_role role, uint64_t node_id)
{
    struct meta *meta = data;
    uint64_t now_ms = uv_now(meta->loop);

    if (meta->closing) {
        return;
    }
    if (role == ROLE_CLIENT) {
        struct session_event event = { .now_ms = now_ms, .type = SESSION_GONE };

        event.client = node_id;
        meta_session_step(meta, &event);
        release_waiting(meta, node_id, MORSEL_NO_SESSION);
    } else if (role == ROLE_IOD) {
        struct members_event event = { .now_ms = now_ms, .type = MEMBERS_GONE };

        event.gone = (server_id)node_id;
        meta_members_step(meta, &event);
    }
}

struct rpc_server_hooks meta_hooks(struct meta *meta)
{
    return (struct rpc_server_hooks){ on_request, on_gone, meta };
}

/* ---- Space --------------------------------------------------------------------------------------
 */

static void on_space(uv_fs_t *request)
{
    struct meta *meta = request->data;
    const uv_statfs_t *fs = request->ptr;
    bool low = meta->space_low;

    if (request->result == 0) {
        low = fs->f_bavail * fs->f_bsize < SPACE_RESERVE_BYTES;
    }
    uv_fs_req_cleanup(request);
    meta->space_busy = false;
    if (low != meta->space_low) {
        meta->space_low = low;
        log_warning(meta->log,
                    low ? "the disk of %s is nearly full: nothing new can be made until there are "
                          "64 MiB free"
                        : "the disk of %s has room again",
                    meta->settings->data_dir);
    }
}

static void on_space_timer(uv_timer_t *timer)
{
    struct meta *meta = timer->data;

    if (!meta->space_busy) {
        meta->space_request.data = meta;
        meta->space_busy =
            uv_fs_statfs(meta->loop, &meta->space_request, meta->settings->data_dir, on_space) == 0;
    }
}

/* ---- Beginning and end --------------------------------------------------------------------------
 */

static bool is_open(void *data, inode_id inode)
{
    const struct meta *meta = data;

    return session_holds(meta->sessions, inode);
}

static void on_name_changed(void *data, inode_id parent, struct slice name,
                            const struct dentry *dentry, int change)
{
    struct meta *meta = data;

    if (meta->fsck != NULL) {
        fsck_name_changed(meta->fsck, parent, name, dentry, change);
    }
}

static bool visit_log(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct meta *meta = data;
    struct op_outcome outcome = { op->target, op->deleted };

    (void)sequence;
    (void)op_window_note(meta->window, op->client, op->client_sequence, op->answered, &outcome);
    return true;
}

static int make_cluster(struct meta *meta, struct datadir *datadir, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_FORMAT, .time_ns = meta_clock_ns() };
    char text[33];
    int rv;

    random_bytes(op.format.cluster.bytes, sizeof(op.format.cluster.bytes));
    if ((rv = ns_execute(meta->ns, &op, err)) != 0 || (rv = meta->kv->sync(meta->kv, err)) != 0) {
        return rv;
    }
    hex16(op.format.cluster.bytes, text);
    log_info(meta->log, "new cluster %s in %s", text, datadir->path);
    return 0;
}

/* The database and the identity of the directory must be of one cluster. */
static int match_cluster(struct meta *meta, struct datadir *datadir, struct errmsg *err)
{
    const struct cluster_id *cluster = &ns_super(meta->ns)->cluster;

    if (!cluster_id_known(&datadir->cluster)) {
        datadir->cluster = *cluster;
        return datadir_save(datadir, err);
    }
    if (!cluster_id_equal(&datadir->cluster, cluster)) {
        errmsg_set(err, "%s/identity and the database in %s/db belong to different clusters",
                   datadir->path, datadir->path);
        return MORSEL_WRONG_CLUSTER;
    }
    return 0;
}

static int load_members(struct meta *meta, struct errmsg *err)
{
    struct member_record *records = calloc(SERVERS_MAX, sizeof(*records));
    uint32_t count;
    int rv;

    if (records == NULL) {
        return MORSEL_NOMEM;
    }
    if ((rv = ns_members(meta->ns, records, &count, err)) == 0) {
        members_init(&meta->members, (uint32_t)meta->settings->heartbeat_ms, records, count);
    }
    free(records);
    return rv;
}

static int open_cores(struct meta *meta, bool fresh, struct errmsg *err)
{
    struct session_options options = { .session_ms = (uint32_t)meta->settings->session_ms,
                                       .now_ms = uv_now(meta->loop),
                                       .fresh = fresh,
                                       .grantee = ns_counters(meta->ns)->grantee };
    uint64_t sequence = ns_counters(meta->ns)->sequence;
    int rv = load_members(meta, err);

    if (rv != 0) {
        return rv;
    }
    meta->sessions = session_table_new(&options);
    meta->window = op_window_new();
    meta->page = directory_page_new();
    if (meta->sessions == NULL || meta->window == NULL || meta->page == NULL) {
        return MORSEL_NOMEM;
    }
    return ns_log(meta->ns, sequence > NS_LOG_KEPT ? sequence - NS_LOG_KEPT : 0, visit_log, meta,
                  err);
}

int meta_open(struct meta *meta, struct datadir *datadir, struct errmsg *err)
{
    struct ns_hooks hooks = { is_open, on_name_changed, meta };
    char path[sizeof(datadir->path) + 4];
    bool create = !cluster_id_known(&datadir->cluster);
    bool fresh;
    int rv;

    list_init(&meta->waiting);
    (void)snprintf(path, sizeof(path), "%s/db", datadir->path);
    if ((rv = kv_leveldb_open(path, create, &meta->kv, err)) != 0 ||
        (rv = ns_open(meta->kv, &hooks, &meta->ns, err)) != 0) {
        return rv;
    }
    fresh = !ns_formatted(meta->ns);
    if (fresh && !create) {
        errmsg_set(err,
                   "the database in %s is empty, but the directory belongs to a cluster; "
                   "restore it from a backup",
                   path);
        return MORSEL_CORRUPT;
    }
    if ((fresh && (rv = make_cluster(meta, datadir, err)) != 0) ||
        (rv = match_cluster(meta, datadir, err)) != 0) {
        return rv;
    }
    return open_cores(meta, fresh, err);
}

void meta_start(struct meta *meta)
{
    meta->started_ms = uv_now(meta->loop);
    meta->sync.failed = on_sync_failed;
    meta->sync.data = meta;
    sync_init(&meta->sync, meta->loop, meta->kv);
    (void)uv_timer_init(meta->loop, &meta->timer);
    (void)uv_timer_init(meta->loop, &meta->space_timer);
    (void)uv_idle_init(meta->loop, &meta->sweep);
    meta->timer.data = meta->space_timer.data = meta->sweep.data = meta;
    uv_timer_start(&meta->space_timer, on_space_timer, SPACE_CHECK_MS, SPACE_CHECK_MS);
    rpc_set_cluster_id(meta->rpc, &ns_super(meta->ns)->cluster);
    sync_changed(&meta->sync);
    arm(meta);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct meta *meta = handle->data;

    if (--meta->handles == 0) {
        meta->closed(meta->closed_data);
    }
}

static void on_sync_closed(void *data)
{
    struct meta *meta = data;

    meta->handles = 3;
    uv_close((uv_handle_t *)&meta->timer, on_handle_closed);
    uv_close((uv_handle_t *)&meta->space_timer, on_handle_closed);
    uv_close((uv_handle_t *)&meta->sweep, on_handle_closed);
}

void meta_close(struct meta *meta, void (*closed)(void *data), void *data)
{
    CHECK(!meta->closing);
    meta->closing = true;
    meta->closed = closed;
    meta->closed_data = data;
    uv_idle_stop(&meta->sweep);
    LIST_FOREACH_SAFE(node, &meta->waiting)
    {
        rpc_reply_failure(unpark(meta, LIST_ENTRY(node, struct waiting_request, node)),
                          MORSEL_SHUTDOWN, NULL);
    }
    sync_close(&meta->sync, on_sync_closed);
}

void meta_free(struct meta *meta)
{
    fsck_free(meta->fsck);
    directory_page_free(meta->page);
    op_window_free(meta->window);
    session_table_free(meta->sessions);
    ns_close(meta->ns);
    if (meta->kv != NULL) {
        meta->kv->close(meta->kv);
    }
}
