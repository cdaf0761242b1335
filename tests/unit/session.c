/* Sessions: the sole-client rule above all, then open files, expiry and the grace period. */
#include "meta/session.h"
#include "common/prng.h"
#include "common/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A = 101, B = 102, C = 103, SESSION_TEST_MS = 30000 };

struct world
{
    struct session_table *s;
    struct session_actions out;
    uint64_t now_ms;
    client_id grantee; /* What is durable. */
};

static void world_start(struct world *w, bool fresh)
{
    struct session_options options = { SESSION_TEST_MS, w->now_ms, fresh, w->grantee };

    session_table_free(w->s);
    w->s = session_table_new(&options);
    assert_non_null(w->s);
}

static struct world *world_new(bool fresh)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->now_ms = 5000;
    world_start(w, fresh);
    return w;
}

static void world_free(struct world *w)
{
    session_table_free(w->s);
    free(w);
}

/* The number of actions of this type in the last step, for this client (0: any). */
static uint32_t count_of(const struct world *w, int type, client_id client)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < w->out.count; i++) {
        count +=
            (int)w->out.items[i].type == type && (client == 0 || w->out.items[i].client == client);
    }
    return count;
}

static void step(struct world *w, enum session_event_type type, client_id client,
                 const inode_id *inodes, size_t count)
{
    struct session_event event = { w->now_ms, type, client, inodes, count };

    w->out.count = 0;
    session_step(w->s, &event, &w->out);
}

/* Makes durable what is asked for. */
static void feed(struct world *w, enum session_event_type type, client_id client)
{
    step(w, type, client, NULL, 0);
    for (uint32_t i = 0; i < w->out.count; i++) {
        if (w->out.items[i].type == SESSION_PERSIST_GRANTEE) {
            struct session_event event = { .now_ms = w->now_ms, .type = SESSION_PERSISTED };
            struct session_actions none = { .count = 0 };

            w->grantee = event.client = w->out.items[i].client;
            session_step(w->s, &event, &none);
            assert_int_equal(none.count, 0);
        }
    }
}

static bool joined(struct world *w, client_id client)
{
    return session_joined(w->s, client, w->now_ms);
}

static uint32_t cache(struct world *w, client_id client)
{
    return session_cache_ms(w->s, client, w->now_ms);
}

/* ---- The sole-client rule ----------------------------------------------------------------- */

static void the_only_client_may_cache_once_that_is_durable(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    step(w, SESSION_ASK, A, NULL, 0);
    assert_int_equal(count_of(w, SESSION_ADMIT, A), 1);
    assert_int_equal(count_of(w, SESSION_PERSIST_GRANTEE, A), 1);
    assert_int_equal(cache(w, A), 0);
    step(w, SESSION_PERSISTED, A, NULL, 0);
    assert_int_equal(cache(w, A), SESSION_CACHE_MS);
    assert_int_equal(cache(w, B), 0);
    world_free(w);
}

static void a_second_client_waits_until_the_first_has_forgotten(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    w->now_ms = 10000;
    assert_int_equal(cache(w, A), SESSION_CACHE_MS);
    w->now_ms = 10400;
    feed(w, SESSION_ASK, B);
    assert_int_equal(count_of(w, SESSION_ADMIT, 0), 0);
    assert_true(session_joining(w->s, B));
    assert_false(joined(w, B));
    assert_int_equal(cache(w, A), 0);
    assert_int_equal(session_deadline_ms(w->s), 10000 + SESSION_CACHE_MS + SESSION_MARGIN_MS);
    w->now_ms = session_deadline_ms(w->s) - 1;
    feed(w, SESSION_TICK, 0);
    assert_false(joined(w, B));
    w->now_ms++;
    feed(w, SESSION_TICK, 0);
    assert_int_equal(count_of(w, SESSION_ADMIT, B), 1);
    assert_true(joined(w, B));
    assert_int_equal(cache(w, A), 0);
    assert_int_equal(cache(w, B), 0);
    world_free(w);
}

static void a_second_client_is_not_kept_waiting_for_nothing(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    (void)cache(w, A);
    w->now_ms += SESSION_CACHE_MS + SESSION_MARGIN_MS;
    feed(w, SESSION_ASK, B);
    assert_int_equal(count_of(w, SESSION_ADMIT, B), 1);
    world_free(w);
}

static void the_one_that_is_left_may_cache_again(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    w->now_ms += 5000;
    feed(w, SESSION_ASK, B);
    assert_int_equal(cache(w, B), 0);
    feed(w, SESSION_LEAVE, A);
    assert_int_equal(cache(w, B), SESSION_CACHE_MS);
    assert_int_equal(w->grantee, B);
    world_free(w);
}

static void a_client_without_connection_does_not_count_but_waits_when_it_returns(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    w->now_ms += 5000;
    feed(w, SESSION_ASK, B);
    feed(w, SESSION_GONE, A);
    assert_false(joined(w, A));
    assert_int_equal(cache(w, B), SESSION_CACHE_MS);
    feed(w, SESSION_ASK, A);
    assert_int_equal(count_of(w, SESSION_ADMIT, 0), 0);
    assert_int_equal(cache(w, B), 0);
    world_free(w);
}

static void after_a_restart_only_the_grantee_is_admitted_at_once(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    (void)cache(w, A);
    world_start(w, false);
    feed(w, SESSION_ASK, B);
    assert_int_equal(count_of(w, SESSION_ADMIT, 0), 0);
    feed(w, SESSION_ASK, A);
    assert_int_equal(count_of(w, SESSION_ADMIT, A), 1);
    assert_int_equal(cache(w, A), 0);
    w->now_ms += SESSION_CACHE_MS + SESSION_MARGIN_MS;
    feed(w, SESSION_TICK, 0);
    assert_int_equal(count_of(w, SESSION_ADMIT, B), 1);
    world_free(w);
}

static void after_a_restart_nobody_waits_when_several_were_there(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    (void)cache(w, A);
    w->now_ms += 5000;
    feed(w, SESSION_ASK, B);
    assert_int_equal(w->grantee, 0);
    world_start(w, false);
    feed(w, SESSION_ASK, B);
    assert_int_equal(count_of(w, SESSION_ADMIT, B), 1);
    feed(w, SESSION_ASK, A);
    assert_int_equal(cache(w, B), 0);
    world_free(w);
}

/* Clients come, go, are served and cache; the manager restarts. Whoever is served while another one
 * still relies on leave that it was given has broken the rule. */
static void random_lives_never_break_the_rule(void **state)
{
    enum { CLIENTS = 4, STEPS = 4000, SEEDS = 30 };
    uint64_t served = 0, cached = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct prng prng = { seed };
        struct world *w = world_new(true);
        uint64_t relies_until_ms[CLIENTS] = { 0 };

        for (int i = 0; i < STEPS; i++) {
            uint32_t c = (uint32_t)prng_below(&prng, CLIENTS);
            uint64_t what = prng_below(&prng, 100);

            w->now_ms += prng_below(&prng, 4) == 0 ? prng_below(&prng, 400) : 0;
            if (what < 4) {
                feed(w, SESSION_ASK, A + c);
            } else if (what < 7) {
                feed(w, prng_below(&prng, 2) ? SESSION_LEAVE : SESSION_GONE, A + c);
            } else if (what < 17) {
                feed(w, SESSION_TICK, 0);
            } else if (what == 17 && prng_below(&prng, 4) == 0) {
                world_start(w, false);
            } else if (joined(w, A + c)) {
                for (uint32_t other = 0; other < CLIENTS; other++) {
                    assert_true(other == c || relies_until_ms[other] <= w->now_ms);
                }
                served++;
                if (cache(w, A + c) > 0) {
                    relies_until_ms[c] = w->now_ms + SESSION_CACHE_MS;
                    cached++;
                }
            }
        }
        world_free(w);
    }
    assert_true(served > 10000 && cached > 1000); /* The test tests something. */
}

/* ---- Open files --------------------------------------------------------------------------- */

static void the_last_one_to_close_releases(void **state)
{
    const inode_id inode = 50;
    struct world *w = world_new(true);
    inode_id released;

    (void)state;
    feed(w, SESSION_ASK, A);
    w->now_ms += 5000;
    feed(w, SESSION_ASK, B);
    step(w, SESSION_OPENED, A, &inode, 1);
    step(w, SESSION_OPENED, A, &inode, 1);
    step(w, SESSION_OPENED, B, &inode, 1);
    assert_int_equal(session_opens(w->s), 2);
    step(w, SESSION_CLOSED, A, &inode, 1);
    assert_false(session_pop_released(w->s, &released));
    assert_true(session_holds(w->s, inode));
    feed(w, SESSION_LEAVE, B);
    assert_true(session_pop_released(w->s, &released));
    assert_int_equal(released, inode);
    assert_false(session_holds(w->s, inode));
    world_free(w);
}

static void silence_ends_a_session(void **state)
{
    const inode_id inode = 50;
    struct world *w = world_new(true);
    inode_id released;

    (void)state;
    feed(w, SESSION_ASK, A);
    step(w, SESSION_OPENED, A, &inode, 1);
    w->now_ms += SESSION_TEST_MS - 1;
    assert_true(joined(w, A)); /* A word. */
    w->now_ms += SESSION_TEST_MS - 1;
    feed(w, SESSION_TICK, 0);
    assert_int_equal(session_count(w->s), 1);
    w->now_ms = session_deadline_ms(w->s);
    feed(w, SESSION_TICK, 0);
    assert_int_equal(count_of(w, SESSION_END, A), 1);
    assert_int_equal(session_count(w->s), 0);
    assert_true(session_pop_released(w->s, &released));
    world_free(w);
}

static void during_the_grace_period_everything_counts_as_held(void **state)
{
    const inode_id held = 60;
    struct world *w = world_new(false);

    (void)state;
    assert_true(session_in_grace(w->s));
    assert_true(session_holds(w->s, 50));
    step(w, SESSION_ASK, A, &held, 1);
    w->now_ms += SESSION_TEST_MS - 1;
    (void)joined(w, A);
    w->now_ms++;
    feed(w, SESSION_TICK, 0);
    assert_int_equal(count_of(w, SESSION_GRACE_OVER, 0), 1);
    assert_false(session_holds(w->s, 50));
    assert_true(session_holds(w->s, held));
    world_free(w);
}

static void a_new_connection_tells_what_is_open(void **state)
{
    const inode_id before[] = { 1, 2, 3 }, after[] = { 2 };
    struct world *w = world_new(true);

    (void)state;
    step(w, SESSION_ASK, A, before, 3);
    step(w, SESSION_ASK, A, after, 1); /* The same connection: a list may lag behind. */
    assert_int_equal(session_opens(w->s), 3);
    feed(w, SESSION_GONE, A);
    step(w, SESSION_ASK, A, after, 1);
    assert_int_equal(session_opens(w->s), 1);
    assert_true(session_holds(w->s, 2));
    assert_false(session_holds(w->s, 3));
    world_free(w);
}

static void there_are_only_so_many_sessions(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    for (client_id c = 1; c <= SESSIONS_MAX; c++) {
        feed(w, SESSION_ASK, c);
    }
    feed(w, SESSION_ASK, 9999);
    assert_int_equal(count_of(w, SESSION_REFUSE, 9999), 1);
    w->now_ms += 2 * SESSION_TEST_MS;
    feed(w, SESSION_TICK, 0);
    assert_int_equal(count_of(w, SESSION_END, 0), SESSIONS_MAX);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_client_may_cache_once_that_is_durable),
        cmocka_unit_test(a_second_client_waits_until_the_first_has_forgotten),
        cmocka_unit_test(a_second_client_is_not_kept_waiting_for_nothing),
        cmocka_unit_test(the_one_that_is_left_may_cache_again),
        cmocka_unit_test(a_client_without_connection_does_not_count_but_waits_when_it_returns),
        cmocka_unit_test(after_a_restart_only_the_grantee_is_admitted_at_once),
        cmocka_unit_test(after_a_restart_nobody_waits_when_several_were_there),
        cmocka_unit_test(random_lives_never_break_the_rule),
        cmocka_unit_test(the_last_one_to_close_releases),
        cmocka_unit_test(silence_ends_a_session),
        cmocka_unit_test(during_the_grace_period_everything_counts_as_held),
        cmocka_unit_test(a_new_connection_tells_what_is_open),
        cmocka_unit_test(there_are_only_so_many_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
