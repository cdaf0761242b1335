/* The object store on somebody else's disk: what it takes of it, exactly; that it syncs its own files only; and what it
 * believes behind a loss of power. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store_file.h"
#include "common/store/store_format.h"
#include "tests/lib/faulty_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECT_COUNTS = FAULTY_BYTES + CHECKSUMS_PAGE_BYTES };

static int begin(void **state)
{
    struct store_fixture *f;

    faulty_set_up(state);
    f = *state;
    fixture_close(f);
    f->options.shared_disk = true;
    fixture_open(f);
    return 0;
}

static int sync_object(struct store_fixture *f, uint64_t inode)
{
    struct errmsg err = { "" };

    return store_sync(f->store, faulty_id(inode), &err);
}

/* So many others that what is open leaves the table. */
static void evict(struct store_fixture *f)
{
    struct store_stat stat;

    for (uint64_t other = 1000; other < 1000 + 2 * f->options.open_files_max; other++) {
        assert_int_equal(store_stat(f->store, faulty_id(other), &stat, NULL), 0);
    }
}

static size_t take_stock(struct store_fixture *f)
{
    struct object_list list = { .ids = NULL };
    struct errmsg err = { "" };

    store_begin_stock(f->store);
    for (uint32_t step = 0; step < STORE_STOCK_STEPS; step++) {
        assert_int_equal(store_take_stock(f->store, step, &list, &err), 0);
    }
    free(list.ids);
    return list.count;
}

static int write_bytes(struct store_fixture *f, uint64_t inode, uint64_t offset, size_t length)
{
    static const uint8_t bytes[1 << 20];

    return fixture_write(f, faulty_id(inode), offset, bytes, length);
}

static void flip(struct store_fixture *f, uint64_t inode, uint64_t place)
{
    char path[512];

    fixture_path(f, faulty_id(inode), path);
    fixture_flip(path, place);
}

/* ---- What it takes ---- */

static void what_objects_take_is_known(void **state)
{
    struct store_fixture *f = *state;
    struct errmsg err = { "" };

    assert_int_equal(take_stock(f), 0);
    assert_int_equal(store_used(f->store), 0);
    faulty_write(f, 1, 1);
    assert_int_equal(store_used(f->store), OBJECT_COUNTS);
    faulty_write(f, 1, 2); /* Over it. */
    assert_int_equal(store_used(f->store), OBJECT_COUNTS);
    assert_int_equal(write_bytes(f, 2, 0, 1), 0);
    assert_int_equal(store_used(f->store), OBJECT_COUNTS + 8192);
    assert_int_equal(write_bytes(f, 2, 1, 4095), 0);
    assert_int_equal(store_used(f->store), OBJECT_COUNTS + 8192);
    assert_int_equal(write_bytes(f, 2, GROUP_BYTES, 1), 0); /* Another page of checksums. */
    assert_int_equal(store_used(f->store), OBJECT_COUNTS + 4096 + GROUP_BYTES + 8192);
    evict(f);
    assert_int_equal(store_delete(f->store, faulty_id(2), &err), 0);
    assert_int_equal(store_delete(f->store, faulty_id(2), &err), 0);
    assert_int_equal(store_used(f->store), OBJECT_COUNTS);
    assert_int_equal(take_stock(f), 1);
    assert_int_equal(store_used(f->store), OBJECT_COUNTS);
}

/* What a write that failed has made, and nobody has filled: stock-taking would. */
static void delete_if_empty(struct store_fixture *f, uint64_t inode)
{
    struct store_stat stat;

    assert_int_equal(store_stat(f->store, faulty_id(inode), &stat, NULL), 0);
    if (stat.size == 0) {
        assert_int_equal(store_delete(f->store, faulty_id(inode), NULL), 0);
    }
}

/* Of drawn changes, deletions and failures: always what stock-taking says. */
static void it_is_what_stock_taking_says(void **state)
{
    struct store_fixture *f = *state;
    struct errmsg err = { "" };
    struct prng prng;

    prng_seed(&prng, 7);
    store_begin_stock(f->store);
    for (unsigned i = 0; i < 600; i++) {
        uint64_t inode = prng_below(&prng, 40) + 1, used;

        switch (prng_below(&prng, 8)) {
        case 0:
            assert_int_equal(store_delete(f->store, faulty_id(inode), &err), 0);
            break;
        case 1:
            assert_int_equal(store_truncate(f->store, faulty_id(inode),
                                            prng_below(&prng, 3 << 20) + 1, NULL, &err),
                             0);
            break;
        case 2:
            disk_fail(CALL_PWRITEV, ENOSPC);
            (void)write_bytes(f, inode, prng_below(&prng, 3 << 20), 100);
            disk_reset();
            break;
        case 3:
            store_set_limit(f->store, store_used(f->store));
            (void)write_bytes(f, inode, prng_below(&prng, 3 << 20), 5000);
            store_set_limit(f->store, UINT64_MAX);
            break;
        default:
            assert_int_equal(
                write_bytes(f, inode, prng_below(&prng, 3 << 20), prng_below(&prng, 70000) + 1), 0);
        }
        delete_if_empty(f, inode);
        used = store_used(f->store);
        if (i % 16 == 0) {
            (void)take_stock(f);
            assert_int_equal(store_used(f->store), used);
        }
    }
}

static void a_limit_is_kept(void **state)
{
    struct store_fixture *f = *state;
    struct errmsg err = { "" };
    struct stat st;
    char path[512];

    (void)take_stock(f);
    store_set_limit(f->store, OBJECT_COUNTS + 8191);
    faulty_write(f, 1, 1);
    assert_int_equal(write_bytes(f, 2, 0, 1), MORSEL_NOSPC);
    assert_int_equal(store_used(f->store), OBJECT_COUNTS);
    fixture_path(f, faulty_id(2), path);
    assert_int_equal(stat(path, &st), -1); /* Nothing of it is left. */
    assert_int_equal(write_bytes(f, 1, FAULTY_BYTES, BLOCK_BYTES), 0);
    assert_int_equal(write_bytes(f, 1, FAULTY_BYTES + BLOCK_BYTES, 1), MORSEL_NOSPC);
    store_set_limit(f->store, 0); /* What is there stays, and can be written over. */
    faulty_write(f, 1, 2);
    assert_int_equal(write_bytes(f, 1, FAULTY_BYTES + BLOCK_BYTES, 1), MORSEL_NOSPC);
    assert_int_equal(store_delete(f->store, faulty_id(1), &err), 0);
    assert_int_equal(store_used(f->store), 0);
    store_set_limit(f->store, 8192);
    assert_int_equal(write_bytes(f, 2, 0, 1), 0);
}

/* What fails before its first byte is written takes nothing either. */
static void what_fails_gives_back(void **state)
{
    struct store_fixture *f = *state;

    (void)take_stock(f);
    assert_int_equal(write_bytes(f, 1, 0, BLOCK_BYTES + 100), 0);
    flip(f, 1, place_of_byte(BLOCK_BYTES + 5));
    evict(f);
    assert_int_equal(write_bytes(f, 1, BLOCK_BYTES + 100, 8 * BLOCK_BYTES), MORSEL_CHECKSUM);
    assert_int_equal(store_used(f->store), 3 * BLOCK_BYTES);
}

struct crowd
{
    struct store_fixture *f;
    uint64_t first;
    _Atomic unsigned *written;
};

static void *run_crowd(void *data)
{
    struct crowd *c = data;

    for (uint64_t i = 0; i < 100; i++) {
        *c->written += write_bytes(c->f, c->first + i, 0, BLOCK_BYTES) == 0;
    }
    return NULL;
}

static void a_limit_is_kept_by_many_at_once(void **state)
{
    struct store_fixture *f = *state;
    struct crowd crowds[4];
    pthread_t threads[4];
    _Atomic unsigned written = 0;

    (void)take_stock(f);
    store_set_limit(f->store, 150 * 8192 + 100);
    for (unsigned i = 0; i < 4; i++) {
        crowds[i] = (struct crowd){ .f = f, .first = i * 100 + 1, .written = &written };
        CHECK(pthread_create(&threads[i], NULL, run_crowd, &crowds[i]) == 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    assert_int_equal(written, 150);
    assert_int_equal(store_used(f->store), 150 * 8192);
    assert_int_equal(take_stock(f), 150);
    assert_int_equal(store_used(f->store), 150 * 8192);
}

/* Files that are no objects where they lie are not named, and are counted all the same; what was never filled goes. */
static void stock_names_what_can_be_read(void **state)
{
    struct store_fixture *f = *state;
    char path[512], other[512];
    int fd;

    faulty_write(f, 1, 1);
    faulty_write(f, 2, 1);
    fixture_close(f);
    fixture_path(f, faulty_id(1), path);
    snprintf(other, sizeof(other), "%s", path);
    snprintf(strrchr(other, '/'), 32, "/some.file");
    CHECK((fd = open(other, O_CREAT | O_WRONLY, 0600)) >= 0 && ftruncate(fd, 5000) == 0);
    close(fd);
    fixture_path(f, faulty_id(2), path); /* In a directory that is not its own. */
    snprintf(strrchr(other, '/'), 64, "%s", strrchr(path, '/'));
    CHECK(rename(path, other) == 0);
    fixture_path(f, faulty_id(3), path);
    *strrchr(path, '/') = 0;
    (void)mkdir(path, 0700);
    fixture_path(f, faulty_id(3), path);
    CHECK((fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0);
    close(fd);
    fixture_open(f);
    assert_int_equal(take_stock(f), 1);
    assert_int_equal(store_used(f->store), 2 * OBJECT_COUNTS + 8192);
    assert_int_equal(access(path, F_OK), -1);
}

/* ---- What is synced ---- */

static void only_its_own_files_are_synced(void **state)
{
    struct store_fixture *f = *state;

    disk_reset();
    assert_int_equal(sync_object(f, 1), MORSEL_NOENT); /* Elsewhere it would be a hole. */
    faulty_write(f, 1, 1);
    assert_int_equal(sync_object(f, 1), 0);
    faulty_write(f, 2, 1);
    evict(f);
    assert_int_equal(sync_object(f, 2), 0); /* Nobody watched it meanwhile. */
    fixture_crash(f);
    assert_int_equal(sync_object(f, 2), 0);
    fixture_close(f);
    assert_true(atomic_load(&disk.calls[CALL_FDATASYNC]) >= 2);
    assert_int_equal(atomic_load(&disk.calls[CALL_SYNCFS]), 0);
    fixture_open(f);
}

/* The kernel failed to write it, and has forgotten that: the disk has something else. */
static void what_nobody_watched_is_looked_at_again(void **state)
{
    struct store_fixture *f = *state;

    faulty_write(f, 1, 1);
    faulty_write(f, 2, 1);
    evict(f);
    flip(f, 1, place_of_byte(5000));
    assert_int_equal(sync_object(f, 2), 0);
    disk_reset();
    assert_int_equal(sync_object(f, 2), 0);
    assert_int_equal(disk_waits(), 0); /* Once is enough. */
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
    assert_int_equal(sync_object(f, 1), MORSEL_IO);
}

static void a_restart_in_order_is_none_for_what_was_not_synced(void **state)
{
    struct store_fixture *f = *state;
    uint64_t before = store_verifier(f->store);

    faulty_write(f, 1, 1);
    fixture_close(f);
    fixture_open(f); /* The kernel has everything. */
    assert_true(store_verifier(f->store) == before);
    fixture_close(f);
    f->options.boot_id = 2; /* Nobody has synced it before the machine went off. */
    fixture_open(f);
    assert_true(store_verifier(f->store) != before);
}

/* ---- What is believed ---- */

/* Elsewhere a block that is neither is taken for an older version when the power was lost: here there is another copy. */
static void what_does_not_match_is_damage(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES], old[FAULTY_BYTES];

    faulty_fill(old, sizeof(old), 1);
    faulty_write(f, 1, 1);
    faulty_write(f, 2, 1);
    f->options.boot_id = 3;
    fixture_crash(f);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, bytes, sizeof(bytes)), 0);
    assert_memory_equal(bytes, old, sizeof(bytes));
    flip(f, 2, place_of_byte(BLOCK_BYTES + 1));
    assert_int_equal(fixture_read(f, faulty_id(2), 0, bytes, sizeof(bytes)), MORSEL_CHECKSUM);
    assert_int_equal(fixture_read(f, faulty_id(2), 0, bytes, BLOCK_BYTES), 0);
}

static bool lacks(struct store_fixture *f, unsigned number)
{
    struct errmsg err;
    bool is;

    assert_int_equal(store_lacks(f->store, faulty_id(number), &is, &err), 0);
    return is;
}

/* Blocks that never reached the disk are holes, which match their sums: nothing but the loss itself tells. */
static void what_may_be_missing_is_said_until_it_is_made_anew(void **state)
{
    struct store_fixture *f = *state;
    struct errmsg err;

    faulty_write(f, 1, 1);
    faulty_write(f, 2, 1);
    fixture_crash(f); /* The process alone. */
    assert_false(lacks(f, 1));
    f->options.boot_id = 3;
    fixture_crash(f);
    assert_true(lacks(f, 1));
    assert_true(lacks(f, 2));
    assert_int_equal(store_recover(f->store, &err), 0); /* Verified as a whole, and stamped anew. */
    fixture_close(f);
    fixture_open(f);
    assert_true(lacks(f, 1));
    faulty_write(f, 1, 2);
    assert_true(lacks(f, 1)); /* What is left may be shorter than what there was. */
    assert_int_equal(store_truncate(f->store, faulty_id(1), 0, NULL, &err), 0);
    assert_false(lacks(f, 1));
    faulty_write(f, 1, 2);
    fixture_close(f);
    fixture_open(f);
    assert_false(lacks(f, 1));
    assert_true(lacks(f, 2));
    assert_int_equal(store_delete(f->store, faulty_id(2), NULL), 0);
    assert_false(lacks(f, 2)); /* There is none. */
    faulty_write(f, 2, 2);
    assert_false(lacks(f, 2));
}

/* A short write to what is left covers all of that, and the zeros before the next one were once bytes. */
static void a_length_that_was_lost_is_not_forgotten(void **state)
{
    static const uint64_t left[] = { 0, STORE_HEADER_BYTES / 2, CHECKSUMS_PAGE_BYTES };
    struct store_fixture *f = *state;
    char path[512];

    for (unsigned i = 0; i < 3; i++) {
        faulty_write(f, 1 + i, 1);
    }
    fixture_close(f);
    for (unsigned i = 0; i < 3; i++) {
        fixture_path(f, faulty_id(1 + i), path);
        CHECK(truncate(path, (off_t)left[i]) == 0);
    }
    f->options.boot_id = 3;
    fixture_open(f);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(write_bytes(f, 1 + i, 0, 100), 0);
        assert_int_equal(write_bytes(f, 1 + i, BLOCK_BYTES, 100), 0);
        assert_true(lacks(f, 1 + i));
    }
    fixture_close(f);
    fixture_open(f);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(lacks(f, 1 + i));
    }
}

/* A process that is killed between a sum and its block, or a power cut between them: the block that was there before. */
static void what_a_kill_explains_is_put_right(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[FAULTY_BYTES], old[FAULTY_BYTES];
    char path[512];
    int fd;

    faulty_fill(old, sizeof(old), 1);
    faulty_write(f, 1, 1);
    faulty_write(f, 1, 2);
    fixture_path(f, faulty_id(1), path);
    CHECK((fd = open(path, O_WRONLY)) >= 0);
    CHECK(pwrite(fd, old, BLOCK_BYTES, (off_t)place_of_byte(0)) == BLOCK_BYTES);
    close(fd);
    fixture_crash(f);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, bytes, BLOCK_BYTES), 0);
    assert_memory_equal(bytes, old, BLOCK_BYTES);
}

/* Its length reached the disk, and nothing else of it: it has no zeros, it is lost. */
static void a_file_without_a_header_is_damaged(void **state)
{
    static const uint8_t zeros[CHECKSUMS_PAGE_BYTES + FAULTY_BYTES];
    struct store_fixture *f = *state;
    uint8_t bytes[BLOCK_BYTES];
    char path[512];
    int fd;

    faulty_write(f, 1, 1);
    fixture_path(f, faulty_id(1), path);
    CHECK((fd = open(path, O_WRONLY)) >= 0);
    CHECK(pwrite(fd, zeros, sizeof(zeros), 0) == sizeof(zeros));
    close(fd);
    fixture_crash(f);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, bytes, sizeof(bytes)), MORSEL_CORRUPT);
    assert_int_equal(store_delete(f->store, faulty_id(1), NULL), 0);
    assert_int_equal(write_bytes(f, 1, 0, 100), 0);
}

/* Whose file it is stands in it. */
static void files_that_were_swapped_are_found(void **state)
{
    struct store_fixture *f = *state;
    uint8_t bytes[BLOCK_BYTES];
    char one[512], two[512], spare[520];

    faulty_write(f, 1, 1);
    faulty_write(f, 2, 2);
    fixture_close(f);
    fixture_path(f, faulty_id(1), one);
    fixture_path(f, faulty_id(2), two);
    snprintf(spare, sizeof(spare), "%s.spare", one);
    CHECK(rename(one, spare) == 0 && rename(two, one) == 0 && rename(spare, two) == 0);
    fixture_open(f);
    assert_int_equal(fixture_read(f, faulty_id(1), 0, bytes, sizeof(bytes)), MORSEL_CORRUPT);
    assert_int_equal(fixture_read(f, faulty_id(2), 0, bytes, sizeof(bytes)), MORSEL_CORRUPT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, faulty_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_objects_take_is_known),
        TEST(it_is_what_stock_taking_says),
        TEST(a_limit_is_kept),
        TEST(what_fails_gives_back),
        TEST(a_limit_is_kept_by_many_at_once),
        TEST(stock_names_what_can_be_read),
        TEST(only_its_own_files_are_synced),
        TEST(what_nobody_watched_is_looked_at_again),
        TEST(a_restart_in_order_is_none_for_what_was_not_synced),
        TEST(what_does_not_match_is_damage),
        TEST(what_may_be_missing_is_said_until_it_is_made_anew),
        TEST(a_length_that_was_lost_is_not_forgotten),
        TEST(what_a_kill_explains_is_put_right),
        TEST(a_file_without_a_header_is_damaged),
        TEST(files_that_were_swapped_are_found),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
