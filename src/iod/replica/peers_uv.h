/* The other servers of our groups: connections to them, and the mirror leases between us.
 *
 * Each has two connections: one for what is short and must not wait (words, leases), and one for
 * members' messages, with their bytes. What cannot be sent now is dropped: the cores send again. */
#ifndef MORSEL_IOD_REPLICA_PEERS_UV_H
#define MORSEL_IOD_REPLICA_PEERS_UV_H

#include "common/rpc/rpc_uv.h"
#include "iod/replica/group.h"
#include "iod/replica/room.h"
#include "replica.pb-c.h"

#include "common/base/table.h"

enum {
    PEER_WORDS_MAX = 64,     /* In one message. */
    PEER_MESSAGES_MAX = 512, /* Without an answer; the bytes of a group's order many times. */
    PEER_LEASE_CALL_MS = 1000
};

struct peers;

/* All run on the loop. */
struct peers_hooks
{
    /* Which of the groups that we share with that server are not covered by the lease that it asks
     * for? */
    void (*exceptions)(void *data, server_id server, struct mirror_exceptions *out);
    /* A lease has come, or was not given. */
    void (*leased)(void *data, server_id server);
    /* There is another connection for messages: those of before may be lost. */
    void (*connected)(void *data, server_id server);
    /* The machine of that server has said that its process is not running. */
    void (*refused)(void *data, server_id server);
};

struct peer
{
    UT_hash_handle hh;
    struct peers *peers;
    server_id id;
    struct rpc_peer *words, *messages;
    struct mirror_lease lease;
    struct rpc_call asking; /* For a lease. */
    bool again;             /* Another one is wanted when that is answered. */
    bool dead;              /* It was said of it that it has no process; until it is connected. */
    uint32_t under_way;     /* Messages. */
    struct room room;       /* Of its disk. */
    uint32_t words_count;
    struct group_word pending[PEER_WORDS_MAX];
};

struct peers
{
    struct rpc *rpc;
    uint64_t start;   /* Of this server. */
    struct room room; /* Of our disk: it is told with the words. */
    const struct peers_hooks *hooks;
    void *data;
    struct peer *table; /* By id. */
    bool closing;
};

/* `rpc`, `start`, `hooks` and `data` are filled in, all else is zero. The one of this id, at this
 * address: made, or found and given that address. NULL: out of memory, or no address, in words. */
struct peer *peers_add(struct peers *p, server_id id, const char *address, struct errmsg *err);
struct peer *peers_find(const struct peers *p, server_id id); /* NULL: none. */

/* Calls that are under way end. The peers stay until peers_free(), after the loop has ended. */
void peers_close(struct peers *p);
void peers_free(struct peers *p);

/* A word for that server; it goes with peers_flush(), at the latest. */
void peer_say(struct peer *peer, const struct group_word *word);
void peers_flush(struct peers *p);

/* `payload` (NULL: none) is borrowed. */
void peer_send(struct peer *peer, const Morsel__ReplicaMessage *m, struct payload *payload);

/* Leases are asked for when they are due, on rpc_boot_ms(). */
uint64_t peers_due_ms(const struct peers *p);
void peers_tick(struct peers *p, uint64_t now_ms);

/* MSG_MIRROR_LEASE of that server: it is answered. */
void peer_lease_asked(struct peer *peer, struct rpc_request *request, uint64_t now_ms);

#endif
