/* Data sets as a cache: when they were used, what of them is evicted, and what may not be (datasets/evict.h). */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/namespace_txn.h"

/* MORSEL_NODATA: there is no such set. */
static int head_now(const struct ns_txn *t, uint64_t number, struct set_head *head)
{
    const struct data_set *set = sets_find(&t->ns->sets, number);

    if (set == NULL) {
        return MORSEL_NODATA;
    }
    *head = set->head;
    return 0;
}

int apply_set_used(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct set_head head;
    int rv = head_now(t, op->set_used.set, &head);

    if (rv != 0) {
        return rv;
    }
    if (!set_uses_sound(&op->set_used.uses)) {
        return MORSEL_INVAL;
    }
    head.uses = op->set_used.uses;
    head.first_ns = op->set_used.first_ns != 0 ? op->set_used.first_ns : head.first_ns;
    txn_set_head(t, &head);
    return 0;
}

int apply_set_mark(struct ns_txn *t)
{
    struct set_head head;
    int rv = head_now(t, t->op->set_mark.set, &head);

    if (rv != 0) {
        return rv;
    }
    head.pinned = t->op->set_mark.pinned;
    txn_needs_version(
        t,
        STORE_VERSION_EVICTION); /* Also one that is no longer pinned: who reads the log must know. */
    t->op->target = head.inode;
    txn_set_head(t, &head);
    return 0;
}

/* Nobody has the morsel any more. */
static int take_away(struct ns_txn *t, const struct data_set *set, struct set_morsel *m)
{
    int rv = 0;

    for (uint32_t i = 0; rv == 0 && i < m->donor_count; i++) {
        if (!set_is_waste(set, m->donors[i], m->number)) {
            rv = txn_set_waste(t, m->donors[i], (struct op_run){ set->head.number, m->number, 1 },
                               true);
        }
    }
    m->donor_count = 0;
    return rv != 0 ? rv : txn_set_change(t, set->head.number, m);
}

/* Of what has been evicted before only that goes which has come back. MORSEL_FBIG: more than may go at a time. What goes is deleted, and nothing of it may come to be forgotten: a morsel that is stored anew
 * must not be put where the deletion of the one before is still on its way. */
static int take_end(struct ns_txn *t, const struct data_set *set, uint32_t kept)
{
    const struct set_notes *n = &t->ns->notes;
    struct set_morsel m;
    int rv = 0;

    for (uint32_t from = kept; rv == 0 && set_next(set, from, &m); from = m.number + 1) {
        if (m.donor_count == 0) {
            continue;
        }
        if (n->change_count == OP_EVICT_MAX ||
            set->waste_count + n->waste_count + m.donor_count > SET_WASTE_MAX) {
            return MORSEL_FBIG;
        }
        rv = take_away(t, set, &m);
    }
    return rv;
}

int apply_set_evict(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    const struct data_set *set = sets_find(&t->ns->sets, op->set_evict.set);
    const struct set_notes *n = &t->ns->notes;
    struct set_head head;
    int rv = head_now(t, op->set_evict.set, &head);

    if (rv != 0) {
        return rv;
    }
    if (!set_may_go(&head) || !head.sealed || head.pinned ||
        op->set_evict.kept >= SET_MORSELS_MAX) {
        return MORSEL_INVAL;
    }
    if ((rv = take_end(t, set, op->set_evict.kept)) != 0 ||
        (rv = sets_reserve(&t->ns->sets, &head, n->changes, n->change_count, n->waste_count)) !=
            0) {
        return rv;
    }
    if (head.evicted && op->set_evict.kept >= head.kept && n->change_count == 0) {
        return MORSEL_INVAL; /* Nothing of it is there that could go. */
    }
    head.kept = head.evicted && head.kept < op->set_evict.kept ? head.kept : op->set_evict.kept;
    head.evicted = true;
    t->op->target = head.inode;
    txn_set_pages(t);
    txn_set_head(t, &head);
    return 0;
}
