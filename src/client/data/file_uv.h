/* Open files: layout, size, dirty data, fetched data.
 *
 * One struct file per inode that this client has open, shared by all its handles. A file is found
 * by inode, counted by handles, and reported closed to the manager with its last handle.
 *
 * Writes are buffered: file_buffer() takes the bytes and returns. They go out as chunks, each inside
 * one stripe of one column: at once when a chunk is full, after FILE_CHUNK_AGE_MS otherwise, and
 * when something must see them (flush, sync, a read of the range, truncation). Two chunks that
 * overlap are never on their way together, so the last write wins. An error of a chunk is kept and
 * told by the next write, flush or sync of each handle, and in any case by its next sync, once.
 */
#ifndef MORSEL_CLIENT_DATA_FILE_UV_H
#define MORSEL_CLIENT_DATA_FILE_UV_H

#include "client/coherence/kernel_view.h"
#include "client/data/column_uv.h"
#include "client/data/read_ahead.h"
#include "client/data/report.h"
#include "client/data/unsynced.h"
#include "client/datasets/set_uv.h"
#include "client/libmorsel_uv.h"
#include "common/base/limits.h"

struct servers_wait;

enum {
    FILE_CHUNK_AGE_MS = 100,   /* Small writes wait this long for neighbours. */
    FILE_REPORT_AGE_MS = 1000, /* A new size is reported this soon. */
    FILE_CHUNKS_FILLING_MAX = 64,
    FILE_CHUNKS_SENDING_MAX = 64,
    FILE_STREAM_BYTES_MIN = 64 << 10, /* A write this long makes room for a whole chunk. */
    FILE_TAKE_BYTES_MIN = 256 << 10   /* Writes at least this long are taken without a copy. */
};

enum chunk_state { CHUNK_FILLING, CHUNK_READY, CHUNK_SENDING };

/* Dirty bytes inside one stripe of one column; or a truncation of all columns, from `offset` on. */
struct chunk
{
    struct list node; /* In file->buffer.chunks, oldest first. */
    struct file *file;
    enum chunk_state state;
    uint64_t offset; /* In the file. */
    uint64_t length;
    struct stripe_run run; /* Of the first byte; its length reaches to the end of the stripe. */
    struct payload *payload;
    size_t payload_offset;
    uint64_t born_ms;
    uint64_t refused_ms; /* When it came too late for the first time; 0: it has not. */
    uint64_t number;     /* Of the file's chunks, growing. */
    bool sync;   /* Somebody waits until it is durable: the server says so with its answer. */
    bool late;   /* It has waited behind something for the same server that got no answer. */
    bool shared; /* Others may write there at the same time: some of it was not taken under a lease.
                  */
    struct column_call call;
    struct set_write set_write; /* In its place, of a scavenged file. */
    struct range_op *range;     /* Not NULL: a truncation, which has no bytes (truncate_uv.c). */
};

struct handle
{
    struct file *file;
    struct list node;
    struct read_ahead ahead;
    struct list room_node; /* In fetches.room_waiting. */
    /* Of a buffered write: not told yet; not told by a close; not told by an fsync. What a write is told may not reach
     * its program, where the kernel has cut the write in several. */
    int error, close_error, sync_error;
    bool writable;
    bool lost; /* What was acknowledged may be lost (durable_uv.h): fsync is to say so. */
    unsigned
        watched_failures; /* Of the file, when the first watch of it began through this handle (watch_fuse.c). */
    bool internal; /* The client's own, which closes it itself (source_uv.h). */
    bool direct; /* What is read and written through it does not pass through the kernel's pages. */
};

/* Chunks on their way to the servers: chunk_uv.h, and those who make, read and send them. */
struct write_buffer
{
    struct list chunks; /* struct chunk, oldest first. */
    uint64_t dirty_bytes;
    uint64_t landed_bytes; /* Of chunks, ever: what a recall that takes its time tells. */
    unsigned filling, sending;
    uint64_t made;           /* Chunks, ever. */
    struct list room_node;   /* In write_buffers.room_waiting. */
    struct list writers;     /* struct file_write_wait: the buffer is full. */
    struct list drains;      /* struct file_drain, oldest first. */
    bool waking, wake_again; /* wake_writers() is at it, and has to begin again. */
};

/* How long the file is, and what the manager has to hear of that: file_uv.c, write_uv.c, flush_uv.c,
 * truncate_uv.c. */
struct file_shape
{
    uint64_t size;             /* Ours: the manager's, or more where we wrote. */
    struct file_report report; /* Of size and shape, to the manager. */
    struct list report_waits;  /* struct file_flush: for its end. */
    uint64_t mtime_ns;         /* Of our last write that is not reported, or set by hand since. */
    uint64_t ctime_ns;         /* Of that write. */
    uint64_t mtime_sets;       /* How often it was set by hand. */
    uint64_t reach;            /* Space was reserved up to here, perhaps beyond the size. */
    bool tail_unsure;          /* Objects may hold bytes beyond the size that nobody reported. */
    bool write_back;           /* Of what is dirty, some was answered under W: written back. */
};

/* What is on the disks of servers and manager: durable_uv.h, flush_uv.c. */
struct file_durable
{
    struct unsynced *unsynced; /* Columns that may not be on disk. */
    uint64_t data_version;     /* Of the bytes that it speaks of. */
    bool shape_synced;         /* The manager has it on its disk, with this size and shape. */
    bool listed;          /* The manager's record names columns that may have been synced since. */
    bool loss_unreported; /* Nobody has been told yet that bytes are lost. */
};

/* What the manager knows of its being open here: file_uv.c, opened_uv.c. */
struct file_opened
{
    bool reported;   /* The manager knows that it is open here. */
    bool counted;    /* It may count it as open from a time before. */
    bool reopening;  /* An OPEN asks for its lease. */
    bool freshening; /* What is mapped of it is about to be dropped. */
};

/* Each part is its owners', who look into it; others ask them, below. Who owns which is rule 16 of
 * tests/tidy.sh. `client` and `inode` are for all to read. */
struct file
{
    struct client *client;
    inode_id inode;
    UT_hash_handle hh; /* In files.table. */
    struct list handles;
    unsigned pins;       /* Operations under way. */
    unsigned lease_pins; /* Truncations, punches, copies under way: until they end no lease on it is
                            given back. */
    bool held;           /* file_hold() */
    struct columns columns;
    struct data_set *set; /* NULL: it is durable. */
    struct stripe dealt;  /* Likewise: to benefactors. */
    uint32_t place;       /* Where its columns are, as a number (placing.h). */
    bool place_doubted;   /* file_doubt_place() */
    struct file_shape shape;
    struct write_buffer buffer;
    struct file_durable durable;
    struct kernel_view kernel; /* What the kernel believes of it. */
    struct file_opened opened;
    struct file_failures
    {
        unsigned count; /* How often file_fail() has run, */
        int last;       /* and with which status last. */
    } failures;
    struct file_fetched
    {
        struct list slots; /* struct fetch (fetch_uv.h), oldest first. */
        unsigned count;
    } fetched;
    struct file_lists
    {
        struct list dirty;      /* In files.dirty. */
        struct list unreported; /* In files.unreported. */
        struct list unsure;     /* In files.unsure, pinned. */
    } lists;
};

/* client->data.files. `hooks` are those of all columns, and must stay. MORSEL_NOMEM. */
int files_open(struct client *client, const struct column_hooks *hooks);
void files_close(struct client *client);

uint32_t files_count(const struct client *client);

/* Each file that is open here; the body may close it, and no other. */
#define FILES_FOREACH(file, client)                                                                \
    for (struct file *file = files_first(client), *file##_next = files_next(file); file != NULL;   \
         file = file##_next, file##_next = files_next(file))
struct file *files_first(const struct client *client);
struct file *files_next(const struct file *file); /* NULL behind the last, and of NULL */

/* A file of which the manager does not know that it is open here: it is going to be told now.
 * NULL: there is none. */
struct file *files_pop_unreported(struct client *client);

/* The manager is being told that it is open. */
void file_note_open_reported(struct file *file);

/* It may count it as open from a time before. */
void file_note_counted(struct file *file);

/* There is something to be written or reported: the tick sees to it, whatever else fails. */
void file_note_dirty(struct file *file);
void file_note_clean(struct file *file); /* There is nothing any more. */

/* Every CLIENT_TICK_MS. What is dirty gets older; and what may have landed late has landed. */
void files_age(struct client *client, uint64_t now_ms);
void files_let_go_sure(struct client *client);

/* Is some handle open, and one for writing? */
bool file_has_handle(const struct file *file);
bool file_has_writer(const struct file *file);

/* One that is open for writing: who flushes through it hears what went wrong with what was written. NULL: none is. */
struct handle *file_writer(const struct file *file);

/* Is no other handle open for writing? */
bool file_is_last_writer(const struct handle *handle);

/* Where its bytes lie: how they are striped, and the server of a column. */
static inline const struct stripe *file_stripe(const struct file *file)
{
    return &file->columns.stripe;
}

static inline server_id file_server(const struct file *file, uint32_t column)
{
    return file->columns.servers[column];
}

/* 0: it has one copy. */
static inline group_number file_group(const struct file *file, uint32_t column)
{
    return file->columns.groups[column];
}

/* Does it have copies? */
static inline bool file_has_copies(const struct file *file)
{
    return file->columns.groups[0] != 0;
}

/* Do its bytes lie in morsels on benefactors? Then nothing of what is said here of servers is so. */
static inline bool file_is_scavenged(const struct file *file)
{
    return file->set != NULL;
}

/* How much is fetched ahead of a reader in order, and how much of that is its window (read_ahead.h). */
uint32_t file_ahead_bytes(const struct file *file);
uint32_t file_window(const struct file *file);

/* The manager's (Layout.class). */
static inline uint32_t file_layout_class(const struct file *file)
{
    return file->columns.layout_class;
}

/* Are all of its servers known? As client_know_servers(). */
bool file_know_servers(struct file *file, struct servers_wait *wait);

/* Is there room in its objects for a file of `size` bytes? */
static inline bool file_may_reach(const struct file *file, uint64_t size)
{
    return stripe_object_size(file_stripe(file), 0, size) <= OBJECT_BYTES_MAX;
}

/* How long it is for those who have it open here: of a shared file, as of the manager's last word. */
static inline uint64_t file_size(const struct file *file)
{
    return file->shape.size;
}

/* May objects hold bytes behind its end that nobody has reported? (file_clean_tail()) */
static inline bool file_is_tail_unsure(const struct file *file)
{
    return file->shape.tail_unsure;
}

/* Is the manager going to hear that it has holes, or space behind its end? */
static inline bool file_became_sparse(const struct file *file)
{
    return file->shape.report.news.sparse;
}

/* Is there something that the manager has not been told? And something that it is not known to
 * know: that, or it is being told. */
static inline bool file_has_news(const struct file *file)
{
    return report_has_news(&file->shape.report);
}

static inline bool file_is_unreported(const struct file *file)
{
    return file->shape.report.state != REPORT_CLEAN;
}

/* Of what is dirty, was some answered under W, and written back? */
static inline bool file_is_written_back(const struct file *file)
{
    return file->shape.write_back;
}

/* Has nothing been written to it, as far as we know, nor space been reserved? */
bool file_is_blank(const struct file *file);

/* Bytes that have come to the servers since it was opened: what a recall that takes its time
 * tells. */
static inline uint64_t file_landed_bytes(const struct file *file)
{
    return file->buffer.landed_bytes;
}

/* Is something of it dirty: bytes that the servers do not have, or a size and times that the manager
 * has not heard of? */
bool file_is_dirty(const struct file *file);

/* Some of what was dirty is so no more. When nothing is, what comes next may be written through: it
 * is no loss with a lease that was ours once. */
void file_note_landed(struct file *file);

/* All that was written under a lease that goes back is with the servers and the manager. What is dirty was written since, through. */
static inline void file_note_lease_flushed(struct file *file)
{
    file->shape.write_back = false;
}

/* A bounded call to a server, which changes the file, has ended. Where nobody knows whether it was
 * carried out, or still will be, then until its bound has passed no lease on the file goes back, no
 * size lock is let go, and the file stays open for the manager, which must not give others a lease. */
void file_note_end(struct file *file, int status);

/* Is it open for writing, as the manager is to count it: by a handle, or by what one has left? */
bool file_is_written(const struct file *file);

/* Does our lease not cover what its handles do? Then writes go through, and reads ask the manager
 * first. */
bool file_is_shared(const struct file *file);

/* client_lease_since() of a lease that does; 0: it is shared. */
uint64_t file_own_lease(const struct file *file);

/* Every handle that may have written is told `status`, once, by its next write, fsync or close; and
 * by its next fsync, whoever was told before. */
void file_fail(struct file *file, int status);

/* How often that has happened, and the `status` of the last time. */
unsigned file_failures(const struct file *file);
int file_last_failure(const struct file *file);

/* What was acknowledged may be lost: the next fsync of every handle says so, and that of the first
 * that is opened. */
void file_note_loss(struct file *file);

/* Dirty data cannot be written any more: its lease is lost. Every handle hears EIO, as with
 * file_fail(). */
void file_lose(struct file *file);

/* The file of an inode, or NULL when no handle is open. */
struct file *file_find(struct client *client, inode_id inode);

/* A handle for an inode that the manager has counted as open for us (`told`), or that our lease
 * lets us open. `attr` and `layout` are fresh. MORSEL_NOMEM, MORSEL_CORRUPT (a layout that makes no
 * sense). */
int file_open(struct client *client, const Morsel__Attr *attr, const Morsel__Layout *layout,
              bool writable, bool told, struct handle **handle_out);

/* Dirty data must have been flushed, or is lost. */
void file_close(struct handle *handle);

/* Keep the file while an operation runs. */
void file_pin(struct file *file);
void file_unpin(struct file *file);

/* As file_unpin(), but the file stays: for who may run while it is being freed. */
void file_unpin_and_leave(struct file *file);

/* Does an operation run? */
bool file_is_pinned(const struct file *file);

/* Truncations, punches, copies and appends that are under way: until they end no lease on the file
 * is given back. The last word is the caller's: lease_unpinned(). */
void file_pin_lease(struct file *file);
void file_unpin_lease(struct file *file);
bool file_is_lease_pinned(const struct file *file);

/* ---- Moving: common/fs/exchange.h ---- */

/* Nobody begins anything more on the file but who is behind this: the caller sees to what the kernel asks,
 * and nothing is fetched ahead. It stays, and so does its lease. The last word is the caller's, as for
 * file_unpin_lease(). */
void file_hold(struct file *file);
void file_let_go(struct file *file);
bool file_is_held(const struct file *file);

/* Of a file that is held: has all come to its end that was begun before? */
bool file_is_quiet(const struct file *file);

/* Is a change under way at a server now? */
bool file_is_changing(const struct file *file);

/* May something still land there, as file_note_end() knows? */
bool file_is_unsure(const struct file *file);

/* How many changes have been begun, and so on: when it is as before, none has. */
uint64_t file_changes(const struct file *file);

/* By which inode's number its objects are called. */
inode_id file_body(const struct file *file);

/* Of a file that is held and quiet: the manager says that it lies so. Otherwise than 0 it is as before:
 * MORSEL_NOMEM, MORSEL_CORRUPT. */
int file_move(struct file *file, const Morsel__Layout *layout);

/* ---- Astray ----
 *
 * While the manager does not hear us it forgets what is open here, and others may have the file copied into
 * another layout. What is known of where its bytes lie is wrong then: what is written there is lost, and what is
 * read is nothing. Whatever the manager says of the file tells (file_refresh()); until it has, nothing may be
 * asked of its servers. What is asked of them while it is astray is refused: MORSEL_STALE. */

/* Under no lease, the manager not having heard us for a while. */
void file_doubt_place(struct file *file);
bool file_is_place_doubted(const struct file *file);

/* Where it lies as far as we know, as a number (placing.h). */
uint32_t file_place(const struct file *file);

/* Does it lie elsewhere than we know? 0: no. Else what who asks for its bytes is told. */
int file_astray(const struct file *file);

/* Nobody knows: until file_find_place(). */
void file_lose_place(struct file *file);

/* Of a file that is held: nobody waits any more for the word of where it lies, which was asked for. What is asked of its
 * servers is refused (MORSEL_TIMEDOUT), whatever is heard of it, until it is moved, or let go: then it is astray. */
void file_give_up_place(struct file *file);

/* The manager says that it lies so. Nothing happens unless it was astray, and nothing of it is under way but for
 * the caller's one pin. */
void file_find_place(struct file *file, const Morsel__Layout *layout);

/* The manager's view of the file is newer than ours: take over its size unless we hold news of our
 * own. */
void file_refresh(struct file *file, const Morsel__Attr *attr);

/* Where the file ends for who asks here, when the manager says `attr`. */
uint64_t file_size_of(const struct file *file, const Morsel__Attr *attr);

/* The manager has made it this long, for us. */
void file_note_resized(struct file *file, uint64_t size);

/* Its time was set by hand: what is reported must not undo it. */
void file_note_mtime(struct file *file, uint64_t mtime_ns);

/* The kernel has been answered a change of the file, or told to drop what it holds of it: answers
 * to what it asked before it passes over. */
void file_note_kernel_changed(struct file *file);

/* Objects may hold bytes up to `end`, whatever becomes of the size. */
void file_note_reach(struct file *file, uint64_t end);

/* Objects may hold bytes beyond the size that nobody reported: they are cut off before the file grows. */
void file_doubt_tail(struct file *file);

/* What was written and not reported will not be; objects may hold it all the same, and how long the
 * file is others say. */
void file_drop_news(struct file *file);

/* Put our own news into what a stat is told, as far as it may be told. */
void file_overlay(const struct file *file, Morsel__Attr *attr);

/* ---- Writing (write_uv.c, chunk_uv.c, flush_uv.c) ---- */

struct file_write_wait
{
    struct list node;
    void (*go)(struct file_write_wait *wait); /* There is room, or an error to tell: try again. */
};

/* Take `length` bytes at `bytes` into the write buffer; `holder` (may be NULL) is the payload in
 * which they lie, kept instead of copied when that pays. MORSEL_AGAIN: the buffer is full, `wait` is
 * queued and `go` runs later. Others: an earlier error of this handle, told now; MORSEL_FBIG; or
 * MORSEL_NOMEM. What programs write comes by file_write_start() (write_uv.h). */
int file_buffer(struct handle *handle, uint64_t offset, const uint8_t *bytes, size_t length,
                struct payload *holder, struct file_write_wait *wait);

/* Is something in the write buffer, at all and of a range? */
bool file_has_chunks(const struct file *file);
bool file_range_is_dirty(const struct file *file, uint64_t offset, uint64_t length);

/* Wait until each chunk that there is now has ended: the servers have its bytes, or they are lost
 * and the handles hear of it. */
struct file_drain
{
    struct list node;
    uint64_t upto; /* Chunks made until then. */
    void (*done)(struct file_drain *drain);
};

/* True: there is none, or none any more, and `done` does not run. `sync`: what goes out now is
 * durable when it is answered. */
bool file_drain(struct file *file, struct file_drain *drain, bool sync);

/* Drain and report the size; with `durable` until everything is on disk. `handle` may be NULL; its
 * pending error is told through `status`. */
struct file_flush
{
    struct file *file;
    struct handle *handle;
    bool durable;
    bool reported;  /* The manager was told at the beginning, or need not be told. */
    bool closes;    /* For a close. */
    bool data_only; /* Durable: what is needed to read the data back, not times (fdatasync(2)). */
    bool behind; /* The report is sent, and not waited for: nobody else may look before the manager
                    has it. */
    int status;
    unsigned waiting;
    struct file_drain drain;
    struct list report_wait; /* In file->shape.report_waits. */
    struct meta_call report;
    struct report_news said; /* By the report. */
    uint64_t synced_size;
    uint64_t mtime_sets;       /* When its report was made: file_shape. */
    unsigned failures;         /* Of the file when the flush began. */
    struct column_call *syncs; /* One for each column. */
    int sync_status;           /* What the servers of `syncs` said. */
    bool named;                /* Its report names verifiers of what is not synced. */
    bool elsewhere;            /* Durable: the file lies elsewhere than what is synced here. */
    bool found;                /* So it was, was found, and is synced for the second time. */
    struct flush_look *look;   /* While it is being looked for. */
    struct set_sync set_sync;  /* In their place, of a scavenged file. */
    uint32_t listed_count;     /* Durable: what the manager's record says of the file. */
    struct file_listed
    {
        uint32_t column;
        uint64_t verifier;
    } * listed;
    void (*done)(struct file_flush *flush, int status);
    void *data;
};

/* `done` may run before this returns. With `done` NULL the flush frees itself. `behind`,
 * `closes` and `data_only` are set by the caller before. */
int file_flush_start(struct file_flush *flush, struct file *file, struct handle *handle,
                     bool durable, void (*done)(struct file_flush *flush, int status));

/* Send what is ready, as far as it may go. */
void file_send(struct file *file);

/* The link to `peer` takes something again: files that wait for room have their turn. */
void room_made(struct client *client, struct rpc_peer *peer);

/* Whoever waits for it does not any more: `done` runs with MORSEL_CANCELED, soon or before this
 * returns. What was written goes on its way, and is reported, as without anybody waiting. Harmless
 * for one that has ended. */
void file_flush_cancel(struct file_flush *flush);

/* There is something for the manager to hear; a tick sees to it, if nobody else does. */
void file_note_unreported(struct file *file);

/* Report what is not reported yet, without anybody waiting for it. */
void file_report(struct file *file);

/* Bytes of [offset, end) changed: a new time, and perhaps a new end, to report. `sparse`: the
 * change left space that is not data, or data that is not within the size. */
void file_note_changed(struct file *file, uint64_t offset, uint64_t end, bool sparse);

/* What is written now takes the set-id bits away, by its report. For nothing where it is known that
 * there are none. */
void file_strip_ids(struct file *file);

/* Bytes in the write buffers of all files. */
uint64_t client_dirty_bytes(const struct client *client);

/* By files_age(). */
void file_age(struct file *file, uint64_t now_ms);

/* ---- Truncating (truncate_uv.c) ---- */

/* The file, which is ours alone and open for writing, gets this size, at most INT64_MAX: here at
 * once, at the servers and the manager behind. False: no memory, and nothing has happened. Errors
 * come later, as those of writes do. */
bool file_truncate(struct file *file, uint64_t size);

/* Bytes behind the end are going to come to light: what somebody may have left there, and not
 * reported, is cut off first. Nobody else writes to the file meanwhile. False: no memory. */
bool file_clean_tail(struct file *file);

/* Send a truncation. Otherwise than 0 it will not be answered. */
int file_truncate_send(struct chunk *chunk);

/* A truncation has failed: the file is as long as the manager says. */
void file_truncate_failed(struct file *file);

/* Up to where the manager may be told of what was written: truncations from there on have not been
 * made yet. UINT64_MAX: none is under way. */
uint64_t file_truncate_limit(const struct file *file);

/* The error of a handle, told once: for a write; for a close, which is told also what writes were told since the last
 * one; or for a sync, which is told also what either was. */
int file_take_error(struct handle *handle);
int file_take_close_error(struct handle *handle);
int file_take_sync_error(struct handle *handle);

/* ---- Reading: read_uv.h ---- */

/* Forget what was fetched: all of it, or what overlaps a range. */
void file_forget(struct file *file, uint64_t offset, uint64_t length);

/* ---- Copying on the servers (copy_uv.c) ---- */

enum {
    FILE_COPY_BYTES_MAX = 64 << 20, /* In one go */
    FILE_COPY_PIECES_MAX = 8        /* Each within one stripe, under way */
};

struct file_copy
{
    struct file *from, *to; /* Pinned. */
    uint64_t from_offset, to_offset, length;
    uint64_t sent; /* Of the length. */
    int status;
    unsigned waiting;
    void (*done)(struct file_copy *copy, int status);
    struct file_copy_piece
    {
        struct column_call call;
        struct file_copy *copy;
        bool active;
    } pieces[FILE_COPY_PIECES_MAX];
};

/* Do the bytes at these offsets lie on the same servers, in the same way across stripes? */
bool file_copy_fits(const struct file *from, const struct file *to, uint64_t from_offset,
                    uint64_t to_offset);

/* Would they, if `to`, of which nothing was written yet, lay on the servers of `from`? */
bool file_may_align(const struct file *from, const struct file *to, uint64_t from_offset,
                    uint64_t to_offset);

/* The manager says where the file lies, of which nothing was written yet. MORSEL_CORRUPT, MORSEL_NOMEM: it is as
 * before. */
int file_align(struct file *file, const Morsel__Layout *layout);

/* Copy `length` (not 0) bytes, all within the size of `from`, that file_copy_fits(). Nothing of
 * either file may be dirty. `done` runs once, later. */
void file_copy_start(struct file_copy *copy, void (*done)(struct file_copy *copy, int status));
void file_copy_cancel(struct file_copy *copy);

/* ---- Ranges over all columns (range_uv.c) ---- */

enum range_kind { RANGE_TRUNCATE, RANGE_PUNCH, RANGE_ALLOCATE };

struct range_op
{
    struct file *file; /* Pinned. */
    int status;
    unsigned waiting;
    uint32_t calls_count;
    struct column_call *calls;
    uint64_t unanswered;  /* Columns (bits) whose servers have not answered in time. */
    enum range_kind kind; /* Of a change: */
    uint64_t offset, length;
    uint64_t lease_epoch; /* when it began, */
    uint64_t again;       /* and which columns have been sent a second time. */
    bool changes;         /* What was fetched while it ran is forgotten at its end. */
    bool starting;        /* The caller's. */
    uint64_t lease;       /* Since when we had the file when it began; 0: not at all. */
    uint32_t place;       /* Where it lay then: file_place(). */
    void (*done)(struct range_op *op, int status);
    void *data;
    struct set_hold
        hold; /* Of a truncation of a scavenged file: the caller ends it when the manager has made it. */
    uint64_t blocks; /* range_blocks_start(): of 512 bytes, all columns. */
    /* For seeks */
    bool hole, found;
    uint64_t best;
    uint64_t from;
    struct range_watch *watch; /* range_watch_start() */
};

/* Do the same to every column: truncate all objects at file offset `offset` (RANGE_TRUNCATE), or
 * punch or reserve [offset, offset + length). */
int range_start(struct range_op *op, struct file *file, enum range_kind kind, uint64_t offset,
                uint64_t length, void (*done)(struct range_op *op, int status));

/* Its calls end soon, with MORSEL_CANCELED. */
void range_cancel(struct range_op *op);

/* Was the file ours from the beginning until now? Else others may have had it moved, and what was asked for was there
 * no more: what the servers said counts if the manager, asked behind it, says that it lies where it lay. */
bool range_is_sure(const struct range_op *op);
bool range_has_moved(const struct range_op *op);

/* The space that the file uses on its servers: op->blocks. */
int range_blocks_start(struct range_op *op, struct file *file,
                       void (*done)(struct range_op *op, int status));

/* Next data (or hole) of the file at or after `offset`: op->found, op->best. Does not look at the
 * file's size. */
int range_seek_start(struct range_op *op, struct file *file, uint64_t offset, bool hole,
                     void (*done)(struct range_op *op, int status));

/* What was changed of the file, by whomever, since a watch began; and one that begins (common/fs/exchange.h, "Copied beforehand"). The
 * numbers and `from` are the caller's, as in struct exchange_watch, and the answer is there; `watch` stays until `done`.
 * MORSEL_NODATA, MORSEL_NOTSUP as EXCHANGE_WATCH has them. */
struct exchange_watch;
int range_watch_start(struct range_op *op, struct file *file, struct exchange_watch *watch,
                      void (*done)(struct range_op *op, int status));

/* ---- What the class of a file decides (scavenged_uv.c; client/datasets/set_uv.h) ----
 *
 * Who asks for bytes of servers asks file_is_scavenged() first, and comes here if so, or to what chunk_uv.h and fetch_uv.h say of
 * scavenged files. */

/* The file lies so, as the manager says. MORSEL_NOMEM, MORSEL_CORRUPT: it is as it was. `blank`: nothing was stored, and who does
 * is this mount. */
int scavenged_take_layout(struct file *file, const Morsel__Layout *layout, bool blank);

/* 0: what that change needs of servers is nothing here. MORSEL_NOTSUP, MORSEL_PERM. */
int scavenged_may_range(const struct file *file, enum range_kind kind);

/* The file is about to be truncated: set_hold_start(). */
int scavenged_hold(struct file *file, struct set_hold *hold,
                   void (*done)(struct set_hold *hold, int status));

/* The manager has made the file so long, and says how it lies now (NULL: it does not). */
void scavenged_resized(struct file *file, uint64_t size, const Morsel__Layout *layout);

/* Perhaps it has made it shorter, and did not say: what is known of the map is asked for anew. */
void scavenged_may_be_cut(struct file *file);

/* Is it sealed, so that nothing can be changed? Then MORSEL_PERM. */
int scavenged_may_change(const struct file *file);

/* The handle is about to be let go. If it is the last one for writing, and something was stored, that is sealed: true, and `done` runs
 * once, perhaps before this returns. */
bool scavenged_seal(struct handle *handle, void (*done)(void *data, int status), void *data);

#endif
