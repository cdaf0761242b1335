/* Calls to a server that is made by hand: of an older version, that tells its clock in one place or
 * another or not at all, and one that takes its time to read. */
#include "common.pb-c.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/rpc/rpc_uv.h"
#include "tests/lib/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
    IN_BYTES = 8 << 20,
    SIP_BYTES = 16 << 10,
    SIP_MS = 10,
    SERVER_MS = 5000000,
    LEAP_MS = 20000,
    HELD_MAX = 16,
    FETCH_BYTES = 64 << 10
};

struct fixture
{
    uv_loop_t loop;
    struct rpc *rpc;
    struct rpc_peer *peer;
    uint64_t lease_until_ns, lease_epoch;
    unsigned ended;
    int status;
    unsigned rooms; /* How often we were told that there is room. */

    /* The server */
    uv_tcp_t listener, tcp;
    bool accepted;
    uint8_t *in;
    size_t in_count, used;
    bool hello_tells, clock_tells, replies_tell;
    int clock_status;
    bool slow, stuck; /* Reads a sip at a time; nothing at all. */
    bool mute;        /* Does not answer: */
    struct frame_header held[HELD_MAX];
    unsigned held_count; /* the first of these. */
    uv_timer_t sip;
    unsigned writes, clocks;
    unsigned clocks_before_write;
    uint32_t not_after; /* Of the last WRITE. */
};

static void raw_send(struct fixture *f, const struct frame_header *request, int status,
                     const ProtobufCMessage *message)
{
    struct frame_header header = { .version = FRAME_VERSION,
                                   .flags = FRAME_REPLY,
                                   .type = request->type,
                                   .request_id = request->request_id,
                                   .status = status };
    uint8_t bytes[FRAME_HEADER_BYTES + 256];
    uv_buf_t buf;

    if (message != NULL) {
        header.body_length = (uint32_t)protobuf_c_message_pack(message, bytes + FRAME_HEADER_BYTES);
    }
    header.clock_ms = f->replies_tell ? frame_clock_told(SERVER_MS + LEAP_MS) : 0;
    header.body_crc = crc32c(0, bytes + FRAME_HEADER_BYTES, header.body_length);
    frame_encode(&header, bytes);
    buf = uv_buf_init((char *)bytes, FRAME_HEADER_BYTES + header.body_length);
    assert_int_equal(uv_try_write((uv_stream_t *)&f->tcp, &buf, 1), buf.len);
}

static void serve(struct fixture *f, const struct frame_header *header)
{
    Morsel__HelloReply hello = MORSEL__HELLO_REPLY__INIT;
    Morsel__Clock clock = MORSEL__CLOCK__INIT;

    if (header->type == MSG_HELLO) {
        hello.role = ROLE_IOD;
        hello.boot_ms = f->hello_tells ? SERVER_MS : 0;
        raw_send(f, header, 0, &hello.base);
    } else if (header->type == MSG_CLOCK) {
        f->clocks++;
        clock.boot_ms = f->clock_tells ? SERVER_MS : 0;
        raw_send(f, header, f->clock_status, f->clock_status == 0 ? &clock.base : NULL);
    } else {
        f->writes++;
        f->clocks_before_write = f->clocks;
        f->not_after = header->not_after;
        if (!f->mute) {
            raw_send(f, header, 0, NULL);
        } else if (f->held_count < HELD_MAX) {
            f->held[f->held_count++] = *header;
        }
    }
}

static void serve_all(struct fixture *f)
{
    struct frame_header header;

    while (f->in_count - f->used >= FRAME_HEADER_BYTES) {
        size_t total;

        assert_int_equal(frame_decode(f->in + f->used, &header), MORSEL_OK);
        total = FRAME_HEADER_BYTES + header.body_length + header.payload_length;
        if (f->in_count - f->used < total) {
            return;
        }
        f->used += total;
        serve(f, &header);
    }
}

static void raw_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct fixture *f = handle->data;

    (void)suggested;
    assert_true(f->in_count + SIP_BYTES <= IN_BYTES);
    *buf = uv_buf_init((char *)f->in + f->in_count, SIP_BYTES);
}

static void raw_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf);

static void on_sip(uv_timer_t *timer)
{
    struct fixture *f = timer->data;

    if (!f->stuck) {
        (void)uv_read_start((uv_stream_t *)&f->tcp, raw_alloc, raw_read);
    }
}

static void raw_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct fixture *f = stream->data;

    (void)buf;
    if (count < 0) {
        (void)uv_read_stop(stream);
        return;
    }
    f->in_count += (size_t)count;
    serve_all(f);
    if (f->slow) {
        (void)uv_read_stop(stream);
        (void)uv_timer_start(&f->sip, on_sip, SIP_MS, 0);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct fixture *f = listener->data;
    int small = SIP_BYTES;

    assert_int_equal(status, 0);
    if (f->accepted) {
        return; /* Once is enough. */
    }
    f->accepted = true;
    assert_int_equal(uv_tcp_init(&f->loop, &f->tcp), 0);
    f->tcp.data = f;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&f->tcp), 0);
    (void)uv_recv_buffer_size((uv_handle_t *)&f->tcp, &small);
    (void)uv_read_start((uv_stream_t *)&f->tcp, raw_alloc, raw_read);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct rpc_options options = { .role = ROLE_CLIENT, .node_id = 7, .program = "test" };
    struct sockaddr_in address;
    int size = sizeof(address);
    char text[64];

    f->in = malloc(IN_BYTES);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(rpc_new(&f->loop, &options, &f->rpc), 0);
    f->lease_until_ns = rpc_boot_ns() + 60000000000;
    rpc_set_lease(f->rpc, &f->lease_until_ns, &f->lease_epoch);
    (void)uv_timer_init(&f->loop, &f->sip);
    (void)uv_tcp_init(&f->loop, &f->listener);
    f->listener.data = f->sip.data = f;
    (void)uv_ip4_addr("127.0.0.1", 0, &address);
    assert_int_equal(uv_tcp_bind(&f->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&f->listener, 4, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&f->listener, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(rpc_peer_new(f->rpc, text, &f->peer, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    rpc_close(f->rpc, NULL, NULL);
    uv_close((uv_handle_t *)&f->listener, NULL);
    uv_close((uv_handle_t *)&f->sip, NULL);
    if (f->accepted) {
        uv_close((uv_handle_t *)&f->tcp, NULL);
    }
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f->in);
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

/* A bounded WRITE of so many bytes, from its start to its end. Its status. */
static int write_bytes(struct fixture *f, size_t bytes, uint64_t timeout_ms)
{
    struct rpc_call call = { .data = f, .bounded = true };
    struct payload *payload = payload_new(rpc_payloads(f->rpc), bytes);
    struct rpc_piece piece = { payload, 0, bytes };
    unsigned ended = f->ended;

    memset(payload->data, 'x', bytes);
    assert_int_equal(
        rpc_call_start(&call, f->peer, MSG_WRITE, NULL, &piece, 1, timeout_ms, on_done), 0);
    payload_drop(payload);
    while (f->ended == ended) {
        assert_int_not_equal(uv_run(&f->loop, UV_RUN_ONCE), 0);
    }
    return f->status;
}

static void the_clock_of_hello_is_enough(void **state)
{
    struct fixture *f = *state;

    f->hello_tells = true;
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    assert_int_equal(f->clocks, 0);
    assert_true(f->not_after > SERVER_MS + 50000 && f->not_after <= SERVER_MS + 60000);
}

/* It said nothing of its clock in HELLO: what is bounded waits until it has. */
static void a_bounded_call_waits_for_the_clock(void **state)
{
    struct fixture *f = *state;

    f->clock_tells = true;
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    assert_int_equal(f->clocks_before_write, 1);
    assert_true(f->not_after > SERVER_MS + 50000 && f->not_after <= SERVER_MS + 60000);
}

/* It knows CLOCK, and says nothing: then it gets nothing that needs a bound. */
static void a_clock_that_is_not_told_is_no_licence(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(write_bytes(f, 1000, 300), MORSEL_UNREACHABLE);
    assert_int_equal(f->writes, 0);
}

/* A version that knew no bounds took all writes. */
static void a_version_without_clocks_gets_no_bound(void **state)
{
    struct fixture *f = *state;

    f->clock_status = MORSEL_UNKNOWN_TYPE;
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    assert_int_equal(f->clocks, 1);
    assert_int_equal(f->not_after, 0);
}

static void every_answer_tells_the_clock(void **state)
{
    struct fixture *f = *state;
    uint32_t before;

    f->hello_tells = true;
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    before = f->not_after;
    f->replies_tell = true; /* That it goes before what HELLO said. */
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    assert_true(f->not_after >= before + LEAP_MS - 4000 && f->not_after <= before + LEAP_MS);
}

/* Far more bytes than go through in the time, but they move; then they do not. */
static void a_call_that_moves_is_not_dead(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms;

    f->hello_tells = true;
    f->slow = true;
    began_ms = rpc_boot_ms();
    assert_int_equal(write_bytes(f, 2 << 20, 500), 0);
    assert_true(rpc_boot_ms() - began_ms > 600);
    f->stuck = true;
    began_ms = rpc_boot_ms();
    assert_int_equal(write_bytes(f, 2 << 20, 500), MORSEL_TIMEDOUT);
    assert_true(rpc_boot_ms() - began_ms < 5000);
}

/* It has taken the bytes, and does not answer. */
static void a_call_that_has_arrived_does_not_move(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms;

    f->hello_tells = true;
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    f->mute = true;
    began_ms = rpc_boot_ms();
    assert_int_equal(write_bytes(f, 1000, 300), MORSEL_TIMEDOUT);
    assert_true(rpc_boot_ms() - began_ms < 5000);
}

/* Looks often, as whoever is owed an answer does. */
static bool hears_in(struct fixture *f, uint64_t ms, uint64_t age_ms)
{
    for (uint64_t end_ms = rpc_boot_ms() + ms; rpc_boot_ms() < end_ms;) {
        (void)rpc_peer_hears(f->peer, age_ms);
        pass(&f->loop, 10);
    }
    return rpc_peer_hears(f->peer, age_ms);
}

/* Its answers are no sign of that: one may have been made before. */
static void who_acknowledges_nothing_does_not_hear(void **state)
{
    struct fixture *f = *state;
    static struct rpc_call call, small;
    struct payload *payload = payload_new(rpc_payloads(f->rpc), 4 << 20);
    struct rpc_piece piece = { payload, 0, 4 << 20 };

    call.data = small.data = f;
    f->hello_tells = f->replies_tell = true;
    assert_false(rpc_peer_hears(f->peer, 1000)); /* There is no connection. */
    f->mute = true;
    assert_int_equal(write_bytes(f, 1000, 100), MORSEL_TIMEDOUT);
    assert_true(hears_in(f, 600, 300)); /* It has all that was sent. */
    pass(&f->loop, 600);                /* In which nobody looks. */
    f->ended = 0;
    f->slow = f->stuck = true;
    memset(payload->data, 'x', 4 << 20);
    assert_int_equal(rpc_call_start(&call, f->peer, MSG_WRITE, NULL, &piece, 1, 60000, on_done), 0);
    payload_drop(payload);
    assert_int_equal(rpc_call_start(&small, f->peer, MSG_SYNC, NULL, NULL, 0, 60000, on_done), 0);
    pass(&f->loop, 10);
    assert_true(hears_in(f, 0, 300)); /* There was nothing to hear until now. */
    assert_false(hears_in(f, 2000, 300));
    raw_send(f, &f->held[0], 0, NULL); /* Of what it did hear. */
    assert_false(hears_in(f, 50, 300));
    assert_true(rpc_call_active(&call));
    rpc_peer_close(f->peer);
    while (f->ended < 2) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
}

static void on_room(void *data)
{
    struct fixture *f = data;

    assert_true(rpc_peer_has_fetch_room(f->peer));
    f->rooms++;
}

/* Start fetches until the link has enough to do, and wait until the server has the requests. How
 * many. */
static unsigned fill_with_fetches(struct fixture *f, struct rpc_call *calls)
{
    unsigned count = 0;

    f->mute = true;
    while (rpc_peer_has_fetch_room(f->peer)) {
        assert_true(count < HELD_MAX);
        calls[count] = (struct rpc_call){ .data = f, .fetches = FETCH_BYTES };
        assert_int_equal(
            rpc_call_start(&calls[count++], f->peer, MSG_READ, NULL, NULL, 0, 60000, on_done), 0);
    }
    while (f->held_count < count) {
        assert_int_not_equal(uv_run(&f->loop, UV_RUN_ONCE), 0);
    }
    return count;
}

static void whoever_found_no_room_to_fetch_is_told(void **state)
{
    struct fixture *f = *state;
    struct rpc_call calls[HELD_MAX];
    unsigned count;

    f->hello_tells = true;
    rpc_peer_watch(f->peer, NULL, NULL, f);
    rpc_peer_on_room(f->peer, on_room);
    assert_int_equal(write_bytes(f, 1000, 5000), 0);
    count = fill_with_fetches(f, calls);
    assert_int_equal(f->rooms, 0);
    rpc_call_cancel(&calls[--count]);
    assert_true(rpc_peer_has_fetch_room(f->peer)); /* Others finding some changes nothing. */
    f->ended = 0;
    for (unsigned i = 0; i < count; i++) {
        raw_send(f, &f->held[i], 0, NULL);
    }
    while (f->ended < count + 1) {
        assert_int_not_equal(uv_run(&f->loop, UV_RUN_ONCE), 0);
    }
    assert_int_equal(f->rooms, 1); /* It was said once that there is none. */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_clock_of_hello_is_enough),           TEST(a_bounded_call_waits_for_the_clock),
        TEST(a_clock_that_is_not_told_is_no_licence), TEST(a_version_without_clocks_gets_no_bound),
        TEST(every_answer_tells_the_clock),           TEST(a_call_that_moves_is_not_dead),
        TEST(a_call_that_has_arrived_does_not_move),  TEST(whoever_found_no_room_to_fetch_is_told),
        TEST(who_acknowledges_nothing_does_not_hear),
    };

    return cmocka_run_group_tests_name("rpc_link", tests, NULL, NULL);
}
