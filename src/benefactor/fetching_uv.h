/* Copies of morsels that the manager wants here: they are read from another benefactor as a client reads them, and go to our own
 * store through our own door, so that the budget, the queue and whatever spares the owner hold for them as for everybody.
 *
 *   (free) --DONOR_FETCH--> READING --all is here, and is what was wanted--> WRITING --> SYNCING --> TELLING --told--> (free)
 *                              |                                                |           |           ^
 *                              +------------------------------------------------+-----------+-----------+
 *                                                           it failed
 *
 * A *check* is the first half of that: what is here, or at another one, is read in the same way, compared with what it is to be, and
 * not kept; DONOR_CHECKED says what it is.
 *
 * What came of it is told until the manager has taken it, on whichever connection that is. Only a copy that is told as done, and then
 * named in the map, counts: what an end of this process leaves behind is in no map, and goes with the inventory of the next.
 *
 * Bounded: FETCHES_MAX at a time, each in memory as a whole (MORSEL_BYTES_MAX) and for FETCH_MS at most, after which the manager has
 * forgotten it soon (REPAIR_FETCH_MS there is more). An order that finds no room is dropped.
 */
#ifndef MORSEL_BENEFACTOR_FETCHING_UV_H
#define MORSEL_BENEFACTOR_FETCHING_UV_H

#include "common/base/limits.h"
#include "common/daemon/log.h"
#include "common/rpc/address.h"
#include "common/rpc/rpc_uv.h"

enum {
    FETCHES_MAX = 4,
    FETCH_MS = 60000,
    FETCH_CHUNKS_MAX = (MORSEL_BYTES_MAX + FRAME_PAYLOAD_BYTES_MAX - 1) / FRAME_PAYLOAD_BYTES_MAX
};

/* Numbers of the wire. */
enum fetch_outcome {
    FETCH_DONE = 1,
    FETCH_UNREACHABLE, /* The source. */
    FETCH_DAMAGED,     /* It has something else. */
    FETCH_NO_ROOM,
    FETCH_FAILED /* Here. */
};

enum fetch_state { FETCH_FREE, FETCH_READING, FETCH_WRITING, FETCH_SYNCING, FETCH_TELLING };

struct fetching;

struct fetch
{
    struct fetching *owner;
    enum fetch_state state;
    bool is_check;
    uint64_t order, set;
    uint64_t told; /* The order as which it was told last. */
    uint32_t morsel, length, digest;
    uint32_t source;
    struct rpc_peer *peer; /* The source; NULL: it is not asked any more. */
    struct rpc_call call;  /* What is under way for it: one thing at a time. */
    uint64_t until_ms;     /* On rpc_now_ms(). */
    uint32_t chunk;        /* That is read, or written. */
    struct payload *chunks[FETCH_CHUNKS_MAX];
    uint32_t *crcs;             /* Of all its block pieces. */
    uint64_t verifier;          /* Of the first write. */
    enum fetch_outcome outcome; /* TELLING */
};

struct fetching
{
    /* The owner's; set before fetching_start(), all else is zero. */
    struct log *log;
    struct rpc *rpc;
    struct rpc_peer *manager;
    const uint32_t *id;       /* Ours, at the manager; */
    const uint64_t *instance; /* and of this process. */
    const char *listens;      /* Where our own door is. */

    /* The module's own. */
    struct rpc_peer *self;
    char door[ADDRESS_TEXT_MAX]; /* Where that is. */
    struct fetch fetches[FETCHES_MAX];
    bool member;                                      /* The manager knows us: it may be told. */
    uint64_t fetched, fetched_bytes, failed, checked; /* Since the start. */
    bool started, stopped;
};

/* MORSEL_NOMEM, MORSEL_INVAL. */
int fetching_start(struct fetching *f, struct errmsg *err);

/* The manager wants something: the body of a DONOR_FETCH, or of a DONOR_CHECK. */
void fetching_ordered(struct fetching *f, bool is_check, const uint8_t *body, size_t body_count);

/* The manager knows us, or does not any more. */
void fetching_joined(struct fetching *f, bool member);

/* Now and then: what could not be told is told again. */
void fetching_look(struct fetching *f);

/* Nothing is begun any more. The rpc ends what is under way. Harmless when repeated. */
void fetching_stop(struct fetching *f);

#endif
