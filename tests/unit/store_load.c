/* The object store on a full disk and under many threads. */
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store.h"
#include "common/store/store_format.h"
#include "tests/lib/store_fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

/* ---- Full ---- */

enum { FULL_BYTES = 8 << 20 };

/* False: this user may not mount. */
static bool full_init(struct store_fixture *f)
{
    char size[32];

    fixture_init(f);
    snprintf(size, sizeof(size), "size=%d", FULL_BYTES);
    if (mount("tmpfs", f->dir, "tmpfs", 0, size) != 0) {
        fixture_free(f);
        return false;
    }
    return true;
}

static void full_free(struct store_fixture *f)
{
    fixture_close(f);
    assert_int_equal(umount(f->dir), 0);
    fixture_free(f);
}

/* Fill the disk with pieces that do not divide it; how many bytes were acknowledged. */
static uint64_t fill_up(struct store_fixture *f, struct object_id id)
{
    static uint8_t bytes[300001];
    uint64_t offset = 0;
    int rv;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i % 251);
    }
    while ((rv = fixture_write(f, id, offset, bytes, sizeof(bytes))) == 0) {
        offset += sizeof(bytes);
    }
    assert_int_equal(rv, MORSEL_NOSPC);
    return offset;
}

/* Take the last free byte. */
static void stuff(const struct store_fixture *f)
{
    char path[512];
    FILE *filler;

    snprintf(path, sizeof(path), "%s/filler", f->dir);
    filler = fopen(path, "w");
    assert_non_null(filler);
    setvbuf(filler, NULL, _IONBF, 0);
    while (fputc('x', filler) != EOF) {
    }
    (void)fclose(filler);
}

static void keeps_what_it_has_when_full(void **state)
{
    struct object_id id = { .inode = 15, .column = 0 };
    struct object_id other = { .inode = 16, .column = 0 };
    struct store_fixture f;
    struct store_stat stat;
    uint8_t bytes[100];
    uint64_t size, bad;

    (void)state;
    if (!full_init(&f)) {
        skip();
    }
    fixture_open(&f);
    size = fill_up(&f, id);
    assert_in_range(size, FULL_BYTES / 2, FULL_BYTES);
    assert_int_equal(store_stat(f.store, id, &stat, NULL), 0);
    assert_int_equal(stat.size, size);
    assert_int_equal(store_verify(f.store, id, &bad, NULL), 0);
    assert_int_equal(bad, 0);
    for (uint64_t at = 0; at < size; at += 300001) {
        assert_int_equal(fixture_read(&f, id, at, bytes, sizeof(bytes)), 0);
        assert_int_equal(bytes[3], 3);
    }
    assert_int_equal(fixture_write(&f, id, 5000, "changed", 7), 0);
    stuff(&f);
    fixture_close(&f);
    fixture_open(&f); /* Starts on a disk without a free block. */
    assert_int_equal(store_truncate(f.store, id, 100000, NULL, NULL), 0);
    assert_int_equal(fixture_write(&f, other, 0, "new", 3), 0);
    full_free(&f);
}

/* The disk fills up behind the back of the store, so that the write itself fails half way. */
static void undoes_a_write_that_fails_half_way(void **state)
{
    struct object_id id = { .inode = 19, .column = 0 };
    uint8_t *bytes = malloc(FULL_BYTES);
    struct store_fixture f;
    struct store_stat stat;
    char path[512];
    uint64_t bad;
    FILE *filler;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 7, FULL_BYTES);
    if (!full_init(&f)) {
        free(bytes);
        skip();
        return;
    }
    fixture_open(&f);
    assert_int_equal(fixture_write(&f, id, 0, bytes, 100000), 0);
    assert_int_equal(fixture_write(&f, id, 500000, bytes, 100000), 0);
    snprintf(path, sizeof(path), "%s/filler", f.dir);
    filler = fopen(path, "w");
    assert_non_null(filler);
    assert_int_equal(fwrite(bytes, 1, FULL_BYTES - 1000000, filler), FULL_BYTES - 1000000);
    assert_int_equal(fclose(filler), 0);
    memset(bytes, 9, FULL_BYTES);
    assert_int_equal(fixture_write(&f, id, 50000, bytes, 2000000), MORSEL_NOSPC);
    assert_int_equal(store_stat(f.store, id, &stat, NULL), 0);
    assert_int_equal(stat.size, 600000);
    assert_int_equal(store_verify(f.store, id, &bad, NULL), 0);
    assert_int_equal(bad, 0);
    assert_int_equal(fixture_read(&f, id, 0, bytes, 600000), 0);
    assert_int_equal(bytes[49999], 7);
    assert_true(bytes[99999] == 7 || bytes[99999] == 9);
    assert_int_equal(f.lines, 0);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(fixture_read(&f, id, 0, bytes, 600000), 0);
    full_free(&f);
    free(bytes);
}

static void keeps_its_reserve_free(void **state)
{
    struct object_id id = { .inode = 17, .column = 0 };
    struct store_space space;
    struct store_fixture f;

    (void)state;
    if (!full_init(&f)) {
        skip();
    }
    f.options.reserve_bytes = FULL_BYTES / 2;
    fixture_open(&f);
    assert_in_range(fill_up(&f, id), FULL_BYTES / 4, FULL_BYTES / 2);
    assert_int_equal(fixture_write(&f, id, 100, "in place", 8), 0);
    f.options.reserve_bytes = FULL_BYTES / 2;
    assert_int_equal(store_space(f.store, &space, NULL), 0);
    assert_true(space.bytes_free < 1 << 20);
    full_free(&f);
}

/* ---- Many threads ---- */

enum { THREADS = 6, THREAD_STEPS = 400, THREAD_OBJECTS = 30, REGION_BYTES = 5 * BLOCK_BYTES + 77 };

struct worker
{
    pthread_t thread;
    struct store_fixture *f;
    uint64_t seed;
};

/* A region is only ever written as a whole, with one value. */
static void worker_step(struct worker *w, struct prng *prng, uint8_t *bytes)
{
    struct object_id id = { .inode = 1 + prng_below(prng, THREAD_OBJECTS), .column = 0 };
    uint64_t offset = (1 + prng_below(prng, 3)) * GROUP_BYTES - 2 * BLOCK_BYTES - 5;
    uint64_t dice = prng_below(prng, 100);

    if (dice < 40) {
        memset(bytes, (int)prng_below(prng, 256), REGION_BYTES);
        CHECK(fixture_write(w->f, id, offset, bytes, REGION_BYTES) == 0);
    } else if (dice < 90) {
        CHECK(fixture_read(w->f, id, offset, bytes, REGION_BYTES) == 0);
        for (size_t i = 1; i < REGION_BYTES; i++) {
            CHECK(bytes[i] == bytes[0]);
        }
    } else if (dice < 94) {
        CHECK(store_sync(w->f->store, id, NULL) == 0);
    } else if (dice < 97) {
        CHECK(store_delete(w->f->store, id, NULL) == 0);
    } else {
        CHECK(store_checkpoint(w->f->store, 0, NULL) == 0);
    }
}

static void *worker_run(void *data)
{
    struct worker *w = data;
    uint8_t *bytes = malloc(REGION_BYTES);
    struct prng prng;

    CHECK(bytes != NULL);
    prng_seed(&prng, w->seed);
    for (int step = 0; step < THREAD_STEPS; step++) {
        worker_step(w, &prng, bytes);
    }
    free(bytes);
    return NULL;
}

static void serves_many_threads(void **state)
{
    struct worker workers[THREADS];
    struct store_fixture f;

    (void)state;
    fixture_init(&f);
    f.options.open_files_max = 16;
    fixture_open(&f);
    for (int i = 0; i < THREADS; i++) {
        workers[i].f = &f;
        workers[i].seed = (uint64_t)i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    assert_int_equal(f.lines, 0);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_it_has_when_full),
        cmocka_unit_test(undoes_a_write_that_fails_half_way),
        cmocka_unit_test(keeps_its_reserve_free),
        cmocka_unit_test(serves_many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
