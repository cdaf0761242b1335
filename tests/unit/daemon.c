/* How a daemon runs: readiness through a descriptor, signals, one orderly stop, and what it says of
 * the files that it may open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/errmsg.h"
#include "common/base/limits.h"
#include "common/daemon/daemon_uv.h"
#include "common/daemon/log.h"
#include "common/rpc/rpc_uv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct fixture
{
    uv_loop_t loop;
    struct daemon_uv daemon;
    unsigned stops;
    unsigned statistics;
};

static void on_stop(void *data)
{
    struct fixture *f = data;

    f->stops++;
}

static void on_statistics(void *data)
{
    struct fixture *f = data;

    f->statistics++;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    f->daemon.stop = on_stop;
    f->daemon.statistics = on_statistics;
    f->daemon.data = f;
    assert_int_equal(daemon_start(&f->daemon, &f->loop), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    daemon_finish(&f->daemon);
    daemon_finish(&f->daemon); /* Harmless. */
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static void raise_and_run(struct fixture *f, int number)
{
    assert_int_equal(kill(getpid(), number), 0);
    assert_int_not_equal(uv_run(&f->loop, UV_RUN_ONCE), 0);
}

static void the_first_stop_signal_counts(void **state)
{
    struct fixture *f = *state;

    raise_and_run(f, SIGINT);
    assert_int_equal(f->stops, 1);
    assert_true(f->daemon.stopping);
    raise_and_run(f, SIGTERM);
    raise_and_run(f, SIGINT);
    assert_int_equal(f->stops, 1);
}

static void usr1_asks_for_statistics(void **state)
{
    struct fixture *f = *state;

    raise_and_run(f, SIGUSR1);
    assert_int_equal(f->statistics, 1);
    f->daemon.statistics = NULL;
    raise_and_run(f, SIGUSR1);
    assert_int_equal(f->statistics, 1);
    assert_int_equal(f->stops, 0);
}

static void a_broken_pipe_is_an_error_not_the_end(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(write(fds[1], "x", 1), -1);
    assert_int_equal(close(fds[1]), 0);
}

static void the_starter_reads_the_address(void **state)
{
    struct fixture *f = *state;
    char number[16];
    char line[64] = "";
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)snprintf(number, sizeof(number), "%d", fds[1]);
    assert_int_equal(setenv("MORSEL_READY_FD", number, 1), 0);
    daemon_ready(&f->daemon, "127.0.0.1:7460");
    assert_null(getenv("MORSEL_READY_FD"));
    assert_int_equal(read(fds[0], line, sizeof(line)), 15);
    assert_string_equal(line, "127.0.0.1:7460\n");
    assert_int_equal(read(fds[0], line, sizeof(line)), 0); /* Closed. */
    assert_int_equal(close(fds[0]), 0);
}

static void nonsense_in_the_environment_is_ignored(void **state)
{
    static const char *const bad[] = { "", "x", "1", "2", "-1", "3x", "99999999999999999999" };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(setenv("MORSEL_READY_FD", bad[i], 1), 0);
        daemon_ready(&f->daemon, "a");
        assert_true(fcntl(STDOUT_FILENO, F_GETFD) >= 0);
        assert_true(fcntl(STDERR_FILENO, F_GETFD) >= 0);
    }
    assert_int_equal(unsetenv("MORSEL_READY_FD"), 0);
}

static void no_request(void *data, struct rpc_request *request)
{
    (void)data;
    (void)request;
    fail();
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

enum { OTHER_FILES = 100 };

/* How many files the system lets this process open, who may not change that; 0: what the real one
 * says. */
static rlim_t files_max;

int __real_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    if (files_max == 0 || resource != RLIMIT_NOFILE) {
        return __real_getrlimit(resource, limit);
    }
    *limit = (struct rlimit){ files_max, files_max };
    return 0;
}

int __real_setrlimit(int resource, const struct rlimit *limit);
int __wrap_setrlimit(int resource, const struct rlimit *limit);
int __wrap_setrlimit(int resource, const struct rlimit *limit)
{
    if (files_max == 0 || resource != RLIMIT_NOFILE) {
        return __real_setrlimit(resource, limit);
    }
    errno = EPERM;
    return limit->rlim_max <= files_max ? 0 : -1;
}

/* A warning where there is room for few, a word where there is room for many, nothing where there
 * is room for all. */
static void few_files_are_worth_a_warning(void **state)
{
    static const struct
    {
        rlim_t files;
        const char *says; /* NULL: nothing. */
    } cases[] = {
        { 256, " warning: this process may open only 256 files: there is room for 156 " },
        { OTHER_FILES + SERVER_CONNS_FEW - 1, " warning: this process may open only 4195 " },
        { OTHER_FILES + SERVER_CONNS_FEW, " info: this process may open only 4196 " },
        { OTHER_FILES + SERVER_CONNS_MAX - 1, " info: this process may open only 32867 " },
        { OTHER_FILES + SERVER_CONNS_MAX, NULL },
    };
    struct rpc_options options = { .role = ROLE_IOD, .node_id = 7, .program = "test" };
    struct rpc_server_hooks hooks = { .handle = no_request };
    struct rpc_server *server;
    struct errmsg err = { "" };
    struct rpc *rpc;
    uv_loop_t loop;
    bool closed = false;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(rpc_new(&loop, &options, &rpc), 0);
    assert_int_equal(rpc_listen(rpc, "127.0.0.1:0", &hooks, &server, &err), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[] = "/tmp/morsel-daemon-XXXXXX", said[512] = "";
        int fd = mkstemp(path);
        struct log *log = log_open("test", path, LOG_LEVEL_INFO);

        assert_true(fd >= 0);
        assert_int_equal(unlink(path), 0);
        assert_non_null(log);
        files_max = cases[i].files;
        daemon_limit_connections(log, server, OTHER_FILES);
        files_max = 0;
        assert_true(read(fd, said, sizeof(said) - 1) >= 0);
        if (cases[i].says == NULL) {
            assert_string_equal(said, "");
        } else if (strstr(said, cases[i].says) == NULL) {
            fail_msg("not '%s' but '%s'", cases[i].says, said);
        }
        log_close(log);
        assert_int_equal(close(fd), 0);
    }
    rpc_close(rpc, on_closed, &closed);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_stop_signal_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(usr1_asks_for_statistics, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_pipe_is_an_error_not_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_starter_reads_the_address, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_in_the_environment_is_ignored, setup, teardown),
        cmocka_unit_test(few_files_are_worth_a_warning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
