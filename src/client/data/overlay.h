/* What the write buffer has of a range of a file that is being read: it is laid over what the
 * servers say. Pure.
 *
 * Chunks are added from the youngest to the oldest; each gives what younger ones have not given. So
 * the pieces are in order, do not overlap, and each byte is that of the youngest chunk that has it.
 */
#ifndef MORSEL_CLIENT_DATA_OVERLAY_H
#define MORSEL_CLIENT_DATA_OVERLAY_H

#include "common/base/types.h"

enum { OVERLAY_PIECES_MAX = 64 };

struct overlay
{
    uint8_t *bytes; /* Owned, once overlay_copy() has been called. */
    unsigned count;
    struct overlay_piece
    {
        uint64_t from, to;    /* In the file. */
        const uint8_t *bytes; /* NULL: zeros. */
    } pieces[OVERLAY_PIECES_MAX];
};

/* Zeroed is empty. [from, to) of the file, which may be empty, is `bytes` (NULL: zeros) where no
 * piece is yet. False: there are too many pieces. */
bool overlay_add(struct overlay *o, uint64_t from, uint64_t to, const uint8_t *bytes);

/* From here on the bytes are the overlay's own. Once. False: out of memory. */
bool overlay_copy(struct overlay *o);

/* The first place from `offset` on that no piece has. */
uint64_t overlay_until(const struct overlay *o, uint64_t offset);

/* What overlay_copy() made. */
void overlay_free(struct overlay *o);

#endif
