/* Membership of storage servers: what the core says is done here. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/groups_uv.h"
#include "meta/meta_uv.h"

static void on_member_durable(void *data, struct rpc_request *request, uint64_t id);
static void on_proposal_durable(void *data, struct rpc_request *request, uint64_t answer);

static void persist_member(struct meta *meta, server_id id)
{
    const struct member *member = members_find(&meta->members, id);
    struct members_event event = { .now_ms = meta_now_ms(meta), .type = MEMBERS_PERSISTED };
    struct meta_op op = { .kind = OP_MEMBER, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };

    CHECK(member != NULL);
    op.member = member->record;
    event.persisted.id = id;
    groups_moved(meta, id);
    groups_forget(meta, id);
    event.persisted.status = meta_execute(meta, &op, &err);
    meta_members_step(meta, &event);
}

/* `action` refuses a registration. */
static void refuse_member(struct meta *meta, struct rpc_request *request,
                          const struct members_action *action)
{
    const struct member *member = members_find(&meta->members, action->id);
    const char *words = action->reason;
    struct errmsg err = { "" };

    if (action->status == MORSEL_LEFT_BEHIND && member != NULL) {
        errmsg_set(&err,
                   "this data directory is an old copy of that of server %u, and another one was "
                   "let in since, at %s",
                   action->id, member->record.address);
        words = err.text;
    }
    if (action->status == MORSEL_REMOVED && member != NULL) {
        errmsg_set(&err, "server %u (%s) was removed from this cluster", action->id,
                   member->record.name);
        words = err.text;
    }
    if (action->status != MORSEL_NO_SESSION) {
        log_warning(meta->log, "storage server at %s refused: %s", rpc_request_peer(request),
                    words);
    }
    rpc_reply_failure(request, action->status, words);
}

static void perform_member(struct meta *meta, const struct members_action *action)
{
    struct rpc_request *request = (struct rpc_request *)(uintptr_t)action->tag;
    const struct member *member = members_find(&meta->members, action->id);

    switch (action->type) {
    case MEMBERS_PERSIST:
        persist_member(meta, action->id);
        break;
    case MEMBERS_PROPOSED:
        meta_reply_durable(meta, request, on_proposal_durable,
                           action->id | (uint64_t)action->by_pending << 32);
        break;
    case MEMBERS_WELCOME:
        meta_reply_durable(meta, request, on_member_durable, action->id);
        break;
    case MEMBERS_ALIVE:
        break; /* The handler goes on when it was not refused. */
    case MEMBERS_REFUSE:
        refuse_member(meta, request, action);
        break;
    case MEMBERS_UP:
        log_info(meta->log, "storage server %u (%s) is up", action->id, member->record.address);
        if (member->record.waits) {
            log_warning(meta->log,
                        "storage server %u (%s, %s) is new and gets nothing until somebody admits "
                        "it: morsel iod admit %u",
                        action->id, member->record.address, member->record.name, action->id);
        }
        groups_members_changed(meta);
        break;
    case MEMBERS_PUT_BACK:
        log_warning(meta->log,
                    "storage server %u was let in later than the manager's database knows: the "
                    "database must have been put back to an older state; the server is taken in, "
                    "and what was made since that state is missing: run morsel fsck",
                    action->id);
        break;
    case MEMBERS_DOWN:
        log_warning(meta->log,
                    "storage server %u (%s) is down: no heartbeat; files of which it has the only "
                    "copy are out of reach until it is back",
                    action->id, member->record.address);
        groups_members_changed(meta);
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

void meta_member_answered(struct meta *meta, const struct rpc_request *request, server_id server)
{
    struct members_event event = { .now_ms = meta_now_ms(meta), .type = MEMBERS_ANSWERED };

    event.answered.tag = (uintptr_t)request;
    event.answered.id = server;
    meta_members_step(meta, &event);
}

int meta_admit(struct meta *meta, server_id server, struct errmsg *err)
{
    struct members_event event = { .now_ms = meta_now_ms(meta), .type = MEMBERS_ADMIT };
    struct meta_op op = { .kind = OP_MEMBER, .time_ns = meta_clock_ns() };
    const struct member *member = members_find(&meta->members, server);
    int rv;

    if (member == NULL || !member_stays(member)) {
        errmsg_set(err, "there is no storage server %u: `morsel status` lists them", server);
        return MORSEL_INVAL;
    }
    if (!member->record.waits) {
        return 0;
    }
    if (member->persisting > 0 || member->removing) {
        errmsg_set(err, "server %u is just registering, or being removed: try again", server);
        return MORSEL_AGAIN;
    }
    op.member = member->record;
    op.member.waits = false;
    if ((rv = meta_execute(meta, &op, err)) != 0) {
        return rv;
    }
    event.admit = server;
    meta_members_step(meta, &event);
    log_info(meta->log, "storage server %u (%s, %s) is admitted", server, member->record.address,
             member->record.name);
    groups_members_changed(meta);
    return 0;
}

enum { START_PROPOSED = 1, START_CONFIRMED = 2 }; /* RegisterReply.start */

static void reply_registration(struct meta *meta, struct rpc_request *request,
                               Morsel__RegisterReply *reply)
{
    const struct super *super = ns_super(meta->ns);

    reply->cluster_id.data = (uint8_t *)(uintptr_t)super->cluster.bytes;
    reply->cluster_id.len = sizeof(super->cluster.bytes);
    reply->heartbeat_ms = meta->members.heartbeat_ms;
    rpc_reply(request, &reply->base, NULL);
}

/* The id of a new server is durable before the server hears of it. */
static void on_member_durable(void *data, struct rpc_request *request, uint64_t id)
{
    Morsel__RegisterReply reply = MORSEL__REGISTER_REPLY__INIT;

    reply.id = (uint32_t)id;
    reply.start = START_CONFIRMED;
    rpc_request_name_peer(request, reply.id);
    meta_member_answered(data, request, reply.id);
    reply_registration(data, request, &reply);
}

/* And so is its tentative mark. `answer`: the id, and above it which mark was known. The connection
 * is not yet the server's: that of a copy may end without anything to say about the server. */
static void on_proposal_durable(void *data, struct rpc_request *request, uint64_t answer)
{
    Morsel__RegisterReply reply = MORSEL__REGISTER_REPLY__INIT;

    reply.id = (uint32_t)answer;
    reply.start = START_PROPOSED;
    reply.by_pending = answer >> 32 != 0;
    reply_registration(data, request, &reply);
}
