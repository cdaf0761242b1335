/* A call to the server of a column: whom it goes to, and what its answer teaches (column_uv.h). */
#include "client/data/column_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/libmorsel_uv.h"
#include "client/manager/servers_uv.h"
#include "common/base/status.h"

Morsel__ObjectId column_object(const struct columns *columns, uint32_t column)
{
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;

    object.inode = columns->body;
    object.column = placing_object(columns->groups[column], column);
    return object;
}

static struct client_group *group_of(const struct columns *columns, uint32_t column)
{
    return columns->groups[column] != 0
               ? client_groups_find(columns->client, columns->groups[column])
               : NULL;
}

struct rpc_peer *column_peer(const struct columns *columns, uint32_t column, enum column_kind kind)
{
    const struct client_group *group;

    CHECK(column < columns->stripe.width);
    (void)kind; /* Of a group everything is asked of who orders. */
    group = group_of(columns, column);
    return group != NULL ? group_peer(columns->client, group)
                         : client_peer(columns->client, columns->servers[column]);
}

/* ---- Who may be asked ---- */

static uint64_t bit(uint32_t column)
{
    return UINT64_C(1) << column;
}

static bool is_quiet(const struct columns *columns)
{
    return columns->changing == 0 && lease_is_sure(columns->client);
}

bool column_is_settled(const struct columns *columns, uint32_t column)
{
    uint64_t lease = client_lease_since(columns->client, columns->inode);

    return lease != 0 && lease == columns->lease && (columns->settled & bit(column)) != 0 &&
           is_quiet(columns);
}

/* What was so under another lease is not so any more. */
static uint64_t note_lease(struct columns *columns)
{
    uint64_t lease = client_lease_since(columns->client, columns->inode);

    if (lease != columns->lease) {
        columns->lease = lease;
        columns->settled = columns->reads = 0;
    }
    return lease;
}

/* The first read under a lease may be the only one. */
bool column_wants_settle(struct columns *columns, uint32_t column)
{
    const struct client_group *group = group_of(columns, column);
    server_id servers[REPLICAS_MAX];

    return group != NULL && group_servers(group, servers) > 1 && note_lease(columns) != 0 &&
           columns->reads++ > 0 && is_quiet(columns) &&
           ((columns->settled | columns->settling) & bit(column)) == 0;
}

static bool still_so(const struct column_call *call)
{
    const struct columns *columns = call->columns;

    return call->lease != 0 && call->lease == client_lease_since(columns->client, columns->inode) &&
           call->stirs == columns->stirs && is_quiet(columns);
}

bool column_is_current(const struct column_call *call)
{
    return !call->group.settled || still_so(call);
}

static void begin_change(struct columns *columns)
{
    columns->changing++;
    columns->stirs++;
}

static void end_change(struct columns *columns, int status)
{
    CHECK(columns->changing > 0);
    columns->changing--;
    if (status != 0) {
        columns->stirs++;
        columns->settled = 0;
    }
}

static void on_settled(struct column_call *call, int status)
{
    struct columns *columns = call->columns;

    columns->settling &= ~bit(call->column);
    if (status == 0 && still_so(call) && note_lease(columns) == call->lease) {
        columns->settled |= bit(call->column);
    }
}

static uint32_t spread(const struct columns *columns, const struct client_group *group,
                       uint64_t offset)
{
    return group_spread(columns->client, group, columns->inode + offset / COLUMN_REGION_BYTES);
}

struct rpc_peer *column_read_peer(const struct columns *columns, uint32_t column, uint64_t offset)
{
    const struct client_group *group = group_of(columns, column);

    return group != NULL && column_is_settled(columns, column)
               ? group_member_peer(columns->client, group, spread(columns, group, offset))
               : column_peer(columns, column, COLUMN_READ_ANY);
}

/* ---- Calls ---- */

static void answered(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct columns *columns = call->columns;
    const struct column_hooks *hooks = columns->hooks;

    if (call->kind == COLUMN_CHANGE) {
        end_change(columns, status);
        hooks->ended(columns, status);
    }
    if (call->kind == COLUMN_CHANGE && status == 0) {
        hooks->changed(columns, call->column, reply, call->durable);
    } else if (call->kind == COLUMN_SYNC && status == 0) {
        call->verifier = hooks->synced(columns, call->column, call->mark, reply);
    } else if (call->kind == COLUMN_SETTLE) {
        on_settled(call, status);
    }
    call->done(call, status, reply);
}

static void on_answer(struct rpc_call *rpc, int status, struct rpc_reply *reply)
{
    answered(CONTAINER_OF(rpc, struct column_call, rpc), status, reply);
}

static void on_group_answer(struct group_call *group, int status, struct rpc_reply *reply)
{
    answered(CONTAINER_OF(group, struct column_call, group), status, reply);
}

static uint64_t timeout_of(const struct column_call *call)
{
    return call->timeout_ms != 0 ? call->timeout_ms : call->columns->client->options.io_timeout_ms;
}

static int start_at_group(struct column_call *call, struct client_group *group,
                          enum message_type type, const ProtobufCMessage *request,
                          const struct rpc_piece *piece)
{
    call->group.changes = call->kind == COLUMN_CHANGE;
    call->group.exclusive = call->exclusive;
    call->group.settled =
        call->kind == COLUMN_READ_ANY && column_is_settled(call->columns, call->column);
    call->group.first = call->group.settled ? spread(call->columns, group, call->offset) : 0;
    call->group.hedge_ms = call->hedge_ms;
    call->group.fetches = call->fetches;
    call->group.timeout_ms = timeout_of(call);
    return group_call_start(&call->group, call->columns->client, group, type, request, piece,
                            on_group_answer);
}

static int start_at_server(struct column_call *call, struct rpc_peer *peer, enum message_type type,
                           const ProtobufCMessage *request, const struct rpc_piece *piece)
{
    bool changes = call->kind == COLUMN_CHANGE;

    call->rpc.bounded = call->rpc.once = changes;
    call->rpc.exclusive = changes && call->exclusive;
    call->rpc.fetches = call->fetches;
    return rpc_call_start(&call->rpc, peer, type, request, piece, piece != NULL ? 1 : 0,
                          timeout_of(call), on_answer);
}

int column_start(struct column_call *call, enum column_kind kind, enum message_type type,
                 const ProtobufCMessage *request, const struct rpc_piece *piece,
                 column_call_cb done)
{
    struct columns *columns = call->columns;
    struct client_group *group = group_of(columns, call->column);
    struct rpc_peer *peer = column_peer(columns, call->column, kind);
    bool changes = kind == COLUMN_CHANGE;
    int rv;

    if (columns->astray != 0) {
        return columns->astray;
    }
    if (peer == NULL && group == NULL) {
        return servers_why_none(columns->client, columns->servers[call->column], columns->inode);
    }
    call->kind = kind;
    call->done = done;
    call->verifier = 0;
    if (kind == COLUMN_SYNC) {
        call->mark = columns->hooks->before_sync(columns, call->column);
    }
    if (changes) {
        begin_change(columns);
    }
    call->lease = note_lease(columns);
    call->stirs = columns->stirs;
    if (group != NULL) {
        rv = start_at_group(call, group, type, request, piece);
    } else {
        rv = start_at_server(call, peer, type, request, piece);
    }
    if (changes && rv != 0) {
        end_change(columns, 0); /* Nothing was sent. */
    }
    return rv;
}

int column_settle(struct column_call *call, column_call_cb done)
{
    Morsel__ObjectStatRequest request = MORSEL__OBJECT_STAT_REQUEST__INIT;
    Morsel__ObjectId object = column_object(call->columns, call->column);
    int rv;

    request.object = &object;
    rv = column_start(call, COLUMN_SETTLE, MSG_OBJECT_STAT, &request.base, NULL, done);
    if (rv == 0) {
        call->columns->settling |= bit(call->column);
    }
    return rv;
}

void column_cancel(struct column_call *call)
{
    rpc_call_cancel(&call->rpc);
    group_call_cancel(&call->group);
}

const char *column_address(const struct column_call *call)
{
    return group_of(call->columns, call->column) != NULL ? group_call_address(&call->group)
                                                         : rpc_peer_address(call->rpc.peer);
}

const char *column_why(int status, const struct rpc_reply *reply)
{
    return reply->text[0] != '\0' ? reply->text : status_words(status);
}
