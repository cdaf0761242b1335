/* Who fetches bytes of a data set from where it comes from: the program gives him to its client, for a mount does not visit URLs itself
 * (fuse/origin_child_proc.h has another process do it).
 *
 * All on the thread of the client's loop. What comes is believed by nobody before the digests of the manager's map have been looked at.
 */
#ifndef MORSEL_CLIENT_DATASETS_ORIGIN_POWER_H
#define MORSEL_CLIENT_DATASETS_ORIGIN_POWER_H

#include "common/fs/origin.h"

enum origin_end {
    ORIGIN_DONE,    /* All bytes that were asked for came. */
    ORIGIN_CHANGED, /* It is another one than it was: with words, as what follows. */
    ORIGIN_FAILED   /* It is not reached, or breaks off. */
};

enum {
    ORIGIN_PART_CHANGED = 10
}; /* An exit code: ORIGIN_CHANGED, between origin_part_proc.c and who starts it. */

/* Bytes [from, from + length) of an origin, if it still is what is known of it. The caller's, unchanged until it has ended. */
struct origin_part
{
    const struct origin *origin;
    inode_id inode; /* Of the file whose data set it is. */
    uint64_t from, length;
    uint64_t silent_ms; /* So long it may say nothing. */
    void *data;
    /* Where the next bytes go, at most *count; 0: no more are wanted, and none may come. */
    uint8_t *(*room)(void *data, size_t *count);
    /* They are there. The part may be stopped within. */
    void (*came)(void *data, size_t count);
    /* Once, unless it was stopped before; `words` say why, for the log. */
    void (*ended)(void *data, enum origin_end end, const char *words);
    void *visit; /* His who fetches. */
};

struct origin_power
{
    void *data;
    /* 0, or a status: then nothing follows. Nothing comes before it has returned. */
    int (*start)(void *data, struct origin_part *part);
    /* Of one that has not ended: nothing comes of it any more. */
    void (*stop)(struct origin_part *part);
};

#endif
