/* Inside the namespace: one operation being applied.
 *
 * Pure. A transaction holds the inodes that the operation touches, each once, so that an operation
 * that meets the same inode in two roles (rename within a directory) changes one copy. Nothing is
 * visible before txn_commit().
 */
#ifndef MORSEL_META_NAMESPACE_NAMESPACE_TXN_H
#define MORSEL_META_NAMESPACE_NAMESPACE_TXN_H

#include "meta/datasets/sets.h"
#include "meta/namespace/garbage_floor.h"
#include "meta/namespace/inode_cache.h"
#include "meta/namespace/namespace.h"

/* Servers that were taken out of the cluster for good: nothing is to be deleted there any more. */
struct removed_servers
{
    uint32_t count;
    server_id ids[SERVERS_MAX];
};

/* What will have changed in memory of data sets when the transaction is committed. */
struct set_notes
{
    struct set_change *changes; /* Ascending by set and number. */
    uint32_t change_count, change_room;
    struct waste_note
    {
        donor_id donor;
        uint64_t set;
        uint32_t first, count;
        bool fresh;     /* There was no such record. */
        bool collected; /* It is gone. */
    } * wastes;
    uint32_t waste_count, waste_room;
};

struct ns
{
    struct kv *kv;
    struct ns_hooks hooks;
    struct super super;
    struct counters counters;
    struct inode_cache *cache;
    struct buf value;      /* What the last get() read. */
    struct buf record;     /* What is being encoded. */
    struct kv_batch batch; /* Of the transaction. */
    int broken;            /* Status of the commit that failed. */
    uint64_t unreadable;   /* Operations refused because the log could not hold them. */
    struct garbage_floors floors;
    struct removed_servers removed;
    struct groups_record *groups; /* As in the store; and room for the one that comes. */
    struct groups_record *groups_next;
    struct sets sets; /* As in the store. */
    struct set_notes notes;
};

enum {
    TXN_INODES_MAX = 6, /* rename: two parents, the moved one, the replaced one */
    TXN_NAMES_MAX = 4   /* exchange: two removed, two added */
};

struct ns_txn
{
    struct ns *ns;
    struct meta_op *op;
    bool replay; /* Decisions are already in the operation. */
    struct errmsg *err;
    struct counters counters;
    uint32_t store_version;      /* Of the superblock, behind it. */
    struct set_head set_made;    /* number 0: none is made. */
    struct set_head set_changed; /* Its head becomes this; number 0: none does. */
    uint32_t sets_gone_count;
    uint64_t sets_gone[TXN_INODES_MAX];
    uint32_t slot_count;
    struct txn_slot
    {
        enum { SLOT_CLEAN, SLOT_DIRTY, SLOT_REMOVED } state;
        struct inode inode;
    } slots[TXN_INODES_MAX];
    uint32_t name_count;
    struct txn_name
    {
        inode_id parent;
        struct slice name; /* Borrowed from the operation. */
        struct dentry dentry;
        int change;
    } names[TXN_NAMES_MAX];
};

/* The inode `id`, to be changed in place and then marked with txn_change(). MORSEL_STALE when there
 * is none. */
int txn_inode(struct ns_txn *t, inode_id id, struct inode **inode_out);

/* These columns of the file have unsynced bytes. MORSEL_INVAL: it has no such column,
 * or there are too many. */
int txn_unsynced_add(struct ns_txn *t, struct inode *inode, struct slice columns);

/* No object of the file holds bytes beyond what it is going to be reported to hold. */
void txn_tail_is_clean(const struct ns_txn *t, struct inode *inode);

/* The inode's record is written again: nothing that anybody sees of it has changed. */
void txn_keep(struct ns_txn *t, struct inode *inode);

/* The same, and it must be a directory that still has a name: MORSEL_NOTDIR, MORSEL_NOENT. */
int txn_directory(struct ns_txn *t, inode_id id, struct inode **inode_out);

/* A new inode with the next id, all else 0. */
struct inode *txn_inode_new(struct ns_txn *t);

/* The inode was changed: its version grows once, and it will be written. */
void txn_change(struct ns_txn *t, struct inode *inode);

/* Its names changed: mtime and ctime too. */
void txn_change_entries(struct ns_txn *t, struct inode *directory);

/* Remove the inode with its target, attributes and objects. `all_columns`: also objects that no
 * report speaks of, because somebody had it open. */
int txn_destroy(struct ns_txn *t, struct inode *inode, bool all_columns);

/* One name of `inode` has gone: count down, and at 0 make it an orphan or destroy it. */
int txn_drop_name(struct ns_txn *t, struct inode *inode);

int txn_dentry_get(struct ns_txn *t, inode_id parent, struct slice name, struct dentry *dentry);
void txn_dentry_put(struct ns_txn *t, inode_id parent, struct slice name,
                    const struct dentry *dentry);
void txn_dentry_delete(struct ns_txn *t, inode_id parent, struct slice name,
                       const struct dentry *dentry);

void txn_orphan_put(struct ns_txn *t, inode_id inode);
void txn_orphan_delete(struct ns_txn *t, inode_id inode);

/* Write the record that lies encoded in ns->record. Without memory for it nothing is committed. */
void txn_record_put(struct ns_txn *t, struct record_key key);

/* From now on the database is for programs that know this version, and newer ones. */
void txn_needs_version(struct ns_txn *t, uint32_t store_version);

/* Write a record with the plain encoding, or delete one. */
void txn_plain_put(struct ns_txn *t, struct record_key key, struct slice value);
void txn_delete(struct ns_txn *t, struct record_key key);

/* Is the caller root, or in `gid`? Decided once per operation. */
bool txn_in_group(struct ns_txn *t, uint32_t gid);

/* A name that may be made: MORSEL_NAMETOOLONG, MORSEL_INVAL (empty, "/", zero), MORSEL_EXIST ("."
 * and ".."). */
int name_check_new(struct slice name);
/* The same for one that may be removed: "." is MORSEL_INVAL, ".." MORSEL_NOTEMPTY. */
int name_check_old(struct slice name);

/* Read a plain record into ns->value and point `value` at it. MORSEL_NOENT. */
int ns_plain_get(struct ns *ns, struct record_key key, struct slice *value, struct errmsg *err);

/* The superblock that OP_FORMAT writes. */
struct super super_of_format(const struct meta_op *op);

/* Apply by kind, each in the file of its job. They validate first and then write into the batch. */
int apply_format(struct ns_txn *t);
int apply_make(struct ns_txn *t);
int apply_link(struct ns_txn *t);
int apply_unlink(struct ns_txn *t);
int apply_collect(struct ns_txn *t);
int apply_rename(struct ns_txn *t);
int apply_setattr(struct ns_txn *t);
int apply_synced(struct ns_txn *t);
int apply_size_report(struct ns_txn *t);
int apply_set_layout(struct ns_txn *t);
int apply_exchange(struct ns_txn *t);
int apply_policy(struct ns_txn *t);
int apply_xattr(struct ns_txn *t);
int apply_member(struct ns_txn *t);
int apply_donor(struct ns_txn *t);
int apply_donor_hours(struct ns_txn *t);
int apply_donor_forget(struct ns_txn *t); /* namespace_donors.c */
int apply_collected(struct ns_txn *t);
int apply_garbage(struct ns_txn *t);

/* Queue an object that is not queued yet. */
void txn_queue_object(struct ns_txn *t, server_id server, struct object_id object);
/* ---- Data sets: namespace_sets.c ---- */

/* The data set is gone, if there is one: it is deleted wherever it lies. */
int txn_set_forget(struct ns_txn *t, uint64_t number);

/* The file of class scavenged is about to be truncated or extended to `size`, or to grow by being written to. MORSEL_PERM, with
 * words: it is sealed. */
int txn_set_truncate(struct ns_txn *t, struct inode *inode, uint64_t size);
int txn_set_grows(struct ns_txn *t, const struct inode *inode);

/* The head as it will be is written, in this operation's batch, and holds once it is committed: one of an operation, of a set that is there
 * or is made by it. */
void txn_set_head(struct ns_txn *t, const struct set_head *head);

/* The regular file of class scavenged whose data set that is. MORSEL_STALE, with words: it has another one; MORSEL_INVAL. */
int txn_set_file(struct ns_txn *t, inode_id id, uint64_t set, struct inode **inode_out);

/* The head of the file's data set, as it is or as it will be made. */
struct set_head txn_set_head_of(const struct ns_txn *t, const struct inode *inode);

/* The set is there, or is made by this; and there is room in memory for all that is noted. MORSEL_NOMEM; MORSEL_TOO_LARGE. */
int txn_set_make(struct ns_txn *t, const struct set_head *head);

/* A client has written up to `size`; times are the caller's. */
void op_wrote(struct ns_txn *t, struct inode *inode, uint64_t size, bool strips_ids);

/* The morsel will be so, once the operation is committed: noted in ascending order of sets and numbers. MORSEL_NOMEM. */
int txn_set_change(struct ns_txn *t, uint64_t set, const struct set_morsel *morsel);

/* Write the pages that all noted changes touch. */
void txn_set_pages(struct ns_txn *t);

/* What the benefactor has of these is to be deleted; `fresh`: it was not said before. MORSEL_NOMEM. */
int txn_set_waste(struct ns_txn *t, donor_id donor, struct op_run run, bool fresh);

/* The same when that may have been said; or more, which stays. It reads the record. */
int txn_set_waste_more(struct ns_txn *t, donor_id donor, struct op_run run);

int apply_set_stored(struct ns_txn *t);
int apply_set_seal(struct ns_txn *t);
int apply_set_collected(struct ns_txn *t);
int apply_set_lost(struct ns_txn *t);

/* ---- Origins: namespace_origins.c ---- */

int apply_set_origin(struct ns_txn *t);

/* The set ends, and its origin with it. */
void txn_origin_forget(struct ns_txn *t, const struct set_head *head);

/* Is the set all that its origin has, if the file is that long? True for a set without an origin. */
int txn_origin_complete(struct ns_txn *t, const struct set_head *head, uint64_t size,
                        bool *complete);

/* ---- Reservations: namespace_reserve.c ---- */

int apply_set_reserve(struct ns_txn *t);

/* Is the set all that was reserved, if the file is that long? True for a set of which nothing was. */
bool txn_reserved_complete(const struct ns_txn *t, const struct set_head *head, uint64_t size);

/* namespace_unfinished.c */
int apply_set_let_go(struct ns_txn *t);

/* namespace_copies.c */
int apply_set_copy(struct ns_txn *t);

/* namespace_evict.c */
int apply_set_used(struct ns_txn *t);
int apply_set_evict(struct ns_txn *t);
int apply_set_mark(struct ns_txn *t);
void publish_sets(struct ns_txn *t);
int ns_load_sets(struct ns *ns, struct errmsg *err);
void set_notes_free(struct set_notes *n);

int apply_repair(struct ns_txn *t);
int apply_grantee(struct ns_txn *t);
int apply_holder(struct ns_txn *t);
int apply_start(struct ns_txn *t);
int apply_sessions(struct ns_txn *t);
int apply_voters(struct ns_txn *t);
int apply_groups(struct ns_txn *t);
void publish_groups(struct ns *ns); /* What was applied is committed. */
void publish_member(struct ns *ns, const struct member_record *member);

#endif
