/* Writes each line with one call to standard error, in the form that the systemd journal wants if it is
 * the reader. */
#include "common/daemon/log.h"

#include "common/base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 }; /* Longer lines are cut; a pipe takes this much in one piece. */

struct log
{
    const char *program;
    int fd;
    bool fd_is_ours;
    bool journal; /* The other end adds time and program; the level goes in front as "<3>". */
    atomic_int level;
    pthread_mutex_t lock; /* Keeps lines whole when a write is taken in parts. */
};

/* systemd names the device and inode of the stream that goes to the journal; a redirected standard
 * error has others. sd-journal: "$JOURNAL_STREAM" in systemd.exec(5). */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device;
    unsigned long long inode;
    struct stat st;

    if (stream == NULL || sscanf(stream, "%llu:%llu", &device, &inode) != 2 ||
        fstat(STDERR_FILENO, &st) != 0) {
        return false;
    }
    return st.st_dev == device && st.st_ino == inode;
}

struct log *log_open(const char *program, const char *path, enum log_level level)
{
    struct log *log = calloc(1, sizeof(*log));

    if (log == NULL) {
        return NULL;
    }
    log->program = program;
    log->fd = STDERR_FILENO;
    if (path != NULL) {
        log->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (log->fd < 0) {
            free(log);
            return NULL;
        }
        log->fd_is_ours = true;
    } else {
        log->journal = stderr_is_journal();
    }
    atomic_init(&log->level, (int)level);
    pthread_mutex_init(&log->lock, NULL);
    return log;
}

void log_close(struct log *log)
{
    if (log == NULL) {
        return;
    }
    if (log->fd_is_ours) {
        (void)close(log->fd);
    }
    pthread_mutex_destroy(&log->lock);
    free(log);
}

void log_set_level(struct log *log, enum log_level level)
{
    atomic_store(&log->level, (int)level);
}

static const char *level_words(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "?";
}

/* What stands before the message; returns its length. */
static size_t format_prefix(const struct log *log, enum log_level level, char *line)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];

    if (log->journal) {
        return (size_t)snprintf(line, LINE_MAX_BYTES, "<%d>", (int)level);
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
    return (size_t)snprintf(line, LINE_MAX_BYTES, "%s.%03ldZ %.64s %s: ", stamp,
                            now.tv_nsec / 1000000, log->program, level_words(level));
}

/* A file name in a message may hold a newline, which would forge a line. */
static void replace_controls(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* A log that cannot be written has nobody to tell, so what is left of the line is dropped. */
static void write_line(struct log *log, const char *line, size_t count)
{
    pthread_mutex_lock(&log->lock);
    while (count > 0) {
        ssize_t written = write(log->fd, line, count);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            break;
        }
        line += written;
        count -= (size_t)written;
    }
    pthread_mutex_unlock(&log->lock);
}

void log_write(struct log *log, enum log_level level, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    int errno_kept = errno;
    size_t prefix;
    size_t count;
    va_list args;

    if (log == NULL || (int)level > atomic_load(&log->level)) {
        return;
    }
    prefix = format_prefix(log, level, line);
    va_start(args, format);
    (void)vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, args);
    va_end(args);
    replace_controls(line + prefix);
    count = strlen(line);
    line[count] = '\n'; /* There is room: vsnprintf left one byte. */
    write_line(log, line, count + 1);
    errno = errno_kept;
}

bool log_level_parse(const char *text, enum log_level *level)
{
    static const struct
    {
        const char *name;
        enum log_level level;
    } levels[] = { { "error", LOG_LEVEL_ERROR },
                   { "warning", LOG_LEVEL_WARNING },
                   { "info", LOG_LEVEL_INFO },
                   { "debug", LOG_LEVEL_DEBUG } };

    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (strcmp(text, levels[i].name) == 0) {
            *level = levels[i].level;
            return true;
        }
    }
    return false;
}
