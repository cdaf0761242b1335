/* The narrow interface to an ordered store of keys and values, and the batch that changes it.
 *
 * Pure. kv_leveldb.c puts LevelDB behind it; tests/lib/kv_forgetful.c keeps all in memory and can
 * be made to crash. The namespace knows nothing else of storage.
 *
 * Promises of every implementation:
 *  - a batch is atomic: after any crash either all of it is there or nothing;
 *  - a committed batch survives the end of the process (kill -9) at once, and the loss of power
 *    once a sync() that began after the commit has returned;
 *  - after a loss of power the store holds a prefix of the batches in commit order.
 *
 * All functions but sync() belong to one thread; sync() may run on another one at the same time.
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

struct kv
{
    /* Replace `value` by what is stored. MORSEL_NOENT (without words in `err`: it is not an error
     * for most callers), MORSEL_IO, MORSEL_CORRUPT, MORSEL_NOMEM. */
    int (*get)(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err);

    /* Apply the batch. `sync`: it survives a loss of power when this returns (slow; start and end
     * only). */
    int (*commit)(struct kv *kv, const struct kv_batch *batch, bool sync, struct errmsg *err);

    /* Visit records in ascending byte order of their keys, from the first key >= `from`. */
    int (*scan)(struct kv *kv, struct slice from, kv_visit visit, void *data, struct errmsg *err);

    /* Make every batch durable whose commit returned before this was called. Any thread, one at a
     * time. */
    int (*sync)(struct kv *kv, struct errmsg *err);

    void (*close)(struct kv *kv);
};

#endif
