/* Copies of morsels that come and go beside what is stored: repair (datasets/repair.h). */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/namespace_txn.h"

static void take_out(struct set_morsel *morsel, donor_id donor)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        if (morsel->donors[i] != donor) {
            morsel->donors[kept++] = morsel->donors[i];
        }
    }
    morsel->donor_count = kept;
}

/* As far as there is room for more of it: what is left out is found when the benefactor says what it has. */
static int waste(struct ns_txn *t, const struct data_set *set, donor_id donor)
{
    const struct op_run run = { t->op->set_copy.set, t->op->set_copy.morsel, 1 };

    if (set == NULL) {
        return txn_set_waste_more(t, donor, run); /* All of the set may be waste there. */
    }
    if (set_is_waste(set, donor, run.first) ||
        set->waste_count + t->ns->notes.waste_count >= SET_WASTE_MAX) {
        return 0;
    }
    return txn_set_waste(t, donor, run, true);
}

/* Is the morsel what was fetched? */
static bool is_still(const struct ns_txn *t, const struct data_set *set, const struct set_morsel *m)
{
    const struct meta_op *op = t->op;

    return !m->rewriting && m->length == op->set_copy.length && m->digest == op->set_copy.digest &&
           !set_is_waste(set, op->set_copy.donor, m->number);
}

/* The morsel becomes `m`, and what `gone` (0: nobody) has of it is waste. */
static int become(struct ns_txn *t, const struct data_set *set, const struct set_morsel *m,
                  donor_id gone)
{
    int rv = txn_set_change(t, set->head.number, m);

    if (rv == 0 && gone != 0) {
        rv = waste(t, set, gone);
    }
    if (rv == 0) {
        rv = sets_reserve(&t->ns->sets, &set->head, t->ns->notes.changes, t->ns->notes.change_count,
                          t->ns->notes.waste_count);
    }
    if (rv == 0) {
        txn_set_pages(t);
    }
    return rv;
}

/* How far the walk goes for one operation: what is beyond is found when the next one comes back. */
enum { BACK_LOOKS = 1 << 16 };

/* The morsel has come back: of the set the morsels before the first one that is still missing are kept. Those behind that have come
 * back, too, are there all the same (set_has_evicted()). */
static void keep_more(struct ns_txn *t, const struct data_set *set, const struct set_morsel *back)
{
    struct set_head head = set->head;
    struct set_morsel m;

    for (uint32_t looks = 0; looks < BACK_LOOKS; looks++) {
        if (!set_next(set, head.kept, &m)) {
            head.evicted = false;
            head.kept = 0;
            break;
        }
        if (m.donor_count == 0 && m.length > 0 && m.number != back->number) {
            break;
        }
        head.kept = m.number + 1;
    }
    if (head.evicted != set->head.evicted || head.kept != set->head.kept) {
        txn_set_head(t, &head);
    }
}

/* MORSEL_INVAL: there is no room for one more. */
static int add(struct ns_txn *t, const struct data_set *set, struct set_morsel *m)
{
    donor_id instead = set_morsel_has(m, t->op->set_copy.instead) ? t->op->set_copy.instead : 0;
    bool comes_back = set_has_evicted(&set->head, m);
    int rv;

    take_out(m, instead);
    if (m->donor_count >= set->head.copies + SET_SURPLUS) {
        return MORSEL_INVAL;
    }
    m->donors[m->donor_count++] = t->op->set_copy.donor;
    rv = become(t, set, m, instead);
    if (rv == 0 && comes_back) {
        txn_needs_version(t, STORE_VERSION_LET_GO); /* Who knew of no return would forget it. */
        keep_more(t, set, m);
    }
    return rv;
}

/* Not unless what is left is enough: never the last one, whatever whoever asks has seen. */
static int drop(struct ns_txn *t, const struct data_set *set, struct set_morsel *m)
{
    uint32_t enough = t->op->set_copy.change == OP_COPY_YIELD ? 1 : set->head.copies;

    if (m->donor_count <= enough || set->waste_count >= SET_WASTE_MAX) {
        return MORSEL_INVAL;
    }
    if (t->op->set_copy.change == OP_COPY_YIELD) {
        txn_needs_version(t, STORE_VERSION_YIELD);
    }
    take_out(m, t->op->set_copy.donor);
    return become(t, set, m, t->op->set_copy.donor);
}

/* What came in vain. A set that was never made is of another state of the database, also one that its file may make yet: its
 * copies may count then, so nothing of that is deleted. */
static int forget(struct ns_txn *t, const struct data_set *set)
{
    struct inode file;
    int rv = 0;

    if (t->op->set_copy.set >= t->counters.inode_next) {
        return 0;
    }
    if (set == NULL) {
        rv = ns_object_file(t->ns, t->op->set_copy.set, &file, t->err);
        if (rv != MORSEL_STALE) {
            return rv;
        }
        rv = 0;
    } else {
        rv = sets_reserve(&t->ns->sets, &set->head, NULL, 0, 1);
    }
    return rv != 0 ? rv : waste(t, set, t->op->set_copy.donor);
}

int apply_set_copy(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    const struct data_set *set = sets_find(&t->ns->sets, op->set_copy.set);
    struct set_morsel m;
    bool there = set != NULL && set_get(set, op->set_copy.morsel, &m) &&
                 (op->set_copy.instead == OP_COPY_BACK || !set_has_evicted(&set->head, &m));
    bool named = there && set_morsel_has(&m, op->set_copy.donor);
    int rv = MORSEL_INVAL;

    if (op->set_copy.donor == 0 || op->set_copy.donor == OP_COPY_BACK || op->set_copy.set == 0 ||
        op->set_copy.morsel >= SET_MORSELS_MAX || op->set_copy.donor == op->set_copy.instead) {
        return MORSEL_INVAL;
    }
    if (op->set_copy.change == OP_COPY_DROP || op->set_copy.change == OP_COPY_YIELD) {
        return named ? drop(t, set, &m) : MORSEL_INVAL;
    }
    if (named) {
        return 0;
    }
    if (op->set_copy.change == OP_COPY_ADD && there && is_still(t, set, &m)) {
        rv = add(t, set, &m);
    }
    return rv == MORSEL_INVAL ? forget(t, set) : rv;
}
