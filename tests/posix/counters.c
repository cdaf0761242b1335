/* Counters that are kept under locks by processes of several mounts.
 *
 *   counters young SEED FILES DIR...        a new file each time, opened by all at about the same
 *                                           moment, closed at different ones
 *   counters open SEED SECONDS DIR...       a few files that stay open, for some seconds each
 *
 * PER_MOUNT processes on each directory (the same one through several mounts) count in files of
 * some bytes: lock (F_OFD_SETLKW), read, compare with what the last one has written, write one
 * more, sometimes fstat, unlock. Exit status 1 with one line at the first value that is not the
 * last one written, and at the first file that is wrong when all have closed it.
 */
#include "common/base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PER_MOUNT = 2,
    PROCESSES_MAX = 6,
    GATE_OPEN = 2 * PROCESSES_MAX, /* More than can have come. */
    OPEN_FILES = 12,               /* Of one round of `open`. */
    ROUND_MS = 2500,               /* Of `open`: what mounts do once a second happens twice. */
    YOUNG_STEPS = 6,
    YOUNG_PAUSE_US = 400,
    PATH_BYTES = 4096,
    VALUE_BYTES = 20
};

/* All processes have it; `values` is changed under the files' locks only. */
struct shared
{
    _Atomic unsigned arrived[2];
    _Atomic uint64_t steps;
    _Atomic bool failed;
    unsigned processes;
    _Atomic uint64_t values[OPEN_FILES];
};

static struct shared *shared;

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char *format, ...)
{
    va_list args;

    if (!atomic_exchange(&shared->failed, true)) {
        va_start(args, format);
        (void)vprintf(format, args);
        va_end(args);
        (void)putchar('\n');
        (void)fflush(stdout);
    }
    _exit(1);
}

static void must(bool done, const char *what)
{
    if (!done) {
        fail("%s: %s", what, strerror(errno));
    }
}

/* Until all have come. */
static void meet(void)
{
    static unsigned turn;
    _Atomic unsigned *arrived = &shared->arrived[turn % 2];

    /* The last one opens the gate, and makes the other one ready for the time after. */
    turn++;
    if (atomic_fetch_add(arrived, 1) + 1 == shared->processes) {
        atomic_store(&shared->arrived[turn % 2], 0);
        atomic_fetch_add(arrived, GATE_OPEN);
    }
    while (atomic_load(arrived) < GATE_OPEN) {
        if (atomic_load(&shared->failed)) {
            _exit(1);
        }
        (void)sched_yield();
    }
}

/* What the file says: 0 for an empty one. */
static uint64_t value_of(const char *text, ssize_t bytes, const char *path)
{
    uint64_t value = 0;

    for (ssize_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') {
            fail("%s: byte %zd of %zd is %d, which nobody wrote", path, i, bytes, text[i]);
        }
        value = 10 * value + (uint64_t)(text[i] - '0');
    }
    return value;
}

static void lock(int fd, short type, const char *path)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET };

    must(fcntl(fd, F_OFD_SETLKW, &range) == 0, path);
}

static void check_value(const char *path, uint64_t got, uint64_t expected, const char *how)
{
    if (got != expected) {
        fail("%s: %s says %" PRIu64 "; %" PRIu64 " was the last one written", path, how, got,
             expected);
    }
}

/* The file is `width` bytes long, or empty as long as nobody has counted. */
static void count(int fd, const char *path, _Atomic uint64_t *last, unsigned width, bool look)
{
    char text[VALUE_BYTES + 1] = "";
    uint64_t expected;
    struct stat st;

    lock(fd, F_WRLCK, path);
    expected = atomic_load(last);
    if (look) {
        must(fstat(fd, &st) == 0, path);
        check_value(path, (uint64_t)st.st_size, expected == 0 ? 0 : width, "its size");
    }
    check_value(path, value_of(text, pread(fd, text, width, 0), path), expected, "a read");
    (void)snprintf(text, sizeof(text), "%0*" PRIu64, (int)width, expected + 1);
    must(pwrite(fd, text, width, 0) == (ssize_t)width, path);
    atomic_store(last, expected + 1);
    atomic_fetch_add(&shared->steps, 1);
    lock(fd, F_UNLCK, path);
}

/* All have closed it: what is there for good? */
static void check_end(const char *path, uint64_t expected)
{
    char text[VALUE_BYTES + 1] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    must(fd >= 0, path);
    check_value(path, value_of(text, read(fd, text, VALUE_BYTES), path), expected, "at the end it");
    must(close(fd) == 0, path);
}

static void pause_us(struct prng *p, uint64_t most)
{
    struct timespec pause = { .tv_nsec = (long)prng_below(p, most) * 1000 };

    (void)nanosleep(&pause, NULL);
}

static void run_young(struct prng *p, unsigned me, const char *dir, uint64_t files)
{
    for (uint64_t i = 0; i < files; i++) {
        _Atomic uint64_t *last = &shared->values[i % OPEN_FILES];
        unsigned width = i % 2 == 0 ? 8 : VALUE_BYTES;
        uint64_t steps = prng_below(p, YOUNG_STEPS);
        char path[PATH_BYTES];
        int fd;

        (void)snprintf(path, sizeof(path), "%s/f%" PRIu64, dir, i);
        meet();
        if (prng_below(p, 2) == 0) {
            pause_us(p, YOUNG_PAUSE_US);
        }
        fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        must(fd >= 0, path);
        for (uint64_t k = 0; k <= steps; k++) {
            count(fd, path, last, width, prng_below(p, 4) == 0);
        }
        must(close(fd) == 0, path);
        meet();
        check_end(path, atomic_load(last));
        meet();
        if (me == 0) {
            atomic_store(last, 0);
            must(unlink(path) == 0, path);
        }
    }
}

/* The first mount opens first, alone: its handles are of the kind that the kernel keeps pages for.
 */
static void run_open(struct prng *p, unsigned me, const char *dir, uint64_t round)
{
    int fds[OPEN_FILES] = { 0 };
    char path[PATH_BYTES];
    uint64_t until_ms;

    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < OPEN_FILES && turn == (me % (shared->processes / PER_MOUNT) !=
                                                        round % (shared->processes / PER_MOUNT));
             i++) {
            (void)snprintf(path, sizeof(path), "%s/r%" PRIu64 ".%u", dir, round, i);
            fds[i] = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
            must(fds[i] >= 0, path);
        }
        meet();
    }
    for (until_ms = now_ms() + ROUND_MS; now_ms() < until_ms;) {
        unsigned i = (unsigned)prng_below(p, OPEN_FILES);

        (void)snprintf(path, sizeof(path), "%s/r%" PRIu64 ".%u", dir, round, i);
        count(fds[i], path, &shared->values[i], i % 2 == 0 ? 8 : VALUE_BYTES,
              prng_below(p, 8) == 0);
    }
    for (unsigned i = 0; i < OPEN_FILES; i++) {
        must(close(fds[i]) == 0, path);
    }
    meet();
    for (unsigned i = 0; i < OPEN_FILES; i++) {
        (void)snprintf(path, sizeof(path), "%s/r%" PRIu64 ".%u", dir, round, i);
        check_end(path, atomic_load(&shared->values[i]));
    }
    meet();
    for (unsigned i = 0; me == 0 && i < OPEN_FILES; i++) {
        (void)snprintf(path, sizeof(path), "%s/r%" PRIu64 ".%u", dir, round, i);
        atomic_store(&shared->values[i], 0);
        must(unlink(path) == 0, path);
    }
}

static void run(unsigned me, const char *dir, bool young, uint64_t seed, uint64_t amount)
{
    struct prng p;
    uint64_t rounds = (amount * 1000 + ROUND_MS - 1) / ROUND_MS;

    prng_seed(&p, seed * PROCESSES_MAX + me);
    if (young) {
        run_young(&p, me, dir, amount);
    }
    for (uint64_t i = 0; !young && i < rounds; i++) {
        run_open(&p, me, dir, i);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    pid_t children[PROCESSES_MAX] = { 0 };
    bool young = argc > 1 && strcmp(argv[1], "young") == 0;
    unsigned mounts = argc < 5 ? 0 : (unsigned)argc - 4;
    int status, code = 0;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mounts == 0 || mounts * PER_MOUNT > PROCESSES_MAX || shared == MAP_FAILED ||
        (!young && strcmp(argv[1], "open") != 0)) {
        fputs("usage: counters young|open SEED FILES|SECONDS DIR...\n", stderr);
        return 2;
    }
    shared->processes = mounts * PER_MOUNT;
    for (unsigned i = 0; i < shared->processes; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            run(i, argv[4 + i % mounts], young, strtoull(argv[2], NULL, 10),
                strtoull(argv[3], NULL, 10));
        }
    }
    for (unsigned i = 0; i < shared->processes; i++) {
        if (children[i] < 0 || waitpid(children[i], &status, 0) != children[i] || status != 0) {
            atomic_store(&shared->failed, true);
            code = 1;
        }
    }
    if (code == 0) {
        printf("%" PRIu64 " steps, none lost\n", atomic_load(&shared->steps));
    }
    return code;
}
