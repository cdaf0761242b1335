#include "common/rpc/frame.h"

#include "common/base/buf.h"
#include "common/base/crc32c.h"
#include "common/base/prng.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct frame_header sample(void)
{
    return (struct frame_header){ .version = FRAME_VERSION,
                                  .flags = FRAME_REPLY,
                                  .type = 0x0102,
                                  .request_id = 0x1112131415161718,
                                  .body_length = 0x00012345,
                                  .payload_length = FRAME_PAYLOAD_BYTES_MAX,
                                  .clock_ms = 30000,
                                  .status = -4,
                                  .body_crc = 0xdeadbeef };
}

/* After a change of other fields, so that only the field under test is wrong. */
static void seal(uint8_t bytes[FRAME_HEADER_BYTES])
{
    put_le32(bytes + 36, crc32c(0, bytes, 36));
}

/* The drawing in frame.h, byte by byte: an older or newer peer relies on it. */
static void the_layout_is_the_documented_one(void **state)
{
    static const uint8_t expected[36] = {
        'M',  'R',  'S',  'L',  1,    1,    0x02, 0x01, 0x18, 0x17, 0x16, 0x15,
        0x14, 0x13, 0x12, 0x11, 0x45, 0x23, 0x01, 0x00, 0x00, 0x00, 0x40, 0x00,
        0x30, 0x75, 0x00, 0x00, 0xfc, 0xff, 0xff, 0xff, 0xef, 0xbe, 0xad, 0xde,
    };
    struct frame_header header = sample();
    uint8_t bytes[FRAME_HEADER_BYTES];

    (void)state;
    frame_encode(&header, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    assert_int_equal(get_le32(bytes + 36), crc32c(0, expected, 36));
}

static void random_headers_survive_the_way(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 3);
    for (int i = 0; i < 10000; i++) {
        struct frame_header in, out;
        uint8_t bytes[FRAME_HEADER_BYTES];

        memset(&in, 0, sizeof(in)); /* The padding too: the structs are compared as bytes. */
        in.version = FRAME_VERSION;
        in.flags = (uint8_t)prng_below(&prng, FRAME_FLAGS_KNOWN + 1);
        in.type = (uint16_t)prng_next(&prng);
        in.request_id = prng_next(&prng);
        in.body_length = (uint32_t)prng_below(&prng, FRAME_BODY_BYTES_MAX + 1);
        in.payload_length = (uint32_t)prng_below(&prng, FRAME_PAYLOAD_BYTES_MAX + 1);
        if ((in.flags & FRAME_REPLY) != 0) {
            in.clock_ms = (uint32_t)prng_next(&prng);
            in.status = -(int32_t)prng_below(&prng, INT32_MAX);
        } else {
            in.deadline_ms = (uint32_t)prng_next(&prng);
            in.not_after = (uint32_t)prng_next(&prng);
        }
        in.body_crc = (uint32_t)prng_next(&prng);
        frame_encode(&in, bytes);
        assert_int_equal(frame_decode(bytes, &out), MORSEL_OK);
        assert_memory_equal(&in, &out, sizeof(in));
    }
}

static void every_flipped_bit_is_noticed(void **state)
{
    struct frame_header header = sample(), out;
    uint8_t bytes[FRAME_HEADER_BYTES];

    (void)state;
    frame_encode(&header, bytes);
    for (unsigned bit = 0; bit < 8 * FRAME_HEADER_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(frame_decode(bytes, &out), MORSEL_MALFORMED);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    assert_int_equal(frame_decode(bytes, &out), MORSEL_OK);
}

static int decode_with(struct frame_header header, struct frame_header *out)
{
    uint8_t bytes[FRAME_HEADER_BYTES];

    frame_encode(&header, bytes);
    return frame_decode(bytes, out);
}

static void lengths_beyond_the_limits_are_refused(void **state)
{
    struct frame_header header = sample(), out;

    (void)state;
    header.body_length = FRAME_BODY_BYTES_MAX;
    assert_int_equal(decode_with(header, &out), MORSEL_OK);
    header.body_length = FRAME_BODY_BYTES_MAX + 1;
    assert_int_equal(decode_with(header, &out), MORSEL_MALFORMED);
    header.body_length = UINT32_MAX;
    assert_int_equal(decode_with(header, &out), MORSEL_MALFORMED);
    header = sample();
    header.payload_length = FRAME_PAYLOAD_BYTES_MAX + 1;
    assert_int_equal(decode_with(header, &out), MORSEL_MALFORMED);
}

/* A sound head of another version can be answered: its lengths and id must be there. */
static void another_version_is_told_apart_from_noise(void **state)
{
    struct frame_header header = sample(), out;

    (void)state;
    header.version = FRAME_VERSION + 1;
    header.flags = 0x80; /* A flag that only the newer one knows. */
    assert_int_equal(decode_with(header, &out), MORSEL_VERSION);
    assert_int_equal(out.version, FRAME_VERSION + 1);
    assert_true(out.request_id == header.request_id);
    assert_int_equal(out.body_length, header.body_length);
    header.body_length = FRAME_BODY_BYTES_MAX + 1; /* But no licence to allocate. */
    assert_int_equal(decode_with(header, &out), MORSEL_MALFORMED);
}

static void unknown_flags_and_positive_statuses_are_refused(void **state)
{
    struct frame_header header = sample(), out;

    (void)state;
    header.flags = FRAME_FLAGS_KNOWN + 1;
    assert_int_equal(decode_with(header, &out), MORSEL_MALFORMED);
    header = sample();
    header.status = 1;
    assert_int_equal(decode_with(header, &out), MORSEL_MALFORMED);
}

static void another_magic_is_refused(void **state)
{
    struct frame_header header = sample(), out;
    uint8_t bytes[FRAME_HEADER_BYTES];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        frame_encode(&header, bytes);
        bytes[i] = 'x';
        seal(bytes);
        assert_int_equal(frame_decode(bytes, &out), MORSEL_MALFORMED);
    }
}

/* Whatever the two clocks show, and however far they drift apart within the bound, the server's has
 * passed the bound when our lease period is over. */
static void bounds_are_never_behind_the_lease_period(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 5);
    for (int i = 0; i < 100000; i++) {
        uint64_t ours = prng_below(&prng, 1ULL << 40), server = prng_below(&prng, 1ULL << 40);
        uint64_t left = 1 + prng_below(&prng, 30000);
        uint32_t bound = frame_not_after(ours + left, server, ours);

        /* At the end of the lease period the server's clock has gone on by left - 10 % or more. */
        assert_true(frame_is_late(bound, server + left - left / 10 + 2));
        assert_false(frame_is_late(bound, server));
    }
    assert_false(frame_is_late(0, 12345));
    /* Over before it began: late from the first millisecond on. */
    assert_true(frame_is_late(frame_not_after(100, 5000, 200), 5000));
    assert_true(frame_is_late(frame_not_after(100, 5000, 100), 5000));
    assert_true(frame_is_late(frame_not_after(100, (1ULL << 32) + 1, 200), (1ULL << 32) + 1));
}

/* Answers that tell the server's clock come with any delay, the clocks drift: what is known is
 * never more than the server's clock shows, and no answer makes it less than it was. */
static void what_is_known_of_a_clock_is_a_bound(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 6);
    for (int i = 0; i < 1000; i++) {
        struct frame_clock clock = { .known = false };
        uint64_t ours = prng_below(&prng, 1ULL << 40), server = prng_below(&prng, 1ULL << 40);
        uint64_t drift = 91 + prng_below(&prng, 19), least = 0;

        for (int j = 0; j < 100; j++) {
            uint64_t passed = prng_below(&prng, 5000), old_ms = prng_below(&prng, 3000);

            ours += passed;
            server += (passed * drift + 99) / 100;
            frame_clock_note(&clock, frame_clock_told(server > old_ms ? server - old_ms : 1), ours);
            assert_true(clock.known);
            /* A lease period that ends now is over on the server, too. */
            assert_true(frame_is_late(frame_not_after(ours + 1, clock.server_ms, clock.noted_ms),
                                      server + 2));
            least = least == 0 ? server - 3001 : least + passed * 9 / 10 - 1;
            assert_true((int32_t)(frame_not_after(ours + 1, clock.server_ms, clock.noted_ms) -
                                  (uint32_t)least) >= 0);
        }
    }
    assert_int_equal(frame_clock_told(1ULL << 32), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_documented_one),
        cmocka_unit_test(random_headers_survive_the_way),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(lengths_beyond_the_limits_are_refused),
        cmocka_unit_test(another_version_is_told_apart_from_noise),
        cmocka_unit_test(unknown_flags_and_positive_statuses_are_refused),
        cmocka_unit_test(another_magic_is_refused),
        cmocka_unit_test(bounds_are_never_behind_the_lease_period),
        cmocka_unit_test(what_is_known_of_a_clock_is_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
