/* The roll of voters: as whom each server votes, and which voter set follows from that.
 *
 * Pure. The manager and every storage server that was admitted and has named its voter are to vote.
 * A server that has lost its votes names another one: the old one will never answer again, and its
 * place goes to the new one.
 *
 *            heard                in effect              heard under another id
 *   nobody --------> VOTER_JOINS -----------> VOTER_VOTES ---------------------> VOTER_LOST
 *                         |                                                          |
 *                         +-- heard under another id --> nobody <--- out of the set -+
 *
 * Who is silent keeps its place: it has its votes, and comes back with them. The votes of a server that
 * was removed from the cluster count as lost.
 *
 * Invariants: each server has one voter that is not lost at most, and each voter one server.
 *
 * Fixed memory. */
#ifndef MORSEL_META_CLUSTER_VOTER_ROLL_H
#define MORSEL_META_CLUSTER_VOTER_ROLL_H

#include "meta/namespace/voters_record.h"

enum { VOTER_ROLL_MAX = VOTERS_MAX + VOTER_SEATS_MAX }; /* One a server, and those in the record. */

enum voter_state {
    VOTER_VOTES, /* Is in the set. */
    VOTER_JOINS, /* Is to come into it. */
    VOTER_LOST   /* Is in it, and its votes are gone. */
};

struct voter_roll_item
{
    voter_id id;
    server_id server; /* 0: the manager. */
    bool lost;        /* The server votes as somebody else, or was removed. */
};

struct voter_roll
{
    uint32_t count;
    struct voter_roll_item items[VOTER_ROLL_MAX]; /* Ascending by id. */
};

/* From what is on disk. */
void voter_roll_init(struct voter_roll *roll, const struct voters_record *record,
                     const struct voter_seats *seats);

enum voter_news {
    VOTER_SAME,    /* Known. */
    VOTER_NEW,     /* The server votes from now on... */
    VOTER_CHANGED, /* ... under a new id: what it has voted is lost. */
    VOTER_REFUSED  /* The id belongs to another server, or there are VOTERS_MAX. */
};

/* `server` votes as `id`, which is not 0. What was lost and is not in the record is forgotten. */
enum voter_news voter_roll_hear(struct voter_roll *roll, const struct voters_record *record,
                                server_id server, voter_id id);

/* The server was removed from the cluster. False: it did not vote. It is never heard again. */
bool voter_roll_remove(struct voter_roll *roll, const struct voters_record *record,
                       server_id server);

/* The set as it is to be, without version, and somebody in `now` who will never answer again; 0:
 * nobody. For VOTERS_WANT. */
void voter_roll_wanted(const struct voter_roll *roll, const struct voter_set *now,
                       struct voter_set *wanted, voter_id *gone);

/* The server that the voter is, or was. False: nobody's. */
bool voter_roll_server(const struct voter_roll *roll, voter_id id, server_id *server);

/* Seats of all that are in the record. */
void voter_roll_seats(const struct voter_roll *roll, const struct voters_record *record,
                      struct voter_seats *seats);

/* What is lost and in the record no longer is forgotten: behind each change. */
void voter_roll_prune(struct voter_roll *roll, const struct voters_record *record);

/* `set` is the one in effect. */
enum voter_state voter_roll_state(const struct voter_roll_item *item, const struct voter_set *set);

#endif
