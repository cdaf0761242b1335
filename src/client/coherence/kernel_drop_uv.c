/* What the kernel may no longer use of what it was told is dropped there (kernel_drop_uv.h). */
#include "client/coherence/kernel_drop_uv.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { SPARE_DROPS = 64 }; /* Words to the kernel for which there is always memory. */

struct kernel_drops
{
    struct client_kernel speaker;
    kernel_dropped_cb dropped;
    unsigned under_way;
    struct list spare; /* struct quiet_drop */
    uint32_t spare_count;
    bool owed; /* There was no memory for one. */
    void (*idle)(struct client *client);
};

void kernel_attach(struct client *client, const struct client_kernel *kernel)
{
    client->drops->speaker = *kernel;
}

void kernel_catch_up(struct client *client, struct kernel_wait *wait)
{
    const struct client_kernel *kernel = &client->drops->speaker;

    list_init(&wait->node);
    if (kernel->catch_up != NULL) {
        kernel->catch_up(kernel->data, wait);
    } else {
        wait->done(wait);
    }
}

void kernel_dir_lost(struct client *client, inode_id inode)
{
    const struct client_kernel *kernel = &client->drops->speaker;

    if (kernel->dir_lost != NULL) {
        kernel->dir_lost(kernel->data, inode);
    }
}

void kernel_pause(struct client *client, inode_id inode, uint64_t number)
{
    const struct client_kernel *kernel = &client->drops->speaker;

    if (kernel->pause != NULL) {
        kernel->pause(kernel->data, inode, number);
    }
}

bool kernel_drops_are_under_way(const struct client *client)
{
    return client->drops->under_way > 0;
}

void kernel_drops_when_idle(struct client *client, void (*idle)(struct client *client))
{
    if (client->drops->under_way == 0) {
        idle(client);
    } else {
        client->drops->idle = idle;
    }
}

void kernel_drop_start(struct client *client, struct kernel_drop *drop)
{
    struct kernel_drops *drops = client->drops;

    drops->under_way++;
    if (drops->speaker.drop != NULL && (drop->attr || drop->pages || drop->names)) {
        list_init(&drop->node);
        drops->speaker.drop(drops->speaker.data, drop);
    } else {
        drop->done(drop);
    }
}

void kernel_drop_ended(struct client *client, inode_id inode)
{
    struct kernel_drops *drops = client->drops;

    drops->dropped(client, inode);
    CHECK(drops->under_way > 0);
    if (--drops->under_way == 0 && drops->idle != NULL) {
        drops->idle(client);
    }
}

/* ---- Without an answer to anybody ---- */

struct quiet_drop
{
    struct list spare; /* In kernel_drops.spare. */
    struct kernel_drop drop;
    struct client *client;
};

/* What the kernel must not go on using has to be told to it without memory, too: some are kept for
 * that. When those are under way as well, everything is dropped as soon as can be. */
static struct quiet_drop *quiet_new(struct client *client)
{
    struct kernel_drops *drops = client->drops;
    struct quiet_drop *quiet = calloc(1, sizeof(*quiet));

    if (quiet == NULL && !list_empty(&drops->spare)) {
        quiet = LIST_ENTRY(list_pop_front(&drops->spare), struct quiet_drop, spare);
        drops->spare_count--;
        memset(quiet, 0, sizeof(*quiet));
    }
    if (quiet != NULL) {
        quiet->client = client;
    } else {
        drops->owed = true;
    }
    return quiet;
}

static void quiet_free(struct kernel_drops *drops, struct quiet_drop *quiet)
{
    if (drops->spare_count == SPARE_DROPS) {
        free(quiet);
        return;
    }
    list_init(&quiet->spare);
    list_push_back(&drops->spare, &quiet->spare);
    drops->spare_count++;
}

static void on_dropped(struct kernel_drop *drop)
{
    struct quiet_drop *quiet = CONTAINER_OF(drop, struct quiet_drop, drop);
    struct client *client = quiet->client;
    inode_id inode = drop->inode;

    quiet_free(client->drops, quiet);
    kernel_drop_ended(client, inode);
}

void kernel_drop_quietly(struct client *client, inode_id inode, bool names, uint64_t size)
{
    struct quiet_drop *quiet = quiet_new(client);

    if (quiet != NULL) {
        quiet->drop.inode = inode;
        quiet->drop.attr = quiet->drop.pages = inode != INODE_NONE;
        quiet->drop.names = names;
        quiet->drop.size = size;
        quiet->drop.done = on_dropped;
        kernel_drop_start(client, &quiet->drop);
    }
}

void kernel_drop_inode(struct client *client, inode_id inode)
{
    kernel_drop_quietly(client, inode, false, 0);
}

bool kernel_drops_take_owed(struct client *client)
{
    bool owed = client->drops->owed;

    client->drops->owed = false;
    return owed;
}

/* ---- With somebody who waits ---- */

static void on_waited_for(struct kernel_drop *drop)
{
    struct kernel_drop_waiter *waiter = CONTAINER_OF(drop, struct kernel_drop_waiter, drop);
    struct client *client = waiter->client;
    inode_id inode = drop->inode;

    waiter->then(waiter->data); /* It may be gone. */
    kernel_drop_ended(client, inode);
}

void kernel_drop_then(struct client *client, struct kernel_drop_waiter *waiter, inode_id inode,
                      uint64_t size, void (*then)(void *data), void *data)
{
    *waiter = (struct kernel_drop_waiter){ .client = client, .then = then, .data = data };
    waiter->drop.inode = inode;
    waiter->drop.attr = waiter->drop.pages = true;
    waiter->drop.size = size;
    waiter->drop.done = on_waited_for;
    kernel_drop_start(client, &waiter->drop);
}

/* ---- Life ---- */

int kernel_drops_open(struct client *client, kernel_dropped_cb dropped)
{
    struct kernel_drops *drops = calloc(1, sizeof(*drops));

    client->drops = drops;
    if (drops == NULL) {
        return MORSEL_NOMEM;
    }
    drops->dropped = dropped;
    list_init(&drops->spare);
    for (uint32_t i = 0; i < SPARE_DROPS; i++) {
        struct quiet_drop *quiet = calloc(1, sizeof(*quiet));

        if (quiet == NULL) {
            return MORSEL_NOMEM;
        }
        quiet_free(drops, quiet);
    }
    return MORSEL_OK;
}

void kernel_drops_close(struct client *client)
{
    struct kernel_drops *drops = client->drops;
    struct list *node;

    while (drops != NULL && (node = list_pop_front(&drops->spare)) != NULL) {
        free(LIST_ENTRY(node, struct quiet_drop, spare));
    }
    free(drops);
}
