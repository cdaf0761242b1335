/* Who may what, from the attributes of an inode and the credentials of who asks. */
#include "meta/namespace/permit.h"

#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/datasets/sets.h"
#include "meta/namespace/acl.h"

/* The question: about which operation, and what to ask. */
struct permit
{
    struct ns *ns;
    const struct meta_op *op;
    const struct credentials *who;
    bool writes;
    struct errmsg *err;
};

static int status_of(enum verdict verdict)
{
    switch (verdict) {
    case VERDICT_GRANTED:
        return 0;
    case VERDICT_GROUPS:
        return MORSEL_STALE;
    case VERDICT_DENIED:
        break;
    }
    return MORSEL_ACCES;
}

int permit_access(struct ns *ns, const struct inode *inode, const struct credentials *who,
                  uint32_t wanted, struct errmsg *err)
{
    struct buf text;
    struct acl acl;
    int rv;

    /* Linux does not look into a list whose mask is empty: then the other bits decide. */
    if (who->uid == UID_ROOT || (inode->flags & INODE_HAS_ACL) == 0 ||
        (inode->mode & S_IRWXG) == 0) {
        return status_of(permission_by_mode(inode->mode, inode->uid, inode->gid, who, wanted));
    }
    buf_init(&text);
    if ((rv = ns_xattr_get(ns, inode->id, slice_text(ACL_NAME_ACCESS), &text, err)) == 0 &&
        acl_parse(buf_slice(&text), &acl) != 0) {
        errmsg_set(err, "the access list of inode %llu is damaged", (unsigned long long)inode->id);
        rv = MORSEL_CORRUPT;
    }
    buf_free(&text);
    return rv != 0
               ? rv
               : status_of(acl_permission(&acl, inode->mode, inode->uid, inode->gid, who, wanted));
}

static bool is_owner(const struct credentials *who, const struct inode *inode)
{
    return who->uid == UID_ROOT || who->uid == inode->uid;
}

static int access_of(const struct permit *p, const struct inode *inode, uint32_t wanted)
{
    return permit_access(p->ns, inode, p->who, wanted, p->err);
}

/* Bits that only members of the group may set are dropped without a word for others: so it must be
 * known who is one. */
static int set_group_id_known(const struct permit *p, uint32_t mode, uint32_t gid)
{
    return p->who->uid != UID_ROOT && (mode & S_ISGID) != 0 &&
                   credentials_in_group(p->who, gid) == VERDICT_GROUPS
               ? MORSEL_STALE
               : 0;
}

/* ---- Names ---- */

/* Names may come and go in this directory. */
static int may_change_names(const struct permit *p, inode_id parent, struct inode *directory)
{
    int rv = ns_inode(p->ns, parent, directory, p->err);

    return rv != 0 ? rv : access_of(p, directory, MAY_WRITE | MAY_EXECUTE);
}

/* Does it depend on what a name stands for whether it may go from the directory? */
static bool is_sticky(const struct permit *p, const struct inode *directory)
{
    return (directory->mode & S_ISVTX) != 0 && !is_owner(p->who, directory);
}

static int permit_make(const struct permit *p)
{
    struct inode parent;
    int rv = may_change_names(p, p->op->make.parent, &parent);

    if (rv == 0 && (parent.mode & S_ISGID) != 0) {
        rv = set_group_id_known(p, p->op->make.mode, parent.gid);
    }
    return rv;
}

static int permit_link(const struct permit *p)
{
    struct inode parent;

    return may_change_names(p, p->op->link.new_parent, &parent);
}

/* May the name go from this directory? If `look`, or if it decides, `*inode` is what it stands for;
 * its mode is 0 if that is nothing, or was not looked for. */
static int may_take(const struct permit *p, inode_id parent, struct slice name, bool look,
                    struct inode *inode)
{
    struct inode directory;
    int rv = may_change_names(p, parent, &directory);
    bool sticky = rv == 0 && is_sticky(p, &directory);

    inode->mode = 0;
    if (rv != 0 || (!look && !sticky)) {
        return rv;
    }
    rv = ns_lookup(p->ns, parent, name, inode, p->err);
    if (rv != 0) {
        inode->mode = 0;
        return rv == MORSEL_NOENT ? 0 : rv;
    }
    return sticky && !is_owner(p->who, inode) ? MORSEL_PERM : 0;
}

static int permit_unlink(const struct permit *p)
{
    struct inode inode;

    return may_take(p, p->op->unlink.parent, p->op->unlink.name, false, &inode);
}

/* In the order in which Linux looks. The ".." of a directory changes with its parent. */
static int permit_rename(const struct permit *p)
{
    const struct meta_op *op = p->op;
    bool exchange = (op->rename.flags & RENAME_FLAG_EXCHANGE) != 0;
    bool moves = op->rename.parent != op->rename.new_parent && p->who->uid != UID_ROOT;
    struct inode moved, replaced;
    int rv = may_take(p, op->rename.parent, op->rename.name, moves, &moved);

    if (rv == 0) {
        rv = may_take(p, op->rename.new_parent, op->rename.new_name, moves && exchange, &replaced);
    }
    if (rv == 0 && moves && mode_is_directory(moved.mode)) {
        rv = access_of(p, &moved, MAY_WRITE);
    }
    if (rv == 0 && moves && exchange && mode_is_directory(replaced.mode)) {
        rv = access_of(p, &replaced, MAY_WRITE);
    }
    return rv;
}

/* ---- Attributes ---- */

/* Only root gives files away; owners may give them to a group of theirs. */
static int permit_owner(const struct permit *p, const struct inode *inode)
{
    const struct meta_op *op = p->op;
    uint32_t valid = op->setattr.valid;

    if (p->who->uid == UID_ROOT || (valid & (SETATTR_UID | SETATTR_GID)) == 0) {
        return 0;
    }
    if (p->who->uid != inode->uid ||
        ((valid & SETATTR_UID) != 0 && op->setattr.uid != inode->uid)) {
        return MORSEL_PERM;
    }
    if ((valid & SETATTR_GID) != 0 && op->setattr.gid != inode->gid) {
        int rv = status_of(credentials_in_group(p->who, op->setattr.gid));

        return rv == MORSEL_ACCES ? MORSEL_PERM : rv;
    }
    return 0;
}

/* The kernel takes set-id bits away in the name of whoever writes. */
static bool only_drops_set_ids(const struct inode *inode, uint32_t mode)
{
    uint32_t before = inode->mode & MODE_BITS, after = mode & MODE_BITS;

    return (after & ~before) == 0 && (before & ~after & ~(uint32_t)MODE_SET_IDS) == 0;
}

static int may_write(const struct permit *p, const struct inode *inode)
{
    return p->writes ? 0 : access_of(p, inode, MAY_WRITE);
}

static int permit_mode(const struct permit *p, const struct inode *inode)
{
    const struct meta_op *op = p->op;

    if ((op->setattr.valid & SETATTR_MODE) == 0) {
        return 0;
    }
    if (is_owner(p->who, inode)) {
        return set_group_id_known(p, op->setattr.mode, inode->gid);
    }
    return only_drops_set_ids(inode, op->setattr.mode) && may_write(p, inode) == 0 ? 0
                                                                                   : MORSEL_PERM;
}

static int permit_times(const struct permit *p, const struct inode *inode)
{
    static const uint32_t times = SETATTR_ATIME | SETATTR_MTIME;
    static const uint32_t now = SETATTR_ATIME_NOW | SETATTR_MTIME_NOW;
    uint32_t valid = p->op->setattr.valid;

    if (is_owner(p->who, inode)) {
        return 0;
    }
    if ((valid & times) != 0) {
        return MORSEL_PERM;
    }
    return (valid & now) != 0 ? access_of(p, inode, MAY_WRITE) : 0;
}

static int permit_setattr(const struct permit *p)
{
    struct inode inode;
    int rv = ns_inode(p->ns, p->op->setattr.inode, &inode, p->err);

    if (rv != 0 || (rv = permit_owner(p, &inode)) != 0 || (rv = permit_mode(p, &inode)) != 0 ||
        (rv = permit_times(p, &inode)) != 0) {
        return rv;
    }
    return (p->op->setattr.valid & (SETATTR_SIZE | SETATTR_DATA)) != 0 ? may_write(p, &inode) : 0;
}

/* ---- Extended attributes, policy ---- */

static int permit_xattr(const struct permit *p)
{
    const struct meta_op *op = p->op;
    struct slice name = op->xattr.name;
    struct inode inode;
    int rv = ns_inode(p->ns, op->xattr.inode, &inode, p->err);

    if (rv != 0) {
        return rv;
    }
    if (slice_starts_with(name, slice_text("user."))) {
        return mode_is_directory(inode.mode) && (inode.mode & S_ISVTX) != 0 &&
                       !is_owner(p->who, &inode)
                   ? MORSEL_PERM
                   : access_of(p, &inode, MAY_WRITE);
    }
    if (slice_starts_with(name, slice_text("system."))) {
        return is_owner(p->who, &inode) ? set_group_id_known(p, inode.mode, inode.gid)
                                        : MORSEL_PERM;
    }
    /* Writing to a program takes its capabilities away. */
    if (op->xattr.remove && slice_equal(name, slice_text("security.capability")) &&
        may_write(p, &inode) == 0) {
        return 0;
    }
    return p->who->uid == UID_ROOT ? 0 : MORSEL_PERM;
}

static int permit_policy(const struct permit *p)
{
    struct inode inode;
    int rv = ns_inode(p->ns, p->op->policy.inode, &inode, p->err);

    return rv != 0 || is_owner(p->who, &inode) ? rv : MORSEL_PERM;
}

/* Who may write the bytes may say where they come from, and how many they will be. */
static int permit_bytes(const struct permit *p, inode_id id)
{
    struct inode inode;
    int rv = ns_inode(p->ns, id, &inode, p->err);

    return rv != 0 || p->writes ? rv : permit_access(p->ns, &inode, p->who, MAY_WRITE, p->err);
}

/* The bytes of one file become those of the other, and no time of it tells when they were written. */
static int permit_exchange(const struct permit *p)
{
    struct inode inode, with;
    int rv = ns_inode(p->ns, p->op->exchange.inode, &inode, p->err);

    if (rv != 0 || (rv = ns_inode(p->ns, p->op->exchange.with, &with, p->err)) != 0) {
        return rv;
    }
    return is_owner(p->who, &inode) && is_owner(p->who, &with) ? 0 : MORSEL_PERM;
}

/* Whose file it is says whether it may be evicted, and when. */
static int permit_set(const struct permit *p, uint64_t number)
{
    const struct data_set *set = sets_find(ns_sets(p->ns), number);
    struct inode inode;
    int rv = set != NULL ? ns_inode(p->ns, set->head.inode, &inode, p->err) : MORSEL_NODATA;

    return rv != 0 || is_owner(p->who, &inode) ? rv : MORSEL_PERM;
}

int permit_xattr_get(struct ns *ns, const struct inode *inode, struct slice name,
                     const struct credentials *who, struct errmsg *err)
{
    if (slice_starts_with(name, slice_text("trusted."))) {
        return who->uid == UID_ROOT ? 0 : MORSEL_NODATA;
    }
    return slice_starts_with(name, slice_text("user."))
               ? permit_access(ns, inode, who, MAY_READ, err)
               : 0;
}

int permit_op(struct ns *ns, const struct meta_op *op, bool writes, struct errmsg *err)
{
    const struct permit p = { ns, op, &op->who, writes, err };

    if (op->client == 0) {
        return 0;
    }
    switch (op->kind) {
    case OP_CREATE:
        return permit_make(&p);
    case OP_LINK:
        return permit_link(&p);
    case OP_UNLINK:
        return permit_unlink(&p);
    case OP_RENAME:
        return permit_rename(&p);
    case OP_SETATTR:
        return permit_setattr(&p);
    case OP_XATTR:
        return permit_xattr(&p);
    case OP_POLICY:
        return permit_policy(&p);
    case OP_EXCHANGE:
        return permit_exchange(&p);
    case OP_SET_ORIGIN:
        return permit_bytes(&p, op->set_origin.inode);
    case OP_SET_RESERVE:
        return permit_bytes(&p, op->set_reserve.inode);
    case OP_SET_MARK:
        return permit_set(&p, op->set_mark.set);
    case OP_SET_EVICT:
        return permit_set(&p, op->set_evict.set);
    default:
        return 0; /* SIZE_REPORT, SET_LAYOUT: come from an open file, through which bytes may be written. */
    }
}
