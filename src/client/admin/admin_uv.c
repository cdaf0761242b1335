/* Runs the loop until the answer is there, so that a command reads from top to bottom. */
#include "client/admin/admin_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <string.h>
#include <sys/random.h>

/* An answer that admin_call() waits for. */
struct waiting
{
    struct rpc_call call;
    const ProtobufCMessageDescriptor *reply_type;
    void *reply;
    int status;
    bool done;
    struct errmsg *err;
};

static void on_reply(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct waiting *w = CONTAINER_OF(call, struct waiting, call);

    w->done = true;
    w->status = status;
    if (status != 0) {
        errmsg_set(w->err, "%s%s%s", status_words(status), reply->text[0] == '\0' ? "" : ": ",
                   reply->text);
        return;
    }
    w->reply = rpc_unpack(w->reply_type, reply->body, reply->body_count);
    if (w->reply == NULL) {
        w->status = MORSEL_MALFORMED;
        errmsg_set(w->err, "%s", status_words(w->status));
    }
}

int admin_call(struct admin *admin, struct rpc_peer *peer, enum message_type type,
               const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
               void **reply_out, struct errmsg *err)
{
    struct waiting w = { .reply_type = reply_type, .err = err };
    const char *who = peer == admin->manager ? "manager" : "server";
    int rv;

    *reply_out = NULL;
    rv = rpc_call_start(&w.call, peer, type, request, NULL, 0, admin->timeout_ms, on_reply);
    if (rv != 0) {
        errmsg_set(err, "%s at %s: %s", who, rpc_peer_address(peer), status_words(rv));
        return rv;
    }
    while (!w.done) {
        (void)uv_run(&admin->loop, UV_RUN_ONCE);
    }
    if (w.status != 0) {
        errmsg_wrap(err, "%s at %s", who, rpc_peer_address(peer));
    }
    *reply_out = w.reply;
    return w.status;
}

int admin_peer(struct admin *admin, const char *address, struct rpc_peer **peer_out,
               struct errmsg *err)
{
    return rpc_peer_new(admin->rpc, address, peer_out, err);
}

int admin_open(struct admin *admin, const char *address, uint64_t timeout_ms, struct errmsg *err)
{
    struct rpc_options options = { .role = ROLE_ADMIN, .program = "morsel " MORSELFS_VERSION };
    int rv = MORSEL_NOMEM;

    memset(admin, 0, sizeof(*admin));
    admin->timeout_ms = timeout_ms;
    CHECK(getrandom(&admin->id, sizeof(admin->id), 0) == sizeof(admin->id));
    options.node_id = admin->id;
    if (uv_loop_init(&admin->loop) != 0 ||
        (rv = rpc_new(&admin->loop, &options, &admin->rpc)) != 0) {
        errmsg_set(err, "%s", status_words(rv));
        return rv;
    }
    rv = rpc_peer_new(admin->rpc, address, &admin->manager, err);
    if (rv != 0) {
        admin_close(admin);
    }
    return rv;
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

void admin_close(struct admin *admin)
{
    bool closed = false;

    rpc_close(admin->rpc, on_closed, &closed);
    while (!closed) {
        (void)uv_run(&admin->loop, UV_RUN_ONCE);
    }
    (void)uv_run(&admin->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&admin->loop);
}

enum admin_exit admin_exit_code(int status)
{
    switch (status) {
    case 0:
        return ADMIN_OK;
    case MORSEL_UNREACHABLE:
    case MORSEL_TIMEDOUT:
    case MORSEL_SHUTDOWN:
    case MORSEL_VERSION:
    case MORSEL_WRONG_CLUSTER:
        return ADMIN_UNREACHABLE;
    default:
        return ADMIN_PROBLEM;
    }
}
