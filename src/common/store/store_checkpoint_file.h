/* Checkpoints: which objects were wholly on disk when the machine or the process died.
 *
 * Checkpoints are numbered; store_checkpoint() begins the next one. Each object carries in its
 * header the checkpoint in which it was changed last. When E begins, store_checkpoint() waits for
 * the changes of E - 1 to end, flushes the file system, and then notes durably that everything last
 * changed in E - 2 or before is on disk: that is *covered*. So one flush and one small file cover
 * every object, open or not, and an object that is written all the time never waits:
 *
 *   an object last changed    is changed in E
 *   in E - 1 or E             E is stamped into its header, no flush: nothing covers it yet
 *   before                    E is stamped, and the header flushed before the first byte changes:
 *                             it is covered, or will be in a moment
 *
 * A run that does not end in store_close() leaves the checkpoints after the last one that is
 * complete as a *crashed range*, remembered in DIR/epochs with the boot id of that run. An object
 * whose checkpoint lies in such a range is
 *
 *   SUSPECT   same boot: the process died; each block matches `cur` or `prev`
 *   LOST      the machine died as well: any block may be any of its older versions
 *
 * until it has been verified as a whole (store_recover_file.c) and stamped again.
 *
 * The record also carries the *verifier* (RFC 1813, 3.3.21), a random number that changes whenever
 * bytes that were acknowledged may have been lost: the machine was reset, a sync failed, the record
 * itself was lost. It stays over an orderly end and over one run that was killed and the next of
 * the same boot, for then the kernel has everything.
 */
#ifndef MORSEL_COMMON_STORE_STORE_CHECKPOINT_FILE_H
#define MORSEL_COMMON_STORE_STORE_CHECKPOINT_FILE_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

#include <pthread.h>
#include <stdatomic.h>

enum store_trust { TRUSTED, SUSPECT, LOST };

enum { CRASHED_RANGES_MAX = 32 }; /* More: the two oldest become one. */

struct crashed_range
{
    uint64_t first, last; /* Checkpoints, both included. */
    uint64_t boot_id;     /* 0: of several boots. */
};

/* The contents of DIR/epochs (the name that format 1 gave the file). */
struct checkpoint_record
{
    uint64_t boot_id;
    uint64_t current;
    uint64_t durable; /* Everything last changed up to this checkpoint is on disk, crashed ranges
                         apart. */
    bool closed;      /* The run ended in order. */
    uint64_t objects; /* Counted when the record was written. */
    uint32_t ranges_count;
    struct crashed_range ranges[CRASHED_RANGES_MAX];
    uint64_t verifier; /* 0: written by a program that knew none. */
    bool failed;       /* A sync failed in that run: its verifier ends with it. */
    uint64_t failures; /* Runs before that one in which a sync failed. */
};

struct checkpoints
{
    int dir_fd;                      /* Borrowed. */
    struct checkpoint_record record; /* record_lock's, but for what stays as it was read: `ranges`,
                                        `boot_id` and `failures`. */
    pthread_mutex_t record_lock;
    _Atomic uint64_t verifier;
    _Atomic uint64_t durable; /* As in the record on disk. */
    atomic_bool failed;
    atomic_bool failure_unsaved; /* The record on disk may still hold the old verifier. */
    uint64_t first;              /* Of this run. */
    _Atomic uint64_t current;
    _Atomic uint64_t last_change; /* The checkpoint in which something was changed last. */
    _Atomic uint32_t changing[2]; /* Changes under way, by the parity of their checkpoint. */
    atomic_bool waiting;          /* Somebody waits for `changing` to become 0. */
    pthread_mutex_t lock;         /* With `drained`; guards nothing else. */
    pthread_cond_t drained;
};

/* Read DIR/epochs, note a crash if there was one, and begin a run. `fresh`: there are no
 * objects, so a missing file is right. `now_s` keeps checkpoints growing even if the file was lost.
 */
int checkpoints_open(struct checkpoints *e, int dir_fd, uint64_t boot_id, bool fresh,
                     uint64_t now_s, struct errmsg *err);

/* With `clean`, everything is on disk and the record says so. */
int checkpoints_close(struct checkpoints *e, bool clean, uint64_t objects, struct errmsg *err);

/* A sync failed: a new verifier, and no checkpoint is completed any more in this run. Returns 0
 * once the record on disk says so; until then call again: nobody may be told that anything is on
 * disk.
 */
int checkpoints_fail(struct checkpoints *e, bool again, struct errmsg *err);

/* Around each change of an object. Returns the change's checkpoint. */
uint64_t checkpoints_enter(struct checkpoints *e);
void checkpoints_leave(struct checkpoints *e, uint64_t checkpoint);

/* How far an object that carries `checkpoint` can be trusted. */
enum store_trust checkpoints_trust(const struct checkpoints *e, uint64_t checkpoint);

/* True when something may have been changed since the last covered checkpoint. */
bool checkpoints_pending(struct checkpoints *e);

/* Begin the next checkpoint; returns once no change of the one before is under way. One caller at a
 * time. */
void checkpoints_advance(struct checkpoints *e);

/* What was last changed in `checkpoint` is on disk, in an object that is TRUSTED. */
bool checkpoints_cover(const struct checkpoints *e, uint64_t checkpoint);

/* The file system was flushed since checkpoints_advance(): the one before is complete. Does nothing
 * once a sync has failed.
 */
int checkpoints_complete(struct checkpoints *e, uint64_t objects, struct errmsg *err);

#endif
