/* The operation log under crashes: random operations on src/meta/namespace, killed and cut from
 * power between any two of them.
 *
 * The checkers keep what they saw: the bytes of each operation, and a digest of all records of the
 * store after it. Whatever a crash leaves must be one of these states, with its log. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/kv_forgetful.h"
#include "tests/lib/ns_fixture.h"
#include "tests/sim/db.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

enum {
    MANAGER = 0,
    OPS_MAX = 4096,
    IDS_MAX = 2048, /* Inodes that were ever given out; the newest are used. */
    GAP_MS_MAX = 20,
    CHURN_IDS = 40 /* Operations prefer the newest inodes. */
};

/* What was seen of one operation of the log. */
struct entry
{
    struct buf bytes;
    uint64_t digest; /* Of the store behind it. */
    uint64_t committed_ms;
};

struct world
{
    struct db db;
    uint64_t count;   /* Of the log. */
    uint64_t durable; /* So much must be there after a loss of power. */
    struct entry log[OPS_MAX + 1];
    uint32_t given_count;
    inode_id given[IDS_MAX];
    bool open[IDS_MAX]; /* By place in `given`. */
    int failing;        /* The disk is full. */
};

static struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- What is expected ---- */

static uint64_t digest_of(struct kv *kv)
{
    uint64_t digest = 14695981039346656037U;
    struct buf dump;

    buf_init(&dump);
    kv_forgetful_dump(kv, &dump);
    CHECK(!dump.failed);
    for (size_t i = 0; i < dump.count; i++) {
        digest = (digest ^ dump.data[i]) * 1099511628211U;
    }
    buf_free(&dump);
    return digest;
}

/* The operation was applied: it is the next of the log. */
static void note_applied(struct sim *s, const struct meta_op *op)
{
    struct world *w = world_of(s);
    struct entry *entry;

    w->count++;
    CHECK(w->count <= OPS_MAX);
    if (ns_counters(w->db.ns)->sequence != w->count) {
        (void)sim_fail(s, "operation %llu got number %llu", (unsigned long long)w->count,
                       (unsigned long long)ns_counters(w->db.ns)->sequence);
    }
    entry = &w->log[w->count];
    buf_clear(&entry->bytes);
    op_encode(op, &entry->bytes);
    entry->digest = digest_of(w->db.kv);
    entry->committed_ms = s->now_ms;
}

/* No inode id is ever given twice, not even when a crash took the first one back. */
static void note_made(struct sim *s, inode_id id)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->given_count; i++) {
        if (w->given[i] == id) {
            (void)sim_fail(s, "inode id %llu is given out again", (unsigned long long)id);
            return;
        }
    }
    CHECK(w->given_count < IDS_MAX);
    w->open[w->given_count] = prng_below(&s->prng, 4) == 0;
    w->given[w->given_count++] = id;
}

struct log_walk
{
    struct sim *s;
    uint64_t seen;
};

static bool visit_log(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct log_walk *walk = data;
    const struct buf *want = &world_of(walk->s)->log[sequence].bytes;
    struct buf have;
    bool same;

    buf_init(&have);
    op_encode(op, &have);
    same = sequence == walk->seen + 1 && have.count == want->count &&
           memcmp(have.data, want->data, have.count) == 0;
    buf_free(&have);
    walk->seen = sequence;
    return same || sim_fail(walk->s, "operation %llu of the log is not the one that was applied",
                            (unsigned long long)sequence);
}

/* After a start: state and log are those behind operation `count`. */
static void check_store(struct sim *s)
{
    struct world *w = world_of(s);
    struct log_walk walk = { s, 0 };
    struct errmsg err;

    if (digest_of(w->db.kv) != w->log[w->count].digest) {
        (void)sim_fail(s, "the store is not what it was behind operation %llu",
                       (unsigned long long)w->count);
    }
    if (ns_log(w->db.ns, 1, visit_log, &walk, &err) != 0 || walk.seen != w->count) {
        (void)sim_fail(s, "the log ends at %llu, the state is that of %llu",
                       (unsigned long long)walk.seen, (unsigned long long)w->count);
    }
}

/* The log, applied to an empty store, gives the same bytes. */
static void check_replay(struct sim *s)
{
    struct world *w = world_of(s);
    struct kv *kv = kv_forgetful_open(&s->prng);
    struct errmsg err = { "" };
    struct ns *ns;
    int rv;

    CHECK(kv != NULL);
    rv = ns_open(kv, NULL, &ns, &err);
    CHECK(rv == 0);
    for (uint64_t i = 1; i <= w->count && rv == 0; i++) {
        struct meta_op op;

        rv = op_decode(buf_slice(&w->log[i].bytes), &op);
        op.time_ns += sim_canary(s, "other_time");
        rv = rv == 0 ? ns_replay(ns, &op, &err) : rv;
    }
    if (rv != 0 || digest_of(kv) != w->log[w->count].digest) {
        (void)sim_fail(s, "the log replayed gives another store (%s)", err.text);
    }
    ns_close(ns);
    kv->close(kv);
}

/* ---- Random operations ---- */

static inode_id draw_inode(struct sim *s)
{
    struct world *w = world_of(s);
    uint32_t window = w->given_count < CHURN_IDS ? w->given_count : CHURN_IDS;

    if (window == 0 || prng_below(&s->prng, 4) == 0) {
        return INODE_ROOT;
    }
    return w->given[w->given_count - 1 - prng_below(&s->prng, window)];
}

static const char *draw_name(struct sim *s)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "ff" };

    return names[prng_below(&s->prng, ARRAY_COUNT(names))];
}

static struct meta_op draw_make(struct sim *s)
{
    static const uint32_t modes[] = { 0040755, 0040755, 0100644, 0100644, 0120777, 0010600 };
    inode_id parent = draw_inode(s);
    const char *name = draw_name(s);
    struct meta_op op = op_make(parent, name, modes[prng_below(&s->prng, ARRAY_COUNT(modes))]);

    if (prng_below(&s->prng, 12) == 0) {
        op.make.orphan = true;
        op.make.name = text("");
    }
    return op;
}

static struct meta_op draw_rename(struct sim *s)
{
    inode_id from = draw_inode(s), to = draw_inode(s);
    const char *name = draw_name(s), *new_name = draw_name(s);

    return op_rename(from, name, to, new_name, (uint32_t)prng_below(&s->prng, 3));
}

static struct meta_op draw_wrote(struct sim *s)
{
    struct meta_op op = { .kind = OP_SIZE_REPORT };

    op.size_report.inode = draw_inode(s);
    op.size_report.size = prng_below(&s->prng, 5U << 20);
    op.size_report.reach = op.size_report.size;
    return op;
}

static struct meta_op draw_collect(struct sim *s)
{
    struct meta_op op = { .kind = OP_COLLECT };

    op.collect.inode = draw_inode(s);
    return op;
}

static struct meta_op draw_op(struct sim *s)
{
    inode_id inode = draw_inode(s), directory = draw_inode(s);
    const char *name = draw_name(s);

    switch (prng_below(&s->prng, 10)) {
    case 0:
        return op_unlink(directory, name, false);
    case 1:
        return op_unlink(directory, name, true);
    case 2:
    case 3:
        return draw_rename(s);
    case 4:
        return op_link(inode, directory, name);
    case 5:
        return op_xattr(inode, "user.x", text(name));
    case 6:
        return draw_wrote(s);
    case 7:
        return draw_collect(s);
    default:
        return draw_make(s);
    }
}

static bool is_open(void *data, inode_id inode)
{
    const struct world *w = data;

    for (uint32_t i = 0; i < w->given_count; i++) {
        if (w->given[i] == inode) {
            return w->open[i];
        }
    }
    return false;
}

/* ---- The manager ---- */

/* The history was worth its time. */
enum { WORTH_DURABLE, WORTH_DONE, WORTH_FULL, WORTH_TAKEN_BACK };

static void run_durable(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    sim_worth(s, WORTH_DURABLE);
    sim_trace(s, node, "durable up to %llu", (unsigned long long)number);
    w->durable = number > w->durable ? number : w->durable;
}

static void run_op(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct meta_op op = draw_op(s);
    int rv = db_execute(&w->db, &op);

    (void)number;
    sim_trace(s, node, "%s: %s", op_kind_name(op.kind), status_name(rv));
    if (w->failing != 0 && rv == 0) {
        (void)sim_fail(s, "an operation succeeds on a disk that failed");
    }
    if (rv == 0) {
        sim_worth(s, WORTH_DONE);
        note_applied(s, &op);
    }
    if (rv == 0 && op.kind == OP_CREATE) {
        note_made(s, op.target);
    }
    if (prng_below(&s->prng, 20) == 0) {
        db_wait(&w->db, run_durable, w->count);
    }
    sim_after(s, node, prng_below(&s->prng, GAP_MS_MAX + 1), run_op, 0);
}

/* The disk fills up: from now on nothing is taken, until the manager was started again. */
static void run_disk_full(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    sim_worth(s, WORTH_FULL);
    sim_trace(s, node, "** disk is full");
    world_of(s)->failing = MORSEL_NOSPC;
    kv_forgetful_fail(world_of(s)->db.kv, MORSEL_NOSPC);
}

/* Damage that a store of ours must never do: a record is missing after the crash. */
static bool visit_lose(void *data, struct slice key, struct slice value)
{
    struct kv_batch *batch = data;

    (void)value;
    if (key.data[0] != RECORD_DENTRY) {
        return true;
    }
    kv_batch_delete(batch, key);
    return false;
}

static void lose_a_record(struct kv *kv)
{
    const uint8_t from[] = { RECORD_DENTRY };
    struct kv_batch batch;

    kv_batch_init(&batch);
    (void)kv->scan(kv, (struct slice){ from, 1 }, visit_lose, &batch, NULL);
    (void)kv->commit(kv, &batch, false, NULL);
    kv_batch_free(&batch);
}

static void manager_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct ns_hooks hooks = { .is_open = is_open, .data = w };
    struct meta_op op = { .kind = OP_START };
    uint64_t sequence;

    if (sim_canary(s, "lost_record") && w->count > 1) {
        lose_a_record(w->db.kv);
    }
    if (!db_start(&w->db, &hooks)) {
        return;
    }
    sequence = ns_counters(w->db.ns)->sequence;
    sim_trace(s, node, "start behind operation %llu of %llu", (unsigned long long)sequence,
              (unsigned long long)w->count);
    if (sequence < w->count) {
        sim_worth(s, WORTH_TAKEN_BACK);
    }
    if (sequence < w->durable || sequence > w->count) {
        (void)sim_fail(s, "%llu operations are left, %llu were durable",
                       (unsigned long long)sequence, (unsigned long long)w->durable);
    }
    w->count = w->durable = sequence;
    if (w->count > 0 && w->log[w->count].bytes.count > 0) {
        check_store(s);
    }
    if (!sim_canary(s, "no_start") && db_execute(&w->db, &op) == 0) {
        note_applied(s, &op);
        (void)w->db.kv->sync(w->db.kv, NULL);
        w->durable = w->count;
    }
    sim_after(s, node, 0, run_op, 0);
    if (prng_below(&s->prng, 8) == 0) {
        sim_after(s, node, prng_below(&s->prng, 2000), run_disk_full, 0);
    }
}

static void manager_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);

    (void)node;
    if (machine) {
        /* Group syncs: older changes are durable although nobody asked. */
        while (w->durable < w->count &&
               w->log[w->durable + 1].committed_ms + DB_LOSS_MS_MAX < s->now_ms) {
            w->durable++;
        }
    } else {
        w->durable = w->count; /* The end of a process loses nothing. */
    }
    db_stop(&w->db, machine);
    kv_forgetful_fail(w->db.kv, 0);
    w->failing = 0;
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    (void)s;
    (void)node;
    (void)message;
}

/* ---- The scenario ---- */

static const struct sim_actor manager_actor = { manager_start, manager_stop, manager_receive,
                                                NULL };

static void scenario_open(struct sim *s)
{
    struct world *w = calloc(1, sizeof(*w));
    struct meta_op format = { .kind = OP_FORMAT };

    CHECK(w != NULL);
    s->world = w;
    /* Always crashes here: it is what this scenario is about. */
    s->options.crash_permille = 1 + (uint32_t)prng_below(&s->prng, 20);
    s->options.power_permille = 1 + (uint32_t)prng_below(&s->prng, 20);
    (void)sim_node_add(s, "meta", &manager_actor, true);
    db_init(&w->db, s, MANAGER);
    w->count = w->durable = 1;
    format.target = INODE_ROOT;
    op_encode(&format, &w->log[1].bytes);
    w->log[1].digest = digest_of(w->db.kv);
    sim_start(s, MANAGER);
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i <= OPS_MAX; i++) {
        buf_free(&w->log[i].bytes);
    }
    db_free(&w->db);
    free(w);
}

static bool scenario_check(struct sim *s)
{
    return !s->failed;
}

static bool scenario_finish(struct sim *s)
{
    check_store(s);
    check_replay(s);
    return !s->failed;
}

static const char *const canaries[] = { "no_start", "lost_record", "other_time", NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_DURABLE] = { "operations that are durable", 900 },
    [WORTH_DONE] = { "operations", 990 },
    [WORTH_FULL] = { "disks that fill up", 50 },
    [WORTH_TAKEN_BACK] = { "operations that a loss of power takes back", 100 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "oplog",
                                              .faults_ms = 3000,
                                              .healing_ms = 200,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries,
                                              .worth = worth };

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = { { NULL, NULL, NULL } };

    return sim_main(argc, argv, &scenario, transcripts);
}
