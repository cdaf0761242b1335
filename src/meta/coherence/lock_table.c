/* Waiting requests in order of arrival, and circles of those who wait for each other. */
#include "meta/coherence/lock_table.h"

#include "common/base/check.h"
#include "common/base/list.h"

#include <stdlib.h>

#include "common/base/table.h"

struct waiter
{
    struct list node;     /* In queue->waiters, by coming; or in t->ended. */
    struct list of_owner; /* In party->waiters. */
    struct queue *queue;
    struct party *party;
    uint64_t ticket;
    struct byte_lock lock;
    enum lock_verdict verdict; /* In t->ended. */
    UT_hash_handle hh;         /* In t->by_ticket, while it waits. */
};

/* Who waits for locks of one kind on one inode. */
struct queue
{
    struct
    {
        inode_id inode;
        uint64_t kind;
    } key;
    struct list waiters;
    UT_hash_handle hh;
};

/* An owner who waits: several threads of a process may. */
struct party
{
    struct lock_owner key;
    struct list waiters;
    uint64_t seen;          /* By the search that looked at it last. */
    struct list to_look_at; /* In search->next. */
    UT_hash_handle hh;
};

struct lock_table
{
    struct byte_locks *held;
    struct queue *queues;
    struct party *parties;
    struct waiter *by_ticket;
    struct list ended;
    uint32_t waiting;
    uint64_t last_ticket, last_search, deadlocks;
};

struct lock_table *lock_table_new(void)
{
    struct lock_table *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    list_init(&t->ended);
    t->held = byte_locks_new(LOCKS_MAX);
    if (t->held == NULL) {
        free(t);
        return NULL;
    }
    return t;
}

/* ---- Waiters ---- */

static struct queue *find_queue(const struct lock_table *t, inode_id inode, enum lock_kind kind)
{
    struct queue probe = { .key = { inode, kind } };
    struct queue *queue;

    HASH_FIND(hh, t->queues, &probe.key, sizeof(probe.key), queue);
    return queue;
}

static struct party *find_party(const struct lock_table *t, const struct lock_owner *owner)
{
    struct party *party;

    HASH_FIND(hh, t->parties, owner, sizeof(*owner), party);
    return party;
}

static void free_if_idle(struct lock_table *t, struct queue *queue, struct party *party)
{
    if (queue != NULL && list_empty(&queue->waiters)) {
        HASH_DEL(t->queues, queue);
        free(queue);
    }
    if (party != NULL && list_empty(&party->waiters)) {
        HASH_DEL(t->parties, party);
        free(party);
    }
}

/* Out of the queue; the waiter stays. */
static void unqueue(struct lock_table *t, struct waiter *w)
{
    list_remove(&w->node);
    list_remove(&w->of_owner);
    HASH_DEL(t->by_ticket, w);
    t->waiting--;
    free_if_idle(t, w->queue, w->party);
}

static struct queue *get_queue(struct lock_table *t, inode_id inode, enum lock_kind kind)
{
    struct queue *queue = find_queue(t, inode, kind);

    if (queue == NULL && (queue = calloc(1, sizeof(*queue))) != NULL) {
        queue->key.inode = inode;
        queue->key.kind = kind;
        list_init(&queue->waiters);
        HASH_ADD(hh, t->queues, key, sizeof(queue->key), queue);
        if (!TABLE_ADDED(queue)) {
            free(queue);
            queue = NULL;
        }
    }
    return queue;
}

static struct party *get_party(struct lock_table *t, const struct lock_owner *owner)
{
    struct party *party = find_party(t, owner);

    if (party == NULL && (party = calloc(1, sizeof(*party))) != NULL) {
        party->key = *owner;
        list_init(&party->waiters);
        list_init(&party->to_look_at);
        HASH_ADD(hh, t->parties, key, sizeof(party->key), party);
        if (!TABLE_ADDED(party)) {
            free(party);
            party = NULL;
        }
    }
    return party;
}

static struct waiter *enqueue(struct lock_table *t, const struct byte_lock *lock)
{
    struct waiter *w = calloc(1, sizeof(*w));
    struct queue *queue = get_queue(t, lock->inode, lock->kind);
    struct party *party = get_party(t, &lock->owner);

    if (w != NULL) {
        w->ticket = ++t->last_ticket;
        HASH_ADD(hh, t->by_ticket, ticket, sizeof(w->ticket), w);
    }
    if (w == NULL || queue == NULL || party == NULL || !TABLE_ADDED(w)) {
        if (w != NULL && TABLE_ADDED(w)) {
            HASH_DEL(t->by_ticket, w);
        }
        free_if_idle(t, queue, party);
        free(w);
        return NULL;
    }
    w->lock = *lock;
    w->queue = queue;
    w->party = party;
    list_init(&w->node);
    list_init(&w->of_owner);
    list_push_back(&queue->waiters, &w->node);
    list_push_back(&party->waiters, &w->of_owner);
    t->waiting++;
    return w;
}

void lock_table_free(struct lock_table *t)
{
    struct waiter *w, *next;
    struct list *node;

    if (t == NULL) {
        return;
    }
    HASH_ITER(hh, t->by_ticket, w, next)
    {
        unqueue(t, w);
        free(w);
    }
    while ((node = list_pop_front(&t->ended)) != NULL) {
        free(LIST_ENTRY(node, struct waiter, node));
    }
    byte_locks_free(t->held);
    free(t);
}

/* ---- Who goes first ---- */

/* Must the request stay behind somebody who came before `self` (NULL: behind all)? */
static bool behind_others(const struct lock_table *t, const struct byte_lock *lock,
                          const struct waiter *self)
{
    const struct queue *queue = find_queue(t, lock->inode, lock->kind);

    if (queue == NULL || byte_locks_held_by(t->held, &lock->owner) > 0) {
        return false;
    }
    LIST_FOREACH(node, &queue->waiters)
    {
        const struct waiter *w = LIST_ENTRY(node, struct waiter, node);

        if (w == self) {
            return false;
        }
        if (byte_lock_conflicts(&w->lock, lock)) {
            return true;
        }
    }
    return false;
}

static void end(struct lock_table *t, struct waiter *w, enum lock_verdict verdict)
{
    unqueue(t, w);
    w->verdict = verdict;
    list_push_back(&t->ended, &w->node);
}

/* The first who can go on. NULL: nobody. */
static struct waiter *next_ready(const struct lock_table *t, inode_id inode, enum lock_kind kind)
{
    const struct queue *queue = find_queue(t, inode, kind);

    if (queue == NULL) {
        return NULL;
    }
    LIST_FOREACH(node, &queue->waiters)
    {
        struct waiter *w = LIST_ENTRY(node, struct waiter, node);

        if (byte_locks_conflict(t->held, &w->lock) == NULL && !behind_others(t, &w->lock, w)) {
            return w;
        }
    }
    return NULL;
}

/* Locks went away: whoever can go on now does. From the front again each time: one that is granted
 * may have held more before (another thread of its process), and make room for an earlier one. */
static void wake(struct lock_table *t, inode_id inode, enum lock_kind kind)
{
    struct waiter *w;

    while ((w = next_ready(t, inode, kind)) != NULL) {
        end(t, w, byte_locks_set(t->held, &w->lock) ? LOCK_DONE : LOCK_FULL);
    }
}

bool lock_table_pop(struct lock_table *t, uint64_t *ticket, enum lock_verdict *verdict)
{
    struct list *node = list_pop_front(&t->ended);
    struct waiter *w;

    if (node == NULL) {
        return false;
    }
    w = LIST_ENTRY(node, struct waiter, node);
    *ticket = w->ticket;
    *verdict = w->verdict;
    free(w);
    return true;
}

/* ---- Deadlock ---- */

struct search
{
    struct lock_table *t;
    const struct byte_lock *lock; /* That waits. */
    const struct lock_owner *requester;
    struct list *next; /* struct party, to be looked at. */
    bool found;
};

/* `held` is in the way of search->lock: then its owner is waited for. */
static void follow(void *data, const struct byte_lock *held)
{
    struct search *s = data;
    struct party *party;

    if (s->found || !byte_lock_conflicts(held, s->lock)) {
        return;
    }
    if (lock_owner_equal(&held->owner, s->requester)) {
        s->found = true;
        return;
    }
    party = find_party(s->t, &held->owner);
    if (party != NULL && party->seen != s->t->last_search) {
        party->seen = s->t->last_search;
        list_push_back(s->next, &party->to_look_at);
    }
}

/* Would waiting for this close a circle? Needs no memory: those in a circle would wait for ever. */
static bool closes_circle(struct lock_table *t, const struct byte_lock *lock)
{
    struct list next;
    struct list *node;
    struct search s = { .t = t, .lock = lock, .requester = &lock->owner, .next = &next };

    list_init(&next);
    t->last_search++;
    byte_locks_each_of(t->held, lock->inode, lock->kind, follow, &s);
    while ((node = list_pop_front(&next)) != NULL) {
        const struct party *party = LIST_ENTRY(node, struct party, to_look_at);

        LIST_FOREACH(at, &party->waiters)
        {
            const struct waiter *w = LIST_ENTRY(at, struct waiter, of_owner);

            s.lock = &w->lock;
            if (w->lock.kind == LOCK_RANGE) {
                byte_locks_each_of(t->held, w->lock.inode, w->lock.kind, follow, &s);
            }
        }
    }
    return s.found;
}

/* ---- Requests ---- */

static enum lock_verdict wait_for(struct lock_table *t, const struct byte_lock *lock,
                                  uint64_t *ticket)
{
    struct waiter *w;

    if (lock->kind == LOCK_RANGE && closes_circle(t, lock)) {
        t->deadlocks++;
        return LOCK_WOULD_DEADLOCK;
    }
    w = t->waiting == LOCKS_WAITING_MAX ? NULL : enqueue(t, lock);
    if (w == NULL) {
        return LOCK_FULL;
    }
    *ticket = w->ticket;
    return LOCK_WAITS;
}

/* The owner has less than before: that is in nobody's way. */
static bool give_up(struct lock_table *t, const struct byte_lock *lock)
{
    if (!byte_locks_set(t->held, lock)) {
        return false;
    }
    wake(t, lock->inode, lock->kind);
    return true;
}

enum lock_verdict lock_table_set(struct lock_table *t, const struct byte_lock *lock, bool wait,
                                 uint64_t *ticket)
{
    CHECK(byte_lock_valid(lock));
    if (lock->type == LOCK_NONE || lock->part == LOCK_STEP_DOWN) {
        return give_up(t, lock) ? LOCK_DONE : LOCK_FULL;
    }
    if (byte_locks_conflict(t->held, lock) == NULL && !(wait && behind_others(t, lock, NULL))) {
        bool good = byte_locks_set(t->held, lock);

        wake(t, lock->inode, lock->kind); /* It may have been exclusive before. */
        return good ? LOCK_DONE : LOCK_FULL;
    }
    return wait ? wait_for(t, lock, ticket) : LOCK_BLOCKED;
}

bool lock_table_cancel(struct lock_table *t, uint64_t ticket)
{
    struct waiter *w;
    struct byte_lock lock;

    HASH_FIND(hh, t->by_ticket, &ticket, sizeof(ticket), w);
    if (w == NULL) {
        return false;
    }
    lock = w->lock;
    unqueue(t, w);
    free(w);
    wake(t, lock.inode, lock.kind); /* Somebody may have stayed behind it. */
    return true;
}

const struct byte_lock *lock_table_conflict(const struct lock_table *t,
                                            const struct byte_lock *wanted)
{
    return byte_locks_conflict(t->held, wanted);
}

void lock_table_each_of(const struct lock_table *t, inode_id inode, enum lock_kind kind,
                        byte_locks_visit visit, void *data)
{
    byte_locks_each_of(t->held, inode, kind, visit, data);
}

/* ---- Clients ---- */

static void drop_waiters(struct lock_table *t, client_id client)
{
    struct waiter *w, *next;

    HASH_ITER(hh, t->by_ticket, w, next)
    {
        if (w->lock.owner.client == client) {
            unqueue(t, w);
            free(w);
        }
    }
    LIST_FOREACH_SAFE(node, &t->ended)
    {
        w = LIST_ENTRY(node, struct waiter, node);
        if (w->lock.owner.client == client) {
            list_remove(node);
            free(w);
        }
    }
}

static void wake_all(struct lock_table *t)
{
    struct queue *queue, *next;

    HASH_ITER(hh, t->queues, queue, next)
    {
        wake(t, queue->key.inode, (enum lock_kind)queue->key.kind);
    }
}

void lock_table_drop_client(struct lock_table *t, client_id client)
{
    drop_waiters(t, client);
    byte_locks_drop_client(t->held, client);
    wake_all(t);
}

size_t lock_table_restate(struct lock_table *t, client_id client, const struct byte_lock *locks,
                          size_t count)
{
    size_t lost = 0;

    drop_waiters(t, client);
    byte_locks_drop_client(t->held, client);
    for (size_t i = 0; i < count; i++) {
        lost +=
            byte_locks_conflict(t->held, &locks[i]) != NULL || !byte_locks_set(t->held, &locks[i]);
    }
    wake_all(t);
    return lost;
}

void lock_table_count(const struct lock_table *t, struct lock_counters *counters)
{
    counters->held = byte_locks_count(t->held);
    counters->waiting = t->waiting;
    counters->deadlocks = t->deadlocks;
}

/* ---- Invariants ---- */

static bool is_in_the_way(const struct lock_table *t, const struct waiter *w)
{
    LIST_FOREACH(node, &w->queue->waiters)
    {
        const struct waiter *earlier = LIST_ENTRY(node, struct waiter, node);

        if (earlier == w) {
            break;
        }
        if (byte_lock_conflicts(&earlier->lock, &w->lock)) {
            return true;
        }
    }
    return byte_locks_conflict(t->held, &w->lock) != NULL;
}

static uint32_t check_queue(const struct lock_table *t, const struct queue *queue)
{
    uint64_t last = 0;
    uint32_t count = 0;

    CHECK(!list_empty(&queue->waiters));
    LIST_FOREACH(node, &queue->waiters)
    {
        const struct waiter *w = LIST_ENTRY(node, struct waiter, node);

        CHECK(w->queue == queue && w->ticket > last);
        CHECK(w->lock.inode == queue->key.inode && w->lock.kind == queue->key.kind);
        CHECK(lock_owner_equal(&w->party->key, &w->lock.owner));
        CHECK(is_in_the_way(t, w));
        last = w->ticket;
        count++;
    }
    return count;
}

void lock_table_check(const struct lock_table *t)
{
    struct queue *queue, *next;
    struct party *party, *next_party;
    uint32_t count = 0;

    byte_locks_check(t->held);
    HASH_ITER(hh, t->queues, queue, next)
    {
        count += check_queue(t, queue);
    }
    HASH_ITER(hh, t->parties, party, next_party)
    {
        CHECK(!list_empty(&party->waiters));
    }
    CHECK(count == t->waiting && HASH_COUNT(t->by_ticket) == count);
}
