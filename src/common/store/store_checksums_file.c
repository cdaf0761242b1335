/* The cache of checksums, filled from the file and written through to it. */
#include "common/store/store_file.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint8_t ZEROS[BLOCK_BYTES];

int checksums_init(struct store *store)
{
    store->checksums = calloc(CHECKSUMS_SETS, sizeof(*store->checksums));
    if (store->checksums == NULL) {
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; i < CHECKSUMS_SETS; i++) {
        pthread_mutex_init(&store->checksums[i].lock, NULL);
    }
    store->zeros_crc = crc32c(0, ZEROS, BLOCK_BYTES);
    return 0;
}

void checksums_free(struct store *store)
{
    if (store->checksums == NULL) {
        return;
    }
    for (uint32_t i = 0; i < CHECKSUMS_SETS; i++) {
        pthread_mutex_destroy(&store->checksums[i].lock);
    }
    free(store->checksums);
    store->checksums = NULL;
}

static struct checksums_set *checksums_set_of(struct store *store, const struct object *object,
                                              uint64_t group)
{
    uint64_t key = (object->serial * UINT64_C(0x9e3779b97f4a7c15)) ^ group;

    return &store->checksums[(key ^ (key >> 32)) % CHECKSUMS_SETS];
}

static struct checksums_way *checksums_find(struct checksums_set *set, const struct object *object,
                                            uint64_t group)
{
    for (uint32_t i = 0; i < CHECKSUMS_WAYS; i++) {
        if (set->ways[i].serial == object->serial && set->ways[i].group == group) {
            set->ways[i].used = ++set->clock;
            return &set->ways[i];
        }
    }
    return NULL;
}

static bool checksums_enter(struct checksums_set *set, bool wait)
{
    return (wait ? pthread_mutex_lock(&set->lock) : pthread_mutex_trylock(&set->lock)) == 0;
}

bool checksums_cached(struct store *store, const struct object *object, uint64_t group, bool wait,
                      struct store_sum checksums[GROUP_BLOCKS])
{
    struct checksums_set *set = checksums_set_of(store, object, group);
    struct checksums_way *way;

    if (!checksums_enter(set, wait)) {
        return false;
    }
    way = checksums_find(set, object, group);
    if (way != NULL) {
        memcpy(checksums, way->checksums, sizeof(way->checksums));
    }
    pthread_mutex_unlock(&set->lock);
    return way != NULL;
}

void checksums_remember(struct store *store, const struct object *object, uint64_t group, bool wait,
                        const struct store_sum checksums[GROUP_BLOCKS])
{
    struct checksums_set *set = checksums_set_of(store, object, group);
    struct checksums_way *way;

    if (!checksums_enter(set, wait)) {
        return;
    }
    way = checksums_find(set, object, group);
    if (way == NULL) {
        way = &set->ways[0];
        for (uint32_t i = 1; i < CHECKSUMS_WAYS; i++) {
            if (set->clock - set->ways[i].used > set->clock - way->used) {
                way = &set->ways[i];
            }
        }
        way->serial = object->serial;
        way->group = group;
        way->used = ++set->clock;
    }
    memcpy(way->checksums, checksums, sizeof(way->checksums));
    pthread_mutex_unlock(&set->lock);
}

/* Reading a page of a hole makes the kernel read ahead: it fills its cache with zeros that the next
 * write replaces. Zeros can be had cheaper. */
static bool is_hole(const struct object *object, uint64_t page)
{
    off_t data = lseek(object->fd, (off_t)page, SEEK_DATA);

    return data >= 0 ? (uint64_t)data >= page + CHECKSUMS_PAGE_BYTES : errno == ENXIO;
}

int checksums_load(struct store *store, const struct object *object, uint64_t group,
                   struct store_sum checksums[GROUP_BLOCKS], struct errmsg *err)
{
    const size_t bytes = sizeof(struct store_sum) * GROUP_BLOCKS;
    ssize_t count = 0;

    if (place_of_group(group) + CHECKSUMS_AT >= object->end) {
        memset(checksums, 0, bytes);
        return 0;
    }
    if (checksums_cached(store, object, group, true, checksums)) {
        return 0;
    }
    if (!is_hole(object, place_of_group(group))) {
        count = pread(object->fd, checksums, bytes, (off_t)(place_of_group(group) + CHECKSUMS_AT));
        if (count < 0) {
            return object_failed(object, "read checksums", err);
        }
    }
    memset((uint8_t *)checksums + count, 0, bytes - (size_t)count);
    checksums_remember(store, object, group, true, checksums);
    return 0;
}

int checksums_save(struct store *store, struct object *object, uint64_t group,
                   const struct store_sum checksums[GROUP_BLOCKS], uint32_t first, uint32_t count,
                   struct errmsg *err)
{
    struct iovec vector = { .iov_base = (void *)(uintptr_t)(checksums + first),
                            .iov_len = count * sizeof(*checksums) };
    uint64_t place = place_of_group(group) + CHECKSUMS_AT + first * sizeof(*checksums);

    if (vectors_write(object->fd, &vector, 1, place) != count * sizeof(*checksums)) {
        return object_failed(object, "write checksums", err);
    }
    object_grow_to(store, object, place + count * sizeof(*checksums));
    checksums_remember(store, object, group, true, checksums);
    return 0;
}

uint32_t sum_of_crc(const struct store *store, uint32_t crc, size_t count)
{
    return crc32c(crc, ZEROS, BLOCK_BYTES - count) ^ store->zeros_crc;
}

uint32_t sum_of_block(const struct store *store, const uint8_t *bytes, size_t count)
{
    return sum_of_crc(store, crc32c(0, bytes, count), count);
}
