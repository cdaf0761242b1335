/* Requests that change names, attributes and sizes. */
#include "common/check.h"
#include "common/status.h"
#include "meta/change_uv.h"

#include <stdlib.h>

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
    struct inode inode;
    enum lease_mode wanted;
    int rv = ns_inode(meta->ns, outcome->target, &inode, &err);

    if (rv != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    /* Nobody knows a new file yet: its maker may have all of it. */
    wanted = request->type == MSG_MAKE && mode_is_regular(inode.mode) ? LEASE_W : LEASE_R;
    node_fill(&reply, &inode, true,
              leases_grant(meta, request, inode.id, wanted, request->type == MSG_MAKE));
    (void)node_add_parent(meta, request, &reply, context->parent);
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

/* ---- Removing and renaming ---------------------------------------------------------------- */

/* An inode as it is after the change, and what the client holds on it. NULL: there is none. */
static Morsel__Attr *attr_now(struct meta *meta, struct rpc_request *request, inode_id id,
                              Morsel__Attr *attr, uint32_t *lease)
{
    struct errmsg err = { "" };
    struct inode inode;

    if (id == INODE_NONE || ns_inode(meta->ns, id, &inode, &err) != 0) {
        return NULL;
    }
    attr_fill(attr, &inode);
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

    reply.inode = outcome->target;
    reply.deleted = outcome->deleted;
    if (context->doomed != NULL) {
        attr_fill(&attr, context->doomed);
        reply.attr = &attr;
    }
    reply.parent = attr_now(meta, request, context->parent, &parent, &reply.parent_lease);
    reply.new_parent =
        attr_now(meta, request, context->new_parent, &new_parent, &reply.new_parent_lease);
    reply.moved = attr_now(meta, request, context->moved, &moved, &reply.moved_lease);
    reply.other = attr_now(meta, request, context->other, &other, &reply.other_lease);
    if (outcome->deleted) {
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

static inode_id id_of(struct meta *meta, inode_id parent, ProtobufCBinaryData name)
{
    struct errmsg err = { "" };
    struct inode inode;

    return ns_lookup(meta->ns, parent, bytes_slice(name), &inode, &err) == 0 ? inode.id
                                                                             : INODE_NONE;
}

void handle_rename(struct meta *meta, struct rpc_request *request)
{
    Morsel__RenameRequest *m = rpc_request_unpack(request, &morsel__rename_request__descriptor);
    struct meta_op op = { .kind = OP_RENAME };
    struct change_context context = { 0 };
    struct lease_touch touched[4];

    if (m == NULL) {
        return;
    }
    context.parent = m->parent;
    context.new_parent = m->new_parent == m->parent ? INODE_NONE : m->new_parent;
    context.moved = id_of(meta, m->parent, m->name);
    context.other = id_of(meta, m->new_parent, m->new_name);
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
    if (leases_touch_one(meta, request, m->inode, ACCESS_CHANGE) &&
        change_begin(meta, request, &op, m->op, NULL, answer)) {
        op.wrote.inode = m->inode;
        op.wrote.size = m->size;
        op.wrote.reach = m->reach;
        op.wrote.mtime_ns = (int64_t)m->mtime_ns;
        op.wrote.sparse = m->sparse;
        change_finish(meta, request, &op, answer);
    }
    message_free(m);
}

/* ---- What was held back under W leases ---------------------------------------------------- */

/* The answer is made when everything is taken, and sent when it is durable. */
struct writeback
{
    struct sync_waiter waiter;
    struct rpc_request *request;
    Morsel__WritebackReply reply;
    uint64_t *numbers; /* Four lists, each with room for all items. */
};

static int writeback_item(struct meta *meta, const Morsel__WritebackItem *item)
{
    struct meta_op wrote = { .kind = OP_WROTE, .time_ns = meta_clock_ns() };
    struct meta_op setattr = { .kind = OP_SETATTR, .time_ns = wrote.time_ns };
    struct errmsg err = { "" };
    int rv = 0;

    if (item->wrote) {
        wrote.wrote.inode = item->inode;
        wrote.wrote.size = item->size;
        wrote.wrote.reach = item->reach;
        wrote.wrote.mtime_ns = (int64_t)item->mtime_ns;
        wrote.wrote.sparse = item->sparse;
        rv = meta_execute(meta, &wrote, &err);
    }
    if (rv == 0 && item->valid != 0) {
        setattr.setattr.inode = item->inode;
        setattr.setattr.valid = item->valid & ~(uint32_t)SETATTR_SIZE;
        setattr.setattr.mode = item->mode;
        setattr.setattr.uid = item->uid;
        setattr.setattr.gid = item->gid;
        setattr.setattr.atime_ns = (int64_t)item->atime_ns;
        setattr.setattr.mtime_ns = (int64_t)item->set_mtime_ns;
        if (item->who != NULL) {
            setattr.uid = item->who->uid;
            setattr.gid = item->who->gid;
            setattr.groups = item->who->groups;
            setattr.groups_count = (uint32_t)item->who->n_groups;
        }
        rv = meta_execute(meta, &setattr, &err);
    }
    if (rv != 0 && rv != MORSEL_STALE) {
        log_warning(meta->log, "inode %llu: what a client held back was refused: %s",
                    (unsigned long long)item->inode,
                    err.text[0] != 0 ? err.text : status_words(rv));
    }
    return rv;
}

static void writeback_take(struct meta *meta, struct writeback *w,
                           const Morsel__WritebackItem *item)
{
    Morsel__WritebackReply *reply = &w->reply;
    struct errmsg err = { "" };
    struct inode inode;

    /* Without its lease somebody else may have changed the file since. */
    if (lease_held_by(meta->leases, w->request->node_id, item->inode) != LEASE_W ||
        writeback_item(meta, item) != 0 || ns_inode(meta->ns, item->inode, &inode, &err) != 0) {
        reply->refused[reply->n_refused++] = item->inode;
        return;
    }
    reply->inodes[reply->n_inodes++] = item->inode;
    reply->versions[reply->n_versions++] = inode.version;
    reply->data_versions[reply->n_data_versions++] = inode.data_version;
}

static void writeback_free(struct writeback *w)
{
    free(w->numbers);
    free(w);
}

static void on_writeback_durable(struct sync_waiter *waiter, int status)
{
    struct writeback *w = CONTAINER_OF(waiter, struct writeback, waiter);

    if (status == 0) {
        rpc_reply(w->request, &w->reply.base, NULL);
    } else {
        rpc_reply_failure(w->request, status, "the manager's database could not be synced");
    }
    writeback_free(w);
}

static struct writeback *writeback_new(struct rpc_request *request, size_t count)
{
    struct writeback *w = calloc(1, sizeof(*w));

    if (w == NULL || (w->numbers = calloc(4 * count + 1, sizeof(w->numbers[0]))) == NULL) {
        free(w);
        return NULL;
    }
    list_init(&w->waiter.node);
    w->request = request;
    morsel__writeback_reply__init(&w->reply);
    w->reply.refused = w->numbers;
    w->reply.inodes = w->numbers + count;
    w->reply.versions = w->numbers + 2 * count;
    w->reply.data_versions = w->numbers + 3 * count;
    return w;
}

void handle_writeback(struct meta *meta, struct rpc_request *request)
{
    Morsel__WritebackRequest *m =
        rpc_request_unpack(request, &morsel__writeback_request__descriptor);
    struct writeback *w;

    if (m == NULL) {
        return;
    }
    w = writeback_new(request, m->n_items);
    if (w == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        message_free(m);
        return;
    }
    for (size_t i = 0; i < m->n_items; i++) {
        writeback_take(meta, w, m->items[i]);
    }
    if (m->durable && ns_broken(meta->ns) == 0) {
        sync_wait(&meta->sync, &w->waiter, on_writeback_durable);
    } else {
        on_writeback_durable(&w->waiter, m->durable ? ns_broken(meta->ns) : 0);
    }
    message_free(m);
}
