/* Files of the same cluster as what is staged: mounts read one of class durable again themselves (docs/benefactors.md, Origins), so that
 * a data set of it is a cache. Other files, and those of other clusters, are file: URLs as ever. */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_INSIDE_FILE_H
#define MORSEL_CLIENT_ADMIN_STAGE_INSIDE_FILE_H

#include "client/admin/mount_file.h"
#include "client/admin/stage_curl.h"
#include "common/base/errmsg.h"
#include "common/fs/exchange.h"
#include "common/fs/origin.h"

struct stage_inside
{
    bool is_inside;            /* It is a file of the cluster, */
    char path[MOUNT_TEXT_MAX]; /* which lies here, */
    uint64_t inode;            /* and is this one. */
    bool has_changed;          /* While stage_inside_run() read it. */
    int fd;                    /* The module's own. */
};

/* Is `given` a path, or the file: URL of one? Then `url` becomes what it is as an origin; otherwise it becomes empty. Where it is to go,
 * `dest`, says of which cluster. MORSEL_INVAL, MORSEL_NOENT and the like, with a sentence. */
int stage_inside_find(struct stage_inside *inside, const char *given, const char *dest,
                      char url[ORIGIN_URL_MAX + 1], struct errmsg *why);

/* Reads one that is inside as download_run() does what others have. The last bytes are handed on when it is certain that all were of one
 * version; else the end is DOWNLOAD_REFUSED, and has_changed. */
enum download_end stage_inside_run(struct stage_inside *inside, struct download *d,
                                   struct errmsg *why);

/* The scheme and the absolute path, with %XX for what a URL has not. False: too long. */
bool stage_path_url(const char *scheme, const char *path, char url[ORIGIN_URL_MAX + 1]);

#endif
