/* What is done about groups of which a server is lost, or is to leave: who gets its place, and when.
 *
 * Pure. Whoever holds a place is in the table that all members of the group have on their disks; it is
 * changed in steps, each of which is told before the next one is made. A group of k copies is *well* when k
 * places or more are held, and all that are held are in sync, by the word of all who hold them.
 *
 *   lost    held --VACATE--> vacant --ASSIGN--> held, newcomer --(brought up to date)--> well --FORGET-->
 *                  ^  |
 *                  +--+ RESTORE
 *   drained, of k = 2:    well --SPARE--> a third place, vacant --ASSIGN--> newcomer --> well, three in sync
 *                         --LEAVE--> (voted out) --VACATE--> vacant, and stays so --> well --FORGET-->
 *   drained, of k = 3:    well --LEAVE--> (voted out) --VACATE--> vacant --ASSIGN--> newcomer --> well ...
 *
 *   moved (rebalance.h): as drained, but of that one group, and to the named server alone
 *
 *   VACATE   Of a place outside of the in-sync set: some member that serves says so, and none says
 *            otherwise. Its server was away for too long (not while that is paused), or is to leave.
 *            Members take such a table only if their set is without the place.
 *   RESTORE  The server came back in between: a member that did not take that table is in sync with it.
 *            It gets its place back if *no* member has the table, or can have it: one that knows of the
 *            vacancy may have forgotten what the server missed.
 *   ASSIGN   To a server that begins without a byte: when all who hold places have the table.
 *   SPARE    A place more than copies, so that no copy is given up before there is another one.
 *   LEAVE    The server of that place is to be voted out in an orderly way: all are in sync, and there
 *            are more of them than copies, or a third place is the last there can be.
 *   STAY     ... not any more: it need not leave, or another one is down.
 *   GIVE_UP  The copy is not to move any more: who was to get it cannot, for good or for too long. What was
 *            begun is undone by STAY, and a third place stays vacant.
 *   FORGET   When the group is well: that a copy was named (group_force.h) is not shown any more, and who lost
 *            a place is told that, and deletes its copy. Until then it
 *            keeps the copy, is told the group as it was, and gets no place in it.
 *
 * What holds, at each step (tests/unit/group_mend.c, against members in any order):
 *   - a step takes away no copy that is in sync, but for the one copy of three that is to leave;
 *   - no place has a new server while a member lives that takes the old one for its holder;
 *   - nobody deletes a copy unless as many as are wanted are in sync.
 *
 * A newcomer is a server that lives, is not to leave, has space and no former copy of that group; it
 * shares neither disk nor host with those who stay, while there is a choice; the one with the fewest
 * groups, then with the most space. A copy that moves begins to do so only while the group is well, and to
 * nobody else than was planned; when a server is lost meanwhile its place goes to anybody. So the groups of a lost server go to all the others. Each receives
 * MEND_REBUILDS_MAX groups at a time, and a place is vacated only if somebody can take it now. */
#ifndef MORSEL_META_CLUSTER_GROUP_MEND_H
#define MORSEL_META_CLUSTER_GROUP_MEND_H

#include "meta/cluster/group_roll.h"

enum { MEND_REBUILDS_MAX = 2 };

/* Steps, and behind MEND_REST why there is none. */
enum mend_step {
    MEND_FORGET,
    MEND_RESTORE,
    MEND_VACATE,
    MEND_ASSIGN,
    MEND_SPARE,
    MEND_LEAVE,
    MEND_STAY,
    MEND_GIVE_UP,
    MEND_REST,       /* It is well, and nobody is to leave. */
    MEND_LEARNS,     /* A server has not told yet that it has the newest table. */
    MEND_REBUILDS,   /* A copy is being brought up to date. */
    MEND_LEAVES,     /* A server is being voted out. */
    MEND_AWAY,       /* A server is away, and may come back: its time is not over. */
    MEND_PAUSED,     /* A server is away for too long, and nobody is to take its place. */
    MEND_NO_SERVER,  /* Nobody can take the place. */
    MEND_BUSY,       /* Those who can are receiving other groups. */
    MEND_NOT_SERVED, /* No copy serves: nothing can be given up. */
    MEND_WORN,       /* Too many lost a place since the group was well. */
    MEND_TAKER,      /* The server that is to get the copy is away, or cannot take it now. */
    MEND_STEPS
};

struct mend_move
{
    enum mend_step step;
    uint32_t place; /* Which it is about. */
    server_id
        to; /* ASSIGN; and who would get it: VACATE, and while its server is being voted out. 0: nobody. */
};

/* The owner's: what is known just now. */
struct mend_world
{
    const struct members *members;
    const struct group_roll *roll;
    const struct groups_record *record;
    bool gone[SERVERS_MAX]; /* By place among the members: away for so long that it is replaced. */

    /* By place among the members; mend_count() fills them. */
    uint32_t groups[SERVERS_MAX];   /* Places that it holds, or is about to get. */
    uint32_t receives[SERVERS_MAX]; /* Of these those in which it is being brought up to date. */
};

void mend_count(struct mend_world *world);

/* The next step of that group, or why there is none. */
struct mend_move mend_next(const struct mend_world *world, const struct group_made *group);

/* All steps that are possible now; `next` is the table with them. False: none is, and `next` is not
 * touched. */
bool mend_plan(struct mend_world *world, struct groups_record *next);

/* May the server be told the table? Not while it has not taken a vacancy in one of its groups and is in
 * sync with who lost the place: it would go on telling so, and nobody could be sure that it has not. */
bool mend_may_tell(const struct mend_world *world, server_id server);

/* Are there as many copies as are wanted, and all of them in sync? */
bool mend_is_complete(const struct mend_world *world, const struct group_made *group);

/* May a copy of the group begin to move? It is well, as all its servers know, and nothing else is done or
 * asked for about it. */
bool mend_is_quiet(const struct mend_world *world, const struct group_made *group);

/* May that server get a place of the group, as far as it goes by itself? Its `groups` are counted. */
bool mend_may_join(const struct mend_world *world, const struct group_made *group,
                   const struct member *m);

/* Places, as bits, that are in sync by the word of all who serve. */
uint32_t mend_in_sync(const struct mend_world *world, const struct group_made *group);

#endif
