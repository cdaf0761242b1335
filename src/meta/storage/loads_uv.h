/* Requests that wait for the disk: the manager's loop does not.
 *
 *   request -> get, scan: MORSEL_AGAIN, and what they want is noted (kv.h)
 *           -> loads_wait(): it is fetched in libuv's pool
 *           -> the request again, from the beginning
 *
 *   change  -> no room for its commit: MORSEL_AGAIN, and that is noted
 *           -> loads_wait(): room is made in the pool, for one after the other in their order
 *           -> the request again
 *
 * What is fetched is not kept for the request: the store is asked again, and says what it holds
 * then. It may have lost it again meanwhile, to others who read much; so a request that has tried
 * LOADS_TRIES_MAX times is at last allowed to wait on the loop.
 *
 * Clients take turns, each with its oldest, so that one with very many does not hold up one with
 * few. What storage servers ask goes before all of them, and has a thread of its own: they must be
 * heard in time.
 *
 * Bounded: LOADS_RUNNING_MAX at a time (and LOADS_URGENT_MAX besides), so that syncs find a free
 * thread; LOADS_WAITING_MAX and LOADS_BYTES_MAX of those that wait.
 */
#ifndef MORSEL_META_STORAGE_LOADS_UV_H
#define MORSEL_META_STORAGE_LOADS_UV_H

#include "common/base/list.h"
#include "common/rpc/rpc_uv.h"
#include "meta/storage/kv.h"

enum {
    LOADS_RUNNING_MAX = 6,
    LOADS_URGENT_MAX = 1,
    LOADS_THREADS =
        10, /* In libuv's pool: syncs, room for writes and a look at the disk besides. */
    LOADS_TRIES_MAX = 100,
    LOADS_WAITING_MAX = 65536,
    LOADS_WRITES_AT_ONCE = 64, /* Before the loop looks at something else. */
    LOADS_BYTES_MAX = 32 << 20
};

/* What waited, once more. */
typedef void (*load_again)(void *data, struct rpc_request *request, uint64_t subject);

struct load_turn;

struct loads_uv
{
    uv_loop_t *loop;
    struct kv *kv;
    void *data;               /* For load_again. */
    struct kv_wanted wanted;  /* Of what the loop is at just now. */
    struct list turns;        /* struct load_turn: clients of which some wait; the first is next. */
    struct load_turn *by_who; /* The same, by client. */
    struct list urgent, roomless, running; /* struct load */
    uint32_t running_count, waiting_count;
    bool making_room; /* One of those that run does that. */
    size_t waiting_bytes;
    bool closing;
    void (*closed)(void *data); /* NULL: nobody waits for the last one. */
    uint64_t rooms;             /* So often room was made, */
    uint64_t loads;             /* something fetched... */
    uint64_t impatient;         /* ... and so often LOADS_TRIES_MAX were not enough. */
};

/* From now on the store does not wait. `kv` and `data` are borrowed. */
void loads_init(struct loads_uv *l, uv_loop_t *loop, struct kv *kv, void *data);

/* A new request, or something else, asks the store: what was noted before is not its. Whoever is
 * told MORSEL_AGAIN and does not wait calls this too: while something is noted nothing is
 * committed. */
void loads_begin(struct loads_uv *l);

/* Somebody was told MORSEL_AGAIN. What is noted is fetched, and then `again` called, once. Takes
 * over the request (NULL: none waits). It is answered instead when its client has gone or the
 * manager ends; and when there is no room, which is what false says. */
bool loads_wait(struct loads_uv *l, struct rpc_request *request, load_again again,
                uint64_t subject);

/* The client's connection ended: what waits here will be asked again. */
void loads_gone(struct loads_uv *l, client_id client);

/* Refuse what waits, and all from now on. */
void loads_refuse(struct loads_uv *l, int status);

/* Behind loads_refuse(): `closed`, once, now or later, when nothing is being fetched any more. The
 * store waits again. */
void loads_close(struct loads_uv *l, void (*closed)(void *data));

#endif
