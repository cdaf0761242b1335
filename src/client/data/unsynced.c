/* A mark for each column, and the verifier under which it was set. */
#include "client/data/unsynced.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

enum { TOLD_KEPT = 4, COVERED_KEPT = 2 };

struct unsynced
{
    uint32_t width;
    struct column
    {
        bool is;
        uint64_t verifier; /* Of what we wrote and is not synced; 0: nothing, or not told. */
        uint64_t covered
            [COVERED_KEPT]; /* Everything written under it was synced, the last first; 0: none. */
        uint64_t told[TOLD_KEPT];   /* Of bytes whose loss was told, the last first; 0: none. */
        uint64_t untold;            /* Of bytes that are lost, and nobody was told; 0: none. */
        bool listed, untold_listed; /* A report names `verifier`, `untold`. */
        uint64_t changes;           /* Grows whenever there is more to sync. */
    } columns[];
};

struct unsynced *unsynced_new(uint32_t width, bool fresh)
{
    struct unsynced *u = calloc(1, sizeof(*u) + width * sizeof(u->columns[0]));

    CHECK(width > 0 && width <= STRIPE_WIDTH_MAX);
    if (u != NULL) {
        u->width = width;
        for (uint32_t i = 0; i < width; i++) {
            u->columns[i].is = !fresh;
        }
    }
    return u;
}

void unsynced_free(struct unsynced *u)
{
    free(u);
}

static struct column *column_of(struct unsynced *u, uint32_t column)
{
    CHECK(column < u->width);
    return &u->columns[column];
}

void unsynced_forget(struct unsynced *u)
{
    for (uint32_t i = 0; i < u->width; i++) {
        u->columns[i].is = true;
        memset(u->columns[i].covered, 0, sizeof(u->columns[i].covered));
        u->columns[i].changes++;
    }
}

/* Was the verifier another one when bytes that are not synced were acknowledged? */
static bool is_lost(const struct column *c, uint64_t verifier)
{
    return c->verifier != 0 && verifier != 0 && c->verifier != verifier;
}

static bool is_among(const uint64_t *verifiers, unsigned count, uint64_t verifier)
{
    for (unsigned i = 0; i < count; i++) {
        if (verifiers[i] == verifier) {
            return true;
        }
    }
    return false;
}

static void put_first(uint64_t *verifiers, unsigned count, uint64_t verifier)
{
    memmove(verifiers + 1, verifiers, (count - 1) * sizeof(verifiers[0]));
    verifiers[0] = verifier;
}

static void note_told(struct column *c, uint64_t verifier)
{
    put_first(c->told, TOLD_KEPT, verifier);
}

/* More was written under it. What was synced under another one stays synced, for the server has left that one behind. */
static void note_uncovered(struct column *c, uint64_t verifier)
{
    for (unsigned i = 0; i < COVERED_KEPT; i++) {
        if (verifier == 0 || c->covered[i] == verifier) {
            c->covered[i] = 0;
        }
    }
}

/* What is left, or comes, was acknowledged by the server as it is now. */
static void note_lost(struct column *c)
{
    note_told(c, c->verifier);
    c->untold = c->verifier;
    c->untold_listed = c->listed;
    c->verifier = 0;
    c->listed = false;
}

bool unsynced_acked(struct unsynced *u, uint32_t column, uint64_t verifier, bool durable)
{
    struct column *c = column_of(u, column);
    bool lost = is_lost(c, verifier);

    if (lost) {
        note_lost(c);
    }
    if (!durable) {
        c->is = true;
        note_uncovered(c, verifier);
        c->changes++;
        if (verifier != 0) {
            c->verifier = verifier;
        }
    }
    return lost;
}

bool unsynced_is(const struct unsynced *u, uint32_t column)
{
    CHECK(column < u->width);
    return u->columns[column].is;
}

uint32_t unsynced_verifiers(const struct unsynced *u, uint32_t column,
                            uint64_t verifiers[UNSYNCED_OWN_MAX])
{
    const struct column *c = &u->columns[column];
    uint32_t count = 0;

    CHECK(column < u->width);
    if (c->untold != 0) {
        verifiers[count++] = c->untold;
    }
    if (c->verifier != 0) {
        verifiers[count++] = c->verifier;
    }
    return count;
}

void unsynced_listed(struct unsynced *u, uint32_t column)
{
    struct column *c = column_of(u, column);

    c->listed = c->verifier != 0;
    c->untold_listed = c->untold != 0;
}

bool unsynced_is_unlisted(const struct unsynced *u)
{
    for (uint32_t i = 0; i < u->width; i++) {
        const struct column *c = &u->columns[i];

        if ((c->verifier != 0 && !c->listed) || (c->untold != 0 && !c->untold_listed)) {
            return true;
        }
    }
    return false;
}

void unsynced_told(struct unsynced *u)
{
    for (uint32_t i = 0; i < u->width; i++) {
        u->columns[i].untold = 0;
    }
}

bool unsynced_gone(struct unsynced *u, uint32_t column, uint64_t verifier)
{
    struct column *c = column_of(u, column);

    if (is_among(c->told, TOLD_KEPT, verifier)) {
        return false;
    }
    note_told(c, verifier);
    return true;
}

static bool is_covered(const struct column *c, uint64_t verifier)
{
    return verifier != 0 && is_among(c->covered, COVERED_KEPT, verifier);
}

enum unsynced_fate unsynced_fate(const struct unsynced *u, uint32_t column, uint64_t verifier,
                                 uint64_t synced, uint64_t last)
{
    const struct column *c = &u->columns[column];
    uint64_t now = synced != 0 ? synced : last;

    CHECK(column < u->width);
    if (verifier == VERIFIER_ANY) { /* Whichever they were, also later than this flush. */
        return !c->is && is_covered(c, now) ? UNSYNCED_SYNCED : UNSYNCED_OPEN;
    }
    if (is_covered(c, verifier)) {
        return UNSYNCED_SYNCED;
    }
    return now == 0 || verifier == now || verifier == last ? UNSYNCED_OPEN : UNSYNCED_GONE;
}

uint64_t unsynced_mark(const struct unsynced *u, uint32_t column)
{
    CHECK(column < u->width);
    return u->columns[column].changes;
}

bool unsynced_synced(struct unsynced *u, uint32_t column, uint64_t mark, uint64_t verifier)
{
    struct column *c = column_of(u, column);
    bool lost = is_lost(c, verifier);

    if (lost) {
        note_lost(c);
    }
    if (mark == c->changes) {
        c->is = false;
        c->listed = false;
        c->verifier = 0;
        if (!is_covered(c, verifier)) {
            put_first(c->covered, COVERED_KEPT, verifier);
        }
    }
    return lost;
}
