/* Words of the vote: what candidates (candidate.h) and voters (voter.h) say to each other.
 *
 * For each subject, a group of storage servers, the epochs 1, 2, 3 ... are decided one behind the
 * other, each by one single-decree Paxos (Lamport, "Paxos made simple", 2001). What is decided is a
 * value, a short string of bytes that means nothing here: the next in-sync set (replication.md).
 * Who has a part in the epoch before names that epoch's value with everything that it asks, so that
 * a voter which has missed a decision learns of it then, and one record for each subject is enough.
 *
 * Pure: types, and what compares them. */
#ifndef MORSEL_COMMON_VOTE_VOTE_H
#define MORSEL_COMMON_VOTE_VOTE_H

#include "common/base/limits.h"
#include "common/base/types.h"

#include <string.h>

enum {
    VOTE_VALUE_BYTES_MAX = 64,   /* An in-sync set, its order, and what else belongs to it */
    VOTE_SUBJECTS_MAX = 1 << 16, /* Groups of one cluster: each voter has a record of each */
    VOTE_PAGE_MAX = 32,          /* Records in one message of a change of the voter set */
    VOTERS_MAX = SERVERS_MAX + 1 /* All storage servers, and the manager */
};

static_assert(VOTE_VALUE_BYTES_MAX >= REPLICAS_MAX * sizeof(server_id), "an in-sync set fits");

/* Numbers that no honest history comes near. What is not below is nonsense, and is refused: it
 * could never be outdone. */
#define VOTE_EPOCH_END   ((uint64_t)1 << 48)
#define VOTE_ROUND_END   ((uint64_t)1 << 48)
#define VOTE_VERSION_END ((uint64_t)1 << 48)

/* A store of votes: random, made with it, never 0. A voter that has lost its votes has a new one. */
typedef uint64_t voter_id;

/* A group: the ids of its servers, ascending, without 0; behind them zeros. */
struct vote_subject
{
    server_id servers[REPLICAS_MAX];
};

struct vote_value
{
    uint32_t count; /* At most VOTE_VALUE_BYTES_MAX; 0: none. */
    uint8_t bytes[VOTE_VALUE_BYTES_MAX];
};

/* Ballots are ordered by round and then by candidate. A candidate's number is drawn for each of its
 * lives, so that no two ballots are ever the same, also of one that has forgotten what it began. */
struct vote_ballot
{
    uint64_t round; /* From 1; 0: none. */
    uint64_t candidate;
};

/* All that a voter knows of a subject. The vote that is open is the one for `decided_epoch` + 1. */
struct vote_record
{
    uint64_t decided_epoch;      /* The newest of which it knows the value; 0: none is decided. */
    struct vote_ballot promised; /* It answers no ballot below. */
    struct vote_ballot ballot;   /* In which it gave its vote last; round 0: never. */
    struct vote_subject subject;
    struct vote_value decided; /* For `decided_epoch`. */
    struct vote_value value;   /* For what it gave its vote. */
};

/* The voters in effect. Changes by one at a time, and `version` grows with each change. */
struct voter_set
{
    uint64_t version;         /* From 1. */
    uint32_t count;           /* 1 to VOTERS_MAX. */
    voter_id ids[VOTERS_MAX]; /* Ascending. */
};

enum vote_request_type {
    VOTE_PREPARE, /* Will you answer no ballot below this one, and what have you voted for? */
    VOTE_ACCEPT,  /* Give your vote to `value`. */
    VOTE_LEARN    /* `value` is decided. */
};

struct vote_request
{
    voter_id voter;            /* Whom it is for. */
    uint64_t set_version;      /* The voter set in which the candidate counts. */
    uint64_t epoch;            /* From 1. */
    struct vote_ballot ballot; /* Of LEARN: by which it was decided, which nobody looks at. */
    enum vote_request_type type;
    struct vote_subject subject;
    struct vote_value before; /* What is decided for `epoch` - 1; none if that is 0. */
    struct vote_value value;  /* Of ACCEPT and LEARN. */
};

enum vote_answer_type {
    VOTE_PROMISED, /* `ballot` is promised; `voted`, `value`: its vote so far. */
    VOTE_ACCEPTED, /* The vote is given. */
    VOTE_OUTBID,   /* `voted` is promised, which is not below `ballot`. */
    VOTE_KNOWN,    /* `value` is decided for `epoch`, which is not below the one in question. */
    VOTE_OLD_SET,  /* It knows of the voter set `set_version`, which is newer. */
    VOTE_NOT_ME,   /* Whom it was for is not here any more. */
    VOTE_NO_ROOM,  /* The disk or the memory is full, or too much is under way: later. */
    VOTE_NONSENSE  /* Nobody who follows the rules asks this. */
};

struct vote_answer
{
    enum vote_answer_type type;
    voter_id voter; /* To whom the request was addressed, who answers unless it is NOT_ME. */
    struct vote_ballot ballot; /* Of the request. */
    struct vote_ballot voted;
    uint64_t epoch;
    struct vote_value value;
    uint64_t set_version; /* The newest that the voter knows. */
};

/* Negative, 0 or positive. */
static inline int vote_ballot_compare(struct vote_ballot a, struct vote_ballot b)
{
    if (a.round != b.round) {
        return a.round < b.round ? -1 : 1;
    }
    return a.candidate < b.candidate ? -1 : a.candidate > b.candidate;
}

static inline bool vote_value_equal(const struct vote_value *a, const struct vote_value *b)
{
    return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

static inline int vote_subject_compare(const struct vote_subject *a, const struct vote_subject *b)
{
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        if (a->servers[i] != b->servers[i]) {
            return a->servers[i] < b->servers[i] ? -1 : 1;
        }
    }
    return 0;
}

/* So many are more than a half. */
static inline uint32_t voter_majority(uint32_t count)
{
    return count / 2 + 1;
}

/* Each majority has one of so many: who has heard them knows all that was decided, and who has their word that they answer nobody any more
 * knows that nothing will be. Of an even number that is one less than a majority. */
static inline uint32_t voter_half(uint32_t count)
{
    return count - count / 2;
}

/* Are these what honest candidates and voters make? For what comes from the wire or a disk. */
bool vote_subject_valid(const struct vote_subject *subject);
bool vote_record_valid(const struct vote_record *record);
bool vote_request_valid(const struct vote_request *request);
bool voter_set_valid(const struct voter_set *set);

/* Where it stands in the set; `count` of the set: not in it. */
uint32_t voter_set_find(const struct voter_set *set, voter_id id);

/* Take over what another voter has voted, as it is carried from one voter set to the next. The
 * later decision counts; for the same vote, the vote of the higher ballot. False: nothing new. */
bool vote_record_merge(struct vote_record *record, const struct vote_record *from);

#endif
