/* The roll of voters: who is to vote, and who is lost. */
#include "meta/cluster/voter_roll.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture
{
    struct voter_roll roll;
    struct voters_record record;
    struct voter_set wanted;
    voter_id gone;
};

static enum voter_news hear(struct fixture *f, server_id server, voter_id id)
{
    return voter_roll_hear(&f->roll, &f->record, server, id);
}

/* What is wanted is in effect. */
static void want(struct fixture *f)
{
    voter_roll_wanted(&f->roll, &f->record.set, &f->wanted, &f->gone);
}

static void in_effect(struct fixture *f, const struct voter_set *set)
{
    uint64_t version = f->record.set.version;

    f->record.set = *set;
    f->record.set.version = f->record.version_last = version + 1;
    memset(&f->record.next, 0, sizeof(f->record.next));
    voter_roll_prune(&f->roll, &f->record);
}

static void expect_wanted(struct fixture *f, uint32_t count, const voter_id *ids, voter_id gone)
{
    want(f);
    assert_int_equal(f->wanted.count, count);
    assert_memory_equal(f->wanted.ids, ids, count * sizeof(ids[0]));
    assert_int_equal(f->gone, gone);
}

#define EXPECT_WANTED(f, gone, ...)                                                                \
    expect_wanted(f, sizeof((voter_id[]){ __VA_ARGS__ }) / sizeof(voter_id),                       \
                  (voter_id[]){ __VA_ARGS__ }, gone)

/* The manager votes as 50. */
static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    struct voter_set first = { .count = 1, .ids = { 50 } };

    assert_int_equal(hear(f, 0, 50), VOTER_NEW);
    in_effect(f, &first);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    test_free(*state);
    return 0;
}

static enum voter_state state_of(const struct fixture *f, voter_id id)
{
    for (uint32_t i = 0; i < f->roll.count; i++) {
        if (f->roll.items[i].id == id) {
            return voter_roll_state(&f->roll.items[i], &f->record.set);
        }
    }
    fail_msg("%llu is not in the roll", (unsigned long long)id);
    return VOTER_LOST;
}

static void who_is_heard_joins(void **state)
{
    struct fixture *f = *state;
    server_id server;

    EXPECT_WANTED(f, 0, 50);
    assert_int_equal(hear(f, 2, 20), VOTER_NEW);
    assert_int_equal(hear(f, 1, 90), VOTER_NEW);
    assert_int_equal(hear(f, 2, 20), VOTER_SAME);
    EXPECT_WANTED(f, 0, 20, 50, 90);
    assert_int_equal(state_of(f, 90), VOTER_JOINS);
    in_effect(f, &f->wanted);
    assert_int_equal(state_of(f, 90), VOTER_VOTES);
    assert_true(voter_roll_server(&f->roll, 90, &server));
    assert_int_equal(server, 1);
    assert_false(voter_roll_server(&f->roll, 91, &server));
}

static void lost_votes_are_replaced(void **state)
{
    struct fixture *f = *state;
    server_id server;

    (void)hear(f, 1, 10);
    (void)hear(f, 2, 20);
    want(f);
    in_effect(f, &f->wanted);
    assert_int_equal(hear(f, 1, 60), VOTER_CHANGED);
    assert_int_equal(state_of(f, 10), VOTER_LOST);
    assert_int_equal(state_of(f, 60), VOTER_JOINS);
    EXPECT_WANTED(f, 10, 20, 50, 60);
    in_effect(f, &(struct voter_set){ .count = 2, .ids = { 20, 50 } });
    assert_false(voter_roll_server(&f->roll, 10, &server));
    EXPECT_WANTED(f, 0, 20, 50, 60);
    in_effect(f, &f->wanted);
    assert_int_equal(f->roll.count, 3);
}

/* Lost before it was ever in the set: nothing is to be removed. And it may come back. */
static void lost_before_it_joined(void **state)
{
    struct fixture *f = *state;

    (void)hear(f, 1, 10);
    assert_int_equal(hear(f, 1, 11), VOTER_CHANGED);
    EXPECT_WANTED(f, 0, 11, 50);
    for (voter_id id = 100; id < 100 + 2 * VOTER_ROLL_MAX; id++) {
        assert_int_equal(hear(f, 1, id), VOTER_CHANGED);
        assert_true(f->roll.count <= 3);
    }
    (void)hear(f, 1, 11);
    EXPECT_WANTED(f, 0, 11, 50);
}

static void votes_that_are_found_again(void **state)
{
    struct fixture *f = *state;

    (void)hear(f, 1, 10);
    (void)hear(f, 2, 20);
    want(f);
    in_effect(f, &f->wanted);
    (void)hear(f, 1, 11);
    assert_int_equal(hear(f, 1, 10), VOTER_CHANGED);
    EXPECT_WANTED(f, 0, 10, 20, 50);
    assert_int_equal(state_of(f, 10), VOTER_VOTES);
}

static void a_voter_is_of_one_server(void **state)
{
    struct fixture *f = *state;

    (void)hear(f, 1, 10);
    assert_int_equal(hear(f, 2, 10), VOTER_REFUSED);
    assert_int_equal(hear(f, 2, 50), VOTER_REFUSED);
    EXPECT_WANTED(f, 0, 10, 50);
}

/* A change that was under way when the manager ended. */
static void what_is_on_disk(void **state)
{
    struct fixture *f = *state;
    struct voter_seats seats;

    (void)hear(f, 1, 10);
    (void)hear(f, 2, 20);
    want(f);
    in_effect(f, &f->wanted);
    (void)hear(f, 3, 30);
    f->record.next = (struct voter_set){ .version = 9, .count = 4, .ids = { 10, 20, 30, 50 } };
    voter_roll_seats(&f->roll, &f->record, &seats);
    assert_int_equal(seats.count, 4);
    voter_roll_init(&f->roll, &f->record, &seats);
    EXPECT_WANTED(f, 0, 10, 20, 30, 50);
    assert_int_equal(state_of(f, 30), VOTER_JOINS);

    /* One that is to go is lost; who it was says so again. */
    f->record.next = (struct voter_set){ .version = 9, .count = 2, .ids = { 20, 50 } };
    voter_roll_seats(&f->roll, &f->record, &seats);
    assert_int_equal(seats.count, 3);
    voter_roll_init(&f->roll, &f->record, &seats);
    EXPECT_WANTED(f, 10, 20, 50);
    assert_int_equal(hear(f, 1, 10), VOTER_NEW);
    EXPECT_WANTED(f, 0, 10, 20, 50);
}

/* The manager was the only voter, and has lost its votes: both are in the change. */
static void two_voters_of_one_server(void **state)
{
    struct fixture *f = *state;
    struct voter_seats seats;

    for (voter_id own = 40; own <= 60; own += 20) { /* Below and above the one that is lost. */
        (void)hear(f, 0, own);
        f->record.next = (struct voter_set){ .version = 9, .count = 2, .ids = { 50, 60 } };
        if (own < 50) {
            f->record.next.ids[0] = own;
            f->record.next.ids[1] = 50;
        }
        voter_roll_seats(&f->roll, &f->record, &seats);
        voter_roll_init(&f->roll, &f->record, &seats);
        expect_wanted(f, 1, &own, 50);
    }
}

static void there_is_room_for_all_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct voter_seats seats;

    for (server_id server = 1; server <= SERVERS_MAX; server++) {
        assert_int_equal(hear(f, server, 1000 + server), VOTER_NEW);
    }
    assert_int_equal(hear(f, SERVERS_MAX + 1, 999), VOTER_REFUSED);
    want(f);
    assert_int_equal(f->wanted.count, VOTERS_MAX);
    assert_true((f->wanted.version = 1, voter_set_valid(&f->wanted)));
    in_effect(f, &f->wanted);
    for (server_id server = 1; server <= SERVERS_MAX; server++) {
        assert_int_equal(hear(f, server, 5000 + server), VOTER_CHANGED);
    }
    voter_roll_seats(&f->roll, &f->record, &seats);
    assert_int_equal(seats.count, VOTERS_MAX);
    want(f);
    assert_int_equal(f->wanted.count, VOTERS_MAX);
}

/* Its vote goes, whether or not it was in effect, and also behind a restart in the middle. */
static void a_server_that_was_removed_votes_no_more(void **state)
{
    struct fixture *f = *state;
    struct voter_seats seats;

    (void)hear(f, 1, 10);
    (void)hear(f, 2, 20);
    want(f);
    in_effect(f, &f->wanted);
    (void)hear(f, 3, 30);
    assert_true(voter_roll_remove(&f->roll, &f->record, 3)); /* It only was to join. */
    EXPECT_WANTED(f, 0, 10, 20, 50);
    assert_int_equal(f->roll.count, 3);
    assert_true(voter_roll_remove(&f->roll, &f->record, 2));
    assert_false(voter_roll_remove(&f->roll, &f->record, 2));
    assert_int_equal(state_of(f, 20), VOTER_LOST);
    EXPECT_WANTED(f, 20, 10, 50);

    voter_roll_seats(&f->roll, &f->record, &seats);
    voter_roll_init(&f->roll, &f->record, &seats); /* The record does not know who was removed. */
    EXPECT_WANTED(f, 0, 10, 20, 50);
    assert_true(voter_roll_remove(&f->roll, &f->record, 2));
    EXPECT_WANTED(f, 20, 10, 50);
    in_effect(f, &f->wanted);
    assert_int_equal(f->roll.count, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_is_heard_joins),
        TEST(lost_votes_are_replaced),
        TEST(lost_before_it_joined),
        TEST(votes_that_are_found_again),
        TEST(a_server_that_was_removed_votes_no_more),
        TEST(a_voter_is_of_one_server),
        TEST(what_is_on_disk),
        TEST(two_voters_of_one_server),
        TEST(there_is_room_for_all_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
