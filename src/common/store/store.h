/* Local object store of a storage server: sparse data objects with a CRC32C per 4 KiB block.
 *
 * The functions block and may be called from several threads at once; operations on one object are
 * ordered by the store (readers together, writers exclusively). store_read_cached() never blocks.
 *
 * Promises:
 *  - A block is verified before any of its bytes leave the store: MORSEL_CHECKSUM, never a wrong
 *    byte. A block that the disk does not give back (EIO) is damaged as one that does not match is: MORSEL_CHECKSUM,
 *    until it is written or mended, for disks put another sector in the place of one that is written. The message says
 *    which it is.
 *  - kill -9 at any instant: every write that was acknowledged is readable, of one that was not
 *    each block is old or new.
 *  - Power loss: what was synced is readable. A block that was being changed and not synced may be
 *    old or new, and is not an error.
 *
 * On disk (docs/store.md): DIR/objects/xxx/<inode>.<column>, a sequence of groups, each one page of
 * checksums followed by 1 MiB of data, so that a morsel and its checksums are written by one system
 * call.
 */
#ifndef MORSEL_COMMON_STORE_STORE_H
#define MORSEL_COMMON_STORE_STORE_H

#include "common/base/errmsg.h"
#include "common/base/types.h"
#include "common/store/watches.h"

struct store;

struct store_options
{
    uint32_t open_files_max; /* Descriptors kept, 16 to 16384. */
    uint64_t
        reserve_bytes; /* Leave this much of the disk free: writes below it give MORSEL_NOSPC. */
    bool
        shared_disk; /* Files of others lie on the file system: it is never flushed as a whole. Each object is
                         vouched for by its own store_sync() (docs/store.md, On somebody else's disk). */
    uint64_t object_bytes_max; /* No write goes beyond: MORSEL_FBIG. 0: 2^62. */
    uint64_t boot_id; /* Of the running kernel: tells a process crash from a machine crash. */
    void (*log)(void *data, const char *line); /* Repairs and damage; may be NULL; any thread. */
    void *log_data;
};

struct store_space
{
    uint64_t bytes_total;
    uint64_t bytes_free; /* After the reserve. */
    uint64_t objects;    /* May be an estimate while a first count runs. */
    uint64_t device;     /* The same for all stores on this disk, and for no other in a cluster. */
};

/* Asked by a change once it has the object to itself, right before the first byte changes: who
 * comes later sees the change, who came before does not. Another status than 0 ends it with nothing
 * changed. Any thread; must not wait. A change of more than one step (store_write() of more than 4
 * MiB) asks before each. */
struct store_gate
{
    int (*ask)(void *data, struct errmsg *err); /* NULL: nobody. */
    void *data;
    bool reserve_too; /* What it writes may use the reserve: it was let in elsewhere. */
};

/* Blocks of an object that do not match their checksums, or that the disk does not give. */
struct store_damage
{
    uint64_t start, end; /* Bytes, from the first such block to behind the last one. */
    uint64_t blocks;     /* How many; 0: none. */
    uint64_t unreadable; /* Of these the disk gives nothing; of the others it gives wrong bytes. */
};

struct store_stat
{
    bool exists;
    uint64_t size;   /* Bytes. */
    uint64_t blocks; /* Of 512 bytes, of data, without checksums. */
};

/* `dir` must exist; the tree under it is made when it is missing. */
int store_open(const char *dir, const struct store_options *options, struct store **store_out,
               struct errmsg *err);

/* No operation may be running. Flushes everything, so that the next run trusts what it finds; on a shared disk nothing. */
void store_close(struct store *store);

/* Read up to `length` bytes. `count_out` is less than `length` where the object ends (an object
 * that does not exist is empty). `crcs` has room for crc32c_pieces(offset, length). */
int store_read(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
               size_t length, size_t *count_out, uint32_t *crcs, struct errmsg *err);

/* The same without ever waiting for the disk, another thread or a lock: MORSEL_AGAIN when that
 * would be needed. */
int store_read_cached(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                      size_t length, size_t *count_out, uint32_t *crcs);

/* `gate`, here and below: NULL where nobody needs to be asked.
 *
 * `crcs` are the writer's, one a block piece; MORSEL_CHECKSUM (nothing changed) when the bytes do
 * not match. With `sync` durable on return. MORSEL_NOSPC: nothing acknowledged is lost. */
int store_write(struct store *store, struct object_id id, uint64_t offset, const uint8_t *bytes,
                size_t length, const uint32_t *crcs, bool sync, const struct store_gate *gate,
                struct errmsg *err);

int store_truncate(struct store *store, struct object_id id, uint64_t size,
                   const struct store_gate *gate, struct errmsg *err);
int store_punch(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                const struct store_gate *gate, struct errmsg *err);
int store_allocate(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                   const struct store_gate *gate, struct errmsg *err);

/* Watch the object from now on, under that number: whatever reads its bytes from now on, and knows what store_changed() says later,
 * knows what of them is older than that. It need not exist. MORSEL_NOMEM. Any thread, without waiting. */
int store_watch(struct store *store, struct object_id id, uint64_t number);

/* What was changed since, as watches_changed() says it. MORSEL_NODATA: such a watch is not known; all may have been changed. */
int store_changed(struct store *store, struct object_id id, uint64_t number, uint64_t from,
                  struct watch_stretch *stretches, uint32_t stretches_max, uint32_t *count,
                  uint64_t *next);

/* Next data (or hole) at or after `offset`. `*found` is false only for data. */
int store_seek(struct store *store, struct object_id id, uint64_t offset, bool hole, bool *found,
               uint64_t *offset_out, struct errmsg *err);

/* May the object lack some of what was acknowledged? Only on a shared disk: since it was made, or truncated to zero, it was changed
 * in a run that a loss of power ended, and nobody knows what of that was on the disk. To write all that is left of it says nothing: the loss may
 * have taken its length. What is not there
 * reads as zeros that match their checksums: whoever knows no digest of the whole must not believe it. Of what was synced
 * then the answer is yes, too. */
int store_lacks(struct store *store, struct object_id id, bool *lacks, struct errmsg *err);

/* The write verifier (RFC 1813, 3.3.21), never 0: it changes whenever bytes that were acknowledged
 * may have been lost, that is when the machine was reset or a sync failed. Taken before a change is
 * ordered, and again after a store_sync() that succeeded: the same number says that the change is
 * on disk. */
uint64_t store_verifier(const struct store *store);

/* Which loss the directory has behind it: another number when the machine was reset since, or a run has ended in which a
 * sync failed, for what was not on disk then may be gone, whatever a later sync says. */
uint64_t store_loss(const struct store *store);

/* Did a sync fail since the store was opened? One sentence about the first one. */
bool store_disk_failed(struct store *store, struct errmsg *words);

/* Durable: bytes, checksums, length and name. What is known to be on disk costs no system call.
 * Once the disk has failed a sync of the object, or of anything while the object was not open,
 * MORSEL_IO until the store is opened again. What does not exist is on disk, but on a shared disk, where its owner may have
 * deleted it: MORSEL_NOENT. */
int store_sync(struct store *store, struct object_id id, struct errmsg *err);

/* Not durable: an object may be there again when the machine loses its power. */
int store_delete(struct store *store, struct object_id id, struct errmsg *err);

/* Durable: all deletions that have ended. Without one since the last time it costs no system call. */
int store_sync_deletions(struct store *store, struct errmsg *err);
int store_stat(struct store *store, struct object_id id, struct store_stat *stat,
               struct errmsg *err);
/* What the disk has for the object, checksums among it; 0: there is none. Does not open it. */
int store_disk_bytes(struct store *store, struct object_id id, uint64_t *bytes_out,
                     struct errmsg *err);
int store_space(struct store *store, struct store_space *space, struct errmsg *err);

/* Bytes above the reserve, as of the last look at the disk (each store_space() is one) and less by what was
 * written since. Does not ask the disk; on any thread. */
uint64_t store_room_left(const struct store *store);

/* From now on a write by which objects would take more than so many bytes gives MORSEL_NOSPC, and nothing is written; no limit at
 * first. It may be below what they take. Any thread. */
void store_set_limit(struct store *store, uint64_t bytes);

/* What objects take: the lengths of their files in whole blocks. Right once stock was taken. Any thread, without waiting. */
uint64_t store_used(const struct store *store);

/* Take stock: STORE_STOCK_STEPS steps, from 0, of which each adds the objects of its part of the tree to `list`, and their bytes to
 * what is used. Nothing may be changed meanwhile. What is not the file of an object where it lies is not named, but counts. */
enum { STORE_STOCK_STEPS = 4096 };

struct object_list
{
    struct object_id *ids; /* Owned; to be freed by the caller. */
    size_t count, capacity;
};

void store_begin_stock(struct store *store);
int store_take_stock(struct store *store, uint32_t step, struct object_list *list,
                     struct errmsg *err);

/* Has the file system failed to take a write (EIO, EROFS; not for want of space)? Until store_try_writing(), which finds out with
 * a file of its own whether it takes any: 0, or why not. */
bool store_write_failed(const struct store *store);
int store_try_writing(struct store *store, struct errmsg *err);

/* Was the directory of the objects deleted? Asks the kernel, not the disk. */
bool store_is_gone(const struct store *store);

/* A page of objects in a stable order. `cursor` (in and out, 0 at first, UINT64_MAX: done) is
 * opaque. */
int store_list(struct store *store, uint64_t *cursor, struct object_id *ids, size_t ids_max,
               size_t *count_out, struct errmsg *err);

/* Where the object has its place in that order: the cursor that goes on behind it. */
uint64_t store_place(struct object_id id);

/* Read and verify a whole object; the number of bad blocks. */
int store_verify(struct store *store, struct object_id id, uint64_t *bad_blocks,
                 struct errmsg *err);

/* For who has another copy of the object. Of the blocks that have a byte in the stretch the first one that is
 * damaged, with those right behind it that are. The last block counts up to where it would be full: what is written
 * behind the end of the object changes a part of it. */
int store_find_damage(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                      struct store_damage *damage, struct errmsg *err);

/* Of the blocks in the stretch (`offset` begins one) those that are damaged get the bytes of another copy, of
 * which there are `count`, and zeros behind them. What is good stays as it is, whatever the bytes say, and
 * so does the object's length: who mends what has been written anew meanwhile changes nothing. `mended`:
 * what was. */
int store_mend(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
               const uint8_t *bytes, size_t count, struct store_damage *mended, struct errmsg *err);

/* The blocks that have a byte in the stretch are damaged from now on, until they are written or mended: for a copy of
 * an object of which the only other copy has damage there. The object's length stays. */
int store_spoil(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                struct errmsg *err);

/* The same but for blocks that are good and what `sums` say, one for each block: these stay, `kept` of them. */
int store_spoil_others(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                       const uint32_t *sums, uint64_t *kept, struct errmsg *err);

/* What the blocks that have a byte in the stretch are to be, good or not: a number for each that is the same in all copies that have
 * the same bytes there; 0 behind the end of the object. */
int store_sums(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
               uint32_t *sums, struct errmsg *err);

/* What store_scrub() found. */
enum { STORE_SCRUB_BYTES = (1 << 20) + 4096 };

struct store_scrubbed
{
    bool exists;
    uint64_t bytes; /* So many were read. */
    uint64_t next;  /* Where to go on; UINT64_MAX: the object has ended. */
    bool unreadable;
    struct store_damage
        damage; /* The first stretch of bad blocks of what was read. Behind it nothing was judged. */
};

/* Read from the disk what the object has at `offset` (it begins a block), 1 MiB at most, and verify it; for who reads everything
 * now and then. `bytes` is room to work in. What the kernel has in its cache is verified there, and stays; what it has not does not
 * come to stay; nor does the object stay open longer than others for it. What is changed meanwhile, or deleted, is no damage.
 * Blocks that the disk does not give are damage. It fails with `unreadable` where it does not give the checksums, `next` being where to go on (of the
 * header: nowhere); with MORSEL_CORRUPT where nothing of the object can be used, for its header is damaged. */
int store_scrub(struct store *store, struct object_id id, uint64_t offset,
                uint8_t bytes[STORE_SCRUB_BYTES], struct store_scrubbed *out, struct errmsg *err);

/* Not on a shared disk: flush what was changed and note that it is on disk (docs/store.md, Checkpoints), at most once in
 * `idle_ms`; verify a bounded part of what a crash left in doubt. What is changed again and again
 * costs nothing extra; what rests is covered by a checkpoint after two rounds. Call now and then,
 * from the pool. */
int store_checkpoint(struct store *store, uint64_t idle_ms, struct errmsg *err);

#endif
