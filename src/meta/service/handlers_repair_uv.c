/* What benefactors say of morsels that they were to fetch. */
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/datasets/repairs_uv.h"
#include "meta/service/handlers_uv.h"

int serve_donor_fetched(struct request *r)
{
    const Morsel__DonorFetchedRequest *m = r->message;
    const struct repair_task fetched = { .order = m->order,
                                         .set = m->set,
                                         .morsel = m->morsel,
                                         .length = m->length,
                                         .digest = m->digest,
                                         .target = m->id };

    if (r->rpc->role != ROLE_BENEFACTOR || r->rpc->node_id != donors_peer(m->id, m->instance)) {
        errmsg_set(&r->err, "join first");
        return MORSEL_NO_SESSION;
    }
    if (m->set == 0 || m->morsel >= SET_MORSELS_MAX || m->outcome < REPAIR_DONE ||
        m->outcome > REPAIR_FAILED) {
        return MORSEL_MALFORMED;
    }
    repairs_fetched(r->meta, &fetched, (enum repair_outcome)m->outcome);
    rpc_reply(r->rpc, NULL, NULL);
    return 0;
}
