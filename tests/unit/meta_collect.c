/* The manager's garbage queue behind its wire: what I/O daemons are told to delete, and when. */
#include "tests/lib/meta_fixture.h"
#include "tests/lib/pass.h"

#include "common/base/check.h"
#include "common/base/status.h"

static void an_open_file_is_collected_when_it_is_closed(void **state)
{
    Morsel__CloseRequest close_request = MORSEL__CLOSE_REQUEST__INIT;
    Morsel__HeartbeatReply *last = NULL;
    struct fixture *f = *state;
    struct client c, iod;
    Morsel__Removed *removed;
    inode_id inode;
    uint32_t id;

    client_open(&iod, f, ROLE_IOD, 0);
    id = register_server(&iod, 1);
    client_join(&c, f, 31);
    inode = make(&c, INODE_ROOT, "f", 0100644, true);
    wrote(&c, inode, 5000);
    assert_int_equal(unlink_with(&c, next_op(&c), "f", &removed), 0);
    assert_false(removed->deleted);
    morsel__removed__free_unpacked(removed, NULL);
    wrote(&c, inode, 9000);
    assert_int_equal(garbage_of(f), 0);
    close_request.n_inodes = 1;
    close_request.inodes = &inode;
    assert_int_equal(call(&c, MSG_CLOSE, &close_request.base, NULL, NULL), 0);
    assert_int_equal(garbage_of(f), 1);
    assert_int_equal(beat(&iod, id, &last), 1);
    assert_int_equal(last->collect_inode[0], inode);
    assert_int_equal(beat(&iod, id, &last), 0);
    assert_int_equal(garbage_of(f), 0);
    morsel__heartbeat_reply__free_unpacked(last, NULL);
    client_close(&c);
    client_close(&iod);
}

/* The store's own sync, held up until the test lets it go. */
static int (*true_sync)(struct kv *kv, struct errmsg *err);
static uv_sem_t sync_gate;

static int held_sync(struct kv *kv, struct errmsg *err)
{
    uv_sem_wait(&sync_gate);
    return true_sync(kv, err);
}

static void nothing_is_collected_before_its_removal_is_durable(void **state)
{
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    Morsel__HeartbeatReply *reply;
    struct fixture *f = *state;
    struct waiting_call w;
    struct client c, iod;
    Morsel__Removed *removed;
    inode_id inode;
    bool early;

    client_open(&iod, f, ROLE_IOD, 0);
    request.id = register_server(&iod, 1);
    client_join(&c, f, 61);
    inode = make(&c, INODE_ROOT, "f", 0100644, false);
    wrote(&c, inode, 5000);
    assert_int_equal(uv_sem_init(&sync_gate, 0), 0);
    true_sync = f->meta->kv->sync;
    f->meta->kv->sync = held_sync;
    assert_int_equal(unlink_with(&c, next_op(&c), "f", &removed), 0);
    assert_true(removed->deleted);
    morsel__removed__free_unpacked(removed, NULL);
    start(&iod, &w, MSG_HEARTBEAT, &request.base);
    w.reply_type = &morsel__heartbeat_reply__descriptor;
    assert_int_equal(call(&iod, MSG_STATISTICS, NULL, NULL, NULL), 0); /* The manager has it. */
    early = w.done;
    for (int i = 0; i < 8; i++) {
        uv_sem_post(&sync_gate);
    }
    while (!w.done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    f->meta->kv->sync = true_sync;
    assert_false(early);
    reply = w.reply;
    assert_int_equal(reply->n_collect_inode, 1);
    assert_int_equal(reply->collect_inode[0], inode);
    morsel__heartbeat_reply__free_unpacked(reply, NULL);
    client_close(&c);
    client_close(&iod);
    meta_down(f);
    meta_up(f);
    uv_sem_destroy(&sync_gate);
}

/* The server says nothing before it has its answer, and the answer waits for the manager's disk. */
static void who_waits_for_the_managers_disk_is_not_down(void **state)
{
    enum { BEAT_MS = 100, SILENCE_MS = BEAT_MS * MEMBERS_MISSED_MAX };
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    struct fixture *f = *state;
    struct waiting_call w;
    struct client c, iod;
    Morsel__Removed *removed;
    const struct member *member;
    bool up;

    f->meta->members.heartbeat_ms = BEAT_MS;
    client_open(&iod, f, ROLE_IOD, 0);
    request.id = register_server(&iod, 1);
    client_join(&c, f, 61);
    wrote(&c, make(&c, INODE_ROOT, "f", 0100644, false), 5000);
    assert_int_equal(uv_sem_init(&sync_gate, 0), 0);
    true_sync = f->meta->kv->sync;
    f->meta->kv->sync = held_sync;
    assert_int_equal(unlink_with(&c, next_op(&c), "f", &removed), 0);
    morsel__removed__free_unpacked(removed, NULL);
    start(&iod, &w, MSG_HEARTBEAT, &request.base);
    pass(&f->loop, SILENCE_MS * 3);
    member = members_find(&f->meta->members, request.id);
    up = member->up && !w.done;
    for (int i = 0; i < 8; i++) {
        uv_sem_post(&sync_gate);
    }
    while (!w.done) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    f->meta->kv->sync = true_sync;
    assert_true(up);
    assert_true(member->up);
    pass(&f->loop, SILENCE_MS * 2);
    assert_false(member->up);
    client_close(&c);
    client_close(&iod);
    meta_down(f);
    meta_up(f);
    uv_sem_destroy(&sync_gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_open_file_is_collected_when_it_is_closed),
        TEST(nothing_is_collected_before_its_removal_is_durable),
        TEST(who_waits_for_the_managers_disk_is_not_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
