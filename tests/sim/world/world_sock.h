/* What both ends of a connection know: for world_sock.c and world_tcp.c alone. */
#ifndef MORSEL_TESTS_SIM_WORLD_SOCK_H
#define MORSEL_TESTS_SIM_WORLD_SOCK_H

#include "tests/sim/world/world.h"

#include <netinet/in.h>

struct segment
{
    struct list node;
    uint64_t at_ns;
    bool fin, reset;
    size_t count, taken;
    char bytes[];
};

enum sock_state { SOCK_NEW, SOCK_LISTENING, SOCK_CONNECTING, SOCK_OPEN, SOCK_DEAD };

struct world_sock
{
    struct list node; /* In world.socks. */
    unsigned number;
    enum sock_state state;
    struct world_process *process;
    struct world_side *side; /* NULL: its program has closed it. */
    struct sockaddr_in local, remote;
    bool bound;
    bool closed; /* By its program, or with it. */
    struct world_sock *peer;
    /* Out */
    struct list flying; /* struct segment; the first has an item in the queue. */
    uint64_t last_at_ns;
    size_t unread; /* Sent, and not read there yet. */
    size_t flying_bytes;
    struct list writes; /* struct pending */
    bool fin_sent;
    uint64_t cut_since_ns;
    bool sent_in_cut;
    uint64_t peer_dead_since_ns;
    /* In */
    struct list received;
    bool reading, ended, told;
    int error;
    uv_alloc_cb alloc;
    uv_read_cb read;
    /* Connecting, listening */
    uv_connect_t *connect;
    bool connect_ended;
    int connect_status;
    struct list backlog, waiting; /* struct world_sock: to be accepted. */
    uv_connection_cb on_connection;
};

struct pending
{
    struct list node;
    uv_write_t *req;
    uv_write_cb cb;
    int status;
    size_t count, taken;
    char bytes[];
};

struct world_sock *sock_new(struct world_process *p);

/* Something is to be done for it. */
void sock_ready(struct world_sock *s);

/* On the way to the other end. */
uint64_t sock_latency_ns(const struct world_sock *from);
void sock_drop_all(struct list *segments);

/* What the window takes of it. */
size_t sock_send(struct world_sock *s, const char *bytes, size_t count);

/* Its last word. */
void sock_end(struct world_sock *s, bool reset);

#endif
