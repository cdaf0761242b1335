/* Stretches of objects as ranges of their file (changed_ranges.h). */
#include "client/data/changed_ranges.h"

enum { LOOKS_MAX = 1 << 18 /* At columns, in one call. */ };

/* A server's grain may reach beyond the end of what an object can have. */
#define STRETCH_END_MAX (2 * OBJECT_BYTES_MAX)

bool changed_column_valid(const struct changed_column *column, uint64_t from)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < column->count; i++) {
        const struct exchange_stretch *s = &column->stretches[i];

        if (s->start < at || s->end <= s->start || s->end > STRETCH_END_MAX) {
            return false;
        }
        at = s->end;
    }
    return column->next == UINT64_MAX ||
           (column->next > from && column->next >= at && column->next <= STRETCH_END_MAX);
}

/* Up to where it is known what was changed of the file. */
static uint64_t known_to(const struct stripe *stripe, const struct changed_column *columns)
{
    uint64_t to = UINT64_MAX;

    for (uint32_t c = 0; c < stripe->width; c++) {
        if (columns[c].next != UINT64_MAX) {
            uint64_t here = stripe_file_offset(stripe, c, columns[c].next);

            to = here < to ? here : to;
        }
    }
    return to;
}

/* The first change of the column at or behind that place of the file, up to the border of its stripe. False: there is none. */
static bool next_of(const struct stripe *stripe, const struct changed_column *columns, uint32_t c,
                    uint64_t at, uint32_t *index, struct exchange_stretch *range)
{
    const struct changed_column *column = &columns[c];
    uint64_t object = stripe_object_size(stripe, c, at);
    const struct exchange_stretch *s;

    while (*index < column->count && column->stretches[*index].end <= object) {
        (*index)++;
    }
    if (*index == column->count) {
        return false;
    }
    s = &column->stretches[*index];
    object = s->start > object ? s->start : object;
    range->start = stripe_file_offset(stripe, c, object);
    range->end = range->start + stripe_run_at(stripe, range->start, s->end - object).length;
    return true;
}

static bool next_range(const struct stripe *stripe, const struct changed_column *columns,
                       uint64_t at, uint32_t indexes[STRIPE_WIDTH_MAX],
                       struct exchange_stretch *range)
{
    struct exchange_stretch candidate;
    bool found = false;

    for (uint32_t c = 0; c < stripe->width; c++) {
        if (next_of(stripe, columns, c, at, &indexes[c], &candidate) &&
            (!found || candidate.start < range->start)) {
            *range = candidate;
            found = true;
        }
    }
    return found;
}

uint32_t changed_ranges(const struct stripe *stripe, const struct changed_column *columns,
                        uint64_t from, struct exchange_stretch *ranges, uint32_t ranges_max,
                        uint64_t *next)
{
    uint64_t to = known_to(stripe, columns), at = from;
    uint32_t indexes[STRIPE_WIDTH_MAX] = { 0 }, count = 0, looks = 0;
    struct exchange_stretch range;

    *next = to;
    while (next_range(stripe, columns, at, indexes, &range) && range.start < to) {
        looks += stripe->width;
        if (looks > LOOKS_MAX) {
            *next = range.start;
            break;
        }
        at = range.end = range.end < to ? range.end : to;
        if (count > 0 && ranges[count - 1].end == range.start) {
            ranges[count - 1].end = range.end;
        } else if (count < ranges_max) {
            ranges[count++] = range;
        } else {
            *next = range.start;
            break;
        }
        if (at == to) {
            break;
        }
    }
    return count;
}
