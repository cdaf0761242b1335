/* morsel-meta: settings, start, orderly end. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/daemon_uv.h"
#include "meta/cluster/copies_rule.h"
#include "meta/meta_uv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_FILES = 4096 }; /* The database's tables, and some more. */

struct program
{
    struct meta_settings settings;
    struct meta meta;
    struct datadir datadir;
    struct daemon_uv daemon;
    uv_loop_t loop;
};

#define FIELD(name) offsetof(struct meta_settings, name)

static const struct config_option options[] = {
    { "data-dir", CONFIG_STRING, FIELD(data_dir), "/var/lib/morselfs/meta", 0, 0, "DIR",
      "Where the database lies; a new cluster is made when it does not exist or is empty." },
    { "listen", CONFIG_STRING, FIELD(listen), "127.0.0.1:7460", 0, 0, "HOST:PORT",
      "Where clients and I/O daemons are served; port 0 takes any that is free." },
    { "session-time", CONFIG_TIME_MS, FIELD(session_ms), "30s", 1000, 3600000, "TIME",
      "A client that is silent this long has lost its session and its open files." },
    { "heartbeat", CONFIG_TIME_MS, FIELD(heartbeat_ms), "1s", 100, 60000, "TIME",
      "How often I/O daemons report; after three missed reports one counts as down." },
    { "lease-time", CONFIG_TIME_MS, FIELD(lease_ms), "5s", LEASE_MS_MIN, LEASE_MS_MAX, "TIME",
      "How long others wait for a mount that is silent and may have something cached." },
    { "rebuild-after", CONFIG_TIME_MS, FIELD(rebuild_after_ms), "10m", 0, 2592000000, "TIME",
      "An I/O daemon that is away this long is replaced where files have copies; 0: never." },
    { "donor-report", CONFIG_TIME_MS, FIELD(donor_report_ms), "20s", 100, 3600000, "TIME",
      "How often benefactors report what they donate." },
    { "donor-look", CONFIG_TIME_MS, FIELD(donor_look_ms), "60s", 500, 86400000, "TIME",
      "A benefactor that is silent this long is asked whether it is there, and is away when it "
      "does "
      "not answer." },
    { "repair-after", CONFIG_TIME_MS, FIELD(repair_after_ms), "15m", 0, 2592000000, "TIME",
      "Morsels of a benefactor that is away this long are copied to others, after a quarter of it "
      "where one copy is left; 0: at once." },
    { "unfinished-expiry", CONFIG_TIME_MS, FIELD(unfinished_expiry_ms), "7d", 0, 315360000000,
      "TIME",
      "Data sets that were reserved or begun, and to which nothing was done for this long, are let "
      "go, but for data that nobody else has; 0: never." },
    { "forget-donors", CONFIG_TIME_MS, FIELD(forget_donors_ms), "90d", 0, 315360000000, "TIME",
      "A benefactor that is away this long is forgotten, unless it has what nobody else has; 0: "
      "never." },
    { "replicas", CONFIG_STRING, FIELD(replicas), "", 0, 0, "NUMBER",
      "Copies of new files where no directory says: 1, 2, 3 or auto (2 once two I/O daemons are "
      "there); not set: auto, but 1 when an older version made the database." },
    { "admit", CONFIG_STRING, FIELD(admit), "auto", 0, 0, "HOW",
      "auto: an I/O daemon that is new is one of the cluster at once; manual: it waits for `morsel "
      "iod admit`." },
    { "squash", CONFIG_STRING, FIELD(squash), "none", 0, 0, "WHO",
      "none, root or all: which users of mounts that are not trusted become squash-uid." },
    { "trusted", CONFIG_STRING, FIELD(trusted), "127.0.0.0/8, ::1", 0, 0, "NETWORKS",
      "Addresses whose users are never squashed: 10.1.0.0/16, 10.2.0.7, fd00::/8." },
    { "squash-uid", CONFIG_NUMBER, FIELD(squash_uid), "65534", 1, UINT32_MAX - 1, "UID",
      "Who a squashed user counts as." },
    { "squash-gid", CONFIG_NUMBER, FIELD(squash_gid), "65534", 1, UINT32_MAX - 1, "GID",
      "The group of a squashed user." },
    { "log-file", CONFIG_STRING, FIELD(log_file), "", 0, 0, "FILE",
      "Write the log there instead of standard error or the journal." },
    { "log-level", CONFIG_STRING, FIELD(log_level), "info", 0, 0, "LEVEL",
      "error, warning, info or debug." },
};

static const struct config_table table = {
    .program = "morsel-meta",
    .summary = "Metadata manager: names, layouts and members of a MorselFS cluster.",
    .operands = "",
    .options = options,
    .options_count = ARRAY_COUNT(options)
};

static void on_rpc_closed(void *data)
{
    (void)data; /* The loop ends when its last handle is gone. */
}

static void on_meta_closed(void *data)
{
    struct program *p = data;

    rpc_close(p->meta.rpc, on_rpc_closed, p);
}

static void on_stop(void *data)
{
    struct program *p = data;

    daemon_finish(&p->daemon);
    meta_close(&p->meta, on_meta_closed, p);
}

static void on_statistics(void *data)
{
    struct program *p = data;

    meta_log_statistics(&p->meta);
}

/* Listen before anything is made: a port in use leaves no new directory behind. */
static int listen_first(struct program *p, struct errmsg *err)
{
    struct rpc_options rpc_options = { .role = ROLE_MANAGER,
                                       .program = "morsel-meta " MORSELFS_VERSION };
    struct rpc_server_hooks hooks = meta_hooks(&p->meta);
    int rv = rpc_new(&p->loop, &rpc_options, &p->meta.rpc);

    if (rv == 0) {
        rv = rpc_listen(p->meta.rpc, p->settings.listen, &hooks, &p->meta.server, err);
    }
    return rv;
}

static int open_data(struct program *p, struct errmsg *err)
{
    int rv = datadir_open(&p->datadir, p->settings.data_dir, "meta", err);

    if (rv != 0) {
        p->datadir.lock_fd = -1;
        return rv;
    }
    return meta_open(&p->meta, &p->datadir, err);
}

static int program_run(struct program *p, struct log *log)
{
    struct errmsg err = { "" };
    int rv;

    CHECK(uv_loop_init(&p->loop) == 0);
    p->daemon =
        (struct daemon_uv){ .log = log, .stop = on_stop, .statistics = on_statistics, .data = p };
    p->meta.settings = &p->settings;
    p->meta.log = log;
    p->meta.loop = &p->loop;
    p->datadir.lock_fd = -1;
    if ((rv = listen_first(p, &err)) == 0 && (rv = open_data(p, &err)) == 0) {
        CHECK(daemon_start(&p->daemon, &p->loop) == 0);
        daemon_limit_connections(log, p->meta.server, OWN_FILES);
        meta_start(&p->meta);
        log_info(log, "serving on %s", rpc_server_address(p->meta.server));
        daemon_ready(&p->daemon, rpc_server_address(p->meta.server));
    } else {
        log_error(log, "%s", err.text[0] != 0 ? err.text : status_words(rv));
        if (p->meta.rpc != NULL) {
            rpc_close(p->meta.rpc, on_rpc_closed, p);
        }
    }
    uv_run(&p->loop, UV_RUN_DEFAULT);
    meta_free(&p->meta);
    if (p->datadir.lock_fd >= 0) {
        datadir_close(&p->datadir);
    }
    CHECK(uv_loop_close(&p->loop) == 0);
    return rv == 0 ? 0 : 1;
}

static bool take_trust(struct program *p, struct errmsg *err)
{
    struct trust *trust = &p->meta.trust;

    trust->uid = (uint32_t)p->settings.squash_uid;
    trust->gid = (uint32_t)p->settings.squash_gid;
    return squash_parse(p->settings.squash, &trust->squash, err) == 0 &&
           trust_parse(p->settings.trusted, trust, err) == 0;
}

/* Who is heard less often than that would be asked each time. */
static bool check_donor_times(const struct meta_settings *settings, struct errmsg *err)
{
    if (settings->donor_look_ms < settings->donor_report_ms) {
        errmsg_set(err, "donor-look is shorter than donor-report: give at least as much");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct errmsg err = { "" };
    size_t operands_count = 0;
    enum config_verdict verdict;
    enum log_level level = LOG_LEVEL_INFO;
    struct program *p = calloc(1, sizeof(*p));
    struct log *log;
    char threads[16];
    uint32_t rule; /* It is only looked whether it can be read. */
    int code;

    if (p == NULL) {
        fprintf(stderr, "morsel-meta: out of memory\n");
        return 1;
    }
    verdict = config_command_line(&table, &p->settings, argc, argv, NULL, 0, &operands_count, &err);
    if (verdict == CONFIG_RUN && !log_level_parse(p->settings.log_level, &level)) {
        errmsg_set(&err, "log-level \"%s\": give error, warning, info or debug",
                   p->settings.log_level);
        verdict = CONFIG_BAD;
    }
    if (verdict == CONFIG_RUN && strcmp(p->settings.admit, "auto") != 0 &&
        strcmp(p->settings.admit, "manual") != 0) {
        errmsg_set(&err, "admit \"%s\": give auto or manual", p->settings.admit);
        verdict = CONFIG_BAD;
    }
    if (verdict == CONFIG_RUN && copies_rule_parse(p->settings.replicas, &rule, &err) != 0) {
        verdict = CONFIG_BAD;
    }
    if (verdict == CONFIG_RUN && (!check_donor_times(&p->settings, &err) || !take_trust(p, &err))) {
        verdict = CONFIG_BAD;
    }
    if (verdict != CONFIG_RUN) {
        code = config_answer(&table, verdict, &err);
        free(p);
        return code;
    }
    (void)snprintf(threads, sizeof(threads), "%d", LOADS_THREADS);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    log =
        log_open("morsel-meta", p->settings.log_file[0] != 0 ? p->settings.log_file : NULL, level);
    if (log == NULL) {
        fprintf(stderr, "morsel-meta: cannot open the log file %s: %s\n", p->settings.log_file,
                strerror(errno));
        free(p);
        return 1;
    }
    code = program_run(p, log);
    log_close(log);
    free(p);
    return code;
}
