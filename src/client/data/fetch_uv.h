/* Fetches: bytes on their way from the servers, shared by readers and made ahead of them.
 *
 * Sequential readers fetch on a grid, and what they fetch is kept in file->fetched.slots, oldest first,
 * until it was read or something drops it (file_forget()). Two files: fetch_uv.c (one fetch, and the
 * slots), fetch_ahead_uv.c (what nobody waits for yet). What programs ask for is put together from
 * fetches in read_uv.c.
 */
#ifndef MORSEL_CLIENT_DATA_FETCH_UV_H
#define MORSEL_CLIENT_DATA_FETCH_UV_H

#include "client/data/file_uv.h"

enum {
    FETCH_BYTES_MAX = 1 << 20, /* On the grid, and of one read */
    FETCH_BYTES_MIN = 16 << 10 /* However slow the link */
};

/* Of all files; for fetch_uv.c and fetch_ahead_uv.c only. */
struct fetches
{
    uint64_t bytes;           /* In fetches. */
    uint64_t time_ns;         /* How long one takes; 0: not known. */
    struct list room_waiting; /* struct handle: what is fetched ahead for it finds no room now. */
};

/* client->data.fetches. MORSEL_NOMEM. */
int fetches_open(struct client *client);
void fetches_close(struct client *client);

/* In fetches now; and how long one takes, 0: not known. */
uint64_t fetches_bytes(const struct client *client);
uint64_t fetches_time_ns(const struct client *client);

/* Bytes fetched, or on their way. */
struct fetch
{
    struct list node; /* In file->fetched.slots while it may serve other readers. */
    struct file *file;
    uint64_t offset, length; /* In the file. */
    struct stripe_run run;
    struct payload *payload; /* NULL until it is there, */
    const uint8_t *bytes;    /* and in it these; may be short: the rest is zeros. */
    size_t bytes_count;
    int status;
    bool done, retried;
    uint64_t started_ns;
    bool ahead;    /* Fetched for later. */
    uint64_t used; /* Bytes handed to readers. */
    unsigned references;
    struct list waiters; /* struct fetch_wait */
    enum column_kind kind;
    struct column_call call;
    struct set_read set_read; /* In its place, of a scavenged file. */
};

/* Whoever waits for the end of a fetch; on its list until `done` runs. */
struct fetch_wait
{
    struct list node;
    void (*done)(struct fetch_wait *wait, int status);
};

/* ---- fetch_uv.c ---- */

/* The server that has the byte; NULL: not known yet. */
struct rpc_peer *file_peer_at(const struct file *file, uint64_t offset);

/* Start to fetch [offset, offset + length), which lies in one stripe, with a COLUMN_READ_. With one
 * reference for the caller; NULL: *status says why. */
struct fetch *fetch_new(struct file *file, enum column_kind kind, uint64_t offset, uint64_t length,
                        int *status);

/* One reference less. */
void fetch_drop(struct fetch *fetch);

/* Nobody waits for it any more: it ends with MORSEL_CANCELED, now or later. */
void fetch_cancel(struct fetch *fetch);

/* No later reader shall find it. */
void fetch_unlist(struct fetch *fetch);

/* How far a fetch may go that begins at `from`: one morsel of one server at most. */
uint64_t fetch_end(const struct file *file, uint64_t from, uint64_t to);

/* The slot that holds `offset`; NULL: none does. */
struct fetch *fetch_find(struct file *file, uint64_t offset);

/* Fetch [start, end) for whoever reads it; it lies in one morsel. `ahead`: nobody asks for it yet.
 * The file's list has the reference. NULL: *status says why. */
struct fetch *fetch_add(struct file *file, uint64_t start, uint64_t end, bool ahead, int *status);

/* The slot that holds `offset`, fetched if need be. NULL: *status says why; MORSEL_AGAIN: bytes of
 * the slot are on their way to the server, and what is fetched now could not be kept. */
struct fetch *fetch_get(struct file *file, uint64_t offset, bool ahead, int *status);

/* ---- fetch_ahead_uv.c ---- */

/* Fetch what is advised for a reader that has asked for `length` bytes, as far as the links to the
 * servers take it; the rest of a sequential reader's when they take something again. */
void fetch_ahead(struct handle *handle, const struct read_ahead_advice *advice, uint32_t length);

/* The link to `peer` takes something again: handles that wait for room have their turn. */
void fetch_room_made(struct client *client, struct rpc_peer *peer);

/* ---- Of scavenged files (scavenged_uv.c) ---- */

/* As column_start() with a READ for this fetch, of which `done` hears. MORSEL_AGAIN: it is under way; 0: it is there. */
int scavenged_fetch(struct fetch *fetch, void (*done)(struct set_read *read, int status));

#endif
