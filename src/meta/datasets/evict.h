/* Which morsels of a data set are evicted to make room at benefactors, and when room is to be made.
 *
 * Pure. A set loses its morsels from the end backwards, and only as many as are needed, so that what is left of it is a prefix
 * (Tammineedi 2005, chapter 5: programs read from the beginning). Which set is the next one is for lru_k.h, and for the host, which
 * knows what is open.
 *
 * Room is made when what benefactors have left is less than the twentieth part of what they give, until it is the tenth: so who
 * stores something seldom has to wait. And it is made for who finds none.
 */
#ifndef MORSEL_META_DATASETS_EVICT_H
#define MORSEL_META_DATASETS_EVICT_H

#include "meta/datasets/sets.h"

enum {
    EVICT_LOW_PARTS = 20,
    EVICT_HIGH_PARTS = 10,
    EVICT_FOR_MORSELS =
        4 /* Who finds no room gets some for so many morsels, or up to the low mark if that is more. */
};

/* Room that is wanted at a benefactor. Where there are several, they ascend by donor. */
struct evict_want
{
    donor_id donor;
    uint64_t bytes; /* 0: there is enough. */
};

/* What benefactors that have left so much of so much are to get, all together: 0, if there is enough. */
uint64_t evict_low(uint64_t donated, uint64_t room);

/* How much room one of them is to have that has used so much of what it gives, if it can be without anything going: the high mark at most. */
uint64_t evict_room_wanted(uint64_t donated, uint64_t used);

/* What one of them is to get so that there is so much left of what it gives: the low mark or, if `high`, the high one. */
uint64_t evict_up_to(uint64_t donated, uint64_t room, bool high);

/* What one is to get on which somebody has found no room for a morsel of that size. */
uint64_t evict_for_morsels(uint64_t donated, uint64_t room, uint32_t morsel_bytes);

/* What one has left that has refused somebody since it said that there is so much room: nothing, if that was little, for others may have stored
 * something there meanwhile. */
uint64_t evict_room_left(uint64_t donated, uint64_t room, uint32_t morsel_bytes);

/* How much a morsel takes at a benefactor. */
uint64_t evict_bytes(const struct set_morsel *morsel);

/* Has anybody a morsel of the set? Walks its benefactors, not its morsels. */
bool evict_has_copies(const struct data_set *set);

/* The morsel behind the last one of the set that somebody has; 0: nobody has any. */
uint32_t evict_end(const struct data_set *set);

/* Is there something of the set where room is wanted? */
bool evict_helps(const struct data_set *set, const struct evict_want *wants, uint32_t count);

/* How many morsels of the set stay when its end goes until there is enough everywhere, or nothing more of it can go: the others are
 * those from that number on. What they take is taken off the wants. In one step not more go than one operation takes
 * (OP_EVICT_MAX, SET_WASTE_MAX). SET_MORSELS_MAX: nothing goes. */
uint32_t evict_choose(const struct data_set *set, struct evict_want *wants, uint32_t count,
                      uint32_t morsels_max);

/* How many morsels of the set stay when its end goes down to morsel `kept`, or as far as it can in one step, with the same bounds.
 * SET_MORSELS_MAX: nothing goes now, for too much of it is still to be deleted. */
uint32_t evict_down_to(const struct data_set *set, uint32_t kept, uint32_t morsels_max);

/* Until when a set that was stored then is left alone, when sets so far were first used `average_ns` behind their end. */
int64_t evict_young_until(int64_t stored_ns, int64_t average_ns);

#endif
