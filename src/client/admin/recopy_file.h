/* One file gets the layout that new files in its directory get: common/fs/exchange.h has the steps. */
#ifndef MORSEL_CLIENT_ADMIN_RECOPY_FILE_H
#define MORSEL_CLIENT_ADMIN_RECOPY_FILE_H

#include "common/fs/policy_text.h"

#include <sys/stat.h>

/* Servers that are to leave the cluster (`morsel iod drain`), and can be read from. */
struct recopy_drained
{
    uint32_t count;
    server_id servers[SERVERS_MAX];
};

/* Does the file lie otherwise than a new one in a directory with that policy would? A file with several
 * names may be meant to have what the directory of another one says: it gets more copies, and nothing
 * else. How many servers there are is no reason, but for a file with one copy that needs one of those which
 * are drained: groups move by themselves, and it does not. */
bool recopy_differs(const struct layout_text *layout, const struct policy_values *policy,
                    uint64_t names, const struct recopy_drained *drained);

/* Asked before each piece of bytes, and told how many were copied: false ends it. */
typedef bool (*recopy_go_on)(void *data, uint64_t bytes);

enum recopy_outcome {
    RECOPY_DONE,
    RECOPY_BUSY,    /* It is open on another mount, or was written meanwhile: later, perhaps. */
    RECOPY_GONE,    /* Nobody has it any more. */
    RECOPY_STOPPED, /* go_on() said so. */
    RECOPY_FAILED
};

enum { RECOPY_PAUSED_BYTES = 128 << 20 /* For `paused_bytes`, at first. */ };

/* The file `path` in `directory`. `st` is what it was when it was found: another one of that name is not
 * touched. What other mounts write to is copied while these hold still, if it has up to `*paused_bytes`; that becomes
 * less where it takes too long. Otherwise than RECOPY_DONE nothing has changed, and `why` says it in words. */
enum recopy_outcome recopy_one(const char *directory, const char *path, const struct stat *st,
                               uint64_t *paused_bytes, recopy_go_on go_on, void *data,
                               struct errmsg *why);

#endif
