/* Reading: inodes, names, directories, policies. */
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/namespace_txn.h"

#include <string.h>

/* ---- Inodes and names ---- */

int ns_inode(struct ns *ns, inode_id id, struct inode *inode, struct errmsg *err)
{
    const struct inode *cached = id == INODE_NONE ? NULL : inode_cache_get(ns->cache, id);
    struct record_key key = key_inode(id);
    int rv;

    if (cached != NULL) {
        *inode = *cached;
        return 0;
    }
    rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);
    if (rv == MORSEL_NOENT) {
        return MORSEL_STALE;
    }
    if (rv != 0) {
        return rv;
    }
    if ((rv = inode_decode(id, buf_slice(&ns->value), inode)) != 0) {
        errmsg_set(err, "the record of inode %llu is damaged", (unsigned long long)id);
        return rv;
    }
    inode_cache_put(ns->cache, inode);
    return 0;
}

static int lookup_entry(struct ns *ns, inode_id parent, struct slice name, struct inode *inode,
                        struct errmsg *err)
{
    struct record_key key = key_dentry(parent, name);
    struct dentry dentry;
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv != 0) {
        return rv;
    }
    if ((rv = dentry_decode(buf_slice(&ns->value), &dentry)) != 0) {
        errmsg_set(err, "an entry of directory inode %llu is damaged", (unsigned long long)parent);
        return rv;
    }
    if ((rv = ns_inode(ns, dentry.inode, inode, err)) == MORSEL_STALE) {
        errmsg_set(err, "an entry of directory inode %llu points to inode %llu, which is not there",
                   (unsigned long long)parent, (unsigned long long)dentry.inode);
        return MORSEL_CORRUPT;
    }
    return rv;
}

int ns_lookup(struct ns *ns, inode_id parent, struct slice name, struct inode *inode,
              struct errmsg *err)
{
    int rv;

    if (name.count > NAME_BYTES_MAX) {
        return MORSEL_NAMETOOLONG;
    }
    if ((rv = ns_inode(ns, parent, inode, err)) != 0) {
        return rv;
    }
    if (!mode_is_directory(inode->mode)) {
        return MORSEL_NOTDIR;
    }
    if (name.count == 0 || (name.count == 1 && name.data[0] == '.')) {
        return name.count == 0 ? MORSEL_NOENT : 0;
    }
    if (name.count == 2 && name.data[0] == '.' && name.data[1] == '.') {
        return ns_inode(ns, inode->parent, inode, err);
    }
    return lookup_entry(ns, parent, name, inode, err);
}

struct readdir_walk
{
    inode_id directory;
    struct slice after;
    ns_entry_visit visit;
    void *data;
    bool end;
    int status;
};

static bool visit_entry(void *data, struct slice key, struct slice value)
{
    struct readdir_walk *walk = data;
    struct slice name;
    struct dentry dentry;
    inode_id parent;

    if (!key_name_parse(key, RECORD_DENTRY, &parent, &name) || parent != walk->directory) {
        return false;
    }
    if (walk->after.count > 0 && slice_compare(name, walk->after) == 0) {
        return true;
    }
    if ((walk->status = dentry_decode(value, &dentry)) != 0) {
        return false;
    }
    walk->end = walk->visit(walk->data, name, &dentry);
    return walk->end;
}

int ns_readdir(struct ns *ns, inode_id directory, struct slice after, ns_entry_visit visit,
               void *data, bool *end, struct errmsg *err)
{
    struct readdir_walk walk = { directory, after, visit, data, true, 0 };
    struct record_key key;
    struct inode inode;
    int rv;

    *end = false;
    if (after.count > NAME_BYTES_MAX) {
        return MORSEL_NAMETOOLONG;
    }
    if ((rv = ns_inode(ns, directory, &inode, err)) != 0) {
        return rv;
    }
    if (!mode_is_directory(inode.mode)) {
        return MORSEL_NOTDIR;
    }
    key = key_dentry(directory, after);
    if ((rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_entry, &walk, err)) != 0) {
        return rv;
    }
    if (walk.status != 0) {
        errmsg_set(err, "an entry of directory inode %llu is damaged",
                   (unsigned long long)directory);
    }
    *end = walk.end; /* False exactly when the visitor had enough. */
    return walk.status;
}

uint64_t ns_attr_size(const struct inode *inode)
{
    return mode_is_directory(inode->mode) ? NS_DIRECTORY_BYTES : inode->size;
}

/* ---- Targets and policy ---- */

int ns_plain_get(struct ns *ns, struct record_key key, struct slice *value, struct errmsg *err)
{
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv == 0 && (rv = plain_decode(buf_slice(&ns->value), value)) != 0) {
        errmsg_set(err, "a record of kind %c is damaged", key.bytes[0]);
    }
    return rv;
}

int ns_readlink(struct ns *ns, inode_id id, struct buf *out, struct errmsg *err)
{
    struct inode inode;
    struct slice target;
    int rv = ns_inode(ns, id, &inode, err);

    if (rv != 0) {
        return rv;
    }
    if (!mode_is_symlink(inode.mode)) {
        return MORSEL_INVAL;
    }
    if ((rv = ns_plain_get(ns, key_target(id), &target, err)) != 0) {
        return rv == MORSEL_NOENT ? MORSEL_CORRUPT : rv;
    }
    buf_put(out, target.data, target.count);
    return out->failed ? MORSEL_NOMEM : 0;
}

/* Fill fields that are 0. */
static void policy_inherit(struct file_policy *policy, const struct file_policy *from)
{
    policy->class = policy->class ? policy->class : from->class;
    policy->replicas = policy->replicas ? policy->replicas : from->replicas;
    policy->morsel_bytes = policy->morsel_bytes ? policy->morsel_bytes : from->morsel_bytes;
    policy->stripe_morsels = policy->stripe_morsels ? policy->stripe_morsels : from->stripe_morsels;
    policy->width = policy->width ? policy->width : from->width;
    policy->scratch = policy->scratch ? policy->scratch : from->scratch;
}

static bool policy_complete(const struct file_policy *p)
{
    return p->class != 0 && p->replicas != 0 && p->morsel_bytes != 0 && p->stripe_morsels != 0 &&
           p->width != 0 && p->scratch != POLICY_UNSAID;
}

int ns_policy_effective(struct ns *ns, inode_id directory, struct file_policy *policy,
                        struct errmsg *err)
{
    static const struct file_policy defaults = { CLASS_DURABLE,        0,
                                                 MORSEL_BYTES_DEFAULT, 1,
                                                 STRIPE_WIDTH_DEFAULT, POLICY_UNSAID };
    uint64_t steps = 0;

    memset(policy, 0, sizeof(*policy));
    while (ns->counters.policies > 0 && !policy_complete(policy)) {
        struct inode inode;
        int rv = ns_inode(ns, directory, &inode, err);

        if (rv != 0) {
            return rv;
        }
        if (!mode_is_directory(inode.mode)) {
            return MORSEL_NOTDIR;
        }
        policy_inherit(policy, &inode.policy);
        if (directory == INODE_ROOT) {
            break;
        }
        directory = inode.parent;
        if (++steps > ns->counters.inodes) {
            errmsg_set(err, "parents of directory inode %llu run in a circle",
                       (unsigned long long)directory);
            return MORSEL_CORRUPT;
        }
    }
    policy_inherit(policy, &defaults);
    return 0;
}
