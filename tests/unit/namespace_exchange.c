/* Two files exchange their bytes: what goes along, whose objects are whose, and what is to be deleted. */
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 3 << 20, OTHER_SERVER = 9 };

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

static struct meta_op op_wrote(inode_id inode, uint64_t size)
{
    struct meta_op op = { .kind = OP_SIZE_REPORT };

    op.size_report.inode = inode;
    op.size_report.size = size;
    return op;
}

static struct meta_op op_exchange(inode_id inode, inode_id with)
{
    struct meta_op op = { .kind = OP_EXCHANGE };

    op.exchange.inode = inode;
    op.exchange.with = with;
    return op;
}

/* A file without a name, that is open, on other servers. */
static inode_id make_copy(struct ns_fixture *f, uint64_t size)
{
    struct meta_op op = op_make(INODE_ROOT, "", 0100600);

    op.make.orphan = true;
    op.make.layout.servers[0] = op.make.layout.servers[1] = OTHER_SERVER;
    assert_int_equal(ns_fixture_run(f, &op), 0);
    f->open[op.target] = true;
    ns_must(f, op_wrote(op.target, size));
    return op.target;
}

static void collect(struct ns_fixture *f, inode_id inode)
{
    struct meta_op op = { .kind = OP_COLLECT };

    f->open[inode] = false;
    op.collect.inode = inode;
    ns_must(f, op);
}

static uint32_t garbage_on(struct ns_fixture *f, server_id server, struct object_id objects[8])
{
    uint32_t count;

    assert_int_equal(ns_garbage(f->ns, server, objects, 8, &count, &f->err), 0);
    return count;
}

static inode_id file_of(struct ns_fixture *f, inode_id body)
{
    struct inode inode;
    int rv = ns_object_file(f->ns, body, &inode, &f->err);

    assert_true(rv == 0 || rv == MORSEL_STALE);
    return rv == 0 ? inode.id : INODE_NONE;
}

static bool visit_body(void *data, struct slice key, struct slice value)
{
    inode_id body;

    (void)value;
    *(uint32_t *)data += key_inode_parse(key, RECORD_BODY, &body);
    return key_inode_parse(key, RECORD_BODY, &body);
}

static uint32_t bodies(struct ns_fixture *f)
{
    struct record_key key = key_body(0);
    uint32_t count = 0;

    assert_int_equal(f->kv->scan(f->kv, record_key_slice(&key), visit_body, &count, &f->err), 0);
    return count;
}

static void the_bytes_go_and_nothing_else(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0104755), copy;
    struct inode before, after, old;

    ns_must(f, op_wrote(file, SIZE));
    copy = make_copy(f, SIZE);
    before = ns_must_inode(f, file);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_FIRST);
    ns_must(f, op_exchange(file, copy));
    for (unsigned i = 0; i < 2; i++) { /* And once more from the disk. */
        after = ns_must_inode(f, file);
        old = ns_must_inode(f, copy);
        assert_int_equal(after.layout.servers[0], OTHER_SERVER);
        assert_memory_equal(&old.layout, &before.layout, sizeof(old.layout));
        assert_int_equal(inode_body(&after), copy);
        assert_int_equal(inode_body(&old), file);
        assert_int_equal(after.mode, before.mode);
        assert_int_equal(after.size, SIZE);
        assert_int_equal(after.mtime_ns, before.mtime_ns);
        assert_true(after.ctime_ns > before.ctime_ns && after.version > before.version);
        assert_int_equal(after.data_version, before.data_version); /* They are the same bytes. */
        assert_int_equal(file_of(f, copy), file);
        assert_int_equal(file_of(f, file), copy);
        /* Who does not know of bodies would take these objects for nobody's. */
        assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_BODIES);
        assert_int_equal(ns_fixture_reopen(f), 0);
    }
}

static void what_it_had_before_is_deleted_with_the_copy(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644), copy, next;
    struct object_id objects[8];

    ns_must(f, op_wrote(file, SIZE));
    copy = make_copy(f, SIZE);
    ns_must(f, op_exchange(file, copy));
    collect(f, copy);
    assert_int_equal(garbage_on(f, OTHER_SERVER, objects), 0);
    assert_int_equal(garbage_on(f, 1, objects), 1);
    assert_int_equal(objects[0].inode, file);
    assert_int_equal(file_of(f, file), INODE_NONE); /* The file is there, and has other objects. */
    assert_int_equal(file_of(f, copy), file);
    assert_int_equal(bodies(f), 1);

    next = make_copy(f, SIZE); /* And again. */
    ns_must(f, op_exchange(file, next));
    assert_int_equal(file_of(f, copy), next);
    collect(f, next);
    assert_int_equal(garbage_on(f, OTHER_SERVER, objects), 2); /* Columns 0 and 1. */
    assert_int_equal(objects[0].inode, copy);
    assert_int_equal(bodies(f), 1);

    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(garbage_on(f, OTHER_SERVER, objects), 4);
    assert_int_equal(objects[2].inode, next);
    assert_int_equal(bodies(f), 0);
}

static void exchanged_back_nothing_is_left_of_it(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644), copy;
    struct inode before;

    ns_must(f, op_wrote(file, SIZE));
    copy = make_copy(f, SIZE);
    before = ns_must_inode(f, file);
    ns_must(f, op_exchange(file, copy));
    ns_must(f, op_exchange(file, copy));
    assert_int_equal(bodies(f), 0);
    assert_int_equal(inode_body(&(struct inode){ .id = 4 }), 4);
    assert_int_equal(ns_must_inode(f, file).body, INODE_NONE);
    assert_int_equal(ns_must_inode(f, file).layout.servers[0], before.layout.servers[0]);
}

static void assert_refused(struct ns_fixture *f, inode_id inode, inode_id with, int status)
{
    struct meta_op op = op_exchange(inode, with);

    assert_int_equal(ns_fixture_run(f, &op), status);
}

static void only_a_copy_may_be_exchanged(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644), copy = make_copy(f, SIZE);
    inode_id named = ns_must_make(f, INODE_ROOT, "g", 0100644), shorter = make_copy(f, 1);
    struct meta_op wrote = op_wrote(file, SIZE);
    struct buf columns;

    ns_must(f, wrote);
    ns_must(f, op_wrote(named, SIZE));
    assert_refused(f, file, file, MORSEL_INVAL);
    assert_refused(f, file, named, MORSEL_INVAL);
    assert_refused(f, file, shorter, MORSEL_BUSY);
    assert_refused(f, INODE_ROOT, copy, MORSEL_INVAL);
    assert_refused(f, file, 999, MORSEL_STALE);
    buf_init(&columns); /* What may not be synced is known by column. */
    op_unsynced_put(&columns, (struct unsynced_column){ .column = 0, .verifier = 7 });
    wrote.size_report.unsynced = buf_slice(&columns);
    ns_must(f, wrote);
    buf_free(&columns);
    assert_refused(f, file, copy, MORSEL_BUSY);
    assert_int_equal(bodies(f), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_bytes_go_and_nothing_else),
        TEST(what_it_had_before_is_deleted_with_the_copy),
        TEST(exchanged_back_nothing_is_left_of_it),
        TEST(only_a_copy_may_be_exchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
