/* Which columns of a file may hold acknowledged bytes that are not on their servers' disks, and
 * under which verifier each was acknowledged. Pure.
 *
 * A server's verifier changes whenever bytes that it has acknowledged may have been lost (RFC 1813,
 * 3.3.21): a yes to SYNC under another verifier than that of the write says nothing about the
 * write.
 *
 * A column is synced when a SYNC that was sent after everything acknowledged has been answered
 * well: not when it is sent, and not when something was acknowledged meanwhile. Of a file that
 * others may have written nothing is known, and every column counts as unsynced
 * (unsynced_forget()).
 */
#ifndef MORSEL_CLIENT_DATA_UNSYNCED_H
#define MORSEL_CLIENT_DATA_UNSYNCED_H

#include "common/base/limits.h"
#include "common/base/types.h"

struct unsynced;

/* `width` columns, 1 to STRIPE_WIDTH_MAX. `fresh`: nobody has written to any of them yet. NULL: out
 * of memory. */
struct unsynced *unsynced_new(uint32_t width, bool fresh);
void unsynced_free(struct unsynced *u); /* NULL is allowed. */

/* Others may have written: every column counts as unsynced until it has been synced. */
void unsynced_forget(struct unsynced *u);

/* The server has acknowledged a change of ours under `verifier` (0: it told none); `durable`: it is
 * on its disk already. True: what was acknowledged before and is not synced may be lost. */
bool unsynced_acked(struct unsynced *u, uint32_t column, uint64_t verifier, bool durable);

/* Must the column be synced before anybody is told that the file is on disk? */
bool unsynced_is(const struct unsynced *u, uint32_t column);

/* Somebody has been told of what may be lost. */
void unsynced_told(struct unsynced *u);

/* Under which verifiers what we wrote was acknowledged: what is lost and nobody was told (of several
 * losses the last: who is told of it is told of those before), and what is not synced. They go into
 * the manager's record, and so to whoever syncs the file next. Returns how many, up to
 * UNSYNCED_OWN_MAX. */
enum { UNSYNCED_OWN_MAX = 2 };
uint32_t unsynced_verifiers(const struct unsynced *u, uint32_t column,
                            uint64_t verifiers[UNSYNCED_OWN_MAX]);

/* A report to the manager names the column with these verifiers. */
void unsynced_listed(struct unsynced *u, uint32_t column);

/* Is there a verifier that would have to be named, and no report has named it since the column was
 * synced last? So it is with what a server acknowledges behind a report. */
bool unsynced_is_unlisted(const struct unsynced *u);

/* Bytes of the column that somebody acknowledged under `verifier` may be lost: the server has
 * another one. True, once for each verifier: nobody has been told yet. */
bool unsynced_gone(struct unsynced *u, uint32_t column, uint64_t verifier);

/* What has become of bytes that the manager's record names. */
enum unsynced_fate {
    UNSYNCED_OPEN,   /* This flush cannot tell; the record keeps them. */
    UNSYNCED_SYNCED, /* They are on the server's disk. */
    UNSYNCED_GONE    /* They may be lost; unsynced_gone() says whether that is news. */
};

/* Of those that were acknowledged under `verifier` (VERIFIER_ANY: under several), when a flush ends. `synced`: under which
 * verifier the flush was answered, 0: the column needed no SYNC; `last`: which the server has told last, 0: none. The answer may
 * be older than the record, so what was written under the last one is not lost because it is another one. */
enum unsynced_fate unsynced_fate(const struct unsynced *u, uint32_t column, uint64_t verifier,
                                 uint64_t synced, uint64_t last);

/* A SYNC is sent: what is acknowledged from here on it need not cover. The mark goes into
 * unsynced_synced(). */
uint64_t unsynced_mark(const struct unsynced *u, uint32_t column);

/* It was answered well, under `verifier`. True: what was acknowledged and not synced may be lost.
 */
bool unsynced_synced(struct unsynced *u, uint32_t column, uint64_t mark, uint64_t verifier);

#endif
