/* Giving leases back, asked by the manager or for want of room in the table: what was written under
 * one is flushed, what is kept is dropped, here and in the kernel, and the manager is told.
 * lease_on_recall() and lease_unpinned() (lease_uv.h) are here too.
 */
#ifndef MORSEL_CLIENT_COHERENCE_RECALL_UV_H
#define MORSEL_CLIENT_COHERENCE_RECALL_UV_H

#include "client/coherence/lease_uv.h"
#include "client/data/file_uv.h"

/* A recall that is being answered: flush, drop, let the kernel drop, RETURN. */
struct recall_work
{
    struct list node; /* In client->recalls. */
    struct client *client;
    uint64_t recall; /* 0: given back unasked. */
    uint64_t began_ns;
    inode_id inode;
    enum lease_mode had, keeps;
    uint64_t kernel_attr_until_ns, kernel_names_until_ns, kernel_entry_ns;
    struct file_flush flush;
    struct kernel_drop drop;
    bool unsettled;         /* Waits until nothing of ours can land any more. */
    bool unflushed;         /* For want of memory: once more. */
    bool dropping;          /* The kernel is about to drop. */
    bool lowered;           /* Meanwhile the manager has asked for the rest: once more. */
    uint64_t busy_due_ms;   /* The manager is to hear that we are at it. */
    uint64_t landed_before; /* file->landed_bytes, when it began. */
};

/* Those that waited until nothing of ours can land any more go on, if that is so. */
void recalls_settle(struct client *client);

/* Of those that take their time: without a word the manager would take us for dead. */
void recalls_tell_busy(struct client *client, uint64_t now_ms);

/* The one of the inode that is under way; NULL: none. */
struct recall_work *recall_find(const struct client *client, inode_id inode);

/* What the table had no room for. */
void recalls_give_back_evicted(struct client *client);

/* Those that wait are forgotten; the others have ended. */
void recalls_close(struct client *client);

#endif
