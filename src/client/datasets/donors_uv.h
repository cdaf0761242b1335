/* The benefactors that a mount reads from and writes to: connections, and how they answer.
 *
 * The manager says with each place and each page of a map where a benefactor is, and which of its processes is meant
 * (donors_learn()). A connection is made with the first call; of DONORS_OPEN_MAX the one that was used longest ago is closed
 * for another one. A call that meets a connection that breaks ends at once (rpc_call.impatient): what it was for has
 * another copy, or is put elsewhere.
 *
 * Who has failed is *doubted* for a while, which doubles each time up to DONOR_DOUBT_MS_MAX: others are asked before him,
 * and nothing is put there if it can be helped. An answer ends that. Who only has too much to do (OVERLOAD) is doubted for
 * DONOR_DOUBT_MS, however often he says so. Who is slow is asked for less (set_choice.h).
 */
#ifndef MORSEL_CLIENT_DATASETS_DONORS_UV_H
#define MORSEL_CLIENT_DATASETS_DONORS_UV_H

#include "client/libmorsel_uv.h"
#include "dataset.pb-c.h"

enum {
    DONORS_OPEN_MAX = 64,
    DONORS_KNOWN_MAX = 1024, /* Those that are not open are forgotten beyond, and learned again. */
    DONOR_TIMEOUT_MS = 4000, /* A call on which nothing has moved for so long has failed. */
    DONOR_DOUBT_MS = 500,
    DONOR_DOUBT_MS_MAX = 30000
};

/* client->data.donors. MORSEL_NOMEM. */
int donors_open(struct client *client);

/* No call is under way. Harmless when they were never opened. */
void donors_close(struct client *client);

/* Of these the manager says where they are. Without memory they stay unknown, and calls to them fail. */
void donors_learn(struct client *client, Morsel__DonorPlace *const *places, size_t count);

/* The manager names it as one that has something, and not where it is: it is away. */
void donor_note_away(struct client *client, donor_id id);

/* Which process the manager means; 0: not known. */
uint64_t donor_instance(const struct client *client, donor_id id);

/* Known, here as far as the manager has said, and not doubted. */
bool donor_is_well(const struct client *client, donor_id id);

/* What it answered was wrong, or missing. */
void donor_note_failure(struct client *client, donor_id id);

/* Bytes per second that it gives out (donor_speed.h; 0: not known), and how many it has been asked for that are not here. */
uint64_t donor_read_rate(const struct client *client, donor_id id);
uint64_t donor_read_asked(const struct client *client, donor_id id);

/* The greatest of those rates of late. */
uint64_t donors_best_rate(const struct client *client);

/* For the log; never NULL. */
const char *donor_address(const struct client *client, donor_id id);

uint32_t donors_connected(const struct client *client);

struct donor_call;
typedef void (*donor_call_cb)(struct donor_call *call, int status, struct rpc_reply *reply);

/* Embed it, zeroed, in what the call is for; it must stay until `done`. */
struct donor_call
{
    struct client *client;
    donor_id donor;
    void *data;       /* The caller's. */
    uint64_t process; /* From `done` on: which one has answered (HELLO), as a number. */

    /* The module's own. */
    donor_call_cb done;
    uint32_t fetches;
    struct rpc_call rpc;
};

/* `client` and `donor` are set. `piece` (NULL: none) goes out as payload; `fetches`: about so many bytes come with the
 * answer. Callback law of rpc_uv.h. MORSEL_UNREACHABLE: not known; MORSEL_NOMEM. */
int donor_call_start(struct donor_call *call, enum message_type type,
                     const ProtobufCMessage *request, const struct rpc_piece *piece,
                     uint32_t fetches, donor_call_cb done);

/* `done` runs later, with MORSEL_CANCELED. Harmless for a call that is not under way. */
void donor_call_cancel(struct donor_call *call);

#endif
