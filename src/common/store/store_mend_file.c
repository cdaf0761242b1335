/* Damage that another copy of an object can mend: which blocks are bad, and bytes put in their place;
 * and a file that somebody has made shorter behind our back. */
#include "common/store/store_file.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- A file that has become shorter ---- */

/* Of a group the first block that is not all in a file of that length. */
static uint32_t first_gone(uint64_t group, uint64_t length)
{
    uint64_t data = place_of_group(group) + CHECKSUMS_PAGE_BYTES;

    return length <= data ? 0 : (uint32_t)((length - data) / BLOCK_BYTES);
}

/* What is gone of one group is damage. */
static int lose_group(const struct object *object, uint64_t group, uint64_t length,
                      struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    struct iovec vector;
    uint64_t place;
    size_t bytes;
    uint64_t first_block = group * GROUP_BLOCKS;
    uint64_t blocks = (object->size + BLOCK_BYTES - 1) / BLOCK_BYTES;
    uint32_t first = first_gone(group, length);
    uint32_t count =
        blocks - first_block < GROUP_BLOCKS ? (uint32_t)(blocks - first_block) : GROUP_BLOCKS;

    if (first >= count) {
        return 0;
    }
    for (uint32_t i = first; i < count; i++) {
        checksums[i] = STORE_SUM_GONE;
    }
    bytes = (count - first) * sizeof(checksums[0]);
    vector = (struct iovec){ .iov_base = checksums + first, .iov_len = bytes };
    place = place_of_group(group) + CHECKSUMS_AT + first * sizeof(checksums[0]);
    return vectors_write(object->fd, &vector, 1, place) == bytes
               ? 0
               : object_failed(object, "write checksums", err);
}

int object_lengthen(struct store *store, struct object *object, struct errmsg *err)
{
    uint8_t header[STORE_HEADER_BYTES];
    uint64_t length;
    struct stat st;
    int rv = 0;

    if (!object->exists || fstat(object->fd, &st) != 0 || (uint64_t)st.st_size >= object->end) {
        return 0;
    }
    length = (uint64_t)st.st_size;
    store_log(store,
              "object %" PRIu64 ".%u: somebody else has cut its file from %" PRIu64 " to %" PRIu64
              " bytes; what is gone is damage",
              object->id.inode, object->id.column, object->end, length);
    object->serial = atomic_fetch_add(&store->serial, 1) + 1; /* Forget the checksums in memory. */
    if (length < sizeof(header) && object->stamped) {
        object_header(object, header);
        rv = pwrite(object->fd, header, sizeof(header), 0) == (ssize_t)sizeof(header)
                 ? 0
                 : object_failed(object, "write header", err);
    }
    for (uint64_t group = length / GROUP_SPAN; rv == 0 && group * GROUP_BYTES < object->size;
         group++) {
        rv = lose_group(object, group, length, err);
    }
    if (rv == 0 && ftruncate(object->fd, (off_t)object->end) != 0) {
        rv = object_failed(object, "lengthen", err);
    }
    return rv;
}

/* ---- Damage ---- */

/* One block, with the sum that it should have. MORSEL_CHECKSUM: it is bad. */
static int judge(struct store *store, struct object *object, uint64_t block,
                 uint8_t bytes[BLOCK_BYTES], bool *unreadable, struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    int rv = checksums_load(store, object, block / GROUP_BLOCKS, checksums, err);

    *unreadable = false;
    return rv != 0 ? rv
                   : object_read_block(store, object, block, &checksums[block % GROUP_BLOCKS],
                                       bytes, unreadable, err);
}

/* Blocks of the object from `offset` up to `offset + length`. False: it has none there. */
static bool clip(const struct object *object, uint64_t offset, uint64_t length, uint64_t *first,
                 uint64_t *end)
{
    uint64_t to = offset + length < object->size ? offset + length : object->size;

    *first = offset / BLOCK_BYTES;
    *end = (to + BLOCK_BYTES - 1) / BLOCK_BYTES;
    return object->exists && offset < to;
}

static void note(struct store_damage *damage, uint64_t block, bool unreadable)
{
    if (damage->blocks == 0) {
        damage->start = block * BLOCK_BYTES;
    }
    damage->end = (block + 1) * BLOCK_BYTES;
    damage->blocks++;
    damage->unreadable += unreadable;
}

int store_find_damage(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                      struct store_damage *damage, struct errmsg *err)
{
    uint8_t bytes[BLOCK_BYTES];
    struct object *object;
    uint64_t block, end, bad = 0;
    uint64_t within = offset % BLOCK_BYTES;
    bool unreadable;
    int rv;

    *damage = (struct store_damage){ .blocks = 0 };
    if (!store_range_valid(offset, length)) {
        return MORSEL_FBIG;
    }
    rv = object_lock_gated(store, id, NULL, &object, err);
    if (rv != 0) {
        return rv;
    }
    if (length > 0 && clip(object, offset - within, length + within, &block, &end)) {
        if (object->trust != TRUSTED) {
            rv = object_recover(store, object, block, end - block, &bad, err);
        }
        for (;
             rv == 0 && block < end && (damage->blocks == 0 || damage->end == block * BLOCK_BYTES);
             block++) {
            rv = judge(store, object, block, bytes, &unreadable, err);
            if (rv == MORSEL_CHECKSUM) {
                note(damage, block, unreadable);
                rv = 0;
            }
        }
    }
    object_unlock(store, object);
    return rv;
}

/* To write a part of a block the kernel reads the rest of it, which it cannot: a hole goes in its place first. Where there is none to be
 * had, the write says what it thinks of that. */
static void give_up_block(const struct object *object, uint64_t block)
{
    (void)fallocate(object->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)place_of_byte(block * BLOCK_BYTES), BLOCK_BYTES);
}

/* The object has that block; of its last one only a part. */
static int mend_block(struct store *store, struct object *object, uint64_t block, bool unreadable,
                      uint64_t checkpoint, const uint8_t bytes[BLOCK_BYTES], struct errmsg *err)
{
    uint64_t left = object->size - block * BLOCK_BYTES;
    size_t count = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
    uint32_t crc = crc32c(0, bytes, count);

    if (unreadable && count < BLOCK_BYTES) {
        give_up_block(object, block);
    }
    return object_write(store, object, block * BLOCK_BYTES, bytes, count, &crc, checkpoint, err);
}

int store_mend(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
               const uint8_t *bytes, size_t count, struct store_damage *mended, struct errmsg *err)
{
    uint8_t is[BLOCK_BYTES], good[BLOCK_BYTES];
    struct object *object;
    uint64_t block, end, checkpoint;
    bool unreadable;
    int rv;

    CHECK(offset % BLOCK_BYTES == 0 && count <= length);
    *mended = (struct store_damage){ .blocks = 0 };
    if (!store_range_valid(offset, length)) {
        return MORSEL_FBIG;
    }
    rv = object_lock_gated(store, id, NULL, &object, err);
    if (rv != 0) {
        return rv;
    }
    checkpoint = checkpoints_enter(&store->checkpoints);
    end = 0;
    block = 1;
    (void)clip(object, offset, length, &block, &end);
    for (; rv == 0 && object->exists && block < end; block++) {
        uint64_t from = block * BLOCK_BYTES - offset;
        size_t have = from >= count ? 0 : count - from < BLOCK_BYTES ? count - from : BLOCK_BYTES;

        rv = judge(store, object, block, is, &unreadable, err);
        if (rv == MORSEL_CHECKSUM) {
            memset(good, 0, sizeof(good));
            memcpy(good, bytes + (from < count ? from : 0), have);
            rv = mend_block(store, object, block, unreadable, checkpoint, good, err);
            note(mended, block, unreadable);
        }
    }
    checkpoints_leave(&store->checkpoints, checkpoint);
    object_unlock(store, object);
    return rv;
}

/* Of an object that is locked. */
static int sums_locked(struct store *store, const struct object *object, uint64_t first,
                       uint64_t end, uint32_t *sums, struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    int rv = 0;

    for (uint64_t block = first; rv == 0 && block < end; block++) {
        if (block == first || block % GROUP_BLOCKS == 0) {
            rv = checksums_load(store, object, block / GROUP_BLOCKS, checksums, err);
        }
        *sums++ = checksums[block % GROUP_BLOCKS].cur;
    }
    return rv;
}

int store_sums(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
               uint32_t *sums, struct errmsg *err)
{
    struct object *object;
    uint64_t first, end;
    int rv = object_lock(store, id, OBJECT_SHARED, &object, err);

    if (rv != 0) {
        return rv;
    }
    end = (offset + length + BLOCK_BYTES - 1) / BLOCK_BYTES;
    memset(sums, 0, (size_t)(end - offset / BLOCK_BYTES) * sizeof(*sums));
    if (clip(object, offset, length, &first, &end)) {
        rv = sums_locked(store, object, first, end, sums, err);
    }
    object_unlock(store, object);
    return rv;
}
