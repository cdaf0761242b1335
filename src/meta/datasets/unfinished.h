/* Data sets that were begun and that nobody goes on with: which one's time comes next, and what becomes of it.
 *
 * Pure. A set that is not sealed, that no mount has open, and that nothing was written to, staged into or reserved for some time, is let go.
 * What has no origin and is not scratch is never thrown away: it stays, and is told of.
 *
 *   sets --a few in each step--> those not sealed --their time comes--> fate
 *                                      ^                                  |  open, changed meanwhile: later again
 *                                      +----------------------------------+  data: told of, and looked at again
 *
 * Sets are found by walking them in bounded steps, so that no operation has to tell of those that it makes; those that are not sealed wait
 * in a heap, in the order of their times. Who asks for the next one looks whether its time has really come, for only he knows
 * when its file was changed last, and whether it is open.
 *
 * Invariants (unfinished_check()): each waits in the heap, once; those that are told of are counted.
 *
 * Bounded: UNFINISHED_MAX at a time, of some 150 bytes each; of more, others are found when these are gone. */
#ifndef MORSEL_META_DATASETS_UNFINISHED_H
#define MORSEL_META_DATASETS_UNFINISHED_H

#include "common/base/heap.h"
#include "common/base/table.h"
#include "meta/datasets/sets.h"

enum { UNFINISHED_MAX = 65536 };

/* What becomes of a set whose time has come. */
enum unfinished_fate {
    UNFINISHED_NOTHING, /* There is nothing to be let go. */
    UNFINISHED_CANCEL,  /* It was reserved, and nothing was stored: it is not reserved any more. */
    UNFINISHED_RESTART, /* It has an origin: its bytes go, and it begins anew from there. */
    UNFINISHED_EMPTY,   /* It is scratch: its bytes go. */
    UNFINISHED_STAYS    /* It is data, or pinned. */
};

/* `size`: of its file. */
enum unfinished_fate unfinished_fate(const struct data_set *set, uint64_t size);

/* One that is not sealed. */
struct unfinished_set
{
    uint64_t number;
    UT_hash_handle hh;
    struct heap_node due; /* Nanoseconds of the clock of files. */
    int64_t quiet_ns; /* It stays, and is told of: nothing was done to it since; 0: it is not. */
};

struct unfinished
{
    struct unfinished_set *by_number;
    struct heap due;
    uint32_t count;
    uint32_t told; /* Of these are told of. */
    uint64_t from; /* The walk goes on with this set. */
};

void unfinished_init(struct unfinished *u);
void unfinished_free(struct unfinished *u);

/* Look at so many sets, from where the last step ended, around and around. One that is not sealed and was not known is due at
 * `made + patience`, or at `earliest_ns` if that is later. Without memory it is found in another round. */
void unfinished_learn(struct unfinished *u, const struct sets *sets, uint32_t looks,
                      int64_t patience_ns, int64_t earliest_ns);

/* The one whose time comes first, if it has come; 0: none. */
uint64_t unfinished_next(const struct unfinished *u, int64_t now_ns);

/* One of those: it is looked at again then, and is not told of; or is told of, as quiet since that time; or is no more of these. */
void unfinished_again(struct unfinished *u, uint64_t number, int64_t at_ns);
void unfinished_tell(struct unfinished *u, uint64_t number, int64_t quiet_ns, int64_t at_ns);
void unfinished_forget(struct unfinished *u, uint64_t number);

/* Since when nothing was done to a set that is told of; 0: it is not. */
int64_t unfinished_quiet_ns(const struct unfinished *u, uint64_t number);

/* CHECKs the invariants. Walks all. */
void unfinished_check(const struct unfinished *u);

#endif
