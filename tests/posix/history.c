/* Are histories of several mounts linearizable?
 *
 *   history [--faults] SEED COUNT DIR...      the same directory through several mounts
 *
 * COUNT times: processes, spread over the mounts, do a few random operations each, with random
 * pauses, and note when each began and ended and what came of it. They do so on one file (slots of
 * eight bytes: write, read, append, size, truncate), on a few names of one directory (create,
 * unlink, rename, stat), or on a young file: twice as many processes open it at the same moment and
 * so make it, some keep their handle and some open it again and again, and beside reads, writes and
 * sizes there are sections under a lock (add one to a counter, truncate).
 * Then all orders that respect these times are tried against a model of one local file system until
 * one explains everything (Wing and Gong's search, with Lowe's memory of states that were tried:
 * "Testing for linearizability", 2017). Exit status 1, with the history, when there is none.
 *
 * An operation that failed with EIO or was interrupted may have happened at any time since it
 * began, or never. With --faults mounts (but for the first) may be cut off or die: then what a
 * process wrote and could not fsync at its end may be lost, as with any machine that dies; what it
 * read of the file meanwhile was its own view, and says nothing; and one whose mount is not there
 * does nothing.
 *
 * Where many operations may have happened at any time there may be too many orders to try: such
 * histories are counted, and say nothing; more than a quarter of them fails, too.
 *
 * A history that only reads of zeros explain, where the file ended and another mount was cutting
 * it, is counted, and more than a few fail (may_be_late()).
 *
 * What it cannot see: operations of one process overlap nothing; only young files have several
 * processes on each mount, and none with --faults; reads are of one slot, because a local file
 * system does not promise more either; what is never read does not matter.
 */
#include "common/base/prng.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include <inttypes.h>
#include <sched.h>
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
    PROCESSES = 3, /* One a mount. */
    OPS_EACH = 18,
    YOUNG_PROCESSES = 6,
    YOUNG_OPS_EACH = 10,
    OPS_MAX = 64, /* Of one history: bits of a word. */
    SLOTS = 12,
    COUNTER = 3, /* The slot that is changed under the lock only. */
    NAMES = 3,
    PATH_BYTES = 4096,
    NAME_BYTES = 32,
    PAUSE_US = 1500,
    MEMORY = 1 << 20,      /* States remembered; a power of two. */
    STEPS_MAX = 3000000,   /* Of a search. */
    LATE_ONE_IN_MIN = 100, /* Histories with late reads; they are much rarer. */
    WAITED_MS = 500,       /* Hundreds of times what an operation takes. */
};

enum kind { WRITE, READ, APPEND, SIZE, TRUNCATE, LOOK, ADD, CREATE, UNLINK, RENAME, STAT, KINDS };

/* What a history is about. */
enum theme { NAMES_OF_ONE_DIRECTORY, ONE_FILE, YOUNG_FILE };

struct op
{
    enum kind kind;
    unsigned process;
    uint64_t slot;  /* Or the name; the size of TRUNCATE. */
    uint64_t value; /* Written or read; size in slots; inode; the other name of RENAME. */
    int error;      /* 0, or errno. */
    bool unsure;    /* It may have happened, or not. */
    bool twin;      /* A RENAME beside another one of the same two names; see apply_name(). */
    uint64_t began_ns, ended_ns;
};

struct history
{
    bool faults;
    bool uncut;  /* Files are not made shorter. */
    bool single; /* Young files, too, have one process a mount. */
    enum theme theme;
    unsigned processes, ops_each, mounts;
    _Atomic unsigned arrived; /* Of the processes, at their first operation. */
    _Atomic unsigned waited;  /* Operations that did well, and took WAITED_MS. */
    unsigned counts[YOUNG_PROCESSES];
    struct op ops[YOUNG_PROCESSES][OPS_EACH];
};

static_assert(PROCESSES * OPS_EACH <= OPS_MAX && YOUNG_PROCESSES * YOUNG_OPS_EACH <= OPS_MAX &&
                  YOUNG_OPS_EACH <= OPS_EACH,
              "every operation has a bit");

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* ---- Doing ---- */

/* False: errno. */
static bool lock_file(int fd, short type)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET };

    return fcntl(fd, F_OFD_SETLKW, &range) == 0;
}

/* Under the lock, which nobody else has who adds or truncates. */
static void locked_op(struct op *op, int fd)
{
    off_t at = (off_t)(COUNTER * sizeof(op->value));
    uint64_t next;
    ssize_t n = lock_file(fd, F_WRLCK) ? 0 : -1;

    if (n == 0 && op->kind == TRUNCATE) {
        n = ftruncate(fd, (off_t)(op->slot * sizeof(op->value)));
    } else if (n == 0) {
        op->value = 0;
        n = pread(fd, &op->value, sizeof(op->value), at);
        next = op->value + 1;
        op->value = n == 0 ? UINT64_MAX : op->value; /* Behind the end. */
        n = n < 0 ? n : pwrite(fd, &next, sizeof(next), at);
    }
    op->error = n < 0 ? errno : 0;
    if (!lock_file(fd, F_UNLCK) && op->error == 0) {
        op->error = errno;
    }
}

static void file_op(struct op *op, int fd, int append_fd)
{
    struct stat st;
    ssize_t n = 0;

    switch (op->kind) {
    case WRITE:
        n = pwrite(fd, &op->value, sizeof(op->value), (off_t)(op->slot * sizeof(op->value)));
        break;
    case READ:
        op->value = 0;
        n = pread(fd, &op->value, sizeof(op->value), (off_t)(op->slot * sizeof(op->value)));
        if (n == 0) {
            op->value = UINT64_MAX; /* Behind the end. */
        }
        break;
    case APPEND:
        n = write(append_fd, &op->value, sizeof(op->value));
        break;
    case TRUNCATE:
        n = ftruncate(fd, (off_t)(op->slot * sizeof(op->value)));
        break;
    default:
        n = fstat(fd, &st);
        op->value = (uint64_t)st.st_size / sizeof(op->value);
        break;
    }
    op->error = n < 0 ? errno : 0;
}

static void name_op(struct op *op, int dir)
{
    char path[NAME_BYTES], other[NAME_BYTES];
    struct stat st;
    int n;

    (void)snprintf(path, sizeof(path), "n%u", (unsigned)op->slot);
    (void)snprintf(other, sizeof(other), "n%u", (unsigned)op->value);
    switch (op->kind) {
    case CREATE:
        n = openat(dir, path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
        if (n >= 0) {
            (void)fstat(n, &st);
            op->value = st.st_ino;
            (void)close(n);
        }
        break;
    case UNLINK:
        n = unlinkat(dir, path, 0);
        break;
    case RENAME:
        n = renameat(dir, path, dir, other);
        break;
    default:
        n = fstatat(dir, path, &st, 0);
        op->value = n == 0 ? st.st_ino : 0;
        break;
    }
    op->error = n < 0 ? errno : 0;
}

static void plan(struct op *op, struct prng *p, const struct history *h, uint64_t unique)
{
    static const enum kind young[] = {
        WRITE, READ, READ, SIZE, LOOK, LOOK, TRUNCATE, ADD, ADD, ADD
    };

    switch (h->theme) {
    case NAMES_OF_ONE_DIRECTORY:
        op->kind = (enum kind)(CREATE + prng_below(p, KINDS - CREATE));
        op->slot = prng_below(p, NAMES);
        break;
    case ONE_FILE:
        op->kind = (enum kind)prng_below(p, LOOK);
        op->slot = prng_below(p, SLOTS / 3);
        break;
    default:
        op->kind = young[prng_below(p, sizeof(young) / sizeof(young[0]))];
        op->slot = prng_below(p, op->kind == TRUNCATE ? SLOTS : COUNTER + (op->kind == READ));
        break;
    }
    if (h->uncut && op->kind == TRUNCATE) {
        op->kind = READ;
    }
    op->value = unique;
    if (op->kind == RENAME) {
        op->value = (op->slot + 1 + prng_below(p, NAMES - 1)) % NAMES;
    }
}

/* It lost its mount, or what it had not synced: nobody knows what of that happened. */
static void lose(struct history *h, unsigned process)
{
    for (unsigned i = 0; i < h->counts[process]; i++) {
        h->ops[process][i].unsure = true;
        h->ops[process][i].ended_ns = UINT64_MAX;
    }
}

/* Of a young file: now and then a handle goes and another one comes. */
static int open_young(const struct history *h, struct prng *p, int dir_fd, int fd)
{
    if (h->theme != YOUNG_FILE || (fd >= 0 && prng_below(p, 4) != 0)) {
        return fd;
    }
    if (fd >= 0 && close(fd) != 0) {
        return -1;
    }
    return openat(dir_fd, "file", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
}

static void wait_for_all(struct history *h)
{
    (void)atomic_fetch_add(&h->arrived, 1);
    while (h->theme == YOUNG_FILE && atomic_load(&h->arrived) < h->processes) {
        (void)sched_yield();
    }
}

static void do_op(struct history *h, struct op *op, int dir_fd, int fd, int append_fd)
{
    struct stat st;

    if (h->theme == NAMES_OF_ONE_DIRECTORY) {
        name_op(op, dir_fd);
    } else if (h->theme == YOUNG_FILE && (op->kind == ADD || op->kind == TRUNCATE)) {
        locked_op(op, fd);
    } else if (op->kind == LOOK) {
        op->error = fstatat(dir_fd, "file", &st, 0) == 0 ? 0 : errno;
        op->value = (uint64_t)st.st_size / sizeof(op->value);
    } else {
        file_op(op, fd, append_fd);
    }
}

static void run_process(struct history *h, unsigned process, const char *dir, uint64_t seed)
{
    struct prng p;
    /* From here on the mount itself, not a directory in its place. */
    int fd = -1, append_fd = -1, dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    prng_seed(&p, seed * YOUNG_PROCESSES + process);
    wait_for_all(h);
    if (h->theme == ONE_FILE && dir_fd >= 0) {
        fd = openat(dir_fd, "file", O_RDWR | O_CLOEXEC);
        append_fd = openat(dir_fd, "file", O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    for (unsigned i = 0; i < h->ops_each; i++) {
        struct op *op = &h->ops[process][i];
        struct timespec pause = { .tv_nsec = (long)prng_below(&p, PAUSE_US) * 1000 };

        fd = open_young(h, &p, dir_fd, fd);
        if (dir_fd < 0 || (h->theme != NAMES_OF_ONE_DIRECTORY && fd < 0) ||
            (h->theme == ONE_FILE && append_fd < 0)) {
            perror(dir);
            _exit(!h->faults || process == 0);
        }
        (void)nanosleep(&pause, NULL);
        plan(op, &p, h, 1 + process * OPS_EACH + i);
        op->process = process;
        op->began_ns = now_ns();
        do_op(h, op, dir_fd, fd, append_fd);
        op->ended_ns = now_ns();
        op->unsure = op->error != 0 && op->error != ENOENT && op->error != EEXIST;
        if (op->unsure) {
            op->ended_ns = UINT64_MAX;
        } else if (op->ended_ns - op->began_ns >= (uint64_t)WAITED_MS * 1000000) {
            (void)atomic_fetch_add(&h->waited, 1);
        }
        h->counts[process] = i + 1;
    }
    if (h->faults && h->theme == ONE_FILE && (fsync(fd) != 0 || fsync(append_fd) != 0)) {
        lose(h, process);
    }
    _exit(0);
}

/* ---- The model ---- */

struct state
{
    uint64_t slots[SLOTS]; /* 0: a hole. Or inodes of the names; 0: none. */
    uint64_t size;         /* In slots. */
};

/* Could the operation, done now, come out as it did? Then the state is what it is afterwards. */
static bool apply_file(struct state *s, const struct op *op)
{
    switch (op->kind) {
    case WRITE:
        s->slots[op->slot] = op->value;
        s->size = op->slot + 1 > s->size ? op->slot + 1 : s->size;
        return true;
    case READ:
        return op->value == (op->slot < s->size ? s->slots[op->slot] : UINT64_MAX);
    case APPEND:
        if (s->size < SLOTS) {
            s->slots[s->size] = op->value;
        }
        s->size++;
        return true;
    case TRUNCATE:
        for (uint64_t i = op->slot; i < SLOTS; i++) {
            s->slots[i] = 0;
        }
        s->size = op->slot;
        return true;
    case ADD:
        if (op->value != (s->size > COUNTER ? s->slots[COUNTER] : UINT64_MAX)) {
            return false;
        }
        s->slots[COUNTER] = op->value == UINT64_MAX ? 1 : op->value + 1;
        s->size = s->size > COUNTER ? s->size : COUNTER + 1;
        return true;
    default:
        return op->value == s->size;
    }
}

static bool apply_name(struct state *s, const struct op *op)
{
    uint64_t *name = &s->slots[op->slot];

    switch (op->kind) {
    case CREATE:
        if (op->error == EEXIST) {
            return *name != 0;
        }
        if (*name != 0) {
            return false;
        }
        /* One that failed and yet happened made an inode that nobody was told. */
        *name = op->unsure ? UINT64_MAX : op->value;
        return true;
    case UNLINK:
        if (op->error == ENOENT || *name == 0) {
            return op->error == ENOENT && *name == 0;
        }
        *name = 0;
        return true;
    case RENAME:
        /* The kernel looks up both names, one after the other. If another mount renames the one to
         * the other in between it finds the same file twice, and need not do anything: success. */
        if (*name == 0 && op->error == 0 && op->twin) {
            return s->slots[op->value] != 0;
        }
        if (op->error == ENOENT || *name == 0) {
            return op->error == ENOENT && *name == 0;
        }
        s->slots[op->value] = *name;
        *name = 0;
        return true;
    default:
        return op->error == ENOENT ? *name == 0
                                   : *name == op->value || (*name == UINT64_MAX && op->value != 0);
    }
}

/* ---- The search ---- */

struct search
{
    const struct op *ops[OPS_MAX];
    unsigned count;
    uint64_t needed; /* Operations that must be explained. */
    uint64_t *tried; /* Hashes of what leads nowhere. */
    uint64_t steps;  /* At STEPS_MAX it is given up. */
};

static uint64_t hash_of(uint64_t done, const struct state *s)
{
    uint64_t h = done * 0x9e3779b97f4a7c15U;
    const uint64_t *words = (const uint64_t *)s;

    for (size_t i = 0; i < sizeof(*s) / sizeof(*words); i++) {
        h = (h ^ words[i]) * 0xff51afd7ed558ccdU;
        h ^= h >> 29;
    }
    return h == 0 ? 1 : h;
}

/* An operation may come next when nobody who is not done yet ended before it began. */
static bool may_be_next(const struct search *s, uint64_t done, unsigned i)
{
    for (unsigned k = 0; k < s->count; k++) {
        if ((done >> k & 1) == 0 && s->ops[k]->ended_ns < s->ops[i]->began_ns) {
            return false;
        }
    }
    return true;
}

static bool explain(struct search *s, uint64_t done, const struct state *state)
{
    uint64_t hash = hash_of(done, state);

    if ((done & s->needed) == s->needed) {
        return true;
    }
    if (s->tried[hash % MEMORY] == hash || s->steps == STEPS_MAX) {
        return false;
    }
    s->steps++;
    for (unsigned i = 0; i < s->count; i++) {
        struct state next = *state;
        bool fits;

        if ((done >> i & 1) != 0 || !may_be_next(s, done, i)) {
            continue;
        }
        fits =
            s->ops[i]->kind < CREATE ? apply_file(&next, s->ops[i]) : apply_name(&next, s->ops[i]);
        if (fits && explain(s, done | UINT64_C(1) << i, &next)) {
            return true;
        }
    }
    s->tried[hash % MEMORY] = hash;
    return false;
}

static void print_history(const struct search *s)
{
    static const char *const words[KINDS] = { "write",    "read",   "append", "size",
                                              "truncate", "look",   "add",    "create",
                                              "unlink",   "rename", "stat" };

    for (unsigned i = 0; i < s->count; i++) {
        const struct op *op = s->ops[i];

        printf(
            "process %u: %s %" PRIu64 " -> %" PRIu64 "%s%s, from %" PRIu64 " to %" PRIu64 " us\n",
            op->process, words[op->kind], op->slot, op->value, op->error == 0 ? "" : " ",
            op->error == 0 ? "" : strerror(op->error), (op->began_ns - s->ops[0]->began_ns) / 1000,
            op->unsure ? 0 : (op->ended_ns - s->ops[0]->began_ns) / 1000);
    }
}

static void find_twins(struct history *h)
{
    struct op *a = h->ops[0];

    for (unsigned i = 0; i < PROCESSES * OPS_EACH; i++) {
        for (unsigned k = 0; k < PROCESSES * OPS_EACH; k++) {
            a[i].twin |= i != k && a[i].kind == RENAME && a[k].kind == RENAME &&
                         a[i].slot == a[k].slot && a[i].value == a[k].value &&
                         a[i].began_ns < a[k].ended_ns && a[k].began_ns < a[i].ended_ns;
        }
    }
}

static int by_beginning(const void *a, const void *b)
{
    const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;

    return x->began_ns < y->began_ns ? -1 : x->began_ns > y->began_ns;
}

/* The one thing in which a mount may differ from a local file system (docs/status.md, Known
 * limits): through a handle with pages, of which young files have some, a read beside other
 * processes of the same mount may give zeros instead of the end, when another mount is making the
 * file shorter. */
static bool may_be_late(const struct history *h, const struct op *op)
{
    if (h->theme != YOUNG_FILE || h->single || op->kind != READ || op->value != 0) {
        return false;
    }
    for (unsigned p = 0; p < h->processes; p++) {
        for (unsigned i = 0; i < h->counts[p]; i++) {
            const struct op *cut = &h->ops[p][i];

            if (cut->kind == TRUNCATE && cut->slot <= op->slot &&
                p % h->mounts != op->process % h->mounts && cut->began_ns < op->ended_ns &&
                op->began_ns < cut->ended_ns) {
                return true;
            }
        }
    }
    return false;
}

struct tally
{
    uint64_t unsure;    /* Operations, */
    uint64_t waited;    /* and those that did well, late; */
    uint64_t hit;       /* histories that had any of them. */
    uint64_t undecided; /* Histories with too many orders, */
    uint64_t late;      /* and those with reads that may_be_late() and were. */
};

/* `strictly`: all reads count. */
static bool is_explained(struct history *h, uint64_t *tried, bool strictly, struct tally *tally)
{
    struct search s = { .tried = tried };
    struct state state = { .size = 0 };

    memset(tried, 0, MEMORY * sizeof(*tried));
    for (unsigned p = 0; p < h->processes; p++) {
        for (unsigned i = 0; i < h->counts[p]; i++) {
            const struct op *op = &h->ops[p][i];

            tally->unsure += strictly && op->unsure;
            if (!strictly && may_be_late(h, op)) {
                continue;
            }
            /* What failed without a change says nothing. */
            if (!op->unsure || op->kind == WRITE || op->kind == APPEND || op->kind == TRUNCATE ||
                op->kind == ADD || op->kind == CREATE || op->kind == UNLINK || op->kind == RENAME) {
                s.ops[s.count++] = op;
            }
        }
    }
    qsort(s.ops, s.count, sizeof(void *), by_beginning);
    for (unsigned i = 0; i < s.count; i++) {
        s.needed |= (uint64_t)!s.ops[i]->unsure << i;
    }
    if (explain(&s, 0, &state)) {
        return true;
    }
    if (s.steps == STEPS_MAX) {
        tally->undecided++;
        return true;
    }
    if (strictly) {
        return false;
    }
    printf("NOT LINEARIZABLE (%" PRIu64 " states tried):\n", s.steps);
    print_history(&s);
    return false;
}

static bool check(struct history *h, uint64_t *tried, struct tally *tally)
{
    find_twins(h);
    if (is_explained(h, tried, true, tally)) {
        return true;
    }
    tally->late++;
    return is_explained(h, tried, false, tally);
}

/* ---- Histories ---- */

static enum theme theme_of(uint64_t seed, bool faults)
{
    if (faults) {
        return seed % 2 == 0 ? NAMES_OF_ONE_DIRECTORY : ONE_FILE;
    }
    return (enum theme)(seed % 3);
}

static bool prepare(const char *root, uint64_t seed, enum theme theme)
{
    char path[PATH_BYTES];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/h%" PRIu64, root, seed);
    if (mkdir(path, 0755) != 0) {
        perror(path);
        return false;
    }
    if (theme != ONE_FILE) {
        return true;
    }
    (void)snprintf(path, sizeof(path), "%s/h%" PRIu64 "/file", root, seed);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || close(fd) != 0) {
        perror(path);
        return false;
    }
    return true;
}

static bool run(struct history *h, const struct history *options, uint64_t seed, char **roots,
                unsigned roots_count)
{
    pid_t children[YOUNG_PROCESSES];
    bool good = true;

    memset(h, 0, sizeof(*h));
    h->faults = options->faults;
    h->uncut = options->uncut;
    h->single = options->single;
    h->mounts = roots_count;
    h->theme = theme_of(seed, h->faults);
    h->processes = h->theme == YOUNG_FILE && !h->single ? YOUNG_PROCESSES : PROCESSES;
    h->ops_each = h->theme == YOUNG_FILE ? YOUNG_OPS_EACH : OPS_EACH;
    for (unsigned i = 0; i < h->processes; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            char dir[PATH_BYTES];

            (void)snprintf(dir, sizeof(dir), "%s/h%" PRIu64, roots[i % roots_count], seed);
            run_process(h, i, dir, seed);
        }
    }
    for (unsigned i = 0; i < h->processes; i++) {
        int status = 1;

        good = children[i] > 0 && waitpid(children[i], &status, 0) == children[i] && status == 0 &&
               good;
    }
    return good;
}

int main(int argc, char **argv)
{
    struct history *h =
        mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static uint64_t tried[MEMORY];
    struct tally tally = { 0 };
    uint64_t first, count, before;
    static struct history options;

    for (; argc > 1 && argv[1][0] == '-'; argv++, argc--) {
        options.faults |= strcmp(argv[1], "--faults") == 0;
        options.uncut |= strcmp(argv[1], "--uncut") == 0;
        options.single |= strcmp(argv[1], "--single") == 0;
    }
    if (argc < 4 || h == MAP_FAILED) {
        fputs("usage: history [--faults] [--uncut] [--single] SEED COUNT DIR...\n", stderr);
        return 2;
    }
    first = strtoull(argv[1], NULL, 10);
    count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!prepare(argv[3], seed, theme_of(seed, options.faults)) ||
            !run(h, &options, seed, argv + 3, (unsigned)argc - 3)) {
            printf("history %" PRIu64 ": a process could not do its work\n", seed);
            return 1;
        }
        before = tally.unsure;
        if (!check(h, tried, &tally)) {
            printf("history %" PRIu64 "\n", seed);
            return 1;
        }
        tally.waited += h->waited;
        tally.hit += tally.unsure > before || h->waited > 0;
    }
    printf("%" PRIu64 " histories are linearizable; %" PRIu64
           " operations failed in the middle, %" PRIu64 " waited: in %" PRIu64 " histories\n",
           count - tally.undecided, tally.unsure, tally.waited, tally.hit);
    if (tally.undecided > 0) {
        printf("%" PRIu64 " had too many orders to try them all\n", tally.undecided);
    }
    if (tally.late > 0) {
        printf("%" PRIu64 " had a read that gave zeros instead of the end, beside a cut\n",
               tally.late);
    }
    return tally.undecided > count / 4 || tally.late > 1 + count / LATE_ONE_IN_MIN;
}
