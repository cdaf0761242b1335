/* The object store and a disk that fails a sync: which calls wait for the disk, what their failures
 * mean, and the verifier. */
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
#include <unistd.h>

#include <cmocka.h>

static int sync_object(struct store_fixture *f, uint64_t inode)
{
    struct errmsg err = { "" };

    return store_sync(f->store, faulty_id(inode), &err);
}

/* So many others that `inode` leaves the table. */
static void evict(struct store_fixture *f)
{
    struct store_stat stat;

    for (uint64_t other = 1000; other < 1000 + 2 * f->options.open_files_max; other++) {
        assert_int_equal(store_stat(f->store, faulty_id(other), &stat, NULL), 0);
    }
}

/* What DIR/checkpoints says behind `key`. */
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

/* ---- What is synced ---- */

static void test_a_sync_reaches_file_and_directories(void **state)
{
    struct store_fixture *f = *state;
    char path[512];

    faulty_write(f, 1, 1);
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    fixture_path(f, faulty_id(1), path);
    assert_true(disk_was_synced(path + strlen(f->dir)));
    *strrchr(path, '/') = 0;
    assert_true(disk_was_synced(path + strlen(f->dir))); /* The object's name. */
    assert_true(disk_was_synced("/objects"));            /* The directory's name. */
    disk_reset();
    faulty_write(f, 1, 2);
    assert_int_equal(sync_object(f, 1), 0);
    assert_int_equal(disk_waits(), 1); /* The names are there by now. */
}

/* What is deleted must not come back with the power: a few names by their directories, many by one look at the tree. */
static void test_deletions_are_synced(void **state)
{
    struct store_fixture *f = *state;
    struct errmsg err = { "" };
    char path[512];

    faulty_write(f, 1, 1);
    assert_int_equal(sync_object(f, 1), 0);
    fixture_path(f, faulty_id(1), path);
    *strrchr(path, '/') = 0;
    assert_int_equal(store_delete(f->store, faulty_id(1), &err), 0);
    disk_reset();
    assert_int_equal(store_sync_deletions(f->store, &err), 0);
    assert_true(disk_was_synced(path + strlen(f->dir)));
    disk_reset();
    assert_int_equal(store_sync_deletions(f->store, &err), 0);
    assert_int_equal(disk_waits(), 0); /* Once. */
    for (uint64_t inode = 1; inode <= 64; inode++) {
        faulty_write(f, inode, 1);
        assert_int_equal(store_delete(f->store, faulty_id(inode), &err), 0);
    }
    disk_reset();
    assert_int_equal(store_sync_deletions(f->store, &err), 0);
    assert_int_equal(disk_waits(), 1);
    assert_int_equal(atomic_load(&disk.calls[CALL_SYNCFS]), 1);
    assert_int_equal(store_delete(f->store, faulty_id(2000), &err), 0); /* It was never there. */
    disk_reset();
    faulty_write(f, 1, 1);
    assert_int_equal(store_delete(f->store, faulty_id(1), &err), 0);
    disk_fail(CALL_FSYNC, EIO);
    assert_int_equal(store_sync_deletions(f->store, &err), MORSEL_IO);
}

/* Object 2 comes into a directory that is there, but whose name nobody has synced yet. */
static void test_the_name_of_a_directory_is_synced_by_whoever_needs_it(void **state)
{
    struct store_fixture *f = *state;
    char path[512], other[512];
    uint64_t inode = 2;

    faulty_write(f, 1, 1);
    fixture_path(f, faulty_id(1), path);
    for (;; inode++) {
        fixture_path(f, faulty_id(inode), other);
        if (strncmp(path, other, (size_t)(strrchr(path, '/') - path)) == 0) {
            break;
        }
    }
    faulty_write(f, inode, 1);
    disk_reset();
    assert_int_equal(sync_object(f, inode), 0);
    assert_true(disk_was_synced("/objects"));
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    assert_false(disk_was_synced("/objects"));
}

static void test_what_is_clean_costs_no_call(void **state)
{
    struct store_fixture *f = *state;

    faulty_write(f, 1, 1);
    faulty_write(f, 2, 1);
    assert_int_equal(sync_object(f, 1), 0);
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    assert_int_equal(sync_object(f, 77), 0); /* Does not exist. */
    assert_int_equal(disk_waits(), 0);
    evict(f);
    assert_int_equal(sync_object(f, 2), 0); /* Nobody synced that one. */
    assert_true(disk_waits() > 0);
    for (int i = 0; i < 3; i++) {
        faulty_write(f, 3, (uint8_t)i);
        assert_int_equal(store_checkpoint(f->store, 0, NULL), 0);
    }
    evict(f);
    disk_reset();
    assert_int_equal(sync_object(f, 1), 0);
    assert_int_equal(sync_object(f, 2), 0);
    assert_int_equal(disk_waits(), 0);
    evict(f);
    assert_int_equal(sync_object(f, 3), 0); /* Changed a moment ago. */
    assert_true(disk_waits() > 0);
    fixture_close(f);
    fixture_open(f);
    disk_reset();
    assert_int_equal(sync_object(f, 3), 0); /* The last run ended in order. */
    assert_int_equal(disk_waits(), 0);
    faulty_write(f, 3, 9);
    fixture_crash(f);
    disk_reset();
    assert_int_equal(sync_object(f, 3), 0); /* This one did not. */
    assert_true(disk_waits() > 0);
}

/* ---- The verifier ---- */

static void test_verifier_stays_while_nothing_is_lost(void **state)
{
    struct store_fixture *f = *state;
    uint64_t first = store_verifier(f->store);

    assert_true(first != 0);
    faulty_write(f, 1, 1);
    assert_int_equal(store_checkpoint(f->store, 0, NULL), 0);
    assert_true(store_verifier(f->store) == first);
    fixture_close(f);
    fixture_open(f);
    assert_true(store_verifier(f->store) == first);
    faulty_write(f, 1, 2);
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

    faulty_write(f, 1, 1);
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

/* What a later sync of the same boot says is no news of what was written before. */
static void test_loss_is_another_one_behind_a_failed_sync(void **state)
{
    struct store_fixture *f = *state;
    uint64_t first = store_loss(f->store);
    uint64_t second;

    faulty_write(f, 1, 1);
    fixture_crash(f);
    assert_true(store_loss(f->store) == first);
    faulty_write(f, 1, 1);
    disk_fail(CALL_SYNCFS, EIO);
    assert_int_equal(store_checkpoint(f->store, 0, NULL), MORSEL_IO);
    assert_true(store_loss(f->store) == first); /* Of this run whoever was told knows. */
    fixture_crash(f);
    second = store_loss(f->store);
    assert_true(second != first);
    fixture_crash(f);
    assert_true(store_loss(f->store) == second);
    f->options.boot_id += 77;
    fixture_crash(f);
    assert_true(store_loss(f->store) != second && store_loss(f->store) != first);
}

/* ---- A sync fails ---- */

/* After the first failure: told to whoever syncs, remembered, and not covered by a checkpoint. */
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
    faulty_write(f, 50, 1);
    for (int i = 0; i < 4; i++) {
        (void)store_checkpoint(f->store, 0, NULL);
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

    faulty_write(f, 1, 1);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    expect_failed(f, 1, before);
}

static void test_syncfs_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);
    struct errmsg err = { "" };

    faulty_write(f, 1, 1);
    evict(f); /* What the disk loses of it nobody is told but syncfs(). */
    disk_fail(CALL_SYNCFS, EIO);
    assert_int_equal(store_checkpoint(f->store, 0, &err), MORSEL_IO);
    expect_failed(f, 1, before);
}

/* The file was out of the table: the kernel may have forgotten its error with it. */
static void test_sync_of_what_nobody_watched_asks_the_file_system(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);

    faulty_write(f, 1, 1);
    evict(f);
    disk_fail(CALL_SYNCFS, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    expect_failed(f, 1, before);
}

static void test_sync_of_a_directory_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);

    faulty_write(f, 1, 1);
    snprintf(disk.only, sizeof(disk.only), "/objects");
    disk_fail(CALL_FSYNC, EIO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    disk_fail(CALL_FSYNC, 0);
    assert_true(store_verifier(f->store) != before);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
}

/* An object that is covered by a checkpoint gets its new checkpoint flushed before the change. */
static void test_flush_of_a_header_fails(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);
    uint8_t bytes[FAULTY_BYTES], found[FAULTY_BYTES];

    faulty_write(f, 1, 1);
    for (int i = 0; i < 4; i++) {
        faulty_write(f, 2, (uint8_t)i);
        assert_int_equal(store_checkpoint(f->store, 0, NULL), 0);
    }
    faulty_fill(bytes, sizeof(bytes), 2);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(fixture_write(f, faulty_id(1), 0, bytes, sizeof(bytes)), MORSEL_IO);
    faulty_fill(bytes, sizeof(bytes), 1);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, found, sizeof(found)), 0);
    assert_memory_equal(found, bytes, sizeof(bytes));
    expect_failed(f, 1, before);
}

/* The record cannot be written either: nobody is told that anything is on disk until it can. */
static void test_a_failure_that_cannot_be_noted(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store), during;

    faulty_write(f, 1, 1);
    faulty_write(f, 2, 1);
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
    faulty_write(f, 1, 2);
    fixture_crash(f); /* The same boot. */
    assert_true(store_verifier(f->store) != before && store_verifier(f->store) != during);
}

/* ... and the process is killed before it can: what the kernel was told is enough for this boot. */
static void test_a_failure_that_is_only_in_the_kernel(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store), during;

    faulty_write(f, 1, 1);
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

    faulty_write(f, 1, 1);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, faulty_set_up, faulty_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_sync_reaches_file_and_directories),
        TEST(test_deletions_are_synced),
        TEST(test_the_name_of_a_directory_is_synced_by_whoever_needs_it),
        TEST(test_what_is_clean_costs_no_call),
        TEST(test_verifier_stays_while_nothing_is_lost),
        TEST(test_verifier_changes_with_the_record),
        TEST(test_verifier_of_an_older_record),
        TEST(test_fdatasync_fails),
        TEST(test_loss_is_another_one_behind_a_failed_sync),
        TEST(test_syncfs_fails),
        TEST(test_sync_of_what_nobody_watched_asks_the_file_system),
        TEST(test_sync_of_a_directory_fails),
        TEST(test_flush_of_a_header_fails),
        TEST(test_a_failure_that_cannot_be_noted),
        TEST(test_a_failure_that_is_only_in_the_kernel),
        TEST(test_two_syncs_at_once_both_hear_of_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
