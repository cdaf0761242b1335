/* Open morsels, and the rounds in which they go to benefactors (set_uv.h). */
#include "client/datasets/set_parts_uv.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* One WRITE: a piece, to one copy. */
struct open_call
{
    struct donor_call call;
    struct open_morsel *morsel;
    uint32_t copy;
};

static void round_end(struct open_morsel *o, int status);
static void send_round(struct open_morsel *o);

static uint32_t pieces_of(const struct data_set *set)
{
    return (set->morsel_bytes + SET_PIECE_BYTES - 1) / SET_PIECE_BYTES;
}

uint32_t open_morsel_digest(const struct open_morsel *o)
{
    return crc32c(0, o->crcs, crc32c_pieces(0, o->length) * sizeof(o->crcs[0]));
}

/* ---- Open morsels ---- */

struct open_morsel *open_morsel_find(const struct data_set *set, uint32_t number)
{
    struct open_morsel *o;

    HASH_FIND(hh, set->open, &number, sizeof(number), o);
    return o;
}

void open_morsel_free(struct open_morsel *o)
{
    struct data_set *set = o->set;

    CHECK(o->calls_running == 0 && list_empty(&o->waiting) && list_empty(&o->sending));
    open_morsel_unlist(o);
    HASH_DEL(set->open, o);
    for (unsigned i = 0; i < SET_PIECES_MAX; i++) {
        payload_drop(o->pieces[i]);
    }
    free(o->crcs);
    free(o->calls);
    free(o);
    set_unref(set);
}

static struct open_morsel *open_new(struct data_set *set, uint32_t number)
{
    struct open_morsel *o = calloc(1, sizeof(*o));

    if (o == NULL) {
        return NULL;
    }
    o->number = number;
    o->set = set;
    o->cut = UINT32_MAX;
    o->crcs = calloc(set->morsel_bytes / BLOCK_BYTES, sizeof(o->crcs[0]));
    o->calls = calloc((size_t)pieces_of(set) * REPLICAS_MAX, sizeof(o->calls[0]));
    list_init(&o->node);
    list_init(&o->idle_node);
    list_init(&o->waiting);
    list_init(&o->sending);
    if (o->crcs != NULL && o->calls != NULL) {
        HASH_ADD(hh, set->open, number, sizeof(o->number), o);
        if (TABLE_ADDED(o)) {
            (void)set_ref(set);
            return o;
        }
    }
    free(o->crcs);
    free(o->calls);
    free(o);
    return NULL;
}

static void idle(struct open_morsel *o)
{
    struct data_set *set = o->set;

    if (set->dropped) {
        open_morsel_free(o);
        return;
    }
    o->state = OPEN_IDLE;
    open_morsel_list_idle(o);
}

static void busy(struct open_morsel *o, enum open_state state)
{
    o->state = state;
    open_morsel_unlist(o);
}

void open_morsels_free_idle(struct data_set *set)
{
    struct list *node;

    (void)set_ref(set);
    while ((node = list_front(&set->idle)) != NULL) {
        open_morsel_free(LIST_ENTRY(node, struct open_morsel, node));
    }
    set_unref(set);
}

/* ---- Bytes ---- */

/* False: no memory. */
static bool piece_reserve(struct open_morsel *o, uint32_t piece)
{
    uint32_t bytes =
        o->set->morsel_bytes < SET_PIECE_BYTES ? o->set->morsel_bytes : SET_PIECE_BYTES;

    if (o->pieces[piece] == NULL) {
        o->pieces[piece] = payload_new(rpc_payloads(o->set->client->rpc), bytes);
    }
    return o->pieces[piece] != NULL;
}

/* `from` NULL: zeros. */
static bool put(struct open_morsel *o, uint32_t at, const uint8_t *from, uint32_t length)
{
    while (length > 0) {
        uint32_t piece = at / SET_PIECE_BYTES, within = at % SET_PIECE_BYTES;
        uint32_t part = SET_PIECE_BYTES - within < length ? SET_PIECE_BYTES - within : length;

        if (!piece_reserve(o, piece)) {
            return false;
        }
        if (from != NULL) {
            memcpy(o->pieces[piece]->data + within, from, part);
            from += part;
        } else {
            memset(o->pieces[piece]->data + within, 0, part);
        }
        at += part;
        length -= part;
    }
    return true;
}

void open_morsel_note_crcs(struct open_morsel *o, uint32_t from, uint32_t to)
{
    from -= from % BLOCK_BYTES;
    while (from < to) {
        uint32_t within = from % SET_PIECE_BYTES;
        uint32_t end = from - within + SET_PIECE_BYTES;
        uint32_t last =
            (to + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES; /* All of the last block */

        last = last < o->length ? last : o->length;
        end = end < last ? end : last;
        crc32c_of_pieces(from, o->pieces[from / SET_PIECE_BYTES]->data + within, end - from,
                         o->crcs + from / BLOCK_BYTES);
        from = end;
    }
}

static int take_write(struct open_morsel *o, const struct set_write *write)
{
    uint32_t at = (uint32_t)(write->offset % o->set->morsel_bytes), end = at + write->length;

    if (at > o->length && !put(o, o->length, NULL, at - o->length)) {
        return MORSEL_NOMEM;
    }
    if (!put(o, at, write->payload->data + write->payload_offset, write->length)) {
        return MORSEL_NOMEM;
    }
    if (at > o->length) {
        at = o->length;
    }
    o->length = end > o->length ? end : o->length;
    o->from = at < o->from ? at : o->from;
    o->to = end > o->to ? end : o->to;
    return MORSEL_OK;
}

int open_morsel_read(struct set_read *read)
{
    struct data_set *set = read->set;
    const struct open_morsel *o = open_morsel_find(set, set_morsel_of(set, read->offset));
    uint32_t at = (uint32_t)(read->offset % set->morsel_bytes), end;

    if (o == NULL || !o->known) {
        return MORSEL_AGAIN;
    }
    read->payload = NULL;
    read->count = 0;
    end = o->length < o->cut ? o->length : o->cut;
    if (at >= end) {
        return MORSEL_OK;
    }
    read->count = end - at < read->length ? end - at : read->length;
    read->payload = payload_new(rpc_payloads(set->client->rpc), read->count);
    read->payload_offset = 0;
    if (read->payload == NULL) {
        return MORSEL_NOMEM;
    }
    memcpy(read->payload->data, o->pieces[at / SET_PIECE_BYTES]->data + at % SET_PIECE_BYTES,
           read->count);
    return MORSEL_OK;
}

void open_morsel_take(struct open_morsel *o, const struct set_load *load)
{
    const struct set_entry *entry = &load->entry;
    uint32_t at = 0;

    o->known = true;
    o->in_map = entry->stored;
    o->rewriting = entry->stored && entry->rewriting;
    for (unsigned i = 0; at < entry->length; i++) {
        uint32_t part = load->pieces[i] == NULL ? 0 : (uint32_t)load->pieces[i]->count;

        if (part == 0 || !put(o, at, load->pieces[i]->data, part)) {
            o->known = false;
            return;
        }
        at += part;
    }
    o->length = o->stored = entry->length;
    open_morsel_note_crcs(o, 0, o->length);
    o->copies_count = 0;
    for (uint32_t i = 0; i < entry->donor_count && i < REPLICAS_MAX; i++) {
        o->copies[o->copies_count++] = (struct open_copy){
            .donor = entry->donors[i],
            .instance = donor_instance(o->set->client, entry->donors[i]),
        }; /* Which of them have all of it nobody knows: they get it whole. */
    }
    o->wanted = o->copies_count;
}

/* ---- A round ---- */

static void pause_round(struct open_morsel *o)
{
    struct data_set *set = o->set;

    busy(o, OPEN_PAUSED);
    o->retry_ms = uv_now(set->client->loop) + SET_PAUSE_MS;
    list_push_back(&set->paused, &o->node);
}

/* The round has what it changes: announce that, or go. */
static void round_go(struct open_morsel *o)
{
    o->announcing = o->in_map && !o->rewriting && o->from < o->stored;
    if (o->announcing) {
        busy(o, OPEN_REPORTING);
        open_morsel_report(o);
    } else {
        send_round(o);
    }
}

static void round_take(struct open_morsel *o)
{
    int rv = MORSEL_OK;

    open_morsel_end_at_cut(o);
    o->from = UINT32_MAX;
    o->to = 0;
    LIST_FOREACH(node, &o->sending)
    {
        if (rv == 0 && LIST_ENTRY(node, struct set_write, node)->length > 0) {
            rv = take_write(o, LIST_ENTRY(node, struct set_write, node));
        }
    }
    if (rv != 0) {
        round_end(o, rv);
        return;
    }
    if (o->to == 0 && o->restores && o->rewriting) {
        o->from = 0;
        o->to = o->length;
    }
    if (o->to == 0) { /* Nobody waits for it any more. */
        round_end(o, MORSEL_OK);
        return;
    }
    open_morsel_note_crcs(o, o->from, o->to);
    round_go(o);
}

static void on_loaded(struct set_read *read, int status)
{
    struct open_morsel *o = CONTAINER_OF(read, struct open_morsel, load);

    if (status == 0 && !o->known) {
        status = MORSEL_NOMEM;
    }
    if (status == 0) {
        round_take(o);
    } else {
        round_end(o, status);
    }
}

/* What there was of it before is needed: of the rest of a block, and for its digest. */
static void round_load(struct open_morsel *o)
{
    struct data_set *set = o->set;
    struct set_entry entry;
    int rv;

    if (set_map_get(&set->map, o->number, &entry) && !entry.stored) {
        o->known = true;
        round_take(o);
        return;
    }
    busy(o, OPEN_LOADING);
    o->load = (struct set_read){ .set = set, .opens = o };
    o->load.offset = (uint64_t)o->number * set->morsel_bytes;
    rv = set_read_start(&o->load, on_loaded);
    if (rv != MORSEL_AGAIN) {
        on_loaded(&o->load, rv);
    }
}

void open_morsel_go(struct open_morsel *o)
{
    struct list *node;

    if (o->state != OPEN_IDLE) {
        return;
    }
    if (list_empty(&o->waiting)) {
        open_morsel_end_at_cut(o);
        idle(o);
        return;
    }
    o->restores = false;
    while ((node = list_pop_front(&o->waiting)) != NULL) {
        o->restores = o->restores || LIST_ENTRY(node, struct set_write, node)->length == 0;
        list_push_back(&o->sending, node);
    }
    busy(o, OPEN_WRITING);
    o->until_ms = set_deadline_ms(o->set);
    o->placed_alone = o->unreached = false;
    o->left_count = 0;
    for (uint32_t i = 0; i < o->copies_count; i++) {
        o->copies[i].sent = false;
    }
    if (o->known) {
        round_take(o);
    } else {
        round_load(o);
    }
}

/* All of them are told; the last may drop the set. What a round that failed has left here is not what others see: it goes. */
static void round_end(struct open_morsel *o, int status)
{
    struct data_set *set;
    struct list ended, *node;

    if (o->starting) {
        o->ending = status;
        pause_round(o);
        return;
    }
    set = set_ref(o->set);
    list_init(&ended);
    while ((node = list_pop_front(&o->sending)) != NULL) {
        list_push_back(&ended, node);
    }
    busy(o, OPEN_IDLE);
    list_init(&o->node);
    if (status != 0) {
        while ((node = list_pop_front(&o->waiting)) != NULL) {
            list_push_back(&ended, node);
        }
        open_morsel_free(o);
    } else {
        open_morsel_go(o);
    }
    while ((node = list_pop_front(&ended)) != NULL) {
        struct set_write *write = LIST_ENTRY(node, struct set_write, node);

        write->morsel = NULL;
        write->done(write, status);
    }
    set_unref(set);
}

static uint32_t well(const struct open_morsel *o)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < o->copies_count; i++) {
        count += !o->copies[i].failed;
    }
    return count;
}

/* It does not count, and may have a part of the morsel. */
static void leave_copy(struct open_morsel *o, uint32_t i)
{
    if (o->left_count < SET_FAILED_MAX) {
        o->left[o->left_count++] = o->copies[i].donor;
    }
    o->copies[i] = o->copies[--o->copies_count];
}

/* Those that have taken it stay. */
static void leave_failed(struct open_morsel *o)
{
    for (uint32_t i = o->copies_count; i-- > 0;) {
        if (o->copies[i].failed) {
            leave_copy(o, i);
        }
    }
}

/* Some are written from their beginning. */
static bool begin_anew(struct open_morsel *o)
{
    bool some = false;

    for (uint32_t i = 0; i < o->copies_count; i++) {
        struct open_copy *copy = &o->copies[i];

        if (copy->anew) {
            copy->anew = copy->whole = copy->sent = false;
            copy->process = 0;
            some = true;
        }
    }
    return some;
}

/* All to whom it went have answered, or failed. */
static void written(struct open_morsel *o)
{
    bool late = uv_now(o->set->client->loop) >= o->until_ms;

    leave_failed(o);
    if (begin_anew(o) || (o->copies_count < o->wanted && !o->placed_alone)) {
        send_round(o); /* Others in the place of those that failed. */
    } else if (o->copies_count > 0) {
        busy(o, OPEN_REPORTING);
        open_morsel_report(o);
    } else if (late) {
        round_end(o, MORSEL_UNREACHABLE);
    } else {
        o->placed_alone = false;
        pause_round(o);
    }
}

static void note_failed(struct open_morsel *o, struct open_copy *copy, int status,
                        const struct rpc_reply *reply)
{
    struct client *client = o->set->client;

    if (copy->failed || status == MORSEL_CANCELED) {
        copy->failed = true;
        return;
    }
    copy->failed = true;
    o->unreached = o->unreached || status != MORSEL_NOSPC;
    client->counters.set_copies_failed++;
    set_places_failed(&o->set->places, copy->donor, status == MORSEL_NOSPC, uv_now(client->loop),
                      status == MORSEL_OVERLOAD ? SET_BUSY_MS : SET_FAILED_MS);
    log_warning(
        client->options.log,
        "inode %lu: benefactor %u (%s) did not take morsel %u of data set %lu: %s; it is put "
        "elsewhere",
        (unsigned long)o->set->inode, copy->donor, donor_address(client, copy->donor), o->number,
        (unsigned long)o->set->number,
        reply != NULL && reply->text[0] != '\0' ? reply->text : status_words(status));
}

static uint64_t verifier_of(const struct rpc_reply *reply)
{
    struct rpc_room room;
    Morsel__Done *done;
    uint64_t verifier = 0;

    if (rpc_unpack_in(&room, &morsel__done__descriptor, reply->body, reply->body_count,
                      (void **)&done) == 0) {
        verifier = done->verifier;
        rpc_room_free(&room, done);
    }
    return verifier;
}

static void on_written(struct donor_call *call, int status, struct rpc_reply *reply)
{
    struct open_call *c = CONTAINER_OF(call, struct open_call, call);
    struct open_morsel *o = c->morsel;
    struct open_copy *copy = &o->copies[c->copy];

    copy->calls--;
    o->calls_running--;
    if (status != 0) {
        note_failed(o, copy, status, reply);
    } else if (copy->process != 0 && copy->process != call->process) {
        copy->anew = true;
    } else {
        copy->process = copy->instance =
            call->process; /* A benefactor tells the manager the same. */
        copy->verifier = verifier_of(reply);
    }
    copy->whole = copy->calls == 0 && !copy->failed;
    if (o->calls_running == 0) {
        written(o);
    }
}

static int send_piece(struct open_morsel *o, uint32_t copy, uint32_t from, uint32_t to)
{
    uint32_t piece = from / SET_PIECE_BYTES, within = from % SET_PIECE_BYTES;
    struct open_call *c = &o->calls[copy * pieces_of(o->set) + piece];
    struct rpc_piece bytes = { o->pieces[piece], within, to - from };
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    int rv;

    object.inode = o->set->number;
    object.column = o->number;
    request.object = &object;
    request.offset = from;
    request.crcs.data =
        (uint8_t *)(o->crcs + from / BLOCK_BYTES); /* Little-endian, as this machine. */
    request.crcs.len = crc32c_pieces(from, to - from) * sizeof(o->crcs[0]);
    *c = (struct open_call){ .morsel = o, .copy = copy };
    c->call.client = o->set->client;
    c->call.donor = o->copies[copy].donor;
    rv = donor_call_start(&c->call, MSG_WRITE, &request.base, &bytes, 0, on_written);
    if (rv == 0) {
        o->copies[copy].calls++;
        o->calls_running++;
    }
    return rv;
}

/* What it does not have, in whole blocks: their other bytes are here. */
static void send_copy(struct open_morsel *o, uint32_t i)
{
    struct open_copy *copy = &o->copies[i];
    uint32_t from = copy->whole ? o->from - o->from % BLOCK_BYTES : 0;
    uint32_t to = o->length;

    if (copy->whole && o->to < o->length) {
        to = (o->to + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        to = to < o->length ? to : o->length;
    }
    if (!copy->whole) {
        copy->process = 0;
    }
    copy->whole = false;
    copy->part = from > 0 || to < o->length;
    copy->instance = donor_instance(o->set->client, copy->donor);
    while (from < to && !copy->failed) {
        uint32_t end = from - from % SET_PIECE_BYTES + SET_PIECE_BYTES;
        int rv = send_piece(o, i, from, end < to ? end : to);

        if (rv != 0) {
            note_failed(o, copy, rv, NULL);
        }
        from = end;
    }
}

/* To all copies that do not have it. */
static void send_round(struct open_morsel *o)
{
    busy(o, OPEN_WRITING);
    if ((o->copies_count == 0 || o->copies_count < o->wanted) && !o->placed_alone &&
        !open_morsel_place(o)) {
        return;
    }
    o->calls_running++; /* Let go below: some may fail at once. */
    for (uint32_t i = 0; i < o->copies_count; i++) {
        if (!o->copies[i].sent) {
            o->copies[i].sent = true;
            send_copy(o, i);
        }
    }
    if (--o->calls_running == 0) {
        written(o);
    }
}

/* Programs are not to ask again by themselves: that was done here, for as long as they wait. */
static int told(int status)
{
    return status == MORSEL_AGAIN ? MORSEL_UNREACHABLE : status;
}

void open_morsel_placed(struct open_morsel *o, int status)
{
    bool late = uv_now(o->set->client->loop) >= o->until_ms;

    if (status == MORSEL_NOSPC && o->unreached) {
        o->unreached = false; /* Unless somebody fails again. */
        status =
            late ? MORSEL_UNREACHABLE : MORSEL_AGAIN; /* There may be room, and no way there. */
    }
    if (status == MORSEL_AGAIN && !late && well(o) == 0) {
        pause_round(o);
    } else if (status == 0 || well(o) > 0) {
        o->placed_alone = o->placed_alone || status != 0; /* Fewer copies rather than none. */
        send_round(o);
    } else {
        round_end(o, told(status));
    }
}

void open_morsel_reported(struct open_morsel *o, int status)
{
    struct data_set *set = o->set;
    uint64_t now_ms = uv_now(set->client->loop);

    if (status == 0 && o->announcing) {
        o->announcing = false;
        o->rewriting = true;
        send_round(o);
    } else if (status == 0) {
        o->in_map = true;
        o->rewriting = false;
        o->stored = o->length;
        set->client->counters.set_morsels_stored++;
        round_end(o, MORSEL_OK);
    } else if (status == MORSEL_AGAIN && now_ms < o->until_ms) {
        pause_round(o);
    } else if (status == MORSEL_UNREACHABLE && !o->announcing && now_ms < o->until_ms &&
               rpc_peer_connected(set->client->manager)) {
        o->copies_count =
            0; /* Those who took it are gone, and what was placed ahead may be, too. */
        set->places.count = 0;
        o->placed_alone = false;
        pause_round(o);
    } else {
        round_end(o, told(status));
    }
}

/* ---- What is asked of this file ---- */

static void resume(struct open_morsel *o)
{
    if (o->ending != 0) {
        round_end(o, o->ending);
    } else if (o->announcing || (o->copies_count > 0 && o->copies[0].sent)) {
        busy(o, OPEN_REPORTING);
        open_morsel_report(o);
    } else {
        send_round(o);
    }
}

void open_morsels_tick(struct data_set *set, uint64_t now_ms)
{
    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(&set->paused)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) { /* One may end others. */
        struct open_morsel *o = LIST_ENTRY(node, struct open_morsel, node);

        list_push_back(&set->paused, node);
        if (o->ending != 0 || now_ms >= o->retry_ms) {
            resume(o);
        }
    }
}

int set_write_start(struct set_write *write, struct data_set *set,
                    void (*done)(struct set_write *write, int status))
{
    struct open_morsel *o;

    if (write->offset / set->morsel_bytes > UINT32_MAX - 1) {
        return MORSEL_FBIG;
    }
    o = open_morsel_find(set, set_morsel_of(set, write->offset));
    if (o == NULL) {
        o = open_new(set, set_morsel_of(set, write->offset));
    }
    if (o == NULL) {
        return MORSEL_NOMEM;
    }
    write->done = done;
    write->morsel = o;
    list_init(&write->node);
    list_push_back(&o->waiting, &write->node);
    o->starting = true;
    open_morsel_go(o);
    o->starting = false;
    return MORSEL_OK;
}

void set_write_cancel(struct set_write *write)
{
    if (write->morsel != NULL) {
        write->morsel = NULL;
        list_remove(&write->node);
        write->done(write, MORSEL_CANCELED);
    }
}
