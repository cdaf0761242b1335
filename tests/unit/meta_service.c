/* The manager behind its wire: a real one on the loop of the test, called like clients and storage
 * servers do. */
#include "tests/lib/meta_fixture.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The tests ---- */

static void a_retry_is_answered_and_not_applied_also_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct client c;
    Morsel__Removed *removed;
    Morsel__OpId first, second;
    inode_id inode = 0, again = 0;

    client_join(&c, f, 11);
    first = next_op(&c);
    assert_int_equal(make_with(&c, first, INODE_ROOT, "d", 0040755, false, &inode), 0);
    assert_int_equal(make_with(&c, first, INODE_ROOT, "d", 0040755, false, &again), 0);
    assert_int_equal(inode, again);
    make(&c, INODE_ROOT, "p", 0010644, false);
    second = next_op(&c);
    assert_int_equal(unlink_with(&c, second, "p", &removed), 0);
    assert_true(removed->deleted);
    morsel__removed__free_unpacked(removed, NULL);

    meta_down(f);
    meta_up(f);
    assert_int_equal(ask_session(&c), 0);
    assert_int_equal(unlink_with(&c, second, "p", &removed), 0);
    assert_true(removed->deleted);
    morsel__removed__free_unpacked(removed, NULL);
    assert_int_equal(make_with(&c, first, INODE_ROOT, "d", 0040755, false, &again), MORSEL_STALE);
    client_close(&c);
}

/* It lost a name and has another one, as long as it is asked: who holds a lease on it knows how many
 * names it has from that alone. */
static void expect_one_name_left(const Morsel__Removed *removed, inode_id inode)
{
    assert_false(removed->deleted);
    assert_non_null(removed->other);
    assert_int_equal(removed->other->inode, inode);
    assert_int_equal(removed->other->nlink, 1);
}

static void a_repeat_tells_how_many_names_are_left(void **state)
{
    Morsel__LinkRequest link = MORSEL__LINK_REQUEST__INIT;
    Morsel__RenameRequest rename = MORSEL__RENAME_REQUEST__INIT;
    Morsel__OpId op;
    struct fixture *f = *state;
    struct client c;
    Morsel__Removed *removed;
    inode_id inode, moved;

    client_join(&c, f, 13);
    inode = link.inode = make(&c, INODE_ROOT, "p", 0010644, false);
    moved = make(&c, INODE_ROOT, "x", 0010644, false);
    link.op = rename.op = &op;
    link.new_parent = rename.parent = rename.new_parent = INODE_ROOT;
    rename.name = bytes("x");
    rename.new_name = bytes("q");
    for (unsigned i = 0; i < 2; i++) {
        link.new_name = bytes(i == 0 ? "q" : "r");
        op = next_op(&c);
        assert_int_equal(call(&c, MSG_LINK, &link.base, NULL, NULL), 0);
        op = next_op(&c);
        for (unsigned repeat = 0; repeat < 3; repeat++) {
            if (repeat == 2) { /* What it knows it has from its log. */
                meta_down(f);
                meta_up(f);
                assert_int_equal(ask_session(&c), 0);
            }
            if (i == 0) {
                assert_int_equal(
                    call(&c, MSG_RENAME, &rename.base, &morsel__removed__descriptor, &removed), 0);
                assert_int_equal(removed->moved->inode, moved);
            } else {
                assert_int_equal(unlink_with(&c, op, "r", &removed), 0);
            }
            assert_int_equal(removed->known, repeat > 0);
            expect_one_name_left(removed, inode);
            morsel__removed__free_unpacked(removed, NULL);
        }
    }
    client_close(&c);
}

static void requests_without_session_or_operation_are_refused(void **state)
{
    Morsel__GetattrRequest getattr = MORSEL__GETATTR_REQUEST__INIT;
    struct fixture *f = *state;
    struct client c;
    Morsel__OpId op = MORSEL__OP_ID__INIT;
    inode_id inode = 0;

    getattr.inode = INODE_ROOT;
    client_open(&c, f, ROLE_CLIENT, 12);
    assert_int_equal(call(&c, MSG_GETATTR, &getattr.base, NULL, NULL), MORSEL_NO_SESSION);
    assert_int_equal(ask_session(&c), 0);
    assert_int_equal(call(&c, MSG_GETATTR, &getattr.base, NULL, NULL), 0);
    assert_int_equal(make_with(&c, op, INODE_ROOT, "x", 0040755, false, &inode), MORSEL_MALFORMED);
    op.client = 99; /* Somebody else. */
    op.sequence = 1;
    assert_int_equal(make_with(&c, op, INODE_ROOT, "x", 0040755, false, &inode), MORSEL_MALFORMED);
    assert_int_equal(call(&c, MSG_READ, &getattr.base, NULL, NULL), MORSEL_UNKNOWN_TYPE);
    assert_int_equal(make_with(&c, next_op(&c), INODE_ROOT, "x", 0100644, false, &inode),
                     MORSEL_NO_SERVERS);
    client_close(&c);
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct client *c = data;
    Morsel__RecallNotice *notice;

    if (type == MSG_LOCK_REVOKE) {
        Morsel__LockRevoke *wanted = rpc_unpack(&morsel__lock_revoke__descriptor, body, body_count);

        assert_non_null(wanted);
        c->lock_revoke = wanted->inode;
        morsel__lock_revoke__free_unpacked(wanted, NULL);
        return;
    }
    assert_int_equal(type, MSG_RECALL);
    notice = rpc_unpack(&morsel__recall_notice__descriptor, body, body_count);
    assert_non_null(notice);
    for (size_t i = 0; i < notice->n_recalls; i++) {
        c->recall = *notice->recalls[i];
        c->recalls++;
    }
    morsel__recall_notice__free_unpacked(notice, NULL);
}

static void client_join_caching(struct client *c, struct fixture *f, uint64_t id)
{
    client_open(c, f, ROLE_CLIENT, id);
    c->caches = true;
    rpc_peer_watch(c->peer, NULL, NULL, c);
    rpc_peer_on_push(c->peer, on_push);
    assert_int_equal(ask_session(c), 0);
}

/* Grants begin when the manager's disk has the record of the client: ask until then. */
static void lookup_until_leased(struct client *c, const char *name)
{
    uint64_t deadline_ns = uv_hrtime() + CALL_MS * UINT64_C(1000000);
    enum lease_mode lease = LEASE_NONE;

    while (lease == LEASE_NONE && uv_hrtime() < deadline_ns) {
        assert_int_equal(lookup(c, name, &lease), 0);
    }
    assert_int_equal(lease, LEASE_R);
}

static void give_back(struct client *c, uint32_t open)
{
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    Morsel__Return one = MORSEL__RETURN__INIT, *list[] = { &one };

    one.recall = c->recall.recall;
    one.inode = c->recall.inode;
    one.keeps = LEASE_NONE;
    one.open = open;
    request.n_returns = 1;
    request.returns = list;
    assert_int_equal(call(c, MSG_RETURN, &request.base, NULL, NULL), 0);
}

static void a_lease_is_called_back_before_another_changes(void **state)
{
    Morsel__SetattrRequest setattr = MORSEL__SETATTR_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;
    struct fixture *f = *state;
    struct waiting_call change;
    struct client a, b;
    Morsel__OpId op;
    enum lease_mode lease;
    inode_id dir;

    client_join_caching(&a, f, 21);
    client_join(&b, f, 22); /* Caches nothing, and is granted nothing. */
    dir = make(&b, INODE_ROOT, "d", 0040755, false);
    assert_int_equal(lookup(&b, "d", &lease), 0);
    assert_int_equal(lease, LEASE_NONE);
    lookup_until_leased(&a, "d");

    op = next_op(&b);
    setattr.op = &op;
    setattr.who = &who;
    setattr.inode = dir;
    setattr.valid = SETATTR_MODE;
    setattr.mode = 0700;
    start(&b, &change, MSG_SETATTR, &setattr.base);
    while (a.recalls == 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_false(change.done);
    assert_int_equal(a.recall.inode, dir);
    assert_int_equal(a.recall.keep, LEASE_NONE);
    give_back(&a, 0);
    while (!change.done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(change.status, 0);
    assert_int_equal(lookup(&a, "d", &lease), 0);
    assert_int_equal(lease, LEASE_NONE); /* Quiet for a while. */
    client_close(&b);
    client_close(&a);
}

static enum lease_mode open_file(struct client *c, inode_id inode, bool write)
{
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    Morsel__Node *node = NULL;
    enum lease_mode lease;

    request.inode = inode;
    request.write = write;
    assert_int_equal(call(c, MSG_OPEN, &request.base, &morsel__node__descriptor, &node), 0);
    lease = (enum lease_mode)node->lease;
    morsel__node__free_unpacked(node, NULL);
    return lease;
}

static void a_writer_reports_before_another_reads(void **state)
{
    Morsel__GetattrRequest getattr = MORSEL__GETATTR_REQUEST__INIT;
    struct fixture *f = *state;
    struct waiting_call look;
    struct client a, b, iod;
    Morsel__Node *node;
    inode_id file;

    client_open(&iod, f, ROLE_IOD, 0);
    (void)register_server(&iod, 1);
    client_join_caching(&a, f, 23);
    client_join_caching(&b, f, 24);
    (void)make(&a, INODE_ROOT, "d", 0040755, false);
    lookup_until_leased(&a, "d");
    file = make(&a, INODE_ROOT, "f", 0100644, false);
    assert_int_equal(open_file(&a, file, true), LEASE_W);
    wrote(&a, file, 1000);

    getattr.inode = file;
    start(&b, &look, MSG_GETATTR, &getattr.base);
    look.reply_type = &morsel__node__descriptor;
    while (a.recalls == 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    wrote(&a, file, 2000); /* What was held back goes first. */
    assert_false(look.done);
    give_back(&a, 2);
    while (!look.done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(look.status, 0);
    node = look.reply;
    assert_int_equal(node->attr->size, 2000);
    assert_int_equal(node->lease, LEASE_NONE); /* Somebody has it open for writing. */
    morsel__node__free_unpacked(node, NULL);
    assert_int_equal(open_file(&b, file, false), LEASE_NONE);
    assert_int_equal(open_file(&a, file, true), LEASE_NONE);
    client_close(&b);
    client_close(&a);
    client_close(&iod);
}

static uint64_t epoch_told_to(struct client *c)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;
    Morsel__SessionReply *reply = NULL;
    uint64_t lease_epoch;

    request.renew = true;
    assert_int_equal(
        call(c, MSG_SESSION, &request.base, &morsel__session_reply__descriptor, &reply), 0);
    lease_epoch = reply->lease_epoch;
    morsel__session_reply__free_unpacked(reply, NULL);
    return lease_epoch;
}

/* What needs a lease or a size lock is not carried out for a client that has lost all it had since it
 * asked; but what was carried out is answered. */
static void what_was_asked_under_a_lost_lease_epoch_is_refused(void **state)
{
    Morsel__SizeReportRequest request = MORSEL__SIZE_REPORT_REQUEST__INIT;
    struct fixture *f = *state;
    struct client a, iod;
    Morsel__OpId op;
    inode_id file;

    client_open(&iod, f, ROLE_IOD, 0);
    (void)register_server(&iod, 1);
    client_join_caching(&a, f, 27);
    file = make(&a, INODE_ROOT, "f", 0100644, true);
    op = next_op(&a);
    request.op = &op;
    request.inode = file;
    request.size = 1000;
    op.lease_epoch = epoch_told_to(&a) + 1;
    assert_int_equal(call(&a, MSG_SIZE_REPORT, &request.base, NULL, NULL), MORSEL_TOO_LATE);
    op.lease_epoch = epoch_told_to(&a);
    assert_int_equal(call(&a, MSG_SIZE_REPORT, &request.base, NULL, NULL), 0);
    op.lease_epoch++;
    assert_int_equal(call(&a, MSG_SIZE_REPORT, &request.base, NULL, NULL), 0);
    client_close(&a);
    client_close(&iod);
}

static void ask_size_lock(struct client *c, struct waiting_call *w, uint64_t owner,
                          enum lock_type type)
{
    Morsel__LockRequest request = MORSEL__LOCK_REQUEST__INIT;
    Morsel__Lock lock = MORSEL__LOCK__INIT;

    lock.inode = INODE_ROOT;
    lock.kind = LOCK_SIZE;
    lock.owner = owner;
    lock.type = type;
    lock.end = INT64_MAX;
    request.lock = &lock;
    request.how = LOCK_WAIT;
    start(c, w, MSG_LOCK, &request.base);
    w->reply_type = &morsel__lock_reply__descriptor;
}

/* Had. Did somebody else have it first? */
static bool size_lock_had(struct waiting_call *w, struct fixture *f)
{
    Morsel__LockReply *reply;
    bool waited;

    while (!w->done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(w->status, 0);
    reply = w->reply;
    assert_int_equal(reply->verdict, LOCK_GRANTED);
    waited = reply->waited;
    morsel__lock_reply__free_unpacked(reply, NULL);
    return waited;
}

static void who_keeps_a_size_lock_hears_that_another_waits(void **state)
{
    struct fixture *f = *state;
    struct waiting_call kept, wanted, late, end;
    struct client a, b;

    client_join_caching(&a, f, 25);
    client_join_caching(&b, f, 26);
    ask_size_lock(&a, &kept, 1, LOCK_SHARED);
    assert_false(size_lock_had(&kept, f));
    ask_size_lock(&b, &late, 1, LOCK_SHARED); /* Beside it. */
    assert_false(size_lock_had(&late, f));
    ask_size_lock(&b, &end, 1, LOCK_NONE);
    assert_false(size_lock_had(&end, f));
    assert_int_equal(a.lock_revoke, 0);

    ask_size_lock(&b, &wanted, 2, LOCK_EXCLUSIVE);
    while (a.lock_revoke != INODE_ROOT) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_false(wanted.done);
    ask_size_lock(&a, &late, 2, LOCK_SHARED); /* Behind the one that waits. */
    ask_size_lock(&a, &end, 1, LOCK_NONE);
    assert_false(size_lock_had(&end, f));
    assert_true(size_lock_had(&wanted, f));
    assert_false(late.done);
    ask_size_lock(&b, &end, 2, LOCK_NONE);
    assert_false(size_lock_had(&end, f));
    assert_true(size_lock_had(&late, f));
    client_close(&b);
    client_close(&a);
}

/* Joins a manager that was restarted, with the lock that ask_turn(EXCLUSIVE) got, or without any
 * (owner 0). Is it still ours? */
static bool comes_back(struct client *c, uint64_t lease_epoch, uint64_t owner)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;
    Morsel__SessionReply *reply;
    Morsel__Lock lock = MORSEL__LOCK__INIT, *locks = &lock;
    uint64_t held = INODE_LOCKS;
    bool lost;

    lock.inode = INODE_ROOT;
    lock.kind = LOCK_SIZE;
    lock.owner = owner;
    lock.type = LOCK_EXCLUSIVE;
    lock.end = INT64_MAX;
    request.cache = c->caches;
    request.lease_epoch = lease_epoch;
    request.number = 1;
    request.n_held_read = request.n_locks = owner != 0;
    request.held_read = &held;
    request.locks = &locks;
    assert_int_equal(
        call(c, MSG_SESSION, &request.base, &morsel__session_reply__descriptor, &reply), 0);
    lost = reply->locks_lost || reply->n_lost > 0;
    morsel__session_reply__free_unpacked(reply, NULL);
    return !lost;
}

/* The last who comes back ends the waiting of everybody: but what he holds is his before others are
 * served. */
static void who_comes_back_last_keeps_his_locks(void **state)
{
    struct fixture *f = *state;
    struct waiting_call kept, wanted, end;
    struct client a, b;
    uint64_t lease_epochs[2];

    client_join_caching(&a, f, 27);
    client_join_caching(&b, f, 28);
    ask_size_lock(&a, &kept, 1, LOCK_EXCLUSIVE);
    assert_false(size_lock_had(&kept, f));
    lease_epochs[0] = epoch_told_to(&a);
    lease_epochs[1] = epoch_told_to(&b);
    meta_down(f);
    meta_up(f);
    assert_true(comes_back(&b, lease_epochs[1], 0));
    ask_size_lock(&b, &wanted, 2, LOCK_EXCLUSIVE);
    while (list_empty(&f->meta->leased)) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_true(comes_back(&a, lease_epochs[0], 1));
    assert_false(wanted.done);
    ask_size_lock(&a, &end, 1, LOCK_NONE);
    assert_false(size_lock_had(&end, f));
    assert_true(size_lock_had(&wanted, f));
    client_close(&b);
    client_close(&a);
}

static void set_xattr(struct client *c, inode_id inode, const char *name, const char *value,
                      int status)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__OpId op = next_op(c);

    request.op = &op;
    request.inode = inode;
    request.name = bytes(name);
    request.value = bytes(value);
    assert_int_equal(call(c, MSG_XATTR_SET, &request.base, NULL, NULL), status);
}

static void assert_xattr(struct client *c, inode_id inode, const char *name, const char *value)
{
    Morsel__XattrGetRequest request = MORSEL__XATTR_GET_REQUEST__INIT;
    Morsel__XattrReply *reply;

    request.inode = inode;
    request.name = bytes(name);
    assert_int_equal(
        call(c, MSG_XATTR_GET, &request.base, &morsel__xattr_reply__descriptor, &reply), 0);
    assert_int_equal(reply->value.len, strlen(value));
    assert_memory_equal(reply->value.data, value, strlen(value));
    morsel__xattr_reply__free_unpacked(reply, NULL);
}

static void policy_shows_as_attributes_and_decides_layouts(void **state)
{
    struct fixture *f = *state;
    struct client c, iod;
    inode_id dir, file;

    client_open(&iod, f, ROLE_IOD, 0);
    for (uint8_t i = 1; i <= 3; i++) {
        (void)register_server(&iod, i);
    }
    client_join(&c, f, 41);
    dir = make(&c, INODE_ROOT, "d", 0040755, false);
    set_xattr(&c, dir, "user.morsel.stripe_width", "2", 0);
    set_xattr(&c, dir, "user.morsel.morsel_size", "64K", 0);
    set_xattr(&c, dir, "user.morsel.class", "scavenged", 0);
    set_xattr(&c, dir, "user.morsel.class", "durable", 0);
    set_xattr(&c, dir, "user.morsel.nonsense", "2", MORSEL_PERM);
    assert_xattr(&c, dir, "user.morsel.stripe_width", "2");
    file = make(&c, dir, "f", 0100644, false);
    assert_int_equal(file % 3, 0); /* Ids are given out one by one. */
    assert_xattr(&c, file, "user.morsel.layout",
                 "class=durable replicas=1 morsel_size=65536 stripe_size=1 servers=1,2");
    client_close(&c);
    client_close(&iod);
}

static void a_check_finds_nothing_wrong_but_strays(void **state)
{
    Morsel__FsckRequest fsck = MORSEL__FSCK_REQUEST__INIT;
    Morsel__FsckObjects objects = MORSEL__FSCK_OBJECTS__INIT, *strays;
    struct fixture *f = *state;
    struct client c, iod, admin;
    uint64_t inodes[2];
    uint32_t columns[2] = { 0, 0 };
    uint8_t cursor[64];
    Morsel__FsckReply *reply;

    client_open(&iod, f, ROLE_IOD, 0);
    objects.server = register_server(&iod, 1);
    client_join(&c, f, 51);
    client_open(&admin, f, ROLE_ADMIN, 52);
    inodes[0] = make(&c, INODE_ROOT, "f", 0100644, false);
    inodes[1] = 777;
    fsck.cursor.data = cursor;
    do {
        assert_int_equal(
            call(&admin, MSG_FSCK, &fsck.base, &morsel__fsck_reply__descriptor, &reply), 0);
        assert_int_equal(reply->n_problems, 0);
        fsck.cursor.len = reply->cursor.len;
        assert_true(reply->cursor.len <= sizeof(cursor));
        if (reply->cursor.len > 0) {
            memcpy(cursor, reply->cursor.data, reply->cursor.len);
        }
        morsel__fsck_reply__free_unpacked(reply, NULL);
    } while (fsck.cursor.len > 0);
    objects.n_inode = objects.n_column = 2;
    objects.inode = inodes;
    objects.column = columns;
    objects.repair = true;
    assert_int_equal(
        call(&admin, MSG_FSCK_OBJECTS, &objects.base, &morsel__fsck_objects__descriptor, &strays),
        0);
    assert_int_equal(strays->n_inode, 1);
    assert_int_equal(strays->inode[0], 777);
    assert_int_equal(garbage_of(f), 1);
    morsel__fsck_objects__free_unpacked(strays, NULL);
    client_close(&admin);
    client_close(&c);
    client_close(&iod);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_retry_is_answered_and_not_applied_also_after_a_restart),
        TEST(a_repeat_tells_how_many_names_are_left),
        TEST(requests_without_session_or_operation_are_refused),
        TEST(a_lease_is_called_back_before_another_changes),
        TEST(a_writer_reports_before_another_reads),
        TEST(what_was_asked_under_a_lost_lease_epoch_is_refused),
        TEST(who_keeps_a_size_lock_hears_that_another_waits),
        TEST(who_comes_back_last_keeps_his_locks),
        TEST(policy_shows_as_attributes_and_decides_layouts),
        TEST(a_check_finds_nothing_wrong_but_strays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
