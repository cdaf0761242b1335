/* Arithmetic of stripes; all divisions are by sizes that were checked to be no zero. */
#include "common/fs/stripe.h"

#include "common/base/check.h"

static uint64_t stripe_bytes(const struct stripe *s)
{
    return (uint64_t)s->morsel_bytes * s->stripe_morsels;
}

bool stripe_valid(const struct stripe *s)
{
    return s->morsel_bytes >= MORSEL_BYTES_MIN && s->morsel_bytes <= MORSEL_BYTES_MAX &&
           (s->morsel_bytes & (s->morsel_bytes - 1)) == 0 && s->stripe_morsels >= 1 &&
           s->stripe_morsels <= STRIPE_MORSELS_MAX && s->width >= 1 && s->width <= STRIPE_WIDTH_MAX;
}

struct stripe_run stripe_run_at(const struct stripe *s, uint64_t file_offset, uint64_t length)
{
    uint64_t bytes = stripe_bytes(s);
    uint64_t stripe = file_offset / bytes;
    uint64_t within = file_offset % bytes;
    struct stripe_run run;

    CHECK(length > 0);
    run.column = (uint32_t)(stripe % s->width);
    run.object_offset = stripe / s->width * bytes + within;
    run.file_offset = file_offset;
    run.length = length < bytes - within ? length : bytes - within;
    return run;
}

uint64_t stripe_file_offset(const struct stripe *s, uint32_t column, uint64_t object_offset)
{
    uint64_t bytes = stripe_bytes(s);

    CHECK(column < s->width);
    return (object_offset / bytes * s->width + column) * bytes + object_offset % bytes;
}

uint64_t stripe_object_size(const struct stripe *s, uint32_t column, uint64_t file_size)
{
    uint64_t bytes = stripe_bytes(s);
    uint64_t whole = file_size / bytes; /* Full stripes of the file */
    uint64_t size = (whole / s->width + (column < whole % s->width ? 1 : 0)) * bytes;

    CHECK(column < s->width);
    if (whole % s->width == column) {
        size += file_size % bytes;
    }
    return size;
}
