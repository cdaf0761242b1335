/* Members of a group that leave it: planned stops (group_quit()), lost places; and that are taken in again. */
#include "tests/lib/group_member.h"

/* A word of one that has joined the round of ours, and is about to end. */
static struct group_word last_word_of(struct fixture *f, uint32_t from)
{
    struct group_word w = word_of(f, from);

    w.epoch = f->group.record.epoch;
    w.set = f->group.record.set;
    w.promised = w.equal = w.joined = f->group.joined;
    w.agreed = w.leaves = true;
    return w;
}

static void who_orders_hands_over(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    grant(&f, 1);
    group_quit(&f.group);
    assert_true(group_deadline_ms(&f.group) <= f.now_ms);
    pass(&f, 0);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 2);
    group_word(&f.group, &w);
    assert_true(w.leaves);
    assert_true(group_orders(&f.group) && group_serves(&f.group, f.now_ms)); /* Until then. */
    assert_false(group_may_end(&f.group));
    feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 2, .set = 2 });
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_STALE);
    assert_non_null(done(&f, GROUP_SEND)); /* The other one need not wait for our disk. */
    group_word(&f.group, &w);
    assert_true(w.decided_epoch == 2 && w.decided == 2 && w.joined == 0);
    persisted(&f);
    assert_false(group_may_end(&f.group)); /* It may be asked for its bytes. */
    w = word_of(&f, 1);
    w.epoch = w.set = w.joined = 2;
    hear(&f, &w);
    assert_true(group_may_end(&f.group));
    assert_false(group_is_alone(&f.group));
}

/* By a word of who is outside, too. */
static void what_was_decided_is_told_by_who_leaves(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 2, 1);
    w = word_of(&f, 0);
    w.leaves = true;
    w.decided_epoch = w.decided = 2;
    hear(&f, &w);
    assert_int_equal(done(&f, GROUP_PERSIST)->record.set, 2);
    persisted(&f);
    w.number = ++f.numbers[0];
    w.state = GROUP_STALE;
    hear(&f, &w); /* It holds no lease any more. */
    assert_int_not_equal(f.group.promised, 0);
}

static void who_does_not_order_leaves_at_once(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    mirror_lease_grant(&f.leases[1], f.now_ms);
    w = last_word_of(&f, 1);
    hear(&f, &w);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 1);
    assert_true(group_orders(&f.group));
    feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 2, .set = 1 });
    persisted(&f);
    assert_int_not_equal(f.group.promised, 0); /* It reads no more, whatever lease it has. */
    w = last_word_of(&f, 1);
    w.state = GROUP_STALE;
    hear(&f, &w);
    group_word(&f.group, &w);
    assert_int_equal(w.offered, 0); /* It is not taken in again, */
    w = word_of(&f, 1);
    w.start = 2;
    w.state = GROUP_STALE;
    copied(&f);
    persisted(&f);
    hear(&f, &w);
    group_word(&f.group, &w);
    assert_int_equal(w.offered, 2); /* but when it has started again. */
}

static void who_leaves_reads_for_nobody_unless_it_orders(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    for (uint32_t me = 0; me < 2; me++) {
        start_new(&f, 2, me);
        if (me == 0) {
            agree(&f);
        } else {
            w = word_of(&f, 0);
            w.phase = GROUP_COMMITTING;
            w.leading = 5;
            w.starts[0] = w.starts[1] = 1;
            hear(&f, &w);
            copied(&f);
        }
        grant(&f, 1 - me);
        assert_true(group_serves(&f.group, f.now_ms));
        group_quit(&f.group);
        assert_int_equal(group_serves(&f.group, f.now_ms), me == 0);
    }
}

/* The other member that has its place taken from it would be alone. */
static void who_is_displaced_leaves_where_two_stay(void **state)
{
    struct fixture f;

    (void)state;
    for (uint32_t count = 2; count <= 3; count++) {
        start_new(&f, count, 0);
        agree(&f);
        grant(&f, 1);
        if (count == 3) {
            grant(&f, 2);
        }
        group_set_displaced(&f.group, 2);
        pass(&f, 0);
        if (count == 2) {
            assert_null(done(&f, GROUP_START_VOTE));
            group_set_leaving(&f.group, 2); /* That is another matter. */
            pass(&f, 0);
            assert_int_equal(done(&f, GROUP_START_VOTE)->set, 1);
        } else {
            assert_int_equal(done(&f, GROUP_START_VOTE)->set, 5);
        }
    }
}

/* It may lack what was acknowledged. */
static void nothing_is_handed_to_who_is_not_joined(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 2, 0);
    others_follow(&f);
    others_follow(&f);
    copied(&f);
    others_follow(&f);
    assert_true(group_orders(&f.group));
    group_quit(&f.group);
    pass(&f, 0);
    assert_null(done(&f, GROUP_START_VOTE));
    assert_false(group_may_end(&f.group)); /* It will be. */
    others_follow(&f);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 2);
}

static void who_is_alone_hands_over_to_nobody(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 1, 0);
    copied(&f);
    group_quit(&f.group);
    assert_true(group_may_end(&f.group) && group_is_alone(&f.group));
    /* All are about to end. */
    start_new(&f, 2, 0);
    agree(&f);
    w = last_word_of(&f, 1);
    group_quit(&f.group);
    hear(&f, &w);
    assert_null(done(&f, GROUP_START_VOTE));
    assert_true(group_may_end(&f.group) && group_is_alone(&f.group));
    /* Nobody else is heard. */
    start_new(&f, 2, 0);
    agree(&f);
    group_quit(&f.group);
    pass(&f, GROUP_SILENCE_MS);
    assert_true(group_may_end(&f.group));
}

/* It was being brought up to date when a set was decided that those who were in it have forgotten. */
static void who_is_stale_is_taken_in_again_in_the_same_epoch(void **state)
{
    struct fixture f;
    struct group_record record = { GROUP_STALE, 2, 1, false, BOOT, 1, 1 };
    struct group_word w;

    (void)state;
    start_on(&f, 2, 1, &record, true);
    persisted(&f);
    w = word_of(&f, 0);
    w.state = GROUP_STANDALONE;
    w.epoch = 2;
    w.set = 1;
    w.joined = w.promised = w.leading = 9;
    w.offered = 2;
    w.starts[1] = 1;
    hear(&f, &w);
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_RECOVERING);
    persisted(&f);
    assert_int_equal(done(&f, GROUP_RECOVER)->member, 0);
    /* Who knows of that set does not take what comes from the one before. */
    feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 3, .set = 1 });
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_STALE);
    persisted(&f);
    w.number++;
    hear(&f, &w);
    assert_null(done(&f, GROUP_PERSIST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_stale_is_taken_in_again_in_the_same_epoch),
        cmocka_unit_test(who_orders_hands_over),
        cmocka_unit_test(what_was_decided_is_told_by_who_leaves),
        cmocka_unit_test(who_does_not_order_leaves_at_once),
        cmocka_unit_test(who_leaves_reads_for_nobody_unless_it_orders),
        cmocka_unit_test(nothing_is_handed_to_who_is_not_joined),
        cmocka_unit_test(who_is_displaced_leaves_where_two_stay),
        cmocka_unit_test(who_is_alone_hands_over_to_nobody),
    };

    return cmocka_run_group_tests_name("group_stop", tests, NULL, NULL);
}
