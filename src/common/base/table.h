/* uthash with a hash of our own: keys are made of 64-bit words. Pure. */
#ifndef MORSEL_COMMON_BASE_TABLE_H
#define MORSEL_COMMON_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline unsigned table_hash(const void *key, size_t bytes)
{
    uint64_t h = bytes, word;

    for (size_t at = 0; at < bytes; at += sizeof(word)) {
        word = 0;
        memcpy(&word, (const char *)key + at,
               bytes - at < sizeof(word) ? bytes - at : sizeof(word));
        h = (h ^ word) * 0x9e3779b97f4a7c15U;
        h ^= h >> 32;
    }
    return (unsigned)h;
}

#define HASH_FUNCTION(key, bytes, hash) ((hash) = table_hash(key, bytes))

/* Without memory HASH_ADD() adds nothing, instead of ending the process. */
#define HASH_NONFATAL_OOM 1

#include <uthash.h>

/* Has the HASH_ADD() of the element, with handle hh, had the memory that it needs? */
#define TABLE_ADDED(element) ((element)->hh.tbl != NULL)

#endif
