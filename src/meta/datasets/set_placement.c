/* Deals stripes to benefactors. */
#include "meta/datasets/set_placement.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

enum { PARTNERS_MAX = 256 }; /* That are looked at for one place. */

static int compare(const void *a, const void *b)
{
    const struct place_candidate *x = a, *y = b;

    if (x->free != y->free) {
        return x->free > y->free ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

void place_sort(struct place_candidate *candidates, uint32_t count)
{
    if (count > 1) {
        qsort(candidates, count, sizeof(*candidates), compare);
    }
}

static bool has_room(const struct place_wanted *w, const struct place_candidate *candidate)
{
    return candidate->free >= w->morsel_bytes;
}

/* ---- A round ---- */

static bool host_is_among(const struct place_candidate *candidates, uint32_t count, uint64_t host)
{
    for (uint32_t i = 0; i < count; i++) {
        if (candidates[i].host == host) {
            return true;
        }
    }
    return false;
}

static uint32_t hosts_of(const struct place_candidate *candidates, uint32_t count)
{
    uint32_t hosts = 0;

    for (uint32_t i = 0; i < count && hosts < REPLICAS_MAX; i++) {
        hosts += !host_is_among(candidates, i, candidates[i].host);
    }
    return hosts;
}

/* The candidate comes to `to`, and those between go one further. */
static void bring(struct place_candidate *candidates, uint32_t from, uint32_t to)
{
    struct place_candidate one = candidates[from];

    memmove(&candidates[to + 1], &candidates[to], (from - to) * sizeof(one));
    candidates[to] = one;
}

/* Hours of the week in which one of them is here. */
struct awake
{
    uint64_t words[HOURS_AWAKE_WORDS];
};

static void awake_add(struct awake *a, const struct place_candidate *candidate)
{
    for (uint32_t i = 0; candidate->awake != NULL && i < HOURS_AWAKE_WORDS; i++) {
        a->words[i] |= candidate->awake[i];
    }
}

static uint32_t awake_with(struct awake a, const struct place_candidate *candidate)
{
    uint32_t hours = 0;

    awake_add(&a, candidate);
    for (uint32_t i = 0; i < HOURS_AWAKE_WORDS; i++) {
        for (uint64_t left = a.words[i]; left != 0; left &= left - 1) {
            hours++;
        }
    }
    return hours;
}

/* Who is to have place `to` beside those: the candidate there, or one behind it that is awake when they sleep. */
static uint32_t complement(const struct place_candidate *candidates, uint32_t to, uint32_t count,
                           uint32_t round, struct awake others)
{
    uint32_t best = to, best_hours = awake_with(others, &candidates[to]);
    uint32_t end = to + PARTNERS_MAX < count ? to + PARTNERS_MAX : count;

    for (uint32_t i = to + 1; i < end && candidates[i].free >= candidates[to].free / 2; i++) {
        uint32_t hours = awake_with(others, &candidates[i]);

        /* From outside none comes to a machine that has one already. */
        if (hours > best_hours &&
            (i < round || !host_is_among(candidates, round, candidates[i].host))) {
            best = i;
            best_hours = hours;
        }
    }
    return best;
}

/* The copies of a stripe are at places that are a step apart (deal_one()). */
static void pair_up(const struct place_wanted *w, struct place_candidate *candidates,
                    uint32_t count, uint32_t round)
{
    uint32_t step;

    CHECK(w->copies > 0);
    step = round / w->copies;
    for (uint32_t to = step; step > 0 && to < step * w->copies; to++) {
        struct awake others = { { 0 } };
        uint32_t best;

        for (uint32_t before = to % step; before < to; before += step) {
            awake_add(&others, &candidates[before]);
        }
        best = complement(candidates, to, count, round, others);
        if (best != to) {
            bring(candidates, best, to);
        }
    }
}

uint32_t place_round(const struct place_wanted *w, struct place_candidate *candidates,
                     uint32_t count)
{
    uint32_t wanted = w->width * w->copies, usable = 0, hosts;

    while (usable < count && has_room(w, &candidates[usable])) {
        usable++;
    }
    wanted = wanted < usable ? wanted : usable;
    hosts = hosts_of(candidates, wanted);
    /* As many hosts as copies, if there are so many: the last ones make way. */
    for (uint32_t i = wanted; i < usable && hosts < w->copies; i++) {
        if (!host_is_among(candidates, wanted, candidates[i].host)) {
            hosts++;
            bring(candidates, i, wanted - w->copies + hosts - 1);
        }
    }
    pair_up(w, candidates, usable, wanted);
    return wanted;
}

/* ---- Dealing ---- */

struct dealing
{
    const struct place_wanted *w;
    struct place_candidate *candidates;
    uint32_t count, round;
    uint32_t step; /* From the place of a copy to that of the next one. */
};

static bool may_have(const struct dealing *d, uint32_t at, uint32_t morsel, const uint32_t *taken,
                     uint32_t copies, bool other_host)
{
    const struct place_candidate *candidate = &d->candidates[at];

    if (!has_room(d->w, candidate)) {
        return false;
    }
    for (uint32_t i = 0; i < copies; i++) {
        if (taken[i] == at || (other_host && d->candidates[taken[i]].host == candidate->host)) {
            return false;
        }
    }
    return d->w->barred == NULL || !d->w->barred(d->w->data, candidate->id, morsel);
}

/* The next one from `start` on that may have it: of the round, then of the others. `count`: nobody. */
static uint32_t next_for(const struct dealing *d, uint32_t start, uint32_t morsel,
                         const uint32_t *taken, uint32_t copies, bool other_host)
{
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t at = i < d->round ? (start + i) % d->round : i;

        if (may_have(d, at, morsel, taken, copies, other_host)) {
            return at;
        }
    }
    return d->count;
}

/* Do copies that lie one beside the other in the round lie on different machines, none of which sleeps as far as is known? */
static bool may_chain(const struct place_wanted *w, const struct place_candidate *candidates,
                      uint32_t round)
{
    for (uint32_t i = 0; i < round; i++) {
        const struct place_candidate *one = &candidates[i];

        if (one->awake != NULL && awake_with((struct awake){ { 0 } }, one) < HOURS_WEEK) {
            return false;
        }
        for (uint32_t k = 1; k < w->copies; k++) {
            if (candidates[(i + k) % round].host == one->host) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t step_of(const struct place_wanted *w, const struct place_candidate *candidates,
                        uint32_t round)
{
    CHECK(w->copies > 0);
    return round < w->copies || may_chain(w, candidates, round) ? 1 : round / w->copies;
}

/* Where in the round the looking for a place begins. */
static uint32_t start_of(const struct dealing *d, uint32_t stripe, uint32_t copy)
{
    CHECK(d->round > 0);
    return (uint32_t)(((uint64_t)stripe + (uint64_t)copy * d->step) % d->round);
}

/* How many copies of the morsel there may be, up to `wanted`: their places, into `taken`. */
static uint32_t deal_one(const struct dealing *d, uint32_t morsel, uint32_t wanted,
                         uint32_t taken[REPLICAS_MAX], bool *short_of)
{
    uint32_t stripe = morsel / d->w->stripe_morsels;

    for (uint32_t copy = 0; copy < wanted; copy++) {
        uint32_t start = start_of(d, stripe, copy);

        taken[copy] = next_for(d, start, morsel, taken, copy, true);
        if (taken[copy] == d->count) {
            *short_of = true;
            taken[copy] = next_for(d, start, morsel, taken, copy, false);
        }
        if (taken[copy] == d->count) {
            return copy;
        }
    }
    return wanted;
}

void place_deal(const struct place_wanted *w, struct place_candidate *candidates, uint32_t count,
                uint32_t round, struct placed *out)
{
    const struct dealing d = { w, candidates, count, round, step_of(w, candidates, round) };
    uint32_t taken[REPLICAS_MAX];

    CHECK(w->count <= SET_PLACE_MAX && w->copies <= REPLICAS_MAX && round <= count);
    out->count = 0;
    out->copies = w->copies;
    out->short_of = count == 0 || round == 0;
    if (out->short_of) {
        return;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t copies = deal_one(&d, w->first + i, out->copies, taken, &out->short_of);

        if (copies < out->copies && (i > 0 || copies == 0)) {
            return; /* The next request has fewer copies of each, or none. */
        }
        out->copies = copies;
        for (uint32_t copy = 0; copy < copies; copy++) {
            candidates[taken[copy]].free -= w->morsel_bytes;
            out->donors[i * copies + copy] = candidates[taken[copy]].id;
        }
        out->count++;
    }
}

/* ---- Rounds ---- */

void place_rounds_init(struct place_rounds *r)
{
    r->by_set = NULL;
    list_init(&r->order);
}

static void drop(struct place_rounds *r, struct place_round *round)
{
    CHECK(r->by_set != NULL); /* It is in there. */
    list_remove(&round->node);
    HASH_DEL(r->by_set, round);
    free(round);
}

void place_rounds_free(struct place_rounds *r)
{
    struct list *node;

    while ((node = list_front(&r->order)) != NULL) {
        drop(r, LIST_ENTRY(node, struct place_round, node));
    }
}

static struct place_round *find(struct place_rounds *r, uint64_t set)
{
    struct place_round *round;

    HASH_FIND(hh, r->by_set, &set, sizeof(set), round);
    return round;
}

const struct place_round *place_rounds_find(struct place_rounds *r, uint64_t set)
{
    struct place_round *round = find(r, set);

    if (round != NULL) {
        list_remove(&round->node);
        list_push_back(&r->order, &round->node);
    }
    return round;
}

void place_rounds_drop(struct place_rounds *r, uint64_t set)
{
    struct place_round *round = find(r, set);

    if (round != NULL) {
        drop(r, round);
    }
}

void place_rounds_put(struct place_rounds *r, uint64_t set,
                      const struct place_candidate *candidates, uint32_t count)
{
    struct place_round *round;

    place_rounds_drop(r, set);
    if (HASH_COUNT(r->by_set) == ROUNDS_MAX) {
        drop(r, LIST_ENTRY(list_front(&r->order), struct place_round, node));
    }
    if ((round = calloc(1, sizeof(*round))) == NULL) {
        return;
    }
    round->set = set;
    round->count = count < ROUND_MAX ? count : ROUND_MAX;
    for (uint32_t i = 0; i < round->count; i++) {
        round->donors[i] = candidates[i].id;
    }
    list_init(&round->node);
    HASH_ADD(hh, r->by_set, set, sizeof(round->set), round);
    if (!TABLE_ADDED(round)) {
        free(round);
        return;
    }
    list_push_back(&r->order, &round->node);
}
