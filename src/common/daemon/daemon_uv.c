/* Signals, systemd's notifications, scheduling, and the end in order. */
#include "common/daemon/daemon_uv.h"

#include "common/base/limits.h"
#include "common/rpc/rpc_uv.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { SLICE_NS = 100000 }; /* The shortest that the kernel gives. */

/* sched_setattr(2); the C library has no declaration of it. */
struct scheduling
{
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* Of SCHED_OTHER: the slice. */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct daemon_uv *d = handle->data;

    if (d->stopping) {
        if (d->hurry != NULL) {
            d->hurry(d->data);
        }
        return; /* Shutdown is on its way; kill -9 is for the impatient. */
    }
    d->stopping = true;
    log_info(d->log, "stopping (%s)", number == SIGTERM ? "SIGTERM" : "SIGINT");
    (void)sd_notify(0, "STOPPING=1");
    d->stop(d->data);
}

static void on_statistics_signal(uv_signal_t *handle, int number)
{
    struct daemon_uv *d = handle->data;

    (void)number;
    if (d->statistics != NULL) {
        d->statistics(d->data);
    }
}

/* Each request wakes us for some microseconds of work. With a slice as short as that we have our
 * turn soon on a machine whose processors are busy, and no more of them than before (EEVDF; since
 * Linux 6.12, older ones take no notice). Threads that are made from here on inherit it. */
static void ask_for_short_slices(void)
{
    struct scheduling s = { .size = sizeof(s) };

    if (syscall(SYS_sched_getattr, 0, &s, sizeof(s), 0) != 0 || s.policy != SCHED_OTHER) {
        return; /* Whoever chose another class knows why. */
    }
    s.flags = 0;
    s.runtime_ns = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &s, 0); /* Where it is forbidden it goes without. */
}

int daemon_start(struct daemon_uv *d, uv_loop_t *loop)
{
    int rv;

    d->loop = loop;
    d->stopping = false;
    ask_for_short_slices();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)uv_signal_init(loop, &d->term);
    (void)uv_signal_init(loop, &d->interrupt);
    (void)uv_signal_init(loop, &d->usr1);
    d->term.data = d;
    d->interrupt.data = d;
    d->usr1.data = d;
    if ((rv = uv_signal_start(&d->term, on_stop_signal, SIGTERM)) != 0 ||
        (rv = uv_signal_start(&d->interrupt, on_stop_signal, SIGINT)) != 0 ||
        (rv = uv_signal_start(&d->usr1, on_statistics_signal, SIGUSR1)) != 0) {
        daemon_finish(d);
    }
    return rv;
}

/* Whoever started us holds the other end of a pipe; a full or broken one is his business. */
static void tell_starter(const struct daemon_uv *d, const char *address)
{
    const char *text = getenv("MORSEL_READY_FD");
    char *end;
    long fd;

    if (text == NULL) {
        return;
    }
    errno = 0;
    fd = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || fd <= STDERR_FILENO || fd > 65535) {
        log_warning(d->log, "MORSEL_READY_FD=\"%s\" is not a descriptor above 2; ignored", text);
        return;
    }
    if (write((int)fd, address, strlen(address)) < 0 || write((int)fd, "\n", 1) < 0) {
        log_warning(d->log, "cannot write to MORSEL_READY_FD=%ld: %s", fd, strerror(errno));
    }
    (void)close((int)fd);
    (void)unsetenv("MORSEL_READY_FD");
}

void daemon_ready(struct daemon_uv *d, const char *address)
{
    (void)sd_notifyf(0, "READY=1\nSTATUS=serving on %s", address);
    tell_starter(d, address);
}

static void close_once(uv_signal_t *handle)
{
    if (!uv_is_closing((uv_handle_t *)handle)) {
        uv_close((uv_handle_t *)handle, NULL);
    }
}

void daemon_finish(struct daemon_uv *d)
{
    close_once(&d->term);
    close_once(&d->interrupt);
    close_once(&d->usr1);
}

uint64_t daemon_descriptors(uint64_t needed)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return needed;
    }
    if (limit.rlim_cur < needed) {
        struct rlimit wanted = { needed, limit.rlim_max < needed ? needed : limit.rlim_max };

        if (setrlimit(RLIMIT_NOFILE, &wanted) != 0) { /* Only root goes beyond the hard limit. */
            wanted = (struct rlimit){ limit.rlim_max < needed ? limit.rlim_max : needed,
                                      limit.rlim_max };
            (void)setrlimit(RLIMIT_NOFILE, &wanted);
        }
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur;
}

void daemon_limit_connections(struct log *log, struct rpc_server *server, uint64_t others)
{
    uint64_t may = daemon_descriptors(others + SERVER_CONNS_MAX);
    uint64_t room = may > others ? may - others : 0;

    if (room < SERVER_CONNS_MIN) {
        room = SERVER_CONNS_MIN;
    }
    if (room < SERVER_CONNS_MAX) {
        log_write(log, room < SERVER_CONNS_FEW ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
                  "this process may open only %llu files: there is room for %llu connections, "
                  "a large cluster needs %d; raise the limit of open files (ulimit -n, "
                  "LimitNOFILE)",
                  (unsigned long long)may, (unsigned long long)room, SERVER_CONNS_MAX);
    }
    rpc_server_set_conns_max(server, room < SERVER_CONNS_MAX ? (uint32_t)room : SERVER_CONNS_MAX);
}
