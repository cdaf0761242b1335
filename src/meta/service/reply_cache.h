/* Answers of recent operations, per client: a retry after a lost reply must not apply twice.
 *
 * Pure. A client numbers its changing operations from 1, has at most CLIENT_OPS_PENDING_MAX of them
 * without an answer, no two of them at the same place (the number modulo that count), and says with
 * each up to where it has all answers (`answered`). The cache keeps, at each place, the outcome of
 * the newest operation that was applied: a client that has gone on to a newer one there has the
 * answers to those before. Refused operations leave no trace: their retry is judged again, which
 * nobody can tell from a first try.
 *
 * After a restart the host feeds it from the operation log (reply_cache_note() for each
 * record). The log holds the newest NS_LOG_KEPT operations: a retry that comes later than that many
 * operations of others AND after a restart of the manager would be judged again.
 *
 * Bounded: OP_WINDOW_CLIENTS_MAX clients; the one that was quiet longest gives way.
 *
 * Source: Juszczak, "Improving the performance and correctness of an NFS server", USENIX Winter 1989;
 * numbered places in place of guesses by age: RFC 8881, 2.10.6.
 */
#ifndef MORSEL_META_SERVICE_REPLY_CACHE_H
#define MORSEL_META_SERVICE_REPLY_CACHE_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum { REPLY_CACHE_CLIENTS_MAX = SESSIONS_MAX };

/* What the reply to an operation is made of; attributes are read again. */
struct op_outcome
{
    inode_id target;
    bool deleted;
};

enum reply_cache_verdict {
    REPLY_CACHE_NEW,      /* Never applied: go ahead. */
    REPLY_CACHE_KNOWN,    /* Applied: `outcome` is the answer. */
    REPLY_CACHE_FORGOTTEN /* The client has the answer: a stray duplicate. */
};

struct reply_cache;

struct reply_cache *reply_cache_new(void);    /* NULL: out of memory. */
void reply_cache_free(struct reply_cache *w); /* NULL is allowed. */

/* Look up (client, sequence); `answered` as the client sent it. */
enum reply_cache_verdict reply_cache_find(struct reply_cache *w, client_id client,
                                          op_sequence sequence, op_sequence answered,
                                          struct op_outcome *outcome);

/* The operation was applied. Client 0 (the manager itself) is ignored. Call reply_cache_reserve()
 * before applying, so that this cannot fail. From a log that is replayed it is called alone, and
 * false means out of memory. */
bool reply_cache_note(struct reply_cache *w, client_id client, op_sequence sequence,
                      op_sequence answered, const struct op_outcome *outcome);

/* Make room for the client. False: out of memory. */
bool reply_cache_reserve(struct reply_cache *w, client_id client);

/* Clients of which it has answers. */
uint32_t reply_cache_clients(const struct reply_cache *w);

#endif
