/* Locks in the leases scenario: src/meta/coherence/lock_table.c and src/common/fs/byte_locks.c,
 * with hosts that do what src/meta/coherence/locks_uv.c and src/client/coherence/lock_uv.c do.
 *
 * The judge (leases_judge.c): nobody holds locks that exclude those of another. A client holds what
 * it was granted until it frees it, or until its lease period is over (its writes are refused from then
 * on). */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/leases.h"

#include <string.h>

enum { LOCK_THINK_MS_MAX = 150 };

/* ---- A client ---- */

static void send_lock(struct sim *s, uint32_t node, struct lock_call *call)
{
    struct client *c = &world_of(s)->clients[node];
    struct lease_message m = { .word = WORD_LOCK, .client = c->id, .call = call->number };

    m.reg = REG_LOCKS;
    m.lock = call->lock;
    m.wait = call->wait;
    if (c->conn != 0) {
        sim_send(s, node, c->conn, &m, sizeof(m));
    }
}

/* All of it is of that type now, whatever was there. */
static void note(struct sim *s, uint32_t node, struct byte_lock lock)
{
    bool set;

    lock.part = LOCK_ALL;
    set = byte_locks_set(world_of(s)->clients[node].locks, &lock);
    CHECK(set);
    judge_lock(s, node, &lock);
}

static bool gives_up(const struct byte_lock *lock)
{
    return lock->type == LOCK_NONE || lock->part == LOCK_STEP_DOWN;
}

/* Granted. What other threads of the owner give up there may have come to the manager before that
 * or behind it. */
static void note_had(struct sim *s, uint32_t node, const struct byte_lock *lock)
{
    const struct client *c = &world_of(s)->clients[node];

    note(s, node, *lock);
    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        const struct lock_call *other = &c->lock_calls[slot];

        if (other->active && gives_up(&other->lock) &&
            lock_owner_equal(&other->lock.owner, &lock->owner)) {
            note(s, node, other->lock);
        }
    }
}

/* Whose calls are in that slot. */
static struct lock_owner owner_of(const struct client *c, uint32_t slot)
{
    uint32_t owner = slot < PROCESSES ? slot : PROCESSES + (slot - PROCESSES) / 2;

    return (struct lock_owner){ c->id, owner + 1 };
}

/* The flock is another one than what its owner has, which is given up first. */
static bool converts(const struct client *c, const struct byte_lock *lock)
{
    return lock->kind == LOCK_FLOCK && lock->type != LOCK_NONE &&
           byte_locks_has(c->locks, lock->inode, lock->kind, &lock->owner) &&
           byte_locks_exclusive(c->locks, lock) != (lock->type == LOCK_EXCLUSIVE);
}

static void begin(struct sim *s, uint32_t node, uint32_t slot, struct byte_lock lock, bool wait)
{
    struct client *c = &world_of(s)->clients[node];
    struct lock_call *call = &c->lock_calls[slot];
    enum lock_type converts_to = LOCK_NONE;

    lock.owner = owner_of(c, slot);
    if (converts(c, &lock)) {
        converts_to = lock.type;
        lock.type = LOCK_NONE;
    }
    if (lock.type == LOCK_SHARED && !sim_canary(s, "steps_down_unsaid")) {
        lock.part = byte_locks_exclusive(c->locks, &lock) && byte_locks_covers(c->locks, &lock)
                        ? LOCK_STEP_DOWN
                        : LOCK_TAKE;
    }
    *call = (struct lock_call){ .active = true, .number = ++c->calls, .lock = lock, .wait = wait };
    call->converts_to = converts_to;
    sim_trace(s, node, "owner %llu %s (%llu) %llu to %llu of file %llu, kind %d, type %d",
              (unsigned long long)lock.owner.id,
              converts_to != LOCK_NONE ? "converts"
              : lock.type == LOCK_NONE ? "frees"
              : wait                   ? "waits for"
                                       : "tries",
              (unsigned long long)call->number, (unsigned long long)lock.start,
              (unsigned long long)lock.end, (unsigned long long)lock.inode, (int)lock.kind,
              (int)lock.type);
    if (gives_up(&lock) && (converts_to == LOCK_NONE || !sim_canary(s, "converts_unsaid"))) {
        note(s, node, lock);
    }
    send_lock(s, node, call);
}

/* Two threads of one open file ask for its flock, so that calls of one owner overtake each other,
 * too. It is the only lock that they have: an open file has one, and nobody looks for circles with
 * a flock in them (flock(2) has no EDEADLK), so they would wait in one for ever. */
static void begin_flock(struct sim *s, uint32_t node, uint32_t slot)
{
    static const enum lock_type types[] = { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE };
    struct byte_lock lock = { .inode = LOCK_FILE_FIRST, .kind = LOCK_FLOCK, .end = INT64_MAX };

    lock.type = types[prng_below(&s->prng, 3)];
    begin(s, node, slot, lock, prng_below(&s->prng, 2) == 0);
}

static void begin_range(struct sim *s, uint32_t node, uint32_t owner)
{
    const struct client *c = &world_of(s)->clients[node];
    uint64_t dice = prng_below(&s->prng, 100);
    struct byte_lock lock = { .inode = LOCK_FILE_FIRST + prng_below(&s->prng, LOCK_FILES),
                              .kind = LOCK_RANGE };

    lock.start = prng_below(&s->prng, LOCK_BYTES);
    lock.end = lock.start + prng_below(&s->prng, LOCK_BYTES - lock.start);
    lock.type = dice < 45 ? LOCK_NONE : dice < 65 ? LOCK_SHARED : LOCK_EXCLUSIVE;
    if (dice < 25) { /* All of the file. */
        lock.start = 0;
        lock.end = INT64_MAX;
    }
    if (lock.type == LOCK_NONE || byte_locks_count(c->locks) + 2 <= LOCKS_NAMED_MAX) {
        begin(s, node, owner, lock, prng_below(&s->prng, 2) == 0);
    }
}

static void cancel(struct sim *s, uint32_t node, struct lock_call *call)
{
    struct client *c = &world_of(s)->clients[node];
    struct lease_message m = { .word = WORD_CANCEL, .client = c->id, .call = call->number };

    if (call->wait && !call->canceled && c->conn != 0) {
        call->canceled = true;
        sim_send(s, node, c->conn, &m, sizeof(m));
    }
}

/* At the end everything is freed. True: nothing is left. */
static bool free_all(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];
    bool done = true;

    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        const struct lock_owner who = owner_of(c, slot);
        struct byte_lock all = { .kind = slot < PROCESSES ? LOCK_RANGE : LOCK_FLOCK,
                                 .end = INT64_MAX };

        if (c->lock_calls[slot].active) {
            done = false;
            continue;
        }
        for (all.inode = LOCK_FILE_FIRST; all.inode < LOCK_FILE_FIRST + LOCK_FILES; all.inode++) {
            if (byte_locks_has(c->locks, all.inode, all.kind, &who)) {
                begin(s, node, slot, all, false);
                done = false;
                break;
            }
        }
    }
    return done;
}

static void run_think(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    uint32_t slot = (uint32_t)prng_below(&s->prng, LOCK_CALLS);
    struct lock_call *call = &w->clients[node].lock_calls[slot];

    (void)number;
    if (w->quiet) {
        if (!free_all(s, node)) {
            sim_after(s, node, LOCK_THINK_MS_MAX / 10, run_think, 0);
        }
        return;
    }
    if (!call->active && slot < PROCESSES) {
        begin_range(s, node, slot);
    } else if (!call->active) {
        begin_flock(s, node, slot);
    } else if (prng_below(&s->prng, 8) == 0) {
        cancel(s, node, call);
    }
    sim_after(s, node, prng_below(&s->prng, LOCK_THINK_MS_MAX), run_think, 0);
}

void locks_client_start(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    c->locks = byte_locks_new(2 * LOCKS_NAMED_MAX);
    CHECK(c->locks != NULL);
    judge_no_locks(s, node);
    run_think(s, node, 0);
}

static void name_one(void *data, const struct byte_lock *lock)
{
    struct lease_message *m = data;

    CHECK(m->named_count < LOCKS_NAMED_MAX);
    m->named[m->named_count++] =
        (struct named_lock){ (uint32_t)lock->inode, (uint8_t)lock->owner.id,
                             (uint8_t)lock->kind,   (uint8_t)lock->type,
                             lock->start,           lock->end };
}

void locks_fill_join(struct sim *s, uint32_t node, struct lease_message *m)
{
    byte_locks_each(world_of(s)->clients[node].locks, name_one, m);
}

/* Nobody knows whether those that were cancelled have been granted: what JOIN does not name is not.
 */
void locks_client_up(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        struct lock_call *call = &c->lock_calls[slot];

        if (call->active && call->canceled) {
            call->active = false;
            holder_feed(s, node, HOLDER_IN_DOUBT);
        } else if (call->active) {
            send_lock(s, node, call);
        }
    }
}

void locks_client_joined(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];

    if (m->locks_lost && !sim_canary(s, "keeps_lost_locks")) {
        byte_locks_drop_client(c->locks, c->id);
        judge_no_locks(s, node);
        holder_feed(s, node, HOLDER_IN_DOUBT);
    }
    judge_locks(s, node);
}

/* It has what it asked for. What it holds exclusively there is shared from now on: only now, when
 * nothing can be refused any more, and named so before the manager is told. */
static void take_lock(struct sim *s, uint32_t node, struct lock_call *call)
{
    bool steps_down = call->lock.part == LOCK_TAKE &&
                      byte_locks_exclusive(world_of(s)->clients[node].locks, &call->lock);

    note_had(s, node, &call->lock);
    sim_worth(s, WORTH_LOCKED);
    judge_locks(s, node);
    if (steps_down) {
        call->active = true;
        call->lock.part = LOCK_STEP_DOWN;
        send_lock(s, node, call);
        sim_worth(s, WORTH_STEPPED_DOWN);
    }
}

/* The old flock of a conversion is free; now for the other one. */
static void take_freed(struct sim *s, uint32_t node, struct lock_call *call)
{
    if (sim_canary(s, "converts_unsaid")) {
        note(s, node, call->lock);
    }
    if (!call->canceled) {
        call->active = true;
        call->lock.type = call->converts_to;
        call->lock.part = call->lock.type == LOCK_SHARED ? LOCK_TAKE : LOCK_ALL;
        call->converts_to = LOCK_NONE;
        send_lock(s, node, call);
        sim_worth(s, WORTH_CONVERTED);
    }
}

bool locks_client_answered(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];
    struct lock_call *call = NULL;
    bool overtaken;

    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        if (c->lock_calls[slot].active && c->lock_calls[slot].number == m->call) {
            call = &c->lock_calls[slot];
        }
    }
    if (call == NULL) {
        return m->reg == REG_LOCKS; /* Of a call that has ended. */
    }
    if (m->status == MORSEL_NO_SESSION) {
        holder_feed(s, node, HOLDER_IN_DOUBT);
        call->active = !call->canceled;
        if (call->active) {
            send_lock(s, node, call); /* Behind the JOIN. */
        }
        return true;
    }
    overtaken = m->verdict == LOCK_GRANTED && call->lock.type != LOCK_NONE &&
                c->holder.joins_asked > 0 && !sim_canary(s, "believes_overtaken");
    if ((overtaken || m->verdict == LOCK_ASK_AGAIN) && !call->canceled) {
        send_lock(s, node, call);
        return true;
    }
    call->active = false;
    sim_trace(s, node, "has the verdict %d on %llu of file %llu", (int)m->verdict,
              (unsigned long long)call->lock.start, (unsigned long long)call->lock.inode);
    if (m->verdict == LOCK_GRANTED && call->converts_to != LOCK_NONE) {
        take_freed(s, node, call);
    } else if (m->verdict == LOCK_GRANTED && !gives_up(&call->lock) && !overtaken) {
        take_lock(s, node, call);
    }
    return true;
}

/* ---- The manager ---- */

static void reply_verdict(struct sim *s, uint32_t conn, const struct lease_message *m,
                          enum lock_answer verdict)
{
    struct lease_message r = { .word = WORD_REPLY, .client = m->client, .call = m->call };

    r.reg = REG_LOCKS;
    r.verdict = verdict;
    sim_send(s, MANAGER, conn, &r, sizeof(r));
}

static enum lock_answer answer_of(enum lock_verdict verdict)
{
    return verdict == LOCK_DONE             ? LOCK_GRANTED
           : verdict == LOCK_WOULD_DEADLOCK ? LOCK_DEADLOCK
           : verdict == LOCK_FULL           ? LOCK_LIMIT
                                            : LOCK_HELD_BY_OTHERS;
}

static void answer_granted(struct sim *s)
{
    struct world *w = world_of(s);
    enum lock_verdict verdict;
    uint64_t ticket;

    while (lock_table_pop(w->lock_table, &ticket, &verdict)) {
        for (uint32_t i = 0; i < w->locking_count; i++) {
            struct parked p = w->locking[i];

            if (p.ticket == ticket) {
                w->locking[i] = w->locking[--w->locking_count];
                reply_verdict(s, p.conn, &p.message, answer_of(verdict));
                break;
            }
        }
    }
}

/* Waiting requests of a client end; of one call only, if `call` is not 0. */
static void end_waiting(struct sim *s, client_id client, uint64_t call, enum lock_answer verdict)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->locking_count;) {
        struct parked p = w->locking[i];

        if (p.message.client == client && (call == 0 || p.message.call == call) &&
            (p.ticket == 0 || lock_table_cancel(w->lock_table, p.ticket) || call == 0)) {
            w->locking[i] = w->locking[--w->locking_count];
            reply_verdict(s, p.conn, &p.message, verdict);
        } else {
            i++;
        }
    }
}

static void run_durable(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    (void)node;
    for (uint32_t i = 0; i < w->undurable_count; i++) {
        if (w->undurable[i].ticket == number) {
            struct parked p = w->undurable[i];

            w->undurable[i] = w->undurable[--w->undurable_count];
            if (s->conns[p.conn - 1].open[1]) {
                leases_dispatch(s, p.conn, &p.message);
            }
            return;
        }
    }
}

static bool may_hold_locks(struct sim *s, client_id client)
{
    struct world *w = world_of(s);

    leases_admit(s, client);
    return lease_grant(w->leases, manager_clock_ms(s), client, INODE_LOCKS, LEASE_R, true, false,
                       false) != LEASE_NONE ||
           sim_canary(s, "locks_before_durable");
}

void locks_serve(struct sim *s, uint32_t conn, const struct lease_message *m)
{
    struct world *w = world_of(s);
    enum lock_verdict verdict;
    uint64_t ticket = 0;

    if (m->lock.type != LOCK_NONE && !may_hold_locks(s, m->client) &&
        lease_is_fenced(w->leases, m->client)) {
        CHECK(w->locking_count < PARKED_MAX);
        w->locking[w->locking_count++] = (struct parked){ 0, conn, *m };
        return;
    }
    if (m->lock.type != LOCK_NONE && !may_hold_locks(s, m->client)) {
        CHECK(w->undurable_count < PARKED_MAX);
        w->undurable[w->undurable_count++] = (struct parked){ ++w->tickets, conn, *m };
        db_wait(&w->db, run_durable, w->tickets);
        return;
    }
    verdict = lock_table_set(w->lock_table, &m->lock, m->wait, &ticket);
    if (verdict == LOCK_WAITS) {
        CHECK(w->locking_count < PARKED_MAX);
        w->locking[w->locking_count++] = (struct parked){ ticket, conn, *m };
    } else {
        reply_verdict(s, conn, m, answer_of(verdict));
    }
    answer_granted(s);
}

void locks_cancel(struct sim *s, const struct lease_message *m)
{
    end_waiting(s, m->client, m->call, LOCK_CANCELED);
    answer_granted(s);
}

void locks_tick(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->locking_count;) {
        struct parked p = w->locking[i];

        if (p.ticket == 0 && !lease_is_fenced(w->leases, p.message.client)) {
            w->locking[i] = w->locking[--w->locking_count];
            leases_dispatch(s, p.conn, &p.message);
            i = 0;
        } else {
            i++;
        }
    }
}

bool locks_join(struct sim *s, const struct lease_message *m)
{
    struct world *w = world_of(s);
    struct byte_lock locks[LOCKS_NAMED_MAX];
    bool good =
        m->named_count == 0 || lease_held_by(w->leases, m->client, INODE_LOCKS) != LEASE_NONE;

    for (uint32_t i = 0; i < m->named_count; i++) {
        const struct named_lock *named = &m->named[i];

        locks[i] = (struct byte_lock){ .inode = named->inode,
                                       .kind = (enum lock_kind)named->kind,
                                       .owner = { m->client, named->owner },
                                       .type = (enum lock_type)named->type,
                                       .start = named->start,
                                       .end = named->end };
    }
    end_waiting(s, m->client, 0, LOCK_ASK_AGAIN);
    if (!good || lock_table_restate(w->lock_table, m->client, locks, m->named_count) > 0) {
        if (good && s->canary == NULL) {
            (void)sim_fail(s, "%s is a holder, and names locks that others have",
                           name_of(s, m->client));
        }
        good = false;
        if (sim_canary(s, "frees_before_told")) {
            lock_table_drop_client(w->lock_table, m->client);
        }
    }
    answer_granted(s);
    return good;
}

void locks_gone(struct sim *s, client_id client)
{
    end_waiting(s, client, 0, LOCK_ASK_AGAIN);
    if (sim_canary(s, "frees_when_gone")) {
        lock_table_drop_client(world_of(s)->lock_table, client);
    }
    answer_granted(s);
}

void locks_over(struct sim *s, client_id client)
{
    end_waiting(s, client, 0, LOCK_ASK_AGAIN);
    lock_table_drop_client(world_of(s)->lock_table, client);
    answer_granted(s);
}

bool locks_finish(struct sim *s)
{
    const struct world *w = world_of(s);
    struct lock_counters counters;

    for (uint32_t node = CLIENT_FIRST; node < CLIENT_FIRST + w->client_count; node++) {
        for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
            if (w->clients[node].lock_calls[slot].active) {
                return sim_fail(s, "%s waits for lock %llu in vain although all were freed",
                                s->nodes[node].name,
                                (unsigned long long)w->clients[node].lock_calls[slot].number);
            }
        }
    }
    lock_table_count(w->lock_table, &counters);
    return counters.held == 0 || sim_fail(s, "%llu locks are left although all were freed",
                                          (unsigned long long)counters.held);
}
