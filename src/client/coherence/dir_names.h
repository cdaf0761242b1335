/* Names in directories, and what is known of those that are not here.
 *
 * Pure. One table for the names of all directories; each directory has a struct dir_names of its own,
 * which is the caller's, and says whether all of its names are here (complete): then a name that is
 * not here does not exist. It becomes so by birth, or by a listing from end to end during which
 * nothing went. Whether any of it may be believed is the caller's question (meta_cache.h).
 *
 *   learned -> found ... -> forgotten, or for want of room the least recently used of all goes
 *
 * Whatever goes ends `complete` of its directory, and any listing of it that is under way.
 */
#ifndef MORSEL_CLIENT_COHERENCE_DIR_NAMES_H
#define MORSEL_CLIENT_COHERENCE_DIR_NAMES_H

#include "common/base/list.h"
#include "common/base/types.h"

/* Of all directories. For others to read only. */
struct name_table
{
    uint32_t count, max;
    uint32_t buckets; /* A power of two. */
    struct list *table;
    struct list lru; /* Least recently used first. */
    uint64_t last_listing;
};

/* Of one. For others to read, but for `misses` and `prefetched`, which are the caller's. */
struct dir_names
{
    inode_id directory;
    struct list names;
    bool complete;
    uint64_t
        listing; /* Changes when a listing that is under way can not make it complete any more. */
    uint32_t misses; /* Asked for and not known, since the names were dropped last. */
    bool prefetched; /* Read as a whole, or as much of it as that takes, since then. */
};

/* MORSEL_NOMEM. A name takes about 100 bytes. */
int name_table_init(struct name_table *t, uint32_t max);

/* No directory has names. Harmless when it was not made. */
void name_table_free(struct name_table *t);

/* Nothing is known of it. */
void dir_names_init(struct name_table *t, struct dir_names *d, inode_id directory);

/* Forget all of it. */
void dir_names_drop(struct name_table *t, struct dir_names *d);

/* True: it is here, and `*inode_out` says which inode it is, INODE_NONE: there is no such name. */
bool dir_names_find(struct name_table *t, const struct dir_names *d, const char *text,
                    inode_id *inode_out);

/* `inode` INODE_NONE: there is no such name. Without memory it is not known. */
void dir_names_learn(struct name_table *t, struct dir_names *d, const char *text, inode_id inode);

/* Harmless when it is not here, but for listings under way. */
void dir_names_forget(struct name_table *t, struct dir_names *d, const char *text);

/* The invariants of one directory, for tests; returns how many names it has. Those of all together
 * are `count`. */
uint32_t dir_names_check(const struct name_table *t, const struct dir_names *d);
void name_table_check(const struct name_table *t);

#endif
