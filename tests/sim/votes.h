/* The votes scenario: what its voters (votes_voter.c), candidates (votes_member.c), the manager that
 * changes the voter set (votes_manager.c) and the judge (votes_judge.c) share. */
#ifndef MORSEL_TESTS_SIM_VOTES_H
#define MORSEL_TESTS_SIM_VOTES_H

#include "common/vote/candidate.h"
#include "common/vote/voter.h"
#include "meta/cluster/voters.h"
#include "tests/sim/sim.h"

enum {
    MANAGER = 0,
    SERVERS_COUNT_MAX = 5,
    NODES_MAX = 1 + SERVERS_COUNT_MAX,
    SUBJECTS = 3,
    EPOCHS_MAX = 256,
    SETS_MAX = 512, /* Versions of the voter set. */
    PAGE_MAX = 2,
    HEARTBEAT_MS = 200,
    SYNC_MS_MAX = 25,
    STAND_MS_MAX = 700,    /* Members stand every now and then. */
    GIVE_UP_MS_MAX = 5000, /* And give up, */
    ASK_AGAIN_MS_MAX = 2500,
    ASK_MS = 9000,      /* but not where all is well. */
    STANDING_MS = 2500, /* Behind the healing nobody stands any more, but all still ask. */
    QUESTIONS_MAX = VOTER_PENDING_MAX + 1
};

enum word { WORD_REQUEST, WORD_ANSWER, WORD_CHANGE, WORD_CHANGED, WORD_HEARTBEAT, WORD_SET };

/* A page of a change, or the answer to one. */
struct change_message
{
    voter_id voter;
    uint64_t version;
    bool carry;
    struct vote_subject after;
    uint32_t count;
    enum vote_answer_type answer; /* Of CHANGED. */
    uint64_t set_version;         /* Likewise. */
    struct vote_record records[PAGE_MAX];
};

struct vote_message
{
    enum word word;
    uint32_t subject; /* Number of it. */
    union {
        struct vote_request request;
        struct vote_answer answer;
        struct change_message change;
        voter_id id;      /* HEARTBEAT: the server's. */
        uint64_t version; /* SET: the one in effect. */
    };
};

static_assert(sizeof(struct vote_message) <= SIM_MESSAGE_BYTES_MAX, "it goes into a datagram");

/* A question that waits for the voter. */
struct question
{
    bool used;
    uint32_t from;
    struct vote_message message;
};

/* What the votes file of a node holds, or is about to. */
struct votes_disk
{
    uint64_t version;
    uint32_t count;
    struct vote_record records[SUBJECTS];
};

struct voter_host
{
    voter_id id; /* On disk. */
    struct votes_disk disk, batch;
    bool syncing;
    uint64_t batch_number; /* It covers up to there. */
    uint64_t asked_number; /* PERSIST has asked for that. */
    struct voter *voter;   /* NULL: the process is down. */
    struct question questions[QUESTIONS_MAX];
};

/* What a member of a group knows of it, and what it is doing. */
struct member
{
    bool is_member;
    uint64_t epoch; /* On disk, with its value. */
    struct vote_value value;
    uint64_t learned_epoch; /* On its way there; 0: nothing. */
    struct vote_value learned;
    bool standing;
    bool has_asked; /* In the end: and was told that nothing more is decided. */
    uint64_t began_ms, armed_ms;
    struct candidate candidate;
};

struct node_state
{
    struct voter_host voter;
    uint64_t set_version; /* That it has heard of. */
    struct member members[SUBJECTS];
};

struct manager
{
    struct voters_record disk, writing;
    bool is_writing;
    bool ready; /* The process is up. */
    struct voters voters;
    voter_id heard[NODES_MAX]; /* Ids that the nodes have told; 0: none since the start. */
    uint64_t armed_ms;
};

struct world
{
    uint32_t node_count;
    uint32_t full_permille; /* Syncs that find no room. */
    uint32_t lost_permille; /* Machines that come back without their votes. */
    struct vote_subject subjects[SUBJECTS];
    struct node_state nodes[NODES_MAX];
    struct manager manager;
    uint32_t wanted;                  /* Nodes, by bit, that are to be voters. */
    struct voter_set *sets[SETS_MAX]; /* That were in effect, by version. */
    uint64_t ids_drawn, values_drawn;
    uint64_t healed_ms; /* 0: not yet. */
    struct judge *judge;
};

/* The history was worth its time. */
enum {
    WORTH_DECIDED,
    WORTH_FINISHED_OTHERS,
    WORTH_NOTHING,
    WORTH_CHANGED,
    WORTH_GIVEN_UP_PLAN,
    WORTH_CARRIED,
    WORTH_LOST,
    WORTH_OLD_SET,
    WORTH_NOT_ME,
    WORTH_FULL
};

struct world *world_of(struct sim *s);

/* Ids of voters begin with their node: id / ID_NODE. */
enum { ID_NODE = 1 << 20 };
voter_id draw_id(struct sim *s, uint32_t node);
uint32_t node_of_id(voter_id id);

/* votes_voter.c */
void voter_host_start(struct sim *s, uint32_t node);
void voter_host_stop(struct sim *s, uint32_t node, bool machine);
void voter_host_ask(struct sim *s, uint32_t node, uint32_t from, const struct vote_message *m);

/* votes_member.c */
void members_start(struct sim *s, uint32_t node);
void members_stop(struct sim *s, uint32_t node);
void members_heard_set(struct sim *s, uint32_t node, uint64_t version);
void members_answer(struct sim *s, uint32_t node, const struct vote_message *m);

/* votes_manager.c */
void manager_start(struct sim *s);
void manager_stop(struct sim *s);
void manager_heartbeat(struct sim *s, uint32_t from, voter_id id);
void manager_answer(struct sim *s, const struct vote_message *m);

/* votes_judge.c: sees what goes out, and shares no code with the cores. */
struct judge *judge_new(void);
void judge_free(struct judge *j);
void judge_answer(struct sim *s, const struct vote_message *question,
                  const struct vote_answer *answer);
void judge_outcome(struct sim *s, uint32_t node, uint32_t subject, const struct member *m,
                   const struct candidate_action *end);
bool judge_finish(struct sim *s);

#endif
