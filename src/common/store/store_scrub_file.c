/* Reads an object to see whether the disk still gives back what was written, and leaves the kernel's cache and the table of
 * open objects as it found them: what clients use stays there. */
#include "common/store/store_file.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, SPAN_PAGES = GROUP_SPAN / PAGE_BYTES };

static_assert((int)STORE_SCRUB_BYTES == (int)GROUP_SPAN, "it holds a group with its checksums");

/* ---- Pages ---- */

/* Which pages of a group does the kernel have? Where it does not say: all of them, and none is dropped. */
static void note_pages(int fd, uint64_t place, size_t length, uint8_t pages[SPAN_PAGES])
{
    void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)place);

    if (map == MAP_FAILED || sysconf(_SC_PAGESIZE) != PAGE_BYTES ||
        mincore(map, length, pages) != 0) {
        memset(pages, 1, SPAN_PAGES);
    }
    if (map != MAP_FAILED) {
        (void)munmap(map, length);
    }
}

/* Those that it has only because of us. */
static void drop_pages(int fd, uint64_t place, size_t length, const uint8_t pages[SPAN_PAGES])
{
    size_t count = (length + PAGE_BYTES - 1) / PAGE_BYTES;

    for (size_t i = 0, first; i < count; i++) {
        first = i;
        while (i < count && (pages[i] & 1) == 0) {
            i++;
        }
        if (i > first) {
            (void)posix_fadvise(fd, (off_t)(place + first * PAGE_BYTES),
                                (off_t)((i - first) * PAGE_BYTES), POSIX_FADV_DONTNEED);
        }
    }
}

/* ---- A group ---- */

/* A descriptor of our own: what is said of it, that reading ahead is of no use, is not said of the clients'. */
static int open_again(const struct store *store, const struct object *object)
{
    char name[STORE_NAME_BYTES];
    int fd;

    store_name(object->id, name);
    fd = openat(store->objects_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    }
    return fd;
}

/* Do the blocks from `first` on, counted within the group, match the checksums that lie before them? */
static bool matches(const struct store *store, const struct object *object, uint64_t group,
                    uint32_t first, const uint8_t *bytes)
{
    const struct store_sum *sums = (const struct store_sum *)(const void *)(bytes + CHECKSUMS_AT);
    uint64_t size = object->size - group * GROUP_BYTES;

    for (uint32_t i = first; i < GROUP_BLOCKS && (uint64_t)i * BLOCK_BYTES < size; i++) {
        uint64_t left = size - (uint64_t)i * BLOCK_BYTES;
        size_t count = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        const uint8_t *block = bytes + CHECKSUMS_PAGE_BYTES + (size_t)i * BLOCK_BYTES;

        if (sum_of_block(store, block, count) != sums[i].cur) {
            return false;
        }
    }
    return true;
}

/* Of an object that is locked; `*good` false: some of it is to be looked at more closely. */
static int read_group(struct store *store, const struct object *object, int fd, uint64_t offset,
                      uint8_t *bytes, struct store_scrubbed *out, bool *good, struct errmsg *err)
{
    uint64_t group = offset / GROUP_BYTES, place = place_of_group(group);
    size_t length = object->end - place < GROUP_SPAN ? (size_t)(object->end - place) : GROUP_SPAN;
    struct iovec vector = { .iov_base = bytes, .iov_len = length };
    uint8_t pages[SPAN_PAGES];
    ssize_t count;

    note_pages(fd, place, length, pages);
    count = vectors_read(fd, &vector, 1, place, true);
    if (count < 0) {
        return object_failed(object, "read", err);
    }
    drop_pages(fd, place, length, pages);
    out->bytes = (uint64_t)count;
    *good = (size_t)count == length &&
            matches(store, object, group, (uint32_t)(offset % GROUP_BYTES / BLOCK_BYTES), bytes);
    return 0;
}

/* Where there is something to be read, at or behind the offset; UINT64_MAX: nowhere. A file that somebody has cut is
 * looked at as if it had no holes. */
static uint64_t next_group(const struct object *object, int fd, uint64_t offset)
{
    uint64_t place = place_of_group(offset / GROUP_BYTES);
    struct stat st;
    off_t data;

    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < object->end) {
        return offset;
    }
    data = lseek(fd, (off_t)place, SEEK_DATA);
    if (data < 0) {
        return errno == ENXIO ? UINT64_MAX : offset;
    }
    return (uint64_t)data / GROUP_SPAN > offset / GROUP_BYTES
               ? (uint64_t)data / GROUP_SPAN * GROUP_BYTES
               : offset;
}

static int scrub_locked(struct store *store, const struct object *object, uint64_t offset,
                        uint8_t *bytes, struct store_scrubbed *out, bool *good, struct errmsg *err)
{
    uint64_t behind = (offset / GROUP_BYTES + 1) * GROUP_BYTES, next;
    int fd, rv = 0;

    if (!object->exists || offset >= object->size) {
        out->exists = object->exists;
        return 0;
    }
    fd = open_again(store, object);
    if (fd < 0) {
        return errno == ENOENT ? 0 : object_failed(object, "open", err);
    }
    out->exists = true;
    next = next_group(object, fd, offset);
    if (next != offset) {
        out->next = next;
    } else {
        out->next = behind < object->size ? behind : UINT64_MAX;
        rv = read_group(store, object, fd, offset, bytes, out, good, err);
    }
    (void)close(fd);
    return rv;
}

/* What it has on the disk, as it is. */
static int scrub_once(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                      struct store_scrubbed *out, bool *good, struct errmsg *err)
{
    struct object *object;
    int rv = object_lock(store, id, OBJECT_SHARED, &object, err);

    if (rv != 0) {
        return rv;
    }
    rv = scrub_locked(store, object, offset, bytes, out, good, err);
    object_unlock(store, object);
    return rv;
}

/* What is not good may be what a crash explains, and it may be another one by now. Where the disk gives nothing although
 * no block is damaged it is the checksums that it does not give. */
static int scrub_object(struct store *store, struct object_id id, uint64_t offset, uint8_t *bytes,
                        struct store_scrubbed *out, struct errmsg *err)
{
    bool good = true, unread;
    int rv = scrub_once(store, id, offset, bytes, out, &good, err);

    unread = rv == MORSEL_IO;
    if (unread || (rv == 0 && !good)) {
        rv = store_find_damage(store, id, offset, GROUP_BYTES - offset % GROUP_BYTES, &out->damage,
                               err);
    }
    return unread && rv == 0 && out->damage.blocks == 0
               ? scrub_once(store, id, offset, bytes, out, &good, err)
               : rv;
}

int store_scrub(struct store *store, struct object_id id, uint64_t offset,
                uint8_t bytes[STORE_SCRUB_BYTES], struct store_scrubbed *out, struct errmsg *err)
{
    bool was_open = table_has(store, id);
    int rv;

    CHECK(offset % BLOCK_BYTES == 0);
    *out = (struct store_scrubbed){ .next = UINT64_MAX };
    rv = scrub_object(store, id, offset, bytes, out, err);
    out->unreadable = rv == MORSEL_IO;
    if (!was_open) {
        table_need_least(store, id);
    }
    return rv;
}
