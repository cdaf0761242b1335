/* What tests/cluster/no_memory.sh and the daemons that are linked with failing_memory.c share: a
 * file that both map, named by MORSEL_FAILING_MEMORY. The test writes how often allocations fail;
 * the daemon counts. */
#ifndef TESTS_LIB_FAILING_MEMORY_H
#define TESTS_LIB_FAILING_MEMORY_H

#include <stdint.h>

enum { PLACES = 1024 };

/* One call of an allocator in our code. */
struct memory_place
{
    uint64_t address; /* From the start of the program; 0: none. */
    uint64_t asked, failed;
};

struct failing_memory
{
    uint64_t one_in; /* Of the allocations of one place; 0: none fails. */
    uint64_t seed;
    uint64_t asked, failed;
    struct memory_place places[PLACES];
};

#endif
