/* Writing to an open file, as pwrite(2) and an appending write(2) do: for the mount, and for
 * whoever else has a handle.
 *
 *   file_write_start -> [size lock -> [size]] -> room in the buffer -> [servers, manager] -> done
 *
 * A file that is ours (our W lease covers it) takes the bytes into its write buffer, and that is
 * all: they go out later, and the next write, flush or sync of the handle tells what became of them.
 * To a file that others may be reading or writing (file_is_shared()) every write goes under the size lock,
 * which is kept for a moment (size_lock_uv.h), and ends when the servers have the bytes and the manager
 * the size: who looks then, on any mount, sees it.
 *
 * Append. The bytes go behind the last byte of the file, wherever that is when the write has its
 * size lock, and in one piece: no other append and no truncation comes between, and whoever dies in
 * the middle leaves no hole. The offset says only where the caller believes that end to be. A
 * caller that must cut one append in several (the kernel does, at 1 MiB) says with each but the
 * last that more may come: then the place is kept for it (append_uv.h).
 *
 * Order. Writes through one handle take effect in the order in which they were started, as far as
 * they overlap, unless the file is shared: then in that of their size locks. What a write that has ended
 * brought is seen by every read that begins behind it.
 */
#ifndef MORSEL_CLIENT_DATA_WRITE_UV_H
#define MORSEL_CLIENT_DATA_WRITE_UV_H

#include "client/coherence/size_lock_uv.h"
#include "client/data/append_uv.h"
#include "client/data/file_uv.h"
#include "client/data/size_uv.h"

enum file_write_state { FILE_WRITE_ENDS, FILE_WRITE_TURN, FILE_WRITE_SIZE, FILE_WRITE_ROOM };

struct file_write
{
    /* The caller's, set before the start: */
    struct handle *handle;
    const uint8_t *bytes; /* They, and the reference to `holder`, are the caller's, and must stay */
    size_t length;        /* as they are until `done`. */
    struct payload *holder; /* In which the bytes lie: kept instead of copied when that pays. NULL:
                               they are copied. */
    uint64_t offset;        /* From `done` on: where they lie. */
    int64_t thread;         /* Who writes: pieces of one append come from the same. */
    bool append;            /* Behind the end. */
    bool more;              /* To append: another piece of the same may come behind it. */
    bool written_back;      /* No program's write, but of pages that one has changed some time. */
    bool strips_ids;        /* Whoever writes may not keep set-id bits: they go with it. */

    /* The module's own. */
    enum file_write_state state; /* What it waits for; what it is at then cannot be given up. */
    bool reaches;                /* Behind an end beyond which there may be bytes. */
    bool placed;                 /* It was asked where the file lies. */
    struct size_lock size_lock;
    struct size_ask ask;
    struct file_write_wait wait;
    struct file_flush flush;
    struct append_who next; /* To append: the piece that may come behind this one. */
    struct append *kept;    /* Since the one before. */
    void (*done)(struct file_write *write, int status);
};

/* Write. What is not the caller's is zeroed. `done` runs once, perhaps before this returns: with
 * status 0 all bytes are taken (of a shared file: are where everybody sees them), otherwise none
 * are, or, of a shared file, perhaps some: an error that an earlier write of the handle met, told
 * now; MORSEL_FBIG; file_astray(); MORSEL_TOO_LATE (the size lock was lost: the file may be others' now); MORSEL_NOMEM;
 * MORSEL_NOLCK; MORSEL_CANCELED; of a shared file what servers and manager said. Waits for ever
 * while the buffer is full and its errors take their time (io_timeout). */
void file_write_start(struct file_write *write, void (*done)(struct file_write *write, int status));

/* The writer does not wait any more: if it has not begun to take the bytes, none are, and `done`
 * runs with MORSEL_CANCELED, soon or before this returns. Otherwise nothing happens. */
void file_write_cancel(struct file_write *write);

#endif
