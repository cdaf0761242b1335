/* Data sets that nobody goes on with, as the manager's host sees them (unfinished.h): when their time has come, and that they are let go. */
#ifndef MORSEL_META_DATASETS_UNFINISHED_UV_H
#define MORSEL_META_DATASETS_UNFINISHED_UV_H

#include "meta/meta_uv.h"

void unfinished_open(struct meta *meta);
void unfinished_close(struct meta *meta);

/* Every PRESENCE_PULSE_MS. */
void unfinished_pulse(struct meta *meta, uint64_t now_ms);

#endif
