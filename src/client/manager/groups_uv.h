/* Groups of storage servers that hold the same objects, and calls to them (docs/replication.md).
 *
 * Who orders the changes of a group changes when servers fail, and nobody tells the client: it asks whom it
 * believes to order, at first the group's first server, and goes round. What is asked again is the same
 * request, under the same number: the group remembers operations, whichever member is asked, and carries
 * none out twice.
 *
 *   started -> asks a member --answered--------------------------------> done; that one is believed
 *                 ^   |  not here, refused, connection lost, silent
 *                 |   v
 *                 |  the next member, if it was not asked in this round
 *                 |   | all were
 *                 +-- a pause, longer with each round       ... until its time is over
 *
 * Who does not answer, and is heard otherwise (servers_is_heard()), may wait for another server, which the group is about to leave
 * behind: it is asked once more. One that was not heard before either is not waited for that long. Who was silent is asked last, until it answers again (servers_note_silent()). While one is silent, or could not be
 * reached, the others are asked to hand the request on (MSG_HAND_ON): perhaps they reach whom we do not. The
 * answer is the same, and so is the number.
 * Who holds the places of a group may change; vacant places are passed over. When nobody answers for a group
 * the manager is asked for the servers, and tells which groups have changed.
 *
 * A change keeps its number, `ended`, the verifier that was known first, and the lease period in which it
 * was started: it is not sent in another one. One that a server calls too late, and another one may have
 * carried out before, is sent once more if the lease was renewed since, for it may have waited there for long; else it
 * ends with MORSEL_UNSURE unless it is `exclusive`. A change that was given up may
 * still be carried out; its number stays out until no server takes it any more. */
#ifndef MORSEL_CLIENT_MANAGER_GROUPS_UV_H
#define MORSEL_CLIENT_MANAGER_GROUPS_UV_H

#include "client/libmorsel_uv.h"
#include "common/fs/placing.h"

enum {
    GROUP_CHANGES_MAX = 1024, /* Of one client at one group without an end; more wait. */
    GROUP_ATTEMPT_MS =
        2000, /* Without a byte moving, before another member is asked: longer when all were
                                 silent and this one is heard, for what is slow must come to its end. */
    GROUP_SILENT_MS = 1000, /* The same for one that was not heard just before. */
    GROUP_GLANCE_MS =
        500, /* While a member was lost: for one that is not heard either. Who has not answered for so
                              long, and is not heard, is silent. */
    GROUP_AVOID_MS =
        2000, /* Who was silent when any member could answer is not asked first for so long. */
    GROUP_PAUSE_MS_MIN = 20,
    GROUP_PAUSE_MS_MAX = 200
};

struct client_group;
struct group_call;

typedef void (*group_call_cb)(struct group_call *call, int status, struct rpc_reply *reply);

/* Embed it, zeroed, in what the call is for; it must stay until `done`. */
struct group_call
{
    /* The caller's: */
    bool changes; /* WRITE, TRUNCATE, PUNCH, ALLOCATE: numbered, and bounded by the lease period. */
    bool
        exclusive; /* A change that does no harm when it is made again: we alone may change the object. */
    bool settled;   /* A read that any member may answer: `first` is asked first. */
    uint32_t first; /* group_spread() */
    uint64_t
        hedge_ms; /* Of such a read: when `first` is silent for so long, another one is asked. */
    uint32_t fetches;    /* As in struct rpc_call. */
    uint64_t timeout_ms; /* RPC_NO_DEADLINE: it goes on asking. */

    /* The module's own. */
    struct client *client;
    struct client_group *group;
    struct rpc_call rpc;
    struct list node; /* Pauses, or waits for a number. */
    enum { GROUP_CALL_IDLE, GROUP_CALL_WAITING, GROUP_CALL_ASKING, GROUP_CALL_PAUSING } state;
    enum message_type type;
    uint8_t *body;
    size_t body_count;
    struct rpc_piece piece; /* payload NULL: none. */
    op_sequence number;
    uint64_t lease_epoch;   /* In which it may be sent. */
    uint64_t until_ns;      /* When the lease ended, as far as was known when it was sent last. */
    uint32_t member, tried; /* Whom it asks; how many in this round. */
    uint32_t silences;      /* Members that did not answer, as often as it happened. */
    uint64_t started_ms, asked_ms, due_ms, pause_ms;
    bool lost;     /* A member could not be reached, or was silent. */
    bool stayed;   /* With whom it asks, after an attempt in vain. */
    bool sent;     /* It may have reached somebody. */
    bool doubt;    /* Somebody may have carried it out, and has not said so. */
    int status;    /* Of the last member. */
    int failed;    /* With what it ends when the timer comes; 0: it goes on. */
    bool not_here; /* A member said that it does not answer this. */
    bool canceled;
    group_call_cb done;
};

/* client->groups. MORSEL_NOMEM. */
int client_groups_open(struct client *client);
void client_groups_tick(struct client *client); /* Every CLIENT_TICK_MS. */
/* No call is under way. Harmless when they were never opened. */
void client_groups_close(struct client *client);

/* The manager names a group with its servers. MORSEL_CORRUPT: that is none; MORSEL_NOMEM. */
int client_groups_learn(struct client *client, const Morsel__Group *group);

/* Places of these have changed hands: those that were named before are taken over. */
void client_groups_changed(struct client *client, Morsel__Group *const *groups, size_t count);

/* NULL: nobody has named it. */
struct client_group *client_groups_find(struct client *client, group_number number);

/* Its servers, at most REPLICAS_MAX; returns how many. */
uint32_t group_servers(const struct client_group *group, server_id servers[REPLICAS_MAX]);

/* Who is believed to order: for the pace of the link. NULL: nobody knows that server. */
struct rpc_peer *group_peer(struct client *client, const struct client_group *group);

/* Where a read goes that any member may answer: those of one `key` to the same member, those of neighbouring
 * ones to different members, and none to who was silent just now while another one is there. */
uint32_t group_spread(struct client *client, const struct client_group *group, uint64_t key);
struct rpc_peer *group_member_peer(struct client *client, const struct client_group *group,
                                   uint32_t member);

/* The newest verifier that the group has told; 0: none. */
uint64_t group_verifier(const struct client_group *group);

/* An answer has told this one. True: it is newer than one that was told before. */
bool group_note_verifier(struct client_group *group, uint64_t verifier);

/* As column_start(): on 0 `done` runs once, later. */
int group_call_start(struct group_call *call, struct client *client, struct client_group *group,
                     enum message_type type, const ProtobufCMessage *request,
                     const struct rpc_piece *piece, group_call_cb done);

/* `done` runs later, with MORSEL_CANCELED. Harmless for one that is not under way. */
void group_call_cancel(struct group_call *call);

/* For the log, within `done`: whom it asked last. */
const char *group_call_address(const struct group_call *call);

#endif
