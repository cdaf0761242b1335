/* Damage that another copy mends: what is bad gets the other one's bytes, and nothing else does; and a file
 * that was cut behind the store's back is damage, never zeros. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/bad_sectors.h"
#include "tests/lib/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = GROUP_BYTES + 3 * BLOCK_BYTES + 100, BLOCKS = GROUP_BLOCKS + 4 };

static const struct object_id ID = { .inode = 3, .column = 1 };

struct mending
{
    struct store_fixture f;
    char path[512];
    uint8_t good[BYTES], other[BYTES], is[BYTES];
};

static int begin(void **state)
{
    struct mending *m = calloc(1, sizeof(*m));

    CHECK(m != NULL);
    sectors_forget();
    fixture_init(&m->f);
    fixture_open(&m->f);
    for (size_t i = 0; i < BYTES; i++) {
        m->good[i] = (uint8_t)(i / 7 + i / BLOCK_BYTES + 1);
    }
    assert_int_equal(fixture_write(&m->f, ID, 0, m->good, BYTES), 0);
    fixture_path(&m->f, ID, m->path);
    *state = m;
    return 0;
}

static int end(void **state)
{
    struct mending *m = *state;

    fixture_free(&m->f);
    free(m);
    return 0;
}

static void assert_good(struct mending *m)
{
    assert_int_equal(fixture_read(&m->f, ID, 0, m->is, BYTES), 0);
    assert_memory_equal(m->is, m->good, BYTES);
}

static void find(struct mending *m, uint64_t start, uint64_t end, uint64_t blocks)
{
    struct store_damage damage;

    assert_int_equal(store_find_damage(m->f.store, ID, 0, BYTES, &damage, NULL), 0);
    assert_int_equal(damage.blocks, blocks);
    if (blocks > 0) {
        assert_int_equal(damage.start, start);
        assert_int_equal(damage.end, end);
    }
}

static void what_is_bad_is_mended_and_nothing_else(void **state)
{
    struct mending *m = *state;
    struct store_damage mended;

    find(m, 0, 0, 0);
    fixture_flip(m->path, CHECKSUMS_PAGE_BYTES + 5 * BLOCK_BYTES + 100);
    fixture_flip(m->path, GROUP_SPAN + CHECKSUMS_PAGE_BYTES + 3 * BLOCK_BYTES + 17);
    fixture_close(&m->f);
    fixture_flip(m->path, CHECKSUMS_AT + 9 * sizeof(struct store_sum));
    fixture_open(&m->f);
    fixture_flip(m->path, CHECKSUMS_PAGE_BYTES + 6 * BLOCK_BYTES);
    find(m, 5 * BLOCK_BYTES, 7 * BLOCK_BYTES, 2); /* The others are found behind them. */
    assert_int_equal(fixture_read(&m->f, ID, 0, m->is, BYTES), MORSEL_CHECKSUM);

    /* What it has elsewhere is older than what is here. */
    memset(m->other, 0xee, BYTES);
    memcpy(m->other + 5 * BLOCK_BYTES, m->good + 5 * BLOCK_BYTES, 2 * BLOCK_BYTES);
    memcpy(m->other + 9 * BLOCK_BYTES, m->good + 9 * BLOCK_BYTES, BLOCK_BYTES);
    assert_int_equal(store_mend(m->f.store, ID, 4 * BLOCK_BYTES, 8 * BLOCK_BYTES,
                                m->other + 4 * BLOCK_BYTES, 8 * BLOCK_BYTES, &mended, NULL),
                     0);
    assert_int_equal(mended.blocks, 3);
    assert_int_equal(mended.start, 5 * BLOCK_BYTES);
    assert_int_equal(mended.end, 10 * BLOCK_BYTES);
    find(m, (BLOCKS - 1) * BLOCK_BYTES, BLOCKS * BLOCK_BYTES, 1);
    assert_int_equal(store_mend(m->f.store, ID, (BLOCKS - 1) * BLOCK_BYTES, BLOCK_BYTES,
                                m->good + (size_t)(BLOCKS - 1) * BLOCK_BYTES, 100, &mended, NULL),
                     0);
    assert_int_equal(mended.blocks, 1);
    assert_good(m);
    fixture_close(&m->f);
    fixture_open(&m->f);
    assert_good(m);
}

/* What is written behind the end changes a part of the last block: who looks for what is in its way finds that. */
static void what_is_in_the_way_of_an_append_is_found(void **state)
{
    struct mending *m = *state;
    struct store_damage damage;

    assert_int_equal(store_spoil(m->f.store, ID, BYTES - 1, 1, NULL), 0);
    assert_int_equal(fixture_write(&m->f, ID, BYTES + 8, m->good, 8), MORSEL_CHECKSUM);
    assert_int_equal(store_find_damage(m->f.store, ID, BYTES + 8, 1, &damage, NULL), 0);
    assert_int_equal(damage.blocks, 1);
    assert_int_equal(damage.start, (BLOCKS - 1) * BLOCK_BYTES);
    assert_int_equal(damage.end, BLOCKS * BLOCK_BYTES);
    assert_int_equal(store_find_damage(m->f.store, ID, BLOCKS * BLOCK_BYTES, 1, &damage, NULL), 0);
    assert_int_equal(damage.blocks, 0); /* A block of its own. */
    assert_int_equal(store_mend(m->f.store, ID, (BLOCKS - 1) * BLOCK_BYTES, BLOCK_BYTES,
                                m->good + (size_t)(BLOCKS - 1) * BLOCK_BYTES, 100, &damage, NULL),
                     0);
    assert_int_equal(fixture_write(&m->f, ID, BYTES + 8, m->good, 8), 0);
    assert_good(m);
}

/* Who mends late: the block was written anew, or is gone. */
static void what_was_written_meanwhile_stays(void **state)
{
    struct mending *m = *state;
    struct store_damage mended;

    fixture_flip(m->path, CHECKSUMS_PAGE_BYTES + 5 * BLOCK_BYTES + 100);
    find(m, 5 * BLOCK_BYTES, 6 * BLOCK_BYTES, 1);
    memcpy(m->other, m->good, BYTES);
    memset(m->good + 5 * BLOCK_BYTES, 0x77, BLOCK_BYTES);
    assert_int_equal(
        fixture_write(&m->f, ID, 5 * BLOCK_BYTES, m->good + 5 * BLOCK_BYTES, BLOCK_BYTES), 0);
    assert_int_equal(store_mend(m->f.store, ID, 5 * BLOCK_BYTES, BLOCK_BYTES,
                                m->other + 5 * BLOCK_BYTES, BLOCK_BYTES, &mended, NULL),
                     0);
    assert_int_equal(mended.blocks, 0);
    assert_good(m);
    assert_int_equal(store_truncate(m->f.store, ID, 3 * BLOCK_BYTES, NULL, NULL), 0);
    assert_int_equal(store_mend(m->f.store, ID, 5 * BLOCK_BYTES, BLOCK_BYTES,
                                m->other + 5 * BLOCK_BYTES, BLOCK_BYTES, &mended, NULL),
                     0);
    assert_int_equal(mended.blocks, 0);
    assert_int_equal(fixture_read(&m->f, ID, 5 * BLOCK_BYTES, m->is, BLOCK_BYTES), 0);
    assert_int_equal(m->is[0], 0);
    assert_int_equal(store_delete(m->f.store, ID, NULL), 0);
    assert_int_equal(
        store_mend(m->f.store, ID, 0, BLOCK_BYTES, m->other, BLOCK_BYTES, &mended, NULL), 0);
    assert_int_equal(mended.blocks, 0);
}

/* What is damaged is no zeros, also to who looks for them. */
static void assert_no_hole(struct mending *m)
{
    uint64_t at;
    bool found;

    for (uint64_t block = 0; block < BLOCKS; block += 7) {
        assert_int_equal(
            store_seek(m->f.store, ID, block * BLOCK_BYTES + 9, false, &found, &at, NULL), 0);
        assert_true(found);
        assert_int_equal(at, block * BLOCK_BYTES + 9);
    }
    assert_int_equal(store_seek(m->f.store, ID, 0, true, &found, &at, NULL), 0);
    assert_int_equal(at, BYTES);
}

/* The file is cut to `length` behind the store's back; a read, or first a change elsewhere, sees that. */
static void cut(struct mending *m, uint64_t length, bool change_first)
{
    uint64_t kept =
        length < CHECKSUMS_PAGE_BYTES ? 0 : (length - CHECKSUMS_PAGE_BYTES) / BLOCK_BYTES;
    struct store_damage mended;

    assert_int_equal(truncate(m->path, (off_t)length), 0);
    if (change_first) {
        assert_int_equal(fixture_write(&m->f, ID, BYTES - 100, m->good + BYTES - 100, 50),
                         MORSEL_CHECKSUM);
    }
    for (uint64_t block = kept; block < BLOCKS - 1; block += 50) {
        assert_int_equal(fixture_read(&m->f, ID, block * BLOCK_BYTES, m->is, 10), MORSEL_CHECKSUM);
    }
    find(m, kept * BLOCK_BYTES, BLOCKS * BLOCK_BYTES, BLOCKS - kept);
    assert_no_hole(m);
    fixture_close(&m->f);
    fixture_open(&m->f);
    find(m, kept * BLOCK_BYTES, BLOCKS * BLOCK_BYTES, BLOCKS - kept);
    assert_int_equal(store_mend(m->f.store, ID, 0, BYTES, m->good, BYTES, &mended, NULL), 0);
    assert_int_equal(mended.blocks, BLOCKS - kept);
    assert_good(m);
}

static void what_is_spoiled_is_damage(void **state)
{
    struct mending *m = *state;
    uint64_t at;
    bool found;

    assert_int_equal(store_punch(m->f.store, ID, 5 * BLOCK_BYTES, 20 * BLOCK_BYTES, NULL, NULL), 0);
    assert_int_equal(store_spoil(m->f.store, ID, 7 * BLOCK_BYTES + 1, BLOCK_BYTES, NULL), 0);
    find(m, 7 * BLOCK_BYTES, 9 * BLOCK_BYTES, 2);
    assert_int_equal(store_seek(m->f.store, ID, 6 * BLOCK_BYTES, false, &found, &at, NULL), 0);
    assert_true(found && at == 7 * BLOCK_BYTES);
    assert_int_equal(store_seek(m->f.store, ID, at, true, &found, &at, NULL), 0);
    assert_int_equal(at, 9 * BLOCK_BYTES);
    assert_int_equal(store_seek(m->f.store, ID, at, false, &found, &at, NULL), 0);
    assert_int_equal(at, 25 * BLOCK_BYTES);
    fixture_close(&m->f);
    fixture_open(&m->f);
    assert_int_equal(fixture_read(&m->f, ID, 8 * BLOCK_BYTES, m->is, 10), MORSEL_CHECKSUM);
    assert_int_equal(store_spoil(m->f.store, ID, BYTES - 10, GROUP_BYTES, NULL), 0);
    assert_int_equal(fixture_read(&m->f, ID, BYTES - 100, m->is, 10), MORSEL_CHECKSUM);
    assert_int_equal(fixture_write(&m->f, ID, 0, m->good, BYTES), 0);
    assert_good(m);
    assert_int_equal(store_spoil(m->f.store, ID, 2 * GROUP_BYTES, BLOCK_BYTES, NULL), 0);
    assert_good(m);
}

/* Of what another copy has damaged, this one keeps what is the same: in each group, at the end, and a hole. */
static void what_is_as_it_is_to_be_is_not_spoiled(void **state)
{
    struct mending *m = *state;
    uint32_t sums[BLOCKS + 1], wanted[BLOCKS];
    struct store_damage damage;
    uint64_t kept;

    assert_int_equal(store_punch(m->f.store, ID, 7 * BLOCK_BYTES, BLOCK_BYTES, NULL, NULL), 0);
    memset(m->good + 7 * BLOCK_BYTES, 0, BLOCK_BYTES);
    assert_int_equal(store_sums(m->f.store, ID, 0, BYTES + BLOCK_BYTES, sums, NULL), 0);
    assert_int_equal(sums[BLOCKS], 0);
    memcpy(wanted, sums, sizeof(wanted));
    wanted[3]++;
    wanted[BLOCKS - 2]++;
    fixture_flip(m->path, CHECKSUMS_PAGE_BYTES + 5 * BLOCK_BYTES);
    assert_int_equal(store_spoil_others(m->f.store, ID, 2 * BLOCK_BYTES, BYTES - 2 * BLOCK_BYTES,
                                        wanted + 2, &kept, NULL),
                     0);
    assert_int_equal(kept, BLOCKS - 2 - 3);
    find(m, 3 * BLOCK_BYTES, 4 * BLOCK_BYTES, 1);
    assert_int_equal(store_mend(m->f.store, ID, 0, BYTES, m->good, BYTES, &damage, NULL), 0);
    assert_int_equal(damage.blocks, 3);
    assert_good(m);
    assert_int_equal(store_sums(m->f.store, ID, 0, BYTES, wanted, NULL), 0);
    assert_memory_equal(wanted, sums, sizeof(wanted));
}

/* Whatever ended the daemon: a crash is no explanation for what was never there. */
static void what_is_spoiled_no_crash_explains(void **state)
{
    struct mending *m = *state;

    for (unsigned machine = 0; machine < 2; machine++) {
        assert_int_equal(store_spoil(m->f.store, ID, 7 * BLOCK_BYTES, BLOCK_BYTES, NULL), 0);
        m->f.options.boot_id += machine;
        fixture_crash(&m->f);
        assert_int_equal(fixture_read(&m->f, ID, 7 * BLOCK_BYTES, m->is, 10), MORSEL_CHECKSUM);
        find(m, 7 * BLOCK_BYTES, 8 * BLOCK_BYTES, 1);
    }
}

static void a_file_that_was_cut_is_damage(void **state)
{
    struct mending *m = *state;

    for (int change_first = 0; change_first < 2; change_first++) {
        cut(m, CHECKSUMS_PAGE_BYTES + 10 * BLOCK_BYTES + 5, change_first != 0);
        cut(m, 0, change_first != 0);
        cut(m, CHECKSUMS_AT + 100, change_first != 0);
    }
}

static void lose(const struct mending *m, uint64_t block)
{
    sector_lose(m->path, place_of_byte(block * BLOCK_BYTES));
}

static int change(struct mending *m, uint64_t offset, size_t count)
{
    return fixture_write(&m->f, ID, offset, m->good + offset, count);
}

/* The other bytes can be had; it is mended, and written as a whole it is good, too. So is the block in which the object ends, of which
 * only a part is written. */
static void what_the_disk_does_not_give_is_damage(void **state)
{
    struct mending *m = *state;
    struct store_damage damage;

    lose(m, 5);
    fixture_flip(m->path, CHECKSUMS_PAGE_BYTES + 6 * BLOCK_BYTES);
    lose(m, 9);
    lose(m, BLOCKS - 1);
    assert_int_equal(fixture_read(&m->f, ID, 0, m->is, BYTES), MORSEL_CHECKSUM);
    assert_int_equal(m->f.lines, 4);
    assert_non_null(strstr(m->f.last_line, "blocks 5 to 5 cannot be read from the disk"));
    assert_int_equal(fixture_read(&m->f, ID, 6 * BLOCK_BYTES, m->is, 10), MORSEL_CHECKSUM);
    assert_int_equal(fixture_read(&m->f, ID, 7 * BLOCK_BYTES, m->is, 2 * BLOCK_BYTES), 0);
    assert_int_equal(change(m, 5 * BLOCK_BYTES + 10, 10), MORSEL_CHECKSUM);
    assert_int_equal(store_truncate(m->f.store, ID, 9 * BLOCK_BYTES + 1, NULL, NULL),
                     MORSEL_CHECKSUM);
    assert_int_equal(store_punch(m->f.store, ID, 9 * BLOCK_BYTES + 1, 10, NULL, NULL),
                     MORSEL_CHECKSUM);
    assert_int_equal(store_find_damage(m->f.store, ID, 0, BYTES, &damage, NULL), 0);
    assert_int_equal(damage.start, 5 * BLOCK_BYTES);
    assert_int_equal(damage.blocks, 2);
    assert_int_equal(damage.unreadable, 1);
    assert_int_equal(change(m, 9 * BLOCK_BYTES, BLOCK_BYTES), 0);
    assert_int_equal(store_mend(m->f.store, ID, 0, BYTES, m->good, BYTES, &damage, NULL), 0);
    assert_int_equal(damage.blocks, 3);
    assert_int_equal(damage.unreadable, 2);
    assert_int_equal(sectors_lost(), 0);
    find(m, 0, 0, 0);
    assert_good(m);
    lose(m, 3);
    assert_int_equal(store_punch(m->f.store, ID, 3 * BLOCK_BYTES, BLOCK_BYTES, NULL, NULL), 0);
    memset(m->good + 3 * BLOCK_BYTES, 0, BLOCK_BYTES);
    assert_good(m);
}

/* A disk that takes nothing in its place has failed, and all else stays as it was. */
static void what_the_disk_does_not_take_either_is_its_failure(void **state)
{
    struct mending *m = *state;
    struct store_damage damage;

    lose(m, 5);
    sectors_stay = true;
    assert_int_equal(store_mend(m->f.store, ID, 0, BYTES, m->good, BYTES, &damage, NULL),
                     MORSEL_IO);
    assert_int_equal(change(m, 4 * BLOCK_BYTES, 3 * BLOCK_BYTES), MORSEL_IO);
    find(m, 5 * BLOCK_BYTES, 6 * BLOCK_BYTES, 1);
    sectors_stay = false;
    assert_int_equal(store_mend(m->f.store, ID, 0, BYTES, m->good, BYTES, &damage, NULL), 0);
    assert_good(m);
}

/* Behind a crash of either kind the others are judged, and it is damage that no crash explains. */
static void what_the_disk_does_not_give_no_crash_explains(void **state)
{
    struct mending *m = *state;
    struct store_damage damage;

    for (unsigned boot = 1; boot <= 2; boot++) {
        m->f.options.boot_id = boot;
        assert_int_equal(change(m, 4 * BLOCK_BYTES, 3 * BLOCK_BYTES), 0);
        fixture_crash(&m->f);
        fixture_path(&m->f, ID, m->path);
        lose(m, 5);
        assert_int_equal(fixture_read(&m->f, ID, 5 * BLOCK_BYTES, m->is, 10), MORSEL_CHECKSUM);
        assert_int_equal(store_checkpoint(m->f.store, 0, NULL), 0);
        find(m, 5 * BLOCK_BYTES, 6 * BLOCK_BYTES, 1);
        assert_int_equal(store_mend(m->f.store, ID, 0, BYTES, m->good, BYTES, &damage, NULL), 0);
        assert_int_equal(damage.blocks, 1);
        assert_good(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_bad_is_mended_and_nothing_else, begin, end),
        cmocka_unit_test_setup_teardown(what_is_in_the_way_of_an_append_is_found, begin, end),
        cmocka_unit_test_setup_teardown(what_was_written_meanwhile_stays, begin, end),
        cmocka_unit_test_setup_teardown(what_is_spoiled_is_damage, begin, end),
        cmocka_unit_test_setup_teardown(what_is_as_it_is_to_be_is_not_spoiled, begin, end),
        cmocka_unit_test_setup_teardown(what_is_spoiled_no_crash_explains, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_was_cut_is_damage, begin, end),
        cmocka_unit_test_setup_teardown(what_the_disk_does_not_give_is_damage, begin, end),
        cmocka_unit_test_setup_teardown(what_the_disk_does_not_take_either_is_its_failure, begin,
                                        end),
        cmocka_unit_test_setup_teardown(what_the_disk_does_not_give_no_crash_explains, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
