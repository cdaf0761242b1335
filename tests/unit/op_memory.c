/* Which operations a group remembers, for how long, and what is handed over. */
#include "iod/replica/op_memory.h"

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { NOT_AFTER_MS = 5000, KEPT_MS = NOT_AFTER_MS + OP_MEMORY_MARGIN_MS };

static const struct op_answer answer_7 = { 0, 7 };

static struct op_id op_of(client_id client, op_sequence number)
{
    return (struct op_id){ client, number };
}

static bool begin(struct op_memory *m, client_id client, op_sequence number, uint64_t now_ms)
{
    bool yes = op_memory_begin(m, op_of(client, number), NOT_AFTER_MS, now_ms);

    op_memory_check(m);
    return yes;
}

static void end(struct op_memory *m, client_id client, op_sequence number)
{
    op_memory_end(m, op_of(client, number), answer_7);
    op_memory_check(m);
}

static enum op_verdict find(const struct op_memory *m, client_id client, op_sequence number)
{
    struct op_answer known = { 0, 0 };
    enum op_verdict verdict = op_memory_find(m, op_of(client, number), &known);

    if (verdict == OP_DONE && known.status != MORSEL_UNSURE) {
        assert_int_equal(known.status, answer_7.status);
        assert_int_equal(known.verifier, answer_7.verifier);
    }
    return verdict;
}

static void an_operation_is_new_runs_and_is_done(void **state)
{
    struct op_memory *m = op_memory_new(2, 4);

    (void)state;
    assert_non_null(m);
    assert_int_equal(find(m, 1, 1), OP_NEW);
    assert_true(begin(m, 1, 1, 0));
    assert_true(begin(m, 1, 1, 0)); /* Harmless. */
    assert_int_equal(find(m, 1, 1), OP_RUNNING);
    end(m, 1, 1);
    assert_int_equal(find(m, 1, 1), OP_DONE);
    op_memory_drop(m, op_of(1, 1)); /* It does not run. */
    assert_int_equal(find(m, 1, 1), OP_DONE);
    assert_true(begin(m, 1, 2, 0));
    op_memory_drop(m, op_of(1, 2));
    assert_int_equal(find(m, 1, 2), OP_NEW);
    op_memory_drop(m, op_of(2, 9)); /* Nobody knows it. */
    end(m, 2, 9);
    assert_int_equal(find(m, 2, 9), OP_NEW);
    assert_int_equal(op_memory_count(m), 1);
    op_memory_free(m);
}

/* What a client does not wait for any more goes, and what runs as soon as it has ended. */
static void what_a_client_names_as_ended_goes(void **state)
{
    struct op_memory *m = op_memory_new(2, 4);

    (void)state;
    assert_true(begin(m, 1, 1, 0));
    assert_true(begin(m, 1, 2, 0));
    assert_true(begin(m, 1, 3, 0));
    end(m, 1, 1);
    end(m, 1, 3);
    op_memory_ended(m, 1, 2);
    op_memory_check(m);
    assert_int_equal(op_memory_count(m), 2);
    assert_int_equal(find(m, 1, 1), OP_OVER);
    assert_int_equal(find(m, 1, 2), OP_RUNNING);
    assert_int_equal(find(m, 1, 3), OP_DONE);
    op_memory_ended(m, 1, 1); /* Late. */
    end(m, 1, 2);
    assert_int_equal(find(m, 1, 2), OP_OVER);
    assert_int_equal(op_memory_count(m), 1);
    op_memory_ended(m, 5, 9); /* Nobody knows the client. */
    assert_int_equal(find(m, 5, 9), OP_NEW);
    op_memory_free(m);
}

/* Who is full refuses what is new, and forgets only what can come no more: not what runs, not before
 * the time of an operation is over, with a margin for clocks. */
static void nothing_is_forgotten_for_want_of_room(void **state)
{
    struct op_memory *m = op_memory_new(2, 2);

    (void)state;
    assert_true(begin(m, 1, 1, 0));
    assert_true(begin(m, 1, 2, 0));
    end(m, 1, 1);
    assert_false(begin(m, 1, 3, 0));
    assert_false(begin(m, 1, 3, KEPT_MS));
    assert_int_equal(find(m, 1, 1), OP_DONE);
    assert_true(begin(m, 1, 3, KEPT_MS + 1));
    assert_int_equal(find(m, 1, 1), OP_NEW);
    assert_int_equal(find(m, 1, 2), OP_RUNNING);
    assert_false(begin(m, 1, 4, KEPT_MS + 1));
    op_memory_free(m);
}

/* A client of which no operation is left stays known as long as one of its copies may come: what it has
 * named as ended would be new otherwise. */
static void a_client_is_known_as_long_as_its_copies_may_come(void **state)
{
    struct op_memory *m = op_memory_new(1, 8);

    (void)state;
    assert_true(begin(m, 1, 1, 0));
    end(m, 1, 1);
    op_memory_ended(m, 1, 1);
    assert_int_equal(op_memory_count(m), 0);
    assert_false(begin(m, 2, 1, KEPT_MS));
    assert_int_equal(find(m, 1, 1), OP_OVER);
    assert_true(begin(m, 2, 1, KEPT_MS + 1));
    assert_int_equal(find(m, 1, 1), OP_NEW);
    op_memory_clear(m);
    assert_int_equal(op_memory_count(m), 0);
    assert_true(begin(m, 3, 1, 0));
    op_memory_free(m);
}

/* ---- Handing over ---- */

static bool load(void *data, const struct op_known *known)
{
    bool yes = op_memory_load(data, known);

    op_memory_check(data);
    return yes;
}

static void who_takes_over_knows_the_same(void **state)
{
    struct op_memory *from = op_memory_new(2, 8), *to = op_memory_new(2, 8);

    (void)state;
    for (op_sequence number = 1; number <= 4; number++) {
        assert_true(begin(from, 1, number, 0));
    }
    end(from, 1, 1);
    end(from, 1, 2);
    end(from, 1, 3);
    op_memory_ended(from, 1, 1);
    assert_true(begin(from, 2, 1, 0));
    end(from, 2, 1);
    op_memory_ended(from, 2, 1);
    assert_true(op_memory_each(from, load, to));
    assert_true(op_memory_each(from, load, to)); /* Twice is once. */
    assert_int_equal(find(to, 1, 1), OP_OVER);
    assert_int_equal(find(to, 1, 2), OP_DONE);
    assert_int_equal(find(to, 1, 3), OP_DONE);
    assert_int_equal(find(to, 1, 4), OP_NEW); /* Whether it was carried out is still open. */
    assert_int_equal(find(to, 2, 1), OP_OVER);
    assert_int_equal(op_memory_count(to), 2);
    assert_false(begin(to, 3, 1, KEPT_MS)); /* Both clients are kept as long as there. */
    assert_true(begin(to, 3, 1, KEPT_MS + 1));
    op_memory_free(from);
    op_memory_free(to);
}

static bool is_unsure(const struct op_memory *m, client_id client, op_sequence number)
{
    struct op_answer known = { 0, 0 };

    return op_memory_find(m, op_of(client, number), &known) == OP_DONE &&
           known.status == MORSEL_UNSURE;
}

/* It ends in the middle: what the bytes have of what was done here nobody can say. */
static void until_all_is_handed_over_it_is_in_doubt(void **state)
{
    struct op_memory *from = op_memory_new(2, 8), *to = op_memory_new(2, 8);

    (void)state;
    for (op_sequence number = 1; number <= 3; number++) {
        assert_true(begin(to, 1, number, 0));
    }
    end(to, 1, 1);
    end(to, 1, 2);
    assert_true(begin(to, 2, 1, 0));
    end(to, 2, 1);
    assert_true(begin(from, 1, 1, 0));
    end(from, 1, 1);
    assert_true(op_memory_is_sure(to));
    op_memory_doubt(to);
    op_memory_check(to);
    assert_false(op_memory_is_sure(to));
    assert_true(is_unsure(to, 1, 1));
    assert_true(is_unsure(to, 1, 2));
    assert_true(is_unsure(to, 2, 1));
    assert_int_equal(find(to, 1, 3), OP_NEW); /* It was not begun. */
    assert_true(begin(from, 1, 4, 0));
    end(from, 1, 4);
    assert_true(op_memory_each(from, load, to));
    assert_true(is_unsure(to, 1, 1)); /* Not all bytes have come. */
    assert_true(is_unsure(to, 1, 2));
    assert_true(is_unsure(to, 1, 4));
    op_memory_doubt(to); /* Once more from the beginning. */
    assert_true(is_unsure(to, 1, 4));
    assert_true(op_memory_each(from, load, to));
    op_memory_settle(to);
    assert_true(op_memory_is_sure(to));
    assert_int_equal(find(to, 1, 1), OP_DONE);
    assert_int_equal(find(to, 1, 4), OP_DONE);
    op_memory_check(to);
    assert_false(is_unsure(to, 1, 1));
    assert_int_equal(find(to, 1, 2), OP_NEW);
    assert_int_equal(op_memory_count(to), 2);
    assert_true(begin(to, 3, 1, 0)); /* Of the other client nothing is left. */
    op_memory_free(from);
    op_memory_free(to);
}

/* A take-over of which nothing has come yet leaves what is done as it is. */
static void what_was_done_is_sure_until_something_comes(void **state)
{
    struct op_memory *m = op_memory_new(1, 2);

    (void)state;
    assert_true(begin(m, 1, 1, 0));
    end(m, 1, 1);
    assert_true(begin(m, 1, 2, 0));
    op_memory_stop(m);
    op_memory_check(m);
    assert_true(op_memory_is_sure(m));
    assert_int_equal(find(m, 1, 1), OP_DONE);
    assert_false(is_unsure(m, 1, 1));
    assert_int_equal(find(m, 1, 2), OP_NEW);
    op_memory_doubt(m);
    assert_true(is_unsure(m, 1, 1));
    op_memory_free(m);
}

/* What is said counts more than what is in doubt. */
static void what_is_in_doubt_gives_way(void **state)
{
    struct op_memory *from = op_memory_new(1, 2), *to = op_memory_new(1, 2);

    (void)state;
    for (op_sequence number = 1; number <= 2; number++) {
        assert_true(begin(from, 1, number, 0));
        end(from, 1, number);
        assert_true(begin(to, 2, number, 0));
        end(to, 2, number);
    }
    op_memory_doubt(to);
    assert_true(op_memory_each(from, load, to));
    op_memory_settle(to);
    assert_int_equal(find(to, 1, 1), OP_DONE);
    assert_int_equal(find(to, 1, 2), OP_DONE);
    assert_int_equal(find(to, 2, 1), OP_NEW);
    op_memory_free(from);
    op_memory_free(to);
}

static void who_has_no_room_says_so(void **state)
{
    struct op_memory *from = op_memory_new(2, 8), *few_ops = op_memory_new(2, 1);
    struct op_memory *few_clients = op_memory_new(1, 8);

    (void)state;
    assert_true(begin(from, 1, 1, 0));
    assert_true(begin(from, 1, 2, 0));
    end(from, 1, 1);
    end(from, 1, 2);
    assert_false(op_memory_each(from, load, few_ops));
    assert_true(op_memory_each(from, load, few_clients));
    assert_true(begin(from, 2, 1, 0));
    assert_false(op_memory_each(from, load, few_clients));
    op_memory_free(from);
    op_memory_free(few_ops);
    op_memory_free(few_clients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_is_new_runs_and_is_done),
        cmocka_unit_test(what_a_client_names_as_ended_goes),
        cmocka_unit_test(nothing_is_forgotten_for_want_of_room),
        cmocka_unit_test(a_client_is_known_as_long_as_its_copies_may_come),
        cmocka_unit_test(who_takes_over_knows_the_same),
        cmocka_unit_test(until_all_is_handed_over_it_is_in_doubt),
        cmocka_unit_test(what_was_done_is_sure_until_something_comes),
        cmocka_unit_test(what_is_in_doubt_gives_way),
        cmocka_unit_test(who_has_no_room_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
