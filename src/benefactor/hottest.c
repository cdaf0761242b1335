/* Counters that are taken over from the lowest. */
#include "benefactor/hottest.h"

#include "common/base/check.h"

void hottest_read(struct hottest *h, uint64_t set, uint32_t morsel)
{
    struct hottest_item *lowest = &h->items[0], *item;

    if (h->reads == UINT32_MAX) {
        return; /* Nobody has asked for so long; counts are to fit. */
    }
    h->reads++;
    for (uint32_t i = 0; i < h->item_count; i++) {
        item = &h->items[i];
        if (item->set == set && item->morsel == morsel) {
            item->count++;
            return;
        }
        lowest = item->count < lowest->count ? item : lowest;
    }
    if (h->item_count < HOTTEST_MAX) {
        h->items[h->item_count++] = (struct hottest_item){ set, morsel, 1, 0 };
    } else {
        *lowest = (struct hottest_item){ set, morsel, lowest->count + 1, lowest->count };
    }
}

uint32_t hottest_take(struct hottest *h, struct hottest_item *out)
{
    uint32_t count = h->item_count;

    for (uint32_t i = 0; i < count; i++) {
        out[i] = h->items[i];
        out[i].count -= out[i].error;
    }
    h->item_count = 0;
    h->reads = 0;
    return count;
}

void hottest_check(const struct hottest *h)
{
    uint64_t all = 0;

    CHECK(h->item_count <= HOTTEST_MAX);
    for (uint32_t i = 0; i < h->item_count; i++) {
        all += h->items[i].count;
        CHECK(h->items[i].error < h->items[i].count);
        for (uint32_t j = 0; j < i; j++) {
            CHECK(h->items[i].set != h->items[j].set || h->items[i].morsel != h->items[j].morsel);
        }
    }
    CHECK(all == h->reads);
}
