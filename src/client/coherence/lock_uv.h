/* Locks of this mount's processes: asked of the manager, remembered here, said again in SESSION.
 *
 * What the manager grants is noted when its answer comes, and what is freed, or steps down from
 * exclusive to shared, when that is sent: so the table never says more than the manager once knew.
 * A flock is converted by freeing it and asking for the other one.
 * A SESSION that says what we hold makes the manager forget everything else; answers to LOCK that
 * overtake its answer are asked for again.
 */
#ifndef MORSEL_CLIENT_COHERENCE_LOCK_UV_H
#define MORSEL_CLIENT_COHERENCE_LOCK_UV_H

#include "client/libmorsel_uv.h"
#include "common/fs/byte_locks.h"

enum { CLIENT_LOCKS_MAX = 8192 /* They fit into a SESSION. */ };

struct handle;

/* Embed it in what the request is about. */
struct lock_call
{
    struct list node; /* In client->lock_calls. */
    struct rpc_call rpc;
    struct client *client;
    struct handle *handle; /* Through which it was asked for; NULL: none. */
    struct byte_lock lock;
    enum lock_how how;
    enum lock_type converts_to; /* A flock, when the old one is free; LOCK_NONE: nothing. */
    uint64_t number;
    bool canceled;
    bool waited; /* In the callback: somebody else had it when the manager was asked. */
    /* `status` 0: `answer` is the manager's, and `conflict` (of LOCK_TEST) valid in the callback.
     */
    void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                 const struct byte_lock *conflict);
};

/* Set, wait for, test or (LOCK_NONE) free bytes. `lock` has the owner's id; the client is filled
 * in. A flock of another type than the owner's is gone then, whatever the answer. LOCK_WAIT waits
 * for ever, but for lock_cancel(). Callback law of rpc_uv.h. */
int lock_start(struct lock_call *call, struct client *client, struct handle *handle,
               const struct byte_lock *lock, enum lock_how how,
               void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                            const struct byte_lock *conflict));

/* The waiting process was interrupted: `done` runs soon, with LOCK_CANCELED or what came before. */
void lock_cancel(struct lock_call *call);

/* Has the owner anything locked on the inode, as far as we know? */
bool lock_held(const struct client *client, inode_id inode, enum lock_kind kind, uint64_t owner);

/* The owner's lock on the whole file is free although there is no memory to say so: the manager
 * hears of it with the next SESSION, soon. */
void lock_let_go(struct client *client, const struct byte_lock *lock);

/* Owners that locked through this handle last, one at a time, whoever they are: what is left when
 * the handle is released belongs to the open file, not to a process. False: none. */
bool lock_of_handle(const struct client *client, const struct handle *handle,
                    struct byte_lock *lock);
void lock_forget_handle(struct client *client, const struct handle *handle);

/* ---- For the client itself ---- */

/* The manager asks whether we still hold what is in somebody's way: it is answered behind what the
 * kernel has to say by then, the end of open files above all. */
void lock_on_check(struct client *client, const uint8_t *body, size_t body_count);

/* What SESSION says; `request->locks` is to be freed with lock_session_free(). False: no memory. */
bool lock_session_fill(struct client *client, Morsel__SessionRequest *request);
void lock_session_free(Morsel__SessionRequest *request);

/* A new connection: who does not want to wait any more need not be asked for again. */
void lock_manager_up(struct client *client);
void lock_session_answered(struct client *client, const Morsel__SessionReply *reply);

int lock_client_open(struct client *client); /* MORSEL_NOMEM */
void lock_client_close(struct client *client);

#endif
