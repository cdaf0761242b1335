/* Attributes: chmod, chown, times, size, what clients wrote, and the policy of directories. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/acl.h"
#include "meta/namespace/namespace_txn.h"

#include <string.h>

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The access list follows the mode. */
static int chmod_acl(struct ns_txn *t, const struct inode *inode)
{
    struct slice name = { (const uint8_t *)ACL_NAME_ACCESS, strlen(ACL_NAME_ACCESS) };
    struct record_key key = key_xattr(inode->id, name);
    struct slice stored;
    struct acl acl;
    struct buf text;

    if ((inode->flags & INODE_HAS_ACL) == 0) {
        return 0;
    }
    if (ns_plain_get(t->ns, key, &stored, t->err) != 0 || acl_parse(stored, &acl) != 0) {
        errmsg_set(t->err, "the access list of inode %llu is damaged",
                   (unsigned long long)inode->id);
        return MORSEL_CORRUPT;
    }
    acl_chmod(&acl, inode->mode);
    buf_init(&text);
    acl_format(&acl, &text);
    t->ns->batch.bytes.failed |= text.failed;
    txn_plain_put(t, key, buf_slice(&text));
    buf_free(&text);
    return 0;
}

/* Whoever changes what a program does takes its capabilities away (capabilities(7)). */
static void strip_capabilities(struct ns_txn *t, const struct inode *inode)
{
    static const char name[] = "security.capability";

    if ((inode->flags & INODE_HAS_XATTR) != 0) {
        txn_delete(t,
                   key_xattr(inode->id, (struct slice){ (const uint8_t *)name, sizeof(name) - 1 }));
    }
}

/* chown takes the set-id bits away, as Linux does, unless the mode is set in the same breath. */
static void set_owner(const struct meta_op *op, struct inode *inode)
{
    uint32_t valid = op->setattr.valid;

    if ((valid & SETATTR_UID) != 0) {
        inode->uid = op->setattr.uid;
    }
    if ((valid & SETATTR_GID) != 0) {
        inode->gid = op->setattr.gid;
    }
    if ((valid & (SETATTR_UID | SETATTR_GID)) != 0 && !mode_is_directory(inode->mode)) {
        inode->mode = mode_without_set_ids(inode->mode);
    }
}

/* chmod: set-group-id is only for members of the group (and root). */
static int set_mode(struct ns_txn *t, struct inode *inode)
{
    uint32_t mode = t->op->setattr.mode;

    if ((t->op->setattr.valid & SETATTR_MODE) == 0) {
        return 0;
    }
    if ((mode & S_ISGID) != 0 && !txn_in_group(t, inode->gid)) {
        mode &= ~(uint32_t)S_ISGID;
    }
    inode->mode = mode_with_bits(inode->mode, mode);
    return chmod_acl(t, inode);
}

static void set_times(const struct meta_op *op, struct inode *inode)
{
    uint32_t valid = op->setattr.valid;

    if ((valid & (SETATTR_SIZE | SETATTR_DATA | SETATTR_MTIME_NOW)) != 0) {
        inode->mtime_ns = op->time_ns;
    }
    if ((valid & SETATTR_MTIME) != 0) {
        inode->mtime_ns = op->setattr.mtime_ns;
    }
    if ((valid & SETATTR_ATIME_NOW) != 0) {
        inode->atime_ns = op->time_ns;
    }
    if ((valid & SETATTR_ATIME) != 0) {
        inode->atime_ns = op->setattr.atime_ns;
    }
}

/* Morsels cannot be punched. */
static int change_set(struct ns_txn *t, struct inode *inode)
{
    uint32_t valid = t->op->setattr.valid;

    if ((valid & SETATTR_SIZE) != 0) {
        return txn_set_truncate(t, inode, t->op->setattr.size);
    }
    if ((valid & SETATTR_DATA) != 0) {
        int rv = txn_set_grows(t, inode);

        return rv != 0 ? rv : MORSEL_NOTSUP;
    }
    return 0;
}

int apply_setattr(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    uint32_t valid = op->setattr.valid;
    struct inode *inode;
    int rv;

    if ((valid & ~(uint32_t)SETATTR_KNOWN) != 0) {
        return MORSEL_INVAL;
    }
    if ((rv = txn_inode(t, op->setattr.inode, &inode)) != 0) {
        return rv;
    }
    if ((valid & SETATTR_STRIP_IDS) != 0 && (valid & SETATTR_SIZE) == 0) {
        return MORSEL_INVAL;
    }
    if ((valid & (SETATTR_SIZE | SETATTR_DATA)) != 0 && !mode_is_regular(inode->mode)) {
        return mode_is_directory(inode->mode) ? MORSEL_ISDIR : MORSEL_INVAL;
    }
    if ((valid & SETATTR_SIZE) != 0 && op->setattr.size > INT64_MAX) {
        return MORSEL_FBIG;
    }
    if (inode_is_scavenged(inode) && (rv = change_set(t, inode)) != 0) {
        return rv;
    }
    t->op->target = inode->id;
    txn_change(t, inode);
    set_owner(op, inode);
    if ((valid & SETATTR_SIZE) != 0) {
        if (op->setattr.size > inode->size) {
            inode->flags |= INODE_SPARSE;
        } else if (op->setattr.size == 0) {
            inode->flags &= ~(uint32_t)INODE_SPARSE;
        }
        inode->size = op->setattr.size;
        txn_tail_is_clean(t, inode); /* The client has truncated the objects. */
        inode->reach = max_u64(inode->reach, inode->size);
    }
    if ((valid & SETATTR_DATA) != 0) {
        inode->flags |= INODE_SPARSE; /* A punched range, most likely. */
    }
    if ((valid & (SETATTR_SIZE | SETATTR_DATA)) != 0) {
        inode->data_version++;
        strip_capabilities(t, inode);
    }
    if ((valid & SETATTR_STRIP_IDS) != 0) {
        inode->mode = mode_without_set_ids(inode->mode);
    }
    set_times(op, inode);
    return set_mode(t, inode);
}

/* What the client reports now was done after a truncation that it had not sent yet. */
static void truncate_size(struct inode *inode, uint64_t size)
{
    if (inode->size > size) {
        inode->size = size;
    }
    if (size == 0) {
        inode->flags &= ~(uint32_t)INODE_SPARSE;
    }
}

void op_wrote(struct ns_txn *t, struct inode *inode, uint64_t size, bool strips_ids)
{
    txn_change(t, inode);
    inode->size = max_u64(inode->size, size);
    inode->reach = max_u64(inode->reach, size);
    inode->data_version++;
    strip_capabilities(t, inode);
    if (strips_ids) {
        inode->mode = mode_without_set_ids(inode->mode);
    }
}

/* What was written of it is told by SET_STORED. */
static int report_of_set(struct ns_txn *t, struct inode *inode)
{
    const struct meta_op *op = t->op;
    int rv = txn_set_grows(t, inode);

    if (op->size_report.truncates && (rv == 0 || op->size_report.truncate_size == 0)) {
        rv = txn_set_truncate(t, inode, op->size_report.truncate_size);
    }
    return rv == 0 && op->size_report.unsynced.count > 0 ? MORSEL_INVAL : rv;
}

int apply_size_report(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    int64_t mtime_ns = op->size_report.mtime_ns != 0 ? op->size_report.mtime_ns : op->time_ns;
    struct inode *inode;
    int64_t ctime_ns;
    int rv;

    if ((rv = txn_inode(t, op->size_report.inode, &inode)) != 0) {
        return rv;
    }
    if (!mode_is_regular(inode->mode)) {
        return MORSEL_INVAL;
    }
    if (op->size_report.size > INT64_MAX || op->size_report.reach > INT64_MAX ||
        op->size_report.truncate_size > INT64_MAX) {
        return MORSEL_FBIG;
    }
    if (inode_is_scavenged(inode) && (rv = report_of_set(t, inode)) != 0) {
        return rv;
    }
    ctime_ns = inode->ctime_ns > mtime_ns ? inode->ctime_ns : mtime_ns;
    t->op->target = inode->id;
    op_wrote(t, inode, 0, op->size_report.strips_ids);
    if (op->size_report.truncates) {
        truncate_size(inode, op->size_report.truncate_size);
    }
    if (op->size_report.tail_clean) {
        txn_tail_is_clean(t, inode);
    }
    inode->size = max_u64(inode->size, op->size_report.size);
    inode->reach = max_u64(inode->reach, max_u64(op->size_report.size, op->size_report.reach));
    inode->mtime_ns = mtime_ns;
    inode->ctime_ns = ctime_ns; /* The time of the write, not of its report. */
    if (op->size_report.sparse) {
        inode->flags |= INODE_SPARSE;
    }
    return txn_unsynced_add(t, inode, op->size_report.unsynced);
}

int apply_set_layout(struct ns_txn *t)
{
    const struct file_layout *layout = &t->op->set_layout.layout;
    struct inode *inode;
    int rv;

    if ((rv = txn_inode(t, t->op->set_layout.inode, &inode)) != 0) {
        return rv;
    }
    /* A record of unsynced bytes, though they have been cut off, goes by column. */
    if (!mode_is_regular(inode->mode) || inode_is_scavenged(inode) || inode->size != 0 ||
        inode->reach != 0 || (inode->flags & INODE_UNSYNCED) != 0 ||
        layout->class != inode->layout.class || layout->replicas != inode->layout.replicas ||
        memcmp(&layout->stripe, &inode->layout.stripe, sizeof(layout->stripe)) != 0) {
        return MORSEL_INVAL;
    }
    t->op->target = inode->id;
    txn_change(t, inode);
    inode->layout = *layout;
    return 0;
}

int apply_policy(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct inode *inode;
    int rv;

    if ((rv = txn_inode(t, op->policy.inode, &inode)) != 0) {
        return rv;
    }
    if (!mode_is_directory(inode->mode)) {
        return MORSEL_NOTDIR;
    }
    if (!file_policy_valid(&op->policy.policy)) {
        return MORSEL_INVAL;
    }
    if (op->policy.policy.class == CLASS_SCAVENGED) {
        txn_needs_version(t, STORE_VERSION_SETS); /* Others would make durable files there. */
    }
    if (op->policy.policy.scratch != POLICY_UNSAID) {
        txn_needs_version(t, STORE_VERSION_EVICTION);
    }
    t->op->target = inode->id;
    t->counters.policies -= !file_policy_empty(&inode->policy);
    inode->policy = op->policy.policy;
    t->counters.policies += !file_policy_empty(&inode->policy);
    txn_change(t, inode);
    return 0;
}
