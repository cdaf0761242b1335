/* Locks: what fcntl(2) and flock(2) promise, directed, and by chance against a model that keeps an
 * entry for every byte. */
#include "meta/coherence/lock_table.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { FILE_1 = 11, FILE_2 = 12 };

static int setup(void **state)
{
    *state = lock_table_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    lock_table_free(*state);
    return 0;
}

static struct byte_lock make_lock(inode_id inode, uint64_t owner, enum lock_type type,
                                  uint64_t start, uint64_t end)
{
    return (struct byte_lock){ .inode = inode,
                               .kind = LOCK_RANGE,
                               .owner = { 1 + owner / 10, owner },
                               .type = type,
                               .start = start,
                               .end = end };
}

static enum lock_verdict set(struct lock_table *t, inode_id inode, uint64_t owner,
                             enum lock_type type, uint64_t start, uint64_t end)
{
    struct byte_lock lock = make_lock(inode, owner, type, start, end);
    uint64_t ticket;

    return lock_table_set(t, &lock, false, &ticket);
}

static enum lock_verdict set_waiting(struct lock_table *t, inode_id inode, uint64_t owner,
                                     enum lock_type type, uint64_t start, uint64_t end,
                                     uint64_t *ticket)
{
    struct byte_lock lock = make_lock(inode, owner, type, start, end);

    return lock_table_set(t, &lock, true, ticket);
}

static enum lock_verdict flock_of(struct lock_table *t, uint64_t owner, enum lock_type type,
                                  bool wait, uint64_t *ticket)
{
    struct byte_lock lock = make_lock(FILE_1, owner, type, 0, INT64_MAX);

    lock.kind = LOCK_FLOCK;
    return lock_table_set(t, &lock, wait, ticket);
}

static void assert_granted(struct lock_table *t, uint64_t ticket)
{
    enum lock_verdict verdict;
    uint64_t popped;

    assert_true(lock_table_pop(t, &popped, &verdict));
    assert_int_equal(popped, ticket);
    assert_int_equal(verdict, LOCK_DONE);
}

static void assert_nobody_granted(struct lock_table *t)
{
    enum lock_verdict verdict;
    uint64_t popped;

    assert_false(lock_table_pop(t, &popped, &verdict));
}

static void assert_held(struct lock_table *t, uint64_t held)
{
    struct lock_counters counters;

    lock_table_count(t, &counters);
    assert_int_equal(counters.held, held);
}

static void shared_and_exclusive(void **state)
{
    struct lock_table *t = *state;
    struct byte_lock probe = make_lock(FILE_1, 9, LOCK_SHARED, 0, 100);

    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 0, 99), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_SHARED, 50, 149), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_EXCLUSIVE, 99, 99), LOCK_BLOCKED);
    assert_int_equal(set(t, FILE_1, 2, LOCK_EXCLUSIVE, 100, 149), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 100, 100), LOCK_BLOCKED);
    assert_int_equal(set(t, FILE_2, 1, LOCK_EXCLUSIVE, 0, INT64_MAX), LOCK_DONE);
    assert_int_equal(lock_table_conflict(t, &probe)->owner.id, 2);
    assert_int_equal(lock_table_conflict(t, &probe)->start, 100);
    probe.end = 99;
    assert_null(lock_table_conflict(t, &probe));
}

/* A lock that goes makes room for a later request, but an earlier one wants the same bytes, and
 * waits for another lock still. */
static void who_comes_later_stays_behind_who_waits(void **state)
{
    struct lock_table *t = *state;
    uint64_t writer, reader;

    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 0, 9), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_SHARED, 10, 19), LOCK_DONE);
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_EXCLUSIVE, 0, 19, &writer), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 4, LOCK_SHARED, 0, 5, &reader), LOCK_WAITS);
    assert_int_equal(set(t, FILE_1, 1, LOCK_NONE, 0, 9), LOCK_DONE);
    assert_nobody_granted(t);
    lock_table_check(t);
    assert_int_equal(set(t, FILE_1, 2, LOCK_NONE, 10, 19), LOCK_DONE);
    assert_granted(t, writer);
    assert_nobody_granted(t);
    assert_int_equal(set(t, FILE_1, 3, LOCK_NONE, 0, 19), LOCK_DONE);
    assert_granted(t, reader);
}

static void ranges_merge_and_fall_apart(void **state)
{
    struct lock_table *t = *state;

    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 0, 9), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 20, 29), LOCK_DONE);
    assert_held(t, 2);
    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 10, 19), LOCK_DONE);
    assert_held(t, 1);
    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 10, 19), LOCK_DONE);
    assert_held(t, 3);
    assert_int_equal(set(t, FILE_1, 1, LOCK_NONE, 5, 24), LOCK_DONE);
    assert_held(t, 2);
    assert_int_equal(set(t, FILE_1, 2, LOCK_EXCLUSIVE, 5, 24), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 1, LOCK_NONE, 0, INT64_MAX), LOCK_DONE);
    assert_held(t, 1);
}

static enum lock_verdict share(struct lock_table *t, uint64_t owner, enum lock_part part, bool wait,
                               uint64_t start, uint64_t end, uint64_t *ticket)
{
    struct byte_lock lock = make_lock(FILE_1, owner, LOCK_SHARED, start, end);

    lock.part = part;
    return lock_table_set(t, &lock, wait, ticket);
}

/* A step down over a larger range: first what is not held yet, and nobody is let in; then the rest.
 */
static void exclusive_locks_step_down_apart(void **state)
{
    struct lock_table *t = *state;
    uint64_t reader, owner;

    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 10, 19), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 30, 39), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_EXCLUSIVE, 25, 25), LOCK_DONE);
    assert_int_equal(share(t, 1, LOCK_TAKE, false, 15, 50, &owner), LOCK_BLOCKED);
    assert_int_equal(share(t, 1, LOCK_TAKE, true, 15, 50, &owner), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_SHARED, 12, 35, &reader), LOCK_WAITS);
    assert_int_equal(set(t, FILE_1, 2, LOCK_NONE, 25, 25), LOCK_DONE);
    assert_granted(t, owner);
    assert_nobody_granted(t);
    assert_held(t, 4); /* To 19 and from 30 to 39 alone, between and behind shared. */
    assert_int_equal(set(t, FILE_1, 2, LOCK_SHARED, 20, 29), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_SHARED, 30, 30), LOCK_BLOCKED);
    assert_int_equal(share(t, 1, LOCK_STEP_DOWN, false, 15, 50, &owner), LOCK_DONE);
    assert_held(t, 3); /* To 14 alone, from there on shared; and the other one's. */
    assert_nobody_granted(t);
    assert_int_equal(share(t, 1, LOCK_STEP_DOWN, false, 0, 14, &owner), LOCK_DONE);
    assert_granted(t, reader);
    assert_held(t, 3);
    /* It takes nothing, whoever has the rest. */
    assert_int_equal(set(t, FILE_1, 4, LOCK_EXCLUSIVE, 60, 69), LOCK_DONE);
    assert_int_equal(share(t, 1, LOCK_STEP_DOWN, false, 0, INT64_MAX, &owner), LOCK_DONE);
    assert_held(t, 4);
}

static void who_waits_is_served_in_order(void **state)
{
    struct lock_table *t = *state;
    uint64_t writer, reader;

    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 0, 9), LOCK_DONE);
    assert_int_equal(set_waiting(t, FILE_1, 2, LOCK_EXCLUSIVE, 0, 9, &writer), LOCK_WAITS);
    /* Nothing is in its way but the one who came before. */
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_SHARED, 0, 9, &reader), LOCK_WAITS);
    assert_nobody_granted(t);
    assert_int_equal(set(t, FILE_1, 1, LOCK_NONE, 0, 9), LOCK_DONE);
    assert_granted(t, writer);
    assert_nobody_granted(t);
    assert_int_equal(set(t, FILE_1, 2, LOCK_SHARED, 0, 9), LOCK_DONE); /* Downgraded */
    assert_granted(t, reader);
}

static void who_holds_something_does_not_queue(void **state)
{
    struct lock_table *t = *state;
    uint64_t writer, again;

    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 0, 9), LOCK_DONE);
    assert_int_equal(set_waiting(t, FILE_1, 2, LOCK_EXCLUSIVE, 0, 9, &writer), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 1, LOCK_SHARED, 5, 9, &again), LOCK_DONE);
}

static void cancelled_ones_let_others_pass(void **state)
{
    struct lock_table *t = *state;
    uint64_t writer, reader;

    assert_int_equal(set(t, FILE_1, 1, LOCK_SHARED, 0, 9), LOCK_DONE);
    assert_int_equal(set_waiting(t, FILE_1, 2, LOCK_EXCLUSIVE, 0, 9, &writer), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_SHARED, 0, 9, &reader), LOCK_WAITS);
    assert_true(lock_table_cancel(t, writer));
    assert_granted(t, reader);
    assert_false(lock_table_cancel(t, reader));
    assert_false(lock_table_cancel(t, writer));
}

static void a_circle_is_refused(void **state)
{
    struct lock_table *t = *state;
    uint64_t ticket, other;

    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 0, 0), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_EXCLUSIVE, 1, 1), LOCK_DONE);
    assert_int_equal(set(t, FILE_2, 3, LOCK_EXCLUSIVE, 0, 0), LOCK_DONE);
    assert_int_equal(set_waiting(t, FILE_1, 1, LOCK_SHARED, 1, 1, &ticket), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_2, 2, LOCK_SHARED, 0, 0, &other), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_SHARED, 0, 0, &other), LOCK_WOULD_DEADLOCK);
    /* Two readers that both want to write. */
    assert_int_equal(set(t, FILE_1, 21, LOCK_SHARED, 50, 59), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 22, LOCK_SHARED, 50, 59), LOCK_DONE);
    assert_int_equal(set_waiting(t, FILE_1, 21, LOCK_EXCLUSIVE, 50, 59, &other), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 22, LOCK_EXCLUSIVE, 50, 59, &other),
                     LOCK_WOULD_DEADLOCK);
    /* Gone, and the circle is open. */
    assert_true(lock_table_cancel(t, ticket));
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_SHARED, 0, 0, &other), LOCK_WAITS);
}

static void flocks_are_a_world_of_their_own(void **state)
{
    struct lock_table *t = *state;
    uint64_t first, second;

    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 0, INT64_MAX), LOCK_DONE);
    assert_int_equal(flock_of(t, 21, LOCK_SHARED, false, &first), LOCK_DONE);
    assert_int_equal(flock_of(t, 22, LOCK_SHARED, false, &first), LOCK_DONE);
    assert_int_equal(flock_of(t, 23, LOCK_EXCLUSIVE, false, &first), LOCK_BLOCKED);
    /* A conversion lets go first, so two of them cannot wait for each other. */
    assert_int_equal(flock_of(t, 21, LOCK_NONE, false, &first), LOCK_DONE);
    assert_int_equal(flock_of(t, 21, LOCK_EXCLUSIVE, true, &first), LOCK_WAITS);
    assert_int_equal(flock_of(t, 22, LOCK_NONE, false, &second), LOCK_DONE);
    assert_granted(t, first);
    assert_int_equal(flock_of(t, 22, LOCK_EXCLUSIVE, true, &second), LOCK_WAITS);
    assert_nobody_granted(t);
    assert_int_equal(flock_of(t, 21, LOCK_NONE, false, &first), LOCK_DONE);
    assert_granted(t, second);
}

/* Two threads of one open file: no grant gives anything up, which the mount has not said. */
static void a_flock_is_given_up_by_word_only(void **state)
{
    struct lock_table *t = *state;
    struct byte_lock lock = make_lock(FILE_1, 21, LOCK_SHARED, 0, INT64_MAX);
    uint64_t other, ticket;

    lock.kind = LOCK_FLOCK;
    lock.part = LOCK_TAKE;
    assert_int_equal(flock_of(t, 21, LOCK_EXCLUSIVE, false, &ticket), LOCK_DONE);
    assert_int_equal(flock_of(t, 22, LOCK_SHARED, true, &other), LOCK_WAITS);
    assert_int_equal(lock_table_set(t, &lock, false, &ticket), LOCK_DONE);
    assert_nobody_granted(t);
    lock.part = LOCK_STEP_DOWN;
    assert_int_equal(lock_table_set(t, &lock, false, &ticket), LOCK_DONE);
    assert_granted(t, other);
    assert_int_equal(flock_of(t, 21, LOCK_EXCLUSIVE, false, &ticket), LOCK_BLOCKED);
    assert_int_equal(flock_of(t, 23, LOCK_EXCLUSIVE, false, &ticket), LOCK_BLOCKED);
    assert_held(t, 2);
}

static void a_client_that_goes_takes_everything_along(void **state)
{
    struct lock_table *t = *state;
    struct byte_lock said[2];
    uint64_t own, other;

    assert_int_equal(set(t, FILE_1, 1, LOCK_EXCLUSIVE, 0, 9), LOCK_DONE); /* Client 1 */
    assert_int_equal(set(t, FILE_1, 2, LOCK_EXCLUSIVE, 20, 29), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 12, LOCK_EXCLUSIVE, 40, 49), LOCK_DONE); /* Client 2 */
    assert_int_equal(set_waiting(t, FILE_1, 3, LOCK_EXCLUSIVE, 40, 45, &own), LOCK_WAITS);
    assert_int_equal(set_waiting(t, FILE_1, 13, LOCK_EXCLUSIVE, 0, 29, &other), LOCK_WAITS);
    lock_table_drop_client(t, 1);
    assert_granted(t, other);
    assert_nobody_granted(t);
    assert_held(t, 2);
    /* It comes back, and says that it had two; one has been given away. */
    said[0] = make_lock(FILE_1, 1, LOCK_EXCLUSIVE, 0, 9);
    said[1] = make_lock(FILE_1, 1, LOCK_EXCLUSIVE, 100, 109);
    assert_int_equal(lock_table_restate(t, 1, said, 2), 1);
    assert_held(t, 3);
    assert_int_equal(lock_table_restate(t, 1, said + 1, 1), 0); /* The same again. */
    assert_held(t, 3);
}

static void there_is_a_limit(void **state)
{
    struct lock_table *t = *state;
    enum lock_verdict verdict = LOCK_DONE;
    uint64_t i;

    /* Many files: a single one would be searched byte range by byte range. */
    for (i = 0; verdict == LOCK_DONE; i++) {
        verdict = set(t, FILE_1 + i, 1, LOCK_EXCLUSIVE, 0, 9);
    }
    assert_int_equal(verdict, LOCK_FULL);
    assert_int_equal(i, LOCKS_MAX + 1);
    assert_int_equal(set(t, FILE_1, 1, LOCK_NONE, 4, 5), LOCK_FULL); /* Two of one */
    assert_int_equal(set(t, FILE_1, 1, LOCK_NONE, 0, 9), LOCK_DONE);
    assert_int_equal(set(t, FILE_1, 2, LOCK_SHARED, 0, 9), LOCK_DONE);
}

/* ---- By chance ---- */

enum { OWNERS = 6, BYTES = 12, INODES = 2, PENDING_MAX = 64, SEEDS = 60, STEPS = 3000 };

struct model
{
    struct lock_table *t;
    struct prng prng;
    enum lock_type held[INODES][BYTES][OWNERS];
    struct
    {
        uint64_t ticket;
        struct byte_lock lock;
    } pending[PENDING_MAX]; /* By coming. */
    unsigned pending_count;
    unsigned waited, deadlocks;
};

static uint64_t owner_id(unsigned owner)
{
    return 10 * (owner % 3) + owner;
}

static unsigned owner_of(const struct byte_lock *lock)
{
    for (unsigned i = 0; i < OWNERS; i++) {
        if (owner_id(i) == lock->owner.id) {
            return i;
        }
    }
    fail();
    return 0;
}

static bool is_free(const struct model *m, const struct byte_lock *lock, unsigned by)
{
    for (uint64_t at = lock->start; at <= lock->end; at++) {
        enum lock_type held = m->held[lock->inode - FILE_1][at][by];

        if (by != owner_of(lock) && held != LOCK_NONE && lock->part != LOCK_STEP_DOWN &&
            (held == LOCK_EXCLUSIVE || lock->type == LOCK_EXCLUSIVE)) {
            return false;
        }
    }
    return true;
}

static bool all_free(const struct model *m, const struct byte_lock *lock)
{
    for (unsigned i = 0; i < OWNERS; i++) {
        if (!is_free(m, lock, i)) {
            return false;
        }
    }
    return true;
}

/* Does `from` wait for `to`, over any number of steps? `*seen` are the owners that were asked. */
static bool waits_for(const struct model *m, unsigned from, unsigned to, unsigned *seen)
{
    if ((*seen & 1U << from) != 0) {
        return false;
    }
    *seen |= 1U << from;
    for (unsigned i = 0; i < m->pending_count; i++) {
        if (owner_of(&m->pending[i].lock) != from) {
            continue;
        }
        for (unsigned by = 0; by < OWNERS; by++) {
            if (!is_free(m, &m->pending[i].lock, by) && (by == to || waits_for(m, by, to, seen))) {
                return true;
            }
        }
    }
    return false;
}

/* Would the owner, waiting for this, wait for itself? (Circles can also come of locks that others
 * are granted; nobody looks for those, here or in the kernel.) */
static bool is_circle(const struct model *m, const struct byte_lock *lock)
{
    for (unsigned by = 0; by < OWNERS; by++) {
        unsigned seen = 0;

        if (!is_free(m, lock, by) && waits_for(m, by, owner_of(lock), &seen)) {
            return true;
        }
    }
    return false;
}

static void apply(struct model *m, const struct byte_lock *lock)
{
    for (uint64_t at = lock->start; at <= lock->end; at++) {
        enum lock_type *held = &m->held[lock->inode - FILE_1][at][owner_of(lock)];

        if (lock->part == LOCK_ALL || (lock->part == LOCK_TAKE && *held == LOCK_NONE) ||
            (lock->part == LOCK_STEP_DOWN && *held == LOCK_EXCLUSIVE)) {
            *held = lock->type;
        }
    }
}

static void drop_pending(struct model *m, unsigned i)
{
    m->pending_count--;
    memmove(&m->pending[i], &m->pending[i + 1], (m->pending_count - i) * sizeof(m->pending[0]));
}

static void take_granted(struct model *m)
{
    enum lock_verdict verdict;
    uint64_t ticket;

    while (lock_table_pop(m->t, &ticket, &verdict)) {
        unsigned i = 0;

        assert_int_equal(verdict, LOCK_DONE);
        while (i < m->pending_count && m->pending[i].ticket != ticket) {
            i++;
        }
        assert_true(i < m->pending_count);
        assert_true(all_free(m, &m->pending[i].lock));
        apply(m, &m->pending[i].lock);
        drop_pending(m, i);
    }
    lock_table_check(m->t);
}

/* Nobody waits who need not: the first of the queue waits for a lock. */
static void check_liveness(const struct model *m)
{
    bool seen[INODES] = { false };

    for (unsigned i = 0; i < m->pending_count; i++) {
        const struct byte_lock *lock = &m->pending[i].lock;

        if (!seen[lock->inode - FILE_1]) {
            assert_false(all_free(m, lock));
        }
        seen[lock->inode - FILE_1] = true;
    }
}

static struct byte_lock draw(struct model *m)
{
    uint64_t start = prng_below(&m->prng, BYTES), other = prng_below(&m->prng, BYTES);
    unsigned owner = (unsigned)prng_below(&m->prng, OWNERS);
    struct byte_lock lock = make_lock(FILE_1 + prng_below(&m->prng, INODES), owner_id(owner),
                                      (enum lock_type)prng_below(&m->prng, LOCK_TYPES),
                                      start < other ? start : other, start < other ? other : start);

    lock.owner.client = 1 + owner % 3;
    if (lock.type == LOCK_SHARED) {
        lock.part = (enum lock_part)prng_below(&m->prng, LOCK_PARTS);
    }
    return lock;
}

static void request(struct model *m)
{
    struct byte_lock lock = draw(m);
    bool wait =
        lock.type != LOCK_NONE && prng_below(&m->prng, 2) == 0 && m->pending_count < PENDING_MAX;
    bool free_now = lock.type == LOCK_NONE || all_free(m, &lock);
    uint64_t ticket;
    enum lock_verdict verdict = lock_table_set(m->t, &lock, wait, &ticket);

    if (verdict == LOCK_DONE) {
        assert_true(free_now);
        apply(m, &lock);
    } else if (verdict == LOCK_BLOCKED) {
        assert_true(!wait && !free_now);
    } else if (verdict == LOCK_WAITS) {
        assert_false(is_circle(m, &lock));
        m->pending[m->pending_count].ticket = ticket;
        m->pending[m->pending_count++].lock = lock;
        m->waited++;
    } else {
        assert_int_equal(verdict, LOCK_WOULD_DEADLOCK);
        assert_true(is_circle(m, &lock));
        m->deadlocks++;
    }
    take_granted(m);
}

static void cancel_one(struct model *m)
{
    unsigned i = (unsigned)prng_below(&m->prng, m->pending_count);
    uint64_t ticket = m->pending[i].ticket;

    drop_pending(m, i);
    assert_true(lock_table_cancel(m->t, ticket));
    take_granted(m);
}

static void lose_client(struct model *m)
{
    client_id client = 1 + prng_below(&m->prng, 3);

    for (unsigned i = m->pending_count; i-- > 0;) {
        if (m->pending[i].lock.owner.client == client) {
            drop_pending(m, i);
        }
    }
    for (unsigned inode = 0; inode < INODES; inode++) {
        for (unsigned at = 0; at < BYTES; at++) {
            for (unsigned owner = 0; owner < OWNERS; owner++) {
                if (1 + owner % 3 == client) {
                    m->held[inode][at][owner] = LOCK_NONE;
                }
            }
        }
    }
    lock_table_drop_client(m->t, client);
    take_granted(m);
}

static void locks_agree_with_a_model(void **state)
{
    const uint64_t first = test_seed_first();
    unsigned waited = 0, deadlocks = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        struct model m = { .t = lock_table_new() };

        assert_non_null(m.t);
        prng_seed(&m.prng, seed);
        for (int i = 0; i < STEPS; i++) {
            uint64_t dice = prng_below(&m.prng, 100);

            if (dice < 2) {
                lose_client(&m);
            } else if (dice < 10 && m.pending_count > 0) {
                cancel_one(&m);
            } else {
                request(&m);
            }
            check_liveness(&m);
        }
        waited += m.waited;
        deadlocks += m.deadlocks;
        lock_table_free(m.t);
    }
    assert_true(waited > 5000 && deadlocks > 500); /* The test tests something. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shared_and_exclusive),
        TEST(who_comes_later_stays_behind_who_waits),
        TEST(ranges_merge_and_fall_apart),
        TEST(exclusive_locks_step_down_apart),
        TEST(who_waits_is_served_in_order),
        TEST(who_holds_something_does_not_queue),
        TEST(cancelled_ones_let_others_pass),
        TEST(a_circle_is_refused),
        TEST(flocks_are_a_world_of_their_own),
        TEST(a_flock_is_given_up_by_word_only),
        TEST(a_client_that_goes_takes_everything_along),
        TEST(there_is_a_limit),
        cmocka_unit_test(locks_agree_with_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
