/* Requests that change names, attributes and sizes. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/service/change_uv.h"

/* ---- Making ---- */

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

/* What the answer needs besides the outcome. Lives as long as the handler runs: request->data. */
struct change_context
{
    inode_id parent, new_parent; /* Directories whose entries change; INODE_NONE: none. */
    inode_id moved, other;       /* RENAME: what gets the new name, what had it (or the old one). */
    const struct inode *doomed;  /* A directory that is removed. */
};

static void answer_made(struct meta *meta, struct rpc_request *request,
                        const struct op_outcome *outcome)
{
    const struct change_context *context = request->data;
    struct node_reply reply;
    struct errmsg err = { "" };
    Morsel__Changed changed;
    struct inode inode;
    enum lease_mode wanted;
    int rv = ns_inode(meta->ns, outcome->target, &inode, &err);

    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    /* Nobody knows a new file yet: its maker may have all of it. */
    wanted = request->type == MSG_MAKE && mode_is_regular(inode.mode) ? LEASE_W : LEASE_R;
    node_fill(meta, &reply, &inode, true,
              leases_grant(meta, request, inode.id, wanted, request->type == MSG_MAKE));
    (void)node_add_parent(meta, request, &reply, context->parent);
    reply.node.changed = changed_fill(meta, &changed);
    rpc_reply(request, &reply.node.base, NULL);
}

/* The file is open from now on, also when the first answer was lost. */
static void answer_make_open(struct meta *meta, struct rpc_request *request,
                             const struct op_outcome *outcome)
{
    int rv = meta_note_open(meta, request, outcome->target, true);

    if (rv != 0) {
        rpc_reply_failure(request, rv, "too many open files");
        return;
    }
    answer_made(meta, request, outcome);
}

static void make(struct meta *meta, struct rpc_request *request, const Morsel__MakeRequest *m)
{
    struct meta_op op = { .kind = OP_MAKE };
    struct change_context context = { .parent = m->parent };
    change_answer answer = m->open || m->orphan ? answer_make_open : answer_made;
    struct errmsg err = { "" };
    int rv = 0;

    request->data = &context;
    if (!leases_touch_one(meta, request, m->parent, ACCESS_CHANGE) ||
        !change_begin(meta, request, &op, m->op, m->who, answer)) {
        return;
    }
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

void handle_make(struct meta *meta, struct rpc_request *request)
{
    Morsel__MakeRequest *m = rpc_request_unpack(request, &morsel__make_request__descriptor);

    if (m != NULL) {
        make(meta, request, m);
        message_free(m);
    }
}

void handle_link(struct meta *meta, struct rpc_request *request)
{
    Morsel__LinkRequest *m = rpc_request_unpack(request, &morsel__link_request__descriptor);
    struct meta_op op = { .kind = OP_LINK };
    struct change_context context = { 0 };
    struct lease_touch touched[2];

    if (m == NULL) {
        return;
    }
    context.parent = m->new_parent;
    request->data = &context;
    touched[0] = (struct lease_touch){ m->inode, ACCESS_CHANGE };
    touched[1] = (struct lease_touch){ m->new_parent, ACCESS_CHANGE };
    if (leases_touch(meta, request, touched, 2) &&
        change_begin(meta, request, &op, m->op, m->who, answer_made)) {
        op.link.inode = m->inode;
        op.link.new_parent = m->new_parent;
        op.link.new_name = bytes_slice(m->new_name);
        change_finish(meta, request, &op, answer_made);
    }
    message_free(m);
}

/* ---- Removing and renaming ---- */

/* An inode as it is after the change, and what the client holds on it. NULL: there is none. */
static Morsel__Attr *attr_now(struct meta *meta, struct rpc_request *request, inode_id id,
                              Morsel__Attr *attr, uint32_t *lease)
{
    struct errmsg err = { "" };
    struct inode inode;

    if (id == INODE_NONE || ns_inode(meta->ns, id, &inode, &err) != 0) {
        return NULL;
    }
    attr_fill(meta, attr, &inode);
    *lease = mode_is_directory(inode.mode) ? leases_grant(meta, request, id, LEASE_R, false)
                                           : leases_held(meta, request, id);
    return attr;
}

static void answer_removed(struct meta *meta, struct rpc_request *request,
                           const struct op_outcome *outcome)
{
    const struct change_context *context = request->data;
    Morsel__Removed reply = MORSEL__REMOVED__INIT;
    Morsel__Attr attr, parent, new_parent, moved, other;
    Morsel__Changed changed;
    bool departs;

    reply.changed = changed_fill(meta, &changed);
    reply.inode = outcome->target;
    /* To who asked what was replaced is gone; others may be about to open it. */
    departs = outcome->target != INODE_NONE && outcome->target == meta->replacing;
    reply.deleted = outcome->deleted || departs;
    if (context->doomed != NULL && outcome->target == context->doomed->id) {
        attr_fill(meta, &attr, context->doomed);
        reply.attr = &attr;
    }
    reply.parent = attr_now(meta, request, context->parent, &parent, &reply.parent_lease);
    reply.new_parent =
        attr_now(meta, request, context->new_parent, &new_parent, &reply.new_parent_lease);
    reply.moved = attr_now(meta, request, context->moved, &moved, &reply.moved_lease);
    if (!departs) {
        reply.other = attr_now(meta, request, context->other, &other, &reply.other_lease);
    }
    if (departs) {
        meta_note_departed(meta, outcome->target);
    }
    if (reply.deleted) {
        leases_forget(meta, outcome->target);
    }
    rpc_reply(request, &reply.base, NULL);
}

void handle_unlink(struct meta *meta, struct rpc_request *request)
{
    Morsel__UnlinkRequest *m = rpc_request_unpack(request, &morsel__unlink_request__descriptor);
    struct meta_op op = { .kind = OP_UNLINK };
    struct change_context context = { 0 };
    struct lease_touch touched[2];
    struct errmsg err = { "" };
    struct inode doomed;

    if (m == NULL) {
        return;
    }
    context.parent = m->parent;
    if (ns_lookup(meta->ns, m->parent, bytes_slice(m->name), &doomed, &err) == 0) {
        context.other = doomed.id;
        context.doomed = m->directory ? &doomed : NULL; /* Gone when the answer is made. */
    }
    request->data = &context;
    touched[0] = (struct lease_touch){ m->parent, ACCESS_CHANGE };
    touched[1] = (struct lease_touch){ context.other, ACCESS_CHANGE };
    if (leases_touch(meta, request, touched, 2) &&
        change_begin(meta, request, &op, m->op, m->who, answer_removed)) {
        op.unlink.parent = m->parent;
        op.unlink.name = bytes_slice(m->name);
        op.unlink.directory = m->directory;
        change_finish(meta, request, &op, answer_removed);
    }
    message_free(m);
}

static inode_id look_up(struct meta *meta, inode_id parent, ProtobufCBinaryData name,
                        struct inode *inode)
{
    struct errmsg err = { "" };

    return ns_lookup(meta->ns, parent, bytes_slice(name), inode, &err) == 0 ? inode->id
                                                                            : INODE_NONE;
}

void handle_rename(struct meta *meta, struct rpc_request *request)
{
    Morsel__RenameRequest *m = rpc_request_unpack(request, &morsel__rename_request__descriptor);
    struct meta_op op = { .kind = OP_RENAME };
    struct change_context context = { 0 };
    struct lease_touch touched[4];
    struct inode moved, replaced;

    if (m == NULL) {
        return;
    }
    context.parent = m->parent;
    context.new_parent = m->new_parent == m->parent ? INODE_NONE : m->new_parent;
    context.moved = look_up(meta, m->parent, m->name, &moved);
    context.other = look_up(meta, m->new_parent, m->new_name, &replaced);
    if (context.other != INODE_NONE && mode_is_directory(replaced.mode)) {
        context.doomed = &replaced;
    }
    request->data = &context;
    touched[0] = (struct lease_touch){ m->parent, ACCESS_CHANGE };
    touched[1] = (struct lease_touch){ context.new_parent, ACCESS_CHANGE };
    touched[2] = (struct lease_touch){ context.moved, ACCESS_CHANGE };
    touched[3] = (struct lease_touch){ context.other, ACCESS_CHANGE };
    if (leases_touch(meta, request, touched, 4) &&
        change_begin(meta, request, &op, m->op, m->who, answer_removed)) {
        op.rename.parent = m->parent;
        op.rename.name = bytes_slice(m->name);
        op.rename.new_parent = m->new_parent;
        op.rename.new_name = bytes_slice(m->new_name);
        op.rename.flags = m->flags;
        if (context.other != INODE_NONE && context.doomed == NULL &&
            !session_holds(meta->sessions, context.other)) {
            meta->replacing = context.other;
        }
        change_finish(meta, request, &op, answer_removed);
        meta->replacing = INODE_NONE;
    }
    message_free(m);
}

/* ---- Attributes ---- */

/* What a client held back under its lease was changed when it was set, not when we hear of it. */
static void date_back(struct meta_op *op, uint64_t set_ns)
{
    if (op->title != 0 && set_ns != 0 && (int64_t)set_ns < op->time_ns) {
        op->time_ns = (int64_t)set_ns;
    }
}

void handle_setattr(struct meta *meta, struct rpc_request *request)
{
    Morsel__SetattrRequest *m = rpc_request_unpack(request, &morsel__setattr_request__descriptor);
    struct meta_op op = { .kind = OP_SETATTR };

    if (m == NULL) {
        return;
    }
    if (leases_touch_one(meta, request, m->inode, ACCESS_CHANGE) &&
        change_begin(meta, request, &op, m->op, m->who, answer_node)) {
        op.setattr.inode = m->inode;
        op.setattr.valid = m->valid;
        op.setattr.mode = m->mode;
        op.setattr.uid = m->uid;
        op.setattr.gid = m->gid;
        op.setattr.size = m->size;
        op.setattr.atime_ns = (int64_t)m->atime_ns;
        op.setattr.mtime_ns = (int64_t)m->mtime_ns;
        date_back(&op, m->set_ns);
        change_finish(meta, request, &op, answer_node);
    }
    message_free(m);
}

/* ---- Layout ---- */

/* Only who holds W knows that nothing is on its way to the servers of before. */
static int decide_align(struct meta *meta, struct rpc_request *request,
                        const Morsel__AlignRequest *m, struct meta_op *op, struct errmsg *err)
{
    struct inode like;
    int rv = ns_inode(meta->ns, m->like, &like, err);

    if (rv != 0) {
        return rv;
    }
    if (!mode_is_regular(like.mode) || leases_held(meta, request, m->inode) != LEASE_W) {
        errmsg_set(err,
                   "the layout of a file is changed for who holds it alone, to that of a file");
        return MORSEL_INVAL;
    }
    op->align.inode = m->inode;
    op->align.layout = like.layout;
    return 0;
}

void handle_align(struct meta *meta, struct rpc_request *request)
{
    Morsel__AlignRequest *m = rpc_request_unpack(request, &morsel__align_request__descriptor);
    struct meta_op op = { .kind = OP_ALIGN };
    struct errmsg err = { "" };
    int rv;

    if (m == NULL) {
        return;
    }
    if (leases_touch_one(meta, request, m->inode, ACCESS_CHANGE) &&
        change_begin(meta, request, &op, m->op, NULL, answer_node)) {
        if ((rv = decide_align(meta, request, m, &op, &err)) != 0) {
            reply_error(meta, request, rv, &err);
        } else {
            change_finish(meta, request, &op, answer_node);
        }
    }
    message_free(m);
}
