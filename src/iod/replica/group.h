/* One member of a group of 1 to 3 servers that hold the same objects: is it up to date, may it
 * serve, and with whom (docs/replication.md; tests/model/group_model.py has the same rules in
 * small). A pair is a group of two.
 *
 * Pure: events in, actions out; no clock, no I/O, no memory of its own. The group has an *in-sync
 * set* with an epoch. Its first member orders changes, all of it acknowledge them, whoever is
 * outside serves nothing. Sets follow each other by vote, one an epoch. Source: Settlemyer 2006,
 * chapter 3, with one state and one vote for the group instead of for each file.
 *
 *                vote without some others           vote with one more
 *   CONSISTENT ---------------------> STANDALONE -----------------------> CONSISTENT
 *   (set = all)                       (set < all)   (or STANDALONE still, of three)
 *        |  learns of a set             |   ^
 *        |  without itself              |   |  learns of a set with itself
 *        +-----------> STALE <----------+   |
 *                       |  ^                |
 *               offered |  | a set without  |
 *                       v  | itself         |
 *                    RECOVERING ------------+
 *
 * Each arrow is on the disk before it has effect (GROUP_PERSIST, then GROUP_PERSISTED); so is, before
 * anything else, what a start finds out about itself. CONSISTENT and STANDALONE are *in sync*.
 *
 * In sync is not yet serving. After a start and after a vote the set *agrees*, in a round that the
 * first member leads and in which all take part:
 *
 *   leader      PREPARING ---------> EQUALISING ---------> COMMITTING
 *   each        promises: orders,    has the bytes of the  notes on its disk that it lost nothing,
 *               takes, serves, and   source, flushed       and is joined: serves
 *               grants nothing
 *
 * What the members' copies are worth has a number, the *verifier* (tests/model/verifier_model.py): it
 * grows when a set agrees on a source that may have lost something, and is on each disk before that
 * set is joined. So whoever was answered under a newer one knows that older answers may be undone.
 *
 * The source is a member that has agreed in this epoch and not started since; else one that lost
 * nothing; else, when the epoch has begun before, one that was there; else whoever left with the
 * vote and lost nothing; else, when all who are outside are here and none of them has everything
 * either, the first one: what was synced is equal everywhere, the rest is nowhere. Rounds are numbered by starts of the leader, which never come again; each
 * member starts over in a newer one; words to an earlier start of a member are passed over.
 *
 * Members say what they are in *words*, all in one: to everybody, when something has changed, and
 * each GROUP_WORD_MS. Words may be lost, late, double; of two the later one counts.
 *
 * Rules, and what goes wrong without: lease, wait, persist, rejoin, order, stand, intent, flush,
 * agree, vouchall, vote, newcomer, unbegun: docs/replication.md. `wait` is here: a member takes part
 * in a round of a new set when the leases are over that it gave to those outside.
 *
 * Invariants (group_check()): CONSISTENT has all in its set, STANDALONE not; nobody in sync is
 * outside its own set; joined is only who is in sync, whole, and has noted on its disk that the
 * epoch has begun; nothing is joined while something is being written.
 */
#ifndef MORSEL_IOD_REPLICA_GROUP_H
#define MORSEL_IOD_REPLICA_GROUP_H

#include "common/base/limits.h"
#include "iod/replica/mirror_lease.h"

enum {
    GROUP_WORD_MS = 500,     /* Between two words when nothing happens ... */
    GROUP_RETRY_MS = 100,    /* ... and when something is open. */
    GROUP_SILENCE_MS = 1000, /* Who says nothing useful for so long is voted out. */
    GROUP_TURN_MS = 300,     /* The second one who could stand waits so much longer. */
    GROUP_VOTE_MS = 1000     /* What is not decided is asked for again. */
};

typedef uint8_t group_set; /* Bits of members, by their place in the group. */

enum group_state {
    GROUP_CONSISTENT,
    GROUP_STANDALONE,
    GROUP_STALE,
    GROUP_RECOVERING,
    GROUP_STATES /* How many. */
};

/* What is on the disk. */
struct group_record
{
    enum group_state state;
    uint64_t epoch;
    group_set set;     /* In sync: of this epoch. Otherwise the last one that it knew of. */
    bool whole;        /* Held every acknowledged byte under `boot`. */
    uint64_t boot;     /* Of the kernel, so far as it is told apart from others. */
    uint64_t begun;    /* The last epoch in which it was joined; 0: none. */
    uint64_t verifier; /* From 1. */
};

enum group_phase { GROUP_IDLE, GROUP_PREPARING, GROUP_EQUALISING, GROUP_COMMITTING };

/* What a member says of itself and, as the first one, of the round that it leads. */
struct group_word
{
    group_id group;
    uint32_t from;
    uint64_t start;  /* Of the sender. */
    uint64_t number; /* Among the words of that start, from 1. */
    enum group_state state;
    uint64_t epoch;
    group_set set;
    bool agreed;                      /* It was joined in this epoch, in this start. */
    bool complete;                    /* It lost nothing. */
    bool begun;                       /* It was joined in this epoch, in whichever start. */
    bool ready;                       /* RECOVERING: it has everything, on its disk. */
    uint64_t promised, equal, joined; /* Rounds; 0: none. */
    enum group_phase phase;
    uint64_t leading; /* Its round, with the source, and the starts of those who take part. */
    uint32_t source;
    uint64_t verifier; /* Of its record; of who leads, from EQUALISING on: of the round. */
    group_set offered; /* They may recover from the sender. */
    uint64_t starts[REPLICAS_MAX];
};

enum group_event_type {
    GROUP_START,     /* record, boot, start, intent_empty. First of all. */
    GROUP_TICK,      /* Nothing else has happened. */
    GROUP_WORD,      /* word */
    GROUP_PERSISTED, /* What the last GROUP_PERSIST gave is on the disk. */
    GROUP_DECIDED,   /* epoch, set: the vote for that epoch has given this set. */
    GROUP_COPIED,    /* round: GROUP_COPY or GROUP_FLUSH is done, flushed. */
    GROUP_RECOVERED, /* round: that of GROUP_RECOVER; likewise. */
    GROUP_DEAD       /* member: its process is known to be dead, it holds no lease. */
};

struct group_event
{
    enum group_event_type type;
    uint64_t now_ms; /* Monotonic. */
    const struct group_record *record;
    const struct group_word *word;
    uint64_t boot, start; /* Of the kernel; of this member, which is never used again. */
    bool intent_empty; /* No region of the group was being changed when the last process ended. */
    uint64_t epoch, round;
    group_set set;
    uint32_t member;
};

enum group_action_type {
    GROUP_SEND,       /* Our word (group_word()) to all others. */
    GROUP_PERSIST,    /* `record`; then PERSISTED. Only one at a time. */
    GROUP_COPY,       /* What `member` has, in place of ours, wherever either has write intent or
                        knows it changed, with its memory of operations; flush; then COPIED. */
    GROUP_FLUSH,      /* What is here; then COPIED. */
    GROUP_RECOVER,    /* As GROUP_COPY, from `member`, which goes on serving; then RECOVERED. */
    GROUP_START_VOTE, /* For `set` in `epoch`; 0: only what is decided is asked for. May come again,
                         and for another set, which takes its place. DECIDED, some time, perhaps. */
    GROUP_STOP_VOTE,  /* There is no need of it any more. */
    GROUP_JOIN, /* In `round`, with `verifier`: what is under way here is forwarded again, in this round. What is
                        logged as changed for members of the set is settled. */
    GROUP_LEAVE /* Not joined any more: order, take and serve nothing. */
};

struct group_action
{
    enum group_action_type type;
    struct group_record record;
    uint64_t epoch, round, verifier;
    group_set set;
    uint32_t member;
};

enum { GROUP_ACTIONS_MAX = 8 };

/* To be carried out in this order. Events that answer them come later, not from within. */
struct group_actions
{
    uint32_t count;
    struct group_action items[GROUP_ACTIONS_MAX];
};

/* What a member knows of another one. */
struct group_peer
{
    struct group_word word;           /* The last; start 0: none yet. */
    uint64_t suspect_ms;              /* From then on it has said nothing useful for too long. */
    uint64_t wait_ms;                 /* Until then it may hold a lease of an older set. */
    const struct mirror_lease *lease; /* The host's; NULL for ourselves. */
};

/* For others to read. */
struct group
{
    group_id id;
    uint32_t count, me;
    struct group_record record; /* On the disk. */
    struct group_record next;   /* Being written. */
    uint64_t start, number;     /* Ours, and of our last word. */
    struct group_peer peers[REPLICAS_MAX];
    uint64_t promised, equal, joined;
    uint64_t copying; /* The round for which a copy or flush is at work, or a recovery. */
    uint64_t joined_ms;
    uint64_t leading, leads; /* The round, and how many were begun in this start. */
    uint64_t starts[REPLICAS_MAX];
    enum group_phase phase;
    uint32_t source;
    uint64_t verifier;         /* Of the round that it leads. */
    uint64_t recovering_from;  /* Start of who offered. */
    uint64_t learned_epoch;    /* The newest set that was decided, of which we know. */
    uint64_t vote_ms, word_ms; /* When it is next asked for, and said. */
    uint64_t now_ms;
    group_set learned_set;
    group_set standing; /* For which set; 0: it does not stand. */
    bool started, persisting, agreed, ready, news;
};

/* `leases`: by member, of the host, which outlive the group's member; that of `me` is not looked at.
 * Nothing happens before GROUP_START. */
void group_init(struct group *g, group_id id, uint32_t count, uint32_t me,
                const struct mirror_lease *const *leases);

/* The record of a member of a group that is new: all in sync, nothing written. */
void group_record_new(struct group_record *record, uint32_t count, uint64_t boot);

/* `out` is empty before. Words may come from anywhere: nothing about them is believed that our own
 * members do not say. */
void group_step(struct group *g, const struct group_event *event, struct group_actions *out);

/* When the next TICK is due. Ask again after each step. */
uint64_t group_deadline_ms(const struct group *g);

/* What GROUP_SEND sends. */
void group_word(struct group *g, struct group_word *word);

/* May it read for others? */
bool group_serves(const struct group *g, uint64_t now_ms);

/* Does it order changes? Then they carry the epoch and `joined`. */
bool group_orders(const struct group *g);

/* Is a forward that carries these to be carried out here? */
bool group_takes(const struct group *g, uint64_t epoch, uint64_t round);

/* Are all of the set joined in our round? Write intent leaves the disk only then. */
bool group_all_joined(const struct group *g);

/* Is the group covered by the mirror lease that `member` asks for? */
bool group_covers(const struct group *g, uint32_t member);

/* The invariants, after each step, for tests. */
void group_check(const struct group *g);

bool group_in_sync(enum group_state state);
const char *group_state_name(enum group_state state);

#endif
