/* A voter: the acceptor of single-decree Paxos, for every subject and epoch (vote.h), while the set
 * of voters changes by one at a time.
 *
 * Pure: events in, actions out. What it says it has on disk: an answer leaves only behind PERSISTED.
 * For each subject it has one record:
 *
 *              PREPARE, above what is promised           ACCEPT, not below what is promised
 *   nothing ---------------------------------> promised ------------------------------------> voted
 *      ^                                        |    ^------- PREPARE, above ------------------+ |
 *      +------- `before` of a later epoch, LEARN: decided, and the next epoch is open <----------+
 *
 * A later epoch takes the place of all before: who asks for it names what was decided before, so
 * nothing that may be decided is forgotten, and there is never more than a record for each subject.
 *
 * Rules, as tests/model/voters_model.py has them; each is a canary of sim/votes:
 *  - persist: an answer counts on what is on disk;
 *  - version: ballots name their voter set, and who knows a newer one answers none of an older;
 *  - seal: who was read or written for a change of the set knows of the new one from then on;
 *  - carryover: a new set is in effect when a majority of it holds what a majority of the old one
 *    has voted (whoever changes the set sees to that, by READ and CARRY);
 *  - revote: who has lost its votes has a new id; what is for the old one is refused.
 *
 * A LEARN of any set is believed: what is decided is decided. A record that could not be written is
 * in memory all the same. That is harmless: it promises more than was said, and everything that is
 * granted is written (again) before it is said.
 *
 * Bounded: VOTE_SUBJECTS_MAX records, VOTER_PENDING_MAX answers that wait for the disk. */
#ifndef MORSEL_COMMON_VOTE_VOTER_H
#define MORSEL_COMMON_VOTE_VOTER_H

#include "common/vote/vote.h"

enum { VOTER_PENDING_MAX = 64, VOTER_ACTIONS_MAX = VOTER_PENDING_MAX + 1 };

struct voter;

enum voter_event_type {
    VOTER_ASKED,    /* A candidate asks. */
    VOTER_READ,     /* For the voter set `version`: a page of the votes. */
    VOTER_CARRY,    /* Votes of the set before `version`. */
    VOTER_PERSISTED /* What had been popped up to `number` is on disk, or could not be written. */
};

struct voter_event
{
    enum voter_event_type type;
    uint64_t tag; /* The host's name for the question; comes back with its answer. */
    union {
        const struct vote_request *request; /* Of ASKED; valid. */
        struct
        {
            voter_id voter; /* Whom it is for. */
            uint64_t version;
            const struct vote_record *records; /* Of CARRY; valid. */
            uint32_t count;                    /* 0: only seals. */
        } change;
        struct
        {
            uint64_t number;
            bool failed;
        } persisted;
    };
};

struct voter_action
{
    enum {
        VOTER_PERSIST, /* Pop and write what has changed, then say PERSISTED(number). */
        VOTER_ANSWER   /* Answer `tag`. To READ and CARRY: type ACCEPTED is yes, and for READ the
                          page that is asked for is what voter_page() gives now. */
    } type;
    uint64_t number;
    uint64_t tag;
    struct vote_answer answer;
};

struct voter_actions
{
    uint32_t count;
    struct voter_action items[VOTER_ACTIONS_MAX];
};

/* Who has no vote. `id` is not 0; `set_version` the newest that it knows, 0: none. NULL: out of
 * memory. */
struct voter *voter_new(voter_id id, uint64_t set_version);
void voter_free(struct voter *v); /* NULL is allowed. */

/* At the start: what is on disk, in any order; a later one of a subject takes the place of an
 * earlier one. False: out of memory, or more than VOTE_SUBJECTS_MAX. */
bool voter_load(struct voter *v, const struct vote_record *record);

/* For whoever gathers the votes of others (meta/cluster/voters.h): take over what is newer
 * (vote_record_merge()). False: as above. */
bool voter_gather(struct voter *v, const struct vote_record *record);

/* Advance by one event; what the host must do next is appended to `out`, in order. */
void voter_step(struct voter *v, const struct voter_event *event, struct voter_actions *out);

/* What has changed and was not popped. The host takes all at once, writes them with
 * voter_set_version(), and says PERSISTED with the highest number that it was given before. False:
 * nothing more. */
bool voter_pop(struct voter *v, struct vote_record *record);

/* At most `limit` records of subjects above `after`, ascending; returns how many. */
uint32_t voter_page(const struct voter *v, const struct vote_subject *after, uint32_t limit,
                    struct vote_record *records);

voter_id voter_name(const struct voter *v);
uint64_t voter_set_version(const struct voter *v);
uint32_t voter_count(const struct voter *v);

#endif
