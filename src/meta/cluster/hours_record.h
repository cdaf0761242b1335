/* How the hours of a benefactor are kept in the store (A). Pure. Decoding trusts nothing, as in record.h. */
#ifndef MORSEL_META_CLUSTER_HOURS_RECORD_H
#define MORSEL_META_CLUSTER_HOURS_RECORD_H

#include "common/base/buf.h"
#include "meta/cluster/hours.h"

void hours_encode(const struct hours_record *record, struct buf *out);

/* MORSEL_CORRUPT, MORSEL_VERSION. */
int hours_decode(donor_id id, struct slice bytes, struct hours_record *record);

#endif
