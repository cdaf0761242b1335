/* Where the next morsels of a set are to be put, asked for ahead.
 *
 * Pure. The manager places a stretch of morsels at a time (SET_PLACE). Who writes one after the other never waits for it:
 * the next stretch is asked for when half of one is left, and stretches get longer, from SET_PLACES_FIRST to SET_PLACES_AHEAD.
 * Somebody who jumps asks for what he needs. Who did not take bytes is named with each question for a while, and what was placed
 * with him is forgotten.
 */
#ifndef MORSEL_CLIENT_DATASETS_SET_PLACES_H
#define MORSEL_CLIENT_DATASETS_SET_PLACES_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    SET_PLACES_FIRST = 8,
    SET_PLACES_AHEAD = 64,
    SET_PLACES_MAX = 256,
    SET_FAILED_MAX = 16,
    SET_FAILED_MS = 30000,
    SET_BUSY_MS = 2000 /* Who only had too much to do. */
};

static_assert((int)SET_PLACES_AHEAD <= (int)SET_PLACE_MAX, "one question asks for so many");

struct set_places
{
    uint32_t first, count; /* What is known. */
    uint32_t copies;
    donor_id donors[SET_PLACES_MAX * REPLICAS_MAX]; /* Of each REPLICAS_MAX; 0: none. */
    uint32_t ahead;
    uint32_t failed_count;
    struct set_failed
    {
        donor_id donor;
        uint64_t until_ms;
        bool full; /* It had no room. */
    } failed[SET_FAILED_MAX];
};

void set_places_init(struct set_places *p);

/* Into `donors` (REPLICAS_MAX); how many. 0: not known. */
uint32_t set_places_get(const struct set_places *p, uint32_t number, donor_id *donors);

/* Is something to be asked for, for who has come to this morsel? Then from where, and how many. */
bool set_places_wants(struct set_places *p, uint32_t number, uint32_t *first, uint32_t *count);

/* The answer: `donors_count` of them, `copies` for each morsel from `first` on. False: it makes no sense. */
bool set_places_learn(struct set_places *p, uint32_t first, uint32_t copies, const donor_id *donors,
                      size_t donors_count);

/* One that is on its way. */
struct set_question
{
    uint32_t first, count;
    bool ahead; /* Nobody waited for the first of them when it was asked. */
};

/* It has failed: does that end the morsel, which waits for a place? One that failed ahead is forgotten: who has come to what it was about
 * asks for himself. That there is no place for the first one says nothing of those behind. */
bool set_question_ends(const struct set_question *q, int status, uint32_t number);

/* The donor did not take what was to be put there, for want of room if it was `full`; it is named from `now_ms` on for that long. */
void set_places_failed(struct set_places *p, donor_id donor, bool full, uint64_t now_ms,
                       uint64_t for_ms);

/* Those who were full are named no more: they may have room by now. */
void set_places_forgive_full(struct set_places *p);

/* Who has failed lately, into `donors` (SET_FAILED_MAX); how many. */
uint32_t set_places_list_failed(struct set_places *p, uint64_t now_ms, donor_id *donors);

#endif
