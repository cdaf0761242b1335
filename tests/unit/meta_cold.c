/* The manager when nothing is in memory: each request waits for the disk as often as it has to, takes
 * effect once, and says what it says otherwise (src/meta/storage/loads_uv.h). */
#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/service/request_uv.h"
#include "tests/lib/meta_fixture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 300, CLIENT = 7, KEYS_MAX = 4096 };

/* ---- A store that has nothing in memory but what it was made to load ---- */

/* In front of the real one, which has much in memory at times of its own choice. */
static struct
{
    int (*get)(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err);
    void (*load)(struct kv *kv, const struct kv_wanted *wanted);
    uv_mutex_t lock;
    struct buf keys[KEYS_MAX];
    size_t count;
    bool gated; /* Each load waits for a word of the test, in the order in which they came. */
    uv_cond_t gate;
    unsigned come, let_in;
} cold;

static bool is_loaded(struct slice key)
{
    bool found = false;

    uv_mutex_lock(&cold.lock);
    for (size_t i = 0; i < cold.count && !found; i++) {
        found = slice_compare(buf_slice(&cold.keys[i]), key) == 0;
    }
    uv_mutex_unlock(&cold.lock);
    return found;
}

static void cold_load(struct kv *kv, const struct kv_wanted *wanted)
{
    size_t offset = 0;
    uint32_t records;
    struct slice key;

    uv_mutex_lock(&cold.lock);
    if (cold.gated) {
        unsigned number = ++cold.come;

        while (cold.let_in < number) {
            uv_cond_wait(&cold.gate, &cold.lock);
        }
    }
    uv_mutex_unlock(&cold.lock);
    cold.load(kv, wanted);
    uv_mutex_lock(&cold.lock);
    while (kv_wanted_next(wanted, &offset, &key, &records)) {
        if (records == 0) {
            CHECK(cold.count < KEYS_MAX);
            buf_put(&cold.keys[cold.count++], key.data, key.count);
        }
    }
    uv_mutex_unlock(&cold.lock);
}

static int cold_get(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err)
{
    if (kv->wanted != NULL && !is_loaded(key)) {
        return kv_want(kv, key);
    }
    return cold.get(kv, key, value, err);
}

static void forget_keys(void)
{
    while (cold.count > 0) {
        buf_free(&cold.keys[--cold.count]);
    }
}

static int setup_cold(void **state)
{
    cold.gated = false;
    cold.come = cold.let_in = 0;
    assert_int_equal(uv_mutex_init(&cold.lock), 0);
    assert_int_equal(uv_cond_init(&cold.gate), 0);
    return setup(state);
}

static int teardown_cold(void **state)
{
    int rv;

    uv_mutex_lock(&cold.lock);
    cold.let_in = UINT_MAX; /* A test that has failed leaves some at the gate. */
    uv_cond_broadcast(&cold.gate);
    uv_mutex_unlock(&cold.lock);
    rv = teardown(state);
    forget_keys();
    uv_cond_destroy(&cold.gate);
    uv_mutex_destroy(&cold.lock);
    return rv;
}

/* A new manager: not even inodes that were decoded. */
static void begin_cold(struct fixture *f, struct client *c)
{
    uint64_t sequence = c->sequence;

    client_close(c);
    meta_down(f);
    forget_keys();
    meta_up(f);
    cold.get = f->meta->kv->get;
    cold.load = f->meta->kv->load;
    f->meta->kv->get = cold_get;
    f->meta->kv->load = cold_load;
    client_join(c, f, CLIENT);
    c->sequence = sequence;
    assert_int_equal(f->meta->loads.loads, 0);
}

static uint64_t sequence_of(const struct fixture *f)
{
    return ns_counters(f->meta->ns)->sequence;
}

/* It is answered so, and had to wait for the disk. */
static void ask_cold(struct client *c, enum message_type type, const ProtobufCMessage *message,
                     int status)
{
    begin_cold(c->f, c);
    assert_int_equal(call(c, type, message, NULL, NULL), status);
    assert_in_range(c->f->meta->loads.loads, 1, 20);
    assert_int_equal(c->f->meta->loads.impatient, 0);
    assert_int_equal(c->f->meta->loads.wanted.count, 0);
}

static void change_cold(struct client *c, Morsel__OpId *op, enum message_type type,
                        const ProtobufCMessage *message)
{
    uint64_t before;

    begin_cold(c->f, c);
    before = sequence_of(c->f);
    *op = next_op(c);
    assert_int_equal(call(c, type, message, NULL, NULL), 0);
    assert_int_equal(sequence_of(c->f), before + 1);
    assert_in_range(c->f->meta->loads.loads, 1, 20);
    assert_int_equal(c->f->meta->loads.impatient, 0);
    begin_cold(c->f, c); /* A repeat, to another manager. */
    assert_int_equal(call(c, type, message, NULL, NULL), 0);
    assert_int_equal(sequence_of(c->f), before + 2); /* It has begun: OP_START. */
}

static void each_change_takes_effect_once(void **state)
{
    Morsel__CreateRequest create = MORSEL__CREATE_REQUEST__INIT;
    Morsel__LinkRequest link = MORSEL__LINK_REQUEST__INIT;
    Morsel__RenameRequest move = MORSEL__RENAME_REQUEST__INIT;
    Morsel__UnlinkRequest unlink = MORSEL__UNLINK_REQUEST__INIT;
    Morsel__SetattrRequest setattr = MORSEL__SETATTR_REQUEST__INIT;
    Morsel__XattrSetRequest xattr = MORSEL__XATTR_SET_REQUEST__INIT;
    struct fixture *f = *state;
    struct client c;
    Morsel__OpId op;

    client_join(&c, f, CLIENT);
    create.parent = make(&c, INODE_ROOT, "d", 0040755, false);
    create.op = link.op = move.op = unlink.op = setattr.op = xattr.op = &op;
    create.name = bytes("made");
    create.mode = 0010644;
    change_cold(&c, &op, MSG_CREATE, &create.base);
    link.new_parent = move.parent = move.new_parent = unlink.parent = create.parent;
    link.inode = setattr.inode = xattr.inode = make(&c, INODE_ROOT, "file", 0010644, false);
    link.new_name = bytes("linked");
    change_cold(&c, &op, MSG_LINK, &link.base);
    setattr.valid = SETATTR_MODE;
    setattr.mode = 0600;
    change_cold(&c, &op, MSG_SETATTR, &setattr.base);
    xattr.name = bytes("trusted.name");
    xattr.value = bytes("value");
    change_cold(&c, &op, MSG_XATTR_SET, &xattr.base);
    move.name = bytes("made");
    move.new_name = bytes("linked");
    change_cold(&c, &op, MSG_RENAME, &move.base);
    unlink.name = bytes("linked");
    change_cold(&c, &op, MSG_UNLINK, &unlink.base);
    unlink.name = bytes("linked");
    op = next_op(&c);
    ask_cold(&c, MSG_UNLINK, &unlink.base, MORSEL_NOENT);
    client_close(&c);
}

static void each_question_is_answered(void **state)
{
    Morsel__LookupRequest lookup = MORSEL__LOOKUP_REQUEST__INIT;
    Morsel__GetattrRequest getattr = MORSEL__GETATTR_REQUEST__INIT;
    Morsel__OpenRequest open = MORSEL__OPEN_REQUEST__INIT;
    Morsel__ReadlinkRequest readlink = MORSEL__READLINK_REQUEST__INIT;
    Morsel__XattrListRequest list = MORSEL__XATTR_LIST_REQUEST__INIT;
    Morsel__XattrSetRequest xattr = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__FsyncRequest fsync = MORSEL__FSYNC_REQUEST__INIT;
    struct fixture *f = *state;
    struct client c;
    Morsel__OpId op;

    client_join(&c, f, CLIENT);
    lookup.parent = INODE_ROOT;
    lookup.name = bytes("d");
    getattr.inode = open.inode = readlink.inode = list.inode = fsync.inode = xattr.inode =
        make(&c, INODE_ROOT, "d", 0040755, false);
    op = next_op(&c);
    xattr.op = &op;
    xattr.name = bytes("trusted.name");
    assert_int_equal(call(&c, MSG_XATTR_SET, &xattr.base, NULL, NULL), 0);
    ask_cold(&c, MSG_LOOKUP, &lookup.base, 0);
    lookup.name = bytes("e");
    ask_cold(&c, MSG_LOOKUP, &lookup.base, MORSEL_NOENT);
    ask_cold(&c, MSG_GETATTR, &getattr.base, 0);
    ask_cold(&c, MSG_OPEN, &open.base, 0);
    ask_cold(&c, MSG_READLINK, &readlink.base, MORSEL_INVAL);
    ask_cold(&c, MSG_XATTR_LIST, &list.base, 0);
    ask_cold(&c, MSG_FSYNC, &fsync.base, 0);
    client_close(&c);
}

/* Its names come in pieces, its inodes many together. */
static void a_directory_is_listed_with_attributes(void **state)
{
    Morsel__ReaddirRequest request = MORSEL__READDIR_REQUEST__INIT;
    struct fixture *f = *state;
    Morsel__ReaddirReply *reply;
    struct client c;
    char name[32];

    client_join(&c, f, CLIENT);
    request.inode = make(&c, INODE_ROOT, "d", 0040755, false);
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof(name), "pipe%05u", i);
        (void)make(&c, request.inode, name, 0010644, false);
    }
    begin_cold(f, &c);
    request.plus = true;
    assert_int_equal(
        call(&c, MSG_READDIR, &request.base, &morsel__readdir_reply__descriptor, &reply), 0);
    assert_int_equal(reply->n_entries, FILES);
    assert_true(reply->end);
    for (unsigned i = 0; i < FILES; i++) {
        assert_non_null(reply->entries[i]->attr);
        assert_int_equal(reply->entries[i]->attr->inode, reply->entries[i]->inode);
    }
    assert_in_range(f->meta->loads.loads, 3, 12);
    assert_int_equal(f->meta->loads.impatient, 0);
    morsel__readdir_reply__free_unpacked(reply, NULL);
    client_close(&c);
}

/* Nothing is looked at twice, and nothing left out, though steps end where they must wait. */
static void a_check_finds_nothing_wrong(void **state)
{
    Morsel__FsckRequest request = MORSEL__FSCK_REQUEST__INIT;
    Morsel__FsckReply *reply = NULL;
    uint8_t cursor[64];
    struct fixture *f = *state;
    struct client c;
    uint64_t checked = 0;
    char name[32];
    bool done;

    client_join(&c, f, CLIENT);
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof(name), "pipe%05u", i);
        (void)make(&c, INODE_ROOT, name, 0010644, false);
    }
    begin_cold(f, &c);
    do {
        assert_int_equal(call(&c, MSG_FSCK, &request.base, &morsel__fsck_reply__descriptor, &reply),
                         0);
        assert_int_equal(reply->n_problems, 0);
        checked += reply->checked;
        done = reply->cursor.len == 0;
        assert_in_range(reply->cursor.len, 0, sizeof(cursor));
        if (!done) {
            memcpy(cursor, reply->cursor.data, reply->cursor.len);
        }
        request.cursor = (ProtobufCBinaryData){ reply->cursor.len, cursor };
        morsel__fsck_reply__free_unpacked(reply, NULL);
    } while (!done);
    assert_int_equal(checked, FILES + FILES + 1); /* Entries, inodes. */
    assert_in_range(f->meta->loads.loads, 3, 30);
    assert_int_equal(f->meta->loads.impatient, 0);
    client_close(&c);
}

/* What waits when its client goes is not done behind its back, and the next one finds all in order. */
static void who_has_gone_is_not_answered(void **state)
{
    Morsel__UnlinkRequest unlink = MORSEL__UNLINK_REQUEST__INIT;
    struct fixture *f = *state;
    struct waiting_call removal;
    enum lease_mode lease;
    struct client c;
    uint64_t before;
    Morsel__OpId op;

    client_join(&c, f, CLIENT);
    (void)make(&c, INODE_ROOT, "d", 0040755, false);
    begin_cold(f, &c);
    before = sequence_of(f);
    op = next_op(&c);
    unlink.op = &op;
    unlink.parent = INODE_ROOT;
    unlink.name = bytes("d");
    unlink.directory = true;
    start(&c, &removal, MSG_UNLINK, &unlink.base);
    while (f->meta->loads.running_count == 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    rpc_disconnect(f->meta->server, ROLE_CLIENT, CLIENT, "the test says so");
    while (f->meta->loads.running_count > 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(sequence_of(f), before);
    client_close(&c);
    client_join(&c, f, CLIENT + 1);
    assert_int_equal(lookup(&c, "d", &lease), 0);
    client_close(&c);
}

/* The manager ends while it waits for its disk: nobody is answered, the call is for its next life. */
static void the_end_comes_while_something_waits(void **state)
{
    Morsel__LookupRequest request = MORSEL__LOOKUP_REQUEST__INIT;
    struct fixture *f = *state;
    struct waiting_call w;
    struct client c;

    client_join(&c, f, CLIENT);
    begin_cold(f, &c);
    request.parent = INODE_ROOT;
    request.name = bytes("d");
    start(&c, &w, MSG_LOOKUP, &request.base);
    while (f->meta->loads.running_count == 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    meta_down(f);
    assert_false(w.done);
    meta_up(f);
    client_close(&c);
    assert_true(w.done);
    assert_int_not_equal(w.status, 0);
}

static unsigned answered(const struct waiting_call *calls, unsigned count)
{
    unsigned done = 0;

    for (unsigned i = 0; i < count; i++) {
        done += calls[i].done;
    }
    return done;
}

/* One load ends, and whoever does not wait for another has its answer. `calls` are all that were begun. */
static void load_one(struct fixture *f, const struct waiting_call *calls, unsigned count)
{
    const struct loads_uv *l = &f->meta->loads;
    uint64_t before = l->loads;

    uv_mutex_lock(&cold.lock);
    cold.let_in++;
    uv_cond_broadcast(&cold.gate);
    uv_mutex_unlock(&cold.lock);
    while (l->loads == before ||
           answered(calls, count) + l->waiting_count + l->running_count < count) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
}

/* One client asks for very much, another for one thing, and a storage server says that it lives. */
static void clients_take_turns_and_servers_go_first(void **state)
{
    enum { MANY = 60, OTHER = MANY, WORD, CALLS };
    Morsel__LookupRequest request = MORSEL__LOOKUP_REQUEST__INIT;
    Morsel__HeartbeatRequest alive = MORSEL__HEARTBEAT_REQUEST__INIT;
    uint64_t collected_inode = 77;
    uint32_t collected_column = 0;
    struct fixture *f = *state;
    static struct waiting_call calls[CALLS]; /* The end of the fixture looks at them. */
    struct client a, b, iod;
    char name[32];

    client_join(&a, f, CLIENT);
    begin_cold(f, &a);
    client_join(&b, f, CLIENT + 1);
    client_open(&iod, f, ROLE_IOD, 0);
    alive.id = register_server(&iod, 1);
    alive.n_collected_inode = alive.n_collected_column = 1;
    alive.collected_inode = &collected_inode;
    alive.collected_column = &collected_column;
    cold.gated = true;
    request.parent = INODE_ROOT;
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "no%u", i);
        request.name = bytes(name);
        start(&a, &calls[i], MSG_LOOKUP, &request.base);
    }
    while (f->meta->loads.waiting_count < MANY - LOADS_RUNNING_MAX) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    request.name = bytes("other");
    start(&b, &calls[OTHER], MSG_LOOKUP, &request.base);
    start(&iod, &calls[WORD], MSG_HEARTBEAT, &alive.base);
    while (f->meta->loads.waiting_count < MANY - LOADS_RUNNING_MAX + 1 ||
           f->meta->loads.running_count < LOADS_RUNNING_MAX + LOADS_URGENT_MAX) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    while (!calls[OTHER].done || !calls[WORD].done) {
        load_one(f, calls, CALLS);
    }
    assert_in_range(answered(calls, MANY), 0, MANY / 3);
    assert_int_equal(calls[WORD].status, 0);
    while (answered(calls, CALLS) < CALLS) {
        load_one(f, calls, CALLS);
    }
    for (unsigned i = 0; i < WORD; i++) {
        assert_int_equal(calls[i].status, MORSEL_NOENT);
    }
    cold.gated = false;
    client_close(&iod);
    client_close(&b);
    client_close(&a);
}

#define COLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup_cold, teardown_cold)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COLD_TEST(each_change_takes_effect_once),           COLD_TEST(each_question_is_answered),
        COLD_TEST(a_directory_is_listed_with_attributes),   COLD_TEST(a_check_finds_nothing_wrong),
        COLD_TEST(clients_take_turns_and_servers_go_first), COLD_TEST(who_has_gone_is_not_answered),
        COLD_TEST(the_end_comes_while_something_waits),
    };
    char threads[16];

    (void)snprintf(threads, sizeof(threads), "%d", LOADS_THREADS);
    setenv("UV_THREADPOOL_SIZE", threads, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
