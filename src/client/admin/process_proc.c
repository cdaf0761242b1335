/* A process is known by its id and its start time, so that one that has taken over the number is
 * left alone. */
#include "client/admin/process_proc.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    READY_FD = 3,
    ENDING_MS_MAX = 10000 /* A killed process may take so long to let go of the disk. */
};

void process_find_program(const char *name, char *path, size_t path_max)
{
    static const char *const places[] = { "%s/%s", "%s/../sbin/%s", "%s/../bin/%s" };
    char self[PATH_BYTES];
    ssize_t count = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (count > 0) {
        self[count] = '\0';
        slash = strrchr(self, '/');
        *(slash == NULL ? self : slash) = '\0';
        for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
            const char *rest = places[i] + strlen("%s");

            (void)snprintf(path, path_max, "%s%.*s%s", self, (int)(strlen(rest) - 2), rest, name);
            if (access(path, X_OK) == 0) {
                return;
            }
        }
    }
    (void)snprintf(path, path_max, "%s", name);
}

static int64_t monotonic_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait until the descriptor is readable. False: the deadline came first. */
static bool wait_readable(int fd, int64_t deadline_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    for (;;) {
        int64_t left = deadline_ms - monotonic_ms();
        int rv = poll(&poll_fd, 1, left < 0 ? 0 : (int)left);

        if (rv > 0) {
            return true;
        }
        if (rv == 0 || errno != EINTR) {
            return false;
        }
    }
}

/* A process that was killed still holds its ports and locks until the last of its threads has
 * ended, and one of them may be waiting for the disk. */
static void wait_ended(pid_t pid)
{
    int pidfd = pidfd_open(pid, 0);

    if (pidfd >= 0) {
        (void)wait_readable(pidfd, monotonic_ms() + ENDING_MS_MAX);
        (void)close(pidfd);
    }
}

/* ---- Remembering ---- */

struct process_state
{
    unsigned long long start_ticks; /* Field 22 of /proc/PID/stat: clock ticks after boot. */
    bool ending;                    /* A zombie, on its way out, or killed. */
};

/* SIGKILL is pending for the whole process: it will not do anything any more. */
static bool is_killed(pid_t pid)
{
    char path[64], line[128];
    unsigned long long pending = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned long long bits;

        if (sscanf(line, "ShdPnd: %llx", &bits) == 1 || sscanf(line, "SigPnd: %llx", &bits) == 1) {
            pending |= bits;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (pending >> (SIGKILL - 1) & 1) != 0;
}

/* The second field of the line may hold blanks and brackets. */
static bool read_state(pid_t pid, struct process_state *state)
{
    enum { PF_EXITING = 4 }; /* Of field 9, the kernel's flags. */
    char path[64];
    char text[1024];
    unsigned long flags = 0;
    const char *at;
    FILE *file;
    size_t count;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    count = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[count] = '\0';
    at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ') {
        return false;
    }
    state->ending = at[2] == 'Z' || is_killed(pid);
    at += 2; /* Field 3 */
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (at == NULL) {
            return false;
        }
        at++;
        if (field + 1 == 9 && sscanf(at, "%lu", &flags) == 1 && (flags & PF_EXITING) != 0) {
            state->ending = true;
        }
    }
    return sscanf(at, "%llu", &state->start_ticks) == 1;
}

static void read_boot_id(char text[64])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    text[0] = '\0';
    if (file == NULL || fgets(text, 64, file) == NULL) {
        text[0] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    text[strcspn(text, "\n")] = '\0';
}

static int write_pid_file(const char *path, pid_t pid, struct errmsg *err)
{
    struct process_state state;
    char boot[64];
    FILE *file;
    bool good;

    read_boot_id(boot);
    file = fopen(path, "we");
    good = file != NULL && read_state(pid, &state) &&
           fprintf(file, "%d %llu %s\n", (int)pid, state.start_ticks, boot) > 0;
    if (file != NULL && fclose(file) != 0) {
        good = false;
    }
    if (!good) {
        errmsg_set(err, "%s: cannot be written: %s", path, strerror(errno));
        return MORSEL_IO;
    }
    return 0;
}

pid_t process_running(const char *pid_file)
{
    struct process_state state;
    unsigned long long ticks;
    char boot[64] = "";
    char boot_now[64];
    int pid = 0;
    FILE *file = fopen(pid_file, "re");
    bool good;

    if (file == NULL) {
        return 0;
    }
    good = fscanf(file, "%d %llu %63s", &pid, &ticks, boot) == 3;
    (void)fclose(file);
    read_boot_id(boot_now);
    if (!good || pid <= 1 || strcmp(boot, boot_now) != 0 || !read_state(pid, &state) ||
        state.start_ticks != ticks) {
        return 0;
    }
    if (state.ending) {
        wait_ended(pid);
        return 0;
    }
    return pid;
}

/* ---- Starting ---- */

/* In the child: a session of its own, no terminal, the pipe as descriptor 3, nothing else. Only
 * _exit() leads out. */
static _Noreturn void become(const struct process_start *start, int ready_fd)
{
    int null_fd = open("/dev/null", O_RDONLY);
    int log_fd = open(start->log, O_WRONLY | O_CREAT | O_APPEND, 0644);

    if (null_fd < 0 || log_fd < 0 || setsid() < 0 || dup2(ready_fd, READY_FD + 100) < 0 ||
        dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0 || dup2(READY_FD + 100, READY_FD) < 0) {
        _exit(126);
    }
    if (close_range(READY_FD + 1, ~0U, 0) != 0 || setenv("MORSEL_READY_FD", "3", 1) != 0) {
        _exit(126);
    }
    (void)execvp(start->argv[0], start->argv);
    (void)dprintf(STDERR_FILENO, "%s: cannot be started: %s\n", start->argv[0], strerror(errno));
    _exit(127);
}

/* Read up to the newline. MORSEL_UNREACHABLE: the other end was closed first. */
static int read_ready_line(int fd, int timeout_ms, char line[PROCESS_LINE_MAX])
{
    int64_t deadline_ms = monotonic_ms() + timeout_ms;
    size_t used = 0;

    while (wait_readable(fd, deadline_ms)) {
        ssize_t count = read(fd, line + used, PROCESS_LINE_MAX - 1 - used);

        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return MORSEL_UNREACHABLE;
        }
        used += (size_t)count;
        line[used] = '\0';
        if (strchr(line, '\n') != NULL) {
            *strchr(line, '\n') = '\0';
            return 0;
        }
    }
    return MORSEL_TIMEDOUT;
}

/* The last line of what a failed process wrote: it is where the reason stands. Without its time
 * stamp, since it is shown at once. */
static void last_line(const char *path, off_t from, char line[PROCESS_LINE_MAX])
{
    FILE *file = fopen(path, "re");
    char text[PROCESS_LINE_MAX];

    line[0] = '\0';
    if (file == NULL) {
        return;
    }
    (void)fseeko(file, from, SEEK_SET);
    while (fgets(text, sizeof(text), file) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        if (text[0] != '\0') {
            size_t stamp = strspn(text, "0123456789-T:.Z");

            (void)snprintf(line, PROCESS_LINE_MAX, "%s",
                           stamp > 20 && text[stamp] == ' ' ? text + stamp + 1 : text);
        }
    }
    (void)fclose(file);
}

static off_t file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : 0;
}

static void end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* The start failed: end the child and say why. */
static void give_up(const struct process_start *start, pid_t pid, off_t log_from, int status,
                    struct errmsg *err)
{
    char line[PROCESS_LINE_MAX];

    end_child(pid);
    (void)unlink(start->pid_file);
    last_line(start->log, log_from, line);
    if (status == MORSEL_TIMEDOUT) {
        errmsg_set(err, "%s was not ready after %d s; its log is %s", start->argv[0],
                   start->timeout_ms / 1000, start->log);
    } else if (line[0] != '\0') {
        errmsg_set(err, "%s", line);
    } else {
        errmsg_set(err, "%s ended before it was ready; its log is %s", start->argv[0], start->log);
    }
}

int process_start(const struct process_start *start, char ready_line[PROCESS_LINE_MAX],
                  struct errmsg *err)
{
    off_t log_from = file_size(start->log);
    int pipe_fds[2];
    pid_t pid;
    int rv;

    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        errmsg_set(err, "cannot make a pipe: %s", strerror(errno));
        return status_from_errno(errno);
    }
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        become(start, pipe_fds[1]);
    }
    (void)close(pipe_fds[1]);
    if (pid < 0) {
        errmsg_set(err, "cannot start %s: %s", start->argv[0], strerror(errno));
        (void)close(pipe_fds[0]);
        return MORSEL_NOMEM;
    }
    rv = read_ready_line(pipe_fds[0], start->timeout_ms, ready_line);
    (void)close(pipe_fds[0]);
    if (rv != 0) {
        give_up(start, pid, log_from, rv, err);
        return rv;
    }
    rv = write_pid_file(start->pid_file, pid, err);
    if (rv != 0) { /* Nobody could stop it later. */
        end_child(pid);
    }
    return rv;
}

/* ---- Stopping ---- */

/* A child of this very run stays a zombie until it is waited for. */
static void reap(pid_t pid)
{
    (void)waitpid(pid, NULL, WNOHANG);
}

static int wait_gone(pid_t pid, int pidfd, const char *pid_file, int timeout_ms, struct errmsg *err)
{
    if (!wait_readable(pidfd, monotonic_ms() + timeout_ms)) {
        errmsg_set(err, "process %d has not ended after %d s", (int)pid, timeout_ms / 1000);
        return MORSEL_TIMEDOUT;
    }
    reap(pid);
    (void)unlink(pid_file);
    return 0;
}

static int end_process(const char *pid_file, int signal_number, int timeout_ms, struct errmsg *err)
{
    pid_t pid = process_running(pid_file);
    int pidfd;
    int rv = 0;

    if (pid == 0) {
        (void)unlink(pid_file);
        return 0;
    }
    pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        (void)unlink(pid_file); /* Gone in this instant. */
        return 0;
    }
    if (process_running(pid_file) == pid && signal_number != 0 &&
        pidfd_send_signal(pidfd, signal_number, NULL, 0) != 0 && errno != ESRCH) {
        errmsg_set(err, "cannot stop process %d: %s", (int)pid, strerror(errno));
        rv = status_from_errno(errno);
    }
    if (rv == 0) {
        rv = wait_gone(pid, pidfd, pid_file, timeout_ms, err);
    }
    (void)close(pidfd);
    return rv;
}

int process_stop(const char *pid_file, int timeout_ms, struct errmsg *err)
{
    return end_process(pid_file, SIGTERM, timeout_ms, err);
}

int process_wait(const char *pid_file, int timeout_ms, struct errmsg *err)
{
    return end_process(pid_file, 0, timeout_ms, err);
}

int process_run(char *const *argv, char *words, size_t words_max)
{
    int pipe_fds[2];
    size_t used = 0;
    int status = -1;
    pid_t pid;

    words[0] = '\0';
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return -1;
    }
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)dup2(pipe_fds[1], STDERR_FILENO);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    (void)close(pipe_fds[1]);
    while (pid > 0 && used + 1 < words_max) {
        ssize_t count = read(pipe_fds[0], words + used, words_max - 1 - used);

        if (count <= 0 && errno != EINTR) {
            break;
        }
        used += count > 0 ? (size_t)count : 0;
    }
    (void)close(pipe_fds[0]);
    words[used] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}
