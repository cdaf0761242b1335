/* A candidate: the proposer of single-decree Paxos for one subject and epoch (vote.h).
 *
 * Pure: events in, actions out; each event carries the time, and what is random comes from a seed.
 *
 *              +-------------- no majority in time, outbid: back off, a higher ballot --------+
 *              v                                                                              |
 *   NEW --> PREPARING -- a majority has promised --> ACCEPTING -- a majority has voted --> DECIDED
 *              |                                         |
 *              +------ somebody knows what is decided ---+---> DECIDED
 *              +------ nobody can have voted, and it only asks ---> NOTHING
 *              +------ its time is over ---> GIVEN_UP
 *
 * Rules: it counts answers of one ballot among one voter set; a vote that may have been given by a
 * majority (the one of the highest ballot among the promises) is finished before its own value; no
 * two candidates, nor two lives of one, have the same ballot.
 *
 * DECIDED names the epoch whose value it is, which is later than the one that was asked for when
 * others have gone on. After GIVEN_UP its value may still be decided, by whoever comes next: ask
 * again before you go on as if it were not.
 *
 * It begins a new ballot when too many voters cannot answer or the ballot's time is over. The times
 * double, so that voters which take long to sync are waited for, and the pauses are random, so that
 * candidates do not outbid each other for ever. */
#ifndef MORSEL_COMMON_VOTE_CANDIDATE_H
#define MORSEL_COMMON_VOTE_CANDIDATE_H

#include "common/base/prng.h"
#include "common/vote/vote.h"

enum {
    CANDIDATE_BALLOT_MS_MIN = 250, /* For one ballot: two round trips, two syncs each. */
    CANDIDATE_BALLOT_MS_MAX = 2000,
    CANDIDATE_PAUSE_MS_MIN = 20, /* The first pause is shorter than that. */
    CANDIDATE_PAUSE_MS_MAX = 2000,
    CANDIDATE_ACTIONS_MAX = 2
};

/* Who stands, for what, among whom. */
struct candidate_setup
{
    uint64_t number; /* Random, drawn for this candidate alone, not 0: its ballots bear it. */
    uint64_t seed;
    struct vote_subject subject;
    uint64_t epoch;           /* From 1. */
    struct vote_value before; /* What is decided for `epoch` - 1; none if that is 0. */
    struct vote_value value;  /* None: it only asks what has been decided. */
    uint64_t give_up_ms;
};

enum candidate_state {
    CANDIDATE_NEW,
    CANDIDATE_PREPARING,
    CANDIDATE_ACCEPTING,
    CANDIDATE_PAUSING,
    CANDIDATE_ENDED
};

enum candidate_outcome { CANDIDATE_DECIDED, CANDIDATE_NOTHING, CANDIDATE_GIVEN_UP };

struct candidate
{
    struct candidate_setup setup;
    const struct voter_set *voters;
    struct prng prng;
    enum candidate_state state;
    uint64_t due_ms;                 /* The end of the ballot or of the pause. */
    uint32_t ballots;                /* Begun. */
    uint64_t round_seen;             /* The highest that anybody has promised. */
    struct vote_ballot ballot, best; /* best: the highest among the promises; round 0: none. */
    struct vote_value value;         /* What the ballot is for. */
    uint32_t yes, no;                /* Voters that answered in this state. */
    uint8_t answered[VOTERS_MAX];    /* By place in the set. */
};

enum candidate_event_type {
    CANDIDATE_START,
    CANDIDATE_VOTERS, /* There is a newer voter set: it begins again, among that. */
    CANDIDATE_ANSWER, /* Of any voter to anything that this or another candidate has asked. */
    CANDIDATE_TICK
};

struct candidate_event
{
    uint64_t now_ms; /* Monotonic. */
    enum candidate_event_type type;
    union {
        const struct voter_set *voters; /* Of START and VOTERS; valid. Borrowed until the next, or
                                           the end. */
        const struct vote_answer *answer;
    };
};

struct candidate_action
{
    enum {
        CANDIDATE_SEND, /* `request` to every voter of the set, with its name as `voter`. */
        CANDIDATE_END   /* Always the last. */
    } type;
    struct vote_request request;
    enum candidate_outcome outcome;
    uint64_t epoch; /* Of DECIDED: that of `value`, which is not below the one that it stood for. */
    struct vote_value value;
};

struct candidate_actions
{
    uint32_t count;
    struct candidate_action items[CANDIDATE_ACTIONS_MAX];
};

void candidate_init(struct candidate *c, const struct candidate_setup *setup);

/* Advance by one event; what the host must do next is appended to `out`, in order. Answers to
 * others, of old ballots and behind the end are harmless. */
void candidate_step(struct candidate *c, const struct candidate_event *event,
                    struct candidate_actions *out);

/* When CANDIDATE_TICK is due; UINT64_MAX: never. Ask again after each step. */
uint64_t candidate_deadline_ms(const struct candidate *c);

#endif
