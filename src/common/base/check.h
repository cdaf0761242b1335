/* CHECK: for our own bugs, always compiled in. What the world does wrong is a status, never a
 * CHECK. */
#ifndef MORSEL_COMMON_BASE_CHECK_H
#define MORSEL_COMMON_BASE_CHECK_H

/* Prints one line to standard error and aborts. */
_Noreturn void check_failed(const char *condition, const char *file, int line);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            check_failed(#condition, __FILE__, __LINE__);                                          \
        }                                                                                          \
    } while (0)

#define CHECK_IMPLIES(a, b) CHECK(!(a) || (b))

/* The struct of type `type` whose member `member` lies at `pointer`. */
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, member)))

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
