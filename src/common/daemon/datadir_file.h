/* The identity of a data directory: whose it is, and that only one process uses it.
 *
 * DIR/identity holds what datadir_format.h says and is replaced atomically. DIR/lock is held with
 * flock(2) while a daemon runs.
 */
#ifndef MORSEL_COMMON_DAEMON_DATADIR_FILE_H
#define MORSEL_COMMON_DAEMON_DATADIR_FILE_H

#include "common/daemon/datadir_format.h"

struct datadir
{
    char path[1024];
    int lock_fd;
    uint32_t format;
    char role[DATADIR_ROLE_BYTES];
    struct cluster_id cluster; /* Zero: not known yet. */
    uint32_t node;             /* 0: not known yet. */
    uint8_t token[16];         /* Random, made with the directory. */
    struct starts_kept starts; /* datadir_save() writes it. */
    bool fresh;                /* Was made just now. */
};

/* Open and lock DIR for `role`, making it when it does not exist or is empty. Refuses, changing
 * nothing: a directory that holds other things, another role, a newer format, a damaged identity
 * file, one in use. */
int datadir_open(struct datadir *d, const char *path, const char *role, struct errmsg *err);

/* Write the identity (cluster, node or marks were learned), in our format whatever it was. */
int datadir_save(struct datadir *d, struct errmsg *err);
void datadir_close(struct datadir *d);

/* 16 random bytes from the kernel. */
void random_bytes(void *bytes, size_t count);

/* Hash of /proc/sys/kernel/random/boot_id, never 0. Random where that cannot be read. */
uint64_t boot_id(void);

#endif
