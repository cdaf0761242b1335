/* System calls of programs: the requests that they become, as far as the answers are not known. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

/* ---- stat(2) ---- */

/* With a reference. */
static int stat_node(struct knode *directory, const char *name, unsigned flags, struct knode **node,
                     struct stat *st)
{
    int rv = walk(directory, name, flags, node);

    if (rv != 0) {
        return rv;
    }
    if ((*node)->stale || (*node)->stale_atime || jiffies_now() > (*node)->jiffies_until) {
        rv = ask_attributes(*node, NULL, st);
        if (rv != 0) {
            knode_put(*node);
        }
    } else {
        *st = (*node)->st;
        st->st_size = (off_t)(*node)->size;
        directory->kernel->counts.attributes_kept++;
    }
    return rv;
}

int kernel_lookup(struct fuse_session *k, fuse_ino_t parent, const char *name, fuse_ino_t *inode)
{
    struct knode *directory = knode_of(k, parent), *node = NULL;
    struct stat st;

    *inode = 0;
    RETRY_STALE(rv, flags, stat_node(directory, name, flags, &node, &st));
    if (rv == 0) {
        *inode = node->number;
    }
    return rv;
}

int kernel_stat(struct fuse_session *k, fuse_ino_t parent, const char *name, struct stat *st)
{
    struct knode *directory = knode_of(k, parent), *node = NULL;

    RETRY_STALE(rv, flags, stat_node(directory, name, flags, &node, st));
    if (rv == 0) {
        knode_put(node);
    }
    return rv;
}

int kernel_size(struct fuse_session *k, fuse_ino_t parent, const char *name, uint64_t *size)
{
    struct stat st;
    int rv = kernel_stat(k, parent, name, &st);

    if (rv == 0) {
        *size = (uint64_t)st.st_size;
    }
    return rv;
}

void kernel_forget(struct fuse_session *k, fuse_ino_t inode)
{
    knode_put(knode_of(k, inode));
}

/* ---- open(2) ---- */

static void set_file(struct kernel_file *file, struct knode *node,
                     const struct fuse_file_info *info, int flags)
{
    *file = (struct kernel_file){ node->kernel, node->number, *info, node };
    file->info.flags = flags & ~(O_CREAT | O_EXCL);
}

static int open_node(struct knode *node, int flags, struct kernel_file *file)
{
    struct fuse_file_info info = { .flags = flags & ~(O_CREAT | O_EXCL) };
    struct fuse_req req = {
        .kernel = node->kernel, .opcode = FUSE_OPEN, .inode = node->number, .info = &info
    };
    int rv = ask_and_wait(&req);

    if (rv != 0) {
        knode_put(node);
        return rv;
    }
    set_file(file, node, &req.info_answered, flags);
    if (!file->info.keep_cache) {
        pages_invalidate(node);
    }
    return 0;
}

/* The directory's lock is ours, and there is no such name. */
static int create(struct knode *directory, const char *name, int flags, struct kernel_file *file)
{
    struct fuse_session *k = directory->kernel;
    struct fuse_file_info info = { .flags = flags };
    struct fuse_req req = {
        .kernel = k, .opcode = FUSE_CREATE, .inode = directory->number, .name = name, .info = &info
    };
    uint64_t epoch = k->epoch;
    int rv = ask_and_wait(&req);
    struct knode *node;

    if (rv != 0) {
        return rv;
    }
    node = knode_get(k, &req.entry, 0, 0);
    dentry_add(directory, name, node, req.entry.entry_timeout, epoch);
    set_file(file, node, &req.info_answered, flags);
    if (!file->info.keep_cache) {
        pages_invalidate(node);
    }
    return 0;
}

/* do_open() behind lookup_open() */
static int open_once(struct knode *directory, const char *name, int how, unsigned flags,
                     struct kernel_file *file)
{
    struct knode *node;
    int rv;

    if ((how & O_CREAT) == 0) {
        rv = walk(directory, name, flags, &node);
        return rv != 0 ? rv : open_node(node, how, file);
    }
    flags |= (how & O_EXCL) != 0 ? WALK_TARGET : 0;
    klock_take(&directory->lock, true);
    rv = walk(directory, name, flags | WALK_LOCKED, &node);
    if (rv == ENOENT) {
        rv = create(directory, name, how, file);
        klock_give(&directory->lock, true);
        return rv;
    }
    klock_give(&directory->lock, true);
    if (rv == 0 && (how & O_EXCL) != 0) {
        knode_put(node);
        return EEXIST;
    }
    return rv != 0 ? rv : open_node(node, how, file);
}

int kernel_open_name(struct fuse_session *k, fuse_ino_t parent, const char *name, int how,
                     struct kernel_file *file)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, open_once(directory, name, how, flags, file));
    return rv;
}

/* close(2): FLUSH, and a RELEASE that nobody waits for. */
static void release(struct kernel_file *file, uint32_t opcode)
{
    struct fuse_req *req = calloc(1, sizeof(*req));

    CHECK(req != NULL);
    *req = (struct fuse_req){
        .kernel = file->kernel, .opcode = opcode, .inode = file->inode, .own_info = file->info
    };
    req->info = &req->own_info;
    (void)ask_only(req);
    knode_put(file->node);
}

static int ask_of_file(struct kernel_file *file, uint32_t opcode)
{
    struct fuse_req req = {
        .kernel = file->kernel, .opcode = opcode, .inode = file->inode, .info = &file->info
    };

    return ask_and_wait(&req);
}

int kernel_close(struct kernel_file *file)
{
    int rv = file->info.noflush ? 0 : ask_of_file(file, FUSE_FLUSH);

    release(file, FUSE_RELEASE);
    return rv;
}

int kernel_open_dir(struct fuse_session *k, fuse_ino_t inode, struct kernel_file *dir)
{
    struct fuse_file_info info = { .flags = O_RDONLY | O_DIRECTORY };
    struct fuse_req req = { .kernel = k, .opcode = FUSE_OPENDIR, .inode = inode, .info = &info };
    int rv = ask_and_wait(&req);

    if (rv == 0) {
        *dir = (struct kernel_file){ k, inode, req.info_answered, knode_keep(knode_of(k, inode)) };
    }
    return rv;
}

/* One entry of the answer: where the next one begins. */
static size_t list_one(struct kernel_file *dir, const char *at, bool plus, uint64_t *offset,
                       void (*visit)(void *data, const char *name), void *data,
                       const struct fuse_req *req)
{
    struct fuse_entry_param param = { .ino = 0 };
    struct fuse_dirent entry;
    size_t head = plus ? sizeof(param) : 0;
    char name[256];

    memcpy(&param, at, head);
    memcpy(&entry, at + head, FUSE_NAME_OFFSET);
    (void)snprintf(name, sizeof(name), "%.*s", (int)entry.namelen, at + head + FUSE_NAME_OFFSET);
    visit(data, name);
    *offset = entry.off;
    dentry_plus(dir->node, name, &param, req->version, req->of);
    return head + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
}

/* With attributes at the beginning, and wherever they are of use. */
static int list_some(struct kernel_file *dir, uint64_t *offset, size_t *count,
                     void (*visit)(void *data, const char *name), void *data)
{
    bool plus = *offset == 0 || world_chance(2);
    char bytes[4096];
    struct fuse_req req = { .kernel = dir->kernel,
                            .opcode = plus ? FUSE_READDIRPLUS : FUSE_READDIR,
                            .inode = dir->inode,
                            .info = &dir->info,
                            .offset = *offset,
                            .size = plus ? sizeof(bytes) : 1024,
                            .into = bytes,
                            .version = dir->kernel->version,
                            .of = dir->kernel->evictions };
    int rv = ask_and_wait(&req);

    *count = rv == 0 ? req.count : 0;
    for (size_t at = 0; at < *count;) {
        at += list_one(dir, bytes + at, plus, offset, visit, data, &req);
    }
    return rv;
}

int kernel_list(struct kernel_file *dir, void (*visit)(void *data, const char *name), void *data)
{
    uint64_t offset = 0;
    size_t count;
    int rv;

    do {
        klock_take(&dir->node->lock, false);
        rv = list_some(dir, &offset, &count, visit, data);
        klock_give(&dir->node->lock, false);
    } while (rv == 0 && count > 0);
    return rv;
}

int kernel_fsync_dir(struct kernel_file *dir)
{
    return ask_of_file(dir, FUSE_FSYNCDIR);
}

void kernel_close_dir(struct kernel_file *dir)
{
    release(dir, FUSE_RELEASEDIR);
}

/* ---- Bytes ---- */

/* fuse_direct_io(): past the pages. */
static int transfer(struct kernel_file *file, uint32_t opcode, uint64_t offset, void *into,
                    const void *bytes, size_t size, size_t *got)
{
    int rv = 0;

    *got = 0;
    while (rv == 0 && *got < size) {
        size_t part = size - *got > REQUEST_BYTES_MAX ? REQUEST_BYTES_MAX : size - *got;
        struct fuse_req req = { .kernel = file->kernel,
                                .opcode = opcode,
                                .inode = file->inode,
                                .info = &file->info,
                                .offset = offset + *got,
                                .size = part };

        if (into != NULL) {
            req.into = (uint8_t *)into + *got;
        } else {
            req.bytes = (const uint8_t *)bytes + *got;
        }
        rv = ask_and_wait(&req);
        *got += rv == 0 ? req.count : 0;
        if (req.count < part) {
            break;
        }
    }
    return rv;
}

int kernel_read(struct kernel_file *file, uint64_t offset, void *bytes, size_t size, size_t *got)
{
    int rv;

    if (!file->info.direct_io) {
        return pages_read(file, offset, bytes, size, got);
    }
    file->kernel->counts.direct++;
    rv = transfer(file, FUSE_READ, offset, bytes, NULL, size, got);
    file->node->stale_atime = true;
    return rv;
}

/* Under the file's lock. */
int write_there(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size)
{
    size_t done;
    int rv;

    if (!file->info.direct_io) {
        return pages_write(file, offset, bytes, size);
    }
    file->kernel->counts.direct++;
    pages_invalidate(file->node);
    rv = transfer(file, FUSE_WRITE, offset, NULL, bytes, size, &done);
    if (rv == 0 && done != size) {
        world_fail("write(2) of %zu bytes took %zu", size, done);
    }
    if (done > 0) {
        write_update_attributes(file->node, offset + done);
    }
    return rv;
}

int kernel_write(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size)
{
    int rv;

    klock_take(&file->node->lock, true);
    rv = write_there(file, offset, bytes, size);
    klock_give(&file->node->lock, true);
    return rv;
}

int kernel_append(struct kernel_file *file, const void *bytes, size_t size)
{
    int rv;

    klock_take(&file->node->lock, true);
    rv = write_there(file, file->node->size, bytes, size);
    klock_give(&file->node->lock, true);
    return rv;
}

/* fuse_do_setattr(), from ftruncate(2) */
static int set_size(struct kernel_file *file, uint64_t size)
{
    struct knode *node = file->node;
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_SETATTR,
                            .inode = file->inode,
                            .info = &file->info,
                            .set = { .st_size = (off_t)size },
                            .valid = FUSE_SET_ATTR_SIZE };
    uint64_t before;
    int rv;

    node->unstable = true;
    rv = ask_and_wait(&req);
    if (rv == 0) {
        change_attributes_at_once(node, &req.st, req.seconds);
        before = node->size;
        node->size = (uint64_t)req.st.st_size;
        if (before != node->size) {
            pages_truncate(node, node->size);
            pages_invalidate(node);
        }
    }
    node->unstable = false;
    return rv;
}

int kernel_truncate(struct kernel_file *file, uint64_t size)
{
    int rv;

    klock_take(&file->node->lock, true);
    rv = set_size(file, size);
    klock_give(&file->node->lock, true);
    return rv;
}

int kernel_fsync(struct kernel_file *file)
{
    int rv;

    klock_take(&file->node->lock, true);
    rv = ask_of_file(file, FUSE_FSYNC);
    klock_give(&file->node->lock, true);
    return rv;
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

int kernel_lock_range(struct kernel_file *file, const struct flock *lock, uint64_t owner, bool wait,
                      uint64_t interrupt_ns)
{
    struct flock asked = *lock;
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = wait ? FUSE_SETLKW : FUSE_SETLK,
                            .inode = file->inode,
                            .info = &file->info,
                            .lock = &asked,
                            .interrupt_ns = interrupt_ns };

    file->info.lock_owner = owner;
    return ask_and_wait(&req);
}

int kernel_test_lock(struct kernel_file *file, struct flock *lock, uint64_t owner)
{
    struct fuse_req req = { .kernel = file->kernel,
                            .opcode = FUSE_GETLK,
                            .inode = file->inode,
                            .info = &file->info,
                            .lock = lock };

    file->info.lock_owner = owner;
    return ask_and_wait(&req);
}
