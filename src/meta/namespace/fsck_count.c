/* Sums of hashes first, exact tallies of those buckets that do not come out at zero. */
#include "meta/namespace/fsck_count.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

enum fsck_relation { RELATION_NAME, RELATION_ENTRY, RELATION_SUBDIRECTORY };

enum { TALLIES_MAX = FSCK_TALLIES / 4 * 3 };

struct fsck_count
{
    uint64_t sums[FSCK_BUCKETS];
    uint8_t suspects[FSCK_BUCKETS];
    uint32_t from, to; /* Buckets of this pass. */
    uint32_t tallies_count;
    bool full;
    struct fsck_tally tallies[FSCK_TALLIES];
};

struct fsck_count *fsck_count_new(void)
{
    return calloc(1, sizeof(struct fsck_count));
}

void fsck_count_free(struct fsck_count *c)
{
    free(c);
}

/* The finalizer of SplitMix64: every bit of the result depends on every bit of `z`. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static uint32_t bucket_of(inode_id inode)
{
    return (uint32_t)(mix(inode) % FSCK_BUCKETS);
}

/* `times` may be negative, as a number modulo 2^64. */
static void sum_add(struct fsck_count *c, inode_id inode, enum fsck_relation relation,
                    uint64_t times)
{
    c->sums[bucket_of(inode)] += mix((inode + 1) * 0x9e3779b97f4a7c15U + relation) * times;
}

static void sum_entry_in(struct fsck_count *c, inode_id parent, const struct dentry *dentry,
                         uint64_t times)
{
    sum_add(c, parent, RELATION_ENTRY, times);
    if (mode_is_directory(dentry->type)) {
        sum_add(c, parent, RELATION_SUBDIRECTORY, times);
    }
}

void fsck_sum_entry(struct fsck_count *c, inode_id parent, const struct dentry *dentry, int change)
{
    sum_add(c, dentry->inode, RELATION_NAME, (uint64_t)change);
    sum_entry_in(c, parent, dentry, (uint64_t)change);
}

void fsck_sum_expect_name(struct fsck_count *c, const struct dentry *dentry, int change)
{
    sum_add(c, dentry->inode, RELATION_NAME, 0 - (uint64_t)change);
}

void fsck_sum_expect_entry(struct fsck_count *c, inode_id parent, const struct dentry *dentry,
                           int change)
{
    sum_entry_in(c, parent, dentry, 0 - (uint64_t)change);
}

void fsck_sum_inode(struct fsck_count *c, const struct inode *inode)
{
    uint64_t subdirectories = inode->nlink < 2 ? 0 : inode->nlink - 2;

    if (!mode_is_directory(inode->mode)) {
        sum_add(c, inode->id, RELATION_NAME, 0 - (uint64_t)inode->nlink);
        return;
    }
    /* The root has no name, and a directory that was removed while it was open neither. */
    if (inode->id != INODE_ROOT && inode->nlink > 0) {
        sum_add(c, inode->id, RELATION_NAME, 0 - (uint64_t)1);
    }
    sum_add(c, inode->id, RELATION_ENTRY, 0 - inode->entries);
    sum_add(c, inode->id, RELATION_SUBDIRECTORY, 0 - subdirectories);
}

void fsck_suspect(struct fsck_count *c, inode_id inode)
{
    c->suspects[bucket_of(inode)] = 1;
}

/* ---- Tallies ---- */

static void judge_sums(struct fsck_count *c)
{
    for (uint32_t i = 0; i < FSCK_BUCKETS; i++) {
        c->suspects[i] |= c->sums[i] != 0;
        c->sums[i] = 0;
    }
}

bool fsck_count_begin_pass(struct fsck_count *c)
{
    judge_sums(c);
    if (c->full && c->to - c->from > 1) {
        c->to = c->from + (c->to - c->from) / 2;
    } else {
        if (c->full) {
            c->suspects[c->from] = 0; /* One bucket alone: nobody has so many files. */
        }
        c->from = 0;
        c->to = FSCK_BUCKETS;
    }
    while (c->from < c->to && c->suspects[c->from] == 0) {
        c->from++;
    }
    if (c->tallies_count > 0) {
        memset(c->tallies, 0, sizeof(c->tallies));
    }
    c->tallies_count = 0;
    c->full = false;
    return c->from < c->to;
}

void fsck_count_end_pass(struct fsck_count *c)
{
    CHECK(!c->full);
    memset(c->suspects + c->from, 0, c->to - c->from);
}

bool fsck_count_full(const struct fsck_count *c)
{
    return c->full;
}

bool fsck_count_has(const struct fsck_count *c, inode_id inode)
{
    uint32_t bucket = bucket_of(inode);

    return bucket >= c->from && bucket < c->to && c->suspects[bucket] != 0;
}

/* The slot of the inode, or the free one where it would be. */
static size_t slot_of(const struct fsck_count *c, inode_id inode)
{
    size_t slot = (size_t)(mix(inode) / FSCK_BUCKETS % FSCK_TALLIES);

    while (c->tallies[slot].inode != INODE_NONE && c->tallies[slot].inode != inode) {
        slot = (slot + 1) % FSCK_TALLIES;
    }
    return slot;
}

/* NULL: this pass does not count for the inode, or cannot. */
static struct fsck_tally *tally_for(struct fsck_count *c, inode_id inode)
{
    struct fsck_tally *tally;

    if (inode == INODE_NONE || !fsck_count_has(c, inode)) {
        return NULL;
    }
    tally = &c->tallies[slot_of(c, inode)];
    if (tally->inode == INODE_NONE) {
        if (c->tallies_count == TALLIES_MAX) {
            c->full = true;
            return NULL;
        }
        c->tallies_count++;
        tally->inode = inode;
    }
    return tally;
}

uint32_t fsck_tally_entry(struct fsck_count *c, inode_id parent, const struct dentry *dentry,
                          int change)
{
    struct fsck_tally *of_inode = tally_for(c, dentry->inode);
    struct fsck_tally *of_parent = tally_for(c, parent);

    if (of_inode != NULL) {
        of_inode->names += (uint32_t)change;
    }
    if (of_parent != NULL) {
        of_parent->entries += (uint32_t)change;
        of_parent->subdirectories += mode_is_directory(dentry->type) ? (uint32_t)change : 0;
    }
    return of_inode == NULL ? 0 : of_inode->names;
}

struct fsck_tally fsck_tally_of(const struct fsck_count *c, inode_id inode)
{
    const struct fsck_tally *tally = &c->tallies[slot_of(c, inode)];

    CHECK(fsck_count_has(c, inode));
    if (tally->inode != INODE_NONE) {
        return *tally;
    }
    return (struct fsck_tally){ .inode = inode };
}
