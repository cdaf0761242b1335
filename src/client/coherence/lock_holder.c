/* The client's half of the locks (lock_holder.h). */
#include "client/coherence/lock_holder.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/table.h"

#include <stdlib.h>

#define TO(state) (1U << (state))

static const struct
{
    const char *name;
    unsigned may_become;
} states[LOCKING_STATES] = {
    [LOCKING_NEW] = { "new", TO(LOCKING_TEST) | TO(LOCKING_FREE) | TO(LOCKING_CONVERT) |
                                 TO(LOCKING_ASK) | TO(LOCKING_STEP_DOWN) },
    [LOCKING_TEST] = { "test", TO(LOCKING_ENDED) },
    [LOCKING_FREE] = { "free", TO(LOCKING_ENDED) },
    [LOCKING_CONVERT] = { "convert", TO(LOCKING_ASK) | TO(LOCKING_ENDED) },
    [LOCKING_ASK] = { "ask", TO(LOCKING_STEP_DOWN) | TO(LOCKING_ENDED) },
    [LOCKING_STEP_DOWN] = { "step down", TO(LOCKING_ENDED) },
    [LOCKING_ENDED] = { "ended", 0 },
};

const char *lock_request_state_name(enum lock_request_state state)
{
    CHECK(state < LOCKING_STATES);
    return states[state].name;
}

static void become(struct lock_request *request, enum lock_request_state state)
{
    CHECK((states[request->state].may_become & TO(state)) != 0);
    request->state = state;
}

static bool frees(const struct lock_request *request)
{
    return request->state == LOCKING_FREE || request->state == LOCKING_CONVERT;
}

/* What it gives up is noted when it is sent, and that cannot be refused. */
static bool gives_up(const struct lock_request *request)
{
    return frees(request) || request->state == LOCKING_STEP_DOWN;
}

/* ---- Invariants ---- */

static void check_request(const struct lock_request *request)
{
    bool set = request->state != LOCKING_TEST;

    CHECK(request->state > LOCKING_NEW && request->state < LOCKING_ENDED);
    CHECK((request->how == LOCK_TEST) == (request->state == LOCKING_TEST));
    CHECK_IMPLIES(set, frees(request) == (request->lock.type == LOCK_NONE));
    CHECK((request->state == LOCKING_CONVERT) == (request->converts_to != LOCK_NONE));
    CHECK((request->state == LOCKING_STEP_DOWN) == (request->lock.part == LOCK_STEP_DOWN));
    CHECK_IMPLIES(request->lock.part != LOCK_ALL, request->lock.type == LOCK_SHARED);
}

struct overlap
{
    const struct byte_lock *with;
    bool exclusively;
};

static void check_given_up(void *data, const struct byte_lock *held)
{
    const struct overlap *overlap = data;
    bool there = lock_owner_equal(&held->owner, &overlap->with->owner) &&
                 held->start <= overlap->with->end && overlap->with->start <= held->end;

    CHECK(!there || (overlap->exclusively && held->type != LOCK_EXCLUSIVE));
}

void lock_holder_check(const struct lock_holder *h)
{
    byte_locks_check(h->locks);
    LIST_FOREACH(node, &h->requests)
    {
        const struct lock_request *request = LIST_ENTRY(node, struct lock_request, node);
        struct overlap overlap = { &request->lock, request->state == LOCKING_STEP_DOWN };

        check_request(request);
        if (request->sent && gives_up(request)) {
            byte_locks_each_of(h->locks, request->lock.inode, request->lock.kind, check_given_up,
                               &overlap);
        }
    }
}

/* ---- Who used which handle ---- */

/* The owner of an open file description has no other. */
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

static struct lock_user *find_user(const struct lock_holder *h, const struct byte_lock *lock)
{
    struct lock_user probe = { .key = { lock->inode, lock->owner.id, lock->kind } };
    struct lock_user *user;

    HASH_FIND(hh, h->users, &probe.key, sizeof(probe.key), user);
    return user;
}

static void forget_user(struct lock_holder *h, struct lock_user *user)
{
    if (user != NULL) {
        HASH_DEL(h->users, user);
        free(user);
    }
}

/* False: no memory. */
static bool note_user(struct lock_holder *h, const struct byte_lock *lock,
                      const struct handle *handle)
{
    struct lock_user *user = find_user(h, lock);

    if (user == NULL && handle == NULL) {
        return true;
    }
    if (user == NULL && (user = calloc(1, sizeof(*user))) != NULL) {
        user->key.inode = lock->inode;
        user->key.owner = lock->owner.id;
        user->key.kind = lock->kind;
        HASH_ADD(hh, h->users, key, sizeof(user->key), user);
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

bool lock_holder_of_handle(const struct lock_holder *h, const struct handle *handle,
                           struct byte_lock *lock)
{
    const struct lock_user *user;

    for (user = h->users; user != NULL; user = user->hh.next) {
        if (user->handle == handle) {
            *lock = (struct byte_lock){ .inode = user->key.inode,
                                        .kind = (enum lock_kind)user->key.kind,
                                        .owner = { h->client, user->key.owner },
                                        .type = LOCK_NONE,
                                        .end = INT64_MAX };
            return true;
        }
    }
    return false;
}

void lock_holder_forget_handle(struct lock_holder *h, const struct handle *handle)
{
    struct lock_user *user, *next;

    HASH_ITER(hh, h->users, user, next)
    {
        if (user->handle == handle) {
            forget_user(h, user);
        }
    }
}

static void forget_users(struct lock_holder *h)
{
    while (h->users != NULL) {
        forget_user(h, h->users);
    }
}

/* ---- What is held ---- */

bool lock_holder_has(const struct lock_holder *h, inode_id inode, enum lock_kind kind,
                     uint64_t owner)
{
    struct lock_owner key = { h->client, owner };

    return byte_locks_has(h->locks, inode, kind, &key);
}

static void note_given_up(struct lock_holder *h, const struct byte_lock *lock)
{
    (void)byte_locks_set(h->locks, lock);
    if (h->users != NULL && lock->type == LOCK_NONE &&
        !lock_holder_has(h, lock->inode, lock->kind, lock->owner.id)) {
        forget_user(h, find_user(h, lock));
    }
}

/* Ours, as the manager has just made it. What other threads of the process give up there has not
 * come to the manager yet, where it is not answered. False: there is no room to note it. */
static bool note_had(struct lock_holder *h, const struct lock_request *request)
{
    struct byte_lock all = request->lock;

    all.part = LOCK_ALL;
    if (!note_user(h, &all, request->handle) || !byte_locks_set(h->locks, &all)) {
        return false;
    }
    LIST_FOREACH(node, &h->requests)
    {
        const struct lock_request *other = LIST_ENTRY(node, struct lock_request, node);

        if (gives_up(other) && lock_owner_equal(&other->lock.owner, &all.owner)) {
            (void)byte_locks_set(h->locks, &other->lock);
        }
    }
    return true;
}

/* ---- Actions ---- */

static struct lock_holder_action *act(struct lock_holder_actions *out,
                                      enum lock_holder_action_type type,
                                      struct lock_request *request)
{
    struct lock_holder_action *action = &out->items[out->count];

    CHECK(out->count < LOCKER_ACTIONS_MAX);
    out->count++;
    *action = (struct lock_holder_action){ .type = type, .request = request };
    return action;
}

static void rejoin(struct lock_holder_actions *out)
{
    (void)act(out, LOCKER_REJOIN, NULL);
}

static void end(struct lock_request *request, int status, enum lock_answer answer,
                struct lock_holder_actions *out)
{
    struct lock_holder_action *action = act(out, LOCKER_END, request);

    become(request, LOCKING_ENDED);
    list_remove(&request->node);
    action->status = status;
    action->answer = answer;
}

static void refuse(struct lock_request *request, int status, struct lock_holder_actions *out)
{
    list_remove(&request->node);
    act(out, LOCKER_REFUSE, request)->status = status;
}

/* ---- A request begins ---- */

static bool converts(const struct lock_holder *h, const struct byte_lock *lock)
{
    return lock->kind == LOCK_FLOCK && lock->type != LOCK_NONE &&
           lock_holder_has(h, lock->inode, lock->kind, lock->owner.id) &&
           byte_locks_exclusive(h->locks, lock) != (lock->type == LOCK_EXCLUSIVE);
}

static bool has_all_to_share(const struct lock_holder *h, const struct byte_lock *lock)
{
    return lock->type == LOCK_SHARED && lock->kind != LOCK_SIZE &&
           byte_locks_exclusive(h->locks, lock) && byte_locks_covers(h->locks, lock);
}

static void ask_for(struct lock_request *request)
{
    become(request, LOCKING_ASK);
    request->lock.part =
        request->lock.type == LOCK_SHARED && request->lock.kind != LOCK_SIZE ? LOCK_TAKE : LOCK_ALL;
}

static void choose(const struct lock_holder *h, struct lock_request *request)
{
    if (request->how == LOCK_TEST) {
        become(request, LOCKING_TEST);
    } else if (request->lock.type == LOCK_NONE) {
        become(request, LOCKING_FREE);
    } else if (converts(h, &request->lock)) {
        become(request, LOCKING_CONVERT);
        request->converts_to = request->lock.type;
        request->lock.type = LOCK_NONE;
    } else if (has_all_to_share(h, &request->lock)) {
        become(request, LOCKING_STEP_DOWN);
        request->lock.part = LOCK_STEP_DOWN;
    } else {
        ask_for(request);
    }
}

struct split
{
    const struct byte_lock *by;
    bool any;
};

static void look_for_split(void *data, const struct byte_lock *held)
{
    struct split *split = data;

    split->any = split->any || (lock_owner_equal(&held->owner, &split->by->owner) &&
                                held->start < split->by->start && held->end > split->by->end);
}

/* For the pieces that come of it. What frees bytes needs room only where it makes two of one. */
static bool has_room(const struct lock_holder *h, const struct byte_lock *lock)
{
    struct split split = { lock, lock->type != LOCK_NONE };

    if (byte_locks_count(h->locks) + 2 <= h->ranges_max) {
        return true;
    }
    byte_locks_each_of(h->locks, lock->inode, lock->kind, look_for_split, &split);
    return !split.any;
}

static void on_start(struct lock_holder *h, const struct lock_holder_event *event,
                     struct lock_holder_actions *out)
{
    struct lock_request *request = event->request;

    *request = (struct lock_request){
        .handle = event->handle, .lock = event->lock, .how = event->how, .number = ++h->last_number
    };
    list_init(&request->node);
    request->lock.owner.client = h->client;
    request->lock.part = LOCK_ALL;
    if (request->how != LOCK_TEST && !has_room(h, &request->lock)) {
        refuse(request, MORSEL_NOLCK, out);
        return;
    }
    choose(h, request);
    list_push_back(&h->requests, &request->node);
    (void)act(out, LOCKER_SEND, request);
}

static void on_sent(struct lock_holder *h, struct lock_request *request)
{
    request->sent = true;
    if (gives_up(request)) {
        note_given_up(h, &request->lock);
    }
}

/* A step down is known here, and named so: whatever came in its way. */
static void on_unsent(struct lock_request *request, int status, struct lock_holder_actions *out)
{
    if (!request->sent) {
        refuse(request, status, out);
    } else if (request->state == LOCKING_STEP_DOWN) {
        rejoin(out);
        end(request, MORSEL_OK, LOCK_GRANTED, out);
    } else {
        end(request, status, LOCK_CANCELED, out);
    }
}

/* ---- Answers ---- */

/* Of a conversion: the old flock is free, everywhere. Now for the other one. */
static void take_freed(struct lock_request *request, struct lock_holder_actions *out)
{
    if (request->how == LOCK_WAIT && request->canceled) {
        end(request, MORSEL_OK, LOCK_CANCELED, out);
        return;
    }
    request->lock.type = request->converts_to;
    request->converts_to = LOCK_NONE;
    ask_for(request);
    (void)act(out, LOCKER_SEND, request);
}

static void take_grant(struct lock_holder *h, struct lock_request *request,
                       struct lock_holder_actions *out)
{
    bool steps_down =
        request->lock.part == LOCK_TAKE && byte_locks_exclusive(h->locks, &request->lock);

    if (!note_had(h, request)) {
        rejoin(out); /* It has more for us than we know. */
        end(request, MORSEL_OK, LOCK_LIMIT, out);
    } else if (steps_down) {
        become(request, LOCKING_STEP_DOWN);
        request->lock.part = LOCK_STEP_DOWN;
        (void)act(out, LOCKER_SEND, request);
    } else {
        end(request, MORSEL_OK, LOCK_GRANTED, out);
    }
}

static void on_answered(struct lock_holder *h, const struct lock_holder_event *event,
                        struct lock_holder_actions *out)
{
    struct lock_request *request = event->request;
    enum lock_answer answer = event->answer;

    if (frees(request) && answer != LOCK_GRANTED) {
        rejoin(out);
    }
    if (answer == LOCK_GRANTED && event->joining &&
        (request->state == LOCKING_ASK || request->state == LOCKING_STEP_DOWN)) {
        answer = request->canceled ? LOCK_CANCELED : LOCK_ASK_AGAIN; /* JOIN did not name it. */
    }
    if (answer == LOCK_ASK_AGAIN && !request->canceled) {
        (void)act(out, LOCKER_SEND_AGAIN, request);
        return;
    }
    request->waited |= event->waited;
    if (request->state == LOCKING_STEP_DOWN) {
        end(request, MORSEL_OK, LOCK_GRANTED, out);
    } else if (answer == LOCK_GRANTED && request->state == LOCKING_CONVERT) {
        take_freed(request, out);
    } else if (answer == LOCK_GRANTED && request->state == LOCKING_ASK) {
        take_grant(h, request, out);
    } else {
        end(request, MORSEL_OK, answer, out);
    }
}

static void on_failed(const struct lock_holder_event *event, struct lock_holder_actions *out)
{
    struct lock_request *request = event->request;
    int status = event->status;
    bool stepped_down = request->state == LOCKING_STEP_DOWN && !event->ending;

    if (status == MORSEL_NO_SESSION && !event->ending && !request->canceled) {
        rejoin(out);
        (void)act(out, LOCKER_SEND_AGAIN, request);
        return;
    }
    /* It may have been granted all the same, or not been freed. */
    if (status == MORSEL_CANCELED || status == MORSEL_TIMEDOUT || status == MORSEL_NOMEM ||
        frees(request) || stepped_down) {
        rejoin(out);
    }
    if (stepped_down) {
        end(request, MORSEL_OK, LOCK_GRANTED, out);
    } else {
        end(request, status, LOCK_CANCELED, out);
    }
}

/* ---- Events ---- */

static void on_cancel(struct lock_request *request, bool connected, struct lock_holder_actions *out)
{
    if (request->canceled || !connected) {
        (void)act(out, LOCKER_GIVE_UP, request); /* The manager does not answer. */
    } else {
        request->canceled = true;
        (void)act(out, LOCKER_SEND_CANCEL, request);
    }
}

static void on_let_go(struct lock_holder *h, const struct byte_lock *lock,
                      struct lock_holder_actions *out)
{
    struct byte_lock none = *lock;

    none.owner.client = h->client;
    none.type = LOCK_NONE;
    none.part = LOCK_ALL;
    note_given_up(h, &none);
    rejoin(out);
}

static void on_lost(struct lock_holder *h, struct lock_holder_actions *out)
{
    byte_locks_drop_client(h->locks, h->client);
    forget_users(h);
    rejoin(out); /* It keeps them for us until we have said that we know. */
}

static void step_request(struct lock_holder *h, const struct lock_holder_event *event,
                         struct lock_holder_actions *out)
{
    struct lock_request *request = event->request;

    check_request(request);
    if (event->type == LOCKER_SENT) {
        on_sent(h, request);
    } else if (event->type == LOCKER_UNSENT) {
        on_unsent(request, event->status, out);
    } else if (event->type == LOCKER_ANSWERED) {
        on_answered(h, event, out);
    } else if (event->type == LOCKER_FAILED) {
        on_failed(event, out);
    } else if (event->type == LOCKER_CANCEL) {
        on_cancel(request, event->connected, out);
    } else if (request->canceled) { /* Who does not want to wait need not be asked for again. */
        (void)act(out, LOCKER_GIVE_UP, request);
    }
    if (request->state != LOCKING_ENDED && !list_empty(&request->node)) {
        check_request(request);
    }
}

void lock_holder_step(struct lock_holder *h, const struct lock_holder_event *event,
                      struct lock_holder_actions *out)
{
    CHECK(out->count == 0);
    switch (event->type) {
    case LOCKER_START:
        on_start(h, event, out);
        break;
    case LOCKER_SENT:
    case LOCKER_UNSENT:
    case LOCKER_ANSWERED:
    case LOCKER_FAILED:
    case LOCKER_CANCEL:
    case LOCKER_CONNECTED:
        step_request(h, event, out);
        break;
    case LOCKER_LET_GO:
        on_let_go(h, &event->lock, out);
        break;
    case LOCKER_LOST:
        on_lost(h, out);
        break;
    }
}

int lock_holder_init(struct lock_holder *h, client_id client, uint32_t ranges_max)
{
    *h = (struct lock_holder){ .client = client, .ranges_max = ranges_max };
    list_init(&h->requests);
    h->locks = byte_locks_new(ranges_max);
    return h->locks == NULL ? MORSEL_NOMEM : MORSEL_OK;
}

void lock_holder_free(struct lock_holder *h)
{
    forget_users(h);
    byte_locks_free(h->locks);
    h->locks = NULL;
}
