/* The check of the metadata: one walk where all is well, whatever changes meanwhile; and what is
 * wrong is found. */
#include "common/base/status.h"
#include "meta/namespace/fsck_count.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIRECTORIES = 8, FILES = 2000, NAMES = 700 };

struct tree
{
    struct ns_fixture f;
    struct fsck_result result;
    inode_id directories[DIRECTORIES];
    uint64_t checked, repaired;
    uint32_t findings;
    inode_id victims;
    inode_id busy; /* A name comes and goes in it at each step; 0: none. */
    bool toggled;
};

static void name_of(char name[16], uint64_t number)
{
    (void)snprintf(name, 16, "n%u", (unsigned)number);
}

/* A random change; many are refused. */
static void change(struct tree *t)
{
    struct prng *prng = &t->f.prng;
    inode_id a = t->directories[prng_below(prng, DIRECTORIES)];
    inode_id b = t->directories[prng_below(prng, DIRECTORIES)];
    struct meta_op op = { .kind = OP_CREATE };
    struct inode inode;
    char name[16], other[16];

    name_of(name, prng_below(prng, NAMES));
    name_of(other, prng_below(prng, NAMES));
    switch (prng_below(prng, 6)) {
    case 0:
    case 1:
        op = op_make(a, name, prng_below(prng, 4) == 0 ? 0040755 : 0100644);
        break;
    case 2:
        op = op_unlink(a, name, prng_below(prng, 4) == 0);
        break;
    case 3:
        op = op_rename(a, name, b, other, (uint32_t)prng_below(prng, 2) * RENAME_FLAG_EXCHANGE);
        break;
    default:
        if (ns_lookup(t->f.ns, a, text(name), &inode, &t->f.err) != 0) {
            return;
        }
        op = op_link(inode.id, b, other);
    }
    (void)ns_fixture_run(&t->f, &op);
}

static struct tree *tree_new(uint64_t seed)
{
    struct tree *t = calloc(1, sizeof(*t));
    char name[16];

    assert_non_null(t);
    ns_fixture_open(&t->f, seed);
    t->victims = ns_must_make(&t->f, INODE_ROOT, "victims", 0040755);
    for (unsigned i = 0; i < DIRECTORIES; i++) {
        (void)snprintf(name, sizeof(name), "d%u", i);
        t->directories[i] = ns_must_make(&t->f, INODE_ROOT, name, 0040755);
    }
    for (unsigned i = 0; i < FILES; i++) {
        change(t);
    }
    return t;
}

static void tree_free(struct tree *t)
{
    fsck_free(t->f.fsck);
    ns_fixture_close(&t->f);
    free(t);
}

static void toggle(struct tree *t)
{
    if (t->toggled) {
        ns_must(&t->f, op_unlink(t->busy, "toggled", false));
    } else {
        (void)ns_must_make(&t->f, t->busy, "toggled", 0100644);
    }
    t->toggled = !t->toggled;
}

/* A whole check, with `changes` between two steps. */
static void check(struct tree *t, bool repair, unsigned changes)
{
    t->checked = t->repaired = t->findings = 0;
    t->f.fsck = fsck_new(t->f.ns);
    assert_non_null(t->f.fsck);
    do {
        assert_int_equal(fsck_step(t->f.fsck, 100, repair, ++t->f.time_ns, &t->result, &t->f.err),
                         0);
        t->checked += t->result.checked;
        t->repaired += t->result.repaired;
        t->findings += t->result.count;
        for (uint32_t i = 0; i < t->result.count && changes > 0; i++) {
            print_message("%s\n", t->result.findings[i].text.text);
        }
        for (unsigned i = 0; i < changes; i++) {
            change(t);
        }
        if (t->busy != INODE_NONE && changes > 0 && prng_below(&t->f.prng, 2) == 0) {
            toggle(t);
        }
    } while (!t->result.done);
    fsck_free(t->f.fsck);
    t->f.fsck = NULL;
}

static bool count_visit(void *data, struct slice key, struct slice value)
{
    uint64_t *count = data;

    (void)value;
    *count += key.data[0] == RECORD_DENTRY || key.data[0] == RECORD_INODE;
    return true;
}

static uint64_t count_records(struct tree *t)
{
    uint64_t records = 0;

    assert_int_equal(t->f.kv->scan(t->f.kv, (struct slice){ NULL, 0 }, count_visit, &records, NULL),
                     0);
    return records;
}

/* However many inode ids were given to nobody. */
static void what_is_right_is_walked_once(void **state)
{
    struct tree *t = tree_new(1);
    struct meta_op start = { .kind = OP_START };
    uint64_t records = count_records(t);

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        ns_must(&t->f, start); /* Each leaves a gap of NS_START_GAP ids. */
    }
    check(t, false, 0);
    assert_int_equal(t->findings, 0);
    assert_true(records > 1000);
    assert_int_equal(t->checked, records);
    tree_free(t);
}

static void what_changes_meanwhile_is_no_finding(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct tree *t = tree_new(seed);

        for (unsigned round = 0; round < 4; round++) {
            uint64_t records = count_records(t);

            check(t, false, 10);
            assert_int_equal(t->findings, 0);
            assert_in_range(t->checked, records / 2, records * 3 / 2); /* Once. */
        }
        tree_free(t);
    }
}

static void put_inode(struct tree *t, const struct inode *inode)
{
    struct record_key key = key_inode(inode->id);
    struct kv_batch batch;
    struct buf record;

    buf_init(&record);
    inode_encode(inode, &record);
    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), buf_slice(&record));
    assert_int_equal(t->f.kv->commit(t->f.kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
    buf_free(&record);
}

static void put_name(struct tree *t, inode_id parent, const char *name, const struct dentry *dentry)
{
    struct record_key key = key_dentry(parent, text(name));
    struct kv_batch batch;
    struct buf record;

    buf_init(&record);
    dentry_encode(dentry, &record);
    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), buf_slice(&record));
    assert_int_equal(t->f.kv->commit(t->f.kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
    buf_free(&record);
}

/* Each kind of wrong count, alone; found, mended, and gone, while clients go on. */
static void wrong_counts_are_found_and_mended(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 12; kind++) {
        struct tree *t = tree_new(100 + kind);
        inode_id directory = t->victims;
        inode_id file = ns_must_make(&t->f, directory, "file", 0100644);
        struct inode inode = ns_must_inode(&t->f, kind % 6 < 3 ? file : directory);
        struct dentry dentry = { directory, 0040000 };

        switch (kind % 6) {
        case 0:
            inode.nlink = 2;
            break;
        case 1:
            inode.nlink = 0;
            break;
        case 2:
            inode.nlink = UINT32_MAX;
            break;
        case 3:
            inode.entries = 0;
            break;
        case 4:
            inode.nlink = 3;
            break;
        default:
            put_name(t, INODE_ROOT, "second", &dentry);
        }
        put_inode(t, &inode);
        assert_int_equal(ns_fixture_reopen(&t->f), 0);
        check(t, false, 0);
        assert_true(t->findings > 0);
        t->busy = directory;
        check(t, true, 10);
        assert_true(t->repaired > 0);
        if (kind % 6 == 5) {
            check(t, true, 10); /* What the end of the name has made of other counts. */
        }
        check(t, false, 10);
        assert_int_equal(t->findings, 0);
        if (t->toggled) {
            toggle(t);
        }
        assert_int_equal(ns_must_inode(&t->f, file).nlink, 1);
        assert_int_equal(ns_must_inode(&t->f, directory).entries, 1);
        assert_int_equal(ns_must_inode(&t->f, directory).nlink, 2);
        tree_free(t);
    }
}

/* More suspects than the table holds: taken in several passes, each inode once, with its true
 * count. */
static void many_suspects_are_counted_in_passes(void **state)
{
    enum { INODES = 1000000, PARENT = 3 };
    struct fsck_count *c = fsck_count_new();
    uint8_t *seen = calloc(INODES, 1);
    unsigned passes = 0;

    (void)state;
    assert_true(c != NULL && seen != NULL);
    for (inode_id id = 10; id < INODES; id++) {
        fsck_sum_entry(c, PARENT, &(struct dentry){ id, 0100000 }, 1);
    }
    while (fsck_count_begin_pass(c)) {
        passes++;
        for (inode_id id = 10; id < INODES && !fsck_count_full(c); id++) {
            for (unsigned i = 0; i <= id % 3; i++) {
                (void)fsck_tally_entry(c, PARENT, &(struct dentry){ id, 0100000 }, 1);
            }
        }
        if (fsck_count_full(c)) {
            continue;
        }
        for (inode_id id = 10; id < INODES; id++) {
            if (fsck_count_has(c, id)) {
                assert_int_equal(fsck_tally_of(c, id).names, id % 3 + 1);
                assert_int_equal(seen[id]++, 0);
            }
        }
        fsck_count_end_pass(c);
    }
    assert_in_range(passes, 3, 20);
    for (inode_id id = 10; id < INODES; id++) {
        assert_int_equal(seen[id], 1);
    }
    free(seen);
    fsck_count_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_walked_once),
        cmocka_unit_test(what_changes_meanwhile_is_no_finding),
        cmocka_unit_test(wrong_counts_are_found_and_mended),
        cmocka_unit_test(many_suspects_are_counted_in_passes),
    };

    return cmocka_run_group_tests_name("fsck", tests, NULL, NULL);
}
