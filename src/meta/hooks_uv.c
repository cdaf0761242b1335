/* What the wire asks of the manager: who may be answered now, and who has gone. */
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/coherence/leases_uv.h"
#include "meta/coherence/locks_uv.h"
#include "meta/coherence/pauses_uv.h"
#include "meta/service/request_uv.h"

void meta_dispatch(struct meta *meta, struct rpc_request *request)
{
    request_run(meta, request);
}

bool meta_client_known(struct meta *meta, const struct rpc_request *request)
{
    return session_joined(meta->sessions, request->node_id, meta_now_ms(meta)) &&
           leases_heard(meta, request);
}

static void on_request(void *data, struct rpc_request *request)
{
    struct meta *meta = data;
    const struct request_row *row = request_row(request->type);

    uv_update_time(meta->loop); /* Lease periods are counted from now, not from the last poll. */
    if (row == NULL) {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, NULL);
    } else if (meta->closing) {
        rpc_reply_failure(request, MORSEL_SHUTDOWN, NULL);
    } else if (row->anybody || request->role == ROLE_ADMIN ||
               (request->role == ROLE_CLIENT && meta_client_known(meta, request))) {
        request_run(meta, request);
        pauses_look(meta);
    } else {
        rpc_reply_failure(request, MORSEL_NO_SESSION, NULL);
    }
}

static void on_gone(void *data, enum rpc_role role, uint64_t node_id)
{
    struct meta *meta = data;
    uint64_t now_ms = meta_now_ms(meta);

    if (meta->closing) {
        return;
    }
    if (role == ROLE_CLIENT) {
        struct session_event event = { .now_ms = now_ms, .type = SESSION_GONE };

        event.client = node_id;
        (void)meta_session_step(meta, &event);
        locks_gone(meta, node_id);
        leases_gone(meta, node_id);
        pauses_gone(meta, node_id);
        loads_gone(&meta->loads, node_id);
    } else if (role == ROLE_IOD) {
        struct members_event event = { .now_ms = now_ms, .type = MEMBERS_GONE };

        event.gone = (server_id)node_id;
        meta_members_step(meta, &event);
    } else if (role == ROLE_BENEFACTOR) {
        donors_host_gone(meta, node_id);
    }
}

/* When there are too many connections: mounts with a session, storage servers and benefactors come first. */
static bool is_ours(void *data, enum rpc_role role, uint64_t node_id)
{
    struct meta *meta = data;
    const struct member *member = NULL;

    if (role == ROLE_CLIENT) {
        return session_known(meta->sessions, node_id);
    }
    if (role == ROLE_BENEFACTOR) {
        return donors_host_values(meta, node_id);
    }
    if (role == ROLE_IOD && node_id <= UINT32_MAX) {
        member = members_find(&meta->members, (server_id)node_id);
    }
    return member != NULL && member->connected;
}

struct rpc_server_hooks meta_hooks(struct meta *meta)
{
    return (struct rpc_server_hooks){
        .handle = on_request, .gone = on_gone, .valued = is_ours, .data = meta
    };
}
