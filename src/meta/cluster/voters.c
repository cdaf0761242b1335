/* One change after the other, until the set is as it is wanted. */
#include "meta/cluster/voters.h"

#include "common/base/check.h"

void voters_init(struct voters *v, const struct voters_record *record, uint32_t page_max)
{
    CHECK(voter_set_valid(&record->set) && page_max > 0 && page_max <= VOTE_PAGE_MAX);
    memset(v, 0, sizeof(*v));
    v->now = *record;
    v->wanted = record->set;
    v->page_max = page_max;
    v->due_ms = UINT64_MAX;
    CHECK(record->version_last >= record->set.version);
    if (record->next.version != 0) {
        CHECK(voter_set_valid(&record->next) && record->next.version > record->set.version &&
              record->next.version <= record->version_last);
        v->wanted = record->next;
        v->due_ms = 0;
    }
}

void voters_free(struct voters *v)
{
    voter_free(v->gathered);
    v->gathered = NULL;
}

static struct voters_action *emit(struct voters_actions *out)
{
    CHECK(out->count < VOTERS_ACTIONS_MAX);
    return &out->items[out->count++];
}

static bool has(const struct voter_set *set, voter_id id)
{
    return voter_set_find(set, id) < set->count;
}

/* ---- Plans ---- */

/* Somebody in `a` who is not in `b`; `first` if that is one. 0: nobody. */
static voter_id one_beyond(const struct voter_set *a, const struct voter_set *b, voter_id first)
{
    if (first != 0 && has(a, first) && !has(b, first)) {
        return first;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (!has(b, a->ids[i])) {
            return a->ids[i];
        }
    }
    return 0;
}

static void set_remove(struct voter_set *set, voter_id id)
{
    uint32_t at = voter_set_find(set, id);

    CHECK(at < set->count && set->count > 1);
    memmove(&set->ids[at], &set->ids[at + 1], (--set->count - at) * sizeof(set->ids[0]));
}

static void set_add(struct voter_set *set, voter_id id)
{
    uint32_t at = set->count;

    CHECK(set->count < VOTERS_MAX && !has(set, id));
    while (at > 0 && set->ids[at - 1] > id) {
        set->ids[at] = set->ids[at - 1];
        at--;
    }
    set->ids[at] = id;
    set->count++;
}

/* Whom the next change takes out or takes in; false: the set is as it is wanted. A set of one can
 * only grow. */
static bool choose(const struct voters *v, voter_id *out, voter_id *in)
{
    *out = v->now.set.count > 1 ? one_beyond(&v->now.set, &v->wanted, v->gone) : 0;
    *in = *out == 0 ? one_beyond(&v->wanted, &v->now.set, 0) : 0;
    return *out != 0 || *in != 0;
}

/* Only one that can be removed, and is to be. */
static void check_gone(struct voters *v)
{
    if (v->now.set.count == 1 || !has(&v->now.set, v->gone) || has(&v->wanted, v->gone)) {
        v->gone = 0;
    }
}

static void persist(struct voters *v, enum voters_state state, struct voters_actions *out)
{
    v->state = state;
    v->due_ms = UINT64_MAX;
    *emit(out) = (struct voters_action){ .type = VOTERS_PERSIST };
}

/* Behind a plan that was given up, the set as it is gets a new version, too: who was sealed for the
 * plan answers no older one. */
static void plan(struct voters *v, struct voters_actions *out)
{
    voter_id leaves, comes;

    CHECK(v->now.version_last + 1 < VOTE_VERSION_END);
    if (!choose(v, &leaves, &comes) && v->now.version_last == v->now.set.version) {
        v->state = VOTERS_IDLE;
        return;
    }
    v->now.next = v->now.set;
    v->now.next.version = ++v->now.version_last;
    if (leaves != 0) {
        set_remove(&v->now.next, leaves);
    } else if (comes != 0) {
        set_add(&v->now.next, comes);
    }
    persist(v, VOTERS_PLANNING, out);
}

/* Is the plan what would be planned now, or another step to what is wanted? */
static bool plan_stands(const struct voters *v)
{
    const struct voter_set *set = &v->now.set, *next = &v->now.next;
    voter_id leaves, comes;

    if (next->count == set->count) {
        return !choose(v, &leaves, &comes);
    }
    if (next->count > set->count) {
        return v->gone == 0 && has(&v->wanted, one_beyond(next, set, 0));
    }
    leaves = one_beyond(set, next, 0);
    return !has(&v->wanted, leaves) && (v->gone == 0 || v->gone == leaves);
}

/* ---- Reading and writing ---- */

static const struct voter_set *asked(const struct voters *v)
{
    return v->state == VOTERS_READING ? &v->now.set : &v->now.next;
}

static void ask(const struct voters *v, uint32_t at, struct voters_actions *out)
{
    *emit(out) = (struct voters_action){
        .type = v->state == VOTERS_READING ? VOTERS_READ : VOTERS_CARRY,
        .voter = asked(v)->ids[at],
        .version = v->now.next.version,
        .after = v->places[at].after,
    };
}

static void ask_all(struct voters *v, uint64_t now_ms, struct voters_actions *out)
{
    for (uint32_t i = 0; i < asked(v)->count; i++) {
        if (!v->places[i].done) {
            ask(v, i, out);
        }
    }
    v->due_ms = now_ms + VOTERS_RETRY_MS;
}

static void enter(struct voters *v, enum voters_state state, uint64_t now_ms,
                  struct voters_actions *out)
{
    v->state = state;
    v->done_count = 0;
    memset(v->places, 0, sizeof(v->places));
    ask_all(v, now_ms, out);
}

static void begin_reading(struct voters *v, uint64_t now_ms, struct voters_actions *out)
{
    voter_free(v->gathered);
    v->gathered = voter_new(1, 0); /* Nobody asks it: its name means nothing. */
    if (v->gathered == NULL) {
        v->state = VOTERS_READING; /* Nobody is asked before there is memory for the answers. */
        v->due_ms = now_ms + VOTERS_RETRY_MS;
        return;
    }
    enter(v, VOTERS_READING, now_ms, out);
}

/* So many are enough, and the others are left alone. Half of an even set would be enough for any change; but a majority of two is also the only
 * one that could say that we have an old record, and so nobody is left out who may still answer. */
static uint32_t needed(const struct voters *v)
{
    voter_id leaves = one_beyond(&v->now.set, &v->now.next, 0);

    if (v->state == VOTERS_WRITING) {
        return voter_majority(v->now.next.count);
    }
    return leaves != 0 && leaves == v->gone ? voter_half(v->now.set.count)
                                            : voter_majority(v->now.set.count);
}

static void place_done(struct voters *v, uint32_t at, uint64_t now_ms, struct voters_actions *out)
{
    v->places[at].done = true;
    if (++v->done_count < needed(v)) {
        return;
    }
    if (v->state == VOTERS_READING) {
        enter(v, VOTERS_WRITING, now_ms, out);
        return;
    }
    v->now.set = v->now.next;
    v->now.next = (struct voter_set){ 0 };
    persist(v, VOTERS_COMMITTING, out);
}

/* False: no memory for it; it is asked again. */
static bool take_page(struct voters *v, const struct voters_event *event, uint32_t at, bool *last)
{
    const struct vote_record *records = event->answered.records;
    uint32_t count = event->answered.count;

    for (uint32_t i = 0; i < count; i++) {
        if (!voter_gather(v->gathered, &records[i])) {
            return false;
        }
    }
    *last = count < v->page_max;
    if (count > 0) {
        v->places[at].after = records[count - 1].subject;
    }
    return true;
}

static void step_over_page(struct voters *v, uint32_t at, bool *last)
{
    struct vote_record page[VOTE_PAGE_MAX];
    uint32_t count = voter_page(v->gathered, &v->places[at].after, v->page_max, page);

    *last = count < v->page_max;
    if (count > 0) {
        v->places[at].after = page[count - 1].subject;
    }
}

static void on_answered(struct voters *v, const struct voters_event *event,
                        struct voters_actions *out)
{
    const struct vote_answer *answer = &event->answered.answer;
    bool is_under_way = v->state == VOTERS_READING || v->state == VOTERS_WRITING, last = false;
    uint32_t at;

    if (answer->type == VOTE_OLD_SET && answer->set_version > v->version_seen) {
        v->version_seen = answer->set_version;
    }
    if (!is_under_way || v->gathered == NULL || answer->type != VOTE_ACCEPTED ||
        event->answered.version != v->now.next.version ||
        event->answered.carry != (v->state == VOTERS_WRITING)) {
        return;
    }
    at = voter_set_find(asked(v), answer->voter);
    if (at == asked(v)->count || v->places[at].done ||
        vote_subject_compare(&event->answered.after, &v->places[at].after) != 0) {
        return; /* A copy, or of a page that is behind us. */
    }
    if (v->state == VOTERS_WRITING) {
        step_over_page(v, at, &last);
    } else if (!take_page(v, event, at, &last)) {
        return;
    }
    if (last) {
        place_done(v, at, event->now_ms, out);
    } else {
        ask(v, at, out);
    }
}

/* ---- Events ---- */

static void on_want(struct voters *v, const struct voters_event *event, struct voters_actions *out)
{
    CHECK(event->want.set->count > 0 && event->want.set->count <= VOTERS_MAX);
    v->wanted = *event->want.set;
    v->gone = event->want.gone;
    check_gone(v);
    if (v->state == VOTERS_IDLE ||
        ((v->state == VOTERS_READING || v->state == VOTERS_WRITING) && !plan_stands(v))) {
        plan(v, out);
    }
}

static void on_persisted(struct voters *v, const struct voters_event *event,
                         struct voters_actions *out)
{
    CHECK(v->state == VOTERS_PLANNING || v->state == VOTERS_COMMITTING);
    if (event->failed) {
        v->due_ms = event->now_ms + VOTERS_RETRY_MS;
        return;
    }
    if (v->state == VOTERS_PLANNING) {
        if (plan_stands(v)) {
            begin_reading(v, event->now_ms, out);
        } else {
            plan(v, out);
        }
        return;
    }
    voter_free(v->gathered);
    v->gathered = NULL;
    check_gone(v);
    *emit(out) = (struct voters_action){ .type = VOTERS_CHANGED };
    plan(v, out);
}

static void on_tick(struct voters *v, uint64_t now_ms, struct voters_actions *out)
{
    if (now_ms < v->due_ms) {
        return;
    }
    if (v->state == VOTERS_PLANNING || v->state == VOTERS_COMMITTING) {
        persist(v, v->state, out);
    } else if (v->state == VOTERS_IDLE) {
        v->due_ms = UINT64_MAX;
        plan(v, out);
    } else if (v->gathered == NULL) {
        begin_reading(v, now_ms, out);
    } else {
        ask_all(v, now_ms, out);
    }
}

void voters_step(struct voters *v, const struct voters_event *event, struct voters_actions *out)
{
    switch (event->type) {
    case VOTERS_WANT:
        on_want(v, event, out);
        break;
    case VOTERS_PERSISTED:
        on_persisted(v, event, out);
        break;
    case VOTERS_ANSWERED:
        on_answered(v, event, out);
        break;
    case VOTERS_TICK:
        on_tick(v, event->now_ms, out);
        break;
    }
}

uint64_t voters_deadline_ms(const struct voters *v)
{
    return v->due_ms;
}
