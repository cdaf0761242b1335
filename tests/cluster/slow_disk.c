/* A slow disk: a directory seen through FUSE, each read of which takes a while longer, and each write to
 * a table of LevelDB's (*.ldb).
 *
 *   slow_disk DIRECTORY MOUNTPOINT FILE
 *
 * runs in the foreground until it is unmounted or told to end. FILE says how many milliseconds a read
 * takes longer and, behind a space, a write to a table (nothing: 0), at any time. Reads do not wait for each other, and nothing is read ahead. A file that is opened is not in the kernel's memory, whatever was read of it before.
 * (For kernels without dm-delay.) */
#define FUSE_USE_VERSION 314
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct disk
{
    int fd; /* The directory. */
    int delay_fd;
};

static const struct disk *the_disk(void)
{
    return fuse_get_context()->private_data;
}

static const char *under(const char *path)
{
    return path[1] == '\0' ? "." : path + 1;
}

static int answer(int rv)
{
    return rv < 0 ? -errno : 0;
}

static int fd_of(const struct fuse_file_info *fi)
{
    return (int)fi->fh;
}

static void *on_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
    conn->max_readahead = 0;
    config->use_ino = 1;
    config->nullpath_ok = 0;
    config->attr_timeout = config->entry_timeout = 1;
    return fuse_get_context()->private_data;
}

static int on_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    return answer(fi != NULL ? fstat(fd_of(fi), st)
                             : fstatat(the_disk()->fd, under(path), st, AT_SYMLINK_NOFOLLOW));
}

static int on_mkdir(const char *path, mode_t mode)
{
    return answer(mkdirat(the_disk()->fd, under(path), mode));
}

static int on_unlink(const char *path)
{
    return answer(unlinkat(the_disk()->fd, under(path), 0));
}

static int on_rmdir(const char *path)
{
    return answer(unlinkat(the_disk()->fd, under(path), AT_REMOVEDIR));
}

static int on_rename(const char *from, const char *to, unsigned flags)
{
    return flags != 0 ? -EINVAL
                      : answer(renameat(the_disk()->fd, under(from), the_disk()->fd, under(to)));
}

static int on_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    return answer(fi != NULL ? fchmod(fd_of(fi), mode)
                             : fchmodat(the_disk()->fd, under(path), mode, 0));
}

static int open_as(const char *path, int flags, mode_t mode, struct fuse_file_info *fi)
{
    int fd = openat(the_disk()->fd, under(path), flags & ~O_APPEND, mode);

    if (fd < 0) {
        return -errno;
    }
    fi->fh = (uint64_t)fd;
    return 0;
}

static int on_open(const char *path, struct fuse_file_info *fi)
{
    return open_as(path, fi->flags, 0, fi);
}

static int on_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    return open_as(path, fi->flags | O_CREAT, mode, fi);
}

static int on_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    return answer(close(fd_of(fi)));
}

static void take_a_while(bool write)
{
    char text[32] = "", *end;
    struct timespec delay;
    long ms;

    if (pread(the_disk()->delay_fd, text, sizeof(text) - 1, 0) > 0) {
        ms = strtol(text, &end, 10);
        ms = write ? strtol(end, NULL, 10) : ms;
        delay = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    }
}

static int on_read(const char *path, char *to, size_t count, off_t at, struct fuse_file_info *fi)
{
    ssize_t got;

    (void)path;
    take_a_while(false);
    got = pread(fd_of(fi), to, count, at);
    return got < 0 ? -errno : (int)got;
}

static int on_write(const char *path, const char *from, size_t count, off_t at,
                    struct fuse_file_info *fi)
{
    size_t length = strlen(path);
    ssize_t put;

    if (length > 4 && strcmp(path + length - 4, ".ldb") == 0) {
        take_a_while(true);
    }
    put = pwrite(fd_of(fi), from, count, at);
    return put < 0 ? -errno : (int)put;
}

static int on_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
    int fd, rv;

    if (fi != NULL) {
        return answer(ftruncate(fd_of(fi), size));
    }
    if ((fd = openat(the_disk()->fd, under(path), O_WRONLY)) < 0) {
        return -errno;
    }
    rv = answer(ftruncate(fd, size));
    close(fd);
    return rv;
}

static int on_fallocate(const char *path, int mode, off_t at, off_t count,
                        struct fuse_file_info *fi)
{
    (void)path;
    return answer(fallocate(fd_of(fi), mode, at, count));
}

static int on_fsync(const char *path, int only_data, struct fuse_file_info *fi)
{
    (void)path;
    return answer(only_data ? fdatasync(fd_of(fi)) : fsync(fd_of(fi)));
}

static int on_statfs(const char *path, struct statvfs *st)
{
    (void)path;
    return answer(fstatvfs(the_disk()->fd, st));
}

static int on_readdir(const char *path, void *to, fuse_fill_dir_t fill, off_t at,
                      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    int fd = openat(the_disk()->fd, under(path), O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    (void)at;
    (void)fi;
    (void)flags;
    if (dir == NULL) {
        return -errno;
    }
    while ((entry = readdir(dir)) != NULL) {
        (void)fill(to, entry->d_name, NULL, 0, 0);
    }
    closedir(dir);
    return 0;
}

static const struct fuse_operations operations = {
    .init = on_init,
    .getattr = on_getattr,
    .mkdir = on_mkdir,
    .unlink = on_unlink,
    .rmdir = on_rmdir,
    .rename = on_rename,
    .chmod = on_chmod,
    .open = on_open,
    .create = on_create,
    .release = on_release,
    .read = on_read,
    .write = on_write,
    .truncate = on_truncate,
    .fallocate = on_fallocate,
    .fsync = on_fsync,
    .statfs = on_statfs,
    .readdir = on_readdir,
};

int main(int argc, char **argv)
{
    char foreground[] = "-f";
    struct disk disk;

    if (argc != 4) {
        fprintf(stderr, "usage: slow_disk DIRECTORY MOUNTPOINT FILE\n");
        return 2;
    }
    if ((disk.fd = open(argv[1], O_RDONLY | O_DIRECTORY)) < 0 ||
        (disk.delay_fd = open(argv[3], O_RDONLY)) < 0) {
        fprintf(stderr, "slow_disk: %s or %s: %s\n", argv[1], argv[3], strerror(errno));
        return 1;
    }
    return fuse_main(3, ((char *[]){ argv[0], argv[2], foreground, NULL }), &operations, &disk);
}
