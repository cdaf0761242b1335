/* How much objects take of the disk, and that they do not take more than they may.
 *
 * An object counts with the length of its file in whole blocks, which is known without asking the disk: at least what the file
 * takes, and more than that where it has holes. What it is about to become is claimed before the first byte is written. */
#include "common/base/status.h"
#include "common/store/store_file.h"

#include <inttypes.h>

uint64_t store_file_bytes(uint64_t end)
{
    return (end + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* Locked exclusively, as in all that follows. */
static void count_as(struct store *store, struct object *object, uint64_t bytes)
{
    atomic_fetch_add(&store->used, (int64_t)(bytes - object->counted));
    object->counted = bytes;
}

int object_claim(struct store *store, struct object *object, uint64_t end, struct errmsg *err)
{
    uint64_t bytes = store_file_bytes(end);
    int64_t used, more;

    if (bytes <= object->counted) {
        return 0;
    }
    more = (int64_t)(bytes - object->counted);
    used = atomic_fetch_add(&store->used, more) + more;
    if (used > 0 && (uint64_t)used > atomic_load(&store->limit)) {
        atomic_fetch_sub(&store->used, more);
        errmsg_set(err, "all that is given is used: %" PRIu64 " bytes of %" PRIu64,
                   (uint64_t)(used - more > 0 ? used - more : 0), atomic_load(&store->limit));
        return MORSEL_NOSPC;
    }
    object->counted = bytes;
    return 0;
}

void object_grow_to(struct store *store, struct object *object, uint64_t end)
{
    if (end <= object->end) {
        return;
    }
    object->end = end;
    if (store_file_bytes(end) > object->counted) {
        count_as(store, object, store_file_bytes(end));
    }
}

void object_set_end(struct store *store, struct object *object, uint64_t end)
{
    object->end = end;
    count_as(store, object, object->exists ? store_file_bytes(end) : 0);
}

void store_set_limit(struct store *store, uint64_t bytes)
{
    atomic_store(&store->limit, bytes);
}

uint64_t store_used(const struct store *store)
{
    int64_t used = atomic_load(&store->used);

    return used > 0 ? (uint64_t)used : 0;
}

void store_begin_stock(struct store *store)
{
    atomic_store(&store->used, 0);
}
