/* An array of sets with their last accesses. */
#include "meta/datasets/lru_k.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16 };

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

bool lru_k_choose(const struct lru_k *l, bool (*may_go)(void *data, uint64_t set), void *data,
                  uint64_t *set)
{
    const struct lru_k_set *best = NULL;

    for (uint32_t i = 0; i < l->count; i++) {
        const struct lru_k_set *item = &l->items[i];

        if ((best == NULL || lru_k_goes_before(l->k, &item->uses, &best->uses)) &&
            may_go(data, item->set)) {
            best = item;
        }
    }
    if (best != NULL) {
        *set = best->set;
    }
    return best != NULL;
}

/* ---- What is known ---- */

static void take_out(struct lru_k *l, uint32_t at)
{
    memmove(&l->items[at], &l->items[at + 1], (l->count - at - 1) * sizeof(l->items[0]));
    l->count--;
}

/* The one that would go last is left out. */
static void leave_one_out(struct lru_k *l)
{
    uint32_t last = 0;

    for (uint32_t i = 1; i < l->count; i++) {
        if (lru_k_goes_before(l->k, &l->items[last].uses, &l->items[i].uses)) {
            last = i;
        }
    }
    take_out(l, last);
    l->left_out = true;
}

/* NULL: no memory. */
static struct lru_k_set *make(struct lru_k *l, uint64_t set)
{
    uint32_t at;

    if (l->count == l->room) {
        /* One more than are kept: which one is left out is seen when the new one has its uses. */
        uint32_t room = l->room == 0 ? ROOM_MIN : l->room * 2;
        struct lru_k_set *items;

        room = room <= LRU_K_SETS_MAX ? room : LRU_K_SETS_MAX + 1;
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
    if (l->count > LRU_K_SETS_MAX) {
        leave_one_out(l);
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

bool lru_k_wants_more(struct lru_k *l)
{
    bool wants = l->left_out && l->count <= LRU_K_SETS_MAX / 2;

    l->left_out = l->left_out && !wants;
    return wants;
}

void lru_k_check(const struct lru_k *l)
{
    CHECK(l->count <= l->room && l->count <= LRU_K_SETS_MAX);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct lru_k_uses *uses = &l->items[i].uses;

        CHECK(i == 0 || l->items[i - 1].set < l->items[i].set);
        CHECK(uses->count <= LRU_K_MAX);
        for (uint32_t j = 0; j < uses->count; j++) {
            CHECK(uses->times_ns[j] <= (j == 0 ? uses->last_ns : uses->times_ns[j - 1]));
        }
    }
}
