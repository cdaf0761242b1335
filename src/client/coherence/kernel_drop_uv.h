/* Inside the client: dropping what the kernel holds, and waiting until it has. */
#ifndef MORSEL_CLIENT_COHERENCE_KERNEL_DROP_UV_H
#define MORSEL_CLIENT_COHERENCE_KERNEL_DROP_UV_H

#include "client/libmorsel_uv.h"

struct kernel_drop;

/* Calls drop->done, which calls kernel_drop_ended(). */
void kernel_drop_start(struct client *client, struct kernel_drop *drop);

/* The last answer of the kernel may be what a closing client waits for: nothing comes behind this.
 */
void kernel_drop_ended(struct client *client, inode_id inode);

/* Attributes and pages of the inode (INODE_NONE: of none), and `names`, without an answer to
 * anybody. `size` as in struct kernel_drop. Needs no memory. */
void kernel_drop_quietly(struct client *client, inode_id inode, bool names, uint64_t size);

/* Nothing that it was given counts any more. Time-outs of what is not open have ended with the
 * lease period. */
void kernel_drop_all(struct client *client);

/* What there was no memory for. */
void kernel_drop_owed(struct client *client);

int kernel_drops_open(struct client *client); /* MORSEL_NOMEM */
void kernel_drops_close(struct client *client);

#endif
