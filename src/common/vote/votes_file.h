/* The votes of a voter on disk: DIR/votes, as votes_format.h has it.
 *
 * An append and a sync for each batch; when the file has grown, or something has failed, it is
 * replaced as a whole (replace_file.h). Whatever cannot be written and synced is refused, and what
 * was on disk before is still there. Calls block: they are for the pool. One at a time for a file.
 *
 * A vote is never forgotten: a file that is damaged is not read as far as it goes, but refused, and
 * its voter needs a new id (votes_file_renew()). */
#ifndef MORSEL_COMMON_VOTE_VOTES_FILE_H
#define MORSEL_COMMON_VOTE_VOTES_FILE_H

#include "common/base/errmsg.h"
#include "common/vote/voter.h"

enum { VOTES_APPENDED_BYTES_MAX = 256 << 10 }; /* Behind the last whole file, and its own size. */

struct votes_file;

/* Open DIR/votes and make the voter that it holds; where there is none, one under the id `fresh`
 * (random, not 0), and on disk. `file` and `voter` are the caller's; NULL when it fails:
 *   MORSEL_CORRUPT  votes may be lost: see votes_file_renew()
 *   MORSEL_VERSION  a newer format
 *   MORSEL_NOMEM, MORSEL_NOSPC, MORSEL_IO ... */
int votes_file_open(const char *dir, voter_id fresh, struct votes_file **file, struct voter **voter,
                    struct errmsg *err);
void votes_file_close(struct votes_file *f); /* NULL is allowed. */

/* Put the damaged file aside, as DIR/votes.damaged, so that the next open makes a new one. */
int votes_file_renew(const char *dir, struct errmsg *err);

/* Is the next write to be of all records, because the file has grown or is not sound at its end? */
bool votes_file_wants_all(const struct votes_file *f);

/* Write what has changed (`all` false; votes_file_wants_all() is false), or all records in place of
 * the file. 0 when it is on disk. Otherwise nothing of it counts, and the next write has to be of
 * all. */
int votes_file_write(struct votes_file *f, bool all, uint64_t set_version,
                     const struct vote_record *records, uint32_t count, struct errmsg *err);

#endif
