/* Uses are counted in memory and written down later; victims are chosen, and their ends taken out of the maps. */
#include "meta/datasets/evictions_uv.h"

#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/coherence/leases_uv.h"

enum {
    LOOK_MS = 1000,
    WRITE_MS = 60000,
    WRITES_MAX = 128,       /* Uses of so many sets are written down at a time, */
    WRITE_LOOKS_MAX = 4096, /* and so many are looked at. */
    ASK_MS = 200, /* A benefactor that is to delete something is asked to report so often. */
    FRESH_MS =
        600, /* What a benefactor has said of its room is believed for so long when it has refused somebody since. */
    EVICTED_MS = 5000, /* So long who was refused before is told to try again behind an eviction. */
    WANTS_MAX = 1024,  /* Benefactors that get room in one round. */
    BURST_S = 10,
    SOON_S = 60, /* So long somebody may wait for what is still left alone. */
    NS_PER_S = 1000000000
};

/* ---- What is known ---- */

static void learn_first(struct evictions *e, int64_t stored_ns, int64_t first_ns)
{
    if (stored_ns != 0 && first_ns > stored_ns) {
        e->first_sum_s += (uint64_t)(first_ns - stored_ns) / NS_PER_S;
        e->first_count++;
    }
}

static int64_t average_ns(const struct evictions *e)
{
    return e->first_count == 0 ? 0 : (int64_t)(e->first_sum_s / e->first_count) * NS_PER_S;
}

/* All that may go and are not known yet. */
static int learn_sets(struct meta *meta)
{
    const struct sets *sets = ns_sets(meta->ns);
    int rv = 0;

    for (uint32_t i = 0; rv == 0 && i < sets->count; i++) {
        const struct set_head *head = &sets->items[i]->head;

        if (set_may_go(head) && head->sealed &&
            lru_k_find(&meta->evictions.lru, head->number) == NULL) {
            rv = lru_k_put(&meta->evictions.lru, head->number, &head->uses);
        }
    }
    return rv;
}

void evictions_stored(struct meta *meta, uint64_t number)
{
    const struct data_set *set = sets_find(ns_sets(meta->ns), number);

    if (set != NULL && set->head.sealed && set_may_go(&set->head) &&
        lru_k_find(&meta->evictions.lru, number) == NULL) {
        (void)lru_k_put(&meta->evictions.lru, number, &set->head.uses);
    }
}

int evictions_open(struct meta *meta)
{
    const struct sets *sets = ns_sets(meta->ns);

    lru_k_init(&meta->evictions.lru, LRU_K_DEFAULT, (int64_t)BURST_S * NS_PER_S);
    for (uint32_t i = 0; i < sets->count; i++) {
        learn_first(&meta->evictions, sets->items[i]->head.stored_ns,
                    sets->items[i]->head.first_ns);
    }
    return learn_sets(meta);
}

void evictions_free(struct meta *meta)
{
    lru_k_free(&meta->evictions.lru);
}

/* ---- Uses ---- */

static void write_used(struct meta *meta, const struct data_set *set, const struct lru_k_uses *uses)
{
    struct meta_op op = { .kind = OP_SET_USED, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    int rv;

    op.set_used.set = set->head.number;
    op.set_used.uses = *uses;
    if (set->head.first_ns == 0 && uses->count > 0) {
        op.set_used.first_ns = uses->times_ns[uses->count - 1];
    }
    if ((rv = meta_execute(meta, &op, &err)) != 0) {
        log_debug(meta->log, "data set %llu: its last use is not written down: %s",
                  (unsigned long long)set->head.number, status_words(rv));
    }
}

static bool is_there(void *data, uint64_t number)
{
    const struct meta *meta = data;

    return sets_find(ns_sets(meta->ns), number) != NULL;
}

/* Those that were used since they were written, from the next one on, and not too many. */
static void write_some(struct meta *meta, uint32_t looks, uint32_t writes)
{
    struct evictions *e = &meta->evictions;

    for (; e->writing != 0 && looks > 0 && writes > 0; looks--) {
        const struct lru_k_set *item = lru_k_next(&e->lru, e->writing);
        const struct data_set *set = item != NULL ? sets_find(ns_sets(meta->ns), item->set) : NULL;

        e->writing = item != NULL ? item->set + 1 : 0;
        if (set != NULL && set_may_go(&set->head) && item->uses.last_ns != set->head.uses.last_ns) {
            write_used(meta, set, &item->uses);
            writes--;
        }
    }
}

/* From the first one on. Sets that are gone are forgotten. */
static void begin_writing(struct meta *meta)
{
    lru_k_retain(&meta->evictions.lru, is_there, meta);
    meta->evictions.writing = 1;
}

void evictions_used(struct meta *meta, inode_id file, client_id client)
{
    struct evictions *e = &meta->evictions;
    const struct lru_k_uses *uses;
    const struct data_set *set;
    struct inode inode;
    struct errmsg err;

    if (ns_inode(meta->ns, file, &inode, &err) != 0 || !inode_is_scavenged(&inode) ||
        (set = sets_find(ns_sets(meta->ns), inode_body(&inode))) == NULL || !set->head.sealed ||
        !set_may_go(&set->head)) {
        return;
    }
    uses = lru_k_find(&e->lru, set->head.number);
    if (uses == NULL && lru_k_put(&e->lru, set->head.number, &set->head.uses) != 0) {
        return; /* Without memory it is not counted. */
    }
    if (set->head.uses.count == 0 && (uses == NULL || uses->count == 0)) {
        learn_first(e, set->head.stored_ns, meta_clock_ns());
    }
    (void)lru_k_use(&e->lru, set->head.number, client, meta_clock_ns());
}

int64_t evictions_last_ns(const struct meta *meta, const struct data_set *set)
{
    const struct lru_k_uses *uses = lru_k_find(&meta->evictions.lru, set->head.number);

    uses = uses != NULL ? uses : &set->head.uses;
    return uses->count > 0 ? uses->last_ns : 0;
}

/* ---- Who may go ---- */

enum eviction_state evictions_state(const struct meta *meta, const struct data_set *set)
{
    const struct set_head *head = &set->head;

    return !set_may_go(head)                            ? EVICTION_DATA
           : !head->sealed                              ? EVICTION_STORING
           : head->pinned                               ? EVICTION_PINNED
           : session_holds(meta->sessions, head->inode) ? EVICTION_OPEN
           : meta_clock_ns() < evict_young_until(head->stored_ns, average_ns(&meta->evictions))
               ? EVICTION_YOUNG
               : EVICTION_FREE;
}

static bool may_go_now(void *data, uint64_t number)
{
    const struct meta *meta = data;
    const struct data_set *set = sets_find(ns_sets(meta->ns), number);

    return set != NULL && evictions_state(meta, set) == EVICTION_FREE &&
           (!set->head.evicted || set->head.kept > 0 || evict_has_copies(set));
}

uint64_t evictions_next(struct meta *meta)
{
    uint64_t number;

    return lru_k_choose(&meta->evictions.lru, may_go_now, meta, &number) ? number : 0;
}

struct round
{
    struct meta *meta;
    struct evict_want wants[WANTS_MAX];
    uint32_t count;
    bool on_its_way; /* Something is about to be deleted, or to be given back. */
    bool soon;       /* Something may go in a moment. */
};

/* May the set go in a moment, though not now? */
static bool goes_soon(const struct meta *meta, const struct data_set *set,
                      enum eviction_state state)
{
    int64_t until_ns = evict_young_until(set->head.stored_ns, average_ns(&meta->evictions));

    return (state == EVICTION_YOUNG && until_ns - meta_clock_ns() < (int64_t)SOON_S * NS_PER_S) ||
           (state == EVICTION_OPEN && session_in_grace(meta->sessions));
}

static bool may_go(void *data, uint64_t number)
{
    struct round *round = data;
    const struct data_set *set = sets_find(ns_sets(round->meta->ns), number);
    enum eviction_state state;

    if (set == NULL || !evict_helps(set, round->wants, round->count)) {
        return false;
    }
    state = evictions_state(round->meta, set);
    round->soon = round->soon || goes_soon(round->meta, set, state);
    return state == EVICTION_FREE;
}

static void evict(struct round *round, const struct data_set *set)
{
    struct meta_op op = { .kind = OP_SET_EVICT, .time_ns = meta_clock_ns() };
    struct meta *meta = round->meta;
    struct errmsg err = { "" };
    int rv;

    op.set_evict.set = set->head.number;
    op.set_evict.kept = evict_choose(set, round->wants, round->count, OP_EVICT_MAX);
    if (op.set_evict.kept == SET_MORSELS_MAX) {
        return;
    }
    rv = meta_execute(meta, &op, &err);
    if (rv == 0) {
        round->on_its_way = true;
        meta->evictions.evicted_ms = meta_now_ms(meta);
        log_info(meta->log,
                 "data set %llu of inode %llu: %u of %u morsels are left: the others made room",
                 (unsigned long long)op.set_evict.set, (unsigned long long)set->head.inode,
                 op.set_evict.kept, set->morsels);
    } else {
        log_warning(meta->log,
                    "data set %llu of inode %llu: cannot be evicted to make room: %s; it is tried "
                    "again as long as room is wanted. To have some before, delete data sets "
                    "(\"morsel datasets\"), or let benefactors give more (\"morsel donors\")",
                    (unsigned long long)op.set_evict.set, (unsigned long long)set->head.inode,
                    err.text[0] != 0 ? err.text : status_words(rv));
    }
}

/* Under a lease a mount opens the file without a word: it is asked to give that back first, and says then whether it is open. */
static void evict_victims(struct round *round)
{
    struct meta *meta = round->meta;
    uint64_t chosen[LRU_K_CHOSEN_MAX];
    uint32_t count;

    if (lru_k_wants_more(&meta->evictions.lru)) {
        (void)learn_sets(meta);
    }
    count = lru_k_choose_some(&meta->evictions.lru, may_go, round, chosen, LRU_K_CHOSEN_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct data_set *set = sets_find(ns_sets(meta->ns), chosen[i]);

        if (set == NULL || !evict_helps(set, round->wants, round->count)) {
            continue; /* Those before it have made enough room where it lies. */
        }
        if (leases_recall_all(meta, set->head.inode)) {
            evict(round, set);
        } else {
            round->on_its_way = true;
            return; /* The next one is not worse off because of that: it is waited for. */
        }
    }
}

/* ---- Copies that are not needed ---- */

/* False: it is not written down, and so still there. */
static bool give_up(struct meta *meta, const struct repair_task *task)
{
    struct meta_op op = { .kind = OP_SET_COPY, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    int rv;

    op.set_copy.set = task->set;
    op.set_copy.morsel = task->morsel;
    op.set_copy.change = OP_COPY_DROP;
    op.set_copy.donor = task->target;
    if ((rv = meta_execute(meta, &op, &err)) != 0) {
        log_debug(meta->log, "morsel %u of data set %llu stays at benefactor %u: %s", task->morsel,
                  (unsigned long long)task->set, task->target, status_words(rv));
    }
    return rv == 0;
}

/* At one benefactor, until there is enough. False: there may be more. */
static bool give_up_at(struct round *round, struct evict_want *want, uint32_t *looks,
                       uint32_t *given_up)
{
    struct meta *meta = round->meta;
    struct repair_task task;

    while (want->bytes > 0) {
        enum surplus_found found = *given_up == SURPLUS_STEP_MAX
                                       ? SURPLUS_LATER
                                       : surplus_next(&meta->repair, &meta->evictions.surplus,
                                                      want->donor, meta_now_ms(meta), looks, &task);

        if (found != SURPLUS_FOUND) {
            return found == SURPLUS_NONE;
        }
        if (!give_up(meta, &task)) {
            return false; /* Nor would the next one be written down now. */
        }
        uint64_t bytes = repair_file_bytes(task.length);

        surplus_gone(&meta->repair, &task);
        want->bytes -= bytes < want->bytes ? bytes : want->bytes;
        (*given_up)++;
    }
    return true;
}

/* They go before anything that there is once. False: more of them may, so that nothing else goes in this round. */
static bool give_up_surplus(struct round *round, uint32_t looks)
{
    uint32_t given_up = 0;
    bool done = true;

    round->meta->evictions.surplus_bytes = 0;
    for (uint32_t i = 0; done && i < round->count; i++) {
        done = give_up_at(round, &round->wants[i], &looks, &given_up);
        round->meta->evictions.surplus_bytes = done ? 0 : round->wants[i].bytes;
    }
    if (given_up > 0) {
        round->meta->evictions.evicted_ms = meta_now_ms(round->meta);
        log_info(round->meta->log, "%u copies of morsels that have more than is wanted made room",
                 given_up);
    }
    round->on_its_way |= given_up > 0 || !done;
    return done;
}

/* ---- Where room is wanted ---- */

static void ask_to_report(struct meta *meta, const struct donor *donor)
{
    if (meta->evictions.asking) {
        donors_host_ask(meta, donor);
    }
}

static void hurry(struct meta *meta, donor_id id)
{
    const struct donor_sets *has = sets_of_donor(ns_sets(meta->ns), id);
    const struct donor *donor = donors_find(&meta->donors, id);

    if (has != NULL && has->waste > 0 && donor != NULL) {
        donors_host_ask(meta, donor);
    }
}

void evictions_hurry(struct meta *meta, const struct data_set *set)
{
    for (uint32_t i = 0; i < set->donor_count; i++) {
        hurry(meta, set->donors[i].id);
    }
}

void evictions_hurry_all(struct meta *meta, const donor_id *donors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hurry(meta, donors[i]);
    }
}

/* What is about to be deleted there is waited for, and it is asked to be quick. */
static bool is_deleting(struct meta *meta, const struct donor *donor)
{
    const struct donor_sets *d = sets_of_donor(ns_sets(meta->ns), donor->record.id);

    if (d == NULL || d->waste == 0) {
        return false;
    }
    ask_to_report(meta, donor);
    return true;
}

static void want(struct round *round, const struct donor *donor, uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    if (is_deleting(round->meta, donor)) {
        round->on_its_way = true;
    } else if (round->count < WANTS_MAX) {
        round->wants[round->count++] = (struct evict_want){ donor->record.id, bytes };
    }
}

/* Room where nothing is placed is room for nobody. */
static bool counts(const struct meta *meta, const struct donor *donor)
{
    return doors_may_get(&meta->donors, donor) && !donor->report.paused;
}

static void begin(struct round *round, struct meta *meta)
{
    uint64_t now_ms = meta_now_ms(meta);

    round->meta = meta;
    round->count = 0;
    round->on_its_way = round->soon = false;
    meta->evictions.asking = now_ms - meta->evictions.asked_ms >= ASK_MS;
    if (meta->evictions.asking) {
        meta->evictions.asked_ms = now_ms;
    }
}

/* Behind a round those are asked that have got something to delete by it. */
static void ask_all(struct round *round)
{
    round->meta->evictions.asking = true;
    for (uint32_t i = 0; i < round->count; i++) {
        const struct donor *donor = donors_find(&round->meta->donors, round->wants[i].donor);

        if (donor != NULL) {
            (void)is_deleting(round->meta, donor);
        }
    }
}

static void make_room(struct round *round, uint32_t looks)
{
    if (round->count > 0) {
        if (give_up_surplus(round, looks)) {
            evict_victims(round);
        }
        ask_all(round);
    }
}

static bool is_among(const donor_id *donors, size_t count, donor_id id)
{
    for (size_t i = 0; i < count; i++) {
        if (donors[i] == id) {
            return true;
        }
    }
    return false;
}

static bool has_evicted(const struct meta *meta, uint64_t now_ms)
{
    return meta->evictions.evicted_ms != 0 && now_ms - meta->evictions.evicted_ms < EVICTED_MS;
}

bool evictions_make_room(struct meta *meta, uint32_t morsel_bytes, const donor_id *failed,
                         size_t failed_count)
{
    uint64_t now_ms = meta_now_ms(meta);
    struct round round;

    if (meta->evictions.lru.count == 0 && ns_sets(meta->ns)->fat == 0) {
        return false; /* There is nothing that may go. */
    }
    begin(&round, meta);
    for (uint32_t i = 0; i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];
        bool refused = is_among(failed, failed_count, donor->record.id);
        uint64_t room =
            refused ? evict_room_left(donor->report.donated, donor_room(donor), morsel_bytes)
                    : donor_room(donor);

        if (!counts(meta, donor)) {
            continue;
        }
        if (refused && room > 0 &&
            (now_ms - donor->heard_ms >= FRESH_MS || has_evicted(meta, now_ms))) {
            ask_to_report(meta, donor); /* It may be full by now; or it was, and has room again. */
            round.on_its_way = true;
        } else {
            want(&round, donor, evict_for_morsels(donor->report.donated, room, morsel_bytes));
        }
    }
    make_room(&round, SURPLUS_REQUEST_LOOKS);
    return round.on_its_way || round.soon;
}

/* Is there really as little room as is known? Who may have more is asked in one look, and what has been heard by the next one holds. */
static bool recount(struct meta *meta)
{
    struct evictions *e = &meta->evictions;
    bool awaited = false;

    for (uint32_t i = 0; !e->recounted && i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];

        awaited |= donors_host_recount(
            meta, donor, evict_room_wanted(donor->report.donated, donor->report.used));
    }
    e->recounted = awaited;
    return awaited;
}

static void make_room_ahead(struct meta *meta)
{
    uint64_t donated = 0, room = 0;
    struct round round;

    for (uint32_t i = 0; i < meta->donors.count; i++) {
        if (counts(meta, meta->donors.items[i])) {
            donated += meta->donors.items[i]->report.donated;
            room += donor_room(meta->donors.items[i]);
        }
    }
    if (meta->evictions.lru.count == 0 || evict_low(donated, room) == 0 || recount(meta)) {
        return;
    }
    begin(&round, meta);
    for (uint32_t i = 0; i < meta->donors.count; i++) {
        const struct donor *donor = meta->donors.items[i];

        if (counts(meta, donor)) {
            want(&round, donor, evict_up_to(donor->report.donated, donor_room(donor), true));
        }
    }
    make_room(&round, SURPLUS_LOOKS);
}

/* A walk for copies that are not needed has come to the end of its step, and who began it was told to try again. */
static void go_on_making_room(struct meta *meta)
{
    const struct surplus_walk *walk = &meta->evictions.surplus;
    struct round round;

    if (meta->evictions.surplus_bytes > 0 && donors_find(&meta->donors, walk->donor) != NULL) {
        begin(&round, meta);
        round.wants[round.count++] =
            (struct evict_want){ walk->donor, meta->evictions.surplus_bytes };
        (void)give_up_surplus(&round, SURPLUS_LOOKS);
        ask_all(&round);
    }
}

/* ---- Time ---- */

void evictions_pulse(struct meta *meta, uint64_t now_ms)
{
    struct evictions *e = &meta->evictions;

    go_on_making_room(meta);
    if (now_ms - e->looked_ms >= LOOK_MS) {
        e->looked_ms = now_ms;
        make_room_ahead(meta);
    }
    if (now_ms - e->wrote_ms >= WRITE_MS) {
        e->wrote_ms = now_ms;
        if (e->writing == 0) {
            begin_writing(meta);
        }
    }
    write_some(meta, WRITE_LOOKS_MAX, WRITES_MAX);
}

void evictions_close(struct meta *meta)
{
    begin_writing(meta);
    write_some(meta, UINT32_MAX, UINT32_MAX);
}
