/* One file gets the layout that new files in its directory get: common/fs/exchange.h has the steps. */
#ifndef MORSEL_CLIENT_ADMIN_RECOPY_FILE_H
#define MORSEL_CLIENT_ADMIN_RECOPY_FILE_H

#include "client/admin/recopy_bytes_file.h"
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

enum { RECOPY_PAUSED_BYTES = 128 << 20 /* For `paused_bytes`, at first. */ };

/* The file `path` in `directory`. `st` is what it was when it was found: another one of that name is not
 * touched. What other mounts write to is copied while these hold still, if that is up to `*paused_bytes`, which become less where it
 * takes too long; of what is long it is only what was changed since it was copied beforehand. Otherwise than RECOPY_DONE nothing
 * has changed, and `why` says it in words. */
enum recopy_outcome recopy_one(const char *directory, const char *path, const struct stat *st,
                               uint64_t *paused_bytes, recopy_go_on go_on, void *data,
                               struct errmsg *why);

#endif
