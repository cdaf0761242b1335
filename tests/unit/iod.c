/* The I/O daemon in one process with a client and a manager that the test plays itself, all on one
 * loop. */
#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "data.pb-c.h"
#include "iod/iod_uv.h"
#include "meta.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALL_MS = 10000 };

struct bench
{
    uv_loop_t loop;
    char dir[64];
    struct iod_settings settings;
    struct iod iod;
    unsigned ready, failed;

    struct rpc *manager; /* Played by the test. */
    struct rpc_server *manager_server;
    struct cluster_id cluster;
    unsigned registrations, heartbeats;
    uint8_t token[16];
    uint32_t id_asked_for;
    struct object_id collect; /* Named in the next heartbeat; inode 0: none. */
    struct object_id collected;

    struct rpc *client;
    struct rpc_peer *peer;
    struct rpc_call call;
    bool answered;
    int status;
    char text[256];
    uint8_t body[4096];
    size_t body_count;
    uint8_t payload[2 * BLOCK_BYTES];
    size_t payload_count;
    unsigned closed;
};

/* ---- The manager ---- */

static void manage_register(struct bench *b, struct rpc_request *request)
{
    Morsel__RegisterRequest *m = rpc_request_unpack(request, &morsel__register_request__descriptor);
    Morsel__RegisterReply reply = MORSEL__REGISTER_REPLY__INIT;

    CHECK(m != NULL && m->token.len == sizeof(b->token));
    memcpy(b->token, m->token.data, sizeof(b->token));
    b->registrations++;
    b->id_asked_for = m->id;
    CHECK(strcmp(m->address, rpc_server_address(b->iod.objects.listener)) == 0);
    reply.id = 7;
    reply.heartbeat_ms = 50;
    reply.cluster_id.data = b->cluster.bytes;
    reply.cluster_id.len = sizeof(b->cluster.bytes);
    morsel__register_request__free_unpacked(m, NULL);
    rpc_reply(request, &reply.base, NULL);
}

static void manage_heartbeat(struct bench *b, struct rpc_request *request)
{
    Morsel__HeartbeatRequest *m =
        rpc_request_unpack(request, &morsel__heartbeat_request__descriptor);
    Morsel__HeartbeatReply reply = MORSEL__HEARTBEAT_REPLY__INIT;

    CHECK(m != NULL);
    b->heartbeats++;
    if (m->n_collected_inode > 0) {
        b->collected = (struct object_id){ m->collected_inode[0], m->collected_column[0] };
    }
    if (b->collect.inode != 0) {
        reply.collect_inode = &b->collect.inode;
        reply.n_collect_inode = 1;
        reply.collect_column = &b->collect.column;
        reply.n_collect_column = 1;
    }
    morsel__heartbeat_request__free_unpacked(m, NULL);
    rpc_reply(request, &reply.base, NULL);
    b->collect.inode = 0;
}

static void manage(void *data, struct rpc_request *request)
{
    if (request->type == MSG_REGISTER) {
        manage_register(data, request);
    } else if (request->type == MSG_HEARTBEAT) {
        manage_heartbeat(data, request);
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
    iod_stop(&b->iod);
}

static void bench_start_manager(struct bench *b, const char *address)
{
    struct rpc_options options = { .role = ROLE_MANAGER,
                                   .cluster_id = b->cluster,
                                   .program = "test" };
    struct rpc_server_hooks hooks = { .handle = manage, .data = b };
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
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-iod-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    snprintf(b->settings.data_dir, sizeof(b->settings.data_dir), "%s/data", b->dir);
    snprintf(b->settings.listen, sizeof(b->settings.listen), "127.0.0.1:0");
    b->settings.open_files = 16;
    b->settings.threads = 2;
    b->settings.queue = 16;
    b->settings.checkpoint_ms = 1000;
    bench_start_manager(b, "127.0.0.1:0");
}

static int bench_start_iod(struct bench *b, struct errmsg *err)
{
    memset(&b->iod, 0, sizeof(b->iod));
    b->iod.settings = &b->settings;
    b->iod.loop = &b->loop;
    b->iod.ready = on_ready;
    b->iod.failed = on_failed;
    b->iod.data = b;
    return iod_start(&b->iod, err);
}

static void bench_connect(struct bench *b)
{
    struct rpc_options options = { .role = ROLE_CLIENT, .node_id = 1, .program = "test" };

    assert_int_equal(rpc_new(&b->loop, &options, &b->client), 0);
    assert_int_equal(
        rpc_peer_new(b->client, rpc_server_address(b->iod.objects.listener), &b->peer, NULL), 0);
}

static void bench_until(struct bench *b, const unsigned *counter, unsigned value)
{
    while (*counter < value && b->failed == 0) {
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
    while (b->closed < target) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
}

/* Stops everything; the loop must run empty by itself. */
static void bench_stop(struct bench *b)
{
    iod_stop(&b->iod);
    bench_close(b, &b->client);
    bench_close(b, &b->manager);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    iod_release(&b->iod);
}

static void bench_free(struct bench *b)
{
    char command[128];

    assert_int_equal(uv_loop_close(&b->loop), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    assert_int_equal(system(command), 0);
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct bench *b = call->data;

    b->answered = true;
    b->status = status;
    b->body_count = reply->body_count;
    b->payload_count = reply->payload == NULL ? 0 : reply->payload->count;
    CHECK(b->body_count <= sizeof(b->body) && b->payload_count <= sizeof(b->payload));
    if (b->body_count > 0) {
        memcpy(b->body, reply->body, b->body_count);
    }
    if (b->payload_count > 0) {
        memcpy(b->payload, reply->payload->data, b->payload_count);
    }
    snprintf(b->text, sizeof(b->text), "%s", reply->text);
}

/* The status of a request; bytes go along as payload. */
static int bench_call(struct bench *b, enum message_type type, const ProtobufCMessage *request,
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

static int bench_write(struct bench *b, Morsel__ObjectId *object, uint64_t offset,
                       const void *bytes, size_t count, bool sync)
{
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    uint32_t crcs[4];

    crc32c_of_pieces(offset, bytes, count, crcs);
    request.object = object;
    request.offset = offset;
    request.sync = sync;
    request.crcs.data = (uint8_t *)crcs;
    request.crcs.len = crc32c_pieces(offset, count) * sizeof(crcs[0]);
    return bench_call(b, MSG_WRITE, &request.base, bytes, count);
}

static int bench_read(struct bench *b, Morsel__ObjectId *object, uint64_t offset, uint32_t length)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;

    request.object = object;
    request.offset = offset;
    request.length = length;
    return bench_call(b, MSG_READ, &request.base, NULL, 0);
}

/* ---- Tests ---- */

/* A bench with a running daemon and a client. */
static struct bench *bench_new(void)
{
    struct bench *b = malloc(sizeof(*b));
    struct errmsg err = { "" };

    CHECK(b != NULL);
    bench_init(b);
    assert_int_equal(bench_start_iod(b, &err), 0);
    bench_until(b, &b->ready, 1);
    bench_connect(b);
    return b;
}

static void bench_end(struct bench *b)
{
    bench_stop(b);
    bench_free(b);
    free(b);
}

static void writes_and_reads(void **state)
{
    struct bench *b = bench_new();
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__ReadReply *reply;
    uint32_t crc;

    (void)state;
    object.inode = 5;
    object.column = 3;
    assert_int_equal(bench_write(b, &object, 4090, "hello world", 11, true), 0);
    assert_int_equal(bench_read(b, &object, 4090, 100), 0);
    assert_int_equal(b->payload_count, 11);
    assert_memory_equal(b->payload, "hello world", 11);
    reply = rpc_unpack(&morsel__read_reply__descriptor, b->body, b->body_count);
    assert_int_equal(reply->crcs.len, 8);
    memcpy(&crc, reply->crcs.data, sizeof(crc));
    assert_int_equal(crc, crc32c(0, "hello ", 6));
    morsel__read_reply__free_unpacked(reply, NULL);
    assert_int_equal(bench_read(b, &object, 5000, 100), 0);
    assert_int_equal(b->payload_count, 0);
    bench_end(b);
}

static int bench_change(struct bench *b, Morsel__ObjectId *object, const char *bytes,
                        op_sequence number, op_sequence ended, bool again)
{
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    uint32_t crc = crc32c(0, (const uint8_t *)bytes, strlen(bytes));

    request.object = object;
    request.crcs.data = (uint8_t *)&crc;
    request.crcs.len = sizeof(crc);
    request.number = number;
    request.ended = ended;
    request.again = again;
    return bench_call(b, MSG_WRITE, &request.base, bytes, strlen(bytes));
}

static void assert_holds(struct bench *b, Morsel__ObjectId *object, const char *bytes)
{
    assert_int_equal(bench_read(b, object, 0, 100), 0);
    assert_int_equal(b->payload_count, strlen(bytes));
    assert_memory_equal(b->payload, bytes, strlen(bytes));
}

/* What comes again under its number is answered, and not done. */
static void a_change_takes_effect_once(void **state)
{
    struct bench *b = bench_new();
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__PunchRequest punch = MORSEL__PUNCH_REQUEST__INIT;
    Morsel__Done *done;
    uint64_t verifier;

    (void)state;
    object.inode = 5;
    assert_int_equal(bench_change(b, &object, "first", 1, 0, false), 0);
    done = rpc_unpack(&morsel__done__descriptor, b->body, b->body_count);
    verifier = done->verifier;
    morsel__done__free_unpacked(done, NULL);
    assert_true(verifier != 0);
    assert_int_equal(bench_change(b, &object, "other", 2, 0, false), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(bench_change(b, &object, "first", 1, 0, again != 0), 0);
        done = rpc_unpack(&morsel__done__descriptor, b->body, b->body_count);
        assert_true(done->verifier == verifier);
        morsel__done__free_unpacked(done, NULL);
        assert_holds(b, &object, "other");
    }
    /* Nobody waits for it any more. */
    assert_int_equal(bench_change(b, &object, "third", 3, 2, false), 0);
    assert_int_equal(bench_change(b, &object, "first", 1, 0, false), MORSEL_UNSURE);
    assert_holds(b, &object, "third");
    /* A punch that came before a write. */
    punch.object = &object;
    punch.length = 5;
    punch.number = 4;
    assert_int_equal(bench_call(b, MSG_PUNCH, &punch.base, NULL, 0), 0);
    assert_int_equal(bench_change(b, &object, "again", 5, 0, false), 0);
    punch.again = true;
    assert_int_equal(bench_call(b, MSG_PUNCH, &punch.base, NULL, 0), 0);
    assert_holds(b, &object, "again");
    /* Without numbers, as older clients have none, everything is carried out. */
    assert_int_equal(bench_change(b, &object, "plain", 0, 0, false), 0);
    assert_holds(b, &object, "plain");
    bench_end(b);
}

static void says_what_is_there(void **state)
{
    struct bench *b = bench_new();
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__TruncateRequest truncate = MORSEL__TRUNCATE_REQUEST__INIT;
    Morsel__ObjectStatRequest stat = MORSEL__OBJECT_STAT_REQUEST__INIT;
    Morsel__SeekRequest seek = MORSEL__SEEK_REQUEST__INIT;
    Morsel__ObjectStatReply *stat_reply;
    Morsel__SeekReply *seek_reply;

    (void)state;
    object.inode = 5;
    assert_int_equal(bench_write(b, &object, 4090, "hello world", 11, true), 0);
    truncate.object = &object;
    truncate.size = 4092;
    assert_int_equal(bench_call(b, MSG_TRUNCATE, &truncate.base, NULL, 0), 0);
    stat.object = &object;
    assert_int_equal(bench_call(b, MSG_OBJECT_STAT, &stat.base, NULL, 0), 0);
    stat_reply = rpc_unpack(&morsel__object_stat_reply__descriptor, b->body, b->body_count);
    assert_true(stat_reply->exists);
    assert_int_equal(stat_reply->size, 4092);
    morsel__object_stat_reply__free_unpacked(stat_reply, NULL);
    seek.object = &object;
    seek.hole = true;
    assert_int_equal(bench_call(b, MSG_SEEK, &seek.base, NULL, 0), 0);
    seek_reply = rpc_unpack(&morsel__seek_reply__descriptor, b->body, b->body_count);
    assert_true(seek_reply->found);
    assert_int_equal(seek_reply->offset, 4092);
    morsel__seek_reply__free_unpacked(seek_reply, NULL);
    bench_end(b);
}

static void lists_and_counts(void **state)
{
    struct bench *b = bench_new();
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__ObjectListRequest list = MORSEL__OBJECT_LIST_REQUEST__INIT;
    Morsel__Empty empty = MORSEL__EMPTY__INIT;
    Morsel__ObjectListReply *list_reply;
    Morsel__Statistics *statistics;
    uint8_t cursor[8];

    (void)state;
    for (object.inode = 5; object.inode < 8; object.inode++) {
        assert_int_equal(bench_write(b, &object, 0, "x", 1, false), 0);
    }
    list.count_max = 2;
    assert_int_equal(bench_call(b, MSG_OBJECT_LIST, &list.base, NULL, 0), 0);
    list_reply = rpc_unpack(&morsel__object_list_reply__descriptor, b->body, b->body_count);
    assert_int_equal(list_reply->n_objects, 2);
    assert_int_equal(list_reply->n_bytes, 0); /* Nobody has asked for them. */
    assert_int_equal(list_reply->cursor.len, sizeof(cursor));
    memcpy(cursor, list_reply->cursor.data, sizeof(cursor));
    morsel__object_list_reply__free_unpacked(list_reply, NULL);
    list.cursor.data = cursor;
    list.cursor.len = sizeof(cursor);
    list.with_bytes = true;
    assert_int_equal(bench_call(b, MSG_OBJECT_LIST, &list.base, NULL, 0), 0);
    list_reply = rpc_unpack(&morsel__object_list_reply__descriptor, b->body, b->body_count);
    assert_int_equal(list_reply->n_objects, 1);
    assert_int_equal(list_reply->n_bytes, 1);
    assert_true(list_reply->bytes[0] > 0);
    assert_int_equal(list_reply->cursor.len, 0);
    morsel__object_list_reply__free_unpacked(list_reply, NULL);
    assert_int_equal(bench_call(b, MSG_STATISTICS, &empty.base, NULL, 0), 0);
    statistics = rpc_unpack(&morsel__statistics__descriptor, b->body, b->body_count);
    assert_string_equal(statistics->counters[0]->name, "write.served");
    assert_int_equal(statistics->counters[0]->value, 3);
    morsel__statistics__free_unpacked(statistics, NULL);
    bench_end(b);
}

static void refuses_bad_requests(void **state)
{
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__WriteRequest write = MORSEL__WRITE_REQUEST__INIT;
    Morsel__TruncateRequest truncate = MORSEL__TRUNCATE_REQUEST__INIT;
    Morsel__Empty empty = MORSEL__EMPTY__INIT;
    struct bench *b = bench_new();
    uint32_t crc = 1;

    (void)state;
    object.inode = 5;
    assert_int_equal(bench_read(b, &object, 0, FRAME_PAYLOAD_BYTES_MAX + 1), MORSEL_TOO_LARGE);
    assert_int_equal(bench_read(b, NULL, 0, 10), MORSEL_INVAL);
    assert_int_equal(bench_read(b, &object, UINT64_MAX, 10), MORSEL_FBIG);
    write.object = &object;
    assert_int_equal(bench_call(b, MSG_WRITE, &write.base, NULL, 0), MORSEL_MALFORMED);
    assert_int_equal(bench_call(b, MSG_WRITE, &write.base, "x", 1), MORSEL_MALFORMED);
    write.crcs.data = (uint8_t *)&crc;
    write.crcs.len = sizeof(crc);
    assert_int_equal(bench_call(b, MSG_WRITE, &write.base, "x", 1), MORSEL_CHECKSUM);
    assert_true(b->text[0] != 0);
    truncate.object = &object;
    truncate.size = UINT64_MAX;
    assert_int_equal(bench_call(b, MSG_TRUNCATE, &truncate.base, NULL, 0), MORSEL_FBIG);
    assert_int_equal(bench_call(b, MSG_LOOKUP, &empty.base, NULL, 0), MORSEL_UNKNOWN_TYPE);
    object.inode = 0;
    assert_int_equal(bench_write(b, &object, 0, "x", 1, false), MORSEL_INVAL);
    bench_end(b);
}

static void belongs_to_its_manager(void **state)
{
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    struct bench *b = bench_new();
    struct errmsg err = { "" };
    uint8_t token[16];
    char address[64];

    (void)state;
    assert_int_equal(b->id_asked_for, 0);
    memcpy(token, b->token, sizeof(token));

    /* Deletes what it is told to, and says so. */
    object.inode = 9;
    object.column = 1;
    assert_int_equal(bench_write(b, &object, 0, "garbage", 7, false), 0);
    b->collect = (struct object_id){ .inode = 9, .column = 1 };
    while (b->collected.inode == 0) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    assert_int_equal(b->collected.inode, 9);
    assert_int_equal(bench_read(b, &object, 0, 7), 0);
    assert_int_equal(b->payload_count, 0);

    /* Serves on while the manager is away, and registers again when it is back. */
    snprintf(address, sizeof(address), "%s", rpc_server_address(b->manager_server));
    bench_close(b, &b->manager);
    assert_int_equal(bench_write(b, &object, 0, "alone", 5, false), 0);
    bench_start_manager(b, address);
    bench_until(b, &b->registrations, 2);
    assert_int_equal(b->id_asked_for, 7);
    assert_memory_equal(b->token, token, sizeof(token));
    bench_until(b, &b->heartbeats, b->heartbeats + 2);

    /* Is the same after a restart, and serves before it has found its manager. */
    bench_stop(b);
    b->ready = 0;
    assert_int_equal(bench_start_iod(b, &err), 0);
    assert_int_equal(b->ready, 1);
    bench_connect(b);
    assert_int_equal(bench_read(b, &object, 0, 7), 0);
    assert_memory_equal(b->payload, "alone", 5);
    bench_stop(b);

    /* Will have nothing to do with another cluster. */
    b->cluster.bytes[0]++;
    bench_start_manager(b, address);
    assert_int_equal(bench_start_iod(b, &err), 0);
    bench_until(b, &b->failed, 1);
    assert_int_equal(b->failed, 1);
    bench_stop(b);
    bench_free(b);
    free(b);
}

static void on_stopped(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    (void)call;
    (void)reply;
    CHECK(status == 0 || status == MORSEL_SHUTDOWN); /* Our own, when the client goes. */
}

/* Stopped with requests in every state: nobody is told that they failed, for their callers will ask
 * again. */
static void stops_in_mid_work(void **state)
{
    enum { CALLS = 64 };
    static struct rpc_call calls[CALLS];
    struct bench *b = bench_new();
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    Morsel__SyncRequest request = MORSEL__SYNC_REQUEST__INIT;

    (void)state;
    request.object = &object;
    b->settings.queue = CALLS;
    b->iod.objects.jobs.waiting_max = CALLS;
    for (unsigned i = 0; i < CALLS; i++) {
        object.inode = 1 + i % 3;
        calls[i].data = b;
        assert_int_equal(bench_write(b, &object, 0, "some bytes", 10, false), 0);
        assert_int_equal(rpc_call_start(&calls[i], b->peer, MSG_SYNC, &request.base, NULL, 0,
                                        CALL_MS, on_stopped),
                         0);
    }
    while (b->iod.objects.jobs.running == 0) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    bench_end(b);
}

static void refuses_a_port_in_use(void **state)
{
    struct bench *b = malloc(sizeof(*b));
    struct errmsg err = { "" };

    (void)state;
    assert_non_null(b);
    bench_init(b);
    snprintf(b->settings.listen, sizeof(b->settings.listen), "%s", b->settings.manager);
    assert_int_equal(bench_start_iod(b, &err), MORSEL_BUSY);
    assert_true(err.text[0] != 0);
    bench_stop(b);
    assert_int_not_equal(uv_fs_access(NULL, &(uv_fs_t){ 0 }, b->settings.data_dir, 0, NULL), 0);
    bench_free(b);
    free(b);
}

static void refuses_addresses_that_lead_nowhere(void **state)
{
    struct bench *b = malloc(sizeof(*b));
    struct errmsg err = { "" };

    (void)state;
    CHECK(b != NULL);
    bench_init(b);
    snprintf(b->settings.listen, sizeof(b->settings.listen), "0.0.0.0:0");
    assert_int_equal(bench_start_iod(b, &err), MORSEL_INVAL);
    assert_non_null(strstr(err.text, "advertise"));
    bench_stop(b);
    bench_start_manager(b, "127.0.0.1:0");
    snprintf(b->settings.advertise, sizeof(b->settings.advertise), "nowhere");
    assert_int_equal(bench_start_iod(b, &err), MORSEL_INVAL);
    bench_end(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads),
        cmocka_unit_test(a_change_takes_effect_once),
        cmocka_unit_test(says_what_is_there),
        cmocka_unit_test(lists_and_counts),
        cmocka_unit_test(refuses_bad_requests),
        cmocka_unit_test(belongs_to_its_manager),
        cmocka_unit_test(stops_in_mid_work),
        cmocka_unit_test(refuses_addresses_that_lead_nowhere),
        cmocka_unit_test(refuses_a_port_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
