/* The machine of a benefactor, and its process. */
#include "benefactor/benefactor_uv.h"
#include "tests/sim/world/hosts.h"

#include <stdlib.h>

enum {
    DONOR_THREADS = 4,
    DONATED_BYTES = 1 << 30 /* Places that are asked for ahead count until the next report, 20 s. */
};

struct host_donor
{
    struct world_process *process;
    uv_loop_t loop;
    struct benefactor_settings settings;
    struct benefactor benefactor;
};

static void on_donor_ready(void *data)
{
    (void)data;
}

static void on_donor_failed(void *data)
{
    struct host_donor *h = data;

    world_fail("%s cannot go on", h->process->name);
}

static void on_donor_unwanted(void *data)
{
    struct host_donor *h = data;

    world_fail("%s takes itself for unwanted", h->process->name);
}

struct host_donor *host_donor_start(struct world_host *host, const char *name,
                                    const struct world_host *manager)
{
    struct host_donor *h = calloc(1, sizeof(*h));
    struct benefactor *b = &h->benefactor;
    struct errmsg err = { "" };

    CHECK(h != NULL);
    h->settings = (struct benefactor_settings){ .calm_ms = 1000 };
    (void)snprintf(h->settings.data_dir, sizeof(h->settings.data_dir), "%s", name);
    (void)snprintf(h->settings.donate, sizeof(h->settings.donate), "%d", DONATED_BYTES);
    host_address_of(host, DONOR_PORT, h->settings.listen, sizeof(h->settings.listen));
    host_address_of(manager, META_PORT, h->settings.manager, sizeof(h->settings.manager));
    h->process = host_process_begin(host, name, &h->loop, DONOR_THREADS);
    b->settings = &h->settings;
    b->log = h->process->log;
    b->loop = &h->loop;
    b->ready = on_donor_ready;
    b->failed = on_donor_failed;
    b->unwanted = on_donor_unwanted;
    b->data = h;
    CHECK(donation_share_parse(h->settings.donate, &b->wish.donate, &err) == 0);
    CHECK(donation_share_parse("0", &b->wish.keep_free, &err) == 0);
    if (benefactor_start(b, &err) != 0) {
        world_fail("%s does not start: %s", name, err.text);
    }
    host_process_begun();
    return h;
}

static void on_donor_over(void *data)
{
    struct host_donor *h = data;

    benefactor_release(&h->benefactor);
    world_process_end(h->process);
}

static void on_donor_left(void *data)
{
    struct host_donor *h = data;

    benefactor_stop(&h->benefactor);
}

/* As main.c does it. */
void host_donor_stop(struct host_donor *h)
{
    world_trace(h->process->name, "** is to end");
    the_world->current = h->process;
    benefactor_log_statistics(&h->benefactor);
    world_process_when_over(h->process, on_donor_over, h);
    benefactor_leave(&h->benefactor, on_donor_left);
    the_world->current = NULL;
}

void host_donor_kill(struct host_donor *h)
{
    world_process_kill(h->process);
    datadir_close(&h->benefactor.morsels.server.datadir);
}

void host_donor_lose_power(struct host_donor *h, uint64_t back_ns)
{
    world_host_loses_power(h->process, back_ns);
    datadir_close(&h->benefactor.morsels.server.datadir);
}

struct world_process *host_donor_process(struct host_donor *h)
{
    return h->process;
}

bool host_donor_is_member(const struct host_donor *h)
{
    return h->process->alive && h->process->over == NULL &&
           joining_is_member(&h->benefactor.joining) &&
           h->benefactor.morsels.holdings.state == HOLDINGS_TOLD;
}
