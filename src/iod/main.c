/* morsel-iod: settings, start, orderly end. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/daemon_uv.h"
#include "iod/iod_uv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { OWN_FILES = 64 }; /* Beside objects and connections. */

struct program
{
    struct iod_settings settings;
    struct iod iod;
    struct daemon_uv daemon;
    uv_loop_t loop;
    int exit_code;
};

#define FIELD(name) offsetof(struct iod_settings, name)

static const struct config_option options[] = {
    { "data-dir", CONFIG_STRING, FIELD(data_dir), "/var/lib/morselfs/iod", 0, 0, "DIR",
      "Where the data objects lie; made when it does not exist." },
    { "listen", CONFIG_STRING, FIELD(listen), "127.0.0.1:7461", 0, 0, "HOST:PORT",
      "Where clients are served; port 0 takes any that is free." },
    { "manager", CONFIG_STRING, FIELD(manager), "127.0.0.1:7460", 0, 0, "HOST:PORT",
      "The metadata manager of the cluster." },
    { "advertise", CONFIG_STRING, FIELD(advertise), "", 0, 0, "HOST:PORT",
      "Where clients reach this daemon, if that is not where it listens." },
    { "open-files", CONFIG_NUMBER, FIELD(open_files), "4096", 16, 16384, "N",
      "Most data objects that are kept open at once." },
    { "reserve", CONFIG_BYTES, FIELD(reserve_bytes), "256M", 0, 0, "BYTES",
      "Leave this much of the disk free." },
    { "threads", CONFIG_NUMBER, FIELD(threads), "8", 1, 128, "N",
      "Threads that wait for the disk." },
    { "queue", CONFIG_NUMBER, FIELD(queue), "4096", 16, 65536, "N",
      "Most requests that wait for a thread; more are refused." },
    { "buffers", CONFIG_BYTES, FIELD(buffers_bytes), "64M", 0, UINT64_C(1) << 36, "BYTES",
      "Memory kept for the bytes of requests while they are few." },
    { "checkpoint-time", CONFIG_TIME_MS, FIELD(checkpoint_ms), "30s", 1000, 3600000, "TIME",
      "How often everything written is flushed, so that it counts as safe after a crash." },
    { "slow-limit", CONFIG_TIME_MS, FIELD(slow_limit_ms), "2s", 500, 600000, "TIME",
      "Of files with copies: a server that holds up changes for longer than that is left behind by "
      "the others, "
      "and brought up to date when it is fast again." },
    { "slow-pause", CONFIG_TIME_MS, FIELD(slow_pause_ms), "10s", 100, 600000, "TIME",
      "So long it stays out at least; up to 60 times as long when it is slow again and again." },
    { "recovery-rate", CONFIG_BYTES, FIELD(recovery_rate), "0", 0, UINT64_C(1) << 40, "BYTES",
      "Give and take at most so much a second when copies are brought up to date; 0: no limit." },
    { "scrub-rate", CONFIG_BYTES, FIELD(scrub_rate), "4M", 0, UINT64_C(1) << 40, "BYTES",
      "Read everything that is stored here now and then, at most so much a second, to find what "
      "the "
      "disk has damaged; 0: never." },
    { "scrub-every", CONFIG_TIME_MS, FIELD(scrub_every_ms), "336h", 1000, UINT64_C(31536000000),
      "TIME",
      "How often that begins from the first object; the next time waits for the end of the one "
      "before." },
    { "log-file", CONFIG_STRING, FIELD(log_file), "", 0, 0, "FILE",
      "Write the log there instead of standard error or the journal." },
    { "log-level", CONFIG_STRING, FIELD(log_level), "info", 0, 0, "LEVEL",
      "error, warning, info or debug." },
};

static const struct config_table table = { .program = "morsel-iod",
                                           .summary =
                                               "I/O daemon: store the data of a MorselFS cluster.",
                                           .operands = "",
                                           .options = options,
                                           .options_count = ARRAY_COUNT(options) };

static void on_ready(void *data)
{
    struct program *p = data;

    daemon_ready(&p->daemon, rpc_server_address(p->iod.objects.listener));
}

static void program_stop(void *data)
{
    struct program *p = data;

    iod_stop(&p->iod);
    daemon_finish(&p->daemon);
}

/* A signal: the other servers take over, then it ends; with a second one it ends at once. */
static void program_leave(void *data)
{
    struct program *p = data;

    iod_leave(&p->iod, program_stop, p);
}

static void on_failed(void *data)
{
    struct program *p = data;

    p->exit_code = 1;
    program_stop(p);
}

static void on_statistics(void *data)
{
    struct program *p = data;

    iod_log_statistics(&p->iod);
}

/* Objects, connections and a few files of our own need descriptors. */
static int raise_descriptor_limit(const struct iod_settings *s, struct errmsg *err)
{
    const rlim_t needed = s->open_files + 1024;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
        return 0;
    }
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    if (limit.rlim_cur < s->open_files + OWN_FILES || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        errmsg_set(
            err,
            "open-files = %llu, but this process may open only %llu: raise the limit of open "
            "files (ulimit -n) or lower open-files",
            (unsigned long long)s->open_files, (unsigned long long)limit.rlim_max);
        return MORSEL_INVAL;
    }
    return 0;
}

static int program_run(struct program *p, struct log *log)
{
    struct errmsg err = { "" };
    int rv = raise_descriptor_limit(&p->settings, &err);

    CHECK(uv_loop_init(&p->loop) == 0);
    p->daemon = (struct daemon_uv){ .log = log,
                                    .stop = program_leave,
                                    .hurry = program_stop,
                                    .statistics = on_statistics,
                                    .data = p };
    p->iod.settings = &p->settings;
    p->iod.log = log;
    p->iod.loop = &p->loop;
    p->iod.ready = on_ready;
    p->iod.failed = on_failed;
    p->iod.data = p;
    if (rv == 0) {
        CHECK(daemon_start(&p->daemon, &p->loop) == 0);
        rv = iod_start(&p->iod, &err);
        if (rv != 0) {
            program_stop(p);
        } else {
            daemon_limit_connections(log, p->iod.objects.listener,
                                     p->settings.open_files + OWN_FILES);
        }
        uv_run(&p->loop, UV_RUN_DEFAULT);
        iod_release(&p->iod);
    }
    if (rv != 0) {
        log_error(log, "%s", err.text[0] != 0 ? err.text : status_words(rv));
        p->exit_code = 1;
    }
    CHECK(uv_loop_close(&p->loop) == 0);
    return p->exit_code;
}

int main(int argc, char **argv)
{
    struct errmsg err = { "" };
    size_t operands_count = 0;
    enum config_verdict verdict;
    enum log_level level;
    char threads[16];
    struct program *p = calloc(1, sizeof(*p));
    struct log *log;
    int code;

    if (p == NULL) {
        fprintf(stderr, "morsel-iod: out of memory\n");
        return 1;
    }
    verdict = config_command_line(&table, &p->settings, argc, argv, NULL, 0, &operands_count, &err);
    if (verdict == CONFIG_RUN && !log_level_parse(p->settings.log_level, &level)) {
        errmsg_set(&err, "log-level \"%s\": give error, warning, info or debug",
                   p->settings.log_level);
        verdict = CONFIG_BAD;
    }
    if (verdict == CONFIG_RUN && p->settings.recovery_rate != 0 &&
        p->settings.recovery_rate < RECOVERY_RATE_MIN) {
        errmsg_set(&err,
                   "recovery-rate = %llu bytes a second is too low for recovery to end: give %dK "
                   "or more, or 0 for no limit",
                   (unsigned long long)p->settings.recovery_rate, RECOVERY_RATE_MIN >> 10);
        verdict = CONFIG_BAD;
    }
    if (verdict != CONFIG_RUN) {
        code = config_answer(&table, verdict, &err);
        free(p);
        return code;
    }
    snprintf(threads, sizeof(threads), "%u", (unsigned)p->settings.threads);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    log = log_open("morsel-iod", p->settings.log_file[0] != 0 ? p->settings.log_file : NULL, level);
    if (log == NULL) {
        fprintf(stderr, "morsel-iod: cannot open the log file %s: %s\n", p->settings.log_file,
                strerror(errno));
        free(p);
        return 1;
    }
    code = program_run(p, log);
    log_close(log);
    free(p);
    return code;
}
