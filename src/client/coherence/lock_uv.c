/* Asks the manager, or answers from what the mount has, and keeps what is held to say it again. */
#include "client/coherence/lock_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/session_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

/* Which handle an owner used last on an inode: the owner of an open file description has no other.
 */
struct lock_user
{
    struct
    {
        inode_id inode;
        uint64_t owner;
        uint64_t kind;
    } key;
    const struct handle *handle;
    UT_hash_handle hh;
};

/* ---- What we know ---- */

static struct lock_user *find_user(const struct client *client, const struct byte_lock *lock)
{
    struct lock_user probe = { .key = { lock->inode, lock->owner.id, lock->kind } };
    struct lock_user *user;

    HASH_FIND(hh, client->lock_users, &probe.key, sizeof(probe.key), user);
    return user;
}

static void forget_user(struct client *client, struct lock_user *user)
{
    if (user != NULL) {
        HASH_DEL(client->lock_users, user);
        free(user);
    }
}

/* False: no memory. */
static bool note_user(struct client *client, const struct byte_lock *lock,
                      const struct handle *handle)
{
    struct lock_user *user = find_user(client, lock);

    if (user == NULL && (user = calloc(1, sizeof(*user))) != NULL) {
        user->key.inode = lock->inode;
        user->key.owner = lock->owner.id;
        user->key.kind = lock->kind;
        HASH_ADD(hh, client->lock_users, key, sizeof(user->key), user);
        if (!TABLE_ADDED(user)) {
            free(user);
            user = NULL;
        }
    }
    if (user != NULL) {
        user->handle = handle;
    }
    return user != NULL;
}

bool lock_held(const struct client *client, inode_id inode, enum lock_kind kind, uint64_t owner)
{
    struct lock_owner key = { client->id, owner };

    return byte_locks_has(client->locks, inode, kind, &key);
}

static void note_freed(struct client *client, const struct byte_lock *lock)
{
    (void)byte_locks_set(client->locks, lock);
    if (!lock_held(client, lock->inode, lock->kind, lock->owner.id)) {
        forget_user(client, find_user(client, lock));
    }
}

void lock_let_go(struct client *client, const struct byte_lock *lock)
{
    struct byte_lock none = *lock;

    none.owner.client = client->id;
    none.type = LOCK_NONE;
    note_freed(client, &none);
    if (!client->stopping) {
        client_rejoin(client); /* What we do not name goes. */
    }
}

bool lock_of_handle(const struct client *client, const struct handle *handle,
                    struct byte_lock *lock)
{
    const struct lock_user *user;

    for (user = client->lock_users; user != NULL; user = user->hh.next) {
        if (user->handle == handle) {
            *lock = (struct byte_lock){ .inode = user->key.inode,
                                        .kind = (enum lock_kind)user->key.kind,
                                        .owner = { client->id, user->key.owner },
                                        .type = LOCK_NONE,
                                        .end = INT64_MAX };
            return true;
        }
    }
    return false;
}

void lock_forget_handle(struct client *client, const struct handle *handle)
{
    struct lock_user *user, *next;

    HASH_ITER(hh, client->lock_users, user, next)
    {
        if (user->handle == handle) {
            forget_user(client, user);
        }
    }
}

/* ---- Calls ---- */

static void lock_fill(Morsel__Lock *m, const struct byte_lock *lock)
{
    morsel__lock__init(m);
    m->inode = lock->inode;
    m->kind = lock->kind;
    m->owner = lock->owner.id;
    m->type = lock->type;
    m->start = lock->start;
    m->end = lock->end;
    m->pid = lock->pid;
}

static void end(struct lock_call *call, int status, enum lock_answer answer,
                const struct byte_lock *conflict)
{
    list_remove(&call->node);
    call->done(call, status, answer, conflict);
}

/* What it gives up is noted when it is sent, and that cannot be refused. */
static bool gives_up(const struct lock_call *call)
{
    return call->how != LOCK_TEST &&
           (call->lock.type == LOCK_NONE || call->lock.part == LOCK_STEP_DOWN);
}

/* Ours, as the manager has just made it. What other threads of the process give up there has not
 * come to the manager yet, where it is not answered. False: there is no room to note it. */
static bool note_had(const struct lock_call *call)
{
    struct client *client = call->client;
    struct byte_lock all = call->lock;

    all.part = LOCK_ALL;
    if (!note_user(client, &all, call->handle) || !byte_locks_set(client->locks, &all)) {
        return false;
    }
    LIST_FOREACH(node, &client->lock_calls)
    {
        const struct lock_call *other = LIST_ENTRY(node, struct lock_call, node);

        if (gives_up(other) && lock_owner_equal(&other->lock.owner, &all.owner)) {
            (void)byte_locks_set(client->locks, &other->lock);
        }
    }
    return true;
}

static int send_call(struct lock_call *call);

/* Of a conversion: the old flock is free, everywhere. True: the call goes on, for the other one. */
static bool take_freed(struct lock_call *call, int *status, enum lock_answer *answer)
{
    if (call->how == LOCK_WAIT && call->canceled) {
        *answer = LOCK_CANCELED;
        return false;
    }
    call->lock.type = call->converts_to;
    call->lock.part = call->lock.type == LOCK_SHARED ? LOCK_TAKE : LOCK_ALL;
    call->converts_to = LOCK_NONE;
    *status = send_call(call);
    return *status == 0;
}

/* The manager has granted it. True: that was the first half, and the call goes on. */
static bool take_grant(struct lock_call *call, enum lock_answer *answer)
{
    bool steps_down =
        call->lock.part == LOCK_TAKE && byte_locks_exclusive(call->client->locks, &call->lock);

    if (call->how == LOCK_TEST || gives_up(call)) {
        return false;
    }
    if (!note_had(call)) {
        client_rejoin(
            call->client); /* It has more for us than we know; what we do not name goes. */
        *answer = LOCK_LIMIT;
        return false;
    }
    if (steps_down) {
        call->lock.part = LOCK_STEP_DOWN;
        if (send_call(call) == 0) {
            return true;
        }
        client_rejoin(call->client); /* It is named as shared. */
    }
    return false;
}

static void take_answer(struct lock_call *call, const Morsel__LockReply *m)
{
    struct byte_lock conflict = call->lock;
    enum lock_answer answer = (enum lock_answer)m->verdict;
    int status = MORSEL_OK;

    if (m->conflict != NULL && m->conflict->type < LOCK_TYPES) {
        conflict.type = (enum lock_type)m->conflict->type;
        conflict.start = m->conflict->start;
        conflict.end = m->conflict->end;
        conflict.pid = m->conflict->pid;
    }
    call->waited |= m->waited;
    if (answer == LOCK_GRANTED &&
        (call->converts_to != LOCK_NONE ? take_freed(call, &status, &answer)
                                        : take_grant(call, &answer))) {
        return;
    }
    end(call, status, answer, &conflict);
}

/* A step down is known to us, and named in each SESSION: whatever came in its way. */
static void take_step_down(struct lock_call *call, int status)
{
    if (status != 0) {
        client_rejoin(call->client);
    }
    end(call, MORSEL_OK, LOCK_GRANTED, NULL);
}

static void on_answer(struct rpc_call *rpc_call, int status, struct rpc_reply *reply)
{
    struct lock_call *call = CONTAINER_OF(rpc_call, struct lock_call, rpc);
    struct client *client = call->client;
    Morsel__LockReply *m = NULL;
    struct rpc_room room;

    if (status == MORSEL_NO_SESSION && !client->stopping && !call->canceled) {
        client_rejoin(client);
        reply->again = true;
        return;
    }
    if (status == 0) {
        status = rpc_unpack_in(&room, &morsel__lock_reply__descriptor, reply->body,
                               reply->body_count, (void **)&m);
    }
    /* It may have been granted all the same, or not been freed; what we do not name goes. */
    if ((status == MORSEL_CANCELED || status == MORSEL_TIMEDOUT || status == MORSEL_NOMEM ||
         (call->how != LOCK_TEST && call->lock.type == LOCK_NONE &&
          (status != 0 || m->verdict != LOCK_GRANTED))) &&
        !client->stopping) {
        client_rejoin(client);
    }
    /* A SESSION that is under way did not name it, and takes it away again. */
    if (status == 0 && m->verdict == LOCK_GRANTED && client->holder.joins_asked > 0 &&
        call->how != LOCK_TEST && call->lock.type != LOCK_NONE) {
        m->verdict = call->canceled ? LOCK_CANCELED : LOCK_ASK_AGAIN;
    }
    if (status == 0 && m->verdict == LOCK_ASK_AGAIN && !call->canceled) {
        reply->again = true;
    } else if (call->lock.part == LOCK_STEP_DOWN && !client->stopping) {
        take_step_down(call, status);
    } else if (status != 0) {
        end(call, status, LOCK_CANCELED, NULL);
    } else {
        take_answer(call, m);
    }
    rpc_room_free(&room, m);
}

/* What the owner holds exclusively under a shared lock that it asks for stays so until it has the
 * rest: a request that is refused, or interrupted, takes nothing away, and nobody is let in beside
 * a lock that we still name as exclusive in a SESSION. Then, or where it has the rest, it steps
 * down: that cannot fail, and is named from its sending. */
static enum lock_part part_of(const struct lock_call *call)
{
    if (call->how == LOCK_TEST || call->lock.type != LOCK_SHARED || call->lock.kind == LOCK_SIZE) {
        return LOCK_ALL;
    }
    return byte_locks_exclusive(call->client->locks, &call->lock) &&
                   byte_locks_covers(call->client->locks, &call->lock)
               ? LOCK_STEP_DOWN
               : LOCK_TAKE;
}

static int send_call(struct lock_call *call)
{
    struct client *client = call->client;
    Morsel__LockRequest request = MORSEL__LOCK_REQUEST__INIT;
    Morsel__Lock m;

    lock_fill(&m, &call->lock);
    request.lock = &m;
    request.how = call->how;
    request.number = call->number;
    request.part = call->lock.part;
    return rpc_call_start(&call->rpc, client->manager, MSG_LOCK, &request.base, NULL, 0,
                          call->how == LOCK_WAIT ? RPC_NO_DEADLINE : client->options.io_timeout_ms,
                          on_answer);
}

/* A flock of another type than is there: flock(2) gives up what is there first, and somebody else
 * may come between. So it goes as an unlock, which is noted when it is sent, and a request behind
 * it: what we name in a SESSION is never more than what others were let in beside. */
static bool converts(const struct lock_call *call)
{
    const struct byte_lock *lock = &call->lock;

    return lock->kind == LOCK_FLOCK && call->how != LOCK_TEST && lock->type != LOCK_NONE &&
           lock_held(call->client, lock->inode, lock->kind, lock->owner.id) &&
           byte_locks_exclusive(call->client->locks, lock) != (lock->type == LOCK_EXCLUSIVE);
}

int lock_start(struct lock_call *call, struct client *client, struct handle *handle,
               const struct byte_lock *lock, enum lock_how how,
               void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                            const struct byte_lock *conflict))
{
    int rv;

    call->client = client;
    call->handle = handle;
    call->lock = *lock;
    call->lock.owner.client = client->id;
    call->how = how;
    call->number = ++client->last_lock_call;
    call->canceled = call->waited = false;
    call->done = done;
    call->converts_to = LOCK_NONE;
    if (how != LOCK_TEST && lock->type != LOCK_NONE &&
        byte_locks_count(client->locks) + 2 > CLIENT_LOCKS_MAX) {
        return MORSEL_NOLCK;
    }
    if (converts(call)) {
        call->converts_to = call->lock.type;
        call->lock.type = LOCK_NONE;
    }
    call->lock.part = part_of(call);
    rv = send_call(call);
    if (rv == 0) {
        list_init(&call->node);
        list_push_back(&client->lock_calls, &call->node);
        if (how != LOCK_TEST && call->lock.type == LOCK_NONE) {
            note_freed(client, &call->lock);
        } else if (call->lock.part == LOCK_STEP_DOWN) {
            (void)byte_locks_set(client->locks, &call->lock);
        }
    }
    return rv;
}

void lock_cancel(struct lock_call *call)
{
    Morsel__LockCancel request = MORSEL__LOCK_CANCEL__INIT;

    if (!rpc_call_active(&call->rpc)) {
        return;
    }
    if (call->canceled || !rpc_peer_connected(call->client->manager)) {
        rpc_call_cancel(&call->rpc); /* The manager does not answer. */
        return;
    }
    call->canceled = true;
    request.number = call->number;
    rpc_send_oneway(call->client->manager, MSG_LOCK_CANCEL, &request.base);
}

void lock_manager_up(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->lock_calls)
    {
        struct lock_call *call = LIST_ENTRY(node, struct lock_call, node);

        if (call->canceled) {
            rpc_call_cancel(&call->rpc);
        }
    }
}

/* ---- Do we still hold it? ---- */

struct lock_check
{
    struct kernel_wait wait;
    struct client *client;
    uint64_t number;
};

static void on_caught_up(struct kernel_wait *wait)
{
    struct lock_check *check = CONTAINER_OF(wait, struct lock_check, wait);
    Morsel__LockChecked checked = MORSEL__LOCK_CHECKED__INIT;

    checked.number = check->number;
    if (!check->client->stopping) {
        rpc_send_oneway(check->client->manager, MSG_LOCK_CHECKED, &checked.base);
    }
    free(check);
}

void lock_on_check(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__LockCheck *m;
    struct lock_check *check = calloc(1, sizeof(*check));
    int rv = rpc_unpack_in(&room, &morsel__lock_check__descriptor, body, body_count, (void **)&m);

    if (rv != 0 || check == NULL) {
        /* Without an answer the manager takes it for held. */
        session_note_unread(client, "that asks for our locks", rv != 0 ? rv : MORSEL_NOMEM);
        free(check);
    } else {
        check->client = client;
        check->number = m->number;
        check->wait.done = on_caught_up;
        list_init(&check->wait.node);
        if (client->kernel.catch_up != NULL) {
            client->kernel.catch_up(client->kernel.data, &check->wait);
        } else {
            on_caught_up(&check->wait);
        }
    }
    rpc_room_free(&room, m);
}

/* ---- SESSION ---- */

struct filling
{
    Morsel__SessionRequest *request;
    Morsel__Lock *items;
};

static void fill_one(void *data, const struct byte_lock *lock)
{
    struct filling *f = data;
    Morsel__Lock *item = &f->items[f->request->n_locks];

    lock_fill(item, lock);
    f->request->locks[f->request->n_locks++] = item;
}

bool lock_session_fill(struct client *client, Morsel__SessionRequest *request)
{
    size_t room = byte_locks_count(client->locks) + 1;
    struct filling f = { request, malloc(room * sizeof(Morsel__Lock)) };

    request->locks = calloc(room, sizeof(void *));
    if (f.items == NULL || request->locks == NULL) {
        free(f.items);
        free(request->locks);
        request->locks = NULL;
        return false;
    }
    request->locks[0] = f.items; /* To be freed, also when there are none. */
    byte_locks_each(client->locks, fill_one, &f);
    return true;
}

void lock_session_free(Morsel__SessionRequest *request)
{
    if (request->locks != NULL) {
        free(request->locks[0]);
        free(request->locks);
    }
}

static void lose_one(void *data, const struct byte_lock *lock)
{
    struct client *client = data;
    struct file *file = file_find(client, lock->inode);

    if (file != NULL && lock->kind != LOCK_SIZE) {
        file_fail(file, MORSEL_IO);
    }
}

void lock_session_answered(struct client *client, const Morsel__SessionReply *reply)
{
    if (!reply->locks_lost) {
        return;
    }
    if (byte_locks_count(client->locks) > 0) {
        log_error(
            client->options.log,
            "%u locks were lost while manager %s did not hear us: the next write or close of these "
            "files says EIO",
            byte_locks_count(client->locks), rpc_peer_address(client->manager));
        byte_locks_each(client->locks, lose_one, client);
        byte_locks_drop_client(client->locks, client->id);
    }
    while (client->lock_users != NULL) {
        forget_user(client, client->lock_users);
    }
    size_lock_lose_all(client);
    client_rejoin(client); /* It keeps them for us until we have said that we know. */
}

int lock_client_open(struct client *client)
{
    list_init(&client->lock_calls);
    client->locks = byte_locks_new(CLIENT_LOCKS_MAX);
    return client->locks == NULL ? MORSEL_NOMEM : MORSEL_OK;
}

void lock_client_close(struct client *client)
{
    while (client->lock_users != NULL) {
        forget_user(client, client->lock_users);
    }
    byte_locks_free(client->locks);
}
