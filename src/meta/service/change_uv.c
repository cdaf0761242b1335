/* The way of a change: recognised if it comes again, executed, answered, remembered. */
#include "meta/service/change_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/permit.h"
#include "meta/service/identify_uv.h"

/* False: refused. */
static bool check_id(struct meta *meta, struct rpc_request *request, const Morsel__OpId *id)
{
    if (id == NULL || id->client == 0 || id->sequence == 0 || id->answered >= id->sequence ||
        (request->node_id != 0 && id->client != request->node_id)) {
        rpc_reply_failure(request, MORSEL_MALFORMED,
                          "a change needs the id of its client and a sequence number");
        return false;
    }
    if (!op_window_reserve(meta->window, id->client)) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return false;
    }
    return true;
}

bool change_begin(struct meta *meta, struct rpc_request *request, struct meta_op *op,
                  const Morsel__OpId *id, const Morsel__Credentials *who, change_answer answer)
{
    struct op_outcome outcome;

    if (!check_id(meta, request, id)) {
        return false;
    }
    op->time_ns = meta_clock_ns();
    op->client = id->client;
    op->client_sequence = id->sequence;
    op->answered = id->answered;
    op->title = id->title;
    op->who = identify(meta, request, who);
    switch (op_window_find(meta->window, id->client, id->sequence, id->answered, &outcome)) {
    case OP_WINDOW_NEW:
        return true;
    case OP_WINDOW_KNOWN:
        answer(meta, request, &outcome);
        return false;
    case OP_WINDOW_FORGOTTEN:
        rpc_reply_failure(request, MORSEL_STALE, "this operation has been answered before");
        return false;
    }
    return false;
}

/* The inode whose bytes or attributes the operation changes; INODE_NONE: names. */
static inode_id changed_inode(const struct meta_op *op)
{
    return op->kind == OP_SETATTR ? op->setattr.inode
           : op->kind == OP_XATTR ? op->xattr.inode
           : op->kind == OP_WROTE ? op->wrote.inode
           : op->kind == OP_ALIGN ? op->align.inode
                                  : INODE_NONE;
}

static int permit(struct meta *meta, struct rpc_request *request, struct meta_op *op,
                  struct errmsg *err)
{
    inode_id changed = changed_inode(op);
    bool writes =
        changed != INODE_NONE && session_has_open(meta->sessions, changed, request->node_id, true);

    if (op->title != 0 && op->title != lease_title(meta->leases, op->client)) {
        errmsg_set(err, "the client has lost the lease or the turn under which it asked for this");
        return MORSEL_TOO_LATE;
    }
    if ((op->kind == OP_WROTE || op->kind == OP_ALIGN) && !writes &&
        !identify_trusts(meta, request)) {
        errmsg_set(err, "the client does not hold the file open for writing; open it again");
        return MORSEL_ACCES;
    }
    return permit_op(meta->ns, op, writes, err);
}

void change_finish(struct meta *meta, struct rpc_request *request, struct meta_op *op,
                   change_answer answer)
{
    struct errmsg err = { "" };
    struct op_outcome outcome;
    int rv = permit(meta, request, op, &err);
    bool noted;

    if (rv == 0) {
        rv = meta_execute(meta, op, &err);
    }
    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    outcome = (struct op_outcome){ op->target, op->deleted };
    noted = op_window_note(meta->window, op->client, op->client_sequence, op->answered, &outcome);
    CHECK(noted); /* Its room was reserved. */
    answer(meta, request, &outcome);
}

void answer_node(struct meta *meta, struct rpc_request *request, const struct op_outcome *outcome)
{
    struct node_reply reply;
    struct errmsg err = { "" };
    Morsel__Changed changed;
    struct inode inode;
    int rv = ns_inode(meta->ns, outcome->target, &inode, &err);

    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    node_fill(meta, &reply, &inode, true, leases_held(meta, request, inode.id));
    reply.node.changed = changed_fill(meta, &changed);
    rpc_reply(request, &reply.node.base, NULL);
}
