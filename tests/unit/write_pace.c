/* Writers and a recovery: a model of both is driven, and has to end wherever it can. */
#include "iod/replica/write_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { MIB = 1 << 20, STEP_US = 1000, WRITERS_MAX = 4, UNDER_WAY_MAX = 32, S = 1000000 };

/* One that has always `depth` changes under way, and could write at `speed` bytes a second. */
struct writer
{
    unsigned depth;
    uint64_t bytes, speed;
    struct write_wait waits[UNDER_WAY_MAX];
    bool waiting[UNDER_WAY_MAX];
    uint64_t free_us, written, longest_us, let_us, quiet_us;
};

struct world
{
    struct write_pace pace;
    struct writer writers[WRITERS_MAX];
    unsigned count;
    uint64_t copies; /* Bytes a second. */
    double again;    /* So much of what is written was not outstanding. */
    uint64_t left, gave, grown;
    uint64_t now_us;
};

static void wrote(struct world *w, struct writer *r, uint64_t since_us)
{
    uint64_t grown = (uint64_t)((double)r->bytes * w->again);

    r->longest_us = w->now_us - since_us > r->longest_us ? w->now_us - since_us : r->longest_us;
    r->quiet_us = w->now_us - r->let_us > r->quiet_us ? w->now_us - r->let_us : r->quiet_us;
    r->let_us = w->now_us;
    r->written += r->bytes;
    w->left += grown;
    w->grown += grown;
}

static void write_more(struct world *w, struct writer *r, client_id id)
{
    for (unsigned i = 0; i < r->depth; i++) {
        if (r->waiting[i] || r->free_us > w->now_us) {
            continue;
        }
        r->free_us =
            (r->free_us + 50000 > w->now_us ? r->free_us : w->now_us) + r->bytes * S / r->speed;
        if (write_pace_enter(&w->pace, &r->waits[i], id, r->bytes, w->now_us)) {
            wrote(w, r, w->now_us);
        } else {
            r->waiting[i] = true;
        }
    }
}

static void let_go(struct world *w)
{
    struct write_wait *wait;

    while ((wait = write_pace_next(&w->pace, w->now_us)) != NULL) {
        for (unsigned k = 0; k < w->count; k++) {
            struct writer *r = &w->writers[k];

            if (wait >= r->waits && wait < r->waits + UNDER_WAY_MAX) {
                r->waiting[wait - r->waits] = false;
                wrote(w, r, wait->since_us);
            }
        }
    }
}

static void step(struct world *w)
{
    uint64_t may = w->copies * STEP_US / S;
    struct replica_progress progress;

    w->now_us += STEP_US;
    may = may < w->left ? may : w->left;
    w->left -= may;
    w->gave += may;
    progress = (struct replica_progress){ w->gave, w->grown, REPLICA_SHARE };
    write_pace_look(&w->pace, &progress, w->now_us);
    if (write_pace_due_us(&w->pace) <= w->now_us) {
        let_go(w);
    }
    for (unsigned k = 0; k < w->count; k++) {
        write_more(w, &w->writers[k], k + 1);
    }
    write_pace_check(&w->pace);
}

/* In seconds, up to `most`. */
static uint64_t run(struct world *w, uint64_t most)
{
    uint64_t begun_us = w->now_us;

    while (w->left > 0 && w->now_us < begun_us + most * S) {
        step(w);
    }
    write_pace_stop(&w->pace);
    let_go(w);
    assert_int_equal(write_pace_due_us(&w->pace), UINT64_MAX);
    write_pace_check(&w->pace);
    return (w->now_us - begun_us + S - 1) / S;
}

static void open_world(struct world *w, unsigned count, uint64_t speed, uint64_t copies)
{
    memset(w, 0, sizeof(*w));
    write_pace_init(&w->pace);
    w->now_us = 1000 * (uint64_t)S;
    w->count = count;
    w->copies = copies;
    w->again = 1;
    for (unsigned k = 0; k < count; k++) {
        w->writers[k] = (struct writer){ .depth = 16, .bytes = MIB, .speed = speed };
        w->writers[k].let_us = w->now_us;
    }
}

static uint64_t written(const struct world *w)
{
    uint64_t sum = 0;

    for (unsigned k = 0; k < w->count; k++) {
        sum += w->writers[k].written;
    }
    return sum;
}

/* Ten seconds of writing are outstanding, and it copies as fast as they write: it ends, and they keep 70 % and more. */
static void it_ends_where_writers_are_as_fast(void **state)
{
    struct world w;
    uint64_t seconds;

    (void)state;
    for (unsigned count = 1; count <= WRITERS_MAX; count++) {
        open_world(&w, count, 80 * MIB / count, 80 * MIB);
        w.left = 800 * MIB;
        seconds = run(&w, 100);
        assert_in_range(seconds, 25, 36);
        assert_in_range(written(&w) / seconds, 80 * MIB / 100 * 68, 80 * MIB / 100 * 78);
    }
}

static void it_ends_where_writers_are_faster(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 2, 200 * MIB, 80 * MIB);
    w.left = 100 * MIB;
    assert_in_range(run(&w, 60), 8, 14); /* Half a second until it is seen costs ten. */
}

/* Just as far as needed: who writes slower than that is not held up. */
static void who_is_slow_enough_does_not_wait(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 2, 25 * MIB, 80 * MIB);
    w.left = 400 * MIB;
    assert_in_range(run(&w, 60), 10, 15);
    assert_int_equal(w.writers[0].longest_us, 0);
    assert_int_equal(w.writers[1].longest_us, 0);
}

/* What is written over and over is outstanding once. */
static void who_writes_the_same_again_does_not_wait(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 1, 200 * MIB, 80 * MIB);
    w.again = 0.2;
    w.left = 400 * MIB;
    assert_in_range(run(&w, 60), 8, 13);
    assert_int_equal(w.writers[0].longest_us, 0);
}

/* Nothing is given: that is not for writers to mend. */
static void nobody_waits_for_a_recovery_that_stands(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 1, 200 * MIB, 0);
    w.left = 400 * MIB;
    (void)run(&w, 5);
    assert_int_equal(w.writers[0].longest_us, 0);
}

/* However slow it is: a change waits so long at most, and each client hears something before that. */
static void nobody_waits_for_too_long(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 3, 200 * MIB, 3 * MIB);
    w.writers[1].depth = 1; /* It has nothing else under way. */
    w.writers[2].depth = UNDER_WAY_MAX;
    w.left = 400 * MIB;
    (void)run(&w, 20);
    for (unsigned k = 0; k < 3; k++) {
        assert_in_range(w.writers[k].longest_us, 1, WRITE_WAIT_US + 2 * STEP_US);
        assert_in_range(w.writers[k].quiet_us, 1, WRITE_TURN_US + 5 * STEP_US);
    }
    assert_in_range(w.writers[1].longest_us, 1, WRITE_TURN_US + 5 * STEP_US);
}

/* Each client has its turn, however much the others have under way. */
static void clients_take_turns(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, 2, 200 * MIB, 60 * MIB);
    w.writers[0].depth = 4;
    w.writers[1].depth = UNDER_WAY_MAX;
    w.left = 600 * MIB;
    (void)run(&w, 100);
    assert_in_range(w.writers[0].written, w.writers[1].written / 10 * 7,
                    w.writers[1].written / 10 * 13);
}

static void who_gives_up_is_not_let_through(void **state)
{
    struct world w;
    struct write_wait waits[3];
    uint64_t now_us = 5 * (uint64_t)S;

    (void)state;
    open_world(&w, 0, 1, 1);
    w.pace.rate = MIB;
    w.pace.next_us = now_us + S;
    for (unsigned i = 0; i < 3; i++) {
        assert_false(write_pace_enter(&w.pace, &waits[i], 7, MIB, now_us));
    }
    write_pace_check(&w.pace);
    write_pace_leave(&w.pace, &waits[1]);
    write_pace_leave(&w.pace, &waits[1]);
    write_pace_stop(&w.pace);
    assert_ptr_equal(write_pace_next(&w.pace, now_us), &waits[0]);
    assert_ptr_equal(write_pace_next(&w.pace, now_us), &waits[2]);
    assert_null(write_pace_next(&w.pace, now_us));
    assert_true(write_pace_enter(&w.pace, &waits[0], 7, MIB, now_us));
    write_pace_check(&w.pace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_where_writers_are_as_fast),
        cmocka_unit_test(it_ends_where_writers_are_faster),
        cmocka_unit_test(who_is_slow_enough_does_not_wait),
        cmocka_unit_test(who_writes_the_same_again_does_not_wait),
        cmocka_unit_test(nobody_waits_for_a_recovery_that_stands),
        cmocka_unit_test(nobody_waits_for_too_long),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(who_gives_up_is_not_let_through),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
