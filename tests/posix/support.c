#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void fill(void *bytes, size_t count, uint64_t seed)
{
    uint8_t *at = bytes;

    for (size_t i = 0; i < count; i++) {
        uint64_t x = (i / 8 + 1) * 0x9e3779b97f4a7c15U + seed * 0xbf58476d1ce4e5b9U;

        x ^= x >> 29;
        at[i] = (uint8_t)(x >> (8 * (i % 8)));
    }
}

void write_at(int fd, const void *bytes, size_t count, off_t offset)
{
    const uint8_t *at = bytes;

    while (count > 0) {
        ssize_t n = OK(pwrite(fd, at, count, offset));

        TRUE(n > 0);
        at += n;
        count -= (size_t)n;
        offset += n;
    }
}

void read_at(int fd, void *bytes, size_t count, off_t offset)
{
    uint8_t *at = bytes;

    while (count > 0) {
        ssize_t n = OK(pread(fd, at, count, offset));

        TRUE(n > 0);
        at += n;
        count -= (size_t)n;
        offset += n;
    }
}

void make_file(const char *path, const char *text)
{
    int fd = (int)OK(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));

    write_at(fd, text, strlen(text), 0);
    OK(close(fd));
}

void make_pattern_file(const char *path, size_t size, uint64_t seed)
{
    int fd = (int)OK(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    uint8_t *bytes = malloc(size);

    TRUE(bytes != NULL);
    fill(bytes, size, seed);
    write_at(fd, bytes, size, 0);
    free(bytes);
    OK(close(fd));
}

void expect_text(const char *path, const char *text)
{
    int fd = (int)OK(open(path, O_RDONLY));

    EQ(lseek(fd, 0, SEEK_END), strlen(text));
    expect_bytes(fd, text, strlen(text), 0);
    OK(close(fd));
}

void expect_bytes(int fd, const void *bytes, size_t count, off_t offset)
{
    uint8_t *got = malloc(count + 1);
    const uint8_t *expected = bytes;

    TRUE(got != NULL);
    read_at(fd, got, count, offset);
    for (size_t i = 0; i < count; i++) {
        if (got[i] != expected[i]) {
            size_t difference_at = (size_t)offset + i;

            EQ(difference_at, -1); /* Says where. */
        }
    }
    free(got);
}

void expect_zeros(int fd, size_t count, off_t offset)
{
    uint8_t *zeros = calloc(1, count + 1);

    TRUE(zeros != NULL);
    expect_bytes(fd, zeros, count, offset);
    free(zeros);
}

struct stat stat_of(const char *path)
{
    struct stat st;

    OK(lstat(path, &st));
    return st;
}

off_t size_of(const char *path)
{
    return stat_of(path).st_size;
}

bool exists(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0) {
        return true;
    }
    EQ(errno, ENOENT);
    return false;
}

void forget_pages(int fd)
{
    OK(fsync(fd)); /* Dirty pages stay. */
    OK(-posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

void need_root(void)
{
    if (geteuid() != 0) {
        SKIP("needs root to become somebody else");
    }
}

void become(uid_t uid, gid_t gid)
{
    become_root();
    OK(setgroups(0, NULL));
    OK(setegid(gid));
    OK(seteuid(uid));
}

void become_member(uid_t uid, gid_t gid, gid_t also)
{
    become_root();
    OK(setgroups(1, &also));
    OK(setegid(gid));
    OK(seteuid(uid));
}

void become_root(void)
{
    OK(seteuid(0));
    OK(setegid(0));
}

pid_t start(void (*function)(void))
{
    pid_t child = (pid_t)OK(fork());

    if (child == 0) {
        function();
        _exit(0);
    }
    return child;
}

int finish(pid_t child)
{
    int status;

    EQ(waitpid(child, &status, 0), child);
    return status;
}

bool later(struct timespec b, struct timespec a)
{
    return b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec > a.tv_nsec);
}

void let_clock_tick(void)
{
    struct timespec before, now, pause = { 0, 2000000 };

    OK(clock_gettime(CLOCK_REALTIME_COARSE, &before));
    do {
        (void)nanosleep(&pause, NULL);
        OK(clock_gettime(CLOCK_REALTIME_COARSE, &now));
    } while (!later(now, before));
}
