/* Truncation, punching, allocation, seeking: checksums go first, and are put back if the file
 * refuses. */
#include "common/store/store_file.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* A change of a group's blocks from `first` failed: `rv`, and why in `err`. They are to be
 * readable. */
static int shape_undo(struct store *store, struct object *object, uint64_t group, uint32_t first,
                      uint32_t count, struct store_sum checksums[GROUP_BLOCKS], int rv)
{
    struct errmsg err = { "" };

    if (object_undo(store, object, group, first, count, checksums, &err) != 0) {
        store_log(store, "after a failed change: %s: check the disk", err.text);
    }
    return rv;
}

/* The checksums of the group that will be the last one, before the file is truncated: the block
 * that is truncated gets the sum that it will have, those behind it become holes. */
static int resize_checksums(struct store *store, struct object *object, uint64_t size,
                            struct store_sum checksums[GROUP_BLOCKS], struct errmsg *err)
{
    uint64_t block = size / BLOCK_BYTES;
    uint64_t group = block / GROUP_BLOCKS;
    uint32_t inside = (uint32_t)(block % GROUP_BLOCKS);
    uint8_t bytes[BLOCK_BYTES];
    int rv;

    if (place_of_group(group) + CHECKSUMS_AT >= object->end) {
        return 0;
    }
    rv = checksums_load(store, object, group, checksums, err);
    if (rv == 0 && size % BLOCK_BYTES != 0) {
        rv = object_read_block(store, object, block, &checksums[inside], bytes, NULL, err);
    }
    if (rv != 0) {
        return rv;
    }
    for (uint32_t i = inside; i < GROUP_BLOCKS; i++) {
        checksums[i].prev = checksums[i].cur;
        checksums[i].cur = 0;
    }
    if (size % BLOCK_BYTES != 0) {
        checksums[inside].cur = sum_of_block(store, bytes, size % BLOCK_BYTES);
    }
    rv = checksums_save(store, object, group, checksums, inside, GROUP_BLOCKS - inside, err);
    return rv == 0 ? 0
                   : shape_undo(store, object, group, inside, GROUP_BLOCKS - inside, checksums, rv);
}

/* It lacks nothing any more. A header that cannot be written goes on saying so, which does no harm. */
static void begin_anew(struct object *object)
{
    uint8_t bytes[STORE_HEADER_BYTES];

    object->lacks = false;
    object_header(object, bytes);
    object->lacks = pwrite(object->fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes);
}

int object_resize(struct store *store, struct object *object, uint64_t size, struct errmsg *err)
{
    bool truncates = size < object->size && (size == 0 || size % GROUP_BYTES != 0);
    uint64_t block = size / BLOCK_BYTES;
    uint32_t inside = (uint32_t)(block % GROUP_BLOCKS);
    struct store_sum checksums[GROUP_BLOCKS] = { { .cur = 0 } };
    uint64_t bad = 0;
    int rv = 0;

    if (truncates && object->trust != TRUSTED) {
        rv = object_recover(store, object, block, GROUP_BLOCKS - inside, &bad, err);
    }
    if (rv == 0 && truncates) {
        rv = resize_checksums(store, object, size, checksums, err);
    }
    if (rv != 0 || size == object->size) {
        return rv;
    }
    if (ftruncate(object->fd, (off_t)place_of_end(size)) != 0) {
        rv = object_failed(object, "truncate", err);
        return truncates ? shape_undo(store, object, block / GROUP_BLOCKS, inside,
                                      GROUP_BLOCKS - inside, checksums, rv)
                         : rv;
    }
    object->size = size;
    object_set_end(store, object, place_of_end(size));
    if (size == 0 && object->lacks) {
        begin_anew(object);
    }
    object->serial = atomic_fetch_add(&store->serial, 1) + 1; /* Forget the checksums in memory. */
    return 0;
}

/* What a change of shape does, once the object is locked exclusively and stamped. */
struct shape
{
    uint64_t offset;
    uint64_t length;
    const struct store_gate *gate;
    bool make; /* An object that does not exist is made; otherwise there is nothing to do. */
    const uint32_t *sums; /* Of spoiling: what stays (may be NULL), */
    uint64_t *kept;       /* and how many that are. */
    int (*apply)(struct store *store, struct object *object, const struct shape *shape,
                 struct errmsg *err);
};

static int store_shape(struct store *store, struct object_id id, const struct shape *shape,
                       struct errmsg *err)
{
    struct object *object;
    uint64_t checkpoint;
    int rv;

    if (!store_range_valid(shape->offset, shape->length)) {
        errmsg_set(err, "object %" PRIu64 ".%u: the range goes beyond 2^62", id.inode, id.column);
        return MORSEL_FBIG;
    }
    rv = object_lock_gated(store, id, shape->gate, &object, err);
    if (rv != 0) {
        return rv;
    }
    if (object->exists || shape->make) {
        checkpoint = checkpoints_enter(&store->checkpoints);
        rv = object->exists ? 0 : object_create(store, object, err);
        if (rv == 0) {
            rv = object_stamp(store, object, checkpoint, false, err);
        }
        if (rv == 0) {
            rv = shape->apply(store, object, shape, err);
        }
        checkpoints_leave(&store->checkpoints, checkpoint);
    }
    object_unlock(store, object);
    return rv;
}

static int apply_truncate(struct store *store, struct object *object, const struct shape *shape,
                          struct errmsg *err)
{
    object_note_change(store, object, shape->length, object->size);
    return object_resize(store, object, shape->length, err);
}

int store_truncate(struct store *store, struct object_id id, uint64_t size,
                   const struct store_gate *gate, struct errmsg *err)
{
    struct shape shape = {
        .length = size, .gate = gate, .make = size > 0, .apply = apply_truncate
    };

    return store_shape(store, id, &shape, err);
}

/* Zeros over a part of a block: by sum, then bytes, as in a write. They lie in a page of ours as in
 * the file's: a process that is killed has written all of them or none, for the kernel may stop
 * where a page of ours ends that it does not find in memory. */
static int punch_part(struct store *store, struct object *object, uint64_t offset, uint64_t length,
                      struct errmsg *err)
{
    uint64_t block = offset / BLOCK_BYTES;
    uint32_t inside = (uint32_t)(block % GROUP_BLOCKS);
    struct store_sum checksums[GROUP_BLOCKS];
    _Alignas(BLOCK_BYTES) uint8_t bytes[BLOCK_BYTES];
    struct iovec vector = { .iov_base = bytes + offset % BLOCK_BYTES, .iov_len = length };
    uint64_t bad = 0;
    int rv = 0;

    if (length == 0) {
        return 0;
    }
    if (object->trust != TRUSTED) {
        rv = object_recover(store, object, block, 1, &bad, err);
    }
    if (rv == 0) {
        rv = checksums_load(store, object, block / GROUP_BLOCKS, checksums, err);
    }
    if (rv != 0 || checksums[inside].cur == 0) {
        return rv;
    }
    rv = object_read_block(store, object, block, &checksums[inside], bytes, NULL, err);
    if (rv != 0) {
        return rv;
    }
    memset(bytes + offset % BLOCK_BYTES, 0, length);
    checksums[inside].prev = checksums[inside].cur;
    checksums[inside].cur = sum_of_block(store, bytes, BLOCK_BYTES);
    rv = checksums_save(store, object, block / GROUP_BLOCKS, checksums, inside, 1, err);
    if (rv == 0 && vectors_write(object->fd, &vector, 1, place_of_byte(offset)) != length) {
        rv = object_failed(object, "write", err);
    }
    return rv == 0 ? 0 : shape_undo(store, object, block / GROUP_BLOCKS, inside, 1, checksums, rv);
}

/* A range of the file reads as zeros afterwards. Where holes cannot be made, they are written. */
static int zero_range(const struct object *object, uint64_t place, uint64_t bytes,
                      struct errmsg *err)
{
    static const _Alignas(BLOCK_BYTES) uint8_t zeros[16 * BLOCK_BYTES]; /* As in punch_part(). */

    if (fallocate(object->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)place,
                  (off_t)bytes) == 0) {
        return 0;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
        return object_failed(object, "punch a hole", err);
    }
    bytes = object->end <= place ? 0 : object->end - place < bytes ? object->end - place : bytes;
    while (bytes > 0) {
        uint64_t part = bytes < sizeof(zeros) ? bytes : sizeof(zeros);
        struct iovec vector = { .iov_base = (void *)(uintptr_t)zeros, .iov_len = part };

        if (vectors_write(object->fd, &vector, 1, place) != part) {
            return object_failed(object, "write zeros", err);
        }
        place += part;
        bytes -= part;
    }
    return 0;
}

/* Whole blocks of one group, counted within it. */
static int punch_blocks(struct store *store, struct object *object, uint64_t group, uint32_t first,
                        uint32_t count, struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    uint64_t place = place_of_group(group) + CHECKSUMS_PAGE_BYTES + (uint64_t)first * BLOCK_BYTES;
    uint64_t bytes = (uint64_t)count * BLOCK_BYTES;
    uint64_t bad = 0;
    int rv = 0;

    if (object->trust != TRUSTED) {
        rv = object_recover(store, object, group * GROUP_BLOCKS + first, count, &bad, err);
    }
    if (rv == 0) {
        rv = checksums_load(store, object, group, checksums, err);
    }
    if (rv != 0) {
        return rv;
    }
    for (uint32_t i = first; i < first + count; i++) {
        checksums[i].prev = checksums[i].cur;
        checksums[i].cur = 0;
    }
    rv = checksums_save(store, object, group, checksums, first, count, err);
    if (rv == 0) {
        rv = zero_range(object, place, bytes, err);
    }
    return rv == 0 ? 0 : shape_undo(store, object, group, first, count, checksums, rv);
}

static int apply_punch(struct store *store, struct object *object, const struct shape *shape,
                       struct errmsg *err)
{
    uint64_t end = shape->offset + shape->length;
    uint64_t first, last;
    int rv;

    if (shape->offset >= object->size) {
        return 0;
    }
    end = end < object->size ? end : object->size;
    object_note_change(store, object, shape->offset, end);
    first = (shape->offset + BLOCK_BYTES - 1) / BLOCK_BYTES;
    last = end == object->size ? (end + BLOCK_BYTES - 1) / BLOCK_BYTES : end / BLOCK_BYTES;
    if (first > last) { /* Within one block. */
        return punch_part(store, object, shape->offset, end - shape->offset, err);
    }
    rv = punch_part(
        store, object, shape->offset,
        first * BLOCK_BYTES < end ? first * BLOCK_BYTES - shape->offset : end - shape->offset, err);
    if (rv == 0 && last * BLOCK_BYTES < end && last >= first) {
        rv = punch_part(store, object, last * BLOCK_BYTES, end - last * BLOCK_BYTES, err);
    }
    while (rv == 0 && first < last) {
        uint64_t group = first / GROUP_BLOCKS;
        uint32_t inside = (uint32_t)(first % GROUP_BLOCKS);
        uint32_t count = GROUP_BLOCKS - inside;
        off_t data = lseek(object->fd, (off_t)place_of_group(group), SEEK_DATA);

        if (data < 0) {
            return errno == ENXIO ? 0 : object_failed(object, "look for data", err);
        }
        if ((uint64_t)data / GROUP_SPAN > group) {
            first = (uint64_t)data / GROUP_SPAN * GROUP_BLOCKS;
            continue;
        }
        count = last - first < count ? (uint32_t)(last - first) : count;
        rv = punch_blocks(store, object, group, inside, count, err);
        first += count;
    }
    return rv;
}

/* Is it what it is to be, and good? */
static int stays(struct store *store, struct object *object, uint64_t block,
                 const struct store_sum *sum, uint32_t wanted, bool *stays_out, struct errmsg *err)
{
    uint8_t bytes[BLOCK_BYTES];
    int rv = sum->cur == wanted ? object_read_block(store, object, block, sum, bytes, NULL, err)
                                : MORSEL_CHECKSUM;

    *stays_out = rv == 0;
    return rv == MORSEL_CHECKSUM ? 0 : rv;
}

/* Blocks of one group, counted within it. */
static int spoil_blocks(struct store *store, struct object *object, uint64_t group, uint32_t first,
                        uint32_t count, const uint32_t *sums, uint64_t *kept, struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    bool stay = false;
    uint64_t bad = 0;
    int rv = 0;

    if (object->trust != TRUSTED) {
        rv = object_recover(store, object, group * GROUP_BLOCKS + first, count, &bad, err);
    }
    if (rv == 0) {
        rv = checksums_load(store, object, group, checksums, err);
    }
    if (rv != 0) {
        return rv;
    }
    for (uint32_t i = first; rv == 0 && i < first + count; i++) {
        if (sums != NULL) {
            rv = stays(store, object, group * GROUP_BLOCKS + i, &checksums[i], sums[i - first],
                       &stay, err);
            *kept += stay;
        }
        if (!stay) {
            checksums[i] = STORE_SUM_GONE;
        }
    }
    return rv != 0 ? rv : checksums_save(store, object, group, checksums, first, count, err);
}

static int apply_spoil(struct store *store, struct object *object, const struct shape *shape,
                       struct errmsg *err)
{
    uint64_t end = shape->offset + shape->length;
    uint64_t first = shape->offset / BLOCK_BYTES, block = first;
    int rv = 0;

    end = end < object->size ? end : object->size;
    object_note_change(store, object, shape->offset, end);
    end = (end + BLOCK_BYTES - 1) / BLOCK_BYTES;
    while (rv == 0 && block < end) {
        uint32_t inside = (uint32_t)(block % GROUP_BLOCKS), count = GROUP_BLOCKS - inside;

        count = end - block < count ? (uint32_t)(end - block) : count;
        rv = spoil_blocks(store, object, block / GROUP_BLOCKS, inside, count,
                          shape->sums != NULL ? shape->sums + (block - first) : NULL, shape->kept,
                          err);
        block += count;
    }
    return rv;
}

int store_spoil(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                struct errmsg *err)
{
    struct shape shape = { .offset = offset, .length = length, .apply = apply_spoil };

    return store_shape(store, id, &shape, err);
}

int store_spoil_others(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                       const uint32_t *sums, uint64_t *kept, struct errmsg *err)
{
    struct shape shape = {
        .offset = offset, .length = length, .sums = sums, .kept = kept, .apply = apply_spoil
    };

    *kept = 0;
    return store_shape(store, id, &shape, err);
}

int store_punch(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                const struct store_gate *gate, struct errmsg *err)
{
    struct shape shape = { .offset = offset, .gate = gate, .length = length, .apply = apply_punch };

    return store_shape(store, id, &shape, err);
}

/* The length of the file stays, so that the object does not grow by it. */
static int apply_allocate(struct store *store, struct object *object, const struct shape *shape,
                          struct errmsg *err)
{
    uint64_t page = place_of_group(shape->offset / GROUP_BYTES);
    uint64_t from = place_of_byte(shape->offset);
    uint64_t to = place_of_end(shape->offset + shape->length);
    int rv = store_room(store, shape->length, shape->gate != NULL && shape->gate->reserve_too, err);

    if (rv == 0 &&
        (fallocate(object->fd, FALLOC_FL_KEEP_SIZE, (off_t)page, CHECKSUMS_PAGE_BYTES) != 0 ||
         fallocate(object->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) != 0)) {
        rv = object_failed(object, "allocate", err);
    }
    return rv;
}

int store_allocate(struct store *store, struct object_id id, uint64_t offset, uint64_t length,
                   const struct store_gate *gate, struct errmsg *err)
{
    struct shape shape = {
        .offset = offset, .gate = gate, .length = length, .make = true, .apply = apply_allocate
    };

    return length == 0 ? 0 : store_shape(store, id, &shape, err);
}

/* From the block on the first one of its group that has a sum (`has`), or none; the first one behind the group: none
 * is like that. */
static int seek_sum(struct store *store, const struct object *object, uint64_t block, bool has,
                    uint64_t *at, struct errmsg *err)
{
    struct store_sum checksums[GROUP_BLOCKS];
    uint64_t group = block / GROUP_BLOCKS;
    int rv = checksums_load(store, object, group, checksums, err);

    while (rv == 0 && block / GROUP_BLOCKS == group &&
           (checksums[block % GROUP_BLOCKS].cur != 0) != has) {
        block++;
    }
    *at = block;
    return rv;
}

/* Of the file; UINT64_MAX: there is no more. Pages of checksums count as data here. */
static int seek_file(const struct object *object, uint64_t place, bool hole, uint64_t *at,
                     struct errmsg *err)
{
    off_t found = lseek(object->fd, (off_t)place, hole ? SEEK_HOLE : SEEK_DATA);

    if (found < 0 && errno != ENXIO) {
        return object_failed(object, "look for data", err);
    }
    *at = found < 0 ? UINT64_MAX : (uint64_t)found;
    return 0;
}

/* A block that should have bytes, for it has a sum, and of which the file has a hole, is damage and not zeros: as much
 * data as any. */
static int seek_data(struct store *store, const struct object *object, uint64_t offset,
                     uint64_t *data, struct errmsg *err)
{
    uint64_t block = offset / BLOCK_BYTES;

    for (;;) {
        uint64_t group = block / GROUP_BLOCKS, lost, place = UINT64_MAX;
        int rv = seek_sum(store, object, block, true, &lost, err);

        if (rv != 0 ||
            (rv = seek_file(object, place_of_byte(block * BLOCK_BYTES), false, &place, err)) != 0) {
            return rv;
        }
        if (lost / GROUP_BLOCKS == group) {
            *data = place == UINT64_MAX || byte_at_place(place) > lost * BLOCK_BYTES
                        ? lost * BLOCK_BYTES
                        : byte_at_place(place);
            return 0;
        }
        if (place == UINT64_MAX || place / GROUP_SPAN == group) {
            *data = place == UINT64_MAX ? UINT64_MAX : byte_at_place(place);
            return 0;
        }
        block = place / GROUP_SPAN * GROUP_BLOCKS; /* At its page of checksums, or at bytes. */
    }
}

static int seek_hole(struct store *store, const struct object *object, uint64_t offset,
                     uint64_t *hole, struct errmsg *err)
{
    uint64_t block = offset / BLOCK_BYTES;

    for (;;) {
        uint64_t place = UINT64_MAX, at, none;
        int rv = seek_file(object, place_of_byte(block * BLOCK_BYTES), true, &place, err);

        if (rv != 0 || place == UINT64_MAX || byte_at_place(place) >= object->size) {
            *hole = UINT64_MAX;
            return rv;
        }
        at = byte_at_place(place) / BLOCK_BYTES;
        if ((rv = seek_sum(store, object, at, false, &none, err)) != 0) {
            return rv;
        }
        if (none == at) {
            *hole = byte_at_place(place);
            return 0;
        }
        block = none;
    }
}

/* With the object locked. Pages of checksums are neither data nor holes: data behind one begins
 * where the group's bytes begin. */
static int seek_in(struct store *store, const struct object *object, uint64_t offset, bool hole,
                   bool *found, uint64_t *offset_out, struct errmsg *err)
{
    uint64_t at = 0;
    int rv = hole ? seek_hole(store, object, offset, &at, err)
                  : seek_data(store, object, offset, &at, err);

    if (rv != 0) {
        return rv;
    }
    *found = hole || at < object->size;
    *offset_out = at < offset ? offset : at < object->size ? at : object->size;
    return 0;
}

int store_lacks(struct store *store, struct object_id id, bool *lacks, struct errmsg *err)
{
    struct object *object;
    int rv = object_lock(store, id, OBJECT_SHARED, &object, err);

    *lacks = false;
    if (rv == 0) {
        *lacks = object->exists && object->lacks;
        object_unlock(store, object);
    }
    return rv;
}

int store_seek(struct store *store, struct object_id id, uint64_t offset, bool hole, bool *found,
               uint64_t *offset_out, struct errmsg *err)
{
    struct object *object;
    int rv;

    *found = hole;
    *offset_out = offset;
    if (!store_range_valid(offset, 0)) {
        return MORSEL_FBIG;
    }
    rv = object_lock(store, id, OBJECT_SHARED, &object, err);
    if (rv != 0) {
        return rv;
    }
    if (object->exists && offset < object->size) {
        rv = seek_in(store, object, offset, hole, found, offset_out, err);
    }
    object_unlock(store, object);
    return rv;
}
