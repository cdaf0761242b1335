/* What a mount knows of names and attributes, and which leases allow it to (docs/leases.md).
 *
 * Pure. A table of inodes, each with the lease that we hold on it, and of names in directories.
 * Every entry is allowed by a lease: attributes and a file's layout by one on the inode, names and
 * absences by one on the directory. Whether the leases themselves are still valid (their lease period) is
 * the caller's question: when they are not, it drops everything.
 *
 * Replies of the manager are told in the order in which they arrive, which is the order in which it
 * made them. While a recall of an inode is being answered (meta_cache_recalling()) what replies say
 * of its lease is passed over: the manager does not count on it either.
 *
 * A directory is complete when all of its names are here: then a name that is not here does not
 * exist. It becomes so by a listing from end to end during which nothing was dropped
 * (meta_cache_listing()), or by birth.
 *
 * Bounded: the least recently used inodes and names go first; inodes that are pinned (open, or with
 * changes that are not written back yet) stay. Leases of inodes that went are to be given back:
 * meta_cache_pop_evicted().
 */
#ifndef MORSEL_CLIENT_COHERENCE_META_CACHE_H
#define MORSEL_CLIENT_COHERENCE_META_CACHE_H

#include "client/coherence/kernel_known.h"
#include "common/base/limits.h"
#include "common/base/types.h"
#include "common/fs/lease_mode.h"
#include "meta.pb-c.h"

struct meta_cache;

/* NULL: out of memory. */
struct meta_cache *meta_cache_new(uint32_t inodes_max, uint32_t names_max);
void meta_cache_free(struct meta_cache *c); /* NULL is allowed. */

/* ---- Inodes ---- */

/* A reply says how the inode is, and that we hold `mode` on it. With LEASE_NONE what was known is
 * dropped. `layout` NULL: unknown; an older one stays. */
void meta_cache_learn(struct meta_cache *c, const Morsel__Attr *attr, enum lease_mode mode,
                      const Morsel__Layout *layout);

enum lease_mode meta_cache_mode(const struct meta_cache *c, inode_id inode);

/* A number of the lease, as long as some is held without a gap: nobody else has changed the inode since that
 * number was first told. 0: none is held. */
uint64_t meta_cache_since(const struct meta_cache *c, inode_id inode);

/* NULL: not known. Valid until the next call that changes the table. */
const Morsel__Attr *meta_cache_attr(struct meta_cache *c, inode_id inode);
const Morsel__Layout *meta_cache_layout(const struct meta_cache *c, inode_id inode);

/* To be changed in place under W: what is written back later. NULL: not known, or not W. */
Morsel__Attr *meta_cache_attr_mut(struct meta_cache *c, inode_id inode);

/* One more (+1) or less (-1) of our changes of mode, owner or times is under way: while there are
 * any, what replies say of those may be older than what is here, and is passed over. The rest of
 * the attributes (size, links, version of the data) is in no such change, and right in every reply.
 */
void meta_cache_dirty(struct meta_cache *c, inode_id inode, int change);

/* A reply says this of the inode, and is going to be told to somebody: what is passed over, as above, becomes what is here. */
void meta_cache_overlay(const struct meta_cache *c, Morsel__Attr *attr);

/* The manager has taken our writes, the last of which has these times. To be told after
 * meta_cache_learn(), which passes times over while changes are under way. */
void meta_cache_wrote(struct meta_cache *c, inode_id inode, uint64_t mtime_ns, uint64_t ctime_ns);

/* Forget what a lease of mode `keep` does not allow, and the lease above it. */
void meta_cache_drop(struct meta_cache *c, inode_id inode, enum lease_mode keep);
void meta_cache_drop_all(struct meta_cache *c);

/* A recall of the inode is being answered, or has been. */
void meta_cache_set_recalling(struct meta_cache *c, inode_id inode, bool recalling);

void meta_cache_pin(struct meta_cache *c, inode_id inode);
void meta_cache_unpin(struct meta_cache *c, inode_id inode);

/* A lease to be given back unasked, because of memory, and what the kernel may still hold of it. */
struct meta_cache_evicted
{
    inode_id inode;
    struct kernel_known kernel;
};

bool meta_cache_has_evicted(const struct meta_cache *c);
/* False: none. */
bool meta_cache_pop_evicted(struct meta_cache *c, struct meta_cache_evicted *evicted);

/* Our change is not in the attributes that are here: forget them, not the lease. */
void meta_cache_forget_attr(struct meta_cache *c, inode_id inode);

/* All inodes with a lease. `visit` must not change the table. */
typedef void (*meta_cache_visit)(void *data, inode_id inode, enum lease_mode mode);
void meta_cache_each(const struct meta_cache *c, meta_cache_visit visit, void *data);

/* ---- Names ---- */

enum meta_cache_answer { META_CACHE_MISS, META_CACHE_FOUND, META_CACHE_ABSENT };

enum meta_cache_answer meta_cache_find(struct meta_cache *c, inode_id parent, const char *name,
                                       inode_id *inode);

/* `inode` INODE_NONE: there is no such name. Without a lease on the directory nothing is kept. */
void meta_cache_learn_name(struct meta_cache *c, inode_id parent, const char *name, inode_id inode);
void meta_cache_forget_name(struct meta_cache *c, inode_id parent, const char *name);

/* We have just made the directory under a lease: it is empty. */
void meta_cache_born(struct meta_cache *c, inode_id directory);

/* Changes when a listing that is under way can no longer make the directory complete; 0: no lease.
 */
uint64_t meta_cache_listing(const struct meta_cache *c, inode_id directory);

/* A listing that began when meta_cache_listing() said `began` has come to its end. */
void meta_cache_listed(struct meta_cache *c, inode_id directory, uint64_t began);
bool meta_cache_complete(const struct meta_cache *c, inode_id directory);

/* Names in the directory that were asked for and not known since it was learned: it may be worth reading
 * as a whole. 0 when that has been tried. */
uint32_t meta_cache_misses(const struct meta_cache *c, inode_id directory);
void meta_cache_note_prefetch(struct meta_cache *c, inode_id directory);

/* What the kernel may hold of it, to be kept up to date. NULL: the inode is not in the table. Valid
 * until the next call that changes the table. */
struct kernel_known *meta_cache_kernel(struct meta_cache *c, inode_id inode);

struct meta_cache_counters
{
    uint64_t inodes, names;
    uint64_t found, absent, missed, evicted;
};
void meta_cache_count(const struct meta_cache *c, struct meta_cache_counters *counters);

/* The invariants, for tests: O(of all that is here). What is known a lease allows, and what is here
 * without one something keeps that is under way; each is found, and counted once. */
void meta_cache_check(const struct meta_cache *c);

#endif
