/* The manager's clock of presence: what it leaves out, and that it never runs ahead of true time.
 */
#include "common/base/presence.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void without_gaps_it_runs_as_the_clock_below(void **state)
{
    struct presence p;

    (void)state;
    presence_init(&p, 1000);
    for (uint64_t ms = 1000; ms < 20000; ms += PRESENCE_PULSE_MS) {
        assert_int_equal(presence_now_ms(&p, ms), ms);
    }
    assert_int_equal(presence_now_ms(&p, 19900 + PRESENCE_GAP_MS), 19900 + PRESENCE_GAP_MS);
    assert_int_equal(p.gaps, 0);
}

static void it_stands_still_during_a_gap(void **state)
{
    struct presence p;

    (void)state;
    presence_init(&p, 1000);
    assert_int_equal(presence_now_ms(&p, 1100), 1100);
    assert_int_equal(presence_now_ms(&p, 7100), 1100);
    assert_int_equal(presence_now_ms(&p, 7200), 1200);
    assert_int_equal(presence_now_ms(&p, 9200), 1200);
    assert_int_equal(p.gaps, 2);
    assert_int_equal(p.away_ms, 8000);
}

/* A span on it is never longer than in true time: so a lease period that has ended on it has ended. */
static void it_never_runs_backwards_nor_ahead(void **state)
{
    struct presence p;
    struct prng prng;
    uint64_t clock_ms = 5000, was_ms = 5000;

    (void)state;
    prng_seed(&prng, 7);
    presence_init(&p, clock_ms);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t step_ms = prng_below(&prng, prng_below(&prng, 10) == 0 ? 10000 : 150);
        uint64_t now_ms = presence_now_ms(&p, clock_ms + step_ms);

        assert_true(now_ms >= was_ms && now_ms - was_ms <= step_ms);
        assert_int_equal(now_ms - was_ms, step_ms > PRESENCE_GAP_MS ? 0 : step_ms);
        clock_ms += step_ms;
        was_ms = now_ms;
    }
    assert_true(p.gaps > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_gaps_it_runs_as_the_clock_below),
        cmocka_unit_test(it_stands_still_during_a_gap),
        cmocka_unit_test(it_never_runs_backwards_nor_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
