/* The manager of the ops scenario: a host for src/meta/service/reply_cache.c and the namespace that
 * does what src/meta/service/handlers_change_uv.c does, and the checkers of what was applied. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"
#include "tests/sim/ops.h"

#include <string.h>

/* ---- What is expected ---- */

struct applied *find_applied(struct world *w, client_id client, op_sequence sequence)
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

void check_namespace(struct sim *s)
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

/* ---- The manager ---- */

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

/* As the step recognise of request_uv.c: true when the change is to be judged, otherwise `reply` is the answer. */
static bool judge(struct sim *s, const struct op_message *m, struct op_message *reply)
{
    struct world *w = world_of(s);
    enum reply_cache_verdict verdict = REPLY_CACHE_NEW;
    bool reserved = reply_cache_reserve(w->window, m->client);

    CHECK(reserved);
    if (!sim_canary(s, "no_window")) {
        verdict = reply_cache_find(w->window, m->client, m->sequence, m->answered, &reply->outcome);
    }
    if (verdict == REPLY_CACHE_FORGOTTEN) {
        reply->status = MORSEL_STALE;
    }
    return verdict == REPLY_CACHE_NEW;
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
                reply_cache_note(w->window, m->client, m->sequence, m->answered, &reply.outcome);

            CHECK(noted);
            note_applied(s, m, &reply.outcome);
        }
    }
    sim_trace(s, MANAGER, "%s %llu: %s%s", s->nodes[node].name, (unsigned long long)m->sequence,
              reply.status == 0 ? "done" : status_name(reply.status), again ? " (again)" : "");
    sim_worth(s, again ? WORTH_AGAIN : WORTH_DONE);
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
    return reply_cache_note(data, op->client, op->client_sequence, op->answered, &outcome);
}

static void manager_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct meta_op op = { .kind = OP_START };
    struct errmsg err;

    if (!db_start(&w->db, NULL)) {
        return;
    }
    w->window = reply_cache_new();
    CHECK(w->window != NULL);
    sim_trace(s, node, "start behind operation %llu of %llu",
              (unsigned long long)ns_counters(w->db.ns)->sequence, (unsigned long long)w->count);
    if (ns_counters(w->db.ns)->sequence < w->count) {
        sim_worth(s, WORTH_TAKEN_BACK);
    }
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
    reply_cache_free(w->window);
    w->window = NULL;
    db_stop(&w->db, machine);
}

static void manager_down(struct sim *s, uint32_t node, uint32_t conn)
{
    (void)s;
    (void)node;
    (void)conn;
}

const struct sim_actor ops_manager = { manager_start, manager_stop, manager_receive, manager_down };
