/* The narrow interface to an ordered store of keys and values, and the batch that changes it.
 *
 * Pure. kv_leveldb.c puts LevelDB behind it; tests/lib/kv_forgetful.c keeps all in memory and can
 * be made to crash. The namespace knows nothing else of storage.
 *
 * Promises of every implementation:
 *  - a batch is atomic: after any crash either all of it is there or nothing;
 *  - a committed batch survives the end of the process (kill -9) at once, and the loss of power
 *    once a sync() that began after the commit has returned;
 *  - what a store holds when it has been opened survives a loss of power: nobody acts on what an
 *    earlier process committed before it is as durable as what that process had synced;
 *  - after a loss of power the store holds a prefix of the batches in commit order.
 *
 * Who must not wait for the disk says so with `wanted`: then get and scan answer MORSEL_AGAIN where
 * they would have to, and note there what for. load() fetches that, on a thread that may wait, and
 * whoever asked asks again (loads_uv.h). What is read is always what the store holds at that
 * moment: loading only makes it quick. A commit cannot say so, for it may not be half done: who must
 * not wait asks for room before (kv_room()), and where there is none make_room() waits for it.
 *
 * All functions but sync(), load() and make_room() belong to one thread; these may run on others at
 * the same time.
 */
#ifndef MORSEL_META_STORAGE_KV_H
#define MORSEL_META_STORAGE_KV_H

#include "common/base/buf.h"
#include "common/base/errmsg.h"
#include "common/base/types.h"

/* Puts and deletes in order; a later one for the same key wins. Reusable: clear keeps the memory.
 */
struct kv_batch
{
    struct buf bytes;
    uint32_t count;
};

void kv_batch_init(struct kv_batch *batch);
void kv_batch_free(struct kv_batch *batch);
void kv_batch_clear(struct kv_batch *batch);

/* Keys and values are copied. Out of memory is remembered in batch->bytes.failed, and commit
 * refuses it. */
void kv_batch_put(struct kv_batch *batch, struct slice key, struct slice value);
void kv_batch_delete(struct kv_batch *batch, struct slice key);

/* One change of a batch. */
struct kv_change
{
    bool put; /* Else a delete, without value. */
    struct slice key;
    struct slice value;
};

/* Walk a batch: start with *offset == 0; false at the end. Slices point into the batch. */
bool kv_batch_next(const struct kv_batch *batch, size_t *offset, struct kv_change *change);

/* May `bytes`, from a disk, be those of a batch? Then they may be walked. */
bool kv_batch_is_sound(struct slice bytes);

/* Called for each record of a scan, slices valid during the call only; false ends the scan. */
typedef bool (*kv_visit)(void *data, struct slice key, struct slice value);

enum {
    KV_WANTED_MAX = 128, /* Keys and ranges of one try */

    /* Records wanted of a range, behind those that were there: at first so many, so many times more
     * in each try that follows, and never more than the last. */
    KV_RANGE_RECORDS = 128,
    KV_RANGE_GROWS = 8,
    KV_RANGE_RECORDS_MAX = 65536
};

/* What was not in memory when it was asked for. Whoever is told MORSEL_AGAIN may go on asking, so
 * that more of it is fetched at once; but whatever comes of that has no meaning. */
struct kv_wanted
{
    struct buf bytes; /* Each as a blob, its key, and as a number how many records; 0: the key's. */
    uint32_t count;   /* Beyond KV_WANTED_MAX nothing is noted: the next try wants it again. */
    bool room;        /* For a commit there must be room first: make_room(). */
    unsigned tries;   /* Who asks was told MORSEL_AGAIN so often before. */
};

void kv_wanted_init(struct kv_wanted *wanted);
void kv_wanted_free(struct kv_wanted *wanted);
void kv_wanted_clear(struct kv_wanted *wanted); /* `tries` stays. */

/* Walk what is wanted: start with *offset == 0; false at the end. */
bool kv_wanted_next(const struct kv_wanted *wanted, size_t *offset, struct slice *key,
                    uint32_t *records);

struct kv
{
    /* Replace `value` by what is stored. MORSEL_NOENT (without words in `err`: it is not an error
     * for most callers), MORSEL_IO, MORSEL_CORRUPT, MORSEL_NOMEM, MORSEL_AGAIN. */
    int (*get)(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err);

    /* Apply the batch. `sync`: it survives a loss of power when this returns (slow; start and end
     * only). */
    int (*commit)(struct kv *kv, const struct kv_batch *batch, bool sync, struct errmsg *err);

    /* Visit records in ascending byte order of their keys, from the first key >= `from`.
     * MORSEL_AGAIN may come when some have been visited already. */
    int (*scan)(struct kv *kv, struct slice from, kv_visit visit, void *data, struct errmsg *err);

    /* Make every batch durable whose commit returned before this was called. Any thread, one at a
     * time. */
    int (*sync)(struct kv *kv, struct errmsg *err);

    /* Fetch what is wanted, so that get and scan find it in memory. Any thread, several at a time. A
     * failure is not told: who needs it meets it. */
    void (*load)(struct kv *kv, const struct kv_wanted *wanted);

    /* Would a commit of now return without waiting for the disk? Few and small ones behind a `no` do,
     * too. */
    bool (*has_room)(struct kv *kv);

    /* Wait until there is room for one commit at least, or it makes no sense to wait any longer. Any
     * thread, one at a time. */
    void (*make_room)(struct kv *kv);

    void (*close)(struct kv *kv);

    /* NULL: get and scan wait for the disk. Else they answer MORSEL_AGAIN instead, without words in
     * `err`. Its owner sets it. */
    struct kv_wanted *wanted;
};

/* Was something not in memory since `wanted` was cleared? */
static inline bool kv_wants(const struct kv *kv)
{
    return kv->wanted != NULL && (kv->wanted->count > 0 || kv->wanted->room);
}

/* It makes no sense to go on asking. */
static inline bool kv_wants_enough(const struct kv *kv)
{
    return kv_wants(kv) && kv->wanted->count >= KV_WANTED_MAX;
}

/* Before a commit: 0, or MORSEL_AGAIN when it would have to wait, and that is noted. */
int kv_room(struct kv *kv);

/* From now on get and scan wait; back with kv->wanted = what this returns. */
struct kv_wanted *kv_be_patient(struct kv *kv);

/* ---- For those who implement it ---- */

/* Note the key, which is not in memory. Returns MORSEL_AGAIN. */
int kv_want(struct kv *kv, struct slice key);

/* Note what a scan from `from` needs that has visited so many records and found the next one not in
 * memory: those records again, and more behind them. Returns MORSEL_AGAIN. */
int kv_want_range(struct kv *kv, struct slice from, uint32_t visited);

#endif
