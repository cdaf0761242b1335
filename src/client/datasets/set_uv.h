/* The data set of an open file: its bytes in morsels on benefactors, as one mount writes and reads them.
 *
 * Where the class of a file makes the way part. Handles, errors, leases, the write buffer with its order, drains and reports, the
 * parts of reads and the windows of read-ahead are the same for all files (src/client/data). What they want of bytes they ask of
 * the servers of columns (column_uv.h) for durable files, and of this module for scavenged ones; scavenged_uv.c is the one file
 * that stands between, and the only one that is asked which it is:
 *
 *   chunk that is ready  --> set_write_start()   at the benefactors, and in the manager's map, when it is answered
 *   fetch                --> set_read_start()    whole morsels, verified
 *   durable flush        --> set_sync_start()    SYNC at the benefactors; the manager's own part is as for all files
 *   last writer's release -> set_seal_start()
 *
 * So a drain of the write buffer means that the map has everything, and whoever waits for one (flush, fsync, close, the recall of
 * a lease, writes that are answered through) needs to know nothing of sets. Truncation to zero is the manager's: the file has
 * another set then, which is found as if the file had been moved (file_astray()).
 *
 * Writing (set_store_uv.c). Morsels that are being written are *open*: whole in memory, as far as they have bytes, so that their
 * digest is always known, and a benefactor that fails can be replaced. They go in rounds, one at a time for each morsel:
 *
 *   idle -> [loading] -> [announcing] -> [placing] -> writing -> reporting -> idle
 *                                           ^            |           |
 *                                           '------------+-----------'   somebody did not take it, or is gone
 *
 * What comes while a round runs waits for the next. *Announcing* tells the manager that bytes below the length that it knows are
 * about to change (SetMorsel.rewriting). Places are asked for ahead (set_places.h). Reports of all morsels that are through go
 * together, while the one before is on its way.
 *
 * Reading (set_read_uv.c). The map says who has the morsel (set_map.h); one copy is asked for all of it, verified against the
 * digest, and handed to everybody who waits. When it fails, is short, is damaged, or takes long, the next one is asked. When
 * all have failed, the manager is asked again, until io_timeout. Morsels stay in memory up to SET_CACHED_BYTES_MAX.
 */
#ifndef MORSEL_CLIENT_DATASETS_SET_UV_H
#define MORSEL_CLIENT_DATASETS_SET_UV_H

#include "client/libmorsel_uv.h"

enum {
    SET_PIECE_BYTES = 1 << 20, /* In which morsels lie in memory, and cross the wire. */
    SET_PIECES_MAX = MORSEL_BYTES_MAX / SET_PIECE_BYTES,
    SET_IDLE_BYTES_MAX = 32 << 20,   /* Open morsels of one set that nothing is written to now, */
    SETS_IDLE_BYTES_MAX = 64 << 20,  /* and those of all sets. */
    SET_CACHED_BYTES_MAX = 64 << 20, /* Morsels that were read, of all sets. */
    SET_UNSYNCED_MAX = 4096, /* Morsels of one set that are on no disk: more are synced unasked. */
    SET_SYNCS_MAX = 32       /* SYNCs under way, of one set. */
};

struct data_set;

/* client->data.sets. MORSEL_NOMEM. */
int data_sets_open(struct client *client);
void data_sets_close(struct client *client); /* No call is under way. */

/* No file is open: nothing is kept. */
void data_sets_empty(struct client *client);

/* Every CLIENT_TICK_MS. */
void data_sets_tick(struct client *client);

uint64_t data_sets_cached_bytes(const struct client *client);

/* Of open morsels that nothing is written to now. */
uint64_t data_sets_idle_bytes(const struct client *client);

/* `number` of the file `inode`. `ours`: nothing of it was stored yet, and if somebody is going to, it is us. Let go with
 * data_set_drop(). MORSEL_NOMEM. */
int data_set_new(struct client *client, inode_id inode, uint64_t number, uint32_t morsel_bytes,
                 bool ours, struct data_set **set_out);

/* The file has no use for it any more. Writes, reads and syncs have ended or been canceled. NULL is allowed. */
void data_set_drop(struct data_set *set);

uint64_t data_set_number(const struct data_set *set);

/* Nothing of it can be changed any more, as far as we know. */
bool data_set_is_sealed(const struct data_set *set);
void data_set_note_sealed(struct data_set *set);

/* Was a morsel of it stored by us? */
bool data_set_is_stored_here(const struct data_set *set);

/* Others may have written: what was read, and is known of the map, is not to be believed. */
void data_set_forget(struct data_set *set);

/* The file ends here now, where it was longer: the manager has cut its map. Of the morsel in which it ends it does not know the digest any
 * more, and is told, if it is ours; it is not sealed before. */
void data_set_cut(struct data_set *set, uint64_t size);

/* While the manager cuts its map: zeroed, embed it in who asks for that. */
struct set_hold
{
    struct data_set *set; /* NULL: it does not run. */
    struct list node;
    void (*done)(struct set_hold *hold, int status);
};

/* From `done` on the manager hears nothing more of what is stored, until set_hold_end(). 0: it is so, and `done` does not run.
 * MORSEL_AGAIN: `done` runs once, later, with 0: what was reported before is answered. The set stays as long. */
int set_hold_start(struct set_hold *hold, struct data_set *set,
                   void (*done)(struct set_hold *hold, int status));

/* Where the map was cut, data_set_cut() comes first. Harmless for one that does not run. */
void set_hold_end(struct set_hold *hold);

/* If `done` is still to run it does so before this returns, with MORSEL_CANCELED, and it has ended. */
void set_hold_cancel(struct set_hold *hold);

/* ---- Writing ---- */

/* Embed it, zeroed, in what is written. */
struct set_write
{
    /* The caller's; bytes and payload stay as they are until `done`. */
    struct payload *payload;
    size_t payload_offset;
    uint64_t offset; /* In the file. */
    uint32_t length; /* All in one morsel. */

    /* The module's own. */
    struct list node;
    struct open_morsel *morsel; /* NULL: it does not run. */
    void (*done)(struct set_write *write, int status);
};

/* Write. Two that overlap are never under way together. `done` runs once, later, when the bytes are at as many benefactors as
 * there shall be (or are), and the map says so: 0; MORSEL_NOSPC; MORSEL_DQUOT; MORSEL_PERM (sealed, or its writer is gone);
 * MORSEL_BUSY (another mount stores it); MORSEL_STALE; MORSEL_UNREACHABLE, MORSEL_TIMEDOUT (within io_timeout nobody took
 * them); MORSEL_CHECKSUM (the rest of the morsel is damaged at all of its benefactors). MORSEL_NOMEM; MORSEL_FBIG. */
int set_write_start(struct set_write *write, struct data_set *set,
                    void (*done)(struct set_write *write, int status));

/* `done` runs before this returns, with MORSEL_CANCELED; the bytes may be written all the same. Harmless for one that does not run. */
void set_write_cancel(struct set_write *write);

/* ---- Reading ---- */

struct set_load;

/* Embed it, zeroed. */
struct set_read
{
    /* The caller's: */
    struct data_set *set;
    uint64_t offset; /* In the file; all within one piece. */
    uint32_t length;
    bool fresh; /* Others may be writing: the manager is asked. */

    /* From `done` on, with status 0: `count` bytes of `payload`, from `payload_offset` on; what is missing to `length` is
     * zeros. NULL: all of it. The reference is the caller's. */
    struct payload *payload;
    size_t payload_offset;
    uint32_t count;

    /* The module's own. */
    struct list node;
    struct set_load *load;     /* NULL: it does not run. */
    struct open_morsel *opens; /* It is not read, but opened to be written. */
    void (*done)(struct set_read *read, int status);
};

/* 0: it is there, and `done` does not run. MORSEL_AGAIN: `done` runs once, later, with 0; MORSEL_UNREACHABLE (nobody who has
 * the bytes could be had within io_timeout); MORSEL_CHECKSUM (damaged at all of them); MORSEL_STALE (the file has another set);
 * or what the manager said. MORSEL_NOMEM. */
int set_read_start(struct set_read *read, void (*done)(struct set_read *read, int status));

/* `done` runs before this returns, with MORSEL_CANCELED. Harmless for one that does not run. */
void set_read_cancel(struct set_read *read);

/* ---- Syncing ---- */

/* Embed it, zeroed. */
struct set_sync
{
    struct list node;
    bool running;
    void (*done)(struct set_sync *sync, int status);
};

/* All that was written and answered before is to be on disks of its benefactors: of each morsel on one at least. 0: it is, and
 * `done` does not run. MORSEL_AGAIN: `done` runs once, later, with 0 or MORSEL_IO. What could not be synced is tried again by the
 * next. */
int set_sync_start(struct set_sync *sync, struct data_set *set,
                   void (*done)(struct set_sync *sync, int status));

/* True: it ran, and `done` does not run any more. The bytes go to disks all the same. */
bool set_sync_leave(struct set_sync *sync);

/* ---- Sealing ---- */

/* All of it is stored, and the file ends at `size`. Whoever writes from now on is refused; the manager is told, however long
 * that takes. One that has an origin and is not all of that stays open: the manager says so, and it may be written again. `done` runs
 * once, perhaps before this returns. MORSEL_NOMEM. */
int set_seal_start(struct data_set *set, uint64_t size, void (*done)(void *data, int status),
                   void *data);

#endif
