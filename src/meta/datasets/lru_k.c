/* An array of sets with their last accesses. */
#include "meta/datasets/lru_k.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16, ROOM_MAX = LRU_K_SETS_MAX + LRU_K_SPARE + 1 };

void lru_k_init(struct lru_k *l, uint32_t k, int64_t burst_ns)
{
    CHECK(k >= 1 && k <= LRU_K_MAX && burst_ns >= 0);
    *l = (struct lru_k){ .k = k, .burst_ns = burst_ns };
}

void lru_k_free(struct lru_k *l)
{
    free(l->items);
    l->items = NULL;
    l->room = l->count = 0;
}

/* Its place, or where it would be. */
static uint32_t place(const struct lru_k *l, uint64_t set)
{
    uint32_t low = 0, high = l->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (l->items[middle].set < set) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct lru_k_set *find(const struct lru_k *l, uint64_t set)
{
    uint32_t at = place(l, set);

    return at < l->count && l->items[at].set == set ? &l->items[at] : NULL;
}

const struct lru_k_uses *lru_k_find(const struct lru_k *l, uint64_t set)
{
    const struct lru_k_set *item = find(l, set);

    return item != NULL ? &item->uses : NULL;
}

/* ---- Which goes first ---- */

bool lru_k_goes_before(uint32_t k, const struct lru_k_uses *a, const struct lru_k_uses *b)
{
    bool far_a = a->count < k, far_b = b->count < k;

    if (far_a || far_b) {
        return far_a && (!far_b || a->last_ns < b->last_ns);
    }
    return a->times_ns[k - 1] != b->times_ns[k - 1] ? a->times_ns[k - 1] < b->times_ns[k - 1]
                                                    : a->last_ns < b->last_ns;
}

/* The order of all, with none equal. */
static bool goes_before(const struct lru_k *l, const struct lru_k_set *a, const struct lru_k_set *b)
{
    return lru_k_goes_before(l->k, &a->uses, &b->uses) ||
           (!lru_k_goes_before(l->k, &b->uses, &a->uses) && a->set < b->set);
}

uint32_t lru_k_choose_some(const struct lru_k *l, bool (*may_go)(void *data, uint64_t set),
                           void *data, uint64_t *chosen, uint32_t max)
{
    const struct lru_k_set *best[LRU_K_CHOSEN_MAX];
    uint32_t count = 0, at;

    CHECK(max >= 1 && max <= LRU_K_CHOSEN_MAX);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct lru_k_set *item = &l->items[i];

        if ((count == max && !goes_before(l, item, best[max - 1])) || !may_go(data, item->set)) {
            continue;
        }
        at = count < max ? count++ : max - 1;
        for (; at > 0 && goes_before(l, item, best[at - 1]); at--) {
            best[at] = best[at - 1];
        }
        best[at] = item;
    }
    for (uint32_t i = 0; i < count; i++) {
        chosen[i] = best[i]->set;
    }
    return count;
}

bool lru_k_choose(const struct lru_k *l, bool (*may_go)(void *data, uint64_t set), void *data,
                  uint64_t *set)
{
    return lru_k_choose_some(l, may_go, data, set, 1) == 1;
}

/* ---- What is known ---- */

static void take_out(struct lru_k *l, uint32_t at)
{
    memmove(&l->items[at], &l->items[at + 1], (l->count - at - 1) * sizeof(l->items[0]));
    l->count--;
}

static int by_number(const void *a, const void *b)
{
    const struct lru_k_set *x = a, *y = b;

    return x->set < y->set ? -1 : x->set > y->set;
}

static void swap(struct lru_k *l, uint32_t a, uint32_t b)
{
    struct lru_k_set item = l->items[a];

    l->items[a] = l->items[b];
    l->items[b] = item;
}

/* A heap of the first `count`: each goes behind the two below it, so the first one goes last. */
static void sink(struct lru_k *l, uint32_t at, uint32_t count)
{
    for (uint32_t below = 2 * at + 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && goes_before(l, &l->items[below], &l->items[below + 1])) {
            below++;
        }
        if (!goes_before(l, &l->items[at], &l->items[below])) {
            return;
        }
        swap(l, at, below);
        at = below;
    }
}

/* Those that would go last are left out. */
static void leave_out(struct lru_k *l)
{
    for (uint32_t i = LRU_K_SETS_MAX / 2; i-- > 0;) {
        sink(l, i, LRU_K_SETS_MAX);
    }
    for (uint32_t i = LRU_K_SETS_MAX; i < l->count; i++) {
        if (goes_before(l, &l->items[i], &l->items[0])) {
            l->items[0] = l->items[i];
            sink(l, 0, LRU_K_SETS_MAX);
        }
    }
    l->count = LRU_K_SETS_MAX;
    qsort(l->items, l->count, sizeof(l->items[0]), by_number);
    l->left_out = true;
}

/* NULL: no memory. */
static struct lru_k_set *make(struct lru_k *l, uint64_t set)
{
    uint32_t at;

    if (l->count == l->room) {
        /* One more than are kept: which are left out is seen when the new one has its uses. */
        uint32_t room = l->room == 0 ? ROOM_MIN : l->room * 2;
        struct lru_k_set *items;

        room = room <= ROOM_MAX ? room : ROOM_MAX;
        if ((items = realloc(l->items, room * sizeof(*items))) == NULL) {
            return NULL;
        }
        l->items = items;
        l->room = room;
    }
    at = place(l, set);
    memmove(&l->items[at + 1], &l->items[at], (l->count - at) * sizeof(l->items[0]));
    l->items[at] = (struct lru_k_set){ .set = set };
    l->count++;
    return &l->items[at];
}

static void keep_bound(struct lru_k *l)
{
    if (l->count > LRU_K_SETS_MAX + LRU_K_SPARE) {
        leave_out(l);
    }
}

int lru_k_put(struct lru_k *l, uint64_t set, const struct lru_k_uses *uses)
{
    struct lru_k_set *item = find(l, set);

    CHECK(uses->count <= LRU_K_MAX);
    if (item == NULL && (item = make(l, set)) == NULL) {
        return MORSEL_NOMEM;
    }
    item->uses = *uses;
    item->mount = 0;
    keep_bound(l);
    return 0;
}

static void count_use(struct lru_k_uses *uses, int64_t now_ns)
{
    uint32_t kept = uses->count < LRU_K_MAX ? uses->count : LRU_K_MAX - 1;

    memmove(&uses->times_ns[1], &uses->times_ns[0], kept * sizeof(uses->times_ns[0]));
    uses->times_ns[0] = now_ns;
    uses->count = kept + 1;
}

/* A clock that was put back must not make times ascend. */
static int64_t not_before(const struct lru_k_uses *uses, int64_t now_ns)
{
    return uses->count > 0 && now_ns < uses->last_ns ? uses->last_ns : now_ns;
}

int lru_k_use(struct lru_k *l, uint64_t set, uint64_t mount, int64_t now_ns)
{
    struct lru_k_set *item = find(l, set);

    if (item == NULL && (item = make(l, set)) == NULL) {
        return MORSEL_NOMEM;
    }
    now_ns = not_before(&item->uses, now_ns);
    if (item->uses.count == 0 || item->mount != mount ||
        now_ns - item->uses.times_ns[0] > l->burst_ns) {
        count_use(&item->uses, now_ns);
    }
    item->uses.last_ns = now_ns;
    item->mount = mount;
    keep_bound(l);
    return 0;
}

void lru_k_drop(struct lru_k *l, uint64_t set)
{
    uint32_t at = place(l, set);

    if (at < l->count && l->items[at].set == set) {
        take_out(l, at);
    }
}

void lru_k_retain(struct lru_k *l, bool (*keeps)(void *data, uint64_t set), void *data)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < l->count; i++) {
        if (keeps(data, l->items[i].set)) {
            l->items[kept++] = l->items[i];
        }
    }
    l->count = kept;
}

const struct lru_k_set *lru_k_next(const struct lru_k *l, uint64_t from)
{
    uint32_t at = place(l, from);

    return at < l->count ? &l->items[at] : NULL;
}

bool lru_k_wants_more(struct lru_k *l)
{
    bool wants = l->left_out && l->count <= LRU_K_SETS_MAX / 2;

    l->left_out = l->left_out && !wants;
    return wants;
}

void lru_k_check(const struct lru_k *l)
{
    CHECK(l->count <= l->room && l->count <= LRU_K_SETS_MAX + LRU_K_SPARE);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct lru_k_uses *uses = &l->items[i].uses;

        CHECK(i == 0 || l->items[i - 1].set < l->items[i].set);
        CHECK(uses->count <= LRU_K_MAX);
        for (uint32_t j = 0; j < uses->count; j++) {
            CHECK(uses->times_ns[j] <= (j == 0 ? uses->last_ns : uses->times_ns[j - 1]));
        }
    }
}
