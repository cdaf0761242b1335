/* The host of the size lock's core: its locks at the manager, and who has lost one. */
#include "client/coherence/size_lock_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/manager/unread_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

/* What a hold needs here. */
struct size_lock_work
{
    struct size_hold hold;
    struct client *client;
    struct lock_call call;
};

static struct size_lock_work *work_of(struct size_hold *hold)
{
    return CONTAINER_OF(hold, struct size_lock_work, hold);
}

static void feed(struct client *client, struct size_lock_event event);

/* ---- Actions ---- */

static struct byte_lock lock_of(const struct size_hold *hold, enum lock_type type)
{
    return (struct byte_lock){ .inode = hold->inode,
                               .kind = LOCK_SIZE,
                               .owner = { 0, hold->owner },
                               .type = type,
                               .end = INT64_MAX };
}

static void give_room(struct client *client, const struct size_lock_event *event)
{
    struct size_lock_work *work = calloc(1, sizeof(*work));
    struct size_lock_event room = *event;

    room.type = SIZE_ROOM;
    if (work != NULL) {
        work->client = client;
        room.hold = &work->hold;
    }
    feed(client, room);
}

static void on_asked(struct lock_call *call, int status, enum lock_answer answer,
                     const struct byte_lock *conflict)
{
    struct size_lock_work *work = CONTAINER_OF(call, struct size_lock_work, call);

    (void)conflict;
    if (status == 0 && answer != LOCK_GRANTED) {
        status = answer == LOCK_LIMIT ? MORSEL_NOLCK : MORSEL_CANCELED;
    }
    feed(work->client, (struct size_lock_event){ .type = SIZE_ANSWERED,
                                                 .hold = &work->hold,
                                                 .status = status,
                                                 .waited = call->request.waited });
}

static void ask(struct client *client, struct size_hold *hold)
{
    struct byte_lock lock = lock_of(hold, hold->type);
    int rv = lock_start(&work_of(hold)->call, client, NULL, &lock, LOCK_WAIT, on_asked);

    if (rv != 0) {
        feed(client, (struct size_lock_event){ .type = SIZE_UNASKED, .hold = hold, .status = rv });
    }
}

static void tell_all(struct client *client, struct size_hold *hold)
{
    struct size_lock *user;

    while ((user = size_locks_next(hold)) != NULL) {
        user->done(user, hold->status);
    }
    feed(client, (struct size_lock_event){ .type = SIZE_TOLD, .hold = hold });
}

static void on_released(struct lock_call *call, int status, enum lock_answer answer,
                        const struct byte_lock *conflict)
{
    struct size_lock_work *work = CONTAINER_OF(call, struct size_lock_work, call);

    (void)status; /* We know what we hold, and say so in the next SESSION. */
    (void)answer;
    (void)conflict;
    feed(work->client, (struct size_lock_event){ .type = SIZE_RELEASED, .hold = &work->hold });
}

static void release(struct client *client, struct size_hold *hold)
{
    struct byte_lock none = lock_of(hold, LOCK_NONE);

    if (lock_start(&work_of(hold)->call, client, NULL, &none, LOCK_TRY, on_released) == 0) {
        feed(client, (struct size_lock_event){ .type = SIZE_SAID, .hold = hold });
    }
}

static void carry_out(struct client *client, const struct size_lock_event *event,
                      const struct size_lock_action *action)
{
    switch (action->type) {
    case SIZE_NEED:
        give_room(client, event);
        break;
    case SIZE_ASK:
        ask(client, action->hold);
        break;
    case SIZE_GIVE_UP:
        lock_cancel(&work_of(action->hold)->call);
        break;
    case SIZE_TELL:
        tell_all(client, action->hold);
        break;
    case SIZE_DONE:
        action->user->done(action->user, action->status);
        break;
    case SIZE_RELEASE:
        release(client, action->hold);
        break;
    case SIZE_FREE:
        free(work_of(action->hold));
        break;
    }
}

static void feed(struct client *client, struct size_lock_event event)
{
    struct size_lock_actions out = { .count = 0 };

    event.now_ms = uv_now(client->loop);
    event.sure = lease_is_sure(client);
    size_locks_step(&client->size_locks, &event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(client, &event, &out.items[i]);
    }
}

static void feed_each(struct client *client, enum size_lock_event_type type)
{
    LIST_FOREACH_SAFE(node, &client->size_locks.holds)
    {
        feed(client, (struct size_lock_event){ .type = type,
                                               .hold = LIST_ENTRY(node, struct size_hold, node) });
    }
}

/* ---- Events ---- */

void size_lock_take(struct size_lock *size_lock, struct client *client, inode_id inode,
                    enum lock_type type, void (*done)(struct size_lock *size_lock, int status))
{
    size_lock->done = done;
    feed(client, (struct size_lock_event){ .type = SIZE_TAKE,
                                           .user = size_lock,
                                           .inode = inode,
                                           .lock_type = type,
                                           .valid = client_lease_valid(client) });
}

bool size_lock_join(struct size_lock *size_lock, struct client *client, inode_id inode,
                    uint64_t end, uint64_t *size)
{
    feed(client, (struct size_lock_event){ .type = SIZE_JOIN,
                                           .user = size_lock,
                                           .inode = inode,
                                           .end = end,
                                           .valid = client_lease_valid(client) });
    if (size_lock->granted) {
        *size = size_lock->hold->size;
    }
    return size_lock->granted;
}

void size_lock_cancel(struct size_lock *size_lock)
{
    if (size_lock->hold != NULL) {
        feed(work_of(size_lock->hold)->client,
             (struct size_lock_event){ .type = SIZE_CANCEL, .user = size_lock });
    }
}

void size_lock_end(struct size_lock *size_lock)
{
    if (size_lock->granted) {
        feed(work_of(size_lock->hold)->client,
             (struct size_lock_event){ .type = SIZE_END, .user = size_lock });
    }
}

void size_lock_let_go(struct client *client, inode_id inode)
{
    if (client->size_locks.joinable != NULL) {
        feed(client, (struct size_lock_event){ .type = SIZE_LET_GO, .inode = inode });
    }
}

void size_lock_on_push(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__LockRevoke *wanted;
    int rv =
        rpc_unpack_in(&room, &morsel__lock_revoke__descriptor, body, body_count, (void **)&wanted);

    if (rv != 0) {
        manager_note_unread(client, "that somebody waits for a size lock", rv);
        if (rv == MORSEL_NOMEM) {
            rpc_peer_break(
                client->manager); /* With a new connection all size locks are given back. */
        }
        return;
    }
    size_lock_let_go(client, wanted->inode);
    rpc_room_free(&room, wanted);
}

void size_lock_forget_all(struct client *client)
{
    feed_each(client, SIZE_LET_GO_OF);
}

void size_lock_note_size(struct client *client, inode_id inode, uint64_t size)
{
    size_locks_note_size(&client->size_locks, inode, size);
}

void size_lock_lose_all(struct client *client)
{
    feed_each(client, SIZE_LOSE);
}

void size_lock_tick(struct client *client)
{
    feed_each(client, SIZE_TICK);
}

void size_lock_client_close(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->size_locks.holds)
    {
        struct size_hold *hold = LIST_ENTRY(node, struct size_hold, node);

        size_locks_abandon(&client->size_locks, hold);
        free(work_of(hold));
    }
}
