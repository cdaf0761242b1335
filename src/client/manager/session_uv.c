/* The client's session with the manager: joining, renewing, what the manager pushes. */
#include "client/manager/session_uv.h"

#include "client/coherence/data_versions.h"
#include "client/coherence/held_uv.h"
#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/lock_uv.h"
#include "client/coherence/recall_uv.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/durable_uv.h"
#include "client/manager/servers_uv.h"
#include "client/manager/unread_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

enum {
    SESSION_TIMEOUT_MS_MIN =
        3000, /* A second mount is let in when what the first one cached has run out. */
    SESSION_TIMEOUT_MS_MAX = 10000,
    CLOCK_DRIFT_DIVISOR = 1000, /* Two clocks drift apart by a thousandth of the time at most. */
    CLOCK_WAY_NS_MAX = 500 * 1000 * 1000 /* As long as an answer is on its way behind slow links. */
};

enum session_state { SESSION_NONE_YET, SESSION_KNOWN };

struct session
{
    enum session_state state;  /* Has the manager answered the first SESSION? */
    uint64_t manager_start_id; /* Of the start of the manager that we talk to. */
    uint64_t run;              /* Its run, as of its last SESSION; 0: none. */
    struct client_squash squash;
    int64_t clock_offset_ns; /* Its wall clock minus rpc_boot_ns(), */
    uint64_t clock_error_ns; /* give or take this, */
    uint64_t clock_noted_ns; /* when it was noted. 0: never. */
    void (*ready)(void *data, int status, const char *text); /* Once, for the first answer. */
    void *ready_data;
};

uint64_t client_clock_ns(const struct client *client)
{
    return rpc_boot_ns() + (uint64_t)client->session->clock_offset_ns;
}

const struct client_squash *client_squash(const struct client *client)
{
    return &client->session->squash;
}

/* The manager's clock was manager_ns some time between the question and its answer: in the middle,
 * give or take a half (Cristian, "Probabilistic clock synchronization", 1989). An answer that was
 * long on its way does not take the place of a better one, before that one is old. Beyond
 * CLOCK_WAY_NS_MAX it was the manager that took its time, and then answered: at the end. */
static void note_clock(struct session *session, uint64_t manager_ns, uint64_t sent_ns)
{
    uint64_t now_ns = rpc_boot_ns(), error_ns = (now_ns - sent_ns) / 2;
    uint64_t known_ns =
        session->clock_error_ns + (now_ns - session->clock_noted_ns) / CLOCK_DRIFT_DIVISOR;

    if (session->clock_noted_ns == 0 || error_ns <= known_ns) {
        uint64_t way_ns = error_ns <= CLOCK_WAY_NS_MAX ? error_ns : 0;

        session->clock_offset_ns = (int64_t)(manager_ns + way_ns - now_ns);
        session->clock_error_ns = error_ns;
        session->clock_noted_ns = now_ns;
    }
}

void session_tell_ready(struct client *client, int status, const char *text)
{
    struct session *session = client->session;
    void (*ready)(void *data, int status, const char *text) = session->ready;

    session->ready = NULL;
    if (ready != NULL) {
        ready(session->ready_data, status, text);
    }
}

struct session_call
{
    struct rpc_call rpc;
    struct client *client;
    uint64_t sent_ns;
    bool renew;
};

static void squash_learn(struct session *session, const Morsel__Squash *squash)
{
    session->squash = (struct client_squash){ .any = false };
    if (squash != NULL) {
        session->squash = (struct client_squash){ true, squash->all, squash->uid, squash->gid };
    }
}

/* Of another run than before it may have forgotten what it told us. */
static void note_run(struct client *client, const Morsel__Durable *durable)
{
    uint64_t before = client->session->run;

    if (durable == NULL) {
        return;
    }
    client->session->run = durable->run;
    if (before != 0 && before != durable->run) {
        log_warning(client->options.log,
                    "manager %s lost its power: changes of the last moments may be gone, unless "
                    "fsync covered them",
                    rpc_peer_address(client->manager));
        held_forget_clean(client);
    }
}

static void take_session(struct client *client, const Morsel__SessionReply *reply, uint64_t sent_ns)
{
    struct session *session = client->session;

    squash_learn(session, reply->squash);
    note_clock(session, reply->clock_ns, sent_ns);
    session->state = SESSION_KNOWN;
    held_answered(client, reply);
    note_run(client, reply->durable);
    durable_heard(client, reply->durable);
}

static void on_session(struct rpc_call *rpc_call, int status, struct rpc_reply *reply)
{
    struct session_call *call = CONTAINER_OF(rpc_call, struct session_call, rpc);
    struct client *client = call->client;
    struct lease_holder_event event = { .type = HOLDER_SESSION_FAILED,
                                        .join = !call->renew,
                                        .sent_ns = call->sent_ns };
    Morsel__SessionReply *session = NULL;
    struct rpc_room room;
    /* What was asked while we were joined is no answer to a client that is not any more. */
    bool counts = !client_is_ending(client) && (event.join || lease_is_joined(client));

    free(call);
    if (counts && status == 0) {
        status = rpc_unpack_in(&room, &morsel__session_reply__descriptor, reply->body,
                               reply->body_count, (void **)&session);
    }
    if (session != NULL) {
        event.type = HOLDER_SESSION_ANSWERED;
        event.lease_ms = session->lease_ms;
        event.lease_epoch = session->lease_epoch;
    } else if (status == MORSEL_NO_SESSION && counts) {
        event.type = HOLDER_SESSION_REFUSED;
    }
    lease_feed(client, &event);
    if (!counts) {
        return;
    }
    if (session != NULL) {
        take_session(client, session, event.sent_ns);
        rpc_room_free(&room, session);
        if (event.join) {
            held_doubt_places(client);
        }
        event = (struct lease_holder_event){ .type = HOLDER_LOSSES_TAKEN };
        lease_feed(client, &event);
        servers_refresh(client);
    } else if (event.type == HOLDER_SESSION_FAILED || event.join) {
        if (client->session->state == SESSION_KNOWN) {
            log_warning(client->options.log,
                        "manager %s did not renew the session: %s; trying again",
                        rpc_peer_address(client->manager),
                        reply->text[0] != '\0' ? reply->text : status_words(status));
        }
        session_tell_ready(client, status,
                           reply->text[0] != '\0' ? reply->text : status_words(status));
    }
}

static uint64_t session_timeout_ms(const struct client *client)
{
    uint64_t timeout_ms = client->options.io_timeout_ms;

    timeout_ms = timeout_ms > SESSION_TIMEOUT_MS_MAX ? SESSION_TIMEOUT_MS_MAX : timeout_ms;
    return timeout_ms < SESSION_TIMEOUT_MS_MIN ? SESSION_TIMEOUT_MS_MIN : timeout_ms;
}

static void session_send(struct client *client, Morsel__SessionRequest *request)
{
    struct session_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return;
    }
    call->client = client;
    call->sent_ns = rpc_boot_ns();
    call->renew = request->renew;
    call->rpc.first = !request->renew; /* What comes before it is refused. */
    if (rpc_call_start(&call->rpc, client->manager, MSG_SESSION, &request->base, NULL, 0,
                       session_timeout_ms(client), on_session) == 0) {
        struct lease_holder_event event = { .type = HOLDER_ASKED, .join = !call->renew };

        lease_feed(client, &event);
    } else {
        free(call);
    }
}

void session_join(struct client *client, uint64_t number)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;

    request.number = number;
    if (held_fill(client, &request)) {
        session_send(client, &request);
    }
    held_unfill(&request);
}

void session_renew(struct client *client)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;

    request.renew = true;
    session_send(client, &request);
}

/* After each connection, first of all: a manager that restarted must hear which files we hold open
 * before it hears anything else. */
static void on_manager_up(void *data)
{
    struct client *client = data;
    struct lease_holder_event event = { .type = HOLDER_CONNECTED };

    if (client->session->state == SESSION_KNOWN) {
        log_info(client->options.log, "manager %s is back", rpc_peer_address(client->manager));
    }
    if (rpc_peer_start_id(client->manager) != client->session->manager_start_id) {
        client->session->manager_start_id = rpc_peer_start_id(client->manager);
        data_version_forget_all(client->data.versions);
    }
    lock_manager_up(client); /* Before what waits is sent, behind the SESSION. */
    lease_feed(client, &event);
    size_lock_forget_all(
        client); /* Who waits for one may have been told so on the old connection. */
}

/* The manager says for whom a request of ours waits. */
static void on_held_up(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__HeldUp *notice;
    int rv = rpc_unpack_in(&room, &morsel__held_up__descriptor, body, body_count, (void **)&notice);

    if (rv != 0) {
        manager_note_unread(client, "about who holds us up", rv);
        return;
    }
    log_warning(client->options.log,
                "inode %lu: we wait for the mount at %s, which still writes back what it holds of "
                "it (%lu bytes so far)",
                (unsigned long)notice->inode, notice->holder, (unsigned long)notice->landed);
    client->counters.held_up++;
    rpc_room_free(&room, notice);
}

/* Another mount is about to have a file moved that is open here. */
static void on_pause(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__PauseNotice *notice;
    int rv =
        rpc_unpack_in(&room, &morsel__pause_notice__descriptor, body, body_count, (void **)&notice);

    if (rv != 0) {
        manager_note_unread(client, "about a file that is to be held still", rv);
        return;
    }
    kernel_pause(client, notice->inode, notice->number);
    rpc_room_free(&room, notice);
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct client *client = data;

    if (client_is_ending(client)) {
        return;
    }
    if (type == MSG_RECALL) {
        recalls_on_notice(client, body, body_count);
    } else if (type == MSG_LOCK_REVOKE) {
        size_lock_on_push(client, body, body_count);
    } else if (type == MSG_LOCK_CHECK) {
        lock_on_check(client, body, body_count);
    } else if (type == MSG_HELD_UP) {
        on_held_up(client, body, body_count);
    } else if (type == MSG_PAUSE) {
        on_pause(client, body, body_count);
    }
}

static void on_manager_down(void *data, const char *why)
{
    struct client *client = data;

    log_warning(client->options.log,
                "lost the connection to manager %s: %s; open files go on, other calls wait",
                rpc_peer_address(client->manager), why);
}

int session_open(struct client *client, void (*ready)(void *data, int status, const char *text),
                 void *data)
{
    client->session = calloc(1, sizeof(*client->session));
    if (client->session == NULL) {
        return MORSEL_NOMEM;
    }
    client->session->ready = ready;
    client->session->ready_data = data;
    return MORSEL_OK;
}

void session_end(struct client *client)
{
    client->session->ready = NULL;
}

void session_close(struct client *client)
{
    free(client->session);
}

void session_begin(struct client *client)
{
    rpc_peer_watch(client->manager, on_manager_up, on_manager_down, client);
    rpc_peer_on_push(client->manager, on_push);
    session_tick(client); /* It asks at once, which makes the peer connect. */
}

void session_tick(struct client *client)
{
    struct lease_holder_event event = { .type = HOLDER_ASK_TICK };

    lease_feed(client, &event);
}
