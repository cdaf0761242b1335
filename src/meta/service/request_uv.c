/* The driver of all requests. */
#include "meta/service/request_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/permit.h"
#include "meta/service/identify_uv.h"

#include <string.h>

/* ---- Fields of messages ---- */

static inode_id inode_at(const struct request *r, uint16_t at)
{
    inode_id inode;

    memcpy(&inode, (const char *)r->message + at, sizeof(inode));
    return inode;
}

/* NULL: it is not there, or there is no such field. */
static const void *part_at(const struct request *r, uint16_t at)
{
    const void *part = NULL;

    if (at != 0) {
        memcpy(&part, (const char *)r->message + at, sizeof(part));
    }
    return part;
}

/* ---- Look, lease ---- */

void request_touch(struct request *r, inode_id inode, enum lease_access access)
{
    CHECK(r->touched_count < LEASE_TOUCHED_MAX);
    r->touched[r->touched_count++] = (struct lease_touch){ inode, access };
}

static int look(struct request *r)
{
    for (unsigned i = 0; i < REQUEST_TOUCHES_MAX && r->row->touches_at[i] != 0; i++) {
        request_touch(r, inode_at(r, r->row->touches_at[i]), r->row->access);
    }
    return r->row->look != NULL ? r->row->look(r) : 0;
}

/* False: the request waits, or was refused. */
static bool lease(struct request *r)
{
    return r->touched_count == 0 ||
           (r->own_too ? leases_touch_own(r->meta, r->rpc, r->touched, r->touched_count)
                       : leases_touch(r->meta, r->rpc, r->touched, r->touched_count));
}

/* ---- Changes ---- */

/* The head of the operation. */
static int identify_change(struct request *r)
{
    const Morsel__OpId *id = part_at(r, r->row->op_at);

    if (id == NULL || id->client == 0 || id->sequence == 0 || id->answered >= id->sequence ||
        (r->rpc->node_id != 0 && id->client != r->rpc->node_id)) {
        errmsg_set(&r->err, "a change needs the id of its client and a sequence number");
        return MORSEL_MALFORMED;
    }
    if (!reply_cache_reserve(r->meta->replies, id->client)) {
        return MORSEL_NOMEM;
    }
    r->op = (struct meta_op){ .kind = r->row->kind };
    r->op.time_ns = meta_clock_ns();
    r->op.client = id->client;
    r->op.client_sequence = id->sequence;
    r->op.answered = id->answered;
    r->op.lease_epoch = id->lease_epoch;
    r->op.who = identify(r->meta, r->rpc, part_at(r, r->row->who_at));
    return 0;
}

/* The inode whose bytes or attributes the operation changes; INODE_NONE: names. */
static inode_id changed_inode(const struct meta_op *op)
{
    return op->kind == OP_SETATTR       ? op->setattr.inode
           : op->kind == OP_XATTR       ? op->xattr.inode
           : op->kind == OP_SIZE_REPORT ? op->size_report.inode
           : op->kind == OP_SET_LAYOUT  ? op->set_layout.inode
           : op->kind == OP_SET_ORIGIN  ? op->set_origin.inode
           : op->kind == OP_SET_RESERVE ? op->set_reserve.inode
                                        : INODE_NONE;
}

static int permit(struct request *r)
{
    struct meta *meta = r->meta;
    const struct meta_op *op = &r->op;
    inode_id changed = changed_inode(op);
    bool writes =
        changed != INODE_NONE && session_has_open(meta->sessions, changed, r->rpc->node_id, true);

    if (op->lease_epoch != 0 && op->lease_epoch != lease_epoch_of(meta->leases, op->client)) {
        errmsg_set(&r->err,
                   "the client has lost the lease or the size lock under which it asked for this");
        return MORSEL_TOO_LATE;
    }
    if ((op->kind == OP_SIZE_REPORT || op->kind == OP_SET_LAYOUT) && !writes &&
        !identify_trusts(meta, r->rpc)) {
        errmsg_set(&r->err, "the client does not hold the file open for writing; open it again");
        return MORSEL_ACCES;
    }
    return permit_op(meta->ns, op, writes, &r->err);
}

static int execute(struct request *r)
{
    const struct meta_op *op = &r->op;
    bool noted;
    int rv;

    r->meta->replacing = r->replaced;
    rv = meta_execute(r->meta, &r->op, &r->err);
    r->meta->replacing = INODE_NONE;
    if (rv == 0) {
        r->outcome = (struct op_outcome){ op->target, op->deleted };
        noted = reply_cache_note(r->meta->replies, op->client, op->client_sequence, op->answered,
                                 &r->outcome);
        CHECK(noted); /* Its room was reserved. */
    }
    return rv;
}

/* What the answer needs was read or written in this very try: it is in memory, as good as always,
 * and another try could not tell what is gone. */
static int reply_at_once(struct request *r)
{
    struct kv_wanted *before = kv_be_patient(r->meta->kv);
    int rv = r->row->reply(r);

    r->meta->kv->wanted = before;
    return rv;
}

static int change(struct request *r)
{
    int rv = identify_change(r);

    if (rv != 0) {
        return rv;
    }
    switch (reply_cache_find(r->meta->replies, r->op.client, r->op.client_sequence, r->op.answered,
                             &r->outcome)) {
    case REPLY_CACHE_NEW:
        if ((rv = r->row->record(r)) != 0 || (rv = permit(r)) != 0 || (rv = execute(r)) != 0) {
            return rv;
        }
        return reply_at_once(r);
    case REPLY_CACHE_KNOWN:
        r->known = true;
        break;
    case REPLY_CACHE_FORGOTTEN:
        errmsg_set(&r->err, "this operation has been answered before");
        return MORSEL_STALE;
    }
    return r->row->reply(r);
}

int reply_empty(struct request *r)
{
    rpc_reply(r->rpc, NULL, NULL);
    return 0;
}

int reply_node(struct request *r)
{
    struct node_reply reply;
    Morsel__Changed changed;
    struct inode inode;
    int rv = ns_inode(r->meta->ns, r->outcome.target, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    node_fill(r->meta, &reply, &inode, true, leases_held(r->meta, r->rpc, inode.id));
    reply.node.changed = changed_fill(r->meta, &changed);
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

/* ---- The driver ---- */

/* Fields of later steps are theirs to fill. */
static void begin(struct request *r, struct meta *meta, struct rpc_request *rpc,
                  const struct request_row *row)
{
    r->meta = meta;
    r->rpc = rpc;
    r->row = row;
    r->err.text[0] = '\0';
    r->touched_count = 0;
    r->changes = row->record != NULL;
    r->own_too = false;
    r->found_status = 0;
    r->parent = r->new_parent = r->moved = r->other = r->replaced = INODE_NONE;
    r->doomed = r->known = false;
    buf_init(&r->bytes);
}

static void run_again(void *data, struct rpc_request *rpc, uint64_t subject)
{
    (void)subject;
    request_run(data, rpc);
}

static void run(struct request *r)
{
    int rv = look(r);

    /* Whatever look made of it. */
    if (rv == 0 && !kv_wants(r->meta->kv)) {
        if (!lease(r)) {
            return;
        }
        rv = r->changes ? change(r) : r->row->serve(r);
        if (rv == 0) {
            return;
        }
    }
    meta_not_answered(r->meta, r->rpc, rv, &r->err, run_again, 0);
}

void request_run(struct meta *meta, struct rpc_request *rpc)
{
    const struct request_row *row = request_row(rpc->type);
    struct request r;

    if (row->own != NULL) {
        row->own(meta, rpc);
        return;
    }
    loads_begin(&meta->loads);
    begin(&r, meta, rpc, row);
    if ((r.message = rpc_request_unpack(rpc, row->message)) != NULL) {
        run(&r);
        buf_free(&r.bytes);
        message_free(r.message);
    }
}
