/* The kernel above a mount, and the libfuse that morsel-mount talks to it through.
 *
 * It keeps nothing: no names, attributes or pages. So each call of a program becomes the requests
 * that a kernel with empty tables would send. What it is told to drop it has not, at once.
 *
 * Calls are made in fibers; they return 0 or an errno. A mount that is killed answers ENOTCONN. */
#ifndef MORSEL_TESTS_SIM_KERNEL_H
#define MORSEL_TESTS_SIM_KERNEL_H

#include "client/fuse/mount_fuse.h"
#include "tests/sim/world/world.h"

struct fuse_session
{
    struct fuse_lowlevel_ops ops;
    struct mount *mount;
    struct world_process *process;
    struct list asked;    /* struct fuse_req: not read by the mount yet. */
    struct list answered; /* Read, and not answered: all that are under way. */
    uint64_t unique;
    int fd; /* Takes what is written to it, and tells nobody. */
};

void kernel_open(struct fuse_session *k, struct mount *mount, struct world_process *process);

/* The mount is dead: whoever waits for it is told. */
void kernel_abort(struct fuse_session *k);

struct kernel_file
{
    struct fuse_session *kernel;
    fuse_ino_t inode;
    struct fuse_file_info info;
};

int kernel_lookup(struct fuse_session *k, fuse_ino_t parent, const char *name, fuse_ino_t *inode);
void kernel_forget(struct fuse_session *k, fuse_ino_t inode);
int kernel_create(struct fuse_session *k, fuse_ino_t parent, const char *name, int flags,
                  struct kernel_file *file);
int kernel_mkdir(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_open_dir(struct fuse_session *k, fuse_ino_t inode, struct kernel_file *dir);
int kernel_fsync_dir(struct kernel_file *dir);
void kernel_close_dir(struct kernel_file *dir);
int kernel_unlink(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_rename(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to);

int kernel_open_file(struct fuse_session *k, fuse_ino_t inode, int flags, struct kernel_file *file);
int kernel_read(struct kernel_file *file, uint64_t offset, void *bytes, size_t size, size_t *got);
int kernel_write(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size);

/* write(2) to a file that is open with O_APPEND: where the kernel believes that it ends. */
int kernel_append(struct kernel_file *file, const void *bytes, size_t size);
int kernel_fsync(struct kernel_file *file);

/* fcntl(2), or flock(2), on the whole file, for `owner`: F_RDLCK or F_WRLCK; EAGAIN when it may not
 * wait and somebody else has it. It ends with kernel_close(). */
int kernel_lock(struct kernel_file *file, bool flock, uint64_t owner, short type, bool wait);

/* close(2): FLUSH, RELEASE, FORGET. */
int kernel_close(struct kernel_file *file);

#endif
