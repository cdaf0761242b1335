/* Two passes over all sets, tasks that are under way, and what has failed a moment ago. */
#include "meta/datasets/repair.h"

#include "common/base/check.h"
#include "meta/cluster/doors.h"

#include <string.h>

enum {
    BLOCK = 4096,
    WINDOW = 512,
    PERIOD_MS_MIN = 200,
    PERIOD_MS_MAX = 10000,
    PERIOD_PARTS = 8,
    LAST_COPY_PARTS = 4,
    MS_OF_SECOND = 1000,
    FULL_PARTS = 16,
    SILENT_MS = 2000,
    FAILED_MS = 10000,
    DAMAGED_MS = 60000,
    FULL_MS = 30000
};

/* A step orders as many fetches as there may be, ends as many, and drops some. */
static_assert(REPAIR_ACTIONS_MAX >= 2 * REPAIR_FLIGHT_MAX, "ends and fetches fit");

void repair_init(struct repair *r, const struct sets *sets, struct donors *donors,
                 uint64_t after_ms, uint64_t now_ms)
{
    uint64_t period_ms = after_ms / PERIOD_PARTS;

    memset(r, 0, sizeof(*r));
    r->sets = sets;
    r->donors = donors;
    r->after_ms = after_ms;
    r->period_ms = period_ms < PERIOD_MS_MIN   ? PERIOD_MS_MIN
                   : period_ms > PERIOD_MS_MAX ? PERIOD_MS_MAX
                                               : period_ms;
    r->pass = REPAIR_PASS_END;
    r->pass_due_ms = r->count_due_ms = now_ms;
}

/* ---- Benefactors ---- */

uint64_t repair_file_bytes(uint32_t length)
{
    return ((uint64_t)length + BLOCK - 1) / BLOCK * BLOCK;
}

struct donor *repair_donor(const struct repair *r, donor_id id)
{
    uint32_t at = donors_from(r->donors, id);

    return at < r->donors->count && r->donors->items[at]->record.id == id ? r->donors->items[at]
                                                                          : NULL;
}

/* Does it keep hours, by which it comes back? */
static bool keeps_hours(const struct repair *r, const struct donor *donor, bool last,
                        uint64_t now_ms)
{
    uint32_t most = last ? REPAIR_GONE_LAST : REPAIR_GONE_REST;

    return r->hours != NULL && r->after_ms > 0 && hours_known(r->hours, donor->record.id) &&
           hours_gone(r->hours, donor->record.id, (int64_t)(now_ms / MS_OF_SECOND)) < most;
}

/* `last`: only one copy of the morsel counts. */
static bool is_expected(const struct repair *r, const struct donor *donor, bool last,
                        uint64_t now_ms)
{
    uint64_t wait_ms = last ? r->after_ms / LAST_COPY_PARTS : r->after_ms;

    return donor != NULL && !donor->report.leaving &&
           (donor->state != DONOR_AWAY || now_ms - donor->heard_ms < wait_ms ||
            keeps_hours(r, donor, last, now_ms));
}

/* Less than the sixteenth part of what it gives. */
static bool is_nearly_full(const struct donor *donor)
{
    return donor_room(donor) < donor->report.donated / FULL_PARTS;
}

/* ---- What has failed ---- */

static void note_failure(struct repair *r, const struct repair_task *task, donor_id donor,
                         uint64_t until_ms)
{
    r->failures[r->failure_next] =
        (struct repair_failure){ task->set, until_ms, task->morsel, donor };
    r->failure_next = (r->failure_next + 1) % REPAIR_FAILURES_MAX;
}

bool repair_has_failed(const struct repair *r, uint64_t set, uint32_t morsel, donor_id donor,
                       uint64_t now_ms)
{
    for (uint32_t i = 0; i < REPAIR_FAILURES_MAX; i++) {
        const struct repair_failure *f = &r->failures[i];

        if (f->donor == donor && f->set == set && f->morsel == morsel && f->until_ms > now_ms) {
            return true;
        }
    }
    return false;
}

/* ---- Tasks ---- */

struct repair_action *repair_emit(struct repair_actions *out, int type,
                                  const struct repair_task *task)
{
    struct repair_action *action = &out->items[out->count++];

    CHECK(out->count <= REPAIR_ACTIONS_MAX);
    memset(action, 0, sizeof(*action));
    action->type = type;
    action->task = *task;
    return action;
}

struct repair_task *repair_task_of(struct repair *r, uint64_t set, uint32_t morsel)
{
    for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
        if (r->tasks[i].order != 0 && r->tasks[i].set == set && r->tasks[i].morsel == morsel) {
            return &r->tasks[i];
        }
    }
    return NULL;
}

bool repair_is_fetching(const struct repair *r, uint64_t set, uint32_t morsel, donor_id target)
{
    for (uint32_t i = 0; r->task_count > 0 && i < REPAIR_FLIGHT_MAX; i++) {
        if (r->tasks[i].order != 0 && r->tasks[i].set == set && r->tasks[i].morsel == morsel &&
            r->tasks[i].target == target) {
            return true;
        }
    }
    return false;
}

static void task_begin(struct repair *r, const struct repair_task *wanted,
                       struct repair_actions *out)
{
    uint32_t i = 0;

    while (r->tasks[i].order != 0) {
        i++;
    }
    r->tasks[i] = *wanted;
    r->tasks[i].order = ++r->orders;
    r->task_count++;
    repair_donor(r, wanted->source)->repair.sources++;
    repair_donor(r, wanted->target)->repair.targets++;
    donors_promise(r->donors, wanted->target, wanted->length);
    (void)repair_emit(out, REPAIR_FETCH, &r->tasks[i]);
}

static void task_end(struct repair *r, struct repair_task *task)
{
    struct donor *source = repair_donor(r, task->source);
    struct donor *target = repair_donor(r, task->target);

    if (source != NULL) {
        source->repair.sources--;
    }
    if (target != NULL) {
        target->repair.targets--;
    }
    r->task_count--;
    r->waits = false;
    r->hottest_due = true;
    task->order = 0;
}

static void note_outcome(struct repair *r, const struct repair_task *task,
                         enum repair_outcome outcome, uint64_t now_ms)
{
    struct donor *source = repair_donor(r, task->source);
    struct donor *target = repair_donor(r, task->target);

    if (source == NULL || target == NULL) {
        return; /* Forgotten: there is nobody to be spared. */
    }
    switch (outcome) {
    case REPAIR_DONE:
        break;
    case REPAIR_UNREACHABLE: /* Or the target reaches nobody: others ask it again soon. */
        source->repair.silent_until_ms = now_ms + SILENT_MS;
        note_failure(r, task, task->source, now_ms + FAILED_MS);
        break;
    case REPAIR_DAMAGED:
        note_failure(r, task, task->source, now_ms + DAMAGED_MS);
        break;
    case REPAIR_NO_ROOM:
        target->repair.full_until_ms = now_ms + FULL_MS;
        break;
    default:
        note_failure(r, task, task->target, now_ms + FAILED_MS);
        break;
    }
}

static void task_fail(struct repair *r, struct repair_task *task, enum repair_outcome outcome,
                      uint64_t now_ms, struct repair_actions *out)
{
    note_outcome(r, task, outcome, now_ms);
    r->failed++;
    repair_emit(out, REPAIR_FORGET, task)->outcome = outcome;
    task_end(r, task);
}

/* Whose target is gone, is about to, or is another process, and those that take too long. */
static void end_tasks(struct repair *r, uint64_t now_ms, struct repair_actions *out)
{
    for (uint32_t i = 0; r->task_count > 0 && i < REPAIR_FLIGHT_MAX; i++) {
        struct repair_task *task = &r->tasks[i];
        const struct donor *target = task->order != 0 ? repair_donor(r, task->target) : NULL;

        if (task->order != 0 &&
            (target == NULL || target->state == DONOR_AWAY || target->report.leaving ||
             task->due_ms <= now_ms || target->instance != task->target_instance)) {
            task_fail(r, task, REPAIR_FAILED, now_ms, out);
        }
    }
}

/* Those that leave, or off which it was moved, have so much less to be moved. */
static void note_moved(struct repair *r, const struct set_morsel *m, const struct repair_task *task)
{
    for (uint32_t i = 0; i < m->donor_count; i++) {
        struct donor *donor = repair_donor(r, m->donors[i]);

        if (donor != NULL && (donor->report.leaving || donor->record.id == task->off)) {
            donor->repair.left.moved++;
            donor->repair.left.moved_bytes += task->length;
        }
    }
    if (task->off != 0 && set_morsel_has(m, task->off)) {
        repair_donor(r, task->off)->repair.gone += repair_file_bytes(task->length);
        r->moved++;
        r->moved_bytes += task->length;
    }
}

static void on_fetched(struct repair *r, const struct repair_event *event,
                       struct repair_actions *out)
{
    const struct repair_task *told = &event->fetched;
    struct repair_task *task = repair_task_of(r, told->set, told->morsel);
    const struct data_set *set = sets_find(r->sets, told->set);
    const struct donor *target;
    struct set_morsel m;

    if (task == NULL || task->target != told->target) {
        repair_emit(out, REPAIR_FORGET, told)->outcome = event->outcome; /* Nobody waits for it. */
        return;
    }
    if (task->order != told->order || task->length != told->length ||
        task->digest != told->digest) {
        return; /* Of a manager before this one; the answer to ours is still to come. */
    }
    if (event->outcome != REPAIR_DONE || set == NULL || !set_get(set, told->morsel, &m)) {
        task_fail(r, task, event->outcome, event->now_ms, out);
        return;
    }
    target = repair_donor(r, task->target);
    if (target == NULL || target->report.leaving) { /* Nobody's copy is given up for that. */
        task_fail(r, task, REPAIR_FAILED, event->now_ms, out);
        return;
    }
    r->added++;
    r->added_bytes += task->length;
    repair_emit(out, REPAIR_ADD, task)->instead =
        repair_given_up(r, set, &m, task->off, event->now_ms);
    note_moved(r, &m, task);
    task_end(r, task);
}

/* ---- One morsel ---- */

struct look
{
    uint32_t counts, expected;
    uint32_t leaving; /* Can be read at those that leave. */
    bool steady;      /* All that count have been here for long. */
};

static struct look look_at(const struct repair *r, const struct set_morsel *m, uint64_t now_ms)
{
    struct look look = { .steady = true };

    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (donor != NULL && donor_takes(donor)) {
            look.counts++;
            look.steady &= now_ms - donor->since_ms >= r->after_ms * REPAIR_KEEP_TIMES;
        } else if (donor != NULL && donor_gives(donor)) {
            look.leaving++;
        }
    }
    for (uint32_t i = 0; i < m->donor_count; i++) {
        look.expected += is_expected(r, repair_donor(r, m->donors[i]), look.counts <= 1, now_ms);
    }
    return look;
}

/* Does it give copies out? One that refused lately is left alone, whatever morsel it was: its owner has paused it, or needs his machine. */
static bool may_give(const struct repair *r, const struct donor *donor, uint64_t set,
                     uint32_t morsel, uint64_t now_ms)
{
    return donor != NULL && donor_gives(donor) && !donor->report.paused &&
           donor->repair.silent_until_ms <= now_ms &&
           !repair_has_failed(r, set, morsel, donor->record.id, now_ms);
}

static uint32_t sources_max(const struct donor *donor)
{
    return donor->report.leaving || donor->report.excess > 0 ? REPAIR_LEAVING_MAX
                                                             : REPAIR_DONOR_MAX;
}

static enum repair_chosen choose_source(const struct repair *r, const struct data_set *set,
                                        const struct set_morsel *m, uint64_t now_ms,
                                        donor_id *source)
{
    enum repair_chosen chosen = REPAIR_CHOSEN_NONE;
    uint32_t least = REPAIR_LEAVING_MAX;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (!may_give(r, donor, set->head.number, m->number, now_ms)) {
            continue;
        }
        if (donor->repair.sources < least && donor->repair.sources < sources_max(donor)) {
            least = donor->repair.sources;
            *source = donor->record.id;
            chosen = REPAIR_CHOSEN;
        } else if (chosen == REPAIR_CHOSEN_NONE) {
            chosen = REPAIR_CHOSEN_BUSY;
        }
    }
    return chosen;
}

/* Does one of those that are expected, and keep theirs, live on the same machine? */
static bool shares_host(const struct repair *r, const struct set_morsel *m, donor_id off,
                        const struct donor *target, uint64_t now_ms)
{
    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (m->donors[i] != off && is_expected(r, donor, false, now_ms) &&
            strcmp(donor->record.name, target->record.name) == 0) {
            return true;
        }
    }
    return false;
}

static bool may_take(const struct repair *r, const struct data_set *set, const struct set_morsel *m,
                     const struct donor *donor, uint64_t now_ms)
{
    donor_id id = donor->record.id;

    return doors_may_get(r->donors, donor) && donor_room(donor) >= set->head.morsel_bytes &&
           donor->repair.full_until_ms <= now_ms && !set_morsel_has(m, id) &&
           !set_is_waste(set, id, m->number) &&
           !repair_has_failed(r, set->head.number, m->number, id, now_ms);
}

/* On another machine, if there is one; of those who has most room. */
static enum repair_chosen choose_target(const struct repair *r, const struct data_set *set,
                                        const struct set_morsel *m, uint64_t now_ms,
                                        struct repair_task *task)
{
    const struct donor *best = NULL;
    bool best_shares = false, busy = false;

    for (uint32_t i = 0; i < r->donors->count; i++) {
        const struct donor *donor = r->donors->items[i];
        bool shares;

        if (!may_take(r, set, m, donor, now_ms)) {
            continue;
        }
        if (donor->repair.targets >= REPAIR_DONOR_MAX) {
            busy = true;
            continue;
        }
        shares = shares_host(r, m, task->off, donor, now_ms);
        if (best == NULL || (best_shares && !shares) ||
            (best_shares == shares && donor_room(donor) > donor_room(best))) {
            best = donor;
            best_shares = shares;
        }
    }
    if (best != NULL) {
        task->target = best->record.id;
        return REPAIR_CHOSEN;
    }
    return busy ? REPAIR_CHOSEN_BUSY : REPAIR_CHOSEN_NONE;
}

enum repair_chosen repair_fetch(struct repair *r, const struct data_set *set,
                                const struct set_morsel *m, donor_id off, uint64_t now_ms,
                                struct repair_actions *out)
{
    struct repair_task task = { .set = set->head.number,
                                .morsel = m->number,
                                .length = m->length,
                                .digest = m->digest,
                                .off = off,
                                .due_ms = now_ms + REPAIR_FETCH_MS };
    enum repair_chosen chosen = choose_source(r, set, m, now_ms, &task.source);

    if (chosen == REPAIR_CHOSEN) {
        chosen = choose_target(r, set, m, now_ms, &task);
    }
    if (chosen == REPAIR_CHOSEN) {
        task.target_instance = repair_donor(r, task.target)->instance;
        task_begin(r, &task, out);
    }
    return chosen;
}

bool repair_could(const struct repair *r, const struct data_set *set, const struct set_morsel *m,
                  uint64_t now_ms)
{
    bool given = false, taken = false;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        given |= donor != NULL && !donor->report.paused &&
                 (donor_gives(donor) || donor_is_awaited(donor));
    }
    for (uint32_t i = 0; given && !taken && i < r->donors->count; i++) {
        const struct donor *donor = r->donors->items[i];

        taken = !donor->report.leaving && !set_morsel_has(m, donor->record.id) &&
                (donor_is_awaited(donor) ||
                 (donor_takes(donor) && donor->report.used <= donor->report.donated &&
                  donor->report.donated - donor->report.used >= set->head.morsel_bytes &&
                  donor->repair.full_until_ms <= now_ms));
    }
    return given && taken;
}

/* The newest that counts, but not the only one on another machine. */
static void drop(struct repair *r, const struct data_set *set, const struct set_morsel *m,
                 const struct look *look, uint64_t now_ms, struct repair_actions *out)
{
    struct repair_task task = { .set = set->head.number, .morsel = m->number };

    for (uint32_t i = m->donor_count; i-- > 0;) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (donor == NULL || !donor_takes(donor) ||
            (set->head.copies > 1 && copies_on_other_host(r, set, m, m->donors[i], now_ms))) {
            continue;
        }
        if (look->steady || (is_nearly_full(donor) && now_ms - donor->since_ms >= r->after_ms)) {
            task.target = donor->record.id;
            (void)repair_emit(out, REPAIR_DROP, &task);
            r->dropped++;
            return;
        }
    }
}

/* ---- Walking ---- */

/* Does all that the set wants count, and nothing more? */
static bool is_whole(const struct repair *r, const struct data_set *set)
{
    uint64_t copies = 0;

    for (uint32_t i = 0; i < set->donor_count; i++) {
        const struct donor *donor =
            set->donors[i].morsels > 0 ? repair_donor(r, set->donors[i].id) : NULL;

        if (set->donors[i].morsels > 0 && (donor == NULL || !donor_takes(donor))) {
            return false;
        }
        copies += set->donors[i].morsels;
    }
    return set->thin == 0 && copies == (uint64_t)set->morsels * set->head.copies;
}

/* The next morsel from `at` on that may need something; `at` comes to lie behind it. False: there is none before `looks` are used
 * up, or at all (`end`). */
static bool walk_next(const struct repair *r, struct repair_place *at, uint32_t *looks, bool *end,
                      const struct data_set **set, struct set_morsel *m)
{
    uint32_t i = sets_from(r->sets, at->set);

    *end = false;
    for (; *looks > 0 && i < r->sets->count; i++) {
        *set = r->sets->items[i];
        if ((*set)->head.number != at->set) {
            *at = (struct repair_place){ (*set)->head.number, 0 };
        }
        (*looks)--;
        if (!is_whole(r, *set) && set_next(*set, at->morsel, m)) {
            at->morsel = m->number + 1;
            return true;
        }
        *at = (struct repair_place){ (*set)->head.number + 1, 0 };
    }
    *end = i >= r->sets->count;
    return false;
}

static void pass_by(struct repair_walk *walk, uint64_t set, uint32_t morsel)
{
    if (!walk->passed) {
        walk->passed = true;
        walk->first = (struct repair_place){ set, morsel };
        walk->beyond = 0;
    }
}

/* Has one that counts or can be read, so that the others can be made of it; and is it bad enough for this pass? */
static bool is_of_pass(const struct repair *r, const struct set_morsel *m, const struct look *look)
{
    return look->counts + look->leaving > 0 && !m->rewriting && m->length > 0 &&
           (r->pass != REPAIR_PASS_ONLY || look->counts == 0) &&
           (r->pass != REPAIR_PASS_LAST || look->counts <= 1);
}

static bool is_to_be_fetched(struct repair *r, const struct data_set *set,
                             const struct set_morsel *m, const struct look *look)
{
    return look->expected < set->head.copies &&
           repair_task_of(r, set->head.number, m->number) == NULL;
}

/* FULL: as many fetches are under way as may be. LATER: it is for the next step. */
enum treated { TREATED, TREATED_FULL, TREATED_LATER };

static enum treated treat(struct repair *r, const struct data_set *set, const struct set_morsel *m,
                          uint64_t now_ms, struct repair_actions *out)
{
    struct repair_walk *walk = &r->walks[r->pass];
    struct look look = look_at(r, m, now_ms);

    if (!is_of_pass(r, m, &look)) {
        return TREATED;
    }
    if (is_to_be_fetched(r, set, m, &look)) {
        if (r->task_count == REPAIR_FLIGHT_MAX) {
            return TREATED_FULL;
        }
        if (repair_fetch(r, set, m, 0, now_ms, out) == REPAIR_CHOSEN_BUSY) {
            pass_by(walk, set->head.number, m->number);
        }
    } else if (look.leaving > 0 && look.counts >= set->head.copies &&
               repair_drop_distrusted(r, set, m, out)) {
        return TREATED;
    } else if (look.counts > set->head.copies && set->waste_count < REPAIR_WASTE_MAX) {
        if (out->count >= REPAIR_DROPS_MAX) {
            return TREATED_LATER;
        }
        if (repair_extra_stays(r, set, m->number)) {
            return TREATED;
        }
        drop(r, set, m, &look, now_ms, out);
    }
    return TREATED;
}

/* Those that are read most, before the walk comes to them; again when a fetch has ended, for whom they wait may be free now. */
static void treat_hottest(struct repair *r, uint64_t now_ms, struct repair_actions *out)
{
    uint32_t count = r->heat != NULL ? r->heat->hot_count : 0;

    r->hottest_due = false;
    for (uint32_t i = 0; i < count && r->task_count < REPAIR_FLIGHT_MAX; i++) {
        const struct data_set *set = sets_find(r->sets, r->heat->hot[i].set);
        struct set_morsel m;
        struct look look;

        if (set == NULL || !set_get(set, r->heat->hot[i].morsel, &m)) {
            continue;
        }
        look = look_at(r, &m, now_ms);
        if (is_of_pass(r, &m, &look) && is_to_be_fetched(r, set, &m, &look)) {
            (void)repair_fetch(r, set, &m, 0, now_ms, out);
        }
    }
    repair_extra_fetch(r, now_ms, out);
}

/* What was left is looked at again once a task has ended. */
static void walk_ends(struct repair *r)
{
    struct repair_walk *walk = &r->walks[r->pass];

    if (walk->passed) {
        r->waits = true;
        walk->at = walk->first;
        walk->passed = false;
        return;
    }
    walk->at = (struct repair_place){ 0, 0 };
    r->hottest_due = true;
    r->pass++;
}

static void walk(struct repair *r, uint64_t now_ms, struct repair_actions *out)
{
    struct repair_walk *walk = &r->walks[r->pass];
    uint32_t looks = REPAIR_STEP_LOOKS;
    const struct data_set *set;
    struct set_morsel m;
    bool end;

    if (r->hottest_due) {
        treat_hottest(r, now_ms, out);
    }
    while (walk_next(r, &walk->at, &looks, &end, &set, &m)) {
        enum treated treated = treat(r, set, &m, now_ms, out);

        if (treated != TREATED) {
            walk->at = (struct repair_place){ set->head.number, m.number };
            r->waits = treated == TREATED_FULL;
            if (r->waits && walk->passed) {
                walk->at = walk->first;
                walk->passed = false;
            }
            return;
        }
        if (walk->passed && ++walk->beyond == WINDOW) {
            end = true;
            break;
        }
    }
    if (end) {
        walk_ends(r);
    }
}

/* ---- Counting ---- */

/* For those that leave: what is to be copied before. */
static void count_left(struct repair *r, const struct data_set *set, const struct set_morsel *m,
                       const struct look *look, uint64_t now_ms)
{
    bool could =
        repair_task_of(r, set->head.number, m->number) != NULL || repair_could(r, set, m, now_ms);

    for (uint32_t i = 0; i < m->donor_count; i++) {
        struct donor *donor = repair_donor(r, m->donors[i]);

        if (donor != NULL && donor_gives(donor) && donor->report.leaving) {
            donor->repair.counting.wanted++;
            donor->repair.counting.wanted_bytes += m->length;
            donor->repair.counting.only += look->counts == 0;
            donor->repair.counting.stuck += !could;
        }
    }
}

/* A count that began before it left, or before it has said what it holds, says nothing. */
static void publish_left(struct repair *r)
{
    for (uint32_t i = 0; i < r->donors->count; i++) {
        struct donor *donor = r->donors->items[i];
        struct donor_left *left = &donor->repair.left, *counting = &donor->repair.counting;

        if (donor->report.leaving && donor_gives(donor) && donor->leaving_ms < r->count_began_ms &&
            donor->since_ms < r->count_began_ms && donor->told_ms < r->count_began_ms) {
            counting->moved = left->moved;
            counting->moved_bytes = left->moved_bytes;
            if (donor->report.excess > 0 && !donor->says_leaving) {
                counting->stuck_bytes = left->stuck_bytes; /* Of the walk for who gives less. */
            }
            counting->counted = true;
            *left = *counting;
        }
        *counting = (struct donor_left){ .counted = false };
    }
}

static void count(struct repair *r, uint64_t now_ms)
{
    uint32_t looks = REPAIR_STEP_LOOKS;
    const struct data_set *set;
    struct set_morsel m;
    bool end;

    while (walk_next(r, &r->counted, &looks, &end, &set, &m)) {
        struct look look = look_at(r, &m, now_ms);

        if (set_is_spared(&set->head, &m)) {
            continue;
        }
        r->short_count += look.counts < set->head.copies;
        r->away_count += look.counts + look.leaving == 0;
        if (look.leaving > 0 && look.counts < set->head.copies && m.length > 0) {
            count_left(r, set, &m, &look, now_ms);
        }
    }
    if (end) {
        publish_left(r);
        r->morsels_short = r->short_count;
        r->morsels_away = r->away_count;
        r->short_count = r->away_count = 0;
        r->counted = (struct repair_place){ 0, 0 };
        r->counting = false;
        r->count_due_ms = now_ms + (r->donors->leaving > 0 ? PERIOD_MS_MIN : r->period_ms);
    }
}

/* ---- Steps ---- */

/* Begin, or begin again, with the morsels that are worst off; the second pass goes on behind that where it was. */
static void begin_passes(struct repair *r, uint64_t now_ms)
{
    if (r->leaving != r->donors->leaving) { /* Others have decided when nothing was to be done. */
        r->leaving = r->donors->leaving;
        r->pass_due_ms = r->count_due_ms = now_ms;
    }
    if (r->pass_due_ms <= now_ms && r->pass > REPAIR_PASS_LAST) {
        r->walks[REPAIR_PASS_ONLY] = r->walks[REPAIR_PASS_LAST] =
            (struct repair_walk){ .passed = false };
        r->pass = r->leaving > 0 ? REPAIR_PASS_ONLY : REPAIR_PASS_LAST;
        r->waits = false;
        r->hottest_due = true;
        r->pass_due_ms = now_ms + r->period_ms;
    }
    if (r->count_due_ms <= now_ms && !r->counting) {
        r->counting = true;
        r->count_began_ms = now_ms;
    }
}

void repair_step(struct repair *r, const struct repair_event *event, struct repair_actions *out)
{
    uint64_t now_ms = event->now_ms;

    if (event->type == REPAIR_FETCHED) {
        on_fetched(r, event, out);
        return; /* What is free by that is given out by the next tick, when the map knows. */
    }
    end_tasks(r, now_ms, out);
    begin_passes(r, now_ms);
    if (r->step_due_ms > now_ms) {
        return;
    }
    r->step_due_ms = now_ms + REPAIR_STEP_MS;
    if (r->pass != REPAIR_PASS_END && !r->waits) {
        walk(r, now_ms, out);
    }
    if (r->counting) {
        count(r, now_ms);
    }
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t repair_deadline_ms(const struct repair *r)
{
    uint64_t due_ms = r->pass <= REPAIR_PASS_LAST ? UINT64_MAX : r->pass_due_ms;

    if (r->leaving != r->donors->leaving) {
        return 0;
    }
    due_ms = r->counting ? due_ms : min_u64(due_ms, r->count_due_ms);
    if ((r->pass != REPAIR_PASS_END && !r->waits) || r->counting) {
        due_ms = min_u64(due_ms, r->step_due_ms);
    }
    for (uint32_t i = 0; r->task_count > 0 && i < REPAIR_FLIGHT_MAX; i++) {
        due_ms = r->tasks[i].order != 0 ? min_u64(due_ms, r->tasks[i].due_ms) : due_ms;
    }
    return due_ms;
}
