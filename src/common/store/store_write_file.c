/* Writes bytes with their checksums, each stretch by one system call. */
#include "common/store/store_file.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t vectors_write(int fd, struct iovec *vectors, int count, uint64_t place)
{
    size_t total = 0;

    while (count > 0) {
        ssize_t part = pwritev(fd, vectors, count, (off_t)(place + total));

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            errno = part == 0 ? ENOSPC : errno;
            return total;
        }
        total += (size_t)part;
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

/* A page of checksums as it lies in the file. */
struct checksums_page
{
    uint8_t head[CHECKSUMS_AT]; /* The object's header in group 0. */
    struct store_sum checksums[GROUP_BLOCKS];
};

/* A stretch of an object on its way into the file: the checksums of a block are written before its
 * bytes, so that a process that is killed between the two leaves bytes that match `prev`. */
struct write_window
{
    bool reserve_too; /* struct store_gate */
    uint64_t offset;
    const uint8_t *bytes;
    size_t length;
    const uint32_t *crcs;
    uint64_t first, last; /* Blocks. */
    uint64_t fresh_bytes; /* Of blocks that were holes or zeros. */
    struct checksums_page pages[WINDOW_GROUPS];
};

/* The sum of a block of which the window changes a part. */
static int window_merge(struct store *store, struct object *object, const struct write_window *w,
                        uint64_t block, const struct store_sum *old, uint32_t crc,
                        uint32_t *sum_out, struct errmsg *err)
{
    uint64_t start = block * BLOCK_BYTES;
    uint64_t end = w->offset + w->length;
    uint64_t from = start > w->offset ? start : w->offset;
    uint64_t to = start + BLOCK_BYTES < end ? start + BLOCK_BYTES : end;
    uint8_t bytes[BLOCK_BYTES];
    int rv;

    if (from == start && (to == start + BLOCK_BYTES || to >= object->size)) {
        *sum_out = sum_of_crc(store, crc, to - from);
        return 0;
    }
    rv = object_read_block(store, object, block, old, bytes, NULL, err);
    if (rv == 0) {
        memcpy(bytes + (from - start), w->bytes + (from - w->offset), to - from);
        *sum_out = sum_of_block(store, bytes, BLOCK_BYTES);
    }
    return rv;
}

/* Bring the checksums of all groups up to date in memory. */
static int window_checksums(struct store *store, struct object *object, struct write_window *w,
                            struct errmsg *err)
{
    uint64_t first_group = w->first / GROUP_BLOCKS;
    const uint32_t *crc = w->crcs;

    w->fresh_bytes = 0;
    for (uint64_t group = first_group; group <= w->last / GROUP_BLOCKS; group++) {
        struct checksums_page *page = &w->pages[group - first_group];
        uint64_t block = group == first_group ? w->first : group * GROUP_BLOCKS;
        int rv = checksums_load(store, object, group, page->checksums, err);

        memset(page->head, 0, sizeof(page->head));
        for (; rv == 0 && block <= w->last && block / GROUP_BLOCKS == group; block++, crc++) {
            struct store_sum *sum = &page->checksums[block % GROUP_BLOCKS];
            struct store_sum old = *sum;

            w->fresh_bytes += old.cur == 0 ? BLOCK_BYTES : 0;
            rv = window_merge(store, object, w, block, &old, *crc, &sum->cur, err);
            sum->prev = old.cur;
        }
        if (rv != 0) {
            return rv;
        }
    }
    return 0;
}

/* Data in the order of the file, each group's page in front of it. A first group that is entered in
 * its middle has its checksums in the file already. Returns the place of the first vector. */
static uint64_t window_layout(const struct object *object, struct write_window *w,
                              struct iovec vectors[WINDOW_IOVECS], int *count_out,
                              size_t *bytes_out)
{
    uint64_t group = w->offset / GROUP_BYTES;
    uint64_t place = place_of_byte(w->offset);
    size_t done = 0;
    int count = 0;

    *bytes_out = w->length;
    for (uint32_t i = 0; done < w->length; i++) {
        uint64_t at = w->offset + done;
        size_t part = GROUP_BYTES - at % GROUP_BYTES;

        part = part < w->length - done ? part : w->length - done;
        if (at % GROUP_BYTES == 0) {
            bool whole = group + i > 0 || !object->stamped;
            uint8_t *from = whole ? w->pages[i].head : (uint8_t *)w->pages[i].checksums;
            size_t bytes = whole ? CHECKSUMS_PAGE_BYTES : CHECKSUMS_PAGE_BYTES - CHECKSUMS_AT;

            place = i > 0 ? place : place_of_group(group) + CHECKSUMS_PAGE_BYTES - bytes;
            vectors[count++] = (struct iovec){ .iov_base = from, .iov_len = bytes };
            *bytes_out += bytes;
        }
        vectors[count++] =
            (struct iovec){ .iov_base = (void *)(uintptr_t)(w->bytes + done), .iov_len = part };
        done += part;
    }
    *count_out = count;
    return place;
}

/* The block in which the object ended before, and ends again: if our bytes are in it, their end was
 * cut off, and it is the shorter block that it was to be. */
static int window_undo_last(const struct store *store, const struct object *object,
                            struct write_window *w, uint64_t size, struct errmsg *err)
{
    uint64_t block = size / BLOCK_BYTES;
    uint64_t start = block * BLOCK_BYTES;
    uint64_t from = start > w->offset ? start : w->offset;
    uint64_t end = w->offset + w->length;
    uint64_t to = end < size ? end : size;
    uint8_t bytes[BLOCK_BYTES] = { 0 };
    struct iovec vector = { .iov_base = bytes, .iov_len = size - start };

    if (block < w->first || block > w->last || from >= to) {
        return 0;
    }
    if (vectors_read(object->fd, &vector, 1, place_of_byte(start), true) < 0) {
        return object_failed(object, "read", err);
    }
    if (memcmp(bytes + (from - start), w->bytes + (from - w->offset), to - from) == 0) {
        w->pages[block / GROUP_BLOCKS - w->first / GROUP_BLOCKS]
            .checksums[block % GROUP_BLOCKS]
            .cur = sum_of_block(store, bytes, BLOCK_BYTES);
    }
    return 0;
}

/* A write failed half way, perhaps for want of space: what was there before is to be readable, and
 * the file as long as it was. */
static void window_undo(struct store *store, struct object *object, struct write_window *w,
                        uint64_t size, uint64_t end)
{
    uint64_t block = w->first;
    struct errmsg err = { "" };
    struct stat st;
    int rv = 0;

    object->serial = atomic_fetch_add(&store->serial, 1) + 1; /* Forget the checksums in memory. */
    object->size = size;
    object_set_end(store, object, end);
    if (fstat(object->fd, &st) == 0 && (uint64_t)st.st_size > end &&
        ftruncate(object->fd, (off_t)end) != 0) {
        rv = object_failed(object, "truncate", &err);
    }
    if (rv == 0 && size % BLOCK_BYTES != 0) {
        rv = window_undo_last(store, object, w, size, &err);
    }
    while (rv == 0 && block <= w->last) {
        uint64_t group = block / GROUP_BLOCKS;
        uint64_t last = group * GROUP_BLOCKS + GROUP_BLOCKS - 1;

        last = last < w->last ? last : w->last;
        rv = object_undo(store, object, group, (uint32_t)(block % GROUP_BLOCKS),
                         (uint32_t)(last - block + 1),
                         w->pages[group - w->first / GROUP_BLOCKS].checksums, &err);
        block = last + 1;
    }
    if (rv != 0) {
        store_log(store, "after a failed write: %s: check the disk", err.text);
    }
}

/* Checksums and bytes into the file. */
static int window_put(struct store *store, struct object *object, struct write_window *w,
                      struct errmsg *err)
{
    struct iovec vectors[WINDOW_IOVECS];
    uint64_t place;
    size_t bytes;
    int count;

    if (w->offset % GROUP_BYTES != 0) {
        uint32_t inside = (uint32_t)(w->first % GROUP_BLOCKS);
        uint64_t blocks = w->last - w->first + 1;
        uint32_t part = blocks < GROUP_BLOCKS - inside ? (uint32_t)blocks : GROUP_BLOCKS - inside;
        int rv = checksums_save(store, object, w->first / GROUP_BLOCKS, w->pages[0].checksums,
                                inside, part, err);

        if (rv != 0) {
            return rv;
        }
    } else if (!object->stamped && object->trust == TRUSTED) {
        object_header(object, w->pages[0].head);
    } /* One that a crash left without a header gets it when all of it has been verified. */
    place = window_layout(object, w, vectors, &count, &bytes);
    if (vectors_write(object->fd, vectors, count, place) != bytes) {
        return object_failed(object, "write", err);
    }
    return 0;
}

/* The file holds the window. */
static void window_done(struct store *store, struct object *object, const struct write_window *w)
{
    uint64_t first_group = w->first / GROUP_BLOCKS;
    uint64_t end = w->offset + w->length;

    if (w->offset == 0 && object->trust == TRUSTED) {
        object->stamped = true;
    }
    object_grow_to(store, object, place_of_end(end));
    if (end > object->size) {
        object->size = end;
    }
    for (uint64_t group = first_group; group <= w->last / GROUP_BLOCKS; group++) {
        checksums_remember(store, object, group, true, w->pages[group - first_group].checksums);
    }
}

/* All that comes before the first byte. */
static int window_prepare(struct store *store, struct object *object, struct write_window *w,
                          uint64_t checkpoint, struct errmsg *err)
{
    uint64_t bad = 0;
    int rv = object_claim(store, object, place_of_end(w->offset + w->length), err);

    if (rv == 0 && !object->exists) {
        rv = object_create(store, object, err);
    }
    if (rv == 0) {
        rv = object_stamp(store, object, checkpoint, w->offset == 0, err);
    }
    if (rv == 0 && object->trust != TRUSTED) {
        rv = object_recover(store, object, w->first, w->last - w->first + 1, &bad, err);
    }
    if (rv == 0) {
        rv = window_checksums(store, object, w, err);
    }
    if (rv == 0 && w->fresh_bytes > 0) {
        rv = store_room(store, w->fresh_bytes, w->reserve_too, err);
    }
    return rv;
}

/* Locked exclusively, within a checkpoint. */
static int window_write(struct store *store, struct object *object, struct write_window *w,
                        uint64_t checkpoint, struct errmsg *err)
{
    uint64_t size = object->size;
    uint64_t end;
    int rv = window_prepare(store, object, w, checkpoint, err);

    if (rv != 0) {
        object_set_end(store, object, object->end);
        return rv;
    }
    end = object->end;
    object_note_change(store, object, w->offset, w->offset + w->length);
    rv = window_put(store, object, w, err);
    if (rv != 0) {
        window_undo(store, object, w, size, end);
        return rv;
    }
    window_done(store, object, w);
    return 0;
}

int object_write(struct store *store, struct object *object, uint64_t offset, const uint8_t *bytes,
                 size_t length, const uint32_t *crcs, uint64_t checkpoint, struct errmsg *err)
{
    struct write_window w;

    w.reserve_too = true;
    w.offset = offset;
    w.bytes = bytes;
    w.length = length;
    w.crcs = crcs;
    w.first = offset / BLOCK_BYTES;
    w.last = (offset + length - 1) / BLOCK_BYTES;
    return window_write(store, object, &w, checkpoint, err);
}

static int store_write_window(struct store *store, struct object_id id, struct write_window *w,
                              const struct store_gate *gate, struct errmsg *err)
{
    struct object *object;
    uint64_t checkpoint;
    int rv;

    w->first = w->offset / BLOCK_BYTES;
    w->last = (w->offset + w->length - 1) / BLOCK_BYTES;
    rv = object_lock_gated(store, id, gate, &object, err);
    if (rv != 0) {
        return rv;
    }
    checkpoint = checkpoints_enter(&store->checkpoints);
    rv = window_write(store, object, w, checkpoint, err);
    if (rv == MORSEL_IO || rv == MORSEL_ROFS) {
        atomic_store(&store->write_failed, true);
    }
    checkpoints_leave(&store->checkpoints, checkpoint);
    object_unlock(store, object);
    return rv;
}

/* Do the bytes match the writer's checksums? */
static bool pieces_match(uint64_t offset, const uint8_t *bytes, size_t length, const uint32_t *crcs)
{
    while (length > 0) {
        size_t part = BLOCK_BYTES - offset % BLOCK_BYTES;

        part = part < length ? part : length;
        if (crc32c(0, bytes, part) != *crcs++) {
            return false;
        }
        bytes += part;
        offset += part;
        length -= part;
    }
    return true;
}

int store_write(struct store *store, struct object_id id, uint64_t offset, const uint8_t *bytes,
                size_t length, const uint32_t *crcs, bool sync, const struct store_gate *gate,
                struct errmsg *err)
{
    struct write_window w;

    if (!store_range_valid(offset, length)) {
        errmsg_set(err, "write at offset %" PRIu64 " goes beyond 2^62", offset);
        return MORSEL_FBIG;
    }
    if (store->options.object_bytes_max != 0 && offset + length > store->options.object_bytes_max) {
        errmsg_set(err,
                   "write at offset %" PRIu64 " goes beyond %" PRIu64 ", where objects end here",
                   offset, store->options.object_bytes_max);
        return MORSEL_FBIG;
    }
    if (!pieces_match(offset, bytes, length, crcs)) {
        errmsg_set(err,
                   "write to object %" PRIu64 ".%u at %" PRIu64
                   ": the bytes do not match the writer's checksums",
                   id.inode, id.column, offset);
        return MORSEL_CHECKSUM;
    }
    while (length > 0) {
        size_t part = WINDOW_BYTES - offset % BLOCK_BYTES;
        int rv;

        part = part < length ? part : length;
        w.offset = offset;
        w.bytes = bytes;
        w.length = part;
        w.crcs = crcs;
        w.reserve_too = gate != NULL && gate->reserve_too;
        rv = store_write_window(store, id, &w, gate, err);
        if (rv != 0) {
            return rv;
        }
        crcs += crc32c_pieces(offset, part);
        offset += part;
        bytes += part;
        length -= part;
    }
    return sync ? store_sync(store, id, err) : 0;
}
