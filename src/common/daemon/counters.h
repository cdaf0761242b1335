/* Counters of a program under names, to be shown: by MSG_STATISTICS, in the log, by a mount.
 *
 * Names are "what" or "kind.what". Of each kind of request ("read", and "fuse.read" for what the
 * kernel asks a mount):
 *
 *   served, failed      answered, and how many of those with a failure
 *   served_ns           from arrival to answer, summed
 *   queued_ns           of that, waiting for its turn (a thread, a lease)
 *   busy_ns             of that, a thread at work on it, waiting for the disk included
 *   served_bytes        in and out, data and message
 *   called, called_ns,  calls to other daemons that ended: round trips, and how long they took
 *   called_bytes
 *
 * Times are nanoseconds unless the name says otherwise. Counters only grow, from 0 at the start of
 * the program, but for those that say how much there is (resident_bytes, inodes ...).
 */
#ifndef MORSEL_COMMON_DAEMON_COUNTERS_H
#define MORSEL_COMMON_DAEMON_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

enum { COUNTERS_MAX = 512, COUNTER_NAME_BYTES = 48 };

struct counter
{
    char name[COUNTER_NAME_BYTES];
    uint64_t value;
};

struct counter_list
{
    size_t count;
    struct counter items[COUNTERS_MAX];
};

/* `kind` NULL: the name is `what` alone. A name that is too long is cut; beyond COUNTERS_MAX the
 * counter is left out. */
void counters_add(struct counter_list *c, const char *kind, const char *what, uint64_t value);

/* NULL: there is none of that name. */
const struct counter *counters_find(const struct counter_list *c, const char *name);

#endif
