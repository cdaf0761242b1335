/* Who looks at copies that readers found wrong, and what comes of it. */
#include "meta/datasets/damage.h"
#include "tests/lib/repair_cloud.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Benefactors that are here, sets of two copies each, and what the core has said. */
struct world
{
    struct cloud c;
    struct damage d;
    struct damage_actions out;
};

static struct world *world_make(void)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    cloud_make(&w->c, 1, AFTER_MS, SETS * MORSELS * 2);
    damage_init(&w->d, &w->c.sets, &w->c.donors);
    for (uint32_t i = 0; i < MORSELS; i++) {
        store(&w->c, 0, i);
    }
    return w;
}

static void world_end(struct world *w)
{
    cloud_end(&w->c);
    free(w);
}

static void advance(struct world *w, struct damage_event *event)
{
    event->now_ms = w->c.now_ms;
    w->out.count = 0;
    damage_step(&w->d, event, &w->out);
    damage_check(&w->d);
}

static struct damage_copy copy_of(const struct world *w, uint32_t number, uint32_t nth)
{
    struct set_morsel m;

    assert_true(set_get(set_of(&w->c, 0), number, &m));
    return (struct damage_copy){ 1, number, m.length, m.digest, m.donors[nth % m.donor_count] };
}

static void name(struct world *w, uint64_t reader, struct damage_copy copy)
{
    struct damage_event event = { .type = DAMAGE_NAMED, .reader = reader, .copy = copy };

    advance(w, &event);
}

/* What is wanted of a benefactor is found. */
static void looked(struct world *w, const struct damage_action *look, enum damage_found found)
{
    struct damage_event event = {
        .type = DAMAGE_LOOKED, .order = look->order, .looker = look->looker, .found = found
    };

    advance(w, &event);
}

static void tick(struct world *w, uint64_t ms)
{
    struct damage_event event = { .type = DAMAGE_TICK };

    w->c.now_ms += ms;
    advance(w, &event);
}

static struct damage_action only(const struct world *w, int type)
{
    assert_int_equal(w->out.count, 1);
    assert_int_equal(w->out.items[0].type, type);
    return w->out.items[0];
}

static void its_own_benefactor_is_believed_when_it_says_that_it_is_wrong(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0);
    struct damage_action look;

    (void)state;
    name(w, 7, copy);
    look = only(w, DAMAGE_LOOK);
    assert_int_equal(look.looker, copy.donor);
    name(w, 8, copy); /* It is being looked at. */
    assert_int_equal(w->out.count, 0);
    looked(w, &look, DAMAGE_FOUND_WRONG);
    assert_int_equal(only(w, DAMAGE_BAD).copy.donor, copy.donor);
    looked(w, &look, DAMAGE_FOUND_WRONG); /* Told twice. */
    assert_int_equal(w->out.count, 0);
    assert_int_equal(damage_deadline_ms(&w->d), UINT64_MAX);
    world_end(w);
}

static void a_reader_that_lies_loses_no_copy(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0);
    struct damage_action look;

    (void)state;
    name(w, 7, copy);
    look = only(w, DAMAGE_LOOK);
    looked(w, &look, DAMAGE_FOUND_RIGHT);
    look = only(w, DAMAGE_LOOK);
    assert_int_not_equal(look.looker, copy.donor);
    assert_int_equal(look.copy.donor, copy.donor);
    looked(w, &look, DAMAGE_FOUND_RIGHT);
    (void)only(w, DAMAGE_RIGHT);
    name(w, 7, copy); /* That was looked at a moment ago. */
    assert_int_equal(w->out.count, 0);
    w->c.now_ms += DAMAGE_REST_MS;
    name(w, 7, copy); /* By now it may be wrong. */
    (void)only(w, DAMAGE_LOOK);
    world_end(w);
}

static void who_says_that_it_is_right_and_gives_out_something_else_has_lied(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0);
    struct damage_action look;

    (void)state;
    name(w, 7, copy);
    look = only(w, DAMAGE_LOOK);
    looked(w, &look, DAMAGE_FOUND_RIGHT);
    look = only(w, DAMAGE_LOOK);
    looked(w, &look, DAMAGE_FOUND_WRONG);
    look = only(w, DAMAGE_LIED);
    assert_int_equal(look.copy.donor, copy.donor);
    assert_int_not_equal(look.looker, copy.donor);
    world_end(w);
}

static void what_the_map_does_not_say_is_not_looked_at(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0), other = copy;

    (void)state;
    other.digest++;
    name(w, 7, other);
    assert_int_equal(w->out.count, 0);
    other = copy;
    other.length--;
    name(w, 7, other);
    assert_int_equal(w->out.count, 0);
    other = copy;
    other.donor = 77;
    name(w, 7, other);
    assert_int_equal(w->out.count, 0);
    other = copy;
    other.set = 99;
    name(w, 7, other);
    assert_int_equal(w->out.count, 0);
    world_end(w);
}

/* While it is looked at the morsel is stored anew: what is found is of before. */
static void what_became_another_one_meanwhile_is_left_alone(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0);
    struct damage_action look;

    (void)state;
    name(w, 7, copy);
    look = only(w, DAMAGE_LOOK);
    store(&w->c, 0, 3);
    looked(w, &look, DAMAGE_FOUND_WRONG);
    assert_int_equal(w->out.count, 0);
    world_end(w);
}

static void who_looks_and_does_not_answer_ends_it(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0);
    struct damage_action look;

    (void)state;
    name(w, 7, copy);
    look = only(w, DAMAGE_LOOK);
    tick(w, DAMAGE_LOOK_MS - 1);
    assert_int_equal(w->d.count, 1);
    tick(w, 1);
    assert_int_equal(w->d.count, 0);
    looked(w, &look,
           DAMAGE_FOUND_WRONG); /* Too late: it is looked at when somebody finds it again. */
    assert_int_equal(w->out.count, 0);
    name(w, 7, copy);
    (void)only(w, DAMAGE_LOOK);
    for (uint32_t i = 0; i < DESKS; i++) {
        if (w->c.desks[i].id == copy.donor) {
            go(&w->c, &w->c.desks[i]);
        }
    }
    tick(w, LOOK_MS * 2);
    assert_int_equal(w->d.count, 0);
    world_end(w);
}

/* However much one reader names: each benefactor looks at two, and others are heard. */
static void one_reader_does_not_keep_others_out(void **state)
{
    struct world *w = world_make();
    uint32_t looks = 0;

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        for (uint32_t nth = 0; nth < 4; nth++) {
            name(w, 7, copy_of(w, i, nth));
            looks += w->out.count;
        }
    }
    assert_true(w->d.count <= DAMAGE_READER_MAX);
    assert_true(looks <= DESKS * DAMAGE_LOOKS_MAX);
    for (uint32_t i = 0; i < MORSELS; i++) {
        store(&w->c, 0, i); /* None of that is there any more. */
    }
    tick(w, DAMAGE_LOOK_MS);
    assert_int_equal(w->d.count, 0);
    world_end(w);
}

static void what_waits_is_looked_at_when_others_are_through(void **state)
{
    struct world *w = world_make();
    struct damage_action looks[DAMAGE_READER_MAX];
    uint32_t count = 0, bad = 0, named;

    (void)state;
    for (uint32_t i = 0; i < MORSELS; i++) {
        name(w, i + 1, copy_of(w, i, 0));
        if (w->out.count == 1) {
            looks[count++] = w->out.items[0];
        }
    }
    named = (uint32_t)w->d.named;
    assert_int_equal(named, MORSELS);
    assert_true(count < named); /* Some wait. */
    while (w->d.count > 0) {
        uint32_t now = count;

        count = 0;
        for (uint32_t i = 0; i < now; i++) {
            looked(w, &looks[i], DAMAGE_FOUND_WRONG);
            bad += only(w, DAMAGE_BAD).order == looks[i].order;
        }
        tick(w, damage_deadline_ms(&w->d) > w->c.now_ms && w->d.count > 0
                    ? damage_deadline_ms(&w->d) - w->c.now_ms
                    : 0);
        for (uint32_t i = 0; i < w->out.count; i++) {
            looks[count++] = w->out.items[i];
        }
    }
    assert_int_equal(bad, named);
    world_end(w);
}

/* The last copy: it stays, is known, and is looked at now and then, until it is right again, or another one. */
static void what_stays_is_looked_at_again(void **state)
{
    struct world *w = world_make();
    struct damage_copy copy = copy_of(w, 3, 0), kept[4];
    struct damage_action look;

    (void)state;
    name(w, 7, copy);
    look = only(w, DAMAGE_LOOK);
    looked(w, &look, DAMAGE_FOUND_WRONG);
    (void)only(w, DAMAGE_BAD);
    damage_keep(&w->d, &copy, w->c.now_ms);
    assert_int_equal(damage_kept(&w->d, 1, kept, 4), 1);
    assert_int_equal(kept[0].morsel, 3);
    assert_int_equal(damage_kept(&w->d, 2, kept, 4), 0);
    for (int i = 0; i < 5; i++) {
        tick(w, DAMAGE_REST_MS - 1);
        name(w, 7, copy); /* That is known, and no reason to blame it again. */
        assert_int_equal(w->out.count, 0);
        tick(w, 1);
        look = only(w, DAMAGE_LOOK);
        assert_int_equal(look.looker, copy.donor);
        looked(w, &look, DAMAGE_FOUND_WRONG);
        assert_int_equal(w->out.count, 0);
    }
    assert_int_equal(damage_kept(&w->d, 1, kept, 4), 1);
    tick(w, DAMAGE_REST_MS);
    look = only(w, DAMAGE_LOOK);
    looked(w, &look, DAMAGE_FOUND_RIGHT);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(damage_kept(&w->d, 1, kept, 4), 0);
    damage_keep(&w->d, &copy, w->c.now_ms);
    store(&w->c, 0, 3);
    assert_int_equal(damage_kept(&w->d, 1, kept, 4), 0);
    tick(w, DAMAGE_REST_MS);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(damage_deadline_ms(&w->d), UINT64_MAX);
    world_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_benefactor_is_believed_when_it_says_that_it_is_wrong),
        cmocka_unit_test(a_reader_that_lies_loses_no_copy),
        cmocka_unit_test(who_says_that_it_is_right_and_gives_out_something_else_has_lied),
        cmocka_unit_test(what_the_map_does_not_say_is_not_looked_at),
        cmocka_unit_test(what_became_another_one_meanwhile_is_left_alone),
        cmocka_unit_test(who_looks_and_does_not_answer_ends_it),
        cmocka_unit_test(one_reader_does_not_keep_others_out),
        cmocka_unit_test(what_waits_is_looked_at_when_others_are_through),
        cmocka_unit_test(what_stays_is_looked_at_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
