/* Morsels at a benefactor: written, read and synced by a client, and what it may not do; what the manager hears of them, and
 * deletes; and that there are never more than were given. */
#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store_format.h"
#include "tests/lib/benefactor_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SET = 4711, BYTES = 300000 };

static _Atomic unsigned trees_flushed;

int __wrap_syncfs(
    int fd); /* NOLINT(bugprone-reserved-identifier): that is what the linker calls it. */

/* The owner's programs would wait for it. */
int __wrap_syncfs(int fd) /* NOLINT(bugprone-reserved-identifier) */
{
    (void)fd;
    trees_flushed++;
    return 0;
}

static _Atomic unsigned deletions_fail; /* So many of the next ones. */

int __real_unlinkat(int fd, const char *path, int flags); /* NOLINT(bugprone-reserved-identifier) */
int __wrap_unlinkat(int fd, const char *path, int flags); /* NOLINT(bugprone-reserved-identifier) */

int __wrap_unlinkat(int fd, const char *path, int flags) /* NOLINT(bugprone-reserved-identifier) */
{
    if (deletions_fail > 0) {
        deletions_fail--;
        errno = EROFS;
        return -1;
    }
    return __real_unlinkat(fd, path, flags);
}

/* Its bench is too large for a stack. */
struct fixture
{
    struct bench bench;
    uint8_t bytes[BYTES];
};

/* Nothing was started. */
static struct bench *prepare(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct prng prng;

    CHECK(f != NULL);
    *state = f;
    prng_seed(&prng, 1);
    for (size_t i = 0; i < BYTES; i++) {
        f->bytes[i] = (uint8_t)prng_next(&prng);
    }
    bench_init(&f->bench);
    f->bench.donate = 64 << 20;
    return &f->bench;
}

static void start(struct bench *b)
{
    unsigned joins = b->joins + 1;

    assert_int_equal(bench_start(b, NULL), 0);
    bench_until(b, &b->joins, joins);
    bench_close(b, &b->client);
    bench_connect(b);
}

static struct bench *begin(void **state)
{
    struct bench *b = prepare(state);

    start(b);
    bench_until_open(b);
    return b;
}

static void restart(struct bench *b)
{
    bench_end_benefactor(b);
    start(b);
    bench_until_open(b);
}

static void end(void **state)
{
    struct fixture *f = *state;

    bench_end(&f->bench);
    assert_int_equal(trees_flushed, 0);
    free(f);
}

static void assert_reads(struct bench *b, uint32_t morsel, uint64_t offset, const uint8_t *bytes,
                         size_t count)
{
    assert_int_equal(bench_read(b, SET, morsel, offset, count), 0);
    assert_int_equal(b->got_count, count);
    assert_memory_equal(b->got, bytes, count);
}

/* Numbers of morsels go far beyond those of columns, and none is taken for an object of a group. */
static void what_is_written_is_read(void **state)
{
    static const uint32_t morsels[] = { 0, 1, 255, 256, 70000, UINT32_MAX };
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (size_t i = 0; i < ARRAY_COUNT(morsels); i++) {
        assert_int_equal(bench_write(b, SET, morsels[i], 0, bytes + i, 100000), 0);
        assert_int_equal(bench_write(b, SET, morsels[i], 100000, bytes + 5000, 77), 0);
        assert_int_equal(bench_sync(b, SET, morsels[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(morsels); i++) {
        assert_reads(b, morsels[i], 0, bytes + i, 100000);
        assert_reads(b, morsels[i], 100000, bytes + 5000, 77);
        assert_int_equal(bench_read(b, SET, morsels[i], 0, BYTES), 0);
        assert_int_equal(b->got_count, 100077); /* It ends there, and is not filled up. */
    }
    assert_int_equal(bench_read(b, SET, 2, 0, BYTES), 0);
    assert_int_equal(b->got_count, 0); /* Nobody has written that one. */
    end(state);
}

static void a_morsel_is_16_mib_at_most(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    assert_int_equal(bench_write(b, SET, 0, MORSEL_BYTES_MAX - 100, bytes, 100), 0);
    assert_int_equal(bench_write(b, SET, 0, MORSEL_BYTES_MAX - 100, bytes, 101), MORSEL_FBIG);
    assert_int_equal(bench_write(b, SET, 0, UINT64_MAX - 10, bytes, 100), MORSEL_FBIG);
    end(state);
}

/* What only the manager may do, and what morsels do not need. */
static void clients_only_read_and_write(void **state)
{
    static const enum message_type types[] = { MSG_DELETE,   MSG_TRUNCATE, MSG_PUNCH,
                                               MSG_ALLOCATE, MSG_COPY,     MSG_SEEK };
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    id.inode = SET;
    request.object = &id;
    assert_int_equal(bench_write(b, SET, 0, 0, bytes, 100), 0);
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        assert_int_equal(bench_call(b, types[i], &request.base), MORSEL_NOTSUP);
    }
    assert_reads(b, 0, 0, bytes, 100);
    end(state);
}

/* ---- What the manager hears ---- */

/* Before it knows what is there, nothing new comes to it. */
static void nothing_is_written_before_the_manager_knows(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    assert_int_equal(bench_write(b, SET, 0, 0, bytes, 1000), 0);
    bench_end_benefactor(b);
    b->pages_lost = UINT32_MAX;
    start(b);
    bench_until(b, &b->pages, b->pages + 2);
    assert_int_equal(bench_write(b, SET, 1, 0, bytes, 100), MORSEL_BUSY);
    assert_reads(b, 0, 0, bytes, 1000);
    assert_int_equal(bench_counter(b, "writes_early"), 1);
    assert_false(b->held_told);
    b->pages_lost = 0;
    bench_until_open(b);
    assert_int_equal(bench_write(b, SET, 1, 0, bytes, 100), 0);
    end(state);
}

static void it_says_what_is_there_once(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    assert_true(b->pages == 1 && b->lasts == 1 && b->held_count == 0);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(bench_write(b, SET + i % 2, i, 0, bytes, 100), 0);
        assert_int_equal(bench_write(b, SET + 2, i, 0, bytes, 100), 0);
    }
    b->pages_again = 2;
    b->pages_lost = 1;
    restart(b);
    assert_int_equal(b->lasts, 2);
    assert_int_equal(b->pages, 1 + 1 + 2 + 1);
    assert_int_equal(b->held_count, 10); /* Nine alone, and nine in one stretch. */
    assert_true(b->held[0].set == SET && b->held[0].first == 0 && b->held[0].count == 1);
    assert_true(b->held[4].set == SET && b->held[4].first == 8);
    assert_true(b->held[5].set == SET + 1 && b->held[5].first == 1);
    assert_true(b->held[9].set == SET + 2 && b->held[9].first == 0 && b->held[9].count == 9);
    assert_false(b->held_told);
    b->forget = true; /* The same process joins again: nothing was lost. */
    bench_until(b, &b->joins, b->joins + 1);
    b->reports = 0;
    bench_until(b, &b->reports, 3);
    assert_true(b->held_told);
    assert_int_equal(b->lasts, 2);
    end(state);
}

/* So many stretches that they take two pages, and the manager is another connection in between. */
static void all_of_it_is_said_to_one_manager(void **state)
{
    enum { MORSELS = SET_RUNS_MAX + 100 };
    struct bench *b = begin(state);

    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_int_equal(bench_write(b, SET, 2 * i, 0, "m", 1), 0);
    }
    b->pages = b->lasts = 0;
    b->pages_before = 1;
    b->pages_lost = 1;
    restart(b);
    assert_int_equal(b->pages, 4);
    assert_int_equal(b->lasts, 1);
    assert_int_equal(b->held_count, MORSELS);
    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_true(b->held[i].first == 2 * i && b->held[i].count == 1);
    }
    end(state);
}

static void what_is_in_no_map_is_deleted_before_anything_new(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(bench_write(b, SET, i, 0, bytes, 100), 0);
    }
    b->drop = (struct morsel_run){ .set = SET, .first = 2, .count = 5 };
    restart(b);
    assert_false(b->benefactor.morsels.holdings.collector.busy);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(bench_read(b, SET, i, 0, 100), 0);
        assert_int_equal(b->got_count, i >= 2 && i < 7 ? 0 : 100);
    }
    assert_int_equal(bench_counter(b, "morsels_deleted"), 5);
    b->reports = 0;
    bench_until(b, &b->reports, 1);
    assert_int_equal(b->used, 4 * 8192);
    end(state);
}

/* By their numbers, and whole sets; and it says so until it was heard. */
static void what_is_collected_goes(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(bench_write(b, SET + i % 2, i, 0, bytes, 100), 0);
    }
    b->collect[0] = (struct morsel_run){ .set = SET, .first = 0, .count = 100 };
    b->collect[1] = (struct morsel_run){ .set = SET, .first = 50, .count = 100 };
    b->collect[2] = (struct morsel_run){ .set = SET + 7, .first = 3, .count = 1 }; /* Not here. */
    b->forgets_collected = true;
    b->collect_count = 3;
    bench_until(b, &b->collected, 1);
    assert_false(b->forgets_collected);
    b->reports = 0;
    bench_until(b, &b->reports, 1);
    assert_int_equal(b->used, 125 * 8192);
    b->collect[0] = (struct morsel_run){ .set = SET, .first = 0, .count = UINT32_MAX };
    b->collect_count = 1;
    bench_until(b, &b->collected, 2);
    b->reports = 0;
    bench_until(b, &b->reports, 1);
    assert_int_equal(b->used, 100 * 8192);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(bench_read(b, SET + i % 2, i, 0, 100), 0);
        assert_int_equal(b->got_count, i % 2 == 0 ? 0 : 100);
    }
    end(state);
}

/* What cannot be deleted keeps nothing else from it, is not said to be gone, and is tried again. */
static void what_cannot_be_deleted_is_not_said_to_be(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (uint32_t i = 0; i < 90; i++) {
        assert_int_equal(bench_write(b, SET, i, 0, bytes, 100), 0);
    }
    deletions_fail = 3;
    b->collect[0] = (struct morsel_run){ .set = SET, .first = 0, .count = 8 };
    b->collect[1] = (struct morsel_run){ .set = SET, .first = 20, .count = 2 };
    b->collect_count = 2;
    bench_until(b, &b->collected, 1);
    assert_int_equal(b->collected_last, 1); /* The second one. */
    assert_int_equal(b->collect[0].first, 0);
    bench_until(b, &b->collected, 2);
    assert_int_equal(deletions_fail, 0);
    for (uint32_t i = 0; i < 90; i++) {
        assert_int_equal(bench_read(b, SET, i, 0, 100), 0);
        assert_int_equal(b->got_count, i < 8 || i == 20 || i == 21 ? 0 : 100);
    }
    /* The first time that are too many, and nothing is said to be gone; the second time five are left over. */
    deletions_fail = 70;
    b->collect[0] = (struct morsel_run){ .set = SET, .first = 8, .count = 82 };
    b->collect[1] = (struct morsel_run){ .set = SET, .first = 1000, .count = 1 };
    b->collect_count = 2;
    bench_until(b, &b->collected, 3);
    assert_int_equal(deletions_fail, 0);
    assert_int_equal(b->collected_last, 1);
    assert_int_equal(b->collect[0].first, 8);
    bench_until(b, &b->collected, 4);
    end(state);
}

/* It would be counted, or not, as it happens. */
static void nothing_goes_while_all_is_counted(void **state)
{
    Morsel__DonorReportReply reply = MORSEL__DONOR_REPORT_REPLY__INIT;
    Morsel__SetRun run = MORSEL__SET_RUN__INIT, *runs = &run;
    struct bench *b = begin(state);
    struct holdings *h = &b->benefactor.morsels.holdings;

    run.set = SET;
    run.count = 1;
    reply.collect = &runs;
    reply.n_collect = 1;
    h->state = HOLDINGS_COUNTING;
    holdings_reported(h, &reply);
    assert_false(h->collector.busy);
    h->state = HOLDINGS_TOLD;
    holdings_reported(h, &reply);
    assert_true(h->collector.busy);
    end(state);
}

/* ---- The owner wants nothing of it for a while ---- */

static void while_it_is_paused_nothing_goes_in_or_out(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    assert_int_equal(bench_write(b, SET, 0, 0, bytes, 100), 0);
    morsels_pause(&b->benefactor.morsels, true);
    assert_int_equal(bench_read(b, SET, 0, 0, 100), MORSEL_BUSY);
    assert_string_equal(b->text, "the owner of this benefactor has paused it");
    assert_int_equal(bench_write(b, SET, 1, 0, bytes, 100), MORSEL_BUSY);
    assert_int_equal(bench_sync(b, SET, 0), 0); /* What was begun is brought to its end. */
    assert_int_equal(bench_counter(b, "refused_paused"), 2);
    morsels_pause(&b->benefactor.morsels, false);
    assert_reads(b, 0, 0, bytes, 100);
    assert_int_equal(bench_read(b, SET, 1, 0, 100), 0);
    assert_int_equal(b->got_count, 0);
    end(state);
}

/* ---- The owner needs his machine ---- */

/* What goes now is a second away. */
static void hold_back(struct bench *b)
{
    struct governor_uv *g = &b->benefactor.morsels.governor;

    bucket_init(&g->bucket, 1000, 1000, rpc_boot_ms());
    CHECK(bucket_take(&g->bucket, 2000, rpc_boot_ms()));
}

static struct bench *begin_gentle(void **state)
{
    struct bench *b = prepare(state);

    b->settings.gentle = true;
    start(b);
    bench_until_open(b);
    return b;
}

static void what_has_no_tokens_waits_for_them(void **state)
{
    struct bench *b = begin_gentle(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;
    uint64_t held, began_ns;

    assert_int_equal(bench_write(b, SET, 0, 0, bytes, 5000), 0);
    held = bench_counter(b, "governor_held");
    hold_back(b);
    began_ns = uv_hrtime();
    b->benefactor.morsels.governor.governor.looked = false; /* Nothing is concluded so soon. */
    assert_reads(b, 0, 0, bytes, 5000);
    assert_true(uv_hrtime() - began_ns >= UINT64_C(400000000));
    assert_int_equal(bench_counter(b, "governor_held"), held + 1);
    assert_int_equal(b->benefactor.morsels.governor.held_count, 0);
    hold_back(b);
    assert_int_equal(bench_sync(b, SET, 0), 0); /* What moves no bytes does not wait. */
    assert_int_equal(bench_counter(b, "governor_held"), held + 1);
    end(state);
}

static void on_nothing(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    (void)call;
    (void)status;
    (void)reply;
}

static void who_is_not_gentle_lets_nobody_wait(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(bench_write(b, SET, i, 0, bytes, 100000), 0);
    }
    assert_int_equal(bench_counter(b, "governor_held"), 0);
    assert_int_equal(b->benefactor.morsels.governor.governor.reason, GOVERNOR_OFF);
    end(state);
}

static void it_ends_while_something_waits(void **state)
{
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;
    struct bench *b = begin_gentle(state);

    id.inode = SET;
    request.object = &id;
    request.length = 5000;
    hold_back(b);
    assert_int_equal(
        rpc_call_start(&b->call, b->peer, MSG_READ, &request.base, NULL, 0, CALL_MS, on_nothing),
        0);
    bench_until(b, &b->benefactor.morsels.governor.held_count, 1);
    end(state);
}

/* ---- How much there is ---- */

static void no_more_is_taken_than_is_given(void **state)
{
    struct bench *b = prepare(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    b->donate = 3 * 8192 + 100;
    start(b);
    bench_until_open(b);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(bench_write(b, SET, i, 0, bytes, 100), 0);
    }
    assert_int_equal(bench_write(b, SET, 3, 0, bytes, 100), MORSEL_NOSPC);
    assert_int_equal(bench_write(b, SET, 0, 100, bytes + 100, 3996), 0);
    assert_int_equal(bench_write(b, SET, 0, 4096, bytes, 1), MORSEL_NOSPC);
    assert_reads(b, 0, 0, bytes, 4096);
    assert_int_equal(bench_counter(b, "used_bytes"), 3 * 8192);
    restart(b);
    assert_int_equal(bench_counter(b, "used_bytes"), 3 * 8192);
    assert_int_equal(bench_write(b, SET, 3, 0, bytes, 100), MORSEL_NOSPC);
    bench_end_benefactor(b);
    b->donate =
        2 * 8192; /* The owner gives less than there is: nothing new, and what is here stays. */
    start(b);
    bench_until_open(b);
    assert_int_equal(bench_write(b, SET, 3, 0, bytes, 1), MORSEL_NOSPC);
    assert_reads(b, 2, 0, bytes, 100);
    b->reports = 0;
    bench_until(b, &b->reports, 1);
    assert_true(b->used == 3 * 8192 && b->donated == 2 * 8192);
    end(state);
}

/* What is used is not known at first, and so neither is how much there is room for: that is no reason to be patient. */
static void all_is_given_again_behind_a_restart(void **state)
{
    struct bench *b = prepare(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    b->donate = UINT64_MAX / 4;
    b->settings.calm_ms = 3600000;
    start(b);
    bench_until_open(b);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(bench_write(b, SET, i, 0, bytes, BYTES), 0);
    }
    restart(b);
    assert_int_equal(b->benefactor.donation.used, 9 * (300 * 1024));
    assert_true(b->benefactor.donation.donated == b->benefactor.donation.room);
    end(state);
}

static int read_if_whole(struct bench *b, uint32_t morsel)
{
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;

    id.inode = SET;
    id.column = morsel;
    request.object = &id;
    request.length = BLOCK_BYTES;
    request.whole = true;
    return bench_call(b, MSG_READ, &request.base);
}

/* As its header says behind a loss of power. */
static void lose_some(struct bench *b, uint32_t morsel)
{
    uint8_t bytes[STORE_HEADER_BYTES];
    char name[STORE_NAME_BYTES], path[512];
    struct store_header header;
    int fd;

    store_name((struct object_id){ SET, morsel }, name);
    CHECK(snprintf(path, sizeof(path), "%s/data/objects/%s", b->dir, name) < (int)sizeof(path));
    CHECK((fd = open(path, O_RDWR)) >= 0);
    CHECK(pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    CHECK(store_header_decode(bytes, &header) == 0);
    header.lacks = true;
    store_header_encode(&header, bytes);
    CHECK(pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    CHECK(close(fd) == 0);
}

/* Who knows no digest of it says that he must have all, and is refused where something may be missing; others hold what they get
 * against their digest. */
static void what_may_lack_something_is_not_given_for_whole(void **state)
{
    struct bench *b = begin(state);
    const uint8_t *bytes = ((struct fixture *)*state)->bytes;

    for (uint32_t morsel = 1; morsel <= 2; morsel++) {
        assert_int_equal(bench_write(b, SET, morsel, 0, bytes, BLOCK_BYTES), 0);
        assert_int_equal(read_if_whole(b, morsel), 0);
        assert_int_equal(b->got_count, BLOCK_BYTES);
        assert_memory_equal(b->got, bytes, BLOCK_BYTES);
    }
    bench_end_benefactor(b);
    lose_some(b, 1);
    start(b);
    bench_until_open(b);
    assert_int_equal(read_if_whole(b, 1), MORSEL_NODATA);
    assert_int_equal(read_if_whole(b, 2), 0);
    assert_reads(b, 1, 0, bytes, BLOCK_BYTES);
    assert_int_equal(read_if_whole(b, 1), MORSEL_NODATA); /* Also from memory. */
    assert_int_equal(bench_write(b, SET, 1, 0, bytes, BLOCK_BYTES), 0);
    assert_int_equal(read_if_whole(b, 1), MORSEL_NODATA); /* It may have been longer. */
    end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_morsel_is_16_mib_at_most),
        cmocka_unit_test(clients_only_read_and_write),
        cmocka_unit_test(nothing_is_written_before_the_manager_knows),
        cmocka_unit_test(it_says_what_is_there_once),
        cmocka_unit_test(all_of_it_is_said_to_one_manager),
        cmocka_unit_test(what_is_in_no_map_is_deleted_before_anything_new),
        cmocka_unit_test(what_is_collected_goes),
        cmocka_unit_test(what_cannot_be_deleted_is_not_said_to_be),
        cmocka_unit_test(nothing_goes_while_all_is_counted),
        cmocka_unit_test(while_it_is_paused_nothing_goes_in_or_out),
        cmocka_unit_test(what_has_no_tokens_waits_for_them),
        cmocka_unit_test(who_is_not_gentle_lets_nobody_wait),
        cmocka_unit_test(it_ends_while_something_waits),
        cmocka_unit_test(no_more_is_taken_than_is_given),
        cmocka_unit_test(all_is_given_again_behind_a_restart),
        cmocka_unit_test(what_may_lack_something_is_not_given_for_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
