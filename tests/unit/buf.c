#include "common/base/buf.h"

#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void numbers_lie_in_the_promised_order(void **state)
{
    static const uint8_t expected[] = {
        0x01,                                           /* u8 */
        0x03, 0x02,                                     /* u16 */
        0x07, 0x06, 0x05, 0x04,                         /* u32 */
        0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, /* u64 */
        0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, /* u64, big end first */
        0x02, 0x00, 0x00, 0x00, 'h',  'i',              /* blob */
    };
    struct buf b;

    (void)state;
    buf_init(&b);
    buf_put_u8(&b, 0x01);
    buf_put_u16(&b, 0x0203);
    buf_put_u32(&b, 0x04050607);
    buf_put_u64(&b, 0x08090a0b0c0d0e0f);
    buf_put_u64_be(&b, 0x1011121314151617);
    buf_put_blob(&b, "hi", 2);
    assert_int_equal(b.count, sizeof(expected));
    assert_memory_equal(buf_slice(&b).data, expected, sizeof(expected));
    assert_false(b.failed);
    buf_free(&b);
    assert_null(b.data);
}

static void what_was_written_is_read(void **state)
{
    struct buf b;
    struct reader r;
    struct slice s;

    (void)state;
    buf_init(&b);
    buf_put_u8(&b, 200);
    buf_put_u16(&b, 60000);
    buf_put_u32(&b, 4000000000U);
    buf_put_u64(&b, UINT64_MAX - 1);
    buf_put_u64_be(&b, 42);
    buf_put_blob(&b, NULL, 0);
    buf_put_blob(&b, "abc", 3);
    buf_put(&b, "tail", 4);

    reader_init(&r, b.data, b.count);
    assert_int_equal(reader_u8(&r), 200);
    assert_int_equal(reader_u16(&r), 60000);
    assert_int_equal(reader_u32(&r), 4000000000U);
    assert_true(reader_u64(&r) == UINT64_MAX - 1);
    assert_int_equal(reader_u64_be(&r), 42);
    assert_int_equal(reader_blob(&r).count, 0);
    s = reader_blob(&r);
    assert_int_equal(s.count, 3);
    assert_memory_equal(s.data, "abc", 3);
    assert_false(reader_done(&r));
    s = reader_rest(&r);
    assert_int_equal(s.count, 4);
    assert_memory_equal(s.data, "tail", 4);
    assert_true(reader_done(&r));
    buf_free(&b);
}

static void big_endian_keys_sort_by_number(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = prng_next(&prng) >> prng_below(&prng, 64);
        uint64_t y = prng_next(&prng) >> prng_below(&prng, 64);
        struct buf a, b;

        buf_init(&a);
        buf_init(&b);
        buf_put_u64_be(&a, x);
        buf_put_u64_be(&b, y);
        assert_int_equal(x < y, memcmp(a.data, b.data, 8) < 0);
        buf_free(&a);
        buf_free(&b);
    }
}

/* Every cut of a sound record: each read either gives what was written or fails, and stays failed.
 */
static void a_reader_never_passes_the_end(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b);
    buf_put_u32(&b, 7);
    buf_put_blob(&b, "morsel", 6);
    buf_put_u64(&b, 9);
    for (size_t cut = 0; cut < b.count; cut++) {
        uint8_t *copy =
            test_malloc(cut + 1); /* Exact, so that the sanitizer sees a step too far. */
        struct reader r;

        memcpy(copy, b.data, cut);
        reader_init(&r, copy, cut);
        (void)reader_u32(&r);
        (void)reader_blob(&r);
        assert_int_equal(reader_u64(&r), 0);
        assert_true(r.failed);
        assert_false(reader_done(&r));
        assert_int_equal(reader_u8(&r), 0);
        assert_int_equal(reader_rest(&r).count, 0);
        assert_null(reader_bytes(&r, 0).data);
        test_free(copy);
    }
    buf_free(&b);
}

static void a_blob_that_lies_about_its_length_fails(void **state)
{
    static const uint8_t liar[] = { 0xff, 0xff, 0xff, 0xff, 'x' };
    struct reader r;

    (void)state;
    reader_init(&r, liar, sizeof(liar));
    assert_null(reader_blob(&r).data);
    assert_true(r.failed);
}

static void an_empty_source_reads_as_its_end(void **state)
{
    struct reader r;

    (void)state;
    reader_init(&r, NULL, 0);
    assert_true(reader_done(&r));
    assert_int_equal(reader_rest(&r).count, 0);
    assert_true(reader_done(&r));
    assert_int_equal(reader_u16(&r), 0);
    assert_false(reader_done(&r));
}

static void a_lost_write_is_remembered(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b);
    buf_put_u8(&b, 1);
    assert_false(buf_reserve(&b, SIZE_MAX / 2)); /* As good as out of memory. */
    assert_true(b.failed);
    buf_put_u8(&b, 2);
    assert_int_equal(b.count, 1);
    buf_clear(&b);
    assert_false(b.failed);
    buf_put_u8(&b, 3);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.data[0], 3);
    buf_free(&b);
}

static void growing_keeps_the_bytes(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b);
    for (uint32_t i = 0; i < 100000; i++) {
        buf_put_u32(&b, i * 2654435761U);
    }
    assert_int_equal(b.count, 400000);
    assert_true(b.capacity < 2 * b.count);
    for (uint32_t i = 0; i < 100000; i++) {
        assert_int_equal(get_le32(b.data + (size_t)4 * i), i * 2654435761U);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_lie_in_the_promised_order),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(big_endian_keys_sort_by_number),
        cmocka_unit_test(a_reader_never_passes_the_end),
        cmocka_unit_test(a_blob_that_lies_about_its_length_fails),
        cmocka_unit_test(an_empty_source_reads_as_its_end),
        cmocka_unit_test(a_lost_write_is_remembered),
        cmocka_unit_test(growing_keeps_the_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
