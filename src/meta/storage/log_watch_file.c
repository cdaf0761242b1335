/* Follows the logs by inotify and syncs those that are live. */
#include "meta/storage/log_watch_file.h"

#include "common/base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

void log_watch_open(struct log_watch *w, const char *dir, int dir_fd)
{
    w->dir = dir;
    w->dir_fd = dir_fd;
    w->list = w->new_names = true;
    w->count = 0;
    w->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify_fd >= 0 && inotify_add_watch(w->inotify_fd, dir, IN_CREATE | IN_MOVED_TO) < 0) {
        (void)close(w->inotify_fd);
        w->inotify_fd = -1;
    }
}

static void logs_drop(struct log_watch *w, size_t index)
{
    (void)close(w->logs[index].fd);
    w->count--;
    memmove(w->logs + index, w->logs + index + 1, (w->count - index) * sizeof(w->logs[0]));
}

void log_watch_close(struct log_watch *w)
{
    while (w->count > 0) {
        logs_drop(w, w->count - 1);
    }
    if (w->inotify_fd >= 0) {
        (void)close(w->inotify_fd);
        w->inotify_fd = -1;
    }
}

/* "000123.log" */
static bool is_log(const char *name, unsigned long long *number)
{
    char *end;

    *number = strtoull(name, &end, 10);
    return end != name && strcmp(end, ".log") == 0;
}

static int logs_add(struct log_watch *w, const char *name, unsigned long long number)
{
    size_t at = w->count;
    int fd;

    while (at > 0 && w->logs[at - 1].number > number) {
        at--;
    }
    if (at > 0 && w->logs[at - 1].number == number) {
        return MORSEL_OK;
    }
    if (w->count == LOG_WATCH_MAX) {
        return MORSEL_IO;
    }
    fd = openat(w->dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        /* It is gone: what was in it lies in a table, which LevelDB has synced. */
        return errno == ENOENT ? MORSEL_OK : status_from_errno(errno);
    }
    memmove(w->logs + at + 1, w->logs + at, (w->count - at) * sizeof(w->logs[0]));
    w->logs[at] = (struct live_log){ number, fd };
    w->count++;
    w->new_names = true;
    return MORSEL_OK;
}

static int list_directory(struct log_watch *w)
{
    DIR *d = opendir(w->dir);
    const struct dirent *entry;
    unsigned long long number;
    int rv = MORSEL_OK;

    if (d == NULL) {
        return status_from_errno(errno);
    }
    while (rv == 0 && (entry = readdir(d)) != NULL) {
        if (is_log(entry->d_name, &number)) {
            rv = logs_add(w, entry->d_name, number);
        }
    }
    (void)closedir(d);
    w->list = rv != 0 || w->inotify_fd < 0;
    return rv;
}

static int take_events(struct log_watch *w, const char *events, size_t count)
{
    int rv = MORSEL_OK;

    for (size_t at = 0; at < count && rv == 0;) {
        const struct inotify_event *event = (const struct inotify_event *)(events + at);
        unsigned long long number;

        if ((event->mask & (IN_Q_OVERFLOW | IN_IGNORED)) != 0) {
            w->list = true;
        } else if (event->len > 0 && is_log(event->name, &number)) {
            rv = logs_add(w, event->name, number);
        }
        at += sizeof(*event) + event->len;
    }
    return rv;
}

/* What the kernel has to tell. */
static int read_events(struct log_watch *w)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t count = 0;
    int rv = MORSEL_OK;

    while (rv == 0 && w->inotify_fd >= 0 &&
           (count = read(w->inotify_fd, events, sizeof(events))) > 0) {
        rv = take_events(w, events, (size_t)count);
    }
    if (rv != 0 || (count < 0 && errno != EAGAIN)) {
        w->list = true;
    }
    return rv;
}

static void drop_deleted(struct log_watch *w)
{
    struct stat st;

    for (size_t i = w->count; i-- > 0;) {
        if (fstat(w->logs[i].fd, &st) == 0 && st.st_nlink == 0) {
            logs_drop(w, i);
        }
    }
}

int log_watch_sync(struct log_watch *w, struct errmsg *err)
{
    int rv;

    drop_deleted(w);
    rv = read_events(w);
    if (rv == 0 && w->list) {
        rv = list_directory(w);
    }
    for (size_t i = 0; i < w->count && rv == 0; i++) {
        rv = fdatasync(w->logs[i].fd) == 0 ? MORSEL_OK : status_from_errno(errno);
    }
    if (rv == 0 && w->new_names) {
        rv = fsync(w->dir_fd) == 0 ? MORSEL_OK : status_from_errno(errno);
        w->new_names = rv != 0;
    }
    if (rv != 0) {
        errmsg_set(err, "sync the logs in %s: %s", w->dir, status_words(rv));
    }
    return rv;
}
