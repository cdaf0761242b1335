/* Who fetches which morsels: one mount each at any time, for no longer than it is heard of; beside a model that looks at all. */
#include "meta/datasets/claims.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLIENTS = 4, SETS = 3, MORSELS = 12, STEPS = 2000, SEEDS = 20 };

struct model
{
    client_id of[SETS][MORSELS]; /* 0: nobody's. */
    donor_id donor[SETS][MORSELS];
    uint64_t until_ms[CLIENTS + 1][SETS];
};

static void must_be(const struct claims *c, const struct model *m)
{
    claims_check(c);
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t i = 0; i < MORSELS; i++) {
            const struct claim *claim = claims_find(c, s + 1, i);

            assert_true((claim != NULL) == (m->of[s][i] != 0));
            if (claim != NULL) {
                assert_int_equal(claim_client(claim), m->of[s][i]);
                assert_int_equal(claim->copies, 2);
                assert_int_equal(claim->donors[1], m->donor[s][i]);
            }
        }
    }
}

static void take_those_over(struct claims *c, struct model *m, uint64_t now_ms)
{
    struct claim over;

    while (claims_over(c, now_ms, &over)) {
        uint64_t s = over.key.set - 1, i = over.key.morsel;

        assert_true(m->of[s][i] != 0);
        assert_true(now_ms >= m->until_ms[m->of[s][i]][s]);
        assert_int_equal(over.donors[1], m->donor[s][i]);
        m->of[s][i] = 0;
    }
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t i = 0; i < MORSELS; i++) {
            assert_true(m->of[s][i] == 0 || now_ms < m->until_ms[m->of[s][i]][s]);
        }
    }
}

static void step(struct claims *c, struct model *m, struct prng *prng, uint64_t now_ms)
{
    client_id client = 1 + prng_below(prng, CLIENTS);
    uint64_t s = prng_below(prng, SETS), i = prng_below(prng, MORSELS);
    donor_id donors[] = { 7, (donor_id)prng_below(prng, 100) };

    switch (prng_below(prng, 4)) {
    case 0:
        assert_true(claims_end(c, client, s + 1, (uint32_t)i) == (m->of[s][i] == client));
        m->of[s][i] = m->of[s][i] == client ? 0 : m->of[s][i];
        break;
    case 1:
        claims_renew(c, client, s + 1, now_ms);
        m->until_ms[client][s] = now_ms + CLAIM_MS;
        break;
    default:
        assert_true(claims_put(c, client, s + 1, (uint32_t)i, donors, 2, now_ms) ==
                    (m->of[s][i] == 0 || m->of[s][i] == client));
        if (m->of[s][i] == 0 || m->of[s][i] == client) {
            m->of[s][i] = client;
            m->donor[s][i] = donors[1];
            m->until_ms[client][s] = now_ms + CLAIM_MS;
        }
    }
}

static void test_one_mount_each_as_long_as_it_is_heard_of(void **state)
{
    (void)state;
    for (uint64_t number = test_seed_first(), end = number + SEEDS; number < end; number++) {
        struct prng prng;
        struct model m;
        struct claims c;
        uint64_t now_ms = 0;

        memset(&m, 0, sizeof(m));
        prng_seed(&prng, number);
        claims_init(&c);
        for (unsigned i = 0; i < STEPS; i++) {
            step(&c, &m, &prng, now_ms);
            must_be(&c, &m);
            now_ms += prng_below(&prng, CLAIM_MS / 4);
            take_those_over(&c, &m, now_ms);
            must_be(&c, &m);
        }
        claims_free(&c);
    }
}

/* Nobody makes the manager remember more than that. */
static void test_there_are_not_too_many(void **state)
{
    const donor_id donor = 1;
    struct claims c;

    (void)state;
    claims_init(&c);
    for (uint32_t i = 0; i <= CLAIMS_HELD_MAX; i++) {
        assert_true(claims_put(&c, 1, 1, i, &donor, 1, 0) == (i < CLAIMS_HELD_MAX));
    }
    for (uint32_t s = 2; s <= CLAIMS_MAX / CLAIMS_HELD_MAX; s++) {
        for (uint32_t i = 0; i < CLAIMS_HELD_MAX; i++) {
            assert_true(claims_put(&c, 1, s, i, &donor, 1, 0));
        }
    }
    assert_false(claims_put(&c, 2, CLAIMS_MAX, 0, &donor, 1, 0));
    claims_check(&c);
    assert_true(claims_end(&c, 1, 2, 5));
    assert_true(claims_put(&c, 2, CLAIMS_MAX, 0, &donor, 1, 0));
    claims_check(&c);
    claims_free(&c);
}

/* As of a manager that could not be opened. */
static void what_was_never_begun_is_freed(void **state)
{
    struct claims c = { 0 };

    (void)state;
    claims_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_never_begun_is_freed),
        cmocka_unit_test(test_one_mount_each_as_long_as_it_is_heard_of),
        cmocka_unit_test(test_there_are_not_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
