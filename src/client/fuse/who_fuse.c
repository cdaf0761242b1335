/* Who asks: credentials for the manager, and what may be answered without it. */
#include "client/fuse/mount_fuse.h"

/* Known under a lease. */
static const Morsel__Attr *known(struct mount *m, inode_id inode)
{
    return inode != INODE_NONE && client_lease_valid(m->client)
               ? meta_cache_attr(m->client->cache, inode)
               : NULL;
}

/* Is it plain without supplementary groups whether the user may have `wanted` of the inode? */
static bool plain(struct mount *m, const struct credentials *who, inode_id inode, uint32_t wanted)
{
    const Morsel__Attr *attr = known(m, inode);

    return who->uid == UID_ROOT ||
           (attr != NULL && (who->uid == attr->uid || !attr->xattrs) &&
            permission_by_mode(attr->mode, attr->uid, attr->gid, who, wanted) != VERDICT_GROUPS);
}

Morsel__Credentials *mount_who_of(struct mount *m, struct mount_who *w,
                                  const struct mount_user *user, inode_id inode, uint32_t wanted)
{
    struct credentials who = { .uid = user->uid, .gid = user->gid };

    morsel__credentials__init(&w->message);
    w->message.uid = user->uid;
    w->message.gid = user->gid;
    if (!plain(m, &who, inode, wanted)) {
        w->message.n_groups = groups_of_process(user->pid, w->groups);
        w->message.groups = w->groups;
        w->message.groups_known = true;
    }
    return &w->message;
}

static struct mount_user user_of(fuse_req_t req)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);

    return (struct mount_user){ ctx->uid, ctx->gid, ctx->pid };
}

Morsel__Credentials *mount_who(struct mount *m, struct mount_who *w, fuse_req_t req, inode_id inode,
                               uint32_t wanted)
{
    struct mount_user user = user_of(req);

    return mount_who_of(m, w, &user, inode, wanted);
}

Morsel__Credentials *mount_who_makes(struct mount *m, struct mount_who *w, fuse_req_t req,
                                     inode_id parent, uint32_t mode)
{
    /* Only members of the group may make programs that run as it. */
    return mount_who(m, w, req, (mode & S_ISGID) != 0 ? INODE_NONE : parent,
                     MAY_WRITE | MAY_EXECUTE);
}

bool mount_may(struct mount *m, fuse_req_t req, inode_id inode, uint32_t wanted)
{
    const struct client_squash *squash = client_squash(m->client);
    struct mount_user user = user_of(req);
    struct credentials who = { .uid = squash->uid, .gid = squash->gid, .groups_known = true };
    const Morsel__Attr *attr;

    if (!squash->any || (user.uid != UID_ROOT && !squash->all)) {
        return true;
    }
    attr = known(m, inode);
    return attr != NULL && !attr->xattrs &&
           permission_by_mode(attr->mode, attr->uid, attr->gid, &who, wanted) == VERDICT_GRANTED;
}
