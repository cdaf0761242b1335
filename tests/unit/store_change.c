/* The object store and changes that fail or come too late: what they leave behind. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/faulty_disk.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- A change fails ---- */

/* Each byte is what it was or what it was to be, and none of them is damage. */
static void check_old_or_zero(struct store_fixture *f, uint8_t seed)
{
    uint8_t bytes[FAULTY_BYTES], found[FAULTY_BYTES];

    faulty_fill(bytes, sizeof(bytes), seed);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_true(found[i] == bytes[i] || found[i] == 0);
    }
}

static void test_a_punch_that_fails(void **state)
{
    struct store_fixture *f = *state;
    static const uint8_t zeros[FAULTY_BYTES];
    uint8_t found[FAULTY_BYTES];
    struct errmsg err;

    faulty_write(f, 1, 1);
    disk_fail(CALL_FALLOCATE, ENOSPC);
    assert_int_equal(store_punch(f->store, faulty_id(1), 100, FAULTY_BYTES - 200, NULL, &err),
                     MORSEL_NOSPC);
    check_old_or_zero(f, 1);
    fixture_crash(f);
    check_old_or_zero(f, 1);
    fixture_close(f);
    fixture_open(f);
    check_old_or_zero(f, 1);
    assert_int_equal(f->lines, 0);
    disk_fail(CALL_FALLOCATE, EOPNOTSUPP); /* Holes cannot be made here: zeros can. */
    assert_int_equal(store_punch(f->store, faulty_id(1), 0, FAULTY_BYTES, NULL, &err), 0);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
    assert_memory_equal(found, zeros, sizeof(found));
    faulty_write(f, 1, 3);
    disk_fail(CALL_PWRITEV, ENOSPC); /* Not even they. */
    atomic_store(&disk.fails_after[CALL_PWRITEV], 1);
    assert_int_equal(store_punch(f->store, faulty_id(1), BLOCK_BYTES, BLOCK_BYTES, NULL, &err),
                     MORSEL_NOSPC);
    disk_reset();
}

static void test_a_truncation_that_fails(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES], found[FAULTY_BYTES];
    struct errmsg err;

    faulty_write(f, 1, 1);
    disk_fail(CALL_FTRUNCATE, EIO);
    assert_int_equal(store_truncate(f->store, faulty_id(1), BLOCK_BYTES + 5, NULL, &err),
                     MORSEL_IO);
    faulty_fill(bytes, sizeof(bytes), 1);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
    assert_memory_equal(found, bytes, sizeof(bytes));
}

/* A write that fails must not make damage look sound. */
static void test_a_write_that_fails_blesses_nothing(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES], found[BLOCK_BYTES];
    char path[512];

    faulty_write(f, 1, 1);
    fixture_close(f);
    fixture_path(f, faulty_id(1), path);
    fixture_flip(path, place_of_byte(BLOCK_BYTES + 17));
    fixture_open(f);
    faulty_fill(bytes, sizeof(bytes), 2);
    disk_fail(CALL_PWRITEV, EIO);
    assert_int_equal(fixture_write(f, faulty_id(1), 0, bytes, sizeof(bytes)), MORSEL_IO);
    assert_int_equal(fixture_write(f, faulty_id(1), BLOCK_BYTES, bytes, BLOCK_BYTES), MORSEL_IO);
    disk_reset();
    assert_int_equal(fixture_read(f, faulty_id(1), BLOCK_BYTES, found, BLOCK_BYTES),
                     MORSEL_CHECKSUM);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, found, BLOCK_BYTES), 0);
    faulty_fill(bytes, sizeof(bytes), 1);
    assert_memory_equal(found, bytes, BLOCK_BYTES);
}

/* Only its header and the last block of data came to the disk before the machine stopped; then the
 * header, too, was lost. It may not count as sound because somebody writes into it. */
static void test_an_object_without_a_header_stays_in_doubt(void **state)
{
    static const uint8_t none[STORE_HEADER_BYTES];
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES], found[STORE_HEADER_BYTES];
    char path[512];
    FILE *file;

    faulty_write(f, 1, 1);
    f->options.boot_id = 2;
    fixture_crash(f);
    fixture_close(f);
    fixture_path(f, faulty_id(1), path);
    file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fwrite(none, 1, sizeof(none), file), sizeof(none));
    fclose(file);
    fixture_open(f);
    faulty_fill(bytes, sizeof(bytes), 2);
    assert_int_equal(fixture_write(f, faulty_id(1), 0, bytes, BLOCK_BYTES), 0);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof(found), file), sizeof(found));
    fclose(file);
    assert_memory_equal(found, none, sizeof(none));
    assert_int_equal(store_checkpoint(f->store, 1000000, NULL), 0); /* Verifies all of it. */
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof(found), file), sizeof(found));
    fclose(file);
    assert_memory_not_equal(found, none, sizeof(none));
}

/* A machine stopped before the length of a new file was on the disk as it was: what is there of the
 * header is a part of it. It was never synced, and stands in nobody's way. */
static void test_an_object_with_a_part_of_its_header_was_never_written(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[BLOCK_BYTES], found[BLOCK_BYTES];
    char path[512];

    faulty_fill(bytes, sizeof(bytes), 2);
    for (off_t length = 1; length < STORE_HEADER_BYTES; length += 31) {
        assert_int_equal(store_allocate(f->store, faulty_id(1), 0, BLOCK_BYTES, NULL, NULL), 0);
        f->options.boot_id++;
        fixture_crash(f);
        fixture_close(f);
        fixture_path(f, faulty_id(1), path);
        assert_int_equal(truncate(path, length), 0);
        fixture_open(f);
        assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
        assert_int_equal(fixture_write(f, faulty_id(1), 0, bytes, sizeof(bytes)), 0);
        fixture_close(f);
        fixture_open(f);
        assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
        assert_memory_equal(found, bytes, sizeof(bytes));
        assert_int_equal(store_delete(f->store, faulty_id(1), NULL), 0);
    }
}

/* Nor does what is left of it stand in the way when the file becomes longer and its process dies
 * before all of it has been verified. */
static void test_an_object_with_a_part_of_its_header_may_become_longer(void **state)
{
    struct store_fixture *f = *state;
    uint8_t found[100], none[sizeof(found)] = { 0 };
    char path[512];

    for (off_t length = 1; length < STORE_HEADER_BYTES; length += 31) {
        assert_int_equal(store_allocate(f->store, faulty_id(1), 0, BLOCK_BYTES, NULL, NULL), 0);
        f->options.boot_id++;
        fixture_crash(f);
        fixture_close(f);
        fixture_path(f, faulty_id(1), path);
        assert_int_equal(truncate(path, length), 0);
        fixture_open(f);
        assert_int_equal(store_truncate(f->store, faulty_id(1), sizeof(found), NULL, NULL), 0);
        fixture_crash(f);
        assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
        assert_memory_equal(found, none, sizeof(found));
        assert_int_equal(store_delete(f->store, faulty_id(1), NULL), 0);
    }
}

/* ---- Too late ---- */

enum change { WRITE, TRUNCATE, PUNCH, ALLOCATE };

struct changer
{
    struct store_fixture *f;
    enum change change;
    uint8_t seed;
    const struct store_gate *gate;
    pthread_t thread;
    _Atomic pid_t tid;
    int status;
};

static void *run_change(void *data)
{
    struct changer *c = data;
    uint8_t bytes[FAULTY_BYTES];
    uint32_t crcs[FAULTY_BYTES / BLOCK_BYTES];

    faulty_fill(bytes, sizeof(bytes), c->seed);
    crc32c_of_pieces(0, bytes, sizeof(bytes), crcs);
    atomic_store(&c->tid, gettid());
    switch (c->change) {
    case WRITE:
        c->status = store_write(c->f->store, faulty_id(1), 0, bytes, FAULTY_BYTES, crcs, false,
                                c->gate, NULL);
        break;
    case TRUNCATE:
        c->status = store_truncate(c->f->store, faulty_id(1), 5, c->gate, NULL);
        break;
    case PUNCH:
        c->status = store_punch(c->f->store, faulty_id(1), 0, FAULTY_BYTES, c->gate, NULL);
        break;
    case ALLOCATE:
        c->status = store_allocate(c->f->store, faulty_id(1), 0, FAULTY_BYTES, c->gate, NULL);
        break;
    }
    return NULL;
}

/* It waits for a lock, the only thing there is to sleep for. */
static void wait_until_asleep(struct changer *c)
{
    char path[64], state = 0;

    while (state != 'S') {
        FILE *file;

        usleep(1000);
        snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&c->tid));
        file = fopen(path, "re");
        if (file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = 0;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
}

static int ask_flag(void *data, struct errmsg *err)
{
    (void)err;
    return atomic_load((atomic_bool *)data) ? MORSEL_TOO_LATE : 0;
}

/* Its time is over while it waits for the object: another one was first, and it must not follow. */
static void test_lateness_is_judged_with_the_object_in_hand(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES], found[FAULTY_BYTES];

    for (enum change change = WRITE; change <= ALLOCATE; change++) {
        atomic_bool late = false;
        struct store_gate gate = { .ask = ask_flag, .data = &late };
        struct changer first = { .f = f, .change = WRITE, .seed = 7 };
        struct changer second = { .f = f, .change = change, .seed = 8, .gate = &gate };

        faulty_write(f, 1, 1);
        disk_reset();
        atomic_store(&disk.hold_writes, true);
        CHECK(pthread_create(&first.thread, NULL, run_change, &first) == 0);
        while (atomic_load(&disk.held_writes) == 0) {
            usleep(100);
        }
        CHECK(pthread_create(&second.thread, NULL, run_change, &second) == 0);
        while (atomic_load(&second.tid) == 0) {
            usleep(100);
        }
        wait_until_asleep(&second);
        atomic_store(&late, true);
        atomic_store(&disk.hold_writes, false);
        CHECK(pthread_join(first.thread, NULL) == 0);
        CHECK(pthread_join(second.thread, NULL) == 0);
        assert_int_equal(first.status, 0);
        assert_int_equal(second.status, MORSEL_TOO_LATE);
        faulty_fill(bytes, sizeof(bytes), 7);
        assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
        assert_memory_equal(found, bytes, sizeof(bytes));
    }
}

/* ---- Free space ---- */

/* What the disk says of its room, in pages; and the thread whose looks at it take until `looks_end`. */
static struct
{
    _Atomic uint64_t pages;
    _Atomic(pthread_t) slow;
    atomic_bool looking, looks_end;
} room;

int __real_fstatvfs(int fd, struct statvfs *out);
int __wrap_fstatvfs(int fd, struct statvfs *out);

int __wrap_fstatvfs(int fd, struct statvfs *out)
{
    int rv = __real_fstatvfs(fd, out);

    if (atomic_load(&room.pages) != 0) {
        out->f_bavail = atomic_load(&room.pages) - 1;
        out->f_frsize = BLOCK_BYTES;
    }
    if (pthread_equal(atomic_load(&room.slow), pthread_self())) {
        atomic_store(&room.looking, true);
        while (!atomic_load(&room.looks_end)) {
            usleep(100);
        }
    }
    return rv;
}

static void *write_slowly(void *data)
{
    atomic_store(&room.slow, pthread_self());
    faulty_write(data, 1, 1);
    atomic_store(&room.looking, true); /* It did not need to look. */
    return NULL;
}

/* Another thread looks at the free space, for the first time of all. */
static void test_nobody_is_refused_while_another_one_looks(void **state)
{
    struct store_fixture *f = *state;
    pthread_t thread;

    fixture_close(f);
    fixture_open(f);
    CHECK(pthread_create(&thread, NULL, write_slowly, f) == 0);
    while (!atomic_load(&room.looking)) {
        usleep(100);
    }
    faulty_write(f, 2, 2);
    atomic_store(&room.looks_end, true);
    CHECK(pthread_join(thread, NULL) == 0);
    memset(&room, 0, sizeof(room));
}

/* What was full a moment ago may have room now. */
static void test_nobody_is_refused_by_an_old_look(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES];

    faulty_fill(bytes, sizeof(bytes), 1);
    fixture_close(f);
    atomic_store(&room.pages, 1); /* None. */
    fixture_open(f);
    assert_int_equal(fixture_write(f, faulty_id(1), 0, bytes, sizeof(bytes)), MORSEL_NOSPC);
    atomic_store(&room.pages, 0);
    assert_int_equal(fixture_write(f, faulty_id(1), 0, bytes, sizeof(bytes)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, faulty_set_up, faulty_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_punch_that_fails),
        TEST(test_a_truncation_that_fails),
        TEST(test_a_write_that_fails_blesses_nothing),
        TEST(test_an_object_without_a_header_stays_in_doubt),
        TEST(test_an_object_with_a_part_of_its_header_may_become_longer),
        TEST(test_an_object_with_a_part_of_its_header_was_never_written),
        TEST(test_lateness_is_judged_with_the_object_in_hand),
        TEST(test_nobody_is_refused_while_another_one_looks),
        TEST(test_nobody_is_refused_by_an_old_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
