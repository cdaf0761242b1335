/* Locks between two mounts of one file system.
 *
 *   locks DIR DIR2          the same directory through two mounts
 *   locks --hold FILE       lock the file exclusively, say "held", hold it until killed
 *   locks --try FILE        0: it could be locked exclusively, 1: somebody has it
 *   locks --rate FILE       lock and unlock pairs per second
 *
 * Exit status 1 with one line at the first thing that two processes on one local disk would not
 * see.
 */
#include "difference.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, SOON_MS = 3000, NET_MS = 60000, COUNTERS = 4, ROUNDS = 150 };

static char roots[2][PATH_BYTES];

static int open_in(int mount, const char *name)
{
    char path[PATH_BYTES * 2];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", roots[mount], name);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0, name);
    return fd;
}

static int lock(int fd, int command, int type, off_t start, off_t length)
{
    struct flock l = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = length
    };

    return fcntl(fd, command, &l);
}

static bool refused(int rv)
{
    return rv == -1 && (errno == EAGAIN || errno == EACCES);
}

/* A child that runs `work` and must end with 0. */
static pid_t start(void (*work)(int mount), int mount)
{
    pid_t child = fork();

    must(child >= 0, "fork");
    if (child == 0) {
        work(mount);
        (void)fflush(stdout);
        _exit(0);
    }
    return child;
}

static void finish(pid_t child, const char *what)
{
    int status;

    must(waitpid(child, &status, 0) == child, "waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail("%s: a process failed", what);
    }
}

/* ---- Meetings ---- */

static void excluded(int from, int to)
{
    int mine = open_in(from, "l"), other = open_in(to, "l");
    struct flock probe = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    pid_t child;

    must(lock(mine, F_SETLK, F_WRLCK, 10, 10) == 0, "a free range");
    /* Another process: locks of one process never conflict, whatever the mount. */
    child = fork();
    if (child == 0) {
        must(refused(lock(other, F_SETLK, F_RDLCK, 19, 1)), "a held byte was locked");
        must(lock(other, F_SETLK, F_WRLCK, 20, 5) == 0, "a free byte was refused");
        must(fcntl(other, F_GETLK, &probe) == 0 && probe.l_type == F_WRLCK && probe.l_start == 10 &&
                 probe.l_len == 10,
             "F_GETLK does not say what is held");
        _exit(0);
    }
    finish(child, "exclusion");
    must(lock(mine, F_SETLK, F_WRLCK, 20, 5) == 0, "the dead still hold");
    (void)close(mine);
    (void)close(other);
}

static void wait_and_get(int mount)
{
    int fd = open_in(mount, "w");

    must(lock(fd, F_SETLKW, F_WRLCK, 0, 0) == 0, "waiting ended without the lock");
    must(pwrite(fd, "x", 1, 0) == 1, "write");
}

static bool is_waiting(pid_t child)
{
    char path[64], line[4096] = "", state = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
    file = fopen(path, "re");
    if (file != NULL) {
        must(fgets(line, sizeof(line), file) != NULL, "stat of a child");
        (void)sscanf(strrchr(line, ')') + 1, " %c", &state);
        (void)fclose(file);
    }
    return state == 'S' || state == 'D';
}

static void until_waiting(pid_t child)
{
    double until = now_ms() + NET_MS;
    struct timespec moment = { .tv_nsec = 2000000 };
    unsigned seen = 0;

    while (seen < 20) { /* Asleep for a while: it is not just on its way through the mount. */
        must(now_ms() < until, "a process does not come to wait");
        seen = is_waiting(child) ? seen + 1 : 0;
        (void)nanosleep(&moment, NULL);
    }
}

static void waited_for(int from, int to)
{
    int mine = open_in(from, "w");
    pid_t child;
    double began;
    char byte = 0;

    must(ftruncate(mine, 0) == 0 && lock(mine, F_SETLK, F_WRLCK, 0, 0) == 0, "a free file");
    child = start(wait_and_get, to);
    until_waiting(child);
    must(pread(mine, &byte, 1, 0) == 0, "who waits went on");
    began = now_ms();
    must(lock(mine, F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
    finish(child, "waiting");
    must(now_ms() - began < SOON_MS, "who waits was told late");
    must(pread(mine, &byte, 1, 0) == 1 && byte == 'x', "what was written under the lock");
    (void)close(mine);
}

static void nothing(int sig)
{
    (void)sig;
}

/* In a second and each second from then on, for the first may come before what is to be
 * interrupted; or no more. */
static void alarms(bool begin)
{
    struct itimerval each = { { begin, 0 }, { begin, 0 } };

    must(setitimer(ITIMER_REAL, &each, NULL) == 0, "setitimer");
}

static void wait_for_alarm(int mount)
{
    struct sigaction action = { .sa_handler = nothing };
    int fd = open_in(mount, "i");
    double began = now_ms();

    must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    alarms(true);
    must(lock(fd, F_SETLKW, F_WRLCK, 0, 0) == -1 && errno == EINTR, "EINTR");
    alarms(false);
    must(now_ms() - began < SOON_MS, "interrupted late");
    must(flock(fd, LOCK_SH) == 0, "another lock afterwards");
}

static void interrupted(int from, int to)
{
    int mine = open_in(from, "i");

    must(lock(mine, F_SETLK, F_WRLCK, 0, 0) == 0, "a free file");
    finish(start(wait_for_alarm, to), "an interrupted wait");
    must(lock(mine, F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
    must(lock(mine, F_SETLK, F_WRLCK, 0, 0) == 0, "the interrupted one holds it");
    (void)close(mine);
}

/* A shared lock over more than what is held exclusively: a refused or interrupted request for it
 * takes nothing away. */
static void stepped_down_by(int from, int to, int try, int wait)
{
    int mine = open_in(from, "g"), other = open_in(to, "g");
    struct sigaction action = { .sa_handler = nothing };

    must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    must(lock(mine, try, F_WRLCK, 10, 10) == 0, "a free file");
    must(lock(other, try, F_WRLCK, 40, 1) == 0, "a free byte");
    must(refused(lock(mine, try, F_RDLCK, 0, 50)), "another one has a byte of it");
    must(refused(lock(other, try, F_RDLCK, 15, 1)), "a refused request took a lock away");
    alarms(true);
    must(lock(mine, wait, F_RDLCK, 0, 50) == -1 && errno == EINTR, "EINTR");
    alarms(false);
    must(refused(lock(other, try, F_RDLCK, 15, 1)), "an interrupted one took a lock away");
    must(lock(other, try, F_RDLCK, 5, 1) == 0, "what was not had is free");
    must(lock(other, try, F_UNLCK, 40, 1) == 0, "unlock");
    must(lock(mine, try, F_RDLCK, 0, 50) == 0, "nobody has it alone");
    must(lock(other, try, F_RDLCK, 0, 50) == 0, "the first one shares it");
    must(refused(lock(other, try, F_WRLCK, 15, 1)), "the first one still has it");
    must(refused(lock(mine, try, F_WRLCK, 45, 1)), "the other one has it, too");
    must(lock(other, try, F_UNLCK, 0, 0) == 0, "unlock");
    must(lock(mine, try, F_WRLCK, 0, 0) == 0, "it is free");
    (void)close(mine);
    (void)close(other);
}

/* Locks of a process exclude it from nothing in one directory, those of an open file do. */
static void stepped_down(int from, int to)
{
    stepped_down_by(from, to, F_OFD_SETLK, F_OFD_SETLKW);
    if (strcmp(roots[from], roots[to]) != 0) {
        stepped_down_by(from, to, F_SETLK, F_SETLKW);
    }
}

static void flocks(int from, int to)
{
    int mine = open_in(from, "f"), other = open_in(to, "f"), same;

    must(flock(mine, LOCK_EX | LOCK_NB) == 0, "a free file");
    must(flock(other, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK, "held exclusively");
    must(lock(other, F_SETLK, F_WRLCK, 0, 0) == 0, "flock and fcntl are worlds apart");
    same = dup(mine);
    must(same >= 0 && close(mine) == 0, "dup");
    must(flock(other, LOCK_SH | LOCK_NB) == -1, "it is still open");
    must(flock(same, LOCK_SH | LOCK_NB) == 0, "conversion");
    must(flock(other, LOCK_SH | LOCK_NB) == 0, "shared by two");
    must(flock(same, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK, "shared by two, still");
    (void)close(same);
    (void)close(other);
}

/* The old lock is gone before the other one is there: flock(2). */
static void flocks_converted(int from, int to)
{
    int mine = open_in(from, "v"), other = open_in(to, "v");
    struct sigaction action = { .sa_handler = nothing };

    must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    must(flock(mine, LOCK_SH | LOCK_NB) == 0 && flock(other, LOCK_SH | LOCK_NB) == 0, "shared");
    must(flock(mine, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK, "shared by two");
    must(flock(other, LOCK_EX | LOCK_NB) == 0, "who is refused another lock keeps the old one");
    must(flock(other, LOCK_SH | LOCK_NB) == 0 && flock(mine, LOCK_SH) == 0, "shared again");
    alarms(true);
    must(flock(mine, LOCK_EX) == -1 && errno == EINTR, "EINTR");
    alarms(false);
    must(flock(other, LOCK_EX | LOCK_NB) == 0, "who is interrupted keeps the old lock");
    must(flock(other, LOCK_UN) == 0 && flock(mine, LOCK_SH) == 0, "another lock afterwards");
    must(flock(mine, LOCK_EX) == 0 && flock(mine, LOCK_SH) == 0, "there and back, alone");
    must(flock(other, LOCK_SH | LOCK_NB) == 0, "shared at last");
    (void)close(mine);
    (void)close(other);
}

static void open_file_locks(int from, int to)
{
    int mine = open_in(from, "o"), second = open_in(from, "o"), other = open_in(to, "o");
    int same = dup(mine);
    double until = now_ms() + NET_MS;

    must(lock(mine, F_OFD_SETLK, F_WRLCK, 0, 100) == 0, "a free range");
    must(refused(lock(other, F_OFD_SETLK, F_RDLCK, 50, 1)), "held on the other mount");
    must(close(second) == 0 && close(mine) == 0, "close");
    must(refused(lock(other, F_OFD_SETLK, F_RDLCK, 50, 1)),
         "freed by a close that is not the last");
    must(close(same) == 0, "close");
    while (refused(lock(other, F_OFD_SETLK, F_RDLCK, 50, 1))) {
        must(now_ms() < until, "the last close does not free"); /* RELEASE comes behind close(2). */
    }
    (void)close(other);
}

static void any_close_frees(int from, int to)
{
    int first = open_in(from, "c"), second = open_in(from, "c");
    pid_t child;

    must(lock(first, F_SETLK, F_WRLCK, 0, 10) == 0, "a free range");
    must(close(second) == 0, "close");
    child = fork();
    if (child == 0) {
        must(lock(open_in(to, "c"), F_SETLK, F_WRLCK, 0, 10) == 0, "POSIX: any close frees all");
        _exit(0);
    }
    finish(child, "a close");
    (void)close(first);
}

static void circle_partner(int mount)
{
    int fd = open_in(mount, "d");

    must(lock(fd, F_SETLK, F_WRLCK, 1, 1) == 0, "the second byte");
    must(lock(fd, F_SETLKW, F_WRLCK, 0, 1) == 0, "the first byte, after the circle was refused");
}

static void circles(int from, int to)
{
    int mine = open_in(from, "d");
    pid_t child;

    must(lock(mine, F_SETLK, F_WRLCK, 0, 1) == 0, "the first byte");
    child = start(circle_partner, to);
    until_waiting(child);
    must(lock(mine, F_SETLKW, F_WRLCK, 1, 1) == -1 && errno == EDEADLK, "EDEADLK");
    must(lock(mine, F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
    finish(child, "a circle");
    (void)close(mine);
}

/* ---- Under load ---- */

static void count_up(int mount)
{
    int fd = open_in(mount, "n");

    for (int i = 0; i < ROUNDS; i++) {
        char text[32] = "";

        must(lock(fd, F_SETLKW, F_WRLCK, 0, 0) == 0, "lock");
        must(pread(fd, text, sizeof(text) - 1, 0) >= 0, "read");
        (void)snprintf(text, sizeof(text), "%d\n", atoi(text) + 1);
        must(pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text), "write");
        must(lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
    }
}

/* Exclusion and coherence together: no increment is lost. */
static void counters(void)
{
    pid_t children[COUNTERS];
    int fd = open_in(0, "n");
    char text[32] = "";

    must(ftruncate(fd, 0) == 0, "truncate");
    for (int i = 0; i < COUNTERS; i++) {
        children[i] = start(count_up, i % 2);
    }
    for (int i = 0; i < COUNTERS; i++) {
        finish(children[i], "counting");
    }
    must(pread(fd, text, sizeof(text) - 1, 0) > 0, "read");
    if (atoi(text) != COUNTERS * ROUNDS) {
        fail("%d increments under a lock came to %d", COUNTERS * ROUNDS, atoi(text));
    }
    (void)close(fd);
}

static void read_for_ever(int mount)
{
    int fd = open_in(mount, "s");

    for (;;) {
        must(lock(fd, F_SETLKW, F_RDLCK, 0, 0) == 0, "read lock");
        must(lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
    }
}

/* A writer among readers that overlap all the time. */
static void nobody_starves(void)
{
    pid_t readers[COUNTERS];
    int fd = open_in(0, "s");

    for (int i = 0; i < COUNTERS; i++) {
        readers[i] = start(read_for_ever, i % 2);
    }
    for (int i = 0; i < 20; i++) {
        double began = now_ms();

        must(lock(fd, F_SETLKW, F_WRLCK, 0, 0) == 0, "write lock");
        must(now_ms() - began < NET_MS, "a writer starves");
        must(lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0, "unlock");
    }
    for (int i = 0; i < COUNTERS; i++) {
        (void)kill(readers[i], SIGKILL);
        (void)waitpid(readers[i], NULL, 0);
    }
    must(lock(fd, F_SETLK, F_WRLCK, 0, 0) == 0, "the dead still hold");
    (void)close(fd);
}

enum { APPENDS = 200, RECORD_BYTES = 48 };

static void append_records(int mount)
{
    char path[PATH_BYTES * 2], record[RECORD_BYTES + 1];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/a", roots[mount]);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    must(fd >= 0, "open to append");
    for (int i = 0; i < APPENDS; i++) {
        (void)snprintf(record, sizeof(record), "%-20d%-*d\n", (int)getpid(), RECORD_BYTES - 21, i);
        must(write(fd, record, RECORD_BYTES) == RECORD_BYTES, "append");
    }
}

/* No lock: the file system itself takes care that appends neither overlap nor leave holes. */
static void appends(void)
{
    pid_t children[COUNTERS];
    int fd = open_in(0, "a"), next[COUNTERS] = { 0 };
    char record[RECORD_BYTES];
    int count = 0;

    must(ftruncate(fd, 0) == 0, "truncate");
    for (int i = 0; i < COUNTERS; i++) {
        children[i] = start(append_records, i % 2);
    }
    for (int i = 0; i < COUNTERS; i++) {
        finish(children[i], "appending");
    }
    for (; pread(fd, record, sizeof(record), (off_t)count * RECORD_BYTES) == RECORD_BYTES;
         count++) {
        int who = 0, pid = atoi(record), number = atoi(record + 20);

        while (who < COUNTERS && children[who] != pid) {
            who++;
        }
        must(who < COUNTERS && record[RECORD_BYTES - 1] == '\n', "a record is torn");
        must(number == next[who]++, "the records of one process are out of order");
    }
    if (count != COUNTERS * APPENDS) {
        fail("%d appended records came to %d", COUNTERS * APPENDS, count);
    }
    (void)close(fd);
}

static void both_ways(const char *what, void (*meeting)(int from, int to))
{
    double began = now_ms();

    meeting(0, 1);
    meeting(1, 0);
    printf("%-20s %6.1f ms\n", what, now_ms() - began);
    (void)fflush(stdout);
}

/* ---- For scripts ---- */

static _Noreturn void hold(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    must(fd >= 0 && lock(fd, F_SETLKW, F_WRLCK, 0, 0) == 0, path);
    puts("held");
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}

static int try_once(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    must(fd >= 0, path);
    if (lock(fd, F_SETLK, F_WRLCK, 0, 0) == 0) {
        return 0;
    }
    must(errno == EAGAIN || errno == EACCES, path);
    return 1;
}

static int rate(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644), pairs = 0;
    double began = now_ms();

    must(fd >= 0, path);
    for (; now_ms() - began < 2000; pairs++) {
        must(lock(fd, F_SETLKW, F_WRLCK, 0, 1) == 0, "lock");
        must(lock(fd, F_SETLK, F_UNLCK, 0, 1) == 0, "unlock");
    }
    printf("%.0f pairs of lock and unlock per second\n", pairs / (now_ms() - began) * 1e3);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--hold") == 0) {
        hold(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "--try") == 0) {
        return try_once(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "--rate") == 0) {
        return rate(argv[2]);
    }
    if (argc != 3) {
        fputs("usage: locks DIR DIR2 | --hold FILE | --try FILE | --rate FILE\n", stderr);
        return 2;
    }
    (void)snprintf(roots[0], PATH_BYTES, "%s", argv[1]);
    (void)snprintf(roots[1], PATH_BYTES, "%s", argv[2]);
    both_ways("excluded", excluded);
    both_ways("waited for", waited_for);
    both_ways("interrupted", interrupted);
    both_ways("a step down over more", stepped_down);
    both_ways("flock", flocks);
    both_ways("a flock that is converted", flocks_converted);
    both_ways("open file locks", open_file_locks);
    both_ways("any close frees", any_close_frees);
    both_ways("circles", circles);
    counters();
    nobody_starves();
    appends();
    return 0;
}
