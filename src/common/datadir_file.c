#include "common/datadir_file.h"

#include "common/status.h"

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

enum { IDENTITY_BYTES_MAX = 1024 };

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
    for (ssize_t i = 0; i < count; i++) {
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash == 0 ? 1 : hash;
}

void hex16(const uint8_t bytes[16], char text[33])
{
    for (int i = 0; i < 16; i++) {
        snprintf(text + (size_t)i * 2, 3, "%02x", bytes[i]);
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex16_parse(const char *text, uint8_t bytes[16])
{
    if (strlen(text) != 32) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* Each line must be there once, in this order: what we did not write is not ours. */
static int identity_parse(struct datadir *d, const char *text, struct errmsg *err)
{
    char cluster[33], token[33];
    unsigned format, node;
    int used = 0;

    if (sscanf(text, "format = %9u\n", &format) != 1) {
        errmsg_set(err, "%s/identity is damaged: restore the file from a backup", d->path);
        return MORSEL_CORRUPT;
    }
    d->format = format;
    if (format > DATADIR_FORMAT) {
        errmsg_set(err,
                   "%s is of format %u, and this program knows only up to %d: use a newer version",
                   d->path, format, DATADIR_FORMAT);
        return MORSEL_VERSION;
    }
    if (sscanf(text, "format = %9u\nrole = %31s\ncluster = %32s\nnode = %10u\ntoken = %32s\n%n",
               &format, d->role, cluster, &node, token, &used) != 5 ||
        text[used] != 0 || used == 0 || !hex16_parse(cluster, d->cluster.bytes) ||
        !hex16_parse(token, d->token)) {
        errmsg_set(err, "%s/identity is damaged: restore the file from a backup", d->path);
        return MORSEL_CORRUPT;
    }
    d->node = node;
    return 0;
}

static int identity_read(struct datadir *d, int fd, struct errmsg *err)
{
    char text[IDENTITY_BYTES_MAX];
    ssize_t count = read(fd, text, sizeof(text) - 1);

    if (count < 0) {
        errmsg_set(err, "read %s/identity: %s", d->path, strerror(errno));
        return MORSEL_IO;
    }
    text[count] = 0;
    if (strlen(text) != (size_t)count) {
        text[0] = 0; /* A zero byte inside: not text. */
    }
    return identity_parse(d, text, err);
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
    d->fresh = true;
    return datadir_save(d, err);
}

/* With the directory open. The lock comes last of what can refuse, so that a foreign directory is
 * not touched. */
static int datadir_enter(struct datadir *d, int dir_fd, const char *role, struct errmsg *err)
{
    int fd = openat(dir_fd, "identity", O_RDONLY | O_CLOEXEC);
    bool fresh = fd < 0 && errno == ENOENT;
    int rv;

    if (fd < 0 && !fresh) {
        return datadir_errno("open identity in", d->path, err);
    }
    if (fresh && !datadir_empty(dir_fd)) {
        errmsg_set(err, "%s holds other things: name an empty directory or one that does not exist",
                   d->path);
        return MORSEL_NOTEMPTY;
    }
    if (fresh) {
        rv = datadir_lock(d, dir_fd, err);
        return rv != 0 ? rv : datadir_make(d, role, err);
    }
    rv = identity_read(d, fd, err);
    close(fd);
    if (rv != 0) {
        return rv;
    }
    if (strcmp(d->role, role) != 0) {
        errmsg_set(err, "%s belongs to a morsel-%s, not to a morsel-%s: name another directory",
                   d->path, d->role, role);
        return MORSEL_INVAL;
    }
    return datadir_lock(d, dir_fd, err);
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
    int fd = dir_fd < 0
                 ? -1
                 : openat(dir_fd, "identity.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rv = -1;

    if (fd >= 0) {
        bool good = write(fd, text, count) == (ssize_t)count && fsync(fd) == 0;

        if (close(fd) == 0 && good && renameat(dir_fd, "identity.tmp", dir_fd, "identity") == 0) {
            rv = fsync(dir_fd);
        }
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    return rv;
}

int datadir_save(struct datadir *d, struct errmsg *err)
{
    char text[IDENTITY_BYTES_MAX];
    char cluster[33], token[33];
    int count;

    hex16(d->cluster.bytes, cluster);
    hex16(d->token, token);
    count = snprintf(text, sizeof(text),
                     "format = %u\nrole = %s\ncluster = %s\nnode = %u\ntoken = %s\n", d->format,
                     d->role, cluster, d->node, token);
    if (identity_replace(d->path, text, (size_t)count) != 0) {
        return datadir_errno("write identity in", d->path, err);
    }
    return 0;
}

void datadir_close(struct datadir *d)
{
    if (d->lock_fd >= 0) {
        close(d->lock_fd);
        d->lock_fd = -1;
    }
}
