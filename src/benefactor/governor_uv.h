/* The governor at work: looks at the machine now and then, and holds requests back for which there are no tokens.
 *
 * While it is asked it looks every GOVERNOR_LOOK_MS, for GOVERNOR_AWAKE_MS behind the last question; after that not at all: a laptop
 * that nobody fetches from is not woken up. The first question then finds the level that was, for half a second.
 */
#ifndef MORSEL_BENEFACTOR_GOVERNOR_UV_H
#define MORSEL_BENEFACTOR_GOVERNOR_UV_H

#include "benefactor/bucket.h"
#include "benefactor/governor.h"
#include "common/base/list.h"
#include "common/daemon/log.h"
#include "common/rpc/rpc_uv.h"

enum {
    GOVERNOR_AWAKE_MS = 10000,
    GOVERNOR_HELD_MAX = 1024,         /* Requests; more are refused (MORSEL_OVERLOAD). */
    GOVERNOR_HELD_MS_MAX = 1500,      /* Nobody waits for longer: clients give up after 4 s. */
    GOVERNOR_BURST_BYTES = 256 << 10, /* At the lowest level; a quarter of a second. */
};

struct governor_eye;

struct governor_uv
{
    /* The owner's; set before governor_start(), all else is zero. */
    uv_loop_t *loop;
    struct log *log;
    bool gentle; /* False: requests always go, and nothing is looked at. */
    int fd;      /* On the disk of the donated directory. */
    void (*pass)(void *data, struct rpc_request *request); /* It is its turn. */
    void (*changed)(void *data);                           /* How many jobs may be at work is. */
    void *data;

    struct governor governor; /* To be read. */
    uint32_t held_count;
    uint64_t held_total; /* Since the start. */

    /* The module's own. */
    struct bucket bucket;
    struct list held; /* In their order. */
    uint64_t asked_ms;
    uv_timer_t look_timer, token_timer;
    uv_work_t work;
    struct governor_eye *eye; /* NULL: no look is under way. */
    bool awake, started, stopped;
};

void governor_start(struct governor_uv *g);

/* A request for `bytes`. True: it may go now. False: it was taken over, and is passed on later, or refused. */
bool governor_ask(struct governor_uv *g, struct rpc_request *request, uint64_t bytes);

/* What is held is answered MORSEL_SHUTDOWN. Harmless when repeated, or when nothing was started. */
void governor_stop(struct governor_uv *g);

#endif
