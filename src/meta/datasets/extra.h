/* What is read most gets a copy more than its set wants, while there is plenty of room (design: scavenging.md, Cache).
 *
 * Pure; built on repair (repair.h), whose fetches it uses, and on heat (heat.h). A morsel is hot enough as long as one of its copies
 * is read EXTRA_READS times, aged; all copies share the reads, so one more makes it less hot by itself. There is plenty of room while half of
 * what all benefactors give is free.
 *
 *   wanted copies --hot enough, plenty of room--> one more (the map has room for SET_SURPLUS)
 *   one more --as hot as EXTRA_KEPT_READS, and a quarter is free--> it stays
 *            --otherwise--> a surplus as any other: repair.h drops it after a day, surplus.h as soon as room is wanted
 *
 * Nobody's morsel goes for one, no morsel that is short waits for one: they come behind all that is short and hot.
 */
#ifndef MORSEL_META_DATASETS_EXTRA_H
#define MORSEL_META_DATASETS_EXTRA_H

#include "meta/datasets/repair.h"

enum { EXTRA_READS = 16, EXTRA_KEPT_READS = 4 };

/* Fetches of such copies begin, as long as there is room for fetches and benefactors have nothing else to do. */
void extra_fetch(struct repair *r, uint64_t now_ms, struct repair_actions *out);

/* Does the copy that is one too many stay for that reason? */
bool extra_stays(const struct repair *r, const struct data_set *set, uint32_t morsel);

#endif
