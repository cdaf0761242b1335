/* Files that are not seen before they are complete (hidden_file.h). */
#include "client/admin/hidden_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void hidden_directory_of(const char *path, char directory[HIDDEN_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int count = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);

    (void)snprintf(directory, HIDDEN_PATH_MAX, "%.*s", count, path);
    if (count == 0) {
        (void)snprintf(directory, HIDDEN_PATH_MAX, ".");
    }
}

/* A hidden name in the directory, drawn so that nobody has it. False: it would be too long. */
static bool choose_name(struct hidden_file *h, const char *directory)
{
    uint64_t drawn;
    int count;

    if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) {
        return false;
    }
    count =
        snprintf(h->until_then, sizeof(h->until_then), "%s/.morsel-%016" PRIx64, directory, drawn);
    if (count >= (int)sizeof(h->until_then)) {
        h->until_then[0] = '\0';
        errno = ENAMETOOLONG;
        return false;
    }
    return true;
}

/* The signals that end a command, but for SIGKILL. */
static void ending_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGHUP);
}

bool hidden_interrupted(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1 ||
            sigismember(&set, SIGHUP) == 1);
}

static int make_named(struct hidden_file *h, const char *directory)
{
    sigset_t set;
    int fd;

    if (!choose_name(h, directory)) {
        return -1;
    }
    ending_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    fd = open(h->until_then, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0) {
        h->until_then[0] = '\0';
    }
    return fd;
}

int hidden_make(struct hidden_file *h, const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);

    h->until_then[0] = '\0';
    /* EISDIR: a kernel, or a network file system, that has never heard of it. */
    return fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
               ? make_named(h, directory)
               : fd;
}

static int link_to(int fd, const char *path)
{
    char self[64];

    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* rename(2) alone replaces in one step, and wants a name. Who has none is not ended between getting one and giving it up. */
static int link_and_replace(struct hidden_file *h, int fd, const char *path)
{
    char directory[HIDDEN_PATH_MAX];
    sigset_t set, before;
    int rv, code;

    hidden_directory_of(path, directory);
    if (!choose_name(h, directory)) {
        return -1;
    }
    ending_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    rv = link_to(fd, h->until_then);
    if (rv == 0 && (rv = rename(h->until_then, path)) != 0) {
        code = errno;
        (void)unlink(h->until_then);
        errno = code;
    }
    h->until_then[0] = '\0';
    code = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return rv;
}

static int replace_by(struct hidden_file *h, int fd, const char *path)
{
    if (h->until_then[0] == '\0') {
        return link_and_replace(h, fd, path);
    }
    if (rename(h->until_then, path) != 0) {
        return -1;
    }
    h->until_then[0] = '\0';
    return 0;
}

int hidden_name(struct hidden_file *h, int fd, const char *path, bool replace)
{
    if (replace) {
        return replace_by(h, fd, path);
    }
    if (h->until_then[0] == '\0') {
        return link_to(fd, path);
    }
    if (link(h->until_then, path) != 0) {
        return -1;
    }
    hidden_drop(h);
    return 0;
}

void hidden_drop(struct hidden_file *h)
{
    if (h->until_then[0] != '\0') {
        (void)unlink(h->until_then);
        h->until_then[0] = '\0';
    }
}
