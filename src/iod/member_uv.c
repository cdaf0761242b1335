/* Registers, says that we are there, and carries out what the manager answers to that. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/iod_uv.h"
#include "meta.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEARTBEAT_MS_DEFAULT = 1000,
    HEARTBEAT_MS_MIN = 50,
    HEARTBEAT_MS_MAX = 60000,
    REGISTER_MS_MAX = 5000, /* Then it is tried again */
    RETRY_MS = 500
};

static void member_measure(struct member *member);

static void on_timer(uv_timer_t *timer)
{
    member_measure(CONTAINER_OF(timer, struct member, timer));
}

static void member_later(struct member *member, uint64_t delay_ms)
{
    if (!member->stopping) {
        uv_timer_start(&member->timer, on_timer, delay_ms, 0);
    }
}

static void member_away(struct member *member, int status, const char *text)
{
    if (!member->away) {
        log_warning(member->iod->log, "manager %s: %s%s%s: serving on, trying again",
                    rpc_peer_address(member->manager), status_words(status), text[0] ? ": " : "",
                    text);
    }
    member->away = true;
    member_later(member, RETRY_MS);
}

/* The manager will never take us: whoever runs us must act. */
static void member_refused(struct member *member, const char *why)
{
    if (member->stopping) {
        return;
    }
    log_error(member->iod->log,
              "manager %s: %s: name the manager of this cluster, or another data directory than %s",
              rpc_peer_address(member->manager), why, member->iod->datadir.path);
    member->iod->failed(member->iod->data);
}

/* Remember what the first registration taught. */
static int member_remember(struct member *member, const Morsel__RegisterReply *reply,
                           struct errmsg *err)
{
    struct datadir *d = &member->iod->datadir;
    struct cluster_id cluster;

    if (reply->id == 0 || reply->cluster_id.len != sizeof(cluster.bytes)) {
        errmsg_set(err, "its answer is malformed");
        return MORSEL_MALFORMED;
    }
    memcpy(cluster.bytes, reply->cluster_id.data, sizeof(cluster.bytes));
    if (cluster_id_known(&d->cluster) && !cluster_id_equal(&d->cluster, &cluster)) {
        errmsg_set(err, "it belongs to another cluster than our data");
        return MORSEL_WRONG_CLUSTER;
    }
    if (d->node == reply->id && cluster_id_known(&d->cluster)) {
        return 0;
    }
    d->cluster = cluster;
    d->node = reply->id;
    return datadir_save(d, err);
}

static void member_registered(struct member *member, const Morsel__RegisterReply *reply)
{
    struct iod *iod = member->iod;
    uint32_t heartbeat_ms = reply->heartbeat_ms;
    struct errmsg err = { "" };
    bool first = !cluster_id_known(&iod->datadir.cluster);

    if (member_remember(member, reply, &err) != 0) {
        member_refused(member, err.text);
        return;
    }
    if (heartbeat_ms < HEARTBEAT_MS_MIN || heartbeat_ms > HEARTBEAT_MS_MAX) {
        heartbeat_ms = HEARTBEAT_MS_DEFAULT;
    }
    rpc_set_cluster_id(iod->rpc, &iod->datadir.cluster);
    rpc_set_node_id(iod->rpc, iod->datadir.node);
    log_info(iod->log, "registered with the manager at %s as server %u",
             rpc_peer_address(member->manager), iod->datadir.node);
    member->heartbeat_ms = heartbeat_ms;
    member->registered = true;
    member->away = false;
    member_later(member, heartbeat_ms);
    if (first) {
        iod->ready(iod->data);
    }
}

static void on_registered(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct member *member = call->data;
    struct rpc_room room;
    Morsel__RegisterReply *m;

    if (member->stopping) {
        return;
    }
    if (status == MORSEL_WRONG_CLUSTER || status == MORSEL_VERSION) {
        member_refused(member, status_words(status));
        return;
    }
    if (status != 0) {
        member_away(member, status, reply->text);
        return;
    }
    status = rpc_unpack_in(&room, &morsel__register_reply__descriptor, reply->body,
                           reply->body_count, (void **)&m);
    if (status != 0) {
        member_away(member, status, "");
        return;
    }
    member_registered(member, m);
    rpc_room_free(&room, m);
}

static void member_register(struct member *member)
{
    struct iod *iod = member->iod;
    Morsel__RegisterRequest request = MORSEL__REGISTER_REQUEST__INIT;
    char name[256] = "";
    char address[CONFIG_STRING_MAX];
    struct errmsg failure = { "" };
    int rv;

    gethostname(name, sizeof(name) - 1);
    snprintf(address, sizeof(address), "%s",
             iod->settings->advertise[0] != 0 ? iod->settings->advertise
                                              : rpc_server_address(iod->server));
    request.token.data = iod->datadir.token;
    request.token.len = sizeof(iod->datadir.token);
    request.id = iod->datadir.node;
    request.address = address;
    request.name = name;
    request.bytes_total = member->bytes_total;
    request.bytes_free = member->bytes_free;
    request.device = member->device;
    request.verifier = store_verifier(iod->store);
    if (store_disk_failed(iod->store, &failure)) {
        request.disk_failure = failure.text;
    }
    rv = rpc_call_start(&member->call, member->manager, MSG_REGISTER, &request.base, NULL, 0,
                        REGISTER_MS_MAX, on_registered);
    if (rv != 0) {
        member_away(member, rv, "");
    }
}

/* ---- Garbage ---- */

/* In the pool. What cannot be deleted is left out of the report, and the manager will name it
 * again. */
static void run_collect(struct job *job)
{
    struct iod *iod = job->owner;
    size_t kept = 0;

    for (size_t i = 0; i < job->list.ids_count; i++) {
        struct errmsg err = { "" };

        if (store_delete(iod->store, job->list.ids[i], &err) == 0) {
            job->list.ids[kept++] = job->list.ids[i];
        } else {
            log_warning(iod->log, "collect: %s", err.text);
        }
    }
    job->list.ids_count = kept;
}

static void on_collected(struct job *job)
{
    struct iod *iod = job->owner;
    struct member *member = &iod->member;

    member->collecting = NULL;
    if (job->status == 0) {
        member->garbage = job->list.ids;
        member->garbage_count = job->list.ids_count;
        job->list.ids = NULL;
        member_later(member, 0);
    } else {
        member_later(member, RETRY_MS);
    }
    free(job->list.ids);
    job_free(job);
}

/* Delete what the manager has no use for; the next heartbeat waits for it. False: nothing was
 * started. */
static bool member_collect(struct member *member, const Morsel__HeartbeatReply *reply)
{
    size_t count = reply->n_collect_inode;
    struct job *job;

    if (count == 0 || reply->n_collect_column != count) {
        return false;
    }
    job = job_new(&member->iod->jobs, member->iod);
    if (job == NULL) {
        return false;
    }
    job->list.ids_count = count;
    job->list.ids = calloc(count, sizeof(*job->list.ids));
    for (size_t i = 0; job->list.ids != NULL && i < count; i++) {
        job->list.ids[i] = (struct object_id){ .inode = reply->collect_inode[i],
                                               .column = reply->collect_column[i] };
    }
    if (job->list.ids == NULL || job_start(job, run_collect, on_collected, true) != 0) {
        free(job->list.ids);
        job_free(job);
        return false;
    }
    member->collecting = job;
    return true;
}

/* ---- Heartbeat ---- */

static void on_heartbeat(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct member *member = call->data;
    Morsel__HeartbeatReply *m;

    if (member->stopping) {
        return;
    }
    if (status == 0) {
        free(member->garbage);
        member->garbage = NULL;
        member->garbage_count = 0;
        m = rpc_unpack(&morsel__heartbeat_reply__descriptor, reply->body, reply->body_count);
        if (m != NULL && !member_collect(member, m)) {
            member_later(member,
                         m->more || member->measured != member->wanted ? 0 : member->heartbeat_ms);
        } else if (m == NULL) {
            member_later(member, member->heartbeat_ms);
        }
        morsel__heartbeat_reply__free_unpacked(m, NULL);
        return;
    }
    member->registered = false;
    if (status == MORSEL_WRONG_CLUSTER || status == MORSEL_VERSION) {
        member_refused(member, status_words(status));
        return;
    }
    if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
        member_away(member, status, reply->text);
        return;
    }
    member_later(member, RETRY_MS); /* It does not know us (any more): register again. */
}

static void member_heartbeat(struct member *member)
{
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    size_t count = member->garbage_count;
    uint64_t *inodes = calloc(count + 1, sizeof(*inodes));
    uint32_t *columns = calloc(count + 1, sizeof(*columns));
    uint64_t timeout_ms = (uint64_t)member->heartbeat_ms * 2;
    struct errmsg failure = { "" };
    int rv = MORSEL_NOMEM;

    request.id = member->iod->datadir.node;
    request.bytes_total = member->bytes_total;
    request.bytes_free = member->bytes_free;
    request.device = member->device;
    request.objects = member->objects;
    request.measured = member->measured;
    request.verifier = store_verifier(member->iod->store);
    if (store_disk_failed(member->iod->store, &failure)) {
        request.disk_failure = failure.text;
    }
    if (inodes != NULL && columns != NULL) {
        for (size_t i = 0; i < count; i++) {
            inodes[i] = member->garbage[i].inode;
            columns[i] = member->garbage[i].column;
        }
        request.collected_inode = inodes;
        request.n_collected_inode = count;
        request.collected_column = columns;
        request.n_collected_column = count;
        rv = rpc_call_start(&member->call, member->manager, MSG_HEARTBEAT, &request.base, NULL, 0,
                            timeout_ms > REGISTER_MS_MAX ? timeout_ms : REGISTER_MS_MAX,
                            on_heartbeat);
    }
    free(inodes);
    free(columns);
    if (rv != 0) {
        member_later(member, RETRY_MS);
    }
}

/* In the pool, for the disk may be slow to answer. */
static void run_measure(struct job *job)
{
    struct iod *iod = job->owner;
    struct store_space space;

    job->status = store_space(iod->store, &space, &job->err);
    job->space.bytes_total = space.bytes_total;
    job->space.bytes_free = space.bytes_free;
    job->space.objects = space.objects;
    job->space.device = space.device;
}

static void on_measured(struct job *job)
{
    struct iod *iod = job->owner;
    struct member *member = &iod->member;

    member->measuring = NULL;
    if (job->status == 0) {
        member->bytes_total = job->space.bytes_total;
        member->bytes_free = job->space.bytes_free;
        member->objects = job->space.objects;
        member->device = job->space.device;
        member->measured = job->space.measured;
    } else if (job->err.text[0] != 0) {
        log_error(iod->log, "%s", job->err.text);
    }
    job_free(job);
    if (member->stopping || rpc_call_active(&member->call)) {
        return;
    }
    if (member->registered) {
        member_heartbeat(member);
    } else {
        member_register(member);
    }
}

/* The next word to the manager: see how much space there is, then say it. */
static void member_measure(struct member *member)
{
    struct job *job;

    if (member->stopping || member->measuring != NULL || member->collecting != NULL ||
        rpc_call_active(&member->call)) {
        return; /* What is under way leads on. */
    }
    job = job_new(&member->iod->jobs, member->iod);
    if (job != NULL) {
        job->space.measured = member->wanted;
    }
    if (job == NULL || job_start(job, run_measure, on_measured, false) != 0) {
        if (job != NULL) {
            job_free(job);
        }
        member_later(member, RETRY_MS);
        return;
    }
    member->measuring = job;
}

/* A connection is there: perhaps to a manager that has just started and knows nobody's address. */
static void on_manager_up(void *data)
{
    struct member *member = data;

    if (member->stopping || rpc_call_active(&member->call)) {
        return;
    }
    member->registered = false;
    member_later(member, 0);
}

static void on_manager_down(void *data, const char *why)
{
    struct member *member = data;

    if (member->stopping) {
        return;
    }
    if (!member->away) {
        log_warning(member->iod->log, "lost the manager at %s: %s: serving on",
                    rpc_peer_address(member->manager), why);
    }
    member->away = true;
    member->registered = false;
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct member *member = data;
    struct rpc_room room;
    Morsel__SpaceWanted *m;

    if (type != MSG_SPACE_WANTED) {
        return; /* Of a newer manager, which does without. */
    }
    if (rpc_unpack_in(&room, &morsel__space_wanted__descriptor, body, body_count, (void **)&m) ==
        0) {
        member->wanted = m->number;
        member_measure(member);
    }
    rpc_room_free(&room, m);
}

void member_start(struct member *member, struct iod *iod)
{
    memset(member, 0, sizeof(*member));
    member->iod = iod;
    member->manager = iod->manager;
    member->heartbeat_ms = HEARTBEAT_MS_DEFAULT;
    member->call.data = member;
    uv_timer_init(iod->loop, &member->timer);
    rpc_peer_watch(member->manager, on_manager_up, on_manager_down, member);
    rpc_peer_on_push(member->manager, on_push);
    member_measure(member);
}

void member_stop(struct member *member)
{
    if (member->manager == NULL || member->stopping) {
        return;
    }
    member->stopping = true;
    uv_close((uv_handle_t *)&member->timer, NULL);
}
