/* The manager of the sessions scenario: a host for src/meta/coherence/session.c that does what
 * src/meta/coherence/sessions_uv.c does. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"
#include "tests/sim/sessions.h"

#include <string.h>

static void manager_step(struct sim *s, const struct session_event *event);
static void dispatch(struct sim *s, uint32_t conn, const struct session_message *m);

static void reply(struct sim *s, uint32_t conn, const struct session_message *m, int status,
                  inode_id inode)
{
    struct session_message r = { .word = WORD_REPLY, .client = m->client, .call = m->call };

    r.status = status;
    r.inode = inode;
    sim_send(s, MANAGER, conn, &r, sizeof(r));
}

/* ---- Orphans ---- */

static int execute(struct sim *s, struct meta_op *op)
{
    int rv = db_execute(&world_of(s)->db, op);

    if (rv == 0 && op->deleted) {
        sim_worth(s, WORTH_GONE);
        sim_trace(s, MANAGER, "inode %llu is gone for good", (unsigned long long)op->target);
        check_destroyed(s, op->target);
    }
    return rv;
}

static void collect(struct sim *s, inode_id inode)
{
    struct world *w = world_of(s);
    struct meta_op op = { .kind = OP_COLLECT };
    struct errmsg err;
    bool orphan;

    if (session_holds(w->sessions, inode) && !sim_canary(s, "collects_held")) {
        return;
    }
    op.collect.inode = inode;
    if (ns_is_orphan(w->db.ns, inode, &orphan, &err) == 0 && orphan) {
        (void)execute(s, &op);
    }
}

static void sweep(struct sim *s)
{
    inode_id orphans[64];
    struct errmsg err;
    uint32_t count = 0;
    inode_id from = 1;

    do {
        int rv = ns_orphans(world_of(s)->db.ns, from, orphans, 64, &count, &err);

        CHECK(rv == 0);
        for (uint32_t i = 0; i < count; i++) {
            collect(s, orphans[i]);
        }
        from = count == 0 ? from : orphans[count - 1] + 1;
    } while (count == 64);
}

/* ---- Sessions ---- */

static void park(struct sim *s, uint32_t conn, const struct session_message *m)
{
    struct world *w = world_of(s);

    CHECK(w->parked_count < PARKED_MAX);
    w->parked[w->parked_count++] = (struct parked){ conn, *m };
}

static void release_parked(struct sim *s, client_id client, int status)
{
    struct world *w = world_of(s);
    uint32_t i = 0;

    while (i < w->parked_count && !s->failed) {
        struct parked p = w->parked[i];

        if (p.message.client != client) {
            i++;
            continue;
        }
        w->parked_count--;
        memmove(&w->parked[i], &w->parked[i + 1], (w->parked_count - i) * sizeof(p));
        if (status != 0 || p.message.word == WORD_ASK) {
            reply(s, p.conn, &p.message, status, INODE_NONE);
        } else {
            dispatch(s, p.conn, &p.message);
        }
    }
}

/* 0: a client whose process has ended. */
static uint32_t node_of(struct sim *s, client_id client)
{
    const struct world *w = world_of(s);

    for (uint32_t node = 1; node <= w->client_count; node++) {
        if (w->clients[node].id == client) {
            return node;
        }
    }
    return 0;
}

static const char *name_of(struct sim *s, client_id client)
{
    uint32_t node = node_of(s, client);

    return node == 0 ? "somebody who is no more" : s->nodes[node].name;
}

static void note_admitted(struct sim *s, client_id client)
{
    struct world *w = world_of(s);
    uint32_t node = node_of(s, client);

    if (w->admitted[node] != client) {
        sim_trace(s, MANAGER, "admit %s", name_of(s, client));
    }
    w->admitted[node] = client;
}

/* ---- What is written down of sessions ---- */

static void write_down(struct sim *s, const struct session_kept *kept, uint32_t count,
                       bool tells_run)
{
    struct meta_op op = { .kind = OP_SESSIONS };
    struct buf clients;
    int rv;

    buf_init(&clients);
    for (uint32_t i = 0; i < count; i++) {
        op_session_put(&clients, kept[i].client, kept[i].waited_ms);
        tells_run |= kept[i].client == SESSION_UNTOLD;
    }
    op.sessions.run = tells_run ? world_of(s)->run : 0;
    op.sessions.clients = buf_slice(&clients);
    rv = count > 0 ? db_execute(&world_of(s)->db, &op) : 0;
    CHECK(rv == 0);
    buf_free(&clients);
}

static void write_one(struct sim *s, client_id client, uint32_t waited_ms)
{
    struct session_kept kept = { client, waited_ms };

    write_down(s, &kept, 1, false);
}

static void write_waiting(struct sim *s)
{
    struct world *w = world_of(s);
    struct session_kept kept[KEPT_MAX];

    CHECK(session_expected(w->sessions) <= KEPT_MAX);
    write_down(s, kept, session_waiting(w->sessions, sim_clock_ms(s, MANAGER), kept), false);
}

static uint32_t load_sessions(struct sim *s, bool fresh, struct session_kept *kept)
{
    struct world *w = world_of(s);
    struct errmsg err;
    uint64_t run;
    uint32_t count;
    int rv = ns_sessions(w->db.ns, kept, KEPT_MAX - 1, &count, &run, &err);

    CHECK(rv == 0);
    if (run != w->run) {
        if (count > 0 && kept[0].client == SESSION_UNTOLD) {
            kept[0] = kept[--count];
        }
        if (!fresh) {
            kept[count++] = (struct session_kept){ SESSION_UNTOLD, 0 };
        }
        write_one(s, SESSION_UNTOLD, fresh ? SESSION_STRUCK_OUT : 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (kept[i].waited_ms > 0) {
            sim_worth(s, WORTH_WAITED);
        }
    }
    return count;
}

static void perform(struct sim *s, const struct session_action *action)
{
    switch (action->type) {
    case SESSION_KEEP:
        if (!sim_canary(s, "keeps_no_sessions")) {
            write_one(s, action->client, 0);
        }
        break;
    case SESSION_WAITING:
        write_waiting(s);
        break;
    case SESSION_ADMIT:
        note_admitted(s, action->client);
        release_parked(s, action->client, 0);
        break;
    case SESSION_REFUSE:
        release_parked(s, action->client, action->status);
        break;
    case SESSION_END:
        if (action->status != 0) {
            sim_worth(s, WORTH_SILENT);
        }
        write_one(s, action->client, SESSION_STRUCK_OUT);
        world_of(s)->admitted[node_of(s, action->client)] = 0;
        sim_trace(s, MANAGER, "%s %s", name_of(s, action->client),
                  action->status == 0 ? "has left" : "was silent too long");
        release_parked(s, action->client, MORSEL_NO_SESSION);
        break;
    case SESSION_GRACE_OVER:
        sim_worth(s, WORTH_GRACE);
        sim_trace(s, MANAGER, "grace is over");
        sweep(s);
        break;
    }
}

static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    struct session_event event = { .now_ms = sim_clock_ms(s, node), .type = SESSION_TICK };

    if (number == world_of(s)->timer_ms) {
        world_of(s)->timer_ms = UINT64_MAX;
        manager_step(s, &event);
    }
}

static void manager_step(struct sim *s, const struct session_event *event)
{
    struct world *w = world_of(s);
    struct session_actions out;
    uint64_t due_ms, now_ms = sim_clock_ms(s, MANAGER);
    inode_id inode;

    out.count = 0;
    session_step(w->sessions, event, &out);
    for (uint32_t i = 0; i < out.count && !s->failed; i++) {
        perform(s, &out.items[i]);
    }
    while (session_pop_released(w->sessions, &inode)) {
        collect(s, inode);
    }
    due_ms = session_deadline_ms(w->sessions);
    if (due_ms != w->timer_ms && due_ms != UINT64_MAX) {
        w->timer_ms = due_ms;
        sim_after(s, MANAGER, due_ms > now_ms ? due_ms - now_ms : 0, run_tick, due_ms);
    }
}

/* ---- Requests ---- */

static void note_open(struct sim *s, const struct session_message *m, enum session_event_type type)
{
    struct session_event event = { .now_ms = sim_clock_ms(s, MANAGER), .type = type };

    event.client = m->client;
    event.inodes = &m->inode;
    event.inodes_count = 1;
    manager_step(s, &event);
}

static void take_open(struct sim *s, uint32_t conn, const struct session_message *m)
{
    struct inode inode;
    struct errmsg err;
    int rv = ns_inode(world_of(s)->db.ns, m->inode, &inode, &err);

    if (rv == 0) {
        note_open(s, m, SESSION_OPENED);
    }
    reply(s, conn, m, rv, m->inode);
}

static void take_make(struct sim *s, uint32_t conn, const struct session_message *m)
{
    struct world *w = world_of(s);
    struct meta_op op = op_make(INODE_ROOT, m->name, 0100644);
    int rv = execute(s, &op);

    if (rv == 0) {
        CHECK(w->made_count < INODES_MAX);
        w->made[w->made_count++] = op.target;
    }
    reply(s, conn, m, rv, op.target);
}

/* A request of a client that has been admitted. */
static void dispatch(struct sim *s, uint32_t conn, const struct session_message *m)
{
    struct meta_op op;

    switch (m->word) {
    case WORD_READ:
        reply(s, conn, m, 0, INODE_NONE);
        break;
    case WORD_MAKE:
        take_make(s, conn, m);
        break;
    case WORD_UNLINK:
        op = op_unlink(INODE_ROOT, m->name, false);
        reply(s, conn, m, execute(s, &op), INODE_NONE);
        break;
    case WORD_OPEN:
        take_open(s, conn, m);
        break;
    case WORD_CLOSE:
        note_open(s, m, SESSION_CLOSED);
        break;
    case WORD_ASK:
    case WORD_LEAVE:
    case WORD_REPLY:
        CHECK(!"a request that is served");
    }
}

static void take_ask(struct sim *s, uint32_t conn, const struct session_message *m)
{
    struct session_event event = { .now_ms = sim_clock_ms(s, MANAGER), .type = SESSION_ASK };

    event.client = m->client;
    event.inodes = m->opens;
    event.inodes_count = m->opens_count;
    if (m->word == WORD_LEAVE) {
        event.type = SESSION_LEAVE;
        manager_step(s, &event);
        reply(s, conn, m, 0, INODE_NONE);
    } else {
        park(s, conn, m);
        manager_step(s, &event);
    }
}

static void client_gone(struct sim *s, client_id client)
{
    struct session_event event = { .now_ms = sim_clock_ms(s, MANAGER), .type = SESSION_GONE };

    event.client = client;
    world_of(s)->admitted[node_of(s, client)] = 0;
    sim_trace(s, MANAGER, "a connection of %s has ended", name_of(s, client));
    manager_step(s, &event);
    release_parked(s, client, MORSEL_NO_SESSION);
}

/* A client that connects anew has given up its other connections: they end before the new one is
 * listened to. What is heard last counts as new, also when the first word of an older one was late:
 * its end must not be taken for the end of one that lives (end_older_connections() in
 * src/common/rpc/rpc_serve_uv.c). */
static void supersede(struct sim *s, client_id client, uint32_t conn)
{
    struct world *w = world_of(s);

    for (uint32_t i = 1; i < CONNS_MAX && !sim_canary(s, "old_connections"); i++) {
        if (i != conn && w->conn_client[i] == client && s->conns[i - 1].open[1]) {
            sim_hang_up(s, MANAGER, i);
            client_gone(s, client);
        }
    }
}

/* What counts as a word: asking, and a request that is served at once. */
static void note_heard(struct sim *s, uint32_t node, const struct session_message *m)
{
    if (m->client == world_of(s)->clients[node].id) {
        world_of(s)->heard_ms[node] = sim_clock_ms(s, MANAGER);
        world_of(s)->waited_ms[node] = 0;
    }
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct world *w = world_of(s);
    uint32_t conn = message->conn;
    struct session_message m;

    memcpy(&m, message->data, sizeof(m));
    CHECK(conn < CONNS_MAX);
    if (w->conn_client[conn] == 0) {
        w->conn_client[conn] = m.client;
        supersede(s, m.client, conn);
    }
    if (m.word == WORD_ASK || m.word == WORD_LEAVE) {
        note_heard(s, message->from, &m);
        take_ask(s, conn, &m);
    } else if (session_joined(w->sessions, m.client, sim_clock_ms(s, node))) {
        note_heard(s, message->from, &m);
        dispatch(s, conn, &m);
    } else {
        reply(s, conn, &m, MORSEL_NO_SESSION, INODE_NONE);
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

static bool is_open(void *data, inode_id inode)
{
    const struct world *w = data;

    return session_holds(w->sessions, inode);
}

static void manager_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct ns_hooks hooks = { .is_open = is_open, .data = w };
    struct session_kept kept[KEPT_MAX];
    struct session_options options = {
        .session_ms = SESSION_MS, .patience_ms = PATIENCE_MS, .settle_ms = SETTLE_MS, .kept = kept
    };
    struct meta_op op = { .kind = OP_START };
    struct session_event tick = { .type = SESSION_TICK };

    if (!db_start(&w->db, &hooks)) {
        return;
    }
    options.now_ms = tick.now_ms = w->started_ms = sim_clock_ms(s, node);
    options.fresh = s->now_ms == 0 || sim_canary(s, "no_grace");
    options.kept_count = load_sessions(s, options.fresh, kept);
    w->sessions = session_table_new(&options);
    CHECK(w->sessions != NULL);
    (void)db_execute(&w->db, &op);
    (void)w->db.kv->sync(w->db.kv, NULL);
    w->timer_ms = UINT64_MAX;
    w->parked_count = 0;
    memset(w->heard_ms, 0, sizeof(w->heard_ms));
    memset(w->admitted, 0, sizeof(w->admitted));
    sim_trace(s, node, "start%s", options.fresh ? "" : ", grace begins");
    manager_step(s, &tick);
}

static void manager_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);
    uint64_t counted_ms = sim_clock_ms(s, node) - w->started_ms;

    counted_ms = counted_ms > PATIENCE_MS ? counted_ms - PATIENCE_MS : 0;
    for (uint32_t i = 1; i <= w->client_count; i++) {
        w->waited_ms[i] = w->heard_ms[i] != 0 ? 0 : w->waited_ms[i] + counted_ms;
    }
    w->run += machine;
    session_table_free(w->sessions);
    w->sessions = NULL;
    db_stop(&w->db, machine);
}

const struct sim_actor sessions_manager = { manager_start, manager_stop, manager_receive,
                                            manager_down };
