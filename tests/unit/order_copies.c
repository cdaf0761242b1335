/* The order of changes that copy bytes from one place of a group to another: what they read is locked, too. */
#include "common/base/status.h"
#include "tests/lib/order_asked.h"

static enum order_verdict ask_copy(struct order *o, op_sequence number, uint64_t token)
{
    struct order_change change = change_of(1, number, 0, 10);
    enum order_verdict verdict;

    change.object.inode = 6;
    change.source.inode = 5;
    change.reads = (struct span){ 5, 15 };
    verdict = order_request(o, &change, token);
    order_check(o);
    return verdict;
}

/* What it copies is locked as its target is, until all members have it, whatever rounds there are. */
static void a_copy_locks_what_it_reads(void **state)
{
    struct order_action a, copy, other;
    struct order o;

    (void)state;
    open_order(&o, 0, 3);
    assert_int_equal(ask(&o, 1, 0, 6, 100), ORDER_YES);
    assert_int_equal(ask_copy(&o, 2, 101), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    (void)expect(&o, ORDER_FORWARD, 100);
    order_applied(&o, a.id);
    expect_nothing(&o); /* Not all have what it is to copy. */
    order_acked(&o, 1, 1, 10, 1);
    expect_answer(&o, 100, MORSEL_OK);
    copy = expect(&o, ORDER_APPLY, 101);
    assert_int_equal(copy.change->source.inode, 5);
    (void)expect(&o, ORDER_FORWARD, 101);
    assert_int_equal(order_read(&o, (struct object_id){ 5, 0 }, (struct span){ 0, 20 }, 102),
                     ORDER_YES);
    other = expect(&o, ORDER_SERVE, 102); /* Others may read it meanwhile. */
    order_applied(&o, other.id);
    (void)expect(&o, ORDER_RELEASE, 102);
    order_applied(&o, copy.id);
    order_leave(&o);
    expect_nothing(&o);
    join_all(&o, 1, 11, 3);
    (void)expect(&o, ORDER_FORWARD, 101);
    assert_int_equal(ask(&o, 3, 14, 20, 103), ORDER_YES);
    assert_int_equal(ask(&o, 4, 15, 20, 104), ORDER_YES);
    order_acked(&o, 1, 1, 11, 1);
    expect_answer(&o, 101, MORSEL_OK);
    (void)expect(&o, ORDER_APPLY, 103);
    (void)expect(&o, ORDER_FORWARD, 103);
    expect_nothing(&o);
    order_free(&o);
}

/* Two may read the same; nothing is copied out of what is held, nor held while it is copied. */
static void a_copy_and_a_hold_exclude_each_other(void **state)
{
    const struct object_id source = { 5, 0 };
    struct order_action a, b;
    struct order o;

    (void)state;
    open_order(&o, 0, 1);
    assert_int_equal(ask_copy(&o, 1, 100), ORDER_YES);
    assert_int_equal(order_hold(&o, source, (struct span){ 14, 16 }), ORDER_YES);
    assert_int_equal(order_hold(&o, source, (struct span){ 15, 16 }), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    b = expect(&o, ORDER_SERVE, 0);
    assert_int_equal(b.change->span.start, 15);
    expect_nothing(&o);
    order_applied(&o, a.id);
    expect_answer(&o, 100, MORSEL_OK);
    b = expect(&o, ORDER_SERVE, 0);
    assert_int_equal(b.change->span.start, 14);
    assert_int_equal(ask_copy(&o, 2, 101), ORDER_YES);
    expect_nothing(&o);
    order_applied(&o, b.id);
    (void)expect(&o, ORDER_RELEASE, 0);
    (void)expect(&o, ORDER_APPLY, 101);
    order_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_locks_what_it_reads),
        cmocka_unit_test(a_copy_and_a_hold_exclude_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
