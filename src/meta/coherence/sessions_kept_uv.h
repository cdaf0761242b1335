/* Sessions as they are written down in the store (E records), so that the next start knows for whom to
 * wait: what session.h says of SESSION_KEEP, SESSION_END and SESSION_WAITING is done here.
 *
 * What is written need not be synced. A process that is killed loses none of it. Behind a loss of power there is another
 * run (runs.h): the records name the run of which all sessions are there, and under another one SESSION_UNTOLD is
 * waited for besides, which is written down before that run is named. So it is with a database in which an
 * older manager has written no sessions; one that has them is refused by it.
 */
#ifndef MORSEL_META_COHERENCE_SESSIONS_KEPT_UV_H
#define MORSEL_META_COHERENCE_SESSIONS_KEPT_UV_H

#include "meta/meta_uv.h"

/* Make the core, with the sessions of the time before; the run has begun. MORSEL_NOMEM and errors of the
 * store. */
int sessions_kept_open(struct meta *meta, bool fresh, struct errmsg *err);

/* The session of the client is there, and was not waited for. Errors of the store: it must not be
 * admitted. */
int sessions_keep(struct meta *meta, client_id client);

/* Those that have ended are struck out. Where that fails the next start waits for them once more. */
void sessions_strike_out(struct meta *meta, const struct session_actions *actions);

/* How long sessions were waited for. Where that fails, or would have to wait for the disk, it counts with the
 * next time. */
void sessions_note_waiting(struct meta *meta);

#endif
