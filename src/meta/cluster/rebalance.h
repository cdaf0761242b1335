/* Which copies are to move so that the disks of the storage servers are about equally full.
 *
 * Pure. What moves is one copy of a group: a place, which changes hands as group_mend.h does it. The fill of
 * a disk is the part of it that is used; servers on one disk are one, for nothing is gained between them.
 *
 *   1  The fullest disk that is fuller than the mean gives the copy that helps most, to the emptiest server
 *      below the mean that may have it. So on, until no disk has one to give.
 *   2  Of that, what has turned out to be needless is taken back, until each move is one that is needed.
 *
 * A move helps if the fills of both disks lie, behind it, between what they were before, by a quarter of the
 * way at least, and these were REBALANCE_SPREAD apart: a copy is not moved to have two disks change roles.
 * How uneven it all is is measured by the sum of total * fill^2 over the disks.
 *
 * What holds (tests/unit/rebalance.c, 1 to 1024 servers, and against a search through all moves):
 *   - it ends: each group gives one copy at most in a plan, and each move makes things less uneven; so do
 *     plans behind each other, and the last one is empty;
 *   - no disk gets fuller than the fullest one was, or emptier than the emptiest;
 *   - without any one of the moves things would not be less uneven;
 *   - nobody gives after he took, or takes after he gave;
 *   - a group is touched only while it is quiet (mend_is_quiet()): all its copies are complete;
 *   - who takes a copy shares no more with the other holders (a disk, a host) than who gives it, and of
 *     those who may have it one that shares least;
 *   - in the end no copy is left that would help, from a disk above the mean to one that has been below it,
 *     but of a group that gives one already, or whose copy was taken back.
 *
 * So two disks differ by REBALANCE_SPREAD at most, or by less than four thirds of what each group takes
 * that could move from the one to the other. Files with one copy are of no group: they stay where they are. */
#ifndef MORSEL_META_CLUSTER_REBALANCE_H
#define MORSEL_META_CLUSTER_REBALANCE_H

#include "meta/cluster/group_mend.h"

/* Of a whole disk. */
#define REBALANCE_SPREAD 0.05
enum { REBALANCE_PARTS = 4 };

/* Of a group whose size nobody has measured. */
#define REBALANCE_UNKNOWN UINT64_MAX

struct rebalance_move
{
    group_number group;
    server_id from, to;
    uint64_t bytes;
};

/* The disk of a server, by place among the members. */
struct rebalance_disk
{
    bool counts;           /* It takes part: its server is up, and stays. */
    uint32_t first;        /* The first of the servers on that disk; the numbers are there. */
    uint64_t total;        /* Bytes. */
    uint64_t used, before; /* Behind the plan, and now. */
    bool took;
    uint32_t places; /* The first of its copies in `next`, plus 1; 0: none. */
};

struct rebalance_plan
{
    uint32_t count;
    struct rebalance_move moves[GROUPS_KEPT_MAX];
    uint64_t bytes;
    uint32_t
        unquiet; /* Groups that are left out: not all is well, or something is done about them; */
    uint32_t unknown; /* nobody has measured them. */
    struct rebalance_disk disks[SERVERS_MAX];

    /* The module's own. */
    double mean;
    uint32_t takers_count;
    uint32_t takers[SERVERS_MAX]; /* Places among the members, the emptiest first. */
    uint32_t next[GROUPS_KEPT_MAX * REPLICAS_MAX]; /* As `places`: of the same disk. */
    bool moved[GROUPS_KEPT_MAX];                   /* By place in the record; or not to be. */
    const uint64_t *sizes;
};

/* `sizes` are those of the groups, by place in the record: bytes of one copy, or REBALANCE_UNKNOWN. What is
 * counted in `world` is counted anew, with what the plan adds to it. */
void rebalance_plan(struct mend_world *world, const uint64_t *sizes, struct rebalance_plan *plan);

#endif
