/* Which copy of a morsel is asked, and when another one beside it. */
#include "client/datasets/set_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static const uint64_t ms = 1000000;

static uint32_t chosen(uint32_t number, const struct set_copy_state *states, uint32_t count)
{
    return set_choose_copy(number, MIB, 0, states, count).copy;
}

static void copies_take_turns(void **state)
{
    struct set_copy_state states[3] = { { .well = true }, { .well = true }, { .well = true } };

    (void)state;
    for (uint32_t number = 0; number < 12; number++) {
        assert_int_equal(chosen(number, states, 3), number % 3);
    }
    assert_int_equal(set_choose_copy(5, MIB, 0, states, 3).wait_ns, 0); /* Nobody knows. */
    states[0].rate = 100 * MIB; /* The others are taken to be as fast; */
    states[1].rate = 70 * MIB;  /* and who is not much slower has his turn. */
    for (uint32_t number = 0; number < 12; number++) {
        assert_int_equal(chosen(number, states, 3), number % 3);
    }
}

static void who_would_be_first_is_asked(void **state)
{
    struct set_copy_state states[2] = { { .well = true, .rate = 10 * MIB },
                                        { .well = true, .rate = MIB } };

    (void)state;
    assert_int_equal(chosen(0, states, 2), 0);
    assert_int_equal(chosen(1, states, 2), 0);
    assert_int_equal(set_choose_copy(1, MIB, 0, states, 2).wait_ns, 100 * ms);
    states[0].asked = 5 * MIB;
    assert_int_equal(chosen(1, states, 2), 0);
    assert_int_equal(set_choose_copy(1, MIB, 0, states, 2).wait_ns, 600 * ms);
    states[0].asked = 16 * MIB; /* By then the slow one has given it out. */
    assert_int_equal(chosen(0, states, 2), 1);
    states[1].asked = MIB;
    assert_int_equal(chosen(0, states, 2), 0);
    states[0].asked = UINT64_MAX / 2; /* No sum overflows. */
    assert_int_equal(chosen(0, states, 2), 1);
}

static void who_is_not_known_is_taken_for_the_fastest(void **state)
{
    struct set_copy_state states[2] = { { .well = true, .rate = MIB }, { .well = true } };

    (void)state;
    for (uint32_t number = 0; number < 2;
         number++) { /* With no other one to go by they are alike, */
        assert_int_equal(set_choose_copy(number, MIB, 0, states, 2).copy, number);
        assert_int_equal(set_choose_copy(number, MIB, 10 * MIB, states, 2).copy, 1);
    }
    assert_int_equal(set_choose_copy(0, MIB, 10 * MIB, states, 2).wait_ns, 100 * ms);
    states[1].asked = 16 * MIB; /* until he has more to do than he could have done by then. */
    assert_int_equal(set_choose_copy(1, MIB, 10 * MIB, states, 2).copy, 0);
}

static void the_best_is_asked(void **state)
{
    struct set_copy_state states[3] = { { .well = true, .rate = 30 },
                                        { .well = true, .rate = 10 },
                                        { .well = false, .rate = 100 } };

    (void)state;
    assert_int_equal(chosen(1, states, 3), 0);
    states[0].tried = true; /* Who is slow is asked when that has failed, */
    assert_int_equal(chosen(1, states, 3), 1);
    assert_int_equal(chosen(2, states, 3), 1);
    states[1].tried = true; /* and who is doubted at last. */
    assert_int_equal(chosen(0, states, 3), 2);
    states[2].tried = true;
    assert_int_equal(chosen(0, states, 3), 3);
    assert_int_equal(chosen(7, states, 0), 0);
}

static void who_waits_too_long_asks_another_one(void **state)
{
    (void)state;
    assert_false(set_hedge_is_due(299 * ms, 0, 0));
    assert_true(set_hedge_is_due(300 * ms, 0, 0));
    assert_true(set_hedge_is_due(300 * ms, 100 * ms, 200 * ms));
    assert_false(set_hedge_is_due(300 * ms, 200 * ms, 0)); /* It may well be on its way. */
    assert_true(set_hedge_is_due(400 * ms, 200 * ms, 0));
    assert_false(set_hedge_is_due(400 * ms, 0, 500 * ms)); /* The other is no faster. */
    assert_true(set_hedge_is_due(500 * ms, 0, 500 * ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_take_turns),
        cmocka_unit_test(who_would_be_first_is_asked),
        cmocka_unit_test(who_is_not_known_is_taken_for_the_fastest),
        cmocka_unit_test(the_best_is_asked),
        cmocka_unit_test(who_waits_too_long_asks_another_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
