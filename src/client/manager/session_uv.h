/* The client's session with the manager (docs/manager.md): SESSION is the first word of each
 * connection and says what we have open and hold; a shorter one renews it now and then.
 *
 * When each is said, and what an answer means for what we hold, is the core's
 * (coherence/lease_holder.h); client_rejoin() (libmorsel_uv.h) begins again.
 */
#ifndef MORSEL_CLIENT_MANAGER_SESSION_UV_H
#define MORSEL_CLIENT_MANAGER_SESSION_UV_H

#include "client/libmorsel_uv.h"

/* client->session. `ready` runs once, with the first answer. MORSEL_NOMEM. */
int session_open(struct client *client, void (*ready)(void *data, int status, const char *text),
                 void *data);

/* `ready` does not run any more. */
void session_end(struct client *client);
void session_close(struct client *client);

/* Connect, and ask for the first session. */
void session_begin(struct client *client);

/* Say what we have open and hold, and be it for the `number`th time. Each request is its own: after
 * a reconnection a fresh one must go first, whatever became of an older one. */
void session_join(struct client *client, uint64_t number);

/* A word now and then: the session goes on, and so does the lease period. */
void session_renew(struct client *client);

/* Every CLIENT_TICK_MS. */
void session_tick(struct client *client);

/* `ready` runs, if it has not yet. */
void session_tell_ready(struct client *client, int status, const char *text);

#endif
