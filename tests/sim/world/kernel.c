#include "tests/sim/world/fiber.h"
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>

/* Whose descriptor it is. */
struct fuse_session *kernel_of_fd[KERNEL_FDS_MAX];

static void know_root(struct fuse_session *k)
{
    struct fuse_entry_param entry = { .ino = FUSE_ROOT_ID };

    entry.attr.st_mode = S_IFDIR | 0755;
    entry.attr.st_nlink = 2;
    (void)knode_get(k, &entry, 0, 0); /* For good. */
}

void kernel_open(struct fuse_session *k, struct mount *mount, struct world_process *process)
{
    memset(k, 0, sizeof(*k));
    mount_operations(&k->ops);
    k->mount = mount;
    k->process = process;
    k->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(k->fd >= 0 && k->fd < KERNEL_FDS_MAX);
    kernel_of_fd[k->fd] = k;
    list_init(&k->asked);
    list_init(&k->answered);
    list_init(&k->nodes);
    list_init(&k->names);
    list_init(&k->looking);
    list_init(&k->looking_waiting);
    k->version = 1;
    k->evictions = 1;
    k->has_epochs = !world_chance(4);
    k->read_ahead = world_chance(2) ? 32 : 256;
    mount->maps_direct = mount->strips_ids = !world_chance(4);
    know_root(k);
    world_in(world_draw(4 * WORLD_S), kernel_presses, k);
}

/* ---- Asking ---- */

static void ask(struct fuse_req *req)
{
    struct fuse_session *k = req->kernel;

    req->unique = ++k->unique;
    req->context = (struct fuse_ctx){ .pid = fiber_number(), .umask = 022 };
    list_init(&req->node);
    list_push_back(&k->asked, &req->node);
    world_poll_readable(&k->mount->poll);
}

static bool is_gone(const struct fuse_session *k)
{
    return !k->process->alive || !k->mount->mounted;
}

int ask_and_wait(struct fuse_req *req)
{
    if (is_gone(req->kernel)) {
        return ENOTCONN;
    }
    req->asker = fiber_self();
    ask(req);
    fiber_wait();
    CHECK(req->done);
    return req->error;
}

static void end_alone(struct fuse_req *req)
{
    if (req->end != NULL) {
        req->end(req);
    }
    free(req);
}

bool ask_only(struct fuse_req *req)
{
    if (is_gone(req->kernel)) {
        req->error = ENOTCONN;
        end_alone(req);
        return false;
    }
    ask(req);
    return true;
}

/* The program runs again when the scheduler lets it: at times late. */
static uint64_t runs_again_ns(void)
{
    return 2000 + world_draw_skewed(world_chance(100) ? 30 * WORLD_MS : 50000);
}

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
        fiber_wake(req->asker, runs_again_ns());
    } else {
        end_alone(req);
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
        k->ops.forget(req, req->inode, req->count_forgotten);
        break;
    case FUSE_GETATTR:
        k->ops.getattr(req, req->inode, req->info);
        break;
    case FUSE_SETATTR:
        k->ops.setattr(req, req->inode, &req->set, req->valid, req->info);
        break;
    case FUSE_READDIR:
        k->ops.readdir(req, req->inode, req->size, (off_t)req->offset, req->info);
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
        k->ops.rename(req, req->inode, req->name, req->inode_to, req->name_to, 0);
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
    req->seconds = seconds;
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
NOT_ASKED(size_t fuse_add_direntry_plus(
    fuse_req_t req __attribute__((unused)), char *bytes __attribute__((unused)),
    size_t size __attribute__((unused)), const char *name __attribute__((unused)),
    const struct fuse_entry_param *e __attribute__((unused)), off_t offset __attribute__((unused))))
NOT_ASKED(int fuse_session_custom_io(struct fuse_session *k __attribute__((unused)),
                                     const struct fuse_custom_io *io __attribute__((unused)),
                                     int fd __attribute__((unused))))
