/* From counters that were read twice: what happened per second in between (morsel top).
 *
 * Pure. Counters are those of common/daemon/counters.h. A daemon that was started again in between
 * begins at 0: then all that it counts happened since.
 */
#ifndef MORSEL_CLIENT_ADMIN_RATES_H
#define MORSEL_CLIENT_ADMIN_RATES_H

#include "common/daemon/counters.h"

/* Of one program. Per second, but for memory. */
struct daemon_rates
{
    double cpu_percent; /* 100: one processor. */
    double requests;    /* Served. */
    double bytes_in, bytes_out;
    uint64_t resident_bytes;
};

/* `seconds` lie between the two; more than 0. */
void rates_of_daemon(const struct counter_list *before, const struct counter_list *after,
                     double seconds, struct daemon_rates *rates);

enum { KINDS_MAX = 256, KIND_NAME_BYTES = 32 };

/* One kind of request at one sort of program ("manager", "server", "mount"), or one kind of call
 * that it makes ("mount calls"). */
struct kind_rates
{
    const char *where; /* Borrowed from rates_add_kinds(). */
    char name[KIND_NAME_BYTES];
    uint64_t count, failed, bytes; /* In the time between. */
    uint64_t ns, queued_ns, busy_ns;
};

struct kind_table
{
    size_t count;
    struct kind_rates items[KINDS_MAX];
};

/* Add what the program did to the table. Programs of one sort have the same `where`, and are added
 * up; `calls` names what they asked of others. Both must live as long as the table. */
void rates_add_kinds(struct kind_table *table, const char *where, const char *calls,
                     const struct counter_list *before, const struct counter_list *after);

/* Those that cost most first: by busy time, and where that is not measured by time. */
void rates_sort_kinds(struct kind_table *table);

#endif
