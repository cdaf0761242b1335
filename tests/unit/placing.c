/* A place is another number wherever a file lies otherwise. */
#include "common/fs/placing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const uint32_t columns[] = { 3, 4, 5 }, others[] = { 3, 5, 4 };

static struct placing placing(void)
{
    return (struct placing){ .body = 77,
                             .layout_class = 1,
                             .replicas = 2,
                             .stripe = { MORSEL_BYTES_MIN, 4, 3 },
                             .columns = columns };
}

static void the_same_is_the_same(void **state)
{
    struct placing a = placing(), b = placing();
    const uint32_t copy[] = { 3, 4, 5 };

    (void)state;
    b.columns = copy;
    assert_int_equal(placing_place(&a), placing_place(&b));
    assert_int_not_equal(placing_place(&a), PLACE_UNKNOWN);
}

static void all_of_it_counts(void **state)
{
    struct placing all[8];
    uint32_t places[8];

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        all[i] = placing();
    }
    all[1].body++;
    all[2].layout_class++;
    all[3].replicas++;
    all[4].stripe.morsel_bytes *= 2;
    all[5].stripe.stripe_morsels++;
    all[6].stripe.width--;
    all[7].columns = others;
    for (size_t i = 0; i < 8; i++) {
        places[i] = placing_place(&all[i]);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(places[i], places[j]);
        }
    }
}

static void no_place_is_taken_for_unknown(void **state)
{
    struct placing p = placing();

    (void)state;
    for (p.body = 0; p.body < 100000; p.body++) {
        assert_int_not_equal(placing_place(&p), PLACE_UNKNOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_is_the_same),
        cmocka_unit_test(all_of_it_counts),
        cmocka_unit_test(no_place_is_taken_for_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
