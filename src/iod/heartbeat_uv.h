/* What an I/O daemon reports to the manager, every heartbeat: space, the state of its disk, as whom it
 * votes, and which of the objects that the manager has no use for any more are deleted. The answer
 * names the next of those, and who votes, where that is not what the daemon has on its disk
 * (voters_kept_file.h).
 */
#ifndef MORSEL_IOD_HEARTBEAT_UV_H
#define MORSEL_IOD_HEARTBEAT_UV_H

#include "common/base/buf.h"
#include "common/serve/membership_uv.h"
#include "common/vote/voter_uv.h"
#include "meta.pb-c.h"

struct groups;
struct scrubber;

struct heartbeat
{
    struct membership membership;    /* The owner sets what is the owner's, but for `report`. */
    const struct voter_uv *voter;    /* The owner's, too, */
    struct groups *groups;           /* and this, */
    const struct scrubber *scrubber; /* and that. */
    struct object_id *garbage;       /* Deleted, to be reported. Owned. */
    size_t garbage_count;
    Morsel__VoterSet *voters; /* On our disk; NULL: none. */
    Morsel__VoterSet *told;   /* Is being written; or these are: */
    Morsel__GroupSet *told_groups;
    struct object_id *in_groups; /* Garbage that is being deleted in the order of its groups; */
    struct object_id *gone;      /* what of it is, and not reported yet. Each NULL: none. */
    size_t gone_count;
    struct buf told_bytes;
    bool keep_failed; /* The last time; it is in the log. */
};

/* What is on the disk is read: this blocks. */
void heartbeat_read(struct heartbeat *h);

/* The voter set that we know; NULL: none. `data` is the heartbeat. */
const Morsel__VoterSet *heartbeat_voters(void *data);

/* Begin to register. */
void heartbeat_start(struct heartbeat *h);
/* There is something to be said: the next one comes soon. The data is struct heartbeat. */
void heartbeat_hurry(void *data);

void heartbeat_stop(struct heartbeat *h);

/* After the loop has ended. */
void heartbeat_free(struct heartbeat *h);

#endif
