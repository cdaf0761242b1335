/* Names: LOOKUP, MKNOD and its kin, UNLINK, RENAME, LINK, READLINK, STATFS.
 */
#include "client/coherence/opened_uv.h"
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"

#include <linux/fs.h>
#include <string.h>

static int check_name(const char *name)
{
    return strlen(name) > NAME_BYTES_MAX ? MORSEL_NAMETOOLONG : MORSEL_OK;
}

/* A request about a name in a directory. */
struct name_op
{
    struct mount_op base;
    inode_id parent;
    bool directory;    /* One is made, or removed. */
    uint64_t asked_ms; /* client_present_ms(), when the kernel asked. */
    char name[NAME_BYTES_MAX + 1];
};

/* NULL: the error has been replied. */
static struct name_op *name_op_new(fuse_req_t req, enum mount_kind kind, inode_id parent,
                                   const char *name)
{
    struct name_op *op = mount_op_new(req, kind, sizeof(*op));

    if (op != NULL && check_name(name) != 0) {
        mount_op_fail(&op->base, MORSEL_NAMETOOLONG);
        return NULL;
    }
    if (op != NULL) {
        op->asked_ms = client_present_ms(op->base.mount->client);
        op->parent = parent;
        memcpy(op->name, name, strlen(name) + 1);
    }
    return op;
}

static struct meta_cache *cache_of(const struct mount_op *op)
{
    return op->mount->client->cache;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A change that nobody has answered may have happened all the same. */
static void note_unsure(struct name_op *op, int status)
{
    if (status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE || status == MORSEL_CANCELED) {
        meta_cache_forget_name(cache_of(&op->base), op->parent, op->name);
    }
}

static void reply_entry(struct name_op *op, const Morsel__Attr *attr)
{
    struct fuse_entry_param entry;

    mount_entry(op->base.mount, is_dots(op->name) ? INODE_NONE : op->parent, op->name, attr,
                &entry);
    if (op->base.kind != MOUNT_LOOKUP) {
        entry.attr_timeout = MOUNT_CHANGED_SECONDS;
    } else {
        mount_note_lookup(op->base.mount, &entry);
    }
    (void)fuse_reply_entry(op->base.req, &entry);
    mount_op_end(&op->base);
}

static void on_node_entry(struct meta_call *call, int status, void *message)
{
    struct name_op *op = CONTAINER_OF((struct mount_op *)call->data, struct name_op, base);
    Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status != 0) {
        note_unsure(op, status);
        mount_op_fail(&op->base, status);
        return;
    }
    mount_learn_name(op->base.mount, op->parent, op->name, node->attr->inode, node->known);
    if (op->directory && !node->known) {
        meta_cache_born(cache_of(&op->base), node->attr->inode);
    }
    reply_entry(op, node->attr);
}

/* ---- LOOKUP ---- */

static uint32_t thread_of(const struct name_op *op)
{
    return (uint32_t)fuse_req_ctx(op->base.req)->pid;
}

static struct kernel_names *names_of(const struct name_op *op)
{
    return op->base.mount->names;
}

/* An inode of the name's own, for this one question. What is kept of it would be believed. */
static void reply_stranger(struct name_op *op, const Morsel__Attr *attr)
{
    struct fuse_entry_param entry = { .ino = kernel_names_stranger(names_of(op)) };

    mount_stat(attr, &entry.attr);
    (void)fuse_reply_entry(op->base.req, &entry);
    mount_op_end(&op->base);
}

/* The kernel may just be renaming what another mount has renamed (kernel_names.h). */
static void reply_found(struct name_op *op, const Morsel__Attr *attr)
{
    enum kernel_names_answer answer = KERNEL_NAMES_PLAIN;

    if (!is_dots(op->name) && (attr->nlink == 1 || S_ISDIR(attr->mode))) {
        answer = kernel_names_found(names_of(op), thread_of(op), op->parent, op->name, attr->inode,
                                    S_ISDIR(attr->mode) || S_ISSOCK(attr->mode), op->asked_ms);
    } else {
        kernel_names_other(names_of(op), thread_of(op));
    }
    switch (answer) {
    case KERNEL_NAMES_PLAIN:
        reply_entry(op, attr);
        break;
    case KERNEL_NAMES_AGAIN:
        mount_op_fail(&op->base, MORSEL_STALE);
        break;
    case KERNEL_NAMES_STRANGER:
        reply_stranger(op, attr);
        break;
    }
}

static void reply_not_found(struct name_op *op, int status)
{
    if (status == MORSEL_NOENT) {
        kernel_names_absent(names_of(op), thread_of(op), op->parent, op->name);
    } else {
        kernel_names_other(names_of(op), thread_of(op));
    }
    mount_op_fail(&op->base, status);
}

static void on_looked_up(struct meta_call *call, int status, void *message)
{
    struct name_op *op = CONTAINER_OF((struct mount_op *)call->data, struct name_op, base);
    Morsel__Node *node = message;

    mount_prefetch(op->base.mount, op->parent);
    if (status == MORSEL_NOENT) {
        meta_cache_learn_name(cache_of(&op->base), op->parent, op->name, INODE_NONE);
    } else if (status == 0 && node->attr != NULL && !is_dots(op->name)) {
        meta_cache_learn_name(cache_of(&op->base), op->parent, op->name, node->attr->inode);
    }
    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status != 0) {
        reply_not_found(op, status);
        return;
    }
    reply_found(op, node->attr);
}

/* From the table, under its leases. False: it does not know. */
static bool look_up_here(struct name_op *op)
{
    struct client *client = op->base.mount->client;
    const Morsel__Attr *attr;
    inode_id inode;

    if (!client_lease_valid(client) || is_dots(op->name) ||
        !mount_may(op->base.mount, op->base.req, op->parent, MAY_EXECUTE)) {
        return false;
    }
    switch (meta_cache_find(client->cache, op->parent, op->name, &inode)) {
    case META_CACHE_FOUND:
        attr = meta_cache_attr(client->cache, inode);
        if (attr == NULL) {
            return false;
        }
        reply_found(op, attr);
        return true;
    case META_CACHE_ABSENT:
        reply_not_found(op, MORSEL_NOENT);
        return true;
    case META_CACHE_MISS:
        break;
    }
    return false;
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    Morsel__LookupRequest request = MORSEL__LOOKUP_REQUEST__INIT;
    struct mount_who who;
    struct name_op *op = name_op_new(req, MOUNT_LOOKUP, parent, name);

    if (op == NULL || look_up_here(op)) {
        return;
    }
    request.parent = parent;
    request.name = mount_bytes(op->name);
    request.who = mount_who(op->base.mount, &who, req, parent, MAY_EXECUTE);
    (void)mount_op_ask(&op->base, MSG_LOOKUP, &request.base, &morsel__node__descriptor,
                       on_looked_up);
}

/* ---- New names ---- */

static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
                 const char *target)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    struct mount_who who;
    struct name_op *op = name_op_new(req, MOUNT_MAKE, parent, name);

    if (op == NULL) {
        return;
    }
    if (target != NULL && strlen(target) > SYMLINK_BYTES_MAX) {
        mount_op_fail(&op->base, MORSEL_NAMETOOLONG);
        return;
    }
    op->directory = S_ISDIR(mode);
    request.parent = parent;
    request.name = mount_bytes(op->name);
    request.mode = mode;
    request.umask = fuse_req_ctx(req)->umask;
    request.rdev = rdev;
    request.who = mount_who_makes(op->base.mount, &who, req, parent, mode);
    if (target != NULL) {
        request.target = mount_bytes(target);
    }
    (void)mount_op_change(&op->base, MSG_CREATE, &request.base, &request.op,
                          &morsel__node__descriptor, on_node_entry);
}

static void on_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    make(req, parent, name, mode, rdev, NULL);
}

static void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    make(req, parent, name, (mode & ~(mode_t)S_IFMT) | S_IFDIR, 0, NULL);
}

static void on_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    make(req, parent, name, S_IFLNK | 0777, 0, target);
}

static void on_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
    Morsel__LinkRequest request = MORSEL__LINK_REQUEST__INIT;
    struct mount_who who;
    struct name_op *op = name_op_new(req, MOUNT_LINK, new_parent, new_name);

    if (op == NULL) {
        return;
    }
    if (kernel_names_is_stranger(ino)) {
        mount_op_fail(&op->base, MORSEL_STALE); /* The manager would say that it is gone. */
        return;
    }
    request.inode = ino;
    request.new_parent = new_parent;
    request.new_name = mount_bytes(op->name);
    request.who = mount_who(op->base.mount, &who, req, new_parent, MAY_WRITE | MAY_EXECUTE);
    (void)mount_op_change(&op->base, MSG_LINK, &request.base, &request.op,
                          &morsel__node__descriptor, on_node_entry);
}

/* ---- Names that go ---- */

/* Somebody here may have the directory open and ask for its attributes now that it is gone. */
static void on_removed(struct meta_call *call, int status, void *message)
{
    struct name_op *op = CONTAINER_OF((struct mount_op *)call->data, struct name_op, base);
    const Morsel__Removed *removed = message;

    note_unsure(op, status);
    if (status == 0) {
        mount_learn_name(op->base.mount, op->parent, op->name, INODE_NONE, removed->known);
        kernel_names_gone(op->base.mount->names, op->parent, op->name);
        if (removed->attr != NULL) {
            mount_dir_removed(op->base.mount, removed->attr);
        }
    }
    mount_op_fail(&op->base, status);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, bool directory)
{
    Morsel__UnlinkRequest request = MORSEL__UNLINK_REQUEST__INIT;
    struct mount_who who;
    struct name_op *op = name_op_new(req, MOUNT_REMOVE, parent, name);

    if (op == NULL) {
        return;
    }
    request.parent = parent;
    request.name = mount_bytes(op->name);
    request.directory = directory;
    request.who = mount_who(op->base.mount, &who, req, parent, MAY_WRITE | MAY_EXECUTE);
    opened_report(op->base.mount->client); /* What is open here outlives its name. */
    (void)mount_op_change(&op->base, MSG_UNLINK, &request.base, &request.op,
                          &morsel__removed__descriptor, on_removed);
}

static void on_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, false);
}

static void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, true);
}

struct rename_op
{
    struct name_op old;
    inode_id new_parent;
    bool exchange;
    char new_name[NAME_BYTES_MAX + 1];
};

/* The kernel takes what it knows of a name along to another directory, as long as it was good in
 * the old one. */
static void note_moved(struct mount *m, inode_id directory)
{
    if (!m->drops_names) {
        return; /* It knows names for no time at all. */
    }
    if (client_lease(m->client, directory) != LEASE_NONE) {
        mount_note_names(m, directory);
    } else {
        mount_drop_names(m); /* Nobody would tell us when the name goes. */
    }
}

/* The kernel moves what it knows of the names. */
static void note_kernel_names(struct rename_op *op, const Morsel__Removed *removed)
{
    struct mount *m = op->old.base.mount;

    if (!op->exchange) {
        kernel_names_gone(m->names, op->old.parent, op->old.name);
    } else if (removed->other != NULL) {
        mount_name_moved(m, op->old.parent, op->old.name, removed->other->inode);
    }
    if (removed->moved != NULL) {
        mount_name_moved(m, op->new_parent, op->new_name, removed->moved->inode);
    }
}

static void on_renamed(struct meta_call *call, int status, void *message)
{
    struct rename_op *op = CONTAINER_OF((struct mount_op *)call->data, struct rename_op, old.base);
    struct meta_cache *cache = cache_of(&op->old.base);
    const Morsel__Removed *removed = message;
    bool known = status == 0 && removed->known; /* What has moved it does not say. */
    const Morsel__Attr *moved = status == 0 && !known ? removed->moved : NULL;

    if (status == 0 && removed->attr != NULL) {
        mount_dir_removed(op->old.base.mount, removed->attr);
    }
    if (status == 0 && moved != NULL && !op->exchange) {
        meta_cache_learn_name(cache, op->old.parent, op->old.name, INODE_NONE);
        meta_cache_learn_name(cache, op->new_parent, op->new_name, moved->inode);
    } else if (status == 0 && moved != NULL && removed->other != NULL) {
        meta_cache_learn_name(cache, op->old.parent, op->old.name, removed->other->inode);
        meta_cache_learn_name(cache, op->new_parent, op->new_name, moved->inode);
    } else if (status == 0 || status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE ||
               status == MORSEL_CANCELED) {
        meta_cache_forget_name(cache, op->old.parent, op->old.name);
        meta_cache_forget_name(cache, op->new_parent, op->new_name);
    }
    if (known) {
        mount_learn_name(op->old.base.mount, op->old.parent, op->old.name, INODE_NONE, true);
        mount_learn_name(op->old.base.mount, op->new_parent, op->new_name, INODE_NONE, true);
    } else if (status == 0) {
        note_kernel_names(op, removed);
    }
    if (status == 0 && op->new_parent != op->old.parent) {
        note_moved(op->old.base.mount, op->new_parent);
        if (op->exchange) {
            note_moved(op->old.base.mount, op->old.parent);
        }
    }
    mount_op_fail(&op->old.base, status);
}

static void on_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    Morsel__RenameRequest request = MORSEL__RENAME_REQUEST__INIT;
    struct mount_who who;
    struct rename_op *op = mount_op_new(req, MOUNT_RENAME, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (check_name(name) != 0 || check_name(new_name) != 0) {
        mount_op_fail(&op->old.base, MORSEL_NAMETOOLONG);
        return;
    }
    op->old.parent = parent;
    op->new_parent = new_parent;
    op->exchange = (flags & RENAME_EXCHANGE) != 0;
    memcpy(op->old.name, name, strlen(name) + 1);
    memcpy(op->new_name, new_name, strlen(new_name) + 1);
    request.parent = parent;
    request.name = mount_bytes(op->old.name);
    request.new_parent = new_parent;
    request.new_name = mount_bytes(op->new_name);
    request.flags = flags;
    request.who = mount_who(op->old.base.mount, &who, req,
                            parent == new_parent ? parent : INODE_NONE, MAY_WRITE | MAY_EXECUTE);
    opened_report(op->old.base.mount->client);
    (void)mount_op_change(&op->old.base, MSG_RENAME, &request.base, &request.op,
                          &morsel__removed__descriptor, on_renamed);
}

/* ---- READLINK, STATFS ---- */

static void on_target(struct meta_call *call, int status, void *message)
{
    struct mount_op *op = call->data;
    Morsel__Node *node = message;

    if (status != 0) {
        mount_op_fail(op, status);
        return;
    }
    (void)fuse_reply_readlink(op->req, node->target);
    mount_op_end(op);
}

static void on_readlink(fuse_req_t req, fuse_ino_t ino)
{
    Morsel__ReadlinkRequest request = MORSEL__READLINK_REQUEST__INIT;
    struct mount_op *op = mount_op_new(req, MOUNT_READLINK, sizeof(*op));

    if (op == NULL) {
        return;
    }
    request.inode = ino;
    (void)mount_op_ask(op, MSG_READLINK, &request.base, &morsel__node__descriptor, on_target);
}

static void on_space(struct meta_call *call, int status, void *message)
{
    struct mount_op *op = call->data;
    Morsel__StatfsReply *space = message;
    uint64_t dirty = client_dirty_bytes(op->mount->client), avail;
    struct statvfs st = { .f_bsize = 128 << 10,
                          .f_frsize = BLOCK_BYTES,
                          .f_namemax = NAME_BYTES_MAX };

    if (status != 0) {
        mount_op_fail(op, status);
        return;
    }
    avail = space->bytes_free > dirty ? space->bytes_free - dirty : 0; /* Still on their way. */
    st.f_blocks = space->bytes_total / BLOCK_BYTES;
    st.f_bfree = st.f_bavail = avail / BLOCK_BYTES;
    st.f_files = space->inodes + avail / BLOCK_BYTES; /* Bounded by space alone. */
    st.f_ffree = st.f_favail = avail / BLOCK_BYTES;
    (void)fuse_reply_statfs(op->req, &st);
    mount_op_end(op);
}

static void on_statfs(fuse_req_t req, fuse_ino_t ino)
{
    Morsel__StatfsRequest request = MORSEL__STATFS_REQUEST__INIT;
    struct mount_op *op = mount_op_new(req, MOUNT_STATFS, sizeof(*op));

    (void)ino;
    if (op != NULL) {
        (void)mount_op_ask(op, MSG_STATFS, &request.base, &morsel__statfs_reply__descriptor,
                           on_space);
    }
}

void mount_name_operations(struct fuse_lowlevel_ops *ops)
{
    ops->lookup = on_lookup;
    ops->mknod = on_mknod;
    ops->mkdir = on_mkdir;
    ops->symlink = on_symlink;
    ops->link = on_link;
    ops->unlink = on_unlink;
    ops->rmdir = on_rmdir;
    ops->rename = on_rename;
    ops->readlink = on_readlink;
    ops->statfs = on_statfs;
}
