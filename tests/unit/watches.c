/* What of an object was changed since: a watch beside a model that has a bit a block; and the store, of which whoever reads behind the
 * beginning of a watch, and again what was changed since, has what is there. */
#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODEL_GRAINS = 512, STRETCHES = 7 };

static const struct object_id ID = { .inode = 3, .column = 1 }, OTHER = { .inode = 3, .column = 2 };

/* All stretches, asked for in pieces: apart from each other and in order. How many; UINT32_MAX: not known. */
static uint32_t ask(struct watches *w, struct object_id id, uint64_t number,
                    struct watch_stretch *all, uint32_t all_max)
{
    uint32_t count, total = 0;
    uint64_t from = 0, next;

    do {
        assert_true(total + STRETCHES <= all_max);
        if (!watches_changed(w, id, number, from, all + total, STRETCHES, &count, &next)) {
            return UINT32_MAX;
        }
        assert_true(next == UINT64_MAX || (count == STRETCHES && next > from));
        total += count;
        from = next;
    } while (next != UINT64_MAX);
    for (uint32_t i = 0; i < total; i++) {
        assert_true(all[i].start < all[i].end);
        assert_true(i == 0 || all[i].start > all[i - 1].end);
    }
    return total;
}

static bool covers(const struct watch_stretch *all, uint32_t count, uint64_t at)
{
    for (uint32_t i = 0; i < count; i++) {
        if (at >= all[i].start && at < all[i].end) {
            return true;
        }
    }
    return false;
}

static void it_says_exactly_the_grains_that_were_changed(void **state)
{
    struct watch_stretch all[MODEL_GRAINS + STRETCHES];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (int round = 0; round < 100; round++) {
        bool changed[MODEL_GRAINS] = { false };
        struct watches w = { .count = 0 };
        uint64_t scale = round % 2 == 0 ? WATCH_GRAIN_BYTES : WATCH_GRAIN_BYTES * 8;
        uint32_t count;

        assert_true(watches_begin(&w, ID, 1));
        assert_true(watches_begin(&w, OTHER, 1));
        if (scale > WATCH_GRAIN_BYTES) { /* As coarse as the object is long. */
            watches_note(&w, ID, (uint64_t)WATCH_BITS * scale - 1, (uint64_t)WATCH_BITS * scale);
        }
        for (int i = 0; i < 60; i++) {
            uint64_t grain = prng_below(&prng, MODEL_GRAINS);
            uint64_t from = grain * scale + prng_below(&prng, scale);
            uint64_t bytes = 1 + prng_below(&prng, 3 * scale);
            uint64_t last = (from + bytes - 1) / scale;

            watches_note(&w, ID, from, from + bytes);
            for (; grain <= last && grain < MODEL_GRAINS; grain++) {
                changed[grain] = true;
            }
        }
        count = ask(&w, ID, 1, all, MODEL_GRAINS + STRETCHES);
        for (uint64_t grain = 0; grain < MODEL_GRAINS; grain++) {
            assert_int_equal(covers(all, count, grain * scale), changed[grain]);
            assert_int_equal(covers(all, count, (grain + 1) * scale - 1), changed[grain]);
        }
        assert_int_equal(ask(&w, OTHER, 1, all, STRETCHES), 0);
        watches_free(&w);
    }
}

static void what_was_noted_stays_when_it_becomes_coarser(void **state)
{
    struct watch_stretch all[64];
    struct watches w = { .count = 0 };
    uint64_t at[] = { 0, (uint64_t)5 << 30, (uint64_t)100 << 30, OBJECT_BYTES_MAX - 1 };
    uint32_t count;

    (void)state;
    assert_true(watches_begin(&w, ID, 7));
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        watches_note(&w, ID, at[i], at[i] + 1);
        count = ask(&w, ID, 7, all, 64);
        assert_int_equal(count, i + 1);
        for (size_t j = 0; j <= i; j++) {
            assert_true(covers(all, count, at[j]));
        }
    }
    watches_note(&w, ID, 10, 10); /* Nothing. */
    assert_int_equal(ask(&w, ID, 7, all, 64), 4);
    watches_free(&w);
}

static void a_watch_that_is_not_known_says_so(void **state)
{
    struct watch_stretch all[STRETCHES];
    struct watches w = { .count = 0 };

    (void)state;
    assert_int_equal(ask(&w, ID, 1, all, STRETCHES), UINT32_MAX);
    assert_true(watches_begin(&w, ID, 1));
    assert_true(watches_begin(&w, ID, 2));
    watches_note(&w, ID, 0, 1);
    assert_true(watches_begin(&w, ID, 1)); /* Asked for twice: it goes on. */
    assert_int_equal(ask(&w, ID, 1, all, STRETCHES), 1);
    assert_int_equal(ask(&w, OTHER, 1, all, STRETCHES), UINT32_MAX);
    watches_drop(&w, ID);
    assert_int_equal(ask(&w, ID, 1, all, STRETCHES), UINT32_MAX);
    assert_int_equal(ask(&w, ID, 2, all, STRETCHES), UINT32_MAX);
    assert_int_equal(w.count, 0);
    watches_free(&w);
}

static void the_one_that_nobody_has_looked_at_makes_room(void **state)
{
    struct watch_stretch all[STRETCHES];
    struct watches w = { .count = 0 };

    (void)state;
    for (uint32_t i = 1; i <= WATCHES_MAX; i++) {
        assert_true(watches_begin(&w, (struct object_id){ 7, i }, 1));
    }
    for (uint64_t i = 1; i <= WATCHES_OBJECT_MAX; i++) { /* In the place of the first ones. */
        assert_true(watches_begin(&w, ID, i));
    }
    assert_int_equal(ask(&w, (struct object_id){ 7, WATCHES_OBJECT_MAX }, 1, all, STRETCHES),
                     UINT32_MAX);
    watches_note(&w, ID, 0, 1);
    assert_int_equal(ask(&w, ID, 1, all, STRETCHES), 1);
    assert_true(watches_begin(&w, ID, WATCHES_OBJECT_MAX + 1)); /* Of one object, its own. */
    assert_int_equal(ask(&w, ID, 1, all, STRETCHES), 1);
    assert_int_equal(ask(&w, ID, 2, all, STRETCHES), UINT32_MAX);
    assert_int_equal(ask(&w, ID, WATCHES_OBJECT_MAX + 1, all, STRETCHES), 0);
    for (uint32_t i = WATCHES_OBJECT_MAX + 1; i <= WATCHES_MAX; i++) {
        assert_int_equal(ask(&w, (struct object_id){ 7, i }, 1, all, STRETCHES), 0);
        assert_true((watches_marks(&w) & watches_mark((struct object_id){ 7, i })) != 0);
    }
    watches_free(&w);
    assert_int_equal(watches_marks(&w), 0);
}

/* ---- The store ---- */

enum { OBJECT_BYTES = 1 << 20 };

struct copying
{
    struct store_fixture f;
    uint8_t is[2 * OBJECT_BYTES], copy[2 * OBJECT_BYTES];
};

static int begin(void **state)
{
    struct copying *c = calloc(1, sizeof(*c));

    CHECK(c != NULL);
    fixture_init(&c->f);
    fixture_open(&c->f);
    *state = c;
    return 0;
}

static int end(void **state)
{
    struct copying *c = *state;

    fixture_free(&c->f);
    free(c);
    return 0;
}

/* In any of the ways in which an object can be changed. */
static void change(struct copying *c, struct prng *prng)
{
    static uint8_t bytes[3 * WATCH_GRAIN_BYTES];
    uint64_t at = prng_below(prng, OBJECT_BYTES), length = 1 + prng_below(prng, sizeof(bytes));

    for (size_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)prng_below(prng, 256);
    }
    switch (prng_below(prng, 5)) {
    case 0:
        assert_int_equal(store_truncate(c->f.store, ID, at, NULL, NULL), 0);
        break;
    case 1:
        assert_int_equal(store_punch(c->f.store, ID, at, length, NULL, NULL), 0);
        break;
    case 2:
        assert_int_equal(store_allocate(c->f.store, ID, at, length, NULL, NULL), 0);
        break;
    default:
        assert_int_equal(fixture_write(&c->f, ID, at, bytes, length), 0);
    }
}

/* What was changed since, into the copy; how many bytes. */
static uint64_t copy_again(struct copying *c, uint64_t since)
{
    struct watch_stretch stretches[64];
    uint64_t next, bytes = 0;
    uint32_t count;

    assert_int_equal(store_changed(c->f.store, ID, since, 0, stretches, 64, &count, &next), 0);
    assert_int_equal(next, UINT64_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end = stretches[i].end < sizeof(c->copy) ? stretches[i].end : sizeof(c->copy);

        assert_int_equal(fixture_read(&c->f, ID, stretches[i].start, c->copy + stretches[i].start,
                                      end - stretches[i].start),
                         0);
        bytes += end - stretches[i].start;
    }
    return bytes;
}

/* As a file, of which the copy is always as long as it: what is cut off the copy is zeros there. */
static void take_length(struct copying *c)
{
    struct store_stat stat;

    assert_int_equal(store_stat(c->f.store, ID, &stat, NULL), 0);
    memset(c->copy + stat.size, 0, sizeof(c->copy) - stat.size);
}

static void a_copy_with_what_was_changed_since_is_what_is_there(void **state)
{
    struct copying *c = *state;
    uint64_t again = 0;
    struct prng prng;

    prng_seed(&prng, 8);
    for (uint64_t number = 1; number < 400; number++) {
        assert_int_equal(store_watch(c->f.store, ID, number), 0);
        again += number > 1 ? copy_again(c, number - 1) : 0;
        take_length(c);
        assert_int_equal(fixture_read(&c->f, ID, 0, c->is, sizeof(c->is)), 0);
        assert_memory_equal(c->is, c->copy, sizeof(c->is));
        for (uint64_t i = prng_below(&prng, 3); i > 0; i--) {
            change(c, &prng);
        }
    }
    assert_true(again < 400 * (uint64_t)OBJECT_BYTES / 4);
}

/* As where the only other copy is damaged: it is no longer what was read. */
static void what_becomes_damage_is_a_change(void **state)
{
    struct copying *c = *state;
    struct watch_stretch stretch;
    uint64_t next;
    uint32_t count;

    assert_int_equal(fixture_write(&c->f, ID, 0, c->is, OBJECT_BYTES), 0);
    assert_int_equal(store_watch(c->f.store, ID, 1), 0);
    assert_int_equal(store_spoil(c->f.store, ID, 3 * WATCH_GRAIN_BYTES, 100, NULL), 0);
    assert_int_equal(store_changed(c->f.store, ID, 1, 0, &stretch, 1, &count, &next), 0);
    assert_int_equal(count, 1);
    assert_int_equal(stretch.start, 3 * WATCH_GRAIN_BYTES);
    assert_int_equal(stretch.end, 4 * WATCH_GRAIN_BYTES);
}

static void a_deleted_object_is_not_watched_any_more_nor_is_any_behind_a_start(void **state)
{
    struct copying *c = *state;
    struct watch_stretch stretch;
    uint64_t next;
    uint32_t count;

    assert_int_equal(fixture_write(&c->f, ID, 0, "bytes", 5), 0);
    assert_int_equal(store_watch(c->f.store, ID, 1), 0);
    assert_int_equal(store_watch(c->f.store, OTHER, 1), 0);
    assert_int_equal(store_delete(c->f.store, ID, NULL), 0);
    assert_int_equal(store_changed(c->f.store, ID, 1, 0, &stretch, 1, &count, &next),
                     MORSEL_NODATA);
    assert_int_equal(store_changed(c->f.store, OTHER, 1, 0, &stretch, 1, &count, &next), 0);
    assert_int_equal(count, 0);
    fixture_close(&c->f);
    fixture_open(&c->f);
    assert_int_equal(store_changed(c->f.store, OTHER, 1, 0, &stretch, 1, &count, &next),
                     MORSEL_NODATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_exactly_the_grains_that_were_changed),
        cmocka_unit_test(what_was_noted_stays_when_it_becomes_coarser),
        cmocka_unit_test(a_watch_that_is_not_known_says_so),
        cmocka_unit_test(the_one_that_nobody_has_looked_at_makes_room),
        cmocka_unit_test_setup_teardown(a_copy_with_what_was_changed_since_is_what_is_there, begin,
                                        end),
        cmocka_unit_test_setup_teardown(what_becomes_damage_is_a_change, begin, end),
        cmocka_unit_test_setup_teardown(
            a_deleted_object_is_not_watched_any_more_nor_is_any_behind_a_start, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
