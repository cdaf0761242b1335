/* What was acknowledged and may be lost: the client's memory of changes, and the manager's runs. */
#include "client/manager/changes.h"
#include "meta/storage/runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static unsigned losses;
static inode_id last_lost;

static void on_lost(void *data, inode_id inode)
{
    (void)data;
    losses++;
    last_lost = inode;
}

static unsigned heard(struct changes *c, const struct changes_held *held, size_t count)
{
    losses = 0;
    changes_heard(c, held, count, on_lost, NULL);
    return losses;
}

static void a_change_is_there_or_to_come_or_lost(void **state)
{
    static struct changes c;
    struct changes_held first = { 1, 5 }, later[2] = { { 2, 3 }, { 1, 8 } };

    (void)state;
    changes_init(&c);
    changes_note(&c, 10, 1, 5);
    changes_note(&c, 11, 1, 8);
    changes_note(&c, 12, 1, 9);
    changes_note(&c, 12, 1, 7); /* An older answer that came late. */
    assert_int_equal(heard(&c, &first, 1), 0);
    assert_int_equal(heard(&c, later, 2), 1); /* 8 outlived the run, 9 did not. */
    assert_int_equal(last_lost, 12);
    assert_true(changes_lost(&c, 12));
    assert_false(changes_lost(&c, 10) || changes_lost(&c, 11));
    assert_int_equal(heard(&c, later, 2), 0); /* Once. */
    changes_note(&c, 12, 2, 4);
    assert_true(changes_lost(&c, 12)); /* Nobody was told. */
    changes_told(&c, 12);
    assert_false(changes_lost(&c, 12));
    changes_note(&c, 12, 2, 4);
    changes_durable(&c, 2, 4);
    first = (struct changes_held){ 3, 1 }; /* It knows nothing of run 2. */
    assert_int_equal(heard(&c, &first, 1), 0);
    changes_note(&c, 13, 2, 5);
    assert_int_equal(heard(&c, &first, 1), 1);
}

/* A change that never came to the manager. */
static void what_is_lost_here_waits_to_be_told_too(void **state)
{
    static struct changes c;
    struct changes_held held = { 1, 5 };

    (void)state;
    changes_init(&c);
    changes_lose(&c, 12);
    assert_true(changes_lost(&c, 12));
    assert_false(changes_lost(&c, 13));
    changes_durable(&c, 1, 5);
    assert_int_equal(heard(&c, &held, 1), 0);
    assert_true(changes_lost(&c, 12)); /* No sync brings it back. */
    changes_told(&c, 12);
    assert_false(changes_lost(&c, 12));
    changes_note(&c, 12, 1, 7);
    changes_lose(&c, 12);
    changes_told(&c, 12);
    assert_false(changes_lost(&c, 12));
    held = (struct changes_held){ 2, 0 };
    assert_int_equal(heard(&c, &held, 1), 1); /* The other one was remembered. */
}

static void what_is_changed_while_a_loss_is_untold_is_remembered(void **state)
{
    static struct changes c;
    struct changes_held second[2] = { { 2, 0 }, { 1, 0 } };
    struct changes_held third[2] = { { 3, 0 }, { 2, 6 } };

    (void)state;
    changes_init(&c);
    changes_note(&c, 12, 1, 5);
    assert_int_equal(heard(&c, second, 2), 1);
    changes_note(&c, 12, 2, 7);
    changes_told(&c, 12); /* Of the first one. */
    assert_false(changes_lost(&c, 12));
    assert_int_equal(heard(&c, third, 2), 1);
    assert_true(changes_lost(&c, 12));
    changes_note(&c, 12, 3, 1);
    changes_durable(&c, 3, 1);
    assert_true(changes_lost(&c, 12)); /* That one is there, the other is not. */
    changes_told(&c, 12);
    assert_false(changes_lost(&c, 12));
    assert_true(list_empty(&c.used));
}

static void what_finds_no_slot_concerns_everybody(void **state)
{
    static struct changes c;
    struct changes_held held = { 2, 0 };
    unsigned found;

    (void)state;
    changes_init(&c);
    for (inode_id i = 1; i <= 2 * CHANGES_SLOTS; i++) {
        changes_note(&c, i, 1, i);
    }
    found = heard(&c, &held, 1);
    assert_in_range(found, CHANGES_SLOTS / 2, CHANGES_SLOTS + 1);
    for (inode_id i = 1; i <= 2 * CHANGES_SLOTS + 1; i++) {
        assert_true(changes_lost(&c, i));
    }
    changes_init(&c);
    for (inode_id i = 1; i <= 100 * CHANGES_SLOTS; i++) {
        changes_durable(&c, 1, i > 100 ? i - 100 : 0);
        changes_note(&c, i, 1, i);
    }
    assert_in_range(heard(&c, &held, 1), 80, 101); /* Those that were not on disk. */
}

static void a_run_ends_with_the_machine(void **state)
{
    char text[RUNS_TEXT_BYTES_MAX];
    struct runs runs, next, read;

    (void)state;
    runs_begin(&runs, NULL, 7, 0, 100);
    assert_int_equal(runs.run, 100);
    assert_int_equal(runs_held(&runs, 100, 55), 55);
    assert_int_equal(runs_held(&runs, 99, 55), 0);
    runs_begin(&next, &runs, 7, 60, 101); /* A killed process. */
    assert_int_equal(next.run, 100);
    next.closed = true;
    runs_begin(&runs, &next, 8, 70, 102); /* An orderly end, another boot. */
    assert_int_equal(runs.run, 100);
    assert_false(runs.closed);
    for (uint64_t i = 1; i <= 2 * RUNS_KEPT; i++) {
        runs_begin(&next, &runs, 100 + i, 1000 + i, 200 + i);
        assert_int_equal(next.run, 200 + i);
        assert_int_equal(runs_held(&next, runs.run, 5), 1000 + i);
        assert_true(runs_format(&next, text) < sizeof(text));
        assert_true(runs_parse(&read, text));
        assert_memory_equal(&read, &next, sizeof(read));
        text[strlen(text) - 2] = 0;
        assert_false(runs_parse(&read, text));
        runs = next;
    }
    assert_int_equal(runs.count, RUNS_KEPT);
    assert_int_equal(runs_held(&runs, 100, 5), 0); /* Forgotten. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_there_or_to_come_or_lost),
        cmocka_unit_test(what_is_lost_here_waits_to_be_told_too),
        cmocka_unit_test(what_is_changed_while_a_loss_is_untold_is_remembered),
        cmocka_unit_test(what_finds_no_slot_concerns_everybody),
        cmocka_unit_test(a_run_ends_with_the_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
