/* Requests about what of an object was changed since (common/store/watches.h). As a read of the whole object they wait for changes of
 * it that are under way, whoever of its copies orders answers them, and only while it does: so what it says is all that anybody
 * has acknowledged. */
#include "common/serve/object_handler_uv.h"

#include "common/base/limits.h"
#include "common/base/status.h"

static int check_watch(struct job *job)
{
    const Morsel__WatchRequest *m = job->message;

    job->watch.count = 0;
    job->watch.next = UINT64_MAX;
    if (m->begin == 0 && m->since == 0) {
        errmsg_set(&job->err, "a watch needs a number");
        return MORSEL_INVAL;
    }
    return object_check(job, m->object);
}

/* The next watch has begun before this one is looked at: what changes between the two is in either. */
static void run_watch(struct job *job)
{
    const Morsel__WatchRequest *m = job->message;
    struct store *store = object_store_of(job);
    struct object_id id = object_id_of(m->object);

    if (m->begin != 0) {
        job->status = store_watch(store, id, m->begin);
    }
    if (job->status != 0 || m->since == 0) {
        return;
    }
    job->status = store_changed(store, id, m->since, m->offset, job->watch.stretches,
                                WATCH_REPLY_MAX, &job->watch.count, &job->watch.next);
    if (job->status == MORSEL_NODATA) {
        errmsg_set(&job->err, "nobody knows here what was changed since");
    }
}

static void answer_watch(struct job *job)
{
    Morsel__WatchReply reply = MORSEL__WATCH_REPLY__INIT;
    struct rpc_request *request = job->request;
    uint64_t starts[WATCH_REPLY_MAX], ends[WATCH_REPLY_MAX];

    job->request = NULL;
    for (uint32_t i = 0; i < job->watch.count; i++) {
        starts[i] = job->watch.stretches[i].start;
        ends[i] = job->watch.stretches[i].end;
    }
    reply.n_starts = reply.n_ends = job->watch.count;
    reply.starts = starts;
    reply.ends = ends;
    reply.next = job->watch.next;
    rpc_reply(request, &reply.base, NULL);
}

static void reach_watch(const struct job *job, struct object_reach *reach)
{
    const Morsel__WatchRequest *m = job->message;

    *reach = object_reach_of(m->object, 0, OBJECT_BYTES_MAX);
}

const struct object_handler OBJECT_WATCH = {
    .descriptor = &morsel__watch_request__descriptor,
    .check = check_watch,
    .run = run_watch,
    .answer = answer_watch,
    .use = OBJECT_USE_READ,
    .reach = reach_watch,
};
