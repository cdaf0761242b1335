/* The kernel above a mount, and the libfuse that morsel-mount talks to it through.
 *
 * It keeps names, attributes and pages as Linux does, as long as it was told that they are good,
 * and asks for what it does not know: so what a program is answered may be what the mount has said
 * long ago. What it is told to drop it drops then. As libfuse does it, calls of the mount come one
 * by one, in the order in which they were asked.
 *
 * Calls are made in fibers; they return 0 or an errno. A mount that is killed answers ENOTCONN. */
#ifndef MORSEL_TESTS_SIM_KERNEL_H
#define MORSEL_TESTS_SIM_KERNEL_H

#include "client/fuse/mount_fuse.h"
#include "tests/sim/world/world.h"

enum { KERNEL_FDS_MAX = 1024 };

/* What it has spared the mount, and what the mount has told it. */
struct kernel_counts
{
    uint64_t names_kept, attributes_kept, pages_read;
    uint64_t notified, passed_over, page_waits, short_reads, direct;
};

struct fuse_session
{
    struct fuse_lowlevel_ops ops;
    struct mount *mount;
    struct world_process *process;
    struct list asked;    /* struct fuse_req: not read by the mount yet. */
    struct list answered; /* Read, and not answered: all that are under way. */
    uint64_t unique;
    int fd;                   /* Of the device. */
    struct list nodes, names; /* kernel_cache.h */
    struct list looking, looking_waiting;
    uint64_t version, evictions, epoch; /* attr_version, evict_ctr, epoch: they count up. */
    bool has_epochs;                    /* Linux 6.16 and later. */
    uint64_t read_ahead;                /* Pages */
    struct kernel_counts counts;
};

extern struct fuse_session *kernel_of_fd[KERNEL_FDS_MAX];

void kernel_open(struct fuse_session *k, struct mount *mount, struct world_process *process);

/* The mount is dead: whoever waits for it is told. */
void kernel_abort(struct fuse_session *k);

struct kernel_file
{
    struct fuse_session *kernel;
    fuse_ino_t inode;
    struct fuse_file_info info;
    struct knode *node;
};

/* stat(2): with a reference, until kernel_forget(). Directories are named by what it says. */
int kernel_lookup(struct fuse_session *k, fuse_ino_t parent, const char *name, fuse_ino_t *inode);
int kernel_size(struct fuse_session *k, fuse_ino_t parent, const char *name, uint64_t *size);
void kernel_forget(struct fuse_session *k, fuse_ino_t inode);

int kernel_mkdir(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_open_dir(struct fuse_session *k, fuse_ino_t inode, struct kernel_file *dir);

/* getdents(2), to the end. `visit` must not wait. */
int kernel_list(struct kernel_file *dir, void (*visit)(void *data, const char *name), void *data);
int kernel_fsync_dir(struct kernel_file *dir);
void kernel_close_dir(struct kernel_file *dir);
int kernel_unlink(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_rename(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to);

/* open(2); O_CREAT makes it. */
int kernel_open_name(struct fuse_session *k, fuse_ino_t parent, const char *name, int how,
                     struct kernel_file *file);
int kernel_read(struct kernel_file *file, uint64_t offset, void *bytes, size_t size, size_t *got);
int kernel_write(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size);

/* write(2) to a file that is open with O_APPEND: where the kernel believes that it ends. */
int kernel_append(struct kernel_file *file, const void *bytes, size_t size);
int kernel_fsync(struct kernel_file *file);
int kernel_truncate(struct kernel_file *file, uint64_t size);

/* fcntl(2), or flock(2), on the whole file, for `owner`: F_RDLCK or F_WRLCK; EAGAIN when it may not
 * wait and somebody else has it. It ends with kernel_close(). */
int kernel_lock(struct kernel_file *file, bool flock, uint64_t owner, short type, bool wait);
int kernel_close(struct kernel_file *file);

#endif
