/* How large LevelDB's memory table is, at most.
 *
 * LevelDB does not tell. When the table has reached its size LevelDB begins another one, with a new
 * log, and writes the first out; when that is not done before the other one is full, a write waits.
 * Whoever must not wait has to know before. Its memory comes from blocks of 4 KiB that it cuts up in
 * order; what is larger than a quarter of one has a block of its own.
 *
 * Pure. */
#ifndef MORSEL_META_STORAGE_MEMTABLE_SIZE_H
#define MORSEL_META_STORAGE_MEMTABLE_SIZE_H

#include <stddef.h>
#include <stdint.h>

struct memtable_size
{
    uint64_t bytes; /* What LevelDB compares with its write_buffer_size. */
    size_t rest;    /* Of the newest block. */
};

/* A new one. */
void memtable_size_init(struct memtable_size *m);

/* A put or a delete (without value) is about to be written. */
void memtable_size_add(struct memtable_size *m, size_t key_bytes, size_t value_bytes);

#endif
