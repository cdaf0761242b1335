/* What a server holds for all its connections together stays bounded, at each iteration of its loop. */
#include "common/base/limits.h"
#include "common/rpc/rpc_uv.h"
#include "lib/wire.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    PEERS = 2 * (SERVER_QUEUES_BYTES_MAX / FRAME_PAYLOAD_BYTES_MAX),
    FIRST_BYTES = 50 << 10 /* Less than what makes a connection stop by itself. */
};

struct fixture
{
    uv_loop_t loop;
    struct rpc *rpc;
    struct rpc_server *server;
    uv_check_t check;
    uv_poll_t poll;
    size_t most;
    bool all_have_come;
};

/* In a process of its own: each greets the server and begins a WRITE, of which it never says the
 * end. */
static _Noreturn void begin_large_ones(uint16_t port, int done_fd)
{
    static const uint8_t bytes[FIRST_BYTES];
    uint8_t head[FRAME_HEADER_BYTES];
    struct frame_header header = { .version = FRAME_VERSION,
                                   .type = MSG_WRITE,
                                   .request_id = 2,
                                   .payload_length = FRAME_PAYLOAD_BYTES_MAX };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    frame_encode(&header, head);
    for (uint64_t i = 1; i <= PEERS; i++) {
        int fd = wire_connect(port);

        if (fd < 0 || !wire_greet(fd, WIRE_CLIENT, i) ||
            write(fd, head, sizeof(head)) != sizeof(head) ||
            write(fd, bytes, sizeof(bytes)) != sizeof(bytes)) {
            _exit(1);
        }
    }
    _exit(write(done_fd, "x", 1) == 1 && pause() != 0 ? 0 : 1);
}

static void handle(void *data, struct rpc_request *request)
{
    (void)data;
    (void)request;
    fail_msg("a request came in whole");
}

static void on_check(uv_check_t *check)
{
    struct fixture *f = check->data;
    struct rpc_server_statistics now;

    rpc_server_statistics(f->server, &now);
    f->most = now.queued_bytes > f->most ? now.queued_bytes : f->most;
}

static void on_come(uv_poll_t *poll, int status, int events)
{
    struct fixture *f = poll->data;

    (void)events;
    assert_int_equal(status, 0);
    f->all_have_come = true;
    uv_close((uv_handle_t *)poll, NULL);
}

static void listen_for(struct fixture *f, int done_fd)
{
    static const struct rpc_server_hooks hooks = { .handle = handle };
    struct errmsg err = { "" };

    if (rpc_listen(f->rpc, "127.0.0.1:0", &hooks, &f->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uv_check_init(&f->loop, &f->check), 0);
    assert_int_equal(uv_poll_init(&f->loop, &f->poll, done_fd), 0);
    f->check.data = f->poll.data = f;
    assert_int_equal(uv_check_start(&f->check, on_check), 0);
    assert_int_equal(uv_poll_start(&f->poll, UV_READABLE, on_come), 0);
}

static void frames_that_begin_do_not_fill_the_server(void **state)
{
    static const struct rpc_options options = { .role = ROLE_IOD, .node_id = 1, .program = "test" };
    struct fixture f = { .most = 0 };
    int done[2], status;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(done), 0);
    assert_int_equal(uv_loop_init(&f.loop), 0);
    assert_int_equal(rpc_new(&f.loop, &options, &f.rpc), 0);
    listen_for(&f, done[0]);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin_large_ones((uint16_t)atoi(strrchr(rpc_server_address(f.server), ':') + 1), done[1]);
    }
    while (!f.all_have_come) {
        assert_int_not_equal(uv_run(&f.loop, UV_RUN_ONCE), 0);
        assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* It lives. */
    }
    assert_true(f.most > SERVER_QUEUES_BYTES_MAX / 2); /* It was full. */
    assert_true(f.most <= SERVER_QUEUES_BYTES_MAX);
    assert_true(rpc_statistics(f.rpc)->connections_shed >= PEERS / 2 - 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    uv_close((uv_handle_t *)&f.check, NULL);
    rpc_close(f.rpc, NULL, NULL);
    assert_int_equal(uv_run(&f.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        frames_that_begin_do_not_fill_the_server) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
