/* Staging one file: what lies at a URL becomes a data set (stage_file.c). */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_FILE_H
#define MORSEL_CLIENT_ADMIN_STAGE_FILE_H

#include "client/admin/admin.h"
#include "client/admin/print_file.h"
#include "client/admin/stage_dest_file.h"

/* What came of it. */
struct staged
{
    char url[ORIGIN_URL_MAX + 1]; /* As it is kept: of s3:// the one of its server. */
    char path[STAGE_PATH_MAX];
    uint64_t size, got,
        begun_at; /* Bytes: all of them, those that were fetched, and where they began. */
    bool was_complete;
    bool waited;               /* For somebody else. */
    bool fetchable;            /* Mounts can fetch it again: it may be evicted. */
    struct errmsg unfetchable; /* Or why not. */
};

/* The URL is as a user says it; libcurl is initialised. `dest` as stage_dest_find() takes it. 0, or why not with words:
 * MORSEL_INVAL where the command line is wrong, MORSEL_UNREACHABLE. */
int stage_url(const struct admin_settings *settings, const char *url, const char *dest,
              struct staged *staged, struct errmsg *why);

/* A line, and one more where it counts as data; or an object. */
void staged_print(const struct staged *staged);
json_t *staged_json(const struct staged *staged);

/* morsel stage -r, and --list. */
int stage_tree(const struct admin_settings *settings, const char *source, const char *dest);
int stage_list(const struct admin_settings *settings, const char *dest);

#endif
