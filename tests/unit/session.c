/* Sessions: who is served, open files, expiry and the grace period. */
#include "meta/coherence/session.h"
#include "common/base/status.h"

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
};

static void world_start(struct world *w, bool fresh)
{
    struct session_options options = { SESSION_TEST_MS, w->now_ms, fresh };

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
    struct session_event event = { w->now_ms, type, client, inodes, count, NULL, 0 };

    w->out.count = 0;
    session_step(w->s, &event, &w->out);
}

static void feed(struct world *w, enum session_event_type type, client_id client)
{
    step(w, type, client, NULL, 0);
}

static bool joined(struct world *w, client_id client)
{
    return session_joined(w->s, client, w->now_ms);
}

/* ---- Who is served ---- */

static void a_client_is_served_from_its_first_word_until_its_connection_ends(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    assert_false(joined(w, A));
    feed(w, SESSION_ASK, A);
    assert_int_equal(count_of(w, SESSION_ADMIT, A), 1);
    assert_true(joined(w, A));
    feed(w, SESSION_ASK, B);
    feed(w, SESSION_GONE, A);
    assert_false(joined(w, A));
    assert_true(joined(w, B));
    feed(w, SESSION_ASK, A);
    assert_true(joined(w, A));
    feed(w, SESSION_LEAVE, A);
    assert_int_equal(count_of(w, SESSION_END, A), 1);
    assert_false(joined(w, A));
    world_free(w);
}

/* ---- Open files ---- */

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

static void who_writes_elsewhere_is_known(void **state)
{
    const inode_id inode = 50;
    struct session_event event = { .type = SESSION_OPENED, .client = B };
    struct world *w = world_new(true);
    bool open, write;

    (void)state;
    feed(w, SESSION_ASK, A);
    feed(w, SESSION_ASK, B);
    step(w, SESSION_OPENED, A, &inode, 1);
    session_open_elsewhere(w->s, inode, A, &open, &write);
    assert_false(open || write);
    session_open_elsewhere(w->s, inode, B, &open, &write);
    assert_true(open && !write);
    step(w, SESSION_OPENED, B, &inode, 1);
    event.now_ms = w->now_ms;
    event.write_inodes = &inode;
    event.write_inodes_count = 1;
    session_step(w->s, &event, &w->out); /* Opened for writing too. */
    session_open_elsewhere(w->s, inode, A, &open, &write);
    assert_true(open && write);
    assert_int_equal(session_opens(w->s), 2);
    step(w, SESSION_CLOSED, B, &inode, 1);
    session_open_elsewhere(w->s, inode, A, &open, &write);
    assert_false(open || write);
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
    unsigned ended = 0;

    (void)state;
    for (client_id c = 1; c <= SESSIONS_MAX; c++) {
        feed(w, SESSION_ASK, c);
    }
    feed(w, SESSION_ASK, SESSIONS_MAX + 1);
    assert_int_equal(count_of(w, SESSION_REFUSE, SESSIONS_MAX + 1), 1);
    w->now_ms += 2 * SESSION_TEST_MS;
    while (session_deadline_ms(w->s) <= w->now_ms) { /* A part of them each time. */
        feed(w, SESSION_TICK, 0);
        ended += count_of(w, SESSION_END, 0);
    }
    assert_int_equal(ended, SESSIONS_MAX);
    assert_int_equal(session_count(w->s), 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_is_served_from_its_first_word_until_its_connection_ends),
        cmocka_unit_test(the_last_one_to_close_releases),
        cmocka_unit_test(who_writes_elsewhere_is_known),
        cmocka_unit_test(silence_ends_a_session),
        cmocka_unit_test(during_the_grace_period_everything_counts_as_held),
        cmocka_unit_test(a_new_connection_tells_what_is_open),
        cmocka_unit_test(there_are_only_so_many_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
