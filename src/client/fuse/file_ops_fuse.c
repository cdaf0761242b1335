/* Open files: READ, WRITE, FLUSH, FSYNC and RELEASE become calls of libmorsel. What the kernel keeps
 * is its own matter, but for two things: when WRITEs are answered (kernel_view.h), and that a write may
 * take set-id bits away that the kernel does not know of. */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/lock_uv.h"
#include "client/data/read_uv.h"
#include "client/data/write_uv.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

static struct handle *handle_of(const struct fuse_file_info *fi)
{
    return (struct handle *)(uintptr_t)fi->fh;
}

/* ---- READ ---- */

struct read_op
{
    struct mount_op base;
    struct kernel_read view;
    struct file_read read;
};

static void read_counted_end(struct read_op *op);

static void read_cancel(struct mount_op *base)
{
    file_read_cancel(&CONTAINER_OF(base, struct read_op, base)->read);
}

static void on_read_done(struct file_read *read, int status)
{
    struct read_op *op = CONTAINER_OF(read, struct read_op, read);
    struct iovec iov[FILE_READ_IOV_MAX];

    if (status == 0) {
        op->base.bytes = read->length;
        (void)fuse_reply_iov(op->base.req, iov, (int)file_read_gather(read, iov));
        file_read_end(read);
    } else {
        op->base.mount->statistics[op->base.kind].failed++;
        (void)fuse_reply_err(op->base.req, client_errno(op->base.mount->client, status));
    }
    read_counted_end(op); /* Its answer is with the kernel. */
    mount_op_end(&op->base);
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    struct read_op *op =
        mount_op_new_head(req, MOUNT_READ, sizeof(*op), offsetof(struct read_op, read));
    struct handle *handle = handle_of(fi);

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->base.cancel = read_cancel;
    op->read.handle = handle; /* For read_counted_end(). */
    if (!handle->direct && file_is_shared(handle->file)) {
        kernel_view_reads(&handle->file->kernel, &op->view, uv_now(handle->file->client->loop));
    }
    file_read_start(&op->read, handle, (uint64_t)offset,
                    size < MOUNT_REQUEST_BYTES_MAX ? (uint32_t)size : MOUNT_REQUEST_BYTES_MAX,
                    on_read_done);
}

/* ---- WRITE ---- */

struct write_op
{
    struct mount_op base;
    struct file_write write;
    struct kernel_write view;
    int status;
};

static void write_reply(struct write_op *op, int status)
{
    struct file *file = op->write.handle->file;

    kernel_view_write_ends(&file->kernel, (uint32_t)fuse_req_ctx(op->base.req)->pid,
                           uv_now(file->client->loop));
    if (status == 0) {
        op->base.bytes = (uint32_t)op->write.length;
        (void)fuse_reply_write(op->base.req, op->write.length);
        mount_op_end(&op->base);
    } else {
        mount_op_fail(&op->base, status);
    }
}

static void reply_to(struct list *free)
{
    struct list *node;

    while ((node = list_pop_front(free)) != NULL) {
        struct write_op *op = LIST_ENTRY(node, struct write_op, view.node);

        write_reply(op, op->status);
    }
}

static void read_counted_end(struct read_op *op)
{
    struct file *file = op->read.handle->file;
    struct list free;

    list_init(&free);
    kernel_view_read_ends(&file->kernel, &op->view, uv_now(file->client->loop), &free);
    reply_to(&free);
}

static void on_late(uv_timer_t *timer);

static void start_late(struct mount *m)
{
    uint64_t due_ms = kernel_views_due_ms(&m->awaited), now_ms = uv_now(m->client->loop);

    if (due_ms != UINT64_MAX && !uv_is_active((uv_handle_t *)&m->late)) {
        (void)uv_timer_start(&m->late, on_late, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

static void free_late(struct mount *m, uint64_t now_ms)
{
    struct list free;

    list_init(&free);
    kernel_views_late(&m->awaited, now_ms, &free);
    reply_to(&free);
}

static void on_late(uv_timer_t *timer)
{
    struct mount *m = timer->data;

    free_late(m, uv_now(m->client->loop));
    start_late(m);
}

void mount_await(struct mount *m, const struct kernel_question *q, struct kernel_view *v,
                 uint32_t thread)
{
    kernel_question_answered(q, v, thread, uv_now(m->client->loop), &m->awaited);
    start_late(m);
}

void mount_heard(struct mount *m, uint32_t thread)
{
    struct list free;

    if (!list_empty(&m->awaited)) {
        list_init(&free);
        kernel_views_heard(&m->awaited, thread, &free);
        reply_to(&free);
    }
}

void mount_await_nobody(struct mount *m)
{
    free_late(m, UINT64_MAX - 1);
}

static void on_written(struct file_write *write, int status)
{
    struct write_op *op = CONTAINER_OF(write, struct write_op, write);
    uint64_t end = status == 0 ? write->offset + write->length : 0;

    payload_drop(write->holder);
    op->status = status;
    if (kernel_view_wrote(&write->handle->file->kernel, &op->view, write->handle->direct, end,
                          write->more)) {
        write_reply(op, status);
    } else {
        op->base.cancel = NULL;
    }
}

static void write_cancel(struct mount_op *base)
{
    file_write_cancel(&CONTAINER_OF(base, struct write_op, base)->write);
}

/* The kernel says whether the writer may keep set-id bits; a kernel that was not asked to
 * (init_fuse.c) takes them away itself, if it knows of them: of a file that others have changed it
 * may not. */
static bool strips_ids(const struct handle *handle, fuse_req_t req, uint32_t flags)
{
    const struct mount *m = fuse_req_userdata(req);

    if (m->strips_ids || handle->direct) {
        return (flags & FUSE_WRITE_KILL_SUIDGID) != 0;
    }
    /* What was mapped comes from the kernel's pages, some time, in nobody's name. */
    return file_is_shared(handle->file) && (flags & FUSE_WRITE_CACHE) == 0 &&
           fuse_req_ctx(req)->uid != 0;
}

static uint32_t write_flags(const char *bytes)
{
    struct fuse_write_in in;

    memcpy(&in, bytes - sizeof(in), sizeof(in)); /* Of the request, as it was received. */
    return in.write_flags;
}

/* Is it as long as the kernel's requests can be? Its buffer may not have begun with a page. */
static bool may_go_on(const struct file_write *write)
{
    return write->append && write->length > MOUNT_REQUEST_BYTES_MAX - BLOCK_BYTES;
}

static void on_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    struct write_op *op = mount_op_new(req, MOUNT_WRITE, sizeof(*op));
    struct file_write *write;

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->base.cancel = write_cancel;
    write = &op->write;
    write->handle = handle_of(fi);
    /* The bytes lie in the buffer into which the request was received: keeping it saves a copy. */
    write->holder = payload_ref(op->base.mount->receive);
    write->bytes = (const uint8_t *)bytes;
    write->length = size;
    write->offset = (uint64_t)offset;
    write->thread = fuse_req_ctx(req)->pid;
    write->append = (fi->flags & O_APPEND) != 0;
    write->more = may_go_on(write);
    write->written_back = (write_flags(bytes) & FUSE_WRITE_CACHE) != 0;
    write->strips_ids = strips_ids(write->handle, req, write_flags(bytes));
    kernel_view_writes(&write->handle->file->kernel);
    file_write_start(write, on_written);
}

/* ---- FLUSH, FSYNC, RELEASE ---- */

struct flush_op
{
    struct mount_op base;
    struct file_flush flush;
    struct handle *handle;
    inode_id inode;
    int status;
    uint64_t owner; /* Of its locks. */
    struct kernel_drop_waiter drop;
};

static void flush_cancel(struct mount_op *base)
{
    file_flush_cancel(&CONTAINER_OF(base, struct flush_op, base)->flush);
}

static void flush_end(struct mount_op *base)
{
    mount_op_fail(base, CONTAINER_OF(base, struct flush_op, base)->status);
}

static void flush_unlock(void *data)
{
    struct flush_op *op = data;

    if (op->flush.closes) {
        op->base.cancel = NULL;
        mount_unlock_process(op->base.mount, &op->base, op->inode, op->owner, flush_end);
    } else {
        flush_end(&op->base);
    }
}

/* Who is told that bytes are lost, and whoever has his locks next, reads what is there: the kernel
 * has dropped them by then. */
static void on_flushed(struct file_flush *flush, int status)
{
    struct flush_op *op = CONTAINER_OF(flush, struct flush_op, flush);

    op->status = status;
    if (status != 0 && status != MORSEL_CANCELED) {
        op->base.cancel = NULL; /* It ends when reads and writes of those pages do. */
        kernel_drop_then(op->base.mount->client, &op->drop, op->inode, 0, flush_unlock, op);
    } else {
        flush_unlock(op);
    }
}

static void flush(fuse_req_t req, struct fuse_file_info *fi, bool durable, bool data_only)
{
    struct mount *m = fuse_req_userdata(req);
    struct flush_op *op = mount_op_new(req, durable ? MOUNT_FSYNC : MOUNT_FLUSH, sizeof(*op));
    int rv;

    if (op == NULL) {
        if (!durable) {
            mount_unlock_process(m, NULL, handle_of(fi)->file->inode, fi->lock_owner, NULL);
        }
        return;
    }
    op->base.cancel = flush_cancel;
    op->flush.data_only = data_only;
    op->flush.closes = !durable;
    op->inode = handle_of(fi)->file->inode;
    op->owner = fi->lock_owner;
    op->flush.behind = !durable && !file_is_shared(handle_of(fi)->file) &&
                       behind_takes_report(op->base.mount->client);
    rv = file_flush_start(&op->flush, handle_of(fi)->file, handle_of(fi), durable, on_flushed);
    if (rv != 0) {
        mount_op_fail(&op->base, rv);
    }
}

static void on_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    append_end_of(handle_of(fi));
    flush(req, fi, false, false);
}

static void on_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)ino;
    flush(req, fi, true, datasync != 0);
}

static void released(void *data, int status)
{
    struct flush_op *op = data;
    struct mount *m = op->base.mount;

    mount_unlock_handle(m, op->handle);
    file_close(op->handle);
    mount_op_fail(&op->base, status);
    mount_release_ended(m);
}

static void on_released(struct file_flush *flush, int status)
{
    struct flush_op *op = CONTAINER_OF(flush, struct flush_op, flush);

    op->base.cancel = NULL;
    if (!scavenged_seal(op->handle, released, op)) {
        released(op, status);
    }
}

/* What was written after the last FLUSH (through a mapping) goes out now; nobody is left to hear of
 * an error but the log. */
static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct handle *handle = handle_of(fi);
    struct mount *m = fuse_req_userdata(req);
    struct flush_op *op = mount_op_new(req, MOUNT_RELEASE, sizeof(*op));

    (void)ino;
    append_end_of(handle);
    if (op == NULL) { /* What is dirty goes out with time. */
        mount_unlock_handle(m, handle);
        file_close(handle);
        return;
    }
    op->handle = handle;
    op->base.mount->releasing++;
    op->base.cancel = flush_cancel;
    if (file_flush_start(&op->flush, handle->file, handle, false, on_released) != 0) {
        on_released(&op->flush, MORSEL_NOMEM);
    }
}

void mount_file_operations(struct fuse_lowlevel_ops *ops)
{
    ops->read = on_read;
    ops->write = on_write;
    ops->flush = on_flush;
    ops->fsync = on_fsync;
    ops->release = on_release;
}
