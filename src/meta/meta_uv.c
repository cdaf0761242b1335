/* The table of requests, and what surrounds each of them. */
#include "meta/coherence/leases_uv.h"
#include "meta/coherence/locks_uv.h"
#include "meta/service/request_uv.h"
#include "meta/storage/run_file.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <time.h>

int64_t meta_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t meta_now_ms(struct meta *meta)
{
    return presence_now_ms(&meta->presence, uv_now(meta->loop));
}

/* ---- Changes ---- */

/* Operations that need room go no further when the disk is nearly full; those that free some do. */
static bool needs_space(const struct meta_op *op)
{
    return op->kind == OP_MAKE || op->kind == OP_LINK || op->kind == OP_RENAME ||
           (op->kind == OP_XATTR && !op->xattr.remove);
}

/* Once: a stranger may ask for the same again and again. */
static void log_unreadable(struct meta *meta, const struct meta_op *op, const struct errmsg *err)
{
    if (ns_unreadable(meta->ns) > 0 && !meta->unreadable_logged) {
        meta->unreadable_logged = true;
        log_error(meta->log, "internal error, please report: %s; client %016llx was refused",
                  err->text, (unsigned long long)op->client);
    }
}

int meta_execute(struct meta *meta, struct meta_op *op, struct errmsg *err)
{
    int rv;

    if (meta->space_low && needs_space(op)) {
        errmsg_set(err, "the disk of the manager's database is nearly full");
        return MORSEL_NOSPC;
    }
    rv = ns_execute(meta->ns, op, err);
    if (ns_broken(meta->ns) != 0 && !meta->broken_logged) {
        meta->broken_logged = true;
        log_error(meta->log,
                  "cannot write the database in %s: %s; every change is refused until the disk is "
                  "in order and morsel-meta was started again",
                  meta->settings->data_dir, err->text);
    }
    log_unreadable(meta, op, err);
    if (rv == 0) {
        sync_changed(&meta->sync);
    }
    return rv;
}

void meta_sync_failed(void *data, int status, const struct errmsg *err)
{
    struct meta *meta = data;

    ns_fail(meta->ns, status);
    run_fail(&meta->runs, meta->run_dir);
    if (!meta->broken_logged) {
        meta->broken_logged = true;
        log_error(meta->log,
                  "cannot make changes durable: %s; every change is refused until the disk is in "
                  "order and morsel-meta was started again",
                  err->text);
    }
}

struct durable_wait
{
    struct sync_waiter waiter;
    struct meta *meta;
    struct rpc_request *request;
    meta_durable_reply reply;
    uint64_t subject;
};

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct durable_wait *d = CONTAINER_OF(waiter, struct durable_wait, waiter);

    if (status != 0) {
        rpc_reply_failure(d->request, status, "the manager's database could not be synced");
    } else {
        d->reply(d->meta, d->request, d->subject);
    }
    free(d);
}

void meta_reply_durable(struct meta *meta, struct rpc_request *request, meta_durable_reply reply,
                        uint64_t subject)
{
    struct durable_wait *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    if (ns_broken(meta->ns) != 0) {
        rpc_reply_failure(request, ns_broken(meta->ns), "the manager's database is damaged");
        free(d);
        return;
    }
    d->meta = meta;
    d->request = request;
    d->reply = reply;
    d->subject = subject;
    list_init(&d->waiter.node);
    sync_wait(&meta->sync, &d->waiter, on_durable);
}

/* ---- Deadlines ---- */

static void on_timer(uv_timer_t *timer);

/* One timer for all cores: its next run is the earliest of their deadlines. */
void meta_arm(struct meta *meta)
{
    uint64_t sessions_ms = session_deadline_ms(meta->sessions);
    uint64_t members_ms = members_deadline_ms(&meta->members);
    uint64_t leases_ms = lease_deadline_ms(meta->leases);
    uint64_t due_ms = sessions_ms < members_ms ? sessions_ms : members_ms;
    uint64_t now_ms = meta_now_ms(meta);

    due_ms = leases_ms < due_ms ? leases_ms : due_ms;
    if (meta->closing || due_ms == meta->timer_due_ms ||
        uv_is_active((uv_handle_t *)&meta->behind_poll)) {
        return;
    }
    meta->timer_due_ms = due_ms;
    if (due_ms == UINT64_MAX) {
        uv_timer_stop(&meta->timer);
    } else {
        uv_timer_start(&meta->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

/* Everything that had arrived when the deadline passed has been read since: who is silent now was
 * silent then. */
static void on_behind_poll(uv_check_t *check)
{
    struct meta *meta = check->data;
    struct session_event session = { .now_ms = meta->tick_ms, .type = SESSION_TICK };
    struct members_event member = { .now_ms = meta->tick_ms, .type = MEMBERS_TICK };

    uv_check_stop(check);
    (void)meta_session_step(meta, &session);
    leases_tick(meta, meta->tick_ms);
    meta_members_step(meta, &member);
    meta_arm(meta);
}

static void on_timer(uv_timer_t *timer)
{
    struct meta *meta = timer->data;

    meta->timer_due_ms = 0;
    meta->tick_ms = meta_now_ms(meta);
    uv_check_start(&meta->behind_poll, on_behind_poll);
}

static void on_pulse(uv_timer_t *timer)
{
    struct meta *meta = timer->data;
    uint64_t away_ms;

    locks_pulse(meta, meta_now_ms(meta));
    meta_departed_pulse(meta, meta_now_ms(meta));
    away_ms = meta->presence.away_ms - meta->away_logged_ms;
    meta->away_logged_ms = meta->presence.away_ms;
    if (away_ms >= LEASE_MARGIN_MS) {
        log_warning(meta->log,
                    "morsel-meta stood still for %llu ms (stopped, swapped out, or waiting for its "
                    "disk); the time is not counted against clients and servers",
                    (unsigned long long)away_ms);
    }
}

void meta_clock_start(struct meta *meta)
{
    (void)uv_timer_init(meta->loop, &meta->timer);
    (void)uv_timer_init(meta->loop, &meta->pulse);
    (void)uv_check_init(meta->loop, &meta->behind_poll);
    meta->timer.data = meta->pulse.data = meta->behind_poll.data = meta;
    uv_timer_start(&meta->pulse, on_pulse, PRESENCE_PULSE_MS, PRESENCE_PULSE_MS);
}

/* ---- Requests ---- */

bool meta_client_known(struct meta *meta, const struct rpc_request *request)
{
    return session_joined(meta->sessions, request->node_id, meta_now_ms(meta)) &&
           leases_heard(meta, request);
}

static void on_request(void *data, struct rpc_request *request)
{
    struct meta *meta = data;
    const struct request_row *row = request_row(request->type);

    uv_update_time(meta->loop); /* Terms of leases are counted from now, not from the last poll. */
    if (row == NULL) {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, NULL);
    } else if (meta->closing) {
        rpc_reply_failure(request, MORSEL_SHUTDOWN, NULL);
    } else if (row->anybody || request->role == ROLE_ADMIN ||
               (request->role == ROLE_CLIENT && meta_client_known(meta, request))) {
        request_run(meta, request);
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
    } else if (role == ROLE_IOD) {
        struct members_event event = { .now_ms = now_ms, .type = MEMBERS_GONE };

        event.gone = (server_id)node_id;
        meta_members_step(meta, &event);
    }
}

/* When there are too many connections: mounts with a session and storage servers come first. */
static bool is_ours(void *data, enum rpc_role role, uint64_t node_id)
{
    struct meta *meta = data;
    const struct member *member = NULL;

    if (role == ROLE_CLIENT) {
        return session_known(meta->sessions, node_id);
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

void meta_dispatch(struct meta *meta, struct rpc_request *request)
{
    request_run(meta, request);
}
