/* The group scenario: what its clients (group.c), its members (group_member.c) with their disks
 * (group_disk.c), their votes (group_voter.c) and its judge (group_judge.c) share. */
#ifndef MORSEL_TESTS_SIM_GROUP_H
#define MORSEL_TESTS_SIM_GROUP_H

#include "common/vote/candidate.h"
#include "iod/replica/replica.h"
#include "tests/sim/sim_main.h"

enum {
    USED = 3, /* Objects that clients use. */
    OBJECTS = 4,
    CELLS = 4, /* Of an object: what a write covers whole, and a read gives. */
    CELL_BYTES = INTENT_REGION_BYTES / 2,
    CLIENTS = 4,
    GROUP_ID = 7,
    MEMBER_TICK_MS = 25,
    RESEND_MS = 50,
    LOST_ONE_IN = 2, /* Each such time: as if its connections had broken just then. */
    DISK_MS_MAX = 20,
    APPLY_MS_MAX = 15,
    DIRTY_MAX = 1024, /* Records of a dirty file. */
    OPERATIONS_MAX = 512,
    TOKENS_MAX = 512,
    CLIENT_RETRY_MS = 150,
    CLIENT_IDLE_MS_MAX = 60,
    EPOCHS_MAX = 4096,
    FORCED_MAX = 7, /* Commands in a history; epochs behind each: */
    FORCED_EPOCHS_MAX = EPOCHS_MAX / (FORCED_MAX + 1),
    LOSSES_MAX = 256,
    FAULTS_MS = 12000,
    HEALING_MS = 13000, /* Who was left behind twice, late, is back and compared with the others. */
    SLOW_PAUSE_MS = 3500, /* So that no call meets both, that somebody leaves and is taken back. */
    BEAR_MS =
        4500, /* Beyond the limit: for what a call waits where a member is slow, and nothing else is wrong. */
    SWEEP_MS = 2000, /* For everything, object by object, in a round. */
    RUIN_MS = 2000,  /* Before faults end no disk is lost that nobody else can make up for. */
    QUIT_MS = 3000,
    QUIET_MS = 8000 /* Before the end clients begin nothing. */
};

/* What a cell holds. Each write writes a value that nobody else writes, below 2^32; a copy likewise, and above it
 * what was in the cell that it has copied (its lower half). */
struct cell
{
    uint64_t value;
    uint64_t stamp; /* Of the write here: what is younger is never replaced by what is older. */
};

struct bytes
{
    struct cell cells[OBJECTS][CELLS];
};

enum act { ACT_NONE, ACT_WRITE, ACT_COPY, ACT_FSYNC, ACT_READ, ACT_SETTLE };

/* What a client asks. Times are true ones. */
struct call
{
    enum act act;
    uint32_t client;
    uint64_t number;
    bool settled; /* A read that may be answered by any member. */
    bool sent_on; /* Here by way of another member. */
    uint64_t not_after_ms, value;
    struct order_change change; /* Its `not_after_ms` is the member's to set. */
};

struct answer
{
    uint64_t number;
    int status;
    uint64_t verifier;
    uint64_t values[CELLS]; /* Of a read: of the whole object. */
};

enum host_kind {
    HOST_WORD,
    HOST_LEASE_ASK,
    HOST_LEASE_ANSWER,
    HOST_REPLICA,
    HOST_VOTE_REQUEST,
    HOST_VOTE_ANSWER,
    HOST_CALL,
    HOST_ANSWER
};

/* One for all: what a kind does not need is zero. */
struct host_message
{
    enum host_kind kind;
    uint32_t from;
    union {
        struct group_word word;
        struct vote_request vote;
        struct vote_answer vote_answer;
        struct call call;
        struct answer answer;
        struct
        {
            uint64_t start, asked_ms;
            bool not_covered;
        } lease;
        struct
        {
            struct replica_message message; /* Times in it are true ones. */
            uint64_t values[OBJECTS][CELLS];
        } replica;
    };
};

/* What a member's disk holds, whatever happens. */
struct member_disk
{
    bool formatted;
    struct group_record record;
    uint64_t starts, boots;
    struct bytes bytes;
    uint32_t dirty_count, operation_count;
    struct dirty_record dirty[DIRTY_MAX];
    struct op_known operations[OPERATIONS_MAX];
};

/* Behind a token of the core. */
struct ticket
{
    bool used;
    struct call call; /* Of a client; of a forward its value. */
    uint64_t values[OBJECTS][CELLS];
};

/* An APPLY, SERVE, TAKE or SYNC at work. */
struct work
{
    enum replica_action_type type; /* SEND: none. */
    uint64_t id, token, round;
    bool everything;
    uint64_t after; /* Of a LIST. */
    bool forced;
    struct verify_step step; /* Of a LOOK_HERE. */
    struct object_id object;
    struct order_change change;
    struct change piece;
    struct bytes bytes; /* Of a sync: as they were when it began. */
};

struct member
{
    struct member_disk disk;
    struct bytes bytes; /* In the memory of its machine: the process may end. */
    struct op_known operations[OPERATIONS_MAX];
    uint32_t operation_count;
    uint64_t stamp;
    struct replica *replica; /* NULL: down. */
    struct mirror_lease leases[REPLICAS_MAX];
    struct ticket tickets[TOKENS_MAX];
    struct work works[TOKENS_MAX];
    struct group_record record; /* On its way to the disk. */
    struct dirty_record dirty[DIRTY_MAX];
    uint32_t dirty_count;
    uint64_t resend_ms;
    uint64_t slow_until_ms; /* True time. */
    uint64_t slow_factor;   /* Of what the disk does until then; 0: it does nothing. */
    bool left_slow;         /* It left the set so, and is not back. */
    uint64_t joined;        /* As it was seen last. */
    bool ordered;           /* When it was to stop. */
    uint64_t quit_ms;       /* A planned stop ends then at the latest, in true time; 0: none. */
    bool lost; /* The judge's: it lost something, or may have, and has not been vouched for. */
    bool
        replaced; /* Somebody else was named as the copy that counts: with its next start it begins without a byte. */
};

/* A voter, and who stands beside it. */
struct voter_host
{
    struct voter *voter;
    struct vote_record popped, disk; /* Being written, and there: the group's. */
    struct candidate candidate;
    bool standing;
};

struct client
{
    struct call call; /* ACT_NONE: it is idle. */
    uint64_t tries, begun_ms;
    uint32_t deed; /* What the judge has of it. */
    uint64_t operations, calls, verifier;
    struct answer last; /* To the last call, */
    bool answered;      /* if there was one that ended it. */
};

/* What clients know of an object together, as the holders of leases do. */
struct object_lease
{
    uint32_t writers, readers; /* readers: those that rely on nobody writing. */
    bool unsettled;            /* A write may have been ordered that nobody waits for ... */
    uint64_t unsettled_ms;     /* ... until then. */
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
    bool slow;                                                 /* Members are slow at times, */
    bool only_slow; /* one at a time, and nothing else goes wrong. */
    uint64_t
        decided_ms; /* The last vote. What was begun since, and given up, the next one finishes. */
    uint64_t
        swept_ms; /* When a member took a page of everything last: for that all may have to wait longer. */
    uint64_t slow_limit_ms;
    bool coarse; /* Logs have room for one object: they soon say everything. */
    bool plants; /* Copies of the last object come to differ. */
    uint64_t verify_run;
    struct client clients[CLIENTS];
    struct object_lease objects[OBJECTS];
    group_set decided[EPOCHS_MAX]; /* decided_in() */
    uint64_t newest;               /* Epoch. */
    uint32_t forced;               /* Commands so far. */
    bool ruined;                   /* Who stood alone has lost its disk: only a command helps. */
    struct judge *judge;
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
    WORTH_RETRIED,
    WORTH_LATE,
    WORTH_BEHIND,
    WORTH_SETTLED,
    WORTH_CLEARED,
    WORTH_VERIFIER,
    WORTH_SWEPT,
    WORTH_RENEWED,
    WORTH_SLOW,
    WORTH_SLOW_BACK,
    WORTH_SLOW_ALONE,
    WORTH_BORNE,
    WORTH_SEVERAL,
    WORTH_VERIFIED,
    WORTH_HELD,
    WORTH_FOUND,
    WORTH_FORCED,
    WORTH_FORCED_STALE,
    WORTH_HANDED_OVER,
    WORTH_LEFT,
    WORTH_COPIED,
    WORTH_COPIED_AGAIN
};

struct world *world_of(struct sim *s);

extern const struct sim_actor group_member_actor;

static inline bool act_changes(enum act act)
{
    return act == ACT_WRITE || act == ACT_COPY;
}

/* A pair, the manager and the clients (cases): nothing goes wrong by itself, and clients ask what they are told to. */
extern const struct sim_scenario group_pair_scenario;

/* The client, which is idle, begins that call; sends it to that member, once more each time; has waited long enough. */
void client_begins(struct sim *s, uint32_t node, const struct call *call);
void client_asks(struct sim *s, uint32_t node, uint32_t member);
void client_gives_up(struct sim *s, uint32_t node);

/* The cases of docs/replication.md (group_cases.c); the last one has no name. */
extern const struct sim_transcript group_cases[];

/* From one member or voter to another, or to a client. */
void host_send(struct sim *s, uint32_t node, uint32_t to, struct host_message *m);
void member_decided(struct sim *s, uint32_t node, uint64_t epoch, group_set set);

/* A planned stop of a member that is up; it starts again soon. */
void member_quit(struct sim *s, uint32_t node);

/* A time of the member's clock as true time, and back: as hosts tell each other how much is left. */
uint64_t true_of_clock(struct sim *s, uint32_t node, uint64_t clock_ms);
uint64_t clock_of_true(struct sim *s, uint32_t node, uint64_t true_ms);

/* ---- Bytes (group_bytes.c) ---- */

static inline bool act_copies(const struct order_change *change)
{
    return change->source.inode != 0;
}

/* Some of what an APPLY changes, when it begins: who ends then leaves that; or all. */
void bytes_apply(struct sim *s, uint32_t node, const struct work *w, bool all);

/* A change begins: if it copies, that was worth the history's time. */
void bytes_note_copy(struct sim *s, uint32_t node, const struct work *w);

/* What TAKE or MEND brings is put in its place. */
void bytes_take(struct sim *s, uint32_t node, const struct work *w);
void bytes_show(const struct member *m, uint64_t values[OBJECTS][CELLS]);

/* ---- Disks (group_disk.c) ---- */

/* Zero, with everybody's disk new. */
void member_format(struct sim *s, uint32_t node);

/* The member, which is down, begins again with an empty disk (replica_newcomer). */
void member_renew(struct sim *s, uint32_t node);

/* The member, which is down, is named as the copy that counts: it begins so. */
void member_force(struct sim *s, uint32_t node);

/* What is there goes into the core, which has not started. */
void disk_load(struct sim *s, uint32_t node);

/* The process or its machine ends. True: something that was on its way to the disk is lost. */
bool disk_stop(struct sim *s, uint32_t node, bool machine);

/* Carried out; then the core hears of it. */
void disk_record(struct sim *s, uint32_t node, const struct group_record *record);
void disk_note(struct sim *s, uint32_t node, const struct replica_action *action);
void disk_rewrite(struct sim *s, uint32_t node);
void disk_write_back(struct sim *s, uint32_t node);
void disk_synced(struct sim *s, uint32_t node, const struct work *work);

/* ---- Slow members (group_slow.c) ---- */

/* In how many milliseconds the disk has done what takes up to `ms_max` otherwise. */
uint64_t disk_delay_ms(struct sim *s, uint32_t node, uint64_t ms_max);

/* At the start of a history. */
void slow_draw(struct sim *s);

/* Every 100 ms, while there are faults. */
void slow_trouble(struct sim *s);

/* A set was decided, behind `before`. */
bool slow_decided(struct sim *s, group_set before, group_set set);

/* A client waits for a call that began then. False: for too long. */
bool slow_waits(struct sim *s, uint32_t node, uint64_t begun_ms);
/* ---- Comparing (group_verify.c) ---- */

/* A LOOK_HERE is done; FOUND. Which run there is to be, as the manager would tell all. */
void verify_see(struct sim *s, uint32_t node, const struct work *w);
void verify_found(struct sim *s, uint32_t node, const struct verify_found *found);
void verify_run(struct sim *s, uint32_t node);

/* A cell of the last object becomes another one, at this member alone. */
void member_plant(struct sim *s, uint32_t node, uint32_t cell, uint64_t value);

/* ---- Votes ---- */

void voter_start(struct sim *s, uint32_t node);
void voter_stop(struct sim *s, uint32_t node, bool machine);

/* True: it was of the vote. */
bool voter_receive(struct sim *s, uint32_t node, const struct host_message *m);

/* Stand for the set in that epoch, behind the one that was before. */
void candidate_begin(struct sim *s, uint32_t node, uint64_t epoch, group_set set, group_set before);
/* The voter there hears, and keeps, that this set was decided. */
void voter_learn(struct sim *s, uint32_t node, uint64_t epoch, group_set set);

void candidate_stop(struct sim *s, uint32_t node);
void candidate_tick(struct sim *s, uint32_t node);

/* ---- The judge ---- */

void judge_open(struct sim *s);
void judge_close(struct sim *s);
bool group_judge_check(struct sim *s);
bool group_judge_finish(struct sim *s);
bool judge_decided(struct sim *s, uint64_t epoch, group_set set);

/* A call begins: its number with the judge. It is answered; `done`: it was. A call that was not done
 * may have been, or may be yet. */
uint32_t judge_begin(struct sim *s, const struct call *call);
void judge_end(struct sim *s, uint32_t deed, const struct answer *answer, bool done);

/* The set of that epoch, to be looked at and to be set; 0: none is known. */
group_set *decided_in(struct world *w, uint64_t epoch);

/* That member is named as the copy that counts, in the next command. */
void judge_force(struct sim *s, uint32_t node);

/* The machine of a member has just lost its power. */
void judge_loss(struct sim *s, uint32_t node, bool anything);

#endif
