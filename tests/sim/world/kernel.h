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

enum { KERNEL_FDS_MAX = 8192 };

/* What it has spared the mount, and what the mount has told it. */
struct kernel_counts
{
    uint64_t names_kept, attributes_kept, pages_read;
    uint64_t notified, passed_over, page_waits, short_reads, direct, interrupts, linked,
        copied_here;
};

/* inode->i_rwsem, and others like it. */
struct klock
{
    unsigned sharers;
    bool taken;
    struct list waiting;
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
    struct klock rename_lock;           /* s_vfs_rename_mutex */
    uint64_t version, evictions, epoch; /* attr_version, evict_ctr, epoch: they count up. */
    bool exited;                        /* Unmounted. */
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
int kernel_stat(struct fuse_session *k, fuse_ino_t parent, const char *name, struct stat *st);
void kernel_forget(struct fuse_session *k, fuse_ino_t inode);

/* drop_caches: names and inodes that nobody uses. */
void kernel_forget_all(struct fuse_session *k);

int kernel_mkdir(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_rmdir(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_mkfifo(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_symlink(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *target);

/* Into `target`, which ends with a 0 byte then. */
int kernel_readlink(struct fuse_session *k, fuse_ino_t parent, const char *name, char *target,
                    size_t size);

/* Another name in the same directory. */
int kernel_link(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to);
int kernel_open_dir(struct fuse_session *k, fuse_ino_t inode, struct kernel_file *dir);

/* getdents(2), to the end. `visit` must not wait. */
int kernel_list(struct kernel_file *dir, void (*visit)(void *data, const char *name), void *data);
int kernel_fsync_dir(struct kernel_file *dir);
void kernel_close_dir(struct kernel_file *dir);
int kernel_unlink(struct fuse_session *k, fuse_ino_t parent, const char *name);
int kernel_rename(struct fuse_session *k, fuse_ino_t parent, const char *name, const char *to);

/* renameat2(2), into another directory, too; `how`: RENAME_NOREPLACE, RENAME_EXCHANGE or 0. */
int kernel_rename_to(struct fuse_session *k, fuse_ino_t from, const char *name, fuse_ino_t into,
                     const char *to, unsigned how);

/* What is set of it is `valid`, FUSE_SET_ATTR_*. */
int kernel_set_attributes(struct fuse_session *k, fuse_ino_t parent, const char *name,
                          const struct stat *st, int valid);

/* As the system calls; with sizes of 0, too. */
int kernel_get_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file, const char *name,
                     void *value, size_t size, size_t *got);
int kernel_list_xattrs(struct fuse_session *k, fuse_ino_t parent, const char *file, char *names,
                       size_t size, size_t *got);
int kernel_set_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file, const char *name,
                     const void *value, size_t size, int flags);
int kernel_remove_xattr(struct fuse_session *k, fuse_ino_t parent, const char *file,
                        const char *name);
int kernel_statfs(struct fuse_session *k, struct statvfs *space);

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

/* fcntl(2) on bytes; `interrupt_ns`: a signal comes then, if it still waits; 0: none does. */
int kernel_lock_range(struct kernel_file *file, const struct flock *lock, uint64_t owner, bool wait,
                      uint64_t interrupt_ns);

/* F_GETLK */
int kernel_test_lock(struct kernel_file *file, struct flock *lock, uint64_t owner);

/* fallocate(2), lseek(2) with SEEK_DATA or SEEK_HOLE, copy_file_range(2): of the mount, or by the
 * kernel where the mount leaves it to it. */
int kernel_fallocate(struct kernel_file *file, int mode, uint64_t offset, uint64_t length);
int kernel_seek(struct kernel_file *file, uint64_t offset, int whence, uint64_t *found);
/* ioctl(2), with those bytes in, and out. */
int kernel_ioctl(struct kernel_file *file, unsigned command, const void *in, size_t in_size,
                 void *out, size_t out_size);
int kernel_copy(struct kernel_file *from, uint64_t from_offset, struct kernel_file *to,
                uint64_t to_offset, size_t size, size_t *copied);

#endif
