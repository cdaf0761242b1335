/* Reading what is still in the write buffer: what is on its way, or waits for neighbours, is copied
 * when the read begins; the rest comes from the servers, where no write of ours changes it
 * meanwhile. So a read waits for no write. */
#include "client/data/read_uv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Where it goes among the pieces, which are in order and do not overlap. False: there is no room.
 */
static bool piece_add(struct file_over *over, unsigned at, struct file_over_piece piece)
{
    if (over->count == FILE_OVER_PIECES_MAX) {
        return false;
    }
    memmove(&over->pieces[at + 1], &over->pieces[at], (over->count - at) * sizeof(piece));
    over->pieces[at] = piece;
    over->count++;
    return true;
}

static struct file_over_piece piece_of(const struct chunk *chunk, uint64_t from, uint64_t to)
{
    struct file_over_piece piece = { from, to, NULL };

    if (chunk->range == NULL) {
        piece.bytes = chunk->payload->data + chunk->payload_offset + (from - chunk->offset);
    }
    return piece;
}

/* What a chunk has of the gaps that younger ones have left. */
static bool fill_gaps(struct file_over *over, const struct chunk *chunk, uint64_t from, uint64_t to)
{
    unsigned at = 0;

    while (from < to) {
        uint64_t end = to;

        while (at < over->count && over->pieces[at].to <= from) {
            at++;
        }
        if (at < over->count && over->pieces[at].from <= from) {
            from = over->pieces[at].to;
            continue;
        }
        if (at < over->count && over->pieces[at].from < to) {
            end = over->pieces[at].from;
        }
        if (!piece_add(over, at, piece_of(chunk, from, end))) {
            return false;
        }
        from = end;
    }
    return true;
}

/* The chunks change, and go: the bytes are needed later. */
static bool copy_bytes(struct file_over *over)
{
    uint64_t count = 0;
    uint8_t *at;

    for (unsigned i = 0; i < over->count; i++) {
        count += over->pieces[i].bytes != NULL ? over->pieces[i].to - over->pieces[i].from : 0;
    }
    at = over->bytes = malloc(count + 1);
    if (at == NULL) {
        return false;
    }
    for (unsigned i = 0; i < over->count; i++) {
        struct file_over_piece *piece = &over->pieces[i];

        if (piece->bytes != NULL) {
            memcpy(at, piece->bytes, piece->to - piece->from);
            piece->bytes = at;
            at += piece->to - piece->from;
        }
    }
    return true;
}

bool read_over_take(struct file_read *read)
{
    uint64_t end = read->offset + read->length;
    struct file_over *over = calloc(1, sizeof(*over));
    bool fits = over != NULL;

    for (struct list *node = read->file->chunks.prev; fits && node != &read->file->chunks;
         node = node->prev) {
        const struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);
        uint64_t chunk_end = chunk->offset + chunk->length;

        fits = fill_gaps(over, chunk, chunk->offset > read->offset ? chunk->offset : read->offset,
                         chunk_end < end ? chunk_end : end);
    }
    if (!fits || !copy_bytes(over)) {
        free(over);
        return false;
    }
    read->over = over;
    return true;
}

void read_over_free(struct file_read *read)
{
    if (read->over != NULL) {
        free(read->over->bytes);
        free(read->over);
    }
}

uint64_t read_over_until(const struct file_read *read, uint64_t offset)
{
    for (unsigned i = 0; read->over != NULL && i < read->over->count; i++) {
        const struct file_over_piece *piece = &read->over->pieces[i];

        if (piece->from <= offset && offset < piece->to) {
            offset = piece->to;
        }
    }
    return offset;
}

/* The servers' bytes of [from, to), which begin at `skip` within the stretches. */
static unsigned base_between(const struct iovec *base, unsigned count, uint64_t from, uint64_t to,
                             struct iovec *out)
{
    unsigned made = 0;
    uint64_t at = 0;

    for (unsigned i = 0; i < count && at < to; at += base[i].iov_len, i++) {
        uint64_t first = at > from ? at : from;
        uint64_t last = at + base[i].iov_len < to ? at + base[i].iov_len : to;

        if (first < last) {
            out[made++] =
                (struct iovec){ (uint8_t *)base[i].iov_base + (first - at), last - first };
        }
    }
    return made;
}

unsigned read_over_gather(const struct file_read *read, const uint8_t *zeros, struct iovec *iov,
                          unsigned count)
{
    struct iovec base[2 * FILE_READ_PARTS_MAX];
    uint64_t at = 0;
    unsigned made = 0;

    memcpy(base, iov, count * sizeof(base[0]));
    for (unsigned i = 0; i < read->over->count; i++) {
        const struct file_over_piece *piece = &read->over->pieces[i];
        const uint8_t *bytes = piece->bytes != NULL ? piece->bytes : zeros;

        made += base_between(base, count, at, piece->from - read->offset, iov + made);
        iov[made++] = (struct iovec){ (uint8_t *)(uintptr_t)bytes, piece->to - piece->from };
        at = piece->to - read->offset;
    }
    return made + base_between(base, count, at, read->length, iov + made);
}
