/* Reading an open file, as pread(2) does: for the mount, and for whoever else has a handle.
 *
 *   file_read_start -> [size] -> bytes -> [size lock -> size -> bytes] -> done -> file_read_end
 *
 * Of a file that is ours (our lease covers what its handles do) what we know of its size is true:
 * bytes come from the write buffer, from what was fetched before or ahead, and from the servers.
 * Of a file that others may be changing (file_is_shared()) the manager is asked for the size first,
 * unless this mount has the size lock and knows it, then the servers for the bytes, and nothing is kept.
 * Bytes that are missing there within that size are a hole, or a truncation that somebody is
 * making, or the file has been moved and what was there is deleted (`morsel recopy`): so it is looked
 * again under the size lock, while which nobody truncates, or moves it. So it is where our lease went
 * while the bytes were on their way.
 *
 * Order. A read that begins when a write has ended, here or on another mount, has what that one
 * wrote. Reads and writes that overlap in time are in no order; of one read that meets one write,
 * parts may be older than others.
 */
#ifndef MORSEL_CLIENT_DATA_READ_UV_H
#define MORSEL_CLIENT_DATA_READ_UV_H

#include "client/coherence/size_lock_uv.h"
#include "client/data/fetch_uv.h"
#include "client/data/overlay.h"
#include "client/data/size_uv.h"

enum {
    FILE_READ_BYTES_MAX = 1 << 20,
    /* Not aligned, and one to spare; and on both sides of what is in the write buffer */
    FILE_READ_PARTS_MAX = FILE_READ_BYTES_MAX / FETCH_BYTES_MIN + 2 + 2 * OVERLAY_PIECES_MAX,
    FILE_READ_IOV_MAX = 2 * FILE_READ_PARTS_MAX + 2 * OVERLAY_PIECES_MAX + 1
};

enum file_read_state { FILE_READ_BYTES, FILE_READ_SIZE, FILE_READ_TURN };

struct file_read
{
    struct handle *handle;
    uint64_t offset;
    uint32_t length; /* From `done` on: how many bytes there are; fewer at the end of the file. */
    void (*done)(struct file_read *read, int status);

    /* The module's own, as all that follows. */
    struct file *file;
    enum file_read_state state; /* What it waits for. */
    uint32_t wanted;
    uint64_t size;
    uint64_t lease; /* Since when we had it, when the read began; 0: not at all. */
    bool shared;    /* Nothing that was fetched before serves it, and nothing is fetched ahead. */
    struct size_ask ask;
    struct size_lock size_lock;
    unsigned parts_count, missing;
    int status;
    struct overlay *over; /* NULL: nothing was in the write buffer. */
    struct file_drain drain;
    struct file_read_part
    {
        struct fetch_wait wait;
        struct file_read *read;
        struct fetch *fetch;
        uint64_t skip; /* Into the fetch. */
        uint32_t length;
    } parts[FILE_READ_PARTS_MAX]; /* Most are never used: they need not be zeroed. */
};

/* Read up to `length` (at most FILE_READ_BYTES_MAX) bytes at `offset`. `read` need not be zeroed; it
 * and the handle must stay until the end. `done` runs once, perhaps before this returns.
 *
 * With status 0 the bytes are file_read_gather()'s until file_read_end(), which is due then: they
 * lie in memory that reads share, and nobody may write there. Otherwise nothing is due:
 * MORSEL_UNREACHABLE or MORSEL_TIMEDOUT (a server, or the manager, cannot be had), MORSEL_CHECKSUM
 * (damaged twice), MORSEL_CANCELED, MORSEL_NOMEM, MORSEL_NOLCK, or what a server said. Part of a
 * read never succeeds. */
void file_read_start(struct file_read *read, struct handle *handle, uint64_t offset,
                     uint32_t length, void (*done)(struct file_read *read, int status));

/* The reader does not wait any more: `done` runs with MORSEL_CANCELED, soon or before this returns.
 * Others who wait for the same bytes get them. Harmless for one that has ended. */
void file_read_cancel(struct file_read *read);

/* The bytes as stretches of memory (zeros where nothing is stored). Returns the number of entries,
 * at most FILE_READ_IOV_MAX. */
unsigned file_read_gather(const struct file_read *read, struct iovec *iov);

/* The bytes are not needed any more, and the size lock, if it had to be taken, is let go. */
void file_read_end(struct file_read *read);

/* ---- For the module itself -------------------------------------------------------------------- */

/* read_uv.c: get what is wanted, clipped to the end of the file: `read->size` when it is shared.
 * read_bytes_done() runs once, perhaps before this returns; read_bytes_end() is due then, whatever
 * the status. */
void read_bytes_start(struct file_read *read);
void read_bytes_done(struct file_read *read, int status); /* read_start_uv.c */
void read_bytes_cancel(struct file_read *read);
void read_bytes_end(struct file_read *read);

/* Did the servers have less than was asked for? Those bytes read as zeros. */
bool read_bytes_are_short(const struct file_read *read);

/* Take what the write buffer has of the range (read_over_uv.c), which is not empty and not beyond
 * the end. False: no memory, or too many pieces. */
bool read_over_take(struct file_read *read);
void read_over_free(struct file_read *read);

/* Up to where, from `offset` on, the servers are not needed. */
uint64_t read_over_until(const struct file_read *read, uint64_t offset);

/* Put it over the bytes of the servers, which are `count` stretches that begin with the read;
 * returns how many there are now. */
unsigned read_over_gather(const struct file_read *read, const uint8_t *zeros, struct iovec *iov,
                          unsigned count);

#endif
