/* Whom clients can reach: when the manager knocks, and what it believes of what it finds. */
#include "meta/cluster/doors.h"
#include "common/base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LOOK_MS = 60000, DESKS = 5 };

struct world
{
    struct donors d;
    uint64_t now_ms;
};

static void step(struct world *w, struct donors_event event)
{
    struct donors_actions out = { .count = 0 };

    event.now_ms = w->now_ms;
    donors_step(&w->d, &event, &out);
}

/* Numbers are dealt from 1 on. */
static void join(struct world *w, uint32_t desk, uint64_t instance, const char *address)
{
    struct donors_event event = { .type = DONORS_JOIN };

    event.join.tag = desk;
    event.join.instance = instance;
    event.join.told_held = true;
    event.join.record.name[0] = 'd';
    memcpy(event.join.record.token, &desk, sizeof(desk));
    (void)snprintf(event.join.address, sizeof(event.join.address), "%s", address);
    event.join.report.donated = 1 << 30;
    step(w, event);
    if (donors_find(&w->d, desk) != NULL && !donors_find(&w->d, desk)->durable) {
        step(w, (struct donors_event){ .type = DONORS_PERSISTED, .persisted.id = desk });
    }
}

static struct world *world_new(uint32_t desks)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->now_ms = 1000;
    donors_init(&w->d, LOOK_MS);
    for (uint32_t i = 1; i <= desks; i++) {
        join(w, i, 7, "10.0.0.1:1");
        assert_int_equal(donors_find(&w->d, i)->state, DONOR_HERE);
    }
    return w;
}

static void world_free(struct world *w)
{
    donors_free(&w->d);
    free(w);
}

/* All that are due are knocked at; those above `open` stay shut. Returns how many. */
static uint32_t knock(struct world *w, donor_id open, enum door_news *news)
{
    donor_id due[DESKS];
    struct donor *donor;
    uint32_t count = 0;

    *news = DOOR_AS_BEFORE;
    while ((donor = doors_next(&w->d, w->now_ms)) != NULL) {
        assert_true(count < DESKS);
        due[count++] = donor->record.id;
    }
    for (uint32_t i = 0; i < count; i++) {
        enum door_news n = doors_knocked(&w->d, due[i], "10.0.0.1:1", due[i] <= open, w->now_ms);

        *news = n != DOOR_AS_BEFORE ? n : *news;
    }
    return count;
}

static bool is_shut(const struct world *w, donor_id id)
{
    assert_int_equal(doors_may_get(&w->d, donors_find(&w->d, id)),
                     !doors_is_shut(&w->d, donors_find(&w->d, id)));
    return doors_is_shut(&w->d, donors_find(&w->d, id));
}

static void one_that_is_found_shut_twice_gets_nothing_until_it_opens(void **state)
{
    struct world *w = world_new(DESKS);
    enum door_news news;

    (void)state;
    assert_int_equal(knock(w, DESKS - 1, &news), DESKS);
    assert_true(news == DOOR_AS_BEFORE && !is_shut(w, DESKS));
    assert_int_equal(knock(w, DESKS - 1, &news), 0);
    w->now_ms += DOOR_AGAIN_MS;
    assert_int_equal(knock(w, DESKS - 1, &news), 1);
    assert_true(news == DOOR_SHUT && is_shut(w, DESKS) && !is_shut(w, 1));
    w->now_ms += DOOR_SHUT_MS;
    assert_int_equal(knock(w, DESKS - 1, &news), 1);
    assert_true(news == DOOR_AS_BEFORE && is_shut(w, DESKS));
    w->now_ms += DOOR_SHUT_MS;
    assert_int_equal(knock(w, DESKS, &news), 1);
    assert_true(news == DOOR_OPENED && !is_shut(w, DESKS));
    w->now_ms += DOOR_SHUT_MS;
    assert_int_equal(knock(w, DESKS, &news), 0);
    w->now_ms += DOOR_OPEN_MS;
    assert_int_equal(knock(w, DESKS, &news), DESKS);
    world_free(w);
}

/* The manager knows that nobody lets it through, and goes on as if it knew nothing. */
static void when_most_are_shut_none_is(void **state)
{
    struct world *w = world_new(4);
    enum door_news news;

    (void)state;
    (void)knock(w, 1, &news);
    w->now_ms += DOOR_AGAIN_MS;
    assert_int_equal(knock(w, 1, &news), 3);
    for (donor_id id = 1; id <= 4; id++) {
        assert_false(is_shut(w, id));
    }
    w->now_ms += DOOR_SHUT_MS;
    assert_int_equal(knock(w, 2, &news), 3);
    assert_true(!is_shut(w, 2) && is_shut(w, 3) && is_shut(w, 4));
    step(w, (struct donors_event){ .type = DONORS_REPORT,
                                   .report = { .id = 1, .instance = 7, .leaves = true } });
    assert_null(doors_next(&w->d, w->now_ms)); /* Which counts who is here. */
    assert_false(is_shut(w, 3));
    world_free(w);
}

/* Who joins anew is knocked at, at once; what was found where it was says nothing. */
static void who_comes_from_elsewhere_is_knocked_at_there(void **state)
{
    struct world *w = world_new(3);
    enum door_news news;
    struct donor *donor;

    (void)state;
    (void)knock(w, 2, &news);
    w->now_ms += DOOR_AGAIN_MS;
    donor = doors_next(&w->d, w->now_ms);
    assert_non_null(donor);
    assert_int_equal(donor->record.id, 3);
    join(w, 3, 7, "10.0.0.2:1");
    assert_null(doors_next(&w->d, w->now_ms)); /* One knock at a time. */
    assert_int_equal(doors_knocked(&w->d, 3, "10.0.0.1:1", false, w->now_ms), DOOR_AS_BEFORE);
    assert_false(is_shut(w, 3));
    assert_ptr_equal(doors_next(&w->d, w->now_ms), donor);
    assert_int_equal(doors_knocked(&w->d, 3, "10.0.0.2:1", true, w->now_ms), DOOR_AS_BEFORE);
    assert_false(is_shut(w, 3));
    assert_int_equal(doors_knocked(&w->d, 4, "10.0.0.2:1", true, w->now_ms), DOOR_AS_BEFORE);
    world_free(w);
}

/* Those that are always due again, for nobody opens, are not before those behind them. */
static void many_that_are_silent_keep_nobody_from_being_knocked_at(void **state)
{
    struct world *w = world_new(DESKS);
    enum door_news news;

    (void)state;
    (void)knock(w, 0, &news);
    w->now_ms += DOOR_OPEN_MS;
    for (donor_id id = 1; id <= DESKS; id++) { /* One at a time, and all are due. */
        struct donor *donor = doors_next(&w->d, w->now_ms);

        assert_non_null(donor);
        assert_int_equal(donor->record.id, id);
        (void)doors_knocked(&w->d, id, "10.0.0.1:1", false, w->now_ms);
        w->now_ms += DOOR_SHUT_MS;
    }
    join(w, 3, 7, "10.0.0.1:1"); /* Before 1, at which it was longer ago. */
    assert_int_equal(doors_next(&w->d, w->now_ms)->record.id, 3);
    assert_int_equal(doors_next(&w->d, w->now_ms)->record.id, 4);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_found_shut_twice_gets_nothing_until_it_opens),
        cmocka_unit_test(when_most_are_shut_none_is),
        cmocka_unit_test(who_comes_from_elsewhere_is_knocked_at_there),
        cmocka_unit_test(many_that_are_silent_keep_nobody_from_being_knocked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
