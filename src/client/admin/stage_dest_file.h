/* The file of class scavenged into which something is staged: who is at it, where its bytes come from, and what of them is there.
 *
 * Who stages holds flock(2) on the file, which counts across mounts and ends with the program or its mount. So of several that stage
 * the same one works, and the others wait. That an earlier one's mount has written all that it had is the manager's word: it
 * refuses to let another one go on before (EBUSY). */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_DEST_FILE_H
#define MORSEL_CLIENT_ADMIN_STAGE_DEST_FILE_H

#include "client/admin/hidden_file.h"
#include "common/base/errmsg.h"
#include "common/fs/origin.h"

enum { STAGE_PATH_MAX = 4096 };

struct stage_dest
{
    char path[STAGE_PATH_MAX];
    int lock_fd;  /* -1: it is not there, or not held. */
    int write_fd; /* -1 */
    bool made;    /* By us. */
    struct hidden_file hidden;

    /* What it was when it was locked: */
    bool has_origin;
    struct origin origin;
    uint64_t size;
    bool sealed;
    uint64_t resume; /* Up to there it has all bytes that come from its origin, in whole morsels. */
    bool whole;      /* All of them. */
};

/* Where to: `dest` is a file, or a directory in which it gets `name` (NULL: it has none). It lies on a MorselFS, and its bytes on
 * benefactors, or will. 0, or what failed with words: MORSEL_INVAL where the command line is wrong. */
int stage_dest_find(struct stage_dest *d, const char *dest, const char *name, struct errmsg *why);

/* Called at once and each second while somebody else stages it, which has come to `size` of `whole` bytes. */
typedef void (*stage_waits)(void *data, uint64_t size, uint64_t whole);

/* Lock it, if it is there, and look at it. */
int stage_dest_lock(struct stage_dest *d, stage_waits waits, void *data, struct errmsg *why);

/* Make it, locked. MORSEL_AGAIN: somebody else has just done so. */
int stage_dest_make(struct stage_dest *d, struct errmsg *why);

/* It holds nothing any more. MORSEL_AGAIN, also of stage_dest_begin(): another file has its name now. */
int stage_dest_empty(struct stage_dest *d, struct errmsg *why);

/* We store it from now on, and its bytes come from there; its first byte that is written is at `from`. */
int stage_dest_begin(struct stage_dest *d, const struct origin *origin, uint64_t from,
                     struct errmsg *why);

int stage_dest_write(struct stage_dest *d, const void *bytes, size_t count, struct errmsg *why);

/* All of it is written, `size` bytes: it is closed, and sealed when this returns. */
int stage_dest_finish(struct stage_dest *d, const struct origin *origin, uint64_t size,
                      struct errmsg *why);

/* The end of storing: it is closed, and sealed when this returns. */
int stage_dest_seal(struct stage_dest *d, uint64_t size, struct errmsg *why);

/* Store it without a name, to be given one when it is complete (stage_dest_show()); who is interrupted leaves nothing. MORSEL_DQUOT: a
 * set of that size (ORIGIN_SIZE_UNKNOWN) is not allowed. */
int stage_dest_hide(struct stage_dest *d, uint64_t size, struct errmsg *why);

/* It gets its name, which nobody has; MORSEL_EXIST. `replace`: or whatever has it goes. */
int stage_dest_show(struct stage_dest *d, bool replace, struct errmsg *why);

/* Let go of it. `undo`: what we have made is deleted. */
void stage_dest_leave(struct stage_dest *d, bool undo);

#endif
