/* Files that are held still for who has them moved: PAUSE and PAUSED, on a manager with clients. */
#include "../lib/meta_fixture.h"
#include "common/base/status.h"
#include "meta/coherence/pauses.h"

/* A client that notes what is pushed, and gives leases back, but for one that it keeps until the test says so. */
struct mount
{
    struct client client;
    uint64_t pause; /* The number of the last one that it heard of; 0: none. */
    inode_id keeps;
    uint64_t recall;           /* Of that. 0: it is not wanted. */
    struct waiting_call waits; /* Its PAUSE or PAUSED. */
};

static void return_lease(struct mount *m, inode_id inode, uint64_t recall)
{
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    Morsel__Return one = MORSEL__RETURN__INIT, *list[] = { &one };

    one.recall = recall;
    one.inode = inode;
    request.n_returns = 1;
    request.returns = list;
    rpc_send_oneway(m->client.peer, MSG_RETURN, &request.base);
}

static void on_recalls(struct mount *m, const Morsel__RecallNotice *notice)
{
    for (size_t i = 0; i < notice->n_recalls; i++) {
        const Morsel__Recall *recall = notice->recalls[i];

        if (recall->inode == m->keeps) {
            m->recall = recall->recall;
        } else {
            return_lease(m, recall->inode, recall->recall);
        }
    }
}

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct mount *m = data;

    if (type == MSG_PAUSE) {
        Morsel__PauseNotice *notice =
            rpc_unpack(&morsel__pause_notice__descriptor, body, body_count);

        m->pause = notice->number;
        morsel__pause_notice__free_unpacked(notice, NULL);
    } else if (type == MSG_RECALL) {
        Morsel__RecallNotice *notice =
            rpc_unpack(&morsel__recall_notice__descriptor, body, body_count);

        on_recalls(m, notice);
        morsel__recall_notice__free_unpacked(notice, NULL);
    }
}

/* What it keeps goes back. */
static void give_back(struct mount *m)
{
    if (m->recall != 0) {
        return_lease(m, m->keeps, m->recall);
        m->recall = 0;
    }
}

static void mount_join(struct mount *m, struct fixture *f, uint64_t id, bool pauses)
{
    *m = (struct mount){ .pause = 0 };
    client_open(&m->client, f, ROLE_CLIENT, id);
    m->client.caches = true;
    m->client.pauses = pauses;
    rpc_peer_watch(m->client.peer, NULL, NULL, m);
    rpc_peer_on_push(m->client.peer, on_push);
    assert_int_equal(ask_session(&m->client), 0);
}

static int open_file(struct mount *m, inode_id inode, bool write, struct mount *holder)
{
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    struct waiting_call w;

    request.inode = inode;
    request.read = true;
    request.write = write;
    start(&m->client, &w, MSG_OPEN, &request.base);
    while (!w.done) {
        uv_run(&m->client.f->loop, UV_RUN_ONCE);
        if (holder != NULL) {
            give_back(holder);
        }
    }
    return w.status;
}

static void ask_pause(struct mount *m, inode_id inode)
{
    Morsel__PauseRequest request = MORSEL__PAUSE_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;

    who.groups_known = true;
    request.inode = inode;
    request.who = &who;
    start(&m->client, &m->waits, MSG_PAUSE, &request.base);
    m->waits.reply_type = &morsel__node__descriptor;
}

static int end_pause(struct mount *m, inode_id inode)
{
    Morsel__PauseRequest request = MORSEL__PAUSE_REQUEST__INIT;

    request.inode = inode;
    request.over = true;
    return call(&m->client, MSG_PAUSE, &request.base, NULL, NULL);
}

static void say_paused(struct mount *m, inode_id inode, uint64_t number, bool refused)
{
    Morsel__PausedRequest request = MORSEL__PAUSED_REQUEST__INIT;

    request.inode = inode;
    request.number = number;
    request.refused = refused;
    start(&m->client, &m->waits, MSG_PAUSED, &request.base);
    m->waits.reply_type = refused ? NULL : &morsel__node__descriptor;
}

static int exchange(struct mount *m, inode_id inode, inode_id with)
{
    Morsel__ExchangeRequest request = MORSEL__EXCHANGE_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;
    Morsel__OpId op = next_op(&m->client);

    who.groups_known = true;
    request.op = &op;
    request.inode = inode;
    request.with = with;
    request.who = &who;
    return call(&m->client, MSG_EXCHANGE, &request.base, NULL, NULL);
}

/* What the mount waits for is there; `status`. The place that was told is in `place`, the lease in `lease`. */
static void wait_answer(struct mount *m, int status, uint32_t *place, uint32_t *lease)
{
    Morsel__Node *node;

    while (!m->waits.done) {
        uv_run(&m->client.f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(m->waits.status, status);
    node = m->waits.reply;
    if (node != NULL) {
        *place = node->attr->place;
        *lease = node->lease;
        morsel__node__free_unpacked(node, NULL);
        m->waits.reply = NULL;
    }
}

static void wait_pushed(struct mount *m)
{
    while (m->pause == 0) {
        uv_run(&m->client.f->loop, UV_RUN_ONCE);
    }
}

/* A word: its lease period goes on. */
static void say_something(struct mount *m)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;

    request.inode = INODE_ROOT;
    assert_int_equal(call(&m->client, MSG_GETATTR, &request.base, NULL, NULL), 0);
}

/* As many steps of the loop as anything would take that is not waited for. */
static void assert_waits(struct mount *m)
{
    for (unsigned i = 0; i < 20; i++) {
        say_something(m);
    }
    assert_false(m->waits.done);
}

static inode_id make_copy(struct client *c)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    Morsel__OpId op = next_op(c);
    Morsel__Node *node;
    inode_id inode;

    request.op = &op;
    request.parent = INODE_ROOT;
    request.mode = 0100600;
    request.open = request.orphan = true;
    assert_int_equal(call(c, MSG_CREATE, &request.base, &morsel__node__descriptor, &node), 0);
    inode = node->attr->inode;
    protobuf_c_message_free_unpacked(&node->base, NULL);
    return inode;
}

/* Two who write, and one who has it moved. */
struct world
{
    struct client iod;
    struct mount mover, one, two;
    inode_id file, copy;
    uint32_t place, lease; /* Of the last answer. */
};

static void world_open(struct world *w, struct fixture *f, bool two_pauses)
{
    enum lease_mode lease = LEASE_NONE;

    client_open(&w->iod, f, ROLE_IOD, 0);
    (void)register_server(&w->iod, 1);
    mount_join(&w->mover, f, 61, true);
    mount_join(&w->one, f, 62, true);
    mount_join(&w->two, f, 63, two_pauses);
    (void)make(&w->mover.client, INODE_ROOT, "d", 0040755, false);
    while (lease == LEASE_NONE) { /* Its lease epoch is on the disk. */
        assert_int_equal(lookup(&w->mover.client, "d", &lease), 0);
    }
    w->file = make(&w->one.client, INODE_ROOT, "file", 0100644, true);
    assert_int_equal(open_file(&w->two, w->file, true, NULL), 0);
    assert_int_equal(open_file(&w->mover, w->file, false, NULL), 0);
    w->copy = make_copy(&w->mover.client);
    w->mover.keeps = w->file;
    assert_int_equal(exchange(&w->mover, w->file, w->copy), MORSEL_BUSY);
}

static void world_close(struct world *w)
{
    client_close(&w->two.client);
    client_close(&w->one.client);
    client_close(&w->mover.client);
    client_close(&w->iod);
}

static void both_hold_still(struct world *w)
{
    ask_pause(&w->mover, w->file);
    wait_pushed(&w->one);
    wait_pushed(&w->two);
    say_paused(&w->one, w->file, w->one.pause, false);
    assert_waits(&w->mover);
    assert_int_equal(exchange(&w->mover, w->file, w->copy), MORSEL_BUSY); /* One does. */
    say_paused(&w->two, w->file, w->two.pause, false);
    wait_answer(&w->mover, 0, &w->place, &w->lease);
    assert_int_equal(w->lease, LEASE_R);
}

/* They go on only when who has had it moved holds no lease any more, and are told where it lies. */
static void they_go_on(struct world *w, bool moved)
{
    uint64_t began_ms = uv_now(&w->mover.client.f->loop);
    uint32_t before = w->place;

    while (w->mover.recall == 0) {
        uv_run(&w->mover.client.f->loop, UV_RUN_ONCE);
        say_something(&w->mover);
        assert_false(w->one.waits.done || w->two.waits.done);
    }
    assert_true(!moved || uv_now(&w->mover.client.f->loop) < began_ms + PAUSE_HELD_MS / 2);
    give_back(&w->mover);
    wait_answer(&w->one, 0, &w->place, &w->lease);
    assert_int_equal(w->place != before, moved);
    wait_answer(&w->two, 0, &w->place, &w->lease);
    assert_int_equal(w->place != before, moved);
}

static void a_file_moves_while_all_hold_still(void **state)
{
    struct world w;

    world_open(&w, *state, true);
    both_hold_still(&w);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), 0);
    they_go_on(&w, true);
    w.copy = make_copy(&w.mover.client);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    world_close(&w);
}

/* Who is to hold still could not give a lease back, and who asked would wait for it. */
static void nobody_else_is_leased_it_meanwhile(void **state)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    Morsel__CloseRequest close = MORSEL__CLOSE_REQUEST__INIT;
    enum lease_mode lease = LEASE_NONE;
    Morsel__Node *node;
    struct world w;

    world_open(&w, *state, true);
    while (lease == LEASE_NONE) { /* Its lease epoch is on the disk. */
        assert_int_equal(lookup(&w.one.client, "d", &lease), 0);
    }
    close.n_inodes = 1;
    close.inodes = &w.file;
    assert_int_equal(call(&w.two.client, MSG_CLOSE, &close.base, NULL, NULL), 0);
    ask_pause(&w.mover, w.file);
    wait_pushed(&w.one);
    request.inode = w.file;
    for (uint64_t now_ms = uv_now(&w.one.client.f->loop), until_ms = now_ms + LEASE_QUIET_MS + 500;
         now_ms < until_ms; now_ms = uv_now(&w.one.client.f->loop)) {
        assert_int_equal(
            call(&w.one.client, MSG_GETATTR, &request.base, &morsel__node__descriptor, &node), 0);
        assert_int_equal(node->lease, LEASE_NONE);
        morsel__node__free_unpacked(node, NULL);
    }
    say_paused(&w.one, w.file, w.one.pause, false);
    wait_answer(&w.mover, 0, &w.place, &w.lease);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), 0);
    world_close(&w);
}

static void who_goes_on_is_not_moved(void **state)
{
    struct world w;

    world_open(&w, *state, true);
    both_hold_still(&w);
    assert_int_equal(end_pause(&w.mover, w.file), 0);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    they_go_on(&w, false);
    world_close(&w);
}

static void nobody_waits_for_who_refuses(void **state)
{
    uint64_t began_ms;
    struct world w;

    world_open(&w, *state, true);
    ask_pause(&w.mover, w.file);
    wait_pushed(&w.one);
    wait_pushed(&w.two);
    say_paused(&w.one, w.file, w.one.pause, false);
    began_ms = uv_now(&w.one.client.f->loop);
    say_paused(&w.two, w.file, w.two.pause, true);
    wait_answer(&w.two, 0, &w.place, &w.lease);
    wait_answer(&w.one, 0, &w.place, &w.lease);
    wait_answer(&w.mover, MORSEL_BUSY, &w.place, &w.lease);
    assert_true(uv_now(&w.one.client.f->loop) < began_ms + PAUSE_GATHER_MS / 2);
    world_close(&w);
}

static void an_older_mount_is_not_waited_for(void **state)
{
    struct world w;

    world_open(&w, *state, false);
    ask_pause(&w.mover, w.file);
    wait_answer(&w.mover, MORSEL_BUSY, &w.place, &w.lease);
    assert_int_equal(w.one.pause, 0);
    assert_int_equal(w.two.pause, 0);
    world_close(&w);
}

/* Under the number of one that is over, as when it comes late, and from somebody else. */
static void what_comes_late_counts_for_nothing(void **state)
{
    struct world w;
    uint64_t old;

    world_open(&w, *state, true);
    both_hold_still(&w);
    old = w.two.pause;
    assert_int_equal(end_pause(&w.mover, w.file), 0);
    they_go_on(&w, false);
    w.one.pause = w.two.pause = 0;
    ask_pause(&w.mover, w.file);
    wait_pushed(&w.two);
    wait_pushed(&w.one);
    assert_int_not_equal(w.two.pause, old);
    say_paused(&w.one, w.file, w.one.pause, false);
    say_paused(&w.two, w.file, old, false);
    wait_answer(&w.two, 0, &w.place, &w.lease);
    assert_waits(&w.mover);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    say_paused(&w.two, w.file, w.two.pause, false);
    wait_answer(&w.mover, 0, &w.place, &w.lease);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), 0);
    they_go_on(&w, true);
    world_close(&w);
}

static void one_who_comes_meanwhile_is_in_its_way(void **state)
{
    struct world w;
    struct mount third;

    world_open(&w, *state, true);
    mount_join(&third, *state, 64, true);
    both_hold_still(&w);
    ask_pause(&third, w.file);
    wait_answer(&third, MORSEL_INVAL, &w.place, &w.lease); /* It has not even opened it. */
    assert_int_equal(open_file(&third, w.file, true, &w.mover), 0);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    wait_answer(&w.one, 0, &w.place, &w.lease);
    wait_answer(&w.two, 0, &w.place, &w.lease);
    client_close(&third.client);
    world_close(&w);
}

static void who_opens_it_again_has_to_say_again_that_he_holds_still(void **state)
{
    struct world w;

    world_open(&w, *state, true);
    both_hold_still(&w);
    assert_int_equal(open_file(&w.one, w.file, true, &w.mover), 0);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    wait_answer(&w.one, 0, &w.place, &w.lease);
    wait_answer(&w.two, 0, &w.place, &w.lease);
    world_close(&w);
}

/* As with a new connection. The lease of who asked does not tell. */
static void who_says_that_he_has_it_open_has_to_say_more(void **state)
{
    Morsel__SessionRequest session = MORSEL__SESSION_REQUEST__INIT;
    struct world w;

    world_open(&w, *state, true);
    both_hold_still(&w);
    session.cache = session.pauses = true;
    session.number = 1;
    session.n_open_write = 1;
    session.open_write = &w.file;
    assert_int_equal(call(&w.one.client, MSG_SESSION, &session.base, NULL, NULL), 0);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    they_go_on(&w, false);
    world_close(&w);
}

static void they_go_on_when_who_asked_has_gone(void **state)
{
    struct world w;

    world_open(&w, *state, true);
    ask_pause(&w.mover, w.file);
    wait_pushed(&w.one);
    wait_pushed(&w.two);
    say_paused(&w.one, w.file, w.one.pause, false);
    rpc_call_cancel(&w.mover.waits.call);
    client_close(&w.mover.client);
    wait_answer(&w.one, 0, &w.place, &w.lease);
    client_close(&w.two.client);
    client_close(&w.one.client);
    client_close(&w.iod);
}

/* Nobody answers; nor does who asked, when all have. */
static void they_go_on_in_time(void **state)
{
    struct world w;
    uint64_t began_ms;

    world_open(&w, *state, true);
    ask_pause(&w.mover, w.file);
    wait_pushed(&w.one);
    say_paused(&w.one, w.file, w.one.pause, false);
    began_ms = uv_now(&w.one.client.f->loop);
    wait_answer(&w.mover, MORSEL_BUSY, &w.place, &w.lease);
    wait_answer(&w.one, 0, &w.place, &w.lease);
    assert_in_range(uv_now(&w.one.client.f->loop) - began_ms, PAUSE_GATHER_MS - 100, 60000);
    w.one.pause = w.two.pause = 0;
    both_hold_still(&w);
    they_go_on(&w, false);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), MORSEL_BUSY);
    world_close(&w);
}

/* One column, under `verifier`, was written to where the file lay at `place`. */
static void report_unsynced(struct mount *m, inode_id inode, uint32_t place, uint64_t verifier)
{
    Morsel__SizeReportRequest request = MORSEL__SIZE_REPORT_REQUEST__INIT;
    Morsel__Unsynced column = MORSEL__UNSYNCED__INIT, *columns[] = { &column };
    Morsel__OpId op = next_op(&m->client);

    column.verifier = verifier;
    request.op = &op;
    request.inode = inode;
    request.mtime_ns = 1;
    request.n_unsynced = 1;
    request.unsynced = columns;
    request.place = place;
    assert_int_equal(call(&m->client, MSG_SIZE_REPORT, &request.base, NULL, NULL), 0);
}

/* Who syncs the file hears of so many, the last under `verifier`, and for which place that holds. */
static void assert_unsynced(struct mount *m, inode_id inode, uint32_t place, size_t count,
                            uint64_t verifier)
{
    Morsel__FsyncRequest request = MORSEL__FSYNC_REQUEST__INIT;
    Morsel__FsyncReply *reply;

    request.inode = inode;
    assert_int_equal(
        call(&m->client, MSG_FSYNC, &request.base, &morsel__fsync_reply__descriptor, &reply), 0);
    assert_int_equal(reply->place, place);
    assert_int_equal(reply->n_unsynced, count);
    assert_true(count == 0 || reply->unsynced[count - 1]->verifier == verifier);
    morsel__fsync_reply__free_unpacked(reply, NULL);
}

/* Compared with what the servers say that have it now, it would tell of a loss of power. */
static void what_was_written_before_a_file_moved_is_not_recorded_where_it_lies_now(void **state)
{
    uint32_t before;
    struct world w;

    world_open(&w, *state, true);
    both_hold_still(&w);
    assert_int_equal(exchange(&w.mover, w.file, w.copy), 0);
    before = w.place;
    they_go_on(&w, true);
    report_unsynced(&w.two, w.file, before, 71);
    assert_unsynced(&w.one, w.file, w.place, 0, 0);
    report_unsynced(&w.one, w.file, w.place, 72);
    report_unsynced(&w.two, w.file, before, 71);
    assert_unsynced(&w.two, w.file, w.place, 1, 72);
    report_unsynced(&w.two, w.file, PLACE_UNKNOWN, 73); /* Of an older mount. */
    assert_unsynced(&w.two, w.file, w.place, 2, 73);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_moves_while_all_hold_still),
        TEST(nobody_else_is_leased_it_meanwhile),
        TEST(who_goes_on_is_not_moved),
        TEST(nobody_waits_for_who_refuses),
        TEST(an_older_mount_is_not_waited_for),
        TEST(what_comes_late_counts_for_nothing),
        TEST(one_who_comes_meanwhile_is_in_its_way),
        TEST(who_opens_it_again_has_to_say_again_that_he_holds_still),
        TEST(who_says_that_he_has_it_open_has_to_say_more),
        TEST(they_go_on_when_who_asked_has_gone),
        TEST(they_go_on_in_time),
        TEST(what_was_written_before_a_file_moved_is_not_recorded_where_it_lies_now),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
