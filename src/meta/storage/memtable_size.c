/* An allocator that only counts. */
#include "meta/storage/memtable_size.h"

enum {
    BLOCK = 4096,
    OWN_BLOCK = BLOCK / 4, /* What is larger has one. */
    LINK = 8,              /* Blocks are in a list. */
    NUMBER = 8,            /* Of a record in the order of writing, behind its key. */
    LENGTHS = 2 * 5,       /* Of key and value, at most. */
    NODE =
        24 /* Of the skip list: its height is drawn, a quarter of the nodes has one more; 19 bytes in the mean. */
};

void memtable_size_init(struct memtable_size *m)
{
    *m = (struct memtable_size){ 0 };
}

static void take(struct memtable_size *m, size_t bytes)
{
    if (bytes <= m->rest) {
        m->rest -= bytes;
    } else if (bytes > OWN_BLOCK) {
        m->bytes += bytes + LINK;
    } else {
        m->bytes += BLOCK + LINK;
        m->rest = BLOCK - bytes;
    }
}

void memtable_size_add(struct memtable_size *m, size_t key_bytes, size_t value_bytes)
{
    take(m, LENGTHS + key_bytes + NUMBER + value_bytes);
    take(m, NODE + LINK); /* Where a multiple of eight begins. */
}
