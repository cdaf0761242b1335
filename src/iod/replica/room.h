/* How much room a member's disk still has, as far as who orders can know.
 *
 * Pure. What is told of a disk is old: a look at it, and the way here. So what was ordered since the look
 * before the last one counts as not seen by the last one, and others are taken to have ordered as much. It
 * may be counted twice, and much of it takes no room at all, for it is written over what is there; rarely is
 * any not counted: what is not goes to the reserve.
 *
 * So a disk may look full although it is not. Nobody is refused for that: while it is in doubt the answer is
 * "perhaps", whoever asks waits and asks again, and since nothing is ordered then, the next looks tell. Where
 * others go on ordering what is small, the doubt may last, and ends after ROOM_DOUBTS_MAX looks. */
#ifndef MORSEL_IOD_REPLICA_ROOM_H
#define MORSEL_IOD_REPLICA_ROOM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ROOM_MARGIN_BYTES = 8 << 20, /* What members write of their own: checksums, files, names. */
    ROOM_LOOK_MS = 250,          /* A look is told as another one so often at most. */
    ROOM_DOUBTS_MAX = 8
};

enum room_verdict { ROOM_YES, ROOM_PERHAPS, ROOM_NO };

/* Zero: nothing is known, and everything fits. */
struct room
{
    uint64_t told;          /* Free bytes, plus one; 0: not told. */
    uint64_t look;          /* The number of that look. */
    uint64_t before, since; /* Ordered between the last two looks, and since the last one. */
    uint32_t
        doubts;   /* So many looks in a row, somebody was told "perhaps", and nobody got as much. */
    bool doubted; /* So it is since the last one. */
    uint64_t asked; /* The most that one of them wanted. */
};

/* `told` as above. The look that was told last says nothing new. */
static inline void room_tell(struct room *r, uint64_t told, uint64_t look)
{
    if (told != 0 && look != r->look) {
        r->told = told;
        r->look = look;
        r->before = r->since;
        r->since = 0;
        r->doubts = r->doubted ? r->doubts + 1 : 0;
        r->asked = r->doubted ? r->asked : 0;
        r->doubted = false;
    }
}

/* `orderers`: so many servers order changes for that disk, each as much as we. */
static inline enum room_verdict room_ask(struct room *r, uint64_t bytes, uint32_t orderers)
{
    uint64_t need = bytes + ROOM_MARGIN_BYTES;

    if (r->told == 0 || r->told - 1 >= need + orderers * (r->before + r->since)) {
        return ROOM_YES;
    }
    if (r->told - 1 < need || r->doubts >= ROOM_DOUBTS_MAX) {
        return ROOM_NO;
    }
    r->doubted = true;
    r->asked = r->asked > bytes ? r->asked : bytes;
    return ROOM_PERHAPS;
}

static inline void room_use(struct room *r, uint64_t bytes)
{
    r->since += bytes;
    r->doubts = bytes >= r->asked ? 0 : r->doubts;
}

#endif
