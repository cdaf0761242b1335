/* The storage servers that a client knows. client_peer() and client_know_servers() (libmorsel_uv.h) are
 * for everybody; this is for the client itself.
 */
#ifndef MORSEL_CLIENT_MANAGER_SERVERS_UV_H
#define MORSEL_CLIENT_MANAGER_SERVERS_UV_H

#include "client/libmorsel_uv.h"

/* Ask the manager who they are, unless that was done just now. */
void servers_refresh(struct client *client);

/* Every CLIENT_TICK_MS. */
void servers_tick(struct client *client);

/* No call is under way. */
void servers_free(struct client *client);

#endif
