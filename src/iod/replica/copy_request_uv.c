/* What clients ask of a copy, and what is deleted of it. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "iod/replica/copy_inner_uv.h"

#include <stdlib.h>
#include <string.h>

/* ---- Requests ---- */

/* The stretch as the core wants it: not empty, and within what an object can have. */
static struct span span_of(const struct object_reach *reach)
{
    struct span span = { reach->start, reach->end };

    span.start = span.start < OBJECT_BYTES_MAX ? span.start : OBJECT_BYTES_MAX - 1;
    span.end = span.end < OBJECT_BYTES_MAX ? span.end : OBJECT_BYTES_MAX;
    span.end = span.end > span.start ? span.end : span.start + 1;
    return span;
}

/* Until when it may be carried out, on our clock. */
static uint64_t not_after_ms(const struct rpc_request *request)
{
    uint64_t now_ms = rpc_boot_ms();
    int32_t left_ms = (int32_t)(request->not_after - (uint32_t)now_ms);

    if (request->not_after == 0) {
        return now_ms + COPY_VALID_MS;
    }
    return left_ms >= 0 || now_ms > (uint64_t) - (int64_t)left_ms ? now_ms + (uint64_t)left_ms : 0;
}

/* What one member could carry out and another one not is refused before it has its place in the order:
 * copies stay equal. */
static int check_change(const struct job *job, const struct object_reach *reach, struct errmsg *err)
{
    uint32_t crcs[JOB_CRCS_MAX];
    size_t count;

    if (reach->start >= reach->end || reach->end > OBJECT_BYTES_MAX) {
        errmsg_set(err, "the object would pass its longest length");
        return MORSEL_FBIG;
    }
    if (job->change.number == 0 || job->change.ended >= job->change.number) {
        errmsg_set(err, "a change of an object that has copies needs a number of its own");
        return MORSEL_MALFORMED;
    }
    if (job->payload == NULL) {
        return MORSEL_OK;
    }
    count = crc32c_pieces(reach->start, job->payload->count);
    crc32c_of_pieces(reach->start, job->payload->data, job->payload->count, crcs);
    if (memcmp(crcs, job->crcs, count * sizeof(crcs[0])) != 0) {
        errmsg_set(err, "the bytes do not match their checksums");
        return MORSEL_CHECKSUM;
    }
    return MORSEL_OK;
}

/* What changes nothing. */
static enum order_verdict ask_core(struct copy *copy, struct ticket *t,
                                   const struct object_reach *reach)
{
    return t->handler->use == OBJECT_USE_SYNC
               ? replica_sync(copy->replica, reach->object, token_of(t))
               : replica_read(copy->replica, reach->object, span_of(reach), token_of(t));
}

struct span copy_reads(const struct object_reach *reach)
{
    return (struct span){ reach->source_start, reach->source_end != 0 ? OBJECT_BYTES_MAX : 0 };
}

/* Bytes that it writes. */
static uint64_t bytes_written(const struct job *job, const struct object_reach *reach)
{
    return job->payload != NULL ? job->payload->count : reach->source_end - reach->source_start;
}

bool copy_is_bare(const struct job *job, const struct object_reach *reach)
{
    return bytes_written(job, reach) == 0;
}

/* Who knows no verifier yet has no bytes here that could be lost. */
static struct order_change change_of(const struct copy *copy, const struct job *job,
                                     const struct object_reach *reach)
{
    uint64_t verifier = job->change.verifier;

    return (struct order_change){ .op = { job->request->node_id, job->change.number },
                                  .ended = job->change.ended,
                                  .object = reach->object,
                                  .generation = 1,
                                  .span = span_of(reach),
                                  .source = reach->source,
                                  .reads = copy_reads(reach),
                                  .bare = copy_is_bare(job, reach),
                                  .not_after_ms = not_after_ms(job->request),
                                  .verifier =
                                      verifier != 0 ? verifier : copy->replica->order.verifier };
}

/* Bytes that a change may need of the disks. */
static uint64_t bytes_needed(const struct job *job, const struct object_reach *reach)
{
    return job->payload != NULL ? job->payload->count : reach->length;
}

/* A disk that is full is seen before the change has its place in the order: behind that, a member that
 * cannot carry it out is left behind by the others. */
static int check_room(struct copy *copy, struct job *job, const struct object_reach *reach)
{
    uint64_t bytes = bytes_needed(job, reach);

    switch (bytes == 0 ? ROOM_YES : copy->setup.hooks->has_room(copy->setup.data, copy, bytes)) {
    case ROOM_YES:
        return MORSEL_OK;
    case ROOM_PERHAPS:
        errmsg_set(&job->err, "the disk of a server of group %u is nearly full, and looked at",
                   copy->setup.number);
        return MORSEL_OVERLOAD;
    case ROOM_NO:
        break;
    }
    errmsg_set(&job->err, "the disk of a server of group %u is full", copy->setup.number);
    return MORSEL_NOSPC;
}

/* A late copy of what was carried out before the memory was lost? The verifier tells, where the client knew one; else it
 * waits until no such copy is valid. */
static bool may_be_known(const struct copy *copy, const struct job *job)
{
    return job->change.verifier == 0 && copy_now_ms() < copy->forgot_until_ms;
}

/* What is refused here leaves no trace. */
static int admit(struct copy *copy, struct job *job, const struct object_handler *handler,
                 struct object_reach *reach)
{
    int rv;

    if (copy_trouble(copy) != NULL || copy->ending) {
        errmsg_set(&job->err, "this copy of group %u is closed", copy->setup.number);
        return MORSEL_NOT_HERE;
    }
    if (handler->use == OBJECT_USE_NONE || handler->use == OBJECT_USE_DELETE) {
        errmsg_set(&job->err, "this is not done of objects that have copies on several servers");
        return MORSEL_NOTSUP;
    }
    rv = handler->check(job);
    if (rv != MORSEL_OK) {
        return rv;
    }
    handler->reach(job, reach);
    if (handler->use == OBJECT_USE_CHANGE) {
        if (job->request->role != ROLE_CLIENT || job->request->node_id == 0) {
            errmsg_set(&job->err, "only a client changes objects that have copies");
            return MORSEL_PERM;
        }
        if (may_be_known(copy, job)) {
            errmsg_set(&job->err, "group %u does not know what was done before its start",
                       copy->setup.number);
            return MORSEL_NOT_HERE;
        }
        rv = check_change(job, reach, &job->err);
        return rv != MORSEL_OK ? rv : check_room(copy, job, reach);
    }
    return MORSEL_OK;
}

static void refuse(struct ticket *t, enum order_verdict verdict)
{
    if (verdict == ORDER_FULL) {
        ticket_refuse(t, MORSEL_OVERLOAD, "too much is under way in this group");
    } else {
        ticket_refuse(t, MORSEL_NOT_HERE, NULL);
    }
    ticket_drop(t);
}

/* In which round it may be read from this copy although another member orders: by who knows that nobody
 * changes what it reads. 0: it may not. */
static uint64_t beside_round(const struct copy *copy, const struct job *job,
                             const struct object_handler *handler)
{
    return handler == &OBJECT_READ && ((const Morsel__ReadRequest *)job->message)->settled &&
                   !order_orders(&copy->replica->order)
               ? replica_serves(copy->replica, copy_now_ms())
               : 0;
}

/* Nothing of the order is held meanwhile. */
static void read_beside(struct copy *copy, struct ticket *t, uint64_t round)
{
    const struct replica_action action = { .token = token_of(t), .round = round };

    copy->setup.server->reads_beside++;
    copy_serve(copy, &action);
    ticket_drop(t);
}

static void ask(struct ticket *t, enum order_verdict verdict)
{
    if (verdict != ORDER_YES) {
        refuse(t, verdict);
    }
}

void copy_ordered(struct copy *copy, struct ticket *t)
{
    bool open = copy_trouble(copy) == NULL && !copy->ending;

    ask(t, open ? replica_change(copy->replica, &t->change, token_of(t)) : ORDER_NO);
}

void copy_request(struct copy *copy, struct job *job, const struct object_handler *handler)
{
    struct object_reach reach;
    struct ticket *t = NULL;
    uint64_t round;

    job->status = admit(copy, job, handler, &reach);
    if (job->status == MORSEL_OK && (t = ticket_new(copy, handler)) == NULL) {
        job->status = MORSEL_NOMEM;
    }
    if (t == NULL) {
        object_done(job, handler);
        return;
    }
    if (handler->use == OBJECT_USE_CHANGE) {
        t->change = change_of(copy, job, &reach);
    }
    t->job = job;
    t->request = job->request;
    t->type = t->request->type;
    t->body = t->request->body;
    t->body_count = t->request->body_count;
    job->request = NULL;
    job->data = t;
    job->deadline_ms = UINT64_MAX; /* What is in the order comes to its end. */
    round = beside_round(copy, job, handler);
    if (round != 0) {
        read_beside(copy, t, round);
        copy_drain(copy);
        return;
    }
    if (handler->use != OBJECT_USE_CHANGE) {
        ask(t, ask_core(copy, t, &reach));
    } else if (copy_may_write(copy, t, bytes_written(job, &reach))) {
        copy_ordered(copy, t);
    }
    copy_drain(copy);
}

/* ---- Answers ---- */

static void deletion_go_on(struct copy *copy);

void copy_end_deletion(struct copy *copy)
{
    struct copy_deletion *d = copy->deletion;

    CHECK(d != NULL);
    copy->deletion = NULL;
    d->done(d->data, d->gone);
    free(d);
}

void copy_answer(struct copy *copy, const struct replica_action *a)
{
    struct ticket *t = ticket_of(a->token);
    struct rpc_request *request = t->request;
    Morsel__Done reply = MORSEL__DONE__INIT;

    if (t->deletion) {
        t->deletion = false;
        if (a->answer.status == MORSEL_OK) {
            copy->deletion->at = ++copy->deletion->gone;
            deletion_go_on(copy);
        } else {
            copy_end_deletion(copy);
        }
        return;
    }
    if (a->answer.status == MORSEL_AGAIN) {
        ticket_refuse(t, MORSEL_NOT_HERE, NULL);
    } else if (a->answer.status != MORSEL_OK) {
        ticket_refuse(t, a->answer.status, NULL);
    } else if (request != NULL) {
        t->request = NULL;
        reply.verifier = a->answer.verifier;
        rpc_reply(request, &reply.base, NULL);
    }
}

/* ---- Deletions ---- */

/* The request that a client would send. NULL: out of memory. */
static struct ticket *deletion_ticket(struct copy *copy, struct object_id id)
{
    Morsel__DeleteRequest request = MORSEL__DELETE_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT, *objects = &object;
    struct ticket *t = ticket_new(copy, &OBJECT_DELETE);

    if (t == NULL) {
        return NULL;
    }
    object.inode = id.inode;
    object.column = id.column;
    request.n_objects = 1;
    request.objects = &objects;
    t->type = MSG_DELETE;
    t->body_count = protobuf_c_message_get_packed_size(&request.base);
    t->own = malloc(t->body_count);
    t->body = t->own;
    t->job = job_new(&copy->setup.server->jobs, copy->setup.server);
    if (t->own != NULL && t->job != NULL) {
        (void)protobuf_c_message_pack(&request.base, t->own);
        t->job->data = t;
        t->job->message =
            protobuf_c_message_unpack(OBJECT_DELETE.descriptor, NULL, t->body_count, t->own);
    }
    if (t->job == NULL || t->job->message == NULL) {
        ticket_drop(t);
        return NULL;
    }
    return t;
}

/* The core takes it. */
static bool deletion_order(struct copy *copy, struct object_id id)
{
    struct ticket *t = order_orders(&copy->replica->order) ? deletion_ticket(copy, id) : NULL;

    if (t == NULL) {
        return false;
    }
    t->change = (struct order_change){ .op = { copy->own_client, copy->own_number + 1 },
                                       .ended = copy->own_number,
                                       .object = id,
                                       .generation = 1,
                                       .span = { 0, OBJECT_BYTES_MAX },
                                       .bare = true,
                                       .not_after_ms = copy_now_ms() + COPY_VALID_MS,
                                       .verifier = copy->replica->order.verifier };
    if (replica_change(copy->replica, &t->change, token_of(t)) != ORDER_YES) {
        ticket_drop(t);
        return false;
    }
    t->deletion = true;
    copy->own_number++;
    return true;
}

/* In the pool: which of the others are not here? They go to the front. */
static void run_look(struct job *job)
{
    struct copy_deletion *d = job->data;
    struct store *store = object_store_of(job);

    for (; d->at < d->count; d->at++) {
        struct store_stat stat;
        struct errmsg err;

        if (store_stat(store, d->ids[d->at], &stat, &err) == MORSEL_OK && !stat.exists) {
            struct object_id gone = d->ids[d->at];

            d->ids[d->at] = d->ids[d->gone];
            d->ids[d->gone++] = gone;
        }
    }
}

/* In the round in which it takes part, with the leases to read for others; 0: it does not. */
static uint64_t round_served(const struct copy *copy)
{
    const struct group *g = &copy->replica->group;

    return copy_trouble(copy) == NULL && group_serves(g, copy_now_ms()) ? g->joined : 0;
}

/* Who is outside may not have an object because it missed how that came to be, and be given it later. */
static void on_looked(struct job *job)
{
    struct copy_deletion *d = job->data;
    struct copy *copy = d->copy;

    if (round_served(copy) != d->round) {
        d->gone = d->ordered;
    }
    job_free(job);
    copy_end_deletion(copy);
    copy_worked(copy);
}

/* Who does not order waits until the one who does has deleted them; here it only looks. */
static void deletion_look(struct copy *copy)
{
    struct copy_deletion *d = copy->deletion;
    struct job *job = NULL;

    d->ordered = d->gone;
    d->round = round_served(copy);
    if (d->round != 0) {
        job = job_new(&copy->setup.server->jobs, copy->setup.server);
    }
    if (job != NULL) {
        job->data = d;
        copy->working++;
        if (job_start(job, run_look, on_looked, true) == MORSEL_OK) {
            return;
        }
        copy->working--;
        job_free(job);
    }
    copy_end_deletion(copy);
}

static void deletion_go_on(struct copy *copy)
{
    struct copy_deletion *d = copy->deletion;

    if (d->at == d->count) {
        copy_end_deletion(copy);
    } else if (copy_trouble(copy) != NULL || !deletion_order(copy, d->ids[d->at])) {
        deletion_look(copy);
    }
}

void copy_delete(struct copy *copy, struct object_id *ids, size_t count,
                 void (*done)(void *data, size_t gone), void *data)
{
    struct copy_deletion *d = copy->deletion != NULL ? NULL : calloc(1, sizeof(*d));

    if (d == NULL || copy->ending) {
        free(d);
        done(data, 0);
        return;
    }
    *d = (struct copy_deletion){ .copy = copy, .ids = ids, .count = count, .done = done };
    d->data = data;
    copy->deletion = d;
    deletion_go_on(copy);
    copy_drain(copy);
}
