/* The voter set on a server's disk, as the manager has told it last: DIR/voters (kept_file.h), a
 * VoterSet. It says whom to ask for a vote when the manager cannot be reached. */
#ifndef MORSEL_IOD_VOTERS_KEPT_FILE_H
#define MORSEL_IOD_VOTERS_KEPT_FILE_H

#include "common/base/buf.h"
#include "common/base/errmsg.h"
#include "vote.pb-c.h"

/* To be freed with morsel__voter_set__free_unpacked(); NULL when there is none, or it fails with one
 * sentence: MORSEL_CORRUPT, MORSEL_VERSION, MORSEL_NOMEM, MORSEL_IO ... */
int voters_kept_read(const char *dir, Morsel__VoterSet **set, struct errmsg *err);

/* What the file is to hold. False: no memory, or it is no voter set. */
bool voters_kept_fill(const Morsel__VoterSet *set, struct buf *bytes);

/* In place of what was there; 0 when it is on disk. */
int voters_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err);

#endif
