/* Intrusive binary min-heap. Pure. Owns only its array of pointers; an element knows its place, so
 * that it can be removed from the middle. Ties come out in no particular order. */
#ifndef MORSEL_COMMON_BASE_HEAP_H
#define MORSEL_COMMON_BASE_HEAP_H

#include "common/base/types.h"

struct heap_node
{
    uint64_t key;
    size_t place; /* Index + 1; 0: in no heap. Zero it before first use. */
};

struct heap
{
    struct heap_node **nodes;
    size_t count, capacity;
};

void heap_init(struct heap *h);
void heap_free(struct heap *h);                   /* The elements stay with their owners. */
struct heap_node *heap_min(const struct heap *h); /* NULL when empty. */

/* Room for so many elements in all: pushing up to there does not fail. False: out of memory. */
bool heap_reserve(struct heap *h, size_t count);

/* `node` must be in no heap. False: out of memory. */
bool heap_push(struct heap *h, struct heap_node *node, uint64_t key);

/* The node goes to its new key. It is in the heap, or there is room for it: never fails. */
void heap_move(struct heap *h, struct heap_node *node, uint64_t key);

/* Harmless for a node that is in no heap. */
void heap_remove(struct heap *h, struct heap_node *node);

#endif
