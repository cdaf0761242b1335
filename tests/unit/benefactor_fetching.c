/* Copies that the manager wants at a benefactor: it is a real one, with its store; the test plays the manager and the source. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/benefactor_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SOURCE = 5, SET = 77, LENGTH = 300001, LARGE = 9 * 1024 * 1024 + 17 };

struct source
{
    struct bench b;
    struct rpc *rpc;
    struct rpc_server *server;
    uint8_t *bytes;
    uint32_t length;   /* Of the morsel; */
    uint32_t has;      /* it ends before, perhaps. */
    bool silent;       /* Reads are not answered; */
    unsigned hangs_up; /* so many of the next ones end the connection. */
    unsigned reads;
    struct rpc_request *waiting[8];
    unsigned waiting_count;
    unsigned told; /* What the manager hears: */
    unsigned
        told_nothing; /* so many of the next ones are answered as by one that does not know us; */
    unsigned refused;
    uint32_t outcome;
    uint64_t order;
    bool again;      /* The next one crosses an order of the same, by another manager, */
    uint64_t orders; /* which has begun with so many. */
};

static void order(struct source *s, uint32_t morsel);

/* ---- The source, the manager ---- */

static void answer_read(struct source *s, struct rpc_request *request, const Morsel__ReadRequest *m)
{
    Morsel__ReadReply reply = MORSEL__READ_REPLY__INIT;
    uint64_t end = m->offset + m->length < s->has ? m->offset + m->length : s->has;
    size_t count = end > m->offset ? end - m->offset : 0;
    struct payload *payload = payload_new(rpc_payloads(s->rpc), count > 0 ? count : 1);
    uint32_t crcs[FRAME_PAYLOAD_BYTES_MAX / BLOCK_BYTES + 1];

    CHECK(payload != NULL && m->object->inode == SET);
    memcpy(payload->data, s->bytes + m->offset, count);
    payload->count = count;
    crc32c_of_pieces(m->offset, payload->data, count, crcs);
    reply.crcs.data = (uint8_t *)crcs;
    reply.crcs.len = crc32c_pieces(m->offset, count) * sizeof(crcs[0]);
    rpc_reply(request, &reply.base, payload);
}

static void serve(void *data, struct rpc_request *request)
{
    struct source *s = data;
    Morsel__ReadRequest *m;

    CHECK(request->type == MSG_READ && request->role == ROLE_BENEFACTOR);
    s->reads++;
    if (s->silent) {
        CHECK(s->waiting_count < 8);
        s->waiting[s->waiting_count++] = request;
        return;
    }
    if (s->hangs_up > 0) {
        s->hangs_up--;
        rpc_request_lost(request);
        return;
    }
    m = rpc_request_unpack(request, &morsel__read_request__descriptor);
    CHECK(m != NULL);
    answer_read(s, request, m);
    morsel__read_request__free_unpacked(m, NULL);
}

static void manage_fetched(void *data, struct rpc_request *request)
{
    struct source *s = data;
    Morsel__DonorFetchedRequest *m;

    CHECK(request->type == MSG_DONOR_FETCHED);
    m = rpc_request_unpack(request, &morsel__donor_fetched_request__descriptor);
    CHECK(m != NULL && m->id == DONOR && m->instance == s->b.instance && m->set == SET);
    s->outcome = m->outcome;
    s->order = m->order;
    if (s->again) {
        s->again = false;
        s->orders = 1000;
        order(s, m->morsel);
    }
    morsel__donor_fetched_request__free_unpacked(m, NULL);
    if (s->told_nothing > 0) {
        s->told_nothing--;
        s->refused++;
        rpc_reply_failure(request, MORSEL_NO_SESSION, NULL);
        return;
    }
    s->told++;
    rpc_reply(request, NULL, NULL);
}

static void source_init(struct source *s, uint32_t length, uint64_t donate)
{
    struct rpc_options options = { .role = ROLE_BENEFACTOR, .node_id = SOURCE, .program = "test" };
    struct rpc_server_hooks hooks = { .handle = serve, .data = s };
    struct errmsg err = { "" };
    struct prng prng;

    memset(s, 0, sizeof(*s));
    bench_init(&s->b);
    s->b.donate = donate;
    s->b.other = manage_fetched;
    s->b.other_data = s;
    options.cluster_id = s->b.cluster;
    assert_int_equal(rpc_new(&s->b.loop, &options, &s->rpc), 0);
    assert_int_equal(rpc_listen(s->rpc, "127.0.0.1:0", &hooks, &s->server, &err), 0);
    s->length = s->has = length;
    s->bytes = malloc(length);
    assert_non_null(s->bytes);
    prng_seed(&prng, length);
    for (uint32_t i = 0; i < length; i++) {
        s->bytes[i] = (uint8_t)prng_next(&prng);
    }
    assert_int_equal(bench_start(&s->b, NULL), 0);
    bench_until(&s->b, &s->b.joins, 1);
    bench_until_open(&s->b);
    bench_until(&s->b, &s->b.reports, 1);
    bench_connect(&s->b);
}

static struct source *source_new(uint32_t length, uint64_t donate)
{
    struct source *s = malloc(sizeof(*s));

    assert_non_null(s);
    source_init(s, length, donate);
    return s;
}

static void source_end(struct source *s)
{
    for (unsigned i = 0; i < s->waiting_count; i++) {
        rpc_reply_failure(s->waiting[i], MORSEL_SHUTDOWN, NULL);
    }
    bench_close(&s->b, &s->rpc);
    bench_end(&s->b);
    free(s->bytes);
    free(s);
}

static uint32_t digest_of(const struct source *s)
{
    uint32_t pieces = crc32c_pieces(0, s->length), digest;
    uint32_t *crcs = malloc(pieces * sizeof(*crcs));

    assert_non_null(crcs);
    crc32c_of_pieces(0, s->bytes, s->length, crcs);
    digest = crc32c(0, crcs, pieces * sizeof(*crcs));
    free(crcs);
    return digest;
}

static void push(struct source *s, int type, uint32_t morsel, uint32_t digest, uint32_t id,
                 const char *address)
{
    Morsel__DonorFetch fetch = MORSEL__DONOR_FETCH__INIT;
    Morsel__DonorPlace place = MORSEL__DONOR_PLACE__INIT;

    place.id = id;
    place.address = (char *)(uintptr_t)address;
    place.instance = 1;
    fetch.order = 1000 + s->orders + morsel;
    fetch.set = SET;
    fetch.morsel = morsel;
    fetch.length = s->length;
    fetch.digest = digest;
    fetch.source = &place;
    assert_true(rpc_push(s->b.manager_server, ROLE_BENEFACTOR, DONOR, type, &fetch.base));
}

static void order_from(struct source *s, uint32_t morsel, uint32_t digest, uint32_t id,
                       const char *address)
{
    push(s, MSG_DONOR_FETCH, morsel, digest, id, address);
}

static void order(struct source *s, uint32_t morsel)
{
    order_from(s, morsel, digest_of(s), SOURCE, rpc_server_address(s->server));
}

static void ends_with(struct source *s, uint32_t morsel, uint32_t outcome)
{
    bench_until(&s->b, &s->told, 1);
    assert_int_equal(s->outcome, outcome);
    assert_int_equal(s->order, 1000 + morsel);
    s->told = 0;
}

static void is_not_there(struct source *s, uint32_t morsel)
{
    assert_int_equal(bench_read(&s->b, SET, morsel, 0, BLOCK_BYTES), 0);
    assert_int_equal(s->b.got_count, 0);
}

/* ---- Tests ---- */

static void a_morsel_is_fetched(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);

    (void)state;
    order(s, 3);
    ends_with(s, 3, FETCH_DONE);
    assert_int_equal(bench_read(&s->b, SET, 3, 0, LENGTH), 0);
    assert_int_equal(s->b.got_count, LENGTH);
    assert_memory_equal(s->b.got, s->bytes, LENGTH);
    assert_int_equal(bench_counter(&s->b, "morsels_fetched"), 1);
    assert_int_equal(bench_counter(&s->b, "bytes_fetched"), LENGTH);
    assert_true(bench_counter(&s->b, "used_bytes") >= LENGTH);
    source_end(s);
}

/* A manager that was restarted orders what the one before hears of just now: it hears of it as its own, and nothing is fetched
 * once more. */
static void what_was_told_to_the_manager_before_is_told_again(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);

    (void)state;
    s->again = true;
    order(s, 3);
    bench_until(&s->b, &s->told, 2);
    assert_int_equal(s->outcome, FETCH_DONE);
    assert_int_equal(s->order, 2003);
    assert_int_equal(s->reads, 1);
    s->told = 0;
    s->orders = 0;
    order(s, 4); /* Its place is free. */
    ends_with(s, 4, FETCH_DONE);
    source_end(s);
}

/* In several pieces. */
static void a_large_morsel_is_fetched(void **state)
{
    struct source *s = source_new(LARGE, 64 << 20);

    (void)state;
    order(s, 0);
    ends_with(s, 0, FETCH_DONE);
    assert_int_equal(s->reads, 3);
    for (uint32_t at = 0; at < LARGE; at += FRAME_PAYLOAD_BYTES_MAX) {
        uint32_t count =
            LARGE - at < FRAME_PAYLOAD_BYTES_MAX ? LARGE - at : FRAME_PAYLOAD_BYTES_MAX;

        assert_int_equal(bench_read(&s->b, SET, 0, at, FRAME_PAYLOAD_BYTES_MAX), 0);
        assert_int_equal(s->b.got_count, count);
        assert_memory_equal(s->b.got, s->bytes + at, count);
    }
    source_end(s);
}

static void what_is_not_what_was_stored_is_not_kept(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);
    uint32_t digest = digest_of(s);

    (void)state;
    s->bytes[LENGTH - 1] ^= 1; /* Good for its own checksums. */
    order_from(s, 3, digest, SOURCE, rpc_server_address(s->server));
    ends_with(s, 3, FETCH_DAMAGED);
    is_not_there(s, 3);
    s->has = LENGTH - 1;
    order(s, 4);
    ends_with(s, 4, FETCH_DAMAGED);
    is_not_there(s, 4);
    s->has = 0;
    order(s, 5);
    ends_with(s, 5, FETCH_DAMAGED);
    is_not_there(s, 5);
    source_end(s);
}

static void who_does_not_answer_is_given_up(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);

    (void)state;
    order_from(s, 3, digest_of(s), SOURCE, "127.0.0.1:1");
    ends_with(s, 3, FETCH_UNREACHABLE);
    s->hangs_up = 1;
    order(s, 4);
    ends_with(s, 4, FETCH_UNREACHABLE);
    order_from(s, 5, digest_of(s), SOURCE + 1, rpc_server_address(s->server)); /* Somebody else. */
    ends_with(s, 5, FETCH_UNREACHABLE);
    is_not_there(s, 3);
    is_not_there(s, 4);
    is_not_there(s, 5);
    source_end(s);
}

static void without_room_nothing_is_taken(void **state)
{
    struct source *s = source_new(LENGTH, LENGTH / 2);

    (void)state;
    order(s, 3);
    ends_with(s, 3, FETCH_NO_ROOM);
    source_end(s);
}

/* What could not be told is told to the manager that knows us again. */
static void what_came_of_it_is_told_in_the_end(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);

    (void)state;
    s->told_nothing = 1;
    order(s, 3);
    bench_until(&s->b, &s->refused, 1);
    ends_with(s, 3, FETCH_DONE);
    s->silent = true;
    order(s, 4);
    bench_until(&s->b, &s->reads, 2);
    bench_close(&s->b, &s->b.manager); /* It is away meanwhile. */
    s->silent = false;
    s->reads = 0;
    {
        Morsel__ReadRequest *m =
            rpc_request_unpack(s->waiting[0], &morsel__read_request__descriptor);

        answer_read(s, s->waiting[0], m);
        s->waiting_count = 0;
        morsel__read_request__free_unpacked(m, NULL);
    }
    bench_start_manager(&s->b, s->b.settings.manager);
    ends_with(s, 4, FETCH_DONE);
    source_end(s);
}

static void some_are_fetched_at_a_time(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);

    (void)state;
    s->silent = true;
    for (uint32_t i = 0; i < 2 * FETCHES_MAX; i++) {
        order(s, i);
    }
    bench_until(&s->b, &s->reads, FETCHES_MAX);
    s->b.reports = 0;
    bench_until(&s->b, &s->b.reports, 3);
    assert_int_equal(s->reads, FETCHES_MAX);
    source_end(s);
}

/* It looks at the copy that another benefactor has of a morsel, and is to fetch it, too. */
static void a_look_and_a_fetch_of_one_morsel_are_both_carried_out(void **state)
{
    struct source *s = source_new(LENGTH, 64 << 20);

    (void)state;
    s->silent = true;
    push(s, MSG_DONOR_CHECK, 3, digest_of(s), SOURCE, rpc_server_address(s->server));
    bench_until(&s->b, &s->reads, 1);
    order(s, 3);
    bench_until(&s->b, &s->reads, 2);
    source_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_morsel_is_fetched),
        cmocka_unit_test(what_was_told_to_the_manager_before_is_told_again),
        cmocka_unit_test(a_large_morsel_is_fetched),
        cmocka_unit_test(what_is_not_what_was_stored_is_not_kept),
        cmocka_unit_test(who_does_not_answer_is_given_up),
        cmocka_unit_test(without_room_nothing_is_taken),
        cmocka_unit_test(what_came_of_it_is_told_in_the_end),
        cmocka_unit_test(some_are_fetched_at_a_time),
        cmocka_unit_test(a_look_and_a_fetch_of_one_morsel_are_both_carried_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
