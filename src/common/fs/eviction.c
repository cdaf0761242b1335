/* Words for why a data set is not evicted (eviction.h). */
#include "common/fs/eviction.h"

#include "common/base/check.h"
#include "common/daemon/config.h"

#include <string.h>

static const char *const words[EVICTION_STATES] = { "unknown",         "may go", "is data",
                                                    "is being stored", "pinned", "in use now",
                                                    "is new" };

const char *eviction_word(enum eviction_state state)
{
    return words[(unsigned)state < EVICTION_STATES ? state : EVICTION_UNKNOWN];
}

enum eviction_state eviction_find(const char *word, size_t count)
{
    for (unsigned i = 0; i < EVICTION_STATES; i++) {
        if (strlen(words[i]) == count && memcmp(words[i], word, count) == 0) {
            return (enum eviction_state)i;
        }
    }
    return EVICTION_UNKNOWN;
}

static bool parse_percent(const char *text, uint64_t *value)
{
    uint64_t percent = 0;
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 3 || strcmp(text + digits, "%") != 0) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        percent = percent * 10 + (uint64_t)(text[i] - '0');
    }
    *value = percent;
    return percent <= 100;
}

bool eviction_keep_parse(const char *text, struct eviction_keep *keep)
{
    keep->percent = parse_percent(text, &keep->value);
    return keep->percent || config_bytes_parse(text, &keep->value);
}

uint64_t eviction_keep_of(const struct eviction_keep *keep, uint64_t size)
{
    if (!keep->percent) {
        return keep->value;
    }
    CHECK(keep->value <= 100);
    return size / 100 * keep->value + size % 100 * keep->value / 100;
}
