/* Members' messages: struct replica_message as it goes over the wire, and a client's request with it. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <stdlib.h>
#include <string.h>

/* Times go as what is left of them. */
static uint64_t left_ms(uint64_t until_ms)
{
    uint64_t now_ms = copy_now_ms();

    return until_ms == UINT64_MAX ? UINT64_MAX : until_ms > now_ms ? until_ms - now_ms : 0;
}

static uint64_t until_ms(uint64_t left_ms)
{
    uint64_t now_ms = copy_now_ms();

    return left_ms >= UINT64_MAX - now_ms ? UINT64_MAX : now_ms + left_ms;
}

/* ---- Out ---- */

struct outgoing
{
    Morsel__ReplicaMessage message;
    Morsel__ReplicaStretch stretches[REPLICA_PAGE_MAX], *stretch_pointers[REPLICA_PAGE_MAX];
    Morsel__ReplicaOperation operations[REPLICA_PAGE_MAX], *operation_pointers[REPLICA_PAGE_MAX];
};

static void put_stretches(struct outgoing *o, const struct change *changes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        Morsel__ReplicaStretch *s = &o->stretches[i];

        morsel__replica_stretch__init(s);
        s->inode = changes[i].object.inode;
        s->column = changes[i].object.column;
        s->generation = changes[i].generation;
        s->start = changes[i].span.start;
        s->end = changes[i].span.end;
        s->whole = changes[i].whole;
        s->everything = changes[i].everything;
        o->stretch_pointers[i] = s;
    }
    o->message.n_stretches = count;
    o->message.stretches = o->stretch_pointers;
}

static void put_operations(struct outgoing *o, const struct op_known *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        Morsel__ReplicaOperation *p = &o->operations[i];

        morsel__replica_operation__init(p);
        p->client = ops[i].op.client;
        p->number = ops[i].op.number;
        p->ended = ops[i].ended;
        p->until_ms = left_ms(ops[i].until_ms);
        p->status = ops[i].answer.status;
        p->verifier = ops[i].answer.verifier;
        o->operation_pointers[i] = p;
    }
    o->message.n_operations = count;
    o->message.operations = o->operation_pointers;
}

/* FORWARD: the change with the request as its client sent it. What a copy has in its hands here each member
 * gets for itself. */
static struct payload *put_forward(struct outgoing *o, const struct replica_message *m,
                                   const struct ticket *t)
{
    struct change stretch = { .object = m->change.object,
                              .generation = m->change.generation,
                              .span = m->change.span };

    put_stretches(o, &stretch, 1);
    o->message.client = m->change.op.client;
    o->message.op_number = m->change.op.number;
    o->message.ended = m->change.ended;
    o->message.left_ms = left_ms(m->change.not_after_ms);
    o->message.op_verifier = m->change.verifier;
    o->message.request = t->type;
    o->message.body.data = (uint8_t *)(uintptr_t)t->body;
    o->message.body.len = t->body_count;
    return t->handler->begin != NULL ? NULL : t->job->payload;
}

static size_t sums_bytes(uint64_t damage)
{
    return (size_t)((damage + BLOCK_BYTES - 1) / BLOCK_BYTES) * sizeof(uint32_t);
}

static struct payload *put_piece(struct outgoing *o, const struct ticket *piece)
{
    o->message.exists = piece->exists;
    o->message.size = piece->size;
    o->message.offset = piece->offset;
    o->message.damaged = piece->damage;
    if (piece->compares) {
        o->message.sums.data = (uint8_t *)piece->job->crcs;
        o->message.sums.len = sums_bytes(piece->damage);
    }
    if (piece->job->payload == NULL || piece->job->count == 0) {
        return NULL;
    }
    o->message.crcs.data = (uint8_t *)piece->job->crcs;
    o->message.crcs.len =
        crc32c_pieces(piece->offset, piece->job->count) * sizeof(piece->job->crcs[0]);
    piece->job->payload->count = piece->job->count;
    return piece->job->payload;
}

/* What is asked for, and what is there. */
static void put_look(struct outgoing *o, const struct replica_message *m)
{
    struct change changes[VERIFY_LIST_MAX];
    Morsel__ReplicaMessage *out = &o->message;

    out->look = m->step.type;
    out->inode = m->step.object.inode;
    out->column = m->step.object.column;
    out->member = m->step.source;
    out->last = m->type == REPLICA_LOOK ? m->step.hold : m->last;
    if (m->type == REPLICA_LOOK) {
        out->size = m->step.size;
        out->after = m->step.type == VERIFY_LIST ? m->step.after : m->step.span.start;
        out->upto = m->step.type == VERIFY_LIST ? m->step.after : m->step.span.end;
    } else if (m->step.type == VERIFY_LIST) {
        for (uint32_t i = 0; i < m->list.count; i++) {
            changes[i] = (struct change){ .object = m->list.items[i].object,
                                          .generation = m->list.items[i].place };
        }
        put_stretches(o, changes, m->list.count);
        out->upto = m->list.upto;
    } else if (m->step.type == VERIFY_LOOK) {
        out->exists = m->seen.exists;
        out->size = m->seen.size;
        out->offset = m->seen.next;
        out->mended = m->seen.mended;
        out->lost = m->seen.lost;
        out->crcs.data = (uint8_t *)(uintptr_t)m->seen.sums;
        out->crcs.len = sizeof(m->seen.sums);
    }
}

static void put_head(struct outgoing *o, const struct copy *copy, const struct replica_message *m)
{
    Morsel__ReplicaMessage *out = &o->message;

    morsel__replica_message__init(out);
    out->group = copy->setup.number;
    out->type = m->type;
    out->from = m->from;
    out->epoch = m->epoch;
    out->round = m->round;
    out->number = m->number;
    out->cut = m->cut;
    out->session = m->session;
    out->pass = m->pass;
    out->have = m->have;
    out->recovering = m->recovering;
    out->last = m->last;
    out->everything = m->everything;
    out->piece = m->piece;
    out->member = m->member;
    out->inode = m->object.inode;
    out->column = m->object.column;
    out->damaged = m->type == REPLICA_FETCH ? 2 : 0;
}

void copy_send(struct copy *copy, const struct replica_action *a, const struct ticket *piece)
{
    const struct replica_message *m = &a->message;
    struct payload *payload = NULL;
    struct outgoing o;

    put_head(&o, copy, m);
    if (m->type == REPLICA_FORWARD) {
        payload = put_forward(&o, m, ticket_of(a->token));
    } else if (m->type == REPLICA_PIECE && m->piece == PIECE_OPERATIONS) {
        put_operations(&o, m->ops, m->count);
    } else if (m->type == REPLICA_PIECE || m->type == REPLICA_FETCH || m->type == REPLICA_WANTED ||
               m->type == REPLICA_BLOCKS) {
        put_stretches(&o, m->changes, m->count);
        o.message.after = m->after;
        o.message.upto = m->upto;
        payload = piece != NULL ? put_piece(&o, piece) : NULL;
    } else if (m->type == REPLICA_LOOK || m->type == REPLICA_SEEN) {
        put_look(&o, m);
    }
    copy->setup.hooks->send(copy->setup.data, copy, a->member, &o.message, payload);
}

/* ---- In ---- */

static bool get_stretch(const struct copy *copy, const Morsel__ReplicaStretch *s,
                        struct change *change)
{
    bool of_us = placing_group(s->column) == copy->setup.number && s->inode != 0;

    *change = (struct change){ .everything = s->everything };
    if (s->everything) {
        return true;
    }
    change->object = (struct object_id){ s->inode, s->column };
    change->generation = s->generation;
    change->whole = s->whole;
    change->span = (struct span){ s->start, s->end };
    return of_us && s->generation != 0 && s->start <= s->end && s->end <= OBJECT_BYTES_MAX &&
           !(s->whole && s->end != 0);
}

static bool get_operation(const Morsel__ReplicaOperation *p, struct op_known *known)
{
    *known = (struct op_known){ .op = { p->client, p->number },
                                .ended = p->ended,
                                .until_ms = until_ms(p->until_ms),
                                .answer = { p->status, p->verifier } };
    return p->client != 0 && (p->number == 0 || p->ended < p->number);
}

static bool get_list(const struct copy *copy, const Morsel__ReplicaMessage *in,
                     struct verify_list *list)
{
    struct change change;

    list->count = 0;
    list->upto = in->upto;
    for (size_t i = 0; i < in->n_stretches; i++) {
        if (!get_stretch(copy, in->stretches[i], &change) || change.everything ||
            list->count == VERIFY_LIST_MAX) {
            return false;
        }
        list->items[list->count].object = change.object;
        list->items[list->count++].place = change.generation;
    }
    return true;
}

static bool get_look(const struct copy *copy, const Morsel__ReplicaMessage *in,
                     struct replica_message *m)
{
    m->step = (struct verify_step){ .type = in->look, .source = in->member, .size = in->size };
    m->step.object = m->object;
    m->step.hold = m->last;
    m->step.after = in->after;
    m->step.span = (struct span){ in->after, in->upto };
    if (in->look == VERIFY_NOTHING || in->look > VERIFY_TAKE) {
        return false;
    }
    if (in->look != VERIFY_LIST && placing_group(in->column) != copy->setup.number) {
        return false;
    }
    if (in->type == REPLICA_LOOK || in->look == VERIFY_TAKE) {
        return true;
    }
    if (in->look == VERIFY_LIST) {
        return get_list(copy, in, &m->list);
    }
    m->seen.exists = in->exists;
    m->seen.size = in->size;
    m->seen.next = in->offset;
    m->seen.mended = in->mended;
    m->seen.lost = in->lost;
    if (in->crcs.len != sizeof(m->seen.sums)) {
        return false;
    }
    memcpy(m->seen.sums, in->crcs.data, sizeof(m->seen.sums));
    return in->mended <= VERIFY_BLOCKS && in->lost <= VERIFY_BLOCKS && in->size <= OBJECT_BYTES_MAX;
}

/* Nothing about it is believed that our own members do not say. */
static bool get_message(const struct copy *copy, const Morsel__ReplicaMessage *in,
                        struct replica_message *m)
{
    *m = (struct replica_message){ .type = in->type,
                                   .from = in->from,
                                   .epoch = in->epoch,
                                   .round = in->round,
                                   .number = in->number,
                                   .cut = in->cut,
                                   .session = in->session,
                                   .pass = in->pass,
                                   .have = in->have,
                                   .recovering = in->recovering,
                                   .last = in->last,
                                   .everything = in->everything,
                                   .piece = in->piece,
                                   .member = in->member,
                                   .object = { in->inode, in->column },
                                   .after = in->after,
                                   .upto = in->upto };
    if (in->type > REPLICA_SEEN || in->piece > PIECE_LIST || in->after > in->upto ||
        in->n_stretches > REPLICA_PAGE_MAX || in->n_operations > REPLICA_PAGE_MAX) {
        return false;
    }
    if (in->type == REPLICA_SYNC && !in->everything &&
        (in->inode == 0 || placing_group(in->column) != copy->setup.number)) {
        return false;
    }
    if (in->type == REPLICA_LOOK || in->type == REPLICA_SEEN) {
        return get_look(copy, in, m);
    }
    if (in->type == REPLICA_PIECE && in->piece == PIECE_OPERATIONS) {
        for (size_t i = 0; i < in->n_operations; i++) {
            if (!get_operation(in->operations[i], &m->ops[i])) {
                return false;
            }
        }
        m->count = (uint32_t)in->n_operations;
        return true;
    }
    for (size_t i = 0; i < in->n_stretches; i++) {
        if (!get_stretch(copy, in->stretches[i], &m->changes[i])) {
            return false;
        }
    }
    m->count = (uint32_t)in->n_stretches;
    return true;
}

/* The forwarded request is checked as one of a client. */
static bool get_forward(const Morsel__ReplicaMessage *in, struct replica_message *m,
                        struct ticket *t, struct rpc_request *request)
{
    uint32_t crcs[JOB_CRCS_MAX];
    struct object_reach reach;
    struct change stretch = m->changes[0];

    if (m->count != 1 || stretch.whole || stretch.everything ||
        stretch.span.start >= stretch.span.end || in->client == 0 || in->op_number == 0 ||
        in->ended >= in->op_number) {
        return false;
    }
    t->job->request = request; /* For what the check takes from it. */
    t->job->status = t->handler->check(t->job);
    t->job->request = NULL;
    if (t->job->status != MORSEL_OK ||
        (t->handler->use == OBJECT_USE_DELETE &&
         ((const Morsel__DeleteRequest *)t->job->message)->n_objects != 1)) {
        return false;
    }
    t->handler->reach(t->job, &reach);
    if (reach.object.inode != stretch.object.inode ||
        reach.object.column != stretch.object.column || reach.start < stretch.span.start ||
        reach.end > stretch.span.end) {
        return false;
    }
    if (t->job->payload != NULL) {
        crc32c_of_pieces(reach.start, t->job->payload->data, t->job->payload->count, crcs);
        if (memcmp(crcs, t->job->crcs,
                   crc32c_pieces(reach.start, t->job->payload->count) * sizeof(crcs[0])) != 0) {
            return false;
        }
    }
    t->change = (struct order_change){ .op = { in->client, in->op_number },
                                       .ended = in->ended,
                                       .object = stretch.object,
                                       .generation = stretch.generation,
                                       .span = stretch.span,
                                       .source = reach.source,
                                       .reads = copy_reads(&reach),
                                       .bare = copy_is_bare(t->job, &reach),
                                       .not_after_ms = until_ms(in->left_ms),
                                       .verifier = in->op_verifier };
    m->change = t->change;
    return true;
}

/* The ticket of a message that brings bytes; NULL: it is not what our members send, or no memory. */
static struct ticket *take_forward(struct copy *copy, const Morsel__ReplicaMessage *in,
                                   struct replica_message *m, struct rpc_request *request)
{
    const struct object_handler *handler = object_handler_of(in->request);
    bool changes =
        handler != NULL && (handler->use == OBJECT_USE_CHANGE || handler->use == OBJECT_USE_DELETE);
    struct ticket *t = changes ? ticket_new(copy, handler) : NULL;

    if (t == NULL) {
        return NULL;
    }
    t->job = job_new(&copy->setup.server->jobs, copy->setup.server);
    if (t->job != NULL) {
        t->job->data = t;
        t->job->message =
            protobuf_c_message_unpack(handler->descriptor, NULL, in->body.len, in->body.data);
    }
    if (t->job == NULL || t->job->message == NULL || !get_forward(in, m, t, request)) {
        ticket_drop(t);
        return NULL;
    }
    return t;
}

/* Damage in place of bytes, with what it is to be, if who sends it says that. */
static bool fits_damage(const Morsel__ReplicaMessage *in, size_t count)
{
    return in->sums.len == 0 || (count == 0 && in->damaged != 0 && in->offset % BLOCK_BYTES == 0 &&
                                 in->sums.len == sums_bytes(in->damaged) &&
                                 in->sums.len <= sizeof(((struct job *)0)->crcs));
}

static struct ticket *take_piece(struct copy *copy, const Morsel__ReplicaMessage *in,
                                 struct rpc_request *request)
{
    size_t count = request->payload != NULL ? request->payload->count : 0;
    struct ticket *t;

    if (in->offset > OBJECT_BYTES_MAX || in->size > OBJECT_BYTES_MAX ||
        in->damaged > OBJECT_BYTES_MAX || (in->damaged != 0 && count != 0) ||
        count > FRAME_PAYLOAD_BYTES_MAX || !fits_damage(in, count) ||
        in->crcs.len != crc32c_pieces(in->offset, count) * sizeof(uint32_t) ||
        (t = ticket_new(copy, NULL)) == NULL) {
        return NULL;
    }
    t->job = job_new(&copy->setup.server->jobs, copy->setup.server);
    if (t->job == NULL) {
        ticket_drop(t);
        return NULL;
    }
    t->job->data = t;
    t->job->payload = request->payload;
    request->payload = NULL;
    t->job->count = count;
    if (count > 0) {
        crc32c_of_pieces(in->offset, t->job->payload->data, count, t->job->crcs);
    }
    if (in->crcs.len > 0 && memcmp(t->job->crcs, in->crcs.data, in->crcs.len) != 0) {
        ticket_drop(t);
        return NULL;
    }
    t->exists = in->exists;
    t->size = in->size;
    t->offset = in->offset;
    t->damage = in->damaged;
    t->compares = in->sums.len > 0;
    if (t->compares) {
        memcpy(t->job->crcs, in->sums.data, in->sums.len);
    }
    return t;
}

static bool brings_blocks(const struct replica_message *m)
{
    return (m->type == REPLICA_PIECE && m->piece == PIECE_BYTES) ||
           (m->type == REPLICA_BLOCKS && !m->last);
}

static void receive(struct copy *copy, uint32_t member, const Morsel__ReplicaMessage *in,
                    struct rpc_request *request)
{
    struct replica_message m;
    struct ticket *t = NULL;

    if (in->from != member || !get_message(copy, in, &m)) {
        return;
    }
    if (m.type == REPLICA_FETCH) {
        copy->knows_damage &= (group_set) ~(1U << member);
        copy->knows_damage |= (group_set)((in->damaged != 0) << member);
        copy->compares_damage &= (group_set) ~(1U << member);
        copy->compares_damage |= (group_set)((in->damaged >= 2) << member);
    }
    if (m.type == REPLICA_FORWARD) {
        t = take_forward(copy, in, &m, request);
    } else if (brings_blocks(&m)) {
        t = take_piece(copy, in, request);
    }
    if (t == NULL && (m.type == REPLICA_FORWARD || brings_blocks(&m))) {
        return; /* It is sent again. */
    }
    if (!replica_receive(copy->replica, &m, token_of(t), copy_now_ms()) && t != NULL) {
        ticket_drop(t);
    }
}

void copy_receive(struct copy *copy, uint32_t member, const Morsel__ReplicaMessage *m,
                  struct rpc_request *request)
{
    if (copy_trouble(copy) == NULL && !copy->ending) {
        receive(copy, member, m, request);
        copy_drain(copy);
    }
    rpc_reply(request, NULL, NULL);
}
