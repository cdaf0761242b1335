/* The client's half of the lease protocol, in doubt about what the manager thinks that it holds:
 * a JOIN that was sent before does not speak of what came into doubt since. */
#include "client/coherence/lease_holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* JOINs that it asks for now. */
static unsigned joins(struct lease_holder *h, enum lease_holder_event_type type)
{
    struct lease_holder_event event = {
        .type = type, .join = true, .lease_epoch = 7, .lease_ms = LEASE_MS
    };
    struct lease_holder_actions out = { .count = 0 };
    unsigned count = 0;

    lease_holder_step(h, &event, &out);
    lease_holder_check(h);
    for (uint32_t i = 0; i < out.count; i++) {
        count += out.items[i].type == HOLDER_JOIN;
    }
    return count;
}

static void a_doubt_outlives_the_join_under_way(void **state)
{
    struct lease_holder h;

    (void)state;
    lease_holder_init(&h);
    assert_int_equal(joins(&h, HOLDER_IN_DOUBT), 1);
    assert_int_equal(joins(&h, HOLDER_ASKED), 0);
    assert_int_equal(joins(&h, HOLDER_IN_DOUBT), 0); /* One at a time. */
    assert_int_equal(joins(&h, HOLDER_IN_DOUBT), 0);
    assert_int_equal(joins(&h, HOLDER_SESSION_ANSWERED), 0); /* What is lost is still named. */
    assert_int_equal(joins(&h, HOLDER_LOSSES_TAKEN), 1);
    assert_int_equal(joins(&h, HOLDER_ASKED), 0);
    assert_int_equal(joins(&h, HOLDER_SESSION_ANSWERED), 0);
    assert_int_equal(joins(&h, HOLDER_LOSSES_TAKEN), 0);
    assert_true(lease_holder_is_joined(&h));
}

static void one_that_fails_is_followed_once(void **state)
{
    struct lease_holder h;

    (void)state;
    lease_holder_init(&h);
    assert_int_equal(joins(&h, HOLDER_IN_DOUBT), 1);
    assert_int_equal(joins(&h, HOLDER_ASKED), 0);
    assert_int_equal(joins(&h, HOLDER_IN_DOUBT), 0);
    assert_int_equal(joins(&h, HOLDER_SESSION_FAILED), 1);
    assert_int_equal(joins(&h, HOLDER_ASKED), 0);
    assert_int_equal(joins(&h, HOLDER_SESSION_FAILED), 0); /* The tick asks again, in time. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_doubt_outlives_the_join_under_way),
        cmocka_unit_test(one_that_fails_is_followed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
