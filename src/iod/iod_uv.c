/* Puts the parts together, begins and ends the daemon, takes checkpoints. */
#include "iod/iod_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/rpc/address.h"

#include <stdlib.h>
#include <string.h>

enum { CHECKPOINT_CHECK_MS = 5000 };

/* The store speaks of damage and repairs: from any thread. */
static void on_store_line(void *data, const char *line)
{
    struct iod *iod = data;

    log_warning(iod->log, "%s", line);
}

/* What the manager tells clients must lead to us. */
static int iod_check_address(const struct iod *iod, struct errmsg *err)
{
    const char *listens = rpc_server_address(iod->server);
    struct address address;
    int rv;

    if (iod->settings->advertise[0] != 0) {
        rv = address_parse(iod->settings->advertise, &address, err);
        if (rv != 0) {
            errmsg_wrap(err, "advertise");
        }
        return rv;
    }
    if (strncmp(listens, "0.0.0.0:", 8) == 0 || strncmp(listens, "[::]:", 5) == 0) {
        errmsg_set(err,
                   "listening on %s tells clients nothing: set advertise to the address of this "
                   "machine that they know",
                   listens);
        return MORSEL_INVAL;
    }
    return 0;
}

/* Everything that can refuse without touching the directory comes first. */
static int iod_listen(struct iod *iod, struct errmsg *err)
{
    struct rpc_options options = { .role = ROLE_IOD,
                                   .payload_idle_bytes_max = iod->settings->buffers_bytes,
                                   .program = "morsel-iod " MORSELFS_VERSION };
    struct rpc_server_hooks hooks = { .handle = iod_handle, .data = iod };
    int rv = rpc_new(iod->loop, &options, &iod->rpc);

    if (rv != 0) {
        errmsg_set(err, "%s", status_words(rv));
        return rv;
    }
    rv = rpc_peer_new(iod->rpc, iod->settings->manager, &iod->manager, err);
    if (rv == 0) {
        rv = rpc_listen(iod->rpc, iod->settings->listen, &hooks, &iod->server, err);
    }
    return rv != 0 ? rv : iod_check_address(iod, err);
}

static int iod_open_store(struct iod *iod, struct errmsg *err)
{
    struct store_options options = { .open_files_max = (uint32_t)iod->settings->open_files,
                                     .reserve_bytes = iod->settings->reserve_bytes,
                                     .boot_id = boot_id(),
                                     .log = on_store_line,
                                     .log_data = iod };
    int rv = datadir_open(&iod->datadir, iod->settings->data_dir, "iod", err);

    if (rv != 0) {
        return rv;
    }
    rpc_set_node_id(iod->rpc, iod->datadir.node);
    rpc_set_cluster_id(iod->rpc, &iod->datadir.cluster);
    return store_open(iod->datadir.path, &options, &iod->store, err);
}

static void run_checkpoint(struct job *job)
{
    struct iod *iod = job->owner;

    job->status = store_checkpoint(iod->store, iod->settings->checkpoint_ms, &job->err);
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
    job = job_new(&iod->jobs, iod);
    if (job == NULL || job_start(job, run_checkpoint, on_checkpoint, true) != 0) {
        if (job != NULL) {
            job_free(job);
        }
        return;
    }
    iod->taking_checkpoint = job;
}

int iod_start(struct iod *iod, struct errmsg *err)
{
    const struct iod_settings *s = iod->settings;
    int rv;

    iod->datadir.lock_fd = -1;
    jobs_init(&iod->jobs, iod->loop, (uint32_t)s->threads, (uint32_t)s->queue);
    uv_timer_init(iod->loop, &iod->checkpoint);
    rv = once_init(&iod->once);
    if (rv != 0) {
        errmsg_set(err, "%s", status_words(rv));
        return rv;
    }
    rv = iod_listen(iod, err);
    if (rv == 0) {
        rv = iod_open_store(iod, err);
    }
    if (rv == 0) {
        member_start(&iod->member, iod);
        uv_timer_start(&iod->checkpoint, on_checkpoint_timer, CHECKPOINT_CHECK_MS,
                       CHECKPOINT_CHECK_MS);
        log_info(iod->log, "serving %s on %s", iod->datadir.path, rpc_server_address(iod->server));
        if (cluster_id_known(&iod->datadir.cluster)) {
            iod->ready(iod->data);
        }
    }
    return rv;
}

void iod_stop(struct iod *iod)
{
    if (iod->stopping) {
        return;
    }
    iod->stopping = true;
    uv_close((uv_handle_t *)&iod->checkpoint, NULL);
    member_stop(&iod->member);
    /* Requests that are here are answered to nobody: their callers ask again when we are back. */
    if (iod->rpc != NULL) {
        rpc_close(iod->rpc, NULL, NULL);
    }
    jobs_stop(&iod->jobs);
}

void iod_release(struct iod *iod)
{
    jobs_free(&iod->jobs);
    once_free(&iod->once);
    free(iod->member.garbage);
    store_close(iod->store);
    datadir_close(&iod->datadir);
}

void iod_count(struct iod *iod, const struct store_space *space, struct counter_list *list)
{
    struct repeats_counts repeats;

    counters_add_program(list, iod->rpc);
    counters_add_server(list, iod->server);
    counters_add(list, NULL, "reads_cached", iod->reads_cached);
    counters_add(list, NULL, "jobs_running", iod->jobs.running);
    counters_add(list, NULL, "jobs_waiting", iod->jobs.waiting_count);
    repeats_count(iod->once.repeats, &repeats);
    counters_add(list, NULL, "repeats_answered", iod->once.answered);
    counters_add(list, NULL, "repeats_refused", iod->once.refused);
    counters_add(list, NULL, "changes_remembered", repeats.slots);
    counters_add(list, NULL, "clients_remembered", repeats.clients);
    counters_add(list, NULL, "clients_forgotten", repeats.forgotten);
    counters_add(list, NULL, "buffers_bytes", payload_pool_bytes(rpc_payloads(iod->rpc)));
    if (space != NULL) {
        counters_add(list, NULL, "store_bytes_total", space->bytes_total);
        counters_add(list, NULL, "store_bytes_free", space->bytes_free);
        counters_add(list, NULL, "store_objects", space->objects);
    }
}

void iod_log_statistics(struct iod *iod)
{
    struct store_space space = { .bytes_total = iod->member.bytes_total,
                                 .bytes_free = iod->member.bytes_free,
                                 .objects = iod->member.objects };
    struct counter_list *list = calloc(1, sizeof(*list));

    if (list != NULL && iod->rpc != NULL && !iod->stopping) {
        iod_count(iod, &space, list);
        counters_log(iod->log, list);
    }
    free(list);
}
