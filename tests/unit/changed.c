/* A set of changes beside a model that has a bit a grain: it never says less, and says no more while
 * there is room. */
#include "iod/replica/changed.h"

#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OBJECTS = 6, GRAINS = 64, GRAIN = BLOCK_BYTES };

struct model
{
    bool known[OBJECTS];
    bool bits[OBJECTS][GRAINS];
};

static struct change stretch(inode_id inode, uint64_t start, uint64_t end)
{
    return (struct change){ .object = { inode, 0 }, .generation = 1, .span = { start, end } };
}

static struct change draw(struct prng *prng, struct model *m)
{
    uint64_t object = prng_below(prng, OBJECTS), from = prng_below(prng, GRAINS - 1);
    uint64_t count = prng_below(prng, 4);
    uint64_t to = from + count > GRAINS ? GRAINS : from + count;

    m->known[object] = true;
    for (uint64_t i = from; i < to; i++) {
        m->bits[object][i] = true;
    }
    /* Not on borders: whole grains are what counts. */
    return stretch(object + 1, from * GRAIN + (count > 0 ? 100 : 0),
                   count > 0 ? to * GRAIN - 200 : from * GRAIN);
}

/* How many grains the set names beyond the model's; it names all of the model's. */
static uint32_t compare(const struct changed *c, const struct model *m)
{
    uint32_t beyond = 0;

    for (uint64_t object = 0; object < OBJECTS; object++) {
        struct change none = stretch(object + 1, 0, 0);

        assert_true(!m->known[object] || changed_covers(c, &none));
        for (uint64_t i = 0; i < GRAINS; i++) {
            struct change one = stretch(object + 1, i * GRAIN, (i + 1) * GRAIN);
            bool covered = changed_covers(c, &one);

            assert_true(covered || !m->bits[object][i]);
            beyond += covered && !m->bits[object][i];
        }
    }
    return beyond;
}

static void it_says_exactly_what_it_has_room_for(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 3);
    for (int round = 0; round < 50; round++) {
        struct changed *c = changed_new(OBJECTS, OBJECTS * CHANGED_SPANS_MAX, GRAIN);
        struct model m = { .known = { false } };

        for (int i = 0; i < 120; i++) {
            struct change change = draw(&prng, &m);

            changed_add(c, &change);
            changed_check(c);
            assert_int_equal(compare(c, &m), 0);
            assert_true(changed_covers(c, &change));
        }
        changed_free(c);
    }
}

static void it_never_says_less(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 4);
    for (int round = 0; round < 300; round++) {
        uint32_t objects = 3 + (uint32_t)prng_below(&prng, OBJECTS);
        struct changed *c = changed_new(objects, (uint32_t)prng_below(&prng, 30), GRAIN);
        struct changed *copy = changed_new(objects, 4, GRAIN);
        struct model m = { .known = { false } };

        for (int i = 0; i < 60; i++) {
            struct change change = draw(&prng, &m);

            changed_add(c, &change);
            changed_check(c);
            (void)compare(c, &m);
        }
        changed_add_all(copy, c);
        changed_check(copy);
        (void)compare(copy, &m);
        changed_free(copy);
        changed_free(c);
    }
}

static void what_is_full_gets_coarser(void **state)
{
    struct changed *c = changed_new(2, 4, GRAIN);
    struct changed_counts counts;
    struct change change;

    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        change = stretch(1, i * i * 10 * GRAIN, (i * i * 10 + 1) * GRAIN);
        changed_add(c, &change);
    }
    changed_count(c, &counts);
    assert_int_equal(counts.spans, 4);
    change = stretch(1, 200 * GRAIN, 201 * GRAIN);
    changed_add(c, &change); /* 0 and 10 are closest. */
    change = stretch(1, GRAIN, 10 * GRAIN);
    assert_true(changed_covers(c, &change));
    change = stretch(1, 11 * GRAIN, 12 * GRAIN);
    assert_false(changed_covers(c, &change));
    change = stretch(2, GRAIN, 2 * GRAIN); /* No stretch is left for another object ... */
    changed_add(c, &change);
    changed_count(c, &counts);
    assert_int_equal(counts.whole, 1);
    change = (struct change){ .object = { 2, 0 }, .generation = 1, .whole = true };
    assert_true(changed_covers(c, &change));
    change = stretch(3, 0, 0); /* ... and for a third one there is no place. */
    changed_add(c, &change);
    changed_count(c, &counts);
    assert_true(counts.everything);
    change = stretch(9, 0, GRAIN);
    assert_true(changed_covers(c, &change));
    assert_false(changed_empty(c));
    changed_clear(c);
    assert_true(changed_empty(c));
    changed_free(c);
}

static void one_stretch_without_room_reaches_farther(void **state)
{
    struct changed *c = changed_new(2, 1, GRAIN);
    struct change change = stretch(1, 10 * GRAIN, 11 * GRAIN);
    struct changed_counts counts;

    (void)state;
    changed_add(c, &change);
    change = stretch(1, 20 * GRAIN, 21 * GRAIN);
    changed_add(c, &change);
    change = stretch(1, 0, GRAIN);
    changed_add(c, &change);
    changed_check(c);
    changed_count(c, &counts);
    assert_int_equal(counts.spans, 1);
    change = stretch(1, 0, 21 * GRAIN);
    assert_true(changed_covers(c, &change));
    change = stretch(1, 21 * GRAIN, 22 * GRAIN);
    assert_false(changed_covers(c, &change));
    changed_free(c);
}

/* Piece by piece everything comes out, each grain once. */
static void it_is_taken_apart(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (int round = 0; round < 50; round++) {
        struct changed *c = changed_new(OBJECTS, OBJECTS * CHANGED_SPANS_MAX, GRAIN);
        struct model m = { .known = { false } }, taken = { .known = { false } };
        struct change piece;

        for (int i = 0; i < 60; i++) {
            struct change change = draw(&prng, &m);

            changed_add(c, &change);
        }
        while (changed_take(c, 2 * GRAIN + 1, &piece)) {
            changed_check(c);
            taken.known[piece.object.inode - 1] = true;
            assert_in_range(piece.span.end - piece.span.start, 0, 2 * GRAIN);
            assert_int_equal(piece.generation, 1);
            for (uint64_t i = piece.span.start / GRAIN; i < piece.span.end / GRAIN; i++) {
                assert_false(taken.bits[piece.object.inode - 1][i]);
                taken.bits[piece.object.inode - 1][i] = true;
            }
        }
        assert_true(changed_empty(c));
        assert_memory_equal(&m, &taken, sizeof(m));
        changed_free(c);
    }
}

static void the_newest_generation_is_kept(void **state)
{
    struct changed *c = changed_new(2, 4, GRAIN);
    struct change change = stretch(1, 0, GRAIN), piece;

    (void)state;
    change.generation = 7;
    changed_add(c, &change);
    change.generation = 5;
    changed_add(c, &change);
    assert_true(changed_take(c, GRAIN, &piece));
    assert_int_equal(piece.generation, 7);
    assert_false(changed_take(c, GRAIN, &piece));
    changed_free(c);
}

struct listed
{
    uint32_t count;
    struct change items[8];
};

static bool list(void *data, const struct change *change)
{
    struct listed *l = data;

    l->items[l->count++] = *change;
    return l->count < 3;
}

static void all_of_it_is_shown(void **state)
{
    struct changed *c = changed_new(2, 4, GRAIN);
    struct change change = stretch(1, 0, GRAIN);
    struct listed l = { .count = 0 };

    (void)state;
    assert_true(changed_each(c, list, &l));
    assert_int_equal(l.count, 0);
    changed_add(c, &change);
    change = stretch(1, 2 * GRAIN, 3 * GRAIN);
    changed_add(c, &change);
    assert_true(changed_each(c, list, &l));
    assert_int_equal(l.count, 2);
    assert_int_equal(l.items[1].span.start, 2 * GRAIN);
    change = stretch(2, 0, 0); /* No bytes. */
    changed_add(c, &change);
    l.count = 0;
    assert_false(changed_each(c, list, &l));
    assert_int_equal(l.items[2].object.inode, 2);
    assert_int_equal(l.items[2].span.end, 0);
    change.everything = true;
    changed_add(c, &change);
    l.count = 0;
    assert_true(changed_each(c, list, &l));
    assert_int_equal(l.count, 1);
    assert_true(l.items[0].everything);
    changed_free(c);
}

/* What a change adds is what was not in it. */
static void bytes_of_an_object_are_counted(void **state)
{
    struct changed *c = changed_new(4, 64, GRAIN);
    struct change change = stretch(1, 0, 2 * GRAIN), whole = { .object = { 1, 0 }, .whole = true };

    (void)state;
    assert_non_null(c);
    whole.generation = 1;
    assert_int_equal(changed_bytes(c, change.object), 0);
    changed_add(c, &change);
    assert_int_equal(changed_bytes(c, change.object), 2 * GRAIN);
    changed_add(c, &change);
    assert_int_equal(changed_bytes(c, change.object), 2 * GRAIN);
    change = stretch(1, GRAIN, 5 * GRAIN);
    changed_add(c, &change);
    change = stretch(1, 9 * GRAIN, 10 * GRAIN);
    changed_add(c, &change);
    assert_int_equal(changed_bytes(c, change.object), 6 * GRAIN);
    changed_add(c, &whole);
    assert_int_equal(changed_bytes(c, change.object), UINT64_MAX);
    changed_clear(c);
    whole = (struct change){ .everything = true };
    changed_add(c, &whole);
    assert_int_equal(changed_bytes(c, change.object), UINT64_MAX);
    changed_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_an_object_are_counted),
        cmocka_unit_test(it_says_exactly_what_it_has_room_for),
        cmocka_unit_test(it_never_says_less),
        cmocka_unit_test(what_is_full_gets_coarser),
        cmocka_unit_test(one_stretch_without_room_reaches_farther),
        cmocka_unit_test(it_is_taken_apart),
        cmocka_unit_test(the_newest_generation_is_kept),
        cmocka_unit_test(all_of_it_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
