/* Blocks that a disk gives back wrong, or not at all: who has them asks the other copy and mends its own, for reads and for
 * changes of a part of them, whoever orders; what no copy has is an error, and closes nothing. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/bad_sectors.h"
#include "tests/lib/copy_bench.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECT = 9, BLOCKS = PART / BLOCK_BYTES };

static bool mend_fails; /* No disk takes what is to be repaired. */
static bool no_bytes;   /* Damage is a sector that the disk does not give. */

int __wrap_store_mend(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                      const uint8_t *bytes, size_t count, struct store_damage *mended,
                      struct errmsg *err);
int __real_store_mend(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                      const uint8_t *bytes, size_t count, struct store_damage *mended,
                      struct errmsg *err);

int __wrap_store_mend(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                      const uint8_t *bytes, size_t count, struct store_damage *mended,
                      struct errmsg *err)
{
    if (mend_fails) {
        *mended = (struct store_damage){ .blocks = 0 };
        errmsg_set(err, "the test wants it so");
        return MORSEL_IO;
    }
    return __real_store_mend(store, id, offset, length, bytes, count, mended, err);
}

struct damages
{
    struct bench *b;
    uint8_t good[PART];
    struct asked asked;
};

static int begin(void **state)
{
    struct damages *d = calloc(1, sizeof(*d));
    void *bench;

    CHECK(d != NULL);
    if (bench_begin(&bench) != 0) {
        free(d);
        return -1;
    }
    d->b = bench;
    mend_fails = false;
    sectors_forget();
    for (size_t i = 0; i < PART; i++) {
        d->good[i] = (uint8_t)(i / 5 + i / BLOCK_BYTES + 1);
    }
    assert_int_equal(bench_write_on(d->b, OBJECT, 0, d->good, PART), 0);
    *state = d;
    return 0;
}

static int end(void **state)
{
    struct damages *d = *state;
    void *bench = d->b;
    int rv = bench_end(&bench);

    free(d);
    return rv;
}

/* A bit of that block is another one on the disk of member `i`, or none of it can be had. */
static void damage(struct damages *d, uint32_t i, uint32_t block)
{
    struct object_id id = bench_object(OBJECT);
    char command[512], path[256] = "";
    uint8_t byte;
    FILE *found;
    int fd;

    snprintf(command, sizeof(command), "find %s/objects -name '%016lx.*'", d->b->nodes[i].dir,
             (unsigned long)id.inode);
    found = popen(command, "r");
    CHECK(found != NULL && fgets(path, sizeof(path), found) != NULL && pclose(found) == 0);
    path[strcspn(path, "\n")] = '\0';
    if (no_bytes) {
        sector_lose(path, CHECKSUMS_PAGE_BYTES + block * BLOCK_BYTES);
        return;
    }
    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, CHECKSUMS_PAGE_BYTES + block * BLOCK_BYTES + 77) == 1);
    byte ^= 0x10;
    CHECK(pwrite(fd, &byte, 1, CHECKSUMS_PAGE_BYTES + block * BLOCK_BYTES + 77) == 1);
    close(fd);
}

static int read_all(struct damages *d, uint32_t i)
{
    bench_ask_read(d->b, i, &d->asked, OBJECT, PART);
    UNTIL(d->b, d->asked.answered);
    return d->asked.status;
}

static uint64_t epoch_of(const struct damages *d, uint32_t i)
{
    return copy_replica(d->b->nodes[i].copy)->group.record.epoch;
}

/* On a busy machine the other one may be left behind for a moment: then nobody else has a damaged block. */
static void assert_reads(struct damages *d, uint32_t i)
{
    uint64_t epoch;

    do {
        epoch = epoch_of(d, i);
    } while (read_all(d, i) == MORSEL_CHECKSUM && epoch_of(d, i) != epoch);
    assert_int_equal(d->asked.status, 0);
    assert_int_equal(d->asked.count, PART);
    assert_memory_equal(d->asked.bytes, d->good, PART);
}

/* The store of that member has it as it should be, and nobody is closed. */
static void assert_good(struct damages *d, uint32_t i)
{
    static uint8_t bytes[PART];
    uint32_t crcs[BLOCKS];
    struct errmsg err;
    size_t count;

    assert_null(copy_trouble(d->b->nodes[i].copy));
    assert_int_equal(store_read(d->b->nodes[i].server.store, bench_object(OBJECT), 0, bytes, PART,
                                &count, crcs, &err),
                     0);
    assert_int_equal(count, PART);
    assert_memory_equal(bytes, d->good, PART);
}

/* A part of a block is changed. */
static int change(struct damages *d, uint32_t block, uint8_t value)
{
    uint32_t i = bench_orders(d->b, 0) ? 0 : 1;
    uint8_t bytes[100];
    int status;

    memset(bytes, value, sizeof(bytes));
    status = bench_write_as(d->b, i, OBJECT, block * BLOCK_BYTES + 500, bytes, sizeof(bytes),
                            ++d->b->number);
    if (status == 0) {
        memcpy(d->good + (size_t)block * BLOCK_BYTES + 500, bytes, sizeof(bytes));
    }
    return status;
}

static uint64_t mended(const struct damages *d, uint32_t i)
{
    return d->b->nodes[i].server.blocks_mended;
}

static void a_read_is_answered_by_the_other_copy(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    damage(d, 0, 4);
    damage(d, 0, 9);
    damage(d, 1, 7); /* Each of them has what the other one lacks. */
    assert_reads(d, 0);
    assert_good(d, 0);
    assert_int_equal(mended(d, 0), 3);
    assert_int_equal(mended(d, 1), 0);
    bench_kill(d->b, 0);
    UNTIL(d->b, bench_orders(d->b, 1));
    assert_int_equal(read_all(d, 1), MORSEL_CHECKSUM);
    assert_null(copy_trouble(d->b->nodes[1].copy));
}

static void a_change_of_a_part_is_done_on_both(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    assert_int_equal(change(d, 3, 0x11), 0);
    assert_good(d, 0);
    assert_good(d, 1);
    damage(d, 1, 5);
    assert_int_equal(change(d, 5, 0x22), 0);
    assert_good(d, 0);
    assert_good(d, 1);
    assert_int_equal(mended(d, 0), 1);
    assert_int_equal(mended(d, 1), 1);
    damage(d, 0, 6);
    damage(d, 1, 6);
    memset(d->good + 6 * BLOCK_BYTES, 0x33,
           BLOCK_BYTES); /* As a whole it needs nothing of before. */
    assert_int_equal(
        bench_write_on(d->b, OBJECT, 6 * BLOCK_BYTES, d->good + 6 * BLOCK_BYTES, BLOCK_BYTES), 0);
    assert_reads(d, 0);
    assert_good(d, 1);
    assert_int_equal(mended(d, 0), 1);
    damage(d, 1, BLOCKS - 1);
    assert_int_equal(bench_truncate(d->b, 0, OBJECT, PART - 10), 0);
    assert_int_equal(mended(d, 1), 2);
    bench_assert_same(d->b, OBJECT);
}

static int copy_all(struct damages *d)
{
    const struct bench_copy copy = { .from = OBJECT, .to = OBJECT + 1, .length = PART };

    return bench_copy_as(d->b, 0, &copy, ++d->b->number);
}

/* Each member finds what is damaged of the bytes that it is to copy, and gets them from the other one. */
static void what_is_copied_is_repaired_first(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    damage(d, 1, 5);
    assert_int_equal(copy_all(d), 0);
    assert_good(d, 0);
    assert_good(d, 1);
    bench_assert_same(d->b, OBJECT + 1);
    assert_int_equal(mended(d, 0), 1);
    assert_int_equal(mended(d, 1), 1);
    assert_int_equal(d->b->nodes[0].server.blocks_lost, 0);
    damage(d, 0, 7);
    damage(d, 1, 7);
    memset(d->good, 0x44, 100);
    assert_int_equal(bench_write_on(d->b, OBJECT, 0, d->good, 100), 0);
    assert_int_equal(copy_all(d), MORSEL_CHECKSUM); /* By none, and nobody is closed. */
    assert_null(copy_trouble(d->b->nodes[0].copy));
    assert_null(copy_trouble(d->b->nodes[1].copy));
    bench_assert_same(d->b, OBJECT + 1);
    assert_int_equal(
        bench_write_on(d->b, OBJECT, 7 * BLOCK_BYTES, d->good + 7 * BLOCK_BYTES, BLOCK_BYTES), 0);
    assert_int_equal(copy_all(d), 0);
    bench_assert_same(d->b, OBJECT + 1);
}

static void what_no_copy_has_is_an_error(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    damage(d, 1, 3);
    assert_int_equal(read_all(d, 0), MORSEL_CHECKSUM);
    assert_int_equal(change(d, 3, 0x11), MORSEL_CHECKSUM);
    assert_true(d->b->nodes[0].server.blocks_lost > 0);
    assert_int_equal(change(d, 4, 0x22), 0); /* The rest goes on, */
    assert_null(copy_trouble(d->b->nodes[0].copy));
    assert_null(copy_trouble(d->b->nodes[1].copy));
    assert_int_equal(
        bench_write_on(d->b, OBJECT, 3 * BLOCK_BYTES, d->good + 3 * BLOCK_BYTES, BLOCK_BYTES), 0);
    assert_reads(d, 0); /* and what is written anew is good. */
    assert_good(d, 1);
}

/* One finds damage, and its disk does not take what the other one has: it has not carried out what the other one has,
 * and must not be taken for one that has. */
static void who_cannot_be_repaired_is_left_behind(void **state)
{
    struct damages *d = *state;
    uint8_t bytes[4 * BLOCK_BYTES];

    for (uint32_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(7 * i);
    }
    damage(d, 1, 3);
    mend_fails = true;
    assert_int_equal(bench_write_as(d->b, 0, OBJECT, 3 * BLOCK_BYTES + 500, bytes, sizeof(bytes),
                                    ++d->b->number),
                     0);
    memcpy(d->good + 3 * BLOCK_BYTES + 500, bytes, sizeof(bytes));
    UNTIL(d->b, copy_trouble(d->b->nodes[1].copy) != NULL);
    assert_reads(d, 0);
    mend_fails = false;
    bench_stop(d->b, 1);
    bench_start(d->b, 1);
    UNTIL(d->b, bench_in_sync(d->b));
    bench_assert_same(d->b, OBJECT);
    damage(d, 0, 5); /* Nor does a client hear of an error where somebody else has the bytes. */
    mend_fails = true;
    assert_int_equal(read_all(d, 0), MORSEL_NOT_HERE);
    assert_non_null(copy_trouble(d->b->nodes[0].copy));
    UNTIL(d->b, bench_serves(d->b, 1));
    assert_reads(d, 1);
}

/* The other one is away: what cannot be repaired is refused, and the rest goes on. */
static void a_change_that_must_wait_for_nobody_ends(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    bench_kill(d->b, 1);
    UNTIL(d->b, copy_replica(d->b->nodes[0].copy)->group.record.set == 1 && bench_orders(d->b, 0));
    assert_int_equal(change(d, 3, 0x11), MORSEL_CHECKSUM);
    assert_int_equal(change(d, 4, 0x22), 0);
    assert_int_equal(read_all(d, 0), MORSEL_CHECKSUM);
    assert_null(copy_trouble(d->b->nodes[0].copy));
}

/* It has just started, and belongs to the set still: who orders makes it equal before either serves. */
static void begin_again(struct damages *d, uint32_t i)
{
    bench_stop(d->b, i);
    bench_start(d->b, i);
    UNTIL(d->b, bench_in_sync(d->b));
    UNTIL(d->b, bench_serves(d->b, 1 - i));
    assert_null(copy_trouble(d->b->nodes[0].copy));
    assert_null(copy_trouble(d->b->nodes[1].copy));
}

/* What it is made equal to is damaged, and just what it has itself: that stays, and is what is damaged there. */
static void a_set_agrees_beside_damage(void **state)
{
    struct damages *d = *state;

    assert_int_equal(change(d, 8, 0x11), 0); /* All of the object may differ. */
    damage(d, 0, 3);
    damage(d, 0, 4);
    damage(d, 0, BLOCKS - 1);
    damage(d, 1, 6);
    begin_again(d, 1);
    assert_reads(d, 0);
    assert_good(d, 0);
    assert_good(d, 1);
    assert_int_equal(mended(d, 0), 3);
    assert_int_equal(d->b->nodes[0].server.blocks_lost, 0);
}

/* A change that one of them has never heard of when it begins again; and the block of it is damaged at the other one, with one beside it. */
static void change_and_damage(struct damages *d, struct asked *w, uint32_t offset, uint32_t count)
{
    d->b->deaf = true;
    d->b->lost_forwards = 0;
    memset(d->good + 3 * BLOCK_BYTES + offset, 0x55, count);
    bench_ask_write(d->b, 0, w, OBJECT, 3 * BLOCK_BYTES + offset,
                    d->good + 3 * BLOCK_BYTES + offset, count, ++d->b->number);
    UNTIL(d->b, d->b->lost_forwards > 1);
    damage(d, 0, 3);
    damage(d, 0, 7);
    bench_stop(d->b, 1);
    d->b->deaf = false;
    bench_start(d->b, 1);
    UNTIL(d->b, bench_in_sync(d->b) && bench_serves(d->b, 0) && w->answered);
    assert_null(copy_trouble(d->b->nodes[0].copy));
    assert_null(copy_trouble(d->b->nodes[1].copy));
}

/* The block is another one there than it is to be. The change that made it so comes again. */
static void a_set_agrees_on_what_is_changed(void **state)
{
    struct damages *d = *state;
    struct asked *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    change_and_damage(d, w, 0, BLOCK_BYTES);
    assert_int_equal(w->status, 0);
    assert_reads(d, 0);
    assert_good(d, 0);
    assert_good(d, 1);
    free(w);
}

/* It is of a part of the block, so nobody has all of what it is to be: that block is lost, and all else goes on. */
static void a_set_agrees_on_damage(void **state)
{
    struct damages *d = *state;
    struct asked *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    change_and_damage(d, w, 500, 100);
    assert_int_equal(read_all(d, 0), MORSEL_CHECKSUM);
    assert_int_equal(change(d, 7, 0x22), 0); /* It has this one still. */
    assert_int_equal(change(d, 3, 0x33), MORSEL_CHECKSUM);
    assert_int_equal(
        bench_write_on(d->b, OBJECT, 3 * BLOCK_BYTES, d->good + 3 * BLOCK_BYTES, BLOCK_BYTES), 0);
    assert_reads(d, 0);
    assert_good(d, 0);
    assert_good(d, 1);
    free(w);
}

/* The only complete copy has damage: the other one gets all else, and knows of the damage. What it has of that as it is to be stays. */
static void one_bad_block_does_not_keep_others_outside(void **state)
{
    struct damages *d = *state;

    bench_kill(d->b, 1);
    UNTIL(d->b, copy_replica(d->b->nodes[0].copy)->group.record.set == 1 && bench_orders(d->b, 0));
    for (uint32_t i = 0; i < PART; i += i % BLOCK_BYTES == 0 ? 1 : BLOCK_BYTES - 1) {
        d->good[i] ^= i / BLOCK_BYTES == 2 ? 0 : 0x80;
    }
    assert_int_equal(bench_write_on(d->b, OBJECT, 0, d->good, PART), 0);
    damage(d, 0, 2);
    damage(d, 0, 3);
    damage(d, 0, 4);
    damage(d, 0, BLOCKS - 1);
    bench_start(d->b, 1);
    UNTIL(d->b, bench_in_sync(d->b));
    UNTIL(d->b, bench_serves(d->b, 0));
    assert_int_equal(read_all(d, 0), MORSEL_CHECKSUM);
    bench_kill(d->b, 0);
    UNTIL(d->b, bench_orders(d->b, 1) && bench_serves(d->b, 1));
    assert_int_equal(read_all(d, 1), MORSEL_CHECKSUM);
    assert_int_equal(change(d, 3, 0x11), MORSEL_CHECKSUM);
    assert_int_equal(change(d, 5, 0x22), 0);
    assert_int_equal(
        bench_write_on(d->b, OBJECT, 3 * BLOCK_BYTES, d->good + 3 * BLOCK_BYTES, 2 * BLOCK_BYTES),
        0);
    assert_int_equal(
        bench_write_on(d->b, OBJECT, PART - BLOCK_BYTES, d->good + PART - BLOCK_BYTES, BLOCK_BYTES),
        0);
    assert_reads(d, 1); /* Nothing else was lost, */
    bench_start(d->b, 0);
    UNTIL(d->b, bench_in_sync(d->b));
    assert_good(d, 0); /* and what was written anew is on both. */
    assert_good(d, 1);
}

/* What was changed meanwhile is a part of a block that is damaged here, or the object ends in one. */
static void who_takes_a_part_of_a_damaged_block_gets_it_all(void **state)
{
    struct damages *d = *state;

    bench_kill(d->b, 1);
    UNTIL(d->b, copy_replica(d->b->nodes[0].copy)->group.record.set == 1 && bench_orders(d->b, 0));
    assert_int_equal(change(d, 3, 0x11), 0);
    assert_int_equal(change(d, 8, 0x22), 0);
    assert_int_equal(bench_truncate(d->b, 0, OBJECT, 12 * BLOCK_BYTES + 100), 0);
    damage(d, 1, 3);
    damage(d, 1, 12);
    bench_start(d->b, 1);
    UNTIL(d->b, bench_in_sync(d->b));
    assert_null(copy_trouble(d->b->nodes[1].copy));
    bench_assert_same(d->b, OBJECT);
    UNTIL(d->b, bench_serves(d->b, 0));
    assert_int_equal(read_all(d, 0), 0);
    assert_int_equal(d->asked.count, 12 * BLOCK_BYTES + 100);
    assert_memory_equal(d->asked.bytes, d->good, d->asked.count);
}

/* It falls silent while it is asked; nobody's change is half done when a round ends. */
static void a_repair_may_be_cut_short(void **state)
{
    struct damages *d = *state;
    struct asked *w = calloc(1, sizeof(*w));
    uint8_t bytes[100];

    CHECK(w != NULL);
    memset(bytes, 0x44, sizeof(bytes));
    damage(d, 0, 3);
    d->b->deaf = true;
    d->b->lost_forwards = 0;
    bench_ask_write(d->b, 0, w, OBJECT, 3 * BLOCK_BYTES + 500, bytes, sizeof(bytes),
                    ++d->b->number);
    UNTIL(d->b, d->b->lost_forwards > 1);
    assert_false(w->answered);
    bench_kill(d->b, 1);
    d->b->deaf = false;
    UNTIL(d->b, w->answered);
    assert_int_equal(w->status, MORSEL_CHECKSUM);
    assert_null(copy_trouble(d->b->nodes[0].copy));
    free(w);
}

/* Changes of parts of damaged blocks on both, while messages are lost and late. */
static void among_losses_copies_stay_equal(void **state)
{
    struct damages *d = *state;

    d->b->words_come = true; /* Or one of them might be voted out, and be asked in vain. */
    d->b->loss = 10;
    d->b->delay = 30;
    for (unsigned k = 0; k < 60; k++) {
        uint32_t block = (uint32_t)prng_below(&d->b->prng, BLOCKS);

        if (k % 3 == 0) {
            damage(d, (uint32_t)prng_below(&d->b->prng, 2), block);
        }
        memset(d->good + (size_t)block * BLOCK_BYTES + 700, (int)k, 300);
        assert_int_equal(bench_write_on(d->b, OBJECT, block * BLOCK_BYTES + 700,
                                        d->good + (size_t)block * BLOCK_BYTES + 700, 300),
                         0);
    }
    d->b->loss = d->b->delay = 0;
    UNTIL(d->b, bench_in_sync(d->b));
    assert_good(d, 0);
    assert_good(d, 1);
    assert_true(mended(d, 0) > 0);
    assert_true(mended(d, 1) > 0);
}

struct scrubbed
{
    bool over;
    enum copy_scrubbed result;
};

static void on_scrubbed(void *data, enum copy_scrubbed result)
{
    *(struct scrubbed *)data = (struct scrubbed){ .over = true, .result = result };
}

/* What the scrub of member `i` hears of its damage in these blocks. */
static enum copy_scrubbed scrub(struct damages *d, uint32_t i, uint32_t first, uint32_t end_block)
{
    struct scrubbed s = { .over = false };

    if (!copy_scrub(d->b->nodes[i].copy, bench_object(OBJECT), first * BLOCK_BYTES,
                    end_block * BLOCK_BYTES, on_scrubbed, &s)) {
        return COPY_SCRUB_LATER;
    }
    UNTIL(d->b, s.over);
    return s.result;
}

/* Whoever orders; a stretch of damage at a time, as it is when a client reads. */
static void the_scrub_gets_what_the_other_one_has(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    damage(d, 1, 4);
    damage(d, 1, 9);
    assert_int_equal(scrub(d, 0, 0, BLOCKS), COPY_SCRUB_MENDED);
    assert_good(d, 0);
    assert_int_equal(scrub(d, 1, 4, 5), COPY_SCRUB_MENDED);
    assert_int_equal(scrub(d, 1, 9, 10), COPY_SCRUB_MENDED);
    assert_good(d, 1);
    assert_int_equal(mended(d, 0), 1);
    assert_int_equal(mended(d, 1), 2);
    assert_int_equal(scrub(d, 1, 9, 10), COPY_SCRUB_MENDED); /* Somebody else was first. */
    assert_int_equal(mended(d, 1), 2);
}

/* Of blocks in a row the other one has damaged some, too: it gets all that is good there. */
static void the_scrub_gets_what_is_good_of_a_stretch(void **state)
{
    struct damages *d = *state;

    for (uint32_t block = 2; block < 9; block++) {
        damage(d, 0, block);
    }
    damage(d, 1, 6);
    assert_int_equal(scrub(d, 0, 2, 9), COPY_SCRUB_MENDED);
    assert_true(mended(d, 0) > 0); /* As many as half of them, and what is left with the next. */
    for (uint32_t i = 0; i < 4 && mended(d, 0) < 4; i++) {
        assert_int_equal(scrub(d, 0, 2, 9), COPY_SCRUB_MENDED);
    }
    assert_int_equal(mended(d, 0), 4);
    assert_int_equal(scrub(d, 0, 6, 9), COPY_SCRUB_LOST); /* The first of them. */
    assert_int_equal(scrub(d, 0, 7, 9), COPY_SCRUB_MENDED);
    assert_int_equal(mended(d, 0), 6);
}

/* It tells that itself, and no counter says so once more each time. */
static void the_scrub_hears_what_nobody_has(void **state)
{
    struct damages *d = *state;

    damage(d, 0, 3);
    damage(d, 1, 3);
    assert_int_equal(scrub(d, 0, 3, 4), COPY_SCRUB_LOST);
    assert_int_equal(scrub(d, 1, 3, 4), COPY_SCRUB_LOST);
    assert_int_equal(d->b->nodes[0].server.blocks_lost + d->b->nodes[1].server.blocks_lost, 0);
    bench_kill(d->b, 1);
    UNTIL(d->b, copy_replica(d->b->nodes[0].copy)->group.record.set == 1 && bench_orders(d->b, 0));
    damage(d, 0, 5);
    assert_int_equal(scrub(d, 0, 5, 6), COPY_SCRUB_LOST);
    assert_null(copy_trouble(d->b->nodes[0].copy));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_read_is_answered_by_the_other_copy),
        TEST(a_change_of_a_part_is_done_on_both),
        TEST(what_is_copied_is_repaired_first),
        TEST(what_no_copy_has_is_an_error),
        TEST(who_cannot_be_repaired_is_left_behind),
        TEST(a_change_that_must_wait_for_nobody_ends),
        TEST(a_set_agrees_beside_damage),
        TEST(a_set_agrees_on_what_is_changed),
        TEST(a_set_agrees_on_damage),
        TEST(one_bad_block_does_not_keep_others_outside),
        TEST(who_takes_a_part_of_a_damaged_block_gets_it_all),
        TEST(a_repair_may_be_cut_short),
        TEST(the_scrub_gets_what_the_other_one_has),
        TEST(the_scrub_gets_what_is_good_of_a_stretch),
        TEST(the_scrub_hears_what_nobody_has),
        TEST(among_losses_copies_stay_equal),
    };
    int failed = cmocka_run_group_tests_name("wrong bytes", tests, NULL, NULL);

    no_bytes = true;
    return failed + cmocka_run_group_tests_name("no bytes", tests, NULL, NULL);
}
