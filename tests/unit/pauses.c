/* Who holds still for whom: the table alone. What its host makes of it is in meta_pauses.c. */
#include "meta/coherence/pauses.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FILE_A = 10, FILE_B = 11, OWNER = 1 };

static const client_id writers[] = { 5, OWNER, 6 };

static void it_is_whole_when_all_hold_still(void **state)
{
    static const client_id more[] = { 5, 6, 7 };
    struct pauses p;
    struct pause *pause;

    (void)state;
    pauses_init(&p, 41);
    pause = pauses_begin(&p, 100, FILE_A, OWNER, writers, 3);
    assert_ptr_equal(pauses_find(&p, FILE_A), pause);
    assert_ptr_equal(pauses_numbered(&p, FILE_A, 42), pause);
    assert_null(pauses_numbered(&p, FILE_A, 41));
    assert_null(pauses_find(&p, FILE_B));
    assert_true(pause_has_member(pause, 5) && !pause_has_member(pause, OWNER));
    assert_false(pause_is_whole(pause, writers, 3));
    pause_note_paused(pause, 5);
    pause_note_paused(pause, 7); /* A stranger. */
    assert_false(pause_is_whole(pause, writers, 3));
    pause_note_paused(pause, 6);
    assert_true(pause_is_whole(pause, writers, 3));
    assert_false(pause_is_whole(pause, more, 3));
    assert_true(pause_is_whole(pause, writers, 1)); /* One has closed it. */
    pauses_note_opened(&p, FILE_B, 6);
    assert_true(pause_is_whole(pause, writers, 3));
    pauses_note_opened(&p, FILE_A, 6);
    assert_false(pause_is_whole(pause, writers, 3));
}

static void its_time_begins_again_when_it_is_held(void **state)
{
    struct pauses p;
    struct pause *pause;

    (void)state;
    pauses_init(&p, 0);
    pause = pauses_begin(&p, 100, FILE_A, OWNER, writers, 3);
    assert_false(pause_is_late(pause, 100 + PAUSE_GATHER_MS - 1));
    assert_true(pause_is_late(pause, 100 + PAUSE_GATHER_MS));
    pause_hold(pause, 1000);
    pause_hold(pause, 2000); /* For nothing. */
    assert_false(pause_is_late(pause, 1000 + PAUSE_HELD_MS - 1));
    assert_true(pause_is_late(pause, 1000 + PAUSE_HELD_MS));
    pauses_end(&p, pause);
    assert_null(pauses_find(&p, FILE_A));
}

static void there_are_so_many(void **state)
{
    client_id many[PAUSE_MEMBERS_MAX + 2];
    struct pauses p;
    struct pause *pause;

    (void)state;
    pauses_init(&p, UINT64_MAX - 3); /* Numbers may wrap. */
    for (uint32_t i = 0; i < PAUSE_MEMBERS_MAX + 2; i++) {
        many[i] = OWNER + i;
    }
    assert_null(pauses_begin(&p, 0, FILE_A, OWNER, many, PAUSE_MEMBERS_MAX + 2));
    assert_null(pauses_find(&p, FILE_A));
    assert_non_null(pauses_begin(&p, 0, FILE_A, OWNER, many, PAUSE_MEMBERS_MAX + 1));
    for (inode_id i = 1; i < PAUSES_MAX; i++) {
        assert_non_null(pauses_begin(&p, 0, FILE_A + i, OWNER, writers, 3));
    }
    assert_null(pauses_begin(&p, 0, 99, OWNER, writers, 3));
    assert_int_equal(p.count, PAUSES_MAX);
    pauses_end(&p, pauses_find(&p, FILE_A + 3));
    pause = pauses_begin(&p, 0, 99, OWNER, writers, 3);
    assert_non_null(pause);
    assert_false(pause->held || pause->members[0].paused);
    for (inode_id i = 0; i < PAUSES_MAX; i++) {
        const struct pause *other = pauses_find(&p, FILE_A + i);

        assert_true(other == NULL || other->number != pause->number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_whole_when_all_hold_still),
        cmocka_unit_test(its_time_begins_again_when_it_is_held),
        cmocka_unit_test(there_are_so_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
