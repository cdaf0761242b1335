/* Requests of clients. Each becomes a job: `check` looks at the request on the loop, `run` does it
 * in the pool, `answer` sends what came of it. */
#include "common.pb-c.h"
#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "data.pb-c.h"
#include "iod/iod_uv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_COUNT_MAX = 16384 /* Fits FRAME_BODY_BYTES_MAX with room */ };

static const char TOO_LATE_WORDS[] = "it came too late: the client's lease period is over";

struct handler
{
    const ProtobufCMessageDescriptor *descriptor;
    int (*check)(struct job *job); /* May be NULL. */
    void (*run)(struct job *job);
    void (*answer)(struct job *job); /* NULL: an empty reply. */
    bool slow;
};

static struct store *store_of(const struct job *job)
{
    return ((struct iod *)job->owner)->store;
}

static struct object_id id_of(const Morsel__ObjectId *object)
{
    return (struct object_id){ .inode = object->inode, .column = object->column };
}

/* The client's lease period must not be over when its change takes its place among the others. */
static int ask_period(void *data, struct errmsg *err)
{
    const struct job *job = data;

    if (!rpc_request_is_late(job->request)) {
        return 0;
    }
    errmsg_set(err, "%s", TOO_LATE_WORDS);
    return MORSEL_TOO_LATE;
}

static struct store_gate gate_of(struct job *job)
{
    return (struct store_gate){ .ask = ask_period, .data = job };
}

/* Every request but a few names one object. */
static int check_object(struct job *job, const Morsel__ObjectId *object)
{
    if (object == NULL || object->inode == 0) {
        errmsg_set(&job->err, "the request names no object");
        return MORSEL_INVAL;
    }
    return 0;
}

/* ---- READ ---- */

static int check_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;

    if (m->length > FRAME_PAYLOAD_BYTES_MAX) {
        errmsg_set(&job->err, "a read of %u bytes exceeds %d", m->length, FRAME_PAYLOAD_BYTES_MAX);
        return MORSEL_TOO_LARGE;
    }
    return check_object(job, m->object);
}

/* Memory for the bytes: only while the read is being served, for the queue is long. */
static int begin_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;
    struct iod *iod = job->owner;

    job->payload = payload_new(rpc_payloads(iod->rpc), m->length > 0 ? m->length : 1);
    return job->payload == NULL ? MORSEL_NOMEM : 0;
}

static void run_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;

    job->status = store_read(store_of(job), id_of(m->object), m->offset, job->payload->data,
                             m->length, &job->count, job->crcs, &job->err);
}

static void answer_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;
    Morsel__ReadReply reply = MORSEL__READ_REPLY__INIT;
    struct payload *payload = job->payload;
    struct rpc_request *request = job->request;

    job->payload = NULL;
    job->request = NULL;
    reply.crcs.len = crc32c_pieces(m->offset, job->count) * sizeof(job->crcs[0]);
    reply.crcs.data = (uint8_t *)job->crcs; /* Little-endian, as the store's files demand anyway. */
    payload->count = job->count;
    if (job->count == 0) {
        payload_drop(payload);
        payload = NULL;
    }
    rpc_reply(request, &reply.base, payload);
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
    return check_object(job, m->object);
}

static void run_write(struct job *job)
{
    const Morsel__WriteRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(store_of(job));
    job->status = store_write(store_of(job), id_of(m->object), m->offset, job->payload->data,
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

/* ---- COPY ---- */

static int check_copy(struct job *job)
{
    const Morsel__CopyRequest *m = job->message;
    int rv = check_object(job, m->from);

    if (m->length == 0 || m->length > FRAME_PAYLOAD_BYTES_MAX ||
        m->from_offset % BLOCK_BYTES != m->to_offset % BLOCK_BYTES) {
        errmsg_set(&job->err,
                   "a copy of %u bytes from offset %" PRIu64 " to %" PRIu64 " is not possible",
                   m->length, m->from_offset, m->to_offset);
        return MORSEL_INVAL;
    }
    return rv != 0 ? rv : check_object(job, m->to);
}

static int begin_copy(struct job *job)
{
    const Morsel__CopyRequest *m = job->message;
    struct iod *iod = job->owner;

    job->payload = payload_new(rpc_payloads(iod->rpc), m->length);
    return job->payload == NULL ? MORSEL_NOMEM : 0;
}

/* The checksums go along, so that a copy of damaged bytes is not a good file. */
static void run_copy(struct job *job)
{
    const Morsel__CopyRequest *m = job->message;
    const struct store_gate gate = gate_of(job);
    struct store *store = store_of(job);

    job->verifier = store_verifier(store_of(job));
    job->status = store_read(store, id_of(m->from), m->from_offset, job->payload->data, m->length,
                             &job->count, job->crcs, &job->err);
    if (job->status == 0 && job->count > 0) {
        job->status = store_write(store, id_of(m->to), m->to_offset, job->payload->data, job->count,
                                  job->crcs, false, &gate, &job->err);
    }
    if (job->status == 0 && job->count < m->length) {
        job->status = store_punch(store, id_of(m->to), m->to_offset + job->count,
                                  m->length - job->count, &gate, &job->err);
    }
}

/* ---- Shape, sync, delete ---- */

static int check_truncate(struct job *job)
{
    return check_object(job, ((const Morsel__TruncateRequest *)job->message)->object);
}

static void run_truncate(struct job *job)
{
    const Morsel__TruncateRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(store_of(job));
    job->status = store_truncate(store_of(job), id_of(m->object), m->size, &gate, &job->err);
}

static int check_punch(struct job *job)
{
    return check_object(job, ((const Morsel__PunchRequest *)job->message)->object);
}

static void run_punch(struct job *job)
{
    const Morsel__PunchRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(store_of(job));
    job->status =
        store_punch(store_of(job), id_of(m->object), m->offset, m->length, &gate, &job->err);
}

static int check_allocate(struct job *job)
{
    return check_object(job, ((const Morsel__AllocateRequest *)job->message)->object);
}

static void run_allocate(struct job *job)
{
    const Morsel__AllocateRequest *m = job->message;
    const struct store_gate gate = gate_of(job);

    job->verifier = store_verifier(store_of(job));
    job->status =
        store_allocate(store_of(job), id_of(m->object), m->offset, m->length, &gate, &job->err);
}

static int check_seek(struct job *job)
{
    return check_object(job, ((const Morsel__SeekRequest *)job->message)->object);
}

static void run_seek(struct job *job)
{
    const Morsel__SeekRequest *m = job->message;

    job->status = store_seek(store_of(job), id_of(m->object), m->offset, m->hole, &job->seek.found,
                             &job->seek.offset, &job->err);
}

static void answer_seek(struct job *job)
{
    Morsel__SeekReply reply = MORSEL__SEEK_REPLY__INIT;
    struct rpc_request *request = job->request;

    job->request = NULL;
    reply.found = job->seek.found;
    reply.offset = job->seek.offset;
    rpc_reply(request, &reply.base, NULL);
}

static int check_sync(struct job *job)
{
    return check_object(job, ((const Morsel__SyncRequest *)job->message)->object);
}

static void run_sync(struct job *job)
{
    const Morsel__SyncRequest *m = job->message;

    job->status = store_sync(store_of(job), id_of(m->object), &job->err);
    job->verifier = store_verifier(store_of(job));
}

static int check_delete(struct job *job)
{
    const Morsel__DeleteRequest *m = job->message;
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < m->n_objects; i++) {
        rv = check_object(job, m->objects[i]);
    }
    return rv;
}

static void run_delete(struct job *job)
{
    const Morsel__DeleteRequest *m = job->message;

    for (size_t i = 0; i < m->n_objects; i++) {
        struct errmsg err = { "" };
        int rv = store_delete(store_of(job), id_of(m->objects[i]), &err);

        if (rv != 0 && job->status == 0) {
            job->status = rv;
            job->err = err;
        }
    }
}

/* ---- What is there ---- */

static int check_stat(struct job *job)
{
    return check_object(job, ((const Morsel__ObjectStatRequest *)job->message)->object);
}

static void run_stat(struct job *job)
{
    const Morsel__ObjectStatRequest *m = job->message;
    struct store_stat stat;

    job->status = store_stat(store_of(job), id_of(m->object), &stat, &job->err);
    job->stat.exists = stat.exists;
    job->stat.size = stat.size;
    job->stat.blocks = stat.blocks;
}

static void answer_stat(struct job *job)
{
    Morsel__ObjectStatReply reply = MORSEL__OBJECT_STAT_REPLY__INIT;
    struct rpc_request *request = job->request;

    job->request = NULL;
    reply.exists = job->stat.exists;
    reply.size = job->stat.size;
    reply.blocks = job->stat.blocks;
    rpc_reply(request, &reply.base, NULL);
}

static int check_list(struct job *job)
{
    const Morsel__ObjectListRequest *m = job->message;

    job->list.ids = NULL;
    job->list.ids_count = 0;
    job->list.cursor = 0;
    if (m->cursor.len != 0 && m->cursor.len != sizeof(job->list.cursor)) {
        errmsg_set(&job->err, "a cursor of %zu bytes is not ours", m->cursor.len);
        return MORSEL_INVAL;
    }
    if (m->cursor.len != 0) {
        job->list.cursor = get_le64(m->cursor.data);
    }
    return 0;
}

static void run_list(struct job *job)
{
    const Morsel__ObjectListRequest *m = job->message;
    size_t count_max =
        m->count_max == 0 || m->count_max > LIST_COUNT_MAX ? LIST_COUNT_MAX : m->count_max;

    job->list.ids = calloc(count_max, sizeof(*job->list.ids));
    job->status = job->list.ids == NULL
                      ? MORSEL_NOMEM
                      : store_list(store_of(job), &job->list.cursor, job->list.ids, count_max,
                                   &job->list.ids_count, &job->err);
}

/* The reply's array of messages, in one piece of memory. */
static Morsel__ObjectId **list_messages(const struct job *job)
{
    size_t count = job->list.ids_count;
    Morsel__ObjectId **pointers =
        calloc(count + 1, sizeof(Morsel__ObjectId *) + sizeof(Morsel__ObjectId));
    Morsel__ObjectId *objects =
        pointers == NULL ? NULL : (Morsel__ObjectId *)(pointers + count + 1);

    for (size_t i = 0; pointers != NULL && i < count; i++) {
        morsel__object_id__init(&objects[i]);
        objects[i].inode = job->list.ids[i].inode;
        objects[i].column = job->list.ids[i].column;
        pointers[i] = &objects[i];
    }
    return pointers;
}

static void answer_list(struct job *job)
{
    Morsel__ObjectListReply reply = MORSEL__OBJECT_LIST_REPLY__INIT;
    struct rpc_request *request = job->request;
    uint8_t cursor[8];

    job->request = NULL;
    reply.objects = list_messages(job);
    if (reply.objects == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    reply.n_objects = job->list.ids_count;
    if (job->list.cursor != UINT64_MAX) {
        put_le64(cursor, job->list.cursor);
        reply.cursor.data = cursor;
        reply.cursor.len = sizeof(cursor);
    }
    rpc_reply(request, &reply.base, NULL);
    free(reply.objects);
}

static void run_statistics(struct job *job)
{
    struct store_space space;

    job->status = store_space(store_of(job), &space, &job->err);
    job->space.bytes_total = space.bytes_total;
    job->space.bytes_free = space.bytes_free;
    job->space.objects = space.objects;
}

static void answer_statistics(struct job *job)
{
    struct store_space space = { .bytes_total = job->space.bytes_total,
                                 .bytes_free = job->space.bytes_free,
                                 .objects = job->space.objects };
    struct counter_list *list = calloc(1, sizeof(*list));
    struct rpc_request *request = job->request;

    job->request = NULL;
    if (list == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    iod_count(job->owner, &space, list);
    counters_reply(request, list);
    free(list);
}

/* ---- The way of a request ---- */

static const struct handler *handler_of(unsigned type)
{
    static const struct handler handlers[] = {
        [MSG_STATISTICS] = { &morsel__empty__descriptor, NULL, run_statistics, answer_statistics,
                             false },
        [MSG_READ] = { &morsel__read_request__descriptor, check_read, run_read, answer_read,
                       false },
        [MSG_WRITE] = { &morsel__write_request__descriptor, check_write, run_write, answer_done,
                        false },
        [MSG_TRUNCATE] = { &morsel__truncate_request__descriptor, check_truncate, run_truncate,
                           answer_done, false },
        [MSG_PUNCH] = { &morsel__punch_request__descriptor, check_punch, run_punch, answer_done,
                        true },
        [MSG_SEEK] = { &morsel__seek_request__descriptor, check_seek, run_seek, answer_seek,
                       false },
        [MSG_SYNC] = { &morsel__sync_request__descriptor, check_sync, run_sync, answer_done, true },
        [MSG_DELETE] = { &morsel__delete_request__descriptor, check_delete, run_delete, NULL,
                         true },
        [MSG_OBJECT_STAT] = { &morsel__object_stat_request__descriptor, check_stat, run_stat,
                              answer_stat, false },
        [MSG_OBJECT_LIST] = { &morsel__object_list_request__descriptor, check_list, run_list,
                              answer_list, true },
        [MSG_ALLOCATE] = { &morsel__allocate_request__descriptor, check_allocate, run_allocate,
                           answer_done, true },
        [MSG_COPY] = { &morsel__copy_request__descriptor, check_copy, run_copy, answer_done,
                       false },
    };

    return type < ARRAY_COUNT(handlers) && handlers[type].run != NULL ? &handlers[type] : NULL;
}

/* Send what came of a job, if nobody did yet, and let go of everything that it held. */
static void request_done(struct job *job)
{
    struct iod *iod = job->owner;
    struct rpc_request *request = job->request;
    const struct handler *handler = handler_of(request->type);

    if (job->begun_ns != 0) {
        rpc_request_worked(request, job->begun_ns, job->ended_ns);
    }
    once_end(&iod->once, job);
    if (job->status != 0 || handler->answer != answer_read) {
        payload_drop(
            job->payload); /* Before the reply: with the last request the pool of buffers may go. */
        job->payload = NULL;
    }
    if (job->status != 0) {
        if (job->status == MORSEL_IO || job->status == MORSEL_CORRUPT) {
            log_error(iod->log, "%s: %s", message_name(request->type), job->err.text);
        }
        job->request = NULL;
        rpc_reply_failure(request, job->status, job->err.text);
    } else if (handler->answer != NULL) {
        handler->answer(job);
    } else {
        job->request = NULL;
        rpc_reply(request, NULL, NULL);
    }
    if (handler->run == run_list) {
        free(job->list.ids);
    }
    protobuf_c_message_free_unpacked(job->message, NULL);
    job->message = NULL;
    job_free(job);
}

/* The page cache may have it: no thread, no waiting. */
static bool read_at_once(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;
    struct iod *iod = job->owner;

    job->begin = begin_read;
    if (begin_read(job) != 0) {
        return false;
    }
    if (store_read_cached(iod->store, id_of(m->object), m->offset, job->payload->data, m->length,
                          &job->count, job->crcs) != 0) {
        payload_drop(job->payload);
        job->payload = NULL;
        return false;
    }
    iod->reads_cached++;
    return true;
}

static void answer_clock(struct rpc_request *request)
{
    Morsel__Clock reply = MORSEL__CLOCK__INIT;

    reply.boot_ms = rpc_boot_ns() / 1000000;
    rpc_reply(request, &reply.base, NULL);
}

/* May it be done? What is refused here leaves no trace. */
static int admit(struct job *job, const struct handler *handler)
{
    struct iod *iod = job->owner;
    int rv = handler->check == NULL ? 0 : handler->check(job);

    if (rv == 0) {
        rv = ask_period(job, &job->err);
    }
    return rv != 0 ? rv : once_begin(&iod->once, job);
}

void iod_handle(void *data, struct rpc_request *request)
{
    struct iod *iod = data;
    const struct handler *handler = handler_of(request->type);
    struct job *job;
    int rv;

    if (request->type == MSG_CLOCK) {
        answer_clock(request);
        return;
    }
    if (handler == NULL) {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, "an I/O daemon does not know this request");
        return;
    }
    job = job_new(&iod->jobs, iod);
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
    if (!once_admit(&iod->once, job)) {
        protobuf_c_message_free_unpacked(job->message, NULL);
        job->message = NULL;
        job_free(job);
        return;
    }
    job->deadline_ms = request->deadline_ms;
    job->begin = handler->run == run_copy ? begin_copy : NULL;
    rv = admit(job, handler);
    if (rv == 0 && !(handler->run == run_read && read_at_once(job))) {
        bool slow = handler->slow || (handler->run == run_write &&
                                      ((const Morsel__WriteRequest *)job->message)->sync);

        rv = job_start(job, handler->run, request_done, slow);
        if (rv == 0) {
            return; /* The job is the pool's now: not a byte of it may be touched. */
        }
    }
    job->status = rv;
    request_done(job);
}
