/* Stretches of objects as ranges of their file, beside a model that has a byte for each morsel. */
#include "client/data/changed_ranges.h"

#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH_MAX = 5, MORSELS = 96, RANGES = 6, UNIT = MORSEL_BYTES_MIN };

struct model
{
    struct stripe stripe;
    bool changed[MORSELS]; /* Of the file. */
    struct changed_column columns[WIDTH_MAX];
};

/* What a server says of its object from `from` on, `count_max` stretches at most. */
static void say(struct model *m, uint32_t c, uint64_t from, uint32_t count_max)
{
    struct changed_column *column = &m->columns[c];
    uint64_t length = stripe_object_size(&m->stripe, c, (uint64_t)MORSELS * UNIT);

    column->count = 0;
    column->next = UINT64_MAX;
    for (uint64_t at = from / UNIT * UNIT; at < length; at += UNIT) {
        struct exchange_stretch *last =
            column->count > 0 ? &column->stretches[column->count - 1] : NULL;

        if (!m->changed[stripe_file_offset(&m->stripe, c, at) / UNIT]) {
            continue;
        }
        if (last != NULL && last->end == at) {
            last->end += UNIT;
        } else if (column->count == count_max) {
            column->next = at;
            return;
        } else {
            column->stretches[column->count++] = (struct exchange_stretch){ at, at + UNIT };
        }
    }
}

static void draw(struct model *m, struct prng *prng)
{
    uint64_t chance = prng_below(prng, 100);

    m->stripe = (struct stripe){ UNIT, 1 + (uint32_t)prng_below(prng, 4),
                                 1 + (uint32_t)prng_below(prng, WIDTH_MAX) };
    for (size_t i = 0; i < MORSELS; i++) {
        m->changed[i] = prng_below(prng, 100) < chance;
    }
}

static void together_they_are_what_was_changed(void **state)
{
    struct model *m = calloc(1, sizeof(*m));
    struct prng prng;

    (void)state;
    prng_seed(&prng, 11);
    for (int round = 0; round < 2000; round++) {
        uint64_t from = 0, next, last_end = 0;
        bool said[MORSELS] = { false };

        draw(m, &prng);
        do {
            struct exchange_stretch ranges[RANGES];
            uint32_t count, count_max = 1 + (uint32_t)prng_below(&prng, 8);

            for (uint32_t c = 0; c < m->stripe.width; c++) {
                uint64_t there = stripe_object_size(&m->stripe, c, from);

                say(m, c, there, count_max);
                assert_true(changed_column_valid(&m->columns[c], there));
            }
            count = changed_ranges(&m->stripe, m->columns, from, ranges, RANGES, &next);
            for (uint32_t i = 0; i < count; i++) {
                assert_true(ranges[i].start >= last_end && ranges[i].end > ranges[i].start);
                assert_true(ranges[i].start >= from && ranges[i].end <= next);
                assert_int_equal(ranges[i].start % UNIT, 0);
                for (uint64_t at = ranges[i].start; at < ranges[i].end; at += UNIT) {
                    said[at / UNIT] = true;
                }
                last_end = ranges[i].end;
            }
            assert_true(next > from);
            from = next;
        } while (next != UINT64_MAX);
        assert_memory_equal(said, m->changed, sizeof(said));
    }
    free(m);
}

/* All of it, of many columns: one range. */
static void neighbours_of_different_columns_are_joined(void **state)
{
    struct model *m = calloc(1, sizeof(*m));
    struct exchange_stretch ranges[RANGES];
    uint64_t next;

    (void)state;
    m->stripe = (struct stripe){ UNIT, 2, 3 };
    memset(m->changed, true, sizeof(m->changed));
    for (uint32_t c = 0; c < 3; c++) {
        say(m, c, 0, WATCH_REPLY_MAX);
    }
    assert_int_equal(changed_ranges(&m->stripe, m->columns, 0, ranges, RANGES, &next), 1);
    assert_int_equal(ranges[0].start, 0);
    assert_int_equal(ranges[0].end, (uint64_t)MORSELS * UNIT);
    assert_int_equal(next, UINT64_MAX);
    assert_int_equal(changed_ranges(&m->stripe, m->columns, 5 * UNIT + 17, ranges, RANGES, &next),
                     1);
    assert_int_equal(ranges[0].start, 5 * UNIT + 17);
    free(m);
}

/* All of a file of many stripes: in calls that take no time. */
static void a_long_file_is_looked_at_in_pieces(void **state)
{
    const uint64_t bytes = (uint64_t)1 << 40;
    struct model *m = calloc(1, sizeof(*m));
    struct exchange_stretch ranges[RANGES];
    uint64_t from = 0, next = 0, at = 0;
    uint32_t calls = 0;

    (void)state;
    m->stripe = (struct stripe){ MORSEL_BYTES_DEFAULT, 1, 4 };
    for (uint32_t c = 0; c < 4; c++) {
        m->columns[c] = (struct changed_column){ .count = 1, .next = UINT64_MAX };
        m->columns[c].stretches[0] = (struct exchange_stretch){ 0, bytes / 4 };
    }
    for (; next != UINT64_MAX; from = next) {
        assert_int_equal(changed_ranges(&m->stripe, m->columns, from, ranges, RANGES, &next), 1);
        assert_int_equal(ranges[0].start, at);
        at = ranges[0].end;
        calls++;
    }
    assert_int_equal(at, bytes);
    assert_in_range(calls, 10, 100);
    free(m);
}

static void what_no_server_can_say_is_refused(void **state)
{
    struct changed_column *c = calloc(1, sizeof(*c));

    (void)state;
    *c = (struct changed_column){ .count = 2, .next = UINT64_MAX };
    c->stretches[0] = (struct exchange_stretch){ 100, 200 };
    c->stretches[1] = (struct exchange_stretch){ 150, 300 };
    assert_false(changed_column_valid(c, 0));
    c->stretches[1] = (struct exchange_stretch){ 200, 200 };
    assert_false(changed_column_valid(c, 0));
    c->stretches[1] = (struct exchange_stretch){ 200, UINT64_MAX };
    assert_false(changed_column_valid(c, 0));
    c->stretches[1] = (struct exchange_stretch){ 200, (uint64_t)1 << 50 };
    assert_false(changed_column_valid(c, 0));
    c->stretches[1] = (struct exchange_stretch){ 250, 300 };
    assert_true(changed_column_valid(c, 0));
    c->next = 299;
    assert_false(changed_column_valid(c, 0));
    c->next = 300;
    assert_true(changed_column_valid(c, 0));
    assert_false(changed_column_valid(c, 300)); /* It would be asked for ever. */
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_they_are_what_was_changed),
        cmocka_unit_test(neighbours_of_different_columns_are_joined),
        cmocka_unit_test(a_long_file_is_looked_at_in_pieces),
        cmocka_unit_test(what_no_server_can_say_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
