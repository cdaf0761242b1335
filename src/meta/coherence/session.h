/* Client sessions: who is there, and what they hold open.
 *
 * Pure: events in, actions out; the event carries the time.
 *
 *   unknown --ASK--> JOINED --GONE--> AWAY --ASK--> JOINED
 *   of the time before a restart: EXPECTED --ASK--> JOINED
 *   A session ends (and its open files are released) by LEAVE, or by silence for session_ms.
 *
 * A request of a client that is not JOINED is not served (session_joined()). What clients may cache
 * is the matter of leases (lease.h).
 *
 * Restart. Files that were unlinked while open belong to sessions that the new manager has not
 * heard of yet. So each session is written down before it is admitted (SESSION_KEEP) and struck out
 * when it has ended (SESSION_END); after a start those that are written down are EXPECTED. While any of
 * them is, and settle_ms longer, every inode counts as held: that is the grace period. After it
 * only what was re-asserted does.
 *
 * SESSION_UNTOLD stands for all sessions that nobody has written down: of an older manager, or lost with
 * its power. It is expected as the others are, and never asks.
 *
 * Again and again. Who has not asked for session_ms is not expected any more, and a restart does not
 * begin that time anew: how long it was waited for is written down now and then (SESSION_WAITING), and
 * struck out before it is admitted. The first patience_ms of each start do not count, for they may
 * be over before a client that is well has come back; a start that lasts for session_ms is enough in any
 * case. All of it is time in which the manager served, on its own clock of presence.
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
    SESSION_ACTIONS_MAX = SESSION_ENDS_MAX + 4,
    SESSION_NOTES = 30 /* In so many steps is written down how long a session was waited for. */
};

enum { SESSION_UNTOLD = 0 /* No client has this id. */ };

enum session_state { SESSION_JOINED, SESSION_AWAY, SESSION_EXPECTED };

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
    bool pauses; /* ASK: it knows how to hold a file still (pauses.h). */
};

struct session_action
{
    enum {
        SESSION_KEEP,   /* Write down that it has a session, and was not waited for, before anything
                          else is done; session_not_kept() when that failed. */
        SESSION_ADMIT,  /* Answer the client's SessionRequest(s); serve it from now on. */
        SESSION_REFUSE, /* Answer them with `status`. */
        SESSION_END, /* The session is over (`status` MORSEL_TIMEDOUT: by silence): strike it out. */
        SESSION_WAITING,   /* Write down what session_waiting() says. */
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

/* What is written down of a session. */
struct session_kept
{
    client_id client;
    uint32_t waited_ms; /* So long it was waited for, after starts. */
};

struct session_options
{
    uint32_t session_ms;
    uint64_t now_ms; /* Of the start. */
    bool
        fresh; /* The cluster was made just now: no session can exist, no grace period is needed. */
    uint32_t patience_ms; /* Within it a client that is well comes back. */
    uint32_t
        settle_ms; /* So long a file that was replaced may still be opened (departed.h): who it was is
                           forgotten with the start. */
    const struct session_kept *kept;
    size_t kept_count; /* At most SESSIONS_MAX and SESSION_UNTOLD. */
};

/* NULL: out of memory. */
struct session_table *session_table_new(const struct session_options *options);
void session_table_free(struct session_table *s); /* NULL is allowed. */

/* Advance by one event. What the host must do is appended to `out`, in order. Then take the
 * released inodes. */
void session_step(struct session_table *s, const struct session_event *event,
                  struct session_actions *out);

/* It could not be written down: the client is not served before it has asked again. */
void session_not_kept(struct session_table *s, client_id client);

/* How many sessions are expected, SESSION_UNTOLD among them. */
uint32_t session_expected(const struct session_table *s);

/* All that are expected, and how long they were waited for, now: that is going to be written down.
 * `out` has room for session_expected(). Returns how many. */
uint32_t session_waiting(struct session_table *s, uint64_t now_ms, struct session_kept *out);

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

/* The clients that have it open for writing, up to `max`, in no order. Returns how many there are. */
uint32_t session_writers(const struct session_table *s, inode_id inode, client_id *clients,
                         uint32_t max);

/* Does the client know how to hold a file still? */
bool session_pauses(const struct session_table *s, client_id client);

/* Of clients that were heard of since the start. */
uint32_t session_count(const struct session_table *s);
uint64_t session_opens(const struct session_table *s);
bool session_in_grace(const struct session_table *s);

#endif
