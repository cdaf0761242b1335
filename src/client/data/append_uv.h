/* One write(2) that appends more than a request of the kernel holds, in one piece.
 *
 * The kernel sends such a write as several WRITEs, one behind the other, and does not say which is
 * the last. So behind a WRITE that is as long as one can be, the mount keeps what makes the place
 * its own (the exclusive size lock with a shared file; a lease that would otherwise be given back) until
 * a shorter one comes, or another call of anybody here, which the kernel lets through only when the
 * write(2) has ended; for APPEND_KEPT_MS at most.
 */
#ifndef MORSEL_CLIENT_DATA_APPEND_UV_H
#define MORSEL_CLIENT_DATA_APPEND_UV_H

#include "client/coherence/size_lock_uv.h"
#include "client/data/file_uv.h"

enum {
    APPEND_KEPT_MS = 50,
    APPEND_PIECES_MAX = 2047 /* A write(2) has at most 2 GiB less a page. */
};

/* Who writes: the same for all requests of one write(2). */
struct append_who
{
    const struct handle *handle;
    int64_t thread;
    uint64_t offset; /* As the kernel counts, which may be wrong. */
};

struct append
{
    struct list node; /* In appends.kept, while it waits for the next WRITE. */
    struct file *file;
    struct append_who next;
    struct size_lock size_lock; /* Perhaps had. */
    unsigned pieces;
    uint64_t until_ms;
};

/* The next WRITE has come: what was kept for it, which is the caller's until append_keep() or
 * append_end(); NULL: nothing. What was kept for somebody else ends. */
struct append *append_take(struct file *file, const struct append_who *who);

/* Is something kept for just this one? */
bool append_goes_on(const struct file *file, const struct append_who *who);

/* A WRITE as long as one can be has ended well, and `next` would be the one behind it. `a` is of
 * append_take(), or NULL; the size lock, if it has one, goes with it. */
void append_keep(struct append *a, struct file *file, const struct append_who *next,
                 struct size_lock *size_lock);

/* It has ended. NULL is allowed. */
void append_end(struct append *a);

/* The handle's last write(2) has ended. */
void append_end_of(const struct handle *handle);

/* A write(2) of the file, whoever's, has ended: the kernel has let something else pass. */
void append_end_all(struct file *file);

/* client->data.appends. MORSEL_NOMEM. */
int appends_open(struct client *client);
void appends_close(struct client *client);

/* Every CLIENT_TICK_MS; with UINT64_MAX all end. */
void append_tick(struct client *client, uint64_t now_ms);

#endif
