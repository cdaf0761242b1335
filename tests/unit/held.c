/* Pages of an inventory, and stretches of morsels, against lists of single morsels. */
#include "benefactor/held.h"
#include "common/base/check.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IDS_MAX = 60000 };

static bool before(struct object_id a, struct object_id b)
{
    return a.inode < b.inode || (a.inode == b.inode && a.column < b.column);
}

/* `count` of them, each once, in a drawn order: close to each other, at ends of numbers, or far apart. */
static struct object_id *draw(struct prng *prng, size_t count, unsigned gap)
{
    struct object_id *ids = calloc(count + 1, sizeof(*ids));
    struct object_id id = { .inode = 3, .column = UINT32_MAX - 50 };

    CHECK(ids != NULL);
    for (size_t i = 0; i < count; i++) {
        ids[i] = id;
        if (prng_below(prng, 100) == 0 || id.column > UINT32_MAX - gap - 1) {
            id.inode += 1 + prng_below(prng, 3);
            id.column = prng_below(prng, 2) == 0 ? 0 : (uint32_t)prng_below(prng, 1000);
        } else {
            id.column += 1 + (uint32_t)prng_below(prng, gap);
        }
    }
    for (size_t i = count; i > 1; i--) {
        size_t other = prng_below(prng, i);
        struct object_id swap = ids[i - 1];

        ids[i - 1] = ids[other];
        ids[other] = swap;
    }
    return ids;
}

/* All morsels of a page, which go on behind those before, in order. */
static size_t take_page(const struct held_page *page, struct object_id *out, size_t count)
{
    size_t named = 0;

    assert_true(page->runs_count <= SET_RUNS_MAX);
    assert_int_equal(page->begins, count == 0);
    if (!page->begins) {
        assert_true(before(out[count - 1], page->from));
        assert_true(page->from.inode > out[count - 1].inode
                        ? page->from.column == 0 && out[count - 1].column == UINT32_MAX
                        : page->from.column == out[count - 1].column + 1);
    }
    for (size_t r = 0; r < page->runs_count; r++) {
        assert_true(page->runs[r].count > 0);
        for (uint32_t i = 0; i < page->runs[r].count; i++) {
            out[count + named] =
                (struct object_id){ .inode = page->runs[r].set, .column = page->runs[r].first + i };
            assert_true(count + named == 0 || before(out[count + named - 1], out[count + named]));
            named++;
        }
    }
    assert_true(named <= SET_HELD_MAX);
    return count + named;
}

static void told(size_t count, unsigned gap, uint64_t seed)
{
    struct object_id *out = calloc(count + 1, sizeof(*out));
    struct morsel_run *runs = calloc(SET_RUNS_MAX, sizeof(*runs));
    struct held_page page = { .runs = runs };
    struct held held;
    struct prng prng;
    size_t got = 0;

    CHECK(out != NULL && runs != NULL);
    prng_seed(&prng, seed);
    held_take(&held, draw(&prng, count, gap), count);
    while (!held.over) {
        held_page(&held, &page);
        if (prng_below(&prng, 8) == 0) {
            held_again(&held); /* The connection has ended. */
            got = 0;
            continue;
        }
        got = take_page(&page, out, got);
        assert_int_equal(page.last, got == count);
        held_told(&held, &page);
    }
    assert_int_equal(got, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(out[i].inode == held.ids[i].inode && out[i].column == held.ids[i].column);
    }
    held_free(&held);
    free(out);
    free(runs);
}

static void pages_name_every_morsel_once(void **state)
{
    (void)state;
    told(0, 1, 1);
    told(1, 1, 2);
    told(IDS_MAX, 1, 3); /* Long stretches: as many morsels as a page may name. */
    told(IDS_MAX, 3, 4); /* Short ones: as many stretches. */
    for (uint64_t seed = 5; seed < 40; seed++) {
        told(seed * 97, (unsigned)(seed % 4) + 1, seed);
    }
}

static void a_page_may_end_with_the_last_number(void **state)
{
    struct morsel_run *runs = calloc(SET_RUNS_MAX, sizeof(*runs));
    struct held_page page = { .runs = runs };
    struct object_id *ids = calloc(SET_HELD_MAX + 1, sizeof(*ids));
    struct held held;

    (void)state;
    CHECK(runs != NULL && ids != NULL);
    for (uint32_t i = 0; i < SET_HELD_MAX; i++) {
        ids[i] = (struct object_id){ .inode = 1, .column = UINT32_MAX - i };
    }
    ids[SET_HELD_MAX] = (struct object_id){ .inode = 9, .column = 9 };
    held_take(&held, ids, SET_HELD_MAX + 1);
    held_page(&held, &page);
    assert_true(page.runs_count == 1 && page.runs[0].count == SET_HELD_MAX && !page.last);
    held_told(&held, &page);
    held_page(&held, &page);
    assert_true(page.last && page.from.inode == 2 && page.from.column == 0);
    held_free(&held);
    free(runs);
}

/* In no matter which order, and however they overlap, the joined ones have the same morsels. */
static void joined_stretches_have_the_same_morsels(void **state)
{
    enum { RUNS = 12, SETS = 3, NUMBERS = 40 };
    struct prng prng;

    (void)state;
    prng_seed(&prng, 9);
    for (unsigned round = 0; round < 2000; round++) {
        struct morsel_run runs[RUNS];
        bool has[SETS][NUMBERS] = { { false } };
        size_t count = prng_below(&prng, RUNS + 1), joined;
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++) {
            runs[i] = (struct morsel_run){ .set = prng_below(&prng, SETS),
                                           .first = (uint32_t)prng_below(&prng, NUMBERS),
                                           .count = (uint32_t)prng_below(&prng, 9) };
            if (prng_below(&prng, 20) == 0) {
                runs[i].count = UINT32_MAX;
            }
            for (uint32_t n = runs[i].first; n < NUMBERS && n - runs[i].first < runs[i].count;
                 n++) {
                has[runs[i].set][n] = true;
            }
        }
        joined = runs_join(runs, count);
        for (size_t i = 0; i < joined; i++) {
            assert_true(runs[i].count > 0);
            assert_true(i == 0 || runs[i - 1].set < runs[i].set ||
                        (uint64_t)runs[i - 1].first + runs[i - 1].count < runs[i].first);
            sum += runs[i].count;
        }
        assert_true(runs_sum(runs, joined) == sum);
        for (uint32_t set = 0; set < SETS; set++) {
            for (uint32_t n = 0; n < NUMBERS; n++) {
                assert_int_equal(runs_have(runs, joined, (struct object_id){ set, n }),
                                 has[set][n]);
            }
        }
    }
}

static void a_stretch_ends_with_the_last_number(void **state)
{
    struct morsel_run runs[2] = { { .set = 5, .first = UINT32_MAX - 2, .count = 100 },
                                  { .set = 5, .first = 7, .count = UINT32_MAX } };

    (void)state;
    assert_int_equal(runs_join(runs, 1), 1);
    assert_int_equal(runs[0].count, 3);
    assert_true(runs_have(runs, 1, (struct object_id){ 5, UINT32_MAX }));
    assert_false(runs_have(runs, 1, (struct object_id){ 5, 0 }));
    assert_int_equal(runs_join(runs, 2), 1);
    assert_true(runs[0].first == 7 && runs[0].count == UINT32_MAX - 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_name_every_morsel_once),
        cmocka_unit_test(a_page_may_end_with_the_last_number),
        cmocka_unit_test(joined_stretches_have_the_same_morsels),
        cmocka_unit_test(a_stretch_ends_with_the_last_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
