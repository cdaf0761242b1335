/* What was answered and is sent to the manager behind, and calls that wait for their turn.
 *
 * Attributes that are set under W wait for a moment (attr_behind.h), so that one message says what
 * several calls have set; they go out before anything else that is asked of the manager, after
 * BEHIND_HELD_MAX inodes, and at the next tick. Nothing else overtakes them: so a rename or a sync
 * that comes after finds what was set, and a recall is answered when the manager has it.
 *
 * Calls. The manager keeps the answers of so many changes (op_numbers.h); when all places are
 * taken, calls wait here, in order, until one is free or their time is over. CLIENT_OPS_RESERVED
 * places are kept for changes under a lease or a size lock: these wait for no other client, and others
 * may wait for them. Questions need no place, and wait only for attributes that were set before: until
 * these are sent, and where the call is to make an inode durable (`covers`), until the manager has
 * answered those of that inode. What it had refused is sent once more then; refused again, it is what
 * the call ends with.
 */
#ifndef MORSEL_CLIENT_MANAGER_BEHIND_UV_H
#define MORSEL_CLIENT_MANAGER_BEHIND_UV_H

#include "client/libmorsel_uv.h"
#include "client/manager/attr_behind.h"

enum {
    BEHIND_HELD_MAX = 64,      /* Inodes whose attributes wait for company. */
    BEHIND_INODES_MAX = 1024,  /* With the attributes of so many more, setting them waits. */
    BEHIND_REPORTS_MAX = 1024, /* With so many sizes on their way, close waits for its own. */
    BEHIND_RETRY_MS = 1000,    /* What the manager has refused is tried again so soon. */
    BEHIND_WARN_MS_MAX = 30000 /* The log says what waits after io_timeout, or this. */
};

/* All run on the loop. */
struct behind_hooks
{
    /* What was set on the inode is lost: whoever has it open is to be told EIO. */
    void (*lost)(struct client *client, inode_id inode);
    /* What an answer of the manager, of this type, says of changes and of its disk. */
    void (*learned)(struct client *client, const ProtobufCMessageDescriptor *type,
                    const void *message);
};

/* For behind_uv.c, call_uv.c and call_queue_uv.c only. */
struct calls
{
    const struct behind_hooks *hooks;
    client_id id;
    struct op_numbers numbers;
    op_sequence numbers_out[CLIENT_OPS_PENDING_MAX];
    struct list urgent, waiting, syncing, ended; /* struct queued_call */
    bool pumping;

    struct attr_behind *attributes;
    uint64_t progress_ms; /* When the manager took something last. */
    uint64_t retry_ms;
    unsigned reports; /* Sizes of files on their way, with nobody waiting. */
    bool warned;
};

/* Attributes of an inode that we hold under W were set, and answered. False: too much is behind;
 * nothing was done. */
bool behind_set(struct client *client, inode_id inode, const struct attr_change *change);

/* Is something that was set on the inode not with the manager yet? */
bool behind_has(const struct client *client, inode_id inode);

/* Send what waits. */
void behind_push(struct client *client);

/* Leases were lost: so is what was set under them. */
void behind_lose(struct client *client);

/* The manager has taken something of what is behind. */
void behind_note_progress(struct client *client);

/* One more (+1) or less (-1) report of what was written is on its way, and nobody waits for it. */
void behind_note_report(struct client *client, int change);

/* May a change that ended so still be taken, if it is sent again later? Others have been judged. */
bool behind_is_passing(int status);

/* May a close leave its report behind, or are so many on their way that it waits? */
bool behind_takes_report(const struct client *client);

/* Of how many inodes are attributes not with the manager? */
uint32_t behind_count(const struct client *client);

/* Is anything not with the manager that was answered, but for what open files hold? */
bool behind_is_empty(const struct client *client);

/* client->calls: `id` names the client in the ids of its changes. The hooks must stay. MORSEL_NOMEM.
 */
int behind_open(struct client *client, client_id id, const struct behind_hooks *hooks);
void behind_tick(struct client *client);
void behind_close(struct client *client);

/* ---- Calls (call_queue_uv.c) ---- */

/* Start the call, or let it wait. `op`: of a change, the field of the request for its id (NULL: a
 * question). As rpc_call_start(). */
int call_queue_start(struct meta_call *call, const ProtobufCMessage *request, Morsel__OpId **op);

/* Likewise, without waiting: MORSEL_AGAIN when there is no place. */
int call_queue_start_now(struct meta_call *call, const ProtobufCMessage *request,
                         Morsel__OpId **op);

/* A place has become free, or attributes have gone out. */
void call_queue_pump(struct client *client);

/* Its `done` runs later. False: it does not wait here. */
bool call_queue_cancel(struct meta_call *call);

/* Calls whose time is over, or that were cancelled, end. */
void call_queue_tick(struct client *client);

/* All that wait end with MORSEL_SHUTDOWN. */
void call_queue_close(struct client *client);

#endif
