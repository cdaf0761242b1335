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

/* Only clients have numbers of their own. */
static bool is_numbered(const struct job *job)
{
    const struct rpc_request *request = job->request;

    return job->change.number != 0 && request->role == ROLE_CLIENT && request->node_id != 0;
}

bool once_admit(struct once *once, struct job *job)
{
    struct rpc_request *request = job->request;
    struct repeats_answer known = { 0 };
    enum repeats_verdict verdict;
    void *runner = NULL;

    if (!is_numbered(job)) {
        return true;
    }
    job->change.client = request->node_id;
    verdict = repeats_find(once->repeats, &job->change, &runner, &known);
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
    if (!is_numbered(job)) {
        return MORSEL_OK;
    }
    job->remembered = repeats_begin(once->repeats, &job->change, job);
    return job->remembered ? MORSEL_OK : MORSEL_NOMEM;
}

void once_end(struct once *once, struct job *job)
{
    const struct repeats_answer result = { job->status, job->verifier };

    if (!job->remembered) {
        return;
    }
    repeats_end(once->repeats, job->change.client, job->change.number, &result);
    job->remembered = false;
    while (job->copies != NULL) {
        struct rpc_request *copy = job->copies;

        job->copies = copy->data;
        once->answered++;
        answer(copy, job->status, job->err.text, job->verifier);
    }
}
