/* Which benefactors get the next morsels of a data set.
 *
 * Pure. Benefactors are sorted by free space, the first of them taken, and the stripes dealt to these round-robin; when one of
 * them is full, or away, another round is dealt (Tammineedi 2005, section 3.2). A round has `width` benefactors for each copy
 * where there are so many:
 *
 *   width 2, 2 copies, round A B C D:   stripe 0: A B   stripe 1: B C   stripe 2: C D   stripe 3: D A   stripe 4: A B   a chain, or
 *                                       stripe 0: A C   stripe 1: B D   stripe 2: C A   stripe 3: D B   stripe 4: A C   pairs
 *
 * so that the copies of a stripe lie on different benefactors and, where that can be, on different hosts. Morsels of a round
 * that a benefactor cannot take (it has refused them, has not yet deleted what it had of them, or is full) go to the next one that
 * can.
 *
 * In a chain what one does not give out readers have of both of its neighbours, and those give less of what others have, too: one that is
 * slow, or away, is made up for by all (Hsiao and DeWitt, "Chained declustering", ICDE 1990). In pairs its partner has to do all of that. But
 * more twos of a round share morsels than in pairs, and of sets that are not whole when two of them sleep there are more. So rounds of
 * benefactors that never sleep, as far as their hours are known, are chains, if neighbours are never the same machine; all others are pairs.
 *
 * Of a round of pairs the second copies (C and D above), and further ones, are dealt to those that are awake when the ones before them sleep, as
 * far as the hours of both are known (cluster/hours.h): of candidates with at least half the free space of whoever would have been next
 * that one is taken with which most hours of the week have somebody.
 *
 * What is promised is taken off the free space of the candidates until they say how much they have; nothing is written down. So
 * rounds are forgotten by a restart, and ROUNDS_MAX are remembered: another one is dealt then, which does no harm.
 */
#ifndef MORSEL_META_DATASETS_SET_PLACEMENT_H
#define MORSEL_META_DATASETS_SET_PLACEMENT_H

#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"
#include "meta/cluster/hours.h"

enum { ROUND_MAX = STRIPE_WIDTH_MAX * REPLICAS_MAX, ROUNDS_MAX = 4096 };

/* One that is here. */
struct place_candidate
{
    donor_id id;
    uint64_t free;         /* Bytes; less with each morsel that it is given. */
    uint64_t host;         /* Those with one number are one machine. */
    const uint64_t *awake; /* hours_awake(), borrowed; NULL: not known. */
};

struct place_wanted
{
    uint32_t first, count; /* Morsels, count at most SET_PLACE_MAX. */
    uint32_t copies, width, stripe_morsels, morsel_bytes;
    /* Is the benefactor to get nothing of that morsel? NULL: all may. */
    bool (*barred)(const void *data, donor_id donor, uint32_t morsel);
    const void *data;
};

struct placed
{
    uint32_t count;  /* Morsels; fewer than wanted where there is no more room. */
    uint32_t copies; /* Of each. */
    bool short_of; /* There may be more in others that are no candidates: copies, hosts or room. */
    donor_id donors[SET_PLACE_MAX * REPLICAS_MAX];
};

/* Sort by free space, the most first. */
void place_sort(struct place_candidate *candidates, uint32_t count);

/* The first of the sorted candidates that make a round, brought to the front: how many. */
uint32_t place_round(const struct place_wanted *w, struct place_candidate *candidates,
                     uint32_t count);

/* Deal to the candidates, of which the first `round` are the round. */
void place_deal(const struct place_wanted *w, struct place_candidate *candidates, uint32_t count,
                uint32_t round, struct placed *out);

/* ---- Rounds that are remembered ---- */

struct place_rounds
{
    struct place_round *by_set;
    struct list order; /* Oldest use first. */
};

struct place_round
{
    UT_hash_handle hh;
    struct list node;
    uint64_t set;
    uint32_t count;
    donor_id donors[ROUND_MAX];
};

void place_rounds_init(struct place_rounds *r);
void place_rounds_free(struct place_rounds *r);

/* NULL: there is none. */
const struct place_round *place_rounds_find(struct place_rounds *r, uint64_t set);

/* Without memory it is not remembered. */
void place_rounds_put(struct place_rounds *r, uint64_t set, const struct place_candidate *round,
                      uint32_t count);
void place_rounds_drop(struct place_rounds *r, uint64_t set);

#endif
