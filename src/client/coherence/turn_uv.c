/* Holds, their users, and the moment in which they are let go. */
#include "client/coherence/turn_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/session_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

struct turn_hold
{
    struct client *client;
    struct list node;    /* In client->turn_holds. */
    struct list waiting; /* struct turn, until the manager has answered. */
    struct lock_call call;
    struct byte_lock lock;
    unsigned users;
    uint64_t idle_since_ms;
    uint64_t size; /* Of the file, at least; as the manager said since it gave us the turn. */
    bool had;
    bool lost;
    bool joinable;     /* In client->turns. */
    UT_hash_handle hh; /* By lock.inode. */
};

static void hold_free(struct turn_hold *hold)
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
    hold_free(CONTAINER_OF(call, struct turn_hold, call));
}

/* Nobody here uses it, and nobody can join. Without memory the next tick tries again. */
static void release(struct turn_hold *hold)
{
    struct byte_lock none = hold->lock;

    none.type = LOCK_NONE;
    hold->had = lock_start(&hold->call, hold->client, NULL, &none, LOCK_TRY, on_released) != 0;
}

/* What was written under it and has no end that we know of may still land: then the next tick looks
 * again. */
static void settle(struct turn_hold *hold)
{
    if (hold->had && hold->users == 0 && !hold->joinable &&
        (hold->lost || lease_holder_is_sure(&hold->client->holder, rpc_boot_ns()))) {
        release(hold);
    }
}

static void stop_joining(struct turn_hold *hold)
{
    if (hold->joinable) {
        HASH_DEL(hold->client->turns, hold);
        hold->joinable = false;
    }
}

static struct turn_hold *find(const struct client *client, inode_id inode)
{
    struct turn_hold *hold;

    HASH_FIND(hh, client->turns, &inode, sizeof(inode), hold);
    return hold;
}

void turn_let_go(struct client *client, inode_id inode)
{
    struct turn_hold *hold = find(client, inode);

    if (hold != NULL) {
        stop_joining(hold);
        settle(hold);
    }
}

static void on_asked(struct lock_call *call, int status, enum lock_answer answer,
                     const struct byte_lock *conflict)
{
    struct turn_hold *hold = CONTAINER_OF(call, struct turn_hold, call);

    (void)conflict;
    if (status == 0 && answer != LOCK_HAD) {
        status = answer == LOCK_NO_ROOM ? MORSEL_NOLCK : MORSEL_CANCELED;
    }
    hold->had = status == 0;
    if (status != 0 || call->waited) {
        stop_joining(hold);
    }
    hold->users++; /* Ours, until all have heard. */
    while (!list_empty(&hold->waiting)) {
        struct turn *turn = LIST_ENTRY(list_pop_front(&hold->waiting), struct turn, node);

        turn->had = status == 0;
        turn->hold = turn->had ? hold : NULL;
        hold->users += turn->had;
        turn->done(turn, status);
    }
    hold->users--;
    hold->idle_since_ms = uv_now(hold->client->loop);
    if (status != 0) {
        hold_free(hold);
    } else {
        settle(hold);
    }
}

static struct turn_hold *hold_new(struct client *client, inode_id inode, enum lock_type type,
                                  int *status)
{
    struct turn_hold *hold = calloc(1, sizeof(*hold));

    if (hold == NULL) {
        *status = MORSEL_NOMEM;
        return NULL;
    }
    hold->client = client;
    hold->lock = (struct byte_lock){ .inode = inode,
                                     .kind = LOCK_APPEND,
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
    list_push_back(&client->turn_holds, &hold->node);
    if (type == LOCK_SHARED && HASH_COUNT(client->turns) < TURNS_JOINABLE_MAX) {
        HASH_ADD(hh, client->turns, lock.inode, sizeof(hold->lock.inode), hold);
        hold->joinable = TABLE_ADDED(hold);
    }
    return hold;
}

/* Who writes under it has a term: without one the manager may have given the turn to others. */
static struct turn_hold *find_good(struct client *client, inode_id inode)
{
    struct turn_hold *hold = find(client, inode);

    if (hold != NULL && hold->had && !client_lease_valid(client)) {
        turn_let_go(client, inode);
        hold = NULL;
    }
    return hold;
}

void turn_take(struct turn *turn, struct client *client, inode_id inode, enum lock_type type,
               void (*done)(struct turn *turn, int status))
{
    struct turn_hold *hold = NULL;
    int status = MORSEL_OK;

    if (type == LOCK_SHARED) {
        hold = find_good(client, inode);
    } else {
        turn_let_go(client, inode);
    }
    if (hold == NULL) {
        hold = hold_new(client, inode, type, &status);
    }
    turn->done = done;
    turn->hold = hold;
    turn->had = hold != NULL && hold->had;
    list_init(&turn->node);
    if (hold == NULL) {
        done(turn, status);
    } else if (hold->had) {
        hold->users++;
        done(turn, MORSEL_OK);
    } else {
        list_push_back(&hold->waiting, &turn->node);
    }
}

bool turn_join(struct turn *turn, struct client *client, inode_id inode, uint64_t end,
               uint64_t *size)
{
    struct turn_hold *hold = find_good(client, inode);

    if (hold == NULL || !hold->had || end > hold->size) {
        return false;
    }
    hold->users++;
    turn->hold = hold;
    turn->had = true;
    *size = hold->size;
    return true;
}

void turn_note_size(struct client *client, inode_id inode, uint64_t size)
{
    struct turn_hold *hold = find(client, inode);

    if (hold != NULL && hold->had && size > hold->size) {
        hold->size = size;
    }
}

void turn_cancel(struct turn *turn)
{
    struct turn_hold *hold = turn->hold;

    if (hold == NULL || turn->had) {
        return;
    }
    list_remove(&turn->node);
    turn->hold = NULL;
    if (list_empty(&hold->waiting)) {
        stop_joining(hold);
        lock_cancel(&hold->call);
    }
    turn->done(turn, MORSEL_CANCELED);
}

bool turn_is_good(const struct turn *turn)
{
    return turn->had && !turn->hold->lost;
}

void turn_move(struct turn *to, struct turn *from)
{
    CHECK(from->had && !to->had);
    *to = (struct turn){ .hold = from->hold, .had = true };
    list_init(&to->node);
    from->hold = NULL;
    from->had = false;
}

void turn_end(struct turn *turn)
{
    struct turn_hold *hold = turn->hold;

    if (!turn->had) {
        return;
    }
    turn->had = false;
    turn->hold = NULL;
    CHECK(hold->users > 0);
    hold->users--;
    hold->idle_since_ms = uv_now(hold->client->loop);
    settle(hold);
}

void turn_on_push(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__TurnWanted *wanted;
    int rv =
        rpc_unpack_in(&room, &morsel__turn_wanted__descriptor, body, body_count, (void **)&wanted);

    if (rv != 0) {
        session_note_unread(client, "that somebody waits for a turn", rv);
        if (rv == MORSEL_NOMEM) {
            rpc_peer_break(client->manager); /* With a new connection all turns are given back. */
        }
        return;
    }
    turn_let_go(client, wanted->inode);
    rpc_room_free(&room, wanted);
}

void turn_forget_all(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->turn_holds)
    {
        struct turn_hold *hold = LIST_ENTRY(node, struct turn_hold, node);

        if (hold->had) {
            stop_joining(hold);
            settle(hold);
        }
    }
}

/* What was written in a turn must not land in that of another one. */
void turn_lose_all(struct client *client)
{
    struct file *file, *next;

    LIST_FOREACH(node, &client->turn_holds)
    {
        struct turn_hold *hold = LIST_ENTRY(node, struct turn_hold, node);

        hold->lost = hold->had;
    }
    HASH_ITER(hh, client->files, file, next)
    {
        if (file_is_shared(file) && file_is_ahead(file)) {
            file_lose(file);
        }
    }
    turn_forget_all(client);
}

void turn_tick(struct client *client)
{
    uint64_t now_ms = uv_now(client->loop);

    LIST_FOREACH_SAFE(node, &client->turn_holds)
    {
        struct turn_hold *hold = LIST_ENTRY(node, struct turn_hold, node);

        if (hold->had && hold->users == 0 && now_ms >= hold->idle_since_ms + TURN_KEPT_MS) {
            stop_joining(hold);
        }
        settle(hold);
    }
}

void turn_client_close(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->turn_holds)
    {
        struct turn_hold *hold = LIST_ENTRY(node, struct turn_hold, node);

        stop_joining(hold);
        hold_free(hold);
    }
}
