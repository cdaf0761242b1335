/* The way of a request through an object server. */
#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "common/serve/object_handler_uv.h"

int object_check(struct job *job, const Morsel__ObjectId *object)
{
    if (object == NULL || object->inode == 0) {
        errmsg_set(&job->err, "the request names no object");
        return MORSEL_INVAL;
    }
    return 0;
}

struct object_reach object_reach_of(const Morsel__ObjectId *object, uint64_t start, uint64_t end)
{
    struct object_reach reach = { .start = start, .end = end };

    if (object != NULL) {
        reach.object = object_id_of(object);
    }
    return reach;
}

bool object_is_slow(const struct job *job)
{
    (void)job;
    return true;
}

const struct object_handler *object_handler_of(unsigned type)
{
    static const struct object_handler *const handlers[] = {
        [MSG_STATISTICS] = &OBJECT_STATISTICS,
        [MSG_READ] = &OBJECT_READ,
        [MSG_WRITE] = &OBJECT_WRITE,
        [MSG_TRUNCATE] = &OBJECT_TRUNCATE,
        [MSG_PUNCH] = &OBJECT_PUNCH,
        [MSG_SEEK] = &OBJECT_SEEK,
        [MSG_SYNC] = &OBJECT_SYNC,
        [MSG_DELETE] = &OBJECT_DELETE,
        [MSG_OBJECT_STAT] = &OBJECT_STAT,
        [MSG_OBJECT_LIST] = &OBJECT_LIST,
        [MSG_ALLOCATE] = &OBJECT_ALLOCATE,
        [MSG_COPY] = &OBJECT_COPY,
        [MSG_WATCH] = &OBJECT_WATCH,
    };

    return type < ARRAY_COUNT(handlers) ? handlers[type] : NULL;
}

static void request_free(struct job *job)
{
    protobuf_c_message_free_unpacked(job->message, NULL);
    job->message = NULL;
    job_free(job);
}

void object_done(struct job *job, const struct object_handler *handler)
{
    struct object_server *server = job->owner;
    struct rpc_request *request = job->request;

    if (job->status != 0 || !handler->answers_bytes) {
        payload_drop(
            job->payload); /* Before the reply: with the last request the pool of buffers may go. */
        job->payload = NULL;
    }
    if (job->status != 0) {
        if (job->status == MORSEL_IO || job->status == MORSEL_CORRUPT) {
            log_error(server->log, "%s: %s", message_name(request->type), job->err.text);
        }
        job->request = NULL;
        rpc_reply_failure(request, job->status, job->err.text);
    } else if (handler->answer != NULL) {
        handler->answer(job);
    } else {
        job->request = NULL;
        rpc_reply(request, NULL, NULL);
    }
    if (handler->end != NULL) {
        handler->end(job);
    }
    request_free(job);
}

static void request_done(struct job *job)
{
    struct object_server *server = job->owner;

    if (job->begun_ns != 0) {
        rpc_request_worked(job->request, job->begun_ns, job->ended_ns);
    }
    once_end(&server->once, job);
    object_done(job, object_handler_of(job->request->type));
}

/* May it be done? What is refused here leaves no trace. */
static int admit(struct job *job, const struct object_handler *handler)
{
    struct object_server *server = job->owner;
    int rv = handler->check == NULL ? 0 : handler->check(job);

    if (rv == 0) {
        rv = job_check_period(job, &job->err);
    }
    return rv != 0 ? rv : once_begin(&server->once, job);
}

/* job->message and job->request are there. */
static void request_start(struct job *job, const struct object_handler *handler)
{
    int rv = admit(job, handler);

    if (rv == 0 && !(handler->at_once != NULL && handler->at_once(job))) {
        job->begin = handler->begin;
        rv = job_start(job, handler->run, request_done,
                       handler->is_slow != NULL && handler->is_slow(job));
        if (rv == 0) {
            return; /* The job is the pool's now: not a byte of it may be touched. */
        }
    }
    job->status = rv;
    request_done(job);
}

static void answer_clock(struct rpc_request *request)
{
    Morsel__Clock reply = MORSEL__CLOCK__INIT;

    reply.boot_ms = rpc_boot_ns() / 1000000;
    rpc_reply(request, &reply.base, NULL);
}

/* With the group of its object in the upper bits, if it has one (placing.h). */
static uint32_t job_column(const struct job *job, const struct object_handler *handler)
{
    struct object_reach reach;

    if (handler->reach == NULL) {
        return 0;
    }
    handler->reach(job, &reach);
    return reach.object.column;
}

/* The object has copies on several servers. */
static void route(struct object_server *server, struct job *job,
                  const struct object_handler *handler)
{
    if (server->route != NULL) {
        server->route(server->route_data, job, handler);
        return;
    }
    errmsg_set(&job->err, "this server has no copies of groups");
    job->status = MORSEL_NOT_HERE;
    object_done(job, handler);
}

void object_handle(void *data, struct rpc_request *request)
{
    struct object_server *server = data;
    const struct object_handler *handler = object_handler_of(request->type);
    struct job *job;

    if (request->type == MSG_CLOCK) {
        answer_clock(request);
        return;
    }
    if (handler == NULL && server->other != NULL) {
        server->other(server->other_data, request);
        return;
    }
    if (handler == NULL) {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE,
                          "a storage server does not know this request");
        return;
    }
    job = job_new(&server->jobs, server);
    if (job == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    job->message = rpc_request_unpack(request, handler->descriptor);
    if (job->message == NULL) {
        job_free(job);
        return;
    }
    job->request = request;
    job->deadline_ms = request->deadline_ms;
    if (handler->identify != NULL) {
        handler->identify(job->message, &job->change);
    }
    if (!server->plain && placing_group(job_column(job, handler)) != 0) {
        route(server, job, handler);
        return;
    }
    if (!once_admit(&server->once, job)) {
        request_free(job);
        return;
    }
    request_start(job, handler);
}
