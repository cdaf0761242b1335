/* A disk below one process that has lost sectors: loaded before the C library, it makes reads of them fail, until one has been written as a whole or a hole is
 * in its place. Of what is written in part the kernel reads the rest, so that fails as well.
 *
 *   LD_PRELOAD=bad_sectors.so BAD_SECTORS=DIR PROGRAM
 *
 * DIR has a file for each sector, INODE.PLACE: the inode of the file that it is of, and where in the file it begins, a multiple of 4096. They may be made at
 * any time; what is written removes them. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SECTOR_BYTES = 4096 };

/* Does the access touch that sector of the file? `*covers`: all of it. */
static int touches(const char *name, ino_t inode, off_t place, off_t end, int *covers)
{
    char *rest;
    off_t at;

    if (strtoull(name, &rest, 10) != inode || *rest != '.') {
        return 0;
    }
    at = (off_t)strtoll(rest + 1, NULL, 10);
    *covers = place <= at && at + SECTOR_BYTES <= end;
    return place < at + SECTOR_BYTES && at < end;
}

static int refused(int fd, off_t place, off_t bytes, int writes)
{
    const char *path = getenv("BAD_SECTORS");
    DIR *dir = path != NULL ? opendir(path) : NULL;
    const struct dirent *entry;
    struct stat st;
    int no = 0, covers;

    if (dir == NULL || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (dir != NULL) {
            (void)closedir(dir);
        }
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (touches(entry->d_name, st.st_ino, place, place + bytes, &covers)) {
            if (writes && covers) {
                (void)unlinkat(dirfd(dir), entry->d_name, 0);
            } else {
                no = 1;
            }
        }
    }
    (void)closedir(dir);
    errno = no ? EIO : errno;
    return no;
}

static off_t bytes_of(const struct iovec *vectors, int count)
{
    off_t bytes = 0;

    while (count-- > 0) {
        bytes += (off_t)vectors++->iov_len;
    }
    return bytes;
}

ssize_t pread(int fd, void *to, size_t bytes, off_t place)
{
    ssize_t (*call)(int, void *, size_t, off_t);

    *(void **)&call = dlsym(RTLD_NEXT, "pread");
    return refused(fd, place, (off_t)bytes, 0) ? -1 : call(fd, to, bytes, place);
}

ssize_t preadv2(int fd, const struct iovec *to, int count, off_t place, int flags)
{
    ssize_t (*call)(int, const struct iovec *, int, off_t, int);

    *(void **)&call = dlsym(RTLD_NEXT, "preadv2");
    return refused(fd, place, bytes_of(to, count), 0) ? -1 : call(fd, to, count, place, flags);
}

ssize_t pwritev(int fd, const struct iovec *from, int count, off_t place)
{
    ssize_t (*call)(int, const struct iovec *, int, off_t);

    *(void **)&call = dlsym(RTLD_NEXT, "pwritev");
    return refused(fd, place, bytes_of(from, count), 1) ? -1 : call(fd, from, count, place);
}

int fallocate(int fd, int mode, off_t place, off_t bytes)
{
    int (*call)(int, int, off_t, off_t);

    *(void **)&call = dlsym(RTLD_NEXT, "fallocate");
    if ((mode & FALLOC_FL_PUNCH_HOLE) != 0 && refused(fd, place, bytes, 1)) {
        return -1;
    }
    return call(fd, mode, place, bytes);
}
