/* FALLOCATE and LSEEK: extents of data, holes and reserved space, on all servers of a file. */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/size_lock_uv.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"

#include <linux/falloc.h>

struct extent_op
{
    struct mount_op base;
    struct handle *handle;
    struct file_flush flush;
    struct file_drain drain; /* FALLOCATE of a file that is ours alone */
    struct range_op range;
    struct size_lock size_lock; /* FALLOCATE of a shared file, beyond its end */
    int mode;                   /* FALLOCATE */
    uint64_t offset, length;
    bool hole; /* LSEEK */
    int sought; /* Likewise: what the servers said, before the manager is asked whether they were the right ones. */
};

static void fallocate_go(struct extent_op *op, int status);

static void extent_cancel(struct mount_op *base)
{
    struct extent_op *op = CONTAINER_OF(base, struct extent_op, base);

    if (op->drain.done != NULL && !list_empty(&op->drain.node)) {
        list_remove(&op->drain.node);
        fallocate_go(op, MORSEL_CANCELED);
    } else if (op->flush.waiting > 0) {
        file_flush_cancel(&op->flush);
    } else if (op->range.waiting > 0) {
        range_cancel(&op->range);
    } else {
        mount_op_cancel_asking(base);
    }
}

/* ---- FALLOCATE ---- */

static void fallocate_end(struct extent_op *op, int status)
{
    size_lock_end(&op->size_lock);
    file_unpin_lease(op->handle->file);
    lease_unpinned(op->base.mount->client);
    mount_op_fail(&op->base, status);
}

static void on_fallocate_reported(struct file_flush *flush, int status)
{
    fallocate_end(CONTAINER_OF(flush, struct extent_op, flush), status);
}

static bool is_zeroing(int mode)
{
    return (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
}

static void on_fallocated(struct range_op *range, int status)
{
    struct extent_op *op = CONTAINER_OF(range, struct extent_op, range);
    struct file *file = range->file;
    uint64_t end = (op->mode & FALLOC_FL_KEEP_SIZE) != 0 ? 0 : op->offset + op->length;

    if (!is_zeroing(op->mode)) {
        file_note_reach(file, op->offset + op->length);
    }
    /* Also after a failure: some servers have made their object, and deletion must find it. */
    file_note_changed(file, 0, status == 0 ? end : 0, true);
    if (status == 0) {
        op->flush.behind = !file_is_shared(file) && /* As with what is written. */
                           behind_takes_report(op->base.mount->client);
        status = file_flush_start(&op->flush, file, NULL, false, on_fallocate_reported);
        if (status == 0) {
            return;
        }
    }
    fallocate_end(op, status);
}

/* What was written before is with the servers. */
static void fallocate_go(struct extent_op *op, int status)
{
    if (status == 0) {
        status = range_start(&op->range, op->handle->file,
                             is_zeroing(op->mode) ? RANGE_PUNCH : RANGE_ALLOCATE, op->offset,
                             op->length, on_fallocated);
    }
    if (status != 0) {
        fallocate_end(op, status);
    }
}

static void on_fallocate_flushed(struct file_flush *flush, int status)
{
    fallocate_go(CONTAINER_OF(flush, struct extent_op, flush), status);
}

static void on_fallocate_drained(struct file_drain *drain)
{
    fallocate_go(CONTAINER_OF(drain, struct extent_op, drain), MORSEL_OK);
}

static bool reaches(const struct extent_op *op)
{
    return (op->mode & FALLOC_FL_KEEP_SIZE) == 0 &&
           op->offset + op->length > file_size(op->handle->file);
}

static void fallocate_shared(struct extent_op *op)
{
    int rv = file_flush_start(&op->flush, op->handle->file, NULL, false, on_fallocate_flushed);

    if (rv != 0) {
        fallocate_end(op, rv);
    }
}

/* Nobody else writes: the end is where the manager says. */
static void end_known(struct mount_op *base, int status)
{
    struct extent_op *op = CONTAINER_OF(base, struct extent_op, base);

    if (status == 0 && reaches(op) && !file_clean_tail(op->handle->file)) {
        status = MORSEL_NOMEM;
    }
    if (status == 0) {
        fallocate_shared(op);
    } else {
        fallocate_end(op, status);
    }
}

static void on_size_lock(struct size_lock *size_lock, int status)
{
    struct extent_op *op = CONTAINER_OF(size_lock, struct extent_op, size_lock);

    op->base.cancel = extent_cancel;
    if (status == 0) {
        mount_refresh_size(&op->base, op->handle->file, end_known);
    } else {
        fallocate_end(op, status);
    }
}

static void extent_size_lock_cancel(struct mount_op *base)
{
    size_lock_cancel(&CONTAINER_OF(base, struct extent_op, base)->size_lock);
}

static void when_joined(struct mount_op *base, int status);

/* The manager need not hear of a file that is ours alone before it is done. */
static void fallocate_begin(struct extent_op *op)
{
    struct file *file = op->handle->file;

    op->drain.done = on_fallocate_drained;
    if (!file_is_shared(file) && reaches(op) && !file_clean_tail(file)) {
        fallocate_end(op, MORSEL_NOMEM);
    } else if (file_is_shared(file) && file_is_place_doubted(file)) {
        mount_refresh_size(&op->base, file, when_joined);
    } else if (file_is_shared(file) && reaches(op) && file_is_tail_unsure(file)) {
        op->base.cancel = extent_size_lock_cancel;
        size_lock_take(&op->size_lock, file->client, file->inode, LOCK_EXCLUSIVE, on_size_lock);
    } else if (file_is_shared(file)) {
        fallocate_shared(op);
    } else if (file_drain(file, &op->drain, false)) {
        fallocate_go(op, MORSEL_OK);
    }
}

static void when_joined(struct mount_op *base, int status)
{
    struct extent_op *op = CONTAINER_OF(base, struct extent_op, base);

    if (status == 0) {
        fallocate_begin(op);
    } else {
        fallocate_end(op, status);
    }
}

static void on_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                         struct fuse_file_info *fi)
{
    struct handle *handle = (struct handle *)(uintptr_t)fi->fh;
    struct extent_op *op = mount_op_new(req, MOUNT_FALLOCATE, sizeof(*op));
    int rv = MORSEL_OK;

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->base.cancel = extent_cancel;
    op->mode = mode;
    op->offset = (uint64_t)offset;
    op->length = (uint64_t)length;
    if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE &&
        mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) && mode != FALLOC_FL_ZERO_RANGE &&
        mode != (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)) {
        rv = MORSEL_NOTSUP;
    } else if (op->offset + op->length > INT64_MAX) {
        rv = MORSEL_FBIG;
    }
    if (rv != 0) {
        mount_op_fail(&op->base, rv);
        return;
    }
    op->handle = handle;
    file_pin_lease(handle->file);
    if (fuse_req_ctx(req)->uid != 0) {
        file_strip_ids(handle->file);
    }
    list_init(&op->drain.node);
    if (client_lease_valid(op->base.mount->client)) {
        fallocate_begin(op);
    } else { /* The servers would refuse it. With the manager's answer we have a lease period. */
        mount_refresh_size(&op->base, handle->file, when_joined);
    }
}

/* ---- LSEEK ---- */

static void sought(struct extent_op *op, int status)
{
    const struct range_op *range = &op->range;
    uint64_t size = file_size(range->file);

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

static void seek(struct mount_op *base, int status);

/* The manager has said once more where it lies. */
static void sought_there(struct mount_op *base, int status)
{
    struct extent_op *op = CONTAINER_OF(base, struct extent_op, base);

    if (status != 0 || range_has_moved(&op->range)) {
        seek(base, status);
    } else {
        sought(op, op->sought);
    }
}

static void on_sought(struct range_op *range, int status)
{
    struct extent_op *op = CONTAINER_OF(range, struct extent_op, range);

    op->sought = status;
    if (status == MORSEL_CANCELED || (status == 0 && range_is_sure(range))) {
        sought(op, status);
    } else {
        mount_refresh_size(&op->base, range->file, sought_there);
    }
}

static void on_seek_flushed(struct file_flush *flush, int status)
{
    struct extent_op *op = CONTAINER_OF(flush, struct extent_op, flush);

    if (status == 0 && op->offset >= file_size(flush->file)) {
        status = MORSEL_NXIO;
    }
    if (status == 0) {
        status = range_seek_start(&op->range, flush->file, op->offset, op->hole, on_sought);
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
    }
}

static void seek(struct mount_op *base, int status)
{
    struct extent_op *op = CONTAINER_OF(base, struct extent_op, base);

    if (status == 0) {
        status = file_flush_start(&op->flush, op->handle->file, NULL, false, on_seek_flushed);
    }
    if (status != 0) {
        mount_op_fail(base, status);
    }
}

static void on_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
                     struct fuse_file_info *fi)
{
    struct handle *handle = (struct handle *)(uintptr_t)fi->fh;
    struct extent_op *op = mount_op_new(req, MOUNT_LSEEK, sizeof(*op));

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->offset = (uint64_t)offset;
    op->base.cancel = extent_cancel;
    op->hole = whence == SEEK_HOLE;
    if ((whence != SEEK_HOLE && whence != SEEK_DATA) || offset < 0) {
        mount_op_fail(&op->base, offset < 0 ? MORSEL_NXIO : MORSEL_INVAL);
        return;
    }
    op->handle = handle;
    if (file_is_shared(handle->file)) {
        mount_refresh_size(&op->base, handle->file, seek);
    } else {
        seek(&op->base, MORSEL_OK);
    }
}

void mount_extent_operations(struct fuse_lowlevel_ops *ops)
{
    ops->fallocate = on_fallocate;
    ops->lseek = on_lseek;
}
