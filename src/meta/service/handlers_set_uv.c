/* Data sets: where morsels go, where they are, and when a set is complete. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "meta/cluster/donors_uv.h"
#include "meta/coherence/leases_uv.h"
#include "meta/datasets/evictions_uv.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"
#include "meta/service/identify_uv.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PER_S = 1000000000, MILLI = 1000 };

/* ---- Which file, and who ---- */

static int find_set(struct request *r, inode_id id, uint64_t set, struct inode *inode)
{
    int rv = ns_inode(r->meta->ns, id, inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    if (!inode_is_scavenged(inode)) {
        errmsg_set(&r->err, "the bytes of that file do not lie on benefactors");
        return MORSEL_INVAL;
    }
    if (inode_body(inode) != set) {
        errmsg_set(&r->err, "the bytes of the file have begun anew since");
        return MORSEL_STALE;
    }
    return 0;
}

/* Who stores a set goes on when he has closed the file. Under W a client opens a file without a word; when that is recalled
 * the word comes with the answer, behind what he stores for it. */
static int may_store(struct request *r, const struct inode *inode)
{
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), inode_body(inode));
    client_id client = r->rpc->node_id;

    if ((set == NULL || set->head.writer != client) &&
        !session_has_open(r->meta->sessions, inode->id, client, true) &&
        leases_still_held(r->meta, r->rpc, inode->id) != LEASE_W) {
        errmsg_set(&r->err, "the client does not hold the file open for writing; open it again");
        return MORSEL_ACCES;
    }
    return sets_may_change(r->meta, inode, client, &r->err);
}

/* ---- Benefactors in answers ---- */

/* Each once; grows as far as there are that many. */
struct places
{
    const struct meta *meta;
    size_t count, room;
    Morsel__DonorPlace *items, **pointers;
};

static bool places_make(struct places *p, const struct meta *meta, size_t room)
{
    room = room < meta->donors.count ? room : meta->donors.count;
    *p = (struct places){ .meta = meta, .room = room };
    p->items = calloc(room + 1, sizeof(*p->items));
    p->pointers = calloc(room + 1, sizeof(Morsel__DonorPlace *));
    return p->items != NULL && p->pointers != NULL;
}

static void places_free(struct places *p)
{
    free(p->items);
    free(p->pointers);
}

/* Those that are not here, or give nothing out because their owners have paused them, are left out. */
static void places_add(struct places *p, donor_id id)
{
    const struct donor *donor = donors_find(&p->meta->donors, id);
    Morsel__DonorPlace *place;

    for (size_t i = p->count; i-- > 0;) {
        if (p->items[i].id == id) {
            return;
        }
    }
    if (!sets_donor_serves(donor) || donor->report.paused || p->count == p->room) {
        return;
    }
    place = p->pointers[p->count] = &p->items[p->count];
    p->count++;
    morsel__donor_place__init(place);
    place->id = id;
    place->address = (char *)(uintptr_t)donor->address;
    place->instance = donor->instance;
}

/* ---- Where they go ---- */

static int answer_placed(struct request *r, struct placed *placed)
{
    Morsel__SetPlaceReply reply = MORSEL__SET_PLACE_REPLY__INIT;
    uint32_t count = placed->count * placed->copies;
    struct places places;
    int rv = MORSEL_NOMEM;

    if (places_make(&places, r->meta, count)) {
        for (uint32_t i = 0; i < count; i++) {
            places_add(&places, placed->donors[i]);
        }
        reply.copies = placed->copies;
        reply.n_donors = count;
        reply.donors = placed->donors;
        reply.n_places = places.count;
        reply.places = places.pointers;
        rpc_reply(r->rpc, &reply.base, NULL);
        rv = 0;
    }
    places_free(&places);
    return rv;
}

/* Who is first told where morsels go stores the set: another one would be told the same places, and write over them. */
static int begin_set(struct request *r, const struct inode *inode)
{
    struct meta_op op = { .kind = OP_SET_STORED,
                          .time_ns = meta_clock_ns(),
                          .client = r->rpc->node_id };

    if (sets_find(ns_sets(r->meta->ns), inode_body(inode)) != NULL) {
        return 0;
    }
    op.set_stored.inode = inode->id;
    op.set_stored.set = inode_body(inode);
    return meta_execute(r->meta, &op, &r->err);
}

int serve_set_place(struct request *r)
{
    const Morsel__SetPlaceRequest *m = r->message;
    const struct set_asked asked = { m->first, m->count, m->failed, m->n_failed };
    struct placed placed;
    struct inode inode;
    int rv;

    if (m->count == 0 || m->count > SET_PLACE_MAX || m->n_failed > DONORS_MAX) {
        return MORSEL_MALFORMED;
    }
    if (m->first >= SET_MORSELS_MAX || m->count > SET_MORSELS_MAX - m->first) {
        errmsg_set(&r->err, "a data set has at most %d morsels: use larger ones (morsel_size)",
                   SET_MORSELS_MAX);
        return MORSEL_FBIG;
    }
    if ((rv = find_set(r, m->inode, m->set, &inode)) != 0 || (rv = may_store(r, &inode)) != 0 ||
        (rv = sets_place(r->meta, &inode, &asked, &placed, &r->err)) != 0 ||
        (rv = begin_set(r, &inode)) != 0) {
        return rv;
    }
    return answer_placed(r, &placed);
}

/* ---- What is stored ---- */

enum { DONORS_LEFT_MAX = 8 }; /* Of one morsel. */

/* Has the donor all of the morsel? Of who was sent a part of it, the map says whether he has the rest. */
static bool has_all(const struct data_set *set, const Morsel__SetMorsel *m, donor_id id)
{
    struct set_morsel before;

    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i] == id) {
            return set != NULL && set_get(set, m->number, &before) && set_morsel_has(&before, id);
        }
    }
    return true;
}

/* 1: the copy counts. 0: it does not, for it was another process that has acknowledged it, or what that one had is being deleted
 * there, or is gone, or a copy of what the morsel was is on its way there. MORSEL_AGAIN: the manager has not heard of it since it
 * was started. */
static int copy_counts(struct request *r, const Morsel__SetStoredRequest *m, donor_id id,
                       const Morsel__SetMorsel *morsel)
{
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), m->set);
    const struct donor *donor = donors_find(&r->meta->donors, id);
    size_t at = 0;

    while (at < m->n_places && m->places[at]->id != id) {
        at++;
    }
    if (at == m->n_places || donor == NULL) {
        errmsg_set(&r->err, "benefactor %u is unknown, or was not told with its instance", id);
        return MORSEL_MALFORMED;
    }
    if (!donor->heard && donor->state == DONOR_DOUBTED) {
        errmsg_set(&r->err, "benefactor %u has not joined again yet", id);
        return MORSEL_AGAIN;
    }
    return donor->told_held && donor->instance == m->places[at]->instance &&
           !repair_is_fetching(&r->meta->repair, m->set, morsel->number, id) &&
           (set == NULL || !set_is_waste(set, id, morsel->number)) && has_all(set, morsel, id);
}

/* What is about to be written anew stays where it is, whoever has acknowledged it. False: it is nowhere. */
static bool take_announced(const struct request *r, const Morsel__SetMorsel *m,
                           struct set_morsel *morsel)
{
    const Morsel__SetStoredRequest *request = r->message;
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), request->set);
    struct set_morsel before;

    if (!m->rewriting || set == NULL || !set_get(set, m->number, &before)) {
        return false;
    }
    morsel->donor_count = before.donor_count;
    memcpy(morsel->donors, before.donors, sizeof(before.donors));
    return before.donor_count > 0;
}

static int take_morsel(struct request *r, const Morsel__SetMorsel *m, struct set_morsel *morsel)
{
    *morsel = (struct set_morsel){ .number = m->number,
                                   .length = m->length,
                                   .digest = m->rewriting ? 0 : m->digest,
                                   .rewriting = m->rewriting };
    if (m->n_donors == 0 || m->n_donors > REPLICAS_MAX) {
        return MORSEL_MALFORMED;
    }
    if (take_announced(r, m, morsel)) {
        return 0;
    }
    for (size_t i = 0; i < m->n_donors; i++) {
        int counts = copy_counts(r, r->message, m->donors[i], m);

        if (counts < 0) {
            return counts;
        }
        if (counts > 0) {
            morsel->donors[morsel->donor_count++] = m->donors[i];
        }
    }
    if (morsel->donor_count == 0) {
        errmsg_set(&r->err, "morsel %u is at none of the benefactors any more that had it",
                   m->number);
        return MORSEL_UNREACHABLE;
    }
    return 0;
}

static struct slice part(const struct buf *bytes, size_t from, size_t to)
{
    return from == to ? (struct slice){ NULL, 0 } : (struct slice){ bytes->data + from, to - from };
}

/* They may have something of the morsel: it is waste where it does not count (namespace_sets.c passes over what does). */
static void list_left(struct request *r, uint32_t morsel, const uint32_t *donors, size_t count)
{
    for (size_t i = 0; i < count && i < DONORS_LEFT_MAX; i++) {
        if (donors_find(&r->meta->donors, donors[i]) != NULL) {
            op_run_put(&r->bytes, (struct op_run){ donors[i], morsel, 1 });
        }
    }
}

/* Those that are named for it, and whose copy does not count. */
static void list_left_out(struct request *r, const Morsel__SetStoredRequest *m,
                          const Morsel__SetMorsel *morsel)
{
    for (size_t i = 0; i < morsel->n_donors && !morsel->rewriting; i++) {
        if (copy_counts(r, m, morsel->donors[i], morsel) == 0) {
            list_left(r, morsel->number, &morsel->donors[i], 1);
        }
    }
}

static int take_morsels(struct request *r, const Morsel__SetStoredRequest *m)
{
    size_t morsels_bytes;

    for (size_t i = 0; i < m->n_morsels; i++) {
        struct set_morsel morsel;
        int rv = take_morsel(r, m->morsels[i], &morsel);

        if (rv != 0) {
            return rv;
        }
        op_morsel_put(&r->bytes, &morsel);
    }
    morsels_bytes = r->bytes.count;
    for (size_t i = 0; i < m->n_morsels; i++) {
        const Morsel__SetMorsel *morsel = m->morsels[i];

        list_left(r, morsel->number, morsel->left, morsel->n_left);
        list_left_out(r, m, morsel);
    }
    if (op_runs_count(part(&r->bytes, morsels_bytes, r->bytes.count)) > SET_RUNS_MAX) {
        r->bytes.count = morsels_bytes + (size_t)SET_RUNS_MAX * OP_RUN_BYTES;
    }
    r->op.set_stored.morsels = part(&r->bytes, 0, morsels_bytes);
    r->op.set_stored.waste = part(&r->bytes, morsels_bytes, r->bytes.count);
    return r->bytes.failed ? MORSEL_NOMEM : 0;
}

int record_set_stored(struct request *r)
{
    const Morsel__SetStoredRequest *m = r->message;
    struct meta_op *op = &r->op;
    struct inode inode;
    int rv;

    if (m->n_morsels > SET_STORED_MAX || m->n_places > (size_t)SET_STORED_MAX * REPLICAS_MAX) {
        return MORSEL_MALFORMED;
    }
    if ((rv = find_set(r, m->inode, m->set, &inode)) != 0 || (rv = may_store(r, &inode)) != 0) {
        return rv;
    }
    op->set_stored.inode = m->inode;
    op->set_stored.set = m->set;
    op->set_stored.size = m->size;
    op->set_stored.mtime_ns = (int64_t)m->mtime_ns;
    op->set_stored.strips_ids = m->strips_ids;
    return take_morsels(r, m);
}

int reply_set_stored(struct request *r)
{
    const Morsel__SetStoredRequest *m = r->message;

    return m->durable ? reply_wrote_durable(r) : reply_node(r);
}

int record_set_seal(struct request *r)
{
    const Morsel__SetSealRequest *m = r->message;
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), m->set);
    struct inode inode;
    int rv = find_set(r, m->inode, m->set, &inode);

    r->op.set_seal.inode = m->inode;
    r->op.set_seal.set = m->set;
    r->op.set_seal.size = m->size;
    if (rv != 0 || (set != NULL && set->head.sealed)) {
        return rv; /* A second time does no harm. */
    }
    if ((rv = may_store(r, &inode)) == 0) {
        place_rounds_drop(&r->meta->rounds, m->set);
    }
    return rv;
}

int reply_set_seal(struct request *r)
{
    const Morsel__SetSealRequest *m = r->message;

    evictions_stored(r->meta, m->set);
    return reply_node(r);
}

/* ---- Where they are ---- */

struct map_page
{
    Morsel__SetMorsel items[SET_MAP_MAX], *pointers[SET_MAP_MAX];
    donor_id donors[SET_MAP_MAX][SET_DONORS_MAX];
    struct damage_copy bad[DAMAGE_KEPT_MAX]; /* Copies of the set that are known to be wrong. */
    uint32_t bad_count;
    size_t count;
    struct places places;
};

static void map_add(struct map_page *page, const struct data_set *set,
                    const struct set_morsel *morsel)
{
    Morsel__SetMorsel *m = page->pointers[page->count] = &page->items[page->count];

    morsel__set_morsel__init(m);
    m->number = morsel->number;
    m->length = morsel->length;
    m->digest = morsel->digest;
    m->rewriting = morsel->rewriting;
    m->evicted = set_has_evicted(&set->head, morsel);
    m->n_donors = morsel->donor_count;
    m->donors = page->donors[page->count];
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        page->donors[page->count][i] = morsel->donors[i];
        places_add(&page->places, morsel->donors[i]);
    }
    for (uint32_t i = 0; i < page->bad_count; i++) {
        if (page->bad[i].morsel == morsel->number) {
            m->bad = &page->bad[i].donor; /* It was the last one. */
            m->n_bad = 1;
        }
    }
    page->count++;
}

static void map_fill(struct map_page *page, const struct data_set *set,
                     const Morsel__SetMapRequest *m)
{
    uint32_t from = m->first;
    struct set_morsel morsel;

    while (set != NULL && set_next(set, from, &morsel) && morsel.number - m->first < m->count) {
        map_add(page, set, &morsel);
        from = morsel.number + 1;
    }
}

/* For who fetches what nobody has any more. */
static int map_origin(struct request *r, const struct data_set *set, Morsel__SetMapReply *reply)
{
    struct origin origin;
    int rv = set != NULL && set->head.has_origin
                 ? ns_origin(r->meta->ns, set->head.number, &origin, &r->err)
                 : MORSEL_NOENT;

    if (rv == 0) {
        origin_encode(&origin, &r->bytes);
        reply->origin.data = r->bytes.data;
        reply->origin.len = r->bytes.count;
        return r->bytes.failed ? MORSEL_NOMEM : 0;
    }
    return rv == MORSEL_NOENT ? 0 : rv;
}

int serve_set_map(struct request *r)
{
    const Morsel__SetMapRequest *m = r->message;
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), m->set);
    Morsel__SetMapReply reply = MORSEL__SET_MAP_REPLY__INIT;
    struct map_page *page;
    struct inode inode;
    int rv;

    if (m->count > SET_MAP_MAX) {
        return MORSEL_MALFORMED;
    }
    if ((rv = find_set(r, m->inode, m->set, &inode)) != 0) {
        return rv;
    }
    if (r->rpc->role != ROLE_ADMIN && /* Who looks at the set does not use it. */
        !session_has_open(r->meta->sessions, m->inode, r->rpc->node_id, false)) {
        evictions_used(r->meta, m->inode, r->rpc->node_id); /* It was opened without a word. */
    }
    if (m->origin && (rv = map_origin(r, set, &reply)) != 0) {
        return rv;
    }
    rv = MORSEL_NOMEM;
    page = calloc(1, sizeof(*page));
    if (page != NULL && places_make(&page->places, r->meta, (size_t)m->count * SET_DONORS_MAX)) {
        page->bad_count = damage_kept(&r->meta->damage, m->set, page->bad, DAMAGE_KEPT_MAX);
        map_fill(page, set, m);
        reply.n_morsels = page->count;
        reply.morsels = page->pointers;
        reply.n_places = page->places.count;
        reply.places = page->places.pointers;
        reply.sealed = set != NULL && set->head.sealed;
        reply.size = inode.size;
        rpc_reply(r->rpc, &reply.base, NULL);
        rv = 0;
    }
    if (page != NULL) {
        places_free(&page->places);
    }
    free(page);
    return rv;
}

/* ---- All of them ---- */

/* A page looks at no more morsels than that, but for those of one set. */
enum { LIST_PAGE_MAX = 1000, LIST_MORSELS_MAX = 1 << 18, LIST_URL_MAX = 256 };

struct list_page
{
    Morsel__SetInfo items[LIST_PAGE_MAX], *pointers[LIST_PAGE_MAX];
    char urls[LIST_PAGE_MAX][LIST_URL_MAX + 1];
    size_t count;
};

static enum set_state state_of(const struct meta *meta, const struct data_set *set)
{
    return set->head.sealed                                  ? SET_SEALED
           : set->head.reserved != 0 && set->morsels == 0    ? SET_RESERVED
           : session_known(meta->sessions, set->head.writer) ? SET_STORING
                                                             : SET_ABANDONED;
}

/* Where it comes from, if that is known: a record that cannot be read hides no other set. */
static int list_origin(struct request *r, struct list_page *page, const struct data_set *set)
{
    char *url = page->urls[page->count];
    struct origin origin;
    int rv = ns_origin(r->meta->ns, set->head.number, &origin, &r->err);

    if (rv == 0) {
        memcpy(url, origin.url, strnlen(origin.url, LIST_URL_MAX));
        page->items[page->count].origin = url;
    }
    if (rv == MORSEL_NOENT || rv == MORSEL_CORRUPT || rv == MORSEL_VERSION) {
        return 0;
    }
    return rv == MORSEL_AGAIN && !kv_wants_enough(r->meta->kv) ? 0 : rv;
}

static int list_add(struct request *r, struct list_page *page, const struct data_set *set,
                    uint64_t next)
{
    Morsel__SetInfo *info = page->pointers[page->count] = &page->items[page->count];
    struct set_state_now state = { 0 };
    struct damage_copy bad[DAMAGE_KEPT_MAX];
    struct inode inode = { .size = 0 };
    int rv = ns_inode(r->meta->ns, set->head.inode, &inode, &r->err);

    if (rv == MORSEL_AGAIN && !kv_wants_enough(r->meta->kv)) {
        rv = 0; /* All that must be read is read together. */
    }
    if (!kv_wants(r->meta->kv)) {
        state = sets_state(r->meta, set);
    }
    morsel__set_info__init(info);
    info->set = set->head.number;
    info->inode = set->head.inode;
    info->size = inode.size;
    info->reserved = set->head.reserved;
    info->state = state_of(r->meta, set);
    info->copies = set->head.copies;
    info->morsels = set->morsels;
    info->morsels_short = state.morsels_short;
    info->morsels_away = state.morsels_away;
    info->morsels_bad = damage_kept(&r->meta->damage, set->head.number, bad, DAMAGE_KEPT_MAX);
    info->donors = state.donors;
    info->made_s = (uint64_t)(set->head.made_ns / NS_PER_S);
    info->morsel_bytes = set->head.morsel_bytes;
    info->scratch = set->head.scratch;
    info->pinned = set->head.pinned;
    info->morsels_evicted = state.morsels_evicted;
    info->mounts_fetch = set->head.sealed && set->head.has_origin && set->head.fetched;
    info->last_used_s = (uint64_t)(evictions_last_ns(r->meta, set) / NS_PER_S);
    info->eviction = evictions_state(r->meta, set);
    info->next_to_go = set->head.number == next;
    if (!set->head.sealed) {
        info->quiet_since_s =
            (uint64_t)(unfinished_quiet_ns(&r->meta->unfinished.core, set->head.number) / NS_PER_S);
    }
    rv = rv == MORSEL_STALE ? 0 : rv;
    if (rv == 0 && set->head.has_origin) {
        rv = list_origin(r, page, set);
    }
    page->count++;
    return rv;
}

/* What is known of how often each is read (datasets/heat.h). */
static void list_heat(const struct meta *meta, struct list_page *page)
{
    uint64_t numbers[LIST_PAGE_MAX], sums[LIST_PAGE_MAX];

    for (uint32_t i = 0; i < page->count; i++) {
        numbers[i] = page->items[i].set;
    }
    heat_sum(&meta->heat, numbers, sums, page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        page->items[i].heat_milli = sums[i] * MILLI / HEAT_ONE / page->items[i].copies;
    }
}

int serve_set_list(struct request *r)
{
    const Morsel__SetListRequest *m = r->message;
    const struct sets *sets = ns_sets(r->meta->ns);
    Morsel__SetListReply reply = MORSEL__SET_LIST_REPLY__INIT;
    struct list_page *page = calloc(1, sizeof(*page));
    uint32_t at = sets_from(sets, m->from);
    uint64_t looked = 0, next = evictions_next(r->meta);
    int rv = page != NULL ? 0 : MORSEL_NOMEM;

    for (; rv == 0 && at < sets->count && page->count < LIST_PAGE_MAX; at++) {
        looked += sets->items[at]->morsels;
        if (page->count > 0 && looked > LIST_MORSELS_MAX) {
            break;
        }
        rv = list_add(r, page, sets->items[at], next);
    }
    rv = rv == 0 && kv_wants(r->meta->kv) ? MORSEL_AGAIN : rv;
    if (rv == 0) {
        list_heat(r->meta, page);
        reply.n_sets = page->count;
        reply.sets = page->pointers;
        reply.next = at < sets->count ? sets->items[at]->head.number : 0;
        rpc_reply(r->rpc, &reply.base, NULL);
    }
    free(page);
    return rv;
}
