#include "common/store/store_file.h"

#include "common/base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    MEND_BLOCKS = 32,      /* Read at a time */
    MEND_GROUPS_MAX = 1024 /* Verified by one store_mend(): 1 GiB */
};

enum verdict {
    BLOCK_GOOD,
    BLOCK_HEALED, /* Is what it was before the last change; its sum says so now. */
    BLOCK_TAKEN,  /* Is neither, after the machine died: the sum follows the block. */
    BLOCK_BAD
};

/* Verification of a stretch of blocks. */
struct mender
{
    struct store *store;
    struct object *object;
    enum verdict run; /* Of the blocks [run_first, run_end), one log line. */
    uint64_t run_first, run_end;
    uint64_t bad;
};

static void mender_flush(struct mender *m)
{
    const struct object *object = m->object;

    if (m->run == BLOCK_TAKEN) {
        store_log(
            m->store,
            "object %" PRIu64 ".%u: bytes %" PRIu64 " to %" PRIu64
            " were being changed when the machine stopped and were not synced; taken as they are",
            object->id.inode, object->id.column, m->run_first * BLOCK_BYTES,
            m->run_end * BLOCK_BYTES - 1);
    } else if (m->run == BLOCK_BAD) {
        store_log(m->store,
                  "object %" PRIu64 ".%u: blocks %" PRIu64 " to %" PRIu64
                  " do not match their checksums: check the disk, and restore the file from a copy",
                  object->id.inode, object->id.column, m->run_first, m->run_end - 1);
    }
    m->run = BLOCK_GOOD;
}

static void mender_note(struct mender *m, uint64_t block, enum verdict verdict)
{
    if (verdict != m->run || block != m->run_end) {
        mender_flush(m);
        m->run = verdict;
        m->run_first = block;
    }
    m->run_end = block + 1;
    m->bad += verdict == BLOCK_BAD;
}

/* Judge one block by its sum and correct the sum where a crash explains the difference. */
static enum verdict mend_block(const struct mender *m, struct store_sum *sum, const uint8_t *bytes)
{
    uint32_t is = sum_of_block(m->store, bytes, BLOCK_BYTES);
    bool before = is == sum->prev;

    if (is == sum->cur) {
        return BLOCK_GOOD;
    }
    if (m->object->trust == TRUSTED || (m->object->trust == SUSPECT && !before)) {
        return BLOCK_BAD;
    }
    *sum = (struct store_sum){ .cur = is, .prev = is };
    return before ? BLOCK_HEALED : BLOCK_TAKEN;
}

/* Blocks of one group, at most MEND_BLOCKS; zeros behind the end. */
static int mend_read(const struct object *object, uint64_t block, uint32_t count, uint8_t *bytes,
                     struct errmsg *err)
{
    struct iovec vector = { .iov_base = bytes, .iov_len = (size_t)count * BLOCK_BYTES };
    uint64_t start = block * BLOCK_BYTES;
    ssize_t got = 0;

    if (start < object->size) {
        if (object->size - start < vector.iov_len) {
            vector.iov_len = object->size - start;
        }
        got = vectors_read(object->fd, &vector, 1, place_of_byte(start), true);
    }
    if (got < 0) {
        return object_failed(object, "read", err);
    }
    memset(bytes + got, 0, (size_t)count * BLOCK_BYTES - (size_t)got);
    return 0;
}

/* `count` blocks of a group from `first`, both counted within it. */
static int mend_group(struct mender *m, uint64_t group, uint32_t first, uint32_t count,
                      struct errmsg *err)
{
    struct store_sum sums[GROUP_BLOCKS];
    uint8_t bytes[MEND_BLOCKS * BLOCK_BYTES];
    bool changed = false;
    int rv;

    if (place_of_group(group) + SUMS_AT >= m->object->end) {
        return 0;
    }
    rv = sums_load(m->store, m->object, group, sums, err);
    for (uint32_t done = 0; rv == 0 && done < count; done += MEND_BLOCKS) {
        uint32_t part = count - done < MEND_BLOCKS ? count - done : MEND_BLOCKS;
        uint64_t block = group * GROUP_BLOCKS + first + done;

        rv = mend_read(m->object, block, part, bytes, err);
        for (uint32_t i = 0; rv == 0 && i < part; i++) {
            enum verdict verdict =
                mend_block(m, &sums[first + done + i], bytes + (size_t)i * BLOCK_BYTES);

            changed = changed || verdict == BLOCK_HEALED || verdict == BLOCK_TAKEN;
            mender_note(m, block + i, verdict);
        }
    }
    if (rv == 0 && changed) {
        rv = sums_save(m->store, m->object, group, sums, first, count, err);
    }
    return rv;
}

int object_mend(struct store *store, struct object *object, uint64_t first, uint64_t blocks,
                uint64_t *bad, struct errmsg *err)
{
    struct mender m = { .store = store, .object = object };
    int rv = 0;

    while (rv == 0 && blocks > 0) {
        uint32_t inside = (uint32_t)(first % GROUP_BLOCKS);
        uint32_t part = GROUP_BLOCKS - inside;

        part = blocks < part ? (uint32_t)blocks : part;
        rv = mend_group(&m, first / GROUP_BLOCKS, inside, part, err);
        first += part;
        blocks -= part;
    }
    mender_flush(&m);
    *bad += m.bad;
    return rv;
}

/* What is in the block is written down: the change, or what was there before it. Neither: a sum
 * that does not match, which is damage to whoever reads it. */
static void undo_block(struct mender *m, uint64_t block, struct store_sum *sum,
                       const uint8_t *bytes)
{
    uint32_t is = sum_of_block(m->store, bytes, BLOCK_BYTES);

    if (is != sum->cur) {
        mender_note(m, block, is == sum->prev ? BLOCK_HEALED : BLOCK_BAD);
        sum->cur = sum->prev;
    }
}

int object_undo(struct store *store, struct object *object, uint64_t group, uint32_t first,
                uint32_t count, struct store_sum sums[GROUP_BLOCKS], struct errmsg *err)
{
    struct mender m = { .store = store, .object = object };
    uint8_t bytes[BLOCK_BYTES];
    int rv = 0;

    if (place_of_group(group) + SUMS_AT >= object->end) {
        return 0; /* The file has no sums so far, and needs none for holes. */
    }
    for (uint32_t i = first; rv == 0 && i < first + count; i++) {
        rv = mend_read(object, group * GROUP_BLOCKS + i, 1, bytes, err);
        if (rv == 0) {
            undo_block(&m, group * GROUP_BLOCKS + i, &sums[i], bytes);
        }
    }
    mender_flush(&m);
    return rv != 0 ? rv : sums_save(store, object, group, sums, first, count, err);
}

/* The next group from `group` of which anything is in the file; UINT64_MAX: none. */
static uint64_t next_group(const struct object *object, uint64_t group)
{
    off_t place;

    if (group >= groups_in_file(object->end)) {
        return UINT64_MAX;
    }
    place = lseek(object->fd, (off_t)place_of_group(group), SEEK_DATA);
    if (place < 0) {
        return errno == ENXIO ? UINT64_MAX : group;
    }
    return (uint64_t)place / GROUP_SPAN;
}

int store_verify(struct store *store, struct object_id id, uint64_t *bad_blocks, struct errmsg *err)
{
    uint64_t group = 0;
    int rv = 0;

    *bad_blocks = 0;
    while (rv == 0 && group != UINT64_MAX) {
        struct object *object;

        /* Group by group, so that others are not kept waiting. */
        rv = object_lock(store, id, OBJECT_ALONE, &object, err);
        if (rv != 0) {
            return rv;
        }
        group = object->exists ? next_group(object, group) : UINT64_MAX;
        if (group != UINT64_MAX) {
            rv = object_mend(store, object, group * GROUP_BLOCKS, GROUP_BLOCKS, bad_blocks, err);
            group++;
        }
        object_unlock(store, object);
    }
    return rv;
}

/* One more group of an object that a crash left unproven, or its end. `*more` is false when there
 * is nothing left to do. */
static int mend_step(struct store *store, struct object *object, bool *more, struct errmsg *err)
{
    uint64_t group, epoch;
    uint64_t bad = 0;
    int rv;

    *more = false;
    if (!object->loaded || object->dead || object->trust == TRUSTED) {
        return 0;
    }
    group = next_group(object, object->proven);
    if (group != UINT64_MAX) {
        rv = object_mend(store, object, group * GROUP_BLOCKS, GROUP_BLOCKS, &bad, err);
        object->proven = group + 1;
        *more = rv == 0;
        return rv;
    }
    rv = object_flush(store, object, "what was verified after a crash", err);
    if (rv != 0) {
        return rv;
    }
    epoch = epochs_enter(&store->epochs);
    object_proven(store, object);
    rv = object_stamp(store, object, epoch, false, err);
    epochs_leave(&store->epochs, epoch);
    return rv;
}

int store_mend(struct store *store, struct errmsg *err)
{
    uint32_t groups = 0;
    int rv = 0;

    while (rv == 0 && groups < MEND_GROUPS_MAX) {
        struct object *object = table_unproven(store);
        bool more = true;

        if (object == NULL) {
            return 0;
        }
        for (; rv == 0 && more && groups < MEND_GROUPS_MAX; groups++) {
            pthread_rwlock_wrlock(&object->lock);
            rv = mend_step(store, object, &more, err);
            pthread_rwlock_unlock(&object->lock);
        }
        object_release(store, object);
    }
    return rv;
}
