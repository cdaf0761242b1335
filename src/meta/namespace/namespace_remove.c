/* Taking names away, and what becomes of an inode that has none left. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/groups_record.h"
#include "meta/namespace/namespace_txn.h"

struct xattr_sweep
{
    struct ns_txn *t;
    inode_id inode;
};

static bool visit_xattr(void *data, struct slice key, struct slice value)
{
    struct xattr_sweep *sweep = data;
    struct slice name;
    inode_id inode;

    (void)value;
    if (!key_name_parse(key, RECORD_XATTR, &inode, &name) || inode != sweep->inode) {
        return false;
    }
    kv_batch_delete(&sweep->t->ns->batch, key);
    return true;
}

static int delete_xattrs(struct ns_txn *t, inode_id inode)
{
    struct xattr_sweep sweep = { t, inode };
    struct record_key key = key_xattr(inode, (struct slice){ NULL, 0 });

    return t->ns->kv->scan(t->ns->kv, record_key_slice(&key), visit_xattr, &sweep, t->err);
}

/* With copies: on each server of the column's group. Who lost its place there loses its whole copy. */
static void delete_copies(struct ns_txn *t, const struct inode *inode, uint32_t column)
{
    group_number number = inode->layout.groups[column];
    const struct group_made *group = groups_record_find(t->ns->groups, number);
    struct object_id object = { inode_body(inode), placing_object(number, column) };

    for (uint32_t i = 0; group != NULL && i < group->now.count; i++) {
        if (group->now.servers[i] != 0) {
            txn_queue_object(t, group->now.servers[i], object);
        }
    }
}

/* Queue the data objects of a regular file. */
static void delete_objects(struct ns_txn *t, const struct inode *inode, bool all_columns)
{
    const struct stripe *stripe = &inode->layout.stripe;

    for (uint32_t column = 0; column < stripe->width; column++) {
        struct object_id object = { inode_body(inode), column };

        if (!all_columns && stripe_object_size(stripe, column, inode->reach) == 0) {
            continue;
        }
        if (inode->layout.replicas > 1) {
            delete_copies(t, inode, column);
        } else {
            txn_queue_object(t, inode->layout.servers[column], object);
        }
    }
}

int txn_destroy(struct ns_txn *t, struct inode *inode, bool all_columns)
{
    struct txn_slot *slot = CONTAINER_OF(inode, struct txn_slot, inode);
    int rv = 0;

    if ((inode->flags & INODE_HAS_XATTR) != 0) {
        rv = delete_xattrs(t, inode->id);
    }
    if ((inode->flags & INODE_UNSYNCED) != 0) {
        txn_delete(t, key_unsynced(inode->id));
    }
    if (mode_is_symlink(inode->mode)) {
        txn_delete(t, key_target(inode->id));
    }
    if (inode_is_scavenged(inode)) {
        rv = rv != 0 ? rv : txn_set_forget(t, inode_body(inode));
    } else if (mode_is_regular(inode->mode)) {
        delete_objects(t, inode, all_columns);
    }
    if (inode->body != INODE_NONE) {
        txn_delete(t, key_body(inode->body));
    }
    if (mode_is_directory(inode->mode) && !file_policy_empty(&inode->policy)) {
        t->counters.policies--;
    }
    slot->state = SLOT_REMOVED;
    t->counters.inodes--;
    return rv;
}

int txn_drop_name(struct ns_txn *t, struct inode *inode)
{
    struct meta_op *op = t->op;
    const struct ns_hooks *hooks = &t->ns->hooks;

    txn_change(t, inode);
    op->target = inode->id;
    if (!mode_is_directory(inode->mode) && inode->nlink > 1) {
        inode->nlink--;
        return 0;
    }
    inode->nlink = 0;
    if (!t->replay) {
        op->open = hooks->is_open != NULL && hooks->is_open(hooks->data, inode->id);
        op->deleted = !op->open;
    }
    if (op->open) {
        txn_orphan_put(t, inode->id);
        return 0;
    }
    return txn_destroy(t, inode, false);
}

int apply_unlink(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct inode *parent, *inode;
    struct dentry dentry;
    bool directory;
    int rv;

    if ((rv = txn_directory(t, op->unlink.parent, &parent)) != 0 ||
        (rv = name_check_old(op->unlink.name)) != 0 ||
        (rv = txn_dentry_get(t, op->unlink.parent, op->unlink.name, &dentry)) != 0 ||
        (rv = txn_inode(t, dentry.inode, &inode)) != 0) {
        return rv == MORSEL_NOTEMPTY && !op->unlink.directory ? MORSEL_ISDIR : rv;
    }
    directory = mode_is_directory(inode->mode);
    if (directory != op->unlink.directory) {
        return directory ? MORSEL_ISDIR : MORSEL_NOTDIR;
    }
    if (directory && inode->entries > 0) {
        return MORSEL_NOTEMPTY;
    }
    txn_dentry_delete(t, parent->id, op->unlink.name, &dentry);
    parent->entries--;
    parent->nlink -= directory;
    txn_change_entries(t, parent);
    return txn_drop_name(t, inode);
}

int apply_collect(struct ns_txn *t)
{
    struct inode *inode;
    bool orphan;
    int rv;

    if ((rv = txn_inode(t, t->op->collect.inode, &inode)) != 0 ||
        (rv = ns_is_orphan(t->ns, inode->id, &orphan, t->err)) != 0) {
        return rv;
    }
    if (!orphan) {
        return MORSEL_NOENT;
    }
    txn_orphan_delete(t, inode->id);
    t->op->target = inode->id;
    t->op->deleted = true;
    return txn_destroy(t, inode, true);
}
