/* The record of what was reported of a file's bytes and is not synced. */
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct ns_fixture *f = test_calloc(1, sizeof(*f));

    ns_fixture_open(f, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    ns_fixture_close(*state);
    test_free(*state);
    return 0;
}

static size_t unsynced_of(struct ns_fixture *f, inode_id file, struct buf *out)
{
    struct inode inode = ns_must_inode(f, file);
    struct errmsg err;

    buf_clear(out);
    assert_int_equal(ns_unsynced(f->ns, &inode, out, &err), 0);
    return op_unsynced_count(buf_slice(out));
}

/* The file's record after this report, or word of what is synced, of column 0. */
static size_t unsynced_after(struct ns_fixture *f, enum op_kind kind, inode_id file,
                             uint64_t verifier, struct buf *out)
{
    struct meta_op op = { .kind = kind };
    struct buf columns;

    buf_init(&columns);
    op_unsynced_put(&columns, (struct unsynced_column){ 0, verifier });
    if (kind == OP_SIZE_REPORT) {
        op.size_report.inode = file;
        op.size_report.unsynced = buf_slice(&columns);
    } else {
        op.synced.inode = file;
        op.synced.columns = buf_slice(&columns);
    }
    ns_must(f, op);
    buf_free(&columns);
    return unsynced_of(f, file, out);
}

static void what_is_unsynced_is_kept_until_it_is_synced(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct meta_op wrote = { .kind = OP_SIZE_REPORT }, synced = { .kind = OP_SYNCED };
    struct buf columns, now;
    struct inode before;

    buf_init(&columns);
    buf_init(&now);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 7, &now), 1);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 7, &now), 1);
    before = ns_must_inode(f, file);
    op_unsynced_put(&columns, (struct unsynced_column){ 0, 7 });
    synced.synced.inode = file;
    synced.synced.columns = buf_slice(&columns);
    synced.synced.data_version = before.data_version - 1; /* More was reported since. */
    ns_must(f, synced);
    assert_int_equal(unsynced_of(f, file, &now), 1);
    synced.synced.data_version = before.data_version;
    ns_must(f, synced);
    assert_int_equal(unsynced_of(f, file, &now), 0);
    assert_int_equal(ns_must_inode(f, file).version, before.version);
    assert_int_equal(ns_must_inode(f, file).ctime_ns, before.ctime_ns);
    buf_clear(&columns);
    op_unsynced_put(&columns, (struct unsynced_column){ STRIPE_WIDTH_MAX, 7 });
    wrote.size_report.inode = file;
    wrote.size_report.unsynced = buf_slice(&columns);
    assert_int_equal(ns_fixture_run(f, &wrote), MORSEL_INVAL);
    buf_free(&columns);
    buf_free(&now);
}

/* The server lost its power between two writes: the loss of each is told for itself. */
static void each_verifier_of_what_is_unsynced_is_kept(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct buf now;

    buf_init(&now);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 7, &now), 1);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 8, &now), 2);
    assert_int_equal(unsynced_after(f, OP_SYNCED, file, 9, &now), 2);
    assert_int_equal(unsynced_after(f, OP_SYNCED, file, 7, &now), 1);
    assert_int_equal(op_unsynced_at(buf_slice(&now), 0).verifier, 8);
    assert_int_equal(unsynced_after(f, OP_SYNCED, file, 8, &now), 0);
    buf_free(&now);
}

/* Beyond the bound the record says that there were more than it can name. */
static void more_verifiers_than_the_record_holds_are_any(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct buf now;

    buf_init(&now);
    for (uint64_t i = 0; i < UNSYNCED_VERIFIERS_MAX; i++) {
        assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 7 + i, &now), i + 1);
    }
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 7, &now), UNSYNCED_VERIFIERS_MAX);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 99, &now), 1);
    assert_int_equal(op_unsynced_at(buf_slice(&now), 0).verifier, VERIFIER_ANY);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 100, &now), 1);
    assert_int_equal(unsynced_after(f, OP_SYNCED, file, 100, &now), 1);
    assert_int_equal(unsynced_after(f, OP_SYNCED, file, VERIFIER_ANY, &now), 0);
    assert_int_equal(unsynced_after(f, OP_SIZE_REPORT, file, 100, &now), 1);
    assert_int_equal(op_unsynced_at(buf_slice(&now), 0).verifier, 100);
    buf_free(&now);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_unsynced_is_kept_until_it_is_synced),
        TEST(each_verifier_of_what_is_unsynced_is_kept),
        TEST(more_verifiers_than_the_record_holds_are_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
