/* The I/O daemon: serves the data objects of its store and belongs to a manager.
 *
 *   main.c          settings, start and orderly end
 *   iod_uv.c        puts the parts together; periodic checkpoints, statistics
 *   scrub_uv.c      reads everything now and then, and looks whether it is as it was written
 *   heartbeat_uv.c  what the manager hears, what it has no use for, and who votes
 *
 * Requests of clients: common/serve/object_server_uv.h; of candidates and of the manager for its vote:
 * common/vote/voter_uv.h.
 */
#ifndef MORSEL_IOD_IOD_UV_H
#define MORSEL_IOD_IOD_UV_H

#include "common/daemon/config.h"
#include "common/daemon/log.h"
#include "common/serve/object_server_uv.h"
#include "common/vote/probe_uv.h"
#include "common/vote/voter_uv.h"
#include "iod/heartbeat_uv.h"
#include "iod/replica/groups_uv.h"
#include "iod/scrub_uv.h"

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
    uint64_t slow_limit_ms;
    uint64_t slow_pause_ms;
    uint64_t recovery_rate; /* 0: no limit. */
    uint64_t scrub_rate;    /* 0: off. */
    uint64_t scrub_every_ms;
};

struct iod
{
    const struct iod_settings *settings;
    struct log *log;
    uv_loop_t *loop;
    struct object_server objects;
    struct heartbeat heartbeat;
    struct voter_uv voter;
    struct prober prober;
    struct groups groups;
    struct scrubber scrubber;
    uv_timer_t checkpoint;
    struct job *taking_checkpoint; /* NULL: not under way. */
    bool stopping;
    void (*ready)(void *data);  /* Serves, and the cluster is known. Once. */
    void (*failed)(void *data); /* Cannot go on; the reason was logged. */
    void *data;
};

/* Open the directory and the store, listen, begin to register. `settings`, `log`, `loop`, `ready`,
 * `failed` and `data` are filled in. On failure with one sentence in `err`, iod_release() is still
 * due. */
int iod_start(struct iod *iod, struct errmsg *err);

/* An orderly end: other servers take over what they can, for which up to GROUPS_LEAVE_MS go by; then `left`, once, perhaps
 * at once, and iod_stop() is due. */
void iod_leave(struct iod *iod, void (*left)(void *data), void *data);

/* Stop serving; running work ends, what waits is dropped. The loop then runs empty. */
void iod_stop(struct iod *iod);

/* After the loop has ended: close the store, which seals it, and the directory. */
void iod_release(struct iod *iod);

/* Counters as lines of the log. */
void iod_log_statistics(struct iod *iod);

#endif
