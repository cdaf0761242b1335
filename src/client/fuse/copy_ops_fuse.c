/* COPY_FILE_RANGE: on the servers, where both files are ours alone and their bytes lie on the same
 * servers. A file of which nothing was written yet is moved to the servers of the source first.
 * Otherwise EOPNOTSUPP: then the kernel reads and writes.
 *
 * Moving. When the answer is lost, the file may have been moved all the same: what is written then to where it
 * was nobody finds. So the answer is waited for, however long that takes, and where it says that the file was
 * not moved, or says nothing, the manager is asked where it lies. It is held meanwhile (file_uv.h, Moving): our
 * kernel writes nothing to it as long as this copy lasts. Who copies waits for io_timeout; what is asked of the file
 * behind that is refused until there is the answer (file_give_up_place()).
 */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/meta_cache.h"
#include "common/base/status.h"

#include <string.h>

struct copy_op
{
    struct mount_op base;
    struct file_copy copy;
    struct file_drain drain;
    struct file_flush flush;        /* Of what was copied while the lease was on its way back. */
    struct kernel_drop_waiter drop; /* Of the source, before the kernel copies. */
    uint64_t lease_epoch;           /* Under which the servers are asked. */
    bool pinned;
};

static void unpin_leases(struct copy_op *op)
{
    if (op->pinned) {
        op->pinned = false;
        file_unpin_lease(op->copy.from);
        file_unpin_lease(op->copy.to);
        lease_unpinned(op->base.mount->client);
    }
}

static void copy_end(struct copy_op *op, int status)
{
    unpin_leases(op);
    if (status == 0) {
        op->base.bytes = (uint32_t)op->copy.length;
        (void)fuse_reply_write(op->base.req, op->copy.length);
        mount_op_end(&op->base);
    } else {
        mount_op_fail(&op->base, status);
    }
}

static void on_source_dropped(void *data)
{
    copy_end(data, MORSEL_NOTSUP);
}

/* The kernel may go by its pages of the source, which of a shared file may be old. */
static void leave_to_kernel(struct copy_op *op)
{
    op->base.cancel = NULL;
    if (file_is_shared(op->copy.from)) {
        kernel_drop_then(op->base.mount->client, &op->drop, op->copy.from->inode, 0,
                         on_source_dropped, op);
    } else {
        copy_end(op, MORSEL_NOTSUP);
    }
}

static bool is_sparse(struct client *client, const struct file *file)
{
    const Morsel__Attr *attr = meta_cache_attr(client->cache, file->inode);

    return file_became_sparse(file) || attr == NULL || attr->sparse;
}

/* Some servers may have copied. Deletion must find what they have, what is known of these bytes is old,
 * and what lies beyond the end, and would be seen when the file grows, is cut off: at once, for the file
 * may be closed by then. */
static void note_partly(struct copy_op *op, struct file *to)
{
    uint64_t offset = op->copy.to_offset, end = offset + op->copy.sent;

    file_note_reach(to, end);
    file_forget(to, offset, op->copy.sent);
    kernel_drop_inode(op->base.mount->client, to->inode);
    file_note_changed(to, 0, 0, true);
    if (end > file_size(to) && !file_is_shared(to)) {
        file_doubt_tail(to);
        (void)file_clean_tail(to); /* Without memory it stays in doubt. */
    }
}

static void on_told(struct file_flush *flush, int status)
{
    copy_end(CONTAINER_OF(flush, struct copy_op, flush), status);
}

static void tell_cancel(struct mount_op *base)
{
    file_flush_cancel(&CONTAINER_OF(base, struct copy_op, base)->flush);
}

/* While the lease is on its way back, the manager must know of it before it is. */
static int note_copied(struct copy_op *op)
{
    struct file_copy *copy = &op->copy;
    struct file *to = copy->to;

    file_forget(to, copy->to_offset, copy->length);
    file_note_changed(to, copy->to_offset, copy->to_offset + copy->length,
                      is_sparse(op->base.mount->client, copy->from));
    if (!file_is_shared(to)) {
        copy_end(op, MORSEL_OK);
        return MORSEL_OK;
    }
    op->base.cancel = tell_cancel;
    return file_flush_start(&op->flush, to, NULL, false, on_told);
}

/* Also of a lease that is on its way back: it waits for us (unpin_leases()), and so does who wants it. */
static bool is_ours_since(const struct copy_op *op)
{
    const struct client *client = op->base.mount->client;

    return client_lease_valid(client) && lease_epoch(client) == op->lease_epoch &&
           lease_is_for_writing(client, op->copy.to->inode);
}

static void on_copied(struct file_copy *copy, int status)
{
    struct copy_op *op = CONTAINER_OF(copy, struct copy_op, copy);

    if (status != 0) {
        note_partly(op, copy->to);
    } else if (!is_ours_since(op)) {
        status = MORSEL_IO; /* Our lease ran out: others may have truncated the file since. */
    } else {
        status = note_copied(op);
        if (status == 0) {
            return;
        }
    }
    copy_end(op, status);
}

static void copy_cancel(struct mount_op *base)
{
    file_copy_cancel(&CONTAINER_OF(base, struct copy_op, base)->copy);
}

static void copy_go(struct copy_op *op)
{
    struct file_copy *copy = &op->copy;

    if (file_is_shared(copy->from) || file_is_shared(copy->to) ||
        !file_copy_fits(copy->from, copy->to, copy->from_offset, copy->to_offset)) {
        leave_to_kernel(op);
        return;
    }
    op->base.cancel = copy_cancel;
    op->lease_epoch = lease_epoch(op->base.mount->client);
    file_copy_start(copy, on_copied);
}

static void aligned(struct copy_op *op, int status)
{
    file_let_go(op->copy.to);
    if (status == 0) {
        copy_go(op); /* Where it lies as before, the kernel copies. */
    } else {
        copy_end(op, status);
    }
}

static void copy_give_up(struct mount_op *base)
{
    struct copy_op *op = CONTAINER_OF(base, struct copy_op, base);

    log_warning(base->mount->client->options.log,
                "inode %lu: the manager has not said within io_timeout where it is to lie; what is "
                "asked of it says EIO until it has: see whether the manager runs",
                (unsigned long)op->copy.to->inode);
    file_give_up_place(op->copy.to);
    unpin_leases(op);
    mount_op_give_up(base);
}

/* Nobody waits for it any more; others may be at the file just now, and then it is found behind them. */
static void take_place_late(struct copy_op *op, int status, const Morsel__Node *node)
{
    struct file *to = op->copy.to;

    if (status == 0 && file_is_quiet(to)) {
        (void)file_move(to, node->layout);
    }
    file_let_go(to);
    lease_unpinned(op->base.mount->client);
    mount_op_end(&op->base);
}

/* It lies so. Until that is taken over nobody may ask its servers for anything. */
static void take_place(struct copy_op *op, int status, const Morsel__Node *node)
{
    op->base.give_up = NULL;
    if (op->base.given_up) {
        take_place_late(op, status, node);
        return;
    }
    if (status == 0) {
        status = file_align(op->copy.to, node->layout);
    }
    if (status != 0) {
        file_lose_place(op->copy.to);
    }
    aligned(op, status);
}

static void on_found(struct meta_call *call, int status, void *message)
{
    take_place(CONTAINER_OF((struct mount_op *)call->data, struct copy_op, base), status, message);
}

static void find(struct copy_op *op)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    int rv;

    request.inode = op->copy.to->inode;
    request.layout = true;
    op->base.call.bounded = false;
    rv = meta_call_start(&op->base.call, op->base.mount->client, MSG_GETATTR, &request.base,
                         &morsel__node__descriptor, on_found);
    if (rv != 0) {
        take_place(op, rv, NULL);
    }
}

static void on_aligned(struct meta_call *call, int status, void *message)
{
    struct copy_op *op = CONTAINER_OF((struct mount_op *)call->data, struct copy_op, base);

    if (status == 0) {
        take_place(op, status, message);
    } else {
        find(op);
    }
}

static void align(struct copy_op *op)
{
    Morsel__SetLayoutRequest request = MORSEL__SET_LAYOUT_REQUEST__INIT;
    int rv;

    request.inode = op->copy.to->inode;
    request.like = op->copy.from->inode;
    op->base.cancel = NULL;
    op->base.call.data = &op->base;
    op->base.call.bounded = true;
    op->base.call.patient = true;
    mount_op_bound(&op->base, copy_give_up);
    file_hold(op->copy.to);
    rv = meta_change_start(&op->base.call, op->base.mount->client, MSG_SET_LAYOUT, &request.base,
                           &request.op, &morsel__node__descriptor, on_aligned);
    if (rv != 0) { /* Nobody was asked. */
        op->base.give_up = NULL;
        file_let_go(op->copy.to);
        leave_to_kernel(op);
    }
}

static void when_drained(struct copy_op *op)
{
    struct file_copy *copy = &op->copy;
    uint64_t left =
        file_size(copy->from) > copy->from_offset ? file_size(copy->from) - copy->from_offset : 0;

    op->base.cancel = NULL;
    if (file_is_shared(copy->from) || file_is_shared(copy->to) || file_is_held(copy->to)) {
        leave_to_kernel(op);
        return;
    }
    copy->length = copy->length < left ? copy->length : left;
    if (copy->length == 0) {
        copy_end(op, MORSEL_OK);
    } else if (!file_copy_fits(copy->from, copy->to, copy->from_offset, copy->to_offset) &&
               file_may_align(copy->from, copy->to, copy->from_offset, copy->to_offset)) {
        align(op);
    } else {
        copy_go(op);
    }
}

static void drain_cancel(struct mount_op *base)
{
    struct copy_op *op = CONTAINER_OF(base, struct copy_op, base);

    list_remove(&op->drain.node);
    copy_end(op, MORSEL_CANCELED);
}

static void on_target_drained(struct file_drain *drain)
{
    when_drained(CONTAINER_OF(drain, struct copy_op, drain));
}

static void drain_target(struct copy_op *op)
{
    op->drain.done = on_target_drained;
    op->base.cancel = drain_cancel;
    if (op->copy.to_offset > file_size(op->copy.to) && !file_is_shared(op->copy.to) &&
        !file_clean_tail(op->copy.to)) {
        copy_end(op, MORSEL_NOMEM);
        return;
    }
    if (file_drain(op->copy.to, &op->drain, false)) {
        when_drained(op);
    }
}

static void on_source_drained(struct file_drain *drain)
{
    drain_target(CONTAINER_OF(drain, struct copy_op, drain));
}

static void on_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
                               struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
                               struct fuse_file_info *fi_out, size_t len, int flags)
{
    struct copy_op *op = mount_op_new(req, MOUNT_COPY, sizeof(*op));

    (void)ino_in;
    (void)ino_out;
    if (op == NULL) {
        return;
    }
    op->copy.from = ((struct handle *)(uintptr_t)fi_in->fh)->file;
    op->copy.to = ((struct handle *)(uintptr_t)fi_out->fh)->file;
    op->copy.from_offset = (uint64_t)off_in;
    op->copy.to_offset = (uint64_t)off_out;
    op->copy.length = len < FILE_COPY_BYTES_MAX ? len : FILE_COPY_BYTES_MAX;
    if (flags != 0) {
        mount_op_fail(&op->base, MORSEL_INVAL);
        return;
    }
    if (file_is_held(op->copy.to)) { /* Nobody has kept this: it was asked about the other file. */
        mount_op_fail(&op->base, MORSEL_NOTSUP);
        return;
    }
    op->pinned = true;
    file_pin_lease(op->copy.from);
    file_pin_lease(op->copy.to);
    if (fuse_req_ctx(req)->uid != 0) {
        file_strip_ids(op->copy.to);
    }
    op->drain.done = on_source_drained;
    op->base.cancel = drain_cancel;
    if (file_drain(op->copy.from, &op->drain, false)) {
        drain_target(op);
    }
}

void mount_copy_operations(struct fuse_lowlevel_ops *ops)
{
    ops->copy_file_range = on_copy_file_range;
}
