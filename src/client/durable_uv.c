#include "client/durable_uv.h"

#include "client/data_versions.h"
#include "client/lease_uv.h"
#include "common/status.h"
#include "data.pb-c.h"

#include <stdio.h>

static uint64_t verifier_of(const struct rpc_reply *reply)
{
    Morsel__Done *done = rpc_unpack(&morsel__done__descriptor, reply->body, reply->body_count);
    uint64_t verifier = done != NULL ? done->verifier : 0;

    if (done != NULL) {
        morsel__done__free_unpacked(done, NULL);
    }
    return verifier;
}

void durable_lost(struct file *file, const char *why)
{
    struct client *client = file->client;

    log_error(client->options.log,
              "inode %lu: bytes that were written and not synced may be lost: %s; whoever has it "
              "open is told EIO",
              (unsigned long)file->inode, why);
    LIST_FOREACH(node, &file->handles)
    {
        LIST_ENTRY(node, struct handle, node)->lost = true;
    }
    file->loss_untold = true;
    file_forget(file, 0, UINT64_MAX);
    lease_kernel_drop(client, file->inode);
}

/* Every file that has acknowledged bytes on the server, and not on its disk. */
static void server_lost(struct client *client, const struct client_server *server)
{
    struct file *file, *next;
    char why[96];

    (void)snprintf(why, sizeof(why), "server %u (%s) lost its power, or its disk failed",
                   server->id, rpc_peer_address(server->peer));
    data_version_forget_all(client->versions); /* What the kernel kept of closed files. */
    HASH_ITER(hh, client->files, file, next)
    {
        bool lost = false;

        for (uint32_t i = 0; i < file->stripe.width; i++) {
            lost |= file->servers[i] == server->id &&
                    unsynced_acked(file->unsynced, i, server->verifier, true);
        }
        if (lost) {
            durable_lost(file, why);
        }
    }
}

static uint64_t note_verifier(struct file *file, uint32_t column, const struct rpc_reply *reply)
{
    uint64_t verifier = verifier_of(reply);
    struct client_server *server;
    server_id id = file->servers[column];

    HASH_FIND(hh, file->client->servers, &id, sizeof(id), server);
    if (server != NULL && verifier != 0 && server->verifier != verifier) {
        bool known = server->verifier != 0;

        server->verifier = verifier;
        if (known) {
            server_lost(file->client, server);
        }
    }
    return verifier;
}

void durable_acked(struct file *file, uint32_t column, const struct rpc_reply *reply, bool durable)
{
    uint64_t verifier = note_verifier(file, column, reply);

    /* Whoever it concerns has been told already. */
    (void)unsynced_acked(file->unsynced, column, verifier, durable);
}

uint64_t durable_synced(struct file *file, uint32_t column, uint64_t mark,
                        const struct rpc_reply *reply)
{
    uint64_t verifier = note_verifier(file, column, reply);

    (void)unsynced_synced(file->unsynced, column, mark, verifier);
    return verifier;
}

int durable_take_loss(struct handle *handle)
{
    bool lost = handle->lost;

    handle->lost = false;
    if (lost) {
        handle->file->loss_untold = false;
    }
    return lost ? MORSEL_IO : 0;
}
