/* Chunks: their way to the servers, and their end (chunk_uv.h). */
#include "client/data/chunk_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>

enum {
    LATE_PART = 8, /* This part of io_timeout is left for what has waited for that long. */
    CHUNK_CRCS_MAX = CHUNK_BYTES_MAX / BLOCK_BYTES + 1
};

bool chunk_overlaps(const struct chunk *c, uint64_t offset, uint64_t length)
{
    return c->offset < offset + length && offset < c->offset + c->length;
}

bool file_range_is_dirty(const struct file *file, uint64_t offset, uint64_t length)
{
    LIST_FOREACH(node, &file->buffer.chunks)
    {
        const struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (chunk_overlaps(chunk, offset, length)) {
            return true;
        }
    }
    return false;
}

bool file_has_chunks(const struct file *file)
{
    return !list_empty(&file->buffer.chunks);
}

void file_dirty_add(struct file *file, uint64_t bytes)
{
    file->buffer.dirty_bytes += bytes;
    file->client->data.buffers->dirty_bytes += bytes;
}

static void dirty_sub(struct file *file, uint64_t bytes)
{
    CHECK(file->buffer.dirty_bytes >= bytes);
    file->buffer.dirty_bytes -= bytes;
    file->client->data.buffers->dirty_bytes -= bytes;
}

/* ---- The end of a chunk ---- */

/* There is room. Those who find none again queue up behind. One of them may make room itself, when
 * chunks fail at once: that is seen to here, not deeper and deeper on the stack. */
static void wake_writers(struct file *file)
{
    struct list woken;

    file->buffer.wake_again = true;
    if (file->buffer.waking) {
        return;
    }
    file->buffer.waking = true;
    list_init(&woken);
    while (file->buffer.wake_again && !list_empty(&file->buffer.writers)) {
        file->buffer.wake_again = false;
        while (!list_empty(&file->buffer.writers)) {
            list_push_back(&woken, list_pop_front(&file->buffer.writers));
        }
        while (!list_empty(&woken)) {
            struct file_write_wait *wait =
                LIST_ENTRY(list_pop_front(&woken), struct file_write_wait, node);

            wait->go(wait);
        }
    }
    file->buffer.waking = file->buffer.wake_again = false;
}

bool file_is_drained(const struct file *file, uint64_t upto)
{
    struct list *first = list_front(&file->buffer.chunks);

    return first == NULL || LIST_ENTRY(first, struct chunk, node)->number > upto;
}

static void wake_drains(struct file *file)
{
    struct list *first;

    while ((first = list_front(&file->buffer.drains)) != NULL &&
           file_is_drained(file, LIST_ENTRY(first, struct file_drain, node)->upto)) {
        struct file_drain *drain = LIST_ENTRY(first, struct file_drain, node);

        list_remove(first);
        drain->done(drain);
    }
}

static uint64_t dirty_of(const struct chunk *chunk)
{
    return chunk->range != NULL ? 0 : chunk->length;
}

static void chunk_free(struct chunk *chunk)
{
    struct file *file = chunk->file;

    list_remove(&chunk->node);
    file_note_landed(file);
    payload_drop(chunk->payload);
    free(chunk->range);
    free(chunk);
}

static void chunk_discard(struct chunk *chunk)
{
    struct file *file = chunk->file;

    file->buffer.filling -= chunk->state == CHUNK_FILLING;
    dirty_sub(file, dirty_of(chunk));
    chunk_free(chunk);
    file_unpin(file);
}

void chunk_trim(struct chunk *chunk, uint64_t from)
{
    if (chunk->range == NULL && chunk->offset < from) {
        dirty_sub(chunk->file, chunk->offset + chunk->length - from);
        chunk->length = from - chunk->offset;
    } else {
        chunk_discard(chunk);
    }
}

void file_chunks_changed(struct file *file)
{
    file_pin(file);
    file_send(file);
    wake_writers(file);
    wake_drains(file);
    file_unpin(file);
}

void file_lose(struct file *file)
{
    file_pin(file);
    log_error(file->client->options.log,
              "inode %lu: its lease or size lock was lost before %lu bytes and its new size were "
              "with the "
              "servers; whoever wrote them is told EIO",
              (unsigned long)file->inode, (unsigned long)file->buffer.dirty_bytes);
    file_fail(file, MORSEL_IO);
    LIST_FOREACH_SAFE(node, &file->buffer.chunks)
    {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (chunk->state == CHUNK_SENDING && chunk->range != NULL) {
            range_cancel(chunk->range);
        } else if (chunk->state == CHUNK_SENDING) {
            column_cancel(&chunk->call); /* A set is its writer's, whatever becomes of his lease. */
        } else {
            chunk_discard(chunk);
        }
    }
    file_drop_news(file);
    wake_writers(file);
    wake_drains(file);
    file_unpin(file);
}

/* It came too late: our lease period was over. It goes out again when the manager has said that the file is
 * still ours (if it is not, file_lose() takes it), but not for ever. */
bool chunk_may_try_again(struct chunk *chunk)
{
    struct client *client = chunk->file->client;
    uint64_t now_ms = uv_now(client->loop), timeout_ms = client->options.io_timeout_ms;

    client->counters.writes_refused++;
    if (chunk->refused_ms == 0) {
        chunk->refused_ms = now_ms;
    }
    if (timeout_ms != RPC_NO_DEADLINE && now_ms >= chunk->refused_ms + timeout_ms) {
        return false;
    }
    chunk->state = CHUNK_READY;
    chunk->file->buffer.sending--;
    return true;
}

void chunk_end(struct chunk *chunk)
{
    struct file *file = chunk->file;

    dirty_sub(file, dirty_of(chunk));
    file->buffer.sending--;
    chunk_free(chunk);
    file_chunks_changed(file);
    file_unpin(file); /* The chunk's. */
}

void file_fail_behind(struct file *file, uint64_t columns)
{
    uint64_t now_ms = uv_now(file->client->loop);

    LIST_FOREACH_SAFE(node, &file->buffer.chunks)
    {
        struct chunk *other = LIST_ENTRY(node, struct chunk, node);

        if (other->state != CHUNK_READY ||
            (other->range == NULL ? (columns >> other->run.column & 1) == 0 : columns == 0)) {
            continue;
        }
        other->late = true;
        if (now_ms >= other->born_ms + file->client->options.io_timeout_ms) {
            bool truncates = other->range != NULL;

            dirty_sub(file, dirty_of(other));
            chunk_free(other);
            if (truncates) {
                file_truncate_failed(file); /* What it was to cut off is there. */
            }
            file_unpin(file);
        }
    }
}

/* What is left of io_timeout for what has waited behind something that got no answer; but a server
 * that is back has time to say so. */
static uint64_t timeout_of(const struct chunk *chunk)
{
    const struct client *client = chunk->file->client;
    uint64_t timeout_ms = client->options.io_timeout_ms, now_ms = uv_now(client->loop);
    uint64_t end_ms = chunk->born_ms + timeout_ms;

    if (!chunk->late) {
        return timeout_ms;
    }
    return end_ms > now_ms + timeout_ms / LATE_PART ? end_ms - now_ms : timeout_ms / LATE_PART;
}

/* What programs were told is written will not be. The kernel has it in its pages: they go, so that a
 * read tells what is there, and does not tell something else when they go by themselves. */
static void lose_bytes(struct file *file, int status)
{
    file_fail(file, status);
    kernel_drop_inode(file->client, file->inode);
}

void chunk_landed(struct chunk *chunk)
{
    chunk->file->buffer.landed_bytes += chunk->length;
}

void chunk_lost(struct chunk *chunk, int status)
{
    lose_bytes(chunk->file, status);
}

static void on_chunk_written(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct chunk *chunk = call->data;
    struct file *file = chunk->file;

    if (status == MORSEL_TOO_LATE && chunk_may_try_again(chunk)) {
        return;
    }
    if (status != 0 && status != MORSEL_CANCELED) { /* By file_lose(), which has told everybody. */
        log_error(file->client->options.log,
                  "inode %lu: %lu bytes at %lu were not written to server %u (%s): %s",
                  (unsigned long)file->inode, (unsigned long)chunk->length,
                  (unsigned long)chunk->offset, file_server(file, chunk->run.column),
                  column_address(call), column_why(status, reply));
        lose_bytes(file, status == MORSEL_TOO_LATE ? MORSEL_TIMEDOUT : status);
        if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
            file_fail_behind(file, (uint64_t)1 << chunk->run.column);
        }
    } else if (status == 0) {
        chunk_landed(chunk);
    }
    chunk_end(chunk);
}

/* ---- Sending ---- */

/* An older chunk over the same bytes must land first. */
static bool must_wait(struct chunk *chunk)
{
    for (struct list *node = chunk->node.prev; node != &chunk->file->buffer.chunks;
         node = node->prev) {
        struct chunk *older = LIST_ENTRY(node, struct chunk, node);

        if (chunk_overlaps(older, chunk->offset, chunk->length)) {
            return true;
        }
    }
    return false;
}

static void chunk_fail(struct chunk *chunk, int status)
{
    struct file *file = chunk->file;

    if (chunk->range != NULL) {
        file_fail(file, status);
        file_truncate_failed(file);
    } else {
        lose_bytes(file, status);
    }
    dirty_sub(file, dirty_of(chunk));
    chunk_free(chunk);
    file_unpin(file);
}

/* The truncation goes to all servers. False: it has failed, and is gone. */
static bool truncation_send(struct chunk *chunk)
{
    struct file *file = chunk->file;
    int rv;

    chunk->state = CHUNK_SENDING;
    file->buffer.sending++;
    rv = file_truncate_send(chunk);
    if (rv != 0) {
        file->buffer.sending--;
        chunk_fail(chunk, rv);
    }
    return rv == 0;
}

static int chunk_write(struct chunk *chunk)
{
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    struct file *file = chunk->file;
    Morsel__ObjectId object = column_object(&file->columns, chunk->run.column);
    struct rpc_piece piece = { chunk->payload, chunk->payload_offset, chunk->length };
    uint32_t crcs[CHUNK_CRCS_MAX];

    request.object = &object;
    request.offset = chunk->run.object_offset;
    crc32c_of_pieces(request.offset, chunk->payload->data + chunk->payload_offset, chunk->length,
                     crcs);
    request.sync = chunk->sync;
    request.crcs.data = (uint8_t *)crcs; /* Little-endian, as this machine. */
    request.crcs.len = crc32c_pieces(request.offset, chunk->length) * sizeof(crcs[0]);
    chunk->call.columns = &file->columns;
    chunk->call.column = chunk->run.column;
    chunk->call.data = chunk;
    chunk->call.exclusive = !chunk->shared;
    chunk->call.durable = chunk->sync;
    chunk->call.timeout_ms = timeout_of(chunk);
    return column_start(&chunk->call, COLUMN_CHANGE, MSG_WRITE, &request.base, &piece,
                        on_chunk_written);
}

/* False: it has failed, and is gone. */
static bool chunk_send(struct chunk *chunk)
{
    struct file *file = chunk->file;
    int rv;

    if (chunk->state == CHUNK_FILLING) {
        file->buffer.filling--;
    }
    chunk->state = CHUNK_SENDING;
    rv = file_is_scavenged(file) ? scavenged_write(chunk) : chunk_write(chunk);
    if (rv != 0) {
        log_error(file->client->options.log, "inode %lu: cannot write %lu bytes at %lu: %s",
                  (unsigned long)file->inode, (unsigned long)chunk->length,
                  (unsigned long)chunk->offset, status_words(rv));
        chunk_fail(chunk, rv);
        return false;
    }
    file->buffer.sending++;
    return true;
}

/* How long the chunk has been waiting for a lease period: it may be old because the link is slow. */
static uint64_t without_lease_ms(const struct chunk *chunk)
{
    const struct client *client = chunk->file->client;
    uint64_t age_ms = uv_now(client->loop) - chunk->born_ms;
    uint64_t now_ns = rpc_boot_ns(), until_ns = lease_until_ns(client);
    uint64_t over_ms = now_ns > until_ns ? (now_ns - until_ns) / 1000000 : 0;

    return over_ms < age_ms ? over_ms : age_ms;
}

/* Without a lease period the servers would refuse it: the manager may have given the file to others. True:
 * some have waited too long, and are gone. */
static bool give_up_old(struct file *file)
{
    uint64_t timeout_ms = file->client->options.io_timeout_ms;
    bool failed = false;

    LIST_FOREACH_SAFE(node, &file->buffer.chunks)
    {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (chunk->state == CHUNK_READY && timeout_ms != RPC_NO_DEADLINE &&
            without_lease_ms(chunk) > timeout_ms) {
            log_error(
                file->client->options.log,
                "inode %lu: %lu bytes at %lu were not written: manager %s has not answered for "
                "too long",
                (unsigned long)file->inode, (unsigned long)chunk->length,
                (unsigned long)chunk->offset, rpc_peer_address(file->client->manager));
            chunk_fail(chunk, MORSEL_TIMEDOUT);
            failed = true;
        }
    }
    return failed;
}

/* What is ready and in nobody's way. True: some could not be sent, and are gone. */
static bool send_ready(struct file *file)
{
    bool failed = false;

    for (struct list *node = list_front(&file->buffer.chunks), *next; node != NULL; node = next) {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);
        bool go;

        if (file->buffer.sending >= FILE_CHUNKS_SENDING_MAX) {
            break;
        }
        go = chunk->state == CHUNK_READY && !must_wait(chunk) &&
             (chunk->range != NULL || chunk_take_room(chunk));
        next = node->next == &file->buffer.chunks ? NULL
                                                  : node->next; /* Perhaps the rest of this one. */
        if (go) {
            failed |= chunk->range != NULL ? !truncation_send(chunk) : !chunk_send(chunk);
        }
    }
    return failed;
}

void file_send(struct file *file)
{
    if (client_lease_valid(file->client) ? send_ready(file) : give_up_old(file)) {
        wake_writers(file);
        wake_drains(file);
    }
}

void chunk_ready(struct chunk *chunk)
{
    if (chunk->state != CHUNK_FILLING) {
        return;
    }
    chunk->state = CHUNK_READY;
    chunk->file->buffer.filling--;
    /* A truncation must not be what it waits for. */
    LIST_FOREACH(node, &chunk->file->buffer.chunks)
    {
        struct chunk *other = LIST_ENTRY(node, struct chunk, node);

        if (other->range != NULL && other->state == CHUNK_FILLING) {
            other->state = CHUNK_READY;
            other->file->buffer.filling--;
        }
    }
}

void file_all_ready(struct file *file)
{
    LIST_FOREACH(node, &file->buffer.chunks)
    {
        chunk_ready(LIST_ENTRY(node, struct chunk, node));
    }
    file_send(file);
}

/* ---- Of all files ---- */

uint64_t client_dirty_bytes(const struct client *client)
{
    return client->data.buffers->dirty_bytes;
}

int write_buffers_open(struct client *client)
{
    client->data.buffers = calloc(1, sizeof(*client->data.buffers));
    if (client->data.buffers == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&client->data.buffers->room_waiting);
    return MORSEL_OK;
}

void write_buffers_close(struct client *client)
{
    free(client->data.buffers);
}
