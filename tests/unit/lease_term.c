/* The lease period is the manager's to choose: a lease epoch keeps the one that its client was told. */
#include "meta/coherence/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { A = 101, B = 102, C = 103, FILE_1 = 11, SHORT_MS = 700, LONG_MS = 20000 };

/* The disk is quick. */
static void feed(struct lease_table *t, struct lease_event event)
{
    struct lease_actions out;

    lease_actions_init(&out);
    lease_step(t, &event, &out);
    for (size_t i = 0; i < out.count; i++) {
        struct lease_event next = { .now_ms = event.now_ms,
                                    .client = out.items[i].client,
                                    .lease_epoch = out.items[i].lease_epoch };

        if (out.items[i].type == LEASE_PERSIST || out.items[i].type == LEASE_FORGET) {
            next.type = out.items[i].type == LEASE_PERSIST ? LEASE_PERSISTED : LEASE_FORGOTTEN;
            feed(t, next);
        }
    }
    lease_actions_free(&out);
}

static void join(struct lease_table *t, uint64_t now_ms, client_id client, uint64_t lease_epoch)
{
    struct lease_held held = { FILE_1, LEASE_W };

    feed(t, (struct lease_event){ .now_ms = now_ms,
                                  .type = LEASE_JOIN,
                                  .client = client,
                                  .lease_epoch = lease_epoch,
                                  .number = now_ms,
                                  .caches = true,
                                  .held = &held,
                                  .held_count = lease_epoch != 0 });
}

/* The manager is started with a shorter lease period than before: who holds under an old lease epoch counts with
 * the old one. */
static void a_lease_epoch_keeps_its_lease_period(void **state)
{
    const struct lease_epoch_kept expected[] = { { 71, LONG_MS }, { 72, 8000 } };
    struct lease_options options = { 1000, SHORT_MS, expected, 2, 5000 };
    struct lease_table *t = lease_table_new(&options);

    (void)state;
    assert_non_null(t);
    assert_int_equal(lease_deadline_ms(t), 1000 + LONG_MS);
    join(t, 1000, A, 71);
    assert_int_equal(lease_period_ms(t, A), LONG_MS);
    join(t, 1000, C, 0);
    assert_int_equal(lease_period_ms(t, C), SHORT_MS);
    assert_int_equal(lease_period_ms(t, B), SHORT_MS); /* It would be told that. */
    feed(t, (struct lease_event){ .now_ms = 1000 + SHORT_MS, .type = LEASE_TICK });
    assert_false(lease_heard(t, C, 1000 + SHORT_MS));
    feed(t, (struct lease_event){ .now_ms = 1000 + LONG_MS - 1, .type = LEASE_TICK });
    assert_int_equal(lease_held_by(t, A, FILE_1), LEASE_W);
    feed(t, (struct lease_event){ .now_ms = 1000 + LONG_MS, .type = LEASE_TICK });
    assert_int_equal(lease_held_by(t, A, FILE_1), LEASE_NONE);
    join(t, 1000 + LONG_MS, A, 71);
    assert_int_equal(lease_period_ms(t, A), SHORT_MS);
    lease_table_free(t);
}

/* Who does not answer a recall is fenced after a lease period, and free after another one at the latest. */
static void a_short_lease_period_is_a_short_wait(void **state)
{
    struct lease_options options = { 1000, SHORT_MS, NULL, 0, 5000 };
    struct lease_table *t = lease_table_new(&options);
    struct lease_touch touch = { FILE_1, ACCESS_CHANGE };
    struct lease_actions out;
    uint64_t ticket;

    (void)state;
    assert_non_null(t);
    join(t, 1000, A, 0);
    assert_int_equal(lease_grant(t, 1000, A, FILE_1, LEASE_W, true, false, false), LEASE_W);
    lease_actions_init(&out);
    assert_int_equal(lease_acquire(t, 1000, B, &touch, 1, &ticket, &out), LEASE_WAIT);
    assert_true(lease_heard(t, A, 1000 + SHORT_MS - 1));
    feed(t, (struct lease_event){ .now_ms = 1000 + SHORT_MS, .type = LEASE_TICK });
    assert_true(lease_is_fenced(t, A));
    feed(t, (struct lease_event){ .now_ms = 1000 + 2 * SHORT_MS - 1, .type = LEASE_TICK });
    assert_int_equal(lease_held_by(t, A, FILE_1), LEASE_NONE);
    lease_actions_free(&out);
    lease_table_free(t);
}

static void the_margin_and_the_renewals_keep_their_proportion(void **state)
{
    (void)state;
    assert_int_equal(lease_margin_ms(LEASE_MS), LEASE_MARGIN_MS);
    assert_int_equal(lease_renew_ms(LEASE_MS), LEASE_RENEW_MS);
    for (uint32_t lease_period_ms = LEASE_MS_MIN; lease_period_ms <= LEASE_MS_MAX;
         lease_period_ms += 100) {
        assert_true(lease_margin_ms(lease_period_ms) * 10 >= lease_period_ms - 9);
        assert_true(lease_renew_ms(lease_period_ms) * 3 <= lease_period_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_epoch_keeps_its_lease_period),
        cmocka_unit_test(a_short_lease_period_is_a_short_wait),
        cmocka_unit_test(the_margin_and_the_renewals_keep_their_proportion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
