/* One benefactor at a time, one step with each pulse. Only when the maps do not name it any more, and it has nothing to delete, its record
 * goes: until then it may come back, and tell what it holds, as ever. */
#include "meta/cluster/forgets_uv.h"

#include "common/base/status.h"
#include "meta/cluster/hours_uv.h"
#include "meta/service/handlers_uv.h"

#include <inttypes.h>

enum {
    LOOKS = 64, /* Benefactors that are looked at in a pulse. */
    WASTE_RUNS = 1000,
    SEEN_MS =
        86400000, /* This manager has missed it for so long, or for as long as is said: it was not only off itself, or its clock was set. */
    KEPT_MS =
        86400000 /* One that has what nobody else has is looked at again so much later, at most. */
};

static void finish(struct meta *meta, int status)
{
    struct forgets *f = &meta->forgets;

    f->phase = FORGETS_IDLE;
    f->last = f->walk.donor;
    f->last_status = status;
}

/* ---- What it has that nobody else has ---- */

static void refuse_last(struct meta *meta, uint64_t now_ms)
{
    struct forgets *f = &meta->forgets;
    const struct donor *donor = donors_find(&meta->donors, f->walk.donor);
    uint64_t kept_ms = meta->settings->forget_donors_ms;

    errmsg_set(&f->last_words,
               "benefactor %" PRIu32 " has %" PRIu64 " morsels of %" PRIu64
               " data sets that no benefactor has that is here, and that nobody can fetch again: "
               "switch it on once more, or give them up with --force",
               f->walk.donor, f->walk.morsels, f->walk.sets);
    if (f->by_itself) {
        if (donor->kept_until_ms == 0) {
            log_warning(meta->log, "%s", f->last_words.text);
        }
        donors_keep(&meta->donors, f->walk.donor, now_ms + (kept_ms < KEPT_MS ? kept_ms : KEPT_MS));
    }
    finish(meta, MORSEL_BUSY);
}

static void look(struct meta *meta, uint64_t now_ms)
{
    struct forgets *f = &meta->forgets;

    if (!forget_look(&f->walk, ns_sets(meta->ns), &meta->donors)) {
        return;
    }
    if (f->walk.morsels > 0 && !f->walk.forced) {
        refuse_last(meta, now_ms);
        return;
    }
    forget_begin(&f->walk, f->walk.donor, f->walk.forced);
    f->phase = FORGETS_LOSES;
}

/* ---- It leaves the maps ---- */

static void on_loaded(void *data, struct rpc_request *request, uint64_t subject)
{
    struct meta *meta = data;

    (void)request;
    (void)subject;
    meta->forgets.loading = false;
}

static void wait_for_disk(struct meta *meta)
{
    meta->forgets.loading = loads_wait(&meta->loads, NULL, on_loaded, 0);
}

/* False: it could not be written down now; what it wants of the disk is waited for. */
static bool write_runs(struct meta *meta, enum op_kind kind, const struct op_run *runs,
                       uint32_t count)
{
    struct meta_op op = { .kind = kind, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    struct buf list;
    int rv;

    buf_init(&list);
    for (uint32_t i = 0; i < count; i++) {
        op_run_put(&list, runs[i]);
    }
    op.set_runs.donor = meta->forgets.walk.donor;
    op.set_runs.runs = buf_slice(&list);
    rv = list.failed ? MORSEL_NOMEM : meta_execute(meta, &op, &err);
    buf_free(&list);
    if (rv == MORSEL_AGAIN) {
        wait_for_disk(meta);
    }
    return rv == 0;
}

/* A step that could not be written down is done again from where it was. */
static void lose(struct meta *meta, uint64_t now_ms)
{
    struct forgets *f = &meta->forgets;
    const struct forget before = f->walk;
    struct op_run runs[FORGET_RUNS];
    uint32_t count;
    bool done = forget_lose(&f->walk, ns_sets(meta->ns), &meta->donors, runs, &count);

    if (count > 0 && !write_runs(meta, OP_SET_LOST, runs, count)) {
        f->walk = before;
        return;
    }
    if (f->walk.morsels > 0 && !f->walk.forced) {
        refuse_last(meta, now_ms);
    } else if (done) {
        f->phase = FORGETS_COLLECTS;
    }
}

/* ---- It is nobody any more ---- */

static void forget(struct meta *meta)
{
    struct meta_op op = { .kind = OP_DONOR_FORGET, .time_ns = meta_clock_ns() };
    struct forgets *f = &meta->forgets;
    struct errmsg err = { "" };
    int rv;

    op.donor_forget.donor = f->walk.donor;
    rv = meta_execute(meta, &op, &err);
    if (rv == MORSEL_AGAIN) {
        wait_for_disk(meta);
        return;
    }
    if (rv != 0) {
        errmsg_set(&f->last_words, "benefactor %" PRIu32 " could not be forgotten: %s",
                   f->walk.donor, err.text[0] != 0 ? err.text : status_words(rv));
        finish(meta, rv);
        return;
    }
    log_info(meta->log, "benefactor %" PRIu32 " is forgotten%s: if it comes back it is a new one",
             f->walk.donor,
             f->by_itself ? ", for it was away for too long (morsel-meta --forget-donors)" : "");
    donors_forget(&meta->donors, f->walk.donor);
    hours_forget(&meta->hours, f->walk.donor);
    finish(meta, 0);
}

/* Does repair still fetch from it, or to it? What comes of that names it. */
static bool is_in_repair(const struct meta *meta)
{
    const struct donor *donor = donors_find(&meta->donors, meta->forgets.walk.donor);

    return donor->repair.sources + donor->repair.targets > 0;
}

static void collect(struct meta *meta)
{
    struct op_run runs[WASTE_RUNS];
    struct errmsg err = { "" };
    uint32_t count = 0;
    int rv;

    rv = ns_waste(meta->ns, meta->forgets.walk.donor, runs, WASTE_RUNS, &count, &err);
    if (rv == 0 && count > 0) {
        (void)write_runs(meta, OP_SET_COLLECTED, runs, count);
    } else if (rv == 0 && !is_in_repair(meta)) {
        forget(meta);
    } else if (rv == MORSEL_AGAIN) {
        wait_for_disk(meta);
    }
}

/* ---- Which ---- */

static void begin(struct meta *meta, donor_id donor, bool forced, bool by_itself)
{
    struct forgets *f = &meta->forgets;

    forget_begin(&f->walk, donor, forced);
    f->phase = FORGETS_LOOKS;
    f->by_itself = by_itself;
}

static bool is_overdue(struct meta *meta, const struct donor *donor, uint64_t now_ms)
{
    uint64_t away_ms = hours_away_ms(meta, donor->record.id);
    uint64_t overdue_ms = meta->settings->forget_donors_ms;
    uint64_t seen_ms = now_ms - donor->since_ms;

    away_ms = away_ms != 0 ? away_ms : seen_ms;
    return donor->state == DONOR_AWAY && donor->durable && now_ms >= donor->kept_until_ms &&
           away_ms >= overdue_ms && seen_ms >= (overdue_ms < SEEN_MS ? overdue_ms : SEEN_MS);
}

static void find_overdue(struct meta *meta, uint64_t now_ms)
{
    const struct donors *d = &meta->donors;
    uint32_t at = donors_from(d, meta->forgets.next);

    for (int i = 0; i < LOOKS && at < d->count; i++, at++) {
        if (is_overdue(meta, d->items[at], now_ms)) {
            begin(meta, d->items[at]->record.id, false, true);
            break;
        }
    }
    meta->forgets.next = at < d->count ? d->items[at]->record.id : 0;
}

void forgets_pulse(struct meta *meta, uint64_t now_ms)
{
    struct forgets *f = &meta->forgets;
    const struct donor *donor = donors_find(&meta->donors, f->walk.donor);

    if (f->loading) {
        return;
    }
    loads_begin(
        &meta->loads); /* What is noted of another one's question keeps nothing from being written. */
    if (f->phase != FORGETS_IDLE && (donor == NULL || donor->state != DONOR_AWAY)) {
        errmsg_set(&f->last_words, "benefactor %" PRIu32 " has come back, and is not forgotten",
                   f->walk.donor);
        finish(meta, MORSEL_BUSY);
    }
    switch (f->phase) {
    case FORGETS_IDLE:
        if (meta->settings->forget_donors_ms != 0) {
            find_overdue(meta, now_ms);
        }
        break;
    case FORGETS_LOOKS:
        look(meta, now_ms);
        break;
    case FORGETS_LOSES:
        lose(meta, now_ms);
        break;
    case FORGETS_COLLECTS:
        collect(meta);
        break;
    }
    loads_begin(&meta->loads);
}

/* ---- The command ---- */

static int answer(struct request *r, bool done)
{
    Morsel__DonorForgetReply reply = MORSEL__DONOR_FORGET_REPLY__INIT;

    reply.done = done;
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}

static int may_begin(struct request *r, donor_id id)
{
    const struct donor *donor = donors_find(&r->meta->donors, id);

    if (donor == NULL) {
        errmsg_set(&r->err, "there is no benefactor %" PRIu32 " (`morsel donors`)", id);
        return MORSEL_NOENT;
    }
    if (donor->state != DONOR_AWAY) {
        errmsg_set(&r->err,
                   "benefactor %" PRIu32 " is here, or was a moment ago: let its owner end it "
                   "first (`morsel donate leave`)",
                   id);
        return MORSEL_BUSY;
    }
    return 0;
}

int serve_donor_forget(struct request *r)
{
    const Morsel__DonorForgetRequest *m = r->message;
    struct forgets *f = &r->meta->forgets;
    int rv;

    if (r->rpc->role != ROLE_ADMIN) {
        return MORSEL_PERM;
    }
    if (f->phase != FORGETS_IDLE) {
        if (f->walk.donor == m->id) {
            return answer(r, false);
        }
        errmsg_set(&r->err, "benefactor %" PRIu32 " is just being forgotten; try again behind that",
                   f->walk.donor);
        return MORSEL_BUSY;
    }
    if (m->begun && f->last == m->id) {
        if (f->last_status != 0) {
            r->err = f->last_words;
        }
        return f->last_status != 0 ? f->last_status : answer(r, true);
    }
    if ((rv = may_begin(r, m->id)) != 0) {
        return rv;
    }
    begin(r->meta, m->id, m->force, false);
    return answer(r, false);
}
