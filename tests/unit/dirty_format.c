/* A group's write intent and logs in a file: what was written is read, what is torn left out, and
 * nothing that is damaged is believed. */
#include "iod/replica/dirty_format.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { GROUP = 9 };

static const struct dirty_record sample[] = {
    { DIRTY_INTENT, 0, { .object = { 5, 1 }, .generation = 3, .span = { 4096, 8192 } } },
    { DIRTY_CHANGED, 6, { .object = { 5, 1 }, .generation = 3, .whole = true } },
    { DIRTY_CHANGED, 4, { .object = { 6, 0 }, .generation = 1 } },
    { DIRTY_CHANGED, 2, { .everything = true } },
    { DIRTY_SETTLED, 6, { .whole = false } },
};

enum { SAMPLE = sizeof(sample) / sizeof(sample[0]) };

static bool equal(const struct dirty_record *a, const struct dirty_record *b)
{
    return a->kind == b->kind && a->members == b->members &&
           a->change.object.inode == b->change.object.inode &&
           a->change.object.column == b->change.object.column &&
           a->change.generation == b->change.generation &&
           a->change.span.start == b->change.span.start &&
           a->change.span.end == b->change.span.end && a->change.whole == b->change.whole &&
           a->change.everything == b->change.everything;
}

static void what_was_written_is_read(void **state)
{
    struct dirty_entry entry;
    struct buf b;
    struct slice rest;
    group_id group;

    (void)state;
    buf_init(&b);
    dirty_header_put(&b, GROUP);
    dirty_entry_put(&b, 1, sample, SAMPLE);
    dirty_entry_put(&b, 2, sample, 1);
    assert_int_equal(dirty_header_parse(buf_slice(&b), &group), MORSEL_OK);
    assert_int_equal(group, GROUP);
    rest = (struct slice){ b.data + DIRTY_HEADER_BYTES, b.count - DIRTY_HEADER_BYTES };
    assert_int_equal(dirty_entry_parse(rest, 1, &entry), DIRTY_ENTRY);
    assert_int_equal(entry.count, SAMPLE);
    for (uint32_t i = 0; i < SAMPLE; i++) {
        struct dirty_record record;

        assert_true(dirty_record_get(&entry.records, &record));
        assert_true(equal(&record, &sample[i]));
    }
    assert_true(reader_done(&entry.records));
    rest.data += entry.bytes;
    rest.count -= entry.bytes;
    assert_int_equal(dirty_entry_parse(rest, 1, &entry), DIRTY_DAMAGED); /* Its number is 2. */
    assert_int_equal(dirty_entry_parse(rest, 2, &entry), DIRTY_ENTRY);
    assert_int_equal(entry.bytes, rest.count);
    rest.count = 0;
    assert_int_equal(dirty_entry_parse(rest, 3, &entry), DIRTY_END);
    buf_free(&b);
}

static void a_torn_end_is_left_out(void **state)
{
    struct dirty_entry entry;
    struct buf b;

    (void)state;
    buf_init(&b);
    dirty_entry_put(&b, 1, sample, SAMPLE);
    for (size_t count = 1; count < b.count; count++) {
        assert_int_equal(dirty_entry_parse((struct slice){ b.data, count }, 1, &entry), DIRTY_TORN);
    }
    memset(b.data, 0, b.count);
    assert_int_equal(dirty_entry_parse(buf_slice(&b), 1, &entry), DIRTY_TORN);
    buf_free(&b);
}

/* The checksums of what is in `b` are made right again. */
static void seal(struct buf *b)
{
    put_le32(b->data + 4,
             crc32c(0, b->data + DIRTY_ENTRY_HEADER_BYTES, b->count - DIRTY_ENTRY_HEADER_BYTES));
    put_le32(b->data + 16, crc32c(0, b->data, 16));
}

static void every_damaged_bit_is_seen(void **state)
{
    struct dirty_entry entry;
    struct buf b;
    group_id group;

    (void)state;
    buf_init(&b);
    dirty_header_put(&b, GROUP);
    for (size_t bit = 0; bit < 8 * b.count; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_not_equal(dirty_header_parse(buf_slice(&b), &group), MORSEL_OK);
        assert_int_equal(group, 0);
        b.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    buf_clear(&b);
    dirty_entry_put(&b, 1, sample, SAMPLE);
    for (size_t bit = 0; bit < 8 * b.count; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(dirty_entry_parse(buf_slice(&b), 1, &entry), DIRTY_DAMAGED);
        b.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    buf_free(&b);
}

static void records_that_make_no_sense_are_damage(void **state)
{
    static const struct
    {
        size_t at; /* In the first record, an INTENT. */
        uint8_t value;
    } wrong[] = {
        { 0, 0 }, { 0, 2 }, { 0, 4 }, { 1, 1 },  { 2, 1 },
        { 2, 2 }, { 2, 4 }, { 3, 1 }, { 32, 1 }, { 39, 1 },
    };
    struct dirty_entry entry;
    struct buf b;

    (void)state;
    buf_init(&b);
    dirty_entry_put(&b, 1, sample, 1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t *at = b.data + DIRTY_ENTRY_HEADER_BYTES + wrong[i].at;
        uint8_t before = *at;

        *at = wrong[i].value;
        if (wrong[i].at == 32) {
            at[1] = 0; /* It ends before it begins. */
        }
        seal(&b);
        assert_int_equal(dirty_entry_parse(buf_slice(&b), 1, &entry), DIRTY_DAMAGED);
        assert_int_equal(entry.bytes, 0);
        *at = before;
        if (wrong[i].at == 32) {
            at[1] = 0x20;
        }
    }
    seal(&b);
    assert_int_equal(dirty_entry_parse(buf_slice(&b), 1, &entry), DIRTY_ENTRY);
    buf_free(&b);
}

static void a_newer_format_is_refused(void **state)
{
    struct buf b;
    group_id group;

    (void)state;
    buf_init(&b);
    dirty_header_put(&b, GROUP);
    put_le32(b.data + 8, DIRTY_FORMAT + 1);
    put_le32(b.data + 12, 0);
    put_le32(b.data + 12, crc32c(0, b.data, b.count));
    assert_int_equal(dirty_header_parse(buf_slice(&b), &group), MORSEL_VERSION);
    assert_int_equal(group, 0);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_torn_end_is_left_out),
        cmocka_unit_test(every_damaged_bit_is_seen),
        cmocka_unit_test(records_that_make_no_sense_are_damage),
        cmocka_unit_test(a_newer_format_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
