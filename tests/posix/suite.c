/* posix_suite DIR [--list] [PATTERN]: run the cases whose "group/name" contains PATTERN under DIR.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77, CASE_SECONDS_MAX = 300 };

static const struct suite_group *const groups[] = {
    &open_group,   &data_group,  &sparse_group,  &map_group,  &directory_group,
    &rename_group, &link_group,  &special_group, &mode_group, &permission_group,
    &time_group,   &xattr_group, &acl_group,     &lock_group, &limit_group,
};

/* Ends a case, or a process that one has started: what it still holds is not of interest. */
static _Noreturn void leave(int code)
{
    (void)fflush(stdout);
    _exit(code);
}

long suite_ok(long value, const char *call, const char *file, int line)
{
    if (value < 0) {
        printf("# %s:%d: %s failed: %s\n", file, line, call, strerror(errno));
        leave(1);
    }
    return value;
}

void suite_fails(long value, int error, const char *call, const char *error_name, const char *file,
                 int line)
{
    if (value >= 0) {
        printf("# %s:%d: %s gave %ld; expected %s\n", file, line, call, value, error_name);
        leave(1);
    }
    if (errno != error) {
        printf("# %s:%d: %s failed with '%s'; expected %s\n", file, line, call, strerror(errno),
               error_name);
        leave(1);
    }
}

void suite_equal(long a, long b, const char *a_text, const char *b_text, const char *file, int line)
{
    if (a != b) {
        printf("# %s:%d: %s is %ld (0x%lx); expected %s, %ld (0x%lx)\n", file, line, a_text, a,
               (unsigned long)a, b_text, b, (unsigned long)b);
        leave(1);
    }
}

_Noreturn void suite_false(const char *text, const char *file, int line)
{
    printf("# %s:%d: not true: %s\n", file, line, text);
    leave(1);
}

_Noreturn void suite_skip(const char *reason)
{
    printf("# skipped: %s\n", reason);
    leave(EXIT_SKIPPED);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    if (remove(path) != 0 && errno != ENOENT) {
        printf("# %s is left: %s\n", path, strerror(errno));
    }
    return 0;
}

static void run_in_child(const struct suite_case *c, const char *path)
{
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(CASE_SECONDS_MAX);
    (void)umask(022);
    if (chdir(path) != 0) {
        printf("# cannot enter %s: %s\n", path, strerror(errno));
        leave(1);
    }
    c->run();
    leave(0);
}

enum verdict { PASSED, FAILED, SKIPPED };

static enum verdict run_case(const char *dir, const char *group, const struct suite_case *c)
{
    char path[4096];
    int status;
    pid_t child;

    (void)snprintf(path, sizeof(path), "%s/%s.%s.%d", dir, group, c->name, (int)getpid());
    if (mkdir(path, 0777) != 0 || chmod(path, 0777) != 0) {
        printf("not ok %s/%s\n# cannot make %s: %s\n", group, c->name, path, strerror(errno));
        return FAILED;
    }
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        run_in_child(c, path);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("posix_suite: fork");
        leave(2);
    }
    if (nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        printf("# what it left cannot be listed: %s\n", strerror(errno));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        if (rmdir(path) == 0 || errno == ENOENT) {
            printf("ok %s/%s\n", group, c->name);
            return PASSED;
        }
        printf("# cannot be removed afterwards: %s\n", strerror(errno));
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
        printf("skip %s/%s\n", group, c->name);
        return SKIPPED;
    } else if (WIFSIGNALED(status)) {
        printf("# ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    printf("not ok %s/%s\n", group, c->name);
    return FAILED;
}

static bool chosen(const char *group, const char *name, const char *pattern)
{
    char full[256];

    (void)snprintf(full, sizeof(full), "%s/%s", group, name);
    return pattern == NULL || strstr(full, pattern) != NULL;
}

int main(int argc, char **argv)
{
    unsigned counts[3] = { 0 };
    const char *dir = NULL, *pattern = NULL;
    bool list = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            list = true;
        } else if (dir == NULL) {
            dir = argv[i];
        } else {
            pattern = argv[i];
        }
    }
    if (dir == NULL) {
        fputs("usage: posix_suite DIR [--list] [PATTERN]\n", stderr);
        return 2;
    }
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        for (size_t i = 0; i < groups[g]->cases_count; i++) {
            const struct suite_case *c = &groups[g]->cases[i];

            if (!chosen(groups[g]->name, c->name, pattern)) {
                continue;
            }
            if (list) {
                printf("%s/%s\n", groups[g]->name, c->name);
            } else {
                counts[run_case(dir, groups[g]->name, c)]++;
            }
        }
    }
    if (!list) {
        printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED],
               counts[SKIPPED]);
    }
    return counts[FAILED] > 0 || (!list && counts[PASSED] == 0);
}
