/* What an I/O daemon remembers of changes of data: of one number at most one is carried out. */
#include "common/serve/repeats.h"

#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/rpc/op_numbers.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum repeats_verdict find(struct repeats *r, client_id client, op_sequence number,
                                 op_sequence ended, bool again)
{
    struct repeats_change change = { client, number, ended, again, 0 };
    struct repeats_answer answer = { 0 };
    void *runner = NULL;

    return repeats_find(r, &change, &runner, &answer);
}

static void carry_out(struct repeats *r, client_id client, op_sequence number, op_sequence ended)
{
    struct repeats_change change = { client, number, ended, false, 0 };
    struct repeats_answer answer = { MORSEL_OK, number * 10 };

    assert_int_equal(find(r, client, number, ended, false), REPEATS_NEW);
    assert_true(repeats_begin(r, &change, r));
    repeats_end(r, client, number, &answer);
}

static struct repeats *some(void)
{
    struct repeats *r = repeats_new(SESSIONS_MAX, DATA_OPS_SLOTS_MAX);

    assert_non_null(r);
    return r;
}

static void a_repeat_gets_the_first_answer(void **state)
{
    struct repeats *r = some();
    struct repeats_change change = { 1, 1, 0, false, 0 };
    struct repeats_answer refusal = { MORSEL_NOSPC, 77 }, answer = { 0 };
    void *runner = NULL;

    (void)state;
    assert_int_equal(repeats_find(r, &change, &runner, &answer), REPEATS_NEW);
    assert_int_equal(find(r, 1, 1, 0, true), REPEATS_NEW); /* The first copy never came. */
    assert_true(repeats_begin(r, &change, &refusal));
    assert_int_equal(repeats_find(r, &change, &runner, &answer), REPEATS_RUNNING);
    assert_ptr_equal(runner, &refusal);
    repeats_end(r, 1, 1, &refusal);
    for (int again = 0; again < 2; again++) { /* However late a copy comes. */
        change.again = again != 0;
        assert_int_equal(repeats_find(r, &change, &runner, &answer), REPEATS_DONE);
        assert_int_equal(answer.status, MORSEL_NOSPC);
        assert_int_equal(answer.verifier, 77);
    }
    assert_int_equal(find(r, 2, 1, 0, false), REPEATS_NEW); /* Another client's. */
    repeats_free(r);
}

static void what_has_ended_is_over(void **state)
{
    struct repeats *r = some();

    (void)state;
    carry_out(r, 1, 1, 0);
    carry_out(r, 1, 2, 1);
    assert_int_equal(find(r, 1, 1, 0, false), REPEATS_OVER);
    assert_int_equal(find(r, 1, 2, 1, true), REPEATS_DONE);
    assert_int_equal(find(r, 1, 3, 3, false), REPEATS_OVER); /* Nonsense. */
    assert_int_equal(find(r, 5, 3, 9, false), REPEATS_OVER);
    repeats_free(r);
}

/* One change takes long: its place stays its own, everybody else's is used again and again. */
static void one_that_takes_long_keeps_its_place(void **state)
{
    struct repeats *r = some();
    struct repeats_change slow = { 1, 1, 0, false, 0 };
    struct repeats_counts counts;

    (void)state;
    assert_true(repeats_begin(r, &slow, r));
    for (op_sequence i = 2; i <= 3 * DATA_OPS_PENDING_MAX; i++) {
        if (i % DATA_OPS_PENDING_MAX != 1) {
            carry_out(r, 1, i, 0);
        }
    }
    assert_int_equal(find(r, 1, 1, 0, true), REPEATS_RUNNING);
    assert_int_equal(find(r, 1, 2, 0, true), REPEATS_OVER);
    assert_int_equal(find(r, 1, 2 * DATA_OPS_PENDING_MAX + 2, 0, true), REPEATS_DONE);
    repeats_count(r, &counts);
    assert_int_equal(counts.slots, DATA_OPS_PENDING_MAX);
    repeats_free(r);
}

/* Its client gave it up, and its place was used again, while it was at work: it is not met again.
 */
static void what_was_given_up_does_not_come_back(void **state)
{
    struct repeats *r = some();
    struct repeats_change stuck = { 1, 1, 0, false, 0 };
    struct repeats_answer answer = { MORSEL_OK, 3 };
    void *runner = NULL;

    (void)state;
    assert_true(repeats_begin(r, &stuck, &stuck));
    carry_out(r, 1, 1 + DATA_OPS_PENDING_MAX, 1);
    repeats_end(r, 1, 1, &answer);
    assert_int_equal(find(r, 1, 1, 0, false), REPEATS_OVER);
    stuck.number += DATA_OPS_PENDING_MAX;
    assert_int_equal(repeats_find(r, &stuck, &runner, &answer), REPEATS_DONE);
    assert_int_equal(answer.verifier, stuck.number * 10);
    repeats_free(r);
}

static void little_is_remembered_of_who_waits_for_little(void **state)
{
    struct repeats *r = some();
    struct repeats_counts counts;

    (void)state;
    for (op_sequence i = 1; i <= 100000; i++) {
        carry_out(r, 1, i, i > DATA_OPS_SLOTS_MIN ? i - DATA_OPS_SLOTS_MIN : 0);
    }
    repeats_count(r, &counts);
    assert_int_equal(counts.slots, DATA_OPS_SLOTS_MIN);
    assert_int_equal(counts.forgotten, 0);
    repeats_free(r);
}

static void what_was_forgotten_is_not_carried_out(void **state)
{
    struct repeats *r = repeats_new(2, DATA_OPS_PENDING_MAX);
    struct repeats_counts counts;

    (void)state;
    carry_out(r, 1, 7, 6);
    carry_out(r, 2, 1, 0);
    carry_out(r, 3, 1, 0); /* The first is forgotten. */
    repeats_count(r, &counts);
    assert_int_equal(counts.clients, 2);
    assert_int_equal(counts.forgotten, 1);
    assert_int_equal(find(r, 1, 7, 6, true), REPEATS_UNKNOWN);
    /* It goes on with what it sends for the first time, and that helps nothing of before. */
    carry_out(r, 1, 9, 6);
    assert_int_equal(find(r, 1, 7, 6, true), REPEATS_UNKNOWN);
    assert_int_equal(find(r, 1, 8, 6, true), REPEATS_UNKNOWN);
    assert_int_equal(find(r, 1, 9, 6, true), REPEATS_DONE);
    assert_int_equal(find(r, 1, 10, 6, true), REPEATS_NEW); /* Sent first after 9 was. */
    /* One that grows makes others go, and not itself. */
    carry_out(r, 3, DATA_OPS_PENDING_MAX, 0);
    repeats_count(r, &counts);
    assert_int_equal(counts.clients, 1);
    assert_int_equal(counts.slots, DATA_OPS_PENDING_MAX);
    assert_int_equal(find(r, 3, 1, 0, true), REPEATS_DONE);
    repeats_free(r);
}

/* ---- Against a model ----
 *
 * Clients over connections that break. Model: how often each number was carried out, and how it was
 * answered. */

enum { CLIENTS = 5, OUT_MAX = 48, NUMBERS = 60000, TURNS = 60000 };

struct pending
{
    op_sequence number;
    bool sent; /* To this run of the server. */
    enum { AT_CLIENT, ON_THE_WAY, AT_WORK, ANSWERED } place;
    op_sequence ended; /* As its frame says. */
    bool again;
};

struct one
{
    struct op_numbers numbers;
    op_sequence places[DATA_OPS_PENDING_MAX];
    struct pending out[OUT_MAX]; /* By age. */
    unsigned out_count;
    uint8_t done[NUMBERS];
};

struct world
{
    struct prng prng;
    struct repeats *r;
    struct one clients[CLIENTS];
    unsigned repeats, unknown, over, slow;
};

static void drop(struct one *c, unsigned at)
{
    op_numbers_return(&c->numbers, c->out[at].number);
    memmove(&c->out[at], &c->out[at + 1], (c->out_count - at - 1) * sizeof(c->out[0]));
    c->out_count--;
}

/* In the order of their numbers: those that come again first. */
static void send_all(struct one *c)
{
    for (unsigned i = 0; i < c->out_count; i++) {
        struct pending *p = &c->out[i];

        if (p->place == AT_CLIENT) {
            p->place = ON_THE_WAY;
            p->again = p->sent;
            p->sent = true;
            p->ended = c->numbers.answered;
        }
    }
}

static void arrive(struct world *w, client_id id, struct pending *p)
{
    struct repeats_change change = { id + 1, p->number, p->ended, p->again, 0 };
    struct repeats_answer answer = { 1, 1 };
    struct repeats_counts counts;
    void *runner = NULL;

    switch (repeats_find(w->r, &change, &runner, &answer)) {
    case REPEATS_NEW:
        assert_int_equal(w->clients[id].done[p->number]++, 0);
        assert_true(repeats_begin(w->r, &change, &w->clients[id].done[p->number]));
        p->place = AT_WORK;
        break;
    case REPEATS_RUNNING:
        assert_ptr_equal(runner, &w->clients[id].done[p->number]);
        p->place = AT_WORK;
        break;
    case REPEATS_DONE:
        assert_int_equal(w->clients[id].done[p->number], 1);
        assert_int_equal(answer.verifier, p->number + id);
        w->repeats += p->again;
        p->place = ANSWERED;
        break;
    case REPEATS_UNKNOWN:
        repeats_count(w->r, &counts);
        assert_true(p->again && counts.forgotten > 0);
        w->unknown++;
        p->place = ANSWERED;
        break;
    case REPEATS_OVER:
        fail_msg("client %lu waits for %lu", (unsigned long)id, (unsigned long)p->number);
    }
}

static void finish(struct world *w, client_id id, struct pending *p)
{
    struct repeats_answer answer = { MORSEL_OK, p->number + id };

    repeats_end(w->r, id + 1, p->number, &answer);
    p->place = ANSWERED;
}

/* The connection breaks. What the server has at work ends before the next one is greeted. */
static void break_off(struct world *w, client_id id)
{
    struct one *c = &w->clients[id];

    for (unsigned i = 0; i < c->out_count; i++) {
        struct pending *p = &c->out[i];

        if (p->place == AT_WORK) {
            finish(w, id, p);
        }
        p->place = AT_CLIENT;
    }
}

static void turn(struct world *w)
{
    client_id id = prng_below(&w->prng, prng_below(&w->prng, 4) == 0 ? CLIENTS : 2);
    struct one *c = &w->clients[id];
    unsigned at = c->out_count == 0 ? 0 : (unsigned)prng_below(&w->prng, c->out_count);
    struct pending *p = &c->out[at];
    uint64_t draw = prng_below(&w->prng, 100);

    if (draw < 25 && c->out_count < OUT_MAX && c->numbers.last < NUMBERS - DATA_OPS_PENDING_MAX) {
        c->out[c->out_count++] =
            (struct pending){ .number = op_numbers_take(&c->numbers, 0), .place = AT_CLIENT };
    } else if (draw < 35) {
        send_all(c);
    } else if (draw < 60) { /* A connection keeps the order. */
        for (at = 0; at < c->out_count && c->out[at].place != ON_THE_WAY; at++) {
        }
        if (at < c->out_count) {
            arrive(w, id, &c->out[at]);
        }
    } else if (draw < 62) {
        break_off(w, id);
    } else if (draw == 62 && at == 0 && c->out_count > 0 && p->place != AT_WORK) {
        drop(c, at); /* Given up. */
    } else if (c->out_count > 0 && p->place == AT_WORK) {
        finish(w, id, p);
    } else if (c->out_count > 0 && p->place == ANSWERED && (at > 0 || draw > 98)) {
        w->slow += c->numbers.last - c->numbers.answered > DATA_OPS_PENDING_MAX;
        drop(c, at);
    }
}

static void run_model(uint32_t clients_max, uint32_t slots_max, unsigned *unknown)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->prng = (struct prng){ test_seed_first() };
    w->r = repeats_new(clients_max, slots_max);
    for (unsigned i = 0; i < CLIENTS; i++) {
        op_numbers_init(&w->clients[i].numbers, w->clients[i].places, DATA_OPS_PENDING_MAX);
    }
    for (unsigned i = 0; i < TURNS * 10; i++) {
        turn(w);
    }
    print_message("%u repeats, %u unknown, %u beside a slow one\n", w->repeats, w->unknown,
                  w->slow);
    assert_true(w->repeats > 1000);
    *unknown = w->unknown;
    repeats_free(w->r);
    free(w);
}

static void agrees_with_a_model(void **state)
{
    unsigned unknown;

    (void)state;
    run_model(CLIENTS, CLIENTS * DATA_OPS_PENDING_MAX, &unknown);
    assert_int_equal(unknown, 0);
}

static void agrees_with_a_model_that_forgets(void **state)
{
    unsigned unknown;

    (void)state;
    run_model(CLIENTS - 2, 2 * DATA_OPS_PENDING_MAX, &unknown);
    assert_true(unknown > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeat_gets_the_first_answer),
        cmocka_unit_test(what_has_ended_is_over),
        cmocka_unit_test(one_that_takes_long_keeps_its_place),
        cmocka_unit_test(what_was_given_up_does_not_come_back),
        cmocka_unit_test(little_is_remembered_of_who_waits_for_little),
        cmocka_unit_test(what_was_forgotten_is_not_carried_out),
        cmocka_unit_test(agrees_with_a_model),
        cmocka_unit_test(agrees_with_a_model_that_forgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
