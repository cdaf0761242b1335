/* The host of the locks' core: its calls to the manager, and what the manager asks. */
#include "client/coherence/lock_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/manager/unread_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

static void feed(struct client *client, struct lock_holder_event event);

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

static void on_answer(struct rpc_call *rpc_call, int status, struct rpc_reply *reply)
{
    struct lock_call *call = CONTAINER_OF(rpc_call, struct lock_call, rpc);
    struct client *client = call->client;
    struct lock_holder_event event = { .type = LOCKER_FAILED, .request = &call->request };
    struct byte_lock conflict = call->request.lock;
    Morsel__LockReply *m = NULL;
    struct rpc_room room;

    if (status == 0) {
        status = rpc_unpack_in(&room, &morsel__lock_reply__descriptor, reply->body,
                               reply->body_count, (void **)&m);
    }
    event.status = status;
    event.ending = client_is_ending(client);
    if (status == 0) {
        event.type = LOCKER_ANSWERED;
        event.answer = (enum lock_answer)m->verdict;
        event.waited = m->waited;
        event.joining = lease_is_joining(client);
    }
    if (status == 0 && m->conflict != NULL && m->conflict->type < LOCK_TYPES) {
        conflict.type = (enum lock_type)m->conflict->type;
        conflict.start = m->conflict->start;
        conflict.end = m->conflict->end;
        conflict.pid = m->conflict->pid;
    }
    call->reply = reply;
    call->conflict = &conflict;
    feed(client, event);
    rpc_room_free(&room, m);
}

static int send_call(struct lock_call *call)
{
    const struct lock_request *asked = &call->request;
    struct client *client = call->client;
    Morsel__LockRequest request = MORSEL__LOCK_REQUEST__INIT;
    Morsel__Lock m;

    lock_fill(&m, &asked->lock);
    request.lock = &m;
    request.how = asked->how;
    request.number = asked->number;
    request.part = asked->lock.part;
    return rpc_call_start(&call->rpc, client->manager, MSG_LOCK, &request.base, NULL, 0,
                          asked->how == LOCK_WAIT ? RPC_NO_DEADLINE : client->options.io_timeout_ms,
                          on_answer);
}

static void send_cancel(const struct lock_call *call)
{
    Morsel__LockCancel request = MORSEL__LOCK_CANCEL__INIT;

    request.number = call->request.number;
    rpc_send_oneway(call->client->manager, MSG_LOCK_CANCEL, &request.base);
}

/* ---- The core and its actions ---- */

static void carry_out(struct client *client, const struct lock_holder_action *action)
{
    struct lock_call *call = CONTAINER_OF(action->request, struct lock_call, request);
    int rv;

    switch (action->type) {
    case LOCKER_SEND:
        rv = send_call(call);
        feed(client, (struct lock_holder_event){ .type = rv == 0 ? LOCKER_SENT : LOCKER_UNSENT,
                                                 .request = action->request,
                                                 .status = rv });
        break;
    case LOCKER_SEND_AGAIN:
        call->reply->again = true;
        break;
    case LOCKER_SEND_CANCEL:
        send_cancel(call);
        break;
    case LOCKER_GIVE_UP:
        rpc_call_cancel(&call->rpc);
        break;
    case LOCKER_REJOIN:
        if (!client_is_ending(client)) {
            client_rejoin(client);
        }
        break;
    case LOCKER_REFUSE:
        call->refused = action->status;
        break;
    case LOCKER_END:
        call->done(call, action->status, action->answer, call->conflict);
        break;
    }
}

static void feed(struct client *client, struct lock_holder_event event)
{
    struct lock_holder_actions out = { .count = 0 };

    lock_holder_step(&client->locks, &event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(client, &out.items[i]);
    }
}

/* ---- Events ---- */

int lock_start(struct lock_call *call, struct client *client, const struct handle *handle,
               const struct byte_lock *lock, enum lock_how how,
               void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                            const struct byte_lock *conflict))
{
    call->client = client;
    call->refused = MORSEL_OK;
    call->conflict = NULL;
    call->done = done;
    feed(client, (struct lock_holder_event){ .type = LOCKER_START,
                                             .request = &call->request,
                                             .handle = handle,
                                             .lock = *lock,
                                             .how = how });
    return call->refused;
}

void lock_cancel(struct lock_call *call)
{
    if (rpc_call_active(&call->rpc)) {
        feed(call->client,
             (struct lock_holder_event){ .type = LOCKER_CANCEL,
                                         .request = &call->request,
                                         .connected = rpc_peer_connected(call->client->manager) });
    }
}

void lock_manager_up(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->locks.requests)
    {
        feed(client,
             (struct lock_holder_event){ .type = LOCKER_CONNECTED,
                                         .request = LIST_ENTRY(node, struct lock_request, node) });
    }
}

void lock_let_go(struct client *client, const struct byte_lock *lock)
{
    feed(client, (struct lock_holder_event){ .type = LOCKER_LET_GO, .lock = *lock });
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
    if (!client_is_ending(check->client)) {
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
        manager_note_unread(client, "that asks for our locks", rv != 0 ? rv : MORSEL_NOMEM);
        free(check);
    } else {
        check->client = client;
        check->number = m->number;
        check->wait.released = true;
        check->wait.done = on_caught_up;
        kernel_catch_up(client, &check->wait);
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
    size_t room = byte_locks_count(client->locks.locks) + 1;
    struct filling f = { request, malloc(room * sizeof(Morsel__Lock)) };

    request->locks = calloc(room, sizeof(void *));
    if (f.items == NULL || request->locks == NULL) {
        free(f.items);
        free(request->locks);
        request->locks = NULL;
        return false;
    }
    request->locks[0] = f.items; /* To be freed, also when there are none. */
    byte_locks_each(client->locks.locks, fill_one, &f);
    return true;
}

void lock_session_free(Morsel__SessionRequest *request)
{
    if (request->locks != NULL) {
        free(request->locks[0]);
        free(request->locks);
    }
}

bool lock_has(const struct client *client, inode_id inode, enum lock_kind kind, uint64_t owner)
{
    return lock_holder_has(&client->locks, inode, kind, owner);
}

bool lock_of_handle(const struct client *client, const struct handle *handle,
                    struct byte_lock *lock)
{
    return lock_holder_of_handle(&client->locks, handle, lock);
}

void lock_forget_handle(struct client *client, const struct handle *handle)
{
    lock_holder_forget_handle(&client->locks, handle);
}

uint32_t lock_count(const struct client *client)
{
    return byte_locks_count(client->locks.locks);
}

void lock_each(const struct client *client, void (*each)(void *data, const struct byte_lock *lock),
               void *data)
{
    byte_locks_each(client->locks.locks, each, data);
}

void lock_lose_all(struct client *client)
{
    feed(client, (struct lock_holder_event){ .type = LOCKER_LOST });
}
