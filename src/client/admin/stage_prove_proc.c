/* Starts this program once more, as a mount does (fuse/origin_child_proc.c). */
#include "client/admin/stage_prove_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { SILENT_MS = 10000, ALL_S = 30, WORDS_MAX = 200 };

/* Ours without what is for S3: whoever reads what anybody answers is to know no keys. free() it; NULL: no memory. */
static char **environment_of_child(void)
{
    size_t count = 0, kept = 0;
    char **some;

    while (environ != NULL && environ[count] != NULL) {
        count++;
    }
    some = calloc(count + 1, sizeof(*some));
    for (size_t i = 0; some != NULL && i < count; i++) {
        if (strncmp(environ[i], "AWS_", 4) != 0) {
            some[kept++] = environ[i];
        }
    }
    return some;
}

static int spawn(const posix_spawn_file_actions_t *files, char *const *argv, pid_t *pid)
{
    char **environment = environment_of_child();
    int rv = environment != NULL
                 ? posix_spawn(pid, "/proc/self/exe", files, NULL, argv, environment)
                 : ENOMEM;

    free(environment);
    return rv;
}

/* Its words come to *words, which is the caller's. */
static bool start(char *const *argv, pid_t *pid, int *words)
{
    posix_spawn_file_actions_t files;
    int ends[2], rv;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    *words = ends[0];
    rv = posix_spawn_file_actions_init(&files);
    if (rv == 0) {
        rv = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        rv = rv != 0 ? rv
                     : posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null",
                                                        O_WRONLY, 0);
        rv = rv != 0 ? rv : posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
        rv = rv != 0 ? rv : spawn(&files, argv, pid);
        (void)posix_spawn_file_actions_destroy(&files);
    }
    (void)close(ends[1]);
    if (rv != 0) {
        (void)close(ends[0]);
    }
    return rv == 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What was cut within a character ends before it: of a piece of one nobody can make JSON. */
static void end_at_character(char *line)
{
    size_t count = strlen(line), begin = count;

    while (begin > 0 && ((uint8_t)line[begin - 1] & 0xc0) == 0x80) {
        begin--;
    }
    if (begin > 0) {
        uint8_t first = (uint8_t)line[begin - 1];
        size_t whole = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

        if (count - (begin - 1) < whole) {
            line[begin - 1] = '\0';
        }
    }
}

/* Its first line, until it ends. False: it has not, in time. */
static bool listen_to(int words, char line[WORDS_MAX])
{
    const int64_t until_ms = now_ms() + (int64_t)ALL_S * 1000;
    char more[WORDS_MAX];
    size_t count = 0;

    for (;;) {
        struct pollfd poll_of = { .fd = words, .events = POLLIN };
        int64_t left_ms = until_ms - now_ms();
        size_t room = WORDS_MAX - 1 - count;
        ssize_t got;

        if (left_ms <= 0 || poll(&poll_of, 1, (int)left_ms) == 0) {
            return false;
        }
        got = read(words, room > 0 ? line + count : more, room > 0 ? room : sizeof(more));
        if (got == 0 || (got < 0 && errno != EINTR)) {
            break;
        }
        count += room > 0 && got > 0 ? (size_t)got : 0;
    }
    line[count] = '\0';
    line[strcspn(line, "\n")] = '\0';
    end_at_character(line);
    return true;
}

/* Its exit code; -1: it had none. */
static int end_of(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *stage_unfit(const struct origin *origin)
{
    return !origin_is_visited(origin) && !origin_is_inside(origin)
               ? "they fetch from http: and https: alone, and files of class durable of the cluster"
           : !origin_is_dated(origin)            ? "it tells neither a strong ETag nor a date"
           : origin->size == ORIGIN_SIZE_UNKNOWN ? "it does not tell its size"
           : !origin_may_be_proven(origin)       ? "it is empty"
                                                 : NULL;
}

static bool prove(const struct origin *origin, struct errmsg *why)
{
    char text[ORIGIN_TEXT_MAX], from[24], silent[24], line[WORDS_MAX];
    char name[] = "morsel", command[] = "origin-part", length[] = "1", range[] = "range";
    char *argv[] = { name, command, text, from, length, silent, range, NULL };
    int words, code;
    bool in_time;
    pid_t pid;

    origin_format(origin, text);
    (void)snprintf(from, sizeof(from), "%" PRIu64, origin->size - 1);
    (void)snprintf(silent, sizeof(silent), "%d", SILENT_MS);
    if (!start(argv, &pid, &words)) {
        errmsg_set(why, "that could not be tried: no process could be started");
        return false;
    }
    in_time = listen_to(words, line);
    (void)close(words);
    if (!in_time) {
        (void)kill(pid, SIGKILL);
    }
    code = end_of(pid);
    if (!in_time) {
        errmsg_set(why, "its last byte did not come within %d s", ALL_S);
    } else if (code != 0) {
        errmsg_set(why, "%s", line[0] != '\0' ? line : "its last byte did not come");
    }
    return in_time && code == 0;
}

bool stage_prove(const struct origin *origin, struct errmsg *why)
{
    const char *unfit = stage_unfit(origin);

    if (unfit != NULL) {
        errmsg_set(why, "%s", unfit);
        return false;
    }
    return prove(origin, why);
}
