/* Damaged blocks: looked for behind a job that met one, asked of another member, put in place; and lent to
 * others. One ticket at a time: behind each repair the job that found the damage is tried again. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "iod/replica/copy_inner_uv.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    MENDS_MAX =
        8, /* Of the same blocks for one ticket: a disk that goes on giving wrong bytes is left alone. */
    LOOK_PARTS_MAX = 3,
    SAY_AGAIN_MS = 30000 /* Between two lines about the same blocks that nobody has. */
};

static void mend_next(struct copy *copy);

static server_id server_of(const struct copy *copy, uint32_t member)
{
    return copy->setup.servers[member];
}

/* ---- Which blocks ---- */

struct copy_look
{
    struct copy *copy;
    struct
    {
        struct object_id object;
        struct span span;
    } parts[LOOK_PARTS_MAX]; /* What the job needs to be good. */
    size_t count;
    struct object_id object; /* Of what was found. */
    struct store_damage found;
};

static void run_look(struct job *job)
{
    struct copy_look *l = job->data;

    for (size_t i = 0; i < l->count && job->status == MORSEL_OK && l->found.blocks == 0; i++) {
        struct span s = l->parts[i].span;

        l->object = l->parts[i].object;
        if (s.start < s.end) {
            job->status = store_find_damage(object_store_of(job), l->object, s.start,
                                            s.end - s.start, &l->found, &job->err);
        }
    }
}

static void add_part(struct copy_look *l, struct object_id object, uint64_t start, uint64_t end)
{
    CHECK(l->count < LOOK_PARTS_MAX);
    l->parts[l->count].object = object;
    l->parts[l->count++].span = (struct span){ start, end };
}

static void add_byte(struct copy_look *l, struct object_id object, uint64_t at)
{
    add_part(l, object, at, at + 1);
}

/* All that a read touches, and that a copy takes; of a change the blocks of which it changes a part: those at
 * its ends. */
static void fill_parts(const struct ticket *t, const struct job *job, struct copy_look *l)
{
    struct object_reach reach;

    if (t->handler == NULL) { /* A comparison's. */
        add_part(l, t->change.object, t->change.span.start, t->change.span.end);
        return;
    }
    t->handler->reach(job, &reach);
    if (t->handler->use == OBJECT_USE_READ) {
        add_part(l, reach.object, reach.start, reach.end);
    } else if (t->handler == &OBJECT_TRUNCATE) {
        add_byte(l, reach.object, ((const Morsel__TruncateRequest *)job->message)->size);
    } else {
        add_part(l, reach.source, reach.source_start, reach.source_end);
        add_byte(l, reach.object, reach.start);
        add_byte(l, reach.object, reach.end - 1);
    }
}

/* ---- Whose turn it is ---- */

static bool is_over(const struct copy *copy)
{
    return copy->ending || copy_trouble(copy) != NULL;
}

static void end_turn(struct copy *copy, enum mend_end end)
{
    struct ticket *t = copy->mending;
    struct job *job = t->failed;

    copy->mending = NULL;
    t->found = copy->look != NULL ? copy->look->found : (struct store_damage){ .blocks = 0 };
    free(copy->look);
    copy->look = NULL;
    t->failed = NULL;
    t->mended(t, job, end);
}

static void turn_over(struct copy *copy, enum mend_end end)
{
    copy->working++;
    end_turn(copy, end);
    mend_next(copy);
    copy_drain(copy);
    copy_worked(copy);
}

/* What is wrong with the blocks. */
static const char *words_of(const struct store_damage *d)
{
    return d->unreadable == 0 ? "do not match their checksums"
           : d->unreadable == d->blocks
               ? "cannot be read from the disk"
               : "cannot be read from the disk or do not match their checksums";
}

static void say_lost(struct copy *copy, const struct copy_look *l)
{
    struct mend_said *said = &copy->said;
    uint64_t now_ms = copy_now_ms();
    bool same = said->object.inode == l->object.inode && said->object.column == l->object.column &&
                said->start == l->found.start;

    if (copy->mending->quiet) {
        return;
    }
    copy->setup.server->blocks_lost += l->found.blocks;
    if (same && now_ms < said->when_ms + SAY_AGAIN_MS) {
        return;
    }
    *said = (struct mend_said){ l->object, l->found.start, now_ms };
    log_error(copy->setup.server->log,
              "object %" PRIu64 ".%u: blocks %" PRIu64 " to %" PRIu64
              " %s on server %u, and no other server of group %u that "
              "takes part has them: check the disks, and restore the file from elsewhere",
              l->object.inode, l->object.column, l->found.start / BLOCK_BYTES,
              l->found.end / BLOCK_BYTES - 1, words_of(&l->found), server_of(copy, copy->setup.me),
              copy->setup.number);
}

static void ask_others(struct copy *copy)
{
    const struct copy_look *l = copy->look;
    struct span span = { l->found.start, l->found.end };

    if (span.end - span.start > FRAME_PAYLOAD_BYTES_MAX) {
        span.end = span.start + FRAME_PAYLOAD_BYTES_MAX;
    }
    switch (replica_repair(copy->replica, l->object, span)) {
    case REPAIR_BEGUN:
        copy_drain(copy);
        return;
    case REPAIR_LEFT:
        turn_over(copy, MEND_LEFT);
        return;
    case REPAIR_NOBODY:
        say_lost(copy, l);
        turn_over(copy, MEND_LOST);
        return;
    }
}

static bool goes_on(const struct job *job, const struct copy_look *l)
{
    struct ticket *t = l->copy->mending;

    if (l->found.blocks > 0 && l->found.start >= t->mended_to) {
        t->mended_to = l->found.end;
        t->mends = 0;
    }
    return job->status == MORSEL_OK && !is_over(l->copy) && t->mends++ < MENDS_MAX;
}

/* Nothing is found where another one's repair was of the same blocks. */
static void on_looked(struct job *job)
{
    struct copy_look *l = job->data;
    struct copy *copy = l->copy;
    bool tries = goes_on(job, l);

    copy->looking = false;
    job_free(job);
    if (!tries) {
        turn_over(copy, MEND_FAILED);
    } else if (l->found.blocks == 0) {
        turn_over(copy, MEND_AGAIN);
    } else {
        ask_others(copy);
    }
    copy_worked(copy);
}

static bool look(struct copy *copy)
{
    struct job *job = job_new(&copy->setup.server->jobs, copy->setup.server);

    copy->look = calloc(1, sizeof(*copy->look));
    if (job == NULL || copy->look == NULL) {
        if (job != NULL) {
            job_free(job);
        }
        return false;
    }
    copy->look->copy = copy;
    fill_parts(copy->mending, copy->mending->failed, copy->look);
    job->data = copy->look;
    copy->looking = true;
    copy->working++;
    if (job_start(job, run_look, on_looked, false) != MORSEL_OK) {
        copy->looking = false;
        copy->working--;
        job_free(job);
        return false;
    }
    return true;
}

static void mend_next(struct copy *copy)
{
    struct list *node = copy->mending != NULL ? NULL : list_pop_front(&copy->damaged);

    if (node != NULL) {
        copy->mending = LIST_ENTRY(node, struct ticket, damaged);
        if (!look(copy)) {
            turn_over(copy, MEND_FAILED);
        }
    }
}

bool copy_mend(struct ticket *t, struct job *job,
               void (*mended)(struct ticket *t, struct job *job, enum mend_end end))
{
    struct copy *copy = t->copy;

    if (is_over(copy)) {
        return false;
    }
    t->mended = mended;
    t->failed = job;
    list_push_back(&copy->damaged, &t->damaged);
    mend_next(copy);
    return true;
}

void copy_mend_stop(struct copy *copy)
{
    while (!copy->looking && (copy->mending != NULL || !list_empty(&copy->damaged))) {
        if (copy->mending == NULL) {
            copy->mending = LIST_ENTRY(list_pop_front(&copy->damaged), struct ticket, damaged);
        }
        end_turn(copy, MEND_FAILED);
    }
}

/* ---- Another member's bytes ---- */

struct mending
{
    struct copy *copy;
    uint64_t id;
    bool forced;
    uint64_t size;
    struct ticket *bytes; /* NULL: the length alone. */
    struct change stretch;
    uint32_t member;
    struct store_damage mended;
};

static void say_mended(const struct mending *m)
{
    const struct copy *copy = m->copy;
    const char *words = m->mended.unreadable == 0 ? "did not match their checksums on"
                        : m->mended.unreadable == m->mended.blocks
                            ? "could not be read from the disk of"
                            : "could not be read or did not match their checksums on";

    m->copy->mended += m->mended.blocks;
    copy->setup.server->blocks_mended += m->mended.blocks;
    log_error(copy->setup.server->log,
              "object %" PRIu64 ".%u: %" PRIu64 " of its blocks %" PRIu64 " to %" PRIu64
              " %s server %u, and were repaired from server %u: check the disk of server %u",
              m->stretch.object.inode, m->stretch.object.column, m->mended.blocks,
              m->mended.start / BLOCK_BYTES, m->mended.end / BLOCK_BYTES - 1, words,
              server_of(copy, copy->setup.me), server_of(copy, m->member),
              server_of(copy, copy->setup.me));
}

/* What is here is right, as far as its checksums say, and is to be what the other one has. */
static int force(struct store *store, const struct mending *m, struct errmsg *err)
{
    const struct store_gate gate = { .reserve_too = true };
    const struct job *bytes = m->bytes->job;
    struct span span = m->stretch.span;
    struct store_stat stat;
    uint64_t has = span.start + bytes->count;
    int rv = store_stat(store, m->stretch.object, &stat, err);

    if (rv == MORSEL_OK && bytes->count > 0) {
        rv = store_write(store, m->stretch.object, span.start, bytes->payload->data, bytes->count,
                         bytes->crcs, false, &gate, err);
    }
    span.end = span.end < stat.size ? span.end : stat.size;
    if (rv == MORSEL_OK && has < span.end) {
        rv = store_punch(store, m->stretch.object, has, span.end - has, NULL, err);
    }
    return rv;
}

static void run_mend(struct job *job)
{
    struct mending *m = job->data;
    const struct job *bytes = m->bytes != NULL ? m->bytes->job : NULL;
    struct span span = m->stretch.span;

    if (bytes == NULL) {
        job->status =
            store_truncate(object_store_of(job), m->stretch.object, m->size, NULL, &job->err);
        return;
    }
    if (m->bytes->offset != span.start || bytes->count > span.end - span.start) {
        job->status = MORSEL_MALFORMED;
        errmsg_set(&job->err, "another server sent other bytes than it was asked for");
        return;
    }
    if (m->forced) {
        job->status = force(object_store_of(job), m, &job->err);
        return;
    }
    job->status = store_mend(
        object_store_of(job), m->stretch.object, span.start, span.end - span.start,
        bytes->payload != NULL ? bytes->payload->data : NULL, bytes->count, &m->mended, &job->err);
}

static void on_mended(struct job *job)
{
    struct mending *m = job->data;
    struct copy *copy = m->copy;

    if (m->mended.blocks > 0) {
        say_mended(m);
    }
    copy_touch(copy, m->stretch.object);
    if (job->status != MORSEL_OK) {
        log_error(copy->setup.server->log, "group %u: repair damaged blocks: %s",
                  copy->setup.number, job->err.text);
    }
    if (!is_over(copy)) {
        replica_mended(copy->replica, m->id, job->status);
    }
    if (m->bytes != NULL) {
        ticket_drop(m->bytes);
    }
    free(m);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

void copy_put_blocks(struct copy *copy, const struct replica_action *a)
{
    struct mending *m = calloc(1, sizeof(*m));
    struct job *job = m == NULL ? NULL : job_new(&copy->setup.server->jobs, copy->setup.server);

    if (job == NULL) {
        free(m);
        if (a->token != 0) {
            ticket_drop(ticket_of(a->token));
        }
        replica_mended(copy->replica, a->id, MORSEL_NOMEM);
        return;
    }
    *m = (struct mending){ .copy = copy, .bytes = ticket_of(a->token), .stretch = a->piece };
    m->member = a->member;
    m->id = a->id;
    m->forced = a->forced;
    m->size = a->size;
    job->data = m;
    copy->working++;
    if (job_start(job, run_mend, on_mended, false) != MORSEL_OK) {
        job->status = MORSEL_SHUTDOWN;
        errmsg_set(&job->err, "this server is ending");
        on_mended(job);
    }
}

/* Nobody has all of it. Is there one who has its beginning? False: it is a single block. */
static bool take_less(struct store_damage *found)
{
    uint64_t less = found->blocks / 2;

    if (less == 0) {
        return false;
    }
    found->blocks = less;
    found->end = found->start + less * BLOCK_BYTES;
    return true;
}

void copy_repaired(struct copy *copy, const struct replica_action *a)
{
    CHECK(copy->mending != NULL && !copy->looking);
    if (a->answer.status == MORSEL_OK || a->answer.status == MORSEL_AGAIN) {
        turn_over(copy, MEND_AGAIN);
    } else if (a->answer.status != MORSEL_CHECKSUM) {
        turn_over(copy, MEND_FAILED);
    } else if (take_less(&copy->look->found)) {
        ask_others(copy);
    } else {
        say_lost(copy, copy->look);
        turn_over(copy, MEND_LOST);
    }
}

/* ---- Bytes for another member ---- */

struct lending
{
    struct copy *copy;
    struct replica_action action;
    struct ticket *bytes;
};

static void run_lend(struct job *job)
{
    struct lending *l = job->data;
    const struct change *c = &l->action.message.changes[0];
    struct job *bytes = l->bytes->job;

    l->bytes->exists = true;
    l->bytes->offset = c->span.start;
    job->status =
        store_read(object_store_of(job), c->object, c->span.start, bytes->payload->data,
                   (size_t)(c->span.end - c->span.start), &bytes->count, bytes->crcs, &job->err);
}

/* Only of damage it is said that there are no bytes: the same change must then fail here as well. */
static void on_lent(struct job *job)
{
    struct lending *l = job->data;
    struct copy *copy = l->copy;
    struct replica_message *m = &l->action.message;

    copy->lending &= (group_set) ~(1U << l->action.member);
    m->last = job->status == MORSEL_CHECKSUM;
    if ((job->status == MORSEL_OK || m->last) && !is_over(copy) &&
        replica_lends(copy->replica, m)) {
        copy_send(copy, &l->action, m->last ? NULL : l->bytes);
    } else if (job->status == MORSEL_IO || job->status == MORSEL_CORRUPT) {
        copy_fail(copy,
                  &job->err); /* Who asked has damage, too; that we have some must be certain. */
    }
    ticket_drop(l->bytes);
    free(l);
    job_free(job);
    copy_worked(copy);
}

struct ticket *copy_bytes_ticket(struct copy *copy, const struct span *span)
{
    struct object_server *server = copy->setup.server;
    struct ticket *t = ticket_new(copy, NULL);

    if (t == NULL) {
        return NULL;
    }
    t->job = job_new(&server->jobs, server);
    if (t->job != NULL) {
        t->job->payload = payload_new(rpc_payloads(server->rpc), (size_t)(span->end - span->start));
    }
    if (t->job == NULL || t->job->payload == NULL) {
        ticket_drop(t);
        return NULL;
    }
    return t;
}

/* Without memory, and while others are read for that member, nothing: it asks again. */
void copy_lend(struct copy *copy, const struct replica_action *a)
{
    struct object_server *server = copy->setup.server;
    const struct span *span = &a->message.changes[0].span;
    bool at_work = (copy->lending >> a->member & 1U) != 0;
    struct lending *l =
        at_work || span->end - span->start > FRAME_PAYLOAD_BYTES_MAX ? NULL : calloc(1, sizeof(*l));
    struct job *job = l == NULL ? NULL : job_new(&server->jobs, server);
    struct ticket *bytes = job == NULL ? NULL : copy_bytes_ticket(copy, span);

    if (bytes != NULL) {
        *l = (struct lending){ .copy = copy, .action = *a, .bytes = bytes };
        job->data = l;
        copy->working++;
        copy->lending |= (group_set)(1U << a->member);
        if (job_start(job, run_lend, on_lent, false) == MORSEL_OK) {
            return;
        }
        copy->working--;
        copy->lending &= (group_set) ~(1U << a->member);
        ticket_drop(bytes);
    }
    if (job != NULL) {
        job_free(job);
    }
    free(l);
}
