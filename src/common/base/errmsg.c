/* Formats into a fixed buffer: context goes in front, and what does not fit is cut off. */
#include "common/base/errmsg.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void errmsg_set(struct errmsg *err, const char *format, ...)
{
    va_list args;

    if (err == NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
}

void errmsg_wrap(struct errmsg *err, const char *format, ...)
{
    char before[sizeof(err->text)];
    size_t used;
    va_list args;

    if (err == NULL) {
        return;
    }
    memcpy(before, err->text, sizeof(before));
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", before);
}
