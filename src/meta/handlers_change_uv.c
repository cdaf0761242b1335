/* Requests that change names, attributes and sizes. */
#include "common/check.h"
#include "common/status.h"
#include "meta/change_uv.h"

/* ---- Making ------------------------------------------------------------------------------- */

/* Where the bytes of a new file will lie. */
static int decide_layout(struct meta *meta, struct meta_op *op, struct errmsg *err)
{
    struct file_layout *layout = &op->make.layout;
    struct file_policy policy;
    uint32_t width;
    int rv;

    if ((rv = ns_policy_effective(meta->ns, op->make.parent, &policy, err)) != 0) {
        return rv;
    }
    width = members_place(&meta->members, ns_counters(meta->ns)->inode_next, policy.width,
                          layout->servers);
    if (width == 0) {
        errmsg_set(err, "no storage server is up; see `morsel status`");
        return MORSEL_NO_SERVERS;
    }
    layout->class = policy.class;
    layout->replicas = policy.replicas;
    layout->stripe = (struct stripe){ policy.morsel_bytes, policy.stripe_morsels, width };
    return 0;
}

/* The file is open from now on, also when the first answer was lost. */
static void answer_make_open(struct meta *meta, struct rpc_request *request,
                             const struct op_outcome *outcome)
{
    int rv = meta_note_open(meta, request, outcome->target);

    if (rv != 0) {
        rpc_reply_failure(request, rv, "too many open files");
        return;
    }
    answer_node(meta, request, outcome);
}

void handle_make(struct meta *meta, struct rpc_request *request)
{
    Morsel__MakeRequest *m = rpc_request_unpack(request, &morsel__make_request__descriptor);
    struct meta_op op = { .kind = OP_MAKE };
    struct errmsg err = { "" };
    change_answer answer;
    int rv = 0;

    if (m == NULL) {
        return;
    }
    answer = m->open || m->orphan ? answer_make_open : answer_node;
    if (change_begin(meta, request, &op, m->op, m->who, answer)) {
        op.make.parent = m->parent;
        op.make.name = bytes_slice(m->name);
        op.make.orphan = m->orphan;
        op.make.mode = m->mode;
        op.make.umask = m->umask;
        op.make.rdev = m->rdev;
        op.make.link_target = bytes_slice(m->target);
        if (mode_is_regular(m->mode)) {
            rv = decide_layout(meta, &op, &err);
        }
        if (rv != 0) {
            reply_error(meta, request, rv, &err);
        } else {
            change_finish(meta, request, &op, answer);
        }
    }
    message_free(m);
}

void handle_link(struct meta *meta, struct rpc_request *request)
{
    Morsel__LinkRequest *m = rpc_request_unpack(request, &morsel__link_request__descriptor);
    struct meta_op op = { .kind = OP_LINK };

    if (m == NULL) {
        return;
    }
    if (change_begin(meta, request, &op, m->op, m->who, answer_node)) {
        op.link.inode = m->inode;
        op.link.new_parent = m->new_parent;
        op.link.new_name = bytes_slice(m->new_name);
        change_finish(meta, request, &op, answer_node);
    }
    message_free(m);
}

/* ---- Removing and renaming ---------------------------------------------------------------- */

static void answer_removed(struct meta *meta, struct rpc_request *request,
                           const struct op_outcome *outcome)
{
    Morsel__Removed reply = MORSEL__REMOVED__INIT;
    Morsel__Attr attr;

    (void)meta;
    reply.inode = outcome->target;
    reply.deleted = outcome->deleted;
    if (request->data != NULL) {
        attr_fill(&attr, request->data);
        reply.attr = &attr;
    }
    rpc_reply(request, &reply.base, NULL);
}

void handle_unlink(struct meta *meta, struct rpc_request *request)
{
    Morsel__UnlinkRequest *m = rpc_request_unpack(request, &morsel__unlink_request__descriptor);
    struct meta_op op = { .kind = OP_UNLINK };
    struct errmsg err = { "" };
    struct inode doomed;

    if (m == NULL) {
        return;
    }
    request->data = NULL;
    if (change_begin(meta, request, &op, m->op, m->who, answer_removed)) {
        if (m->directory &&
            ns_lookup(meta->ns, m->parent, bytes_slice(m->name), &doomed, &err) == 0) {
            request->data = &doomed; /* Gone when the answer is made. */
        }
        op.unlink.parent = m->parent;
        op.unlink.name = bytes_slice(m->name);
        op.unlink.directory = m->directory;
        change_finish(meta, request, &op, answer_removed);
    }
    message_free(m);
}

void handle_rename(struct meta *meta, struct rpc_request *request)
{
    Morsel__RenameRequest *m = rpc_request_unpack(request, &morsel__rename_request__descriptor);
    struct meta_op op = { .kind = OP_RENAME };

    if (m == NULL) {
        return;
    }
    if (change_begin(meta, request, &op, m->op, m->who, answer_removed)) {
        op.rename.parent = m->parent;
        op.rename.name = bytes_slice(m->name);
        op.rename.new_parent = m->new_parent;
        op.rename.new_name = bytes_slice(m->new_name);
        op.rename.flags = m->flags;
        change_finish(meta, request, &op, answer_removed);
    }
    message_free(m);
}

/* ---- Attributes --------------------------------------------------------------------------- */

void handle_setattr(struct meta *meta, struct rpc_request *request)
{
    Morsel__SetattrRequest *m = rpc_request_unpack(request, &morsel__setattr_request__descriptor);
    struct meta_op op = { .kind = OP_SETATTR };

    if (m == NULL) {
        return;
    }
    if (change_begin(meta, request, &op, m->op, m->who, answer_node)) {
        op.setattr.inode = m->inode;
        op.setattr.valid = m->valid;
        op.setattr.mode = m->mode;
        op.setattr.uid = m->uid;
        op.setattr.gid = m->gid;
        op.setattr.size = m->size;
        op.setattr.atime_ns = (int64_t)m->atime_ns;
        op.setattr.mtime_ns = (int64_t)m->mtime_ns;
        change_finish(meta, request, &op, answer_node);
    }
    message_free(m);
}

/* ---- Durability --------------------------------------------------------------------------- */

static void reply_empty(struct meta *meta, struct rpc_request *request)
{
    (void)meta;
    rpc_reply(request, NULL, NULL);
}

void handle_fsync(struct meta *meta, struct rpc_request *request)
{
    meta_reply_durable(meta, request, reply_empty);
}

static void reply_wrote(struct meta *meta, struct rpc_request *request)
{
    struct op_outcome outcome = { (inode_id)(uintptr_t)request->data, false };

    answer_node(meta, request, &outcome);
}

static void answer_wrote_durable(struct meta *meta, struct rpc_request *request,
                                 const struct op_outcome *outcome)
{
    request->data = (void *)(uintptr_t)outcome->target;
    meta_reply_durable(meta, request, reply_wrote);
}

void handle_wrote(struct meta *meta, struct rpc_request *request)
{
    Morsel__WroteRequest *m = rpc_request_unpack(request, &morsel__wrote_request__descriptor);
    struct meta_op op = { .kind = OP_WROTE };
    change_answer answer;

    if (m == NULL) {
        return;
    }
    answer = m->durable ? answer_wrote_durable : answer_node;
    if (change_begin(meta, request, &op, m->op, NULL, answer)) {
        op.wrote.inode = m->inode;
        op.wrote.size = m->size;
        op.wrote.reach = m->reach;
        op.wrote.mtime_ns = (int64_t)m->mtime_ns;
        op.wrote.sparse = m->sparse;
        change_finish(meta, request, &op, answer);
    }
    message_free(m);
}
