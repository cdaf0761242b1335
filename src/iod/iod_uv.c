/* Puts the parts together, begins and ends the daemon, takes checkpoints. */
#include "iod/iod_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"

#include <stdlib.h>

enum { CHECKPOINT_CHECK_MS = 5000 };

static void run_checkpoint(struct job *job)
{
    struct iod *iod = job->owner;

    job->status = store_checkpoint(iod->objects.store, iod->settings->checkpoint_ms, &job->err);
}

static void on_checkpoint(struct job *job)
{
    struct iod *iod = job->owner;

    iod->taking_checkpoint = NULL;
    if (job->status != 0 && job->status != MORSEL_SHUTDOWN) {
        log_error(iod->log, "take a checkpoint of the object store: %s: trying again",
                  job->err.text);
    }
    job_free(job);
}

static void on_checkpoint_timer(uv_timer_t *timer)
{
    struct iod *iod = CONTAINER_OF(timer, struct iod, checkpoint);
    struct job *job;

    if (iod->taking_checkpoint != NULL) {
        return;
    }
    job = job_new(&iod->objects.jobs, iod);
    if (job == NULL || job_start(job, run_checkpoint, on_checkpoint, true) != 0) {
        if (job != NULL) {
            job_free(job);
        }
        return;
    }
    iod->taking_checkpoint = job;
}

static void on_joined(void *data)
{
    struct iod *iod = data;

    iod->ready(iod->data);
}

static void on_refused(void *data)
{
    struct iod *iod = data;

    iod->failed(iod->data);
}

/* What is not for objects. */
static void on_other(void *data, struct rpc_request *request)
{
    struct iod *iod = data;

    switch (request->type) {
    case MSG_VOTE:
    case MSG_VOTES_READ:
    case MSG_VOTES_CARRY:
        voter_uv_handle(&iod->voter, request);
        break;
    case MSG_PROBE:
        probe_handle(&iod->prober, iod->loop, request);
        break;
    case MSG_GROUP_WORDS:
    case MSG_MIRROR_LEASE:
    case MSG_REPLICA:
    case MSG_HAND_ON:
        groups_handle(&iod->groups, request);
        break;
    default:
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE,
                          "a storage server does not know this request");
    }
}

int iod_start(struct iod *iod, struct errmsg *err)
{
    const struct iod_settings *s = iod->settings;
    struct object_server *objects = &iod->objects;
    int rv;

    objects->log = iod->log;
    objects->loop = iod->loop;
    objects->other = on_other;
    objects->other_data = iod;
    objects->options = (struct object_server_options){ .kind = "iod",
                                                       .program = "morsel-iod " MORSELFS_VERSION,
                                                       .role = ROLE_IOD,
                                                       .data_dir = s->data_dir,
                                                       .listen = s->listen,
                                                       .manager = s->manager,
                                                       .advertise = s->advertise,
                                                       .open_files = (uint32_t)s->open_files,
                                                       .reserve_bytes = s->reserve_bytes,
                                                       .threads = (uint32_t)s->threads,
                                                       .queue = (uint32_t)s->queue,
                                                       .buffers_bytes = s->buffers_bytes };
    iod->heartbeat.voter = &iod->voter;
    iod->heartbeat.membership = (struct membership){
        .server = objects, .joined = on_joined, .refused = on_refused, .data = iod
    };
    uv_timer_init(iod->loop, &iod->checkpoint);
    rv = object_server_start(objects, err);
    if (rv == 0) {
        rv = voter_uv_open(&iod->voter, objects->datadir.path, iod->loop, iod->log, err);
    }
    if (rv != 0) {
        return rv;
    }
    heartbeat_read(&iod->heartbeat);
    iod->groups.server = objects;
    iod->groups.slow_limit_ms = s->slow_limit_ms;
    iod->groups.slow_pause_ms = s->slow_pause_ms;
    iod->groups.voter = &iod->voter;
    iod->groups.voters = heartbeat_voters;
    iod->groups.voters_data = &iod->heartbeat;
    iod->groups.recovery_rate = iod->settings->recovery_rate;
    iod->groups.news = heartbeat_hurry;
    iod->groups.news_data = &iod->heartbeat;
    iod->heartbeat.groups = &iod->groups;
    rv = groups_open(&iod->groups, err);
    if (rv == 0) {
        iod->scrubber.server = objects;
        iod->scrubber.groups = &iod->groups;
        iod->scrubber.rate = s->scrub_rate;
        iod->scrubber.every_ms = s->scrub_every_ms;
        iod->heartbeat.scrubber = &iod->scrubber;
        rv = scrubber_open(&iod->scrubber, err);
    }
    if (rv != 0) {
        return rv;
    }
    heartbeat_start(&iod->heartbeat);
    uv_timer_start(&iod->checkpoint, on_checkpoint_timer, CHECKPOINT_CHECK_MS, CHECKPOINT_CHECK_MS);
    log_info(iod->log, "serving %s on %s", objects->datadir.path,
             rpc_server_address(objects->listener));
    if (cluster_id_known(&objects->datadir.cluster)) {
        iod->ready(iod->data);
    }
    return 0;
}

/* What copies had of requests is back: the network may go. */
static void on_groups_closed(void *data)
{
    struct iod *iod = data;

    object_server_stop(&iod->objects);
}

void iod_leave(struct iod *iod, void (*left)(void *data), void *data)
{
    if (iod->stopping) {
        left(data);
    } else {
        groups_quit(&iod->groups, left, data);
    }
}

void iod_stop(struct iod *iod)
{
    if (iod->stopping) {
        return;
    }
    iod->stopping = true;
    uv_close((uv_handle_t *)&iod->checkpoint, NULL);
    heartbeat_stop(&iod->heartbeat);
    iod->prober.stopped = true;
    scrubber_stop(&iod->scrubber);
    groups_close(&iod->groups, on_groups_closed, iod);
    voter_uv_stop(&iod->voter, NULL, NULL);
}

void iod_release(struct iod *iod)
{
    scrubber_free(&iod->scrubber);
    groups_free(&iod->groups);
    heartbeat_free(&iod->heartbeat);
    voter_uv_free(&iod->voter);
    object_server_release(&iod->objects);
}

void iod_log_statistics(struct iod *iod)
{
    struct counter_list *list = calloc(1, sizeof(*list));

    if (list != NULL && iod->objects.rpc != NULL && !iod->stopping) {
        object_server_count(&iod->objects, &iod->heartbeat.membership.space, list);
        counters_log(iod->log, list);
    }
    free(list);
}
