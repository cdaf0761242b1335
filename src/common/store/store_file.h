/* Inside of the local object store: what its files share. Nobody else includes this.
 *
 *   store_file.c             open, close, delete, stat, space, checkpoints
 *   store_sync_file.c        everything that waits for the disk, and what its failures mean
 *   store_table_file.c       bounded table of open objects, their locks
 *   store_checksums_file.c   checksums of recently used groups, in memory and from the file
 *   store_read_file.c        reading
 *   store_write_file.c       writing
 *   store_shape_file.c       truncate, punch, allocate, seek
 *   store_mend_file.c        damage that another copy mends; files that others have cut
 *   store_watch_file.c       what is changed of objects that are watched
 *   store_scrub_file.c       reading to verify, beside clients
 *   store_recover_file.c     verify blocks, decide about them after a crash
 *   store_list_file.c        the directories: list, count
 *   store_budget_file.c      how much objects may take
 *   store_checkpoint_file.c  which objects were on disk at a crash
 *   store_format.c           bytes of the file (pure)
 *   watches.c                which parts of an object were changed since (pure)
 *
 * Order of locks: checkpoint_lock, an object's lock, its sync_lock, then one of table_lock,
 * failure_lock, watches_lock and a set of the checksums; none of these four is held over a system call
 * on an object file.
 */
#ifndef MORSEL_COMMON_STORE_STORE_FILE_H
#define MORSEL_COMMON_STORE_STORE_FILE_H

#include "common/base/list.h"
#include "common/store/store.h"
#include "common/store/store_checkpoint_file.h"
#include "common/store/store_format.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

enum {
    CHECKSUMS_SETS = 1024, /* Of the cache of checksums: 4096 groups, 8 MiB, cover 4 GiB of data */
    CHECKSUMS_WAYS = 4,
    WINDOW_BYTES = 4 << 20,                         /* Read or written in one step */
    WINDOW_GROUPS = WINDOW_BYTES / GROUP_BYTES + 1, /* That may touch */
    WINDOW_IOVECS = 3 * WINDOW_GROUPS + 2
};

/* An object in the table: open, or known not to exist. */
struct object
{
    struct object_id id;
    struct object *chain;   /* table_lock */
    struct list idle;       /* table_lock; in store->idle while nobody refers to it. */
    struct list unverified; /* table_lock; in store->unverified while `trust` is not TRUSTED. */
    uint32_t references;    /* table_lock */

    pthread_rwlock_t lock; /* Guards what follows. Readers together, a writer exclusively. */
    bool loaded;           /* What follows is known. */
    bool dead;             /* Deleted, no longer in the table: look it up again. */
    bool exists;
    bool stamped; /* The header is in the file. */
    int fd;       /* -1: does not exist. */
    enum store_trust trust;
    bool lacks;          /* store_lacks() */
    uint64_t serial;     /* Key of its checksums in the cache; new for each opening. */
    uint64_t checkpoint; /* Of the header. */
    uint64_t size;       /* Of the object. */
    uint64_t end;        /* Of the file; changed by object_grow_to() and object_set_end(). */
    uint64_t counted;    /* What it counts for in `used` of the store. */
    uint64_t proven;     /* Groups verified so far while not TRUSTED. */

    _Atomic uint64_t changes; /* Counted up by each change; a sync that began later covers it. */
    _Atomic uint64_t synced;  /* Changes that are on disk. */
    _Atomic uint64_t sync_wanted; /* That complete changes wait for. */
    atomic_bool name_synced;
    uint64_t tree_needed; /* The first flush of the tree that is told every error of changes from
                           * before it was opened; 0: there are none, or they are covered by a
                           * checkpoint. */
    pthread_mutex_t sync_lock; /* One sync at a time: the kernel tells an error to one of two. */
    atomic_bool sync_failed; /* The disk lost something: no later sync may say that all is well. */
};

struct checksums_way
{
    uint64_t serial; /* 0: empty. */
    uint64_t group;
    uint32_t used;
    struct store_sum checksums[GROUP_BLOCKS];
};

struct checksums_set
{
    pthread_mutex_t lock;
    uint32_t clock;
    struct checksums_way ways[CHECKSUMS_WAYS];
};

struct store
{
    struct store_options options;
    int dir_fd;
    int objects_fd;
    uint32_t zeros_crc; /* Of a block of zeros. */
    struct checkpoints checkpoints;

    pthread_mutex_t table_lock;
    pthread_cond_t table_room;
    struct object **buckets;
    uint32_t buckets_mask;
    uint32_t open_count;
    struct list idle; /* Least recently used first. */
    struct list unverified;

    _Atomic uint64_t serial;
    _Atomic uint64_t objects;
    struct checksums_set *checksums;

    atomic_bool subdir_there[STORE_SUBDIRS];  /* Before its first name. No other is looked for. */
    atomic_bool subdir_synced[STORE_SUBDIRS]; /* The name of that subdirectory is on disk. */
    atomic_bool subdir_left[STORE_SUBDIRS]; /* A name left it, and nobody has synced that since. */
    atomic_bool left_before;                /* So it may be from the run before. */

    _Atomic uint64_t tree_begun; /* Flushes of the tree (FLUSH_TREE). */
    _Atomic uint64_t tree_done;  /* The last of them that has ended well. */

    pthread_mutex_t failure_lock;
    struct errmsg failure; /* failure_lock: the first sync that failed. */

    pthread_mutex_t checkpoint_lock;
    uint64_t checkpoint_began_ms; /* checkpoint_lock: when the checkpoint began. */
    bool counted;                 /* checkpoint_lock: `objects` is exact. */

    pthread_mutex_t watches_lock;
    struct watches watches;   /* watches_lock */
    _Atomic uint64_t watched; /* watches_marks() */

    _Atomic int64_t used; /* By objects. Below 0 until stock was taken. */
    _Atomic uint64_t limit;
    atomic_bool write_failed; /* store_write_failed() */

    _Atomic int64_t room_bytes; /* Free space at the last look, less what was written since. */
    _Atomic uint64_t room_seen_ms;
};

/* ---- store_table_file.c ---- */

enum object_mode { OBJECT_SHARED, OBJECT_EXCLUSIVE };

int table_init(struct store *store);
void table_free(struct store *store);

/* Look up, open and lock. The object may not exist (`exists`). With OBJECT_SHARED the first user
 * may get it alone. */
int object_lock(struct store *store, struct object_id id, enum object_mode mode,
                struct object **object_out, struct errmsg *err);

/* The same shared and without waiting or opening: NULL. */
struct object *object_try_lock(struct store *store, struct object_id id);
void object_unlock(struct store *store, struct object *object);

/* Look up and lock exclusively for a change; then ask the gate. A file that somebody else has cut is
 * as long again as it was. */
int object_lock_gated(struct store *store, struct object_id id, const struct store_gate *gate,
                      struct object **object_out, struct errmsg *err);

/* Is it in the table? It may leave or come at any time. */
bool table_has(struct store *store, struct object_id id);

/* If nobody uses it now, it is the first that leaves for another one. */
void table_need_least(struct store *store, struct object_id id);

/* Give up the lock and keep the reference, and give that up as well. */
void object_release(struct store *store, struct object *object);

/* Make the file of an object that does not exist. Locked exclusively. */
int object_create(struct store *store, struct object *object, struct errmsg *err);

/* Everything about it is on disk since some earlier checkpoint, in whichever run. Locked in any
 * way. */
bool object_is_covered(const struct store *store, const struct object *object);

/* Remove the file. Locked exclusively; the object is dead afterwards. */
int object_remove(struct store *store, struct object *object, struct errmsg *err);

/* The name of that object is gone: store_sync_deletions() is to sync its directory. */
void store_note_left(struct store *store, struct object_id id);

/* Before each change, locked exclusively, between checkpoints_enter() and checkpoints_leave():
 * stamp the checkpoint, durably where it must be. A header that was never written is left to the
 * caller when `header_follows` (then object->stamped is false). */
int object_stamp(struct store *store, struct object *object, uint64_t checkpoint,
                 bool header_follows, struct errmsg *err);
void object_header(const struct object *object, uint8_t bytes[STORE_HEADER_BYTES]);

/* All of the object was verified: its blocks match `cur`. Locked exclusively. */
void object_proven(struct store *store, struct object *object);

/* Take one object that is not TRUSTED, with a reference; NULL: none. */
struct object *table_unverified(struct store *store);

/* Other members of its group have it, too, and are asked by whoever reads it here (placing.h). */
bool object_has_copies(const struct store *store, const struct object *object);

/* Words for a failed system call on an object. Returns the status. */
int object_failed(const struct object *object, const char *what, struct errmsg *err);

/* Of reading its blocks. Where it is the disk that has not got them (EIO) they are damage: MORSEL_CHECKSUM. */
int object_unread(const struct object *object, struct errmsg *err);

/* ---- store_checksums_file.c ---- */

int checksums_init(struct store *store);
void checksums_free(struct store *store);

/* The sum of a block that is gone, now and before: no hole has it, so nobody takes a hole in its place for zeros that
 * were written. */
#define STORE_SUM_GONE ((struct store_sum){ .cur = 0x676f6e65, .prev = 0x676f6e65 })

/* The checksums of a group from the cache. `wait` false: only if its lock is free. */
bool checksums_cached(struct store *store, const struct object *object, uint64_t group, bool wait,
                      struct store_sum checksums[GROUP_BLOCKS]);
void checksums_remember(struct store *store, const struct object *object, uint64_t group, bool wait,
                        const struct store_sum checksums[GROUP_BLOCKS]);

/* From the cache or the file. */
int checksums_load(struct store *store, const struct object *object, uint64_t group,
                   struct store_sum checksums[GROUP_BLOCKS], struct errmsg *err);

/* Write `count` checksums from `first` to the file, and the group to the cache. */
int checksums_save(struct store *store, struct object *object, uint64_t group,
                   const struct store_sum checksums[GROUP_BLOCKS], uint32_t first, uint32_t count,
                   struct errmsg *err);

/* Checksum of a block of which `count` bytes are there and the rest is zero, as it stands in a sum.
 */
uint32_t sum_of_block(const struct store *store, const uint8_t *bytes, size_t count);

/* The same from the checksum of those bytes. */
uint32_t sum_of_crc(const struct store *store, uint32_t crc, size_t count);

/* ---- store_recover_file.c ---- */

/* Verify `blocks` blocks from `first`; locked exclusively. In an object that is not TRUSTED, what a
 * crash explains is put right. The number of others is added to `*bad` and each stretch of them
 * logged.
 */
int object_recover(struct store *store, struct object *object, uint64_t first, uint64_t blocks,
                   uint64_t *bad, struct errmsg *err);

/* A change failed half way: each of `count` blocks of a group from `first` (counted within it) is
 * as it was to be (`cur` of `checksums`) or as it was before (`prev`). Find out which and write
 * that down. What is neither becomes readable by nobody: it is damage, and logged. Locked
 * exclusively. */
int object_undo(struct store *store, struct object *object, uint64_t group, uint32_t first,
                uint32_t count, struct store_sum checksums[GROUP_BLOCKS], struct errmsg *err);

/* Verify objects that a crash left unverified, a bounded number of bytes. */
int store_recover(struct store *store, struct errmsg *err);

/* ---- store_read_file.c ---- */

/* One verified block of an object that is locked; what lies behind the end is zero. With MORSEL_CHECKSUM
 * `unreadable` (may be NULL) says whether the disk gave nothing. */
int object_read_block(struct store *store, struct object *object, uint64_t block,
                      const struct store_sum *sum, uint8_t bytes[BLOCK_BYTES], bool *unreadable,
                      struct errmsg *err);

/* preadv() that only ends early at the end of the file; -1 with errno. The vectors are used up. */
ssize_t vectors_read(int fd, struct iovec *vectors, int count, uint64_t place, bool wait);

/* pwritev() that goes on after a short write. Bytes written; less than all with errno. */
size_t vectors_write(int fd, struct iovec *vectors, int count, uint64_t place);

/* ---- store_write_file.c ---- */

/* Bytes of one window, at most; locked exclusively, within that checkpoint. They may use the reserve. */
int object_write(struct store *store, struct object *object, uint64_t offset, const uint8_t *bytes,
                 size_t length, const uint32_t *crcs, uint64_t checkpoint, struct errmsg *err);

/* ---- store_mend_file.c ---- */

/* Has somebody else cut the file? It gets its length back, and what is gone counts as damage. Locked
 * exclusively. */
int object_lengthen(struct store *store, struct object *object, struct errmsg *err);

/* ---- store_shape_file.c ---- */

/* Locked exclusively and stamped. */
int object_resize(struct store *store, struct object *object, uint64_t size, struct errmsg *err);

/* ---- store_list_file.c ---- */

/* Note which subdirectories are there. The caller syncs their names. */
int store_subdirs(struct store *store, struct errmsg *err);
int store_count(struct store *store, uint64_t *objects_out, struct errmsg *err);

/* ---- store_sync_file.c ---- */

/* What is to reach the disk with store_flush(). */
enum flush_what {
    FLUSH_DATA, /* A file's bytes and length. */
    FLUSH_FILE, /* A file or directory with everything about it. */
    FLUSH_TREE  /* The file system on which `fd` lies. */
};

/* The only place where the store waits for the disk (the record of the checkpoints apart). A
 * failure ends checkpoints, changes the verifier, is logged and remembered; what it was is said in
 * `what`. */
int store_flush(struct store *store, int fd, enum flush_what how, const char *what,
                struct errmsg *err);

/* The same for the bytes of an object, which is not synced again once that has failed. */
int object_flush(struct store *store, struct object *object, const char *what, struct errmsg *err);

/* checkpoints_complete(), and what its failure means. */
int store_complete_checkpoint(struct store *store, struct errmsg *err);

/* 0 once the failure of a sync is in the record of the checkpoints, or if there was none. */
int store_failure_save(struct store *store, struct errmsg *err);

/* A system call other than a sync failed on the way to the disk: as in store_flush(). */
void store_note_failure(struct store *store, const char *words);

/* ---- store_budget_file.c ---- */

/* What a file of that length counts for. */
uint64_t store_file_bytes(uint64_t end);

/* Before a write that may make the file so long. MORSEL_NOSPC: it may not be. What did not come about is given back by
 * object_set_end(). Here and below locked exclusively. */
int object_claim(struct store *store, struct object *object, uint64_t end, struct errmsg *err);

/* The file is at least so long; what was claimed stays. */
void object_grow_to(struct store *store, struct object *object, uint64_t end);

/* It is so long, and counts for that. */
void object_set_end(struct store *store, struct object *object, uint64_t end);

/* ---- store_watch_file.c ---- */

/* Before each change of its bytes, locked exclusively: those from `start` up to `end`. Whoever reads them under its lock
 * before this reads them again later, and whoever begins to watch behind this reads what the change has made of them. */
void object_note_change(struct store *store, const struct object *object, uint64_t start,
                        uint64_t end);

/* It is gone. */
void object_unwatch(struct store *store, struct object_id id);

/* ---- store_file.c ---- */

void store_log(const struct store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* MORSEL_NOSPC when `bytes` more would go below the reserve; with `reserve_too`, when the disk would be
 * full. */
int store_room(struct store *store, uint64_t bytes, bool reserve_too, struct errmsg *err);
uint64_t store_now_ms(void);

#endif
