/* A member of a group: what it says and does at each event, one member at a time. Whether all of
 * them together keep what they promise is sim/group's to say. */
#include "tests/lib/group_member.h"

/* ---- Starts ---- */

static void a_start_is_on_the_disk_before_a_word_is_said(void **state)
{
    struct fixture f;
    struct group_record record;

    (void)state;
    group_record_new(&record, 2, BOOT);
    start_on(&f, 2, 0, &record, true);
    assert_non_null(done(&f, GROUP_PERSIST));
    assert_null(done(&f, GROUP_SEND));
    pass(&f, 5000);
    assert_int_equal(f.out.count, 0);
    persisted(&f);
    assert_non_null(done(&f, GROUP_SEND));
}

/* Nothing can be lost of what nobody was changing, and in the same kernel nothing at all. */
static void what_a_start_may_have_lost(void **state)
{
    struct fixture f;
    struct group_record record;

    (void)state;
    group_record_new(&record, 2, BOOT);
    start_on(&f, 2, 0, &record, false);
    assert_true(done(&f, GROUP_PERSIST)->record.whole);
    record.boot = BOOT - 1;
    start_on(&f, 2, 0, &record, true);
    assert_true(done(&f, GROUP_PERSIST)->record.whole);
    assert_int_equal(done(&f, GROUP_PERSIST)->record.boot, BOOT);
    start_on(&f, 2, 0, &record, false);
    assert_false(done(&f, GROUP_PERSIST)->record.whole);
}

static void a_group_of_one_serves_at_once(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 1, 0);
    assert_non_null(done(&f, GROUP_FLUSH));
    copied(&f);
    assert_non_null(done(&f, GROUP_JOIN));
    assert_true(group_serves(&f.group, f.now_ms));
    assert_true(group_orders(&f.group));
}

/* ---- Rounds ---- */

static void nobody_serves_before_all_agree(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 3, 0);
    for (int i = 0; i < 20; i++) {
        pass(&f, 40);
        assert_int_equal(f.group.joined, 0);
    }
    start_new(&f, 3, 0);
    others_follow(&f);
    assert_int_equal(f.group.phase, GROUP_PREPARING);
    others_follow(&f);
    assert_int_equal(f.group.phase, GROUP_EQUALISING);
    others_follow(&f);
    assert_int_equal(f.group.phase, GROUP_EQUALISING); /* Its own flush is not done. */
    copied(&f);
    assert_int_equal(f.group.phase, GROUP_COMMITTING);
    assert_int_not_equal(f.group.joined, 0);
    assert_false(group_all_joined(&f.group));
    others_follow(&f);
    assert_true(group_all_joined(&f.group));
}

static void reading_takes_a_lease_of_each_other_member(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 3, 0);
    grant(&f, 1); /* Asked for before it was joined. */
    grant(&f, 2);
    f.now_ms++;
    agree(&f);
    assert_false(group_serves(&f.group, f.now_ms));
    grant(&f, 1);
    assert_false(group_serves(&f.group, f.now_ms));
    grant(&f, 2);
    assert_true(group_serves(&f.group, f.now_ms));
    assert_false(group_serves(&f.group, f.now_ms + MIRROR_LEASE_MS));
}

/* Its own word leads a member through a round; what it joins is on its disk before. */
static void a_member_follows_its_first(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 2, 1);
    f.group.record.whole = false;
    w = word_of(&f, 0);
    w.phase = GROUP_PREPARING;
    w.leading = 5;
    w.starts[0] = w.starts[1] = 1;
    hear(&f, &w);
    assert_int_equal(f.group.promised, 5);
    w.number = ++f.numbers[0];
    w.phase = GROUP_EQUALISING;
    hear(&f, &w);
    assert_int_equal(done(&f, GROUP_COPY)->member, 0);
    copied(&f);
    assert_int_equal(f.group.equal, 5);
    w.number = ++f.numbers[0];
    w.phase = GROUP_COMMITTING;
    hear(&f, &w);
    assert_true(done(&f, GROUP_PERSIST)->record.whole);
    assert_null(done(&f, GROUP_JOIN));
    assert_false(group_takes(&f.group, 1, 5));
    persisted(&f);
    assert_non_null(done(&f, GROUP_JOIN));
    assert_true(group_takes(&f.group, 1, 5));
    assert_false(group_takes(&f.group, 1, 4));
    assert_false(group_takes(&f.group, 2, 5));
    assert_true(group_covers(&f.group, 0));

    /* A newer round ends that; words of the older one, and to an earlier start, mean nothing. */
    w.number = ++f.numbers[0];
    w.leading = 6;
    w.phase = GROUP_PREPARING;
    hear(&f, &w);
    assert_non_null(done(&f, GROUP_LEAVE));
    assert_false(group_covers(&f.group, 0));
    w.number = ++f.numbers[0];
    w.leading = 5;
    w.phase = GROUP_COMMITTING;
    hear(&f, &w);
    assert_int_equal(f.group.promised, 6);
    w.number = ++f.numbers[0];
    w.leading = 7;
    w.starts[1] = 0;
    hear(&f, &w);
    assert_int_equal(f.group.promised, 6);
    w.starts[1] = 1;
    hear(&f, &w); /* The same number again. */
    assert_int_equal(f.group.promised, 6);
}

static void who_starts_again_begins_a_round(void **state)
{
    struct fixture f;
    struct group_word w;
    uint64_t round;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    round = f.group.joined;
    w = word_of(&f, 1);
    w.start = 2;
    hear(&f, &w);
    assert_int_equal(f.group.phase, GROUP_PREPARING);
    assert_true(f.group.leading > round);
    assert_non_null(done(&f, GROUP_LEAVE));
    w.number++;
    w.promised = f.group.leading;
    w.complete = false;
    hear(&f, &w);
    assert_int_equal(f.group.source, 0);
}

/* Who lost nothing gives; what was acknowledged is nowhere else. */
static void the_source_is_who_lost_nothing(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 2, 0);
    f.group.record.whole = false;
    w = word_of(&f, 1);
    hear(&f, &w);
    w.number = ++f.numbers[1];
    w.promised = f.group.leading;
    hear(&f, &w);
    assert_int_equal(f.group.source, 1);
    assert_int_equal(done(&f, GROUP_COPY)->member, 1);
}

/* Of two that lost nothing the one gives that knows what came of each operation, whichever of them leads. */
static void the_source_is_who_is_sure(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    for (int unsure = 0; unsure < 4; unsure++) {
        start_new(&f, 2, 0);
        group_set_unsure(&f.group, (unsure & 1) != 0);
        w = word_of(&f, 1);
        w.unsure = (unsure & 2) != 0;
        hear(&f, &w);
        w.number = ++f.numbers[1];
        w.promised = f.group.leading;
        hear(&f, &w);
        assert_int_equal(f.group.phase, GROUP_EQUALISING);
        assert_int_equal(f.group.source, unsure == 1);
        assert_int_equal(f.group.verifier, 1);
        group_word(&f.group, &w);
        assert_int_equal(w.unsure, (unsure & 1) != 0);
    }
}

/* A set that was voted for and lost power before it began: who has left with that vote gives. */
static void a_set_that_has_not_begun_does_not_guess(void **state)
{
    struct fixture f;
    struct group_record record = { GROUP_STANDALONE, 2, 1, false, BOOT, 1, 1 };
    struct group_word w;

    (void)state;
    start_on(&f, 2, 0, &record, false);
    persisted(&f);
    f.leases[1].granted_until_ms = 0;
    pass(&f, 5000);
    assert_int_equal(f.group.phase, GROUP_PREPARING);
    w = word_of(&f, 1);
    w.state = GROUP_STALE;
    hear(&f, &w);
    assert_int_equal(f.group.phase, GROUP_EQUALISING);
    assert_int_equal(done(&f, GROUP_COPY)->member, 1);
    assert_int_equal(f.group.verifier, 1);

    /* Nor is there anything to wait for when he has lost it as well. */
    start_on(&f, 2, 0, &record, false);
    persisted(&f);
    pass(&f, 5000);
    w = word_of(&f, 1);
    w.state = GROUP_STALE;
    w.complete = false;
    hear(&f, &w);
    assert_non_null(done(&f, GROUP_FLUSH));
    assert_int_equal(f.group.verifier, 2); /* What was answered may be gone. */

    /* Nor for who holds a place that nobody holds, as one that was made for the time of a change. */
    for (group_set vacant = 0; vacant <= 4; vacant += 4) {
        start_on(&f, 3, 0, &record, false);
        group_set_vacant(&f.group, vacant);
        persisted(&f);
        pass(&f, 5000);
        w = word_of(&f, 1);
        w.state = GROUP_STALE;
        w.complete = false;
        hear(&f, &w);
        assert_int_equal(done(&f, GROUP_FLUSH) != NULL, vacant == 4);
    }

    /* One that has begun goes on with what it has. */
    record.begun = 2;
    start_on(&f, 2, 0, &record, false);
    persisted(&f);
    assert_non_null(done(&f, GROUP_FLUSH));
    feed(&f, (struct group_event){ .type = GROUP_COPIED, .round = f.group.leading });
    assert_int_equal(done(&f, GROUP_PERSIST)->record.verifier, 2); /* Before it is joined. */
    assert_null(done(&f, GROUP_JOIN));
    persisted(&f);
    assert_int_equal(done(&f, GROUP_JOIN)->verifier, 2);
}

/* Nor does one behind several votes of which none has begun: who left with the first of them has everything. */
static void nothing_is_acknowledged_in_sets_that_have_not_begun(void **state)
{
    struct fixture f;
    struct group_record record = { GROUP_STANDALONE, 4, 1, false, BOOT, 2, 1 };
    struct group_word w;

    (void)state;
    for (uint64_t left = 1; left < 4; left++) {
        start_on(&f, 2, 0, &record, false);
        persisted(&f);
        pass(&f, 5000);
        w = word_of(&f, 1);
        w.state = GROUP_STALE;
        w.epoch = left;
        hear(&f, &w);
        assert_int_equal(f.group.phase, GROUP_EQUALISING);
        assert_int_equal(f.group.source, left >= record.begun);
        assert_int_equal(f.group.verifier, left >= record.begun ? 1 : 2);
    }

    /* Who was brought up to date may have come in with any of them. */
    record.begun = 0;
    start_on(&f, 2, 0, &record, false);
    persisted(&f);
    pass(&f, 5000);
    w = word_of(&f, 1);
    w.state = GROUP_STALE;
    w.epoch = 2;
    hear(&f, &w);
    assert_int_equal(f.group.phase, GROUP_PREPARING);
}

/* ---- Votes ---- */

static void who_is_silent_is_voted_out(void **state)
{
    struct fixture f;
    const struct group_action *action;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    pass(&f, GROUP_SILENCE_MS - 1);
    assert_null(done(&f, GROUP_START_VOTE));
    pass(&f, 1);
    action = done(&f, GROUP_START_VOTE);
    assert_int_equal(action->set, 1);
    assert_int_equal(action->epoch, 2);
    assert_false(group_covers(&f.group, 1));
    assert_true(group_orders(&f.group)); /* As long as nothing is decided. */
    pass(&f, GROUP_VOTE_MS - 1);
    assert_null(done(&f, GROUP_START_VOTE));
    pass(&f, 1);
    assert_non_null(done(&f, GROUP_START_VOTE));
    others_follow(&f);
    assert_non_null(done(&f, GROUP_STOP_VOTE));
    assert_true(group_covers(&f.group, 1));
}

static void the_second_one_stands_later(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 3, 1);
    f.now_ms += 500;
    w = word_of(&f, 0);
    hear(&f, &w);
    pass(&f, 500); /* Member 2 is silent; member 0 is not, and has the first turn. */
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 0);
    pass(&f, GROUP_TURN_MS);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 3);
}

/* Who may have lost something asks what the others decided, and does not stand. */
static void who_has_lost_something_does_not_stand(void **state)
{
    struct fixture f;
    struct group_record record;

    (void)state;
    group_record_new(&record, 2, BOOT - 1);
    start_on(&f, 2, 0, &record, false);
    persisted(&f);
    pass(&f, GROUP_SILENCE_MS);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 0);
    assert_int_equal(f.group.standing, 0);
}

/* The other one was voted in, and its disk is gone; so who has lost something has more than anybody. */
static void who_lost_less_than_all_others_of_its_set_stands(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct group_record record = { GROUP_CONSISTENT, 2, 3, false, BOOT, i == 1 ? 0 : 1, 1 };

        start_on(&f, 2, 0, &record, false);
        persisted(&f);
        w = word_of(&f, 1);
        w.state = i == 2 ? GROUP_RECOVERING : GROUP_STALE;
        w.epoch = i == 3 ? 2 : 0;
        w.complete = i == 4;
        w.starts[0] = i == 5 ? 0 : 1;
        hear(&f, &w);
        assert_int_equal(f.group.standing, 0);
        pass(&f, GROUP_SILENCE_MS);
        assert_int_equal(done(&f, GROUP_START_VOTE)->set, i == 0 ? 1 : 0);
    }
}

/* All who are there go on together; and while somebody of the set is away he may have more. */
static void those_who_are_left_over_stand_together(void **state)
{
    struct fixture f;
    struct group_record record = { GROUP_CONSISTENT, 2, 7, false, BOOT, 1, 1 };
    struct group_word bare, mate;

    (void)state;
    start_on(&f, 3, 0, &record, false);
    persisted(&f);
    bare = word_of(&f, 1);
    bare.state = GROUP_STALE;
    bare.epoch = 0;
    bare.complete = false;
    bare.starts[0] = 1;
    hear(&f, &bare);
    pass(&f, GROUP_SILENCE_MS);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 0);
    mate = word_of(&f, 2);
    mate.epoch = 2;
    mate.complete = false;
    hear(&f, &mate);
    assert_int_equal(f.group.standing, 5);
    assert_int_equal(done(&f, GROUP_START_VOTE)->epoch, 3);
    mate.number = ++f.numbers[2];
    mate.complete = true;
    hear(&f, &mate);
    assert_int_equal(f.group.standing, 0); /* It stands alone. */
}

static void a_new_set_waits_for_the_leases_it_gave(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    mirror_lease_grant(&f.leases[1], f.now_ms);
    feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 2, .set = 1 });
    assert_non_null(done(&f, GROUP_LEAVE));
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_STANDALONE);
    persisted(&f);
    assert_int_equal(f.group.promised, 0);
    pass(&f, MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS - 1);
    assert_int_equal(f.group.promised, 0);
    assert_true(group_deadline_ms(&f.group) <= f.now_ms + 1);
    pass(&f, 1);
    assert_int_not_equal(f.group.promised, 0);
    copied(&f);
    assert_int_equal(done(&f, GROUP_PERSIST)->record.begun, 2);
    persisted(&f);
    assert_true(group_serves(&f.group, f.now_ms));
}

/* ... unless he says that he is outside, or is dead. */
static void there_is_no_waiting_for_who_holds_nothing(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        start_new(&f, 2, 0);
        agree(&f);
        feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 2, .set = 1 });
        persisted(&f);
        assert_int_equal(f.group.promised, 0);
        if (dead) {
            feed(&f, (struct group_event){ .type = GROUP_DEAD, .member = 1 });
        } else {
            w = word_of(&f, 1);
            w.state = GROUP_STALE;
            hear(&f, &w);
        }
        assert_int_not_equal(f.group.promised, 0);
    }
}

static void who_is_left_out_is_stale(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 2, 1);
    w = word_of(&f, 0);
    w.state = GROUP_STANDALONE;
    w.epoch = 2;
    w.set = 1;
    hear(&f, &w);
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_STALE);
    assert_int_equal(done(&f, GROUP_PERSIST)->record.epoch, 1);
    persisted(&f);
    assert_false(group_covers(&f.group, 0));
}

/* One whose record is two votes old was started on an old copy of its directory. */
static void who_missed_a_vote_is_stale(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 3, 1);
    feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 3, .set = 3 });
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_STALE);
}

/* ---- Slow members ---- */

/* In sync, and `slow` by its own word. */
static void hear_slow(struct fixture *f, uint32_t from, group_set slow)
{
    struct group_word w = word_of(f, from);

    w.epoch = f->group.record.epoch;
    w.set = f->group.record.set;
    w.promised = w.equal = w.joined = f->group.joined;
    w.agreed = true;
    w.slow = slow;
    hear(f, &w);
}

static void set_slow(struct fixture *f, group_set slow)
{
    group_set_slow(&f->group, slow);
    pass(f, 1);
}

static void who_orders_goes_on_without_a_slow_one(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_new(&f, 3, 0);
    agree(&f);
    set_slow(&f, 2);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 5);
    assert_false(group_covers(&f.group, 1));
    assert_true(group_covers(&f.group, 2));
    group_word(&f.group, &w);
    assert_int_equal(w.slow, 2);
    set_slow(&f, 0);
    assert_non_null(done(&f, GROUP_STOP_VOTE));
    assert_true(group_covers(&f.group, 1));
}

static void others_go_on_without_a_slow_one_that_orders(void **state)
{
    struct fixture f;

    (void)state;
    for (uint32_t me = 1; me < 3; me++) {
        start_new(&f, 3, me);
        hear_slow(&f, 3 - me, 0);
        hear_slow(
            &f, 0,
            2 | 4); /* It speaks for itself alone: what it finds of others is its own affair. */
        assert_null(done(&f, GROUP_START_VOTE));
        hear_slow(&f, 0, 1);
        assert_int_equal(done(&f, GROUP_START_VOTE)->set,
                         me == 1 ? 6 : 0); /* Or its turn is later. */
        pass(&f, GROUP_TURN_MS);
        assert_int_equal(f.group.standing, 6);
    }
}

static void where_nobody_else_is_left_slowness_means_nothing(void **state)
{
    struct fixture f;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    set_slow(&f, 1);
    assert_int_equal(f.group.standing, 0); /* That is for the other one. */
    hear_slow(&f, 1, 2);
    assert_int_equal(f.group.standing, 0); /* All are. */
    hear_slow(&f, 1, 0);
    pass(&f, GROUP_SILENCE_MS - 1);
    assert_int_equal(f.group.standing, 0);
    pass(&f, 1);
    assert_int_equal(f.group.standing, 1); /* The other one is gone. */
}

/* It votes the slow member out, and is alone. */
static void leave_behind(struct fixture *f, uint64_t epoch)
{
    set_slow(f, 2);
    assert_int_equal(done(f, GROUP_START_VOTE)->set, 1);
    feed(f, (struct group_event){ .type = GROUP_DECIDED, .epoch = epoch, .set = 1 });
    persisted(f);
    group_set_slow(&f->group, 0);
    pass(f, MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS);
    copied(f);
    persisted(f);
    assert_true(group_orders(&f->group));
}

/* Does it offer the other one, which is stale, what it has? */
static bool offers(struct fixture *f, group_set slow)
{
    struct group_word w = word_of(f, 1);

    w.state = GROUP_STALE;
    w.slow = slow;
    hear(f, &w);
    group_word(&f->group, &w);
    return w.offered == 2;
}

static void who_left_as_slow_is_taken_back_behind_a_pause(void **state)
{
    struct fixture f;
    uint64_t pause_ms = GROUP_PAUSE_MS, epoch = 2;

    (void)state;
    start_new(&f, 2, 0);
    agree(&f);
    for (unsigned k = 0; k < 8; k++) {
        uint64_t left_ms = f.now_ms;

        leave_behind(&f, epoch);
        assert_int_equal(group_left_slow(&f.group), 2);
        assert_false(offers(&f, 0));
        pass(&f, left_ms + pause_ms - f.now_ms);
        assert_false(offers(&f, 0));
        pass(&f, 1);
        assert_false(offers(&f, 2)); /* It is slow still, as it says itself. */
        assert_true(offers(&f, 0));
        feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = epoch + 1, .set = 3 });
        persisted(&f);
        others_follow(&f);
        others_follow(&f);
        copied(&f);
        others_follow(&f);
        persisted(&f); /* That the epoch has begun. */
        others_follow(&f);
        assert_true(group_all_joined(&f.group));
        assert_int_equal(group_left_slow(&f.group), 0);
        epoch += 2;
        pause_ms = 2 * pause_ms < GROUP_PAUSES_MAX * (uint64_t)GROUP_PAUSE_MS
                       ? 2 * pause_ms
                       : GROUP_PAUSES_MAX * (uint64_t)GROUP_PAUSE_MS;
    }
    f.now_ms += 2 * GROUP_PAUSES_MAX * (uint64_t)GROUP_PAUSE_MS; /* It was well for so long. */
    hear_slow(&f, 1, 0);
    leave_behind(&f, epoch);
    assert_int_equal(f.group.peers[1].pause_ms, GROUP_PAUSE_MS);
}

/* ---- Recovery ---- */

static void growing_takes_a_vote(void **state)
{
    struct fixture f;
    struct group_record record = { GROUP_STANDALONE, 2, 1, true, BOOT, 2, 1 };
    struct group_word w;

    (void)state;
    start_on(&f, 2, 0, &record, true);
    persisted(&f);
    copied(&f);
    assert_true(group_orders(&f.group));
    w = word_of(&f, 1);
    w.state = GROUP_STALE;
    hear(&f, &w);
    group_word(&f.group, &w);
    assert_int_equal(w.offered, 2);
    assert_int_equal(w.starts[1], 1);
    w = word_of(&f, 1);
    w.state = GROUP_RECOVERING;
    w.epoch = 2;
    w.set = 1;
    hear(&f, &w);
    assert_null(done(&f, GROUP_START_VOTE));
    w.number = ++f.numbers[1];
    w.ready = true;
    hear(&f, &w);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 3);
    assert_true(group_orders(&f.group));
    assert_int_equal(f.group.record.set, 1);
}

static void who_recovers_is_not_whole_before_all_agree(void **state)
{
    struct fixture f;
    struct group_record record = { GROUP_STALE, 1, 3, true, BOOT, 1, 1 };
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
    assert_false(done(&f, GROUP_PERSIST)->record.whole);
    assert_null(done(&f, GROUP_RECOVER));
    persisted(&f);
    assert_int_equal(done(&f, GROUP_RECOVER)->member, 0);
    assert_false(f.group.ready);
    feed(&f, (struct group_event){ .type = GROUP_RECOVERED, .round = 9 });
    assert_true(f.group.ready);
    feed(&f, (struct group_event){ .type = GROUP_DECIDED, .epoch = 3, .set = 3 });
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_CONSISTENT);
    assert_false(done(&f, GROUP_PERSIST)->record.whole);
    persisted(&f);
    pass(&f, GROUP_SILENCE_MS);
    assert_int_equal(done(&f, GROUP_START_VOTE)->set, 0); /* It does not stand. */
}

/* ---- Nonsense ---- */

static void nonsense_is_passed_over(void **state)
{
    struct fixture f;
    struct group_word good, w;
    struct group before;

    (void)state;
    start_new(&f, 2, 0);
    good = word_of(&f, 1);
    for (int i = 0; i < 9; i++) {
        w = good;
        w.group = i == 0 ? ID + 1 : w.group;
        w.from = i == 1 ? 2 : i == 2 ? 0 : w.from;
        w.start = i == 3 ? 0 : w.start;
        w.number = i == 4 ? 0 : w.number;
        w.set = i == 5 ? 0 : i == 6 ? 4 : i == 7 ? 1 : w.set;
        w.source = i == 8 ? 2 : w.source;
        before = f.group;
        hear(&f, &w);
        assert_int_equal(f.out.count, 0);
        assert_memory_equal(&before, &f.group, sizeof(before));
    }
    hear(&f, &good);
    assert_int_equal(f.group.phase, GROUP_PREPARING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_on_the_disk_before_a_word_is_said),
        cmocka_unit_test(what_a_start_may_have_lost),
        cmocka_unit_test(a_group_of_one_serves_at_once),
        cmocka_unit_test(nobody_serves_before_all_agree),
        cmocka_unit_test(reading_takes_a_lease_of_each_other_member),
        cmocka_unit_test(a_member_follows_its_first),
        cmocka_unit_test(who_starts_again_begins_a_round),
        cmocka_unit_test(the_source_is_who_lost_nothing),
        cmocka_unit_test(the_source_is_who_is_sure),
        cmocka_unit_test(a_set_that_has_not_begun_does_not_guess),
        cmocka_unit_test(nothing_is_acknowledged_in_sets_that_have_not_begun),
        cmocka_unit_test(who_is_silent_is_voted_out),
        cmocka_unit_test(the_second_one_stands_later),
        cmocka_unit_test(who_has_lost_something_does_not_stand),
        cmocka_unit_test(who_lost_less_than_all_others_of_its_set_stands),
        cmocka_unit_test(those_who_are_left_over_stand_together),
        cmocka_unit_test(a_new_set_waits_for_the_leases_it_gave),
        cmocka_unit_test(there_is_no_waiting_for_who_holds_nothing),
        cmocka_unit_test(who_is_left_out_is_stale),
        cmocka_unit_test(who_missed_a_vote_is_stale),
        cmocka_unit_test(who_orders_goes_on_without_a_slow_one),
        cmocka_unit_test(others_go_on_without_a_slow_one_that_orders),
        cmocka_unit_test(where_nobody_else_is_left_slowness_means_nothing),
        cmocka_unit_test(who_left_as_slow_is_taken_back_behind_a_pause),
        cmocka_unit_test(growing_takes_a_vote),
        cmocka_unit_test(who_recovers_is_not_whole_before_all_agree),
        cmocka_unit_test(nonsense_is_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
