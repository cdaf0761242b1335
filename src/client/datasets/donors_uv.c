/* Which benefactors are known, and the calls to them (donors_uv.h). */
#include "client/datasets/donors_uv.h"

#include "client/datasets/donor_speed.h"
#include "common/base/status.h"
#include "common/rpc/address.h"

#include <stdlib.h>

struct donor
{
    donor_id id;
    struct client *client;
    struct rpc_peer *peer; /* NULL: not open. */
    uint64_t instance;
    char address[ADDRESS_TEXT_MAX];
    unsigned calls; /* Under way. */
    bool away;
    uint64_t doubt_ms, doubted_until_ms;
    struct donor_speed reads;
    struct list node; /* In donors.open or donors.closed, the last used at the end. */
    UT_hash_handle hh;
};

struct donors
{
    struct donor *table; /* By id. */
    struct list open, closed;
    uint32_t open_count, count;
    struct donor_speed_best best;
};

static struct donor *find(const struct client *client, donor_id id)
{
    struct donor *donor;

    HASH_FIND(hh, client->data.donors->table, &id, sizeof(id), donor);
    return donor;
}

static void donor_free(struct donors *donors, struct donor *donor)
{
    list_remove(&donor->node);
    HASH_DEL(donors->table, donor);
    donors->count--;
    free(donor);
}

/* The one that was used longest ago of those that nothing is asked of. */
static void close_one(struct donors *donors)
{
    LIST_FOREACH(node, &donors->open)
    {
        struct donor *donor = LIST_ENTRY(node, struct donor, node);

        if (donor->calls == 0) {
            rpc_peer_close(donor->peer);
            donor->peer = NULL;
            donors->open_count--;
            list_remove(&donor->node);
            list_push_back(&donors->closed, &donor->node);
            return;
        }
    }
}

static struct donor *donor_add(struct client *client, donor_id id)
{
    struct donors *donors = client->data.donors;
    struct donor *donor = calloc(1, sizeof(*donor));

    if (donor == NULL) {
        return NULL;
    }
    if (donors->count >= DONORS_KNOWN_MAX && !list_empty(&donors->closed)) {
        donor_free(donors, LIST_ENTRY(list_front(&donors->closed), struct donor, node));
    }
    donor->id = id;
    donor->client = client;
    list_init(&donor->node);
    HASH_ADD(hh, donors->table, id, sizeof(donor->id), donor);
    if (!TABLE_ADDED(donor)) {
        free(donor);
        return NULL;
    }
    donors->count++;
    list_push_back(&donors->closed, &donor->node);
    return donor;
}

static void learn(struct client *client, const Morsel__DonorPlace *place)
{
    struct donor *donor = find(client, place->id);
    struct errmsg err;

    if (place->id == 0 || strlen(place->address) >= sizeof(donor->address)) {
        return;
    }
    if (donor == NULL && (donor = donor_add(client, place->id)) == NULL) {
        return;
    }
    if (donor->instance != place->instance) {
        donor->doubted_until_ms = donor->doubt_ms = 0; /* Another process may do better. */
    }
    donor->instance = place->instance;
    donor->away = false;
    if (strcmp(donor->address, place->address) != 0) {
        memcpy(donor->address, place->address, strlen(place->address) + 1);
        if (donor->peer != NULL && rpc_peer_set_address(donor->peer, place->address, &err) != 0) {
            log_warning(client->options.log, "benefactor %u: %s", donor->id, err.text);
        }
    }
}

void donors_learn(struct client *client, Morsel__DonorPlace *const *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        learn(client, places[i]);
    }
}

void donor_note_away(struct client *client, donor_id id)
{
    struct donor *donor = find(client, id);

    if (donor != NULL) {
        donor->away = true;
    }
}

uint64_t donor_instance(const struct client *client, donor_id id)
{
    const struct donor *donor = find(client, id);

    return donor == NULL ? 0 : donor->instance;
}

bool donor_is_well(const struct client *client, donor_id id)
{
    const struct donor *donor = find(client, id);

    return donor != NULL && !donor->away && uv_now(client->loop) >= donor->doubted_until_ms;
}

uint64_t donor_read_rate(const struct client *client, donor_id id)
{
    const struct donor *donor = find(client, id);

    return donor == NULL ? 0 : donor_speed_rate(&donor->reads, uv_hrtime());
}

uint64_t donors_best_rate(const struct client *client)
{
    return client->data.donors->best.rate;
}

uint64_t donor_read_asked(const struct client *client, donor_id id)
{
    const struct donor *donor = find(client, id);

    return donor == NULL ? 0 : donor->reads.asked;
}

const char *donor_address(const struct client *client, donor_id id)
{
    const struct donor *donor = find(client, id);

    return donor == NULL ? "an unknown address" : donor->address;
}

uint32_t donors_connected(const struct client *client)
{
    return client->data.donors->open_count;
}

static void doubt(struct donor *donor, int status)
{
    uint64_t now_ms = uv_now(donor->client->loop);

    if (now_ms < donor->doubted_until_ms) {
        return; /* It is the same trouble. */
    }
    if (status == MORSEL_OVERLOAD) { /* It is well, and has too much to do just now. */
        donor->doubted_until_ms = now_ms + DONOR_DOUBT_MS;
        return;
    }
    donor->doubt_ms = donor->doubt_ms == 0 ? DONOR_DOUBT_MS : 2 * donor->doubt_ms;
    if (donor->doubt_ms > DONOR_DOUBT_MS_MAX) {
        donor->doubt_ms = DONOR_DOUBT_MS_MAX;
    }
    donor->doubted_until_ms = now_ms + donor->doubt_ms;
}

void donor_note_failure(struct client *client, donor_id id)
{
    struct donor *donor = find(client, id);

    client->counters.donor_failures++;
    if (donor != NULL) {
        doubt(donor, MORSEL_IO);
    }
}

/* ---- Calls ---- */

static int open_peer(struct donor *donor)
{
    struct client *client = donor->client;
    struct donors *donors = client->data.donors;
    struct errmsg err;
    int rv;

    list_remove(&donor->node);
    if (donor->peer == NULL) {
        rv = rpc_peer_new(client->rpc, donor->address, &donor->peer, &err);
        if (rv != 0) {
            log_warning(client->options.log, "benefactor %u: %s", donor->id, err.text);
            list_push_back(&donors->closed, &donor->node);
            return rv == MORSEL_INVAL ? MORSEL_UNREACHABLE : rv;
        }
        rpc_peer_expect(donor->peer, donor->id);
        donors->open_count++;
        if (donors->open_count > DONORS_OPEN_MAX) {
            close_one(donors);
        }
    }
    list_push_back(&donors->open, &donor->node);
    return MORSEL_OK;
}

static void note_read_ended(struct donor *donor, const struct donor_call *call, int status)
{
    enum donor_speed_end how = status == MORSEL_OK         ? DONOR_SPEED_CAME
                               : status == MORSEL_CANCELED ? DONOR_SPEED_LEFT
                                                           : DONOR_SPEED_FAILED;

    if (call->fetches > 0) {
        uint64_t now_ns = uv_hrtime();

        donor_speed_ended(&donor->reads, call->fetches, how, now_ns);
        donor_speed_best_note(&donor->client->data.donors->best, &donor->reads, now_ns);
    }
}

static void on_answer(struct rpc_call *rpc, int status, struct rpc_reply *reply)
{
    struct donor_call *call = CONTAINER_OF(rpc, struct donor_call, rpc);
    struct donor *donor = find(call->client, call->donor);

    CHECK(donor != NULL && donor->calls > 0);
    donor->calls--;
    call->process = rpc_peer_start_id(donor->peer);
    note_read_ended(donor, call, status);
    if (status == 0) {
        donor->doubt_ms = donor->doubted_until_ms = 0;
    } else if (status != MORSEL_CANCELED) {
        call->client->counters.donor_failures++;
        doubt(donor, status);
    }
    call->done(call, status, reply);
}

int donor_call_start(struct donor_call *call, enum message_type type,
                     const ProtobufCMessage *request, const struct rpc_piece *piece,
                     uint32_t fetches, donor_call_cb done)
{
    struct client *client = call->client;
    struct donor *donor = find(client, call->donor);
    uint64_t timeout_ms = client->options.io_timeout_ms;
    int rv;

    if (donor == NULL) {
        return MORSEL_UNREACHABLE;
    }
    rv = open_peer(donor);
    if (rv != 0) {
        return rv;
    }
    call->done = done;
    call->fetches = fetches;
    call->rpc.impatient = true;
    call->rpc.fetches = fetches;
    rv = rpc_call_start(&call->rpc, donor->peer, type, request, piece, piece != NULL ? 1 : 0,
                        timeout_ms < DONOR_TIMEOUT_MS ? timeout_ms : DONOR_TIMEOUT_MS, on_answer);
    if (rv == 0) {
        donor->calls++;
        if (fetches > 0) {
            donor_speed_asked(&donor->reads, fetches, uv_hrtime());
        }
    }
    return rv;
}

void donor_call_cancel(struct donor_call *call)
{
    rpc_call_cancel(&call->rpc);
}

/* ---- All of them ---- */

int donors_open(struct client *client)
{
    client->data.donors = calloc(1, sizeof(*client->data.donors));
    if (client->data.donors == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&client->data.donors->open);
    list_init(&client->data.donors->closed);
    return MORSEL_OK;
}

void donors_close(struct client *client)
{
    struct donors *donors = client->data.donors;
    struct donor *donor, *next;

    if (donors == NULL) {
        return;
    }
    HASH_ITER(hh, donors->table, donor, next)
    {
        donor_free(donors, donor);
    }
    free(donors);
    client->data.donors = NULL;
}
