/* The reply cache: a retry gets the answer of the first time, for as long as it may come. */
#include "meta/service/reply_cache.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void note(struct reply_cache *w, client_id client, op_sequence sequence,
                 op_sequence answered)
{
    struct op_outcome outcome = { sequence * 10, sequence % 2 == 1 };

    assert_true(reply_cache_note(w, client, sequence, answered, &outcome));
}

static void a_retry_gets_the_first_answer(void **state)
{
    struct reply_cache *w = reply_cache_new();
    struct op_outcome outcome;

    (void)state;
    assert_int_equal(reply_cache_find(w, 1, 1, 0, &outcome), REPLY_CACHE_NEW);
    note(w, 1, 1, 0);
    assert_int_equal(reply_cache_find(w, 1, 1, 0, &outcome), REPLY_CACHE_KNOWN);
    assert_int_equal(outcome.target, 10);
    assert_true(outcome.deleted);
    assert_int_equal(reply_cache_find(w, 2, 1, 0, &outcome), REPLY_CACHE_NEW);
    reply_cache_free(w);
}

static void answered_operations_are_forgotten(void **state)
{
    struct reply_cache *w = reply_cache_new();
    struct op_outcome outcome;

    (void)state;
    note(w, 1, 1, 0);
    note(w, 1, 2, 1);
    assert_int_equal(reply_cache_find(w, 1, 1, 0, &outcome), REPLY_CACHE_FORGOTTEN);
    assert_int_equal(reply_cache_find(w, 1, 2, 1, &outcome), REPLY_CACHE_KNOWN);
    assert_int_equal(reply_cache_find(w, 1, 0, 0, &outcome), REPLY_CACHE_FORGOTTEN);
    reply_cache_free(w);
}

static void one_that_takes_long_keeps_its_place_only(void **state)
{
    struct reply_cache *w = reply_cache_new();
    struct op_outcome outcome;

    (void)state;
    note(w, 1, 1, 0);
    /* The answer to 1 is on its way; everything else has gone on, twice round. */
    for (op_sequence i = 2; i <= 3 * CLIENT_OPS_PENDING_MAX; i++) {
        if (i % CLIENT_OPS_PENDING_MAX != 1) {
            assert_int_equal(reply_cache_find(w, 1, i, 0, &outcome), REPLY_CACHE_NEW);
            note(w, 1, i, 0);
        }
    }
    assert_int_equal(reply_cache_find(w, 1, 1, 0, &outcome), REPLY_CACHE_KNOWN);
    assert_int_equal(reply_cache_find(w, 1, 2, 0, &outcome), REPLY_CACHE_FORGOTTEN);
    assert_int_equal(reply_cache_find(w, 1, 2 * CLIENT_OPS_PENDING_MAX + 2, 0, &outcome),
                     REPLY_CACHE_KNOWN);
    reply_cache_free(w);
}

static void the_quiet_client_gives_way(void **state)
{
    struct reply_cache *w = reply_cache_new();
    struct op_outcome outcome;

    (void)state;
    for (client_id c = 1; c <= REPLY_CACHE_CLIENTS_MAX; c++) {
        note(w, c, 1, 0);
    }
    note(w, 1, 2, 0);
    note(w, REPLY_CACHE_CLIENTS_MAX + 5000, 1, 0);
    assert_int_equal(reply_cache_clients(w), REPLY_CACHE_CLIENTS_MAX);
    assert_int_equal(reply_cache_find(w, 1, 1, 0, &outcome), REPLY_CACHE_KNOWN);
    assert_int_equal(reply_cache_find(w, 2, 1, 0, &outcome), REPLY_CACHE_NEW);
    reply_cache_free(w);
}

/* One client, operations out of order, retries at random: against a list of what was applied. */
static void random_retries_never_apply_twice(void **state)
{
    enum { OPS = 3000 };
    static const uint64_t seeds[] = { 1, 2, 3 };

    (void)state;
    for (size_t s = 0; s < sizeof(seeds) / sizeof(seeds[0]); s++) {
        struct prng prng = { seeds[s] };
        struct reply_cache *w = reply_cache_new();
        uint8_t *applied = test_calloc(OPS + 1, 1);
        op_sequence answered = 0;

        for (int i = 0; i < OPS * 4; i++) {
            op_sequence sequence = answered + 1 + prng_below(&prng, CLIENT_OPS_PENDING_MAX);
            struct op_outcome outcome;

            if (sequence > OPS) {
                continue;
            }
            switch (reply_cache_find(w, 7, sequence, answered, &outcome)) {
            case REPLY_CACHE_NEW:
                assert_int_equal(applied[sequence]++, 0);
                note(w, 7, sequence, answered);
                break;
            case REPLY_CACHE_KNOWN:
                assert_int_equal(applied[sequence], 1);
                assert_int_equal(outcome.target, sequence * 10);
                break;
            default:
                fail();
            }
            while (answered < OPS && applied[answered + 1] && prng_below(&prng, 3) == 0) {
                answered++;
            }
        }
        test_free(applied);
        reply_cache_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_gets_the_first_answer),
        cmocka_unit_test(answered_operations_are_forgotten),
        cmocka_unit_test(one_that_takes_long_keeps_its_place_only),
        cmocka_unit_test(the_quiet_client_gives_way),
        cmocka_unit_test(random_retries_never_apply_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
