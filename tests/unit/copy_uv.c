/* Copies of a group at work: what clients are told is on both, is done once, and is there again at
 * whoever comes back; what is lost of a copy the other one makes up for. */
#include "tests/lib/copy_bench.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/store/store_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_write_is_on_both(void **state)
{
    struct bench *b = *state;
    struct asked *a = calloc(1, sizeof(*a));

    CHECK(a != NULL);
    assert_int_equal(bench_write_text(b, 1, 9, 0, "elsewhere"), MORSEL_NOT_HERE);
    assert_int_equal(bench_write_text(b, 0, 9, 0, "hello"), 0);
    bench_assert_text(b, 0, 9, "hello");
    bench_assert_text(b, 1, 9, "hello");
    bench_ask_read(b, 0, a, 9, 100);
    UNTIL(b, a->answered);
    assert_int_equal(a->status, 0);
    assert_int_equal(a->count, 5);
    assert_memory_equal(a->bytes, "hello", 5);
    assert_int_equal(bench_sync(b, 0, 9), 0);
    assert_int_equal(bench_truncate(b, 0, 9, 3), 0);
    bench_assert_text(b, 1, 9, "hel");
    assert_int_equal(bench_delete(b, 0, 9), 1);
    bench_assert_same(b, 9);
    UNTIL(b, bench_delete(b, 1, 9) == 1); /* Who does not order sees that it is gone. */
    free(a);
}

/* Whichever member it comes to, and whether or not that one has started anew meanwhile. */
static void a_retry_elsewhere_is_not_done_again(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_write_as(b, 0, 9, 0, "first!", 6, 1), 0);
    assert_int_equal(bench_write_as(b, 0, 9, 0, "second", 6, 2), 0);
    assert_int_equal(bench_write_as(b, 0, 9, 0, "first!", 6, 1), 0);
    bench_assert_text(b, 0, 9, "second");
    bench_kill(b, 0);
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(bench_write_as(b, 1, 9, 0, "first!", 6, 1), 0);
    bench_assert_text(b, 1, 9, "second");
    bench_stop(b, 1);
    bench_start(b, 1);
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(bench_write_as(b, 1, 9, 0, "first!", 6, 1), 0);
    bench_assert_text(b, 1, 9, "second");
}

static void who_comes_back_is_brought_up_to_date(void **state)
{
    static uint8_t bytes[PART];
    struct bench *b = *state;

    memset(bytes, 0x5a, sizeof(bytes));
    assert_int_equal(bench_write_text(b, 0, 1, 0, "to be deleted"), 0);
    assert_int_equal(bench_write_text(b, 0, 2, 0, "to be cut off"), 0);
    assert_int_equal(bench_write_text(b, 0, 3, 0, "as it was"), 0);
    bench_kill(b, 1);
    UNTIL(b, bench_orders(b, 0));
    assert_int_equal(bench_delete(b, 0, 1), 1);
    assert_int_equal(bench_truncate(b, 0, 2, 5), 0);
    assert_int_equal(bench_write_text(b, 0, 3, 3, "IT"), 0);
    for (unsigned k = 0; k < 100; k++) { /* More than one message carries, and holes. */
        uint64_t at = k * (uint64_t)PART + (k > 50 ? 64 << 20 : 0);

        assert_int_equal(bench_write_as(b, 0, 4, at, bytes, sizeof(bytes), ++b->number), 0);
    }
    assert_int_equal(bench_truncate(b, 0, 4, 200 << 20), 0);
    assert_int_equal(bench_write_as(b, 0, 5, 0, "first!", 6, ++b->number), 0);
    assert_int_equal(bench_write_text(b, 0, 5, 0, "second"), 0);
    bench_start(b, 1);
    UNTIL(b, bench_in_sync(b));
    for (inode_id inode = 1; inode <= 5; inode++) {
        bench_assert_same(b, inode);
    }
    bench_assert_text(b, 1, 2, "to be");
    bench_assert_text(b, 1, 3, "as IT was");
    bench_kill(b, 0);
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(bench_write_as(b, 1, 5, 0, "first!", 6, b->number - 1), 0);
    bench_assert_text(b, 1, 5, "second");
    bench_stop(b, 1); /* What it was told of operations is on its own disk. */
    bench_start(b, 1);
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(bench_write_as(b, 1, 5, 0, "first!", 6, b->number - 1), 0);
    bench_assert_text(b, 1, 5, "second");
}

/* It may be given what it does not have: until it takes part it does not say that something is gone. */
static void who_is_outside_does_not_say_what_is_gone(void **state)
{
    struct bench *b = *state;

    bench_kill(b, 1);
    UNTIL(b, bench_orders(b, 0));
    assert_int_equal(bench_write_on(b, 6, 0, "while it was away", 17), 0);
    bench_start(b, 1);
    assert_int_equal(bench_delete(b, 1, 6), 0);
    UNTIL(b, bench_in_sync(b));
    assert_int_equal(bench_delete(b, 1, 6), 0); /* It is there. */
    bench_assert_same(b, 6);
    assert_int_equal(bench_delete(b, 0, 6), 1);
    UNTIL(b, bench_delete(b, 1, 6) == 1);
}

/* Of the last change: what the second one would answer if it were asked for it again, and went on alone. */
static int last_answer(const struct bench *b)
{
    struct op_answer answer = { .status = MORSEL_AGAIN };

    (void)op_memory_find(copy_replica(b->nodes[1].copy)->order.memory,
                         (struct op_id){ CLIENT, b->number }, &answer);
    return answer.status;
}

/* Part of its bytes is the other one's when it is killed, and part is not: what of them has which change its disk does
 * not say it knows. */
static void who_is_killed_while_it_takes_is_in_doubt(void **state)
{
    static uint8_t bytes[PART];
    struct bench *b = *state;

    memset(bytes, 0x5a, sizeof(bytes));
    for (unsigned k = 0; k < 100; k++) {
        assert_int_equal(
            bench_write_as(b, 0, 4, k * (uint64_t)PART, bytes, sizeof(bytes), ++b->number), 0);
    }
    assert_int_equal(last_answer(b), MORSEL_OK);
    bench_stop(b, 1);
    bench_start(b, 1);
    assert_int_equal(last_answer(b), MORSEL_OK);
    UNTIL(b, copy_replica(b->nodes[1].copy)->fetch.taking);
    bench_stop(b, 1);
    bench_start(b, 1);
    assert_int_equal(last_answer(b), MORSEL_UNSURE);
    UNTIL(b, bench_in_sync(b));
    assert_int_equal(last_answer(b), MORSEL_OK);
    bench_stop(b, 1);
    bench_start(b, 1);
    assert_int_equal(last_answer(b), MORSEL_OK);
    UNTIL(b, bench_in_sync(b));
}

static void a_read_waits_for_what_is_under_way(void **state)
{
    struct bench *b = *state;
    struct asked *w = calloc(1, sizeof(*w)), *r = calloc(1, sizeof(*r));

    CHECK(w != NULL && r != NULL);
    assert_int_equal(bench_write_text(b, 0, 9, 0, "old"), 0);
    b->deaf = true;
    b->lost_forwards = 0;
    bench_ask_write(b, 0, w, 9, 0, "new", 3, ++b->number);
    UNTIL(b, b->lost_forwards > 0);
    bench_ask_read(b, 0, r, 9, 3);
    UNTIL(b, b->lost_forwards > 2);
    assert_false(w->answered);
    assert_false(r->answered);
    b->deaf = false;
    UNTIL(b, w->answered && r->answered);
    assert_int_equal(w->status, 0);
    assert_int_equal(r->status, 0);
    assert_memory_equal(r->bytes, "new", 3);
    free(w);
    free(r);
}

static bool serves(const struct bench *b, uint32_t i)
{
    return replica_serves(copy_replica(b->nodes[i].copy), rpc_boot_ms()) != 0;
}

/* At whoever of them serves: who knows that nobody changes what he reads. */
static void any_member_answers_who_knows_that_nobody_writes(void **state)
{
    struct bench *b = *state;
    struct asked *r = calloc(1, sizeof(*r));

    CHECK(r != NULL);
    assert_int_equal(bench_write_text(b, 0, 9, 0, "hello"), 0);
    bench_ask_read(b, 1, r, 9, 10);
    UNTIL(b, r->answered);
    assert_int_equal(r->status, MORSEL_NOT_HERE);
    b->settled = true;
    UNTIL(b, serves(b, 0) && serves(b, 1));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        bench_ask_read(b, i, r, 9, 10);
        UNTIL(b, r->answered);
        assert_int_equal(r->status, 0);
        assert_int_equal(r->count, 5);
        assert_memory_equal(r->bytes, "hello", 5);
    }
    assert_int_equal(b->nodes[0].server.reads_beside, 0);
    assert_int_equal(b->nodes[1].server.reads_beside, 1);
    bench_kill(b, 1);
    UNTIL(b, bench_orders(b, 0));
    assert_int_equal(bench_write_on(b, 9, 0, "later", 5), 0);
    b->words_stop = true; /* It comes back, and hears of nobody: what it has may be old. */
    bench_start(b, 1);
    bench_ask_read(b, 1, r, 9, 10);
    UNTIL(b, r->answered);
    assert_int_equal(r->status, MORSEL_NOT_HERE);
    b->words_stop = false;
    UNTIL(b, bench_in_sync(b) && serves(b, 1));
    bench_ask_read(b, 1, r, 9, 10);
    UNTIL(b, r->answered);
    assert_int_equal(r->status, 0);
    assert_memory_equal(r->bytes, "later", 5);
    free(r);
}

static void messages_may_be_lost_and_late(void **state)
{
    struct bench *b = *state;
    uint8_t bytes[256];

    b->loss = 20;
    b->delay = 30;
    for (unsigned k = 0; k < 60; k++) {
        memset(bytes, (int)k, sizeof(bytes));
        assert_int_equal(bench_write_on(b, 1 + prng_below(&b->prng, 3), prng_below(&b->prng, 8192),
                                        bytes, sizeof(bytes)),
                         0);
    }
    b->loss = b->delay = 0;
    UNTIL(b, bench_in_sync(b)); /* One of them may have been voted out. */
    for (inode_id inode = 1; inode <= 3; inode++) {
        bench_assert_same(b, inode);
    }
}

/* A client's nonsense, and a full disk, are refused before anything has its place in the order. */
static void what_cannot_be_done_leaves_copies_equal(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bench_write_text(b, 0, 9, 0, "hello"), 0);
    assert_int_equal(bench_truncate(b, 0, 9, UINT64_MAX), MORSEL_FBIG);
    assert_int_equal(bench_truncate(b, 0, 9, OBJECT_BYTES_MAX + 1), MORSEL_FBIG);
    assert_int_equal(bench_write_text(b, 0, 9, OBJECT_BYTES_MAX - 2, "hello"), MORSEL_FBIG);
    b->full = true;
    assert_int_equal(bench_write_text(b, 0, 9, 0, "HELLO"), MORSEL_NOSPC);
    assert_null(copy_trouble(b->nodes[0].copy));
    assert_null(copy_trouble(b->nodes[1].copy));
    bench_assert_text(b, 0, 9, "hello");
    bench_assert_same(b, 9);
}

/* ---- Damage ---- */

static void path_of(const struct bench *b, const char *name, char path[256])
{
    snprintf(path, 256, "%s/copies/%u.%s", b->nodes[1].dir, GROUP, name);
}

static void flip(const char *path, off_t place)
{
    int fd = open(path, O_RDWR);
    uint8_t byte;

    CHECK(fd >= 0 && pread(fd, &byte, 1, place) == 1);
    byte ^= 0x10;
    CHECK(pwrite(fd, &byte, 1, place) == 1);
    close(fd);
}

/* It begins again, and the other one makes up for what is gone. */
static void assert_made_up_for(struct bench *b, const char *name, bool missing)
{
    char path[256];

    bench_kill(b, 1);
    path_of(b, name, path);
    if (missing) {
        CHECK(unlink(path) == 0);
    } else {
        flip(path, 20);
    }
    assert_int_equal(bench_write_on(b, 9, 0, "it goes on", 10), 0);
    bench_start(b, 1);
    assert_null(copy_trouble(b->nodes[1].copy));
    assert_int_equal(bench_write_text(b, 1, 9, 0, "not here"), MORSEL_NOT_HERE);
    UNTIL(b, bench_in_sync(b));
    for (inode_id inode = 1; inode <= 9; inode++) {
        bench_assert_same(b, inode);
    }
}

/* The newest generation of its memory of operations. */
static void name_operations(const struct bench *b, char name[32])
{
    char path[256], one[32];

    for (unsigned k = 1; k < 100; k++) {
        snprintf(one, sizeof(one), "ops-%u", k);
        path_of(b, one, path);
        if (access(path, F_OK) == 0) {
            snprintf(name, 32, "%s", one);
        }
    }
}

static void a_damaged_copy_is_made_up_for(void **state)
{
    struct bench *b = *state;
    char name[32] = "";

    assert_int_equal(bench_write_text(b, 0, 9, 0, "it was"), 0);
    assert_made_up_for(b, "state", false);
    assert_made_up_for(b, "state", true);
    assert_made_up_for(b, "dirty", false);
    assert_made_up_for(b, "dirty", true);
    name_operations(b, name);
    assert_made_up_for(b, name, true);
}

static uint64_t verifier_of(const struct bench *b, uint32_t i)
{
    return copy_replica(b->nodes[i].copy)->group.record.verifier;
}

/* Alone, with what it has written since. */
static void stand_alone(struct bench *b)
{
    bench_kill(b, 0);
    UNTIL(b, bench_orders(b, 1));
    b->verifier = verifier_of(b, 1);
    assert_int_equal(bench_write_as(b, 1, 9, 0, "first!", 6, ++b->number), 0);
    assert_int_equal(bench_write_text(b, 1, 9, 0, "second"), 0);
}

/* Nobody else can know what it did: what was sent before is not carried out, and who sent it hears why. */
static void who_stands_alone_goes_on_without_its_memory(void **state)
{
    struct bench *b = *state;
    char name[32] = "", path[256];
    uint64_t before;

    stand_alone(b);
    before = b->verifier;
    bench_stop(b, 1);
    name_operations(b, name);
    path_of(b, name, path);
    flip(path, 20);
    bench_start(b, 1);
    assert_null(copy_trouble(b->nodes[1].copy));
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(bench_write_as(b, 1, 9, 0, "first!", 6, b->number - 1), MORSEL_UNSURE);
    b->verifier = 0; /* One that knew none yet may have been the first of all. */
    assert_int_equal(bench_write_as(b, 1, 9, 0, "first!", 6, b->number - 1), MORSEL_NOT_HERE);
    bench_assert_text(b, 1, 9, "second");
    assert_int_equal(verifier_of(b, 1), before + 1);
    b->verifier = before + 1;
    assert_int_equal(bench_write_text(b, 1, 9, 0, "anew"), 0);
    bench_stop(b, 1);
    bench_start(b, 1); /* It has a memory again. */
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(verifier_of(b, 1), before + 1);
    bench_start(b, 0);
    UNTIL(b, bench_in_sync(b));
    bench_assert_text(b, 0, 9, "anewnd");
    bench_assert_same(b, 9);
}

/* The kernel is the same, but what it could not write it takes for written: no later sync brings it to the disk. */
static void a_start_behind_a_failed_sync_has_lost_something(void **state)
{
    struct bench *b = *state;
    uint64_t before;

    stand_alone(b);
    before = b->verifier;
    bench_stop(b, 1);
    bench_start(b, 1);
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(verifier_of(b, 1), before);
    assert_int_equal(bench_write_text(b, 1, 9, 0, "third."), 0);
    store_note_failure(b->nodes[1].server.store, "sync of a test: Input/output error");
    bench_stop(b, 1);
    bench_start(b, 1);
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(verifier_of(b, 1), before + 1);
    bench_stop(b, 1);
    bench_start(b, 1); /* That is over. */
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(verifier_of(b, 1), before + 1);
    bench_assert_text(b, 1, 9, "third.");
}

enum { REBUILT = 5 * REPLICA_PAGE_MAX + 3 };

/* Everything is given, object by object, while clients go on writing; and what is not there any more goes. */
static void who_has_lost_its_state_is_made_anew(void **state)
{
    struct bench *b = *state;
    char path[256];

    for (inode_id inode = 1; inode <= REBUILT; inode++) {
        assert_int_equal(bench_write_text(b, 0, inode, inode * 1000, "of before"), 0);
    }
    bench_kill(b, 1);
    UNTIL(b, bench_orders(b, 0));
    for (inode_id inode = 1; inode <= REBUILT; inode += 7) {
        assert_int_equal(bench_delete(b, 0, inode), 1);
    }
    for (inode_id inode = 2; inode <= REBUILT; inode += 7) {
        assert_int_equal(bench_truncate(b, 0, inode, 100), 0);
        assert_int_equal(bench_write_text(b, 0, inode, 200, "of later"), 0);
    }
    path_of(b, "state", path);
    CHECK(unlink(path) == 0);
    bench_start(b, 1);
    for (inode_id inode = 1; !bench_in_sync(b); inode = inode % (2 * REBUILT) + 1) {
        assert_int_equal(bench_write_on(b, inode, 50, "meanwhile", 9), 0);
    }
    for (inode_id inode = 1; inode <= 2 * REBUILT; inode++) {
        bench_assert_same(b, inode);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_write_is_on_both, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(a_retry_elsewhere_is_not_done_again, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(who_comes_back_is_brought_up_to_date, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(who_is_outside_does_not_say_what_is_gone, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(who_is_killed_while_it_takes_is_in_doubt, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(a_read_waits_for_what_is_under_way, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(any_member_answers_who_knows_that_nobody_writes,
                                        bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(messages_may_be_lost_and_late, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(what_cannot_be_done_leaves_copies_equal, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(a_damaged_copy_is_made_up_for, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(who_stands_alone_goes_on_without_its_memory, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(a_start_behind_a_failed_sync_has_lost_something,
                                        bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(who_has_lost_its_state_is_made_anew, bench_begin,
                                        bench_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
