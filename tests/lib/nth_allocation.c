#include "tests/lib/nth_allocation.h"

#include "common/base/check.h"

#include <stdbool.h>
#include <stdlib.h>

static uint64_t countdown; /* Allocations until one fails; 0: none does. */
static bool for_ever;      /* And every one behind it. */
static uint64_t failures;
static unsigned paused;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

static bool fails(void)
{
    if (paused > 0 || countdown == 0 || --countdown > 0) {
        return false;
    }
    countdown = for_ever ? 1 : 0;
    failures++;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return fails() ? NULL : __real_realloc(pointer, size);
}

void nth_fails(void (*run)(void), uint64_t runs_min)
{
    for (int mode = 0; mode < 2; mode++) {
        uint64_t n = 0;

        do {
            countdown = ++n;
            for_ever = mode == 1;
            failures = 0;
            run();
            CHECK(paused == 0);
            countdown = 0;
        } while (failures > 0);
        CHECK(n > runs_min);
    }
}

uint64_t nth_failures(void)
{
    return failures;
}

void nth_pause(void)
{
    paused++;
}

void nth_go_on(void)
{
    paused--;
}
