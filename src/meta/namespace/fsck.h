/* Checks the metadata against the invariants of namespace.h, a few records at a time, while clients
 * go on.
 *
 * Pure: reads the store through the namespace; repairs are operations like any other.
 *
 *   ENTRIES -> INODES -> ORPHANS -> SETS -> TOTALS -> done
 *                 |          ^
 *                 v          |
 *             (suspects)  NAMES -> COUNTS -> (more suspects: NAMES)
 *
 * ENTRIES looks at every entry, INODES at every inode, and both feed the sums of fsck_count.h. Only
 * where these do not agree NAMES counts exactly, and COUNTS compares. A name that comes or goes
 * meanwhile is counted through fsck_name_changed(): behind the walk it changes the count, before it
 * the walk will meet it. So the counts are exact at any moment.
 *
 * The caller keeps a cursor; one that belongs to another check is MORSEL_STALE.
 */
#ifndef MORSEL_META_NAMESPACE_FSCK_H
#define MORSEL_META_NAMESPACE_FSCK_H

#include "meta/namespace/namespace.h"

enum {
    FSCK_STEP_RECORDS = 2000,
    FSCK_FINDINGS_MAX = 64, /* Of one step; it ends early when it has that many. */
    FSCK_CURSOR_BYTES = 16
};

struct fsck;

struct fsck_finding
{
    struct errmsg text;
    bool mendable;
    struct meta_op repair;
    uint8_t name[NAME_BYTES_MAX]; /* What repair.repair.name points to. */
};

struct fsck_result
{
    bool done;
    uint64_t checked;  /* Records of this step. */
    uint64_t repaired; /* Findings of this step that were repaired. */
    uint32_t count;
    struct fsck_finding findings[FSCK_FINDINGS_MAX];
};

/* A new check. NULL: out of memory. */
struct fsck *fsck_new(struct ns *ns);
void fsck_free(struct fsck *f); /* NULL is allowed. */

/* Put the cursor of the next step into 16 bytes; true when `cursor` is that one. */
void fsck_cursor(const struct fsck *f, uint8_t cursor[FSCK_CURSOR_BYTES]);
bool fsck_cursor_matches(const struct fsck *f, struct slice cursor);

/* Look at `records_max` more records at most and, with `repair`, repair what is wrong, stamped with
 * `now_ns`. MORSEL_AGAIN: something must be read, or room be made, first (kv.h),
 * and nothing has been looked at. */
int fsck_step(struct fsck *f, uint32_t records_max, bool repair, int64_t now_ns,
              struct fsck_result *result, struct errmsg *err);

/* A name has come (+1) or gone (-1). To be called from the namespace's hook. */
void fsck_name_changed(struct fsck *f, inode_id parent, struct slice name,
                       const struct dentry *dentry, int change);

#endif
