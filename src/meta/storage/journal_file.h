/* The journal beside a LevelDB database: makes batches durable with one cheap sync.
 *
 * The database's log grows with each batch, so each of its syncs writes a new length into the local
 * file system's own journal; DIR/JOURNAL is written over in place instead (journal_format.h). Only
 * small syncs go here: what does not fit is synced in the logs, after which the journal begins
 * again. So at any moment what a loss of power leaves of the logs, and the journal's entries behind
 * it, are a prefix of the batches in order, and everything that a sync covered is in it.
 *
 * journal_note() belongs to the thread that commits; journal_sync() and journal_restart() to the
 * one that syncs, which may be another. */
#ifndef MORSEL_META_STORAGE_JOURNAL_FILE_H
#define MORSEL_META_STORAGE_JOURNAL_FILE_H

#include "common/base/errmsg.h"
#include "meta/storage/journal_format.h"

#include <pthread.h>

#define JOURNAL_NAME "JOURNAL"

enum {
    JOURNAL_SYNC_BYTES_MAX = 64 << 10 /* Of one sync. More is written once, to the logs alone. */
};

struct journal
{
    const char *dir;     /* Borrowed; for messages. */
    int dir_fd;          /* Borrowed. */
    int fd;              /* -1: closed. */
    uint64_t generation; /* Of this process. */
    size_t offset;       /* Where the next entry goes. */
    bool failed;         /* A sync of it failed: it is not used again before the next start. */
    struct buf writing, entry;

    pthread_mutex_t lock; /* For what follows. */
    struct buf pending;   /* Batches since the last sync began. */
    uint64_t first;       /* Number of the first of them. */
    uint64_t noted;       /* Of the last that was noted. */
    bool skipped;         /* Some did not fit: only the logs have them. */
};

/* Open DIR/JOURNAL, or make it, and read it whole into `content` for the replay. MORSEL_CORRUPT
 * when it is too short; what else the disk says, with words. `j` may be closed after a failure. */
int journal_open(struct journal *j, const char *dir, int dir_fd, struct buf *content,
                 struct errmsg *err);
void journal_close(struct journal *j);

/* The database holds the batches up to `number`: begin behind it. Once, before the first note. */
void journal_begin(struct journal *j, uint64_t number);

/* Batch number `noted` + 1 was committed. */
void journal_note(struct journal *j, struct slice batch);

/* Make durable what was noted before. MORSEL_AGAIN: it cannot take it; sync the logs, and then call
 * journal_restart(). Any other failure leaves the batches as unsure as one of the logs would. */
int journal_sync(struct journal *j, struct errmsg *err);

/* The logs were synced (`rv` of that, after MORSEL_AGAIN). */
void journal_restart(struct journal *j, int rv);

#endif
