/* How a daemon runs: a loop, signals, readiness, orderly shutdown. */
#ifndef MORSEL_COMMON_DAEMON_DAEMON_UV_H
#define MORSEL_COMMON_DAEMON_DAEMON_UV_H

#include "common/daemon/log.h"

#include <stdbool.h>
#include <uv.h>

struct daemon_uv
{
    uv_loop_t *loop;
    struct log *log;
    uv_signal_t term, interrupt, usr1;
    bool stopping;
    void (*stop)(void *data);       /* SIGTERM, SIGINT: begin the orderly shutdown; called once. */
    void (*hurry)(void *data);      /* Another one, perhaps several: end at once. May be NULL. */
    void (*statistics)(void *data); /* SIGUSR1; may be NULL. */
    void *data;
};

/* Ignore SIGPIPE, watch the signals. `d` has log, stop, statistics and data filled in. A libuv
 * status. */
int daemon_start(struct daemon_uv *d, uv_loop_t *loop);

/* Tell systemd (sd_notify) and whoever waits on the descriptor in MORSEL_READY_FD, if set, that we
 * serve: the line `address` is written there and the descriptor closed. */
void daemon_ready(struct daemon_uv *d, const char *address);

/* Let go of the handles so that the loop can end. */
void daemon_finish(struct daemon_uv *d);

/* Let this process open `needed` files; how many it may open in the end. */
uint64_t daemon_descriptors(uint64_t needed);

/* Say how many connections there is room for beside `others` open files, and let the server take no
 * more. One line in the log when that is less than a whole lab needs. */
struct rpc_server;
void daemon_limit_connections(struct log *log, struct rpc_server *server, uint64_t others);

#endif
