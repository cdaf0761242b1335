/* An allocator whose n-th allocation fails, for tests that are linked with
 * morsel_nth_allocation: malloc(), calloc() and realloc() of everything that is linked statically
 * go through it. */
#ifndef MORSEL_TESTS_LIB_NTH_ALLOCATION_H
#define MORSEL_TESTS_LIB_NTH_ALLOCATION_H

#include <stdint.h>

/* `run` again and again: the n-th allocation fails, alone or with all that follow, for n = 1, 2 ...
 * until a run needs no more than n. At least `runs_min` of its allocations can fail. */
void nth_fails(void (*run)(void), uint64_t runs_min);

/* Of this run. */
uint64_t nth_failures(void);

/* Nothing fails between the two, and nothing is counted. */
void nth_pause(void);
void nth_go_on(void);

#endif
