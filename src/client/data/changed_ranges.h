/* Which ranges of a striped file were changed, from what the servers say of its objects (WATCH, data.proto).
 *
 * Pure. Stripes are dealt in turn (common/fs/stripe.h), so neighbouring ranges of the file are of different objects: the next range
 * is the least of those that come next in each, and is joined with the one before where they meet. Of an object whose server has
 * more to say nothing is known behind what it has said, and so of the file nothing behind the first such place. */
#ifndef MORSEL_CLIENT_DATA_CHANGED_RANGES_H
#define MORSEL_CLIENT_DATA_CHANGED_RANGES_H

#include "common/base/limits.h"
#include "common/fs/exchange.h"
#include "common/fs/stripe.h"

/* What the server of a column has said. */
struct changed_column
{
    uint32_t count;
    uint64_t next; /* Up to there, in the object; UINT64_MAX: all of it. */
    struct exchange_stretch
        stretches[WATCH_REPLY_MAX]; /* Of the object, in their order, apart from each other. */
};

/* Is that what a server can say, of an object of which it was asked from `from` on? */
bool changed_column_valid(const struct changed_column *column, uint64_t from);

/* Ranges of the file from `from` on that were changed, in their order, `ranges_max` at most (1 at least), and of so many stripes as take
 * some milliseconds to look at. `columns` are as many as the stripe is wide, and valid. `next`: where to go on, behind `from`;
 * UINT64_MAX: that was all. Returns how many. */
uint32_t changed_ranges(const struct stripe *stripe, const struct changed_column *columns,
                        uint64_t from, struct exchange_stretch *ranges, uint32_t ranges_max,
                        uint64_t *next);

#endif
