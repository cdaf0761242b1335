/* Asking the manager how long a file is (size_uv.h). */
#include "client/data/size_uv.h"

#include "client/coherence/size_lock_uv.h"
#include "client/data/file_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

/* Those that wait until their files can be looked for. */
struct size_asks
{
    struct list waiting; /* struct size_ask */
};

static void ask_on(struct size_ask *ask);

/* It has moved. At once, with where it lies now; from then on with every tick. */
static void astray(struct size_ask *ask)
{
    struct client *client = ask->file->client;

    if (!ask->with_layout) {
        ask_on(ask);
    } else if (uv_now(client->loop) >= ask->until_ms) {
        ask->done(ask, MORSEL_STALE);
    } else {
        ask->waits = true;
        list_push_back(&client->data.size_asks->waiting, &ask->node);
    }
}

static void on_size(struct meta_call *call, int status, void *message)
{
    struct size_ask *ask = call->data;
    const Morsel__Node *node = message;
    struct file *file = ask->file;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0) {
        file_refresh(file, node->attr);
        file_pin(file);
        file_find_place(file, node->layout);
        file_unpin_and_leave(file);
        ask->size = file_size_of(file, node->attr);
        size_lock_note_size(file->client, file->inode, node->attr->size);
    }
    if (status == 0 && file_astray(file) == MORSEL_STALE) {
        astray(ask);
    } else {
        ask->done(ask, status);
    }
}

static void ask_on(struct size_ask *ask)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    int rv;

    request.inode = ask->file->inode;
    request.layout = ask->with_layout = file_astray(ask->file) == MORSEL_STALE;
    rv = meta_call_start(&ask->call, ask->file->client, MSG_GETATTR, &request.base,
                         &morsel__node__descriptor, on_size);
    if (rv != 0) {
        ask->done(ask, rv);
    }
}

void size_ask_start(struct size_ask *ask, struct file *file,
                    void (*done)(struct size_ask *ask, int status))
{
    ask->file = file;
    ask->done = done;
    ask->call.data = ask;
    list_init(&ask->node);
    ask->waits = false;
    ask->until_ms = uv_now(file->client->loop) + SIZE_ASTRAY_MS;
    ask_on(ask);
}

void size_ask_cancel(struct size_ask *ask)
{
    if (ask->waits) {
        ask->waits = false;
        list_remove(&ask->node);
        ask->done(ask, MORSEL_CANCELED);
    } else {
        meta_call_cancel(&ask->call);
    }
}

void size_asks_tick(struct client *client)
{
    struct list *waiting = &client->data.size_asks->waiting;
    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(waiting)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) { /* One may cancel others. */
        struct size_ask *ask = LIST_ENTRY(node, struct size_ask, node);

        ask->waits = false;
        ask_on(ask);
    }
}

int size_asks_open(struct client *client)
{
    client->data.size_asks = calloc(1, sizeof(*client->data.size_asks));
    if (client->data.size_asks == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&client->data.size_asks->waiting);
    return MORSEL_OK;
}

void size_asks_close(struct client *client)
{
    free(client->data.size_asks);
}
