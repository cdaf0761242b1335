/* Processes that outlive the command: started until they serve, remembered in a file, stopped until
 * they are gone.
 *
 * A process is remembered as "PID START BOOT" with the start time of proc(5) and the kernel's boot
 * id, so that a file left by a machine that was switched off, or a pid that belongs to somebody
 * else by now, is not mistaken for ours. Nothing here polls: readiness comes through a pipe
 * (MORSEL_READY_FD), the end through a pidfd.
 */
#ifndef MORSEL_CLIENT_ADMIN_PROCESS_PROC_H
#define MORSEL_CLIENT_ADMIN_PROCESS_PROC_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

#include <sys/types.h>

enum { PROCESS_ARGUMENTS_MAX = 24, PROCESS_LINE_MAX = 512 };

/* The path of a program of ours: beside this one, in ../sbin or ../bin of it, or on PATH (which
 * gives the bare name). */
void process_find_program(const char *name, char *path, size_t path_max);

struct process_start
{
    char *const *argv; /* Ends with NULL; argv[0] is executed, searched on PATH. */
    const char *log;   /* Standard output and error are appended here. */
    const char *pid_file;
    int timeout_ms; /* Until the ready line must have come. */
};

/* Start and wait until it says that it serves; `ready_line` is what it said, without the newline. A
 * process that ends or stays silent is an error (with the last line of its log) and is gone when
 * this returns. */
int process_start(const struct process_start *start, char ready_line[PROCESS_LINE_MAX],
                  struct errmsg *err);

/* The pid in the file, when that very process still runs; 0 otherwise. */
pid_t process_running(const char *pid_file);

/* Ask it to stop (SIGTERM) and wait until it is gone; remove the file. Done when it does not run.
 */
int process_stop(const char *pid_file, int timeout_ms, struct errmsg *err);

/* Wait until it is gone by itself; remove the file. */
int process_wait(const char *pid_file, int timeout_ms, struct errmsg *err);

/* Run a short-lived program to its end and keep what it says on standard error, on one line. Its
 * exit code, or -1 when it could not be run. */
int process_run(char *const *argv, char *words, size_t words_max);

#endif
