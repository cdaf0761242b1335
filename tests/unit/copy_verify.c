/* Two copies compared: damage that nobody reads is found on each of them and repaired, and so is what differs although its checksums are
 * right; nothing is found where nothing is, while clients write and messages are lost. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/copy_bench.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 10, BUSY = 100, SPARSE = 50, BYTES = PART, BLOCKS = BYTES / BLOCK_BYTES };

struct world
{
    struct bench *b;
    uint64_t run;
    uint8_t bytes[BYTES];
};

static const struct verify *compared(const struct world *w, uint32_t i)
{
    return &copy_replica(w->b->nodes[i].copy)->verify.verify;
}

static uint64_t put(struct world *w, inode_id inode, uint64_t offset)
{
    for (size_t i = 0; i < BYTES; i++) {
        w->bytes[i] = (uint8_t)(i / 3 + i / BLOCK_BYTES + inode);
    }
    assert_int_equal(bench_write_on(w->b, inode, offset, w->bytes, BYTES), 0);
    return BYTES;
}

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    void *bench;

    CHECK(w != NULL);
    if (bench_begin(&bench) != 0) {
        free(w);
        return -1;
    }
    w->b = bench;
    for (inode_id inode = 1; inode <= OBJECTS; inode++) {
        (void)put(w, inode, 0);
    }
    assert_int_equal(bench_write_text(w->b, 0, OBJECTS / 2, BYTES, "an end within a block"), 0);
    (void)put(w, SPARSE, 0);
    (void)put(w, SPARSE, UINT64_C(5) << 30); /* Nobody reads what lies between. */
    *state = w;
    return 0;
}

static int end(void **state)
{
    struct world *w = *state;
    void *bench = w->b;
    int rv = bench_end(&bench);

    free(w);
    return rv;
}

static void flip(const struct world *w, uint32_t i, inode_id inode, uint32_t block)
{
    char command[512], path[256] = "";
    uint8_t byte;
    FILE *found;
    int fd;

    snprintf(command, sizeof(command), "find %s/objects -name '%016lx.*'", w->b->nodes[i].dir,
             (unsigned long)bench_object(inode).inode);
    found = popen(command, "r");
    CHECK(found != NULL && fgets(path, sizeof(path), found) != NULL && pclose(found) == 0);
    path[strcspn(path, "\n")] = '\0';
    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, CHECKSUMS_PAGE_BYTES + block * BLOCK_BYTES + 77) == 1);
    byte ^= 0x10;
    CHECK(pwrite(fd, &byte, 1, CHECKSUMS_PAGE_BYTES + block * BLOCK_BYTES + 77) == 1);
    close(fd);
}

/* Past the group: its checksums are right, and no other member hears of it. */
static void change_alone(const struct world *w, uint32_t i, inode_id inode, uint64_t offset,
                         const char *text)
{
    struct errmsg err;
    uint32_t crcs[2];

    crc32c_of_pieces(offset, text, strlen(text), crcs);
    assert_int_equal(store_write(w->b->nodes[i].server.store, bench_object(inode), offset,
                                 (const uint8_t *)text, strlen(text), crcs, false, NULL, &err),
                     0);
}

static uint32_t orderer(const struct world *w)
{
    return bench_orders(w->b, 0) ? 0 : 1;
}

static bool is_done_at(const struct world *w, uint32_t i)
{
    return compared(w, i)->run == w->run && compared(w, i)->done;
}

static bool is_done(const struct world *w)
{
    return is_done_at(w, 0) || is_done_at(w, 1);
}

static void begin_run(struct world *w)
{
    w->run++;
    copy_verify(w->b->nodes[0].copy, w->run);
    copy_verify(w->b->nodes[1].copy, w->run);
}

/* With a client that writes meanwhile, over and over, also what has been compared. */
static const struct verify_counts *run(struct world *w, bool writing)
{
    begin_run(w);
    for (unsigned k = 0; writing && !is_done(w); k++) {
        memset(w->bytes, (int)k, 3000);
        assert_int_equal(bench_write_on(w->b, BUSY, (k % 50) * UINT64_C(1000), w->bytes, 3000), 0);
        if (k % 7 == 0) {
            assert_int_equal(bench_write_on(w->b, 1, BYTES + 9000, w->bytes, 300), 0);
        }
    }
    UNTIL(w->b, is_done(w));
    return &compared(w, is_done_at(w, 0) ? 0 : 1)->counts;
}

static void assert_found(const struct verify_counts *n, uint64_t damaged, uint64_t differing,
                         uint64_t repaired, uint64_t broken)
{
    assert_int_equal(n->damaged, damaged);
    assert_int_equal(n->differing, differing);
    assert_int_equal(n->repaired, repaired);
    assert_int_equal(n->broken, broken);
}

static bool rests(const struct world *w)
{
    return intent_empty(&copy_replica(w->b->nodes[0].copy)->intent) &&
           intent_empty(&copy_replica(w->b->nodes[1].copy)->intent);
}

static void assert_all_same(struct world *w)
{
    for (inode_id inode = 1; inode <= OBJECTS; inode++) {
        bench_assert_same(w->b, inode);
    }
    bench_assert_same(w->b, SPARSE);
    bench_assert_same(w->b, BUSY);
}

static void equal_copies_are_found_equal(void **state)
{
    struct world *w = *state;
    const struct verify_counts *n = run(w, true);

    assert_found(n, 0, 0, 0, 0);
    assert_true(n->objects >= OBJECTS + 1);
    assert_true(n->bytes >= (OBJECTS + 2) * (uint64_t)BYTES && n->bytes < UINT64_C(1) << 28);
    n = run(w, false);
    assert_found(n, 0, 0, 0, 0);
    assert_int_equal(n->objects, OBJECTS + 2);
    assert_all_same(w);
}

static void damage_that_nobody_reads_is_repaired_on_both(void **state)
{
    struct world *w = *state;
    struct errmsg err;
    uint64_t bad;

    flip(w, 0, 3, 1);
    flip(w, 0, 3, 5);
    flip(w, 1, 3, 2);
    flip(w, 1, OBJECTS, BLOCKS - 1);
    assert_found(run(w, true), 4, 0, 4, 0);
    assert_int_equal(w->b->nodes[0].server.blocks_mended, 2);
    assert_int_equal(w->b->nodes[1].server.blocks_mended, 2);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(store_verify(w->b->nodes[i].server.store, bench_object(3), &bad, &err), 0);
        assert_int_equal(bad, 0);
    }
    assert_found(run(w, false), 0, 0, 0, 0);
    assert_all_same(w);
}

static void what_both_have_lost_is_counted(void **state)
{
    struct world *w = *state;

    flip(w, 0, 7, 2);
    flip(w, 1, 7, 2);
    flip(w, 0, 7, 9);
    flip(w, 1, 7, 4);
    assert_found(run(w, false), 3, 0, 2, 1);
    assert_null(copy_trouble(w->b->nodes[0].copy));
    assert_null(copy_trouble(w->b->nodes[1].copy));
    assert_found(run(w, false), 1, 0, 0, 1);
}

static void what_differs_with_right_checksums_is_made_equal(void **state)
{
    struct world *w = *state;
    struct errmsg err;
    struct store_stat stat;

    UNTIL(w->b, rests(w));
    change_alone(w, 1, 4, 2 * BLOCK_BYTES + 10, "not of the group");
    assert_found(run(w, false), 0, 1, 1, 0);
    UNTIL(w->b, rests(w));
    change_alone(w, 0, 5, 30, "of who orders");
    change_alone(w, 1, 6, BYTES + 100, "a longer one"); /* Nothing is cut off. */
    assert_int_equal(store_truncate(w->b->nodes[0].server.store, bench_object(8), 100, NULL, &err),
                     0);
    assert_int_equal(store_delete(w->b->nodes[0].server.store, bench_object(9), &err), 0);
    assert_int_equal(store_delete(w->b->nodes[1].server.store, bench_object(10), &err), 0);
    assert_int_equal(orderer(w), 0);
    (void)run(w, true);
    assert_true(compared(w, 0)->counts.differing >= 5);
    assert_int_equal(compared(w, 0)->counts.broken, 0);
    assert_all_same(w);
    assert_int_equal(store_stat(w->b->nodes[0].server.store, bench_object(9), &stat, &err), 0);
    assert_true(stat.exists && stat.size >= BYTES);
    assert_int_equal(store_stat(w->b->nodes[1].server.store, bench_object(10), &stat, &err), 0);
    assert_true(stat.exists);
    assert_int_equal(store_stat(w->b->nodes[0].server.store, bench_object(8), &stat, &err), 0);
    assert_true(stat.size >= BYTES);
    assert_found(run(w, false), 0, 0, 0, 0);
    UNTIL(w->b, rests(w)); /* What was repaired leaves no doubt. */
}

/* One of them ends in the middle, and comes back; then the one that orders. */
static void members_may_start_again_meanwhile(void **state)
{
    struct world *w = *state;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        begin_run(w);
        UNTIL(w->b, compared(w, 0)->running && compared(w, 0)->run == w->run);
        bench_kill(w->b, i);
        UNTIL(w->b, bench_orders(w->b, 1 - i));
        assert_false(is_done_at(w, 1 - i));
        bench_start(w->b, i);
        copy_verify(w->b->nodes[i].copy, w->run);
        UNTIL(w->b, bench_in_sync(w->b) && is_done(w));
        assert_found(&compared(w, 0)->counts, 0, 0, 0, 0);
    }
    assert_all_same(w);
}

static void messages_may_be_lost_and_late(void **state)
{
    struct world *w = *state;

    w->b->words_come = true;
    change_alone(w, 1, 4, 2 * BLOCK_BYTES + 10, "not of the group");
    flip(w, 1, 5, 1);
    w->b->loss = 10;
    w->b->delay = 30;
    assert_found(run(w, true), 1, 1, 2, 0);
    w->b->loss = w->b->delay = 0;
    assert_found(run(w, true), 0, 0, 0, 0);
    assert_all_same(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_copies_are_found_equal, begin, end),
        cmocka_unit_test_setup_teardown(damage_that_nobody_reads_is_repaired_on_both, begin, end),
        cmocka_unit_test_setup_teardown(what_both_have_lost_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(what_differs_with_right_checksums_is_made_equal, begin,
                                        end),
        cmocka_unit_test_setup_teardown(members_may_start_again_meanwhile, begin, end),
        cmocka_unit_test_setup_teardown(messages_may_be_lost_and_late, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
