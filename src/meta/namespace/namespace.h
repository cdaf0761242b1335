/* The namespace: names, inodes, attributes, layouts and the operation log, over an ordered store.
 *
 * Pure: it sees the store through kv.h, and time, placement and credentials through the operation.
 *
 * Reading. ns_inode(), ns_lookup() and so on answer from the store, through a cache of bounded
 * size.
 *
 * Changing. ns_execute() validates an operation against the current state, decides what is left to
 * decide (the new inode's id, whether the last holder of a name still has it open, group
 * membership), and commits one batch: the changed records, the counters, and the operation itself
 * as log record `sequence`. Refused operations leave no trace. ns_replay() applies an operation
 * from a log and decides nothing; the same log applied to an empty store gives the same bytes.
 *
 * Invariants, which fsck (fsck.h) looks after:
 *  - every entry points to an inode of its type; an inode that is no directory has as many names as
 *    nlink says;
 *  - a directory has one name (the root none) in the directory that `parent` says, nlink is 2 and
 *    one for each directory in it, and `entries` counts its names;
 *  - an inode without a name has an orphan record, and nlink 0;
 *  - counters agree with the records.
 *
 * A commit that fails leaves the store in doubt; from then on every change is refused with the same
 * status until the manager is started again (ns_broken()).
 */
#ifndef MORSEL_META_NAMESPACE_NAMESPACE_H
#define MORSEL_META_NAMESPACE_NAMESPACE_H

#include "common/base/errmsg.h"
#include "meta/namespace/op.h"
#include "meta/namespace/record.h"
#include "meta/storage/kv.h"

struct ns;

/* What the namespace asks and tells. Either function may be NULL. */
struct ns_hooks
{
    /* Does anybody hold `inode` open? Asked when its last name goes. */
    bool (*is_open)(void *data, inode_id inode);

    /* After a commit: a name was added (+1) or removed (-1). */
    void (*name_changed)(void *data, inode_id parent, struct slice name,
                         const struct dentry *dentry, int change);
    void *data;
};

enum {
    NS_LOG_KEPT = 65536,       /* Newest operations that stay in the log; see reply_cache.h. */
    NS_CACHE_INODES = 16384,   /* Decoded inodes in memory, about 690 bytes each */
    NS_START_GAP = 1 << 17,    /* More inodes than are made between two syncs of the store. */
    NS_DIRECTORY_BYTES = 4096, /* st_size of a directory */
    NS_GARBAGE_PAGE_MAX = 1000
};

/* `kv` is borrowed and must outlive the namespace. An empty store gives an unformatted namespace
 * that takes only OP_FORMAT. MORSEL_CORRUPT and MORSEL_VERSION with words: nothing was changed. */
int ns_open(struct kv *kv, const struct ns_hooks *hooks, struct ns **ns_out, struct errmsg *err);
void ns_close(struct ns *ns); /* NULL is allowed. */

bool ns_formatted(const struct ns *ns);
const struct super *ns_super(const struct ns *ns);
const struct counters *ns_counters(const struct ns *ns);

/* 0, or the status of the commit or sync that failed. */
int ns_broken(const struct ns *ns);

/* Operations that were refused, with MORSEL_INVAL, because the log could not have been read with
 * them in it: none, unless a check is missing. */
uint64_t ns_unreadable(const struct ns *ns);

/* The store failed outside a commit (a sync): refuse changes from now on. */
void ns_fail(struct ns *ns, int status);

/* ---- Changing ---- */

/* Statuses are those of the system call that the operation stands for; MORSEL_STALE when an inode
 * that the operation names by id is gone. `op` is completed. */
int ns_execute(struct ns *ns, struct meta_op *op, struct errmsg *err);

/* MORSEL_CORRUPT when the operation does not fit the state: log and store do not belong together.
 */
int ns_replay(struct ns *ns, struct meta_op *op, struct errmsg *err);

/* ---- Reading ---- */

/* MORSEL_STALE when there is none. */
int ns_inode(struct ns *ns, inode_id id, struct inode *inode, struct errmsg *err);

/* "." and ".." work. MORSEL_NOENT, MORSEL_NOTDIR, MORSEL_NAMETOOLONG, MORSEL_STALE. */
int ns_lookup(struct ns *ns, inode_id parent, struct slice name, struct inode *inode,
              struct errmsg *err);

/* Entries behind `after` (empty: from the start), in byte order, until `visit` says false. `visit`
 * may read inodes. `end` tells whether all were seen. */
typedef bool (*ns_entry_visit)(void *data, struct slice name, const struct dentry *dentry);
int ns_readdir(struct ns *ns, inode_id directory, struct slice after, ns_entry_visit visit,
               void *data, bool *end, struct errmsg *err);

/* Append the target to `out`. MORSEL_INVAL when it is no symbolic link. */
int ns_readlink(struct ns *ns, inode_id inode, struct buf *out, struct errmsg *err);

/* Append the value. MORSEL_NODATA. The access list of an inode without one is MORSEL_NODATA. */
int ns_xattr_get(struct ns *ns, inode_id inode, struct slice name, struct buf *out,
                 struct errmsg *err);

/* Append what was reported of the inode and is not synced: op_unsynced_at(). */
int ns_unsynced(struct ns *ns, const struct inode *inode, struct buf *out, struct errmsg *err);

/* Append the names, each closed by a zero byte. */
int ns_xattr_list(struct ns *ns, inode_id inode, struct buf *out, struct errmsg *err);

/* What a new file in `directory` gets: own policy, then the ancestors', then the defaults; no field
 * is 0 but `replicas`, where no directory says how many: the cluster does (copies_rule.h). */
int ns_policy_effective(struct ns *ns, inode_id directory, struct file_policy *policy,
                        struct errmsg *err);

/* st_size of the inode. */
uint64_t ns_attr_size(const struct inode *inode);

/* Objects to be deleted on `server`, at most `count_max`; how many through `count`. */
int ns_garbage(struct ns *ns, server_id server, struct object_id *objects, uint32_t count_max,
               uint32_t *count, struct errmsg *err);
/* The file whose objects are called by the number `body` (record.h). MORSEL_STALE: there is none. */
int ns_object_file(struct ns *ns, inode_id body, struct inode *inode, struct errmsg *err);
int ns_is_garbage(struct ns *ns, server_id server, struct object_id object, bool *garbage,
                  struct errmsg *err);

/* Orphans with ids >= `from`, at most `count_max`. */
int ns_orphans(struct ns *ns, inode_id from, inode_id *inodes, uint32_t count_max, uint32_t *count,
               struct errmsg *err);
int ns_is_orphan(struct ns *ns, inode_id inode, bool *orphan, struct errmsg *err);

/* All members, ascending by id; at most SERVERS_MAX. Those that were removed are among them. */
int ns_members(struct ns *ns, struct member_record *members, uint32_t *count, struct errmsg *err);
bool ns_is_removed(const struct ns *ns, server_id server);

/* All benefactors, ascending by id, until `visit` says something else than 0, which is returned. */
typedef int (*ns_donor_visit)(void *data, const struct donor_record *donor);
int ns_donors(struct ns *ns, ns_donor_visit visit, void *data, struct errmsg *err);

/* Below that number none is given anew; 0: no benefactor was ever forgotten. */
int ns_donor_floor(struct ns *ns, donor_id *next, struct errmsg *err);

/* What is kept of their hours, likewise. */
typedef int (*ns_hours_visit)(void *data, const struct hours_record *record);
int ns_hours(struct ns *ns, ns_hours_visit visit, void *data, struct errmsg *err);

enum { NS_LYING_SHOWN = 8 };

/* Files with one copy of which a part belongs to a server, as far as they were looked for. */
struct ns_lying
{
    inode_id next;    /* Where to look on; INODE_NONE: all were seen. */
    uint64_t files;   /* The server is one of theirs: what is written to them may go there, */
    uint64_t holding; /* and of these the ones that have bytes there. */
    uint64_t bytes;   /* So many, holes among them. */
    inode_id shown[NS_LYING_SHOWN]; /* The first that have. */
};

/* Add to `lying` what there is among the next `records_max` inodes from lying->next on (at first 1).
 * MORSEL_AGAIN: something must be read first, and `lying` is as it was. */
int ns_lying_on(struct ns *ns, server_id server, uint32_t records_max, struct ns_lying *lying,
                struct errmsg *err);

/* The groups of servers that hold the same objects; version 0: there are none. */
struct groups_record;
const struct groups_record *ns_groups(const struct ns *ns);

/* Data sets and their maps. */
struct sets;
const struct sets *ns_sets(const struct ns *ns);

/* Where the bytes of a data set come from whose head says that there is a record of that. MORSEL_AGAIN; MORSEL_CORRUPT, with
 * words. */
struct origin;
int ns_origin(struct ns *ns, uint64_t set, struct origin *origin, struct errmsg *err);

/* Is it a regular file whose bytes lie in morsels on benefactors? */
bool inode_is_scavenged(const struct inode *inode);

/* What is to be deleted on that benefactor, ascending, at most `count_max` stretches; how many through `count`. */
int ns_waste(struct ns *ns, donor_id donor, struct op_run *runs, uint32_t count_max,
             uint32_t *count, struct errmsg *err);

/* The voter set. MORSEL_NOENT: none was kept yet. MORSEL_CORRUPT, MORSEL_VERSION. */
struct voters_record;
struct voter_seats;
int ns_voters(struct ns *ns, struct voters_record *record, struct voter_seats *seats,
              struct errmsg *err);

/* Lease epochs under which leases may be held (OP_HOLDER) with their lease periods, at most `count_max`. */
struct lease_epoch_kept;
int ns_holders(struct ns *ns, struct lease_epoch_kept *lease_epochs, uint32_t count_max,
               uint32_t *count, struct errmsg *err);

/* Sessions that are written down (OP_SESSIONS), in the order of their clients, at most `count_max`; SESSION_UNTOLD is the first of
 * them while it is waited for. `run`: of which all are there; 0: there may be others, too. */
struct session_kept;
int ns_sessions(struct ns *ns, struct session_kept *sessions, uint32_t count_max, uint32_t *count,
                uint64_t *run, struct errmsg *err);

/* Operations of the log from `sequence` on, until `visit` says false. */
typedef bool (*ns_log_visit)(void *data, uint64_t sequence, const struct meta_op *op);
int ns_log(struct ns *ns, uint64_t sequence, ns_log_visit visit, void *data, struct errmsg *err);

/* The store itself, for fsck and tests. */
struct kv *ns_kv(struct ns *ns);

#endif
