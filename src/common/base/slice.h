/* Comparing and making slices (types.h). Pure. A slice of 0 bytes may have no address. */
#ifndef MORSEL_COMMON_BASE_SLICE_H
#define MORSEL_COMMON_BASE_SLICE_H

#include "common/base/types.h"

#include <string.h>

/* Of a text, without the zero at its end; borrowed. */
static inline struct slice slice_text(const char *text)
{
    return (struct slice){ (const uint8_t *)text, strlen(text) };
}

/* Byte order, as the stores sort: negative, 0 or positive. */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t common = a.count < b.count ? a.count : b.count;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);

    if (order != 0) {
        return order;
    }
    return a.count < b.count ? -1 : a.count > b.count;
}

static inline bool slice_starts_with(struct slice s, struct slice prefix)
{
    return s.count >= prefix.count &&
           (prefix.count == 0 || memcmp(s.data, prefix.data, prefix.count) == 0);
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.count == b.count && slice_starts_with(a, b);
}

#endif
