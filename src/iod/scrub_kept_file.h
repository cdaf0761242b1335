/* What outlives the daemon of its scrub: how far the pass is, and what was told of damage. DIR/scrub, a ScrubKept
 * (kept_file.h). Calls block: they are for the start, the end, and the pool. */
#ifndef MORSEL_IOD_SCRUB_KEPT_FILE_H
#define MORSEL_IOD_SCRUB_KEPT_FILE_H

#include "common/base/buf.h"
#include "common/base/errmsg.h"
#include "iod/scrub.h"
#include "meta.pb-c.h"

/* `*found` false: there is none. The findings have room for SCRUB_FINDINGS_MAX. Fails with one sentence, then there is none to be had. */
int scrub_kept_read(const char *dir, bool *found, struct scrub_position *position,
                    struct scrub_finding *findings, uint32_t *findings_count, struct errmsg *err);

/* What the file is to hold. False: no memory. */
bool scrub_kept_fill(const struct scrub *s, struct buf *bytes);

/* 0 when it is on disk. */
int scrub_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err);

/* A finding as a message. */
void scrub_finding_fill(const struct scrub_finding *finding, Morsel__ScrubFinding *message);

#endif
