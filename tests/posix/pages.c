/* What the kernel's pages of a mount, and its idea of a file's size, have to do with what is read.
 *
 *   pages kept|beside|direct|all ROUNDS DIR DIR2     the same directory through two mounts
 *
 * kept:    what is mapped, and what splice(2) takes from pages, is new at once when another mount
 *          has opened the file for writing and has written: its lease was recalled, and the pages
 *          with it.
 * beside:  a handle of the time before the sharing reads what the other mount has just written,
 *          also when another process of its own mount writes without a pause and makes the file
 *          longer.
 * direct:  processes with O_DIRECT each write at a place of their own in a growing file, and read
 *          it back at once through another handle.
 *
 * Exit status 1 with one line at the first thing that is not so.
 */
#include "difference.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    PAGE_BYTES = 4096,
    DIRECT_PROCESSES = 50,
    DIRECT_BYTES = 65536,
    DIRECT_TIMES = 8
};

static const char *roots[2];

static const char *at(int mount, const char *what, uint64_t round)
{
    static char paths[2][PATH_BYTES];

    (void)snprintf(paths[mount], PATH_BYTES, "%s/%s%" PRIu64, roots[mount], what, round);
    return paths[mount];
}

static int open_at(int mount, const char *what, uint64_t round, int flags)
{
    int fd = open(at(mount, what, round), flags | O_CLOEXEC, 0644);

    must(fd >= 0, at(mount, what, round));
    return fd;
}

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        must(close(fds[i]) == 0, "close");
    }
}

/* ---- kept ---- */

static char spliced(int fd)
{
    char byte = 0;
    loff_t offset = 0;
    int pipes[2];

    must(pipe(pipes) == 0, "pipe");
    must(splice(fd, &offset, pipes[1], NULL, 1, 0) == 1 && read(pipes[0], &byte, 1) == 1, "splice");
    close_all(pipes, 2);
    return byte;
}

static void kept(uint64_t round)
{
    int maker = open_at(0, "kept", round, O_CREAT | O_WRONLY), reader, writer;
    const volatile char *map;
    char page[PAGE_BYTES];

    memset(page, 'o', sizeof(page));
    must(write(maker, page, sizeof(page)) == sizeof(page) && close(maker) == 0, "write");
    reader = open_at(0, "kept", round, O_RDONLY);
    map = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, reader, 0);
    must(map != MAP_FAILED, "mmap");
    if (*map != 'o' || spliced(reader) != 'o') {
        fail("round %" PRIu64 ": not what was written here", round);
    }
    writer = open_at(1, "kept", round, O_RDWR);
    must(pwrite(writer, "n", 1, 0) == 1, "pwrite");
    if (round % 2 == 0 && *map != 'n') {
        fail("round %" PRIu64 ": what is mapped says '%c' behind a write elsewhere", round, *map);
    }
    if (round % 2 == 1 && spliced(reader) != 'n') {
        fail("round %" PRIu64 ": splice takes an old byte behind a write elsewhere", round);
    }
    must(munmap((void *)(uintptr_t)map, PAGE_BYTES) == 0, "munmap");
    must(close(reader) == 0 && close(writer) == 0 && unlink(at(0, "kept", round)) == 0, "close");
}

/* ---- beside ---- */

/* Makes the file longer until it is killed. */
static _Noreturn void lengthen(int fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (off_t end = 2 * PAGE_BYTES; pwrite(fd, "x", 1, end) == 1; end++) {
    }
    _exit(1);
}

/* The other mount writes into a page that is read here, and behind everybody. */
static void beside(uint64_t rounds)
{
    int here[2] = { open_at(0, "beside", 0, O_CREAT | O_RDWR), open_at(0, "beside", 0, O_RDWR) };
    int there = open_at(1, "beside", 0, O_RDWR), status;
    uint64_t value = 0;
    pid_t writer;

    must(pwrite(there, &value, sizeof(value), PAGE_BYTES) == sizeof(value), "pwrite");
    writer = fork();
    must(writer >= 0, "fork");
    if (writer == 0) {
        lengthen(here[1]);
    }
    for (uint64_t i = 1; i <= rounds; i++) {
        off_t far = (off_t)i * (1 << 20);

        must(pwrite(there, &i, sizeof(i), PAGE_BYTES) == sizeof(i), "pwrite");
        must(pread(here[0], &value, sizeof(value), PAGE_BYTES) == sizeof(value), "pread");
        if (value != i) {
            fail("beside a writer: %" PRIu64 " is read; %" PRIu64 " was written", value, i);
        }
        must(pwrite(there, &i, sizeof(i), far) == sizeof(i), "pwrite");
        value = 0;
        must(pread(here[0], &value, sizeof(value), far) >= 0, "pread");
        if (value != i) {
            fail("beside a writer: %" PRIu64 " is read behind the old end; %" PRIu64
                 " was written there",
                 value, i);
        }
    }
    must(kill(writer, 0) == 0 && waitpid(writer, &status, WNOHANG) == 0, "the writer");
    must(kill(writer, SIGKILL) == 0 && waitpid(writer, &status, 0) == writer, "its end");
    close_all(here, 2);
    must(close(there) == 0 && unlink(at(0, "beside", 0)) == 0, "unlink");
}

/* ---- direct ---- */

static _Noreturn void write_and_read(uint64_t round, unsigned me)
{
    int writer = open_at(0, "direct", round, O_RDWR | O_DIRECT);
    int reader = open_at(0, "direct", round, O_RDONLY | O_DIRECT);
    char *out =
        mmap(NULL, 2 * DIRECT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *in = out + DIRECT_BYTES;

    must(out != MAP_FAILED, "mmap");
    for (unsigned i = 0; i < DIRECT_TIMES; i++) {
        off_t place = (off_t)(i * DIRECT_PROCESSES + me) * DIRECT_BYTES;
        ssize_t n;

        memset(out, (int)(1 + (me + i) % 255), DIRECT_BYTES);
        must(pwrite(writer, out, DIRECT_BYTES, place) == DIRECT_BYTES, "pwrite");
        n = pread(reader, in, DIRECT_BYTES, place);
        if (n != DIRECT_BYTES || memcmp(in, out, DIRECT_BYTES) != 0) {
            fail("process %u reads %zd bytes, or others, where it has just written %d", me, n,
                 DIRECT_BYTES);
        }
        if (i % 3 == 2) {
            must(close(writer) == 0, "close");
            writer = open_at(0, "direct", round, O_RDWR | O_DIRECT);
        }
    }
    _exit(0);
}

static void direct(uint64_t round)
{
    pid_t children[DIRECT_PROCESSES];
    int status, bad = 0;

    must(close(open_at(0, "direct", round, O_CREAT | O_RDWR)) == 0, "close");
    for (unsigned i = 0; i < DIRECT_PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            write_and_read(round, i);
        }
    }
    for (unsigned i = 0; i < DIRECT_PROCESSES; i++) {
        bad |= children[i] < 0 || waitpid(children[i], &status, 0) != children[i] || status != 0;
    }
    must(unlink(at(0, "direct", round)) == 0, "unlink");
    if (bad) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc == 5 ? strtoull(argv[2], NULL, 10) : 0;

    if (argc != 5 || strchr("kbda", argv[1][0]) == NULL) {
        fputs("usage: pages kept|beside|direct|all ROUNDS DIR DIR2\n", stderr);
        return 2;
    }
    roots[0] = argv[3];
    roots[1] = argv[4];
    for (uint64_t i = 1; i <= rounds && strchr("ka", argv[1][0]) != NULL; i++) {
        kept(i);
    }
    if (strchr("ba", argv[1][0]) != NULL) {
        beside(2 * rounds);
    }
    for (uint64_t i = 1; i <= rounds / 10 && strchr("da", argv[1][0]) != NULL; i++) {
        direct(i);
    }
    printf("%" PRIu64 " rounds\n", rounds);
    return 0;
}
