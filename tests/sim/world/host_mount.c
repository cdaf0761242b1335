#include "client/manager/behind_uv.h"
#include "tests/sim/world/hosts.h"

#include <stdlib.h>
#include <string.h>

enum { DRAIN_POLL_MS = 10 };

static void on_client_closed(void *data)
{
    struct host_mount *h = data;

    h->client = NULL;
}

static void on_drain(uv_timer_t *timer)
{
    struct host_mount *h = timer->data;

    if (h->mount.ops_count > 0 || files_count(h->client) > 0 || !behind_is_empty(h->client)) {
        return;
    }
    (void)uv_timer_stop(timer);
    mount_stop(&h->mount);
    uv_close((uv_handle_t *)&h->drain, NULL);
    client_close(h->client, on_client_closed, h);
}

/* As main.c does it. */
static void on_unmounted(void *data)
{
    struct host_mount *h = data;

    if (!h->session.exited) {
        world_fail("%s says that it was unmounted", h->process->name);
    }
    (void)uv_timer_start(&h->drain, on_drain, 0, DRAIN_POLL_MS);
}

static void on_mount_over(void *data)
{
    struct host_mount *h = data;

    mount_free(&h->mount);
    world_process_end(h->process);
}

void host_mount_unmount(struct host_mount *h)
{
    world_trace(h->process->name, "** is unmounted");
    h->ready = false;
    h->session.exited = true;
    world_poll_readable(&h->mount.poll);
    world_process_when_over(h->process, on_mount_over, h);
}

static void on_session_ready(void *data, int status, const char *text)
{
    struct host_mount *h = data;

    if (status != 0) {
        world_trace(h->process->name, "cannot join: %s", text);
        h->refused = true;
        return;
    }
    kernel_open(&h->session, &h->mount, h->process);
    if (mount_start(&h->mount, h->client, &h->session, on_unmounted, h) != 0) {
        world_fail("%s does not mount", h->process->name);
    }
    (void)uv_timer_init(&h->loop, &h->drain);
    h->drain.data = h;
    h->ready = true;
}

struct host_mount *host_mount_start(struct world_host *host, const char *name,
                                    const struct world_host *manager, bool by_name)
{
    struct host_mount *h = calloc(1, sizeof(*h));
    char address[64];
    struct client_options options = { .io_timeout_ms = HOST_IO_TIMEOUT_MS,
                                      .write_buffer_bytes = 4 << 20,
                                      .read_ahead_bytes = 1 << 20,
                                      .cache = true,
                                      .program = "morsel-mount in the world" };
    struct errmsg err = { "" };

    CHECK(h != NULL);
    if (by_name) {
        (void)snprintf(address, sizeof(address), "%s:%u", manager->name, META_PORT);
    } else {
        host_address_of(manager, META_PORT, address, sizeof(address));
    }
    options.manager = strdup(address);
    h->process = host_process_begin(host, name, &h->loop, MOUNT_POOL_THREADS);
    options.log = h->process->log;
    if (client_new(&h->loop, &options, &h->client, on_session_ready, h, &err) != 0) {
        world_fail("%s does not start: %s", name, err.text);
    }
    host_process_begun();
    return h;
}

void host_mount_kill(struct host_mount *h)
{
    world_process_kill(h->process);
    if (h->ready) {
        kernel_abort(&h->session);
    }
}

void host_mount_lose_power(struct host_mount *h, uint64_t back_ns)
{
    world_host_loses_power(h->process, back_ns);
    if (h->ready) {
        kernel_abort(&h->session);
    }
}
