/* sim_cluster: many histories, each in a process of its own, so that none sees what another left.
 *
 *   sim_cluster                              SEEDS_DEFAULT seeds
 *   sim_cluster --seed N                     one, with its trace
 *   sim_cluster --from N --count M           as many as wanted
 *   sim_cluster --canaries                   deliberate faults of the programs must be caught
 *   sim_cluster --datasets ...               the same of histories of benefactors and data sets
 */
#include "tests/lib/seed.h"
#include "tests/sim/world/history.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SEEDS_DEFAULT = 150,
    DATASETS_SEEDS_DEFAULT = 50,
    DETERMINISM_SEEDS = 5,         /* So many are run twice. */
    WORTH_SEEDS_MIN = 40,          /* Of fewer the floors say nothing. */
    CANARY_SEEDS = 40,             /* A canary must be caught within so many. */
    HISTORY_CPU_SECONDS_MAX = 100, /* One that goes round in circles. */
    HISTORY_SECONDS_MAX =
        1200, /* One that stands still: others may have all processors for long. */
    TRACE_BYTES_SHOWN = 12000
};

struct arguments
{
    uint64_t from, count;
    const char *canary;
    bool one, canaries;
};

/* What a history is of. */
static bool datasets;

/* What a history says of itself when it has ended well. */
struct report
{
    uint64_t digest, items;
    struct history_counts counts;
};

static const char *const canaries[] = {
    "lost-put",  "old-get",        "append-twice", "lost-answer", "lock-nothing",
    "lost-byte", "lost-attribute", "lost-move",    "lost-copy",   "lost-change",
    NULL
};
static const char *const datasets_canaries[] = { "lost-byte", NULL };

static int forget_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* The disks of one history: in memory, where there is such a place. */
static void make_place(char *path, size_t size)
{
    const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

    (void)snprintf(path, size, "%s/sim_cluster.XXXXXX", in != NULL ? in : "/tmp");
    if (mkdtemp(path) == NULL) {
        (void)fprintf(stderr, "sim_cluster: cannot make %s: %s\n", path, strerror(errno));
        exit(2);
    }
}

/* Of a build that counts which lines run (scripts/sim-coverage). */
__attribute__((weak)) extern void __gcov_dump(void);

/* In the child: does not return. */
static void live(uint64_t seed, const char *canary, bool trace, const char *place, int fd)
{
    struct world *w = calloc(1, sizeof(*w));
    struct history *h = calloc(1, sizeof(*h));
    struct report report = { .digest = 0 };
    struct rlimit files;

    if (w == NULL || h == NULL || chdir(place) != 0) {
        _Exit(2);
    }
    (void)getrlimit(RLIMIT_NOFILE, &files); /* Who is killed there leaves what he had open. */
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)setrlimit(RLIMIT_CPU,
                    &(struct rlimit){ HISTORY_CPU_SECONDS_MAX, HISTORY_CPU_SECONDS_MAX });
    (void)alarm(HISTORY_SECONDS_MAX);
    world_init(w, seed, trace);
    (datasets ? datasets_run : history_run)(h, w, canary);
    report = (struct report){ w->digest, w->sequence, h->counts };
    (void)fflush(stdout);
    if (__gcov_dump != NULL) {
        __gcov_dump();
    }
    _Exit(write(fd, &report, sizeof(report)) == (ssize_t)sizeof(report) ? 0 : 2);
}

/* False: it went wrong. `trace_fd` -1: no trace, and no words. */
static bool run_seed(uint64_t seed, const char *canary, int trace_fd, struct report *report)
{
    char place[256];
    int fds[2], status = 1;
    pid_t child;

    make_place(place, sizeof(place));
    (void)fflush(stdout);
    if (pipe2(fds, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        (void)fprintf(stderr, "sim_cluster: cannot start a process: %s\n", strerror(errno));
        exit(2);
    }
    if (child == 0) {
        int out = trace_fd >= 0 ? trace_fd : open("/dev/null", O_WRONLY | O_CLOEXEC);

        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
        live(seed, canary, trace_fd >= 0, place, fds[1]);
    }
    (void)close(fds[1]);
    if (read(fds[0], report, sizeof(*report)) != (ssize_t)sizeof(*report)) {
        memset(report, 0, sizeof(*report));
    }
    (void)close(fds[0]);
    (void)waitpid(child, &status, 0);
    (void)nftw(place, forget_one, 16, FTW_DEPTH | FTW_PHYS);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Again, with the trace; its end is shown. */
static void show_end(uint64_t seed, const char *canary)
{
    FILE *file = tmpfile();
    struct report report;
    char line[1024];
    long size;

    if (file == NULL) {
        return;
    }
    (void)run_seed(seed, canary, fileno(file), &report);
    (void)fseek(file, 0, SEEK_END);
    size = ftell(file);
    (void)fseek(file, size > TRACE_BYTES_SHOWN ? size - TRACE_BYTES_SHOWN : 0, SEEK_SET);
    while (fgets(line, sizeof(line), file) != NULL) {
        (void)fputs(line, stdout);
    }
    (void)fclose(file);
    (void)printf("reproduce with: sim_cluster%s --seed %llu%s%s\n", datasets ? " --datasets" : "",
                 (unsigned long long)seed, canary == NULL ? "" : " --canary ",
                 canary == NULL ? "" : canary);
}

static void add_counts(struct history_counts *sum, const struct history_counts *counts)
{
#define X(name, words, floor) sum->name += counts->name;
    HISTORY_COUNTS(X)
    DATASETS_COUNTS(X)
#undef X
}

/* Did what must happen happen often enough? */
static bool was_worth_it(const struct history_counts *sum, uint64_t histories)
{
    bool good = true;

#define X(name, words, floor)                                                                      \
    (void)printf("sim_cluster: %llu %s%s\n", (unsigned long long)sum->name, words,                 \
                 10 * sum->name < (floor)*histories ? ": TOO FEW" : "");                           \
    good = good && 10 * sum->name >= (floor)*histories;
    if (datasets) {
        DATASETS_COUNTS(X)
    } else {
        HISTORY_COUNTS(X)
    }
#undef X
    return good || histories < WORTH_SEEDS_MIN;
}

static bool run_seeds(const struct arguments *a)
{
    struct history_counts sum = { 0 };
    struct report report, again;

    for (uint64_t seed = a->from; seed < a->from + a->count; seed++) {
        if (!run_seed(seed, a->canary, -1, &report)) {
            show_end(seed, a->canary);
            return false;
        }
        add_counts(&sum, &report.counts);
        if (seed < a->from + DETERMINISM_SEEDS &&
            (!run_seed(seed, a->canary, -1, &again) || again.digest != report.digest)) {
            (void)printf("sim_cluster: seed %llu gives two different histories\n",
                         (unsigned long long)seed);
            return false;
        }
    }
    (void)printf("sim_cluster: seeds %llu to %llu: all is well\n", (unsigned long long)a->from,
                 (unsigned long long)(a->from + a->count - 1));
    return was_worth_it(&sum, a->count);
}

/* A checker that a deliberate fault cannot wake is asleep. */
static bool run_canaries(void)
{
    bool good = true;

    for (const char *const *canary = datasets ? datasets_canaries : canaries; *canary != NULL;
         canary++) {
        struct report report;
        uint64_t seed = 1;

        while (seed <= CANARY_SEEDS && run_seed(seed, *canary, -1, &report)) {
            seed++;
        }
        (void)printf("sim_cluster: canary %s %s %llu\n", *canary,
                     seed <= CANARY_SEEDS ? "caught by seed" : "NOT CAUGHT within seed",
                     (unsigned long long)(seed <= CANARY_SEEDS ? seed : CANARY_SEEDS));
        good = good && seed <= CANARY_SEEDS;
    }
    return good;
}

static bool run_one(const struct arguments *a)
{
    struct report report;
    bool good = run_seed(a->from, a->canary, STDOUT_FILENO, &report);

    (void)printf("sim_cluster --seed %llu: %s, digest %016llx\n", (unsigned long long)a->from,
                 good ? "all is well" : "went wrong", (unsigned long long)report.digest);
    return good;
}

static bool take_arguments(int argc, char **argv, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--canaries") == 0) {
            a->canaries = true;
            continue;
        }
        if (strcmp(argv[i], "--datasets") == 0) {
            datasets = true;
            continue;
        }
        if (value == NULL) {
            return false;
        }
        if (strcmp(argv[i], "--canary") == 0) {
            a->canary = value;
        } else if (strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--from") == 0) {
            a->one = argv[i][2] == 's';
            a->from = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0) {
            a->count = strtoull(value, NULL, 10);
        } else {
            return false;
        }
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct arguments a = { .from = test_seed_first() };
    bool good;

    if (!take_arguments(argc, argv, &a)) {
        (void)fprintf(
            stderr, "usage: sim_cluster [--datasets] [--seed N | --from N --count N | --canaries] "
                    "[--canary NAME]\n");
        return 2;
    }
    if (a.count == 0) {
        a.count = datasets ? DATASETS_SEEDS_DEFAULT : SEEDS_DEFAULT;
    }
    good = a.canaries ? run_canaries() : a.one ? run_one(&a) : run_seeds(&a);
    return good ? 0 : 1;
}
