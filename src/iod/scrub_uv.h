/* The host of scrub.h: its timer, the reading in the pool, what goes to the log and to the manager, and the file in which it
 * outlives the daemon (scrub_kept_file.h). */
#ifndef MORSEL_IOD_SCRUB_UV_H
#define MORSEL_IOD_SCRUB_UV_H

#include "common/serve/object_server_uv.h"
#include "iod/replica/groups_uv.h"
#include "iod/scrub.h"
#include "meta.pb-c.h"

enum { SCRUB_RATE_MIN = 65536 };

/* A heartbeat's, with what it points to. */
struct scrub_told
{
    Morsel__Scrub message;
    Morsel__ScrubFinding findings[SCRUB_TOLD_MAX], *pointers[SCRUB_TOLD_MAX];
};

struct scrubber
{
    /* The owner's; all else is zero. */
    struct object_server *server;
    struct groups *groups;
    uint64_t rate; /* Bytes a second; 0: off, and nothing is read. */
    uint64_t every_ms;

    /* The module's own. */
    struct scrub core;
    uv_timer_t timer;
    bool open, stopping;
    bool keeping, keep_again, keep_failed; /* keep_failed: it is in the log. */
    uint8_t *bytes;                        /* STORE_SCRUB_BYTES, to read into. */
};

/* Read what the disk has of it, and begin; `server` has been started. Blocks. MORSEL_INVAL with a sentence: no such rate. */
int scrubber_open(struct scrubber *s, struct errmsg *err);

/* No more is begun. */
void scrubber_stop(struct scrubber *s);

/* After the loop has ended, while the directory is ours: what is to be known at the next start goes to the disk. */
void scrubber_free(struct scrubber *s);

/* For the heartbeat. NULL: it is off. */
Morsel__Scrub *scrubber_tell(const struct scrubber *s, struct scrub_told *told);

#endif
