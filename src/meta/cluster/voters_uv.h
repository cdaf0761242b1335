/* The host of the voter set (voters.h, voter_roll.h): which I/O daemons vote beside the manager, kept
 * in the database, changed by asking the voters, and told to the daemons.
 *
 *   heartbeat: "I vote as X" -> roll -> WANT -> PERSIST: OP_VOTERS, synced
 *                                            -> READ, CARRY: VOTES_READ, VOTES_CARRY to the daemons, and
 *                                               to the manager's own voter without the wire
 *   answer to a heartbeat    <- the set in effect, to those who have another one on their disks
 *
 * The connections to the daemons are made for a change and closed behind it. Only who is up is asked;
 * the core asks again and again, so nothing is waited for here, and nobody who asks the manager
 * anything waits for a change.
 *
 * What is told is on disk: while a set is made durable none is told. */
#ifndef MORSEL_META_CLUSTER_VOTERS_UV_H
#define MORSEL_META_CLUSTER_VOTERS_UV_H

#include "meta/cluster/voter_roll.h"
#include "meta/cluster/voters.h"
#include "meta/meta_uv.h"

/* Read the set from the database, or begin with the manager as the only voter, which is on disk then.
 * The manager's own voter is open. On failure with one sentence in `err`; voters_host_free() is
 * harmless then. */
int voters_host_open(struct meta *meta, struct errmsg *err);

/* Take up a change that was under way. */
void voters_host_start(struct meta *meta);

/* The manager closes: no change goes on. `closed` runs once, later. */
void voters_host_close(struct meta *meta, void (*closed)(struct meta *meta));

/* After the loop has ended. */
void voters_host_free(struct meta *meta);

/* `server`, which was admitted, votes as `voter`; 0: it does not say. */
void voters_heard(struct meta *meta, server_id server, voter_id voter);

/* Are so many voters of the set in effect there that they can decide something? */
bool voters_can_decide(const struct meta *meta);

/* Can the vote of that server be taken out of the set without it, or has it none? 0, or MORSEL_INVAL with words: too few
 * others are there to agree. */
int voters_may_lose(const struct meta *meta, server_id server, struct errmsg *err);

/* The server was removed from the cluster, which is durable: its vote is taken out. */
void voters_removed(struct meta *meta, server_id server);

/* Of the set in effect; 0: none is told just now. */
uint64_t voters_mark(struct meta *meta);

/* The set in effect as it goes over the wire, for voters_told_free(). NULL: no memory, or none is told
 * just now. */
Morsel__VoterSet *voters_told(struct meta *meta);
void voters_told_free(Morsel__VoterSet *told); /* NULL is allowed. */

/* For `morsel status`: the manager first, then by server. Its voters are in `voters` and `pointers`, VOTER_ROLL_MAX of each. */
void voters_status_fill(struct meta *meta, Morsel__VotersStatus *status,
                        Morsel__VoterStatus *voters, Morsel__VoterStatus **pointers);

#endif
