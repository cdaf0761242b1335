/* The client's half of the lease protocol: whoever goes through the leases that are on their way back,
 * and what is believed when they are. */
#include "client/coherence/lease_holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { RETURNS = 3, FIRST = 11 };

struct seen
{
    struct lease_holder holder;
    struct lease_return backs[RETURNS];
    inode_id inodes[2 * RETURNS];
    unsigned count;
};

static void feed(struct seen *seen, struct lease_holder_event event)
{
    struct lease_holder_actions out = { .count = 0 };

    lease_holder_step(&seen->holder, &event, &out);
    lease_holder_check(&seen->holder);
}

static void on_their_way(struct seen *seen)
{
    lease_holder_init(&seen->holder);
    for (unsigned i = 0; i < RETURNS; i++) {
        feed(seen, (struct lease_holder_event){
                       .type = HOLDER_EVICTED, .inode = FIRST + i, .room = &seen->backs[i] });
        feed(seen, (struct lease_holder_event){
                       .type = HOLDER_FLUSHED, .back = &seen->backs[i], .may_land = true });
    }
}

static void see_and_abandon(void *data, struct lease_return *back)
{
    struct seen *seen = data;

    seen->inodes[seen->count++] = back->inode;
    if (back->inode != FIRST + 1) {
        lease_holder_abandon(&seen->holder, back);
    }
}

static void each_is_seen_and_may_be_abandoned(void **state)
{
    struct seen seen = { .count = 0 };

    (void)state;
    on_their_way(&seen);
    lease_holder_each_return(&seen.holder, see_and_abandon, &seen);
    assert_int_equal(seen.count, RETURNS);
    for (unsigned i = 0; i < RETURNS; i++) {
        assert_int_equal(seen.inodes[i], FIRST + i);
    }
    lease_holder_each_return(&seen.holder, see_and_abandon, &seen);
    assert_int_equal(seen.count, RETURNS + 1);
    assert_int_equal(seen.inodes[RETURNS], FIRST + 1);
}

static void see_and_end(void *data, struct lease_return *back)
{
    struct seen *seen = data;

    seen->inodes[seen->count++] = back->inode;
    feed(seen, (struct lease_holder_event){ .type = HOLDER_LOOKED, .back = back });
    feed(seen, (struct lease_holder_event){ .type = HOLDER_KERNEL_DROPPED, .back = back });
    back->inode = INODE_NONE; /* It is the host's again. */
}

static void each_is_seen_and_may_be_returned(void **state)
{
    struct seen seen = { .count = 0 };

    (void)state;
    on_their_way(&seen);
    lease_holder_each_return(&seen.holder, see_and_end, &seen);
    assert_int_equal(seen.count, RETURNS);
    lease_holder_each_return(&seen.holder, see_and_end, &seen);
    assert_int_equal(seen.count, RETURNS);
}

static void the_bound_stands_where_it_is_asked_for(void **state)
{
    struct lease_holder h;
    struct lease_holder_bound bound;
    struct lease_holder_actions out = { .count = 0 };
    struct lease_holder_event joined = {
        .type = HOLDER_SESSION_ANSWERED, .join = true, .sent_ns = 5, .lease_epoch = 7
    };

    (void)state;
    lease_holder_init(&h);
    bound = lease_holder_bound(&h);
    assert_int_equal(*bound.until_ns, 0);
    lease_holder_step(&h, &(struct lease_holder_event){ .type = HOLDER_ASKED, .join = true }, &out);
    assert_true(lease_holder_is_joining(&h));
    lease_holder_step(&h, &joined, &out);
    assert_false(lease_holder_is_joining(&h));
    assert_int_equal(*bound.lease_epoch, 7);
    assert_int_equal(lease_holder_epoch(&h), 7);
    assert_int_equal(*bound.until_ns, 5 + lease_holder_lease_period_ms(&h) * 1000000ULL);
    assert_int_equal(lease_holder_until_ns(&h), *bound.until_ns);
    assert_int_equal(lease_holder_lease_ms(&h), LEASE_MS);
}

/* One that was given before the manager had heard what is kept comes behind the word of it. */
static void an_older_answer_takes_nothing(void **state)
{
    struct seen seen = { .count = 0 };

    (void)state;
    lease_holder_init(&seen.holder);
    feed(&seen, (struct lease_holder_event){ .type = HOLDER_ASKED, .join = true });
    feed(&seen,
         (struct lease_holder_event){
             .type = HOLDER_SESSION_ANSWERED, .join = true, .sent_ns = 5, .lease_epoch = 7 });
    feed(&seen, (struct lease_holder_event){ .type = HOLDER_RECALL,
                                             .inode = FIRST,
                                             .recall = 1,
                                             .granted = LEASE_W,
                                             .keeps = LEASE_R,
                                             .room = &seen.backs[0] });
    feed(&seen, (struct lease_holder_event){ .type = HOLDER_FLUSHED, .back = &seen.backs[0] });
    feed(&seen,
         (struct lease_holder_event){ .type = HOLDER_KERNEL_DROPPED, .back = &seen.backs[0] });
    assert_null(lease_holder_returning(&seen.holder, FIRST));
    assert_int_equal(lease_holder_learned(&seen.holder, FIRST, LEASE_R, LEASE_NONE), LEASE_R);
    assert_int_equal(lease_holder_learned(&seen.holder, FIRST, LEASE_R, LEASE_W), LEASE_W);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_seen_and_may_be_abandoned),
        cmocka_unit_test(each_is_seen_and_may_be_returned),
        cmocka_unit_test(the_bound_stands_where_it_is_asked_for),
        cmocka_unit_test(an_older_answer_takes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
