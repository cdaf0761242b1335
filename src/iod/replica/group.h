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
 * nothing, rather one that knows of each operation whether it was carried out than one that was taking bytes over
 * when its source ended (op_memory.h), for nobody could tell its clients; else, when the epoch has begun before, one
 * that was there; else whoever left with the vote and lost nothing, or with an earlier one since the last epoch that has begun, for nothing is acknowledged
 * in those that have not; else, when all who are outside are here and none of them has everything either, the first
 * one of those that were joined last: what was synced is equal everywhere there, the rest is nowhere; who was to come in with this set may lack even that. Rounds are numbered by starts of the leader, which never come again; each
 * member starts over in a newer one; words to an earlier start of a member are passed over.
 *
 * Members say what they are in *words*, all in one: to everybody, when something has changed, and
 * each GROUP_WORD_MS. Words may be lost, late, double; of two the later one counts.
 *
 * Slow. Whether a member holds up the others is for replica.h to see (replica_slow.c); here it is told by
 * group_set_slow(). Who orders names others, each names itself, and both stand in the words. To the
 * vote, who is slow is what who is silent is: the others stand for the set without it, if one of them may
 * belong to the next set; where nobody else is left, being slow means nothing. Who has left so
 * is offered nothing for a pause, for twice as long when it happens again soon after, and so on.
 *
 *               slow, by its own word, or by who orders          the pause is over, and it says of itself
 *   in the set ----------------------------------------> outside ------------------> offered ...
 *                 a vote without it                        ^  pause: doubled, or     ... as anybody
 *                                                          |  begun anew
 *
 * A planned stop (group_quit()). Who ends says so in its words, in this start for good, and leaves the set by a vote
 * that only who orders calls for, while all of the set are joined: so those who stay have each acknowledged byte,
 * and begin without him. Who does not order reads for nobody any more as soon as it says so: those who stay need
 * not wait for its lease (rule `leaver`). Who orders goes on until the set without it is decided, tells that set at
 * once, and ends when it has begun. It never leaves a set in which nobody else is joined.
 *
 * Who has lost something does not stand (rule `stand`), for those of its set who are away may have more. It does when
 * all who are not here as members of that set have lost their disks since they were voted in, and say so: then nobody
 * has more. With whose bytes the next set goes on is as above.
 *
 * Rules, and what goes wrong without: leaver, lease, wait, persist, rejoin, order, stand, intent, flush,
 * agree, vouchall, vote, newcomer, unbegun, since: docs/replication.md. `wait` is here: a member takes part
 * in a round of a new set when the leases are over that it gave to those outside.
 *
 * Forced. When no vote can be had, or the set waits for a copy that never comes back, an administrator names
 * the copy that counts from now on (group_record_force()). No vote has given that set, so its epoch must not be one
 * that voters can give to anybody: it is the version of the manager's table in which the copy is named, times 2 to the
 * power of GROUP_FORCED_SHIFT. Votes count up by one and never get there from below, so all epochs of before are
 * lower, those of two commands differ, and what follows is voted for as ever, from there on. Why that is safe:
 *  - Whoever has another set hears of the higher epoch, from the named one, from voters, or from the manager, and is
 *    STALE; nothing that it says or holds counts. It is no source: its epoch is not the one before.
 *  - The named one logs everything for all others, at each start until the first vote behind the command: what
 *    they have done without it is no write intent of theirs, and is undone none the less.
 *  - It waits for the leases that it gave, as behind a vote. So a member that needs it serves no more when it begins.
 *  - The manager's voter has this epoch for decided before the named one hears of it; and while that one agrees with
 *    itself it asks all voters for the epoch behind: each that hears it gives no vote of before any more. It
 *    does not wait for them: that there is no majority may be the reason.
 *  - Its verifier is the epoch, above all that anybody was told; so all that wrote before hear that it may be lost.
 * What this cannot exclude is a member that had gone on *without* the named one, lives, and is cut off both from it and
 * from the manager: it serves whoever reaches it until it hears. Whoever gives the command is told so, and the
 * manager refuses while any server can reach such a member.
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
    GROUP_FORCED_SHIFT = 27,            /* So many votes nobody holds: two to that power. */
    GROUP_FORCED_VERSION_END = 1 << 20, /* Of the manager's table; VOTE_EPOCH_END bounds both. */
    GROUP_WORD_MS = 500,                /* Between two words when nothing happens ... */
    GROUP_RETRY_MS = 100,               /* ... and when something is open. */
    GROUP_SILENCE_MS = 1000,            /* Who says nothing useful for so long is voted out. */
    GROUP_TURN_MS = 300,                /* The second one who could stand waits so much longer. */
    GROUP_VOTE_MS = 1000,               /* What is not decided is asked for again. */
    GROUP_PAUSE_MS = 10000, /* Before one that was slow is taken back, the first time; */
    GROUP_PAUSES_MAX =
        60 /* at most so many times as long. Who was well for that long begins anew. */
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
    uint64_t boot;     /* Another one when what was not synced may be lost (store_loss()). */
    uint64_t begun;    /* The last epoch in which it was joined; 0: none. */
    uint64_t verifier; /* From 1. */
};

enum group_phase { GROUP_IDLE, GROUP_PREPARING, GROUP_EQUALISING, GROUP_COMMITTING };

/* What a member says of itself and, as the first one, of the round that it leads. */
struct group_word
{
    group_id group;
    uint64_t start;  /* Of the sender. */
    uint64_t number; /* Among the words of that start, from 1. */
    uint32_t from;
    enum group_state state;
    uint64_t epoch;
    uint64_t begun; /* The last epoch in which it was joined, in whichever start. */
    group_set set;
    group_set offered; /* They may recover from the sender. */
    group_set slow;    /* They hold up changes: the sender itself; of who orders also others. */
    group_set decided; /* Of decided_epoch. */
    bool agreed;       /* It was joined in this epoch, in this start. */
    bool complete;     /* It lost nothing. */
    bool ready;        /* RECOVERING: it has nearly everything, on its disk. */
    bool leaves;       /* It is about to end (group_quit()). */
    bool unsure;       /* group_set_unsure() */
    uint64_t promised, equal, joined; /* Rounds; 0: none. */
    uint64_t leading; /* Its round, with the source, and the starts of those who take part. */
    enum group_phase phase;
    uint32_t source;
    uint64_t starts[REPLICAS_MAX];
    uint64_t verifier;      /* Of its record; of who leads, from EQUALISING on: of the round. */
    uint64_t decided_epoch; /* The newest set of which it knows that was decided; 0: its own. */
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
    struct group_word word;     /* The last; start 0: none yet. */
    uint64_t suspect_ms;        /* From then on it has said nothing useful for too long. */
    uint64_t wait_ms;           /* Until then it may hold a lease of an older set. */
    uint64_t slow_ms;           /* Since when it is seen to be slow; 0: it is not. */
    uint64_t back_ms, pause_ms; /* It left as slow: not before then, and after such a pause. */
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
    group_set leaving;
    group_set displaced;
    group_set vacant;
    group_set slow;    /* As group_set_slow() said. */
    group_set blamed;  /* Slow, when we stood for a set without them. */
    uint64_t pause_ms; /* Before who was slow is taken back, the first time. */
    bool started, persisting, agreed, ready, news, quits, unsure;
};

/* `leases`: by member, of the host, which outlive the group's member; that of `me` is not looked at.
 * Nothing happens before GROUP_START. */
void group_init(struct group *g, group_id id, uint32_t count, uint32_t me,
                const struct mirror_lease *const *leases);

/* Nobody holds these places, so there is nobody to be heard from. Before group_start(), and as it is until the member is
 * opened again. */
void group_set_vacant(struct group *g, group_set vacant);

/* The record of a member of a group that is new: all in sync, nothing written. */
void group_record_new(struct group_record *record, uint32_t count, uint64_t boot);

/* Of a member that has nothing, among others that may have: it came later, or has lost what it was. It stands
 * outside, and is brought up to date. */
void group_record_newcomer(struct group_record *record, uint32_t count, uint32_t me, uint64_t boot);

/* Of the one that was named as the copy that counts, in that version of the manager's table (not 0): alone in its set,
 * whatever it was; nothing is lost again by what it does not know. `record` is what it was. */
void group_record_force(struct group_record *record, uint32_t me, uint64_t version);

/* The epoch of that command; and is this such an epoch? */
uint64_t group_forced_epoch(uint64_t version);
bool group_is_forced(uint64_t epoch);

/* A record of before there was a place more. */
void group_record_fit(struct group_record *record, uint32_t count);

/* These members, ourselves perhaps, are to leave the set in an orderly way: who orders stands for the set
 * without them while all of it are joined, and they are not taken in again. Never the last ones. */
void group_set_leaving(struct group *g, group_set leaving);

/* Their places are others' by now, or nobody's, though they may be in the set: members to whom the manager has told that
 * hear nothing from them. They leave as those that are to leave do, but only where two stay, and are not taken in again. */
void group_set_displaced(struct group *g, group_set displaced);

/* These hold up changes: ourselves perhaps, and others while we order. Has effect with the next step. */
void group_set_slow(struct group *g, group_set slow);

/* Of some operations nobody can say here whether they were carried out: bytes of another member were taken, and not all of
 * them came. Looked at while it is not joined. Has effect with the next step. */
void group_set_unsure(struct group *g, bool unsure);

/* Those of the set that hold up changes, as far as is known here. */
group_set group_slow(const struct group *g);

/* Is it on its way out of the set, or outside? */
bool group_is_out(const struct group *g);

/* Those outside that left because they were slow, and were not taken in again since. */
group_set group_left_slow(const struct group *g);

/* This process is about to end (a planned stop), and says so in its words until it does. Who orders stands for the set
 * without those who say so, itself perhaps, as with group_set_leaving(), and takes nobody in who says it. Then it may
 * end when nothing is to be gained by waiting: the set without it has begun, or there is nobody who could go on. */
void group_quit(struct group *g);
bool group_may_end(const struct group *g);

/* Is it in sync, and nobody else of the group known to be? Then its end is the end of the service. */
bool group_is_alone(const struct group *g);

/* `out` is empty before. Words may come from anywhere: nothing about them is believed that our own
 * members do not say. */
void group_step(struct group *g, const struct group_event *event, struct group_actions *out);

/* When the next TICK is due. Ask again after each step. */
uint64_t group_deadline_ms(const struct group *g);

/* What GROUP_SEND sends. */
void group_word(struct group *g, struct group_word *word);

/* May it read for others? */
bool group_serves(const struct group *g, uint64_t now_ms);

/* Would this member grant a lease that we do not hold, if it were asked now? */
bool group_lacks_lease(const struct group *g, uint32_t member, uint64_t now_ms);

/* Who is believed to order: the first of the newest set of which it knows. `count`: it has not started. */
uint32_t group_orderer(const struct group *g);

/* Does it order changes? Then they carry the epoch and `joined`. */
bool group_orders(const struct group *g);

/* Is a forward that carries these to be carried out here? */
bool group_takes(const struct group *g, uint64_t epoch, uint64_t round);

/* Is that member of the set joined in our round, as its word says? */
bool group_has_joined(const struct group *g, uint32_t member);

/* Are all of the set joined in our round? Write intent leaves the disk only then. */
bool group_all_joined(const struct group *g);

/* Is the group covered by the mirror lease that `member` asks for? */
bool group_covers(const struct group *g, uint32_t member);

/* The invariants, after each step, for tests. */
void group_check(const struct group *g);

bool group_in_sync(enum group_state state);
const char *group_state_name(enum group_state state);

#endif
