/* What a mount knows of the map of a data set, against a model that remembers everything. */
#include "client/datasets/set_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <string.h>

enum { PAGES = SET_MAP_PAGES_MAX + 8, MORSELS = PAGES * SET_MAP_PAGE, STEPS = 200000 };

static struct set_entry entry_of(uint32_t digest)
{
    return (struct set_entry){ .stored = true,
                               .donor_count = 2,
                               .donors = { digest % 7 + 1, digest % 5 + 10 },
                               .length = 100,
                               .digest = digest };
}

static bool same(const struct set_entry *a, const struct set_entry *b)
{
    return a->stored == b->stored && a->digest == b->digest && a->length == b->length &&
           a->donor_count == b->donor_count && memcmp(a->donors, b->donors, sizeof(a->donors)) == 0;
}

/* Of a map that is not ours: what it says is what was put last since its page became known; it may know nothing, but only of
 * pages that were not begun, or are not among the last SET_MAP_PAGES_MAX. */
static void what_is_known_is_so(void **state)
{
    static struct set_entry model[MORSELS];
    static bool begun[PAGES];
    struct set_map map;
    struct prng prng;

    (void)state;
    memset(model, 0, sizeof(model));
    memset(begun, 0, sizeof(begun));
    prng_seed(&prng, test_seed_first());
    set_map_init(&map, false);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t morsel = (uint32_t)prng_below(&prng, MORSELS), page = morsel / SET_MAP_PAGE;
        uint64_t what = prng_below(&prng, 100);
        struct set_entry entry = entry_of(step), found;

        if (what < 8) {
            assert_int_equal(set_map_begin(&map, morsel), MORSEL_OK);
            memset(&model[page * SET_MAP_PAGE], 0, SET_MAP_PAGE * sizeof(model[0]));
            begun[page] = true;
        } else if (what < 10) {
            set_map_forget(&map, morsel);
            begun[page] = false;
        } else if (what < 50) {
            bool known = set_map_get(&map, morsel, &found);

            set_map_put(&map, morsel, &entry);
            model[morsel] = known ? entry : (struct set_entry){ .stored = false };
            assert_int_equal(set_map_get(&map, morsel, &found), known);
        }
        if (set_map_get(&map, morsel, &found)) {
            assert_true(begun[page] && same(&found, &model[morsel]));
        } else {
            assert_false(found.stored);
        }
        assert_true(map.count <= SET_MAP_PAGES_MAX);
    }
    set_map_free(&map);
}

static void those_used_last_are_kept(void **state)
{
    struct set_map map;
    struct set_entry entry;

    (void)state;
    set_map_init(&map, false);
    for (uint32_t page = 0; page < SET_MAP_PAGES_MAX; page++) {
        assert_int_equal(set_map_begin(&map, page * SET_MAP_PAGE), MORSEL_OK);
    }
    assert_true(set_map_get(&map, 0, &entry)); /* The first is used again: the second has to go. */
    assert_int_equal(set_map_begin(&map, SET_MAP_PAGES_MAX * SET_MAP_PAGE), MORSEL_OK);
    assert_true(set_map_get(&map, 0, &entry));
    assert_false(set_map_get(&map, SET_MAP_PAGE, &entry));
    set_map_forget_all(&map);
    assert_false(set_map_get(&map, 0, &entry));
    set_map_free(&map);
}

/* What nobody has stored is known to be so, until something was forgotten. */
static void ours_knows_everything(void **state)
{
    struct set_map map;
    struct set_entry entry = entry_of(1), found;

    (void)state;
    set_map_init(&map, true);
    assert_true(set_map_get(&map, 77777, &found) && !found.stored);
    set_map_put(&map, 5, &entry);
    assert_true(set_map_get(&map, 5, &found) && same(&found, &entry));
    assert_true(set_map_get(&map, 6, &found) && !found.stored);
    set_map_forget(&map, 5);
    assert_false(set_map_get(&map, 5, &found));
    assert_false(set_map_get(&map, 77777, &found));
    set_map_free(&map);

    set_map_init(&map, true);
    for (uint32_t page = 0; page <= SET_MAP_PAGES_MAX; page++) { /* One more than are kept. */
        set_map_put(&map, page * SET_MAP_PAGE, &entry);
    }
    assert_false(set_map_get(&map, 0, &found));
    set_map_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_is_so),
        cmocka_unit_test(those_used_last_are_kept),
        cmocka_unit_test(ours_knows_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
