/* Requests that change names, attributes and sizes. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/cluster/groups_uv.h"
#include "meta/coherence/pauses_uv.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"

/* ---- Making ---- */

/* Where the bytes of a new file will lie. */
static int decide_layout(struct request *r)
{
    struct file_layout *layout = &r->op.make.layout;
    struct meta *meta = r->meta;
    struct file_policy policy;
    uint32_t width;
    int rv;

    if ((rv = ns_policy_effective(meta->ns, r->op.make.parent, &policy, &r->err)) != 0) {
        return rv;
    }
    if (policy.class == CLASS_SCAVENGED) {
        sets_layout(&policy, layout);
        return 0;
    }
    if (policy.replicas == 0 && (rv = groups_default(meta, &policy.replicas)) != 0) {
        return rv;
    }
    layout->class = policy.class;
    layout->replicas = policy.replicas;
    layout->stripe = (struct stripe){ policy.morsel_bytes, policy.stripe_morsels, 0 };
    if (policy.replicas > 1) {
        return groups_place(meta, ns_counters(meta->ns)->inode_next, policy.replicas, policy.width,
                            layout, &r->err);
    }
    width = members_place(&meta->members, ns_counters(meta->ns)->inode_next, policy.width,
                          layout->servers);
    if (width == 0) {
        errmsg_set(&r->err, "no storage server is up; see `morsel status`");
        return MORSEL_NO_SERVERS;
    }
    layout->stripe.width = width;
    return 0;
}

/* An answer that is given again may come when what was made is gone. Nobody can be told of that any more, and MORSEL_STALE would have the
 * kernel of who asked try once more, and make it a second time. */
static int find_made(struct request *r, struct inode *inode)
{
    int rv = ns_inode(r->meta->ns, r->outcome.target, inode, &r->err);

    if (rv == MORSEL_STALE && r->known) {
        errmsg_set(&r->err, "it was made, and has been removed since");
        rv = MORSEL_UNSURE;
    }
    return rv;
}

/* Nobody knows a new file yet: its maker may have all of it. */
static int answer_made(struct request *r, inode_id parent)
{
    bool made = r->rpc->type == MSG_CREATE;
    struct inode inode, directory;
    struct node_reply reply;
    Morsel__Changed changed;
    enum lease_mode wanted;
    bool with_parent;
    int rv = find_made(r, &inode);

    if (rv != 0) {
        return rv;
    }
    with_parent = ns_inode(r->meta->ns, parent, &directory, &r->err) == 0;
    if (kv_wants(r->meta->kv)) {
        return MORSEL_AGAIN;
    }
    wanted = made && mode_is_regular(inode.mode) ? LEASE_W : LEASE_R;
    node_fill(r->meta, &reply, &inode, true, leases_grant(r->meta, r->rpc, inode.id, wanted, made));
    if (with_parent) {
        node_add_parent(r->meta, r->rpc, &reply, &directory);
    }
    reply.node.changed = changed_fill(r->meta, &changed);
    reply.node.known = r->known;
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

int record_make(struct request *r)
{
    const Morsel__CreateRequest *m = r->message;
    struct meta_op *op = &r->op;

    op->make.parent = m->parent;
    op->make.name = bytes_slice(m->name);
    op->make.orphan = m->orphan;
    op->make.mode = m->mode;
    op->make.umask = m->umask;
    op->make.rdev = m->rdev;
    op->make.link_target = bytes_slice(m->target);
    return mode_is_regular(m->mode) ? decide_layout(r) : 0;
}

int reply_make(struct request *r)
{
    const Morsel__CreateRequest *m = r->message;
    struct inode inode;
    int rv = find_made(r, &inode);

    if (rv != 0) {
        return rv;
    }
    /* The file is open from now on, also when the first answer was lost. */
    if ((m->open || m->orphan) &&
        (rv = meta_note_open(r->meta, r->rpc, r->outcome.target, true)) != 0) {
        errmsg_set(&r->err, "too many open files");
        return rv;
    }
    return answer_made(r, m->parent);
}

int record_link(struct request *r)
{
    const Morsel__LinkRequest *m = r->message;

    r->op.link.inode = m->inode;
    r->op.link.new_parent = m->new_parent;
    r->op.link.new_name = bytes_slice(m->new_name);
    return 0;
}

int reply_link(struct request *r)
{
    const Morsel__LinkRequest *m = r->message;

    return answer_made(r, m->new_parent);
}

/* ---- Removing and renaming ---- */

/* An inode as it is after the change. */
struct removed_part
{
    bool there;
    struct inode inode;
    Morsel__Attr attr;
};

static void part_read(struct meta *meta, inode_id id, struct removed_part *part)
{
    struct errmsg err = { "" };

    part->there = id != INODE_NONE && ns_inode(meta->ns, id, &part->inode, &err) == 0;
}

/* What goes into the answer, and what the client holds on it. NULL: there is none. */
static Morsel__Attr *part_grant(struct meta *meta, struct rpc_request *request,
                                struct removed_part *part, uint32_t *lease)
{
    const struct inode *inode = &part->inode;

    if (!part->there) {
        return NULL;
    }
    attr_fill(meta, &part->attr, inode);
    *lease = mode_is_directory(inode->mode) ? leases_grant(meta, request, inode->id, LEASE_R, false)
                                            : leases_held(meta, request, inode->id);
    return &part->attr;
}

/* Of a change that was carried out before, the names do not lead any more to what lost one. */
static void find_other(struct request *r)
{
    inode_id target = r->outcome.target;

    if (r->known && target != INODE_NONE && target != r->other) {
        r->moved = r->moved == INODE_NONE ? r->other : r->moved;
        r->other = target;
    }
}

int reply_removed(struct request *r)
{
    struct meta *meta = r->meta;
    Morsel__Removed reply = MORSEL__REMOVED__INIT;
    struct removed_part parent, new_parent, moved, other;
    inode_id target = r->outcome.target;
    Morsel__Changed changed;
    Morsel__Attr attr;
    bool departs;

    find_other(r);
    part_read(meta, r->parent, &parent);
    part_read(meta, r->new_parent, &new_parent);
    part_read(meta, r->moved, &moved);
    part_read(meta, r->other, &other);
    if (kv_wants(meta->kv)) {
        return MORSEL_AGAIN;
    }
    /* To who asked what was replaced is gone; others may be about to open it. */
    departs = other.there && other.inode.nlink == 0 && target == r->replaced;
    other.there &= !departs;
    reply.changed = changed_fill(meta, &changed);
    reply.known = r->known;
    reply.inode = target;
    reply.deleted = r->outcome.deleted || departs;
    if (r->doomed && target == r->found.id) {
        attr_fill(meta, &attr, &r->found);
        reply.attr = &attr;
    }
    reply.parent = part_grant(meta, r->rpc, &parent, &reply.parent_lease);
    reply.new_parent = part_grant(meta, r->rpc, &new_parent, &reply.new_parent_lease);
    reply.moved = part_grant(meta, r->rpc, &moved, &reply.moved_lease);
    reply.other = part_grant(meta, r->rpc, &other, &reply.other_lease);
    if (departs) {
        meta_note_departed(meta, target);
    }
    if (reply.deleted) {
        leases_forget(meta, target);
    }
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}

/* Whether the name is there is for execute to judge. */
static inode_id look_for(struct request *r, inode_id parent, ProtobufCBinaryData name,
                         struct inode *inode)
{
    struct errmsg err = { "" };

    return ns_lookup(r->meta->ns, parent, bytes_slice(name), inode, &err) == 0 ? inode->id
                                                                               : INODE_NONE;
}

int look_unlink(struct request *r)
{
    const Morsel__UnlinkRequest *m = r->message;

    r->parent = m->parent;
    r->other = look_for(r, m->parent, m->name, &r->found);
    r->doomed = r->other != INODE_NONE && m->directory;
    request_touch(r, r->other, ACCESS_CHANGE);
    return 0;
}

int record_unlink(struct request *r)
{
    const Morsel__UnlinkRequest *m = r->message;

    r->op.unlink.parent = m->parent;
    r->op.unlink.name = bytes_slice(m->name);
    r->op.unlink.directory = m->directory;
    return 0;
}

int look_rename(struct request *r)
{
    const Morsel__RenameRequest *m = r->message;
    struct inode moved;

    r->parent = m->parent;
    r->new_parent = m->new_parent == m->parent ? INODE_NONE : m->new_parent;
    r->moved = look_for(r, m->parent, m->name, &moved);
    r->other = look_for(r, m->new_parent, m->new_name, &r->found);
    r->doomed = r->other != INODE_NONE && mode_is_directory(r->found.mode);
    request_touch(r, r->new_parent, ACCESS_CHANGE);
    request_touch(r, r->moved, ACCESS_CHANGE);
    request_touch(r, r->other, ACCESS_CHANGE);
    return 0;
}

int record_rename(struct request *r)
{
    const Morsel__RenameRequest *m = r->message;

    r->op.rename.parent = m->parent;
    r->op.rename.name = bytes_slice(m->name);
    r->op.rename.new_parent = m->new_parent;
    r->op.rename.new_name = bytes_slice(m->new_name);
    r->op.rename.flags = m->flags;
    if (r->other != INODE_NONE && !r->doomed && !session_holds(r->meta->sessions, r->other)) {
        r->replaced = r->other;
    }
    return 0;
}

/* ---- Attributes ---- */

/* What a client has set under its lease and sends later was changed when it was set, not now. */
static void date_back(struct meta_op *op, uint64_t set_ns)
{
    if (op->lease_epoch != 0 && set_ns != 0 && (int64_t)set_ns < op->time_ns) {
        op->time_ns = (int64_t)set_ns;
    }
}

int record_setattr(struct request *r)
{
    const Morsel__SetattrRequest *m = r->message;
    struct meta_op *op = &r->op;

    op->setattr.inode = m->inode;
    op->setattr.valid = m->valid;
    op->setattr.mode = m->mode;
    op->setattr.uid = m->uid;
    op->setattr.gid = m->gid;
    op->setattr.size = m->size;
    op->setattr.atime_ns = (int64_t)m->atime_ns;
    op->setattr.mtime_ns = (int64_t)m->mtime_ns;
    date_back(op, m->set_ns);
    return (m->valid & SETATTR_SIZE) != 0 && m->size > 0
               ? sets_may_change_file(r->meta, m->inode, op->client, &r->err)
               : 0;
}

/* ---- Layout ---- */

/* On a server that was removed nothing can be written, and one that is to leave gets nothing new. */
static bool lies_on_leaver(const struct meta *meta, const struct file_layout *layout)
{
    bool leaves = false;

    for (uint32_t i = 0; i < layout->stripe.width && layout->replicas == 1; i++) {
        const struct member *m = members_find(&meta->members, layout->servers[i]);

        leaves |= ns_is_removed(meta->ns, layout->servers[i]) || m == NULL || m->leaves;
    }
    return leaves;
}

/* Only who holds W knows that nothing is on its way to the servers of before. */
int record_align(struct request *r)
{
    const Morsel__SetLayoutRequest *m = r->message;
    struct inode like;
    int rv = ns_inode(r->meta->ns, m->like, &like, &r->err);

    if (rv != 0) {
        return rv;
    }
    if (!mode_is_regular(like.mode) || inode_is_scavenged(&like) ||
        leases_held(r->meta, r->rpc, m->inode) != LEASE_W) {
        errmsg_set(&r->err,
                   "the layout of a file is changed for who holds it alone, to that of a file");
        return MORSEL_INVAL;
    }
    if (lies_on_leaver(r->meta, &like.layout)) {
        errmsg_set(&r->err,
                   "a server of that file was removed from the cluster, or is to leave it");
        return MORSEL_INVAL;
    }
    r->op.set_layout.inode = m->inode;
    r->op.set_layout.layout = like.layout;
    return 0;
}

/* ---- Exchange ---- */

/* Two mounts that each wait for the other one's lease to give it what neither gives back meanwhile would
 * wait until one is fenced: so the second is refused. */
int look_exchange(struct request *r)
{
    const Morsel__ExchangeRequest *m = r->message;

    if (leases_another_waits(r->meta, r->rpc, m->inode)) {
        errmsg_set(&r->err, "another mount is about to have that file moved");
        return MORSEL_BUSY;
    }
    return 0;
}

struct size_lock_search
{
    client_id but;
    bool found;
};

static void visit_size_lock(void *data, const struct byte_lock *lock)
{
    struct size_lock_search *search = data;

    search->found |= lock->owner.client != search->but;
}

/* Does another mount have the size lock, under which it may be truncating the file, or looking for what is missing? */
static bool is_size_locked(struct request *r, inode_id inode)
{
    struct size_lock_search search = { r->rpc->node_id, false };

    lock_table_each_of(r->meta->locks, inode, LOCK_SIZE, visit_size_lock, &search);
    return search.found;
}

/* Who holds a lease on the file knows that nobody has written since it was granted: no other mount has it open for
 * writing, or those that have hold still (pauses.h). Those that read gave theirs back before this runs, and whatever they ask of the file next tells them where
 * it lies (Attr.place). Who holds W on the other one, which has no name, has it alone. */
int record_exchange(struct request *r)
{
    const Morsel__ExchangeRequest *m = r->message;

    if (pauses_others_write(r->meta, m->inode, r->rpc->node_id) ||
        leases_held(r->meta, r->rpc, m->inode) == LEASE_NONE ||
        leases_held(r->meta, r->rpc, m->with) != LEASE_W || is_size_locked(r, m->inode)) {
        errmsg_set(&r->err, "files exchange their bytes for who knows that nobody else writes");
        return MORSEL_BUSY;
    }
    r->op.exchange.inode = m->inode;
    r->op.exchange.with = m->with;
    return 0;
}
