/* System calls that make, move and take away names. */
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <string.h>

/* ---- Names ---- */

/* create_new_entry(), with the directory's lock: a new inode, or another name of one. */
static int make_entry(struct knode *directory, const char *name, unsigned flags,
                      struct fuse_req *req)
{
    struct fuse_session *k = directory->kernel;
    uint64_t epoch = k->epoch;
    struct knode *node;
    int rv = walk(directory, name, flags | WALK_LOCKED | WALK_TARGET, &node);

    req->kernel = k;
    req->inode = directory->number;
    req->name = name;
    if (rv == 0) {
        knode_put(node);
        return EEXIST;
    }
    if (rv == ENOENT && (rv = ask_and_wait(req)) == 0) {
        node = knode_get(k, &req->entry, 0, 0);
        dentry_add(directory, name, node, req->entry.entry_timeout, epoch);
        knode_put(node);
    }
    return rv;
}

static int make_once(struct knode *directory, const char *name, uint32_t opcode, const char *target,
                     unsigned flags)
{
    struct fuse_req req = { .opcode = opcode, .name_to = target };
    int rv;

    klock_take(&directory->lock, true);
    rv = make_entry(directory, name, flags, &req);
    klock_give(&directory->lock, true);
    return rv;
}

int kernel_mkdir(struct fuse_session *k, fuse_ino_t parent, const char *name)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, make_once(directory, name, FUSE_MKDIR, NULL, flags));
    return rv;
}

int kernel_mkfifo(struct fuse_session *k, fuse_ino_t parent, const char *name)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, make_once(directory, name, FUSE_MKNOD, NULL, flags));
    return rv;
}

int kernel_symlink(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *target)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, make_once(directory, name, FUSE_SYMLINK, target, flags));
    return rv;
}

static int readlink_once(struct knode *directory, const char *name, char *target, size_t size,
                         unsigned flags)
{
    struct fuse_req req = {
        .kernel = directory->kernel, .opcode = FUSE_READLINK, .into = target, .size = size - 1
    };
    struct knode *node;
    int rv = walk(directory, name, flags, &node);

    if (rv == 0) {
        req.inode = node->number;
        rv = ask_and_wait(&req);
        target[rv == 0 ? req.count : 0] = '\0';
        knode_put(node);
    }
    return rv;
}

int kernel_readlink(struct fuse_session *k, fuse_ino_t parent, const char *name, char *target,
                    size_t size)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, readlink_once(directory, name, target, size, flags));
    return rv;
}

/* do_linkat(): the file is looked for before the directory is locked. */
static int link_once(struct knode *directory, const char *name, const char *to, unsigned flags)
{
    struct fuse_req req = { .opcode = FUSE_LINK };
    struct knode *node;
    int rv = walk(directory, name, flags, &node);

    if (rv != 0) {
        return rv;
    }
    req.inode_to = node->number;
    klock_take(&directory->lock, true);
    klock_take(&node->lock, true);
    rv = make_entry(directory, to, flags, &req);
    klock_give(&node->lock, true);
    klock_give(&directory->lock, true);
    knode_put(node);
    return rv;
}

int kernel_link(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, link_once(directory, name, to, flags));
    return rv;
}

static void drop_name(struct knode *directory, const char *name)
{
    struct kdentry *d = dentry_find(directory->kernel, directory, name);

    if (d != NULL) {
        dentry_drop(d);
    }
}

static void entry_unlinked(struct knode *directory, const char *name, struct knode *node)
{
    node->st.st_nlink -= node->st.st_nlink > 0;
    if (S_ISDIR(node->st.st_mode)) {
        node->st.st_nlink = 0;
    }
    node->version = ++node->kernel->version;
    node->stale_atime = true; /* Its ctime, too. */
    drop_name(directory, name);
}

static int unlink_once(struct knode *directory, const char *name, uint32_t opcode, unsigned flags)
{
    struct fuse_req req = {
        .kernel = directory->kernel, .opcode = opcode, .inode = directory->number, .name = name
    };
    struct knode *node;
    int rv;

    klock_take(&directory->lock, true);
    rv = walk(directory, name, flags | WALK_LOCKED, &node);
    if (rv == 0) {
        klock_take(&node->lock, true);
        rv = ask_and_wait(&req);
        klock_give(&node->lock, true);
        if (rv == 0) {
            entry_unlinked(directory, name, node);
        } else if (rv == EINTR || rv == ENOENT) {
            drop_name(directory, name);
        }
        knode_put(node);
    }
    klock_give(&directory->lock, true);
    return rv;
}

int kernel_unlink(struct fuse_session *k, fuse_ino_t parent, const char *name)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, unlink_once(directory, name, FUSE_UNLINK, flags));
    return rv;
}

int kernel_rmdir(struct fuse_session *k, fuse_ino_t parent, const char *name)
{
    struct knode *directory = knode_of(k, parent);

    RETRY_STALE(rv, flags, unlink_once(directory, name, FUSE_RMDIR, flags));
    return rv;
}

/* ---- rename(2) ---- */

struct renaming
{
    struct knode *from, *into; /* Directories; both may be one. */
    const char *name, *to;
    unsigned how; /* RENAME_* */
    struct knode *node, *target;
};

/* What is known of the names goes along (d_move(), d_exchange()). */
static void move_names(const struct renaming *r)
{
    struct fuse_session *k = r->from->kernel;
    struct kdentry *d = dentry_find(k, r->from, r->name), *e = dentry_find(k, r->into, r->to);
    struct knode *inode;

    if ((r->how & RENAME_EXCHANGE) != 0 && d != NULL && e != NULL) {
        struct kdentry was = *d;

        inode = d->inode;
        d->inode = e->inode;
        d->jiffies_until = e->jiffies_until;
        d->epoch = e->epoch;
        e->inode = inode;
        e->jiffies_until = was.jiffies_until;
        e->epoch = was.epoch;
        return;
    }
    if (e != NULL) {
        dentry_drop(e);
    }
    if (d != NULL && (r->how & RENAME_EXCHANGE) != 0) {
        dentry_drop(d);
    } else if (d != NULL) {
        knode_put(d->parent);
        d->parent = knode_keep(r->into);
        (void)snprintf(d->name, sizeof(d->name), "%s", r->to);
    }
}

/* fuse_rename_common() */
static int ask_rename(const struct renaming *r)
{
    struct fuse_req req = { .kernel = r->from->kernel,
                            .opcode = FUSE_RENAME2,
                            .inode = r->from->number,
                            .inode_to = r->into->number,
                            .name = r->name,
                            .name_to = r->to,
                            .flags = (int)r->how };
    int rv = ask_and_wait(&req);

    if (rv == 0) {
        r->node->version = ++r->from->kernel->version;
        r->node->stale_atime = true; /* Its ctime. */
        if (r->target != NULL && (r->how & RENAME_EXCHANGE) != 0) {
            r->target->version = ++r->from->kernel->version;
            r->target->stale_atime = true;
        } else if (r->target != NULL) {
            entry_unlinked(r->into, r->to, r->target);
        }
        move_names(r);
    } else if (rv == EINTR || rv == ENOENT) {
        drop_name(r->from, r->name);
        drop_name(r->into, r->to);
    }
    return rv;
}

/* vfs_rename(): files are locked; directories whose parent changes, too, before them. */
static int rename_locked(const struct renaming *r)
{
    struct knode *locks[2] = { r->node, r->target };
    int rv;

    if (S_ISDIR(r->node->st.st_mode) && r->from == r->into) {
        locks[0] = NULL;
    }
    if (locks[0] != NULL && locks[1] != NULL && locks[1]->number < locks[0]->number) {
        locks[0] = r->target;
        locks[1] = r->node;
    }
    for (unsigned i = 0; i < 2; i++) {
        if (locks[i] != NULL) {
            klock_take(&locks[i]->lock, true);
        }
    }
    rv = ask_rename(r);
    for (unsigned i = 2; i-- > 0;) {
        if (locks[i] != NULL) {
            klock_give(&locks[i]->lock, true);
        }
    }
    return rv;
}

/* lock_rename(): two directories, the upper one first. */
static void lock_directories(const struct renaming *r)
{
    if (r->from == r->into) {
        klock_take(&r->from->lock, true);
        return;
    }
    klock_take(&r->from->kernel->rename_lock, true);
    if (dentry_is_below(r->from, r->into)) {
        klock_take(&r->into->lock, true);
        klock_take(&r->from->lock, true);
    } else {
        klock_take(&r->from->lock, true);
        klock_take(&r->into->lock, true);
    }
}

static void unlock_directories(const struct renaming *r)
{
    klock_give(&r->from->lock, true);
    if (r->from != r->into) {
        klock_give(&r->into->lock, true);
        klock_give(&r->from->kernel->rename_lock, true);
    }
}

/* With both names looked up. */
static int rename_checked(const struct renaming *r)
{
    if (r->target != NULL && (r->how & RENAME_NOREPLACE) != 0) {
        return EEXIST;
    }
    if (r->target == NULL && (r->how & RENAME_EXCHANGE) != 0) {
        return ENOENT;
    }
    if (r->from != r->into && dentry_is_below(r->into, r->node)) {
        return EINVAL;
    }
    if (r->target != NULL && r->from != r->into && dentry_is_below(r->from, r->target)) {
        return (r->how & RENAME_EXCHANGE) != 0 ? EINVAL : ENOTEMPTY;
    }
    return r->node == r->target ? 0 : rename_locked(r); /* Two names of one file: all is done. */
}

static int rename_once(struct renaming *r, unsigned flags)
{
    int rv;

    r->node = r->target = NULL;
    lock_directories(r);
    rv = walk(r->from, r->name, flags | WALK_LOCKED, &r->node);
    if (rv == 0) {
        rv = walk(r->into, r->to, flags | WALK_LOCKED | WALK_TARGET, &r->target);
        rv = rv == ENOENT ? 0 : rv;
    }
    rv = rv == 0 ? rename_checked(r) : rv;
    if (r->target != NULL) {
        knode_put(r->target);
    }
    if (r->node != NULL) {
        knode_put(r->node);
    }
    unlock_directories(r);
    return rv;
}

int kernel_rename_to(struct fuse_session *k, fuse_ino_t from, const char *name, fuse_ino_t into,
                     const char *to, unsigned how)
{
    struct renaming r = {
        .from = knode_of(k, from), .into = knode_of(k, into), .name = name, .to = to, .how = how
    };

    RETRY_STALE(rv, flags, rename_once(&r, flags));
    return rv;
}

int kernel_rename(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to)
{
    return kernel_rename_to(k, parent, name, parent, to, 0);
}
