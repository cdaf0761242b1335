#include "difference.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Noreturn void fail(const char *format, ...)
{
    int error = errno;
    va_list args;

    fputs("DIFFERENCE: ", stdout);
    va_start(args, format);
    /* It was, one line above; the analyser of clang 14 loses sight of it. */
    (void)vprintf(format, args); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(args);
    printf(" (errno: %s)\n", strerror(error));
    (void)fflush(stdout);
    _exit(1);
}

double now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
