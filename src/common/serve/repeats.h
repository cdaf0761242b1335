/* Changes of data that an I/O daemon has carried out: one that comes again, because the answer was
 * lost with its connection, gets the first answer and is not carried out a second time, behind what
 * others have written meanwhile.
 *
 * Pure. A client numbers its changes at a server from 1, has at most DATA_OPS_PENDING_MAX of them
 * without an end, no two of them at one place (the number modulo that count; op_numbers.h), says
 * with each up to where all have ended (`ended`), and says of one that it has sent before to this
 * run of the server that it comes again. To the server a change is
 *
 *   NEW ---begin()---> RUNNING ---end()---> DONE ---`ended`, or a later one at its place---> OVER
 *
 * and in each of these states it is answered without being carried out, but for NEW. Every answer
 * is kept, refusals too: the same number never has two answers.
 *
 * Bounded: `clients_max` clients and `slots_max` changes in all. When there are more, the client
 * that was quiet longest is forgotten as a whole. Of what was forgotten nothing can be said: what
 * comes again and may be among it is UNKNOWN, and must not be carried out. A client that is met
 * again begins with a floor, the number that it comes with: what is below and comes again may have
 * been forgotten, and what is above was not sent before. So the invariant, whatever is forgotten
 * and in whatever order copies come: of one number at most one begin() succeeds, as long as copies
 * that are not marked as coming again do not come behind those that are. (They cannot: an older
 * connection of a client ends before a newer one is greeted.)
 *
 * A change costs no memory of its own: a client has DATA_OPS_SLOTS_MIN slots at first, and as many
 * more, in powers of two, as it has changes between the oldest that has not ended and the newest.
 *
 * A run of the server forgets what the one before knew: clients see that by its start_id, and do
 * not ask (rpc_uv.h, `once`).
 *
 * Source: Juszczak, "Improving the performance and correctness of an NFS server", USENIX Winter 1989;
 * numbered places: RFC 8881, 2.10.6.
 */
#ifndef MORSEL_COMMON_SERVE_REPEATS_H
#define MORSEL_COMMON_SERVE_REPEATS_H

#include "common/base/limits.h"
#include "common/base/types.h"

struct repeats;

/* A change as its client names it. Numbers from the wire: nothing about them is believed. */
struct repeats_change
{
    client_id client;
    op_sequence number; /* Not 0. */
    op_sequence ended;
    bool again;
    uint64_t verifier; /* That its client knew; only of objects that have copies (data.proto). */
};

struct repeats_answer
{
    int status; /* 0 or enum morsel_status */
    uint64_t verifier;
};

enum repeats_verdict {
    REPEATS_NEW,     /* Never carried out: go ahead. */
    REPEATS_RUNNING, /* It is at work; `runner` is that of begin(). */
    REPEATS_DONE,    /* `answer` is what it was answered. */
    REPEATS_OVER,    /* Its client does not wait for it any more: a stray copy. */
    REPEATS_UNKNOWN  /* It may have been carried out, and that was forgotten. */
};

struct repeats_counts
{
    uint32_t clients, slots;
    uint64_t forgotten; /* Clients, ever, for want of room. */
};

/* `slots_max` is DATA_OPS_PENDING_MAX at least, `clients_max` 1. NULL: out of memory. */
struct repeats *repeats_new(uint32_t clients_max, uint32_t slots_max);
void repeats_free(struct repeats *r); /* NULL is allowed. */

/* What is known of a change that has come. What its client says of others is taken over. `runner`
 * and `answer` are set for the verdicts that have them. */
enum repeats_verdict repeats_find(struct repeats *r, const struct repeats_change *change,
                                  void **runner, struct repeats_answer *answer);

/* It is carried out from here on: repeats_find() has just said NEW. False: out of memory, and it
 * must not be carried out. */
bool repeats_begin(struct repeats *r, const struct repeats_change *change, void *runner);

/* It has come to its end, with this answer. Harmless for one that has been forgotten meanwhile. */
void repeats_end(struct repeats *r, client_id client, op_sequence number,
                 const struct repeats_answer *answer);

void repeats_count(const struct repeats *r, struct repeats_counts *counts);

#endif
