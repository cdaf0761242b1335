/* Benefactors: who is here, and what is refused. */
#include "meta/cluster/donors.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LOOK_MS = 60000, REPORT_MS = 20000, PROCESS = 7, OTHER = 8, GIB = 1 << 30 };

struct world
{
    struct donors d;
    struct donors_actions out;
    uint64_t now_ms;
};

static struct world *world_new(void)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->now_ms = 1000;
    donors_init(&w->d, LOOK_MS);
    return w;
}

static void world_free(struct world *w)
{
    donors_free(&w->d);
    free(w);
}

static void step(struct world *w, struct donors_event event)
{
    event.now_ms = w->now_ms;
    w->out.count = 0;
    donors_step(&w->d, &event, &w->out);
    if (w->d.count < 100) {
        donors_check(&w->d);
    }
}

static struct donor_record record_of(uint32_t directory, donor_id id)
{
    struct donor_record record = { .id = id, .name = "desk" };

    memcpy(record.token, &directory, sizeof(directory));
    return record;
}

static void join(struct world *w, uint32_t directory, donor_id id, uint64_t instance)
{
    struct donors_event event = { .type = DONORS_JOIN };

    event.join.tag = 1000 + directory;
    event.join.record = record_of(directory, id);
    event.join.instance = instance;
    memcpy(event.join.address, "10.0.0.1:7", sizeof("10.0.0.1:7"));
    event.join.report = (struct donor_report){ .donated = GIB, .used = 1000 };
    step(w, event);
}

static void persisted(struct world *w, donor_id id, int status)
{
    struct donors_event event = { .type = DONORS_PERSISTED };

    event.persisted.id = id;
    event.persisted.status = status;
    step(w, event);
}

static void report(struct world *w, donor_id id, uint64_t instance, bool leaves)
{
    struct donors_event event = { .type = DONORS_REPORT };

    event.report.tag = 5;
    event.report.id = id;
    event.report.instance = instance;
    event.report.report = (struct donor_report){ .donated = GIB, .used = 2000 };
    event.report.leaves = leaves;
    step(w, event);
}

static void gone(struct world *w, donor_id id, uint64_t instance)
{
    struct donors_event event = { .type = DONORS_GONE };

    event.gone.id = id;
    event.gone.instance = instance;
    step(w, event);
}

static void tick(struct world *w)
{
    step(w, (struct donors_event){ .type = DONORS_TICK });
}

static void wait_ms(struct world *w, uint64_t ms)
{
    w->now_ms += ms;
    tick(w);
}

/* The types of what the last step said, in order. */
static void said(const struct world *w, uint32_t count, const int *types)
{
    assert_int_equal(w->out.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(w->out.items[i].type, types[i]);
    }
}
#define SAID(w, ...)                                                                               \
    said(w, ARRAY_COUNT(((const int[]){ __VA_ARGS__ })), (const int[]){ __VA_ARGS__ })

static void refused(const struct world *w, uint64_t tag, int status)
{
    SAID(w, DONORS_REFUSE);
    assert_int_equal(w->out.items[0].tag, tag);
    assert_int_equal(w->out.items[0].status, status);
    assert_non_null(w->out.items[0].reason);
}

static void admit(struct world *w, uint32_t directory, donor_id id)
{
    join(w, directory, 0, PROCESS);
    SAID(w, DONORS_PERSIST);
    assert_int_equal(w->out.items[0].id, id);
    persisted(w, id, 0);
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    assert_int_equal(w->out.items[0].tag, 1000 + directory);
    assert_int_equal(w->out.items[0].id, id);
}

static enum donor_state state(const struct world *w, donor_id id)
{
    return donors_find(&w->d, id)->state;
}

/* ---- Coming ---- */

static void who_joins_is_welcomed_when_its_record_is_durable(void **state_)
{
    struct world *w = world_new();

    (void)state_;
    join(w, 1, 0, PROCESS);
    SAID(w, DONORS_PERSIST);
    assert_int_equal(w->d.here, 0);
    assert_int_equal(w->d.donated, 0);
    report(w, 1, PROCESS, false);
    refused(w, 5, MORSEL_NO_SESSION);
    persisted(w, 1, 0);
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    assert_int_equal(state(w, 1), DONOR_HERE);
    assert_int_equal(w->d.here, 1);
    assert_int_equal(w->d.donated, GIB);
    assert_int_equal(w->d.used, 1000);
    report(w, 1, PROCESS, false);
    SAID(w, DONORS_ALIVE);
    assert_int_equal(w->out.items[0].tag, 5);
    assert_int_equal(w->d.used, 2000);
    world_free(w);
}

static void whose_record_cannot_be_written_is_refused_and_its_number_is_never_given_again(void **s)
{
    struct world *w = world_new();

    (void)s;
    join(w, 1, 0, PROCESS);
    persisted(w, 1, MORSEL_IO);
    refused(w, 1001, MORSEL_IO);
    assert_null(donors_find(&w->d, 1));
    assert_true(donors_is_new(&w->d, record_of(1, 0).token));
    admit(w, 1, 2);
    assert_false(donors_is_new(&w->d, record_of(1, 0).token));
    world_free(w);
}

static void a_join_whose_answer_was_lost_gets_the_same_number(void **s)
{
    struct world *w = world_new();

    (void)s;
    join(w, 1, 0, PROCESS);
    join(w, 1, 0, PROCESS); /* Before the record is there. */
    refused(w, 1001, MORSEL_AGAIN);
    join(w, 1, 0, OTHER);
    refused(w, 1001, MORSEL_BUSY);
    persisted(w, 1, 0);
    join(w, 1, 0, PROCESS);
    SAID(w, DONORS_WELCOME);
    assert_int_equal(w->out.items[0].id, 1);
    join(w, 1, 1, PROCESS);
    SAID(w, DONORS_WELCOME);
    assert_int_equal(w->d.count, 1);
    world_free(w);
}

static void numbers_and_tokens_must_belong_together(void **s)
{
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    admit(w, 2, 2);
    join(w, 1, 2, PROCESS);
    refused(w, 1001, MORSEL_INVAL);
    join(w, 1, 9, PROCESS);
    refused(w, 1001, MORSEL_INVAL);
    join(w, 3, 2, PROCESS); /* Of another directory. */
    refused(w, 1003, MORSEL_INVAL);
    join(w, 3, 9, PROCESS); /* Never given. */
    refused(w, 1003, MORSEL_INVAL);
    assert_int_equal(w->d.count, 2);
    world_free(w);
}

static void the_cluster_is_full(void **s)
{
    struct world *w = world_new();

    (void)s;
    for (uint32_t i = 1; i <= DONORS_MAX; i++) {
        admit(w, i, i);
    }
    join(w, DONORS_MAX + 1, 0, PROCESS);
    refused(w, 1000 + DONORS_MAX + 1, MORSEL_TOO_LARGE);
    join(w, 5, 5, PROCESS); /* Who is one of them comes in. */
    SAID(w, DONORS_WELCOME);
    donors_check(&w->d);
    world_free(w);
}

/* The record of the last number that there is: it comes from a damaged database, or from somebody's hands. */
static void there_are_no_more_numbers(void **s)
{
    const struct donor_record last = record_of(1, UINT32_MAX);
    struct world *w = world_new();

    (void)s;
    assert_int_equal(donors_add(&w->d, &last, w->now_ms), 0);
    join(w, 2, 0, PROCESS);
    refused(w, 1002, MORSEL_TOO_LARGE);
    join(w, 1, UINT32_MAX, PROCESS);
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    world_free(w);
}

static void nobody_donates_more_than_there_is(void **s)
{
    struct donors_event event = { .type = DONORS_REPORT };
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    admit(w, 2, 2);
    for (donor_id id = 1; id <= 2; id++) {
        event.report.id = id;
        event.report.instance = PROCESS;
        event.report.report = (struct donor_report){ .donated = UINT64_MAX, .used = UINT64_MAX };
        step(w, event);
    }
    assert_true(w->d.donated == 2 * DONOR_BYTES_MAX && w->d.used == 2 * DONOR_BYTES_MAX);
    world_free(w);
}

/* ---- Going ---- */

static void who_is_silent_is_asked_once_and_then_away(void **s)
{
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    wait_ms(w, LOOK_MS - 1);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(donors_deadline_ms(&w->d), w->now_ms + 1);
    wait_ms(w, 1);
    SAID(w, DONORS_ASK);
    assert_int_equal(state(w, 1), DONOR_DOUBTED);
    assert_int_equal(w->d.donated, 0);
    wait_ms(w, DONORS_ANSWER_MS - 1);
    assert_int_equal(w->out.count, 0);
    wait_ms(w, 1);
    SAID(w, DONORS_HANG_UP, DONORS_WENT);
    assert_int_equal(state(w, 1), DONOR_AWAY);
    assert_int_equal(donors_find(&w->d, 1)->since_ms, w->now_ms);
    assert_true(donors_deadline_ms(&w->d) == UINT64_MAX);
    report(w, 1, PROCESS, false); /* A laptop that wakes up. */
    refused(w, 5, MORSEL_NO_SESSION);
    join(w, 1, 1, PROCESS);
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    world_free(w);
}

static void an_answer_in_time_is_no_news(void **s)
{
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    wait_ms(w, LOOK_MS);
    SAID(w, DONORS_ASK);
    w->now_ms += DONORS_ANSWER_MS - 1;
    report(w, 1, PROCESS, false);
    SAID(w, DONORS_ALIVE);
    assert_int_equal(state(w, 1), DONOR_HERE);
    wait_ms(w, LOOK_MS - 1);
    assert_int_equal(w->out.count, 0);
    wait_ms(w, 1);
    SAID(w, DONORS_ASK);
    world_free(w);
}

static void who_lost_its_connection_has_time_for_another_one(void **s)
{
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    gone(w, 1, OTHER); /* Of a process before. */
    assert_int_equal(state(w, 1), DONOR_HERE);
    gone(w, 9, PROCESS);
    gone(w, 1, PROCESS);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(state(w, 1), DONOR_DOUBTED);
    report(w, 1, PROCESS, false); /* Of what connection? */
    refused(w, 5, MORSEL_NO_SESSION);
    wait_ms(w, DONORS_ANSWER_MS - 1);
    join(w, 1, 1, PROCESS);
    SAID(w, DONORS_WELCOME); /* No news. */
    gone(w, 1, PROCESS);
    gone(w, 1, PROCESS); /* Counts once. */
    wait_ms(w, DONORS_ANSWER_MS);
    SAID(w, DONORS_WENT);
    world_free(w);
}

static void who_leaves_is_away_at_once(void **s)
{
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    report(w, 1, PROCESS, true);
    SAID(w, DONORS_ALIVE, DONORS_WENT);
    assert_int_equal(w->d.donated, 0);
    report(w, 1, PROCESS, false); /* Late. */
    refused(w, 5, MORSEL_NO_SESSION);
    join(w, 1, 1, OTHER); /* The next process. */
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    world_free(w);
}

/* ---- One directory, one process ---- */

static void another_process_waits_until_the_first_is_gone(void **s)
{
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    join(w, 1, 1, OTHER);
    refused(w, 1001, MORSEL_BUSY);
    assert_int_equal(state(w, 1), DONOR_HERE);
    wait_ms(w, LOOK_MS); /* Its cable was pulled. */
    join(w, 1, 1, OTHER);
    refused(w, 1001, MORSEL_BUSY);
    wait_ms(w, DONORS_ANSWER_MS);
    SAID(w, DONORS_HANG_UP, DONORS_WENT);
    join(w, 1, 1, OTHER);
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    report(w, 1, PROCESS, false);
    refused(w, 5, MORSEL_NO_SESSION);
    gone(w, 1, PROCESS); /* Only now the end of it is heard. */
    assert_int_equal(state(w, 1), DONOR_HERE);
    gone(w, 1, OTHER); /* Killed, and started again. */
    join(w, 1, 1, PROCESS);
    SAID(w, DONORS_WELCOME);
    world_free(w);
}

/* A laptop at another address: nobody has heard of the end of its connection. */
static void the_same_process_is_welcome_from_anywhere(void **s)
{
    struct donors_event event = { .type = DONORS_JOIN };
    struct world *w = world_new();

    (void)s;
    admit(w, 1, 1);
    event.join.tag = 77;
    event.join.record = record_of(1, 1);
    event.join.instance = PROCESS;
    memcpy(event.join.address, "10.9.9.9:7", sizeof("10.9.9.9:7"));
    step(w, event);
    SAID(w, DONORS_WELCOME);
    assert_string_equal(donors_find(&w->d, 1)->address, "10.9.9.9:7");
    world_free(w);
}

/* ---- The manager is started again ---- */

static void those_of_before_are_doubted_and_asked_nothing(void **s)
{
    struct world *w = world_new();

    (void)s;
    for (uint32_t i = 1; i <= 3; i++) {
        const struct donor_record record = record_of(i, i);

        assert_int_equal(donors_add(&w->d, &record, w->now_ms), 0);
        assert_int_equal(state(w, i), DONOR_DOUBTED);
    }
    assert_int_equal(w->d.donated, 0);
    join(w, 2, 2, OTHER); /* Whoever it is: nothing is known of processes. */
    SAID(w, DONORS_WELCOME, DONORS_CAME);
    wait_ms(w, LOOK_MS - 1);
    assert_int_equal(state(w, 1), DONOR_DOUBTED);
    wait_ms(w, 1);
    SAID(w,
         DONORS_ASK); /* The second one. Of those who did not come there is nothing new to say. */
    assert_int_equal(state(w, 1), DONOR_AWAY);
    assert_int_equal(state(w, 3), DONOR_AWAY);
    admit(w, 4, 4);
    world_free(w);
}

static void records_that_do_not_fit_together_are_refused(void **s)
{
    const struct donor_record good = record_of(1, 1), no_id = record_of(2, 0),
                              same_id = record_of(2, 1), same_token = record_of(1, 2);
    struct world *w = world_new();

    (void)s;
    assert_int_equal(donors_add(&w->d, &no_id, 0), MORSEL_CORRUPT);
    assert_int_equal(donors_add(&w->d, &good, 0), 0);
    assert_int_equal(donors_add(&w->d, &same_id, 0), MORSEL_CORRUPT);
    assert_int_equal(donors_add(&w->d, &same_token, 0), MORSEL_CORRUPT);
    assert_int_equal(w->d.count, 1);
    world_free(w);
}

/* ---- What it costs ---- */

static uint64_t tick_while_due(struct world *w, uint32_t *asked, uint32_t *away)
{
    uint64_t ticks = 0;

    while (donors_deadline_ms(&w->d) <= w->now_ms) {
        tick(w);
        ticks++;
        for (uint32_t i = 0; i < w->out.count; i++) {
            *asked += w->out.items[i].type == DONORS_ASK;
            *away += w->out.items[i].type == DONORS_WENT;
        }
    }
    return ticks;
}

/* An hour of 10,000: as long as they speak nobody is looked at, and who does not costs two looks. */
static void those_that_speak_cost_nothing_beside(void **s)
{
    enum { MANY = 10000, SILENT = 100, HOUR_MS = 3600000, BEAT_MS = REPORT_MS / MANY };
    uint32_t asked = 0, away = 0;
    uint64_t ticks = 0;
    struct world *w = world_new();

    (void)s;
    for (uint32_t i = 1; i <= MANY; i++) {
        admit(w, i, i);
    }
    for (uint32_t n = 0; n < HOUR_MS / BEAT_MS; n++) {
        report(w, n % MANY + 1, PROCESS, false);
        w->now_ms += BEAT_MS;
        ticks += tick_while_due(w, &asked, &away);
    }
    assert_int_equal(ticks + w->d.looks, 0);
    for (uint32_t n = 0; n < HOUR_MS / BEAT_MS; n++) {
        if (n % MANY >= SILENT) {
            report(w, n % MANY + 1, PROCESS, false);
        }
        w->now_ms += BEAT_MS;
        ticks += tick_while_due(w, &asked, &away);
    }
    assert_int_equal(asked, SILENT);
    assert_int_equal(away, SILENT);
    assert_int_equal(w->d.looks, 2 * SILENT);
    assert_true(ticks <= 2 * SILENT);
    assert_int_equal(w->d.here, MANY - SILENT);
    donors_check(&w->d);
    world_free(w);
}

/* All at the same moment: no step does more than its part, and none is forgotten. */
static void all_vanish_at_once(void **s)
{
    enum { MANY = 1000 };
    uint32_t asked = 0, away = 0;
    struct world *w = world_new();

    (void)s;
    for (uint32_t i = 1; i <= MANY; i++) {
        admit(w, i, i);
    }
    w->now_ms += LOOK_MS;
    assert_true(tick_while_due(w, &asked, &away) >= MANY / DONORS_ACTIONS_MAX);
    assert_int_equal(asked, MANY);
    assert_int_equal(w->d.here, 0);
    w->now_ms += DONORS_ANSWER_MS;
    (void)tick_while_due(w, &asked, &away);
    assert_int_equal(away, MANY);
    assert_int_equal(w->d.looks, 2 * MANY);
    world_free(w);
}

/* ---- A page of them ---- */

static void they_are_found_in_the_order_of_their_numbers(void **s)
{
    static const donor_id ids[] = { 7, 3, 900, 12 };
    struct world *w = world_new();

    (void)s;
    for (uint32_t i = 0; i < ARRAY_COUNT(ids); i++) {
        const struct donor_record record = record_of(i, ids[i]);

        assert_int_equal(donors_add(&w->d, &record, 0), 0);
    }
    assert_int_equal(donors_from(&w->d, 0), 0);
    assert_int_equal(w->d.items[donors_from(&w->d, 4)]->record.id, 7);
    assert_int_equal(w->d.items[donors_from(&w->d, 12)]->record.id, 12);
    assert_int_equal(w->d.items[donors_from(&w->d, 13)]->record.id, 900);
    assert_int_equal(donors_from(&w->d, 901), w->d.count);
    assert_null(donors_find(&w->d, 8));
    assert_int_equal(donors_find(&w->d, 900)->record.id, 900);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_joins_is_welcomed_when_its_record_is_durable),
        cmocka_unit_test(
            whose_record_cannot_be_written_is_refused_and_its_number_is_never_given_again),
        cmocka_unit_test(a_join_whose_answer_was_lost_gets_the_same_number),
        cmocka_unit_test(numbers_and_tokens_must_belong_together),
        cmocka_unit_test(the_cluster_is_full),
        cmocka_unit_test(there_are_no_more_numbers),
        cmocka_unit_test(nobody_donates_more_than_there_is),
        cmocka_unit_test(who_is_silent_is_asked_once_and_then_away),
        cmocka_unit_test(an_answer_in_time_is_no_news),
        cmocka_unit_test(who_lost_its_connection_has_time_for_another_one),
        cmocka_unit_test(who_leaves_is_away_at_once),
        cmocka_unit_test(another_process_waits_until_the_first_is_gone),
        cmocka_unit_test(the_same_process_is_welcome_from_anywhere),
        cmocka_unit_test(those_of_before_are_doubted_and_asked_nothing),
        cmocka_unit_test(records_that_do_not_fit_together_are_refused),
        cmocka_unit_test(those_that_speak_cost_nothing_beside),
        cmocka_unit_test(all_vanish_at_once),
        cmocka_unit_test(they_are_found_in_the_order_of_their_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
