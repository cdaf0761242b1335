/* How many morsels are fetched from an origin with one question.
 *
 * Pure. Who reads in order gets longer and longer stretches, for each question costs a round trip and more; who jumps gets the morsel that
 * he wants. So little is fetched that nobody reads, and a long tail comes with few questions.
 */
#ifndef MORSEL_CLIENT_DATASETS_ORIGIN_PACE_H
#define MORSEL_CLIENT_DATASETS_ORIGIN_PACE_H

#include "common/base/types.h"

enum {
    ORIGIN_PART_BYTES_MAX = 16 << 20, /* One question asks for no more, or for one morsel, */
    ORIGIN_PARTS_OF_SET_MAX = 2,      /* and so many run at a time, */
    ORIGIN_PARTS_MAX = 4 /* of all sets of a mount that come from the web, and of all others. */
};

/* Zeros: nothing was asked for. */
struct origin_pace
{
    uint32_t next;  /* The morsel behind the last stretch. */
    uint32_t count; /* That one had so many. */
};

/* So many are to be asked for from that morsel on, 1 at least. Where fewer can be, say so with origin_pace_took(). */
uint32_t origin_pace_count(const struct origin_pace *pace, uint32_t morsel, uint32_t morsel_bytes);

/* No stretch has more. */
uint32_t origin_pace_most(uint32_t morsel_bytes);

/* They are had otherwise: what lies behind them follows all the same. */
void origin_pace_skip(struct origin_pace *pace, uint32_t morsel, uint32_t count);

/* They were asked for. */
void origin_pace_took(struct origin_pace *pace, uint32_t morsel, uint32_t count);

#endif
