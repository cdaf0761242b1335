/* A benefactor is forgotten that does not come back. Its number is never given again: the greatest of those that are forgotten is kept. */
#include "common/base/status.h"
#include "meta/namespace/namespace_txn.h"

int ns_donor_floor(struct ns *ns, donor_id *next, struct errmsg *err)
{
    struct record_key key = key_donor(0);
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    *next = 0;
    if (rv == MORSEL_NOENT) {
        return 0;
    }
    return rv != 0 ? rv : donor_floor_decode(buf_slice(&ns->value), next);
}

/* Do the maps name it, or is there something that it is to delete? */
static bool is_named(const struct sets *sets, donor_id donor)
{
    const struct donor_sets *d = sets_of_donor(sets, donor);

    for (uint32_t i = 0; d != NULL && i < d->count; i++) {
        const struct data_set *set = sets_find(sets, d->sets[i]);

        if (set != NULL && set_morsels_at(set, donor) > 0) {
            return true;
        }
    }
    return d != NULL && d->waste > 0;
}

int apply_donor_forget(struct ns_txn *t)
{
    struct ns *ns = t->ns;
    donor_id donor = t->op->donor_forget.donor, floor;
    struct record_key key = key_donor(donor);
    int rv;

    if (donor == 0 || is_named(&ns->sets, donor)) {
        return MORSEL_INVAL;
    }
    if ((rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, t->err)) != 0 ||
        (rv = ns_donor_floor(ns, &floor, t->err)) != 0) {
        return rv;
    }
    txn_delete(t, key);
    txn_delete(t, key_hours(donor));
    buf_clear(&ns->record);
    donor_floor_encode(donor >= floor ? donor + 1 : floor, &ns->record);
    txn_record_put(t, key_donor(0));
    txn_needs_version(t, STORE_VERSION_LET_GO);
    return 0;
}
