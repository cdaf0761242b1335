/* Calls whose caller can ask another server: they end as soon as theirs is known to be away, beside
 * others that wait for it. Who is told that nobody listens; requests that are packed already. */
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/rpc/rpc_internal_uv.h"
#include "common/rpc/rpc_uv.h"
#include "data.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_MS = 60000, CALLS_MAX = 8, PAYLOAD_BYTES = 4096 };

struct fixture
{
    uv_loop_t loop;
    uv_prepare_t late; /* Runs behind that of the clients of rpc. */
    struct rpc *server_rpc, *client_rpc;
    struct rpc_server *server;
    struct rpc_peer *peer;
    char address[64];
    uint64_t until_ns, term;
    bool hold;
    struct rpc_request *held[CALLS_MAX];
    unsigned held_count;
    uint64_t seen[CALLS_MAX]; /* Sizes in the requests, in order. */
    unsigned handled, ended, closed, up, down, refused, refused_before_down;
    int status;
    bool backing_off;                  /* The peer was, when a call ended. */
    struct rpc_call *next, *next_late; /* Started when one has ended: at once, by `late`. */
};

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
    assert_true(f->handled < CALLS_MAX);
    f->seen[f->handled++] = m->size;
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

/* It answers what it holds, to nobody. */
static void server_goes_away(struct fixture *f)
{
    unsigned closed = f->closed;

    rpc_close(f->server_rpc, on_closed, &f->closed);
    f->server_rpc = NULL;
    while (f->held_count > 0) {
        rpc_reply(f->held[--f->held_count], NULL, NULL);
    }
    f->hold = false;
    run_until(f, &f->closed, closed + 1);
}

static void server_comes_back(struct fixture *f)
{
    char address[64];

    (void)snprintf(address, sizeof(address), "%s", f->address);
    listen_at(f, address);
}

static void on_done(struct rpc_call *call, int status, struct rpc_reply *reply);

static void start(struct fixture *f, struct rpc_call *call, uint64_t size)
{
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;

    request.size = size;
    call->data = f;
    assert_int_equal(
        rpc_call_start(call, f->peer, MSG_TRUNCATE, &request.base, NULL, 0, CALL_MS, on_done), 0);
}

/* It is not told before this returns. */
static void start_next(struct fixture *f, struct rpc_call **next)
{
    struct rpc_call *call = *next;
    unsigned ended = f->ended;

    *next = NULL;
    if (call != NULL) {
        start(f, call, 1);
        assert_int_equal(f->ended, ended);
    }
}

static void on_done(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fixture *f = call->data;

    (void)reply;
    f->ended++;
    f->status = status;
    f->backing_off = f->peer != NULL && f->peer->state == PEER_BACKOFF;
    if (f->next_late == NULL) {
        uv_stop(&f->loop); /* It may be about to wait. */
    }
    start_next(f, &f->next);
}

static void on_late(uv_prepare_t *prepare)
{
    struct fixture *f = prepare->data;

    if (f->ended > 0) {
        start_next(f, &f->next_late);
    }
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    /* Those that were started last run first. */
    (void)uv_prepare_init(&f->loop, &f->late);
    f->late.data = f;
    (void)uv_prepare_start(&f->late, on_late);
    listen_at(f, "127.0.0.1:0");
    f->client_rpc = rpc_make(f, ROLE_CLIENT);
    f->until_ns = rpc_boot_ns() + 3600000000000U;
    f->term = 1;
    rpc_set_lease(f->client_rpc, &f->until_ns, &f->term);
    assert_int_equal(rpc_peer_new(f->client_rpc, f->address, &f->peer, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->server_rpc != NULL) {
        server_goes_away(f);
    }
    rpc_close(f->client_rpc, NULL, NULL);
    uv_close((uv_handle_t *)&f->late, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

/* ---- Ends ---- */

static void on_refused(void *data)
{
    ((struct fixture *)data)->refused++;
}

static void it_ends_when_nobody_listens(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true }, patient = { 0 };

    server_goes_away(f);
    start(f, &patient, 1);
    start(f, &call, 2);
    assert_int_equal(f->ended, 0);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_false(rpc_call_active(&call));
    assert_true(rpc_call_active(&patient));
    server_comes_back(f);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    start(f, &call, 3);
    run_until(f, &f->ended, 3);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->handled, 2);
    assert_int_equal(f->seen[0], 1); /* What was given up is not sent. */
    assert_int_equal(f->seen[1], 3);
}

/* While the peer waits before it tries again, too. */
static void it_does_not_wait_for_the_next_try(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true }, next = { .impatient = true };

    rpc_peer_watch(f->peer, NULL, NULL, f);
    rpc_peer_on_refused(f->peer, on_refused);
    server_goes_away(f);
    f->next = &next;
    start(f, &call, 1);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_int_equal(f->refused, 1);
}

/* Who asks around meanwhile finds a server that has come back soon. */
static void the_next_try_comes_sooner_for_it(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true }, patient = { 0 };

    rpc_peer_watch(f->peer, NULL, NULL, f);
    rpc_peer_on_refused(f->peer, on_refused);
    server_goes_away(f);
    start(f, &patient, 1);
    run_until(f, &f->refused, 6);
    assert_true(uv_timer_get_due_in(&f->peer->timer) > 300);
    server_comes_back(f);
    start(f, &call, 2);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_true(uv_timer_get_due_in(&f->peer->timer) <= 50);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->refused, 6);
}

/* Nor does one that is started when the loop is about to wait, behind all that looks for calls that
 * have ended. */
static void it_ends_before_the_loop_waits(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true }, next = { .impatient = true };

    server_goes_away(f);
    f->next_late = &next;
    start(f, &call, 1);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_true(f->backing_off);
}

/* Each kind waits in a list of its own. */
static void those_with_bytes_end_too(void **state)
{
    struct fixture *f = *state;
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;
    struct rpc_call sends = { .impatient = true, .data = f };
    struct rpc_call fetches = { .impatient = true, .fetches = PAYLOAD_BYTES, .data = f };
    struct rpc_call change = { .impatient = true, .bounded = true, .once = true, .data = f };
    struct payload *payload = payload_new(rpc_payloads(f->client_rpc), PAYLOAD_BYTES);
    struct rpc_piece piece = { payload, 0, PAYLOAD_BYTES };

    memset(payload->data, 'x', PAYLOAD_BYTES);
    server_goes_away(f);
    assert_int_equal(
        rpc_call_start(&sends, f->peer, MSG_TRUNCATE, &request.base, &piece, 1, CALL_MS, on_done),
        0);
    payload_drop(payload);
    assert_int_equal(
        rpc_call_start(&fetches, f->peer, MSG_TRUNCATE, &request.base, NULL, 0, CALL_MS, on_done),
        0);
    assert_int_equal(
        rpc_call_start(&change, f->peer, MSG_TRUNCATE, &request.base, NULL, 0, CALL_MS, on_done),
        0);
    run_until(f, &f->ended, 3);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_true(rpc_peer_has_room(f->peer));
    assert_int_equal(f->peer->waiting_bytes, 0);
}

static void it_ends_with_its_connection(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true, .bounded = true }, patient = { 0 };

    f->hold = true;
    start(f, &patient, 1);
    start(f, &call, 2);
    run_until(f, &f->handled, 2);
    server_goes_away(f);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_true(rpc_call_active(&patient));
    server_comes_back(f);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->handled, 3);
    assert_int_equal(f->seen[2], 1);
}

/* Others wait for its next life. */
static void it_is_told_that_the_server_ends(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true }, patient = { 0 };

    f->hold = true;
    start(f, &patient, 1);
    start(f, &call, 2);
    run_until(f, &f->handled, 2);
    rpc_reply_failure(f->held[0], MORSEL_SHUTDOWN, NULL);
    rpc_reply_failure(f->held[1], MORSEL_SHUTDOWN, NULL);
    f->held_count = 0;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_SHUTDOWN);
    assert_false(rpc_call_active(&call));
    assert_true(rpc_call_active(&patient));
    server_goes_away(f);
    server_comes_back(f);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
}

/* ---- Who is told ---- */

static void on_up(void *data)
{
    ((struct fixture *)data)->up++;
}

static void on_down(void *data, const char *why)
{
    struct fixture *f = data;

    assert_true(why[0] != 0);
    f->down++;
    f->refused_before_down = f->refused;
}

/* A connection that breaks does not say it; each try to make another does. */
static void refused_connections_are_told(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    rpc_peer_watch(f->peer, on_up, on_down, f);
    rpc_peer_on_refused(f->peer, on_refused);
    start(f, &call, 1);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->up, 1);
    server_goes_away(f);
    run_until(f, &f->down, 1);
    assert_int_equal(f->refused_before_down, 0);
    run_until(f, &f->refused, 2);
    assert_int_equal(f->down, 1);
    server_comes_back(f);
    run_until(f, &f->up, 2);
}

static void on_refused_close(void *data)
{
    struct fixture *f = data;

    f->refused++;
    rpc_peer_close(f->peer);
    f->peer = NULL;
}

static void who_is_told_may_close_the_peer(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    rpc_peer_watch(f->peer, NULL, NULL, f);
    rpc_peer_on_refused(f->peer, on_refused_close);
    server_goes_away(f);
    start(f, &call, 1);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_CANCELED);
    assert_int_equal(f->refused, 1);
}

/* ---- Packed requests ---- */

static void start_packed(struct fixture *f, struct rpc_call *call, struct slice body, int status)
{
    call->data = f;
    assert_int_equal(
        rpc_call_start_packed(call, f->peer, MSG_TRUNCATE, body, NULL, 0, CALL_MS, on_done),
        status);
}

static void packed_requests_go_as_they_are(void **state)
{
    static uint8_t large[FRAME_BODY_BYTES_MAX + 1];
    struct fixture *f = *state;
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;
    struct rpc_call call = { 0 };
    uint8_t bytes[64];
    size_t count;

    request.size = 42;
    count = protobuf_c_message_pack(&request.base, bytes);
    start_packed(f, &call, (struct slice){ bytes, count }, 0);
    memset(bytes, 0xff, sizeof(bytes)); /* They are the caller's again. */
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    start_packed(f, &call, (struct slice){ bytes, 0 }, 0);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    start_packed(f, &call, (struct slice){ large, sizeof(large) }, MORSEL_TOO_LARGE);
    assert_false(rpc_call_active(&call));
    assert_int_equal(f->handled, 2);
    assert_int_equal(f->seen[0], 42);
    assert_int_equal(f->seen[1], 0);
    rpc_peer_close(f->peer);
    start_packed(f, &call, (struct slice){ bytes, 0 }, MORSEL_SHUTDOWN);
}

static void packed_requests_are_bounded_like_others(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .impatient = true, .bounded = true };

    start_packed(f, &call, (struct slice){ (const uint8_t *)"", 0 }, 0); /* Not connected yet. */
    f->term++;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_TOO_LATE);
    assert_int_equal(f->handled, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(it_ends_when_nobody_listens),
        TEST(it_does_not_wait_for_the_next_try),
        TEST(it_ends_before_the_loop_waits),
        TEST(those_with_bytes_end_too),
        TEST(it_ends_with_its_connection),
        TEST(it_is_told_that_the_server_ends),
        TEST(refused_connections_are_told),
        TEST(who_is_told_may_close_the_peer),
        TEST(the_next_try_comes_sooner_for_it),
        TEST(packed_requests_go_as_they_are),
        TEST(packed_requests_are_bounded_like_others),
    };

    return cmocka_run_group_tests_name("rpc_impatient", tests, NULL, NULL);
}
