/* Can clients reach a benefactor? It calls the manager, and so it is here although a firewall of its machine may let nobody in, or the address that it
 * names may be nobody's.
 *
 * Pure: times in, whom to knock at out. The manager stands for the clients: it connects to where they would (doors_uv.h), when one has
 * joined and every DOOR_OPEN_MS after that.
 *
 *   open --DOOR_FAILURES knocks in a row in vain, DOOR_AGAIN_MS apart--> shut --one that is heard--> open
 *
 * Nothing new is placed on one that is shut; what it has counts, for clients may know better than the manager. When more than half of those that are
 * here are shut the manager knows that it is its own way out that is, and none of them is taken for it.
 */
#ifndef MORSEL_META_CLUSTER_DOORS_H
#define MORSEL_META_CLUSTER_DOORS_H

#include "meta/cluster/donors.h"

enum {
    DOORS_AT_ONCE = 16,
    DOOR_KNOCK_MS = 3000,
    DOOR_AGAIN_MS = 5000,
    DOOR_SHUT_MS = 60000,
    DOOR_OPEN_MS = 600000,
    DOOR_FAILURES = 2
};

enum door_news { DOOR_AS_BEFORE, DOOR_SHUT, DOOR_OPENED };

/* At whom it is time to knock: first who has joined since the last knock, then the next one behind the last, so that many silent ones
 * keep nobody from being knocked at; the caller does, and says what came of it. NULL: at nobody. */
struct donor *doors_next(struct donors *d, uint64_t now_ms);

/* What came of it: somebody has opened at that address, or nobody. */
enum door_news doors_knocked(struct donors *d, donor_id id, const char *address, bool open,
                             uint64_t now_ms);

/* Is that one shut, as far as the manager can know? */
bool doors_is_shut(const struct donors *d, const struct donor *donor);

/* May something new be put there? */
bool doors_may_get(const struct donors *d, const struct donor *donor);

#endif
