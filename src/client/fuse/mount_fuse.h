/* The mount: FUSE requests on the client's event loop.
 *
 * /dev/fuse is a poll handle on the loop; every request is answered later, through a struct
 * mount_op that lives from the request to its one reply. The nodeid that the kernel sees is the
 * inode number, which is never used twice, so the kernel may know millions of inodes and FORGET has
 * nothing to do.
 *
 * Files: mount_fuse.c (session, interrupts), name_ops_fuse.c (names),
 * attr_ops_fuse.c and setattr_ops_fuse.c (attributes), extent_ops_fuse.c (FALLOCATE, LSEEK), copy_ops_fuse.c
 * (COPY_FILE_RANGE), exchange_fuse.c and watch_fuse.c (IOCTL), pause_fuse.c and kept_fuse.c (files that are held), open_ops_fuse.c, file_ops_fuse.c (open files), lock_ops_fuse.c, dir_ops_fuse.c
 * (directories), xattr_ops_fuse.c, who_fuse.c (credentials), and what Debian's libfuse does not
 * know: tmpfile_fuse.c, init_fuse.c.
 */
#ifndef MORSEL_CLIENT_FUSE_MOUNT_FUSE_H
#define MORSEL_CLIENT_FUSE_MOUNT_FUSE_H

#define FUSE_USE_VERSION 314

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/kernel_names.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/data/closes_uv.h"
#include "client/data/file_uv.h"
#include "client/data/size_uv.h"
#include "client/fuse/groups_file.h"
#include "client/fuse/options.h"
#include "client/libmorsel_uv.h"
#include "client/manager/servers_uv.h"
#include "common/fs/byte_locks.h"
#include "common/fs/permission.h"

#include "common/daemon/counters.h"

#include <fuse_lowlevel.h>

/* What the kernel asks, as the counters tell it apart. */
#define MOUNT_KINDS(X)                                                                             \
    X(MOUNT_LOOKUP, "lookup")                                                                      \
    X(MOUNT_GETATTR, "getattr")                                                                    \
    X(MOUNT_SETATTR, "setattr")                                                                    \
    X(MOUNT_MAKE, "make")                                                                          \
    X(MOUNT_LINK, "link")                                                                          \
    X(MOUNT_REMOVE, "remove")                                                                      \
    X(MOUNT_RENAME, "rename")                                                                      \
    X(MOUNT_READLINK, "readlink")                                                                  \
    X(MOUNT_READDIR, "readdir")                                                                    \
    X(MOUNT_CREATE, "create")                                                                      \
    X(MOUNT_OPEN, "open")                                                                          \
    X(MOUNT_READ, "read")                                                                          \
    X(MOUNT_WRITE, "write")                                                                        \
    X(MOUNT_FLUSH, "flush")                                                                        \
    X(MOUNT_FSYNC, "fsync")                                                                        \
    X(MOUNT_RELEASE, "release")                                                                    \
    X(MOUNT_FALLOCATE, "fallocate")                                                                \
    X(MOUNT_LSEEK, "lseek")                                                                        \
    X(MOUNT_COPY, "copy")                                                                          \
    X(MOUNT_XATTR, "xattr")                                                                        \
    X(MOUNT_XATTR_SET, "xattr_set")                                                                \
    X(MOUNT_STATFS, "statfs")                                                                      \
    X(MOUNT_LOCK, "lock")                                                                          \
    X(MOUNT_EXCHANGE, "exchange")

#define X(name, words) name,
enum mount_kind { MOUNT_KINDS(X) MOUNT_KINDS_COUNT };
#undef X

struct mount_statistics
{
    uint64_t served, failed;
    uint64_t served_ns; /* From when the request was read to its reply, summed. */
    uint64_t bytes;     /* Of data, read or written. */
};

enum {
    MOUNT_REQUEST_BYTES_MAX = 1 << 20, /* Data of one READ or WRITE */
    MOUNT_REQUESTS_PER_ITERATION = 32, /* Then the network gets its share. */
    LOOK_NS = 12000,                   /* For the next request, before going to sleep. */
    LOOKS_VAIN_MAX = 63,               /* So many iterations are passed over at most. */
    LOOKED_UP_MAX = 16,
    LOOKED_UP_MS = 100,
    MOUNT_POOL_THREADS = 16,
    DROPS_WAITING_MAX = 12, /* Of the pool's threads, with one drop each. */
    DROP_RETRY_MS = 1,
    MOUNT_KEPT_MAX = 64,      /* Requests about files that are exchanging their bytes. */
    MOUNT_INTERRUPT_MS = 1000 /* An interrupted request may still end by itself for this long. */
};

/* What a LOOKUP has just told the kernel. */
struct looked_up
{
    inode_id inode;
    uint64_t at_ms;
    struct stat st;
};

/* A request that waits unread. */
struct kept_request
{
    struct payload *payload;
    size_t size;
};

/* Files of which nothing is taken up. */
struct mount_hold
{
    struct list node; /* In mount.holds. */
    inode_id inodes[2];
    bool settles; /* What was begun before may go on. */
    bool given_up;
};

struct mount
{
    struct client *client;
    struct fuse_session *session;
    uv_poll_t poll;
    uv_timer_t interrupts;
    struct payload *receive; /* Where the next request is read to. */
    struct list ops;         /* struct mount_op under way. */
    struct list catching_up; /* struct kernel_wait: for the device to be empty. */
    unsigned releasing;      /* RELEASEs under way. */
    size_t ops_count;
    struct list behind_truncations; /* struct size_op: GETATTRs that wait for truncations. */
    struct list awaited; /* struct kernel_view: it has an answer that it is to take in, */
    uv_timer_t late;     /* and soon must have. */
    struct list dirs;    /* Open directories; see mount_dir_removed(). */
    struct looked_up looked_up[LOOKED_UP_MAX];
    unsigned looked_up_next;
    struct kernel_names *names; /* What it was told of them lately. */
    bool mounted;
    uint32_t kernel_version;        /* Of options.h: what it is to be taken for; 0: what it is. */
    bool drops_names;               /* The kernel can be told to look up all names again. */
    bool maps_direct;               /* And to map handles that bypass its pages. */
    bool strips_ids;                /* It leaves set-id bits to us. */
    bool init_asked, init_answered; /* init_fuse.c */
    uint64_t init_unique;
    void *unreadable;      /* An address that nobody may read; see invalidate_fuse.c. */
    struct list exchanges; /* struct exchange_op under way (exchange_fuse.c) */
    uv_timer_t exchange_timer;
    struct list pauses; /* struct mount_pause under way (pause_fuse.c) */
    uv_timer_t pause_timer;
    struct list holds;                        /* struct mount_hold, of both, */
    struct kept_request kept[MOUNT_KEPT_MAX]; /* and what the kernel asked about their files. */
    unsigned kept_count;
    inode_id asked;          /* About which inode the request that is just being taken up is. */
    struct list drops;       /* struct kernel_drop: what the kernel is to drop next. */
    struct list drops_again; /* And when the timer has run. */
    uv_timer_t drop_retry;
    unsigned drops_waiting, drops_quick; /* Jobs in the pool. */
    unsigned prefetches;                 /* Directories that are being read ahead. */
    uint32_t looks_vain, looks_skipped;  /* Of receive(). */
    uint32_t never_twice;                /* For times that no two GETATTRs have in common; see
                                            kernel_question_answer(). */
    struct mount_statistics statistics[MOUNT_KINDS_COUNT];
    void (*ended)(void *data); /* The kernel let go of the mount (umount). */
    void *data;
};

/* One request, embedded first in what the request is about; freed by mount_op_end(). */
struct mount_op
{
    struct list node;
    struct mount *mount;
    fuse_req_t req;
    enum mount_kind kind;
    inode_id inode; /* That the kernel has named it for: of names, the directory. */
    uint64_t arrived_ns;
    uint32_t bytes; /* Of data; for the counters. */
    struct meta_call call;
    uint64_t interrupted_ms;             /* 0: not interrupted. */
    void (*cancel)(struct mount_op *op); /* Make it end soon; NULL: mount_op_cancel_asking(). */
    bool cancel_at_once; /* When it is interrupted; others get MOUNT_INTERRUPT_MS to end. */
    struct size_ask ask; /* mount_refresh_size() */
    void (*go)(struct mount_op *op, int status);
    void (*give_up)(struct mount_op *op); /* mount_op_bound() */
    uint64_t give_up_ms;
    bool given_up; /* Its request has been replied. */
};

/* `size` bytes, zeroed, that begin with a mount_op. NULL: ENOMEM has been replied. */
void *mount_op_new(fuse_req_t req, enum mount_kind kind, size_t size);

/* Likewise, but only the first `head` bytes are zeroed. */
void *mount_op_new_head(fuse_req_t req, enum mount_kind kind, size_t size, size_t head);

/* Add the counters of the mount and of its client to `list`. */
void mount_count(const struct mount *m, struct counter_list *list);

/* Answer GETXATTR of STATISTICS_XATTR: a line "name value" for each counter. */
#define STATISTICS_XATTR "user.morsel.statistics"
enum { STATISTICS_BYTES_MAX = 65536 /* XATTR_SIZE_MAX */ };
void mount_reply_statistics(const struct mount *m, fuse_req_t req, size_t size);

/* client_kernel.catch_up. */
void mount_catch_up(void *mount, struct kernel_wait *wait);

/* One of m->releasing has come to its end. */
void mount_release_ended(struct mount *m);

/* Free the op; its request must have been replied. */
void mount_op_end(struct mount_op *op);

/* Reply the errno of `status` (0 too), unless it was given up, and end. */
void mount_op_fail(struct mount_op *op, int status);

/* What it asks has to be asked until there is an answer, and whoever waits for it is to wait for io_timeout at most: then
 * `give_up` runs, once, unless op->give_up is NULL again by then. There mount_op_give_up() replies that no answer came; the
 * op goes on. */
void mount_op_bound(struct mount_op *op, void (*give_up)(struct mount_op *op));
void mount_op_give_up(struct mount_op *op);

/* Reply the errno of `status` now; the op goes on, and whoever ends it looks at op->given_up. */
void mount_op_answer(struct mount_op *op, int status);

/* Reply an error to a request of which libfuse does not know. */
void mount_refuse(const struct mount *m, uint64_t unique, int error);

/* Start a question or a change with op->call; on failure the error is replied and the op ended. */
bool mount_op_ask(struct mount_op *op, enum message_type type, const ProtobufCMessage *request,
                  const ProtobufCMessageDescriptor *reply_type, meta_call_cb done);
bool mount_op_change(struct mount_op *op, enum message_type type, const ProtobufCMessage *request,
                     Morsel__OpId **op_id, const ProtobufCMessageDescriptor *reply_type,
                     meta_call_cb done);

/* What it asks the manager, with op->call or mount_refresh_size(), ends soon, with MORSEL_CANCELED.
 * Harmless while it asks nothing. */
void mount_op_cancel_asking(struct mount_op *op);

/* Ask the manager how long the file is now: while it is shared nobody else knows. `go` runs once,
 * later or (out of memory) at once. */
void mount_refresh_size(struct mount_op *op, struct file *file,
                        void (*go)(struct mount_op *op, int status));

/* Who asks, for a request that wants `wanted` (MAY_*) of `inode`. Supplementary groups are told
 * where they may decide (INODE_NONE: always): they cost a look into /proc. Returns &w->message,
 * which borrows from `w`. */
struct mount_who
{
    Morsel__Credentials message;
    uint32_t groups[GROUPS_MAX];
};
struct mount_user
{
    uint32_t uid, gid;
    pid_t pid;
};
Morsel__Credentials *mount_who(struct mount *m, struct mount_who *w, fuse_req_t req, inode_id inode,
                               uint32_t wanted);
Morsel__Credentials *mount_who_of(struct mount *m, struct mount_who *w,
                                  const struct mount_user *user, inode_id inode, uint32_t wanted);

/* For a file that is made with `mode` in `parent`. */
Morsel__Credentials *mount_who_makes(struct mount *m, struct mount_who *w, fuse_req_t req,
                                     inode_id parent, uint32_t mode);

/* May a request that wants `wanted` of `inode` be answered here? Its kernel has said yes; false
 * where the manager squashes the user and may think otherwise. */
bool mount_may(struct mount *m, fuse_req_t req, inode_id inode, uint32_t wanted);

/* A name or value as a field of a request; borrows `text`. */
ProtobufCBinaryData mount_bytes(const char *text);

/* What stat(2) says. */
void mount_stat(const Morsel__Attr *attr, struct stat *st);

/* A directory entry for the kernel; our own news about an open file are put in. Names and
 * attributes may be kept as long as the leases on `parent` and on the inode last. INODE_NONE: a
 * name that is not to be kept. */
void mount_entry(struct mount *m, inode_id parent, const char *name, const Morsel__Attr *attr,
                 struct fuse_entry_param *entry);

/* The kernel knows by its own rename that the name is this inode's. */
void mount_name_moved(struct mount *m, inode_id parent, const char *name, inode_id inode);

/* stat(2) is a LOOKUP and, where the answer may not be kept, a GETATTR. When the file is deleted
 * elsewhere in between, the answer of the LOOKUP is the right one: it was true during the call.
 * NULL: no LOOKUP has just told of the inode. */
void mount_note_lookup(struct mount *m, const struct fuse_entry_param *entry);
const struct stat *mount_lookup_stat(const struct mount *m, inode_id inode);

/* How long the kernel may keep the attributes in the answer to a change (SETATTR, LINK, MKDIR ...;
 * CREATE of what it knows already): not at all. It believes them whatever it was told between our
 * answer and the moment when whoever asked runs again, a recall's notification among it; answers to
 * LOOKUP, READDIRPLUS and GETATTR it passes over then. */
#define MOUNT_CHANGED_SECONDS 0.0

/* How long the kernel may keep the attributes, in seconds; not in the answer to a change. */
double mount_attr_seconds(struct mount *m, const Morsel__Attr *attr);

/* These attributes are told with an answer to anything but a question of the kernel's own
 * (kernel_view.h), of which attr_ops_fuse.c takes care. */
void mount_note_told(struct file *file, const struct stat *st);

/* file_ops_fuse.c: kernel_question_answered(), and somebody waits for the thread; and the thread asks
 * for something again. */
void mount_await(struct mount *m, const struct kernel_question *q, struct kernel_view *v,
                 uint32_t thread);
void mount_heard(struct mount *m, uint32_t thread);

/* Nobody is waited for any more. */
void mount_await_nobody(struct mount *m);

/* Put what a page of a directory says into the table. `listing` is meta_cache_listing() of the time
 * of the first page. */
void mount_learn_page(struct mount *m, inode_id directory, uint64_t listing,
                      const Morsel__ReaddirReply *page);

/* A look-up in the directory had to ask the manager: perhaps it is worth reading as a whole
 * (dir_prefetch_fuse.c). */
void mount_prefetch(struct mount *m, inode_id directory);

/* invalidate_fuse.c: what the kernel is to drop (client->kernel). */
void mount_kernel_drop(void *mount, struct kernel_drop *drop);

/* Nothing is told again. */
void mount_drops_end(struct mount *m);

/* Drop all names, at once. Takes no lock: allowed on the loop, and while the kernel waits for us.
 */
void mount_drop_names(struct mount *m);

/* A change has made the name this inode's, or nobody's (INODE_NONE). `known`: it was carried out before it was
 * answered, and others may have changed the name since: then nothing is known of it, here or in the kernel. */
void mount_learn_name(struct mount *m, inode_id parent, const char *name, inode_id inode,
                      bool known);

/* The kernel may hold names in the directory, as long as our lease on it lasts. */
void mount_note_names(struct mount *m, inode_id directory);

/* Can this kernel drop all names at once? Linux 6.16 and later. */
bool mount_probe_drops_names(struct fuse_session *session);

/* Before the first request is read: learn whether the kernel maps handles that bypass its pages
 * (m->maps_direct), and ask for it. The session's user data is the mount. 0, or a negative errno.
 */
int mount_watch_init(struct fuse_session *session);

/* Does the kernel have what came with `since` (MOUNT_KERNEL())? Beside what INIT says: a test may
 * want it to be an older one (-o kernel). */
bool mount_kernel_has(const struct mount *m, uint32_t since);

/* Begin to serve `session` (mounted already) on the client's loop. A libuv status. */
int mount_start(struct mount *m, struct client *client, struct fuse_session *session,
                void (*ended)(void *data), void *data);

/* A directory that is open here was removed here: its handles still answer fstat(2), with no links.
 */
void mount_dir_removed(struct mount *m, const Morsel__Attr *attr);

/* client_kernel.dir_lost. */
void mount_dir_lost(void *mount, inode_id inode);

/* Attributes of a directory that was removed while open here; NULL: it was not. */
const struct stat *mount_dir_removed_stat(struct mount *m, inode_id inode);

/* Free what a process has locked, then go on; `then` may run at once. `op` may be NULL: nobody
 * waits for it. */
void mount_unlock_process(struct mount *m, struct mount_op *op, inode_id inode, uint64_t owner,
                          void (*then)(struct mount_op *op));

/* Free what was locked through the open file, without waiting. */
void mount_unlock_handle(struct mount *m, const struct handle *handle);

/* Answer O_TMPFILE, which Debian's libfuse does not know. False: it is another request. */
bool mount_take_tmpfile(struct mount *m, const struct fuse_buf *buf);

/* kept_fuse.c: keep the request in m->receive until later? */
bool mount_keep(struct mount *m, const struct fuse_buf *buf);

/* What the kernel asks about these inodes (which may be the same) is kept from now on; mount_take_up_kept() is due behind the
 * end. Given up: who has waited is refused, and what comes is let through. */
void mount_hold_begin(struct mount *m, struct mount_hold *hold, inode_id inode, inode_id other);
void mount_hold_give_up(struct mount *m, struct mount_hold *hold);
void mount_hold_end(struct mount_hold *hold);
void mount_take_up_kept(struct mount *m);

/* The inode that a request names. */
inode_id mount_inode_of(const struct fuse_buf *buf);

/* Has something come that names the inode, and was not replied yet, but for locks? */
bool mount_is_at(const struct mount *m, inode_id inode);
void mount_holds_start(struct mount *m);
void mount_holds_stop(struct mount *m);

/* pause_fuse.c: the manager wants the inode to be held still (client->kernel). */
void mount_pause(void *mount, inode_id inode, uint64_t number);
void mount_pauses_start(struct mount *m);
void mount_pauses_stop(struct mount *m);

/* watch_fuse.c: EXCHANGE_WATCH */
struct exchange_watch;
void mount_watch(fuse_req_t req, struct handle *handle, const struct exchange_watch *wanted);

/* exchange_fuse.c */
void mount_exchanges_start(struct mount *m);
void mount_exchanges_stop(struct mount *m);

/* A request of the kernel, which lies in m->receive, begins; and those are read that nobody read while
 * as many were kept as may be. */
void mount_process(struct mount *m, const struct fuse_buf *buf);
void mount_read_on(struct mount *m);

/* True while the only request under way waits for the manager: its answer comes within
 * microseconds, and its sender sleeps until then. */
bool mount_awaits_manager(const struct mount *m);

/* Stop taking requests. */
void mount_stop(struct mount *m);

/* The loop has come to its end. Allowed on one that has never started. */
void mount_free(struct mount *m);

/* The table of callbacks; the parts of it. */
void mount_operations(struct fuse_lowlevel_ops *ops);
void mount_name_operations(struct fuse_lowlevel_ops *ops);
void mount_attr_operations(struct fuse_lowlevel_ops *ops);
void mount_setattr_operations(struct fuse_lowlevel_ops *ops);
void mount_extent_operations(struct fuse_lowlevel_ops *ops);
void mount_copy_operations(struct fuse_lowlevel_ops *ops);
void mount_open_operations(struct fuse_lowlevel_ops *ops);
void mount_file_operations(struct fuse_lowlevel_ops *ops);
void mount_dir_operations(struct fuse_lowlevel_ops *ops);
void mount_xattr_operations(struct fuse_lowlevel_ops *ops);
void mount_lock_operations(struct fuse_lowlevel_ops *ops);
void mount_exchange_operations(struct fuse_lowlevel_ops *ops);

#endif
