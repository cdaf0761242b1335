/* The groups of a server on its disk, as the manager has told them last: DIR/groups (kept_file.h), a
 * GroupSet. A copy of a group that is named there was here before. */
#ifndef MORSEL_IOD_REPLICA_GROUPS_KEPT_FILE_H
#define MORSEL_IOD_REPLICA_GROUPS_KEPT_FILE_H

#include "common/base/buf.h"
#include "common/base/errmsg.h"
#include "meta.pb-c.h"

/* As voters_kept_read(), voters_kept_fill() and voters_kept_write(). */
int groups_kept_read(const char *dir, Morsel__GroupSet **set, struct errmsg *err);
bool groups_kept_fill(const Morsel__GroupSet *set, struct buf *bytes);
int groups_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err);

/* How often a server was started on this directory, this start included: DIR/starts, on the disk when
 * this returns. A number is never given twice. On a failure *start is 0. */
int groups_count_start(const char *dir, uint64_t *start, struct errmsg *err);

#endif
