/* The connections of a server: how many may come, how long they may stay without a word, and how
 * much memory they may hold.
 *
 * Strangers, who have not said HELLO, get one small frame and STRANGER_MS; when there are too many
 * the oldest goes. When there are too many connections altogether, a stranger goes, then who was
 * silent longest of those whom the host does not value, and only then a peer that it does.
 *
 * Memory. Each connection counts what it holds: what comes in, requests without an answer, answers
 * that the peer has not taken. It is not read while the last two are more than its share: half of what is
 * left of the whole, between CONN_SHARE_BYTES_MIN and CONN_BUDGET_BYTES, or what its host wants clients to have
 * under way at most (rpc_server_set_client_share()) (dynamic thresholds:
 * Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998), so that a few may use much
 * and many get the same. One answer may go beyond it; when all together hold more than
 * SERVER_QUEUES_BYTES_MAX, the connection on which nothing has moved for longest is closed: its
 * peer, if it is there, connects again and asks again. */
#include "common/base/limits.h"
#include "common/rpc/rpc_server_internal_uv.h"

#include <stdlib.h>

/* ---- Who is who ---- */

static struct list *bucket_of(struct rpc_server *server, enum rpc_role role, uint64_t node_id)
{
    return &server->greeted[((node_id ^ role) * 0x9e3779b97f4a7c15U) >> 52];
}
static_assert(GUEST_BUCKETS == 1 << (64 - 52), "the highest bits of the hash");

struct conn *guests_find(const struct rpc_server *server, enum rpc_role role, uint64_t node_id,
                         const struct conn *but)
{
    const struct list *bucket = bucket_of((struct rpc_server *)(uintptr_t)server, role, node_id);

    LIST_FOREACH(node, bucket)
    {
        struct conn *conn = LIST_ENTRY(node, struct conn, by_node);

        if (conn != but && !conn->closing && conn->role == role && conn->node_id == node_id) {
            return conn;
        }
    }
    return NULL;
}

void guests_greeted(struct rpc_server *server, struct conn *conn)
{
    conn->greeted = true;
    conn->frame_bytes_max = 0;
    server->strangers_count--;
    list_push_back(bucket_of(server, conn->role, conn->node_id), &conn->by_node);
    guests_heard(server, conn);
}

void guests_named(struct rpc_server *server, struct conn *conn, uint64_t node_id)
{
    conn->node_id = node_id;
    list_remove(&conn->by_node);
    list_push_back(bucket_of(server, conn->role, conn->node_id), &conn->by_node);
}

void guests_heard(struct rpc_server *server, struct conn *conn)
{
    list_remove(&conn->node);
    list_push_back(&server->conns, &conn->node);
}

void guests_left(struct rpc_server *server, struct conn *conn)
{
    server->conns_count--;
    server->strangers_count -= !conn->greeted;
    list_remove(&conn->node);
    list_remove(&conn->by_node);
    list_remove(&conn->unanswered);
}

static bool is_valued(const struct rpc_server *server, const struct conn *conn)
{
    return conn->greeted && server->hooks.valued != NULL &&
           server->hooks.valued(server->hooks.data, conn->role, conn->node_id);
}

/* ---- Strangers ---- */

static struct conn *oldest_stranger(const struct rpc_server *server)
{
    return list_empty(&server->strangers)
               ? NULL
               : LIST_ENTRY(list_front(&server->strangers), struct conn, unanswered);
}

static void on_strangers_timer(uv_timer_t *timer);

static void arm(struct rpc_server *server)
{
    const struct conn *oldest = oldest_stranger(server);
    uint64_t now_ms = uv_now(server->rpc->loop), due_ms;

    if (oldest != NULL && !server->closing &&
        !uv_is_active((uv_handle_t *)&server->strangers_timer)) {
        due_ms = oldest->came_ms + STRANGER_MS;
        (void)uv_timer_start(&server->strangers_timer, on_strangers_timer,
                             due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

static void on_strangers_timer(uv_timer_t *timer)
{
    struct rpc_server *server = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    struct conn *conn;

    while ((conn = oldest_stranger(server)) != NULL && now_ms >= conn->came_ms + STRANGER_MS) {
        server->rpc->statistics.strangers_closed++;
        conn_close(conn, "did not say HELLO in time");
    }
    arm(server);
}

/* ---- Making room ---- */

/* The one that was silent longest, of those whom the host does not value if there are any. */
static struct conn *least_of_all(const struct rpc_server *server)
{
    LIST_FOREACH(node, &server->conns)
    {
        struct conn *conn = LIST_ENTRY(node, struct conn, node);

        if (!is_valued(server, conn)) {
            return conn;
        }
    }
    return list_empty(&server->conns) ? NULL
                                      : LIST_ENTRY(list_front(&server->conns), struct conn, node);
}

static void make_room(struct rpc_server *server)
{
    struct conn *conn;

    while (server->strangers_count > STRANGERS_MAX && (conn = oldest_stranger(server)) != NULL) {
        server->rpc->statistics.strangers_closed++;
        conn_close(conn, "too many connections without a HELLO");
    }
    while (server->conns_count > server->conns_max) {
        conn = oldest_stranger(server);
        if (conn == NULL && (conn = least_of_all(server)) == NULL) {
            return;
        }
        server->rpc->statistics.connections_shed++;
        conn_close(conn, "too many connections");
    }
}

static struct conn *most_stuck(const struct rpc_server *server, bool valued)
{
    struct conn *worst = NULL;

    LIST_FOREACH(node, &server->conns)
    {
        struct conn *conn = LIST_ENTRY(node, struct conn, node);

        if (conn_stuck_bytes(conn) >= CONN_SHARE_BYTES_MIN / 2 &&
            (worst == NULL || conn->moved_ms < worst->moved_ms) &&
            is_valued(server, conn) == valued) {
            worst = conn;
        }
    }
    return worst;
}

/* All hold too much. */
static void shed(struct rpc_server *server)
{
    while (server->memory > SERVER_QUEUES_BYTES_MAX && !server->closing) {
        struct conn *conn = most_stuck(server, false);

        if (conn == NULL && (conn = most_stuck(server, true)) == NULL) {
            return;
        }
        server->rpc->statistics.connections_shed++;
        conn_close(conn, "the server has no memory for what this peer does not take");
    }
}

void guests_begun(struct conn *conn)
{
    shed(conn->data);
}

/* ---- Backpressure ---- */

static size_t share_of(const struct rpc_server *server, const struct conn *conn)
{
    size_t most = conn->role == ROLE_CLIENT && server->client_share != 0 ? server->client_share
                                                                         : CONN_BUDGET_BYTES;
    size_t left =
        server->memory < SERVER_QUEUES_BYTES_MAX ? SERVER_QUEUES_BYTES_MAX - server->memory : 0;

    left /= 2;
    return left < CONN_SHARE_BYTES_MIN ? CONN_SHARE_BYTES_MIN : left > most ? most : left;
}

void rpc_server_set_client_share(struct rpc_server *server, size_t bytes)
{
    server->client_share =
        bytes == 0 || bytes > CONN_SHARE_BYTES_MIN ? bytes : CONN_SHARE_BYTES_MIN;
}

/* What it holds and lets go without being read: requests that are answered, answers that are taken.
 * A frame that has begun to come in is none of it: who waited for its end before reading on would
 * wait for ever. */
static size_t held_bytes(const struct conn *conn)
{
    return conn->memory - conn_coming_bytes(conn);
}

void guests_pause_if_full(struct rpc_server *server, struct conn *conn)
{
    if (held_bytes(conn) > share_of(server, conn)) {
        conn_pause(conn, true);
    }
    shed(server);
}

/* Either the last answer or the last byte taken may be what brings it there. One that holds nothing
 * is always read: its share is never less. */
void guests_resume(struct conn *conn)
{
    if (conn->paused && held_bytes(conn) <= share_of(conn->data, conn) / 2) {
        conn_pause(conn, false);
    }
}

/* ---- Coming and going ---- */

static void on_discarded(uv_handle_t *handle);

/* There is no memory for a connection: it is taken all the same and closed, for a listener that
 * does not take what it was told of is told of nothing more. */
static void discard(struct rpc_server *server)
{
    if (server->discarding) {
        server->discard_more = true;
        return;
    }
    if (uv_tcp_init(server->rpc->loop, &server->discard) != 0) {
        return;
    }
    server->discarding = true;
    server->discard.data = server;
    server->pins++;
    (void)uv_accept(&server->stream, (uv_stream_t *)&server->discard);
    uv_close((uv_handle_t *)&server->discard, on_discarded);
}

static void on_discarded(uv_handle_t *handle)
{
    struct rpc_server *server = handle->data;
    bool more = server->discard_more && !server->closing;

    server->discarding = server->discard_more = false;
    if (more) {
        discard(server);
    }
    rpc_server_unpin(server);
}

void guests_accept(uv_stream_t *listener, int status)
{
    struct rpc_server *server = listener->data;
    struct rpc *rpc = server->rpc;
    struct conn *conn;

    if (status != 0) {
        return; /* Out of descriptors, say: the next attempt may find some. */
    }
    conn = conn_new(rpc->loop, rpc->payloads, &rpc->statistics, &rpc_server_conn_hooks, server,
                    &rpc->dirty);
    if (conn == NULL) {
        discard(server);
        return;
    }
    rpc->handles++;
    server->pins++;
    conn->data = server;
    conn->memory_total = &server->memory;
    conn->frame_bytes_max = STRANGER_FRAME_BYTES_MAX;
    conn->came_ms = uv_now(rpc->loop);
    server->conns_count++;
    server->strangers_count++;
    list_push_back(&server->conns, &conn->node);
    list_push_back(&server->strangers, &conn->unanswered);
    rpc->statistics.connections_accepted++;
    if (uv_accept(listener, &conn->stream) != 0 || conn_established(conn) != 0) {
        conn_close(conn, "cannot accept");
    }
    make_room(server);
    arm(server);
}

void guests_init(struct rpc_server *server)
{
    list_init(&server->conns);
    list_init(&server->strangers);
    list_init(&server->held);
    for (unsigned i = 0; i < GUEST_BUCKETS; i++) {
        list_init(&server->greeted[i]);
    }
    server->conns_max = SERVER_CONNS_MAX;
    (void)uv_timer_init(server->rpc->loop, &server->strangers_timer);
    server->strangers_timer.data = server;
    server->pins++;
}

static void on_timer_closed(uv_handle_t *handle)
{
    rpc_server_unpin(handle->data);
}

void guests_close(struct rpc_server *server)
{
    uv_close((uv_handle_t *)&server->strangers_timer, on_timer_closed);
}

void rpc_server_set_conns_max(struct rpc_server *server, uint32_t conns_max)
{
    server->conns_max = conns_max < SERVER_CONNS_MAX ? conns_max : SERVER_CONNS_MAX;
}

void rpc_server_statistics(const struct rpc_server *server, struct rpc_server_statistics *out)
{
    *out = (struct rpc_server_statistics){ server->conns_count, server->strangers_count,
                                           server->memory };
}
