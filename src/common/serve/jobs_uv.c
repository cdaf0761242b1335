/* Queues of jobs for the pool; a slow one waits while half of the threads are slow already. */
#include "common/serve/jobs_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/rpc_uv.h"

#include <stdlib.h>

enum { SPARE_MAX = 128 };

void jobs_init(struct jobs *jobs, uv_loop_t *loop, uint32_t running_max, uint32_t waiting_max)
{
    *jobs = (struct jobs){ .loop = loop, .running_max = running_max, .waiting_max = waiting_max };
    list_init(&jobs->waiting);
    list_init(&jobs->waiting_slow);
    list_init(&jobs->spare);
}

void jobs_free(struct jobs *jobs)
{
    CHECK(jobs->running == 0 && jobs->waiting_count == 0);
    LIST_FOREACH_SAFE(node, &jobs->spare)
    {
        free(LIST_ENTRY(node, struct job, node));
    }
    list_init(&jobs->spare);
}

struct job *job_new(struct jobs *jobs, void *owner)
{
    struct list *node = list_pop_front(&jobs->spare);
    struct job *job;

    if (node != NULL) {
        job = LIST_ENTRY(node, struct job, node);
        jobs->spare_count--;
    } else if ((job = malloc(sizeof(*job))) == NULL) {
        return NULL;
    }
    list_init(&job->node);
    job->jobs = jobs;
    job->owner = owner;
    job->data = NULL;
    job->begin = NULL;
    job->status = 0;
    job->err.text[0] = 0;
    job->request = job->copies = NULL;
    job->change = (struct repeats_change){ 0 };
    job->remembered = false;
    job->message = NULL;
    job->payload = NULL;
    job->count = 0;
    job->verifier = 0;
    job->untouched = false;
    job->deadline_ms = UINT64_MAX;
    job->begun_ns = job->ended_ns = 0;
    return job;
}

void job_free(struct job *job)
{
    struct jobs *jobs = job->jobs;

    CHECK(job->request == NULL && job->copies == NULL);
    CHECK(job->message == NULL && job->payload == NULL);
    if (jobs->spare_count >= SPARE_MAX) {
        free(job);
        return;
    }
    list_push_front(&jobs->spare, &job->node);
    jobs->spare_count++;
}

int job_check_period(const struct job *job, struct errmsg *err)
{
    if (job->request == NULL || !rpc_request_is_late(job->request)) {
        return MORSEL_OK;
    }
    errmsg_set(err, "it came too late: the client's lease period is over");
    return MORSEL_TOO_LATE;
}

static void jobs_feed(struct jobs *jobs);

static void on_work(uv_work_t *work)
{
    struct job *job = CONTAINER_OF(work, struct job, work);

    job->begun_ns = job->ended_ns = uv_hrtime();
    if (job->begun_ns / 1000000 >= job->deadline_ms) {
        errmsg_set(&job->err, "the request waited too long for its turn");
        job->status = MORSEL_TIMEDOUT;
        return;
    }
    job->status = job_check_period(job, &job->err);
    if (job->status != 0) {
        return;
    }
    job->run(job);
    job->ended_ns = uv_hrtime();
}

static void on_worked(uv_work_t *work, int status)
{
    struct job *job = CONTAINER_OF(work, struct job, work);
    struct jobs *jobs = job->jobs;

    jobs->running--;
    jobs->running_slow -= job->slow;
    if (status != 0) {
        job->status = MORSEL_SHUTDOWN;
    }
    job->done(job);
    jobs_feed(jobs);
}

/* The next job that may run now. */
static struct job *jobs_next(struct jobs *jobs)
{
    uint32_t slow_max = jobs->running_max > 1 ? jobs->running_max / 2 : 1;
    bool turn_of_others = jobs->running_max == 1 && jobs->slow_last && !list_empty(&jobs->waiting);
    struct list *node = NULL;
    struct job *job;

    if (jobs->running >= jobs->running_max) {
        return NULL;
    }
    if (jobs->running_slow < slow_max && !turn_of_others) {
        node = list_pop_front(&jobs->waiting_slow);
    }
    if (node == NULL) {
        node = list_pop_front(&jobs->waiting);
    }
    if (node == NULL) {
        return NULL;
    }
    job = LIST_ENTRY(node, struct job, node);
    jobs->slow_last = job->slow;
    return job;
}

static void jobs_feed(struct jobs *jobs)
{
    struct job *job;

    while ((job = jobs_next(jobs)) != NULL) {
        jobs->waiting_count--;
        job->status = job->begin == NULL ? 0 : job->begin(job);
        if (job->status != 0) {
            job->done(job);
            continue;
        }
        jobs->running++;
        jobs->running_slow += job->slow;
        CHECK(uv_queue_work(jobs->loop, &job->work, on_work, on_worked) == 0);
    }
}

int job_start(struct job *job, void (*run)(struct job *job), void (*done)(struct job *job),
              bool slow)
{
    struct jobs *jobs = job->jobs;

    if (jobs->stopped) {
        return MORSEL_SHUTDOWN;
    }
    if (job->request != NULL && jobs->waiting_count >= jobs->waiting_max) {
        return MORSEL_OVERLOAD;
    }
    job->run = run;
    job->done = done;
    job->slow = slow;
    jobs->waiting_count++;
    list_push_back(slow ? &jobs->waiting_slow : &jobs->waiting, &job->node);
    jobs_feed(jobs);
    return 0;
}

static void drop_waiting(struct jobs *jobs, struct list *waiting)
{
    struct list *node;

    while ((node = list_pop_front(waiting)) != NULL) {
        struct job *job = LIST_ENTRY(node, struct job, node);

        jobs->waiting_count--;
        job->status = MORSEL_SHUTDOWN;
        job->done(job);
    }
}

void jobs_stop(struct jobs *jobs)
{
    jobs->stopped = true;
    drop_waiting(jobs, &jobs->waiting);
    drop_waiting(jobs, &jobs->waiting_slow);
}
