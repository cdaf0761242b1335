#include "tests/sim/world/hosts.h"

#include "common/base/status.h"
#include "meta/meta_uv.h"
#include "meta/storage/kv_leveldb.h"
#include "tests/lib/kv_forgetful.h"

#include <stdlib.h>
#include <string.h>

void host_address_of(const struct world_host *host, unsigned port, char *text, size_t size)
{
    char number[32];

    world_host_address(host, number, sizeof(number));
    (void)snprintf(text, size, "%s:%u", number, port);
}

struct world_process *host_process_begin(struct world_host *host, const char *name, uv_loop_t *loop,
                                         unsigned threads)
{
    struct world_process *p = world_process_new(host, name);

    p->threads = threads;
    world_process_adopt_loop(p, loop);
    p->log = log_open(p->name, NULL, LOG_LEVEL_INFO);
    world_trace(p->name, "starts");
    the_world->current = p;
    return p;
}

void host_process_begun(void)
{
    the_world->current = NULL;
}

/* ---- The manager ---- */

enum { WARM_ONE_IN = 24 }; /* Reads of its database that are fetched first. */

struct host_meta
{
    struct world_process *process;
    uv_loop_t loop;
    struct meta_settings settings;
    struct meta meta;
    struct datadir datadir;
};

/* The database is the world's: it outlives the manager. One in a world. */
static struct kv *database;

static void database_close(struct kv *kv)
{
    (void)kv;
}

int kv_leveldb_open(const char *dir, bool create, struct kv **kv_out, struct errmsg *err)
{
    (void)dir;
    (void)err;
    CHECK(create == (database == NULL));
    if (create) {
        database = kv_forgetful_open(&the_world->prng);
        CHECK(database != NULL);
        database->close = database_close;
        /* A quarter of the histories has all in memory. */
        kv_forgetful_cold(database, world_chance(4) ? 0 : 1 + (uint32_t)world_draw(12));
        kv_forgetful_full(database, world_chance(2) ? 0 : 1 + (uint32_t)world_draw(30));
    }
    database->wanted = NULL; /* The manager of before was killed. */
    *kv_out = database;
    return 0;
}

struct host_meta *host_meta_start(struct world_host *host, const char *name)
{
    struct host_meta *h = calloc(1, sizeof(*h));
    struct rpc_options options = { .role = ROLE_MANAGER, .program = "morsel-meta in the world" };
    struct rpc_server_hooks hooks;
    struct errmsg err = { "" };
    struct meta *m = &h->meta;

    CHECK(h != NULL);
    h->settings = (struct meta_settings){ .session_ms = HOST_SESSION_MS,
                                          .heartbeat_ms = 500,
                                          .lease_ms = HOST_LEASE_MS,
                                          .donor_report_ms = 20000,
                                          .donor_look_ms = 60000 };
    (void)snprintf(h->settings.replicas, sizeof(h->settings.replicas), "1");
    (void)snprintf(h->settings.data_dir, sizeof(h->settings.data_dir), "%s", name);
    host_address_of(host, META_PORT, h->settings.listen, sizeof(h->settings.listen));
    h->process = host_process_begin(host, name, &h->loop, LOADS_THREADS);
    m->settings = &h->settings;
    m->log = h->process->log;
    m->loop = &h->loop;
    h->datadir.lock_fd = -1;
    hooks = meta_hooks(m);
    if (rpc_new(&h->loop, &options, &m->rpc) != 0 ||
        rpc_listen(m->rpc, h->settings.listen, &hooks, &m->server, &err) != 0 ||
        datadir_open(&h->datadir, h->settings.data_dir, "meta", &err) != 0 ||
        meta_open(m, &h->datadir, &err) != 0) {
        world_fail("the manager does not start: %s", err.text);
    }
    meta_start(m);
    host_process_begun();
    return h;
}

static void on_meta_over(void *data)
{
    struct host_meta *h = data;

    meta_free(&h->meta);
    datadir_close(&h->datadir);
    world_process_end(h->process);
}

static void on_rpc_closed(void *data)
{
    (void)data;
}

static void on_meta_closed(void *data)
{
    struct host_meta *h = data;

    rpc_close(h->meta.rpc, on_rpc_closed, h);
}

/* As main.c does it. */
void host_meta_stop(struct host_meta *h)
{
    world_trace(h->process->name, "** is to end");
    the_world->current = h->process;
    meta_log_statistics(&h->meta);
    meta_close(&h->meta, on_meta_closed, h);
    world_process_when_over(h->process, on_meta_over, h);
    the_world->current = NULL;
}

void host_meta_kill(struct host_meta *h)
{
    world_process_kill(h->process);
    datadir_close(&h->datadir);
}

void host_meta_lose_power(struct host_meta *h, uint64_t back_ns)
{
    uint32_t unsynced = kv_forgetful_unsynced(database);
    uint32_t kept = kv_forgetful_crash(database);

    world_host_loses_power(h->process, back_ns);
    world_trace(h->process->name, "of %u batches %u are lost", unsynced, unsynced - kept);
    the_world->counts.batches_lost += unsynced - kept;
    datadir_close(&h->datadir);
}

uint32_t host_meta_unsynced(void)
{
    return kv_forgetful_unsynced(database);
}

void host_meta_is_warm(void)
{
    kv_forgetful_cold(database, WARM_ONE_IN);
}

uint64_t host_meta_refused(void)
{
    return kv_forgetful_refused(database);
}

uint64_t host_meta_full(void)
{
    return kv_forgetful_found_full(database);
}

struct world_process *host_meta_process(struct host_meta *h)
{
    return h->process;
}

unsigned host_meta_servers_up(const struct host_meta *h)
{
    unsigned up = 0;

    for (server_id id = 1; id <= 8; id++) {
        const struct member *m = members_find(&h->meta.members, id);

        up += m != NULL && m->connected;
    }
    return up;
}
