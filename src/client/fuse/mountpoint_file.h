/* The place where we mount: what is there already, and the kernel's read-ahead once we are there.
 */
#ifndef MORSEL_CLIENT_FUSE_MOUNTPOINT_FILE_H
#define MORSEL_CLIENT_FUSE_MOUNTPOINT_FILE_H

#include "common/errmsg.h"
#include "common/log.h"

enum { MOUNTPOINT_TEXT_MAX = 4096 }; /* PATH_MAX of Linux */

/* Make sure that `path` is a directory on which we may mount, and give its absolute path. The dead
 * mount of a MorselFS program that was killed is cleared away. MORSEL_NOENT, MORSEL_NOTDIR,
 * MORSEL_BUSY with a sentence. */
int mountpoint_prepare(const char *path, char absolute[MOUNTPOINT_TEXT_MAX], struct log *log,
                       struct errmsg *err);

/* Raise the kernel's read-ahead of the mount to `bytes` where we are permitted; silently not
 * otherwise. Asks nothing of the mount itself. */
void mountpoint_read_ahead(const char *absolute, unsigned bytes);

#endif
