/* Candidates of placement, and the state of sets by who is here. */
#include "meta/datasets/sets_uv.h"

#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/cluster/donors_uv.h"
#include "meta/cluster/doors.h"
#include "meta/datasets/evict.h"
#include "meta/datasets/evictions_uv.h"

#include <stdlib.h>
#include <string.h>

enum {
    SET_PART_OF_CLOUD = 3, /* One set may have the third part. */
    PATIENCE_MS = 10000    /* Benefactors come back within it when the manager was started again. */
};

void sets_layout(const struct file_policy *policy, struct file_layout *layout)
{
    layout->class = CLASS_SCAVENGED;
    layout->scratch = policy->scratch == POLICY_YES;
    layout->replicas = policy->replicas != 0 ? policy->replicas : SET_COPIES_DEFAULT;
    layout->stripe = (struct stripe){ policy->morsel_bytes, policy->stripe_morsels, policy->width };
}

/* ---- Who may ---- */

int sets_may_change(struct meta *meta, const struct inode *inode, client_id client,
                    struct errmsg *err)
{
    const struct data_set *set =
        inode_is_scavenged(inode) ? sets_find(ns_sets(meta->ns), inode_body(inode)) : NULL;

    if (set == NULL || (set->head.writer == client && !set->head.sealed)) {
        return 0;
    }
    if (set->head.sealed) {
        errmsg_set(err,
                   "the file is a data set that is complete, and cannot be changed: truncate it "
                   "to zero, or write another file");
        return MORSEL_PERM;
    }
    if (session_known(meta->sessions, set->head.writer)) {
        errmsg_set(err, "another mount is storing this file");
        return MORSEL_BUSY;
    }
    errmsg_set(err,
               "the mount that was storing this file has ended: it stays as it is; truncate it "
               "to zero, or write another file");
    return MORSEL_PERM;
}

int sets_may_change_file(struct meta *meta, inode_id file, client_id client, struct errmsg *err)
{
    struct inode inode;
    int rv = ns_inode(meta->ns, file, &inode, err);

    return rv != 0 ? rv : sets_may_change(meta, &inode, client, err);
}

bool sets_donor_serves(const struct donor *donor)
{
    return donor != NULL && donor->state != DONOR_AWAY && donor->heard;
}

/* Does what it has count for how many copies there shall be? */
static bool counts(const struct donor *donor)
{
    return sets_donor_serves(donor) && !donor->report.leaving;
}

/* ---- Placing ---- */

struct candidates
{
    struct place_candidate *items;
    uint32_t count;
};

static bool has_failed(const struct set_asked *asked, donor_id donor)
{
    for (size_t i = 0; i < asked->failed_count; i++) {
        if (asked->failed[i] == donor) {
            return true;
        }
    }
    return false;
}

static uint64_t host_of(const struct donor *donor)
{
    return table_hash(donor->record.name, strlen(donor->record.name));
}

static void add(const struct meta *meta, struct candidates *c, const struct donor *donor)
{
    c->items[c->count++] =
        (struct place_candidate){ donor->record.id, donor_room(donor), host_of(donor),
                                  hours_awake(&meta->hours, donor->record.id) };
}

/* The round of the set, if all of it can take morsels: otherwise none is a candidate. */
static void take_round(struct meta *meta, uint64_t set, const struct place_wanted *w,
                       const struct set_asked *asked, struct candidates *c)
{
    const struct place_round *round = place_rounds_find(&meta->rounds, set);

    c->count = 0;
    for (uint32_t i = 0; round != NULL && i < round->count; i++) {
        const struct donor *donor = donors_find(&meta->donors, round->donors[i]);

        if (donor == NULL || !doors_may_get(&meta->donors, donor) ||
            donor_room(donor) < w->morsel_bytes || has_failed(asked, round->donors[i])) {
            c->count = 0;
            return;
        }
        add(meta, c, donor);
    }
}

/* All that can take morsels, dealt anew. Returns the round. */
static uint32_t take_all(struct meta *meta, uint64_t set, const struct place_wanted *w,
                         const struct set_asked *asked, struct candidates *c)
{
    uint32_t round;

    c->count = 0;
    for (uint32_t i = 0; i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];

        if (doors_may_get(&meta->donors, donor) && !has_failed(asked, donor->record.id)) {
            add(meta, c, donor);
        }
    }
    place_sort(c->items, c->count);
    round = place_round(w, c->items, c->count);
    if (round > 0) {
        place_rounds_put(&meta->rounds, set, c->items, round);
    }
    return round;
}

struct barring
{
    const struct meta *meta;
    const struct data_set *set;
};

/* What lies there is about to be deleted; or a copy of what the morsel was is about to come there. */
static bool is_barred(const void *data, donor_id donor, uint32_t morsel)
{
    const struct barring *b = data;

    return set_is_waste(b->set, donor, morsel) ||
           repair_is_fetching(&b->meta->repair, b->set->head.number, morsel, donor);
}

static void promise(struct meta *meta, const struct place_wanted *w, const struct placed *placed)
{
    for (uint32_t i = 0; i < placed->count * placed->copies; i++) {
        donors_promise(&meta->donors, placed->donors[i], w->morsel_bytes);
    }
}

static void deal(struct meta *meta, uint64_t set, const struct place_wanted *w,
                 const struct set_asked *asked, struct candidates *c, struct placed *out)
{
    take_round(meta, set, w, asked, c);
    place_deal(w, c->items, c->count, c->count, out);
    if (out->short_of || out->count < w->count) {
        uint32_t round = take_all(meta, set, w, asked, c);

        place_deal(w, c->items, c->count, round, out);
    }
}

/* Benefactors that may be here in a moment: they have not come back since the manager was started, or to a new connection, or
 * are saying what they hold. */
struct awaited
{
    uint32_t count;   /* Those that would have room for a morsel; */
    uint32_t unheard; /* of these, and for a moment behind the start: nobody knows yet. */
    uint64_t donated; /* By those that are not counted among those that are here. */
};

static struct awaited awaited_of(const struct meta *meta, uint32_t morsel_bytes)
{
    const bool patient = uv_now(meta->loop) - meta->started_ms < PATIENCE_MS;
    struct awaited a = { 0 };

    for (uint32_t i = 0; i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];

        if (donor->state == DONOR_DOUBTED && !donor->heard) {
            a.count += patient;
            a.unheard += patient;
        } else if (donor->state == DONOR_DOUBTED ||
                   (donor->state == DONOR_HERE && !donor->told_held)) {
            a.count += donor_room(donor) >= morsel_bytes;
            a.donated += donor->state == DONOR_DOUBTED ? donor->report.donated : 0;
        }
    }
    return a;
}

/* How many of the morsels the set may have; those that it has already are none more. */
static uint32_t allowed(const struct meta *meta, const struct data_set *set,
                        const struct place_wanted *w, const struct awaited *awaited)
{
    uint64_t each = (uint64_t)w->morsel_bytes * w->copies;
    uint64_t most = (meta->donors.donated + awaited->donated) / SET_PART_OF_CLOUD / each;
    uint64_t has = set != NULL ? set->morsels : 0;
    struct set_morsel m;

    for (uint32_t i = 0; i < w->count; i++) {
        bool fresh = set == NULL || !set_get(set, w->first + i, &m);

        if (fresh && has >= most) {
            return i;
        }
        has += fresh;
    }
    return w->count;
}

/* Why there is no place: for now, while so many could still help, or for good. */
static int no_place(uint32_t awaited, int status, const char *words, struct errmsg *err)
{
    if (awaited > 0) {
        errmsg_set(err, "%u benefactors are not back yet; see `morsel donors`", awaited);
        return MORSEL_AGAIN;
    }
    errmsg_set(err, "%s", words);
    return status;
}

/* Behind its start the manager gives those a moment that were here before: who writes on would have fewer copies for good. */
static bool may_be_more(const struct place_wanted *w, const struct awaited *awaited,
                        const struct placed *placed)
{
    return placed->copies < w->copies && awaited->unheard > 0;
}

int sets_may_hold(const struct meta *meta, const struct inode *inode, uint64_t size,
                  struct errmsg *err)
{
    const struct awaited awaited = awaited_of(meta, inode->layout.stripe.morsel_bytes);
    uint64_t most = (meta->donors.donated + awaited.donated) / SET_PART_OF_CLOUD;

    return size > most / inode->layout.replicas
               ? no_place(awaited.unheard, MORSEL_DQUOT,
                          "the file would take more than a third of all that benefactors donate",
                          err)
               : 0;
}

bool sets_largest(const struct meta *meta, uint32_t copies, uint32_t morsel_bytes, uint64_t *bytes)
{
    const struct awaited awaited = awaited_of(meta, morsel_bytes);

    *bytes = (meta->donors.donated + awaited.donated) / SET_PART_OF_CLOUD / copies;
    return awaited.unheard == 0;
}

static int deal_to_all(struct meta *meta, const struct inode *inode, const struct place_wanted *w,
                       const struct set_asked *asked, struct placed *out)
{
    uint32_t room = meta->donors.count > ROUND_MAX ? meta->donors.count : ROUND_MAX;
    struct candidates c = { .count = 0 };

    if ((c.items = malloc(room * sizeof(*c.items))) == NULL) {
        return MORSEL_NOMEM;
    }
    deal(meta, inode_body(inode), w, asked, &c, out);
    free(c.items);
    return 0;
}

/* What others have asked for ahead, and may never store, is not taken for want of room. True: benefactors are asked. */
static bool recount(struct meta *meta, uint32_t morsel_bytes, const struct set_asked *asked)
{
    bool awaited = false;

    for (uint32_t i = 0; i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];

        awaited |=
            !has_failed(asked, donor->record.id) && donors_host_recount(meta, donor, morsel_bytes);
    }
    return awaited;
}

int sets_place(struct meta *meta, const struct inode *inode, const struct set_asked *asked,
               struct placed *out, struct errmsg *err)
{
    const struct data_set *set = sets_find(ns_sets(meta->ns), inode_body(inode));
    const struct awaited awaited = awaited_of(meta, inode->layout.stripe.morsel_bytes);
    const struct barring barring = { meta, set };
    struct place_wanted w = { .first = asked->first,
                              .count = asked->count,
                              .copies = inode->layout.replicas,
                              .width = inode->layout.stripe.width,
                              .stripe_morsels = inode->layout.stripe.stripe_morsels,
                              .morsel_bytes = inode->layout.stripe.morsel_bytes,
                              .barred = set != NULL ? is_barred : NULL,
                              .data = &barring };
    int rv;

    if (meta->donors.here == 0) {
        return no_place(awaited.count, MORSEL_NOSPC, "no benefactor is here; see `morsel donors`",
                        err);
    }
    if ((w.count = allowed(meta, set, &w, &awaited)) == 0) {
        return no_place(awaited.unheard, MORSEL_DQUOT,
                        "the file would take more than a third of all that benefactors donate",
                        err);
    }
    if ((rv = deal_to_all(meta, inode, &w, asked, out)) != 0) {
        return rv;
    }
    if ((out->count == 0 || out->copies < w.copies) && recount(meta, w.morsel_bytes, asked)) {
        errmsg_set(err, "benefactors are asked how much room they really have");
        return MORSEL_AGAIN;
    }
    if ((out->count == 0 || out->copies < w.copies) &&
        evictions_make_room(meta, w.morsel_bytes, asked->failed, asked->failed_count)) {
        errmsg_set(err,
                   "room is being made: other data sets, or copies that are not needed, give way");
        return MORSEL_AGAIN;
    }
    if (out->count == 0 || may_be_more(&w, &awaited, out)) {
        return no_place(awaited.count, MORSEL_NOSPC, "no benefactor has room; see `morsel donors`",
                        err);
    }
    promise(meta, &w, out);
    return 0;
}

/* ---- Placing what comes back ---- */

/* Of their room that which making room for others does not begin for. */
static void take_roomy(struct meta *meta, uint32_t morsel_bytes, struct candidates *c)
{
    for (uint32_t i = 0; i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];
        uint64_t left = donor->report.donated / EVICT_LOW_PARTS, room = donor_room(donor);

        if (doors_may_get(&meta->donors, donor) && room >= left + morsel_bytes) {
            add(meta, c, donor);
            c->items[c->count - 1].free = room - left;
        }
    }
    place_sort(c->items, c->count);
}

int sets_place_back(struct meta *meta, const struct inode *inode, uint32_t first, uint32_t count,
                    struct placed *out)
{
    const struct data_set *set = sets_find(ns_sets(meta->ns), inode_body(inode));
    const struct barring barring = { meta, set };
    const struct place_wanted w = { .first = first,
                                    .count = count,
                                    .copies = inode->layout.replicas,
                                    .width = inode->layout.stripe.width,
                                    .stripe_morsels = inode->layout.stripe.stripe_morsels,
                                    .morsel_bytes = inode->layout.stripe.morsel_bytes,
                                    .barred = set != NULL ? is_barred : NULL,
                                    .data = &barring };
    struct candidates c = { .count = 0 };

    *out = (struct placed){ .count = 0 };
    if (meta->donors.count == 0) {
        return 0;
    }
    if ((c.items = malloc(meta->donors.count * sizeof(*c.items))) == NULL) {
        return MORSEL_NOMEM;
    }
    take_roomy(meta, w.morsel_bytes, &c);
    if (c.count > 0) {
        place_deal(&w, c.items, c.count, place_round(&w, c.items, c.count), out);
        promise(meta, &w, out);
    }
    free(c.items);
    return 0;
}

/* ---- State ---- */

static bool all_count(const struct meta *meta, const struct data_set *set)
{
    for (uint32_t i = 0; i < set->donor_count; i++) {
        if (set->donors[i].morsels > 0 && !counts(donors_find(&meta->donors, set->donors[i].id))) {
            return false;
        }
    }
    return true;
}

static uint32_t copies_here(const struct meta *meta, const struct set_morsel *morsel,
                            bool (*are)(const struct donor *donor))
{
    uint32_t here = 0;

    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        here += are(donors_find(&meta->donors, morsel->donors[i]));
    }
    return here;
}

struct set_state_now sets_state(const struct meta *meta, const struct data_set *set)
{
    struct set_state_now state = { 0 };
    bool whole = all_count(meta, set) && set->thin == 0;
    struct set_morsel m = { .number = 0 };

    for (uint32_t i = 0; i < set->donor_count; i++) {
        state.donors += set->donors[i].morsels > 0;
    }
    for (uint32_t from = 0; !whole && set_next(set, from, &m); from = m.number + 1) {
        if (set_is_spared(&set->head, &m)) {
            state.morsels_evicted++;
            continue;
        }
        state.morsels_short += copies_here(meta, &m, counts) < set->head.copies;
        state.morsels_away += copies_here(meta, &m, sets_donor_serves) == 0;
    }
    return state;
}
