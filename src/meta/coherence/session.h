/* Client sessions: who is there, and what they hold open.
 *
 * Pure: events in, actions out; the event carries the time.
 *
 *   unknown --ASK--> JOINED --GONE--> AWAY --ASK--> JOINED
 *   A session ends (and its open files are released) by LEAVE, or by silence for session_ms.
 *
 * A request of a client that is not JOINED is not served (session_joined()). What clients may cache
 * is the matter of leases (lease.h).
 *
 * Restart. Files that were unlinked while open belong to sessions that the new manager has not
 * heard of yet: during the grace period (session_ms from the start) every inode counts as held,
 * after it only what was re-asserted.
 *
 * Invariants: see check_invariants() in session.c. Bounded: SESSIONS_MAX sessions,
 * SESSION_OPENS_MAX open files.
 *
 * Source: sessions and the grace period behind a restart are those of NFSv4 (RFC 8881, 2.10 and 8.4.2).
 */
#ifndef MORSEL_META_COHERENCE_SESSION_H
#define MORSEL_META_COHERENCE_SESSION_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    SESSION_MS_DEFAULT = 30000,
    SESSION_OPENS_MAX = 1 << 20, /* Of all sessions together, some 150 bytes each */
    SESSION_ENDS_MAX = 64,       /* Of one tick; the next is due at once. */
    SESSION_ACTIONS_MAX = SESSION_ENDS_MAX + 4
};

enum session_state { SESSION_JOINED, SESSION_AWAY };

enum session_event_type {
    SESSION_ASK,    /* SessionRequest: first on each connection, and again now and then. */
    SESSION_LEAVE,  /* Unmounted. */
    SESSION_GONE,   /* The client's connection ended. */
    SESSION_OPENED, /* Holds `inodes` open. */
    SESSION_CLOSED, /* Holds them no more. */
    SESSION_TICK
};

struct session_event
{
    uint64_t now_ms; /* Monotonic. */
    enum session_event_type type;
    client_id client;
    const inode_id *inodes; /* ASK, OPENED, CLOSED */
    size_t inodes_count;
    const inode_id *write_inodes; /* ASK, OPENED: those that are open for writing. */
    size_t write_inodes_count;
};

struct session_action
{
    enum {
        SESSION_ADMIT,  /* Answer the client's SessionRequest(s); serve it from now on. */
        SESSION_REFUSE, /* Answer them with `status`. */
        SESSION_END, /* For the log: the session is over (`status` MORSEL_TIMEDOUT: by silence). */
        SESSION_GRACE_OVER /* Orphans that nobody holds can be collected. */
    } type;
    client_id client;
    int status;
};

struct session_actions
{
    uint32_t count;
    struct session_action items[SESSION_ACTIONS_MAX];
};

struct session_table;

struct session_options
{
    uint32_t session_ms;
    uint64_t now_ms; /* Of the start. */
    bool
        fresh; /* The cluster was made just now: no session can exist, no grace period is needed. */
};

/* NULL: out of memory. */
struct session_table *session_table_new(const struct session_options *options);
void session_table_free(struct session_table *s); /* NULL is allowed. */

/* Advance by one event. What the host must do is appended to `out`, in order. Then take the
 * released inodes. */
void session_step(struct session_table *s, const struct session_event *event,
                  struct session_actions *out);

/* An inode whose last holder let go: if it is an orphan and session_holds() is false, collect it.
 * False: no more. */
bool session_pop_released(struct session_table *s, inode_id *inode);

/* When SESSION_TICK is due, which may be earlier than it has something to do; UINT64_MAX: never. */
uint64_t session_deadline_ms(const struct session_table *s);

/* Has the client a session, joined or away? */
bool session_known(const struct session_table *s, client_id client);

/* May the client be served? Counts as a word from it. */
bool session_joined(struct session_table *s, client_id client, uint64_t now_ms);

/* Does anybody hold the inode open, or might (grace period)? */
bool session_holds(const struct session_table *s, inode_id inode);

/* Does the client hold the inode open, for writing if `write`? */
bool session_has_open(const struct session_table *s, inode_id inode, client_id client, bool write);

/* Does a client other than `client` hold the inode open, and for writing? */
void session_open_elsewhere(const struct session_table *s, inode_id inode, client_id client,
                            bool *open, bool *write);

uint32_t session_count(const struct session_table *s);
uint64_t session_opens(const struct session_table *s);
bool session_in_grace(const struct session_table *s);

#endif
