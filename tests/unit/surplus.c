/* Copies that are not needed, where room is wanted: in long histories of benefactors that come and go exactly those are given up of which
 * as many others count as are wanted, each once, however small the steps are. */
#include "meta/datasets/surplus.h"
#include "tests/lib/repair_cloud.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HISTORY_MS = 600000, SEEDS = 8, LOOKS = 1000 };

static uint32_t guarded; /* Copies that stayed for what they keep apart. */

/* By looking at all: can its copy of the morsel go? Not where that leaves all the others on one machine, and its own is another one. */
static bool can_go(struct cloud *c, donor_id id, uint32_t s, uint32_t number)
{
    const struct data_set *set = set_of(c, s);
    const char *own = donor_of(c, id)->record.name;
    struct set_morsel m;
    uint32_t n = 0, hosts[256] = { 0 }, most = 0, own_host = (uint8_t)own[0];

    if (!set_get(set, number, &m) || !set_morsel_has(&m, id) ||
        repair_task_of(&c->r, s + 1, number) != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < m.donor_count; i++) {
        uint8_t host = (uint8_t)donor_of(c, m.donors[i])->record.name[0];

        if (m.donors[i] != id && counts(c, m.donors[i]) &&
            !repair_has_failed(&c->r, s + 1, number, m.donors[i], c->now_ms)) {
            n++;
            hosts[host]++;
            most = hosts[host] > most ? hosts[host] : most;
        }
    }
    if (n >= set->head.copies && set->head.copies > 1 && most == n && hosts[own_host] == 0) {
        guarded++;
        return false;
    }
    return n >= set->head.copies;
}

static uint32_t all_that_can_go(struct cloud *c, donor_id id)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t i = 0; i < MORSELS; i++) {
            n += can_go(c, id, s, i);
        }
    }
    return n;
}

/* Much room is wanted there, and made in steps of some looks. */
static void give_up_all(struct cloud *c, struct surplus_walk *walk, donor_id id, uint32_t most)
{
    uint32_t wanted = all_that_can_go(c, id), went = 0, looks;
    struct repair_task task;
    enum surplus_found found;

    do {
        looks = 1 + (uint32_t)draw(c, most);
        while ((found = surplus_next(&c->r, walk, id, c->now_ms, &looks, &task)) == SURPLUS_FOUND) {
            assert_int_equal(task.target, id);
            assert_true(can_go(c, id, (uint32_t)task.set - 1, task.morsel));
            if (draw(c, 8) == 0) {
                continue; /* It could not be written down, and is found again. */
            }
            drop(c, &task);
            surplus_gone(&c->r, &task);
            went++;
        }
        assert_true(found == SURPLUS_NONE || looks == 0);
    } while (found == SURPLUS_LATER);
    assert_int_equal(went, wanted);
    assert_int_equal(all_that_can_go(c, id), 0);
}

static void come_or_go(struct cloud *c)
{
    struct desk *d = &c->desks[draw(c, DESKS)];

    if (d->up) {
        go(c, d);
    } else {
        come(c, d, donor_of(c, d->id)->told_held && draw(c, 2) == 0);
    }
}

static uint32_t one_history(struct cloud *c, uint64_t seed)
{
    struct surplus_walk walk = { .donor = 0 };
    uint32_t by_repair = 0, before;

    cloud_make(c, seed, AFTER_MS, MORSELS * SETS);
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t m = 0; m < MORSELS; m++) {
            store(c, s, m);
        }
    }
    for (uint64_t end = c->now_ms + HISTORY_MS; c->now_ms < end;) {
        donor_id id = 1 + (donor_id)draw(c, DESKS);

        before = c->dropped;
        pass(c, 1 + draw(c, 30000));
        by_repair += c->dropped - before;
        come_or_go(c);
        repair_donor(&c->r, id)->repair.no_surplus_until_ms = 0;
        give_up_all(c, &walk, id, draw(c, 2) == 0 ? 5 : LOOKS);
        sets_check(&c->sets);
        repair_check(&c->r);
    }
    assert_int_equal(c->r.dropped, c->dropped);
    return c->dropped - by_repair;
}

static void exactly_what_is_too_much_goes(void **state)
{
    struct cloud *c = malloc(sizeof(*c));
    uint64_t first = test_seed_first();
    uint32_t given_up = 0;

    (void)state;
    assert_non_null(c);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        given_up += one_history(c, seed);
        cloud_end(c);
    }
    free(c);
    printf("%u copies were given up\n", given_up);
    assert_true(given_up > 100);
    assert_true(guarded > 0);
}

/* Where there was none nobody looks for a while. */
static void it_is_not_looked_for_again_and_again(void **state)
{
    struct cloud *c = calloc(1, sizeof(*c));
    struct surplus_walk walk = { .donor = 0 };
    struct set_morsel m = { .number = 3, .length = BYTES, .digest = 1 };
    uint32_t looks = LOOKS;
    struct repair_task task;

    (void)state;
    assert_non_null(c);
    cloud_make(c, 1, AFTER_MS, MORSELS);
    assert_int_equal(surplus_next(&c->r, &walk, 1, c->now_ms, &looks, &task), SURPLUS_NONE);
    assert_int_equal(looks, LOOKS); /* No map names more than is wanted. */
    while (m.donor_count <= set_of(c, 0)->head.copies) {
        m.donors[m.donor_count] = m.donor_count + 1;
        m.donor_count++;
    }
    change(c, 1, &m);
    go(c, &c->desks[1]); /* One of those that have it is away, so none is too many. */
    assert_int_equal(c->sets.fat, 1);
    assert_int_equal(surplus_next(&c->r, &walk, 1, c->now_ms, &looks, &task), SURPLUS_NONE);
    assert_true(looks < LOOKS);
    looks = LOOKS;
    c->now_ms += c->r.period_ms - 1;
    assert_int_equal(surplus_next(&c->r, &walk, 1, c->now_ms, &looks, &task), SURPLUS_NONE);
    assert_int_equal(looks, LOOKS);
    c->now_ms++;
    assert_int_equal(surplus_next(&c->r, &walk, 1, c->now_ms, &looks, &task), SURPLUS_NONE);
    assert_true(looks < LOOKS);
    cloud_end(c);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_what_is_too_much_goes),
        cmocka_unit_test(it_is_not_looked_for_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
