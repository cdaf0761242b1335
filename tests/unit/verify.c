/* The steps of a comparison: what is found, and who gets whose bytes, against members that are arrays of blocks. */
#include "iod/replica/verify.h"

#include "common/base/check.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OBJECTS = 40, STRETCHES = 4, BLOCKS = STRETCHES * VERIFY_BLOCKS, STEPS_MAX = 100000 };

struct object
{
    bool exists;
    uint64_t size;
    uint32_t blocks[BLOCKS]; /* 0: a hole. */
};

struct world
{
    struct verify v;
    group_set set;
    uint32_t looks, holds, takes, founds;
    uint32_t mended, lost; /* Of the next LOOK at member 1. */
    bool moves;            /* What is not held seems to differ. */
    bool fails;            /* TAKE. */
    struct object members[REPLICAS_MAX][OBJECTS];
};

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        for (uint32_t o = 0; o < OBJECTS; o += 1 + o % 3) {
            struct object *x = &w->members[m][o];

            x->exists = true;
            x->size = (uint64_t)BLOCK_BYTES * (o % 5 == 0 ? BLOCKS : 10 * o);
            for (uint32_t b = 0; b < x->size / BLOCK_BYTES; b++) {
                x->blocks[b] = b / VERIFY_BLOCKS == o % 4 || o % 5 == 1 ? o * BLOCKS + b + 1 : 0;
            }
        }
    }
    w->set = 3;
    *state = w;
    return 0;
}

static int end(void **state)
{
    free(*state);
    return 0;
}

static void list(struct world *w, uint32_t member, uint64_t after)
{
    struct verify_list out = { .upto = UINT64_MAX };

    for (uint64_t o = after; o < OBJECTS; o++) {
        if (!w->members[member][o].exists) {
            continue;
        }
        if (out.count == VERIFY_LIST_MAX) {
            out.upto = out.items[out.count - 1].place;
            break;
        }
        out.items[out.count++] = (struct verify_item){ { o + 1, 0 }, o + 1 };
    }
    verify_listed(&w->v, member, &out);
}

static void look(struct world *w, uint32_t member, const struct verify_step *step)
{
    const struct object *x = &w->members[member][step->object.inode - 1];
    struct verify_seen out = { .exists = x->exists, .size = x->size, .next = UINT64_MAX };
    uint64_t first = step->span.start / BLOCK_BYTES, last = step->span.end / BLOCK_BYTES;
    uint64_t steps = w->v.steps;

    for (uint64_t b = last; b < BLOCKS && out.next == UINT64_MAX; b++) {
        out.next = x->blocks[b] != 0 ? b * BLOCK_BYTES : UINT64_MAX;
    }
    for (uint64_t b = first; b < last && b < BLOCKS; b++) {
        out.sums[b - first] = x->blocks[b];
    }
    if (w->moves && !step->hold && member == 1) {
        out.sums[7]++;
        out.size++;
    }
    if (member == 1 && !step->hold) {
        out.mended = w->mended;
        out.lost = w->lost;
        w->mended = w->lost = 0;
    }
    verify_saw(&w->v, member, &out);
    if (w->v.steps == steps) {
        verify_saw(&w->v, member, &out); /* Twice is once. */
    }
}

static void take(struct world *w, uint32_t member, const struct verify_step *step)
{
    struct object *x = &w->members[member][step->object.inode - 1];
    const struct object *from = &w->members[step->source][step->object.inode - 1];
    uint64_t first = step->span.start / BLOCK_BYTES, last = step->span.end / BLOCK_BYTES;

    assert_true(step->hold && from->exists && member != step->source);
    w->takes++;
    if (!w->fails && first == last) {
        x->exists = true;
        x->size = step->size;
        for (uint64_t b = x->size / BLOCK_BYTES; b < BLOCKS; b++) {
            x->blocks[b] = 0;
        }
    }
    for (uint64_t b = first; b < last && !w->fails; b++) {
        x->blocks[b] = from->blocks[b];
    }
    verify_took(&w->v, member, !w->fails);
}

static void answer(struct world *w)
{
    const struct verify_step step = w->v.step;

    w->looks += step.type == VERIFY_LOOK;
    w->holds += step.type == VERIFY_LOOK && step.hold;
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if ((step.to >> m & 1U) == 0) {
            continue;
        }
        if (step.type == VERIFY_LIST) {
            list(w, m, step.after);
        } else if (step.type == VERIFY_LOOK) {
            look(w, m, &step);
        } else {
            take(w, m, &step);
        }
    }
    w->founds += w->v.has_found;
    w->v.has_found = false;
}

static void run(struct world *w, uint32_t me)
{
    uint32_t part = 0;

    verify_begin(&w->v, 5);
    verify_round(&w->v, w->set, me);
    for (unsigned i = 0; w->v.running; i++) {
        assert_true(i < STEPS_MAX && verify_part(&w->v) >= part);
        part = verify_part(&w->v);
        answer(w);
    }
    assert_true(w->v.done && w->v.run == 5 && verify_part(&w->v) == 1000000);
}

static void assert_counts(const struct world *w, uint64_t differing, uint64_t repaired,
                          uint64_t broken)
{
    assert_int_equal(w->v.counts.differing, differing);
    assert_int_equal(w->v.counts.repaired, repaired);
    assert_int_equal(w->v.counts.broken, broken);
}

static void assert_same(const struct world *w)
{
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if ((w->set >> m & 1U) != 0) {
            assert_memory_equal(w->members[m], w->members[__builtin_ctz(w->set)],
                                sizeof(w->members[m]));
        }
    }
}

static void equal_copies_are_equal(void **state)
{
    struct world *w = *state;
    uint64_t objects = 0, bytes = 0;

    for (uint32_t o = 0; o < OBJECTS; o++) {
        objects += w->members[0][o].exists;
        bytes += w->members[0][o].size;
    }
    run(w, 0);
    assert_int_equal(w->v.counts.objects, objects);
    assert_true(w->v.counts.bytes > 0 && w->v.counts.bytes < bytes); /* Holes are passed over. */
    assert_int_equal(w->holds, 0);
    assert_counts(w, 0, 0, 0);
}

/* Only what differs while nothing is under way counts. */
static void what_moves_is_no_difference(void **state)
{
    struct world *w = *state;

    w->moves = true;
    run(w, 0);
    assert_true(w->holds > 0);
    assert_int_equal(w->takes, 0);
    assert_counts(w, 0, 0, 0);
}

static void of_two_who_orders_is_right(void **state)
{
    struct world *w = *state;

    w->members[1][0].blocks[3] = 77;
    w->members[1][0].blocks[4] = 78;
    w->members[1][0].blocks[9] = 79;
    w->members[0][15].blocks[2 * VERIFY_BLOCKS] = 80;
    run(w, 0);
    assert_counts(w, 4, 4, 0);
    assert_int_equal(w->takes, 3);
    assert_int_equal(w->founds, 3);
    assert_same(w);
    assert_int_equal(w->members[1][15].blocks[(size_t)2 * VERIFY_BLOCKS], 80);
    w->members[1][0].blocks[3] = 77;
    run(w, 1);
    assert_int_equal(w->members[0][0].blocks[3], 77);
    assert_same(w);
}

static void of_three_two_are_right(void **state)
{
    struct world *w = *state;
    uint32_t before = w->members[0][0].blocks[3];

    w->set = 7;
    w->members[0][0].blocks[3] = 77;
    w->members[1][0].blocks[4] = 78;
    w->members[0][0].blocks[5] = 1;
    w->members[1][0].blocks[5] = 2;
    w->members[2][0].blocks[5] = 3;
    run(w, 0);
    assert_counts(w, 4, 4, 0);
    assert_same(w);
    assert_int_equal(w->members[0][0].blocks[3], before);
    assert_int_equal(w->members[0][0].blocks[5], 1);
}

/* Nothing is taken from anybody that nobody else has. */
static void what_one_lacks_it_gets(void **state)
{
    struct world *w = *state;
    static struct object before[OBJECTS];

    memcpy(before, w->members[0], sizeof(before));
    memset(&w->members[0][0], 0, sizeof(w->members[0][0]));
    w->members[0][15].size = 5 * BLOCK_BYTES;
    memset(w->members[0][15].blocks + 5, 0,
           sizeof(w->members[0][15].blocks) - 5 * sizeof(uint32_t));
    memset(&w->members[1][10], 0, sizeof(w->members[1][10]));
    run(w, 0);
    assert_true(w->members[0][0].exists && w->members[0][0].size == before[0].size);
    assert_int_equal(w->members[0][15].size, before[15].size);
    assert_true(w->members[1][10].exists);
    assert_same(w);
    assert_memory_equal(w->members[0], before, sizeof(before));
    assert_true(w->v.counts.differing >= 3 && w->v.counts.broken == 0);
    w->set = 7;
    w->members[1][15].size += BLOCK_BYTES; /* Two know better. */
    run(w, 0);
    assert_int_equal(w->members[1][15].size, before[15].size);
    assert_same(w);
}

static void damage_is_counted(void **state)
{
    struct world *w = *state;

    w->mended = 3;
    run(w, 0);
    assert_int_equal(w->v.counts.damaged, 3);
    assert_counts(w, 0, 3, 0);
    w->lost = 2;
    run(w, 0);
    assert_int_equal(w->v.counts.damaged, 2);
    assert_counts(w, 0, 0, 2);
    w->members[1][0].blocks[3] = 77;
    w->fails = true;
    run(w, 0);
    assert_counts(w, 1, 0, 1);
    assert_int_equal(w->founds, 1);
}

/* Rounds begin in the middle of everything, with fewer members and with more; in the end all is found. */
static void rounds_may_begin_at_any_time(void **state)
{
    struct world *w = *state;
    struct prng prng;

    prng_seed(&prng, test_seed_first());
    for (unsigned k = 0; k < 30; k++) {
        uint32_t planted = 1 + (uint32_t)prng_below(&prng, 20);

        w->set = prng_below(&prng, 2) == 0 ? 3 : 7;
        for (uint32_t i = 0; i < planted; i++) {
            uint32_t m = (uint32_t)prng_below(&prng, REPLICAS_MAX);
            struct object *x = &w->members[m][prng_below(&prng, OBJECTS)];

            if ((w->set >> m & 1U) != 0 && x->exists && x->size > 0) {
                x->blocks[prng_below(&prng, x->size / BLOCK_BYTES)] =
                    1 + (uint32_t)prng_below(&prng, 9);
            }
        }
        verify_begin(&w->v, k + 1);
        verify_round(&w->v, w->set, 0);
        for (unsigned i = 0; w->v.running; i++) {
            assert_true(i < STEPS_MAX);
            answer(w);
            if (w->v.running && prng_below(&prng, 30) == 0) {
                verify_round(&w->v, w->set, 0);
            }
        }
        assert_same(w);
        assert_int_equal(w->v.counts.broken, 0);
        memcpy(w->members[2], w->members[0], sizeof(w->members[2]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_copies_are_equal, begin, end),
        cmocka_unit_test_setup_teardown(what_moves_is_no_difference, begin, end),
        cmocka_unit_test_setup_teardown(of_two_who_orders_is_right, begin, end),
        cmocka_unit_test_setup_teardown(of_three_two_are_right, begin, end),
        cmocka_unit_test_setup_teardown(what_one_lacks_it_gets, begin, end),
        cmocka_unit_test_setup_teardown(damage_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(rounds_may_begin_at_any_time, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
