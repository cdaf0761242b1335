/* A scrub: an I/O daemon reads everything that it has, slowly and by itself, and verifies it, so that damage is found while another
 * copy is good, and of what has no other copy while somebody remembers where it came from.
 *
 * Pure: no clock, no I/O, no memory of its own. A *pass* goes over all objects in the order of the store, a stretch at a time:
 *
 *   RESTS --LIST--> LISTS --LISTED--> RESTS          the next objects, in pages
 *   RESTS --READ--> READS --HAS_READ--> RESTS        the next stretch of an object
 *                     | damage of an object that has copies
 *                     +--MEND--> MENDS --MENDED--> RESTS   asked of the other servers; then the stretch is read again
 *
 * - One thing is under way at a time; between two the host waits until scrub_deadline_ms(), so that no more is read than `rate`
 *   bytes a second. An object counts for SCRUB_OBJECT_BYTES at least: opening it moves the disk's head. While others use the disk
 *   a step waits for SCRUB_BUSY_MS at most, so a pass ends on a server that is never idle, too.
 * - A pass begins `every_s` after the one before it began, on the wall clock, which outlives the daemon; a pass that was under way
 *   when the daemon ended goes on where it was (struct scrub_position, which the host keeps). Within an object that is before the
 *   first damage which is a finding: it is told when all of the object was read, and is found again behind a start.
 * - What nobody can repair is a *finding*: one an object, told once (SAY), and again only when it has become more. It is looked at
 *   again every SCRUB_AGAIN_MS: so it ends when the file is deleted or written anew, and is repaired when the server that has the
 *   other copy is back. What could not be asked of others yet waits as a finding that is not told.
 * - There are SCRUB_FINDINGS_MAX findings; beyond that, objects are told once each pass, and counted. */
#ifndef MORSEL_IOD_SCRUB_H
#define MORSEL_IOD_SCRUB_H

#include "common/base/types.h"

enum {
    SCRUB_FINDINGS_MAX = 64,
    SCRUB_IDS_MAX = 256,
    SCRUB_ACTIONS_MAX = 4,
    SCRUB_OBJECT_BYTES = 16384,
    SCRUB_BUSY_MS = 1000,    /* A step waits so long for others ... */
    SCRUB_BUSY_LOOK_MS = 20, /* ... and looks so often. */
    SCRUB_START_MS =
        300000, /* A daemon that has just started has its clients to look after; `every_s` if that is less. */
    SCRUB_AGAIN_MS = 600000,      /* Findings are looked at again. */
    SCRUB_AGAIN_BYTES = 16 << 20, /* So much of one at a time. */
    SCRUB_RETRY_MS = 60000,       /* Behind a failure that says nothing about the bytes, */
    SCRUB_TRIES_MAX = 3,          /* so often for one stretch. */
    SCRUB_MENDS_MAX =
        8, /* Repairs of one stretch: a disk that goes on giving wrong bytes is left alone. */
    SCRUB_ASK_BYTES_MAX = 1 << 20, /* Of others; one block behind one that nobody has. */
    SCRUB_KEEP_MS = 60000          /* The position is kept so often. */
};

/* What outlives the daemon, beside the findings. Unix times in seconds; 0: never. */
struct scrub_position
{
    bool running;     /* A pass is under way, */
    uint64_t began_s; /* which began then, as the last one did if none is. */
    uint64_t ended_s; /* When the last whole pass ended. */
    uint64_t after;   /* All objects up to that place in the order of stores are done. */
    struct object_id
        object; /* Of this one, behind it, everything before `offset`, too: nothing there is a finding. */
    uint64_t offset;
    uint64_t objects, bytes; /* Of this pass: done, and read. */
};

struct scrub_finding
{
    struct object_id object;
    uint64_t start,
        end; /* Bytes: from the first bad block to behind the last one; both 0: the object as a whole. */
    uint64_t blocks; /* How many of them are bad. */
    bool unreadable; /* The disk gives an error; otherwise wrong bytes. */
    bool waits;      /* For others to be asked: it is not told. */
    uint64_t seen_s; /* The pass (scrub_position.began_s) that has seen it. */
};

enum scrub_event_type { SCRUB_TICK, SCRUB_LISTED, SCRUB_HAS_READ, SCRUB_MENDED };

enum scrub_outcome {
    SCRUB_FINE,
    SCRUB_UNREADABLE, /* An error of the disk, about what no other server can help with: for good. */
    SCRUB_FAILED      /* Something else, which may go by. */
};

enum scrub_mend {
    SCRUB_REPAIRED, /* Or somebody has written it meanwhile: to be read again. */
    SCRUB_LOST,     /* Nobody has the first block of it. */
    SCRUB_LATER,    /* Nobody can be asked now. */
    SCRUB_NOT_OURS  /* This server has no part in that group any more. */
};

struct scrub_event
{
    uint64_t now_ms; /* Of a clock that only goes on. */
    uint64_t wall_s; /* Unix time. */
    enum scrub_event_type type;
    bool busy; /* TICK: others use the disk. */
    enum scrub_outcome outcome;
    union {
        struct
        {
            const struct object_id *
                ids; /* Borrowed: the next ones in the order of the store; SCRUB_IDS_MAX at most. */
            size_t count;
            bool last; /* Behind them there is none. */
        } list;
        struct
        {
            bool exists;
            uint64_t bytes; /* Were read. */
            uint64_t
                next; /* Where to go on; UINT64_MAX: the object has ended. With UNREADABLE: behind what cannot be read, likewise. */
            uint64_t bad_start, bad_end,
                bad_blocks; /* The first blocks in a row that are damaged; bad_blocks 0: none. */
            bool bad_unreadable; /* Some of them the disk does not give. */
        } read;
        enum scrub_mend mend;
    };
};

enum scrub_action_type {
    SCRUB_LIST,     /* Objects behind `after`: answered by LISTED. */
    SCRUB_READ,     /* `object` at `start`: HAS_READ. */
    SCRUB_MEND,     /* `object` from `start` to `end`, of the other servers: MENDED. */
    SCRUB_SAY,      /* The finding goes to the log. */
    SCRUB_SAY_GONE, /* The finding that was told is none any more. */
    SCRUB_SAY_END,  /* A pass has ended. */
    SCRUB_KEEP      /* The position and the findings, on the disk. */
};

struct scrub_action
{
    enum scrub_action_type type;
    uint64_t after;
    struct object_id object;
    uint64_t start, end;
    struct scrub_finding finding;
};

/* In order. LIST, READ or MEND is the last one, if there is one. */
struct scrub_actions
{
    uint32_t count;
    struct scrub_action items[SCRUB_ACTIONS_MAX];
};

enum scrub_state { SCRUB_RESTS, SCRUB_LISTS, SCRUB_READS, SCRUB_MENDS };

/* An object that is being read: in its turn, or for a finding. */
struct scrub_scan
{
    bool active, again; /* again: for a finding. */
    struct object_id object;
    uint64_t offset, end;        /* end: of what is looked at again; UINT64_MAX. */
    uint32_t tries;              /* Of this stretch, */
    uint32_t mends;              /* and repairs at its beginning. */
    uint64_t bad_start, bad_end; /* All of it is bad: what others are asked for, */
    bool bad_unreadable;         /* though the disk does not give some of it, */
    uint64_t ask;                /* so many bytes at a time. */
    struct scrub_finding found;
};

struct scrub
{
    uint64_t rate; /* Bytes a second; 0: off. */
    uint64_t every_s;
    enum scrub_state state;
    struct scrub_position position;
    uint32_t findings_count;
    struct scrub_finding findings[SCRUB_FINDINGS_MAX];
    uint64_t unlisted; /* Objects with damage in this pass for which there was no room there. */
    uint64_t bytes;    /* Read since the start, */
    uint64_t passes;   /* passes that have ended since then. */
    struct scrub_scan scan;
    uint32_t ids_count, ids_at;
    bool ids_last;
    struct object_id ids[SCRUB_IDS_MAX];
    bool again;        /* Findings are being looked at again: */
    uint32_t again_at; /* the next one. */
    uint64_t ready_us, busy_ms, again_ms, kept_ms, pass_ms;
};

/* `position` and `findings` as they were kept; NULL and 0: there is nothing, and a pass begins. */
void scrub_init(struct scrub *s, uint64_t rate, uint64_t every_s,
                const struct scrub_position *position, const struct scrub_finding *findings,
                uint32_t findings_count, uint64_t now_ms, uint64_t wall_s);

/* What the host is to do is put into `out`. */
void scrub_step(struct scrub *s, const struct scrub_event *event, struct scrub_actions *out);

/* When TICK is due; UINT64_MAX: not before the answer to what is under way. Ask again after each step. */
uint64_t scrub_deadline_ms(const struct scrub *s);

/* How much of the present pass is done, in millionths: objects lie in the order of stores as if they were drawn. */
uint32_t scrub_part(const struct scrub *s);

/* Of the findings that were told: objects, and the bad blocks in them. */
uint32_t scrub_damaged(const struct scrub *s, uint64_t *blocks);

#endif
