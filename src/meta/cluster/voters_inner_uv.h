/* The host of the voter set, of which its files share this: voters_host_uv.c carries out what the core says,
 * voters_ask_uv.c asks the daemons, voters_told_uv.c says what the set is. */
#ifndef MORSEL_META_CLUSTER_VOTERS_INNER_UV_H
#define MORSEL_META_CLUSTER_VOTERS_INNER_UV_H

#include "meta/cluster/voters_uv.h"

struct voters_host
{
    struct meta *meta;
    struct voters voters;
    struct voter_roll roll;
    struct list asked;
    uv_timer_t timer;
    bool stepping;
    bool old_logged;
    server_id refused; /* The last that named the voter of another one, ... */
    voter_id refused_voter;
    void (*closed)(struct meta *meta);

    /* PERSIST. */
    struct sync_waiter waiter;
    bool not_written; /* To be said behind the step that is under way. */

    /* The manager's own voter. */
    struct voter_question own;
    struct voters_action own_question;
    bool own_asked, own_answered;
    struct vote_answer own_answer;

    /* What is told. */
    uint64_t mark, mark_set, mark_members; /* Of this version, and that of the members. */
};

/* One event of the core, NULL: none, and all that follows from it. Not from within a step. */
void voters_advance(struct voters_host *h, struct voters_event *event);

/* Put the core's question to a daemon, if it is there. What gets lost is asked again by the core. */
void voters_ask(struct voters_host *h, server_id server, const struct voters_action *action);

/* Nobody is asked anything any more. */
void voters_ask_end(struct voters_host *h);

#endif
