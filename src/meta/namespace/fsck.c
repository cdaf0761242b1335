/* Walks over entries and inodes in steps; where the sums do not agree it counts exactly, and
 * repairs. */
#include "meta/namespace/fsck.h"

#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/datasets/sets.h"
#include "meta/namespace/fsck_count.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fsck_phase {
    FSCK_ENTRIES,
    FSCK_INODES,
    FSCK_NAMES,
    FSCK_COUNTS,
    FSCK_ORPHANS,
    FSCK_SETS,
    FSCK_TOTALS,
    FSCK_DONE
};

struct fsck
{
    struct ns *ns;
    uint64_t first_sequence; /* Of the log, when the check began: also its name. */
    uint64_t steps;
    enum fsck_phase phase;
    struct record_key at; /* The last record that was looked at, or where to begin. */
    bool skip;            /* `at` was looked at. */
    uint64_t inodes;      /* Inode records met. */
    struct fsck_count *count;
};

/* One step's walk over records. */
struct fsck_walk
{
    struct fsck *f;
    struct fsck_result *result;
    struct errmsg *err;
    uint32_t records_max;
    int status;
    bool more; /* Ended before the end of the range of keys. */
};

struct fsck *fsck_new(struct ns *ns)
{
    struct fsck *f = calloc(1, sizeof(*f));

    if (f == NULL || (f->count = fsck_count_new()) == NULL) {
        free(f);
        return NULL;
    }
    f->ns = ns;
    f->first_sequence = ns_counters(ns)->sequence;
    f->at = key_dentry(0, (struct slice){ NULL, 0 });
    return f;
}

void fsck_free(struct fsck *f)
{
    if (f != NULL) {
        fsck_count_free(f->count);
    }
    free(f);
}

void fsck_cursor(const struct fsck *f, uint8_t cursor[FSCK_CURSOR_BYTES])
{
    put_le64(cursor, f->first_sequence);
    put_le64(cursor + 8, f->steps);
}

bool fsck_cursor_matches(const struct fsck *f, struct slice cursor)
{
    return cursor.count == FSCK_CURSOR_BYTES && get_le64(cursor.data) == f->first_sequence &&
           get_le64(cursor.data + 8) == f->steps;
}

/* Was the record of this key looked at in the walk of `phase`? */
static bool is_met(const struct fsck *f, enum fsck_phase phase, const struct record_key *key)
{
    int order;

    if (f->phase != phase) {
        return f->phase > phase;
    }
    order = slice_compare(record_key_slice(key), record_key_slice(&f->at));
    return order < 0 || (order == 0 && f->skip);
}

static bool is_inode_met(const struct fsck *f, inode_id inode)
{
    struct record_key key = key_inode(inode);

    return is_met(f, FSCK_INODES, &key);
}

void fsck_name_changed(struct fsck *f, inode_id parent, struct slice name,
                       const struct dentry *dentry, int change)
{
    struct record_key key = key_dentry(parent, name);

    if (f->phase > FSCK_INODES) {
        if (is_met(f, FSCK_NAMES, &key)) {
            (void)fsck_tally_entry(f->count, parent, dentry, change);
        }
        return;
    }
    if (is_met(f, FSCK_ENTRIES, &key)) {
        fsck_sum_entry(f->count, parent, dentry, change);
    }
    if (is_inode_met(f, dentry->inode)) {
        fsck_sum_expect_name(f->count, dentry, change);
    }
    if (is_inode_met(f, parent)) {
        fsck_sum_expect_entry(f->count, parent, dentry, change);
    }
}

/* ---- Findings ---- */

/* Room for one more; the walk stops before there is none. */
static struct fsck_finding *find_new(struct fsck_walk *w, enum op_repair what, inode_id inode)
{
    struct fsck_finding *finding = &w->result->findings[w->result->count++];

    CHECK(w->result->count <= FSCK_FINDINGS_MAX);
    memset(finding, 0, sizeof(*finding));
    finding->mendable = true;
    finding->repair.kind = OP_REPAIR;
    finding->repair.repair.what = what;
    finding->repair.repair.inode = inode;
    return finding;
}

static void set_name(struct fsck_finding *finding, inode_id parent, struct slice name)
{
    memcpy(finding->name, name.data, name.count);
    finding->repair.repair.parent = parent;
    finding->repair.repair.name = (struct slice){ finding->name, name.count };
}

/* For messages: as much of a name as is readable. */
static int name_length(struct slice name)
{
    return name.count < 64 ? (int)name.count : 64;
}

/* ---- Entries ---- */

struct entry_search
{
    inode_id wanted;
    bool found;
};

static bool visit_wanted(void *data, struct slice name, const struct dentry *dentry)
{
    struct entry_search *search = data;

    (void)name;
    search->found = dentry->inode == search->wanted;
    return !search->found;
}

/* A directory whose ".." leads elsewhere: one of the two is wrong. */
static void check_parent(struct fsck_walk *w, inode_id parent, struct slice name,
                         const struct inode *inode)
{
    struct entry_search search = { inode->id, false };
    struct fsck_finding *finding;
    bool end;

    if (ns_readdir(w->f->ns, inode->parent, (struct slice){ NULL, 0 }, visit_wanted, &search, &end,
                   NULL) == MORSEL_AGAIN) {
        w->status = MORSEL_AGAIN;
        return;
    }
    finding = find_new(w, search.found ? REPAIR_DENTRY : REPAIR_PARENT, inode->id);
    set_name(finding, parent, name);
    errmsg_set(&finding->text,
               "directory inode %" PRIu64 " has the name \"%.*s\" in inode %" PRIu64
               ", but its \"..\" is inode %" PRIu64 "%s",
               inode->id, name_length(name), (const char *)name.data, parent, inode->parent,
               search.found ? ", where it has a name too" : "");
}

static void check_entry(struct fsck_walk *w, inode_id parent, struct slice name,
                        const struct dentry *dentry)
{
    struct fsck_finding *finding;
    struct inode inode;
    int rv = ns_inode(w->f->ns, dentry->inode, &inode, w->err);

    if (rv == MORSEL_STALE) {
        finding = find_new(w, REPAIR_DENTRY, dentry->inode);
        set_name(finding, parent, name);
        errmsg_set(&finding->text,
                   "the name \"%.*s\" in directory inode %" PRIu64 " points to inode %" PRIu64
                   ", which is not there",
                   name_length(name), (const char *)name.data, parent, dentry->inode);
    } else if (rv == MORSEL_CORRUPT || rv == MORSEL_VERSION) {
        return; /* Reported when the inode's turn comes. */
    } else if (rv != 0) {
        w->status = rv;
    } else if (mode_type(inode.mode) != dentry->type) {
        finding = find_new(w, REPAIR_TYPE, inode.id);
        set_name(finding, parent, name);
        errmsg_set(&finding->text,
                   "the name \"%.*s\" in directory inode %" PRIu64 " says that inode %" PRIu64
                   " is of another type than it is",
                   name_length(name), (const char *)name.data, parent, inode.id);
    } else if (mode_is_directory(inode.mode) && inode.parent != parent) {
        check_parent(w, parent, name, &inode);
    }
}

/* Remember how far the walk came. False: enough for one step. */
static bool advance(struct fsck_walk *w, struct slice key)
{
    memcpy(w->f->at.bytes, key.data, key.count);
    w->f->at.count = key.count;
    w->f->skip = true;
    w->result->checked++;
    w->more = w->result->checked >= w->records_max || w->result->count + 2 > FSCK_FINDINGS_MAX ||
              w->status != 0;
    return !w->more;
}

/* Something else that the record at hand is judged by must be read first: the walk ends before it,
 * and nothing of it was counted. */
static bool must_wait(struct fsck_walk *w)
{
    w->more = w->more || w->status == MORSEL_AGAIN;
    return w->status == MORSEL_AGAIN;
}

static bool already_met(const struct fsck_walk *w, struct slice key)
{
    return w->f->skip && slice_compare(key, record_key_slice(&w->f->at)) == 0;
}

/* The entry that the walk has come to; false when it is not one. A damaged one points nowhere. */
static bool entry_parse(struct slice key, struct slice value, inode_id *parent, struct slice *name,
                        struct dentry *dentry)
{
    if (!key_name_parse(key, RECORD_DENTRY, parent, name)) {
        return false;
    }
    if (dentry_decode(value, dentry) != 0) {
        *dentry = (struct dentry){ INODE_NONE, 0 };
    }
    return true;
}

/* Behind the one that must wait: what will be needed for the next ones is fetched with it. */
static bool look_ahead(struct fsck_walk *w, const struct dentry *dentry)
{
    struct inode inode;

    (void)ns_inode(w->f->ns, dentry->inode, &inode, NULL);
    return !kv_wants_enough(ns_kv(w->f->ns));
}

static bool visit_entry(void *data, struct slice key, struct slice value)
{
    struct fsck_walk *w = data;
    struct dentry dentry;
    inode_id parent;
    struct slice name;

    if (already_met(w, key)) {
        return true;
    }
    if (!entry_parse(key, value, &parent, &name, &dentry)) {
        return false;
    }
    if (w->status == MORSEL_AGAIN) {
        return look_ahead(w, &dentry);
    }
    if (dentry.inode == INODE_NONE) {
        struct fsck_finding *finding = find_new(w, REPAIR_DENTRY, INODE_NONE);

        set_name(finding, parent, name);
        errmsg_set(&finding->text, "the entry \"%.*s\" of directory inode %" PRIu64 " is damaged",
                   name_length(name), (const char *)name.data, parent);
    } else {
        check_entry(w, parent, name, &dentry);
        if (must_wait(w)) {
            return true;
        }
    }
    fsck_sum_entry(w->f->count, parent, &dentry, 1);
    return advance(w, key);
}

/* The exact count, for inodes whose sums do not agree. */
static bool visit_name(void *data, struct slice key, struct slice value)
{
    struct fsck_walk *w = data;
    struct fsck_finding *finding;
    struct dentry dentry;
    inode_id parent;
    struct slice name;

    if (already_met(w, key)) {
        return true;
    }
    if (!entry_parse(key, value, &parent, &name, &dentry)) {
        return false;
    }
    if (fsck_tally_entry(w->f->count, parent, &dentry, 1) > 1 && mode_is_directory(dentry.type)) {
        finding = find_new(w, REPAIR_DENTRY, dentry.inode);
        set_name(finding, parent, name);
        errmsg_set(&finding->text,
                   "directory inode %" PRIu64 " has a second name \"%.*s\" in inode %" PRIu64,
                   dentry.inode, name_length(name), (const char *)name.data, parent);
    }
    return advance(w, key) && !fsck_count_full(w->f->count);
}

/* ---- Inodes ---- */

/* An inode that expects no name agrees with the sums; it must be an orphan all the same. */
static void check_nameless(struct fsck_walk *w, const struct inode *inode)
{
    bool orphan = false;

    w->status = ns_is_orphan(w->f->ns, inode->id, &orphan, w->err);
    if (w->status == 0 && !orphan) {
        fsck_suspect(w->f->count, inode->id);
    }
}

/* A part of it is lost with its server: what is to be done about that only people know. */
static void check_removed(struct fsck_walk *w, const struct inode *inode)
{
    const struct file_layout *layout = &inode->layout;
    struct fsck_finding *finding;
    uint64_t bytes = 0;
    server_id server = 0;

    if (inode->nlink == 0 || layout->replicas != 1) {
        return;
    }
    for (uint32_t i = 0; i < layout->stripe.width; i++) {
        uint64_t there = stripe_object_size(&layout->stripe, i, inode->size);

        if (there > 0 && ns_is_removed(w->f->ns, layout->servers[i])) {
            bytes += there;
            server = layout->servers[i];
        }
    }
    if (bytes > 0) {
        finding = find_new(w, REPAIR_COUNTS, inode->id);
        finding->mendable = false;
        errmsg_set(&finding->text,
                   "%" PRIu64 " bytes of inode %" PRIu64
                   " were on server %u alone, which was removed: delete it, or restore a backup",
                   bytes, inode->id, server);
    }
}

static bool visit_inode(void *data, struct slice key, struct slice value)
{
    struct fsck_walk *w = data;
    struct inode inode;
    inode_id id;

    if (already_met(w, key)) {
        return true;
    }
    if (!key_inode_parse(key, RECORD_INODE, &id)) {
        return false;
    }
    if (inode_decode(id, value, &inode) != 0) {
        struct fsck_finding *finding = find_new(w, REPAIR_COUNTS, id);

        finding->mendable = false;
        errmsg_set(&finding->text, "the record of inode %" PRIu64 " is damaged; restore a backup",
                   id);
    } else {
        if (inode.nlink == 0) {
            check_nameless(w, &inode);
        }
        if (must_wait(w)) {
            return false;
        }
        fsck_sum_inode(w->f->count, &inode);
        check_removed(w, &inode);
    }
    w->f->inodes++;
    return advance(w, key);
}

static void find_lost(struct fsck_walk *w, const struct inode *inode)
{
    struct fsck_finding *finding = find_new(w, REPAIR_ATTACH, inode->id);
    char name[32];
    int count = snprintf(name, sizeof(name), "lost+%" PRIu64, inode->id);

    set_name(finding, INODE_ROOT, (struct slice){ (const uint8_t *)name, (size_t)count });
    errmsg_set(&finding->text,
               "inode %" PRIu64 " has no name and is no orphan (repaired, it is called /%s)",
               inode->id, name);
}

static void check_counts(struct fsck_walk *w, const struct inode *inode,
                         const struct fsck_tally *tally)
{
    bool directory = mode_is_directory(inode->mode);
    uint32_t nlink = directory ? 2 + tally->subdirectories : tally->names;
    uint64_t entries = directory ? tally->entries : 0;
    struct fsck_finding *finding;

    if (inode->nlink == nlink && inode->entries == entries) {
        return;
    }
    finding = find_new(w, REPAIR_COUNTS, inode->id);
    finding->repair.repair.nlink = nlink;
    finding->repair.repair.entries = entries;
    if (directory) {
        errmsg_set(&finding->text,
                   "directory inode %" PRIu64 " counts %u links and %" PRIu64
                   " entries, but has %u and %" PRIu64,
                   inode->id, inode->nlink, inode->entries, nlink, entries);
    } else {
        errmsg_set(&finding->text, "inode %" PRIu64 " counts %u names, but has %u", inode->id,
                   inode->nlink, nlink);
    }
}

static bool visit_counted(void *data, struct slice key, struct slice value)
{
    struct fsck_walk *w = data;
    struct fsck_tally tally;
    struct inode inode;
    bool orphan = false;
    inode_id id;

    if (already_met(w, key)) {
        return true;
    }
    if (!key_inode_parse(key, RECORD_INODE, &id)) {
        return false;
    }
    if (!fsck_count_has(w->f->count, id) || inode_decode(id, value, &inode) != 0) {
        return advance(w, key);
    }
    tally = fsck_tally_of(w->f->count, id);
    if (id == INODE_ROOT || tally.names > 0) {
        check_counts(w, &inode, &tally);
        return advance(w, key);
    }
    w->status = ns_is_orphan(w->f->ns, id, &orphan, w->err);
    if (must_wait(w)) {
        return false;
    }
    if (w->status == 0 && !orphan) {
        find_lost(w, &inode);
    }
    return advance(w, key);
}

/* ---- Orphans, data sets and totals ---- */

static bool visit_orphan(void *data, struct slice key, struct slice value)
{
    struct fsck_walk *w = data;
    struct inode inode;
    inode_id id;
    int rv;

    (void)value;
    if (already_met(w, key)) {
        return true;
    }
    if (!key_inode_parse(key, RECORD_ORPHAN, &id)) {
        return false;
    }
    rv = ns_inode(w->f->ns, id, &inode, w->err);
    w->status = rv == MORSEL_AGAIN ? rv : MORSEL_OK;
    if (must_wait(w)) {
        return false;
    }
    if (rv == MORSEL_STALE || (rv == 0 && inode.nlink > 0)) {
        errmsg_set(&find_new(w, REPAIR_ORPHAN, id)->text,
                   "inode %" PRIu64 " is listed as an orphan, but %s", id,
                   rv == 0 ? "has names" : "is not there");
    }
    return advance(w, key);
}

/* What no benefactor has any more, which only people can bring back. */
static void check_lost(struct fsck_walk *w, const struct data_set *set)
{
    struct set_morsel m;
    uint64_t lost = 0;

    for (uint32_t from = 0; set->thin > 0 && set_next(set, from, &m); from = m.number + 1) {
        lost += m.donor_count == 0 && m.length > 0 && !set_is_spared(&set->head, &m);
    }
    if (lost > 0) {
        struct fsck_finding *finding = find_new(w, REPAIR_COUNTS, set->head.inode);

        finding->mendable = false;
        errmsg_set(&finding->text,
                   "%" PRIu64 " morsels of inode %" PRIu64
                   " are lost: no benefactor has them any more; delete it, or restore a backup",
                   lost, set->head.inode);
    }
}

static bool visit_set(void *data, struct slice key, struct slice value)
{
    struct fsck_walk *w = data;
    const struct data_set *set;
    struct inode inode;
    uint64_t number;
    int rv;

    (void)value;
    if (already_met(w, key)) {
        return true;
    }
    if (!key_inode_parse(key, RECORD_SET, &number)) {
        return false;
    }
    if ((set = sets_find(ns_sets(w->f->ns), number)) == NULL) {
        return advance(w, key); /* It went as the walk came. */
    }
    rv = ns_inode(w->f->ns, set->head.inode, &inode, w->err);
    w->status = rv == MORSEL_AGAIN ? rv : MORSEL_OK;
    if (must_wait(w)) {
        return false;
    }
    if (rv == MORSEL_STALE || (rv == 0 && inode_body(&inode) != number)) {
        struct fsck_finding *finding = find_new(w, REPAIR_SET, set->head.inode);

        finding->repair.repair.entries = number;
        errmsg_set(&finding->text,
                   "data set %" PRIu64 " belongs to no file; it was that of inode %" PRIu64, number,
                   set->head.inode);
    } else {
        check_lost(w, set);
    }
    return advance(w, key);
}

/* Only a check during which nothing changed can tell whether the counters are right. */
static void check_totals(struct fsck_walk *w)
{
    const struct counters *counters = ns_counters(w->f->ns);
    struct fsck_finding *finding;

    if (counters->sequence != w->f->first_sequence || counters->inodes == w->f->inodes) {
        return;
    }
    finding = find_new(w, REPAIR_COUNTERS, INODE_NONE);
    finding->repair.repair.entries = w->f->inodes;
    errmsg_set(&finding->text, "the counters say %" PRIu64 " inodes, but there are %" PRIu64,
               counters->inodes, w->f->inodes);
}

/* ---- Steps ---- */

static void begin(struct fsck *f, enum fsck_phase phase, struct record_key at)
{
    f->phase = phase;
    f->at = at;
    f->skip = false;
}

/* Count where the sums have shown that something is wrong, if they have. */
static void begin_pass(struct fsck *f)
{
    if (fsck_count_begin_pass(f->count)) {
        begin(f, FSCK_NAMES, key_dentry(0, (struct slice){ NULL, 0 }));
    } else {
        begin(f, FSCK_ORPHANS, key_orphan(0));
    }
}

/* The walk of this phase is at its end. */
static void next_phase(struct fsck *f)
{
    switch (f->phase) {
    case FSCK_ENTRIES:
        begin(f, FSCK_INODES, key_inode(0));
        break;
    case FSCK_INODES:
        begin_pass(f);
        break;
    case FSCK_NAMES:
        begin(f, FSCK_COUNTS, key_inode(0));
        break;
    case FSCK_COUNTS:
        fsck_count_end_pass(f->count);
        begin_pass(f);
        break;
    case FSCK_ORPHANS:
        begin(f, FSCK_SETS, key_set(0));
        break;
    case FSCK_SETS:
        begin(f, FSCK_TOTALS, key_orphan(0));
        break;
    case FSCK_TOTALS:
    case FSCK_DONE:
        f->phase = FSCK_DONE;
        break;
    }
}

static int walk(struct fsck_walk *w)
{
    static const kv_visit visitors[] = {
        [FSCK_ENTRIES] = visit_entry,  [FSCK_INODES] = visit_inode,   [FSCK_NAMES] = visit_name,
        [FSCK_COUNTS] = visit_counted, [FSCK_ORPHANS] = visit_orphan, [FSCK_SETS] = visit_set
    };
    struct kv *kv = ns_kv(w->f->ns);
    struct record_key from = w->f->at;
    int rv = kv->scan(kv, record_key_slice(&from), visitors[w->f->phase], w, w->err);

    rv = rv != 0 ? rv : w->status;
    if (rv == MORSEL_AGAIN && w->result->checked > 0) {
        w->more = true;
        rv = 0; /* A short step; the next one wants the same again. */
        kv_wanted_clear(kv->wanted);
    }
    return rv;
}

static int repair_all(struct fsck *f, struct fsck_result *result, int64_t now_ns,
                      struct errmsg *err)
{
    for (uint32_t i = 0; i < result->count; i++) {
        struct meta_op *op = &result->findings[i].repair;
        uint64_t before = ns_counters(f->ns)->sequence;
        int rv;

        if (!result->findings[i].mendable) {
            continue;
        }
        op->time_ns = now_ns;
        rv = ns_execute(f->ns, op, err);
        if (rv == MORSEL_STALE || rv == MORSEL_NOENT || rv == MORSEL_EXIST) {
            continue; /* A client changed it meanwhile; the next check will see. */
        }
        if (rv != 0) {
            return rv;
        }
        /* Our own repairs do not make the totals uncertain. */
        f->first_sequence += before == f->first_sequence;
        result->repaired++;
    }
    return 0;
}

int fsck_step(struct fsck *f, uint32_t records_max, bool repair, int64_t now_ns,
              struct fsck_result *result, struct errmsg *err)
{
    struct fsck_walk w = { .f = f, .result = result, .err = err, .records_max = records_max };
    int rv = 0;

    result->done = false;
    result->checked = result->repaired = 0;
    result->count = 0;
    if (repair && (rv = kv_room(ns_kv(f->ns))) != 0) {
        return rv; /* What is found is mended at once. */
    }
    if (f->phase == FSCK_TOTALS) {
        check_totals(&w);
    } else if (f->phase != FSCK_DONE) {
        rv = walk(&w);
    }
    if (rv == MORSEL_AGAIN) {
        return rv;
    }
    if (rv == 0 && repair) {
        /* What is repaired has just been read. */
        struct kv_wanted *before = kv_be_patient(ns_kv(f->ns));

        rv = repair_all(f, result, now_ns, err);
        ns_kv(f->ns)->wanted = before;
    }
    if (rv == 0 && fsck_count_full(f->count)) {
        begin_pass(f);
    } else if (rv == 0 && !w.more) {
        next_phase(f);
    }
    f->steps++;
    result->done = f->phase == FSCK_DONE;
    return rv;
}
