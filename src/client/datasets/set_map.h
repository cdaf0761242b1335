/* What a mount knows of the map of a data set: which morsels were stored, and who has them.
 *
 * Pure. Pages of SET_MAP_PAGE morsels are learned from the manager as a whole, and of SET_MAP_PAGES_MAX the one that was looked
 * at longest ago is forgotten for another one. Of a set that was begun here and that nobody else has stored anything of, what is not
 * known was never stored: such a map is *ours* as long as nothing of it was forgotten.
 *
 * Who has a morsel is a hint, for benefactors come and go: who finds none of them forgets the page, and asks again. Its
 * length and digest hold as long as nobody writes: that is a matter of leases, and of who calls set_map_forget_all().
 */
#ifndef MORSEL_CLIENT_DATASETS_SET_MAP_H
#define MORSEL_CLIENT_DATASETS_SET_MAP_H

#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/types.h"

enum {
    SET_MAP_PAGE = 256,
    SET_MAP_PAGES_MAX = 64,
    SET_COPIES_MAX = REPLICAS_MAX + 1 /* One that was away may have come back. */
};

struct set_entry
{
    bool stored;    /* Ever. If not, it is zeros. */
    bool rewriting; /* The digest is not known. */
    bool evicted;   /* Nobody has it, and nobody is going to. */
    uint8_t donor_count;
    donor_id donors[SET_COPIES_MAX];
    uint32_t length, digest;
};

struct set_map_page;

struct set_map
{
    struct set_map_page *pages;
    struct list used; /* The last at the end. */
    uint32_t count;
    bool ours;
};

void set_map_init(struct set_map *map, bool ours);
void set_map_free(struct set_map *map);

/* False: it is not known. */
bool set_map_get(struct set_map *map, uint32_t morsel, struct set_entry *entry);

/* The page of the morsel becomes known, with nothing stored; what it said before is gone. MORSEL_NOMEM: it is as it
 * was. */
int set_map_begin(struct set_map *map, uint32_t morsel);

/* Where the page is known, or the map is ours, the morsel is so from now on. */
void set_map_put(struct set_map *map, uint32_t morsel, const struct set_entry *entry);

/* The page of that morsel is not known any more; all of them. */
void set_map_forget(struct set_map *map, uint32_t morsel);
void set_map_forget_all(struct set_map *map);

#endif
