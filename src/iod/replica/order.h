/* The order of changes in a group: one member orders, the others of the in-sync set carry out what
 * it forwards, and a change is answered when all of them have it (docs/replication.md, Write and
 * Read; tests/model/read_model.py).
 *
 * Pure. Calls bring what has happened, order_next() gives what is to be done, one thing at a time.
 * Who orders and who takes is the group's to say (group.h): order_join(), order_leave(). Bytes never
 * come in here: an item has the host's `token`, behind which its payload, its connection or its
 * reader stands.
 *
 *   a change at who orders:
 *     WAITING --nothing earlier is on its range--> UNDER_WAY --all have it--> answered
 *        |  judged here, once: late, unentitled,       |  another round: forwarded again
 *        +-> known, no room                            +-> bytes of another: forgotten, ask again
 *   a read or SETTLE there:
 *     WAITING --no earlier change is on its range--> READING --order_applied()--> over
 *   a change at who takes:
 *     TAKEN --order_applied()--> acknowledged
 *
 * Ranges are locked in order of arrival: changes wait for whatever overlaps and came before, reads
 * for changes that did. So nobody reads what might still come to nothing, and no two changes that
 * overlap are under way at once, which makes the order among forwards matter to nobody.
 *
 * A change that copies bytes from one place of the group to another is carried out by each member with its own
 * bytes, so these must be the same everywhere and for as long as it is under way, also in the rounds in which it
 * is forwarded again: its `reads` are locked like a reader's, from before it is shown until all members have
 * it. So every earlier change there is everywhere before any member reads, no later one is anywhere before all
 * have read, and to carry it out once more does no harm. A hold excludes it, too: the bytes of one
 * member may be about to be made those of another. Who copies onto what it reads would read something else
 * the second time; the host refuses that. And it lets `reads` go on to the end of the object: where that is
 * decides what a copy of bytes behind it is, and what is written behind a stretch may move it.
 *
 * Rules of the model that are kept here:
 *   inflight   a read waits for the changes under way on its range until all members have them
 *   settle     SETTLE is answered when every earlier change of the object is everywhere, or nowhere
 *   notafter   whether a change is in time is judged once, when it has its range: by the copy of it that is valid for
 *              longest, of those that have come by then
 *   sentbefore a change that names an older verifier than ours is refused, one that names a newer one
 *              is for somebody who knows more
 *   oldstart   forwards and acknowledgements count in their epoch and round, from who leads it
 *   again      what is under way is forwarded again in a new round
 *   replymemory, merge, ownmemory   op_memory.h: part of what is handed over, in place of what was
 *              there; the host keeps it on its disk no later than the bytes of which it speaks
 *
 * The host: carries out what it is shown, at once (nothing more is shown behind order_leave()); has
 * nothing half carried out when it gives its bytes away, flushes them, or takes those of others
 * (order_taken_over(), with the first of them op_memory_doubt(), then op_memory_load() and op_memory_settle()); and stamps
 * `not_after_ms` anew for the clock of the member to which it sends a change.
 *
 * Nothing is forwarded to a member that is not known to have joined the round (order_has_joined()): it would pass it over,
 * and what is forwarded again for having got no answer is late. Who orders has joined first; the others follow within
 * moments, and say so.
 *
 * Forwarded again, within a round, is what may have been lost: all, when the connection was (order_lost()); else what has
 * not been acknowledged for a whole span between two order_resend(), when its member has meanwhile acknowledged nothing
 * at all or something that was sent later; and then after twice as many, up to ORDER_REST_MAX. A member behind a slow link
 * acknowledges late, but one thing behind the other: it is sent nothing twice, which would make the link slower yet.
 * (RFC 6298, 5.5, of what is sent again; RFC 5681, 3.2, of what was passed over.)
 *
 * Bounded: ORDER_ITEMS_MAX items, of which ORDER_READS_MAX are reads; numbers of forwards reach no
 * farther than ORDER_WINDOW beyond the first that is missing.
 *
 * Invariants (order_check()): no two items that exclude each other are at work; an item waits for as
 * many as are before it and exclude it; who is not joined has nothing waiting, who takes has nothing
 * under way, who orders has taken nothing in this round; what can be forwarded is shown. */
#ifndef MORSEL_IOD_REPLICA_ORDER_H
#define MORSEL_IOD_REPLICA_ORDER_H

#include "common/base/list.h"
#include "iod/replica/changed.h"
#include "iod/replica/group.h"
#include "iod/replica/op_memory.h"

enum {
    ORDER_ITEMS_MAX = 1024,
    ORDER_READS_MAX = 768, /* Changes find room beside them. */
    ORDER_WINDOW = 2048,
    ORDER_REST_MAX = 4 /* Calls of order_resend(). */
};

struct order_change
{
    struct op_id op;
    op_sequence ended; /* Of its client: up to there nothing is waited for. */
    struct object_id object;
    uint64_t generation;
    struct span span;        /* Not empty: what has no bytes has the whole object. */
    struct object_id source; /* Of a copy: whose bytes it takes, */
    struct span reads;       /* and where nothing changes meanwhile. Empty: it is none. */
    bool bare;               /* It brings no bytes: it cuts, punches, allocates or deletes. */
    uint64_t not_after_ms;   /* On our clock. */
    uint64_t verifier;       /* The newest that its client knew when it was sent first. */
};

enum order_item_state {
    ORDER_FREE,
    ORDER_WAITING,
    ORDER_UNDER_WAY,
    ORDER_READING,
    ORDER_TAKEN,
    ORDER_OVER /* Only its last word is to be fetched. */
};

enum order_item_kind {
    ORDER_CHANGE,
    ORDER_READ,
    ORDER_SETTLE,
    ORDER_HOLD /* A read of the core itself, without a token: while it is at work nothing changes there. */
};

struct order_item
{
    struct list all, todo; /* In order of arrival; of those that order_next() has to show. */
    enum order_item_kind kind;
    enum order_item_state state;
    struct order_change change; /* Of a read: the object and its span. */
    uint64_t token, again;      /* The first copy, and the last one of those that came again. */
    bool has_again;
    uint64_t serial;       /* Of this use of the item: an id that is late fits no more. */
    uint32_t before;       /* Items that it waits for. */
    uint64_t sequence;     /* In the round. */
    uint64_t epoch, round; /* TAKEN: whose acknowledgement it is. */
    bool applied;
    bool put_off; /* To be carried out here, in a round that we lead. */
    group_set have, send;
    uint32_t rest;   /* Calls of order_resend() until it may be forwarded again. */
    uint32_t rested; /* What that was the last time. */
    uint64_t had_ms,
        ahead;      /* replica_slow.c: since when a member has it, in this round (0: none was
                               seen to); bytes under way before it then. */
    unsigned words; /* What order_next() shows of it besides. */
    struct op_answer answer; /* With the verifier under which it was ordered. */
};

enum order_action_type {
    ORDER_APPLY,   /* Write intent, bytes, memory; then order_applied(id). */
    ORDER_FORWARD, /* To `member`, with epoch, round and sequence. */
    ORDER_SERVE,   /* Read it; then order_applied(id). Not answered if we have left meanwhile. */
    ORDER_ACK,     /* To who leads: epoch, round, sequence. */
    ORDER_ANSWER,  /* `token` with status and verifier, and it is over. */
    ORDER_RELEASE  /* `token` is over, and nobody is answered. */
};

struct order_action
{
    enum order_action_type type;
    uint64_t id, token;
    const struct order_change *change; /* Until the next call; of ANSWER, ACK and RELEASE NULL. */
    uint32_t member;
    uint64_t epoch, round, sequence;
    enum order_item_kind kind; /* Of what it is about. */
    struct op_answer answer;
};

/* What is said at once. */
enum order_verdict {
    ORDER_YES,   /* It is in; the rest is said by order_next(). */
    ORDER_NO,    /* Not of us, not now: who asks goes on asking, where a group's first member is. */
    ORDER_FULL,  /* Likewise, later. */
    ORDER_HAS_IT /* A forward that was carried out: acknowledge it again. */
};

/* For others to read. */
struct order
{
    uint32_t me;
    bool joined;
    group_set set;
    group_set there; /* Those of it that have joined the round, as far as is known here. */
    uint64_t epoch, round;
    uint64_t verifier;
    uint64_t sequence; /* Of the last forward, in the round. */
    uint64_t floor;    /* Up to there all forwards of the round were carried out here, */
    uint64_t window[ORDER_WINDOW / 64]; /* and of those behind it these. */
    struct list all, todo, unused;
    uint32_t count, reads;
    uint64_t serial;
    uint64_t bytes; /* Those that all changes brought which were begun or taken here. */
    uint64_t acked[REPLICAS_MAX]; /* By member: parts of changes that were done, in this process. */
    uint64_t heard[REPLICAS_MAX]; /* The same, at the last order_resend(). */
    uint64_t top[REPLICAS_MAX]; /* The last forward of the round that a member has acknowledged. */
    struct op_memory *memory;
    struct order_item *items;
};

/* False: out of memory; order_free() is allowed then as well. */
bool order_init(struct order *o, uint32_t me, uint32_t clients_max, uint32_t ops_max);
void order_free(struct order *o);

/* GROUP_JOIN, GROUP_LEAVE. */
void order_join(struct order *o, uint64_t epoch, uint64_t round, group_set set);
void order_leave(struct order *o);

/* Another member of the set has joined the round in which we are. False: we do not order, or that was known. */
bool order_has_joined(struct order *o, uint32_t member);

/* The bytes of another member are to take the place of ours: what was ordered here, and has not come to its end, is forgotten.
 * Not while joined. What has come to its end we know as long as nothing has come (op_memory_doubt()). */
void order_taken_over(struct order *o);

/* Acknowledged bytes may be lost: the verifier of the group from now on (it only grows). */
void order_set_verifier(struct order *o, uint64_t verifier);

/* A client asks. With YES, `token` is answered or released; else the caller has it still. */
enum order_verdict order_request(struct order *o, const struct order_change *change,
                                 uint64_t token);
enum order_verdict order_read(struct order *o, struct object_id object, struct span span,
                              uint64_t token);
enum order_verdict order_settle(struct order *o, struct object_id object, uint64_t token);

/* Nothing is to be under way on the stretch from SERVE until order_applied(id). */
enum order_verdict order_hold(struct order *o, struct object_id object, struct span span);

/* What APPLY or SERVE showed under that id; NULL: it is over. */
const struct order_change *order_at_work(const struct order *o, uint64_t id);

/* APPLY or SERVE is done. An id of something that is over is passed over. */
void order_applied(struct order *o, uint64_t id);

/* APPLY could not be done, here nor at the others, each of which finds so by itself: the client is told
 * `status`, and so is who asks again. */
void order_unapplied(struct order *o, uint64_t id, int status);

/* APPLY was not done, and is shown again when it has its turn: at once, or in the round of which it is
 * part by then. */
void order_put_off(struct order *o, uint64_t id);

/* From another member. `from` is its place. */
enum order_verdict order_forwarded(struct order *o, uint32_t from, uint64_t epoch, uint64_t round,
                                   uint64_t sequence, const struct order_change *change,
                                   uint64_t token, uint64_t now_ms);
void order_acked(struct order *o, uint32_t from, uint64_t epoch, uint64_t round, uint64_t sequence);

/* Forwards have been lost with a connection: all that are not acknowledged are shown again. */
void order_lost(struct order *o);

/* Every so often: those are shown again that seem to be lost (above). */
void order_resend(struct order *o);

/* The next thing to do, or false. Ask after each call, until it is false. */
bool order_next(struct order *o, uint64_t now_ms, struct order_action *out);

bool order_orders(const struct order *o);

/* Bytes that it moves, or what a change of that kind costs. */
uint64_t order_bytes(const struct order_change *change);

/* Is a change under way that was forwarded in this round as the `sequence`th, or before it? */
bool order_is_under_way(const struct order *o, uint64_t sequence);
void order_check(const struct order *o);

#endif
