/* Inside of the local object store: what its files share. Nobody else includes this.
 *
 *   store_file.c        open, close, delete, stat, space, settle
 *   store_sync_file.c   everything that waits for the disk, and what its failures mean
 *   store_table_file.c  bounded table of open objects, their locks
 *   store_sums_file.c   sums of recently used groups, in memory and from the file
 *   store_read_file.c   reading
 *   store_write_file.c  writing
 *   store_shape_file.c  truncate, punch, allocate, seek
 *   store_mend_file.c   verify blocks, settle them after a crash
 *   store_list_file.c   the directories: list, count
 *   store_epoch_file.c  which objects were on disk at a crash
 *   store_format.c      bytes of the file (pure)
 *
 * Order of locks: settle_lock, an object's lock, its sync_lock, then one of table_lock,
 * failure_lock and a set of the sums; none of these three is held over a system call on an object
 * file.
 */
#ifndef MORSEL_COMMON_STORE_STORE_FILE_H
#define MORSEL_COMMON_STORE_STORE_FILE_H

#include "common/base/list.h"
#include "common/store/store.h"
#include "common/store/store_epoch_file.h"
#include "common/store/store_format.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

enum {
    SUMS_SETS = 1024, /* Of the cache of sums: 4096 groups, 8 MiB, cover 4 GiB of data */
    SUMS_WAYS = 4,
    WINDOW_BYTES = 4 << 20,                         /* Read or written in one step */
    WINDOW_GROUPS = WINDOW_BYTES / GROUP_BYTES + 1, /* That may touch */
    WINDOW_IOVECS = 3 * WINDOW_GROUPS + 2
};

/* An object in the table: open, or known not to exist. */
struct object
{
    struct object_id id;
    struct object *chain; /* table_lock */
    struct list idle;     /* table_lock; in store->idle while nobody refers to it. */
    struct list unproven; /* table_lock; in store->unproven while `trust` is not TRUSTED. */
    uint32_t references;  /* table_lock */

    pthread_rwlock_t lock; /* Guards what follows. Readers together, a writer alone. */
    bool loaded;           /* What follows is known. */
    bool dead;             /* Deleted, no longer in the table: look it up again. */
    bool exists;
    bool stamped; /* The header is in the file. */
    int fd;       /* -1: does not exist. */
    enum store_trust trust;
    uint64_t serial; /* Key of its sums in the cache; new for each opening. */
    uint64_t epoch;  /* Of the header. */
    uint64_t size;   /* Of the object. */
    uint64_t end;    /* Of the file. */
    uint64_t proven; /* Groups verified so far while not TRUSTED. */

    _Atomic uint64_t changes; /* Counted up by each change; a sync that began later covers it. */
    _Atomic uint64_t synced;  /* Changes that are on disk. */
    _Atomic uint64_t sync_wanted; /* That complete changes wait for. */
    atomic_bool name_synced;
    uint64_t tree_needed; /* The first flush of the tree that is told every error of changes from
                           * before it was opened; 0: there are none, or they are vouched for. */
    pthread_mutex_t sync_lock; /* One sync at a time: the kernel tells an error to one of two. */
    atomic_bool sync_failed; /* The disk lost something: no later sync may say that all is well. */
};

struct sums_way
{
    uint64_t serial; /* 0: empty. */
    uint64_t group;
    uint32_t used;
    struct store_sum sums[GROUP_BLOCKS];
};

struct sums_set
{
    pthread_mutex_t lock;
    uint32_t clock;
    struct sums_way ways[SUMS_WAYS];
};

struct store
{
    struct store_options options;
    int dir_fd;
    int objects_fd;
    uint32_t zeros_crc; /* Of a block of zeros. */
    struct epochs epochs;

    pthread_mutex_t table_lock;
    pthread_cond_t table_room;
    struct object **buckets;
    uint32_t buckets_mask;
    uint32_t open_count;
    struct list idle; /* Least recently used first. */
    struct list unproven;

    _Atomic uint64_t serial;
    _Atomic uint64_t objects;
    struct sums_set *sums;

    atomic_bool subdir_synced[STORE_SUBDIRS]; /* The name of that subdirectory is on disk. */

    _Atomic uint64_t tree_begun; /* Flushes of the tree (FLUSH_TREE). */
    _Atomic uint64_t tree_done;  /* The last of them that has ended well. */

    pthread_mutex_t failure_lock;
    struct errmsg failure; /* failure_lock: the first sync that failed. */

    pthread_mutex_t settle_lock;
    uint64_t settled_ms; /* settle_lock: when the epoch began. */
    bool counted;        /* settle_lock: `objects` is exact. */

    _Atomic int64_t room_bytes; /* Free space at the last look, less what was written since. */
    _Atomic uint64_t room_seen_ms;
};

/* ---- store_table_file.c ------------------------------------------------------------------------
 */

enum object_mode { OBJECT_SHARED, OBJECT_ALONE };

int table_init(struct store *store);
void table_free(struct store *store);

/* Look up, open and lock. The object may not exist (`exists`). With OBJECT_SHARED the first user
 * may get it alone. */
int object_lock(struct store *store, struct object_id id, enum object_mode mode,
                struct object **object_out, struct errmsg *err);

/* The same shared and without waiting or opening: NULL. */
struct object *object_try_lock(struct store *store, struct object_id id);
void object_unlock(struct store *store, struct object *object);

/* Look up and lock alone for a change; then ask the gate. */
int object_lock_gated(struct store *store, struct object_id id, const struct store_gate *gate,
                      struct object **object_out, struct errmsg *err);

/* Give up the lock and keep the reference, and give that up as well. */
void object_release(struct store *store, struct object *object);

/* Make the file of an object that does not exist. Locked alone. */
int object_create(struct store *store, struct object *object, struct errmsg *err);

/* Everything about it is on disk since some earlier epoch, in whichever run. Locked in any way. */
bool object_is_vouched(const struct store *store, const struct object *object);

/* Remove the file. Locked alone; the object is dead afterwards. */
int object_remove(struct store *store, struct object *object, struct errmsg *err);

/* Before each change, locked alone, between epochs_enter() and epochs_leave(): stamp the epoch,
 * durably where it must be. A header that was never written is left to the caller when
 * `header_follows` (then object->stamped is false). */
int object_stamp(struct store *store, struct object *object, uint64_t epoch, bool header_follows,
                 struct errmsg *err);
void object_header(const struct object *object, uint8_t bytes[STORE_HEADER_BYTES]);

/* All of the object was verified: its blocks match `cur`. Locked alone. */
void object_proven(struct store *store, struct object *object);

/* Take one object that is not TRUSTED, with a reference; NULL: none. */
struct object *table_unproven(struct store *store);

/* Words for a failed system call on an object. Returns the status. */
int object_failed(const struct object *object, const char *what, struct errmsg *err);

/* ---- store_sums_file.c -------------------------------------------------------------------------
 */

int sums_init(struct store *store);
void sums_free(struct store *store);

/* The sums of a group from the cache. `wait` false: only if its lock is free. */
bool sums_cached(struct store *store, const struct object *object, uint64_t group, bool wait,
                 struct store_sum sums[GROUP_BLOCKS]);
void sums_remember(struct store *store, const struct object *object, uint64_t group, bool wait,
                   const struct store_sum sums[GROUP_BLOCKS]);

/* From the cache or the file. */
int sums_load(struct store *store, const struct object *object, uint64_t group,
              struct store_sum sums[GROUP_BLOCKS], struct errmsg *err);

/* Write `count` sums from `first` to the file, and the group to the cache. */
int sums_save(struct store *store, struct object *object, uint64_t group,
              const struct store_sum sums[GROUP_BLOCKS], uint32_t first, uint32_t count,
              struct errmsg *err);

/* Checksum of a block of which `count` bytes are there and the rest is zero, as it stands in a sum.
 */
uint32_t sum_of_block(const struct store *store, const uint8_t *bytes, size_t count);

/* The same from the checksum of those bytes. */
uint32_t sum_of_crc(const struct store *store, uint32_t crc, size_t count);

/* ---- store_mend_file.c -------------------------------------------------------------------------
 */

/* Verify `blocks` blocks from `first`; locked alone. In an object that is not TRUSTED, what a crash
 * explains is put right. The number of others is added to `*bad` and each stretch of them logged.
 */
int object_mend(struct store *store, struct object *object, uint64_t first, uint64_t blocks,
                uint64_t *bad, struct errmsg *err);

/* A change failed half way: each of `count` blocks of a group from `first` (counted within it) is
 * as it was to be (`cur` of `sums`) or as it was before (`prev`). Find out which and write that
 * down. What is neither becomes readable by nobody: it is damage, and logged. Locked alone. */
int object_undo(struct store *store, struct object *object, uint64_t group, uint32_t first,
                uint32_t count, struct store_sum sums[GROUP_BLOCKS], struct errmsg *err);

/* Verify objects that a crash left unproven, a bounded number of bytes. */
int store_mend(struct store *store, struct errmsg *err);

/* ---- store_read_file.c -------------------------------------------------------------------------
 */

/* One verified block of an object that is locked; what lies behind the end is zero. */
int object_read_block(struct store *store, struct object *object, uint64_t block,
                      const struct store_sum *sum, uint8_t bytes[BLOCK_BYTES], struct errmsg *err);

/* preadv() that only ends early at the end of the file; -1 with errno. The vectors are used up. */
ssize_t vectors_read(int fd, struct iovec *vectors, int count, uint64_t place, bool wait);

/* pwritev() that goes on after a short write. Bytes written; less than all with errno. */
size_t vectors_write(int fd, struct iovec *vectors, int count, uint64_t place);

/* ---- store_shape_file.c ------------------------------------------------------------------------
 */

/* Locked alone and stamped. */
int object_resize(struct store *store, struct object *object, uint64_t size, struct errmsg *err);

/* ---- store_list_file.c -------------------------------------------------------------------------
 */

/* Note which subdirectories are there. The caller syncs their names. */
int store_subdirs(struct store *store, struct errmsg *err);
int store_count(struct store *store, uint64_t *objects_out, struct errmsg *err);

/* ---- store_sync_file.c -------------------------------------------------------------------------
 */

/* What is to reach the disk with store_flush(). */
enum flush_what {
    FLUSH_DATA, /* A file's bytes and length. */
    FLUSH_FILE, /* A file or directory with everything about it. */
    FLUSH_TREE  /* The file system on which `fd` lies. */
};

/* The only place where the store waits for the disk (the record of the epochs apart). A failure
 * ends vouching, changes the verifier, is logged and remembered; what it was is said in `what`. */
int store_flush(struct store *store, int fd, enum flush_what how, const char *what,
                struct errmsg *err);

/* The same for the bytes of an object, which is not synced again once that has failed. */
int object_flush(struct store *store, struct object *object, const char *what, struct errmsg *err);

/* epochs_vouch(), and what its failure means. */
int store_vouch(struct store *store, struct errmsg *err);

/* 0 once the failure of a sync is in the record of the epochs, or if there was none. */
int store_failure_save(struct store *store, struct errmsg *err);

/* A system call other than a sync failed on the way to the disk: as in store_flush(). */
void store_note_failure(struct store *store, const char *words);

/* ---- store_file.c ------------------------------------------------------------------------------
 */

void store_log(const struct store *store, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* MORSEL_NOSPC when `bytes` more would go below the reserve. */
int store_room(struct store *store, uint64_t bytes, struct errmsg *err);
uint64_t store_now_ms(void);

#endif
