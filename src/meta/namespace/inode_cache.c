/* Sets of four, found by the inode's number. */
#include "meta/namespace/inode_cache.h"

#include "common/base/check.h"

#include <stdlib.h>

enum { WAYS = 4 };

struct inode_set
{
    uint32_t next;           /* The way that gives way next. */
    struct inode ways[WAYS]; /* id INODE_NONE: empty. */
};

struct inode_cache
{
    uint32_t set_count; /* A power of two. */
    struct inode_set sets[];
};

struct inode_cache *inode_cache_new(uint32_t capacity)
{
    struct inode_cache *cache;
    uint32_t set_count = 1;

    while (set_count * WAYS < capacity) {
        set_count *= 2;
    }
    cache = calloc(1, sizeof(*cache) + (size_t)set_count * sizeof(cache->sets[0]));
    if (cache != NULL) {
        cache->set_count = set_count;
    }
    return cache;
}

void inode_cache_free(struct inode_cache *cache)
{
    free(cache);
}

/* Ids are given out one by one: their low bits spread evenly. */
static size_t set_of(const struct inode_cache *cache, inode_id id)
{
    return (size_t)(id & (cache->set_count - 1));
}

const struct inode *inode_cache_get(const struct inode_cache *cache, inode_id id)
{
    const struct inode_set *set = &cache->sets[set_of(cache, id)];

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set->ways[i].id == id) {
            return &set->ways[i];
        }
    }
    return NULL;
}

void inode_cache_put(struct inode_cache *cache, const struct inode *inode)
{
    struct inode_set *set = &cache->sets[set_of(cache, inode->id)];
    uint32_t way = set->next;

    CHECK(inode->id != INODE_NONE);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (set->ways[i].id == inode->id) {
            set->ways[i] = *inode;
            return;
        }
        if (set->ways[i].id == INODE_NONE) {
            way = i;
        }
    }
    set->ways[way] = *inode;
    set->next = (way + 1) % WAYS;
}

void inode_cache_remove(struct inode_cache *cache, inode_id id)
{
    struct inode_set *set = &cache->sets[set_of(cache, id)];

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set->ways[i].id == id) {
            set->ways[i].id = INODE_NONE;
        }
    }
}
