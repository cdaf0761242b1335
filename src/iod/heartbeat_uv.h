/* What an I/O daemon reports to the manager, every heartbeat: space, the state of its disk, and which
 * of the objects that the manager has no use for any more are deleted. The answer names the next
 * of those.
 */
#ifndef MORSEL_IOD_HEARTBEAT_UV_H
#define MORSEL_IOD_HEARTBEAT_UV_H

#include "common/serve/membership_uv.h"

struct heartbeat
{
    struct membership membership; /* The owner sets what is the owner's, but for `report`. */
    struct object_id *garbage;    /* Deleted, to be reported. Owned. */
    size_t garbage_count;
};

/* Begin to register. */
void heartbeat_start(struct heartbeat *h);
void heartbeat_stop(struct heartbeat *h);

/* After the loop has ended. */
void heartbeat_free(struct heartbeat *h);

#endif
