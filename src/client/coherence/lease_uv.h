/* The client's half of the leases (docs/leases.md): their lease period, what replies say of them, recalls,
 * and what is given back.
 *
 * The table of what is held is client->cache (meta_cache.h); this file keeps it true. A file whose
 * lease does not cover what its handles do is *shared*: writes go through, reads ask the manager
 * first.
 */
#ifndef MORSEL_CLIENT_COHERENCE_LEASE_UV_H
#define MORSEL_CLIENT_COHERENCE_LEASE_UV_H

#include "client/coherence/meta_cache.h"
#include "client/libmorsel_uv.h"
#include "common/fs/lease_mode.h"

struct file;

/* Are the leases in the table good right now? */
bool client_lease_valid(const struct client *client);

/* How long the kernel may use what a lease covers; 0: not at all. */
uint32_t client_lease_left_ms(const struct client *client);

/* What we hold on the inode, right now. */
enum lease_mode client_lease(const struct client *client, inode_id inode);

/* May dirty data be written? A lease that is being given back is ours until it is. */
bool lease_is_for_writing(const struct client *client, inode_id inode);

/* ---- For the client itself ---- */

/* Tell the core (lease_holder.h) what has happened, and do what it says. The times of the event are
 * filled in. */
void lease_feed(struct client *client, struct lease_holder_event *event);

/* A request was refused for want of a session: nothing is valid until we have joined again. */
void lease_refused(struct client *client);

/* A change that was sent may still be carried out, or not: we do not know its end. */
void lease_unsure(struct client *client);

/* What a reply says of inodes and leases, before its owner sees it. */
void lease_learn(struct client *client, const ProtobufCMessageDescriptor *type,
                 const void *message);

void lease_on_recall(struct client *client, const uint8_t *body, size_t body_count);

/* The manager says for whom a request of ours waits. */
void lease_on_held_up(struct client *client, const uint8_t *body, size_t body_count);

/* What SESSION says of our leases; the lists are the caller's to free (held_read, held_write).
 * False: no memory. */
bool lease_session_fill(struct client *client, Morsel__SessionRequest *request);
void lease_session_answered(struct client *client, const Morsel__SessionReply *reply);

/* Every CLIENT_TICK_MS. */
void lease_tick(struct client *client);
void lease_close(struct client *client);

/* ---- For operations ---- */

/* A file's last lease_pins may have gone: a recall may have waited for that. */
void lease_unpinned(struct client *client);

/* Tell the manager of files that were opened without asking it, before it hears what may depend on
 * them. */
/* The manager lost its power and may have forgotten what it told us: nothing clean is kept. */
void lease_forget_all(struct client *client);

void lease_tell_opened(struct client *client);

/* ---- What the kernel holds ---- */

/* What it has of the inode's bytes and attributes may be wrong: it is to drop that, soon. */
void lease_kernel_drop(struct client *client, inode_id inode);

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

/* Somebody who goes on when the kernel has dropped. All of it is ours until then. */
struct kernel_drop_waiter
{
    struct kernel_drop drop;
    struct client *client;
    void (*then)(void *data);
    void *data;
};

/* As lease_kernel_drop(), and the kernel is to know that the file has at least `size` bytes; `then`
 * runs once it has done so, on the loop, perhaps before this returns. Needs no memory. */
void lease_kernel_drop_then(struct client *client, struct kernel_drop_waiter *waiter,
                            inode_id inode, uint64_t size, void (*then)(void *data), void *data);

#endif
