/* The I/O daemon: serves the data objects of its store and belongs to a manager.
 *
 *   main.c         settings, start and orderly end
 *   iod_uv.c       puts the parts together: store, listener, periodic checkpoints, statistics
 *   jobs_uv.c      bounded work for the pool
 *   handlers_uv.c  a request comes in, a job does it, the reply goes out
 *   once_uv.c      a change that comes again gets the first answer
 *   member_uv.c    registration, heartbeats, collection of deleted objects
 *
 * Everything but the `work` of a job runs on the loop's thread. A read is first tried there,
 * without waiting for anything (store_read_cached()), and goes to the pool only if that cannot be.
 */
#ifndef MORSEL_IOD_IOD_UV_H
#define MORSEL_IOD_IOD_UV_H

#include "common/daemon/config.h"
#include "common/daemon/counters.h"
#include "common/daemon/datadir_file.h"
#include "common/daemon/log.h"
#include "common/rpc/rpc_uv.h"
#include "common/serve/jobs_uv.h"
#include "common/serve/once_uv.h"
#include "common/store/store.h"
#include "iod/member_uv.h"

struct iod_settings
{
    char data_dir[CONFIG_STRING_MAX];
    char listen[CONFIG_STRING_MAX];
    char manager[CONFIG_STRING_MAX];
    char advertise[CONFIG_STRING_MAX]; /* Empty: where we listen. */
    char log_file[CONFIG_STRING_MAX];  /* Empty: standard error or the journal. */
    char log_level[CONFIG_STRING_MAX];
    uint64_t open_files;
    uint64_t reserve_bytes;
    uint64_t threads;
    uint64_t queue;
    uint64_t buffers_bytes;
    uint64_t checkpoint_ms;
};

struct iod
{
    const struct iod_settings *settings;
    struct log *log;
    uv_loop_t *loop;
    struct datadir datadir;
    struct store *store;
    struct rpc *rpc;
    struct rpc_server *server;
    struct rpc_peer *manager;
    struct jobs jobs;
    struct once once;
    struct member member;
    uv_timer_t checkpoint;
    struct job *taking_checkpoint; /* NULL: not under way. */
    bool stopping;
    uint64_t reads_cached;      /* Served on the loop. */
    void (*ready)(void *data);  /* Serves, and the cluster is known. Once. */
    void (*failed)(void *data); /* Cannot go on; the reason was logged. */
    void *data;
};

/* Open the directory and the store, listen, begin to register. `settings`, `log`, `loop`, `ready`,
 * `failed` and `data` are filled in. On failure with one sentence in `err`, iod_release() is still
 * due. */
int iod_start(struct iod *iod, struct errmsg *err);

/* Stop serving; running work ends, what waits is dropped. The loop then runs empty. */
void iod_stop(struct iod *iod);

/* After the loop has ended: close the store, which seals it, and the directory. */
void iod_release(struct iod *iod);

/* Add the daemon's counters to `list`. `space` may be NULL. */
void iod_count(struct iod *iod, const struct store_space *space, struct counter_list *list);

/* Counters as lines of the log. */
void iod_log_statistics(struct iod *iod);

/* rpc_handler; `data` is the iod. */
void iod_handle(void *data, struct rpc_request *request);

#endif
