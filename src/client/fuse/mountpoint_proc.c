/* Looks at the mount point before we mount and sets what the kernel lets us set afterwards. */
#include "client/fuse/mountpoint_proc.h"

#include "client/fuse/options.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

struct mount_row
{
    char device[32];
    char point[MOUNTPOINT_TEXT_MAX];
    char type[64];
    char flags[512]; /* Of the mount, and of its file system: "rw,nosuid,relatime,rw,sync". */
};

/* Octal escapes of /proc/self/mountinfo back to bytes. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (from[0] == '\\' && from[1] != '\0' && from[2] != '\0' && from[3] != '\0') {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* A line of /proc/self/mountinfo (proc(5)). */
static bool row_parse(const char *line, struct mount_row *row)
{
    const char *dash = strstr(line, " - ");
    char own[256], whole[256] = "";

    if (dash == NULL ||
        sscanf(line, "%*d %*d %31s %*s %4095s %255s", row->device, row->point, own) != 3 ||
        sscanf(dash, " - %63s %*s %255s", row->type, whole) < 1) {
        return false;
    }
    unescape(row->point);
    (void)snprintf(row->flags, sizeof(row->flags), "%s,%s", own, whole);
    return true;
}

/* The topmost mount exactly at `point`. */
static bool mount_at(const char *point, struct mount_row *row)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    struct mount_row here;

    while (f != NULL && getline(&line, &size, f) > 0) {
        if (row_parse(line, &here) && strcmp(here.point, point) == 0) {
            *row = here;
            found = true;
        }
    }
    free(line);
    if (f != NULL) {
        (void)fclose(f);
    }
    return found;
}

static bool run_fusermount(const char *absolute)
{
    pid_t child = fork();
    int status = -1;

    if (child == 0) {
        (void)execlp("fusermount3", "fusermount3", "-u", "-z", absolute, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* realpath() without touching the last component, which may be a dead mount. */
static int make_absolute(const char *path, char absolute[MOUNTPOINT_TEXT_MAX], struct errmsg *err)
{
    char directory[MOUNTPOINT_TEXT_MAX], resolved[MOUNTPOINT_TEXT_MAX];
    char *slash;
    int length = snprintf(directory, sizeof(directory), "%s%s", path[0] == '/' ? "" : "./", path);

    if (length >= (int)sizeof(directory)) {
        errmsg_set(err, "mount point: the path is too long");
        return MORSEL_NAMETOOLONG;
    }
    if (realpath(path, absolute) != NULL) {
        return MORSEL_OK;
    }
    while (length > 1 && directory[length - 1] == '/') {
        directory[--length] = '\0';
    }
    slash = strrchr(directory, '/');
    *slash = '\0';
    if (realpath(directory[0] == '\0' ? "/" : directory, resolved) == NULL ||
        snprintf(absolute, MOUNTPOINT_TEXT_MAX, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved,
                 slash + 1) >= MOUNTPOINT_TEXT_MAX) {
        errmsg_set(err, "mount point %s: %s; make the directory first", path, strerror(errno));
        return MORSEL_NOENT;
    }
    return MORSEL_OK;
}

static int clear_dead(const char *absolute, struct log *log, struct errmsg *err)
{
    if (umount2(absolute, MNT_DETACH) != 0 && !run_fusermount(absolute)) {
        errmsg_set(err,
                   "mount point %s: a mount whose program was killed is still there; clear it with "
                   "\"fusermount3 -u %s\"",
                   absolute, absolute);
        return MORSEL_BUSY;
    }
    log_warning(log, "mount point %s: cleared the mount of a program that was killed", absolute);
    return MORSEL_OK;
}

int mountpoint_prepare(const char *path, char absolute[MOUNTPOINT_TEXT_MAX], struct log *log,
                       struct errmsg *err)
{
    struct mount_row row;
    struct statvfs space;
    struct stat st;
    int rv = make_absolute(path, absolute, err);

    if (rv != 0) {
        return rv;
    }
    /* statvfs() asks the file system itself; what stat() says may come from the kernel's cache. */
    if (mount_at(absolute, &row) && strcmp(row.type, "fuse.morsel") == 0 &&
        statvfs(absolute, &space) != 0 && errno == ENOTCONN &&
        (rv = clear_dead(absolute, log, err)) != 0) {
        return rv;
    }
    if (stat(absolute, &st) != 0) {
        errmsg_set(err, "mount point %s: %s; make the directory first", path, strerror(errno));
        return status_from_errno(errno);
    }
    if (!S_ISDIR(st.st_mode)) {
        errmsg_set(err, "mount point %s is not a directory; choose another", path);
        return MORSEL_NOTDIR;
    }
    if (mount_at(absolute, &row) && strcmp(row.type, "fuse.morsel") == 0) {
        errmsg_set(err, "mount point %s: a MorselFS is mounted there already; unmount it first",
                   path);
        return MORSEL_BUSY;
    }
    return MORSEL_OK;
}

int mountpoint_remount(const char *path, const char *options, struct errmsg *err)
{
    char absolute[MOUNTPOINT_TEXT_MAX];
    struct mount_row row;
    int rv = make_absolute(path, absolute, err);

    if (rv != 0) {
        return rv;
    }
    if (!mount_at(absolute, &row) || strcmp(row.type, "fuse.morsel") != 0) {
        errmsg_set(err,
                   "%s: no MorselFS is mounted there whose flags could be changed; mount it "
                   "without \"remount\"",
                   path);
        return MORSEL_INVAL;
    }
    if (mount(NULL, absolute, NULL,
              MS_REMOUNT | mount_flags_apply(options, mount_flags_apply(row.flags, 0)),
              NULL) != 0) {
        errmsg_set(err, "%s: its flags cannot be changed: %s%s", path, strerror(errno),
                   errno == EBUSY   ? "; files are open for writing, \"fuser -vm\" shows by whom"
                   : errno == EPERM ? "; only root may do that"
                                    : "");
        return status_from_errno(errno);
    }
    return MORSEL_OK;
}

void mountpoint_read_ahead(const char *absolute, unsigned bytes)
{
    struct mount_row row;
    char path[128], value[32];
    int fd, length;

    if (!mount_at(absolute, &row)) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/sys/class/bdi/%s/read_ahead_kb", row.device);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    length = snprintf(value, sizeof(value), "%u", bytes / 1024);
    if (write(fd, value, (size_t)length) != length) {
        (void)close(fd); /* It stays as it was: slower, not wrong. */
        return;
    }
    (void)close(fd);
}
