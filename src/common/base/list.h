/* Intrusive doubly linked list with a sentinel. Pure; owns nothing. */
#ifndef MORSEL_COMMON_BASE_LIST_H
#define MORSEL_COMMON_BASE_LIST_H

#include "common/base/check.h"

#include <stdbool.h>
#include <stddef.h>

struct list
{
    struct list *next, *prev; /* A node that is in no list points to itself. */
};

static inline void list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_push_back(struct list *l, struct list *node)
{
    CHECK(list_empty(node));
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

static inline void list_push_front(struct list *l, struct list *node)
{
    list_push_back(l->next, node);
}

/* Harmless for a node that is in no list. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline struct list *list_front(const struct list *l)
{
    return list_empty(l) ? NULL : l->next;
}

static inline struct list *list_pop_front(struct list *l)
{
    struct list *node = list_front(l);

    if (node != NULL) {
        list_remove(node);
    }
    return node;
}

#define LIST_FOREACH(node, l) for (struct list *node = (l)->next; node != (l); node = node->next)

/* The body may remove `node`. */
#define LIST_FOREACH_SAFE(node, l)                                                                 \
    for (struct list *node = (l)->next, *node##_next = node->next; node != (l);                    \
         node = node##_next, node##_next = node->next)

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

#endif
