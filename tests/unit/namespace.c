/* The namespace against a model that is too simple to be wrong: flat lists, searched from end to
 * end. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/coherence/lease.h"
#include "meta/namespace/fsck.h"
#include "tests/lib/ns_fixture.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODEL_INODES = NS_FIXTURE_INODES, MODEL_ENTRIES = 4096, SEEDS = 40, OPS = 600 };

struct model_inode
{
    uint32_t mode, nlink; /* mode 0: not there. */
    inode_id parent;      /* Of directories. */
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    bool orphan, linkable;
};

struct model_entry
{
    inode_id parent, inode;
    char name[4];
};

struct model
{
    inode_id next;
    struct model_inode inodes[MODEL_INODES];
    uint32_t entry_count;
    struct model_entry entries[MODEL_ENTRIES];
    uint64_t garbage;
};

struct both
{
    struct ns_fixture f;
    struct model m;
};

static void model_init(struct model *m)
{
    memset(m, 0, sizeof(*m));
    m->inodes[1] = (struct model_inode){ 0040755, 2, 1, 0, 1, 1, false, false };
    m->next = 2;
}

static bool model_is_directory(const struct model *m, inode_id id)
{
    return mode_is_directory(m->inodes[id].mode);
}

static struct model_entry *model_find(struct model *m, inode_id parent, const char *name)
{
    for (uint32_t i = 0; i < m->entry_count; i++) {
        if (m->entries[i].parent == parent && strcmp(m->entries[i].name, name) == 0) {
            return &m->entries[i];
        }
    }
    return NULL;
}

static uint32_t model_children(const struct model *m, inode_id parent)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->entry_count; i++) {
        count += m->entries[i].parent == parent;
    }
    return count;
}

static void model_add(struct model *m, inode_id parent, const char *name, inode_id inode)
{
    struct model_entry *e = &m->entries[m->entry_count++];

    CHECK(m->entry_count <= MODEL_ENTRIES);
    e->parent = parent;
    e->inode = inode;
    (void)snprintf(e->name, sizeof(e->name), "%s", name);
}

static void model_remove(struct model *m, struct model_entry *e)
{
    *e = m->entries[--m->entry_count];
}

static void model_touch(struct model *m, inode_id directory, int64_t now)
{
    m->inodes[directory].mtime_ns = m->inodes[directory].ctime_ns = now;
}

static int model_directory(const struct model *m, inode_id id)
{
    if (m->inodes[id].mode == 0) {
        return MORSEL_STALE;
    }
    if (!model_is_directory(m, id)) {
        return MORSEL_NOTDIR;
    }
    return m->inodes[id].nlink == 0 ? MORSEL_NOENT : 0;
}

static int model_make(struct model *m, const struct meta_op *op, const char *name)
{
    inode_id parent = op->make.parent, id = m->next;
    int rv = model_directory(m, parent);

    if (rv != 0) {
        return rv;
    }
    if (op->make.orphan ? mode_is_directory(op->make.mode) : model_find(m, parent, name) != NULL) {
        return op->make.orphan ? MORSEL_INVAL : MORSEL_EXIST;
    }
    m->next++;
    m->inodes[id].mode = op->make.mode;
    m->inodes[id].nlink = op->make.orphan ? 0 : mode_is_directory(op->make.mode) ? 2 : 1;
    m->inodes[id].parent = parent;
    m->inodes[id].size = mode_is_symlink(op->make.mode) ? strlen("somewhere") : 0;
    m->inodes[id].mtime_ns = m->inodes[id].ctime_ns = op->time_ns;
    m->inodes[id].orphan = m->inodes[id].linkable = op->make.orphan;
    if (!op->make.orphan) {
        model_add(m, parent, name, id);
        m->inodes[parent].nlink += mode_is_directory(op->make.mode);
        model_touch(m, parent, op->time_ns);
    }
    return 0;
}

/* A name of `id` is gone already. */
static void model_drop(struct both *b, inode_id id, int64_t now)
{
    struct model_inode *inode = &b->m.inodes[id];

    inode->ctime_ns = now;
    if (!model_is_directory(&b->m, id) && inode->nlink > 1) {
        inode->nlink--;
        return;
    }
    inode->nlink = 0;
    if (b->f.open[id]) {
        inode->orphan = true;
        return;
    }
    b->m.garbage +=
        mode_is_regular(inode->mode) && inode->size > 0 ? 1 : 0; /* One morsel at most. */
    memset(inode, 0, sizeof(*inode));
}

static int model_unlink(struct both *b, const struct meta_op *op, const char *name)
{
    struct model *m = &b->m;
    struct model_entry *e;
    inode_id id;
    int rv = model_directory(m, op->unlink.parent);

    if (rv != 0) {
        return rv;
    }
    if ((e = model_find(m, op->unlink.parent, name)) == NULL) {
        return MORSEL_NOENT;
    }
    id = e->inode;
    if (model_is_directory(m, id) != op->unlink.directory) {
        return op->unlink.directory ? MORSEL_NOTDIR : MORSEL_ISDIR;
    }
    if (op->unlink.directory && model_children(m, id) > 0) {
        return MORSEL_NOTEMPTY;
    }
    model_remove(m, e);
    m->inodes[op->unlink.parent].nlink -= op->unlink.directory;
    model_touch(m, op->unlink.parent, op->time_ns);
    model_drop(b, id, op->time_ns);
    return 0;
}

static int model_link(struct model *m, const struct meta_op *op, const char *name)
{
    struct model_inode *inode = &m->inodes[op->link.inode];
    int rv;

    if (inode->mode == 0) {
        return MORSEL_NOENT;
    }
    if ((rv = model_directory(m, op->link.new_parent)) != 0) {
        return rv;
    }
    if (model_is_directory(m, op->link.inode)) {
        return MORSEL_PERM;
    }
    if (model_find(m, op->link.new_parent, name) != NULL) {
        return MORSEL_EXIST;
    }
    if (inode->nlink == 0 && !inode->linkable) {
        return MORSEL_NOENT;
    }
    if (inode->nlink++ == 0) {
        inode->orphan = inode->linkable = false;
    }
    inode->ctime_ns = op->time_ns;
    model_add(m, op->link.new_parent, name, op->link.inode);
    model_touch(m, op->link.new_parent, op->time_ns);
    return 0;
}

static bool model_below(const struct model *m, inode_id directory, inode_id ancestor)
{
    while (directory != ancestor && directory != INODE_ROOT) {
        directory = m->inodes[directory].parent;
    }
    return directory == ancestor;
}

static void model_move(struct model *m, inode_id id, inode_id from, inode_id to)
{
    if (model_is_directory(m, id)) {
        m->inodes[from].nlink--;
        m->inodes[to].nlink++;
        m->inodes[id].parent = to;
    }
}

static int model_rename_check(struct model *m, const struct meta_op *op, inode_id moved,
                              inode_id other)
{
    inode_id from = op->rename.parent, to = op->rename.new_parent;
    bool swap = op->rename.flags == RENAME_FLAG_EXCHANGE;

    if (other != 0 && op->rename.flags == RENAME_FLAG_NOREPLACE) {
        return MORSEL_EXIST;
    }
    if (other == 0 && swap) {
        return MORSEL_NOENT;
    }
    if (from != to && model_is_directory(m, moved) && model_below(m, to, moved)) {
        return MORSEL_INVAL;
    }
    if (from != to && other != 0 && model_is_directory(m, other) && model_below(m, from, other)) {
        return swap ? MORSEL_INVAL : MORSEL_NOTEMPTY;
    }
    if (swap || other == 0 || other == moved) {
        return 0;
    }
    if (model_is_directory(m, other) != model_is_directory(m, moved)) {
        return model_is_directory(m, moved) ? MORSEL_NOTDIR : MORSEL_ISDIR;
    }
    return model_is_directory(m, other) && model_children(m, other) > 0 ? MORSEL_NOTEMPTY : 0;
}

static int model_rename(struct both *b, const struct meta_op *op, const char *name,
                        const char *new_name)
{
    struct model *m = &b->m;
    inode_id from = op->rename.parent, to = op->rename.new_parent, moved, other;
    struct model_entry *e, *n;
    int rv;

    if ((rv = model_directory(m, from)) != 0 || (rv = model_directory(m, to)) != 0) {
        return rv;
    }
    if ((e = model_find(m, from, name)) == NULL) {
        return MORSEL_NOENT;
    }
    n = model_find(m, to, new_name);
    moved = e->inode;
    other = n == NULL ? 0 : n->inode;
    if ((rv = model_rename_check(m, op, moved, other)) != 0 || other == moved) {
        return rv;
    }
    if (op->rename.flags == RENAME_FLAG_EXCHANGE) {
        e->inode = other;
        n->inode = moved;
        model_move(m, other, to, from);
        m->inodes[other].ctime_ns = op->time_ns;
    } else {
        if (n != NULL) {
            m->inodes[to].nlink -= model_is_directory(m, other);
            model_remove(m, n);
            model_drop(b, other, op->time_ns);
        }
        model_remove(m, model_find(m, from, name));
        model_add(m, to, new_name, moved);
    }
    model_move(m, moved, from, to);
    m->inodes[moved].ctime_ns = op->time_ns;
    model_touch(m, from, op->time_ns);
    model_touch(m, to, op->time_ns);
    return 0;
}

static int model_wrote(struct model *m, const struct meta_op *op)
{
    struct model_inode *inode = &m->inodes[op->size_report.inode];

    if (inode->mode == 0) {
        return MORSEL_STALE;
    }
    if (!mode_is_regular(inode->mode)) {
        return MORSEL_INVAL;
    }
    if (op->size_report.truncates && inode->size > op->size_report.truncate_size) {
        inode->size = op->size_report.truncate_size;
    }
    inode->size = op->size_report.size > inode->size ? op->size_report.size : inode->size;
    inode->mtime_ns = inode->ctime_ns = op->time_ns;
    return 0;
}

/* ---- Comparing ---- */

struct listing
{
    struct both *b;
    inode_id directory;
    uint32_t count;
};

static bool visit_listed(void *data, struct slice name, const struct dentry *dentry)
{
    struct listing *l = data;
    char copy[8] = "";
    struct model_entry *e;

    assert_true(name.count < sizeof(copy));
    memcpy(copy, name.data, name.count);
    e = model_find(&l->b->m, l->directory, copy);
    assert_non_null(e);
    assert_int_equal(e->inode, dentry->inode);
    assert_int_equal(l->b->m.inodes[e->inode].mode & 0170000, dentry->type);
    l->count++;
    return true;
}

static void compare_inode(struct both *b, inode_id id)
{
    const struct model_inode *want = &b->m.inodes[id];
    struct listing l = { b, id, 0 };
    struct inode have;
    bool end, orphan;
    int rv = ns_inode(b->f.ns, id, &have, &b->f.err);

    assert_int_equal(rv, want->mode == 0 ? MORSEL_STALE : 0);
    if (rv != 0) {
        return;
    }
    assert_int_equal(have.mode, want->mode);
    assert_int_equal(have.nlink, want->nlink);
    assert_int_equal(have.mtime_ns, want->mtime_ns);
    assert_int_equal(have.ctime_ns, want->ctime_ns);
    assert_int_equal(ns_is_orphan(b->f.ns, id, &orphan, &b->f.err), 0);
    assert_int_equal(orphan, want->orphan);
    if (!mode_is_directory(have.mode)) {
        assert_int_equal(have.size, want->size);
        return;
    }
    assert_int_equal(have.parent, want->parent);
    assert_int_equal(have.entries, model_children(&b->m, id));
    assert_int_equal(ns_readdir(b->f.ns, id, text(""), visit_listed, &l, &end, &b->f.err), 0);
    assert_true(end);
    assert_int_equal(l.count, model_children(&b->m, id));
}

static void compare(struct both *b)
{
    uint64_t inodes = 0, orphans = 0;

    for (inode_id id = 1; id < b->m.next; id++) {
        compare_inode(b, id);
        inodes += b->m.inodes[id].mode != 0;
        orphans += b->m.inodes[id].orphan;
    }
    assert_int_equal(ns_counters(b->f.ns)->inodes, inodes);
    assert_int_equal(ns_counters(b->f.ns)->orphans, orphans);
    assert_int_equal(ns_counters(b->f.ns)->garbage, b->m.garbage);
}

/* Run a whole check; the number of findings. */
static uint32_t run_fsck(struct ns_fixture *f, bool repair)
{
    struct fsck *fsck = fsck_new(f->ns);
    struct fsck_result *result = malloc(sizeof(*result));
    uint32_t findings = 0;

    assert_non_null(fsck);
    assert_non_null(result);
    do {
        assert_int_equal(fsck_step(fsck, FSCK_STEP_RECORDS, repair, ++f->time_ns, result, &f->err),
                         0);
        findings += result->count;
    } while (!result->done);
    fsck_free(fsck);
    free(result);
    return findings;
}

/* ---- Random operations ---- */

static inode_id draw_inode(struct both *b)
{
    return 1 + prng_below(&b->f.prng, b->m.next - 1);
}

/* Mostly a directory. */
static inode_id draw_directory(struct both *b)
{
    for (int i = 0; i < 20; i++) {
        inode_id id = draw_inode(b);

        if (model_directory(&b->m, id) == 0) {
            return id;
        }
    }
    return draw_inode(b);
}

static const char *draw_name(struct both *b)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "ff" };

    return names[prng_below(&b->f.prng, sizeof(names) / sizeof(names[0]))];
}

static int step_make(struct both *b)
{
    static const uint32_t modes[] = { 0040755, 0040700, 0100644, 0100644, 0120777, 0010600 };
    const char *name = draw_name(b);
    struct meta_op op = op_make(draw_directory(b), name, modes[prng_below(&b->f.prng, 6)]);
    int want;

    if (prng_below(&b->f.prng, 10) == 0) {
        op.make.orphan = true;
        op.make.name = text("");
        b->f.open[b->m.next] = true;
    }
    op.time_ns = b->f.time_ns + 1;
    want = model_make(&b->m, &op, name);
    assert_int_equal(ns_fixture_run(&b->f, &op), want);
    return want;
}

static int step_unlink(struct both *b)
{
    const char *name = draw_name(b);
    struct meta_op op = op_unlink(draw_directory(b), name, prng_below(&b->f.prng, 2) == 0);
    int want;

    op.time_ns = b->f.time_ns + 1;
    want = model_unlink(b, &op, name);
    assert_int_equal(ns_fixture_run(&b->f, &op), want);
    return want;
}

static int step_rename(struct both *b)
{
    const char *name = draw_name(b), *new_name = draw_name(b);
    inode_id from = draw_directory(b), to = draw_directory(b);
    struct meta_op op = op_rename(from, name, to, new_name, (uint32_t)prng_below(&b->f.prng, 3));
    int want;

    op.time_ns = b->f.time_ns + 1;
    want = model_rename(b, &op, name, new_name);
    assert_int_equal(ns_fixture_run(&b->f, &op), want);
    return want;
}

static int step_link(struct both *b)
{
    const char *name = draw_name(b);
    inode_id inode = draw_inode(b);
    struct meta_op op = op_link(inode, draw_directory(b), name);
    int want;

    op.time_ns = b->f.time_ns + 1;
    want = model_link(&b->m, &op, name);
    assert_int_equal(ns_fixture_run(&b->f, &op), want);
    return want;
}

static int step_wrote(struct both *b)
{
    struct meta_op op = { .kind = OP_SIZE_REPORT };
    int want;

    op.size_report.inode = draw_inode(b);
    op.size_report.size = prng_below(&b->f.prng, 5000);
    op.size_report.truncates = prng_below(&b->f.prng, 3) == 0;
    op.size_report.truncate_size = op.size_report.truncates ? prng_below(&b->f.prng, 5000) : 0;
    op.time_ns = b->f.time_ns + 1;
    want = model_wrote(&b->m, &op);
    assert_int_equal(ns_fixture_run(&b->f, &op), want);
    return want;
}

/* Open or close; what was unlinked meanwhile is collected. */
static int step_open(struct both *b)
{
    inode_id id = draw_inode(b);
    struct model_inode *inode = &b->m.inodes[id];
    struct meta_op op = { .kind = OP_COLLECT };

    b->f.open[id] = !b->f.open[id] && inode->mode != 0;
    if (!b->f.open[id] && inode->orphan) {
        op.collect.inode = id;
        assert_int_equal(ns_fixture_run(&b->f, &op), 0);
        b->m.garbage += mode_is_regular(inode->mode) ? 2 : 0;
        memset(inode, 0, sizeof(*inode));
    }
    return 0;
}

static void step(struct both *b)
{
    static int (*const steps[])(struct both *) = { step_make,   step_make,   step_make,
                                                   step_unlink, step_rename, step_rename,
                                                   step_link,   step_wrote,  step_open };

    (void)steps[prng_below(&b->f.prng, sizeof(steps) / sizeof(steps[0]))](b);
}

static void random_operations_agree_with_the_model(void **state)
{
    const uint64_t first = test_seed_first();
    struct both *b = calloc(1, sizeof(*b));

    (void)state;
    assert_non_null(b);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        ns_fixture_open(&b->f, seed);
        model_init(&b->m);
        for (int i = 0; i < OPS; i++) {
            step(b);
            if (i % 100 == 99) {
                compare(b);
            }
            if (i % 250 == 249) {
                assert_int_equal(ns_fixture_reopen(&b->f), 0);
                compare(b);
            }
        }
        assert_int_equal(run_fsck(&b->f, false), 0);
        ns_fixture_close(&b->f);
    }
    free(b);
}

/* ---- Crashes and replay ---- */

struct history
{
    uint32_t count;
    struct buf ops[OPS + 2]; /* Encoded, by sequence - 1. */
};

static bool visit_log(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct history *h = data;

    assert_in_range(sequence, 1, OPS + 1);
    buf_clear(&h->ops[sequence - 1]);
    op_encode(op, &h->ops[sequence - 1]);
    h->count = (uint32_t)sequence;
    return true;
}

/* The first `count` operations on an empty store give the bytes of `kv`. */
static void assert_replay_gives(const struct history *h, uint64_t count, const struct kv *kv)
{
    struct prng prng = { 1 };
    struct kv *copy = kv_forgetful_open(&prng);
    struct errmsg err = { "" };
    struct buf want, have;
    struct ns *ns;

    assert_int_equal(ns_open(copy, NULL, &ns, &err), 0);
    for (uint64_t i = 0; i < count; i++) {
        struct meta_op op;

        assert_int_equal(op_decode(buf_slice(&h->ops[i]), &op), 0);
        assert_int_equal(ns_replay(ns, &op, &err), 0);
    }
    buf_init(&want);
    buf_init(&have);
    kv_forgetful_dump(kv, &want);
    kv_forgetful_dump(copy, &have);
    assert_int_equal(have.count, want.count);
    assert_memory_equal(have.data, want.data, want.count);
    buf_free(&want);
    buf_free(&have);
    ns_close(ns);
    copy->close(copy);
}

static void read_history(struct ns_fixture *f, struct history *h)
{
    assert_int_equal(ns_log(f->ns, 1, visit_log, h, &f->err), 0);
    assert_int_equal(h->count, ns_counters(f->ns)->sequence);
}

static void a_crash_leaves_a_prefix_with_all_that_was_synced(void **state)
{
    const uint64_t first = test_seed_first();
    struct both *b = calloc(1, sizeof(*b));
    struct history *h = calloc(1, sizeof(*h));

    (void)state;
    assert_non_null(b);
    assert_non_null(h);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        uint64_t acknowledged, synced = 1;

        ns_fixture_open(&b->f, seed);
        model_init(&b->m);
        for (int i = 0; i < OPS / 2; i++) {
            step(b);
            if (prng_below(&b->f.prng, 40) == 0) {
                synced = ns_counters(b->f.ns)->sequence;
                assert_int_equal(b->f.kv->sync(b->f.kv, NULL), 0);
            }
        }
        acknowledged = ns_counters(b->f.ns)->sequence;
        read_history(&b->f, h);
        (void)kv_forgetful_crash(b->f.kv);
        assert_int_equal(ns_fixture_reopen(&b->f), 0);
        assert_in_range(ns_counters(b->f.ns)->sequence, synced, acknowledged);
        assert_replay_gives(h, ns_counters(b->f.ns)->sequence, b->f.kv);
        assert_int_equal(run_fsck(&b->f, false), 0);
        ns_fixture_close(&b->f);
    }
    for (int i = 0; i < OPS + 2; i++) {
        buf_free(&h->ops[i]);
    }
    free(h);
    free(b);
}

static void a_log_that_does_not_fit_is_refused(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = op_unlink(INODE_ROOT, "missing", false);

    (void)state;
    ns_fixture_open(f, 1);
    assert_int_equal(ns_replay(f->ns, &op, &f->err), MORSEL_CORRUPT);
    assert_int_equal(ns_counters(f->ns)->sequence, 1);
    ns_fixture_close(f);
    free(f);
}

static void a_failed_commit_refuses_further_changes(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = op_make(INODE_ROOT, "a", 0100644);
    struct inode inode;

    (void)state;
    ns_fixture_open(f, 1);
    kv_forgetful_fail(f->kv, MORSEL_NOSPC);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_NOSPC);
    kv_forgetful_fail(f->kv, 0);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_NOSPC);
    assert_int_equal(ns_lookup(f->ns, INODE_ROOT, text("a"), &inode, &f->err), MORSEL_NOENT);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_fixture_run(f, &op), 0);
    ns_fixture_close(f);
    free(f);
}

/* ---- Damage ---- */

static void damage(struct ns_fixture *f, struct record_key key, struct slice value, bool put)
{
    struct kv_batch batch;

    kv_batch_init(&batch);
    if (put) {
        kv_batch_put(&batch, record_key_slice(&key), value);
    } else {
        kv_batch_delete(&batch, record_key_slice(&key));
    }
    assert_int_equal(f->kv->commit(f->kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
    assert_int_equal(ns_fixture_reopen(f), 0);
}

static void a_damaged_store_is_not_opened(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct record_key keys[] = { key_super(), key_counters(), key_log(2), key_inode(INODE_ROOT) };

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct kv_batch batch;

        ns_fixture_open(f, 1);
        (void)ns_must_make(f, INODE_ROOT, "a", 0100644);
        kv_batch_init(&batch);
        kv_batch_delete(&batch, record_key_slice(&keys[i]));
        assert_int_equal(f->kv->commit(f->kv, &batch, false, NULL), 0);
        kv_batch_free(&batch);
        assert_int_equal(ns_fixture_reopen(f), MORSEL_CORRUPT);
        assert_true(f->err.text[0] != 0);
        ns_fixture_close(f);
    }
    free(f);
}

static void fsck_finds_and_mends(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct inode inode;
    struct buf record;
    inode_id dir, file, lost;

    (void)state;
    ns_fixture_open(f, 1);
    dir = ns_must_make(f, INODE_ROOT, "dir", 0040755);
    file = ns_must_make(f, dir, "file", 0100644);
    lost = ns_must_make(f, dir, "lost", 0100644);
    assert_int_equal(run_fsck(f, false), 0);

    damage(f, key_inode(file), text(""), false);               /* Its name dangles. */
    damage(f, key_dentry(dir, text("lost")), text(""), false); /* Nameless. */
    inode = ns_must_inode(f, dir);
    inode.parent = dir;
    buf_init(&record);
    inode_encode(&inode, &record);
    damage(f, key_inode(dir), buf_slice(&record), true); /* ".." leads astray. */
    buf_free(&record);

    assert_true(run_fsck(f, false) >= 4);
    assert_true(run_fsck(f, true) >= 4);
    (void)run_fsck(f, true); /* Counts of directories, after names have gone and come. */
    assert_int_equal(run_fsck(f, false), 0);
    assert_int_equal(ns_must_inode(f, dir).parent, INODE_ROOT);
    assert_int_equal(ns_must_inode(f, lost).nlink, 1);
    assert_int_equal(ns_lookup(f->ns, dir, text("file"), &inode, &f->err), MORSEL_NOENT);
    ns_fixture_close(f);
    free(f);
}

static void holders_of_leases_are_kept(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = { .kind = OP_HOLDER };
    struct lease_epoch_kept lease_epochs[4];
    uint32_t count;

    (void)state;
    ns_fixture_open(f, 7);
    for (client_id client = 1; client <= 3; client++) {
        op.holder.lease_epoch = client << 60 | client;
        op.holder.holds = true;
        op.holder.lease_period_ms = client == 3 ? 700 : LEASE_MS;
        ns_must(f, op);
    }
    op.holder.lease_epoch = 2ULL << 60 | 2;
    op.holder.holds = false;
    ns_must(f, op);
    ns_must(f, op); /* Once more does no harm. */
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_holders(f->ns, lease_epochs, 4, &count, &f->err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(lease_epochs[0].lease_epoch, 1ULL << 60 | 1);
    assert_int_equal(lease_epochs[0].lease_period_ms, LEASE_MS);
    assert_int_equal(lease_epochs[1].lease_epoch, 3ULL << 60 | 3);
    assert_int_equal(lease_epochs[1].lease_period_ms, 700);
    ns_fixture_close(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(a_crash_leaves_a_prefix_with_all_that_was_synced),
        cmocka_unit_test(a_log_that_does_not_fit_is_refused),
        cmocka_unit_test(a_failed_commit_refuses_further_changes),
        cmocka_unit_test(a_damaged_store_is_not_opened),
        cmocka_unit_test(fsck_finds_and_mends),
        cmocka_unit_test(holders_of_leases_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
