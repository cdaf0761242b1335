/* How long a file is now, while others may be writing to it: only the manager knows. */
#ifndef MORSEL_CLIENT_DATA_SIZE_UV_H
#define MORSEL_CLIENT_DATA_SIZE_UV_H

#include "client/libmorsel_uv.h"

struct file;

/* Embed it, zeroed, in what wants to know. */
struct size_ask
{
    struct file *file; /* Open until `done`. */
    uint64_t size;     /* With status 0: where the file ends for who asks here. */
    struct meta_call call;
    void (*done)(struct size_ask *ask, int status);
};

/* `done` runs once, later; for want of memory at once. With status 0 the file has heard, too
 * (file_refresh()). */
void size_ask_start(struct size_ask *ask, struct file *file,
                    void (*done)(struct size_ask *ask, int status));

/* `done` runs later, with MORSEL_CANCELED. Harmless while nothing is under way. */
void size_ask_cancel(struct size_ask *ask);

#endif
