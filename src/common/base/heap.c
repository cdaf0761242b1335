/* Sifting up and down; each element is told its new place. */
#include "common/base/heap.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

void heap_init(struct heap *h)
{
    memset(h, 0, sizeof(*h));
}

void heap_free(struct heap *h)
{
    free(h->nodes);
    heap_init(h);
}

struct heap_node *heap_min(const struct heap *h)
{
    return h->count > 0 ? h->nodes[0] : NULL;
}

static void heap_put(struct heap *h, size_t index, struct heap_node *node)
{
    h->nodes[index] = node;
    node->place = index + 1;
}

static void sift_up(struct heap *h, size_t index, struct heap_node *node)
{
    while (index > 0 && h->nodes[(index - 1) / 2]->key > node->key) {
        heap_put(h, index, h->nodes[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    heap_put(h, index, node);
}

static void sift_down(struct heap *h, size_t index, struct heap_node *node)
{
    for (;;) {
        size_t child = 2 * index + 1;

        if (child + 1 < h->count && h->nodes[child + 1]->key < h->nodes[child]->key) {
            child++;
        }
        if (child >= h->count || h->nodes[child]->key >= node->key) {
            break;
        }
        heap_put(h, index, h->nodes[child]);
        index = child;
    }
    heap_put(h, index, node);
}

bool heap_reserve(struct heap *h, size_t count)
{
    size_t capacity = h->capacity > 0 ? h->capacity : 16;
    struct heap_node **nodes;

    if (count <= h->capacity) {
        return true;
    }
    while (capacity < count) {
        capacity *= 2;
    }
    nodes = realloc(h->nodes, capacity * sizeof(struct heap_node *));
    if (nodes == NULL) {
        return false;
    }
    h->nodes = nodes;
    h->capacity = capacity;
    return true;
}

bool heap_push(struct heap *h, struct heap_node *node, uint64_t key)
{
    CHECK(node->place == 0);
    if (!heap_reserve(h, h->count + 1)) {
        return false;
    }
    node->key = key;
    sift_up(h, h->count++, node);
    return true;
}

/* Put `node` where its key belongs, seen from the hole at `index`. */
static void sift(struct heap *h, size_t index, struct heap_node *node)
{
    if (index > 0 && h->nodes[(index - 1) / 2]->key > node->key) {
        sift_up(h, index, node);
    } else {
        sift_down(h, index, node);
    }
}

void heap_move(struct heap *h, struct heap_node *node, uint64_t key)
{
    if (node->place == 0) {
        CHECK(h->count < h->capacity);
        (void)heap_push(h, node, key);
        return;
    }
    CHECK(h->nodes[node->place - 1] == node);
    node->key = key;
    sift(h, node->place - 1, node);
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    size_t index = node->place - 1;
    struct heap_node *last;

    if (node->place == 0) {
        return;
    }
    CHECK(h->nodes[index] == node);
    node->place = 0;
    last = h->nodes[--h->count];
    if (last == node) {
        return;
    }
    sift(h, index, last);
}
