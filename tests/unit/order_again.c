/* The order of changes: what is asked for again, while it waits, while it is under way, and when it is over. */
#include "iod/replica/order.h"

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LATE_MS = 1000000 };

static struct order_change change_of(client_id client, op_sequence number, uint64_t start,
                                     uint64_t end)
{
    return (struct order_change){ .op = { client, number },
                                  .object = { 5, 0 },
                                  .generation = 1,
                                  .span = { start, end },
                                  .not_after_ms = LATE_MS };
}

static void open_order(struct order *o, uint32_t me, group_set set)
{
    assert_true(order_init(o, me, 8, 64));
    order_join(o, 1, 10, set);
    order_check(o);
}

static enum order_verdict ask(struct order *o, op_sequence number, uint64_t start, uint64_t end,
                              uint64_t token)
{
    struct order_change change = change_of(1, number, start, end);
    enum order_verdict verdict = order_request(o, &change, token);

    order_check(o);
    return verdict;
}

static struct order_action expect(struct order *o, enum order_action_type type, uint64_t token)
{
    struct order_action a = { .token = 0 };

    assert_true(order_next(o, 1, &a));
    order_check(o);
    assert_int_equal(a.type, type);
    assert_int_equal(a.token, token);
    return a;
}

static void expect_answer(struct order *o, uint64_t token, int status)
{
    struct order_action a = expect(o, ORDER_ANSWER, token);

    assert_int_equal(a.answer.status, status);
}

static void expect_nothing(struct order *o)
{
    struct order_action a;

    assert_false(order_next(o, 1, &a));
}

/* Its client still wants it, and says until when: the copy that came first is not what it is judged by. */
static void what_is_asked_for_again_is_in_time_for_longer(void **state)
{
    struct order_change change = change_of(1, 2, 0, 5);
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 0, 1);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    change.not_after_ms = 50;
    assert_int_equal(order_request(&o, &change, 101), ORDER_YES);
    change.not_after_ms = 80;
    assert_int_equal(order_request(&o, &change, 102), ORDER_YES);
    change.not_after_ms = 60; /* By another way, and older. */
    assert_int_equal(order_request(&o, &change, 103), ORDER_NO);
    a = expect(&o, ORDER_APPLY, 100);
    order_applied(&o, a.id);
    expect_answer(&o, 100, MORSEL_OK);
    assert_true(order_next(&o, 70, &a));
    assert_int_equal(a.type, ORDER_APPLY);
    order_applied(&o, a.id);
    expect_answer(&o, 102, MORSEL_OK);
    expect_answer(&o, 101, MORSEL_OK);
    order_free(&o);
}

static void what_comes_again_gets_the_first_answer(void **state)
{
    struct order o;
    struct order_action a;
    struct order_change change;

    (void)state;
    open_order(&o, 0, 1);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    assert_int_equal(ask(&o, 1, 0, 10, 101), ORDER_YES);
    assert_int_equal(ask(&o, 1, 0, 10, 102), ORDER_NO);
    a = expect(&o, ORDER_APPLY, 100);
    expect_nothing(&o);
    order_applied(&o, a.id);
    expect_answer(&o, 101, MORSEL_OK);
    expect_answer(&o, 100, MORSEL_OK);
    assert_int_equal(ask(&o, 1, 0, 10, 103), ORDER_YES);
    expect_answer(&o, 103, MORSEL_OK);
    change = change_of(1, 2, 0, 10);
    change.ended = 1;
    assert_int_equal(order_request(&o, &change, 104), ORDER_YES);
    (void)expect(&o, ORDER_APPLY, 104);
    assert_int_equal(ask(&o, 1, 20, 30, 105), ORDER_YES);
    expect_answer(&o, 105, MORSEL_CANCELED);
    order_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for_again_is_in_time_for_longer),
        cmocka_unit_test(what_comes_again_gets_the_first_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
