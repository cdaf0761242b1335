/* Which groups of servers there are to be, and on which of them a new file lies.
 *
 * Pure. Groups are planned by chained declustering (Hsiao and DeWitt, "Chained declustering", ICDE
 * 1990): the servers that are up stand in a ring, by id, and each is the first of one group, with those
 * behind it; so when one fails, its work falls to all the others' neighbours and not to one server.
 * Behind a first member come the next ones around the ring that share neither disk nor host with those
 * before; where there are none, those that share a host, and at last the next ones. Groups that are
 * there stay: files lie on them.
 *
 * Plans are made when a server is up that is the first of no group, or when all are up that hold places
 * or may get some: those that are to leave do not count. While the
 * manager still waits for servers after its restart there are none: the ring of those that have come
 * back first would be one of many that nobody needs.
 *
 * A new file of k copies lies on groups of k that are told: as many as it has columns, one behind the
 * other from one that the inode picks. The best of these kinds is taken of which there is any: those of
 * the ring of the servers that live and are not to leave, so that each has as much to do as the others;
 * all whose servers live and have space; all whose servers live; those of which the most live. */
#ifndef MORSEL_META_CLUSTER_GROUP_ROLL_H
#define MORSEL_META_CLUSTER_GROUP_ROLL_H

#include "meta/cluster/members.h"
#include "meta/namespace/groups_record.h"

/* How a copy is, in the words of storage servers (enum group_state of theirs). */
enum copy_state { COPY_CONSISTENT, COPY_STANDALONE, COPY_STALE, COPY_RECOVERING };

/* Of a copy that is not well, as its server has said last. */
struct copy_said
{
    group_number group;
    uint32_t state, set; /* enum copy_state; and which places are in sync, as bits. */
    bool serves;
    bool whole, closed, opening;
    uint32_t reaches; /* Places whose servers answer it. */
    uint64_t epoch, begun, bytes_left, bytes_given, objects_left, doubt_bytes, rate_limit;
    char trouble[MEMBERS_FAILURE_MAX];
};

/* What a server has said of groups since the manager's start. */
struct group_said
{
    bool heard;
    bool partial;  /* There may be more copies that are not well. */
    uint64_t has;  /* Version of the table on its disk; of a newer one than there is: 0. */
    uint64_t sent; /* Of the table that it was answered with; 0: none. It may have that now. */
    size_t count;
    struct copy_said *copies; /* The owner's. */
};

struct group_roll
{
    struct group_said said[SERVERS_MAX]; /* By place among the members. */
};

/* NULL: it has not named that copy: it is well, unless it was not heard or told but a part. */
const struct copy_said *group_roll_said(const struct group_said *said, group_number group);

/* What two servers share at most; the least first. */
enum sharing { SHARE_NOTHING, SHARE_HOST, SHARE_DISK, SHARINGS };
enum sharing group_roll_sharing(const struct member *a, const struct member *b);

/* Has it space for what is new? */
bool group_roll_has_space(const struct member *m);

/* `next` is `now` with groups of `copies` wanted, and all that are missing for the servers that are up.
 * False: nothing is missing, it is no time to plan, there are fewer servers than copies, or
 * GROUPS_KEPT_MAX or SERVER_GROUPS_MAX are reached; `next` is `now`. */
bool group_roll_plan(const struct groups_record *now, const struct members *members,
                     uint32_t copies, struct groups_record *next);

/* Have all its servers said that they have it? */
bool group_roll_told(const struct group_roll *roll, const struct members *members,
                     const struct group_made *group);

/* Choose for `inode` up to `width` different groups of `copies` servers; returns how many. */
uint32_t group_roll_choose(const struct groups_record *record, const struct members *members,
                           inode_id inode, uint32_t copies, uint32_t width,
                           group_number chosen[STRIPE_WIDTH_MAX]);

#endif
