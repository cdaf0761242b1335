/* Bytes that are copied from one place of a group to another: each member copies its own, and all end with the same,
 * whatever happens to the source meanwhile, and whoever orders. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/copy_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOURCE = 1, TARGET, ASKERS = 6, CALLS = 300, AREA = 4 * PART };

static const struct bench_copy PLAIN = { .from = SOURCE, .to = TARGET, .length = PART };

/* The next read of the source hangs until it is let go, and fails then. */
static struct
{
    atomic_bool armed, hangs, let_go;
} disk;

int __wrap_store_read(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                      size_t length, size_t *count_out, uint32_t *crcs, struct errmsg *err);
int __real_store_read(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                      size_t length, size_t *count_out, uint32_t *crcs, struct errmsg *err);

int __wrap_store_read(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                      size_t length, size_t *count_out, uint32_t *crcs, struct errmsg *err)
{
    if (id.inode != SOURCE || !atomic_exchange(&disk.armed, false)) {
        return __real_store_read(store, id, offset, bytes, length, count_out, crcs, err);
    }
    atomic_store(&disk.hangs, true);
    while (!atomic_load(&disk.let_go)) {
        usleep(1000);
    }
    *count_out = 0;
    errmsg_set(err, "the test wants it so");
    return MORSEL_IO;
}

static uint64_t size_at(struct bench *b, uint32_t i, inode_id inode)
{
    struct store_stat stat;
    struct errmsg err;

    CHECK(store_stat(b->nodes[i].server.store, bench_object(inode), &stat, &err) == 0);
    return stat.size;
}

static void assert_open(const struct bench *b)
{
    assert_null(copy_trouble(b->nodes[0].copy));
    assert_null(copy_trouble(b->nodes[1].copy));
}

static void a_copy_is_on_both(void **state)
{
    static uint8_t bytes[PART];
    struct bench *b = *state;
    struct bench_copy shifted = { .from = TARGET, .to = TARGET, .from_offset = 3, .length = 7 };
    uint64_t said;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i / 3 % 255 + 1);
    }
    assert_int_equal(bench_write_as(b, 0, SOURCE, 0, bytes, PART, ++b->number), 0);
    said = b->said_bytes;
    assert_int_equal(bench_copy_as(b, 1, &PLAIN, b->number + 1), MORSEL_NOT_HERE);
    assert_int_equal(bench_copy_as(b, 0, &PLAIN, ++b->number), 0);
    shifted.to_offset = 2 * PART + 3;
    assert_int_equal(bench_copy_as(b, 0, &shifted, ++b->number), 0);
    assert_int_equal(b->said_bytes, said); /* No member has sent a byte of it. */
    bench_assert_same(b, SOURCE);
    bench_assert_same(b, TARGET);
    assert_int_equal(size_at(b, 1, TARGET), 2 * PART + 10);
    assert_int_equal(bench_truncate(b, 0, TARGET, 4), 0);
    bench_assert_text(b, 1, TARGET, "\1\1\1\2");
}

/* What the source does not have is zeros, whatever was there, and leaves the target as long as it is. */
static void behind_the_end_there_are_zeros(void **state)
{
    struct bench *b = *state;
    struct bench_copy behind = PLAIN;

    assert_int_equal(bench_write_text(b, 0, SOURCE, 0, "short"), 0);
    assert_int_equal(bench_write_text(b, 0, TARGET, 0, "much longer"), 0);
    assert_int_equal(bench_copy_as(b, 0, &PLAIN, ++b->number), 0);
    assert_int_equal(size_at(b, 0, TARGET), 11);
    assert_int_equal(bench_truncate(b, 0, TARGET, 6), 0);
    behind.from_offset = BLOCK_BYTES;
    behind.to = 3;
    assert_int_equal(bench_copy_as(b, 0, &behind, ++b->number), 0);
    bench_assert_same(b, TARGET);
    bench_assert_same(b, 3);
}

static void a_copy_waits_for_what_is_under_way(void **state)
{
    struct bench *b = *state;
    struct asked *w = calloc(2, sizeof(*w)), *c = w + 1;

    CHECK(w != NULL);
    assert_int_equal(bench_write_text(b, 0, SOURCE, 0, "old"), 0);
    b->deaf = true;
    b->lost_forwards = 0;
    bench_ask_write(b, 0, w, SOURCE, 0, "new", 3, b->number + 1);
    UNTIL(b, b->lost_forwards > 0);
    bench_ask_copy(b, 0, c, &PLAIN, b->number + 2);
    UNTIL(b, b->lost_forwards > 2);
    assert_int_equal(size_at(b, 0, TARGET), 0);
    assert_false(c->answered);
    b->deaf = false;
    UNTIL(b, w->answered && c->answered);
    assert_int_equal(c->status, 0);
    bench_assert_text(b, 0, TARGET, "new");
    bench_assert_text(b, 1, TARGET, "new");
    free(w);
}

/* Until all have copied; also what is written far behind, for it makes the source longer. */
static void what_is_copied_stays_as_it_is(void **state)
{
    struct bench *b = *state;
    struct asked *c = calloc(3, sizeof(*c)), *over = c + 1, *behind = c + 2;

    CHECK(c != NULL);
    assert_int_equal(bench_write_text(b, 0, SOURCE, 0, "old"), 0);
    b->deaf = true;
    b->lost_forwards = 0;
    bench_ask_copy(b, 0, c, &PLAIN, b->number + 1);
    UNTIL(b, b->lost_forwards > 0 && size_at(b, 0, TARGET) > 0);
    bench_ask_write(b, 0, over, SOURCE, 0, "new", 3, b->number + 2);
    bench_ask_write(b, 0, behind, SOURCE, 5 * PART, "!", 1, b->number + 3);
    UNTIL(b, b->lost_forwards > 2);
    bench_assert_text(b, 0, SOURCE, "old");
    b->deaf = false;
    UNTIL(b, c->answered && over->answered && behind->answered);
    assert_int_equal(c->status | over->status | behind->status, 0);
    bench_assert_text(b, 0, TARGET, "old");
    bench_assert_text(b, 1, TARGET, "old");
    bench_assert_same(b, SOURCE);
    free(c);
}

/* Asked for again at the other one, which has it or has it not: then it is done behind what was changed since. */
static void who_goes_on_decides_what_was_copied(void **state)
{
    struct bench *b = *state;
    struct asked *c = calloc(1, sizeof(*c));
    op_sequence number = b->number + 3;

    CHECK(c != NULL);
    assert_int_equal(bench_write_as(b, 0, SOURCE, 0, "old", 3, ++b->number), 0);
    assert_int_equal(bench_copy_as(b, 0, &PLAIN, ++b->number), 0);
    b->deaf = true;
    b->lost_forwards = 0;
    bench_ask_copy(b, 0, c, &(struct bench_copy){ .from = SOURCE, .to = 3, .length = PART },
                   number);
    UNTIL(b, b->lost_forwards > 0 && size_at(b, 0, 3) > 0);
    bench_kill(b, 0);
    UNTIL(b, c->answered);
    b->deaf = false;
    UNTIL(b, bench_orders(b, 1));
    assert_int_equal(bench_write_as(b, 1, SOURCE, 0, "new", 3, number + 1), 0);
    assert_int_equal(bench_copy_as(b, 1, &PLAIN, b->number), 0); /* The first answer. */
    bench_ask_copy(b, 1, c, &(struct bench_copy){ .from = SOURCE, .to = 3, .length = PART },
                   number);
    UNTIL(b, c->answered);
    assert_int_equal(c->status, 0);
    bench_start(b, 0);
    UNTIL(b, bench_in_sync(b));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        bench_assert_text(b, i, TARGET, "old");
        bench_assert_text(b, i, 3, "new");
    }
    free(c);
}

/* The one that stood alone cannot read what it is to copy, and another one is just being taken in: it is the only one
 * that has everything until that has happened, and what it has not begun is tried again. */
static void who_is_needed_is_not_closed_for_a_copy(void **state)
{
    struct bench *b = *state;
    const struct group *group = &copy_replica(b->nodes[0].copy)->group;
    struct asked *c = calloc(1, sizeof(*c));

    CHECK(c != NULL);
    assert_int_equal(bench_write_as(b, 0, SOURCE, 0, "hello", 5, ++b->number), 0);
    bench_kill(b, 1);
    UNTIL(b, group->record.set == 1 && bench_orders(b, 0));
    atomic_store(&disk.armed, true);
    bench_ask_copy(b, 0, c, &PLAIN, ++b->number);
    UNTIL(b, atomic_load(&disk.hangs));
    bench_start(b, 1);
    UNTIL(b, group->record.set == 3 && group->joined == 0);
    atomic_store(&disk.let_go, true);
    UNTIL(b, bench_in_sync(b) && c->answered);
    assert_int_equal(c->status, 0);
    assert_open(b);
    bench_assert_text(b, 0, TARGET, "hello");
    bench_assert_same(b, TARGET);
    free(c);
}

static void nonsense_is_refused(void **state)
{
    struct bench *b = *state;
    struct bench_copy copy = PLAIN;

    assert_int_equal(bench_write_text(b, 0, SOURCE, 0, "hello"), 0);
    assert_int_equal(bench_copy_as(b, 0, &copy, 0), MORSEL_MALFORMED);
    copy.to = SOURCE;
    copy.to_offset = BLOCK_BYTES; /* Onto what it reads. */
    assert_int_equal(bench_copy_as(b, 0, &copy, ++b->number), MORSEL_INVAL);
    copy.to_offset = PART;
    copy.from_offset = 1; /* Otherwise across blocks. */
    assert_int_equal(bench_copy_as(b, 0, &copy, ++b->number), MORSEL_INVAL);
    copy.from_offset = OBJECT_BYTES_MAX;
    assert_int_equal(bench_copy_as(b, 0, &copy, ++b->number), MORSEL_FBIG);
    copy = PLAIN;
    copy.to_offset = UINT64_MAX - BLOCK_BYTES + 1;
    assert_int_equal(bench_copy_as(b, 0, &copy, ++b->number), MORSEL_FBIG);
    b->full = true;
    assert_int_equal(bench_copy_as(b, 0, &PLAIN, ++b->number), MORSEL_NOSPC);
    assert_open(b);
    assert_int_equal(size_at(b, 0, TARGET), 0);
    bench_assert_same(b, SOURCE);
}

/* ---- Many at once ---- */

static uint64_t draw_offset(struct bench *b)
{
    return prng_below(&b->prng, AREA / BLOCK_BYTES) * BLOCK_BYTES;
}

static void ask_something(struct bench *b, struct asked *a)
{
    struct bench_copy copy = { .from = 1 + prng_below(&b->prng, 3) };
    uint8_t bytes[300];

    copy.to = 1 + (copy.from + prng_below(&b->prng, 2)) % 3;
    copy.from_offset = draw_offset(b);
    copy.to_offset = draw_offset(b);
    copy.length = (uint32_t)(1 + prng_below(&b->prng, PART));
    b->number++;
    if (prng_below(&b->prng, 2) == 0) {
        bench_ask_copy(b, 0, a, &copy, b->number);
        return;
    }
    memset(bytes, (int)b->number, sizeof(bytes));
    bench_ask_write(b, 0, a, copy.to, copy.to_offset + prng_below(&b->prng, 3000), bytes,
                    sizeof(bytes), b->number);
}

static struct asked *free_asker(struct asked *askers)
{
    for (uint32_t i = 0; i < ASKERS; i++) {
        if (askers[i].answered) {
            return &askers[i];
        }
    }
    return NULL;
}

static void among_changes_copies_stay_equal(void **state)
{
    struct bench *b = *state;
    struct asked *askers = calloc(ASKERS, sizeof(*askers)), *a = NULL;
    unsigned done = 0;

    CHECK(askers != NULL);
    for (uint32_t i = 0; i < ASKERS; i++) {
        askers[i].answered = true;
        askers[i].status = -1;
    }
    b->delay = 30;
    for (unsigned k = 0; k < CALLS; k++) {
        UNTIL(b, (a = free_asker(askers)) != NULL);
        done += a->status == 0;
        ask_something(b, a);
    }
    for (uint32_t i = 0; i < ASKERS; i++) {
        UNTIL(b, askers[i].answered);
    }
    b->delay = 0;
    UNTIL(b, bench_in_sync(b));
    assert_open(b);
    assert_true(done > CALLS / 2);
    for (inode_id inode = 1; inode <= 3; inode++) {
        bench_assert_same(b, inode);
    }
    free(askers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_is_on_both, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(behind_the_end_there_are_zeros, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(a_copy_waits_for_what_is_under_way, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(what_is_copied_stays_as_it_is, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(who_goes_on_decides_what_was_copied, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(who_is_needed_is_not_closed_for_a_copy, bench_begin,
                                        bench_end),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(among_changes_copies_stay_equal, bench_begin, bench_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
