/* What the manager's store keeps of groups of servers that hold the same objects (record Q): all that
 * were ever made, who holds their places, for which numbers of copies there are to be some, and which
 * servers are to leave all of theirs.
 *
 * Pure. Decoding trusts nothing, as in record.h. Groups are added and never taken away. Each names the
 * version of the table in which it came, and that in which it was changed last, so that a server which
 * has that version on its disk has the group as it is. Who holds a place may change (group_mend.h):
 *
 *   held --vacated--> vacant --assigned--> held by another one, since the version of that
 *
 * Who lost its place is a *former* holder until the group is well again: it is told the group as it was
 * when the place was vacated, and keeps its copy.
 *
 * A record of version 1, which older managers wrote, means: no place is vacant or was given anew; one of
 * version 2: no copy was ever named; one of version 3: space was never evened out. */
#ifndef MORSEL_META_NAMESPACE_GROUPS_RECORD_H
#define MORSEL_META_NAMESPACE_GROUPS_RECORD_H

#include "common/base/buf.h"
#include "common/fs/placing.h"

enum {
    GROUPS_RECORD_VERSION = 4,
    GROUPS_KEPT_MAX = 4096,
    GROUP_FORMERS_MAX = 4 /* Of a group that is not well; behind that nobody loses a place. */
};

/* Who holds the places of a group: what its members are told. */
struct group_holders
{
    uint32_t count;                  /* Places: 2 or 3. */
    server_id servers[REPLICAS_MAX]; /* By place; 0: vacant, and behind the last place. */
    uint64_t since[REPLICAS_MAX];    /* Version with which it was given away, or vacated. */
    uint32_t leaving;                /* Places, as bits, whose servers are to leave the set. */
};

struct group_former
{
    server_id server;
    uint32_t place;           /* Which it held. */
    struct group_holders was; /* As it was told last. */
};

struct group_made
{
    group_number number;
    uint32_t copies; /* So many are wanted: 2 or 3. A group of 2 may have 3 places. */
    struct group_holders now;
    uint64_t restored
        [REPLICAS_MAX];    /* By place: the version with which a former holder got it back, who was
                                        told the group as it had been before; 0: it did not. */
    uint64_t version;      /* Of the table in which it came. */
    uint64_t changed;      /* In which it is as it is now, for any of its servers. */
    uint64_t forced;       /* In which one copy was named as the one that counts; 0: never. */
    uint32_t forced_place; /* Whose it is. */
    uint64_t forced_s;     /* When, since 1970; 0: all copies have been complete since. */
    server_id moves_from, moves_to; /* Space is evened out: the copy of the one is to go to the
                                       other (rebalance.h); 0: none is. */
    uint64_t moves_bytes;           /* So much, when that was planned. */
    bool told; /* All its servers have said that they have it on disk: files may lie on it. */
    uint32_t formers_count;
    struct group_former formers[GROUP_FORMERS_MAX]; /* The last that lost its place comes last. */
};

/* A server that is to leave all its groups, and gets nothing new. */
struct group_leaver
{
    server_id server;
    server_id to; /* Who is to take its places, if it can; 0: anybody. */
};

/* What was planned last to even out space, and what came of it. What groups still say (moves_from) is to
 * come; the rest has been moved. */
struct groups_rebalance
{
    uint64_t began_s; /* Since 1970; 0: never. */
    uint32_t moves;
    uint64_t bytes;
    uint32_t given_up; /* Of these: stopped, or there was no way any more. */
    uint64_t given_up_bytes;
};

struct groups_record
{
    uint64_t version; /* Grows with each change; 0: there never was a group. */
    uint32_t wanted;  /* Bit k: groups of k servers are to be made. */
    bool paused;      /* Servers that are away are not replaced unless somebody says so. */
    uint32_t leavers_count;
    struct group_leaver leavers[SERVERS_MAX]; /* Ascending by server. */
    struct groups_rebalance rebalance;
    uint32_t count;
    struct group_made items[GROUPS_KEPT_MAX]; /* Ascending by number. */
};

/* NULL: there is none of this number. */
const struct group_made *groups_record_find(const struct groups_record *record,
                                            group_number number);

/* The place that the server holds; the number of places: none. */
uint32_t group_place(const struct group_made *group, server_id server);

/* NULL: it did not lose a place, or the group has been well since. */
const struct group_former *group_former_find(const struct group_made *group, server_id server);

/* Has the server a copy of the group, or had it one that it keeps until the group is well? */
bool group_concerns(const struct group_made *group, server_id server);

/* Is a copy of it to move, of which nothing is to be seen yet? */
bool group_move_waits(const struct group_made *group);
/* No copy of it is to move any more. */
void group_move_end(struct group_made *group);

/* The first of its places that is held: who orders changes while all is well. */
server_id group_first_held(const struct group_made *group);

/* NULL: it may stay. */
const struct group_leaver *groups_leaver_find(const struct groups_record *record, server_id server);

void groups_record_encode(const struct groups_record *record, struct buf *out);

/* MORSEL_CORRUPT, MORSEL_VERSION: `record` is zero. */
int groups_record_decode(struct slice bytes, struct groups_record *record);

/* Would it decode? For who has no room for one. */
int groups_record_check(struct slice bytes);

#endif
