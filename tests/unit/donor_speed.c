/* How long a benefactor takes: who is slow, also to answer what nobody waits for any more, is asked behind others, and not for ever. */
#include "client/datasets/donor_speed.h"
#include "client/datasets/set_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MS = 1000000, HALF = DONOR_SPEED_HALF_MS, NOW = 5000000 };

/* Of two copies of a morsel whose turn the first is. */
static uint32_t chosen(const struct donor_speed *first, const struct donor_speed *second,
                       uint64_t now_ms)
{
    struct set_copy_state states[2] = { { .well = true, .slow = donor_speed_ns(first, now_ms) },
                                        { .well = true, .slow = donor_speed_ns(second, now_ms) } };

    return set_choose_copy(0, states, 2);
}

static void answers_make_a_mean(void **state)
{
    struct donor_speed speed = { 0 };

    (void)state;
    assert_int_equal(donor_speed_ns(&speed, NOW), 0);
    donor_speed_note(&speed, 8 * MS, true, NOW);
    assert_int_equal(donor_speed_ns(&speed, NOW), 8 * MS);
    donor_speed_note(&speed, 16 * MS, true, NOW);
    assert_int_equal(donor_speed_ns(&speed, NOW), 9 * MS);
}

/* He answers to nobody, for the other one is always there before. */
static void who_is_not_waited_for_is_slow(void **state)
{
    struct donor_speed slow = { 0 }, quick = { 0 };

    (void)state;
    donor_speed_note(&slow, 10 * MS, true, NOW);
    donor_speed_note(&quick, 10 * MS, true, NOW);
    assert_int_equal(chosen(&slow, &quick, NOW), 0);
    donor_speed_note(&slow, 5 * MS, false, NOW); /* That says nothing. */
    assert_int_equal(donor_speed_ns(&slow, NOW), 10 * MS);
    donor_speed_note(&slow, 300 * MS, false, NOW);
    assert_int_equal(chosen(&slow, &quick, NOW), 1);
}

static void and_gets_another_chance(void **state)
{
    struct donor_speed slow = { 0 }, quick = { 0 };
    uint64_t now_ms = NOW;

    (void)state;
    donor_speed_note(&slow, 1000 * MS, true, NOW);
    while (now_ms < NOW + 3 * HALF) {
        donor_speed_note(&quick, 10 * MS, true, now_ms);
        assert_int_equal(chosen(&slow, &quick, now_ms), 1);
        now_ms += HALF / 10;
    }
    now_ms = NOW + 6 * HALF;
    donor_speed_note(&quick, 10 * MS, true, now_ms);
    assert_int_equal(chosen(&slow, &quick, now_ms), 0);
    assert_int_equal(donor_speed_ns(&slow, NOW + (uint64_t)64 * HALF), 0); /* All is forgotten. */
    assert_int_equal(donor_speed_ns(&slow, NOW + (uint64_t)1000 * HALF), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_make_a_mean),
        cmocka_unit_test(who_is_not_waited_for_is_slow),
        cmocka_unit_test(and_gets_another_chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
