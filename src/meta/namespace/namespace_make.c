/* Making files of any type, and giving them further names. */
#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/namespace/acl.h"
#include "meta/namespace/namespace_txn.h"

struct super super_of_format(const struct meta_op *op)
{
    return (struct super){ STORE_VERSION_FIRST, op->format.cluster, op->time_ns,
                           op->format.auto_copies };
}

static void put_super(struct ns_txn *t)
{
    struct super super = super_of_format(t->op);

    buf_clear(&t->ns->record);
    super_encode(&super, &t->ns->record);
    txn_record_put(t, key_super());
}

static void set_times(struct inode *inode, int64_t time_ns)
{
    inode->atime_ns = inode->mtime_ns = inode->ctime_ns = time_ns;
}

int apply_format(struct ns_txn *t)
{
    struct inode *root = txn_inode_new(t);

    CHECK(root->id == INODE_ROOT);
    t->op->target = INODE_ROOT;
    root->mode = 0040755;
    root->nlink = 2;
    root->parent = INODE_ROOT;
    set_times(root, t->op->time_ns);
    put_super(t);
    return 0;
}

static int check_make(struct ns_txn *t, const struct inode *parent)
{
    const struct meta_op *op = t->op;
    struct dentry existing;
    int rv;

    switch (mode_type(op->make.mode)) {
    case S_IFREG:
        if (!stripe_valid(&op->make.layout.stripe)) {
            return MORSEL_NO_SERVERS;
        }
        break;
    case S_IFDIR:
        if (parent->nlink >= LINKS_MAX) {
            return MORSEL_MLINK;
        }
        break;
    case S_IFLNK:
        if (op->make.link_target.count > SYMLINK_BYTES_MAX) {
            return MORSEL_NAMETOOLONG;
        }
        if (op->make.link_target.count == 0) {
            return MORSEL_NOENT;
        }
        break;
    case S_IFIFO:
    case S_IFCHR:
    case S_IFBLK:
    case S_IFSOCK:
        break;
    default:
        return MORSEL_INVAL;
    }
    if (op->make.orphan) {
        bool named = op->make.name.count > 0 && !t->replay; /* Older logs may hold one. */

        return mode_is_directory(op->make.mode) || named ? MORSEL_INVAL : 0;
    }
    if ((rv = name_check_new(op->make.name)) != 0) {
        return rv;
    }
    rv = txn_dentry_get(t, op->make.parent, op->make.name, &existing);
    return rv == MORSEL_NOENT ? 0 : rv == 0 ? MORSEL_EXIST : rv;
}

/* Owner, group and the set-group-id bit, which directories hand down. */
static void inherit_group(struct ns_txn *t, const struct inode *parent, struct inode *inode)
{
    inode->uid = t->op->who.uid;
    inode->gid = t->op->who.gid;
    if ((parent->mode & S_ISGID) == 0) {
        return;
    }
    inode->gid = parent->gid;
    if (mode_is_directory(inode->mode)) {
        inode->mode |= S_ISGID;
    } else if ((inode->mode & S_ISGID) != 0 && (inode->mode & S_IXGRP) != 0 &&
               !txn_in_group(t, inode->gid)) {
        inode->mode &= ~(uint32_t)S_ISGID;
    }
}

/* The default list of the parent becomes the access list of the new file, and the default list of a
 * new directory. Without one, umask decides. */
static int inherit_acl(struct ns_txn *t, const struct inode *parent, struct inode *inode)
{
    struct record_key key = key_xattr(parent->id, slice_text(ACL_NAME_DEFAULT));
    struct slice stored;
    struct acl acl;
    struct buf text;

    if (mode_is_symlink(inode->mode)) {
        return 0;
    }
    if ((parent->flags & INODE_HAS_DEFAULT_ACL) == 0) {
        inode->mode &= ~(t->op->make.umask & 0777);
        return 0;
    }
    if (ns_plain_get(t->ns, key, &stored, t->err) != 0 || acl_parse(stored, &acl) != 0) {
        errmsg_set(t->err, "the default access list of inode %llu is damaged",
                   (unsigned long long)parent->id);
        return MORSEL_CORRUPT;
    }
    if (mode_is_directory(inode->mode)) {
        txn_plain_put(t, key_xattr(inode->id, slice_text(ACL_NAME_DEFAULT)), stored);
        inode->flags |= INODE_HAS_XATTR | INODE_HAS_DEFAULT_ACL;
    }
    inode->mode = acl_inherit(&acl, inode->mode);
    if (!acl_is_mode(&acl)) {
        buf_init(&text);
        acl_format(&acl, &text);
        t->ns->batch.bytes.failed |= text.failed;
        txn_plain_put(t, key_xattr(inode->id, slice_text(ACL_NAME_ACCESS)), buf_slice(&text));
        buf_free(&text);
        inode->flags |= INODE_HAS_XATTR | INODE_HAS_ACL;
    }
    return 0;
}

/* What depends on the type. */
static void fill_by_type(struct ns_txn *t, struct inode *inode)
{
    const struct meta_op *op = t->op;

    inode->nlink = 1;
    if (mode_is_directory(inode->mode)) {
        inode->nlink = 2;
        inode->parent = op->make.parent;
    } else if (mode_is_regular(inode->mode)) {
        inode->layout = op->make.layout;
        if (inode_is_scavenged(inode)) {
            txn_needs_version(t,
                              inode->layout.scratch ? STORE_VERSION_EVICTION : STORE_VERSION_SETS);
        }
    } else if (mode_is_symlink(inode->mode)) {
        inode->mode |= 0777;
        inode->size = op->make.link_target.count;
        txn_plain_put(t, key_target(inode->id), op->make.link_target);
    } else {
        inode->rdev = op->make.rdev;
    }
}

/* The name in the parent, or the orphan record instead. */
static void place(struct ns_txn *t, struct inode *parent, struct inode *inode)
{
    const struct meta_op *op = t->op;
    struct dentry dentry = { inode->id, mode_type(inode->mode) };

    if (op->make.orphan) {
        inode->nlink = 0;
        inode->flags |= INODE_LINKABLE;
        txn_orphan_put(t, inode->id);
        return;
    }
    txn_dentry_put(t, parent->id, op->make.name, &dentry);
    parent->entries++;
    parent->nlink += mode_is_directory(inode->mode);
    txn_change_entries(t, parent);
}

int apply_make(struct ns_txn *t)
{
    struct meta_op *op = t->op;
    struct inode *parent, *inode;
    int rv;

    if ((rv = txn_directory(t, op->make.parent, &parent)) != 0 ||
        (rv = check_make(t, parent)) != 0) {
        return rv;
    }
    if (t->replay && op->target != t->counters.inode_next) {
        return MORSEL_CORRUPT;
    }
    inode = txn_inode_new(t);
    op->target = inode->id;
    inode->mode = op->make.mode & (S_IFMT | MODE_BITS);
    set_times(inode, op->time_ns);
    inherit_group(t, parent, inode);
    if ((rv = inherit_acl(t, parent, inode)) != 0) {
        return rv;
    }
    fill_by_type(t, inode);
    if (mode_is_regular(inode->mode)) {
        txn_tail_is_clean(t, inode);
    }
    place(t, parent, inode);
    return 0;
}

int apply_link(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct inode *inode, *parent;
    struct dentry existing, dentry;
    int rv;

    rv = txn_inode(t, op->link.inode, &inode);
    if (rv == MORSEL_STALE) {
        return MORSEL_NOENT; /* Its last name went since it was looked up; as in Linux. */
    }
    if (rv != 0 || (rv = txn_directory(t, op->link.new_parent, &parent)) != 0 ||
        (rv = name_check_new(op->link.new_name)) != 0) {
        return rv;
    }
    if (mode_is_directory(inode->mode)) {
        return MORSEL_PERM;
    }
    rv = txn_dentry_get(t, parent->id, op->link.new_name, &existing);
    if (rv != MORSEL_NOENT) {
        return rv == 0 ? MORSEL_EXIST : rv;
    }
    if (inode->nlink == 0 && (inode->flags & INODE_LINKABLE) == 0) {
        return MORSEL_NOENT;
    }
    if (inode->nlink >= LINKS_MAX) {
        return MORSEL_MLINK;
    }
    if (inode->nlink == 0) {
        inode->flags &= ~(uint32_t)INODE_LINKABLE;
        txn_orphan_delete(t, inode->id);
    }
    inode->nlink++;
    t->op->target = inode->id;
    txn_change(t, inode);
    dentry = (struct dentry){ inode->id, mode_type(inode->mode) };
    txn_dentry_put(t, parent->id, op->link.new_name, &dentry);
    parent->entries++;
    txn_change_entries(t, parent);
    return 0;
}
