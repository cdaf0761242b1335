/* Morsels that no benefactor has, from where the data set comes from (set_parts_uv.h).
 *
 * A sealed set alone: then the map has the digest of each morsel, and what comes is handed on only where it is that. So readers never get
 * other bytes than those that were stored, whatever the origin says by now, and whoever has written down its URL learns nothing.
 *
 * Morsels are fetched in stretches (origin_pace.h), and each is handed on when it is complete. Those of a stretch for which nobody waits yet are
 * kept, as all that was read: the next reads find them. When an origin fails, all that waits for it fails, and it is not visited
 * again for a while: so whoever reads through a set is not held up by each morsel of it.
 *
 * What nobody has at all is claimed before (set_claim_uv.c), so that one mount alone fetches it, and put back (set_return_uv.c):
 *
 *   asking --ours, or nobody says--> fetching --each morsel--> its readers, and to benefactors
 *     |----another mount's: asked again, for CLAIM_WAIT_MS at most; then it is fetched all the same. Who reads in order fetches meanwhile what
 *     |                     comes behind that, so mounts that want the same tail have a part of it each
 *     '----somebody has it by now: it is read there */
#include "client/datasets/origin_pace.h"
#include "client/datasets/origin_power.h"
#include "client/datasets/set_parts_uv.h"

#include "common/base/crc32c.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/rpc/rpc_uv.h"

#include <stdlib.h>
#include <string.h>

enum {
    SILENT_MS_MAX = 60000,     /* So long nothing may come, or io_timeout if that is less. */
    PART_MS_MAX = 300000,      /* So long one stretch may take, and a reader wait. */
    GIVES_MS = 10000,          /* So long who gave something is taken to go on. */
    CLAIM_WAIT_MS = 15000,     /* So long another mount is waited for, that fetches the same. */
    CLAIM_RENEW_MS = 3000,     /* Long before what we claim is over. */
    FURTHER_BYTES = 128 << 20, /* So far behind what others fetch we look for some of our own, */
    FURTHER_KEPT_MAX =
        SET_CACHED_BYTES_MAX - 2 * ORIGIN_PART_BYTES_MAX, /* while it has room until it is read. */
    IN_ORDER_MIN = 2,        /* Who waits for so many morsels at once reads on behind them. */
    PAUSE_MS = 5000,         /* Behind a failure, */
    CHANGED_PAUSE_MS = 60000 /* and when it has another one by now. */
};

enum origin_state { ORIGIN_UNKNOWN, ORIGIN_ASKING, ORIGIN_THERE, ORIGIN_NONE };

struct set_origin
{
    struct data_set *set;
    enum origin_state state;
    struct origin origin;
    struct meta_call call;
    struct list waiting; /* struct set_load */
    struct list parts;   /* struct part */
    uint32_t parts_count;
    struct origin_pace pace;
    uint64_t heard_ms; /* When bytes came last. */
    uint64_t renew_ms; /* The manager is told that what we claim is on its way. */
    struct set_renewal renewal;
    bool gave;               /* They ever did. */
    uint64_t pause_until_ms; /* It is not visited before. */
};

/* A stretch of morsels on its way. */
struct part
{
    struct origin_part part;
    struct list node; /* In set_origin.parts. */
    struct data_set *set;
    struct set_claim claim;
    bool gone; /* Nobody wants it any more: it ends when the claim is answered. */
    uint64_t until_ms;
    uint32_t first, count;
    uint32_t
        wanted; /* What a reader waits for: it, or what others fetch, and it lies behind that. */
    uint32_t at, within; /* The next bytes are of that one of its morsels, from there on. */
    struct payload *pieces[SET_PIECES_MAX]; /* Of it. */
    struct set_entry entries[];
};

static uint64_t now_of(const struct data_set *set)
{
    return uv_now(set->client->loop);
}

static uint64_t silent_ms(const struct data_set *set)
{
    uint64_t timeout_ms = set->client->options.io_timeout_ms;

    return timeout_ms < SILENT_MS_MAX ? timeout_ms : SILENT_MS_MAX;
}

/* Who fetches it: files of the cluster the client reads itself. */
static const struct origin_power *power_of(const struct data_set *set)
{
    return origin_is_inside(&set->origin->origin) ? set->client->data.inside
                                                  : set->client->options.origins;
}

/* How many of all sets are fetched from where those come from: a web server that is slow on purpose is no matter of files of the cluster. */
static uint32_t *parts_like(const struct data_set *set)
{
    return &set->client->data.sets->origin_parts[origin_is_inside(&set->origin->origin)];
}

/* ---- The end of a stretch ---- */

static void part_free(struct part *p)
{
    struct data_set *set = p->set;

    for (unsigned i = 0; i < SET_PIECES_MAX; i++) {
        payload_drop(p->pieces[i]);
    }
    if (p->claim.what == SET_CLAIM_OURS) {
        set_claim_end(set, p->first + p->at, p->count - p->at);
    }
    list_remove(&p->node);
    set->origin->parts_count--;
    (*parts_like(set))--;
    free(p->claim.donors);
    free(p);
    set_unref(set);
}

static void part_failed(struct part *p, enum origin_end end, const char *words)
{
    struct data_set *set = p->set;
    bool changed = end == ORIGIN_CHANGED;

    log_error(set->client->options.log,
              "inode %lu: what no benefactor has of data set %lu, from byte %llu on, was not had "
              "from %s: %s; %s",
              (unsigned long)set->inode, (unsigned long)set->number,
              (unsigned long long)p->part.from, set->origin->origin.url, words,
              changed ? "none of the bytes that it has now are given out: \"morsel stage --fresh\" "
                        "begins the file anew"
                      : "it is tried again behind some seconds");
    set->origin->pause_until_ms = now_of(set) + (changed ? CHANGED_PAUSE_MS : PAUSE_MS);
    part_free(p);
}

static void part_break(struct part *p, enum origin_end end, const char *words)
{
    power_of(p->set)->stop(&p->part);
    part_failed(p, end, words);
}

/* ---- Bytes ---- */

static uint32_t piece_bytes(const struct part *p)
{
    uint32_t length = p->entries[p->at].length;
    uint32_t left = length - p->within / SET_PIECE_BYTES * SET_PIECE_BYTES;

    return left < SET_PIECE_BYTES ? left : SET_PIECE_BYTES;
}

static uint8_t *room(void *data, size_t *count)
{
    struct part *p = data;
    struct payload **piece = &p->pieces[p->within / SET_PIECE_BYTES];
    uint32_t from = p->within % SET_PIECE_BYTES;

    *count = 0;
    if (p->at == p->count) {
        return NULL;
    }
    if (*piece == NULL) {
        *piece = payload_new(rpc_payloads(p->set->client->rpc), piece_bytes(p));
    }
    if (*piece == NULL) {
        return NULL;
    }
    *count = piece_bytes(p) - from;
    return (*piece)->data + from;
}

static uint32_t digest_of(const struct part *p)
{
    uint32_t crcs[SET_PIECE_BYTES / BLOCK_BYTES];
    uint32_t length = p->entries[p->at].length, digest = 0;

    for (uint32_t from = 0; from < length; from += SET_PIECE_BYTES) {
        const struct payload *piece = p->pieces[from / SET_PIECE_BYTES];

        crc32c_of_pieces(0, piece->data, piece->count, crcs);
        digest = crc32c(digest, crcs, crc32c_pieces(0, piece->count) * sizeof(crcs[0]));
    }
    return digest;
}

/* The part may be gone behind it: who hears of it may close the file. */
static void hand_on(struct part *p)
{
    struct data_set *set = set_ref(p->set);
    struct set_entry entry = p->entries[p->at];
    struct payload *pieces[SET_PIECES_MAX];

    memcpy(pieces, p->pieces, sizeof(pieces));
    memset(p->pieces, 0, sizeof(p->pieces));
    p->within = 0;
    p->at++;
    if (p->claim.what == SET_CLAIM_OURS) {
        set_return_start(set, p->first + p->at - 1, &entry, pieces,
                         p->claim.donors + (size_t)(p->at - 1) * p->claim.copies, p->claim.copies);
    }
    set_load_from_origin(set, p->first + p->at - 1, &entry, pieces);
    for (unsigned i = 0; i < SET_PIECES_MAX; i++) {
        payload_drop(pieces[i]);
    }
    set_unref(set);
}

static void came(void *data, size_t count)
{
    struct part *p = data;

    p->set->origin->heard_ms = now_of(p->set);
    p->set->origin->gave = true;
    p->within += (uint32_t)count;
    if (p->within < p->entries[p->at].length) {
        return;
    }
    if (digest_of(p) == p->entries[p->at].digest) {
        hand_on(p);
    } else {
        part_break(p, ORIGIN_CHANGED, "its bytes are others than those that were stored");
    }
}

static void start_parts(struct set_origin *o);

static void ended(void *data, enum origin_end end, const char *words)
{
    struct part *p = data;
    struct data_set *set = set_ref(p->set);

    if (end == ORIGIN_DONE && p->at == p->count) {
        part_free(p);
        start_parts(set->origin);
    } else {
        part_failed(p, end, end == ORIGIN_DONE ? "it breaks off" : words);
    }
    set_unref(set);
}

/* ---- Which stretches ---- */

static bool is_coming(const struct set_origin *o, uint32_t morsel)
{
    LIST_FOREACH(node, &o->parts)
    {
        const struct part *p = LIST_ENTRY(node, struct part, node);

        if (morsel >= p->first + p->at && morsel - p->first < p->count) {
            return true;
        }
    }
    return false;
}

static bool is_here(const struct data_set *set, uint32_t morsel)
{
    struct set_load_key key = { set->number, morsel };
    struct set_load *load;

    HASH_FIND(hh, set->client->data.sets->loads, &key, sizeof(key), load);
    return load != NULL && load->here;
}

/* May the stretch go on with that morsel, behind others? Only what nobody has is fetched ahead. */
static bool goes_on(struct data_set *set, uint32_t morsel, struct set_entry *entry)
{
    return set_map_get(&set->map, morsel, entry) && entry->stored && !entry->rewriting &&
           entry->length > 0 && (entry->evicted || entry->donor_count == 0) &&
           !is_here(set, morsel) && !is_coming(set->origin, morsel);
}

static void collect(struct part *p, uint32_t most)
{
    struct data_set *set = p->set;

    p->part.length = p->entries[0].length;
    p->count = 1;
    while (p->count < most && p->entries[p->count - 1].length == set->morsel_bytes &&
           goes_on(set, p->first + p->count, &p->entries[p->count])) {
        p->part.length += p->entries[p->count].length;
        p->count++;
    }
}

/* From that morsel on, of `most` of them at most. NULL: no memory. */
static struct part *part_new(struct set_origin *o, uint32_t morsel, const struct set_entry *entry,
                             uint32_t most)
{
    struct data_set *set = o->set;
    struct part *p = calloc(1, sizeof(*p) + most * sizeof(p->entries[0]));

    if (p == NULL) {
        return NULL;
    }
    list_init(&p->node);
    p->set = set_ref(set);
    p->first = p->wanted = morsel;
    p->entries[0] = *entry;
    collect(p, most);
    p->until_ms = UINT64_MAX;
    p->part.origin = &o->origin;
    p->part.inode = set->inode;
    p->part.from = (uint64_t)p->first * set->morsel_bytes;
    p->part.silent_ms = silent_ms(set);
    p->part.data = p;
    p->part.room = room;
    p->part.came = came;
    p->part.ended = ended;
    list_push_back(&o->parts, &p->node);
    o->parts_count++;
    (*parts_like(set))++;
    return p;
}

/* False: not for now, and it is gone. */
static bool fetch(struct part *p)
{
    struct data_set *set = p->set;
    const struct origin_power *power = power_of(set);

    p->until_ms = now_of(set) + PART_MS_MAX;
    if (power->start(power->data, &p->part) != 0) {
        part_failed(p, ORIGIN_FAILED, "the program that fetches it (\"morsel\") cannot be started");
        return false;
    }
    set->client->counters.set_origin_visits++;
    origin_pace_took(&set->origin->pace, p->first, p->count);
    return true;
}

/* ---- Who fetches them ---- */

static uint64_t claim_wait_ms(const struct data_set *set)
{
    return silent_ms(set) < CLAIM_WAIT_MS ? silent_ms(set) : CLAIM_WAIT_MS;
}

static bool waits_for_others(const struct set_load *load, uint64_t now_ms)
{
    return load->others_ms != 0 && now_ms < load->others_ms + claim_wait_ms(load->set);
}

/* What has a benefactor, even one that is away, is not put back, and so not claimed; nor is what others have been waited for for too long. */
static bool wants_claim(const struct set_load *load)
{
    return load->entry.donor_count == 0 &&
           (load->others_ms == 0 || waits_for_others(load, now_of(load->set)));
}

/* Those that are waited for, of the morsels from `first` on. */
static void collect_waiting(struct set_origin *o, uint32_t first, uint32_t count, struct list *out)
{
    list_init(out);
    LIST_FOREACH_SAFE(node, &o->waiting)
    {
        const struct set_load *load = LIST_ENTRY(node, struct set_load, origin_node);

        if (load->key.morsel >= first && load->key.morsel - first < count) {
            list_remove(node);
            list_push_back(out, node);
        }
    }
}

static void wait_for_others(struct set_origin *o, const struct part *p)
{
    struct list theirs, *node;

    collect_waiting(o, p->first, p->claim.count, &theirs);
    while ((node = list_pop_front(&theirs)) != NULL) {
        struct set_load *load = LIST_ENTRY(node, struct set_load, origin_node);

        load->others_ms = load->others_ms != 0 ? load->others_ms : now_of(o->set);
        load->claim_ms = now_of(o->set) + p->claim.wait_ms;
        load->origin_ms = now_of(o->set); /* The origin has had no chance yet. */
        list_push_back(&o->waiting, node);
    }
}

static void read_elsewhere(struct set_origin *o, uint32_t first, uint32_t count)
{
    struct list there, *node;

    collect_waiting(o, first, count, &there);
    while ((node = list_front(&there)) != NULL) {
        set_load_elsewhere(LIST_ENTRY(node, struct set_load, origin_node));
    }
}

/* Only what we claim is fetched now. */
static void cut_to_claim(struct part *p)
{
    p->part.length = 0;
    p->count = p->claim.count;
    for (uint32_t i = 0; i < p->count; i++) {
        p->part.length += p->entries[i].length;
    }
    p->set->origin->renew_ms = now_of(p->set) + CLAIM_RENEW_MS;
}

static void on_claimed(struct set_claim *claim);

static bool has_part_left(const struct set_origin *o)
{
    return o->state == ORIGIN_THERE && o->parts_count < ORIGIN_PARTS_OF_SET_MAX &&
           *parts_like(o->set) < ORIGIN_PARTS_MAX && now_of(o->set) >= o->pause_until_ms;
}

/* What comes behind `morsel`, which another mount fetches, if nobody has that either. */
static void go_further(struct set_origin *o, uint32_t wanted, uint32_t morsel)
{
    uint32_t end = wanted + FURTHER_BYTES / o->set->morsel_bytes;
    struct set_entry entry;
    struct part *p;

    while (morsel < end && (is_here(o->set, morsel) || is_coming(o, morsel))) {
        morsel++;
    }
    if (morsel >= end || !has_part_left(o) ||
        o->set->client->data.sets->cached_bytes > FURTHER_KEPT_MAX ||
        !goes_on(o->set, morsel, &entry) || entry.donor_count > 0) {
        return;
    }
    p = part_new(o, morsel, &entry, origin_pace_most(o->set->morsel_bytes));
    if (p != NULL) {
        p->wanted = wanted;
        if (set_claim_start(&p->claim, o->set, p->first, p->count, on_claimed) != 0) {
            part_free(p);
        }
    }
}

static bool is_read_in_order(const struct set_origin *o)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &o->waiting)
    {
        count++;
    }
    return count >= IN_ORDER_MIN;
}

static void on_others(struct set_origin *o, struct part *p)
{
    uint32_t behind = p->first + p->claim.count, wanted = p->wanted;

    wait_for_others(o, p);
    origin_pace_skip(&o->pace, p->first, p->claim.count);
    part_free(p);
    if (is_read_in_order(o)) {
        go_further(o, wanted, behind);
    }
}

static void on_claimed(struct set_claim *claim)
{
    struct part *p = CONTAINER_OF(claim, struct part, claim);
    struct data_set *set = set_ref(p->set);
    struct set_origin *o = set->origin;
    uint32_t first = p->first, count = claim->count;

    if (p->gone) {
        part_free(p);
    } else if (claim->what == SET_CLAIM_OTHERS) {
        on_others(o, p);
    } else if (claim->what == SET_CLAIM_THERE) {
        part_free(p);
        origin_pace_skip(&o->pace, first, count);
        read_elsewhere(o, first, count);
    } else {
        if (claim->what == SET_CLAIM_OURS) {
            cut_to_claim(p);
        }
        if (claim->what == SET_CLAIM_OURS || p->wanted == p->first) {
            (void)fetch(p);
        } else {
            part_free(p); /* Nobody waits for it. */
        }
    }
    start_parts(o);
    set_unref(set);
}

/* False: not for now. */
static bool start_part(struct set_origin *o, const struct set_load *load)
{
    uint32_t morsel = (uint32_t)load->key.morsel;
    struct part *p = part_new(o, morsel, &load->entry,
                              origin_pace_count(&o->pace, morsel, o->set->morsel_bytes));

    if (p == NULL) {
        return false;
    }
    if (wants_claim(load) &&
        set_claim_start(&p->claim, o->set, p->first, p->count, on_claimed) == 0) {
        return true;
    }
    return fetch(p);
}

static void start_parts(struct set_origin *o)
{
    LIST_FOREACH(node, &o->waiting)
    {
        const struct set_load *load = LIST_ENTRY(node, struct set_load, origin_node);

        if (!has_part_left(o)) {
            return;
        }
        if (now_of(o->set) >= load->claim_ms && !is_coming(o, (uint32_t)load->key.morsel) &&
            !start_part(o, load)) {
            return;
        }
    }
}

/* ---- Where it comes from ---- */

/* They do not come from there. What hears of it may close the file, and so end others of these. */
static void fail_all(struct data_set *set, struct list *loads)
{
    struct list *node;

    (void)set_ref(set);
    while ((node = list_front(loads)) != NULL) {
        set_load_origin_failed(LIST_ENTRY(node, struct set_load, origin_node));
    }
    set_unref(set);
}

static void fail_waiting(struct set_origin *o)
{
    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(&o->waiting)) != NULL) {
        list_push_back(&due, node);
    }
    fail_all(o->set, &due);
}

static void learn(struct set_origin *o, int status, const Morsel__SetMapReply *reply)
{
    o->state = ORIGIN_UNKNOWN;
    if (status != 0) {
        o->pause_until_ms = now_of(o->set) + SET_PAUSE_MS;
        return;
    }
    o->state = ORIGIN_NONE;
    if (reply->origin.len == 0) {
        return;
    }
    if (origin_decode((struct slice){ reply->origin.data, reply->origin.len }, &o->origin) != 0 ||
        !(origin_is_visited(&o->origin) || origin_is_inside(&o->origin))) {
        log_warning(
            o->set->client->options.log,
            "inode %lu: its data set %lu comes from where a mount fetches nothing (only "
            "http:, https: and the cluster itself); \"morsel stage --fresh\" stores it anew",
            (unsigned long)o->set->inode, (unsigned long)o->set->number);
        return;
    }
    o->state = ORIGIN_THERE;
}

static void on_origin(struct meta_call *call, int status, void *message)
{
    struct set_origin *o = CONTAINER_OF(call, struct set_origin, call);
    struct data_set *set = o->set;

    learn(o, status, message);
    if (o->state == ORIGIN_THERE) {
        o->heard_ms = now_of(set);
        start_parts(o);
    } else {
        fail_waiting(o);
    }
    set_unref(set);
}

static bool ask(struct set_origin *o)
{
    Morsel__SetMapRequest request = MORSEL__SET_MAP_REQUEST__INIT;
    struct data_set *set = o->set;

    request.inode = set->inode;
    request.set = set->number;
    request.origin = true;
    if (meta_call_start(&o->call, set->client, MSG_SET_MAP, &request.base,
                        &morsel__set_map_reply__descriptor, on_origin) != 0) {
        return false;
    }
    o->state = ORIGIN_ASKING;
    (void)set_ref(set);
    return true;
}

/* ---- For loads ---- */

bool set_origin_may(const struct data_set *set)
{
    const struct set_origin *o = set->origin;

    return set->client->options.origins != NULL && set->sealed && !set->dropped &&
           (o == NULL || (o->state != ORIGIN_NONE && now_of(set) >= o->pause_until_ms));
}

bool set_origin_gives(const struct data_set *set)
{
    const struct set_origin *o = set->origin;

    return o != NULL && o->gave && now_of(set) < o->heard_ms + GIVES_MS;
}

static struct set_origin *origin_of(struct data_set *set)
{
    struct set_origin *o = set->origin;

    if (o == NULL && (o = calloc(1, sizeof(*o))) != NULL) {
        o->set = set;
        list_init(&o->waiting);
        list_init(&o->parts);
        set->origin = o;
    }
    return o;
}

bool set_origin_want(struct set_load *load)
{
    struct data_set *set = load->set;
    struct set_origin *o = set_origin_may(set) && !load->entry.rewriting ? origin_of(set) : NULL;

    if (o == NULL || (o->state == ORIGIN_UNKNOWN && !ask(o))) {
        return false;
    }
    load->at_origin = true;
    load->origin_ms = now_of(set);
    load->claim_ms = 0;
    list_remove(&load->origin_node);
    list_push_back(&o->waiting, &load->origin_node);
    start_parts(o);
    return true;
}

static bool waits_too_long(const struct set_origin *o, const struct set_load *load, uint64_t now_ms)
{
    uint64_t heard_ms = o->heard_ms > load->origin_ms ? o->heard_ms : load->origin_ms;

    return !waits_for_others(load, now_ms) &&
           (now_ms >= heard_ms + silent_ms(o->set) || now_ms >= load->origin_ms + PART_MS_MAX);
}

/* What was put back is evicted no more. Not while something is fetched: stretches go by what the map says (goes_on()). */
static void forget_evicted(struct set_origin *o)
{
    struct data_set *set = o->set;

    if (set->returned && set->returning == 0 && o->parts_count == 0 && list_empty(&o->waiting)) {
        set->returned = false;
        set_map_forget_all(&set->map);
    }
}

void set_origin_tick(struct data_set *set, uint64_t now_ms)
{
    struct set_origin *o = set->origin;
    struct list late;

    if (o == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &o->parts)
    {
        struct part *p = LIST_ENTRY(node, struct part, node);

        set_claim_tick(&p->claim, now_ms);
        if (now_ms >= p->until_ms) {
            part_break(p, ORIGIN_FAILED, "it takes too long");
        }
    }
    if ((o->parts_count > 0 || set->returning > 0) && now_ms >= o->renew_ms) {
        o->renew_ms = now_ms + CLAIM_RENEW_MS;
        set_claim_renew(&o->renewal, set);
    }
    forget_evicted(o);
    list_init(&late);
    LIST_FOREACH_SAFE(node, &o->waiting)
    {
        if (waits_too_long(o, LIST_ENTRY(node, struct set_load, origin_node), now_ms)) {
            list_remove(node);
            list_push_back(&late, node);
        }
    }
    fail_all(set, &late);
    if (o->parts_count == 0 && o->state == ORIGIN_THERE && now_ms < o->pause_until_ms) {
        fail_waiting(o);
    } else {
        start_parts(o);
    }
}

void set_origin_leave(struct data_set *set)
{
    struct set_origin *o = set->origin;
    struct list *node;

    struct list due;

    if (o == NULL) {
        return;
    }
    list_init(&due);
    while ((node = list_pop_front(&o->parts)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) {
        struct part *p = LIST_ENTRY(node, struct part, node);

        list_push_back(&o->parts, node);
        if (p->claim.asking) {
            p->gone = true;
            set_claim_cancel(&p->claim);
        } else {
            power_of(set)->stop(&p->part);
            part_free(p);
        }
    }
}

void set_origin_free(struct data_set *set)
{
    CHECK(set->origin == NULL ||
          (list_empty(&set->origin->waiting) && set->origin->parts_count == 0));
    free(set->origin);
}
