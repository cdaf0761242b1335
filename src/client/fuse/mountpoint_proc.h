/* The place where we mount: what is there already, its flags, and the kernel's read-ahead once we
 * are there. */
#ifndef MORSEL_CLIENT_FUSE_MOUNTPOINT_PROC_H
#define MORSEL_CLIENT_FUSE_MOUNTPOINT_PROC_H

#include "common/base/errmsg.h"
#include "common/daemon/log.h"

enum { MOUNTPOINT_TEXT_MAX = 4096 }; /* PATH_MAX of Linux */

/* Make sure that `path` is a directory on which we may mount, and give its absolute path. The dead
 * mount of a MorselFS program that was killed is cleared away. MORSEL_NOENT, MORSEL_NOTDIR,
 * MORSEL_BUSY with a sentence. */
int mountpoint_prepare(const char *path, char absolute[MOUNTPOINT_TEXT_MAX], struct log *log,
                       struct errmsg *err);

/* Change the kernel's flags of the MorselFS that is mounted on `path` by `options` ("ro,noatime");
 * what they do not name stays. MORSEL_INVAL when none is mounted there, MORSEL_BUSY for "ro" while
 * files are open for writing, MORSEL_PERM, each with a sentence. */
int mountpoint_remount(const char *path, const char *options, struct errmsg *err);

/* Raise the kernel's read-ahead of the mount to `bytes` where we are permitted; silently not
 * otherwise. Asks nothing of the mount itself. */
void mountpoint_read_ahead(const char *absolute, unsigned bytes);

#endif
