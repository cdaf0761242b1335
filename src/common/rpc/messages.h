/* Message types on the wire. The numbers are part of the wire format: never renumber, only append.
 */
#ifndef MORSEL_COMMON_RPC_MESSAGES_H
#define MORSEL_COMMON_RPC_MESSAGES_H

#define MESSAGE_MAP(X)                                                                             \
    X(MSG_HELLO, 1, "hello")                                                                       \
    X(MSG_STATISTICS, 2, "statistics")                                                             \
    X(MSG_CLOCK, 3, "clock")                                                                       \
    /* Storage servers, data.proto */                                                              \
    X(MSG_READ, 16, "read")                                                                        \
    X(MSG_WRITE, 17, "write")                                                                      \
    X(MSG_TRUNCATE, 18, "truncate")                                                                \
    X(MSG_PUNCH, 19, "punch")                                                                      \
    X(MSG_SEEK, 20, "seek")                                                                        \
    X(MSG_SYNC, 21, "sync")                                                                        \
    X(MSG_DELETE, 22, "delete")                                                                    \
    X(MSG_OBJECT_STAT, 23, "object_stat")                                                          \
    X(MSG_OBJECT_LIST, 24, "object_list")                                                          \
    X(MSG_ALLOCATE, 25, "allocate")                                                                \
    X(MSG_COPY, 26, "copy")                                                                        \
    X(MSG_WATCH, 27, "watch")                                                                      \
    /* Manager, meta.proto */                                                                      \
    X(MSG_SESSION, 64, "session")                                                                  \
    X(MSG_LOOKUP, 65, "lookup")                                                                    \
    X(MSG_GETATTR, 66, "getattr")                                                                  \
    X(MSG_SETATTR, 67, "setattr")                                                                  \
    X(MSG_CREATE, 68, "create")                                                                    \
    X(MSG_UNLINK, 69, "unlink")                                                                    \
    X(MSG_RENAME, 70, "rename")                                                                    \
    X(MSG_LINK, 71, "link")                                                                        \
    X(MSG_READLINK, 72, "readlink")                                                                \
    X(MSG_READDIR, 73, "readdir")                                                                  \
    X(MSG_OPEN, 74, "open")                                                                        \
    X(MSG_CLOSE, 75, "close")                                                                      \
    X(MSG_SIZE_REPORT, 76, "size_report")                                                          \
    X(MSG_XATTR_GET, 77, "xattr_get")                                                              \
    X(MSG_XATTR_SET, 78, "xattr_set")                                                              \
    X(MSG_XATTR_LIST, 79, "xattr_list")                                                            \
    X(MSG_STATFS, 80, "statfs")                                                                    \
    X(MSG_FSYNC, 81, "fsync")                                                                      \
    X(MSG_POLICY, 82, "policy")                                                                    \
    X(MSG_RECALL, 83, "recall")                                                                    \
    X(MSG_RETURN, 84, "return")                                                                    \
    X(MSG_LOCK, 85, "lock")                                                                        \
    X(MSG_LOCK_CANCEL, 86, "lock_cancel")                                                          \
    X(MSG_SET_LAYOUT, 87, "set_layout")                                                            \
    X(MSG_LOCK_REVOKE, 88, "lock_revoke")                                                          \
    X(MSG_HELD_UP, 89, "held_up")                                                                  \
    X(MSG_LOCK_CHECK, 90, "lock_check")                                                            \
    X(MSG_LOCK_CHECKED, 91, "lock_checked")                                                        \
    X(MSG_SYNCED, 92, "synced")                                                                    \
    X(MSG_EXCHANGE, 93, "exchange")                                                                \
    X(MSG_WRITERS, 94, "writers")                                                                  \
    X(MSG_MEMBERS, 96, "members")                                                                  \
    X(MSG_REGISTER, 97, "register")                                                                \
    X(MSG_HEARTBEAT, 98, "heartbeat")                                                              \
    X(MSG_STATUS, 99, "status")                                                                    \
    X(MSG_FSCK, 100, "fsck")                                                                       \
    X(MSG_FSCK_OBJECTS, 101, "fsck_objects")                                                       \
    X(MSG_SPACE_WANTED, 104, "space_wanted")                                                       \
    /* Voters, vote.proto */                                                                       \
    X(MSG_VOTE, 105, "vote")                                                                       \
    X(MSG_VOTES_READ, 106, "votes_read")                                                           \
    X(MSG_VOTES_CARRY, 107, "votes_carry")                                                         \
    /* Servers of a group, replica.proto */                                                        \
    X(MSG_GROUP_WORDS, 108, "group_words")                                                         \
    X(MSG_MIRROR_LEASE, 109, "mirror_lease")                                                       \
    X(MSG_REPLICA, 110, "replica")                                                                 \
    X(MSG_PROBE, 111, "probe")                                                                     \
    X(MSG_HAND_ON, 112, "hand_on")                                                                 \
    /* Manager */                                                                                  \
    X(MSG_RECOVER, 116, "recover")                                                                 \
    X(MSG_DONOR_JOIN, 117, "donor_join")                                                           \
    X(MSG_DONOR_REPORT, 118, "donor_report")                                                       \
    X(MSG_DONOR_WANTED, 119, "donor_wanted")                                                       \
    X(MSG_DONOR_LIST, 120, "donor_list")                                                           \
    X(MSG_PAUSE, 121, "pause")                                                                     \
    X(MSG_PAUSED, 122, "paused")                                                                   \
    X(MSG_SET_PLACE, 123, "set_place")                                                             \
    X(MSG_SET_STORED, 124, "set_stored")                                                           \
    X(MSG_SET_SEAL, 125, "set_seal")                                                               \
    X(MSG_SET_MAP, 126, "set_map")                                                                 \
    X(MSG_SET_LIST, 127, "set_list")                                                               \
    X(MSG_DONOR_HELD, 128, "donor_held")                                                           \
    X(MSG_DONOR_FETCH, 131, "donor_fetch")                                                         \
    X(MSG_DONOR_FETCHED, 132, "donor_fetched")                                                     \
    X(MSG_SET_CLAIM, 134, "set_claim")                                                             \
    X(MSG_SET_RETURNED, 135, "set_returned")                                                       \
    X(MSG_DONOR_FORGET, 138, "donor_forget")                                                       \
    X(MSG_SET_DAMAGED, 140, "set_damaged")                                                         \
    X(MSG_DONOR_CHECK, 141, "donor_check")                                                         \
    X(MSG_DONOR_CHECKED, 142, "donor_checked")                                                     \
    X(MSG_DONOR_TRUST, 143, "donor_trust")                                                         \
    /* A benefactor and its owner, donate.proto */                                                 \
    X(MSG_DONATE, 133, "donate")

#define X(name, wire, words) name = wire,
enum message_type { MESSAGE_MAP(X) MESSAGE_TYPES_MAX = 160 };
#undef X

/* "lookup"; "unknown" for a number that is not in the list. */
const char *message_name(unsigned type);

/* Which attributes a SETATTR changes. */
enum setattr_valid {
    SETATTR_MODE = 1 << 0,
    SETATTR_UID = 1 << 1,
    SETATTR_GID = 1 << 2,
    SETATTR_SIZE = 1 << 3,
    SETATTR_ATIME = 1 << 4,
    SETATTR_MTIME = 1 << 5,
    SETATTR_ATIME_NOW = 1 << 6, /* The manager's clock. */
    SETATTR_MTIME_NOW = 1 << 7,
    SETATTR_DATA = 1 << 8, /* The bytes changed too (punch, zero range): advance data_version. */
    /* Whoever truncates or extends (SETATTR_SIZE) may not keep set-id bits. */
    SETATTR_STRIP_IDS = 1 << 9,
    SETATTR_KNOWN = (1 << 10) - 1
};

enum recover_what {
    RECOVER_PAUSE = 1, /* Servers that are away are not replaced, until ... */
    RECOVER_START = 2,
    RECOVER_LEAVE = 3,          /* The server is to leave all its groups; */
    RECOVER_STAY = 4,           /* it need not. */
    RECOVER_VERIFY = 5,         /* The copies of a group, or of all, are compared. */
    RECOVER_FORCE = 6,          /* Its copy of the group counts from now on. */
    RECOVER_REMOVE = 7,         /* The server is gone for good. */
    RECOVER_REBALANCE = 8,      /* Copies are to move so that disks are about equally full; */
    RECOVER_REBALANCE_STOP = 9, /* those that have not begun to are to stay. */
    RECOVER_ADMIT = 10          /* The server, which is new, is one of the cluster from now on. */
};

enum donate_what {
    DONATE_STATUS = 1,
    DONATE_SET = 2, /* What is given, or what stays free. */
    DONATE_PAUSE = 3,
    DONATE_RESUME = 4,
    DONATE_LEAVE = 5
};

enum layout_class { CLASS_INHERIT = 0, CLASS_DURABLE = 1, CLASS_SCAVENGED = 2 };

#endif
