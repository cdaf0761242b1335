/* How fast morsels go: single looks, traces of a desktop's day, and drawn ones in which each promise of the header is judged from the whole
 * history. And the tokens that go with it. */
#include "benefactor/governor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "benefactor/bucket.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <string.h>

enum { PROCESSORS = 4, TICKS = 100 * PROCESSORS, MIB = 1 << 20, HISTORIES = 300, LOOKS = 300 };

/* What is going on, a second: others, and we. */
struct going_on
{
    unsigned memory, io;        /* Percent of the time that somebody waits. */
    unsigned cpu, own_cpu;      /* Percent of all processors. */
    uint64_t bytes, operations; /* Of the disk, others'. */
    uint64_t own_bytes;         /* Ours, in operations of 128 KiB. */
    bool input, battery;
    bool no_pressure, no_disk, no_cpu;
};

struct desk
{
    struct governor g;
    struct governor_machine m;
    struct governor_own own;
    uint64_t now_ms;
};

static void desk_init(struct desk *d)
{
    memset(d, 0, sizeof(*d));
    d->now_ms = 1000000;
    governor_init(&d->g, d->now_ms);
}

/* `ms` go by so, and then it looks. */
static bool after(struct desk *d, const struct going_on *is, uint64_t ms)
{
    d->now_ms += ms;
    d->m.pressure_known = !is->no_pressure;
    d->m.disk_known = !is->no_disk;
    d->m.cpu_known = !is->no_cpu;
    d->m.input_known = true;
    d->m.memory_us += is->memory * ms * 10;
    d->m.io_us += is->io * ms * 10;
    d->m.cpu_all += TICKS * ms / 1000;
    d->m.cpu_busy += (uint64_t)(is->cpu + is->own_cpu) * TICKS * ms / 100000;
    d->own.cpu_ticks += (uint64_t)is->own_cpu * TICKS * ms / 100000;
    d->m.disk_bytes += (is->bytes + is->own_bytes) * ms / 1000;
    d->m.disk_operations += (is->operations + is->own_bytes / 131072) * ms / 1000;
    d->own.bytes += is->own_bytes * ms / 1000;
    d->m.input_events += is->input;
    d->m.on_battery = is->battery;
    return governor_look(&d->g, &d->m, &d->own, d->now_ms);
}

static void so_for(struct desk *d, const struct going_on *is, uint64_t ms)
{
    for (uint64_t t = 0; t < ms; t += GOVERNOR_LOOK_MS) {
        (void)after(d, is, GOVERNOR_LOOK_MS);
    }
}

static const struct going_on idle = { .cpu = 2 };

static bool is_at(const struct desk *d, uint32_t level, enum governor_reason reason)
{
    return d->g.level == level && d->g.reason == reason;
}

/* ---- Who needs the machine ---- */

static void on_an_idle_machine_it_is_fast_within_five_seconds(void **state)
{
    struct desk d;

    (void)state;
    desk_init(&d);
    assert_true(is_at(&d, 0, GOVERNOR_START));
    assert_true(governor_rate(&d.g) == GOVERNOR_RATE_MIN);
    so_for(&d, &idle, 4500);
    assert_true(is_at(&d, GOVERNOR_LEVELS, GOVERNOR_FREE));
    assert_true(governor_rate(&d.g) == UINT64_MAX);
    assert_int_equal(governor_jobs(&d.g, 7), 7);
}

/* At full speed, this goes on for one look; and another 4.5 s later it is as fast again. */
static void gives_way(const struct going_on *is, uint32_t level, enum governor_reason reason)
{
    struct desk d;

    desk_init(&d);
    so_for(&d, &idle, 10000);
    assert_int_equal(d.g.level, GOVERNOR_LEVELS);
    assert_true(after(&d, is, GOVERNOR_LOOK_MS));
    assert_true(is_at(&d, level, reason));
    so_for(&d, is, 60000);
    assert_true(is_at(&d, level, reason));
    so_for(&d, &idle, 4500);
    assert_true(is_at(&d, GOVERNOR_LEVELS, GOVERNOR_FREE));
}

static void it_gives_way_to_whoever_needs_the_machine(void **state)
{
    const struct going_on battery = { .battery = true }, memory = { .memory = 10 },
                          copying = { .io = 30, .bytes = 50 * MIB, .operations = 400 },
                          seeking = { .io = 90, .bytes = 400000, .operations = 100 },
                          beside = { .io = 90, .operations = 100, .own_bytes = 20 * MIB },
                          building = { .cpu = 97, .own_cpu = 2 }, typing = { .input = true };

    (void)state;
    gives_way(&battery, 0, GOVERNOR_BATTERY);
    gives_way(&memory, 0, GOVERNOR_MEMORY);
    gives_way(&copying, 0, GOVERNOR_DISK);
    gives_way(&seeking, 0, GOVERNOR_DISK);
    gives_way(&beside, 0, GOVERNOR_DISK);
    gives_way(&building, 0, GOVERNOR_CPU);
    gives_way(&typing, GOVERNOR_LEVEL_INPUT, GOVERNOR_INPUT);
}

/* This may go on for ever. */
static void stays_fast(const struct going_on *is)
{
    struct desk d;

    desk_init(&d);
    so_for(&d, is, 10000);
    for (int i = 0; i < 200; i++) {
        assert_true(is_at(&d, GOVERNOR_LEVELS, GOVERNOR_FREE));
        (void)after(&d, is, GOVERNOR_LOOK_MS);
    }
}

static void our_own_work_is_no_reason(void **state)
{
    const struct going_on reading = { .io = 100, .own_bytes = 150 * MIB, .own_cpu = 80, .cpu = 1 },
                          little = { .io = 4, .bytes = 9 * MIB, .operations = 50 },
                          quiet = { .io = 50, .bytes = 100000, .operations = 5 },
                          one_core = { .cpu = 50 };

    (void)state;
    stays_fast(&reading);
    stays_fast(&little);
    stays_fast(&quiet);
    stays_fast(&one_core);
}

/* We write for a second, and the kernel brings it to the disk in the next ones. */
static void what_the_disk_does_late_is_ours(void **state)
{
    const struct going_on flushing = { .io = 60, .bytes = 40 * MIB, .operations = 80 };
    struct desk d;

    (void)state;
    desk_init(&d);
    so_for(&d, &idle, 10000);
    d.own.bytes += 200 * (uint64_t)MIB;
    so_for(&d, &flushing, 3000);
    assert_true(is_at(&d, GOVERNOR_LEVELS, GOVERNOR_FREE));
    so_for(&d, &flushing, 5000); /* That was more than we have written. */
    assert_true(is_at(&d, 0, GOVERNOR_DISK));
}

static void what_the_kernel_does_not_say(void **state)
{
    const struct going_on old = { .no_pressure = true, .cpu = 2 },
                          old_busy = { .no_pressure = true, .operations = 100 },
                          blind = { .no_disk = true, .io = 40, .own_bytes = MIB },
                          bare = { .no_pressure = true, .no_disk = true, .no_cpu = true };
    struct desk d;

    (void)state;
    desk_init(&d);
    so_for(&d, &old, 20000);
    assert_true(is_at(&d, GOVERNOR_LEVEL_UNSURE, GOVERNOR_UNSURE));
    (void)after(&d, &old_busy, GOVERNOR_LOOK_MS);
    (void)after(&d, &old_busy, GOVERNOR_LOOK_MS);
    assert_true(is_at(&d, 0, GOVERNOR_DISK));
    desk_init(&d);
    so_for(&d, &blind, 20000);
    assert_true(is_at(&d, 0, GOVERNOR_DISK));
    desk_init(&d);
    so_for(&d, &bare, 20000);
    assert_true(is_at(&d, GOVERNOR_LEVEL_UNSURE, GOVERNOR_UNSURE));
}

/* ---- Clocks, and counts ---- */

static void of_a_night_it_concludes_nothing(void **state)
{
    const struct going_on copying = { .io = 90, .bytes = 50 * MIB };
    struct desk d;

    (void)state;
    desk_init(&d);
    so_for(&d, &idle, 10000);
    assert_false(after(&d, &copying, 8 * 3600000));
    assert_int_equal(d.g.level, GOVERNOR_LEVELS);
    (void)after(&d, &copying, GOVERNOR_LOOK_MS);
    assert_true(is_at(&d, 0, GOVERNOR_DISK));
    assert_false(after(&d, &idle, 8 * 3600000)); /* Nor is a night a time of calm: */
    assert_int_equal(d.g.level, 0);
    (void)after(&d, &idle, GOVERNOR_LOOK_MS);
    assert_int_equal(d.g.level, 0); /* it begins now. */
    (void)after(&d, &idle, GOVERNOR_LOOK_MS);
    assert_int_equal(d.g.level, 1);
}

static void counts_may_begin_anew_and_time_may_stand(void **state)
{
    struct desk d;

    (void)state;
    desk_init(&d);
    so_for(&d, &idle, 10000);
    memset(&d.own, 0, sizeof(d.own));
    d.m.io_us = d.m.memory_us = d.m.disk_bytes = d.m.disk_operations = 0;
    d.m.cpu_all = d.m.cpu_busy = d.m.input_events = 0;
    (void)after(&d, &idle, GOVERNOR_LOOK_MS);
    assert_true(is_at(&d, GOVERNOR_LEVELS, GOVERNOR_FREE));
    d.m.io_us = d.m.memory_us = UINT64_MAX;
    assert_false(governor_look(&d.g, &d.m, &d.own, d.now_ms));
    assert_false(governor_look(&d.g, &d.m, &d.own, d.now_ms - 7));
    assert_int_equal(d.g.level, GOVERNOR_LEVELS);
}

/* Who has no processor looks late, and the next look is due at once then: nobody has done anything since, nor been counted. */
static void a_look_at_once_behind_another_one_tells_nothing(void **state)
{
    const struct going_on building = { .cpu = 99 }, swapping = { .memory = 50 };
    struct desk d;

    (void)state;
    desk_init(&d);
    so_for(&d, &idle, 10000);
    (void)after(&d, &building, 2000);
    assert_true(is_at(&d, 0, GOVERNOR_CPU));
    d.now_ms += 2;
    assert_false(governor_look(&d.g, &d.m, &d.own, d.now_ms));
    assert_true(is_at(&d, 0, GOVERNOR_CPU));
    d.now_ms += 498; /* It was late behind what it had read. */
    d.m.cpu_all += 2;
    assert_false(governor_look(&d.g, &d.m, &d.own, d.now_ms));
    assert_true(is_at(&d, 0, GOVERNOR_CPU));
    (void)after(&d, &swapping, GOVERNOR_LOOK_MS);
    assert_true(is_at(&d, 0, GOVERNOR_MEMORY));
    (void)after(&d, &idle, 10);
    assert_true(is_at(&d, 0, GOVERNOR_MEMORY));
    /* Nothing of what is passed over is lost. */
    so_for(&d, &idle, 10000);
    assert_int_equal(d.g.level, GOVERNOR_LEVELS);
    for (unsigned i = 0; i < 5; i++) {
        (void)after(&d, &building, GOVERNOR_LOOK_MS / 5);
    }
    assert_true(is_at(&d, 0, GOVERNOR_CPU));
}

/* ---- Drawn histories ---- */

/* Nobody else needs the machine, somebody surely does, or (false) it is one of those between. */
static bool draw(struct prng *prng, struct going_on *is, bool *needed)
{
    memset(is, 0, sizeof(*is));
    is->own_bytes = prng_below(prng, 3) * 20 * MIB;
    is->own_cpu = (unsigned)prng_below(prng, 40);
    is->io = is->own_bytes > 0 ? (unsigned)prng_below(prng, 101) : 0;
    *needed = prng_below(prng, 6) == 0;
    if (!*needed) {
        is->cpu = (unsigned)prng_below(prng, 50);
        return true;
    }
    switch (prng_below(prng, 4)) {
    case 0:
        is->memory = 6 + (unsigned)prng_below(prng, 90);
        break;
    case 1:
        is->cpu = 65 + (unsigned)prng_below(prng, 30);
        is->own_cpu = 0;
        break;
    case 2:
        is->battery = true;
        break;
    default:
        is->io = 6 + (unsigned)prng_below(prng, 90);
        is->operations = 400 + prng_below(prng, 1000);
        break;
    }
    return true;
}

static void its_promises_hold(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, test_seed_first());
    for (unsigned history = 0; history < HISTORIES; history++) {
        uint64_t needed_ms; /* The last look at which somebody needed the machine. */
        struct desk d;

        desk_init(&d);
        (void)after(&d, &idle, GOVERNOR_LOOK_MS);
        needed_ms = d.now_ms;
        for (unsigned i = 0; i < LOOKS; i++) {
            const uint32_t before = d.g.level;
            struct going_on is;
            bool needed;

            (void)draw(&prng, &is, &needed);
            for (uint64_t looks = 1 + prng_below(&prng, needed ? 3 : 15); looks > 0; looks--) {
                (void)after(&d, &is, GOVERNOR_LOOK_MS - prng_below(&prng, 100));
                needed_ms = needed ? d.now_ms : needed_ms;
                if (needed) {
                    assert_int_equal(d.g.level, 0);
                }
                assert_true(needed || d.g.reason == GOVERNOR_FREE);
                assert_true(d.now_ms - needed_ms >= GOVERNOR_CALM_MS || d.g.level == 0);
                assert_true(d.now_ms - needed_ms < 5000 || d.g.level == GOVERNOR_LEVELS);
            }
            assert_true(needed || d.g.level >= before);
        }
    }
}

/* ---- Tokens ---- */

static void tokens_come_with_the_time(void **state)
{
    struct bucket b;

    (void)state;
    bucket_init(&b, 1000, 500, 10);
    assert_int_equal(bucket_wait_ms(&b, 10), 0);
    assert_true(bucket_take(&b, 2500, 10)); /* More than there are: a debt of 2000. */
    assert_false(bucket_take(&b, 1, 10));
    assert_int_equal(bucket_wait_ms(&b, 10), 2001);
    assert_int_equal(bucket_wait_ms(&b, 5), 2001); /* The clock does not go back. */
    assert_false(bucket_take(&b, 1, 2010));
    assert_true(bucket_take(&b, 1, 2011));
    assert_false(bucket_take(&b, 1, 2011));
    bucket_change(&b, BUCKET_ENDLESS, 500, 2011);
    assert_true(bucket_take(&b, UINT64_MAX, 2011) && bucket_take(&b, UINT64_MAX, 2011));
    bucket_change(&b, 1000, 100, 2011);
    assert_true(bucket_take(&b, UINT64_MAX, 2011)); /* From now on it counts. */
    assert_false(bucket_take(&b, 1, 1000000));
    bucket_change(&b, BUCKET_ENDLESS, 500, 1000000);
    assert_true(bucket_take(&b, 1, 1000000));
    bucket_init(&b, UINT64_MAX - 1, 500, 0);
    assert_true(bucket_take(&b, 10000, 0) &&
                bucket_take(&b, 5, UINT64_MAX)); /* No sum runs over. */
}

static void no_more_goes_than_the_rate_allows(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, test_seed_first() + 1);
    for (unsigned history = 0; history < HISTORIES; history++) {
        const uint64_t rate = 1000 + prng_below(&prng, 100000), burst = 1 + prng_below(&prng, 5000);
        uint64_t now_ms = prng_below(&prng, 1000), began_ms = now_ms, gone = 0, waited = 0;
        struct bucket b;

        bucket_init(&b, rate, burst, now_ms);
        for (unsigned i = 0; i < 500; i++) {
            const uint64_t bytes = prng_below(&prng, 10000);

            if (bucket_take(&b, bytes, now_ms)) {
                gone += bytes;
            } else {
                waited++;
                now_ms += bucket_wait_ms(&b, now_ms);
                assert_true(bucket_take(&b, 0, now_ms)); /* It is not too short, */
            }
            now_ms += prng_below(&prng, 4);
            assert_true(gone <= burst + rate * (now_ms - began_ms) / 1000 + 10000);
        }
        assert_true(waited == 0 || gone + 10000 + 500 * 5 + rate / 250 >= /* and hardly too long. */
                                       rate * (now_ms - began_ms) / 1000 - 500 * 3 * rate / 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_an_idle_machine_it_is_fast_within_five_seconds),
        cmocka_unit_test(it_gives_way_to_whoever_needs_the_machine),
        cmocka_unit_test(our_own_work_is_no_reason),
        cmocka_unit_test(what_the_disk_does_late_is_ours),
        cmocka_unit_test(what_the_kernel_does_not_say),
        cmocka_unit_test(of_a_night_it_concludes_nothing),
        cmocka_unit_test(counts_may_begin_anew_and_time_may_stand),
        cmocka_unit_test(a_look_at_once_behind_another_one_tells_nothing),
        cmocka_unit_test(its_promises_hold),
        cmocka_unit_test(tokens_come_with_the_time),
        cmocka_unit_test(no_more_goes_than_the_rate_allows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
