/* Votes that this server's groups want: candidates (candidate.h), with their questions on the wire.
 *
 * At most one of each group. Who votes is the voter set that the manager has told last: the manager
 * itself, other servers, each on a connection of its own, and our own voter, without the wire. The
 * subject of a vote is the group's number, its value the in-sync set, one byte. */
#ifndef MORSEL_IOD_REPLICA_BALLOTS_UV_H
#define MORSEL_IOD_REPLICA_BALLOTS_UV_H

#include "common/fs/placing.h"
#include "common/rpc/rpc_uv.h"
#include "common/vote/candidate.h"
#include "common/vote/voter_uv.h"
#include "iod/replica/group.h"

#include "common/base/table.h"

enum {
    BALLOT_GIVE_UP_MS = 10000,
    BALLOT_CALL_MS = 2000,
    BALLOT_CALLS_MAX = 4096 /* Questions without an answer; more are not asked. */
};

struct ballot;
struct elector;

struct ballots
{
    /* The owner's; all else is zero. */
    struct rpc *rpc;
    struct log *log;
    struct voter_uv *voter; /* Our own. */
    struct rpc_peer *manager;
    /* The set that we know, or NULL. */
    const Morsel__VoterSet *(*voters)(void *voters_data);
    void *voters_data;
    /* Set `set` was decided for `epoch`. */
    void (*decided)(void *data, group_number group, uint64_t epoch, group_set set);
    void *data;

    struct ballot *table; /* By group. */
    struct elector *electors;
    uint32_t calls;
    bool closing;
};

/* For `set` (0: only what is decided is asked for) in `epoch`; `before` was decided for the one
 * before. In place of another one of this group. */
void ballots_begin(struct ballots *b, group_number group, uint64_t epoch, group_set set,
                   group_set before);
void ballots_end(struct ballots *b, group_number group);

/* When ballots_tick() is due, on rpc_boot_ms(). */
uint64_t ballots_due_ms(const struct ballots *b);
void ballots_tick(struct ballots *b, uint64_t now_ms);

/* Another voter set may be there. */
void ballots_voters_changed(struct ballots *b);

/* The connection to a voter that is no server of ours; NULL: it is the manager's, or unknown. For who
 * asks voters other things. */
struct rpc_peer *ballots_voter(struct ballots *b, const Morsel__Voter *voter);

void ballots_close(struct ballots *b);
void ballots_free(struct ballots *b); /* After the loop has ended. */

#endif
