/* Work for libuv's pool, bounded and in two lanes.
 *
 * At most `running_max` jobs are in the pool; the others wait here. Jobs that wait long for the
 * disk (sync, delete, list and the like) are *slow*: they take at most half of the threads, so that
 * reads and writes always find one. Where there is but one they take turns with others.
 */
#ifndef MORSEL_COMMON_SERVE_JOBS_UV_H
#define MORSEL_COMMON_SERVE_JOBS_UV_H

#include "common/base/errmsg.h"
#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/types.h"
#include "common/serve/repeats.h"
#include "common/store/store.h"

#include <uv.h>

struct rpc_request;
struct payload;

enum { JOB_CRCS_MAX = FRAME_PAYLOAD_BYTES_MAX / BLOCK_BYTES + 1 };

struct job
{
    uv_work_t work;
    struct list node; /* jobs->waiting or jobs->spare */
    struct jobs *jobs;
    int (*begin)(
        struct job *job); /* On the loop, right before run(); may be NULL. Gets what only running
                           * jobs may hold, memory for bulk bytes; a failure is the job's. */
    void (*run)(struct job *job);  /* On a thread of the pool. */
    void (*done)(struct job *job); /* On the loop, once; gives the job back with job_free(). */
    void *owner;                   /* Of whoever made it. */
    void *data;                    /* Likewise. */
    bool slow;

    int status;
    struct errmsg err;
    struct rpc_request *request;  /* NULL: the daemon's own work. */
    struct rpc_request *copies;   /* Of the same change: they get its answer (once_uv.h). */
    struct repeats_change change; /* Which one the request is; number 0: none. */
    bool remembered;              /* It is at work under that number (once_uv.h). */
    void *message;                /* Its unpacked body; read only in run(). */
    struct payload *payload;
    size_t count;
    uint64_t verifier; /* Of the store: data.proto, Done. */
    bool untouched;    /* Of a change that failed: it has changed nothing here, for sure. */
    uint64_t deadline_ms;
    uint64_t begun_ns, ended_ns; /* A thread was at work on it; 0: none was. */
    union {
        uint32_t crcs[JOB_CRCS_MAX];
        struct
        {
            struct object_id *ids; /* Owned, freed with the job. */
            size_t ids_count;
            uint64_t *bytes; /* OBJECT_LIST: on the disk, side by side; NULL: not asked for. */
            uint64_t cursor;
        } list;
        struct
        {
            bool found;
            uint64_t offset;
        } seek;
        struct
        {
            struct watch_stretch stretches[WATCH_REPLY_MAX];
            uint32_t count;
            uint64_t next;
        } watch;
        struct store_stat stat;
        struct store_space space;
    };
};

struct jobs
{
    uv_loop_t *loop;
    uint32_t running_max;
    uint32_t waiting_max;
    uint32_t running, running_slow;
    uint32_t waiting_count;
    struct list waiting, waiting_slow;
    struct list spare; /* Jobs kept for the next request. */
    uint32_t spare_count;
    bool slow_last; /* The last one that was begun is. */
    bool stopped;
};

void jobs_init(struct jobs *jobs, uv_loop_t *loop, uint32_t running_max, uint32_t waiting_max);

/* Jobs that wait end with MORSEL_SHUTDOWN, at once; later ones too. Running ones run to their end.
 */
void jobs_stop(struct jobs *jobs);

/* None is running any more. */
void jobs_free(struct jobs *jobs);

/* A fresh job, not queued; NULL: out of memory. */
struct job *job_new(struct jobs *jobs, void *owner);
void job_free(struct job *job);

/* MORSEL_TOO_LATE, with words: the lease period of the request's client is over. A job without a
 * request is never late. Any thread. */
int job_check_period(const struct job *job, struct errmsg *err);

/* Queue. On 0 the job is no longer the caller's, and done() comes, before this returns if begin()
 * fails at once. MORSEL_OVERLOAD (never for a job without a request), MORSEL_SHUTDOWN: nothing is
 * called. */
int job_start(struct job *job, void (*run)(struct job *job), void (*done)(struct job *job),
              bool slow);

#endif
