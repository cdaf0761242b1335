/* Calls of two mounts that cross: what one of them has just been told is old before it has taken
 * it in.
 *
 *   crossing SEED ROUNDS DIR DIR2     the same directory through two mounts
 *
 * Two processes, one on each, meet before each round, do their calls at about the same moment, and
 * meet again: from there on nothing is under way, and both must see the same. On the first mount
 * the process is kept from running for moments by another one that comes first on its processor:
 * so the answers of the mount lie there while the world goes on. Exit status 1 with one line at the
 * first thing that is not so.
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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, KINDS = 5, BUSY_US = 3000, FREE_US = 1000, DELAY_US = 400 };

struct shared
{
    _Atomic unsigned arrived[2];
    _Atomic bool failed;
    struct stat seen; /* By the second mount, when all is over. */
};

static struct shared *shared;

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

/* Until both have come. */
static void meet(void)
{
    static unsigned turn;
    _Atomic unsigned *arrived = &shared->arrived[turn++ % 2];

    if (atomic_fetch_add(arrived, 1) == 1) {
        atomic_store(&shared->arrived[turn % 2], 0);
        atomic_fetch_add(arrived, 1);
    }
    while (atomic_load(arrived) < 3) {
        if (atomic_load(&shared->failed)) {
            _exit(1);
        }
        (void)sched_yield();
    }
}

static void pause_us(struct prng *p, uint64_t most)
{
    struct timespec pause = { .tv_nsec = (long)prng_below(p, most) * 1000 };

    (void)nanosleep(&pause, NULL);
}

struct side
{
    struct prng p;
    bool first; /* Its mount is the one whose answers lie there. */
    int fd;
    int known; /* The file's name, found before the calls; -1: not. */
    uint64_t round;
    char path[PATH_BYTES];
};

/* All is over: do both see the same? */
static void compare(struct side *s, const char *what)
{
    struct stat st;

    meet();
    if (!s->first) {
        must(stat(s->path, &shared->seen) == 0, s->path);
    }
    meet();
    if (s->first) {
        /* Without a look at the name, if it can: what the kernel has is what counts. */
        must(s->known < 0 ? stat(s->path, &st) == 0 : fstat(s->known, &st) == 0, s->path);
        must(s->known < 0 || close(s->known) == 0, s->path);
        s->known = -1;
        if (st.st_size != shared->seen.st_size || st.st_mode != shared->seen.st_mode) {
            fail("round %" PRIu64 ", %s: %s has %ld bytes and mode %o; the other mount says %ld "
                 "and %o",
                 s->round, what, s->path, (long)st.st_size, st.st_mode, (long)shared->seen.st_size,
                 shared->seen.st_mode);
        }
    }
    meet();
}

/* One makes the file while the other waits for its name, and writes. */
static void cross_birth(struct side *s)
{
    uint64_t value = 0;
    struct stat st;

    if (s->first) {
        s->fd = open(s->path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    } else {
        while ((s->fd = open(s->path, O_RDWR | O_CLOEXEC)) < 0 && errno == ENOENT) {
        }
        must(pwrite(s->fd, &s->round, sizeof(s->round), 0) == sizeof(s->round), s->path);
    }
    must(s->fd >= 0, s->path);
    meet();
    if (s->first) {
        must(pread(s->fd, &value, sizeof(value), 0) >= 0 && fstat(s->fd, &st) == 0, s->path);
        if (value != s->round || st.st_size != sizeof(value)) {
            fail("round %" PRIu64 ": who made %s reads %" PRIu64 " of %ld bytes; %" PRIu64
                 " was written",
                 s->round, s->path, value, (long)st.st_size, s->round);
        }
    }
    compare(s, "a birth");
    must(close(s->fd) == 0, s->path);
}

/* The first one has never seen the name. */
static void cross_look(struct side *s)
{
    struct stat st;

    if (!s->first) {
        s->fd = open(s->path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        must(s->fd >= 0 && close(s->fd) == 0, s->path);
    }
    meet();
    pause_us(&s->p, DELAY_US);
    must(s->first ? stat(s->path, &st) == 0 : truncate(s->path, (off_t)s->round) == 0, s->path);
    compare(s, "a first look beside a cut");
}

static void make_known(struct side *s)
{
    if (s->first) {
        s->fd = open(s->path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        must(s->fd >= 0 && close(s->fd) == 0, s->path);
        s->known = open(s->path, O_PATH | O_CLOEXEC);
        must(s->known >= 0, s->path);
    }
}

/* Both cut. */
static void cross_cuts(struct side *s)
{
    make_known(s);
    meet();
    pause_us(&s->p, DELAY_US);
    must(truncate(s->path, (off_t)(s->round * 2 + s->first)) == 0, s->path);
    compare(s, "a cut beside a cut");
}

/* One sets the mode, the other one cuts. */
static void cross_modes(struct side *s)
{
    make_known(s);
    meet();
    pause_us(&s->p, DELAY_US);
    must(s->first ? chmod(s->path, 0600) == 0 : truncate(s->path, (off_t)s->round) == 0, s->path);
    compare(s, "a mode beside a cut");
}

/* A second name of a file beside a cut. */
static void cross_links(struct side *s)
{
    char other[PATH_BYTES + 8];

    (void)snprintf(other, sizeof(other), "%s.link", s->path);
    make_known(s);
    meet();
    pause_us(&s->p, DELAY_US);
    must(s->first ? link(s->path, other) == 0 : truncate(s->path, (off_t)s->round) == 0, s->path);
    compare(s, "a link beside a cut");
    if (s->first) {
        must(unlink(other) == 0, other);
    }
}

static void run(struct side *s, const char *dir, uint64_t rounds)
{
    static void (*const kinds[KINDS])(struct side * s) = { cross_birth, cross_look, cross_cuts,
                                                           cross_modes, cross_links };

    for (s->round = 1; s->round <= rounds; s->round++) {
        (void)snprintf(s->path, sizeof(s->path), "%s/c%" PRIu64, dir, s->round);
        meet();
        kinds[s->round % KINDS](s);
        if (s->first) {
            must(unlink(s->path) == 0, s->path);
        }
    }
}

static void run_on(unsigned cpu, int policy, int priority)
{
    struct sched_param param = { .sched_priority = priority };
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
    must(sched_setscheduler(0, policy, &param) == 0, "sched_setscheduler (needs root)");
}

/* Comes first on the last processor, for moments. */
static _Noreturn void be_busy(struct prng *p, unsigned cpu)
{
    struct timespec began, now;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_on(cpu, SCHED_FIFO, 1);
    for (;;) {
        uint64_t busy_us = prng_below(p, BUSY_US);

        (void)clock_gettime(CLOCK_MONOTONIC, &began);
        do {
            (void)clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((uint64_t)((now.tv_sec - began.tv_sec) * 1000000 +
                            (now.tv_nsec - began.tv_nsec) / 1000) < busy_us);
        pause_us(p, FREE_US);
    }
}

int main(int argc, char **argv)
{
    unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    pid_t busy, children[2];
    struct side side = { .fd = -1, .known = -1 };
    int status, code = 0;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 5 || cpus < 2 || shared == MAP_FAILED) {
        fputs("usage: crossing SEED ROUNDS DIR DIR2, on a machine with two processors\n", stderr);
        return 2;
    }
    prng_seed(&side.p, strtoull(argv[1], NULL, 10));
    busy = fork();
    if (busy == 0) {
        be_busy(&side.p, cpus - 1);
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)prng_below(&side.p, 2);
        children[i] = fork();
        if (children[i] == 0) {
            side.first = i == 0;
            run_on(side.first ? cpus - 1 : 0, SCHED_OTHER, 0);
            run(&side, argv[3 + i], strtoull(argv[2], NULL, 10));
            _exit(0);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (children[i] < 0 || waitpid(children[i], &status, 0) != children[i] || status != 0) {
            atomic_store(&shared->failed, true);
            code = 1;
        }
    }
    (void)kill(busy, SIGKILL);
    (void)waitpid(busy, &status, 0);
    if (code == 0) {
        printf("%s rounds, and both mounts see the same\n", argv[2]);
    }
    return code;
}
