/* What is here, told to the manager in pages; and stretches of morsels.
 *
 * Pure. A *page* names all morsels in a stretch of the order by (set, morsel): the stretch begins where the page before it ended,
 * the first one with the first morsel that there could be, and ends with the last morsel that it names; the last one ends nowhere.
 * So the pages together say of every morsel whether it is here. A page is told again until it was answered, and all of them from
 * the first one on when the manager is another connection.
 */
#ifndef MORSEL_BENEFACTOR_HELD_H
#define MORSEL_BENEFACTOR_HELD_H

#include "common/base/limits.h"
#include "common/base/types.h"

/* Morsels of a set from `first` on. */
struct morsel_run
{
    uint64_t set;
    uint32_t first, count;
};

struct held
{
    struct object_id *ids; /* All of them, ascending. Owned. */
    size_t count;
    size_t next; /* The first one of the page that is to be told. */
    bool over;   /* All was told. */
};

struct held_page
{
    bool begins;             /* It is the first one; otherwise its stretch begins with */
    struct object_id from;   /* this morsel. */
    struct morsel_run *runs; /* Room for SET_RUNS_MAX, the caller's. */
    size_t runs_count;
    size_t end; /* The first one behind it. */
    bool last;
};

/* Take `count` of `ids`, in any order, each once; the memory is taken over (may be NULL with 0). */
void held_take(struct held *held, struct object_id *ids, size_t count);

/* The page that is to be told, into `page`, whose `runs` are there. */
void held_page(const struct held *held, struct held_page *page);

/* It was answered. */
void held_told(struct held *held, const struct held_page *page);

/* From the first page on. */
void held_again(struct held *held);

void held_free(struct held *held);

/* Sort stretches and join those that overlap or touch, in place; how many there are then. Empty ones go, and what
 * goes beyond the last number that there is is cut off. */
size_t runs_join(struct morsel_run *runs, size_t count);

/* Is the morsel in one of stretches that runs_join() has made? */
bool runs_have(const struct morsel_run *runs, size_t count, struct object_id morsel);

/* How many morsels they could have together. */
uint64_t runs_sum(const struct morsel_run *runs, size_t count);

#endif
