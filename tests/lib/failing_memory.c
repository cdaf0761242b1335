/* An allocator for a daemon under test, in which allocations fail. The linker leads our own code
 * and protobuf-c to it (--wrap); libuv, libfuse and LevelDB, which end the process without memory,
 * keep the real one.
 *
 * Each place in the code has its own count: its first allocations fail often, later ones one in
 * `one_in`, so that what is rarely done is not left out. Or a single one fails, the `nth` of one
 * place. */
#include "lib/failing_memory.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct failing_memory *shared; /* Its counts are touched by several threads. */
extern const char __executable_start; /* The linker's. */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

__attribute__((constructor)) static void map_shared(void)
{
    const char *path = getenv("MORSEL_FAILING_MEMORY");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map;

    if (path == NULL) {
        return;
    }
    if (fd < 0 || ftruncate(fd, sizeof(*shared)) != 0 ||
        (map = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
            MAP_FAILED) {
        perror(path);
        _exit(2);
    }
    (void)close(fd);
    shared = map;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdU;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53U;
    return x ^ (x >> 33);
}

static struct memory_place *place_of(uint64_t address)
{
    for (uint64_t i = mix(address), end = i + PLACES; i < end; i++) {
        struct memory_place *place = &shared->places[i % PLACES];
        uint64_t none = 0;

        if (__atomic_compare_exchange_n(&place->address, &none, address, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED) ||
            none == address) {
            return place;
        }
    }
    abort(); /* More places than there are in our code. */
}

/* A number for who called whom. */
static uint64_t way_here(uint64_t stack[WAY_FRAMES])
{
    void *frames[WAY_FRAMES];
    int count = backtrace(frames, WAY_FRAMES);
    uint64_t way = 1;

    for (int i = 0; i < WAY_FRAMES; i++) {
        stack[i] = i < count ? (uint64_t)((const char *)frames[i] - &__executable_start) : 0;
        way = mix(way ^ stack[i]);
    }
    return way == 0 ? 1 : way;
}

/* Is this the one that is to fail? */
static bool is_nth(uint64_t way, const uint64_t stack[WAY_FRAMES])
{
    uint64_t left = __atomic_load_n(&shared->nth, __ATOMIC_ACQUIRE);

    if (left == 0 || way != __atomic_load_n(&shared->at, __ATOMIC_RELAXED)) {
        return false;
    }
    while (left > 0 && !__atomic_compare_exchange_n(&shared->nth, &left, left - 1, false,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    if (left == 1) {
        memcpy(shared->stack, stack, sizeof(shared->stack));
    }
    return left == 1;
}

/* One by one: every way is counted, or the n-th on one of them fails. */
static bool fails_alone(void)
{
    bool counts = __atomic_load_n(&shared->counts, __ATOMIC_RELAXED) != 0;
    uint64_t stack[WAY_FRAMES], way;

    if (!counts && __atomic_load_n(&shared->nth, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    way = way_here(stack); /* Once: where it is called from is a part of the way. */
    if (counts) {
        __atomic_add_fetch(&place_of(way)->asked, 1, __ATOMIC_RELAXED);
    }
    return !counts && is_nth(way, stack);
}

static bool fails_by_chance(const void *caller)
{
    uint64_t number, one_in = __atomic_load_n(&shared->one_in, __ATOMIC_RELAXED);
    uint64_t address = (uint64_t)((const char *)caller - &__executable_start);
    struct memory_place *place;

    if (one_in == 0) {
        return false;
    }
    __atomic_add_fetch(&shared->asked, 1, __ATOMIC_RELAXED);
    place = place_of(address);
    number = __atomic_add_fetch(&place->asked, 1, __ATOMIC_RELAXED);
    number += 4;
    if (mix(shared->seed ^ mix(address ^ mix(number))) % (number < one_in ? number : one_in) != 0) {
        return false;
    }
    __atomic_add_fetch(&place->failed, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&shared->failed, 1, __ATOMIC_RELAXED);
    return true;
}

static bool fails(const void *caller)
{
    bool does = shared != NULL && (fails_alone() || fails_by_chance(caller));

    if (does) {
        errno = ENOMEM;
    }
    return does;
}

void *__wrap_malloc(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __real_realloc(pointer, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails(__builtin_return_address(0)) ? NULL : __real_strdup(text);
}
