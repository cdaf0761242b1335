/* Starts this program once more, as a mount does (fuse/origin_child_proc.c). */
#include "client/admin/stage_prove_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SILENT_MS = 10000 };

static bool start(char *const *argv, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    int rv;

    if (posix_spawn_file_actions_init(&files) != 0) {
        return false;
    }
    rv = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rv = rv != 0
             ? rv
             : posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    rv = rv != 0 ? rv : posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    rv = rv != 0 ? rv : posix_spawn(pid, "/proc/self/exe", &files, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    return rv == 0;
}

bool stage_prove(const struct origin *origin)
{
    char text[ORIGIN_TEXT_MAX], from[24], silent[24];
    char name[] = "morsel", command[] = "origin-part", length[] = "1", range[] = "range";
    char *argv[] = { name, command, text, from, length, silent, range, NULL };
    int status = 0;
    pid_t pid;

    if (!origin_may_be_proven(origin)) {
        return false;
    }
    origin_format(origin, text);
    (void)snprintf(from, sizeof(from), "%" PRIu64, origin->size - 1);
    (void)snprintf(silent, sizeof(silent), "%d", SILENT_MS);
    if (!start(argv, &pid)) {
        return false;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
