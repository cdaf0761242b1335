/* Whose turn it is with a shared file: exclusive to append and to cut, shared to write and to read
 * where bytes are missing (docs/locks.md).
 *
 * A turn is a lock of the kind LOCK_APPEND at the manager. All of this mount's operations that take
 * it shared have one such lock together, a *hold*; and it is kept for a moment when the last of
 * them has ended, because the next is likely to come. A hold is let go when nobody has used it for
 * TURN_KEPT_MS; when the manager says that somebody waits for it (MSG_TURN_WANTED, or an answer
 * that says that we waited ourselves); when somebody here wants an exclusive turn; and when the
 * manager may have given it away: after a new connection, and when it does not take our word.
 * It ends with the sharing too: under a lease nobody takes turns. Operations that have begun end
 * first; those that come then ask anew, and queue behind whoever waits. Nothing is let go while a
 * write that timed out may still land.
 */
#ifndef MORSEL_CLIENT_COHERENCE_TURN_UV_H
#define MORSEL_CLIENT_COHERENCE_TURN_UV_H

#include "client/client.h"
#include "common/fs/byte_locks.h"

enum {
    TURN_KEPT_MS = 100,
    TURNS_JOINABLE_MAX = 256 /* Files whose turn may be kept; others are let go at once. */
};

struct turn_hold;

/* Embed it, zeroed, in what takes the turn. */
struct turn
{
    struct list node;
    struct turn_hold *hold; /* NULL: neither waits nor has it. */
    bool had;
    void (*done)(struct turn *turn, int status);
};

/* `done` runs once, perhaps before this returns. With status 0 turn_end() is due; otherwise nothing
 * is. Waits for ever, but for turn_cancel(). MORSEL_NOLCK: too many locks; MORSEL_NOMEM. */
void turn_take(struct turn *turn, struct client *client, inode_id inode, enum lock_type type,
               void (*done)(struct turn *turn, int status));

/* Take part in a turn that this mount has, to read below `end`. False: it has none, or does not
 * know whether the file is so long: ask the manager. While somebody has a shared turn nobody cuts
 * the file, so that it is at least as long as the manager has said since; `*size` is that. */
bool turn_join(struct turn *turn, struct client *client, inode_id inode, uint64_t end,
               uint64_t *size);

/* The manager has just said how long the file is. */
void turn_note_size(struct client *client, inode_id inode, uint64_t size);

/* While it waits: `done` runs now, with MORSEL_CANCELED. Otherwise nothing happens. */
void turn_cancel(struct turn *turn);

/* Had, and not lost since (others may have it): what it was taken for may begin. */
bool turn_is_good(const struct turn *turn);

/* The turn that `from` has is `to`'s, which has none. */
void turn_move(struct turn *to, struct turn *from);

/* If it is had. */
void turn_end(struct turn *turn);

/* ---- For the client itself ---- */

void turn_on_push(struct client *client, const uint8_t *body, size_t body_count);

/* No hold of the inode may be joined any more: it is not open here, or we have a lease on it. */
void turn_let_go(struct client *client, inode_id inode);

/* No hold that we have may be joined any more. */
void turn_forget_all(struct client *client);

/* The manager has given all of them away. */
void turn_lose_all(struct client *client);
void turn_tick(struct client *client);
void turn_client_close(struct client *client); /* No call is under way. */

#endif
