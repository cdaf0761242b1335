/* Calls between two rpc instances on one loop: answers, deadlines, cancellation, a server that goes
 * away and comes back, strangers, and broken frames. */
#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/rpc/pace.h"
#include "common/rpc/rpc_internal_uv.h"
#include "common/rpc/rpc_uv.h"
#include "data.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

struct fixture
{
    uv_loop_t loop;
    struct rpc *server_rpc, *client_rpc;
    struct rpc_server *server;
    struct rpc_peer *peer;
    struct rpc_request *held[64]; /* Requests that the server does not answer. */
    unsigned held_count;
    bool hold;
    unsigned handled;
    unsigned ended;
    int status;
    size_t payload_count;
    uint8_t payload_first;
    uint64_t echoed;
    char text[64];
    unsigned gone;
    unsigned pushed, ended_before_push;
    uv_timer_t waiting;
    bool push; /* The server pushes a message behind each answer. */
};

static struct rpc *rpc_make(struct fixture *f, enum rpc_role role, uint8_t cluster)
{
    struct rpc_options options = {
        .role = role, .node_id = 7, .payload_idle_bytes_max = 8 << 20, .program = "test"
    };
    struct rpc *rpc;

    options.cluster_id.bytes[0] = cluster;
    assert_int_equal(rpc_new(&f->loop, &options, &rpc), 0);
    return rpc;
}

static void handle(void *data, struct rpc_request *request)
{
    struct fixture *f = data;
    Morsel__SeekReply reply = MORSEL__SEEK_REPLY__INIT;
    Morsel__SeekRequest *seek;
    struct payload *payload;

    f->handled++;
    if (f->hold) {
        f->held[f->held_count++] = request;
        return;
    }
    if (request->type != MSG_SEEK) {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, "no such thing");
        return;
    }
    seek = rpc_request_unpack(request, &morsel__seek_request__descriptor);
    if (seek == NULL) {
        return;
    }
    reply.offset = seek->offset + 1;
    morsel__seek_request__free_unpacked(seek, NULL);
    payload = request->payload;
    request->payload = NULL;
    rpc_reply(request, &reply.base, payload);
    if (f->push) {
        assert_true(rpc_push(f->server, ROLE_CLIENT, 7, MSG_SEEK, &reply.base));
        assert_false(rpc_push(f->server, ROLE_CLIENT, 8, MSG_SEEK, &reply.base));
    }
}

static void on_gone(void *data, enum rpc_role role, uint64_t node_id)
{
    struct fixture *f = data;

    assert_int_equal(role, ROLE_CLIENT);
    assert_int_equal(node_id, 7);
    f->gone++;
}

static void listen_at(struct fixture *f, const char *address)
{
    struct rpc_server_hooks hooks = { .handle = handle, .gone = on_gone, .data = f };
    struct errmsg err = { "" };

    if (rpc_listen(f->server_rpc, address, &hooks, &f->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    f->server_rpc = rpc_make(f, ROLE_IOD, 1);
    f->client_rpc = rpc_make(f, ROLE_CLIENT, 0);
    listen_at(f, "127.0.0.1:0");
    assert_int_equal(rpc_peer_new(f->client_rpc, rpc_server_address(f->server), &f->peer, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->server_rpc != NULL) {
        rpc_close(f->server_rpc, NULL, NULL);
    }
    for (unsigned i = 0; i < f->held_count; i++) {
        rpc_reply(f->held[i], NULL, NULL);
    }
    rpc_close(f->client_rpc, NULL, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static void on_done(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fixture *f = call->data;
    Morsel__SeekReply *seek;

    f->ended++;
    f->status = status;
    (void)snprintf(f->text, sizeof(f->text), "%s", reply->text);
    f->payload_count = reply->payload == NULL ? 0 : reply->payload->count;
    f->payload_first = reply->payload == NULL ? 0 : reply->payload->data[0];
    if (status == 0 && reply->body_count > 0) {
        seek = rpc_unpack(&morsel__seek_reply__descriptor, reply->body, reply->body_count);
        assert_non_null(seek);
        f->echoed = seek->offset;
        morsel__seek_reply__free_unpacked(seek, NULL);
    }
}

static void call_start(struct fixture *f, struct rpc_call *call, uint64_t value,
                       struct payload *payload, uint64_t timeout_ms)
{
    Morsel__SeekRequest request = MORSEL__SEEK_REQUEST__INIT;
    struct rpc_piece piece = { payload, 0, payload == NULL ? 0 : payload->count };

    request.offset = value;
    call->data = f;
    assert_int_equal(rpc_call_start(call, f->peer, MSG_SEEK, &request.base, &piece,
                                    payload == NULL ? 0 : 1, timeout_ms, on_done),
                     0);
}

static void run_until(struct fixture *f, const unsigned *counter, unsigned value)
{
    while (*counter < value) {
        if (uv_run(&f->loop, UV_RUN_ONCE) == 0 && *counter < value) {
            fail_msg("the loop has nothing left to wait for");
        }
    }
}

static void on_waited(uv_timer_t *timer)
{
    ++*(unsigned *)timer->data;
    uv_close((uv_handle_t *)timer, NULL);
}

/* `*done` becomes 1 after so many milliseconds. */
static void wait_start(struct fixture *f, uint64_t ms, unsigned *done)
{
    f->waiting.data = done;
    assert_int_equal(uv_timer_init(&f->loop, &f->waiting), 0);
    assert_int_equal(uv_timer_start(&f->waiting, on_waited, ms, 0), 0);
}

static void answers_come_back(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    call_start(f, &call, 41, NULL, 5000);
    assert_int_equal(f->ended, 0);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->echoed, 42);
    assert_true(rpc_peer_connected(f->peer));
    assert_int_equal(rpc_cluster_id(f->client_rpc)->bytes[0], 1);
}

/* Every size around the buffer's and the frame's limits, several under way at once. */
static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct fixture *f = data;
    Morsel__SeekReply *seek = rpc_unpack(&morsel__seek_reply__descriptor, body, body_count);

    assert_int_equal(type, MSG_SEEK);
    assert_non_null(seek);
    assert_int_equal(seek->offset, f->echoed); /* Its answer came first. */
    morsel__seek_reply__free_unpacked(seek, NULL);
    f->ended_before_push = f->ended;
    f->pushed++;
}

static void pushes_keep_the_order_of_replies(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    rpc_peer_watch(f->peer, NULL, NULL, f);
    rpc_peer_on_push(f->peer, on_push);
    f->push = true;
    for (unsigned i = 1; i <= 3; i++) {
        call_start(f, &call, 41 + i, NULL, 5000);
        run_until(f, &f->pushed, i);
        assert_int_equal(f->ended_before_push, i);
    }
    rpc_disconnect(f->server, ROLE_CLIENT, 7, "enough");
    assert_int_equal(f->gone, 1);
}

static void payloads_survive_the_way(void **state)
{
    static const size_t sizes[] = { 1,        4095,
                                    16 << 10, (16 << 10) + 1,
                                    1 << 20,  FRAME_PAYLOAD_BYTES_MAX };
    struct fixture *f = *state;
    struct rpc_call calls[ARRAY_COUNT(sizes)] = { 0 };

    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct payload *payload = payload_new(rpc_payloads(f->client_rpc), sizes[i]);

        memset(payload->data, (int)i + 1, sizes[i]);
        call_start(f, &calls[i], i, payload, 20000);
        payload_drop(payload);
    }
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        run_until(f, &f->ended, (unsigned)i + 1);
        assert_int_equal(f->status, 0);
    }
    assert_int_equal(f->payload_count, FRAME_PAYLOAD_BYTES_MAX);
    assert_int_equal(f->payload_first, ARRAY_COUNT(sizes));
}

static void on_fetched(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fixture *f = call->data;

    assert_int_equal(status, 0);
    assert_int_equal(reply->payload->count, call->fetches);
    f->ended++;
}

static void fetch_start(struct fixture *f, struct rpc_call *call)
{
    Morsel__SeekRequest request = MORSEL__SEEK_REQUEST__INIT;

    *call = (struct rpc_call){ .data = f, .fetches = rpc_peer_fetch_bytes(f->peer) };
    request.offset = call->fetches;
    assert_int_equal(
        rpc_call_start(call, f->peer, MSG_SEEK, &request.base, NULL, 0, 20000, on_fetched), 0);
}

/* As many bytes as were asked for. */
static void fetch_answer(struct fixture *f, struct rpc_request *r)
{
    Morsel__SeekRequest *seek = rpc_request_unpack(r, &morsel__seek_request__descriptor);
    struct payload *payload = payload_new(rpc_payloads(f->server_rpc), (size_t)seek->offset);

    memset(payload->data, 'x', payload->count);
    morsel__seek_request__free_unpacked(seek, NULL);
    rpc_reply(r, NULL, payload);
}

/* FETCHES fetches over a link that was slow so far. How many were small? */
static unsigned small_fetches(struct fixture *f)
{
    enum { FETCHES = 64, AHEAD = 4 };
    struct rpc_call calls[AHEAD];
    unsigned begun = 0, small = 0;

    f->peer->fetches.rate = (uint64_t)PACE_FIRST_BYTES * 1000000 / PACE_FRAME_US;
    assert_int_equal(rpc_peer_fetch_bytes(f->peer), PACE_FIRST_BYTES);
    f->hold = true;
    f->ended = 0;
    while (f->ended < FETCHES) {
        while (begun < FETCHES && begun < f->ended + AHEAD) {
            small += rpc_peer_fetch_bytes(f->peer) < PACE_FRAME_BYTES_MAX;
            fetch_start(f, &calls[begun++ % AHEAD]);
        }
        assert_int_not_equal(uv_run(&f->loop, UV_RUN_ONCE), 0);
        for (unsigned i = 0; i < f->held_count; i++) {
            fetch_answer(f, f->held[i]);
        }
        f->held_count = 0;
    }
    assert_int_equal(rpc_peer_fetch_bytes(f->peer), PACE_FRAME_BYTES_MAX);
    return small;
}

/* Frames that are a little longer than the buffer of a first read do not look like a slow link. A
 * process that stands still does: so one try of three counts. */
static void fetches_over_a_fast_link_grow_to_whole_frames(void **state)
{
    enum { SMALL_MAX = 16, TRIES = 3 };
    struct fixture *f = *state;
    struct rpc_call first = { 0 };
    unsigned small;

    call_start(f, &first, 1, NULL, 5000);
    run_until(f, &f->ended, 1);
    small = small_fetches(f);
    for (int i = 1; i < TRIES && small > SMALL_MAX; i++) {
        small = small_fetches(f);
    }
    assert_in_range(small, 1, SMALL_MAX);
}

static void failures_carry_words(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .data = f };

    assert_int_equal(rpc_call_start(&call, f->peer, MSG_LOOKUP, NULL, NULL, 0, 5000, on_done), 0);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNKNOWN_TYPE);
    assert_string_equal(f->text, "no such thing");
}

static void silence_times_out(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    f->hold = true;
    call_start(f, &call, 1, NULL, 50);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_TIMEDOUT);
}

static void cancelled_calls_end_once(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    f->hold = true;
    call_start(f, &call, 1, NULL, RPC_NO_DEADLINE);
    run_until(f, &f->handled, 1);
    rpc_call_cancel(&call);
    assert_int_equal(f->ended, 0);
    (void)uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->ended, 1);
    assert_int_equal(f->status, MORSEL_CANCELED);
    /* The late answer finds nobody. */
    rpc_reply(f->held[0], NULL, NULL);
    f->held_count = 0;
    f->hold = false;
    call_start(f, &call, 1, NULL, 5000);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
}

/* In each state: never connected, connecting, and with a call under way. */
static void a_peer_that_is_closed_ends_its_calls(void **state)
{
    struct fixture *f = *state;
    struct rpc_peer *other = f->peer;
    struct rpc_call call = { 0 };

    f->hold = true;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rpc_peer_new(f->client_rpc, rpc_server_address(f->server), &f->peer, NULL),
                         0);
        if (i > 0) {
            call_start(f, &call, 1, NULL, RPC_NO_DEADLINE);
        }
        if (i == 2) {
            run_until(f, &f->handled, 1);
        }
        rpc_peer_close(f->peer);
        assert_int_equal(f->ended, i > 0 ? i - 1 : 0);
        run_until(f, &f->ended, i);
        assert_true(i == 0 || f->status == MORSEL_CANCELED);
        assert_false(rpc_call_active(&call));
    }
    run_until(f, &f->gone, 1);
    rpc_reply(f->held[0], NULL, NULL);
    f->held_count = 0;
    f->hold = false;
    f->peer = other;
    call_start(f, &call, 4, NULL, 5000); /* Another one does not mind. */
    run_until(f, &f->ended, 3);
    assert_int_equal(f->status, 0);
}

static void on_closed(void *data)
{
    *(unsigned *)data = 1;
}

/* It answers what it holds while it ends. */
static void server_begins_again(struct fixture *f)
{
    unsigned closed = 0;
    char address[64];

    (void)snprintf(address, sizeof(address), "%s", rpc_server_address(f->server));
    rpc_close(f->server_rpc, on_closed, &closed);
    while (f->held_count > 0) {
        rpc_reply(f->held[--f->held_count], NULL, NULL);
    }
    run_until(f, &closed, 1);
    f->hold = false;
    f->server_rpc = rpc_make(f, ROLE_IOD, 1);
    listen_at(f, address);
}

/* A call that was sent and not answered is sent again to the server's next life. */
static void calls_outlive_the_server(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };
    uint64_t first_life;

    f->hold = true;
    call_start(f, &call, 9, NULL, 10000);
    run_until(f, &f->handled, 1);
    first_life = rpc_peer_start_id(f->peer);
    server_begins_again(f);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->echoed, 10);
    assert_true(rpc_peer_start_id(f->peer) != first_life);
}

/* So is one to which the server has said that it ends; but not a change of data, of which the next
 * life could not say whether it has been made. */
static void a_server_that_ends_has_not_answered(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 }, change = { .bounded = true, .once = true };
    uint64_t until_ns = rpc_boot_ns() + 60000000000U, number = 1;

    rpc_set_lease(f->client_rpc, &until_ns, &number);
    f->hold = true;
    call_start(f, &call, 9, NULL, 10000);
    call_start(f, &change, 9, NULL, 10000);
    run_until(f, &f->handled, 2);
    rpc_reply_failure(f->held[0], MORSEL_SHUTDOWN, NULL);
    rpc_reply_failure(f->held[1], MORSEL_SHUTDOWN, NULL);
    f->held_count = 0;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_SHUTDOWN);
    assert_false(rpc_call_active(&change));
    assert_true(rpc_call_active(&call));
    server_begins_again(f);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->echoed, 10);
}

static void nobody_there_is_unreachable(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };
    unsigned closed = 0;

    rpc_close(f->server_rpc, on_closed, &closed);
    f->server_rpc = NULL;
    run_until(f, &closed, 1);
    call_start(f, &call, 9, NULL, 200);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
}

static void strangers_are_refused(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };
    struct cluster_id other = { { 2 } };

    rpc_set_cluster_id(f->client_rpc, &other);
    call_start(f, &call, 1, NULL, 5000);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_WRONG_CLUSTER);
}

/* The same client connects anew before the server has noticed the end of its old connection: the
 * end is told first. */
static void an_older_connection_ends_first(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };
    struct rpc_peer *again;

    call_start(f, &call, 1, NULL, 5000);
    run_until(f, &f->ended, 1);
    assert_int_equal(rpc_peer_new(f->client_rpc, rpc_server_address(f->server), &again, NULL), 0);
    f->peer = again;
    call_start(f, &call, 1, NULL, 5000);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->gone, 1);
}

/* What a client sends again over a new connection is not overtaken by what it had sent over the old
 * one: the new one is not greeted before the server has come to the end of that. */
static void what_was_sent_before_ends_first(void **state)
{
    struct fixture *f = *state;
    struct rpc_call old = { .bounded = true }, again = { .bounded = true };
    uint64_t until_ns = rpc_boot_ns() + 60000000000U;
    struct rpc_peer *peer;
    unsigned waited = 0;

    rpc_set_lease(f->client_rpc, &until_ns, NULL);
    f->hold = true;
    call_start(f, &old, 1, NULL, 5000);
    run_until(f, &f->handled, 1);
    f->hold = false;
    assert_int_equal(rpc_peer_new(f->client_rpc, rpc_server_address(f->server), &peer, NULL), 0);
    f->peer = peer;
    call_start(f, &again, 1, NULL, 5000);
    run_until(f, &f->gone, 1); /* The old connection is closed, its request goes on. */
    wait_start(f, 100, &waited);
    run_until(f, &waited, 1);
    assert_int_equal(f->handled, 1);
    assert_false(rpc_peer_connected(peer));
    rpc_reply(f->held[0], NULL, NULL);
    f->held_count = 0;
    run_until(f, &f->handled, 2);
    run_until(f, &f->ended, 1);
    rpc_call_cancel(&old);
    run_until(f, &f->ended, 2);
}

/* What was begun in one lease period is not sent in the next: its right may have gone to others. */
/* All answers are in the queue, far more than the peer takes at once, and no request is left whose
 * end could make the server read again. */
static void a_reader_behind_its_answers_is_heard_again(void **state)
{
    enum { CALLS = 20, BYTES = FRAME_PAYLOAD_BYTES_MAX };
    static_assert((size_t)CALLS * BYTES > CONN_BUDGET_BYTES, "the server must pause");
    struct fixture *f = *state;
    struct rpc_call calls[CALLS] = { 0 }, after = { 0 };
    struct payload *payload = payload_new(rpc_payloads(f->server_rpc), BYTES);

    memset(payload->data, 'x', BYTES);
    f->hold = true;
    for (unsigned i = 0; i < CALLS; i++) {
        call_start(f, &calls[i], i, NULL, 20000);
    }
    run_until(f, &f->held_count, CALLS);
    for (unsigned i = 0; i < CALLS; i++) {
        rpc_reply(f->held[i], NULL, payload_ref(payload));
    }
    payload_drop(payload);
    f->held_count = 0;
    f->hold = false;
    run_until(f, &f->ended, CALLS);
    assert_int_equal(f->status, 0);
    call_start(f, &after, 41, NULL, 5000);
    run_until(f, &f->ended, CALLS + 1);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->echoed, 42);
}

static void a_bounded_call_does_not_outlive_its_lease_period(void **state)
{
    struct fixture *f = *state;
    struct rpc_call bounded = { .bounded = true }, again = { .bounded = true }, free = { 0 };
    uint64_t until_ns = rpc_boot_ns() + 60000000000U, number = 1;

    rpc_set_lease(f->client_rpc, &until_ns, &number);
    call_start(f, &bounded, 1, NULL, 5000); /* The peer is not connected yet. */
    number = 2;
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_TOO_LATE);
    assert_int_equal(f->handled, 0);
    call_start(f, &free, 1, NULL, 5000);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
    call_start(f, &again, 1, NULL, 5000);
    run_until(f, &f->ended, 3);
    assert_int_equal(f->status, 0);
    assert_int_equal(f->handled, 2);
}

static void on_done_ask_again(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    on_done(call, status, reply);
    reply->again = status == MORSEL_UNKNOWN_TYPE && ((struct fixture *)call->data)->ended < 3;
}

static void a_refused_call_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { .data = f };

    assert_int_equal(
        rpc_call_start(&call, f->peer, MSG_LOOKUP, NULL, NULL, 0, 5000, on_done_ask_again), 0);
    run_until(f, &f->ended, 3);
    assert_int_equal(f->handled, 3);
    assert_int_equal(f->status, MORSEL_UNKNOWN_TYPE);
    assert_false(rpc_call_active(&call));
}

/* A server that is not the one we want counts as not there. */
static void the_wrong_server_is_nobody(void **state)
{
    struct fixture *f = *state;
    struct rpc_call call = { 0 };

    rpc_peer_expect(f->peer, 8);
    call_start(f, &call, 1, NULL, 200);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, MORSEL_UNREACHABLE);
    assert_int_equal(f->handled, 0);
    rpc_peer_expect(f->peer, 7);
    call_start(f, &call, 1, NULL, 5000);
    run_until(f, &f->ended, 2);
    assert_int_equal(f->status, 0);
}

/* ---- Raw bytes at the server's door ---- */

struct raw
{
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    uint8_t bytes[256];
    unsigned count;
    unsigned closed; /* By the server. */
    char in[256];
};

static void raw_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct raw *raw = handle->data;

    (void)suggested;
    *buf = uv_buf_init(raw->in, sizeof(raw->in));
}

static void raw_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct raw *raw = stream->data;

    (void)buf;
    if (count < 0) {
        raw->closed = 1;
        uv_close((uv_handle_t *)stream, NULL);
    }
}

static void raw_connected(uv_connect_t *connect, int status)
{
    struct raw *raw = connect->data;
    uv_buf_t buf = uv_buf_init((char *)raw->bytes, raw->count);

    assert_int_equal(status, 0);
    (void)uv_read_start((uv_stream_t *)&raw->tcp, raw_alloc, raw_read);
    (void)uv_write(&raw->write, (uv_stream_t *)&raw->tcp, &buf, 1, NULL);
}

static void server_hangs_up_on(struct fixture *f, struct raw *raw)
{
    struct sockaddr_in address;
    const char *text = rpc_server_address(f->server);

    assert_int_equal(uv_ip4_addr("127.0.0.1", atoi(strchr(text, ':') + 1), &address), 0);
    assert_int_equal(uv_tcp_init(&f->loop, &raw->tcp), 0);
    raw->tcp.data = raw->connect.data = raw;
    assert_int_equal(
        uv_tcp_connect(&raw->connect, &raw->tcp, (const struct sockaddr *)&address, raw_connected),
        0);
    run_until(f, &raw->closed, 1);
}

static void noise_is_hung_up_on(void **state)
{
    struct fixture *f = *state;
    struct raw raw = { .count = 64 };
    struct rpc_call call = { 0 };

    memset(raw.bytes, 'x', 64);
    server_hangs_up_on(f, &raw);
    assert_int_equal(rpc_statistics(f->server_rpc)->frames_malformed, 1);
    /* And the server goes on serving others. */
    call_start(f, &call, 1, NULL, 5000);
    run_until(f, &f->ended, 1);
    assert_int_equal(f->status, 0);
}

static void bodies_are_checked(void **state)
{
    struct fixture *f = *state;
    struct raw raw = { .count = FRAME_HEADER_BYTES + 4 };
    struct frame_header header = {
        .version = FRAME_VERSION, .type = MSG_HELLO, .body_length = 4, .body_crc = 1
    };

    frame_encode(&header, raw.bytes);
    server_hangs_up_on(f, &raw);
    assert_int_equal(rpc_statistics(f->server_rpc)->frames_malformed, 1);
}

static void first_word_is_hello(void **state)
{
    struct fixture *f = *state;
    struct raw raw = { .count = FRAME_HEADER_BYTES };
    struct frame_header header = { .version = FRAME_VERSION, .type = MSG_LOOKUP };

    frame_encode(&header, raw.bytes);
    server_hangs_up_on(f, &raw);
    assert_int_equal(f->handled, 0);
}

static void port_in_use_is_said(void **state)
{
    struct fixture *f = *state;
    struct rpc_server_hooks hooks = { .handle = handle, .data = f };
    struct rpc_server *second;
    struct errmsg err = { "" };

    assert_int_equal(
        rpc_listen(f->client_rpc, rpc_server_address(f->server), &hooks, &second, &err),
        MORSEL_BUSY);
    assert_non_null(strstr(err.text, "address already in use"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(answers_come_back),
        TEST(pushes_keep_the_order_of_replies),
        TEST(payloads_survive_the_way),
        TEST(fetches_over_a_fast_link_grow_to_whole_frames),
        TEST(failures_carry_words),
        TEST(silence_times_out),
        TEST(cancelled_calls_end_once),
        TEST(a_peer_that_is_closed_ends_its_calls),
        TEST(calls_outlive_the_server),
        TEST(a_server_that_ends_has_not_answered),
        TEST(nobody_there_is_unreachable),
        TEST(strangers_are_refused),
        TEST(an_older_connection_ends_first),
        TEST(what_was_sent_before_ends_first),
        TEST(a_reader_behind_its_answers_is_heard_again),
        TEST(a_bounded_call_does_not_outlive_its_lease_period),
        TEST(the_wrong_server_is_nobody),
        TEST(a_refused_call_can_be_repeated),
        TEST(noise_is_hung_up_on),
        TEST(bodies_are_checked),
        TEST(first_word_is_hello),
        TEST(port_in_use_is_said),
    };

    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
