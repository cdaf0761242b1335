/* MSG_PROBE: a voter tells a storage server whether the process of another one is there.
 *
 * It tries to connect. Only a machine that answers that nobody listens there says that the process is dead; a
 * connection that is made, a cut link and silence say nothing. So a majority of voters that are refused
 * tells a dead process from one that cannot be reached. */
#ifndef MORSEL_COMMON_VOTE_PROBE_UV_H
#define MORSEL_COMMON_VOTE_PROBE_UV_H

#include "common/rpc/rpc_uv.h"

enum {
    PROBES_MAX = 64, /* At a time; more are told that nothing is known. */
    PROBE_MS = 1000  /* For one. */
};

/* Zero at first. */
struct prober
{
    uint32_t count; /* Under way. */
    bool stopped;
};

/* A request of that type, which is answered. Only storage servers may ask. */
void probe_handle(struct prober *prober, uv_loop_t *loop, struct rpc_request *request);

#endif
