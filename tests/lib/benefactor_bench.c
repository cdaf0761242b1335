/* The manager and the client that the test plays, and the benefactor between them. */
#include "tests/lib/benefactor_bench.h"

#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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
    b->held_told = m->held_told;
    b->held_count = 0;
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

static void take_page(struct bench *b, const Morsel__DonorHeldRequest *m)
{
    const struct morsel_run *last;

    if (m->from == NULL) {
        b->held_count = 0;
    } else {
        CHECK(b->held_count > 0);
        last = &b->held[b->held_count - 1];
        CHECK(m->from->set == last->set && m->from->first == last->first + last->count);
    }
    for (size_t i = 0; i < m->n_held; i++) {
        CHECK(b->held_count < HELD_MAX);
        b->held[b->held_count++] = (struct morsel_run){ .set = m->held[i]->set,
                                                        .first = m->held[i]->first,
                                                        .count = m->held[i]->count };
    }
}

static void manage_held(struct bench *b, struct rpc_request *request)
{
    Morsel__DonorHeldRequest *m =
        rpc_request_unpack(request, &morsel__donor_held_request__descriptor);
    Morsel__DonorHeldReply reply = MORSEL__DONOR_HELD_REPLY__INIT;
    Morsel__SetRun run = MORSEL__SET_RUN__INIT, *runs = &run;

    CHECK(m != NULL && m->id == DONOR && m->instance == b->instance && m->n_held <= SET_RUNS_MAX);
    b->pages++;
    if (b->pages_before == 0 && b->pages_lost > 0) {
        b->pages_lost--;
        rpc_reply_failure(request, MORSEL_NO_SESSION, NULL);
    } else {
        b->pages_before -= b->pages_before > 0;
        if (b->pages_again > 0) {
            b->pages_again--;
            reply.again = true;
        } else {
            take_page(b, m);
            b->lasts += m->last;
        }
        run.set = b->drop.set;
        run.first = b->drop.first;
        run.count = b->drop.count;
        reply.drop = &runs;
        reply.n_drop = b->drop.count > 0;
        b->drop.count = 0;
        rpc_reply(request, &reply.base, NULL);
    }
    morsel__donor_held_request__free_unpacked(m, NULL);
}

/* Those that were collected, as they were said. */
static void take_collected(struct bench *b, const Morsel__DonorReportRequest *m)
{
    if (m->n_collected == 0 || b->forgets_collected) {
        b->forgets_collected = b->forgets_collected && m->n_collected == 0;
        return;
    }
    b->collected_last = m->n_collected;
    for (size_t i = 0; i < m->n_collected; i++) {
        size_t at = 0;

        while (at < b->collect_count && (m->collected[i]->set != b->collect[at].set ||
                                         m->collected[i]->first != b->collect[at].first ||
                                         m->collected[i]->count != b->collect[at].count)) {
            at++;
        }
        CHECK(at < b->collect_count);
        b->collect[at] = b->collect[--b->collect_count];
    }
    b->collected++;
}

static void answer_report(struct bench *b, struct rpc_request *request)
{
    Morsel__DonorReportReply reply = MORSEL__DONOR_REPORT_REPLY__INIT;
    Morsel__SetRun runs[4], *pointers[4];

    for (size_t i = 0; i < b->collect_count; i++) {
        morsel__set_run__init(&runs[i]);
        runs[i].set = b->collect[i].set;
        runs[i].first = b->collect[i].first;
        runs[i].count = b->collect[i].count;
        pointers[i] = &runs[i];
    }
    reply.collect = pointers;
    reply.n_collect = b->collect_count;
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
        take_collected(b, m);
        answer_report(b, request);
    }
    morsel__donor_report_request__free_unpacked(m, NULL);
}

static void manage(void *data, struct rpc_request *request)
{
    const struct bench *b = data;

    CHECK(request->role == ROLE_BENEFACTOR);
    if (request->type == MSG_DONOR_JOIN) {
        manage_join(data, request);
    } else if (request->type == MSG_DONOR_REPORT) {
        manage_report(data, request);
    } else if (request->type == MSG_DONOR_HELD) {
        manage_held(data, request);
    } else if (b->other != NULL) {
        b->other(b->other_data, request);
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

void bench_left(void *data)
{
    ((struct bench *)data)->left++;
}

static void on_gone(void *data, enum rpc_role role, uint64_t node_id)
{
    (void)role;
    (void)node_id;
    ((struct bench *)data)->gone++;
}

void bench_start_manager(struct bench *b, const char *address)
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

void bench_init(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    CHECK(uv_loop_init(&b->loop) == 0);
    memset(b->cluster.bytes, 0x42, sizeof(b->cluster.bytes));
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-benefactor-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    snprintf(b->settings.data_dir, sizeof(b->settings.data_dir), "%s/data", b->dir);
    snprintf(b->settings.listen, sizeof(b->settings.listen), "0.0.0.0:0");
    b->report_ms = 50;
    b->donate = 1 << 20;
    bench_start_manager(b, "127.0.0.1:0");
}

int bench_start(struct bench *b, struct errmsg *err)
{
    memset(&b->benefactor, 0, sizeof(b->benefactor));
    b->benefactor.settings = &b->settings;
    b->benefactor.wish.donate = (struct donation_share){ false, b->donate };
    b->benefactor.wish.keep_free = (struct donation_share){ false, 0 };
    b->benefactor.loop = &b->loop;
    b->benefactor.ready = on_ready;
    b->benefactor.failed = on_failed;
    b->benefactor.data = b;
    return benefactor_start(&b->benefactor, err);
}

void bench_until(struct bench *b, const unsigned *counter, unsigned value)
{
    while (*counter < value) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
}

void bench_until_open(struct bench *b)
{
    while (b->benefactor.morsels.holdings.state != HOLDINGS_TOLD) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
}

static void on_closed(void *data)
{
    ((struct bench *)data)->closed++;
}

void bench_close(struct bench *b, struct rpc **rpc)
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
void bench_end(struct bench *b)
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
void bench_end_benefactor(struct bench *b)
{
    unsigned gone = b->gone + 1;

    benefactor_stop(&b->benefactor);
    bench_until(b, &b->gone, gone);
    while (b->benefactor.morsels.server.jobs.running > 0 || b->benefactor.look != NULL) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    benefactor_release(&b->benefactor);
}

void bench_connect(struct bench *b)
{
    struct rpc_options options = { .role = ROLE_CLIENT, .node_id = 1, .program = "test" };

    CHECK(rpc_new(&b->loop, &options, &b->client) == 0);
    CHECK(rpc_peer_new(b->client, b->address, &b->peer, NULL) == 0);
}

/* What the statistics say of b->counter_name. */
static void take_statistics(struct bench *b, const struct rpc_reply *reply)
{
    Morsel__Statistics *m =
        rpc_unpack(&morsel__statistics__descriptor, reply->body, reply->body_count);

    CHECK(m != NULL);
    b->counters = 0;
    for (size_t i = 0; i < m->n_counters; i++) {
        if (strcmp(m->counters[i]->name, b->counter_name) == 0) {
            b->counters++;
            b->counter = m->counters[i]->value;
        }
    }
    morsel__statistics__free_unpacked(m, NULL);
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct bench *b = call->data;

    b->answered = true;
    b->status = status;
    snprintf(b->text, sizeof(b->text), "%s", reply->text);
    b->got_count = 0;
    if (status != 0) {
        return;
    }
    if (b->counter_name != NULL) {
        take_statistics(b, reply);
    }
    if (reply->payload != NULL) {
        b->got_count = reply->payload->count;
        memcpy(b->got, reply->payload->data, b->got_count);
    }
}

static int call(struct bench *b, enum message_type type, const ProtobufCMessage *request,
                const void *bytes, size_t count)
{
    struct rpc_piece piece = { .count = count };

    if (count > 0) {
        piece.payload = payload_new(rpc_payloads(b->client), count);
        CHECK(piece.payload != NULL);
        memcpy(piece.payload->data, bytes, count);
    }
    b->answered = false;
    b->call.data = b;
    CHECK(rpc_call_start(&b->call, b->peer, type, request, &piece, count > 0, CALL_MS, on_answer) ==
          0);
    payload_drop(piece.payload);
    while (!b->answered) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    return b->status;
}

int bench_call(struct bench *b, enum message_type type, const ProtobufCMessage *request)
{
    return call(b, type, request, NULL, 0);
}

uint64_t bench_counter(struct bench *b, const char *name)
{
    Morsel__Empty empty = MORSEL__EMPTY__INIT;

    b->counter_name = name;
    CHECK(bench_call(b, MSG_STATISTICS, &empty.base) == 0 && b->counters == 1);
    b->counter_name = NULL;
    return b->counter;
}

int bench_write(struct bench *b, uint64_t set, uint32_t morsel, uint64_t offset, const void *bytes,
                size_t count)
{
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    uint32_t crcs[FRAME_PAYLOAD_BYTES_MAX / BLOCK_BYTES + 1];

    id.inode = set;
    id.column = morsel;
    crc32c_of_pieces(offset, bytes, count, crcs);
    request.object = &id;
    request.offset = offset;
    request.crcs.data = (uint8_t *)crcs;
    request.crcs.len = crc32c_pieces(offset, count) * sizeof(crcs[0]);
    return call(b, MSG_WRITE, &request.base, bytes, count);
}

int bench_read(struct bench *b, uint64_t set, uint32_t morsel, uint64_t offset, size_t count)
{
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;

    id.inode = set;
    id.column = morsel;
    request.object = &id;
    request.offset = offset;
    request.length = (uint32_t)count;
    return bench_call(b, MSG_READ, &request.base);
}

int bench_sync(struct bench *b, uint64_t set, uint32_t morsel)
{
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    Morsel__SyncRequest request = MORSEL__SYNC_REQUEST__INIT;

    id.inode = set;
    id.column = morsel;
    request.object = &id;
    return bench_call(b, MSG_SYNC, &request.base);
}
