/* The object store against a model, its answers to damage, and its small promises. Crashes:
 * store_crash.c. */
#include "common/store/store.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODEL_BYTES = 7 << 19 /* Three groups and a half */, OBJECTS = 3 };

/* An array of bytes: too simple to be wrong. */
struct model
{
    uint8_t *bytes;
    uint64_t size;
    bool exists;
};

struct pair
{
    struct store_fixture f;
    struct model models[OBJECTS];
    struct prng prng;
    uint8_t *buffer;
};

static void pair_init(struct pair *p, uint64_t seed)
{
    fixture_init(&p->f);
    fixture_open(&p->f);
    prng_seed(&p->prng, seed);
    p->buffer = malloc(MODEL_BYTES);
    for (int i = 0; i < OBJECTS; i++) {
        p->models[i] = (struct model){ .bytes = calloc(1, MODEL_BYTES) };
        assert_non_null(p->models[i].bytes);
    }
}

static void pair_free(struct pair *p)
{
    for (int i = 0; i < OBJECTS; i++) {
        free(p->models[i].bytes);
    }
    free(p->buffer);
    fixture_free(&p->f);
}

/* Offsets and lengths near the borders of blocks and groups, and anywhere. */
static uint64_t draw_number(struct prng *prng, uint64_t below)
{
    static const uint64_t units[] = { 1, BLOCK_BYTES, GROUP_BYTES };
    uint64_t unit = units[prng_below(prng, 3)];
    uint64_t number = prng_below(prng, below / unit + 1) * unit;

    if (prng_below(prng, 4) == 0 && number > 0) {
        number--;
    }
    return number < below ? number : below - 1;
}

static void draw_bytes(struct prng *prng, uint8_t *bytes, size_t count)
{
    uint64_t word = prng_below(prng, 8) == 0 ? 0 : prng_next(prng); /* Zeros are written, too. */

    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(word == 0 ? 0 : (word >> (i % 57)) + i / 251);
    }
}

static void step_write(struct pair *p, struct object_id id, struct model *m)
{
    uint64_t offset = draw_number(&p->prng, MODEL_BYTES);
    uint64_t length = draw_number(&p->prng, MODEL_BYTES - offset + 1);

    draw_bytes(&p->prng, p->buffer, length);
    assert_int_equal(fixture_write(&p->f, id, offset, p->buffer, length), 0);
    memcpy(m->bytes + offset, p->buffer, length);
    if (length > 0) {
        m->exists = true;
        m->size = offset + length > m->size ? offset + length : m->size;
    }
}

static void step_read(struct pair *p, struct object_id id, const struct model *m)
{
    uint64_t offset = draw_number(&p->prng, MODEL_BYTES);
    uint64_t length = draw_number(&p->prng, MODEL_BYTES - offset + 1);

    memset(p->buffer, 0xa5, length);
    assert_int_equal(fixture_read(&p->f, id, offset, p->buffer, length), 0);
    assert_memory_equal(p->buffer, m->bytes + offset, length);
}

static void step_truncate(struct pair *p, struct object_id id, struct model *m)
{
    uint64_t size = draw_number(&p->prng, MODEL_BYTES);

    assert_int_equal(store_truncate(p->f.store, id, size, NULL, NULL), 0);
    if (size < m->size) {
        memset(m->bytes + size, 0, m->size - size);
    }
    m->exists = m->exists || size > 0;
    m->size = size;
}

static void step_punch(struct pair *p, struct object_id id, struct model *m)
{
    uint64_t offset = draw_number(&p->prng, MODEL_BYTES);
    uint64_t length = draw_number(&p->prng, MODEL_BYTES - offset + 1);

    assert_int_equal(store_punch(p->f.store, id, offset, length, NULL, NULL), 0);
    memset(m->bytes + offset, 0, length);
}

/* Between here and the next data there are only zeros; a hole begins with zeros. */
static void step_seek(struct pair *p, struct object_id id, const struct model *m)
{
    uint64_t offset = draw_number(&p->prng, MODEL_BYTES);
    uint64_t at;
    bool found;

    assert_int_equal(store_seek(p->f.store, id, offset, false, &found, &at, NULL), 0);
    at = found ? at : m->size;
    assert_true(!found || (at >= offset && at < m->size));
    for (uint64_t i = offset; i < at; i++) {
        assert_int_equal(m->bytes[i], 0);
    }
    assert_int_equal(store_seek(p->f.store, id, offset, true, &found, &at, NULL), 0);
    assert_true(found && at >= offset && (at <= m->size || at == offset));
    for (uint64_t i = at; i < m->size && i / BLOCK_BYTES == at / BLOCK_BYTES; i++) {
        assert_int_equal(m->bytes[i], 0);
    }
}

static void step_delete(struct pair *p, struct object_id id, struct model *m)
{
    assert_int_equal(store_delete(p->f.store, id, NULL), 0);
    memset(m->bytes, 0, MODEL_BYTES);
    m->size = 0;
    m->exists = false;
}

static void step_check(struct pair *p, struct object_id id, const struct model *m)
{
    struct store_stat stat;
    uint64_t bad;

    assert_int_equal(store_stat(p->f.store, id, &stat, NULL), 0);
    assert_int_equal(stat.exists, m->exists);
    assert_int_equal(stat.size, m->size);
    assert_int_equal(store_verify(p->f.store, id, &bad, NULL), 0);
    assert_int_equal(bad, 0);
}

/* The end of a run: in order, killed, or killed and another kernel afterwards. */
static void step_restart(struct pair *p)
{
    switch (prng_below(&p->prng, 3)) {
    case 0:
        fixture_close(&p->f);
        fixture_open(&p->f);
        break;
    case 1:
        fixture_crash(&p->f);
        break;
    default:
        p->f.options.boot_id++;
        fixture_crash(&p->f);
        break;
    }
}

static void agrees_with_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct pair p;

        pair_init(&p, seed);
        for (int step = 0; step < 600; step++) {
            uint32_t i = (uint32_t)prng_below(&p.prng, OBJECTS);
            struct object_id id = { .inode = 7, .column = i };
            struct model *m = &p.models[i];
            uint64_t dice = prng_below(&p.prng, 1000);

            if (dice < 350) {
                step_write(&p, id, m);
            } else if (dice < 600) {
                step_read(&p, id, m);
            } else if (dice < 700) {
                step_truncate(&p, id, m);
            } else if (dice < 800) {
                step_punch(&p, id, m);
            } else if (dice < 850) {
                step_seek(&p, id, m);
            } else if (dice < 880) {
                assert_int_equal(store_checkpoint(p.f.store, 0, NULL), 0);
            } else if (dice < 900) {
                assert_int_equal(store_sync(p.f.store, id, NULL), 0);
            } else if (dice < 970) {
                step_check(&p, id, m);
            } else if (dice < 980) {
                step_delete(&p, id, m);
            } else {
                step_restart(&p);
            }
        }
        assert_int_equal(p.f.lines, 0);
        pair_free(&p);
    }
}

static void fill(struct store_fixture *f, struct object_id id, size_t bytes)
{
    uint8_t *pattern = malloc(bytes);

    assert_non_null(pattern);
    for (size_t i = 0; i < bytes; i++) {
        pattern[i] = (uint8_t)(i / 7 + i / 4096 + 1);
    }
    assert_int_equal(fixture_write(f, id, 0, pattern, bytes), 0);
    free(pattern);
}

/* A flipped bit in bytes or in a sum is an error for its block, and for no other. */
static void finds_damage(void **state)
{
    static const struct
    {
        uint64_t place;
        uint64_t block;
    } damages[] = { { CHECKSUMS_PAGE_BYTES + 5 * BLOCK_BYTES + 100, 5 },
                    { CHECKSUMS_AT + 9 * sizeof(struct store_sum), 9 },
                    { GROUP_SPAN + CHECKSUMS_PAGE_BYTES + 17, GROUP_BLOCKS } };
    struct object_id id = { .inode = 3, .column = 1 };
    uint8_t bytes[BLOCK_BYTES];

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(damages); i++) {
        struct store_fixture f;
        uint64_t bad;
        char path[512];

        fixture_init(&f);
        fixture_open(&f);
        fill(&f, id, GROUP_BYTES + 3 * BLOCK_BYTES);
        fixture_close(&f);
        fixture_path(&f, id, path);
        fixture_flip(path, damages[i].place);
        fixture_open(&f);
        assert_int_equal(fixture_read(&f, id, damages[i].block * BLOCK_BYTES, bytes, sizeof(bytes)),
                         MORSEL_CHECKSUM);
        assert_true(f.lines > 0);
        assert_int_equal(fixture_read(&f, id, (damages[i].block + 1) * BLOCK_BYTES, bytes, 100), 0);
        assert_int_equal(fixture_read(&f, id, (damages[i].block - 1) * BLOCK_BYTES, bytes, 100), 0);
        assert_int_equal(store_verify(f.store, id, &bad, NULL), 0);
        assert_int_equal(bad, 1);
        assert_int_equal(fixture_write(&f, id, damages[i].block * BLOCK_BYTES + 10, bytes, 10),
                         MORSEL_CHECKSUM);
        assert_int_equal(
            fixture_write(&f, id, damages[i].block * BLOCK_BYTES, bytes, sizeof(bytes)), 0);
        assert_int_equal(store_verify(f.store, id, &bad, NULL), 0);
        assert_int_equal(bad, 0);
        fixture_free(&f);
    }
}

static void refuses_a_damaged_header(void **state)
{
    struct object_id id = { .inode = 4, .column = 0 };
    struct store_fixture f;
    uint8_t bytes[10];
    char path[512];

    (void)state;
    fixture_init(&f);
    fixture_open(&f);
    fill(&f, id, 100);
    fixture_close(&f);
    fixture_path(&f, id, path);
    fixture_flip(path, 9);
    fixture_open(&f);
    assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), MORSEL_CORRUPT);
    assert_int_equal(store_delete(f.store, id, NULL), 0);
    assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), 0);
    fixture_free(&f);
}

static void refuses_wrong_checksums_and_ranges(void **state)
{
    struct object_id id = { .inode = 5, .column = 0 };
    uint32_t crcs[2] = { 1, 2 };
    struct store_stat stat;
    struct store_fixture f;
    uint8_t bytes[16] = { 1 };
    size_t count;

    (void)state;
    fixture_init(&f);
    fixture_open(&f);
    assert_int_equal(store_write(f.store, id, 0, bytes, 16, crcs, false, NULL, NULL),
                     MORSEL_CHECKSUM);
    assert_int_equal(store_stat(f.store, id, &stat, NULL), 0);
    assert_false(stat.exists);
    assert_int_equal(store_write(f.store, id, UINT64_MAX - 4, bytes, 16, crcs, false, NULL, NULL),
                     MORSEL_FBIG);
    assert_int_equal(store_read(f.store, id, UINT64_MAX - 4, bytes, 16, &count, crcs, NULL),
                     MORSEL_FBIG);
    assert_int_equal(store_truncate(f.store, id, UINT64_MAX, NULL, NULL), MORSEL_FBIG);
    assert_int_equal(store_truncate(f.store, id, STORE_OFFSET_MAX - 1, NULL, NULL),
                     MORSEL_FBIG); /* The disk's. */
    assert_int_equal(store_punch(f.store, id, 5, UINT64_MAX, NULL, NULL), MORSEL_FBIG);
    fixture_free(&f);
}

/* Many more objects than descriptors, and a list of exactly them. */
static void keeps_few_files_open(void **state)
{
    enum { MANY = 1000 };
    static bool seen[MANY + 1];
    struct object_id ids[7];
    struct store_fixture f;
    struct store_space space;
    uint64_t cursor = 0;
    size_t count, total = 0;

    (void)state;
    fixture_init(&f);
    f.options.open_files_max = 16;
    fixture_open(&f);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 1; i <= MANY; i++) {
            struct object_id id = { .inode = i, .column = i % 3 };
            uint32_t value = i * 2 + round;

            assert_int_equal(fixture_write(&f, id, i, &value, sizeof(value)), 0);
        }
    }
    for (uint32_t i = 1; i <= MANY; i++) {
        struct object_id id = { .inode = i, .column = i % 3 };
        uint32_t value;

        assert_int_equal(fixture_read(&f, id, i, &value, sizeof(value)), 0);
        assert_int_equal(value, i * 2 + 1);
    }
    while (cursor != UINT64_MAX) {
        assert_int_equal(store_list(f.store, &cursor, ids, ARRAY_COUNT(ids), &count, NULL), 0);
        for (size_t i = 0; i < count; i++) {
            assert_in_range(ids[i].inode, 1, MANY);
            assert_false(seen[ids[i].inode]);
            seen[ids[i].inode] = true;
        }
        total += count;
    }
    assert_int_equal(total, MANY);
    assert_int_equal(store_space(f.store, &space, NULL), 0);
    assert_int_equal(space.objects, MANY);
    fixture_free(&f);
}

static void sparse_objects_hold_little(void **state)
{
    struct object_id id = { .inode = 6, .column = 0 };
    struct store_fixture f;
    struct store_stat stat;
    uint64_t offset, bytes;
    bool found;

    (void)state;
    fixture_init(&f);
    fixture_open(&f);
    assert_int_equal(store_disk_bytes(f.store, id, &bytes, NULL), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(fixture_write(&f, id, UINT64_C(100) << 30, "x", 1), 0);
    assert_int_equal(store_disk_bytes(f.store, id, &bytes, NULL), 0);
    assert_in_range(bytes, BLOCK_BYTES, 1 << 20);
    assert_int_equal(store_stat(f.store, id, &stat, NULL), 0);
    assert_int_equal(stat.size, (UINT64_C(100) << 30) + 1);
    assert_true(stat.blocks <= 64);
    assert_int_equal(store_seek(f.store, id, 0, false, &found, &offset, NULL), 0);
    assert_true(found);
    assert_int_equal(offset, UINT64_C(100) << 30);
    assert_int_equal(store_punch(f.store, id, 0, UINT64_C(101) << 30, NULL, NULL), 0);
    assert_int_equal(store_seek(f.store, id, 0, false, &found, &offset, NULL), 0);
    assert_false(found);
    assert_int_equal(store_allocate(f.store, id, 0, 3 << 20, NULL, NULL), 0);
    assert_int_equal(store_stat(f.store, id, &stat, NULL), 0);
    assert_true(stat.blocks >= 3 << 11);
    assert_int_equal(stat.size, (UINT64_C(100) << 30) + 1);
    assert_int_equal(store_disk_bytes(f.store, id, &bytes, NULL), 0);
    assert_in_range(bytes, 3 << 20, 4 << 20);
    fixture_free(&f);
}

static void reads_from_memory_without_waiting(void **state)
{
    struct object_id id = { .inode = 8, .column = 0 };
    struct object_id other = { .inode = 9, .column = 0 };
    struct store_fixture f;
    uint8_t bytes[BLOCK_BYTES];
    uint32_t crcs[2];
    size_t count;

    (void)state;
    fixture_init(&f);
    fixture_open(&f);
    fill(&f, id, 3 * BLOCK_BYTES);
    assert_int_equal(store_read_cached(f.store, id, BLOCK_BYTES, bytes, BLOCK_BYTES, &count, crcs),
                     0);
    assert_int_equal(count, BLOCK_BYTES);
    assert_int_equal(crcs[0], crc32c(0, bytes, BLOCK_BYTES));
    assert_int_equal(store_read_cached(f.store, id, 3 * BLOCK_BYTES, bytes, 10, &count, crcs), 0);
    assert_int_equal(count, 0);
    assert_int_equal(store_read_cached(f.store, other, 0, bytes, 10, &count, crcs), MORSEL_AGAIN);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_model),
        cmocka_unit_test(finds_damage),
        cmocka_unit_test(refuses_a_damaged_header),
        cmocka_unit_test(refuses_wrong_checksums_and_ranges),
        cmocka_unit_test(keeps_few_files_open),
        cmocka_unit_test(sparse_objects_hold_little),
        cmocka_unit_test(reads_from_memory_without_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
