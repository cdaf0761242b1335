/* What is staged into (stage_dest_file.h). */
#include "client/admin/stage_dest_file.h"

#include "client/admin/hidden_file.h"
#include "client/admin/mount_file.h"
#include "client/admin/pause_file.h"
#include "client/admin/print_file.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/policy_text.h"
#include "common/rpc/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    LOOK_MS = 50,
    LOOK_MS_MIN =
        2, /* A seal takes a round trip or two; who waits for longer looks less often, up to */
    LOOK_MS_MAX = 500,
    LOCKED_NAME_MAX = 32,
    BUSY_MS_MAX = 60000, /* An earlier mount writes what it still has. */
    SEAL_MS_MAX = 60000
};

static int failed(struct errmsg *why, const char *what)
{
    int code = errno;

    if (code == ENOSPC) {
        errmsg_set(why, "no benefactor has room; \"morsel donors\" says what they give");
        return MORSEL_NOSPC;
    }
    if (code == EDQUOT) {
        errmsg_set(why,
                   "it is larger than a third of what all benefactors give, which is what a data "
                   "set may have (\"morsel donors\")");
        return MORSEL_DQUOT;
    }
    errmsg_set(why, "%s: %s", what, strerror(code));
    return code == EBUSY ? MORSEL_BUSY : MORSEL_IO;
}

/* ---- Where to ---- */

/* Files that are made in the directory are of class scavenged. */
static int check_directory(const char *directory, struct errmsg *why)
{
    char text[POLICY_TEXT_MAX + 1];
    struct policy_values policy;
    ssize_t count = getxattr(directory, POLICY_XATTR_EFFECTIVE, text, POLICY_TEXT_MAX);

    if (count < 0) {
        return failed(why, directory);
    }
    text[count] = '\0';
    if (policy_parse(text, &policy) != 0 || policy.values[POLICY_CLASS] != CLASS_SCAVENGED) {
        errmsg_set(why,
                   "%s: files there do not lie on benefactors; \"morsel setpolicy DIR "
                   "class=scavenged\" on a directory of its own makes them",
                   directory);
        return MORSEL_INVAL;
    }
    return 0;
}

static int check_file(const char *path, const struct stat *st, struct errmsg *why)
{
    char text[LAYOUT_TEXT_MAX + 1];
    struct layout_text layout;
    ssize_t count;

    if (!S_ISREG(st->st_mode)) {
        errmsg_set(why, "%s: is no regular file", path);
        return MORSEL_INVAL;
    }
    if ((count = getxattr(path, POLICY_XATTR_LAYOUT, text, LAYOUT_TEXT_MAX)) < 0) {
        return failed(why, path);
    }
    text[count] = '\0';
    if (layout_parse(text, &layout) != 0 || layout.layout_class != CLASS_SCAVENGED) {
        errmsg_set(why, "%s: is there already, and does not lie on benefactors", path);
        return MORSEL_INVAL;
    }
    return 0;
}

int stage_dest_find(struct stage_dest *d, const char *dest, const char *name, struct errmsg *why)
{
    char directory[HIDDEN_PATH_MAX];
    struct mount_info mount;
    struct stat st;
    int rv, count;

    *d = (struct stage_dest){ .lock_fd = -1, .write_fd = -1 };
    origin_init(&d->origin);
    count = snprintf(d->path, sizeof(d->path), "%s", dest);
    if (stat(dest, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (name == NULL) {
            errmsg_set(why, "what comes names no file: say what it is to be called in %s", dest);
            return MORSEL_INVAL;
        }
        count = snprintf(d->path, sizeof(d->path), "%s/%s", dest, name);
    }
    if (count >= STAGE_PATH_MAX) {
        errmsg_set(why, "%s: the path is too long", dest);
        return MORSEL_INVAL;
    }
    hidden_directory_of(d->path, directory);
    if ((rv = mount_find_morsel(directory, &mount, why)) != 0) {
        return rv;
    }
    return stat(d->path, &st) == 0 ? check_file(d->path, &st, why)
                                   : check_directory(directory, why);
}

/* ---- Who is at it, and how far it is ---- */

static int read_origin(struct stage_dest *d, struct errmsg *why)
{
    char text[ORIGIN_TEXT_MAX];
    ssize_t count = fgetxattr(d->lock_fd, ORIGIN_XATTR, text, sizeof(text));

    d->has_origin = count >= 0;
    if (count < 0) {
        return errno == ENODATA ? 0 : failed(why, d->path);
    }
    if (origin_parse((struct slice){ (uint8_t *)text, (size_t)count }, &d->origin) != 0) {
        errmsg_set(why, "%s: the manager tells an origin that this version does not know", d->path);
        return MORSEL_IO;
    }
    return 0;
}

/* The end of what has no hole. */
static uint64_t resume_at(uint64_t missing, uint64_t end, uint64_t size, uint32_t morsel_bytes)
{
    uint64_t at = missing < size ? missing : size;

    /* The last morsel is written again in any case: who writes nothing seals nothing. */
    at = at == end && end > 0 ? end - 1 : at;
    return at - at % morsel_bytes;
}

static int read_missing(struct stage_dest *d, struct errmsg *why)
{
    char text[MISSING_TEXT_MAX];
    uint64_t missing = UINT64_MAX, length, end;
    uint32_t morsel_bytes = 0;
    int sealed = 0;
    ssize_t count = fgetxattr(d->lock_fd, MISSING_XATTR, text, sizeof(text) - 1);
    const char *line;

    if (count < 0) {
        return failed(why, d->path);
    }
    text[count] = '\0';
    if (sscanf(text, "sealed=%d size=%" SCNu64 " morsel_size=%" SCNu32, &sealed, &d->size,
               &morsel_bytes) != 3 ||
        morsel_bytes == 0 || (line = strchr(text, '\n')) == NULL) {
        errmsg_set(why, "%s: the manager answers what this version does not know", d->path);
        return MORSEL_IO;
    }
    (void)sscanf(line + 1, "%" SCNu64 " %" SCNu64, &missing, &length);
    d->sealed = sealed != 0;
    d->whole = missing == UINT64_MAX;
    end = d->origin.size != ORIGIN_SIZE_UNKNOWN ? d->origin.size : d->size;
    d->resume = resume_at(missing, end, d->size, morsel_bytes);
    return 0;
}

static int look(struct stage_dest *d, struct errmsg *why)
{
    struct stat st;
    int rv;

    if (fstat(d->lock_fd, &st) != 0) {
        return failed(why, d->path);
    }
    d->size = (uint64_t)st.st_size;
    d->resume = 0;
    d->sealed = d->whole = false;
    origin_init(&d->origin);
    rv = read_origin(d, why);
    return rv == 0 && d->has_origin ? read_missing(d, why) : rv;
}

static void on_alarm(int number)
{
    (void)number; /* It ends the wait for the lock. */
}

static void tell_waits(struct stage_dest *d, stage_waits waits, void *data, struct errmsg *why)
{
    if (look(d, why) == 0) {
        waits(data, d->size, d->origin.size);
    }
}

/* Wait for the lock; at once and each second the caller may show how far the other one is. */
static int wait_for_lock(struct stage_dest *d, stage_waits waits, void *data, struct errmsg *why)
{
    const struct sigaction action = { .sa_handler = on_alarm };
    const struct itimerval second = { { 1, 0 }, { 1, 0 } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction before;
    int rv = 0;

    tell_waits(d, waits, data, why);
    (void)sigaction(SIGALRM, &action, &before);
    (void)setitimer(ITIMER_REAL, &second, NULL);
    while (flock(d->lock_fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            rv = failed(why, d->path);
            break;
        }
        tell_waits(d, waits, data, why);
    }
    (void)setitimer(ITIMER_REAL, &never, NULL);
    (void)sigaction(SIGALRM, &before, NULL);
    return rv;
}

/* Is what is locked what the path names? */
static bool is_still_there(const struct stage_dest *d)
{
    struct stat named, locked;

    return stat(d->path, &named) == 0 && fstat(d->lock_fd, &locked) == 0 &&
           named.st_ino == locked.st_ino && named.st_dev == locked.st_dev;
}

int stage_dest_lock(struct stage_dest *d, stage_waits waits, void *data, struct errmsg *why)
{
    int rv = 0;

    d->made = false; /* What another try has made is no more to be removed than what was there. */
    do {
        stage_dest_leave(d, false);
        d->lock_fd = open(d->path, O_RDONLY | O_CLOEXEC);
        if (d->lock_fd < 0) {
            return errno == ENOENT ? 0 : failed(why, d->path);
        }
        if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            rv = errno == EWOULDBLOCK ? wait_for_lock(d, waits, data, why) : failed(why, d->path);
        }
    } while (rv == 0 && !is_still_there(d));
    return rv == 0 ? look(d, why) : rv;
}

int stage_dest_make(struct stage_dest *d, struct errmsg *why)
{
    d->lock_fd = open(d->path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (d->lock_fd < 0) {
        return errno == EEXIST ? MORSEL_AGAIN : failed(why, d->path);
    }
    d->made = true;
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        d->made = false;
        stage_dest_leave(d, false);
        return errno == EWOULDBLOCK ? MORSEL_AGAIN : failed(why, d->path);
    }
    return 0;
}

/* What is locked, by a name of its own: somebody may have given its path to another file. */
static void name_locked(const struct stage_dest *d, char name[LOCKED_NAME_MAX])
{
    (void)snprintf(name, LOCKED_NAME_MAX, "/proc/self/fd/%d", d->lock_fd);
}

int stage_dest_empty(struct stage_dest *d, struct errmsg *why)
{
    char name[LOCKED_NAME_MAX];

    if (!is_still_there(d)) {
        return MORSEL_AGAIN;
    }
    name_locked(d, name);
    if (truncate(name, 0) != 0) {
        return failed(why, d->path);
    }
    d->has_origin = false;
    return 0;
}

/* ---- Storing ---- */

static int say_origin(struct stage_dest *d, const struct origin *origin, struct errmsg *why)
{
    char text[ORIGIN_TEXT_MAX];

    origin_format(origin, text);
    for (int waited = 0; fsetxattr(d->lock_fd, ORIGIN_XATTR, text, strlen(text), 0) != 0;
         waited += LOOK_MS) {
        if (errno == ESTALE) {
            return MORSEL_AGAIN; /* It is a file of the cluster, and another one by now. */
        }
        if (errno != EBUSY || waited >= BUSY_MS_MAX) {
            return failed(why, d->path);
        }
        pause_ms(LOOK_MS);
    }
    return 0;
}

int stage_dest_begin(struct stage_dest *d, const struct origin *origin, uint64_t from,
                     struct errmsg *why)
{
    char name[LOCKED_NAME_MAX];
    int rv = is_still_there(d) ? say_origin(d, origin, why) : MORSEL_AGAIN;

    if (rv != 0) {
        return rv;
    }
    d->origin = *origin;
    d->has_origin = true;
    /* The manager has looked whether it can be fetched again. */
    if (origin_is_inside(origin) && (rv = read_origin(d, why)) != 0) {
        return rv;
    }
    name_locked(d, name);
    d->write_fd = open(name, O_WRONLY | O_CLOEXEC);
    if (d->write_fd < 0 || (from > 0 && ftruncate(d->write_fd, (off_t)from) != 0) ||
        lseek(d->write_fd, (off_t)from, SEEK_SET) < 0) {
        return failed(why, d->path);
    }
    return 0;
}

int stage_dest_write(struct stage_dest *d, const void *bytes, size_t count, struct errmsg *why)
{
    const uint8_t *at = bytes;

    while (count > 0) {
        ssize_t written = write(d->write_fd, at, count);

        if (written < 0 && errno != EINTR) {
            return failed(why, d->path);
        }
        if (written > 0) {
            at += written;
            count -= (size_t)written;
        }
    }
    return 0;
}

/* The seal follows close(2). */
static int wait_for_seal(struct stage_dest *d, struct errmsg *why)
{
    int rv = read_missing(d, why);

    for (int waited = 0, ms = LOOK_MS_MIN; rv == 0 && !d->sealed && waited < SEAL_MS_MAX;
         waited += ms, ms = ms * 2 < LOOK_MS_MAX ? ms * 2 : LOOK_MS_MAX) {
        pause_ms(ms);
        rv = read_missing(d, why);
    }
    if (rv == 0 && !d->sealed) {
        errmsg_set(why, "%s: it is not sealed, the log of the mount says why; store it again",
                   d->path);
        rv = MORSEL_IO;
    }
    return rv;
}

int stage_dest_seal(struct stage_dest *d, uint64_t size, struct errmsg *why)
{
    int rv = close(d->write_fd) != 0 ? failed(why, d->path) : 0;

    d->write_fd = -1;
    return rv != 0 || size == 0 ? rv : wait_for_seal(d, why);
}

int stage_dest_finish(struct stage_dest *d, const struct origin *origin, uint64_t size,
                      struct errmsg *why)
{
    struct origin complete = *origin;
    int rv = 0;

    if (origin->size == ORIGIN_SIZE_UNKNOWN) {
        complete.size = size;
        rv = fsync(d->write_fd) != 0 ? failed(why, d->path) : say_origin(d, &complete, why);
    }
    d->origin = complete;
    return rv != 0 ? rv : stage_dest_seal(d, size, why);
}

/* ---- Without a name ---- */

/* What does not fit by the rule of the third part is refused before a byte of it comes. The manager does not know yet what benefactors
 * give, just behind its start: then the rule holds when it is stored. */
static int check_size(const char *directory, uint64_t size, struct errmsg *why)
{
    char text[POLICY_VALUE_TEXT_MAX], whole[PRINT_TEXT_MAX], most[PRINT_TEXT_MAX];
    ssize_t count = getxattr(directory, POLICY_XATTR_LARGEST, text, sizeof(text) - 1);
    uint64_t largest;

    if (count < 0 || size == ORIGIN_SIZE_UNKNOWN) {
        return 0;
    }
    text[count] = '\0';
    if (sscanf(text, "%" SCNu64, &largest) != 1 || size <= largest) {
        return 0;
    }
    errmsg_set(
        why,
        "it has %s, and a data set there may have %s: the third part of what all benefactors "
        "give, with all copies (\"morsel donors\"). Let more be given, or have fewer copies",
        print_bytes(size, whole), print_bytes(largest, most));
    return MORSEL_DQUOT;
}

int stage_dest_hide(struct stage_dest *d, uint64_t size, struct errmsg *why)
{
    char directory[HIDDEN_PATH_MAX], self[64];
    int rv;

    hidden_directory_of(d->path, directory);
    if ((rv = check_directory(directory, why)) != 0 ||
        (rv = check_size(directory, size, why)) != 0) {
        return rv;
    }
    if ((d->write_fd = hidden_make(&d->hidden, directory)) < 0) {
        return failed(why, directory);
    }
    /* It is there as long as somebody has it open: while it is sealed, for which those must have closed it who write. */
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", d->write_fd);
    d->lock_fd = open(self, O_RDONLY | O_CLOEXEC);
    return d->lock_fd < 0 ? failed(why, d->path) : 0;
}

int stage_dest_show(struct stage_dest *d, bool replace, struct errmsg *why)
{
    if (hidden_name(&d->hidden, d->lock_fd, d->path, replace) == 0) {
        return 0;
    }
    if (errno == EEXIST) {
        errmsg_set(why, "%s: is there already; remove it, or say --force to replace it", d->path);
        return MORSEL_EXIST;
    }
    return failed(why, d->path);
}

void stage_dest_leave(struct stage_dest *d, bool undo)
{
    if (d->write_fd >= 0) {
        (void)close(d->write_fd);
    }
    if (undo && d->made && is_still_there(d)) {
        (void)unlink(d->path);
    }
    if (d->lock_fd >= 0) {
        (void)close(d->lock_fd);
    }
    hidden_drop(&d->hidden);
    d->lock_fd = d->write_fd = -1;
}
