/* Watched objects: a bit for each grain that was changed since (watches.h). */
#include "common/store/watches.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = WATCH_BITS / 64 };

static bool is_of(const struct watch *watch, struct object_id id)
{
    return watch->id.inode == id.inode && watch->id.column == id.column;
}

static struct watch *find(const struct watches *w, struct object_id id, uint64_t number)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (is_of(w->all[i], id) && w->all[i]->number == number) {
            return w->all[i];
        }
    }
    return NULL;
}

uint64_t watches_mark(struct object_id id)
{
    return (uint64_t)1 << ((id.inode * UINT64_C(0x9e3779b97f4a7c15) + id.column) >> 32) % 64;
}

uint64_t watches_marks(const struct watches *w)
{
    uint64_t marks = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        marks |= watches_mark(w->all[i]->id);
    }
    return marks;
}

/* Of all, or of that object alone; how many there are. */
static uint32_t find_oldest(const struct watches *w, const struct object_id *id,
                            struct watch **oldest)
{
    uint32_t count = 0;

    *oldest = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        if (id != NULL && !is_of(w->all[i], *id)) {
            continue;
        }
        count++;
        if (*oldest == NULL || w->all[i]->looked < (*oldest)->looked) {
            *oldest = w->all[i];
        }
    }
    return count;
}

/* A place for one more. NULL: out of memory. */
static struct watch *place(struct watches *w, struct object_id id)
{
    struct watch *oldest, *watch;

    if (find_oldest(w, &id, &oldest) >= WATCHES_OBJECT_MAX ||
        find_oldest(w, NULL, &oldest) == WATCHES_MAX) {
        return oldest;
    }
    watch = malloc(sizeof(*watch));
    if (watch != NULL) {
        w->all[w->count++] = watch;
    }
    return watch;
}

bool watches_begin(struct watches *w, struct object_id id, uint64_t number)
{
    struct watch *watch = find(w, id, number);

    if (watch == NULL) {
        watch = place(w, id);
        if (watch == NULL) {
            return false;
        }
        memset(watch, 0, sizeof(*watch));
        watch->id = id;
        watch->number = number;
    }
    watch->looked = ++w->clock;
    return true;
}

static uint64_t grain(const struct watch *watch)
{
    return (uint64_t)WATCH_GRAIN_BYTES << watch->shift;
}

static bool has(const struct watch *watch, uint64_t bit)
{
    return (watch->bits[bit / 64] >> bit % 64 & 1) != 0;
}

static void coarsen(struct watch *watch)
{
    for (uint64_t bit = 0; bit < WATCH_BITS; bit++) {
        uint64_t both = bit < WATCH_BITS / 2 && (has(watch, 2 * bit) || has(watch, 2 * bit + 1));

        watch->bits[bit / 64] =
            (watch->bits[bit / 64] & ~((uint64_t)1 << bit % 64)) | both << bit % 64;
    }
    watch->shift++;
}

static void set_bits(struct watch *watch, uint64_t first, uint64_t last)
{
    for (uint64_t word = first / 64; word <= last / 64; word++) {
        uint64_t from = word == first / 64 ? first % 64 : 0;
        uint64_t to = word == last / 64 ? last % 64 : 63;

        watch->bits[word] |= UINT64_MAX << from & UINT64_MAX >> (63 - to);
    }
}

void watches_note(struct watches *w, struct object_id id, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < w->count && start < end; i++) {
        struct watch *watch = w->all[i];

        if (!is_of(watch, id)) {
            continue;
        }
        while ((end - 1) / grain(watch) >= WATCH_BITS) {
            coarsen(watch);
        }
        set_bits(watch, start / grain(watch), (end - 1) / grain(watch));
    }
}

void watches_drop(struct watches *w, struct object_id id)
{
    for (uint32_t i = 0; i < w->count;) {
        if (is_of(w->all[i], id)) {
            free(w->all[i]);
            w->all[i] = w->all[--w->count];
        } else {
            i++;
        }
    }
}

/* The first grain from `bit` on that is changed, or that is not; WATCH_BITS: there is none. */
static uint64_t next_bit(const struct watch *watch, uint64_t bit, bool changed)
{
    while (bit < WATCH_BITS) {
        uint64_t word = changed ? watch->bits[bit / 64] : ~watch->bits[bit / 64];

        word &= UINT64_MAX << bit % 64;
        if (word != 0) {
            return bit / 64 * 64 + (uint64_t)__builtin_ctzll(word);
        }
        bit = (bit / 64 + 1) * 64;
    }
    return WATCH_BITS;
}

bool watches_changed(struct watches *w, struct object_id id, uint64_t number, uint64_t from,
                     struct watch_stretch *stretches, uint32_t stretches_max, uint32_t *count,
                     uint64_t *next)
{
    struct watch *watch = find(w, id, number);
    uint64_t bit;

    *count = 0;
    *next = UINT64_MAX;
    if (watch == NULL) {
        return false;
    }
    watch->looked = ++w->clock;
    bit = from / grain(watch) < WATCH_BITS ? from / grain(watch) : WATCH_BITS;
    while ((bit = next_bit(watch, bit, true)) < WATCH_BITS) {
        uint64_t end = next_bit(watch, bit, false);

        if (*count == stretches_max) {
            *next = bit * grain(watch);
            return true;
        }
        stretches[(*count)++] = (struct watch_stretch){ bit * grain(watch), end * grain(watch) };
        bit = end;
    }
    return true;
}

void watches_free(struct watches *w)
{
    while (w->count > 0) {
        free(w->all[--w->count]);
    }
}
