/* The manager of the power scenario: a host for src/meta/storage/runs.c, reply_cache.c and the
 * namespace that does what src/meta/service/handlers_change_uv.c, handlers_durable_uv.c, reply_uv.c
 * and run_file.c do. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"
#include "tests/sim/power.h"

#include <string.h>

static void answer(struct sim *s, uint32_t conn, const struct power_message *m)
{
    sim_send(s, MANAGER, conn, m, sizeof(*m));
}

/* As durable_fill(). */
static void fill_held(const struct world *w, struct power_message *m)
{
    m->held_count = 1;
    m->held[0] = (struct changes_held){ w->runs.run, w->durable_number };
    for (uint32_t i = 0; i < w->runs.count; i++) {
        m->held[m->held_count++] =
            (struct changes_held){ w->runs.before[i].run, w->runs.before[i].number };
    }
}

/* As changed_fill(). */
static void fill_changed(const struct world *w, struct power_message *m)
{
    m->run = w->runs.run;
    m->number = ns_counters(w->db.ns)->sequence;
    m->durable_number = w->durable_number;
}

static void fill_file(struct sim *s, struct power_message *m)
{
    struct world *w = world_of(s);
    struct errmsg err = { "" };
    struct inode inode;
    struct buf columns;
    int rv = ns_inode(w->db.ns, w->files[m->file], &inode, &err);

    buf_init(&columns);
    CHECK(rv == 0);
    rv = ns_unsynced(w->db.ns, &inode, &columns, &err);
    CHECK(rv == 0);
    m->size = inode.size;
    m->data_version = inode.data_version;
    m->column_count = (uint32_t)op_unsynced_count(buf_slice(&columns));
    for (uint32_t i = 0; i < m->column_count; i++) {
        m->columns[i] = op_unsynced_at(buf_slice(&columns), i);
    }
    buf_free(&columns);
}

/* ---- What waits for the disk ---- */

static void run_durable(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct power_message *m = &w->waits[number].message;

    (void)node;
    if (m->number > w->durable_number) {
        w->durable_number = m->number;
    }
    if (m->dir == NO_DIR) {
        fill_file(s, m);
    }
    fill_held(w, m);
    answer(s, w->waits[number].conn, m);
}

/* `m` is answered when everything up to now is on disk. */
static void when_durable(struct sim *s, uint32_t conn, const struct power_message *m)
{
    struct world *w = world_of(s);
    uint32_t number = w->wait_count++;

    CHECK(number < WAITS_MAX);
    w->waits[number] = (struct wait){ conn, *m };
    w->waits[number].message.number = ns_counters(w->db.ns)->sequence;
    if (sim_canary(s, "lying_fsync")) {
        uint64_t durable = w->durable_number;

        run_durable(s, MANAGER, number);
        w->durable_number = durable;
    } else {
        db_wait(&w->db, run_durable, number);
    }
}

/* ---- Changes ---- */

static struct meta_op op_of_name(const struct world *w, const struct power_message *m)
{
    const char name[] = { m->name, 0 }, new_name[] = { m->new_name, 0 };

    if (m->kind == NAME_MAKE) {
        return op_make(w->dirs[m->dir], name, 0100644);
    }
    if (m->kind == NAME_UNLINK) {
        return op_unlink(w->dirs[m->dir], name, false);
    }
    CHECK(m->kind == NAME_RENAME);
    return op_rename(w->dirs[m->dir], name, w->dirs[m->new_dir], new_name, 0);
}

/* Execute it; its words live until then. */
static int execute(struct sim *s, const struct power_message *m, struct op_outcome *outcome)
{
    struct world *w = world_of(s);
    const char name[] = { m->name, 0 }, new_name[] = { m->new_name, 0 };
    struct meta_op op = { .kind = m->word == WORD_WROTE ? OP_SIZE_REPORT : OP_SYNCED };
    struct buf columns;
    int rv;

    buf_init(&columns);
    for (uint32_t i = 0; i < m->column_count; i++) {
        op_unsynced_put(&columns, m->columns[i]);
    }
    if (m->word == WORD_NAME) {
        op = op_of_name(w, m);
        if (m->kind == NAME_RENAME) {
            op.rename.name = text(name);
            op.rename.new_name = text(new_name);
        } else if (m->kind == NAME_MAKE) {
            op.make.name = text(name);
        } else {
            op.unlink.name = text(name);
        }
    } else if (m->word == WORD_WROTE) {
        op.size_report.inode = w->files[m->file];
        op.size_report.size = m->size;
        op.size_report.unsynced = buf_slice(&columns);
    } else {
        op.synced.inode = w->files[m->file];
        op.synced.data_version = m->data_version;
        op.synced.columns = buf_slice(&columns);
    }
    op.client = m->client;
    op.client_sequence = m->sequence;
    op.answered = m->answered;
    rv = db_execute(&w->db, &op);
    *outcome = (struct op_outcome){ op.target, op.deleted };
    buf_free(&columns);
    return rv;
}

static void take_change(struct sim *s, uint32_t conn, const struct power_message *m)
{
    struct world *w = world_of(s);
    struct power_message reply = *m;
    struct op_outcome outcome;
    bool good = reply_cache_reserve(w->window, m->client);

    CHECK(good);
    reply.status = 0;
    if (reply_cache_find(w->window, m->client, m->sequence, m->answered, &outcome) ==
        REPLY_CACHE_NEW) {
        reply.status = execute(s, m, &outcome);
        if (reply.status == 0) {
            good = reply_cache_note(w->window, m->client, m->sequence, m->answered, &outcome);
            CHECK(good);
            judge_logged(s, m);
        }
    }
    if (reply.status != 0) {
        answer(s, conn, &reply);
        return;
    }
    sim_trace(s, MANAGER, "operation %llu", (unsigned long long)ns_counters(w->db.ns)->sequence);
    if (m->word == WORD_WROTE && m->durable) {
        when_durable(s, conn, &reply);
        return;
    }
    fill_changed(w, &reply);
    if (m->word == WORD_WROTE) {
        fill_file(s, &reply);
    }
    reply.column_count = 0;
    answer(s, conn, &reply);
}

static void supersede(struct sim *s, uint32_t from, uint32_t conn)
{
    for (uint32_t i = 1; i < conn; i++) {
        const struct sim_conn *c = &s->conns[i - 1];

        if (c->ends[0] == from && c->ends[1] == MANAGER && c->open[1]) {
            sim_hang_up(s, MANAGER, i);
        }
    }
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct power_message m;

    (void)node;
    memcpy(&m, message->data, sizeof(m));
    supersede(s, message->from, message->conn);
    m.status = 0;
    if (m.word == WORD_JOIN) {
        fill_held(world_of(s), &m);
        answer(s, message->conn, &m);
    } else if (m.word == WORD_FSYNC) {
        when_durable(s, message->conn, &m);
    } else {
        take_change(s, message->conn, &m);
    }
}

/* ---- Its life ---- */

/* As run_begin(): through the text of the file. */
static void begin_run(struct sim *s)
{
    struct world *w = world_of(s);
    struct runs known;
    bool there = runs_parse(&known, w->run_text);

    runs_begin(&w->runs, there ? &known : NULL, sim_canary(s, "same_run") ? 1 : w->boot_id,
               ns_counters(w->db.ns)->sequence, prng_next(&s->prng) | 1);
    w->run_text[runs_format(&w->runs, w->run_text)] = 0;
}

static bool visit_log(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct op_outcome outcome = { op->target, op->deleted };

    (void)sequence;
    return reply_cache_note(data, op->client, op->client_sequence, op->answered, &outcome);
}

static void make_files(struct world *w)
{
    static const char *const names[] = { "dir", "dir2", "file", "file2" };
    struct errmsg err;
    int rv;

    for (uint32_t i = 0; i < DIRS + FILES; i++) {
        struct meta_op op = op_make(INODE_ROOT, names[i], i < DIRS ? 0040755 : 0100644);

        rv = db_execute(&w->db, &op);
        CHECK(rv == 0);
        *(i < DIRS ? &w->dirs[i] : &w->files[i - DIRS]) = op.target;
        w->log[++w->count] = (struct logged){ .file = -1 };
    }
    rv = w->db.kv->sync(w->db.kv, &err);
    CHECK(rv == 0);
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
    w->durable_number = 0;
    begin_run(s);
    sim_trace(s, node, "start behind operation %llu",
              (unsigned long long)ns_counters(w->db.ns)->sequence);
    if (db_execute(&w->db, &op) == 0) {
        w->log[++w->count] = (struct logged){ .file = -1 };
    }
    if (w->files[0] == INODE_NONE) {
        make_files(w);
    }
    (void)ns_log(w->db.ns, 0, visit_log, w->window, &err);
}

static void manager_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);
    uint32_t unsynced = kv_forgetful_unsynced(w->db.kv);

    (void)node;
    reply_cache_free(w->window);
    w->window = NULL;
    db_stop(&w->db, machine);
    if (machine) {
        struct errmsg err = { "" };
        struct ns *ns = NULL;
        int rv = ns_open(w->db.kv, NULL, &ns, &err);

        CHECK(rv == 0 && unsynced <= w->count);
        w->boot_id++;
        w->db.ns = ns; /* The judge looks at what is left. */
        judge_manager_lost(s, ns_counters(ns)->sequence);
        ns_close(ns);
        w->db.ns = NULL;
    }
}

static void manager_down(struct sim *s, uint32_t node, uint32_t conn)
{
    (void)s;
    (void)node;
    (void)conn;
}

const struct sim_actor power_manager = { manager_start, manager_stop, manager_receive,
                                         manager_down };
