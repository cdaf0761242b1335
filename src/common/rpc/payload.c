/* Reference counts, and a pool of buffers that are used again. */
#include "common/rpc/payload.h"

#include "common/base/check.h"
#include "common/base/limits.h"

#include <stdlib.h>

enum {
    CLASS_SHIFT_MIN = 12,
    CLASS_SHIFT_MAX = 22,
    CLASSES = CLASS_SHIFT_MAX - CLASS_SHIFT_MIN + 1
};
static_assert(FRAME_PAYLOAD_BYTES_MAX == 1 << CLASS_SHIFT_MAX, "the largest payload has a class");

struct payload_pool
{
    struct payload *idle[CLASSES];
    size_t idle_bytes;
    size_t idle_bytes_max;
    size_t bytes;
    size_t live; /* Payloads with references. */
};

static size_t class_bytes(uint32_t size_class)
{
    return ((size_t)1 << (CLASS_SHIFT_MIN + size_class)) + BLOCK_BYTES;
}

struct payload_pool *payload_pool_new(size_t idle_bytes_max)
{
    struct payload_pool *pool = calloc(1, sizeof(*pool));

    if (pool != NULL) {
        pool->idle_bytes_max = idle_bytes_max;
    }
    return pool;
}

static void payload_release(struct payload_pool *pool, struct payload *payload)
{
    pool->bytes -= payload->capacity;
    free(payload->data);
    free(payload);
}

void payload_pool_free(struct payload_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    CHECK(pool->live == 0);
    for (uint32_t i = 0; i < CLASSES; i++) {
        while (pool->idle[i] != NULL) {
            struct payload *payload = pool->idle[i];

            pool->idle[i] = payload->next_free;
            payload_release(pool, payload);
        }
    }
    CHECK(pool->bytes == 0);
    free(pool);
}

static struct payload *payload_make(struct payload_pool *pool, uint32_t size_class)
{
    struct payload *payload = calloc(1, sizeof(*payload));

    if (payload == NULL) {
        return NULL;
    }
    payload->capacity = class_bytes(size_class);
    payload->data = aligned_alloc(BLOCK_BYTES, payload->capacity);
    if (payload->data == NULL) {
        free(payload);
        return NULL;
    }
    payload->size_class = size_class;
    payload->pool = pool;
    pool->bytes += payload->capacity;
    return payload;
}

struct payload *payload_new(struct payload_pool *pool, size_t capacity_min)
{
    struct payload *payload;
    uint32_t size_class = 0;

    while (size_class < CLASSES && class_bytes(size_class) < capacity_min) {
        size_class++;
    }
    if (size_class == CLASSES) {
        return NULL;
    }
    payload = pool->idle[size_class];
    if (payload != NULL) {
        pool->idle[size_class] = payload->next_free;
        pool->idle_bytes -= payload->capacity;
    } else if ((payload = payload_make(pool, size_class)) == NULL) {
        return NULL;
    }
    payload->count = capacity_min;
    payload->references = 1;
    payload->next_free = NULL;
    pool->live++;
    return payload;
}

struct payload *payload_ref(struct payload *payload)
{
    CHECK(payload->references > 0);
    payload->references++;
    return payload;
}

void payload_drop(struct payload *payload)
{
    struct payload_pool *pool;

    if (payload == NULL) {
        return;
    }
    CHECK(payload->references > 0);
    if (--payload->references > 0) {
        return;
    }
    pool = payload->pool;
    pool->live--;
    if (pool->idle_bytes + payload->capacity > pool->idle_bytes_max) {
        payload_release(pool, payload);
        return;
    }
    payload->next_free = pool->idle[payload->size_class];
    pool->idle[payload->size_class] = payload;
    pool->idle_bytes += payload->capacity;
}

size_t payload_pool_bytes(const struct payload_pool *pool)
{
    return pool->bytes;
}
