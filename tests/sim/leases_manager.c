/* The manager of the leases scenario: a host for src/meta/coherence/lease_step.c that does what
 * src/meta/coherence/leases_uv.c does. Its registers are durable at once; who may hold leases is
 * written to a disk that forgets. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"
#include "tests/sim/leases.h"

#include <string.h>

static void feed(struct sim *s, struct lease_event event);
static void client_gone(struct sim *s, client_id client);

uint64_t manager_clock_ms(struct sim *s)
{
    uint64_t clock_ms = sim_clock_ms(s, MANAGER);

    return sim_canary(s, "counts_stalls") ? clock_ms
                                          : presence_now_ms(&world_of(s)->presence, clock_ms);
}

static void run_pulse(struct sim *s, uint32_t node, uint64_t number)
{
    (void)manager_clock_ms(s);
    sim_after(s, node, PRESENCE_PULSE_MS, run_pulse, number);
}

/* In a calm history nobody is silent for long, or stuck. */
static void check_calm(struct sim *s, client_id client)
{
    if (world_of(s)->calm) {
        (void)sim_fail(s, "%s loses its leases although it was never silent", name_of(s, client));
    }
}

static void reply(struct sim *s, uint32_t conn, const struct lease_message *m,
                  struct lease_message r)
{
    r.word = WORD_REPLY;
    r.client = m->client;
    r.call = m->call;
    r.reg = m->reg;
    sim_send(s, MANAGER, conn, &r, sizeof(r));
}

/* The newest connection that the client has opened. 0: none. */
static uint32_t conn_of(struct sim *s, client_id client)
{
    struct world *w = world_of(s);

    for (uint32_t conn = s->conn_count; conn > 0; conn--) {
        if (conn < CONNS_MAX && w->conn_client[conn] == client && s->conns[conn - 1].open[1]) {
            return conn;
        }
    }
    return 0;
}

/* ---- What the core says ---- */

/* On its way to the disk. The number of a wait is its place here. */
static struct kept *kept_of(struct sim *s, uint64_t number)
{
    return &world_of(s)->kept[number % LEASE_EPOCHS_MAX];
}

static void run_persisted(struct sim *s, uint32_t node, uint64_t number)
{
    const struct kept *kept = kept_of(s, number);

    (void)node;
    feed(s, (struct lease_event){ .type = kept->holds ? LEASE_PERSISTED : LEASE_FORGOTTEN,
                                  .client = kept->client,
                                  .lease_epoch = kept->lease_epoch });
}

static void persist(struct sim *s, const struct lease_action *action)
{
    struct world *w = world_of(s);
    struct meta_op op = { .kind = OP_HOLDER };
    uint64_t number = w->lease_epochs_count++;
    int rv;

    sim_trace(s, MANAGER, "%s is %s", name_of(s, action->client),
              action->type == LEASE_PERSIST ? "written down as a holder" : "no holder any more");

    op.holder.lease_epoch = action->lease_epoch;
    op.holder.holds = action->type == LEASE_PERSIST;
    rv = db_execute(&w->db, &op);
    CHECK(rv == 0);
    *kept_of(s, number) = (struct kept){ action->client, action->lease_epoch, op.holder.holds };
    if (op.holder.holds && sim_canary(s, "persist_late")) {
        run_persisted(s, MANAGER, number);
    } else {
        db_wait(&w->db, run_persisted, number);
    }
}

static void push_recall(struct sim *s, const struct lease_action *action)
{
    struct lease_message m = { .word = WORD_RECALL, .client = action->client };
    uint32_t conn = conn_of(s, action->client);

    m.recall = action->recall;
    m.reg = (uint32_t)(action->inode - REGISTER_INODE_FIRST);
    m.mode = action->keeps;
    sim_trace(s, MANAGER, "recall %u from %s", m.reg, name_of(s, action->client));
    if (conn != 0) {
        sim_send(s, MANAGER, conn, &m, sizeof(m));
    }
}

static void try_again(struct sim *s, uint64_t ticket)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->parked_count; i++) {
        if (w->parked[i].ticket == ticket) {
            struct parked p = w->parked[i];

            w->parked[i] = w->parked[--w->parked_count];
            leases_dispatch(s, p.conn, &p.message);
            return;
        }
    }
}

static void perform(struct sim *s, const struct lease_action *action)
{
    switch (action->type) {
    case LEASE_RECALL:
        push_recall(s, action);
        break;
    case LEASE_HELD_UP:
        sim_worth(s, WORTH_HELD_UP);
        break;
    case LEASE_READY:
        try_again(s, action->ticket);
        break;
    case LEASE_FENCE:
        sim_trace(s, MANAGER, "fence %s", name_of(s, action->client));
        check_calm(s, action->client);
        sim_worth(s, WORTH_FENCED);
        if (conn_of(s, action->client) != 0) {
            sim_hang_up(s, MANAGER, conn_of(s, action->client));
            client_gone(s, action->client);
        }
        break;
    case LEASE_EXPIRED:
        sim_trace(s, MANAGER, "the lease period of %s is over", name_of(s, action->client));
        check_calm(s, action->client);
        sim_worth(s, WORTH_EXPIRED);
        break;
    case LEASE_PERSIST:
    case LEASE_FORGET:
        persist(s, action);
        break;
    case LEASE_GRACE_OVER:
        sim_trace(s, MANAGER, "grace is over");
        break;
    case LEASE_LOCKS_OVER:
        locks_over(s, action->client);
        break;
    case LEASE_LOST:
        break;
    }
}

static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    (void)node;
    if (number == world_of(s)->timer_ms) {
        world_of(s)->timer_ms = UINT64_MAX;
        feed(s, (struct lease_event){ .type = LEASE_TICK });
        locks_tick(s);
    }
}

static void perform_all(struct sim *s, struct lease_actions *actions)
{
    struct world *w = world_of(s);
    uint64_t due_ms, now_ms;

    for (size_t i = 0; i < actions->count && !s->failed; i++) {
        perform(s, &actions->items[i]);
    }
    lease_actions_free(actions);
    due_ms = lease_deadline_ms(w->leases);
    now_ms = manager_clock_ms(s);
    if (due_ms != w->timer_ms && due_ms != UINT64_MAX) {
        w->timer_ms = due_ms;
        sim_after(s, MANAGER, due_ms > now_ms ? due_ms - now_ms : 0, run_tick, due_ms);
    }
}

static void feed(struct sim *s, struct lease_event event)
{
    struct lease_actions actions;

    lease_actions_init(&actions);
    event.now_ms = manager_clock_ms(s);
    lease_step(world_of(s)->leases, &event, &actions);
    lease_check(world_of(s)->leases);
    perform_all(s, &actions);
}

void leases_admit(struct sim *s, client_id client)
{
    struct lease_actions actions;

    lease_actions_init(&actions);
    lease_admit(world_of(s)->leases, manager_clock_ms(s), client, &actions);
    perform_all(s, &actions);
}

/* ---- Requests ---- */

/* False: it waits, or was refused. */
static bool touch(struct sim *s, uint32_t conn, const struct lease_message *m,
                  enum lease_access access)
{
    struct world *w = world_of(s);
    struct lease_touch touched = { inode_of(m->reg), access };
    struct lease_actions actions;
    enum lease_verdict verdict;
    uint64_t ticket = 0;

    lease_actions_init(&actions);
    verdict =
        lease_acquire(w->leases, manager_clock_ms(s), m->client, &touched, 1, &ticket, &actions);
    if (verdict == LEASE_WAIT) {
        CHECK(w->parked_count < PARKED_MAX);
        w->parked[w->parked_count++] = (struct parked){ ticket, conn, *m };
    }
    CHECK(verdict != LEASE_FULL);
    perform_all(s, &actions);
    return verdict == LEASE_GO;
}

static enum lease_mode told(struct sim *s, const struct lease_message *m)
{
    struct world *w = world_of(s);

    return sim_canary(s, "grant_during_recall")
               ? lease_held_by(w->leases, m->client, inode_of(m->reg))
               : lease_told(w->leases, m->client, inode_of(m->reg));
}

static enum lease_mode granted(struct sim *s, const struct lease_message *m, enum lease_mode wanted)
{
    struct world *w = world_of(s);

    (void)lease_grant(w->leases, manager_clock_ms(s), m->client, inode_of(m->reg), wanted,
                      prng_below(&s->prng, 2) == 0, false, false);
    return told(s, m);
}

void leases_dispatch(struct sim *s, uint32_t conn, const struct lease_message *m)
{
    struct world *w = world_of(s);
    enum lease_access access =
        m->word == WORD_READ || m->word == WORD_LOCK ? ACCESS_READ : ACCESS_CHANGE;
    struct lease_message r = { .status = 0 };

    if (!touch(s, conn, m, access)) {
        return;
    }
    if (m->word == WORD_LOCK) {
        locks_serve(s, conn, m);
        return;
    }
    check_served(s, m->client, m->reg, access);
    note_served(w, m->client, m->reg);
    if (m->word == WORD_WRITE) {
        w->values[m->reg] = m->value;
        r.mode = told(s, m);
    } else {
        r.mode = granted(s, m, m->word == WORD_READ ? LEASE_R : LEASE_W);
    }
    r.value = w->values[m->reg];
    reply(s, conn, m, r);
}

static void take_report(struct sim *s, uint32_t conn, const struct lease_message *m)
{
    struct world *w = world_of(s);
    struct lease_message r = { .status = MORSEL_STALE };

    if (lease_held_by(w->leases, m->client, inode_of(m->reg)) == LEASE_W) {
        check_served(s, m->client, m->reg, ACCESS_CHANGE);
        w->values[m->reg] = m->value;
        r.status = 0;
    }
    r.mode = told(s, m);
    r.value = w->values[m->reg];
    reply(s, conn, m, r);
}

static void take_join(struct sim *s, uint32_t conn, const struct lease_message *m)
{
    struct lease_held held[REGISTERS + 1];
    struct lease_event event = { .type = LEASE_JOIN, .caches = true, .held = held };
    struct lease_message r = { .status = 0 };
    struct lease_actions actions;
    bool late;

    event.client = m->client;
    event.lease_epoch = m->lease_epoch;
    event.number = m->call;
    event.now_ms = manager_clock_ms(s);
    for (uint32_t reg = 0; reg < REGISTERS; reg++) {
        if (m->held[reg] != LEASE_NONE) {
            held[event.held_count++] = (struct lease_held){ inode_of(reg), m->held[reg] };
        }
    }
    if (m->named_count > 0) {
        held[event.held_count++] = (struct lease_held){ INODE_LOCKS, LEASE_R };
    }
    late = lease_join_is_late(world_of(s)->leases, m->client, m->call);
    lease_actions_init(&actions);
    lease_step(world_of(s)->leases, &event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.items[i].type == LEASE_LOST && actions.items[i].inode != INODE_LOCKS) {
            r.lost[actions.items[i].inode - REGISTER_INODE_FIRST] = true;
        }
    }
    r.lease_epoch = lease_epoch_of(world_of(s)->leases, m->client);
    r.locks_lost = !late && !locks_join(s, m);
    reply(s, conn, m, r); /* Before recalls that follow from it. */
    perform_all(s, &actions);
}

static void client_gone(struct sim *s, client_id client)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->parked_count;) {
        if (w->parked[i].message.client == client) {
            lease_ticket_drop(w->leases, w->parked[i].ticket);
            w->parked[i] = w->parked[--w->parked_count];
        } else {
            i++;
        }
    }
    locks_gone(s, client);
    feed(s, (struct lease_event){ .type = LEASE_GONE, .client = client });
}

/* A client that connects anew has given up its other connections: they end before the new one is
 * listened to. (Which of them is the newer one a server cannot know; the client tries again.) */
static void supersede(struct sim *s, client_id client, uint32_t conn)
{
    struct world *w = world_of(s);

    for (uint32_t i = 1; i <= s->conn_count && i < CONNS_MAX; i++) {
        if (i != conn && w->conn_client[i] == client && s->conns[i - 1].open[1]) {
            sim_hang_up(s, MANAGER, i);
            client_gone(s, client);
        }
    }
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct world *w = world_of(s);
    uint32_t conn = message->conn;
    struct lease_message m;
    bool heard;

    memcpy(&m, message->data, sizeof(m));
    CHECK(conn < CONNS_MAX);
    if (w->conn_client[conn] == 0) {
        w->conn_client[conn] = m.client;
        supersede(s, m.client, conn);
    }
    if (m.word == WORD_JOIN) {
        take_join(s, conn, &m);
        return;
    }
    (void)node;
    heard = lease_heard(w->leases, m.client, manager_clock_ms(s));
    if (!heard) {
        reply(s, conn, &m, (struct lease_message){ .status = MORSEL_NO_SESSION });
    } else if (m.word == WORD_CANCEL) {
        locks_cancel(s, &m);
    } else if (m.word == WORD_RENEW) {
        reply(s, conn, &m, (struct lease_message){ .status = MORSEL_OK });
    } else if (m.word == WORD_REPORT) {
        take_report(s, conn, &m);
    } else if (m.word == WORD_BUSY) {
        feed(s, (struct lease_event){ .type = LEASE_BUSY,
                                      .client = m.client,
                                      .recall = m.recall,
                                      .landed = m.value,
                                      .inode = inode_of(m.reg) });
    } else if (m.word == WORD_RETURN) {
        feed(s, (struct lease_event){ .type = LEASE_RETURN,
                                      .client = m.client,
                                      .recall = m.recall,
                                      .inode = inode_of(m.reg),
                                      .keeps = m.mode });
    } else {
        leases_dispatch(s, conn, &m);
    }
}

static void manager_down(struct sim *s, uint32_t node, uint32_t conn)
{
    (void)node;
    if (world_of(s)->conn_client[conn] != 0) {
        client_gone(s, world_of(s)->conn_client[conn]);
    }
}

/* ---- Life ---- */

static void manager_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct ns_hooks hooks = { .data = w };
    struct lease_options options = { .now_ms = 0 };
    struct lease_epoch_kept expected[LEASE_CLIENTS_MAX];
    struct errmsg err;
    uint32_t count = 0;
    int rv;

    if (!db_start(&w->db, &hooks)) {
        return;
    }
    rv = ns_holders(w->db.ns, expected, LEASE_CLIENTS_MAX, &count, &err);
    CHECK(rv == 0);
    presence_init(&w->presence, sim_clock_ms(s, node));
    options.now_ms = manager_clock_ms(s);
    options.last_lease_epoch = prng_next(&s->prng);
    options.expected = expected;
    options.expected_count = sim_canary(s, "no_grace") ? 0 : count;
    w->leases = lease_table_new(&options);
    CHECK(w->leases != NULL);
    w->timer_ms = UINT64_MAX;
    w->parked_count = w->locking_count = w->undurable_count = 0;
    w->lock_table = lock_table_new();
    CHECK(w->lock_table != NULL);
    sim_trace(s, node, "start, %u holders are expected", count);
    feed(s, (struct lease_event){ .type = LEASE_TICK });
    sim_after(s, node, PRESENCE_PULSE_MS, run_pulse, 0);
}

static void manager_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);

    (void)node;
    lease_table_free(w->leases);
    w->leases = NULL;
    lock_table_free(w->lock_table);
    w->lock_table = NULL;
    db_stop(&w->db, machine);
}

const struct sim_actor leases_manager = { manager_start, manager_stop, manager_receive,
                                          manager_down };
