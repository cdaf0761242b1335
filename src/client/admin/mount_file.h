/* Which mounted MorselFS a path lies on, from /proc/self/mountinfo. */
#ifndef MORSEL_CLIENT_ADMIN_MOUNT_FILE_H
#define MORSEL_CLIENT_ADMIN_MOUNT_FILE_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

enum { MOUNT_TEXT_MAX = 4096 }; /* PATH_MAX of Linux */

struct mount_info
{
    char type[64];               /* "fuse.morsel" */
    char source[MOUNT_TEXT_MAX]; /* Of a MorselFS: the manager, HOST:PORT. */
    char point[MOUNT_TEXT_MAX];
    char root[MOUNT_TEXT_MAX]; /* What of the file system lies there: "/" but for bind mounts. */
};

/* The mount that holds `path`, whatever its type. MORSEL_NOENT and the like when the path cannot be
 * looked at. */
int mount_find(const char *path, struct mount_info *mount_out, struct errmsg *err);

/* The same, and MORSEL_INVAL with a sentence when it is no MorselFS. */
int mount_find_morsel(const char *path, struct mount_info *mount_out, struct errmsg *err);

/* All mounts, in the order in which they were made. */
void mount_each(void (*visit)(void *data, const struct mount_info *mount), void *data);

/* True when something is mounted exactly at `point` (absolute, without symbolic links). */
bool mount_at(const char *point, struct mount_info *mount_out);

#endif
