/* The C interface for data sets: plain calls on files of a mount, and the extended attributes that it has for data sets. It needs
 * nothing of the rest of MorselFS but their names: libmorsel.a is this file. */
#include "client/library/morsel.h"

#include "common/fs/origin.h"
#include "common/fs/policy_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum {
    OPEN_NAME_MAX = 32, /* "/proc/self/fd/N" */
    LOOK_MS = 50,
    BUSY_MS_MAX = 10000, /* A mount that has closed the file writes what it still has. */
    SEAL_MS_MAX = 60000
};

struct morsel_set
{
    int fd;       /* Asks for attributes, holds the lock of who stores it, reads. */
    int write_fd; /* -1: it is read, or is sealed. */
    bool stores;
    uint64_t size;
    uint64_t stored;       /* Were there when it was opened. */
    atomic_ullong put;     /* Have come since. */
    atomic_int last;       /* The last byte of the set, which is written with the seal; */
    atomic_bool last_came; /* it has come. */
};

static void pause_ms(long ms)
{
    const struct timespec time = { ms / 1000, (ms % 1000) * 1000000 };

    (void)nanosleep(&time, NULL);
}

/* ---- Where it is ---- */

/* `text` is a policy or a layout, of `count` bytes; negative: `errno` says why there is none. */
static int check_class(const char *text, ssize_t count)
{
    static const char scavenged[] = "class=scavenged ";

    if (count < 0) {
        return errno == ENODATA || errno == EOPNOTSUPP ? -ENODEV : -errno;
    }
    return (size_t)count >= strlen(scavenged) && memcmp(text, scavenged, strlen(scavenged)) == 0
               ? 0
               : -EOPNOTSUPP;
}

/* Do files that are made where the path is lie on benefactors? */
static int check_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t count = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char directory[PATH_MAX] = ".", text[POLICY_TEXT_MAX];

    if (count >= sizeof(directory)) {
        return -ENAMETOOLONG;
    }
    if (count > 0) {
        memcpy(directory, path, count);
        directory[count] = '\0';
    }
    return check_class(text, getxattr(directory, POLICY_XATTR_EFFECTIVE, text, sizeof(text)));
}

static int check_file(int fd, struct stat *st)
{
    char text[LAYOUT_TEXT_MAX];

    if (fstat(fd, st) != 0) {
        return -errno;
    }
    if (!S_ISREG(st->st_mode)) {
        return -EINVAL;
    }
    return check_class(text, fgetxattr(fd, POLICY_XATTR_LAYOUT, text, sizeof(text)));
}

/* To read alone. `made`: it is made when it is not there, and that is told; NULL: it is not. Returns a descriptor. */
static int open_file(const char *path, bool *made, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rv;

    if (made != NULL) {
        *made = false;
    }
    if (fd < 0 && errno == ENOENT && made != NULL) {
        if ((rv = check_directory(path)) != 0) {
            return rv;
        }
        fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        *made = fd >= 0;
        if (fd < 0 && errno == EEXIST) {
            fd = open(path, O_RDONLY | O_CLOEXEC);
        }
    }
    if (fd < 0) {
        return -errno;
    }
    if ((rv = check_file(fd, st)) != 0) {
        (void)close(fd);
        return rv;
    }
    return fd;
}

/* ---- What is there ---- */

struct there
{
    bool sealed;
    uint64_t size;    /* Of the file. */
    uint64_t missing; /* The first morsel that is not there begins here; UINT64_MAX: all are. */
    uint32_t morsel_bytes;
};

/* -ENODATA: nothing was reserved or stored. */
static int look(int fd, struct there *there)
{
    char text[MISSING_TEXT_MAX + 1];
    ssize_t count = fgetxattr(fd, MISSING_XATTR, text, sizeof(text) - 1);
    const char *line;
    int sealed;

    *there = (struct there){ .morsel_bytes = 1 };
    if (count < 0) {
        return -errno;
    }
    text[count] = '\0';
    if (sscanf(text, "sealed=%d size=%" SCNu64 " morsel_size=%" SCNu32, &sealed, &there->size,
               &there->morsel_bytes) != 3 ||
        there->morsel_bytes == 0 || (line = strchr(text, '\n')) == NULL) {
        return -EPROTO;
    }
    there->sealed = sealed != 0;
    if (sscanf(line + 1, "%" SCNu64, &there->missing) != 1) {
        there->missing = UINT64_MAX;
    }
    return 0;
}

/* ---- Reserving ---- */

/* Does the path name what is open? Somebody may have given its name to another file. */
static bool is_still_there(const char *path, int fd, struct stat *st)
{
    struct stat named;

    return fstat(fd, st) == 0 && lstat(path, &named) == 0 && named.st_dev == st->st_dev &&
           named.st_ino == st->st_ino;
}

/* We have made it, and it is of no use: unless somebody else has begun to store it. */
static void take_back(const char *path, int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_still_there(path, fd, &st) && st.st_size == 0) {
        (void)unlink(path);
    }
}

/* The file that is open, under a name that nobody can give to another one. */
static void name_open(int fd, char name[OPEN_NAME_MAX])
{
    (void)snprintf(name, OPEN_NAME_MAX, "/proc/self/fd/%d", fd);
}

static int declare(int fd, uint64_t size)
{
    char text[32];
    int count = snprintf(text, sizeof(text), "%" PRIu64, size);

    for (int waited = 0; fsetxattr(fd, POLICY_XATTR_RESERVED, text, (size_t)count, 0) != 0;
         waited += LOOK_MS) {
        if (errno != EBUSY || waited >= BUSY_MS_MAX) {
            return -errno;
        }
        pause_ms(LOOK_MS);
    }
    return 0;
}

static bool is_size(uint64_t size)
{
    return size > 0 && size <= INT64_MAX;
}

int morsel_reserve(const char *path, uint64_t size)
{
    struct stat st;
    bool made;
    int fd, rv;

    if (path == NULL || !is_size(size)) {
        return -EINVAL;
    }
    if ((fd = open_file(path, &made, &st)) < 0) {
        return fd;
    }
    rv = declare(fd, size);
    if (rv != 0 && made) {
        take_back(path, fd);
    }
    (void)close(fd);
    return rv;
}

/* The file is ours until it is closed, and still has a name. */
static int lock(int fd, struct stat *st)
{
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    }
    if (fstat(fd, st) != 0) {
        return -errno;
    }
    return st->st_nlink > 0 ? 0 : -ENOENT;
}

static int remove_unsealed(const char *path, int fd, struct stat *st)
{
    struct there there;
    int rv;

    if ((rv = lock(fd, st)) != 0 || (rv = look(fd, &there)) != 0) {
        return rv;
    }
    if (there.sealed) {
        return -EPERM;
    }
    if (!is_still_there(path, fd, st)) {
        return -ENOENT;
    }
    return unlink(path) == 0 ? 0 : -errno;
}

int morsel_cancel(const char *path)
{
    struct stat st;
    int fd, rv;

    if (path == NULL) {
        return -EINVAL;
    }
    if ((fd = open_file(path, NULL, &st)) < 0) {
        return fd;
    }
    rv = remove_unsealed(path, fd, &st);
    (void)close(fd);
    return rv;
}

/* ---- Storing ---- */

/* The end of what has no hole, `end` being that of the set. */
static uint64_t resume_at(const struct there *there, uint64_t end)
{
    uint64_t at = there->missing < there->size ? there->missing : there->size;

    /* The last morsel is written again in any case: who writes nothing seals nothing. */
    at = at >= end ? end - 1 : at;
    return at - at % there->morsel_bytes;
}

/* What is behind the first hole is written again: nobody knows the rest of a morsel that somebody was just writing. */
static int begin(morsel_set *set)
{
    char name[OPEN_NAME_MAX];
    struct there there;
    int rv;

    name_open(set->fd, name);
    if ((rv = declare(set->fd, set->size)) != 0 || (rv = look(set->fd, &there)) != 0) {
        return rv;
    }
    set->stored = resume_at(&there, set->size);
    if (set->stored == 0 && there.size > 0 &&
        (truncate(name, 0) != 0 || (rv = declare(set->fd, set->size)) != 0)) {
        return rv != 0 ? rv : -errno;
    }
    set->write_fd = open(name, O_WRONLY | O_CLOEXEC);
    if (set->write_fd < 0 || (set->stored > 0 && there.size > set->stored &&
                              ftruncate(set->write_fd, (off_t)set->stored) != 0)) {
        return -errno;
    }
    return 0;
}

static int set_new(int fd, uint64_t size, morsel_set **set_out)
{
    morsel_set *set = malloc(sizeof(*set));

    if (set == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    memset(set, 0, sizeof(*set));
    set->fd = fd;
    set->write_fd = -1;
    set->size = size;
    *set_out = set;
    return 0;
}

int morsel_store(const char *path, uint64_t size, morsel_set **set_out)
{
    morsel_set *set;
    struct stat st;
    bool made;
    int fd, rv;

    if (path == NULL || set_out == NULL || !is_size(size)) {
        return -EINVAL;
    }
    *set_out = NULL;
    if ((fd = open_file(path, &made, &st)) < 0) {
        return fd;
    }
    if ((rv = set_new(fd, size, &set)) != 0) {
        return rv;
    }
    set->stores = true;
    if ((rv = lock(fd, &st)) != 0 || (rv = begin(set)) != 0) {
        if (made) {
            take_back(path, fd);
        }
        morsel_close(set);
        return rv;
    }
    *set_out = set;
    return 0;
}

uint64_t morsel_stored(const morsel_set *set)
{
    return set->stored;
}

static int write_all(int fd, const uint8_t *bytes, size_t count, uint64_t offset)
{
    while (count > 0) {
        ssize_t written = pwrite(fd, bytes, count, (off_t)offset);

        if (written < 0 && errno != EINTR) {
            return -errno;
        }
        if (written > 0) {
            bytes += written;
            offset += (uint64_t)written;
            count -= (size_t)written;
        }
    }
    return 0;
}

/* The last byte waits for morsel_seal(): until then the file is shorter than declared, and nothing seals it, however the program
 * ends. Whether morsels have all of their bytes the manager cannot tell: pieces that are missing would be zeros. */
int morsel_put(morsel_set *set, uint64_t offset, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    bool last;
    int rv;

    if (set->write_fd < 0) {
        return -EBADF;
    }
    if (offset > set->size || count > set->size - offset) {
        return -EFBIG;
    }
    last = count > 0 && offset + count == set->size;
    if ((rv = write_all(set->write_fd, at, last ? count - 1 : count, offset)) != 0) {
        return rv;
    }
    if (last) {
        atomic_store(&set->last, at[count - 1]);
        atomic_store(&set->last_came, true);
    }
    (void)atomic_fetch_add(&set->put, count);
    return 0;
}

/* The seal follows close(2). */
static int wait_for_seal(const morsel_set *set)
{
    struct there there;
    int rv = look(set->fd, &there);

    for (int waited = 0; rv == 0 && !there.sealed; waited += LOOK_MS) {
        if (waited >= SEAL_MS_MAX) {
            return -EIO;
        }
        pause_ms(LOOK_MS);
        rv = look(set->fd, &there);
    }
    return rv;
}

int morsel_seal(morsel_set *set)
{
    const uint8_t last = (uint8_t)atomic_load(&set->last);
    struct there there;
    int rv;

    if (set->write_fd < 0) {
        return -EBADF;
    }
    if (!atomic_load(&set->last_came) || atomic_load(&set->put) < set->size - set->stored) {
        return -ENODATA;
    }
    if ((rv = write_all(set->write_fd, &last, 1, set->size - 1)) != 0) {
        return rv;
    }
    if (fsync(set->write_fd) != 0) {
        return -errno;
    }
    if ((rv = look(set->fd, &there)) != 0) {
        return rv;
    }
    if (there.missing != UINT64_MAX || there.size != set->size) {
        return -ENODATA;
    }
    rv = close(set->write_fd) == 0 ? 0 : -errno;
    set->write_fd = -1;
    return rv != 0 ? rv : wait_for_seal(set);
}

/* ---- Retrieving ---- */

int morsel_retrieve(const char *path, morsel_set **set_out)
{
    struct there there;
    struct stat st;
    int fd, rv;

    if (path == NULL || set_out == NULL) {
        return -EINVAL;
    }
    *set_out = NULL;
    if ((fd = open_file(path, NULL, &st)) < 0) {
        return fd;
    }
    rv = look(fd, &there);
    if (rv == -ENODATA || (rv == 0 && !there.sealed)) {
        rv = -EAGAIN; /* Of an empty file nothing was ever stored. */
    }
    if (rv != 0) {
        (void)close(fd);
        return rv;
    }
    return set_new(fd, there.size, set_out);
}

uint64_t morsel_size(const morsel_set *set)
{
    return set->size;
}

int64_t morsel_get(morsel_set *set, uint64_t offset, void *bytes, size_t count)
{
    uint8_t *at = bytes;
    int64_t sum = 0;

    if (set->stores) {
        return -EBADF;
    }
    if (offset > INT64_MAX || count > INT64_MAX - offset) {
        return -EINVAL;
    }
    while (count > 0) {
        ssize_t got = pread(set->fd, at, count, (off_t)offset);

        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        if (got == 0) {
            break;
        }
        if (got > 0) {
            at += got;
            offset += (uint64_t)got;
            count -= (size_t)got;
            sum += got;
        }
    }
    return sum;
}

void morsel_close(morsel_set *set)
{
    if (set == NULL) {
        return;
    }
    if (set->write_fd >= 0) {
        (void)close(set->write_fd);
    }
    (void)close(set->fd);
    free(set);
}

/* ---- Errors ---- */

const char *morsel_error_text(int error)
{
    const char *words;

    switch (-error) {
    case 0:
        return "it worked";
    case EINVAL:
        return "an argument makes no sense: sizes are from 1 on, and a data set is a regular file";
    case ENODEV:
        return "the path lies on no mounted MorselFS";
    case EOPNOTSUPP:
        return "files there do not lie on benefactors; \"morsel setpolicy DIR class=scavenged\" on "
               "a directory of its own makes them";
    case EDQUOT:
        return "it is larger than a third of what all benefactors give, which is what a data set "
               "may have (\"morsel donors\")";
    case ENOSPC:
        return "no benefactor has room; \"morsel donors\" says what they give";
    case EFBIG:
        return "that lies behind the declared end of the data set, or is too large for morsels of "
               "its size";
    case EEXIST:
        return "the file is there already, with other bytes or another size; remove it first";
    case EPERM:
        return "the data set is sealed";
    case EBUSY:
        return "somebody else is storing the data set";
    case EAGAIN:
        return "the data set is not sealed yet";
    case ENODATA:
        return "nothing is reserved there, or not all of the data set was put";
    case EBADF:
        return "the data set is not open for that, or is sealed by now";
    case EIO:
        return "bytes are lost, or could not be stored; the log of the mount says which";
    default:
        words = strerrordesc_np(-error);
        return words != NULL ? words : "an error that has no name";
    }
}
