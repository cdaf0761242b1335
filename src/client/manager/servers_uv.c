/* Who the storage servers are, and how they are reached (servers_uv.h). */
#include "client/manager/servers_uv.h"

#include "common.pb-c.h"
#include "common/base/status.h"

#include <stdlib.h>

enum {
    MEMBERS_TIMEOUT_MS = 5000,
    CLOCKS_MS = 2000, /* Servers that have not told their clock for so long are asked: it may have
                         drifted 200 ms. */
    CLOCK_TIMEOUT_MS = 30000, /* A late answer is better than none. */
    SILENT_MS = 1000,         /* So long is waited for who was silent, each time. */
    OWING_MS = 500, /* Who has not said anything for so long, and owes an answer, is asked. */
    MEMBERS_REFRESH_MS = 500, /* At most this often. */
    MEMBERS_AWAITED_MS =
        5000, /* While somebody waits for a server that is away: it may have moved, or have been
                                  removed. */
    LOST_LOG_MS = 1000
};

struct known_server
{
    server_id id;
    struct rpc_peer *peer;
    struct client *client;
    struct rpc_call clock;
    uint64_t verifier; /* That it told last; 0: none. */
    bool silent;
    bool
        deaf; /* Its machine acknowledges nothing: as of the last tick, for that costs a system call. */
    bool removed;     /* Its peer is asked nothing any more; NULL: there never was one. */
    uint64_t lost_ms; /* When it was last said that something there is lost; 0: never. */
    UT_hash_handle hh;
};

struct servers
{
    const struct servers_hooks *hooks;
    struct known_server *table; /* By id. */
    struct rpc_call members_call;
    struct list waiting; /* struct servers_wait */
    uint64_t asked_ms;   /* The manager, who they are. */
    uint64_t clocks_due_ms;
    bool known; /* It has answered. */
};

static struct known_server *find(const struct client *client, server_id id)
{
    struct known_server *server;

    HASH_FIND(hh, client->servers->table, &id, sizeof(id), server);
    return server;
}

struct rpc_peer *client_peer(struct client *client, server_id id)
{
    const struct known_server *server = find(client, id);

    return server == NULL || server->removed ? NULL : server->peer;
}

int servers_why_none(struct client *client, server_id id, inode_id inode)
{
    struct known_server *server = find(client, id);
    uint64_t now_ms = uv_now(client->loop);

    if (server == NULL || !server->removed) {
        return MORSEL_UNREACHABLE;
    }
    if (server->lost_ms == 0 || now_ms >= server->lost_ms + LOST_LOG_MS) {
        server->lost_ms = now_ms;
        log_error(client->options.log,
                  "inode %lu: what of it lay on server %u is lost: the server was removed from the "
                  "cluster, and had the only copy",
                  (unsigned long)inode, id);
    }
    return MORSEL_REMOVED;
}

const char *servers_address(struct client *client, server_id id)
{
    const struct rpc_peer *peer = client_peer(client, id);

    return peer == NULL ? NULL : rpc_peer_address(peer);
}

uint64_t servers_verifier(const struct client *client, server_id id)
{
    const struct known_server *server = find(client, id);

    return server == NULL ? 0 : server->verifier;
}

bool servers_note_verifier(struct client *client, server_id id, uint64_t verifier)
{
    struct known_server *server = find(client, id);
    uint64_t before = server == NULL ? 0 : server->verifier;

    if (server == NULL || verifier == 0) {
        return false;
    }
    server->verifier = verifier;
    return before != 0 && before != verifier;
}

void servers_note_silent(struct client *client, server_id id)
{
    struct known_server *server = find(client, id);

    if (server != NULL && !server->silent && !server->removed) {
        log_warning(client->options.log,
                    "server %u at %s does not answer: what has copies elsewhere is asked for there "
                    "until it does",
                    id, rpc_peer_address(server->peer));
        server->silent = true;
    }
}

bool servers_is_silent(const struct client *client, server_id id)
{
    const struct known_server *server = find(client, id);

    return server != NULL && (server->silent || server->deaf);
}

bool servers_is_heard(const struct client *client, server_id id)
{
    const struct known_server *server = find(client, id);

    return server != NULL && !server->removed && rpc_peer_connected(server->peer) &&
           !rpc_peer_clock_is_old(server->peer, SERVER_HEARD_MS) && !server->deaf;
}

static void on_server_down(void *data, const char *why)
{
    struct known_server *server = data;

    log_warning(server->client->options.log,
                "lost the connection to server %u at %s: %s; connecting again", server->id,
                rpc_peer_address(server->peer), why);
    servers_refresh(server->client); /* Perhaps it has another address now. */
}

static void on_room(void *data)
{
    struct known_server *server = data;

    server->client->servers->hooks->room(server->client, server->peer);
}

/* NULL: no memory; until it is asked for. */
static struct known_server *server_add(struct client *client, server_id id)
{
    struct servers *servers = client->servers;
    struct known_server *server = calloc(1, sizeof(*server));

    if (server == NULL) {
        return NULL;
    }
    server->id = id;
    server->client = client;
    HASH_ADD(hh, servers->table, id, sizeof(server->id), server);
    if (!TABLE_ADDED(server)) {
        free(server);
        return NULL;
    }
    return server;
}

static void peer_make(struct known_server *server, const char *address)
{
    struct client *client = server->client;
    struct errmsg err;

    if (rpc_peer_new(client->rpc, address, &server->peer, &err) != 0) {
        log_warning(client->options.log, "server %u: %s", server->id, err.text);
        HASH_DEL(client->servers->table, server);
        free(server);
        return;
    }
    rpc_peer_expect(server->peer, server->id);
    rpc_peer_watch(server->peer, NULL, on_server_down, server);
    rpc_peer_on_room(server->peer, on_room);
}

static void member_learn(struct client *client, const Morsel__Member *member)
{
    struct known_server *server = find(client, member->id);
    struct errmsg err;

    if (server == NULL) {
        server = server_add(client, member->id);
    }
    if (server == NULL) {
        return;
    }
    server->removed = false; /* The manager's database may have been put back. */
    if (server->peer == NULL) {
        peer_make(server, member->address);
    } else if (rpc_peer_set_address(server->peer, member->address, &err) != 0) {
        log_warning(client->options.log, "server %u: %s", member->id, err.text);
    }
}

static void removal_learn(struct client *client, server_id id)
{
    struct known_server *server = find(client, id);

    if (server == NULL) {
        server = server_add(client, id);
    }
    if (server == NULL || server->removed) {
        return;
    }
    server->removed = true;
    server->silent = server->deaf = false;
    if (server->peer != NULL) {
        log_warning(
            client->options.log,
            "server %u at %s was removed from the cluster: reading and writing what only it "
            "had fails",
            id, rpc_peer_address(server->peer));
        rpc_peer_give_up(server->peer, MORSEL_REMOVED);
    }
}

static void on_clock(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct known_server *server = CONTAINER_OF(call, struct known_server, clock);
    Morsel__Clock *clock = NULL;
    struct rpc_room room;

    if (status == 0) {
        (void)rpc_unpack_in(&room, &morsel__clock__descriptor, reply->body, reply->body_count,
                            (void **)&clock);
    }
    if (clock != NULL) {
        rpc_peer_note_clock(server->peer, clock->boot_ms);
        server->silent = false;
        rpc_room_free(&room, clock);
    }
}

static void clock_ask(struct known_server *server, uint64_t timeout_ms)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;

    if (!rpc_call_active(&server->clock)) {
        (void)rpc_call_start(&server->clock, server->peer, MSG_CLOCK, &request.base, NULL, 0,
                             timeout_ms, on_clock);
    }
}

/* What we know of the servers' clocks must not grow old: the bound on their drift grows with it. */
static void clocks_ask(struct servers *servers)
{
    struct known_server *server, *next;

    HASH_ITER(hh, servers->table, server, next)
    {
        if (!server->removed && rpc_peer_clock_is_old(server->peer, CLOCKS_MS)) {
            clock_ask(server, CLOCK_TIMEOUT_MS);
        }
    }
}

static void on_members(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct client *client = call->data;
    struct servers *servers = client->servers;
    Morsel__MembersReply *members = NULL;
    struct rpc_room room;
    struct list *node;

    if (status == 0) {
        (void)rpc_unpack_in(&room, &morsel__members_reply__descriptor, reply->body,
                            reply->body_count, (void **)&members);
    }
    if (members != NULL && !client_is_ending(client)) {
        for (size_t i = 0; i < members->n_members; i++) {
            member_learn(client, members->members[i]);
        }
        for (size_t i = 0; i < members->n_removed; i++) {
            removal_learn(client, members->removed[i]);
        }
        servers->hooks->groups(client, members->groups, members->n_groups);
    }
    if (members != NULL) {
        rpc_room_free(&room, members);
        if (!client_is_ending(client)) {
            servers->known = true;
            servers->hooks->known(client);
        }
    }
    while ((node = list_pop_front(&servers->waiting)) != NULL) {
        struct servers_wait *wait = LIST_ENTRY(node, struct servers_wait, node);

        wait->done(wait);
    }
}

void servers_refresh(struct client *client)
{
    Morsel__MembersRequest request = MORSEL__MEMBERS_REQUEST__INIT;
    struct servers *servers = client->servers;
    uint64_t now = uv_now(client->loop);

    if (client_is_ending(client) || rpc_call_active(&servers->members_call) ||
        (servers->known && list_empty(&servers->waiting) &&
         now < servers->asked_ms + MEMBERS_REFRESH_MS)) {
        return;
    }
    servers->asked_ms = now;
    servers->members_call.data = client;
    (void)rpc_call_start(&servers->members_call, client->manager, MSG_MEMBERS, &request.base, NULL,
                         0, MEMBERS_TIMEOUT_MS, on_members);
}

bool client_know_servers(struct client *client, const server_id *ids, uint32_t count,
                         struct servers_wait *wait)
{
    bool known = true;

    for (uint32_t i = 0; i < count; i++) {
        known = known && find(client, ids[i]) != NULL;
    }
    if (known) {
        return true;
    }
    list_init(&wait->node);
    list_push_back(&client->servers->waiting, &wait->node);
    servers_refresh(client);
    if (rpc_call_active(&client->servers->members_call)) {
        return false;
    }
    list_remove(&wait->node); /* Out of memory: let the first use of the server fail. */
    return true;
}

void servers_tick(struct client *client)
{
    struct servers *servers = client->servers;
    struct known_server *server, *next;
    uint64_t now_ms = uv_now(client->loop);
    bool awaited = false;

    if (now_ms >= servers->clocks_due_ms) {
        servers->clocks_due_ms = now_ms + CLOCKS_MS;
        clocks_ask(servers);
    }
    HASH_ITER(hh, servers->table, server, next)
    {
        if (server->removed) {
            continue;
        }
        if (server->silent ||
            (rpc_peer_is_asked(server->peer) && rpc_peer_clock_is_old(server->peer, OWING_MS))) {
            clock_ask(server, SILENT_MS);
        }
        server->deaf =
            rpc_peer_is_asked(server->peer) && !rpc_peer_hears(server->peer, SERVER_DEAF_MS);
        awaited = awaited || rpc_peer_is_awaited(server->peer);
    }
    if (awaited && now_ms >= servers->asked_ms + MEMBERS_AWAITED_MS) {
        servers_refresh(client);
    }
}

int servers_open(struct client *client, const struct servers_hooks *hooks)
{
    client->servers = calloc(1, sizeof(*client->servers));
    if (client->servers == NULL) {
        return MORSEL_NOMEM;
    }
    client->servers->hooks = hooks;
    list_init(&client->servers->waiting);
    return MORSEL_OK;
}

void servers_close(struct client *client)
{
    struct servers *servers = client->servers;
    struct known_server *server, *next;

    if (servers == NULL) {
        return;
    }
    HASH_ITER(hh, servers->table, server, next)
    {
        HASH_DEL(servers->table, server);
        free(server);
    }
    free(servers);
}
