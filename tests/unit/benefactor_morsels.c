/* Morsels at a benefactor: written, read and synced by a client, and what it may not do. */
#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/benefactor_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SET = 4711, BYTES = 300000 };

/* Its bench is too large for a stack. */
struct fixture
{
    struct bench bench;
    uint8_t bytes[BYTES];
};

static struct bench *begin(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct prng prng;

    CHECK(f != NULL);
    *state = f;
    prng_seed(&prng, 1);
    for (size_t i = 0; i < BYTES; i++) {
        f->bytes[i] = (uint8_t)prng_next(&prng);
    }
    bench_init(&f->bench);
    f->bench.donate = 64 << 20;
    assert_int_equal(bench_start(&f->bench, NULL), 0);
    bench_until(&f->bench, &f->bench.joins, 1);
    bench_connect(&f->bench);
    return &f->bench;
}

static void end(void **state)
{
    struct fixture *f = *state;

    bench_end(&f->bench);
    free(f);
}

static void assert_reads(struct bench *b, uint32_t morsel, uint64_t offset, const uint8_t *bytes,
                         size_t count)
{
    assert_int_equal(bench_read(b, SET, morsel, offset, count), 0);
    assert_int_equal(b->got_count, count);
    assert_memory_equal(b->got, bytes, count);
}

/* Numbers of morsels go far beyond those of columns, and none is taken for an object of a group. */
static void what_is_written_is_read(void **state)
{
    static const uint32_t morsels[] = { 0, 1, 255, 256, 70000, UINT32_MAX };
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (size_t i = 0; i < ARRAY_COUNT(morsels); i++) {
        assert_int_equal(bench_write(b, SET, morsels[i], 0, bytes + i, 100000), 0);
        assert_int_equal(bench_write(b, SET, morsels[i], 100000, bytes + 5000, 77), 0);
        assert_int_equal(bench_sync(b, SET, morsels[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(morsels); i++) {
        assert_reads(b, morsels[i], 0, bytes + i, 100000);
        assert_reads(b, morsels[i], 100000, bytes + 5000, 77);
        assert_int_equal(bench_read(b, SET, morsels[i], 0, BYTES), 0);
        assert_int_equal(b->got_count, 100077); /* It ends there, and is not filled up. */
    }
    assert_int_equal(bench_read(b, SET, 2, 0, BYTES), 0);
    assert_int_equal(b->got_count, 0); /* Nobody has written that one. */
    end(state);
}

static void a_morsel_is_16_mib_at_most(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    assert_int_equal(bench_write(b, SET, 0, MORSEL_BYTES_MAX - 100, bytes, 100), 0);
    assert_int_equal(bench_write(b, SET, 0, MORSEL_BYTES_MAX - 100, bytes, 101), MORSEL_FBIG);
    assert_int_equal(bench_write(b, SET, 0, UINT64_MAX - 10, bytes, 100), MORSEL_FBIG);
    end(state);
}

/* What only the manager may do, and what morsels do not need. */
static void clients_only_read_and_write(void **state)
{
    static const enum message_type types[] = { MSG_DELETE,   MSG_TRUNCATE, MSG_PUNCH,
                                               MSG_ALLOCATE, MSG_COPY,     MSG_SEEK };
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    id.inode = SET;
    request.object = &id;
    assert_int_equal(bench_write(b, SET, 0, 0, bytes, 100), 0);
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        assert_int_equal(bench_call(b, types[i], &request.base), MORSEL_NOTSUP);
    }
    assert_reads(b, 0, 0, bytes, 100);
    end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_morsel_is_16_mib_at_most),
        cmocka_unit_test(clients_only_read_and_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
