/* Joins and reports, and what it means that the manager is away. */
#include "benefactor/joining_uv.h"

#include "common/base/status.h"
#include "common/rpc/address.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    REPORT_MS_DEFAULT = 20000,
    REPORT_MS_MIN = 50,
    REPORT_MS_MAX = 3600000,
    HELD_ANSWER_MS = 20000, /* What it says to that is on its disk. */
    SOON_MS = 500,
    ANSWER_MS = 5000, /* Then it is tried again, */
    /* so much later; twice as much each time, until there is a new connection: */
    RETRY_MS_MIN = 500,
    RETRY_MS_MAX = 8000
};

static void speak(struct joining *j);

static void on_timer(uv_timer_t *timer)
{
    speak(timer->data);
}

static void later(struct joining *j, uint64_t delay_ms)
{
    if (!j->stopping && !j->leaving) {
        uv_timer_start(&j->timer, on_timer, delay_ms, 0);
    }
}

/* There may be thousands of us. */
static void retry(struct joining *j)
{
    later(j, j->retry_ms);
    j->retry_ms = j->retry_ms * 2 < RETRY_MS_MAX ? j->retry_ms * 2 : RETRY_MS_MAX;
}

static const char *manager_address(const struct joining *j)
{
    return rpc_peer_address(j->manager);
}

static void manager_is_away(struct joining *j, int status, const char *text)
{
    if (!j->away_said) {
        log_warning(j->log, "manager %s: %s: trying again", manager_address(j),
                    text[0] != 0 ? text : status_words(status));
    }
    j->away_said = true;
    retry(j);
}

/* The manager will never take us: whoever runs us must act. */
static void manager_refuses(struct joining *j, const char *why)
{
    log_error(j->log, "manager %s refuses %s: %s", manager_address(j), j->datadir->path, why);
    j->refused(j->data);
}

static void manager_is_another(struct joining *j)
{
    manager_refuses(j, "it belongs to another cluster: name the manager of this one, or another "
                       "data directory");
}

/* What went wrong with a JOIN, a HELD or a REPORT. */
static void call_failed(struct joining *j, int status, const char *text)
{
    bool joining = !j->member;

    j->member = false;
    if (status == MORSEL_INVAL && !joining) {
        manager_is_away(j, status, text); /* It has taken us. */
        return;
    }
    switch (status) {
    case MORSEL_WRONG_CLUSTER:
        manager_is_another(j);
        break;
    case MORSEL_VERSION:
    case MORSEL_INVAL:
    case MORSEL_TOO_LARGE: /* Too many benefactors, and none is forgotten. */
        manager_refuses(j, text[0] != 0 ? text : status_words(status));
        break;
    case MORSEL_CANCELED: /* It was of an older connection: on_manager_up(). */
        later(j, 0);
        break;
    case MORSEL_NO_SESSION: /* It does not know us (any more), */
    case MORSEL_AGAIN:      /* or was asked twice. */
        retry(j);
        break;
    case MORSEL_BUSY:
        if (!j->busy_said) {
            log_warning(
                j->log,
                "manager %s: another process serves %s, or a copy of it, or did so a moment "
                "ago: trying again until it has ended",
                manager_address(j), j->datadir->path);
        }
        j->busy_said = true;
        retry(j);
        break;
    default:
        manager_is_away(j, status, text);
        break;
    }
}

/* ---- What is said ---- */

static bool is_everywhere(const char *address)
{
    return strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
}

/* Where clients reach us, into ADDRESS_TEXT_MAX bytes. */
static void own_address(struct joining *j, char *text)
{
    struct address listens;

    text[0] = 0;
    if (j->advertise[0] != 0 || !is_everywhere(j->listens)) {
        (void)snprintf(text, ADDRESS_TEXT_MAX, "%s",
                       j->advertise[0] != 0 ? j->advertise : j->listens);
        return;
    }
    if (address_parse(j->listens, &listens, NULL) != 0 ||
        !rpc_peer_own_address(j->manager, listens.port_number, text)) {
        return; /* Without a connection nothing is sent: on_manager_up(). */
    }
    if (text[0] == '[' && j->listens[0] != '[' && !j->unreachable_said) {
        j->unreachable_said = true;
        log_warning(j->log,
                    "listening on %s, but the manager is reached from %s: clients cannot reach "
                    "us there; set listen to [::]:%u",
                    j->listens, text, (unsigned)listens.port_number);
    }
}

static void fill_report(struct joining *j, Morsel__DonorReport *report)
{
    struct joining_figures figures = { 0 };

    j->figures(j->data, &figures);
    morsel__donor_report__init(report);
    report->donated = figures.donated;
    report->used = figures.used;
    report->load = figures.load;
    report->up_s = figures.up_s;
    report->paused = figures.paused;
    report->leaving = figures.leaving;
    report->excess = figures.excess;
    report->pressed = figures.pressed;
}

/* The manager knows us. Without a disk to write that to we are who we are all the same: the token says it. */
static void keep(struct joining *j, donor_id id, const struct cluster_id *cluster)
{
    struct datadir *d = j->datadir;
    struct errmsg err = { "" };
    bool known = d->node == id && cluster_id_equal(&d->cluster, cluster);

    d->node = id;
    d->cluster = *cluster;
    rpc_set_cluster_id(j->rpc, cluster);
    rpc_set_node_id(j->rpc, id);
    if ((known && !j->keep_failed_said) || datadir_save(d, &err) == 0) {
        j->keep_failed_said = false;
        return;
    }
    if (!j->keep_failed_said) {
        log_error(j->log,
                  "%s: that this is benefactor %u is not kept yet; it is tried again with the next "
                  "connection",
                  err.text, id);
    }
    j->keep_failed_said = true;
}

static void joined(struct joining *j, const Morsel__DonorJoinReply *reply, const char *address)
{
    struct cluster_id cluster;

    if (reply->id == 0 || reply->cluster_id.len != sizeof(cluster.bytes)) {
        manager_refuses(j, "its answer is malformed: is it a manager of this version?");
        return;
    }
    memcpy(cluster.bytes, reply->cluster_id.data, sizeof(cluster.bytes));
    if (cluster_id_known(&j->datadir->cluster) &&
        !cluster_id_equal(&j->datadir->cluster, &cluster)) {
        manager_is_another(j);
        return;
    }
    keep(j, reply->id, &cluster);
    j->report_ms = reply->report_ms >= REPORT_MS_MIN && reply->report_ms <= REPORT_MS_MAX
                       ? reply->report_ms
                       : REPORT_MS_DEFAULT;
    log_info(j->log, "joined the manager at %s as benefactor %u; clients reach it at %s",
             manager_address(j), reply->id, address);
    j->member = true;
    j->away_said = false; /* Who reads that it is back also reads when it is lost again. */
    holdings_joined(j->holdings);
    fetching_joined(j->fetching, true);
    j->busy_said = false;
    later(j,
          j->wanted || holdings_to_tell(j->holdings) ? 0 : prng_below(&j->prng, j->report_ms) + 1);
    if (!j->joined_told) {
        j->joined_told = true;
        j->joined(j->data);
    }
}

/* An answer: unpacked, or NULL, and the call has failed. */
static void *take_answer(struct joining *j, const ProtobufCMessageDescriptor *type, int status,
                         const struct rpc_reply *reply, struct rpc_room *room)
{
    void *message = NULL;

    if (j->stopping || j->leaving) {
        return NULL;
    }
    if (status == 0) {
        status = rpc_unpack_in(room, type, reply->body, reply->body_count, &message);
    }
    if (status != 0) {
        call_failed(j, status, reply->text);
        return NULL;
    }
    return message;
}

static void on_joined(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct joining *j = call->data;
    struct rpc_room room;
    Morsel__DonorJoinReply *message =
        take_answer(j, &morsel__donor_join_reply__descriptor, status, reply, &room);

    if (message != NULL) {
        own_address(j, j->door);
        joined(j, message, j->door);
        rpc_room_free(&room, message);
    }
}

static int start_join(struct joining *j)
{
    Morsel__DonorJoinRequest request = MORSEL__DONOR_JOIN_REQUEST__INIT;
    Morsel__DonorReport report;
    char address[ADDRESS_TEXT_MAX], name[256] = "";

    gethostname(name, sizeof(name) - 1);
    own_address(j, address);
    fill_report(j, &report);
    request.token.data = j->datadir->token;
    request.token.len = sizeof(j->datadir->token);
    request.id = j->datadir->node;
    request.instance = j->instance;
    request.address = address;
    request.name = name;
    request.report = &report;
    request.held_told = j->holdings->state == HOLDINGS_TOLD;
    return rpc_call_start(&j->call, j->manager, MSG_DONOR_JOIN, &request.base, NULL, 0, ANSWER_MS,
                          on_joined);
}

/* Not only takes it us, it also listens. */
static void manager_is_well(struct joining *j)
{
    j->away_said = false;
    j->retry_ms = RETRY_MS_MIN;
}

/* The next report is due a period behind the last one, whatever came in between. */
static void report_later(struct joining *j)
{
    uint32_t report_ms = j->soon && j->report_ms > SOON_MS ? SOON_MS : j->report_ms;

    later(j, j->wanted || holdings_to_tell(j->holdings)
                 ? 0
                 : report_ms - prng_below(&j->prng, report_ms / 4 + 1));
}

/* It is said when it changes. */
static void note_door(struct joining *j, bool shut)
{
    if (shut && !j->shut) {
        log_warning(j->log,
                    "the manager finds nobody at %s, and so will clients: nothing new is placed "
                    "here; let a "
                    "firewall of this machine pass the port, or name another address (--advertise)",
                    j->door);
    } else if (!shut && j->shut) {
        log_info(j->log, "clients reach this machine at %s now", j->door);
    }
    j->shut = shut;
}

static void on_reported(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct joining *j = call->data;
    struct rpc_room room;
    Morsel__DonorReportReply *message =
        take_answer(j, &morsel__donor_report_reply__descriptor, status, reply, &room);

    if (message != NULL) {
        manager_is_well(j);
        holdings_reported(j->holdings, message);
        j->soon = message->soon;
        note_door(j, message->shut);
        if (message->left != NULL) {
            j->told_left(j->data, message->left);
        }
        rpc_room_free(&room, message);
        report_later(j);
    }
}

struct hottest_told
{
    Morsel__DonorRead items[HOTTEST_MAX], *pointers[HOTTEST_MAX];
};

static void fill_hottest(struct joining *j, struct hottest_told *told,
                         Morsel__DonorReportRequest *request)
{
    struct hottest_item items[HOTTEST_MAX];
    uint32_t count = hottest_take(j->hottest, items);

    for (uint32_t i = 0; i < count; i++) {
        told->pointers[i] = &told->items[i];
        morsel__donor_read__init(&told->items[i]);
        told->items[i].set = items[i].set;
        told->items[i].morsel = items[i].morsel;
        told->items[i].reads = items[i].count;
    }
    request->hottest = told->pointers;
    request->n_hottest = count;
}

static int start_report(struct joining *j, struct rpc_call *call, bool leaves, uint64_t answer_ms,
                        rpc_call_cb done)
{
    Morsel__DonorReportRequest request = MORSEL__DONOR_REPORT_REQUEST__INIT;
    Morsel__DonorReport report;
    struct hottest_told told;
    int rv;

    fill_report(j, &report);
    fill_hottest(j, &told, &request);
    request.id = j->datadir->node;
    request.instance = j->instance;
    request.report = &report;
    request.leaves = leaves;
    holdings_report_fill(j->holdings, &request);
    rv =
        rpc_call_start(call, j->manager, MSG_DONOR_REPORT, &request.base, NULL, 0, answer_ms, done);
    holdings_report_free(&request);
    return rv;
}

static void on_held(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct joining *j = call->data;
    struct rpc_room room;
    Morsel__DonorHeldReply *message =
        take_answer(j, &morsel__donor_held_reply__descriptor, status, reply, &room);

    if (message != NULL) {
        manager_is_well(j);
        holdings_told(j->holdings, message);
        rpc_room_free(&room, message);
        report_later(j);
    }
}

static int start_held(struct joining *j)
{
    return holdings_tell(j->holdings, &j->call, j->manager, j->datadir->node, j->instance,
                         HELD_ANSWER_MS, on_held);
}

/* A JOIN is started without a connection, too: it makes one. */
static void speak(struct joining *j)
{
    int rv;

    if (rpc_call_active(&j->call)) {
        return; /* What is under way leads on. */
    }
    if (!j->member) {
        rv = start_join(j);
    } else if (holdings_to_tell(j->holdings) && !j->wanted) {
        rv = start_held(j);
    } else {
        j->wanted = false;
        rv = start_report(j, &j->call, false, ANSWER_MS, on_reported);
    }
    if (rv != 0) {
        manager_is_away(j, rv, "");
    }
}

/* ---- The connection ---- */

/* A new connection: perhaps from another address, perhaps to a manager that has just started. What was said on an older
 * one, or waits to be said, is not true any more. */
static void on_manager_up(void *data)
{
    struct joining *j = data;

    j->member = false;
    fetching_joined(j->fetching, false);
    j->retry_ms = RETRY_MS_MIN;
    if (rpc_call_active(&j->call)) {
        rpc_call_cancel(&j->call);
    } else {
        later(j, 0);
    }
}

static void on_manager_down(void *data, const char *why)
{
    struct joining *j = data;

    if (!j->away_said && !j->leaving && !j->stopping) {
        log_warning(j->log, "lost the manager at %s: %s: trying again", manager_address(j), why);
    }
    j->away_said = true;
    j->member = false;
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct joining *j = data;

    if (type == MSG_DONOR_WANTED) { /* It has nothing in it. */
        joining_hurry(j);
    } else if ((type == MSG_DONOR_FETCH || type == MSG_DONOR_CHECK) && !j->stopping &&
               !j->leaving) {
        fetching_ordered(j->fetching, type == MSG_DONOR_CHECK, body, body_count);
    }
}

/* ---- The face ---- */

void joining_hurry(struct joining *j)
{
    j->wanted = true;
    if (j->member && !rpc_call_active(&j->call)) {
        later(j, 0);
    }
}

bool joining_is_member(const struct joining *j)
{
    return j->member;
}

void joining_start(struct joining *j)
{
    j->started = true;
    j->instance = rpc_start_id(j->rpc);
    prng_seed(&j->prng, j->instance);
    j->joined_told = cluster_id_known(&j->datadir->cluster);
    j->report_ms = REPORT_MS_DEFAULT;
    j->retry_ms = RETRY_MS_MIN;
    j->call.data = j;
    j->last.data = j;
    uv_timer_init(j->loop, &j->timer);
    j->timer.data = j;
    rpc_peer_watch(j->manager, on_manager_up, on_manager_down, j);
    rpc_peer_on_push(j->manager, on_push);
    speak(j);
}

static void on_left(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct joining *j = call->data;

    (void)status; /* It finds out by itself. */
    (void)reply;
    if (!j->stopping) {
        j->left(j->data);
    }
}

void joining_leave(struct joining *j, void (*left)(void *data))
{
    bool known = j->started && !j->stopping && j->member && rpc_peer_connected(j->manager);

    if (j->leaving) {
        return;
    }
    j->leaving = true;
    j->left = left;
    if (j->started && !j->stopping) {
        uv_timer_stop(&j->timer);
    }
    if (!known || start_report(j, &j->last, true, JOINING_LEAVE_MS, on_left) != 0) {
        left(j->data);
    }
}

void joining_stop(struct joining *j)
{
    if (!j->started || j->stopping) {
        return;
    }
    j->stopping = true;
    uv_close((uv_handle_t *)&j->timer, NULL);
}
