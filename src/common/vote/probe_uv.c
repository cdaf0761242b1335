/* One connection for each question, closed as soon as it has said something. */
#include "common/vote/probe_uv.h"

#include "common/base/status.h"
#include "common/rpc/knock_uv.h"
#include "replica.pb-c.h"

#include <stdlib.h>

struct probing
{
    struct prober *prober;
    struct rpc_request *request;
};

static void answer(struct rpc_request *request, bool refused)
{
    Morsel__ProbeReply reply = MORSEL__PROBE_REPLY__INIT;

    reply.refused = refused;
    rpc_reply(request, &reply.base, NULL);
}

static void on_knocked(void *data, enum knock_outcome outcome)
{
    struct probing *p = data;

    answer(p->request, outcome == KNOCK_REFUSED);
    p->prober->count--;
    free(p);
}

/* False: nothing was begun. */
static bool begin(struct prober *prober, uv_loop_t *loop, struct rpc_request *request,
                  const char *address)
{
    struct probing *p = prober->count < PROBES_MAX ? calloc(1, sizeof(*p)) : NULL;

    if (p == NULL) {
        return false;
    }
    p->prober = prober;
    p->request = request;
    if (knock_start(loop, address, PROBE_MS, on_knocked, p) == NULL) {
        free(p);
        return false;
    }
    prober->count++;
    return true;
}

void probe_handle(struct prober *prober, uv_loop_t *loop, struct rpc_request *request)
{
    Morsel__ProbeRequest *m = rpc_request_unpack(request, &morsel__probe_request__descriptor);

    if (m == NULL) {
        return;
    }
    if (request->role != ROLE_IOD) {
        rpc_reply_failure(request, MORSEL_PERM, "only storage servers ask this");
    } else if (prober->stopped || !begin(prober, loop, request, m->address)) {
        answer(request, false);
    }
    morsel__probe_request__free_unpacked(m, NULL);
}
