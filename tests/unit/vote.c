/* Voters and candidates alone: what each says to what. Many of them together: sim/votes. */
#include "common/vote/candidate.h"
#include "common/vote/voter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NAME = 100 }; /* Of the voter; voters of a set have this and the numbers behind it. */

static const struct vote_subject subject = { { 3, 7 } };

static struct vote_value value_of(uint8_t byte)
{
    return (struct vote_value){ .count = byte == 0 ? 0 : 1, .bytes = { byte } };
}

static struct vote_request request_of(enum vote_request_type type, uint64_t epoch, uint64_t round,
                                      uint8_t value)
{
    return (struct vote_request){ .type = type,
                                  .voter = NAME,
                                  .set_version = 1,
                                  .subject = subject,
                                  .epoch = epoch,
                                  .before = value_of(epoch == 1 ? 0 : 200),
                                  .ballot = { round, 9 },
                                  .value = value_of(value) };
}

static struct voter *some_voter(void)
{
    struct voter *v = voter_new(NAME, 1);

    assert_non_null(v);
    return v;
}

/* Ask; what has to be on disk first is, unless `failed`. */
static struct vote_answer ask_disk(struct voter *v, struct vote_request request, bool failed)
{
    struct voter_event event = { .type = VOTER_ASKED, .tag = 5, .request = &request };
    struct voter_actions out = { 0 };
    struct vote_record record;

    assert_true(vote_request_valid(&request));
    voter_step(v, &event, &out);
    assert_int_equal(out.count, 1);
    if (out.items[0].type == VOTER_PERSIST) {
        struct voter_event done = { .type = VOTER_PERSISTED };

        done.persisted.number = out.items[0].number;
        done.persisted.failed = failed;
        assert_true(voter_pop(v, &record));
        assert_true(vote_record_valid(&record));
        assert_false(voter_pop(v, &record));
        out.count = 0;
        voter_step(v, &done, &out);
        assert_int_equal(out.count, 1);
    }
    assert_int_equal(out.items[0].type, VOTER_ANSWER);
    assert_int_equal(out.items[0].tag, 5);
    assert_int_equal(out.items[0].answer.ballot.round, request.ballot.round);
    return out.items[0].answer;
}

static struct vote_answer ask(struct voter *v, struct vote_request request)
{
    return ask_disk(v, request, false);
}

static struct vote_answer ask_of(struct voter *v, enum vote_request_type type, uint64_t epoch,
                                 uint64_t round, uint8_t value)
{
    return ask(v, request_of(type, epoch, round, value));
}

static void a_voter_answers_no_ballot_below_its_promise(void **state)
{
    struct voter *v = some_voter();
    struct vote_answer answer;

    (void)state;
    answer = ask_of(v, VOTE_PREPARE, 1, 5, 0);
    assert_int_equal(answer.type, VOTE_PROMISED);
    assert_int_equal(answer.voted.round, 0);
    answer = ask_of(v, VOTE_PREPARE, 1, 5, 0); /* The same once more: a copy. */
    assert_int_equal(answer.type, VOTE_OUTBID);
    assert_int_equal(answer.voted.round, 5);
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 1, 4, 1).type, VOTE_OUTBID);
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 1, 5, 2).type, VOTE_ACCEPTED);
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 1, 5, 2).type, VOTE_ACCEPTED);
    answer = ask_of(v, VOTE_PREPARE, 1, 6, 0);
    assert_int_equal(answer.type, VOTE_PROMISED);
    assert_int_equal(answer.voted.round, 5);
    assert_int_equal(answer.value.bytes[0], 2);
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 1, 5, 2).type, VOTE_OUTBID);
    voter_free(v);
}

/* The same round of another candidate is another ballot. */
static void ballots_of_two_candidates_differ(void **state)
{
    struct voter *v = some_voter();
    struct vote_request request = request_of(VOTE_PREPARE, 1, 5, 0);

    (void)state;
    assert_int_equal(ask(v, request).type, VOTE_PROMISED);
    request.ballot.candidate = 8;
    assert_int_equal(ask(v, request).type, VOTE_OUTBID);
    request.ballot.candidate = 10;
    assert_int_equal(ask(v, request).type, VOTE_PROMISED);
    voter_free(v);
}

static void an_answer_waits_for_the_disk(void **state)
{
    struct voter *v = some_voter();
    struct vote_request request = request_of(VOTE_PREPARE, 1, 5, 0);
    struct voter_event event = { .type = VOTER_ASKED, .request = &request };
    struct voter_actions out = { 0 };
    struct vote_record record;

    (void)state;
    for (uint64_t i = 1; i <= VOTER_PENDING_MAX + 1; i++) { /* Bounded: the last is refused. */
        out.count = 0;
        event.tag = request.ballot.round = i;
        voter_step(v, &event, &out);
        assert_int_equal(out.count, 1);
        assert_int_equal(out.items[0].type, i <= VOTER_PENDING_MAX ? VOTER_PERSIST : VOTER_ANSWER);
    }
    assert_int_equal(out.items[0].answer.type, VOTE_NO_ROOM);
    assert_true(voter_pop(v, &record));
    assert_int_equal(record.promised.round, VOTER_PENDING_MAX);
    event = (struct voter_event){ .type = VOTER_PERSISTED, .persisted.number = 3 };
    out.count = 0;
    voter_step(v, &event, &out);
    assert_int_equal(out.count, 3);
    assert_int_equal(out.items[2].tag, 3);
    assert_int_equal(out.items[2].answer.type, VOTE_PROMISED);
    event.persisted.number = VOTER_PENDING_MAX;
    event.persisted.failed = true;
    out.count = 0;
    voter_step(v, &event, &out);
    assert_int_equal(out.count, VOTER_PENDING_MAX - 3);
    assert_int_equal(out.items[0].answer.type, VOTE_NO_ROOM);
    voter_free(v);
}

/* What is in memory and not on disk must be written before it is said. */
static void a_full_disk_refuses_the_vote_and_later_takes_it(void **state)
{
    struct voter *v = some_voter();

    (void)state;
    assert_int_equal(ask_disk(v, request_of(VOTE_ACCEPT, 1, 5, 2), true).type, VOTE_NO_ROOM);
    assert_int_equal(ask(v, request_of(VOTE_ACCEPT, 1, 5, 2)).type, VOTE_ACCEPTED);
    voter_free(v);
}

static void a_later_epoch_takes_the_place_of_the_earlier(void **state)
{
    struct voter *v = some_voter();
    struct vote_answer answer;

    (void)state;
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 1, 5, 2).type, VOTE_ACCEPTED);
    answer = ask_of(v, VOTE_PREPARE, 2, 1, 0); /* Its `before` is what was decided. */
    assert_int_equal(answer.type, VOTE_PROMISED);
    assert_int_equal(answer.voted.round, 0);
    answer = ask_of(v, VOTE_PREPARE, 1, 9, 0);
    assert_int_equal(answer.type, VOTE_KNOWN);
    assert_int_equal(answer.epoch, 1);
    assert_int_equal(answer.value.bytes[0], 200);
    answer = ask_of(v, VOTE_LEARN, 7, 1, 77);
    assert_int_equal(answer.type, VOTE_KNOWN);
    answer = ask_of(v, VOTE_ACCEPT, 7, 9, 1);
    assert_int_equal(answer.type, VOTE_KNOWN);
    assert_int_equal(answer.value.bytes[0], 77);
    assert_int_equal(ask_of(v, VOTE_LEARN, 3, 1, 33).type, VOTE_KNOWN); /* Late: no step back. */
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 7, 9, 1).value.bytes[0], 77);
    assert_int_equal(voter_count(v), 1);
    voter_free(v);
}

static struct vote_answer change(struct voter *v, enum voter_event_type type, voter_id voter,
                                 uint64_t version, const struct vote_record *records,
                                 uint32_t count)
{
    struct voter_event event = { .type = type };
    struct voter_actions out = { 0 };
    struct vote_record record;

    event.change.voter = voter;
    event.change.version = version;
    event.change.records = records;
    event.change.count = count;
    voter_step(v, &event, &out);
    assert_int_equal(out.count, 1);
    if (out.items[0].type == VOTER_PERSIST) {
        uint32_t changed = 0;

        while (voter_pop(v, &record)) {
            changed++;
        }
        assert_int_equal(changed, count);
        event = (struct voter_event){ .type = VOTER_PERSISTED,
                                      .persisted.number = out.items[0].number };
        out.count = 0;
        voter_step(v, &event, &out);
    }
    return out.items[0].answer;
}

static void who_was_read_answers_no_older_set(void **state)
{
    struct voter *v = some_voter();
    struct vote_request request = request_of(VOTE_PREPARE, 1, 5, 0);
    struct vote_answer answer;

    (void)state;
    assert_int_equal(change(v, VOTER_READ, NAME, 2, NULL, 0).type, VOTE_ACCEPTED);
    answer = ask(v, request);
    assert_int_equal(answer.type, VOTE_OLD_SET);
    assert_int_equal(answer.set_version, 2);
    request.set_version = 4; /* Who hears of a newer one knows it. */
    assert_int_equal(ask(v, request).type, VOTE_PROMISED);
    assert_int_equal(voter_set_version(v), 4);
    assert_int_equal(change(v, VOTER_CARRY, NAME, 3, NULL, 0).type, VOTE_OLD_SET);
    assert_int_equal(change(v, VOTER_CARRY, NAME, 4, NULL, 0).type, VOTE_ACCEPTED);
    assert_int_equal(change(v, VOTER_READ, NAME, 0, NULL, 0).type, VOTE_NONSENSE);
    /* What is decided is decided, whoever says it. */
    assert_int_equal(ask_of(v, VOTE_LEARN, 1, 1, 8).type, VOTE_KNOWN);
    voter_free(v);
}

static void what_is_for_another_id_is_refused(void **state)
{
    struct voter *v = some_voter();
    struct vote_request request = request_of(VOTE_ACCEPT, 1, 5, 1);

    (void)state;
    request.voter = NAME + 1;
    assert_int_equal(ask(v, request).type, VOTE_NOT_ME);
    assert_int_equal(change(v, VOTER_READ, NAME + 1, 2, NULL, 0).type, VOTE_NOT_ME);
    assert_int_equal(voter_set_version(v), 1);
    assert_int_equal(voter_count(v), 0);
    voter_free(v);
}

static void carried_votes_are_merged(void **state)
{
    struct voter *v = some_voter();
    struct vote_record records[2] = {
        { .subject = subject, .promised = { 6, 9 }, .ballot = { 6, 9 }, .value = value_of(4) },
        { .subject = { { 1, 2, 3 } }, .decided_epoch = 4, .decided = value_of(44) }
    };
    struct vote_record page[2];
    struct vote_answer answer;

    (void)state;
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 1, 5, 2).type, VOTE_ACCEPTED);
    assert_int_equal(change(v, VOTER_CARRY, NAME, 1, records, 2).type, VOTE_ACCEPTED);
    answer = ask_of(v, VOTE_PREPARE, 1, 7, 0);
    assert_int_equal(answer.voted.round, 6); /* The higher ballot. */
    assert_int_equal(answer.value.bytes[0], 4);
    records[0].promised.round = records[0].ballot.round = 5;
    assert_int_equal(change(v, VOTER_CARRY, NAME, 1, records, 1).type, VOTE_ACCEPTED);
    assert_int_equal(ask_of(v, VOTE_PREPARE, 1, 8, 0).voted.round, 6);
    assert_int_equal(voter_page(v, &(struct vote_subject){ { 0 } }, 1, page), 1);
    assert_int_equal(page[0].decided.bytes[0], 44);
    assert_int_equal(voter_page(v, &page[0].subject, 2, page), 1);
    assert_int_equal(page[0].subject.servers[0], 3);
    assert_int_equal(voter_page(v, &page[0].subject, 2, page), 0);
    voter_free(v);
}

static void a_restarted_voter_is_what_it_was(void **state)
{
    struct voter *v = some_voter(), *again = some_voter();
    struct vote_record record;

    (void)state;
    assert_int_equal(ask_of(v, VOTE_ACCEPT, 3, 5, 2).type, VOTE_ACCEPTED);
    assert_int_equal(voter_page(v, &(struct vote_subject){ { 0 } }, 1, &record), 1);
    assert_true(voter_load(again, &record));
    assert_int_equal(ask_of(again, VOTE_PREPARE, 3, 4, 0).type, VOTE_OUTBID);
    assert_int_equal(ask_of(again, VOTE_PREPARE, 3, 6, 0).value.bytes[0], 2);
    assert_int_equal(ask_of(again, VOTE_PREPARE, 2, 6, 0).type, VOTE_KNOWN);
    voter_free(v);
    voter_free(again);
}

static void nonsense_is_not_valid(void **state)
{
    const struct vote_request good = request_of(VOTE_ACCEPT, 2, 5, 1);
    struct vote_request bad[10];
    const struct vote_subject subjects[] = {
        { { 0, 7 } }, { { 7, 3 } }, { { 3, 3 } }, { { 3, 0, 7 } }, { { 0 } }
    };

    (void)state;
    assert_true(vote_request_valid(&good));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        bad[i] = good;
    }
    bad[0].epoch = 0;
    bad[1].epoch = VOTE_EPOCH_END;
    bad[2].set_version = 0;
    bad[3].before.count = 0;
    bad[4].value.count = 0;
    bad[5].value.count = VOTE_VALUE_BYTES_MAX + 1;
    bad[6].ballot.round = VOTE_ROUND_END;
    bad[7].ballot.round = 0;
    bad[8].ballot.candidate = 0;
    bad[9].type = (enum vote_request_type)9;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(vote_request_valid(&bad[i]));
    }
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        assert_false(vote_subject_valid(&subjects[i]));
    }
}

/* ---- Candidates ---- */

static const struct voter_set three = { .version = 2,
                                        .count = 3,
                                        .ids = { NAME, NAME + 1, NAME + 2 } };

struct stand
{
    struct candidate c;
    struct candidate_actions out;
    uint64_t now_ms;
};

static void step(struct stand *s, struct candidate_event event)
{
    event.now_ms = s->now_ms;
    s->out.count = 0;
    candidate_step(&s->c, &event, &s->out);
}

static void stand(struct stand *s, uint8_t value)
{
    const struct candidate_setup setup = { .number = 55,
                                           .seed = 1,
                                           .subject = subject,
                                           .epoch = 1,
                                           .value = value_of(value),
                                           .give_up_ms = 5000 };

    s->now_ms = 1000;
    candidate_init(&s->c, &setup);
    assert_true(candidate_deadline_ms(&s->c) == UINT64_MAX);
    step(s, (struct candidate_event){ .type = CANDIDATE_START, .voters = &three });
    assert_int_equal(s->out.count, 1);
    assert_int_equal(s->out.items[0].request.type, VOTE_PREPARE);
    assert_int_equal(s->out.items[0].request.set_version, 2);
}

/* What the voter at `at` says to the newest ballot. */
static void hear(struct stand *s, uint32_t at, enum vote_answer_type type, uint64_t voted,
                 uint8_t value)
{
    struct vote_answer answer = { .type = type,
                                  .voter = NAME + at,
                                  .ballot = s->c.ballot,
                                  .voted = { voted, voted == 0 ? 0 : 9 },
                                  .epoch = 1,
                                  .value = value_of(value) };

    step(s, (struct candidate_event){ .type = CANDIDATE_ANSWER, .answer = &answer });
}

static void expect_end(const struct stand *s, enum candidate_outcome outcome, uint8_t value)
{
    const struct candidate_action *last = &s->out.items[s->out.count - 1];

    assert_true(s->out.count > 0);
    assert_int_equal(last->type, CANDIDATE_END);
    assert_int_equal(last->outcome, outcome);
    assert_int_equal(last->value.bytes[0], value);
    assert_true(candidate_deadline_ms(&s->c) == UINT64_MAX);
}

static void a_majority_decides(void **state)
{
    struct stand s;

    (void)state;
    stand(&s, 1);
    hear(&s, 0, VOTE_PROMISED, 0, 0);
    hear(&s, 0, VOTE_PROMISED, 0, 0); /* The same voter counts once. */
    assert_int_equal(s.out.count, 0);
    hear(&s, 9, VOTE_PROMISED, 0, 0); /* A stranger does not count. */
    assert_int_equal(s.out.count, 0);
    hear(&s, 2, VOTE_PROMISED, 0, 0);
    assert_int_equal(s.out.items[0].request.type, VOTE_ACCEPT);
    assert_int_equal(s.out.items[0].request.value.bytes[0], 1);
    hear(&s, 1, VOTE_PROMISED, 3, 9); /* Late: the ballot has its value. */
    hear(&s, 2, VOTE_ACCEPTED, 0, 0);
    assert_int_equal(s.out.count, 0);
    hear(&s, 1, VOTE_ACCEPTED, 0, 0);
    assert_int_equal(s.out.count, 2);
    assert_int_equal(s.out.items[0].request.type, VOTE_LEARN);
    expect_end(&s, CANDIDATE_DECIDED, 1);
    hear(&s, 0, VOTE_ACCEPTED, 0, 0); /* Behind the end. */
    assert_int_equal(s.out.count, 0);
}

static void a_vote_that_was_given_is_finished_first(void **state)
{
    struct stand s;

    (void)state;
    stand(&s, 1);
    hear(&s, 0, VOTE_PROMISED, 3, 33);
    hear(&s, 1, VOTE_PROMISED, 2, 22);
    assert_int_equal(s.out.items[0].request.value.bytes[0], 33);
    stand(&s, 0); /* Who only asks finishes it as well. */
    hear(&s, 0, VOTE_PROMISED, 0, 0);
    hear(&s, 1, VOTE_PROMISED, 2, 22);
    assert_int_equal(s.out.items[0].request.value.bytes[0], 22);
    stand(&s, 0);
    hear(&s, 0, VOTE_PROMISED, 0, 0);
    hear(&s, 1, VOTE_PROMISED, 0, 0);
    expect_end(&s, CANDIDATE_NOTHING, 0);
}

static void what_somebody_knows_is_decided(void **state)
{
    struct stand s;

    (void)state;
    stand(&s, 1);
    hear(&s, 1, VOTE_KNOWN, 0, 44);
    expect_end(&s, CANDIDATE_DECIDED, 44);
}

static void who_is_outbid_begins_above(void **state)
{
    struct vote_answer answer = { .type = VOTE_OUTBID, .voter = NAME };
    struct stand s;
    uint64_t due_ms;

    (void)state;
    stand(&s, 1);
    answer.ballot = answer.voted = s.c.ballot;
    step(&s, (struct candidate_event){ .type = CANDIDATE_ANSWER, .answer = &answer });
    assert_int_equal(s.c.no, 0); /* A doubled copy was outbid by the first. */
    hear(&s, 1, VOTE_OUTBID, 7, 0);
    assert_int_equal(s.c.state, CANDIDATE_PREPARING); /* Two are enough. */
    hear(&s, 2, VOTE_OUTBID, 8, 0);
    assert_int_equal(s.c.state, CANDIDATE_PAUSING);
    due_ms = candidate_deadline_ms(&s.c);
    assert_in_range(due_ms, 1001, 1000 + CANDIDATE_PAUSE_MS_MIN);
    step(&s, (struct candidate_event){ .type = CANDIDATE_TICK }); /* Too early. */
    assert_int_equal(s.out.count, 0);
    s.now_ms = due_ms;
    step(&s, (struct candidate_event){ .type = CANDIDATE_TICK });
    assert_int_equal(s.out.items[0].request.type, VOTE_PREPARE);
    assert_int_equal(s.out.items[0].request.ballot.round, 9);
}

static void silence_ends_the_ballot_and_then_the_candidate(void **state)
{
    struct stand s;
    uint64_t last_ms = 0;
    uint32_t ballots = 0;

    (void)state;
    stand(&s, 1);
    while (s.c.state != CANDIDATE_ENDED) {
        s.now_ms = candidate_deadline_ms(&s.c);
        assert_true(s.now_ms > last_ms && s.now_ms <= 5000);
        last_ms = s.now_ms;
        step(&s, (struct candidate_event){ .type = CANDIDATE_TICK });
        ballots += s.out.count > 0 && s.out.items[0].type == CANDIDATE_SEND;
    }
    assert_int_equal(s.now_ms, 5000);
    assert_in_range(ballots, 2, 6); /* The times double. */
    expect_end(&s, CANDIDATE_GIVEN_UP, 0);
}

static void a_newer_set_counts_anew(void **state)
{
    const struct voter_set five = { .version = 3,
                                    .count = 5,
                                    .ids = { 1, 2, NAME, NAME + 1, 900 } };
    struct stand s;

    (void)state;
    stand(&s, 1);
    hear(&s, 0, VOTE_PROMISED, 0, 0);
    step(&s, (struct candidate_event){ .type = CANDIDATE_VOTERS, .voters = &five });
    assert_int_equal(s.out.items[0].request.set_version, 3);
    assert_int_equal(s.out.items[0].request.ballot.round, 2);
    hear(&s, 0, VOTE_PROMISED, 0, 0);
    hear(&s, 1, VOTE_PROMISED, 0, 0);
    hear(&s, 2, VOTE_PROMISED, 0, 0); /* It is not in the set any more. */
    assert_int_equal(s.out.count, 0);
    hear(&s, 800, VOTE_PROMISED, 0, 0);
    assert_int_equal(s.out.items[0].request.type, VOTE_ACCEPT);
}

/* A copy of the request may be refused before the first one is granted. */
static void a_yes_counts_behind_a_no(void **state)
{
    struct stand s;

    (void)state;
    stand(&s, 1);
    hear(&s, 0, VOTE_NO_ROOM, 0, 0);
    hear(&s, 0, VOTE_NO_ROOM, 0, 0);
    hear(&s, 0, VOTE_PROMISED, 0, 0);
    hear(&s, 1, VOTE_NOT_ME, 0, 0);
    assert_int_equal(s.c.state, CANDIDATE_PREPARING);
    hear(&s, 2, VOTE_PROMISED, 0, 0);
    assert_int_equal(s.c.state, CANDIDATE_ACCEPTING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_voter_answers_no_ballot_below_its_promise),
        cmocka_unit_test(ballots_of_two_candidates_differ),
        cmocka_unit_test(an_answer_waits_for_the_disk),
        cmocka_unit_test(a_full_disk_refuses_the_vote_and_later_takes_it),
        cmocka_unit_test(a_later_epoch_takes_the_place_of_the_earlier),
        cmocka_unit_test(who_was_read_answers_no_older_set),
        cmocka_unit_test(what_is_for_another_id_is_refused),
        cmocka_unit_test(carried_votes_are_merged),
        cmocka_unit_test(a_restarted_voter_is_what_it_was),
        cmocka_unit_test(nonsense_is_not_valid),
        cmocka_unit_test(a_majority_decides),
        cmocka_unit_test(a_vote_that_was_given_is_finished_first),
        cmocka_unit_test(what_somebody_knows_is_decided),
        cmocka_unit_test(who_is_outbid_begins_above),
        cmocka_unit_test(silence_ends_the_ballot_and_then_the_candidate),
        cmocka_unit_test(a_newer_set_counts_anew),
        cmocka_unit_test(a_yes_counts_behind_a_no),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
