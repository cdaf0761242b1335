/* What was closed is told in batches (closes_uv.h). */
#include "client/data/closes_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

enum { BATCH_MAX = 256 };

struct closes
{
    closes_is_open_cb is_open;
    struct list opening; /* struct client_opening: OPEN requests under way. */
    size_t count;
    uint64_t inodes[BATCH_MAX];
};

/* The manager counts what is closed as open, for it is not told of the close: so the next close is
 * told whether or not its opening was. */
static bool is_open(struct client *client, inode_id inode)
{
    struct closes *closes = client->data.closes;

    if (closes->is_open(client, inode)) {
        return true;
    }
    LIST_FOREACH(node, &closes->opening)
    {
        if (LIST_ENTRY(node, struct client_opening, node)->inode == inode) {
            return true;
        }
    }
    return false;
}

void closes_send(struct client *client)
{
    Morsel__CloseRequest request = MORSEL__CLOSE_REQUEST__INIT;
    struct closes *closes = client->data.closes;

    for (size_t i = 0; i < closes->count; i++) {
        if (!is_open(client, closes->inodes[i])) {
            closes->inodes[request.n_inodes++] = closes->inodes[i];
        }
    }
    closes->count = 0;
    request.inodes = closes->inodes;
    if (request.n_inodes > 0) {
        /* Lost with the connection? Then the next SESSION lists what is open, and that is the
         * truth. */
        rpc_send_oneway(client->manager, MSG_CLOSE, &request.base);
    }
}

void client_close_inode(struct client *client, inode_id inode)
{
    struct closes *closes = client->data.closes;

    closes->inodes[closes->count++] = inode;
    if (closes->count == BATCH_MAX) {
        closes_send(client);
    }
}

void client_opening_begin(struct client *client, struct client_opening *opening, inode_id inode)
{
    opening->inode = inode;
    list_init(&opening->node);
    list_push_back(&client->data.closes->opening, &opening->node);
}

void client_opening_end(struct client_opening *opening)
{
    list_remove(&opening->node);
}

int closes_open(struct client *client, closes_is_open_cb is_open_here)
{
    struct closes *closes = calloc(1, sizeof(*closes));

    client->data.closes = closes;
    if (closes == NULL) {
        return MORSEL_NOMEM;
    }
    closes->is_open = is_open_here;
    list_init(&closes->opening);
    return MORSEL_OK;
}

void closes_close(struct client *client)
{
    free(client->data.closes);
}
