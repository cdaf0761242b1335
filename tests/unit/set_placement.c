/* Placement of morsels against what any placement must hold, for drawn clouds; and what the thesis says it is. */
#include "meta/datasets/set_placement.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { CLOUDS = 3000, DONORS = 40, MORSEL = 1 << 20 };

/* Who is there, and what the test knows of it. */
struct cloud
{
    struct prng prng;
    struct place_candidate before[DONORS], now[DONORS];
    uint32_t count;
    struct place_wanted w;
    uint32_t barred; /* One in so many is; 0: none. */
};

static bool is_barred(const void *data, donor_id donor, uint32_t morsel)
{
    const struct cloud *c = data;

    return c->barred != 0 && (donor * 31 + morsel * 17) % c->barred == 0;
}

static void draw(struct cloud *c, uint64_t seed)
{
    uint32_t hosts;

    memset(c, 0, sizeof(*c));
    prng_seed(&c->prng, seed);
    c->count = (uint32_t)prng_below(&c->prng, DONORS + 1);
    hosts = 1 + (uint32_t)prng_below(&c->prng, 6);
    for (uint32_t i = 0; i < c->count; i++) {
        c->now[i].id = 1 + i;
        c->now[i].free = prng_below(&c->prng, 20) * (MORSEL / 2);
        c->now[i].host = prng_below(&c->prng, hosts);
    }
    c->w = (struct place_wanted){ .first = (uint32_t)prng_below(&c->prng, 1000),
                                  .count = 1 + (uint32_t)prng_below(&c->prng, SET_PLACE_MAX),
                                  .copies = 1 + (uint32_t)prng_below(&c->prng, REPLICAS_MAX),
                                  .width = 1 + (uint32_t)prng_below(&c->prng, 8),
                                  .stripe_morsels = 1 + (uint32_t)prng_below(&c->prng, 3),
                                  .morsel_bytes = MORSEL,
                                  .barred = is_barred,
                                  .data = c };
    c->barred = prng_below(&c->prng, 2) == 0 ? 0 : 2 + (uint32_t)prng_below(&c->prng, 6);
}

static struct place_candidate *find(struct place_candidate *list, uint32_t count, donor_id id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].id == id) {
            return &list[i];
        }
    }
    fail_msg("benefactor %u is none", id);
    return NULL;
}

/* How many could take it now, and on how many hosts. */
static uint32_t could_take(struct cloud *c, uint32_t morsel, uint32_t *hosts)
{
    bool seen[8] = { false };
    uint32_t count = 0;

    *hosts = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->before[i].free >= MORSEL && !is_barred(c, c->before[i].id, morsel)) {
            count++;
            *hosts += !seen[c->before[i].host];
            seen[c->before[i].host] = true;
        }
    }
    return count;
}

/* The copies of one morsel: on benefactors that differ and had room, on as many hosts as there could be. */
static void check_morsel(struct cloud *c, const struct placed *p, uint32_t i)
{
    uint32_t morsel = c->w.first + i, hosts, used = 0, could = could_take(c, morsel, &hosts);

    assert_true(could >= p->copies);
    for (uint32_t copy = 0; copy < p->copies; copy++) {
        donor_id id = p->donors[i * p->copies + copy];
        struct place_candidate *one = find(c->before, c->count, id);
        bool again = false;

        assert_true(one->free >= MORSEL && !is_barred(c, id, morsel));
        for (uint32_t j = 0; j < copy; j++) {
            donor_id other = p->donors[i * p->copies + j];

            assert_true(other != id);
            again |= find(c->before, c->count, other)->host == one->host;
        }
        used += !again;
    }
    assert_int_equal(used, hosts < p->copies ? hosts : p->copies);
    for (uint32_t copy = 0; copy < p->copies; copy++) {
        find(c->before, c->count, p->donors[i * p->copies + copy])->free -= MORSEL;
    }
}

/* As the host does it: the round first, and all where that was not enough. */
static void place(struct cloud *c, struct placed *p)
{
    uint32_t round;

    place_sort(c->now, c->count);
    for (uint32_t i = 1; i < c->count; i++) {
        assert_true(c->now[i - 1].free >= c->now[i].free);
    }
    round = place_round(&c->w, c->now, c->count);
    assert_true(round <= c->w.width * c->w.copies && round <= c->count);
    memcpy(c->before, c->now, sizeof(c->now));
    place_deal(&c->w, c->now, c->count, round, p);
}

static void morsels_lie_where_they_may_and_as_many_as_can(void **state)
{
    const uint64_t first = test_seed_first();

    (void)state;
    for (uint64_t seed = first; seed < first + CLOUDS; seed++) {
        struct cloud c;
        struct placed p;
        uint32_t hosts, could;

        draw(&c, seed);
        place(&c, &p);
        assert_true(p.count <= c.w.count && p.copies <= c.w.copies);
        could = could_take(&c, c.w.first, &hosts);
        if (could == 0) {
            assert_int_equal(p.count, 0);
            continue;
        }
        assert_true(p.count > 0);
        assert_int_equal(p.copies, could < c.w.copies ? could : c.w.copies);
        for (uint32_t i = 0; i < p.count; i++) {
            check_morsel(&c, &p, i);
        }
        for (uint32_t i = 0; i < c.count; i++) {
            assert_int_equal(c.now[i].free, find(c.before, c.count, c.now[i].id)->free);
        }
        if (p.count < c.w.count) { /* Only where the next one would have fewer copies. */
            assert_true(could_take(&c, c.w.first + p.count, &hosts) < p.copies);
        }
    }
}

static const uint64_t ever[] = { UINT64_MAX, UINT64_MAX, (UINT64_C(1) << 40) - 1 },
                      weekdays[] = { UINT64_MAX, UINT64_MAX, (UINT64_C(1) << 39) - 1 };

/* Two copies over a round of four, of which one is awake then, and one is that machine. */
static void expect_round(const donor_id *expected, const uint64_t *awake, uint64_t host)
{
    struct place_candidate four[] = { { 5, 2 * MORSEL, 5, NULL },
                                      { 4, 97 * MORSEL, 4, NULL },
                                      { 1, 100 * MORSEL, 1, awake },
                                      { 2, 99 * MORSEL, 2, ever },
                                      { 3, 98 * MORSEL, host, NULL } };
    struct place_wanted w = {
        .count = 10, .copies = 2, .width = 2, .stripe_morsels = 2, .morsel_bytes = MORSEL
    };
    struct placed p;

    place_sort(four, 5);
    assert_int_equal(place_round(&w, four, 5), 4); /* Who has the least free is not in it. */
    place_deal(&w, four, 5, 4, &p);
    assert_true(p.count == 10 && p.copies == 2 && !p.short_of);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(p.donors[2 * i], expected[i / 2 * 2]);
        assert_int_equal(p.donors[2 * i + 1], expected[i / 2 * 2 + 1]);
    }
}

/* As in the header. */
static void stripes_are_dealt_round_robin(void **state)
{
    static const donor_id chain[] = { 1, 2, 2, 3, 3, 4, 4, 1, 1, 2 };
    static const donor_id pairs[] = { 1, 3, 2, 4, 3, 1, 4, 2, 1, 3 };

    (void)state;
    expect_round(chain, NULL, 3);
    expect_round(chain, ever, 3);
    expect_round(pairs, weekdays, 3); /* One sleeps an hour. */
    expect_round(pairs, ever, 4);     /* Two neighbours are one machine. */
}

/* The four with the most room are one machine. */
static void a_round_has_as_many_hosts_as_copies(void **state)
{
    struct place_candidate five[] = { { 1, 90 * MORSEL, 7, NULL },
                                      { 2, 80 * MORSEL, 7, NULL },
                                      { 3, 70 * MORSEL, 7, NULL },
                                      { 4, 60 * MORSEL, 7, NULL },
                                      { 5, 50 * MORSEL, 8, NULL } };
    struct place_wanted w = {
        .count = 8, .copies = 2, .width = 2, .stripe_morsels = 1, .morsel_bytes = MORSEL
    };
    struct placed p;

    (void)state;
    assert_int_equal(place_round(&w, five, 5), 4);
    assert_int_equal(five[3].id, 5);
    place_deal(&w, five, 4, 4, &p); /* The round alone. */
    assert_true(p.count == 8 && !p.short_of);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true((p.donors[2 * i] == 5) != (p.donors[2 * i + 1] == 5));
    }
}

static void rounds_are_remembered_and_the_oldest_forgotten(void **state)
{
    struct place_candidate two[] = { { 8, 0, 0, NULL }, { 9, 0, 0, NULL } };
    struct place_rounds rounds;

    (void)state;
    place_rounds_init(&rounds);
    for (uint64_t set = 1; set <= ROUNDS_MAX; set++) {
        place_rounds_put(&rounds, set, two, 2);
    }
    assert_int_equal(place_rounds_find(&rounds, 1)->donors[1], 9); /* Used: not the oldest. */
    place_rounds_put(&rounds, ROUNDS_MAX + 1, two, 1);
    assert_null(place_rounds_find(&rounds, 2));
    assert_non_null(place_rounds_find(&rounds, 1));
    assert_int_equal(place_rounds_find(&rounds, ROUNDS_MAX + 1)->count, 1);
    place_rounds_drop(&rounds, 1);
    assert_null(place_rounds_find(&rounds, 1));
    place_rounds_free(&rounds);
}

/* Days, nights, and always. */
static const uint64_t day[] = { 0xffff, 0, 0 }, night[] = { 0xffff0000, 0, 0 },
                      always[] = { 0xffffffff, 0, 0 };

/* Two of five, of which the first works by day: who gets the other copy? */
static donor_id partner(const uint64_t *third, uint64_t third_free, uint64_t third_host,
                        const uint64_t *fourth)
{
    struct place_candidate five[] = { { 1, 90 * MORSEL, 1, day },
                                      { 2, 80 * MORSEL, 2, day },
                                      { 3, third_free, third_host, third },
                                      { 4, 45 * MORSEL, 4, fourth },
                                      { 5, 39 * MORSEL, 5, always } };
    const struct place_wanted w = {
        .count = 1, .copies = 2, .width = 1, .stripe_morsels = 1, .morsel_bytes = MORSEL
    };
    uint32_t round = place_round(&w, five, 5);

    assert_int_equal(round, 2);
    assert_int_equal(five[0].id, 1);
    return five[1].id;
}

static void copies_lie_where_not_all_sleep_together(void **state)
{
    (void)state;
    assert_int_equal(partner(day, 70 * MORSEL, 3, day), 2);
    assert_int_equal(partner(night, 70 * MORSEL, 3, always), 3); /* Both fill the day. */
    assert_int_equal(partner(day, 70 * MORSEL, 3, night), 4);
    assert_int_equal(partner(NULL, 70 * MORSEL, 3, NULL), 2);
    assert_int_equal(partner(night, 70 * MORSEL, 1, day), 2); /* The same machine. */
    assert_int_equal(partner(always, 46 * MORSEL, 3, day), 3);
    assert_int_equal(partner(day, 46 * MORSEL, 3, NULL), 2); /* 5 has too little room. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_lie_where_not_all_sleep_together),
        cmocka_unit_test(morsels_lie_where_they_may_and_as_many_as_can),
        cmocka_unit_test(stripes_are_dealt_round_robin),
        cmocka_unit_test(a_round_has_as_many_hosts_as_copies),
        cmocka_unit_test(rounds_are_remembered_and_the_oldest_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
