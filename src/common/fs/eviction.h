/* Eviction of a data set, as its owner sees it: the extended attributes of its file.
 *
 * Pure. One place for the spelling, because the manager writes it and `morsel` reads it.
 *
 *   user.morsel.eviction   why it does not go now, a word of eviction_word(); cannot be set
 *   user.morsel.kept       bytes of its beginning that were not evicted. Set to less, the end goes behind so many bytes, in whole
 *                          morsels; where that are many, a part of it goes, and it is to be set once more
 */
#ifndef MORSEL_COMMON_FS_EVICTION_H
#define MORSEL_COMMON_FS_EVICTION_H

#include "common/base/types.h"

#define EVICTION_XATTR "user.morsel.eviction"
#define KEPT_XATTR     "user.morsel.kept"

enum { EVICTION_TEXT_MAX = 32 }; /* Of both values, with the final zero. */

/* Why the set does not go now. Numbers of the wire. */
enum eviction_state {
    EVICTION_UNKNOWN, /* Of another version. */
    EVICTION_FREE,    /* It may. */
    EVICTION_DATA,    /* There is no other copy: it never does. */
    EVICTION_STORING, /* It is not sealed. */
    EVICTION_PINNED,
    EVICTION_OPEN,  /* On a mount, or might be. */
    EVICTION_YOUNG, /* It was stored a moment ago. */
    EVICTION_STATES
};

/* "may go", "is data" ... */
const char *eviction_word(enum eviction_state state);

/* Back from the word, which need not end with a zero: EVICTION_UNKNOWN where it is none. */
enum eviction_state eviction_find(const char *word, size_t count);

/* What of a set is to be kept: a size ("2G"), or a part of it ("30%", 0 to 100). */
struct eviction_keep
{
    bool percent;
    uint64_t value; /* Bytes, or percent. */
};

/* False: it is neither. */
bool eviction_keep_parse(const char *text, struct eviction_keep *keep);

/* Bytes of a set that has so many; rounded down. */
uint64_t eviction_keep_of(const struct eviction_keep *keep, uint64_t size);

#endif
