/* Calls that must not take effect twice: their numbers, over connections that break and servers
 * that are started again. */
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/rpc/rpc_uv.h"
#include "data.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = DATA_OPS_PENDING_MAX + 8, CALL_MS = 20000, BRIEF_MS = 1000 };

struct seen
{
    op_sequence number, ended;
    bool again;
};

struct fixture
{
    uv_loop_t loop;
    struct rpc *server_rpc, *client_rpc;
    struct rpc_server *server;
    struct rpc_peer *peer;
    char address[64];
    uint64_t until_ns, term;
    bool hold;
    struct rpc_request *held[MANY];
    unsigned held_count;
    struct seen seen[2 * MANY];
    unsigned handled, ended, closed;
    int status;
    uv_timer_t tick; /* A call may end right before the loop waits for the next event. */
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static struct rpc *rpc_make(struct fixture *f, enum rpc_role role)
{
    struct rpc_options options = {
        .role = role, .node_id = 7, .payload_idle_bytes_max = 1 << 20, .program = "test"
    };
    struct rpc *rpc;

    options.cluster_id.bytes[0] = 1;
    assert_int_equal(rpc_new(&f->loop, &options, &rpc), 0);
    return rpc;
}

static void handle(void *data, struct rpc_request *request)
{
    struct fixture *f = data;
    Morsel__TruncateRequest *m = rpc_request_unpack(request, &morsel__truncate_request__descriptor);

    assert_non_null(m);
    assert_int_equal(m->size, 42); /* What stood before is not touched. */
    f->seen[f->handled++] = (struct seen){ m->number, m->ended, m->again };
    morsel__truncate_request__free_unpacked(m, NULL);
    if (f->hold) {
        f->held[f->held_count++] = request;
    } else {
        rpc_reply(request, NULL, NULL);
    }
}

static void listen_at(struct fixture *f, const char *address)
{
    struct rpc_server_hooks hooks = { .handle = handle, .data = f };
    struct errmsg err = { "" };

    f->server_rpc = rpc_make(f, ROLE_IOD);
    if (rpc_listen(f->server_rpc, address, &hooks, &f->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
    (void)snprintf(f->address, sizeof(f->address), "%s", rpc_server_address(f->server));
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    (void)uv_timer_init(&f->loop, &f->tick);
    (void)uv_timer_start(&f->tick, on_tick, 5, 5);
    listen_at(f, "127.0.0.1:0");
    f->client_rpc = rpc_make(f, ROLE_CLIENT);
    f->until_ns = rpc_boot_ns() + 3600000000000U;
    f->term = 1;
    rpc_set_lease(f->client_rpc, &f->until_ns, &f->term);
    assert_int_equal(rpc_peer_new(f->client_rpc, f->address, &f->peer, NULL), 0);
    *state = f;
    return 0;
}

static void on_closed(void *data)
{
    ++*(unsigned *)data;
}

static void run_until(struct fixture *f, const unsigned *counter, unsigned value)
{
    while (*counter < value) {
        if (uv_run(&f->loop, UV_RUN_ONCE) == 0 && *counter < value) {
            fail_msg("the loop has nothing left to wait for");
        }
    }
}

static void answer_all(struct fixture *f)
{
    for (unsigned i = 0; i < f->held_count; i++) {
        rpc_reply(f->held[i], NULL, NULL);
    }
    f->held_count = 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    unsigned closed = 0;

    answer_all(f);
    rpc_close(f->client_rpc, on_closed, &closed);
    rpc_close(f->server_rpc, on_closed, &closed);
    run_until(f, &closed, 2);
    uv_close((uv_handle_t *)&f->tick, NULL);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static void on_done(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fixture *f = call->data;

    (void)reply;
    f->ended++;
    f->status = status;
}

static void start(struct fixture *f, struct rpc_call *call, uint64_t timeout_ms)
{
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;

    request.size = 42;
    call->data = f;
    call->bounded = call->once = true;
    assert_int_equal(
        rpc_call_start(call, f->peer, MSG_TRUNCATE, &request.base, NULL, 0, timeout_ms, on_done),
        0);
}

/* The server ends with what it was asked unanswered, and another run listens at its place. */
static void restart_server(struct fixture *f)
{
    char address[64];

    (void)snprintf(address, sizeof(address), "%s", f->address);
    f->closed = 0;
    rpc_close(f->server_rpc, on_closed, &f->closed);
    answer_all(f); /* To nobody. */
    run_until(f, &f->closed, 1);
    listen_at(f, address);
}

static void numbers_grow_and_say_what_has_ended(void **state)
{
    struct fixture *f = *state;
    struct rpc_call calls[3] = { 0 };

    for (unsigned i = 0; i < 3; i++) {
        start(f, &calls[i], CALL_MS);
        run_until(f, &f->ended, i + 1);
        assert_int_equal(f->status, 0);
        assert_int_equal(f->seen[i].number, i + 1);
        assert_int_equal(f->seen[i].ended, i);
        assert_false(f->seen[i].again);
    }
}

static void another_connection_gets_the_same_number(void **state)
{
    struct fixture *f = *state;
    struct rpc_call shared = { 0 }, alone = { .exclusive = true };

    f->hold = true;
    start(f, &shared, CALL_MS);
    start(f, &alone, CALL_MS);
    run_until(f, &f->handled, 2);
    f->hold = false;
    rpc_disconnect(f->server, ROLE_CLIENT, 7, "the link breaks");
    answer_all(f); /* To nobody. */
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->handled, 4);
    for (unsigned i = 0; i < 2; i++) {
        assert_false(f->seen[i].again);
        assert_int_equal(f->seen[2 + i].number, f->seen[i].number);
        assert_int_equal(f->seen[2 + i].ended, 0);
        assert_int_equal(f->seen[2 + i].again, i == 0);
    }
}

static void another_run_of_the_server_is_not_asked(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 }, next = { 0 };

    f->hold = true;
    start(f, &call, CALL_MS);
    run_until(f, &f->handled, 1);
    f->hold = false;
    restart_server(f);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNSURE);
    assert_int_equal(f->handled, 1);
    start(f, &next, CALL_MS);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_false(f->seen[1].again);
}

static void who_is_alone_asks_another_run(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .exclusive = true };

    f->hold = true;
    start(f, &call, CALL_MS);
    run_until(f, &f->handled, 1);
    f->hold = false;
    restart_server(f);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->handled, 2);
    assert_false(f->seen[1].again);
}

/* What never went out can wait for any run. */
static void what_was_not_sent_is_sent(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };
    char address[64];

    (void)snprintf(address, sizeof(address), "%s", f->address);
    rpc_close(f->server_rpc, on_closed, &f->closed);
    run_until(f, &f->closed, 1);
    start(f, &call, CALL_MS);
    for (unsigned i = 0; i < 3; i++) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
    listen_at(f, address);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_false(f->seen[0].again);
}

/* Under another lease epoch the right to it is gone, and it may have been carried out. */
static void a_change_of_lease_period_leaves_it_open(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .exclusive = true };

    f->hold = true;
    start(f, &call, CALL_MS);
    run_until(f, &f->handled, 1);
    f->term = 2;
    rpc_disconnect(f->server, ROLE_CLIENT, 7, "the link breaks");
    answer_all(f);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNSURE);
    assert_int_equal(f->handled, 1);
}

static void too_many_wait_for_a_number(void **state)
{
    struct fixture *f = *state;
    struct rpc_call *calls = calloc(MANY, sizeof(*calls));

    assert_non_null(calls);
    f->hold = true;
    for (unsigned i = 0; i < MANY; i++) {
        start(f, &calls[i], CALL_MS);
    }
    run_until(f, &f->handled, DATA_OPS_PENDING_MAX);
    assert_int_equal(f->ended, 0);
    rpc_reply(f->held[5], NULL, NULL); /* One place: number 6's. */
    f->held[5] = f->held[--f->held_count];
    run_until(f, &f->handled, DATA_OPS_PENDING_MAX + 1);
    assert_int_equal(f->seen[DATA_OPS_PENDING_MAX].number, DATA_OPS_PENDING_MAX + 6);
    f->hold = false;
    answer_all(f);
    run_until(f, &f->ended, MANY);
    assert_int_equal(f->handled, MANY);
    free(calls);
}

/* None of them is ever answered: those that wait go when the others have been given up. */
static void those_that_wait_go_after_a_time_out(void **state)
{
    struct fixture *f = *state;
    struct rpc_call *calls = calloc(MANY, sizeof(*calls));

    assert_non_null(calls);
    f->hold = true;
    for (unsigned i = 0; i < MANY; i++) {
        start(f, &calls[i], i < DATA_OPS_PENDING_MAX ? BRIEF_MS : CALL_MS);
    }
    run_until(f, &f->handled, MANY);
    assert_int_equal(f->ended, DATA_OPS_PENDING_MAX);
    assert_int_equal(f->status, MORSEL_TIMEDOUT);
    assert_int_equal(f->seen[MANY - 1].ended, DATA_OPS_PENDING_MAX);
    answer_all(f);
    run_until(f, &f->ended, MANY);
    free(calls);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(numbers_grow_and_say_what_has_ended),
        TEST(another_connection_gets_the_same_number),
        TEST(another_run_of_the_server_is_not_asked),
        TEST(who_is_alone_asks_another_run),
        TEST(what_was_not_sent_is_sent),
        TEST(a_change_of_lease_period_leaves_it_open),
        TEST(too_many_wait_for_a_number),
        TEST(those_that_wait_go_after_a_time_out),
    };

    return cmocka_run_group_tests_name("rpc_once", tests, NULL, NULL);
}
