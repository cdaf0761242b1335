/* How much one client may have under way here while changes pile up in front of a member of a group.
 *
 * A client sends as fast as its link carries, and the member with the slowest link or disk takes what it can. What
 * lies between is a queue at who orders: it makes nothing faster, everybody's next change waits behind it, and if it is
 * longer than the slow limit the member looks like one that hangs (replica_slow.c). So who orders looks at how long
 * a change has been waiting for a member that lacks it, and takes less from each client when that is long: half as
 * much, and then not again before what is there has had the time to drain; a quarter more when it is short.
 * (Additive-increase, multiplicative-decrease, Chiu and Jain 1989; delay as the signal, as in CoDel, RFC 8289.)
 *
 * Pure: no clock. One for a server. The share is 0, no bound, or between BACKLOG_SHARE_MIN and CONN_BUDGET_BYTES. */
#ifndef MORSEL_IOD_REPLICA_BACKLOG_H
#define MORSEL_IOD_REPLICA_BACKLOG_H

#include "common/base/limits.h"

#include <stdint.h>

enum {
    BACKLOG_LONG_MS = 600,
    BACKLOG_SHORT_MS = 300,
    BACKLOG_LOOK_MS = 250,
    BACKLOG_DRAINS_MS = 2000,   /* What is there is waited for so long at most. */
    BACKLOG_SHARE_MIN = 2 << 20 /* A change is taken while the one before it is sent on. */
};

/* Zero: no bound. */
struct backlog
{
    uint64_t share;
    uint64_t next_ms; /* Nothing is changed before. */
};

/* The bytes that a client may have under way; 0: no bound. `lag_ms`: the oldest change that a member has and another
 * one lacks is that old. */
static inline uint64_t backlog_share(struct backlog *b, uint64_t lag_ms, uint64_t now_ms)
{
    if (now_ms < b->next_ms || (b->share == 0 && lag_ms <= BACKLOG_LONG_MS)) {
        return b->share;
    }
    b->next_ms = now_ms + BACKLOG_LOOK_MS;
    if (lag_ms > BACKLOG_LONG_MS) {
        b->share = (b->share == 0 ? CONN_BUDGET_BYTES : b->share) / 2;
        b->share = b->share > BACKLOG_SHARE_MIN ? b->share : BACKLOG_SHARE_MIN;
        b->next_ms = now_ms + (lag_ms < BACKLOG_DRAINS_MS ? lag_ms : BACKLOG_DRAINS_MS);
    } else if (lag_ms < BACKLOG_SHORT_MS) {
        b->share += b->share / 4;
        b->share = b->share < CONN_BUDGET_BYTES ? b->share : 0;
    }
    return b->share;
}

#endif
