/* Locks between processes of one mount: fcntl byte ranges, open file descriptions, flock. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int lock(int fd, int command, int type, off_t from, off_t length)
{
    struct flock l = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = from, .l_len = length
    };

    return fcntl(fd, command, &l);
}

/* What a stranger meets at this range: F_UNLCK, F_RDLCK or F_WRLCK; asked by a process of its own.
 */
static int met_by_a_stranger(int wanted, off_t from, off_t length)
{
    pid_t child = (pid_t)OK(fork());
    int status;

    if (child == 0) {
        struct flock l = {
            .l_type = (short)wanted, .l_whence = SEEK_SET, .l_start = from, .l_len = length
        };

        OK(fcntl((int)OK(open("f", O_RDWR)), F_GETLK, &l));
        _exit(l.l_type == F_UNLCK ? 10 : l.l_type == F_RDLCK ? 11 : 12);
    }
    status = finish(child);
    TRUE(WIFEXITED(status) && WEXITSTATUS(status) >= 10);
    return WEXITSTATUS(status) == 10 ? F_UNLCK : WEXITSTATUS(status) == 11 ? F_RDLCK : F_WRLCK;
}

static int new_file(void)
{
    make_file("f", "0123456789");
    return (int)OK(open("f", O_RDWR));
}

static void ranges_conflict_as_they_should(void)
{
    int fd = new_file();

    OK(lock(fd, F_SETLK, F_RDLCK, 10, 10));
    EQ(met_by_a_stranger(F_RDLCK, 0, 0), F_UNLCK);
    EQ(met_by_a_stranger(F_WRLCK, 0, 0), F_RDLCK);
    EQ(met_by_a_stranger(F_WRLCK, 0, 10), F_UNLCK);
    EQ(met_by_a_stranger(F_WRLCK, 19, 1), F_RDLCK);
    EQ(met_by_a_stranger(F_WRLCK, 20, 0), F_UNLCK);
    OK(lock(fd, F_SETLK, F_WRLCK, 10, 10)); /* Upgrade. */
    EQ(met_by_a_stranger(F_RDLCK, 15, 1), F_WRLCK);
    OK(lock(fd, F_SETLK, F_UNLCK, 13, 4)); /* Split. */
    EQ(met_by_a_stranger(F_WRLCK, 13, 4), F_UNLCK);
    EQ(met_by_a_stranger(F_WRLCK, 12, 1), F_WRLCK);
    EQ(met_by_a_stranger(F_WRLCK, 17, 1), F_WRLCK);
    OK(lock(fd, F_SETLK, F_WRLCK, 100, 0)); /* To the end of all ends. */
    EQ(met_by_a_stranger(F_RDLCK, INT64_MAX - 1, 1), F_WRLCK);
    FAILS(lock((int)OK(open("f", O_RDONLY)), F_SETLK, F_WRLCK, 0, 1), EBADF);
}

static void any_close_gives_them_back(void)
{
    int fd = new_file();

    OK(lock(fd, F_SETLK, F_WRLCK, 0, 0));
    EQ(met_by_a_stranger(F_RDLCK, 0, 1), F_WRLCK);
    OK(close((int)OK(open("f", O_RDONLY)))); /* POSIX: of any descriptor of the file. */
    EQ(met_by_a_stranger(F_RDLCK, 0, 1), F_UNLCK);
}

static void the_holder_is_named(void)
{
    int fd = new_file(), pipes[2];
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    pid_t child;
    char byte;

    OK(pipe(pipes));
    child = (pid_t)OK(fork());
    if (child == 0) {
        OK(lock(fd, F_SETLK, F_WRLCK, 3, 4));
        OK(write(pipes[1], "x", 1));
        (void)pause();
        _exit(0);
    }
    EQ(read(pipes[0], &byte, 1), 1);
    OK(fcntl(fd, F_GETLK, &l));
    EQ(l.l_type, F_WRLCK);
    EQ(l.l_start, 3);
    EQ(l.l_len, 4);
    EQ(l.l_pid, child);
    TRUE(lock(fd, F_SETLK, F_RDLCK, 3, 1) == -1 && (errno == EAGAIN || errno == EACCES));
    OK(kill(child, SIGKILL));
    (void)finish(child);
    OK(lock(fd, F_SETLK, F_WRLCK, 0, 0)); /* The dead hold nothing. */
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

static void waiting(void)
{
    int fd = new_file(), pipes[2];
    struct sigaction action = { .sa_handler = on_alarm };
    pid_t child;
    char byte;

    OK(pipe(pipes));
    child = (pid_t)OK(fork());
    if (child == 0) {
        OK(lock(fd, F_SETLK, F_WRLCK, 0, 0));
        OK(write(pipes[1], "x", 1));
        EQ(read(pipes[0], &byte, 0), 0);
        (void)usleep(200000); /* Hold it for a while. */
        OK(pwrite(fd, "released", 8, 0));
        OK(lock(fd, F_SETLK, F_UNLCK, 0, 0));
        _exit(0);
    }
    EQ(read(pipes[0], &byte, 1), 1);
    OK(lock(fd, F_SETLKW, F_WRLCK, 0, 0)); /* Until it is let go. */
    expect_bytes(fd, "released", 8, 0);
    EQ(finish(child), 0);
    child = (pid_t)OK(fork());
    if (child == 0) {
        OK(sigaction(SIGALRM, &action, NULL)); /* Not restarted. */
        (void)ualarm(100000, 100000);          /* It may come before the wait. */
        FAILS(lock(fd, F_SETLKW, F_WRLCK, 0, 0), EINTR);
        _exit(0);
    }
    EQ(finish(child), 0);
}

static void deadlock_is_noticed(void)
{
    int fd = new_file(), pipes[2];
    pid_t child;
    char byte;

    OK(pipe(pipes));
    OK(lock(fd, F_SETLK, F_WRLCK, 0, 1));
    child = (pid_t)OK(fork());
    if (child == 0) {
        OK(lock(fd, F_SETLK, F_WRLCK, 1, 1));
        OK(write(pipes[1], "x", 1));
        if (lock(fd, F_SETLKW, F_WRLCK, 0, 1) == -1) {
            EQ(errno, EDEADLK);
            _exit(7);
        }
        _exit(0);
    }
    EQ(read(pipes[0], &byte, 1), 1);
    if (lock(fd, F_SETLKW, F_WRLCK, 1, 1) == -1) { /* One of the two is told. */
        EQ(errno, EDEADLK);
        OK(lock(fd, F_SETLK, F_UNLCK, 0, 0));
        EQ(finish(child), 0);
    } else {
        EQ(WEXITSTATUS(finish(child)), 7);
    }
}

static void locks_of_open_file_descriptions(void)
{
    int a = new_file(), b = (int)OK(open("f", O_RDWR)), twin;

    OK(lock(a, F_OFD_SETLK, F_WRLCK, 0, 10));
    FAILS(lock(b, F_OFD_SETLK, F_WRLCK, 5, 1), EAGAIN); /* Within one process as well. */
    OK(lock(b, F_OFD_SETLK, F_WRLCK, 10, 1));
    twin = (int)OK(dup(a));
    OK(close(a));
    FAILS(lock(b, F_OFD_SETLK, F_RDLCK, 0, 1), EAGAIN);
    OK(close(twin));
    OK(lock(b, F_OFD_SETLK, F_WRLCK, 0, 1));
}

static void whole_file_locks(void)
{
    int a = new_file(), b = (int)OK(open("f", O_RDONLY)), twin;

    OK(flock(a, LOCK_SH));
    OK(flock(b, LOCK_SH | LOCK_NB));
    FAILS(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    OK(flock(a, LOCK_UN));
    OK(flock(b, LOCK_EX | LOCK_NB));
    FAILS(flock(a, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    twin = (int)OK(dup(b));
    OK(close(b));
    FAILS(flock(a, LOCK_SH | LOCK_NB), EWOULDBLOCK); /* Until the last of them is closed. */
    OK(close(twin));
    OK(flock(a, LOCK_EX | LOCK_NB));
    OK(lock(a, F_SETLK, F_WRLCK, 0, 0)); /* The two kinds do not meet. */
    OK(mkdir("d", 0755));
    OK(flock((int)OK(open("d", O_RDONLY)), LOCK_EX | LOCK_NB));
}

static void whole_file_locks_die_with_their_process(void)
{
    int fd = new_file(), pipes[2];
    pid_t child;
    char byte;

    OK(pipe(pipes));
    child = (pid_t)OK(fork());
    if (child == 0) {
        OK(flock((int)OK(open("f", O_RDWR)), LOCK_EX));
        OK(write(pipes[1], "x", 1));
        (void)pause();
        _exit(0);
    }
    EQ(read(pipes[0], &byte, 1), 1);
    FAILS(flock(fd, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    OK(kill(child, SIGKILL));
    OK(flock(fd, LOCK_EX));
    (void)finish(child);
}

static const struct suite_case lock_cases[] = {
    SUITE_CASE(ranges_conflict_as_they_should),
    SUITE_CASE(any_close_gives_them_back),
    SUITE_CASE(the_holder_is_named),
    SUITE_CASE(waiting),
    SUITE_CASE(deadlock_is_noticed),
    SUITE_CASE(locks_of_open_file_descriptions),
    SUITE_CASE(whole_file_locks),
    SUITE_CASE(whole_file_locks_die_with_their_process),
};
SUITE_GROUP(lock);
