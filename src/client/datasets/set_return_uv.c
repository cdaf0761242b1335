/* What came from an origin goes back to benefactors, behind the backs of those who read it (set_parts_uv.h).
 *
 * Each morsel goes once to those whom the manager has named for it; who does not take it is told to the manager, and nobody is asked in his
 * place. It is the manager that names a copy in the map, or has it deleted. */
#include "client/datasets/set_parts_uv.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>

enum {
    RETURNING_BYTES_MAX = 32 << 20 /* Of all sets; what comes beyond is not put back. */
};

struct return_call
{
    struct donor_call call;
    struct set_return *owner;
    uint32_t copy;
};

struct set_return
{
    struct meta_call call;
    struct data_set *set;
    uint32_t morsel, length, digest;
    uint32_t held; /* So many of data_sets.returning_bytes are its own. */
    struct payload *pieces[SET_PIECES_MAX];
    uint32_t copies_count;
    struct
    {
        donor_id donor;
        uint64_t process; /* Of whom everything is, that was written there. 0: nothing is. */
        bool failed;
    } copies[REPLICAS_MAX];
    uint32_t running;
    struct return_call calls[]; /* Of each copy in turn, one for each piece. */
};

static uint32_t pieces_of(uint32_t length)
{
    return (length + SET_PIECE_BYTES - 1) / SET_PIECE_BYTES;
}

/* Nobody is to get its bytes any more. */
static void drop_bytes(struct set_return *r)
{
    for (unsigned i = 0; i < SET_PIECES_MAX; i++) {
        payload_drop(r->pieces[i]);
        r->pieces[i] = NULL;
    }
    r->set->client->data.sets->returning_bytes -= r->held;
    r->held = 0;
}

static void return_free(struct set_return *r)
{
    struct data_set *set = r->set;

    drop_bytes(r);
    set->returning--;
    free(r);
    set_unref(set);
}

/* ---- The manager ---- */

static void on_told(struct meta_call *call, int status, void *message)
{
    struct set_return *r = CONTAINER_OF(call, struct set_return, call);

    (void)message;
    r->set->returned = r->set->returned || status == 0;
    if (status != 0) { /* It deletes what it has not heard of (claims.h). */
        log_debug(r->set->client->options.log,
                  "morsel %u of data set %lu: the manager did not hear that it was put back: %s",
                  r->morsel, (unsigned long)r->set->number, status_words(status));
    }
    return_free(r);
}

static void tell(struct set_return *r)
{
    Morsel__SetReturnedRequest request = MORSEL__SET_RETURNED_REQUEST__INIT;
    Morsel__SetMorsel morsel = MORSEL__SET_MORSEL__INIT;
    Morsel__DonorPlace items[REPLICAS_MAX], *places[REPLICAS_MAX];
    donor_id donors[REPLICAS_MAX], left[REPLICAS_MAX];

    drop_bytes(r); /* The manager may be away for long. */
    for (uint32_t i = 0; i < r->copies_count; i++) {
        if (r->copies[i].failed) {
            left[morsel.n_left++] = r->copies[i].donor;
            continue;
        }
        places[request.n_places] = &items[request.n_places];
        morsel__donor_place__init(places[request.n_places]);
        places[request.n_places]->id = r->copies[i].donor;
        places[request.n_places++]->instance = r->copies[i].process;
        donors[morsel.n_donors++] = r->copies[i].donor;
        r->set->client->counters.set_copies_returned++;
    }
    morsel.number = r->morsel;
    morsel.length = r->length;
    morsel.digest = r->digest;
    morsel.donors = donors;
    morsel.left = left;
    request.inode = r->set->inode;
    request.set = r->set->number;
    request.morsel = &morsel;
    request.places = places;
    if (client_is_ending(r->set->client) ||
        meta_call_start(&r->call, r->set->client, MSG_SET_RETURNED, &request.base, NULL, on_told) !=
            0) {
        return_free(r);
    }
}

/* ---- Benefactors ---- */

static void note_failed(struct set_return *r, uint32_t copy, int status)
{
    if (!r->copies[copy].failed) {
        log_debug(r->set->client->options.log,
                  "benefactor %u did not take morsel %u of data set %lu, which came from its "
                  "origin: %s",
                  r->copies[copy].donor, r->morsel, (unsigned long)r->set->number,
                  status_words(status));
    }
    r->copies[copy].failed = true;
}

static void on_written(struct donor_call *call, int status, struct rpc_reply *reply)
{
    const struct return_call *c = CONTAINER_OF(call, struct return_call, call);
    struct set_return *r = c->owner;
    uint64_t before = r->copies[c->copy].process;

    (void)reply;
    if (status != 0) {
        note_failed(r, c->copy, status);
    } else if (before != 0 && before != call->process) {
        note_failed(r, c->copy, MORSEL_UNREACHABLE); /* It has what this one wrote, and not all. */
    } else {
        r->copies[c->copy].process = call->process;
    }
    if (--r->running == 0) {
        tell(r);
    }
}

static int send_piece(struct set_return *r, uint32_t copy, uint32_t piece)
{
    struct return_call *c = &r->calls[copy * pieces_of(r->length) + piece];
    const struct rpc_piece bytes = { r->pieces[piece], 0, (uint32_t)r->pieces[piece]->count };
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    uint32_t crcs[SET_PIECE_BYTES / BLOCK_BYTES];

    crc32c_of_pieces(0, r->pieces[piece]->data, bytes.count, crcs);
    object.inode = r->set->number;
    object.column = r->morsel;
    request.object = &object;
    request.offset = (uint64_t)piece * SET_PIECE_BYTES;
    request.crcs.data = (uint8_t *)crcs;
    request.crcs.len = crc32c_pieces(0, bytes.count) * sizeof(crcs[0]);
    c->owner = r;
    c->copy = copy;
    c->call.client = r->set->client;
    c->call.donor = r->copies[copy].donor;
    return donor_call_start(&c->call, MSG_WRITE, &request.base, &bytes, 0, on_written);
}

static void send_all(struct set_return *r)
{
    r->running = 1; /* Let go below: some may fail at once. */
    for (uint32_t copy = 0; copy < r->copies_count; copy++) {
        for (uint32_t piece = 0; piece < pieces_of(r->length) && !r->copies[copy].failed; piece++) {
            int rv = send_piece(r, copy, piece);

            r->running += rv == 0;
            if (rv != 0) {
                note_failed(r, copy, rv);
            }
        }
    }
    if (--r->running == 0) {
        tell(r);
    }
}

/* NULL: it is not put back. */
static struct set_return *return_new(struct data_set *set, uint32_t morsel,
                                     const struct set_entry *entry, uint32_t copies)
{
    struct data_sets *sets = set->client->data.sets;
    size_t calls = (size_t)copies * pieces_of(entry->length);
    struct set_return *r = sets->returning_bytes + entry->length > RETURNING_BYTES_MAX
                               ? NULL
                               : calloc(1, sizeof(*r) + calls * sizeof(r->calls[0]));

    if (r != NULL) {
        r->set = set_ref(set);
        r->morsel = morsel;
        r->length = entry->length;
        r->digest = entry->digest;
        r->held = r->length;
        sets->returning_bytes += r->held;
        set->returning++;
    }
    return r;
}

void set_return_start(struct data_set *set, uint32_t morsel, const struct set_entry *entry,
                      struct payload *const pieces[SET_PIECES_MAX], const donor_id *donors,
                      uint32_t copies)
{
    struct set_return *r =
        client_is_ending(set->client) ? NULL : return_new(set, morsel, entry, copies);

    if (r == NULL) {
        set_claim_end(set, morsel, 1);
        return;
    }
    for (uint32_t i = 0; i < pieces_of(r->length); i++) {
        r->pieces[i] = payload_ref(pieces[i]);
    }
    for (uint32_t i = 0; i < copies; i++) {
        r->copies[r->copies_count++].donor = donors[i];
    }
    send_all(r);
}
