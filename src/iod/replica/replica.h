/* One server's copy of a group: what it does for clients and for the other members. Everything that a
 * server does about a group, but for the bytes, the disk and the network.
 *
 *      who asks, members' messages, what the disk has done
 *                |
 *   +------------v-------------+  group.h    with whom it may serve, rounds, votes
 *   |         replica          |  order.h    the order of changes, and which were carried out
 *   +------------+-------------+  intent.h   where the copies may differ
 *                |                dirty_log.h  what others have missed
 *      replica_next(): what is to be done
 *
 * Pure. Calls bring what has happened; after each of them replica_next() is asked until it says
 * false. Sources: docs/replication.md, and tests/model for what each rule is for.
 *
 * A change at who orders:
 *
 *   replica_change() -> order -> write intent on the disk -> APPLY -> \
 *                          \---> SEND a forward to each member -------> all have it: ANSWER
 *
 * A sync (of an object for a client, or of everything, after which write intent leaves):
 *
 *   who orders    wait for what is under way (everything) -> SYNC here, SEND to all -> all did
 *                 -> ANSWER; when all of the set are joined: CLEAR to all
 *   The *cut* tells the changes behind a sync of everything from those before it: it is a number in
 *   the round, which forwards carry. Who takes a forward of a newer cut, or hears of its sync, begins a
 *   new set of write intent; so what CLEAR takes from the disk is on the disks of all.
 *
 * Bytes from another member (GROUP_COPY, GROUP_RECOVER), one *session* as long as both live:
 *
 *   who takes                                         who gives
 *   FETCH, with its write intent in pages   ------>   adds it and its own to the log for that member
 *   (GROUP_COPY:) memory, in pages          <------   PIECE: operations
 *   carries out, one behind the other       <------   PIECE: bytes, as they are now: a few under way
 *   GIVEN, up to which one                  ------>   ...
 *   (GROUP_COPY:) logs, in pages            <------   PIECE: logs of who is outside
 *   SYNC, REWRITE, then COPIED              <------   PIECE: the end
 *
 * Pieces are numbered. RECOVERY_PIECES_MAX of them may be under way, so that a link with delay is not
 * idle: who gives shows the next one when its host has sent the one before (replica_gave()); who takes keeps
 * what it has not carried out yet, with its write intent noted together. One that is missing is asked for again:
 * at once when one behind it comes, after a while when none comes (replica_resend()); all from there on are then
 * read and sent anew. What comes twice behind such a silence was only late: on a slow link the next silence may last
 * twice as long, or it would carry nothing but pieces that were sent already. Memory, logs and the end of a lap go alone, when nothing else is under way.
 *
 * Recovery goes in *laps*: all that was in the log when a lap began has been given when it ends. What
 * was changed meanwhile is for the next one, and each is shorter than the one before. Who takes says
 * that it has everything (RECOVERED) behind a lap that took it REPLICA_LAP_MS at most, or REPLICA_LAP_MS_MAX if
 * the one before was hardly longer (in each is what was changed during a way there and back and a sync, too):
 * what is left then is given in the round in which the larger set agrees, while nothing is served. So
 * it does not take a moment in which nobody writes.
 *
 * Everything. A log that says everything is given object by object: the source's host lists what it has
 * (LIST), a page at a time, in the order of stores. The page goes as a PIECE, upon which the taker deletes
 * what else it has in that stretch of the order; then the page's objects are given whole. Between the
 * look and the page nothing else is taken out of the log, so what has been given that the page does not know is
 * in the log once more. The next look is when the page has been answered.
 *
 * What is damaged at who gives it, of whatever kind the session is: in place of the bytes goes what its checksums say these blocks are to
 * be. A block of the taker's that is good, and is just that, stays as it is; any other one is damage there, too, from then on. So
 * nobody waits for what cannot be given. What stays are the giver's own bytes, whoever has kept them, so neither its memory of
 * operations nor the rule whose bytes count need know of it, and it gets them back by an ordinary repair when both serve. Of a block
 * that is another one here nobody can tell whether it is the older one, of before a change that the giver remembers as done: it would
 * undo what is about to be acknowledged. It is an error to who reads it, until it is written anew or another member of the
 * set, which has the giver's bytes, repairs it.
 *
 * Nothing is half carried out when bytes are given away as a whole, flushed, or taken. Who takes bytes
 * has write intent for them first, as for a change: the round may come to nothing, and then they
 * differ from those of others. And it logs them for whoever is outside.
 *
 * A block that does not match its checksum, or that the disk does not give (the host has found that, and asks by
 * replica_repair()):
 *
 *   who has the damage                        another one of the set
 *   WANTED, its blocks          ------>       reads them, if it is in the same round, before and behind it
 *   write intent, then MEND     <------       BLOCKS; or that they are damaged there, too: the next one
 *   REPAIRED: what failed is tried again
 *
 * It changes nothing that was acknowledged, and has no place in the order, for none is needed. Whoever
 * asks for a damaged block has not changed a part of it since (for that it must be good), so it has
 * none of the changes under way that touch a part of it; who answers has everything that was acknowledged,
 * and of those some; and all of them are carried out here behind the repair. What replaces the block as a whole
 * makes it good: MEND leaves good blocks as they are, and asks for none back when such a change has begun here
 * since it was asked. Both are in one round when the bytes are read, and here they are put in place before
 * another round can begin (applying). That they were under way is in the write intent, as when other
 * bytes are taken.
 *
 * Who is slow (replica_slow.c), looked at every REPLICA_LOOK_MS. Two things are seen:
 *
 *   who orders      what a member has, and another one does not have slow_limit_ms later: a change, or a
 *                   client's sync. Itself is judged likewise.
 *   each of itself  something has been at work on the disk here for slow_limit_ms, and nothing came to its end
 *                   meanwhile; of a sync of everything SLOW_BULK times as long.
 *
 * What has to move many bytes may take longer: a change behind others that are under way, as if SLOW_QUEUE_BYTES_MS of
 * them moved in a millisecond, as long as the member carries any out, for its link may be slow; a sync, as if its disk
 * moved SLOW_BYTES_MS of what was changed since the last sync of everything; up to SLOW_EXCUSE_MS_MAX. Queues in front
 * of a member are kept short all the same (backlog.h). Who was slow itself a moment ago judges nobody: all may wait
 * for the same thing. Time that a client's link takes is in none of this: a request is in here when its last
 * byte is, and over when it has been carried out.
 *
 * Copies are compared (verify.h) by LOOK and SEEN: who orders asks one thing at a time of each member, and of itself, with numbers
 * that grow; each is done once and answered as often as it is asked for. With `hold` the stretch is locked in the order meanwhile, so
 * nothing is under way there in this round, at any member. A TAKE is a repair that is *forced*: what is not damaged is replaced as well.
 * It is done within the same lock and the same round, so it can meet no change: until it is answered the lock stays, and
 * what an earlier lock or round has asked for is done no more. Between two steps it rests as long as the last one took.
 *
 * The host: sends what it is shown to whom it names, or loses it; calls replica_lost() when what was sent is lost with a
 * connection, and replica_resend() every so often, for messages are lost besides; has one RECORD, one dirty file
 * operation (NOTE, REWRITE) and any number of APPLY, SERVE and SYNC at work; keeps the memory of operations as order.h says: on the disk no later
 * than the bytes, noted before them as begun and after them as done, and hands in what was begun only
 * as answered by MORSEL_UNSURE. A host whose disk fails to do what it is shown ends: the others go on.
 *
 * Invariants (replica_check()): those of the cores; joined is the group when the order is; with a
 * fetch at work the order has nothing; an APPLY that is waiting for the disk is one of the order's. */
#ifndef MORSEL_IOD_REPLICA_REPLICA_H
#define MORSEL_IOD_REPLICA_REPLICA_H

#include "iod/replica/dirty_format.h"
#include "iod/replica/intent.h"
#include "iod/replica/order.h"
#include "iod/replica/verify.h"

enum {
    REPLICA_SYNCS_MAX = 256,   /* At a time; half of them for other members. */
    REPLICA_ACKS_MAX = 64,     /* Of forwards that came again; more are asked for once more. */
    REPLICA_PAGE_MAX = 16,     /* Entries in one message. */
    REPLICA_LAP_MS = 300,      /* What takes no longer is given while nobody serves; ... */
    REPLICA_LAP_MS_MAX = 2500, /* ... and so long, where laps do not get shorter any more. */
    REPLICA_LOOK_MS = 100,
    SLOW_BULK = 5,
    SLOW_BYTES_MS = 32 << 10,
    SLOW_QUEUE_BYTES_MS =
        4 << 10, /* What one connection may hold is excused as long as it may be. */
    SLOW_EXCUSE_MS_MAX = 8000,
    REPLICA_SHARE = 70, /* Percent, while laps shrink; */
    REPLICA_SHARE_MIN = 20,
    REPLICA_SILENCES = 4, /* So many times replica_resend() without a piece: it is lost. */
    REPLICA_SILENCES_MAX = 16,
    REPLICA_NOTES_MAX = ORDER_ITEMS_MAX + RECOVERY_PIECES_MAX + 2
};

/* In place of the id of a change, which is never so low: the pieces that are taken, by their place in the
 * queue, and the blocks that are mended. */
enum { REPLICA_ID_PIECE, REPLICA_ID_REPAIR = RECOVERY_PIECES_MAX, REPLICA_ID_FORCED };
static_assert(RECOVERY_PIECES_MAX + 1 < (int)ORDER_ITEMS_MAX, "the lowest id of a change");

/* ---- Between members ---- */

enum replica_message_type {
    REPLICA_FORWARD, /* number: the sequence; cut, change. The host adds the bytes. */
    REPLICA_ACK,     /* number: the sequence. */
    REPLICA_SYNC,    /* number, cut, object, everything. */
    REPLICA_SYNCED,  /* number. */
    REPLICA_CLEAR,   /* cut: what was changed before it is on the disks of all. */
    REPLICA_FETCH,   /* session, recovering, number: of the page, from 1; changes, last. */
    REPLICA_FETCHED, /* session, number: have the page. */
    REPLICA_PIECE,   /* session, number; piece. The host adds the bytes of PIECE_BYTES. */
    REPLICA_GIVEN, /* session, number: carried out; have: came; last: what is behind that is lost. */
    REPLICA_WANTED, /* number: of the repair; changes[0]: the blocks, of one object. */
    REPLICA_BLOCKS, /* number, changes[0]: the same. The host adds the bytes, or sets `last`: they are
                        damaged here, too. */
    REPLICA_LOOK,   /* number, step: of a comparison. */
    REPLICA_SEEN /* number, step.type; what is there: `list`, `seen`; of TAKE `last`: it was done. */
};

enum piece_kind {
    PIECE_BYTES,      /* changes[0]: the object as it is, its bytes in the stretch. */
    PIECE_OPERATIONS, /* ops */
    PIECE_LOG,        /* changes, which `member` has missed. */
    PIECE_END,
    PIECE_LIST /* changes: the objects that are there, behind `after` up to `upto`. */
};

struct replica_message
{
    enum replica_message_type type;
    uint32_t from;         /* By place in the group. */
    uint64_t epoch, round; /* Of the sender's set; of FETCH and what answers it: of the fetch. */
    uint64_t number, cut, session;
    uint64_t pass;        /* Of the taker's fetches in this start: an older one is over. */
    uint64_t have;        /* FETCH: the last piece of the session that was carried out; GIVEN. */
    uint64_t after, upto; /* PIECE_LIST: places in the order of stores (store_list()). */
    bool recovering, last, everything;
    enum piece_kind piece;
    uint32_t member, count;
    struct object_id object;
    struct order_change change; /* `not_after_ms`: of the receiver's clock, by the hosts. */
    struct verify_step step;
    union {
        struct change changes[REPLICA_PAGE_MAX];
        struct op_known ops[REPLICA_PAGE_MAX]; /* `until_ms` likewise. */
        struct verify_list list;
        struct verify_seen seen;
    };
};

/* ---- What the host does ---- */

enum replica_action_type {
    REPLICA_SEND,      /* `message` to `member`. A forward has the bytes of `token`. */
    REPLICA_WORD,      /* group_word() to all others. */
    REPLICA_RECORD,    /* `record` to the disk; then replica_recorded(). */
    REPLICA_NOTE,      /* `notes`, added to the dirty file and synced; then replica_noted(). */
    REPLICA_REWRITE,   /* The dirty file is to say replica_dirty(), and nothing else; then
                        replica_rewritten(). */
    REPLICA_APPLY,     /* `change`, with the bytes of `token`; then replica_applied(id). */
    REPLICA_SERVE,     /* Read for `token`; then replica_served(id, round), which says whether what
                        was read is answered. */
    REPLICA_ANSWER,    /* `token`, with `answer`; it is over. */
    REPLICA_RELEASE,   /* `token` is over. */
    REPLICA_SYNC_HERE, /* `object`, or everything: bytes and memory that were applied before are on
                          the disk; then replica_synced(id). */
    REPLICA_TAKE, /* `piece`, with the bytes of `token`, which is over then; of everything `page`: what
                        it does not name is deleted. Then replica_taken(). */
    REPLICA_LIST, /* What is here behind `page->after`, in order; then replica_listed(id). */
    REPLICA_MEND, /* What is damaged of `piece` gets the bytes of `token`, which are of `member`; then
                          replica_mended(id); it is over. With `forced` all of it gets them, or, where `token` is 0,
                          the object the length `size`. */
    REPLICA_REPAIRED, /* replica_repair() is over, with `answer.status`: MORSEL_OK; MORSEL_CHECKSUM, all
                          members of the set have damage there; MORSEL_AGAIN, something came between. */
    REPLICA_LOOK_HERE, /* What is here for `step`: then replica_saw(id), replica_saw_list(id) or
                          replica_saw_nothing(id). */
    REPLICA_FOUND,     /* `found`: copies differed. */
    REPLICA_VOTE,      /* For `set` in `epoch` (GROUP_START_VOTE). In place of another one. */
    REPLICA_STOP_VOTE
};

/* The objects of a stretch of the order of stores, behind `after` up to `upto`; UINT64_MAX: to the end. */
struct replica_page
{
    uint64_t after, upto;
    uint32_t count;
    struct object_id objects[REPLICA_PAGE_MAX];
};

struct replica_action
{
    enum replica_action_type type;
    uint64_t id, token, epoch, round;
    uint32_t member;
    group_set set;
    bool everything;
    struct object_id object;
    struct op_answer answer;
    struct group_record record;
    struct change piece;
    const struct order_change *change; /* Until the next call. */
    const struct dirty_record *notes;  /* Likewise. */
    const struct replica_page *page;   /* Likewise. */
    uint32_t count;
    bool forced;
    uint64_t size;
    struct verify_step step;
    struct verify_found found;
    struct replica_message message;
};

/* ---- For others to read ---- */

enum replica_sync_state {
    SYNC_FREE,
    SYNC_WAITING, /* Of everything: changes of before the cut are under way. */
    SYNC_WANTED,  /* To be begun here. */
    SYNC_AT_WORK,
    SYNC_DONE /* Here; the others are waited for. */
};

struct replica_sync
{
    enum replica_sync_state state;
    bool ours; /* We order: the others are asked. Otherwise one of them has asked us. */
    bool everything, has_token, over;
    struct object_id object;
    uint64_t token, number, epoch, round;
    uint32_t from;
    group_set have, send;
    uint64_t had_ms; /* Since when a member has done it: as it was seen; 0: none was. */
    uint64_t bytes;  /* Changed since the last sync of everything, when it began. */
};

/* What was seen of who is slow. */
struct replica_watch
{
    uint64_t look_ms, looked_ms; /* When the next look is due, and when the last one was. */
    uint64_t
        clock_ms; /* Of all other times here. It stands still while we do: a process that was stopped
                          does not take that for others' slowness. */
    uint64_t done;              /* What came to its end on the disk here, in this process, */
    uint64_t seen;              /* and at the last look. */
    uint64_t small_ms, bulk_ms; /* Since when something is at work, and nothing came to its end. */
    uint64_t own_ms;            /* When it was slow itself last; 0: never. */
    uint64_t lag_ms;            /* replica_lag_ms() */
    uint64_t acked[REPLICAS_MAX], moved_ms[REPLICAS_MAX]; /* Of the order; when it grew last. */
    uint64_t cut_bytes,
        synced_bytes; /* Of the order, at the last cut, and at the last that was cleared. */
};

/* An APPLY, or a TAKE, whose write intent is not on the disk yet. */
enum note_state { NOTE_WAITING, NOTE_WRITING, NOTE_READY };

struct replica_note
{
    enum note_state state;
    uint64_t id, token; /* Of the order, or REPLICA_ID_*. */
};

struct replica_ack
{
    uint32_t member;
    uint64_t epoch, round, sequence;
};

enum fetch_state {
    FETCH_NONE,
    FETCH_WAITING,  /* Something is half carried out. */
    FETCH_ASKING,   /* Pages of write intent go out. */
    FETCH_TAKING,   /* Pieces come in. */
    FETCH_SYNC,     /* What came is to be synced, */
    FETCH_SYNCING,  /* is being synced, */
    FETCH_REWRITE,  /* then the logs are to be written, */
    FETCH_REWRITING /* are being written. */
};

/* A piece that has come. */
struct replica_piece
{
    struct change change;
    uint64_t number, token;
    bool ready; /* Its write intent is on the disk. */
};

struct replica_fetch
{
    enum fetch_state state;
    bool recovering, flush; /* flush: nothing comes from elsewhere. */
    bool say;               /* There is something to send to the source. */
    uint32_t source;
    uint64_t source_start, epoch, round, pass, page, sync;
    struct dirty_intake intake;
    bool last;       /* That page of write intent is. */
    bool asked;      /* In this session all of its write intent was. */
    bool taking;     /* The first piece of the queue is at work. */
    bool again, gap; /* To be asked for again; one behind the one that is missing has come. */
    bool doubted;    /* Something has come in this pass (op_memory_doubt()). */
    uint32_t silences, patience; /* Of so many a piece is lost. */
    uint64_t
        repeated; /* Asked for again behind a silence, and for nothing else; until it comes twice. 0: none. */
    uint32_t first, count; /* Of the queue, a ring. */
    struct replica_piece queue[RECOVERY_PIECES_MAX];
    struct replica_page list;    /* Of the one that is everything: there is one at most. */
    uint64_t carried;            /* The last piece that was carried out. */
    uint64_t lap_ms;             /* When the lap began. */
    uint64_t took_ms, before_ms; /* It, without its sync; the one before (0: there was none). */
};

struct replica_giving
{
    uint64_t session; /* 0: nobody takes. */
    uint64_t epoch, round, pass;
    bool recovering, ready; /* ready: has all pages of its write intent. */
    uint64_t page_number;   /* Of write intent, the last one that came. */
    uint64_t number, answered,
        sent; /* The last piece; up to there carried out; shown to the host. */
    uint64_t logged[RECOVERY_PIECES_MAX]; /* By number: its number in the log; 0: it is `page`. */
    uint64_t reading;                     /* That one the host is to send; 0: none. */
    uint64_t again; /* Asked for once more meanwhile, from that one on; 0: none was. */
    bool asks;      /* The member has asked for pieces in this fetch. */
    bool held;      /* Something failed here: it asks again. */
    bool say_fetched;
    enum piece_kind kind; /* PIECE_LIST: in PIECE_BYTES, with `listed`. */
    uint64_t cursor;      /* Of operations or of a log: how many were given before. */
    uint32_t count;       /* In the piece under way. */
    uint32_t member;      /* Whose log. */
    uint64_t lap;         /* Entries of the log that are to be given before the lap is over. */
    bool sweeping;        /* Everything is to be given, and was up to page.after. */
    bool listed;          /* `page` is under way. */
    uint64_t listing;     /* The number of the LIST at work; 0: none. */
    bool list_wanted;     /* It is to be shown. */
    uint64_t gave, grown; /* Of recovery: bytes given; by which changes made the log longer. */
    uint64_t lap_gave, lap_before; /* gave when the lap began; how many the one before had. */
    uint32_t share;                /* Percent: replica_progress(). */
    uint64_t swept,
        swept_bytes; /* Of the sweep so far: objects listed, bytes given (replica_gave()). */
    struct replica_page page;
};

enum repair_state {
    REPAIR_NONE,
    REPAIR_ASKING,
    REPAIR_TAKING, /* Write intent, then the bytes. */
    REPAIR_OVER    /* To be said. */
};

struct replica_repair
{
    enum repair_state state;
    bool forced, length; /* What differs is taken over, damaged or not; it is the length alone. */
    uint64_t size;
    struct change stretch; /* Blocks. */
    uint64_t epoch, round, number;
    uint32_t member; /* Who is asked, or was last. */
    group_set tried;
    bool say, take_wanted;
    uint64_t token;
    int status;
};

/* What another member wants for its own. */
struct replica_lending
{
    bool say;
    uint64_t number, epoch, round;
    struct change stretch;
};

enum look_state {
    LOOK_NONE,
    LOOK_WANTED,  /* To be begun, */
    LOOK_AT_WORK, /* begun, */
    LOOK_DONE     /* and answered; it may be asked for again. */
};

/* What who orders has asked of a member, or of itself. */
struct replica_look
{
    enum look_state state;
    bool say;
    uint32_t from;
    uint64_t epoch, round, number;
    struct verify_step step;
    bool done; /* Of TAKE. */
    union {
        struct verify_list list;
        struct verify_seen seen;
    };
};

enum { LOOK_OWN, LOOK_ASKED, LOOKS };
enum { VERIFY_REST_MS_MAX = 1000, VERIFY_HOLD_MS_MAX = 1000 /* Of a look. */ };

enum verify_asking {
    ASKING_NOTHING,
    ASKING_HOLD, /* The stretch is not ours alone yet. */
    ASKING_MEMBERS,
    ASKING_ANSWERED /* There is another step. */
};

struct replica_verify
{
    struct verify verify;
    uint64_t wanted; /* The run that is to be; 0: none. */
    bool allowed;    /* The host wants it to go on. */
    enum verify_asking asking;
    uint64_t epoch, round, number; /* Of what is asked. */
    uint64_t begun_ms, due_ms;     /* Of the step; the next one. */
    bool held;
    uint64_t hold; /* With the order. */
    group_set send;
    struct replica_look looks[LOOKS];
    uint32_t taking; /* Which of them has the forced repair. */
};

struct replica
{
    struct group group;
    struct order order;
    struct intent intent;
    struct dirty_log logs[REPLICAS_MAX]; /* By member; ours is not used. */
    uint32_t applying;                   /* Half carried out. */
    uint64_t cut, cut_sequence, clear;   /* Of the round; clear: the cut to be told as cleared. */
    group_set clear_send;
    uint64_t sync_number, sessions, lists; /* Of this start. */
    bool say_word, record_wanted, vote_wanted, stop_wanted;
    struct group_action vote;
    struct group_record next;
    bool filing, rewrite_wanted; /* The dirty file is being written; is to be written anew. */
    uint32_t note_count, ack_count;
    struct replica_fetch fetch;
    struct replica_giving giving[REPLICAS_MAX];
    struct replica_repair repair, forced;
    struct replica_verify verify;
    struct replica_lending lending[REPLICAS_MAX]; /* By member. */
    struct replica_watch watch;
    uint64_t slow_limit_ms; /* 0: nobody is slow. */
    struct replica_sync syncs[REPLICA_SYNCS_MAX];
    uint32_t sync_count; /* Those that are not free. */
    struct replica_ack acks[REPLICA_ACKS_MAX];
    struct replica_note notes[REPLICA_NOTES_MAX];
    struct dirty_record note_records[REPLICA_NOTES_MAX];
    struct changed *asked;   /* Our write intent, as FETCH says it. */
    struct changed *scratch; /* For one call. */
};

struct replica_setup
{
    group_id id;
    uint32_t count, me;
    group_set vacant;                         /* group_set_vacant() */
    const struct mirror_lease *const *leases; /* group_init() */
    uint32_t clients_max, ops_max;            /* op_memory_new() */
    uint32_t objects_max, spans_max;          /* Of each log and of the write intent. */
    uint64_t slow_limit_ms;                   /* 0: never is anybody slow. */
    uint64_t slow_pause_ms;                   /* 0: GROUP_PAUSE_MS. */
};

/* False: out of memory; replica_free() is allowed then as well. It is large: not for a stack. */
bool replica_init(struct replica *r, const struct replica_setup *setup);
void replica_free(struct replica *r);

/* ---- Before the start: what the disk had ---- */

void replica_load_dirty(struct replica *r, const struct dirty_record *record);
bool replica_load_operation(struct replica *r, const struct op_known *known); /* op_memory_load() */

/* `start` counts the starts of this server, from 1; no other copy of it bore that number. */
void replica_start(struct replica *r, const struct group_record *record, uint64_t boot,
                   uint64_t start, uint64_t now_ms);

/* ---- Who asks ---- */

/* order_request(), order_read(), order_settle(). */
enum order_verdict replica_change(struct replica *r, const struct order_change *change,
                                  uint64_t token);
enum order_verdict replica_read(struct replica *r, struct object_id object, struct span span,
                                uint64_t token);
enum order_verdict replica_settle(struct replica *r, struct object_id object, uint64_t token);

/* Everything that was acknowledged of the object is to be on the disks of all. */
enum order_verdict replica_sync(struct replica *r, struct object_id object, uint64_t token);

/* May who knows that nobody changes what it reads be answered from this copy, with what was read
 * since `round` was given? 0: it does not serve. */
uint64_t replica_serves(const struct replica *r, uint64_t now_ms);

/* These blocks of an object do not match their checksums here (a whole number of them; at most what one
 * message carries). One repair at a time: until REPAIRED is shown. */
enum repair_verdict {
    REPAIR_BEGUN,
    REPAIR_NOBODY, /* This member is the whole set. */
    REPAIR_LEFT    /* It takes no part now. */
};
enum repair_verdict replica_repair(struct replica *r, struct object_id object, struct span span);

/* MEND has been done, or failed. */
void replica_mended(struct replica *r, uint64_t id, int status);

/* The copies are to be compared from the first object on, in that run, when this member orders; `allowed`: now. Another run
 * than the one that is under way takes its place, and one that was done is not done again. */
void replica_set_verify(struct replica *r, uint64_t run, bool allowed);

/* LOOK_HERE has been done; nothing: it could not be, and is asked for again. */
void replica_saw(struct replica *r, uint64_t id, const struct verify_seen *seen);
void replica_saw_list(struct replica *r, uint64_t id, const struct verify_list *list);
void replica_saw_nothing(struct replica *r, uint64_t id);

/* May BLOCKS be sent, with what was read since it was shown? */
bool replica_lends(const struct replica *r, const struct replica_message *m);

/* Everything is to be synced, so that write intent can leave: from time to time. */
void replica_flush(struct replica *r);

/* ---- What has happened ---- */

void replica_tick(struct replica *r, uint64_t now_ms);
uint64_t replica_deadline_ms(const struct replica *r);
/* These members are to leave the set (group_set_leaving()). */
void replica_set_leaving(struct replica *r, group_set leaving);

/* These have lost their places (group_set_displaced()). */
void replica_set_displaced(struct replica *r, group_set displaced);

/* This process is about to end (group_quit()): a tick is due. */
void replica_quit(struct replica *r);

void replica_heard(struct replica *r, const struct group_word *word, uint64_t now_ms);
void replica_decided(struct replica *r, uint64_t epoch, group_set set, uint64_t now_ms);
void replica_dead(struct replica *r, uint32_t member, uint64_t now_ms);

void replica_recorded(struct replica *r, uint64_t now_ms);
void replica_noted(struct replica *r);
void replica_rewritten(struct replica *r, uint64_t now_ms);
void replica_applied(struct replica *r, uint64_t id);

/* An APPLY that could not be: with a status, nowhere (all members of the set find the same damage, and each
 * says so of its own copy); or not now, because the round was over before it could be: it is shown again in
 * the next round of which it is part, or forgotten. */
void replica_unapplied(struct replica *r, uint64_t id, int status);
void replica_put_off(struct replica *r, uint64_t id);
bool replica_served(struct replica *r, uint64_t id, uint64_t round, uint64_t now_ms);
void replica_synced(struct replica *r, uint64_t id, uint64_t now_ms);
void replica_taken(struct replica *r);

/* What LIST asked for: `objects` are all that is here behind page->after up to `upto`, in the order of
 * stores, at most REPLICA_PAGE_MAX. count UINT32_MAX: it failed, and is asked for again. */
void replica_listed(struct replica *r, uint64_t id, const struct object_id *objects, uint32_t count,
                    uint64_t upto);

/* A message of a member, by its place; nothing about it is believed that our own members do not say.
 * True: `token`, behind which are the bytes that came with it, is kept until it is over. */
bool replica_receive(struct replica *r, const struct replica_message *m, uint64_t token,
                     uint64_t now_ms);

/* The PIECE_BYTES that was shown with `m` for `member` is sent up to `end` at most: more does not fit into a
 * message, and comes later. `m` then says what is sent. False: it is not under way any more. */
bool replica_cut_piece(struct replica *r, uint32_t member, struct replica_message *m, uint64_t end);

/* The host has sent that PIECE_BYTES, with so many bytes; or could not: it is shown again when the member asks
 * again. */
void replica_gave(struct replica *r, uint32_t member, const struct replica_message *m,
                  uint64_t bytes);
void replica_not_given(struct replica *r, uint32_t member, const struct replica_message *m);

/* The connection to a member was lost: what is under way is sent again. */
void replica_give_again(struct replica *r);

/* Likewise: what we wait for may be lost with it, and is asked for with the next replica_resend(). */
void replica_fetch_lost(struct replica *r);

/* Likewise of forwards and syncs. */
void replica_lost(struct replica *r);

/* What is not answered, and seems to be lost, is sent again. */
void replica_resend(struct replica *r);

/* Does this member take bytes from another one just now? What it asks for may not be there yet: it asks
 * again, often, which costs one short message. */
bool replica_takes(const struct replica *r);
void replica_ask_again(struct replica *r);

/* ---- What is to be done ---- */

/* About how much is still to be given to whoever is brought up to date: of a log the objects in it and their
 * bytes as far as it names them, of everything by what the part of the order had that is given. 0: nothing, or nobody knows. */
void replica_left(const struct replica *r, uint64_t *objects, uint64_t *bytes);

/* Bytes that have been given by now to those who are being brought up to date. */
uint64_t replica_bytes_given(const struct replica *r);

/* How long the oldest change that some member has was seen to be missing at another one; 0: where nothing waits, we do
 * not order, or nobody is looked at (slow_limit_ms). */
uint64_t replica_lag_ms(const struct replica *r);

/* Who orders gives to somebody who recovers. Sums of all, which begin anew with each recovery. */
struct replica_progress
{
    uint64_t gave, grown; /* Bytes; by how many the log for it grew through changes. */
    uint32_t
        share; /* So much of what is given it may grow, in percent (write_pace.h): less where laps do
                             not shrink all the same, for in each is what was changed during a sync, too. */
};

/* False: to nobody. */
bool replica_progress(const struct replica *r, struct replica_progress *p);

/* So many bytes were being changed, or are not known to be on the disks of all: those of the write intent on the disk,
 * as far as it names them. */
uint64_t replica_doubt(const struct replica *r);

bool replica_next(struct replica *r, uint64_t now_ms, struct replica_action *out);

/* What the dirty file is to say, at REWRITE. False: `visit` said so. */
bool replica_dirty(const struct replica *r,
                   bool (*visit)(void *data, const struct dirty_record *record), void *data);

void replica_check(const struct replica *r);

#endif
