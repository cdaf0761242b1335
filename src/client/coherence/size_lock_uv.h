/* The size lock of a shared file, for those who write, append, truncate and read it: what it is,
 * and how long it is kept, is the core's (size_lock.h); here are its locks at the manager.
 */
#ifndef MORSEL_CLIENT_COHERENCE_SIZE_LOCK_UV_H
#define MORSEL_CLIENT_COHERENCE_SIZE_LOCK_UV_H

#include "client/coherence/size_lock.h"
#include "client/libmorsel_uv.h"

/* `done` runs once, perhaps before this returns. With status 0 size_lock_end() is due; otherwise nothing
 * is. Waits for ever, but for size_lock_cancel(). MORSEL_NOLCK: too many locks; MORSEL_NOMEM. */
void size_lock_take(struct size_lock *size_lock, struct client *client, inode_id inode,
                    enum lock_type type, void (*done)(struct size_lock *size_lock, int status));

/* Take part in a size lock that this mount has, to read below `end`. False: it has none, or does not
 * know whether the file is so long: ask the manager. While somebody has a shared size lock nobody
 * truncates the file, so that it is at least as long as the manager has said since; `*size` is
 * that. */
bool size_lock_join(struct size_lock *size_lock, struct client *client, inode_id inode,
                    uint64_t end, uint64_t *size);

/* While it waits: `done` runs now, with MORSEL_CANCELED. Otherwise nothing happens. */
void size_lock_cancel(struct size_lock *size_lock);

/* Let it go; harmless if it is not held. */
void size_lock_end(struct size_lock *size_lock);

/* ---- For the client itself ---- */

void size_lock_on_push(struct client *client, const uint8_t *body, size_t body_count);

/* No hold of the inode may be joined any more: it is not open here, or we have a lease on it. */
void size_lock_let_go(struct client *client, inode_id inode);

/* No hold that we have may be joined any more. */
void size_lock_forget_all(struct client *client);

/* The manager says how long the file is: for those who join a hold of ours. */
void size_lock_note_size(struct client *client, inode_id inode, uint64_t size);

/* The manager has given all of them away: what was to be done under one is not done. */
void size_lock_lose_all(struct client *client);
void size_lock_tick(struct client *client);
void size_lock_client_close(struct client *client); /* No call is under way. */

#endif
