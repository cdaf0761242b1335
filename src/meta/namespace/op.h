/* One change of the metadata, with everything decided: times, inode ids, placements, who was in
 * which group.
 *
 * Pure. ns_execute() (namespace.h) fills in the last decisions, applies the operation and writes it
 * into the operation log, in one batch. Applying the same log to an empty store gives the same
 * bytes: that makes the log the single source of truth, lets a standby manager follow it, and lets
 * a restarted manager answer a retry (reply_cache.h).
 *
 * Slices are borrowed: from the request while the operation is made, from the log record after
 * op_decode().
 */
#ifndef MORSEL_META_NAMESPACE_OP_H
#define MORSEL_META_NAMESPACE_OP_H

#include "common/fs/permission.h"
#include "meta/cluster/hours.h"
#include "meta/datasets/set_record.h"
#include "meta/namespace/record.h"

/* Numbers of the log's format: never renumber, only append. */
enum op_kind {
    OP_FORMAT = 1, /* The first of each log: superblock and root. */
    OP_CREATE = 2, /* A file of any type. */
    OP_UNLINK = 3, /* unlink, rmdir */
    OP_RENAME = 4,
    OP_LINK = 5,
    OP_SETATTR = 6,
    OP_SIZE_REPORT = 7, /* A client reports written bytes. */
    OP_XATTR = 8,       /* Set or remove, POSIX ACLs included. */
    OP_POLICY = 9,
    OP_COLLECT = 10,   /* Nobody holds this orphan any more. */
    OP_COLLECTED = 11, /* A storage server has deleted these objects. */
    OP_MEMBER = 12,    /* A storage server registers, or has moved. */
    OP_GARBAGE = 13,   /* Objects that belong to no file are to be deleted. */
    OP_REPAIR = 14,    /* What fsck repairs. */
    OP_GRANTEE = 15,   /* Of older logs: who might cache before there were leases. */
    OP_START = 16,     /* The manager has started: inode ids go on behind a gap. */
    OP_HOLDER = 17, /* Leases may be held under this lease epoch, or are not any more (lease.h). */
    OP_SET_LAYOUT = 18,    /* A file of which nothing was written yet moves to other servers. */
    OP_SYNCED = 19,        /* Reported bytes have been synced, or are lost and somebody was told. */
    OP_VOTERS = 20,        /* The voter set, or a change of it that is planned. */
    OP_GROUPS = 21,        /* The groups of servers that hold the same objects. */
    OP_EXCHANGE = 22,      /* Two files exchange their bytes. */
    OP_SESSIONS = 23,      /* Sessions begin, are waited for, or have ended. */
    OP_DONOR = 24,         /* A benefactor joins for the first time. */
    OP_SET_STORED = 25,    /* Morsels of a data set are at benefactors. */
    OP_SET_SEAL = 26,      /* All of a data set is stored. */
    OP_SET_COLLECTED = 27, /* A benefactor has deleted these morsels. */
    OP_SET_LOST = 28,      /* A benefactor does not have these morsels any more. */
    OP_SET_COPY = 29,      /* A morsel has a copy more, or less. */
    OP_DONOR_HOURS = 30,   /* When a benefactor is usually here. */
    OP_SET_ORIGIN =
        31,            /* Where the bytes of a data set come from, and that the client stores it. */
    OP_SET_USED = 32,  /* When a data set was used. */
    OP_SET_EVICT = 33, /* The end of a data set goes, to make room. */
    OP_SET_MARK = 34,  /* A data set is pinned, or is not any more. */
    OP_SET_RESERVE = 38,  /* How large a data set is to be, and that the client stores it. */
    OP_SET_LET_GO = 39,   /* Nobody goes on with a data set that is not complete: it begins anew. */
    OP_DONOR_FORGET = 40, /* A benefactor that has nothing any more is forgotten. */
    OP_KIND_END
};

enum op_repair {
    REPAIR_COUNTS = 1,   /* Set nlink and entries of `inode`. */
    REPAIR_DENTRY = 2,   /* Remove the entry (`parent`, `name`), and nothing else. */
    REPAIR_ATTACH = 3,   /* Give `inode` the name "lost+INODE" in the root. */
    REPAIR_PARENT = 4,   /* Directory `inode` lies in `parent`. */
    REPAIR_COUNTERS = 5, /* There are `entries` inodes. */
    REPAIR_TYPE = 6,     /* The entry (`parent`, `name`) gets the type of its inode. */
    REPAIR_ORPHAN = 7,   /* `inode` has names: it is no orphan. */
    REPAIR_SET =
        8 /* The data set whose number is `entries` is not that of `inode`, nor of any other file. */
};

/* What becomes of a copy of a morsel. Numbers of the log's format. */
enum op_copy {
    OP_COPY_ADD =
        1, /* `donor` has one with that length and digest: named, if the morsel is still that; */
    OP_COPY_FORGET =
        2, /* has none that counts: it is to delete what there may be, unless it is named; */
    OP_COPY_DROP = 3, /* has one too many: it is not named any more; */
    OP_COPY_YIELD = 4 /* has no room for it any more, and another one is named. */
};

/* OP_COPY_ADD, as `instead`: nobody's is given up, and a morsel that was evicted is back with it. No benefactor has that number. */
#define OP_COPY_BACK UINT32_MAX

enum {
    OP_OBJECTS_MAX = 4096,
    OP_OBJECT_BYTES = 12,
    OP_UNSYNCED_MAX = STRIPE_WIDTH_MAX * UNSYNCED_VERIFIERS_MAX,
    OP_UNSYNCED_BYTES = 12,
    OP_SESSIONS_MAX = 1024,
    OP_SESSION_BYTES = 12,
    OP_RUN_BYTES = 16,
    OP_EVICT_MAX = 1024 /* Morsels that go in one operation. */
};

struct meta_op
{
    enum op_kind kind;
    int64_t time_ns;             /* The manager's clock, signed since 1970. */
    client_id client;            /* 0: the manager itself. */
    op_sequence client_sequence; /* 0: the manager itself. */
    op_sequence answered;
    uint64_t
        lease_epoch; /* Under which the client has the right to it; 0: it needs none. Not part of
                       the log. */
    struct credentials who; /* Groups are not part of the log: what they decide is. */
    bool in_group; /* Decided by ns_execute(): the caller is root or in the group that counts. */
    bool open;     /* Decided by ns_execute(): the inode that loses its last name is held open. */
    inode_id
        target;   /* Decided by ns_execute(): the inode that is made, or loses a name; 0: none. */
    bool deleted; /* Decided by ns_execute(): `target` is gone for good. */

    union {
        struct
        {
            struct cluster_id cluster;
            bool auto_copies; /* As in struct super; in older logs there is no such thing. */
        } format;
        struct
        {
            inode_id parent;
            struct slice name; /* Empty with `orphan`. */
            bool orphan;       /* O_TMPFILE */
            uint32_t mode;     /* Before umask. */
            uint32_t umask;
            uint64_t rdev;
            struct slice link_target;
            struct file_layout layout; /* Regular files. */
        } make;
        struct
        {
            inode_id parent;
            struct slice name;
            bool directory; /* rmdir */
        } unlink;
        struct
        {
            inode_id parent;
            struct slice name;
            inode_id new_parent;
            struct slice new_name;
            uint32_t flags; /* enum rename_flags */
        } rename;
        struct
        {
            inode_id inode;
            inode_id new_parent;
            struct slice new_name;
        } link;
        struct
        {
            inode_id inode;
            uint32_t valid; /* enum setattr_valid */
            uint32_t mode, uid, gid;
            uint64_t size;
            int64_t atime_ns, mtime_ns;
        } setattr;
        struct
        {
            inode_id inode;
            uint64_t size;    /* The file is at least this long. */
            uint64_t reach;   /* Objects may hold bytes up to here (fallocate beyond the end). */
            int64_t mtime_ns; /* 0: `time_ns`. */
            bool sparse;
            bool strips_ids; /* Set-id bits go, as after any write by who may not keep them. */
            struct slice unsynced;  /* op_unsynced_put() */
            bool truncates;         /* Before it was written to `size`, the file was truncated */
            uint64_t truncate_size; /* to this. */
            bool tail_clean; /* The objects were truncated where the file ended then, or before. */
        } size_report;
        struct
        {
            inode_id inode;
            uint64_t data_version; /* Nothing when the file has another one; 0: in any case. */
            struct slice columns;  /* op_unsynced_put() */
        } synced;
        struct
        {
            inode_id inode;
            struct slice name, value;
            uint32_t flags; /* enum xattr_flags */
            bool remove;
        } xattr;
        struct
        {
            inode_id inode;
            struct file_policy policy; /* All 0: inherit everything. */
        } policy;
        struct
        {
            inode_id inode;
            struct file_layout layout; /* Stripe and class are those that the file has. */
        } set_layout;
        struct
        {
            inode_id inode, with;
        } exchange;
        struct
        {
            inode_id inode;
        } collect;
        struct
        {
            server_id server;
            struct slice objects; /* op_objects_put(), op_object_at() */
        } objects;                /* OP_COLLECTED, OP_GARBAGE */
        struct member_record member;
        struct donor_record donor;
        struct hours_record hours;
        struct
        {
            inode_id inode;
            uint64_t set;     /* Nothing of another one is changed. */
            uint64_t size;    /* The file is at least this long. */
            int64_t mtime_ns; /* 0: it stays. */
            bool strips_ids;
            struct slice morsels; /* op_morsel_put(); ascending. */
            struct slice
                waste; /* op_run_put(): of these, on benefactors whose number is in `set`. */
        } set_stored;
        struct
        {
            inode_id inode;
            uint64_t set;
            uint64_t size;
        } set_seal;
        struct
        {
            inode_id inode;
            uint64_t set;
            struct slice record; /* origin_encode() */
        } set_origin;
        struct
        {
            donor_id donor;
            struct slice runs; /* op_run_put() */
        } set_runs;            /* OP_SET_COLLECTED, OP_SET_LOST */
        struct
        {
            uint64_t set;
            uint32_t morsel, length, digest;
            enum op_copy change;
            donor_id donor;
            donor_id
                instead; /* OP_COPY_ADD: this one is given up for it; 0: nobody; OP_COPY_BACK. */
        } set_copy;
        struct
        {
            uint64_t set;
            int64_t first_ns; /* 0: as it is. */
            struct lru_k_uses uses;
        } set_used;
        struct
        {
            uint64_t set;
            uint32_t
                kept; /* The morsels from this one on go: OP_EVICT_MAX that have a copy at most. */
        } set_evict;
        struct
        {
            uint64_t set;
            bool pinned;
        } set_mark;
        struct
        {
            inode_id inode;
            uint64_t set;
            uint64_t size; /* Bytes. */
        } set_reserve;
        struct
        {
            uint64_t set;
        } set_let_go;
        struct
        {
            donor_id donor;
        } donor_forget;
        struct
        {
            client_id client;
        } grantee;
        struct
        {
            uint64_t lease_epoch;
            uint32_t lease_period_ms; /* That goes with it; 0, and not written: LEASE_MS. */
            bool holds;
        } holder;
        struct
        {
            uint64_t run;         /* With client 0 among them: of which all are written down. */
            struct slice clients; /* op_session_put() */
        } sessions;
        struct
        {
            struct slice record; /* voters_record.h */
        } voters;
        struct
        {
            struct slice record; /* groups_record.h */
        } groups;
        struct
        {
            enum op_repair what;
            inode_id inode;
            inode_id parent;
            struct slice name;
            uint32_t nlink;
            uint64_t entries;
        } repair;
    };
};

/* As in Linux. */
enum rename_flags { RENAME_FLAG_NOREPLACE = 1, RENAME_FLAG_EXCHANGE = 2, RENAME_FLAGS_KNOWN = 3 };
enum xattr_flags { XATTR_FLAG_CREATE = 1, XATTR_FLAG_REPLACE = 2 };

void op_encode(const struct meta_op *op, struct buf *out);

/* MORSEL_CORRUPT, MORSEL_VERSION. */
int op_decode(struct slice bytes, struct meta_op *op);

/* "rename" */
const char *op_kind_name(enum op_kind kind);

/* Is there an operation of that number? Not every one below OP_KIND_END is in use. */
bool op_kind_known(enum op_kind kind);

/* A column that holds bytes written under this verifier of its server, not synced yet. Lists of
 * them, inside operations and U records: UNSYNCED_VERIFIERS_MAX for each column at most, or
 * VERIFIER_ANY alone. */
struct unsynced_column
{
    uint32_t column;
    uint64_t verifier;
};
void op_unsynced_put(struct buf *out, struct unsynced_column column);
size_t op_unsynced_count(struct slice columns);
struct unsynced_column op_unsynced_at(struct slice columns, size_t index);

/* Lists of sessions inside an operation: how long each was waited for, or SESSION_STRUCK_OUT. */
void op_session_put(struct buf *out, client_id client, uint32_t waited_ms);
size_t op_sessions_count(struct slice clients);
client_id op_session_at(struct slice clients, size_t index, uint32_t *waited_ms);

/* Are there some, not too many, and is the run told when, and only when, client 0 is among them? */
bool op_sessions_sound(const struct meta_op *op);

/* Lists of stretches of morsels, and of morsels, inside an operation. */
struct op_run
{
    uint64_t set;
    uint32_t first, count;
};
void op_run_put(struct buf *out, struct op_run run);
size_t op_runs_count(struct slice runs);
struct op_run op_run_at(struct slice runs, size_t index);

/* The next one of the list, which gets shorter by it. False: there is none, or, with the list not empty, it is not whole. */
void op_morsel_put(struct buf *out, const struct set_morsel *morsel);
bool op_morsel_next(struct slice *morsels, struct set_morsel *morsel);

/* Lists of objects inside an operation. */
void op_objects_put(struct buf *out, struct object_id object);

/* Bring a list into order, so that what is named twice stands side by side: the operations look no
 * further. */
void op_objects_sort(struct buf *objects);

/* Is it the same as the one before? */
bool op_object_repeats(struct slice objects, size_t index);
size_t op_objects_count(struct slice objects);
struct object_id op_object_at(struct slice objects, size_t index);

#endif
