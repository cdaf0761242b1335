/* Benefactors: desktops that donate space. Who is here, and what they give.
 *
 * Pure: events in, actions out; the event carries the time. Membership is soft state (Tammineedi 2005,
 * section 3.2): a donor counts as long as it goes on saying that it is there. Only who it is, a token and the
 * number that it was given, is durable, for maps of morsels name it by that number.
 *
 *   unknown --JOIN--> persisting --PERSISTED--> HERE --silent for look_ms--> DOUBTED --silent for answer_ms--> AWAY
 *                                                ^  --GONE--------------------^  |                              |
 *                                                +-----------JOIN, REPORT--------+-------------JOIN-------------+
 *                                                                    a REPORT that it leaves: AWAY at once
 *
 * Nothing new is placed on one that is DOUBTED: it is asked once, and when its connection is gone it is given the
 * time to make another one. In place of the scan of all once a minute (there) each donor has a deadline of its own in
 * a heap, so that 10,000 of them cost what those cost that speak, or do not any more.
 *
 * After a start of the manager those of the records are DOUBTED until they join, AWAY when they do not within
 * look_ms; nobody is asked then, for there are no connections.
 *
 * One directory, one process: a JOIN names the *instance*, random in each process. While the connection of one
 * instance stands and it is not AWAY, another one is refused: it tries again. So who was killed is replaced at once,
 * whose cable was pulled when it is AWAY. A laptop that wakes up at another address is the same instance, and is
 * welcome on its new connection although nobody has heard of the end of the old one.
 *
 * What the maps say that a directory holds is true again only when the process that serves it has said what there is (told_held):
 * before that nothing is placed there. It is the process that knows whether it has, so that a restart of the manager costs nothing.
 *
 * Invariants (donors_check()):
 *  - no two donors have one id or one token; an id is never given to another token, also when its record could not
 *    be written, for nobody knows then what is on the disk;
 *  - a donor is welcomed only after its record is durable, and only then may be HERE or DOUBTED;
 *  - who is HERE is connected, who is AWAY is not;
 *  - who is HERE or DOUBTED has one deadline in the heap, who is AWAY has none;
 *  - the sums of what is donated and used, and the numbers of those that leave or give way, are those of the donors that are HERE.
 *
 *  - the number of one that was forgotten is below `next`, and nobody's.
 *
 * One that is AWAY for good is forgotten, when the maps name it no more (datasets/forget.h). It comes back as a new one, of which nothing
 * counts; a process that has told what it holds is refused then, until it is started again and tells that anew.
 *
 * Bounded: DONORS_MAX at a time, of some 1 KiB each.
 */
#ifndef MORSEL_META_CLUSTER_DONORS_H
#define MORSEL_META_CLUSTER_DONORS_H

#include "common/base/heap.h"
#include "common/base/table.h"
#include "meta/cluster/blame.h"
#include "meta/namespace/record.h"

enum {
    DONORS_ANSWER_MS =
        5000, /* Who is asked has so long for it, and who lost its connection for the next. */
    DONORS_RECOUNT_MS = 3000, /* So long others wait for the report of one. */
    DONORS_ACTIONS_MAX = 64   /* Of one step: what a tick leaves comes with the next one. */
};

/* More than any desktop has: so much is believed, and the sums of all fit their numbers. */
#define DONOR_BYTES_MAX ((uint64_t)1 << 50)

static_assert(DONORS_MAX <= UINT64_MAX / DONOR_BYTES_MAX, "sums fit");

/* Numbers of the wire. */
enum donor_state { DONOR_AWAY, DONOR_DOUBTED, DONOR_HERE };

/* What it says of itself. Bytes. */
struct donor_report
{
    uint64_t donated; /* The budget as it is now: the owner's, and what the disk still gives. */
    uint64_t used;    /* Of that. */
    uint32_t load;    /* Of its processors, in percent of one; 100 a processor that is busy. */
    uint64_t up_s;    /* Since its machine was started. */
    bool paused;      /* By its owner: it takes nothing, and gives nothing out. */
    bool
        leaving; /* It leaves soon: what it has is to be elsewhere (datasets/repair.h). In struct donor also of one that is distrusted. */
    uint64_t excess;  /* Of `used`: its owner wants it back (datasets/relocate.h); */
    uint64_t pressed; /* and of that, what his disk has no room for any more. */
};

/* What is still to be moved off one that leaves, or that gives less than it has. */
struct donor_left
{
    bool counted; /* Since it began to leave: otherwise of the rest only what was moved is known. */
    uint64_t wanted; /* Leaving: morsels of which there are fewer copies elsewhere than wanted, */
    uint64_t wanted_bytes;       /* and their bytes. */
    uint64_t only;               /* Of these no copy is here elsewhere. */
    uint64_t stuck;              /* Of these nobody can take one. */
    uint64_t stuck_bytes;        /* Giving less: of the excess nobody can take so much. */
    uint64_t moved, moved_bytes; /* Copied to others since it began. */
};

/* What the repair of morsels counts of it (datasets/repair.h). */
struct donor_repair
{
    uint32_t sources, targets; /* Fetches from it, and those that it carries out. */
    uint64_t full_until_ms;    /* It had no room for one. */
    uint64_t silent_until_ms;  /* It did not give one out. */
    uint64_t gone; /* Bytes that no map names there any more, and that may still be there; */
    uint64_t next_walk_ms;        /* so long nothing else is looked for that could go. */
    uint64_t no_surplus_until_ms; /* None of what it has was one too many (datasets/surplus.h). */
    struct donor_left left;       /* Of what is to be moved off it. */
    struct donor_left counting;
};

/* What came of knocking where clients are to find it (cluster/doors.h). */
struct donor_door
{
    bool shut, knocking;
    uint8_t failures; /* In a row, DOOR_FAILURES at most. */
    uint64_t due_ms;  /* The next knock; 0: none since it has joined. */
};

struct donor
{
    struct donor_record
        record;        /* id, token; the name as last told, in the store as told at first. */
    UT_hash_handle hh; /* By token. */
    struct heap_node deadline; /* HERE: when it is asked. DOUBTED: when it is AWAY. */
    enum donor_state state;
    bool durable;   /* Its record is. */
    bool connected; /* The connection of `instance` stands. */
    bool heard;     /* Since the manager was started. */
    uint64_t instance;
    uint64_t pending_tag; /* The JOIN that waits for its record, until it is durable. */
    char address[MEMBER_ADDRESS_BYTES_MAX +
                 1]; /* Where clients reach it, as last told; empty: not heard. */
    struct donor_report report;
    bool told_held;    /* `instance` has said what its directory holds, */
    uint64_t told_ms;  /* since then, for this manager. */
    uint64_t promised; /* Bytes that were to be placed there since its last report, */
    uint64_t
        awaited_ms; /* which is waited for since then, for it may take them back; 0: it is not. */
    uint64_t heard_ms;   /* Its last word; before: the manager's start. */
    uint64_t since_ms;   /* When it came into its state. */
    uint64_t leaving_ms; /* When it began to leave, if it does. */
    struct donor_door door;
    uint64_t
        kept_until_ms; /* Not forgotten by itself before: it has what nobody else has. 0: it was not looked at. */
    bool says_leaving; /* It has said so, and is not only distrusted. */
    struct donor_blame blame;
    struct donor_repair repair;
};

struct donors
{
    struct donor **items; /* Ascending by id; room for so many: */
    uint32_t room;
    struct donor *by_token;
    struct heap deadlines;
    uint32_t count, here; /* Those whose record is not durable yet count. */
    donor_id next;        /* Never given yet; 0: there are no more. */
    uint64_t donated, used;
    uint32_t shut;                /* Of those that are here: they cannot be reached (doors.h). */
    donor_id knocked;             /* At that one last. */
    uint32_t leaving, giving_way; /* Of those that are here: they leave; they have an excess. */
    uint32_t look_ms;
    uint64_t looks; /* Deadlines that came: what all this costs beside the answers. */
};

enum donors_event_type {
    DONORS_JOIN,
    DONORS_PERSISTED,
    DONORS_REPORT,
    DONORS_TOLD, /* All that its directory holds. */
    DONORS_GONE, /* Its connection ended. */
    DONORS_TICK
};

struct donors_event
{
    uint64_t now_ms; /* Monotonic. */
    enum donors_event_type type;
    union {
        struct
        {
            uint64_t tag; /* The host's name for the request; comes back in an action. */
            struct donor_record record; /* id 0: give me one. Others must be known by that token. */
            uint64_t instance;          /* Not 0. */
            char address[MEMBER_ADDRESS_BYTES_MAX + 1];
            struct donor_report report;
            bool told_held;
        } join;
        struct
        {
            donor_id id;
            int status; /* Not 0: could not be written. */
        } persisted;
        struct
        {
            uint64_t tag;
            donor_id id;
            uint64_t instance;
            struct donor_report report;
            bool leaves; /* It ends in an orderly way: this is its last word. */
        } report;
        struct
        {
            donor_id id;
            uint64_t instance;
        } gone;
        struct
        {
            donor_id id;
            uint64_t instance;
        } told;
    };
};

struct donors_action
{
    enum {
        DONORS_PERSIST, /* Make `id`'s record durable, then send PERSISTED. */
        DONORS_WELCOME, /* Answer `tag`: it is `id`. */
        DONORS_ALIVE,   /* Answer `tag`: the report was taken. */
        DONORS_REFUSE, /* Answer `tag` with `status` and `reason`. MORSEL_BUSY, MORSEL_AGAIN: try again.
                           MORSEL_NO_SESSION: join first. Others: for good. */
        DONORS_ASK,     /* Ask `id` whether it is there. */
        DONORS_HANG_UP, /* Its connection stands, but nobody answers on it: close it. */
        DONORS_CAME, /* For the log: `id` is HERE, and was AWAY, or was not heard of since the start. */
        DONORS_WENT /* For the log: `id` is AWAY, and was heard of; `reason` says why. */
    } type;
    uint64_t tag;
    donor_id id;
    int status;
    const char *reason; /* Constant text. */
};

struct donors_actions
{
    uint32_t count;
    struct donors_action items[DONORS_ACTIONS_MAX];
};

void donors_init(struct donors *d, uint32_t look_ms);
void donors_free(struct donors *d);

/* One of the store, when the manager starts. MORSEL_NOMEM; MORSEL_CORRUPT: its id or token is another one's, or there
 * are too many. */
int donors_add(struct donors *d, const struct donor_record *record, uint64_t now_ms);

/* Numbers below that one have been given: when the manager starts. */
void donors_given(struct donors *d, donor_id next);

/* It is AWAY, and the maps do not name it: it is nobody any more. */
void donors_forget(struct donors *d, donor_id id);

/* One that is AWAY is not forgotten by itself before that time. */
void donors_keep(struct donors *d, donor_id id, uint64_t until_ms);

/* Advance by one event. What the host must do is appended to `out`, in order. Never fails: without memory who joins
 * is refused (MORSEL_NOMEM). */
void donors_step(struct donors *d, const struct donors_event *event, struct donors_actions *out);

/* Can be read what it has? */
bool donor_gives(const struct donor *donor);

/* Whether it gives and takes is not known yet, and soon will be: it was not heard since the manager's start, its connection has
 * ended, or it has not said what it holds. */
bool donor_is_awaited(const struct donor *donor);

/* May morsels be placed on it, and does what it has count? Not when it is about to leave. */
bool donor_takes(const struct donor *donor);

/* Bytes that may still be placed on it. */
uint64_t donor_room(const struct donor *donor);

/* So many bytes are about to be placed there. */
void donors_promise(struct donors *d, donor_id id, uint64_t bytes);

enum donor_recount {
    DONOR_COUNTED, /* Its next report would show no room for so much, or it was waited for in vain. */
    DONOR_ASK,     /* It may show room, and is to be asked for it now. */
    DONOR_AWAITED /* It was asked. */
};

/* Somebody wants room for so many bytes. What clients ask for ahead of what they store counts as taken until the next report, which may show room
 * that donor_room() does not: it is waited for, for DONORS_RECOUNT_MS at most. */
enum donor_recount donors_recount(struct donors *d, donor_id id, uint64_t bytes, uint64_t now_ms);
/* It was caught with a copy that is wrong. True: it is distrusted from now on: nothing is placed there, and what it has is to be
 * elsewhere, as of one that leaves. Harmless when nobody has that id. */
bool donors_blame(struct donors *d, donor_id id, enum blame_kind kind, uint64_t now_ms);

/* It counts again. False: nobody has that id. */
bool donors_trust(struct donors *d, donor_id id, uint64_t now_ms);

/* When DONORS_TICK is due; UINT64_MAX: never. Ask again after each step. */
uint64_t donors_deadline_ms(const struct donors *d);

/* NULL: unknown. */
const struct donor *donors_find(const struct donors *d, donor_id id);

/* Would a JOIN with this token need a record of its own? */
bool donors_is_new(const struct donors *d, const uint8_t token[16]);

/* The first whose id is not below `from`, as an index into items; count: there is none. */
uint32_t donors_from(const struct donors *d, donor_id from);

/* CHECKs the invariants. Walks all of them. */
void donors_check(const struct donors *d);

#endif
