/* Membership of storage servers: what the core says is done here. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/meta_uv.h"

static void on_member_durable(void *data, struct rpc_request *request, uint64_t id);

static void persist_member(struct meta *meta, server_id id)
{
    const struct member *member = members_find(&meta->members, id);
    struct members_event event = { .now_ms = meta_now_ms(meta), .type = MEMBERS_PERSISTED };
    struct meta_op op = { .kind = OP_MEMBER, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };

    CHECK(member != NULL);
    op.member = member->record;
    event.persisted.id = id;
    event.persisted.status = meta_execute(meta, &op, &err);
    meta_members_step(meta, &event);
}

static void perform_member(struct meta *meta, const struct members_action *action)
{
    struct rpc_request *request = (struct rpc_request *)(uintptr_t)action->tag;
    const struct member *member = members_find(&meta->members, action->id);

    switch (action->type) {
    case MEMBERS_PERSIST:
        persist_member(meta, action->id);
        break;
    case MEMBERS_WELCOME:
        meta_reply_durable(meta, request, on_member_durable, action->id);
        break;
    case MEMBERS_ALIVE:
        break; /* The handler goes on when it was not refused. */
    case MEMBERS_REFUSE:
        if (action->status != MORSEL_NO_SESSION) {
            log_warning(meta->log, "storage server at %s refused: %s", rpc_request_peer(request),
                        action->reason);
        }
        rpc_reply_failure(request, action->status, action->reason);
        break;
    case MEMBERS_UP:
        log_info(meta->log, "storage server %u (%s) is up", action->id, member->record.address);
        break;
    case MEMBERS_DOWN:
        log_warning(meta->log,
                    "storage server %u (%s) is down: no heartbeat; its files are out of reach "
                    "until it is back",
                    action->id, member->record.address);
        break;
    }
}

void meta_members_step(struct meta *meta, const struct members_event *event)
{
    struct members_actions out;

    out.count = 0;
    members_step(&meta->members, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform_member(meta, &out.items[i]);
    }
    meta_arm(meta);
}

/* The id of a new server is durable before the server hears of it. */
static void on_member_durable(void *data, struct rpc_request *request, uint64_t id)
{
    struct meta *meta = data;
    Morsel__RegisterReply reply = MORSEL__REGISTER_REPLY__INIT;
    const struct super *super = ns_super(meta->ns);

    reply.id = (uint32_t)id;
    reply.cluster_id.data = (uint8_t *)(uintptr_t)super->cluster.bytes;
    reply.cluster_id.len = sizeof(super->cluster.bytes);
    reply.heartbeat_ms = meta->members.heartbeat_ms;
    rpc_request_name_peer(request, reply.id);
    rpc_reply(request, &reply.base, NULL);
}
