/* The host of the manager's cores, with a store that keeps what is given to it. */
#include "tests/sim/cloud.h"

#include "common/base/check.h"

#include <string.h>

enum {
    LOOK_MS = 3000000, /* Reports come each turn. */
    AFTER_MS = 900000,
    STEP_MS = 5,
    FETCH_MS = 20000,
    STEPS_MAX = 2000, /* Of one turn. */
    FETCH_ROUNDS_MAX = 40,
    FETCH_FAILS = 50, /* One of so many. */
    SETS_A_DAY = 4,
    RESTART_S = 8 * CLOUD_DAY_S,
    KEEP_BATCH = 64
};

static const int64_t epoch_s =
    (int64_t)4 * CLOUD_DAY_S + (int64_t)7 * CLOUD_DAY_S * 2900; /* A Monday. */

static struct hours_time time_of(const struct cloud *c)
{
    int64_t s = (int64_t)(c->now_ms / 1000);

    return (struct hours_time){ s, epoch_s + c->now_s + s % CLOUD_TURN_S };
}

/* ---- Benefactors ---- */

static void donors_do(struct cloud *c, struct donors_event *event)
{
    struct donors_actions out = { .count = 0 };
    struct hours_time now = time_of(c);

    event->now_ms = c->now_ms;
    donors_step(&c->donors, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        if (out.items[i].type == DONORS_PERSIST) {
            struct donors_event durable = { .type = DONORS_PERSISTED };

            durable.persisted.id = out.items[i].id;
            donors_do(c, &durable);
        } else if (out.items[i].type == DONORS_CAME) {
            hours_come(&c->hours, out.items[i].id, &now);
        } else if (out.items[i].type == DONORS_WENT) {
            hours_go(&c->hours, out.items[i].id, &now);
        }
    }
}

static struct donor_report report_of(const struct cloud_desk *d)
{
    return (struct donor_report){ .donated = (uint64_t)d->room * CLOUD_BYTES,
                                  .used = (uint64_t)d->used * CLOUD_BYTES };
}

static struct donor_record record_of(donor_id id)
{
    struct donor_record record = { .id = id };

    memcpy(record.token, &id, sizeof(id));
    memcpy(record.name, &id, sizeof(id));
    return record;
}

static void told(struct cloud *c, donor_id id)
{
    struct donors_event event = { .type = DONORS_TOLD };

    event.told.id = id;
    event.told.instance = desk_of(c, id)->instance;
    donors_do(c, &event);
}

void manager_came(struct cloud *c, donor_id id, bool again)
{
    struct donors_event event = { .type = DONORS_JOIN };
    const struct cloud_desk *d = desk_of(c, id);

    event.join.tag = 1;
    event.join.record = record_of(id);
    event.join.record.id = donors_find(&c->donors, id) != NULL ? id : 0;
    event.join.instance = d->instance;
    event.join.told_held = again;
    event.join.report = report_of(d);
    donors_do(c, &event);
    CHECK(donors_find(&c->donors, id) != NULL);
    told(c,
         id); /* What repair has ordered and nobody has heard of is waste by then: there is none. */
}

/* ---- What is to be deleted ---- */

struct cloud_morsel *truth_of(struct cloud *c, uint64_t set, uint32_t morsel)
{
    for (uint32_t i = 0; i < CLOUD_SETS * 2; i++) {
        if (c->sets_made[i].number == set) {
            return &c->sets_made[i].morsels[morsel];
        }
    }
    CHECK(false);
    return NULL;
}

/* As an operation would say it. */
static void condemn(struct cloud *c, donor_id id, uint64_t set, uint32_t morsel)
{
    struct cloud_morsel *m = truth_of(c, set, morsel);
    const struct data_set *s = sets_find(&c->sets, set);

    for (uint32_t i = 0; i < m->count; i++) {
        if (m->holders[i] == id && !m->waste[i]) {
            CHECK(sets_reserve_donor(&c->sets, id) == 0);
            CHECK(s == NULL || sets_reserve(&c->sets, &s->head, NULL, 0, 1) == 0);
            sets_wasted(&c->sets, id, set, morsel, 1, true);
            m->waste[i] = true;
        }
    }
}

/* It deletes what it was told to, and says so. */
static void collect(struct cloud *c, donor_id id)
{
    for (uint32_t s = 0; s < CLOUD_SETS * 2; s++) {
        struct cloud_set *set = &c->sets_made[s];

        for (uint32_t i = 0; set->number != 0 && i < CLOUD_MORSELS; i++) {
            struct cloud_morsel *m = &set->morsels[i];

            for (uint32_t j = m->count; j-- > 0;) {
                if (m->holders[j] == id && m->waste[j]) {
                    m->count--;
                    m->holders[j] = m->holders[m->count];
                    m->waste[j] = m->waste[m->count];
                    desk_of(c, id)->used--;
                    sets_collected(&c->sets, id, set->number, i);
                }
            }
        }
    }
}

void manager_report(struct cloud *c, donor_id id)
{
    struct donors_event event = { .type = DONORS_REPORT };
    const struct donor_sets *mine = sets_of_donor(&c->sets, id);

    if (mine != NULL && mine->waste > 0) {
        collect(c, id);
    }
    event.report.tag = 1;
    event.report.id = id;
    event.report.instance = desk_of(c, id)->instance;
    event.report.report = report_of(desk_of(c, id));
    donors_do(c, &event);
}

/* ---- Data sets ---- */

static void change(struct cloud *c, uint64_t set, const struct set_morsel *m)
{
    const struct set_change changed = { set, *m };

    CHECK(sets_reserve(&c->sets, &sets_find(&c->sets, set)->head, &changed, 1, 0) == 0);
    sets_apply(&c->sets, &changed, 1);
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

/* Whatever the maps have there. */
static void forget(struct cloud *c, donor_id id)
{
    for (uint32_t s = 0; s < c->sets.count; s++) {
        for (uint32_t i = 0; i < CLOUD_MORSELS; i++) {
            struct set_morsel m;

            if (set_get(c->sets.items[s], i, &m) && set_morsel_has(&m, id)) {
                take_out(&m, id);
                change(c, c->sets.items[s]->head.number, &m);
            }
        }
    }
}

void manager_left(struct cloud *c, donor_id id, bool orderly)
{
    struct donors_event event = { .type = orderly ? DONORS_REPORT : DONORS_GONE };

    if (orderly) {
        event.report.tag = 1;
        event.report.id = id;
        event.report.instance = desk_of(c, id)->instance;
        event.report.report = report_of(desk_of(c, id));
        event.report.leaves = true;
    } else {
        event.gone.id = id;
        event.gone.instance = desk_of(c, id)->instance;
    }
    donors_do(c, &event);
    if (cloud_is(c, "takes_away_for_gone")) {
        forget(c, id);
    }
}

static uint32_t candidates_of(struct cloud *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->donors.count; i++) {
        const struct donor *donor = c->donors.items[i];

        if (donor_takes(donor)) {
            c->candidates[count++] = (struct place_candidate){
                .id = donor->record.id,
                .free = donor_room(donor),
                .host = donor->record.id,
                .awake = c->without_hours ? NULL : hours_awake(&c->hours, donor->record.id)
            };
        }
    }
    return count;
}

static void store(struct cloud *c, struct cloud_set *set)
{
    struct set_head head = { .number = ++c->numbers,
                             .inode = c->numbers,
                             .writer = 1,
                             .copies = CLOUD_COPIES,
                             .morsel_bytes = CLOUD_BYTES,
                             .sealed = true };
    const struct place_wanted w = { .count = CLOUD_MORSELS,
                                    .copies = CLOUD_COPIES,
                                    .width = 4,
                                    .stripe_morsels = 1,
                                    .morsel_bytes = CLOUD_BYTES };
    uint32_t count = candidates_of(c);
    struct placed placed;

    place_sort(c->candidates, count);
    place_deal(&w, c->candidates, count, place_round(&w, c->candidates, count), &placed);
    if (placed.count < CLOUD_MORSELS) {
        return; /* ENOSPC */
    }
    *set = (struct cloud_set){ .number = head.number };
    CHECK(sets_reserve(&c->sets, &head, NULL, 0, 0) == 0);
    sets_made(&c->sets, &head);
    for (uint32_t i = 0; i < CLOUD_MORSELS; i++) {
        struct set_morsel m = { .number = i, .length = CLOUD_BYTES, .digest = i + 1 };

        for (uint32_t j = 0; j < placed.copies; j++) {
            donor_id id = placed.donors[i * placed.copies + j];

            if (desk_stores(c, id, &set->morsels[i])) {
                m.donors[m.donor_count++] = id;
                donors_promise(&c->donors, id, CLOUD_BYTES);
            }
        }
        change(c, set->number, &m);
    }
}

static void delete_set(struct cloud *c, struct cloud_set *set)
{
    for (uint32_t i = 0; i < CLOUD_MORSELS; i++) {
        for (uint32_t j = 0; j < set->morsels[i].count; j++) {
            condemn(c, set->morsels[i].holders[j], set->number, i);
        }
    }
    sets_remove(&c->sets, set->number);
    set->deleted = true;
    c->deleted++;
}

/* Is there nothing left of it on any disk? */
static bool is_over(const struct cloud_set *set)
{
    for (uint32_t i = 0; i < CLOUD_MORSELS; i++) {
        if (set->morsels[i].count > 0) {
            return false;
        }
    }
    return set->deleted;
}

/* There are as many sets as there shall be, and some make way for others. */
static void clients_turn(struct cloud *c)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < CLOUD_SETS * 2; i++) {
        struct cloud_set *set = &c->sets_made[i];

        if (set->number != 0 && is_over(set)) {
            set->number = 0;
        }
        live += set->number != 0 && !set->deleted;
    }
    for (uint32_t i = 0; i < CLOUD_SETS * 2; i++) {
        struct cloud_set *set = &c->sets_made[i];
        bool chosen = cloud_draw(c, (uint64_t)CLOUD_SETS * CLOUD_DAY_S / CLOUD_TURN_S) < SETS_A_DAY;

        if (set->number == 0 && live < CLOUD_SETS) {
            store(c, set);
            live++;
        } else if (set->number != 0 && !set->deleted && chosen) {
            delete_set(c, set);
            live--;
        }
    }
}

/* ---- Repair ---- */

static void add(struct cloud *c, const struct repair_action *a)
{
    const struct repair_task *t = &a->task;
    const struct data_set *set = sets_find(&c->sets, t->set);
    struct set_morsel m;

    if (set == NULL) {
        condemn(c, t->target, t->set, t->morsel); /* It was deleted meanwhile. */
        return;
    }
    CHECK(set_get(set, t->morsel, &m));
    if (a->instead != 0 && set_morsel_has(&m, a->instead)) {
        take_out(&m, a->instead);
        condemn(c, a->instead, t->set, t->morsel);
        c->given_up++;
    }
    if (m.donor_count >= CLOUD_COPIES + SET_SURPLUS || set_morsel_has(&m, t->target)) {
        condemn(c, t->target, t->set, t->morsel);
        return;
    }
    m.donors[m.donor_count++] = t->target;
    change(c, t->set, &m);
    c->copied++;
    c->days[c->now_s / CLOUD_DAY_S].copied++;
}

static void drop(struct cloud *c, const struct repair_task *t)
{
    struct set_morsel m;

    CHECK(set_get(sets_find(&c->sets, t->set), t->morsel, &m));
    if (!cloud_is(c, "deletes_what_the_map_has")) {
        take_out(&m, t->target);
        change(c, t->set, &m);
    }
    condemn(c, t->target, t->set, t->morsel);
    c->dropped++;
}

static void repair_do(struct cloud *c, struct repair_event *event)
{
    struct repair_actions out = { .count = 0 };

    event->now_ms = c->now_ms;
    repair_step(&c->repair, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        const struct repair_action *a = &out.items[i];

        switch (a->type) {
        case REPAIR_FETCH:
            CHECK(c->order_count < REPAIR_FLIGHT_MAX);
            c->orders[c->order_count++] = a->task;
            break;
        case REPAIR_ADD:
            add(c, a);
            break;
        case REPAIR_FORGET:
            condemn(c, a->task.target, a->task.set, a->task.morsel);
            break;
        case REPAIR_DROP:
        case REPAIR_YIELD:
            drop(c, &a->task);
            break;
        }
    }
}

static enum repair_outcome carry_out(struct cloud *c, const struct repair_task *t)
{
    struct cloud_morsel *m = truth_of(c, t->set, t->morsel);

    if (!desk_of(c, t->source)->up || !holds(m, t->source)) {
        return REPAIR_UNREACHABLE;
    }
    if (cloud_is(c, "believes_what_is_not_done")) {
        return REPAIR_DONE;
    }
    if (cloud_draw(c, FETCH_FAILS) == 0) {
        return REPAIR_FAILED;
    }
    return desk_stores(c, t->target, m) ? REPAIR_DONE : REPAIR_NO_ROOM;
}

static void end_orders(struct cloud *c)
{
    struct repair_task orders[REPAIR_FLIGHT_MAX];
    uint32_t count = c->order_count;

    memcpy(orders, c->orders, sizeof(orders));
    c->order_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct repair_event event = { .type = REPAIR_FETCHED, .fetched = orders[i] };

        event.outcome = carry_out(c, &orders[i]);
        repair_do(c, &event);
    }
}

/* Until it has nothing to do, or the turn is over. */
static void repair_turn(struct cloud *c)
{
    struct repair_event tick = { .type = REPAIR_TICK };
    uint32_t steps = 0;

    for (uint32_t round = 0; round < FETCH_ROUNDS_MAX; round++) {
        do {
            repair_do(c, &tick);
            c->now_ms += STEP_MS;
        } while (repair_deadline_ms(&c->repair) <= c->now_ms && ++steps < STEPS_MAX);
        if (c->order_count == 0) {
            return;
        }
        c->now_ms += FETCH_MS;
        end_orders(c);
    }
}

/* ---- The manager ---- */

static void keep(struct cloud *c)
{
    struct hours_record records[KEEP_BATCH];
    uint32_t count;

    while ((count = hours_keep(&c->hours, (int64_t)(c->now_ms / 1000), records, KEEP_BATCH)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            c->kept[records[i].id - 1] = records[i];
        }
    }
}

void manager_start(struct cloud *c, uint64_t now_ms)
{
    struct hours_time now;

    c->now_ms = now_ms;
    now = time_of(c);
    donors_init(&c->donors, LOOK_MS);
    hours_init(&c->hours);
    for (uint32_t i = 0; i < CLOUD_DESKS; i++) {
        struct donor_record record = record_of(i + 1);

        CHECK(c->restarts == 0 || donors_add(&c->donors, &record, c->now_ms) == 0);
        CHECK(c->kept[i].id == 0 || hours_load(&c->hours, &c->kept[i], &now) == 0);
    }
    repair_init(&c->repair, &c->sets, &c->donors, AFTER_MS, c->now_ms);
    c->repair.hours = c->without_hours ? NULL : &c->hours;
    c->order_count = 0;
    c->restart_s = c->now_s + (int64_t)cloud_draw(c, 2 * (uint64_t)RESTART_S);
}

void manager_stop(struct cloud *c)
{
    donors_free(&c->donors);
    hours_free(&c->hours);
}

static void restart(struct cloud *c)
{
    manager_stop(c);
    c->restarts++;
    manager_start(c, (c->now_ms / CLOUD_TURN_S / 1000 + 1 + cloud_draw(c, 1000)) * CLOUD_TURN_S *
                         1000);
    for (donor_id id = 1; id <= CLOUD_DESKS; id++) {
        if (desk_of(c, id)->up) {
            manager_came(c, id, true);
        }
    }
}

void manager_turn(struct cloud *c)
{
    struct donors_event tick = { .type = DONORS_TICK };
    struct hours_time now = time_of(c);

    if (c->restart_s <= c->now_s && c->donors.count == CLOUD_DESKS) {
        restart(c);
        now = time_of(c);
    }
    while (donors_deadline_ms(&c->donors) <= c->now_ms) {
        donors_do(c, &tick);
    }
    hours_tick(&c->hours, &now);
    hours_check(&c->hours);
    keep(c);
    clients_turn(c);
    repair_turn(c);
    repair_check(&c->repair);
}
