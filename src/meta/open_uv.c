/* Beginning and end of the manager: the database, the cores, what watches over the disk. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/cluster/doors_uv.h"
#include "meta/cluster/groups_uv.h"
#include "meta/cluster/hours_uv.h"
#include "meta/cluster/leavers_uv.h"
#include "meta/cluster/voters_uv.h"
#include "meta/coherence/leases_uv.h"
#include "meta/coherence/locks_uv.h"
#include "meta/coherence/pauses_uv.h"
#include "meta/coherence/sessions_kept_uv.h"
#include "meta/datasets/damages_uv.h"
#include "meta/datasets/evictions_uv.h"
#include "meta/datasets/repairs_uv.h"
#include "meta/datasets/unfinished_uv.h"
#include "meta/namespace/fsck.h"
#include "meta/storage/kv_leveldb.h"
#include "meta/storage/run_file.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SPACE_CHECK_MS = 1000,
    SPACE_RESERVE_BYTES = 64 << 20 /* LevelDB needs room to write out what it holds. */
};

/* ---- Space ---- */

/* One thing less that the loop has of ours. */
static void handle_closed(struct meta *meta)
{
    if (meta->handles > 0 && --meta->handles == 0) {
        meta->closed(meta->closed_data);
    }
}

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
    if (meta->closing) {
        handle_closed(meta);
        return;
    }
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

/* ---- Beginning and end ---- */

static bool is_open(void *data, inode_id inode)
{
    const struct meta *meta = data;

    return inode == meta->replacing || session_holds(meta->sessions, inode);
}

static void on_name_changed(void *data, inode_id parent, struct slice name,
                            const struct dentry *dentry, int change)
{
    struct meta *meta = data;

    if (meta->fsck != NULL) {
        fsck_name_changed(meta->fsck, parent, name, dentry, change);
    }
}

struct log_walk
{
    struct meta *meta;
    uint64_t expected; /* The next sequence number; 0: any. */
    uint64_t missing;
};

static bool visit_log(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct log_walk *walk = data;
    struct op_outcome outcome = { op->target, op->deleted };

    if (walk->expected != 0) {
        walk->missing += sequence - walk->expected;
    }
    walk->expected = sequence + 1;
    (void)reply_cache_note(walk->meta->replies, op->client, op->client_sequence, op->answered,
                           &outcome);
    return true;
}

/* Fill the reply cache. A gap in the log can only stem from a loss of power within 100 ms
 * after LevelDB began a new file (kv_leveldb.h): what is gone was not promised, but what came after
 * it may not fit. */
static int load_log(struct meta *meta, struct errmsg *err)
{
    struct log_walk walk = { .meta = meta };
    uint64_t sequence = ns_counters(meta->ns)->sequence;
    int rv = ns_log(meta->ns, sequence > NS_LOG_KEPT ? sequence - NS_LOG_KEPT : 0, visit_log, &walk,
                    err);

    if (rv == 0 && walk.missing > 0) {
        log_error(meta->log,
                  "%llu operations are missing in the log after a loss of power: run "
                  "`morsel fsck --repair`",
                  (unsigned long long)walk.missing);
    }
    return rv;
}

static int make_cluster(struct meta *meta, struct datadir *datadir, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_FORMAT, .time_ns = meta_clock_ns() };
    char text[33];
    int rv;

    op.format.auto_copies = true;
    random_bytes(op.format.cluster.bytes, sizeof(op.format.cluster.bytes));
    if ((rv = ns_execute(meta->ns, &op, err)) != 0 || (rv = meta->kv->sync(meta->kv, err)) != 0) {
        return rv;
    }
    hex16(op.format.cluster.bytes, text);
    log_info(meta->log, "new cluster %s in %s", text, datadir->path);
    return 0;
}

/* No inode id of an operation that a loss of power took back is given out again: the gap is durable
 * before anything is served. */
static int leave_gap(struct meta *meta, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_START, .time_ns = meta_clock_ns() };
    int rv = ns_execute(meta->ns, &op, err);

    return rv != 0 ? rv : meta->kv->sync(meta->kv, err);
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
        meta->members.manual = strcmp(meta->settings->admit, "manual") == 0;
        members_presume(&meta->members, meta_now_ms(meta));
    }
    free(records);
    return rv;
}

static int open_cores(struct meta *meta, bool fresh, struct errmsg *err)
{
    int rv;

    if ((rv = load_members(meta, err)) != 0 || (rv = donors_host_open(meta, err)) != 0 ||
        (rv = hours_open(meta, err)) != 0) {
        return rv;
    }
    repairs_open(meta);
    unfinished_open(meta);
    damages_open(meta);
    if ((rv = evictions_open(meta)) != 0) {
        return rv;
    }
    meta->replies = reply_cache_new();
    meta->page = directory_page_new();
    meta->locks = lock_table_new();
    if (meta->replies == NULL || meta->page == NULL || meta->locks == NULL) {
        return MORSEL_NOMEM;
    }
    if ((rv = sessions_kept_open(meta, fresh, err)) != 0 || (rv = leases_open(meta, err)) != 0) {
        return rv;
    }
    return load_log(meta, err);
}

int meta_open(struct meta *meta, struct datadir *datadir, struct errmsg *err)
{
    struct ns_hooks hooks = { is_open, on_name_changed, meta };
    char path[sizeof(datadir->path) + 4];
    bool create = !cluster_id_known(&datadir->cluster);
    bool fresh;
    int rv;

    presence_init(&meta->presence, uv_now(meta->loop));
    list_init(&meta->leased);
    list_init(&meta->locking);
    list_init(&meta->lock_syncs);
    list_init(&meta->lock_checks);
    pauses_open(meta);
    departed_init(&meta->departed);
    place_rounds_init(&meta->rounds);
    claims_init(&meta->claims);
    meta->replacing = INODE_NONE;
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
    (void)snprintf(meta->run_dir, sizeof(meta->run_dir), "%s", datadir->path);
    if ((fresh && (rv = make_cluster(meta, datadir, err)) != 0) ||
        (rv = match_cluster(meta, datadir, err)) != 0 ||
        (rv = run_begin(&meta->runs, meta->run_dir, ns_counters(meta->ns)->sequence, err)) != 0 ||
        (!fresh && (rv = leave_gap(meta, err)) != 0)) {
        return rv;
    }
    rv = open_cores(meta, fresh, err);
    if (rv != 0 ||
        (rv = voter_uv_open(&meta->voter, meta->run_dir, meta->loop, meta->log, err)) != 0) {
        return rv;
    }
    rv = voters_host_open(meta, err);
    return rv != 0 ? rv : groups_host_open(meta, err);
}

static uint64_t last_number(void *data)
{
    const struct meta *meta = data;

    return ns_counters(meta->ns)->sequence;
}

void meta_start(struct meta *meta)
{
    meta->started_ms = uv_now(meta->loop);
    meta->sync.number = last_number;
    meta->sync.failed = meta_sync_failed;
    meta->sync.data = meta;
    sync_init(&meta->sync, meta->loop, meta->kv);
    loads_init(&meta->loads, meta->loop, meta->kv, meta);
    meta_clock_start(meta);
    (void)uv_timer_init(meta->loop, &meta->space_timer);
    (void)uv_idle_init(meta->loop, &meta->sweep);
    capacity_start(&meta->capacity, meta->loop, &meta->members);
    meta->capacity.timer.data = meta;
    meta->space_timer.data = meta->sweep.data = meta;
    uv_timer_start(&meta->space_timer, on_space_timer, SPACE_CHECK_MS, SPACE_CHECK_MS);
    rpc_set_cluster_id(meta->rpc, &ns_super(meta->ns)->cluster);
    sync_changed(&meta->sync);
    voters_host_start(meta);
    groups_host_start(meta);
    leavers_start(meta);
    meta_arm(meta);
}

static void on_handle_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void on_voter_stopped(void *data)
{
    handle_closed(data);
}

static void on_loads_closed(void *data)
{
    struct meta *meta = data;

    meta->handles = 9 + meta->space_busy + meta->voter.writing;
    voters_host_close(meta, handle_closed);
    groups_host_close(meta, handle_closed);
    uv_close((uv_handle_t *)&meta->timer, on_handle_closed);
    uv_close((uv_handle_t *)&meta->pulse, on_handle_closed);
    uv_close((uv_handle_t *)&meta->behind_poll, on_handle_closed);
    uv_close((uv_handle_t *)&meta->space_timer, on_handle_closed);
    uv_close((uv_handle_t *)&meta->sweep, on_handle_closed);
    uv_close((uv_handle_t *)&meta->capacity.timer, on_handle_closed);
    uv_close((uv_handle_t *)&meta->leavers.timer, on_handle_closed);
}

static void on_sync_closed(void *data)
{
    struct meta *meta = data;

    if (ns_broken(meta->ns) == 0) {
        run_close(&meta->runs, meta->run_dir);
    }
    loads_close(&meta->loads, on_loads_closed);
}

void meta_close(struct meta *meta, void (*closed)(void *data), void *data)
{
    CHECK(!meta->closing);
    evictions_close(meta);
    meta->closing = true;
    meta->closed = closed;
    meta->closed_data = data;
    uv_idle_stop(&meta->sweep);
    (void)uv_timer_stop(&meta->timer); /* Whatever is due would have to be written down. */
    (void)uv_timer_stop(&meta->pulse);
    uv_check_stop(&meta->behind_poll);
    leases_refuse_waiting(meta, MORSEL_SHUTDOWN);
    locks_refuse_waiting(meta, MORSEL_SHUTDOWN);
    pauses_refuse_waiting(meta, MORSEL_SHUTDOWN);
    capacity_refuse_waiting(&meta->capacity, MORSEL_SHUTDOWN);
    loads_refuse(&meta->loads, MORSEL_SHUTDOWN);
    groups_refuse_waiting(meta, MORSEL_SHUTDOWN);
    meta->prober.stopped = true;
    doors_close(meta);
    voter_uv_stop(&meta->voter, on_voter_stopped, meta);
    sync_close(&meta->sync, on_sync_closed);
}

void meta_free(struct meta *meta)
{
    groups_host_free(meta);
    donors_free(&meta->donors);
    hours_free(&meta->hours);
    place_rounds_free(&meta->rounds);
    claims_free(&meta->claims);
    evictions_free(meta);
    unfinished_close(meta);
    voters_host_free(meta);
    voter_uv_free(&meta->voter);
    fsck_free(meta->fsck);
    directory_page_free(meta->page);
    reply_cache_free(meta->replies);
    leases_free(meta);
    lock_table_free(meta->locks);
    session_table_free(meta->sessions);
    ns_close(meta->ns);
    if (meta->kv != NULL) {
        meta->kv->close(meta->kv);
    }
}
