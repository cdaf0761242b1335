/* Verifies blocks that a crash left unverified, and decides what becomes of those that do not
 * match. */
#include "common/store/store_file.h"

#include "common/base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    RECOVER_BLOCKS = 32,      /* Read at a time */
    RECOVER_GROUPS_MAX = 1024 /* Verified by one store_recover(): 1 GiB */
};

enum verdict {
    BLOCK_GOOD,
    BLOCK_HEALED, /* Is what it was before the last change; its sum says so now. */
    BLOCK_TAKEN,  /* Is neither, after the machine died: the sum follows the block. */
    BLOCK_BAD,
    BLOCK_UNREAD /* The disk does not give it, which says nothing about what a crash did. */
};

/* Verification of a stretch of blocks. */
struct recovery
{
    struct store *store;
    struct object *object;
    enum verdict run; /* Of the blocks [run_first, run_end), one log line. */
    uint64_t run_first, run_end;
    uint64_t bad;
};

static bool is_damage(enum verdict verdict)
{
    return verdict == BLOCK_BAD || verdict == BLOCK_UNREAD;
}

static void recovery_flush(struct recovery *m)
{
    const struct object *object = m->object;

    if (m->run == BLOCK_TAKEN) {
        store_log(
            m->store,
            "object %" PRIu64 ".%u: bytes %" PRIu64 " to %" PRIu64
            " were being changed when the machine stopped and were not synced; taken as they are",
            object->id.inode, object->id.column, m->run_first * BLOCK_BYTES,
            m->run_end * BLOCK_BYTES - 1);
    } else if (is_damage(m->run) && !object_has_copies(m->store, object)) {
        /* Of others it is said what becomes of it. */
        store_log(m->store,
                  "object %" PRIu64 ".%u: blocks %" PRIu64 " to %" PRIu64 " %s: check the disk%s",
                  object->id.inode, object->id.column, m->run_first, m->run_end - 1,
                  m->run == BLOCK_BAD ? "do not match their checksums"
                                      : "cannot be read from the disk",
                  m->store->options.shared_disk ? "; they are read where there is another copy"
                                                : ", and restore the file from a copy");
    }
    m->run = BLOCK_GOOD;
}

static void recovery_note(struct recovery *m, uint64_t block, enum verdict verdict)
{
    if (verdict != m->run || block != m->run_end) {
        recovery_flush(m);
        m->run = verdict;
        m->run_first = block;
    }
    m->run_end = block + 1;
    m->bad += is_damage(verdict);
}

/* Its bytes were gone before any crash (STORE_SUM_GONE), and nothing was written there since. */
static bool is_gone(const struct store_sum *sum)
{
    const struct store_sum gone = STORE_SUM_GONE;

    return sum->cur == gone.cur && sum->prev == gone.prev;
}

/* Judge one block by its sum and correct the sum where a crash explains the difference. */
static enum verdict recover_block(const struct recovery *m, struct store_sum *sum,
                                  const uint8_t *bytes)
{
    uint32_t is = sum_of_block(m->store, bytes, BLOCK_BYTES);
    bool before = is == sum->prev;

    if (is == sum->cur) {
        return BLOCK_GOOD;
    }
    if (m->object->trust == TRUSTED || (m->object->trust == SUSPECT && !before) || is_gone(sum)) {
        return BLOCK_BAD;
    }
    *sum = (struct store_sum){ .cur = is, .prev = is };
    return before ? BLOCK_HEALED : BLOCK_TAKEN;
}

static ssize_t read_blocks(const struct object *object, uint64_t block, uint32_t count,
                           uint8_t *bytes)
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
    if (got >= 0) {
        memset(bytes + got, 0, (size_t)count * BLOCK_BYTES - (size_t)got);
    }
    return got;
}

/* Blocks of one group, at most RECOVER_BLOCKS; zeros behind the end. A bit of `unread` for each that the disk does not
 * give. */
static int recover_read(const struct object *object, uint64_t block, uint32_t count, uint8_t *bytes,
                        uint32_t *unread, struct errmsg *err)
{
    int rv = 0;

    *unread = 0;
    if (read_blocks(object, block, count, bytes) >= 0) {
        return 0;
    }
    for (uint32_t i = 0; i < count && (rv == 0 || rv == MORSEL_CHECKSUM); i++) {
        rv = 0;
        if (read_blocks(object, block + i, 1, bytes + (size_t)i * BLOCK_BYTES) < 0) {
            rv = object_unread(object, err);
            *unread |= 1U << i;
        }
    }
    return rv == MORSEL_CHECKSUM ? 0 : rv;
}

static_assert(RECOVER_BLOCKS <= 32, "a bit for each");

/* `count` blocks of a group from `first`, both counted within it. */
static int recover_group(struct recovery *m, uint64_t group, uint32_t first, uint32_t count,
                         struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    uint8_t bytes[RECOVER_BLOCKS * BLOCK_BYTES];
    bool changed = false;
    uint32_t unread;
    int rv;

    if (place_of_group(group) + CHECKSUMS_AT >= m->object->end) {
        return 0;
    }
    rv = checksums_load(m->store, m->object, group, checksums, err);
    for (uint32_t done = 0; rv == 0 && done < count; done += RECOVER_BLOCKS) {
        uint32_t part = count - done < RECOVER_BLOCKS ? count - done : RECOVER_BLOCKS;
        uint64_t block = group * GROUP_BLOCKS + first + done;

        rv = recover_read(m->object, block, part, bytes, &unread, err);
        for (uint32_t i = 0; rv == 0 && i < part; i++) {
            enum verdict verdict = (unread >> i & 1U) != 0
                                       ? BLOCK_UNREAD
                                       : recover_block(m, &checksums[first + done + i],
                                                       bytes + (size_t)i * BLOCK_BYTES);

            changed = changed || verdict == BLOCK_HEALED || verdict == BLOCK_TAKEN;
            recovery_note(m, block + i, verdict);
        }
    }
    if (rv == 0 && changed) {
        rv = checksums_save(m->store, m->object, group, checksums, first, count, err);
    }
    return rv;
}

int object_recover(struct store *store, struct object *object, uint64_t first, uint64_t blocks,
                   uint64_t *bad, struct errmsg *err)
{
    struct recovery m = { .store = store, .object = object };
    int rv = 0;

    while (rv == 0 && blocks > 0) {
        uint32_t inside = (uint32_t)(first % GROUP_BLOCKS);
        uint32_t part = GROUP_BLOCKS - inside;

        part = blocks < part ? (uint32_t)blocks : part;
        rv = recover_group(&m, first / GROUP_BLOCKS, inside, part, err);
        first += part;
        blocks -= part;
    }
    recovery_flush(&m);
    *bad += m.bad;
    return rv;
}

/* What is in the block is written down: the change, or what was there before it. Neither, or nothing that can be read: a sum
 * that does not match, which is damage to whoever reads it. */
static void undo_block(struct recovery *m, uint64_t block, struct store_sum *sum,
                       const uint8_t *bytes, bool unread)
{
    uint32_t is = unread ? 0 : sum_of_block(m->store, bytes, BLOCK_BYTES);

    if (unread) {
        recovery_note(m, block, BLOCK_UNREAD);
        sum->cur = sum->prev;
    } else if (is != sum->cur) {
        recovery_note(m, block, is == sum->prev ? BLOCK_HEALED : BLOCK_BAD);
        sum->cur = sum->prev;
    }
}

int object_undo(struct store *store, struct object *object, uint64_t group, uint32_t first,
                uint32_t count, struct store_sum checksums[GROUP_BLOCKS], struct errmsg *err)
{
    struct recovery m = { .store = store, .object = object };
    uint8_t bytes[BLOCK_BYTES];
    uint32_t unread;
    int rv = 0;

    if (place_of_group(group) + CHECKSUMS_AT >= object->end) {
        return 0; /* The file has no checksums so far, and needs none for holes. */
    }
    for (uint32_t i = first; rv == 0 && i < first + count; i++) {
        rv = recover_read(object, group * GROUP_BLOCKS + i, 1, bytes, &unread, err);
        if (rv == 0) {
            undo_block(&m, group * GROUP_BLOCKS + i, &checksums[i], bytes, unread != 0);
        }
    }
    recovery_flush(&m);
    return rv != 0 ? rv : checksums_save(store, object, group, checksums, first, count, err);
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
        rv = object_lock(store, id, OBJECT_EXCLUSIVE, &object, err);
        if (rv != 0) {
            return rv;
        }
        group = object->exists ? next_group(object, group) : UINT64_MAX;
        if (group != UINT64_MAX) {
            rv = object_recover(store, object, group * GROUP_BLOCKS, GROUP_BLOCKS, bad_blocks, err);
            group++;
        }
        object_unlock(store, object);
    }
    return rv;
}

/* One more group of an object that a crash left unverified, or its end. `*more` is false when there
 * is nothing left to do. */
static int recover_step(struct store *store, struct object *object, bool *more, struct errmsg *err)
{
    uint64_t group, checkpoint;
    uint64_t bad = 0;
    int rv;

    *more = false;
    if (!object->loaded || object->dead || object->trust == TRUSTED) {
        return 0;
    }
    group = next_group(object, object->proven);
    if (group != UINT64_MAX) {
        rv = object_recover(store, object, group * GROUP_BLOCKS, GROUP_BLOCKS, &bad, err);
        object->proven = group + 1;
        *more = rv == 0;
        return rv;
    }
    rv = object_flush(store, object, "what was verified after a crash", err);
    if (rv != 0) {
        return rv;
    }
    checkpoint = checkpoints_enter(&store->checkpoints);
    object_proven(store, object);
    rv = object_stamp(store, object, checkpoint, false, err);
    checkpoints_leave(&store->checkpoints, checkpoint);
    return rv;
}

int store_recover(struct store *store, struct errmsg *err)
{
    uint32_t groups = 0;
    int rv = 0;

    while (rv == 0 && groups < RECOVER_GROUPS_MAX) {
        struct object *object = table_unverified(store);
        bool more = true;

        if (object == NULL) {
            return 0;
        }
        for (; rv == 0 && more && groups < RECOVER_GROUPS_MAX; groups++) {
            pthread_rwlock_wrlock(&object->lock);
            rv = recover_step(store, object, &more, err);
            pthread_rwlock_unlock(&object->lock);
        }
        object_release(store, object);
    }
    return rv;
}
