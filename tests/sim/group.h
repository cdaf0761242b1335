/* The group scenario: what its clients (group.c), its members (group_member.c), their votes
 * (group_voter.c) and its judge (group_judge.c) share. */
#ifndef MORSEL_TESTS_SIM_GROUP_H
#define MORSEL_TESTS_SIM_GROUP_H

#include "common/vote/candidate.h"
#include "iod/replica/group.h"
#include "tests/sim/sim.h"

enum {
    REGIONS = 3, /* Each has one client that writes it, all read it. */
    GROUP_ID = 7,
    MEMBER_TICK_MS = 25,
    PERSIST_MS_MAX = 20,
    COPY_MS_MAX = 30,
    CLIENT_RETRY_MS = 150,
    CLIENT_IDLE_MS_MAX = 60,
    EPOCHS_MAX = 4096,
    FAULTS_MS = 15000,
    HEALING_MS = 15000,
    QUIET_MS = 3000 /* Before the end clients begin nothing. */
};

enum host_kind {
    HOST_WORD,
    HOST_LEASE_ASK,
    HOST_LEASE_ANSWER,
    HOST_FORWARD,
    HOST_FORWARD_ACK,
    HOST_SYNC,
    HOST_SYNCED,
    HOST_CLEAR,
    HOST_FETCH,
    HOST_BYTES,
    HOST_VOTE_REQUEST,
    HOST_VOTE_ANSWER,
    HOST_WRITE,
    HOST_FSYNC,
    HOST_READ,
    HOST_ANSWER
};

/* One for all: what a kind does not need is zero. */
struct host_message
{
    enum host_kind kind;
    uint32_t from;
    union {
        struct group_word word;
        struct vote_request request;
        struct vote_answer answer;
    };
    uint64_t start, asked_ms; /* Leases. */
    bool not_covered;
    uint64_t epoch, round, sequence;
    uint32_t region, client;
    uint64_t version, call;
    bool settled;    /* A read that may be answered by any member. */
    bool recovering; /* A fetch. */
    uint32_t mask;   /* Regions. */
    uint64_t versions[REGIONS];
    uint32_t dirty[REPLICAS_MAX];
};

/* What a member's disk holds, whatever happens. */
struct member_disk
{
    bool formatted;
    struct group_record record;
    uint64_t starts, boots;
    uint32_t intent;              /* Regions in doubt. */
    uint32_t dirty[REPLICAS_MAX]; /* Regions that changed while that member was outside. */
    uint64_t versions[REGIONS];
};

/* A change that the first member orders: one a region at a time. */
struct flight
{
    bool active;
    uint64_t version, sequence, call;
    uint32_t client;
    group_set have;
};

/* Bytes that are fetched from another member, or flushed. */
struct fetch
{
    bool active, recovering, got;
    uint32_t source;
    uint64_t epoch, round;
};

struct member
{
    struct member_disk disk;
    uint64_t versions[REGIONS]; /* In the memory of its machine. */
    struct group group;
    struct mirror_lease leases[REPLICAS_MAX];
    struct flight flights[REGIONS];
    uint64_t sequence;      /* Of the last change in this round. */
    uint64_t last[REGIONS]; /* Sequence of the last change here, in this round. */
    uint64_t sync_sequence; /* Everything up to there is being synced; 0: nothing is. */
    group_set synced;
    uint64_t sync_versions[REGIONS];
    uint64_t fsync_call[REGIONS]; /* A client waits for it; 0: none. */
    uint32_t fsync_client[REGIONS];
    bool fsync_taken[REGIONS]; /* The sync that is at work began after it came. */
    struct fetch fetch;
    bool lost; /* The judge's: it lost something, or may have, and has not been vouched for. */
};

/* A voter, and who stands beside it. */
struct voter_host
{
    struct voter *voter;
    struct vote_record popped, disk; /* Being written, and there: the group's. */
    struct candidate candidate;
    bool standing;
};

enum act { ACT_NONE, ACT_WRITE, ACT_FSYNC, ACT_READ };

struct client
{
    enum act act;
    uint32_t region;
    uint64_t call, tries, version, begun_ms;
    bool settled;
    uint64_t floor, losses; /* What a read must give at least, unless something was lost since. */
    uint64_t next_version;
};

/* What the judge knows of a region. */
struct region
{
    uint64_t sent, acked, seen, durable;
    bool writing;
    uint32_t readers; /* That rely on nobody writing. */
};

struct world
{
    uint32_t members; /* Nodes 0 ... ; then the manager, then the clients. */
    uint32_t voter;   /* The manager's node; all below are voters too. */
    uint32_t first_client;
    struct member member[REPLICAS_MAX];
    struct voter_host voters[REPLICAS_MAX + 1];
    struct voter_set voter_set;
    uint64_t cut_until_ms[REPLICAS_MAX + 1][REPLICAS_MAX + 1]; /* Of what one sends to another. */
    bool cuts, storms;                                         /* There are such faults. */
    struct client clients[REGIONS];
    struct region regions[REGIONS];
    group_set decided[EPOCHS_MAX]; /* By epoch. */
    uint64_t newest;               /* Epoch. */
    uint64_t losses;
};

/* The history was worth its time. */
enum {
    WORTH_VOTE,
    WORTH_GROWN,
    WORTH_SECONDARY,
    WORTH_VOUCHED,
    WORTH_UNBEGUN,
    WORTH_LOSS,
    WORTH_SURVIVED,
    WORTH_RETRIED
};

struct world *world_of(struct sim *s);

extern const struct sim_actor group_member_actor;

/* Zero, with everybody's disk new. */
void member_format(struct sim *s, uint32_t node);

/* From one member or voter to another, or to a client. */
void host_send(struct sim *s, uint32_t node, uint32_t to, struct host_message *m);
void member_decided(struct sim *s, uint32_t node, uint64_t epoch, group_set set);

/* ---- Votes ---- */

void voter_start(struct sim *s, uint32_t node);
void voter_stop(struct sim *s, uint32_t node, bool machine);

/* True: it was of the vote. */
bool voter_receive(struct sim *s, uint32_t node, const struct host_message *m);

/* Stand for the set in that epoch, behind the one that was before. */
void candidate_begin(struct sim *s, uint32_t node, uint64_t epoch, group_set set, group_set before);
void candidate_stop(struct sim *s, uint32_t node);
void candidate_tick(struct sim *s, uint32_t node);

/* ---- The judge ---- */

bool group_judge_check(struct sim *s);
bool group_judge_finish(struct sim *s);
bool judge_decided(struct sim *s, uint64_t epoch, group_set set);

/* The machine of a member has just lost its power. */
void judge_loss(struct sim *s, uint32_t node, bool anything);

#endif
