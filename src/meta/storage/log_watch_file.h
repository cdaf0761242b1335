/* The live logs of a LevelDB directory, and making them durable.
 *
 * LevelDB does not say which of its NNNNNN.log files are live. The kernel tells (inotify(7)) which
 * come, so that a sync costs as much as there are logs, one or two, and not as much as there are
 * tables. Where the kernel does not, or has lost something, the directory is listed.
 *
 * Of one thread at a time. */
#ifndef MORSEL_META_STORAGE_LOG_WATCH_FILE_H
#define MORSEL_META_STORAGE_LOG_WATCH_FILE_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

enum {
    LOG_WATCH_MAX =
        64 /* There are two while a memory table is being written out, more only after a crash. */
};

struct log_watch
{
    const char *dir; /* Borrowed. */
    int dir_fd;      /* Borrowed. */
    int inotify_fd;  /* -1: the kernel does not tell. */
    bool list;       /* What is known may lack some: list the directory. */
    bool new_names;  /* Some are not known to be durable. */
    size_t count;
    struct live_log
    {
        unsigned long long number;
        int fd;
    } logs[LOG_WATCH_MAX]; /* Ascending. */
};

/* Before LevelDB opens the directory, so that nothing is missed. */
void log_watch_open(struct log_watch *w, const char *dir, int dir_fd);
void log_watch_close(struct log_watch *w);

/* Make durable what was written to any log before this began: oldest first, then the names.
 * MORSEL_IO and what else the disk says, with words. */
int log_watch_sync(struct log_watch *w, struct errmsg *err);

#endif
