/* Locks of this mount's processes: asked of the manager, remembered here, said again in SESSION.
 *
 * What is held, and in which state a request is, is the core's (lock_holder.h); here are its calls.
 */
#ifndef MORSEL_CLIENT_COHERENCE_LOCK_UV_H
#define MORSEL_CLIENT_COHERENCE_LOCK_UV_H

#include "client/coherence/lock_holder.h"
#include "client/libmorsel_uv.h"

/* Embed it in what the request is about. */
struct lock_call
{
    struct lock_request request; /* The core's. */
    struct rpc_call rpc;
    struct client *client;
    int refused;             /* Why it was not begun. */
    struct rpc_reply *reply; /* While it is looked at. */
    const struct byte_lock *conflict;
    /* `status` 0: `answer` is the manager's, and `conflict` (of LOCK_TEST) valid in the callback.
     */
    void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                 const struct byte_lock *conflict);
};

/* Set, wait for, test or (LOCK_NONE) free bytes. `lock` has the owner's id; the client is filled
 * in. A flock of another type than the owner's is gone then, whatever the answer. LOCK_WAIT waits
 * for ever, but for lock_cancel(). Callback law of rpc_uv.h. */
int lock_start(struct lock_call *call, struct client *client, const struct handle *handle,
               const struct byte_lock *lock, enum lock_how how,
               void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                            const struct byte_lock *conflict));

/* The waiting process was interrupted: `done` runs soon, with LOCK_CANCELED or what came before. */
void lock_cancel(struct lock_call *call);

/* The owner's lock on the whole file is free although there is no memory to say so: the manager
 * hears of it with the next SESSION, soon. */
void lock_let_go(struct client *client, const struct byte_lock *lock);

/* As lock_holder_has(), lock_holder_of_handle(), lock_holder_forget_handle(). */
bool lock_has(const struct client *client, inode_id inode, enum lock_kind kind, uint64_t owner);
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

/* How many ranges are locked; and each of them. */
uint32_t lock_count(const struct client *client);
void lock_each(const struct client *client, void (*each)(void *data, const struct byte_lock *lock),
               void *data);

/* The manager has given all of them away. */
void lock_lose_all(struct client *client);

#endif
