/* Locks in the leases scenario: src/meta/coherence/lock_table.c and
 * src/client/coherence/lock_holder.c, with hosts that do what locks_uv.c and lock_uv.c do.
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

static void feed(struct sim *s, uint32_t node, struct lock_holder_event event);

static struct lock_call *call_of(struct lock_request *request)
{
    return CONTAINER_OF(request, struct lock_call, request);
}

static void send_lock(struct sim *s, uint32_t node, const struct lock_request *request)
{
    const struct client *c = &world_of(s)->clients[node];
    struct lease_message m = { .word = WORD_LOCK, .call = request->number, .reg = REG_LOCKS };

    m.lock = request->lock;
    if (sim_canary(s, "steps_down_unsaid")) {
        m.lock.part = LOCK_ALL;
    }
    m.wait = request->how == LOCK_WAIT;
    sim_trace(s, node, "owner %llu asks (%llu, %s) for %llu to %llu of file %llu, kind %d, type %d",
              (unsigned long long)m.lock.owner.id, (unsigned long long)request->number,
              lock_request_state_name(request->state), (unsigned long long)m.lock.start,
              (unsigned long long)m.lock.end, (unsigned long long)m.lock.inode, (int)m.lock.kind,
              (int)m.lock.type);
    if (c->conn != 0) {
        client_send(s, node, &m);
    }
}

static void send_cancel(struct sim *s, uint32_t node, const struct lock_request *request)
{
    struct lease_message m = { .word = WORD_CANCEL, .call = request->number, .reg = REG_LOCKS };

    client_send(s, node, &m);
}

static bool gives_up(const struct lock_request *request)
{
    return request->lock.type == LOCK_NONE || request->lock.part == LOCK_STEP_DOWN;
}

static void say_sent(struct sim *s, uint32_t node, struct lock_request *request)
{
    if (gives_up(request)) {
        judge_lock(s, node, &request->lock);
    }
    feed(s, node, (struct lock_holder_event){ .type = LOCKER_SENT, .request = request });
}

static void send_first(struct sim *s, uint32_t node, struct lock_request *request)
{
    if (s->faulty && s->canary == NULL && prng_below(&s->prng, 100) == 0) {
        feed(s, node,
             (struct lock_holder_event){
                 .type = LOCKER_UNSENT, .request = request, .status = MORSEL_NOMEM });
        return;
    }
    send_lock(s, node, request);
    if (request->state != LOCKING_CONVERT || !sim_canary(s, "converts_unsaid")) {
        say_sent(s, node, request);
    }
}

static void carry_out(struct sim *s, uint32_t node, const struct lock_holder_action *action)
{
    switch (action->type) {
    case LOCKER_SEND:
        send_first(s, node, action->request);
        break;
    case LOCKER_SEND_AGAIN:
        send_lock(s, node, action->request);
        break;
    case LOCKER_SEND_CANCEL:
        send_cancel(s, node, action->request);
        break;
    case LOCKER_GIVE_UP:
        feed(s, node,
             (struct lock_holder_event){
                 .type = LOCKER_FAILED, .request = action->request, .status = MORSEL_CANCELED });
        break;
    case LOCKER_REJOIN:
        holder_feed(s, node, HOLDER_IN_DOUBT);
        break;
    case LOCKER_REFUSE:
    case LOCKER_END:
        call_of(action->request)->active = false;
        call_of(action->request)->granted =
            action->type == LOCKER_END && action->status == 0 && action->answer == LOCK_GRANTED;
        sim_trace(s, node, "has status %d, verdict %d on (%llu)", action->status,
                  (int)action->answer, (unsigned long long)action->request->number);
        break;
    }
}

static void feed(struct sim *s, uint32_t node, struct lock_holder_event event)
{
    struct lock_holder *h = &world_of(s)->clients[node].locks;
    struct lock_holder_actions out = { .count = 0 };

    lock_holder_step(h, &event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(s, node, &out.items[i]);
    }
}

/* Whose calls are in that slot. */
static uint64_t owner_of(uint32_t slot)
{
    return 1 + (slot < PROCESSES ? slot : PROCESSES + (slot - PROCESSES) / 2);
}

static void begin(struct sim *s, uint32_t node, uint32_t slot, struct byte_lock lock, bool wait)
{
    struct lock_call *call = &world_of(s)->clients[node].lock_calls[slot];

    lock.owner.id = owner_of(slot);
    call->active = true;
    feed(s, node,
         (struct lock_holder_event){ .type = LOCKER_START,
                                     .request = &call->request,
                                     .lock = lock,
                                     .how = wait ? LOCK_WAIT : LOCK_TRY });
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

static void begin_range(struct sim *s, uint32_t node, uint32_t slot)
{
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
    begin(s, node, slot, lock, prng_below(&s->prng, 2) == 0);
}

/* At the end everything is freed. True: nothing is left. */
static bool free_all(struct sim *s, uint32_t node)
{
    const struct client *c = &world_of(s)->clients[node];
    bool done = true;

    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        struct byte_lock all = { .kind = slot < PROCESSES ? LOCK_RANGE : LOCK_FLOCK,
                                 .end = INT64_MAX };

        if (c->lock_calls[slot].active) {
            done = false;
            continue;
        }
        for (all.inode = LOCK_FILE_FIRST; all.inode < LOCK_FILE_FIRST + LOCK_FILES; all.inode++) {
            if (lock_holder_has(&c->locks, all.inode, all.kind, owner_of(slot))) {
                begin(s, node, slot, all, false);
                done = false;
                break;
            }
        }
    }
    return done;
}

/* Once, and while there is a connection: this manager does not look for what is given up everywhere,
 * as the real one does (sim/cluster). */
static void cancel(struct sim *s, uint32_t node, struct lock_request *request)
{
    if (request->how == LOCK_WAIT && !request->canceled && world_of(s)->clients[node].conn != 0) {
        feed(s, node,
             (struct lock_holder_event){
                 .type = LOCKER_CANCEL, .request = request, .connected = true });
    }
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
        cancel(s, node, &call->request);
    }
    sim_after(s, node, prng_below(&s->prng, LOCK_THINK_MS_MAX), run_think, 0);
}

void locks_client_start(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];
    int rv = lock_holder_init(&c->locks, c->id, LOCKS_NAMED_MAX);

    CHECK(rv == 0);
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
    byte_locks_each(world_of(s)->clients[node].locks.locks, name_one, m);
}

void locks_client_up(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        struct lock_call *call = &c->lock_calls[slot];

        if (call->active) {
            feed(s, node,
                 (struct lock_holder_event){ .type = LOCKER_CONNECTED, .request = &call->request });
        }
        if (call->active) {
            send_lock(s, node, &call->request);
        }
    }
}

void locks_client_joined(struct sim *s, uint32_t node, const struct lease_message *m)
{
    if (m->locks_lost && !sim_canary(s, "keeps_lost_locks")) {
        judge_no_locks(s, node);
        feed(s, node, (struct lock_holder_event){ .type = LOCKER_LOST });
    }
    judge_locks(s, node);
}

/* For the judge: granted. What other threads of the owner give up there may have come to the
 * manager before that or behind it. */
static void judge_had(struct sim *s, uint32_t node, const struct byte_lock *lock)
{
    const struct client *c = &world_of(s)->clients[node];

    judge_lock(s, node, lock);
    for (uint32_t slot = 0; slot < LOCK_CALLS; slot++) {
        const struct lock_call *other = &c->lock_calls[slot];

        if (other->active && gives_up(&other->request) &&
            lock_owner_equal(&other->request.lock.owner, &lock->owner)) {
            judge_lock(s, node, &other->request.lock);
        }
    }
    sim_worth(s, WORTH_LOCKED);
    judge_locks(s, node);
}

static void take_verdict(struct sim *s, uint32_t node, struct lock_call *call,
                         const struct lease_message *m)
{
    const struct client *c = &world_of(s)->clients[node];
    struct lock_holder_event event = { .type = LOCKER_ANSWERED, .request = &call->request };
    struct byte_lock lock = call->request.lock;
    enum lock_request_state was = call->request.state;

    event.answer = m->verdict;
    event.joining = lease_holder_is_joining(&c->holder) && !sim_canary(s, "believes_overtaken");
    if (!call->request.sent) {
        say_sent(s, node, &call->request);
    }
    feed(s, node, event);
    if (was == LOCKING_ASK && call->active && call->request.state == LOCKING_STEP_DOWN) {
        sim_worth(s, WORTH_STEPPED_DOWN);
        judge_had(s, node, &lock);
    } else if (was == LOCKING_ASK && !call->active && call->granted) {
        judge_had(s, node, &lock);
    } else if (was == LOCKING_CONVERT && call->active && call->request.state == LOCKING_ASK) {
        sim_worth(s, WORTH_CONVERTED);
    }
}

bool locks_client_answered(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];
    struct lock_call *call = NULL;

    for (uint32_t slot = 0; slot < LOCK_CALLS && m->reg == REG_LOCKS; slot++) {
        if (c->lock_calls[slot].active && c->lock_calls[slot].request.number == m->call) {
            call = &c->lock_calls[slot];
        }
    }
    if (call != NULL && m->status == 0) {
        take_verdict(s, node, call, m);
    } else if (call != NULL) {
        feed(s, node,
             (struct lock_holder_event){
                 .type = LOCKER_FAILED, .request = &call->request, .status = m->status });
    }
    return m->reg == REG_LOCKS; /* Perhaps of a call that has ended. */
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
                return sim_fail(
                    s, "%s waits for lock %llu in vain although all were freed",
                    s->nodes[node].name,
                    (unsigned long long)w->clients[node].lock_calls[slot].request.number);
            }
        }
    }
    lock_table_count(w->lock_table, &counters);
    return counters.held == 0 || sim_fail(s, "%llu locks are left although all were freed",
                                          (unsigned long long)counters.held);
}
