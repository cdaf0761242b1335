/* morsel-benefactor: settings, start, orderly end. */
#include "benefactor/benefactor_uv.h"
#include "benefactor/machine_file.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/daemon_uv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OWN_FILES = 64 + MORSELS_OPEN_FILES, /* Beside connections. */
    EXIT_DELETED = 3 /* Whoever starts us again when we fail would donate a new directory. */
};

struct program
{
    struct benefactor_settings settings;
    struct benefactor benefactor;
    struct daemon_uv daemon;
    uv_loop_t loop;
    int exit_code;
};

#define FIELD(name) offsetof(struct benefactor_settings, name)

static const struct config_option options[] = {
    { "data-dir", CONFIG_STRING, FIELD(data_dir), "", 0, 0, "DIR",
      "The directory that is donated; made when it does not exist. For root "
      "/var/lib/morselfs/benefactor unless another one is named, for others "
      "$XDG_DATA_HOME/morselfs (~/.local/share/morselfs)." },
    { "donate", CONFIG_STRING, FIELD(donate), "", 0, 0, "SIZE|PERCENT",
      "How much of the disk is given at most: a size such as 50G, or a part such as 30%. Must be "
      "said." },
    { "keep-free", CONFIG_STRING, FIELD(keep_free), "20%", 0, 0, "SIZE|PERCENT",
      "So much of the disk stays free for its owner, whatever donate says: the donation gives way "
      "before." },
    { "manager", CONFIG_STRING, FIELD(manager), "127.0.0.1:7460", 0, 0, "HOST:PORT",
      "The metadata manager of the cluster." },
    { "listen", CONFIG_STRING, FIELD(listen), "0.0.0.0:7462", 0, 0, "HOST:PORT",
      "Where clients are served; port 0 takes any that is free." },
    { "advertise", CONFIG_STRING, FIELD(advertise), "", 0, 0, "HOST:PORT",
      "Where clients reach this machine, if that is neither where it listens nor the address from "
      "which it reaches the manager." },
    { "calm-time", CONFIG_TIME_MS, FIELD(calm_ms), "5m", 0, 86400000, "TIME",
      "A donation that gave way grows again when the disk has had room for so long." },
    { "gentle", CONFIG_BOOL, FIELD(gentle), "yes", 0, 0, "",
      "Be slower, down to 1 MiB a second, while somebody needs the machine, and take processors "
      "and "
      "the disk only when nobody else wants them; no: for machines at which nobody works." },
    { "log-file", CONFIG_STRING, FIELD(log_file), "", 0, 0, "FILE",
      "Write the log there instead of standard error or the journal." },
    { "log-level", CONFIG_STRING, FIELD(log_level), "info", 0, 0, "LEVEL",
      "error, warning, info or debug." },
};

static const struct config_table table = {
    .program = "morsel-benefactor",
    .summary = "Benefactor: donate a part of this machine's disk to a MorselFS cluster.",
    .operands = "",
    .options = options,
    .options_count = ARRAY_COUNT(options)
};

static void on_ready(void *data)
{
    struct program *p = data;

    daemon_ready(&p->daemon, rpc_server_address(p->benefactor.morsels.server.listener));
}

static void program_stop(void *data)
{
    struct program *p = data;

    benefactor_stop(&p->benefactor);
    daemon_finish(&p->daemon);
}

/* A signal: the manager is told that we leave; with a second one it ends at once. */
static void program_leave(void *data)
{
    struct program *p = data;

    benefactor_leave(&p->benefactor, program_stop);
}

static void on_failed(void *data)
{
    struct program *p = data;

    p->exit_code = p->benefactor.deleted ? EXIT_DELETED : 1;
    program_leave(p);
}

/* Nobody starts again what ends well. */
static void on_unwanted(void *data)
{
    program_leave(data);
}

static void on_statistics(void *data)
{
    struct program *p = data;

    benefactor_log_statistics(&p->benefactor);
}

static int program_run(struct program *p, struct log *log)
{
    struct errmsg err = { "" };
    int rv;

    if (p->settings.gentle) {
        machine_stand_back(); /* Before there are other threads. */
    }
    CHECK(uv_loop_init(&p->loop) == 0);
    p->daemon = (struct daemon_uv){ .log = log,
                                    .stop = program_leave,
                                    .hurry = program_stop,
                                    .statistics = on_statistics,
                                    .data = p };
    p->benefactor.settings = &p->settings;
    p->benefactor.log = log;
    p->benefactor.loop = &p->loop;
    p->benefactor.ready = on_ready;
    p->benefactor.failed = on_failed;
    p->benefactor.unwanted = on_unwanted;
    p->benefactor.data = p;
    CHECK(daemon_start(&p->daemon, &p->loop) == 0);
    rv = benefactor_start(&p->benefactor, &err);
    if (rv != 0) {
        program_stop(p);
    } else {
        daemon_limit_connections(log, p->benefactor.morsels.server.listener, OWN_FILES);
    }
    uv_run(&p->loop, UV_RUN_DEFAULT);
    benefactor_release(&p->benefactor);
    if (rv != 0) {
        log_error(log, "%s", err.text[0] != 0 ? err.text : status_words(rv));
        p->exit_code = 1;
    }
    CHECK(uv_loop_close(&p->loop) == 0);
    return p->exit_code;
}

/* What the table cannot see. */
static enum config_verdict check_settings(struct program *p, enum log_level *level,
                                          struct errmsg *err)
{
    const struct benefactor_settings *s = &p->settings;

    if (!log_level_parse(s->log_level, level)) {
        errmsg_set(err, "log-level \"%s\": give error, warning, info or debug", s->log_level);
        return CONFIG_BAD;
    }
    if (s->donate[0] == 0) {
        errmsg_set(err, "nobody has said how much is donated: give donate, a size such as "
                        "--donate=50G or a part of the disk such as --donate=30%%");
        return CONFIG_BAD;
    }
    if (donation_share_parse(s->donate, &p->benefactor.wish.donate, err) != 0) {
        errmsg_wrap(err, "donate");
        return CONFIG_BAD;
    }
    if (donation_share_parse(s->keep_free, &p->benefactor.wish.keep_free, err) != 0) {
        errmsg_wrap(err, "keep-free");
        return CONFIG_BAD;
    }
    return CONFIG_RUN;
}

int main(int argc, char **argv)
{
    struct errmsg err = { "" };
    size_t operands_count = 0;
    enum config_verdict verdict;
    enum log_level level = LOG_LEVEL_INFO;
    struct program *p = calloc(1, sizeof(*p));
    struct log *log;
    int code;

    if (p == NULL) {
        fprintf(stderr, "morsel-benefactor: out of memory\n");
        return 1;
    }
    verdict = config_command_line(&table, &p->settings, argc, argv, NULL, 0, &operands_count, &err);
    if (verdict == CONFIG_RUN) {
        verdict = check_settings(p, &level, &err);
    }
    if (verdict != CONFIG_RUN) {
        code = config_answer(&table, verdict, &err);
        free(p);
        return code;
    }
    log = log_open("morsel-benefactor", p->settings.log_file[0] != 0 ? p->settings.log_file : NULL,
                   level);
    if (log == NULL) {
        fprintf(stderr, "morsel-benefactor: cannot open the log file %s: %s\n",
                p->settings.log_file, strerror(errno));
        free(p);
        return 1;
    }
    code = program_run(p, log);
    log_close(log);
    free(p);
    return code;
}
