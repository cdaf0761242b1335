/* Morsels on their way here: which copy is asked, and what is believed (set_parts_uv.h). */
#include "client/datasets/set_parts_uv.h"

#include "client/datasets/set_choice.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum {
    WRONG_ROUNDS_MAX = 2, /* So often all copies are asked, when none is away and all are wrong. */
    LOADING_BYTES_MAX = 256 << 20,
    EVICTED_LOG_MS = 1000,
    ASK_ANEW_MS = 1000,
    ORIGIN_AFTER_MS =
        2000 /* So long benefactors that only had too much to do get another chance. */
};

/* The morsel, asked of one donor. */
struct load_attempt
{
    struct client *client;
    struct set_load *load; /* NULL: nobody waits for it any more. */
    uint32_t copy;
    donor_id donor;
    uint64_t began_ns, expected_ns; /* Since, and how long it should take (set_choice.h). */
    uint32_t running, pieces_count;
    int status;
    uint32_t *crcs; /* Of all block pieces. */
    struct load_piece
    {
        struct donor_call call;
        struct load_attempt *attempt;
        uint32_t offset, length;
        struct payload *payload;
    } pieces[];
};

static void load_go(struct set_load *load);

/* ---- The life of a load ---- */

static void load_destroy(struct set_load *load)
{
    for (unsigned i = 0; i < SET_PIECES_MAX; i++) {
        payload_drop(load->pieces[i]);
    }
    list_remove(&load->node);
    list_remove(&load->queue);
    list_remove(&load->origin_node);
    free(load);
}

static void unlist(struct set_load *load)
{
    if (load->listed) {
        HASH_DEL(load->client->data.sets->loads, load);
        load->listed = false;
    }
}

void set_load_free(struct set_load *load)
{
    CHECK(load->here && list_empty(&load->readers));
    unlist(load);
    load->client->data.sets->cached_bytes -= load->entry.length;
    load_destroy(load);
}

void set_load_unlist(struct set_load *load)
{
    if (load->here) {
        set_load_free(load);
    } else {
        unlist(load);
    }
}

/* The kernel has its pages by now, and memory that is used again at once is still near the processor. Who reads here and there is not done with
 * it, however much that is. */
static bool is_taken(const struct set_load *load)
{
    return load->taken_to >= load->entry.length;
}

void set_load_used(struct set_load *load)
{
    if (is_taken(load)) {
        set_load_free(load);
        return;
    }
    list_remove(&load->queue);
    list_push_back(&load->client->data.sets->cached, &load->queue);
}

static void keep(struct set_load *load)
{
    struct data_sets *sets = load->client->data.sets;

    load->here = true;
    list_remove(&load->node);
    list_push_back(&load->set->kept, &load->node);
    sets->cached_bytes += load->entry.length;
    list_push_back(&sets->cached, &load->queue);
    while (sets->cached_bytes > SET_CACHED_BYTES_MAX) {
        set_load_free(LIST_ENTRY(list_front(&sets->cached), struct set_load, queue));
    }
}

static void leave_room(struct set_load *load)
{
    struct data_sets *sets = load->client->data.sets;
    struct list *node;

    list_remove(&load->queue);
    sets->loading_bytes -= load->room_bytes;
    load->room_bytes = 0;
    if (sets->loading_bytes < LOADING_BYTES_MAX &&
        (node = list_pop_front(&sets->waiting)) != NULL) {
        load_go(LIST_ENTRY(node, struct set_load, queue));
    }
}

/* What is asked still is not wanted any more. */
static void leave_attempts(struct set_load *load)
{
    for (unsigned i = 0; i < SET_COPIES_MAX; i++) {
        struct load_attempt *attempt = load->attempts[i];

        load->attempts[i] = NULL;
        if (attempt != NULL) {
            attempt->load = NULL;
            for (uint32_t j = 0; j < attempt->pieces_count; j++) {
                donor_call_cancel(&attempt->pieces[j].call);
            }
        }
    }
}

static void load_end(struct set_load *load, int status)
{
    struct data_set *set = load->set;
    struct list readers, *node;

    CHECK(!load->asking && !load->here);
    leave_attempts(load);
    list_remove(&load->origin_node);
    load->at_origin = false;
    list_init(&readers);
    while ((node = list_pop_front(&load->readers)) != NULL) {
        struct set_read *read = LIST_ENTRY(node, struct set_read, node);

        read->load = NULL;
        if (status == 0) {
            set_read_take(read, load);
        }
        list_push_back(&readers, node);
    }
    leave_room(load);
    if (status == 0 && load->listed && !set->dropped && !is_taken(load)) {
        keep(load);
    } else {
        unlist(load);
        load_destroy(load);
    }
    while ((node = list_pop_front(&readers)) != NULL) {
        struct set_read *read = LIST_ENTRY(node, struct set_read, node);

        read->done(read, status);
    }
    set_unref(set);
}

/* ---- One attempt ---- */

static void attempt_free(struct load_attempt *attempt)
{
    for (uint32_t i = 0; i < attempt->pieces_count; i++) {
        payload_drop(attempt->pieces[i].payload);
    }
    free(attempt->crcs);
    free(attempt);
}

static const char *words_of(int status)
{
    return status == MORSEL_NODATA ? "it does not have all of it" : status_words(status);
}

static void attempt_failed(struct load_attempt *attempt)
{
    struct set_load *load = attempt->load;
    int status = attempt->status;
    bool wrong = status == MORSEL_NODATA || status == MORSEL_CHECKSUM || status == MORSEL_CORRUPT ||
                 status == MORSEL_IO || status == MORSEL_MALFORMED;

    log_warning(load->client->options.log,
                "inode %lu: morsel %lu of data set %lu was not had from benefactor %u (%s): %s%s",
                (unsigned long)load->set->inode, (unsigned long)load->key.morsel,
                (unsigned long)load->key.set, attempt->donor,
                donor_address(load->client, attempt->donor), words_of(status),
                load->entry.donor_count > 1 ? "; another copy is asked for" : "");
    if (wrong) {
        donor_note_failure(load->client, attempt->donor);
        set_damage_note(load, attempt->donor);
        load->client->counters.set_copies_wrong++;
    }
    load->away = load->away || !wrong;
    load->status = !wrong
                       ? MORSEL_UNREACHABLE /* Why it is not given is no matter of the program's. */
                   : status == MORSEL_IO ? MORSEL_IO
                                         : MORSEL_CHECKSUM;
    load->attempts[attempt->copy] = NULL;
}

static bool digest_matches(const struct load_attempt *attempt, const struct set_entry *entry)
{
    size_t bytes = crc32c_pieces(0, entry->length) * sizeof(attempt->crcs[0]);

    return entry->rewriting || crc32c(0, attempt->crcs, bytes) == entry->digest;
}

static void attempt_end(struct load_attempt *attempt)
{
    struct set_load *load = attempt->load;

    if (load == NULL) {
        attempt_free(attempt);
        return;
    }
    if (attempt->status == 0 && !digest_matches(attempt, &load->entry)) {
        attempt->status = MORSEL_CHECKSUM;
    }
    if (attempt->status != 0) {
        attempt_failed(attempt);
        attempt_free(attempt);
        load_go(load);
        return;
    }
    for (uint32_t i = 0; i < attempt->pieces_count; i++) {
        load->pieces[i] = attempt->pieces[i].payload;
        attempt->pieces[i].payload = NULL;
    }
    load->client->counters.set_morsels_read++;
    load->attempts[attempt->copy] = NULL;
    attempt_free(attempt);
    load_end(load, MORSEL_OK);
}

/* The bytes are what the server says that they are; whether they are the morsel's, the digest says. */
static int check_piece(struct load_piece *piece, const struct rpc_reply *reply)
{
    Morsel__ReadReply *message = NULL;
    struct rpc_room room;
    uint32_t *crcs = piece->attempt->crcs + piece->offset / BLOCK_BYTES;
    size_t bytes = crc32c_pieces(piece->offset, piece->length) * sizeof(crcs[0]);
    int rv;

    if (reply->payload == NULL || reply->payload->count != piece->length) {
        return MORSEL_NODATA;
    }
    rv = rpc_unpack_in(&room, &morsel__read_reply__descriptor, reply->body, reply->body_count,
                       (void **)&message);
    if (rv != 0) {
        return rv;
    }
    crc32c_of_pieces(piece->offset, reply->payload->data, piece->length, crcs);
    rv = message->crcs.len == bytes && memcmp(crcs, message->crcs.data, bytes) == 0
             ? MORSEL_OK
             : MORSEL_CHECKSUM;
    rpc_room_free(&room, message);
    return rv;
}

static void on_piece(struct donor_call *call, int status, struct rpc_reply *reply)
{
    struct load_piece *piece = call->data;
    struct load_attempt *attempt = piece->attempt;

    if (status == 0 && attempt->load != NULL) {
        status = check_piece(piece, reply);
    }
    if (status == 0) {
        piece->payload = reply->payload;
        reply->payload = NULL;
    } else if (attempt->status == 0) {
        attempt->status = status;
    }
    if (--attempt->running == 0) {
        attempt_end(attempt);
    }
}

static int piece_start(struct load_piece *piece)
{
    const struct set_load *load = piece->attempt->load;
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;

    object.inode = load->key.set;
    object.column = (uint32_t)load->key.morsel;
    request.object = &object;
    request.offset = piece->offset;
    request.length = piece->length;
    request.whole = load->entry.rewriting; /* No digest tells. */
    piece->call.client = load->client;
    piece->call.donor = piece->attempt->donor;
    piece->call.data = piece;
    return donor_call_start(&piece->call, MSG_READ, &request.base, NULL, piece->length, on_piece);
}

static struct load_attempt *attempt_new(struct set_load *load, struct set_choice choice)
{
    uint32_t length = load->entry.length;
    uint32_t count = (length + SET_PIECE_BYTES - 1) / SET_PIECE_BYTES;
    struct load_attempt *attempt = calloc(1, sizeof(*attempt) + count * sizeof(attempt->pieces[0]));

    if (attempt == NULL) {
        return NULL;
    }
    attempt->client = load->client;
    attempt->load = load;
    attempt->copy = choice.copy;
    attempt->donor = load->entry.donors[choice.copy];
    attempt->began_ns = uv_hrtime();
    attempt->expected_ns = choice.wait_ns;
    attempt->pieces_count = count;
    attempt->crcs = calloc(crc32c_pieces(0, length), sizeof(attempt->crcs[0]));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t offset = i * SET_PIECE_BYTES, left = length - offset;

        attempt->pieces[i].attempt = attempt;
        attempt->pieces[i].offset = offset;
        attempt->pieces[i].length = left < SET_PIECE_BYTES ? left : SET_PIECE_BYTES;
    }
    if (attempt->crcs == NULL) {
        free(attempt);
        return NULL;
    }
    return attempt;
}

/* 0: it runs. */
static int attempt_start(struct set_load *load, struct set_choice choice)
{
    struct load_attempt *attempt = attempt_new(load, choice);
    int rv = MORSEL_OK;

    if (attempt == NULL) {
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; rv == 0 && i < attempt->pieces_count; i++) {
        rv = piece_start(&attempt->pieces[i]);
        attempt->running += rv == 0;
    }
    if (attempt->running == 0) {
        attempt_free(attempt);
        return rv;
    }
    attempt->status = rv; /* Without memory for all of them it fails when the others have ended. */
    load->attempts[choice.copy] = attempt;
    return MORSEL_OK;
}

/* ---- What is next ---- */

static struct set_choice next_copy(const struct set_load *load)
{
    struct set_copy_state states[SET_COPIES_MAX];

    for (uint32_t i = 0; i < load->entry.donor_count; i++) {
        donor_id donor = load->entry.donors[i];

        states[i] = (struct set_copy_state){ .tried = load->tried[i],
                                             .well = donor_is_well(load->client, donor),
                                             .asked = donor_read_asked(load->client, donor),
                                             .rate = donor_read_rate(load->client, donor) };
    }
    return set_choose_copy((uint32_t)load->key.morsel, load->entry.length,
                           donors_best_rate(load->client), states, load->entry.donor_count);
}

static bool runs(const struct set_load *load)
{
    for (unsigned i = 0; i < SET_COPIES_MAX; i++) {
        if (load->attempts[i] != NULL) {
            return true;
        }
    }
    return false;
}

static void on_entry(struct set_ask_wait *wait, int status, const struct set_entry *entry);

static void ask(struct set_load *load)
{
    int rv = set_ask(load->set, &load->ask, (uint32_t)load->key.morsel, load->fresh);

    load->ask.done = on_entry;
    load->asking = rv == 0;
    if (rv != 0) {
        load->status = rv;
        load->retry_ms = uv_now(load->client->loop) + SET_PAUSE_MS;
    }
}

/* Copies that are here and wrong get no better by waiting. */
static bool is_for_origin(const struct set_load *load, uint64_t now_ms)
{
    return load->entry.donor_count == 0 || now_ms >= load->origin_from_ms ||
           (!load->away && load->wrong_rounds > 0) || set_origin_gives(load->set);
}

/* Nobody who has it could be had. The manager may know others soon. */
static void try_later(struct set_load *load)
{
    uint64_t now_ms = uv_now(load->client->loop);

    if (!list_empty(&load->readers) && now_ms < load->until_ms && is_for_origin(load, now_ms) &&
        set_origin_want(load)) {
        leave_room(load);
        return;
    }
    if (load->entry.donor_count > 0 && !load->away) {
        load->wrong_rounds++;
    }
    if (load->entry.donor_count == 0) {
        load->status = MORSEL_UNREACHABLE;
    }
    if (list_empty(&load->readers) || now_ms >= load->until_ms ||
        load->wrong_rounds >= WRONG_ROUNDS_MAX) {
        int status = list_empty(&load->readers) ? MORSEL_CANCELED : load->status;

        if (status != MORSEL_CANCELED) {
            log_error(
                load->client->options.log,
                "inode %lu: cannot read morsel %lu of data set %lu: none of its %u copies can "
                "be had (%s); \"morsel datasets\" and \"morsel donors\" say who is away",
                (unsigned long)load->set->inode, (unsigned long)load->key.morsel,
                (unsigned long)load->key.set, load->entry.donor_count, status_words(status));
        }
        load_end(load, status);
        return;
    }
    set_map_forget(&load->set->map, (uint32_t)load->key.morsel);
    load->retry_ms = now_ms + SET_PAUSE_MS;
    leave_room(load); /* Others have their turn meanwhile. */
}

static bool take_room(struct set_load *load)
{
    struct data_sets *sets = load->client->data.sets;

    if (load->room_bytes > 0) {
        return true;
    }
    if (sets->loading_bytes > 0 && sets->loading_bytes + load->entry.length > LOADING_BYTES_MAX) {
        list_remove(&load->queue);
        list_push_back(&sets->waiting, &load->queue);
        return false;
    }
    load->room_bytes = load->entry.length;
    sets->loading_bytes += load->room_bytes;
    return true;
}

/* The entry is known: ask a copy that was not asked, if none is being asked. */
static void load_go(struct set_load *load)
{
    struct set_choice choice;

    if (!take_room(load) || runs(load)) {
        return;
    }
    while ((choice = next_copy(load)).copy < load->entry.donor_count) {
        int rv = attempt_start(load, choice);

        load->tried[choice.copy] = true;
        if (rv == 0) {
            return;
        }
        load->away = true;
        load->status = rv;
    }
    try_later(load);
}

void set_log_evicted(struct data_set *set, uint32_t morsel)
{
    uint64_t now_ms = uv_now(set->client->loop);

    if (set->evicted_logged_ms != 0 && now_ms - set->evicted_logged_ms < EVICTED_LOG_MS) {
        return;
    }
    set->evicted_logged_ms = now_ms;
    log_error(
        set->client->options.log,
        "inode %lu: morsel %u of data set %lu was evicted to make room for others, and is not "
        "to be had from an origin: store the file anew; \"morsel datasets\" says how much of "
        "it is left",
        (unsigned long)set->inode, morsel, (unsigned long)set->number);
}

static void with_entry(struct set_load *load, const struct set_entry *entry)
{
    if (load->entry.digest != entry->digest || load->entry.length != entry->length ||
        load->entry.rewriting != entry->rewriting) {
        load->wrong_rounds = 0; /* It was written meanwhile. */
    }
    load->entry = *entry;
    load->away = false;
    memset(load->tried, 0, sizeof(load->tried));
    if (!entry->stored || entry->length == 0) {
        load->entry.length = 0;
        load_end(load, MORSEL_OK);
    } else if (!entry->evicted) {
        load_go(load);
    } else if (!set_origin_want(load)) {
        set_load_origin_failed(load);
    }
}

bool set_may_ask_anew(const struct data_set *set)
{
    return set->asked_anew_ms == 0 || uv_now(set->client->loop) >= set->asked_anew_ms + ASK_ANEW_MS;
}

/* All pages are forgotten: who reads through the set meets others that say the same. */
static bool ask_anew(struct set_load *load)
{
    if (list_empty(&load->readers) || load->asked_anew || !set_may_ask_anew(load->set)) {
        return false;
    }
    load->asked_anew = true;
    load->set->asked_anew_ms = uv_now(load->client->loop);
    set_map_forget_all(&load->set->map);
    set_load_begin(load);
    return true;
}

void set_load_origin_failed(struct set_load *load)
{
    list_remove(&load->origin_node);
    load->at_origin = false;
    if (load->entry.evicted) {
        if (ask_anew(load)) {
            return;
        }
        set_log_evicted(load->set, (uint32_t)load->key.morsel);
        load_end(load, list_empty(&load->readers) ? MORSEL_CANCELED : MORSEL_IO);
    } else { /* Its benefactors may come back. */
        set_map_forget(&load->set->map, (uint32_t)load->key.morsel);
        load->retry_ms = uv_now(load->client->loop) + SET_PAUSE_MS;
    }
}

void set_load_elsewhere(struct set_load *load)
{
    list_remove(&load->origin_node);
    load->at_origin = false;
    set_map_forget(&load->set->map, (uint32_t)load->key.morsel);
    set_load_begin(load);
}

/* NULL: nothing of it is on its way, or without memory. */
static struct set_load *load_of_origin(struct data_set *set, uint32_t morsel)
{
    struct set_load *load = set_load_get(set, morsel, false);

    if (load != NULL && load->is_new) {
        load->is_new = false;
        load->at_origin = true;
    }
    return load != NULL && load->at_origin ? load : NULL;
}

void set_load_from_origin(struct data_set *set, uint32_t morsel, const struct set_entry *entry,
                          struct payload *pieces[SET_PIECES_MAX])
{
    struct set_load *load = load_of_origin(set, morsel);

    if (load == NULL) {
        return;
    }
    load->entry = *entry;
    for (unsigned i = 0; i < SET_PIECES_MAX; i++) {
        load->pieces[i] = pieces[i];
        pieces[i] = NULL;
    }
    set->client->counters.set_morsels_origin++;
    load_end(load, MORSEL_OK);
}

static void on_entry(struct set_ask_wait *wait, int status, const struct set_entry *entry)
{
    struct set_load *load = CONTAINER_OF(wait, struct set_load, ask);

    load->asking = false;
    if (status == 0) {
        with_entry(load, entry);
    } else {
        load_end(load, list_empty(&load->readers) ? MORSEL_CANCELED : status);
    }
}

struct set_load *set_load_get(struct data_set *set, uint32_t morsel, bool fresh)
{
    struct data_sets *sets = set->client->data.sets;
    struct set_load_key key = { set->number, morsel };
    struct set_load *load = NULL;

    fresh = fresh && !set->sealed;
    if (!fresh) {
        HASH_FIND(hh, sets->loads, &key, sizeof(key), load);
    }
    if (load != NULL) {
        return load;
    }
    load = calloc(1, sizeof(*load));
    if (load == NULL) {
        return NULL;
    }
    load->key = key;
    load->client = set->client;
    load->set = set_ref(set);
    load->fresh = fresh;
    load->until_ms = set_deadline_ms(set);
    load->origin_from_ms = uv_now(set->client->loop) + ORIGIN_AFTER_MS;
    load->is_new = true;
    list_init(&load->node);
    list_init(&load->queue);
    list_init(&load->origin_node);
    list_init(&load->readers);
    if (!fresh) {
        HASH_ADD(hh, sets->loads, key, sizeof(load->key), load);
        load->listed = TABLE_ADDED(load);
    }
    list_push_back(&set->loads, &load->node);
    return load;
}

void set_load_begin(struct set_load *load)
{
    struct set_entry entry;

    load->retry_ms = 0;
    load->is_new = false;
    if (!load->fresh && set_map_get(&load->set->map, (uint32_t)load->key.morsel, &entry)) {
        with_entry(load, &entry);
    } else {
        ask(load);
    }
}

/* ---- Time passes ---- */

/* One is being asked, and takes long: another one may be quicker. */
static void hedge(struct set_load *load)
{
    struct set_choice other = next_copy(load);
    uint64_t now_ns = uv_hrtime();
    unsigned running = 0;

    if (other.copy >= load->entry.donor_count || load->asking) {
        return;
    }
    for (unsigned i = 0; i < SET_COPIES_MAX; i++) {
        const struct load_attempt *attempt = load->attempts[i];

        running += attempt != NULL;
        if (attempt != NULL &&
            !set_hedge_is_due(now_ns - attempt->began_ns, attempt->expected_ns, other.wait_ns)) {
            return;
        }
    }
    if (running > 0 && attempt_start(load, other) == 0) {
        load->tried[other.copy] = true;
        load->client->counters.set_reads_hedged++;
    }
}

void set_loads_leave(struct data_set *set)
{
    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(&set->loads)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) { /* One may end others. */
        struct set_load *load = LIST_ENTRY(node, struct set_load, node);

        list_push_back(&set->loads, node);
        unlist(load);
        if (!load->asking &&
            list_empty(&load->readers)) { /* A morsel that is being written may read it. */
            load_end(load, MORSEL_CANCELED);
        }
    }
}

void set_loads_tick(struct data_set *set, uint64_t now_ms)
{
    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(&set->loads)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) { /* One may end others. */
        struct set_load *load = LIST_ENTRY(node, struct set_load, node);

        list_push_back(&set->loads, node);
        if (load->retry_ms != 0 && now_ms >= load->retry_ms) {
            set_load_begin(load);
        } else {
            hedge(load);
        }
    }
}
