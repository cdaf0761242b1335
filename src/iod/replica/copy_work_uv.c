/* What a copy does in the pool: changes, reads, syncs, and its files. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <stdlib.h>
#include <string.h>

/* What could not be done leaves this copy behind the others. */
static void fail(struct copy *copy, const char *what, const struct errmsg *err)
{
    struct errmsg words;

    errmsg_set(&words, "%s: %s", what, err->text);
    copy_fail(copy, &words);
}

static bool is_over(const struct copy *copy)
{
    return copy->ending || copy_trouble(copy) != NULL;
}

/* ---- Objects that were changed since the last sync of everything ---- */

void copy_touch(struct copy *copy, struct object_id object)
{
    uint64_t key[2] = { object.inode, object.column };
    struct touched *t;

    HASH_FIND(hh, copy->touched, key, sizeof(key), t);
    if (t != NULL || copy->touched_all) {
        return;
    }
    t = HASH_COUNT(copy->touched) < COPY_TOUCHED_MAX ? calloc(1, sizeof(*t)) : NULL;
    if (t == NULL) {
        copy->touched_all = true;
        return;
    }
    memcpy(t->key, key, sizeof(key));
    HASH_ADD(hh, copy->touched, key, sizeof(t->key), t);
}

/* ---- Changes ---- */

/* Noted before the bytes as begun, and behind them as done (order.h). */
static int note(struct copy *copy, const struct order_change *change, bool done,
                struct op_answer answer, struct errmsg *err)
{
    struct copy_operation op = { .done = done, .boot = copy->boot };

    op.known.op = change->op;
    op.known.ended = change->ended;
    op.known.until_ms = change->not_after_ms;
    op.known.answer = answer;
    return copy_file_operation(copy->file, &op, err);
}

static int note_begun(struct copy *copy, const struct order_change *change, struct errmsg *err)
{
    struct op_answer none = { MORSEL_UNSURE, copy->replica->order.verifier };

    return note(copy, change, false, none, err);
}

/* With the answer that the memory has. False: it is closed. */
static bool note_done(struct copy *copy, const struct order_change *change)
{
    struct errmsg err = { "" };
    struct op_answer answer;

    if (op_memory_find(copy->replica->order.memory, change->op, &answer) == OP_DONE &&
        note(copy, change, true, answer, &err) != MORSEL_OK) {
        fail(copy, "note an operation", &err);
        return false;
    }
    return true;
}

static void renew_memory(struct copy *copy, bool wanted)
{
    struct errmsg err = { "" };

    if (wanted && copy_renew_memory(copy, &err) != MORSEL_OK) {
        fail(copy, "begin another file of operations", &err);
    }
}

/* Another member has everything, too: a disk that fails had better be left to itself. */
static bool has_others(const struct copy *copy)
{
    const struct group *g = &copy->replica->group;

    return (g->record.set & ~(1U << g->me)) != 0;
}

/* By no member: all have damage in a block of which it is to change a part, or which it is to copy; or there are no
 * others, and what it is to copy cannot be read. */
static bool done_nowhere(const struct copy *copy, const struct job *job)
{
    return job->status == MORSEL_CHECKSUM || (job->untouched && !has_others(copy));
}

/* Between two rounds nobody knows yet who has others: it is tried again in the next one. */
static bool is_put_off(struct ticket *t, const struct job *job)
{
    struct copy *copy = t->copy;
    bool off = job->status != MORSEL_OK && job->untouched && !is_over(copy) &&
               copy->replica->group.joined == 0;

    if (off) {
        replica_put_off(copy->replica, t->id);
        t->id = 0;
    }
    return off;
}

/* Carried out here, or nowhere. */
static void end_change(struct ticket *t, const struct job *job)
{
    struct copy *copy = t->copy;
    uint64_t id = t->id;

    if (is_put_off(t, job)) {
        return;
    }
    if (!is_over(copy) && job->status != MORSEL_OK && !done_nowhere(copy, job)) {
        fail(copy, "carry out a change that has its place in the order", &job->err);
    }
    copy_touch(copy, t->change.object);
    if (!is_over(copy) || (copy_trouble(copy) == NULL && job->status == MORSEL_OK)) {
        t->id = 0; /* Also of a copy that ends: the next one is to know of it. */
        if (job->status == MORSEL_OK) {
            replica_applied(copy->replica, id);
        } else {
            replica_unapplied(copy->replica, id, job->status);
        }
        if (note_done(copy, &t->change)) { /* Before anybody hears of it. */
            renew_memory(copy, copy_file_wants_renewal(
                                   copy->file, op_memory_count(copy->replica->order.memory)));
        }
    }
}

static void apply(struct ticket *t, struct job *job);

static void change_mended(struct ticket *t, struct job *job, enum mend_end end)
{
    struct copy *copy = t->copy;

    if (end == MEND_AGAIN) {
        apply(t, job);
        return;
    }
    if (end == MEND_FAILED && !is_over(copy) && has_others(copy)) { /* They carry it out. */
        fail(copy, "repair what a change that has its place in the order needs", &job->err);
    }
    if (end == MEND_LEFT) {
        replica_put_off(copy->replica, t->id);
        t->id = 0;
    } else {
        end_change(t, job);
    }
    copy_drain(copy);
    ticket_drop(t);
    copy_worked(copy);
}

static void on_applied(struct job *job)
{
    struct ticket *t = job->data;
    struct copy *copy = t->copy;

    if (t->handler->begin != NULL) {
        payload_drop(job->payload); /* begin() gets it again. */
        job->payload = NULL;
    }
    if (job->status == MORSEL_CHECKSUM && copy_mend(t, job, change_mended)) {
        return;
    }
    end_change(t, job);
    copy_drain(copy);
    ticket_drop(t);
    copy_worked(copy);
}

static void apply(struct ticket *t, struct job *job)
{
    bool slow = t->handler->is_slow != NULL && t->handler->is_slow(job);

    job->status = MORSEL_OK;
    job->untouched = false;
    job->begin = t->handler->begin;
    if (job_start(job, t->handler->run, on_applied, slow) != MORSEL_OK) {
        errmsg_set(&job->err, "this server is ending");
        job->status = MORSEL_SHUTDOWN;
        on_applied(job);
    }
}

void copy_apply(struct copy *copy, const struct replica_action *a)
{
    struct ticket *t = ticket_of(a->token);
    struct job *job = t->job;
    struct errmsg err = { "" };

    if (note_begun(copy, &t->change, &err) != MORSEL_OK) {
        fail(copy, "note an operation", &err);
        return;
    }
    t->id = a->id;
    t->references++;
    copy->working++;
    apply(t, job);
}

/* ---- Reads ---- */

static void read_done(struct ticket *t, struct job *job)
{
    struct copy *copy = t->copy;
    bool served = !is_over(copy) && replica_served(copy->replica, t->id, t->round, copy_now_ms());

    if (served && (job->status == MORSEL_IO || job->status == MORSEL_CORRUPT) && has_others(copy)) {
        fail(copy, "read", &job->err);
        served = false;
    }
    if (!served) {
        ticket_refuse(t, MORSEL_NOT_HERE, NULL);
    } else if (t->request != NULL) {
        job->request = t->request;
        t->request = NULL;
        t->job = NULL;
        object_done(job, t->handler);
    }
}

static void on_read(struct job *job);

static void read_in_pool(struct ticket *t, struct job *job)
{
    job->status = MORSEL_OK;
    job->begin = t->handler->begin;
    if (job_start(job, t->handler->run, on_read, false) != MORSEL_OK) {
        job->status = MORSEL_SHUTDOWN;
        on_read(job);
    }
}

static void read_mended(struct ticket *t, struct job *job, enum mend_end end)
{
    struct copy *copy = t->copy;

    if (end == MEND_AGAIN) {
        read_in_pool(t, job);
        return;
    }
    if (end == MEND_FAILED && !is_over(copy) && has_others(copy)) {
        fail(copy, "repair what is to be read", &job->err);
    }
    read_done(t, job);
    copy_drain(copy);
    ticket_drop(t);
    copy_worked(copy);
}

static void on_read(struct job *job)
{
    struct ticket *t = job->data;
    struct copy *copy = t->copy;

    if (job->status == MORSEL_CHECKSUM && t->handler->answers_bytes) {
        payload_drop(job->payload); /* begin() gets it again. */
        job->payload = NULL;
        if (copy_mend(t, job, read_mended)) {
            return;
        }
    }
    read_done(t, job);
    copy_drain(copy);
    ticket_drop(t);
    copy_worked(copy);
}

void copy_serve(struct copy *copy, const struct replica_action *a)
{
    struct ticket *t = ticket_of(a->token);
    struct job *job = t->job;

    t->id = a->id;
    t->round = a->round;
    t->references++;
    if (t->handler->at_once != NULL && t->handler->at_once(job)) {
        read_done(t, job);
        ticket_drop(t);
        return;
    }
    copy->working++;
    read_in_pool(t, job);
}

/* ---- Syncs ---- */

struct syncing
{
    struct copy *copy;
    uint64_t id;
    bool deletions; /* Too. */
    bool all;       /* Objects of the group; those that are named otherwise. */
    size_t count;
    struct object_id ids[];
};

static void sync_one(struct job *job, struct object_id id)
{
    if (job->status == MORSEL_OK) {
        job->status = store_sync(object_store_of(job), id, &job->err);
    }
}

static void sync_all(struct job *job, group_number group)
{
    struct object_id ids[256];
    uint64_t cursor = 0;

    while (job->status == MORSEL_OK && cursor != UINT64_MAX) {
        size_t count = 0;

        job->status =
            store_list(object_store_of(job), &cursor, ids, ARRAY_COUNT(ids), &count, &job->err);
        for (size_t i = 0; i < count; i++) {
            if (placing_group(ids[i].column) == group) {
                sync_one(job, ids[i]);
            }
        }
    }
}

static void run_sync(struct job *job)
{
    struct syncing *s = job->data;

    for (size_t i = 0; i < s->count; i++) {
        sync_one(job, s->ids[i]);
    }
    if (s->all) {
        sync_all(job, s->copy->setup.number);
    }
    if (s->deletions && job->status == MORSEL_OK) {
        job->status = store_sync_deletions(object_store_of(job), &job->err);
    }
    if (job->status == MORSEL_OK) {
        job->status = copy_file_sync(s->copy->file, &job->err);
    }
}

static void on_synced(struct job *job)
{
    struct syncing *s = job->data;
    struct copy *copy = s->copy;

    if (!is_over(copy) && job->status != MORSEL_OK) {
        fail(copy, "sync", &job->err);
    }
    if (!is_over(copy)) {
        replica_synced(copy->replica, s->id, copy_now_ms());
    }
    free(s);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

/* Those that were changed; from here on others are. */
static void take_touched(struct copy *copy, struct syncing *s)
{
    struct touched *t, *next;

    HASH_ITER(hh, copy->touched, t, next)
    {
        s->ids[s->count++] = (struct object_id){ t->key[0], (uint32_t)t->key[1] };
        HASH_DEL(copy->touched, t);
        free(t);
    }
    s->all = copy->touched_all;
    copy->touched_all = false;
}

void copy_sync_here(struct copy *copy, const struct replica_action *a)
{
    const struct replica_fetch *fetch = &copy->replica->fetch;
    bool took_over = fetch->state == FETCH_SYNCING && fetch->sync == a->id && !fetch->flush &&
                     !fetch->recovering;
    size_t count = a->everything ? HASH_COUNT(copy->touched) : 1;
    struct syncing *s = calloc(1, sizeof(*s) + count * sizeof(s->ids[0]));
    struct job *job = s == NULL ? NULL : copy_job(copy, s);
    struct errmsg err;

    if (job == NULL) {
        free(s);
        errmsg_set(&err, "out of memory");
        copy_fail(copy, &err);
        return;
    }
    s->copy = copy;
    s->id = a->id;
    renew_memory(copy, took_over); /* What another member knows is in the place of what was here. */
    s->deletions = a->everything;
    if (a->everything) {
        take_touched(copy, s);
    } else {
        s->ids[s->count++] = a->object;
    }
    copy->working++;
    if (job_start(job, run_sync, on_synced, true) != MORSEL_OK) {
        errmsg_set(&job->err, "this server is ending");
        job->status = MORSEL_SHUTDOWN;
        on_synced(job);
    }
}

/* ---- Files ---- */

/* One of the state, one of the dirty file at a time. */
struct filing
{
    struct copy *copy;
    struct group_record record;
    struct dirty_record *records;
    uint32_t count, capacity;
    int (*write)(struct filing *f, struct errmsg *err);
    void (*written)(struct copy *copy);
};

static int write_state(struct filing *f, struct errmsg *err)
{
    return copy_file_state(f->copy->file, &f->record, err);
}

static int write_notes(struct filing *f, struct errmsg *err)
{
    return copy_file_note(f->copy->file, f->records, f->count, err);
}

static int write_dirty(struct filing *f, struct errmsg *err)
{
    uint64_t number = 0;
    struct buf all;
    int rv;

    buf_init(&all);
    dirty_header_put(&all, f->copy->setup.number);
    for (uint32_t at = 0; at < f->count;) {
        uint32_t count = f->count - at < DIRTY_RECORDS_MAX ? f->count - at : DIRTY_RECORDS_MAX;

        dirty_entry_put(&all, ++number, f->records + at, count);
        at += count;
    }
    rv = all.failed ? MORSEL_NOMEM : copy_file_rewrite(f->copy->file, &all, number, err);
    buf_free(&all);
    return rv;
}

static void state_written(struct copy *copy)
{
    replica_recorded(copy->replica, copy_now_ms());
}

static void notes_written(struct copy *copy)
{
    replica_noted(copy->replica);
}

static void dirty_written(struct copy *copy)
{
    replica_rewritten(copy->replica, copy_now_ms());
}

static void run_filing(struct job *job)
{
    struct filing *f = job->data;

    job->status = f->write(f, &job->err);
}

static void filing_free(struct filing *f)
{
    if (f != NULL) {
        free(f->records);
        free(f);
    }
}

static void on_filed(struct job *job)
{
    struct filing *f = job->data;
    struct copy *copy = f->copy;

    if (!is_over(copy) && job->status != MORSEL_OK) {
        fail(copy, "write down what this copy is", &job->err);
    }
    if (!is_over(copy)) {
        f->written(copy);
    }
    filing_free(f);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

static void file(struct copy *copy, struct filing *f, bool complete)
{
    struct job *job = complete ? copy_job(copy, f) : NULL;
    struct errmsg err;

    if (job == NULL) {
        filing_free(f);
        errmsg_set(&err, "out of memory");
        copy_fail(copy, &err);
        return;
    }
    f->copy = copy;
    copy->working++;
    if (job_start(job, run_filing, on_filed, true) != MORSEL_OK) {
        errmsg_set(&job->err, "this server is ending");
        job->status = MORSEL_SHUTDOWN;
        on_filed(job);
    }
}

void copy_record(struct copy *copy, const struct replica_action *a)
{
    struct filing *f = calloc(1, sizeof(*f));

    if (f != NULL) {
        f->record = a->record;
        f->write = write_state;
        f->written = state_written;
    }
    file(copy, f, f != NULL);
}

static bool add_record(void *data, const struct dirty_record *record)
{
    struct filing *f = data;

    if (f->count == f->capacity) {
        uint32_t capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
        struct dirty_record *more = realloc(f->records, capacity * sizeof(*more));

        if (more == NULL) {
            return false;
        }
        f->records = more;
        f->capacity = capacity;
    }
    f->records[f->count++] = *record;
    return true;
}

void copy_note(struct copy *copy, const struct replica_action *a)
{
    struct filing *f = calloc(1, sizeof(*f));
    bool complete = f != NULL;

    for (uint32_t i = 0; complete && i < a->count; i++) {
        complete = add_record(f, &a->notes[i]);
    }
    if (complete) {
        f->write = write_notes;
        f->written = notes_written;
    }
    file(copy, f, complete);
}

void copy_rewrite(struct copy *copy)
{
    struct filing *f = calloc(1, sizeof(*f));
    bool complete = f != NULL && replica_dirty(copy->replica, add_record, f);

    if (complete) {
        f->write = write_dirty;
        f->written = dirty_written;
    }
    file(copy, f, complete);
}

/* ---- Memory of operations ---- */

struct keeping
{
    struct copy *copy;
    struct errmsg *err;
};

static bool keep_operation(void *data, const struct op_known *known)
{
    struct keeping *k = data;
    struct copy_operation op = { .done = true, .boot = k->copy->boot, .known = *known };

    return copy_file_operation(k->copy->file, &op, k->err) == MORSEL_OK;
}

bool copy_doubt_memory(struct copy *copy)
{
    const struct replica_fetch *fetch = &copy->replica->fetch;
    struct errmsg err = { "" };
    struct keeping k = { .copy = copy, .err = &err };

    if (!fetch->recovering && copy->doubted_pass != fetch->pass) {
        copy->doubted_pass = fetch->pass;
        if (!op_memory_each(copy->replica->order.memory, keep_operation, &k)) {
            fail(copy, "note operations", &err);
            return false;
        }
    }
    return true;
}

/* What is done, and what is being done. */
static bool keep_all(void *data)
{
    struct keeping *k = data;
    struct copy *copy = k->copy;
    bool kept = op_memory_each(copy->replica->order.memory, keep_operation, k);

    LIST_FOREACH(node, &copy->tickets)
    {
        const struct ticket *t = LIST_ENTRY(node, struct ticket, node);

        if (kept && t->id != 0 && t->change.op.number != 0) {
            kept = note_begun(copy, &t->change, k->err) == MORSEL_OK;
        }
    }
    return kept;
}

int copy_renew_memory(struct copy *copy, struct errmsg *err)
{
    struct keeping k = { .copy = copy, .err = err };

    return copy_file_renew(copy->file, keep_all, &k, err);
}
