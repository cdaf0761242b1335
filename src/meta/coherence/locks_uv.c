/* Requests that wait for a lock, and answers when they have it. */
#include "meta/coherence/locks_uv.h"

#include "common/base/status.h"
#include "meta/coherence/leases_uv.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    DURABLE_TRIES_MAX = 3, /* Until a client that wants locks is on the disk. */
    CHECKED_MAX = 8,       /* Holders that are asked for one request. */
    CHECK_MS = 1000        /* For them to answer. */
};

/* A request that waits for a lock. */
struct locking_request
{
    struct list node; /* In meta->locking. */
    struct rpc_request *request;
    uint64_t ticket; /* 0: for the end of the client's lease period. */
    uint64_t number; /* The client's. */
};

/* A request that may not wait, and what is in its way may be gone: a lock of an open file ends with
 * the last close of it, of which the holder's kernel tells its mount behind that close. The holder
 * is asked; what it had to say comes before its answer, on the same connection. */
struct lock_check
{
    struct list node; /* In meta->lock_checks. */
    struct rpc_request *request;
    struct byte_lock lock;
    bool test;
    uint64_t number;
    uint64_t due_ms;
    client_id asked[CHECKED_MAX]; /* The last one has not answered yet. */
    unsigned asked_count;
};

/* ---- Answers ---- */

static void answer(struct rpc_request *request, enum lock_answer verdict)
{
    Morsel__LockReply reply = MORSEL__LOCK_REPLY__INIT;

    reply.verdict = verdict;
    rpc_reply(request, &reply.base, NULL);
}

static void answer_waited(struct rpc_request *request)
{
    Morsel__LockReply reply = MORSEL__LOCK_REPLY__INIT;

    reply.verdict = LOCK_GRANTED;
    reply.waited = true;
    rpc_reply(request, &reply.base, NULL);
}

static void answer_conflict(struct rpc_request *request, const struct byte_lock *conflict)
{
    Morsel__LockReply reply = MORSEL__LOCK_REPLY__INIT;
    Morsel__Lock lock = MORSEL__LOCK__INIT;

    lock.inode = conflict->inode;
    lock.kind = conflict->kind;
    lock.type = conflict->type;
    lock.start = conflict->start;
    lock.end = conflict->end;
    /* The number of a process means nothing on another machine. */
    lock.pid = conflict->owner.client == request->node_id ? conflict->pid : 0;
    reply.verdict = LOCK_HELD_BY_OTHERS;
    reply.conflict = &lock;
    rpc_reply(request, &reply.base, NULL);
}

static void answer_verdict(struct rpc_request *request, enum lock_verdict verdict)
{
    switch (verdict) {
    case LOCK_DONE:
        answer(request, LOCK_GRANTED);
        break;
    case LOCK_BLOCKED:
    case LOCK_WAITS:
        answer(request, LOCK_HELD_BY_OTHERS);
        break;
    case LOCK_WOULD_DEADLOCK:
        answer(request, LOCK_DEADLOCK);
        break;
    case LOCK_FULL:
        answer(request, LOCK_LIMIT);
        break;
    }
}

static struct rpc_request *take(struct locking_request *w)
{
    struct rpc_request *request = w->request;

    list_remove(&w->node);
    free(w);
    return request;
}

/* Whoever has got a lock since is told. */
static void answer_granted(struct meta *meta)
{
    enum lock_verdict verdict;
    uint64_t ticket, now_ns = uv_hrtime();

    while (lock_table_pop(meta->locks, &ticket, &verdict)) {
        LIST_FOREACH_SAFE(node, &meta->locking)
        {
            struct locking_request *w = LIST_ENTRY(node, struct locking_request, node);

            if (w->ticket == ticket) {
                struct rpc_request *request = take(w);

                rpc_request_worked(request, now_ns, now_ns); /* It waited until now. */
                if (verdict == LOCK_DONE) {
                    answer_waited(request);
                } else {
                    answer_verdict(request, verdict);
                }
                break;
            }
        }
    }
}

/* ---- LOCK ---- */

static bool lock_of(struct byte_lock *lock, client_id client, const Morsel__Lock *m, uint32_t part)
{
    if (m == NULL || m->kind >= LOCK_KINDS || m->type >= LOCK_TYPES || part >= LOCK_PARTS) {
        return false;
    }
    *lock = (struct byte_lock){ .inode = m->inode,
                                .kind = (enum lock_kind)m->kind,
                                .owner = { client, m->owner },
                                .type = (enum lock_type)m->type,
                                .start = m->start,
                                .end = m->end,
                                .part = (enum lock_part)part,
                                .pid = m->pid };
    return byte_lock_valid(lock);
}

static void park(struct meta *meta, struct rpc_request *request, uint64_t ticket, uint64_t number)
{
    struct locking_request *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        (void)lock_table_cancel(meta->locks, ticket);
        answer(request, LOCK_LIMIT);
        return;
    }
    w->request = request;
    w->ticket = ticket;
    w->number = number;
    list_init(&w->node);
    list_push_back(&meta->locking, &w->node);
}

/* ---- Does the holder still hold? ---- */

/* Ask the next holder in its way. False: there is none to ask; it is held, or free. */
static bool check_ask(struct meta *meta, struct lock_check *check)
{
    const struct byte_lock *conflict = lock_table_conflict(meta->locks, &check->lock);
    Morsel__LockCheck notice = MORSEL__LOCK_CHECK__INIT;
    client_id holder;

    if (conflict == NULL || check->asked_count == CHECKED_MAX) {
        return false;
    }
    holder = conflict->owner.client;
    for (unsigned i = 0; i < check->asked_count; i++) {
        if (check->asked[i] == holder) {
            return false;
        }
    }
    notice.number = ++meta->last_lock_check;
    if (holder == check->request->node_id ||
        !rpc_push(meta->server, ROLE_CLIENT, holder, MSG_LOCK_CHECK, &notice.base)) {
        return false;
    }
    check->asked[check->asked_count++] = holder;
    check->number = notice.number;
    check->due_ms = meta_now_ms(meta) + CHECK_MS;
    list_push_back(&meta->lock_checks, &check->node);
    return true;
}

static bool check_start(struct meta *meta, struct rpc_request *request,
                        const struct byte_lock *lock, bool test)
{
    struct lock_check *check = lock->kind == LOCK_SIZE ? NULL : calloc(1, sizeof(*check));

    if (check == NULL) {
        return false;
    }
    check->request = request;
    check->lock = *lock;
    check->test = test;
    list_init(&check->node);
    if (!check_ask(meta, check)) {
        free(check);
        return false;
    }
    return true;
}

static struct rpc_request *check_end(struct lock_check *check)
{
    struct rpc_request *request = check->request;

    list_remove(&check->node);
    free(check);
    return request;
}

/* The holder has answered, or never will: once more, and then it is held. */
static void check_again(struct meta *meta, struct lock_check *check)
{
    const struct byte_lock *conflict = lock_table_conflict(meta->locks, &check->lock);
    struct byte_lock lock = check->lock;
    uint64_t ticket;

    list_remove(&check->node);
    if (conflict != NULL && check_ask(meta, check)) {
        return;
    }
    if (check->test && conflict != NULL) {
        answer_conflict(check_end(check), conflict);
    } else if (check->test) {
        answer(check_end(check), LOCK_GRANTED);
    } else {
        answer_verdict(check_end(check), lock_table_set(meta->locks, &lock, false, &ticket));
    }
}

void handle_lock_checked(struct meta *meta, struct rpc_request *request)
{
    Morsel__LockChecked *m = rpc_request_unpack(request, &morsel__lock_checked__descriptor);

    if (m == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &meta->lock_checks)
    {
        struct lock_check *check = LIST_ENTRY(node, struct lock_check, node);

        if (check->number == m->number &&
            check->asked[check->asked_count - 1] == request->node_id) {
            check_again(meta, check);
            break;
        }
    }
    morsel__lock_checked__free_unpacked(m, NULL);
    rpc_reply(request, NULL, NULL);
    answer_granted(meta);
}

/* The requests of `client` come to their end. */
static void end_checks(struct meta *meta, client_id client)
{
    LIST_FOREACH_SAFE(node, &meta->lock_checks)
    {
        struct lock_check *check = LIST_ENTRY(node, struct lock_check, node);

        if (check->request->node_id == client) {
            answer(check_end(check), LOCK_ASK_AGAIN);
        }
    }
}

void locks_pulse(struct meta *meta, uint64_t now_ms)
{
    struct list *node;

    /* Asked in the order of their deadlines; one that is asked again goes to the end. */
    while ((node = list_front(&meta->lock_checks)) != NULL &&
           LIST_ENTRY(node, struct lock_check, node)->due_ms <= now_ms) {
        check_again(meta, LIST_ENTRY(node, struct lock_check, node));
    }
    answer_granted(meta);
}

/* ---- LOCK, decided ---- */

static void test_lock(struct meta *meta, struct rpc_request *request, const struct byte_lock *lock)
{
    const struct byte_lock *conflict = lock_table_conflict(meta->locks, lock);

    if (conflict == NULL) {
        answer(request, LOCK_GRANTED);
    } else if (!check_start(meta, request, lock, true)) {
        answer_conflict(request, conflict);
    }
}

static void want_size_lock(void *data, const struct byte_lock *held)
{
    struct meta *meta = data;
    Morsel__LockRevoke wanted = MORSEL__LOCK_REVOKE__INIT;

    wanted.inode = held->inode;
    (void)rpc_push(meta->server, ROLE_CLIENT, held->owner.client, MSG_LOCK_REVOKE, &wanted.base);
}

static void set_lock(struct meta *meta, struct rpc_request *request, const struct byte_lock *lock,
                     const Morsel__LockRequest *m)
{
    uint64_t ticket, number = m->number;
    enum lock_verdict verdict = lock_table_set(meta->locks, lock, m->how == LOCK_WAIT, &ticket);

    if (verdict == LOCK_WAITS) {
        if (lock->kind == LOCK_SIZE) {
            lock_table_each_of(meta->locks, lock->inode, LOCK_SIZE, want_size_lock, meta);
        }
        park(meta, request, ticket, number);
    } else if (verdict != LOCK_BLOCKED || !check_start(meta, request, lock, false)) {
        answer_verdict(request, verdict);
    }
    answer_granted(meta);
}

/* A client must be on the disk as one that may hold locks before it has the first. */
struct durable_request
{
    struct list node; /* In meta->lock_syncs. */
    struct sync_waiter waiter;
    struct meta *meta;
    struct rpc_request *request; /* NULL: it was given up. */
};

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct durable_request *d = CONTAINER_OF(waiter, struct durable_request, waiter);
    struct rpc_request *request = d->request;
    struct meta *meta = d->meta;

    list_remove(&d->node);
    free(d);
    if (request == NULL) {
        return;
    }
    if (status != 0 || meta->closing) {
        rpc_reply_failure(request, status != 0 ? status : MORSEL_SHUTDOWN, NULL);
    } else {
        meta_dispatch(meta, request);
    }
}

static void wait_durable(struct meta *meta, struct rpc_request *request, uint64_t number)
{
    uintptr_t tries = (uintptr_t)request->data;
    struct durable_request *d;

    if (lease_is_fenced(meta->leases, request->node_id)) {
        park(meta, request, 0,
             number); /* It may have locks again when its old lease period is over. */
        return;
    }
    d = tries < DURABLE_TRIES_MAX ? calloc(1, sizeof(*d)) : NULL;

    if (d == NULL) {
        answer(request, LOCK_LIMIT);
        return;
    }
    request->data = (void *)(tries + 1);
    d->meta = meta;
    d->request = request;
    list_init(&d->node);
    list_push_back(&meta->lock_syncs, &d->node);
    list_init(&d->waiter.node);
    sync_wait(&meta->sync, &d->waiter, on_durable);
}

/* Has the client locks behind it that it had not before? */
static bool gives(const struct byte_lock *lock)
{
    return lock->type != LOCK_NONE && lock->part != LOCK_STEP_DOWN;
}

void handle_lock(struct meta *meta, struct rpc_request *request)
{
    Morsel__LockRequest *m;
    struct byte_lock lock;

    if (request->role != ROLE_CLIENT) {
        rpc_reply_failure(request, MORSEL_INVAL, "only a client has locks");
        return;
    }
    if (!leases_touch_one(meta, request, INODE_LOCKS, ACCESS_READ)) {
        return; /* Not before all who may hold locks are back after a restart. */
    }
    m = rpc_request_unpack(request, &morsel__lock_request__descriptor);
    if (m == NULL) {
        return;
    }
    if (!lock_of(&lock, request->node_id, m->lock, m->part) || m->how >= LOCK_HOWS) {
        rpc_reply_failure(request, MORSEL_INVAL, "the range or the kind of the lock is impossible");
    } else if (m->how == LOCK_TEST) {
        test_lock(meta, request, &lock);
    } else if (gives(&lock) && !leases_grant_locks(meta, request)) {
        wait_durable(meta, request, m->number);
    } else {
        set_lock(meta, request, &lock, m);
    }
    morsel__lock_request__free_unpacked(m, NULL);
}

/* ---- What has not come to the table yet ---- */

/* Does it ask for a lock, under this number of the client's? 0: any. */
static bool asks_for(const struct rpc_request *request, uint64_t number)
{
    Morsel__LockRequest *m =
        request->type != MSG_LOCK
            ? NULL
            : rpc_unpack(&morsel__lock_request__descriptor, request->body, request->body_count);
    struct byte_lock lock;
    bool asks = m != NULL && (number == 0 || m->number == number) && m->how != LOCK_TEST &&
                lock_of(&lock, request->node_id, m->lock, m->part) && gives(&lock);

    if (m != NULL) {
        morsel__lock_request__free_unpacked(m, NULL);
    }
    return asks;
}

/* Requests that wait for the end of the grace period, or for the disk. Were they carried out later,
 * a lock would be given to who has given it up since, and nobody would free it. */
static void end_early(struct meta *meta, client_id client, uint64_t number,
                      enum lock_answer verdict)
{
    struct rpc_request *request;

    while ((request = leases_take(meta, client, asks_for, number)) != NULL) {
        answer(request, verdict);
    }
    LIST_FOREACH_SAFE(node, &meta->lock_syncs)
    {
        struct durable_request *d = LIST_ENTRY(node, struct durable_request, node);

        request = d->request;
        if (request != NULL && request->node_id == client && asks_for(request, number)) {
            d->request = NULL;
            answer(request, verdict);
        }
    }
}

void handle_lock_cancel(struct meta *meta, struct rpc_request *request)
{
    Morsel__LockCancel *m = rpc_request_unpack(request, &morsel__lock_cancel__descriptor);

    if (m == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &meta->locking)
    {
        struct locking_request *w = LIST_ENTRY(node, struct locking_request, node);

        if (w->request->node_id == request->node_id && w->number == m->number &&
            (w->ticket == 0 || lock_table_cancel(meta->locks, w->ticket))) {
            answer(take(w), LOCK_CANCELED);
        }
    }
    end_early(meta, request->node_id, m->number, LOCK_CANCELED);
    morsel__lock_cancel__free_unpacked(m, NULL);
    rpc_reply(request, NULL, NULL);
    answer_granted(meta);
}

/* ---- Coming and going ---- */

static void end_waiting(struct meta *meta, client_id client)
{
    end_checks(meta, client);
    end_early(meta, client, 0, LOCK_ASK_AGAIN);
    LIST_FOREACH_SAFE(node, &meta->locking)
    {
        struct locking_request *w = LIST_ENTRY(node, struct locking_request, node);

        if (w->request->node_id == client) {
            (void)lock_table_cancel(meta->locks, w->ticket);
            answer(take(w), LOCK_ASK_AGAIN);
        }
    }
}

bool locks_join(struct meta *meta, client_id client, const Morsel__SessionRequest *m)
{
    struct byte_lock *locks = calloc(m->n_locks + 1, sizeof(*locks));
    bool good = locks != NULL &&
                (m->n_locks == 0 || lease_held_by(meta->leases, client, INODE_LOCKS) != LEASE_NONE);

    for (size_t i = 0; good && i < m->n_locks; i++) {
        good = lock_of(&locks[i], client, m->locks[i], LOCK_ALL) && locks[i].type != LOCK_NONE;
    }
    end_waiting(meta, client);
    if (!good || lock_table_restate(meta->locks, client, locks, m->n_locks) > 0) {
        /* All or nothing. Until it hears so it relies on them: they are free when it says that it
         * has none, or with its lease period. */
        good = false;
        log_warning(meta->log, "client %016" PRIx64 " has lost its locks", client);
    }
    free(locks);
    answer_granted(meta);
    return good;
}

void locks_gone(struct meta *meta, client_id client)
{
    end_waiting(meta, client);
    answer_granted(meta);
}

/* A request whose client is not fenced any more; NULL: none. */
static struct locking_request *find_unfenced(struct meta *meta)
{
    LIST_FOREACH(node, &meta->locking)
    {
        struct locking_request *w = LIST_ENTRY(node, struct locking_request, node);

        if (w->ticket == 0 && !lease_is_fenced(meta->leases, w->request->node_id)) {
            return w;
        }
    }
    return NULL;
}

void locks_tick(struct meta *meta)
{
    struct locking_request *w;

    /* Each may end the waiting of others: so the list is looked through again. */
    while ((w = find_unfenced(meta)) != NULL) {
        meta_dispatch(meta, take(w));
    }
}

void meta_locks_over(struct meta *meta, client_id client)
{
    end_waiting(meta, client);
    lock_table_drop_client(meta->locks, client);
    answer_granted(meta);
}

void locks_refuse_waiting(struct meta *meta, int status)
{
    struct list *node;

    while ((node = list_front(&meta->lock_checks)) != NULL) {
        rpc_reply_failure(check_end(LIST_ENTRY(node, struct lock_check, node)), status, NULL);
    }
    while ((node = list_front(&meta->locking)) != NULL) {
        struct locking_request *w = LIST_ENTRY(node, struct locking_request, node);

        (void)lock_table_cancel(meta->locks, w->ticket);
        rpc_reply_failure(take(w), status, NULL);
    }
}
