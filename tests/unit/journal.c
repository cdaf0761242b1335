/* The journal beside the database: its entries, and what is left of database and journal together
 * when the power fails between any two writes. */
#include "common/base/prng.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/storage/journal_file.h"
#include "meta/storage/journal_format.h"
#include "meta/storage/kv_leveldb.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LOGS_MAX = 1000, KEYS = 17, BATCHES_MAX = 100000 };

/* What is on disk, kept by the process that writes and read by the one that cuts the power. */
static struct disk
{
    uint64_t log_bytes[LOGS_MAX]; /* Of NNNNNN.log when it was synced last. */
    uint8_t journal[JOURNAL_BYTES];
    uint32_t journal_syncs, log_syncs;
    uint64_t synced;  /* Batches that a sync has covered. */
    uint64_t written; /* And that were committed. */
    bool closed;      /* An orderly end syncs everything. */
    uint32_t taken;   /* Starts that found less than was committed. */
} * disk;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

static bool log_number(const char *name, unsigned long long *number)
{
    char *end;

    *number = strtoull(name, &end, 10);
    return end != name && strcmp(end, ".log") == 0;
}

/* The linker puts this in front (--wrap). */
int __wrap_fdatasync(int fd)
{
    char link[64], path[256];
    unsigned long long number;
    const char *name;
    struct stat st = { 0 };
    ssize_t count;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    count = readlink(link, path, sizeof(path) - 1);
    assert_true(count > 0);
    path[count] = 0;
    name = strrchr(path, '/') + 1;
    if (disk != NULL && log_number(name, &number)) {
        assert_true(number < LOGS_MAX && fstat(fd, &st) == 0);
        disk->log_bytes[number] = (uint64_t)st.st_size;
        disk->log_syncs++;
    } else if (disk != NULL && strcmp(name, JOURNAL_NAME) == 0) {
        assert_int_equal(pread(fd, disk->journal, JOURNAL_BYTES, 0), JOURNAL_BYTES);
        disk->journal_syncs++;
    }
    return __real_fdatasync(fd);
}

struct fixture
{
    char root[64];
    char dir[80];
    struct errmsg err;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    (void)snprintf(f->root, sizeof(f->root), "/tmp/morsel-journal-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    (void)snprintf(f->dir, sizeof(f->dir), "%s/db", f->root);
    disk = mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(disk != MAP_FAILED);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", f->root);
    assert_int_equal(system(command), 0);
    assert_int_equal(munmap(disk, sizeof(*disk)), 0);
    disk = NULL;
    test_free(f);
    return 0;
}

static struct kv *must_open(struct fixture *f, bool create)
{
    struct kv *kv;

    if (kv_leveldb_open(f->dir, create, &kv, &f->err) != 0) {
        fail_msg("%s", f->err.text);
    }
    return kv;
}

/* Batch `number` says so under one of KEYS keys and under "last". */
static void commit(struct kv *kv, uint64_t number, size_t more_bytes)
{
    static const uint8_t zeros[100 << 10];
    struct kv_batch batch;
    uint8_t value[8];
    char key[16];

    (void)snprintf(key, sizeof(key), "k%02u", (unsigned)(number % KEYS));
    put_le64(value, number);
    kv_batch_init(&batch);
    kv_batch_put(&batch, slice_text(key), (struct slice){ value, sizeof(value) });
    kv_batch_put(&batch, slice_text("last"), (struct slice){ value, sizeof(value) });
    kv_batch_put(&batch, slice_text("more"), (struct slice){ zeros, more_bytes });
    assert_int_equal(kv->commit(kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
}

static uint64_t number_under(struct kv *kv, const char *key)
{
    uint64_t number = 0;
    struct buf value;

    buf_init(&value);
    if (kv->get(kv, slice_text(key), &value, NULL) == 0) {
        assert_int_equal(value.count, 8);
        number = get_le64(value.data);
    }
    buf_free(&value);
    return number;
}

/* The newest batch that is there; every older one must be, and none behind it. */
static uint64_t check_prefix(struct kv *kv)
{
    uint64_t last = number_under(kv, "last");

    for (uint64_t k = 0; k < KEYS; k++) {
        char key[16];
        uint64_t newest = last < k ? 0 : last - (last - k) % KEYS;

        (void)snprintf(key, sizeof(key), "k%02u", (unsigned)k);
        assert_int_equal(number_under(kv, key), newest);
    }
    return last;
}

/* Look at what the last one left, commit and sync by chance, and end between two calls. */
static void child(struct fixture *f, struct prng *prng)
{
    struct kv *kv = must_open(f, disk->written == 0);
    uint64_t found = check_prefix(kv), count = 1 + prng_below(prng, 300);
    uint64_t one_in = 1 + prng_below(prng, 20), big = prng_below(prng, 4) == 0 ? 5 : 100000;

    assert_true(found >= disk->synced && found <= disk->written);
    disk->taken += found < disk->written;
    for (uint64_t i = found + 1; i <= found + count; i++) {
        commit(kv, i, prng_below(prng, big) == 0 ? 70 << 10 : prng_below(prng, 2000));
        disk->written = i;
        if (prng_below(prng, one_in) == 0) {
            assert_int_equal(kv->sync(kv, NULL), 0);
            disk->synced = i;
        }
    }
    disk->closed = prng_below(prng, 4) == 0;
    if (disk->closed) {
        kv->close(kv);
        disk->synced = disk->written;
    }
}

static void run_child(struct fixture *f, struct prng *prng)
{
    uint64_t seed = prng_next(prng);
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct prng own;

        prng_seed(&own, seed);
        child(f, &own);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Each log ends somewhere behind what was synced of it. */
static void cut_logs(struct fixture *f, struct prng *prng)
{
    DIR *d = opendir(f->dir);
    const struct dirent *entry;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        unsigned long long number;
        struct stat st = { 0 };

        if (log_number(entry->d_name, &number)) {
            int fd = openat(dirfd(d), entry->d_name, O_RDWR);
            uint64_t kept;

            assert_true(fd >= 0 && fstat(fd, &st) == 0 && number < LOGS_MAX);
            kept = disk->log_bytes[number];
            kept += prng_below(prng, (uint64_t)st.st_size - kept + 1);
            assert_int_equal(ftruncate(fd, (off_t)kept), 0);
            (void)close(fd);
        }
    }
    (void)closedir(d);
}

/* Each sector of the journal is what it is, or what it was when it was synced last. */
static void tear_journal(struct fixture *f, struct prng *prng)
{
    char path[160];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/" JOURNAL_NAME, f->dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (size_t at = 0; at < JOURNAL_BYTES; at += JOURNAL_SECTOR_BYTES) {
        if (prng_below(prng, 2) == 0) {
            assert_int_equal(pwrite(fd, disk->journal + at, JOURNAL_SECTOR_BYTES, (off_t)at),
                             JOURNAL_SECTOR_BYTES);
        }
    }
    (void)close(fd);
}

static uint64_t read_seed(void)
{
    const char *seed = getenv("MORSEL_SEED");

    return seed == NULL ? 1 : strtoull(seed, NULL, 10);
}

/* Whatever the power leaves is a prefix of the batches, and holds what syncs covered. */
static void synced_batches_outlive_losses_of_power(void **state)
{
    enum { LOSSES = 60, TAKEN_MIN = 10, LOG_SYNCS_MIN = 10 };
    struct fixture *f = *state;
    uint64_t seed = read_seed();
    struct prng prng;

    print_message("seed %llu\n", (unsigned long long)seed);
    prng_seed(&prng, seed);
    for (int i = 0; i < LOSSES; i++) {
        run_child(f, &prng);
        if (!disk->closed && prng_below(&prng, 4) != 0) {
            cut_logs(f, &prng);
            tear_journal(f, &prng);
        }
    }
    assert_true(disk->journal_syncs >= LOSSES && disk->log_syncs >= LOG_SYNCS_MIN);
    assert_true(disk->taken >= TAKEN_MIN);
}

/* With nothing left of the logs, what was synced comes from the journal; its number of syncs of one
 * file is one. */
static void a_small_sync_is_one_of_the_journal(void **state)
{
    struct fixture *f = *state;
    struct kv *kv = must_open(f, true);
    uint32_t logs;

    commit(kv, 1, 10);
    assert_int_equal(kv->sync(kv, &f->err), 0);
    logs = disk->log_syncs;
    disk->journal_syncs = 0;
    for (uint64_t i = 2; i <= 100; i++) {
        commit(kv, i, 10);
        assert_int_equal(kv->sync(kv, &f->err), 0);
    }
    assert_int_equal(disk->log_syncs, logs);
    assert_int_equal(disk->journal_syncs, 99);
    assert_int_equal(kv->sync(kv, &f->err), 0); /* Nothing is new. */
    assert_int_equal(disk->journal_syncs, 99);
    commit(kv, 101, JOURNAL_SYNC_BYTES_MAX);
    assert_int_equal(kv->sync(kv, &f->err), 0);
    assert_int_equal(disk->log_syncs, logs + 1);
    for (uint64_t i = 102; i < 102 + JOURNAL_BYTES / JOURNAL_SECTOR_BYTES; i++) {
        commit(kv, i, 10);
        assert_int_equal(kv->sync(kv, &f->err), 0);
    }
    assert_int_equal(disk->log_syncs, logs + 1);
    commit(kv, 102 + JOURNAL_BYTES / JOURNAL_SECTOR_BYTES, 10);
    assert_int_equal(kv->sync(kv, &f->err), 0);
    assert_int_equal(disk->log_syncs, logs + 2); /* It was full. */
    kv->close(kv);
}

static void assert_refused(struct fixture *f, const char *words)
{
    struct kv *kv;

    assert_int_equal(kv_leveldb_open(f->dir, false, &kv, &f->err), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, words));
    assert_non_null(strstr(f->err.text, f->dir));
}

/* A journal that does not fit its database is named, whether it was cut, or the database is an
 * older one. */
static void a_journal_of_something_else_is_refused(void **state)
{
    struct fixture *f = *state;
    struct kv *kv = must_open(f, true);
    char command[512];

    commit(kv, 1, 10);
    kv->close(kv);
    (void)snprintf(command, sizeof(command), "cp -r %s %s/old", f->dir, f->root);
    assert_int_equal(system(command), 0);
    kv = must_open(f, false);
    commit(kv, 2, JOURNAL_SYNC_BYTES_MAX);
    assert_int_equal(kv->sync(kv, &f->err), 0);
    commit(kv, 3, 10);
    assert_int_equal(kv->sync(kv, &f->err), 0);
    kv->close(kv);
    (void)snprintf(command, sizeof(command),
                   "cd %s && cp db/" JOURNAL_NAME " old && rm -r db && mv old db", f->root);
    assert_int_equal(system(command), 0);
    assert_refused(f, "begins at change 3");
    (void)snprintf(command, sizeof(command), "truncate -s 4096 %s/" JOURNAL_NAME, f->dir);
    assert_int_equal(system(command), 0);
    assert_refused(f, "restore it from a backup");
}

/* ---- Entries ---- */

static void append(struct buf *file, uint64_t generation, uint64_t first, uint64_t last)
{
    struct journal_entry entry = { generation, first, last, { NULL, 0 } };
    struct buf batches;

    buf_init(&batches);
    for (uint64_t i = first; i <= last; i++) {
        buf_put_blob(&batches, &i, 1 + i % 8);
    }
    entry.batches = buf_slice(&batches);
    journal_entry_encode(file, &entry);
    buf_free(&batches);
}

/* The number of the last batch that a walk meets. */
static uint64_t walk(const struct buf *file)
{
    struct journal_entry entry = { 0 };
    size_t offset = 0;

    while (journal_entry_next(buf_slice(file), &offset, &entry)) {
        assert_true(offset % JOURNAL_SECTOR_BYTES == 0 && offset <= file->count);
    }
    return entry.last;
}

static void entries_end_where_they_do_not_continue(void **state)
{
    struct buf file;

    (void)state;
    buf_init(&file);
    append(&file, 5, 10, 12);
    append(&file, 5, 13, 200);
    assert_int_equal(walk(&file), 200);
    append(&file, 6, 201, 201); /* Another generation. */
    assert_int_equal(walk(&file), 200);
    file.count -= JOURNAL_SECTOR_BYTES;
    append(&file, 5, 202, 203); /* A gap. */
    assert_int_equal(walk(&file), 200);
    file.count -= JOURNAL_SECTOR_BYTES;
    append(&file, 5, 201, 203);
    assert_int_equal(walk(&file), 203);
    file.data[700] ^= 1; /* In the second. */
    assert_int_equal(walk(&file), 12);
    file.count = JOURNAL_SECTOR_BYTES - 1;
    file.data[0] ^= 1;
    assert_int_equal(walk(&file), 0);
    buf_free(&file);
}

/* No bit of an entry may change unnoticed, and no length leads out of the file. */
static void any_damage_ends_the_walk(void **state)
{
    struct buf file;

    (void)state;
    buf_init(&file);
    append(&file, 5, 1, 4);
    for (size_t bit = 0; bit < 8 * (JOURNAL_HEADER_BYTES + 4 * 4); bit++) {
        file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(walk(&file), 0);
        file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(walk(&file), 4);
    for (size_t count = 0; count < JOURNAL_HEADER_BYTES; count++) {
        file.count = count;
        assert_int_equal(walk(&file), 0);
    }
    buf_free(&file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_end_where_they_do_not_continue),
        cmocka_unit_test(any_damage_ends_the_walk),
        TEST(a_small_sync_is_one_of_the_journal),
        TEST(a_journal_of_something_else_is_refused),
        TEST(synced_batches_outlive_losses_of_power),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
