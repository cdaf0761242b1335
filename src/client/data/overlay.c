/* Pieces of the write buffer, in order, and the gaps between them. */
#include "client/data/overlay.h"

#include <stdlib.h>
#include <string.h>

/* False: there is no room. */
static bool insert(struct overlay *o, unsigned at, struct overlay_piece piece)
{
    if (o->count == OVERLAY_PIECES_MAX) {
        return false;
    }
    memmove(&o->pieces[at + 1], &o->pieces[at], (o->count - at) * sizeof(piece));
    o->pieces[at] = piece;
    o->count++;
    return true;
}

bool overlay_add(struct overlay *o, uint64_t from, uint64_t to, const uint8_t *bytes)
{
    const uint64_t start = from;
    unsigned at = 0;

    while (from < to) {
        uint64_t end = to;

        while (at < o->count && o->pieces[at].to <= from) {
            at++;
        }
        if (at < o->count && o->pieces[at].from <= from) {
            from = o->pieces[at].to;
            continue;
        }
        if (at < o->count && o->pieces[at].from < to) {
            end = o->pieces[at].from;
        }
        if (!insert(o, at,
                    (struct overlay_piece){ from, end,
                                            bytes == NULL ? NULL : bytes + (from - start) })) {
            return false;
        }
        from = end;
    }
    return true;
}

bool overlay_copy(struct overlay *o)
{
    uint64_t count = 0;
    uint8_t *at;

    for (unsigned i = 0; i < o->count; i++) {
        count += o->pieces[i].bytes != NULL ? o->pieces[i].to - o->pieces[i].from : 0;
    }
    at = o->bytes = malloc(count + 1);
    if (at == NULL) {
        return false;
    }
    for (unsigned i = 0; i < o->count; i++) {
        struct overlay_piece *piece = &o->pieces[i];

        if (piece->bytes != NULL) {
            memcpy(at, piece->bytes, piece->to - piece->from);
            piece->bytes = at;
            at += piece->to - piece->from;
        }
    }
    return true;
}

uint64_t overlay_until(const struct overlay *o, uint64_t offset)
{
    for (unsigned i = 0; i < o->count; i++) {
        const struct overlay_piece *piece = &o->pieces[i];

        if (piece->from <= offset && offset < piece->to) {
            offset = piece->to;
        }
    }
    return offset;
}

void overlay_free(struct overlay *o)
{
    free(o->bytes);
    o->bytes = NULL;
}
