/* The machine of an I/O daemon, and its process. */
#include "iod/iod_uv.h"
#include "tests/sim/world/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host_iod
{
    struct world_process *process;
    uv_loop_t loop;
    struct iod_settings settings;
    struct iod iod;
};

static void on_iod_ready(void *data)
{
    (void)data;
}

static void on_iod_failed(void *data)
{
    struct host_iod *h = data;

    world_fail("%s cannot go on", h->process->name);
}

/* A disk that has refused syncs, and a loss of power: the record of what was synced may be gone. The daemon says what to do. */
static struct host_iod *start_without_record(struct host_iod *h, struct world_host *host,
                                             const char *name, const struct world_host *manager)
{
    char path[64];

    world_trace(name, "** the record of what was synced is removed");
    host_process_begun();
    world_process_kill(h->process);
    if (h->iod.objects.datadir.lock_fd > 0) {
        datadir_close(&h->iod.objects.datadir);
    }
    (void)snprintf(path, sizeof(path), "%s/epochs", name);
    CHECK(unlink(path) == 0);
    return host_iod_start(host, name, manager);
}

struct host_iod *host_iod_start(struct world_host *host, const char *name,
                                const struct world_host *manager)
{
    struct host_iod *h = calloc(1, sizeof(*h));
    struct errmsg err = { "" };

    CHECK(h != NULL);
    h->settings = (struct iod_settings){ .open_files = 64,
                                         .reserve_bytes = 1 << 20,
                                         .threads = 8,
                                         .queue = 4096,
                                         .buffers_bytes = 1 << 20,
                                         .checkpoint_ms = 5000,
                                         .slow_limit_ms = 1000,
                                         .slow_pause_ms = 500,
                                         .scrub_rate = 2 << 20,
                                         .scrub_every_ms = 10000 };
    (void)snprintf(h->settings.data_dir, sizeof(h->settings.data_dir), "%s", name);
    host_address_of(host, IOD_PORT, h->settings.listen, sizeof(h->settings.listen));
    host_address_of(manager, META_PORT, h->settings.manager, sizeof(h->settings.manager));
    h->process = host_process_begin(host, name, &h->loop, (unsigned)h->settings.threads);
    h->iod.settings = &h->settings;
    h->iod.log = h->process->log;
    h->iod.loop = &h->loop;
    h->iod.ready = on_iod_ready;
    h->iod.failed = on_iod_failed;
    h->iod.data = h;
    if (iod_start(&h->iod, &err) != 0) {
        if (host->disk_refused && strstr(err.text, "epochs is damaged: remove the file") != NULL) {
            return start_without_record(h, host, name, manager);
        }
        world_fail("%s does not start: %s", name, err.text);
    }
    host_process_begun();
    return h;
}

static void on_iod_over(void *data)
{
    struct host_iod *h = data;

    iod_release(&h->iod);
    world_process_end(h->process);
}

/* Nobody changes a bit behind the daemon's back in this world: what is damaged is a fault of ours, or no damage. What a disk
 * does not give is called so, too, also at the server that was made equal to its. */
static void judge_scrub(const struct host_iod *h)
{
    if (h->iod.objects.scrub_damaged != 0 && !the_world->bytes_refused) {
        world_fail("the scrub of %s takes %llu objects for damaged", h->process->name,
                   (unsigned long long)h->iod.objects.scrub_damaged);
    }
}

/* As main.c does it. */
void host_iod_stop(struct host_iod *h)
{
    judge_scrub(h);
    world_trace(h->process->name, "** is to end");
    the_world->current = h->process;
    iod_log_statistics(&h->iod);
    iod_stop(&h->iod);
    world_process_when_over(h->process, on_iod_over, h);
    the_world->current = NULL;
}

void host_iod_kill(struct host_iod *h)
{
    judge_scrub(h);
    world_process_kill(h->process);
    datadir_close(&h->iod.objects.datadir);
}

void host_iod_lose_power(struct host_iod *h, uint64_t back_ns)
{
    judge_scrub(h);
    world_host_loses_power(h->process, back_ns);
    datadir_close(&h->iod.objects.datadir);
}

struct world_process *host_iod_process(struct host_iod *h)
{
    return h->process;
}

/* ---- Groups ---- */

bool host_iod_is_well(struct host_iod *h)
{
    Morsel__CopyState state;

    return h->process->alive && h->process->over == NULL &&
           groups_states(&h->iod.groups, &state, 1) == 0;
}

bool host_iod_group(const struct host_iod *h, unsigned i, unsigned *group)
{
    const Morsel__GroupSet *kept = h->iod.groups.kept;

    if (kept == NULL || i >= kept->n_groups) {
        return false;
    }
    *group = kept->groups[i]->number;
    return true;
}

unsigned host_iod_places(const struct host_iod *h, unsigned group, uint64_t *version)
{
    const Morsel__GroupSet *kept = h->iod.groups.kept;
    unsigned places = 0;

    *version = kept == NULL ? 0 : kept->version;
    for (size_t i = 0; kept != NULL && i < kept->n_groups; i++) {
        for (size_t j = 0; kept->groups[i]->number == group && j < kept->groups[i]->n_servers;
             j++) {
            places += kept->groups[i]->servers[j] != 0;
        }
    }
    return places;
}

unsigned host_iod_place(const struct host_iod *h, unsigned group)
{
    const Morsel__GroupSet *kept = h->iod.groups.kept;

    for (size_t i = 0; kept != NULL && i < kept->n_groups; i++) {
        const Morsel__Group *g = kept->groups[i];

        for (unsigned place = 0; g->number == group && place < g->n_servers; place++) {
            if (g->servers[place] == h->iod.objects.datadir.node) {
                return place;
            }
        }
    }
    return 32;
}
