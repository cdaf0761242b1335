/* Data sets: what is stored of them, their end, and what is to be deleted at benefactors.
 *
 * The maps are in memory (datasets/sets.h) and in the store. An operation writes the pages that it changes, makes room in memory,
 * and notes what will have changed there; once it is committed, the notes are carried out. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/namespace_txn.h"

#include <stdlib.h>

/* ---- Notes ---- */

enum { NOTES_ROOM_MIN = 64 };

void set_notes_free(struct set_notes *n)
{
    free(n->changes);
    free(n->wastes);
    *n = (struct set_notes){ .changes = NULL };
}

int txn_set_change(struct ns_txn *t, uint64_t set, const struct set_morsel *morsel)
{
    struct set_notes *n = &t->ns->notes;

    if (n->change_count == n->change_room) {
        uint32_t room = n->change_room == 0 ? NOTES_ROOM_MIN : n->change_room * 2;
        struct set_change *changes = realloc(n->changes, room * sizeof(*changes));

        if (changes == NULL) {
            return MORSEL_NOMEM;
        }
        n->changes = changes;
        n->change_room = room;
    }
    n->changes[n->change_count++] = (struct set_change){ set, *morsel };
    return 0;
}

static int note_waste(struct ns_txn *t, struct waste_note note)
{
    struct set_notes *n = &t->ns->notes;
    int rv = sets_reserve_donor(&t->ns->sets, note.donor);

    if (rv != 0) {
        return rv;
    }
    if (n->waste_count == n->waste_room) {
        uint32_t room = n->waste_room == 0 ? NOTES_ROOM_MIN : n->waste_room * 2;
        struct waste_note *wastes = realloc(n->wastes, room * sizeof(*wastes));

        if (wastes == NULL) {
            return MORSEL_NOMEM;
        }
        n->wastes = wastes;
        n->waste_room = room;
    }
    n->wastes[n->waste_count++] = note;
    return 0;
}

void publish_sets(struct ns_txn *t)
{
    struct sets *sets = &t->ns->sets;
    const struct set_notes *n = &t->ns->notes;

    if (t->set_made.number != 0) {
        sets_made(sets, &t->set_made);
    }
    sets_apply(sets, n->changes, n->change_count);
    if (t->set_changed.number != 0) {
        sets_change_head(sets, &t->set_changed);
    }
    for (uint32_t i = 0; i < n->waste_count; i++) {
        const struct waste_note *w = &n->wastes[i];

        if (w->collected) {
            sets_collected(sets, w->donor, w->set, w->first);
        } else {
            sets_wasted(sets, w->donor, w->set, w->first, w->count, w->fresh);
        }
    }
    for (uint32_t i = 0; i < t->sets_gone_count; i++) {
        sets_remove(sets, t->sets_gone[i]);
    }
}

/* ---- Writing ---- */

static void write_head(struct ns_txn *t, const struct set_head *head)
{
    buf_clear(&t->ns->record);
    set_head_encode(head, &t->ns->record);
    txn_record_put(t, key_set(head->number));
    if (set_head_is_new(head)) {
        txn_needs_version(t, head->fetched ? STORE_VERSION_FETCHED : STORE_VERSION_EVICTION);
    }
}

void txn_set_head(struct ns_txn *t, const struct set_head *head)
{
    CHECK(t->set_changed.number == 0);
    t->set_changed = *head;
    write_head(t, head);
}

void txn_set_pages(struct ns_txn *t)
{
    const struct set_notes *n = &t->ns->notes;
    uint32_t i = 0;

    while (i < n->change_count) {
        uint64_t number = n->changes[i].set;
        uint32_t page = n->changes[i].morsel.number / SET_PAGE_MORSELS, end = i + 1;

        while (end < n->change_count && n->changes[end].set == number &&
               n->changes[end].morsel.number / SET_PAGE_MORSELS == page) {
            end++;
        }
        buf_clear(&t->ns->record);
        set_page_encode(sets_find(&t->ns->sets, number), page, &n->changes[i], end - i,
                        &t->ns->record);
        txn_record_put(t, key_map(number, page));
        i = end;
    }
}

int txn_set_waste(struct ns_txn *t, donor_id donor, struct op_run run, bool fresh)
{
    buf_clear(&t->ns->record);
    waste_encode(run.count, &t->ns->record);
    txn_record_put(t, key_waste(donor, run.set, run.first));
    return note_waste(t, (struct waste_note){ .donor = donor,
                                              .set = run.set,
                                              .first = run.first,
                                              .count = run.count,
                                              .fresh = fresh });
}

struct set_head txn_set_head_of(const struct ns_txn *t, const struct inode *inode)
{
    const struct data_set *set = sets_find(&t->ns->sets, inode_body(inode));

    if (set != NULL) {
        return set->head;
    }
    return (struct set_head){ .number = inode_body(inode),
                              .inode = inode->id,
                              .writer = t->op->client,
                              .made_ns = t->op->time_ns,
                              .scratch = inode->layout.scratch,
                              .copies = inode->layout.replicas,
                              .morsel_bytes = inode->layout.stripe.morsel_bytes };
}

bool inode_is_scavenged(const struct inode *inode)
{
    return mode_is_regular(inode->mode) && inode->layout.class == CLASS_SCAVENGED;
}

/* ---- The end of a set ---- */

int txn_set_forget(struct ns_txn *t, uint64_t number)
{
    const struct data_set *set = sets_find(&t->ns->sets, number);
    int rv = 0;

    if (set == NULL) {
        return 0;
    }
    for (uint32_t i = 0; rv == 0 && i < set->donor_count; i++) {
        donor_id donor = set->donors[i].id;

        if (set->donors[i].morsels > 0) {
            rv = txn_set_waste(t, donor, (struct op_run){ set->head.number, 0, UINT32_MAX },
                               !set_is_waste(set, donor, 0));
        }
    }
    for (uint32_t page = 0; page < set->pages_room; page++) {
        if (set->pages[page] != NULL) {
            txn_delete(t, key_map(set->head.number, page));
        }
    }
    txn_delete(t, key_set(set->head.number));
    txn_origin_forget(t, &set->head);
    CHECK(t->sets_gone_count < TXN_INODES_MAX);
    t->sets_gone[t->sets_gone_count++] = set->head.number;
    return rv;
}

/* The bytes of the file begin anew, in a set that nobody has ever heard of. */
static int begin_anew(struct ns_txn *t, struct inode *inode)
{
    int rv = txn_set_forget(t, inode_body(inode));

    if (inode->body != INODE_NONE) {
        txn_delete(t, key_body(inode->body));
    }
    inode->body = t->counters.inode_next++;
    buf_clear(&t->ns->record);
    body_owner_encode(inode->id, &t->ns->record);
    txn_record_put(t, key_body(inode->body));
    return rv;
}

enum { SET_CUT_MAX = 1 << 16 }; /* All in one operation. */

/* What lies behind the new end becomes zeros, without anything to be deleted: it may be written again. */
static int cut(struct ns_txn *t, const struct data_set *set, uint64_t size)
{
    uint32_t bytes = set->head.morsel_bytes, from;
    struct set_morsel m;
    int rv = 0;

    if (size / bytes >= SET_MORSELS_MAX) {
        return 0;
    }
    from = (uint32_t)(size / bytes);
    while (rv == 0 && set_next(set, from, &m)) {
        uint64_t begin = (uint64_t)m.number * bytes;
        uint32_t left = size > begin ? (uint32_t)(size - begin) : 0;

        from = m.number + 1;
        if (m.length > left) {
            if (t->ns->notes.change_count == SET_CUT_MAX) {
                errmsg_set(t->err,
                           "more than %d morsels would be cut off: truncate the file to zero",
                           SET_CUT_MAX);
                return MORSEL_FBIG;
            }
            m.length = left;
            m.digest = 0;
            m.rewriting = left > 0;
            rv = txn_set_change(t, set->head.number, &m);
        }
    }
    txn_set_pages(t);
    return rv;
}

int txn_set_truncate(struct ns_txn *t, struct inode *inode, uint64_t size)
{
    const struct data_set *set = sets_find(&t->ns->sets, inode_body(inode));

    if (set == NULL) {
        return 0; /* Nothing was stored. */
    }
    if (size == 0) {
        return begin_anew(t, inode);
    }
    if (set->head.sealed) {
        errmsg_set(t->err, "the file is a data set that is complete, and cannot be changed");
        return MORSEL_PERM;
    }
    return cut(t, set, size);
}

int txn_set_grows(struct ns_txn *t, const struct inode *inode)
{
    const struct data_set *set = sets_find(&t->ns->sets, inode_body(inode));

    if (set != NULL && set->head.sealed) {
        errmsg_set(t->err, "the file is a data set that is complete, and cannot be changed");
        return MORSEL_PERM;
    }
    return 0;
}

/* ---- Storing ---- */

int txn_set_file(struct ns_txn *t, inode_id id, uint64_t set, struct inode **inode_out)
{
    int rv = txn_inode(t, id, inode_out);

    if (rv != 0) {
        return rv;
    }
    if (!inode_is_scavenged(*inode_out)) {
        return MORSEL_INVAL;
    }
    if (inode_body(*inode_out) != set) {
        errmsg_set(t->err, "the bytes of the file have begun anew since");
        return MORSEL_STALE;
    }
    return 0;
}

/* Who had a copy before and is not named any more has one that does not count. */
static int waste_replaced(struct ns_txn *t, const struct data_set *set,
                          const struct set_morsel *morsel)
{
    struct set_morsel before;
    int rv = 0;

    if (set == NULL || !set_get(set, morsel->number, &before)) {
        return 0;
    }
    for (uint32_t i = 0; rv == 0 && i < before.donor_count; i++) {
        if (!set_morsel_has(morsel, before.donors[i]) &&
            set->waste_count + t->ns->notes.waste_count < SET_WASTE_MAX) {
            rv = txn_set_waste(t, before.donors[i],
                               (struct op_run){ set->head.number, morsel->number, 1 }, true);
        }
    }
    return rv;
}

static int take_morsels(struct ns_txn *t, const struct set_head *head)
{
    const struct data_set *set = sets_find(&t->ns->sets, head->number);
    struct slice list = t->op->set_stored.morsels;
    struct set_morsel m;
    int64_t last = -1;
    int rv = 0;

    while (rv == 0 && op_morsel_next(&list, &m)) {
        if (m.number <= last || m.number >= SET_MORSELS_MAX || !set_morsel_sound(head, &m)) {
            return MORSEL_INVAL;
        }
        last = m.number;
        for (uint32_t i = 0; set != NULL && i < m.donor_count; i++) {
            if (set_is_waste(set, m.donors[i], m.number)) {
                return MORSEL_INVAL; /* It may be about to be deleted there. */
            }
        }
        if ((rv = txn_set_change(t, head->number, &m)) == 0) {
            rv = waste_replaced(t, set, &m);
        }
    }
    return rv == 0 && list.count > 0 ? MORSEL_INVAL : rv;
}

/* Will that benefactor have a copy of the morsel, or is it noted already that it has one that does not count? */
static bool is_noted(const struct ns_txn *t, donor_id donor, const struct op_run *run)
{
    const struct set_notes *n = &t->ns->notes;

    for (uint32_t i = 0; i < n->change_count; i++) {
        if (n->changes[i].morsel.number == run->first &&
            set_morsel_has(&n->changes[i].morsel, donor)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < n->waste_count; i++) {
        if (n->wastes[i].donor == donor && n->wastes[i].first == run->first) {
            return true;
        }
    }
    return false;
}

/* Also of morsels that are not among those that are stored, but not of copies that count. */
static int take_waste(struct ns_txn *t, const struct set_head *head)
{
    const struct data_set *set = sets_find(&t->ns->sets, head->number);
    struct slice list = t->op->set_stored.waste;
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < op_runs_count(list); i++) {
        struct op_run run = op_run_at(list, i);
        donor_id donor = (donor_id)run.set;
        struct set_morsel m;
        bool counts = set != NULL && set_get(set, run.first, &m) && set_morsel_has(&m, donor);

        if (run.set == 0 || run.set > UINT32_MAX || run.count != 1 ||
            run.first >= SET_MORSELS_MAX) {
            return MORSEL_INVAL;
        }
        run.set = head->number;
        if (!counts && !is_noted(t, donor, &run) &&
            (set == NULL || (set->waste_count + t->ns->notes.waste_count < SET_WASTE_MAX &&
                             !set_is_waste(set, donor, run.first)))) {
            rv = txn_set_waste(t, donor, run, true);
        }
    }
    return rv;
}

int txn_set_make(struct ns_txn *t, const struct set_head *head)
{
    const struct set_notes *n = &t->ns->notes;
    int rv = sets_reserve(&t->ns->sets, head, n->changes, n->change_count, n->waste_count);

    if (rv == 0 && sets_find(&t->ns->sets, head->number) == NULL) {
        t->set_made = *head;
        write_head(t, head);
        txn_needs_version(t, STORE_VERSION_SETS);
    }
    return rv;
}

/* Without a time nothing was written: a set begins, or copies of what there is were made elsewhere. */
static void written(struct ns_txn *t, struct inode *inode)
{
    const struct meta_op *op = t->op;
    int64_t mtime_ns = op->set_stored.mtime_ns;
    int64_t ctime_ns = inode->ctime_ns > mtime_ns ? inode->ctime_ns : mtime_ns;

    if (mtime_ns == 0 && op->set_stored.size <= inode->size && !op->set_stored.strips_ids) {
        return;
    }
    mtime_ns = mtime_ns != 0 ? mtime_ns : inode->mtime_ns;
    op_wrote(t, inode, op->set_stored.size, op->set_stored.strips_ids);
    inode->mtime_ns = mtime_ns;
    inode->ctime_ns = ctime_ns;
}

int apply_set_stored(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct set_head head;
    struct inode *inode;
    int rv = txn_set_file(t, op->set_stored.inode, op->set_stored.set, &inode);

    if (rv != 0) {
        return rv;
    }
    head = txn_set_head_of(t, inode);
    if (head.sealed || head.writer != op->client) {
        return MORSEL_PERM;
    }
    if (op->set_stored.size > INT64_MAX) {
        return MORSEL_FBIG;
    }
    if ((rv = take_morsels(t, &head)) != 0 || (rv = take_waste(t, &head)) != 0 ||
        (rv = txn_set_make(t, &head)) != 0) {
        return rv;
    }
    txn_set_pages(t);
    t->op->target = inode->id;
    written(t, inode);
    return 0;
}

int apply_set_seal(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    const struct data_set *set;
    struct set_head head;
    struct inode *inode;
    uint64_t size;
    bool complete;
    int rv = txn_set_file(t, op->set_seal.inode, op->set_seal.set, &inode);

    if (rv != 0) {
        return rv;
    }
    head = txn_set_head_of(t, inode);
    t->op->target = inode->id;
    if (head.sealed) {
        return 0;
    }
    if (head.writer != op->client) {
        return MORSEL_PERM;
    }
    if (op->set_seal.size > INT64_MAX) {
        return MORSEL_FBIG;
    }
    set = sets_find(&t->ns->sets, head.number);
    if ((set == NULL || set->morsels == 0) && inode->size == 0 && op->set_seal.size == 0) {
        return 0; /* There is nothing that could be complete. */
    }
    if (set != NULL && set->rewriting > 0) {
        errmsg_set(t->err,
                   "%u morsels of the file are being written anew: their digests are not known",
                   set->rewriting);
        return MORSEL_BUSY;
    }
    size = op->set_seal.size > inode->size ? op->set_seal.size : inode->size;
    rv = txn_origin_complete(t, &head, size, &complete);
    if (rv != 0 || !complete || !txn_reserved_complete(t, &head, size)) {
        return rv; /* Who stores it has been interrupted, and may go on. */
    }
    if ((rv = txn_set_make(t, &head)) != 0) {
        return rv;
    }
    head.sealed = true;
    head.reserved = 0;
    if (set_may_go(&head)) {
        head.stored_ns = head.uses.last_ns = op->time_ns;
    }
    txn_set_head(t, &head);
    txn_change(t, inode);
    inode->size = size;
    inode->reach = inode->size > inode->reach ? inode->size : inode->reach;
    return 0;
}

/* ---- What benefactors say ---- */

/* 0 with *count 0: there is no such record. */
static int waste_at(struct ns *ns, donor_id donor, uint64_t set, uint32_t first, uint32_t *count,
                    struct errmsg *err)
{
    struct record_key key = key_waste(donor, set, first);
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    *count = 0;
    if (rv == 0) {
        rv = waste_decode(buf_slice(&ns->value), count);
    }
    return rv == MORSEL_NOENT ? 0 : rv;
}

int txn_set_waste_more(struct ns_txn *t, donor_id donor, struct op_run run)
{
    uint32_t there;
    int rv = waste_at(t->ns, donor, run.set, run.first, &there, t->err);

    if (rv != 0) {
        return rv;
    }
    run.count = run.count > there ? run.count : there;
    return txn_set_waste(t, donor, run, there == 0);
}

static int collect_run(struct ns_txn *t, donor_id donor, struct op_run run)
{
    uint32_t there;
    int rv = waste_at(t->ns, donor, run.set, run.first, &there, t->err);

    if (rv != 0 || there == 0) {
        return rv; /* A report that comes twice counts once. */
    }
    txn_delete(t, key_waste(donor, run.set, run.first));
    rv = note_waste(t, (struct waste_note){
                           .donor = donor, .set = run.set, .first = run.first, .collected = true });
    if (rv == 0 && run.count < there) {
        /* Only the beginning is gone: what is left is a record of its own. */
        rv = txn_set_waste_more(
            t, donor, (struct op_run){ run.set, run.first + run.count, there - run.count });
    }
    return rv;
}

/* Do their beginnings ascend? They may overlap: single morsels went before their set did. */
static bool runs_sound(struct slice runs)
{
    struct op_run before = { 0, 0, 0 };

    for (size_t i = 0; i < op_runs_count(runs); i++) {
        struct op_run run = op_run_at(runs, i);

        if (run.set == 0 || run.count == 0 || run.count > UINT32_MAX - run.first ||
            run.set < before.set || (run.set == before.set && i > 0 && run.first <= before.first)) {
            return false;
        }
        before = run;
    }
    return op_runs_count(runs) <= SET_RUNS_MAX;
}

int apply_set_collected(struct ns_txn *t)
{
    struct slice runs = t->op->set_runs.runs;

    if (t->op->set_runs.donor == 0 || !runs_sound(runs)) {
        return MORSEL_INVAL;
    }
    txn_needs_version(t, STORE_VERSION_SETS);
    for (size_t i = 0; i < op_runs_count(runs); i++) {
        int rv = collect_run(t, t->op->set_runs.donor, op_run_at(runs, i));

        if (rv != 0 && (rv != MORSEL_AGAIN || kv_wants_enough(t->ns->kv))) {
            return rv;
        }
    }
    return 0;
}

static void drop_donor(struct set_morsel *morsel, donor_id donor)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        if (morsel->donors[i] != donor) {
            morsel->donors[kept++] = morsel->donors[i];
        }
    }
    morsel->donor_count = kept;
}

/* Runs may overlap: is it noted already? */
static bool is_behind_notes(const struct ns_txn *t, uint64_t set, uint32_t number)
{
    const struct set_notes *n = &t->ns->notes;
    const struct set_change *last = n->change_count > 0 ? &n->changes[n->change_count - 1] : NULL;

    return last == NULL || last->set < set || last->morsel.number < number;
}

static int lose_run(struct ns_txn *t, donor_id donor, struct op_run run)
{
    const struct data_set *set = sets_find(&t->ns->sets, run.set);
    uint32_t from = run.first;
    struct set_morsel m;
    int rv = 0;

    while (rv == 0 && set != NULL && from - run.first < run.count && set_next(set, from, &m) &&
           m.number - run.first < run.count) {
        from = m.number + 1;
        if (set_morsel_has(&m, donor) && is_behind_notes(t, run.set, m.number)) {
            drop_donor(&m, donor);
            rv = txn_set_change(t, run.set, &m);
        }
    }
    return rv;
}

int apply_set_lost(struct ns_txn *t)
{
    struct slice runs = t->op->set_runs.runs;
    int rv = 0;

    if (t->op->set_runs.donor == 0 || !runs_sound(runs)) {
        return MORSEL_INVAL;
    }
    txn_needs_version(t, STORE_VERSION_SETS);
    for (size_t i = 0; rv == 0 && i < op_runs_count(runs); i++) {
        rv = lose_run(t, t->op->set_runs.donor, op_run_at(runs, i));
    }
    txn_set_pages(t);
    return rv;
}

/* ---- Reading ---- */

const struct sets *ns_sets(const struct ns *ns)
{
    return &ns->sets;
}

struct waste_walk
{
    donor_id donor;
    struct op_run *runs;
    uint32_t count, count_max;
    int status;
};

static bool visit_waste(void *data, struct slice key, struct slice value)
{
    struct waste_walk *walk = data;
    struct op_run run;
    donor_id donor;

    if (walk->count == walk->count_max || !key_waste_parse(key, &donor, &run.set, &run.first) ||
        donor != walk->donor) {
        return false;
    }
    walk->status = waste_decode(value, &run.count);
    if (walk->status == 0) {
        walk->runs[walk->count++] = run;
    }
    return walk->status == 0;
}

int ns_waste(struct ns *ns, donor_id donor, struct op_run *runs, uint32_t count_max,
             uint32_t *count, struct errmsg *err)
{
    const struct donor_sets *d = sets_of_donor(&ns->sets, donor);
    struct waste_walk walk = { .donor = donor, .runs = runs, .count_max = count_max };
    struct record_key key;
    int rv;

    *count = 0;
    if (d == NULL || d->waste == 0) {
        return 0;
    }
    key = key_waste(donor, d->floor_set, d->floor_first);
    rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_waste, &walk, err);
    rv = rv != 0 ? rv : walk.status;
    if (rv == 0 && walk.count > 0) {
        sets_floor_found(&ns->sets, donor, runs[0].set, runs[0].first);
        *count = walk.count;
    }
    return rv;
}

/* ---- When the manager starts ---- */

struct load_walk
{
    struct ns *ns;
    int status;
};

static bool load_head(void *data, struct slice key, struct slice value)
{
    struct load_walk *walk = data;
    struct set_head head;
    uint64_t number;

    if (!key_inode_parse(key, RECORD_SET, &number)) {
        return false;
    }
    if ((walk->status = set_head_decode(number, value, &head)) == 0 &&
        (walk->status = sets_reserve(&walk->ns->sets, &head, NULL, 0, 0)) == 0) {
        sets_made(&walk->ns->sets, &head);
    }
    return walk->status == 0;
}

static int load_morsels(struct ns *ns, const struct data_set *set, uint32_t page,
                        struct slice bytes)
{
    struct set_page_reader reader;
    struct set_change change = { .set = set->head.number };
    int rv = set_page_open(&reader, page, bytes);

    while (rv == 0 && (rv = set_page_next(&reader, &change.morsel)) == 1) {
        rv =
            !set_morsel_sound(&set->head, &change.morsel) || change.morsel.number >= SET_MORSELS_MAX
                ? MORSEL_CORRUPT
                : sets_reserve(&ns->sets, &set->head, &change, 1, 0);
        if (rv == 0) {
            sets_apply(&ns->sets, &change, 1);
        }
    }
    return rv;
}

static bool load_page(void *data, struct slice key, struct slice value)
{
    struct load_walk *walk = data;
    const struct data_set *set;
    uint64_t number;
    uint32_t page;

    if (!key_map_parse(key, &number, &page)) {
        return false;
    }
    set = sets_find(&walk->ns->sets, number);
    walk->status = set != NULL ? load_morsels(walk->ns, set, page, value) : MORSEL_CORRUPT;
    return walk->status == 0;
}

static bool load_waste(void *data, struct slice key, struct slice value)
{
    struct load_walk *walk = data;
    struct sets *sets = &walk->ns->sets;
    const struct data_set *set;
    struct op_run run;
    donor_id donor;

    if (!key_waste_parse(key, &donor, &run.set, &run.first)) {
        return false;
    }
    set = sets_find(sets, run.set);
    if ((walk->status = waste_decode(value, &run.count)) == 0 &&
        (walk->status = sets_reserve_donor(sets, donor)) == 0 && set != NULL) {
        walk->status = sets_reserve(sets, &set->head, NULL, 0, 1);
    }
    if (walk->status == 0) {
        sets_wasted(sets, donor, run.set, run.first, run.count, true);
    }
    return walk->status == 0;
}

int ns_load_sets(struct ns *ns, struct errmsg *err)
{
    static const struct
    {
        enum record_kind kind;
        kv_visit visit;
    } steps[] = { { RECORD_SET, load_head },
                  { RECORD_MAP, load_page },
                  { RECORD_WASTE, load_waste } };
    struct load_walk walk = { .ns = ns };
    int rv = 0;

    for (size_t i = 0; rv == 0 && walk.status == 0 && i < ARRAY_COUNT(steps); i++) {
        uint8_t key = (uint8_t)steps[i].kind;

        rv = ns->kv->scan(ns->kv, (struct slice){ &key, 1 }, steps[i].visit, &walk, err);
    }
    if (rv == 0 && walk.status != 0 && walk.status != MORSEL_NOMEM) {
        errmsg_set(err,
                   walk.status == MORSEL_VERSION
                       ? "a record of a data set is of a newer version: use a newer morsel-meta"
                       : "a record of a data set is damaged: restore the manager's database "
                         "from a backup");
    }
    return rv != 0 ? rv : walk.status;
}
