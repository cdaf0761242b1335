/* Repair of data sets: long histories of benefactors that come and go, beside a model that keeps for each of them what lies on its
 * disk; and some by hand. */
#include "tests/lib/repair_cloud.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HISTORY_MS = 900000, SEEDS = 8 };

static void fill(struct cloud *c)
{
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t m = 0; m < MORSELS; m++) {
            store(c, s, m);
        }
    }
}

/* Often one that is fetched just now. */
static void store_some(struct cloud *c)
{
    const struct repair_task *task = &c->r.tasks[draw(c, REPAIR_FLIGHT_MAX)];

    for (uint32_t i = 0; i < 2 && c->r.task_count > 0; i++) {
        while (task->order == 0) {
            task = &c->r.tasks[draw(c, REPAIR_FLIGHT_MAX)];
        }
        store(c, (uint32_t)task->set - 1, task->morsel);
    }
    store(c, (uint32_t)draw(c, SETS), (uint32_t)draw(c, MORSELS));
}

/* That he leaves, or that he gives less; or that his disk is full. */
static void an_owner_says(struct cloud *c, struct desk *d)
{
    d->leaving = draw(c, 4) == 0;
    d->room = draw(c, 2) == 0 ? d->gives : (uint32_t)draw(c, used(d) + 1);
    d->pressed = draw(c, 2) == 0;
    if (d->up) {
        report(c, d);
    }
}

static void something_happens(struct cloud *c)
{
    struct desk *d = &c->desks[draw(c, DESKS)];

    switch (draw(c, 4)) {
    case 0:
    case 1:
        if (d->up && draw(c, 2) == 0) {
            go(c, d);
        } else if (!d->up && !d->gone) {
            come(c, d, donor_of(c, d->id)->told_held && draw(c, 2) == 0);
        }
        break;
    case 2:
        store_some(c);
        break;
    default:
        if (c->owners) {
            an_owner_says(c, d);
        }
        break;
    }
}

static void one_history(struct cloud *c, uint64_t seed, uint32_t room, bool owners)
{
    cloud_make(c, seed, AFTER_MS, room);
    c->owners = owners;
    fill(c);
    for (uint64_t end = c->now_ms + HISTORY_MS; c->now_ms < end;) {
        pass(c, 1 + draw(c, 8000));
        something_happens(c);
    }
    for (uint32_t i = 0; i < 2; i++) { /* Two for good, the others are here. */
        c->desks[draw(c, DESKS)].gone = true;
    }
    for (uint32_t i = 0; i < DESKS; i++) {
        struct desk *d = &c->desks[i];

        d->leaving = d->pressed = false;
        d->room = d->gives;
        if (d->gone && d->up) {
            go(c, d);
        } else if (!d->gone && !d->up) {
            come(c, d, false);
        }
    }
    pass(c, 4 * AFTER_MS + 3 * REPAIR_FETCH_MS);
    all_is_well(c, false);
    pass(c, (REPAIR_KEEP_TIMES + 2) * (uint64_t)AFTER_MS);
    all_is_well(c, true);
}

static void histories(uint32_t room, bool owners, struct cloud *sum)
{
    struct cloud *c = malloc(sizeof(*c));
    uint64_t first = test_seed_first();

    assert_non_null(c);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        one_history(c, seed, room, owners);
        sum->fetched += c->fetched;
        sum->voided += c->voided;
        sum->failed += c->failed;
        sum->given_up += c->given_up;
        sum->dropped += c->dropped;
        sum->forgotten += c->forgotten;
        sum->taken_back += c->taken_back;
        sum->moved += c->moved;
        sum->yielded += c->yielded;
        cloud_end(c);
    }
    free(c);
    printf("%u fetched, %u void, %u failed, %u given up, %u dropped, %u forgotten, %u taken back\n",
           sum->fetched, sum->voided, sum->failed, sum->given_up, sum->dropped, sum->forgotten,
           sum->taken_back);
}

static void each_morsel_gets_its_copies_again(void **state)
{
    struct cloud *sum = calloc(1, sizeof(*sum));

    (void)state;
    assert_non_null(sum);
    histories(MORSELS * SETS, false, sum);
    assert_true(sum->fetched > 1000 && sum->voided > 3 && sum->failed > 10 && sum->given_up > 10 &&
                sum->dropped > 100 && sum->taken_back > 1000);
    free(sum);
}

static void where_there_is_little_room_each_gets_what_there_is(void **state)
{
    struct cloud *sum = calloc(1, sizeof(*sum));

    (void)state;
    assert_non_null(sum);
    histories(MORSELS * SETS / 6, false, sum);
    assert_true(sum->fetched > 100);
    free(sum);
}

static void owners_leave_and_give_less_and_nothing_is_lost(void **state)
{
    struct cloud *sum = calloc(1, sizeof(*sum));

    (void)state;
    assert_non_null(sum);
    histories(MORSELS * SETS / 4, true, sum);
    printf("%u moved, %u yielded\n", sum->moved, sum->yielded);
    assert_true(sum->moved > 100 && sum->yielded > 20);
    free(sum);
}

/* ---- One set, at the first two of four ---- */

static struct cloud *small(uint64_t after_ms, uint32_t copies)
{
    struct cloud *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    c->smooth = true;
    prng_seed(&c->prng, 1);
    c->now_ms = 1000000;
    sets_init(&c->sets);
    donors_init(&c->donors, LOOK_MS);
    repair_init(&c->r, &c->sets, &c->donors, after_ms, c->now_ms);
    make_sets(c, copies);
    for (uint32_t i = 0; i < 4; i++) {
        c->desks[i].room = MORSELS * 4;
        c->desks[i].up = true;
        come(c, &c->desks[i], true);
        tell(c, &c->desks[i]);
    }
    return c;
}

static void put(struct cloud *c, uint32_t number, uint32_t copies)
{
    struct set_morsel m = {
        .number = number, .length = BYTES, .digest = ++c->digests, .donor_count = copies
    };

    for (uint32_t i = 0; i < copies; i++) {
        m.donors[i] = i + 1;
        c->desks[i].has[0][number] = m.digest;
    }
    change(c, 1, &m);
}

static struct cloud *small_full(uint64_t after_ms)
{
    struct cloud *c = small(after_ms, 2);

    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, 2);
    }
    return c;
}

static void small_end(struct cloud *c)
{
    cloud_end(c);
    free(c);
}

static void who_is_back_soon_costs_nothing(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        go(c, &c->desks[0]);
        pass(c, AFTER_MS / 4 - 2 * REPORT_MS);
        assert_int_equal(c->r.morsels_short, MORSELS);
        come(c, &c->desks[0], i % 2 == 0);
        pass(c, AFTER_MS);
    }
    assert_int_equal(c->fetched + c->dropped + c->r.task_count + c->r.morsels_short, 0);
    go(c, &c->desks[0]); /* The last copy does not wait for as long as others. */
    pass(c, AFTER_MS / 2);
    assert_int_equal(c->fetched, MORSELS);
    small_end(c);
}

/* With two copies left the whole time is waited. */
/* Of all four the hours are known; the first is away, and has missed so much. */
static struct hours hours_of(const struct cloud *c, uint32_t missed)
{
    const struct hours_time now = { (int64_t)(c->now_ms / 1000), 1700000000 };
    struct hours hours;

    hours_init(&hours);
    for (donor_id id = 1; id <= 4; id++) {
        struct hours_record record = { .id = id,
                                       .left_local_s = now.local_s - 4 * 3600,
                                       .missed = missed };

        assert_int_equal(hours_load(&hours, &record, &now), 0);
        if (id > 1) {
            hours_come(&hours, id, &now);
        }
    }
    return hours;
}

static void who_keeps_hours_is_waited_for_until_it_is_missed(void **state)
{
    struct cloud *c = small_full(AFTER_MS);
    struct hours hours = hours_of(c, 0);

    (void)state;
    c->r.hours = &hours;
    go(c, &c->desks[0]);
    pass(c, 5 * AFTER_MS);
    assert_int_equal(c->fetched, 0); /* It is only not here. */
    hours_free(&hours);
    hours = hours_of(c, 5000); /* And has not come in five hours in which it should have. */
    pass(c, AFTER_MS);
    assert_int_equal(c->fetched, MORSELS);
    hours_free(&hours);
    small_end(c);
}

static void with_others_left_it_waits_longer(void **state)
{
    struct cloud *c = small(AFTER_MS, 3);

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, 3);
    }
    go(c, &c->desks[0]);
    pass(c, AFTER_MS - REPORT_MS);
    assert_int_equal(c->fetched + c->r.task_count, 0);
    pass(c, AFTER_MS / 2);
    assert_int_equal(c->fetched, MORSELS);
    small_end(c);
}

static void one_that_flaps_is_copied_once(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        go(c, &c->desks[0]);
        pass(c, 2 * AFTER_MS);
        come(c, &c->desks[0], i % 2 == 0);
        pass(c, 2 * AFTER_MS);
    }
    assert_int_equal(c->fetched, MORSELS);
    assert_int_equal(c->dropped, 0);
    pass(c, (REPAIR_KEEP_TIMES + 1) * (uint64_t)AFTER_MS); /* It stays: the newest copies go. */
    assert_int_equal(c->dropped, MORSELS);
    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_int_equal(c->desks[0].has[0][i], c->desks[1].has[0][i]);
    }
    pass(c, 10 * AFTER_MS);
    assert_int_equal(c->fetched, MORSELS);
    small_end(c);
}

/* A surplus copy does not stay where there is hardly any room. */
static void who_is_short_of_room_keeps_no_surplus(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    go(c, &c->desks[0]);
    pass(c, 2 * AFTER_MS);
    come(c, &c->desks[0], true);
    c->desks[2].room = used(&c->desks[2]);
    c->desks[3].room = used(&c->desks[3]);
    pass(c, 3 * AFTER_MS);
    assert_true(c->dropped > 0);
    assert_true(used(&c->desks[2]) < c->desks[2].room && used(&c->desks[3]) < c->desks[3].room);
    small_end(c);
}

/* Its owner has paused it, or needs his machine: then it is asked now and then, and not once for each morsel. */
static void one_that_gives_nothing_out_is_hardly_asked(void **state)
{
    struct cloud *c = small_full(0);

    (void)state;
    c->desks[1].refuses = true;
    go(c, &c->desks[0]);
    pass(c, AFTER_MS);
    assert_true(c->failed > 0 && c->failed <= AFTER_MS / 1000);
    c->failed = 0;
    c->desks[1].paused = true;
    report(c, &c->desks[1]);
    pass(c, 2 * REPORT_MS);
    c->failed = 0;
    pass(c, AFTER_MS);
    assert_int_equal(c->failed + c->fetched, 0);
    c->desks[1].refuses = c->desks[1].paused = false;
    pass(c, AFTER_MS);
    assert_int_equal(c->fetched, MORSELS);
    small_end(c);
}

static void the_last_copy_comes_first(void **state)
{
    struct cloud *c = small(0, 3);
    uint32_t singles = 0;

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, 1 + i % 2);
    }
    while (singles <
           MORSELS / 2) { /* One copy each, of which the first is fetched before any other. */
        turn(c);
        c->now_ms++;
        for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
            assert_false(c->r.tasks[i].order != 0 && c->r.tasks[i].morsel % 2 != 0 &&
                         singles < MORSELS / 2);
        }
        singles =
            c->fetched + c->r.task_count < MORSELS / 2 ? c->fetched + c->r.task_count : MORSELS / 2;
    }
    pass(c, AFTER_MS);
    all_is_well(c, true);
    small_end(c);
}

/* A step looks at some hundred morsels, whatever there is. */
static void a_large_set_is_walked_in_small_steps(void **state)
{
    struct cloud *c = small(0, 3);
    uint64_t steps = 0, now_ms = c->now_ms;

    (void)state;
    c->desks[2].room = c->desks[3].room = 0; /* Nobody can take what is short. */
    report(c, &c->desks[2]);
    report(c, &c->desks[3]);
    for (uint32_t i = 0; i < 50000; i++) {
        const struct set_change changed = {
            1, { .number = i, .length = BYTES, .digest = 1, .donor_count = 2, .donors = { 1, 2 } }
        };

        assert_int_equal(sets_reserve(&c->sets, &sets_find(&c->sets, 1)->head, &changed, 1, 0), 0);
        sets_apply(&c->sets, &changed, 1);
    }
    while (c->r.morsels_short != 50000) {
        struct repair_event tick = { .type = REPAIR_TICK };

        c->now_ms =
            relocate_deadline_ms(&c->r) > c->now_ms ? relocate_deadline_ms(&c->r) : c->now_ms;
        step(c, &tick);
        steps++;
    }
    assert_true(steps > 50000 / 1000 && c->now_ms - now_ms < 5000);
    assert_int_equal(c->r.task_count, 0);
    small_end(c);
}

/* ---- What is read most ---- */

static uint32_t copies_of(const struct cloud *c, uint32_t morsel)
{
    struct set_morsel m;

    assert_true(set_get(sets_find(&c->sets, 1), morsel, &m));
    return m.donor_count;
}

static void heat_up(struct cloud *c, struct heat *heat, uint32_t morsel, uint32_t reads)
{
    heat_add(heat, 1, morsel, reads, c->now_ms);
    heat_rank(heat, &c->sets, c->now_ms);
}

/* One copy more of what is hot enough, and it stays for as long as that is read. */
static void what_is_read_most_gets_one_more(void **state)
{
    struct cloud *c = small_full(AFTER_MS);
    struct heat *heat = calloc(1, sizeof(*heat));

    (void)state;
    assert_non_null(heat);
    heat_init(heat, c->now_ms);
    c->r.heat = heat;
    heat_up(c, heat, 3, 2 * REPAIR_EXTRA_READS);
    heat_up(c, heat, 7, 2 * REPAIR_EXTRA_READS - 1);
    pass(c, 4 * AFTER_MS);
    assert_int_equal(copies_of(c, 3), 3);
    assert_int_equal(c->fetched, 1);
    for (uint32_t i = 0; i < 2 * REPAIR_KEEP_TIMES; i++) {
        heat_up(c, heat, 3, 2 * REPAIR_EXTRA_READS);
        pass(c, AFTER_MS);
    }
    assert_int_equal(copies_of(c, 3), 3);
    assert_int_equal(c->fetched + c->dropped, 1);
    c->now_ms += (uint64_t)20 * HEAT_HALF_MS;
    heat_rank(heat, &c->sets, c->now_ms);
    pass(c, (REPAIR_KEEP_TIMES + 2) * (uint64_t)AFTER_MS);
    assert_int_equal(copies_of(c, 3), 2);
    assert_int_equal(c->fetched, 1);
    all_is_well(c, true);
    c->r.heat = NULL;
    free(heat);
    small_end(c);
}

/* What is short of copies comes first, and where half of the room is taken there are none. */
static void without_plenty_of_room_there_is_no_more(void **state)
{
    struct cloud *c = small_full(AFTER_MS);
    struct heat *heat = calloc(1, sizeof(*heat));

    (void)state;
    assert_non_null(heat);
    heat_init(heat, c->now_ms);
    c->r.heat = heat;
    for (uint32_t i = 0; i < 4; i++) {
        c->desks[i].room = MORSELS;
    }
    pass(c, AFTER_MS);
    heat_up(c, heat, 3, 1000);
    pass(c, 4 * AFTER_MS);
    assert_int_equal(copies_of(c, 3), 2);
    assert_int_equal(c->fetched, 0);
    c->r.heat = NULL;
    free(heat);
    small_end(c);
}

/* ---- One leaves, or gives less ---- */

static const struct donor_left *left_of(const struct cloud *c, uint32_t desk)
{
    return &donor_of(c, c->desks[desk].id)->repair.left;
}

static void who_leaves_goes_when_others_have_all(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    c->desks[0].leaving = true;
    report(c, &c->desks[0]);
    assert_false(left_of(c, 0)->counted);
    pass(c, 10000); /* Without the time in which one that is away is waited for. */
    assert_true(left_of(c, 0)->counted && left_of(c, 0)->wanted == 0);
    assert_int_equal(left_of(c, 0)->moved, MORSELS);
    assert_int_equal(c->fetched, MORSELS);
    assert_int_equal(used(&c->desks[0]), MORSELS); /* It may come back. */
    go(c, &c->desks[0]);
    pass(c, 2 * AFTER_MS);
    assert_int_equal(c->fetched, MORSELS);
    assert_int_equal(c->r.morsels_short, 0);
    c->desks[0].leaving = false;
    come(c, &c->desks[0], true);
    pass(c, (REPAIR_KEEP_TIMES + 2) * (uint64_t)AFTER_MS);
    assert_int_equal(c->dropped, MORSELS);
    all_is_well(c, true);
    small_end(c);
}

/* His owner waits: as many are fetched from him at once as the others may take, and not so many of one that only shares. */
static void who_leaves_gives_more_at_once(void **state)
{
    struct cloud *c = small(AFTER_MS, 1);
    uint32_t most = 0;

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, 1);
    }
    c->desks[0].leaving = true;
    report(c, &c->desks[0]);
    while (left_of(c, 0)->moved < MORSELS) {
        uint32_t sources = donor_of(c, c->desks[0].id)->repair.sources;

        most = sources > most ? sources : most;
        repair_check(&c->r);
        pass(c, 1);
    }
    assert_int_equal(most, 3 * REPAIR_DONOR_MAX);
    small_end(c);
}

/* Who is to take a copy leaves itself before it has come: that does not count there, and others take it. */
static void what_comes_to_one_that_leaves_does_not_count(void **state)
{
    struct cloud *c = small_full(AFTER_MS);
    struct set_morsel m;
    donor_id target;

    (void)state;
    c->desks[0].leaving = true;
    report(c, &c->desks[0]);
    while (c->r.task_count == 0) {
        turn(c);
        c->now_ms++;
    }
    assert_true(c->fetched == 0 && c->r.tasks[0].order != 0);
    target = c->r.tasks[0].target;
    c->desks[target - 1].leaving = true;
    report(c, &c->desks[target - 1]);
    for (int i = 0; i < 200; i++) {
        pass(c, 50);
        for (uint32_t k = 0; k < MORSELS; k++) {
            assert_true(set_get(set_of(c, 0), k, &m));
            assert_false(set_morsel_has(&m, target));
        }
        for (uint32_t k = 0; k < REPAIR_FLIGHT_MAX; k++) {
            assert_false(c->r.tasks[k].order != 0 && c->r.tasks[k].target == target);
        }
    }
    assert_true(left_of(c, 0)->counted && left_of(c, 0)->wanted == 0);
    small_end(c);
}

/* Both that have it leave: it is copied from them, first of all what nobody else has. */
static void what_only_those_have_who_leave_comes_first(void **state)
{
    struct cloud *c = small(AFTER_MS, 2);
    struct set_morsel m;

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, 1 + i % 2);
    }
    c->desks[0].leaving = true;
    report(c, &c->desks[0]);
    while (c->fetched + c->r.task_count < MORSELS / 2) {
        turn(c);
        c->now_ms++;
        for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
            assert_false(c->r.tasks[i].order != 0 && c->r.tasks[i].morsel % 2 != 0 &&
                         c->fetched + c->r.task_count < MORSELS / 2);
        }
    }
    c->desks[1].leaving = true;
    report(c, &c->desks[1]);
    pass(c, 10000);
    assert_true(left_of(c, 0)->wanted == 0 && left_of(c, 1)->counted && left_of(c, 1)->wanted == 0);
    for (uint32_t i = 0; i < MORSELS; i++) {
        assert_true(set_get(set_of(c, 0), i, &m));
        assert_true(set_morsel_has(&m, 3) && set_morsel_has(&m, 4));
    }
    small_end(c);
}

static void where_nobody_has_room_that_is_said_at_once(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    c->desks[2].room = 3;
    report(c, &c->desks[2]);
    go(c, &c->desks[3]);
    pass(c, LOOK_MS);
    c->desks[0].leaving = true;
    report(c, &c->desks[0]);
    pass(c, 3000 + REPORT_MS);
    assert_true(left_of(c, 0)->counted);
    assert_int_equal(left_of(c, 0)->moved, 3);
    assert_int_equal(left_of(c, 0)->wanted, MORSELS - 3);
    assert_int_equal(left_of(c, 0)->stuck, MORSELS - 3);
    assert_int_equal(left_of(c, 0)->only, 0);
    small_end(c);
}

/* Who is distrusted counts as leaving, and gives less beside that: what stays there is known behind each count, until nothing has to go. */
static void what_stays_with_one_that_is_distrusted_is_known(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    for (uint32_t i = 0; i < BLAME_LIES; i++) {
        (void)donors_blame(&c->donors, 1, BLAME_LIED, c->now_ms + i * 1000);
    }
    c->desks[2].room = c->desks[3].room = 0;
    c->desks[0].room = MORSELS - 5;
    pass(c, 2 * AFTER_MS);
    assert_true(left_of(c, 0)->counted);
    assert_int_equal(left_of(c, 0)->stuck, MORSELS);
    assert_int_equal(left_of(c, 0)->stuck_bytes, 5 * BYTES);
    c->desks[0].room = MORSELS;
    pass(c, 2 * AFTER_MS);
    assert_int_equal(left_of(c, 0)->stuck_bytes, 0);
    small_end(c);
}

/* Exactly what is too much goes, and others have it before. */
static void who_gives_less_keeps_what_it_gives(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    c->desks[0].room = MORSELS - 10;
    pass(c, 50000);
    assert_int_equal(c->moved, 10);
    assert_int_equal(used(&c->desks[0]), MORSELS - 10);
    assert_int_equal(c->dropped, 0);
    all_is_well(c, true);
    c->desks[0].room = 0;
    pass(c, 60000);
    assert_int_equal(c->moved, MORSELS);
    assert_int_equal(used(&c->desks[0]), 0);
    all_is_well(c, true);
    small_end(c);
}

/* What it has besides goes first, without being copied. */
static void surplus_goes_first(void **state)
{
    struct cloud *c = small(AFTER_MS, 2);

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, i < 20 ? 2 : 3);
    }
    c->desks[0].room = MORSELS - 10;
    pass(c, 50000);
    assert_int_equal(c->dropped, 10);
    assert_int_equal(c->moved, 0);
    assert_int_equal(used(&c->desks[0]), MORSELS - 10);
    small_end(c);
}

/* Nobody can take it: it stays; but on a disk that is full only what nobody else has does. */
static void what_nobody_can_take_stays(void **state)
{
    struct cloud *c = small(AFTER_MS, 2);

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        put(c, i, i % 2 + 1);
    }
    c->desks[2].room = c->desks[3].room = 0;
    report(c, &c->desks[2]);
    report(c, &c->desks[3]);
    c->desks[1].room = MORSELS / 2; /* And what has one copy now gets no other one. */
    c->desks[0].room = 0;
    report(c, &c->desks[1]);
    pass(c, 30000);
    assert_int_equal(used(&c->desks[0]), MORSELS);
    assert_int_equal(left_of(c, 0)->stuck_bytes, (uint64_t)MORSELS * BYTES);
    c->desks[0].pressed = true;
    pass(c, 60000);
    assert_int_equal(used(&c->desks[0]), MORSELS / 2);
    assert_int_equal(c->yielded, MORSELS / 2);
    assert_int_equal(used(&c->desks[1]), MORSELS / 2);
    assert_int_equal(c->r.morsels_away, 0);
    small_end(c);
}

/* Both disks are full: one copy of each stays, whoever looks first. */
static void of_two_full_disks_one_keeps_it(void **state)
{
    struct cloud *c = small_full(AFTER_MS);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        c->desks[i].room = 0;
        c->desks[i].pressed = true;
        report(c, &c->desks[i]);
    }
    pass(c, 60000);
    assert_int_equal(c->yielded, MORSELS);
    assert_int_equal(used(&c->desks[0]) + used(&c->desks[1]), MORSELS);
    assert_int_equal(c->r.morsels_away, 0);
    small_end(c);
}

/* It is away at once, and then nobody any more. */
static void forget(struct cloud *c, donor_id id)
{
    struct donors_event e = { .type = DONORS_REPORT, .now_ms = c->now_ms };
    struct donors_actions out = { .count = 0 };

    e.report.id = id;
    e.report.instance = c->desks[id - 1].instance;
    e.report.leaves = true;
    donors_step(&c->donors, &e, &out);
    donors_forget(&c->donors, id);
    c->desks[id - 1].up = false;
}

static void what_is_under_way_ends_where_one_is_forgotten(void **state)
{
    struct repair_event event = { .type = REPAIR_TICK };

    (void)state;
    for (int of_target = 0; of_target < 2; of_target++) {
        struct cloud *c = small_full(AFTER_MS);
        struct repair_task task;
        uint32_t i = 0;

        c->desks[0].leaving = true;
        report(c, &c->desks[0]);
        while (c->r.task_count == 0) {
            turn(c);
            c->now_ms++;
        }
        while (c->r.tasks[i].order == 0) {
            i++;
        }
        task = c->r.tasks[i];
        forget(c, of_target == 1 ? task.target : task.source);
        event.type = REPAIR_TICK;
        step(c, &event);
        assert_int_equal(repair_is_fetching(&c->r, task.set, task.morsel, task.target),
                         of_target == 0);
        event.type = REPAIR_FETCHED;
        event.fetched = task;
        event.outcome = REPAIR_UNREACHABLE;
        step(c, &event);
        assert_false(repair_is_fetching(&c->r, task.set, task.morsel, task.target));
        repair_check(&c->r);
        cloud_end(c);
        free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_morsel_gets_its_copies_again),
        cmocka_unit_test(where_there_is_little_room_each_gets_what_there_is),
        cmocka_unit_test(owners_leave_and_give_less_and_nothing_is_lost),
        cmocka_unit_test(who_is_back_soon_costs_nothing),
        cmocka_unit_test(who_keeps_hours_is_waited_for_until_it_is_missed),
        cmocka_unit_test(with_others_left_it_waits_longer),
        cmocka_unit_test(one_that_flaps_is_copied_once),
        cmocka_unit_test(who_is_short_of_room_keeps_no_surplus),
        cmocka_unit_test(one_that_gives_nothing_out_is_hardly_asked),
        cmocka_unit_test(the_last_copy_comes_first),
        cmocka_unit_test(a_large_set_is_walked_in_small_steps),
        cmocka_unit_test(what_is_read_most_gets_one_more),
        cmocka_unit_test(without_plenty_of_room_there_is_no_more),
        cmocka_unit_test(who_leaves_goes_when_others_have_all),
        cmocka_unit_test(who_leaves_gives_more_at_once),
        cmocka_unit_test(what_comes_to_one_that_leaves_does_not_count),
        cmocka_unit_test(what_only_those_have_who_leave_comes_first),
        cmocka_unit_test(where_nobody_has_room_that_is_said_at_once),
        cmocka_unit_test(what_stays_with_one_that_is_distrusted_is_known),
        cmocka_unit_test(who_gives_less_keeps_what_it_gives),
        cmocka_unit_test(surplus_goes_first),
        cmocka_unit_test(what_nobody_can_take_stays),
        cmocka_unit_test(of_two_full_disks_one_keeps_it),
        cmocka_unit_test(what_is_under_way_ends_where_one_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
