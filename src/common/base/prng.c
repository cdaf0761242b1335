/* splitmix64, and numbers below a bound without bias. */
#include "common/base/prng.h"

#include "common/base/check.h"

void prng_seed(struct prng *prng, uint64_t seed)
{
    prng->state = seed;
}

uint64_t prng_next(struct prng *prng)
{
    uint64_t z = (prng->state += 0x9e3779b97f4a7c15U);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    uint64_t threshold, value;

    CHECK(bound > 0);
    threshold = (0 - bound) % bound; /* Draws below it would favour small results. */
    do {
        value = prng_next(prng);
    } while (value < threshold);
    return value % bound;
}
