/* Heat, beside a model that remembers each access and how long ago it was; and what is done with it. */
#include "meta/datasets/surplus.h"
#include "tests/lib/repair_cloud.h"
#include "tests/lib/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 60000, KNOWN = HEAT_BUCKETS * 4, ADDS = 20000, SEEDS = 4, HOT = 7, HOT_FROM = 10 };

/* ---- Counting ---- */

struct model
{
    double reads[MANY];
    uint64_t at_ms[MANY];
};

/* The heat now: half of it behind each HEAT_HALF_MS. */
static double model_now(const struct model *m, uint32_t i, uint64_t now_ms)
{
    return m->reads[i] * pow(2, -(double)(now_ms - m->at_ms[i]) / HEAT_HALF_MS);
}

static void model_add(struct model *m, uint32_t i, uint32_t reads, uint64_t now_ms)
{
    m->reads[i] = model_now(m, i, now_ms) + reads;
    m->at_ms[i] = now_ms;
}

/* Of `of` morsels some are read, few of them most. */
static uint64_t add_some(struct heat *h, struct model *m, struct prng *prng, uint32_t of)
{
    uint64_t now_ms = 1000;

    heat_init(h, now_ms);
    memset(m, 0, sizeof(*m));
    for (uint32_t i = 0; i < ADDS; i++) {
        uint64_t below = 1 + prng_below(prng, 1 + prng_below(prng, 1 + prng_below(prng, of)));
        uint32_t morsel = (uint32_t)prng_below(prng, below);
        uint32_t reads = 1 + (uint32_t)prng_below(prng, 20);

        now_ms += prng_below(prng, 2000);
        heat_add(h, 1, morsel, reads, now_ms);
        model_add(m, morsel, reads, now_ms);
        if (i % 1000 == 0) {
            heat_check(h);
        }
    }
    return now_ms;
}

static double known(const struct heat *h, uint32_t i)
{
    return (double)heat_reads(h, 1, i) / HEAT_ONE;
}

/* A step of ageing is the eighth part of the half: what was read within it, or right behind one, is off by so much at most. */
static const double part = 1.1;

static void heat_is_accesses_and_loses_half_each_hour(void **state)
{
    struct heat *h = malloc(sizeof(*h));
    struct model *m = malloc(sizeof(*m));
    uint64_t first = test_seed_first();

    (void)state;
    assert_non_null(h);
    assert_non_null(m);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        struct prng prng;
        uint64_t now_ms;

        prng_seed(&prng, seed);
        now_ms = add_some(h, m, &prng, KNOWN);
        for (uint32_t i = 0; i < KNOWN; i++) {
            double real = model_now(m, i, now_ms);

            assert_true(known(h, i) <= real * part + 0.1);
            assert_true(known(h, i) >= real / part - 0.3);
        }
    }
    free(h);
    free(m);
}

/* More are read than can be known: none is known to be hotter than it is, and the hottest are known. */
static void with_too_many_the_hottest_are_known(void **state)
{
    struct heat *h = malloc(sizeof(*h));
    struct model *m = malloc(sizeof(*m));
    struct prng prng;
    uint64_t now_ms;
    uint32_t hot = 0;

    (void)state;
    assert_non_null(h);
    assert_non_null(m);
    prng_seed(&prng, test_seed_first());
    now_ms = add_some(h, m, &prng, MANY);
    for (uint32_t i = 0; i < MANY; i++) { /* And each once. */
        heat_add(h, 1, i, 1, now_ms);
        model_add(m, i, 1, now_ms);
    }
    heat_check(h);
    for (uint32_t i = 0; i < MANY; i++) {
        double real = model_now(m, i, now_ms);

        assert_true(known(h, i) <= real * part + 0.1);
        if (real > 60) { /* It may have lost its place before it was that hot. */
            hot++;
            assert_true(known(h, i) >= real / 2);
        }
    }
    printf("%u are hot\n", hot);
    assert_true(hot > 10);
    free(h);
    free(m);
}

/* In a bucket that is full what is read more takes the place of what is coldest, and what is read less finds none. */
static void a_full_bucket_keeps_what_is_hotter(void **state)
{
    struct heat *h = malloc(sizeof(*h));

    (void)state;
    assert_non_null(h);
    heat_init(h, 1);
    for (uint32_t i = 0; i < HEAT_WAYS; i++) {
        heat_add(h, 1, i * HEAT_BUCKETS, i == 3 ? 5 : 9, 1);
    }
    heat_add(h, 1, HEAT_WAYS * HEAT_BUCKETS, 5, 1);
    assert_int_equal(heat_reads(h, 1, HEAT_WAYS * HEAT_BUCKETS), 0);
    assert_int_equal(heat_reads(h, 1, 3 * HEAT_BUCKETS), 5 * HEAT_ONE);
    heat_add(h, 1, HEAT_WAYS * HEAT_BUCKETS, 6, 1);
    assert_int_equal(heat_reads(h, 1, HEAT_WAYS * HEAT_BUCKETS), 6 * HEAT_ONE);
    assert_int_equal(heat_reads(h, 1, 3 * HEAT_BUCKETS), 0);
    assert_int_equal(heat_reads(h, 1, 2 * HEAT_BUCKETS), 9 * HEAT_ONE);
    free(h);
}

static void behind_a_long_time_nothing_is_left(void **state)
{
    struct heat *h = malloc(sizeof(*h));

    (void)state;
    assert_non_null(h);
    heat_init(h, 5);
    heat_add(h, 1, 2, UINT32_MAX, 5);
    heat_add(h, 1, 3, 4, (uint64_t)HEAT_HALF_MS * 20);
    assert_true(heat_reads(h, 1, 2) > 0);
    heat_add(h, 1, 3, 4, UINT64_MAX / 2);
    assert_int_equal(heat_reads(h, 1, 2), 0);
    assert_int_equal(heat_reads(h, 1, 3), 4 * HEAT_ONE);
    free(h);
}

/* ---- What comes first ---- */

struct hot_cloud
{
    struct cloud c;
    struct heat heat;
};

/* Morsels of one set at the first `named` of four, of which two are wanted; some in the middle were read most. */
static struct hot_cloud *hot_cloud(uint64_t after_ms, uint32_t named)
{
    struct hot_cloud *h = calloc(1, sizeof(*h));
    struct cloud *c = &h->c;

    assert_non_null(h);
    c->smooth = true;
    prng_seed(&c->prng, 1);
    c->now_ms = 1000000;
    sets_init(&c->sets);
    donors_init(&c->donors, LOOK_MS);
    repair_init(&c->r, &c->sets, &c->donors, after_ms, c->now_ms);
    heat_init(&h->heat, c->now_ms);
    c->r.heat = &h->heat;
    make_sets(c, 2);
    for (uint32_t i = 0; i < 4; i++) {
        c->desks[i].room = MORSELS * 4;
        c->desks[i].up = true;
        come(c, &c->desks[i], true);
        tell(c, &c->desks[i]);
    }
    for (uint32_t i = 0; i < MORSELS; i++) {
        struct set_morsel m = { .number = i,
                                .length = BYTES,
                                .digest = ++c->digests,
                                .donor_count = named,
                                .donors = { 1, 2, 3 } };

        for (uint32_t j = 0; j < named; j++) {
            c->desks[j].has[0][i] = m.digest;
        }
        change(c, 1, &m);
    }
    for (uint32_t i = 0; i < HOT; i++) {
        heat_add(&h->heat, 1, HOT_FROM + i, 100 - i, c->now_ms);
    }
    heat_add(&h->heat, 9, 1, 1000, c->now_ms); /* Of a set that there is not. */
    heat_rank(&h->heat, &c->sets, c->now_ms);
    assert_int_equal(h->heat.hot_count, HOT);
    assert_int_equal(h->heat.hot[0].morsel, HOT_FROM);
    assert_int_equal(h->heat.hot[0].heat, 100 * HEAT_ONE / named);
    return h;
}

static bool is_hot(uint32_t morsel)
{
    return morsel >= HOT_FROM && morsel < HOT_FROM + HOT;
}

static void hot_end(struct hot_cloud *h)
{
    heat_check(&h->heat);
    cloud_end(&h->c);
    free(h);
}

/* Fetches are ordered until all are done: those that were read most before any other. */
static void hottest_come_first(struct hot_cloud *h)
{
    struct cloud *c = &h->c;
    uint32_t ordered = 0;

    for (uint64_t seen = 0; ordered < MORSELS;) {
        turn(c);
        c->now_ms++;
        for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
            const struct repair_task *task = &c->r.tasks[i];

            if (task->order > seen) {
                assert_int_equal(task->order <= HOT, is_hot(task->morsel));
                ordered++;
            }
        }
        seen = c->r.orders;
    }
}

static void what_is_read_most_is_copied_first(void **state)
{
    struct hot_cloud *h = hot_cloud(0, 2);

    (void)state;
    go(&h->c, &h->c.desks[0]);
    hottest_come_first(h);
    pass(&h->c, AFTER_MS);
    all_is_well(&h->c, true);
    hot_end(h);
}

static void what_is_read_most_is_moved_off_first(void **state)
{
    struct hot_cloud *h = hot_cloud(AFTER_MS, 2);

    (void)state;
    h->c.desks[0].room = 0;
    report(&h->c, &h->c.desks[0]);
    hottest_come_first(h);
    pass(&h->c, AFTER_MS);
    assert_int_equal(used(&h->c.desks[0]), 0);
    all_is_well(&h->c, true);
    hot_end(h);
}

static void what_is_read_most_keeps_its_surplus_longest(void **state)
{
    struct hot_cloud *h = hot_cloud(AFTER_MS, 3);
    struct surplus_walk walk = { .donor = 0 };
    struct repair_task task;
    uint32_t looks = MORSELS * 8, went = 0;

    (void)state;
    while (surplus_next(&h->c.r, &walk, 2, h->c.now_ms, &looks, &task) == SURPLUS_FOUND) {
        assert_int_equal(went < MORSELS - HOT, !is_hot(task.morsel));
        drop(&h->c, &task);
        went++;
    }
    assert_int_equal(went, MORSELS);
    hot_end(h);
}

static void the_heat_of_a_set_is_that_of_its_morsels(void **state)
{
    struct hot_cloud *h = hot_cloud(AFTER_MS, 2);
    const uint64_t sets[] = { 1, 2, 9 };
    uint64_t sums[3];

    (void)state;
    heat_add(&h->heat, 2, 5, 3, h->c.now_ms);
    heat_sum(&h->heat, sets, sums, 3);
    assert_int_equal(sums[0], (100 * HOT - HOT * (HOT - 1) / 2) * HEAT_ONE);
    assert_int_equal(sums[1], 3 * HEAT_ONE);
    assert_int_equal(sums[2], 0);
    hot_end(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heat_is_accesses_and_loses_half_each_hour),
        cmocka_unit_test(with_too_many_the_hottest_are_known),
        cmocka_unit_test(a_full_bucket_keeps_what_is_hotter),
        cmocka_unit_test(behind_a_long_time_nothing_is_left),
        cmocka_unit_test(what_is_read_most_is_copied_first),
        cmocka_unit_test(what_is_read_most_is_moved_off_first),
        cmocka_unit_test(what_is_read_most_keeps_its_surplus_longest),
        cmocka_unit_test(the_heat_of_a_set_is_that_of_its_morsels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
