/* morsel-mount, mount.fuse.morsel: options, start, orderly end. */
#include "client/data/handles_uv.h"
#include "client/fuse/mount_fuse.h"
#include "client/fuse/mountpoint_proc.h"
#include "client/fuse/options.h"
#include "client/fuse/origin_child_proc.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/daemon/daemon_uv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

enum {
    DRAIN_POLL_MS = 10,
    SPIN_NS = 60000 /* About a round trip on a local network. */
};

struct program
{
    struct mount_settings settings;
    const char *manager;
    char mountpoint[MOUNTPOINT_TEXT_MAX];
    char kernel_options[MOUNT_KERNEL_OPTIONS_MAX];
    uv_loop_t loop;
    struct origin_children origins;
    struct log *log;
    struct client *client;
    struct fuse_session *session;
    struct mount mount;
    struct daemon_uv daemon;
    uv_timer_t drain;
    uint64_t drain_until_ms;
    bool by_mount; /* Called by mount(8). */
    int parent_fd; /* Tells the waiting parent that we serve; -1 in the foreground. */
    bool serving, ending;
    int exit_code;
};

/* ---- The end ---- */

static void on_client_closed(void *data)
{
    struct program *p = data;

    p->client = NULL;
}

static void program_finish(struct program *p)
{
    if (p->serving) {
        mount_stop(&p->mount);
        fuse_session_unmount(p->session);
        daemon_finish(&p->daemon);
        uv_close((uv_handle_t *)&p->drain, NULL);
    }
    client_close(p->client, on_client_closed, p);
}

/* Requests of the kernel and dirty data come to their end before we go. */
static void on_drain(uv_timer_t *timer)
{
    struct program *p = timer->data;
    bool late = uv_now(&p->loop) >= p->drain_until_ms, done;

    if (p->mount.ops_count == 0) {
        files_close_readers(p->client);
    }
    done = p->mount.ops_count == 0 && files_count(p->client) == 0 && behind_is_empty(p->client);

    if (!done && !late) {
        return;
    }
    (void)uv_timer_stop(timer);
    if (!done) {
        log_error(p->log,
                  "%s: %u files, and mode, owner or times of %u, could not be flushed before the "
                  "time limit; what was not synced is lost",
                  p->mountpoint, files_count(p->client), behind_count(p->client));
        fuse_session_unmount(p->session);
        _exit(1);
    }
    program_finish(p);
}

static void begin_drain(struct program *p)
{
    uint64_t limit_ms = p->client->options.io_timeout_ms == RPC_NO_DEADLINE
                            ? 30000
                            : p->client->options.io_timeout_ms;

    limit_ms += client_lease_period_ms(p->client); /* What may still land late is waited for. */
    p->ending = true;
    p->drain_until_ms = uv_now(&p->loop) + limit_ms;
    (void)uv_timer_start(&p->drain, on_drain, 0, DRAIN_POLL_MS);
}

/* umount(8): the kernel has closed every file. */
static void on_unmounted(void *data)
{
    struct program *p = data;

    log_info(p->log, "%s is unmounted", p->mountpoint);
    if (!p->ending) {
        begin_drain(p);
    }
}

static void on_final_flush(struct file_flush *flush, int status)
{
    struct program *p = flush->data;

    if (status != 0) {
        log_error(p->log, "inode %lu: what was written last is lost: %s",
                  (unsigned long)flush->file->inode, status_words(status));
    }
    free(flush);
}

/* SIGTERM while files are open: their data goes out, their handles end with us. */
static void flush_and_leave(struct program *p)
{
    FILES_FOREACH(file, p->client)
    {
        struct file_flush *flush = calloc(1, sizeof(*flush));

        if (flush != NULL) {
            flush->data = p;
            if (file_flush_start(flush, file, NULL, false, on_final_flush) != 0) {
                free(flush);
            }
        }
    }
    begin_drain(p);
}

static void on_handles_left(uv_timer_t *timer)
{
    struct program *p = timer->data;
    bool late = uv_now(&p->loop) >= p->drain_until_ms;
    FILES_FOREACH(file, p->client)
    {
        if (file_is_pinned(file) && !late) {
            return; /* Its flush is still under way. */
        }
    }
    if (!behind_is_empty(p->client) && !late) {
        return;
    }
    fuse_session_unmount(p->session);
    log_info(p->log, "%s: stopped by a signal", p->mountpoint);
    _exit(p->exit_code); /* Open handles of other programs end here; nothing of ours is left to
                            write. */
}

static void on_stop(void *data)
{
    struct program *p = data;

    if (p->ending) {
        return;
    }
    if (umount2(p->mountpoint, 0) == 0) {
        return; /* Nobody had anything open; the session ends by itself: on_unmounted(). */
    }
    flush_and_leave(p);
    (void)uv_timer_start(&p->drain, on_handles_left, 0, DRAIN_POLL_MS);
}

/* ---- Statistics ---- */

static void on_statistics(void *data)
{
    struct program *p = data;
    struct counter_list *list = calloc(1, sizeof(*list));

    if (list != NULL) {
        mount_count(&p->mount, list);
        counters_log(p->log, list);
    }
    free(list);
}

/* ---- The start ---- */

static int session_make(struct program *p, struct errmsg *err)
{
    struct fuse_lowlevel_ops ops;
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    char options[MOUNT_KERNEL_OPTIONS_MAX + CONFIG_STRING_MAX];

    mount_operations(&ops);
    /* mount(8) does not name what is its default, "dev" and "suid"; the defaults of libfuse are the
     * opposite (mount.fuse3 does the same). */
    (void)snprintf(options, sizeof(options),
                   "fsname=%s,subtype=morsel,default_permissions,max_read=%d%s%s%s%s", p->manager,
                   MOUNT_REQUEST_BYTES_MAX, p->settings.allow_other ? ",allow_other" : "",
                   p->settings.read_only ? ",ro" : "",
                   p->by_mount && getuid() == 0 ? ",dev,suid" : "", p->kernel_options);
    if (fuse_opt_add_arg(&args, "morsel-mount") != 0 || fuse_opt_add_arg(&args, "-o") != 0 ||
        fuse_opt_add_arg(&args, options) != 0) {
        fuse_opt_free_args(&args);
        return MORSEL_NOMEM;
    }
    p->session = fuse_session_new(&args, &ops, sizeof(ops), &p->mount);
    fuse_opt_free_args(&args);
    if (p->session == NULL) {
        errmsg_set(err, "cannot start FUSE with the options \"%s\"", options);
        return MORSEL_INVAL;
    }
    if (fuse_session_mount(p->session, p->mountpoint) != 0) {
        errmsg_set(
            err, "cannot mount on %s: %s", p->mountpoint,
            access("/dev/fuse", R_OK | W_OK) != 0
                ? "/dev/fuse is missing or not ours to open; load the module with \"modprobe fuse\""
                : "see the line above; allow_other needs user_allow_other in /etc/fuse.conf");
        return MORSEL_IO;
    }
    p->mount.kernel_version = p->settings.kernel_version;
    if (mount_watch_init(p->session) != 0) {
        errmsg_set(err, "cannot mount on %s: no memory", p->mountpoint);
        return MORSEL_NOMEM;
    }
    return MORSEL_OK;
}

static int serve(struct program *p, struct errmsg *err)
{
    int rv = session_make(p, err);
    int fd;

    if (rv != 0) {
        return rv;
    }
    fd = fuse_session_fd(p->session);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    rv = mount_start(&p->mount, p->client, p->session, on_unmounted, p);
    p->daemon.log = p->log;
    p->daemon.stop = on_stop;
    p->daemon.statistics = on_statistics;
    p->daemon.data = p;
    if (rv == 0) {
        rv = daemon_start(&p->daemon, &p->loop);
    }
    if (rv != 0) {
        errmsg_set(err, "cannot watch /dev/fuse: %s", uv_strerror(rv));
        return MORSEL_IO;
    }
    (void)uv_timer_init(&p->loop, &p->drain);
    p->drain.data = p;
    p->serving = true;
    mountpoint_read_ahead(p->mountpoint, MOUNT_REQUEST_BYTES_MAX);
    return MORSEL_OK;
}

/* The terminal is the user's again; what we have to say goes to the journal, if there is one. */
static void let_go_of_terminal(struct program *p)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int journal = -1;

    if (p->parent_fd < 0) {
        return;
    }
    if (p->settings.log_file[0] == '\0') {
        journal = sd_journal_stream_fd("morsel-mount", LOG_LEVEL_INFO, 1);
    }
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(journal >= 0 ? journal : null, STDERR_FILENO);
    (void)close(null);
    if (journal >= 0) {
        (void)close(journal);
    }
    if (write(p->parent_fd, "r", 1) != 1) {
        log_warning(p->log, "%s: the program that started this mount is gone", p->mountpoint);
    }
    (void)close(p->parent_fd);
    p->parent_fd = -1;
}

static void on_session_ready(void *data, int status, const char *text)
{
    struct program *p = data;
    struct errmsg err = { "" };

    if (status != 0) {
        errmsg_set(&err, "manager %s: %s; is it running, and is this its address?", p->manager,
                   text[0] != '\0' ? text : status_words(status));
    } else {
        status = serve(p, &err);
    }
    if (status != 0) {
        log_error(p->log, "%s", err.text);
        p->exit_code = 1;
        program_finish(p);
        return;
    }
    daemon_ready(&p->daemon, p->mountpoint);
    let_go_of_terminal(p);
    log_info(p->log, "%s is mounted from %s", p->mountpoint, p->manager);
}

/* Become a daemon; the parent stays until the mount serves or has failed, and hands on the exit
 * code. */
static bool go_to_background(struct program *p)
{
    int fds[2], status = 1;
    char byte;
    pid_t child;

    if (pipe2(fds, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        log_error(p->log, "cannot start a process: %s", strerror(errno));
        return false;
    }
    if (child == 0) {
        (void)close(fds[0]);
        p->parent_fd = fds[1];
        (void)setsid();
        return chdir("/") == 0;
    }
    (void)close(fds[1]);
    if (read(fds[0], &byte, 1) == 1) {
        _exit(0);
    }
    (void)waitpid(child, &status, 0);
    _exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1);
}

/* Sleeping and being woken costs more than the manager needs for an answer. So while a single
 * request waits for it, look for the answer for a moment before going to sleep. With more requests
 * under way somebody else has use for the processor. */
static void program_loop(struct program *p)
{
    while (uv_run(&p->loop, UV_RUN_ONCE) != 0) {
        uint64_t until_ns = uv_hrtime() + SPIN_NS;

        while (p->serving && mount_awaits_manager(&p->mount) && uv_hrtime() < until_ns) {
            (void)uv_run(&p->loop, UV_RUN_NOWAIT);
        }
    }
}

static int program_run(struct program *p)
{
    struct client_options options = { .manager = p->manager,
                                      .io_timeout_ms = p->settings.hard ? RPC_NO_DEADLINE
                                                                        : p->settings.io_timeout_ms,
                                      .soft = p->settings.soft,
                                      .write_buffer_bytes = p->settings.write_buffer_bytes,
                                      .read_ahead_bytes = (uint32_t)p->settings.read_ahead_bytes,
                                      .cache = !p->settings.nocache,
                                      .program = "morsel-mount " MORSELFS_VERSION,
                                      .log = p->log };
    struct errmsg err = { "" };
    char threads[16];
    int rv;

    (void)snprintf(threads, sizeof(threads), "%d", MOUNT_POOL_THREADS);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    CHECK(uv_loop_init(&p->loop) == 0);
    origin_children_init(&p->origins, &p->loop);
    options.origins = p->settings.no_origins ? NULL : &p->origins.power;
    rv = client_new(&p->loop, &options, &p->client, on_session_ready, p, &err);
    if (rv != 0) {
        log_error(p->log, "%s", err.text[0] != '\0' ? err.text : status_words(rv));
        p->exit_code = 1;
    }
    program_loop(p);
    if (p->session != NULL) {
        fuse_session_destroy(p->session);
    }
    mount_free(&p->mount);
    (void)uv_loop_close(&p->loop);
    return p->exit_code;
}

static void print_mount_options(void)
{
    (void)printf("\nMount options (-o):\n");
    for (size_t i = 0; i < mount_option_table()->options_count; i++) {
        const struct config_option *o = &mount_option_table()->options[i];
        char name[64];

        if (o->help[0] == '\0') {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%s%s%s", o->name, o->type == CONFIG_BOOL ? "" : "=",
                       o->value_name);
        (void)printf(
            "  %-22s %s%s%s%s\n", name, o->help, o->type == CONFIG_BOOL ? "" : " Default: ",
            o->type == CONFIG_BOOL ? "" : o->default_value, o->type == CONFIG_BOOL ? "" : ".");
    }
}

/* mount -o remount: the program that serves the mount has no part in it. */
static int remount(const struct mount_settings *settings, const char *path)
{
    struct errmsg err = { "" };
    char name[CONFIG_STRING_MAX];

    if (mount_options_fixed(settings, name)) {
        (void)fprintf(stderr,
                      "morsel-mount: %s: \"%s\" stays as it was given when it was mounted; unmount "
                      "and mount again to change it\n",
                      path, name);
    }
    if (mountpoint_remount(path, settings->options, &err) != 0) {
        (void)fprintf(stderr, "morsel-mount: %s\n", err.text);
        return 1;
    }
    return 0;
}

static int usage_error(const struct errmsg *err)
{
    (void)fprintf(stderr, "morsel-mount: %s\n", err->text);
    return 2;
}

/* mount(8) calls us with SOURCE TARGET first and the options behind: the table's parser takes both
 * orders. */
int main(int argc, char **argv)
{
    struct program *p = calloc(1, sizeof(*p));
    const char *operands[2] = { NULL, NULL };
    const char *name = strrchr(argv[0], '/') == NULL ? argv[0] : strrchr(argv[0], '/') + 1;
    bool by_mount = strncmp(name, "mount.", 6) == 0;
    struct errmsg err = { "" };
    enum config_verdict verdict;
    enum log_level level = LOG_LEVEL_INFO;
    size_t count = 0;
    int rv;

    CHECK(p != NULL);
    p->parent_fd = -1;
    config_defaults(mount_option_table(), &p->settings);
    verdict = config_command_line(mount_command_table(), &p->settings, argc, argv, operands, 2,
                                  &count, &err);
    if (verdict != CONFIG_RUN) {
        rv = config_answer(mount_command_table(), verdict, &err);
        if (verdict == CONFIG_HELP) {
            print_mount_options();
        }
        free(p);
        return rv;
    }
    if (count != 2) {
        errmsg_set(
            &err,
            "give the manager's HOST:PORT and the mount point; \"morsel-mount --help\" says more");
    } else if (!log_level_parse(p->settings.log_level, &level)) {
        errmsg_set(&err, "log-level \"%s\" is not one of error, warning, info, debug",
                   p->settings.log_level);
    } else if (mount_options_parse(&p->settings, p->kernel_options, &err) == 0) {
        err.text[0] = '\0';
    }
    if (err.text[0] != '\0') {
        rv = usage_error(&err);
        free(p);
        return rv;
    }
    if (p->settings.remount) {
        rv = remount(&p->settings, operands[1]);
        free(p);
        return rv;
    }
    p->by_mount = by_mount;
    p->manager = operands[0];
    p->log = log_open("morsel-mount", p->settings.log_file[0] == '\0' ? NULL : p->settings.log_file,
                      p->settings.verbose ? LOG_LEVEL_DEBUG : level);
    if (p->log == NULL) {
        (void)fprintf(stderr, "morsel-mount: cannot open the log file %s: %s\n",
                      p->settings.log_file, strerror(errno));
        free(p);
        return 1;
    }
    if (mountpoint_prepare(operands[1], p->mountpoint, p->log, &err) != 0) {
        (void)fprintf(stderr, "morsel-mount: %s\n", err.text);
        rv = 1;
    } else if (by_mount && p->settings.foreground) {
        rv = 0; /* mount -f: everything but the mount itself. */
    } else if (!p->settings.foreground && !go_to_background(p)) {
        rv = 1;
    } else {
        rv = program_run(p);
    }
    log_close(p->log);
    free(p);
    return rv;
}
