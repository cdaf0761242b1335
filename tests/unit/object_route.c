/* Requests for objects that have copies on several servers: whom a storage server gives them to, with
 * what, and what it refuses. Those for other objects beside them. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "common/serve/object_handler_uv.h"
#include "common/serve/object_server_uv.h"
#include "data.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALL_MS = 20000, GROUP = 3, COLUMN = 1 };

struct fixture
{
    uv_loop_t loop;
    char dir[64], data[80];
    struct object_server server;
    struct rpc *client;
    struct rpc_peer *peer;
    struct rpc_call call;
    unsigned answered;
    int status;
    char text[256];
    uint8_t body[256];
    size_t body_count, payload_count;
    Morsel__ObjectId plain, placed; /* One copy; of a group. */

    /* What was routed last. */
    unsigned routed;
    enum object_use use;
    struct object_reach reach;
    struct repeats_change change;
    size_t came; /* Bytes. */
};

static void route(void *data, struct job *job, const struct object_handler *handler)
{
    struct fixture *f = data;

    f->routed++;
    f->use = handler->use;
    f->change = job->change;
    f->came = job->request->payload != NULL ? job->request->payload->count : 0;
    job->status = handler->check(job);
    handler->reach(job, &f->reach);
    if (job->status == MORSEL_OK) {
        job->status = MORSEL_NOT_HERE;
        errmsg_set(&job->err, "routed");
    }
    object_done(job, handler);
}

static void server_start(struct fixture *f)
{
    struct errmsg err = { "" };

    f->server.loop = &f->loop;
    f->server.options = (struct object_server_options){ .kind = "iod",
                                                        .program = "test",
                                                        .role = ROLE_IOD,
                                                        .data_dir = f->data,
                                                        .listen = "127.0.0.1:0",
                                                        .manager = "127.0.0.1:1",
                                                        .advertise = "",
                                                        .open_files = 16,
                                                        .threads = 2,
                                                        .queue = 16 };
    f->server.route = route;
    f->server.route_data = f;
    if (object_server_start(&f->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
}

static int setup(void **state)
{
    struct rpc_options options = { .role = ROLE_CLIENT, .node_id = 1, .program = "test" };
    struct fixture *f = calloc(1, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/morsel-route-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->data, sizeof(f->data), "%s/data", f->dir);
    server_start(f);
    assert_int_equal(rpc_new(&f->loop, &options, &f->client), 0);
    assert_int_equal(rpc_peer_new(f->client, object_server_address(&f->server), &f->peer, NULL), 0);
    morsel__object_id__init(&f->plain);
    morsel__object_id__init(&f->placed);
    f->plain.inode = f->placed.inode = 5;
    f->plain.column = COLUMN;
    f->placed.column = placing_object(GROUP, COLUMN);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];

    rpc_close(f->client, NULL, NULL);
    object_server_stop(&f->server);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    object_server_release(&f->server);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct fixture *f = call->data;

    f->answered = 1;
    f->status = status;
    assert_true(reply->body_count <= sizeof(f->body));
    f->body_count = reply->body_count;
    memcpy(f->body, reply->body_count > 0 ? reply->body : f->body, reply->body_count);
    f->payload_count = reply->payload != NULL ? reply->payload->count : 0;
    (void)snprintf(f->text, sizeof(f->text), "%s", reply->text);
}

static int ask(struct fixture *f, enum message_type type, const ProtobufCMessage *request,
               const char *bytes)
{
    struct rpc_piece piece = { .count = strlen(bytes) };

    if (piece.count > 0) {
        piece.payload = payload_new(rpc_payloads(f->client), piece.count);
        memcpy(piece.payload->data, bytes, piece.count);
    }
    f->answered = 0;
    f->call = (struct rpc_call){ .data = f };
    assert_int_equal(rpc_call_start(&f->call, f->peer, type, request, &piece, piece.count > 0,
                                    CALL_MS, on_answer),
                     0);
    payload_drop(piece.payload);
    while (f->answered == 0) {
        assert_int_not_equal(uv_run(&f->loop, UV_RUN_ONCE), 0);
    }
    return f->status;
}

static int write_at(struct fixture *f, Morsel__ObjectId *object, uint64_t offset, const char *bytes,
                    op_sequence number)
{
    Morsel__WriteRequest m = MORSEL__WRITE_REQUEST__INIT;
    uint32_t crcs[4];

    crc32c_of_pieces(offset, (const uint8_t *)bytes, strlen(bytes), crcs);
    m.object = object;
    m.offset = offset;
    m.crcs.data = (uint8_t *)crcs;
    m.crcs.len = crc32c_pieces(offset, strlen(bytes)) * sizeof(crcs[0]);
    m.number = number;
    m.ended = number > 0 ? number - 1 : 0;
    m.verifier = 77;
    return ask(f, MSG_WRITE, &m.base, bytes);
}

static size_t bytes_of(struct fixture *f, Morsel__ObjectId *object)
{
    Morsel__ReadRequest m = MORSEL__READ_REQUEST__INIT;

    m.object = object;
    m.length = 100;
    assert_int_equal(ask(f, MSG_READ, &m.base, ""), 0);
    return f->payload_count;
}

/* How many objects the store has, whosever they are. */
static size_t objects(struct fixture *f)
{
    Morsel__ObjectListRequest m = MORSEL__OBJECT_LIST_REQUEST__INIT;
    Morsel__ObjectListReply *reply;
    size_t count;

    m.count_max = 10;
    assert_int_equal(ask(f, MSG_OBJECT_LIST, &m.base, ""), 0);
    reply = rpc_unpack(&morsel__object_list_reply__descriptor, f->body, f->body_count);
    assert_non_null(reply);
    count = reply->n_objects;
    morsel__object_list_reply__free_unpacked(reply, NULL);
    return count;
}

static void assert_routed(struct fixture *f, enum object_use use, uint64_t start, uint64_t end)
{
    assert_int_equal(f->status, MORSEL_NOT_HERE);
    assert_string_equal(f->text, "routed");
    assert_int_equal(f->routed, 1);
    assert_int_equal(f->use, use);
    assert_int_equal(f->reach.object.inode, f->placed.inode);
    assert_int_equal(f->reach.object.column, f->placed.column);
    assert_true(f->reach.start == start && f->reach.end == end);
    f->routed = 0;
}

/* ---- Tests ---- */

static void changes_go_to_the_copy(void **state)
{
    struct fixture *f = *state;
    Morsel__TruncateRequest truncate = MORSEL__TRUNCATE_REQUEST__INIT;
    Morsel__PunchRequest punch = MORSEL__PUNCH_REQUEST__INIT;
    Morsel__AllocateRequest allocate = MORSEL__ALLOCATE_REQUEST__INIT;

    (void)write_at(f, &f->placed, 4090, "hello world", 8);
    assert_int_equal(f->came, 11);
    assert_int_equal(f->change.number, 8);
    assert_int_equal(f->change.ended, 7);
    assert_int_equal(f->change.verifier, 77);
    assert_routed(f, OBJECT_USE_CHANGE, 4090, 4101);
    truncate.object = punch.object = allocate.object = &f->placed;
    truncate.size = 10;
    truncate.number = 9;
    truncate.verifier = 78;
    (void)ask(f, MSG_TRUNCATE, &truncate.base, "");
    assert_int_equal(f->change.number, 9);
    assert_int_equal(f->change.verifier, 78);
    assert_routed(f, OBJECT_USE_CHANGE, 0, OBJECT_BYTES_MAX);
    punch.offset = 100;
    punch.length = 50;
    (void)ask(f, MSG_PUNCH, &punch.base, "");
    assert_routed(f, OBJECT_USE_CHANGE, 100, 150);
    allocate.offset = 100;
    allocate.length = 50;
    (void)ask(f, MSG_ALLOCATE, &allocate.base, "");
    assert_routed(f, OBJECT_USE_CHANGE, 0, OBJECT_BYTES_MAX);
    assert_int_equal(objects(f), 0);
}

static void questions_go_to_the_copy(void **state)
{
    struct fixture *f = *state;
    Morsel__ReadRequest read = MORSEL__READ_REQUEST__INIT;
    Morsel__SeekRequest seek = MORSEL__SEEK_REQUEST__INIT;
    Morsel__ObjectStatRequest stat = MORSEL__OBJECT_STAT_REQUEST__INIT;
    Morsel__SyncRequest sync = MORSEL__SYNC_REQUEST__INIT;
    Morsel__DeleteRequest delete = MORSEL__DELETE_REQUEST__INIT;
    Morsel__ObjectId *one = &f->placed;

    read.object = seek.object = stat.object = sync.object = &f->placed;
    read.offset = 4096;
    read.length = 100;
    (void)ask(f, MSG_READ, &read.base, "");
    assert_routed(f, OBJECT_USE_READ, 4096, 4196);
    seek.offset = 7;
    (void)ask(f, MSG_SEEK, &seek.base, "");
    assert_routed(f, OBJECT_USE_READ, 0, OBJECT_BYTES_MAX);
    (void)ask(f, MSG_OBJECT_STAT, &stat.base, "");
    assert_routed(f, OBJECT_USE_READ, 0, OBJECT_BYTES_MAX);
    (void)ask(f, MSG_SYNC, &sync.base, "");
    assert_routed(f, OBJECT_USE_SYNC, 0, OBJECT_BYTES_MAX);
    delete.objects = &one;
    delete.n_objects = 1;
    (void)ask(f, MSG_DELETE, &delete.base, "");
    assert_routed(f, OBJECT_USE_DELETE, 0, OBJECT_BYTES_MAX);
}

/* Numbers of changes of groups are others than those of the server. */
static void one_copy_goes_its_own_way(void **state)
{
    struct fixture *f = *state;

    (void)write_at(f, &f->placed, 0, "hello", 1);
    assert_routed(f, OBJECT_USE_CHANGE, 0, 5);
    assert_int_equal(write_at(f, &f->plain, 0, "hello", 1), 0);
    (void)write_at(f, &f->placed, 0, "hello world", 9);
    assert_routed(f, OBJECT_USE_CHANGE, 0, 11);
    assert_int_equal(write_at(f, &f->plain, 0, "hello world", 2), 0);
    assert_int_equal(bytes_of(f, &f->plain), 11);
    assert_int_equal(f->routed, 0);
    assert_int_equal(objects(f), 1);
}

/* What is too long for an object the host of the copy refuses: the end is seen to lie before the
 * start. */
static void nonsense_can_be_seen(void **state)
{
    struct fixture *f = *state;
    Morsel__PunchRequest punch = MORSEL__PUNCH_REQUEST__INIT;

    assert_int_equal(write_at(f, &f->placed, UINT64_MAX - 2, "hello", 1), MORSEL_NOT_HERE);
    assert_true(f->reach.start >= f->reach.end);
    punch.object = &f->placed;
    punch.offset = 10;
    punch.length = UINT64_MAX;
    assert_int_equal(ask(f, MSG_PUNCH, &punch.base, ""), MORSEL_NOT_HERE);
    assert_true(f->reach.start >= f->reach.end);
    f->placed.inode = 0;
    assert_int_equal(write_at(f, &f->placed, 0, "hello", 1), MORSEL_INVAL);
    assert_int_equal(f->routed, 3);
    punch.object = NULL; /* Nobody's. */
    assert_int_equal(ask(f, MSG_PUNCH, &punch.base, ""), MORSEL_INVAL);
    assert_int_equal(f->routed, 3);
}

static int copy(struct fixture *f, Morsel__ObjectId *from, Morsel__ObjectId *to)
{
    Morsel__CopyRequest m = MORSEL__COPY_REQUEST__INIT;

    m.from = from;
    m.to = to;
    m.length = 5;
    return ask(f, MSG_COPY, &m.base, "");
}

/* They may lie on different servers: what is not routed is refused, and what is routed is checked there. */
static void copies_between_servers_are_not_made(void **state)
{
    Morsel__ObjectId other = MORSEL__OBJECT_ID__INIT;
    struct fixture *f = *state;

    other.inode = 77;
    other.column = f->placed.column;
    assert_int_equal(write_at(f, &f->plain, 0, "hello", 1), 0);
    assert_int_equal(copy(f, &f->placed, &f->plain), MORSEL_NOTSUP);
    assert_non_null(strstr(f->text, "read and write them"));
    assert_int_equal(copy(f, &f->placed, NULL), MORSEL_INVAL);
    assert_int_equal(f->routed, 0);
    assert_int_equal(copy(f, &other, &f->placed), MORSEL_NOT_HERE);
    assert_routed(f, OBJECT_USE_CHANGE, 0, 5);
    assert_int_equal(f->reach.source.inode, 77);
    assert_int_equal(f->reach.source_end, 5);
    assert_int_equal(f->reach.length, 5);
    assert_int_equal(bytes_of(f, &f->plain), 5);
    assert_int_equal(objects(f), 1);
}

/* Not behind the back of the group: nothing of the list is deleted. */
static void lists_to_delete_have_one_copy_each(void **state)
{
    struct fixture *f = *state;
    Morsel__DeleteRequest m = MORSEL__DELETE_REQUEST__INIT;
    Morsel__ObjectId *two[] = { &f->plain, &f->placed };

    assert_int_equal(write_at(f, &f->plain, 0, "hello", 1), 0);
    m.objects = two;
    m.n_objects = 2;
    assert_int_equal(ask(f, MSG_DELETE, &m.base, ""), MORSEL_INVAL);
    assert_non_null(strstr(f->text, "copies"));
    assert_int_equal(objects(f), 1);
    two[0] = &f->placed;
    two[1] = &f->plain;
    assert_int_equal(ask(f, MSG_DELETE, &m.base, ""), MORSEL_INVAL);
    assert_int_equal(objects(f), 1);
    m.n_objects = 1;
    two[0] = &f->plain;
    assert_int_equal(ask(f, MSG_DELETE, &m.base, ""), 0);
    assert_int_equal(objects(f), 0);
}

static void a_server_without_copies_says_so(void **state)
{
    struct fixture *f = *state;
    Morsel__ReadRequest read = MORSEL__READ_REQUEST__INIT;

    f->server.route = NULL;
    assert_int_equal(write_at(f, &f->placed, 0, "hello", 1), MORSEL_NOT_HERE);
    assert_non_null(strstr(f->text, "no copies"));
    read.object = &f->placed;
    read.length = 5;
    assert_int_equal(ask(f, MSG_READ, &read.base, ""), MORSEL_NOT_HERE);
    assert_int_equal(objects(f), 0);
    assert_int_equal(write_at(f, &f->plain, 0, "hello", 1), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(changes_go_to_the_copy),
        TEST(questions_go_to_the_copy),
        TEST(one_copy_goes_its_own_way),
        TEST(nonsense_can_be_seen),
        TEST(copies_between_servers_are_not_made),
        TEST(lists_to_delete_have_one_copy_each),
        TEST(a_server_without_copies_says_so),
    };

    return cmocka_run_group_tests_name("object_route", tests, NULL, NULL);
}
