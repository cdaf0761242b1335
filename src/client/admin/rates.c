/* Differences of two readings over the time between them; a program that was started again begins
 * at 0. */
#include "client/admin/rates.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How much the counter has grown. */
static uint64_t growth(const struct counter_list *before, const char *name, uint64_t after)
{
    const struct counter *counter = counters_find(before, name);

    return counter == NULL || counter->value > after ? after : after - counter->value;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);

    return length > end_length && strcmp(name + length - end_length, end) == 0;
}

void rates_of_daemon(const struct counter_list *before, const struct counter_list *after,
                     double seconds, struct daemon_rates *rates)
{
    *rates = (struct daemon_rates){ 0 };
    for (size_t i = 0; i < after->count; i++) {
        const struct counter *c = &after->items[i];
        double grown = (double)growth(before, c->name, c->value);

        if (strcmp(c->name, "cpu_ns") == 0) {
            rates->cpu_percent = grown / seconds / 1e7;
        } else if (strcmp(c->name, "bytes_in") == 0) {
            rates->bytes_in = grown / seconds;
        } else if (strcmp(c->name, "bytes_out") == 0) {
            rates->bytes_out = grown / seconds;
        } else if (strcmp(c->name, "resident_bytes") == 0) {
            rates->resident_bytes = c->value;
        } else if (ends_with(c->name, ".served")) {
            rates->requests += grown / seconds;
        }
    }
}

static struct kind_rates *find_kind(struct kind_table *table, const char *where, const char *name,
                                    size_t name_length)
{
    struct kind_rates *kind;

    if (name_length >= KIND_NAME_BYTES) {
        name_length = KIND_NAME_BYTES - 1;
    }
    for (size_t i = 0; i < table->count; i++) {
        kind = &table->items[i];
        if (strcmp(kind->where, where) == 0 && strlen(kind->name) == name_length &&
            memcmp(kind->name, name, name_length) == 0) {
            return kind;
        }
    }
    if (table->count == KINDS_MAX) {
        return NULL;
    }
    kind = &table->items[table->count++];
    *kind = (struct kind_rates){ .where = where };
    memcpy(kind->name, name, name_length);
    return kind;
}

/* Which field of the kind a counter feeds. NULL: none. */
static uint64_t *field_of(struct kind_rates *kind, const char *what)
{
    const struct
    {
        const char *what;
        uint64_t *field;
    } fields[] = {
        { "served", &kind->count },       { "failed", &kind->failed },
        { "served_ns", &kind->ns },       { "queued_ns", &kind->queued_ns },
        { "busy_ns", &kind->busy_ns },    { "served_bytes", &kind->bytes },
        { "called", &kind->count },       { "called_ns", &kind->ns },
        { "called_bytes", &kind->bytes },
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].what, what) == 0) {
            return fields[i].field;
        }
    }
    return NULL;
}

void rates_add_kinds(struct kind_table *table, const char *where, const char *calls,
                     const struct counter_list *before, const struct counter_list *after)
{
    for (size_t i = 0; i < after->count; i++) {
        const struct counter *c = &after->items[i];
        const char *dot = strrchr(c->name, '.');
        const char *name = strncmp(c->name, "fuse.", 5) == 0 ? c->name + 5 : c->name;
        uint64_t grown = growth(before, c->name, c->value);
        struct kind_rates *kind;
        uint64_t *field;

        if (dot == NULL || grown == 0) {
            continue;
        }
        kind = find_kind(table, strncmp(dot + 1, "called", 6) == 0 ? calls : where, name,
                         (size_t)(dot - name));
        if (kind != NULL && (field = field_of(kind, dot + 1)) != NULL) {
            *field += grown;
        }
    }
}

static int compare_kinds(const void *a, const void *b)
{
    const struct kind_rates *x = a, *y = b;
    uint64_t left = x->busy_ns != 0 ? x->busy_ns : x->ns;
    uint64_t right = y->busy_ns != 0 ? y->busy_ns : y->ns;

    return left < right ? 1 : left > right ? -1 : 0;
}

void rates_sort_kinds(struct kind_table *table)
{
    qsort(table->items, table->count, sizeof(table->items[0]), compare_kinds);
}
