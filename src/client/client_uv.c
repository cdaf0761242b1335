#include "client/client.h"

#include "client/data_versions.h"
#include "client/file_uv.h"
#include "client/lease_uv.h"
#include "client/lock_uv.h"
#include "client/turn_uv.h"
#include "common.pb-c.h"
#include "common/status.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SESSION_RETRY_MS = 1000,
    SESSION_TIMEOUT_MS_MIN =
        3000, /* A second mount is let in when what the first one cached has run out. */
    SESSION_TIMEOUT_MS_MAX = 10000,
    MEMBERS_TIMEOUT_MS = 5000,
    CLOCKS_MS = 2000, /* Between questions for the servers' clocks: they may drift 200 ms then. */
    MEMBERS_REFRESH_MS = 500, /* At most this often. */
    LEAVE_MS = 1000,
    NO_SESSION_RETRIES_MAX = 3,
    PAYLOAD_IDLE_BYTES = 64 << 20
};

static void members_ask(struct client *client);

uint64_t client_clock_ns(const struct client *client)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)((int64_t)now.tv_sec * 1000000000 + now.tv_nsec + client->clock_offset_ns);
}

int client_errno(const struct client *client, int status)
{
    if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE) {
        return client->options.soft ? ETIMEDOUT : EIO;
    }
    return status_to_errno(status);
}

/* ---- Session ---- */

static void session_answered(struct client *client, const Morsel__SessionReply *reply)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    client->clock_offset_ns =
        (int64_t)reply->clock_ns - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    client->session_due_ms = uv_now(client->loop) + LEASE_RENEW_MS;
    client->session_ready = true;
    lease_session_answered(client, reply);
    lock_session_answered(client, reply);
}

static void tell_ready(struct client *client, int status, const char *text)
{
    void (*ready)(void *data, int status, const char *text) = client->ready;

    client->ready = NULL;
    if (ready != NULL) {
        ready(client->ready_data, status, text);
    }
}

struct session_call
{
    struct rpc_call rpc;
    struct client *client;
    uint64_t sent_ns;
    bool renew;
};

static void session_ask(struct client *client);

static void squash_learn(struct client *client, const Morsel__Squash *squash)
{
    client->squash = (struct client_squash){ .any = false };
    if (squash != NULL) {
        client->squash = (struct client_squash){ true, squash->all, squash->uid, squash->gid };
    }
}

static void on_session(struct rpc_call *rpc_call, int status, struct rpc_reply *reply)
{
    struct session_call *call = CONTAINER_OF(rpc_call, struct session_call, rpc);
    struct client *client = call->client;
    Morsel__SessionReply *session = NULL;
    uint64_t sent_ns = call->sent_ns;
    bool renew = call->renew;

    free(call);
    client->sessions_asked--;
    client->joins_asked -= !renew;
    if (client->stopping || (renew && !client->joined)) {
        return; /* What was asked while we were joined is no answer to a client that is not any
                   more. */
    }
    client->session_due_ms = uv_now(client->loop) + SESSION_RETRY_MS;
    if (status == 0) {
        session = rpc_unpack(&morsel__session_reply__descriptor, reply->body, reply->body_count);
        status = session == NULL ? MORSEL_MALFORMED : 0;
    }
    if (status == 0) {
        lease_answered(client, sent_ns);
        squash_learn(client, session->squash);
        if (!renew) {
            client->title = session->title;
            client->joined = true;
        }
        session_answered(client, session);
        morsel__session_reply__free_unpacked(session, NULL);
        members_ask(client);
    } else if (status == MORSEL_NO_SESSION && renew) {
        lease_invalidate(client);
        session_ask(client);
    } else {
        if (client->session_ready) {
            log_warning(client->options.log,
                        "manager %s did not renew the session: %s; trying again",
                        rpc_peer_address(client->manager),
                        reply->text[0] != '\0' ? reply->text : status_words(status));
        }
        tell_ready(client, status, reply->text[0] != '\0' ? reply->text : status_words(status));
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
    if (rpc_call_start(&call->rpc, client->manager, MSG_SESSION, &request->base, NULL, 0,
                       session_timeout_ms(client), on_session) == 0) {
        client->sessions_asked++;
        client->joins_asked += !call->renew;
    } else {
        free(call);
    }
}

/* What we have open and hold. Each request is its own: after a reconnection a fresh one must go
 * first, whatever became of an older one. */
static void session_ask(struct client *client)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;
    size_t room = HASH_COUNT(client->files) + 1;
    uint64_t *inodes = malloc(2 * room * sizeof(*inodes));
    struct file *file, *next;

    client->session_due_ms = uv_now(client->loop) + SESSION_RETRY_MS;
    request.number = ++client->sessions_number;
    request.title = client->title;
    if (inodes != NULL && lease_session_fill(client, &request) &&
        lock_session_fill(client, &request)) {
        request.open_inodes = inodes;
        request.open_write = inodes + room;
        HASH_ITER(hh, client->files, file, next)
        {
            if (file_has_writer(file)) {
                request.open_write[request.n_open_write++] = file->inode;
            } else {
                request.open_inodes[request.n_open_inodes++] = file->inode;
            }
            file->told = true;
            list_remove(&file->untold_node);
        }
        session_send(client, &request);
    }
    lock_session_free(&request);
    free(request.held_read);
    free(request.held_write);
    free(inodes);
}

/* A word now and then: the session goes on, and so does the term of the leases. */
static void session_renew(struct client *client)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;

    client->session_due_ms = uv_now(client->loop) + SESSION_RETRY_MS;
    request.renew = true;
    session_send(client, &request);
}

/* After each connection, first of all: a manager that restarted must hear which files we hold open
 * before it hears anything else. */
static void on_manager_up(void *data)
{
    struct client *client = data;

    if (client->session_ready) {
        log_info(client->options.log, "manager %s is back", rpc_peer_address(client->manager));
    }
    if (rpc_peer_start_id(client->manager) != client->manager_start_id) {
        client->manager_start_id = rpc_peer_start_id(client->manager);
        data_version_forget_all(client->versions);
    }
    session_ask(client);
    lock_manager_up(client);
    turn_forget_all(client); /* Who waits for one may have been told so on the old connection. */
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct client *client = data;

    if (client->stopping) {
        return;
    }
    if (type == MSG_RECALL) {
        lease_on_recall(client, body, body_count);
    } else if (type == MSG_TURN_WANTED) {
        turn_on_push(client, body, body_count);
    }
}

static void on_manager_down(void *data, const char *why)
{
    struct client *client = data;

    log_warning(client->options.log,
                "lost the connection to manager %s: %s; open files go on, other calls wait",
                rpc_peer_address(client->manager), why);
}

/* ---- Servers ---- */

struct rpc_peer *client_peer(struct client *client, server_id id)
{
    struct client_server *server;

    HASH_FIND(hh, client->servers, &id, sizeof(id), server);
    return server == NULL ? NULL : server->peer;
}

static void on_server_down(void *data, const char *why)
{
    struct client_server *server = data;

    log_warning(server->client->options.log,
                "lost the connection to server %u at %s: %s; connecting again", server->id,
                rpc_peer_address(server->peer), why);
    members_ask(server->client); /* Perhaps it has another address now. */
}

static void member_learn(struct client *client, const Morsel__Member *member)
{
    struct client_server *server;
    struct errmsg err;
    server_id id = member->id;

    HASH_FIND(hh, client->servers, &id, sizeof(id), server);
    if (server != NULL) {
        if (rpc_peer_set_address(server->peer, member->address, &err) != 0) {
            log_warning(client->options.log, "server %u: %s", id, err.text);
        }
        return;
    }
    server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return;
    }
    if (rpc_peer_new(client->rpc, member->address, &server->peer, &err) != 0) {
        log_warning(client->options.log, "server %u: %s", id, err.text);
        free(server);
        return;
    }
    server->id = id;
    server->client = client;
    rpc_peer_expect(server->peer, id);
    rpc_peer_watch(server->peer, NULL, on_server_down, server);
    HASH_ADD(hh, client->servers, id, sizeof(server->id), server);
}

static void on_clock(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct client_server *server = CONTAINER_OF(call, struct client_server, clock);
    Morsel__Clock *clock = NULL;

    if (status == 0) {
        clock = rpc_unpack(&morsel__clock__descriptor, reply->body, reply->body_count);
    }
    if (clock != NULL) {
        rpc_peer_note_clock(server->peer, clock->boot_ms);
        morsel__clock__free_unpacked(clock, NULL);
    }
}

/* What we know of the servers' clocks must not grow old: the bound on their drift grows with it. */
static void clocks_ask(struct client *client)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;
    struct client_server *server, *next;

    HASH_ITER(hh, client->servers, server, next)
    {
        if (rpc_peer_connected(server->peer) && !rpc_call_active(&server->clock)) {
            (void)rpc_call_start(&server->clock, server->peer, MSG_CLOCK, &request.base, NULL, 0,
                                 CLOCKS_MS, on_clock);
        }
    }
}

static void on_members(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct client *client = call->data;
    Morsel__MembersReply *members = NULL;
    struct list *node;

    if (status == 0) {
        members = rpc_unpack(&morsel__members_reply__descriptor, reply->body, reply->body_count);
    }
    if (members != NULL && !client->stopping) {
        for (size_t i = 0; i < members->n_members; i++) {
            member_learn(client, members->members[i]);
        }
    }
    if (members != NULL) {
        morsel__members_reply__free_unpacked(members, NULL);
        if (!client->stopping) {
            tell_ready(client, 0, "");
        }
    }
    while ((node = list_pop_front(&client->members_waiting)) != NULL) {
        struct servers_wait *wait = LIST_ENTRY(node, struct servers_wait, node);

        wait->done(wait);
    }
}

static void members_ask(struct client *client)
{
    Morsel__MembersRequest request = MORSEL__MEMBERS_REQUEST__INIT;
    uint64_t now = uv_now(client->loop);

    if (client->stopping || rpc_call_active(&client->members_call) ||
        (client->ready == NULL && list_empty(&client->members_waiting) &&
         now < client->members_asked_ms + MEMBERS_REFRESH_MS)) {
        return;
    }
    client->members_asked_ms = now;
    client->members_call.data = client;
    (void)rpc_call_start(&client->members_call, client->manager, MSG_MEMBERS, &request.base, NULL,
                         0, MEMBERS_TIMEOUT_MS, on_members);
}

bool client_know_servers(struct client *client, const server_id *ids, uint32_t count,
                         struct servers_wait *wait)
{
    bool known = true;

    for (uint32_t i = 0; i < count; i++) {
        known = known && client_peer(client, ids[i]) != NULL;
    }
    if (known) {
        return true;
    }
    list_init(&wait->node);
    list_push_back(&client->members_waiting, &wait->node);
    members_ask(client);
    if (rpc_call_active(&client->members_call)) {
        return false;
    }
    list_remove(&wait->node); /* Out of memory: let the first use of the server fail. */
    return true;
}

/* ---- Calls to the manager ---- */

static void on_meta_reply(struct rpc_call *rpc_call, int status, struct rpc_reply *reply)
{
    struct meta_call *call = rpc_call->data;
    struct client *client = call->client;
    void *message = NULL;

    if (status == MORSEL_NO_SESSION) {
        lease_invalidate(client);
    }
    if (status == MORSEL_NO_SESSION && !client->stopping &&
        call->retries < NO_SESSION_RETRIES_MAX) {
        /* The session ran out while we could not reach the manager: begin a new one, and ask again.
         */
        call->retries++;
        reply->again = true;
        if (client->joins_asked == 0) {
            log_warning(
                client->options.log,
                "manager %s had given us up, for it did not hear from us; joining anew (files "
                "that were deleted while open may be gone)",
                rpc_peer_address(client->manager));
            session_ask(client);
        }
        return;
    }
    if (call->sequence != 0) {
        op_numbers_return(&call->client->numbers, call->sequence);
        call->sequence = 0;
    }
    if (status == 0 && call->reply_type != NULL) {
        message = rpc_unpack(call->reply_type, reply->body, reply->body_count);
        if (message == NULL) {
            log_error(call->client->options.log, "answer of the manager to %s is malformed",
                      message_name(call->type));
            status = MORSEL_MALFORMED;
        }
    }
    if (status != MORSEL_TIMEDOUT && status != MORSEL_UNREACHABLE && status != MORSEL_CANCELED &&
        status != MORSEL_SHUTDOWN && status != MORSEL_NO_SESSION) {
        lease_answered(client, call->sent_ns);
    }
    if (message != NULL) {
        lease_learn(client, call->reply_type, message);
    }
    call->done(call, status, message);
    if (message != NULL) {
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

int meta_call_start(struct meta_call *call, struct client *client, enum message_type type,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                    meta_call_cb done)
{
    call->client = client;
    call->done = done;
    call->type = type;
    call->reply_type = reply_type;
    call->sequence = 0;
    call->retries = 0;
    call->sent_ns = rpc_boot_ns();
    call->rpc.data = call;
    return rpc_call_start(&call->rpc, client->manager, type, request, NULL, 0,
                          client->options.io_timeout_ms, on_meta_reply);
}

int meta_change_start(struct meta_call *call, struct client *client, enum message_type type,
                      const ProtobufCMessage *request, Morsel__OpId **op,
                      const ProtobufCMessageDescriptor *reply_type, meta_call_cb done)
{
    Morsel__OpId id = MORSEL__OP_ID__INIT;
    op_sequence sequence = op_numbers_take(&client->numbers);
    int rv;

    if (sequence == 0) {
        return MORSEL_OVERLOAD;
    }
    id.client = client->id;
    id.sequence = sequence;
    id.answered = client->numbers.answered;
    *op = &id;
    rv = meta_call_start(call, client, type, request, reply_type, done);
    *op = NULL;
    if (rv != 0) {
        op_numbers_return(&client->numbers, sequence);
        return rv;
    }
    call->sequence = sequence;
    return MORSEL_OK;
}

void meta_call_cancel(struct meta_call *call)
{
    rpc_call_cancel(&call->rpc);
}

void client_note_end(struct client *client, int status)
{
    if ((status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE || status == MORSEL_CANCELED) &&
        client->unsure_until_ns < client->term_longest_ns) {
        client->unsure_until_ns = client->term_longest_ns;
    }
}

void client_rejoin(struct client *client)
{
    lease_invalidate(client);
    if (client->joins_asked == 0) {
        session_ask(client);
    }
}

/* ---- Closes, in batches ---- */

static bool is_open(struct client *client, inode_id inode)
{
    LIST_FOREACH(node, &client->opening)
    {
        if (LIST_ENTRY(node, struct client_opening, node)->inode == inode) {
            return true;
        }
    }
    return file_find(client, inode) != NULL;
}

static void closes_send(struct client *client)
{
    Morsel__CloseRequest request = MORSEL__CLOSE_REQUEST__INIT;

    for (size_t i = 0; i < client->closed_count; i++) {
        if (!is_open(client, client->closed_inodes[i])) {
            client->closed_inodes[request.n_inodes++] = client->closed_inodes[i];
        }
    }
    client->closed_count = 0;
    request.inodes = client->closed_inodes;
    if (request.n_inodes > 0) {
        /* Lost with the connection? Then the next SESSION lists what is open, and that is the
         * truth. */
        rpc_send_oneway(client->manager, MSG_CLOSE, &request.base);
    }
}

void client_close_inode(struct client *client, inode_id inode)
{
    client->closed_inodes[client->closed_count++] = inode;
    if (client->closed_count == CLOSED_BATCH_MAX) {
        closes_send(client);
    }
}

void client_opening_begin(struct client *client, struct client_opening *opening, inode_id inode)
{
    opening->inode = inode;
    list_init(&opening->node);
    list_push_back(&client->opening, &opening->node);
}

void client_opening_end(struct client_opening *opening)
{
    list_remove(&opening->node);
}

/* ---- Life ---- */

static void on_tick(uv_timer_t *timer)
{
    struct client *client = timer->data;
    uint64_t now = uv_now(client->loop);

    lease_tick(client);
    turn_tick(client);
    if (now >= client->session_due_ms &&
        (client->joined ? client->sessions_asked : client->joins_asked) == 0) {
        if (client->joined) {
            session_renew(client);
        } else {
            session_ask(client);
        }
    }
    closes_send(client);
    if (now >= client->clocks_due_ms) {
        client->clocks_due_ms = now + CLOCKS_MS;
        clocks_ask(client);
    }
    LIST_FOREACH_SAFE(node, &client->dirty_files)
    {
        file_age(LIST_ENTRY(node, struct file, dirty_node), now);
    }
}

static void client_init(struct client *client, uv_loop_t *loop,
                        const struct client_options *options)
{
    client->loop = loop;
    client->options = *options;
    if (uv_random(NULL, NULL, &client->id, sizeof(client->id), 0, NULL) != 0) {
        client->id = uv_hrtime();
    }
    client->id |= 1; /* 0 means "none". */
    op_numbers_init(&client->numbers);
    list_init(&client->members_waiting);
    list_init(&client->dirty_files);
    list_init(&client->opening);
    list_init(&client->recalls);
    list_init(&client->untold);
    list_init(&client->turn_holds);
    client->session_due_ms = UINT64_MAX;
}

static void client_free(struct client *client)
{
    struct client_server *server, *next;

    HASH_ITER(hh, client->servers, server, next)
    {
        HASH_DEL(client->servers, server);
        free(server);
    }
    data_version_cache_free(client->versions);
    lease_close(client);
    turn_client_close(client);
    lock_client_close(client);
    free(client->closed_inodes);
    free(client);
}

int client_new(uv_loop_t *loop, const struct client_options *options, struct client **client_out,
               void (*ready)(void *data, int status, const char *text), void *data,
               struct errmsg *err)
{
    struct client *client = calloc(1, sizeof(*client));
    struct rpc_options rpc_options = { .role = ROLE_CLIENT,
                                       .payload_idle_bytes_max = PAYLOAD_IDLE_BYTES,
                                       .program = options->program };
    int rv;

    *client_out = NULL;
    if (client == NULL) {
        return MORSEL_NOMEM;
    }
    client_init(client, loop, options);
    client->closed_inodes = malloc(CLOSED_BATCH_MAX * sizeof(client->closed_inodes[0]));
    client->versions = data_version_cache_new();
    client->cache = meta_cache_new(CLIENT_CACHE_INODES_MAX, CLIENT_CACHE_NAMES_MAX);
    rpc_options.node_id = client->id;
    rv = lock_client_open(client);
    if (client->closed_inodes == NULL || client->versions == NULL || client->cache == NULL) {
        rv = MORSEL_NOMEM;
    }
    if (rv == 0) {
        rv = rpc_new(loop, &rpc_options, &client->rpc);
    }
    if (rv == 0 && (rv = rpc_peer_new(client->rpc, options->manager, &client->manager, err)) != 0) {
        rpc_close(client->rpc, NULL, NULL);
    }
    if (rv != 0) {
        client_free(client);
        return rv;
    }
    rpc_set_term(client->rpc, &client->term_until_ns);
    client->ready = ready;
    client->ready_data = data;
    rpc_peer_watch(client->manager, on_manager_up, on_manager_down, client);
    rpc_peer_on_push(client->manager, on_push);
    (void)uv_timer_init(loop, &client->tick);
    client->tick.data = client;
    (void)uv_timer_start(&client->tick, on_tick, CLIENT_TICK_MS, CLIENT_TICK_MS);
    session_ask(client); /* Makes the peer connect. */
    *client_out = client;
    return MORSEL_OK;
}

struct leaving
{
    struct rpc_call call;
    struct client *client;
    void (*closed)(void *data);
    void *data;
};

static void on_idle(struct client *client)
{
    struct leaving *leaving = client->leaving;

    client_free(client);
    if (leaving->closed != NULL) {
        leaving->closed(leaving->data);
    }
    free(leaving);
}

static void on_rpc_closed(void *data)
{
    struct leaving *leaving = data;
    struct client *client = leaving->client;

    client->leaving = leaving;
    if (client->kernel_drops == 0) {
        on_idle(client);
    } else {
        client->idle = on_idle; /* The kernel has not answered yet. */
    }
}

static void on_left(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct leaving *leaving = CONTAINER_OF(call, struct leaving, call);

    (void)status;
    (void)reply;
    rpc_close(leaving->client->rpc, on_rpc_closed, leaving);
}

void client_close(struct client *client, void (*closed)(void *data), void *data)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;
    struct leaving *leaving = calloc(1, sizeof(*leaving));

    CHECK(leaving != NULL);
    CHECK(client->files == NULL);
    client->stopping = true;
    client->ready = NULL;
    uv_close((uv_handle_t *)&client->tick, NULL);
    closes_send(client);
    rpc_peer_watch(client->manager, NULL, NULL, NULL);
    leaving->client = client;
    leaving->closed = closed;
    leaving->data = data;
    request.leave = true;
    if (!rpc_peer_connected(client->manager) ||
        rpc_call_start(&leaving->call, client->manager, MSG_SESSION, &request.base, NULL, 0,
                       LEAVE_MS, on_left) != 0) {
        rpc_close(client->rpc, on_rpc_closed, leaving);
    }
}
