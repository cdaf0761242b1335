/* Which data set goes first when room is needed: LRU-K (O'Neil, O'Neil, Weikum: The LRU-K page replacement algorithm for database
 * disk buffering, SIGMOD 1993), over data sets instead of pages, as Tammineedi (2005, chapter 5) has it.
 *
 * Pure. The *backward-K distance* of a set is the time since the K-th access before now. The set with the greatest goes first. One
 * with fewer than K accesses has an infinite distance; among those the one goes first that was not used for longest (LRU).
 *
 * Correlated accesses: what one mount does with a set within `burst_ns` of a first access is one access, at the time of that: a
 * program that opens its input for each part of its work does not make it look popular. The time of its last use is kept beside.
 *
 * What is known of a set stays when its morsels are evicted: it may be stored or fetched again, and its history is not lost then.
 *
 * Bounds: LRU_K_SETS_MAX sets and LRU_K_SPARE more, 80 bytes each. Of more, those are known that go first: when the spare room is full all those that
 * go last are left out together, down to LRU_K_SETS_MAX, so that one more costs little on average, however many there are. The host tells of others when
 * there is room again (lru_k_wants_more()). A choice walks over what is known once, and asks `may_go` of each set once at most, and only of those that
 * would be among the best so far.
 *
 * Invariants (lru_k_check()): the sets ascend by number; times descend; no set has more of them than LRU_K_MAX.
 */
#ifndef MORSEL_META_DATASETS_LRU_K_H
#define MORSEL_META_DATASETS_LRU_K_H

#include "common/base/types.h"

enum {
    LRU_K_MAX = 5,
    LRU_K_DEFAULT = 3,
    LRU_K_SETS_MAX = 1 << 16, /* That are known at a time, */
    LRU_K_SPARE = 1 << 13,    /* and until they are left out. */
    LRU_K_CHOSEN_MAX = 64     /* At a time. */
};

/* When a set was used. All 0: never. Times are the manager's clock, signed since 1970. */
struct lru_k_uses
{
    uint32_t count;              /* Times below; never more than LRU_K_MAX. */
    int64_t times_ns[LRU_K_MAX]; /* The newest first. */
    int64_t last_ns; /* The last use, bursts included; without uses: when it was stored. */
};

struct lru_k_set
{
    uint64_t set;
    uint64_t mount; /* Whose access was the last one; 0: not known. */
    struct lru_k_uses uses;
};

struct lru_k
{
    uint32_t k;              /* 1 to LRU_K_MAX. */
    int64_t burst_ns;        /* 0: each access counts. */
    struct lru_k_set *items; /* Ascending by set; room for so many: */
    uint32_t room, count;
    bool left_out; /* Sets were, for want of room. */
};

void lru_k_init(struct lru_k *l, uint32_t k, int64_t burst_ns);
void lru_k_free(struct lru_k *l);

/* The set is there, with these uses: its own are forgotten. MORSEL_NOMEM. */
int lru_k_put(struct lru_k *l, uint64_t set, const struct lru_k_uses *uses);

/* The mount uses it now. A set that is not known is learned with this use as its only one. MORSEL_NOMEM. */
int lru_k_use(struct lru_k *l, uint64_t set, uint64_t mount, int64_t now_ns);

/* It is gone for good. */
void lru_k_drop(struct lru_k *l, uint64_t set);

/* Only those stay of which `keeps` says so. One walk. */
void lru_k_retain(struct lru_k *l, bool (*keeps)(void *data, uint64_t set), void *data);

/* The first known set with that number or a higher one; NULL: none. Until the next change. */
const struct lru_k_set *lru_k_next(const struct lru_k *l, uint64_t from);

/* NULL: not known. Until the next change. */
const struct lru_k_uses *lru_k_find(const struct lru_k *l, uint64_t set);

/* The one that goes first, of those that may go. False: none may. */
bool lru_k_choose(const struct lru_k *l, bool (*may_go)(void *data, uint64_t set), void *data,
                  uint64_t *set);

/* Up to `max` of them into `chosen`, in the order in which they go; how many. */
uint32_t lru_k_choose_some(const struct lru_k *l, bool (*may_go)(void *data, uint64_t set),
                           void *data, uint64_t *chosen, uint32_t max);

/* Would a set with the uses `a` go before one with `b`? */
bool lru_k_goes_before(uint32_t k, const struct lru_k_uses *a, const struct lru_k_uses *b);

/* Sets were left out, and half of the room is free again: put those that are not known. Asked once, it is false until some are left
 * out again. */
bool lru_k_wants_more(struct lru_k *l);

/* CHECKs the invariants. */
void lru_k_check(const struct lru_k *l);

#endif
