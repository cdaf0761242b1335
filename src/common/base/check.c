/* Says what went wrong and where, and aborts: the only pure file that may. */
#include "common/base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "morselfs: internal error, please report: CHECK(%s) failed at %s:%d\n",
            condition, file, line);
    abort();
}
