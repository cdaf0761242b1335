/* A development cluster: manager, I/O daemons, benefactors and a mount on this machine, in one directory.
 *
 *   DIR/meta, DIR/iod-1 ..., DIR/benefactor-1 ...    data directories, kept when the cluster is stopped
 *   DIR/log/NAME.log           what each process says
 *   DIR/run/NAME.pid           process_proc.h
 *   DIR/run/NAME.address       where it listened last; taken again at the next start if it is free
 *   DIR/run/mount.point        where it is mounted
 *   DIR/run/lock               held while a command changes the cluster
 *
 * start and stop say what should be, not what to do: what runs already is left alone.
 */
#ifndef MORSEL_CLIENT_ADMIN_CLUSTER_PROC_H
#define MORSEL_CLIENT_ADMIN_CLUSTER_PROC_H

#include "client/admin/admin.h"
#include "common/base/types.h"

#include <sys/types.h>

enum {
    CLUSTER_PATH_MAX = 4096,
    CLUSTER_NAME_MAX = 32,
    CLUSTER_NODES_MAX = 64, /* Of each kind. */
    CLUSTER_WAIT_MS = 60000
};

struct cluster
{
    char dir[CLUSTER_PATH_MAX - 64]; /* Absolute; leaves room for what is put behind it. */
    int lock_fd;                     /* -1: not held. */
    uint32_t servers;                /* Data directories iod-1 to iod-N. */
    uint32_t benefactors;            /* benefactor-1 to benefactor-N */
};

/* DIR/SUBDIR/NAME.SUFFIX */
void cluster_path(const struct cluster *c, const char *subdir, const char *name, const char *suffix,
                  char path[CLUSTER_PATH_MAX]);

/* The address that NAME said it serves at; empty when it never did. */
void cluster_address(const struct cluster *c, const char *name, char address[CONFIG_STRING_MAX]);

/* One line of a small file, and back. */
bool cluster_read_line(const char *path, char *line, size_t line_max);
bool cluster_write_line(const char *path, const char *line);

/* The manager of the cluster in the default directory, if it runs. */
bool cluster_default_manager(char address[CONFIG_STRING_MAX]);

/* Mount at `point` (made when it is missing). `started_out`: it was not mounted before. */
int cluster_mount(const struct cluster *c, const char *point, const char *options,
                  bool *started_out, struct errmsg *err);

/* Unmount what is mounted, if anything. `force`: also when files are open there. */
int cluster_unmount(const struct cluster *c, bool force, struct errmsg *err);

/* Where the cluster is mounted by a running process; false: it is not. */
bool cluster_mounted(const struct cluster *c, char point[CLUSTER_PATH_MAX], pid_t *pid_out);

#endif
