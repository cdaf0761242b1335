/* Whatever a reader has fetched ahead of it, every server has something to do, and it is not more than it may be. */
#include "client/data/stripe_heads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { MIB = 1 << 20 };

static const uint64_t mib = MIB;

/* Bytes of each server behind `next` that the window and the heads have; the sum of all. */
static uint64_t count(const struct stripe *dealt, uint64_t next, uint64_t window, uint64_t bound,
                      uint64_t *of)
{
    struct stripe_heads heads = stripe_heads(dealt, next, window, bound);
    uint64_t stripe = (uint64_t)dealt->stripe_morsels * MIB, sum = 0;

    memset(of, 0, dealt->width * sizeof(of[0]));
    for (uint64_t at = next; at < next + window; at += MIB) {
        of[at / stripe % dealt->width] += MIB;
        sum += MIB;
    }
    for (uint32_t i = 0; i < heads.count; i++) {
        for (uint64_t within = 0; within < heads.length; within += MIB) {
            uint64_t at = heads.first + i * heads.distance + within;

            if (at >= next + window) {
                of[at / stripe % dealt->width] += MIB;
                sum += MIB;
            }
        }
    }
    return sum;
}

/* As if stripes were short. */
static void all_begin_at_once(void **state)
{
    (void)state;
    for (uint32_t morsels = 1; morsels <= 32; morsels *= 2) {
        const struct stripe dealt = { MIB, morsels, 4 };
        uint64_t bound = (4 * morsels + 1) * mib, of[4];

        for (uint64_t window = mib; window < 4 * morsels * mib; window *= 2) {
            assert_true(count(&dealt, 0, window, bound, of) <= bound);
            for (unsigned i = 0; i < 4; i++) {
                assert_true(of[i] >= (window < morsels * mib ? window : morsels * mib));
            }
        }
    }
}

/* The reader is through with all that the others had, and more of them is on its way. */
static void nobody_runs_dry_behind_a_round(void **state)
{
    (void)state;
    for (uint32_t morsels = 1; morsels <= 32; morsels *= 2) {
        const struct stripe dealt = { MIB, morsels, 4 };
        uint64_t window = (4 * morsels + 1) * mib, of[4];

        for (uint64_t next = 0; next < 12 * morsels * mib; next += MIB) {
            uint64_t sum = count(&dealt, next, window, window, of);

            assert_true(sum <= 4 * (morsels + 1) * mib);
            for (unsigned i = 0; i < 4; i++) {
                assert_true(of[i] > morsels * mib);
            }
        }
    }
}

static void what_is_bounded_stays_so(void **state)
{
    const struct stripe dealt = { MIB, 8, 4 };
    uint64_t of[4];

    (void)state;
    for (uint64_t window = mib; window <= 12 * mib; window += mib) {
        for (uint64_t next = 0; next < 64 * mib; next += mib) {
            assert_true(count(&dealt, next, window, 12 * mib, of) <= 12 * mib);
        }
    }
    assert_int_equal(stripe_heads(&dealt, 0, 64 * mib, 64 * mib).count, 0); /* Two rounds. */
    assert_int_equal(stripe_heads(&dealt, INT64_MAX - mib, mib, 12 * mib).count, 0);
    assert_int_equal(stripe_heads(&dealt, 0, 0, 0).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_begin_at_once),
        cmocka_unit_test(nobody_runs_dry_behind_a_round),
        cmocka_unit_test(what_is_bounded_stays_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
