/* The size lock of a shared file: exclusive to append and to truncate, shared to write and to read
 * where bytes are missing (docs/locks.md). Who of this mount has it, and how long it is kept.
 *
 * Pure: events in, actions out. It is a lock of the kind LOCK_SIZE at the manager (lock_holder.h).
 * All of this mount's operations that take it shared have one such lock together, a *hold*; and it
 * is kept for a moment when the last of them has ended, because the next is likely to come.
 *
 *     TAKE, ROOM
 *        v
 *     ASKING -- ANSWERED: granted --> GRANTED -------- LOSE -----> LOST
 *        |                             |                            |
 *        | ANSWERED: refused           |  nobody uses it, and       |  nobody uses it
 *        v                             |  nobody can join: SAID     v
 *     REFUSED                          +----------------------> RELEASING
 *        |  TOLD                                                    |  RELEASED
 *        +----------------------------> GONE <----------------------+
 *
 *   ASKING     those who want it wait.
 *   GRANTED    each of them was told that it has it, and ends it; the next may join.
 *   LOST       the manager has given it away: who has it must not begin anything under it.
 *   RELEASING  the manager was told that it is free. (Without memory it stays where it was, and the
 *              next TICK tries again.)
 *
 * A hold can be joined if it is shared, and not any more when nobody has used it for
 * SIZE_LOCK_KEPT_MS; when the manager says that somebody waits for it (LET_GO, or an answer that says
 * that we waited ourselves); when somebody here wants an exclusive one; and when the manager may have
 * given it away: after a new connection, and when it does not take our word. It ends with the
 * sharing too: under a lease nobody takes it. Operations that have begun end first; those that come
 * then ask again, and queue behind whoever waits. Nothing is let go while a write that timed out may
 * still land (`sure`), unless it is lost anyway.
 *
 * Invariants (size_locks_check()): one hold of an inode at most can be joined, and only a shared one
 * that is asked for or had; an exclusive one has one user; nobody uses or joins what is released.
 */
#ifndef MORSEL_CLIENT_COHERENCE_SIZE_LOCK_H
#define MORSEL_CLIENT_COHERENCE_SIZE_LOCK_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/fs/byte_locks.h"

enum {
    SIZE_LOCK_KEPT_MS = 100,
    SIZE_LOCKS_JOINABLE_MAX =
        256 /* Files whose size lock may be kept; others are let go at once. */
};

enum size_hold_state {
    SIZE_HOLD_NEW,
    SIZE_HOLD_ASKING,
    SIZE_HOLD_GRANTED,
    SIZE_HOLD_LOST,
    SIZE_HOLD_RELEASING,
    SIZE_HOLD_REFUSED,
    SIZE_HOLD_GONE,
    SIZE_HOLD_STATES /* How many. */
};

/* The host's memory, zeroed; the core's from SIZE_ROOM to SIZE_FREE. For others to read. */
struct size_hold
{
    struct list node;    /* In size_locks.holds. */
    struct list waiting; /* struct size_lock, until they are told. */
    uint64_t owner;      /* At the manager; no other hold has the same. */
    inode_id inode;
    uint64_t idle_since_ms;
    uint64_t size; /* Of the file, at least; as the manager said since it gave us the size lock. */
    enum size_hold_state state;
    enum lock_type type;
    unsigned users;
    int status; /* Of the answer. */
    bool telling;
    bool joinable;     /* In size_locks.joinable. */
    UT_hash_handle hh; /* By inode. */
};

/* One who wants it. Embed it, zeroed, in what takes the size lock. */
struct size_lock
{
    struct list node;
    struct size_hold *hold; /* NULL: neither waits nor has it. */
    bool granted;
    void (*done)(struct size_lock *size_lock, int status); /* The host's. */
};

/* For others to read. */
struct size_locks
{
    struct size_hold *joinable; /* By inode. */
    struct list holds;          /* All of them. */
    uint64_t last_owner;
};

enum size_lock_event_type {
    SIZE_TAKE,      /* `user`, inode, lock_type, `valid` */
    SIZE_ROOM,      /* Behind SIZE_NEED, with the same; `hold`: the room; NULL: no memory. */
    SIZE_UNASKED,   /* `hold`, `status`. SIZE_ASK could not be carried out. */
    SIZE_ANSWERED,  /* `hold`, `status` (0: granted), `waited` */
    SIZE_TOLD,      /* `hold`, now_ms. SIZE_TELL was carried out. */
    SIZE_JOIN,      /* `user`, inode, `end`, `valid`: it is had at once, or not at all. */
    SIZE_CANCEL,    /* `user`. It does not want to wait any more. */
    SIZE_END,       /* `user`, now_ms. If it has it. */
    SIZE_LET_GO,    /* inode: nobody may join. */
    SIZE_LET_GO_OF, /* `hold`: the same. */
    SIZE_LOSE,      /* `hold`: the manager has given it away. */
    SIZE_TICK,      /* `hold`, now_ms */
    SIZE_SAID,      /* `hold`. SIZE_RELEASE was carried out. */
    SIZE_RELEASED   /* `hold`. The manager has heard that, or will with the next SESSION. */
};

struct size_lock_event
{
    enum size_lock_event_type type;
    struct size_lock *user;
    struct size_hold *hold;
    inode_id inode;
    enum lock_type lock_type;
    uint64_t end; /* JOIN: to read below it. */
    uint64_t now_ms;
    int status;
    bool waited; /* Somebody else had it. */
    bool valid;  /* We have a lease period: without one the manager may have given it to others. */
    bool sure;   /* Always: nothing can land any more whose end we do not know. */
};

enum size_lock_action_type {
    SIZE_NEED,    /* Memory for a hold; then ROOM. */
    SIZE_ASK,     /* Ask the manager for `hold`; then ANSWERED, later, or UNASKED, at once. */
    SIZE_GIVE_UP, /* Nobody waits for `hold` any more; ANSWERED comes all the same. */
    SIZE_TELL,    /* All that size_locks_next() says; then TOLD. */
    SIZE_DONE,    /* Tell `user`: `status`. */
    SIZE_RELEASE, /* Tell the manager that `hold` is free; then SAID, and RELEASED later. */
    SIZE_FREE     /* The memory of `hold` is the host's again. */
};

struct size_lock_action
{
    enum size_lock_action_type type;
    struct size_hold *hold;
    struct size_lock *user;
    int status;
};

enum { SIZE_ACTIONS_MAX = 2 };

/* To be carried out in this order; each may feed the next event of its hold or user at once. */
struct size_lock_actions
{
    uint32_t count;
    struct size_lock_action items[SIZE_ACTIONS_MAX];
};

void size_locks_init(struct size_locks *locks);

/* `out` is empty before. */
void size_locks_step(struct size_locks *locks, const struct size_lock_event *event,
                     struct size_lock_actions *out);

/* The next one who waited for the hold, to be told `hold->status`; NULL: all have heard. */
struct size_lock *size_locks_next(struct size_hold *hold);

/* The manager has just said how long the file is. */
void size_locks_note_size(struct size_locks *locks, inode_id inode, uint64_t size);

/* Had, and not lost since (others may have it): what it was taken for may begin. */
bool size_lock_is_good(const struct size_lock *user);

/* The size lock that `from` has is `to`'s, which has none. */
void size_lock_move(struct size_lock *to, struct size_lock *from);

/* The client ends, and no call is under way: the hold is the host's. */
void size_locks_abandon(struct size_locks *locks, struct size_hold *hold);

/* The invariants of all that is here, for tests: O(n * n). */
void size_locks_check(const struct size_locks *locks);

/* For tests and logs. */
const char *size_hold_state_name(enum size_hold_state state);

#endif
