/* Fetching ahead of readers: read_ahead.h says what, the links to the servers when. */
#include "client/data/fetch_uv.h"
#include "client/data/stripe_heads.h"

enum { READ_LONG_BYTES = 128 << 10 };

/* May more be fetched that nobody waits for? Not when the link has enough to do. */
static bool may_fetch_ahead(const struct file *file, uint64_t offset)
{
    struct rpc_peer *peer = file_peer_at(file, offset);

    return file->client->data.fetches->bytes <= CLIENT_FETCHED_BYTES_MAX &&
           (peer == NULL || rpc_peer_has_fetch_room(peer));
}

/* Its next read may come long after the room: a program that is handed a MiB has something to do.
 */
static void wait_for_room(struct handle *handle)
{
    if (list_empty(&handle->room_node)) {
        list_push_back(&handle->file->client->data.fetches->room_waiting, &handle->room_node);
    }
}

/* Up to where that was done. */
static uint64_t fetch_range_ahead(struct handle *handle, uint64_t from, uint64_t to)
{
    struct file *file = handle->file;
    uint64_t end = to < file_size(file) ? to : file_size(file), at = from;
    int status;

    while (at < end) {
        struct fetch *fetch;

        if (fetch_find(file, at) == NULL && !may_fetch_ahead(file, at)) {
            wait_for_room(handle);
            return at;
        }
        fetch = fetch_get(file, at, true, &status);
        if (fetch == NULL) {
            return at; /* The reader will meet the error itself, if it lasts. */
        }
        at = fetch->offset + fetch->length;
    }
    return to;
}

/* What the windows of its streams have room for. */
static void fetch_streams(struct handle *handle)
{
    uint64_t from, to;

    for (unsigned i = 0; i < READ_AHEAD_STREAMS; i++) {
        if (read_ahead_left(&handle->ahead, i, &from, &to)) {
            read_ahead_reached(&handle->ahead, i, fetch_range_ahead(handle, from, to));
        }
    }
}

/* One range of a strided reader, exactly: its neighbours are not wanted. */
static bool fetch_range(struct file *file, uint64_t from, uint64_t to)
{
    int status;

    while (from < to && fetch_find(file, from) == NULL) {
        uint64_t end = fetch_end(file, from, to);

        if (!may_fetch_ahead(file, from) || file_range_is_dirty(file, from, end - from) ||
            fetch_add(file, from, end, true, &status) == NULL) {
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
        uint64_t to = from + length < file_size(file) ? from + length : file_size(file);

        if (from >= file_size(file) || !fetch_range(file, from, to)) {
            return;
        }
    }
}

/* Where a window that has begun to grow is short beside the stripes of benefactors, each of them gets something to do all the same: at once
 * with a reader who begins with so much that he is unlikely to want no more than that. */
static void fetch_heads(struct handle *handle, const struct read_ahead_advice *advice,
                        uint32_t length)
{
    struct file *file = handle->file;
    struct stripe_heads heads;

    if (!file_is_scavenged(file) ||
        (advice->window <= READ_AHEAD_FIRST_BYTES && length < READ_LONG_BYTES)) {
        return;
    }
    heads = stripe_heads(&file->dealt, advice->next, advice->window, advice->bound);
    for (uint32_t i = 0; i < heads.count; i++) {
        uint64_t from = heads.first + i * heads.distance;

        if (fetch_range_ahead(handle, from, from + heads.length) < from + heads.length) {
            return;
        }
    }
}

void fetch_ahead(struct handle *handle, const struct read_ahead_advice *advice, uint32_t length)
{
    if (advice->to > advice->from) {
        read_ahead_stopped(&handle->ahead, advice->to,
                           fetch_range_ahead(handle, advice->from, advice->to));
        fetch_heads(handle, advice, length);
    } else if (advice->count > 0) {
        fetch_strided(handle->file, advice, length);
    }
}

void fetch_room_made(struct client *client, struct rpc_peer *peer)
{
    struct list *waiting = &client->data.fetches->room_waiting, *last = waiting->prev;
    bool more = !list_empty(waiting);

    /* Those who find no room again queue up behind: each has its turn. */
    while (more && rpc_peer_has_fetch_room(peer)) {
        struct list *node = list_pop_front(waiting);
        struct handle *handle = LIST_ENTRY(node, struct handle, room_node);

        more = node != last;
        /* Of a file that others may change, nothing is kept for later. */
        if (!file_is_shared(handle->file) && !file_is_held(handle->file)) {
            fetch_streams(handle);
        }
    }
}
