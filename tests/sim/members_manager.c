/* The manager of the members scenario: a host for src/meta/cluster/members.c, and the checkers of
 * what goes in and out of it. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/members.h"

#include <stdio.h>
#include <string.h>

static void manager_step(struct sim *s, const struct members_event *event);

/* Whoever waited for this is heard until now, as far as we are concerned. */
static void note_answered(struct sim *s, uint64_t tag, server_id id)
{
    struct members_event event = { .now_ms = sim_clock_ms(s, MANAGER), .type = MEMBERS_ANSWERED };

    event.answered.tag = tag;
    event.answered.id = id;
    manager_step(s, &event);
    world_of(s)->seen.heard_ms[id] = event.now_ms;
}

static void reply(struct sim *s, uint64_t tag, server_id id, int status)
{
    struct request *request = &world_of(s)->requests[tag];
    struct member_message m = { .word = WORD_REPLY, .call = request->call };

    request->answered = true;
    if (status == 0) {
        note_answered(s, tag, id);
    }
    m.id = id;
    m.status = status;
    sim_send(s, MANAGER, request->conn, &m, sizeof(m));
}

/* The id leaves the manager: from now on it is the server's for ever. */
static void tell_id(struct sim *s, uint64_t tag, server_id id)
{
    struct seen *seen = &world_of(s)->seen;
    uint32_t token = world_of(s)->requests[tag].token;

    CHECK(id < IDS_MAX);
    if (seen->token_of_id[id] != 0 && seen->token_of_id[id] != token + 1) {
        (void)sim_fail(s, "id %u is given to directory %u, but belongs to directory %u", id, token,
                       seen->token_of_id[id] - 1);
    }
    if (seen->id_of_token[token] != 0 && seen->id_of_token[token] != id) {
        (void)sim_fail(s, "directory %u was server %u and becomes server %u", token,
                       seen->id_of_token[token], id);
    }
    seen->token_of_id[id] = token + 1;
    seen->id_of_token[token] = id;
    reply(s, tag, id, 0);
}

static void run_told(struct sim *s, uint32_t node, uint64_t number)
{
    (void)node;
    tell_id(s, number >> 16, (server_id)(number & 0xffff));
}

/* Does another process serve the directory, as far as the manager could hear? */
static bool owner_lives(struct sim *s, uint32_t node, uint32_t token)
{
    const struct seen *seen = &world_of(s)->seen;
    uint32_t owner = seen->owner_node[token];

    return owner != 0 && owner != node && s->conns[seen->owner_conn[token] - 1].open[1] &&
           sim_clock_ms(s, MANAGER) < seen->owner_heard_ms[token] + LIMIT_MS;
}

/* Of two processes on one directory, the second must wait until the first is silent or gone. */
static void check_owner(struct sim *s, uint64_t tag, bool owner_lived)
{
    struct seen *seen = &world_of(s)->seen;
    const struct request *request = &world_of(s)->requests[tag];
    uint32_t node = sim_peer(s, MANAGER, request->conn), token = request->token;

    if (request->refused) {
        return;
    }
    if (owner_lived && seen->owner_node[token] != 0) {
        (void)sim_fail(s, "%s is taken while %s serves the same directory", s->nodes[node].name,
                       s->nodes[seen->owner_node[token]].name);
    }
    seen->owner_node[token] = node;
    seen->owner_conn[token] = request->conn;
    seen->owner_tag[token] = tag;
    seen->owner_heard_ms[token] = sim_clock_ms(s, MANAGER);
}

static void run_persist(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct members_event event = { .now_ms = sim_clock_ms(s, node), .type = MEMBERS_PERSISTED };
    struct meta_op op = { .kind = OP_MEMBER };

    op.member = w->persisting[number];
    event.persisted.id = op.member.id;
    event.persisted.status = db_execute(&w->db, &op);
    manager_step(s, &event);
}

static void persist(struct sim *s, server_id id)
{
    struct world *w = world_of(s);
    uint32_t number = w->persisting_count++;

    CHECK(number < REQUESTS_MAX);
    w->persisting[number] = members_find(&w->members, id)->record;
    if (w->slow_persist) {
        /* One behind the other, as the store takes them. */
        uint64_t delay_ms = prng_below(&s->prng, PERSIST_MS_MAX + 1);

        if (w->persisted_ms > s->now_ms + delay_ms) {
            delay_ms = w->persisted_ms - s->now_ms;
        }
        w->persisted_ms = s->now_ms + delay_ms + 1;
        sim_after(s, MANAGER, delay_ms, run_persist, number);
    } else {
        run_persist(s, MANAGER, number);
    }
}

/* A welcome speaks of a record that is in the store, or that came before it. */
static void check_record(struct sim *s, uint64_t tag, server_id id)
{
    struct world *w = world_of(s);
    struct member_record records[SERVERS_MAX];
    struct errmsg err;
    uint32_t count = 0, node = sim_peer(s, MANAGER, w->requests[tag].conn);
    int rv = ns_members(w->db.ns, records, &count, &err);

    CHECK(rv == 0);
    for (uint32_t i = 0; i < count; i++) {
        if (records[i].id == id && strcmp(records[i].address, s->nodes[node].name) == 0) {
            return;
        }
    }
    (void)sim_fail(s, "server %u is welcomed at %s, but the store does not know it there", id,
                   s->nodes[node].name);
}

/* A registration that was taken may still lose to a later one, before its record is written. */
static void note_refused(struct sim *s, uint64_t tag)
{
    struct seen *seen = &world_of(s)->seen;
    struct request *request = &world_of(s)->requests[tag];

    request->refused = true;
    if (seen->owner_tag[request->token] == tag) {
        seen->owner_node[request->token] = 0;
    }
}

/* The server speaks on this connection now; what becomes of others means nothing. */
static void note_conn(struct sim *s, uint64_t tag, server_id id)
{
    struct world *w = world_of(s);

    if (sim_canary(s, "gone_by_name")) {
        return;
    }
    for (uint32_t i = 1; i <= s->conn_count; i++) {
        w->conn_id[i] = w->conn_id[i] == id ? 0 : w->conn_id[i];
    }
    w->conn_id[w->requests[tag].conn] = id;
}

static void perform(struct sim *s, const struct members_action *action)
{
    static const char *const words[] = {
        [MEMBERS_PERSIST] = "persist",   [MEMBERS_WELCOME] = "welcome", [MEMBERS_ALIVE] = "alive",
        [MEMBERS_REFUSE] = "refuse",     [MEMBERS_UP] = "up",           [MEMBERS_DOWN] = "down",
        [MEMBERS_PUT_BACK] = "put back",
    };

    if (action->type == MEMBERS_REFUSE) {
        sim_trace(s, MANAGER, "refuse: %s", action->reason);
        sim_worth(s, WORTH_REFUSED);
        note_refused(s, action->tag);
        reply(s, action->tag, 0, action->status);
        return;
    }
    if (action->type != MEMBERS_ALIVE) {
        sim_trace(s, MANAGER, "%s server %u", words[action->type], action->id);
    }
    if (action->type == MEMBERS_DOWN) {
        sim_worth(s, WORTH_DOWN);
    }
    if (action->type == MEMBERS_PERSIST) {
        persist(s, action->id);
    } else if (action->type == MEMBERS_WELCOME) {
        sim_worth(s, WORTH_WELCOME);
        world_of(s)->seen.heard_ms[action->id] = sim_clock_ms(s, MANAGER); /* By its token. */
        check_record(s, action->tag, action->id);
        note_conn(s, action->tag, action->id);
        if (sim_canary(s, "speaks_before_durable")) {
            tell_id(s, action->tag, action->id);
        } else {
            db_wait(&world_of(s)->db, run_told, action->tag << 16 | action->id);
        }
    } else if (action->type == MEMBERS_ALIVE) {
        reply(s, action->tag, action->id, 0);
    }
}

static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    struct members_event event = { .now_ms = sim_clock_ms(s, node), .type = MEMBERS_TICK };

    if (number == world_of(s)->timer_ms) {
        world_of(s)->timer_ms = UINT64_MAX;
        manager_step(s, &event);
    }
}

static void manager_step(struct sim *s, const struct members_event *event)
{
    struct world *w = world_of(s);
    struct members_actions out;
    uint64_t due_ms, now_ms = sim_clock_ms(s, MANAGER);

    out.count = 0;
    members_step(&w->members, event, &out);
    for (uint32_t i = 0; i < out.count && !s->failed; i++) {
        perform(s, &out.items[i]);
    }
    due_ms = members_deadline_ms(&w->members);
    if (due_ms != w->timer_ms && due_ms != UINT64_MAX && !sim_canary(s, "no_tick")) {
        w->timer_ms = due_ms;
        sim_after(s, MANAGER, due_ms > now_ms ? due_ms - now_ms : 0, run_tick, due_ms);
    }
}

static void take_registration(struct sim *s, uint64_t tag, const struct member_message *m)
{
    struct members_event event = { .now_ms = sim_clock_ms(s, MANAGER), .type = MEMBERS_REGISTER };
    struct member_record *record = &event.registration.record;
    uint32_t node = sim_peer(s, MANAGER, world_of(s)->requests[tag].conn);
    bool owner_lived = owner_lives(s, node, m->token);

    event.registration.tag = tag;
    record->id = m->id;
    memset(record->token, (int)m->token + 1, sizeof(record->token));
    (void)snprintf(record->address, sizeof(record->address), "%s", s->nodes[node].name);
    manager_step(s, &event);
    check_owner(s, tag, owner_lived);
}

/* A heartbeat counts on the connection that registered: another process may say the same id. */
static void take_heartbeat(struct sim *s, uint64_t tag, const struct member_message *m)
{
    struct world *w = world_of(s);
    struct members_event event = { .now_ms = sim_clock_ms(s, MANAGER), .type = MEMBERS_HEARTBEAT };

    if (w->conn_id[w->requests[tag].conn] != m->id && !sim_canary(s, "gone_by_name")) {
        reply(s, tag, 0, MORSEL_NO_SESSION);
        return;
    }
    event.heartbeat.tag = tag;
    event.heartbeat.id = m->id;
    manager_step(s, &event);
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct world *w = world_of(s);
    struct seen *seen = &w->seen;
    struct member_message m;
    uint64_t tag = w->request_count++;

    CHECK(tag < REQUESTS_MAX && message->conn < CONNS_MAX);
    memcpy(&m, message->data, sizeof(m));
    w->requests[tag] = (struct request){ message->conn, m.token, m.call, false, false };
    if (sim_canary(s, "gone_by_name")) {
        w->conn_id[message->conn] = m.hello_id;
    }
    if (seen->owner_conn[m.token] == message->conn) {
        seen->owner_heard_ms[m.token] = sim_clock_ms(s, node);
    }
    seen->heard_ms[m.id] = sim_clock_ms(s, node);
    if (m.word == WORD_REGISTER) {
        take_registration(s, tag, &m);
    } else {
        take_heartbeat(s, tag, &m);
    }
}

/* Whoever waits for an answer is not silent before its connection has ended. */
static bool waits_for_answer(const struct world *w, uint32_t conn)
{
    bool waits = false;

    for (uint64_t i = 0; i < w->request_count; i++) {
        waits |= w->requests[i].conn == conn && !w->requests[i].answered;
    }
    return waits;
}

static void manager_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct world *w = world_of(s);
    struct members_event event = { .now_ms = sim_clock_ms(s, node), .type = MEMBERS_GONE };

    event.gone = w->conn_id[conn];
    if (event.gone != 0) {
        if (waits_for_answer(w, conn)) {
            w->seen.heard_ms[event.gone] = event.now_ms;
        }
        sim_trace(s, node, "connection %u of server %u has ended", conn, event.gone);
        manager_step(s, &event);
    }
}

static void manager_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct member_record records[SERVERS_MAX];
    struct errmsg err;
    uint32_t count = 0;
    int rv;

    if (!db_start(&w->db, NULL)) {
        return;
    }
    rv = ns_members(w->db.ns, records, &count, &err);
    CHECK(rv == 0);
    members_init(&w->members, HEARTBEAT_MS, records, count);
    members_presume(&w->members, sim_clock_ms(s, node));
    w->timer_ms = UINT64_MAX;
    sim_trace(s, node, "start, %u members known", count);
}

static void manager_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);

    (void)node;
    db_stop(&w->db, machine);
    memset(&w->members, 0, sizeof(w->members));
    memset(w->seen.heard_ms, 0, sizeof(w->seen.heard_ms));
    memset(w->seen.owner_node, 0, sizeof(w->seen.owner_node));
    memset(w->seen.owner_conn, 0, sizeof(w->seen.owner_conn));
}

const struct sim_actor members_manager = { manager_start, manager_stop, manager_receive,
                                           manager_down };

bool members_check(struct sim *s)
{
    struct world *w = world_of(s);
    const struct members *m = &w->members;
    uint64_t now_ms = sim_clock_ms(s, MANAGER);

    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *a = &m->items[i];

        for (uint32_t j = i + 1; j < m->count; j++) {
            if (a->record.id == m->items[j].record.id ||
                memcmp(a->record.token, m->items[j].record.token, 16) == 0) {
                return sim_fail(s, "two members share id %u or its directory", a->record.id);
            }
        }
        if (a->up && now_ms > w->seen.heard_ms[a->record.id] + LIMIT_MS + PERSIST_MS_MAX + 2 &&
            w->seen.heard_ms[a->record.id] != 0) {
            return sim_fail(s, "server %u is shown up, but was silent for %llu ms", a->record.id,
                            (unsigned long long)(now_ms - w->seen.heard_ms[a->record.id]));
        }
    }
    return true;
}
