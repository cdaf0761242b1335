/* Data sets that nobody goes on with: which is due next, in drawn histories beside a model that looks at all; and what becomes of which. */
#include "meta/datasets/unfinished.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SETS = 60, STEPS = 4000, PATIENCE_NS = 100, LOOKS = 7 };

static struct set_head head_of(uint64_t number, int64_t made_ns)
{
    return (struct set_head){
        .number = number, .inode = number, .made_ns = made_ns, .copies = 2, .morsel_bytes = 4096
    };
}

/* ---- What becomes of it ---- */

static void what_has_no_origin_and_is_not_scratch_stays(void **state)
{
    struct data_set set = { .head = head_of(1, 0) };

    (void)state;
    assert_int_equal(unfinished_fate(&set, 0), UNFINISHED_NOTHING);
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_STAYS); /* It may be all holes. */
    set.head.reserved = 5;
    assert_int_equal(unfinished_fate(&set, 0), UNFINISHED_CANCEL);
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_STAYS);
    set.morsels = 1;
    assert_int_equal(unfinished_fate(&set, 0), UNFINISHED_STAYS);
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_STAYS);
    set.head.scratch = true;
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_EMPTY);
    set.head.pinned = true;
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_STAYS);
    set.head.pinned = set.head.scratch = false;
    set.head.has_origin = true;
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_RESTART);
    set.head.sealed = true;
    assert_int_equal(unfinished_fate(&set, 5), UNFINISHED_NOTHING);
}

static void what_begins_anew_from_its_origin_does_so_once(void **state)
{
    struct data_set set = { .head = head_of(1, 0) };

    (void)state;
    set.head.has_origin = true;
    assert_int_equal(unfinished_fate(&set, 0), UNFINISHED_NOTHING);
}

/* ---- Who is next ---- */

struct model
{
    struct unfinished u;
    struct sets sets;
    struct prng prng;
    int64_t due_ns[SETS + 1]; /* -1: it does not wait. */
    bool told[SETS + 1];
};

static void make_or_end(struct model *m, int64_t now_ns)
{
    uint64_t number = 1 + prng_below(&m->prng, SETS);
    const struct data_set *set = sets_find(&m->sets, number);
    struct set_head head = set != NULL ? set->head : head_of(number, now_ns);

    if (set == NULL) {
        assert_int_equal(sets_reserve(&m->sets, &head, NULL, 0, 0), 0);
        sets_made(&m->sets, &head);
    } else if (prng_below(&m->prng, 2) == 0) {
        sets_remove(&m->sets, number);
    } else {
        head.sealed = true;
        sets_change_head(&m->sets, &head);
    }
}

/* A whole round of steps has seen all of them. */
static void learn(struct model *m, int64_t earliest_ns)
{
    for (int i = 0; i <= SETS / LOOKS + 1; i++) {
        unfinished_learn(&m->u, &m->sets, LOOKS, PATIENCE_NS, earliest_ns);
    }
    for (uint32_t i = 0; i < m->sets.count; i++) {
        const struct set_head *head = &m->sets.items[i]->head;

        if (!head->sealed && m->due_ns[head->number] < 0) {
            int64_t due_ns = head->made_ns + PATIENCE_NS;

            m->due_ns[head->number] = due_ns > earliest_ns ? due_ns : earliest_ns;
        }
    }
}

static void look_at_next(struct model *m, int64_t now_ns)
{
    uint64_t number = unfinished_next(&m->u, now_ns), first = 0;
    int64_t at_ns = now_ns + 1 + (int64_t)prng_below(&m->prng, PATIENCE_NS);

    for (uint64_t i = 1; i <= SETS; i++) {
        if (m->due_ns[i] >= 0 && (first == 0 || m->due_ns[i] < m->due_ns[first])) {
            first = i;
        }
    }
    if (number == 0) {
        assert_true(first == 0 || m->due_ns[first] > now_ns);
        return;
    }
    assert_int_equal(m->due_ns[number], m->due_ns[first]);
    switch (prng_below(&m->prng, 3)) {
    case 0:
        unfinished_again(&m->u, number, m->due_ns[number] = at_ns);
        m->told[number] = false;
        break;
    case 1:
        unfinished_tell(&m->u, number, now_ns, m->due_ns[number] = at_ns);
        m->told[number] = true;
        break;
    default:
        unfinished_forget(&m->u, number);
        m->due_ns[number] = -1;
        m->told[number] = false;
    }
}

static void check(const struct model *m)
{
    uint32_t told = 0;

    for (uint64_t i = 1; i <= SETS; i++) {
        told += m->told[i];
        assert_int_equal(unfinished_quiet_ns(&m->u, i) != 0, m->told[i]);
    }
    assert_int_equal(m->u.told, told);
    unfinished_check(&m->u);
}

static void those_are_next_whose_time_came_first(void **state)
{
    struct model *m = calloc(1, sizeof(*m));

    (void)state;
    assert_non_null(m);
    prng_seed(&m->prng, test_seed_first());
    unfinished_init(&m->u);
    sets_init(&m->sets);
    for (int i = 0; i <= SETS; i++) {
        m->due_ns[i] = -1;
    }
    for (int64_t now_ns = 1; now_ns <= STEPS; now_ns++) {
        make_or_end(m, now_ns);
        learn(m, 50);
        look_at_next(m, now_ns);
        check(m);
    }
    unfinished_free(&m->u);
    sets_free(&m->sets);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_no_origin_and_is_not_scratch_stays),
        cmocka_unit_test(what_begins_anew_from_its_origin_does_so_once),
        cmocka_unit_test(those_are_next_whose_time_came_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
