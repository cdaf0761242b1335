/* The copy that an administrator has named as the one that counts (group.h, "Forced"): what it does, and what others
 * do that hear of it. */
#include "iod/replica/replica.h"
#include "tests/lib/group_member.h"

static void start_forced(struct fixture *f, enum group_state was)
{
    struct group_record record = { .state = was, .epoch = 9, .set = 3, .boot = BOOT };

    record.verifier = 4;
    record.set = was == GROUP_STALE ? 2 : 3;
    group_record_force(&record, 0, 5);
    assert_true(group_is_forced(record.epoch));
    start_on(f, 2, 0, &record, false);
    persisted(f);
}

/* It serves alone when the lease is over that it may have given, under a verifier that nobody knows; before that the
 * voters hear of its epoch. */
static void who_is_named_goes_on_alone(void **state)
{
    static const enum group_state was[] = { GROUP_CONSISTENT, GROUP_STALE };
    const uint64_t epoch = group_forced_epoch(5);

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fixture f;

        start_forced(&f, was[i]);
        assert_int_equal(done(&f, GROUP_START_VOTE)->epoch, epoch + 1);
        assert_int_equal(done(&f, GROUP_START_VOTE)->set, 0);
        pass(&f, MIRROR_LEASE_MS);
        assert_int_equal(f.group.promised, 0);
        pass(&f, MIRROR_LEASE_SKEW_MS);
        assert_non_null(done(&f, GROUP_FLUSH));
        copied(&f);
        assert_int_equal(done(&f, GROUP_PERSIST)->record.verifier, epoch + 1);
        persisted(&f);
        assert_true(group_serves(&f.group, f.now_ms));
        assert_int_equal(f.group.record.set, 1);
        assert_null(done(&f, GROUP_START_VOTE));
        pass(&f, GROUP_VOTE_MS);
        assert_null(done(&f, GROUP_START_VOTE));
    }
}

/* What others hold is no source, whatever they say; and they learn that they are outside. */
static void who_was_not_named_is_stale(void **state)
{
    struct fixture f;
    struct group_word w;

    (void)state;
    start_forced(&f, GROUP_STALE);
    w = word_of(&f, 1);
    w.epoch = 77;
    w.set = 2;
    w.state = GROUP_STANDALONE;
    w.agreed = true;
    hear(&f, &w);
    assert_int_equal(f.group.record.state, GROUP_STANDALONE);
    pass(&f, MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS);
    assert_int_equal(f.group.source, 0);

    copied(&f);
    persisted(&f);
    assert_true(group_orders(&f.group));
    w.number = ++f.numbers[1];
    w.epoch = group_forced_epoch(6);
    w.set = 2;
    w.state = GROUP_STANDALONE;
    hear(&f, &w);
    assert_non_null(done(&f, GROUP_LEAVE));
    assert_int_equal(done(&f, GROUP_PERSIST)->record.state, GROUP_STALE);
}

static bool see_everything(void *data, const struct dirty_record *record)
{
    bool *seen = data;

    *seen = *seen || (record->kind == DIRTY_CHANGED && record->change.everything &&
                      (record->members & 2) != 0);
    return true;
}

/* Whatever the others have done without it is undone: they are to be given everything. */
static void who_is_named_logs_everything(void **state)
{
    struct mirror_lease lease;
    const struct mirror_lease *leases[2] = { &lease, &lease };
    const struct replica_setup setup = { .id = ID,
                                         .count = 2,
                                         .leases = leases,
                                         .clients_max = 4,
                                         .ops_max = 16,
                                         .objects_max = 4,
                                         .spans_max = 8 };
    struct replica *r = calloc(1, sizeof(*r));
    struct group_record record;

    (void)state;
    mirror_lease_init(&lease, 1, NOW);
    assert_non_null(r);
    for (int forced = 0; forced < 2; forced++) {
        bool seen = false;

        assert_true(replica_init(r, &setup));
        group_record_new(&record, 2, BOOT);
        if (forced != 0) {
            group_record_force(&record, 0, 5);
        }
        replica_start(r, &record, BOOT, 1, NOW);
        assert_true(replica_dirty(r, see_everything, &seen));
        assert_int_equal(seen, forced != 0);
        replica_free(r);
    }
    free(r);
}

/* Before it has served it may end, and lose its power: it still is the one that was named. */
static void who_is_named_may_start_again(void **state)
{
    struct group_record record;
    struct fixture f;

    (void)state;
    start_forced(&f, GROUP_CONSISTENT);
    record = f.group.record;
    record.boot = BOOT - 1;
    start_on(&f, 2, 0, &record, false);
    persisted(&f);
    pass(&f, MIRROR_LEASE_MS + MIRROR_LEASE_SKEW_MS);
    copied(&f);
    persisted(&f);
    assert_true(group_orders(&f.group));
    assert_false(group_is_forced(0));
    assert_false(group_is_forced(9));
    assert_false(group_is_forced(group_forced_epoch(1) + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_named_goes_on_alone),
        cmocka_unit_test(who_was_not_named_is_stale),
        cmocka_unit_test(who_is_named_logs_everything),
        cmocka_unit_test(who_is_named_may_start_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
