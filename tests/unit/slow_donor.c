/* A reader in order, of morsels that have two copies on four benefactors, of which one is ten times slower than the others: how long that
 * takes. In virtual time, with the rules by which a mount chooses (set_choice.h, donor_speed.h); benefactors give out one morsel after the
 * other, and what one has begun with it gives out, whether or not somebody still waits for it. */
#include "client/datasets/donor_speed.h"
#include "client/datasets/set_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum {
    DONORS = 4,
    MORSELS = 240,
    WINDOW_FIRST = 2,
    WINDOW = 8,
    MIB = 1 << 20,
    FAST = 12 * MIB,
    SLOW = FAST / 10
};

static const uint64_t tick_ns = 50000000, never = UINT64_MAX;

struct run
{
    uint64_t now_ns, tick_ns;
    uint32_t first, asked; /* What the reader waits for, and what is asked for next. */
    uint32_t hedged;
    struct donor_speed_best best;
    struct
    {
        uint64_t rate, ends_ns; /* of the first in the queue. */
        uint32_t queue[MORSELS], count;
        struct donor_speed speed;
    } donors[DONORS];
    struct
    {
        uint32_t copies[2];
        bool tried[2], waits[2], here;
        uint64_t began_ns[2], expected_ns[2];
    } morsels[MORSELS];
};

/* How the copies of stripes lie. */
enum placing { PAIRS, CHAIN, ALL };

static uint32_t second_of(enum placing placing, uint32_t stripe)
{
    switch (placing) {
    case PAIRS:
        return (stripe + 2) % DONORS;
    case CHAIN:
        return (stripe + 1) % DONORS;
    case ALL:
        break;
    }
    return (stripe + 1 + stripe / DONORS % (DONORS - 1)) % DONORS;
}

static void begin(struct run *run, uint32_t donor)
{
    run->donors[donor].ends_ns =
        run->donors[donor].count == 0
            ? never
            : run->now_ns + MIB * UINT64_C(1000000000) / run->donors[donor].rate;
}

static struct set_choice choose(const struct run *run, uint32_t morsel)
{
    struct set_copy_state states[2];

    for (unsigned i = 0; i < 2; i++) {
        const struct donor_speed *speed = &run->donors[run->morsels[morsel].copies[i]].speed;

        states[i] = (struct set_copy_state){ .tried = run->morsels[morsel].tried[i],
                                             .well = true,
                                             .asked = speed->asked,
                                             .rate = donor_speed_rate(speed, run->now_ns) };
    }
    return set_choose_copy(morsel, MIB, run->best.rate, states, 2);
}

static void ask(struct run *run, uint32_t morsel, struct set_choice choice)
{
    uint32_t donor = run->morsels[morsel].copies[choice.copy];

    run->morsels[morsel].tried[choice.copy] = run->morsels[morsel].waits[choice.copy] = true;
    run->morsels[morsel].began_ns[choice.copy] = run->now_ns;
    run->morsels[morsel].expected_ns[choice.copy] = choice.wait_ns;
    donor_speed_asked(&run->donors[donor].speed, MIB, run->now_ns);
    run->donors[donor].queue[run->donors[donor].count++] = morsel;
    if (run->donors[donor].count == 1) {
        begin(run, donor);
    }
}

static void take(struct run *run, uint32_t donor, uint32_t at)
{
    uint32_t *queue = run->donors[donor].queue;

    memmove(queue + at, queue + at + 1, (--run->donors[donor].count - at) * sizeof(queue[0]));
}

static void speed_ended(struct run *run, uint32_t donor, enum donor_speed_end how)
{
    donor_speed_ended(&run->donors[donor].speed, MIB, how, run->now_ns);
    donor_speed_best_note(&run->best, &run->donors[donor].speed, run->now_ns);
}

static void arrived(struct run *run, uint32_t morsel)
{
    run->morsels[morsel].here = true;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t donor = run->morsels[morsel].copies[i];

        if (!run->morsels[morsel].waits[i]) {
            continue;
        }
        run->morsels[morsel].waits[i] = false;
        speed_ended(run, donor, DONOR_SPEED_LEFT);
        for (uint32_t at = 1; at < run->donors[donor].count; at++) {
            if (run->donors[donor].queue[at] == morsel) {
                take(run, donor, at);
            }
        }
    }
}

static void ended(struct run *run, uint32_t donor)
{
    uint32_t morsel = run->donors[donor].queue[0];
    unsigned copy = run->morsels[morsel].copies[1] == donor;

    take(run, donor, 0);
    begin(run, donor);
    if (run->morsels[morsel].waits[copy]) {
        run->morsels[morsel].waits[copy] = false;
        speed_ended(run, donor, DONOR_SPEED_CAME);
        arrived(run, morsel);
    }
}

static void hedge(struct run *run, uint32_t morsel)
{
    struct set_choice other = choose(run, morsel);

    if (run->morsels[morsel].here || other.copy == 2) {
        return;
    }
    if (set_hedge_is_due(run->now_ns - run->morsels[morsel].began_ns[!other.copy],
                         run->morsels[morsel].expected_ns[!other.copy], other.wait_ns)) {
        ask(run, morsel, other);
        run->hedged++;
    }
}

static void step(struct run *run)
{
    uint64_t next = run->tick_ns;
    uint32_t donor = DONORS;

    for (uint32_t i = 0; i < DONORS; i++) {
        if (run->donors[i].ends_ns < next) {
            next = run->donors[i].ends_ns;
            donor = i;
        }
    }
    run->now_ns = next;
    if (donor < DONORS) {
        ended(run, donor);
        return;
    }
    run->tick_ns += tick_ns;
    for (uint32_t morsel = run->first; morsel < run->asked; morsel++) {
        hedge(run, morsel);
    }
}

/* What is asked for ahead of the reader: twice as much with each morsel that he has got. */
static uint32_t window_of(const struct run *run)
{
    return run->first < 2 ? WINDOW_FIRST << run->first : WINDOW;
}

/* Nanoseconds. What is known of before stays known. */
static uint64_t read_all(struct run *run)
{
    uint64_t began_ns = run->now_ns;

    for (uint32_t morsel = 0; morsel < MORSELS; morsel++) {
        memset(run->morsels[morsel].tried, 0, sizeof(run->morsels[morsel].tried));
        run->morsels[morsel].here = false;
    }
    run->first = run->asked = run->hedged = 0;
    for (;;) {
        while (run->first < run->asked && run->morsels[run->first].here) {
            run->first++;
        }
        if (run->first == MORSELS) {
            return run->now_ns - began_ns;
        }
        while (run->asked < MORSELS && run->asked < run->first + window_of(run)) {
            ask(run, run->asked, choose(run, run->asked));
            run->asked++;
        }
        step(run);
    }
}

static void start(struct run *run, enum placing placing, uint64_t first_rate)
{
    memset(run, 0, sizeof(*run));
    run->tick_ns = tick_ns;
    for (uint32_t i = 0; i < DONORS; i++) {
        run->donors[i].rate = i == 0 ? first_rate : FAST;
        run->donors[i].ends_ns = never;
    }
    for (uint32_t i = 0; i < MORSELS; i++) {
        run->morsels[i].copies[0] = i % DONORS;
        run->morsels[i].copies[1] = second_of(placing, i);
    }
}

/* In percent of what `rate` of all of them together would give. */
static unsigned percent(uint64_t took_ns, uint64_t rate)
{
    return (unsigned)(100 * MORSELS * (UINT64_C(1000000000) * MIB / rate) / took_ns);
}

static void all_have_something_to_do(void **state)
{
    static struct run run;

    (void)state;
    for (enum placing placing = PAIRS; placing <= ALL; placing++) {
        start(&run, placing, FAST);
        assert_in_range(percent(read_all(&run), DONORS * FAST), 95, 100);
        assert_int_equal(run.hedged, 0);
    }
}

/* In pairs the other one of his has to give out half of the file, and so two of the fast ones bound it. */
static void a_slow_one_holds_nobody_up(void **state)
{
    static struct run run;

    (void)state;
    for (enum placing placing = PAIRS; placing <= ALL; placing++) {
        uint64_t fast = (placing == PAIRS ? 2 : 3) * FAST;

        start(&run, placing, SLOW);
        assert_true(percent(read_all(&run), fast) >= 90); /* He is not known. */
        assert_true(run.hedged <= WINDOW);
        for (unsigned again = 0; again < 10; again++) {
            assert_true(percent(read_all(&run), fast) >= 90);
        }
    }
}

static void who_is_fast_again_is_asked_again(void **state)
{
    static struct run run;

    (void)state;
    for (enum placing placing = PAIRS; placing <= ALL; placing++) {
        start(&run, placing, SLOW);
        (void)read_all(&run);
        run.donors[0].rate = FAST;
        for (unsigned again = 0; again < 8; again++) { /* Some 50 seconds. */
            (void)read_all(&run);
        }
        assert_in_range(percent(read_all(&run), DONORS * FAST), 95, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_have_something_to_do),
        cmocka_unit_test(a_slow_one_holds_nobody_up),
        cmocka_unit_test(who_is_fast_again_is_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
