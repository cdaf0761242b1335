/* Two mounts rename the same name to the same other name at the same moment: one has done it, the
 * others hear ENOENT; and whoever looks at the names meanwhile hears no ESTALE. But for one in
 * thousands: the kernel asks again once, and the second answer may meet the end of the file.
 *
 *   meetings SEED ROUNDS DIR DIR2     the same directory through two mounts
 *
 * Three processes rename, one on DIR and two on DIR2, and one on each mount looks at the names in
 * many ways. They meet before each round and after it; what a round is about is drawn. Exit status
 * 1 with a line that counts what was not so.
 */
#include "common/base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
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

enum {
    PATH_BYTES = 4096,
    RENAMERS = 3,
    PROCESSES = RENAMERS + 2,
    DELAY_US = 300,
    LOOKS = 9,
    STALE_ONE_IN = 4000,
    BACK_AND_FORTH = 8 /* Renames of a process in such a round. */
};

enum kind { A_FILE, A_DIRECTORY, A_SYMLINK, TWO_LINKS, THERE_AND_BACK, KINDS };
static const char *const kind_names[KINDS] = { "a file", "a directory", "a symbolic link",
                                               "two links of a file", "there and back" };

/* What all know of a round. */
struct plan
{
    enum kind kind;
    bool target;    /* There is something under the new name. */
    bool elsewhere; /* The new name is in another directory. */
    bool looked_at;
    uint32_t known; /* Two bits a process: it has looked at the old name, the new one. */
    uint64_t word;  /* Of the names. */
};

struct shared
{
    _Atomic unsigned arrived;
    _Atomic bool failed;
    _Atomic unsigned renaming;                                 /* Renamers that are not done. */
    _Atomic int there[RENAMERS], back[RENAMERS];               /* Renames that succeeded */
    _Atomic unsigned twice[KINDS], nobody[KINDS], torn[KINDS]; /* Violations */
    _Atomic unsigned rename_stale, look_stale, look_other, other;
    _Atomic uint64_t looks;
    _Atomic int last_errno;
    _Atomic unsigned stale_look; /* The last one of them. */
};

static struct shared *shared;

struct one
{
    unsigned number;
    struct prng plans, own;
    uint64_t round;
    struct plan plan;
    const char *dir;
    char from[PATH_BYTES], to[PATH_BYTES];
};

static void must(bool done, const char *what)
{
    if (!done) {
        printf("%s: %s\n", what, strerror(errno));
        (void)fflush(stdout);
        atomic_store(&shared->failed, true);
        _exit(1);
    }
}

/* Until all have come. */
static void meet(void)
{
    static unsigned turn;

    turn++;
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < turn * PROCESSES) {
        if (atomic_load(&shared->failed)) {
            _exit(1);
        }
        (void)sched_yield();
    }
}

static void draw_plan(struct one *o)
{
    struct plan *p = &o->plan;

    p->kind = (enum kind)prng_below(&o->plans, KINDS);
    p->target = prng_below(&o->plans, 2) == 0 && p->kind != TWO_LINKS && p->kind != THERE_AND_BACK;
    p->elsewhere = prng_below(&o->plans, 4) == 0;
    p->looked_at = prng_below(&o->plans, 2) == 0;
    p->known = (uint32_t)prng_next(&o->plans);
    p->word = prng_below(&o->plans, 2) == 0 ? 0 : o->round; /* The same names as before, or new. */
    (void)snprintf(o->from, sizeof(o->from), "%s/one/from%" PRIu64, o->dir, p->word);
    (void)snprintf(o->to, sizeof(o->to), "%s/%s/to%" PRIu64, o->dir, p->elsewhere ? "two" : "one",
                   p->word);
}

static void make(const char *path, enum kind kind)
{
    int fd;

    if (kind == A_DIRECTORY) {
        must(mkdir(path, 0755) == 0, path);
    } else if (kind == A_SYMLINK) {
        must(symlink("somewhere", path) == 0, path);
    } else {
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        must(fd >= 0 && close(fd) == 0, path);
    }
}

static bool exists(const char *path)
{
    struct stat st;
    bool there = lstat(path, &st) == 0;

    must(there || errno == ENOENT, path);
    return there;
}

static void pause_us(struct prng *p, uint64_t most)
{
    struct timespec pause = { .tv_nsec = (long)prng_below(p, most) * 1000 };

    if (prng_below(p, 2) == 0) {
        (void)nanosleep(&pause, NULL);
    }
}

static bool rename_once(const char *from, const char *to, _Atomic int *done)
{
    if (rename(from, to) == 0) {
        atomic_fetch_add(done, 1);
        return true;
    }
    if (errno == ESTALE) {
        atomic_fetch_add(&shared->rename_stale, 1);
    } else if (errno != ENOENT) {
        atomic_store(&shared->last_errno, errno);
        atomic_fetch_add(&shared->other, 1);
    }
    return false;
}

static void do_rename(struct one *o)
{
    _Atomic int *there = &shared->there[o->number], *back = &shared->back[o->number];

    if (o->plan.kind != THERE_AND_BACK) {
        (void)rename_once(o->from, o->to, there);
    } else {
        for (unsigned i = 0; i < BACK_AND_FORTH; i++) {
            bool forth = prng_below(&o->own, 2) == 0;

            (void)rename_once(forth ? o->from : o->to, forth ? o->to : o->from,
                              forth ? there : back);
        }
    }
    atomic_fetch_sub(&shared->renaming, 1);
}

/* A call that goes by a name. 0, or the error. */
static int look(const char *path, unsigned how)
{
    static const struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
    struct stat st;
    char text[100];
    int fd;

    switch (how) {
    case 0:
        return lstat(path, &st) == 0 ? 0 : errno;
    case 1:
    case 2:
        fd = open(path, how == 1 ? O_RDONLY | O_CLOEXEC : O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return errno == ELOOP ? 0 : errno;
        }
        (void)close(fd);
        return 0;
    case 3:
        return faccessat(AT_FDCWD, path, R_OK, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    case 4:
        return utimensat(AT_FDCWD, path, now, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    case 5:
        return readlink(path, text, sizeof(text)) >= 0 || errno == EINVAL ? 0 : errno;
    case 6:
        return truncate(path, 0) == 0 || errno == EISDIR ? 0 : errno;
    case 7:
        fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? errno : close(fd) == 0 ? 0 : errno;
    default:
        return chmod(path, 0700) == 0 ? 0 : errno;
    }
}

static void do_look(struct one *o)
{
    while (atomic_load(&shared->renaming) > 0) {
        const char *path = prng_below(&o->own, 3) == 0 ? o->from : o->to;
        unsigned how = (unsigned)prng_below(&o->own, LOOKS);
        int error = look(path, how);

        atomic_fetch_add(&shared->looks, 1);
        if (error == ESTALE) {
            atomic_fetch_add(&shared->look_stale, 1);
            atomic_store(&shared->stale_look, how);
        } else if (error != 0 && error != ENOENT) {
            atomic_store(&shared->last_errno, error);
            atomic_fetch_add(&shared->look_other, 1);
        }
    }
}

/* All is over: is it as they were told? */
static void judge(struct one *o)
{
    bool from = exists(o->from), to = exists(o->to);
    enum kind kind = o->plan.kind;
    int moved = 0;

    for (unsigned i = 0; i < RENAMERS; i++) {
        moved += atomic_load(&shared->there[i]) - atomic_load(&shared->back[i]);
    }
    if (kind == TWO_LINKS) {
        atomic_fetch_add(&shared->torn[kind], !from || !to || moved != RENAMERS);
    } else if (kind == THERE_AND_BACK) {
        atomic_fetch_add(&shared->torn[kind], from == to);
        atomic_fetch_add(&shared->twice[kind], moved != (to ? 1 : 0));
    } else {
        atomic_fetch_add(&shared->torn[kind], from || !to);
        atomic_fetch_add(&shared->twice[kind], moved > 1);
        atomic_fetch_add(&shared->nobody[kind], moved < 1);
    }
    must(!from || remove(o->from) == 0, o->from);
    must(!to || remove(o->to) == 0, o->to);
}

static void prepare(struct one *o)
{
    make(o->from, o->plan.kind);
    if (o->plan.kind == TWO_LINKS) {
        must(link(o->from, o->to) == 0, o->to);
    } else if (o->plan.target) {
        make(o->to, o->plan.kind);
    }
    for (unsigned i = 0; i < RENAMERS; i++) {
        atomic_store(&shared->there[i], 0);
        atomic_store(&shared->back[i], 0);
    }
    atomic_store(&shared->renaming, RENAMERS);
}

static void run(struct one *o, uint64_t rounds)
{
    for (o->round = 1; o->round <= rounds; o->round++) {
        draw_plan(o);
        if (o->number == o->round % PROCESSES) {
            prepare(o);
        }
        meet();
        if ((o->plan.known >> o->number * 2 & 1) != 0) {
            (void)exists(o->from);
        }
        if ((o->plan.known >> o->number * 2 & 2) != 0) {
            (void)exists(o->to);
        }
        meet();
        pause_us(&o->own, DELAY_US);
        if (o->number < RENAMERS) {
            do_rename(o);
        } else if (o->plan.looked_at) {
            do_look(o);
        }
        meet();
        if (o->number == (o->round + 1) % PROCESSES) {
            judge(o);
        }
        meet();
    }
}

/* The number of what was not so. */
static unsigned tell(uint64_t rounds)
{
    unsigned wrong = 0;

    for (unsigned kind = 0; kind < KINDS; kind++) {
        unsigned twice = atomic_load(&shared->twice[kind]),
                 nobody = atomic_load(&shared->nobody[kind]),
                 torn = atomic_load(&shared->torn[kind]);

        wrong += twice + nobody + torn;
        if (twice + nobody + torn > 0) {
            printf("%s: %u times more were told that they did than did, %u times nobody was, %u "
                   "times it was not so; ",
                   kind_names[kind], twice, nobody, torn);
        }
    }
    wrong += atomic_load(&shared->rename_stale) + atomic_load(&shared->other) +
             atomic_load(&shared->look_other);
    if (atomic_load(&shared->look_stale) > 1 + atomic_load(&shared->looks) / STALE_ONE_IN) {
        wrong += atomic_load(&shared->look_stale);
    }
    printf("%" PRIu64 " meetings and %" PRIu64 " looks; ESTALE from %u renames and %u looks (%u), "
           "other errors from %u and %u (%s)\n",
           rounds, atomic_load(&shared->looks), atomic_load(&shared->rename_stale),
           atomic_load(&shared->look_stale), atomic_load(&shared->stale_look),
           atomic_load(&shared->other), atomic_load(&shared->look_other),
           strerror(atomic_load(&shared->last_errno)));
    return wrong;
}

static void make_directories(const char *dir)
{
    char path[PATH_BYTES];

    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, i == 0 ? "one" : "two");
        must(mkdir(path, 0755) == 0, path);
    }
}

int main(int argc, char **argv)
{
    struct one one = { 0 };
    pid_t children[PROCESSES];
    int status, code = 0;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 5 || shared == MAP_FAILED) {
        fputs("usage: meetings SEED ROUNDS DIR DIR2\n", stderr);
        return 2;
    }
    make_directories(argv[3]);
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            one.number = i;
            one.dir = argv[i >= 1 && i <= RENAMERS ? 4 : 3];
            prng_seed(&one.plans, strtoull(argv[1], NULL, 10));
            prng_seed(&one.own, strtoull(argv[1], NULL, 10) * PROCESSES + i);
            run(&one, strtoull(argv[2], NULL, 10));
            _exit(0);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        if (children[i] < 0 || waitpid(children[i], &status, 0) != children[i] || status != 0) {
            atomic_store(&shared->failed, true);
            code = 1;
        }
    }
    return tell(strtoull(argv[2], NULL, 10)) == 0 && code == 0 ? 0 : 1;
}
