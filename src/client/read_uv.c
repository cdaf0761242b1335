/* Reading: fetches from the servers, shared by readers and made ahead of them. */
#include "client/file_uv.h"

#include "common/crc32c.h"
#include "common/status.h"
#include "data.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum {
    SLOT_BYTES_MAX = 1 << 20,
    SLOTS_MIN = 16,
    FETCH_CRCS_MAX = SLOT_BYTES_MAX / BLOCK_BYTES + 1
};

static const uint8_t zeros[SLOT_BYTES_MAX];

static int fetch_send(struct fetch *fetch);

/* ---- Fetches ---- */

static void fetch_drop(struct fetch *fetch)
{
    struct file *file = fetch->file;

    CHECK(fetch->references > 0);
    if (--fetch->references > 0) {
        return;
    }
    CHECK(list_empty(&fetch->waiters) && list_empty(&fetch->node));
    file->client->fetched_bytes -= fetch->length;
    payload_drop(fetch->payload);
    free(fetch);
    file_unpin(file);
}

/* No later reader shall find it. */
static void fetch_unlist(struct fetch *fetch)
{
    if (!list_empty(&fetch->node)) {
        list_remove(&fetch->node);
        fetch->file->slots_count--;
        fetch_drop(fetch);
    }
}

static void read_part_done(struct file_read *read, int status)
{
    if (status != 0 && read->status == 0) {
        read->status = status;
    }
    CHECK(read->missing > 0);
    if (--read->missing == 0) {
        read->done(read, read->status);
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
        read_part_done(LIST_ENTRY(node, struct file_read_part, node)->read, status);
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
    struct client *client = fetch->file->client;
    uint64_t took_ns = uv_hrtime() - fetch->started_ns;

    client->fetch_ns = client->fetch_ns == 0 ? took_ns : (7 * client->fetch_ns + took_ns) / 8;
}

static void on_fetched(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fetch *fetch = call->data;
    struct file *file = fetch->file;
    const char *text = reply->text;

    if (status == 0) {
        status = check_bytes(fetch, reply);
        if (status == MORSEL_CHECKSUM && !fetch->retried) {
            /* Damaged on the way, perhaps: the server verified what it sent. */
            log_warning(file->client->options.log,
                        "inode %lu: bytes at %lu came damaged from %s; asking again",
                        (unsigned long)file->inode, (unsigned long)fetch->offset,
                        rpc_peer_address(call->peer));
            fetch->retried = true;
            if (fetch_send(fetch) == 0) {
                return;
            }
        }
    }
    if (status == 0) {
        note_fetch_time(fetch);
        fetch->payload = reply->payload;
        reply->payload = NULL;
    } else if (status != MORSEL_CANCELED) {
        log_error(file->client->options.log,
                  "inode %lu: cannot read %lu bytes at %lu from server %u (%s): %s",
                  (unsigned long)file->inode, (unsigned long)fetch->length,
                  (unsigned long)fetch->offset, file->servers[fetch->run.column],
                  rpc_peer_address(call->peer), text[0] != '\0' ? text : status_words(status));
    }
    fetch_finish(fetch, status);
}

static int fetch_send(struct fetch *fetch)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    struct file *file = fetch->file;
    struct rpc_peer *peer = client_peer(file->client, file->servers[fetch->run.column]);

    if (peer == NULL) {
        return MORSEL_UNREACHABLE;
    }
    object.inode = file->inode;
    object.column = fetch->run.column;
    request.object = &object;
    request.offset = fetch->run.object_offset;
    request.length = (uint32_t)fetch->length;
    fetch->call.data = fetch;
    fetch->call.fetches = (uint32_t)fetch->length;
    return rpc_call_start(&fetch->call, peer, MSG_READ, &request.base, NULL, 0,
                          file->client->options.io_timeout_ms, on_fetched);
}

/* Start to fetch [offset, offset + length), which lies in one stripe. With one reference for the
 * caller; NULL: *status says why. */
static struct fetch *fetch_new(struct file *file, uint64_t offset, uint64_t length, int *status)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));

    *status = MORSEL_NOMEM;
    if (fetch == NULL) {
        return NULL;
    }
    list_init(&fetch->node);
    list_init(&fetch->waiters);
    fetch->file = file;
    fetch->offset = offset;
    fetch->length = length;
    fetch->run = stripe_run_at(&file->stripe, offset, length);
    CHECK(fetch->run.length == length);
    fetch->references = 2; /* The caller's and the call's. */
    fetch->started_ns = uv_hrtime();
    *status = fetch_send(fetch);
    if (*status != 0) {
        free(fetch);
        return NULL;
    }
    file->client->fetched_bytes += length;
    file_pin(file);
    return fetch;
}

/* The server that has the byte; NULL: not known yet. */
static struct rpc_peer *peer_at(const struct file *file, uint64_t offset)
{
    return client_peer(file->client, file->servers[stripe_run_at(&file->stripe, offset, 1).column]);
}

/* On which grid to fetch around `offset`: a morsel, or less where the link would take long for it.
 * A power of two. */
static uint64_t fetch_bytes(const struct file *file, uint64_t offset)
{
    uint64_t bytes = file->stripe.morsel_bytes;
    struct rpc_peer *peer = peer_at(file, offset);

    while (peer != NULL && bytes > FILE_FETCH_BYTES_MIN && bytes > rpc_peer_fetch_bytes(peer)) {
        bytes /= 2;
    }
    return bytes;
}

/* How far a fetch may go that begins at `from`: one morsel of one server at most. */
static uint64_t fetch_end(const struct file *file, uint64_t from, uint64_t to)
{
    struct stripe_run run = stripe_run_at(&file->stripe, from, to - from);
    uint64_t step = fetch_bytes(file, from), end = from - from % step + step;

    return from + run.length < end ? from + run.length : end;
}

/* ---- Slots: fetches on a grid, for sequential readers ---- */

static uint64_t slot_bytes_max(const struct file *file)
{
    return file->stripe.morsel_bytes < SLOT_BYTES_MAX ? file->stripe.morsel_bytes : SLOT_BYTES_MAX;
}

static uint64_t slot_bytes(const struct file *file, uint64_t offset)
{
    uint64_t bytes = fetch_bytes(file, offset);

    return bytes < SLOT_BYTES_MAX ? bytes : SLOT_BYTES_MAX;
}

static bool is_dirty(const struct file *file, uint64_t offset, uint64_t length)
{
    LIST_FOREACH(node, &file->chunks)
    {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, node);

        if (chunk->offset < offset + length && offset < chunk->offset + chunk->length) {
            return true;
        }
    }
    return false;
}

/* Twice the window: what is ahead of one reader, and what another one has not finished. */
static unsigned slots_max(const struct file *file)
{
    return SLOTS_MIN +
           (unsigned)(2 * file->client->options.read_ahead_bytes / slot_bytes_max(file));
}

static struct fetch *slot_find(struct file *file, uint64_t offset)
{
    LIST_FOREACH(node, &file->slots)
    {
        struct fetch *fetch = LIST_ENTRY(node, struct fetch, node);

        if (offset >= fetch->offset && offset < fetch->offset + fetch->length) {
            return fetch;
        }
    }
    return NULL;
}

/* Fetch [start, end) for whoever reads it; it lies in one morsel. NULL: *status says why. */
static struct fetch *slot_add(struct file *file, uint64_t start, uint64_t end, bool ahead,
                              int *status)
{
    struct fetch *fetch;

    while (file->slots_count >= slots_max(file)) {
        fetch_unlist(LIST_ENTRY(list_front(&file->slots), struct fetch, node));
    }
    fetch = fetch_new(file, start, end - start, status);
    if (fetch != NULL) {
        fetch->ahead = ahead;
        list_push_back(&file->slots, &fetch->node); /* The caller's reference becomes the list's. */
        file->slots_count++;
        file->client->counters.reads_fetched_ahead += ahead;
    }
    return fetch;
}

/* The slot that holds `offset`, fetched if need be. NULL: *status says why; MORSEL_AGAIN: bytes of
 * the slot are on their way to the server, and what is fetched now could not be kept. */
static struct fetch *slot_get(struct file *file, uint64_t offset, bool ahead, int *status)
{
    uint64_t bytes = slot_bytes(file, offset), start = offset / bytes * bytes;
    uint64_t end = start + bytes;
    struct fetch *fetch = slot_find(file, offset);

    if (fetch != NULL) {
        return fetch;
    }
    if (end > file->size) {
        end = file->size;
    }
    CHECK(offset < end);
    *status = MORSEL_AGAIN;
    if (is_dirty(file, start, end - start)) {
        return NULL;
    }
    return slot_add(file, start, end, ahead, status);
}

void file_forget(struct file *file, uint64_t offset, uint64_t length)
{
    file_pin(file);
    LIST_FOREACH_SAFE(node, &file->slots)
    {
        struct fetch *fetch = LIST_ENTRY(node, struct fetch, node);

        if (length == UINT64_MAX ||
            (fetch->offset < offset + length && offset < fetch->offset + fetch->length)) {
            fetch_unlist(fetch);
        }
    }
    CHECK(file->pins > 0);
    file->pins--; /* Not file_unpin(): the caller may be freeing the file. */
}

/* May more be fetched that nobody waits for? Not when the link has enough to do. */
static bool may_fetch_ahead(const struct file *file, uint64_t offset)
{
    struct rpc_peer *peer = peer_at(file, offset);

    return file->client->fetched_bytes <= CLIENT_FETCHED_BYTES_MAX &&
           (peer == NULL || rpc_peer_has_fetch_room(peer));
}

/* Up to where that was done. */
static uint64_t fetch_ahead(struct file *file, uint64_t from, uint64_t to)
{
    uint64_t end = to < file->size ? to : file->size, at = from;
    int status;

    while (at < end) {
        struct fetch *fetch;

        if (slot_find(file, at) == NULL && !may_fetch_ahead(file, at)) {
            return at;
        }
        fetch = slot_get(file, at, true, &status);
        if (fetch == NULL) {
            return at; /* The reader will meet the error itself, if it lasts. */
        }
        at = fetch->offset + fetch->length;
    }
    return to;
}

/* One range of a strided reader, exactly: its neighbours are not wanted. */
static bool fetch_range(struct file *file, uint64_t from, uint64_t to)
{
    int status;

    while (from < to && slot_find(file, from) == NULL) {
        uint64_t end = fetch_end(file, from, to);

        if (!may_fetch_ahead(file, from) || is_dirty(file, from, end - from) ||
            slot_add(file, from, end, true, &status) == NULL) {
            return false;
        }
        from = end;
    }
    return true;
}

static void fetch_strided(struct file *file, const struct read_ahead_advice *advice,
                          uint32_t length)
{
    for (uint32_t i = 0; i < advice->count; i++) {
        uint64_t from = advice->first + (uint64_t)(advice->distance * (int64_t)i);
        uint64_t to = from + length < file->size ? from + length : file->size;

        if (from >= file->size || !fetch_range(file, from, to)) {
            return;
        }
    }
}

/* ---- Reads ---- */

/* `fetch` NULL: nothing of it is needed. */
static void add_part(struct file_read *read, struct fetch *fetch, uint64_t offset, uint32_t length)
{
    struct file_read_part *part = &read->parts[read->parts_count++];

    part->read = read;
    part->fetch = fetch;
    part->length = length;
    list_init(&part->node);
    if (fetch == NULL) {
        return;
    }
    fetch->references++;
    part->skip = offset - fetch->offset;
    if (!fetch->done) {
        list_push_back(&fetch->waiters, &part->node);
        read->missing++;
    }
}

/* Cut the request into parts that each lie in one fetch. */
static int make_parts(struct file_read *read, bool sequential)
{
    struct file *file = read->file;
    uint64_t offset = read->offset, end = read->offset + read->length;
    int status = MORSEL_OK;

    while (offset < end && read->parts_count < FILE_READ_PARTS_MAX) {
        struct fetch *fetch = slot_find(file, offset);
        uint64_t part_end = read_over_until(read, offset);
        bool own = false;

        if (part_end > offset) {
            add_part(read, NULL, offset, (uint32_t)(part_end - offset));
            offset = part_end;
            continue;
        }
        if (fetch == NULL && sequential) {
            fetch = slot_get(file, offset, false, &status);
        }
        if (fetch == NULL && (!sequential || status == MORSEL_AGAIN)) {
            part_end = fetch_end(file, offset, end);
            fetch = fetch_new(file, offset, part_end - offset, &status);
            own = true;
        }
        if (fetch == NULL) {
            return status;
        }
        part_end = fetch->offset + fetch->length < end ? fetch->offset + fetch->length : end;
        add_part(read, fetch, offset, (uint32_t)(part_end - offset));
        if (own) {
            fetch_drop(fetch); /* The part's reference is enough. */
        }
        offset = part_end;
    }
    return status;
}

static void clip(struct file_read *read)
{
    if (!read->direct) {
        read->size = read->file->size;
    }
    if (read->offset >= read->size) {
        read->length = 0;
    } else if (read->length > read->size - read->offset) {
        read->length = (uint32_t)(read->size - read->offset);
    }
}

static void read_go(struct file_read *read)
{
    struct file *file = read->file;
    struct read_ahead_advice advice = { .sequential = false };
    struct read_ahead_clock clock;
    int rv;

    clip(read);
    read->missing = 1; /* Let go below, so that `done` does not run in the middle. */
    if (read->length > 0) {
        if (read->direct) {
            file_forget(file, 0, UINT64_MAX);
        } else {
            clock.now_us = uv_hrtime() / 1000;
            clock.fetch_us = (uint32_t)(file->client->fetch_ns / 1000);
            advice = read_ahead_step(&read->handle->ahead, &clock, read->offset, read->length);
        }
        rv = make_parts(read, advice.sequential);
        if (rv != 0) {
            read->status = rv;
        } else if (advice.to > advice.from) {
            read_ahead_stopped(&read->handle->ahead, advice.to,
                               fetch_ahead(file, advice.from, advice.to));
        } else if (advice.count > 0) {
            fetch_strided(file, &advice, read->length);
        }
    }
    read_part_done(read, 0);
}

static void on_drained(struct file_drain *drain)
{
    read_go(CONTAINER_OF(drain, struct file_read, drain));
}

/* Of a file that is ours alone; the servers know better about others. */
static bool take_dirty(struct file_read *read)
{
    clip(read);
    return !read->direct && (read->length == 0 || read_over_take(read));
}

void file_read_start(struct file_read *read, struct handle *handle, uint64_t offset,
                     uint32_t length, const uint64_t *size,
                     void (*done)(struct file_read *read, int status))
{
    struct file *file = handle->file;

    CHECK(length <= SLOT_BYTES_MAX);
    memset(read, 0, offsetof(struct file_read, parts));
    read->file = file;
    read->handle = handle;
    read->offset = offset;
    read->length = length;
    read->direct = size != NULL;
    read->size = size != NULL ? *size : 0;
    read->done = done;
    file_pin(file);
    file->client->counters.reads++;
    read->drain.done = on_drained;
    list_init(&read->drain.node);
    if (is_dirty(file, offset, length) && !take_dirty(read) &&
        !file_drain(file, &read->drain, false)) {
        return; /* What was written here must be there first. */
    }
    read_go(read);
}

/* A fetch for which nobody waits is given up; who comes now begins another one. */
static void leave_fetch(struct file_read_part *part)
{
    struct fetch *fetch = part->fetch;

    list_remove(&part->node);
    if (list_empty(&fetch->waiters)) {
        rpc_call_cancel(&fetch->call);
        fetch_unlist(fetch); /* The part keeps it. */
    }
}

void file_read_cancel(struct file_read *read)
{
    unsigned left = 0;

    if (!list_empty(&read->drain.node)) {
        list_remove(&read->drain.node);
        read->missing = left = 1;
        read->length = 0;
    }
    for (unsigned i = 0; i < read->parts_count; i++) {
        if (!list_empty(&read->parts[i].node)) {
            leave_fetch(&read->parts[i]);
            left++;
        }
    }
    while (left-- > 0) {
        read_part_done(read, MORSEL_CANCELED); /* The last may free it. */
    }
}

/* How many bytes of the part the server had. */
static uint64_t part_has(const struct file_read_part *part)
{
    const struct payload *payload = part->fetch == NULL ? NULL : part->fetch->payload;
    uint64_t have =
        payload == NULL || payload->count <= part->skip ? 0 : payload->count - part->skip;

    return have > part->length ? part->length : have;
}

bool file_read_is_short(const struct file_read *read)
{
    for (unsigned i = 0; i < read->parts_count; i++) {
        if (part_has(&read->parts[i]) < read->parts[i].length) {
            return true;
        }
    }
    return false;
}

static unsigned gather_part(const struct file_read_part *part, struct iovec *iov)
{
    const struct payload *payload = part->fetch == NULL ? NULL : part->fetch->payload;
    uint64_t have = part_has(part);
    unsigned count = 0;

    if (have > 0) {
        iov[count++] = (struct iovec){ payload->data + part->skip, have };
    }
    if (have < part->length) {
        iov[count++] = (struct iovec){ (uint8_t *)(uintptr_t)zeros, part->length - have };
    }
    return count;
}

unsigned file_read_gather(const struct file_read *read, struct iovec *iov)
{
    unsigned count = 0;

    for (unsigned i = 0; i < read->parts_count; i++) {
        count += gather_part(&read->parts[i], iov + count);
    }
    return read->over != NULL ? read_over_gather(read, zeros, iov, count) : count;
}

void file_read_end(struct file_read *read)
{
    struct file *file = read->file;

    file->client->counters.read_bytes += read->length;
    for (unsigned i = 0; i < read->parts_count; i++) {
        struct file_read_part *part = &read->parts[i];

        list_remove(&part->node);
        if (part->fetch == NULL) {
            continue;
        }
        part->fetch->used += part->length;
        /* A sequential reader has been through it: make room for what comes. */
        if (part->fetch->used >= part->fetch->length) {
            fetch_unlist(part->fetch);
        }
        fetch_drop(part->fetch);
    }
    read_over_free(read);
    file_unpin(file);
}
