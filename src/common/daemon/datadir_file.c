/* The lock on a data directory and its identity file, which is replaced as a whole. */
#include "common/daemon/datadir_file.h"

#include "common/base/replace_file.h"
#include "common/base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

void random_bytes(void *bytes, size_t count)
{
    uint8_t *at = bytes;

    while (count > 0) {
        ssize_t got = getrandom(at, count, 0);

        if (got > 0) {
            at += got;
            count -= (size_t)got;
        } else if (errno != EINTR) {
            fprintf(stderr, "getrandom: %s: this kernel is too old\n", strerror(errno));
            abort();
        }
    }
}

uint64_t boot_id(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a of the text. */
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    char text[64];
    ssize_t count = 0;

    if (fd >= 0) {
        count = read(fd, text, sizeof(text));
        close(fd);
    }
    if (count <= 0) { /* Unknown: no two starts may count as of one boot. */
        count = sizeof(text);
        random_bytes(text, sizeof(text));
    }
    for (ssize_t i = 0; i < count; i++) {
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash == 0 ? 1 : hash;
}

static int identity_read(struct datadir *d, int fd, struct errmsg *err)
{
    uint8_t bytes[IDENTITY_TEXT_BYTES_MAX]; /* A file that fills it is longer than ours. */
    struct identity identity;
    ssize_t count = read(fd, bytes, sizeof(bytes));
    int rv;

    if (count < 0) {
        errmsg_set(err, "read %s/identity: %s", d->path, strerror(errno));
        return MORSEL_IO;
    }
    rv = identity_parse((struct slice){ bytes, (size_t)count }, d->path, &identity, err);
    if (rv == MORSEL_OK) {
        d->format = identity.format;
        memcpy(d->role, identity.role, sizeof(d->role));
        d->cluster = identity.cluster;
        d->node = identity.node;
        memcpy(d->token, identity.token, sizeof(d->token));
        d->starts = identity.starts;
    }
    return rv;
}

static int datadir_errno(const char *what, const char *path, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "%s %s: %s", what, path, strerror(code));
    return status_from_errno(code);
}

/* True when the directory holds nothing of anybody's. A lock file alone is left by a start that
 * failed. */
static bool datadir_empty(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool empty = true;

    if (dir == NULL) {
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        empty = empty &&
                (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                 strcmp(entry->d_name, "lock") == 0 || strcmp(entry->d_name, "identity.tmp") == 0 ||
                 strcmp(entry->d_name, "lost+found") == 0);
    }
    closedir(dir);
    return empty;
}

static int datadir_lock(struct datadir *d, int dir_fd, struct errmsg *err)
{
    d->lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock_fd < 0) {
        return datadir_errno("open lock file in", d->path, err);
    }
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        int rv = errno == EWOULDBLOCK ? MORSEL_EXISTS_LOCKED : datadir_errno("lock", d->path, err);

        if (rv == MORSEL_EXISTS_LOCKED) {
            errmsg_set(err, "%s is in use by another process: stop that one first", d->path);
        }
        close(d->lock_fd);
        d->lock_fd = -1;
        return rv;
    }
    return 0;
}

static int datadir_make(struct datadir *d, const char *role, struct errmsg *err)
{
    d->format = DATADIR_FORMAT;
    snprintf(d->role, sizeof(d->role), "%s", role);
    random_bytes(d->token, sizeof(d->token));
    return datadir_save(d, err);
}

/* Is the directory ours, and what does it say? `fresh`: it is nobody's yet. */
static int datadir_look(struct datadir *d, int dir_fd, const char *role, struct errmsg *err)
{
    int fd = openat(dir_fd, "identity", O_RDONLY | O_CLOEXEC);
    int rv;

    d->fresh = fd < 0 && errno == ENOENT;
    if (d->fresh && !datadir_empty(dir_fd)) {
        errmsg_set(err, "%s holds other things: name an empty directory or one that does not exist",
                   d->path);
        return MORSEL_NOTEMPTY;
    }
    if (fd < 0) {
        return d->fresh ? 0 : datadir_errno("open identity in", d->path, err);
    }
    rv = identity_read(d, fd, err);
    close(fd);
    if (rv == 0 && strcmp(d->role, role) != 0) {
        errmsg_set(err, "%s belongs to a morsel-%s, not to a morsel-%s: name another directory",
                   d->path, d->role, role);
        return MORSEL_INVAL;
    }
    return rv;
}

/* With the directory open. A foreign directory is not touched, so we look before the lock; and again
 * under it, for another process may have begun and ended in between. */
static int datadir_enter(struct datadir *d, int dir_fd, const char *role, struct errmsg *err)
{
    int rv = datadir_look(d, dir_fd, role, err);

    if (rv == 0) {
        rv = datadir_lock(d, dir_fd, err);
    }
    if (rv == 0) {
        rv = datadir_look(d, dir_fd, role, err);
    }
    return rv == 0 && d->fresh ? datadir_make(d, role, err) : rv;
}

int datadir_open(struct datadir *d, const char *path, const char *role, struct errmsg *err)
{
    bool made;
    int dir_fd, rv;

    memset(d, 0, sizeof(*d));
    d->lock_fd = -1;
    if (path[0] == 0 || strlen(path) >= sizeof(d->path) - sizeof("/identity.tmp")) {
        errmsg_set(err, "the path of the data directory is %s",
                   path[0] == 0 ? "empty" : "too long");
        return MORSEL_INVAL;
    }
    snprintf(d->path, sizeof(d->path), "%s", path);
    made = mkdir(path, 0700) == 0;
    if (!made && errno != EEXIST) {
        return datadir_errno("make data directory", path, err);
    }
    dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return datadir_errno("open data directory", path, err);
    }
    rv = datadir_enter(d, dir_fd, role, err);
    close(dir_fd);
    if (rv != 0) {
        datadir_close(d);
    }
    return rv;
}

static int identity_replace(const char *path, const char *text, size_t count)
{
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rv;

    if (dir_fd < 0) {
        return -1;
    }
    rv = replace_file(dir_fd, "identity", text, count, false);
    close(dir_fd);
    return rv;
}

int datadir_save(struct datadir *d, struct errmsg *err)
{
    struct identity identity = {
        .format = DATADIR_FORMAT, .cluster = d->cluster, .node = d->node, .starts = d->starts
    };
    char text[IDENTITY_TEXT_BYTES_MAX];

    memcpy(identity.role, d->role, sizeof(identity.role));
    memcpy(identity.token, d->token, sizeof(identity.token));
    if (identity_replace(d->path, text, identity_format(&identity, text)) != 0) {
        return datadir_errno("write identity in", d->path, err);
    }
    d->format = DATADIR_FORMAT;
    return 0;
}

void datadir_close(struct datadir *d)
{
    if (d->lock_fd >= 0) {
        close(d->lock_fd);
        d->lock_fd = -1;
    }
}
