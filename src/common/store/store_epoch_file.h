/* Epochs: which objects were wholly on disk when the machine or the process died.
 *
 * The store counts epochs, a new one every store_settle(). Each object carries the epoch of its
 * last change in its header. When epoch E begins, settle waits for the changes of E - 1 to end,
 * flushes the file system, and then notes durably that everything last changed in E - 2 or before
 * is on disk. So one flush and one small file vouch for every object, open or not, and an object
 * that is written all the time never waits:
 *
 *   change in E of an object last changed in E - 1 or E    stamp E into the header, no flush
 * needed: the object is not vouched for yet change in E of an object last changed before it is
 * vouched for, or will be in a moment: stamp E and flush the header before the first byte changes
 *
 * A run that does not end in store_close() leaves the epochs after the last vouched one as a
 * *crashed range*, remembered in DIR/epochs with the boot id of that run. An object whose epoch
 * lies in such a range is
 *
 *   SUSPECT   same boot: the process died; each block matches `cur` or `prev`
 *   LOST      the machine died as well: any block may be any of its older versions
 *
 * until it has been verified as a whole (store_mend_file.c) and stamped anew.
 *
 * The record also carries the *verifier* (RFC 1813, 3.3.21), a random number that changes whenever
 * bytes that were acknowledged may have been lost: the machine was reset, a sync failed, the record
 * itself was lost. It stays over an orderly end and over one run that was killed and the next of
 * the same boot, for then the kernel has everything.
 */
#ifndef MORSEL_COMMON_STORE_STORE_EPOCH_FILE_H
#define MORSEL_COMMON_STORE_STORE_EPOCH_FILE_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

#include <pthread.h>
#include <stdatomic.h>

enum store_trust { TRUSTED, SUSPECT, LOST };

enum { CRASHED_RANGES_MAX = 32 }; /* More: the two oldest become one. */

struct crashed_range
{
    uint64_t first, last; /* Epochs, both included. */
    uint64_t boot_id;     /* 0: of several boots. */
};

/* The contents of DIR/epochs. */
struct epoch_record
{
    uint64_t boot_id;
    uint64_t current;
    uint64_t
        durable; /* Everything last changed up to this epoch is on disk, crashed ranges apart. */
    bool closed; /* The run ended in order. */
    uint64_t objects; /* Counted when the record was written. */
    uint32_t ranges_count;
    struct crashed_range ranges[CRASHED_RANGES_MAX];
    uint64_t verifier; /* 0: written by a program that knew none. */
    bool failed;       /* A sync failed in that run: its verifier ends with it. */
};

struct epochs
{
    int dir_fd;                 /* Borrowed. */
    struct epoch_record record; /* `ranges` and `boot_id` stay; the rest is record_lock's. */
    pthread_mutex_t record_lock;
    _Atomic uint64_t verifier;
    _Atomic uint64_t durable; /* As in the record on disk. */
    atomic_bool failed;
    atomic_bool failure_unsaved; /* The record on disk may still hold the old verifier. */
    uint64_t first;              /* Of this run. */
    _Atomic uint64_t current;
    _Atomic uint64_t last_change; /* The epoch in which something was changed last. */
    _Atomic uint32_t changing[2]; /* Changes under way, by the parity of their epoch. */
    atomic_bool waiting;          /* Somebody waits for `changing` to become 0. */
    pthread_mutex_t lock;         /* With `drained`; guards nothing else. */
    pthread_cond_t drained;
};

/* Read DIR/epochs, note a crash if there was one, and begin a run. `fresh`: there are no objects,
 * so a missing file is right. `now_s` keeps epochs growing even if the file was lost. */
int epochs_open(struct epochs *e, int dir_fd, uint64_t boot_id, bool fresh, uint64_t now_s,
                struct errmsg *err);

/* With `clean`, everything is on disk and the record says so. */
int epochs_close(struct epochs *e, bool clean, uint64_t objects, struct errmsg *err);

/* A sync failed: a new verifier, and nothing is vouched for any more in this run. Returns 0 once
 * the record on disk says so; until then call again: nobody may be told that anything is on disk.
 */
int epochs_fail(struct epochs *e, bool again, struct errmsg *err);

/* Around each change of an object. Returns the change's epoch. */
uint64_t epochs_enter(struct epochs *e);
void epochs_leave(struct epochs *e, uint64_t epoch);

/* How far an object that carries `epoch` can be trusted. */
enum store_trust epochs_trust(const struct epochs *e, uint64_t epoch);

/* True when something may have been changed since the last vouched epoch. */
bool epochs_pending(struct epochs *e);

/* Begin the next epoch; returns once no change of the one before is under way. One caller at a
 * time. */
void epochs_advance(struct epochs *e);

/* What was last changed in `epoch` is on disk, in an object that is TRUSTED. */
bool epochs_vouched(const struct epochs *e, uint64_t epoch);

/* The file system was flushed since epochs_advance(): vouch. Does nothing once a sync has failed.
 */
int epochs_vouch(struct epochs *e, uint64_t objects, struct errmsg *err);

#endif
