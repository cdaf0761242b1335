#include "tests/sim/db.h"

#include "common/base/check.h"
#include "tests/lib/kv_forgetful.h"

#include <string.h>

void db_init(struct db *db, struct sim *s, uint32_t node)
{
    struct meta_op op = { .kind = OP_FORMAT };
    struct errmsg err = { "" };
    int rv;

    memset(db, 0, sizeof(*db));
    db->s = s;
    db->node = node;
    db->kv = kv_forgetful_open(&s->prng);
    CHECK(db->kv != NULL);
    rv = ns_open(db->kv, NULL, &db->ns, &err);
    CHECK(rv == 0);
    rv = ns_execute(db->ns, &op, &err);
    CHECK(rv == 0);
    rv = db->kv->sync(db->kv, &err);
    CHECK(rv == 0);
    ns_close(db->ns);
    db->ns = NULL;
}

void db_free(struct db *db)
{
    ns_close(db->ns);
    db->kv->close(db->kv);
}

bool db_start(struct db *db, const struct ns_hooks *hooks)
{
    struct errmsg err = { "" };
    int rv = db->kv->sync(db->kv, &err); /* As every opening does (src/meta/storage/kv.h). */

    CHECK(rv == 0);
    rv = ns_open(db->kv, hooks, &db->ns, &err);
    db->running = db->changed = db->armed = false;
    db->waiting_count = db->served_count = 0;
    return rv == 0 || sim_fail(db->s, "the manager cannot open its own store: %s", err.text);
}

void db_stop(struct db *db, bool machine)
{
    ns_close(db->ns);
    db->ns = NULL;
    if (machine) {
        uint32_t unsynced = kv_forgetful_unsynced(db->kv);

        sim_trace(db->s, db->node, "%u of %u unsynced batches survived", kv_forgetful_crash(db->kv),
                  unsynced);
    }
}

/* ---- Syncs ---- */

static void sync_begin(struct db *db);
static void arm(struct db *db);

static struct db *db_of(const struct sim *s)
{
    return s->world; /* Each world begins with its db. */
}

static void run_sync_done(struct sim *s, uint32_t node, uint64_t number)
{
    struct db *db = db_of(s);
    uint32_t count = db->served_count;

    (void)number;
    db->running = false;
    db->served_count = 0;
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        db->served[i].run(s, node, db->served[i].number);
    }
    if (db->waiting_count > 0) {
        sync_begin(db);
    } else if (db->changed) {
        arm(db);
    }
}

/* Durable is what was committed when the sync began; whoever asks later waits for the next one. */
static void sync_begin(struct db *db)
{
    struct errmsg err;
    int rv;

    if (db->running) {
        return;
    }
    rv = db->kv->sync(db->kv, &err);
    CHECK(rv == 0);
    db->running = true;
    db->changed = false;
    memcpy(db->served, db->waiting, db->waiting_count * sizeof(db->waiting[0]));
    db->served_count = db->waiting_count;
    db->waiting_count = 0;
    sim_after(db->s, db->node,
              db->s->scripted ? DB_SYNC_MS_MAX : prng_below(&db->s->prng, DB_SYNC_MS_MAX + 1),
              run_sync_done, 0);
}

static void run_sync_timer(struct sim *s, uint32_t node, uint64_t number)
{
    struct db *db = db_of(s);

    (void)node;
    (void)number;
    db->armed = false;
    if (db->changed) {
        sync_begin(db);
    }
}

static void arm(struct db *db)
{
    if (!db->armed && !db->running) {
        db->armed = true;
        sim_after(db->s, db->node, DB_SYNC_DELAY_MS, run_sync_timer, 0);
    }
}

int db_execute(struct db *db, struct meta_op *op)
{
    struct errmsg err = { "" };
    int rv;

    op->time_ns = (int64_t)db->s->now_ms * 1000000 + 1;
    rv = ns_execute(db->ns, op, &err);
    if (rv == 0) {
        db->changed = true;
        arm(db);
    }
    return rv;
}

void db_wait(struct db *db, sim_run run, uint64_t number)
{
    CHECK(db->waiting_count < DB_WAITERS_MAX);
    db->waiting[db->waiting_count++] = (struct db_waiter){ run, number };
    sync_begin(db);
}
