/* How long a file is now, while others may be writing to it: only the manager knows.
 *
 *   start -> asked -> done
 *             |  ^
 *             |  '-- asked with its layout: the file has moved (file_astray()), and nothing of it is under way
 *             '----> waits, a tick, and asks again: until what was under way to where it lay before has ended
 *
 * So whoever goes to the servers behind it goes to the right ones, and no program hears that a file has moved
 * (`morsel recopy`) but where it does not come to rest. */
#ifndef MORSEL_CLIENT_DATA_SIZE_UV_H
#define MORSEL_CLIENT_DATA_SIZE_UV_H

#include "client/libmorsel_uv.h"
#include "common/base/list.h"

struct file;

enum { SIZE_ASTRAY_MS = 5000 /* So long a file that has moved is waited for. */ };

/* Embed it, zeroed, in what wants to know. */
struct size_ask
{
    struct file *file; /* Open until `done`. */
    uint64_t size;     /* With status 0: where the file ends for who asks here. */
    struct meta_call call;
    void (*done)(struct size_ask *ask, int status);

    /* The module's own. */
    struct list node; /* In size_asks.waiting, */
    bool waits;       /* when that is so. */
    bool with_layout;
    uint64_t until_ms;
};

/* `done` runs once, later; for want of memory at once. With status 0 the file has heard, too
 * (file_refresh()). MORSEL_STALE: it lies elsewhere, and cannot be looked for as long as something of it is
 * under way. */
void size_ask_start(struct size_ask *ask, struct file *file,
                    void (*done)(struct size_ask *ask, int status));

/* `done` runs with MORSEL_CANCELED, soon or before this returns. Harmless while nothing is under way. */
void size_ask_cancel(struct size_ask *ask);

/* client->data.size_asks. MORSEL_NOMEM. */
int size_asks_open(struct client *client);
void size_asks_close(struct client *client);

/* Every CLIENT_TICK_MS. */
void size_asks_tick(struct client *client);

#endif
