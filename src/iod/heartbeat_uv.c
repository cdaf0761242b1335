/* Heartbeats, and the garbage that their answers name. */
#include "iod/heartbeat_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/voters_kept_file.h"
#include "meta.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    HEARTBEAT_WAIT_MS_MIN = 5000, /* So long an answer may take */
    COLLECT_RETRY_MS = 500
};

static struct heartbeat *heartbeat_of(struct membership *m)
{
    return CONTAINER_OF(m, struct heartbeat, membership);
}

/* ---- Garbage ---- */

/* In the pool. What cannot be deleted is left out of the report, and the manager will name it
 * again. */
static void run_collect(struct job *job)
{
    struct heartbeat *h = job->owner;
    struct object_server *server = h->membership.server;
    size_t kept = 0;

    for (size_t i = 0; i < job->list.ids_count; i++) {
        struct errmsg err = { "" };

        if (store_delete(server->store, job->list.ids[i], &err) == 0) {
            job->list.ids[kept++] = job->list.ids[i];
        } else {
            log_warning(server->log, "collect: %s", err.text);
        }
    }
    job->list.ids_count = kept;
}

static void on_collected(struct job *job)
{
    struct heartbeat *h = job->owner;
    int status = job->status;

    if (status == 0) {
        h->garbage = job->list.ids;
        h->garbage_count = job->list.ids_count;
        job->list.ids = NULL;
    }
    free(job->list.ids);
    job_free(job);
    membership_reported(&h->membership, status == 0 ? 0 : COLLECT_RETRY_MS);
}

static void forget_garbage(struct heartbeat *h)
{
    free(h->garbage);
    h->garbage = NULL;
    h->garbage_count = 0;
}

/* Delete what the manager has no use for; the next heartbeat waits for it. False: nothing was
 * started. */
static bool collect(struct heartbeat *h, const Morsel__HeartbeatReply *reply)
{
    size_t count = reply->n_collect_inode;
    struct job *job;

    if (count == 0 || reply->n_collect_column != count) {
        return false;
    }
    job = job_new(&h->membership.server->jobs, h);
    if (job == NULL) {
        return false;
    }
    job->list.ids_count = count;
    job->list.ids = calloc(count, sizeof(*job->list.ids));
    for (size_t i = 0; job->list.ids != NULL && i < count; i++) {
        job->list.ids[i] = (struct object_id){ .inode = reply->collect_inode[i],
                                               .column = reply->collect_column[i] };
    }
    if (job->list.ids == NULL || job_start(job, run_collect, on_collected, true) != 0) {
        free(job->list.ids);
        job_free(job);
        return false;
    }
    membership_wait(&h->membership);
    return true;
}

/* ---- Who votes ---- */

static void run_keep(struct job *job)
{
    struct heartbeat *h = job->owner;

    job->status = voters_kept_write(h->membership.server->datadir.path, &h->told_bytes, &job->err);
}

/* What could not be written is told again. */
static void on_kept(struct job *job)
{
    struct heartbeat *h = job->owner;
    struct log *log = h->membership.server->log;
    bool failed = job->status != 0;

    if (failed && !h->keep_failed && job->status != MORSEL_SHUTDOWN) {
        log_error(log, "keep the voter set: %s: trying again", job->err.text);
    }
    h->keep_failed = failed;
    if (!failed) {
        morsel__voter_set__free_unpacked(h->voters, NULL);
        h->voters = h->told;
        h->told = NULL;
        log_info(log, "voter set %" PRIu64 ": %zu voters", h->voters->version,
                 (size_t)h->voters->n_voters);
    }
    morsel__voter_set__free_unpacked(h->told, NULL);
    h->told = NULL;
    buf_free(&h->told_bytes);
    job_free(job);
    membership_reported(&h->membership, failed ? h->membership.report_ms : 0);
}

/* Write it down; the next heartbeat waits for that. False: nothing was started. */
static bool keep(struct heartbeat *h, Morsel__HeartbeatReply *reply)
{
    struct job *job;

    if (reply->voters == NULL) {
        return false;
    }
    buf_init(&h->told_bytes);
    job = job_new(&h->membership.server->jobs, h);
    if (job == NULL || !voters_kept_fill(reply->voters, &h->told_bytes)) {
        goto fail;
    }
    h->told = reply->voters;
    if (job_start(job, run_keep, on_kept, true) != 0) {
        h->told = NULL;
        goto fail;
    }
    reply->voters = NULL; /* It is ours now. */
    membership_wait(&h->membership);
    return true;

fail:
    buf_free(&h->told_bytes);
    if (job != NULL) {
        job_free(job);
    }
    return false;
}

static void read_kept(struct heartbeat *h)
{
    struct errmsg err = { "" };

    if (voters_kept_read(h->membership.server->datadir.path, &h->voters, &err) != 0) {
        log_warning(h->membership.server->log, "%s: the manager is asked for the voter set again",
                    err.text);
    }
}

/* ---- Heartbeat ---- */

static void on_heartbeat(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct membership *m = call->data;
    struct heartbeat *h = heartbeat_of(m);
    Morsel__HeartbeatReply *message;

    if (m->stopping) {
        return;
    }
    if (status != 0) {
        membership_report_failed(m, status, reply->text);
        return;
    }
    forget_garbage(h);
    message = rpc_unpack(&morsel__heartbeat_reply__descriptor, reply->body, reply->body_count);
    /* Where there is both, the objects are named again. */
    if (message == NULL || (!keep(h, message) && !collect(h, message))) {
        bool at_once = message != NULL && (message->more || m->measured != m->wanted);

        membership_reported(m, at_once ? 0 : m->report_ms);
    }
    morsel__heartbeat_reply__free_unpacked(message, NULL);
}

static int heartbeat(struct membership *m)
{
    struct heartbeat *h = heartbeat_of(m);
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    size_t count = h->garbage_count;
    uint64_t *inodes = calloc(count + 1, sizeof(*inodes));
    uint32_t *columns = calloc(count + 1, sizeof(*columns));
    uint64_t wait_ms = (uint64_t)m->report_ms * 2;
    struct errmsg failure = { "" };
    int rv = MORSEL_NOMEM;

    request.id = m->server->datadir.node;
    request.bytes_total = m->space.bytes_total;
    request.bytes_free = m->space.bytes_free;
    request.device = m->space.device;
    request.objects = m->space.objects;
    request.measured = m->measured;
    request.verifier = store_verifier(m->server->store);
    request.voter = voter_name(h->voter->voter);
    request.voters_mark = h->voters != NULL ? h->voters->mark : 0;
    if (store_disk_failed(m->server->store, &failure)) {
        request.disk_failure = failure.text;
    }
    if (inodes != NULL && columns != NULL) {
        for (size_t i = 0; i < count; i++) {
            inodes[i] = h->garbage[i].inode;
            columns[i] = h->garbage[i].column;
        }
        request.collected_inode = inodes;
        request.n_collected_inode = count;
        request.collected_column = columns;
        request.n_collected_column = count;
        rv = rpc_call_start(&m->call, m->server->manager, MSG_HEARTBEAT, &request.base, NULL, 0,
                            wait_ms > HEARTBEAT_WAIT_MS_MIN ? wait_ms : HEARTBEAT_WAIT_MS_MIN,
                            on_heartbeat);
    }
    free(inodes);
    free(columns);
    return rv;
}

void heartbeat_start(struct heartbeat *h)
{
    h->membership.report = heartbeat;
    read_kept(h);
    membership_start(&h->membership);
}

void heartbeat_stop(struct heartbeat *h)
{
    membership_stop(&h->membership);
}

void heartbeat_free(struct heartbeat *h)
{
    forget_garbage(h);
    morsel__voter_set__free_unpacked(h->voters, NULL);
    h->voters = NULL;
}
