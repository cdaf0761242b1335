/* System calls on attributes: chmod(2), chown(2), utimensat(2), setxattr(2) ..., statfs(2). */
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>

/* fuse_do_setattr(), of what is no size */
static int set_once(struct knode *directory, const char *name, const struct stat *st, int valid,
                    unsigned flags)
{
    struct fuse_req req = {
        .kernel = directory->kernel, .opcode = FUSE_SETATTR, .set = *st, .valid = valid
    };
    struct knode *node;
    uint64_t before;
    int rv = walk(directory, name, flags, &node);

    if (rv != 0) {
        return rv;
    }
    req.inode = node->number;
    klock_take(&node->lock, true);
    rv = ask_and_wait(&req);
    if (rv == 0) {
        change_attributes_at_once(node, &req.st, req.seconds);
        before = node->size;
        node->size = (uint64_t)req.st.st_size;
        if (S_ISREG(req.st.st_mode) && before != node->size) {
            pages_truncate(node, node->size);
            pages_invalidate(node);
        }
    }
    klock_give(&node->lock, true);
    knode_put(node);
    return rv;
}

int kernel_set_attributes(struct fuse_session *k, fuse_ino_t parent, const char *name,
                          const struct stat *st, int valid)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, set_once(directory, name, st, valid, flags));
    return rv;
}

/* ---- Extended attributes; nothing of them is kept ---- */

/* `req` has what is asked. A change is made under the file's lock, and its ctime changes. */
static int xattr_once(struct knode *directory, const char *file, struct fuse_req *req, bool change,
                      unsigned flags)
{
    struct knode *node;
    int rv = walk(directory, file, flags, &node);

    if (rv != 0) {
        return rv;
    }
    req->kernel = directory->kernel;
    req->inode = node->number;
    req->done = false;
    req->count = 0;
    if (change) {
        klock_take(&node->lock, true);
    }
    rv = ask_and_wait(req);
    if (change) {
        node->stale = node->stale || rv == 0;
        klock_give(&node->lock, true);
    }
    knode_put(node);
    return rv;
}

static int ask_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file,
                     struct fuse_req *req, bool change)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, xattr_once(directory, file, req, change, flags));
    return rv;
}

int kernel_get_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file, const char *name,
                     void *value, size_t size, size_t *got)
{
    struct fuse_req req = { .opcode = FUSE_GETXATTR, .name = name, .into = value, .size = size };
    int rv = ask_xattr(k, parent, file, &req, false);

    *got = req.count;
    return rv;
}

int kernel_list_xattrs(struct fuse_session *k, fuse_ino_t parent, const char *file, char *names,
                       size_t size, size_t *got)
{
    struct fuse_req req = { .opcode = FUSE_LISTXATTR, .into = names, .size = size };
    int rv = ask_xattr(k, parent, file, &req, false);

    *got = req.count;
    return rv;
}

int kernel_set_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file, const char *name,
                     const void *value, size_t size, int flags)
{
    struct fuse_req req = {
        .opcode = FUSE_SETXATTR, .name = name, .bytes = value, .size = size, .flags = flags
    };

    return ask_xattr(k, parent, file, &req, true);
}

int kernel_remove_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file,
                        const char *name)
{
    struct fuse_req req = { .opcode = FUSE_REMOVEXATTR, .name = name };

    return ask_xattr(k, parent, file, &req, true);
}

int kernel_statfs(struct fuse_session *k, struct statvfs *space)
{
    struct fuse_req req = { .kernel = k, .opcode = FUSE_STATFS, .inode = FUSE_ROOT_ID };
    int rv = ask_and_wait(&req);

    *space = req.space;
    return rv;
}
