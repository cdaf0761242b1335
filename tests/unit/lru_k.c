/* LRU-K against all of the history, for K from 1 to 5; how long a choice takes; and how often sets are found in a cache that goes by
 * it, compared with plain LRU. */
#include "meta/datasets/lru_k.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static bool may_all(void *data, uint64_t set)
{
    (void)data;
    (void)set;
    return true;
}

/* ---- Against the history ---- */

enum { SETS = 12, MOUNTS = 3, HISTORY = 200, RUNS = 8 };

struct access
{
    uint64_t set, mount;
    int64_t at_ns;
};

struct history
{
    struct access accesses[HISTORY];
    uint32_t count;
    int64_t burst_ns;
    bool barred[SETS + 1];
};

/* Accesses of the set that count, the newest last; *last_ns: of all. */
static uint32_t counted(const struct history *h, uint64_t set, int64_t times[HISTORY],
                        int64_t *last_ns)
{
    uint64_t mount = 0;
    uint32_t count = 0;

    *last_ns = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct access *a = &h->accesses[i];

        if (a->set != set) {
            continue;
        }
        if (count == 0 || mount != a->mount || a->at_ns - times[count - 1] > h->burst_ns) {
            times[count++] = a->at_ns;
        }
        mount = a->mount;
        *last_ns = a->at_ns;
    }
    return count;
}

/* By the words of the paper: the greatest distance; infinite ones first, among those the least recently used. */
static uint64_t expected_choice(const struct history *h, uint32_t k)
{
    int64_t best_ns = 0, times[HISTORY] = { 0 }, last_ns;
    bool best_far = false;
    uint64_t best = 0;

    for (uint64_t set = 1; set <= SETS; set++) {
        uint32_t count = counted(h, set, times, &last_ns);
        bool far = count < k;
        int64_t at_ns = far ? last_ns : times[count - k];

        if (last_ns == 0 || h->barred[set]) {
            continue;
        }
        if (best == 0 || (far && !best_far) || (far == best_far && at_ns < best_ns)) {
            best = set;
            best_far = far;
            best_ns = at_ns;
        }
    }
    return best;
}

static bool may_unbarred(void *data, uint64_t set)
{
    const struct history *h = data;

    return !h->barred[set];
}

/* Some are those that would be chosen one behind the other. */
static void check_some(const struct lru_k *l, struct history *h, uint32_t max)
{
    uint64_t some[SETS] = { 0 }, set;
    uint32_t count = lru_k_choose_some(l, may_unbarred, h, some, max);
    bool barred[SETS + 1];

    memcpy(barred, h->barred, sizeof(barred));
    for (uint32_t i = 0; i < max; i++) {
        set = expected_choice(h, l->k);
        assert_int_equal(i < count, set != 0);
        assert_int_equal(some[i], set);
        h->barred[set] = true;
    }
    memcpy(h->barred, barred, sizeof(barred));
}

static void check_choice(const struct lru_k *l, struct history *h)
{
    uint64_t expected = expected_choice(h, l->k), set = 0;

    assert_int_equal(lru_k_choose(l, may_unbarred, h, &set), expected != 0);
    assert_int_equal(set, expected);
    if (h->count % 16 == 0) {
        check_some(l, h, 4);
        check_some(l, h, SETS);
    }
    lru_k_check(l);
}

static void run_history(uint32_t k, uint64_t seed)
{
    struct history h = { .count = 0 };
    struct prng prng;
    struct lru_k l;
    int64_t now_ns = 1;

    prng_seed(&prng, seed);
    h.burst_ns = (int64_t)prng_below(&prng, 3) * 40;
    lru_k_init(&l, k, h.burst_ns);
    while (h.count < HISTORY) {
        struct access *a = &h.accesses[h.count++];

        now_ns += 1 + (int64_t)prng_below(&prng, 30);
        *a = (struct access){ 1 + prng_below(&prng, SETS), 1 + prng_below(&prng, MOUNTS), now_ns };
        h.barred[1 + prng_below(&prng, SETS)] = prng_below(&prng, 3) == 0;
        assert_int_equal(lru_k_use(&l, a->set, a->mount, a->at_ns), 0);
        if (prng_below(&prng, 40) == 0) {
            /* What was written down and is read again goes on where it was, but for the mount of a burst. */
            struct lru_k_uses uses = *lru_k_find(&l, a->set);

            if (h.burst_ns == 0) {
                lru_k_drop(&l, a->set);
                assert_null(lru_k_find(&l, a->set));
                assert_int_equal(lru_k_put(&l, a->set, &uses), 0);
            }
        }
        check_choice(&l, &h);
    }
    lru_k_free(&l);
}

static void test_choice_is_that_of_all_history(void **state)
{
    uint64_t first = test_seed_first();

    (void)state;
    for (uint32_t k = 1; k <= LRU_K_MAX; k++) {
        for (uint64_t seed = first; seed < first + RUNS; seed++) {
            run_history(k, seed);
        }
    }
}

static void test_burst_of_one_mount_is_one_access(void **state)
{
    const struct lru_k_uses *uses;
    struct lru_k l;

    (void)state;
    lru_k_init(&l, 2, 100);
    for (int64_t at_ns = 1000; at_ns <= 1100; at_ns += 10) {
        assert_int_equal(lru_k_use(&l, 7, 1, at_ns), 0);
    }
    uses = lru_k_find(&l, 7);
    assert_int_equal(uses->count, 1);
    assert_int_equal(uses->times_ns[0], 1000);
    assert_int_equal(uses->last_ns, 1100);
    assert_int_equal(lru_k_use(&l, 7, 2, 1101), 0); /* Another mount is another access. */
    assert_int_equal(lru_k_find(&l, 7)->count, 2);
    assert_int_equal(lru_k_use(&l, 7, 2, 1202), 0); /* So is the same one later. */
    assert_int_equal(lru_k_find(&l, 7)->count, 3);
    assert_int_equal(lru_k_use(&l, 7, 2, 500), 0); /* The clock was put back. */
    lru_k_check(&l);
    lru_k_free(&l);
}

static void test_sets_are_bounded(void **state)
{
    struct lru_k_uses uses = { .count = 0 };
    struct lru_k l;
    uint64_t set;

    (void)state;
    lru_k_init(&l, 3, 0);
    for (uint64_t i = 1; i <= LRU_K_SETS_MAX + LRU_K_SPARE + 1; i++) {
        assert_int_equal(l.count, i - 1); /* None is left out yet. */
        uses.last_ns = (int64_t)i;
        assert_int_equal(lru_k_put(&l, i, &uses), 0);
    }
    lru_k_check(&l);
    assert_int_equal(l.count, LRU_K_SETS_MAX);
    assert_non_null(lru_k_find(&l, 1)); /* Those that go first are known. */
    assert_non_null(lru_k_find(&l, LRU_K_SETS_MAX));
    assert_null(lru_k_find(&l, LRU_K_SETS_MAX + 1));
    assert_false(lru_k_wants_more(&l));
    assert_true(lru_k_choose(&l, may_all, NULL, &set));
    assert_int_equal(set, 1);
    for (uint64_t i = LRU_K_SETS_MAX; l.count > LRU_K_SETS_MAX / 2; i--) {
        lru_k_drop(&l, i);
    }
    assert_true(lru_k_wants_more(&l));
    assert_false(lru_k_wants_more(&l));
    lru_k_free(&l);
}

/* With uses of all kinds: who is left out goes behind all who are known. */
static void test_those_that_go_last_are_left_out(void **state)
{
    enum { ALL = LRU_K_SETS_MAX + 3 * (LRU_K_SPARE + 1) }; /* They have just been left out. */
    struct lru_k_uses *all = calloc(ALL, sizeof(*all));
    const struct lru_k_uses *last = NULL;
    struct prng prng;
    struct lru_k l;

    (void)state;
    assert_non_null(all);
    prng_seed(&prng, 5);
    lru_k_init(&l, 3, 0);
    for (uint32_t set = 0; set < ALL; set++) {
        all[set].count = (uint32_t)prng_below(&prng, LRU_K_MAX + 1);
        all[set].last_ns = (int64_t)prng_below(&prng, 1000000) + 10;
        for (uint32_t j = 0; j < all[set].count; j++) {
            all[set].times_ns[j] = all[set].last_ns - j;
        }
        assert_int_equal(lru_k_put(&l, 1 + set, &all[set]), 0);
    }
    lru_k_check(&l);
    for (uint32_t i = 0; i < l.count; i++) {
        if (last == NULL || lru_k_goes_before(3, last, &l.items[i].uses)) {
            last = &l.items[i].uses;
        }
    }
    for (uint32_t i = 0; i < ALL; i++) {
        assert_true(lru_k_find(&l, 1 + i) != NULL || !lru_k_goes_before(3, &all[i], last));
    }
    lru_k_free(&l);
    free(all);
}

static bool is_odd(void *data, uint64_t set)
{
    (void)data;
    return set % 2 == 1;
}

static void test_only_what_is_there_is_retained(void **state)
{
    struct lru_k l;

    (void)state;
    lru_k_init(&l, 3, 0);
    for (uint64_t i = 1; i <= 9; i++) {
        assert_int_equal(lru_k_use(&l, i, 1, (int64_t)i), 0);
    }
    lru_k_retain(&l, is_odd, NULL);
    lru_k_check(&l);
    assert_int_equal(l.count, 5);
    assert_int_equal(lru_k_next(&l, 0)->set, 1);
    assert_int_equal(lru_k_next(&l, 4)->set, 5);
    assert_int_equal(lru_k_next(&l, 9)->set, 9);
    assert_null(lru_k_next(&l, 10));
    lru_k_free(&l);
}

/* ---- How long a choice takes ---- */

static double now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Of the processor, not of the clock on the wall: others may work beside. The best of some. */
static double choice_us(uint32_t sets)
{
    struct prng prng;
    struct lru_k l;
    double best = 1e9;
    uint64_t set;

    prng_seed(&prng, sets);
    lru_k_init(&l, LRU_K_DEFAULT, 0);
    for (uint32_t i = 0; i < sets * 4; i++) {
        set = i < sets ? 1 + i : 1 + prng_below(&prng, sets);
        assert_int_equal(lru_k_use(&l, set, 1, i + 1), 0);
    }
    for (int i = 0; i < 20; i++) {
        double began = now_us(), took;

        assert_true(lru_k_choose(&l, may_all, NULL, &set));
        took = now_us() - began;
        best = took < best ? took : best;
    }
    lru_k_free(&l);
    return best;
}

static void test_choice_is_quick(void **state)
{
    static const uint32_t sets[] = { 2000, 10000, LRU_K_SETS_MAX };

    (void)state;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        double us = choice_us(sets[i]);

        print_message("a choice among %u sets takes %.0f microseconds\n", sets[i], us);
        assert_true(sets[i] > 10000 || us < 1000);
    }
}

/* A manager with four times as many sets as are known, at its start: in seconds of the processor, where to look at all that is known
 * for each took some minutes. */
static void test_many_sets_are_learned_quickly(void **state)
{
    enum { MANY = 4 * LRU_K_SETS_MAX, SECONDS = 20 };
    struct lru_k_uses uses = { .count = 0 };
    double began = now_us(), took;
    struct prng prng;
    struct lru_k l;

    (void)state;
    prng_seed(&prng, 3);
    lru_k_init(&l, LRU_K_DEFAULT, 0);
    for (uint64_t i = 1; i <= MANY; i++) {
        uses.last_ns = (int64_t)prng_below(&prng, 1000000);
        assert_int_equal(lru_k_put(&l, i, &uses), 0);
        assert_true(i % 1024 != 0 || now_us() - began < SECONDS * 1e6);
    }
    took = now_us() - began;
    print_message("%d sets are learned in %.0f milliseconds\n", MANY, took / 1e3);
    lru_k_check(&l);
    lru_k_free(&l);
}

/* ---- How often sets are found ---- */

enum { CACHE = 100, TRACE = 20000, KNOWN = 4000 };

struct cache
{
    struct lru_k lru;
    bool here[KNOWN + 1];
    uint32_t count;
};

static bool may_here(void *data, uint64_t set)
{
    const struct cache *c = data;

    return c->here[set];
}

/* Was it there? It is from now on. The history of what goes stays. */
static bool look_up(struct cache *c, uint64_t set, int64_t now_ns)
{
    bool found = c->here[set];
    uint64_t victim;

    if (!found && c->count == CACHE) {
        assert_true(lru_k_choose(&c->lru, may_here, c, &victim));
        c->here[victim] = false;
        c->count--;
    }
    assert_int_equal(lru_k_use(&c->lru, set, 1, now_ns), 0);
    c->count += !found;
    c->here[set] = true;
    return found;
}

typedef uint64_t (*tracer)(struct prng *prng, uint32_t at);

/* Every second access goes to one of 80 sets, round and round; between them one of thousands. */
static uint64_t trace_periodic(struct prng *prng, uint32_t at)
{
    return at % 2 == 0 ? 1 + at / 2 % 80 : 81 + prng_below(prng, KNOWN - 80);
}

/* 90 sets, some of them more popular; and now and then somebody reads 300 others, each once. */
static uint64_t trace_scans(struct prng *prng, uint32_t at)
{
    uint64_t a = prng_below(prng, 90), b = prng_below(prng, 90);

    if (at % 1000 >= 700) {
        return 91 + (at / 1000 * 300 + at % 1000 - 700) % (KNOWN - 90);
    }
    return 1 + (a < b ? a : b);
}

/* In so many accesses behind a shift more sets come in than the cache holds. */
enum { SHIFT = 6000, TURNOVER = 600 };

/* Others are popular every so often: 4 of 5 accesses go to 100 sets, the others anywhere. */
static uint64_t trace_shifts(struct prng *prng, uint32_t at)
{
    uint64_t base = at / SHIFT * 300 % (KNOWN - 200);

    return prng_below(prng, 5) < 4 ? 1 + base + prng_below(prng, 100) : 1 + prng_below(prng, KNOWN);
}

/* Percent of those that count: not the first ones, nor the `settle` ones behind each `shift`. */
static double hits(uint32_t k, tracer trace, uint32_t shift, uint32_t settle)
{
    struct cache c = { .count = 0 };
    uint32_t found = 0, looked = 0;
    struct prng prng;

    prng_seed(&prng, 4711);
    lru_k_init(&c.lru, k, 0);
    for (uint32_t at = 0; at < TRACE; at++) {
        bool here = look_up(&c, trace(&prng, at), at + 1);
        bool counts = at >= 2000 && (shift == 0 || at % shift >= settle);

        looked += counts;
        found += counts && here;
    }
    lru_k_free(&c.lru);
    return 100.0 * found / looked;
}

static void compare(const char *words, tracer trace, uint32_t shift, uint32_t settle, double more)
{
    double lru = hits(1, trace, shift, settle);

    for (uint32_t k = 2; k <= LRU_K_MAX; k++) {
        double rate = hits(k, trace, shift, settle);

        print_message("%s: LRU finds %.1f %%, LRU-%u %.1f %%\n", words, lru, k, rate);
        assert_true(rate >= lru - 1);
        assert_true(k > LRU_K_DEFAULT || rate >= lru + more);
    }
}

static void test_finds_more_than_lru(void **state)
{
    (void)state;
    compare("periodic accesses", trace_periodic, 0, 0, 10);
    compare("scans between others", trace_scans, 0, 0, 5);
    compare("popularity that shifts, settled", trace_shifts, SHIFT, TURNOVER, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_is_that_of_all_history),
        cmocka_unit_test(test_burst_of_one_mount_is_one_access),
        cmocka_unit_test(test_sets_are_bounded),
        cmocka_unit_test(test_those_that_go_last_are_left_out),
        cmocka_unit_test(test_only_what_is_there_is_retained),
        cmocka_unit_test(test_many_sets_are_learned_quickly),
        cmocka_unit_test(test_choice_is_quick),
        cmocka_unit_test(test_finds_more_than_lru),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
