/* Repair of data sets: carries out what its core says (repair.h). */
#ifndef MORSEL_META_DATASETS_REPAIRS_UV_H
#define MORSEL_META_DATASETS_REPAIRS_UV_H

#include "meta/meta_uv.h"

/* The namespace is open, and who the benefactors are is known. */
void repairs_open(struct meta *meta);

/* The core's deadline, perhaps. */
void repairs_tick(struct meta *meta, uint64_t now_ms);

/* A benefactor says what came of a fetch. */
void repairs_fetched(struct meta *meta, const struct repair_task *fetched,
                     enum repair_outcome outcome);

#endif
