/* Reading to verify: damage is found wherever it is, what clients do meanwhile is never taken for damage, and the kernel's cache and
 * the table of open objects are as they were. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 2 * GROUP_BYTES + 3 * BLOCK_BYTES + 100, PAGE = 4096 };

static const struct object_id ID = { .inode = 3, .column = 1 };

/* What the disk does not give: of any file, from that offset up to the other. */
static uint64_t refused_from, refused_to;

static bool is_refused(uint64_t offset, uint64_t count)
{
    return offset < refused_to && refused_from < offset + count;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __real_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_preadv2(int fd, const struct iovec *vectors, int count, off_t offset, int flags);
ssize_t __real_preadv2(int fd, const struct iovec *vectors, int count, off_t offset, int flags);

ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset)
{
    if (is_refused((uint64_t)offset, count)) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, bytes, count, offset);
}

ssize_t __wrap_preadv2(int fd, const struct iovec *vectors, int count, off_t offset, int flags)
{
    uint64_t bytes = 0;

    for (int i = 0; i < count; i++) {
        bytes += vectors[i].iov_len;
    }
    if (is_refused((uint64_t)offset, bytes)) {
        errno = EIO;
        return -1;
    }
    return __real_preadv2(fd, vectors, count, offset, flags);
}

struct scrubs
{
    struct store_fixture f;
    char path[512];
    uint8_t good[BYTES], is[BYTES];
    uint8_t *room;
    uint64_t bytes;
};

static int begin(void **state)
{
    struct scrubs *s = calloc(1, sizeof(*s));

    CHECK(s != NULL);
    refused_from = refused_to = 0;
    s->room = aligned_alloc(PAGE, STORE_SCRUB_BYTES);
    CHECK(s->room != NULL);
    fixture_init(&s->f);
    fixture_open(&s->f);
    for (size_t i = 0; i < BYTES; i++) {
        s->good[i] = (uint8_t)(i / 7 + i / BLOCK_BYTES + 1);
    }
    assert_int_equal(fixture_write(&s->f, ID, 0, s->good, BYTES), 0);
    fixture_path(&s->f, ID, s->path);
    *state = s;
    return 0;
}

static int end(void **state)
{
    struct scrubs *s = *state;

    fixture_free(&s->f);
    free(s->room);
    free(s);
    return 0;
}

/* The whole object: how many blocks are bad; in `first` where the first one is. */
static uint64_t scrub(struct scrubs *s, struct object_id id, uint64_t *first)
{
    struct store_scrubbed found;
    struct errmsg err;
    uint64_t offset = 0, bad = 0;

    *first = UINT64_MAX;
    s->bytes = 0;
    while (offset != UINT64_MAX) {
        assert_int_equal(store_scrub(s->f.store, id, offset, s->room, &found, &err), 0);
        s->bytes += found.bytes;
        if (found.damage.blocks > 0) {
            *first = bad == 0 ? found.damage.start : *first;
            bad += found.damage.blocks;
            assert_true(found.damage.end > offset);
        }
        offset = found.damage.blocks > 0 ? found.damage.end : found.next;
    }
    return bad;
}

static void assert_bad(struct scrubs *s, uint64_t blocks, uint64_t first)
{
    uint64_t at;

    assert_int_equal(scrub(s, ID, &at), blocks);
    assert_int_equal(at, blocks == 0 ? UINT64_MAX : first * BLOCK_BYTES);
}

static void what_is_good_is_read_once(void **state)
{
    struct scrubs *s = *state;
    struct store_scrubbed found;
    const struct object_id none = { .inode = 4, .column = 0 };

    assert_bad(s, 0, 0);
    assert_int_equal(s->bytes, BYTES + 3 * CHECKSUMS_PAGE_BYTES);
    assert_int_equal(store_scrub(s->f.store, none, 0, s->room, &found, NULL), 0);
    assert_false(found.exists);
    assert_true(found.next == UINT64_MAX);
    assert_int_equal(store_scrub(s->f.store, ID, 64 * GROUP_BYTES, s->room, &found, NULL), 0);
    assert_true(found.exists && found.next == UINT64_MAX); /* It became shorter. */
    assert_int_equal(s->f.lines, 0);
}

static void damage_is_found(void **state)
{
    struct scrubs *s = *state;

    fixture_flip(s->path, CHECKSUMS_PAGE_BYTES + 5 * BLOCK_BYTES + 100);
    fixture_flip(s->path, CHECKSUMS_PAGE_BYTES + 7 * BLOCK_BYTES + 100);
    assert_bad(s, 2, 5);
    fixture_flip(s->path, place_of_byte(BYTES - 1)); /* The last block is not whole. */
    assert_bad(s, 3, 5);
    fixture_close(&s->f); /* The store has the checksums in memory otherwise. */
    fixture_flip(s->path, place_of_group(1) + CHECKSUMS_AT + 9 * sizeof(struct store_sum));
    fixture_open(&s->f);
    assert_bad(s, 4, 5);
    fixture_flip(s->path, 8); /* The header, of an object that is not open. */
    fixture_close(&s->f);
    fixture_open(&s->f);
    {
        struct store_scrubbed found;
        struct errmsg err;

        assert_int_equal(store_scrub(s->f.store, ID, 0, s->room, &found, &err), MORSEL_CORRUPT);
    }
}

static void what_was_cut_off_is_damage(void **state)
{
    const struct object_id other = { .inode = 8, .column = 1 };
    struct scrubs *s = *state;
    uint64_t first;

    assert_int_equal(truncate(s->path, (off_t)place_of_byte(GROUP_BYTES)), 0);
    assert_bad(s, GROUP_BLOCKS + 4, GROUP_BLOCKS);
    assert_int_equal(fixture_write(&s->f, other, 0, s->good, BYTES), 0);
    fixture_path(&s->f, other,
                 s->path); /* With the checksums, so that it seems to end in a hole. */
    assert_int_equal(truncate(s->path, (off_t)place_of_group(1)), 0);
    assert_int_equal(scrub(s, other, &first), GROUP_BLOCKS + 4);
}

/* A block is punched out behind the store's back: its checksum is still there. */
static void holes_are_passed_over_and_gaps_are_not(void **state)
{
    struct scrubs *s = *state;
    const struct object_id holes = { .inode = 9, .column = 0 };
    uint64_t first;
    int fd;

    assert_int_equal(fixture_write(&s->f, holes, UINT64_C(1) << 40, s->good, 100), 0);
    assert_int_equal(fixture_write(&s->f, holes, 5 * GROUP_BYTES, s->good, 100), 0);
    assert_int_equal(scrub(s, holes, &first), 0);
    assert_true(s->bytes <= 4 * GROUP_SPAN); /* Of a tebibyte. */
    fd = open(s->path, O_RDWR);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               (off_t)place_of_byte(GROUP_BYTES), GROUP_BYTES),
                     0);
    close(fd);
    assert_bad(s, GROUP_BLOCKS, GROUP_BLOCKS);
}

static size_t cached_pages(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    unsigned char *pages;
    size_t count, cached = 0;
    void *map;

    assert_int_equal(fstat(fd, &st), 0);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    count = ((size_t)st.st_size + PAGE - 1) / PAGE;
    pages = calloc(count, 1);
    CHECK(map != MAP_FAILED && pages != NULL);
    assert_int_equal(mincore(map, (size_t)st.st_size, pages), 0);
    for (size_t i = 0; i < count; i++) {
        cached += pages[i] & 1;
    }
    munmap(map, (size_t)st.st_size);
    free(pages);
    close(fd);
    return cached;
}

static void drop_cached(const char *path)
{
    int fd = open(path, O_RDONLY);

    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

/* What the kernel had it has, and nothing else. */
static void the_cache_stays_as_it_was(void **state)
{
    struct scrubs *s = *state;
    size_t had;

    drop_cached(s->path);
    if (cached_pages(s->path) != 0) {
        skip(); /* A file system without a disk. */
    }
    assert_bad(s, 0, 0);
    assert_int_equal(cached_pages(s->path), 0);
    assert_int_equal(fixture_read(&s->f, ID, GROUP_BYTES + 50 * BLOCK_BYTES, s->is, BLOCK_BYTES),
                     0);
    had = cached_pages(s->path);
    assert_true(had > 0);
    assert_bad(s, 0, 0);
    assert_int_equal(cached_pages(s->path), had);
}

/* With sixteen descriptors: a hundred objects are read, and those that a client uses stay open. */
static void the_table_stays_as_it_was(void **state)
{
    struct scrubs *s = *state;
    struct object_id id = { .inode = 100, .column = 0 };
    uint32_t crcs[2];
    uint64_t first;
    size_t count;

    for (; id.inode < 200; id.inode++) {
        assert_int_equal(fixture_write(&s->f, id, 0, s->good, 10), 0);
    }
    fixture_close(&s->f);
    s->f.options.open_files_max = 16;
    fixture_open(&s->f);
    for (id.inode = 100; id.inode < 112; id.inode++) {
        assert_int_equal(fixture_read(&s->f, id, 0, s->is, 10), 0);
    }
    for (id.inode = 112; id.inode < 200; id.inode++) {
        assert_int_equal(scrub(s, id, &first), 0);
    }
    for (id.inode = 100; id.inode < 112;
         id.inode++) { /* It gives up where it would have to open. */
        assert_int_equal(store_read_cached(s->f.store, id, 0, s->is, 10, &count, crcs), 0);
        assert_int_equal(count, 10);
    }
}

/* ---- Races ---- */

struct changer
{
    struct scrubs *s;
    atomic_bool stop;
    _Atomic uint64_t changes;
};

static const struct object_id BUSY = { .inode = 77, .column = 0 };

static void *change(void *data)
{
    struct changer *c = data;
    struct prng prng;

    prng_seed(&prng, 11);
    while (!atomic_load(&c->stop)) {
        uint64_t at = prng_below(&prng, GROUP_BYTES + GROUP_BYTES / 2);
        size_t count = 1 + (size_t)prng_below(&prng, 3 * BLOCK_BYTES);

        switch (prng_below(&prng, 12)) {
        case 0:
            CHECK(store_truncate(c->s->f.store, BUSY, at, NULL, NULL) == 0);
            break;
        case 1:
            CHECK(store_delete(c->s->f.store, BUSY, NULL) == 0);
            break;
        case 2:
            CHECK(store_punch(c->s->f.store, BUSY, at, count, NULL, NULL) == 0);
            break;
        default:
            CHECK(fixture_write(&c->s->f, BUSY, at, c->s->good + at % 1000, count) == 0);
        }
        c->changes++;
    }
    return NULL;
}

static void what_is_changed_meanwhile_is_no_damage(void **state)
{
    struct scrubs *s = *state;
    struct changer c = { .s = s };
    pthread_t thread;
    uint64_t first;
    unsigned large = 0;

    assert_int_equal(pthread_create(&thread, NULL, change, &c), 0);
    while (atomic_load(&c.changes) < 2000 || large < 20) {
        assert_int_equal(scrub(s, BUSY, &first), 0);
        if (s->bytes > GROUP_SPAN) {
            large++; /* Of two groups: one step behind the other. */
        }
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(s->f.lines, 0);
}

/* Another kernel finds an object of which some of a write is missing: that is no damage, and under the same one it is. */
static void what_a_crash_left_is_no_damage(void **state)
{
    struct scrubs *s = *state;

    fixture_crash(&s->f);
    fixture_path(&s->f, ID, s->path);
    assert_bad(s, 0, 0);
    fixture_flip(s->path, CHECKSUMS_PAGE_BYTES + 200 * BLOCK_BYTES + 100);
    assert_bad(s, 1, 200);
    assert_int_equal(fixture_write(&s->f, ID, 0, s->good, BYTES), 0);
    assert_bad(s, 0, 0);
    s->f.options.boot_id = 2;
    fixture_crash(&s->f);
    fixture_path(&s->f, ID, s->path);
    fixture_flip(s->path, CHECKSUMS_PAGE_BYTES + 200 * BLOCK_BYTES + 100);
    assert_bad(s, 0, 0);
}

/* Blocks are damage, for another copy may have them. Checksums, and the header, without which there is nothing of it, are lost for
 * good, where a failure of another kind may go by. */
static void what_the_disk_does_not_give_is_unreadable(void **state)
{
    struct scrubs *s = *state;
    struct store_scrubbed found;
    struct errmsg err;

    refused_from = place_of_group(1) + CHECKSUMS_PAGE_BYTES + 5 * BLOCK_BYTES;
    refused_to = refused_from + BLOCK_BYTES;
    assert_int_equal(store_scrub(s->f.store, ID, 0, s->room, &found, &err), 0);
    assert_false(found.unreadable);
    assert_int_equal(store_scrub(s->f.store, ID, found.next, s->room, &found, &err), 0);
    assert_false(found.unreadable);
    assert_int_equal(found.damage.start, GROUP_BYTES + 5 * BLOCK_BYTES);
    assert_int_equal(found.damage.blocks, 1);
    assert_int_equal(found.damage.unreadable, 1);
    for (int cached = 1; cached >= 0; cached--) {
        refused_from = place_of_group(1) + CHECKSUMS_AT;
        refused_to = place_of_group(1) + CHECKSUMS_PAGE_BYTES;
        assert_int_equal(store_scrub(s->f.store, ID, GROUP_BYTES, s->room, &found, &err),
                         MORSEL_IO);
        assert_true(found.unreadable);
        fixture_close(&s->f);
        refused_from = refused_to = 0;
        fixture_open(&s->f);
        assert_int_equal(store_scrub(s->f.store, ID, 0, s->room, &found, &err), 0);
        refused_from = place_of_group(1) + CHECKSUMS_AT;
        refused_to = place_of_group(1) + CHECKSUMS_PAGE_BYTES;
    }
    assert_int_equal(store_scrub(s->f.store, ID, GROUP_BYTES, s->room, &found, &err), MORSEL_IO);
    assert_int_equal(store_scrub(s->f.store, ID, found.next, s->room, &found, &err), 0);
    assert_true(found.next == UINT64_MAX);
    fixture_close(&s->f);
    refused_from = refused_to = 0;
    fixture_open(&s->f);
    refused_to = 1;
    assert_int_equal(store_scrub(s->f.store, ID, 0, s->room, &found, &err), MORSEL_IO);
    assert_true(found.unreadable);
    assert_true(found.next == UINT64_MAX);
    refused_to = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_good_is_read_once),
        TEST(damage_is_found),
        TEST(what_was_cut_off_is_damage),
        TEST(holes_are_passed_over_and_gaps_are_not),
        TEST(the_cache_stays_as_it_was),
        TEST(the_table_stays_as_it_was),
        TEST(what_is_changed_meanwhile_is_no_damage),
        TEST(what_a_crash_left_is_no_damage),
        TEST(what_the_disk_does_not_give_is_unreadable),
    };

    return cmocka_run_group_tests_name("store_scrub", tests, NULL, NULL);
}
