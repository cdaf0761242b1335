/* Who fetches which morsels from where their data sets come from just now, so that each is fetched by one mount alone, and where
 * he puts them then.
 *
 * Pure, and soft state: a manager that was started anew knows of none, and mounts fetch twice then. A mount *claims* morsels that nobody
 * has, is told at which benefactors to put each, and says what came of it. All claims of a mount on one set live for CLAIM_MS from when it
 * was last heard of that set; one that has died holds others up for no longer. What it may have put somewhere by then is to be deleted.
 *
 * Bounds: CLAIMS_MAX in all, CLAIMS_HELD_MAX of one mount on one set.
 *
 * Invariants (claims_check()): those bounds; each morsel is claimed once; holders ascend by when they are over.
 */
#ifndef MORSEL_META_DATASETS_CLAIMS_H
#define MORSEL_META_DATASETS_CLAIMS_H

#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

enum {
    CLAIM_MS = 10000,
    CLAIMS_MAX = 16384, /* About 100 bytes each. */
    CLAIMS_HELD_MAX =
        1024 /* Two stretches (origin_pace.h) of the smallest morsels, and twice that on their way. */
};

struct claim_key
{
    uint64_t set, morsel;
};

struct claim_holder_key
{
    uint64_t client, set;
};

struct claim_holder;

struct claim
{
    struct claim_key key;
    UT_hash_handle hh;
    struct list node; /* In claim_holder.claims. */
    struct claim_holder *holder;
    uint32_t copies; /* So many of: */
    donor_id donors[REPLICAS_MAX];
};

struct claim_holder
{
    struct claim_holder_key key;
    UT_hash_handle hh;
    struct list node; /* In claims.order. */
    struct list claims;
    uint32_t count;
    uint64_t until_ms;
};

struct claims
{
    struct claim *by_morsel;
    struct claim_holder *holders;
    struct list order; /* Of holders: who is over first. */
    uint32_t count;
};

void claims_init(struct claims *c);

/* Also of one that is all zero. */
void claims_free(struct claims *c);

/* NULL: nobody claims it. Those that are over are still found, until claims_over() has taken them. */
const struct claim *claims_find(const struct claims *c, uint64_t set, uint32_t morsel);

client_id claim_client(const struct claim *claim);

/* The client fetches the morsel, and puts it at these; all that it claims of the set lives on. False: another one claims it, there are
 * too many claims, or no memory: nothing was changed. */
bool claims_put(struct claims *c, client_id client, uint64_t set, uint32_t morsel,
                const donor_id *donors, uint32_t copies, uint64_t now_ms);

/* All that it claims of the set lives on. */
void claims_renew(struct claims *c, client_id client, uint64_t set, uint64_t now_ms);

/* It fetches it no more. False: it does not claim it. */
bool claims_end(struct claims *c, client_id client, uint64_t set, uint32_t morsel);

/* One that is over, and stays until claims_end(). NULL: there is none. */
const struct claim *claims_first_over(const struct claims *c, uint64_t now_ms);

/* It is not to be put at the last of its donors any more. It is claimed, and there is one. */
void claims_drop_last(struct claims *c, uint64_t set, uint32_t morsel);

/* One that is over is taken out, and is in *out: its key, copies and donors. False: there is none. */
bool claims_over(struct claims *c, uint64_t now_ms, struct claim *out);

/* CHECKs the invariants. */
void claims_check(const struct claims *c);

#endif
