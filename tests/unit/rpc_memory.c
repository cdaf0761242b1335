/* What a server holds for all its connections together stays bounded, at each iteration of its loop; and who is
 * read no more because he has too much under way is read again when he has not. */
#include "common/base/crc32c.h"
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
    FIRST_BYTES = 50 << 10, /* Less than what makes a connection stop by itself. */
    LARGE_BYTES = 4 * CONN_SHARE_BYTES_MIN,
    ANSWER_S = 20 /* A net. */
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
    struct rpc_request *held; /* Not answered before the next one has begun to come in. */
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

static void hold_the_first(void *data, struct rpc_request *request)
{
    struct fixture *f = data;

    if (request->type == MSG_SEEK) {
        f->held = request;
    } else {
        rpc_reply(request, NULL, NULL);
    }
}

static void on_check(uv_check_t *check)
{
    struct fixture *f = check->data;
    struct rpc_request *held = f->held;
    struct rpc_server_statistics now;

    rpc_server_statistics(f->server, &now);
    f->most = now.queued_bytes > f->most ? now.queued_bytes : f->most;
    if (held != NULL && now.queued_bytes > LARGE_BYTES) {
        f->held = NULL;
        rpc_reply(held, NULL, NULL);
    }
}

static void on_come(uv_poll_t *poll, int status, int events)
{
    struct fixture *f = poll->data;

    (void)events;
    assert_int_equal(status, 0);
    f->all_have_come = true;
    uv_close((uv_handle_t *)poll, NULL);
}

static void listen_for(struct fixture *f, rpc_handler handler, int done_fd)
{
    static const struct rpc_options options = { .role = ROLE_IOD, .node_id = 1, .program = "test" };
    const struct rpc_server_hooks hooks = { .handle = handler, .data = f };
    struct errmsg err = { "" };

    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(rpc_new(&f->loop, &options, &f->rpc), 0);
    if (rpc_listen(f->rpc, "127.0.0.1:0", &hooks, &f->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uv_check_init(&f->loop, &f->check), 0);
    assert_int_equal(uv_poll_init(&f->loop, &f->poll, done_fd), 0);
    f->check.data = f->poll.data = f;
    assert_int_equal(uv_check_start(&f->check, on_check), 0);
    assert_int_equal(uv_poll_start(&f->poll, UV_READABLE, on_come), 0);
}

static uint16_t port_of(const struct fixture *f)
{
    return (uint16_t)atoi(strrchr(rpc_server_address(f->server), ':') + 1);
}

static void end(struct fixture *f)
{
    uv_close((uv_handle_t *)&f->check, NULL);
    rpc_close(f->rpc, NULL, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

static void frames_that_begin_do_not_fill_the_server(void **state)
{
    struct fixture f = { .most = 0 };
    int done[2], status;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(done), 0);
    listen_for(&f, handle, done[0]);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin_large_ones(port_of(&f), done[1]);
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
    end(&f);
}

/* In a process of its own: a small request, behind it the beginning of a large one, and its rest when the small one
 * has been answered. Is the large one answered, too? */
static _Noreturn void ask_in_pieces(uint16_t port, bool payload)
{
    static const uint8_t bytes[LARGE_BYTES];
    uint8_t head[FRAME_HEADER_BYTES];
    struct frame_header small = { .type = MSG_SEEK, .request_id = 2 };
    struct frame_header large = { .version = FRAME_VERSION, .type = MSG_WRITE, .request_id = 3 };
    struct wire_frame reply = { .body = NULL };
    int fd = wire_connect(port);
    bool answered;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(ANSWER_S);
    *(payload ? &large.payload_length : &large.body_length) = LARGE_BYTES;
    large.body_crc = payload ? 0 : crc32c(0, bytes, LARGE_BYTES);
    frame_encode(&large, head);
    answered = fd >= 0 && wire_greet(fd, WIRE_CLIENT, 1) &&
               wire_send(fd, &small, NULL, 0, NULL, 0) &&
               write(fd, head, sizeof(head)) == sizeof(head) && write(fd, bytes, 1) == 1 &&
               wire_receive(fd, 1000 * ANSWER_S, &reply) == 0 && reply.header.request_id == 2 &&
               write(fd, bytes, LARGE_BYTES - 1) == LARGE_BYTES - 1 &&
               wire_receive(fd, 1000 * ANSWER_S, &reply) == 0 && reply.header.request_id == 3;
    _exit(answered ? 0 : 1);
}

/* The answer to another request finds that the connection holds more than its share, and it is read no more: all
 * that it holds is then the frame of which the end has not been read. */
static void asks_in_pieces(bool payload)
{
    struct fixture f = { .most = 0 };
    int done[2], status;
    pid_t child;

    assert_int_equal(pipe(done), 0);
    listen_for(&f, hold_the_first, done[0]);
    rpc_server_set_client_share(f.server, CONN_SHARE_BYTES_MIN);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ask_in_pieces(port_of(&f), payload);
    }
    (void)close(done[1]); /* Its end is seen at the other one. */
    while (!f.all_have_come) {
        assert_int_not_equal(uv_run(&f.loop, UV_RUN_ONCE), 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_null(f.held);
    (void)close(done[0]);
    end(&f);
}

static void a_payload_that_has_begun_is_read_to_its_end(void **state)
{
    (void)state;
    asks_in_pieces(true);
}

static void a_message_that_has_begun_is_read_to_its_end(void **state)
{
    (void)state;
    asks_in_pieces(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_that_begin_do_not_fill_the_server),
        cmocka_unit_test(a_payload_that_has_begun_is_read_to_its_end),
        cmocka_unit_test(a_message_that_has_begun_is_read_to_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
