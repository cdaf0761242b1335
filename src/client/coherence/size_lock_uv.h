/* The size lock of a shared file: exclusive to append and to cut, shared to write and to read
 * where bytes are missing (docs/locks.md).
 *
 * It is a lock of the kind LOCK_SIZE at the manager. All of this mount's operations that take
 * it shared have one such lock together, a *hold*; and it is kept for a moment when the last of
 * them has ended, because the next is likely to come. A hold is let go when nobody has used it for
 * TURN_KEPT_MS; when the manager says that somebody waits for it (MSG_LOCK_REVOKE, or an answer
 * that says that we waited ourselves); when somebody here wants an exclusive size lock; and when the
 * manager may have given it away: after a new connection, and when it does not take our word.
 * It ends with the sharing too: under a lease nobody takes it. Operations that have begun end
 * first; those that come then ask anew, and queue behind whoever waits. Nothing is let go while a
 * write that timed out may still land.
 */
#ifndef MORSEL_CLIENT_COHERENCE_SIZE_LOCK_UV_H
#define MORSEL_CLIENT_COHERENCE_SIZE_LOCK_UV_H

#include "client/libmorsel_uv.h"
#include "common/fs/byte_locks.h"

enum {
    SIZE_LOCK_KEPT_MS = 100,
    SIZE_LOCKS_JOINABLE_MAX =
        256 /* Files whose size lock may be kept; others are let go at once. */
};

struct size_lock_hold;

/* Embed it, zeroed, in what takes the size lock. */
struct size_lock
{
    struct list node;
    struct size_lock_hold *hold; /* NULL: neither waits nor has it. */
    bool had;
    void (*done)(struct size_lock *size_lock, int status);
};

/* `done` runs once, perhaps before this returns. With status 0 size_lock_end() is due; otherwise nothing
 * is. Waits for ever, but for size_lock_cancel(). MORSEL_NOLCK: too many locks; MORSEL_NOMEM. */
void size_lock_take(struct size_lock *size_lock, struct client *client, inode_id inode,
                    enum lock_type type, void (*done)(struct size_lock *size_lock, int status));

/* Take part in a size lock that this mount has, to read below `end`. False: it has none, or does not
 * know whether the file is so long: ask the manager. While somebody has a shared size lock nobody cuts
 * the file, so that it is at least as long as the manager has said since; `*size` is that. */
bool size_lock_join(struct size_lock *size_lock, struct client *client, inode_id inode,
                    uint64_t end, uint64_t *size);

/* The manager has just said how long the file is. */
void size_lock_note_size(struct client *client, inode_id inode, uint64_t size);

/* While it waits: `done` runs now, with MORSEL_CANCELED. Otherwise nothing happens. */
void size_lock_cancel(struct size_lock *size_lock);

/* Had, and not lost since (others may have it): what it was taken for may begin. */
bool size_lock_is_good(const struct size_lock *size_lock);

/* The size lock that `from` has is `to`'s, which has none. */
void size_lock_move(struct size_lock *to, struct size_lock *from);

/* If it is had. */
void size_lock_end(struct size_lock *size_lock);

/* ---- For the client itself ---- */

void size_lock_on_push(struct client *client, const uint8_t *body, size_t body_count);

/* No hold of the inode may be joined any more: it is not open here, or we have a lease on it. */
void size_lock_let_go(struct client *client, inode_id inode);

/* No hold that we have may be joined any more. */
void size_lock_forget_all(struct client *client);

/* The manager has given all of them away. */
void size_lock_lose_all(struct client *client);
void size_lock_tick(struct client *client);
void size_lock_client_close(struct client *client); /* No call is under way. */

#endif
