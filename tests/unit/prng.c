#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Published answers of splitmix64 for the seed 1234567: a change would make every recorded seed of
 * the simulator and the fuzzers worthless. */
static void the_known_sequence(void **state)
{
    static const uint64_t expected[] = { 6457827717110365317U, 3203168211198807973U,
                                         9817491932198370423U, 4593380528125082431U,
                                         16408922859458223821U };
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1234567);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(prng_next(&prng) == expected[i]);
    }
}

static void the_same_seed_gives_the_same_draws(void **state)
{
    struct prng a, b, c;
    int differ = 0;

    (void)state;
    prng_seed(&a, 77);
    prng_seed(&b, 77);
    prng_seed(&c, 78);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = prng_below(&a, 1000000);

        assert_int_equal(x, prng_below(&b, 1000000));
        differ += x != prng_below(&c, 1000000);
    }
    assert_true(differ > 900);
}

static void draws_stay_below_and_spread_evenly(void **state)
{
    static const uint64_t bounds[] = { 1, 2, 3, 7, 10, 16 };
    struct prng prng;

    (void)state;
    prng_seed(&prng, 11);
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        unsigned counts[16] = { 0 };
        const unsigned draws = 160000;

        for (unsigned j = 0; j < draws; j++) {
            uint64_t x = prng_below(&prng, bounds[i]);

            assert_true(x < bounds[i]);
            counts[x]++;
        }
        for (uint64_t j = 0; j < bounds[i]; j++) {
            assert_in_range(counts[j], draws / bounds[i] * 9 / 10, draws / bounds[i] * 11 / 10);
        }
    }
}

/* Two thirds of 2^64: plain remainders would give the lower half of the range twice as often. */
static void large_bounds_are_not_skewed(void **state)
{
    const uint64_t bound = UINT64_MAX / 3 * 2;
    unsigned low = 0;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 12);
    for (int i = 0; i < 100000; i++) {
        low += prng_below(&prng, bound) < bound / 2;
    }
    assert_in_range(low, 49000, 51000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_sequence),
        cmocka_unit_test(the_same_seed_gives_the_same_draws),
        cmocka_unit_test(draws_stay_below_and_spread_evenly),
        cmocka_unit_test(large_bounds_are_not_skewed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
