/* Adds to the list and finds in it. */
#include "common/daemon/counters.h"

#include <stdio.h>
#include <string.h>

void counters_add(struct counter_list *c, const char *kind, const char *what, uint64_t value)
{
    struct counter *counter;

    if (c->count == COUNTERS_MAX) {
        return;
    }
    counter = &c->items[c->count++];
    (void)snprintf(counter->name, sizeof(counter->name), "%s%s%s", kind == NULL ? "" : kind,
                   kind == NULL ? "" : ".", what);
    counter->value = value;
}

const struct counter *counters_find(const struct counter_list *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->items[i].name, name) == 0) {
            return &c->items[i];
        }
    }
    return NULL;
}
