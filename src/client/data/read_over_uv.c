/* Reading what is still in the write buffer: what is on its way, or waits for neighbours, is copied
 * when the read begins; the rest comes from the servers, where no write of ours changes it
 * meanwhile. So a read waits for no write. */
#include "client/data/read_uv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* The chunks change, and go: so the bytes are copied. */
bool read_over_take(struct file_read *read)
{
    uint64_t end = read->offset + read->length;
    struct overlay *over = calloc(1, sizeof(*over));
    bool fits = over != NULL;

    for (struct list *node = read->file->buffer.chunks.prev;
         fits && node != &read->file->buffer.chunks; node = node->prev) {
        const struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);
        uint64_t from = chunk->offset > read->offset ? chunk->offset : read->offset;
        uint64_t to = chunk->offset + chunk->length < end ? chunk->offset + chunk->length : end;

        if (from < to) {
            fits = overlay_add(over, from, to,
                               chunk->range != NULL ? NULL
                                                    : chunk->payload->data + chunk->payload_offset +
                                                          (from - chunk->offset));
        }
    }
    if (!fits || !overlay_copy(over)) {
        free(over);
        return false;
    }
    read->over = over;
    return true;
}

void read_over_free(struct file_read *read)
{
    if (read->over != NULL) {
        overlay_free(read->over);
        free(read->over);
    }
}

uint64_t read_over_until(const struct file_read *read, uint64_t offset)
{
    return read->over == NULL ? offset : overlay_until(read->over, offset);
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
        const struct overlay_piece *piece = &read->over->pieces[i];
        const uint8_t *bytes = piece->bytes != NULL ? piece->bytes : zeros;

        made += base_between(base, count, at, piece->from - read->offset, iov + made);
        iov[made++] = (struct iovec){ (uint8_t *)(uintptr_t)bytes, piece->to - piece->from };
        at = piece->to - read->offset;
    }
    return made + base_between(base, count, at, read->length, iov + made);
}
