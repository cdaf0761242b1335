/* Seeds of tests that draw: they move with MORSEL_SEED (scripts/test sets it from the commit), and
 * a failing test prints what gives the same ones again. */
#ifndef TESTS_LIB_SEED_H
#define TESTS_LIB_SEED_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The first of up to 10,000 consecutive seeds; 1 unless MORSEL_SEED says otherwise. */
static inline uint64_t test_seed_first(void)
{
    const char *text = getenv("MORSEL_SEED");
    uint64_t number = text == NULL ? 1 : strtoull(text, NULL, 10);

    if (number > 1) {
        printf("the same seeds again: MORSEL_SEED=%" PRIu64 "\n", number);
    }
    return number > 1 ? number * 10000 : 1;
}

#endif
