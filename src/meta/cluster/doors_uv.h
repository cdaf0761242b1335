/* The manager knocks where clients are to find benefactors (doors.h). */
#ifndef MORSEL_META_CLUSTER_DOORS_UV_H
#define MORSEL_META_CLUSTER_DOORS_UV_H

#include "meta/meta_uv.h"

/* Every PRESENCE_PULSE_MS. */
void doors_pulse(struct meta *meta, uint64_t now_ms);

/* Before the loop ends: what is under way is for nobody. */
void doors_close(struct meta *meta);

#endif
