/* Says what is held, and loses what is lost (held_uv.h). */
#include "client/coherence/held_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/coherence/opened_uv.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

/* ---- What SESSION says ---- */

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

    mode = lease_named(lists->client, inode, mode);
    if (request->n_held_read + request->n_held_write >= lists->room) {
        return;
    }
    if (mode == LEASE_W) {
        request->held_write[request->n_held_write++] = inode;
    } else {
        request->held_read[request->n_held_read++] = inode;
    }
}

static void list_return(void *data, struct lease_return *back)
{
    if (lease_return_is_named_alone(back)) {
        list_one(data, back->inode, back->granted);
    }
}

static bool fill_leases(struct client *client, Morsel__SessionRequest *request)
{
    struct meta_cache_counters counters;
    struct held_lists lists = { .client = client, .request = request };

    meta_cache_count(client->cache, &counters);
    lists.room = counters.inodes + CLIENT_RECALLS_MAX;
    request->cache = client->options.cache;
    request->knows_lease_ms = true;
    request->pauses = true;
    request->held_read = malloc(lists.room * sizeof(uint64_t));
    request->held_write = malloc(lists.room * sizeof(uint64_t));
    if (request->held_read == NULL || request->held_write == NULL) {
        return false;
    }
    meta_cache_each(client->cache, list_one, &lists);
    if (lock_count(client) > 0) {
        list_one(&lists, INODE_LOCKS, LEASE_R);
    }
    lease_each_return(client, list_return, &lists);
    return true;
}

bool held_fill(struct client *client, Morsel__SessionRequest *request)
{
    request->lease_epoch = lease_epoch(client);
    return fill_leases(client, request) && lock_session_fill(client, request) &&
           opened_session_fill(client, request);
}

void held_unfill(Morsel__SessionRequest *request)
{
    lock_session_free(request);
    free(request->held_read);
    free(request->held_write);
    free(request->open_inodes);
    free(request->open_write);
}

/* ---- Leases ---- */

static void lose(struct client *client, inode_id inode)
{
    struct lease_holder_event event = { .type = HOLDER_LOST, .inode = inode };

    lease_feed(client, &event);
    meta_cache_drop(client->cache, inode, LEASE_NONE);
    kernel_drop_quietly(client, inode, true, 0);
}

static void lose_dirty(struct client *client)
{
    FILES_FOREACH(file, client)
    {
        if (file_is_written_back(file) && file_is_dirty(file) &&
            !lease_is_for_writing(client, file->inode)) {
            file_lose(file);
        }
    }
    behind_lose(client);
}

static void forget_one(void *data, inode_id inode, enum lease_mode mode)
{
    struct client *client = data;
    const struct file *file = file_find(client, inode);

    if (mode == LEASE_W && file != NULL && file_is_dirty(file)) {
        meta_cache_forget_attr(client->cache, inode); /* Its bytes are still to go out. */
    } else {
        lose(client, inode);
    }
}

void held_forget_clean(struct client *client)
{
    meta_cache_each(client->cache, forget_one, client);
    kernel_drop_quietly(client, INODE_NONE, true, 0);
}

static void lose_leases(struct client *client, const Morsel__SessionReply *reply)
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
    lose_dirty(client);
}

/* ---- Locks ---- */

static void lose_lock(void *data, const struct byte_lock *lock)
{
    struct client *client = data;
    struct file *file = file_find(client, lock->inode);

    if (file != NULL && lock->kind != LOCK_SIZE) {
        file_fail(file, MORSEL_IO);
    }
}

/* What was written under one size lock must not land under another. */
static void lose_size_locks(struct client *client)
{
    size_lock_lose_all(client);
    FILES_FOREACH(file, client)
    {
        if (file_is_shared(file) && file_is_dirty(file)) {
            file_lose(file);
        }
    }
    size_lock_forget_all(client);
}

static void lose_locks(struct client *client)
{
    if (lock_count(client) > 0) {
        log_error(
            client->options.log,
            "%u locks were lost while manager %s did not hear us: the next write or close of these "
            "files says EIO",
            lock_count(client), rpc_peer_address(client->manager));
        lock_each(client, lose_lock, client);
    }
    lose_size_locks(client);
    lock_lose_all(client);
}

void held_answered(struct client *client, const Morsel__SessionReply *reply)
{
    lose_leases(client, reply);
    if (reply->locks_lost) {
        lose_locks(client);
    }
}

/* ---- Where files lie ---- */

void held_doubt_places(struct client *client)
{
    FILES_FOREACH(file, client)
    {
        if (client_lease(client, file->inode) == LEASE_NONE) {
            file_doubt_place(file);
        }
    }
}

/* ---- The kernel ---- */

void held_drop_all(struct client *client)
{
    FILES_FOREACH(file, client)
    {
        file_forget(file, 0, UINT64_MAX);
        kernel_drop_inode(client, file->inode);
    }
    kernel_drop_quietly(client, INODE_NONE, true, 0);
}
