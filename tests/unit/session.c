/* Sessions: who is served, open files, expiry and the grace period. */
#include "meta/coherence/session.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    A = 101,
    B = 102,
    C = 103,
    SESSION_TEST_MS = 30000,
    PATIENCE_MS = 2500,
    SETTLE_MS = 1000,
    KEPT_MAX = 8
};

struct world
{
    struct session_table *s;
    struct session_actions out;
    uint64_t now_ms;
    struct session_kept kept[KEPT_MAX]; /* What is written down. */
    uint32_t kept_count;
};

static void world_start(struct world *w, bool fresh)
{
    struct session_options options = { .session_ms = SESSION_TEST_MS,
                                       .now_ms = w->now_ms,
                                       .fresh = fresh,
                                       .patience_ms = PATIENCE_MS,
                                       .settle_ms = SETTLE_MS,
                                       .kept = w->kept,
                                       .kept_count = w->kept_count };

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

/* NULL: it is not written down. */
static struct session_kept *kept_of(struct world *w, client_id client)
{
    for (uint32_t i = 0; i < w->kept_count; i++) {
        if (w->kept[i].client == client) {
            return &w->kept[i];
        }
    }
    return NULL;
}

static void write_down(struct world *w, client_id client, uint32_t waited_ms)
{
    struct session_kept *kept = kept_of(w, client);

    if (kept == NULL) {
        assert_true(w->kept_count < KEPT_MAX);
        kept = &w->kept[w->kept_count++];
    }
    *kept = (struct session_kept){ client, waited_ms };
}

static void strike_out(struct world *w, client_id client)
{
    struct session_kept *kept = kept_of(w, client);

    if (kept != NULL) {
        *kept = w->kept[--w->kept_count];
    }
}

static void write_waiting(struct world *w)
{
    struct session_kept waiting[KEPT_MAX];
    uint32_t count = session_waiting(w->s, w->now_ms, waiting);

    assert_int_equal(count, session_expected(w->s));
    for (uint32_t i = 0; i < count; i++) {
        write_down(w, waiting[i].client, waiting[i].waited_ms);
    }
}

/* As a host does. */
static void perform(struct world *w)
{
    for (uint32_t i = 0; i < w->out.count; i++) {
        const struct session_action *action = &w->out.items[i];

        if (action->type == SESSION_KEEP) {
            write_down(w, action->client, 0);
        } else if (action->type == SESSION_END) {
            strike_out(w, action->client);
        } else if (action->type == SESSION_WAITING) {
            write_waiting(w);
        }
    }
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
    struct session_event event = { w->now_ms, type, client, inodes, count, NULL, 0, false };

    w->out.count = 0;
    session_step(w->s, &event, &w->out);
    if (w->kept_count < KEPT_MAX) {
        perform(w);
    }
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
    client_id writers[2];
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
    assert_int_equal(session_writers(w->s, inode, writers, 2), 1);
    assert_int_equal(writers[0], B);
    assert_int_equal(session_writers(w->s, inode + 1, writers, 2), 0);
    event.client = A;
    session_step(w->s, &event, &w->out);
    assert_int_equal(session_writers(w->s, inode, writers, 2), 2);
    assert_int_equal(writers[0] + writers[1], A + B);
    writers[1] = 0;
    assert_int_equal(session_writers(w->s, inode, writers, 1), 2);
    assert_int_equal(writers[1], 0);
    assert_int_equal(session_opens(w->s), 2);
    step(w, SESSION_CLOSED, B, &inode, 1);
    session_open_elsewhere(w->s, inode, A, &open, &write);
    assert_false(open || write);
    assert_int_equal(session_writers(w->s, inode, writers, 2), 1);
    assert_int_equal(writers[0], A);
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

/* ---- Restarts ---- */

/* The time passes, with all that is due in between. */
static void pass(struct world *w, uint64_t until_ms)
{
    while (session_deadline_ms(w->s) <= until_ms) {
        w->now_ms = session_deadline_ms(w->s) > w->now_ms ? session_deadline_ms(w->s) : w->now_ms;
        feed(w, SESSION_TICK, 0);
    }
    w->now_ms = until_ms;
}

/* The manager is killed, and is back after a while. */
static void restart(struct world *w)
{
    w->now_ms += 700;
    world_start(w, false);
}

static void who_may_have_files_open_is_waited_for(void **state)
{
    const inode_id held = 60;
    struct world *w = world_new(true);

    (void)state;
    assert_false(session_in_grace(w->s));
    feed(w, SESSION_ASK, A);
    assert_int_equal(w->out.items[0].type, SESSION_KEEP); /* Before it is admitted. */
    assert_int_equal(w->out.items[1].type, SESSION_ADMIT);
    feed(w, SESSION_ASK, B);
    feed(w, SESSION_ASK, C);
    feed(w, SESSION_LEAVE, C);
    restart(w);
    assert_int_equal(session_expected(w->s), 2);
    assert_true(session_known(w->s, A) && !session_known(w->s, C));
    assert_false(joined(w, A));
    step(w, SESSION_ASK, A, &held, 1);
    assert_int_equal(count_of(w, SESSION_KEEP, 0), 0); /* It is, and no write is needed. */
    assert_int_equal(count_of(w, SESSION_ADMIT, A), 1);
    pass(w, w->now_ms + 5 * SETTLE_MS);
    (void)joined(w, A);
    assert_true(session_in_grace(w->s) && session_holds(w->s, 50));
    feed(w, SESSION_ASK, B);
    assert_true(session_in_grace(w->s)); /* What it has looked up before it may open now. */
    w->now_ms += SETTLE_MS - 1;
    feed(w, SESSION_TICK, 0);
    assert_true(session_holds(w->s, 50));
    w->now_ms++;
    feed(w, SESSION_TICK, 0);
    assert_int_equal(count_of(w, SESSION_GRACE_OVER, 0), 1);
    assert_false(session_holds(w->s, 50));
    assert_true(session_holds(w->s, held));
    world_free(w);
}

static void a_connection_without_a_word_is_no_return(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    restart(w);
    feed(w, SESSION_GONE, A);
    assert_int_equal(session_expected(w->s), 1);
    pass(w, w->now_ms + SESSION_TEST_MS - 1);
    assert_true(session_holds(w->s, 50));
    world_free(w);
}

static void who_leaves_is_not_waited_for(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    restart(w);
    feed(w, SESSION_LEAVE, A);
    assert_int_equal(session_expected(w->s), 0);
    assert_null(kept_of(w, A));
    pass(w, w->now_ms + SETTLE_MS);
    assert_false(session_holds(w->s, 50));
    world_free(w);
}

static void one_start_waits_for_a_session_time(void **state)
{
    struct world *w = world_new(true);
    uint64_t started_ms;

    (void)state;
    feed(w, SESSION_ASK, A);
    restart(w);
    started_ms = w->now_ms;
    pass(w, started_ms + SESSION_TEST_MS - 1);
    assert_int_equal(session_expected(w->s), 1);
    pass(w, started_ms + SESSION_TEST_MS);
    assert_int_equal(session_expected(w->s), 0);
    assert_null(kept_of(w, A));
    assert_true(session_in_grace(w->s));
    pass(w, started_ms + SESSION_TEST_MS + SETTLE_MS);
    assert_false(session_in_grace(w->s));
    world_free(w);
}

/* A crashed mount, and a manager that is killed every five seconds. */
static void waiting_goes_on_over_restarts(void **state)
{
    const uint64_t life_ms = 5000;
    struct world *w = world_new(true);
    uint64_t served_ms = 0, counted_ms = 0;

    (void)state;
    feed(w, SESSION_ASK, A);
    feed(w, SESSION_ASK, B);
    while (kept_of(w, A) != NULL) {
        restart(w);
        assert_int_equal(session_expected(w->s), 2);
        feed(w, SESSION_ASK, B);
        assert_int_equal(session_expected(w->s), 1);
        pass(w, w->now_ms + life_ms);
        served_ms += life_ms;
        counted_ms += life_ms - PATIENCE_MS;
        assert_true(session_holds(w->s, 50) || kept_of(w, A) == NULL);
        assert_int_equal(kept_of(w, B)->waited_ms, 0);
        assert_true(served_ms < 4 * SESSION_TEST_MS);
    }
    assert_true(counted_ms >= SESSION_TEST_MS); /* Not a moment too early. */
    restart(w);
    feed(w, SESSION_ASK, B);
    pass(w, w->now_ms + SETTLE_MS);
    assert_false(session_holds(w->s, 50));
    world_free(w);
}

static void a_word_strikes_out_how_long_it_was_waited_for(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    feed(w, SESSION_ASK, A);
    restart(w);
    pass(w, w->now_ms + SESSION_TEST_MS - 1);
    assert_true(kept_of(w, A)->waited_ms > SESSION_TEST_MS / 2);
    feed(w, SESSION_ASK, A);
    assert_int_equal(w->out.items[0].type, SESSION_KEEP);
    assert_int_equal(w->out.items[1].type, SESSION_ADMIT);
    assert_int_equal(kept_of(w, A)->waited_ms, 0);
    restart(w);
    pass(w, w->now_ms + SESSION_TEST_MS - 1);
    assert_int_equal(session_expected(w->s), 1);
    world_free(w);
}

/* What is kept on the disk may be damaged, or of a manager with a longer session time. */
static void it_is_waited_for_patiently_whatever_is_written(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    write_down(w, A, UINT32_MAX - 1);
    restart(w);
    pass(w, w->now_ms + PATIENCE_MS - 1);
    assert_int_equal(session_expected(w->s), 1);
    pass(w, w->now_ms + 1);
    assert_int_equal(session_expected(w->s), 0);
    world_free(w);
}

static void who_is_not_written_down_is_not_served(void **state)
{
    struct world *w = world_new(true);
    struct session_event event = { .now_ms = w->now_ms, .type = SESSION_ASK, .client = A };

    (void)state;
    session_step(w->s, &event, &w->out);
    session_not_kept(w->s, A);
    assert_false(joined(w, A));
    w->out.count = 0;
    session_step(w->s, &event, &w->out);
    assert_int_equal(count_of(w, SESSION_KEEP, A), 1);
    assert_true(joined(w, A));
    world_free(w);
}

static void sessions_that_nobody_wrote_down_are_waited_for(void **state)
{
    struct world *w = world_new(true);

    (void)state;
    write_down(w, SESSION_UNTOLD, 0);
    restart(w);
    feed(w, SESSION_ASK, A);
    assert_int_equal(session_count(w->s), 1);
    assert_false(session_known(w->s, SESSION_UNTOLD));
    feed(w, SESSION_GONE, SESSION_UNTOLD); /* Of a stranger without an id. */
    pass(w, w->now_ms + SESSION_TEST_MS - 1);
    (void)joined(w, A);
    assert_true(session_holds(w->s, 50));
    assert_true(kept_of(w, SESSION_UNTOLD)->waited_ms > 0);
    restart(w);
    feed(w, SESSION_ASK, A);
    pass(w, w->now_ms + 2 * PATIENCE_MS + 2 * SESSION_TEST_MS / SESSION_NOTES + SETTLE_MS);
    assert_false(session_holds(w->s, 50));
    assert_null(kept_of(w, SESSION_UNTOLD));
    assert_non_null(kept_of(w, A));
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
    w->kept_count = KEPT_MAX; /* Nothing more is kept of them here. */
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
        cmocka_unit_test(who_may_have_files_open_is_waited_for),
        cmocka_unit_test(a_connection_without_a_word_is_no_return),
        cmocka_unit_test(who_leaves_is_not_waited_for),
        cmocka_unit_test(one_start_waits_for_a_session_time),
        cmocka_unit_test(waiting_goes_on_over_restarts),
        cmocka_unit_test(a_word_strikes_out_how_long_it_was_waited_for),
        cmocka_unit_test(it_is_waited_for_patiently_whatever_is_written),
        cmocka_unit_test(who_is_not_written_down_is_not_served),
        cmocka_unit_test(sessions_that_nobody_wrote_down_are_waited_for),
        cmocka_unit_test(a_new_connection_tells_what_is_open),
        cmocka_unit_test(there_are_only_so_many_sessions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
