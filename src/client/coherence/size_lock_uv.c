/* Holds, their users, and the moment in which they are let go. */
#include "client/coherence/size_lock_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/session_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

struct size_lock_hold
{
    struct client *client;
    struct list node;    /* In client->size_lock_holds. */
    struct list waiting; /* struct size_lock, until the manager has answered. */
    struct lock_call call;
    struct byte_lock lock;
    unsigned users;
    uint64_t idle_since_ms;
    uint64_t size; /* Of the file, at least; as the manager said since it gave us the size lock. */
    bool had;
    bool lost;
    bool joinable;     /* In client->size_locks. */
    UT_hash_handle hh; /* By lock.inode. */
};

static void hold_free(struct size_lock_hold *hold)
{
    list_remove(&hold->node);
    free(hold);
}

static void on_released(struct lock_call *call, int status, enum lock_answer answer,
                        const struct byte_lock *conflict)
{
    (void)status; /* We know what we hold, and say so in the next SESSION. */
    (void)answer;
    (void)conflict;
    hold_free(CONTAINER_OF(call, struct size_lock_hold, call));
}

/* Nobody here uses it, and nobody can join. Without memory the next tick tries again. */
static void release(struct size_lock_hold *hold)
{
    struct byte_lock none = hold->lock;

    none.type = LOCK_NONE;
    hold->had = lock_start(&hold->call, hold->client, NULL, &none, LOCK_TRY, on_released) != 0;
}

/* What was written under it and has no end that we know of may still land: then the next tick looks
 * again. */
static void settle(struct size_lock_hold *hold)
{
    if (hold->had && hold->users == 0 && !hold->joinable &&
        (hold->lost || lease_holder_is_sure(&hold->client->holder, rpc_boot_ns()))) {
        release(hold);
    }
}

static void stop_joining(struct size_lock_hold *hold)
{
    if (hold->joinable) {
        HASH_DEL(hold->client->size_locks, hold);
        hold->joinable = false;
    }
}

static struct size_lock_hold *find(const struct client *client, inode_id inode)
{
    struct size_lock_hold *hold;

    HASH_FIND(hh, client->size_locks, &inode, sizeof(inode), hold);
    return hold;
}

void size_lock_let_go(struct client *client, inode_id inode)
{
    struct size_lock_hold *hold = find(client, inode);

    if (hold != NULL) {
        stop_joining(hold);
        settle(hold);
    }
}

static void on_asked(struct lock_call *call, int status, enum lock_answer answer,
                     const struct byte_lock *conflict)
{
    struct size_lock_hold *hold = CONTAINER_OF(call, struct size_lock_hold, call);

    (void)conflict;
    if (status == 0 && answer != LOCK_GRANTED) {
        status = answer == LOCK_LIMIT ? MORSEL_NOLCK : MORSEL_CANCELED;
    }
    hold->had = status == 0;
    if (status != 0 || call->request.waited) {
        stop_joining(hold);
    }
    hold->users++; /* Ours, until all have heard. */
    while (!list_empty(&hold->waiting)) {
        struct size_lock *size_lock =
            LIST_ENTRY(list_pop_front(&hold->waiting), struct size_lock, node);

        size_lock->had = status == 0;
        size_lock->hold = size_lock->had ? hold : NULL;
        hold->users += size_lock->had;
        size_lock->done(size_lock, status);
    }
    hold->users--;
    hold->idle_since_ms = uv_now(hold->client->loop);
    if (status != 0) {
        hold_free(hold);
    } else {
        settle(hold);
    }
}

static struct size_lock_hold *hold_new(struct client *client, inode_id inode, enum lock_type type,
                                       int *status)
{
    struct size_lock_hold *hold = calloc(1, sizeof(*hold));

    if (hold == NULL) {
        *status = MORSEL_NOMEM;
        return NULL;
    }
    hold->client = client;
    hold->lock = (struct byte_lock){ .inode = inode,
                                     .kind = LOCK_SIZE,
                                     .owner = { 0, ++client->last_append },
                                     .type = type,
                                     .end = INT64_MAX };
    list_init(&hold->waiting);
    list_init(&hold->node);
    *status = lock_start(&hold->call, client, NULL, &hold->lock, LOCK_WAIT, on_asked);
    if (*status != 0) {
        free(hold);
        return NULL;
    }
    list_push_back(&client->size_lock_holds, &hold->node);
    if (type == LOCK_SHARED && HASH_COUNT(client->size_locks) < SIZE_LOCKS_JOINABLE_MAX) {
        HASH_ADD(hh, client->size_locks, lock.inode, sizeof(hold->lock.inode), hold);
        hold->joinable = TABLE_ADDED(hold);
    }
    return hold;
}

/* Who writes under it has a lease period: without one the manager may have given the size lock to others. */
static struct size_lock_hold *find_good(struct client *client, inode_id inode)
{
    struct size_lock_hold *hold = find(client, inode);

    if (hold != NULL && hold->had && !client_lease_valid(client)) {
        size_lock_let_go(client, inode);
        hold = NULL;
    }
    return hold;
}

void size_lock_take(struct size_lock *size_lock, struct client *client, inode_id inode,
                    enum lock_type type, void (*done)(struct size_lock *size_lock, int status))
{
    struct size_lock_hold *hold = NULL;
    int status = MORSEL_OK;

    if (type == LOCK_SHARED) {
        hold = find_good(client, inode);
    } else {
        size_lock_let_go(client, inode);
    }
    if (hold == NULL) {
        hold = hold_new(client, inode, type, &status);
    }
    size_lock->done = done;
    size_lock->hold = hold;
    size_lock->had = hold != NULL && hold->had;
    list_init(&size_lock->node);
    if (hold == NULL) {
        done(size_lock, status);
    } else if (hold->had) {
        hold->users++;
        done(size_lock, MORSEL_OK);
    } else {
        list_push_back(&hold->waiting, &size_lock->node);
    }
}

bool size_lock_join(struct size_lock *size_lock, struct client *client, inode_id inode,
                    uint64_t end, uint64_t *size)
{
    struct size_lock_hold *hold = find_good(client, inode);

    if (hold == NULL || !hold->had || end > hold->size) {
        return false;
    }
    hold->users++;
    size_lock->hold = hold;
    size_lock->had = true;
    *size = hold->size;
    return true;
}

void size_lock_note_size(struct client *client, inode_id inode, uint64_t size)
{
    struct size_lock_hold *hold = find(client, inode);

    if (hold != NULL && hold->had && size > hold->size) {
        hold->size = size;
    }
}

void size_lock_cancel(struct size_lock *size_lock)
{
    struct size_lock_hold *hold = size_lock->hold;

    if (hold == NULL || size_lock->had) {
        return;
    }
    list_remove(&size_lock->node);
    size_lock->hold = NULL;
    if (list_empty(&hold->waiting)) {
        stop_joining(hold);
        lock_cancel(&hold->call);
    }
    size_lock->done(size_lock, MORSEL_CANCELED);
}

bool size_lock_is_good(const struct size_lock *size_lock)
{
    return size_lock->had && !size_lock->hold->lost;
}

void size_lock_move(struct size_lock *to, struct size_lock *from)
{
    CHECK(from->had && !to->had);
    *to = (struct size_lock){ .hold = from->hold, .had = true };
    list_init(&to->node);
    from->hold = NULL;
    from->had = false;
}

void size_lock_end(struct size_lock *size_lock)
{
    struct size_lock_hold *hold = size_lock->hold;

    if (!size_lock->had) {
        return;
    }
    size_lock->had = false;
    size_lock->hold = NULL;
    CHECK(hold->users > 0);
    hold->users--;
    hold->idle_since_ms = uv_now(hold->client->loop);
    settle(hold);
}

void size_lock_on_push(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__LockRevoke *wanted;
    int rv =
        rpc_unpack_in(&room, &morsel__lock_revoke__descriptor, body, body_count, (void **)&wanted);

    if (rv != 0) {
        session_note_unread(client, "that somebody waits for a size lock", rv);
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
    LIST_FOREACH_SAFE(node, &client->size_lock_holds)
    {
        struct size_lock_hold *hold = LIST_ENTRY(node, struct size_lock_hold, node);

        if (hold->had) {
            stop_joining(hold);
            settle(hold);
        }
    }
}

/* What was written under one size lock must not land under another. */
void size_lock_lose_all(struct client *client)
{
    struct file *file, *next;

    LIST_FOREACH(node, &client->size_lock_holds)
    {
        struct size_lock_hold *hold = LIST_ENTRY(node, struct size_lock_hold, node);

        hold->lost = hold->had;
    }
    HASH_ITER(hh, client->files, file, next)
    {
        if (file_is_shared(file) && file_is_ahead(file)) {
            file_lose(file);
        }
    }
    size_lock_forget_all(client);
}

void size_lock_tick(struct client *client)
{
    uint64_t now_ms = uv_now(client->loop);

    LIST_FOREACH_SAFE(node, &client->size_lock_holds)
    {
        struct size_lock_hold *hold = LIST_ENTRY(node, struct size_lock_hold, node);

        if (hold->had && hold->users == 0 && now_ms >= hold->idle_since_ms + SIZE_LOCK_KEPT_MS) {
            stop_joining(hold);
        }
        settle(hold);
    }
}

void size_lock_client_close(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->size_lock_holds)
    {
        struct size_lock_hold *hold = LIST_ENTRY(node, struct size_lock_hold, node);

        stop_joining(hold);
        hold_free(hold);
    }
}
