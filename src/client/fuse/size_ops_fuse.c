/* GETATTR, SETATTR with its truncation, FALLOCATE, LSEEK: what concerns the manager and all servers
 * of a file.
 *
 * Truncation: the file's layout is needed, then what is buffered goes out, then the objects are
 * cut, and last the manager takes the new size, so that a crash in between never shows bytes that
 * were cut off:
 *
 *   (GETATTR for the layout, if not open) -> flush -> cut the objects -> SETATTR -> reply
 *
 * A file that grows is cut at its old end: what a client that died may have left there must not
 * come to light.
 */
#include "client/fuse/mount_fuse.h"

#include "common/status.h"

#include <linux/falloc.h>
#include <string.h>

struct size_op
{
    struct mount_op base;
    struct handle *handle; /* Ours, for the time of the operation. */
    struct file_flush flush;
    struct range_op range;
    struct servers_wait wait;
    /* SETATTR */
    inode_id inode;
    uint32_t valid;
    struct stat st;
    uint32_t cache_ms;
    /* FALLOCATE, LSEEK */
    int mode;
    uint64_t offset, length;
    bool hole;
};

static void size_op_fail(struct size_op *op, int status)
{
    if (op->handle != NULL) {
        file_close(op->handle);
    }
    mount_op_fail(&op->base, status);
}

static void size_cancel(struct mount_op *base)
{
    struct size_op *op = CONTAINER_OF(base, struct size_op, base);

    meta_call_cancel(&op->base.call);
    meta_call_cancel(&op->flush.report);
    if (op->flush.waiting > 0) {
        LIST_FOREACH(node, &op->flush.file->chunks)
        {
            rpc_call_cancel(&LIST_ENTRY(node, struct chunk, node)->call);
        }
    }
    if (op->range.waiting > 0) {
        for (uint32_t i = 0; i < op->range.file->stripe.width; i++) {
            rpc_call_cancel(&op->range.calls[i]);
        }
    }
}

/* ---- GETATTR ---- */

static void attr_reply(struct size_op *op)
{
    uint32_t left_ms = meta_cache_left_ms(op->base.call.sent_ns, op->cache_ms);

    (void)fuse_reply_attr(op->base.req, &op->st, mount_cache_seconds(left_ms));
    if (op->handle != NULL) {
        file_close(op->handle);
    }
    mount_op_end(&op->base);
}

static void on_blocks(struct range_op *range, int status)
{
    struct size_op *op = CONTAINER_OF(range, struct size_op, range);

    if (status == 0) {
        op->st.st_blocks = (blkcnt_t)range->blocks;
    }
    attr_reply(op); /* Without the servers the size is the best guess. */
}

static void on_blocks_flushed(struct file_flush *flush, int status)
{
    struct size_op *op = CONTAINER_OF(flush, struct size_op, flush);

    (void)status;
    if (range_blocks_start(&op->range, flush->file, on_blocks) != 0) {
        attr_reply(op);
    }
}

/* Only its servers know how much space a sparse file uses. */
static void ask_blocks(struct servers_wait *wait)
{
    struct size_op *op = CONTAINER_OF(wait, struct size_op, wait);

    if (file_flush_start(&op->flush, op->handle->file, NULL, false, on_blocks_flushed) != 0) {
        attr_reply(op);
    }
}

static void on_node_attr(struct meta_call *call, int status, void *message)
{
    struct size_op *op = call->data;
    struct client *client = op->base.mount->client;
    Morsel__Node *node = message;
    struct file *file;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == MORSEL_NOENT || status == MORSEL_STALE) {
        const struct stat *last = mount_dir_removed_stat(op->base.mount, op->inode);

        if (last != NULL) {
            op->st = *last;
            attr_reply(op);
            return;
        }
    }
    if (status != 0) {
        /* The inode was deleted elsewhere: the name that led here is stale. */
        mount_op_fail(&op->base, status == MORSEL_NOENT ? MORSEL_STALE : status);
        return;
    }
    file = file_find(client, node->attr->inode);
    if (file != NULL) {
        file_refresh(file, node->attr);
        file_overlay(file, node->attr);
    }
    mount_stat(node->attr, &op->st);
    op->cache_ms = node->cache_ms;
    if (!node->attr->sparse && (file == NULL || !file->sparse)) {
        attr_reply(op);
        return;
    }
    op->wait.done = ask_blocks;
    if (file_open(client, node->attr, node->layout, false, &op->handle) != 0) {
        attr_reply(op);
    } else if (client_know_servers(client, op->handle->file->servers,
                                   op->handle->file->stripe.width, &op->wait)) {
        ask_blocks(&op->wait);
    }
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    struct size_op *op = mount_op_new(req, sizeof(*op));

    (void)fi;
    if (op == NULL) {
        return;
    }
    op->base.cancel = size_cancel;
    op->inode = ino;
    request.inode = ino;
    request.layout = true;
    (void)mount_op_ask(&op->base, MSG_GETATTR, &request.base, &morsel__node__descriptor,
                       on_node_attr);
}

/* ---- SETATTR ---- */

static void on_attr_set(struct meta_call *call, int status, void *message)
{
    struct size_op *op = call->data;
    Morsel__Node *node = message;
    struct client *client = op->base.mount->client;
    struct file *file;
    struct stat st;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    file = file_find(client, node->attr->inode);
    if (file != NULL) {
        if ((op->valid & SETATTR_SIZE) != 0) {
            file->size = node->attr->size;
        }
        file_refresh(file, node->attr);
        file_overlay(file, node->attr);
    }
    if ((op->valid & SETATTR_SIZE) != 0) {
        data_version_advance(client->versions, node->attr->inode, node->attr->data_version);
    }
    mount_stat(node->attr, &st);
    (void)fuse_reply_attr(op->base.req, &st,
                          mount_cache_seconds(meta_cache_left_ms(call->sent_ns, node->cache_ms)));
    if (op->handle != NULL) {
        file_close(op->handle);
    }
    mount_op_end(&op->base);
}

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)((int64_t)t->tv_sec * 1000000000 + t->tv_nsec);
}

static void send_setattr(struct size_op *op)
{
    Morsel__SetattrRequest request = MORSEL__SETATTR_REQUEST__INIT;
    Morsel__Credentials who;
    uint32_t groups[MOUNT_GROUPS_MAX];
    int rv;

    if ((op->valid & SETATTR_MODE) != 0 && (op->st.st_mode & S_ISGID) != 0) {
        mount_credentials_groups(op->base.req, &who, groups);
    } else {
        mount_credentials(op->base.req, &who);
    }
    request.inode = op->inode;
    request.valid = op->valid;
    request.mode = op->st.st_mode;
    request.uid = op->st.st_uid;
    request.gid = op->st.st_gid;
    request.size = (uint64_t)op->st.st_size;
    request.atime_ns = ns_of(&op->st.st_atim);
    request.mtime_ns = ns_of(&op->st.st_mtim);
    request.who = &who;
    rv = meta_change_start(&op->base.call, op->base.mount->client, MSG_SETATTR, &request.base,
                           &request.op, &morsel__node__descriptor, on_attr_set);
    if (rv != 0) {
        size_op_fail(op, rv);
    }
}

static void on_cut(struct range_op *range, int status)
{
    struct size_op *op = CONTAINER_OF(range, struct size_op, range);

    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    send_setattr(op);
}

static void on_setattr_flushed(struct file_flush *flush, int status)
{
    struct size_op *op = CONTAINER_OF(flush, struct size_op, flush);
    struct file *file = flush->file;
    uint64_t size = (uint64_t)op->st.st_size;

    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    if ((op->valid & SETATTR_SIZE) == 0 || (size == 0 && file->size == 0)) {
        send_setattr(op);
        return;
    }
    status = range_start(&op->range, file, RANGE_TRUNCATE, size < file->size ? size : file->size, 0,
                         on_cut);
    if (status != 0) {
        size_op_fail(op, status);
    }
}

static void setattr_with_file(struct servers_wait *wait)
{
    struct size_op *op = CONTAINER_OF(wait, struct size_op, wait);
    int rv = file_flush_start(&op->flush, op->handle->file, NULL, false, on_setattr_flushed);

    if (rv != 0) {
        size_op_fail(op, rv);
    }
}

static void on_layout(struct meta_call *call, int status, void *message)
{
    struct size_op *op = call->data;
    struct client *client = op->base.mount->client;
    Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0 && !S_ISREG(node->attr->mode)) {
        status = S_ISDIR(node->attr->mode) ? MORSEL_ISDIR : MORSEL_INVAL;
    }
    if (status == 0) {
        status = file_open(client, node->attr, node->layout, false, &op->handle);
    }
    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    op->wait.done = setattr_with_file;
    if (client_know_servers(client, op->handle->file->servers, op->handle->file->stripe.width,
                            &op->wait)) {
        setattr_with_file(&op->wait);
    }
}

static uint32_t valid_of(int to_set)
{
    static const struct
    {
        int fuse;
        uint32_t ours;
    } map[] = {
        { FUSE_SET_ATTR_MODE, SETATTR_MODE },
        { FUSE_SET_ATTR_UID, SETATTR_UID },
        { FUSE_SET_ATTR_GID, SETATTR_GID },
        { FUSE_SET_ATTR_SIZE, SETATTR_SIZE },
        { FUSE_SET_ATTR_ATIME, SETATTR_ATIME },
        { FUSE_SET_ATTR_MTIME, SETATTR_MTIME },
        { FUSE_SET_ATTR_ATIME_NOW, SETATTR_ATIME_NOW },
        { FUSE_SET_ATTR_MTIME_NOW, SETATTR_MTIME_NOW },
    };
    uint32_t valid = 0;

    for (size_t i = 0; i < ARRAY_COUNT(map); i++) {
        if ((to_set & map[i].fuse) != 0) {
            valid |= map[i].ours;
        }
    }
    return valid;
}

static void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    struct size_op *op = mount_op_new(req, sizeof(*op));
    struct file *file;

    (void)fi;
    if (op == NULL) {
        return;
    }
    if (op->base.mount->read_only) {
        mount_op_fail(&op->base, MORSEL_ROFS);
        return;
    }
    op->base.cancel = size_cancel;
    op->inode = ino;
    op->valid = valid_of(to_set);
    op->st = *attr;
    file = file_find(op->base.mount->client, ino);
    if ((op->valid & SETATTR_SIZE) != 0 && (file == NULL || !file->unreported)) {
        /* Also for an open file: its size may have changed elsewhere. */
        request.inode = ino;
        request.layout = true;
        (void)mount_op_ask(&op->base, MSG_GETATTR, &request.base, &morsel__node__descriptor,
                           on_layout);
    } else if (file != NULL && (file->unreported || file->reporting)) {
        /* Our time of the last write must reach the manager before the one that is set here. */
        if (file_flush_start(&op->flush, file, NULL, false, on_setattr_flushed) != 0) {
            mount_op_fail(&op->base, MORSEL_NOMEM);
        }
    } else {
        send_setattr(op);
    }
}

/* ---- FALLOCATE ---- */

static void on_fallocate_reported(struct file_flush *flush, int status)
{
    mount_op_fail(&CONTAINER_OF(flush, struct size_op, flush)->base, status);
}

static bool is_zeroing(int mode)
{
    return (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
}

static void on_fallocated(struct range_op *range, int status)
{
    struct size_op *op = CONTAINER_OF(range, struct size_op, range);
    struct file *file = range->file;
    uint64_t end = (op->mode & FALLOC_FL_KEEP_SIZE) != 0 ? 0 : op->offset + op->length;

    if (status == 0) {
        if (!is_zeroing(op->mode) && op->offset + op->length > file->reach) {
            file->reach = op->offset + op->length;
        }
        file_note_changed(file, 0, end, true);
        status = file_flush_start(&op->flush, file, NULL, false, on_fallocate_reported);
        if (status == 0) {
            return;
        }
    }
    mount_op_fail(&op->base, status);
}

static void on_fallocate_flushed(struct file_flush *flush, int status)
{
    struct size_op *op = CONTAINER_OF(flush, struct size_op, flush);
    if (status == 0) {
        status = range_start(&op->range, flush->file,
                             is_zeroing(op->mode) ? RANGE_PUNCH : RANGE_ALLOCATE, op->offset,
                             op->length, on_fallocated);
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
    }
}

static void on_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                         struct fuse_file_info *fi)
{
    struct handle *handle = (struct handle *)(uintptr_t)fi->fh;
    struct size_op *op = mount_op_new(req, sizeof(*op));
    int rv = MORSEL_OK;

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->mode = mode;
    op->offset = (uint64_t)offset;
    op->length = (uint64_t)length;
    if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE &&
        mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) && mode != FALLOC_FL_ZERO_RANGE &&
        mode != (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)) {
        rv = MORSEL_NOTSUP;
    } else if (op->offset + op->length > INT64_MAX) {
        rv = MORSEL_FBIG;
    } else {
        rv = file_flush_start(&op->flush, handle->file, NULL, false, on_fallocate_flushed);
    }
    if (rv != 0) {
        mount_op_fail(&op->base, rv);
    }
}

/* ---- LSEEK ---- */

static void on_sought(struct range_op *range, int status)
{
    struct size_op *op = CONTAINER_OF(range, struct size_op, range);
    uint64_t size = range->file->size;

    if (status == 0 && !op->hole && (!range->found || range->best >= size)) {
        status = MORSEL_NXIO;
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
        return;
    }
    (void)fuse_reply_lseek(op->base.req,
                           (off_t)(!range->found || range->best > size ? size : range->best));
    mount_op_end(&op->base);
}

static void on_seek_flushed(struct file_flush *flush, int status)
{
    struct size_op *op = CONTAINER_OF(flush, struct size_op, flush);

    if (status == 0 && op->offset >= flush->file->size) {
        status = MORSEL_NXIO;
    }
    if (status == 0) {
        status = range_seek_start(&op->range, flush->file, op->offset, op->hole, on_sought);
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
    }
}

static void on_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
                     struct fuse_file_info *fi)
{
    struct handle *handle = (struct handle *)(uintptr_t)fi->fh;
    struct size_op *op = mount_op_new(req, sizeof(*op));

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->offset = (uint64_t)offset;
    op->hole = whence == SEEK_HOLE;
    if ((whence != SEEK_HOLE && whence != SEEK_DATA) || offset < 0) {
        mount_op_fail(&op->base, offset < 0 ? MORSEL_NXIO : MORSEL_INVAL);
        return;
    }
    if (file_flush_start(&op->flush, handle->file, NULL, false, on_seek_flushed) != 0) {
        mount_op_fail(&op->base, MORSEL_NOMEM);
    }
}

void mount_size_operations(struct fuse_lowlevel_ops *ops)
{
    ops->getattr = on_getattr;
    ops->setattr = on_setattr;
    ops->fallocate = on_fallocate;
    ops->lseek = on_lseek;
}
