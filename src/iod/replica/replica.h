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
 *   carries out, one at a time              <------   PIECE: bytes, as they are now
 *   GIVEN                                   ------>   ...
 *   (GROUP_COPY:) memory and logs, in pages <------   PIECE: operations, logs of who is outside
 *   SYNC, REWRITE, then COPIED              <------   PIECE: the end
 *
 * Nothing is half carried out when bytes are given away as a whole, flushed, or taken. Who takes bytes
 * has write intent for them first, as for a change: the round may come to nothing, and then they
 * differ from those of others. And it logs them for whoever is outside.
 *
 * The host: sends what it is shown to whom it names, or loses it; calls replica_resend() when
 * something may be lost; has one RECORD, one dirty file operation (NOTE, REWRITE) and any number of
 * APPLY, SERVE and SYNC at work; keeps the memory of operations as order.h says: on the disk no later
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

enum {
    REPLICA_SYNCS_MAX = 256, /* At a time; half of them for other members. */
    REPLICA_ACKS_MAX = 64,   /* Of forwards that came again; more are asked for once more. */
    REPLICA_PAGE_MAX = 16,   /* Entries in one message. */
    REPLICA_NOTES_MAX = ORDER_ITEMS_MAX + 1
};

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
    REPLICA_GIVEN    /* session, number. */
};

enum piece_kind {
    PIECE_BYTES,      /* changes[0]: the object as it is, its bytes in the stretch. */
    PIECE_OPERATIONS, /* ops */
    PIECE_LOG,        /* changes, which `member` has missed. */
    PIECE_END
};

struct replica_message
{
    enum replica_message_type type;
    uint32_t from;         /* By place in the group. */
    uint64_t epoch, round; /* Of the sender's set; of FETCH and what answers it: of the fetch. */
    uint64_t number, cut, session;
    uint64_t pass; /* Of the taker's fetches in this start: an older one is over. */
    uint64_t have; /* FETCH: the last piece of the session that was carried out. */
    bool recovering, last, everything;
    enum piece_kind piece;
    uint32_t member, count;
    struct object_id object;
    struct order_change change; /* `not_after_ms`: of the receiver's clock, by the hosts. */
    union {
        struct change changes[REPLICA_PAGE_MAX];
        struct op_known ops[REPLICA_PAGE_MAX]; /* `until_ms` likewise. */
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
    REPLICA_TAKE,      /* `piece`, with the bytes of `token`; then replica_taken(); it is over. */
    REPLICA_VOTE,      /* For `set` in `epoch` (GROUP_START_VOTE). In place of another one. */
    REPLICA_STOP_VOTE
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
    uint32_t count;
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
};

/* An APPLY, or a TAKE, whose write intent is not on the disk yet. */
enum note_state { NOTE_WAITING, NOTE_WRITING, NOTE_READY };

struct replica_note
{
    enum note_state state;
    uint64_t id, token; /* Of the order. id 0: the piece that is taken. */
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

struct replica_fetch
{
    enum fetch_state state;
    bool recovering, flush; /* flush: nothing comes from elsewhere. */
    bool say;               /* There is something to send to the source. */
    uint32_t source;
    uint64_t source_start, epoch, round, pass, page, sync;
    struct dirty_intake intake;
    bool last;                /* That page of write intent is. */
    bool take_wanted, taking; /* A piece is to be carried out, is at work. */
    struct change piece;
    uint64_t token;
};

struct replica_giving
{
    uint64_t session; /* 0: nobody takes. */
    uint64_t epoch, round, pass;
    bool recovering, ready; /* ready: has all pages of its write intent. */
    uint64_t page, number;  /* The last ones. */
    bool under_way, say, say_fetched;
    enum piece_kind kind;
    struct change piece; /* Of PIECE_BYTES. */
    uint64_t cursor;     /* Of operations or of a log: how many were given before. */
    uint32_t count;      /* In the piece under way. */
    uint32_t member;     /* Whose log. */
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
    uint64_t sync_number, sessions; /* Of this start. */
    bool say_word, record_wanted, vote_wanted, stop_wanted;
    struct group_action vote;
    struct group_record next;
    bool filing, rewrite_wanted; /* The dirty file is being written; is to be written anew. */
    uint32_t note_count, ack_count;
    struct replica_fetch fetch;
    struct replica_giving giving[REPLICAS_MAX];
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
    const struct mirror_lease *const *leases; /* group_init() */
    uint32_t clients_max, ops_max;            /* op_memory_new() */
    uint32_t objects_max, spans_max;          /* Of each log and of the write intent. */
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

/* Everything is to be synced, so that write intent can leave: from time to time. */
void replica_flush(struct replica *r);

/* ---- What has happened ---- */

void replica_tick(struct replica *r, uint64_t now_ms);
uint64_t replica_deadline_ms(const struct replica *r);
void replica_heard(struct replica *r, const struct group_word *word, uint64_t now_ms);
void replica_decided(struct replica *r, uint64_t epoch, group_set set, uint64_t now_ms);
void replica_dead(struct replica *r, uint32_t member, uint64_t now_ms);

void replica_recorded(struct replica *r, uint64_t now_ms);
void replica_noted(struct replica *r);
void replica_rewritten(struct replica *r, uint64_t now_ms);
void replica_applied(struct replica *r, uint64_t id);
bool replica_served(struct replica *r, uint64_t id, uint64_t round, uint64_t now_ms);
void replica_synced(struct replica *r, uint64_t id, uint64_t now_ms);
void replica_taken(struct replica *r);

/* A message of a member, by its place; nothing about it is believed that our own members do not say.
 * True: `token`, behind which are the bytes that came with it, is kept until it is over. */
bool replica_receive(struct replica *r, const struct replica_message *m, uint64_t token,
                     uint64_t now_ms);

/* What is not answered is sent again: messages may be lost. */
void replica_resend(struct replica *r);

/* ---- What is to be done ---- */

bool replica_next(struct replica *r, uint64_t now_ms, struct replica_action *out);

/* What the dirty file is to say, at REWRITE. False: `visit` said so. */
bool replica_dirty(const struct replica *r,
                   bool (*visit)(void *data, const struct dirty_record *record), void *data);

void replica_check(const struct replica *r);

#endif
