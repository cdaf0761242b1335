/* What the programs that compare two mounts with one local disk share. */
#ifndef MORSEL_TESTS_POSIX_DIFFERENCE_H
#define MORSEL_TESTS_POSIX_DIFFERENCE_H

#include <stdbool.h>

/* Print one line and end the process with exit status 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* In the header so that a static analyser sees what holds after it. */
static inline void must(bool condition, const char *what)
{
    if (!condition) {
        fail("%s", what);
    }
}

double now_ms(void);

#endif
