/* An administrator names the copy of a group that counts, because no vote can, or because the set waits for a copy
 * that never comes back (src/iod/replica/group.h, "Forced"): when that may be done, and what the table says then.
 *
 * Pure. Who is named keeps its place, or gets back the one that it lost while the group was not well. All others that
 * hold places hold them as newcomers from then on: what they have is nothing, whenever they come back. They are told
 * so when the named one has the table (mend_may_tell()), and the named one when the manager's voter knows of its epoch,
 * so that no vote of before can be given with it any more (groups_force_uv.c).
 *
 * It is refused while an ordinary way is open: a copy serves; the whole set is there, or one that lost nothing, with a
 * majority of voters; or when it is not certain that nobody serves: a server reaches one that the manager does not
 * hear. What stays possible is a member that went on without the named one and is cut off from all of these. */
#ifndef MORSEL_META_CLUSTER_GROUP_FORCE_H
#define MORSEL_META_CLUSTER_GROUP_FORCE_H

#include "meta/cluster/group_mend.h"

enum force_no {
    FORCE_YES,
    FORCE_NOT_HELD,   /* The server has no copy of the group. */
    FORCE_GIVEN_AWAY, /* It lost its place, and somebody else has got it. */
    FORCE_DOWN,       /* The server is down, or has not said how its copy is. */
    FORCE_CLOSED,     /* Its copy is closed. */
    FORCE_UNHEARD,    /* The other server `about` is up, and has not said how its copy is. */
    FORCE_SERVED,     /* The copy on `about` serves. */
    FORCE_BETTER,     /* The copy on `about` has lost nothing. */
    FORCE_REACHED,    /* `about` is down for the manager, and answers another server. */
    FORCE_WAITS       /* The set is there, and goes on by itself. */
};

struct force_answer
{
    enum force_no no;
    server_id about;
};

/* May the copy on that server be named? `majority`: of the voters is there. */
struct force_answer group_force_ask(const struct mend_world *world, const struct group_made *group,
                                    server_id server, bool majority);

/* It is named, in that version of the table, at that time. group_force_ask() has said FORCE_YES. */
void group_force_make(struct group_made *group, server_id server, uint64_t version, uint64_t now_s);

/* What the server has said of its copy since the manager's start; NULL: nothing, or it was well. */
const struct copy_said *group_force_said(const struct mend_world *world,
                                         const struct group_made *group, server_id server);

#endif
