/* Serving: HELLO, requests and their answers. Listeners: rpc_listen_uv.c; how many may come and how
 * much they may hold: rpc_guests_uv.c. */
#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/rpc/rpc_server_internal_uv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECENT_TEXT_MAX = 256 };

/* ---- Requests ---- */

static void release_held(struct rpc_server *server);

static void request_free(struct rpc_request *request)
{
    struct conn *conn = request->conn;
    bool bounded = request->not_after != 0;

    list_remove(&request->node);
    conn_discharge(conn, request->budget_bytes);
    guests_resume(conn);
    payload_drop(request->payload);
    free(request);
    if (bounded) {
        release_held(conn->data);
    }
    conn_drop(conn);
}

static struct rpc_type_statistics *statistics_of(const struct conn *conn, unsigned type)
{
    return &conn->statistics->types[type < MESSAGE_TYPES_MAX ? type : 0];
}

bool rpc_request_is_late(const struct rpc_request *request)
{
    return frame_is_late(request->not_after, rpc_boot_ms());
}

void rpc_request_worked(struct rpc_request *request, uint64_t begun_ns, uint64_t ended_ns)
{
    request->begun_ns = begun_ns;
    statistics_of(request->conn, request->type)->busy_ns += ended_ns - begun_ns;
}

static void send_reply(struct rpc_request *request, int status, uint8_t *body, size_t body_count,
                       struct payload *payload)
{
    struct conn *conn = request->conn;
    struct rpc_type_statistics *statistics = statistics_of(conn, request->type);
    struct frame_header header = { .flags = FRAME_REPLY,
                                   .type = (uint16_t)request->type,
                                   .request_id = request->request_id,
                                   .status = status,
                                   .clock_ms = frame_clock_told(rpc_boot_ms()) };
    struct rpc_piece piece = { payload, 0, payload == NULL ? 0 : payload->count };

    statistics->served++;
    statistics->failed += status != 0;
    statistics->served_ns += uv_hrtime() - request->arrived_ns;
    if (request->begun_ns != 0) {
        statistics->queued_ns += request->begun_ns - request->arrived_ns;
    }
    statistics->served_bytes += request->budget_bytes - sizeof(*request) + body_count + piece.count;
    if (request->oneway) {
        free(body);
    } else if (!conn_send(conn, &header, body, body_count, &piece, piece.count > 0 ? 1 : 0)) {
        /* Without an answer the caller must not wait for its deadline: a broken line makes it ask
         * again. */
        conn_close(conn, "out of memory for an answer");
    } else {
        guests_pause_if_full(conn->data, conn);
    }
    payload_drop(payload);
    request_free(request);
}

void rpc_reply(struct rpc_request *request, const ProtobufCMessage *reply, struct payload *payload)
{
    size_t count;
    uint8_t *body = rpc_pack(reply, &count);

    if (count == SIZE_MAX) {
        payload_drop(payload);
        rpc_reply_failure(request, MORSEL_NOMEM, "no memory for the answer");
        return;
    }
    send_reply(request, MORSEL_OK, body, count, payload);
}

void rpc_reply_packed(struct rpc_request *request, struct slice body, struct payload *payload)
{
    uint8_t *copy = body.count == 0 ? NULL : malloc(body.count);

    if (body.count > 0 && copy == NULL) {
        payload_drop(payload);
        rpc_reply_failure(request, MORSEL_NOMEM, "no memory for the answer");
        return;
    }
    if (body.count > 0) {
        memcpy(copy, body.data, body.count);
    }
    send_reply(request, MORSEL_OK, copy, body.count, payload);
}

void rpc_reply_failure(struct rpc_request *request, int status, const char *text)
{
    Morsel__Failure failure = MORSEL__FAILURE__INIT;
    size_t count = 0;
    uint8_t *body = NULL;
    char copy[RECENT_TEXT_MAX];

    CHECK(status < 0);
    if (text != NULL && text[0] != '\0') {
        (void)snprintf(copy, sizeof(copy), "%s", text);
        failure.text = copy;
        body = rpc_pack(&failure.base, &count);
    }
    send_reply(request, status, body, count == SIZE_MAX ? 0 : count, NULL);
}

void *rpc_request_unpack(struct rpc_request *request, const ProtobufCMessageDescriptor *type)
{
    void *message;
    int rv = rpc_try_unpack(type, request->body, request->body_count, &message);

    if (rv == MORSEL_NOMEM && request->oneway) {
        rpc_request_lost(request);
    } else if (rv != 0) {
        rpc_reply_failure(request, rv, rv == MORSEL_NOMEM ? NULL : type->short_name);
    }
    return message;
}

void rpc_request_lost(struct rpc_request *request)
{
    conn_break(request->conn, "out of memory for a message");
    rpc_reply(request, NULL, NULL);
}

const char *rpc_request_peer(const struct rpc_request *request)
{
    return request->conn->peer;
}

/* ---- Connections ---- */

static void refuse(struct conn *conn, uint64_t request_id, int status, const char *text)
{
    Morsel__Failure failure = MORSEL__FAILURE__INIT;
    struct frame_header header = {
        .flags = FRAME_REPLY, .type = MSG_HELLO, .request_id = request_id, .status = status
    };
    char copy[RECENT_TEXT_MAX];
    size_t count;
    uint8_t *body;

    (void)snprintf(copy, sizeof(copy), "%s", text);
    failure.text = copy;
    body = rpc_pack(&failure.base, &count);
    if (conn_send(conn, &header, body, count == SIZE_MAX ? 0 : count, NULL, 0)) {
        conn_flush(conn);
    }
    conn_close(conn, "refused");
}

static void answer_hello(struct rpc *rpc, struct conn *conn, uint64_t request_id)
{
    Morsel__HelloReply reply = MORSEL__HELLO_REPLY__INIT;
    struct frame_header header = { .flags = FRAME_REPLY,
                                   .type = MSG_HELLO,
                                   .request_id = request_id };
    struct timespec now;
    size_t count;
    uint8_t *body;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    reply.clock_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    reply.boot_ms = rpc_boot_ms();
    reply.role = rpc->role;
    reply.start_id = rpc->start_id;
    reply.node_id = rpc->node_id;
    if (cluster_id_known(&rpc->cluster_id)) {
        reply.cluster_id.data = rpc->cluster_id.bytes;
        reply.cluster_id.len = sizeof(rpc->cluster_id.bytes);
    }
    body = rpc_pack(&reply.base, &count);
    if (count == SIZE_MAX || !conn_send(conn, &header, body, count, NULL, 0)) {
        conn_close(conn, "out of memory");
        return;
    }
    guests_greeted(conn->data, conn);
}

bool rpc_node_address(const struct rpc_server *server, enum rpc_role role, uint64_t node_id,
                      char *text)
{
    const struct conn *conn = guests_find(server, role, node_id, NULL);

    if (conn != NULL) {
        (void)snprintf(text, ADDRESS_TEXT_MAX, "%s", conn->peer);
    }
    return conn != NULL;
}

bool rpc_push(struct rpc_server *server, enum rpc_role role, uint64_t node_id,
              enum message_type type, const ProtobufCMessage *message)
{
    struct frame_header header = { .type = (uint16_t)type, .flags = FRAME_ONEWAY };
    struct conn *conn = guests_find(server, role, node_id, NULL);
    size_t count;
    uint8_t *body;

    if (conn == NULL) {
        return false;
    }
    body = rpc_pack(message, &count);
    if (count == SIZE_MAX || !conn_send(conn, &header, body, count, NULL, 0)) {
        conn_close(conn, "out of memory for a message");
        return false;
    }
    return true;
}

void rpc_request_name_peer(struct rpc_request *request, uint64_t node_id)
{
    request->node_id = node_id;
    if (request->conn != NULL && !request->conn->closing) {
        guests_named(request->conn->data, request->conn, node_id);
    }
}

void rpc_disconnect(struct rpc_server *server, enum rpc_role role, uint64_t node_id,
                    const char *why)
{
    struct conn *conn;

    while ((conn = guests_find(server, role, node_id, NULL)) != NULL) {
        conn_close(conn, why);
    }
}

/* A client that comes again has given up its older connection, whether or not we have noticed: its
 * end must be told before the new beginning, not in the middle of what follows. */
static void end_older_connections(struct rpc_server *server, struct conn *conn)
{
    struct conn *older;

    while (conn->role == ROLE_CLIENT && conn->node_id != 0 &&
           (older = guests_find(server, conn->role, conn->node_id, conn)) != NULL) {
        conn_close(older, "the client has connected again");
    }
}

/* Is a bounded request of an older connection of the same peer still at work? What the peer sends
 * again over this one must not be overtaken by it. */
static bool must_wait(const struct rpc_server *server, const struct conn *conn)
{
    LIST_FOREACH(node, &server->bounded)
    {
        const struct rpc_request *request = LIST_ENTRY(node, struct rpc_request, node);

        if (request->conn != conn && request->role == conn->role &&
            request->node_id == conn->node_id) {
            return true;
        }
    }
    return false;
}

static void greet(struct rpc_server *server, struct conn *conn, uint64_t hello_id)
{
    end_older_connections(server, conn);
    conn->held = must_wait(server, conn);
    conn->held_id = hello_id;
    list_remove(&conn->unanswered);
    if (conn->held) {
        list_push_back(&server->held, &conn->unanswered);
    } else {
        answer_hello(server->rpc, conn, hello_id);
    }
}

/* A bounded request has come to its end. */
static void release_held(struct rpc_server *server)
{
    struct list waiting;
    struct list *node;

    if (server->closing || list_empty(&server->held)) {
        return;
    }
    list_init(&waiting);
    while ((node = list_pop_front(&server->held)) != NULL) {
        list_push_back(&waiting, node);
    }
    while ((node = list_pop_front(&waiting)) != NULL) {
        struct conn *conn = LIST_ENTRY(node, struct conn, unanswered);

        greet(server, conn, conn->held_id); /* May end up in the list again. */
    }
}

static void take_hello(struct rpc_server *server, struct conn *conn,
                       const struct frame_header *header, const uint8_t *body)
{
    const struct cluster_id *ours = &server->rpc->cluster_id;
    struct cluster_id theirs = { { 0 } };
    struct rpc_room room;
    Morsel__Hello *hello = NULL;

    if (header->type != MSG_HELLO || rpc_unpack_in(&room, &morsel__hello__descriptor, body,
                                                   header->body_length, (void **)&hello) != 0) {
        conn->statistics->frames_malformed++;
        conn_close(conn, "did not begin with HELLO");
        return;
    }
    conn->role = hello->role >= ROLE_MANAGER && hello->role <= ROLE_BENEFACTOR
                     ? (enum rpc_role)hello->role
                     : ROLE_ADMIN;
    conn->node_id = hello->node_id;
    if (hello->cluster_id.len == sizeof(theirs.bytes)) {
        memcpy(theirs.bytes, hello->cluster_id.data, sizeof(theirs.bytes));
    }
    rpc_room_free(&room, hello);
    if (cluster_id_known(ours) && cluster_id_known(&theirs) && !cluster_id_equal(ours, &theirs)) {
        refuse(conn, header->request_id, MORSEL_WRONG_CLUSTER,
               "this server belongs to another cluster");
        return;
    }
    greet(server, conn, header->request_id);
}

static struct rpc_request *request_new(struct rpc_server *server, struct conn *conn,
                                       const struct frame_header *header, const uint8_t *body,
                                       struct payload **payload)
{
    struct rpc_request *request = calloc(1, sizeof(*request) + header->body_length);
    uint8_t *copy;

    if (request == NULL) {
        return NULL;
    }
    copy = (uint8_t *)(request + 1);
    if (header->body_length > 0) {
        memcpy(copy, body, header->body_length);
    }
    request->type = (enum message_type)header->type;
    request->body = copy;
    request->body_count = header->body_length;
    request->payload = *payload;
    *payload = NULL;
    request->deadline_ms =
        header->deadline_ms == 0 ? UINT64_MAX : uv_now(server->rpc->loop) + header->deadline_ms;
    request->not_after = header->not_after;
    list_init(&request->node);
    if (request->not_after != 0) {
        list_push_back(&server->bounded, &request->node);
    }
    request->role = conn->role;
    request->node_id = conn->node_id;
    request->oneway = (header->flags & FRAME_ONEWAY) != 0;
    request->conn = conn_ref(conn);
    request->request_id = header->request_id;
    request->arrived_ns = uv_hrtime();
    request->budget_bytes = sizeof(*request) + header->body_length + header->payload_length;
    conn_charge(conn, request->budget_bytes);
    return request;
}

static void on_frame(struct conn *conn, const struct frame_header *header, const uint8_t *body,
                     struct payload **payload)
{
    struct rpc_server *server = conn->data;
    struct rpc_request *request;
    uint64_t began_ns;

    if ((header->flags & FRAME_REPLY) != 0) {
        conn_close(conn, "client sent an answer");
        return;
    }
    if (conn->held) {
        conn_close(conn, "client did not wait for the answer to HELLO");
        return;
    }
    if (!conn->greeted) {
        take_hello(server, conn, header, body);
        return;
    }
    request = request_new(server, conn, header, body, payload);
    if (request == NULL) {
        conn_close(conn, "out of memory for a request");
        return;
    }
    guests_heard(server, conn);
    guests_pause_if_full(server, conn);
    if (server->closing) {
        rpc_reply_failure(request, MORSEL_SHUTDOWN, NULL);
        return;
    }
    began_ns = request->arrived_ns;
    server->hooks.handle(server->hooks.data, request);
    statistics_of(conn, header->type)->busy_ns += uv_hrtime() - began_ns;
}

static void on_conn_closed(struct conn *conn, const char *why)
{
    struct rpc_server *server = conn->data;

    (void)why;
    guests_left(server, conn);
    if (conn->greeted && server->hooks.gone != NULL && !server->closing &&
        guests_find(server, conn->role, conn->node_id, conn) == NULL) {
        server->hooks.gone(server->hooks.data, conn->role, conn->node_id);
    }
    conn_drop(conn);
}

/* The last request of the connection has been answered: only now may the server go. */
static void on_conn_freed(void *owner)
{
    struct rpc_server *server = owner;
    struct rpc *rpc = server->rpc;

    rpc_server_unpin(server);
    rpc_handle_gone(rpc);
}

const struct conn_hooks rpc_server_conn_hooks = { .frame = on_frame,
                                                  .begun = guests_begun,
                                                  .sent = guests_resume,
                                                  .closed = on_conn_closed,
                                                  .freed = on_conn_freed };
