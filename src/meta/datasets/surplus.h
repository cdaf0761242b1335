/* Copies beyond what their sets want are given up where room is needed, before any set loses a morsel (evictions_uv.h).
 *
 * Pure; built on repair (repair.h), which keeps such a copy for a day when a machine comes back that was missed: as long as there is
 * room. A copy is a *surplus* when as many others count as the set wants, which is what relocate.h goes by, too: so the last
 * one that is good is never given up, nor one that leaves the morsel short, whoever is away; nor, where two or more are wanted, one that leaves all
 * others on one machine, of which none was its own: there one of those others is the surplus, where room is wanted.
 *
 *   room is wanted at a benefactor --walk--> FOUND (it is given up, in the map first) ... --> NONE: for a while nobody looks again
 *                                      \--> LATER: it goes on there, with the next step
 *
 * What is read most (heat.h) goes behind all else that the benefactor has of it.
 *
 * Looking costs nothing where no morsel is named more often than is wanted (sets.h, fat). Where many are, of which some copies are away,
 * a step looks at SURPLUS_LOOKS at most, the next one goes on there, and a walk that has found none is not begun again for a while.
 */
#ifndef MORSEL_META_DATASETS_SURPLUS_H
#define MORSEL_META_DATASETS_SURPLUS_H

#include "meta/datasets/copies_at.h"

enum {
    SURPLUS_LOOKS = 1 << 15,         /* Of a step in time: a millisecond or two; */
    SURPLUS_REQUEST_LOOKS = 1 << 12, /* of one for a request, which others wait behind. */
    SURPLUS_STEP_MAX = 256           /* Copies that go in a step. */
};

/* A walk that is not over. All 0: there is none. */
struct surplus_walk
{
    donor_id donor; /* At whom; 0: at nobody. */
    struct repair_place at;
    bool hot_too; /* The second time, for what is read most. */
};

enum surplus_found {
    SURPLUS_FOUND,
    SURPLUS_NONE, /* There is none, or was none a moment ago. */
    SURPLUS_LATER /* The looks are used up. */
};

/* The next copy at that benefactor, which is known, that can be given up: set, morsel, length and target of `task`, as in REPAIR_DROP.
 * When the map has changed, surplus_gone() is told; when it cannot be, the next call finds the same. */
enum surplus_found surplus_next(struct repair *r, struct surplus_walk *walk, donor_id id,
                                uint64_t now_ms, uint32_t *looks, struct repair_task *task);

/* What was found has left the map. */
void surplus_gone(struct repair *r, const struct repair_task *task);

#endif
