/* TCP between the hosts of the world, under libuv's names. A receiver that does not read fills the
 * window, and then the sender waits. What happens on the way: world_sock.c. */
#include "tests/sim/world/world_sock.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum {
    READS_MAX = 32,     /* libuv's, in one go. */
    FDS_FROM = 1 << 24, /* No descriptor of the system's. */
    LISTEN_PORT_ANY_FROM = 9000
};

static void on_sock_ready(struct world_side *side);
static void on_sock_close(struct world_side *side);

static struct world_sock *sock_of(const void *handle)
{
    struct world_side *side = world_side_of(handle);

    return side == NULL ? NULL : side->sock;
}

/* ---- libuv: handles ---- */

int uv_tcp_init(uv_loop_t *loop, uv_tcp_t *tcp)
{
    struct world_side *side = world_side_new(loop, (uv_handle_t *)tcp, UV_TCP);

    side->sock = sock_new(world_loop_process(side->loop));
    side->sock->side = side;
    side->on_ready = on_sock_ready;
    side->on_close = on_sock_close;
    return 0;
}

int uv_tcp_nodelay(uv_tcp_t *tcp, int enable)
{
    (void)tcp;
    (void)enable;
    return 0;
}

int uv_tcp_keepalive(uv_tcp_t *tcp, int enable, unsigned delay)
{
    (void)tcp;
    (void)enable;
    (void)delay;
    return 0;
}

int uv_tcp_open(uv_tcp_t *tcp, uv_os_sock_t sock)
{
    (void)tcp;
    (void)sock;
    return UV_ENOTSUP; /* Only for "any port", which nobody here asks for. */
}

/* Nothing of the system's; what is done with it goes through tcp_state_uv.h, or is refused. */
int uv_fileno(const uv_handle_t *handle, uv_os_fd_t *fd)
{
    const struct world_sock *s = sock_of(handle);

    if (s == NULL || (s->state == SOCK_NEW && !s->bound)) {
        return UV_EBADF;
    }
    *fd = (int)(FDS_FROM + s->number);
    return 0;
}

static struct world_sock *sock_by_fd(int fd)
{
    LIST_FOREACH(node, &the_world->socks)
    {
        struct world_sock *s = LIST_ENTRY(node, struct world_sock, node);

        if ((int)(FDS_FROM + s->number) == fd) {
            return s;
        }
    }
    return NULL;
}

/* Of common/rpc/tcp_state_uv.h. */
uint64_t tcp_kept_bytes(int fd);
uint64_t tcp_round_trip_us(int fd);

uint64_t tcp_kept_bytes(int fd)
{
    const struct world_sock *s = sock_by_fd(fd);

    return s == NULL ? 0 : s->flying_bytes;
}

uint64_t tcp_round_trip_us(int fd)
{
    const struct world_sock *s = sock_by_fd(fd);

    return s == NULL || s->peer == NULL ? 0
                                        : 2 *
                                              (world_latency_ns(s->process->host) +
                                               world_latency_ns(s->peer->process->host)) /
                                              1000;
}

static int name_of(const struct sockaddr_in *from, struct sockaddr *name, int *size)
{
    if (*size < (int)sizeof(*from)) {
        return UV_EINVAL;
    }
    memcpy(name, from, sizeof(*from));
    *size = (int)sizeof(*from);
    return 0;
}

int uv_tcp_getsockname(const uv_tcp_t *tcp, struct sockaddr *name, int *size)
{
    const struct world_sock *s = sock_of(tcp);

    return s == NULL ? UV_EBADF : name_of(&s->local, name, size);
}

int uv_tcp_getpeername(const uv_tcp_t *tcp, struct sockaddr *name, int *size)
{
    const struct world_sock *s = sock_of(tcp);

    return s == NULL || s->peer == NULL ? UV_ENOTCONN : name_of(&s->remote, name, size);
}

static void on_sock_close(struct world_side *side)
{
    struct world_sock *s = side->sock;
    struct list *node;

    sock_end(s, !list_empty(&s->received));
    s->side = NULL;
    s->closed = true;
    if (s->state == SOCK_LISTENING || s->state == SOCK_CONNECTING) {
        s->state = SOCK_DEAD;
    }
    sock_drop_all(&s->received);
    if (s->connect != NULL) {
        uv_connect_t *connect = s->connect;

        s->connect = NULL;
        connect->cb(connect, UV_ECANCELED);
    }
    while ((node = list_pop_front(&s->writes)) != NULL) {
        struct pending *w = LIST_ENTRY(node, struct pending, node);

        w->cb(w->req, UV_ECANCELED);
        free(w);
    }
}

/* ---- libuv: listening and connecting ---- */

int uv_tcp_bind(uv_tcp_t *tcp, const struct sockaddr *address, unsigned flags)
{
    struct world_sock *s = sock_of(tcp);

    (void)flags;
    memcpy(&s->local, address, sizeof(s->local));
    if (s->local.sin_port == 0) {
        s->local.sin_port = htons((uint16_t)(LISTEN_PORT_ANY_FROM + s->number % 1000));
    }
    s->bound = true;
    return 0;
}

static bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

static struct world_sock *listener_at(const struct sockaddr_in *address)
{
    LIST_FOREACH(node, &the_world->socks)
    {
        struct world_sock *s = LIST_ENTRY(node, struct world_sock, node);

        if (s->state == SOCK_LISTENING && s->side != NULL && s->process->alive &&
            same_address(&s->local, address)) {
            return s;
        }
    }
    return NULL;
}

int uv_listen(uv_stream_t *stream, int backlog, uv_connection_cb cb)
{
    struct world_sock *s = sock_of(stream);

    (void)backlog;
    if (listener_at(&s->local) != NULL) {
        return UV_EADDRINUSE;
    }
    s->state = SOCK_LISTENING;
    s->on_connection = cb;
    return 0;
}

int uv_accept(uv_stream_t *server, uv_stream_t *client)
{
    struct world_sock *listener = sock_of(server);
    struct world_sock *blank = sock_of(client);
    struct list *node = list_pop_front(&listener->backlog);
    struct world_sock *s;

    if (node == NULL) {
        return UV_EAGAIN;
    }
    s = LIST_ENTRY(node, struct world_sock, waiting);
    list_remove(&blank->node);
    s->side = world_side_of((uv_handle_t *)client);
    s->side->sock = s;
    free(blank);
    return 0;
}

static void on_syn_answered(void *data)
{
    struct world_sock *s = data;

    if (s->side == NULL || s->connect == NULL) {
        return;
    }
    s->connect_ended = true;
    sock_ready(s);
}

static struct world_host *host_at(const struct sockaddr_in *address)
{
    unsigned number = ntohl(address->sin_addr.s_addr) & 0xff;

    CHECK(number >= 1 && number <= the_world->hosts_count);
    return &the_world->hosts[number - 1];
}

/* The SYN has come to the host. */
static void on_syn(void *data)
{
    struct world_sock *s = data, *listener, *other;
    struct world_host *here = s->process->host, *there = host_at(&s->remote);
    uint64_t until_ns;

    if (s->side == NULL || s->state != SOCK_CONNECTING) {
        return;
    }
    if (world_is_cut(here, there, &until_ns) || world_is_cut(there, here, &until_ns)) {
        world_at(until_ns + world_draw(WORLD_S), on_syn, s);
        return;
    }
    listener = listener_at(&s->remote);
    if (listener == NULL) {
        s->connect_status = UV_ECONNREFUSED;
    } else {
        other = sock_new(listener->process);
        other->state = s->state = SOCK_OPEN;
        other->local = s->remote;
        other->remote = s->local;
        other->peer = s;
        s->peer = other;
        list_push_back(&listener->backlog, &other->waiting);
        sock_ready(listener);
        the_world->counts.connects++;
    }
    world_in(world_latency_ns(here) + world_latency_ns(there), on_syn_answered, s);
}

int uv_tcp_connect(uv_connect_t *req, uv_tcp_t *tcp, const struct sockaddr *address,
                   uv_connect_cb cb)
{
    struct world_sock *s = sock_of(tcp);
    struct world_host *host = s->process->host;
    char text[32];

    memcpy(&s->remote, address, sizeof(s->remote));
    world_host_address(host, text, sizeof(text));
    s->local.sin_family = AF_INET;
    (void)inet_pton(AF_INET, text, &s->local.sin_addr);
    s->local.sin_port = htons(host->next_port++);
    host->next_port = host->next_port < 32768 ? 32768 : host->next_port;
    req->type = UV_CONNECT;
    req->handle = (uv_stream_t *)tcp;
    req->cb = cb;
    s->connect = req;
    s->state = SOCK_CONNECTING;
    world_in(world_latency_ns(host) + world_latency_ns(host_at(&s->remote)), on_syn, s);
    return 0;
}

/* ---- libuv: bytes ---- */

static void on_window(void *data)
{
    sock_ready(data);
}

static size_t take(struct world_sock *s, char *bytes, size_t room)
{
    size_t count = 0;
    struct list *node;

    while (count < room && (node = list_front(&s->received)) != NULL) {
        struct segment *g = LIST_ENTRY(node, struct segment, node);
        size_t part = g->count - g->taken < room - count ? g->count - g->taken : room - count;

        memcpy(bytes + count, g->bytes + g->taken, part);
        g->taken += part;
        count += part;
        if (g->taken == g->count) {
            list_remove(node);
            free(g);
        }
    }
    if (count > 0 && s->peer != NULL) {
        s->peer->unread -= count;
        if (!list_empty(&s->peer->writes)) {
            world_in(sock_latency_ns(s), on_window, s->peer);
        }
    }
    return count;
}

static bool may_read(const struct world_sock *s)
{
    return s->side != NULL && !s->side->closing && s->reading;
}

static void read_some(struct world_sock *s)
{
    uv_stream_t *stream = (uv_stream_t *)s->side->handle;

    for (unsigned i = 0; i < READS_MAX && may_read(s) && !list_empty(&s->received); i++) {
        uv_buf_t buf = uv_buf_init(NULL, 0);
        size_t room, count;

        s->alloc(s->side->handle, 65536, &buf);
        if (buf.base == NULL || buf.len == 0) {
            s->read(stream, UV_ENOBUFS, &buf);
            return;
        }
        room = world_chance(20) ? 1 + world_draw(buf.len) : buf.len;
        count = take(s, buf.base, room);
        s->read(stream, (ssize_t)count, &buf);
    }
    if (may_read(s) && list_empty(&s->received) && !s->told && (s->ended || s->error != 0)) {
        uv_buf_t buf = uv_buf_init(NULL, 0);

        s->told = true;
        s->read(stream, s->error != 0 ? s->error : UV_EOF, &buf);
    } else if (may_read(s) && !list_empty(&s->received)) {
        world_side_ready(s->side);
    }
}

static void write_more(struct world_sock *s)
{
    struct list *node;

    while (s->side != NULL && !s->side->closing && (node = list_front(&s->writes)) != NULL) {
        struct pending *w = LIST_ENTRY(node, struct pending, node);

        if (s->state == SOCK_OPEN) {
            w->taken += sock_send(s, w->bytes + w->taken, w->count - w->taken);
        }
        if (s->state == SOCK_OPEN && w->taken < w->count) {
            return;
        }
        list_remove(node);
        w->cb(w->req, s->state == SOCK_OPEN ? 0 : s->error);
        free(w);
    }
}

static void end_connect(struct world_sock *s)
{
    uv_connect_t *connect = s->connect;

    s->connect = NULL;
    if (s->connect_status != 0) {
        s->state = SOCK_DEAD;
    }
    connect->cb(connect, s->connect_status != 0 ? s->connect_status : s->error);
}

static void on_sock_ready(struct world_side *side)
{
    struct world_sock *s = side->sock;

    if (s->state == SOCK_LISTENING) {
        while (!side->closing && !list_empty(&s->backlog)) {
            s->on_connection((uv_stream_t *)side->handle, 0);
        }
        return;
    }
    if (s->connect != NULL && (s->connect_ended || s->state == SOCK_DEAD)) {
        end_connect(s);
    }
    if (!side->closing) {
        read_some(s);
    }
    if (s->side != NULL && !side->closing) {
        write_more(s);
    }
}

int uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc, uv_read_cb read)
{
    struct world_sock *s = sock_of(stream);

    s->alloc = alloc;
    s->read = read;
    s->reading = true;
    if (!list_empty(&s->received) || s->ended || s->error != 0) {
        sock_ready(s);
    }
    return 0;
}

int uv_read_stop(uv_stream_t *stream)
{
    sock_of(stream)->reading = false;
    return 0;
}

int uv_try_write(uv_stream_t *stream, const uv_buf_t bufs[], unsigned count)
{
    struct world_sock *s = sock_of(stream);
    size_t sent = 0;

    if (s->state != SOCK_OPEN) {
        return s->error != 0 ? UV_EPIPE : UV_EBADF;
    }
    if (!list_empty(&s->writes)) {
        return UV_EAGAIN;
    }
    for (unsigned i = 0; i < count; i++) {
        size_t part = sock_send(s, bufs[i].base, bufs[i].len);

        sent += part;
        if (part < bufs[i].len) {
            break;
        }
    }
    return sent == 0 ? UV_EAGAIN : (int)sent;
}

int uv_write(uv_write_t *req, uv_stream_t *stream, const uv_buf_t bufs[], unsigned count,
             uv_write_cb cb)
{
    struct world_sock *s = sock_of(stream);
    struct pending *w;
    size_t total = 0, at = 0;

    for (unsigned i = 0; i < count; i++) {
        total += bufs[i].len;
    }
    w = malloc(sizeof(*w) + total);
    CHECK(w != NULL);
    *w = (struct pending){ .req = req, .cb = cb, .count = total };
    for (unsigned i = 0; i < count; i++) {
        memcpy(w->bytes + at, bufs[i].base, bufs[i].len);
        at += bufs[i].len;
    }
    req->type = UV_WRITE;
    req->handle = stream;
    list_init(&w->node);
    list_push_back(&s->writes, &w->node);
    if (s->state != SOCK_OPEN) {
        sock_ready(s);
    }
    return 0;
}
