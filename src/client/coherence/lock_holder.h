/* The client's half of the locks (docs/locks.md): what our processes hold, what is being asked for,
 * and what is said of it in SESSION.
 *
 * Pure: events in, actions out. The calls themselves, the kernel and the size lock's users are the
 * hosts' (lock_uv.c, size_lock_uv.c).
 *
 * A request.
 *
 *     START
 *       |  LOCK_TEST          +------+
 *       +-------------------> | TEST | ---------------------------------------------> ENDED
 *       |  LOCK_NONE          +------+
 *       +--------------------> FREE --------------------------------------------------> ^
 *       |  a flock of another type                                                      |
 *       +--------------------> CONVERT ---------------------------- canceled ---------> |
 *       |                        |  granted: the old one is free                        |
 *       |  all others            v                                                      |
 *       +--------------------> ASK ---------- granted, refused, canceled, failed -----> |
 *       |                        |  granted the rest of what is to be shared            |
 *       |  has all of it         v                                                      |
 *       +--------------------> STEP_DOWN ---------------------------------------------> +
 *
 *   TEST       nothing is held, or freed, whatever the answer.
 *   FREE       it is free here from its sending.
 *   CONVERT    a flock of another type than is there: flock(2) gives up what is there first, and
 *              somebody else may come between. So it goes as an unlock, and a request behind it.
 *   ASK        nothing is held before the manager has granted it. For a shared lock what the owner
 *              holds exclusively there stays so until it has the rest (LOCK_TAKE): a request that is
 *              refused, or interrupted, takes nothing away, and nobody is let in beside a lock that
 *              we still name as exclusive.
 *   STEP_DOWN  it is shared here from its sending: that cannot fail, whatever the answer.
 *
 * In each of them it may be canceled (the process does not want to wait any more): then the manager
 * is told, and still decides which came first; without a connection, or told twice, the call is
 * given up, and nobody knows. What nobody knows is settled by the next JOIN, which names what is
 * held here; everything else is free then. So an answer that overtakes the answer to a JOIN, and
 * says that a lock is granted, is not believed: the JOIN did not name it. It is asked again.
 *
 * Invariants (lock_holder_check()):
 *  - what is named is never more than the manager once knew: while a request frees bytes its owner
 *    holds none of them here, while one steps down it holds none exclusively;
 *  - what is asked for, and in which part, is what the state says.
 */
#ifndef MORSEL_CLIENT_COHERENCE_LOCK_HOLDER_H
#define MORSEL_CLIENT_COHERENCE_LOCK_HOLDER_H

#include "common/base/list.h"
#include "common/fs/byte_locks.h"

enum { LOCK_HOLDER_RANGES_MAX = 8192 /* They fit into a SESSION. */ };

struct handle; /* Of an open file; never looked into. */
struct lock_user;

/* For others to read. */
struct lock_holder
{
    client_id client;
    struct byte_locks *locks; /* That our processes hold; what SESSION names. */
    struct lock_user *users;  /* Which handle an owner used last on an inode. */
    struct list requests;     /* struct lock_request */
    uint64_t last_number;
    uint32_t ranges_max;
};

enum lock_request_state {
    LOCKING_NEW,
    LOCKING_TEST,
    LOCKING_FREE,
    LOCKING_CONVERT,
    LOCKING_ASK,
    LOCKING_STEP_DOWN,
    LOCKING_ENDED,
    LOCKING_STATES /* How many. */
};

/* The host's memory, the core's from LOCKER_START to LOCKER_END or LOCKER_REFUSE. */
struct lock_request
{
    struct list node;            /* In lock_holder.requests. */
    const struct handle *handle; /* Through which it was asked for; NULL: none. */
    uint64_t number;             /* For the manager: LOCK_CANCEL names it. */
    struct byte_lock lock;       /* As it is said to the manager now. */
    enum lock_request_state state;
    enum lock_how how;
    enum lock_type converts_to; /* In CONVERT. */
    bool sent;                  /* Once at least. */
    bool canceled;              /* The manager was told. */
    bool waited;                /* Somebody else had it when the manager was asked. */
};

enum lock_holder_event_type {
    LOCKER_START,     /* `request`, handle, `lock`, `how` */
    LOCKER_SENT,      /* `request`. LOCKER_SEND was carried out ... */
    LOCKER_UNSENT,    /* ... or could not be: `status`. */
    LOCKER_ANSWERED,  /* `request`, `answer`, `waited`, `joining` */
    LOCKER_FAILED,    /* `request`, `status`, `ending`. There is no answer. */
    LOCKER_CANCEL,    /* `request`, `connected`. The process does not want to wait any more. */
    LOCKER_CONNECTED, /* `request`. To the manager, again. */
    LOCKER_LET_GO,    /* `lock`: its owner's, free, but there is no memory to say so. */
    LOCKER_LOST       /* The answer to JOIN: the manager has given all of them away. */
};

struct lock_holder_event
{
    enum lock_holder_event_type type;
    struct lock_request *request;
    const struct handle *handle;
    struct byte_lock lock; /* The client is filled in. */
    enum lock_how how;
    enum lock_answer answer;
    int status;
    bool waited;
    bool joining;   /* A JOIN is under way. */
    bool connected; /* To the manager. */
    bool ending;    /* The client ends: nothing is asked again. */
};

enum lock_holder_action_type {
    LOCKER_SEND,        /* Ask the manager for `request->lock`; then SENT or UNSENT, at once. */
    LOCKER_SEND_AGAIN,  /* The same once more, with the same number. */
    LOCKER_SEND_CANCEL, /* Tell the manager that it need not wait. */
    LOCKER_GIVE_UP,     /* FAILED comes soon, without the manager. */
    LOCKER_REJOIN,      /* Name all that is held: what is not named is free. */
    LOCKER_REFUSE,      /* It was never begun: `status`. */
    LOCKER_END          /* `status`; if that is 0, `answer`. The request is the host's again. */
};

struct lock_holder_action
{
    enum lock_holder_action_type type;
    struct lock_request *request;
    int status;
    enum lock_answer answer;
};

enum { LOCKER_ACTIONS_MAX = 2 };

/* To be carried out in this order; the last of them may feed the next event at once. */
struct lock_holder_actions
{
    uint32_t count;
    struct lock_holder_action items[LOCKER_ACTIONS_MAX];
};

/* MORSEL_NOMEM. At most `ranges_max` ranges are held. */
int lock_holder_init(struct lock_holder *h, client_id client, uint32_t ranges_max);
void lock_holder_free(struct lock_holder *h); /* Zeroed is allowed. */

/* `out` is empty before. */
void lock_holder_step(struct lock_holder *h, const struct lock_holder_event *event,
                      struct lock_holder_actions *out);

/* Has the owner anything locked on the inode, as far as we know? */
bool lock_holder_has(const struct lock_holder *h, inode_id inode, enum lock_kind kind,
                     uint64_t owner);

/* Owners that locked through this handle last, one at a time, whoever they are: what frees all that
 * is theirs on its file. False: none. */
bool lock_holder_of_handle(const struct lock_holder *h, const struct handle *handle,
                           struct byte_lock *lock);
void lock_holder_forget_handle(struct lock_holder *h, const struct handle *handle);

/* The invariants of all that is here, for tests (with memory for all ranges): O(requests * ranges).
 * lock_holder_step() checks those of what it touches. */
void lock_holder_check(const struct lock_holder *h);

/* For tests and logs. */
const char *lock_request_state_name(enum lock_request_state state);

#endif
