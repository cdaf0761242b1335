/* What clients read of objects, and what is there. */
#include "common.pb-c.h"
#include "common/base/buf.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/serve/object_handler_uv.h"

#include <stdlib.h>

enum { LIST_COUNT_MAX = 16384 /* Fits FRAME_BODY_BYTES_MAX with room */ };

/* ---- READ ---- */

static int check_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;

    if (m->length > FRAME_PAYLOAD_BYTES_MAX) {
        errmsg_set(&job->err, "a read of %u bytes exceeds %d", m->length, FRAME_PAYLOAD_BYTES_MAX);
        return MORSEL_TOO_LARGE;
    }
    return object_check(job, m->object);
}

/* Memory for the bytes: only while the read is being served, for the queue is long. */
static int begin_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;

    job->payload =
        payload_new(rpc_payloads(object_server_of(job)->rpc), m->length > 0 ? m->length : 1);
    return job->payload == NULL ? MORSEL_NOMEM : 0;
}

/* The page cache may have it: no thread, no waiting. */
static bool read_at_once(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;
    struct object_server *server = object_server_of(job);

    if (m->whole || begin_read(job) != 0) {
        return false;
    }
    if (store_read_cached(server->store, object_id_of(m->object), m->offset, job->payload->data,
                          m->length, &job->count, job->crcs) != 0) {
        payload_drop(job->payload);
        job->payload = NULL;
        return false;
    }
    server->reads_cached++;
    return true;
}

static int check_whole(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;
    bool lacks;
    int rv = store_lacks(object_store_of(job), object_id_of(m->object), &lacks, &job->err);

    if (rv == 0 && lacks) {
        errmsg_set(&job->err, "the machine has lost its power since it was written: some of it may "
                              "be missing");
        return MORSEL_NODATA;
    }
    return rv;
}

static void run_read(struct job *job)
{
    const Morsel__ReadRequest *m = job->message;

    job->status = m->whole ? check_whole(job) : 0;
    if (job->status == 0) {
        job->status = store_read(object_store_of(job), object_id_of(m->object), m->offset,
                                 job->payload->data, m->length, &job->count, job->crcs, &job->err);
    }
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

static void reach_read(const struct job *job, struct object_reach *reach)
{
    const Morsel__ReadRequest *m = job->message;

    *reach = object_reach_of(m->object, m->offset, m->offset + m->length);
}

const struct object_handler OBJECT_READ = {
    .descriptor = &morsel__read_request__descriptor,
    .check = check_read,
    .at_once = read_at_once,
    .begin = begin_read,
    .run = run_read,
    .answer = answer_read,
    .answers_bytes = true,
    .use = OBJECT_USE_READ,
    .reach = reach_read,
};

static int check_seek(struct job *job)
{
    return object_check(job, ((const Morsel__SeekRequest *)job->message)->object);
}

static void run_seek(struct job *job)
{
    const Morsel__SeekRequest *m = job->message;

    job->status = store_seek(object_store_of(job), object_id_of(m->object), m->offset, m->hole,
                             &job->seek.found, &job->seek.offset, &job->err);
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

static void reach_seek(const struct job *job, struct object_reach *reach)
{
    const Morsel__SeekRequest *m = job->message;

    *reach = object_reach_of(m->object, 0, OBJECT_BYTES_MAX);
}

const struct object_handler OBJECT_SEEK = {
    .descriptor = &morsel__seek_request__descriptor,
    .check = check_seek,
    .run = run_seek,
    .answer = answer_seek,
    .use = OBJECT_USE_READ,
    .reach = reach_seek,
};

/* ---- What is there ---- */

static int check_stat(struct job *job)
{
    return object_check(job, ((const Morsel__ObjectStatRequest *)job->message)->object);
}

static void run_stat(struct job *job)
{
    const Morsel__ObjectStatRequest *m = job->message;

    job->status = store_stat(object_store_of(job), object_id_of(m->object), &job->stat, &job->err);
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

static void reach_stat(const struct job *job, struct object_reach *reach)
{
    const Morsel__ObjectStatRequest *m = job->message;

    *reach = object_reach_of(m->object, 0, OBJECT_BYTES_MAX);
}

const struct object_handler OBJECT_STAT = {
    .descriptor = &morsel__object_stat_request__descriptor,
    .check = check_stat,
    .run = run_stat,
    .answer = answer_stat,
    .use = OBJECT_USE_READ,
    .reach = reach_stat,
};

static int check_list(struct job *job)
{
    const Morsel__ObjectListRequest *m = job->message;

    job->list.ids = NULL;
    job->list.ids_count = 0;
    job->list.bytes = NULL;
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

/* In the pool, as the listing is. */
static void run_list_bytes(struct job *job)
{
    size_t count = job->list.ids_count;

    job->list.bytes = calloc(count + 1, sizeof(*job->list.bytes));
    if (job->list.bytes == NULL) {
        job->status = MORSEL_NOMEM;
    }
    for (size_t i = 0; i < count && job->status == 0; i++) {
        job->status = store_disk_bytes(object_store_of(job), job->list.ids[i], &job->list.bytes[i],
                                       &job->err);
    }
}

static void run_list(struct job *job)
{
    const Morsel__ObjectListRequest *m = job->message;
    size_t count_max =
        m->count_max == 0 || m->count_max > LIST_COUNT_MAX ? LIST_COUNT_MAX : m->count_max;

    job->list.ids = calloc(count_max, sizeof(*job->list.ids));
    job->status = job->list.ids == NULL
                      ? MORSEL_NOMEM
                      : store_list(object_store_of(job), &job->list.cursor, job->list.ids,
                                   count_max, &job->list.ids_count, &job->err);
    if (job->status == 0 && m->with_bytes) {
        run_list_bytes(job);
    }
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
    reply.bytes = job->list.bytes;
    reply.n_bytes = job->list.bytes != NULL ? job->list.ids_count : 0;
    if (job->list.cursor != UINT64_MAX) {
        put_le64(cursor, job->list.cursor);
        reply.cursor.data = cursor;
        reply.cursor.len = sizeof(cursor);
    }
    rpc_reply(request, &reply.base, NULL);
    free(reply.objects);
}

static void end_list(struct job *job)
{
    free(job->list.ids);
    free(job->list.bytes);
}

const struct object_handler OBJECT_LIST = {
    .descriptor = &morsel__object_list_request__descriptor,
    .check = check_list,
    .run = run_list,
    .answer = answer_list,
    .end = end_list,
    .is_slow = object_is_slow,
};

static void run_statistics(struct job *job)
{
    job->status = store_space(object_store_of(job), &job->space, &job->err);
}

static void answer_statistics(struct job *job)
{
    struct counter_list *list = calloc(1, sizeof(*list));
    struct rpc_request *request = job->request;

    job->request = NULL;
    if (list == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    object_server_count(object_server_of(job), &job->space, list);
    counters_reply(request, list);
    free(list);
}

const struct object_handler OBJECT_STATISTICS = {
    .descriptor = &morsel__empty__descriptor,
    .run = run_statistics,
    .answer = answer_statistics,
};
