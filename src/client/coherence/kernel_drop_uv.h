/* Dropping what the kernel holds of files and names, and waiting until it has.
 *
 * Who speaks to the kernel for us (the mount) says how with struct client_kernel. It needs memory
 * for each word; for what the kernel must not go on using some of that is kept in reserve.
 */
#ifndef MORSEL_CLIENT_COHERENCE_KERNEL_DROP_UV_H
#define MORSEL_CLIENT_COHERENCE_KERNEL_DROP_UV_H

#include "client/libmorsel_uv.h"

/* To be dropped by the kernel. `done` runs once, later, on the loop. */
struct kernel_drop
{
    struct list node;
    inode_id inode;
    bool attr;     /* Its attributes. */
    bool pages;    /* And its pages; waits for reads and writes that are in our hands. */
    bool names;    /* All names of the mount. */
    uint64_t size; /* The file is at least this long: the kernel is to know. */
    /* Until then (uv_hrtime()) an inode that the kernel does not know may be one that it has not
     * heard of yet, in an answer of ours that is on its way: it is told again. */
    uint64_t unknown_until_ns;
    bool again; /* The mount's own. */
    void (*done)(struct kernel_drop *drop);
};

struct kernel_wait
{
    struct list node;
    bool released; /* For the files that it let go of, too. */
    void (*done)(struct kernel_wait *wait);
};

/* Who speaks to the kernel for us. Each may be NULL: nobody does. */
struct client_kernel
{
    /* `done` runs once, on the loop, perhaps before this returns, when everything that the kernel
     * has asked for by now has been read, and, if wanted, the files that it let go of are released. */
    void (*catch_up)(void *data, struct kernel_wait *wait);
    /* Changes of a directory are lost (INODE_NONE: of any): whoever has it open is told EIO. */
    void (*dir_lost)(void *data, inode_id inode);
    void (*drop)(void *data, struct kernel_drop *drop);
    /* The file is to be held still (common/fs/exchange.h), for the manager's pause of that number. */
    void (*pause)(void *data, inode_id inode, uint64_t number);
    void *data;
};

/* The kernel has dropped what it held of the inode. */
typedef void (*kernel_dropped_cb)(struct client *client, inode_id inode);

/* client->drops. MORSEL_NOMEM. */
int kernel_drops_open(struct client *client, kernel_dropped_cb dropped);

/* None is under way. Harmless when they were never opened. */
void kernel_drops_close(struct client *client);

/* From now on `kernel` is spoken to. */
void kernel_attach(struct client *client, const struct client_kernel *kernel);

/* As in struct client_kernel; where nobody speaks to the kernel, there is nothing to wait for. */
void kernel_catch_up(struct client *client, struct kernel_wait *wait);
void kernel_dir_lost(struct client *client, inode_id inode);
void kernel_pause(struct client *client, inode_id inode, uint64_t number);

/* Is the kernel at something that it is to drop? */
bool kernel_drops_are_under_way(const struct client *client);

/* `idle` runs once, now or when the last of them has ended. */
void kernel_drops_when_idle(struct client *client, void (*idle)(struct client *client));

/* What the kernel has of the inode's bytes and attributes may be wrong: it is to drop that, soon.
 * Needs no memory. */
void kernel_drop_inode(struct client *client, inode_id inode);

/* Attributes and pages of the inode (INODE_NONE: of none), and `names`, without an answer to
 * anybody. `size` as in struct kernel_drop. Needs no memory. */
void kernel_drop_quietly(struct client *client, inode_id inode, bool names, uint64_t size);

/* There was no memory, and none in reserve, since this was asked last: everything is to be dropped.
 */
bool kernel_drops_take_owed(struct client *client);

/* Somebody who goes on when the kernel has dropped. All of it is ours until then. */
struct kernel_drop_waiter
{
    struct kernel_drop drop;
    struct client *client;
    void (*then)(void *data);
    void *data;
};

/* As kernel_drop_inode(), and the kernel is to know that the file has at least `size` bytes; `then`
 * runs once it has done so, on the loop, perhaps before this returns. Needs no memory. */
void kernel_drop_then(struct client *client, struct kernel_drop_waiter *waiter, inode_id inode,
                      uint64_t size, void (*then)(void *data), void *data);

/* Calls drop->done, which calls kernel_drop_ended(). */
void kernel_drop_start(struct client *client, struct kernel_drop *drop);

/* The last answer of the kernel may be what a closing client waits for: nothing comes behind this.
 */
void kernel_drop_ended(struct client *client, inode_id inode);

#endif
