/* Bulk bytes in memory: counted references to recycled, page-aligned buffers.
 *
 * A payload is received straight into the buffer in which it is used and sent from the buffer in
 * which it lies. Buffers come in sizes of 2^k + one page (k from 12 to 22), so that 1 MiB of data
 * and the head of a FUSE request fit together, and are kept for reuse up to a bound, for fresh
 * pages cost more than the copy into them. Not thread-safe: references are taken and dropped on the
 * loop's thread; a pool thread may use the bytes while the loop holds a reference for it.
 */
#ifndef MORSEL_COMMON_RPC_PAYLOAD_H
#define MORSEL_COMMON_RPC_PAYLOAD_H

#include "common/base/types.h"

struct payload_pool;

struct payload
{
    uint8_t *data;   /* Aligned to 4096. */
    size_t count;    /* Bytes in use, set by the owner. */
    size_t capacity; /* At least what was asked for. */
    uint32_t references;
    uint32_t size_class;
    struct payload_pool *pool;
    struct payload *next_free; /* Inside the pool only. */
};

/* Keeps at most `idle_bytes_max` of unused buffers. NULL: out of memory. */
struct payload_pool *payload_pool_new(size_t idle_bytes_max);

/* Every payload must have been dropped. */
void payload_pool_free(struct payload_pool *pool);

/* With one reference, count == capacity_min, contents undefined. NULL: out of memory, or more than
 * FRAME_PAYLOAD_BYTES_MAX + 4096. */
struct payload *payload_new(struct payload_pool *pool, size_t capacity_min);
struct payload *payload_ref(struct payload *payload);
void payload_drop(struct payload *payload); /* NULL is allowed. */

/* Bytes of all buffers of the pool, in use and idle. */
size_t payload_pool_bytes(const struct payload_pool *pool);

#endif
