/* Damage that the server's scrub has found in an object of the group: repaired as when a client reads it. What cannot be repaired
 * is the scrub's to tell. */
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <stdlib.h>

struct copy_scrubbing
{
    struct ticket *t;
    void (*done)(void *data, enum copy_scrubbed result);
    void *data;
};

/* A copy that is closed or ends may have asked nobody, and a look that failed has found nothing. */
static enum copy_scrubbed result_of(const struct ticket *t, enum mend_end end)
{
    switch (end) {
    case MEND_AGAIN:
        return COPY_SCRUB_MENDED;
    case MEND_LEFT:
        return COPY_SCRUB_LATER;
    case MEND_LOST:
    case MEND_FAILED:
        break;
    }
    return t->copy->ending || copy_trouble(t->copy) != NULL || t->found.blocks == 0
               ? COPY_SCRUB_LATER
               : COPY_SCRUB_LOST;
}

static void on_mended(struct ticket *t, struct job *job, enum mend_end end)
{
    struct copy_scrubbing *l = job->data;
    struct copy *copy = t->copy;

    l->done(l->data, result_of(t, end));
    ticket_drop(t);
    free(l);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

bool copy_scrub(struct copy *copy, struct object_id object, uint64_t start, uint64_t end,
                void (*done)(void *data, enum copy_scrubbed result), void *data)
{
    struct object_server *server = copy->setup.server;
    struct copy_scrubbing *l = calloc(1, sizeof(*l));
    struct job *job = l == NULL ? NULL : job_new(&server->jobs, server);
    struct ticket *t = job == NULL ? NULL : ticket_new(copy, NULL);

    if (t != NULL) {
        *l = (struct copy_scrubbing){ .t = t, .done = done, .data = data };
        job->data = l;
        t->quiet = true;
        t->change.object = object;
        t->change.span = (struct span){ start, end };
        copy->working++;
        if (copy_mend(t, job, on_mended)) {
            return true;
        }
        copy->working--;
        ticket_drop(t);
    }
    if (job != NULL) {
        job_free(job);
    }
    free(l);
    return false;
}
