/* Drawn operations about what goes of data sets, for tests of the operation log: mostly of a set that there is. */
#ifndef MORSEL_TESTS_LIB_EVICT_OP_H
#define MORSEL_TESTS_LIB_EVICT_OP_H

#include "common/base/prng.h"
#include "meta/datasets/sets.h"
#include "meta/namespace/op.h"

/* Of the kind that it has. False: that is another one. */
static inline bool draw_evict_op(struct prng *prng, const struct sets *sets, struct meta_op *op)
{
    uint64_t set = prng_below(prng, 1000);

    if (sets->count > 0 && prng_below(prng, 8) > 0) {
        set = sets->items[prng_below(prng, sets->count)]->head.number;
    }
    if (op->kind == OP_SET_USED) {
        op->set_used.set = set;
        op->set_used.first_ns = (int64_t)prng_next(prng);
        op->set_used.uses.count = (uint32_t)prng_below(prng, LRU_K_MAX + 3);
        for (uint32_t i = 0; i < LRU_K_MAX; i++) {
            op->set_used.uses.times_ns[i] =
                1000 - 100 * (int64_t)i + (int64_t)prng_below(prng, 110);
        }
        op->set_used.uses.last_ns = prng_below(prng, 4) == 0 ? (int64_t)prng_next(prng) : 2000;
    } else if (op->kind == OP_SET_EVICT) {
        op->set_evict.set = set;
        op->set_evict.kept =
            prng_below(prng, 2) == 0 ? (uint32_t)prng_below(prng, 300) : (uint32_t)prng_next(prng);
    } else if (op->kind == OP_SET_MARK) {
        op->set_mark.set = set;
        op->set_mark.pinned = prng_below(prng, 8) == 0;
    } else if (op->kind == OP_SET_LET_GO) {
        op->set_let_go.set = set;
    } else if (op->kind == OP_DONOR_FORGET) {
        op->donor_forget.donor = (donor_id)prng_below(prng, 6);
    } else {
        return false;
    }
    return true;
}

#endif
