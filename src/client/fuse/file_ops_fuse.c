/* Open files: READ, WRITE, FLUSH, FSYNC, RELEASE. */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/lock_uv.h"
#include "client/coherence/turn_uv.h"
#include "client/data/append_uv.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

static struct handle *handle_of(const struct fuse_file_info *fi)
{
    struct handle *handle = (struct handle *)(uintptr_t)fi->fh;

    if (handle->unheard) { /* So the answer to CREATE has arrived. */
        handle->unheard = false;
        meta_cache_kernel_heard(handle->file->client->cache, handle->file->inode);
    }
    return handle;
}

/* ---- READ ---- */

struct read_op
{
    struct mount_op base;
    uint32_t length; /* As the kernel wants it. */
    bool shared;
    bool counted; /* In file->kernel_reads. */
    struct turn turn;
    struct file_read read;
};

static void read_counted_end(struct read_op *op);

static void read_cancel(struct mount_op *base)
{
    file_read_cancel(&CONTAINER_OF(base, struct read_op, base)->read);
}

static void read_end(struct read_op *op, int status)
{
    turn_end(&op->turn);
    if (status != 0) {
        op->base.mount->statistics[op->base.kind].failed++;
        (void)fuse_reply_err(op->base.req, client_errno(op->base.mount->client, status));
    }
    read_counted_end(op); /* Its answer is with the kernel. */
    mount_op_end(&op->base);
}

static void read_reply(struct read_op *op)
{
    struct iovec iov[FILE_READ_IOV_MAX];
    unsigned count = file_read_gather(&op->read, iov);

    op->base.bytes = op->read.length;
    (void)fuse_reply_iov(op->base.req, iov, (int)count);
    file_read_end(&op->read);
    read_end(op, MORSEL_OK);
}

static void read_shared(struct mount_op *base, int status);

static void on_read_turn(struct turn *turn, int status)
{
    struct read_op *op = CONTAINER_OF(turn, struct read_op, turn);

    op->base.cancel = NULL;
    if (status == 0) {
        mount_refresh_size(&op->base, op->read.handle->file, read_shared);
    } else {
        read_end(op, status);
    }
}

static void read_turn_cancel(struct mount_op *base)
{
    turn_cancel(&CONTAINER_OF(base, struct read_op, base)->turn);
}

/* Bytes are missing within the size that we were told: a hole, or somebody is about to cut the
 * file. Nobody does while it is our turn. */
static void read_in_turn(struct read_op *op)
{
    op->base.cancel = read_turn_cancel;
    turn_take(&op->turn, op->base.mount->client, op->read.handle->file->inode, LOCK_SHARED,
              on_read_turn);
}

static void on_read_done(struct file_read *read, int status)
{
    struct read_op *op = CONTAINER_OF(read, struct read_op, read);

    if (status == 0 && op->shared && !op->turn.had && file_read_is_short(read)) {
        file_read_end(read);
        read_in_turn(op);
    } else if (status == 0) {
        read_reply(op);
    } else {
        file_read_end(read);
        read_end(op, status);
    }
}

/* Somebody else may be writing: the manager knows how long the file is now (or we do, in our turn),
 * and the servers what is in it. */
static void read_shared(struct mount_op *base, int status)
{
    struct read_op *op = CONTAINER_OF(base, struct read_op, base);

    if (status != 0) {
        read_end(op, status);
        return;
    }
    base->cancel = read_cancel;
    op->shared = true;
    file_read_start(&op->read, op->read.handle, op->read.offset, op->length, &base->refreshed_size,
                    on_read_done);
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    struct read_op *op =
        mount_op_new_head(req, MOUNT_READ, sizeof(*op), offsetof(struct read_op, read.parts));

    (void)ino;
    if (op == NULL) {
        return;
    }
    op->base.cancel = read_cancel;
    if (size > MOUNT_REQUEST_BYTES_MAX) {
        size = MOUNT_REQUEST_BYTES_MAX;
    }
    op->read.handle = handle_of(fi);
    op->read.offset = (uint64_t)offset;
    op->length = (uint32_t)size;
    op->counted = !op->read.handle->direct && file_is_shared(op->read.handle->file);
    op->read.handle->file->kernel_reads += op->counted;
    if (file_is_shared(op->read.handle->file) &&
        turn_join(&op->turn, op->base.mount->client, op->read.handle->file->inode,
                  op->read.offset + op->length, &op->base.refreshed_size)) {
        read_shared(&op->base, MORSEL_OK);
    } else if (file_is_shared(op->read.handle->file)) {
        op->base.cancel = NULL;
        mount_refresh_size(&op->base, op->read.handle->file, read_shared);
    } else {
        file_read_start(&op->read, op->read.handle, op->read.offset, op->length, NULL,
                        on_read_done);
    }
}

/* ---- WRITE ---- */

/* A write that waits for room in the buffer. */
struct write_op
{
    struct mount_op base;
    struct file_write_wait wait;
    struct handle *handle;
    struct payload *holder;
    const uint8_t *bytes;
    size_t size;
    uint64_t offset;
    struct file_flush flush; /* Of a shared file. */
    struct turn turn;
    bool append;
    bool reaches;           /* Of a shared file: behind an end beyond which there may be bytes. */
    struct append_who next; /* To append: the request that may come behind this one. */
    struct append *kept;    /* Since the one before. */
    struct list held;       /* In file->held_writes. */
    int status;
    unsigned behind; /* So many READs are to end first. */
};

/* Is it as long as the kernel's requests can be? Its buffer may not have begun with a page. */
static bool may_go_on(const struct write_op *op)
{
    return op->append && op->size > MOUNT_REQUEST_BYTES_MAX - BLOCK_BYTES;
}

static void end_turn(struct write_op *op, int status)
{
    if (status == 0 && may_go_on(op)) {
        append_keep(op->kept, op->handle->file, &op->next, &op->turn);
    } else {
        turn_end(&op->turn);
        append_end(op->kept);
    }
}

static void write_reply(struct write_op *op, int status)
{
    op->handle->file->kernel_writes--;
    file_note_kernel_changed(op->handle->file);
    if (status == 0) {
        op->base.bytes = (uint32_t)op->size;
        (void)fuse_reply_write(op->base.req, op->size);
        mount_op_end(&op->base);
    } else {
        mount_op_fail(&op->base, status);
    }
}

/* One READ less. A WRITE that waits does so for as many as were there before it, whichever end. */
static void read_counted_end(struct read_op *op)
{
    struct file *file = op->read.handle->file;

    if (!op->counted) {
        return;
    }
    file->kernel_reads--;
    LIST_FOREACH_SAFE(node, &file->held_writes)
    {
        struct write_op *write = LIST_ENTRY(node, struct write_op, held);

        if (--write->behind == 0 || file->kernel_reads == 0) {
            list_remove(&write->held);
            write_reply(write, write->status);
        }
    }
}

/* By how little a READ for its pages brings, the kernel sees that a shared file has become shorter;
 * but not when a WRITE is answered between its question and our answer. So WRITEs are answered
 * behind READs. */
static void write_end(struct write_op *op, int status)
{
    payload_drop(op->holder);
    if (op->handle->direct) {
        /* Somebody may have read the old bytes into the kernel's pages meanwhile: the next who
         * reads through them asks, and they go. */
        op->handle->file->kernel_pages_shared = true;
    }
    end_turn(op, status);
    if (status == 0 && op->offset + op->size > op->handle->file->kernel_size) {
        op->handle->file->kernel_size = op->offset + op->size;
    }
    /* What goes on is not held up: a READ may be waiting for its turn. */
    op->behind = may_go_on(op) ? 0 : op->handle->file->kernel_reads;
    if (op->behind > 0) {
        op->status = status;
        op->base.cancel = NULL;
        list_push_back(&op->handle->file->held_writes, &op->held);
    } else {
        write_reply(op, status);
    }
}

static void on_written_through(struct file_flush *flush, int status)
{
    write_end(CONTAINER_OF(flush, struct write_op, flush), status);
}

/* Others may read as soon as we have answered: then the bytes are at the servers and the manager
 * knows the size. */
static void write_through(struct write_op *op)
{
    int rv;

    op->base.cancel = NULL;
    rv = file_flush_start(&op->flush, op->handle->file, op->handle, false, on_written_through);
    if (rv != 0) {
        write_end(op, rv);
    }
}

static void write_in_turn(struct write_op *op);

static void write_again(struct file_write_wait *wait)
{
    struct write_op *op = CONTAINER_OF(wait, struct write_op, wait);
    int rv;

    if (file_is_shared(op->handle->file) && !op->turn.had) {
        write_in_turn(op);
        return;
    }
    if (op->turn.had && !turn_is_good(&op->turn)) {
        write_end(op, MORSEL_TOO_LATE);
        return;
    }
    rv = file_write(op->handle, op->offset, op->bytes, op->size, op->holder, &op->wait);

    if (rv == 0 && file_is_shared(op->handle->file)) {
        write_through(op);
    } else if (rv != MORSEL_AGAIN) {
        write_end(op, rv);
    }
}

static void write_cancel(struct mount_op *base)
{
    struct write_op *op = CONTAINER_OF(base, struct write_op, base);

    list_remove(&op->wait.node);
    write_end(op, MORSEL_CANCELED);
}

static void append_there(struct mount_op *base, int status)
{
    struct write_op *op = CONTAINER_OF(base, struct write_op, base);

    if (status != 0) {
        write_end(op, status);
        return;
    }
    op->offset = op->handle->file->size;
    base->cancel = write_cancel;
    write_again(&op->wait);
}

/* Nobody else writes: the end is where the manager says. */
static void reach_there(struct mount_op *base, int status)
{
    struct write_op *op = CONTAINER_OF(base, struct write_op, base);
    struct file *file = op->handle->file;

    if (status == 0 && op->offset > file->size && !file_clean_tail(file)) {
        status = MORSEL_NOMEM;
    }
    if (status != 0) {
        write_end(op, status);
        return;
    }
    base->cancel = write_cancel;
    write_again(&op->wait);
}

static void on_turn(struct turn *turn, int status)
{
    struct write_op *op = CONTAINER_OF(turn, struct write_op, turn);

    op->base.cancel = NULL;
    if (status == 0 && (op->append || op->reaches)) {
        mount_refresh_size(&op->base, op->handle->file, op->append ? append_there : reach_there);
    } else if (status == 0) {
        op->base.cancel = write_cancel;
        write_again(&op->wait);
    } else {
        write_end(op, status);
    }
}

static void write_turn_cancel(struct mount_op *base)
{
    turn_cancel(&CONTAINER_OF(base, struct write_op, base)->turn);
}

/* The kernel's idea of where the file ends may be old, and others append too: everybody in turn, so
 * that appends never overlap, and leave no hole when somebody dies in the middle. Other writes go
 * on side by side, but not beside an append, which would not know of them, nor beside a cut. */
static void write_in_turn(struct write_op *op)
{
    op->base.cancel = write_turn_cancel;
    op->reaches = op->handle->file->tail_unsure && op->offset > op->handle->file->size;
    turn_take(&op->turn, op->base.mount->client, op->handle->file->inode,
              op->append || op->reaches ? LOCK_EXCLUSIVE : LOCK_SHARED, on_turn);
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

/* Does it go on with the write(2) of the request before? True: that one's turn is ours, and it is
 * under way. */
static bool go_on(struct write_op *op)
{
    struct append_who who = { op->handle, fuse_req_ctx(op->base.req)->pid, op->offset };
    struct file *file = op->handle->file;

    op->next = who;
    op->next.offset += op->size;
    op->kept = append_take(file, &who);
    if (op->kept == NULL || !op->kept->turn.had || !file_is_shared(file)) {
        return false;
    }
    turn_move(&op->turn, &op->kept->turn);
    op->base.cancel = NULL;
    mount_refresh_size(&op->base, file, append_there);
    return true;
}

static void on_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    struct write_op *op = mount_op_new(req, MOUNT_WRITE, sizeof(*op));

    if (op == NULL) {
        return;
    }
    /* The bytes lie in the buffer into which the request was received: keeping it saves a copy. */
    op->holder = payload_ref(op->base.mount->receive);
    op->bytes = (const uint8_t *)bytes;
    op->size = size;
    op->offset = (uint64_t)offset;
    op->handle = handle_of(fi);
    op->handle->file->kernel_writes++;
    list_init(&op->held);
    op->wait.go = write_again;
    op->append = (fi->flags & O_APPEND) != 0;
    if (strips_ids(op->handle, req, write_flags(bytes))) {
        file_strip_ids(op->handle->file);
    }
    if ((write_flags(bytes) & FUSE_WRITE_CACHE) == 0 && go_on(op)) {
        return;
    }
    if (!file_is_shared(op->handle->file) && op->append && op->offset != op->handle->file->size) {
        /* The file is ours alone again, and the kernel has not heard yet how long it has become:
         * the bytes go behind those of others, and its pages are wrong. */
        op->offset = op->handle->file->size;
        lease_kernel_drop(op->base.mount->client, ino);
    }
    op->base.cancel = write_cancel;
    write_again(&op->wait);
}

/* ---- FLUSH, FSYNC, RELEASE ---- */

struct flush_op
{
    struct mount_op base;
    struct file_flush flush;
    struct handle *handle;
    int status;
    bool closing;   /* FLUSH: what the process has locked is free then. */
    uint64_t owner; /* Of its locks. */
};

static void flush_cancel(struct mount_op *base)
{
    file_flush_cancel(&CONTAINER_OF(base, struct flush_op, base)->flush);
}

static void flush_end(struct mount_op *base)
{
    mount_op_fail(base, CONTAINER_OF(base, struct flush_op, base)->status);
}

static void on_flushed(struct file_flush *flush, int status)
{
    struct flush_op *op = CONTAINER_OF(flush, struct flush_op, flush);

    op->status = status;
    if (op->closing) {
        op->base.cancel = NULL;
        mount_unlock_process(op->base.mount, &op->base, flush->file->inode, op->owner, flush_end);
    } else {
        flush_end(&op->base);
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
    op->closing = !durable;
    op->owner = fi->lock_owner;
    op->flush.behind = !durable && !file_is_shared(handle_of(fi)->file) &&
                       op->base.mount->client->reports_behind < BEHIND_REPORTS_MAX;
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

static void on_released(struct file_flush *flush, int status)
{
    struct flush_op *op = CONTAINER_OF(flush, struct flush_op, flush);

    struct mount *m = op->base.mount;

    mount_unlock_handle(m, op->handle);
    file_close(op->handle);
    mount_op_fail(&op->base, status);
    mount_release_ended(m);
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
