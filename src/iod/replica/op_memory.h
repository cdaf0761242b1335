/* Which operations a group has carried out, and what they were answered: one that comes again, at
 * whichever member, gets the first answer and is not carried out behind what others have written
 * meanwhile (docs/replication.md; tests/model/read_model.py, `replymemory`, `ownmemory`, `merge`).
 *
 * Pure. The memory of one server alone is common/serve/repeats.h, which relies on connections: an
 * older one has ended before a newer one is greeted. Between members nothing of the kind holds: a
 * copy may lie at one of them while another one carries the operation out. So here an operation is
 * kept until its client says that it has ended, or until its `not_after` is over, and what comes
 * later is refused for being late (order.h). The two are the whole of what makes forgetting safe;
 * when there is no room, what is new is refused, and nothing is forgotten.
 *
 *   NEW ---begin()---> RUNNING ---end()---> DONE ---`ended`, or `until_ms` over---> gone
 *
 * Handed over as a whole, before the bytes: what the source knows (op_memory_each(), op_memory_load()) takes the place of
 * what a member knew; added to it, it would answer as done what is undone with the bytes. Until all bytes have come
 * (op_memory_doubt(), op_memory_settle()) nobody can say what of it they have, so both are known, and in doubt: what is
 * forgotten is done twice, and what is taken for done is lost, where the source ends in between and this member goes on
 * with what it has. Where the source ends before anything of it has come, what this member has is its own, and sure. It
 * need not go on by itself when the source is back at once, as a copy is that is opened again for another table:
 * that one is sure, and the source once more (group.h).
 *
 *   ours: DONE --doubt()--> in doubt, unnamed --settle()----------------------> gone
 *                              |  load()
 *   theirs: -------------------+-> in doubt -----settle(): all bytes are here--> DONE
 *
 * Invariants (op_memory_check()): counts are right and within bounds; nothing is kept that its
 * client has named as ended, unless it is running. */
#ifndef MORSEL_IOD_REPLICA_OP_MEMORY_H
#define MORSEL_IOD_REPLICA_OP_MEMORY_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    OP_MEMORY_CLIENTS_MAX = SESSIONS_MAX,
    OP_MEMORY_OPS_MAX = 65536, /* Of a group: 8 MiB. */
    /* Kept longer than its `not_after`: clocks are told apart by less than a second; and a client that
     * asks again may name a later end, for as long as it asks at all (io_timeout, and a lease period). */
    OP_MEMORY_MARGIN_MS = 40000
};

struct op_id
{
    client_id client;
    op_sequence number; /* From 1. */
};

struct op_answer
{
    int status;
    uint64_t verifier;
};

enum op_verdict {
    OP_NEW,
    OP_RUNNING,
    OP_DONE, /* `answer` */
    OP_OVER  /* Its client does not wait for it any more. */
};

/* What is handed over. `op.number` 0: only that what is up to `ended` is over. */
struct op_known
{
    struct op_id op;
    op_sequence ended;
    uint64_t until_ms; /* On this member's clock. */
    struct op_answer answer;
};

struct op_memory;

/* NULL: out of memory. */
struct op_memory *op_memory_new(uint32_t clients_max, uint32_t ops_max);
void op_memory_free(struct op_memory *m); /* NULL is allowed. */
void op_memory_clear(struct op_memory *m);

enum op_verdict op_memory_find(const struct op_memory *m, struct op_id op,
                               struct op_answer *answer);

/* It is being carried out, and remembered until `not_after_ms` at least. Harmless for one that is
 * known. False: no room, or no memory: it must not be carried out. */
bool op_memory_begin(struct op_memory *m, struct op_id op, uint64_t not_after_ms, uint64_t now_ms);

/* It was; or it was not, and is forgotten. Harmless for one that is not known. */
void op_memory_end(struct op_memory *m, struct op_id op, struct op_answer answer);
void op_memory_drop(struct op_memory *m, struct op_id op);

/* The client does not wait for anything up to that number. */
void op_memory_ended(struct op_memory *m, client_id client, op_sequence ended);

/* Everything that is done, for who takes over. False: `visit` said so. */
bool op_memory_each(const struct op_memory *m,
                    bool (*visit)(void *data, const struct op_known *known), void *data);

/* Nothing goes on of what is running: it is forgotten. */
void op_memory_stop(struct op_memory *m);

/* The first of another member's bytes is about to take the place of ours: what was done here, and what is loaded from now on, is
 * in doubt, and its answer is MORSEL_UNSURE. What was running is forgotten. */
void op_memory_doubt(struct op_memory *m);

/* All of them have: what was loaded since is done, and the rest has been undone, and is forgotten. */
void op_memory_settle(struct op_memory *m);

/* What another member's op_memory_each() showed, `until_ms` set anew for our clock. What was done here and
 * is in doubt gives way to it. False: no room; then the memory is not what it should be, and this member may not join. */
bool op_memory_load(struct op_memory *m, const struct op_known *known);

/* Is nothing that it knows answered by MORSEL_UNSURE? */
bool op_memory_is_sure(const struct op_memory *m);

uint32_t op_memory_count(const struct op_memory *m);
void op_memory_check(const struct op_memory *m);

#endif
