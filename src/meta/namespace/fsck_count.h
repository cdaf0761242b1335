/* Do the names point to inodes as often as the inodes say? In memory of fixed size, and with one
 * walk over all entries where everything is right.
 *
 * Pure. Two instruments:
 *
 * Sums. Each name adds a hash of what it points to (and of the directory that it is in), each inode
 * takes away what it expects, in one of FSCK_BUCKETS sums modulo 2^64. A sum that is not zero at
 * the end belongs to inodes of which one at least disagrees: its bucket is *suspect*. (Wrong counts
 * that add up to zero by chance: once in 2^64. The same idea as comparing sets by sums of hashes:
 * Clarke et al., "Incremental multiset hash functions", ASIACRYPT 2003.)
 *
 * Tallies. For the inodes of suspect buckets names are counted exactly, in a table of
 * FSCK_TALLIES inodes. Where these are too many, a pass takes on half of the buckets, and so on:
 *
 *   sums -> fsck_count_begin_pass() -> tallies (full? begin_pass() takes fewer) -> again, until it
 *   returns false
 *
 * What changes while the walks go on is added by the caller on both sides, each if the walk of that
 * side is past the record. */
#ifndef MORSEL_META_NAMESPACE_FSCK_COUNT_H
#define MORSEL_META_NAMESPACE_FSCK_COUNT_H

#include "meta/namespace/record.h"

enum {
    FSCK_BUCKETS = 1 << 16,
    FSCK_TALLIES = 1 << 19 /* Slots, of 24 bytes; a quarter of them stays free. */
};

struct fsck_tally
{
    inode_id inode;   /* INODE_NONE: a free slot. */
    uint32_t names;   /* Entries that point to the inode. */
    uint32_t entries; /* Entries in it. */
    uint32_t subdirectories;
};

struct fsck_count;

/* NULL: out of memory. */
struct fsck_count *fsck_count_new(void);
void fsck_count_free(struct fsck_count *c); /* NULL is allowed. */

/* ---- Sums ---- */

/* An entry in directory `parent` was met, or has come (+1) or gone (-1) behind the walk. */
void fsck_sum_entry(struct fsck_count *c, inode_id parent, const struct dentry *dentry, int change);

/* The inode was met, and expects what its record says. */
void fsck_sum_inode(struct fsck_count *c, const struct inode *inode);

/* The entry has come or gone, and the record of what it points to, or of its directory, was met
 * before. */
void fsck_sum_expect_name(struct fsck_count *c, const struct dentry *dentry, int change);
void fsck_sum_expect_entry(struct fsck_count *c, inode_id parent, const struct dentry *dentry,
                           int change);

/* Whatever its sum says, look at the inode. */
void fsck_suspect(struct fsck_count *c, inode_id inode);

/* ---- Tallies ---- */

/* Begin the next pass, with an empty table; after one that was full, the same with fewer buckets.
 * False: there are no suspects (left). */
bool fsck_count_begin_pass(struct fsck_count *c);

/* The pass is over, and not full: its buckets are suspect no more. */
void fsck_count_end_pass(struct fsck_count *c);

/* More inodes than the table holds: this pass must begin again. */
bool fsck_count_full(const struct fsck_count *c);

/* Does this pass count for the inode? */
bool fsck_count_has(const struct fsck_count *c, inode_id inode);

/* An entry was met, or has come or gone. The names that dentry->inode has now; 0 when this pass
 * does not count them. */
uint32_t fsck_tally_entry(struct fsck_count *c, inode_id parent, const struct dentry *dentry,
                          int change);

/* What was counted for an inode that this pass has. */
struct fsck_tally fsck_tally_of(const struct fsck_count *c, inode_id inode);

#endif
