/* A fetch is one call after the other: READs at the source, WRITEs and a SYNC at our own door, and a word to the manager. */
#include "benefactor/fetching_uv.h"

#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "data.pb-c.h"
#include "dataset.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TELL_MS = 10000 };

/* ---- Beginning and end ---- */

static void give_back(struct fetch *fetch)
{
    for (uint32_t i = 0; i < FETCH_CHUNKS_MAX; i++) {
        payload_drop(fetch->chunks[i]);
        fetch->chunks[i] = NULL;
    }
    free(fetch->crcs);
    fetch->crcs = NULL;
    if (fetch->peer != NULL && !fetch->owner->stopped) {
        rpc_peer_close(fetch->peer);
    }
    fetch->peer = NULL;
}

/* What is called from now on is not the source. */
static void turn_inwards(struct fetch *fetch)
{
    fetch->call.fetches = 0;
    fetch->call.impatient = false;
}

static void tell(struct fetch *fetch);

static void end(struct fetch *fetch, enum fetch_outcome outcome)
{
    struct fetching *f = fetch->owner;

    give_back(fetch);
    turn_inwards(fetch);
    fetch->outcome = outcome;
    fetch->state = FETCH_TELLING;
    if (fetch->is_check) {
        f->checked++;
    } else if (outcome == FETCH_DONE) {
        f->fetched++;
        f->fetched_bytes += fetch->length;
    } else {
        f->failed++;
        log_info(f->log, "morsel %u of data set %llu could not be fetched from benefactor %u: %s",
                 fetch->morsel, (unsigned long long)fetch->set, fetch->source,
                 outcome == FETCH_UNREACHABLE ? "it does not answer"
                 : outcome == FETCH_DAMAGED   ? "what it has is not what was stored"
                 : outcome == FETCH_NO_ROOM   ? "there is no room here"
                                              : "it could not be stored here");
    }
    tell(fetch);
}

/* What is left of its time. */
static uint64_t time_left(const struct fetch *fetch)
{
    uint64_t now_ms = rpc_now_ms(fetch->owner->rpc);

    return fetch->until_ms > now_ms ? fetch->until_ms - now_ms : 1;
}

static void on_told(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fetch *fetch = CONTAINER_OF(call, struct fetch, call);

    (void)reply;
    if (status == 0 && fetch->told == fetch->order) {
        fetch->state = FETCH_FREE;
    } else if (status == 0) {
        tell(fetch);
    }
}

static void tell(struct fetch *fetch)
{
    struct fetching *f = fetch->owner;
    Morsel__DonorFetchedRequest request = MORSEL__DONOR_FETCHED_REQUEST__INIT;

    if (!f->member || f->stopped || rpc_call_active(&fetch->call)) {
        return;
    }
    request.id = *f->id;
    request.instance = *f->instance;
    request.order = fetch->told = fetch->order;
    request.set = fetch->set;
    request.morsel = fetch->morsel;
    request.length = fetch->length;
    request.digest = fetch->digest;
    request.outcome = fetch->outcome;
    (void)rpc_call_start(&fetch->call, f->manager,
                         fetch->is_check ? MSG_DONOR_CHECKED : MSG_DONOR_FETCHED, &request.base,
                         NULL, 0, TELL_MS, on_told); /* Without memory for it: fetching_look(). */
}

/* ---- At our own door ---- */

static uint32_t chunk_bytes(const struct fetch *fetch)
{
    uint32_t left = fetch->length - fetch->chunk * FRAME_PAYLOAD_BYTES_MAX;

    return left < FRAME_PAYLOAD_BYTES_MAX ? left : FRAME_PAYLOAD_BYTES_MAX;
}

static bool is_last(const struct fetch *fetch)
{
    return fetch->chunk * (uint64_t)FRAME_PAYLOAD_BYTES_MAX + chunk_bytes(fetch) >= fetch->length;
}

static void name_object(const struct fetch *fetch, Morsel__ObjectId *object)
{
    morsel__object_id__init(object);
    object->inode = fetch->set;
    object->column = fetch->morsel;
}

/* Is it the same number as that of the writes before it? Otherwise some of that may be lost. */
static bool take_done(struct fetch *fetch, const struct rpc_reply *reply, bool first)
{
    struct rpc_room room;
    void *message = NULL;
    const Morsel__Done *done;
    bool same;

    if (rpc_unpack_in(&room, &morsel__done__descriptor, reply->body, reply->body_count, &message) !=
        0) {
        return false;
    }
    done = message;
    fetch->verifier = first ? done->verifier : fetch->verifier;
    same = done->verifier == fetch->verifier;
    rpc_room_free(&room, message);
    return same;
}

static enum fetch_outcome store_outcome(int status)
{
    return status == MORSEL_NOSPC || status == MORSEL_DQUOT ? FETCH_NO_ROOM : FETCH_FAILED;
}

static void on_synced(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fetch *fetch = CONTAINER_OF(call, struct fetch, call);

    if (fetch->owner->stopped) {
        return;
    }
    end(fetch, status != 0                      ? store_outcome(status)
               : take_done(fetch, reply, false) ? FETCH_DONE
                                                : FETCH_FAILED);
}

static void sync_object(struct fetch *fetch)
{
    Morsel__SyncRequest request = MORSEL__SYNC_REQUEST__INIT;
    Morsel__ObjectId object;

    fetch->state = FETCH_SYNCING;
    name_object(fetch, &object);
    request.object = &object;
    if (rpc_call_start(&fetch->call, fetch->owner->self, MSG_SYNC, &request.base, NULL, 0,
                       time_left(fetch), on_synced) != 0) {
        end(fetch, FETCH_FAILED);
    }
}

static void write_chunk(struct fetch *fetch);

static void on_written(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fetch *fetch = CONTAINER_OF(call, struct fetch, call);

    if (fetch->owner->stopped) {
        return;
    }
    if (status != 0) {
        end(fetch, store_outcome(status));
    } else if (!take_done(fetch, reply, fetch->chunk == 0)) {
        end(fetch, FETCH_FAILED);
    } else if (is_last(fetch)) {
        sync_object(fetch);
    } else {
        fetch->chunk++;
        write_chunk(fetch);
    }
}

static void write_chunk(struct fetch *fetch)
{
    uint64_t offset = fetch->chunk * (uint64_t)FRAME_PAYLOAD_BYTES_MAX;
    uint32_t bytes = chunk_bytes(fetch);
    const struct rpc_piece piece = { fetch->chunks[fetch->chunk], 0, bytes };
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    Morsel__ObjectId object;

    fetch->state = FETCH_WRITING;
    name_object(fetch, &object);
    request.object = &object;
    request.offset = offset;
    request.crcs.data = (uint8_t *)(fetch->crcs + crc32c_pieces(0, offset));
    request.crcs.len = crc32c_pieces(offset, bytes) * sizeof(uint32_t);
    if (rpc_call_start(&fetch->call, fetch->owner->self, MSG_WRITE, &request.base, &piece, 1,
                       time_left(fetch), on_written) != 0) {
        end(fetch, FETCH_FAILED);
    }
}

/* ---- At the source ---- */

/* Of all pieces, as it is in the map; they are little-endian in memory from now on. */
static uint32_t digest_of(struct fetch *fetch)
{
    uint32_t pieces = crc32c_pieces(0, fetch->length);

    for (uint32_t i = 0; i < pieces; i++) {
        put_le32((uint8_t *)&fetch->crcs[i], fetch->crcs[i]);
    }
    return crc32c(0, fetch->crcs, pieces * sizeof(uint32_t));
}

static void read_chunk(struct fetch *fetch);

/* All of it, and as it came. */
static bool take_chunk(struct fetch *fetch, struct rpc_reply *reply)
{
    uint64_t offset = fetch->chunk * (uint64_t)FRAME_PAYLOAD_BYTES_MAX;

    if (reply->payload == NULL || reply->payload->count < chunk_bytes(fetch)) {
        return false;
    }
    fetch->chunks[fetch->chunk] = reply->payload;
    reply->payload = NULL;
    crc32c_of_pieces(offset, fetch->chunks[fetch->chunk]->data, chunk_bytes(fetch),
                     fetch->crcs + crc32c_pieces(0, offset));
    return true;
}

static bool is_damage(int status)
{
    return status == MORSEL_IO || status == MORSEL_CORRUPT || status == MORSEL_CHECKSUM;
}

static void on_read(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fetch *fetch = CONTAINER_OF(call, struct fetch, call);

    if (fetch->owner->stopped) {
        return;
    }
    if (status != 0) {
        end(fetch, is_damage(status) ? FETCH_DAMAGED : FETCH_UNREACHABLE);
    } else if (!take_chunk(fetch, reply)) {
        end(fetch, FETCH_DAMAGED);
    } else if (!is_last(fetch)) {
        fetch->chunk++;
        read_chunk(fetch);
    } else if (digest_of(fetch) != fetch->digest) {
        end(fetch, FETCH_DAMAGED);
    } else if (fetch->is_check) {
        end(fetch, FETCH_DONE);
    } else {
        fetch->chunk = 0;
        turn_inwards(fetch);
        write_chunk(fetch);
    }
}

static void read_chunk(struct fetch *fetch)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;
    Morsel__ObjectId object;

    fetch->state = FETCH_READING;
    name_object(fetch, &object);
    request.object = &object;
    request.offset = fetch->chunk * (uint64_t)FRAME_PAYLOAD_BYTES_MAX;
    request.length = chunk_bytes(fetch);
    fetch->call.fetches = request.length;
    fetch->call.impatient = true; /* There may be another source. */
    if (rpc_call_start(&fetch->call, fetch->peer, MSG_READ, &request.base, NULL, 0,
                       time_left(fetch), on_read) != 0) {
        end(fetch, FETCH_FAILED);
    }
}

/* ---- Orders ---- */

static struct fetch *fetch_of(struct fetching *f, bool is_check, uint64_t set, uint32_t morsel)
{
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (f->fetches[i].state != FETCH_FREE && f->fetches[i].is_check == is_check &&
            f->fetches[i].set == set && f->fetches[i].morsel == morsel) {
            return &f->fetches[i];
        }
    }
    return NULL;
}

static struct fetch *find_free(struct fetching *f)
{
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (f->fetches[i].state == FETCH_FREE && !rpc_call_active(&f->fetches[i].call)) {
            return &f->fetches[i];
        }
    }
    return NULL;
}

static void begin(struct fetch *fetch, bool is_check, const Morsel__DonorFetch *m)
{
    struct fetching *f = fetch->owner;
    const char *address = m->source->id == *f->id ? f->door : m->source->address;
    struct errmsg err = { "" };

    fetch->is_check = is_check;
    fetch->order = m->order;
    fetch->set = m->set;
    fetch->morsel = m->morsel;
    fetch->length = m->length;
    fetch->digest = m->digest;
    fetch->source = m->source->id;
    fetch->chunk = 0;
    fetch->until_ms = rpc_now_ms(f->rpc) + FETCH_MS;
    fetch->crcs = malloc(crc32c_pieces(0, m->length) * sizeof(uint32_t));
    if (fetch->crcs == NULL) {
        end(fetch, FETCH_FAILED);
        return;
    }
    if (rpc_peer_new(f->rpc, address, &fetch->peer, &err) != 0) {
        fetch->peer = NULL;
        end(fetch, FETCH_UNREACHABLE);
        return;
    }
    rpc_peer_expect(fetch->peer, m->source->id);
    read_chunk(fetch);
}

static bool is_sound(const Morsel__DonorFetch *m)
{
    return m->set != 0 && m->length > 0 && m->length <= MORSEL_BYTES_MAX && m->source != NULL;
}

/* The same again comes from a manager that was started anew: its order has another number, by which it is told what came of it,
 * also if the one before was told just now. Looking at a copy and fetching one do not
 * stand in each other's way. Anything else of that morsel is dropped: the manager finds out by its time. */
static void take_order(struct fetching *f, bool is_check, const Morsel__DonorFetch *m)
{
    struct fetch *fetch = fetch_of(f, is_check, m->set, m->morsel);

    if (!is_sound(m)) {
        log_warning(f->log,
                    "the manager wants a morsel fetched that there cannot be: is it of this "
                    "version?");
    } else if (fetch != NULL && fetch->length == m->length && fetch->digest == m->digest) {
        fetch->order = m->order;
        if (fetch->state == FETCH_TELLING) {
            tell(fetch);
        }
    } else if (fetch == NULL && (fetch = find_free(f)) != NULL) {
        begin(fetch, is_check, m);
    } else {
        log_debug(f->log, "no room to fetch morsel %u of data set %llu now", m->morsel,
                  (unsigned long long)m->set);
    }
}

void fetching_ordered(struct fetching *f, bool is_check, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    void *message = NULL;

    if (!f->stopped &&
        rpc_unpack_in(&room, &morsel__donor_fetch__descriptor, body, body_count, &message) == 0) {
        take_order(f, is_check, message);
        rpc_room_free(&room, message);
    }
}

/* ---- The face ---- */

/* Our own door, seen from here. */
static void own_door(const struct address *listens, char text[ADDRESS_TEXT_MAX])
{
    const char *host = strcmp(listens->host, "0.0.0.0") == 0 ? "127.0.0.1"
                       : strcmp(listens->host, "::") == 0    ? "::1"
                                                             : listens->host;

    (void)snprintf(text, ADDRESS_TEXT_MAX, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)listens->port_number);
}

int fetching_start(struct fetching *f, struct errmsg *err)
{
    struct address listens;
    int rv = address_parse(f->listens, &listens, err);

    if (rv != 0) {
        return rv;
    }
    own_door(&listens, f->door);
    if ((rv = rpc_peer_new(f->rpc, f->door, &f->self, err)) != 0) {
        return rv;
    }
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        f->fetches[i].owner = f;
    }
    f->started = true;
    return 0;
}

void fetching_joined(struct fetching *f, bool member)
{
    f->member = member;
    if (member) {
        fetching_look(f);
    }
}

void fetching_look(struct fetching *f)
{
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (f->fetches[i].state == FETCH_TELLING) {
            tell(&f->fetches[i]);
        }
    }
}

void fetching_stop(struct fetching *f)
{
    if (!f->started || f->stopped) {
        return;
    }
    f->stopped = true;
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        give_back(&f->fetches[i]);
    }
}
