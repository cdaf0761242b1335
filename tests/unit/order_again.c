/* The order of changes: what is asked for again, while it waits, while it is under way, and when it is over; and what is
 * forwarded again. */
#include "common/base/status.h"
#include "tests/lib/order_asked.h"

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

/* ---- What was forwarded, and may be lost ---- */

/* It would pass it over, and have it half a second later. */
static void nothing_is_forwarded_to_who_has_not_joined(void **state)
{
    struct order o;
    struct order_action a;

    (void)state;
    assert_true(order_init(&o, 0, 8, 64));
    for (uint64_t round = 10; round < 12; round++) {
        order_join(&o, 1, round, 7);
        if (round == 10) {
            assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
            a = expect(&o, ORDER_APPLY, 100);
            order_applied(&o, a.id);
        }
        for (unsigned k = 0; k < 3; k++) {
            expect_nothing(&o);
            order_resend(&o);
        }
        for (uint32_t member = 2; member > 0; member--) {
            assert_true(order_has_joined(&o, member));
            assert_int_equal(expect(&o, ORDER_FORWARD, 100).member, member);
            expect_nothing(&o);
            assert_false(order_has_joined(&o, member));
            expect_nothing(&o);
        }
        order_resend(&o); /* From when it was forwarded on. */
        expect_nothing(&o);
        order_resend(&o);
        (void)expect(&o, ORDER_FORWARD, 100);
        (void)expect(&o, ORDER_FORWARD, 100);
        order_leave(&o);
    }
    order_free(&o);
}

/* `count` changes of ten bytes, one behind the other, carried out here and forwarded to the one other member. */
static void forward_some(struct order *o, uint64_t count)
{
    for (uint64_t k = 1; k <= count; k++) {
        struct order_action a;

        assert_int_equal(ask(o, k, 10 * k, 10 * k + 10, 100 + k), ORDER_YES);
        a = expect(o, ORDER_APPLY, 100 + k);
        (void)expect(o, ORDER_FORWARD, 100 + k);
        order_applied(o, a.id);
        expect_nothing(o);
    }
}

/* It has acknowledged something in each span of time, in the order in which it was sent: nothing is lost. */
static void a_slow_member_is_sent_nothing_twice(void **state)
{
    struct order o;

    (void)state;
    open_order(&o, 0, 3);
    forward_some(&o, 20);
    for (uint64_t k = 1; k <= 20; k++) {
        order_acked(&o, 1, 1, 10, k);
        expect_answer(&o, 100 + k, MORSEL_OK);
        order_resend(&o);
        expect_nothing(&o);
    }
    order_free(&o);
}

static void what_was_passed_over_is_sent_again(void **state)
{
    struct order o;

    (void)state;
    open_order(&o, 0, 3);
    forward_some(&o, 4);
    order_acked(&o, 1, 1, 10, 2);
    expect_answer(&o, 102, MORSEL_OK);
    order_resend(&o);
    expect_nothing(&o); /* It may have been sent a moment ago. */
    order_acked(&o, 1, 1, 10, 3);
    expect_answer(&o, 103, MORSEL_OK);
    order_resend(&o);
    (void)expect(&o, ORDER_FORWARD, 101);
    expect_nothing(&o); /* Nor was the last one. */
    order_free(&o);
}

/* Of one that acknowledges nothing it is not known whether it is slow: it is sent everything again after one span of
 * time, two, and then every four. */
static void a_silent_member_is_sent_it_again_ever_more_seldom(void **state)
{
    struct order o;
    unsigned calls = 0, times = 0;

    (void)state;
    open_order(&o, 0, 3);
    forward_some(&o, 1);
    for (unsigned gap = 1; times < 7; times++) {
        for (unsigned k = 0; k < gap; k++, calls++) {
            order_resend(&o);
            expect_nothing(&o);
        }
        order_resend(&o);
        calls++;
        (void)expect(&o, ORDER_FORWARD, 101);
        expect_nothing(&o);
        gap = gap < ORDER_REST_MAX / 2 ? 2 * gap : ORDER_REST_MAX;
    }
    assert_int_equal(calls, 7 + 1 + 2 + 5 * ORDER_REST_MAX);
    order_acked(&o, 1, 1, 10, 1);
    expect_answer(&o, 101, MORSEL_OK);
    order_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_for_again_is_in_time_for_longer),
        cmocka_unit_test(what_comes_again_gets_the_first_answer),
        cmocka_unit_test(nothing_is_forwarded_to_who_has_not_joined),
        cmocka_unit_test(a_slow_member_is_sent_nothing_twice),
        cmocka_unit_test(what_was_passed_over_is_sent_again),
        cmocka_unit_test(a_silent_member_is_sent_it_again_ever_more_seldom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
