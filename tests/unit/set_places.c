/* Places asked for ahead: a writer in order never finds none, and nothing is given that the manager did not say, against a manager
 * that the test plays. */
#include "client/datasets/set_places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

enum { COPIES = 2, DONORS = 9 };

/* What the manager says of a morsel; `round` changes with each question. */
static donor_id donor_of(uint32_t number, uint32_t copy, uint32_t round)
{
    return (number + copy + round) % DONORS + 1;
}

static void answer(struct set_places *p, uint32_t first, uint32_t count, uint32_t round)
{
    donor_id donors[SET_PLACE_MAX * COPIES];

    assert_true(count <= SET_PLACE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < COPIES; j++) {
            donors[i * COPIES + j] = donor_of(first + i, j, round);
        }
    }
    assert_true(set_places_learn(p, first, COPIES, donors, (size_t)count * COPIES));
}

static void in_order_nobody_waits(void **state)
{
    struct set_places p;
    donor_id donors[REPLICAS_MAX];
    uint32_t first, count, questions = 0, waited = 0;

    (void)state;
    set_places_init(&p);
    for (uint32_t number = 0; number < 10000; number++) {
        if (set_places_get(&p, number, donors) == 0) {
            waited++;
        }
        if (set_places_wants(&p, number, &first, &count)) {
            assert_int_equal(first, p.count == 0 ? number : p.first + p.count);
            answer(&p, first, count, 0);
            questions++;
        }
        assert_int_equal(set_places_get(&p, number, donors), COPIES);
        assert_int_equal(donors[0], donor_of(number, 0, 0));
        assert_int_equal(donors[1], donor_of(number, 1, 0));
    }
    assert_int_equal(waited, 1);
    assert_in_range(questions, 10000 / SET_PLACES_AHEAD, 10000 / SET_PLACES_AHEAD + 8);
}

/* Of a writer who jumps: what is given for a morsel is what was said last of it. */
static void nothing_is_made_up(void **state)
{
    static uint32_t said[5000];
    struct set_places p;
    struct prng prng;
    donor_id donors[REPLICAS_MAX];
    uint32_t first, count, number = 0;

    (void)state;
    prng_seed(&prng, test_seed_first());
    set_places_init(&p);
    for (uint32_t round = 1; round < 20000; round++) {
        number =
            prng_below(&prng, 4) == 0 ? (uint32_t)prng_below(&prng, 4000) : (number + 1) % 4000;
        if (set_places_wants(&p, number, &first, &count)) {
            uint32_t got = 1 + (uint32_t)prng_below(&prng, count); /* Perhaps fewer. */

            answer(&p, first, got, round);
            for (uint32_t i = 0; i < got; i++) {
                said[first + i] = round;
            }
        }
        if (set_places_get(&p, number, donors) != 0) {
            assert_int_equal(donors[0], donor_of(number, 0, said[number]));
            assert_int_equal(donors[1], donor_of(number, 1, said[number]));
        }
        assert_true(p.count <= SET_PLACES_MAX);
    }
}

static void who_failed_is_named(void **state)
{
    struct set_places p;
    donor_id donors[SET_FAILED_MAX];
    uint32_t first, count;

    (void)state;
    set_places_init(&p);
    assert_true(set_places_wants(&p, 0, &first, &count));
    answer(&p, first, count, 0);
    assert_int_equal(set_places_list_failed(&p, 0, donors), 0);
    set_places_failed(&p, 4, false, 1000, SET_FAILED_MS);
    set_places_failed(&p, 5, false, 2000, SET_FAILED_MS);
    assert_int_equal(set_places_get(&p, 0, donors), 0); /* What was placed is worth nothing now. */
    set_places_failed(&p, 4, false, 3000,
                      SET_FAILED_MS); /* Again: it is named once, and for longer. */
    assert_int_equal(set_places_list_failed(&p, 1000 + SET_FAILED_MS, donors), 2);
    assert_int_equal(set_places_list_failed(&p, 2000 + SET_FAILED_MS, donors), 1);
    assert_int_equal(donors[0], 4);
    assert_int_equal(set_places_list_failed(&p, 3000 + SET_FAILED_MS, donors), 0);
    set_places_failed(&p, 4, false, 5000, SET_BUSY_MS); /* Soon it may have time again. */
    assert_int_equal(set_places_list_failed(&p, 5000 + SET_BUSY_MS - 1, donors), 1);
    assert_int_equal(set_places_list_failed(&p, 5000 + SET_BUSY_MS, donors), 0);
    for (donor_id id = 1; id <= SET_FAILED_MAX + 3; id++) {
        set_places_failed(&p, id, false, 9000, SET_FAILED_MS);
    }
    assert_int_equal(set_places_list_failed(&p, 9000, donors), SET_FAILED_MAX);
    assert_int_equal(donors[0], 4); /* The first three had to go. */
}

static void who_was_full_is_forgiven_alone(void **state)
{
    struct set_places p;
    donor_id donors[SET_FAILED_MAX];

    (void)state;
    set_places_init(&p);
    set_places_failed(&p, 3, true, 1000, SET_FAILED_MS);
    set_places_failed(&p, 4, false, 1000, SET_FAILED_MS);
    set_places_failed(&p, 5, true, 1000, SET_FAILED_MS);
    set_places_failed(&p, 6, true, 1000, SET_FAILED_MS);
    set_places_failed(&p, 6, false, 1000, SET_FAILED_MS); /* The last word counts. */
    set_places_forgive_full(&p);
    assert_int_equal(set_places_list_failed(&p, 1000, donors), 2);
    assert_int_equal(donors[0], 4);
    assert_int_equal(donors[1], 6);
}

static void nonsense_is_refused(void **state)
{
    static donor_id donors[(SET_PLACE_MAX + 1) * REPLICAS_MAX];
    struct set_places p;
    uint32_t first, count;

    (void)state;
    set_places_init(&p);
    assert_false(set_places_learn(&p, 0, 0, donors, 2));
    assert_false(set_places_learn(&p, 0, REPLICAS_MAX + 1, donors, REPLICAS_MAX + 1));
    assert_false(set_places_learn(&p, 0, 2, donors, 3));
    assert_false(set_places_learn(&p, 0, 1, donors, SET_PLACE_MAX + 1));
    assert_false(set_places_learn(&p, 0, 1, donors, 0));
    assert_int_equal(p.count, 0);
    assert_true(set_places_wants(&p, UINT32_MAX - 1, &first, &count)); /* Up to the last one. */
    assert_int_equal(count, 1);
}

/* A question that covers one that does not exist would be refused with those that do. */
static void nothing_is_asked_behind_the_last(void **state)
{
    struct set_places p;
    uint32_t first, count;

    (void)state;
    set_places_init(&p);
    assert_true(set_places_wants(&p, SET_MORSELS_MAX - 3, &first, &count));
    assert_int_equal(first, SET_MORSELS_MAX - 3);
    assert_int_equal(count, 3);
    assert_true(
        set_places_wants(&p, SET_MORSELS_MAX, &first, &count)); /* The manager says why not. */
}

static void a_question_fails_for_whom_it_was_asked(void **state)
{
    static const int of_first[] = { MORSEL_NOSPC, MORSEL_DQUOT, MORSEL_FBIG };
    static const int of_all[] = { MORSEL_AGAIN, MORSEL_UNREACHABLE, MORSEL_STALE };
    struct set_question q = { .first = 10, .count = 4 };

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        for (uint32_t number = 0; number < 20; number++) {
            q.ahead = false;
            assert_int_equal(set_question_ends(&q, of_first[i], number), number == 10);
            assert_int_equal(set_question_ends(&q, of_all[i], number), number >= 10 && number < 14);
            q.ahead = true;
            assert_false(set_question_ends(&q, of_first[i], number));
            assert_false(set_question_ends(&q, of_all[i], number));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_nobody_waits),
        cmocka_unit_test(nothing_is_made_up),
        cmocka_unit_test(who_failed_is_named),
        cmocka_unit_test(who_was_full_is_forgiven_alone),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(nothing_is_asked_behind_the_last),
        cmocka_unit_test(a_question_fails_for_whom_it_was_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
