/* Log lines: text on standard error, or the journal when systemd runs us.
 *
 * A line says what happened, to what, and what to do. Thread-safe. The one piece of process-wide
 * state is the output and level chosen at start, kept in a struct that log_open() returns.
 */
#ifndef MORSEL_COMMON_DAEMON_LOG_H
#define MORSEL_COMMON_DAEMON_LOG_H

#include <stdbool.h>

struct log;

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
}; /* As syslog(3). */

/* `program` is borrowed. `path` NULL: standard error, or the journal where JOURNAL_STREAM says so.
 * NULL: cannot open (errno) or no memory. */
struct log *log_open(const char *program, const char *path, enum log_level level);
void log_close(struct log *log);
/* "error", "warning", "info" or "debug"; false for anything else. */
bool log_level_parse(const char *text, enum log_level *level);

void log_set_level(struct log *log, enum log_level level);

/* `log` NULL discards. The format has no final newline. */
void log_write(struct log *log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(log, ...)   log_write(log, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(log, ...) log_write(log, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(log, ...)    log_write(log, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(log, ...)   log_write(log, LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
