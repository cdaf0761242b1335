/* What tests/cluster/no_memory.sh and no_memory_each.sh share with the daemons that are linked with
 * failing_memory.c: a file that both map, named by MORSEL_FAILING_MEMORY. The test writes how often
 * allocations fail, or which one does; the daemon counts. */
#ifndef TESTS_LIB_FAILING_MEMORY_H
#define TESTS_LIB_FAILING_MEMORY_H

#include <stdint.h>

enum { PLACES = 8192, WAY_FRAMES = 10 };

/* One call of an allocator in our code; where `counts` is set: and one way to it. */
struct memory_place
{
    uint64_t address; /* From the start of the program, or a number for the way; 0: none. */
    uint64_t asked, failed;
};

struct failing_memory
{
    uint64_t one_in; /* Of the allocations of one place; 0: none fails. */
    uint64_t seed;
    uint64_t asked, failed;
    uint64_t counts; /* Not 0: those that each way leads to are counted, and none fails. */
    uint64_t nth;    /* The n-th from now on the way `at` fails; 0: none, or it has failed. */
    uint64_t at;
    uint64_t stack[WAY_FRAMES]; /* Of that one: from the start of the program; 0: none. */
    struct memory_place places[PLACES];
};

#endif
