#include "tests/sim/world/kernel.h"

#include "tests/sim/world/fiber.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>

/* A request, and what was answered. */
struct fuse_req
{
    struct list node;
    struct fuse_session *kernel;
    struct fuse_ctx context;
    uint32_t opcode;
    uint64_t unique;
    fuse_ino_t inode;
    const char *name, *name_to;
    const void *bytes;
    size_t size;
    uint64_t offset;
    struct fuse_file_info *info;
    struct flock *lock;
    int flock; /* What flock(2) was told. */
    /* The answer */
    struct fiber *asker; /* NULL: nobody waits for it. */
    bool done;
    int error;
    struct fuse_entry_param entry;
    struct stat st;
    struct fuse_file_info info_answered;
    void *into;
    size_t count;
};

void kernel_open(struct fuse_session *k, struct mount *mount, struct world_process *process)
{
    memset(k, 0, sizeof(*k));
    mount_operations(&k->ops);
    k->mount = mount;
    k->process = process;
    k->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(k->fd >= 0);
    list_init(&k->asked);
    list_init(&k->answered);
}

/* ---- Asking ---- */

static void ask(struct fuse_req *req)
{
    struct fuse_session *k = req->kernel;

    req->unique = ++k->unique;
    /* No thread that the mount could tell from others: all programs ask here. */
    req->context = (struct fuse_ctx){ .pid = 0, .umask = 022 };
    list_init(&req->node);
    list_push_back(&k->asked, &req->node);
    world_poll_readable(&k->mount->poll);
}

static int ask_and_wait(struct fuse_req *req)
{
    if (!req->kernel->process->alive || !req->kernel->mount->mounted) {
        return ENOTCONN;
    }
    req->asker = fiber_self();
    ask(req);
    fiber_wait();
    CHECK(req->done);
    return req->error;
}

/* The program runs again when the scheduler lets it. */
static int answer(struct fuse_req *req, int error)
{
    CHECK(!req->done);
    if (error != 0 && error != ENOENT) {
        world_trace(req->kernel->process->name, "request %u on inode %llu: %s", req->opcode,
                    (unsigned long long)req->inode, strerror(error));
    }
    req->done = true;
    req->error = error;
    list_remove(&req->node);
    if (req->asker != NULL) {
        fiber_wake(req->asker, 2000 + world_draw_skewed(50000));
    } else {
        free(req);
    }
    return 0;
}

void kernel_abort(struct fuse_session *k)
{
    struct list *node;

    while ((node = list_front(&k->asked)) != NULL || (node = list_front(&k->answered)) != NULL) {
        (void)answer(LIST_ENTRY(node, struct fuse_req, node), ENOTCONN);
    }
}

/* ---- libfuse, as the mount sees it ---- */

int fuse_session_fd(struct fuse_session *k)
{
    return k->fd;
}

int fuse_session_exited(struct fuse_session *k)
{
    (void)k;
    return 0;
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
        return -EAGAIN;
    }
    req = LIST_ENTRY(node, struct fuse_req, node);
    list_push_back(&k->answered, node);
    header = (struct fuse_in_header){ .opcode = req->opcode,
                                      .unique = req->unique,
                                      .nodeid = req->inode };
    memcpy(at, &header, sizeof(header));
    memcpy(at + sizeof(header), &write, sizeof(write));
    buf->size = sizeof(header) + sizeof(write);
    if (req->opcode == FUSE_WRITE) {
        memcpy(at + buf->size, req->bytes, req->size);
        buf->size += req->size;
    }
    return (int)buf->size;
}

static void process(struct fuse_session *k, struct fuse_req *req, const char *payload)
{
    switch (req->opcode) {
    case FUSE_LOOKUP:
        k->ops.lookup(req, req->inode, req->name);
        break;
    case FUSE_FORGET:
        k->ops.forget(req, req->inode, 1);
        break;
    case FUSE_GETATTR:
        k->ops.getattr(req, req->inode, req->info);
        break;
    case FUSE_CREATE:
        k->ops.create(req, req->inode, req->name, S_IFREG | 0644, req->info);
        break;
    case FUSE_MKDIR:
        k->ops.mkdir(req, req->inode, req->name, 0755);
        break;
    case FUSE_UNLINK:
        k->ops.unlink(req, req->inode, req->name);
        break;
    case FUSE_RENAME2:
        k->ops.rename(req, req->inode, req->name, req->inode, req->name_to, 0);
        break;
    case FUSE_OPEN:
        k->ops.open(req, req->inode, req->info);
        break;
    case FUSE_READ:
        k->ops.read(req, req->inode, req->size, (off_t)req->offset, req->info);
        break;
    case FUSE_WRITE:
        k->ops.write(req, req->inode, payload, req->size, (off_t)req->offset, req->info);
        break;
    case FUSE_SETLK:
    case FUSE_SETLKW:
        if (req->lock != NULL) {
            k->ops.setlk(req, req->inode, req->info, req->lock, req->opcode == FUSE_SETLKW);
        } else {
            k->ops.flock(req, req->inode, req->info, req->flock);
        }
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
    case FUSE_OPENDIR:
        k->ops.opendir(req, req->inode, req->info);
        break;
    case FUSE_FSYNCDIR:
        k->ops.fsyncdir(req, req->inode, 0, req->info);
        break;
    case FUSE_RELEASEDIR:
        k->ops.releasedir(req, req->inode, req->info);
        break;
    default:
        world_fail("request %u is unknown", req->opcode);
    }
}

void fuse_session_process_buf(struct fuse_session *k, const struct fuse_buf *buf)
{
    struct fuse_in_header header;

    memcpy(&header, buf->mem, sizeof(header));
    LIST_FOREACH(node, &k->answered)
    {
        struct fuse_req *req = LIST_ENTRY(node, struct fuse_req, node);

        if (req->unique == header.unique) {
            process(k, req, (const char *)buf->mem + sizeof(header) + sizeof(struct fuse_write_in));
            return;
        }
    }
    world_fail("request %llu is lost", (unsigned long long)header.unique);
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
    (void)req; /* Nobody is interrupted yet. */
    (void)func;
    (void)data;
}

int fuse_lowlevel_notify_inval_inode(struct fuse_session *k, fuse_ino_t inode, off_t offset,
                                     off_t length)
{
    (void)k;
    (void)inode;
    (void)offset;
    (void)length;
    return 0; /* We had kept nothing. */
}

/* ---- Answers ---- */

int fuse_reply_err(fuse_req_t req, int error)
{
    return answer(req, error);
}

void fuse_reply_none(fuse_req_t req)
{
    (void)answer(req, 0);
}

int fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry)
{
    req->entry = *entry;
    return answer(req, 0);
}

int fuse_reply_create(fuse_req_t req, const struct fuse_entry_param *entry,
                      const struct fuse_file_info *info)
{
    req->entry = *entry;
    req->info_answered = *info;
    return answer(req, 0);
}

int fuse_reply_open(fuse_req_t req, const struct fuse_file_info *info)
{
    req->info_answered = *info;
    return answer(req, 0);
}

int fuse_reply_attr(fuse_req_t req, const struct stat *st, double seconds)
{
    (void)seconds;
    req->st = *st;
    return answer(req, 0);
}

int fuse_reply_write(fuse_req_t req, size_t count)
{
    req->count = count;
    return answer(req, 0);
}

int fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int count)
{
    for (int i = 0; i < count; i++) {
        size_t part = iov[i].iov_len;

        if (part > req->size - req->count) {
            world_fail("more bytes than were asked for");
        }
        memcpy((char *)req->into + req->count, iov[i].iov_base, part);
        req->count += part;
    }
    return answer(req, 0);
}

int fuse_reply_buf(fuse_req_t req, const char *bytes, size_t size)
{
    struct iovec iov = { (void *)(uintptr_t)bytes, size };

    return fuse_reply_iov(req, &iov, 1);
}

/* ---- Answers to what is not asked yet ---- */

#define NOT_ASKED(declaration)                                                                     \
    declaration                                                                                    \
    {                                                                                              \
        world_fail("%s", __func__);                                                                \
    }
NOT_ASKED(int fuse_reply_readlink(fuse_req_t req __attribute__((unused)),
                                  const char *link __attribute__((unused))))
NOT_ASKED(int fuse_reply_statfs(fuse_req_t req __attribute__((unused)),
                                const struct statvfs *fs __attribute__((unused))))
NOT_ASKED(int fuse_reply_xattr(fuse_req_t req __attribute__((unused)),
                               size_t count __attribute__((unused))))
NOT_ASKED(int fuse_reply_lock(fuse_req_t req __attribute__((unused)),
                              const struct flock *lock __attribute__((unused))))
NOT_ASKED(int fuse_reply_lseek(fuse_req_t req __attribute__((unused)),
                               off_t offset __attribute__((unused))))
NOT_ASKED(size_t fuse_add_direntry(
    fuse_req_t req __attribute__((unused)), char *bytes __attribute__((unused)),
    size_t size __attribute__((unused)), const char *name __attribute__((unused)),
    const struct stat *st __attribute__((unused)), off_t offset __attribute__((unused))))
NOT_ASKED(size_t fuse_add_direntry_plus(
    fuse_req_t req __attribute__((unused)), char *bytes __attribute__((unused)),
    size_t size __attribute__((unused)), const char *name __attribute__((unused)),
    const struct fuse_entry_param *e __attribute__((unused)), off_t offset __attribute__((unused))))
NOT_ASKED(int fuse_session_custom_io(struct fuse_session *k __attribute__((unused)),
                                     const struct fuse_custom_io *io __attribute__((unused)),
                                     int fd __attribute__((unused))))

/* ---- Calls ---- */

int kernel_lookup(struct fuse_session *k, fuse_ino_t parent, const char *name, fuse_ino_t *inode)
{
    struct fuse_req req = { .kernel = k, .opcode = FUSE_LOOKUP, .inode = parent, .name = name };
    int rv = ask_and_wait(&req);

    *inode = req.entry.ino;
    return rv == 0 && req.entry.ino == 0 ? ENOENT : rv;
}

void kernel_forget(struct fuse_session *k, fuse_ino_t inode)
{
    struct fuse_req *req = calloc(1, sizeof(*req));

    CHECK(req != NULL);
    *req = (struct fuse_req){ .kernel = k, .opcode = FUSE_FORGET, .inode = inode };
    if (!k->process->alive || !k->mount->mounted) {
        free(req);
        return;
    }
    ask(req);
}

int kernel_create(struct fuse_session *k, fuse_ino_t parent, const char *name, int flags,
                  struct kernel_file *file)
{
    struct fuse_file_info info = { .flags = flags | O_CREAT };
    struct fuse_req req = {
        .kernel = k, .opcode = FUSE_CREATE, .inode = parent, .name = name, .info = &info
    };
    int rv = ask_and_wait(&req);

    *file = (struct kernel_file){ k, req.entry.ino, req.info_answered };
    return rv;
}

int kernel_mkdir(struct fuse_session *k, fuse_ino_t parent, const char *name)
{
    struct fuse_req req = { .kernel = k, .opcode = FUSE_MKDIR, .inode = parent, .name = name };

    return ask_and_wait(&req);
}

int kernel_unlink(struct fuse_session *k, fuse_ino_t parent, const char *name)
{
    struct fuse_req req = { .kernel = k, .opcode = FUSE_UNLINK, .inode = parent, .name = name };

    return ask_and_wait(&req);
}

int kernel_rename(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to)
{
    struct fuse_req req = {
        .kernel = k, .opcode = FUSE_RENAME2, .inode = parent, .name = name, .name_to = to
    };

    return ask_and_wait(&req);
}

int kernel_open_file(struct fuse_session *k, fuse_ino_t inode, int flags, struct kernel_file *file)
{
    struct fuse_file_info info = { .flags = flags };
    struct fuse_req req = { .kernel = k, .opcode = FUSE_OPEN, .inode = inode, .info = &info };
    int rv = ask_and_wait(&req);

    *file = (struct kernel_file){ k, inode, req.info_answered };
    return rv;
}

/* Bytes beyond the end are not asked for: how long the file is stands in the attributes. */
int kernel_read(struct kernel_file *file, uint64_t offset, void *bytes, size_t size, size_t *got)
{
    struct fuse_req length = {
        .kernel = file->kernel, .opcode = FUSE_GETATTR, .inode = file->inode, .info = &file->info
    };
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_READ,
                            .inode = file->inode,
                            .info = &file->info,
                            .offset = offset,
                            .into = bytes };
    int rv;

    *got = 0;
    if (!file->info.direct_io) {
        if ((rv = ask_and_wait(&length)) != 0) {
            return rv;
        }
        if (offset >= (uint64_t)length.st.st_size) {
            return 0;
        }
        if (size > (uint64_t)length.st.st_size - offset) {
            size = (uint64_t)length.st.st_size - offset;
        }
    }
    req.size = size;
    rv = ask_and_wait(&req);
    *got = req.count;
    return rv;
}

int kernel_write(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size)
{
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_WRITE,
                            .inode = file->inode,
                            .info = &file->info,
                            .offset = offset,
                            .bytes = bytes,
                            .size = size };
    int rv = ask_and_wait(&req);

    if (rv == 0 && req.count != size) {
        world_fail("write(2) of %zu bytes took %zu", size, req.count);
    }
    return rv;
}

int kernel_append(struct kernel_file *file, const void *bytes, size_t size)
{
    struct fuse_req length = {
        .kernel = file->kernel, .opcode = FUSE_GETATTR, .inode = file->inode, .info = &file->info
    };
    int rv = ask_and_wait(&length);

    return rv != 0 ? rv : kernel_write(file, (uint64_t)length.st.st_size, bytes, size);
}

static int ask_of_file(struct kernel_file *file, uint32_t opcode)
{
    struct fuse_req req = {
        .kernel = file->kernel, .opcode = opcode, .inode = file->inode, .info = &file->info
    };

    return ask_and_wait(&req);
}

int kernel_open_dir(struct fuse_session *k, fuse_ino_t inode, struct kernel_file *dir)
{
    struct fuse_file_info info = { .flags = O_RDONLY | O_DIRECTORY };
    struct fuse_req req = { .kernel = k, .opcode = FUSE_OPENDIR, .inode = inode, .info = &info };
    int rv = ask_and_wait(&req);

    *dir = (struct kernel_file){ k, inode, req.info_answered };
    return rv;
}

int kernel_fsync_dir(struct kernel_file *dir)
{
    return ask_of_file(dir, FUSE_FSYNCDIR);
}

void kernel_close_dir(struct kernel_file *dir)
{
    (void)ask_of_file(dir, FUSE_RELEASEDIR);
}

int kernel_fsync(struct kernel_file *file)
{
    return ask_of_file(file, FUSE_FSYNC);
}

int kernel_lock(struct kernel_file *file, bool flock, uint64_t owner, short type, bool wait)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_pid = 1000 };
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = wait ? FUSE_SETLKW : FUSE_SETLK,
                            .inode = file->inode,
                            .info = &file->info,
                            .lock = flock ? NULL : &lock,
                            .flock = (type == F_WRLCK ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB) };

    file->info.lock_owner = owner; /* The same in FLUSH. */
    return ask_and_wait(&req);
}

int kernel_close(struct kernel_file *file)
{
    int rv = ask_of_file(file, FUSE_FLUSH);

    (void)ask_of_file(file, FUSE_RELEASE);
    kernel_forget(file->kernel, file->inode);
    return rv;
}
