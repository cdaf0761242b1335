/* A mark for each column, and the verifier under which it was set. */
#include "client/data/unsynced.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

enum { TOLD_KEPT = 4 };

struct unsynced
{
    uint32_t width;
    struct column
    {
        bool is;
        uint64_t verifier;        /* Of what we wrote and is not synced; 0: nothing, or not told. */
        uint64_t covered;         /* Everything written under it was synced; 0: none. */
        uint64_t told[TOLD_KEPT]; /* Of bytes whose loss was told, the last first; 0: none. */
        uint64_t untold;          /* Of bytes that are lost, and nobody was told; 0: none. */
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
        u->columns[i].covered = 0;
        u->columns[i].changes++;
    }
}

/* Was the verifier another one when bytes that are not synced were acknowledged? */
static bool is_lost(const struct column *c, uint64_t verifier)
{
    return c->verifier != 0 && verifier != 0 && c->verifier != verifier;
}

static void note_told(struct column *c, uint64_t verifier)
{
    memmove(c->told + 1, c->told, sizeof(c->told) - sizeof(c->told[0]));
    c->told[0] = verifier;
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
        c->covered = 0;
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

    for (unsigned i = 0; i < TOLD_KEPT; i++) {
        if (c->told[i] == verifier) {
            return false;
        }
    }
    note_told(c, verifier);
    return true;
}

bool unsynced_covered(const struct unsynced *u, uint32_t column, uint64_t verifier)
{
    CHECK(column < u->width);
    return verifier != 0 && u->columns[column].covered == verifier;
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
        c->covered = verifier;
        c->verifier = 0;
    }
    return lost;
}
