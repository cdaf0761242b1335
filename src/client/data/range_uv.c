/* One operation on all columns of a file: the bytes of a file range lie in one contiguous range of
 * each object, since stripes are dealt in turn (stripe_object_size() of the range's two ends). */
#include "client/coherence/lease_uv.h"
#include "client/data/changed_ranges.h"
#include "client/data/file_uv.h"

#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* What is asked of the servers about changes of the file, and what they have said. */
struct range_watch
{
    struct exchange_watch *answer; /* The caller's. */
    struct changed_column columns[];
};

static void watch_answer(struct range_op *op)
{
    struct exchange_watch *answer = op->watch->answer;

    if (op->status == 0) { /* Else what some server has said is not to be believed. */
        answer->count = changed_ranges(file_stripe(op->file), op->watch->columns, answer->from,
                                       answer->stretches, EXCHANGE_STRETCHES_MAX, &answer->next);
    }
    free(op->watch);
    op->watch = NULL;
}

static void range_part_done(struct range_op *op, int status)
{
    struct file *file = op->file;

    if (status != 0 && op->status == 0) {
        op->status = status;
    }
    CHECK(op->waiting > 0);
    if (--op->waiting > 0) {
        return;
    }
    free(op->calls);
    if (op->watch != NULL) {
        watch_answer(op);
    }
    if (op->changes) {
        file_forget(file, 0,
                    UINT64_MAX); /* What was fetched meanwhile may be older than the change. */
    }
    op->done(op, op->status);
    file_unpin(file);
}

static int range_send(struct range_op *op, uint32_t column);

/* A server that stood still says that it came too late: nobody has carried it out. It goes out again, once,
 * when the lease period in which it was begun has gone on. */
static bool range_send_again(struct range_op *op, uint32_t column)
{
    const struct client *client = op->file->client;

    if ((op->again >> column & 1) != 0 || !client_lease_valid(client) ||
        lease_epoch(client) != op->lease_epoch) {
        return false;
    }
    op->again |= (uint64_t)1 << column;
    return range_send(op, column) == 0;
}

static void on_range(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct range_op *op = call->data;

    if (status == MORSEL_TOO_LATE && range_send_again(op, call->column)) {
        return;
    }
    if (status != 0) {
        log_error(op->file->client->options.log, "inode %lu: server at %s: %s",
                  (unsigned long)op->file->inode, column_address(call), column_why(status, reply));
    }
    if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
        op->unanswered |= (uint64_t)1 << call->column;
    }
    range_part_done(op, status);
}

/* What of the column's object the range is. */
static uint64_t object_from(const struct range_op *op, uint32_t column)
{
    return stripe_object_size(file_stripe(op->file), column, op->offset);
}

static uint64_t object_to(const struct range_op *op, uint32_t column)
{
    return op->kind == RANGE_TRUNCATE
               ? object_from(op, column)
               : stripe_object_size(file_stripe(op->file), column, op->offset + op->length);
}

static int range_send(struct range_op *op, uint32_t column)
{
    struct column_call *call = &op->calls[column];
    uint64_t from = object_from(op, column), to = object_to(op, column);
    Morsel__TruncateRequest truncate = MORSEL__TRUNCATE_REQUEST__INIT;
    Morsel__PunchRequest punch = MORSEL__PUNCH_REQUEST__INIT;
    Morsel__AllocateRequest allocate = MORSEL__ALLOCATE_REQUEST__INIT;
    Morsel__ObjectId object = column_object(&op->file->columns, column);
    const ProtobufCMessage *request = &truncate.base;
    enum message_type type = MSG_TRUNCATE;

    truncate.object = punch.object = allocate.object = &object;
    truncate.size = from;
    punch.offset = allocate.offset = from;
    punch.length = allocate.length = to - from;
    if (op->kind == RANGE_PUNCH) {
        request = &punch.base;
        type = MSG_PUNCH;
    } else if (op->kind == RANGE_ALLOCATE) {
        request = &allocate.base;
        type = MSG_ALLOCATE;
    }
    /* Whoever truncates a shared file has it for itself for so long. */
    call->exclusive = op->kind == RANGE_TRUNCATE || !file_is_shared(op->file);
    return column_start(call, COLUMN_CHANGE, type, request, NULL, on_range);
}

static int range_init(struct range_op *op, struct file *file,
                      void (*done)(struct range_op *op, int status))
{
    op->file = file;
    op->status = 0;
    op->done = done;
    op->waiting = 1;
    op->unanswered = 0;
    op->changes = false;
    op->watch = NULL;
    op->lease = client_lease_since(file->client, file->inode);
    op->place = file_place(file);
    op->calls_count = file_is_scavenged(file) ? 0 : file_stripe(file)->width;
    op->calls = calloc(op->calls_count + 1, sizeof(op->calls[0]));
    if (op->calls == NULL) {
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; i < op->calls_count; i++) {
        op->calls[i].columns = &file->columns;
        op->calls[i].column = i;
        op->calls[i].data = op;
    }
    file_pin(file);
    return MORSEL_OK;
}

/* Of a scavenged file nothing is truncated but the manager's map. */
static void on_held(struct set_hold *hold, int status)
{
    range_part_done(CONTAINER_OF(hold, struct range_op, hold), status);
}

static void hold_reports(struct range_op *op)
{
    op->waiting++;
    if (scavenged_hold(op->file, &op->hold, on_held) == 0) {
        range_part_done(op, 0);
    }
}

int range_start(struct range_op *op, struct file *file, enum range_kind kind, uint64_t offset,
                uint64_t length, void (*done)(struct range_op *op, int status))
{
    int rv = file_is_scavenged(file) ? scavenged_may_range(file, kind) : MORSEL_OK;

    if (rv == 0) {
        rv = range_init(op, file, done);
    }
    if (rv != 0) {
        return rv;
    }
    op->changes = true;
    op->kind = kind;
    op->offset = offset;
    op->length = length;
    op->lease_epoch = lease_epoch(file->client);
    op->again = 0;
    file_forget(file, 0, UINT64_MAX);
    if (file_is_scavenged(file)) {
        hold_reports(op);
    }
    for (uint32_t i = 0; i < op->calls_count; i++) {
        if (kind != RANGE_TRUNCATE && object_from(op, i) == object_to(op, i)) {
            continue;
        }
        op->waiting++;
        rv = range_send(op, i);
        if (rv != 0) {
            range_part_done(op, rv);
        }
    }
    range_part_done(op, 0);
    return MORSEL_OK;
}

void range_cancel(struct range_op *op)
{
    if (op->hold.set != NULL) {
        set_hold_cancel(&op->hold);
        return;
    }
    for (uint32_t i = 0; op->waiting > 0 && i < op->calls_count; i++) {
        column_cancel(&op->calls[i]);
    }
}

bool range_is_sure(const struct range_op *op)
{
    return op->lease != 0 && op->lease == client_lease_since(op->file->client, op->file->inode);
}

bool range_has_moved(const struct range_op *op)
{
    return op->place != file_place(op->file);
}

static void on_sought(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct range_op *op = call->data;
    Morsel__SeekReply *message = NULL;
    struct rpc_room room;
    uint64_t at;

    if (status == 0) {
        status = rpc_unpack_in(&room, &morsel__seek_reply__descriptor, reply->body,
                               reply->body_count, (void **)&message);
    }
    if (message != NULL && message->found) {
        at = stripe_file_offset(file_stripe(op->file), call->column, message->offset);
        if (at < op->from) {
            at = op->from;
        }
        if (!op->found || at < op->best) {
            op->best = at;
        }
        op->found = true;
    }
    if (message != NULL) {
        rpc_room_free(&room, message);
    }
    range_part_done(op, status);
}

int range_seek_start(struct range_op *op, struct file *file, uint64_t offset, bool hole,
                     void (*done)(struct range_op *op, int status))
{
    int rv = range_init(op, file, done);

    if (rv != 0) {
        return rv;
    }
    op->hole = hole;
    op->found = file_is_scavenged(file) && !hole; /* All of it counts as data. */
    op->best = op->from = offset;
    for (uint32_t i = 0; i < op->calls_count; i++) {
        Morsel__SeekRequest request = MORSEL__SEEK_REQUEST__INIT;
        Morsel__ObjectId object = column_object(&file->columns, i);

        request.object = &object;
        request.offset = stripe_object_size(file_stripe(file), i, offset);
        request.hole = hole;
        op->waiting++;
        rv = column_start(&op->calls[i], COLUMN_READ_PRIMARY, MSG_SEEK, &request.base, NULL,
                          on_sought);
        if (rv != 0) {
            range_part_done(op, rv);
        }
    }
    range_part_done(op, 0);
    return MORSEL_OK;
}

static void on_object_stat(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct range_op *op = call->data;
    Morsel__ObjectStatReply *message = NULL;
    struct rpc_room room;

    if (status == 0) {
        status = rpc_unpack_in(&room, &morsel__object_stat_reply__descriptor, reply->body,
                               reply->body_count, (void **)&message);
    }
    if (message != NULL) {
        op->blocks += message->blocks;
        rpc_room_free(&room, message);
    }
    range_part_done(op, status);
}

int range_blocks_start(struct range_op *op, struct file *file,
                       void (*done)(struct range_op *op, int status))
{
    int rv = range_init(op, file, done);

    if (rv != 0) {
        return rv;
    }
    op->blocks = file_is_scavenged(file) ? (file_size(file) + 511) / 512 : 0;
    for (uint32_t i = 0; i < op->calls_count; i++) {
        Morsel__ObjectStatRequest request = MORSEL__OBJECT_STAT_REQUEST__INIT;
        Morsel__ObjectId object = column_object(&file->columns, i);

        request.object = &object;
        op->waiting++;
        rv = column_start(&op->calls[i], COLUMN_READ_PRIMARY, MSG_OBJECT_STAT, &request.base, NULL,
                          on_object_stat);
        if (rv != 0) {
            range_part_done(op, rv);
        }
    }
    range_part_done(op, 0);
    return MORSEL_OK;
}

/* ---- What was changed ---- */

static int watch_take(struct changed_column *column, uint64_t from, const Morsel__WatchReply *reply)
{
    if (reply->n_starts > WATCH_REPLY_MAX || reply->n_starts != reply->n_ends) {
        return MORSEL_MALFORMED;
    }
    column->count = (uint32_t)reply->n_starts;
    column->next = reply->next;
    for (uint32_t i = 0; i < column->count; i++) {
        column->stretches[i] = (struct exchange_stretch){ reply->starts[i], reply->ends[i] };
    }
    return changed_column_valid(column, from) ? MORSEL_OK : MORSEL_MALFORMED;
}

static void on_watched(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct range_op *op = call->data;
    uint64_t from = stripe_object_size(file_stripe(op->file), call->column, op->from);
    Morsel__WatchReply *message = NULL;
    struct rpc_room room;

    if (status == 0) {
        status = rpc_unpack_in(&room, &morsel__watch_reply__descriptor, reply->body,
                               reply->body_count, (void **)&message);
    }
    if (message != NULL) {
        status = watch_take(&op->watch->columns[call->column], from, message);
        rpc_room_free(&room, message);
    }
    range_part_done(op, status == MORSEL_UNKNOWN_TYPE ? MORSEL_NOTSUP : status);
}

static int watch_send(struct range_op *op, uint32_t column)
{
    Morsel__WatchRequest request = MORSEL__WATCH_REQUEST__INIT;
    Morsel__ObjectId object = column_object(&op->file->columns, column);

    request.object = &object;
    request.begin = op->watch->answer->begin;
    request.since = op->watch->answer->since;
    request.offset = stripe_object_size(file_stripe(op->file), column, op->from);
    return column_start(&op->calls[column], COLUMN_READ_PRIMARY, MSG_WATCH, &request.base, NULL,
                        on_watched);
}

int range_watch_start(struct range_op *op, struct file *file, struct exchange_watch *watch,
                      void (*done)(struct range_op *op, int status))
{
    int rv = file_is_scavenged(file) ? MORSEL_NOTSUP : range_init(op, file, done);

    if (rv != 0) {
        return rv;
    }
    op->watch = calloc(1, sizeof(*op->watch) + op->calls_count * sizeof(op->watch->columns[0]));
    if (op->watch == NULL) {
        range_part_done(op, MORSEL_NOMEM);
        return MORSEL_OK;
    }
    op->watch->answer = watch;
    op->from = watch->from;
    for (uint32_t i = 0; i < op->calls_count; i++) {
        op->waiting++;
        rv = watch_send(op, i);
        if (rv != 0) {
            range_part_done(op, rv);
        }
    }
    range_part_done(op, 0);
    return MORSEL_OK;
}
