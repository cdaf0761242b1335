/* Benefactors that do not come back are forgotten (datasets/forget.h): because an administrator says so, or because they have been away for
 * too long. */
#ifndef MORSEL_META_CLUSTER_FORGETS_UV_H
#define MORSEL_META_CLUSTER_FORGETS_UV_H

#include "meta/meta_uv.h"

/* Every PRESENCE_PULSE_MS: the next step. */
void forgets_pulse(struct meta *meta, uint64_t now_ms);

#endif
