/* The store on LevelDB: what a killed process has committed is there, and damage is found before it
 * spreads. */
#include "meta/storage/kv_leveldb.h"
#include "common/base/status.h"
#include "meta/storage/log_watch_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <leveldb/c.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What a sync asks of the disk; the linker puts these in front (--wrap). */
static unsigned directory_syncs, data_syncs, listings;
static bool kernel_forgets; /* No page of a file is in memory. */
int __real_fsync(int fd);
int __real_fdatasync(int fd);
DIR *__real_opendir(const char *path);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
DIR *__wrap_opendir(const char *path);
ssize_t __real_preadv2(int fd, const struct iovec *rooms, int count, off_t at, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *rooms, int count, off_t at, int flags);

char *__real_leveldb_property_value(leveldb_t *db, const char *name);
char *__wrap_leveldb_property_value(leveldb_t *db, const char *name);

/* A table more, as if it were compacted away behind the first look. */
static unsigned looks_before_compaction;

char *__wrap_leveldb_property_value(leveldb_t *db, const char *name)
{
    char *tables = __real_leveldb_property_value(db, name), *more = NULL;

    if (tables == NULL || strcmp(name, "leveldb.sstables") != 0 || looks_before_compaction == 0) {
        return tables;
    }
    looks_before_compaction--;
    assert_true(asprintf(&more, "%s 999999:549['a' .. 'b']\n", tables) > 0);
    leveldb_free(tables);
    return more;
}

ssize_t __wrap_preadv2(int fd, const struct iovec *rooms, int count, off_t at, int flags)
{
    if ((flags & RWF_NOWAIT) != 0 && kernel_forgets) {
        errno = EAGAIN;
        return -1;
    }
    return __real_preadv2(fd, rooms, count, at, flags);
}

int __wrap_fsync(int fd)
{
    struct stat st;

    directory_syncs += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    return __real_fsync(fd);
}

int __wrap_fdatasync(int fd)
{
    data_syncs++;
    return __real_fdatasync(fd);
}

DIR *__wrap_opendir(const char *path)
{
    listings++;
    return __real_opendir(path);
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

    (void)snprintf(f->root, sizeof(f->root), "/tmp/morsel-kv-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    (void)snprintf(f->dir, sizeof(f->dir), "%s/db", f->root);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", f->root);
    assert_int_equal(system(command), 0);
    test_free(f);
    return 0;
}

static struct kv *must_open(struct fixture *f, bool create)
{
    struct kv *kv;
    int rv = kv_leveldb_open(f->dir, create, &kv, &f->err);

    if (rv != 0) {
        fail_msg("%s", f->err.text);
    }
    return kv;
}

static void put(struct kv *kv, uint32_t number, size_t value_bytes)
{
    uint8_t *value = calloc(1, value_bytes);
    struct kv_batch batch;
    char key[16];

    (void)snprintf(key, sizeof(key), "k%08u", number);
    for (size_t i = 0; i < value_bytes; i++) {
        value[i] = (uint8_t)((number + 1) * 2654435761U >> (i % 24)); /* Does not compress away. */
    }
    kv_batch_init(&batch);
    kv_batch_put(&batch, (struct slice){ (uint8_t *)key, strlen(key) },
                 (struct slice){ value, value_bytes });
    assert_int_equal(kv->commit(kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
    free(value);
}

static bool count_visit(void *data, struct slice key, struct slice value)
{
    uint32_t *count = data;

    (void)key;
    (void)value;
    (*count)++;
    return true;
}

static uint32_t count_records(struct kv *kv)
{
    uint32_t count = 0;

    assert_int_equal(kv->scan(kv, (struct slice){ NULL, 0 }, count_visit, &count, NULL), 0);
    return count;
}

static void batches_come_back(void **state)
{
    struct fixture *f = *state;
    struct kv *kv = must_open(f, true);
    struct kv_batch batch;
    struct buf value;

    buf_init(&value);
    kv_batch_init(&batch);
    kv_batch_put(&batch, (struct slice){ (const uint8_t *)"a", 1 },
                 (struct slice){ (const uint8_t *)"1", 1 });
    kv_batch_put(&batch, (struct slice){ (const uint8_t *)"b", 1 }, (struct slice){ NULL, 0 });
    kv_batch_delete(&batch, (struct slice){ (const uint8_t *)"a", 1 });
    assert_int_equal(kv->commit(kv, &batch, true, NULL), 0);
    assert_int_equal(kv->get(kv, (struct slice){ (const uint8_t *)"a", 1 }, &value, NULL),
                     MORSEL_NOENT);
    assert_int_equal(kv->get(kv, (struct slice){ (const uint8_t *)"b", 1 }, &value, NULL), 0);
    assert_int_equal(kv->sync(kv, &f->err), 0);
    kv_batch_free(&batch);
    buf_free(&value);
    kv->close(kv);
    kv = must_open(f, false);
    assert_int_equal(count_records(kv), 1);
    kv->close(kv);
}

static struct slice key_of(char key[16], uint32_t number)
{
    (void)snprintf(key, 16, "k%08u", number);
    return (struct slice){ (uint8_t *)key, strlen(key) };
}

/* Opened again, with nothing in memory. */
static struct kv *reopen_cold(struct fixture *f, struct kv *kv, struct kv_wanted *wanted)
{
    kv->close(kv);
    kv = must_open(f, false);
    kernel_forgets = true;
    kv_wanted_clear(wanted);
    kv->wanted = wanted;
    return kv;
}

/* A database that was just opened has nothing in memory: what is asked for in haste must be loaded
 * first, and is answered then; what was just written is there. */
static void in_haste_nothing_is_read(void **state)
{
    enum { RECORDS = 3000, NEW = RECORDS };
    struct fixture *f = *state;
    struct kv *kv = must_open(f, true);
    struct kv_wanted wanted;
    struct buf value;
    char text[16];

    kernel_forgets = false;
    kv_wanted_init(&wanted);
    buf_init(&value);
    for (uint32_t i = 0; i < RECORDS; i++) {
        put(kv, i, 100);
    }
    kv = reopen_cold(f, kv, &wanted);
    assert_int_equal(kv->get(kv, key_of(text, 7), &value, &f->err), MORSEL_AGAIN);
    assert_int_equal(kv->get(kv, key_of(text, 2900), &value, &f->err), MORSEL_AGAIN);
    assert_int_equal(wanted.count, 2);
    put(kv, NEW, 100);
    assert_int_equal(kv->get(kv, key_of(text, NEW), &value, &f->err), 0);
    kv->load(kv, &wanted);
    kv_wanted_clear(&wanted);
    assert_int_equal(kv->get(kv, key_of(text, 7), &value, &f->err), 0);
    assert_int_equal(value.count, 100);
    assert_int_equal(kv->get(kv, key_of(text, 2900), &value, &f->err), 0);
    assert_int_equal(kv->get(kv, (struct slice){ (const uint8_t *)"k00000007a", 10 }, &value, NULL),
                     MORSEL_NOENT); /* Its block is that of another. */
    assert_int_equal(wanted.count, 0);
    kernel_forgets = false;
    buf_free(&value);
    kv_wanted_free(&wanted);
    kv->close(kv);
}

static uint32_t wanted_records(const struct kv_wanted *wanted)
{
    uint32_t records = 0;
    struct slice key;
    size_t offset = 0;

    assert_true(kv_wanted_next(wanted, &offset, &key, &records));
    return records;
}

/* A scan goes as far as it can, and never further: from its beginning, from its middle, and when all
 * is there without a word of the disk. What it could not have is not taken for something else later. */
static void a_scan_in_haste_goes_as_far_as_it_can(void **state)
{
    enum { RECORDS = 3000 };
    struct fixture *f = *state;
    struct kv *kv = must_open(f, true);
    struct kv_wanted wanted;
    uint32_t count = 0, before = 0;
    unsigned tries = 0;
    char text[16];
    int rv;

    kernel_forgets = false;
    kv_wanted_init(&wanted);
    for (uint32_t i = 0; i < RECORDS; i++) {
        put(kv, i, 100);
    }
    kv = reopen_cold(f, kv, &wanted);
    put(kv, 2000, 100); /* In memory, and the next ones are not. */
    assert_int_equal(kv->scan(kv, key_of(text, 1000), count_visit, &count, NULL), MORSEL_AGAIN);
    assert_int_equal(count, 0);
    assert_int_equal(wanted_records(&wanted), KV_RANGE_RECORDS);
    do {
        kv->load(kv, &wanted);
        kv_wanted_clear(&wanted);
        before = count;
        count = 0;
        rv = kv->scan(kv, key_of(text, 1000), count_visit, &count, NULL);
        assert_true(rv == 0 || rv == MORSEL_AGAIN);
        assert_true(count > before);
        assert_true(rv == 0 || wanted_records(&wanted) == count + KV_RANGE_RECORDS);
        tries++;
    } while (rv != 0);
    assert_int_equal(count, RECORDS - 1000);
    assert_in_range(tries, 3, (RECORDS - 1000) / KV_RANGE_RECORDS + 1);
    assert_int_equal(wanted.count, 0);
    kv->wanted = NULL;
    assert_int_equal(count_records(kv), RECORDS);
    kernel_forgets = false;
    kv_wanted_free(&wanted);
    kv->close(kv);
}

static void make_file(const struct fixture *f, const char *name)
{
    char path[160];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", f->root, name);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fclose(file);
}

static void remove_file(const struct fixture *f, const char *name)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/%s", f->root, name);
    assert_int_equal(unlink(path), 0);
}

/* Expect so many logs to be synced, and that the directory is or is not. */
static void expect_sync(struct log_watch *w, struct fixture *f, unsigned logs, bool names)
{
    data_syncs = directory_syncs = 0;
    assert_int_equal(log_watch_sync(w, &f->err), 0);
    assert_int_equal(data_syncs, logs);
    assert_int_equal(directory_syncs, names);
}

/* Every log is synced, and so is its name, once; the directory is listed only when the kernel has
 * lost what it had to tell. */
static void a_sync_covers_each_log_and_its_name(void **state)
{
    enum { MORE_THAN_THE_KERNEL_KEEPS = 40000 }; /* fs.inotify.max_queued_events is 16384. */
    struct fixture *f = *state;
    int fd = open(f->root, O_RDONLY | O_DIRECTORY);
    struct log_watch w;

    assert_true(fd >= 0);
    make_file(f, "000004.log");
    log_watch_open(&w, f->root, fd);
    make_file(f, "000009.log");
    expect_sync(&w, f, 2, true);
    expect_sync(&w, f, 2, false);
    listings = 0;
    make_file(f, "000011.ldb");
    make_file(f, "000010.log");
    remove_file(f, "000004.log");
    expect_sync(&w, f, 2, true);
    remove_file(f, "000009.log");
    remove_file(f, "000010.log");
    expect_sync(&w, f, 0, false);
    assert_int_equal(listings, 0);
    for (unsigned i = 0; i < MORE_THAN_THE_KERNEL_KEEPS; i++) {
        make_file(f, i % 2 == 0 ? "000012.ldb" : "000014.ldb");
        remove_file(f, i % 2 == 0 ? "000012.ldb" : "000014.ldb");
    }
    make_file(f, "000015.log");
    expect_sync(&w, f, 1, true);
    assert_int_equal(listings, 1);
    expect_sync(&w, f, 1, false);
    assert_int_equal(listings, 1);
    log_watch_close(&w);
    (void)close(fd);
}

/* A child commits and dies without closing anything. */
static void fill_and_die(struct fixture *f, uint32_t count, size_t value_bytes)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct kv *kv = must_open(f, true);

        for (uint32_t i = 0; i < count; i++) {
            put(kv, i, value_bytes);
        }
        _exit(kv->sync(kv, NULL) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void what_a_killed_process_committed_is_there(void **state)
{
    struct fixture *f = *state;
    struct kv *kv;

    fill_and_die(f, 1000, 100);
    kv = must_open(f, false);
    assert_int_equal(count_records(kv), 1000);
    kv->close(kv);
}

/* Cut the first file whose name has this ending or beginning to half its length. */
static void cut(struct fixture *f, const char *pattern)
{
    char command[256];

    (void)snprintf(command, sizeof(command),
                   "for x in %s/%s; do truncate -s $(($(stat -c %%s $x) / 2)) $x; break; done",
                   f->dir, pattern);
    assert_int_equal(system(command), 0);
}

/* Names, sizes and contents, LevelDB's chatter left out. */
static void sum(struct fixture *f, char text[64])
{
    char command[256];
    FILE *pipe;

    (void)snprintf(command, sizeof(command),
                   "cd %s && for x in *; do case $x in LO*) ;; *) md5sum $x ;; esac; done | md5sum",
                   f->dir);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(text, 64, pipe));
    (void)pclose(pipe);
}

static void assert_refused_and_left_alone(struct fixture *f)
{
    char before[64], after[64];
    struct kv *kv;

    sum(f, before);
    assert_int_equal(kv_leveldb_open(f->dir, false, &kv, &f->err), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, f->dir));
    sum(f, after);
    assert_string_equal(before, after);
}

static void a_cut_file_is_refused_after_an_orderly_end(void **state)
{
    static const char *const patterns[] = { "CURRENT", "MANIFEST-*", "*.ldb", "*.log" };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        char command[128];
        struct kv *kv;

        fill_and_die(f, 1000, 20000);
        kv = must_open(f, false);
        put(kv, 5000, 100);
        kv->close(kv);
        cut(f, patterns[i]);
        assert_refused_and_left_alone(f);
        (void)snprintf(command, sizeof(command), "rm -rf %s", f->dir);
        assert_int_equal(system(command), 0);
    }
}

static void a_cut_manifest_is_refused_after_a_kill(void **state)
{
    struct fixture *f = *state;

    fill_and_die(f, 2000, 20000); /* Enough for tables to be written. */
    cut(f, "MANIFEST-*");
    assert_refused_and_left_alone(f);
}

/* LevelDB compacts from its opening on: a table that it has named may be gone a moment later. */
static void a_table_that_is_compacted_meanwhile_is_not_missed(void **state)
{
    struct fixture *f = *state;
    struct kv *kv;

    fill_and_die(f, 1000, 20000);
    looks_before_compaction = 1;
    kv = must_open(f, false);
    assert_int_equal(looks_before_compaction, 0);
    kv->close(kv);
    looks_before_compaction = 2;
    assert_int_equal(kv_leveldb_open(f->dir, false, &kv, &f->err), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, "999999.ldb"));
    looks_before_compaction = 0;
}

static void a_missing_database_is_not_made_anew(void **state)
{
    struct fixture *f = *state;
    struct kv *kv;

    assert_int_equal(kv_leveldb_open(f->dir, false, &kv, &f->err), MORSEL_NOENT);
    assert_int_not_equal(access(f->dir, F_OK), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sync_covers_each_log_and_its_name),
        TEST(batches_come_back),
        TEST(in_haste_nothing_is_read),
        TEST(a_scan_in_haste_goes_as_far_as_it_can),
        TEST(what_a_killed_process_committed_is_there),
        TEST(a_cut_file_is_refused_after_an_orderly_end),
        TEST(a_cut_manifest_is_refused_after_a_kill),
        TEST(a_table_that_is_compacted_meanwhile_is_not_missed),
        TEST(a_missing_database_is_not_made_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
