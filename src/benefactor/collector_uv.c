/* One job of the pool after the other, until all is gone. */
#include "benefactor/collector_uv.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEP = 64,          /* Morsels that one job deletes, */
    WALK_STEP = 1024,   /* or looks at. */
    NUMBERS_MAX = 65536 /* Of more the directories are looked at. */
};

static void delete_one(struct job *job, struct collector *c, struct object_id id)
{
    struct errmsg err = { "" };
    int rv = store_delete(c->server->store, id, &err);

    if (rv == 0) {
        job->count++;
        return;
    }
    job->err = err;
    if (c->failed_count < COLLECTOR_FAILED_MAX) {
        c->failed[c->failed_count] = id;
    } else {
        job->status = rv; /* That is no accident: the others wait. */
    }
    c->failed_count++;
}

/* One after the other by their numbers. */
static void delete_numbers(struct job *job, struct collector *c)
{
    for (unsigned i = 0; i < STEP && c->run < c->count && job->status == 0; i++) {
        const struct morsel_run *run = &c->runs[c->run];
        struct object_id id = { .inode = run->set, .column = run->first + c->number };

        delete_one(job, c, id);
        if (++c->number == run->count) {
            c->run++;
            c->number = 0;
        }
    }
    c->all = c->run == c->count;
}

static void delete_found(struct job *job, struct collector *c)
{
    struct object_id ids[WALK_STEP];
    size_t count;

    job->status = store_list(c->server->store, &c->cursor, ids, WALK_STEP, &count, &job->err);
    for (size_t i = 0; i < count && job->status == 0; i++) {
        if (runs_have(c->runs, c->count, ids[i])) {
            delete_one(job, c, ids[i]);
        }
    }
    c->all = c->cursor == UINT64_MAX;
}

static void run_step(struct job *job)
{
    struct collector *c = job->owner;

    if (c->walks) {
        delete_found(job, c);
    } else {
        delete_numbers(job, c);
    }
}

static void finish(struct collector *c, int status)
{
    free(c->runs);
    c->runs = NULL;
    c->busy = false;
    c->failed_said = c->failed_said && (status != 0 || c->failed_count > 0);
    c->done(c->data, status);
}

static int start_step(struct collector *c);

static void on_step(struct job *job)
{
    struct collector *c = job->owner;
    int status = job->status;

    c->deleted += job->count;
    if (job->err.text[0] != 0 && status != MORSEL_SHUTDOWN && !c->failed_said) {
        c->failed_said = true;
        log_error(c->server->log,
                  "%s: delete morsels that nobody needs any more: %s: trying again when the "
                  "manager asks again",
                  c->server->datadir.path, job->err.text);
    }
    job_free(job);
    if (status == 0 && !c->all) {
        status = start_step(c);
        if (status == 0) {
            return;
        }
    }
    finish(c, status);
}

static int start_step(struct collector *c)
{
    struct job *job = job_new(&c->server->jobs, c);
    int rv = job == NULL ? MORSEL_NOMEM : job_start(job, run_step, on_step, true);

    if (rv != 0 && job != NULL) {
        job_free(job);
    }
    return rv;
}

int collector_start(struct collector *c, const struct morsel_run *runs, size_t count)
{
    int rv;

    if (c->busy) {
        return MORSEL_BUSY;
    }
    c->runs = malloc((count + 1) * sizeof(*runs));
    if (c->runs == NULL) {
        return MORSEL_NOMEM;
    }
    memcpy(c->runs, runs, count * sizeof(*runs));
    c->count = runs_join(c->runs, count);
    c->walks = runs_sum(c->runs, c->count) > NUMBERS_MAX;
    c->run = 0;
    c->number = 0;
    c->cursor = 0;
    c->failed_count = 0;
    c->busy = true;
    rv = start_step(c);
    if (rv != 0) {
        free(c->runs);
        c->runs = NULL;
        c->busy = false;
    }
    return rv;
}

bool collector_failed(const struct collector *c, const struct morsel_run *run)
{
    for (size_t i = 0; i < c->failed_count && i < COLLECTOR_FAILED_MAX; i++) {
        if (runs_have(run, 1, c->failed[i])) {
            return true;
        }
    }
    return false;
}

void collector_free(struct collector *c)
{
    free(c->runs);
    c->runs = NULL;
}
