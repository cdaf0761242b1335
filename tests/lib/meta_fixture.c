#include "tests/lib/meta_fixture.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Running the manager ---- */

void meta_up(struct fixture *f)
{
    struct rpc_options options = { .role = ROLE_MANAGER, .program = "test" };
    struct rpc_server_hooks hooks;
    struct errmsg err = { "" };

    f->meta =
        calloc(1, sizeof(*f->meta)); /* cmocka reads on behind what a test frees of its setup. */
    assert_non_null(f->meta);
    f->meta->settings = &f->settings;
    f->meta->loop = &f->loop;
    hooks = meta_hooks(f->meta);
    assert_int_equal(rpc_new(&f->loop, &options, &f->meta->rpc), 0);
    assert_int_equal(rpc_listen(f->meta->rpc, f->settings.listen, &hooks, &f->meta->server, &err),
                     0);
    (void)snprintf(f->settings.listen, sizeof(f->settings.listen), "%s",
                   rpc_server_address(f->meta->server)); /* The next start takes the same port. */
    if (datadir_open(&f->datadir, f->settings.data_dir, "meta", &err) != 0 ||
        meta_open(f->meta, &f->datadir, &err) != 0) {
        fail_msg("%s", err.text);
    }
    meta_start(f->meta);
}

static void on_closed(void *data)
{
    struct fixture *f = data;

    f->closing--;
}

void wait_closed(struct fixture *f)
{
    while (f->closing > 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
}

void meta_down(struct fixture *f)
{
    f->closing = 1;
    meta_close(f->meta, on_closed, f);
    wait_closed(f);
    f->closing = 1;
    rpc_close(f->meta->rpc, on_closed, f);
    wait_closed(f);
    meta_free(f->meta);
    datadir_close(&f->datadir);
    free(f->meta);
}

int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    (void)snprintf(f->root, sizeof(f->root), "/tmp/morsel-meta-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    (void)snprintf(f->settings.data_dir, sizeof(f->settings.data_dir), "%s/meta", f->root);
    (void)snprintf(f->settings.listen, sizeof(f->settings.listen), "127.0.0.1:0");
    f->settings.session_ms = 30000;
    f->settings.heartbeat_ms = 60000;
    f->settings.donor_report_ms = 20000;
    f->settings.donor_look_ms = 60000;
    f->settings.repair_after_ms = 900000;
    (void)snprintf(f->settings.replicas, sizeof(f->settings.replicas), "1");
    assert_int_equal(uv_loop_init(&f->loop), 0);
    meta_up(f);
    *state = f;
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];
    bool whole = f->clients == 0;

    if (whole) {
        meta_down(f);
        assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
        assert_int_equal(uv_loop_close(&f->loop), 0);
    }
    (void)snprintf(command, sizeof(command), "rm -rf %s", f->root);
    assert_int_equal(system(command), 0);
    if (!whole) {
        return -1;
    }
    test_free(f);
    return 0;
}

/* ---- Calling it ---- */

static void on_reply(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct waiting_call *w = CONTAINER_OF(call, struct waiting_call, call);

    w->done = true;
    w->status = status;
    if (status == 0 && w->reply_type != NULL) {
        w->reply = rpc_unpack(w->reply_type, reply->body, reply->body_count);
        assert_non_null(w->reply);
    }
}

void start(struct client *c, struct waiting_call *w, enum message_type type,
           const ProtobufCMessage *request)
{
    memset(w, 0, sizeof(*w));
    assert_int_equal(rpc_call_start(&w->call, c->peer, type, request, NULL, 0, CALL_MS, on_reply),
                     0);
}

int call(struct client *c, enum message_type type, const ProtobufCMessage *request,
         const ProtobufCMessageDescriptor *reply_type, void *reply)
{
    struct waiting_call w;

    start(c, &w, type, request);
    w.reply_type = reply_type;
    while (!w.done) {
        uv_run(&c->f->loop, UV_RUN_ONCE);
    }
    if (reply != NULL) {
        *(void **)reply = w.reply;
    } else if (w.reply != NULL) {
        protobuf_c_message_free_unpacked(w.reply, NULL);
    }
    return w.status;
}

void client_open(struct client *c, struct fixture *f, enum rpc_role role, uint64_t id)
{
    struct rpc_options options = { .role = role, .node_id = id, .program = "test" };
    struct errmsg err;

    *c = (struct client){ .f = f, .id = id };
    assert_int_equal(rpc_new(&f->loop, &options, &c->rpc), 0);
    assert_int_equal(rpc_peer_new(c->rpc, f->settings.listen, &c->peer, &err), 0);
    f->clients++;
}

void client_close(struct client *c)
{
    c->f->clients--;
    c->f->closing = 1;
    rpc_close(c->rpc, on_closed, c->f);
    wait_closed(c->f);
}

int ask_session(struct client *c)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;

    request.cache = c->caches;
    request.pauses = c->pauses;
    return call(c, MSG_SESSION, &request.base, NULL, NULL);
}

void client_join(struct client *c, struct fixture *f, uint64_t id)
{
    client_open(c, f, ROLE_CLIENT, id);
    assert_int_equal(ask_session(c), 0);
}

Morsel__OpId next_op(struct client *c)
{
    Morsel__OpId op = MORSEL__OP_ID__INIT;

    op.client = c->id;
    op.sequence = ++c->sequence;
    op.answered = c->sequence - 1;
    return op;
}

ProtobufCBinaryData bytes(const char *s)
{
    return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

uint32_t register_server(struct client *c, uint8_t number)
{
    Morsel__RegisterRequest request = MORSEL__REGISTER_REQUEST__INIT;
    Morsel__RegisterReply *reply;
    uint8_t token[16] = { number };
    char address[32];
    uint32_t id;

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", 10000U + number);
    request.token = (ProtobufCBinaryData){ sizeof(token), token };
    request.address = address;
    request.bytes_total = request.bytes_free = UINT64_C(1) << 40;
    assert_int_equal(
        call(c, MSG_REGISTER, &request.base, &morsel__register_reply__descriptor, &reply), 0);
    id = reply->id;
    morsel__register_reply__free_unpacked(reply, NULL);
    return id;
}

int make_with(struct client *c, Morsel__OpId op, inode_id parent, const char *name, uint32_t mode,
              bool open, inode_id *inode)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;
    Morsel__Node *node = NULL;
    int rv;

    request.op = &op;
    request.who = &who;
    request.parent = parent;
    request.name = bytes(name);
    request.mode = mode;
    request.open = open;
    rv = call(c, MSG_CREATE, &request.base, &morsel__node__descriptor, &node);
    if (rv == 0) {
        *inode = node->attr->inode;
        morsel__node__free_unpacked(node, NULL);
    }
    return rv;
}

inode_id make(struct client *c, inode_id parent, const char *name, uint32_t mode, bool open)
{
    inode_id inode = 0;

    assert_int_equal(make_with(c, next_op(c), parent, name, mode, open, &inode), 0);
    return inode;
}

int unlink_with(struct client *c, Morsel__OpId op, const char *name, Morsel__Removed **reply)
{
    Morsel__UnlinkRequest request = MORSEL__UNLINK_REQUEST__INIT;

    request.op = &op;
    request.parent = INODE_ROOT;
    request.name = bytes(name);
    return call(c, MSG_UNLINK, &request.base, &morsel__removed__descriptor, reply);
}

int lookup(struct client *c, const char *name, enum lease_mode *lease)
{
    Morsel__LookupRequest request = MORSEL__LOOKUP_REQUEST__INIT;
    Morsel__Node *node;
    int rv;

    *lease = LEASE_NONE;
    request.parent = INODE_ROOT;
    request.name = bytes(name);
    rv = call(c, MSG_LOOKUP, &request.base, &morsel__node__descriptor, &node);
    if (rv == 0) {
        *lease = node->lease;
        morsel__node__free_unpacked(node, NULL);
    }
    return rv;
}

void wrote(struct client *c, inode_id inode, uint64_t size)
{
    Morsel__SizeReportRequest request = MORSEL__SIZE_REPORT_REQUEST__INIT;
    Morsel__OpId op = next_op(c);

    request.op = &op;
    request.inode = inode;
    request.size = size;
    request.durable = true;
    assert_int_equal(call(c, MSG_SIZE_REPORT, &request.base, NULL, NULL), 0);
}

uint64_t garbage_of(struct fixture *f)
{
    return ns_counters(f->meta->ns)->garbage;
}

size_t beat(struct client *iod, uint32_t id, Morsel__HeartbeatReply **last)
{
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    Morsel__HeartbeatReply *reply;

    request.id = id;
    if (*last != NULL) {
        request.n_collected_inode = (*last)->n_collect_inode;
        request.collected_inode = (*last)->collect_inode;
        request.n_collected_column = (*last)->n_collect_column;
        request.collected_column = (*last)->collect_column;
    }
    assert_int_equal(
        call(iod, MSG_HEARTBEAT, &request.base, &morsel__heartbeat_reply__descriptor, &reply), 0);
    if (*last != NULL) {
        morsel__heartbeat_reply__free_unpacked(*last, NULL);
    }
    *last = reply;
    return reply->n_collect_inode;
}
