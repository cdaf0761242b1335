/* Listeners: where a server can be reached. */
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/rpc_server_internal_uv.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 512, PORT_MIN = 16384, PORT_MAX = 32768, PORT_TRIES = 64 };

void rpc_server_unpin(struct rpc_server *server)
{
    struct rpc *rpc = server->rpc;

    if (--server->pins == 0) {
        free(server);
        rpc_handle_gone(rpc);
    }
}

static void on_server_closed(uv_handle_t *handle)
{
    rpc_server_unpin(handle->data);
}

static void server_close(struct rpc_server *server)
{
    server->closing = true;
    list_remove(&server->node);
    uv_close(&server->handle, on_server_closed);
    LIST_FOREACH_SAFE(node, &server->conns)
    {
        struct conn *conn = LIST_ENTRY(node, struct conn, node);

        conn_flush(conn);
        conn_close(conn, "server is shutting down");
    }
    guests_close(server);
}

void rpc_servers_close(struct rpc *rpc)
{
    LIST_FOREACH_SAFE(node, &rpc->servers)
    {
        server_close(LIST_ENTRY(node, struct rpc_server, node));
    }
}

const char *rpc_server_address(const struct rpc_server *server)
{
    return server->address;
}

static int resolve(struct rpc *rpc, const char *text, struct sockaddr_storage *out,
                   struct errmsg *err)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct address address;
    uv_getaddrinfo_t request;
    int rv = address_parse(text, &address, err);

    if (rv != 0 || conn_address_numeric(&address, out)) {
        return rv;
    }
    rv = uv_getaddrinfo(rpc->loop, &request, NULL, address.host, address.port, &hints);
    if (rv != 0 || request.addrinfo == NULL) {
        errmsg_set(err, "cannot listen on %s: %s; check the host name", text, uv_strerror(rv));
        return MORSEL_INVAL;
    }
    memcpy(out, request.addrinfo->ai_addr, request.addrinfo->ai_addrlen);
    uv_freeaddrinfo(request.addrinfo);
    return MORSEL_OK;
}

static void name_server(struct rpc_server *server)
{
    struct sockaddr_storage address;
    int size = sizeof(address);
    char host[48];

    (void)uv_tcp_getsockname(&server->tcp, (struct sockaddr *)&address, &size);
    (void)uv_ip_name((struct sockaddr *)&address, host, sizeof(host));
    if (address.ss_family == AF_INET6) {
        (void)snprintf(server->address, sizeof(server->address), "[%s]:%u", host,
                       ntohs(((struct sockaddr_in6 *)&address)->sin6_port));
    } else {
        (void)snprintf(server->address, sizeof(server->address), "%s:%u", host,
                       ntohs(((struct sockaddr_in *)&address)->sin_port));
    }
}

/* "Any port" is one below the range from which the kernel takes the ports of outgoing connections:
 * a client that tries and tries to reach a server that is down would sooner or later be given the
 * server's own port, connect to itself, and keep the port from the server that comes back. Leaves
 * the choice to the kernel when all are taken. */
static void choose_port(struct rpc_server *server, struct sockaddr_storage *address)
{
    uint16_t *port = address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                                    : &((struct sockaddr_in *)address)->sin_port;
    uint16_t draw = 0;
    int fd = *port != 0 ? -1 : socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0) {
        return;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    for (unsigned i = 0; i < PORT_TRIES; i++) {
        (void)uv_random(NULL, NULL, &draw, sizeof(draw), 0, NULL);
        *port = htons((uint16_t)(PORT_MIN + draw % (PORT_MAX - PORT_MIN)));
        if (bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0) {
            if (uv_tcp_open(&server->tcp, fd) != 0) {
                (void)close(fd);
            }
            return;
        }
    }
    (void)close(fd);
    *port = 0;
}

int rpc_listen(struct rpc *rpc, const char *address, const struct rpc_server_hooks *hooks,
               struct rpc_server **server_out, struct errmsg *err)
{
    struct sockaddr_storage socket_address;
    struct rpc_server *server;
    uv_os_fd_t fd;
    int rv = resolve(rpc, address, &socket_address, err);

    *server_out = NULL;
    if (rv != 0) {
        return rv;
    }
    server = calloc(1, sizeof(*server));
    if (server == NULL || uv_tcp_init(rpc->loop, &server->tcp) != 0) {
        free(server);
        return MORSEL_NOMEM;
    }
    server->rpc = rpc;
    server->hooks = *hooks;
    server->pins = 1;
    server->handle.data = server;
    list_init(&server->node);
    list_init(&server->bounded);
    guests_init(server);
    list_push_back(&rpc->servers, &server->node);
    rpc->handles++;
    choose_port(server, &socket_address);
    rv = uv_fileno(&server->handle, &fd) == 0
             ? 0
             : uv_tcp_bind(&server->tcp, (struct sockaddr *)&socket_address, 0);
    if (rv == 0) {
        rv = uv_listen(&server->stream, LISTEN_BACKLOG, guests_accept);
    }
    if (rv != 0) {
        errmsg_set(err, "cannot listen on %s: %s; %s", address, uv_strerror(rv),
                   rv == UV_EADDRINUSE ? "stop the program that has the port, or choose another"
                                       : "choose an address of this machine");
        server_close(server);
        return rv == UV_EADDRINUSE ? MORSEL_BUSY : MORSEL_INVAL;
    }
    name_server(server);
    *server_out = server;
    return MORSEL_OK;
}
