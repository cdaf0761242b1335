/* Operation ids and retries: clients change one namespace through src/client/op_numbers.c and
 * src/meta/op_window.c, over datagrams that get lost, doubled and reordered, or over connections
 * that break, while the manager is killed and loses power.
 *
 * The checkers keep every change that was applied, in the order of the log, and a model of the
 * namespace; after a loss of power the model is made again from what is left. */
#include "client/op_numbers.h"
#include "common/check.h"
#include "common/status.h"
#include "meta/op_window.h"
#include "tests/lib/ns_fixture.h"
#include "tests/sim/db.h"
#include "tests/sim/model.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

enum {
    MANAGER = 0,
    CLIENTS_MAX = 4,
    PENDING_MAX = 6,
    RETRY_MS = 60,
    TIMEOUT_MS = 3000, /* As io_timeout. */
    RECONNECT_MS = 50,
    THINK_MS_MAX = 60,
    APPLIED_MAX = 4096,
    REFUSED_MAX = 8192,
    KNOWN_MAX = 8
};

enum word { WORD_CHANGE, WORD_FSYNC, WORD_REPLY };

struct op_message
{
    enum word word;
    client_id client;
    op_sequence sequence, answered;
    struct change change;
    int status;
    struct op_outcome outcome;
};

struct pending
{
    bool active;
    uint64_t started_ms;
    struct op_message message;
};

struct client
{
    client_id id;
    struct op_numbers numbers;
    uint32_t conn;
    uint64_t fsync; /* Number of the one that waits; 0: none. */
    struct pending pending[PENDING_MAX];
    inode_id known[KNOWN_MAX]; /* Inodes that it has heard of. */
};

/* What was seen of one record of the log. `client` 0: nothing that a client asked for. */
struct applied
{
    client_id client;
    op_sequence sequence;
    struct change change;
    struct op_outcome outcome;
    uint64_t committed_ms;
};

struct refused
{
    client_id client;
    op_sequence sequence;
};

struct world
{
    struct db db;
    struct op_window *window;
    bool datagrams;
    uint32_t client_count;
    struct client clients[CLIENTS_MAX + 1]; /* By node. */
    uint64_t count, durable;
    struct applied log[APPLIED_MAX + 1];
    uint32_t refused_count;
    struct refused refused[REFUSED_MAX]; /* What clients believe to have failed. */
    struct model model;
    uint64_t fsyncs;
    struct
    {
        uint32_t conn, node;
        uint64_t number, count;
    } fsync[APPLIED_MAX];
    uint64_t healed_ms;
};

static struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- What is expected ---------------------------------------------------------------------------
 */

static struct applied *find_applied(struct world *w, client_id client, op_sequence sequence)
{
    for (uint64_t i = 1; i <= w->count; i++) {
        if (w->log[i].client == client && w->log[i].sequence == sequence) {
            return &w->log[i];
        }
    }
    return NULL;
}

static bool same_outcome(const struct op_outcome *a, const struct op_outcome *b)
{
    return a->target == b->target && a->deleted == b->deleted;
}

/* The core has judged a change: the model judges too. */
static void check_verdict(struct sim *s, const struct op_message *m, int status,
                          const struct op_outcome *outcome)
{
    struct world *w = world_of(s);
    bool makes = m->change.kind == CHANGE_MAKE_FILE || m->change.kind == CHANGE_MAKE_DIR;
    inode_id gone;
    int want = model_apply(&w->model, &m->change, outcome->target, &gone);

    if (status != want) {
        (void)sim_fail(s, "change %llu of client %llx: %s, the model says %s",
                       (unsigned long long)m->sequence, (unsigned long long)m->client,
                       status_name(status), status_name(want));
        return;
    }
    if (status != 0) {
        return;
    }
    if (outcome->deleted != (gone != INODE_NONE) ||
        (!makes && outcome->deleted && outcome->target != gone)) {
        (void)sim_fail(s, "inode %llu was removed, the model says %llu",
                       (unsigned long long)outcome->target, (unsigned long long)gone);
    }
    if (find_applied(w, m->client, m->sequence) != NULL) {
        (void)sim_fail(s, "change %llu of client %llx is applied twice",
                       (unsigned long long)m->sequence, (unsigned long long)m->client);
    }
    for (uint32_t i = 0; i < w->refused_count && !w->datagrams; i++) {
        if (w->refused[i].client == m->client && w->refused[i].sequence == m->sequence) {
            (void)sim_fail(s, "change %llu of client %llx is applied after its client took a no",
                           (unsigned long long)m->sequence, (unsigned long long)m->client);
        }
    }
}

static void note_applied(struct sim *s, const struct op_message *m,
                         const struct op_outcome *outcome)
{
    struct world *w = world_of(s);
    struct applied *a = &w->log[++w->count];

    CHECK(w->count <= APPLIED_MAX);
    if (ns_counters(w->db.ns)->sequence != w->count) {
        (void)sim_fail(s, "the log counts %llu operations, %llu were applied",
                       (unsigned long long)ns_counters(w->db.ns)->sequence,
                       (unsigned long long)w->count);
    }
    *a = (struct applied){ .committed_ms = s->now_ms };
    if (m != NULL) {
        a->client = m->client;
        a->sequence = m->sequence;
        a->change = m->change;
        a->outcome = *outcome;
    }
}

/* Names, links and numbers of the namespace are those of the model. */
static void check_namespace(struct sim *s)
{
    struct world *w = world_of(s);
    const struct model *m = &w->model;
    struct errmsg err;
    struct inode inode;

    for (uint32_t i = 0; i < m->entry_count; i++) {
        int rv = ns_lookup(w->db.ns, m->entries[i].parent, text(m->entries[i].name), &inode, &err);

        if (rv != 0 || inode.id != m->entries[i].inode) {
            (void)sim_fail(s, "name %s of inode %llu is not there", m->entries[i].name,
                           (unsigned long long)m->entries[i].parent);
            return;
        }
    }
    for (uint32_t i = 0; i < m->inode_count; i++) {
        const struct model_inode *want = &m->inodes[i];
        int rv = ns_inode(w->db.ns, want->id, &inode, &err);

        if (rv != 0 || (want->directory ? inode.entries != model_children(m, want->id)
                                        : inode.nlink != want->names)) {
            (void)sim_fail(s, "inode %llu is not as it should be", (unsigned long long)want->id);
            return;
        }
    }
    if (ns_counters(w->db.ns)->inodes != m->inode_count) {
        (void)sim_fail(s, "there are %llu inodes instead of %u",
                       (unsigned long long)ns_counters(w->db.ns)->inodes, m->inode_count);
    }
}

/* After a crash `sequence` operations are left: forget the others. */
static void forget(struct sim *s, uint64_t sequence)
{
    struct world *w = world_of(s);
    inode_id gone;

    if (sequence < w->durable || sequence > w->count) {
        (void)sim_fail(s, "%llu operations are left, %llu were durable",
                       (unsigned long long)sequence, (unsigned long long)w->durable);
        return;
    }
    w->count = w->durable = sequence;
    model_init(&w->model);
    for (uint64_t i = 1; i <= w->count; i++) {
        if (w->log[i].client != 0) {
            (void)model_apply(&w->model, &w->log[i].change, w->log[i].outcome.target, &gone);
        }
    }
    check_namespace(s);
}

/* ---- The manager --------------------------------------------------------------------------------
 */

static void answer(struct sim *s, uint32_t node, uint32_t conn, const struct op_message *reply)
{
    if (conn == 0) {
        sim_send_datagram(s, MANAGER, node, reply, sizeof(*reply));
    } else {
        sim_send(s, MANAGER, conn, reply, sizeof(*reply));
    }
}

static struct meta_op op_of(const struct op_message *m)
{
    const struct change *c = &m->change;
    struct meta_op op;

    switch (c->kind) {
    case CHANGE_MAKE_FILE:
    case CHANGE_MAKE_DIR:
        op = op_make(c->parent, c->name, c->kind == CHANGE_MAKE_DIR ? 0040755 : 0100644);
        break;
    case CHANGE_UNLINK:
    case CHANGE_RMDIR:
        op = op_unlink(c->parent, c->name, c->kind == CHANGE_RMDIR);
        break;
    case CHANGE_RENAME:
        op = op_rename(c->parent, c->name, c->new_parent, c->new_name, 0);
        break;
    case CHANGE_LINK:
        op = op_link(c->inode, c->new_parent, c->new_name);
        break;
    }
    op.client = m->client;
    op.client_sequence = m->sequence;
    op.answered = m->answered;
    return op;
}

/* As change_begin(): true when the change is to be judged, otherwise `reply` is the answer. */
static bool judge(struct sim *s, const struct op_message *m, struct op_message *reply)
{
    struct world *w = world_of(s);
    enum op_window_verdict verdict = OP_WINDOW_NEW;
    bool reserved = op_window_reserve(w->window, m->client);

    CHECK(reserved);
    if (!sim_canary(s, "no_window")) {
        verdict = op_window_find(w->window, m->client, m->sequence, m->answered, &reply->outcome);
    }
    if (verdict == OP_WINDOW_FORGOTTEN) {
        reply->status = MORSEL_STALE;
    } else if (verdict == OP_WINDOW_TOO_FAR) {
        (void)sim_fail(s, "a client that keeps the rules is too far");
    }
    return verdict == OP_WINDOW_NEW;
}

/* The answer to a change that was applied is always the same one. */
static void check_answer(struct sim *s, uint32_t node, const struct op_message *reply)
{
    struct world *w = world_of(s);
    const struct client *c = &w->clients[node];
    const struct applied *a = find_applied(w, reply->client, reply->sequence);
    bool waits = false;

    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        waits |= c->id == reply->client && c->pending[i].active &&
                 c->pending[i].message.sequence == reply->sequence;
    }
    if (a != NULL && waits && (reply->status != 0 || !same_outcome(&a->outcome, &reply->outcome))) {
        (void)sim_fail(s, "the answer to change %llu of %s differs from the first one",
                       (unsigned long long)reply->sequence, s->nodes[node].name);
    }
    if (a == NULL && reply->status == 0) {
        (void)sim_fail(s, "change %llu of %s is answered, but not applied",
                       (unsigned long long)reply->sequence, s->nodes[node].name);
    }
}

static void take_change(struct sim *s, uint32_t node, uint32_t conn, const struct op_message *m)
{
    struct world *w = world_of(s);
    struct op_message reply = { .word = WORD_REPLY, .client = m->client };
    bool again = true;

    reply.sequence = m->sequence;
    if (judge(s, m, &reply)) {
        struct meta_op op = op_of(m);

        again = false;
        reply.status = db_execute(&w->db, &op);
        reply.outcome = (struct op_outcome){ op.target, op.deleted };
        check_verdict(s, m, reply.status, &reply.outcome);
        if (reply.status == 0) {
            bool noted =
                op_window_note(w->window, m->client, m->sequence, m->answered, &reply.outcome);

            CHECK(noted);
            note_applied(s, m, &reply.outcome);
        }
    }
    sim_trace(s, MANAGER, "%s %llu: %s%s", s->nodes[node].name, (unsigned long long)m->sequence,
              reply.status == 0 ? "done" : status_name(reply.status), again ? " (again)" : "");
    check_answer(s, node, &reply);
    answer(s, node, conn, &reply);
}

static void run_durable(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct op_message reply = { .word = WORD_REPLY };

    (void)node;
    if (w->durable < w->fsync[number].count) {
        w->durable = w->fsync[number].count; /* Promised from now on. */
    }
    reply.sequence = w->fsync[number].number;
    answer(s, w->fsync[number].node, w->fsync[number].conn, &reply);
}

static void take_fsync(struct sim *s, uint32_t node, uint32_t conn, const struct op_message *m)
{
    struct world *w = world_of(s);
    uint64_t number = w->fsyncs++;

    CHECK(number < APPLIED_MAX);
    w->fsync[number].conn = conn;
    w->fsync[number].node = node;
    w->fsync[number].number = m->sequence;
    w->fsync[number].count = w->count;
    if (sim_canary(s, "lying_fsync")) {
        run_durable(s, MANAGER, number);
    } else {
        db_wait(&w->db, run_durable, number);
    }
}

/* A client that connects anew has given up its older connections: nothing that still comes on them
 * may count. */
static void supersede(struct sim *s, uint32_t from, uint32_t conn)
{
    for (uint32_t i = 1; i < conn && !sim_canary(s, "old_connections"); i++) {
        if (s->conns[i - 1].ends[0] == from && s->conns[i - 1].open[1]) {
            sim_hang_up(s, MANAGER, i);
        }
    }
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct op_message m;

    (void)node;
    memcpy(&m, message->data, sizeof(m));
    supersede(s, message->from, message->conn);
    if (m.word == WORD_FSYNC) {
        take_fsync(s, message->from, message->conn, &m);
    } else {
        take_change(s, message->from, message->conn, &m);
    }
}

static bool visit_log(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct op_outcome outcome = { op->target, op->deleted };

    (void)sequence;
    return op_window_note(data, op->client, op->client_sequence, op->answered, &outcome);
}

static void manager_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct meta_op op = { .kind = OP_START };
    struct errmsg err;

    if (!db_start(&w->db, NULL)) {
        return;
    }
    w->window = op_window_new();
    CHECK(w->window != NULL);
    sim_trace(s, node, "start behind operation %llu of %llu",
              (unsigned long long)ns_counters(w->db.ns)->sequence, (unsigned long long)w->count);
    forget(s, ns_counters(w->db.ns)->sequence);
    if (db_execute(&w->db, &op) == 0) {
        note_applied(s, NULL, NULL);
    }
    if (!sim_canary(s, "empty_window")) {
        (void)ns_log(w->db.ns, 0, visit_log, w->window, &err);
    }
    (void)w->db.kv->sync(w->db.kv, NULL);
    w->durable = w->count;
}

static void manager_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);

    (void)node;
    while (w->durable < w->count &&
           (!machine || w->log[w->durable + 1].committed_ms + DB_LOSS_MS_MAX < s->now_ms)) {
        w->durable++;
    }
    op_window_free(w->window);
    w->window = NULL;
    db_stop(&w->db, machine);
}

static void manager_down(struct sim *s, uint32_t node, uint32_t conn)
{
    (void)s;
    (void)node;
    (void)conn;
}

/* ---- A client -----------------------------------------------------------------------------------
 */

static void send_message(struct sim *s, uint32_t node, const struct op_message *m)
{
    struct world *w = world_of(s);

    if (w->datagrams) {
        sim_send_datagram(s, node, MANAGER, m, sizeof(*m));
    } else if (w->clients[node].conn != 0) {
        sim_send(s, node, w->clients[node].conn, m, sizeof(*m));
    }
}

static void send_fsync(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];
    struct op_message m = { .word = WORD_FSYNC, .client = c->id };

    m.sequence = c->fsync;
    send_message(s, node, &m);
}

/* Everything that waits is sent: after so long without an answer, or on a new connection. */
static void send_all(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (c->pending[i].active) {
            send_message(s, node, &c->pending[i].message);
        }
    }
    if (c->fsync != 0) {
        send_fsync(s, node);
    }
}

static void run_connect(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];

    (void)number;
    c->conn = sim_connect(s, node, MANAGER);
    if (c->conn == 0) {
        sim_after(s, node, RECONNECT_MS, run_connect, 0);
    } else {
        send_all(s, node);
    }
}

static void end_pending(struct sim *s, uint32_t node, struct pending *p)
{
    struct client *c = &world_of(s)->clients[node];

    p->active = false;
    op_numbers_return(&c->numbers, p->message.sequence);
}

static void run_retry(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct client *c = &w->clients[node];

    (void)number;
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &c->pending[i];

        if (p->active && s->now_ms >= p->started_ms + TIMEOUT_MS) {
            if (!s->faulty && p->started_ms > w->healed_ms && w->healed_ms > 0) {
                (void)sim_fail(s, "%s waits in vain although all is well again",
                               s->nodes[node].name);
            }
            end_pending(s, node, p);
        }
        if (p->active && sim_canary(s, "early_return") && s->now_ms > p->started_ms + RETRY_MS) {
            p->message.answered = p->message.sequence; /* As if it had the answer. */
        }
    }
    if (w->datagrams) {
        send_all(s, node);
    }
    sim_after(s, node, RETRY_MS, run_retry, 0);
}

static inode_id draw_known(struct sim *s, const struct client *c)
{
    inode_id id = c->known[prng_below(&s->prng, KNOWN_MAX)];

    return id == INODE_NONE || prng_below(&s->prng, 2) == 0 ? INODE_ROOT : id;
}

static void draw_name(struct sim *s, char name[MODEL_NAME_BYTES])
{
    name[0] = (char)('a' + prng_below(&s->prng, 5));
    name[1] = 0;
}

static void draw_change(struct sim *s, const struct client *c, struct change *change)
{
    memset(change, 0, sizeof(*change));
    change->kind = (enum change_kind)prng_below(&s->prng, CHANGE_LINK + 1);
    change->parent = draw_known(s, c);
    change->new_parent = draw_known(s, c);
    change->inode = draw_known(s, c);
    draw_name(s, change->name);
    draw_name(s, change->new_name);
}

static void begin(struct sim *s, uint32_t node, struct pending *p, const struct change *change)
{
    struct client *c = &world_of(s)->clients[node];

    *p = (struct pending){ .active = true, .started_ms = s->now_ms };
    p->message.word = WORD_CHANGE;
    p->message.client = c->id;
    p->message.sequence = op_numbers_take(&c->numbers);
    p->message.answered = c->numbers.answered;
    p->message.change = *change;
    CHECK(p->message.sequence != 0);
    send_message(s, node, &p->message);
}

/* Begin something new, or not. */
static void run_think(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];
    struct pending *p = &c->pending[prng_below(&s->prng, PENDING_MAX)];
    struct change change;

    (void)number;
    if (s->scripted) {
        return;
    }
    sim_after(s, node, prng_below(&s->prng, THINK_MS_MAX), run_think, 0);
    if (!p->active) {
        draw_change(s, c, &change);
        begin(s, node, p, &change);
    } else if (c->fsync == 0 && prng_below(&s->prng, 4) == 0) {
        c->fsync = s->now_ms + 1;
        send_fsync(s, node);
    }
}

static void client_start(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    memset(c, 0, sizeof(*c));
    c->id = prng_next(&s->prng) | 1;
    op_numbers_init(&c->numbers);
    if (!world_of(s)->datagrams) {
        run_connect(s, node, 0);
    }
    sim_after(s, node, 0, run_think, 0);
    sim_after(s, node, RETRY_MS, run_retry, 0);
}

static void client_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct client *c = &world_of(s)->clients[node];

    if (c->conn == conn) {
        c->conn = 0;
        sim_after(s, node, prng_below(&s->prng, RECONNECT_MS), run_connect, 0);
    }
}

static void take_answer(struct sim *s, uint32_t node, struct pending *p, const struct op_message *m)
{
    struct world *w = world_of(s);
    struct applied *a = find_applied(w, m->client, m->sequence);

    if (m->status != 0) {
        CHECK(w->refused_count < REFUSED_MAX);
        w->refused[w->refused_count++] = (struct refused){ m->client, m->sequence };
        if (a != NULL && !w->datagrams) {
            (void)sim_fail(s, "%s takes a no for change %llu, which was applied",
                           s->nodes[node].name, (unsigned long long)m->sequence);
        }
    } else if (m->outcome.target != INODE_NONE && !m->outcome.deleted) {
        w->clients[node].known[prng_below(&s->prng, KNOWN_MAX)] = m->outcome.target;
    }
    end_pending(s, node, p);
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = &world_of(s)->clients[node];
    struct op_message m;

    memcpy(&m, message->data, sizeof(m));
    if (message->conn != c->conn) {
        return;
    }
    if (m.client == 0) {
        c->fsync = m.sequence == c->fsync ? 0 : c->fsync;
        return;
    }
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (m.client == c->id && c->pending[i].active &&
            c->pending[i].message.sequence == m.sequence) {
            take_answer(s, node, &c->pending[i], &m);
            return;
        }
    }
}

/* ---- The scenario -------------------------------------------------------------------------------
 */

static const struct sim_actor manager_actor = { manager_start, manager_stop, manager_receive,
                                                manager_down };
static const struct sim_actor client_actor = { client_start, NULL, client_receive, client_down };

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "", "anna", "ben", "cleo", "dan" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    s->world = w;
    w->datagrams = s->scripted || prng_below(&s->prng, 2) == 0;
    if (sim_canary(s, "old_connections")) { /* A rare meeting: make it likely. */
        w->datagrams = false;
        s->options.late_permille = 1000;
        s->options.break_permille = 100;
        s->options.delay_ms_max = 200;
    }
    w->client_count = 1 + (uint32_t)prng_below(&s->prng, CLIENTS_MAX);
    (void)sim_node_add(s, "meta", &manager_actor, true);
    db_init(&w->db, s, MANAGER);
    model_init(&w->model);
    w->count = w->durable = 1; /* OP_FORMAT */
    sim_start(s, MANAGER);
    for (uint32_t i = 1; i <= w->client_count; i++) {
        uint32_t node = sim_node_add(s, names[i], &client_actor, true);

        sim_start(s, node);
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    op_window_free(w->window);
    db_free(&w->db);
    free(w);
}

static bool scenario_check(struct sim *s)
{
    if (!s->faulty && world_of(s)->healed_ms == 0) {
        world_of(s)->healed_ms = s->now_ms;
    }
    return !s->failed;
}

static bool scenario_finish(struct sim *s)
{
    check_namespace(s);
    return !s->failed;
}

static const char *const canaries[] = { "no_window",    "empty_window",    "lying_fsync",
                                        "early_return", "old_connections", NULL };

static const struct sim_scenario scenario = { .name = "ops",
                                              .faults_ms = 2500,
                                              .healing_ms = 3500,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries };

/* ---- Transcripts --------------------------------------------------------------------------------
 */

enum { ANNA = 1 };

/* The change arrives, its answer does not. */
static void ask_in_vain(struct sim *s, enum change_kind kind)
{
    struct change change = { .kind = kind, .parent = INODE_ROOT, .name = "a" };

    begin(s, ANNA, &world_of(s)->clients[ANNA].pending[0], &change);
    s->options.loss_permille = 1000;
    sim_run_until(s, s->now_ms + 1);
    s->options.loss_permille = 0;
}

static bool a_lost_answer(struct sim *s)
{
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_run_until(s, 200);
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_run_until(s, 400);
    return sim_expect(s, "[    0] meta > start behind operation 1 of 1\n"
                         "[    0] meta > anna 1: done\n"
                         "[   60] meta > anna 1: done (again)\n"
                         "[  200] meta > anna 2: MORSEL_EXIST\n"
                         "[  240] meta > anna 2: MORSEL_EXIST\n");
}

static bool a_lost_answer_and_a_restart(struct sim *s)
{
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_crash(s, MANAGER, false);
    sim_run_until(s, 100);
    sim_start(s, MANAGER);
    sim_run_until(s, 200);
    return sim_expect(s, "[    0] meta > start behind operation 1 of 1\n"
                         "[    0] meta > anna 1: done\n"
                         "[    1] meta > ** process is killed\n"
                         "[  100] meta > start behind operation 3 of 3\n"
                         "[  120] meta > anna 1: done (again)\n");
}

static bool a_lost_answer_and_a_loss_of_power(struct sim *s)
{
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_crash(s, MANAGER, true);
    sim_run_until(s, 100);
    sim_start(s, MANAGER);
    sim_run_until(s, 200);
    return sim_expect(s, "[    0] meta > start behind operation 1 of 1\n"
                         "[    0] meta > anna 1: done\n"
                         "[    1] meta > ** power is lost\n"
                         "[    1] meta > 0 of 1 unsynced batches survived\n"
                         "[  100] meta > start behind operation 2 of 3\n"
                         "[  120] meta > anna 1: done\n");
}

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = {
        { "a_lost_answer", a_lost_answer },
        { "a_lost_answer_and_a_restart", a_lost_answer_and_a_restart },
        { "a_lost_answer_and_a_loss_of_power", a_lost_answer_and_a_loss_of_power },
        { NULL, NULL },
    };

    return sim_main(argc, argv, &scenario, transcripts);
}
