/* Registers, sees that reports are made in time, and what it means that the manager is away. */
#include "common/serve/membership_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "meta.pb-c.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    REPORT_MS_DEFAULT = 1000,
    REPORT_MS_MIN = 50,
    REPORT_MS_MAX = 60000,
    REGISTER_MS_MAX = 5000, /* Then it is tried again */
    RETRY_MS = 500
};

static void measure(struct membership *m);

static void on_timer(uv_timer_t *timer)
{
    measure(CONTAINER_OF(timer, struct membership, timer));
}

static void later(struct membership *m, uint64_t delay_ms)
{
    if (!m->stopping) {
        uv_timer_start(&m->timer, on_timer, delay_ms, 0);
    }
}

static const char *manager_address(const struct membership *m)
{
    return rpc_peer_address(m->server->manager);
}

static void manager_is_away(struct membership *m, int status, const char *text)
{
    if (!m->away) {
        log_warning(m->server->log, "manager %s: %s%s%s: serving on, trying again",
                    manager_address(m), status_words(status), text[0] ? ": " : "", text);
    }
    m->away = true;
    later(m, RETRY_MS);
}

/* The manager will never take us: whoever runs us must act. */
static void manager_refuses(struct membership *m, const char *why)
{
    if (m->stopping) {
        return;
    }
    log_error(m->server->log,
              "manager %s: %s: name the manager of this cluster, or another data directory than %s",
              manager_address(m), why, m->server->datadir.path);
    m->refused(m->data);
}

/* Another start of our directory, or of a copy of it, has been let in since ours was copied. */
static void manager_left_us_behind(struct membership *m, const char *text)
{
    if (m->stopping) {
        return;
    }
    log_error(m->server->log,
              "manager %s: %s: remove %s; or never start the other one again, and register here as "
              "a new server with an empty directory",
              manager_address(m), text[0] ? text : status_words(MORSEL_LEFT_BEHIND),
              m->server->datadir.path);
    m->refused(m->data);
}

/* `morsel iod remove`: nobody needs what is here any more. */
static void manager_removed_us(struct membership *m, const char *text)
{
    if (m->stopping) {
        return;
    }
    log_error(
        m->server->log,
        "manager %s: %s: nothing in %s belongs to it any more; to let this machine serve again, "
        "start morsel-iod with an empty data directory: it is a new server then",
        manager_address(m), text[0] ? text : status_words(MORSEL_REMOVED), m->server->datadir.path);
    m->refused(m->data);
}

/* ---- Registration ---- */

enum { START_UNKNOWN, START_PROPOSED, START_CONFIRMED }; /* RegisterReply.start */

/* Is the answer one of our manager, and to the step that we took? One that knows of no marks lets us
 * register. */
static int check_answer(const struct membership *m, const Morsel__RegisterReply *reply,
                        struct errmsg *err)
{
    const struct datadir *d = &m->server->datadir;
    uint32_t wanted = m->start.step == START_ASKS ? START_PROPOSED : START_CONFIRMED;
    struct cluster_id cluster;

    if (reply->id == 0 || reply->cluster_id.len != sizeof(cluster.bytes) ||
        (reply->start != START_UNKNOWN && reply->start != wanted)) {
        errmsg_set(err, "its answer is malformed");
        return MORSEL_MALFORMED;
    }
    memcpy(cluster.bytes, reply->cluster_id.data, sizeof(cluster.bytes));
    if (cluster_id_known(&d->cluster) && !cluster_id_equal(&d->cluster, &cluster)) {
        errmsg_set(err, "it belongs to another cluster than our data");
        return MORSEL_WRONG_CLUSTER;
    }
    return 0;
}

/* Remember what the answer taught: at the first one who we are, and which marks there are. On a
 * failure all is as before. */
static int remember(struct membership *m, const Morsel__RegisterReply *reply, struct errmsg *err)
{
    struct datadir *d = &m->server->datadir;
    const struct datadir before = *d;
    const struct start start = m->start;
    bool changed = d->node != reply->id || !cluster_id_known(&d->cluster);
    int rv;

    d->node = reply->id;
    memcpy(d->cluster.bytes, reply->cluster_id.data, sizeof(d->cluster.bytes));
    if (reply->start != START_UNKNOWN) {
        changed |= start_taken(&m->start, &d->starts, reply->by_pending);
    }
    rv = changed ? datadir_save(d, err) : 0;
    if (rv != 0) {
        *d = before;
        m->start = start;
    }
    return rv;
}

static void registered(struct membership *m, const Morsel__RegisterReply *reply)
{
    struct object_server *server = m->server;
    uint32_t report_ms = reply->heartbeat_ms;

    if (report_ms < REPORT_MS_MIN || report_ms > REPORT_MS_MAX) {
        report_ms = REPORT_MS_DEFAULT;
    }
    log_info(server->log, "registered with the manager at %s as server %u", manager_address(m),
             server->datadir.node);
    m->report_ms = report_ms;
    m->registered = true;
    m->away = false;
    later(m, 0); /* The manager knows us: now all else that there is to say. */
    if (!m->joined_told) {
        m->joined_told = true;
        m->joined(m->data);
    }
}

/* What the manager answered could not be kept. Without the marks of the first step the second one
 * must not be taken: the next start could be refused. Behind the second one nothing is lost. */
static void not_remembered(struct membership *m, const Morsel__RegisterReply *reply,
                           const char *why)
{
    if (m->server->datadir.node == 0) {
        manager_refuses(m, why);
        return;
    }
    if (!m->keep_failed) {
        log_error(m->server->log, "register with the manager at %s: %s: trying again",
                  manager_address(m), why);
    }
    m->keep_failed = true;
    if (reply->start == START_CONFIRMED) {
        registered(m, reply);
    } else {
        later(m, RETRY_MS);
    }
}

/* The manager took a step. */
static void step_taken(struct membership *m, const Morsel__RegisterReply *reply)
{
    struct object_server *server = m->server;
    struct errmsg err = { "" };

    if (check_answer(m, reply, &err) != 0) {
        manager_refuses(m, err.text);
        return;
    }
    if (remember(m, reply, &err) != 0) {
        not_remembered(m, reply, err.text);
        return;
    }
    m->keep_failed = false;
    rpc_set_cluster_id(server->rpc, &server->datadir.cluster);
    rpc_set_node_id(server->rpc, server->datadir.node);
    if (reply->start == START_PROPOSED) {
        later(m, 0);
        return;
    }
    m->let_in = m->start.step == START_LET_IN;
    registered(m, reply);
}

static void on_registered(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct membership *m = call->data;
    struct rpc_room room;
    Morsel__RegisterReply *message;

    if (m->stopping) {
        return;
    }
    if (status == MORSEL_WRONG_CLUSTER || status == MORSEL_VERSION) {
        manager_refuses(m, status_words(status));
        return;
    }
    if (status == MORSEL_LEFT_BEHIND) {
        manager_left_us_behind(m, reply->text);
        return;
    }
    if (status == MORSEL_REMOVED) {
        manager_removed_us(m, reply->text);
        return;
    }
    if (status == MORSEL_AGAIN) {
        start_again(&m->start);
    }
    if (status != 0) {
        manager_is_away(m, status, reply->text);
        return;
    }
    status = rpc_unpack_in(&room, &morsel__register_reply__descriptor, reply->body,
                           reply->body_count, (void **)&message);
    if (status != 0) {
        manager_is_away(m, status, "");
        return;
    }
    step_taken(m, message);
    rpc_room_free(&room, message);
}

static void start_registration(struct membership *m)
{
    struct object_server *server = m->server;
    Morsel__RegisterRequest request = MORSEL__REGISTER_REQUEST__INIT;
    struct starts_word word = start_word(&m->start, &server->datadir.starts);
    char name[256] = "";
    char address[ADDRESS_TEXT_MAX];
    struct errmsg failure = { "" };
    int rv;

    gethostname(name, sizeof(name) - 1);
    snprintf(address, sizeof(address), "%s", object_server_address(server));
    request.token.data = server->datadir.token;
    request.token.len = sizeof(server->datadir.token);
    request.id = server->datadir.node;
    request.address = address;
    request.name = name;
    request.bytes_total = m->space.bytes_total;
    request.bytes_free = m->space.bytes_free;
    request.device = m->space.device;
    request.verifier = store_verifier(server->store);
    request.mark = word.mark;
    request.mark_confirmed = word.confirmed;
    request.mark_pending = word.pending;
    request.mark_count = word.count;
    request.confirms = word.confirms;
    if (store_disk_failed(server->store, &failure)) {
        request.disk_failure = failure.text;
    }
    rv = rpc_call_start(&m->call, server->manager, MSG_REGISTER, &request.base, NULL, 0,
                        REGISTER_MS_MAX, on_registered);
    if (rv != 0) {
        manager_is_away(m, rv, "");
    }
}

/* ---- Reports ---- */

void membership_wait(struct membership *m)
{
    m->busy = true;
}

void membership_reported(struct membership *m, uint64_t delay_ms)
{
    m->busy = false;
    later(m, delay_ms);
}

/* What is under way leads on to the next one. */
void membership_hurry(struct membership *m)
{
    if (m->registered && !m->busy && m->measuring == NULL && !rpc_call_active(&m->call)) {
        later(m, 0);
    }
}

void membership_report_failed(struct membership *m, int status, const char *text)
{
    m->registered = false;
    if (status == MORSEL_WRONG_CLUSTER || status == MORSEL_VERSION) {
        manager_refuses(m, status_words(status));
    } else if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
        manager_is_away(m, status, text);
    } else {
        later(m, RETRY_MS); /* It does not know us (any more): register again. */
    }
}

/* ---- Before each: how much space there is ---- */

/* In the pool, for the disk may be slow to answer. */
static void run_measure(struct job *job)
{
    struct membership *m = job->owner;

    job->status = store_space(m->server->store, &job->space, &job->err);
}

static void on_measured(struct job *job)
{
    struct membership *m = job->owner;

    m->measuring = NULL;
    if (job->status == 0) {
        m->space = job->space;
        m->measured = m->measuring_for;
    } else if (job->err.text[0] != 0) {
        log_error(m->server->log, "%s", job->err.text);
    }
    job_free(job);
    if (m->stopping || rpc_call_active(&m->call)) {
        return;
    }
    if (!m->registered) {
        start_registration(m);
    } else if (m->report(m) != 0) {
        later(m, RETRY_MS);
    }
}

static void measure(struct membership *m)
{
    struct job *job;

    if (m->stopping || m->measuring != NULL || m->busy || rpc_call_active(&m->call)) {
        return; /* What is under way leads on. */
    }
    job = job_new(&m->server->jobs, m);
    if (job == NULL || job_start(job, run_measure, on_measured, false) != 0) {
        if (job != NULL) {
            job_free(job);
        }
        later(m, RETRY_MS);
        return;
    }
    m->measuring = job;
    m->measuring_for = m->wanted;
}

/* ---- The connection ---- */

/* A connection is there: perhaps to a manager that has just started and knows nobody's address. */
static void on_manager_up(void *data)
{
    struct membership *m = data;

    if (m->stopping || rpc_call_active(&m->call)) {
        return;
    }
    m->registered = false;
    later(m, 0);
}

static void on_manager_down(void *data, const char *why)
{
    struct membership *m = data;

    if (m->stopping) {
        return;
    }
    if (!m->away) {
        log_warning(m->server->log, "lost the manager at %s: %s: serving on", manager_address(m),
                    why);
    }
    m->away = true;
    m->registered = false;
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct membership *m = data;
    struct rpc_room room;
    Morsel__SpaceWanted *message;

    if (type != MSG_SPACE_WANTED) {
        return; /* Of a newer manager, which does without. */
    }
    if (rpc_unpack_in(&room, &morsel__space_wanted__descriptor, body, body_count,
                      (void **)&message) == 0) {
        m->wanted = message->number;
        measure(m);
    }
    rpc_room_free(&room, message);
}

void membership_start(struct membership *m)
{
    struct rpc_peer *manager = m->server->manager;

    m->started = true;
    do {
        random_bytes(&m->start.mark, sizeof(m->start.mark));
    } while (m->start.mark == 0);
    m->joined_told = cluster_id_known(&m->server->datadir.cluster);
    m->report_ms = REPORT_MS_DEFAULT;
    m->call.data = m;
    uv_timer_init(m->server->loop, &m->timer);
    rpc_peer_watch(manager, on_manager_up, on_manager_down, m);
    rpc_peer_on_push(manager, on_push);
    measure(m);
}

void membership_stop(struct membership *m)
{
    if (!m->started || m->stopping) {
        return;
    }
    m->stopping = true;
    uv_close((uv_handle_t *)&m->timer, NULL);
}
