/* Calls to a group of servers, which the test plays, on one loop: who is asked, how often, with which
 * bytes, and how a call ends when nobody answers. */
#include "client/coherence/lease_uv.h"
#include "common/base/status.h"
#include "data.pb-c.h"
#include "replica.pb-c.h"
#include "tests/lib/group_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tests ---- */

static void numbers_grow_and_say_what_has_ended(void **state)
{
    struct fixture *f = *state;
    static struct call reads;

    assert_int_equal(group_bench_change(f, 1), 0);
    assert_false(group_note_verifier(f->group, 55)); /* The first one is no news. */
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_true(group_note_verifier(f->group, 56));
    assert_false(group_note_verifier(f->group, 56));
    assert_false(group_note_verifier(f->group, 55)); /* An old answer. */
    assert_int_equal(group_bench_change(f, 3), 0);
    group_bench_start(f, &reads, false, CALL_MS, 4);
    run_until(f, &f->ended, 4);
    assert_int_equal(f->members[0].count, 4);
    assert_int_equal(f->members[1].count, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(f->members[0].seen[i].number, i + 1);
        assert_int_equal(f->members[0].seen[i].ended, i);
        assert_int_equal(f->members[0].seen[i].first, i + 1);
        assert_true(f->members[0].seen[i].not_after != 0);
    }
    assert_int_equal(f->members[0].seen[0].verifier, 0);
    assert_int_equal(f->members[0].seen[1].verifier, 55);
    assert_int_equal(f->members[0].seen[2].verifier, 56);
    assert_int_equal(f->members[0].seen[3].number, 0);
    assert_int_equal(f->members[0].seen[3].not_after, 0);
}

static void who_answers_is_believed(void **state)
{
    struct fixture *f = *state;

    f->members[0].says = IS_NOT_HERE;
    assert_true(group_peer(&f->client, f->group) == f->members[0].peer);
    assert_int_equal(group_bench_change(f, 1), 0);
    assert_same(&f->members[0].seen[0], &f->members[1].seen[0]);
    assert_true(group_peer(&f->client, f->group) == f->members[1].peer);
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_int_equal(f->members[0].count, 1);
    assert_int_equal(f->members[1].count, 2);
}

/* Nothing is handed on while all answer. Who is silent is not asked again while another one answers, and that one is
 * asked to hand on what is asked of it, until the silent one has answered. */
static void what_is_silent_is_gone_round(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = IS_SILENT;
    f->members[1].says = IS_NOT_HERE;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[1].count, 5);
    assert_int_equal(f->members[0].count, 1);
    assert_false(f->members[0].seen[0].handed_on);
    assert_true(f->members[0].silent);
    assert_true((rpc_boot_ns() - call.started_ns) / 1000000 < 2 * GROUP_ATTEMPT_MS);
    f->members[1].says = ANSWERS;
    run_until(f, &f->ended, 1);
    for (unsigned i = 0; i < f->members[1].count; i++) {
        assert_true(f->members[1].seen[i].handed_on);
        assert_same(&f->members[0].seen[0], &f->members[1].seen[i]);
    }
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_true(f->members[1].seen[f->members[1].count - 1].handed_on);
    f->members[0].silent = false;
    assert_int_equal(group_bench_change(f, 3), 0);
    assert_false(f->members[1].seen[f->members[1].count - 1].handed_on);
    assert_int_equal(f->members[0].count, 1);
}

/* A server that is there, and does not come to an end because it waits for another one, is asked once more before others are. */
static void who_is_heard_is_asked_twice(void **state)
{
    struct fixture *f = *state;

    f->members[0].says = IS_SILENT;
    f->members[0].talks = true;
    assert_int_equal(group_bench_change(f, 1), 0);
    assert_true(f->took_ms >= 2 * GROUP_ATTEMPT_MS - 2 * ROUNDING_MS);
    assert_int_equal(f->members[0].count, 2);
    assert_same(&f->members[0].seen[0], &f->members[0].seen[1]);
    assert_false(f->members[0].silent);
    assert_int_equal(f->members[1].count, 1);
    assert_true(f->members[1].seen[0].handed_on);
}

/* The connection breaks with the change under way: the next one is asked at once. */
static void a_killed_server_costs_no_time(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = IS_SILENT;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[0].count, 1);
    member_kill(&f->members[0]);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_true(f->took_ms < GROUP_ATTEMPT_MS);
    assert_int_equal(f->members[0].count, 1);
    assert_int_equal(f->members[1].count, 1);
    assert_same(&f->members[0].seen[0], &f->members[1].seen[0]);
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_int_equal(f->members[1].seen[1].number, 2);
    assert_int_equal(f->members[1].seen[1].ended, 1);
}

/* Round and round, with pauses; the one that was killed is back meanwhile. */
/* What was asked of it goes to another one, which has its place or holds one beside it. */
static void a_removed_server_is_gone_round(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = IS_SILENT;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[0].count, 1);
    rpc_peer_give_up(f->members[0].peer, MORSEL_REMOVED);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_same(&f->members[0].seen[0], &f->members[1].seen[0]);
}

static void nobody_orders_for_a_while(void **state)
{
    struct fixture *f = *state;
    static struct call call;
    char address[64];

    call = (struct call){ 0 };
    f->members[1].says = IS_NOT_HERE;
    member_kill(&f->members[0]);
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[1].count, 5);
    assert_true((rpc_boot_ns() - call.started_ns) / 1000000 >=
                4 * GROUP_PAUSE_MS_MIN); /* It does not run hot. */
    assert_int_equal(f->ended, 0);
    (void)snprintf(address, sizeof(address), "%s", f->members[0].address);
    member_start(&f->members[0], address);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_same(&f->members[0].seen[0], &f->members[1].seen[i]);
    }
    assert_int_equal(f->members[0].count, 1);
}

static void silence_moves_it_on(void **state)
{
    struct fixture *f = *state;

    f->members[0].says = IS_SILENT;
    assert_int_equal(group_bench_change(f, 1), 0);
    assert_true(f->took_ms >= GROUP_ATTEMPT_MS - ROUNDING_MS);
    assert_same(&f->members[0].seen[0], &f->members[1].seen[0]);
    assert_int_equal(f->members[0].count, 1);
    /* The late answer finds nobody. */
    rpc_reply(f->members[0].held[--f->members[0].held_count], NULL, NULL);
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_int_equal(f->members[0].count, 1);
}

/* Who was not heard before either is not waited for that long. */
static void a_long_silence_is_shortened(void **state)
{
    struct fixture *f = *state;

    f->members[0].says = IS_SILENT;
    f->members[0].heard = false;
    assert_int_equal(group_bench_change(f, 1), 0);
    assert_in_range(f->took_ms, GROUP_SILENT_MS - ROUNDING_MS, GROUP_ATTEMPT_MS - 200);
    assert_true(f->members[0].silent);
}

/* A glance is enough to know by: the next call does not find out anew. */
static void who_was_glanced_at_in_vain_is_silent(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = f->members[1].says = IS_SILENT;
    f->members[1].heard = false;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[1].count, 1);
    f->members[0].says = ANSWERS;
    f->members[0].silent = false;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_true(f->members[1].silent);
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_int_equal(f->members[1].count, 1);
    assert_true(f->took_ms < GROUP_GLANCE_MS);
}

/* However often all were silent: who is away is not waited for while another one may have begun to answer. */
static void who_is_not_heard_is_never_waited_for_for_long(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    for (unsigned i = 0; i < SERVERS; i++) {
        f->members[i].says = IS_SILENT;
        f->members[i].heard = false;
    }
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[0].count, 2); /* All were silent. */
    f->members[0].says = f->members[1].says = ANSWERS;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_in_range(f->took_ms,
                    GROUP_SILENT_MS + GROUP_GLANCE_MS + GROUP_ATTEMPT_MS - 3 * ROUNDING_MS,
                    GROUP_SILENT_MS + GROUP_GLANCE_MS + 2 * GROUP_ATTEMPT_MS - 500);
}

/* A request without bytes has its time from the start: that its few bytes went out says nothing. */
static void silence_about_something_small_moves_it_on(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    assert_int_equal(group_bench_change(f, 1), 0);
    call = (struct call){ 0 };
    f->members[0].says = IS_SILENT;
    group_bench_start(f, &call, false, CALL_MS, 2);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_in_range(f->took_ms, GROUP_ATTEMPT_MS - ROUNDING_MS, 2 * GROUP_ATTEMPT_MS - 500);
}

static void its_time_holds(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = f->members[1].says = IS_NOT_HERE;
    group_bench_start(f, &call, true, 300, 1);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_TIMEDOUT);
    assert_true(f->took_ms >= 300 - ROUNDING_MS);
    group_bench_start(f, &call, false, 300, 1);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, MORSEL_TIMEDOUT);
    member_kill(&f->members[0]);
    member_kill(&f->members[1]);
    group_bench_start(f, &call, true, 300, 1);
    run_until(f, &f->ended, 3);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
}

/* Under "hard" it goes on asking. */
static void without_a_time_it_asks_on(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = f->members[1].says = IS_NOT_HERE;
    group_bench_start(f, &call, true, RPC_NO_DEADLINE, 1);
    run_until(f, &f->members[1].count, 3);
    assert_int_equal(f->ended, 0);
    f->members[0].says = ANSWERS;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
}

static void what_may_be_made_again_came_too_late(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    call.group.exclusive = true;
    f->members[0].says = IS_NOT_HERE;
    f->members[1].says = IS_TOO_LATE;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_TOO_LATE);
}

/* A server that says it has not carried it out, if it was the first that was asked. */
static void a_servers_word_that_it_is_late_counts(void **state)
{
    struct fixture *f = *state;

    f->members[0].says = IS_TOO_LATE;
    assert_int_equal(group_bench_change(f, 1), MORSEL_TOO_LATE);
    assert_int_equal(f->members[1].count, 0);
    f->members[0].says = IS_NOT_HERE;
    f->members[1].says = IS_TOO_LATE;
    assert_int_equal(group_bench_change(f, 2), MORSEL_UNSURE);
    assert_int_equal(f->members[1].count,
                     1); /* The lease has not been renewed: it would say so once more. */
}

/* What waited at a server for longer than the copy that it was sent is valid, while the lease period goes on: nobody says
 * that it was not made, but who is asked again makes it, or knows. */
static void while_the_lease_is_renewed_it_asks_on(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = IS_SILENT;
    f->members[0].talks = true;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[0].count, 2); /* Who is heard is asked twice, */
    f->until_ns += NS_PER_S / 2;
    f->members[0].says = ANSWERS;
    rpc_reply_failure(f->members[0].held[--f->members[0].held_count], MORSEL_TOO_LATE, NULL);
    run_until(f, &f->ended, 1); /* and a third time. */
    assert_int_equal(f->status, 0);
    assert_int_equal(f->members[0].count, 3);
    assert_int_equal(f->members[1].count, 0);
    assert_same(&f->members[0].seen[0], &f->members[0].seen[2]);
    assert_true(f->members[0].seen[2].not_after > f->members[0].seen[1].not_after);
}

static void another_lease_epoch_ends_it(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->members[0].says = f->members[1].says = IS_NOT_HERE;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[0].count, 1);
    f->epoch++;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNSURE);
}

static void a_cancelled_call_ends_once(void **state)
{
    struct fixture *f = *state;
    static struct call calls[3];

    memset(calls, 0, sizeof(calls));
    f->members[0].says = IS_SILENT;
    group_bench_start(f, &calls[0], true, CALL_MS, 1); /* Asked, */
    run_until(f, &f->members[0].count, 1);
    group_call_cancel(&calls[0].group);
    group_call_cancel(&calls[0].group);
    assert_int_equal(f->ended, 0);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_CANCELED);
    f->members[0].says = f->members[1].says = IS_NOT_HERE;
    group_bench_start(f, &calls[1], false, CALL_MS, 2); /* pausing, */
    while (calls[1].group.state != GROUP_CALL_PAUSING) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
    group_call_cancel(&calls[1].group);
    assert_int_equal(f->ended, 1);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, MORSEL_CANCELED);
    group_call_cancel(&calls[2].group); /* or never started. */
    group_call_cancel(&calls[1].group);
}

/* Until its time is over nobody may take it for ended: the first one may still be carried out. */
static void the_number_of_what_was_given_up_stays_out(void **state)
{
    struct fixture *f = *state;
    static struct call call;

    call = (struct call){ 0 };
    f->until_ns = rpc_boot_ns() + NS_PER_S / 10;
    f->members[0].says = IS_SILENT;
    group_bench_start(f, &call, true, CALL_MS, 1);
    run_until(f, &f->members[0].count, 1);
    group_call_cancel(&call.group);
    run_until(f, &f->ended, 1);
    f->until_ns = rpc_boot_ns() + 3600 * NS_PER_S;
    f->members[0].says = ANSWERS;
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_int_equal(f->members[0].seen[1].number, 2);
    assert_int_equal(f->members[0].seen[1].ended, 0);
    while (f->members[0].seen[f->members[0].count - 1].ended == 0) {
        assert_true(f->members[0].count < SEEN_MAX);
        for (unsigned i = 0; i < 20; i++) { /* Ticks. */
            (void)uv_run(&f->loop, UV_RUN_ONCE);
        }
        assert_int_equal(group_bench_change(f, 3), 0);
    }
}

/* All numbers are out: who waits for one is not forgotten. */
static void changes_wait_for_a_number(void **state)
{
    struct fixture *f = *state;
    struct call *calls = calloc(CALLS, sizeof(*calls));

    member_kill(&f->members[0]);
    member_kill(&f->members[1]);
    for (unsigned i = 0; i < CALLS; i++) {
        group_bench_start(f, &calls[i], true, i == CALLS - 1 ? 200 : CALL_MS, 1);
    }
    assert_int_equal(calls[CALLS - 1].group.state, GROUP_CALL_WAITING);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_int_equal(calls[CALLS - 1].group.state, GROUP_CALL_IDLE);
    group_bench_start(f, &calls[CALLS - 1], true, CALL_MS, 1);
    assert_int_equal(calls[CALLS - 1].group.state, GROUP_CALL_WAITING);
    calls[0].group.sent = false; /* So its number is free at once. */
    group_call_cancel(&calls[0].group);
    run_until(f, &f->ended, 2);
    assert_int_not_equal(calls[CALLS - 1].group.number, 0);
    f->ending = true;
    run_until(f, &f->ended, CALLS + 1);
    assert_int_equal(f->status, MORSEL_SHUTDOWN);
    free(calls);
}

static void unknown_servers_are_asked_for(void **state)
{
    struct fixture *f = *state;
    Morsel__Group group = MORSEL__GROUP__INIT;
    uint32_t servers[] = { 9, 2 };

    group.number = GROUP;
    group.servers = servers;
    group.n_servers = 2;
    assert_int_equal(client_groups_learn(&f->client, &group), 0);
    assert_int_equal(group_bench_change(f, 1), 0);
    assert_true(f->refreshed > 0);
    assert_int_equal(f->members[1].count, 1);
}

/* The first place is vacant; then another server gets it, and the one that was asked is there no more. */
static void places_change_hands(void **state)
{
    struct fixture *f = *state;
    Morsel__Group group = MORSEL__GROUP__INIT, *changed[] = { &group };
    uint32_t vacant[] = { 0, 2 }, given[] = { 1, 0, 3 };
    server_id held[REPLICAS_MAX];

    group.number = GROUP;
    group.servers = vacant;
    group.n_servers = 2;
    client_groups_changed(&f->client, changed, 1);
    assert_int_equal(group_servers(f->group, held), 1);
    assert_int_equal(held[0], 2);
    assert_int_equal(group_bench_change(f, 1), 0);
    assert_int_equal(f->members[1].count, 1);
    group.servers = given;
    group.n_servers = 3;
    client_groups_changed(&f->client, changed, 1);
    assert_int_equal(group_servers(f->group, held), 2);
    assert_int_equal(held[1], 3);
    assert_int_equal(group_bench_change(f, 2), 0);
    assert_int_equal(f->members[0].count, 1);
    group.number = GROUP + 1; /* No file of it is known. */
    client_groups_changed(&f->client, changed, 1);
    assert_null(client_groups_find(&f->client, GROUP + 1));
}

static void what_is_no_group_is_refused(void **state)
{
    struct fixture *f = *state;
    static uint32_t servers[][REPLICAS_MAX + 1] = { { 1, 1 }, { 0, 0 }, { 1, 2 } };
    Morsel__Group group = MORSEL__GROUP__INIT;

    group.n_servers = 2;
    group.number = GROUP + 1;
    group.servers = servers[0];
    assert_int_equal(client_groups_learn(&f->client, &group), MORSEL_CORRUPT);
    group.servers = servers[1];
    assert_int_equal(client_groups_learn(&f->client, &group), MORSEL_CORRUPT);
    group.servers = servers[2];
    group.n_servers = 0;
    assert_int_equal(client_groups_learn(&f->client, &group), MORSEL_CORRUPT);
    group.n_servers = REPLICAS_MAX + 1;
    assert_int_equal(client_groups_learn(&f->client, &group), MORSEL_CORRUPT);
    group.n_servers = 2;
    group.number = 0;
    assert_int_equal(client_groups_learn(&f->client, &group), MORSEL_CORRUPT);
    group.number = PLACING_GROUPS_MAX;
    assert_int_equal(client_groups_learn(&f->client, &group), MORSEL_CORRUPT);
    assert_null(client_groups_find(&f->client, GROUP + 1));
}
/* ---- Reads that any member may answer ---- */

static int settled(struct fixture *f, uint32_t first)
{
    static struct call call;

    call = (struct call){ .group = { .settled = true, .first = first, .hedge_ms = 100 } };
    group_bench_start(f, &call, false, CALL_MS, 1);
    run_until(f, &f->ended, f->ended + 1);
    return f->status;
}

static void neighbours_go_to_different_members(void **state)
{
    struct fixture *f = *state;

    for (uint64_t key = 0; key < 10; key++) {
        uint32_t member = group_spread(&f->client, f->group, key);

        assert_int_equal(member, key % 2);
        assert_ptr_equal(group_member_peer(&f->client, f->group, member), f->members[member].peer);
    }
    assert_int_equal(settled(f, 1), 0);
    assert_int_equal(f->members[0].count, 0);
    assert_int_equal(f->members[1].count, 1);
    assert_int_equal(group_bench_change(f, 1), 0); /* Who answers a read is not taken to order. */
    assert_int_equal(f->members[0].count, 1);
    assert_int_equal(f->members[1].count, 1);
}

static void who_does_not_answer_a_read_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    f->members[1].says = IS_SILENT;
    assert_int_equal(settled(f, 1), 0);
    assert_in_range(f->took_ms, 100 - ROUNDING_MS, GROUP_ATTEMPT_MS - 1);
    assert_int_equal(f->members[0].count, 1);
    assert_int_equal(group_spread(&f->client, f->group, 1), 0); /* Nor asked first, for a while. */
    assert_int_equal(group_spread(&f->client, f->group, 0), 0);
    f->members[0].says = IS_NOT_HERE;
    f->members[1].says = ANSWERS;
    assert_int_equal(settled(f, 0), 0);
    assert_int_equal(group_spread(&f->client, f->group, 1), 0); /* Both were: who orders, then. */
    f->members[0].says =
        IS_SILENT; /* What is slow must come to its end: the second time it is waited for. */
    f->members[1].says = IS_NOT_HERE;
    {
        static struct call call;

        call = (struct call){ .group = { .settled = true, .first = 0, .hedge_ms = 100 } };
        group_bench_start(f, &call, false, 1500, 1);
        run_until(f, &f->ended, f->ended + 1);
    }
    assert_int_equal(f->status, MORSEL_TIMEDOUT);
    assert_in_range(f->members[0].held_count, 2, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, group_bench_begin, group_bench_end)
    const struct CMUnitTest tests[] = {
        TEST(neighbours_go_to_different_members),
        TEST(who_does_not_answer_a_read_is_not_waited_for),
        TEST(numbers_grow_and_say_what_has_ended),
        TEST(who_answers_is_believed),
        TEST(what_is_silent_is_gone_round),
        TEST(who_is_heard_is_asked_twice),
        TEST(a_killed_server_costs_no_time),
        TEST(a_removed_server_is_gone_round),
        TEST(nobody_orders_for_a_while),
        TEST(silence_moves_it_on),
        TEST(a_long_silence_is_shortened),
        TEST(who_was_glanced_at_in_vain_is_silent),
        TEST(who_is_not_heard_is_never_waited_for_for_long),
        TEST(silence_about_something_small_moves_it_on),
        TEST(its_time_holds),
        TEST(without_a_time_it_asks_on),
        TEST(what_may_be_made_again_came_too_late),
        TEST(a_servers_word_that_it_is_late_counts),
        TEST(while_the_lease_is_renewed_it_asks_on),
        TEST(another_lease_epoch_ends_it),
        TEST(a_cancelled_call_ends_once),
        TEST(the_number_of_what_was_given_up_stays_out),
        TEST(changes_wait_for_a_number),
        TEST(unknown_servers_are_asked_for),
        TEST(places_change_hands),
        TEST(what_is_no_group_is_refused),
    };

    return cmocka_run_group_tests_name("group_call", tests, NULL, NULL);
}
