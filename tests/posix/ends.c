/* Who reads a file that another mount makes shorter gets what was there, or the end: never zeros.
 *
 *   ends SECONDS FILES DIR DIR2     the same directory through two mounts
 *
 * Each file has one reader in DIR, alone in its process and the only one of its mount, through a
 * handle of the time before anybody else had the file open; so where the kernel has no direct
 * handles, and where it has, it reads through pages. In DIR2 one process goes round all files: it
 * writes a word, never 0, and makes the file empty again.
 *
 * Exit status 1 with a line for each file of which zeros were read, or when too little happened.
 */
#include "difference.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 64, PATH_BYTES = 4096, WORDS_MIN = 10, ENDS_MIN = 10 };

/* What a reader has seen. */
struct seen
{
    uint64_t words, ends, zeros;
};

static int open_at(const char *dir, unsigned file, int flags)
{
    char path[PATH_BYTES];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%u", dir, file);
    fd = open(path, flags | O_CLOEXEC, 0644);
    must(fd >= 0, path);
    return fd;
}

static void rest(unsigned max_us)
{
    struct timespec pause = { .tv_nsec = (long)((unsigned)random() % max_us) * 1000 };

    (void)nanosleep(&pause, NULL);
}

static void read_on(int fd, struct seen *seen)
{
    for (;;) {
        uint64_t word = 1;
        ssize_t n = pread(fd, &word, sizeof(word), 0);

        must(n == 0 || n == (ssize_t)sizeof(word), "read");
        seen->ends += n == 0;
        seen->zeros += n != 0 && word == 0;
        seen->words += n != 0 && word != 0;
        rest(2000);
    }
}

static void cut_on(const int *fds, unsigned files)
{
    for (uint64_t word = 1;; word++) {
        for (unsigned i = 0; i < files; i++) {
            must(pwrite(fds[i], &word, sizeof(word), 0) == (ssize_t)sizeof(word), "write");
        }
        rest(2000);
        for (unsigned i = 0; i < files; i++) {
            must(ftruncate(fds[i], 0) == 0, "truncate");
        }
        rest(2000);
    }
}

static pid_t child_of(pid_t parent)
{
    pid_t child = fork();

    must(child >= 0, "fork");
    must(child > 0 || (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent), "prctl");
    return child;
}

/* Those that can end do so with an error. */
static bool all_have_run(const pid_t *children, unsigned count)
{
    bool good = true;

    for (unsigned i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
    }
    for (unsigned i = 0; i < count; i++) {
        int status = 0;

        good &= waitpid(children[i], &status, 0) == children[i] && WIFSIGNALED(status);
    }
    return good;
}

int main(int argc, char **argv)
{
    struct seen *seen = mmap(NULL, FILES_MAX * sizeof(*seen), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned seconds = argc == 5 ? (unsigned)strtoul(argv[1], NULL, 10) : 0,
             files = argc == 5 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    int here[FILES_MAX], there[FILES_MAX];
    pid_t children[FILES_MAX + 1], parent = getpid();
    struct seen all = { 0 };
    bool good;

    if (seconds == 0 || files == 0 || files > FILES_MAX || seen == MAP_FAILED) {
        (void)fprintf(stderr, "usage: ends SECONDS FILES DIR DIR2   (at most %d files)\n",
                      FILES_MAX);
        return 2;
    }
    for (unsigned i = 0; i < files; i++) {
        here[i] = open_at(argv[3], i, O_RDWR | O_CREAT);
    }
    for (unsigned i = 0; i < files; i++) {
        there[i] = open_at(argv[4], i, O_RDWR);
    }
    for (unsigned i = 0; i <= files; i++) {
        children[i] = child_of(parent);
        if (children[i] == 0) {
            srandom(i);
            if (i == files) {
                cut_on(there, files);
            }
            read_on(here[i], &seen[i]);
        }
    }
    (void)sleep(seconds);
    good = all_have_run(children, files + 1);
    for (unsigned i = 0; i < files; i++) {
        all.words += seen[i].words;
        all.ends += seen[i].ends;
        all.zeros += seen[i].zeros;
        if (seen[i].zeros > 0) {
            printf("file %u: zeros were read %" PRIu64 " times; it never had any\n", i,
                   seen[i].zeros);
        }
    }
    printf("%" PRIu64 " words, %" PRIu64 " ends, %" PRIu64 " times zeros\n", all.words, all.ends,
           all.zeros);
    if (all.words < WORDS_MIN * (uint64_t)files || all.ends < ENDS_MIN * (uint64_t)files) {
        printf("too little: of each file %d words and %d ends are wanted\n", WORDS_MIN, ENDS_MIN);
        good = false;
    }
    return !good || all.zeros > 0;
}
