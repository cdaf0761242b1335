/* What changed in a group while one of its members was outside of the in-sync set, and how it gets
 * to that member: one log for each member that is outside (docs/replication.md, Recovery).
 *
 * Pure. The rules are those of tests/model/object_model.py:
 *   log       a deletion is a change like others
 *   older     what names an older placing than that of the object here is refused: generation_judge()
 *   session   what an earlier recovery sent is refused: struct dirty_intake
 *   answered  a piece leaves when the member has it, not when it was sent; and for good only when
 *             the member is in the set again, for then all of it is on its disk
 *   lock      in the model what recovers is locked against changes, since these go to the
 *             recovering member as well. Here nothing is forwarded to who is outside: what changes
 *             while a piece of it is under way is in the log once more.
 *
 *        dirty_log_add()      take()               answered()            settle()
 *   -------------------> OPEN ------> UNDER WAY ---------------> GIVEN -----------> gone
 *                         ^            (a few)       |             |
 *                         +-- drop() ------+         |             |
 *                         +----------- begin(): another session ---+
 *
 * Bounded, and never a silent loss: changed.h. On the disk it is never behind the write-intent set
 * (intent.h): what leaves that is in here before, and here on the disk before it leaves there.
 *
 * Invariants (dirty_log_check()): everything that was added since the last settle() is open, the rest
 * of a piece that was cut, under way, or given; without a session it is open. */
#ifndef MORSEL_IOD_REPLICA_DIRTY_LOG_H
#define MORSEL_IOD_REPLICA_DIRTY_LOG_H

#include "iod/replica/changed.h"

enum {
    DIRTY_OBJECTS_MAX = 65536,  /* Of a log: 9 MiB ... */
    DIRTY_SPANS_MAX = 2 * 65536 /* ... and 2 MiB; beyond, logs say less and less exactly. */
};

struct dirty_log
{
    struct changed *open, *given;
    struct change pieces[RECOVERY_PIECES_MAX]; /* By number: dirty_log_piece(). */
    struct change rest; /* Of a piece that was cut, if `has_rest`: it comes next. */
    uint64_t session;   /* 0: none. */
    uint64_t number;    /* Of the last piece in it, from 1. */
    uint32_t under_way; /* How many, up to that one. */
    bool has_rest;
};

/* False: out of memory; dirty_log_free() is allowed then as well. */
bool dirty_log_init(struct dirty_log *l, uint32_t objects_max, uint32_t spans_max);
void dirty_log_free(struct dirty_log *l);

void dirty_log_add(struct dirty_log *l, const struct change *change);
void dirty_log_add_all(struct dirty_log *l, const struct changed *from);

/* Everything that is not settled goes into `to`: for the disk, and for who takes over our bytes. */
void dirty_log_copy(const struct dirty_log *l, struct changed *to);

/* ---- Recovery, at who has the log ---- */

/* The member asks, under a number that it has never used before (not 0). The same session again
 * changes nothing. */
void dirty_log_begin(struct dirty_log *l, uint64_t session);

/* The session has ended otherwise than well. */
void dirty_log_stop(struct dirty_log *l);

/* The next piece, `number` in the session: the object as it is now, its bytes in the stretch, or
 * that there is no such object. It may be as long as an object; its host cuts it to what one message
 * carries (dirty_log_cut()), and so takes what lies behind the end of the object at once. False: nothing is left,
 * RECOVERY_PIECES_MAX are under way (with everything: any), or nobody recovers. */
bool dirty_log_take(struct dirty_log *l, struct change *piece);

/* The piece of that number; NULL: it is not under way. */
const struct change *dirty_log_piece(const struct dirty_log *l, uint64_t number);

/* All that are, and the rest. False: `visit` said so. */
bool dirty_log_each_under_way(const struct dirty_log *l,
                              bool (*visit)(void *data, const struct change *change), void *data);

/* What is under way as `number` is sent up to `end` only, which lies in its stretch or in a whole object: the
 * rest comes next. */
void dirty_log_cut(struct dirty_log *l, uint64_t number, uint64_t end);

/* The member has that one, and those before it. What names anything else is passed over. */
void dirty_log_answered(struct dirty_log *l, uint64_t session, uint64_t number);

/* What is under way will not be answered: it is open again. */
void dirty_log_drop(struct dirty_log *l);

/* The member has had all that there is. */
bool dirty_log_all_given(const struct dirty_log *l, uint64_t session);

/* It is in the set again, and what it was given is on its disk. */
void dirty_log_settle(struct dirty_log *l);

void dirty_log_check(const struct dirty_log *l);

/* ---- Recovery, at the member ---- */

struct dirty_intake
{
    uint64_t session, number; /* Of the last piece that was carried out. */
};

enum dirty_verdict {
    DIRTY_TAKE,  /* Carry it out, then answer. */
    DIRTY_AGAIN, /* It was: answer. */
    DIRTY_STALE  /* Of an earlier session, or not its turn: no word. */
};

enum dirty_verdict dirty_intake_judge(struct dirty_intake *in, uint64_t session, uint64_t number);

/* ---- Generations ---- */

enum generation_verdict {
    GENERATION_DO,      /* On the object that is here, or by making one. */
    GENERATION_RENEW,   /* What is here goes first: it is of an older placing. */
    GENERATION_DELETE,  /* It goes. */
    GENERATION_NOTHING, /* The deletion of something else: done, nothing changes. */
    GENERATION_REFUSE   /* A change of a placing that is over. */
};

/* What names `named` comes to an object of generation `here` (0: there is none). */
enum generation_verdict generation_judge(uint64_t here, uint64_t named, bool deletion);

#endif
