/* Serving data objects to clients: what every storage server does, whatever else it is.
 *
 *   object_start_uv.c    start and end
 *   object_request_uv.c  the way of a request: table, refusals, job, reply
 *   object_handler_uv.h  what the table says of a request
 *   object_read_uv.c     READ, SEEK, OBJECT_STAT, OBJECT_LIST, STATISTICS
 *   object_watch_uv.c    WATCH
 *   object_change_uv.c   WRITE, COPY, TRUNCATE, PUNCH, ALLOCATE, SYNC, DELETE
 *   jobs_uv.c            bounded work for the pool
 *   once_uv.c            a change that comes again gets the first answer
 *   membership_uv.c      registration, and regular reports to the manager
 *
 * Everything but the `run` of a handler happens on the loop's thread. A read is first tried there,
 * without waiting for anything (store_read_cached()), and goes to the pool only if that cannot be.
 */
#ifndef MORSEL_COMMON_SERVE_OBJECT_SERVER_UV_H
#define MORSEL_COMMON_SERVE_OBJECT_SERVER_UV_H

#include "common/daemon/counters.h"
#include "common/daemon/datadir_file.h"
#include "common/daemon/log.h"
#include "common/rpc/rpc_uv.h"
#include "common/serve/jobs_uv.h"
#include "common/serve/once_uv.h"
#include "common/store/store.h"

struct object_handler;

/* Borrowed, for as long as the server lives. */
struct object_server_options
{
    const char *kind;    /* Of its data directory: "iod". */
    const char *program; /* "morsel-iod 0.1.0" */
    enum rpc_role role;
    const char *data_dir;
    const char *listen;
    const char *manager;
    const char *advertise; /* Where clients reach it. Empty: where it listens, */
    bool finds_address;    /* or wherever it finds out: it may listen on all addresses. */
    uint32_t open_files;
    uint64_t reserve_bytes;    /* Of the disk, to be left free. */
    bool shared_disk;          /* As in store_options. */
    uint64_t object_bytes_max; /* 0: as the store has it. */
    uint32_t threads;          /* Most jobs in the pool at once, */
    uint32_t queue;            /* and most requests that wait for that. */
    uint64_t buffers_bytes;    /* Kept for the bytes of requests while they are few. */
};

struct object_server
{
    struct object_server_options options;
    /* Takes a job whose object has copies on several servers (placing.h): unpacked, with its request,
     * and nothing else was done for it. NULL: this server has none. */
    void (*route)(void *data, struct job *job, const struct object_handler *handler);
    void *route_data;
    bool
        plain; /* No object has copies here that know of each other: any column is just a number. */
    /* Hears each request in the place of object_handle(), to which it hands on what is to be done. NULL: nobody. */
    rpc_handler front;
    void *front_data;
    rpc_handler other; /* Requests that are not for objects; NULL: they are refused. Answers. */
    void *other_data;
    struct log *log;
    uv_loop_t *loop;
    struct datadir datadir;
    struct store *store;
    struct rpc *rpc;
    struct rpc_server *listener;
    struct rpc_peer *manager; /* Whose cluster it belongs to. */
    struct jobs jobs;
    struct once once;
    uint64_t reads_cached; /* Served on the loop. */
    /* Of objects with copies: */
    uint64_t reads_beside; /* Answered for a member that orders (docs/replication.md, Read). */
    uint64_t
        blocks_mended; /* Wrong, or not to be read, on the disk here: another server's bytes are there, */
    uint64_t blocks_lost; /* or no server had them (as often as they were asked for). */
    /* Of its scrub, where it has one: */
    uint64_t scrub_bytes, scrub_passes; /* Read, and whole passes ended, since the start; */
    uint64_t scrub_damaged;             /* objects that are damaged now, */
    uint64_t scrub_damaged_blocks;      /* and how many blocks of them. */
};

/* Listen, open the directory and the store, and serve. `options`, `log` and `loop` are filled in
 * (and `other`), the rest is zero. What can refuse without touching the directory comes first. On failure with one
 * sentence in `err`; object_server_stop() and object_server_release() are due all the same. */
int object_server_start(struct object_server *server, struct errmsg *err);

/* Stop serving: running work ends, what waits is dropped, and nobody is answered any more: callers
 * ask again when the server is back. Once. */
void object_server_stop(struct object_server *server);

/* After the loop has ended: close the store, which seals it, and the directory. */
void object_server_release(struct object_server *server);

/* Where clients reach the server: "host:port". */
const char *object_server_address(const struct object_server *server);

/* Add the server's counters to `list`. */
void object_server_count(const struct object_server *server, const struct store_space *space,
                         struct counter_list *list);

#endif
