/* What may be under way on a link: a model of a link is driven through many rates and round trips.
 */
#include "common/rpc/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum {
    US_PER_S = 1000000,
    STEP_US = 1000,
    TRIP_US_MAX = 400000,
    STEPS_MAX = TRIP_US_MAX / STEP_US
};

/* A link: a queue that is served at a rate, and acknowledgements that come a round trip later. */
struct link
{
    uint64_t rate, trip_us;
    uint64_t now_us;
    uint64_t sent, served, served_part; /* Bytes; the part in millionths. */
    uint64_t later[STEPS_MAX + 1];      /* What was served, a step each, by time. */
    uint64_t acknowledged;
    uint64_t queued_most, longest;
};

static void link_step(struct link *l)
{
    uint64_t may = l->rate * STEP_US + l->served_part, queued = l->sent - l->served;
    uint64_t lag = l->trip_us / STEP_US;

    l->now_us += STEP_US;
    l->served_part = may % US_PER_S;
    l->served += may / US_PER_S < queued ? may / US_PER_S : queued;
    memmove(l->later + 1, l->later, STEPS_MAX * sizeof(l->later[0]));
    l->later[0] = l->served;
    l->acknowledged = l->later[lag];
}

/* Send all that may be sent; `more`: there is always something. */
static void fill(struct link *l, struct pace *p, bool more)
{
    while (more) {
        (void)pace_observe(p, l->now_us, l->acknowledged, l->sent - l->acknowledged);
        if (!pace_has_room(p, l->sent - l->acknowledged)) {
            break;
        }
        l->sent += pace_frame_bytes(p);
        l->longest = pace_frame_bytes(p) > l->longest ? pace_frame_bytes(p) : l->longest;
    }
    if (l->sent - l->served > l->queued_most) {
        l->queued_most = l->sent - l->served;
    }
}

static void run(struct link *l, struct pace *p, uint64_t ms, bool more)
{
    for (uint64_t i = 0; i < ms * 1000 / STEP_US; i++) {
        link_step(l);
        (void)pace_observe(p, l->now_us, l->acknowledged, l->sent - l->acknowledged);
        if (l->later[l->trip_us / STEP_US] > 0) {
            p->round_trip_us = l->trip_us; /* The kernel has seen one. */
        }
        fill(l, p, more);
    }
}

static const struct
{
    uint64_t bits, trip_ms;
} links[] = { { 1000000, 300 },   { 1000000, 2 },    { 10000000, 300 },
              { 10000000, 20 },   { 40000000, 300 }, { 40000000, 1 },
              { 100000000, 300 }, { 100000000, 0 },  { 1000000000, 100 } };

static void a_link_is_full_and_its_queue_short(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        struct link l = { .rate = links[i].bits / 8,
                          .trip_us = links[i].trip_ms * 1000,
                          .now_us = 1 };
        struct pace p;
        uint64_t before;

        pace_init(&p);
        run(&l, &p, 8000, true); /* The beginning. */
        before = l.served;
        l.queued_most = l.longest = 0;
        run(&l, &p, 10000, true);
        assert_true(l.served - before >= l.rate * 10 * 98 / 100);
        assert_true(l.queued_most <= l.rate * 250 / 1000 + PACE_FRAME_BYTES_MIN);
        assert_true(l.longest <= l.rate * 125 / 1000 || l.longest == PACE_FRAME_BYTES_MIN);
    }
}

/* Nothing but now and then a little: that does not make the link a slow one. */
static void idleness_is_no_measure(void **state)
{
    struct link l = { .rate = 12500000, .trip_us = 1000, .now_us = 1 };
    struct pace p;
    uint64_t known;

    (void)state;
    pace_init(&p);
    run(&l, &p, 2000, true);
    known = p.rate;
    assert_true(known > l.rate * 9 / 10);
    for (unsigned i = 0; i < 200; i++) {
        run(&l, &p, 100, false);
        l.sent += 500;
        (void)pace_observe(&p, l.now_us, l.acknowledged, l.sent - l.acknowledged);
    }
    assert_int_equal(p.rate, known);
}

static void a_link_that_gets_slower_is_noticed(void **state)
{
    struct link l = { .rate = 12500000, .trip_us = 100000, .now_us = 1 };
    struct pace p;

    (void)state;
    pace_init(&p);
    run(&l, &p, 4000, true);
    l.rate /= 10;
    run(&l, &p, 8000, true); /* What was under way has to come through first. */
    l.queued_most = 0;
    run(&l, &p, 2000, true);
    assert_true(l.queued_most <= l.rate * 250 / 1000);
    l.rate *= 10;
    run(&l, &p, 4000, true);
    assert_true(p.rate > l.rate * 9 / 10);
}

/* A lost packet holds everything up for a while, and then all is acknowledged at once. */
static void a_burst_is_not_believed(void **state)
{
    struct link l = { .rate = 125000, .trip_us = 300000, .now_us = 1 };
    struct pace p;

    (void)state;
    pace_init(&p);
    run(&l, &p, 8000, true);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t rate = l.rate;

        l.rate = 0;
        run(&l, &p, 400, true);
        l.rate = 100 * rate;
        run(&l, &p, 50, true);
        l.rate = rate;
        l.queued_most = 0;
        run(&l, &p, 3000, true);
        assert_true(l.queued_most <= l.rate);
    }
}

/* What comes in one piece says nothing of the link but that it is not the bound. */
static void what_comes_whole_makes_room(void **state)
{
    struct pace p;
    unsigned rounds = 0;

    (void)state;
    pace_init(&p);
    pace_flowed(&p, 10000, 100000);
    assert_int_equal(p.rate, 100000);
    pace_came_whole(&p, 1 << 20); /* Nothing was held back. */
    assert_int_equal(p.rate, 100000);
    while (pace_frame_bytes(&p) < PACE_FRAME_BYTES_MAX) {
        assert_false(pace_has_room(&p, pace_window(&p)));
        pace_came_whole(&p, pace_window(&p));
        rounds++;
    }
    assert_true(rounds < 16);
    pace_init(&p);
    assert_false(pace_has_room(&p, pace_window(&p)));
    pace_came_whole(&p, pace_window(&p));
    assert_true(pace_window(&p) > 3 * PACE_FIRST_BYTES / 2);
}

/* Nothing is known but the round trip of the handshake. */
static void what_is_near_begins_with_more(void **state)
{
    static const struct
    {
        uint64_t trip_us, bytes;
    } trips[] = { { 0, PACE_FIRST_BYTES },
                  { 40, PACE_NEAR_BYTES },
                  { PACE_NEAR_US, PACE_FIRST_BYTES },
                  { 300000, PACE_FIRST_BYTES } };

    (void)state;
    for (size_t i = 0; i < sizeof(trips) / sizeof(trips[0]); i++) {
        struct pace p;

        pace_init(&p);
        p.round_trip_us = trips[i].trip_us;
        assert_int_equal(pace_window(&p), trips[i].bytes);
        assert_int_equal(pace_frame_bytes(&p), trips[i].bytes);
    }
}

/* The first bytes may come out of a buffer, faster than the link is; what is believed doubles. */
static void the_first_rate_is_believed_up_to_a_bound(void **state)
{
    struct pace p;
    uint64_t window;

    (void)state;
    pace_init(&p);
    p.round_trip_us = 300000;
    pace_flowed(&p, 16 << 10, 100);
    assert_true(pace_window(&p) <= 4 * PACE_FIRST_BYTES);
    assert_true(pace_window(&p) >= 2 * PACE_FIRST_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        window = pace_window(&p);
        pace_flowed(&p, 64 << 10, 100);
        assert_true(pace_window(&p) >= window * 19 / 10);
        assert_true(pace_window(&p) <= window * 2 + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_full_and_its_queue_short),
        cmocka_unit_test(idleness_is_no_measure),
        cmocka_unit_test(a_link_that_gets_slower_is_noticed),
        cmocka_unit_test(a_burst_is_not_believed),
        cmocka_unit_test(what_comes_whole_makes_room),
        cmocka_unit_test(what_is_near_begins_with_more),
        cmocka_unit_test(the_first_rate_is_believed_up_to_a_bound),
    };

    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
