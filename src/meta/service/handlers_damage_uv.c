/* Copies that mounts found wrong, what benefactors say of them, and who is trusted again. */
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/datasets/damages_uv.h"
#include "meta/service/handlers_uv.h"

int serve_set_damaged(struct request *r)
{
    const Morsel__SetDamagedRequest *m = r->message;

    if (m->n_copies > SET_DAMAGED_MAX) {
        return MORSEL_MALFORMED;
    }
    for (size_t i = 0; i < m->n_copies; i++) {
        const Morsel__SetDamaged *c = m->copies[i];
        const struct damage_copy copy = { c->set, c->morsel, c->length, c->digest, c->donor };

        damages_named(r->meta, r->rpc->node_id, &copy);
    }
    rpc_reply(r->rpc, NULL, NULL);
    return 0;
}

int serve_donor_checked(struct request *r)
{
    const Morsel__DonorFetchedRequest *m = r->message;

    if (!donor_is_serving(r, m->id, m->instance)) {
        return MORSEL_NO_SESSION;
    }
    if (m->outcome < REPAIR_DONE || m->outcome > REPAIR_FAILED) {
        return MORSEL_MALFORMED;
    }
    damages_looked(r->meta, m->id, m->order, (enum repair_outcome)m->outcome);
    rpc_reply(r->rpc, NULL, NULL);
    return 0;
}

int serve_donor_trust(struct request *r)
{
    const Morsel__DonorTrustRequest *m = r->message;

    if (r->rpc->role != ROLE_ADMIN) {
        return MORSEL_PERM;
    }
    if (!donors_trust(&r->meta->donors, m->id, meta_now_ms(r->meta))) {
        errmsg_set(&r->err, "there is no benefactor %u; see `morsel donors`", m->id);
        return MORSEL_NOENT;
    }
    log_info(r->meta->log, "benefactor %u is trusted again, says an administrator", m->id);
    meta_arm(r->meta);
    rpc_reply(r->rpc, NULL, NULL);
    return 0;
}
