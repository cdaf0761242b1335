/* Who may cache what: leases on inodes, their recall, and what happens to holders that are silent.
 *
 * Pure: events in, actions out; every event carries the time. docs/leases.md is the protocol; this
 * is the manager's half of it.
 *
 * A client is
 *   unknown, until it joins (JOIN); then
 *   JOINED, until it is silent for its lease period: unknown, and holds nothing; or until it has not
 *     answered a recall for a lease period:
 *   FENCED, until its lease period ends. It may join again before: then it is served again, but granted
 *     nothing until that end, and JOINED from then on; otherwise it is unknown.
 * LEAVE: unknown, and holds nothing. GONE (its connection ended): as it was, and silent from now
 * on. A FENCED client keeps its leases until its lease period ends, but what it says does not count any more.
 *
 * Lease on one inode of one client: none -> R or W (lease_grant) -> being recalled -> kept in part,
 * or none.
 *
 * Being recalled: the holder has a lease period to answer. One that says that it is writing back (BUSY)
 * has one more from then on, as often as it says so and as long as bytes land: once none has
 * for LEASE_FLUSH_MS its time is over all the same. Who waits for it is told, once (LEASE_HELD_UP).
 *
 * A request touches inodes: it reads some (ACCESS_READ: nobody else may hold W) and changes others
 * (ACCESS_CHANGE: nobody else may hold anything). lease_acquire() says GO, or sends recalls and
 * gives a ticket; LEASE_READY comes when every lease in its way has been given back or run out. The
 * host then asks again: somebody may have been quicker. While a ticket waits for an inode nothing
 * is granted on it.
 *
 * Lease epochs. A client holds its leases under a lease epoch, a number that it is told when it joins and names
 * whenever it joins again. A client whose leases are taken away (fenced, or its lease period is over) loses
 * its lease epoch; what it names under a lease epoch that is not its own any more it does not hold. So a client
 * that has not heard of its loss cannot talk a restarted manager into it.
 *
 * Grace. The host makes each lease epoch durable (LEASE_PERSIST) before the first grant under it, and
 * forgets it durably (LEASE_FORGET, LEASE_FORGOTTEN) before what was held under it goes to others.
 * After a restart every durable lease epoch is EXPECTED: until each has been named (with what is held
 * under it), or its lease period has passed and it has been forgotten, lease_acquire() makes everybody
 * wait.
 *
 * Lease periods. A lease epoch carries its lease period for as long as it lives: the manager may be started with another
 * one, but who holds under an old lease epoch has been told the old one.
 *
 * Locks (docs/locks.md). The right to hold locks is a lease on INODE_LOCKS, which nobody recalls:
 * so a client with locks is made durable, waited for after a restart, and its locks end with its
 * lease period.
 *
 * Invariants:
 *  - an inode with a W lease has one holder;
 *  - no grant to a client that is not JOINED, persisted, and caching, nor in the grace period;
 *  - a recall that is under way names a lease that exists, and has a deadline unless its holder is
 *    FENCED; its number is unique for ever;
 *  - every holder has a deadline, not later than the end of its lease period (or than when the disk is
 *    asked again to forget its lease epoch);
 *  - counts agree with the lists; LEASES_MAX and LEASE_TICKETS_MAX hold.
 * The first two are checked at each grant and join, counts at each step; all of them by
 * lease_check(), which the tests and the simulator call behind each step.
 *
 * Deadlines lie in heaps: an event costs O(log n) beside what it is about, and a word of a client
 * (lease_heard) O(1); its place in the heap is put right when it comes up.
 *
 * Source: Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file
 * cache consistency", SOSP 1989; one lease period for all leases of a client as in Burrows' Chubby, OSDI
 * 2006.
 */
#ifndef MORSEL_META_COHERENCE_LEASE_H
#define MORSEL_META_COHERENCE_LEASE_H

#include "common/base/limits.h"
#include "common/base/types.h"
#include "common/fs/lease_mode.h"

enum {
    LEASES_MAX = 1 << 19,     /* Of all clients, about 100 bytes each. Beyond: no grant. */
    LEASE_TICKETS_MAX = 4096, /* Requests that wait. Beyond: LEASE_FULL. */
    LEASE_TOUCHED_MAX = 6,    /* Inodes that one request touches: RENAME, the most */
    LEASE_CLIENTS_MAX = SESSIONS_MAX
};

enum lease_access { ACCESS_READ, ACCESS_CHANGE };

struct lease_touch
{
    inode_id inode;
    enum lease_access access;
};

enum lease_event_type {
    LEASE_JOIN,      /* SESSION on a new connection: `caches`, `held`. */
    LEASE_GONE,      /* The client's connection ended. */
    LEASE_LEAVE,     /* Unmounted, or its session ended. */
    LEASE_BUSY,      /* `inode`: `recall` is being answered, `landed` bytes so far. */
    LEASE_RETURN,    /* `inode`: keeps `keeps`. `recall` 0: unasked; it is recalled then. */
    LEASE_PERSISTED, /* `lease_epoch` of `client` is durable. */
    LEASE_FORGOTTEN, /* `lease_epoch` is durably forgotten. */
    LEASE_TICK
};

struct lease_held
{
    inode_id inode;
    enum lease_mode mode;
};

struct lease_event
{
    uint64_t now_ms; /* Monotonic. */
    enum lease_event_type type;
    client_id client;
    uint64_t
        lease_epoch; /* JOIN: as the client knows it, 0: none. PERSISTED, FORGOTTEN: of the action. */
    uint64_t number; /* JOIN: the client's, growing. An older one came late over a connection
                        that it has given up, and is passed over. */
    bool caches;     /* JOIN: false under -o nocache. */
    const struct lease_held *held; /* JOIN: what the client still uses. */
    size_t held_count;
    uint64_t recall; /* RETURN, BUSY */
    uint64_t landed;
    inode_id inode;
    enum lease_mode keeps;
};

struct lease_action
{
    enum {
        LEASE_RECALL,  /* Push: `client` is to come down to `keeps` on `inode` and answer `recall`.
                        */
        LEASE_HELD_UP, /* For the log (`client` 0), and to be told to `client`, who waits: `holder`
                          still writes `inode` back, `count` bytes so far. */
        LEASE_READY,   /* The request of `ticket` is to be tried again. */
        LEASE_LOST,    /* Answer of this JOIN: `inode` is not held any more. */
        LEASE_FENCE,   /* `client` did not give back: refuse it until it joins again. */
        LEASE_EXPIRED, /* For the log: the lease period of `client` is over, `count` leases are gone. */
        LEASE_PERSIST,    /* Make `lease_epoch` durable, then send PERSISTED. */
        LEASE_FORGET,     /* Forget `lease_epoch` durably, then send FORGOTTEN. */
        LEASE_LOCKS_OVER, /* `client` does not hold INODE_LOCKS any more: its locks are free. */
        LEASE_GRACE_OVER
    } type;
    client_id client, holder;
    uint64_t lease_epoch;
    uint64_t recall;
    inode_id inode;
    enum lease_mode keeps;
    uint64_t ticket;
    uint64_t count;
};

/* Grows as needed; the host empties it. NOMEM is remembered in `failed`, and what could not be told
 * is tried again at the next TICK. */
struct lease_actions
{
    struct lease_action *items;
    size_t count, capacity;
    bool failed;
};
void lease_actions_init(struct lease_actions *out);
void lease_actions_free(struct lease_actions *out);

struct lease_table;

/* A lease epoch and the lease period that its client was told. */
struct lease_epoch_kept
{
    uint64_t lease_epoch;
    uint32_t lease_period_ms;
};

struct lease_options
{
    uint64_t now_ms;          /* Of the start. */
    uint32_t lease_period_ms; /* Of new lease epochs; 0: LEASE_MS. */
    const struct lease_epoch_kept
        *expected; /* Durable lease epochs of the time before; none after making a cluster. */
    size_t expected_count; /* At most LEASE_CLIENTS_MAX. */
    /* Something random: new lease epochs, and the numbers of recalls, are counted on from here. What a client says to a
     * manager that has restarted, late, must name nothing that is of this life. */
    uint64_t last_lease_epoch;
};

/* NULL: out of memory. */
struct lease_table *lease_table_new(const struct lease_options *options);
void lease_table_free(struct lease_table *t); /* NULL is allowed. */

void lease_step(struct lease_table *t, const struct lease_event *event, struct lease_actions *out);

/* A word from the client: its lease period begins again. False: it is fenced, or its lease period was over and we
 * know it no more; it must join. (Where there is no room to know it, it holds nothing: true.) */
bool lease_heard(struct lease_table *t, client_id client, uint64_t now_ms);

enum lease_verdict { LEASE_GO, LEASE_WAIT, LEASE_FULL };

/* May `client` (0: somebody without leases) serve itself to `touched` (at most LEASE_TOUCHED_MAX)?
 * WAIT:
 * `*ticket` is due. `client` must not hold its own request up: leases of its own never conflict. */
enum lease_verdict lease_acquire(struct lease_table *t, uint64_t now_ms, client_id client,
                                 const struct lease_touch *touched, unsigned touched_count,
                                 uint64_t *ticket, struct lease_actions *out);

/* The request of the ticket is not interested any more. */
void lease_ticket_drop(struct lease_table *t, uint64_t ticket);

/* What the reply to `client` may carry for `inode`: `wanted`, or what it has.
 * `eager`: OPEN and MAKE; others get nothing while the inode is quiet. A client that holds more
 * keeps it, and is told so. `others_open`, `others_write`: does another client have it open, for
 * writing? (session.h) */
enum lease_mode lease_grant(struct lease_table *t, uint64_t now_ms, client_id client,
                            inode_id inode, enum lease_mode wanted, bool eager, bool others_open,
                            bool others_write);

/* A client that caches nothing wants locks: it becomes a holder all the same, and is granted
 * INODE_LOCKS once it is durable. */
void lease_admit(struct lease_table *t, uint64_t now_ms, client_id client,
                 struct lease_actions *out);

/* The host could not begin to make the lease epoch durable (LEASE_PERSIST): the client's next JOIN asks
 * for it again. */
void lease_not_persisted(struct lease_table *t, client_id client, uint64_t lease_epoch);

/* The lease epoch that the reply to JOIN tells; 0: none. */
uint64_t lease_epoch_of(const struct lease_table *t, client_id client);

/* The lease period that goes with it, which the reply tells too. */
uint32_t lease_period_ms(const struct lease_table *t, client_id client);

/* Is the client waited out, because it did not give back what it was asked for? */
bool lease_is_fenced(const struct lease_table *t, client_id client);

/* Has the client sent a newer JOIN than this one? */
bool lease_join_is_late(const struct lease_table *t, client_id client, uint64_t number);

/* What a reply may say that the client holds: nothing while it is being recalled, for the client
 * itself decides then what remains. */
enum lease_mode lease_told(const struct lease_table *t, client_id client, inode_id inode);

/* Does another client hold W? */
bool lease_written_elsewhere(const struct lease_table *t, client_id client, inode_id inode);

/* What the client holds now, until it has answered a recall. */
enum lease_mode lease_held_by(const struct lease_table *t, client_id client, inode_id inode);

/* The inode is gone: so is what is held on it. */
void lease_forget_inode(struct lease_table *t, inode_id inode, struct lease_actions *out);

/* When LEASE_TICK is due; UINT64_MAX: never. */
uint64_t lease_deadline_ms(const struct lease_table *t);

bool lease_in_grace(const struct lease_table *t);

struct lease_counters
{
    uint64_t leases, clients, tickets;
    uint64_t granted, recalled, returned, expired, fenced, refused_quiet, refused_full;
    uint64_t busy; /* Recalls whose holders said that they were writing back. */
};
/* CHECK all invariants: O(everything). */
void lease_check(const struct lease_table *t);

void lease_count(const struct lease_table *t, struct lease_counters *counters);

#endif
