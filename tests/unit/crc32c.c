#include "common/base/crc32c.h"

#include "common/base/limits.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Bit by bit, from the polynomial. */
static uint32_t model_crc32c(const uint8_t *bytes, size_t count)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
        }
    }
    return ~crc;
}

static void the_known_answers(void **state)
{
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
    memset(bytes, 0, sizeof(bytes)); /* RFC 3720, B.4 */
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
}

static void agrees_with_the_polynomial_and_chains(void **state)
{
    static uint8_t bytes[3 * BLOCK_BYTES];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 7);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
    for (int i = 0; i < 300; i++) {
        size_t start = prng_below(&prng, 64);
        size_t count = prng_below(&prng, sizeof(bytes) - start);
        size_t cut = prng_below(&prng, count + 1);
        uint32_t whole = crc32c(0, bytes + start, count);

        assert_int_equal(whole, model_crc32c(bytes + start, count));
        assert_int_equal(crc32c(crc32c(0, bytes + start, cut), bytes + start + cut, count - cut),
                         whole);
    }
}

static void pieces_are_cut_at_block_borders(void **state)
{
    static uint8_t bytes[5 * BLOCK_BYTES];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 8);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
    for (int round = 0; round < 2000; round++) {
        uint64_t offset =
            prng_below(&prng, 3 * BLOCK_BYTES) + (prng_next(&prng) & 1) * (1ULL << 40);
        size_t length = prng_below(&prng, sizeof(bytes));
        uint32_t crcs[8];
        uint32_t count = 0;

        memset(crcs, 0xaa, sizeof(crcs));
        crc32c_of_pieces(offset, bytes, length, crcs);
        /* By hand: a piece ends after each byte whose successor begins a block. */
        for (size_t at = 0, begin = 0; at < length; at++) {
            if (at + 1 == length || (offset + at + 1) % BLOCK_BYTES == 0) {
                assert_int_equal(crcs[count], model_crc32c(bytes + begin, at + 1 - begin));
                count++;
                begin = at + 1;
            }
        }
        assert_int_equal(crc32c_pieces(offset, length), count);
        assert_int_equal(crcs[count], 0xaaaaaaaa);
        round += length > 2 * BLOCK_BYTES ? 10 : 0; /* The model is slow. */
    }
}

static void piece_counts_at_the_borders(void **state)
{
    (void)state;
    assert_int_equal(crc32c_pieces(0, 0), 0);
    assert_int_equal(crc32c_pieces(4095, 0), 0);
    assert_int_equal(crc32c_pieces(0, 1), 1);
    assert_int_equal(crc32c_pieces(0, 4096), 1);
    assert_int_equal(crc32c_pieces(0, 4097), 2);
    assert_int_equal(crc32c_pieces(4095, 1), 1);
    assert_int_equal(crc32c_pieces(4095, 2), 2);
    assert_int_equal(crc32c_pieces(4095, 4098), 3);
    assert_int_equal(crc32c_pieces(0, FRAME_PAYLOAD_BYTES_MAX), 1024);
    assert_int_equal(crc32c_pieces(1, FRAME_PAYLOAD_BYTES_MAX), 1025);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_answers),
        cmocka_unit_test(agrees_with_the_polynomial_and_chains),
        cmocka_unit_test(pieces_are_cut_at_block_borders),
        cmocka_unit_test(piece_counts_at_the_borders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
