/* The mount of a development cluster. */
#include "client/admin/cluster_proc.h"
#include "client/admin/mount_file.h"
#include "client/admin/process_proc.h"
#include "common/base/status.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static void point_path(const struct cluster *c, char path[CLUSTER_PATH_MAX])
{
    cluster_path(c, "run", "mount", "point", path);
}

static void pid_path(const struct cluster *c, char path[CLUSTER_PATH_MAX])
{
    cluster_path(c, "run", "mount", "pid", path);
}

/* Absolute and without links, for a point that may be missing or hold a dead mount: only its parent
 * is looked at. */
static int resolve_point(const char *point, char resolved[CLUSTER_PATH_MAX], struct errmsg *err)
{
    char copy[CLUSTER_PATH_MAX];
    char parent[PATH_MAX];
    const char *name;
    char *slash;

    (void)snprintf(copy, sizeof(copy), "%s%s", point[0] == '/' ? "" : "./", point);
    for (size_t count = strlen(copy); count > 1 && copy[count - 1] == '/'; count--) {
        copy[count - 1] = '\0';
    }
    slash = strrchr(copy, '/');
    name = slash + 1;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        errmsg_set(err, "%s: is no usable mount point", point);
        return MORSEL_INVAL;
    }
    *slash = '\0';
    if (realpath(copy[0] == '\0' ? "/" : copy, parent) == NULL) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "%s: %s", copy, strerror(errno));
        return rv;
    }
    if ((size_t)snprintf(resolved, CLUSTER_PATH_MAX, "%s/%s",
                         strcmp(parent, "/") == 0 ? "" : parent, name) >= CLUSTER_PATH_MAX) {
        errmsg_set(err, "%s: path is too long", point);
        return MORSEL_NAMETOOLONG;
    }
    return 0;
}

bool cluster_mounted(const struct cluster *c, char point[CLUSTER_PATH_MAX], pid_t *pid_out)
{
    struct mount_info mount;
    char path[CLUSTER_PATH_MAX];

    pid_path(c, path);
    *pid_out = process_running(path);
    point_path(c, path);
    return *pid_out != 0 && cluster_read_line(path, point, CLUSTER_PATH_MAX) &&
           mount_at(point, &mount);
}

static int detach(const char *point, bool force, struct errmsg *err)
{
    char tool[] = "fusermount3";
    char unmount[] = "-u";
    char lazy[] = "-uz";
    char target[CLUSTER_PATH_MAX];
    char *argv[] = { tool, force ? lazy : unmount, target, NULL };
    char words[256];

    (void)snprintf(target, sizeof(target), "%s", point);
    if (geteuid() == 0) {
        if (umount2(point, UMOUNT_NOFOLLOW | (force ? MNT_DETACH : 0)) == 0 || errno == EINVAL) {
            return 0; /* EINVAL: it is no mount point any more. */
        }
        errmsg_set(err, "cannot unmount %s: %s%s", point, strerror(errno),
                   errno == EBUSY ? " (files are open there; \"fuser -vm\" shows whose, --force "
                                    "unmounts all the same)"
                                  : "");
        return status_from_errno(errno);
    }
    if (process_run(argv, words, sizeof(words)) != 0) {
        errmsg_set(err, "cannot unmount %s: %s", point,
                   words[0] == '\0' ? "fusermount3 cannot be run; install fuse3" : words);
        return MORSEL_BUSY;
    }
    return 0;
}

/* A mount whose process was killed answers everything with ENOTCONN until it is taken away. */
static int clear_dead_mount(const char *point, struct errmsg *err)
{
    struct mount_info mount;
    struct stat st;

    if (stat(point, &st) == 0 || errno != ENOTCONN || !mount_at(point, &mount)) {
        return 0;
    }
    return detach(point, true, err);
}

int cluster_unmount(const struct cluster *c, bool force, struct errmsg *err)
{
    struct mount_info mount;
    char point[CLUSTER_PATH_MAX];
    char path[CLUSTER_PATH_MAX];
    int rv = 0;

    point_path(c, path);
    if (!cluster_read_line(path, point, sizeof(point))) {
        return 0;
    }
    if (mount_at(point, &mount) && strcmp(mount.type, "fuse.morsel") == 0) {
        rv = detach(point, force, err);
    }
    if (rv != 0) {
        return rv;
    }
    (void)unlink(path);
    pid_path(c, path);
    return force ? process_stop(path, CLUSTER_WAIT_MS, err)
                 : process_wait(path, CLUSTER_WAIT_MS, err);
}

static int make_point(const char *point, struct errmsg *err)
{
    struct mount_info mount;
    struct stat st;

    if (mkdir(point, 0755) != 0 && errno != EEXIST) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "cannot make the mount point %s: %s", point, strerror(errno));
        return rv;
    }
    if (stat(point, &st) == 0 && !S_ISDIR(st.st_mode)) {
        errmsg_set(err, "mount point %s is not a directory", point);
        return MORSEL_NOTDIR;
    }
    if (mount_at(point, &mount)) {
        errmsg_set(err, "mount point %s is in use: %s (%s) is mounted there", point, mount.source,
                   mount.type);
        return MORSEL_BUSY;
    }
    return 0;
}

static int run_mount(const struct cluster *c, const char *point, const char *options,
                     struct errmsg *err)
{
    char program[CLUSTER_PATH_MAX];
    char log[CLUSTER_PATH_MAX];
    char pid_file[CLUSTER_PATH_MAX];
    char manager[CONFIG_STRING_MAX];
    char target[CLUSTER_PATH_MAX];
    char words[CONFIG_STRING_MAX];
    char foreground[] = "-f";
    char dash_o[] = "-o";
    char *argv[] = { program, foreground, manager, target, NULL, NULL, NULL };
    struct process_start start = {
        .argv = argv, .log = log, .pid_file = pid_file, .timeout_ms = CLUSTER_WAIT_MS
    };
    char ready[PROCESS_LINE_MAX];

    process_find_program("morsel-mount", program, sizeof(program));
    cluster_path(c, "log", "mount", "log", log);
    pid_path(c, pid_file);
    cluster_address(c, "meta", manager);
    (void)snprintf(target, sizeof(target), "%s", point);
    (void)snprintf(words, sizeof(words), "%s", options);
    if (words[0] != '\0') {
        argv[4] = dash_o;
        argv[5] = words;
    }
    return process_start(&start, ready, err);
}

int cluster_mount(const struct cluster *c, const char *point, const char *options,
                  bool *started_out, struct errmsg *err)
{
    char resolved[CLUSTER_PATH_MAX];
    char mounted[CLUSTER_PATH_MAX];
    char path[CLUSTER_PATH_MAX];
    pid_t pid;
    int rv = resolve_point(point, resolved, err);

    *started_out = false;
    if (rv != 0) {
        return rv;
    }
    if (cluster_mounted(c, mounted, &pid)) {
        if (strcmp(mounted, resolved) == 0) {
            return 0;
        }
        errmsg_set(err, "the cluster is mounted at %s already", mounted);
        return MORSEL_BUSY;
    }
    pid_path(c, path);
    if ((rv = process_wait(path, CLUSTER_WAIT_MS, err)) != 0 || /* Unmounted by hand just now. */
        (rv = clear_dead_mount(resolved, err)) != 0 || (rv = make_point(resolved, err)) != 0) {
        return rv;
    }
    point_path(c, path);
    if (!cluster_write_line(path, resolved)) {
        errmsg_set(err, "%s: cannot be written: %s", path, strerror(errno));
        return MORSEL_IO;
    }
    rv = run_mount(c, resolved, options, err);
    if (rv != 0) {
        (void)unlink(path);
    }
    *started_out = rv == 0;
    return rv;
}
