/* The machines, and the model of what is on their disks. */
#include "tests/lib/repair_cloud.h"

#include "common/base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t draw(struct cloud *c, uint64_t below)
{
    return prng_below(&c->prng, below);
}

const struct data_set *set_of(const struct cloud *c, uint32_t i)
{
    return sets_find(&c->sets, i + 1);
}

static struct desk *desk_of(struct cloud *c, donor_id id)
{
    return &c->desks[id - 1];
}

const struct donor *donor_of(const struct cloud *c, donor_id id)
{
    return donors_find(&c->donors, id);
}

bool counts(const struct cloud *c, donor_id id)
{
    return donor_takes(donor_of(c, id));
}

static uint32_t copies_that_count(const struct cloud *c, const struct set_morsel *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        n += counts(c, m->donors[i]);
    }
    return n;
}

uint32_t used(const struct desk *d)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t m = 0; m < MORSELS; m++) {
            n += d->has[s][m] != 0;
        }
    }
    return n;
}

/* ---- The map ---- */

void change(struct cloud *c, uint64_t set, const struct set_morsel *m)
{
    const struct set_change changed = { set, *m };

    assert_int_equal(sets_reserve(&c->sets, &sets_find(&c->sets, set)->head, &changed, 1, 0), 0);
    sets_apply(&c->sets, &changed, 1);
}

/* What it has of the morsel does not count: as an operation would say it. */
static void condemn(struct cloud *c, donor_id id, uint64_t set, uint32_t morsel)
{
    const struct data_set *s = sets_find(&c->sets, set);

    if (set_is_waste(s, id, morsel)) {
        return;
    }
    assert_int_equal(sets_reserve_donor(&c->sets, id), 0);
    assert_int_equal(sets_reserve(&c->sets, &s->head, NULL, 0, 1), 0);
    sets_wasted(&c->sets, id, set, morsel, 1, true);
    desk_of(c, id)->condemned[set - 1][morsel] = true;
}

static void take_out(struct set_morsel *m, donor_id id)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        if (m->donors[i] != id) {
            m->donors[kept++] = m->donors[i];
        }
    }
    m->donor_count = kept;
}

/* `copies` 0: as many as are drawn. */
void make_sets(struct cloud *c, uint32_t copies)
{
    for (uint32_t i = 0; i < SETS; i++) {
        const struct set_head head = { .number = i + 1,
                                       .inode = i + 1,
                                       .writer = 1,
                                       .copies = copies != 0 ? copies
                                                             : 1 + (uint32_t)draw(c, REPLICAS_MAX),
                                       .morsel_bytes = BYTES };

        assert_int_equal(sets_reserve(&c->sets, &head, NULL, 0, 0), 0);
        sets_made(&c->sets, &head);
    }
}

/* A client stores the morsel at some that take it, perhaps anew. */
void store(struct cloud *c, uint32_t set, uint32_t number)
{
    const struct data_set *s = set_of(c, set);
    struct set_morsel m = { .number = number, .length = BYTES, .digest = ++c->digests }, before;
    bool there = set_get(s, number, &before);

    for (uint32_t i = 0; i < DESKS * 4 && m.donor_count < s->head.copies; i++) {
        struct desk *d = &c->desks[draw(c, DESKS)];

        if (d->up && counts(c, d->id) && !set_morsel_has(&m, d->id) &&
            !set_is_waste(s, d->id, number) && !repair_is_fetching(&c->r, set + 1, number, d->id) &&
            (d->has[set][number] != 0 || used(d) < d->room)) {
            m.donors[m.donor_count++] = d->id;
            d->has[set][number] = m.digest;
        }
    }
    if (m.donor_count == 0) {
        return;
    }
    change(c, set + 1, &m);
    for (uint32_t i = 0; there && i < before.donor_count; i++) {
        if (!set_morsel_has(&m, before.donors[i])) {
            condemn(c, before.donors[i], set + 1, number);
        }
    }
}

/* ---- Benefactors ---- */

static void donors_do(struct cloud *c, struct donors_event *event)
{
    struct donors_actions out = { .count = 0 };

    event->now_ms = c->now_ms;
    donors_step(&c->donors, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        if (out.items[i].type == DONORS_PERSIST) {
            struct donors_event durable = { .type = DONORS_PERSISTED };

            durable.persisted.id = out.items[i].id;
            donors_do(c, &durable);
        }
    }
}

uint64_t excess(const struct desk *d)
{
    return used(d) > d->room ? (uint64_t)(used(d) - d->room) * BYTES : 0;
}

static struct donor_report report_of(const struct desk *d)
{
    return (struct donor_report){ .donated = (uint64_t)d->room * BYTES,
                                  .used = (uint64_t)used(d) * BYTES,
                                  .paused = d->paused,
                                  .leaving = d->leaving,
                                  .excess = excess(d),
                                  .pressed = d->pressed ? excess(d) : 0 };
}

/* It has deleted what it was told to, and says so with its report. */
static void collect(struct cloud *c, struct desk *d)
{
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t m = 0; m < MORSELS; m++) {
            struct set_morsel morsel;

            if (d->condemned[s][m] && draw(c, 2) == 0) {
                assert_false(set_get(set_of(c, s), m, &morsel) && set_morsel_has(&morsel, d->id));
                d->condemned[s][m] = false;
                d->has[s][m] = 0;
                sets_collected(&c->sets, d->id, s + 1, m);
            }
        }
    }
}

void report(struct cloud *c, struct desk *d)
{
    struct donors_event event = { .type = DONORS_REPORT };

    collect(c, d);
    event.report.id = d->id;
    event.report.instance = d->instance;
    event.report.report = report_of(d);
    donors_do(c, &event);
    d->report_ms = c->now_ms + REPORT_MS;
}

/* It says what it has: what is in no map goes. Now and then a file was lost, too. */
void tell(struct cloud *c, struct desk *d)
{
    struct donors_event event = { .type = DONORS_TOLD };

    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t m = 0; m < MORSELS; m++) {
            struct set_morsel morsel;
            bool named = set_get(set_of(c, s), m, &morsel) && set_morsel_has(&morsel, d->id);

            if (named && morsel.donor_count > 1 && !c->smooth && draw(c, 200) == 0) {
                d->has[s][m] = 0;
            }
            if (named && d->has[s][m] == 0) {
                take_out(&morsel, d->id);
                change(c, s + 1, &morsel);
            }
            if (!named) {
                d->has[s][m] = 0;
            }
            c->taken_back += named && d->has[s][m] != 0;
        }
    }
    event.told.id = d->id;
    event.told.instance = d->instance;
    donors_do(c, &event);
}

void come(struct cloud *c, struct desk *d, bool again)
{
    struct donors_event event = { .type = DONORS_JOIN };

    if (!again || d->instance == 0) {
        d->instance = ++c->instances;
    }
    event.join.tag = 1;
    event.join.record.id = d->id;
    event.join.record.token[0] = (uint8_t)(d - c->desks + 1);
    event.join.record.name[0] = (char)('a' + (d - c->desks) % 5);
    event.join.instance = d->instance;
    event.join.told_held = again;
    event.join.report = report_of(d);
    d->up = true;
    d->id = (donor_id)(d - c->desks + 1);
    d->report_ms = c->now_ms;
    donors_do(c, &event);
    if (!again) {
        tell(c, d);
    }
}

void go(struct cloud *c, struct desk *d)
{
    struct donors_event event = { .type = DONORS_GONE };

    event.gone.id = d->id;
    event.gone.instance = d->instance;
    d->up = false;
    donors_do(c, &event);
}

/* ---- What repair wants ---- */

static void perform(struct cloud *c, const struct repair_action *action);

void step(struct cloud *c, struct repair_event *event)
{
    struct repair_actions out = { .count = 0 };

    event->now_ms = c->now_ms;
    relocate_step(&c->r, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(c, &out.items[i]);
    }
    repair_check(&c->r);
}

static void order(struct cloud *c, const struct repair_task *t)
{
    const struct donor *source = donor_of(c, t->source);
    uint32_t at = 0, sources = 0, targets = 0, all = 0;
    struct set_morsel m;

    assert_true(set_get(sets_find(&c->sets, t->set), t->morsel, &m));
    assert_true(set_morsel_has(&m, t->source) && !set_morsel_has(&m, t->target));
    assert_true(donor_gives(source) && counts(c, t->target));
    assert_true(t->off == 0 ||
                (set_morsel_has(&m, t->off) && donor_of(c, t->off)->report.excess > 0));
    assert_false(set_is_waste(sets_find(&c->sets, t->set), t->target, t->morsel));
    assert_true(m.digest == t->digest && m.length == t->length);
    assert_true(t->off != 0 || heat_is_hot(c->r.heat, t->set, t->morsel) ||
                copies_that_count(c, &m) < sets_find(&c->sets, t->set)->head.copies);
    for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
        const struct repair_task *other = &c->r.tasks[i];

        if (other->order != 0) {
            all++;
            sources += other->source == t->source;
            targets += other->target == t->target;
            assert_true(other->order == t->order || other->set != t->set ||
                        other->morsel != t->morsel);
        }
    }
    assert_true(all <= 64 && targets <= 2);
    assert_true(sources <= (source->report.leaving || source->report.excess > 0 ? 8 : 2));
    while (c->orders[at].busy) {
        at++;
    }
    c->orders[at] = (struct order){ true, *t, c->now_ms + 1 + draw(c, c->smooth ? 100 : 3000) };
}

static void add(struct cloud *c, const struct repair_action *a)
{
    const struct repair_task *t = &a->task;
    const struct data_set *set = sets_find(&c->sets, t->set);
    struct set_morsel m;

    assert_true(set_get(set, t->morsel, &m));
    if (m.digest != t->digest || set_morsel_has(&m, t->target) ||
        set_is_waste(set, t->target, t->morsel)) {
        c->voided++;
        if (!set_morsel_has(&m, t->target)) {
            condemn(c, t->target, t->set, t->morsel);
        }
        return;
    }
    if (a->instead != 0) {
        assert_true(set_morsel_has(&m, a->instead));
        assert_true(a->instead == t->off || donor_of(c, a->instead)->report.leaving ||
                    donor_of(c, a->instead)->state == DONOR_AWAY);
        take_out(&m, a->instead);
        condemn(c, a->instead, t->set, t->morsel);
        c->given_up += a->instead != t->off;
        c->moved += a->instead == t->off;
    }
    if (m.donor_count >= set->head.copies + SET_SURPLUS) {
        condemn(c, t->target, t->set, t->morsel); /* Others came back meanwhile. */
        return;
    }
    m.donors[m.donor_count++] = t->target;
    change(c, t->set, &m);
    c->fetched++;
}

void drop(struct cloud *c, const struct repair_task *t)
{
    const struct data_set *set = sets_find(&c->sets, t->set);
    struct set_morsel m;

    assert_true(set_get(set, t->morsel, &m) && set_morsel_has(&m, t->target));
    take_out(&m, t->target);
    assert_true(copies_that_count(c, &m) >= set->head.copies);
    change(c, t->set, &m);
    condemn(c, t->target, t->set, t->morsel);
    c->dropped++;
}

/* Its disk is pressed, nobody can take it, and another one counts. */
static void yield(struct cloud *c, const struct repair_task *t)
{
    struct set_morsel m;

    assert_true(set_get(sets_find(&c->sets, t->set), t->morsel, &m));
    assert_true(set_morsel_has(&m, t->target));
    assert_true(donor_of(c, t->target)->report.pressed > 0);
    take_out(&m, t->target);
    assert_true(copies_that_count(c, &m) > 0);
    change(c, t->set, &m);
    condemn(c, t->target, t->set, t->morsel);
    c->yielded++;
}

static void perform(struct cloud *c, const struct repair_action *action)
{
    const struct repair_task *t = &action->task;
    struct set_morsel m;

    switch (action->type) {
    case REPAIR_FETCH:
        order(c, t);
        break;
    case REPAIR_ADD:
        add(c, action);
        break;
    case REPAIR_FORGET:
        c->forgotten++;
        if (!set_get(sets_find(&c->sets, t->set), t->morsel, &m) ||
            !set_morsel_has(&m, t->target)) {
            condemn(c, t->target, t->set, t->morsel);
        }
        break;
    case REPAIR_DROP:
        drop(c, t);
        break;
    case REPAIR_YIELD:
        yield(c, t);
        break;
    }
}

static enum repair_outcome carry_out(struct cloud *c, const struct repair_task *t)
{
    struct desk *source = desk_of(c, t->source), *target = desk_of(c, t->target);

    if (!source->up || source->refuses) {
        return REPAIR_UNREACHABLE;
    }
    if (source->has[t->set - 1][t->morsel] != t->digest) {
        return REPAIR_DAMAGED;
    }
    if (used(target) >= target->room) {
        return REPAIR_NO_ROOM;
    }
    if (!c->smooth && draw(c, 30) == 0) {
        return REPAIR_FAILED;
    }
    target->has[t->set - 1][t->morsel] = t->digest;
    return REPAIR_DONE;
}

static void end_order(struct cloud *c, struct order *o)
{
    struct repair_event event = { .type = REPAIR_FETCHED, .fetched = o->task };
    const struct desk *target = desk_of(c, o->task.target);

    o->busy = false;
    if (!target->up || target->instance != o->task.target_instance) {
        return; /* The order died with its process. */
    }
    event.outcome = carry_out(c, &o->task);
    c->failed += event.outcome != REPAIR_DONE;
    if (c->smooth || draw(c, 50) > 0) { /* Or nobody hears of it. */
        step(c, &event);
    }
}

/* ---- What must be so, always ---- */

static void check(struct cloud *c)
{
    for (uint32_t s = 0; s < SETS; s++) {
        struct set_morsel m;

        for (uint32_t i = 0; i < MORSELS; i++) {
            bool there = set_get(set_of(c, s), i, &m);

            for (uint32_t j = 0; there && j < m.donor_count; j++) {
                struct desk *d = desk_of(c, m.donors[j]);

                assert_false(donor_gives(donor_of(c, d->id)) && d->has[s][i] != m.digest);
                assert_false(d->condemned[s][i]);
            }
        }
    }
}

/* ---- Time ---- */

void turn(struct cloud *c)
{
    struct donors_event tick = { .type = DONORS_TICK };
    struct repair_event due = { .type = REPAIR_TICK };

    for (uint32_t i = 0; i < DESKS; i++) {
        if (c->desks[i].up && c->desks[i].report_ms <= c->now_ms) {
            report(c, &c->desks[i]);
        }
    }
    for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX * 2; i++) {
        if (c->orders[i].busy && c->orders[i].due_ms <= c->now_ms) {
            end_order(c, &c->orders[i]);
        }
    }
    if (donors_deadline_ms(&c->donors) <= c->now_ms) {
        donors_do(c, &tick);
    }
    if (relocate_deadline_ms(&c->r) <= c->now_ms) {
        step(c, &due);
    }
    check(c);
}

/* So long, in steps that are as long as nothing is due. */
void pass(struct cloud *c, uint64_t ms)
{
    uint64_t end = c->now_ms + ms;

    while (c->now_ms < end) {
        uint64_t next = c->now_ms + REPORT_MS, due = relocate_deadline_ms(&c->r);

        turn(c);
        next = due < next ? due : next;
        for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX * 2; i++) {
            if (c->orders[i].busy && c->orders[i].due_ms < next) {
                next = c->orders[i].due_ms;
            }
        }
        c->now_ms = next > c->now_ms ? next : c->now_ms + 1;
    }
}

void cloud_make(struct cloud *c, uint64_t seed, uint64_t after_ms, uint32_t room)
{
    memset(c, 0, sizeof(*c));
    prng_seed(&c->prng, seed);
    c->now_ms = 1000000;
    sets_init(&c->sets);
    donors_init(&c->donors, LOOK_MS);
    repair_init(&c->r, &c->sets, &c->donors, after_ms, c->now_ms);
    make_sets(c, 0);
    for (uint32_t i = 0; i < DESKS; i++) {
        c->desks[i].room = c->desks[i].gives = room + (uint32_t)draw(c, room);
        come(c, &c->desks[i], false);
    }
}

void cloud_end(struct cloud *c)
{
    sets_check(&c->sets);
    donors_check(&c->donors);
    sets_free(&c->sets);
    donors_free(&c->donors);
}

/* Could one more be there? */
static bool has_place(struct cloud *c, uint32_t set, const struct set_morsel *m)
{
    for (uint32_t i = 0; i < DESKS; i++) {
        const struct desk *d = &c->desks[i];

        if (d->up && used(d) < d->room && !set_morsel_has(m, d->id) &&
            !d->condemned[set][m->number]) {
            return true;
        }
    }
    return false;
}

/* Behind a time in which nothing has happened. */
void all_is_well(struct cloud *c, bool exact)
{
    uint64_t short_ = 0, away = 0;

    for (uint32_t s = 0; s < SETS; s++) {
        const struct data_set *set = set_of(c, s);
        struct set_morsel m;

        for (uint32_t i = 0; i < MORSELS; i++) {
            uint32_t n = set_get(set, i, &m) ? copies_that_count(c, &m) : set->head.copies;

            assert_true(n == 0 || n >= set->head.copies || !has_place(c, s, &m));
            assert_false(exact && n > set->head.copies && !repair_extra_stays(&c->r, set, i));
            short_ += n < set->head.copies;
            away += n == 0;
        }
    }
    assert_int_equal(c->r.task_count, 0);
    assert_int_equal(c->r.morsels_short, short_);
    assert_int_equal(c->r.morsels_away, away);
}
