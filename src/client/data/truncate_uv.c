/* Truncations of a file that is ours alone, set behind.
 *
 * A truncation is a chunk without bytes that reaches from where the file is truncated to the end of
 * all files: so it goes to the servers behind what was written before, what is written or read
 * there later waits for it, and whoever drains the file drains the truncation. It waits for
 * neighbours as small writes do: bytes that were not sent yet do not go, and of several truncations
 * only the last is made.
 *
 * The manager learns of it with the report of what was written: the size to truncate to, then the
 * size. While a truncation is on its way a report goes no further than its place: what lies behind
 * may still be old bytes, and they must not be within a size that anybody is told when this mount
 * dies. */
#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/meta_cache.h"
#include "client/data/chunk_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

static bool is_sent(const struct chunk *chunk)
{
    return chunk->state == CHUNK_SENDING;
}

/* What was not sent yet of [from, ...) is not going to be, but for a truncation that goes further.
 * Returns when the oldest truncation that has gone so was made, or `now_ms`. */
static uint64_t drop_unsent(struct file *file, uint64_t from, uint64_t now_ms)
{
    uint64_t born_ms = now_ms;

    LIST_FOREACH_SAFE(node, &file->buffer.chunks)
    {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);
        bool truncates = chunk->range != NULL;

        if (is_sent(chunk) || chunk->offset + chunk->length <= from ||
            (truncates && chunk->offset <= from)) {
            continue;
        }
        if (truncates && chunk->born_ms < born_ms) {
            born_ms = chunk->born_ms;
        }
        chunk_trim(chunk, from);
    }
    return born_ms;
}

/* Is a truncation that goes as far among what was not sent yet? Then nothing behind it has been
 * sent since. */
static bool is_covered(const struct file *file, uint64_t from)
{
    LIST_FOREACH(node, &file->buffer.chunks)
    {
        const struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (chunk->range != NULL && !is_sent(chunk) && chunk->offset <= from) {
            return true;
        }
    }
    return false;
}

static struct chunk *truncation_new(uint64_t from)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk));
    struct range_op *range = calloc(1, sizeof(*range));

    if (chunk == NULL || range == NULL) {
        free(chunk);
        free(range);
        return NULL;
    }
    range->data = chunk;
    chunk->range = range;
    chunk->offset = from;
    chunk->length = UINT64_MAX - from;
    chunk->run.column = UINT32_MAX; /* All of them. */
    return chunk;
}

/* The servers are to truncate at `from`. False: no memory. */
static bool truncate_objects(struct file *file, uint64_t from)
{
    struct chunk *truncation = NULL;
    uint64_t born_ms;

    if (!is_covered(file, from) && (truncation = truncation_new(from)) == NULL) {
        return false;
    }
    born_ms = drop_unsent(file, from, uv_now(file->client->loop));
    if (truncation != NULL) {
        chunk_enlist(truncation, file);
        truncation->born_ms = born_ms; /* However often it is truncated, it does not wait longer. */
    }
    return true;
}

bool file_clean_tail(struct file *file)
{
    if (file_is_scavenged(file)) {
        return true; /* What the map does not have is nowhere. */
    }
    if (!file->shape.tail_unsure) {
        return true;
    }
    if (!truncate_objects(file, file->shape.size)) {
        return false;
    }
    file_forget(file, file->shape.size, UINT64_MAX);
    file->shape.tail_unsure = false;
    file->shape.report.news.tail_clean = true;
    return true;
}

bool file_truncate(struct file *file, uint64_t size)
{
    bool grows = size > file->shape.size;
    uint64_t from = grows ? file->shape.size : size;

    if (size >= file->shape.size ? !file_clean_tail(file) : !truncate_objects(file, size)) {
        return false;
    }
    file->shape.report.news.tail_clean |=
        file->shape.tail_unsure; /* Beyond what is truncated there is nothing any more. */
    file->shape.tail_unsure = false;
    file_forget(file, from, UINT64_MAX);
    if (!grows) {
        if (file->shape.report.news.end > size) {
            file_note_reach(
                file, file->shape.report.news
                          .end); /* Objects are there all the same: whoever deletes it must know.
                                    */
        }
        report_note_truncation(&file->shape.report, size, uv_now(file->client->loop));
        file->durable.shape_synced = false;
    }
    file->shape.size = size;
    file->shape.report.news.sparse &= size > 0;
    file_note_changed(file, 0, size, grows);
    file_chunks_changed(file);
    return true;
}

void file_truncate_failed(struct file *file)
{
    const Morsel__Attr *attr = meta_cache_attr(file->client->cache, file->inode);

    if (attr != NULL && attr->size > file->shape.size) {
        file->shape.size = attr->size;
    }
    report_drop_truncation(&file->shape.report);
    file->shape.tail_unsure = true;
    kernel_drop_inode(file->client, file->inode);
}

static void on_truncated(struct range_op *range, int status)
{
    struct chunk *chunk = range->data;
    struct file *file = chunk->file;

    if (range->starting) {
        return; /* Nobody could be asked: file_truncate_send() says so. */
    }
    if (status == MORSEL_TOO_LATE && chunk_may_try_again(chunk)) {
        return;
    }
    if (status != 0 && status != MORSEL_CANCELED) { /* By file_lose(), which has told everybody. */
        log_error(file->client->options.log, "inode %lu: it was not truncated at %lu: %s",
                  (unsigned long)file->inode, (unsigned long)chunk->offset, status_words(status));
        file_fail(file, status == MORSEL_TOO_LATE ? MORSEL_TIMEDOUT : status);
        file_truncate_failed(file);
        file_fail_behind(file, range->unanswered);
    }
    chunk_end(chunk);
}

int file_truncate_send(struct chunk *chunk)
{
    struct range_op *range = chunk->range;
    int rv;

    range->starting = true;
    rv = range_start(range, chunk->file, RANGE_TRUNCATE, chunk->offset, 0, on_truncated);
    range->starting = false;
    return rv == 0 && range->waiting == 0 ? range->status : rv;
}

uint64_t file_truncate_limit(const struct file *file)
{
    uint64_t limit = UINT64_MAX;

    LIST_FOREACH(node, &file->buffer.chunks)
    {
        const struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (chunk->range != NULL && chunk->offset < limit) {
            limit = chunk->offset;
        }
    }
    return limit;
}
