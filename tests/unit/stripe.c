#include "common/fs/stripe.h"

#include "common/base/check.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MODEL_MORSELS_MAX = 4096 };

/* A file dealt out by hand, morsel by morsel: the model that is too simple to be wrong. */
struct model
{
    struct stripe shape;
    uint64_t morsels;
    uint32_t column[MODEL_MORSELS_MAX];          /* Where morsel i lies */
    uint64_t index_in_object[MODEL_MORSELS_MAX]; /* and which of its column's it is. */
};

static void model_deal(struct model *m, struct stripe shape, uint64_t morsels)
{
    uint64_t held[STRIPE_WIDTH_MAX] = { 0 };
    uint32_t column = 0;
    uint32_t in_hand = 0; /* Morsels given to this column in a row. */

    CHECK(morsels <= MODEL_MORSELS_MAX);
    m->shape = shape;
    m->morsels = morsels;
    for (uint64_t i = 0; i < morsels; i++) {
        if (in_hand == shape.stripe_morsels) {
            in_hand = 0;
            column = column + 1 == shape.width ? 0 : column + 1;
        }
        m->column[i] = column;
        m->index_in_object[i] = held[column]++;
        in_hand++;
    }
}

/* Bytes of `column` among the first `size` bytes of the file, counted morsel by morsel. */
static uint64_t model_object_size(const struct model *m, uint32_t column, uint64_t size)
{
    uint64_t bytes = m->shape.morsel_bytes;
    uint64_t sum = 0;

    for (uint64_t i = 0; i * bytes < size; i++) {
        if (m->column[i] == column) {
            sum += size - i * bytes < bytes ? size - i * bytes : bytes;
        }
    }
    return sum;
}

static struct stripe draw_shape(struct prng *prng)
{
    struct stripe s;

    s.morsel_bytes = (uint32_t)MORSEL_BYTES_MIN << prng_below(prng, 9);
    s.stripe_morsels = 1 + (uint32_t)prng_below(prng, 7);
    s.width = 1 + (uint32_t)prng_below(prng, 9);
    return s;
}

static void check_run(const struct model *m, uint64_t offset, uint64_t length)
{
    const struct stripe *s = &m->shape;
    struct stripe_run run = stripe_run_at(s, offset, length);
    uint64_t morsel = offset / s->morsel_bytes;
    uint64_t end;

    assert_int_equal(run.file_offset, offset);
    assert_int_equal(run.column, m->column[morsel]);
    assert_int_equal(run.object_offset,
                     m->index_in_object[morsel] * s->morsel_bytes + offset % s->morsel_bytes);
    assert_true(run.length >= 1 && run.length <= length);

    /* As far as it goes each morsel follows the last in the same object; and it stops only there.
     */
    end = offset + run.length;
    for (uint64_t i = morsel; i <= (end - 1) / s->morsel_bytes; i++) {
        assert_int_equal(m->column[i], run.column);
        assert_int_equal(m->index_in_object[i], m->index_in_object[morsel] + (i - morsel));
    }
    if (run.length < length) {
        assert_int_equal(end % ((uint64_t)s->morsel_bytes * s->stripe_morsels), 0);
    }
    assert_int_equal(stripe_file_offset(s, run.column, run.object_offset), offset);
}

static void runs_agree_with_dealing_by_hand(void **state)
{
    static struct model m;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 4);
    for (int round = 0; round < 200; round++) {
        uint64_t bytes;

        model_deal(&m, draw_shape(&prng), 300);
        bytes = m.morsels * m.shape.morsel_bytes;
        for (int i = 0; i < 200; i++) {
            uint64_t offset = prng_below(&prng, bytes);
            uint64_t length = 1 + prng_below(&prng, bytes - offset);

            if (prng_below(&prng, 3) == 0) { /* At a border, or one byte beside it. */
                offset = offset / m.shape.morsel_bytes * m.shape.morsel_bytes;
                offset -= offset > 0 ? prng_below(&prng, 2) : 0;
                length = 1 + prng_below(&prng, 2);
            }
            check_run(&m, offset, length);
        }
    }
}

static void object_sizes_agree_and_add_up(void **state)
{
    static struct model m;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (int round = 0; round < 300; round++) {
        uint64_t size, sum = 0;

        model_deal(&m, draw_shape(&prng), 300);
        size = prng_below(&prng, m.morsels * m.shape.morsel_bytes + 1);
        if (prng_below(&prng, 3) == 0) {
            size = size / m.shape.morsel_bytes * m.shape.morsel_bytes;
        }
        for (uint32_t column = 0; column < m.shape.width; column++) {
            uint64_t object = stripe_object_size(&m.shape, column, size);

            assert_int_equal(object, model_object_size(&m, column, size));
            sum += object;
        }
        assert_int_equal(sum, size);
    }
}

static void the_drawing_in_the_header_holds(void **state)
{
    static const uint32_t columns[12] = { 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2 };
    static const uint64_t places[12] = { 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3 };
    const struct stripe s = { 1 << 20, 2, 3 };

    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        struct stripe_run run = stripe_run_at(&s, i << 20, 1);

        assert_int_equal(run.column, columns[i]);
        assert_int_equal(run.object_offset, places[i] << 20);
    }
}

/* Up to 2^63 - 1 nothing may overflow: the length of a file is promised that far. */
static void the_last_byte_of_the_largest_file(void **state)
{
    const uint64_t size = INT64_MAX;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 6);
    for (int round = 0; round < 1000; round++) {
        struct stripe s = draw_shape(&prng);
        struct stripe_run run = stripe_run_at(&s, size - 1, 1);
        uint64_t sum = 0;

        assert_int_equal(run.length, 1);
        assert_true(stripe_file_offset(&s, run.column, run.object_offset) == size - 1);
        assert_true(run.object_offset < stripe_object_size(&s, run.column, size));
        for (uint32_t column = 0; column < s.width; column++) {
            sum += stripe_object_size(&s, column, size);
        }
        assert_true(sum == size);
    }
}

static void shapes_out_of_range_are_not_valid(void **state)
{
    const struct stripe good = { MORSEL_BYTES_DEFAULT, 1, 4 };
    struct stripe s;

    (void)state;
    assert_true(stripe_valid(&good));
    for (uint32_t bytes = MORSEL_BYTES_MIN; bytes <= MORSEL_BYTES_MAX; bytes *= 2) {
        s = good;
        s.morsel_bytes = bytes;
        assert_true(stripe_valid(&s));
        s.morsel_bytes = bytes + 4096;
        assert_false(stripe_valid(&s));
    }
    s = good;
    s.morsel_bytes = MORSEL_BYTES_MIN / 2;
    assert_false(stripe_valid(&s));
    s.morsel_bytes = 2U * MORSEL_BYTES_MAX;
    assert_false(stripe_valid(&s));
    s = good;
    s.stripe_morsels = 0;
    assert_false(stripe_valid(&s));
    s.stripe_morsels = STRIPE_MORSELS_MAX;
    assert_true(stripe_valid(&s));
    s.stripe_morsels++;
    assert_false(stripe_valid(&s));
    s = good;
    s.width = 0;
    assert_false(stripe_valid(&s));
    s.width = STRIPE_WIDTH_MAX;
    assert_true(stripe_valid(&s));
    s.width++;
    assert_false(stripe_valid(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_agree_with_dealing_by_hand),
        cmocka_unit_test(object_sizes_agree_and_add_up),
        cmocka_unit_test(the_drawing_in_the_header_holds),
        cmocka_unit_test(the_last_byte_of_the_largest_file),
        cmocka_unit_test(shapes_out_of_range_are_not_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
