/* What lies in the manager's store: the key space and the encoding of each record.
 *
 * Pure. One ordered key space; a key is one letter, then big-endian numbers, so that each listing
 * is a range:
 *
 *   S                              superblock: format version, cluster id, time of making
 *   C                              counters: sequence, next inode, number of inodes, garbage, ...
 *   I inode                        inode: attributes, parent of a directory, layout, policy
 *   D parent name                  directory entry: inode and type
 *   T inode                        target of a symbolic link
 *   X inode name                   extended attribute
 *   U inode                        bytes that were reported and may not be synced
 *   O inode                        orphan: no name is left, but somebody may hold it open
 *   B inode                        the file whose objects are called by the number of this inode, where
 *                                  that is not its own
 *   G server inode column          object to be deleted on a storage server
 *   M server                       storage server that has registered
 *   N donor                        benefactor that has joined (donors.h)
 *   A donor                        when it is usually here (cluster/hours_record.h)
 *   Z set                          data set (datasets/set_record.h)
 *   P set page                     a page of its map: which morsels it has, and who has them
 *   K donor set morsel             so many morsels from there on are to be deleted on a benefactor
 *   H client                       client that may hold leases (lease.h)
 *   E client                       session: client that may have files open (session.h); client 0: of
 *                                  which run all sessions are there
 *   V                              the voter set (voters_record.h)
 *   Q                              groups of servers that hold the same objects (groups_record.h)
 *   L sequence                     the operation log (op.h)
 *
 * Every value begins with a version byte. Numbers in values are little-endian. Decoding trusts
 * nothing: whatever is short, long, or out of range is MORSEL_CORRUPT; a newer version is
 * MORSEL_VERSION.
 */
#ifndef MORSEL_META_NAMESPACE_RECORD_H
#define MORSEL_META_NAMESPACE_RECORD_H

#include "common/base/buf.h"
#include "common/base/limits.h"
#include "common/base/types.h"
#include "common/daemon/starts.h"
#include "common/fs/mode.h"
#include "common/fs/placing.h"
#include "common/fs/policy_text.h"
#include "common/fs/stripe.h"

/* A new database has STORE_VERSION_FIRST, STORE_VERSION_GROUPS once it has a table of groups,
 * STORE_VERSION_BODIES once two files have exchanged their bytes, STORE_VERSION_SESSIONS once sessions
 * are written down: who does not do that would leave some out, for which the next manager did not wait;
 * STORE_VERSION_DONORS once there is a benefactor, STORE_VERSION_SETS once there is a file of class scavenged,
 * STORE_VERSION_HOURS once the hours of a benefactor are kept, and STORE_VERSION_ORIGINS once there is a data set with an origin:
 * who does not know of those cannot read the log; STORE_VERSION_EVICTION once a directory or a data set is scratch, a set is pinned,
 * or one that may go was read: others would take such records for damaged; STORE_VERSION_FETCHED once there is a set that may go
 * because mounts fetch it again, which others would not; STORE_VERSION_RESERVED once a data set was reserved;
 * STORE_VERSION_YIELD once a benefactor has given up a copy for want of room (OP_COPY_YIELD), and
 * STORE_VERSION_LET_GO once a data set was let go that nobody went on with, or a benefactor
 * was forgotten, or a morsel that was evicted has come back (OP_COPY_BACK): others would take the log for damaged there. */
enum {
    RECORD_VERSION = 1,
    STORE_VERSION_FIRST = 1,
    STORE_VERSION_GROUPS = 2,
    STORE_VERSION_BODIES = 3,
    STORE_VERSION_SESSIONS = 4,
    STORE_VERSION_DONORS = 5,
    STORE_VERSION_SETS = 6,
    STORE_VERSION_HOURS = 7,
    STORE_VERSION_ORIGINS = 8,
    STORE_VERSION_EVICTION = 9,
    STORE_VERSION_FETCHED = 10,
    STORE_VERSION_RESERVED = 11,
    STORE_VERSION_YIELD = 12,
    STORE_VERSION_LET_GO = 13,
    STORE_VERSION_INSIDE = 14,
    STORE_VERSION = STORE_VERSION_INSIDE
};

enum record_kind {
    RECORD_SUPER = 'S',
    RECORD_COUNTERS = 'C',
    RECORD_INODE = 'I',
    RECORD_DENTRY = 'D',
    RECORD_TARGET = 'T',
    RECORD_XATTR = 'X',
    RECORD_UNSYNCED = 'U',
    RECORD_ORPHAN = 'O',
    RECORD_BODY = 'B',
    RECORD_GARBAGE = 'G',
    RECORD_MEMBER = 'M',
    RECORD_DONOR = 'N',
    RECORD_HOURS = 'A',
    RECORD_SET = 'Z',
    RECORD_MAP = 'P',
    RECORD_WASTE = 'K',
    RECORD_ORIGIN = 'W',
    RECORD_HOLDER = 'H',
    RECORD_SESSION = 'E',
    RECORD_VOTERS = 'V',
    RECORD_GROUPS = 'Q',
    RECORD_LOG = 'L'
};

/* ---- Keys ---- */

enum { RECORD_KEY_BYTES_MAX = 1 + 8 + NAME_BYTES_MAX };

static_assert(XATTR_NAME_BYTES_MAX <= NAME_BYTES_MAX, "the key of an attribute must fit");

struct record_key
{
    uint8_t bytes[RECORD_KEY_BYTES_MAX];
    size_t count;
};

struct slice record_key_slice(const struct record_key *key);
struct record_key key_super(void);
struct record_key key_counters(void);
struct record_key key_inode(inode_id inode);
struct record_key
key_dentry(inode_id parent,
           struct slice name); /* Name of at most NAME_BYTES_MAX; empty: first of the range. */
struct record_key key_target(inode_id inode);
struct record_key key_xattr(inode_id inode, struct slice name);
struct record_key key_unsynced(inode_id inode);
struct record_key key_orphan(inode_id inode);
struct record_key key_body(inode_id body);
struct record_key key_garbage(server_id server, struct object_id object);
struct record_key key_member(server_id server);
struct record_key key_donor(donor_id donor);
struct record_key key_hours(donor_id donor);
struct record_key key_set(uint64_t set);
struct record_key key_origin(uint64_t set); /* Its value: common/fs/origin.h. */
struct record_key key_map(uint64_t set, uint32_t page);
struct record_key key_waste(donor_id donor, uint64_t set, uint32_t morsel);
struct record_key key_holder(uint64_t lease_epoch);
struct record_key key_session(client_id client);
struct record_key key_voters(void);
struct record_key key_groups(void);
struct record_key key_log(uint64_t sequence);

/* Take keys apart; false when the key is of another kind or shape. Names point into `key`. */
bool key_inode_parse(struct slice key, enum record_kind kind, inode_id *inode); /* I, T, O, L, Z */
bool key_name_parse(struct slice key, enum record_kind kind, inode_id *inode,
                    struct slice *name); /* D, X */
bool key_garbage_parse(struct slice key, server_id *server, struct object_id *object);
bool key_map_parse(struct slice key, uint64_t *set, uint32_t *page);
bool key_waste_parse(struct slice key, donor_id *donor, uint64_t *set, uint32_t *morsel);

/* ---- Inodes ---- */

/* Where the bytes of a regular file lie. width 0: not a regular file. One of class scavenged has neither servers nor groups:
 * its data set, whose number is inode_body(), has a map (datasets/sets.h), and its stripes are dealt to `width` benefactors. */
struct file_layout
{
    uint32_t class; /* enum layout_class */
    bool scratch;   /* Class scavenged: its data set may be evicted. */
    uint32_t replicas;
    struct stripe stripe;
    server_id servers[STRIPE_WIDTH_MAX]; /* Of each column; of a file with copies the first ones of
                                            its groups, in memory only. */
    group_number groups[STRIPE_WIDTH_MAX]; /* With more than one copy: of each column. */
};

/* What a directory hands down. 0: inherited from its parent; `replicas` of the root: the default of
 * the cluster (copies_rule.h). */
struct file_policy
{
    uint32_t class;
    uint32_t replicas;
    uint32_t morsel_bytes;
    uint32_t stripe_morsels;
    uint32_t width;
    uint32_t scratch; /* enum policy_answer: may data sets that are made here be evicted? */
};

enum inode_flags {
    INODE_HAS_XATTR = 1 << 0,       /* There may be X records. */
    INODE_HAS_ACL = 1 << 1,         /* One of them is system.posix_acl_access. */
    INODE_HAS_DEFAULT_ACL = 1 << 2, /* One of them is system.posix_acl_default. */
    INODE_LINKABLE = 1 << 3,        /* Made without a name (O_TMPFILE): LINK may give it one. */
    INODE_SPARSE = 1 << 4,          /* Regular files: holes, or space beyond the end. */
    INODE_UNSYNCED = 1 << 5,        /* Regular files: there is a U record. */
    INODE_TAILED = 1 << 6,          /* Regular files: `tail` counts. */
    INODE_FLAGS_KNOWN = (1 << 7) - 1
};

struct inode
{
    inode_id id;
    uint32_t mode; /* Type and permission bits, as in stat(2). */
    uint32_t nlink;
    uint32_t uid, gid;
    uint64_t rdev;
    uint64_t size;    /* Bytes; 0 for directories here, see ns_attr_size(). */
    uint64_t reach;   /* Regular files: no object has held bytes beyond this file offset. */
    uint64_t entries; /* Directories: names in it. */
    inode_id parent;  /* Directories: where "..' leads; the root is its own. */
    int64_t atime_ns, mtime_ns, ctime_ns;
    uint64_t version;      /* Grows with each change of the inode. */
    uint64_t data_version; /* Grows with each reported change of the bytes. */
    uint64_t tail;  /* INODE_TAILED: counters.lease_epoch_over when it was sure that no object
                                  holds bytes beyond the size. */
    uint32_t flags; /* enum inode_flags */
    struct file_policy policy; /* Directories. */
    struct file_layout layout; /* Regular files. */
    inode_id body; /* Regular files: by whose number its objects are called; INODE_NONE: its own. */
};

/* Of an inode that has a body: who knows nothing of that would take other objects for its bytes. */
enum { INODE_VERSION_BODY = RECORD_VERSION + 1 };

/* By which number its objects are called. */
static inline inode_id inode_body(const struct inode *inode)
{
    return inode->body != INODE_NONE ? inode->body : inode->id;
}

void inode_encode(const struct inode *inode, struct buf *out);
int inode_decode(inode_id id, struct slice bytes, struct inode *inode);

/* Also used inside operations. */
void file_layout_encode(const struct file_layout *layout, struct buf *out);
bool file_layout_decode(struct reader *r, struct file_layout *layout);
void file_policy_encode(const struct file_policy *policy, struct buf *out);
void file_policy_decode(struct reader *r, struct file_policy *policy);

/* True when every field that is not 0 is in range. */
bool file_policy_valid(const struct file_policy *policy);
bool file_policy_empty(const struct file_policy *policy);

/* ---- The others ---- */

struct dentry
{
    inode_id inode;
    uint32_t type; /* S_IFMT bits. */
};

void dentry_encode(const struct dentry *dentry, struct buf *out);
int dentry_decode(struct slice bytes, struct dentry *dentry);

struct super
{
    uint32_t store_version;
    struct cluster_id cluster;
    int64_t made_ns;
    bool
        auto_copies; /* Made when new files came to have two copies by themselves, where that is not
                         set otherwise (copies_rule.h): before, they had one. */
};

/* With `auto_copies`: who knows nothing of that would make files of one copy. */
enum { SUPER_VERSION_COPIES = RECORD_VERSION + 1 };

void super_encode(const struct super *super, struct buf *out);
int super_decode(struct slice bytes, struct super *super); /* MORSEL_VERSION: a newer store. */

struct counters
{
    uint64_t sequence;   /* Of the last operation applied. */
    inode_id inode_next; /* Never given out yet. */
    uint64_t inodes;     /* Inode records. */
    uint64_t garbage;    /* G records. */
    uint64_t policies;   /* Directories with a policy of their own. */
    uint64_t orphans;    /* O records. */
    client_id grantee;   /* Who may have been caching last (session.h); 0: nobody. */
    uint64_t
        lease_epochs_over; /* Lease epochs (lease.h) that have come to their end: whoever had one may have
                             written bytes that he did not report. */
};

void counters_encode(const struct counters *counters, struct buf *out);
int counters_decode(struct slice bytes, struct counters *counters);

enum { MEMBER_ADDRESS_BYTES_MAX = 255, MEMBER_NAME_BYTES_MAX = 255 };

struct member_record
{
    server_id id;
    uint8_t token[16];
    char address[MEMBER_ADDRESS_BYTES_MAX + 1]; /* host:port */
    char name[MEMBER_NAME_BYTES_MAX + 1];
    bool removed; /* It was taken out of the cluster for good: the record stays, so that its
                     directory is never let in again and its id is never given to another one. */
    bool waits;   /* Nobody has admitted it yet. Of one that was removed that does not matter. */
    uint64_t bytes_total; /* As of the registration. */
    uint64_t bytes_free;
    struct starts_known starts; /* All 0 in records from before there were marks; the
                                   count alone in those from before it was told. */
};

/* Of a server that was removed: who knows nothing of that must not let it in again. */
enum {
    MEMBER_VERSION_REMOVED = RECORD_VERSION + 1,
    MEMBER_VERSION_WAITS /* Likewise, of one that was not admitted. */
};

void member_encode(const struct member_record *member, struct buf *out);
int member_decode(server_id id, struct slice bytes, struct member_record *member);

/* A benefactor: who it is. What it gives and where it is it says itself (donors.h). */
struct donor_record
{
    donor_id id;
    uint8_t token[16];
    char name[MEMBER_NAME_BYTES_MAX + 1]; /* Of its machine, when it joined first. */
};

void donor_encode(const struct donor_record *donor, struct buf *out);

/* N of 0: numbers below that one have been given, also those of benefactors that are forgotten. There is none before the first of them. */
void donor_floor_encode(donor_id next, struct buf *out);
int donor_floor_decode(struct slice bytes, donor_id *next);
int donor_decode(donor_id id, struct slice bytes, struct donor_record *donor);

/* B: whose objects they are. */
void body_owner_encode(inode_id file, struct buf *out);
int body_owner_decode(struct slice bytes, inode_id *file);

/* E: how long the session was waited for (struct session_kept); of client 0 also the run (runs.h) of
 * which all sessions are written down, else 0. */
struct session_record
{
    uint64_t run;
    uint32_t waited_ms; /* SESSION_STRUCK_OUT, of client 0 alone: nobody is waited for. */
};
enum { SESSION_STRUCK_OUT = UINT32_MAX };
void session_record_encode(const struct session_record *record, struct buf *out);
int session_record_decode(client_id client, struct slice bytes, struct session_record *record);

/* Targets and attributes: a version byte before the bytes; orphans and garbage: nothing else. */
void plain_encode(struct slice bytes, struct buf *out);
int plain_decode(struct slice stored, struct slice *bytes);

#endif
