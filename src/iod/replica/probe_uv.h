/* Asks the voters about a server whose machine has refused us: is its process dead?
 *
 * If a majority of them, with ourselves, is refused as well, that process holds no lease any more, and the
 * others need not wait for its end. A link that is cut refuses nothing. One question about each server at
 * a time. */
#ifndef MORSEL_IOD_REPLICA_PROBE_UV_H
#define MORSEL_IOD_REPLICA_PROBE_UV_H

#include "iod/replica/ballots_uv.h"

struct server_probe;

struct probes
{
    /* The owner's; all else is zero. */
    struct ballots *ballots; /* Who votes, and the ways there. */
    void (*dead)(void *data, server_id server);
    void *data;

    struct server_probe *first; /* Under way. */
    bool closing;
};

void probe_begin(struct probes *p, server_id server, const char *address);

/* What is under way is for nobody. */
void probes_close(struct probes *p);
void probes_free(struct probes *p); /* After the loop has ended. */

#endif
