/* Who holds up changes: what each of two members sees of the other one and of itself (replica_slow.c). */
#include "tests/lib/replica_pair.h"

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LIMIT_MS = 700 }; /* Silence is longer. */

static struct pair *new_watchful_pair(void)
{
    struct pair *p = pair_new();

    p->members[0].slow_limit_ms = p->members[1].slow_limit_ms = LIMIT_MS;
    replica_tick(&p->members[0], p->now_ms);
    replica_tick(&p->members[1], p->now_ms);
    pair_drain(p);
    return p;
}

/* So long both are awake. */
static void pass(struct pair *p, uint64_t ms)
{
    for (uint64_t end_ms = p->now_ms + ms; p->now_ms < end_ms;) {
        p->now_ms += 20;
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if (p->now_ms >= replica_deadline_ms(&p->members[i])) {
                replica_tick(&p->members[i], p->now_ms);
            }
        }
        pair_drain(p);
    }
}

static void who_does_not_have_what_another_one_has_is_slow(void **state)
{
    struct pair *p = new_watchful_pair();

    (void)state;
    pair_ask(p, 1, 101);
    pass(p, 3 * LIMIT_MS / 4); /* Nobody has it yet, and nothing is ours alone so far. */
    pair_noted(p, 0);
    pair_applied(p, 0);
    pass(p, LIMIT_MS);
    assert_int_equal(p->members[0].group.slow, 0);
    pass(p, 2 * REPLICA_LOOK_MS);
    assert_int_equal(p->members[0].group.slow, 2);
    assert_int_equal(pair_pop(p, 0, REPLICA_VOTE).set, 1);
    pair_deliver(p, REPLICA_FORWARD, 201);
    pair_noted(p, 1);
    pair_applied(p, 1);
    (void)pair_pop(p, 1, REPLICA_RELEASE);
    pair_deliver(p, REPLICA_ACK, 0);
    (void)pair_pop(p, 0, REPLICA_ANSWER);
    pass(p, 2 * REPLICA_LOOK_MS);
    assert_int_equal(p->members[0].group.slow, 0);
    (void)pair_pop(p, 0, REPLICA_STOP_VOTE);
    pair_free(p);
}

static void who_orders_knows_that_it_is_slow_itself(void **state)
{
    struct pair *p = new_watchful_pair();

    (void)state;
    pair_ask(p, 1, 101);
    pass(p, LIMIT_MS + 2 * REPLICA_LOOK_MS); /* Its own note does not come back. */
    assert_int_equal(p->members[0].group.slow, 1);
    (void)pair_pop(p, 0, REPLICA_NOTE);
    assert_int_equal(pair_pop(p, 1, REPLICA_VOTE).set, 2);
    replica_noted(&p->members[0]);
    pair_drain(p);
    pair_applied(
        p, 0); /* The other one is late by now; but who was slow a moment ago judges nobody. */
    pass(p, LIMIT_MS / 2);
    assert_int_equal(p->members[0].group.slow, 0);
    pair_free(p);
}

static void a_sync_that_one_does_not_do_shows_it(void **state)
{
    struct pair *p = new_watchful_pair();

    (void)state;
    pair_write_everywhere(p, 1, true);
    assert_int_equal(replica_sync(&p->members[0], (struct object_id){ 5, 0 }, 9), ORDER_YES);
    pair_drain(p);
    replica_synced(&p->members[0], pair_pop(p, 0, REPLICA_SYNC_HERE).id, p->now_ms);
    pair_drain(p);
    pass(p, LIMIT_MS + 2 * REPLICA_LOOK_MS);
    assert_int_equal(p->members[0].group.slow, 2);
    pair_free(p);
}

/* A sync of everything may take longer. */
static void what_moves_much_may_take_longer(void **state)
{
    struct pair *p = new_watchful_pair();

    (void)state;
    pair_write_everywhere(p, 1, true);
    replica_flush(&p->members[0]);
    pair_drain(p);
    pass(p, (SLOW_BULK - 1) * LIMIT_MS);
    assert_int_equal(p->members[0].group.slow, 0);
    pass(p, LIMIT_MS + 2 * REPLICA_LOOK_MS);
    assert_int_equal(p->members[0].group.slow, 1);
    pair_free(p);
}

static void carried_out(struct pair *p, uint32_t i)
{
    if (p->shown[i].items[0].type == REPLICA_NOTE) {
        pair_noted(p, i);
    }
    pair_applied(p, i);
}

/* Changes of a MiB each, or that cut it off, are carried out by both. */
static void change_much(struct pair *p, uint32_t count, bool bare)
{
    const uint64_t piece = 1 << 20;

    for (op_sequence n = 1; n <= count; n++) {
        struct order_change change = { .op = { 1, n }, .object = { 5, 0 }, .generation = 1 };

        change.span = (struct span){ n * piece, bare ? OBJECT_BYTES_MAX : (n + 1) * piece };
        change.bare = bare;
        change.not_after_ms = LATE_MS;
        change.verifier = 1;
        assert_int_equal(replica_change(&p->members[0], &change, n), ORDER_YES);
        pair_drain(p);
        carried_out(p, 0);
        pair_deliver(p, REPLICA_FORWARD, 200 + n);
        carried_out(p, 1);
        (void)pair_pop(p, 1, REPLICA_RELEASE);
        pair_deliver(p, REPLICA_ACK, 0);
        (void)pair_pop(p, 0, REPLICA_ANSWER);
    }
}

/* What is not synced excuses who has to move it. What cuts or punches brings no bytes: a disk that hangs behind any number
 * of these is seen as soon as another one. */
static void only_bytes_are_an_excuse(void **state)
{
    const uint32_t count = 32;
    const uint64_t more_ms = ((uint64_t)count << 20) / SLOW_BYTES_MS;

    (void)state;
    assert_true(more_ms > 3 * REPLICA_LOOK_MS);
    for (unsigned bare = 0; bare <= 1; bare++) {
        struct pair *p = new_watchful_pair();

        change_much(p, count, bare == 1);
        pair_ask(p, count + 1, 101); /* It does not come to its end. */
        pass(p, LIMIT_MS + 2 * REPLICA_LOOK_MS);
        assert_int_equal(p->members[0].group.slow, bare);
        pass(p, more_ms);
        assert_int_equal(p->members[0].group.slow, 1);
        pair_free(p);
    }
}

/* Bytes before it excuse a change, as long as they come through. */
static void a_queue_that_moves_is_no_slowness(void **state)
{
    const uint64_t piece = 1 << 20, later_ms = piece / SLOW_QUEUE_BYTES_MS;
    struct pair *p = new_watchful_pair();

    (void)state;
    for (op_sequence n = 1; n <= 2; n++) {
        struct order_change change = { .op = { 1, n }, .object = { 5, 0 }, .generation = 1 };

        change.span = (struct span){ n * piece, (n + 1) * piece };
        change.not_after_ms = LATE_MS;
        change.verifier = 1;
        assert_int_equal(replica_change(&p->members[0], &change, n), ORDER_YES);
    }
    pair_drain(p);
    pair_noted(p, 0);
    pair_applied(p, 0);
    pair_applied(p, 0);
    pass(p, LIMIT_MS - 100);
    pair_deliver(p, REPLICA_FORWARD, 201);
    pair_noted(p, 1);
    pair_applied(p, 1);
    (void)pair_fetch_mail(p, REPLICA_FORWARD); /* The second one is on its way for longer. */
    pair_deliver(p, REPLICA_ACK, 0);
    pass(p, later_ms);
    assert_int_equal(p->members[0].group.slow, 0);
    pass(p, LIMIT_MS);
    assert_int_equal(p->members[0].group.slow, 2);
    pair_free(p);
}

/* Who was stopped has seen nothing of the time meanwhile. */
static void a_stopped_process_finds_nobody_slow(void **state)
{
    struct pair *p = new_watchful_pair();

    (void)state;
    pair_ask(p, 1, 101);
    pass(p, 100);
    p->now_ms += 100000;
    pass(p, 20);
    assert_int_equal(p->members[0].group.slow, 0);
    pair_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_have_what_another_one_has_is_slow),
        cmocka_unit_test(who_orders_knows_that_it_is_slow_itself),
        cmocka_unit_test(a_sync_that_one_does_not_do_shows_it),
        cmocka_unit_test(what_moves_much_may_take_longer),
        cmocka_unit_test(only_bytes_are_an_excuse),
        cmocka_unit_test(a_queue_that_moves_is_no_slowness),
        cmocka_unit_test(a_stopped_process_finds_nobody_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
