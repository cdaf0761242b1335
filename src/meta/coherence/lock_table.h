/* Locks of all clients, and who waits for them.
 *
 * Pure. A request is granted when nobody else's lock is in its way. One that may wait is queued
 * otherwise; it is granted, and popped, when the locks in its way are gone.
 *
 * Fair: whoever waits is looked at in the order of coming, and a request that may wait stays behind
 * an earlier one that it conflicts with, even if nobody holds a lock now. Only owners who hold some
 * lock already pass: somebody may be waiting for them, and staying behind could close a circle that
 * no lock demands.
 *
 * Deadlock: a request of fcntl(2) that would wait for an owner who, over any number of steps, waits
 * for the requester, is refused (LOCK_WOULD_DEADLOCK). Owners hold nobody up by queueing, so only held
 * locks need to be followed. flock(2) waits for ever, as on Linux. A conversion of one comes as two
 * requests: the old lock is freed before the other is asked for.
 *
 * Source: POSIX.1-2017, fcntl(), EDEADLK; the graph of who waits for whom: Holt, "Some deadlock
 * properties of computer systems", ACM Computing Surveys 4(3), 1972.
 */
#ifndef MORSEL_META_COHERENCE_LOCK_TABLE_H
#define MORSEL_META_COHERENCE_LOCK_TABLE_H

#include "common/fs/byte_locks.h"

enum {
    LOCKS_MAX = 1 << 18,        /* Ranges of all clients, about 150 bytes each */
    LOCKS_WAITING_MAX = 1 << 14 /* Requests that wait */
};

struct lock_table;

/* NULL: out of memory. */
struct lock_table *lock_table_new(void);
void lock_table_free(struct lock_table *t); /* NULL is allowed. */

enum lock_verdict {
    LOCK_DONE,
    LOCK_BLOCKED, /* It may not wait. */
    LOCK_WAITS,   /* `*ticket` is due. */
    LOCK_WOULD_DEADLOCK,
    LOCK_FULL /* The limits, or memory. */
};

/* Set or free bytes. LOCK_NONE and LOCK_STEP_DOWN are always DONE or FULL. */
enum lock_verdict lock_table_set(struct lock_table *t, const struct byte_lock *lock, bool wait,
                                 uint64_t *ticket);

/* Waiting requests that have come to an end since: DONE or FULL. False: no more. */
bool lock_table_pop(struct lock_table *t, uint64_t *ticket, enum lock_verdict *verdict);

/* It does not want to wait any more. False: it has been granted. */
bool lock_table_cancel(struct lock_table *t, uint64_t ticket);

/* A lock in the way of this one; NULL: none. Valid until the next change. */
const struct byte_lock *lock_table_conflict(const struct lock_table *t,
                                            const struct byte_lock *wanted);

/* Each held lock of the inode and the kind. `visit` must not change the table. */
void lock_table_each_of(const struct lock_table *t, inode_id inode, enum lock_kind kind,
                        byte_locks_visit visit, void *data);

/* All that the client holds or waits for is gone; its waiting requests are not popped. */
void lock_table_drop_client(struct lock_table *t, client_id client);

/* The client holds exactly this. What cannot be, because somebody else has it, is left out:
 * returns how many were. Its waiting requests are gone. */
size_t lock_table_restate(struct lock_table *t, client_id client, const struct byte_lock *locks,
                          size_t count);

struct lock_counters
{
    uint64_t held, waiting, deadlocks;
};
void lock_table_count(const struct lock_table *t, struct lock_counters *counters);

/* The invariants, for tests: O(n * n) an inode. Nobody waits whom neither a lock nor an earlier
 * request is in the way of; and those of byte_locks_check(). */
void lock_table_check(const struct lock_table *t);

#endif
