/* Closes, told to the manager in batches. */
#ifndef MORSEL_CLIENT_DATA_CLOSES_UV_H
#define MORSEL_CLIENT_DATA_CLOSES_UV_H

#include "client/libmorsel_uv.h"

/* Is the inode open here, after all? The manager counts it then as open from a time before, and is
 * not told of this close. */
typedef bool (*closes_is_open_cb)(struct client *client, inode_id inode);

/* client->data.closes. MORSEL_NOMEM. */
int closes_open(struct client *client, closes_is_open_cb is_open);
void closes_close(struct client *client);

/* Report that this client has no handle of the inode any more (batched, and only if that is still
 * so then). */
void client_close_inode(struct client *client, inode_id inode);

/* All that is to be told. Every CLIENT_TICK_MS, and at the end. */
void closes_send(struct client *client);

/* An OPEN is under way: a CLOSE that would overtake its answer must not be sent. */
struct client_opening
{
    struct list node;
    inode_id inode;
};
void client_opening_begin(struct client *client, struct client_opening *opening, inode_id inode);
void client_opening_end(struct client_opening *opening);

#endif
