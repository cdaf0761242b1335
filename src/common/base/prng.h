/* Deterministic random numbers: splitmix64 (Steele, Lea, Flood 2014). Pure; the seed comes from
 * outside. Not for secrets. */
#ifndef MORSEL_COMMON_BASE_PRNG_H
#define MORSEL_COMMON_BASE_PRNG_H

#include <stdint.h>

struct prng
{
    uint64_t state;
};

void prng_seed(struct prng *prng, uint64_t seed);
uint64_t prng_next(struct prng *prng);

/* Uniform in [0, bound). `bound` must not be 0. */
uint64_t prng_below(struct prng *prng, uint64_t bound);

#endif
