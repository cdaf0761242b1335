/* All data sets and their maps, in memory: which morsels there are, and which benefactors have them.
 *
 * Pure. The store has the same (set_record.h); this is filled from it when the manager starts, and follows it with each
 * operation that is committed (namespace_sets.c): room is made before (sets_reserve()), so that nothing can fail behind the
 * commit. A morsel takes 12 bytes and 4 for each copy that is wanted. A page of a map is found at once; what a benefactor has,
 * by the list of the sets of which it has a part.
 *
 *   set    --> pages --> morsels --> donors
 *   donor  --> sets of which it has, or once had, a part; where its waste begins
 *
 * *Waste* is what lies at a benefactor and belongs to no map any more. It is only in the store (K); here is how much each
 * benefactor has, and of sets that live the morsels themselves: what is about to be deleted there must not come to count as a
 * copy, for the deletion may already be on its way.
 *
 * Invariants (sets_check()):
 *  - the sets ascend by number; their counts are those of their morsels;
 *  - a benefactor that has a morsel is among the donors of the set, and the set among its sets.
 */
#ifndef MORSEL_META_DATASETS_SETS_H
#define MORSEL_META_DATASETS_SETS_H

#include "meta/datasets/set_record.h"

enum {
    SET_WASTE_MAX = 4096 /* Morsels of one living set: what is beyond is found when the benefactor
                            says what it has. */
};

struct set_page;

struct set_donor
{
    donor_id id;
    uint32_t morsels; /* Copies that it has; may be 0. */
};

struct set_waste
{
    donor_id donor;
    uint32_t morsel;
};

struct data_set
{
    struct set_head head;
    struct set_page **pages; /* NULL where nothing was ever stored; room for so many: */
    uint32_t pages_room;
    struct set_donor *donors; /* Ascending by id. */
    uint32_t donor_count, donors_room;
    struct set_waste *waste; /* In no order. */
    uint32_t waste_count, waste_room;
    uint32_t morsels;   /* Stored ever; */
    uint32_t thin;      /* have fewer copies than are wanted; */
    uint32_t fat;       /* have more, also such as are not here; */
    uint32_t rewriting; /* have no digest. */
};

/* What is to be known of one benefactor. */
struct donor_sets
{
    donor_id id;
    uint64_t *sets; /* Ascending. */
    uint32_t count, room;
    uint64_t waste;     /* K records. */
    uint64_t floor_set; /* It has none below this set, and morsel of it. */
    uint32_t floor_first;
};

struct sets
{
    struct data_set **items; /* Ascending by number. */
    uint32_t count, room;
    struct data_set *pending;  /* Room for one that may be made next; NULL: none. */
    struct donor_sets *donors; /* Ascending by id. */
    uint32_t donor_count, donors_room;
    uint64_t fat; /* Morsels that have more copies than are wanted. */
};

/* Becomes, in its set, what it says. */
struct set_change
{
    uint64_t set;
    struct set_morsel morsel;
};

void sets_init(struct sets *s);
void sets_free(struct sets *s);

/* ---- Looking ---- */

/* NULL: there is none. */
const struct data_set *sets_find(const struct sets *s, uint64_t number);

/* The first whose number is not below that, as an index into items; count: there is none. */
uint32_t sets_from(const struct sets *s, uint64_t number);

/* The first morsel that was ever stored whose number is not below `from`. False: there is none. */
bool set_next(const struct data_set *set, uint32_t from, struct set_morsel *morsel);
bool set_get(const struct data_set *set, uint32_t number, struct set_morsel *morsel);

/* Bytes of the file that no copy has which counts, up to `end`, in whole morsels: the first ones from `from` on (a multiple of
 * `morsel_bytes`). A morsel that is shorter than it is to be is missing. NULL: all are. False: none are. */
struct set_range
{
    uint64_t offset, length;
};
bool set_missing(const struct data_set *set, uint32_t morsel_bytes, uint64_t from, uint64_t end,
                 struct set_range *range);

bool set_is_waste(const struct data_set *set, donor_id donor, uint32_t morsel);

/* How many morsels of the set the benefactor has. */
uint32_t set_morsels_at(const struct data_set *set, donor_id donor);

/* The first of its sets whose number is not below that, as an index; count: there is none. */
uint32_t donor_sets_from(const struct donor_sets *d, uint64_t number);

/* NULL: nothing was ever there. */
const struct donor_sets *sets_of_donor(const struct sets *s, donor_id donor);

/* Is the donor among those of the morsel? */
bool set_morsel_has(const struct set_morsel *morsel, donor_id donor);

/* ---- Changing ---- */

/* Room for these changes of the set, which is made by them when it is not there yet, and for so much waste of it.
 * MORSEL_NOMEM; MORSEL_TOO_LARGE: there are as many sets as there may be. */
int sets_reserve(struct sets *s, const struct set_head *head, const struct set_change *changes,
                 uint32_t count, uint32_t waste);

/* The page as it will be, for the store. The changes are those of one set, ascending; NULL with `set`: it is new. */
void set_page_encode(const struct data_set *set, uint32_t page, const struct set_change *changes,
                     uint32_t count, struct buf *out);

/* It is there from now on. There is room. */
void sets_made(struct sets *s, const struct set_head *head);
void sets_apply(struct sets *s, const struct set_change *changes, uint32_t count);
/* The head of its set becomes this; copies, morsel size and file are what they were. */
void sets_change_head(struct sets *s, const struct set_head *head);
void sets_remove(struct sets *s, uint64_t number);

/* ---- Waste ---- */

/* Room to count the waste of that benefactor. MORSEL_NOMEM. */
int sets_reserve_donor(struct sets *s, donor_id donor);

/* A record has been put which was not there before (`fresh`), or grew. */
void sets_wasted(struct sets *s, donor_id donor, uint64_t set, uint32_t first, uint32_t count,
                 bool fresh);

/* A record is gone. */
void sets_collected(struct sets *s, donor_id donor, uint64_t set, uint32_t first);

/* Who looked from the floor on found this first. */
void sets_floor_found(struct sets *s, donor_id donor, uint64_t set, uint32_t first);

/* CHECKs the invariants. Walks all. */
void sets_check(const struct sets *s);

#endif
