/* Copies of morsels that a reader found wrong: who looks at them, and what comes of it.
 *
 * Pure. It looks at the maps (sets.h) and at who is here (donors.h), and changes neither. A reader is not believed: it may lie, or
 * its own memory or the way to it may be at fault. It only says which copy is to be looked at, by benefactors that read it and
 * compare it with the digest of the map:
 *
 *   named --> its own benefactor looks --damaged, or not there--> DAMAGE_BAD: the copy leaves the map
 *                |
 *                +--right--> another one reads it there --right--> DAMAGE_RIGHT: the reader was wrong
 *                                |
 *                                +--damaged--> DAMAGE_LIED: who has it says that it is right, and gives out something else
 *
 * The last copy of a morsel stays in the map though it is bad, for a disk may come to read it right again (damage_keep()). Those are
 * known, and looked at again each DAMAGE_REST_MS; of more than DAMAGE_KEPT_MAX the oldest are forgotten, until somebody reads them.
 *
 * Whatever else happens ends it: nobody is there who could look, the morsel is another one by now, who looks does not answer. The
 * reader names it again when it finds it again. What was right, or lied about, is not looked at again for DAMAGE_REST_MS.
 *
 * Bounds: DAMAGE_CASES_MAX copies, of which one reader has named DAMAGE_READER_MAX at most; each benefactor looks at
 * DAMAGE_LOOKS_MAX at a time. What finds no room is dropped.
 *
 * Invariants (damage_check()): those bounds; no copy is there twice.
 */
#ifndef MORSEL_META_DATASETS_DAMAGE_H
#define MORSEL_META_DATASETS_DAMAGE_H

#include "meta/cluster/donors.h"
#include "meta/datasets/sets.h"

enum {
    DAMAGE_CASES_MAX = 256,
    DAMAGE_READER_MAX = 64,
    DAMAGE_LOOKS_MAX = 2,
    DAMAGE_LOOK_MS = 90000, /* Who looks gives up before (benefactor/fetching_uv.h). */
    DAMAGE_RESTS_MAX = 256, /* That are remembered; older ones are looked at again. */
    DAMAGE_REST_MS = 600000,
    DAMAGE_KEPT_MAX = 256,
    DAMAGE_ACTIONS_MAX = 2 * DAMAGE_CASES_MAX
};

/* One copy. */
struct damage_copy
{
    uint64_t set;
    uint32_t morsel, length, digest;
    donor_id donor;
};

struct damage_case
{
    uint64_t order; /* 0: none. Never recurs in one run of the manager. */
    uint64_t reader;
    struct damage_copy copy;
    bool second;     /* Its own benefactor says that it is right. */
    donor_id looker; /* 0: it waits for one. */
    uint64_t looker_instance;
    uint64_t due_ms;
};

struct damage_rest
{
    uint64_t set, until_ms;
    uint32_t morsel;
    donor_id donor;
};

struct damage
{
    const struct sets *sets;     /* Borrowed. */
    const struct donors *donors; /* Likewise. */
    struct damage_case cases[DAMAGE_CASES_MAX];
    uint32_t count;
    uint64_t orders;                            /* Given so far. */
    struct damage_rest rests[DAMAGE_RESTS_MAX]; /* A ring. */
    uint32_t rest_next;
    struct damage_kept
    {
        struct damage_copy copy; /* `set` 0: none. */
        uint64_t due_ms;         /* It is looked at again. */
    } kept[DAMAGE_KEPT_MAX];     /* A ring. */
    uint32_t kept_next;

    /* For whoever asks, since the start: */
    uint64_t named; /* Copies that readers found wrong and that were looked at; of these */
    uint64_t bad, lied, right;
};

/* What who looks says of it. */
enum damage_found { DAMAGE_FOUND_RIGHT, DAMAGE_FOUND_WRONG, DAMAGE_FOUND_NOTHING };

enum damage_event_type {
    DAMAGE_NAMED, /* `reader`, a number that is its own, found `copy` wrong. */
    DAMAGE_LOOKED,
    DAMAGE_TICK
};

struct damage_event
{
    uint64_t now_ms; /* As in donors.h. */
    enum damage_event_type type;
    uint64_t reader;
    struct damage_copy copy;
    uint64_t order; /* LOOKED: as it was told. */
    donor_id looker;
    enum damage_found found;
};

struct damage_action
{
    uint64_t order;
    struct damage_copy copy;
    enum {
        DAMAGE_LOOK, /* Tell `looker` to read `copy` there, as `order`. */
        DAMAGE_BAD,
        DAMAGE_RIGHT,
        DAMAGE_LIED /* As `looker` says. */
    } type;
    donor_id looker;
};

struct damage_actions
{
    uint32_t count;
    struct damage_action items[DAMAGE_ACTIONS_MAX];
};

void damage_init(struct damage *d, const struct sets *sets, const struct donors *donors);

/* Advance by one event. The actions are to be carried out, in order, before the next step. */
void damage_step(struct damage *d, const struct damage_event *event, struct damage_actions *out);

/* The copy is bad, and stays in the map. */
void damage_keep(struct damage *d, const struct damage_copy *copy, uint64_t now_ms);

/* Copies of a set that are bad and stayed, the first `most` of them, as the map has them now. Returns how many. */
uint32_t damage_kept(const struct damage *d, uint64_t set, struct damage_copy *copies,
                     uint32_t most);

/* When DAMAGE_TICK is due; UINT64_MAX: never. Ask again after each step. */
uint64_t damage_deadline_ms(const struct damage *d);

/* CHECKs the invariants. */
void damage_check(const struct damage *d);

#endif
