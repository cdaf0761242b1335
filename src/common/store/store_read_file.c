/* Reads a window with its checksums, verifies each block, and tries once more behind a crash. */
#include "common/store/store_file.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

ssize_t vectors_read(int fd, struct iovec *vectors, int count, uint64_t place, bool wait)
{
    ssize_t total = 0;

    while (count > 0) {
        ssize_t part = preadv2(fd, vectors, count, (off_t)place + total, wait ? 0 : RWF_NOWAIT);

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return -1;
        }
        total += part;
        if (part == 0 || !wait) {
            break;
        }
        for (; count > 0 && (size_t)part >= vectors->iov_len; vectors++, count--) {
            part -= (ssize_t)vectors->iov_len;
        }
        if (count > 0) {
            vectors->iov_base = (uint8_t *)vectors->iov_base + part;
            vectors->iov_len -= (size_t)part;
        }
    }
    return total;
}

/* A stretch of an object on its way into the caller's memory. Whole blocks go straight there; the
 * two at the ends, of which only a part is wanted but all is verified, take a detour. */
struct read_window
{
    uint64_t offset;
    uint64_t end; /* At most the size of the object. */
    uint8_t *bytes;
    bool wait;
    uint8_t head[BLOCK_BYTES];
    uint8_t tail[BLOCK_BYTES];
    uint8_t unused[CHECKSUMS_PAGE_BYTES]; /* Pages whose checksums are known already. */
    struct store_sum checksums[WINDOW_GROUPS][GROUP_BLOCKS];
    bool checksums_known[WINDOW_GROUPS];
    struct iovec vectors[WINDOW_IOVECS];
    int vectors_count;
    size_t vectors_bytes;
    uint64_t bad_block; /* With MORSEL_CHECKSUM, */
    bool unread;        /* unless the disk gave nothing. */
};

static void window_vector(struct read_window *w, void *base, size_t count)
{
    if (count > 0) {
        w->vectors[w->vectors_count++] = (struct iovec){ .iov_base = base, .iov_len = count };
        w->vectors_bytes += count;
    }
}

/* How many bytes of `block` the object has. */
static size_t block_bytes(const struct object *object, uint64_t block)
{
    uint64_t left = object->size - block * BLOCK_BYTES;

    return left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
}

/* Where the bytes of a block are read to. `*whole` is true if that is their place in the caller's
 * memory. */
static uint8_t *window_block(struct read_window *w, const struct object *object, uint64_t block,
                             bool *whole)
{
    uint64_t start = block * BLOCK_BYTES;

    *whole = false;
    if (start < w->offset) {
        return w->head;
    }
    if (w->end < start + block_bytes(object, block)) {
        return w->tail;
    }
    *whole = true;
    return w->bytes + (start - w->offset);
}

/* The vectors of the blocks of one group. */
static void window_add_blocks(struct read_window *w, const struct object *object, uint64_t first,
                              uint64_t last)
{
    uint8_t *base = NULL;
    size_t count = 0;

    for (uint64_t block = first; block <= last; block++) {
        bool whole;
        uint8_t *at = window_block(w, object, block, &whole);

        if (base == NULL || at != base + count) {
            window_vector(w, base, count);
            base = at;
            count = 0;
        }
        count += block_bytes(object, block);
    }
    window_vector(w, base, count);
}

/* Lay out the read: data and, where they lie on the way, checksums. The place to read from. */
static uint64_t window_plan(struct store *store, const struct object *object, struct read_window *w)
{
    uint64_t first = w->offset / BLOCK_BYTES;
    uint64_t last = (w->end - 1) / BLOCK_BYTES;
    uint64_t first_group = first / GROUP_BLOCKS;
    uint64_t place = place_of_byte(first * BLOCK_BYTES);

    w->vectors_count = 0;
    w->vectors_bytes = 0;
    w->unread = false;
    memset(w->checksums_known, 0, sizeof(w->checksums_known));
    for (uint64_t group = first_group; group <= last / GROUP_BLOCKS; group++) {
        uint64_t i = group - first_group;
        uint64_t from = i == 0 ? first : group * GROUP_BLOCKS;
        uint64_t to = (group + 1) * GROUP_BLOCKS - 1;

        w->checksums_known[i] = checksums_cached(store, object, group, w->wait, w->checksums[i]);
        if (i > 0) {
            window_vector(w, w->unused,
                          w->checksums_known[i] ? CHECKSUMS_PAGE_BYTES : CHECKSUMS_AT);
        }
        if (!w->checksums_known[i] && from % GROUP_BLOCKS == 0) {
            if (i == 0) {
                place = place_of_group(group) + CHECKSUMS_AT;
            }
            window_vector(w, w->checksums[i], sizeof(w->checksums[i]));
        }
        window_add_blocks(w, object, from, to < last ? to : last);
    }
    return place;
}

/* Checksums of a first group of which the read begins in the middle. */
static int window_first_checksums(const struct object *object, struct read_window *w,
                                  struct errmsg *err)
{
    uint64_t group = w->offset / GROUP_BYTES;
    struct iovec vector = { .iov_base = w->checksums[0], .iov_len = sizeof(w->checksums[0]) };
    ssize_t count;

    if (w->checksums_known[0] || w->offset / BLOCK_BYTES % GROUP_BLOCKS == 0) {
        return 0;
    }
    count = vectors_read(object->fd, &vector, 1, place_of_group(group) + CHECKSUMS_AT, w->wait);
    if (count == (ssize_t)sizeof(w->checksums[0])) {
        return 0;
    }
    if (!w->wait) {
        return MORSEL_AGAIN;
    }
    if (count >= 0) {
        w->bad_block = w->offset / BLOCK_BYTES;
        return MORSEL_CHECKSUM; /* Somebody else has cut the file. */
    }
    return object_failed(object, "read checksums", err);
}

/* Verify one block, hand over what is wanted of it. */
static bool window_verify_block(const struct store *store, const struct object *object,
                                struct read_window *w, uint64_t block, uint32_t *crc)
{
    uint64_t group = block / GROUP_BLOCKS - w->offset / GROUP_BYTES;
    const struct store_sum *sum = &w->checksums[group][block % GROUP_BLOCKS];
    size_t count = block_bytes(object, block);
    uint64_t start = block * BLOCK_BYTES;
    uint64_t from = start > w->offset ? start : w->offset;
    uint64_t to = start + count < w->end ? start + count : w->end;
    bool whole;
    const uint8_t *at = window_block(w, object, block, &whole);

    *crc = crc32c(0, at, count);
    if ((count == BLOCK_BYTES ? *crc ^ store->zeros_crc : sum_of_crc(store, *crc, count)) !=
        sum->cur) {
        w->bad_block = block;
        return false;
    }
    if (!whole) {
        memcpy(w->bytes + (from - w->offset), at + (from - start), to - from);
        *crc = crc32c(0, at + (from - start), to - from);
    }
    return true;
}

static int window_verify(struct store *store, const struct object *object, struct read_window *w,
                         uint32_t *crcs)
{
    uint64_t first_group = w->offset / GROUP_BYTES;
    uint64_t last = (w->end - 1) / BLOCK_BYTES;

    for (uint64_t block = w->offset / BLOCK_BYTES; block <= last; block++) {
        if (!window_verify_block(store, object, w, block, crcs++)) {
            return MORSEL_CHECKSUM;
        }
    }
    for (uint64_t i = 0; i <= last / GROUP_BLOCKS - first_group; i++) {
        if (!w->checksums_known[i]) {
            checksums_remember(store, object, first_group + i, w->wait, w->checksums[i]);
        }
    }
    return 0;
}

/* Locked in any way. MORSEL_CHECKSUM leaves the block in w->bad_block. */
static int window_read(struct store *store, const struct object *object, struct read_window *w,
                       uint32_t *crcs, struct errmsg *err)
{
    uint64_t place = window_plan(store, object, w);
    size_t wanted = w->vectors_bytes;
    int rv = window_first_checksums(object, w, err);
    ssize_t count;

    if (rv != 0) {
        return rv;
    }
    count = vectors_read(object->fd, w->vectors, w->vectors_count, place, w->wait);
    if (count != (ssize_t)wanted) {
        if (!w->wait) {
            return MORSEL_AGAIN;
        }
        if (count >= 0) {
            w->bad_block = w->offset / BLOCK_BYTES;
            return MORSEL_CHECKSUM; /* Somebody else has cut the file. */
        }
        w->unread = true;
        return object_unread(object, err);
    }
    return window_verify(store, object, w, crcs);
}

/* Locked exclusively, after a first failure: put right what a crash explains, then read again. */
static int window_read_recovered(struct store *store, struct object *object, struct read_window *w,
                                 uint32_t *crcs, struct errmsg *err)
{
    uint64_t first = w->offset / BLOCK_BYTES;
    uint64_t blocks = (w->end - 1) / BLOCK_BYTES - first + 1;
    uint64_t bad = 0;
    int rv = object_lengthen(store, object, err);

    if (rv == 0) {
        rv = object_recover(store, object, first, blocks, &bad, err);
    }
    if (rv == 0) {
        rv = window_read(store, object, w, crcs, err);
    }
    if (rv == MORSEL_CHECKSUM && !w->unread) {
        errmsg_set(err, "object %" PRIu64 ".%u: block %" PRIu64 " does not match its checksum",
                   object->id.inode, object->id.column, w->bad_block);
    }
    return rv;
}

/* No crash explains what the disk does not give, and each more look at that takes it long: whoever has another copy looks for
 * the blocks next. Of what has none it is said which they are. */
static bool nothing_to_recover(const struct store *store, const struct object *object,
                               const struct read_window *w)
{
    return w->unread && object->trust == TRUSTED && object_has_copies(store, object);
}

/* Cut the window at the end of the object. False: nothing is left. */
static bool window_clip(const struct object *object, struct read_window *w, size_t length)
{
    if (!object->exists || w->offset >= object->size) {
        return false;
    }
    w->end = object->size - w->offset < length ? object->size : w->offset + length;
    return true;
}

static int store_read_window(struct store *store, struct object_id id, struct read_window *w,
                             size_t length, size_t *count_out, uint32_t *crcs, struct errmsg *err)
{
    struct object *object;
    int rv = object_lock(store, id, OBJECT_SHARED, &object, err);
    bool over;

    if (rv != 0) {
        return rv;
    }
    if (window_clip(object, w, length)) {
        rv = window_read(store, object, w, crcs, err);
        *count_out = w->end - w->offset;
    }
    over = rv != MORSEL_CHECKSUM || nothing_to_recover(store, object, w);
    object_unlock(store, object);
    if (over) {
        return rv;
    }
    rv = object_lock(store, id, OBJECT_EXCLUSIVE, &object, err);
    if (rv != 0) {
        return rv;
    }
    *count_out = 0;
    if (window_clip(object, w, length)) {
        rv = window_read_recovered(store, object, w, crcs, err);
        *count_out = w->end - w->offset;
    }
    object_unlock(store, object);
    return rv;
}

int store_read(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
               size_t length, size_t *count_out, uint32_t *crcs, struct errmsg *err)
{
    struct read_window w;

    *count_out = 0;
    if (!store_range_valid(offset, length)) {
        errmsg_set(err, "read at offset %" PRIu64 " goes beyond 2^62", offset);
        return MORSEL_FBIG;
    }
    while (length > 0) {
        /* Each step but the first starts at a border of blocks, so that pieces stay whole. */
        size_t part = WINDOW_BYTES - offset % BLOCK_BYTES;
        size_t count = 0;
        int rv;

        part = part < length ? part : length;
        w.offset = offset;
        w.bytes = bytes;
        w.wait = true;
        rv = store_read_window(store, id, &w, part, &count, crcs, err);
        if (rv != 0) {
            return rv;
        }
        *count_out += count;
        if (count < part) {
            return 0;
        }
        crcs += crc32c_pieces(offset, count);
        offset += count;
        bytes += count;
        length -= count;
    }
    return 0;
}

int store_read_cached(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                      size_t length, size_t *count_out, uint32_t *crcs)
{
    struct read_window w;
    struct object *object;
    int rv = 0;

    *count_out = 0;
    if (!store_range_valid(offset, length) || length > WINDOW_BYTES - offset % BLOCK_BYTES) {
        return MORSEL_AGAIN;
    }
    object = object_try_lock(store, id);
    if (object == NULL) {
        return MORSEL_AGAIN;
    }
    w.offset = offset;
    w.bytes = bytes;
    w.wait = false;
    if (length > 0 && window_clip(object, &w, length)) {
        rv = window_read(store, object, &w, crcs, NULL);
        *count_out = rv == 0 ? w.end - w.offset : 0;
    }
    object_unlock(store, object); /* Takes table_lock, which nobody holds for long. */
    return rv == 0 ? 0 : MORSEL_AGAIN;
}

int object_read_block(struct store *store, struct object *object, uint64_t block,
                      const struct store_sum *sum, uint8_t bytes[BLOCK_BYTES], bool *unreadable,
                      struct errmsg *err)
{
    struct iovec vector = { .iov_base = bytes, .iov_len = BLOCK_BYTES };
    ssize_t count = 0;

    if (block * BLOCK_BYTES < object->size) {
        vector.iov_len = block_bytes(object, block);
        count = vectors_read(object->fd, &vector, 1, place_of_byte(block * BLOCK_BYTES), true);
    }
    if (unreadable != NULL) {
        *unreadable = count < 0;
    }
    if (count < 0) {
        return object_unread(object, err);
    }
    memset(bytes + count, 0, BLOCK_BYTES - (size_t)count);
    if (sum_of_block(store, bytes, BLOCK_BYTES) != sum->cur) {
        errmsg_set(err, "object %" PRIu64 ".%u: block %" PRIu64 " does not match its checksum",
                   object->id.inode, object->id.column, block);
        return MORSEL_CHECKSUM;
    }
    return 0;
}
