/* A table like a processor's cache, in which each morsel has one place of sixteen. */
#include "meta/datasets/heat.h"

#include "common/base/check.h"

#include <string.h>

enum {
    STEP_MS = HEAT_HALF_MS / HEAT_STEPS,
    LEFT = 60097, /* Of 65536 behind each step: 2^(-1/8). */
    LEFT_BITS = 16,
    LEAST = HEAT_ONE / 8,       /* What is less is nothing. */
    STEPS_MAX = HEAT_STEPS * 64 /* Behind so many nothing is left of anything. */
};

/* 2^30 accesses: so sums of all that is known, in thousandths, fit. */
static const uint64_t reads_max = (uint64_t)1 << 38;

void heat_init(struct heat *h, uint64_t now_ms)
{
    memset(h, 0, sizeof(*h));
    h->aged_ms = h->ranked_ms = now_ms;
}

/* Neighbours in a set lie in buckets of their own (the multiplier is that of Knuth's multiplicative hashing). */
static uint32_t bucket_of(uint64_t set, uint32_t morsel)
{
    return (uint32_t)(((set * 0x9e3779b97f4a7c15U) >> 32) + morsel) % HEAT_BUCKETS;
}

static void age_once(struct heat *h)
{
    for (uint32_t b = 0; b < HEAT_BUCKETS; b++) {
        for (uint32_t w = 0; w < HEAT_WAYS; w++) {
            struct heat_item *item = &h->items[b][w];

            item->reads = item->reads * LEFT >> LEFT_BITS;
            item->reads = item->reads < LEAST ? 0 : item->reads;
        }
    }
}

static void age(struct heat *h, uint64_t now_ms)
{
    if (now_ms - h->aged_ms >= (uint64_t)STEPS_MAX * STEP_MS) {
        memset(h->items, 0, sizeof(h->items));
        h->aged_ms = now_ms;
    }
    for (; now_ms - h->aged_ms >= STEP_MS; h->aged_ms += STEP_MS) {
        age_once(h);
    }
}

static const struct heat_item *find(const struct heat *h, uint64_t set, uint32_t morsel)
{
    const struct heat_item *bucket = h->items[bucket_of(set, morsel)];

    for (uint32_t w = 0; w < HEAT_WAYS; w++) {
        if (bucket[w].reads > 0 && bucket[w].set == set && bucket[w].morsel == morsel) {
            return &bucket[w];
        }
    }
    return NULL;
}

/* Its own place, or the coldest of its bucket; a free one is colder than any. */
static struct heat_item *place(struct heat *h, uint64_t set, uint32_t morsel)
{
    struct heat_item *bucket = h->items[bucket_of(set, morsel)], *best = bucket;

    for (uint32_t w = 0; w < HEAT_WAYS; w++) {
        if (bucket[w].reads > 0 && bucket[w].set == set && bucket[w].morsel == morsel) {
            return &bucket[w];
        }
        best = bucket[w].reads < best->reads ? &bucket[w] : best;
    }
    return best;
}

void heat_add(struct heat *h, uint64_t set, uint32_t morsel, uint32_t reads, uint64_t now_ms)
{
    uint64_t more = (uint64_t)reads * HEAT_ONE;
    struct heat_item *item;

    more = more < reads_max ? more : reads_max;
    age(h, now_ms);
    item = place(h, set, morsel);
    if (item->reads > 0 && item->set == set && item->morsel == morsel) {
        item->reads = item->reads + more < reads_max ? item->reads + more : reads_max;
    } else if (more > item->reads) {
        *item = (struct heat_item){ .set = set, .morsel = morsel, .reads = more };
    }
}

uint64_t heat_reads(const struct heat *h, uint64_t set, uint32_t morsel)
{
    const struct heat_item *item = find(h, set, morsel);

    return item != NULL ? item->reads : 0;
}

/* Into its place among those that were ranked so far, if it has one. */
static void rank_one(struct heat *h, const struct heat_hot *hot)
{
    uint32_t at = h->hot_count;

    if (at == HEAT_HOT_MAX && h->hot[at - 1].heat >= hot->heat) {
        return;
    }
    at -= at == HEAT_HOT_MAX;
    for (; at > 0 && h->hot[at - 1].heat < hot->heat; at--) {
        h->hot[at] = h->hot[at - 1];
    }
    h->hot[at] = *hot;
    h->hot_count += h->hot_count < HEAT_HOT_MAX;
}

void heat_rank(struct heat *h, const struct sets *sets, uint64_t now_ms)
{
    age(h, now_ms);
    h->hot_count = 0;
    h->ranked_ms = now_ms;
    for (uint32_t b = 0; b < HEAT_BUCKETS; b++) {
        for (uint32_t w = 0; w < HEAT_WAYS; w++) {
            struct heat_item *item = &h->items[b][w];
            const struct data_set *set = item->reads > 0 ? sets_find(sets, item->set) : NULL;
            struct set_morsel m;

            if (set == NULL || !set_get(set, item->morsel, &m) || m.donor_count == 0) {
                item->reads = 0;
                continue;
            }
            rank_one(h, &(struct heat_hot){ item->set, item->reads / m.donor_count, item->morsel });
        }
    }
}

bool heat_is_hot(const struct heat *h, uint64_t set, uint32_t morsel)
{
    for (uint32_t i = 0; h != NULL && i < h->hot_count; i++) {
        if (h->hot[i].set == set && h->hot[i].morsel == morsel) {
            return true;
        }
    }
    return false;
}

void heat_sum(const struct heat *h, const uint64_t *sets, uint64_t *sums, uint32_t count)
{
    memset(sums, 0, count * sizeof(*sums));
    for (uint32_t i = 0; i < HEAT_BUCKETS * HEAT_WAYS; i++) {
        const struct heat_item *item = &h->items[i / HEAT_WAYS][i % HEAT_WAYS];
        uint32_t low = 0, high = item->reads > 0 ? count : 0;

        while (low < high) {
            uint32_t middle = low + (high - low) / 2;

            if (sets[middle] < item->set) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (item->reads > 0 && low < count && sets[low] == item->set) {
            sums[low] += item->reads;
        }
    }
}

void heat_check(const struct heat *h)
{
    for (uint32_t b = 0; b < HEAT_BUCKETS; b++) {
        for (uint32_t w = 0; w < HEAT_WAYS; w++) {
            const struct heat_item *item = &h->items[b][w];

            CHECK(item->reads == 0 || (bucket_of(item->set, item->morsel) == b &&
                                       find(h, item->set, item->morsel) == item));
            CHECK(item->reads <= reads_max);
        }
    }
    CHECK(h->hot_count <= HEAT_HOT_MAX);
    for (uint32_t i = 1; i < h->hot_count; i++) {
        CHECK(h->hot[i - 1].heat >= h->hot[i].heat);
    }
}
