/* Attributes that were set and are not with the manager yet. */
#include "client/manager/attr_behind.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static struct attr_change mode(uint32_t value)
{
    return (struct attr_change){
        .valid = SETATTR_MODE, .mode = value, .set_ns = value, .lease_epoch = 1
    };
}

static struct attr_change owner(uint32_t value)
{
    return (struct attr_change){
        .valid = SETATTR_UID, .uid = value, .set_ns = value, .lease_epoch = 1
    };
}

static void what_is_set_again_is_one_change(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, first = mode(1), second = owner(2), third = mode(3);

    (void)state;
    assert_int_equal(attr_behind_set(b, 7, &first), ATTR_BEHIND_TAKEN);
    assert_int_equal(attr_behind_set(b, 7, &second), ATTR_BEHIND_MERGED);
    assert_int_equal(attr_behind_set(b, 7, &third), ATTR_BEHIND_MERGED);
    assert_int_equal(attr_behind_waiting(b), 1);
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(out.valid, SETATTR_MODE | SETATTR_UID);
    assert_int_equal(out.mode, 3);
    assert_int_equal(out.uid, 2);
    assert_int_equal(out.set_ns, 3);
    assert_int_equal(attr_behind_next(b, &out), INODE_NONE);
    assert_true(attr_behind_ended(b, 7, MORSEL_OK));
    assert_int_equal(attr_behind_count(b), 0);
    attr_behind_free(b);
}

static void one_of_an_inode_is_under_way(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, first = mode(1), second = mode(2);
    uint64_t stamp;

    (void)state;
    (void)attr_behind_set(b, 7, &first);
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_false(attr_behind_waits(b, attr_behind_stamp(b)));
    (void)attr_behind_set(b, 7, &second);
    (void)attr_behind_set(b, 8, &second);
    stamp = attr_behind_stamp(b);
    assert_int_equal(attr_behind_next(b, &out), 8); /* Another one is not held up. */
    assert_int_equal(attr_behind_next(b, &out), INODE_NONE);
    assert_true(attr_behind_waits(b, stamp));
    assert_false(attr_behind_ended(b, 7, MORSEL_OK));
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(out.mode, 2);
    assert_false(attr_behind_waits(b, stamp));
    attr_behind_free(b);
}

static void what_was_refused_does_not_undo_what_came_after(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, first = mode(1), second = owner(2), third = mode(3);

    (void)state;
    (void)attr_behind_set(b, 7, &first);
    (void)attr_behind_set(b, 7, &second);
    (void)attr_behind_next(b, &out);
    (void)attr_behind_set(b, 7, &third);
    assert_false(attr_behind_ended(b, 7, MORSEL_IO));
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(out.valid, SETATTR_MODE | SETATTR_UID);
    assert_int_equal(out.mode, 3);
    assert_int_equal(out.uid, 2);
    /* Alone it waits until it is tried again, and holds nobody up. */
    assert_false(attr_behind_ended(b, 7, MORSEL_IO));
    assert_int_equal(attr_behind_next(b, &out), INODE_NONE);
    assert_false(attr_behind_waits(b, attr_behind_stamp(b)));
    attr_behind_retry(b);
    assert_true(attr_behind_waits(b, attr_behind_stamp(b)));
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(out.mode, 3);
    assert_true(attr_behind_ended(b, 7, MORSEL_OK));
    attr_behind_free(b);
}

/* What was set behind the mark is no part of it, wherever what was set before is. */
static void a_sync_covers_what_was_set_before_it(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, change = mode(1);
    uint64_t mark, later;

    (void)state;
    assert_int_equal(attr_behind_owes(b, 7, attr_behind_mark(b)), MORSEL_OK);
    (void)attr_behind_set(b, 7, &change);
    mark = attr_behind_mark(b);
    assert_int_equal(attr_behind_owes(b, 8, mark), MORSEL_OK);
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_AGAIN);
    (void)attr_behind_set(b, 7, &change); /* Merged: both are sent. */
    assert_int_equal(attr_behind_next(b, &out), 7);
    (void)attr_behind_set(b, 7, &change);
    later = attr_behind_mark(b);
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_AGAIN);
    assert_false(attr_behind_ended(b, 7, MORSEL_OK));
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_OK);
    assert_int_equal(attr_behind_owes(b, 7, later), MORSEL_AGAIN);
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_false(attr_behind_ended(
        b, 7, MORSEL_NOMEM)); /* The manager has answered, and does not have it. */
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_OK);
    assert_int_equal(attr_behind_owes(b, 7, later), MORSEL_NOMEM);
    attr_behind_retry(b);
    assert_int_equal(attr_behind_owes(b, 7, later), MORSEL_AGAIN);
    assert_int_equal(attr_behind_next(b, &out), 7);
    attr_behind_put_back(b, 7);
    assert_int_equal(attr_behind_owes(b, 7, later), MORSEL_AGAIN);
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_true(attr_behind_ended(b, 7, MORSEL_OK));
    assert_int_equal(attr_behind_owes(b, 7, later), MORSEL_OK);
    attr_behind_free(b);
}

/* What is set while it is under way is sent with it, when it was refused. */
static void what_was_refused_is_owed_with_what_came_after(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, first = mode(1), second = owner(2);
    uint64_t mark;

    (void)state;
    (void)attr_behind_set(b, 7, &first);
    mark = attr_behind_mark(b);
    assert_int_equal(attr_behind_next(b, &out), 7);
    (void)attr_behind_set(b, 7, &second);
    assert_false(attr_behind_ended(b, 7, MORSEL_NOMEM));
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_AGAIN);
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(out.valid, SETATTR_MODE | SETATTR_UID);
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_AGAIN);
    assert_true(attr_behind_ended(b, 7, MORSEL_OK));
    assert_int_equal(attr_behind_owes(b, 7, mark), MORSEL_OK);
    attr_behind_free(b);
}

static void put_back_keeps_its_place(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, change = mode(1);

    (void)state;
    (void)attr_behind_set(b, 7, &change);
    (void)attr_behind_set(b, 8, &change);
    assert_int_equal(attr_behind_next(b, &out), 7);
    attr_behind_put_back(b, 7);
    assert_true(attr_behind_waits(b, 1));
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(attr_behind_next(b, &out), 8);
    attr_behind_free(b);
}

static void too_many_inodes_are_not_taken(void **state)
{
    struct attr_behind *b = attr_behind_new(2);
    struct attr_change change = mode(1);

    (void)state;
    assert_int_equal(attr_behind_set(b, 1, &change), ATTR_BEHIND_TAKEN);
    assert_int_equal(attr_behind_set(b, 2, &change), ATTR_BEHIND_TAKEN);
    assert_int_equal(attr_behind_set(b, 3, &change), ATTR_BEHIND_FULL);
    assert_int_equal(attr_behind_set(b, 2, &change), ATTR_BEHIND_MERGED);
    assert_false(attr_behind_has(b, 3));
    attr_behind_free(b);
}

static bool odd_is_lost(void *data, inode_id inode)
{
    (void)data;
    return inode % 2 == 1;
}

static void count_gone(void *data, inode_id inode)
{
    (void)inode;
    ++*(unsigned *)data;
}

static void what_is_lost_is_forgotten(void **state)
{
    struct attr_behind *b = attr_behind_new(100);
    struct attr_change out, change = mode(1);
    unsigned gone = 0;

    (void)state;
    (void)attr_behind_set(b, 1, &change);
    (void)attr_behind_next(b, &out); /* Under way: it has an end of its own. */
    (void)attr_behind_set(b, 1, &change);
    (void)attr_behind_set(b, 2, &change);
    (void)attr_behind_set(b, 3, &change);
    attr_behind_lose(b, odd_is_lost, &gone, count_gone);
    assert_int_equal(gone, 1);
    assert_int_equal(attr_behind_count(b), 2);
    assert_int_equal(attr_behind_waiting(b), 1);
    assert_true(attr_behind_ended(b, 1, MORSEL_OK));
    assert_int_equal(attr_behind_next(b, &out), 2);
    attr_behind_free(b);
}

static void nothing_is_merged_across_lease_epochs(void **state)
{
    struct attr_behind *b = attr_behind_new(10);
    struct attr_change out, first = owner(1), second = mode(2);

    (void)state;
    second.lease_epoch = 2;
    (void)attr_behind_set(b, 7, &first);
    (void)attr_behind_set(b, 7, &second);
    assert_int_equal(attr_behind_next(b, &out), 7);
    assert_int_equal(out.valid, SETATTR_MODE);
    attr_behind_free(b);
}

/* A manager that takes, refuses and is slow, at random: in the end it has what was set last. */
static void the_manager_has_what_was_set_last(void **state)
{
    enum { INODES = 8, TURNS = 50000, BOUND = 5 };
    struct attr_change set[INODES + 1], got[INODES + 1], way[INODES + 1], out;
    bool under_way[INODES + 1] = { false };
    struct attr_behind *b = attr_behind_new(BOUND);
    struct prng prng;

    (void)state;
    memset(set, 0, sizeof(set));
    memset(got, 0, sizeof(got));
    prng_seed(&prng, 7);
    for (uint32_t turn = 1; turn <= TURNS || attr_behind_count(b) > 0; turn++) {
        inode_id inode = 1 + prng_below(&prng, INODES);
        struct attr_change change = prng_below(&prng, 2) == 0 ? mode(turn) : owner(turn);

        assert_true(attr_behind_count(b) <= BOUND);
        if (turn <= TURNS && prng_below(&prng, 2) == 0) {
            if (attr_behind_set(b, inode, &change) != ATTR_BEHIND_FULL) {
                set[inode].mode = change.valid == SETATTR_MODE ? turn : set[inode].mode;
                set[inode].uid = change.valid == SETATTR_UID ? turn : set[inode].uid;
            }
        } else if (prng_below(&prng, 2) == 0) {
            if ((inode = attr_behind_next(b, &out)) != INODE_NONE) {
                assert_false(under_way[inode]);
                under_way[inode] = true;
                way[inode] = out;
            }
        } else if (under_way[inode]) {
            bool refused = prng_below(&prng, 4) == 0;

            if (!refused && (way[inode].valid & SETATTR_MODE) != 0) {
                got[inode].mode = way[inode].mode;
            }
            if (!refused && (way[inode].valid & SETATTR_UID) != 0) {
                got[inode].uid = way[inode].uid;
            }
            under_way[inode] = false;
            (void)attr_behind_ended(b, inode, refused ? MORSEL_IO : MORSEL_OK);
        }
        if (prng_below(&prng, 50) == 0) {
            attr_behind_retry(b);
        }
    }
    for (inode_id inode = 1; inode <= INODES; inode++) {
        assert_int_equal(got[inode].mode, set[inode].mode);
        assert_int_equal(got[inode].uid, set[inode].uid);
    }
    attr_behind_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_set_again_is_one_change),
        cmocka_unit_test(one_of_an_inode_is_under_way),
        cmocka_unit_test(what_was_refused_does_not_undo_what_came_after),
        cmocka_unit_test(a_sync_covers_what_was_set_before_it),
        cmocka_unit_test(what_was_refused_is_owed_with_what_came_after),
        cmocka_unit_test(put_back_keeps_its_place),
        cmocka_unit_test(too_many_inodes_are_not_taken),
        cmocka_unit_test(what_is_lost_is_forgotten),
        cmocka_unit_test(nothing_is_merged_across_lease_epochs),
        cmocka_unit_test(the_manager_has_what_was_set_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
