/* Fetches: bytes on their way from the servers, and there, for whoever reads them (fetch_uv.h). */
#include "client/data/fetch_uv.h"

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum { HEDGE_MS_MIN = 150, HEDGE_TIMES = 8 };
enum { SLOTS_MIN = 16, FETCH_CRCS_MAX = FETCH_BYTES_MAX / BLOCK_BYTES + 1 };

static int fetch_send(struct fetch *fetch);

/* ---- One fetch ---- */

void fetch_drop(struct fetch *fetch)
{
    struct file *file = fetch->file;

    CHECK(fetch->references > 0);
    if (--fetch->references > 0) {
        return;
    }
    CHECK(list_empty(&fetch->waiters) && list_empty(&fetch->node));
    file->client->data.fetches->bytes -= fetch->length;
    payload_drop(fetch->payload);
    free(fetch);
    file_unpin(file);
}

void fetch_unlist(struct fetch *fetch)
{
    if (!list_empty(&fetch->node)) {
        list_remove(&fetch->node);
        fetch->file->fetched.count--;
        fetch_drop(fetch);
    }
}

static void fetch_finish(struct fetch *fetch, int status)
{
    struct list *node;

    fetch->done = true;
    fetch->status = status;
    if (status != 0) {
        fetch_unlist(fetch); /* The next reader tries for itself. */
    }
    while ((node = list_pop_front(&fetch->waiters)) != NULL) {
        struct fetch_wait *wait = LIST_ENTRY(node, struct fetch_wait, node);

        wait->done(wait, status);
    }
    fetch_drop(fetch); /* The call's. */
}

static int check_bytes(const struct fetch *fetch, const struct rpc_reply *reply)
{
    Morsel__ReadReply *message = NULL;
    struct rpc_room room;
    size_t count = reply->payload == NULL ? 0 : reply->payload->count;
    uint32_t pieces = crc32c_pieces(fetch->run.object_offset, count);
    uint32_t crcs[FETCH_CRCS_MAX];
    int rv = rpc_unpack_in(&room, &morsel__read_reply__descriptor, reply->body, reply->body_count,
                           (void **)&message);

    if (rv != 0) {
        return rv;
    }
    rv = MORSEL_MALFORMED;
    if (count <= fetch->length && message->crcs.len == pieces * sizeof(crcs[0])) {
        if (count > 0) {
            crc32c_of_pieces(fetch->run.object_offset, reply->payload->data, count, crcs);
        }
        rv = pieces == 0 || memcmp(crcs, message->crcs.data, message->crcs.len) == 0
                 ? MORSEL_OK
                 : MORSEL_CHECKSUM;
    }
    rpc_room_free(&room, message);
    return rv;
}

/* Of fetches that others wait behind; a mean over the last ones. */
static void note_fetch_time(const struct fetch *fetch)
{
    struct fetches *fetches = fetch->file->client->data.fetches;
    uint64_t took_ns = uv_hrtime() - fetch->started_ns;

    fetches->time_ns = fetches->time_ns == 0 ? took_ns : (7 * fetches->time_ns + took_ns) / 8;
}

/* ---- All members ---- */

/* Who orders is asked for all of an object, so that others may be read. */
struct settling
{
    struct column_call call;
    struct file *file;
};

static void on_settled(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct settling *s = call->data;
    struct file *file = s->file;

    (void)status;
    (void)reply;
    free(s);
    file_unpin(file);
}

/* Without memory, and when nobody can be asked, all is read of who orders. */
static void settle(struct file *file, uint32_t column)
{
    struct settling *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return;
    }
    s->file = file;
    s->call.columns = &file->columns;
    s->call.column = column;
    s->call.data = s;
    if (column_settle(&s->call, on_settled) != 0) {
        free(s);
        return;
    }
    file_pin(file);
}

/* The reference is the fetch's. */
static void take_bytes(struct fetch *fetch, struct payload *payload, size_t from, size_t count)
{
    fetch->payload = payload;
    fetch->bytes = payload == NULL ? NULL : payload->data + from;
    fetch->bytes_count = payload == NULL ? 0 : count;
}

static void on_fetched(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct fetch *fetch = call->data;
    struct file *file = fetch->file;

    if (status == 0 && !column_is_current(call)) {
        fetch->kind = COLUMN_READ_PRIMARY; /* The lease went, or we have changed something. */
        status = fetch_send(fetch);
        if (status == 0) {
            return;
        }
    }
    if (status == 0) {
        status = check_bytes(fetch, reply);
        if (status == MORSEL_CHECKSUM && !fetch->retried) {
            /* Damaged on the way, perhaps: the server verified what it sent. */
            log_warning(file->client->options.log,
                        "inode %lu: bytes at %lu came damaged from %s; asking again",
                        (unsigned long)file->inode, (unsigned long)fetch->offset,
                        column_address(call));
            fetch->retried = true;
            if (fetch_send(fetch) == 0) {
                return;
            }
        }
    }
    if (status == 0) {
        note_fetch_time(fetch);
        take_bytes(fetch, reply->payload, 0, reply->payload == NULL ? 0 : reply->payload->count);
        reply->payload = NULL;
    } else if (status != MORSEL_CANCELED) {
        log_error(file->client->options.log,
                  "inode %lu: cannot read %lu bytes at %lu from server %u (%s): %s",
                  (unsigned long)file->inode, (unsigned long)fetch->length,
                  (unsigned long)fetch->offset, file_server(file, fetch->run.column),
                  column_address(call), column_why(status, reply));
    }
    fetch_finish(fetch, status);
}

/* Longer than most take, where all members of a group may be asked. */
static uint64_t hedge_ms(const struct client *client)
{
    uint64_t often_ms = HEDGE_TIMES * fetches_time_ns(client) / 1000000;

    return often_ms > HEDGE_MS_MIN ? often_ms : HEDGE_MS_MIN;
}

static void on_set_fetched(struct set_read *read, int status)
{
    struct fetch *fetch = CONTAINER_OF(read, struct fetch, set_read);

    if (status == 0) {
        take_bytes(fetch, read->payload, read->payload_offset, read->count);
    }
    if (status == MORSEL_STALE) {
        file_lose_place(fetch->file); /* Who reads asks where it is. */
    }
    fetch_finish(fetch, status);
}

void fetch_cancel(struct fetch *fetch)
{
    if (file_is_scavenged(fetch->file)) {
        set_read_cancel(&fetch->set_read);
    } else {
        column_cancel(&fetch->call);
    }
}

static int fetch_send(struct fetch *fetch)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;
    Morsel__ObjectId object = column_object(&fetch->file->columns, fetch->run.column);

    request.object = &object;
    request.offset = fetch->run.object_offset;
    request.length = (uint32_t)fetch->length;
    if (fetch->kind == COLUMN_READ_ANY &&
        column_wants_settle(&fetch->file->columns, fetch->run.column)) {
        settle(fetch->file, fetch->run.column);
    }
    request.settled = fetch->kind == COLUMN_READ_ANY &&
                      column_is_settled(&fetch->file->columns, fetch->run.column);
    fetch->call.offset = fetch->run.object_offset;
    fetch->call.hedge_ms = hedge_ms(fetch->file->client);
    fetch->call.columns = &fetch->file->columns;
    fetch->call.column = fetch->run.column;
    fetch->call.data = fetch;
    fetch->call.fetches = (uint32_t)fetch->length;
    return column_start(&fetch->call, fetch->kind, MSG_READ, &request.base, NULL, on_fetched);
}

struct fetch *fetch_new(struct file *file, enum column_kind kind, uint64_t offset, uint64_t length,
                        int *status)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    bool at_once;

    *status = MORSEL_NOMEM;
    if (fetch == NULL) {
        return NULL;
    }
    list_init(&fetch->node);
    list_init(&fetch->waiters);
    fetch->file = file;
    fetch->kind = kind;
    fetch->offset = offset;
    fetch->length = length;
    fetch->run = stripe_run_at(file_stripe(file), offset, length);
    CHECK(fetch->run.length == length);
    fetch->references = 2; /* The caller's and the call's. */
    fetch->started_ns = uv_hrtime();
    *status = file_is_scavenged(file) ? scavenged_fetch(fetch, on_set_fetched) : fetch_send(fetch);
    at_once = file_is_scavenged(file) && *status == MORSEL_OK;
    *status = *status == MORSEL_AGAIN ? MORSEL_OK : *status;
    if (*status != 0) {
        free(fetch);
        return NULL;
    }
    file->client->data.fetches->bytes += length;
    file_pin(file);
    if (at_once) {
        on_set_fetched(&fetch->set_read, MORSEL_OK);
    }
    return fetch;
}

struct rpc_peer *file_peer_at(const struct file *file, uint64_t offset)
{
    struct stripe_run run = stripe_run_at(file_stripe(file), offset, 1);

    return column_read_peer(&file->columns, run.column, run.object_offset);
}

/* On which grid to fetch around `offset`: a morsel, or less where the link would take long for it.
 * A power of two. */
static uint64_t fetch_bytes(const struct file *file, uint64_t offset)
{
    uint64_t bytes = file_stripe(file)->morsel_bytes;
    struct rpc_peer *peer = file_peer_at(file, offset);

    if (file_is_scavenged(file) && bytes > SET_PIECE_BYTES) {
        bytes = SET_PIECE_BYTES;
    }
    while (peer != NULL && bytes > FETCH_BYTES_MIN && bytes > rpc_peer_fetch_bytes(peer)) {
        bytes /= 2;
    }
    return bytes;
}

uint64_t fetch_end(const struct file *file, uint64_t from, uint64_t to)
{
    struct stripe_run run = stripe_run_at(file_stripe(file), from, to - from);
    uint64_t step = fetch_bytes(file, from), end = from - from % step + step;

    return from + run.length < end ? from + run.length : end;
}

/* ---- Slots: fetches on a grid, for sequential readers ---- */

static uint64_t slot_bytes_max(const struct file *file)
{
    return file_stripe(file)->morsel_bytes < FETCH_BYTES_MAX ? file_stripe(file)->morsel_bytes
                                                             : FETCH_BYTES_MAX;
}

static uint64_t slot_bytes(const struct file *file, uint64_t offset)
{
    uint64_t bytes = fetch_bytes(file, offset);

    return bytes < FETCH_BYTES_MAX ? bytes : FETCH_BYTES_MAX;
}

/* Twice as much as is fetched ahead: what is ahead of one reader, and what another one has not finished. */
static unsigned slots_max(const struct file *file)
{
    return SLOTS_MIN + (unsigned)(2 * (uint64_t)file_ahead_bytes(file) / slot_bytes_max(file));
}

struct fetch *fetch_find(struct file *file, uint64_t offset)
{
    LIST_FOREACH(node, &file->fetched.slots)
    {
        struct fetch *fetch = LIST_ENTRY(node, struct fetch, node);

        if (offset >= fetch->offset && offset < fetch->offset + fetch->length) {
            return fetch;
        }
    }
    return NULL;
}

struct fetch *fetch_add(struct file *file, uint64_t start, uint64_t end, bool ahead, int *status)
{
    struct fetch *fetch;

    while (file->fetched.count >= slots_max(file)) {
        fetch_unlist(LIST_ENTRY(list_front(&file->fetched.slots), struct fetch, node));
    }
    fetch = fetch_new(file, COLUMN_READ_ANY, start, end - start, status);
    if (fetch != NULL) {
        fetch->ahead = ahead;
        list_push_back(&file->fetched.slots,
                       &fetch->node); /* The caller's reference becomes the list's. */
        file->fetched.count++;
        file->client->counters.reads_fetched_ahead += ahead;
    }
    return fetch;
}

struct fetch *fetch_get(struct file *file, uint64_t offset, bool ahead, int *status)
{
    uint64_t bytes = slot_bytes(file, offset), start = offset / bytes * bytes;
    uint64_t end = start + bytes;
    struct fetch *fetch = fetch_find(file, offset);

    if (fetch != NULL) {
        return fetch;
    }
    if (end > file_size(file)) {
        end = file_size(file);
    }
    CHECK(offset < end);
    *status = MORSEL_AGAIN;
    if (file_range_is_dirty(file, start, end - start)) {
        return NULL;
    }
    return fetch_add(file, start, end, ahead, status);
}

void file_forget(struct file *file, uint64_t offset, uint64_t length)
{
    file_pin(file);
    if (file_is_scavenged(file) && offset == 0 && length == UINT64_MAX) {
        data_set_forget(file->set);
    }
    LIST_FOREACH_SAFE(node, &file->fetched.slots)
    {
        struct fetch *fetch = LIST_ENTRY(node, struct fetch, node);

        if (length == UINT64_MAX ||
            (fetch->offset < offset + length && offset < fetch->offset + fetch->length)) {
            fetch_unlist(fetch);
        }
    }
    file_unpin_and_leave(file); /* The caller may be freeing the file. */
}

/* ---- Of all files ---- */

uint64_t fetches_bytes(const struct client *client)
{
    return client->data.fetches->bytes;
}

uint64_t fetches_time_ns(const struct client *client)
{
    return client->data.fetches->time_ns;
}

int fetches_open(struct client *client)
{
    client->data.fetches = calloc(1, sizeof(*client->data.fetches));
    if (client->data.fetches == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&client->data.fetches->room_waiting);
    return MORSEL_OK;
}

void fetches_close(struct client *client)
{
    free(client->data.fetches);
}
