/* What mounts fetch from origins goes back to benefactors: what becomes of that in the maps (claims.h). */
#ifndef MORSEL_META_DATASETS_CLAIMS_UV_H
#define MORSEL_META_DATASETS_CLAIMS_UV_H

#include "meta/meta_uv.h"

/* The donor may have something of the morsel that does not count: it is to be deleted there. A status, as of meta_execute(). */
int claims_forget(struct meta *meta, uint64_t set, uint32_t morsel, donor_id donor);

/* The donor has all of the morsel: it is named, if the morsel is that still; otherwise as claims_forget(). */
int claims_returned(struct meta *meta, uint64_t set, const struct set_morsel *morsel,
                    donor_id donor);

/* Mounts that are not heard of any more claim nothing. */
void claims_pulse(struct meta *meta, uint64_t now_ms);

#endif
