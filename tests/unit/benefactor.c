/* The benefactor in one process with a manager and a client that the test plays itself, all on one loop. */
#include "benefactor/benefactor_uv.h"
#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "data.pb-c.h"
#include "meta.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALL_MS = 10000, DONOR = 9 };

struct bench
{
    uv_loop_t loop;
    char dir[64];
    struct benefactor_settings settings;
    struct benefactor benefactor;
    unsigned ready, failed, left;

    struct rpc *manager; /* Played by the test. */
    struct rpc_server *manager_server;
    struct cluster_id cluster;
    unsigned joins, reports, leaves, refusals, gone;
    unsigned refuse; /* So many of the next JOINs, */
    int refuse_with; /* with this. */
    bool forget;     /* The next report is of nobody that is known. */
    bool silent;     /* A report that it leaves has no answer. */
    uint32_t report_ms;
    uint8_t token[16];
    uint32_t id_told;
    uint64_t instance, donated, used, up_s;
    char address[ADDRESS_TEXT_MAX], name[256];

    struct rpc *client;
    struct rpc_peer *peer;
    struct rpc_call call;
    bool answered;
    int status;
    char text[256];
    unsigned counters, closed;
};

/* ---- The manager ---- */

static void take_report(struct bench *b, const Morsel__DonorReport *report)
{
    CHECK(report != NULL);
    b->donated = report->donated;
    b->used = report->used;
    b->up_s = report->up_s;
}

static void manage_join(struct bench *b, struct rpc_request *request)
{
    Morsel__DonorJoinRequest *m =
        rpc_request_unpack(request, &morsel__donor_join_request__descriptor);
    Morsel__DonorJoinReply reply = MORSEL__DONOR_JOIN_REPLY__INIT;

    CHECK(m != NULL && m->token.len == sizeof(b->token) && m->instance != 0);
    memcpy(b->token, m->token.data, sizeof(b->token));
    b->id_told = m->id;
    b->instance = m->instance;
    snprintf(b->address, sizeof(b->address), "%s", m->address);
    snprintf(b->name, sizeof(b->name), "%s", m->name);
    take_report(b, m->report);
    morsel__donor_join_request__free_unpacked(m, NULL);
    if (b->refuse > 0) {
        b->refuse--;
        b->refusals++;
        rpc_reply_failure(request, b->refuse_with, "the test says so");
        return;
    }
    b->joins++;
    rpc_request_name_peer(request, DONOR);
    reply.id = DONOR;
    reply.report_ms = b->report_ms;
    reply.cluster_id.data = b->cluster.bytes;
    reply.cluster_id.len = sizeof(b->cluster.bytes);
    rpc_reply(request, &reply.base, NULL);
}

static void manage_report(struct bench *b, struct rpc_request *request)
{
    Morsel__DonorReportRequest *m =
        rpc_request_unpack(request, &morsel__donor_report_request__descriptor);

    CHECK(m != NULL && m->id == DONOR && m->instance == b->instance);
    take_report(b, m->report);
    b->reports++;
    b->leaves += m->leaves;
    if (b->forget) {
        b->forget = false;
        rpc_reply_failure(request, MORSEL_NO_SESSION, NULL);
    } else if (m->leaves && b->silent) {
        rpc_request_lost(request);
    } else {
        rpc_reply(request, NULL, NULL);
    }
    morsel__donor_report_request__free_unpacked(m, NULL);
}

static void manage(void *data, struct rpc_request *request)
{
    CHECK(request->role == ROLE_BENEFACTOR);
    if (request->type == MSG_DONOR_JOIN) {
        manage_join(data, request);
    } else if (request->type == MSG_DONOR_REPORT) {
        manage_report(data, request);
    } else {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, NULL);
    }
}

/* ---- The bench ---- */

static void on_ready(void *data)
{
    ((struct bench *)data)->ready++;
}

static void on_failed(void *data)
{
    struct bench *b = data;

    b->failed++;
    benefactor_stop(&b->benefactor);
}

static void on_left(void *data)
{
    ((struct bench *)data)->left++;
}

static void on_gone(void *data, enum rpc_role role, uint64_t node_id)
{
    (void)role;
    (void)node_id;
    ((struct bench *)data)->gone++;
}

static void bench_start_manager(struct bench *b, const char *address)
{
    struct rpc_options options = { .role = ROLE_MANAGER,
                                   .cluster_id = b->cluster,
                                   .program = "test" };
    struct rpc_server_hooks hooks = { .handle = manage, .gone = on_gone, .data = b };
    struct errmsg err = { "" };

    assert_int_equal(rpc_new(&b->loop, &options, &b->manager), 0);
    assert_int_equal(rpc_listen(b->manager, address, &hooks, &b->manager_server, &err), 0);
    snprintf(b->settings.manager, sizeof(b->settings.manager), "%s",
             rpc_server_address(b->manager_server));
}

static void bench_init(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    CHECK(uv_loop_init(&b->loop) == 0);
    memset(b->cluster.bytes, 0x42, sizeof(b->cluster.bytes));
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-benefactor-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    snprintf(b->settings.data_dir, sizeof(b->settings.data_dir), "%s/data", b->dir);
    snprintf(b->settings.listen, sizeof(b->settings.listen), "0.0.0.0:0");
    b->report_ms = 50;
    bench_start_manager(b, "127.0.0.1:0");
}

static int bench_start(struct bench *b, struct errmsg *err)
{
    memset(&b->benefactor, 0, sizeof(b->benefactor));
    b->benefactor.settings = &b->settings;
    b->benefactor.wish.donate = (struct donation_share){ false, 1 << 20 };
    b->benefactor.wish.keep_free = (struct donation_share){ false, 0 };
    b->benefactor.loop = &b->loop;
    b->benefactor.ready = on_ready;
    b->benefactor.failed = on_failed;
    b->benefactor.data = b;
    return benefactor_start(&b->benefactor, err);
}

static void bench_until(struct bench *b, const unsigned *counter, unsigned value)
{
    while (*counter < value) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
}

static void on_closed(void *data)
{
    ((struct bench *)data)->closed++;
}

static void bench_close(struct bench *b, struct rpc **rpc)
{
    unsigned target = b->closed + 1;

    if (*rpc == NULL) {
        return;
    }
    rpc_close(*rpc, on_closed, b);
    *rpc = NULL;
    bench_until(b, &b->closed, target);
}

/* Stops everything; the loop must run empty by itself. */
static void bench_end(struct bench *b)
{
    char command[128];

    benefactor_stop(&b->benefactor);
    bench_close(b, &b->client);
    bench_close(b, &b->manager);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    benefactor_release(&b->benefactor);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    assert_int_equal(system(command), 0);
}

/* Only the benefactor ends, and its directory may be opened again. */
static void bench_end_benefactor(struct bench *b)
{
    unsigned gone = b->gone + 1;

    benefactor_stop(&b->benefactor);
    bench_until(b, &b->gone, gone);
    benefactor_release(&b->benefactor);
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct bench *b = call->data;
    Morsel__Statistics *statistics;

    b->answered = true;
    b->status = status;
    snprintf(b->text, sizeof(b->text), "%s", reply->text);
    statistics = status == 0
                     ? rpc_unpack(&morsel__statistics__descriptor, reply->body, reply->body_count)
                     : NULL;
    if (statistics != NULL) {
        b->counters = 0;
        for (size_t i = 0; i < statistics->n_counters; i++) {
            b->counters += strcmp(statistics->counters[i]->name, "donated_bytes") == 0 &&
                           statistics->counters[i]->value == 1 << 20;
        }
        morsel__statistics__free_unpacked(statistics, NULL);
    }
}

static int bench_call(struct bench *b, enum message_type type, const ProtobufCMessage *request)
{
    b->answered = false;
    b->call.data = b;
    CHECK(rpc_call_start(&b->call, b->peer, type, request, NULL, 0, CALL_MS, on_answer) == 0);
    while (!b->answered) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    return b->status;
}

/* ---- Tests ---- */

static void it_joins_and_reports(void **state)
{
    struct bench b;
    char expected[ADDRESS_TEXT_MAX];

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    assert_int_equal(b.ready, 0); /* The cluster is not known yet. */
    bench_until(&b, &b.ready, 1);
    assert_int_equal(b.id_told, 0);
    assert_int_equal(b.benefactor.datadir.node, DONOR);
    assert_memory_equal(b.token, b.benefactor.datadir.token, sizeof(b.token));
    assert_true(b.donated == 1 << 20 && b.used == 0 && b.up_s > 0);
    assert_true(b.name[0] != 0);
    /* It listens everywhere: the address is the one from which the manager is reached. */
    snprintf(expected, sizeof(expected), "127.0.0.1%s",
             strrchr(rpc_server_address(b.benefactor.listener), ':'));
    assert_string_equal(b.address, expected);
    bench_until(&b, &b.reports, 3);
    assert_int_equal(b.joins, 1);
    bench_end(&b);
}

static void what_the_owner_says_of_addresses_is_told(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    snprintf(b.settings.advertise, sizeof(b.settings.advertise), "desk.example:7000");
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    assert_string_equal(b.address, "desk.example:7000");
    bench_end(&b);
}

static void it_is_the_same_one_behind_a_restart(void **state)
{
    struct bench b;
    uint64_t instance;
    uint8_t token[16];

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    bench_until(&b, &b.reports, 1);
    instance = b.instance;
    memcpy(token, b.token, sizeof(token));
    bench_end_benefactor(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    assert_int_equal(b.ready, 2); /* At once: the cluster is known. */
    bench_until(&b, &b.joins, 2);
    assert_int_equal(b.id_told, DONOR);
    assert_memory_equal(token, b.token, sizeof(token));
    assert_true(instance != b.instance);
    bench_end(&b);
}

static void a_manager_that_comes_back_hears_who_it_is(void **state)
{
    struct bench b;
    uint64_t instance;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.reports, 1);
    instance = b.instance;
    bench_close(&b, &b.manager);
    bench_start_manager(&b, b.settings.manager);
    bench_until(&b, &b.joins, 2);
    assert_true(b.instance == instance && b.id_told == DONOR);
    b.reports = 0;
    bench_until(&b, &b.reports, 2);
    b.forget = true; /* It knows nobody by that number. */
    bench_until(&b, &b.joins, 3);
    assert_int_equal(b.failed, 0);
    bench_end(&b);
}

static void who_is_wanted_answers_at_once(void **state)
{
    Morsel__DonorWanted wanted = MORSEL__DONOR_WANTED__INIT;
    struct bench b;

    (void)state;
    bench_init(&b);
    b.report_ms = 3600000;
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.ready, 1);
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(
            rpc_push(b.manager_server, ROLE_BENEFACTOR, DONOR, MSG_DONOR_WANTED, &wanted.base));
        bench_until(&b, &b.reports, i);
    }
    bench_end(&b);
}

static void one_that_is_busy_is_tried_again(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    b.refuse = 2;
    b.refuse_with = MORSEL_BUSY;
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    assert_int_equal(b.refusals, 2);
    assert_int_equal(b.failed, 0);
    bench_end(&b);
}

static void who_is_not_welcome_ends(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    b.refuse = 1000;
    b.refuse_with = MORSEL_INVAL;
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.failed, 1);
    assert_int_equal(b.refusals, 1);
    bench_end(&b);
}

static void another_cluster_is_refused(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    bench_until(&b, &b.reports, 1);
    bench_close(&b, &b.manager);
    memset(b.cluster.bytes, 0x43, sizeof(b.cluster.bytes));
    bench_start_manager(&b, b.settings.manager);
    bench_until(&b, &b.failed, 1);
    assert_int_equal(b.joins, 1);
    bench_end(&b);
}

static void it_says_that_it_leaves(void **state)
{
    struct bench b;
    uint64_t before;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.reports, 1);
    benefactor_leave(&b.benefactor, on_left);
    bench_until(&b, &b.left, 1);
    assert_int_equal(b.leaves, 1);
    bench_end_benefactor(&b);

    b.silent = true; /* One that does not answer is waited for, but not for long. */
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 2);
    bench_until(&b, &b.ready, 2);
    b.reports = 0;
    bench_until(&b, &b.reports, 1);
    before = uv_hrtime();
    benefactor_leave(&b.benefactor, on_left);
    benefactor_leave(&b.benefactor, on_left);
    bench_until(&b, &b.left, 2);
    assert_true(uv_hrtime() - before < UINT64_C(4) * JOINING_LEAVE_MS * 1000000);
    assert_int_equal(b.left, 2);
    bench_end(&b);
}

static void a_directory_that_is_deleted_ends_it(void **state)
{
    struct bench b;
    char command[128];

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    snprintf(command, sizeof(command), "rm -rf '%s/data'", b.dir);
    assert_int_equal(system(command), 0);
    bench_until(&b, &b.failed, 1);
    assert_true(b.benefactor.deleted);
    bench_end(&b);
}

static void requests_are_answered_or_refused(void **state)
{
    struct rpc_options options = { .role = ROLE_CLIENT, .node_id = 1, .program = "test" };
    Morsel__Empty empty = MORSEL__EMPTY__INIT;
    Morsel__ReadRequest read = MORSEL__READ_REQUEST__INIT;
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    assert_int_equal(rpc_new(&b.loop, &options, &b.client), 0);
    assert_int_equal(rpc_peer_new(b.client, b.address, &b.peer, NULL), 0);
    assert_int_equal(bench_call(&b, MSG_STATISTICS, &empty.base), 0);
    assert_int_equal(b.counters, 1);
    assert_int_equal(bench_call(&b, MSG_CLOCK, &empty.base), 0);
    assert_int_equal(bench_call(&b, MSG_READ, &read.base), MORSEL_UNKNOWN_TYPE);
    assert_string_equal(b.text, "a benefactor does not know this request");
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_joins_and_reports),
        cmocka_unit_test(what_the_owner_says_of_addresses_is_told),
        cmocka_unit_test(it_is_the_same_one_behind_a_restart),
        cmocka_unit_test(a_manager_that_comes_back_hears_who_it_is),
        cmocka_unit_test(who_is_wanted_answers_at_once),
        cmocka_unit_test(one_that_is_busy_is_tried_again),
        cmocka_unit_test(who_is_not_welcome_ends),
        cmocka_unit_test(another_cluster_is_refused),
        cmocka_unit_test(it_says_that_it_leaves),
        cmocka_unit_test(a_directory_that_is_deleted_ends_it),
        cmocka_unit_test(requests_are_answered_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
