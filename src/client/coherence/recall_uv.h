/* Giving leases back, asked by the manager or for want of room in the table: what was written under
 * one is flushed, what is kept is dropped, here and in the kernel, and the manager is told.
 * lease_on_recall() and lease_unpinned() (lease_uv.h) are here too.
 */
#ifndef MORSEL_CLIENT_COHERENCE_RECALL_UV_H
#define MORSEL_CLIENT_COHERENCE_RECALL_UV_H

#include "client/coherence/lease_uv.h"
#include "client/data/file_uv.h"

/* What a lease that is on its way back needs here; what happens to it when is the core's
 * (lease_holder.h). */
struct recall_work
{
    struct lease_return back;
    struct client *client;
    uint64_t began_ns;
    struct kernel_known kernel; /* When it began. */
    struct file_flush flush;
    struct kernel_drop drop;
    uint64_t landed_before; /* file->landed_bytes, when it began. */
};

/* What the core says of action->back: HOLDER_FORGET and those behind it. */
void recall_carry_out(struct client *client, const struct lease_holder_action *action);

/* Those that waited until nothing of ours can land any more go on, if that is so. */
void recalls_settle(struct client *client);

/* Of those that take their time: without a word the manager would take us for dead. */
void recalls_tell_busy(struct client *client);

/* What the table had no room for. */
void recalls_give_back_evicted(struct client *client);

/* Those that wait are forgotten; the others have ended. */
void recalls_close(struct client *client);

#endif
