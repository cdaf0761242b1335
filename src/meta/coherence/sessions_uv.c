/* Sessions of clients: what the core says is done here, and so is the collecting of files that were
 * unlinked while open. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/coherence/locks_uv.h"
#include "meta/coherence/pauses_uv.h"
#include "meta/coherence/sessions_kept_uv.h"
#include "meta/service/identify_uv.h"
#include "meta/service/reply_uv.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SWEEP_STEP = 64 /* Orphans looked at in one iteration of the loop. */ };

/* ---- Orphans ---- */

/* Nobody holds the inode any more: if it has no name either, its time has come. MORSEL_AGAIN: this
 * must be read first. */
static int try_collect(struct meta *meta, inode_id inode)
{
    struct meta_op op = { .kind = OP_COLLECT, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    bool orphan;
    int rv;

    if (session_holds(meta->sessions, inode) || departed_has(&meta->departed, inode) ||
        ns_broken(meta->ns) != 0) {
        return 0;
    }
    loads_begin(&meta->loads);
    if ((rv = ns_is_orphan(meta->ns, inode, &orphan, &err)) == 0 && orphan) {
        op.collect.inode = inode;
        rv = meta_execute(meta, &op, &err);
    }
    if (rv != 0 && rv != MORSEL_AGAIN) {
        log_error(meta->log, "cannot collect the unlinked inode %" PRIu64 ": %s", inode,
                  err.text[0] != 0 ? err.text : status_words(rv));
    }
    return rv == MORSEL_AGAIN ? rv : MORSEL_OK;
}

static void sweep_start(struct meta *meta, inode_id from);

/* What is not in memory is left to a sweep: it reads one after the other, and there may be many. */
static void collect(struct meta *meta, inode_id inode)
{
    if (try_collect(meta, inode) == MORSEL_AGAIN) {
        loads_begin(&meta->loads);
        sweep_start(meta, inode);
    }
}

void meta_note_departed(struct meta *meta, inode_id inode)
{
    if (!departed_has(&meta->departed, inode)) {
        inode_id gone = departed_add(&meta->departed, inode, meta_now_ms(meta));

        if (gone != INODE_NONE) {
            collect(meta, gone);
        }
    }
}

void meta_departed_pulse(struct meta *meta, uint64_t now_ms)
{
    inode_id inode;

    while (!meta->closing && (inode = departed_pop(&meta->departed, now_ms)) != INODE_NONE) {
        collect(meta, inode);
    }
}

static void on_sweep(uv_idle_t *idle);

static void on_sweep_loaded(void *data, struct rpc_request *request, uint64_t subject)
{
    struct meta *meta = data;

    (void)request;
    (void)subject;
    meta->sweep_loading = false;
    uv_idle_start(&meta->sweep, on_sweep);
    on_sweep(&meta->sweep);
}

/* The sweep goes on when what it needs has been read; at once, to try again, when there is no room
 * to wait for that. */
static void sweep_load(struct meta *meta)
{
    if (loads_wait(&meta->loads, NULL, on_sweep_loaded, 0)) {
        meta->sweep_loading = true;
        uv_idle_stop(&meta->sweep);
    }
}

/* A few orphans an iteration, so that requests are served in between. */
static void on_sweep(uv_idle_t *idle)
{
    struct meta *meta = idle->data;
    inode_id orphans[SWEEP_STEP];
    struct errmsg err = { "" };
    uint32_t count = 0;
    int rv;

    loads_begin(&meta->loads);
    rv = ns_orphans(meta->ns, meta->sweep_from, orphans, SWEEP_STEP, &count, &err);
    for (uint32_t i = 0; i < count && rv == 0; i++) {
        rv = try_collect(meta, orphans[i]);
        meta->sweep_from = orphans[i] + (rv == 0);
    }
    if (rv == MORSEL_AGAIN) {
        sweep_load(meta);
    } else if (rv != 0 || count < SWEEP_STEP) {
        meta->sweep_from = 0;
        uv_idle_stop(idle);
    }
}

/* One that is going on comes to `from` again, if it was there already. */
static void sweep_start(struct meta *meta, inode_id from)
{
    if (meta->closing) {
        return;
    }
    if (meta->sweep_from == 0 || from < meta->sweep_from) {
        meta->sweep_from = from;
    }
    if (!meta->sweep_loading) {
        uv_idle_start(&meta->sweep, on_sweep);
    }
}

/* ---- Sessions ---- */

static void reply_session(struct meta *meta, struct rpc_request *request, inode_id *lost,
                          size_t lost_count, bool locks_lost)
{
    Morsel__SessionReply reply = MORSEL__SESSION_REPLY__INIT;
    struct durable_reply durable;
    Morsel__Squash squash;

    reply.durable = durable_fill(meta, &durable);
    reply.session_ms = (uint32_t)meta->settings->session_ms;
    reply.clock_ns = (uint64_t)meta_clock_ns();
    reply.lost = lost;
    reply.n_lost = lost_count;
    reply.locks_lost = locks_lost;
    reply.lease_epoch = lease_epoch_of(meta->leases, request->node_id);
    reply.lease_ms = lease_period_ms(meta->leases, request->node_id);
    reply.squash = identify_squash(meta, request, &squash);
    rpc_reply(request, &reply.base, NULL);
}

static void session_over(struct meta *meta, const struct session_action *action)
{
    if (action->client == SESSION_UNTOLD) {
        log_info(meta->log, "mounts that nobody has written down are not waited for any more");
        return;
    }
    log_info(meta->log, "client %016" PRIx64 " %s", action->client,
             action->status == 0 ? "has left" : "is gone: no word from it within the session time");
    if (action->status == 0) {
        leases_leave(meta, action->client); /* A silent one is waited out by its lease period. */
    }
}

/* The status of the client that the event is about: 0, or why it is refused. */
static int perform_session(struct meta *meta, const struct session_action *action)
{
    int rv;

    switch (action->type) {
    case SESSION_KEEP:
        if ((rv = sessions_keep(meta, action->client)) != 0) {
            session_not_kept(meta->sessions, action->client);
            return rv;
        }
        break;
    case SESSION_ADMIT:
        break;
    case SESSION_REFUSE:
        return action->status;
    case SESSION_END:
        session_over(meta, action);
        break;
    case SESSION_WAITING:
        sessions_note_waiting(meta);
        break;
    case SESSION_GRACE_OVER:
        sweep_start(meta, 1);
        break;
    }
    return 0;
}

int meta_session_step(struct meta *meta, const struct session_event *event)
{
    struct session_actions out;
    inode_id inode;
    int status = 0, rv;

    out.count = 0;
    session_step(meta->sessions, event, &out);
    pauses_opened(meta, event);
    for (uint32_t i = 0; i < out.count; i++) {
        rv = perform_session(meta, &out.items[i]);
        status = rv != 0 ? rv : status;
    }
    sessions_strike_out(meta, &out);
    while (session_pop_released(meta->sessions, &inode)) {
        collect(meta, inode);
    }
    meta_arm(meta);
    return status;
}

int meta_note_open(struct meta *meta, const struct rpc_request *request, inode_id inode, bool write)
{
    struct session_event event = { .now_ms = meta_now_ms(meta), .type = SESSION_OPENED };

    if (request->role != ROLE_CLIENT) {
        return 0;
    }
    event.client = request->node_id;
    if (write) {
        event.write_inodes = &inode;
        event.write_inodes_count = 1;
    } else {
        event.inodes = &inode;
        event.inodes_count = 1;
    }
    return meta_session_step(meta, &event);
}

/* The first request on a connection: what the client has open, and which leases it still uses. */
static void join(struct meta *meta, struct rpc_request *request, const Morsel__SessionRequest *m)
{
    struct session_event event = { .now_ms = meta_now_ms(meta), .type = SESSION_ASK };
    inode_id *lost = malloc((m->n_held_read + m->n_held_write + 1) * sizeof(*lost));
    struct lease_actions actions;
    size_t lost_count = 0;
    bool late, locks_lost;
    int rv = MORSEL_NOMEM;

    event.client = request->node_id;
    event.inodes = m->open_inodes;
    event.inodes_count = m->n_open_inodes;
    event.write_inodes = m->open_write;
    event.write_inodes_count = m->n_open_write;
    event.pauses = m->pauses;
    if (!m->knows_lease_ms && lease_period_ms(meta->leases, 0) < LEASE_MS) {
        rpc_reply_failure(request, MORSEL_VERSION,
                          "this mount is older than the manager and counts with a lease-time of "
                          "5s; update it, or do not set lease-time below that");
        free(lost);
        return;
    }
    if (lost != NULL && (rv = meta_session_step(meta, &event)) == 0) {
        late = lease_join_is_late(meta->leases, request->node_id, m->number);
        rv = leases_join(meta, request->node_id, m, lost, &lost_count, &actions);
        /* Before anybody is served who has waited for it to come back: its locks are not to be
         * given away. */
        locks_lost = rv == 0 && !late && !locks_join(meta, request->node_id, m);
        leases_perform(meta, &actions);
        if (rv == 0) {
            reply_session(meta, request, lost, lost_count, locks_lost);
        }
    }
    if (rv != 0) {
        rpc_reply_failure(request, rv,
                          ns_broken(meta->ns) != 0
                              ? "the manager's database could not be written; see its log"
                              : NULL);
    }
    free(lost);
}

static void leave(struct meta *meta, struct rpc_request *request)
{
    struct session_event event = { .now_ms = meta_now_ms(meta), .type = SESSION_LEAVE };

    event.client = request->node_id;
    (void)meta_session_step(meta, &event);
    rpc_reply(request, NULL, NULL);
}

void handle_session(struct meta *meta, struct rpc_request *request)
{
    Morsel__SessionRequest *m;

    if (request->role != ROLE_CLIENT || request->node_id == 0) {
        rpc_reply_failure(request, MORSEL_INVAL, "only a client with an id has a session");
        return;
    }
    m = rpc_request_unpack(request, &morsel__session_request__descriptor);
    if (m == NULL) {
        return;
    }
    if (m->leave) {
        leave(meta, request);
    } else if (!m->renew) {
        join(meta, request, m);
    } else if (meta_client_known(meta, request)) {
        reply_session(meta, request, NULL, 0, false);
    } else {
        rpc_reply_failure(request, MORSEL_NO_SESSION, NULL);
    }
    message_free(m);
}
