/* Order, pages and stretches of morsels. */
#include "benefactor/held.h"

#include <stdlib.h>
#include <string.h>

static int compare_ids(const void *a, const void *b)
{
    const struct object_id *x = a, *y = b;

    if (x->inode != y->inode) {
        return x->inode < y->inode ? -1 : 1;
    }
    return (x->column > y->column) - (x->column < y->column);
}

void held_take(struct held *held, struct object_id *ids, size_t count)
{
    *held = (struct held){ .ids = ids, .count = count };
    if (count > 0) {
        qsort(ids, count, sizeof(*ids), compare_ids);
    }
}

/* Right behind it in the order. */
static struct object_id behind(struct object_id id)
{
    return id.column < UINT32_MAX ? (struct object_id){ id.inode, id.column + 1 }
                                  : (struct object_id){ id.inode + 1, 0 };
}

void held_page(const struct held *held, struct held_page *page)
{
    size_t at = held->next;
    struct morsel_run *run = NULL;

    page->begins = at == 0;
    page->from = page->begins ? (struct object_id){ 0, 0 } : behind(held->ids[at - 1]);
    page->runs_count = 0;
    for (; at < held->count && at - held->next < SET_HELD_MAX; at++) {
        struct object_id id = held->ids[at];

        if (run != NULL && run->set == id.inode && (uint64_t)run->first + run->count == id.column) {
            run->count++;
            continue;
        }
        if (page->runs_count == SET_RUNS_MAX) {
            break;
        }
        run = &page->runs[page->runs_count++];
        *run = (struct morsel_run){ .set = id.inode, .first = id.column, .count = 1 };
    }
    page->end = at;
    page->last = at == held->count;
}

void held_told(struct held *held, const struct held_page *page)
{
    held->next = page->end;
    held->over = page->last;
}

void held_again(struct held *held)
{
    held->next = 0;
    held->over = false;
}

void held_free(struct held *held)
{
    free(held->ids);
    *held = (struct held){ .ids = NULL };
}

static int compare_runs(const void *a, const void *b)
{
    const struct morsel_run *x = a, *y = b;

    if (x->set != y->set) {
        return x->set < y->set ? -1 : 1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

/* Behind its last morsel. */
static uint64_t end_of(const struct morsel_run *run)
{
    return (uint64_t)run->first + run->count;
}

/* Numbers end at 2^32 - 1, whatever a message says. */
static void cut_at_the_last_number(struct morsel_run *run)
{
    if (end_of(run) > UINT64_C(1) << 32) {
        run->count = UINT32_MAX - run->first + 1;
    }
}

size_t runs_join(struct morsel_run *runs, size_t count)
{
    size_t joined = 0;

    if (count > 0) {
        qsort(runs, count, sizeof(*runs), compare_runs);
    }
    for (size_t i = 0; i < count; i++) {
        struct morsel_run *last = joined > 0 ? &runs[joined - 1] : NULL;

        cut_at_the_last_number(&runs[i]);
        if (runs[i].count == 0) {
            continue;
        }
        if (last != NULL && last->set == runs[i].set && runs[i].first <= end_of(last)) {
            uint64_t end = end_of(&runs[i]) > end_of(last) ? end_of(&runs[i]) : end_of(last);

            last->count =
                end - last->first > UINT32_MAX ? UINT32_MAX : (uint32_t)(end - last->first);
            continue;
        }
        runs[joined++] = runs[i];
    }
    return joined;
}

bool runs_have(const struct morsel_run *runs, size_t count, struct object_id morsel)
{
    size_t
        low = 0,
        high =
            count; /* Those before `low` begin at or before it, those from `high` on behind it. */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct morsel_run *run = &runs[middle];

        if (run->set < morsel.inode || (run->set == morsel.inode && run->first <= morsel.column)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && runs[low - 1].set == morsel.inode &&
           morsel.column - runs[low - 1].first < runs[low - 1].count;
}

uint64_t runs_sum(const struct morsel_run *runs, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        sum += runs[i].count;
    }
    return sum;
}
