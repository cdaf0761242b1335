/* The client's half of the lease protocol (docs/leases.md): does the manager take our word for what
 * we hold, and until when; and each lease that is on its way back.
 *
 * Pure: events in, actions out; whoever needs the time is told it. What is held is in the table of
 * names and attributes (meta_cache.h); sockets, buffers and the kernel are the hosts'
 * (session_uv.c, lease_uv.c, recall_uv.c).
 *
 * The holder as such.
 *
 *             answer to JOIN                     TICK: the lease period is over
 *     APART -----------------------> JOINED <----------------------------> LATE
 *       ^ ^                            |       TICK: an answer was there     |
 *       | +----------------------------+                                     |
 *       |   the manager refuses us (REFUSED, SESSION_REFUSED),               |
 *       |   or we do not know what it thinks that we hold (IN_DOUBT)         |
 *       +--------------------------------------------------------------------+
 *                          the same, or TICK: the lease period is still over
 *
 *   APART: the manager does not take our word. Nothing that we hold counts, and JOIN says all of it
 *     again, under the lease epoch that we had.
 *   JOINED: what we hold counts until the end of the lease period, that is the sending of the youngest
 *     question that has been answered, and the manager's lease-time less the margin.
 *   LATE: the lease period was over at the last look. An answer that extends it may lie unread in the
 *     socket, for we may have stood still: so nothing is given up before the next look.
 *
 * A link that is lost changes nothing: the lease period goes on. The next one begins with a JOIN
 * (CONNECTED), and what the manager does not grant any more it names in the answer (LOST). The host
 * drops that first and says so (LOSSES_TAKEN), and only then is there another JOIN for what came into
 * doubt meanwhile: it would name what is lost, under the new lease epoch, and the manager believe it.
 *
 * A lease on its way back.
 *
 *     RECALL, EVICTED
 *       v
 *     FLUSHING -------- FLUSHED -----> SETTLING <---+
 *       ^   |                             |   |     |  LOOKED: something may still land
 *       |   |                             |   +-----+
 *       |   | FLUSHED: no memory          v  nothing can land any more
 *       |   v                          DROPPING -- RECALL of the rest --> LOWERED
 *     UNFLUSHED                         |  ^                                |
 *       LOOKED: once more               |  +-------- KERNEL_DROPPED --------+
 *                                       v  KERNEL_DROPPED
 *                                      RETURNED
 *
 *   FLUSHING   what was written under W is on its way to the servers, and to the manager. (There
 *              is nothing of the kind where W was not held.)
 *   UNFLUSHED  the manager has not heard, for want of memory: it must before anybody else looks.
 *   SETTLING   something that was sent, and whose end is not known, may still land.
 *   DROPPING   the kernel is told to drop what it has.
 *   LOWERED    meanwhile the manager has asked for the rest, too: it is told once more.
 *   RETURNED   the manager is told, the host's memory is its own again.
 *
 * Until it is RETURNED it is ours: named in JOIN as it was held, and good for writing what was held
 * back, but nothing is answered from it. If JOIN finds that it is lost, the rest is done all the
 * same, and nobody waits for it.
 *
 * Invariants (lease_holder_check()):
 *  - no lease period ends behind the longest, nor does what may still land;
 *  - joins are among the questions that are asked;
 *  - no more is kept of a lease than was held, or it is lost; what is LOWERED keeps nothing; the
 *    manager waits for one return of an inode at most (one for want of room may be beside it).
 *
 * Two clocks: `now_ns`, by which lease periods end, goes on while the machine sleeps, as the manager's
 * does; `now_ms` says when it is time for a word again.
 *
 * Source: Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file
 * cache consistency", SOSP 1989, sections 2 and 5 (clocks).
 */
#ifndef MORSEL_CLIENT_COHERENCE_LEASE_HOLDER_H
#define MORSEL_CLIENT_COHERENCE_LEASE_HOLDER_H

#include "common/base/list.h"
#include "common/base/types.h"
#include "common/fs/lease_mode.h"

enum lease_holder_standing {
    HOLDER_APART,
    HOLDER_JOINED,
    HOLDER_LATE,
    HOLDER_STANDINGS /* How many. */
};

/* Of lease_holder.c alone (and for tests to read); what others want to know of it they ask below. */
struct lease_holder
{
    enum lease_holder_standing standing;
    uint32_t lease_ms;     /* The manager's, at most LEASE_MS_MAX; LEASE_MS before it has said. */
    uint64_t lease_epoch;  /* Under which we hold leases; the manager's. 0: none yet. */
    uint64_t joins_number; /* Of the last JOIN. */
    unsigned asked;        /* Questions about the session that are under way. */
    unsigned joins_asked;  /* Of them, JOINs. */
    bool doubted;          /* In doubt since one was sent: it does not speak of what came behind. */
    uint64_t due_ms;       /* The next one. */
    uint64_t until_ns;     /* Leases are good, and the servers take our writes, until then. */
    uint64_t longest_ns;   /* Nothing that was sent may be carried out later. */
    uint64_t unsure_until_ns; /* A write whose end we do not know may land until then. */
    struct list returns;      /* struct lease_return */
};

enum lease_return_state {
    RETURN_NEW,
    RETURN_FLUSHING,
    RETURN_UNFLUSHED,
    RETURN_SETTLING,
    RETURN_DROPPING,
    RETURN_LOWERED,
    RETURN_RETURNED,
    RETURN_STATES /* How many. */
};

/* The host's memory, the core's from RECALL or EVICTED to HOLDER_RETURN or
 * lease_holder_abandon(). */
struct lease_return
{
    struct list node; /* In lease_holder.returns. */
    enum lease_return_state state;
    inode_id inode;
    uint64_t recall; /* The manager's number; 0: given back unasked. */
    enum lease_mode granted, keeps;
    uint64_t busy_due_ms; /* The manager is to hear that we are at it. */
};

enum lease_holder_event_type {
    /* ---- The holder as such ---- */
    HOLDER_TICK,             /* now_ns. Is the lease period over? */
    HOLDER_ASK_TICK,         /* now_ms. Is it time for a word? The first one says JOIN. */
    HOLDER_CONNECTED,        /* now_ms. To the manager, for the first time or again. */
    HOLDER_ASKED,            /* `join`. HOLDER_JOIN or HOLDER_RENEW was carried out. */
    HOLDER_SESSION_ANSWERED, /* `join`, sent_ns, now_ms; of a JOIN: lease_ms, lease epoch. */
    HOLDER_SESSION_REFUSED,  /* `join`, now_ms. The manager does not know us. */
    HOLDER_SESSION_FAILED,   /* `join`, now_ms. No answer, or another refusal. */
    HOLDER_REFUSED,          /* Something else was refused for want of a session. */
    HOLDER_LOSSES_TAKEN,     /* now_ms. Of a JOIN's answer, behind it: see below. */
    HOLDER_IN_DOUBT,         /* now_ms. Nobody is sure what we hold. */
    HOLDER_UNSURE,           /* Of something that we sent we do not know the end. */

    /* ---- A lease on its way back ---- */
    HOLDER_RECALL,         /* `recall`, inode, `granted`, `keeps`, `written`; `room`; now_ms */
    HOLDER_EVICTED,        /* inode, `room`: given back for want of room in the table. */
    HOLDER_LOST,           /* inode: the manager does not grant it any more. */
    HOLDER_FLUSHED,        /* `back`, no_memory, may_land, now_ns */
    HOLDER_LOOKED,         /* `back`, may_land, now_ns */
    HOLDER_KERNEL_DROPPED, /* `back` */
    HOLDER_BACK_TICK       /* `back`, now_ms */
};

struct lease_holder_event
{
    enum lease_holder_event_type type;
    uint64_t now_ns, now_ms;
    bool join;
    uint64_t sent_ns;  /* When the question was. */
    uint32_t lease_ms; /* 0: the manager has not said. */
    uint64_t lease_epoch;
    struct lease_return *back;
    /* RECALL: for a new one; NULL: no memory, or the inode's is on its way already
       (lease_holder_returning()). EVICTED: never NULL. */
    struct lease_return *room;
    inode_id inode;
    uint64_t recall;
    uint32_t keeps;          /* RECALL: as the manager says it, be it an enum lease_mode or not. */
    enum lease_mode granted; /* RECALL: by the table. */
    bool written;            /* RECALL: the file is open for writing here. */
    bool no_memory;          /* FLUSHED: the manager has not heard all. */
    bool may_land;           /* Something of ours that concerns the inode is still on its way. */
};

enum lease_holder_action_type {
    HOLDER_JOIN,        /* Say what we hold, under `number`; then ASKED, if that was possible. */
    HOLDER_RENEW,       /* A short word that we are there; likewise. */
    HOLDER_PERIOD_OVER, /* For the log. */
    HOLDER_FORGET_ALL,  /* Nothing that the kernel was given counts any more. */
    HOLDER_BREAK, /* End the connection: the manager recalls again what the next JOIN names. */

    HOLDER_FORGET, /* From now on only what `back->keeps` allows is answered and cached. */
    HOLDER_FLUSH,  /* If `back->granted` is W, dirty data; then FLUSHED, perhaps at once. */
    HOLDER_DROP,   /* Have the kernel drop what goes; then KERNEL_DROPPED. */
    HOLDER_RETURN, /* Tell the manager. `back` is the host's again. */
    HOLDER_BUSY    /* Tell the manager that we are at it. */
};

struct lease_holder_action
{
    enum lease_holder_action_type type;
    uint64_t number;
    struct lease_return *back;
};

enum { HOLDER_ACTIONS_MAX = 3 };

/* To be carried out in this order; the last of them may feed the next event at once. */
struct lease_holder_actions
{
    uint32_t count;
    struct lease_holder_action items[HOLDER_ACTIONS_MAX];
};

void lease_holder_init(struct lease_holder *h);

/* `out` is empty before. */
void lease_holder_step(struct lease_holder *h, const struct lease_holder_event *event,
                       struct lease_holder_actions *out);

/* As an event, for it comes with every answer of the manager: the question was sent then. */
void lease_holder_answered(struct lease_holder *h, uint64_t sent_ns, uint64_t now_ms);

/* Does the manager take our word? */
static inline bool lease_holder_is_joined(const struct lease_holder *h)
{
    return h->standing != HOLDER_APART;
}

/* Is a JOIN under way that has not been answered? */
static inline bool lease_holder_is_joining(const struct lease_holder *h)
{
    return h->joins_asked > 0;
}

/* Under which we hold leases, as the manager numbers it; 0: none yet. */
static inline uint64_t lease_holder_epoch(const struct lease_holder *h)
{
    return h->lease_epoch;
}

/* The lease period ends then; 0: it does not run. */
static inline uint64_t lease_holder_until_ns(const struct lease_holder *h)
{
    return h->until_ns;
}

/* The manager's lease-time, without our margin; LEASE_MS before it has said. */
static inline uint32_t lease_holder_lease_ms(const struct lease_holder *h)
{
    return h->lease_ms;
}

/* Where the end of the lease period and the lease epoch stand, as long as the holder does: for who
 * looks at each sending (rpc_set_lease()). */
struct lease_holder_bound
{
    const uint64_t *until_ns, *lease_epoch;
};

static inline struct lease_holder_bound lease_holder_bound(const struct lease_holder *h)
{
    return (struct lease_holder_bound){ &h->until_ns, &h->lease_epoch };
}

/* How long what we hold is good; 0: not at all. */
static inline uint64_t lease_holder_left_ns(const struct lease_holder *h, uint64_t now_ns)
{
    return h->standing != HOLDER_APART && now_ns < h->until_ns ? h->until_ns - now_ns : 0;
}

/* Can nothing land any more whose end we do not know? */
static inline bool lease_holder_is_sure(const struct lease_holder *h, uint64_t now_ns)
{
    return now_ns >= h->unsure_until_ns;
}

/* The whole lease period behind a question that is answered. */
uint32_t lease_holder_lease_period_ms(const struct lease_holder *h);

/* The inode's lease that is on its way back; NULL: none. O(of them). */
struct lease_return *lease_holder_returning(const struct lease_holder *h, inode_id inode);

/* Each that is on its way back, oldest first; `each` may take it out (lease_holder_abandon(), or a
 * step that ends with HOLDER_RETURN), and no other. */
void lease_holder_each_return(struct lease_holder *h,
                              void (*each)(void *data, struct lease_return *back), void *data);

/* What JOIN is to say of an inode of which the table says `held`, and may dirty data be
 * written under it (W)? A lease that is being given back is ours until it is. */
enum lease_mode lease_holder_named(const struct lease_holder *h, inode_id inode,
                                   enum lease_mode held);

/* A reply says that we hold `said` on the inode, and the table `held`: what is true? What is granted
 * while the manager does not listen to us is not among what we have named, and will be gone; what
 * is gone the answer to JOIN says. While the lease is on its way back, we say what remains; an answer
 * that names less was given before the manager heard that, and takes nothing: only a recall does. */
enum lease_mode lease_holder_learned(const struct lease_holder *h, inode_id inode,
                                     enum lease_mode held, enum lease_mode said);

/* It is to be named although the table knows nothing of the inode any more. */
bool lease_return_is_named_alone(const struct lease_return *back);

/* The client ends: it will not be returned. FLUSHING, DROPPING and LOWERED are to be waited for. */
void lease_holder_abandon(struct lease_holder *h, struct lease_return *back);

/* The invariants of all that is here, for tests: O(n * n). lease_holder_step() checks those of what
 * it touches. */
void lease_holder_check(const struct lease_holder *h);

/* For tests and logs. */
const char *lease_holder_standing_name(enum lease_holder_standing standing);
const char *lease_return_state_name(enum lease_return_state state);

#endif
