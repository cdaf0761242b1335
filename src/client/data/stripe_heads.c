/* The next stripes of each server (stripe_heads.h). */
#include "client/data/stripe_heads.h"

struct stripe_heads stripe_heads(const struct stripe *dealt, uint64_t next, uint64_t window,
                                 uint64_t bound)
{
    uint64_t stripe = (uint64_t)dealt->morsel_bytes * dealt->stripe_morsels;
    uint64_t round = dealt->width * stripe, end;
    struct stripe_heads heads = { .distance = stripe };

    if (window >= 2 * round || next > INT64_MAX - 2 * round - bound) {
        return heads; /* The window does it alone. */
    }
    heads.first = (next / stripe + 1) * stripe;
    if (window >= round) {
        heads.first += round;
        heads.length = dealt->morsel_bytes;
        heads.count = dealt->width - 1;
        return heads;
    }
    heads.length = window < stripe ? window : stripe;
    end = heads.first + heads.length;
    while (heads.count + 1 < dealt->width && end <= next + bound) {
        heads.count++;
        end += stripe;
    }
    return heads;
}
