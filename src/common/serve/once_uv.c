/* Asks repeats.h before a change is begun, and tells it what came of it. */
#include "common/serve/once_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/rpc_uv.h"
#include "common/serve/jobs_uv.h"
#include "data.pb-c.h"

int once_init(struct once *once)
{
    *once = (struct once){ .repeats = repeats_new(SESSIONS_MAX, DATA_OPS_SLOTS_MAX) };
    return once->repeats == NULL ? MORSEL_NOMEM : MORSEL_OK;
}

void once_free(struct once *once)
{
    repeats_free(once->repeats);
    once->repeats = NULL;
}

/* `number` 0: it is no change, or has no number. */
static struct repeats_change change_of(const struct job *job)
{
    const struct rpc_request *request = job->request;
    struct repeats_change change = { .client = request->node_id };

#define TAKE(type)                                                                                 \
    do {                                                                                           \
        const type *m = job->message;                                                              \
        change.number = m->number;                                                                 \
        change.ended = m->ended;                                                                   \
        change.again = m->again != 0;                                                              \
    } while (0)
    if (request->role != ROLE_CLIENT || request->node_id == 0) {
        return change;
    }
    if (request->type == MSG_WRITE) {
        TAKE(Morsel__WriteRequest);
    } else if (request->type == MSG_TRUNCATE) {
        TAKE(Morsel__TruncateRequest);
    } else if (request->type == MSG_PUNCH) {
        TAKE(Morsel__PunchRequest);
    } else if (request->type == MSG_ALLOCATE) {
        TAKE(Morsel__AllocateRequest);
    } else if (request->type == MSG_COPY) {
        TAKE(Morsel__CopyRequest);
    }
#undef TAKE
    return change;
}

static void answer(struct rpc_request *request, int status, const char *text, uint64_t verifier)
{
    Morsel__Done reply = MORSEL__DONE__INIT;

    if (status != 0) {
        rpc_reply_failure(request, status, text);
        return;
    }
    reply.verifier = verifier;
    rpc_reply(request, &reply.base, NULL);
}

bool once_admit(struct once *once, struct job *job)
{
    struct repeats_change change = change_of(job);
    struct rpc_request *request = job->request;
    struct repeats_answer known = { 0 };
    enum repeats_verdict verdict;
    void *runner = NULL;

    if (change.number == 0) {
        return true;
    }
    verdict = repeats_find(once->repeats, &change, &runner, &known);
    if (verdict == REPEATS_NEW) {
        return true;
    }
    job->request = NULL;
    if (verdict == REPEATS_RUNNING) {
        struct job *first = runner;

        request->data = first->copies;
        first->copies = request;
    } else if (verdict == REPEATS_DONE) {
        once->answered++;
        answer(request, known.status, "as the first copy of this request was answered",
               known.verifier);
    } else {
        once->refused++;
        answer(request, MORSEL_UNSURE,
               verdict == REPEATS_OVER
                   ? "a late copy of a change that its client does not wait for any more"
                   : "whether this change was made before is not known any more: too many clients "
                     "have changed data since",
               0);
    }
    return false;
}

int once_begin(struct once *once, struct job *job)
{
    struct repeats_change change = change_of(job);

    if (change.number != 0 && !repeats_begin(once->repeats, &change, job)) {
        return MORSEL_NOMEM;
    }
    job->number = change.number;
    return MORSEL_OK;
}

void once_end(struct once *once, struct job *job)
{
    const struct repeats_answer result = { job->status, job->verifier };

    if (job->number == 0) {
        return;
    }
    repeats_end(once->repeats, job->request->node_id, job->number, &result);
    job->number = 0;
    while (job->copies != NULL) {
        struct rpc_request *copy = job->copies;

        job->copies = copy->data;
        once->answered++;
        answer(copy, job->status, job->err.text, job->verifier);
    }
}
