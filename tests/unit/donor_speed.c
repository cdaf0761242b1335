/* How fast a benefactor is taken to be: what has come while it had something to do, and not for ever. */
#include "client/datasets/donor_speed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static const uint64_t ms = 1000000, now = UINT64_C(7000000000000);

/* MiB per second. */
static uint64_t rate(const struct donor_speed *speed, uint64_t now_ns)
{
    return donor_speed_rate(speed, now_ns) / MIB;
}

/* Sixteen are asked for at once, and come one after the other: each but the first has waited. */
static void what_waits_is_no_slowness(void **state)
{
    struct donor_speed speed = { 0 };

    (void)state;
    assert_int_equal(donor_speed_rate(&speed, now), 0);
    for (unsigned i = 0; i < 16; i++) {
        donor_speed_asked(&speed, MIB, now);
    }
    for (unsigned i = 1; i <= 16; i++) {
        donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, now + i * 100 * ms);
        assert_in_range(donor_speed_rate(&speed, now + i * 100 * ms), 10 * MIB - 100, 10 * MIB);
    }
    assert_int_equal(speed.asked, 0);
}

static void pauses_do_not_count(void **state)
{
    struct donor_speed speed = { 0 };
    uint64_t at = now;

    (void)state;
    for (unsigned i = 0; i < 10; i++, at += 1000 * ms) {
        donor_speed_asked(&speed, MIB, at);
        donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, at + 10 * ms);
    }
    assert_in_range(rate(&speed, at), 95, 100);
}

static void changes_are_followed(void **state)
{
    struct donor_speed speed = { 0 };
    uint64_t at = now;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        donor_speed_asked(&speed, MIB, at);
        at += i < 10 ? 10 * ms : 100 * ms;
        donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, at);
    }
    assert_in_range(rate(&speed, at), 10, 16);
}

/* Before he has answered. */
static void silence_shows(void **state)
{
    struct donor_speed speed = { 0 };

    (void)state;
    donor_speed_asked(&speed, MIB, now);
    donor_speed_asked(&speed, MIB, now);
    assert_int_equal(donor_speed_rate(&speed, now + 10 * ms), 0); /* That says nothing. */
    assert_int_equal(rate(&speed, now + 1000 * ms), 2);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, now + 1000 * ms);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, now + 2000 * ms);
    donor_speed_asked(&speed, MIB, now + 3000 * ms);
    assert_int_equal(donor_speed_rate(&speed, now + 13000 * ms), MIB / 10);
}

static void who_is_not_waited_for_is_slow(void **state)
{
    struct donor_speed speed = { 0 };

    (void)state;
    donor_speed_asked(&speed, MIB, now);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, now + 10 * ms);
    donor_speed_asked(&speed, MIB, now + 10 * ms);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_LEFT, now + 15 * ms); /* That says nothing. */
    assert_int_equal(rate(&speed, now + 15 * ms), 100);
    donor_speed_asked(&speed, MIB, now + 20 * ms);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_FAILED, now + 2020 * ms); /* Nor does this. */
    assert_int_equal(rate(&speed, now + 2020 * ms), 100);
    donor_speed_asked(&speed, MIB, now + 2020 * ms);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_LEFT, now + 3020 * ms);
    assert_int_equal(donor_speed_rate(&speed, now + 3020 * ms), MIB / 2);
    donor_speed_asked(&speed, MIB, now + 3020 * ms); /* He does not become faster by that. */
    donor_speed_ended(&speed, MIB, DONOR_SPEED_LEFT, now + 3050 * ms);
    assert_int_equal(donor_speed_rate(&speed, now + 3050 * ms), MIB / 2);
}

static void and_gets_another_chance(void **state)
{
    struct donor_speed speed = { 0 };
    uint64_t at = now + 1000 * ms;

    (void)state;
    donor_speed_asked(&speed, MIB, now);
    donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, at);
    assert_int_equal(rate(&speed, at + DONOR_SPEED_STALE_NS - 1), 1);
    assert_int_equal(rate(&speed, at + DONOR_SPEED_STALE_NS), 2);
    assert_int_equal(rate(&speed, at + 4 * DONOR_SPEED_STALE_NS), 16);
    assert_int_equal(donor_speed_rate(&speed, at + 64 * DONOR_SPEED_STALE_NS),
                     0); /* All is forgotten. */
    assert_int_equal(donor_speed_rate(&speed, at + 1000 * DONOR_SPEED_STALE_NS), 0);
    at += 4 * DONOR_SPEED_STALE_NS;
    donor_speed_asked(&speed, MIB, at); /* What he does then counts alone. */
    donor_speed_ended(&speed, MIB, DONOR_SPEED_CAME, at + 500 * ms);
    assert_int_equal(rate(&speed, at + 500 * ms), 2);
}

static void the_fastest_of_late_is_known(void **state)
{
    struct donor_speed fast = { .rate = 0 }, slow = { .rate = 0 };
    struct donor_speed_best best = { .rate = 0 };
    uint64_t later = now + 100 * ms + DONOR_SPEED_STALE_NS;

    (void)state;
    donor_speed_asked(&slow, MIB, now);
    donor_speed_asked(&fast, MIB, now);
    donor_speed_ended(&fast, MIB, DONOR_SPEED_CAME, now + 100 * ms);
    donor_speed_best_note(&best, &fast, now + 100 * ms);
    assert_int_equal(best.rate, 10 * MIB);
    donor_speed_ended(&slow, MIB, DONOR_SPEED_CAME, now + 1000 * ms);
    donor_speed_best_note(&best, &slow, now + 1000 * ms);
    assert_int_equal(best.rate, 10 * MIB);
    donor_speed_asked(&slow, MIB, later - 1000 * ms); /* All may have become slow. */
    donor_speed_ended(&slow, MIB, DONOR_SPEED_CAME, later);
    donor_speed_best_note(&best, &slow, later);
    assert_int_equal(best.rate, MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_is_no_slowness),     cmocka_unit_test(pauses_do_not_count),
        cmocka_unit_test(changes_are_followed),          cmocka_unit_test(silence_shows),
        cmocka_unit_test(who_is_not_waited_for_is_slow), cmocka_unit_test(and_gets_another_chance),
        cmocka_unit_test(the_fastest_of_late_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
