/* The manager's database on a simulated machine: a namespace over a store that forgets, and the
 * group syncs of src/meta/storage/sync_uv.c in virtual time.
 *
 * A process that is killed loses nothing that was committed; a machine that loses power loses what
 * was committed after some moment that lies behind the last sync.
 */
#ifndef MORSEL_TESTS_SIM_DB_H
#define MORSEL_TESTS_SIM_DB_H

#include "meta/namespace/namespace.h"
#include "tests/sim/sim.h"

enum {
    DB_SYNC_DELAY_MS = 50, /* As SYNC_DELAY_MS of sync_uv.h. */
    DB_SYNC_MS_MAX = 20,   /* One sync. */
    DB_LOSS_MS_MAX = 100,  /* A loss of power costs at most the changes of so long. */
    DB_WAITERS_MAX = 256
};

struct db_waiter
{
    sim_run run;
    uint64_t number;
};

struct db
{
    struct sim *s;
    uint32_t node; /* Whose machine it is. */
    struct kv *kv;
    struct ns *ns; /* NULL while the process is down. */
    bool running, changed, armed;
    uint32_t waiting_count, served_count;
    struct db_waiter waiting[DB_WAITERS_MAX], served[DB_WAITERS_MAX];
};

/* An empty store for `node`, formatted and synced. */
void db_init(struct db *db, struct sim *s, uint32_t node);
void db_free(struct db *db);

/* The process starts or ends. A start that cannot read its own store fails the history. */
bool db_start(struct db *db, const struct ns_hooks *hooks);
void db_stop(struct db *db, bool machine);

/* Stamp, execute, and see to the sync. Returns the status. */
int db_execute(struct db *db, struct meta_op *op);

/* `run` when everything committed so far is durable, unless the process ends before. */
void db_wait(struct db *db, sim_run run, uint64_t number);

#endif
