/* Servers that are gone for good: which files have something there, and that nothing waits to be deleted there. */
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

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

/* A server is removed for good: nothing waits to be deleted there from then on, and it never comes back. */
static void nothing_is_queued_for_a_removed_server(void **state)
{
    struct ns_fixture *f = *state;
    struct meta_op member = { .kind = OP_MEMBER };
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct meta_op op = { .kind = OP_SIZE_REPORT };
    struct object_id objects[8];
    uint32_t count;

    op.size_report.inode = file;
    op.size_report.size = 3 << 20;
    ns_must(f, op);
    member.member.id = 2;
    ns_must(f, member);
    assert_false(ns_is_removed(f->ns, 2));
    member.member.removed = true;
    ns_must(f, member);
    assert_true(ns_is_removed(f->ns, 2));
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(ns_counters(f->ns)->garbage, 1);
    assert_int_equal(ns_garbage(f->ns, 2, objects, 8, &count, &f->err), 0);
    assert_int_equal(count, 0);
    member.member.removed = false;
    assert_int_equal(ns_fixture_run(f, &member), MORSEL_INVAL);
}

/* Which files have something on a server alone, whatever the size of the steps. */
static void what_lies_on_a_server_is_found(void **state)
{
    struct ns_fixture *f = *state;
    uint64_t files = 0, holding = 0, bytes = 0;
    char name[16];

    for (int i = 0; i < 40; i++) {
        struct meta_op op = { .kind = OP_SIZE_REPORT };
        struct inode inode;

        (void)snprintf(name, sizeof(name), "f%d", i);
        op.size_report.inode = ns_must_make(f, INODE_ROOT, name, i % 5 == 0 ? 0040755 : 0100644);
        if (i % 5 == 0) {
            continue;
        }
        op.size_report.size = (uint64_t)(i % 3) * 700000 + 1;
        if (i % 7 != 0) {
            ns_must(f, op);
        }
        inode = ns_must_inode(f, op.size_report.inode);
        for (uint32_t column = 0; column < inode.layout.stripe.width; column++) {
            if (inode.layout.servers[column] == 2) {
                uint64_t there = stripe_object_size(&inode.layout.stripe, column, inode.size);

                files++;
                holding += there > 0;
                bytes += there;
            }
        }
    }
    assert_true(files > holding && holding > 0);
    for (uint32_t step = 1; step < 100; step += 13) {
        struct ns_lying lying = { .next = INODE_ROOT };

        for (unsigned steps = 0; lying.next != INODE_NONE; steps++) {
            assert_true(steps <= 100);
            assert_int_equal(ns_lying_on(f->ns, 2, step, &lying, &f->err), 0);
        }
        assert_int_equal(lying.files, files);
        assert_int_equal(lying.holding, holding);
        assert_int_equal(lying.bytes, bytes);
        assert_true(ns_must_inode(f, lying.shown[0]).size > 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_queued_for_a_removed_server),
        TEST(what_lies_on_a_server_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
