/* What was changed of a file since somebody began to copy it (common/fs/exchange.h, "Copied beforehand"): the servers are asked. */
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"
#include "common/fs/exchange.h"

struct watch_op
{
    struct mount_op base;
    struct handle *handle;
    uid_t who;
    struct range_op range;
    struct exchange_watch watch;
};

static void watch_cancel(struct mount_op *base)
{
    struct watch_op *op = CONTAINER_OF(base, struct watch_op, base);

    if (op->range.waiting > 0) {
        range_cancel(&op->range);
    } else {
        mount_op_cancel_asking(base);
    }
}

/* A write of this mount that came to nothing was read here, perhaps, and no server has heard of it: what was copied is not
 * known to be what is there. */
static bool may_have_read_what_failed(const struct watch_op *op)
{
    return op->watch.since != 0 && file_failures(op->handle->file) != op->handle->watched_failures;
}

static void on_watched(struct range_op *range, int status)
{
    struct watch_op *op = CONTAINER_OF(range, struct watch_op, range);

    if (status == 0 && may_have_read_what_failed(op)) {
        status = MORSEL_NODATA;
    }
    if (status == 0) {
        (void)fuse_reply_ioctl(op->base.req, 0, &op->watch, sizeof(op->watch));
        mount_op_end(&op->base);
    } else {
        mount_op_fail(&op->base, status);
    }
}

static void ask(struct mount_op *base, int status)
{
    struct watch_op *op = CONTAINER_OF(base, struct watch_op, base);

    if (op->watch.since == 0) {
        op->handle->watched_failures = file_failures(op->handle->file);
    }
    if (status == 0) {
        status = range_watch_start(&op->range, op->handle->file, &op->watch, on_watched);
    }
    if (status != 0) {
        mount_op_fail(base, status);
    }
}

/* Servers have room for few watches. Of a file that others change the manager says first where it lies. */
static void on_owner(struct meta_call *call, int status, void *message)
{
    struct watch_op *op = CONTAINER_OF((struct mount_op *)call->data, struct watch_op, base);
    const Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0 && op->who != UID_ROOT && op->who != node->attr->uid) {
        status = MORSEL_PERM;
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
    } else if (file_is_shared(op->handle->file)) {
        mount_refresh_size(&op->base, op->handle->file, ask);
    } else {
        ask(&op->base, MORSEL_OK);
    }
}

void mount_watch(fuse_req_t req, struct handle *handle, const struct exchange_watch *wanted)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    struct watch_op *op = mount_op_new(req, MOUNT_EXCHANGE, sizeof(*op));

    if (op == NULL) {
        return;
    }
    op->handle = handle;
    op->who = fuse_req_ctx(req)->uid;
    op->watch = (struct exchange_watch){ .begin = wanted->begin,
                                         .since = wanted->since,
                                         .from = wanted->from };
    op->base.cancel = watch_cancel;
    if ((op->watch.begin == 0 && op->watch.since == 0) || op->watch.from > INT64_MAX) {
        mount_op_fail(&op->base, MORSEL_INVAL);
        return;
    }
    request.inode = handle->file->inode;
    (void)mount_op_ask(&op->base, MSG_GETATTR, &request.base, &morsel__node__descriptor, on_owner);
}
