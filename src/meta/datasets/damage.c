/* A table of cases, in no order; the oldest that waits is looked at first. */
#include "meta/datasets/damage.h"

#include "common/base/check.h"

#include <string.h>

enum {
    WAIT_MS = 200,       /* Until it is seen again whether somebody could look. */
    DAMAGE_NO_READER = 0 /* It is looked at again, and nobody has asked for that. */
};

/* A step ends each case at most, and has each looked at. */
static_assert(DAMAGE_ACTIONS_MAX >= 2 * DAMAGE_CASES_MAX, "ends and looks fit");

void damage_init(struct damage *d, const struct sets *sets, const struct donors *donors)
{
    memset(d, 0, sizeof(*d));
    d->sets = sets;
    d->donors = donors;
}

static struct damage_action *emit(struct damage_actions *out, int type, const struct damage_case *c)
{
    struct damage_action *action = &out->items[out->count++];

    CHECK(out->count <= DAMAGE_ACTIONS_MAX);
    memset(action, 0, sizeof(*action));
    action->type = type;
    action->order = c->order;
    action->copy = c->copy;
    action->looker = c->looker;
    return action;
}

/* ---- Which copies ---- */

static bool is_same(const struct damage_copy *a, const struct damage_copy *b)
{
    return a->set == b->set && a->morsel == b->morsel && a->donor == b->donor;
}

/* Does the map say that there is such a copy, of these bytes? */
static bool is_named(const struct damage *d, const struct damage_copy *copy)
{
    const struct data_set *set = sets_find(d->sets, copy->set);
    struct set_morsel m;

    return set != NULL && set_get(set, copy->morsel, &m) && !m.rewriting && m.length > 0 &&
           m.length == copy->length && m.digest == copy->digest &&
           set_morsel_has(&m, copy->donor) && !set_has_evicted(&set->head, &m);
}

static bool gives(const struct donor *donor)
{
    return donor != NULL && donor_gives(donor) && !donor->report.paused;
}

static bool rests(const struct damage *d, const struct damage_copy *copy, uint64_t now_ms)
{
    for (uint32_t i = 0; i < DAMAGE_RESTS_MAX; i++) {
        const struct damage_rest *r = &d->rests[i];

        if (r->until_ms > now_ms && r->donor == copy->donor && r->set == copy->set &&
            r->morsel == copy->morsel) {
            return true;
        }
    }
    return false;
}

static void rest(struct damage *d, const struct damage_copy *copy, uint64_t now_ms)
{
    d->rests[d->rest_next] = (struct damage_rest){ .set = copy->set,
                                                   .until_ms = now_ms + DAMAGE_REST_MS,
                                                   .morsel = copy->morsel,
                                                   .donor = copy->donor };
    d->rest_next = (d->rest_next + 1) % DAMAGE_RESTS_MAX;
}

static void end(struct damage *d, struct damage_case *c)
{
    c->order = 0;
    d->count--;
}

/* ---- Copies that stay ---- */

static struct damage_kept *kept_of(struct damage *d, const struct damage_copy *copy)
{
    for (uint32_t i = 0; i < DAMAGE_KEPT_MAX; i++) {
        if (is_same(&d->kept[i].copy, copy)) {
            return &d->kept[i];
        }
    }
    return NULL;
}

void damage_keep(struct damage *d, const struct damage_copy *copy, uint64_t now_ms)
{
    struct damage_kept *kept = kept_of(d, copy);

    if (kept == NULL) {
        kept = &d->kept[d->kept_next];
        d->kept_next = (d->kept_next + 1) % DAMAGE_KEPT_MAX;
    }
    *kept = (struct damage_kept){ *copy, now_ms + DAMAGE_REST_MS };
}

uint32_t damage_kept(const struct damage *d, uint64_t set, struct damage_copy *copies,
                     uint32_t most)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < DAMAGE_KEPT_MAX && count < most; i++) {
        if (d->kept[i].copy.set == set && is_named(d, &d->kept[i].copy)) {
            copies[count++] = d->kept[i].copy;
        }
    }
    return count;
}

static void forget_kept(struct damage *d, const struct damage_copy *copy)
{
    struct damage_kept *kept = kept_of(d, copy);

    if (kept != NULL) {
        memset(kept, 0, sizeof(*kept));
    }
}

/* ---- Who looks ---- */

static uint32_t looks_of(const struct damage *d, donor_id looker)
{
    uint32_t looks = 0;

    for (uint32_t i = 0; i < DAMAGE_CASES_MAX; i++) {
        looks += d->cases[i].order != 0 && d->cases[i].looker == looker;
    }
    return looks;
}

/* Another one than who has it, which takes morsels; not always the same. NULL: there is none; `busy`: for now. */
static const struct donor *another(const struct damage *d, const struct damage_case *c, bool *busy)
{
    const struct donors *donors = d->donors;

    *busy = false;
    for (uint32_t i = 0; i < donors->count; i++) {
        const struct donor *donor = donors->items[(c->order + i) % donors->count];

        if (donor->record.id != c->copy.donor && donor_takes(donor) && gives(donor)) {
            if (looks_of(d, donor->record.id) < DAMAGE_LOOKS_MAX) {
                return donor;
            }
            *busy = true;
        }
    }
    return NULL;
}

/* Has it looked at, or ends it, or leaves it for later. */
static void look(struct damage *d, struct damage_case *c, uint64_t now_ms,
                 struct damage_actions *out)
{
    const struct donor *has = donors_find(d->donors, c->copy.donor), *looker = has;
    bool busy = false;

    if (!is_named(d, &c->copy) || !gives(has)) {
        end(d, c);
        return;
    }
    if (c->second) {
        looker = another(d, c, &busy);
    } else {
        busy = looks_of(d, c->copy.donor) >= DAMAGE_LOOKS_MAX;
    }
    if (busy && (looker == NULL || !c->second)) {
        c->due_ms = now_ms + WAIT_MS;
        return;
    }
    if (looker == NULL) {
        end(d, c);
        return;
    }
    c->looker = looker->record.id;
    c->looker_instance = looker->instance;
    c->due_ms = now_ms + DAMAGE_LOOK_MS;
    (void)emit(out, DAMAGE_LOOK, c);
}

/* ---- Events ---- */

static struct damage_case *room_for(struct damage *d, uint64_t reader,
                                    const struct damage_copy *copy)
{
    struct damage_case *found = NULL;
    uint32_t of_reader = 0;

    for (uint32_t i = 0; i < DAMAGE_CASES_MAX; i++) {
        struct damage_case *c = &d->cases[i];

        if (c->order == 0) {
            found = found != NULL ? found : c;
        } else if (is_same(&c->copy, copy)) {
            return NULL;
        } else {
            of_reader += c->reader == reader;
        }
    }
    return of_reader < DAMAGE_READER_MAX ? found : NULL;
}

/* False: it need not be looked at, or there is no room. */
static bool begin(struct damage *d, uint64_t reader, const struct damage_copy *copy,
                  uint64_t now_ms, struct damage_actions *out)
{
    struct damage_case *c;

    if (!is_named(d, copy) || !gives(donors_find(d->donors, copy->donor)) ||
        (c = room_for(d, reader, copy)) == NULL) {
        return false;
    }
    *c = (struct damage_case){ .order = ++d->orders, .reader = reader, .copy = *copy };
    d->count++;
    look(d, c, now_ms, out);
    return true;
}

static void on_named(struct damage *d, const struct damage_event *event, struct damage_actions *out)
{
    const struct damage_kept *kept = kept_of(d, &event->copy);
    bool is_known = kept != NULL && is_named(d, &kept->copy);

    if (!is_known && !rests(d, &event->copy, event->now_ms) &&
        begin(d, event->reader, &event->copy, event->now_ms, out)) {
        d->named++;
    }
}

/* Those that stayed; nobody reads them. */
static void look_again(struct damage *d, uint64_t now_ms, struct damage_actions *out)
{
    for (uint32_t i = 0; i < DAMAGE_KEPT_MAX; i++) {
        struct damage_kept *kept = &d->kept[i];

        if (kept->copy.set == 0 || kept->due_ms > now_ms) {
            continue;
        }
        kept->due_ms = now_ms + DAMAGE_REST_MS;
        if (!is_named(d, &kept->copy)) {
            memset(kept, 0, sizeof(*kept));
        } else {
            (void)begin(d, DAMAGE_NO_READER, &kept->copy, now_ms, out);
        }
    }
}

/* One answer to each question: what comes again, or late, finds no case. */
static void on_looked(struct damage *d, const struct damage_event *event,
                      struct damage_actions *out)
{
    struct damage_case *c = NULL;

    for (uint32_t i = 0; c == NULL && i < DAMAGE_CASES_MAX; i++) {
        if (d->cases[i].order == event->order && event->order != 0 &&
            d->cases[i].looker == event->looker) {
            c = &d->cases[i];
        }
    }
    if (c == NULL) {
        return;
    }
    if (event->found == DAMAGE_FOUND_NOTHING || !is_named(d, &c->copy)) {
        end(d, c);
    } else if (event->found == DAMAGE_FOUND_RIGHT && c->reader == DAMAGE_NO_READER) {
        forget_kept(d, &c->copy);
        end(d, c);
    } else if (event->found == DAMAGE_FOUND_WRONG && c->reader == DAMAGE_NO_READER) {
        end(d, c);
    } else if (event->found == DAMAGE_FOUND_RIGHT && !c->second) {
        forget_kept(d, &c->copy);
        c->second = true;
        c->looker = 0;
        look(d, c, event->now_ms, out);
    } else {
        int type = event->found == DAMAGE_FOUND_RIGHT ? DAMAGE_RIGHT
                   : c->second                        ? DAMAGE_LIED
                                                      : DAMAGE_BAD;

        d->right += type == DAMAGE_RIGHT;
        d->lied += type == DAMAGE_LIED;
        d->bad += type == DAMAGE_BAD;
        rest(d, &c->copy, event->now_ms);
        (void)emit(out, type, c);
        end(d, c);
    }
}

static bool is_there_still(const struct damage *d, const struct damage_case *c)
{
    const struct donor *looker = donors_find(d->donors, c->looker);

    return gives(looker) && looker->instance == c->looker_instance;
}

static void on_tick(struct damage *d, uint64_t now_ms, struct damage_actions *out)
{
    look_again(d, now_ms, out);
    for (uint32_t i = 0; d->count > 0 && i < DAMAGE_CASES_MAX; i++) {
        struct damage_case *c = &d->cases[i];

        if (c->order != 0 && c->looker != 0 && (c->due_ms <= now_ms || !is_there_still(d, c))) {
            end(d, c);
        } else if (c->order != 0 && c->looker == 0 && c->due_ms <= now_ms) {
            look(d, c, now_ms, out);
        }
    }
}

void damage_step(struct damage *d, const struct damage_event *event, struct damage_actions *out)
{
    switch (event->type) {
    case DAMAGE_NAMED:
        on_named(d, event, out);
        break;
    case DAMAGE_LOOKED:
        on_looked(d, event, out);
        break;
    case DAMAGE_TICK:
        on_tick(d, event->now_ms, out);
        break;
    }
}

uint64_t damage_deadline_ms(const struct damage *d)
{
    uint64_t due_ms = UINT64_MAX;

    for (uint32_t i = 0; d->count > 0 && i < DAMAGE_CASES_MAX; i++) {
        if (d->cases[i].order != 0 && d->cases[i].due_ms < due_ms) {
            due_ms = d->cases[i].due_ms;
        }
    }
    for (uint32_t i = 0; i < DAMAGE_KEPT_MAX; i++) {
        if (d->kept[i].copy.set != 0 && d->kept[i].due_ms < due_ms) {
            due_ms = d->kept[i].due_ms;
        }
    }
    return due_ms;
}

void damage_check(const struct damage *d)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < DAMAGE_CASES_MAX; i++) {
        const struct damage_case *c = &d->cases[i];
        uint32_t of_reader = 0;

        if (c->order == 0) {
            continue;
        }
        count++;
        CHECK(c->looker == 0 || looks_of(d, c->looker) <= DAMAGE_LOOKS_MAX);
        CHECK(!c->second || c->looker != c->copy.donor);
        for (uint32_t j = 0; j < DAMAGE_CASES_MAX; j++) {
            const struct damage_case *o = &d->cases[j];

            of_reader += o->order != 0 && o->reader == c->reader;
            CHECK(i == j || o->order == 0 || !is_same(&o->copy, &c->copy));
        }
        CHECK(of_reader <= DAMAGE_READER_MAX);
    }
    CHECK(count == d->count);
}
