/* The files of one copy, in DIR/copies: NUMBER.state, NUMBER.dirty, NUMBER.ops-GENERATION
 * (copy_format.h, dirty_format.h). What is synced blocks: for the start, and for the pool. One call
 * at a time for each file.
 *
 * The memory of operations is appended to on the loop (copy_file_operation(): 64 bytes for the page
 * cache), and is in the kernel's hands when that returns; copy_file_sync() has it on the disk. When it has grown
 * beyond what is worth keeping, and when another server's has taken its place, another generation is
 * begun (copy_file_renew()) with what is known; the older ones go when that is on the disk. So of all
 * that are there the oldest one was synced; of later ones a loss of power may leave anything, and what it
 * left goes with the first state that names the next boot. */
#ifndef MORSEL_IOD_REPLICA_COPY_FILE_H
#define MORSEL_IOD_REPLICA_COPY_FILE_H

#include "common/base/errmsg.h"
#include "iod/replica/copy_format.h"
#include "iod/replica/dirty_format.h"

struct copy_file;

/* What there ought to be. */
enum copy_file_kind {
    COPY_FILE_NEW, /* Nothing, or what a start that was cut short has left: all members are new. */
    COPY_FILE_NEWCOMER, /* Likewise; the others are not: group_record_newcomer(). */
    COPY_FILE_KNOWN     /* All of it. */
};

/* What the disk had; each `visit` false: it has no memory. */
struct copy_file_found
{
    bool state; /* There is one: `record`. */
    struct group_record record;
    bool forgot; /* Operations that nobody else may know: `record` says that something is lost. */
    struct errmsg
        trouble; /* Something was missing or damaged, and what is done about it; empty: nothing. */
    bool (*dirty)(void *data, const struct dirty_record *record);
    bool (*operation)(void *data, const struct copy_operation *op); /* The latest first. */
    void *data;
};

/* Read the files of `name`, or make them; copy_file_renew() is due next.
 *
 * What is lost or damaged is made up for: without a sound state, and without a sound memory of operations
 * where others may be up to date, the copy begins as a newcomer does; who stands alone has lost something then, as
 * behind a loss of power, and goes on under another verifier. Without a sound dirty file everything counts as changed.
 * So does a state of an earlier holding of the place.
 * Otherwise MORSEL_CORRUPT; and MORSEL_VERSION, MORSEL_NOMEM and what the disk says, in one sentence; nothing
 * is changed then. */
int copy_file_open(const char *dir, const struct copy_name *name, enum copy_file_kind kind,
                   uint64_t boot, struct copy_file_found *found, struct copy_file **file_out,
                   struct errmsg *err);

/* The files of a copy that is over go. Blocks. */
int copy_file_remove(const char *dir, group_number group, struct errmsg *err);

void copy_file_close(struct copy_file *f); /* NULL is allowed. */

/* In place of what was there; 0: on the disk. Under another boot than before the memory is synced first. */
int copy_file_state(struct copy_file *f, const struct group_record *record, struct errmsg *err);

/* Behind what is there: 0: on the disk. */
int copy_file_note(struct copy_file *f, const struct dirty_record *records, uint32_t count,
                   struct errmsg *err);

/* In place of what was there: a header and entries (dirty_format.h), of which `last` is the number of the
 * last one. 0: on the disk. */
int copy_file_rewrite(struct copy_file *f, const struct buf *all, uint64_t last,
                      struct errmsg *err);

/* 0: in the kernel's hands. */
int copy_file_operation(struct copy_file *f, const struct copy_operation *op, struct errmsg *err);

/* What was noted of operations before the call is on the disk. Behind a call that failed all others do. From several
 * threads. */
int copy_file_sync(struct copy_file *f, struct errmsg *err);

/* Has the memory grown so far beyond `count` operations that it should be begun anew? */
bool copy_file_wants_renewal(const struct copy_file *f, uint32_t count);

/* From now on operations go to another generation. `keep` puts into it what is to be known, by
 * copy_file_operation(); the next copy_file_sync() takes what is older from the disk. When `keep` says
 * false, both stay. */
int copy_file_renew(struct copy_file *f, bool (*keep)(void *data), void *data, struct errmsg *err);

#endif
