/* A call to the server of a column: whom it goes to, and what its answer teaches (column_uv.h). */
#include "client/data/column_uv.h"

#include "client/libmorsel_uv.h"
#include "client/manager/servers_uv.h"
#include "common/base/status.h"

Morsel__ObjectId column_object(const struct columns *columns, uint32_t column)
{
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;

    object.inode = columns->inode;
    object.column = column;
    return object;
}

struct rpc_peer *column_peer(const struct columns *columns, uint32_t column, enum column_kind kind)
{
    CHECK(column < columns->stripe.width);
    (void)kind; /* A column lies on one server. */
    return client_peer(columns->client, columns->servers[column]);
}

static void on_answer(struct rpc_call *rpc, int status, struct rpc_reply *reply)
{
    struct column_call *call = CONTAINER_OF(rpc, struct column_call, rpc);
    struct columns *columns = call->columns;
    const struct column_hooks *hooks = columns->hooks;

    if (call->kind == COLUMN_CHANGE) {
        hooks->ended(columns, status);
    }
    if (call->kind == COLUMN_CHANGE && status == 0) {
        hooks->changed(columns, call->column, reply, call->durable);
    } else if (call->kind == COLUMN_SYNC && status == 0) {
        call->verifier = hooks->synced(columns, call->column, call->mark, reply);
    }
    call->done(call, status, reply);
}

int column_start(struct column_call *call, enum column_kind kind, enum message_type type,
                 const ProtobufCMessage *request, const struct rpc_piece *piece,
                 column_call_cb done)
{
    struct columns *columns = call->columns;
    const struct client *client = columns->client;
    struct rpc_peer *peer = column_peer(columns, call->column, kind);
    bool changes = kind == COLUMN_CHANGE;

    if (peer == NULL) {
        return MORSEL_UNREACHABLE;
    }
    call->kind = kind;
    call->done = done;
    call->verifier = 0;
    if (kind == COLUMN_SYNC) {
        call->mark = columns->hooks->before_sync(columns, call->column);
    }
    call->rpc.bounded = call->rpc.once = changes;
    call->rpc.exclusive = changes && call->exclusive;
    call->rpc.fetches = call->fetches;
    return rpc_call_start(&call->rpc, peer, type, request, piece, piece != NULL ? 1 : 0,
                          call->timeout_ms != 0 ? call->timeout_ms : client->options.io_timeout_ms,
                          on_answer);
}

void column_cancel(struct column_call *call)
{
    rpc_call_cancel(&call->rpc);
}

const char *column_address(const struct column_call *call)
{
    return rpc_peer_address(call->rpc.peer);
}

const char *column_why(int status, const struct rpc_reply *reply)
{
    return reply->text[0] != '\0' ? reply->text : status_words(status);
}
