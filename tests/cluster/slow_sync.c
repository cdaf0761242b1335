/* A slow disk below one process: loaded before the C library, it makes each sync, and each read that may wait, take a
 * while longer. Threads of the process wait as they would for the disk; nothing else does, as with a
 * file system's pages in memory. (slow_disk.c is for what can be seen through FUSE, whose syncs hold up writes.)
 *
 *   LD_PRELOAD=slow_sync.so SLOW_SYNC_FILE=FILE PROGRAM
 *
 * FILE says how many milliseconds a read and, behind a space, a sync take longer (nothing: 0), at any time. What is
 * under way ends by what FILE says then: a disk that hangs comes back. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long delay_ms(int syncs)
{
    const char *path = getenv("SLOW_SYNC_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char text[64] = "", *end = text;
    long ms = 0;

    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0) {
        ms = strtol(text, &end, 10);
        ms = syncs ? strtol(end, NULL, 10) : ms;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return ms;
}

static void take_a_while(int syncs)
{
    const long step_ms = 20;
    struct timespec delay;
    long ms, passed_ms = 0;

    while ((ms = delay_ms(syncs)) > passed_ms) {
        ms = ms - passed_ms < step_ms ? ms - passed_ms : step_ms;
        delay = (struct timespec){ 0, ms * 1000000 };
        (void)nanosleep(&delay, NULL);
        passed_ms += ms;
    }
}

static int real_sync(const char *name, int fd)
{
    int (*call)(int fd);

    *(void **)&call = dlsym(RTLD_NEXT, name);
    take_a_while(1);
    return call(fd);
}

int fsync(int fd)
{
    return real_sync("fsync", fd);
}

int fdatasync(int fd)
{
    return real_sync("fdatasync", fd);
}

int syncfs(int fd)
{
    return real_sync("syncfs", fd);
}

ssize_t preadv2(int fd, const struct iovec *to, int count, off_t at, int flags)
{
    ssize_t (*call)(int fd, const struct iovec *to, int count, off_t at, int flags);

    *(void **)&call = dlsym(RTLD_NEXT, "preadv2");
    if (flags == 0) {
        take_a_while(0);
    }
    return call(fd, to, count, at, flags);
}
