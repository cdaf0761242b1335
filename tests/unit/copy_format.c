/* A copy's state and its memory of operations in files: what was written is read, and nothing that is
 * damaged is believed. */
#include "iod/replica/copy_format.h"

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct copy_name name = { .group = 9, .count = 2, .me = 1, .servers = { 4, 7 } };
static const struct group_record record = { .state = GROUP_STANDALONE,
                                            .epoch = 12,
                                            .set = 2,
                                            .whole = true,
                                            .boot = 77,
                                            .begun = 11,
                                            .verifier = 3 };
static const struct copy_operation operation = {
    .done = true,
    .boot = 77,
    .known = { .op = { 5, 8 }, .ended = 6, .until_ms = 1234, .answer = { MORSEL_UNSURE, 3 } }
};

static void put_state(struct buf *b, const struct copy_name *n, const struct group_record *r)
{
    buf_init(b);
    copy_state_put(b, n, r);
    assert_false(b->failed);
    assert_int_equal(b->count, COPY_STATE_BYTES);
}

static void a_state_is_read_as_it_was_written(void **state)
{
    struct copy_name n;
    struct group_record r;
    struct buf b;

    (void)state;
    put_state(&b, &name, &record);
    assert_int_equal(copy_state_parse(buf_slice(&b), &n, &r), MORSEL_OK);
    assert_memory_equal(&n, &name, sizeof(n));
    assert_int_equal(r.state, record.state);
    assert_int_equal(r.epoch, record.epoch);
    assert_int_equal(r.set, record.set);
    assert_true(r.whole);
    assert_int_equal(r.boot, record.boot);
    assert_int_equal(r.begun, record.begun);
    assert_int_equal(r.verifier, record.verifier);
    buf_free(&b);
}

static int parse(const uint8_t *bytes, size_t count)
{
    struct copy_name n;
    struct group_record r;
    int rv = copy_state_parse((struct slice){ bytes, count }, &n, &r);

    assert_true(rv == MORSEL_OK || (n.group == 0 && r.verifier == 0));
    return rv;
}

static void a_damaged_state_is_refused(void **state)
{
    struct buf b;

    (void)state;
    put_state(&b, &name, &record);
    for (size_t i = 0; i < b.count; i++) {
        bool format = i >= 8 && i < 12; /* A larger one is of a newer version. */

        assert_int_equal(parse(b.data, i), MORSEL_CORRUPT);
        b.data[i] ^= 0x41;
        assert_int_equal(parse(b.data, b.count), format ? MORSEL_VERSION : MORSEL_CORRUPT);
        b.data[i] ^= 0x41;
    }
    buf_put_u8(&b, 0);
    assert_int_equal(parse(b.data, b.count), MORSEL_CORRUPT);
    b.data[8] = COPY_FORMAT + 1; /* However long it is. */
    assert_int_equal(parse(b.data, b.count), MORSEL_VERSION);
    buf_free(&b);
}

/* Soundly written by somebody who is mistaken. */
static void assert_refused(const struct copy_name *n, const struct group_record *r)
{
    struct buf b;

    put_state(&b, n, r);
    assert_int_equal(parse(b.data, b.count), MORSEL_CORRUPT);
    buf_free(&b);
}

static void a_state_that_cannot_be_is_refused(void **state)
{
    struct copy_name n = name;
    struct group_record r = record;

    (void)state;
    n.group = 0;
    assert_refused(&n, &record);
    n = name;
    n.me = 2;
    assert_refused(&n, &record);
    n = name;
    n.servers[1] = n.servers[0];
    assert_refused(&n, &record);
    n = name;
    n.count = 0;
    assert_refused(&n, &record);
    r.set = 4;
    assert_refused(&name, &r);
    r.set = 0;
    assert_refused(&name, &r);
    r = record;
    r.verifier = 0;
    assert_refused(&name, &r);
    r = record;
    r.begun = r.epoch + 1;
    assert_refused(&name, &r);
}

static void operations_are_read_or_refused(void **state)
{
    uint8_t bytes[COPY_OPERATION_BYTES];
    struct copy_operation op, bad = operation;

    (void)state;
    copy_operation_put(bytes, &operation);
    assert_true(copy_operation_parse(bytes, &op));
    assert_true(op.done);
    assert_int_equal(op.boot, 77);
    assert_int_equal(op.known.op.client, 5);
    assert_int_equal(op.known.op.number, 8);
    assert_int_equal(op.known.ended, 6);
    assert_int_equal(op.known.until_ms, 1234);
    assert_int_equal(op.known.answer.status, MORSEL_UNSURE);
    assert_int_equal(op.known.answer.verifier, 3);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x41;
        assert_false(copy_operation_parse(bytes, &op));
        bytes[i] ^= 0x41;
    }
    memset(bytes, 0, sizeof(bytes)); /* After a loss of power. */
    assert_false(copy_operation_parse(bytes, &op));
    bad.known.ended = 8;
    copy_operation_put(bytes, &bad);
    assert_false(copy_operation_parse(bytes, &op));
}

static void a_memory_begins_with_its_group(void **state)
{
    group_number group;
    struct buf b;

    (void)state;
    buf_init(&b);
    copy_memory_header_put(&b, 9);
    assert_int_equal(b.count, COPY_MEMORY_HEADER_BYTES);
    assert_int_equal(copy_memory_header_parse(buf_slice(&b), &group), MORSEL_OK);
    assert_int_equal(group, 9);
    for (size_t i = 0; i < b.count; i++) {
        b.data[i] ^= 0x41;
        assert_int_not_equal(copy_memory_header_parse(buf_slice(&b), &group), MORSEL_OK);
        assert_int_equal(group, 0);
        b.data[i] ^= 0x41;
        assert_int_equal(copy_memory_header_parse((struct slice){ b.data, i }, &group),
                         MORSEL_CORRUPT);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_read_as_it_was_written),
        cmocka_unit_test(a_damaged_state_is_refused),
        cmocka_unit_test(a_state_that_cannot_be_is_refused),
        cmocka_unit_test(operations_are_read_or_refused),
        cmocka_unit_test(a_memory_begins_with_its_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
