/* A table of those that are not sealed, and a heap of when they are looked at. */
#include "meta/datasets/unfinished.h"

#include "common/base/check.h"

#include <stdlib.h>

enum unfinished_fate unfinished_fate(const struct data_set *set, uint64_t size)
{
    const struct set_head *head = &set->head;

    if (head->sealed) {
        return UNFINISHED_NOTHING;
    }
    if (set->morsels == 0 && size == 0) {
        return head->reserved != 0 && !head->has_origin && !head->pinned ? UNFINISHED_CANCEL
                                                                         : UNFINISHED_NOTHING;
    }
    return head->pinned       ? UNFINISHED_STAYS
           : head->has_origin ? UNFINISHED_RESTART
           : head->scratch    ? UNFINISHED_EMPTY
                              : UNFINISHED_STAYS;
}

void unfinished_init(struct unfinished *u)
{
    *u = (struct unfinished){ .by_number = NULL };
    heap_init(&u->due);
}

static struct unfinished_set *find(const struct unfinished *u, uint64_t number)
{
    struct unfinished_set *item;

    HASH_FIND(hh, u->by_number, &number, sizeof(number), item);
    return item;
}

/* ---- Who is not sealed ---- */

static uint64_t key_of(int64_t at_ns)
{
    return at_ns > 0 ? (uint64_t)at_ns : 0;
}

static void add(struct unfinished *u, uint64_t number, int64_t due_ns)
{
    struct unfinished_set *item = calloc(1, sizeof(*item));

    if (item == NULL) {
        return;
    }
    item->number = number;
    if (!heap_reserve(&u->due, (size_t)u->count + 1)) {
        free(item);
        return;
    }
    HASH_ADD(hh, u->by_number, number, sizeof(item->number), item);
    if (!TABLE_ADDED(item)) {
        free(item);
        return;
    }
    CHECK(heap_push(&u->due, &item->due, key_of(due_ns)));
    u->count++;
}

static int64_t later(int64_t from_ns, int64_t patience_ns)
{
    return from_ns > INT64_MAX - patience_ns ? INT64_MAX : from_ns + patience_ns;
}

void unfinished_learn(struct unfinished *u, const struct sets *sets, uint32_t looks,
                      int64_t patience_ns, int64_t earliest_ns)
{
    uint32_t at = sets_from(sets, u->from);

    for (; looks > 0 && at < sets->count && u->count < UNFINISHED_MAX; looks--, at++) {
        const struct set_head *head = &sets->items[at]->head;

        if (!head->sealed && find(u, head->number) == NULL) {
            int64_t due_ns = later(head->made_ns, patience_ns);

            add(u, head->number, due_ns > earliest_ns ? due_ns : earliest_ns);
        }
    }
    u->from = at < sets->count ? sets->items[at]->head.number : 0;
}

/* ---- Whose time has come ---- */

uint64_t unfinished_next(const struct unfinished *u, int64_t now_ns)
{
    struct heap_node *first = heap_min(&u->due);

    return first != NULL && first->key <= key_of(now_ns)
               ? CONTAINER_OF(first, struct unfinished_set, due)->number
               : 0;
}

void unfinished_tell(struct unfinished *u, uint64_t number, int64_t quiet_ns, int64_t at_ns)
{
    struct unfinished_set *item = find(u, number);

    CHECK(item != NULL);
    u->told += (quiet_ns != 0) - (item->quiet_ns != 0);
    item->quiet_ns = quiet_ns;
    heap_move(&u->due, &item->due, key_of(at_ns));
}

void unfinished_again(struct unfinished *u, uint64_t number, int64_t at_ns)
{
    unfinished_tell(u, number, 0, at_ns);
}

static void drop(struct unfinished *u, struct unfinished_set *item)
{
    u->told -= item->quiet_ns != 0;
    u->count--;
    heap_remove(&u->due, &item->due);
    HASH_DELETE(hh, u->by_number, item);
    free(item);
}

void unfinished_forget(struct unfinished *u, uint64_t number)
{
    struct unfinished_set *item = find(u, number);

    CHECK(item != NULL);
    drop(u, item);
}

void unfinished_free(struct unfinished *u)
{
    struct unfinished_set *item, *after;

    HASH_ITER(hh, u->by_number, item, after)
    {
        drop(u, item);
    }
    heap_free(&u->due);
}

int64_t unfinished_quiet_ns(const struct unfinished *u, uint64_t number)
{
    const struct unfinished_set *item = find(u, number);

    return item != NULL ? item->quiet_ns : 0;
}

void unfinished_check(const struct unfinished *u)
{
    const struct unfinished_set *item;
    uint32_t count = 0, told = 0;

    for (item = u->by_number; item != NULL; item = item->hh.next) {
        CHECK(item->number != 0 && item->due.place > 0);
        count++;
        told += item->quiet_ns != 0;
    }
    CHECK(count == u->count && told == u->told && u->due.count == count);
    CHECK(count <= UNFINISHED_MAX);
}
