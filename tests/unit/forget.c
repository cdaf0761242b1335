/* Benefactors that are forgotten: on drawn maps exactly what they have leaves the maps, and nothing goes of which nobody else who is here has
 * a copy, unless that is said; a number is never given again. */
#include "meta/datasets/forget.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 100, DESKS = 5, SETS = 6, MORSELS = 700, BYTES = 4096, GONE = 2 };

struct cloud
{
    struct sets sets;
    struct donors donors;
    struct prng prng;
    uint64_t now_ms;
};

static void event(struct cloud *c, struct donors_event *e, struct donors_actions *out)
{
    e->now_ms = ++c->now_ms;
    out->count = 0;
    donors_step(&c->donors, e, out);
    donors_check(&c->donors);
}

/* Returns the answer to the JOIN. */
static struct donors_action join(struct cloud *c, donor_id id, uint8_t token, bool told)
{
    struct donors_event e = { .type = DONORS_JOIN };
    struct donors_actions out;
    struct donors_action answer;

    e.join.tag = 1;
    e.join.record.id = id;
    memset(e.join.record.token, token, sizeof(e.join.record.token));
    e.join.instance = 100 + token;
    e.join.told_held = told;
    event(c, &e, &out);
    assert_true(out.count > 0);
    answer = out.items[0];
    if (answer.type == DONORS_PERSIST) {
        struct donors_event kept = { .type = DONORS_PERSISTED };

        kept.persisted.id = answer.id;
        event(c, &kept, &out);
        answer = out.items[0];
    }
    return answer;
}

static void leave(struct cloud *c, donor_id id, uint8_t token)
{
    struct donors_event e = { .type = DONORS_REPORT };
    struct donors_actions out;

    e.report.id = id;
    e.report.instance = 100 + token;
    e.report.leaves = true;
    event(c, &e, &out);
    assert_int_equal(donors_find(&c->donors, id)->state, DONOR_AWAY);
}

static void store(struct cloud *c, const struct set_head *head, uint32_t number)
{
    struct set_change change = { .set = head->number,
                                 .morsel = { .number = number, .length = BYTES } };

    for (donor_id id = 1; id <= DESKS; id++) {
        if (change.morsel.donor_count < 2 && prng_below(&c->prng, 3) == 0) {
            change.morsel.donors[change.morsel.donor_count++] = id;
        }
    }
    assert_int_equal(sets_reserve(&c->sets, head, &change, 1, 0), 0);
    sets_apply(&c->sets, &change, 1);
}

static void open_cloud(struct cloud *c, uint64_t seed, bool may_go)
{
    *c = (struct cloud){ .now_ms = 1 };
    prng_seed(&c->prng, seed);
    sets_init(&c->sets);
    donors_init(&c->donors, 1000);
    for (int i = 1; i <= DESKS; i++) {
        assert_int_equal(join(c, 0, (uint8_t)i, true).id, i);
    }
    leave(c, GONE, GONE);
    if (prng_below(&c->prng, 2) == 0) {
        leave(c, 4, 4);
    }
    for (uint64_t s = 1; s <= SETS; s++) {
        struct set_head head = { .number = s, .inode = s, .copies = 2, .morsel_bytes = BYTES };

        head.scratch = may_go;
        assert_int_equal(sets_reserve(&c->sets, &head, NULL, 0, 0), 0);
        sets_made(&c->sets, &head);
        for (uint32_t i = (uint32_t)prng_below(&c->prng, 5); i < MORSELS;
             i += 1 + (uint32_t)prng_below(&c->prng, 3)) {
            store(c, &head, i);
        }
    }
}

static void close_cloud(struct cloud *c)
{
    sets_check(&c->sets);
    sets_free(&c->sets);
    donors_free(&c->donors);
}

/* By looking at all: how many it has, and how many of these nobody else has who is here. */
static uint64_t count(const struct cloud *c, donor_id id, uint64_t *last)
{
    uint64_t has = 0;

    *last = 0;
    for (uint32_t s = 0; s < c->sets.count; s++) {
        const struct data_set *set = c->sets.items[s];
        struct set_morsel m;

        for (uint32_t from = 0; set_next(set, from, &m); from = m.number + 1) {
            bool elsewhere = set->head.scratch;

            for (uint32_t i = 0; i < m.donor_count; i++) {
                elsewhere |=
                    m.donors[i] != id && donors_find(&c->donors, m.donors[i])->state == DONOR_HERE;
            }
            has += set_morsel_has(&m, id);
            *last += set_morsel_has(&m, id) && !elsewhere;
        }
    }
    return has;
}

static void look_at_all(const struct cloud *c, struct forget *f)
{
    for (int steps = 0; !forget_look(f, &c->sets, &c->donors); steps++) {
        assert_true(steps < 100);
    }
}

static void take_off(struct cloud *c, donor_id id, struct op_run run)
{
    for (uint32_t i = 0; i < run.count; i++) {
        struct set_change change = { .set = run.set };
        uint32_t kept = 0;

        assert_true(set_get(sets_find(&c->sets, run.set), run.first + i, &change.morsel));
        assert_true(set_morsel_has(&change.morsel, id));
        for (uint32_t j = 0; j < change.morsel.donor_count; j++) {
            if (change.morsel.donors[j] != id) {
                change.morsel.donors[kept++] = change.morsel.donors[j];
            }
        }
        change.morsel.donor_count = kept;
        sets_apply(&c->sets, &change, 1);
    }
}

static void lose_all(struct cloud *c, struct forget *f)
{
    struct op_run runs[FORGET_RUNS];
    uint32_t runs_count = 0;
    bool done = false;

    for (int steps = 0; !done; steps++) {
        assert_true(steps < 100);
        done = forget_lose(f, &c->sets, &c->donors, runs, &runs_count);
        for (uint32_t i = 0; i < runs_count; i++) {
            assert_true(i == 0 || runs[i - 1].set < runs[i].set ||
                        runs[i - 1].first + runs[i - 1].count < runs[i].first);
            take_off(c, f->donor, runs[i]);
        }
    }
}

static void what_nobody_else_has_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = test_seed_first(), end = seed + SEEDS; seed < end; seed++) {
        struct forget f;
        struct cloud c;
        uint64_t last;

        open_cloud(&c, seed, false);
        (void)count(&c, GONE, &last);
        forget_begin(&f, GONE, false);
        look_at_all(&c, &f);
        assert_int_equal(f.morsels, last);
        assert_int_equal(f.sets, SETS);
        forget_begin(&f, GONE, false);
        lose_all(&c, &f);
        assert_int_equal(f.morsels, 1); /* It ends at the first of them. */
        close_cloud(&c);
    }
}

static void all_that_it_has_leaves_the_maps(void **state)
{
    (void)state;
    for (uint64_t seed = test_seed_first(), end = seed + SEEDS; seed < end; seed++) {
        struct forget f;
        struct cloud c;
        uint64_t last, before;
        bool may_go = seed % 2 == 0;

        open_cloud(&c, seed, may_go);
        before = count(&c, 1, &last);
        forget_begin(&f, GONE, !may_go);
        lose_all(&c, &f);
        assert_int_equal(count(&c, GONE, &last), 0);
        assert_int_equal(count(&c, 1, &last), before);
        close_cloud(&c);
    }
}

static void its_number_is_given_to_nobody(void **state)
{
    struct cloud c;
    donor_id again;

    (void)state;
    open_cloud(&c, 1, false);
    leave(&c, DESKS, DESKS);
    donors_forget(&c.donors, DESKS);
    donors_check(&c.donors);
    assert_null(donors_find(&c.donors, DESKS));
    assert_int_equal(join(&c, 0, 20, false).id, DESKS + 1);
    assert_int_equal(join(&c, DESKS, DESKS, true).type, DONORS_REFUSE); /* It tells nothing more. */
    again = join(&c, DESKS, DESKS, false).id;
    assert_int_equal(again, DESKS + 2);
    assert_false(donors_find(&c.donors, again)->told_held);
    assert_int_equal(join(&c, 1000, 30, false).type, DONORS_REFUSE); /* Nobody ever had that. */
    donors_given(&c.donors, 500);
    assert_int_equal(join(&c, 0, 31, false).id, 500);
    close_cloud(&c);
}

/* The answer with the new number may be lost, or the disk may not keep it: who comes again by the old one is the same. */
static void the_new_number_may_not_reach_it(void **state)
{
    struct cloud c;
    struct donors_action answer;
    donor_id again;

    (void)state;
    open_cloud(&c, 1, false);
    leave(&c, GONE, GONE);
    donors_forget(&c.donors, GONE);
    again = join(&c, GONE, GONE, false).id;
    answer = join(&c, GONE, GONE, false);
    assert_int_equal(answer.type, DONORS_WELCOME);
    assert_int_equal(answer.id, again);
    leave(&c, again, GONE);
    answer = join(&c, GONE, GONE, true); /* A process of before that lives on. */
    assert_int_equal(answer.type, DONORS_REFUSE);
    assert_non_null(strstr(answer.reason, "forgotten"));
    answer = join(&c, DESKS, GONE, false); /* That is somebody else's. */
    assert_int_equal(answer.type, DONORS_REFUSE);
    close_cloud(&c);
}

/* The manager has lost its power, or its database was put back: who lives is not told that it was forgotten. */
static void who_lives_is_not_forgotten(void **state)
{
    struct cloud c;
    struct donor_record kept = { .id = 0 };

    (void)state;
    open_cloud(&c, 1, false);
    donors_free(&c.donors);
    for (uint32_t i = 1; i <= 3; i++) { /* No number was forgotten yet. */
        kept.id = i;
        memset(kept.token, (int)i, sizeof(kept.token));
        assert_int_equal(donors_add(&c.donors, &kept, ++c.now_ms), 0);
    }
    donors_given(&c.donors, 0);
    for (uint32_t i = 1; i <= DESKS; i++) {
        struct donors_action answer = join(&c, i, (uint8_t)i, true);

        assert_int_equal(answer.type, i <= 3 ? DONORS_WELCOME : DONORS_REFUSE);
        assert_true(i <= 3 || strstr(answer.reason, "put back to an older state") != NULL);
    }
    assert_int_equal(join(&c, 0, 40, false).id, 4);
    assert_non_null(strstr(join(&c, 4, 4, true).reason, "belongs to another directory"));
    close_cloud(&c);
}

/* A copy at one that leaves soon, or is distrusted, is no reason to forget; nor is it that scratch may go when it is pinned. */
static void who_leaves_too_does_not_count(void **state)
{
    (void)state;
    for (int fetched = 0; fetched < 2; fetched++) {
        struct set_head head = { .number = 1, .inode = 1, .copies = 2, .morsel_bytes = BYTES };
        struct set_change change = {
            .set = 1, .morsel = { .length = BYTES, .donor_count = 2, .donors = { GONE, 3 } }
        };
        struct donors_event e = { .type = DONORS_REPORT };
        struct donors_actions out;
        struct forget f;
        struct cloud c = { .now_ms = 1 };

        sets_init(&c.sets);
        donors_init(&c.donors, 1000);
        for (int i = 1; i <= 3; i++) {
            assert_int_equal(join(&c, 0, (uint8_t)i, true).id, i);
        }
        leave(&c, GONE, GONE);
        head.scratch = head.pinned = true;
        head.fetched = fetched == 1;
        assert_int_equal(sets_reserve(&c.sets, &head, &change, 1, 0), 0);
        sets_made(&c.sets, &head);
        sets_apply(&c.sets, &change, 1);
        forget_begin(&f, GONE, false);
        look_at_all(&c, &f);
        assert_int_equal(f.morsels, 0);
        e.report.id = 3;
        e.report.instance = 100 + 3;
        e.report.report.leaving = true;
        event(&c, &e, &out);
        forget_begin(&f, GONE, false);
        look_at_all(&c, &f);
        assert_int_equal(f.morsels, fetched == 0);
        close_cloud(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_else_has_is_found),
        cmocka_unit_test(all_that_it_has_leaves_the_maps),
        cmocka_unit_test(its_number_is_given_to_nobody),
        cmocka_unit_test(the_new_number_may_not_reach_it),
        cmocka_unit_test(who_lives_is_not_forgotten),
        cmocka_unit_test(who_leaves_too_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
