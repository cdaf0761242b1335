/* Whoever runs the `morsel` command: calls that wait for their answers, in a fiber. */
#include "common/base/status.h"
#include "common/rpc/rpc_uv.h"
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/hosts.h"

#include <stdlib.h>

enum { CALL_MS = 5000, PEERS_MAX = 8, LIBUV_THREADS = 4 };

struct host_admin
{
    struct world_process *process;
    uv_loop_t loop;
    struct rpc *rpc;
    struct rpc_peer *peers[PEERS_MAX];
    unsigned peers_count;
};

struct admin_wait
{
    struct rpc_call call;
    struct fiber *fiber;
    const ProtobufCMessageDescriptor *reply_type;
    void *reply;
    int status;
};

static void on_reply(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct admin_wait *w = CONTAINER_OF(call, struct admin_wait, call);

    w->status = status;
    if (status == 0) {
        w->reply = rpc_unpack(w->reply_type, reply->body, reply->body_count);
        w->status = w->reply == NULL ? MORSEL_MALFORMED : 0;
    }
    fiber_wake(w->fiber, 1000);
}

static struct rpc_peer *peer_of(struct host_admin *a, const char *address)
{
    struct errmsg err = { "" };

    for (unsigned i = 0; i < a->peers_count; i++) {
        if (strcmp(rpc_peer_address(a->peers[i]), address) == 0) {
            return a->peers[i];
        }
    }
    CHECK(a->peers_count < PEERS_MAX);
    if (rpc_peer_new(a->rpc, address, &a->peers[a->peers_count], &err) != 0) {
        world_fail("%s is no address: %s", address, err.text);
    }
    return a->peers[a->peers_count++];
}

struct host_admin *host_admin_start(struct world_host *host, const char *name)
{
    struct host_admin *a = calloc(1, sizeof(*a));
    struct rpc_options options = { .role = ROLE_ADMIN, .node_id = 1, .program = "morsel" };

    CHECK(a != NULL);
    a->process = host_process_begin(host, name, &a->loop, LIBUV_THREADS);
    CHECK(rpc_new(&a->loop, &options, &a->rpc) == 0);
    host_process_begun();
    return a;
}

int host_admin_call(struct host_admin *a, const char *address, enum message_type type,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                    void **reply)
{
    struct admin_wait w = { .fiber = fiber_self(), .reply_type = reply_type };
    int rv;

    *reply = NULL;
    the_world->current = a->process;
    rv = rpc_call_start(&w.call, peer_of(a, address), type, request, NULL, 0, CALL_MS, on_reply);
    the_world->current = NULL;
    if (rv != 0) {
        return rv;
    }
    fiber_wait();
    *reply = w.reply;
    return w.status;
}
