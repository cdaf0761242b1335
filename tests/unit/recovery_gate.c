/* The limit of recovery: what is moved in a time, however the timer fires, and whose turn it is. */
#include "iod/replica/recovery_gate.h"

#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MIB = 1 << 20, SECONDS = 40, WHO = 3 };

/* One who has always more to move. */
struct mover
{
    struct recovery_wait wait;
    struct recovery_gate *gate;
    uint64_t moved, turns;
    bool waiting;
};

static uint64_t now_us;

static void go(struct recovery_wait *wait)
{
    struct mover *m = CONTAINER_OF(wait, struct mover, wait);

    m->waiting = false;
    m->moved += wait->bytes;
    m->turns++;
}

static void move(struct mover *m)
{
    if (!m->waiting && recovery_enter(m->gate, &m->wait, now_us)) {
        go(&m->wait);
    } else {
        m->waiting = true;
    }
}

static struct mover mover_of(struct recovery_gate *g)
{
    struct mover m = { .gate = g, .wait.go = go, .wait.bytes = recovery_piece_bytes(g) };

    return m;
}

/* Timers are late by up to `late_us`. */
static void run_at(uint64_t rate, uint64_t late_us, uint64_t seed)
{
    struct recovery_gate g;
    struct mover movers[WHO];
    uint64_t moved = 0, begun_us;
    struct prng prng;

    prng_seed(&prng, seed);
    recovery_gate_init(&g, rate);
    now_us = begun_us = 1000000 * (1 + seed);
    for (unsigned i = 0; i < WHO; i++) {
        movers[i] = mover_of(&g);
    }
    while (now_us < begun_us + UINT64_C(1000000) * SECONDS) {
        for (unsigned i = 0; i < WHO; i++) {
            move(&movers[i]);
        }
        if (recovery_due_us(&g) > now_us) {
            now_us = recovery_due_us(&g);
        }
        now_us += prng_below(&prng, late_us + 1);
        recovery_run(&g, now_us);
    }
    for (unsigned i = 0; i < WHO; i++) {
        moved += movers[i].moved;
        if (rate < UINT64_C(100) * MIB) { /* All have to wait: by turns. */
            assert_in_range(movers[i].turns + 1, movers[0].turns, movers[0].turns + 2);
        }
    }
    assert_in_range(moved, rate * SECONDS / 100 * 98, rate * SECONDS / 100 * 102);
}

static void what_is_moved_is_the_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        run_at(RECOVERY_RATE_MIN, 20000, seed);
        run_at(3 * MIB + 12345, 20000, seed);
        run_at(40 * MIB, 20000, seed);
        run_at(1000 * UINT64_C(1) * MIB, 2000, seed);
    }
}

/* After an idle time there is no burst beyond the credit. */
static void nobody_saves_up(void **state)
{
    struct recovery_gate g;
    struct mover m;

    (void)state;
    recovery_gate_init(&g, 10 * MIB);
    now_us = 1000000000;
    m = mover_of(&g);
    while (!m.waiting) {
        move(&m);
    }
    assert_in_range(m.moved, 10 * MIB / 4, 10 * MIB / 4 + 2 * MIB);
}

static void without_a_limit_nobody_waits(void **state)
{
    struct recovery_gate g;
    struct mover m;

    (void)state;
    recovery_gate_init(&g, 0);
    m = mover_of(&g);
    for (unsigned i = 0; i < 1000; i++) {
        move(&m);
        assert_false(m.waiting);
    }
    recovery_unused(&g, MIB);
    assert_int_equal(recovery_due_us(&g), UINT64_MAX);
    assert_int_equal(recovery_piece_bytes(&g), RECOVERY_PIECE_BYTES);
    assert_int_equal(recovery_piece_bytes(NULL), RECOVERY_PIECE_BYTES);
}

/* What was counted and not moved is there for others; who leaves is passed over. */
static void what_was_not_used_comes_back(void **state)
{
    struct recovery_gate g;
    struct mover a, b;
    uint64_t due_us;

    (void)state;
    recovery_gate_init(&g, RECOVERY_RATE_MIN);
    now_us = 1000000000;
    a = mover_of(&g);
    b = mover_of(&g);
    assert_int_equal(recovery_piece_bytes(&g) % BLOCK_BYTES, 0);
    assert_true(recovery_piece_bytes(&g) <= RECOVERY_RATE_MIN / RECOVERY_PIECES_A_SECOND);
    while (!a.waiting) {
        move(&a);
    }
    move(&b);
    due_us = recovery_due_us(&g);
    recovery_unused(&g, a.wait.bytes / 2);
    assert_true(recovery_due_us(&g) < due_us);
    recovery_leave(&a.wait);
    recovery_leave(&a.wait);
    recovery_run(&g, due_us);
    assert_false(b.waiting);
    assert_int_equal(recovery_due_us(&g), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_moved_is_the_limit),
        cmocka_unit_test(nobody_saves_up),
        cmocka_unit_test(without_a_limit_nobody_waits),
        cmocka_unit_test(what_was_not_used_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
