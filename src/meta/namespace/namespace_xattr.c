/* Setting and removing extended attributes, POSIX access lists among them. */
#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/namespace/acl.h"
#include "meta/namespace/namespace_txn.h"

#include <string.h>

static bool in_space(struct slice name, const char *space)
{
    return slice_starts_with(name, slice_text(space)) && name.count > strlen(space);
}

/* Linux: user.* is for regular files and directories only. */
static int check_name(struct slice name, const struct inode *inode)
{
    if (name.count == 0 || name.count > XATTR_NAME_BYTES_MAX ||
        memchr(name.data, 0, name.count) != NULL) {
        return MORSEL_RANGE;
    }
    if (in_space(name, "user.")) {
        return mode_is_regular(inode->mode) || mode_is_directory(inode->mode) ? 0 : MORSEL_PERM;
    }
    if (in_space(name, "trusted.") || in_space(name, "security.")) {
        return 0;
    }
    if (slice_equal(name, slice_text(ACL_NAME_ACCESS)) ||
        slice_equal(name, slice_text(ACL_NAME_DEFAULT))) {
        return mode_is_symlink(inode->mode) ? MORSEL_NOTSUP : 0;
    }
    if (slice_equal(name, slice_text("user.")) || slice_equal(name, slice_text("trusted.")) ||
        slice_equal(name, slice_text("security."))) {
        return MORSEL_INVAL; /* A space without a name. */
    }
    return MORSEL_NOTSUP;
}

/* Is there an attribute `name`? */
static int xattr_exists(struct ns_txn *t, const struct inode *inode, struct slice name,
                        bool *exists)
{
    struct slice value;
    int rv = MORSEL_NOENT;

    if ((inode->flags & INODE_HAS_XATTR) != 0) {
        rv = ns_plain_get(t->ns, key_xattr(inode->id, name), &value, t->err);
    }
    *exists = rv == 0;
    return rv == MORSEL_NOENT ? 0 : rv;
}

/* The list of names has a limit of its own. */
static int check_list(struct ns_txn *t, const struct inode *inode, struct slice name)
{
    struct buf names;
    int rv;

    buf_init(&names);
    rv = ns_xattr_list(t->ns, inode->id, &names, t->err);
    if (rv == 0 && names.count + name.count + 1 > XATTR_LIST_BYTES_MAX) {
        rv = MORSEL_NOSPC;
    }
    buf_free(&names);
    return rv;
}

static int check_flags(struct ns_txn *t, const struct inode *inode)
{
    const struct meta_op *op = t->op;
    bool exists;
    int rv = xattr_exists(t, inode, op->xattr.name, &exists);

    if (rv != 0) {
        return rv;
    }
    if (!exists && (op->xattr.remove || (op->xattr.flags & XATTR_FLAG_REPLACE) != 0)) {
        return MORSEL_NODATA;
    }
    if (exists && !op->xattr.remove && (op->xattr.flags & XATTR_FLAG_CREATE) != 0) {
        return MORSEL_EXIST;
    }
    return exists ? 0 : check_list(t, inode, op->xattr.name);
}

static void put_xattr(struct ns_txn *t, struct inode *inode, struct slice value)
{
    txn_plain_put(t, key_xattr(inode->id, t->op->xattr.name), value);
    inode->flags |= INODE_HAS_XATTR;
}

/* A list that is being taken away. Removing one that is not there succeeds, as setfacl expects. */
static void remove_acl(struct ns_txn *t, struct inode *inode, uint32_t flag)
{
    if ((inode->flags & flag) != 0) {
        txn_delete(t, key_xattr(inode->id, t->op->xattr.name));
        inode->flags &= ~flag;
    }
    txn_change(t, inode);
}

static void set_access_acl(struct ns_txn *t, struct inode *inode, const struct acl *acl)
{
    if ((inode->mode & S_ISGID) != 0 && !txn_in_group(t, inode->gid)) {
        inode->mode &= ~(uint32_t)S_ISGID;
    }
    inode->mode = (inode->mode & ~0777U) | acl_mode(acl);
    if (acl_is_mode(acl)) {
        remove_acl(t, inode, INODE_HAS_ACL); /* The mode says it all. */
        return;
    }
    put_xattr(t, inode, t->op->xattr.value);
    inode->flags |= INODE_HAS_ACL;
    txn_change(t, inode);
}

static int apply_acl(struct ns_txn *t, struct inode *inode)
{
    const struct meta_op *op = t->op;
    bool access = slice_equal(op->xattr.name, slice_text(ACL_NAME_ACCESS));
    struct acl acl;
    int rv;

    if (op->xattr.remove || op->xattr.value.count == 0) {
        remove_acl(t, inode, access ? INODE_HAS_ACL : INODE_HAS_DEFAULT_ACL);
        return 0;
    }
    if (!access && !mode_is_directory(inode->mode)) {
        return MORSEL_ACCES;
    }
    if ((rv = acl_parse(op->xattr.value, &acl)) != 0) {
        return rv;
    }
    if (access) {
        set_access_acl(t, inode, &acl);
        return 0;
    }
    put_xattr(t, inode, op->xattr.value);
    inode->flags |= INODE_HAS_DEFAULT_ACL;
    txn_change(t, inode);
    return 0;
}

int apply_xattr(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct inode *inode;
    int rv;

    if ((rv = txn_inode(t, op->xattr.inode, &inode)) != 0 ||
        (rv = check_name(op->xattr.name, inode)) != 0) {
        return rv;
    }
    if (op->xattr.value.count > XATTR_VALUE_BYTES_MAX) {
        return MORSEL_2BIG;
    }
    t->op->target = inode->id;
    if (in_space(op->xattr.name, "system.")) {
        return apply_acl(t, inode);
    }
    if ((rv = check_flags(t, inode)) != 0) {
        return rv;
    }
    txn_change(t, inode);
    if (op->xattr.remove) {
        txn_delete(t, key_xattr(inode->id, op->xattr.name));
    } else {
        put_xattr(t, inode, op->xattr.value);
    }
    return 0;
}
