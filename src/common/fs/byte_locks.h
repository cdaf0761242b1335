/* Byte-range locks that are held: who has which bytes of which file, shared or exclusive.
 *
 * Pure. The kinds live side by side and do not see each other, as those of fcntl(2) and flock(2) on
 * Linux; all but ranges cover the whole file. Ranges of one owner never overlap, and neighbours of
 * one type are one range. Two owners overlap only where both are shared: byte_locks_set() trusts
 * its caller to have asked byte_locks_conflict() first.
 *
 * The manager keeps those of all clients (lock_table.h), each mount its own, to say them again
 * after a restart of the manager.
 *
 * Source: POSIX.1-2017, fcntl(); fcntl_locking(2) and flock(2) of Linux.
 */
#ifndef MORSEL_COMMON_FS_BYTE_LOCKS_H
#define MORSEL_COMMON_FS_BYTE_LOCKS_H

#include "common/base/types.h"

#include <stdbool.h>
#include <stddef.h>

/* On the wire. */
enum lock_kind {
    LOCK_RANGE,
    LOCK_FLOCK,
    LOCK_SIZE, /* A mount's own: of who appends to a shared file, truncates it, or writes to it. */
    LOCK_KINDS
};
enum lock_type { LOCK_NONE, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_TYPES };

/* Which bytes of its range a request for LOCK_SHARED (of a program: not of LOCK_SIZE) is about:
 * all; those that its owner does not hold exclusively, so that it takes nothing away; or only
 * these, so that it asks for nothing and is in nobody's way. Of other requests, and of what is
 * held: LOCK_ALL. */
enum lock_part { LOCK_ALL, LOCK_TAKE, LOCK_STEP_DOWN, LOCK_PARTS };

enum lock_how { LOCK_TRY, LOCK_WAIT, LOCK_TEST, LOCK_HOWS };
enum lock_answer {
    LOCK_GRANTED,
    LOCK_HELD_BY_OTHERS, /* Of LOCK_TEST too. */
    LOCK_DEADLOCK,       /* EDEADLK */
    LOCK_LIMIT,          /* ENOLCK */
    LOCK_CANCELED,       /* LOCK_CANCEL came first. */
    LOCK_ASK_AGAIN       /* The client has said again what it holds, and this was not in it. */
};

struct lock_owner
{
    client_id client;
    uint64_t id; /* The kernel's: a process's files, or one open file. */
};

struct byte_lock
{
    inode_id inode;
    struct lock_owner owner;
    uint64_t start, end; /* Both included. */
    enum lock_kind kind;
    enum lock_type type;
    enum lock_part part;
    int32_t pid; /* For F_GETLK. */
};

bool lock_owner_equal(const struct lock_owner *a, const struct lock_owner *b);

/* Could the two not be held at once? Those of one owner never conflict. */
bool byte_lock_conflicts(const struct byte_lock *a, const struct byte_lock *b);

/* Inode, kind, type and part known, start <= end, the whole file where that must be, and a part
 * only where one can be? */
bool byte_lock_valid(const struct byte_lock *lock);

struct byte_locks;

/* At most `ranges_max` ranges. NULL: out of memory. */
struct byte_locks *byte_locks_new(uint32_t ranges_max);
void byte_locks_free(struct byte_locks *t); /* NULL is allowed. */

/* A lock that is held and conflicts with `wanted`; NULL: none. Valid until the next change. */
const struct byte_lock *byte_locks_conflict(const struct byte_locks *t,
                                            const struct byte_lock *wanted);

/* The owner's bytes [start, end], or that part of them, are of `type` from now on (LOCK_NONE:
 * free). False: there is no room for the ranges that come of it, or no memory; nothing was changed.
 * The whole file can always be freed. */
bool byte_locks_set(struct byte_locks *t, const struct byte_lock *lock);

/* The client's owners hold nothing any more. */
void byte_locks_drop_client(struct byte_locks *t, client_id client);

/* Ranges that the owner holds, of any inode and kind. */
uint32_t byte_locks_held_by(const struct byte_locks *t, const struct lock_owner *owner);

/* Has the owner a lock on the inode? */
bool byte_locks_has(const struct byte_locks *t, inode_id inode, enum lock_kind kind,
                    const struct lock_owner *owner);

/* Has the owner all of these bytes, whatever the type? */
bool byte_locks_covers(const struct byte_locks *t, const struct byte_lock *lock);

/* Has the owner any of these bytes exclusively? */
bool byte_locks_exclusive(const struct byte_locks *t, const struct byte_lock *lock);

/* All ranges, or those of one inode and kind. `visit` must not change the table. */
typedef void (*byte_locks_visit)(void *data, const struct byte_lock *lock);
void byte_locks_each(const struct byte_locks *t, byte_locks_visit visit, void *data);
void byte_locks_each_of(const struct byte_locks *t, inode_id inode, enum lock_kind kind,
                        byte_locks_visit visit, void *data);

uint32_t byte_locks_count(const struct byte_locks *t);

/* The invariants, for tests: O(n * n) an inode. Ranges lie by their start; those of one owner apart,
 * or side by side with another type; two owners' overlap only where both are shared. */
void byte_locks_check(const struct byte_locks *t);

#endif
