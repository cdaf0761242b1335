/* The storage servers that a client knows: their addresses, connections, clocks and verifiers.
 *
 * The manager says who they are, when the session begins, when one is missing and every few seconds while
 * one is waited for, and which were taken out of the cluster for good; from then on each
 * has a connection of its own. What others do when a link takes something again, or when the manager
 * has answered, they say with struct servers_hooks.
 */
#ifndef MORSEL_CLIENT_MANAGER_SERVERS_UV_H
#define MORSEL_CLIENT_MANAGER_SERVERS_UV_H

#include "client/libmorsel_uv.h"

enum { SERVER_HEARD_MS = 1500, SERVER_DEAF_MS = 1000 };

/* All run on the loop. */
struct servers_hooks
{
    /* The link to `peer` takes something again. */
    void (*room)(struct client *client, struct rpc_peer *peer);
    /* The manager has said who they are. */
    void (*known)(struct client *client);
    /* And which groups have changed. */
    void (*groups)(struct client *client, Morsel__Group *const *groups, size_t count);
};

/* client->servers; the hooks must stay. MORSEL_NOMEM. */
int servers_open(struct client *client, const struct servers_hooks *hooks);

/* Ask the manager who they are, unless that was done just now. */
void servers_refresh(struct client *client);

/* Every CLIENT_TICK_MS. */
void servers_tick(struct client *client);

/* No call is under way. Harmless when they were never opened. */
void servers_close(struct client *client);

/* Why somebody who wants something of the inode that lies there finds no peer. MORSEL_REMOVED: the server was taken out
 * of the cluster for good, and what only it had is lost, which is said in the log, now and then. What was asked of it
 * ended likewise. MORSEL_UNREACHABLE: we do not know it. */
int servers_why_none(struct client *client, server_id id, inode_id inode);

/* NULL when we do not know the server, or it was removed. */
struct rpc_peer *client_peer(struct client *client, server_id id);

/* Where it is, for the log; NULL when we do not know the server. */
const char *servers_address(struct client *client, server_id id);

/* The verifier that the server told last (data.proto, Done); 0: none, or we do not know it. */
uint64_t servers_verifier(const struct client *client, server_id id);

/* It tells this one now. True: it told another one before. */
bool servers_note_verifier(struct client *client, server_id id, uint64_t verifier);

/* It did not answer for so long that others are asked before it, until it answers again: it is asked for its clock. Likewise
 * one whose machine has acknowledged nothing for SERVER_DEAF_MS: where a link is cut in one direction, answers to what came
 * before go on. */
void servers_note_silent(struct client *client, server_id id);
bool servers_is_silent(const struct client *client, server_id id);

/* Connected, it has said something within the last SERVER_HEARD_MS, and its machine acknowledges what we say. One that owes
 * answers is asked for its clock. */
bool servers_is_heard(const struct client *client, server_id id);

struct servers_wait
{
    struct list node;
    void (*done)(struct servers_wait *wait);
};

/* True: all are known. False: the table is being fetched, and wait->done runs once, later. */
bool client_know_servers(struct client *client, const server_id *ids, uint32_t count,
                         struct servers_wait *wait);

#endif
