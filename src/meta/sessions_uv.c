/* Sessions of clients: what the core says is done here. Requests of clients that are not admitted
 * yet wait here, and so does the collecting of files that were unlinked while open. */
#include "common/check.h"
#include "common/status.h"
#include "meta/reply_uv.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    WAITING_MAX = 4096, /* Requests of clients that are not admitted yet. */
    SWEEP_STEP = 64     /* Orphans looked at in one turn of the loop. */
};

/* ---- Orphans ------------------------------------------------------------------------------ */

/* Nobody holds the inode any more: if it has no name either, its time has come. */
static void collect(struct meta *meta, inode_id inode)
{
    struct meta_op op = { .kind = OP_COLLECT, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    bool orphan;
    int rv;

    if (session_holds(meta->sessions, inode) || ns_broken(meta->ns) != 0) {
        return;
    }
    if ((rv = ns_is_orphan(meta->ns, inode, &orphan, &err)) == 0 && orphan) {
        op.collect.inode = inode;
        rv = meta_execute(meta, &op, &err);
    }
    if (rv != 0) {
        log_error(meta->log, "cannot collect the unlinked inode %" PRIu64 ": %s", inode,
                  err.text[0] != 0 ? err.text : status_words(rv));
    }
}

/* A few orphans a turn, so that requests are served in between. */
static void on_sweep(uv_idle_t *idle)
{
    struct meta *meta = idle->data;
    inode_id orphans[SWEEP_STEP];
    struct errmsg err = { "" };
    uint32_t count = 0;
    int rv = ns_orphans(meta->ns, meta->sweep_from, orphans, SWEEP_STEP, &count, &err);

    for (uint32_t i = 0; i < count; i++) {
        collect(meta, orphans[i]);
    }
    if (rv != 0 || count < SWEEP_STEP) {
        meta->sweep_from = 0;
        uv_idle_stop(idle);
        return;
    }
    meta->sweep_from = orphans[count - 1] + 1;
}

static void sweep_start(struct meta *meta)
{
    if (!meta->closing) {
        meta->sweep_from = 1;
        uv_idle_start(&meta->sweep, on_sweep);
    }
}

/* ---- Sessions ----------------------------------------------------------------------------- */

/* A SessionRequest, or another request of a client that is not admitted yet. */
struct waiting_request
{
    struct list node;
    struct rpc_request *request;
};

bool meta_park(struct meta *meta, struct rpc_request *request)
{
    struct waiting_request *w;

    if (meta->waiting_count == WAITING_MAX || (w = calloc(1, sizeof(*w))) == NULL) {
        rpc_reply_failure(request, MORSEL_OVERLOAD, NULL);
        return false;
    }
    w->request = request;
    list_init(&w->node);
    list_push_back(&meta->waiting, &w->node);
    meta->waiting_count++;
    return true;
}

static void reply_session(struct meta *meta, struct rpc_request *request)
{
    Morsel__SessionReply reply = MORSEL__SESSION_REPLY__INIT;

    reply.session_ms = (uint32_t)meta->settings->session_ms;
    reply.cache_ms = meta_cache_ms(meta, request);
    reply.clock_ns = (uint64_t)meta_clock_ns();
    rpc_reply(request, &reply.base, NULL);
}

static void release(struct meta *meta, struct rpc_request *request, int status)
{
    if (status != 0) {
        rpc_reply_failure(request, status, NULL);
    } else if (request->type == MSG_SESSION) {
        reply_session(meta, request);
    } else {
        meta_dispatch(meta, request);
    }
}

/* Serve (status 0) or refuse what waits for the client, in the order of arrival. Serving may bring
 * us here again, so what is to be done is taken out of the common list first. */
void meta_release_waiting(struct meta *meta, client_id client, int status)
{
    struct list mine;

    list_init(&mine);
    LIST_FOREACH_SAFE(node, &meta->waiting)
    {
        if (LIST_ENTRY(node, struct waiting_request, node)->request->node_id == client) {
            list_remove(node);
            list_push_back(&mine, node);
            meta->waiting_count--;
        }
    }
    LIST_FOREACH_SAFE(node, &mine)
    {
        struct waiting_request *w = LIST_ENTRY(node, struct waiting_request, node);
        struct rpc_request *request = w->request;

        free(w);
        release(meta, request, status);
    }
}

static void on_grantee_durable(struct sync_waiter *waiter, int status)
{
    struct meta *meta = CONTAINER_OF(waiter, struct meta, grantee_waiter);
    struct session_event event = { .now_ms = uv_now(meta->loop), .type = SESSION_PERSISTED };

    event.client = meta->grantee;
    if (status == 0 && !meta->closing) {
        meta_session_step(meta, &event);
    }
}

/* A loss of power must not take the record back while its client caches. */
static void persist_grantee(struct meta *meta, client_id client)
{
    struct meta_op op = { .kind = OP_GRANTEE, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };

    op.grantee.client = client;
    if (meta_execute(meta, &op, &err) == 0) {
        meta->grantee = client;
        list_init(&meta->grantee_waiter.node);
        sync_wait(&meta->sync, &meta->grantee_waiter, on_grantee_durable);
    }
}

static void perform_session(struct meta *meta, const struct session_action *action)
{
    switch (action->type) {
    case SESSION_ADMIT:
        meta_release_waiting(meta, action->client, 0);
        break;
    case SESSION_REFUSE:
        meta_release_waiting(meta, action->client, action->status);
        break;
    case SESSION_END:
        log_info(meta->log, "client %016" PRIx64 " %s", action->client,
                 action->status == 0 ? "has left"
                                     : "is gone: no word from it within the session time");
        meta_release_waiting(meta, action->client, MORSEL_NO_SESSION);
        break;
    case SESSION_PERSIST_GRANTEE:
        persist_grantee(meta, action->client);
        break;
    case SESSION_GRACE_OVER:
        sweep_start(meta);
        break;
    }
}

void meta_session_step(struct meta *meta, const struct session_event *event)
{
    struct session_actions out;
    inode_id inode;

    out.count = 0;
    session_step(meta->sessions, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform_session(meta, &out.items[i]);
    }
    while (session_pop_released(meta->sessions, &inode)) {
        collect(meta, inode);
    }
    meta_arm(meta);
}

uint32_t meta_cache_ms(struct meta *meta, const struct rpc_request *request)
{
    if (request->role != ROLE_CLIENT) {
        return 0;
    }
    return session_cache_ms(meta->sessions, request->node_id, uv_now(meta->loop));
}

int meta_note_open(struct meta *meta, const struct rpc_request *request, inode_id inode)
{
    struct session_event event = { .now_ms = uv_now(meta->loop), .type = SESSION_OPENED };

    if (request->role != ROLE_CLIENT) {
        return 0;
    }
    if (session_opens(meta->sessions) >= SESSION_OPENS_MAX) {
        return MORSEL_OVERLOAD;
    }
    event.client = request->node_id;
    event.inodes = &inode;
    event.inodes_count = 1;
    meta_session_step(meta, &event);
    return 0;
}

void handle_session(struct meta *meta, struct rpc_request *request)
{
    struct session_event event = { .now_ms = uv_now(meta->loop), .type = SESSION_ASK };
    Morsel__SessionRequest *m;

    if (request->role != ROLE_CLIENT || request->node_id == 0) {
        rpc_reply_failure(request, MORSEL_INVAL, "only a client with an id has a session");
        return;
    }
    m = rpc_request_unpack(request, &morsel__session_request__descriptor);
    if (m == NULL) {
        return;
    }
    event.client = request->node_id;
    event.inodes = m->open_inodes;
    event.inodes_count = m->n_open_inodes;
    if (m->leave) {
        event.type = SESSION_LEAVE;
        meta_session_step(meta, &event);
        rpc_reply(request, NULL, NULL);
    } else if (meta_park(meta, request)) {
        meta_session_step(meta, &event);
    }
    message_free(m);
}

void meta_refuse_waiting(struct meta *meta, int status)
{
    uv_idle_stop(&meta->sweep);
    LIST_FOREACH_SAFE(node, &meta->waiting)
    {
        struct waiting_request *w = LIST_ENTRY(node, struct waiting_request, node);

        rpc_reply_failure(w->request, status, NULL);
        free(w);
    }
    list_init(&meta->waiting);
    meta->waiting_count = 0;
}
