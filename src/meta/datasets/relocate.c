/* Walks over what those have that give way. */
#include "meta/datasets/relocate.h"
#include "meta/datasets/copies_at.h"

enum {
    WAIT_MS = 20, /* For others that have enough to do. */
    IDLE_MS = 200 /* For a report. */
};

enum pass { PASS_SURPLUS, PASS_SPARE, PASS_LAST, PASS_PRESSED, PASS_END };

bool relocate_goes_on(const struct donor *donor)
{
    return donor->report.leaving || donor->repair.left.stuck_bytes < donor->report.excess;
}

uint64_t relocate_deadline_ms(const struct repair *r)
{
    uint64_t due_ms = repair_deadline_ms(r);

    return r->donors->giving_way > 0 && r->relocate.due_ms < due_ms ? r->relocate.due_ms : due_ms;
}

/* ---- How much ---- */

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Of what was dropped all is gone when nothing waits to be deleted, and its last report knows that. Only at the beginning of
 * a step: what is dropped in it is not in the maps yet. */
static void forget_gone(const struct repair *r, struct donor *donor)
{
    const struct donor_sets *sets = sets_of_donor(r->sets, donor->record.id);

    if (sets == NULL || sets->waste == 0) {
        donor->repair.gone = 0;
    }
}

static uint64_t on_its_way(const struct repair *r, const struct donor *donor)
{
    uint64_t bytes = donor->repair.gone;

    for (uint32_t i = 0; r->task_count > 0 && i < REPAIR_FLIGHT_MAX; i++) {
        if (r->tasks[i].order != 0 && r->tasks[i].off == donor->record.id) {
            bytes += repair_file_bytes(r->tasks[i].length);
        }
    }
    return bytes;
}

/* What has to go besides. */
static uint64_t to_go(const struct repair *r, const struct donor *donor)
{
    return beyond(donor->report.excess, on_its_way(r, donor));
}

/* ---- One morsel ---- */

static void let_go(struct repair *r, struct donor *donor, const struct data_set *set,
                   const struct set_morsel *m, bool yields, struct repair_actions *out)
{
    const struct repair_task task = { .set = set->head.number,
                                      .morsel = m->number,
                                      .length = m->length,
                                      .target = donor->record.id };

    (void)repair_emit(out, yields ? REPAIR_YIELD : REPAIR_DROP, &task);
    donor->repair.gone += repair_file_bytes(m->length);
    r->dropped += !yields;
    r->yielded += yields;
    r->relocate.found = true;
}

/* WAIT: it is looked at again when others have less to do. */
enum treated { TREATED, TREATED_WAIT };

static enum treated move(struct repair *r, struct donor *donor, const struct data_set *set,
                         const struct set_morsel *m, uint64_t now_ms, struct repair_actions *out)
{
    enum repair_chosen chosen;

    if (r->task_count == REPAIR_FLIGHT_MAX) {
        return TREATED_WAIT;
    }
    chosen = repair_fetch(r, set, m, donor->record.id, now_ms, out);
    r->relocate.found |= chosen != REPAIR_CHOSEN_NONE;
    return chosen == REPAIR_CHOSEN_BUSY ? TREATED_WAIT : TREATED;
}

static enum treated treat(struct repair *r, struct donor *donor, const struct data_set *set,
                          const struct set_morsel *m, uint64_t now_ms, struct repair_actions *out)
{
    uint32_t elsewhere = copies_elsewhere(r, set, m, donor->record.id, now_ms);

    if (m->rewriting || m->length == 0 || set->waste_count >= REPAIR_WASTE_MAX ||
        repair_task_of(r, set->head.number, m->number) != NULL) {
        return TREATED;
    }
    if (elsewhere >= set->head.copies) {
        let_go(r, donor, set, m, false, out);
        return TREATED;
    }
    switch (r->relocate.pass) {
    case PASS_SPARE:
        return elsewhere > 0 ? move(r, donor, set, m, now_ms, out) : TREATED;
    case PASS_LAST:
        return elsewhere == 0 ? move(r, donor, set, m, now_ms, out) : TREATED;
    case PASS_PRESSED:
        if (elsewhere > 0 && donor->report.pressed > on_its_way(r, donor) &&
            !repair_could(r, set, m, now_ms)) {
            let_go(r, donor, set, m, true, out);
        }
        return TREATED;
    default:
        return TREATED;
    }
}

/* ---- Walking ---- */

/* One of whom something has to go, from where the walk is on. NULL: there is none behind. */
static struct donor *next_donor(const struct repair *r, uint64_t now_ms)
{
    for (uint32_t i = donors_from(r->donors, r->relocate.donor); i < r->donors->count; i++) {
        struct donor *donor = r->donors->items[i];

        if (donor->report.excess == 0 || !donor_gives(donor) || donor->says_leaving ||
            donor->repair.next_walk_ms > now_ms) {
            continue;
        }
        forget_gone(r, donor);
        if (to_go(r, donor) > 0) {
            return donor;
        }
    }
    return NULL;
}

static void begin(struct relocate *at, donor_id donor)
{
    at->donor = donor;
    at->pass = PASS_SURPLUS;
    at->at = (struct repair_place){ 0, 0 };
    at->found = false;
}

/* All passes are over. Where nothing can go, that is so for a while. */
static void end_walk(struct repair *r, struct donor *donor, uint64_t now_ms)
{
    donor->repair.left.stuck_bytes = r->relocate.found ? 0 : to_go(r, donor);
    donor->repair.next_walk_ms = r->relocate.found ? 0 : now_ms + r->period_ms;
    begin(&r->relocate, donor->record.id + 1);
}

/* What is read most is moved before the rest of a pass. Whom it finds busy, the walk finds. */
static void move_hottest(struct repair *r, struct donor *donor, uint64_t now_ms,
                         struct repair_actions *out)
{
    bool moves = r->relocate.pass == PASS_SPARE || r->relocate.pass == PASS_LAST;

    for (uint32_t i = 0; moves && r->heat != NULL && i < r->heat->hot_count; i++) {
        const struct data_set *set = sets_find(r->sets, r->heat->hot[i].set);
        struct set_morsel m;

        if (out->count < REPAIR_DROPS_MAX && to_go(r, donor) > 0 && set != NULL &&
            set_get(set, r->heat->hot[i].morsel, &m) && set_morsel_has(&m, donor->record.id)) {
            (void)treat(r, donor, set, &m, now_ms, out);
        }
    }
}

static void walk(struct repair *r, struct donor *donor, uint64_t now_ms, struct repair_actions *out)
{
    struct relocate *at = &r->relocate;
    uint32_t looks = REPAIR_STEP_LOOKS;
    const struct data_set *set;
    struct set_morsel m;
    bool end = false;

    move_hottest(r, donor, now_ms, out);
    while (out->count < REPAIR_DROPS_MAX && to_go(r, donor) > 0 &&
           copies_at_next(r->sets, donor->record.id, COPIES_ALL, &at->at, &looks, &end, &set, &m)) {
        if (treat(r, donor, set, &m, now_ms, out) == TREATED_WAIT) {
            at->at = (struct repair_place){ set->head.number, m.number };
            at->due_ms = now_ms + WAIT_MS;
            return;
        }
    }
    if (end) {
        at->at = (struct repair_place){ 0, 0 };
        if (++at->pass == PASS_END) {
            end_walk(r, donor, now_ms);
        }
    }
}

/* True: copies go; nothing else is to be decided before the maps know. */
static bool relocate(struct repair *r, uint64_t now_ms, struct repair_actions *out)
{
    uint64_t gone = r->dropped + r->yielded;
    struct relocate *at = &r->relocate;
    struct donor *donor;

    if (r->donors->giving_way == 0 || at->due_ms > now_ms) {
        return false;
    }
    donor = next_donor(r, now_ms);
    if (donor == NULL) {
        at->due_ms = now_ms + (at->donor > 0 ? REPAIR_STEP_MS : IDLE_MS);
        begin(at, 0);
        return false;
    }
    at->due_ms = now_ms + REPAIR_STEP_MS;
    if (donor->record.id != at->donor) {
        begin(at, donor->record.id);
    }
    walk(r, donor, now_ms, out);
    return r->dropped + r->yielded != gone;
}

void relocate_step(struct repair *r, const struct repair_event *event, struct repair_actions *out)
{
    if (event->type != REPAIR_TICK || !relocate(r, event->now_ms, out)) {
        repair_step(r, event, out);
    }
}
