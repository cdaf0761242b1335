/* A workload that remembers, outside, what was acknowledged to it, and a check that it is all
 * there.
 *
 *   ackload write DIR JOURNAL SECONDS [sync]     make, overwrite, rename and remove files; write a
 * line into JOURNAL for each change once it was acknowledged (with `sync`: once its fsync was)
 *   ackload verify DIR JOURNAL                   every file is as the journal says
 *
 *   ackload keep FILE MIB                        hold FILE open; for each line "write SEED" or
 * "read SEED" on standard input do that with MIB of it, and answer "good MILLISECONDS" or "failed
 * WORDS"
 *
 * An operation that fails is counted and its file left out of the journal from then on ("lost N"),
 * for nothing was promised; the workload goes on.
 */
#include "common/base/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 400, BYTES_MAX = 3 << 20 };

struct known
{
    enum { NOTHING, UNCERTAIN, THERE } state;
    uint64_t seed;
    size_t size;
};

struct load
{
    int dir_fd;
    FILE *journal;
    bool sync;
    struct prng prng;
    struct known files[FILES];
    uint8_t bytes[BYTES_MAX], got[BYTES_MAX];
    unsigned long done, failed;
    int64_t longest_ms;
};

static volatile sig_atomic_t stopping;

static void on_signal(int signal_number)
{
    (void)signal_number;
    stopping = 1;
}

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void fill(uint8_t *bytes, size_t size, uint64_t seed)
{
    struct prng prng;

    prng_seed(&prng, seed);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t x = prng_next(&prng);

        memcpy(bytes + i, &x, size - i < 8 ? size - i : 8);
    }
}

/* The journal is on another file system and survives what the test does. */
static void record(struct load *l, const char *word, unsigned file, uint64_t seed, size_t size)
{
    (void)fprintf(l->journal, "%s %u %llu %zu\n", word, file, (unsigned long long)seed, size);
    (void)fflush(l->journal);
}

static void name_of(char *name, unsigned file)
{
    (void)snprintf(name, 32, "file-%u", file);
}

static bool write_whole(struct load *l, const char *name, uint64_t seed, size_t size)
{
    int fd = openat(l->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    bool good = fd >= 0;
    size_t at = 0;

    fill(l->bytes, size, seed);
    while (good && at < size) {
        ssize_t n = write(fd, l->bytes + at, size - at < 200000 ? size - at : 200000);

        good = n > 0;
        at += good ? (size_t)n : 0;
    }
    good = good && (!l->sync || fsync(fd) == 0);
    return (fd < 0 || close(fd) == 0) && good;
}

/* Put new content under the name by way of a second one, as programs do that care. */
static bool replace(struct load *l, const char *name, uint64_t seed, size_t size)
{
    char other[64];

    (void)snprintf(other, sizeof(other), "%s.new", name);
    return write_whole(l, other, seed, size) && renameat(l->dir_fd, other, l->dir_fd, name) == 0 &&
           (!l->sync || fsync(l->dir_fd) == 0);
}

static void change_one(struct load *l)
{
    unsigned file = (unsigned)prng_below(&l->prng, FILES);
    struct known *k = &l->files[file];
    uint64_t seed = prng_next(&l->prng);
    size_t size = (size_t)prng_below(&l->prng, prng_below(&l->prng, 4) == 0 ? BYTES_MAX : 60000);
    bool gone = k->state == THERE && prng_below(&l->prng, 4) == 0, good;
    char name[32];

    name_of(name, file);
    record(l, "try", file, seed, size);
    if (gone) {
        good = unlinkat(l->dir_fd, name, 0) == 0 && (!l->sync || fsync(l->dir_fd) == 0);
    } else if (prng_below(&l->prng, 2) == 0) {
        good = replace(l, name, seed, size);
    } else {
        good = write_whole(l, name, seed, size) && (!l->sync || fsync(l->dir_fd) == 0);
    }
    if (good) {
        k->state = gone ? NOTHING : THERE;
        record(l, gone ? "gone" : "there", file, seed, size);
        l->done++;
    } else {
        (void)fprintf(stderr, "ackload: %s: %s\n", name, strerror(errno));
        k->state = UNCERTAIN;
        l->failed++;
    }
}

/* Files live on from one run to the next, so each draws otherwise; ACKLOAD_SEED gives one again. */
static int run_load(struct load *l, const char *journal, int64_t seconds)
{
    const char *given = getenv("ACKLOAD_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)now_ms();
    int64_t end = now_ms() + seconds * 1000;

    (void)signal(SIGTERM, on_signal);
    l->journal = fopen(journal, "a");
    printf("ackload: seed %llu\n", (unsigned long long)seed);
    prng_seed(&l->prng, seed);
    while (!stopping && now_ms() < end) {
        int64_t start = now_ms();

        change_one(l);
        l->longest_ms = now_ms() - start > l->longest_ms ? now_ms() - start : l->longest_ms;
    }
    (void)fclose(l->journal);
    printf("ackload: %lu changes acknowledged, %lu failed, the longest took %lld ms\n", l->done,
           l->failed, (long long)l->longest_ms);
    return 0;
}

static bool verify_one(struct load *l, unsigned file)
{
    const struct known *k = &l->files[file];
    struct stat st;
    char name[32];
    ssize_t n;
    int fd;

    name_of(name, file);
    if (k->state == UNCERTAIN) {
        return true; /* A change was under way: nothing was promised. */
    }
    if (fstatat(l->dir_fd, name, &st, 0) != 0) {
        if (k->state == NOTHING && errno == ENOENT) {
            return true;
        }
        printf("LOST: %s: %s\n", name, strerror(errno));
        return false;
    }
    if (k->state == NOTHING) {
        printf("BACK AGAIN: %s was removed\n", name);
        return false;
    }
    fd = openat(l->dir_fd, name, O_RDONLY);
    n = fd < 0 ? -1 : 0;
    for (size_t at = 0; n >= 0 && at < sizeof(l->got); at += (size_t)n) {
        n = read(fd, l->got + at, sizeof(l->got) - at);
        if (n == 0) {
            break;
        }
    }
    if (n < 0) {
        printf("UNREADABLE: %s: %s\n", name, strerror(errno));
    }
    (void)close(fd);
    fill(l->bytes, k->size, k->seed);
    if (n < 0 || (size_t)st.st_size != k->size || memcmp(l->bytes, l->got, k->size) != 0) {
        printf("WRONG: %s has %lld bytes, not %zu, or other ones\n", name, (long long)st.st_size,
               k->size);
        return false;
    }
    return true;
}

static int run_verify(struct load *l, const char *journal)
{
    unsigned file, bad = 0, there = 0;
    unsigned long long seed;
    size_t size;
    char word[8];

    l->journal = fopen(journal, "r");
    if (l->journal == NULL) {
        perror(journal);
        return 1;
    }
    while (fscanf(l->journal, "%7s %u %llu %zu", word, &file, &seed, &size) == 4) {
        if (file >= FILES || size > BYTES_MAX) {
            puts("ackload: the journal is damaged");
            return 1;
        }
        l->files[file] = (struct known){ strcmp(word, "there") == 0  ? THERE
                                         : strcmp(word, "gone") == 0 ? NOTHING
                                                                     : UNCERTAIN,
                                         seed, size };
    }
    for (file = 0; file < FILES; file++) {
        bad += !verify_one(l, file);
        there += l->files[file].state == THERE;
    }
    printf("ackload: %u files are there as promised, %u are not\n", there - bad, bad);
    return bad > 0 || there == 0;
}

/* One write or read of the whole stretch; what was read must be what `seed` gives. */
static bool touch_all(int fd, uint8_t *bytes, uint8_t *got, size_t size, uint64_t seed,
                      bool writing)
{
    size_t at = 0;

    fill(bytes, size, seed);
    while (at < size) {
        ssize_t n = writing ? pwrite(fd, bytes + at, size - at, (off_t)at)
                            : pread(fd, got + at, size - at, (off_t)at);

        if (n <= 0) {
            errno = n == 0 ? ENODATA : errno;
            return false;
        }
        at += (size_t)n;
    }
    errno = EILSEQ; /* For bytes that differ. */
    return writing || memcmp(bytes, got, size) == 0;
}

static int run_keep(const char *path, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    uint8_t *bytes = malloc(size), *got = malloc(size);
    unsigned long long seed;
    char word[8];

    if (fd < 0 || bytes == NULL || got == NULL) {
        perror(path);
        free(bytes);
        free(got);
        return 1;
    }
    while (scanf("%7s %llu", word, &seed) == 2) {
        int64_t start = now_ms();

        if (touch_all(fd, bytes, got, size, seed, strcmp(word, "write") == 0)) {
            printf("good %lld\n", (long long)(now_ms() - start));
        } else {
            printf("failed %s\n", strerror(errno));
        }
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        (void)fflush(stdout);
    }
    free(bytes);
    free(got);
    return close(fd) != 0;
}

int main(int argc, char **argv)
{
    struct load *l = calloc(1, sizeof(*l));
    int code = 2;

    if (argc < 4 || l == NULL) {
        fputs("usage: ackload write DIR JOURNAL SECONDS [sync] | ackload verify DIR JOURNAL | "
              "ackload keep FILE MIB\n",
              stderr);
        free(l);
        return 2;
    }
    if (strcmp(argv[1], "keep") == 0) {
        free(l);
        return run_keep(argv[2], (size_t)atoi(argv[3]) << 20);
    }
    l->dir_fd = open(argv[2], O_RDONLY | O_DIRECTORY);
    if (l->dir_fd < 0) {
        perror(argv[2]);
    } else if (strcmp(argv[1], "write") == 0 && argc > 4) {
        l->sync = argc > 5;
        code = run_load(l, argv[3], atoi(argv[4]));
    } else if (strcmp(argv[1], "verify") == 0) {
        code = run_verify(l, argv[3]);
    }
    free(l);
    return code;
}
