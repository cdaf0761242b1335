/* OPEN and CREATE. */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/data_versions.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"

#include <fcntl.h>
#include <string.h>

struct open_op
{
    struct mount_op base;
    struct fuse_file_info fi;
    bool create;
    struct client_opening opening;
    struct servers_wait wait;
    struct handle *handle;
    struct fuse_entry_param entry;
    bool told;      /* The manager counts it as open. */
    bool abandoned; /* Who asked was interrupted, and has been answered. */
    inode_id parent;
    char name[NAME_BYTES_MAX + 1]; /* CREATE */
};

static void open_reply(struct servers_wait *wait)
{
    struct open_op *op = CONTAINER_OF(wait, struct open_op, wait);
    int rv;

    op->fi.fh = (uint64_t)(uintptr_t)op->handle;
    rv = op->create ? fuse_reply_create(op->base.req, &op->entry, &op->fi)
                    : fuse_reply_open(op->base.req, &op->fi);
    if (rv == -ENOENT) {
        file_close(op->handle); /* Interrupted: the kernel will not release it. */
    }
    mount_op_end(&op->base);
}

static bool is_writable(const struct fuse_file_info *fi)
{
    return (fi->flags & O_ACCMODE) != O_RDONLY;
}

/* What the manager is to look at. */
static uint32_t rights_of(const struct fuse_file_info *fi)
{
    enum { FMODE_EXEC = 0x20 /* Of the kernel: execve(2). */ };

    switch (fi->flags & O_ACCMODE) {
    case O_RDONLY:
        return (fi->flags & FMODE_EXEC) != 0 ? MAY_EXECUTE : MAY_READ;
    case O_WRONLY:
        return MAY_WRITE;
    default:
        return MAY_READ | MAY_WRITE;
    }
}

static bool bypasses_pages(const struct open_op *op)
{
    int flags = op->fi.flags;
    const struct kernel_handle handle = { .maps_direct = op->base.mount->maps_direct,
                                          .shared = op->base.mount->maps_direct &&
                                                    file_is_shared(op->handle->file),
                                          .append = (flags & O_APPEND) != 0,
                                          .reads = (flags & O_ACCMODE) != O_WRONLY,
                                          .writes = is_writable(&op->fi) };

    return kernel_handle_is_direct(&handle);
}

/* The answer to CREATE makes the kernel know the inode; that to OPEN tells it nothing of it. The
 * kernel believes these attributes even if it was told to drop them while it took them in: it knows
 * the inode a moment before (fuse_iget()). */
static void born_entry(struct open_op *op, const Morsel__Attr *attr)
{
    mount_entry(op->base.mount, op->parent, op->name, attr, &op->entry);
    op->entry.attr_timeout = MOUNT_CHANGED_SECONDS;
}

static void open_when_known(struct open_op *op)
{
    op->wait.done = open_reply;
    if (file_know_servers(op->handle->file, &op->wait)) {
        open_reply(&op->wait);
    }
}

/* Where that could not be found, what is asked of the servers says so. */
static void open_placed(struct mount_op *base, int status)
{
    (void)status;
    open_when_known(CONTAINER_OF(base, struct open_op, base));
}

/* What is known of the file is there, and the manager or our lease lets us open it. Its bytes may have been moved while
 * it was open here to read, and somebody reads just now where they lay: what is not read cannot wait for that later. */
static int open_with(struct open_op *op, const Morsel__Attr *attr, const Morsel__Layout *layout)
{
    struct client *client = op->base.mount->client;
    int rv;

    op->fi.keep_cache = data_version_same(client->data.versions, attr->inode, attr->data_version);
    rv = file_open(client, attr, layout, is_writable(&op->fi), op->told, &op->handle);
    if (rv != 0) {
        return rv;
    }
    op->handle->direct = bypasses_pages(op);
    op->fi.direct_io = op->handle->direct ? 1 : 0;
    if (op->create) {
        born_entry(op, attr);
    }
    if (is_writable(&op->fi) && file_astray(op->handle->file) == MORSEL_STALE) {
        mount_refresh_size(&op->base, op->handle->file, open_placed);
    } else {
        open_when_known(op);
    }
    return MORSEL_OK;
}

/* The manager may have done it, or do it yet, and only its answer says what is to be closed: so it
 * is waited for without whoever asked. */
static void open_abandon(struct mount_op *base)
{
    struct open_op *op = CONTAINER_OF(base, struct open_op, base);

    base->cancel = NULL;
    if (!call_queue_cancel(&base->call)) { /* Not asked yet: it ends at once. */
        op->abandoned = true;
        (void)fuse_reply_err(base->req, EINTR);
    }
}

static void open_failed(struct open_op *op, int status)
{
    if (op->abandoned) {
        op->base.mount->statistics[op->base.kind].failed++;
        mount_op_end(&op->base);
        return;
    }
    /* Somebody else made the name since the kernel looked: ESTALE makes it look again and open
     * that. */
    bool again = op->create && status == MORSEL_EXIST && (op->fi.flags & O_EXCL) == 0;

    mount_op_fail(&op->base, again ? MORSEL_STALE : status);
}

static void on_opened(struct meta_call *call, int status, void *message)
{
    struct open_op *op = CONTAINER_OF((struct mount_op *)call->data, struct open_op, base);
    struct client *client = op->base.mount->client;
    Morsel__Node *node = message;
    inode_id inode = op->opening.inode;

    op->base.cancel = NULL;
    if (!op->create) {
        client_opening_end(&op->opening);
    }
    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0) {
        inode = node->attr->inode;
        if (op->create) {
            mount_learn_name(op->base.mount, op->parent, op->name, inode, node->known);
        }
        op->told = true;
        status = op->abandoned ? MORSEL_CANCELED : open_with(op, node->attr, node->layout);
        if (status == 0) {
            return;
        }
    } else if (op->create) {
        meta_cache_forget_name(client->cache, op->parent, op->name);
    }
    if (inode != INODE_NONE) {
        client_close_inode(client,
                           inode); /* The manager may have counted it as open all the same. */
    }
    open_failed(op, status);
}

/* Under a lease that covers what the handle is for, nobody needs to be asked; where the manager
 * maps our users, it wants to hear who opens what. */
static bool open_here(struct open_op *op, inode_id inode)
{
    struct client *client = op->base.mount->client;
    const Morsel__Attr *attr = meta_cache_attr(client->cache, inode);
    const Morsel__Layout *layout = meta_cache_layout(client->cache, inode);
    const struct file *file = file_find(client, inode);
    int rv;

    if (client_squash(client)->any ||
        client_lease(client, inode) < (is_writable(&op->fi) ? LEASE_W : LEASE_R) || attr == NULL ||
        layout == NULL || (file != NULL && file_has_writer(file) && file_is_shared(file))) {
        return false;
    }
    if ((rv = open_with(op, attr, layout)) != 0) {
        open_failed(op, rv);
    }
    return true;
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    struct mount_who who;
    uint32_t rights;
    struct open_op *op = mount_op_new(req, MOUNT_OPEN, sizeof(*op));

    if (op == NULL) {
        return;
    }
    op->fi = *fi;
    if (open_here(op, ino)) {
        return;
    }
    rights = rights_of(fi);
    request.inode = ino;
    request.write = is_writable(fi);
    request.read = (rights & MAY_READ) != 0;
    request.execute = (rights & MAY_EXECUTE) != 0;
    request.who = mount_who(op->base.mount, &who, req, ino, rights);
    op->base.cancel = open_abandon;
    client_opening_begin(op->base.mount->client, &op->opening, ino);
    if (meta_call_start(&op->base.call, op->base.mount->client, MSG_OPEN, &request.base,
                        &morsel__node__descriptor, on_opened) != 0) {
        client_opening_end(&op->opening);
        mount_op_fail(&op->base, MORSEL_NOMEM);
    }
}

static void on_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    struct mount_who who;
    struct open_op *op = mount_op_new(req, MOUNT_CREATE, sizeof(*op));

    if (op == NULL) {
        return;
    }
    if (strlen(name) > NAME_BYTES_MAX) {
        mount_op_fail(&op->base, MORSEL_NAMETOOLONG);
        return;
    }
    op->fi = *fi;
    op->create = true;
    op->base.cancel = open_abandon;
    op->parent = parent;
    memcpy(op->name, name, strlen(name) + 1);
    request.parent = parent;
    request.name = mount_bytes(name);
    request.mode = (mode & ~(mode_t)S_IFMT) | S_IFREG;
    request.umask = fuse_req_ctx(req)->umask;
    request.open = true;
    request.who = mount_who_makes(op->base.mount, &who, req, parent, mode);
    (void)mount_op_change(&op->base, MSG_CREATE, &request.base, &request.op,
                          &morsel__node__descriptor, on_opened);
}

void mount_open_operations(struct fuse_lowlevel_ops *ops)
{
    ops->create = on_create;
    ops->open = on_open;
}
