/* A benefactor that does not come back is forgotten: what it has leaves the maps, a stretch at a time.
 *
 * Pure. First all is looked at that the maps say it has: is a morsel among it that no benefactor has that is here, and that nobody can fetch
 * again? Such a one is not forgotten, unless an administrator says so all the same. Then the same walk names what leaves the maps,
 * and looks again: what became the only copy meanwhile stays.
 *
 * A walk goes on where it was, by set and morsel, however the maps have changed between two steps. */
#ifndef MORSEL_META_DATASETS_FORGET_H
#define MORSEL_META_DATASETS_FORGET_H

#include "meta/cluster/donors.h"
#include "meta/datasets/sets.h"
#include "meta/namespace/op.h"

enum {
    FORGET_LOOKS = 16384, /* Morsels in a step, and sets; */
    FORGET_RUNS = 1024    /* and stretches that leave the maps. */
};

struct forget
{
    donor_id donor;
    bool forced;
    uint64_t set; /* The walk goes on with this set, */
    uint32_t morsel;
    uint64_t sets,
        morsels; /* Nobody else has so many morsels, of so many sets, as far as the walk came. */
    uint64_t last_set; /* The last of these. */
};

/* A walk begins. */
void forget_begin(struct forget *f, donor_id donor, bool forced);

/* A step of it. True: it has come to its end. */
bool forget_look(struct forget *f, const struct sets *sets, const struct donors *donors);

/* What leaves the maps now: ascending stretches, into `runs` with room for FORGET_RUNS. Without `forced` it
 * ends at what nobody else has, which `morsels` says then. True: it has come to its end. */
bool forget_lose(struct forget *f, const struct sets *sets, const struct donors *donors,
                 struct op_run *runs, uint32_t *count);

#endif
