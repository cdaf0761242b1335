/* What the kernel may no longer use of what it was told is dropped there. */
#include "client/coherence/kernel_drop_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/data/file_uv.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { SPARE_DROPS = 64 }; /* Words to the kernel for which there is always memory. */

void kernel_drop_start(struct client *client, struct kernel_drop *drop)
{
    client->kernel_drops++;
    if (client->kernel.drop != NULL && (drop->attr || drop->pages || drop->names)) {
        list_init(&drop->node);
        client->kernel.drop(client->kernel.data, drop);
    } else {
        drop->done(drop);
    }
}

void kernel_drop_ended(struct client *client, inode_id inode)
{
    struct file *file = file_find(client, inode);

    if (file != NULL) {
        file_note_kernel_changed(file);
    }
    CHECK(client->kernel_drops > 0);
    if (--client->kernel_drops == 0 && client->idle != NULL) {
        client->idle(client);
    }
}

struct quiet_drop
{
    struct list spare; /* In client->spare_drops. */
    struct kernel_drop drop;
    struct client *client;
};

/* What the kernel must not go on using has to be told to it without memory, too: some are kept for
 * that. When those are under way as well, everything is dropped as soon as can be. */
static struct quiet_drop *quiet_new(struct client *client)
{
    struct quiet_drop *quiet = calloc(1, sizeof(*quiet));

    if (quiet == NULL && !list_empty(&client->spare_drops)) {
        quiet = LIST_ENTRY(list_pop_front(&client->spare_drops), struct quiet_drop, spare);
        client->spare_drops_count--;
        memset(quiet, 0, sizeof(*quiet));
    }
    if (quiet != NULL) {
        quiet->client = client;
    } else {
        client->drops_owed = true;
    }
    return quiet;
}

static void quiet_free(struct quiet_drop *quiet)
{
    struct client *client = quiet->client;

    if (client->spare_drops_count == SPARE_DROPS) {
        free(quiet);
        return;
    }
    list_init(&quiet->spare);
    list_push_back(&client->spare_drops, &quiet->spare);
    client->spare_drops_count++;
}

static void on_dropped(struct kernel_drop *drop)
{
    struct quiet_drop *quiet = CONTAINER_OF(drop, struct quiet_drop, drop);
    struct client *client = quiet->client;
    inode_id inode = drop->inode;

    quiet_free(quiet);
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

void lease_kernel_drop(struct client *client, inode_id inode)
{
    kernel_drop_quietly(client, inode, false, 0);
}

static void on_waited_for(struct kernel_drop *drop)
{
    struct kernel_drop_waiter *waiter = CONTAINER_OF(drop, struct kernel_drop_waiter, drop);
    struct client *client = waiter->client;
    inode_id inode = drop->inode;

    waiter->then(waiter->data); /* It may be gone. */
    kernel_drop_ended(client, inode);
}

void lease_kernel_drop_then(struct client *client, struct kernel_drop_waiter *waiter,
                            inode_id inode, uint64_t size, void (*then)(void *data), void *data)
{
    *waiter = (struct kernel_drop_waiter){ .client = client, .then = then, .data = data };
    waiter->drop.inode = inode;
    waiter->drop.attr = waiter->drop.pages = true;
    waiter->drop.size = size;
    waiter->drop.done = on_waited_for;
    kernel_drop_start(client, &waiter->drop);
}

void kernel_drop_all(struct client *client)
{
    struct file *file, *next;

    HASH_ITER(hh, client->files, file, next)
    {
        file_forget(file, 0, UINT64_MAX);
        kernel_drop_quietly(client, file->inode, false, 0);
    }
    kernel_drop_quietly(client, INODE_NONE, true, 0);
}

void kernel_drop_owed(struct client *client)
{
    if (client->drops_owed) {
        client->drops_owed = false;
        kernel_drop_all(client);
    }
}

int kernel_drops_open(struct client *client)
{
    list_init(&client->spare_drops);
    for (uint32_t i = 0; i < SPARE_DROPS; i++) {
        struct quiet_drop *quiet = calloc(1, sizeof(*quiet));

        if (quiet == NULL) {
            return MORSEL_NOMEM;
        }
        quiet->client = client;
        quiet_free(quiet);
    }
    return MORSEL_OK;
}

void kernel_drops_close(struct client *client)
{
    struct list *node;

    while ((node = list_pop_front(&client->spare_drops)) != NULL) {
        free(LIST_ENTRY(node, struct quiet_drop, spare));
    }
}
