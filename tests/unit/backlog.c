/* A client that sends as fast as it is let, and a member that takes in so many bytes a second: what queues up between
 * stays short, and the member is never without work. */
#include "iod/replica/backlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MIB = 1 << 20, STEP_MS = 10, BEGINS_MS = 15000, ENDS_MS = 40000 };

struct link
{
    struct backlog backlog;
    uint64_t now_ms, queued, taken, longest_ms, idle_ms;
};

/* Clients fill what they may have under way at once. */
static void pass(struct link *l, uint64_t bytes_ms, uint64_t clients, uint64_t until_ms)
{
    while (l->now_ms < until_ms) {
        uint64_t lag_ms = l->queued / bytes_ms;
        uint64_t share = backlog_share(&l->backlog, lag_ms, l->now_ms);
        uint64_t most = clients * (share == 0 ? CONN_BUDGET_BYTES : share);
        uint64_t takes = bytes_ms * STEP_MS;

        assert_true(share == 0 || (share >= BACKLOG_SHARE_MIN && share < CONN_BUDGET_BYTES));
        l->longest_ms = lag_ms > l->longest_ms ? lag_ms : l->longest_ms;
        l->queued = l->queued > most ? l->queued : most;
        l->idle_ms += l->queued < takes ? STEP_MS : 0;
        takes = takes < l->queued ? takes : l->queued;
        l->queued -= takes;
        l->taken += takes;
        l->now_ms += STEP_MS;
    }
}

static void queues_get_short_and_the_link_stays_full(void **state)
{
    (void)state;
    for (uint64_t mib_s = 4; mib_s <= 512; mib_s *= 2) {
        struct link l = { .now_ms = 1 };
        uint64_t bytes_ms = mib_s * MIB / 1000;

        pass(&l, bytes_ms, 1, BEGINS_MS);
        l.longest_ms = 0;
        pass(&l, bytes_ms, 1, ENDS_MS);
        assert_true(l.longest_ms <= BACKLOG_LONG_MS + BACKLOG_LONG_MS / 2);
        assert_int_equal(l.idle_ms, 0);
    }
}

static void each_of_many_clients_may_send_something(void **state)
{
    struct link l = { .now_ms = 1 };

    (void)state;
    pass(&l, 8 * MIB / 1000, 100, BEGINS_MS * 10);
    assert_int_equal(l.backlog.share, BACKLOG_SHARE_MIN);
    assert_int_equal(l.idle_ms, 0);
}

static void who_is_not_in_the_way_is_not_bounded(void **state)
{
    struct backlog b = { 0 };

    (void)state;
    for (uint64_t now_ms = 1; now_ms < BEGINS_MS; now_ms += STEP_MS) {
        assert_int_equal(backlog_share(&b, BACKLOG_LONG_MS, now_ms), 0);
    }
}

static void the_bound_goes_when_the_queue_has_gone(void **state)
{
    struct link l = { .now_ms = 1 };

    (void)state;
    pass(&l, 4 * MIB / 1000, 4, BEGINS_MS);
    assert_true(l.backlog.share != 0);
    pass(&l, 1024 * MIB / 1000, 4, BEGINS_MS + 8000);
    assert_int_equal(l.backlog.share, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_get_short_and_the_link_stays_full),
        cmocka_unit_test(each_of_many_clients_may_send_something),
        cmocka_unit_test(who_is_not_in_the_way_is_not_bounded),
        cmocka_unit_test(the_bound_goes_when_the_queue_has_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
