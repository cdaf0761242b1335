/* What was read most, beside a count of all reads: nothing is exaggerated, and nothing that was read often is left out. */
#include "benefactor/hottest.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SETS = 3, MORSELS = 400, READS = 5000, SEEDS = 20 };

struct model
{
    uint32_t reads[SETS][MORSELS];
};

static void judge(const struct hottest_item *items, uint32_t count, const struct model *model)
{
    uint32_t told[SETS][MORSELS] = { { 0 } };

    for (uint32_t i = 0; i < count; i++) {
        told[items[i].set - 1][items[i].morsel] = items[i].count;
        assert_true(items[i].count > 0);
        assert_true(items[i].count <= model->reads[items[i].set - 1][items[i].morsel]);
    }
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t m = 0; m < MORSELS; m++) {
            assert_true(told[s][m] > 0 || model->reads[s][m] <= READS / HOTTEST_MAX);
        }
    }
}

/* Few are read much, and many a little. */
static void one(struct prng *prng, struct hottest *h)
{
    struct hottest_item items[HOTTEST_MAX];
    struct model model = { { { 0 } } };
    uint32_t count;

    for (uint32_t i = 0; i < READS; i++) {
        uint32_t set = (uint32_t)prng_below(prng, SETS);
        uint32_t morsel =
            (uint32_t)prng_below(prng, 1 + prng_below(prng, 1 + prng_below(prng, MORSELS)));

        hottest_read(h, set + 1, morsel);
        model.reads[set][morsel]++;
        if (i % 100 == 0) {
            hottest_check(h);
        }
    }
    count = hottest_take(h, items);
    assert_int_equal(count, HOTTEST_MAX);
    judge(items, count, &model);
    assert_int_equal(hottest_take(h, items), 0);
}

static void what_is_read_often_is_told_and_no_more_than_that(void **state)
{
    uint64_t first = test_seed_first();

    (void)state;
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        struct hottest h = { .item_count = 0 };
        struct prng prng;

        prng_seed(&prng, seed);
        one(&prng, &h);
        one(&prng, &h); /* From the beginning again. */
    }
}

static void of_few_each_read_is_told(void **state)
{
    struct hottest h = { .item_count = 0 };
    struct hottest_item items[HOTTEST_MAX];

    (void)state;
    for (uint32_t i = 0; i < HOTTEST_MAX * 7; i++) {
        hottest_read(&h, 1, i % HOTTEST_MAX);
    }
    assert_int_equal(hottest_take(&h, items), HOTTEST_MAX);
    for (uint32_t i = 0; i < HOTTEST_MAX; i++) {
        assert_int_equal(items[i].count, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_often_is_told_and_no_more_than_that),
        cmocka_unit_test(of_few_each_read_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
