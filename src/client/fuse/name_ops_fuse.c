/* Names: LOOKUP, MKNOD and its kin, UNLINK, RENAME, LINK, READLINK, STATFS.
 */
#include "client/fuse/mount_fuse.h"

#include "common/status.h"

#include <string.h>

static int check_name(const char *name)
{
    return strlen(name) > NAME_BYTES_MAX ? MORSEL_NAMETOOLONG : MORSEL_OK;
}

/* ---- LOOKUP ---- */

static void on_node_entry(struct meta_call *call, int status, void *message)
{
    struct mount_op *op = call->data;
    Morsel__Node *node = message;
    struct fuse_entry_param entry;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status != 0) {
        mount_op_fail(op, status);
        return;
    }
    mount_entry(op->mount, node->attr, meta_cache_left_ms(call->sent_ns, node->cache_ms), &entry);
    (void)fuse_reply_entry(op->req, &entry);
    mount_op_end(op);
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    Morsel__LookupRequest request = MORSEL__LOOKUP_REQUEST__INIT;
    struct mount_op *op = mount_op_new(req, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (check_name(name) != 0) {
        mount_op_fail(op, MORSEL_NAMETOOLONG);
        return;
    }
    request.parent = parent;
    request.name = mount_bytes(name);
    (void)mount_op_ask(op, MSG_LOOKUP, &request.base, &morsel__node__descriptor, on_node_entry);
}

/* ---- New names ---- */

static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
                 const char *target)
{
    Morsel__MakeRequest request = MORSEL__MAKE_REQUEST__INIT;
    Morsel__Credentials who;
    struct mount_op *op = mount_op_new(req, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (check_name(name) != 0 || (target != NULL && strlen(target) > SYMLINK_BYTES_MAX)) {
        mount_op_fail(op, MORSEL_NAMETOOLONG);
        return;
    }
    mount_credentials(req, &who);
    request.parent = parent;
    request.name = mount_bytes(name);
    request.mode = mode;
    request.umask = fuse_req_ctx(req)->umask;
    request.rdev = rdev;
    request.who = &who;
    if (target != NULL) {
        request.target = mount_bytes(target);
    }
    (void)mount_op_change(op, MSG_MAKE, &request.base, &request.op, &morsel__node__descriptor,
                          on_node_entry);
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
    Morsel__Credentials who;
    struct mount_op *op = mount_op_new(req, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (check_name(new_name) != 0) {
        mount_op_fail(op, MORSEL_NAMETOOLONG);
        return;
    }
    mount_credentials(req, &who);
    request.inode = ino;
    request.new_parent = new_parent;
    request.new_name = mount_bytes(new_name);
    request.who = &who;
    (void)mount_op_change(op, MSG_LINK, &request.base, &request.op, &morsel__node__descriptor,
                          on_node_entry);
}

/* ---- Names that go ---- */

static void on_done(struct meta_call *call, int status, void *message)
{
    (void)message;
    mount_op_fail(call->data, status);
}

/* Somebody here may have the directory open and ask for its attributes now that it is gone. */
static void on_removed(struct meta_call *call, int status, void *message)
{
    struct mount_op *op = call->data;
    const Morsel__Removed *removed = message;

    if (status == 0 && removed->attr != NULL) {
        mount_dir_removed(op->mount, removed->attr);
    }
    mount_op_fail(op, status);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, bool directory)
{
    Morsel__UnlinkRequest request = MORSEL__UNLINK_REQUEST__INIT;
    Morsel__Credentials who;
    struct mount_op *op = mount_op_new(req, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (check_name(name) != 0) {
        mount_op_fail(op, MORSEL_NAMETOOLONG);
        return;
    }
    mount_credentials(req, &who);
    request.parent = parent;
    request.name = mount_bytes(name);
    request.directory = directory;
    request.who = &who;
    (void)mount_op_change(op, MSG_UNLINK, &request.base, &request.op, &morsel__removed__descriptor,
                          on_removed);
}

static void on_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, false);
}

static void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, true);
}

static void on_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    Morsel__RenameRequest request = MORSEL__RENAME_REQUEST__INIT;
    Morsel__Credentials who;
    struct mount_op *op = mount_op_new(req, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (check_name(new_name) != 0) {
        mount_op_fail(op, MORSEL_NAMETOOLONG);
        return;
    }
    mount_credentials(req, &who);
    request.parent = parent;
    request.name = mount_bytes(name);
    request.new_parent = new_parent;
    request.new_name = mount_bytes(new_name);
    request.flags = flags;
    request.who = &who;
    (void)mount_op_change(op, MSG_RENAME, &request.base, &request.op, NULL, on_done);
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
    struct mount_op *op = mount_op_new(req, sizeof(*op));

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
    struct statvfs st = { .f_bsize = 128 << 10,
                          .f_frsize = BLOCK_BYTES,
                          .f_namemax = NAME_BYTES_MAX };

    if (status != 0) {
        mount_op_fail(op, status);
        return;
    }
    st.f_blocks = space->bytes_total / BLOCK_BYTES;
    st.f_bfree = st.f_bavail = space->bytes_free / BLOCK_BYTES;
    st.f_files = space->inodes + space->bytes_free / BLOCK_BYTES; /* Bounded by space alone. */
    st.f_ffree = st.f_favail = space->bytes_free / BLOCK_BYTES;
    (void)fuse_reply_statfs(op->req, &st);
    mount_op_end(op);
}

static void on_statfs(fuse_req_t req, fuse_ino_t ino)
{
    Morsel__StatfsRequest request = MORSEL__STATFS_REQUEST__INIT;
    struct mount_op *op = mount_op_new(req, sizeof(*op));

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
