/* What clients change of objects, and that it is on disk. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "common/serve/object_handler_uv.h"

#include <inttypes.h>
#include <string.h>

/* Which change a message is; all that are changes have the same three fields (data.proto, Change). */
#define DEFINE_IDENTIFY(name, type)                                                                \
    static void name(const void *message, struct repeats_change *change)                           \
    {                                                                                              \
        const type *m = message;                                                                   \
                                                                                                   \
        change->number = m->number;                                                                \
        change->ended = m->ended;                                                                  \
        change->again = m->again != 0;                                                             \
        change->verifier = m->verifier;                                                            \
    }
DEFINE_IDENTIFY(identify_write, Morsel__WriteRequest)
DEFINE_IDENTIFY(identify_copy, Morsel__CopyRequest)
DEFINE_IDENTIFY(identify_truncate, Morsel__TruncateRequest)
DEFINE_IDENTIFY(identify_punch, Morsel__PunchRequest)
DEFINE_IDENTIFY(identify_allocate, Morsel__AllocateRequest)
#undef DEFINE_IDENTIFY

/* The client's lease period must not be over when its change takes its place among the others. What has its
 * place in the order of a group (a job without a request) was let in by who orders. */
static int ask_period(void *data, struct errmsg *err)
{
    return job_check_period(data, err);
}

static struct store_gate gate_of(struct job *job)
{
    return (
        struct store_gate){ .ask = ask_period, .data = job, .reserve_too = job->request == NULL };
}

/* ---- WRITE ---- */

static int check_write(struct job *job)
{
    const Morsel__WriteRequest *m = job->message;
    struct payload *payload = job->request->payload;

    if (payload == NULL || payload->count == 0) {
        errmsg_set(&job->err, "a write without bytes");
        return MORSEL_MALFORMED;
    }
    if (payload->count > FRAME_PAYLOAD_BYTES_MAX) {
        errmsg_set(&job->err, "a write of %zu bytes exceeds %d", payload->count,
                   FRAME_PAYLOAD_BYTES_MAX);
        return MORSEL_TOO_LARGE;
    }
    if (m->crcs.len != crc32c_pieces(m->offset, payload->count) * sizeof(job->crcs[0])) {
        errmsg_set(&job->err, "a write of %zu bytes with %zu bytes of checksums", payload->count,
                   m->crcs.len);
        return MORSEL_MALFORMED;
    }
    job->payload = payload;
    job->request->payload = NULL;
    memcpy(job->crcs, m->crcs.data, m->crcs.len);
    return object_check(job, m->object);
}

static void run_write(struct job *job)
{
    const Morsel__WriteRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(object_store_of(job));
    job->status =
        store_write(object_store_of(job), object_id_of(m->object), m->offset, job->payload->data,
                    job->payload->count, job->crcs, m->sync, &gate, &job->err);
}

/* Of everything that changes an object, and of SYNC. */
static void answer_done(struct job *job)
{
    Morsel__Done reply = MORSEL__DONE__INIT;
    struct rpc_request *request = job->request;

    job->request = NULL;
    reply.verifier = job->verifier;
    rpc_reply(request, &reply.base, NULL);
}

/* What must be on disk at once waits for it. */
static bool write_is_slow(const struct job *job)
{
    return ((const Morsel__WriteRequest *)job->message)->sync;
}

static void reach_write(const struct job *job, struct object_reach *reach)
{
    const Morsel__WriteRequest *m = job->message;

    *reach = object_reach_of(m->object, m->offset,
                             m->offset + (job->payload != NULL ? job->payload->count : 0));
}

const struct object_handler OBJECT_WRITE = {
    .descriptor = &morsel__write_request__descriptor,
    .check = check_write,
    .run = run_write,
    .answer = answer_done,
    .is_slow = write_is_slow,
    .identify = identify_write,
    .use = OBJECT_USE_CHANGE,
    .reach = reach_write,
};

/* ---- COPY ---- */

/* What no store could do is refused before anything else comes of it. */
static int check_length(struct job *job, uint64_t offset, uint64_t length)
{
    if (offset > OBJECT_BYTES_MAX || length > OBJECT_BYTES_MAX - offset) {
        errmsg_set(&job->err, "the object would be longer than %d TiB", OBJECT_TEBIBYTES_MAX);
        return MORSEL_FBIG;
    }
    return 0;
}

/* What is copied of objects that have copies may have to be copied once more. */
static int check_places(struct job *job, const Morsel__CopyRequest *m)
{
    bool same = m->from->inode == m->to->inode && m->from->column == m->to->column;

    if (placing_group(m->from->column) != placing_group(m->to->column)) {
        errmsg_set(&job->err, "objects that do not lie on the same servers are not copied here; "
                              "read and write them");
        return MORSEL_NOTSUP;
    }
    if (placing_group(m->to->column) != 0 && same && m->from_offset < m->to_offset + m->length &&
        m->to_offset < m->from_offset + m->length) {
        errmsg_set(&job->err, "an object that has copies on several servers is not copied onto "
                              "the bytes that are read");
        return MORSEL_INVAL;
    }
    return 0;
}

static int check_copy(struct job *job)
{
    const Morsel__CopyRequest *m = job->message;
    int rv = object_check(job, m->from);

    rv = rv != 0 ? rv : object_check(job, m->to);
    if (rv != 0) {
        return rv;
    }
    if (m->length == 0 || m->length > FRAME_PAYLOAD_BYTES_MAX ||
        m->from_offset % BLOCK_BYTES != m->to_offset % BLOCK_BYTES) {
        errmsg_set(&job->err,
                   "a copy of %u bytes from offset %" PRIu64 " to %" PRIu64 " is not possible",
                   m->length, m->from_offset, m->to_offset);
        return MORSEL_INVAL;
    }
    rv = check_length(job, m->from_offset, m->length);
    rv = rv != 0 ? rv : check_length(job, m->to_offset, m->length);
    return rv != 0 ? rv : check_places(job, m);
}

static int begin_copy(struct job *job)
{
    const Morsel__CopyRequest *m = job->message;

    job->payload = payload_new(rpc_payloads(object_server_of(job)->rpc), m->length);
    job->untouched = job->payload == NULL;
    if (job->untouched) {
        errmsg_set(&job->err, "out of memory");
    }
    return job->untouched ? MORSEL_NOMEM : 0;
}

/* The checksums go along, so that a copy of damaged bytes is not a good file. */
static void run_copy(struct job *job)
{
    const Morsel__CopyRequest *m = job->message;
    const struct store_gate gate = gate_of(job);
    struct store *store = object_store_of(job);

    job->verifier = store_verifier(object_store_of(job));
    job->status = store_read(store, object_id_of(m->from), m->from_offset, job->payload->data,
                             m->length, &job->count, job->crcs, &job->err);
    job->untouched = job->status != 0;
    if (job->status == 0 && job->count > 0) {
        job->status = store_write(store, object_id_of(m->to), m->to_offset, job->payload->data,
                                  job->count, job->crcs, false, &gate, &job->err);
    }
    if (job->status == 0 && job->count < m->length) {
        job->status = store_punch(store, object_id_of(m->to), m->to_offset + job->count,
                                  m->length - job->count, &gate, &job->err);
    }
}

static void reach_copy(const struct job *job, struct object_reach *reach)
{
    const Morsel__CopyRequest *m = job->message;
    struct object_reach source =
        object_reach_of(m->from, m->from_offset, m->from_offset + m->length);

    *reach = object_reach_of(m->to, m->to_offset, m->to_offset + m->length);
    reach->length = m->length;
    reach->source = source.object;
    reach->source_start = source.start;
    reach->source_end = source.end;
}

const struct object_handler OBJECT_COPY = {
    .descriptor = &morsel__copy_request__descriptor,
    .check = check_copy,
    .begin = begin_copy,
    .run = run_copy,
    .answer = answer_done,
    .identify = identify_copy,
    .use = OBJECT_USE_CHANGE,
    .reach = reach_copy,
};

/* ---- Shape, sync, delete ---- */

static int check_truncate(struct job *job)
{
    const Morsel__TruncateRequest *m = job->message;
    int rv = object_check(job, m->object);

    return rv != 0 ? rv : check_length(job, m->size, 0);
}

static void run_truncate(struct job *job)
{
    const Morsel__TruncateRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(object_store_of(job));
    job->status =
        store_truncate(object_store_of(job), object_id_of(m->object), m->size, &gate, &job->err);
}

static void reach_truncate(const struct job *job, struct object_reach *reach)
{
    const Morsel__TruncateRequest *m = job->message;

    *reach = object_reach_of(m->object, 0, OBJECT_BYTES_MAX);
}

const struct object_handler OBJECT_TRUNCATE = {
    .descriptor = &morsel__truncate_request__descriptor,
    .check = check_truncate,
    .run = run_truncate,
    .answer = answer_done,
    .identify = identify_truncate,
    .use = OBJECT_USE_CHANGE,
    .reach = reach_truncate,
};

static int check_punch(struct job *job)
{
    return object_check(job, ((const Morsel__PunchRequest *)job->message)->object);
}

static void run_punch(struct job *job)
{
    const Morsel__PunchRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(object_store_of(job));
    job->status = store_punch(object_store_of(job), object_id_of(m->object), m->offset, m->length,
                              &gate, &job->err);
}

static void reach_punch(const struct job *job, struct object_reach *reach)
{
    const Morsel__PunchRequest *m = job->message;

    *reach = object_reach_of(m->object, m->offset, m->offset + m->length);
}

const struct object_handler OBJECT_PUNCH = {
    .descriptor = &morsel__punch_request__descriptor,
    .check = check_punch,
    .run = run_punch,
    .answer = answer_done,
    .is_slow = object_is_slow,
    .identify = identify_punch,
    .use = OBJECT_USE_CHANGE,
    .reach = reach_punch,
};

static int check_allocate(struct job *job)
{
    const Morsel__AllocateRequest *m = job->message;
    int rv = object_check(job, m->object);

    return rv != 0 ? rv : check_length(job, m->offset, m->length);
}

static void run_allocate(struct job *job)
{
    const Morsel__AllocateRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(object_store_of(job));
    job->status = store_allocate(object_store_of(job), object_id_of(m->object), m->offset,
                                 m->length, &gate, &job->err);
}

static void reach_allocate(const struct job *job, struct object_reach *reach)
{
    const Morsel__AllocateRequest *m = job->message;

    *reach = object_reach_of(m->object, 0, OBJECT_BYTES_MAX);
    reach->length = m->length;
}

const struct object_handler OBJECT_ALLOCATE = {
    .descriptor = &morsel__allocate_request__descriptor,
    .check = check_allocate,
    .run = run_allocate,
    .answer = answer_done,
    .is_slow = object_is_slow,
    .identify = identify_allocate,
    .use = OBJECT_USE_CHANGE,
    .reach = reach_allocate,
};

static int check_sync(struct job *job)
{
    return object_check(job, ((const Morsel__SyncRequest *)job->message)->object);
}

static void run_sync(struct job *job)
{
    const Morsel__SyncRequest *m = job->message;

    job->status = store_sync(object_store_of(job), object_id_of(m->object), &job->err);
    job->verifier = store_verifier(object_store_of(job));
}

static void reach_sync(const struct job *job, struct object_reach *reach)
{
    const Morsel__SyncRequest *m = job->message;

    *reach = object_reach_of(m->object, 0, OBJECT_BYTES_MAX);
}

const struct object_handler OBJECT_SYNC = {
    .descriptor = &morsel__sync_request__descriptor,
    .check = check_sync,
    .run = run_sync,
    .answer = answer_done,
    .is_slow = object_is_slow,
    .use = OBJECT_USE_SYNC,
    .reach = reach_sync,
};

static int check_delete(struct job *job)
{
    const Morsel__DeleteRequest *m = job->message;
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < m->n_objects; i++) {
        rv = object_check(job, m->objects[i]);
        if (rv == 0 && m->n_objects > 1 && placing_group(m->objects[i]->column) != 0) {
            errmsg_set(&job->err, "objects that have copies on several servers are deleted one by "
                                  "one; nothing was deleted");
            rv = MORSEL_INVAL;
        }
    }
    return rv;
}

static void run_delete(struct job *job)
{
    const Morsel__DeleteRequest *m = job->message;

    for (size_t i = 0; i < m->n_objects; i++) {
        struct errmsg err = { "" };
        int rv = store_delete(object_store_of(job), object_id_of(m->objects[i]), &err);

        if (rv != 0 && job->status == 0) {
            job->status = rv;
            job->err = err;
        }
    }
}

/* Of the first one: objects that have copies are deleted one by one. */
static void reach_delete(const struct job *job, struct object_reach *reach)
{
    const Morsel__DeleteRequest *m = job->message;

    *reach = object_reach_of(m->n_objects > 0 ? m->objects[0] : NULL, 0, OBJECT_BYTES_MAX);
}

const struct object_handler OBJECT_DELETE = {
    .descriptor = &morsel__delete_request__descriptor,
    .check = check_delete,
    .run = run_delete,
    .is_slow = object_is_slow,
    .use = OBJECT_USE_DELETE,
    .reach = reach_delete,
};
