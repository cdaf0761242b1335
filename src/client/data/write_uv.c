/* The write buffer of a file: what programs write becomes chunks (chunk_uv.h). */
#include "client/data/chunk_uv.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS_SYNCED_MAX = 2 };

static uint64_t chunk_room(const struct chunk *chunk)
{
    uint64_t limit = chunk->run.length < CHUNK_BYTES_MAX ? chunk->run.length : CHUNK_BYTES_MAX;

    return limit - chunk->length;
}

static bool chunk_reserve(struct chunk *chunk, size_t need)
{
    struct payload *bigger;
    size_t want = chunk->payload->capacity * 2;

    if (chunk->payload_offset + need <= chunk->payload->capacity &&
        chunk->payload->references == 1) {
        return true;
    }
    bigger = payload_new(chunk->payload->pool,
                         need > want ? need : (want > CHUNK_BYTES_MAX ? need : want));
    if (bigger == NULL) {
        return false;
    }
    memcpy(bigger->data, chunk->payload->data + chunk->payload_offset, chunk->length);
    payload_drop(chunk->payload);
    chunk->payload = bigger;
    chunk->payload_offset = 0;
    return true;
}

/* Put the bytes into a chunk that is still filling: over what it holds, or at its end. The number
 * of bytes taken. */
static size_t chunk_merge(struct file *file, uint64_t offset, const uint8_t *bytes, size_t length)
{
    /* The youngest chunk that touches the bytes decides: an older one must not get them out of
     * order. */
    for (struct list *node = file->buffer.chunks.prev; node != &file->buffer.chunks;
         node = node->prev) {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);
        uint64_t within, room;

        if (!chunk_overlaps(chunk, offset, length) &&
            !(chunk->state == CHUNK_FILLING && offset == chunk->offset + chunk->length)) {
            continue;
        }
        if (chunk->range != NULL || chunk->state != CHUNK_FILLING || offset < chunk->offset) {
            return 0;
        }
        chunk->shared |= file_is_shared(file);
        within = offset - chunk->offset;
        room = chunk->length - within + chunk_room(chunk);
        if (length > room) {
            length = room;
        }
        if (length == 0 || !chunk_reserve(chunk, within + length)) {
            return 0;
        }
        memcpy(chunk->payload->data + chunk->payload_offset + within, bytes, length);
        if (within + length > chunk->length) {
            file_dirty_add(file, within + length - chunk->length);
            chunk->length = within + length;
        }
        file->client->counters.writes_coalesced++;
        if (chunk_room(chunk) == 0) {
            chunk_ready(chunk);
        }
        return length;
    }
    return 0;
}

void chunk_enlist(struct chunk *chunk, struct file *file)
{
    chunk->file = file;
    chunk->born_ms = uv_now(file->client->loop);
    chunk->number = ++file->buffer.made;
    chunk->shared = file_is_shared(file);
    chunk->state = CHUNK_FILLING;
    file->buffer.filling++;
    file_pin(file); /* The chunk's; let go when it is written. */
    list_init(&chunk->node);
    list_push_back(&file->buffer.chunks, &chunk->node);
    file_note_dirty(file);
}

static int chunk_add(struct file *file, uint64_t offset, const uint8_t *bytes, size_t length,
                     struct payload *holder)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk));

    if (chunk == NULL) {
        return MORSEL_NOMEM;
    }
    if (holder != NULL && length >= FILE_TAKE_BYTES_MIN) {
        chunk->payload = payload_ref(holder);
        chunk->payload_offset = (size_t)(bytes - holder->data);
    } else {
        /* A longer write is likely to be followed by its neighbour. */
        chunk->payload = payload_new(rpc_payloads(file->client->rpc),
                                     length >= FILE_STREAM_BYTES_MIN ? CHUNK_BYTES_MAX : length);
        if (chunk->payload == NULL) {
            free(chunk);
            return MORSEL_NOMEM;
        }
        memcpy(chunk->payload->data, bytes, length);
    }
    chunk->offset = offset;
    chunk->length = length;
    chunk->run = stripe_run_at(file_stripe(file), offset, UINT64_MAX - offset);
    chunk_enlist(chunk, file);
    file_dirty_add(file, length);
    if (chunk_room(chunk) == 0 || length >= FILE_TAKE_BYTES_MIN) {
        chunk_ready(chunk);
    }
    return MORSEL_OK;
}

void file_note_changed(struct file *file, uint64_t offset, uint64_t end, bool sparse)
{
    report_note_end(&file->shape.report, end, uv_now(file->client->loop));
    file->shape.write_back = file->shape.write_back || !file_is_shared(file);
    file->shape.report.news.sparse |= sparse || offset > file->shape.size;
    file->durable.shape_synced =
        file->durable.shape_synced && !file->shape.report.news.sparse && end <= file->shape.size;
    if (end > file->shape.size) {
        file->shape.size = end;
    }
    file->shape.mtime_ns = file->shape.ctime_ns = client_clock_ns(file->client);
    file_note_dirty(file);
}

/* Too many small chunks: the oldest has waited long enough for neighbours. */
static void limit_filling(struct file *file)
{
    LIST_FOREACH(node, &file->buffer.chunks)
    {
        if (file->buffer.filling <= FILE_CHUNKS_FILLING_MAX) {
            return;
        }
        chunk_ready(LIST_ENTRY(node, struct chunk, node));
    }
}

static int take_bytes(struct file *file, uint64_t offset, const uint8_t *bytes, size_t length,
                      struct payload *holder)
{
    while (length > 0) {
        size_t taken = chunk_merge(file, offset, bytes, length);

        if (taken == 0) {
            struct stripe_run run = stripe_run_at(file_stripe(file), offset, length);
            int rv;

            taken = run.length < CHUNK_BYTES_MAX ? (size_t)run.length : CHUNK_BYTES_MAX;
            rv = chunk_add(file, offset, bytes, taken, holder);
            if (rv != 0) {
                return rv;
            }
        }
        offset += taken;
        bytes += taken;
        length -= taken;
    }
    return MORSEL_OK;
}

int file_buffer(struct handle *handle, uint64_t offset, const uint8_t *bytes, size_t length,
                struct payload *holder, struct file_write_wait *wait)
{
    struct file *file = handle->file;
    struct client *client = file->client;
    int rv = file_take_error(handle);

    if (rv != 0) {
        return rv;
    }
    if (offset + length > INT64_MAX || offset + length < offset ||
        !file_may_reach(file, offset + length)) {
        return MORSEL_FBIG;
    }
    if (file->buffer.dirty_bytes > 0 &&
        (file->buffer.dirty_bytes + length > client->options.write_buffer_bytes ||
         client_dirty_bytes(client) + length > CLIENT_DIRTY_BYTES_MAX)) {
        client->counters.writes_waited++;
        list_init(&wait->node);
        file_all_ready(file);
        if (!list_empty(&file->buffer.chunks)) {
            list_push_back(&file->buffer.writers, &wait->node);
            return MORSEL_AGAIN;
        }
        return file_take_error(handle); /* Every chunk failed at once, and the handle knows. */
    }
    if (offset > file->shape.size && !file_is_shared(file) && !file_clean_tail(file)) {
        return MORSEL_NOMEM;
    }
    file_forget(file, offset, length);
    rv = take_bytes(file, offset, bytes, length, holder);
    if (rv == 0) {
        client->counters.writes++;
        client->counters.write_bytes += length;
        file_note_changed(file, offset, offset + length, false);
    }
    limit_filling(file);
    file_send(file);
    return rv;
}

/* A few small chunks are made durable one by one, in the round trip that they take anyway; a file
 * full of them is synced once, behind. */
static void ask_sync(struct file *file)
{
    unsigned count = 0;

    LIST_FOREACH(node, &file->buffer.chunks)
    {
        count += LIST_ENTRY(node, struct chunk, node)->state != CHUNK_SENDING;
    }
    LIST_FOREACH(node, &file->buffer.chunks)
    {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        chunk->sync |= chunk->state != CHUNK_SENDING && count <= CHUNKS_SYNCED_MAX;
    }
}

bool file_drain(struct file *file, struct file_drain *drain, bool sync)
{
    if (list_empty(&file->buffer.chunks)) {
        return true;
    }
    if (sync) {
        ask_sync(file);
    }
    list_init(&drain->node);
    drain->upto = file->buffer.made;
    file_all_ready(file);
    if (file_is_drained(file, drain->upto)) {
        return true; /* Every chunk failed at once. */
    }
    list_push_back(&file->buffer.drains, &drain->node);
    return false;
}

void file_age(struct file *file, uint64_t now_ms)
{
    file_pin(file);
    LIST_FOREACH(node, &file->buffer.chunks)
    {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (now_ms >= chunk->born_ms + FILE_CHUNK_AGE_MS) {
            chunk_ready(chunk);
        }
    }
    file_send(file);
    if (file->shape.report.state == REPORT_NEWS &&
        now_ms >= file->shape.report.since_ms + FILE_REPORT_AGE_MS) {
        file_report(file);
    }
    if (file->shape.report.state == REPORT_CLEAN && list_empty(&file->buffer.chunks)) {
        file_note_clean(file);
    }
    file_unpin(file);
}
