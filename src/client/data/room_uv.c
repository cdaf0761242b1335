/* Chunks go out as the link to their server takes them. */
#include "client/data/chunk_uv.h"

#include <stdlib.h>

/* What is behind the first `bytes` becomes a chunk of its own. False: no memory. */
static bool chunk_split(struct chunk *chunk, uint64_t bytes)
{
    struct chunk *rest = calloc(1, sizeof(*rest));
    struct file *file = chunk->file;

    if (rest == NULL) {
        return false;
    }
    rest->file = file;
    rest->state = chunk->state;
    rest->offset = chunk->offset + bytes;
    rest->length = chunk->length - bytes;
    rest->run = stripe_run_at(file_stripe(file), rest->offset, UINT64_MAX - rest->offset);
    rest->payload = payload_ref(chunk->payload);
    rest->payload_offset = chunk->payload_offset + bytes;
    rest->born_ms = chunk->born_ms;
    rest->shared = chunk->shared;
    rest->number = chunk->number; /* Who waits for one waits for both. */
    list_init(&rest->node);
    list_push_front(&chunk->node, &rest->node); /* Behind it. */
    file_pin(file);
    chunk->length = bytes;
    chunk->sync = false; /* Better synced once, when all pieces are there. */
    return true;
}

bool chunk_take_room(struct chunk *chunk)
{
    struct file *file = chunk->file;
    struct client *client = file->client;
    struct rpc_peer *peer = column_peer(&file->columns, chunk->run.column, COLUMN_CHANGE);
    uint64_t bytes;

    if (file_is_scavenged(file)) {
        return scavenged_has_room(file);
    }
    if (peer == NULL) {
        return true; /* It is going to fail. */
    }
    if (!rpc_peer_has_room(peer)) {
        if (list_empty(&file->buffer.room_node)) {
            list_push_back(&client->data.buffers->room_waiting, &file->buffer.room_node);
        }
        return false;
    }
    /* Up to the end of a block, so that no block is written in two parts. */
    bytes = rpc_peer_frame_bytes(peer) - chunk->run.object_offset % BLOCK_BYTES;
    return chunk->length <= bytes || chunk_split(chunk, bytes);
}

void room_made(struct client *client, struct rpc_peer *peer)
{
    struct list waiting;

    /* Those who find no room again queue up behind: each has its turn. */
    list_init(&waiting);
    while (!list_empty(&client->data.buffers->room_waiting)) {
        list_push_back(&waiting, list_pop_front(&client->data.buffers->room_waiting));
    }
    while (!list_empty(&waiting) && rpc_peer_has_room(peer)) {
        struct file *file = LIST_ENTRY(list_pop_front(&waiting), struct file, buffer.room_node);

        file_pin(file);
        file_send(file);
        file_unpin(file);
    }
    while (!list_empty(&waiting)) {
        struct list *last = waiting.prev;

        list_remove(last);
        list_push_front(&client->data.buffers->room_waiting, last);
    }
}
