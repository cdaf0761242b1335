/* When a benefactor was caught too often. */
#include "meta/cluster/blame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { HOUR_MS = 3600000 };

static void test_lies(void **state)
{
    struct donor_blame b = { .lied = 0 };

    (void)state;
    assert_false(blame_note(&b, BLAME_LIED, 1000));
    assert_false(blame_note(&b, BLAME_LIED, 1000));
    assert_int_equal(b.distrusted, BLAME_NONE);
    assert_true(blame_note(&b, BLAME_LIED, 2000));
    assert_int_equal(b.distrusted, BLAME_LIED);
    assert_int_equal(b.since_ms, 2000);
    assert_int_equal(b.lied, 3);
    assert_false(blame_note(&b, BLAME_LIED, 3000)); /* That is known already. */
    assert_int_equal(b.since_ms, 2000);
    blame_forgive(&b);
    assert_int_equal(b.distrusted, BLAME_NONE);
    assert_false(blame_note(&b, BLAME_LIED, 4000));
}

/* A machine that has lost its power once is no bad machine, however much was damaged. */
static void test_one_incident(void **state)
{
    struct donor_blame b = { .lied = 0 };

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_false(blame_note(&b, BLAME_DAMAGED, 5000 + i * (HOUR_MS - 1) / 1000));
    }
    assert_int_equal(b.damaged, 1000);
    assert_false(blame_note(&b, BLAME_DAMAGED, 5000 + HOUR_MS));              /* The second one, */
    assert_true(blame_note(&b, BLAME_DAMAGED, 5000 + 3 * (uint64_t)HOUR_MS)); /* and the third. */
    assert_int_equal(b.distrusted, BLAME_DAMAGED);
}

/* Seldom enough, it may go on for ever. */
static void test_seldom(void **state)
{
    struct donor_blame b = { .lied = 0 };
    uint64_t now_ms = 1;

    (void)state;
    for (int i = 0; i < 100; i++) {
        now_ms += BLAME_WITHIN_MS / 2 + 1;
        assert_false(blame_note(&b, BLAME_DAMAGED, now_ms));
        assert_false(blame_note(&b, BLAME_LIED, now_ms));
    }
    assert_true(blame_note(&b, BLAME_DAMAGED, now_ms + HOUR_MS)); /* That was three in a week. */
}

/* Both kinds beside each other do not add up. */
static void test_kinds(void **state)
{
    struct donor_blame b = { .lied = 0 };

    (void)state;
    assert_false(blame_note(&b, BLAME_LIED, 1));
    assert_false(blame_note(&b, BLAME_DAMAGED, 1));
    assert_false(blame_note(&b, BLAME_LIED, 1 + HOUR_MS));
    assert_false(blame_note(&b, BLAME_DAMAGED, 1 + HOUR_MS));
    assert_true(blame_note(&b, BLAME_DAMAGED, 1 + 2 * (uint64_t)HOUR_MS));
    assert_int_equal(b.distrusted, BLAME_DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_one_incident),
        cmocka_unit_test(test_seldom),
        cmocka_unit_test(test_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
