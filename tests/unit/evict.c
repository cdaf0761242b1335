/* What of a data set is evicted: from the end, as much as is needed, and never of one that may not go; and what is kept of that. */
#include "meta/datasets/evict.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLIENT = 7, MORSELS = 8, MORSEL = 8192 };

/* A file whose morsels lie on benefactors 1 and 2 by turns, each once; sealed. */
static const struct data_set *make_set(struct ns_fixture *f, bool scratch, bool seals)
{
    struct meta_op op = op_make(INODE_ROOT, scratch ? "scratch" : "data", 0100644);
    inode_id file;

    op.make.layout = (struct file_layout){ .class = CLASS_SCAVENGED,
                                           .scratch = scratch,
                                           .replicas = 1,
                                           .stripe = { MORSEL_BYTES_DEFAULT, 1, 4 } };
    ns_must(f, op);
    file = ns_counters(f->ns)->inode_next - 1;
    for (uint32_t i = 0; i < MORSELS; i++) {
        struct set_morsel m = {
            .number = i, .length = MORSEL, .donor_count = 1, .donors = { 1 + i % 2 }
        };
        struct buf list;

        buf_init(&list);
        op_morsel_put(&list, &m);
        op = (struct meta_op){ .kind = OP_SET_STORED, .client = CLIENT };
        op.set_stored.inode = op.set_stored.set = file;
        op.set_stored.size = (i + 1) * (uint64_t)MORSEL_BYTES_DEFAULT;
        op.set_stored.morsels = buf_slice(&list);
        assert_int_equal(ns_fixture_run(f, &op), 0);
        buf_free(&list);
    }
    op = (struct meta_op){ .kind = OP_SET_SEAL, .client = CLIENT };
    op.set_seal.inode = op.set_seal.set = file;
    if (seals) {
        assert_int_equal(ns_fixture_run(f, &op), 0);
    }
    return sets_find(ns_sets(f->ns), file);
}

static int evict(struct ns_fixture *f, uint64_t set, uint32_t kept)
{
    struct meta_op op = { .kind = OP_SET_EVICT };

    op.set_evict.set = set;
    op.set_evict.kept = kept;
    return ns_fixture_run(f, &op);
}

static void test_end_goes_first_and_no_more_than_is_needed(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct evict_want wants[] = { { 1, 0 }, { 2, 0 } };
    const struct data_set *set;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, true, true);
    assert_false(evict_helps(set, wants, 2));
    assert_int_equal(evict_choose(set, wants, 2, OP_EVICT_MAX), SET_MORSELS_MAX);
    wants[1].bytes = 1; /* The last one is there: it is enough. */
    assert_true(evict_helps(set, wants, 2));
    assert_int_equal(evict_choose(set, wants, 2, OP_EVICT_MAX), MORSELS - 1);
    assert_int_equal(wants[1].bytes, 0);
    wants[0].bytes = MORSEL + 1; /* Two of this one's, and what lies between. */
    assert_int_equal(evict_choose(set, wants, 2, OP_EVICT_MAX), MORSELS - 4);
    wants[0].bytes = UINT64_MAX;
    assert_int_equal(evict_choose(set, wants, 2, OP_EVICT_MAX), 0);
    assert_int_equal(evict_choose(set, wants, 2, 3), MORSELS - 3);
    ns_fixture_close(f);
    free(f);
}

/* Its owner wants it to go: down to there, in steps of what goes in one. */
static void test_end_goes_down_to_what_is_to_be_kept(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    const struct data_set *set;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, true, true);
    assert_int_equal(evict_down_to(set, 5, OP_EVICT_MAX), 5);
    assert_int_equal(evict_down_to(set, 5, 2), MORSELS - 2);
    assert_int_equal(evict_down_to(set, 5, 0), SET_MORSELS_MAX);
    assert_int_equal(evict_down_to(set, MORSELS + 1, 0), MORSELS + 1); /* Nothing lies there. */
    assert_int_equal(evict(f, set->head.number, 6), 0);
    assert_int_equal(evict_down_to(set, 5, 1), 5); /* What is gone does not count. */
    assert_int_equal(evict_down_to(set, 4, 1), 5);
    assert_int_equal(evict_down_to(set, 0, OP_EVICT_MAX), 0);
    ns_fixture_close(f);
    free(f);
}

/* Wants of few and of many benefactors, among which those of the set are. */
static void test_it_helps_where_the_set_lies(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct evict_want wants[4] = { { 1, 0 }, { 2, MORSEL }, { 3, 7 }, { 4, 7 } };
    const struct data_set *set;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, true, true);
    for (uint32_t first = 0; first < 4; first++) {
        for (uint32_t count = 0; first + count <= 4; count++) {
            assert_int_equal(evict_helps(set, wants + first, count),
                             first <= 1 && first + count > 1);
        }
    }
    assert_int_equal(evict_choose(set, wants, 4, OP_EVICT_MAX), MORSELS - 1);
    assert_int_equal(wants[1].bytes, 0);
    assert_int_equal(wants[2].bytes, 7); /* Where nothing of it lies. */
    assert_false(evict_helps(set, wants, 4));
    ns_fixture_close(f);
    free(f);
}

static void test_marks(void **state)
{
    (void)state;
    assert_int_equal(evict_low(1000, 50), 0);
    assert_int_equal(evict_low(1000, 49), 51);
    assert_int_equal(evict_up_to(1000, 20, false), 30);
    assert_int_equal(evict_for_morsels(1 << 20, 4096, 4096), 0);
    assert_int_equal(evict_for_morsels(1 << 20, 4095, 4096), (1 << 20) / 20 - 4095);
    assert_int_equal(evict_for_morsels(8192, 0, 4096), 8192); /* No more than it gives. */
    assert_int_equal(evict_room_left(1000, 100, 10), 0);
    assert_int_equal(evict_room_left(1000, 140, 10), 140);
    assert_int_equal(evict_young_until(0, 5), 0);
    assert_int_equal(evict_young_until(100, 5), 110);
    assert_true(evict_young_until(INT64_MAX - 5, 5) == INT64_MAX);
}

static void test_what_is_evicted_is_kept_over_a_restart(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct op_run waste[MORSELS];
    struct meta_op used = { .kind = OP_SET_USED };
    const struct data_set *set;
    struct set_morsel m;
    uint32_t count;
    uint64_t number;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, true, true);
    number = set->head.number;
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_EVICTION);
    assert_int_equal(evict(f, number, 5), 0);
    assert_int_equal(evict(f, number, 5), MORSEL_INVAL); /* Nothing of it is left to go. */
    used.set_used.set = number;
    used.set_used.first_ns = 4;
    used.set_used.uses = (struct lru_k_uses){ .count = 2, .times_ns = { 7, 4 }, .last_ns = 8 };
    assert_int_equal(ns_fixture_run(f, &used), 0);
    assert_int_equal(ns_fixture_reopen(f), 0);
    sets_check(ns_sets(f->ns));
    set = sets_find(ns_sets(f->ns), number);
    assert_true(set->head.evicted && set->head.scratch && set->head.sealed);
    assert_int_equal(set->head.kept, 5);
    assert_int_equal(set->head.first_ns, 4);
    assert_memory_equal(&set->head.uses, &used.set_used.uses, sizeof(set->head.uses));
    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_true(set_get(set, i, &m));
        assert_int_equal(m.donor_count, i < 5);
        assert_int_equal(set_has_evicted(&set->head, &m), i >= 5);
    }
    assert_int_equal(ns_waste(f->ns, 2, waste, MORSELS, &count, &f->err), 0);
    assert_int_equal(count, 2); /* 5 and 7; 6 is at the other one. */
    assert_true(set_is_waste(set, 2, 7) && set_is_waste(set, 1, 6) && !set_is_waste(set, 1, 4));
    ns_fixture_close(f);
    free(f);
}

/* A fetch that was under way when its morsel went. */
static void test_what_was_evicted_is_not_copied_back(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op copied = { .kind = OP_SET_COPY };
    const struct data_set *set;
    struct set_morsel m;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, true, true);
    copied.set_copy.set = set->head.number;
    copied.set_copy.donor = 3;
    copied.set_copy.change = OP_COPY_ADD;
    copied.set_copy.length = MORSEL;
    for (uint32_t i = 4; i < 6; i++) {
        assert_int_equal(evict(f, set->head.number, 5), i == 4 ? 0 : MORSEL_INVAL);
        copied.set_copy.morsel = i;
        assert_int_equal(ns_fixture_run(f, &copied), 0);
        assert_true(set_get(set, i, &m));
        assert_int_equal(m.donor_count, i == 4 ? 2 : 0);
    }
    assert_true(set_is_waste(set, 3, 5));
    ns_fixture_close(f);
    free(f);
}

static int bring_back(struct ns_fixture *f, uint64_t set, uint32_t morsel, donor_id donor)
{
    struct meta_op back = { .kind = OP_SET_COPY };

    back.set_copy.set = set;
    back.set_copy.morsel = morsel;
    back.set_copy.length = MORSEL;
    back.set_copy.change = OP_COPY_ADD;
    back.set_copy.donor = donor;
    back.set_copy.instead = OP_COPY_BACK;
    return ns_fixture_run(f, &back);
}

/* Which of them are evicted, a bit each. */
static unsigned evicted(const struct data_set *set)
{
    unsigned bits = 0;
    struct set_morsel m;

    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_true(set_get(set, i, &m));
        assert_true(set_has_evicted(&set->head, &m) == (m.donor_count == 0));
        bits |= (unsigned)(m.donor_count == 0) << i;
    }
    return bits;
}

/* From an origin, in any order: what is kept grows with what is there without a gap, and what is behind it goes first again. */
static void test_what_was_evicted_comes_back(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    const struct data_set *set;
    uint64_t number;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, true, true);
    number = set->head.number;
    assert_int_equal(evict_end(set), MORSELS);
    assert_int_equal(evict(f, number, 4), 0);
    assert_int_equal(evict_end(set), 4);
    assert_int_equal(bring_back(f, number, 6, 1), 0); /* There it is still to be deleted. */
    assert_int_equal(evicted(set), 0xf0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_EVICTION);
    assert_int_equal(bring_back(f, number, 6, 3), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_LET_GO);
    assert_int_equal(evicted(set), 0xb0);
    assert_int_equal(set->head.kept, 4);
    assert_int_equal(evict_end(set), 7);
    assert_int_equal(bring_back(f, number, 4, 3), 0);
    assert_int_equal(bring_back(f, number, 4, 4), 0); /* One copy more than is wanted may be. */
    assert_int_equal(bring_back(f, number, 4, 5), 0);
    assert_true(set_is_waste(set, 5, 4));
    assert_int_equal(evicted(set), 0xa0);
    assert_int_equal(set->head.kept, 5);
    assert_int_equal(ns_fixture_reopen(f), 0);
    set = sets_find(ns_sets(f->ns), number);
    sets_check(ns_sets(f->ns));
    assert_int_equal(evicted(set), 0xa0);
    assert_int_equal(evict(f, number, 7), MORSEL_INVAL);
    assert_int_equal(evict(f, number, 6), 0);
    assert_int_equal(evicted(set), 0xe0);
    assert_int_equal(set->head.kept, 5);
    assert_int_equal(bring_back(f, number, 6, 4), 0); /* At 3 it is to be deleted. */
    assert_int_equal(bring_back(f, number, 5, 3), 0);
    assert_int_equal(set->head.kept, 7); /* 5, and 6, which was there before. */
    assert_int_equal(bring_back(f, number, 7, 3), 0);
    assert_false(set->head.evicted);
    assert_int_equal(set->head.kept, 0);
    assert_int_equal(evict(f, number, 0), 0);
    assert_int_equal(evicted(set), 0xff);
    sets_check(ns_sets(f->ns));
    ns_fixture_close(f);
    free(f);
}

static void test_what_may_not_go_stays(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op mark = { .kind = OP_SET_MARK };
    const struct data_set *set;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    set = make_set(f, false, true);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_SETS);
    assert_int_equal(evict(f, set->head.number, 0), MORSEL_INVAL); /* Data. */
    ns_must(f, op_unlink(INODE_ROOT, "data", false));
    set = make_set(f, true, false);
    assert_int_equal(evict(f, set->head.number, 0), MORSEL_INVAL); /* Being stored. */
    ns_must(f, op_unlink(INODE_ROOT, "scratch", false));
    set = make_set(f, true, true);
    mark.set_mark.set = set->head.number;
    mark.set_mark.pinned = true;
    assert_int_equal(ns_fixture_run(f, &mark), 0);
    assert_int_equal(evict(f, set->head.number, 0), MORSEL_INVAL); /* Pinned. */
    mark.set_mark.pinned = false;
    assert_int_equal(ns_fixture_run(f, &mark), 0);
    assert_int_equal(evict(f, set->head.number, 0), 0);
    assert_int_equal(evict(f, 4711, 0), MORSEL_NODATA);
    ns_fixture_close(f);
    free(f);
}

/* As a program wrote it that knew nothing of eviction. */
static void test_old_heads_are_read(void **state)
{
    struct set_head head = { .number = 5, .inode = 6, .copies = 2, .morsel_bytes = 65536 }, read;
    struct buf bytes;

    (void)state;
    buf_init(&bytes);
    set_head_encode(&head, &bytes);
    assert_int_equal(bytes.data[0], 1);
    assert_int_equal(bytes.count, 31);
    assert_int_equal(set_head_decode(5, buf_slice(&bytes), &read), 0);
    assert_memory_equal(&head, &read, sizeof(head));
    buf_clear(&bytes);
    head.scratch = true;
    set_head_encode(&head, &bytes);
    assert_int_equal(bytes.data[0], 2);
    assert_int_equal(set_head_decode(5, buf_slice(&bytes), &read), 0);
    assert_true(read.scratch && !read.pinned && !read.evicted);
    for (size_t i = 0; i < bytes.count; i++) {
        assert_int_not_equal(set_head_decode(5, (struct slice){ bytes.data, i }, &read), 0);
    }
    buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end_goes_first_and_no_more_than_is_needed),
        cmocka_unit_test(test_end_goes_down_to_what_is_to_be_kept),
        cmocka_unit_test(test_it_helps_where_the_set_lies),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_what_is_evicted_is_kept_over_a_restart),
        cmocka_unit_test(test_what_was_evicted_is_not_copied_back),
        cmocka_unit_test(test_what_was_evicted_comes_back),
        cmocka_unit_test(test_what_may_not_go_stays),
        cmocka_unit_test(test_old_heads_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
