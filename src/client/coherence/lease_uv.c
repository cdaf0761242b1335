/* Lease periods, what replies grant, and what is given back: the host's half. */
#include "client/coherence/lease_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/recall_uv.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/behind_uv.h"
#include "client/manager/session_uv.h"
#include "common/base/status.h"
#include "common/fs/byte_locks.h"

#include <stdlib.h>

enum {
    REOPEN_MS = 1000,     /* A file that is open without its lease asks again so often */
    REOPENS_MAX = 64,     /* Of them, in one go */
    OPENED_TELL_MS = 1000 /* A local open is told so soon */
};

/* ---- The core and its actions ---- */

static void carry_out(struct client *client, const struct lease_holder_action *action)
{
    switch (action->type) {
    case HOLDER_JOIN:
        session_join(client, action->number);
        break;
    case HOLDER_RENEW:
        session_renew(client);
        break;
    case HOLDER_PERIOD_OVER:
        log_warning(
            client->options.log,
            "manager %s has not answered for %u ms: nothing is cached, and nothing written to the "
            "servers, until it does",
            rpc_peer_address(client->manager), lease_holder_lease_period_ms(&client->holder));
        break;
    case HOLDER_FORGET_ALL:
        if (client->options.cache) {
            kernel_drop_all(client);
        }
        break;
    case HOLDER_BREAK:
        rpc_peer_break(client->manager);
        break;
    default:
        recall_carry_out(client, action);
    }
}

void lease_feed(struct client *client, struct lease_holder_event *event)
{
    struct lease_holder_actions out = { .count = 0 };

    event->now_ns = rpc_boot_ns();
    event->now_ms = uv_now(client->loop);
    lease_holder_step(&client->holder, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(client, &out.items[i]);
    }
}

void lease_refused(struct client *client)
{
    struct lease_holder_event event = { .type = HOLDER_REFUSED };

    lease_feed(client, &event);
}

void lease_unsure(struct client *client)
{
    struct lease_holder_event event = { .type = HOLDER_UNSURE };

    lease_feed(client, &event);
}

/* ---- What is good right now ---- */

bool client_lease_valid(const struct client *client)
{
    return lease_holder_left_ns(&client->holder, rpc_boot_ns()) > 0;
}

uint32_t client_lease_left_ms(const struct client *client)
{
    return (uint32_t)(lease_holder_left_ns(&client->holder, rpc_boot_ns()) / 1000000);
}

enum lease_mode client_lease(const struct client *client, inode_id inode)
{
    return client_lease_valid(client) ? meta_cache_mode(client->cache, inode) : LEASE_NONE;
}

/* ---- What replies say ---- */

static void learn(struct client *client, const Morsel__Attr *attr, uint32_t said,
                  const Morsel__Layout *layout)
{
    struct file *file;
    enum lease_mode mode;

    if (attr == NULL) {
        return;
    }
    mode = lease_holder_learned(&client->holder, attr->inode,
                                meta_cache_mode(client->cache, attr->inode),
                                said > LEASE_W ? LEASE_NONE : (enum lease_mode)said);
    meta_cache_learn(client->cache, attr, mode, layout);
    if (mode != LEASE_NONE) {
        size_lock_let_go(client, attr->inode);
    }
    /* A file that was shared may be ours again from here on: its size must be that of now. */
    file = file_find(client, attr->inode);
    if (file != NULL) {
        file_refresh(file, attr);
    }
}

static void learn_removed(struct client *client, const Morsel__Removed *removed)
{
    if (removed->deleted) {
        meta_cache_drop(client->cache, removed->inode, LEASE_NONE);
    }
    learn(client, removed->parent, removed->parent_lease, NULL);
    learn(client, removed->new_parent, removed->new_parent_lease, NULL);
    learn(client, removed->moved, removed->moved_lease, NULL);
    learn(client, removed->other, removed->other_lease, NULL);
}

static void learn_page(struct client *client, const Morsel__ReaddirReply *page)
{
    learn(client, page->attr, page->lease, NULL);
    for (size_t i = 0; i < page->n_entries; i++) {
        learn(client, page->entries[i]->attr, page->entries[i]->lease, NULL);
    }
}

void lease_learn(struct client *client, const ProtobufCMessageDescriptor *type, const void *message)
{
    if (!client->options.cache) {
        return;
    }
    if (type == &morsel__node__descriptor) {
        const Morsel__Node *node = message;

        learn(client, node->parent, node->parent_lease, NULL);
        learn(client, node->attr, node->lease, node->layout);
    } else if (type == &morsel__removed__descriptor) {
        learn_removed(client, message);
    } else if (type == &morsel__readdir_reply__descriptor) {
        learn_page(client, message);
    }
    recalls_give_back_evicted(client);
}

/* ---- SESSION ---- */

struct held_lists
{
    struct client *client;
    Morsel__SessionRequest *request;
    size_t room;
};

static void list_one(void *data, inode_id inode, enum lease_mode mode)
{
    struct held_lists *lists = data;
    Morsel__SessionRequest *request = lists->request;

    mode = lease_holder_named(&lists->client->holder, inode, mode);
    if (request->n_held_read + request->n_held_write >= lists->room) {
        return;
    }
    if (mode == LEASE_W) {
        request->held_write[request->n_held_write++] = inode;
    } else {
        request->held_read[request->n_held_read++] = inode;
    }
}

bool lease_session_fill(struct client *client, Morsel__SessionRequest *request)
{
    struct meta_cache_counters counters;
    struct held_lists lists = { .client = client, .request = request };

    meta_cache_count(client->cache, &counters);
    lists.room = counters.inodes + CLIENT_RECALLS_MAX;
    request->cache = client->options.cache;
    request->knows_lease_ms = true;
    request->held_read = malloc(lists.room * sizeof(uint64_t));
    request->held_write = malloc(lists.room * sizeof(uint64_t));
    if (request->held_read == NULL || request->held_write == NULL) {
        return false;
    }
    meta_cache_each(client->cache, list_one, &lists);
    if (byte_locks_count(client->locks.locks) > 0) {
        list_one(&lists, INODE_LOCKS, LEASE_R);
    }
    LIST_FOREACH(node, &client->holder.returns)
    {
        const struct lease_return *back = LIST_ENTRY(node, struct lease_return, node);

        if (lease_return_is_named_alone(back)) {
            list_one(&lists, back->inode, back->had);
        }
    }
    return true;
}

static void lose(struct client *client, inode_id inode)
{
    struct lease_holder_event event = { .type = HOLDER_LOST, .inode = inode };

    lease_feed(client, &event);
    meta_cache_drop(client->cache, inode, LEASE_NONE);
    kernel_drop_quietly(client, inode, true, 0);
}

bool lease_is_for_writing(const struct client *client, inode_id inode)
{
    return lease_holder_named(&client->holder, inode, meta_cache_mode(client->cache, inode)) ==
           LEASE_W;
}

/* What is dirty under a lease that is gone must not be written any more: others may have
 * written since. */
static void lose_held_back(struct client *client)
{
    struct file *file, *next;

    HASH_ITER(hh, client->files, file, next)
    {
        if (file->held_back && file_is_ahead(file) && !lease_is_for_writing(client, file->inode)) {
            file_lose(file);
        }
    }
    behind_lose(client);
}

static void forget_one(void *data, inode_id inode, enum lease_mode mode)
{
    struct client *client = data;
    const struct file *file = file_find(client, inode);

    if (mode == LEASE_W && file != NULL && file_is_ahead(file)) {
        meta_cache_forget_attr(client->cache, inode); /* Its bytes are still to go out. */
    } else {
        lose(client, inode);
    }
}

void lease_forget_all(struct client *client)
{
    meta_cache_each(client->cache, forget_one, client);
    kernel_drop_quietly(client, INODE_NONE, true, 0);
}

void lease_session_answered(struct client *client, const Morsel__SessionReply *reply)
{
    for (size_t i = 0; i < reply->n_lost; i++) {
        if (reply->lost[i] != INODE_LOCKS) {
            lose(client, reply->lost[i]);
        }
    }
    if (reply->n_lost > 0) {
        log_warning(client->options.log, "%zu leases were lost while manager %s did not hear us",
                    reply->n_lost, rpc_peer_address(client->manager));
        kernel_drop_quietly(client, INODE_NONE, true, 0);
    }
    lose_held_back(client);
}

/* ---- Open files ---- */

void lease_tell_opened(struct client *client)
{
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    uint64_t inodes[FILES_TELL_MAX];

    while (!list_empty(&client->untold)) {
        request.n_opened = 0;
        request.opened = inodes;
        while (!list_empty(&client->untold) && request.n_opened < FILES_TELL_MAX) {
            struct file *file =
                LIST_ENTRY(list_pop_front(&client->untold), struct file, untold_node);

            file->told = true;
            inodes[request.n_opened++] = file->inode;
        }
        rpc_send_oneway(client->manager, MSG_RETURN, &request.base);
    }
}

struct reopen
{
    struct meta_call call;
    struct client *client;
    struct file *file;
};

/* Reads of a shared file come to us; what is mapped of it is to be fresh within a second. A
 * notification between the kernel's question for the size and our answer makes it pass the answer
 * over, and read up to its old size: then the next tick tries again. */
static void freshen_pages(struct file *file)
{
    if (file->kernel_asks == 0) {
        file->pages_old = file_is_shared(file);
        kernel_drop_quietly(file->client, file->inode, false, file->size);
    }
}

static void on_reopened(struct meta_call *call, int status, void *message)
{
    struct reopen *reopen = CONTAINER_OF(call, struct reopen, call);
    const Morsel__Node *node = message;
    struct file *file = reopen->file;

    file->reopening = false;
    if (status == 0 && node->attr != NULL) {
        file_refresh(file, node->attr); /* The lease is in the table already. */
    }
    freshen_pages(file);
    file_unpin(file);
    free(reopen);
}

static bool reopen(struct client *client, struct file *file)
{
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    struct reopen *reopen = calloc(1, sizeof(*reopen));

    if (reopen == NULL) {
        return false;
    }
    request.inode = file->inode;
    request.write = file_has_writer(file);
    reopen->client = client;
    reopen->file = file;
    if (meta_call_start(&reopen->call, client, MSG_OPEN, &request.base, &morsel__node__descriptor,
                        on_reopened) != 0) {
        free(reopen);
        return false;
    }
    file->reopening = true;
    file->told = true;
    list_remove(&file->untold_node);
    file_pin(file);
    return true;
}

/* Files that are shared: perhaps they are not any more. */
static void look_after_shared(struct client *client)
{
    struct file *file, *next;
    unsigned count = 0;

    HASH_ITER(hh, client->files, file, next)
    {
        file->pages_old |= file_is_shared(file);
        if (list_empty(&file->handles) || !file->pages_old || file->reopening) {
            continue;
        }
        if (!file_is_shared(file) || !client->options.cache ||
            lease_holder_returning(&client->holder, file->inode) != NULL ||
            !client_lease_valid(client) || ++count > REOPENS_MAX || !reopen(client, file)) {
            freshen_pages(file);
        }
    }
}

void lease_on_held_up(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__HeldUp *notice;
    int rv = rpc_unpack_in(&room, &morsel__held_up__descriptor, body, body_count, (void **)&notice);

    if (rv != 0) {
        session_note_unread(client, "about who holds us up", rv);
        return;
    }
    log_warning(client->options.log,
                "inode %lu: we wait for the mount at %s, which still writes back what it holds of "
                "it (%lu bytes so far)",
                (unsigned long)notice->inode, notice->holder, (unsigned long)notice->landed);
    client->counters.held_up++;
    rpc_room_free(&room, notice);
}

void lease_tick(struct client *client)
{
    struct lease_holder_event event = { .type = HOLDER_TICK };
    uint64_t now_ms = uv_now(client->loop);

    kernel_drop_owed(client);
    recalls_settle(client);
    recalls_tell_busy(client);
    lease_feed(client, &event);
    if (now_ms >= client->shared_due_ms) {
        client->shared_due_ms = now_ms + REOPEN_MS;
        look_after_shared(client);
        lease_tell_opened(client);
    }
}

void lease_close(struct client *client)
{
    kernel_drops_close(client);
    CHECK(list_empty(&client->untold));
    recalls_close(client);
    meta_cache_free(client->cache);
}
