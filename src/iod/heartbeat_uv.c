/* Heartbeats, and the garbage that their answers name. */
#include "iod/heartbeat_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "iod/replica/groups_kept_file.h"
#include "iod/replica/groups_uv.h"
#include "iod/scrub_uv.h"
#include "iod/voters_kept_file.h"
#include "meta.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Those of groups are deleted: `gone` of them, in front. The others are named again. */
static void on_gone(void *data, size_t gone)
{
    struct heartbeat *h = data;

    h->gone = h->in_groups;
    h->gone_count = gone;
    h->in_groups = NULL;
    if (gone == 0) {
        free(h->gone);
        h->gone = NULL;
    } else {
        membership_hurry(&h->membership);
    }
}

/* Not so when we have no place of the group: what is left of a copy here is nobody's but ours. */
static bool has_order(const struct heartbeat *h, struct object_id id)
{
    return placing_group(id.column) != 0 && groups_hold(h->groups, placing_group(id.column));
}

/* Those of groups are deleted in their order, which may have to wait for another server for long. No
 * heartbeat waits for that: this server would seem to be down. One list at a time; while one is under way,
 * and until it is reported, what the manager names is left for later. */
static void collect_of_groups(struct heartbeat *h, const Morsel__HeartbeatReply *reply)
{
    size_t count = 0;

    if (h->in_groups != NULL || h->gone != NULL) {
        return;
    }
    h->in_groups = calloc(reply->n_collect_inode + 1, sizeof(*h->in_groups));
    for (size_t i = 0; h->in_groups != NULL && i < reply->n_collect_inode; i++) {
        struct object_id id = { .inode = reply->collect_inode[i],
                                .column = reply->collect_column[i] };

        if (has_order(h, id)) {
            h->in_groups[count++] = id;
        }
    }
    if (count > 0) {
        groups_delete(h->groups, h->in_groups, count, on_gone, h);
    } else {
        free(h->in_groups);
        h->in_groups = NULL;
    }
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

/* What is now to be reported; there is none of before. */
static void take_gone(struct heartbeat *h)
{
    if (h->garbage == NULL && h->gone != NULL) {
        h->garbage = h->gone;
        h->garbage_count = h->gone_count;
        h->gone = NULL;
    }
}

/* Delete what the manager has no use for. True: the next heartbeat waits for it. */
static bool collect(struct heartbeat *h, const Morsel__HeartbeatReply *reply)
{
    size_t count = reply->n_collect_inode;
    struct job *job;

    if (count == 0 || reply->n_collect_column != count) {
        return false;
    }
    collect_of_groups(h, reply);
    job = job_new(&h->membership.server->jobs, h);
    if (job == NULL) {
        return false;
    }
    job->list.ids = calloc(count, sizeof(*job->list.ids));
    job->list.ids_count = 0;
    for (size_t i = 0; job->list.ids != NULL && i < count; i++) {
        struct object_id id = { reply->collect_inode[i], reply->collect_column[i] };

        if (!has_order(h, id)) {
            job->list.ids[job->list.ids_count++] = id;
        }
    }
    if (job->list.ids_count > 0 && job_start(job, run_collect, on_collected, true) == 0) {
        membership_wait(&h->membership);
        return true;
    }
    free(job->list.ids);
    job_free(job);
    return false;
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
        groups_voters_changed(h->groups);
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

/* ---- Groups ---- */

static void run_keep_groups(struct job *job)
{
    struct heartbeat *h = job->owner;

    job->status = groups_kept_write(h->membership.server->datadir.path, &h->told_bytes, &job->err);
}

/* What is on the disk is taken over. */
static void on_groups_kept(struct job *job)
{
    struct heartbeat *h = job->owner;
    struct log *log = h->membership.server->log;
    bool failed = job->status != 0;
    Morsel__GroupSet *told = h->told_groups;

    h->told_groups = NULL;
    buf_free(&h->told_bytes);
    if (failed && job->status != MORSEL_SHUTDOWN) {
        log_error(log, "keep the groups of this server: %s: trying again", job->err.text);
    }
    job_free(job);
    if (failed) {
        morsel__group_set__free_unpacked(told, NULL);
    } else {
        log_info(log, "groups of version %" PRIu64 ": %zu are of this server", told->version,
                 (size_t)told->n_groups);
        groups_take_over(h->groups, told);
    }
    membership_reported(&h->membership, failed ? h->membership.report_ms : 0);
}

/* Write it down; the next heartbeat waits for that. False: nothing was started. */
static bool keep_groups(struct heartbeat *h, Morsel__HeartbeatReply *reply)
{
    struct errmsg err = { "" };
    struct job *job;

    if (reply->groups == NULL || !groups_may_take_over(h->groups, reply->groups)) {
        return false; /* It is told again. */
    }
    if (groups_begin(h->groups, &err) != 0) {
        log_error(h->membership.server->log, "keep the groups of this server: %s: trying again",
                  err.text);
        return false;
    }
    buf_init(&h->told_bytes);
    job = job_new(&h->membership.server->jobs, h);
    if (job != NULL && groups_kept_fill(reply->groups, &h->told_bytes) &&
        job_start(job, run_keep_groups, on_groups_kept, true) == 0) {
        h->told_groups = reply->groups;
        reply->groups = NULL; /* It is ours now. */
        membership_wait(&h->membership);
        return true;
    }
    buf_free(&h->told_bytes);
    if (job != NULL) {
        job_free(job);
    }
    return false;
}

const Morsel__VoterSet *heartbeat_voters(void *data)
{
    return ((struct heartbeat *)data)->voters;
}

void heartbeat_read(struct heartbeat *h)
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
    if (message != NULL && message->n_verify_group == message->n_verify_run) {
        groups_set_verify(h->groups, message->verify_group, message->verify_run,
                          message->n_verify_group);
    }
    if (message != NULL && message->groups == NULL) {
        groups_confirmed(h->groups, message->groups_version);
    }
    /* Where there is both, the objects are named again. */
    if (message == NULL ||
        (!keep(h, message) && !keep_groups(h, message) && !collect(h, message))) {
        bool at_once =
            message != NULL && (h->gone != NULL || m->measured != m->wanted || h->groups->has_news);

        membership_reported(m, at_once ? 0 : m->report_ms);
    }
    morsel__heartbeat_reply__free_unpacked(message, NULL);
}

static int heartbeat(struct membership *m)
{
    struct heartbeat *h = heartbeat_of(m);
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    size_t count;
    uint64_t *inodes;
    uint32_t *columns;
    uint64_t wait_ms = (uint64_t)m->report_ms * 2;
    struct errmsg failure = { "" };
    Morsel__CopyState states[SERVER_STATES_MAX], *pointers[SERVER_STATES_MAX];
    struct scrub_told scrub;
    Morsel__VerifyState verified[SERVER_STATES_MAX], *verified_pointers[SERVER_STATES_MAX];
    int rv = MORSEL_NOMEM;

    take_gone(h);
    count = h->garbage_count;
    inodes = calloc(count + 1, sizeof(*inodes));
    columns = calloc(count + 1, sizeof(*columns));
    request.id = m->server->datadir.node;
    request.bytes_total = m->space.bytes_total;
    request.bytes_free = m->space.bytes_free;
    request.device = m->space.device;
    request.objects = m->space.objects;
    request.measured = m->measured;
    request.verifier = store_verifier(m->server->store);
    request.voter = voter_name(h->voter->voter);
    request.voters_mark = h->voters != NULL ? h->voters->mark : 0;
    request.groups_version = groups_version(h->groups);
    request.n_copies = groups_states(h->groups, states, SERVER_STATES_MAX);
    request.copies = pointers;
    request.blocks_mended = m->server->blocks_mended;
    request.blocks_lost = m->server->blocks_lost;
    request.scrub = scrubber_tell(h->scrubber, &scrub);
    for (size_t i = 0; i < request.n_copies; i++) {
        pointers[i] = &states[i];
    }
    request.n_verified = groups_verify_states(h->groups, verified, SERVER_STATES_MAX);
    request.verified = verified_pointers;
    for (size_t i = 0; i < request.n_verified; i++) {
        verified_pointers[i] = &verified[i];
    }
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
    membership_start(&h->membership);
}

void heartbeat_hurry(void *data)
{
    membership_hurry(&((struct heartbeat *)data)->membership);
}

void heartbeat_stop(struct heartbeat *h)
{
    membership_stop(&h->membership);
}

void heartbeat_free(struct heartbeat *h)
{
    forget_garbage(h);
    free(h->gone);
    h->gone = NULL;
    morsel__voter_set__free_unpacked(h->voters, NULL);
    h->voters = NULL;
}
