/* How many copies a new file gets of which no directory says how many.
 *
 * Pure. The rule of a cluster is `auto`, or one number for all:
 *
 *   auto      two, once two storage servers have taken over groups; with one server, one
 *   1, 2, 3   so many, as if the root directory said so: with fewer servers no file is made
 *
 * Between the moment in which a second server comes up and that in which both have their groups on disk
 * lie a heartbeat or two. A file that is made then would have one copy for good, so whoever makes one
 * waits for the groups: once, for a bounded time. When they have not come by then (a server whose disk is
 * full, for example), files are made as without them, and nobody waits until there is another table.
 *
 * A database remembers whether it was made when `auto` came to be what holds without being set: in one
 * that is older, new files go on to have one copy until somebody sets something else. */
#ifndef MORSEL_META_CLUSTER_COPIES_RULE_H
#define MORSEL_META_CLUSTER_COPIES_RULE_H

#include "common/base/errmsg.h"
#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    COPIES_AUTO = 0,                            /* Anything else is a number of copies. */
    COPIES_RULE_OF_DATABASE = REPLICAS_MAX + 1, /* Nothing is set. */
    COPIES_AUTO_WANTED = 2,
    COPIES_WAIT_MS_MAX =
        10000 /* Nobody who makes a file waits where heartbeats take too long for that. */
};

/* "auto", "1", "2", "3"; empty: COPIES_RULE_OF_DATABASE. MORSEL_INVAL with words. */
int copies_rule_parse(const char *text, uint32_t *rule_out, struct errmsg *err);

/* What holds when `set` is set. */
uint32_t copies_rule_of(uint32_t set, bool auto_copies);

/* So many it comes to when there are servers enough. */
uint32_t copies_rule_wanted(uint32_t rule);

/* What there is for as many copies as are wanted. */
struct copies_around
{
    uint32_t servers; /* Up, or likely so behind a restart of the manager. */
    bool told;        /* There are groups on which files may lie. */
    bool waited;      /* Somebody has waited for those that are not told as long as one does. */
};

/* How many copies the file gets. 0: wait. */
uint32_t copies_rule_choose(uint32_t rule, const struct copies_around *around);

#endif
