/* Hours of benefactors: what the manager sees goes into the core (hours.h), and what it has learned into the store. */
#ifndef MORSEL_META_CLUSTER_HOURS_UV_H
#define MORSEL_META_CLUSTER_HOURS_UV_H

#include "meta/meta_uv.h"

/* What was kept. The namespace is open. MORSEL_NOMEM, or a failure of the database. */
int hours_open(struct meta *meta, struct errmsg *err);

/* A benefactor has come, or gone. */
void hours_came(struct meta *meta, donor_id id);
void hours_went(struct meta *meta, donor_id id);

/* Now and then: hours end, and some records are written. */
/* For how long it is away; 0: it is here, or that is not known. */
uint64_t hours_away_ms(struct meta *meta, donor_id id);

void hours_pulse(struct meta *meta, uint64_t now_ms);

#endif
