/* Does somebody listen there? One connection, closed as soon as it has said something. */
#ifndef MORSEL_COMMON_RPC_KNOCK_UV_H
#define MORSEL_COMMON_RPC_KNOCK_UV_H

#include <stdint.h>
#include <uv.h>

struct knock; /* Under way; it frees itself. */

enum knock_outcome {
    KNOCK_OPEN,
    KNOCK_REFUSED, /* The machine says that nobody listens there. */
    KNOCK_SILENT   /* Nothing was heard for the time, or the network says that there is no way. */
};

/* Called once, and not before knock_start() has returned; the knock is none any more. */
typedef void (*knock_done)(void *data, enum knock_outcome outcome);

/* `address` is a number and a port, as "10.0.0.7:7462". NULL: it is not, or there is no memory. */
struct knock *knock_start(uv_loop_t *loop, const char *address, uint32_t ms, knock_done done,
                          void *data);

/* Nobody waits for it any more. */
void knock_cancel(struct knock *knock);

#endif
