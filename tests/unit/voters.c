/* The manager's core of the voter set: whom it asks, and in which order the set changes. With voters
 * and faults: sim/votes. */
#include "meta/cluster/voters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture
{
    struct voters v;
    struct voters_actions out;
    uint64_t now_ms;
};

static struct voter_set set_of(uint64_t version, uint32_t count, const voter_id *ids)
{
    struct voter_set set = { .version = version, .count = count };

    memcpy(set.ids, ids, count * sizeof(ids[0]));
    return set;
}

#define SET(version, ...)                                                                          \
    set_of(version, sizeof((voter_id[]){ __VA_ARGS__ }) / sizeof(voter_id),                        \
           (voter_id[]){ __VA_ARGS__ })

static void open_with(struct fixture *f, struct voter_set set)
{
    struct voters_record record = { .set = set, .version_last = set.version };

    f->now_ms = 100;
    voters_init(&f->v, &record, 2);
    assert_true(voters_deadline_ms(&f->v) == UINT64_MAX);
}

static void step(struct fixture *f, struct voters_event event)
{
    event.now_ms = f->now_ms;
    f->out.count = 0;
    voters_step(&f->v, &event, &f->out);
}

static void want(struct fixture *f, struct voter_set set, voter_id gone)
{
    struct voters_event event = { .type = VOTERS_WANT };

    event.want.set = &set;
    event.want.gone = gone;
    step(f, event);
}

static void persisted(struct fixture *f)
{
    assert_int_equal(f->out.count, 1);
    assert_int_equal(f->out.items[0].type, VOTERS_PERSIST);
    step(f, (struct voters_event){ .type = VOTERS_PERSISTED });
}

static void answer(struct fixture *f, voter_id voter, bool carry, const struct vote_record *records,
                   uint32_t count)
{
    struct voters_event event = { .type = VOTERS_ANSWERED };

    event.answered.answer.type = VOTE_ACCEPTED;
    event.answered.answer.voter = voter;
    event.answered.version = f->v.now.next.version;
    event.answered.carry = carry;
    event.answered.records = records;
    event.answered.count = count;
    step(f, event);
}

static void expect_asked(const struct fixture *f, uint32_t count, bool carry)
{
    assert_int_equal(f->out.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(f->out.items[i].type, carry ? VOTERS_CARRY : VOTERS_READ);
        assert_true(f->out.items[i].version == f->v.now.next.version);
    }
}

static void a_majority_is_read_and_then_written(void **state)
{
    const struct vote_record page[2] = { { .subject = { { 1, 2 } },
                                           .promised = { 4, 1 },
                                           .ballot = { 4, 1 },
                                           .value = { 1, { 9 } } },
                                         { .subject = { { 1, 3 } } } };
    struct voters_event again = { .type = VOTERS_ANSWERED };
    struct fixture f;

    (void)state;
    open_with(&f, SET(1, 10, 20, 30));
    want(&f, SET(1, 10, 20, 30, 40), 0);
    persisted(&f); /* The plan is on disk before anybody hears of it. */
    expect_asked(&f, 3, false);
    answer(&f, 10, false, page, 2); /* A full page: there may be more. */
    expect_asked(&f, 1, false);
    assert_int_equal(vote_subject_compare(&f.out.items[0].after, &page[1].subject), 0);
    answer(&f, 10, false, page, 2); /* A copy. */
    assert_int_equal(f.out.count, 0);
    again.answered.answer.type = VOTE_ACCEPTED;
    again.answered.answer.voter = 10;
    again.answered.version = 2;
    again.answered.after = page[1].subject;
    step(&f, again);
    assert_int_equal(f.out.count, 0); /* One of three. */
    f.now_ms = voters_deadline_ms(&f.v);
    step(&f, (struct voters_event){ .type = VOTERS_TICK });
    expect_asked(&f, 2, false);
    answer(&f, 30, false, NULL, 0);
    expect_asked(&f, 4, true);
    assert_int_equal(voter_count(f.v.gathered), 2);
    assert_int_equal(f.v.now.set.count, 3);
    for (voter_id id = 10; id <= 30; id += 10) {
        again.answered.answer.voter = id;
        again.answered.carry = true;
        answer(&f, id, true, NULL, 0);
        expect_asked(&f, 1, true); /* The rest, of which there is none. */
        step(&f, again);
    }
    persisted(&f);
    assert_int_equal(f.out.items[0].type, VOTERS_CHANGED);
    assert_int_equal(f.v.now.set.count, 4);
    assert_true(f.v.now.set.version == 2 && f.v.now.next.version == 0);
    voters_free(&f.v);
}

/* Read by all, written by all. */
static void run_through(struct fixture *f)
{
    struct voter_set old = f->v.now.set, next;

    persisted(f);
    next = f->v.now.next;
    for (uint32_t i = 0; i < old.count; i++) {
        answer(f, old.ids[i], false, NULL, 0);
        if (f->v.state == VOTERS_WRITING) {
            break;
        }
    }
    for (uint32_t i = 0; i < next.count && f->v.state == VOTERS_WRITING; i++) {
        answer(f, next.ids[i], true, NULL, 0);
    }
    assert_int_equal(f->v.state, VOTERS_COMMITTING);
    persisted(f);
}

static bool set_is(const struct voter_set *set, struct voter_set expected)
{
    return set->count == expected.count &&
           memcmp(set->ids, expected.ids, set->count * sizeof(set->ids[0])) == 0;
}

static void the_lost_one_goes_first_and_one_at_a_time(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, SET(1, 10, 20, 30));
    want(&f, SET(1, 10, 31), 30); /* 20 is to go too; 31 is what 30 is called now. */
    assert_true(set_is(&f.v.now.next, SET(2, 10, 20)));
    run_through(&f);
    assert_true(set_is(&f.v.now.next, SET(3, 10)));
    f.out.items[0] = f.out.items[f.out.count - 1]; /* CHANGED came before. */
    f.out.count = 1;
    run_through(&f);
    assert_true(set_is(&f.v.now.next, SET(4, 10, 31)));
    voters_free(&f.v);
}

/* What two have decided each of them knows; and what two of four do not know was not decided. */
static void without_a_lost_one_half_of_an_even_set_is_read(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, SET(1, 10, 20));
    want(&f, SET(1, 10, 20, 30), 0);
    persisted(&f);
    answer(&f, 10, false, NULL, 0);
    assert_int_equal(f.v.state, VOTERS_READING); /* The other one may know that this is old. */
    want(&f, SET(1, 10), 20);
    persisted(&f);
    expect_asked(&f, 2, false);
    answer(&f, 10, false, NULL, 0);
    expect_asked(&f, 1, true); /* The one that is left. */
    answer(&f, 10, true, NULL, 0);
    persisted(&f);
    assert_true(set_is(&f.v.now.set, SET(3, 10)));
    voters_free(&f.v);
    open_with(&f, SET(1, 10, 20, 30, 40));
    want(&f, SET(1, 10, 20, 30), 40);
    persisted(&f);
    answer(&f, 10, false, NULL, 0);
    assert_int_equal(f.v.state, VOTERS_READING); /* Three others could have decided something. */
    answer(&f, 30, false, NULL, 0);
    expect_asked(&f, 3, true);
    answer(&f, 10, true, NULL, 0);
    assert_int_equal(f.v.state, VOTERS_WRITING);
    answer(&f, 30, true, NULL, 0);
    persisted(&f);
    assert_true(set_is(&f.v.now.set, SET(2, 10, 20, 30)));
    voters_free(&f.v);
}

/* Whoever was sealed for it answers only a version above. */
static void a_plan_that_is_given_up_leaves_a_higher_version(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, SET(1, 10, 20));
    want(&f, SET(1, 10, 20, 30), 0);
    persisted(&f);
    want(&f, SET(1, 10, 20), 0);
    assert_true(set_is(&f.v.now.next, SET(3, 10, 20)));
    assert_true(f.v.now.next.version == 3);
    answer(&f, 10, false, NULL, 0); /* Late, and while the new plan is not on disk. */
    assert_int_equal(f.out.count, 0);
    want(&f, SET(1, 10, 20), 0);
    f.out.count = 1;
    f.out.items[0].type = VOTERS_PERSIST;
    run_through(&f);
    assert_int_equal(f.out.count, 1);
    assert_true(f.v.now.set.version == 3 && f.v.state == VOTERS_IDLE);
    voters_free(&f.v);
}

static void a_plan_that_is_found_at_a_start_is_made_anew(void **state)
{
    struct voters_record record = { .set = SET(4, 10, 20),
                                    .next = SET(6, 10, 20, 30),
                                    .version_last = 6 };
    struct fixture f = { .now_ms = 50 };

    (void)state;
    voters_init(&f.v, &record, 2);
    assert_true(voters_deadline_ms(&f.v) <= f.now_ms);
    step(&f, (struct voters_event){ .type = VOTERS_TICK });
    assert_true(set_is(&f.v.now.next, SET(7, 10, 20, 30)));
    assert_true(f.v.now.next.version == 7 && f.v.now.version_last == 7);
    run_through(&f);
    assert_int_equal(f.v.now.set.count, 3);
    voters_free(&f.v);
}

static void what_cannot_be_written_is_tried_again(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, SET(1, 10));
    want(&f, SET(1, 10, 20), 0);
    step(&f, (struct voters_event){ .type = VOTERS_PERSISTED, .failed = true });
    assert_int_equal(f.out.count, 0);
    f.now_ms = voters_deadline_ms(&f.v);
    step(&f, (struct voters_event){ .type = VOTERS_TICK });
    run_through(&f);
    assert_int_equal(f.v.now.set.count, 2);
    voters_free(&f.v);
}

/* The manager's disk is older than what voters know: somebody must look. */
static void a_voter_that_knows_more_is_noticed(void **state)
{
    struct voters_event event = { .type = VOTERS_ANSWERED };
    struct fixture f;

    (void)state;
    open_with(&f, SET(1, 10));
    want(&f, SET(1, 10, 20), 0);
    persisted(&f);
    event.answered.answer.type = VOTE_OLD_SET;
    event.answered.answer.voter = 10;
    event.answered.answer.set_version = 9;
    event.answered.version = 2;
    step(&f, event);
    assert_true(f.v.version_seen == 9 && f.v.state == VOTERS_READING);
    voters_free(&f.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_majority_is_read_and_then_written),
        cmocka_unit_test(the_lost_one_goes_first_and_one_at_a_time),
        cmocka_unit_test(without_a_lost_one_half_of_an_even_set_is_read),
        cmocka_unit_test(a_plan_that_is_given_up_leaves_a_higher_version),
        cmocka_unit_test(a_plan_that_is_found_at_a_start_is_made_anew),
        cmocka_unit_test(what_cannot_be_written_is_tried_again),
        cmocka_unit_test(a_voter_that_knows_more_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
