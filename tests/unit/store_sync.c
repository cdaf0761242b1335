/* The object store and a disk that fails: which calls reach the disk, what their failures mean, and
 * what a change that fails leaves behind. */
#include "common/check.h"
#include "common/crc32c.h"
#include "common/limits.h"
#include "common/status.h"
#include "common/store_format.h"
#include "tests/lib/store_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The disk ------------------------------------------------------------------------------- */

enum call { CALL_FDATASYNC, CALL_FSYNC, CALL_SYNCFS, CALL_FALLOCATE, CALL_FTRUNCATE, CALL_PWRITEV };
enum { CALLS = 6, PATHS_MAX = 16 };

static struct disk
{
    _Atomic int fails[CALLS];       /* errno of such calls; 0: none. */
    _Atomic int fails_after[CALLS]; /* That many succeed before. */
    _Atomic unsigned calls[CALLS];
    char synced[PATHS_MAX][512]; /* Paths of fsync and fdatasync, in order. */
    unsigned synced_count;
    char only[64]; /* fsync fails only on paths that end so. */
    atomic_bool hold;
    _Atomic unsigned held; /* Calls of fdatasync that wait for `hold` to end. */
    atomic_bool hold_writes;
    _Atomic unsigned held_writes; /* Likewise of pwritev. */
} disk;

static void disk_reset(void)
{
    memset(&disk, 0, sizeof(disk));
}

static void disk_fail(enum call call, int code)
{
    atomic_store(&disk.fails[call], code);
}

/* Take note; true when the call is to fail, with errno. */
static bool disk_says_no(enum call call)
{
    int code = atomic_load(&disk.fails[call]);

    atomic_fetch_add(&disk.calls[call], 1);
    if (code == 0 || atomic_fetch_sub(&disk.fails_after[call], 1) > 0) {
        return false;
    }
    errno = code;
    return true;
}

static bool path_of(int fd, char path[512])
{
    char link[64];
    ssize_t count;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    count = readlink(link, path, 511);
    path[count > 0 ? count : 0] = 0;
    return count > 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);

    return a >= b && strcmp(text + a - b, end) == 0;
}

static void note_path(int fd)
{
    if (disk.synced_count < PATHS_MAX && path_of(fd, disk.synced[disk.synced_count])) {
        disk.synced_count++;
    }
}

static bool was_synced(const char *end)
{
    for (unsigned i = 0; i < disk.synced_count; i++) {
        if (ends_with(disk.synced[i], end)) {
            return true;
        }
    }
    return false;
}

static unsigned waits_for_disk(void)
{
    return disk.calls[CALL_FDATASYNC] + disk.calls[CALL_FSYNC] + disk.calls[CALL_SYNCFS];
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __real_fallocate(int fd, int mode, off_t place, off_t length);
int __wrap_fallocate(int fd, int mode, off_t place, off_t length);
int __real_ftruncate(int fd, off_t length);
int __wrap_ftruncate(int fd, off_t length);
ssize_t __real_pwritev(int fd, const struct iovec *vectors, int count, off_t place);
ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t place);

/* As the kernel does it, an error is told once. */
int __wrap_fdatasync(int fd)
{
    note_path(fd);
    if (atomic_load(&disk.hold)) {
        atomic_fetch_add(&disk.held, 1);
        while (atomic_load(&disk.hold)) {
            usleep(100);
        }
    }
    if (disk_says_no(CALL_FDATASYNC)) {
        atomic_store(&disk.fails[CALL_FDATASYNC], 0);
        return -1;
    }
    return __real_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
    char path[512] = "";

    note_path(fd);
    if ((disk.only[0] == 0 || (path_of(fd, path) && ends_with(path, disk.only))) &&
        disk_says_no(CALL_FSYNC)) {
        return -1;
    }
    return __real_fsync(fd);
}

int __wrap_syncfs(int fd)
{
    if (disk_says_no(CALL_SYNCFS)) {
        atomic_store(&disk.fails[CALL_SYNCFS], 0);
        return -1;
    }
    return __real_syncfs(fd);
}

int __wrap_fallocate(int fd, int mode, off_t place, off_t length)
{
    return disk_says_no(CALL_FALLOCATE) ? -1 : __real_fallocate(fd, mode, place, length);
}

int __wrap_ftruncate(int fd, off_t length)
{
    return disk_says_no(CALL_FTRUNCATE) ? -1 : __real_ftruncate(fd, length);
}

ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t place)
{
    if (atomic_load(&disk.hold_writes)) {
        atomic_fetch_add(&disk.held_writes, 1);
        while (atomic_load(&disk.hold_writes)) {
            usleep(100);
        }
    }
    return disk_says_no(CALL_PWRITEV) ? -1 : __real_pwritev(fd, vectors, count, place);
}

/* ---- What every test begins with --------------------------------------------------------------
 */

enum { BYTES = 3 * BLOCK_BYTES };

static struct object_id id_of(uint64_t inode)
{
    return (struct object_id){ .inode = inode, .column = 0 };
}

static void fill(uint8_t *bytes, size_t count, uint8_t seed)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
    }
}

static void write_object(struct store_fixture *f, uint64_t inode, uint8_t seed)
{
    uint8_t bytes[BYTES];

    fill(bytes, sizeof(bytes), seed);
    assert_int_equal(fixture_write(f, id_of(inode), 0, bytes, sizeof(bytes)), 0);
}

static int sync_object(struct store_fixture *f, uint64_t inode)
{
    struct errmsg err = { "" };

    return store_sync(f->store, id_of(inode), &err);
}

/* So many others that `inode` leaves the table. */
static void evict(struct store_fixture *f)
{
    struct store_stat stat;

    for (uint64_t other = 1000; other < 1000 + 2 * f->options.open_files_max; other++) {
        assert_int_equal(store_stat(f->store, id_of(other), &stat, NULL), 0);
    }
}

static int set_up(void **state)
{
    static struct store_fixture f;

    disk_reset();
    fixture_init(&f);
    f.options.open_files_max = 16;
    fixture_open(&f);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    disk_reset();
    fixture_free(*state);
    return 0;
}

/* What DIR/epochs says behind `key`. */
static void record_value(const struct store_fixture *f, const char *key, char value[64])
{
    char path[512], line[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/epochs", f->dir);
    file = fopen(path, "re");
    assert_non_null(file);
    value[0] = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0 && strncmp(line + strlen(key), " = ", 3) == 0) {
            snprintf(value, 64, "%s", line + strlen(key) + 3);
            value[strcspn(value, "\n")] = 0;
        }
    }
    fclose(file);
}

/* ---- What is synced ------------------------------------------------------------------------- */

static void test_a_sync_reaches_file_and_directories(void **state)
{
    struct store_fixture *f = *state;
    char path[512];

    write_object(f, 1, 1);
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    fixture_path(f, id_of(1), path);
    assert_true(was_synced(path + strlen(f->dir)));
    *strrchr(path, '/') = 0;
    assert_true(was_synced(path + strlen(f->dir))); /* The object's name. */
    assert_true(was_synced("/objects"));            /* The directory's name. */
    disk_reset();
    write_object(f, 1, 2);
    assert_int_equal(sync_object(f, 1), 0);
    assert_int_equal(waits_for_disk(), 1); /* The names are there by now. */
}

/* Object 2 comes into a directory that is there, but whose name nobody has synced yet. */
static void test_the_name_of_a_directory_is_synced_by_whoever_needs_it(void **state)
{
    struct store_fixture *f = *state;
    char path[512], other[512];
    uint64_t inode = 2;

    write_object(f, 1, 1);
    fixture_path(f, id_of(1), path);
    for (;; inode++) {
        fixture_path(f, id_of(inode), other);
        if (strncmp(path, other, (size_t)(strrchr(path, '/') - path)) == 0) {
            break;
        }
    }
    write_object(f, inode, 1);
    disk_reset();
    assert_int_equal(sync_object(f, inode), 0);
    assert_true(was_synced("/objects"));
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    assert_false(was_synced("/objects"));
}

static void test_what_is_clean_costs_no_call(void **state)
{
    struct store_fixture *f = *state;

    write_object(f, 1, 1);
    write_object(f, 2, 1);
    assert_int_equal(sync_object(f, 1), 0);
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    assert_int_equal(sync_object(f, 77), 0); /* Does not exist. */
    assert_int_equal(waits_for_disk(), 0);
    evict(f);
    assert_int_equal(sync_object(f, 2), 0); /* Nobody synced that one. */
    assert_true(waits_for_disk() > 0);
    for (int i = 0; i < 3; i++) {
        write_object(f, 3, (uint8_t)i);
        assert_int_equal(store_settle(f->store, 0, NULL), 0);
    }
    evict(f);
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    assert_int_equal(sync_object(f, 2), 0);
    assert_int_equal(waits_for_disk(), 0);
    evict(f);
    assert_int_equal(sync_object(f, 3), 0); /* Changed a moment ago. */
    assert_true(waits_for_disk() > 0);
    fixture_close(f);
    fixture_open(f);
    disk_reset();
    assert_int_equal(sync_object(f, 3), 0); /* The last run ended in order. */
    assert_int_equal(waits_for_disk(), 0);
    write_object(f, 3, 9);
    fixture_crash(f);
    disk_reset();
    assert_int_equal(sync_object(f, 3), 0); /* This one did not. */
    assert_true(waits_for_disk() > 0);
}

/* ---- The verifier --------------------------------------------------------------------------- */

static void test_verifier_stays_while_nothing_is_lost(void **state)
{
    struct store_fixture *f = *state;
    uint64_t first = store_verifier(f->store);

    assert_true(first != 0);
    write_object(f, 1, 1);
    assert_int_equal(store_settle(f->store, 0, NULL), 0);
    assert_true(store_verifier(f->store) == first);
    fixture_close(f);
    fixture_open(f);
    assert_true(store_verifier(f->store) == first);
    write_object(f, 1, 2);
    fixture_crash(f); /* The same boot: the kernel has it all. */
    assert_true(store_verifier(f->store) == first);
    fixture_close(f);
    f->options.boot_id = 2; /* After an orderly end. */
    fixture_open(f);
    assert_true(store_verifier(f->store) == first);
    f->options.boot_id = 3;
    fixture_crash(f);
    assert_true(store_verifier(f->store) != first);
}

static void test_verifier_changes_with_the_record(void **state)
{
    struct store_fixture *f = *state;
    uint64_t first = store_verifier(f->store);
    char command[600];

    write_object(f, 1, 1);
    fixture_close(f);
    snprintf(command, sizeof(command), "rm '%s/epochs'", f->dir);
    assert_int_equal(system(command), 0);
    fixture_open(f);
    assert_true(store_verifier(f->store) != first);
}

/* A program from before there was a verifier wrote the record. */
static void test_verifier_of_an_older_record(void **state)
{
    static const char text[] = "format = 1\nboot = 0000000000000001\ncurrent = 900\ndurable = 900\n"
                               "closed = 1\nobjects = 0\n";
    struct store_fixture *f = *state;
    uint64_t first;
    char path[512];
    FILE *file;

    fixture_close(f);
    snprintf(path, sizeof(path), "%s/epochs", f->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%scheck = %08x\n", text, crc32c(0, text, strlen(text)));
    fclose(file);
    fixture_open(f);
    first = store_verifier(f->store);
    assert_true(first != 0);
    fixture_close(f);
    fixture_open(f);
    assert_true(store_verifier(f->store) == first);
}

/* ---- A sync fails --------------------------------------------------------------------------- */

/* After the first failure: told to whoever syncs, remembered, and not vouched for. */
static void expect_failed(struct store_fixture *f, uint64_t inode, uint64_t before)
{
    struct errmsg words = { "" };
    char closed[64], durable[64], durable_later[64];
    uint64_t during = store_verifier(f->store);

    assert_true(during != before);
    assert_true(store_disk_failed(f->store, &words));
    assert_non_null(strstr(words.text, "Input/output error"));
    assert_int_equal(sync_object(f, inode), MORSEL_IO);
    record_value(f, "durable", durable);
    write_object(f, 50, 1);
    for (int i = 0; i < 4; i++) {
        (void)store_settle(f->store, 0, NULL);
    }
    record_value(f, "durable", durable_later);
    assert_string_equal(durable, durable_later);
    evict(f);
    assert_int_equal(sync_object(f, inode), MORSEL_IO);
    assert_true(store_verifier(f->store) == during);
    fixture_close(f);
    record_value(f, "closed", closed);
    assert_string_equal(closed, "0");
    fixture_open(f); /* The same boot. */
    assert_true(store_verifier(f->store) != before && store_verifier(f->store) != during);
    assert_false(store_disk_failed(f->store, &words));
    assert_int_equal(sync_object(f, inode), 0);
}

static void test_fdatasync_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);

    write_object(f, 1, 1);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    expect_failed(f, 1, before);
}

static void test_syncfs_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);
    struct errmsg err = { "" };

    write_object(f, 1, 1);
    evict(f); /* What the disk loses of it nobody is told but syncfs(). */
    disk_fail(CALL_SYNCFS, EIO);
    assert_int_equal(store_settle(f->store, 0, &err), MORSEL_IO);
    expect_failed(f, 1, before);
}

/* The file was out of the table: the kernel may have forgotten its error with it. */
static void test_sync_of_what_nobody_watched_asks_the_file_system(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);

    write_object(f, 1, 1);
    evict(f);
    disk_fail(CALL_SYNCFS, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    expect_failed(f, 1, before);
}

static void test_sync_of_a_directory_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);

    write_object(f, 1, 1);
    snprintf(disk.only, sizeof(disk.only), "/objects");
    disk_fail(CALL_FSYNC, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    disk_fail(CALL_FSYNC, 0);
    assert_true(store_verifier(f->store) != before);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
}

/* An object that is vouched for gets its new epoch flushed before the change. */
static void test_flush_of_a_header_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);
    uint8_t bytes[BYTES], found[BYTES];

    write_object(f, 1, 1);
    for (int i = 0; i < 4; i++) {
        write_object(f, 2, (uint8_t)i);
        assert_int_equal(store_settle(f->store, 0, NULL), 0);
    }
    fill(bytes, sizeof(bytes), 2);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(fixture_write(f, id_of(1), 0, bytes, sizeof(bytes)), MORSEL_IO);
    fill(bytes, sizeof(bytes), 1);
    assert_int_equal(fixture_read(f, id_of(1), 0, found, sizeof(found)), 0);
    assert_memory_equal(found, bytes, sizeof(bytes));
    expect_failed(f, 1, before);
}

/* The record cannot be written either: nobody is told that anything is on disk until it can. */
static void test_a_failure_that_cannot_be_noted(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store), during;

    write_object(f, 1, 1);
    write_object(f, 2, 1);
    snprintf(disk.only, sizeof(disk.only), "/epochs.tmp");
    disk_fail(CALL_FSYNC, EIO);
    disk_fail(CALL_FDATASYNC, EIO);
    disk_fail(CALL_FTRUNCATE, EROFS); /* And not over the old record either. */
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    during = store_verifier(f->store);
    assert_true(during != before);
    assert_int_equal(sync_object(f, 2), MORSEL_IO);
    disk_fail(CALL_FSYNC, 0);
    disk_fail(CALL_FTRUNCATE, 0);
    assert_int_equal(sync_object(f, 2), 0);
    assert_true(store_verifier(f->store) == during);
    write_object(f, 1, 2);
    fixture_crash(f); /* The same boot. */
    assert_true(store_verifier(f->store) != before && store_verifier(f->store) != during);
}

/* ... and the process is killed before it can: what the kernel was told is enough for this boot. */
static void test_a_failure_that_is_only_in_the_kernel(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store), during;

    write_object(f, 1, 1);
    disk_fail(CALL_FSYNC, EIO);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    during = store_verifier(f->store);
    disk_fail(CALL_FSYNC, 0);
    fixture_crash(f);
    assert_true(store_verifier(f->store) != before && store_verifier(f->store) != during);
}

struct syncer
{
    struct store_fixture *f;
    pthread_t thread;
    int status;
};

static void *run_sync(void *data)
{
    struct syncer *s = data;

    s->status = sync_object(s->f, 1);
    return NULL;
}

/* The kernel tells an error to one of two that sync one file at the same time. */
static void test_two_syncs_at_once_both_hear_of_a_failure(void **state)
{
    struct store_fixture *f = *state;
    struct syncer syncers[4];

    write_object(f, 1, 1);
    disk_fail(CALL_FDATASYNC, EIO);
    atomic_store(&disk.hold, true);
    for (int i = 0; i < 4; i++) {
        syncers[i] = (struct syncer){ .f = f };
        CHECK(pthread_create(&syncers[i].thread, NULL, run_sync, &syncers[i]) == 0);
    }
    while (atomic_load(&disk.held) == 0) {
        usleep(100);
    }
    atomic_store(&disk.hold, false);
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(syncers[i].thread, NULL) == 0);
        assert_int_equal(syncers[i].status, MORSEL_IO);
    }
}

/* ---- A change fails ------------------------------------------------------------------------- */

/* Each byte is what it was or what it was to be, and none of them is damage. */
static void check_old_or_zero(struct store_fixture *f, uint8_t seed)
{
    uint8_t bytes[BYTES], found[BYTES];

    fill(bytes, sizeof(bytes), seed);
    assert_int_equal(fixture_read(f, id_of(1), 0, found, sizeof(found)), 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_true(found[i] == bytes[i] || found[i] == 0);
    }
}

static void test_a_punch_that_fails(void **state)
{
    struct store_fixture *f = *state;
    static const uint8_t zeros[BYTES];
    uint8_t found[BYTES];
    struct errmsg err;

    write_object(f, 1, 1);
    disk_fail(CALL_FALLOCATE, ENOSPC);
    assert_int_equal(store_punch(f->store, id_of(1), 100, BYTES - 200, NULL, &err), MORSEL_NOSPC);
    check_old_or_zero(f, 1);
    fixture_crash(f);
    check_old_or_zero(f, 1);
    fixture_close(f);
    fixture_open(f);
    check_old_or_zero(f, 1);
    assert_int_equal(f->lines, 0);
    disk_fail(CALL_FALLOCATE, EOPNOTSUPP); /* Holes cannot be made here: zeros can. */
    assert_int_equal(store_punch(f->store, id_of(1), 0, BYTES, NULL, &err), 0);
    assert_int_equal(fixture_read(f, id_of(1), 0, found, sizeof(found)), 0);
    assert_memory_equal(found, zeros, sizeof(found));
    write_object(f, 1, 3);
    disk_fail(CALL_PWRITEV, ENOSPC); /* Not even they. */
    atomic_store(&disk.fails_after[CALL_PWRITEV], 1);
    assert_int_equal(store_punch(f->store, id_of(1), BLOCK_BYTES, BLOCK_BYTES, NULL, &err),
                     MORSEL_NOSPC);
    disk_reset();
}

static void test_a_truncation_that_fails(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[BYTES], found[BYTES];
    struct errmsg err;

    write_object(f, 1, 1);
    disk_fail(CALL_FTRUNCATE, EIO);
    assert_int_equal(store_truncate(f->store, id_of(1), BLOCK_BYTES + 5, NULL, &err), MORSEL_IO);
    fill(bytes, sizeof(bytes), 1);
    assert_int_equal(fixture_read(f, id_of(1), 0, found, sizeof(found)), 0);
    assert_memory_equal(found, bytes, sizeof(bytes));
}

/* A write that fails must not make damage look sound. */
static void test_a_write_that_fails_blesses_nothing(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[BYTES], found[BLOCK_BYTES];
    char path[512];

    write_object(f, 1, 1);
    fixture_close(f);
    fixture_path(f, id_of(1), path);
    fixture_flip(path, place_of_byte(BLOCK_BYTES + 17));
    fixture_open(f);
    fill(bytes, sizeof(bytes), 2);
    disk_fail(CALL_PWRITEV, EIO);
    assert_int_equal(fixture_write(f, id_of(1), 0, bytes, sizeof(bytes)), MORSEL_IO);
    assert_int_equal(fixture_write(f, id_of(1), BLOCK_BYTES, bytes, BLOCK_BYTES), MORSEL_IO);
    disk_reset();
    assert_int_equal(fixture_read(f, id_of(1), BLOCK_BYTES, found, BLOCK_BYTES), MORSEL_CHECKSUM);
    assert_int_equal(fixture_read(f, id_of(1), 0, found, BLOCK_BYTES), 0);
    fill(bytes, sizeof(bytes), 1);
    assert_memory_equal(found, bytes, BLOCK_BYTES);
}

/* Only its header and the last block of data came to the disk before the machine stopped; then the
 * header, too, was lost. It may not count as sound because somebody writes into it. */
static void test_an_object_without_a_header_stays_in_doubt(void **state)
{
    static const uint8_t none[STORE_HEADER_BYTES];
    struct store_fixture *f = *state;
    uint8_t bytes[BYTES], found[STORE_HEADER_BYTES];
    char path[512];
    FILE *file;

    write_object(f, 1, 1);
    f->options.boot_id = 2;
    fixture_crash(f);
    fixture_close(f);
    fixture_path(f, id_of(1), path);
    file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fwrite(none, 1, sizeof(none), file), sizeof(none));
    fclose(file);
    fixture_open(f);
    fill(bytes, sizeof(bytes), 2);
    assert_int_equal(fixture_write(f, id_of(1), 0, bytes, BLOCK_BYTES), 0);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof(found), file), sizeof(found));
    fclose(file);
    assert_memory_equal(found, none, sizeof(none));
    assert_int_equal(store_settle(f->store, 1000000, NULL), 0); /* Verifies all of it. */
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof(found), file), sizeof(found));
    fclose(file);
    assert_memory_not_equal(found, none, sizeof(none));
}

/* ---- Too late ------------------------------------------------------------------------------- */

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
    uint8_t bytes[BYTES];
    uint32_t crcs[BYTES / BLOCK_BYTES];

    fill(bytes, sizeof(bytes), c->seed);
    crc32c_of_pieces(0, bytes, sizeof(bytes), crcs);
    atomic_store(&c->tid, gettid());
    switch (c->change) {
    case WRITE:
        c->status = store_write(c->f->store, id_of(1), 0, bytes, BYTES, crcs, false, c->gate, NULL);
        break;
    case TRUNCATE:
        c->status = store_truncate(c->f->store, id_of(1), 5, c->gate, NULL);
        break;
    case PUNCH:
        c->status = store_punch(c->f->store, id_of(1), 0, BYTES, c->gate, NULL);
        break;
    case ALLOCATE:
        c->status = store_allocate(c->f->store, id_of(1), 0, BYTES, c->gate, NULL);
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
    uint8_t bytes[BYTES], found[BYTES];

    for (enum change change = WRITE; change <= ALLOCATE; change++) {
        atomic_bool late = false;
        struct store_gate gate = { .ask = ask_flag, .data = &late };
        struct changer first = { .f = f, .change = WRITE, .seed = 7 };
        struct changer second = { .f = f, .change = change, .seed = 8, .gate = &gate };

        write_object(f, 1, 1);
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
        fill(bytes, sizeof(bytes), 7);
        assert_int_equal(fixture_read(f, id_of(1), 0, found, sizeof(found)), 0);
        assert_memory_equal(found, bytes, sizeof(bytes));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_sync_reaches_file_and_directories),
        TEST(test_the_name_of_a_directory_is_synced_by_whoever_needs_it),
        TEST(test_what_is_clean_costs_no_call),
        TEST(test_verifier_stays_while_nothing_is_lost),
        TEST(test_verifier_changes_with_the_record),
        TEST(test_verifier_of_an_older_record),
        TEST(test_fdatasync_fails),
        TEST(test_syncfs_fails),
        TEST(test_sync_of_what_nobody_watched_asks_the_file_system),
        TEST(test_sync_of_a_directory_fails),
        TEST(test_flush_of_a_header_fails),
        TEST(test_a_failure_that_cannot_be_noted),
        TEST(test_a_failure_that_is_only_in_the_kernel),
        TEST(test_two_syncs_at_once_both_hear_of_a_failure),
        TEST(test_a_punch_that_fails),
        TEST(test_a_truncation_that_fails),
        TEST(test_a_write_that_fails_blesses_nothing),
        TEST(test_an_object_without_a_header_stays_in_doubt),
        TEST(test_lateness_is_judged_with_the_object_in_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
