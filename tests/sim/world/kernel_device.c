/* The device between the kernel and a mount, and the libfuse that reads it. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>

/* ---- libfuse, as the mount sees it ---- */

int fuse_session_fd(struct fuse_session *k)
{
    return k->fd;
}

int fuse_session_exited(struct fuse_session *k)
{
    return k->exited && list_empty(&k->asked);
}

/* Laid out as the kernel does it: the mount looks at what stands before the bytes of a WRITE. */
int fuse_session_receive_buf(struct fuse_session *k, struct fuse_buf *buf)
{
    struct list *node = list_pop_front(&k->asked);
    struct fuse_req *req;
    struct fuse_in_header header;
    struct fuse_write_in write = { .fh = 0 };
    char *at = buf->mem;

    if (node == NULL) {
        return k->exited ? 0 : -EAGAIN;
    }
    req = LIST_ENTRY(node, struct fuse_req, node);
    list_push_back(&k->answered, node);
    if (!list_empty(&k->asked)) {
        world_poll_readable(&k->mount->poll); /* Still. */
    }
    header = (struct fuse_in_header){ .opcode = req->opcode,
                                      .unique = req->unique,
                                      .nodeid = req->inode,
                                      .pid = (uint32_t)req->context.pid };
    if (req->opcode == FUSE_WRITE) {
        write.fh = req->info->fh;
        write.offset = req->offset;
    }
    memcpy(at, &header, sizeof(header));
    memcpy(at + sizeof(header), &write, sizeof(write));
    buf->size = sizeof(header) + sizeof(write);
    if (req->opcode == FUSE_WRITE) {
        memcpy(at + buf->size, req->bytes, req->size);
        buf->size += req->size;
    }
    return (int)buf->size;
}

static bool process_name(struct fuse_session *k, struct fuse_req *req)
{
    switch (req->opcode) {
    case FUSE_LOOKUP:
        k->ops.lookup(req, req->inode, req->name);
        break;
    case FUSE_CREATE:
        k->ops.create(req, req->inode, req->name, S_IFREG | 0644, req->info);
        break;
    case FUSE_MKDIR:
        k->ops.mkdir(req, req->inode, req->name, 0755);
        break;
    case FUSE_MKNOD:
        k->ops.mknod(req, req->inode, req->name, S_IFIFO | 0644, 0);
        break;
    case FUSE_SYMLINK:
        k->ops.symlink(req, req->name_to, req->inode, req->name);
        break;
    case FUSE_LINK:
        k->ops.link(req, req->inode_to, req->inode, req->name);
        break;
    case FUSE_UNLINK:
        k->ops.unlink(req, req->inode, req->name);
        break;
    case FUSE_RMDIR:
        k->ops.rmdir(req, req->inode, req->name);
        break;
    case FUSE_RENAME2:
        k->ops.rename(req, req->inode, req->name, req->inode_to, req->name_to,
                      (unsigned)req->flags);
        break;
    default:
        return false;
    }
    return true;
}

static bool process_inode(struct fuse_session *k, struct fuse_req *req)
{
    switch (req->opcode) {
    case FUSE_FORGET:
        k->ops.forget(req, req->inode, req->count_forgotten);
        break;
    case FUSE_GETATTR:
        k->ops.getattr(req, req->inode, req->info);
        break;
    case FUSE_SETATTR:
        k->ops.setattr(req, req->inode, &req->set, req->valid, req->info);
        break;
    case FUSE_READLINK:
        k->ops.readlink(req, req->inode);
        break;
    case FUSE_STATFS:
        k->ops.statfs(req, req->inode);
        break;
    case FUSE_GETXATTR:
        k->ops.getxattr(req, req->inode, req->name, req->size);
        break;
    case FUSE_LISTXATTR:
        k->ops.listxattr(req, req->inode, req->size);
        break;
    case FUSE_SETXATTR:
        k->ops.setxattr(req, req->inode, req->name, req->bytes, req->size, req->flags);
        break;
    case FUSE_REMOVEXATTR:
        k->ops.removexattr(req, req->inode, req->name);
        break;
    case FUSE_OPEN:
        k->ops.open(req, req->inode, req->info);
        break;
    case FUSE_OPENDIR:
        k->ops.opendir(req, req->inode, req->info);
        break;
    default:
        return false;
    }
    return true;
}

static bool process_bytes(struct fuse_session *k, struct fuse_req *req, const char *payload)
{
    switch (req->opcode) {
    case FUSE_READ:
        k->ops.read(req, req->inode, req->size, (off_t)req->offset, req->info);
        break;
    case FUSE_WRITE:
        k->ops.write(req, req->inode, payload, req->size, (off_t)req->offset, req->info);
        break;
    case FUSE_FALLOCATE:
        k->ops.fallocate(req, req->inode, req->flags, (off_t)req->offset, (off_t)req->length,
                         req->info);
        break;
    case FUSE_LSEEK:
        k->ops.lseek(req, req->inode, (off_t)req->offset, req->flags, req->info);
        break;
    case FUSE_COPY_FILE_RANGE:
        k->ops.copy_file_range(req, req->inode, (off_t)req->offset, req->info, req->inode_to,
                               (off_t)req->offset_to, req->info_to, req->length, 0);
        break;
    case FUSE_IOCTL:
        k->ops.ioctl(req, req->inode, (unsigned)req->flags, NULL, req->info, 0, req->bytes,
                     req->size, req->length);
        break;
    case FUSE_FSYNC:
        k->ops.fsync(req, req->inode, 0, req->info);
        break;
    case FUSE_FLUSH:
        k->ops.flush(req, req->inode, req->info);
        break;
    case FUSE_RELEASE:
        k->ops.release(req, req->inode, req->info);
        break;
    default:
        return false;
    }
    return true;
}

static bool process_handle(struct fuse_session *k, struct fuse_req *req)
{
    switch (req->opcode) {
    case FUSE_GETLK:
        k->ops.getlk(req, req->inode, req->info, req->lock);
        break;
    case FUSE_SETLK:
    case FUSE_SETLKW:
        if (req->lock != NULL) {
            k->ops.setlk(req, req->inode, req->info, req->lock, req->opcode == FUSE_SETLKW);
        } else {
            k->ops.flock(req, req->inode, req->info, req->flock);
        }
        break;
    case FUSE_READDIR:
        k->ops.readdir(req, req->inode, req->size, (off_t)req->offset, req->info);
        break;
    case FUSE_READDIRPLUS:
        k->ops.readdirplus(req, req->inode, req->size, (off_t)req->offset, req->info);
        break;
    case FUSE_FSYNCDIR:
        k->ops.fsyncdir(req, req->inode, 0, req->info);
        break;
    case FUSE_RELEASEDIR:
        k->ops.releasedir(req, req->inode, req->info);
        break;
    default:
        return false;
    }
    return true;
}

static struct fuse_req *find_read(const struct fuse_session *k, uint64_t unique)
{
    LIST_FOREACH(node, &k->answered)
    {
        struct fuse_req *req = LIST_ENTRY(node, struct fuse_req, node);

        if (req->unique == unique) {
            return req;
        }
    }
    return NULL;
}

/* It has no answer. */
static void process_interrupt(struct fuse_session *k, struct fuse_req *req)
{
    struct fuse_req *of = find_read(k, req->of);

    if (of != NULL) {
        of->interrupted = true;
        if (of->on_interrupt != NULL) {
            of->on_interrupt(of, of->on_interrupt_data);
        }
    }
    list_remove(&req->node);
    free(req);
}

void fuse_session_process_buf(struct fuse_session *k, const struct fuse_buf *buf)
{
    struct fuse_in_header header;
    struct fuse_req *req;

    memcpy(&header, buf->mem, sizeof(header));
    req = find_read(k, header.unique);
    if (req == NULL) {
        world_fail("request %llu is lost", (unsigned long long)header.unique);
    }
    if (req->opcode == FUSE_INTERRUPT) {
        process_interrupt(k, req);
    } else if (!process_name(k, req) && !process_inode(k, req) && !process_handle(k, req) &&
               !process_bytes(k, req,
                              (const char *)buf->mem + sizeof(header) +
                                  sizeof(struct fuse_write_in))) {
        world_fail("request %u is unknown", req->opcode);
    }
}

void *fuse_req_userdata(fuse_req_t req)
{
    return req->kernel->mount;
}

const struct fuse_ctx *fuse_req_ctx(fuse_req_t req)
{
    return &req->context;
}

void fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t func, void *data)
{
    req->on_interrupt = func;
    req->on_interrupt_data = data;
    if (req->interrupted && func != NULL) {
        func(req, data);
    }
}

/* ---- Answers ---- */

int fuse_reply_err(fuse_req_t req, int error)
{
    return kernel_answer(req, error);
}

void fuse_reply_none(fuse_req_t req)
{
    (void)kernel_answer(req, 0);
}

int fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
{
    req->entry = *entry;
    return kernel_answer(req, 0);
}

int fuse_reply_create(fuse_req_t req, const struct fuse_entry_param *entry,
                      const struct fuse_file_info *info)
{
    req->entry = *entry;
    req->info_answered = *info;
    return kernel_answer(req, 0);
}

int fuse_reply_open(fuse_req_t req, const struct fuse_file_info *info)
{
    req->info_answered = *info;
    return kernel_answer(req, 0);
}

int fuse_reply_attr(fuse_req_t req, const struct stat *st, double seconds)
{
    req->seconds = seconds;
    req->st = *st;
    return kernel_answer(req, 0);
}

int fuse_reply_write(fuse_req_t req, size_t count)
{
    req->count = count;
    return kernel_answer(req, 0);
}

int fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int count)
{
    for (int i = 0; i < count; i++) {
        size_t part = iov[i].iov_len;

        if (part > req->size - req->count) {
            world_fail("more bytes than were asked for");
        }
        if (part > 0) {
            memcpy((char *)req->into + req->count, iov[i].iov_base, part);
        }
        req->count += part;
    }
    return kernel_answer(req, 0);
}

int fuse_reply_buf(fuse_req_t req, const char *bytes, size_t size)
{
    struct iovec iov = { (void *)(uintptr_t)bytes, size };

    return fuse_reply_iov(req, &iov, 1);
}

size_t fuse_add_direntry(fuse_req_t req, char *bytes, size_t size, const char *name,
                         const struct stat *st, off_t offset)
{
    struct fuse_dirent entry = { .ino = st->st_ino,
                                 .off = (uint64_t)offset,
                                 .namelen = (uint32_t)strlen(name) };
    size_t takes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);

    (void)req;
    if (bytes != NULL && takes <= size) {
        memset(bytes, 0, takes);
        memcpy(bytes, &entry, FUSE_NAME_OFFSET);
        memcpy(bytes + FUSE_NAME_OFFSET, name, entry.namelen);
    }
    return takes;
}

size_t fuse_add_direntry_plus(fuse_req_t req, char *bytes, size_t size, const char *name,
                              const struct fuse_entry_param *e, off_t offset)
{
    size_t takes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + strlen(name));

    if (bytes != NULL && sizeof(*e) + takes <= size) { /* The kernel's own has other fields. */
        memcpy(bytes, e, sizeof(*e));
        (void)fuse_add_direntry(req, bytes + sizeof(*e), takes, name, &e->attr, offset);
    }
    return sizeof(*e) + takes;
}

int fuse_reply_readlink(fuse_req_t req, const char *link)
{
    return fuse_reply_buf(req, link, strlen(link));
}

int fuse_reply_statfs(fuse_req_t req, const struct statvfs *fs)
{
    req->space = *fs;
    return kernel_answer(req, 0);
}

int fuse_reply_xattr(fuse_req_t req, size_t count)
{
    req->count = count;
    return kernel_answer(req, 0);
}

int fuse_reply_lock(fuse_req_t req, const struct flock *lock)
{
    *req->lock = *lock;
    return kernel_answer(req, 0);
}

int fuse_reply_lseek(fuse_req_t req, off_t offset)
{
    req->offset_to = (uint64_t)offset;
    return kernel_answer(req, 0);
}

int fuse_reply_ioctl(fuse_req_t req, int result, const void *bytes, size_t count)
{
    if (result != 0 || count > req->length) {
        world_fail("an ioctl says %d, and %zu bytes of %llu", result, count,
                   (unsigned long long)req->length);
    }
    if (count > 0) {
        memcpy(req->into, bytes, count);
    }
    return kernel_answer(req, 0);
}

int fuse_session_custom_io(struct fuse_session *k, const struct fuse_custom_io *io, int fd)
{
    (void)k;
    (void)io;
    (void)fd;
    world_fail("%s", __func__);
}
