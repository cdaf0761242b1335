/* The voter set: who may vote (common/vote/voter.h), and how that changes, by one voter at a time.
 *
 * Pure: events in, actions out; the event carries the time.
 *
 *          wanted is another set          enough of the old set           a majority of the new set
 *                                          was read to its end             holds what was read
 *   IDLE ----------> PLANNING --PERSISTED--> READING ----------> WRITING ----------> COMMITTING
 *    ^                  ^                      |                    |                    |
 *    |                  +---- what it does is not wanted any more --+                    |
 *    +------------------------------- PERSISTED: the new set is in effect ---------------+
 *
 * Rules (tests/model/voters_model.py; canaries of sim/votes):
 *  - carryover: the new set is in effect when a majority of it holds every vote of a majority of the
 *    old one, and not before; where one is taken out that will never answer again, of so many that
 *    each majority has one of them (voter_half());
 *  - seal: who was read or written answers no candidate of an older set (voter.h);
 *  - each plan has a version of its own, which is on disk before anybody hears of it, so that late
 *    answers are never taken for those to another one. A plan that is given up, as each is that is
 *    found at a start, was never in effect: the next one starts from the same old set, if only to
 *    give that set a version above, which those answer who were sealed.
 *
 * Who is to go goes before who is to come, and who will never answer again before all others: so
 * one lost voter of three can be replaced, and one of two: what two have decided each of them knows,
 * and the one that is left decides nothing with the other any more. (Unless what it knows was put back
 * from before; then nobody is there to say so.)
 *
 * Fixed memory, but for what is gathered: VOTE_SUBJECTS_MAX records. */
#ifndef MORSEL_META_CLUSTER_VOTERS_H
#define MORSEL_META_CLUSTER_VOTERS_H

#include "common/vote/voter.h"
#include "meta/namespace/voters_record.h"

enum {
    VOTERS_RETRY_MS = 500,
    VOTERS_ACTIONS_MAX = VOTERS_MAX + 1 /* A word to each, or one other thing. */
};

enum voters_state {
    VOTERS_IDLE,
    VOTERS_PLANNING,
    VOTERS_READING,
    VOTERS_WRITING,
    VOTERS_COMMITTING
};

/* How far one voter is. */
struct voters_place
{
    struct vote_subject after; /* It was read, or has been written, up to there. */
    bool done;
};

struct voters
{
    struct voters_record now; /* What is on disk, but while it is made durable. */
    struct voter_set wanted;  /* Its version means nothing. */
    voter_id gone;            /* Will never answer again; 0: none is known. */
    enum voters_state state;
    uint64_t version_seen; /* A voter knows of this; above `version_last`: we have an old record. */
    uint64_t due_ms;
    uint32_t page_max;
    struct voter *gathered; /* Of READING and WRITING. */
    uint32_t done_count;
    struct voters_place places[VOTERS_MAX]; /* By place in the set that is read or written. */
};

enum voters_event_type { VOTERS_WANT, VOTERS_PERSISTED, VOTERS_ANSWERED, VOTERS_TICK };

struct voters_event
{
    uint64_t now_ms; /* Monotonic. */
    enum voters_event_type type;
    union {
        struct
        {
            const struct voter_set *set; /* Valid, but for its version. */
            voter_id gone;               /* A voter that is to be removed first; 0: none. */
        } want;
        bool failed; /* Of PERSISTED. */
        struct
        {
            struct vote_answer answer;         /* ACCEPTED, or why not. */
            uint64_t version;                  /* Of the question, */
            bool carry;                        /* like these two. */
            struct vote_subject after;         /* From where on. */
            const struct vote_record *records; /* Of a READ; valid, ascending. */
            uint32_t count;                    /* Fewer than `page_max`: these were the last. */
        } answered;
    };
};

struct voters_action
{
    enum {
        VOTERS_PERSIST, /* Make `now` durable, then say PERSISTED. One at a time. */
        VOTERS_READ,    /* Ask `voter` (VOTER_READ) for the page behind `after`. */
        VOTERS_CARRY,   /* Give `voter` (VOTER_CARRY) the page of `gathered` behind `after`. */
        VOTERS_CHANGED  /* Another set is in effect: tell everybody. */
    } type;
    voter_id voter;
    uint64_t version;
    struct vote_subject after;
};

struct voters_actions
{
    uint32_t count;
    struct voters_action items[VOTERS_ACTIONS_MAX];
};

/* `record` is what is on disk; pages have at most `page_max` records. Deliver a TICK at once: it
 * takes up a change that was under way. */
void voters_init(struct voters *v, const struct voters_record *record, uint32_t page_max);
void voters_free(struct voters *v);

/* Advance by one event; what the host must do next is appended to `out`, in order. */
void voters_step(struct voters *v, const struct voters_event *event, struct voters_actions *out);

/* When VOTERS_TICK is due; UINT64_MAX: never. Ask again after each step. */
uint64_t voters_deadline_ms(const struct voters *v);

#endif
