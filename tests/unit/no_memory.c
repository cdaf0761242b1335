/* An allocator that fails: each core runs again and again, the n-th allocation fails (alone, or
 * with all that follow), for n = 1, 2 ... until a run needs no more than n. No run may crash or
 * leak (AddressSanitizer watches), what is refused says so and changes nothing, and what was
 * promised before holds. */
#include "client/coherence/dir_names.h"
#include "client/coherence/lock_holder.h"
#include "client/data/overlay.h"
#include "client/data/unsynced.h"
#include "client/manager/attr_behind.h"
#include "common/base/buf.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/serve/repeats.h"
#include "common/vote/voter.h"
#include "iod/replica/changed.h"
#include "meta/cluster/donors.h"
#include "meta/coherence/lease.h"
#include "meta/coherence/lock_table.h"
#include "meta/coherence/session.h"
#include "meta/service/reply_cache.h"
#include "tests/lib/nth_allocation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Locks: a model that has an entry for every byte ---- */

enum { LOCK_OWNERS = 6, LOCK_CELLS = 12, LOCK_STEPS = 120 };

struct held
{
    uint8_t cells[LOCK_OWNERS][LOCK_CELLS];
};

static void hold(struct held *held, const struct byte_lock *lock)
{
    for (uint64_t at = lock->start; at <= lock->end && at < LOCK_CELLS; at++) {
        uint8_t *cell = &held->cells[lock->owner.id][at];

        if (lock->part == LOCK_ALL || (lock->part == LOCK_TAKE && *cell == LOCK_NONE) ||
            (lock->part == LOCK_STEP_DOWN && *cell == LOCK_EXCLUSIVE)) {
            *cell = (uint8_t)lock->type;
        }
    }
}

static void hold_one(void *data, const struct byte_lock *lock)
{
    hold(data, lock);
}

static struct byte_lock draw_lock(struct prng *prng)
{
    struct byte_lock lock = { .inode = 7, .kind = LOCK_RANGE };

    lock.owner = (struct lock_owner){ 1, prng_below(prng, LOCK_OWNERS) };
    lock.start = prng_below(prng, LOCK_CELLS);
    lock.end = lock.start + prng_below(prng, LOCK_CELLS - lock.start);
    lock.type = (enum lock_type)prng_below(prng, LOCK_TYPES);
    if (lock.type == LOCK_SHARED) {
        lock.part = (enum lock_part)prng_below(prng, LOCK_PARTS);
    }
    return lock;
}

static void run_locks(void)
{
    struct lock_table *t = lock_table_new();
    struct held model = { 0 };
    struct prng prng;
    uint64_t ticket;

    prng_seed(&prng, 5);
    for (int step = 0; t != NULL && step < LOCK_STEPS; step++) {
        struct byte_lock lock = draw_lock(&prng);
        enum lock_verdict verdict = lock_table_set(t, &lock, false, &ticket);
        struct held now = { 0 };

        assert_true(verdict == LOCK_DONE || verdict == LOCK_BLOCKED ||
                    (verdict == LOCK_FULL && nth_failures() > 0));
        if (verdict == LOCK_DONE) {
            hold(&model, &lock);
        }
        lock_table_each_of(t, 7, LOCK_RANGE, hold_one, &now);
        assert_memory_equal(&now, &model, sizeof(now));
    }
    lock_table_free(t);
}

/* What cannot be noted is not had, and not named. */
static void run_lock_holder(void)
{
    struct lock_holder h;
    struct lock_request request;
    bool ready = lock_holder_init(&h, 1, 64) == 0;

    for (uint64_t file = 1; ready && file <= 2 * LOCK_STEPS; file++) {
        struct byte_lock lock = { .inode = (1 + file) / 2, .owner = { 0, 9 }, .end = INT64_MAX };
        struct lock_holder_event events[] = {
            { .type = LOCKER_START, .lock = lock, .handle = (const void *)&h },
            { .type = LOCKER_SENT },
            { .type = LOCKER_ANSWERED, .answer = LOCK_GRANTED }
        };
        struct lock_holder_actions out;

        events[0].lock.type = file % 2 == 0 ? LOCK_NONE : LOCK_EXCLUSIVE;
        for (size_t i = 0; i < ARRAY_COUNT(events); i++) {
            events[i].request = &request;
            out.count = 0;
            lock_holder_step(&h, &events[i], &out);
            lock_holder_check(&h);
        }
        assert_int_equal(request.state, LOCKING_ENDED);
        assert_true(out.count == 1 || (nth_failures() > 0 && out.items[1].answer == LOCK_LIMIT));
        assert_int_equal(lock_holder_has(&h, lock.inode, LOCK_RANGE, 9),
                         file % 2 != 0 && out.count == 1);
    }
    lock_holder_free(&h);
}

static void locks_do_without(void **state)
{
    (void)state;
    nth_fails(run_lock_holder, 20);
    nth_fails(run_locks, 20);
}

/* Who waits is granted it in the end, or told that it cannot be. */
static void run_waiting(void)
{
    struct lock_table *t = lock_table_new();
    uint64_t tickets[LOCK_OWNERS], popped;
    uint32_t waiting = 0;
    enum lock_verdict verdict;
    struct byte_lock lock = { .inode = 7, .kind = LOCK_RANGE, .type = LOCK_EXCLUSIVE, .end = 9 };

    for (uint32_t owner = 0; t != NULL && owner < LOCK_OWNERS; owner++) {
        lock.owner = (struct lock_owner){ 1 + owner, owner };
        verdict = lock_table_set(t, &lock, true, &tickets[waiting]);
        waiting += verdict == LOCK_WAITS;
        assert_true(verdict == LOCK_WAITS || verdict == LOCK_DONE || nth_failures() > 0);
    }
    for (uint32_t owner = 0; t != NULL && owner < LOCK_OWNERS; owner++) {
        lock_table_drop_client(t, 1 + owner);
        while (lock_table_pop(t, &popped, &verdict)) {
            assert_true(verdict == LOCK_DONE || (verdict == LOCK_FULL && nth_failures() > 0));
            waiting--;
        }
    }
    assert_true(t == NULL || waiting <= LOCK_OWNERS);
    lock_table_free(t);
}

static enum lock_verdict want(struct lock_table *t, uint64_t owner, uint64_t byte)
{
    struct byte_lock lock = { .inode = 7, .kind = LOCK_RANGE, .type = LOCK_EXCLUSIVE };
    uint64_t ticket;

    lock.owner = (struct lock_owner){ 1, owner };
    lock.start = lock.end = byte;
    return lock_table_set(t, &lock, true, &ticket);
}

/* Three who would wait for each other: whoever closes the circle must not wait. */
static void run_circle(void)
{
    struct lock_table *t = lock_table_new();
    enum lock_verdict verdict;
    unsigned waiting = 0;

    if (t == NULL) {
        return;
    }
    for (uint64_t owner = 0; owner < 3; owner++) {
        if (want(t, owner, owner) != LOCK_DONE) {
            lock_table_free(t);
            return;
        }
    }
    for (uint64_t owner = 0; owner < 3; owner++) {
        verdict = want(t, owner, (owner + 1) % 3);
        waiting += verdict == LOCK_WAITS;
        assert_true(verdict == LOCK_WAITS || verdict == LOCK_FULL ||
                    verdict == LOCK_WOULD_DEADLOCK);
    }
    assert_true(waiting < 3);
    lock_table_free(t);
}

static void a_circle_is_seen_without_memory(void **state)
{
    (void)state;
    nth_fails(run_circle, 10);
}

static void waiting_for_locks_does_without(void **state)
{
    (void)state;
    nth_fails(run_waiting, 5);
}

/* ---- Leases: nobody has what another one's excludes ---- */

enum { CLIENTS = 3, INODES = 5, LEASE_STEPS = 100 };

static void check_leases(const struct lease_table *t)
{
    lease_check(t);
    for (inode_id inode = 10; inode < 10 + INODES; inode++) {
        uint32_t writers = 0, holders = 0;

        for (client_id client = 1; client <= CLIENTS; client++) {
            enum lease_mode mode = lease_held_by(t, client, inode);

            writers += mode == LEASE_W;
            holders += mode != LEASE_NONE;
        }
        assert_true(writers == 0 || holders == 1);
    }
}

static void feed(struct lease_table *t, struct lease_event event)
{
    struct lease_actions out;

    lease_actions_init(&out);
    lease_step(t, &event, &out);
    assert_true(!out.failed || nth_failures() > 0);
    lease_actions_free(&out);
    check_leases(t);
}

static void lease_some(struct lease_table *t, struct prng *prng, uint64_t now_ms)
{
    client_id client = 1 + prng_below(prng, CLIENTS);
    inode_id inode = 10 + prng_below(prng, INODES);
    enum lease_mode wanted = prng_below(prng, 2) == 0 ? LEASE_R : LEASE_W;
    struct lease_touch touch = { inode, wanted == LEASE_W ? ACCESS_CHANGE : ACCESS_READ };
    struct lease_actions out;
    uint64_t ticket = 0;
    enum lease_verdict verdict;

    lease_actions_init(&out);
    verdict = lease_acquire(t, now_ms, client, &touch, 1, &ticket, &out);
    assert_true(verdict != LEASE_FULL || nth_failures() > 0);
    if (verdict == LEASE_GO) {
        (void)lease_grant(t, now_ms, client, inode, wanted, true, false, false);
    } else if (verdict == LEASE_WAIT) {
        lease_ticket_drop(t, ticket);
    }
    lease_actions_free(&out);
    check_leases(t);
    feed(t, (struct lease_event){
                .type = LEASE_RETURN, .now_ms = now_ms, .client = client, .inode = inode });
}

static void run_leases(void)
{
    const struct lease_options options = { .now_ms = 1000, .last_lease_epoch = 5000 };
    struct lease_table *t = lease_table_new(&options);
    struct prng prng;

    prng_seed(&prng, 6);
    for (client_id client = 1; t != NULL && client <= CLIENTS; client++) {
        feed(t, (struct lease_event){
                    .type = LEASE_JOIN, .now_ms = 1000, .client = client, .caches = true });
        feed(t, (struct lease_event){ .type = LEASE_PERSISTED,
                                      .now_ms = 1000,
                                      .client = client,
                                      .lease_epoch = lease_epoch_of(t, client) });
    }
    for (uint64_t step = 0; t != NULL && step < LEASE_STEPS; step++) {
        lease_some(t, &prng, 1000 + step);
    }
    if (t != NULL) {
        feed(t, (struct lease_event){ .type = LEASE_TICK, .now_ms = 100000 });
    }
    lease_table_free(t);
}

static void leases_do_without(void **state)
{
    (void)state;
    nth_fails(run_leases, 10);
}

/* ---- Donors: who is not welcomed is told, and is as new when it comes again ---- */

static void run_donors(void)
{
    struct donors_event event = { .now_ms = 1000, .type = DONORS_JOIN };
    const struct donor_record before = { .id = 7, .token = { 77 } };
    struct donors_actions out;
    struct donors d;
    uint32_t welcome = 0;

    donors_init(&d, 60000);
    assert_true(donors_add(&d, &before, 1000) == 0 || nth_failures() > 0);
    for (uint8_t directory = 1; directory <= 40; directory++) {
        struct donors_event persisted = { .now_ms = 1000, .type = DONORS_PERSISTED };

        out.count = 0;
        event.join.tag = directory;
        event.join.instance = 1;
        event.join.record.token[0] = directory;
        donors_step(&d, &event, &out);
        assert_int_equal(out.count, 1);
        if (out.items[0].type == DONORS_REFUSE) {
            assert_true(out.items[0].status == MORSEL_NOMEM && nth_failures() > 0);
            assert_true(donors_is_new(&d, event.join.record.token));
        } else {
            persisted.persisted.id = out.items[0].id;
            donors_step(&d, &persisted, &out);
            assert_int_equal(out.items[1].type, DONORS_WELCOME);
            welcome++;
        }
        donors_check(&d);
        assert_int_equal(d.here, welcome);
    }
    donors_free(&d);
}

/* ---- Sessions: who was admitted is served, who was refused is told ---- */

static void run_sessions(void)
{
    static const struct session_kept kept[] = { { SESSION_UNTOLD, 0 }, { 77, 100 } };
    const struct session_options options = {
        .session_ms = 30000, .now_ms = 1000, .kept = kept, .kept_count = 2
    };
    struct session_table *s = session_table_new(&options);
    inode_id released;

    for (client_id client = 1; s != NULL && client <= 20; client++) {
        const inode_id inodes[] = { 10 + client, 100 + client % 3 };
        struct session_event event = { .now_ms = 1000 + client,
                                       .type = SESSION_ASK,
                                       .client = client,
                                       .inodes = inodes,
                                       .inodes_count = 2 };
        struct session_actions out = { 0 };

        session_step(s, &event, &out);
        assert_true(out.count > 0);
        assert_true(out.items[0].type == SESSION_KEEP || nth_failures() > 0);
        assert_true(session_joined(s, client, 1100) == (out.items[0].type == SESSION_KEEP));
        if (client % 2 == 0) {
            event.type = SESSION_LEAVE;
            session_step(s, &event, &out);
            assert_false(session_known(s, client));
        }
        while (session_pop_released(s, &released)) {
            assert_true(session_holds(s, released) && session_expected(s) == 2);
        }
    }
    session_table_free(s);
}

/* What a client that comes back has open nobody may collect, also when it is refused. */
static void run_return(void)
{
    static const inode_id before[] = { 10, 11, 12 }, now[] = { 13, 14, 11, 10 };
    const struct session_options options = { .session_ms = 30000, .now_ms = 1000, .fresh = true };
    struct session_event event = {
        .now_ms = 1000, .type = SESSION_ASK, .client = 1, .inodes = before, .inodes_count = 3
    };
    struct session_actions out = { 0 };
    struct session_table *s = session_table_new(&options);
    inode_id released;
    bool had;

    if (s == NULL) {
        return;
    }
    session_step(s, &event, &out);
    had = session_joined(s, 1, 1000);
    event.type = SESSION_GONE;
    session_step(s, &event, &out);
    event.type = SESSION_ASK;
    event.inodes = now;
    event.inodes_count = 2;
    event.write_inodes = now + 2;
    event.write_inodes_count = 2;
    out.count = 0;
    session_step(s, &event, &out);
    assert_true(!had || (session_holds(s, 10) && session_holds(s, 11)));
    if (session_joined(s, 1, 1000)) {
        assert_true(session_has_open(s, 10, 1, true) && !session_has_open(s, 13, 1, true));
        assert_true(session_holds(s, 13) && session_holds(s, 14) && !session_holds(s, 12));
    }
    while (session_pop_released(s, &released)) {
        assert_true(released == 12 || !had);
    }
    session_table_free(s);
}

static void donors_do_without(void **state)
{
    (void)state;
    nth_fails(run_donors, 40);
}

static void sessions_do_without(void **state)
{
    (void)state;
    nth_fails(run_sessions, 10);
    nth_fails(run_return, 5);
}

/* ---- Operation ids: a reserved one is noted and found ---- */

static void run_window(void)
{
    struct reply_cache *w = reply_cache_new();
    struct op_outcome outcome;

    for (client_id client = 1; w != NULL && client <= 30; client++) {
        const struct op_outcome made = { 50 + client, false };

        if (!reply_cache_reserve(w, client)) {
            assert_true(nth_failures() > 0);
            assert_int_equal(reply_cache_find(w, client, 1, 0, &outcome), REPLY_CACHE_NEW);
            continue;
        }
        assert_true(reply_cache_note(w, client, 1, 0, &made));
        assert_int_equal(reply_cache_find(w, client, 1, 0, &outcome), REPLY_CACHE_KNOWN);
        assert_int_equal(outcome.target, 50 + client);
    }
    reply_cache_free(w);
}

static void operation_ids_do_without(void **state)
{
    (void)state;
    nth_fails(run_window, 3);
}

/* ---- The I/O daemon's: what could not begin is new ---- */

static void run_repeats(void)
{
    struct repeats *r = repeats_new(8, DATA_OPS_PENDING_MAX);
    const struct repeats_answer good = { 0, 9 };

    for (uint64_t i = 0; r != NULL && i < 60; i++) {
        const struct repeats_change change = { .client = 1 + i % 4, .number = 1 + i / 4 };
        struct repeats_answer answer;
        void *runner;

        if (repeats_find(r, &change, &runner, &answer) != REPEATS_NEW) {
            assert_true(nth_failures() > 0);
        } else if (!repeats_begin(r, &change, NULL)) {
            assert_true(nth_failures() > 0);
        } else {
            repeats_end(r, change.client, change.number, &good);
            assert_int_equal(repeats_find(r, &change, &runner, &answer), REPEATS_DONE);
            assert_int_equal(answer.verifier, 9);
        }
    }
    repeats_free(r);
}

static void repeats_do_without(void **state)
{
    (void)state;
    nth_fails(run_repeats, 3);
}

/* ---- A set of changes: without memory it says more, never less ---- */

static void run_changes(void)
{
    struct changed *c = changed_new(40, 100, BLOCK_BYTES);

    for (uint64_t i = 0; c != NULL && i < 80; i++) {
        struct change change = { .object = { 1 + i % 9, 0 }, .generation = 1 };

        change.span = (struct span){ i * 3 * BLOCK_BYTES, (i * 3 + 1) * BLOCK_BYTES };
        changed_add(c, &change);
        changed_check(c);
        for (uint64_t k = 0; k <= i; k++) {
            change.object.inode = 1 + k % 9;
            change.span = (struct span){ k * 3 * BLOCK_BYTES, (k * 3 + 1) * BLOCK_BYTES };
            assert_true(changed_covers(c, &change));
        }
    }
    changed_free(c);
}

static void changes_do_without(void **state)
{
    (void)state;
    nth_fails(run_changes, 3);
}

/* ---- The client's ---- */

static void run_behind(void)
{
    struct attr_behind *b = attr_behind_new(64);
    uint32_t count = 0;

    for (inode_id inode = 1; b != NULL && inode <= 40; inode++) {
        const struct attr_change change = { .valid = 1, .mode = 0600, .lease_epoch = 5 };
        enum attr_behind_verdict verdict = attr_behind_set(b, inode, &change);

        assert_true(verdict == ATTR_BEHIND_TAKEN || nth_failures() > 0);
        count += verdict == ATTR_BEHIND_TAKEN;
        assert_int_equal(attr_behind_has(b, inode), verdict == ATTR_BEHIND_TAKEN);
        assert_int_equal(attr_behind_count(b), count);
    }
    attr_behind_free(b);
}

/* ---- Votes: what was promised holds, and who has no record has promised nothing ---- */

static enum vote_answer_type ask_voter(struct voter *v, uint32_t group, uint64_t round)
{
    const struct vote_request request = { .type = VOTE_PREPARE,
                                          .voter = 5,
                                          .set_version = 1,
                                          .subject = { { group } },
                                          .epoch = 1,
                                          .ballot = { round, 1 } };
    struct voter_event event = { .type = VOTER_ASKED, .request = &request };
    struct voter_actions out = { 0 };

    voter_step(v, &event, &out);
    assert_int_equal(out.count, 1);
    if (out.items[0].type == VOTER_PERSIST) {
        event = (struct voter_event){ .type = VOTER_PERSISTED };
        event.persisted.number = out.items[0].number;
        out.count = 0;
        voter_step(v, &event, &out);
    }
    return out.items[0].answer.type;
}

static void run_votes(void)
{
    struct voter *v = voter_new(5, 1);
    struct vote_record record;
    uint32_t promised = 0, popped = 0;

    for (uint32_t group = 60; v != NULL && group > 0; group--) {
        bool is_promised = ask_voter(v, group, 2) == VOTE_PROMISED;

        assert_true(is_promised || nth_failures() > 0);
        promised += is_promised;
        if (is_promised) {
            assert_int_equal(ask_voter(v, group, 1), VOTE_OUTBID);
        }
    }
    assert_true(v == NULL || promised == voter_count(v));
    while (v != NULL && voter_pop(v, &record)) {
        popped++;
        assert_true(vote_record_valid(&record));
    }
    assert_int_equal(popped, promised);
    voter_free(v);
}

static void votes_do_without(void **state)
{
    (void)state;
    nth_fails(run_votes, 10);
}

static void run_unsynced(void)
{
    struct unsynced *u = unsynced_new(4, false);

    assert_true(u != NULL || nth_failures() > 0);
    unsynced_free(u);
}

static void run_overlay(void)
{
    static const uint8_t bytes[] = "abc";
    struct overlay o = { .count = 0 };

    assert_true(overlay_add(&o, 7, 10, bytes));
    assert_true(overlay_copy(&o) || nth_failures() > 0);
    assert_memory_equal(o.pieces[0].bytes, bytes, 3);
    overlay_free(&o);
}

static void run_buf(void)
{
    struct buf b;
    size_t count = 0;

    buf_init(&b);
    for (uint64_t i = 0; i < 2000; i++) {
        buf_put_u64(&b, i);
        count += b.failed ? 0 : 8;
    }
    assert_true(b.failed == (nth_failures() > 0));
    assert_true(b.failed || b.count == count);
    buf_free(&b);
}

/* A name that found no memory is not known, and its directory not complete. */
static void run_names(void)
{
    const char *texts[] = { "a", "b", "c" };
    struct name_table t;
    struct dir_names d;
    bool found;

    if (name_table_init(&t, 2) == 0) {
        dir_names_init(&t, &d, 2);
        d.complete = true;
        for (size_t i = 0; i < 3; i++) {
            inode_id inode = INODE_NONE;

            dir_names_learn(&t, &d, texts[i], 10 + i);
            found = dir_names_find(&t, &d, texts[i], &inode);
            assert_true(found ? inode == 10 + i : !d.complete);
            name_table_check(&t);
            assert_int_equal(dir_names_check(&t, &d), t.count);
        }
        dir_names_drop(&t, &d);
    }
    name_table_free(&t);
}

static void a_client_does_without(void **state)
{
    (void)state;
    nth_fails(run_behind, 10);
    nth_fails(run_unsynced, 1);
    nth_fails(run_overlay, 1);
    nth_fails(run_buf, 2);
    nth_fails(run_names, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_do_without),
        cmocka_unit_test(waiting_for_locks_does_without),
        cmocka_unit_test(a_circle_is_seen_without_memory),
        cmocka_unit_test(leases_do_without),
        cmocka_unit_test(donors_do_without),
        cmocka_unit_test(sessions_do_without),
        cmocka_unit_test(operation_ids_do_without),
        cmocka_unit_test(repeats_do_without),
        cmocka_unit_test(changes_do_without),
        cmocka_unit_test(votes_do_without),
        cmocka_unit_test(a_client_does_without),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
