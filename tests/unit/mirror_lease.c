/* Mirror leases: from when to when each side counts them, and what an answer leaves out. */
#include "iod/replica/mirror_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { GROUP = 7, OTHER = 8, START = 4 };

static const struct mirror_exceptions none = { .count = 0 };

static void it_is_held_from_the_question_on(void **state)
{
    struct mirror_lease l;

    (void)state;
    mirror_lease_init(&l, START, 1000);
    assert_int_equal(mirror_lease_deadline_ms(&l), 1000);
    assert_false(mirror_lease_held(&l, GROUP, 0, 1000));
    mirror_lease_ask(&l, 1000);
    assert_int_equal(mirror_lease_deadline_ms(&l), 1000 + MIRROR_LEASE_RENEW_MS);
    mirror_lease_granted(&l, START, 1000, &none, 1900);
    assert_true(mirror_lease_held(&l, GROUP, 0, 1900));
    assert_true(mirror_lease_held(&l, GROUP, 1000, 999 + MIRROR_LEASE_MS));
    assert_false(mirror_lease_held(&l, GROUP, 0, 1000 + MIRROR_LEASE_MS));
    assert_false(mirror_lease_held(&l, GROUP, 1001, 1900)); /* Asked for too early. */
}

static void an_answer_to_something_else_counts_for_nothing(void **state)
{
    struct mirror_lease l;
    struct mirror_exceptions many = { .count = MIRROR_LEASE_EXCEPTIONS_MAX + 1 };

    (void)state;
    mirror_lease_init(&l, START, 1000);
    mirror_lease_granted(&l, START - 1, 1000, &none, 1100);
    mirror_lease_granted(&l, START, 1200, &none, 1100);
    mirror_lease_granted(&l, START, 1000, &many, 1100);
    assert_false(mirror_lease_held(&l, GROUP, 0, 1100));
    mirror_lease_granted(&l, START, 1090, &none, 1100);
    mirror_lease_granted(&l, START, 1000, &none, 1100);
    assert_true(mirror_lease_held(&l, GROUP, 1090, 1100));
}

static void what_is_left_out_is_not_held(void **state)
{
    struct mirror_lease l;
    struct mirror_exceptions some = { .count = 0 };

    (void)state;
    mirror_lease_init(&l, START, 1000);
    mirror_exceptions_add(&some, GROUP);
    mirror_lease_granted(&l, START, 1000, &some, 1000);
    assert_false(mirror_lease_held(&l, GROUP, 0, 1000));
    assert_true(mirror_lease_held(&l, OTHER, 0, 1000));
    for (group_id id = 100; id < 100 + MIRROR_LEASE_EXCEPTIONS_MAX; id++) {
        mirror_exceptions_add(&some, id);
    }
    mirror_lease_granted(&l, START, 1001, &some, 1001);
    assert_false(mirror_lease_held(&l, OTHER, 0, 1001));
    mirror_lease_granted(&l, START, 1002, &none, 1002);
    assert_true(mirror_lease_held(&l, GROUP, 0, 1002));
}

/* Who starts may have granted everything a moment ago. Clocks may differ by a tenth. */
static void who_grants_counts_longer(void **state)
{
    struct mirror_lease l;

    (void)state;
    mirror_lease_init(&l, START, 1000);
    assert_int_equal(l.granted_until_ms, 1000 + MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS);
    mirror_lease_grant(&l, 5000);
    assert_int_equal(l.granted_until_ms, 5000 + MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS);
    assert_true((uint64_t)MIRROR_LEASE_MS * 1045 <
                (MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS) * 955U + 10000);
    mirror_lease_void(&l);
    assert_int_equal(l.granted_until_ms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_held_from_the_question_on),
        cmocka_unit_test(an_answer_to_something_else_counts_for_nothing),
        cmocka_unit_test(what_is_left_out_is_not_held),
        cmocka_unit_test(who_grants_counts_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
