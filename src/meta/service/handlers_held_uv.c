/* What benefactors hold against what the maps say: DONOR_HELD, and what they are told to delete.
 *
 * Nothing is named for deletion before what made it waste is on our disk: after a loss of power a map might name it again. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/datasets/relocate.h"
#include "meta/datasets/sets.h"
#include "meta/service/handlers_uv.h"

#include <stdlib.h>

enum { COLLECT_PAGE_MAX = 1000 };

/* Stretches on their way to a benefactor. */
struct runs_reply
{
    struct sync_waiter waiter;
    struct meta *meta;
    struct rpc_request *request;
    bool held; /* The answer to DONOR_HELD, not to a report. */
    bool more;
    bool told; /* With it all is said that `donor` holds. */
    donor_id donor;
    uint64_t instance;
    struct buf runs; /* op_run_put() */
};

static struct runs_reply *runs_reply_new(struct meta *meta, struct rpc_request *request, bool held)
{
    struct runs_reply *reply = calloc(1, sizeof(*reply));

    if (reply != NULL) {
        list_init(&reply->waiter.node);
        reply->meta = meta;
        reply->request = request;
        reply->held = held;
        buf_init(&reply->runs);
    }
    return reply;
}

static void runs_reply_free(struct runs_reply *reply)
{
    buf_free(&reply->runs);
    free(reply);
}

static void runs_reply_pack(const struct runs_reply *reply, Morsel__SetRun **runs, size_t count)
{
    Morsel__DonorHeldReply held = MORSEL__DONOR_HELD_REPLY__INIT;
    Morsel__DonorReportReply report = MORSEL__DONOR_REPORT_REPLY__INIT;
    Morsel__DonorLeft left;

    held.drop = report.collect = runs;
    held.n_drop = report.n_collect = count;
    held.again = report.more = reply->more;
    if (!reply->held) {
        const struct donor *donor = donors_find(&reply->meta->donors, reply->donor);

        report.left = donor_left_fill(donor, &left) ? &left : NULL;
        report.soon = report.left != NULL && relocate_goes_on(donor);
        report.shut = donor != NULL && doors_is_shut(&reply->meta->donors, donor);
    }
    rpc_reply(reply->request, reply->held ? &held.base : &report.base, NULL);
}

/* What it has lost is on our disk, and it is told what to drop: morsels may be placed on it. */
static void told_all(const struct runs_reply *reply)
{
    struct donors_event event = { .now_ms = meta_now_ms(reply->meta), .type = DONORS_TOLD };

    event.told.id = reply->donor;
    event.told.instance = reply->instance;
    donors_host_step(reply->meta, &event);
}

/* Answers, and is over. */
static void runs_reply_send(struct runs_reply *reply)
{
    size_t count = op_runs_count(buf_slice(&reply->runs));
    Morsel__SetRun *items = calloc(count + 1, sizeof(*items));
    Morsel__SetRun **runs = calloc(count + 1, sizeof(Morsel__SetRun *));

    for (size_t i = 0; items != NULL && runs != NULL && i < count; i++) {
        struct op_run run = op_run_at(buf_slice(&reply->runs), i);

        morsel__set_run__init(&items[i]);
        items[i].set = run.set;
        items[i].first = run.first;
        items[i].count = run.count;
        runs[i] = &items[i];
    }
    if (items == NULL || runs == NULL) {
        rpc_reply_failure(reply->request, MORSEL_NOMEM, NULL);
    } else {
        runs_reply_pack(reply, runs, count);
        if (reply->told) {
            told_all(reply);
        }
    }
    free(items);
    free(runs);
    runs_reply_free(reply);
}

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct runs_reply *reply = CONTAINER_OF(waiter, struct runs_reply, waiter);

    if (status != 0) {
        rpc_reply_failure(reply->request, status, "the manager's database could not be synced");
        runs_reply_free(reply);
        return;
    }
    runs_reply_send(reply);
}

/* A report without anything to be deleted need not wait; what was lost is to be known before anything is placed there again. */
static void runs_reply_when_durable(struct runs_reply *reply)
{
    struct meta *meta = reply->meta;
    bool broken = ns_broken(meta->ns) != 0;

    if (broken && reply->held) {
        rpc_reply_failure(reply->request, ns_broken(meta->ns), "the manager's database is damaged");
        runs_reply_free(reply);
        return;
    }
    if (broken) {
        buf_clear(&reply->runs); /* What the disk has is not known: nothing is deleted any more. */
    }
    if ((reply->runs.count == 0 && !reply->held) || sync_is_done(&meta->sync)) {
        runs_reply_send(reply);
    } else {
        sync_wait(&meta->sync, &reply->waiter, on_durable);
    }
}

/* ---- Reports ---- */

static int compare_runs(const void *a, const void *b)
{
    const struct op_run *x = a, *y = b;

    if (x->set != y->set) {
        return x->set < y->set ? -1 : 1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Ascending, each beginning once. */
static int collected_put(const Morsel__DonorReportRequest *m, struct buf *out)
{
    struct op_run *runs = calloc(m->n_collected, sizeof(*runs));

    if (runs == NULL) {
        return MORSEL_NOMEM;
    }
    for (size_t i = 0; i < m->n_collected; i++) {
        const Morsel__SetRun *run = m->collected[i];

        runs[i] = (struct op_run){ run->set, run->first, run->count };
    }
    qsort(runs, m->n_collected, sizeof(*runs), compare_runs);
    for (size_t i = 0; i < m->n_collected; i++) {
        if (i == 0 || compare_runs(&runs[i - 1], &runs[i]) != 0) {
            op_run_put(out, runs[i]);
        }
    }
    free(runs);
    return out->failed ? MORSEL_NOMEM : 0;
}

int take_set_collected(struct request *r)
{
    const Morsel__DonorReportRequest *m = r->message;
    struct meta_op op = { .kind = OP_SET_COLLECTED, .time_ns = meta_clock_ns() };
    int rv;

    if (m->n_collected == 0) {
        return 0;
    }
    if (m->n_collected > SET_RUNS_MAX) {
        return MORSEL_MALFORMED;
    }
    if ((rv = collected_put(m, &r->bytes)) != 0) {
        return rv;
    }
    op.set_runs.donor = m->id;
    op.set_runs.runs = buf_slice(&r->bytes);
    return meta_execute(r->meta, &op, &r->err);
}

static void answer_report(void *data, struct rpc_request *request, uint64_t id)
{
    struct meta *meta = data;
    struct runs_reply *reply = runs_reply_new(meta, request, false);
    struct op_run runs[COLLECT_PAGE_MAX];
    struct errmsg err = { "" };
    uint32_t count = 0;
    int rv = MORSEL_NOMEM;

    if (reply != NULL) {
        reply->donor = (donor_id)id;
        rv = ns_waste(meta->ns, (donor_id)id, runs, COLLECT_PAGE_MAX, &count, &err);
        for (uint32_t i = 0; rv == 0 && i < count; i++) {
            op_run_put(&reply->runs, runs[i]);
        }
        rv = rv == 0 && reply->runs.failed ? MORSEL_NOMEM : rv;
    }
    if (rv == 0) {
        reply->more = count == COLLECT_PAGE_MAX;
        runs_reply_when_durable(reply);
        return;
    }
    if (reply != NULL) {
        runs_reply_free(reply);
    }
    meta_not_answered(meta, request, rv, &err, answer_report, id);
}

void donor_report_answer(struct meta *meta, struct rpc_request *request, donor_id id)
{
    loads_begin(&meta->loads);
    answer_report(meta, request, id);
}

/* ---- What a benefactor holds ---- */

/* The stretch of all morsels that a page is about. */
struct stretch
{
    const Morsel__DonorHeldRequest *m;
    uint64_t first_set, last_set;
    uint32_t first, last; /* Of these sets. */
};

/* Do they ascend, from the beginning of the stretch on, and are they not too many? */
static bool held_is_sound(const Morsel__DonorHeldRequest *m)
{
    uint64_t set = m->from != NULL ? m->from->set : 0;
    uint64_t next = m->from != NULL ? m->from->first : 0, morsels = 0;

    for (size_t i = 0; i < m->n_held; i++) {
        const Morsel__SetRun *run = m->held[i];

        if (run->set < set || (run->set == set && run->first < next) || run->count == 0 ||
            run->set == 0) {
            return false;
        }
        set = run->set;
        next = (uint64_t)run->first + run->count;
        morsels += run->count;
    }
    return morsels <= SET_HELD_MAX && m->n_held <= SET_RUNS_MAX && (m->last || m->n_held > 0);
}

static struct stretch stretch_of(const Morsel__DonorHeldRequest *m)
{
    struct stretch s = { .m = m, .last_set = UINT64_MAX, .last = UINT32_MAX };

    if (m->from != NULL) {
        s.first_set = m->from->set;
        s.first = m->from->first;
    }
    if (!m->last) {
        const Morsel__SetRun *run = m->held[m->n_held - 1];

        s.last_set = run->set;
        s.last = run->first + (run->count - 1);
    }
    return s;
}

/* Lists of what is lost, up to what one operation takes. */
struct losing
{
    struct stretch stretch;
    donor_id donor;
    size_t at; /* In the list of what is held. */
    struct op_run run;
    uint32_t runs, morsels;
    struct buf *out;
};

static bool is_held(struct losing *l, uint64_t set, uint32_t morsel)
{
    const Morsel__DonorHeldRequest *m = l->stretch.m;

    while (l->at < m->n_held &&
           (m->held[l->at]->set < set ||
            (m->held[l->at]->set == set &&
             (uint64_t)m->held[l->at]->first + m->held[l->at]->count <= morsel))) {
        l->at++;
    }
    return l->at < m->n_held && m->held[l->at]->set == set && m->held[l->at]->first <= morsel;
}

static void end_run(struct losing *l)
{
    if (l->run.count > 0) {
        op_run_put(l->out, l->run);
        l->runs++;
    }
    l->run.count = 0;
}

/* False: the operation is full. */
static bool lose(struct losing *l, uint64_t set, uint32_t morsel)
{
    bool follows = l->run.count > 0 && l->run.set == set && morsel == l->run.first + l->run.count;

    if (!follows) {
        end_run(l);
    }
    if (l->morsels == SET_HELD_MAX || (!follows && l->runs == SET_RUNS_MAX)) {
        return false;
    }
    if (!follows) {
        l->run = (struct op_run){ set, morsel, 0 };
    }
    l->run.count++;
    l->morsels++;
    return true;
}

static bool lose_of_set(struct losing *l, const struct data_set *set)
{
    const struct stretch *s = &l->stretch;
    uint32_t from = set->head.number == s->first_set ? s->first : 0;
    uint32_t last = set->head.number == s->last_set ? s->last : UINT32_MAX;
    struct set_morsel m;

    while (set_next(set, from, &m) && m.number <= last) {
        from = m.number + 1;
        if (set_morsel_has(&m, l->donor) && !is_held(l, set->head.number, m.number) &&
            !lose(l, set->head.number, m.number)) {
            return false;
        }
    }
    return true;
}

/* True: all that is lost is in the list. */
static bool list_lost(struct losing *l, const struct sets *sets)
{
    const struct donor_sets *d = sets_of_donor(sets, l->donor);
    bool all = true;

    for (uint32_t i = d != NULL ? donor_sets_from(d, l->stretch.first_set) : 0;
         all && d != NULL && i < d->count && d->sets[i] <= l->stretch.last_set; i++) {
        const struct data_set *set = sets_find(sets, d->sets[i]);

        all = set == NULL || set_morsels_at(set, l->donor) == 0 || lose_of_set(l, set);
    }
    end_run(l);
    return all;
}

/* 1: there is more to be lost. */
static int take_lost(struct request *r)
{
    const Morsel__DonorHeldRequest *m = r->message;
    struct losing l = { .stretch = stretch_of(m), .donor = m->id, .out = &r->bytes };
    struct meta_op op = { .kind = OP_SET_LOST, .time_ns = meta_clock_ns() };
    bool all = list_lost(&l, ns_sets(r->meta->ns));
    int rv;

    if (r->bytes.failed) {
        return MORSEL_NOMEM;
    }
    if (l.runs == 0) {
        return 0;
    }
    op.set_runs.donor = m->id;
    op.set_runs.runs = buf_slice(&r->bytes);
    rv = meta_execute(r->meta, &op, &r->err);
    if (rv == 0) {
        log_warning(
            r->meta->log,
            "benefactor %u has lost %u stretches of morsels that it had: `morsel datasets` shows "
            "where copies are missing",
            m->id, l.runs);
    }
    return rv != 0 ? rv : !all;
}

static bool is_named(const struct data_set *set, donor_id donor, uint32_t number)
{
    struct set_morsel morsel;

    return set != NULL && set_get(set, number, &morsel) && set_morsel_has(&morsel, donor);
}

/* What the map does not name of it. */
static void list_drops(const struct data_set *set, donor_id donor, const Morsel__SetRun *held,
                       struct buf *out)
{
    struct op_run run = { held->set, held->first, 0 };

    for (uint32_t i = 0; i < held->count; i++) {
        if (!is_named(set, donor, held->first + i)) {
            run.count++;
            continue;
        }
        if (run.count > 0) {
            op_run_put(out, run);
        }
        run = (struct op_run){ held->set, held->first + i + 1, 0 };
    }
    if (run.count > 0) {
        op_run_put(out, run);
    }
}

/* A set that this manager has not made yet is of a later state of its database than it has: nothing of that is deleted. */
static void fill_drops(struct request *r, struct buf *out)
{
    const Morsel__DonorHeldRequest *m = r->message;
    inode_id next = ns_counters(r->meta->ns)->inode_next;
    uint64_t future = 0;

    for (size_t i = 0; i < m->n_held; i++) {
        if (m->held[i]->set < next) {
            list_drops(sets_find(ns_sets(r->meta->ns), m->held[i]->set), m->id, m->held[i], out);
        } else {
            future += m->held[i]->count;
        }
    }
    if (future > 0) {
        log_warning(
            r->meta->log,
            "benefactor %u has %llu morsels of data sets that this manager has not made: was "
            "its database put back to an older state? They are kept",
            m->id, (unsigned long long)future);
    }
}

/* Is that process the one that serves the directory, now, and is this its connection? */
bool donor_is_serving(struct request *r, donor_id id, uint64_t instance)
{
    const struct donor *donor = donors_find(&r->meta->donors, id);

    if (r->rpc->role == ROLE_BENEFACTOR && r->rpc->node_id == donors_peer(id, instance) &&
        donor != NULL && donor->connected && donor->instance == instance) {
        return true;
    }
    errmsg_set(&r->err, "join first");
    return false;
}

int serve_donor_held(struct request *r)
{
    const Morsel__DonorHeldRequest *m = r->message;
    struct runs_reply *reply;
    int rv;

    if (!donor_is_serving(r, m->id, m->instance)) {
        return MORSEL_NO_SESSION;
    }
    if (!held_is_sound(m)) {
        errmsg_set(&r->err,
                   "a page of what a benefactor holds ascends, and names at most %d morsels",
                   SET_HELD_MAX);
        return MORSEL_MALFORMED;
    }
    /* Behind its last page it has been given more than it had then. */
    rv = donors_find(&r->meta->donors, m->id)->told_held ? 0 : take_lost(r);
    if (rv < 0) {
        return rv;
    }
    if ((reply = runs_reply_new(r->meta, r->rpc, true)) == NULL) {
        return MORSEL_NOMEM;
    }
    reply->more = rv == 1;
    if (!reply->more) {
        fill_drops(r, &reply->runs);
    }
    if (reply->runs.failed) {
        runs_reply_free(reply);
        return MORSEL_NOMEM;
    }
    reply->told = !reply->more && m->last;
    reply->donor = m->id;
    reply->instance = m->instance;
    runs_reply_when_durable(reply);
    return 0;
}
