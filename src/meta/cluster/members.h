/* Storage servers: who has registered, who is up.
 *
 * Pure: events in, actions out; the event carries the time. A server shows the token of its data
 * directory and gets an id, which is made durable before it is told. It is up from then on, until
 * it was silent for MEMBERS_MISSED_MAX heartbeats.
 *
 *   unknown --REGISTER--> persisting --PERSISTED--> up <--HEARTBEAT-- down --REMOVE--> being removed
 *                                                    +---- silence ---^                      | REMOVED
 *                                                                                            v
 *                                                                                         removed
 *
 * A server that is gone for good is removed: from then on nobody is told of it, and whoever shows its
 * token is refused. Its record stays for that. Not before the removal is durable; in between it is
 * refused as well, without a reason that would outlive a loss of power.
 *
 * Where the host says so (`manual`), a server that is new *waits*: it is up, and holds nothing, until it is
 * admitted. That is in its record, so it waits on when the manager or the server is started again, and one
 * that was known before is admitted.
 *
 * A server registers in two steps, which common/daemon/starts.h explains; only the second one makes
 * it up. One of a program that knows of no marks registers in one.
 *
 * Invariants:
 *  - no two members have one id or one token, and an id is never given to another token;
 *  - a server is welcomed only after its record is durable;
 *  - a process that registers under a token whose server is up and connected from another address
 *    is refused: two processes must not serve one directory;
 *  - of a directory and its copies one goes on: what a step changes in the marks of a server is
 *    durable before the step is answered, and whoever shows marks that were left behind is refused.
 *    One that was let in later than the record knows shows that the manager's database was put back
 *    to an older state; it is taken over, and the log told.
 *
 * Fixed memory: SERVERS_MAX members.
 */
#ifndef MORSEL_META_CLUSTER_MEMBERS_H
#define MORSEL_META_CLUSTER_MEMBERS_H

#include "meta/namespace/record.h"

enum {
    MEMBERS_HEARTBEAT_MS = 1000,
    MEMBERS_MISSED_MAX = 3,
    MEMBERS_ANSWER_MS =
        5000, /* So long a server waits for an answer, or two heartbeats (heartbeat_uv.c). */
    MEMBERS_FAILURE_MAX = 256,            /* Bytes of words about a disk, with the zero. */
    MEMBERS_ACTIONS_MAX = SERVERS_MAX + 2 /* A tick may find all of them silent. */
};

/* An object that a server cannot read (meta.proto, ScrubFinding). */
struct member_damage
{
    struct object_id object;
    inode_id file; /* Whose object it is; INODE_NONE: nobody's that is known. */
    uint64_t start, end, blocks;
    bool unreadable;
};

/* How far the scrub of a server is (meta.proto, Scrub). */
struct member_scrub
{
    uint64_t rate; /* 0: it is off, or nothing was heard of it. */
    bool running;
    uint64_t began_s, ended_s, objects, bytes;
    uint32_t part, damaged;
    uint64_t damaged_blocks;
    uint32_t named_count;
    struct member_damage named[SCRUB_TOLD_MAX];
};

/* What a server says of its store. */
struct member_disk
{
    uint64_t verifier;                   /* data.proto, Done; 0: not told. */
    uint64_t device;                     /* The same for servers that share a disk; 0: not told. */
    char failure[MEMBERS_FAILURE_MAX];   /* Of a sync, in words, cut off; empty: none. */
    uint64_t blocks_mended, blocks_lost; /* meta.proto, HeartbeatRequest. */
    struct member_scrub scrub;
};

/* What is answered to a registration that was taken. */
struct members_proposal
{
    bool is_one;     /* The first step of two: the server is not registered yet. */
    bool by_pending; /* starts_hear() */
};

/* Files with one copy that need a server which is to leave (leavers_uv.h). */
struct member_left
{
    bool known;
    uint64_t files, bytes; /* Holes among them. */
    uint64_t again_ms;     /* When it is to be looked at next; 0: at once. */
};

struct member
{
    struct member_record record; /* With marks; those of an event's record mean nothing. */
    bool registered;             /* Since this start of the manager. */
    bool connected;              /* Its connection stands. */
    bool up;
    bool presumed; /* Not heard of since the restart, but likely there: see members_presume(). */
    bool leaves;   /* It is to leave the cluster, as the host says: it gets nothing new. */
    struct member_left left; /* Likewise: what it keeps from leaving. */
    bool removing;           /* `record.removed` is on its way to the disk. */
    bool durable;            /* The record is, as it is. */
    uint32_t persisting;     /* Records on their way to the store; the newest is the one above. */
    uint64_t pending_tag;    /* The registration that waits for the newest. */
    struct members_proposal pending_proposal;  /* What it is. */
    uint64_t bytes_total, bytes_free, objects; /* As last told. */
    struct member_disk disk;                   /* Likewise. */
    uint64_t voters_mark; /* Of the voter set on its disk, as last told; 0: none. */
    uint64_t measured; /* The last question for its space that its numbers answer; capacity_uv.h. */
    uint64_t heard_ms; /* Of the last word, or of our answer to it. */
    uint64_t owed_tag; /* The request of its that we have not answered yet; 0: none. */
};

struct members
{
    uint32_t count;
    struct member items[SERVERS_MAX]; /* Ascending by id. */
    uint64_t version;                 /* Grows when anything but numbers changes. */
    uint32_t heartbeat_ms;
    bool manual;     /* The owner's: who is new waits until it is admitted. */
    uint64_t due_ms; /* No silence ends before that. */
};

enum members_event_type {
    MEMBERS_REGISTER,
    MEMBERS_PERSISTED,
    MEMBERS_ASKS, /* A heartbeat is there, and has to be looked at. It may come again for the same one. */
    MEMBERS_HEARTBEAT,
    MEMBERS_ANSWERED, /* So is a registration, or a heartbeat. */
    MEMBERS_GONE,     /* Its connection ended. */
    MEMBERS_REMOVE,   /* It goes for good: members_may_remove() has said that it may. */
    MEMBERS_REMOVED,  /* That is durable now, or could not be written down. It never comes when the
                        sync failed: nobody knows then, and nothing changes. */
    MEMBERS_ADMIT,    /* It need not wait any more; the host has its record written. */
    MEMBERS_TICK
};

struct members_event
{
    uint64_t now_ms; /* Monotonic. */
    enum members_event_type type;
    union {
        struct
        {
            uint64_t tag; /* The host's name for the request; comes back in an action. */
            struct member_record record; /* id 0: give me one. Unknown ones are refused. */
            struct member_disk disk;
            struct starts_word start;
        } registration;
        struct
        {
            server_id id;
            int status; /* Not 0: could not be written. */
        } persisted;
        struct
        {
            uint64_t tag;
            server_id id;
            uint64_t bytes_total, bytes_free, objects, measured, voters_mark;
            struct member_disk disk;
        } heartbeat;
        struct
        {
            uint64_t tag;
            server_id id;
        } asks, answered;
        server_id gone;
        server_id remove;
        server_id admit;
        struct
        {
            server_id id;
            int status; /* Not 0: it was not written. */
        } removed;
    };
};

struct members_action
{
    enum {
        MEMBERS_PERSIST,  /* Make `id`'s record durable, then send PERSISTED. */
        MEMBERS_PROPOSED, /* Answer `tag`: the first step was taken for `id`. */
        MEMBERS_WELCOME,  /* Answer `tag`: registered as `id`. */
        MEMBERS_ALIVE,    /* Answer `tag`: heartbeat taken. */
        MEMBERS_REFUSE,   /* Answer `tag` with `status` and `reason`. `id` is the server's whose
                            old copy it is when the status is MORSEL_LEFT_BEHIND, or that was removed
                            when it is MORSEL_REMOVED. */
        MEMBERS_UP,       /* For the log: `id` is up. */
        MEMBERS_PUT_BACK, /* For the log: `id` was let in later than its record knew. */
        MEMBERS_DOWN      /* For the log: `id` was silent too long. */
    } type;
    uint64_t tag;
    server_id id;
    int status;
    const char *reason; /* Constant text. */
    bool by_pending;    /* PROPOSED: starts_hear() */
};

struct members_actions
{
    uint32_t count;
    struct members_action items[MEMBERS_ACTIONS_MAX];
};

/* `records` are those of the store, ascending by id: known, but down until they register. */
void members_init(struct members *m, uint32_t heartbeat_ms, const struct member_record *records,
                  uint32_t count);

/* The manager has restarted: until the known servers have had time to register again
 * (MEMBERS_MISSED_MAX heartbeats), new files are placed on them and their space counts. Otherwise a
 * file that is made in the first second would find no server, or lie on the first one that came
 * back alone. */
void members_presume(struct members *m, uint64_t now_ms);

/* Advance by one event. What the host must do is appended to `out`, in order. */
void members_step(struct members *m, const struct members_event *event,
                  struct members_actions *out);

/* When MEMBERS_TICK is due, which may be earlier than it has something to do; UINT64_MAX: never.
 * Ask again after each step. */
uint64_t members_deadline_ms(const struct members *m);

/* May the server be removed, as far as its life goes? NULL: yes, or it was already. Otherwise why not,
 * in words behind "server N "; constant text. */
const char *members_may_remove(const struct members *m, server_id id);

/* Is it one of the cluster still? Those that are not are in the table, and nobody is told of them. */
bool member_stays(const struct member *member);

/* Does it get what is new: files, groups? It was admitted, and is not to leave. */
bool member_gets_new(const struct member *member);

/* NULL: unknown. */
const struct member *members_find(const struct members *m, server_id id);

/* Choose the servers of a new file; returns how many (0: none is up). */
uint32_t members_place(const struct members *m, inode_id inode, uint32_t width,
                       server_id chosen[STRIPE_WIDTH_MAX]);

/* Words of a server, for people, cut off where they are too long. They go into logs, terminals and JSON: what
 * is no printable ASCII becomes a question mark. */
void members_take_words(char *to, size_t capacity, const char *from);

/* Space of the servers that are up; a disk that several of them share counts once. */
void members_space(const struct members *m, uint64_t *bytes_total, uint64_t *bytes_free);

#endif
