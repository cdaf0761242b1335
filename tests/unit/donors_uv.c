/* Benefactors behind the wire: a real manager on the loop of the test, and processes that join it. */
#include "meta/cluster/donors_uv.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/meta_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 120, MANY = 2500, CROWD = 35 };

/* A process that serves a directory. */
struct desk
{
    struct client c;
    uint8_t directory;
    uint64_t instance;
    uint32_t id;
    uint32_t wanted; /* So often it was asked. */
};

static void on_push(void *data, enum message_type type, const uint8_t *body, size_t body_count)
{
    struct desk *desk = data;

    (void)body;
    (void)body_count;
    assert_int_equal(type, MSG_DONOR_WANTED);
    desk->wanted++;
}

static void desk_open(struct desk *desk, struct fixture *f, uint8_t directory, uint64_t instance)
{
    *desk = (struct desk){ .directory = directory, .instance = instance };
    client_open(&desk->c, f, ROLE_BENEFACTOR, 0);
    rpc_peer_watch(desk->c.peer, NULL, NULL, desk);
    rpc_peer_on_push(desk->c.peer, on_push);
}

static int join_as(struct desk *desk, uint32_t id, const char *address, const char *name)
{
    Morsel__DonorJoinRequest request = MORSEL__DONOR_JOIN_REQUEST__INIT;
    Morsel__DonorReport report = MORSEL__DONOR_REPORT__INIT;
    Morsel__DonorJoinReply *reply = NULL;
    uint8_t token[16] = { desk->directory };
    int rv;

    report.donated = UINT64_C(50) << 30;
    report.used = 1000;
    request.token = (ProtobufCBinaryData){ sizeof(token), token };
    request.id = id;
    request.instance = desk->instance;
    request.address = (char *)(uintptr_t)address;
    request.name = (char *)(uintptr_t)name;
    request.report = &report;
    rv = call(&desk->c, MSG_DONOR_JOIN, &request.base, &morsel__donor_join_reply__descriptor,
              &reply);
    if (rv == 0) {
        desk->id = reply->id;
        assert_int_equal(reply->report_ms, desk->c.f->settings.donor_report_ms);
        assert_int_equal(reply->cluster_id.len, 16);
        morsel__donor_join_reply__free_unpacked(reply, NULL);
    }
    return rv;
}

static int join(struct desk *desk)
{
    return join_as(desk, desk->id, "10.0.0.1:7", "desk");
}

static int report(struct desk *desk, uint64_t used, bool leaves)
{
    Morsel__DonorReportRequest request = MORSEL__DONOR_REPORT_REQUEST__INIT;
    Morsel__DonorReport numbers = MORSEL__DONOR_REPORT__INIT;

    numbers.donated = UINT64_C(50) << 30;
    numbers.used = used;
    numbers.load = 150;
    numbers.up_s = 99;
    request.id = desk->id;
    request.instance = desk->instance;
    request.report = &numbers;
    request.leaves = leaves;
    return call(&desk->c, MSG_DONOR_REPORT, &request.base, NULL, NULL);
}

/* As `morsel donors` asks. To be freed. */
static Morsel__DonorListReply *list(struct fixture *f, uint32_t from)
{
    Morsel__DonorListRequest request = MORSEL__DONOR_LIST_REQUEST__INIT;
    Morsel__DonorListReply *reply = NULL;
    struct client admin;

    client_open(&admin, f, ROLE_ADMIN, 0);
    request.from = from;
    assert_int_equal(
        call(&admin, MSG_DONOR_LIST, &request.base, &morsel__donor_list_reply__descriptor, &reply),
        0);
    client_close(&admin);
    return reply;
}

static enum donor_state state_of(const struct fixture *f, uint32_t id)
{
    return donors_find(&f->meta->donors, id)->state;
}

static void until(struct fixture *f, uint32_t id, enum donor_state state)
{
    while (state_of(f, id) != state) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
}

/* The manager is started again, on the same directory. */
static void restart(struct fixture *f)
{
    meta_down(f);
    meta_up(f);
}

/* ---- The tests ---- */

static void who_joins_is_listed_with_what_it_reports(void **state)
{
    struct fixture *f = *state;
    Morsel__DonorListReply *all;
    struct desk desk;
    uint64_t syncs;

    desk_open(&desk, f, 1, 7);
    assert_int_equal(report(&desk, 5, false), MORSEL_NO_SESSION);
    syncs = f->meta->sync.syncs;
    assert_int_equal(join(&desk), 0);
    assert_int_equal(desk.id, 1);
    assert_true(f->meta->sync.syncs > syncs); /* Its number is on the disk. */
    assert_int_equal(report(&desk, 2000, false), 0);
    all = list(f, 0);
    assert_int_equal(all->n_donors, 1);
    assert_int_equal(all->next, 0);
    assert_true(all->count == 1 && all->here == 1 && all->used == 2000);
    assert_string_equal(all->donors[0]->name, "desk");
    assert_string_equal(all->donors[0]->address, "10.0.0.1:7");
    assert_int_equal(all->donors[0]->state, DONOR_HERE);
    assert_int_equal(all->donors[0]->report->load, 150);
    assert_int_equal(all->donors[0]->report->up_s, 99);
    morsel__donor_list_reply__free_unpacked(all, NULL);
    assert_true(donors_host_values(f->meta, donors_peer(1, 7)));
    assert_false(donors_host_values(f->meta, donors_peer(1, 8)));
    assert_int_equal(ns_super(f->meta->ns)->store_version, STORE_VERSION_DONORS);
    assert_int_equal(report(&desk, 2000, true), 0);
    assert_int_equal(state_of(f, 1), DONOR_AWAY);
    assert_int_equal(report(&desk, 2000, false), MORSEL_NO_SESSION);
    client_close(&desk.c);
}

static void numbers_outlive_the_manager(void **state)
{
    struct fixture *f = *state;
    Morsel__DonorListReply *all;
    struct desk one, two;

    desk_open(&one, f, 1, 7);
    desk_open(&two, f, 2, 8);
    assert_int_equal(join(&one), 0);
    assert_int_equal(join(&two), 0);
    restart(f);
    assert_int_equal(state_of(f, 2), DONOR_DOUBTED);
    all = list(f, 2);
    assert_int_equal(all->n_donors, 1);
    assert_string_equal(all->donors[0]->name, "desk");
    assert_string_equal(all->donors[0]->address, "");
    morsel__donor_list_reply__free_unpacked(all, NULL);
    assert_int_equal(report(&one, 5, false), MORSEL_NO_SESSION);
    assert_int_equal(join(&one), 0);
    assert_int_equal(one.id, 1);
    two.id = 0; /* It had not heard the answer. */
    assert_int_equal(join(&two), 0);
    assert_int_equal(two.id, 2);
    client_close(&one.c);
    client_close(&two.c);
}

static void who_is_silent_is_asked_and_then_hung_up_on(void **state)
{
    struct fixture *f = *state;
    struct desk desk;

    f->meta->donors.look_ms = LOOK_MS;
    desk_open(&desk, f, 1, 7);
    assert_int_equal(join(&desk), 0);
    until(f, 1, DONOR_DOUBTED);
    while (desk.wanted == 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(report(&desk, 1, false), 0);
    assert_int_equal(state_of(f, 1), DONOR_HERE);
    until(f, 1, DONOR_DOUBTED);
    until(f, 1, DONOR_AWAY);
    assert_int_equal(desk.wanted, 2);
    while (rpc_peer_connected(desk.c.peer)) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(join(&desk), 0); /* On the next connection. */
    assert_int_equal(state_of(f, 1), DONOR_HERE);
    client_close(&desk.c);
}

static void a_connection_that_ends_makes_room_for_the_next_process(void **state)
{
    struct fixture *f = *state;
    struct desk first, second, copy;

    desk_open(&first, f, 1, 7);
    assert_int_equal(join(&first), 0);
    desk_open(&second, f, 1, 8);
    assert_int_equal(join(&second), MORSEL_BUSY);
    client_close(&first.c);
    until(f, 1, DONOR_DOUBTED);
    assert_int_equal(join(&second), 0);
    assert_int_equal(second.id, 1);
    desk_open(&copy, f, 2, 9);
    copy.id = 1; /* Of another directory. */
    assert_int_equal(join(&copy), MORSEL_INVAL);
    copy.id = 77;
    assert_int_equal(join(&copy), MORSEL_INVAL);
    client_close(&copy.c);
    client_close(&second.c);
}

/* A laptop that woke up at another address: its old connection stands, as far as anybody knows, and its end says
 * nothing about the new one. */
static void the_same_process_is_welcome_on_another_connection(void **state)
{
    struct fixture *f = *state;
    struct desk before, after;

    desk_open(&before, f, 1, 7);
    assert_int_equal(join(&before), 0);
    desk_open(&after, f, 1, 7);
    after.id = 1;
    assert_int_equal(report(&after, 3, false), MORSEL_NO_SESSION); /* Whose end would be heard? */
    assert_int_equal(join_as(&after, 1, "10.9.9.9:7", "laptop"), 0);
    client_close(&before.c);
    for (int i = 0; i < 20; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        assert_int_equal(report(&after, 3, false), 0);
    }
    assert_int_equal(state_of(f, 1), DONOR_HERE);
    client_close(&after.c);
}

/* A connection was pulled, its process killed, and only then its end is heard. */
static void the_end_of_an_older_process_says_nothing_of_its_successor(void **state)
{
    struct fixture *f = *state;
    struct desk first, second;

    desk_open(&first, f, 1, 7);
    assert_int_equal(join(&first), 0);
    assert_int_equal(report(&first, 3, true), 0); /* Away, though its connection stands. */
    desk_open(&second, f, 1, 8);
    second.id = 1;
    assert_int_equal(join(&second), 0);
    client_close(&first.c);
    for (int i = 0; i < 20; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        assert_int_equal(report(&second, 3, false), 0);
    }
    assert_int_equal(state_of(f, 1), DONOR_HERE);
    client_close(&second.c);
}

static void strange_words_are_refused_or_made_harmless(void **state)
{
    Morsel__DonorJoinRequest request = MORSEL__DONOR_JOIN_REQUEST__INIT;
    Morsel__DonorReportRequest report_of = MORSEL__DONOR_REPORT_REQUEST__INIT;
    struct fixture *f = *state;
    struct client client;
    struct desk desk;
    uint8_t token[16] = { 9 };

    desk_open(&desk, f, 1, 7);
    assert_int_equal(join_as(&desk, 0, "10.0.0.1", "desk"), MORSEL_MALFORMED);
    assert_int_equal(join_as(&desk, 0, "", "desk"), MORSEL_MALFORMED);
    assert_int_equal(join_as(&desk, 0, "10.0.0.1:7\n", "desk"), MORSEL_MALFORMED);
    desk.instance = 0;
    assert_int_equal(join(&desk), MORSEL_MALFORMED);
    desk.instance = 7;
    request.instance = 7;
    request.address = (char *)(uintptr_t) "10.0.0.1:7";
    request.token = (ProtobufCBinaryData){ 15, token };
    assert_int_equal(call(&desk.c, MSG_DONOR_JOIN, &request.base, NULL, NULL), MORSEL_MALFORMED);
    assert_int_equal(f->meta->donors.count, 0);
    assert_int_equal(join_as(&desk, 0, "10.0.0.1:7", "d\x1b[2Jk"), 0);
    assert_string_equal(donors_find(&f->meta->donors, 1)->record.name, "d?[2Jk");
    client_join(&client, f, 41); /* A mount is no benefactor. */
    request.token.len = 16;
    assert_int_equal(call(&client, MSG_DONOR_JOIN, &request.base, NULL, NULL), MORSEL_MALFORMED);
    report_of.id = 1;
    report_of.instance = 7;
    assert_int_equal(call(&client, MSG_DONOR_REPORT, &report_of.base, NULL, NULL),
                     MORSEL_NO_SESSION);
    assert_int_equal(f->meta->donors.count, 1);
    client_close(&client);
    client_close(&desk.c);
}

static void put_record(struct fixture *f, uint32_t id)
{
    struct meta_op op = { .kind = OP_DONOR, .time_ns = 1 };
    struct errmsg err;

    op.donor.id = id;
    memcpy(op.donor.token, &id, sizeof(id));
    memset(op.donor.name, 'n', sizeof(op.donor.name) - 1); /* As long as they may be. */
    assert_int_equal(meta_execute(f->meta, &op, &err), 0);
}

static void thousands_come_in_pages(void **state)
{
    struct fixture *f = *state;
    uint32_t seen = 0, from = 0, pages = 0;

    for (uint32_t id = 1; id <= MANY; id++) {
        put_record(f, id * 3);
    }
    restart(f);
    do {
        Morsel__DonorListReply *page = list(f, from);

        assert_int_equal(page->count, MANY);
        for (size_t i = 0; i < page->n_donors; i++) {
            assert_int_equal(page->donors[i]->id, ++seen * 3);
        }
        assert_true(page->next == 0 || page->next == (seen + 1) * 3);
        from = page->next;
        pages++;
        morsel__donor_list_reply__free_unpacked(page, NULL);
    } while (from != 0);
    assert_int_equal(seen, MANY);
    assert_int_equal(pages, 3);
}

static uint32_t count_lines(const char *path, const char *words)
{
    FILE *file = fopen(path, "r");
    char line[512];
    uint32_t count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, words) != NULL;
    }
    (void)fclose(file);
    return count;
}

/* All on one connection: as fast as one can. */
static void a_crowd_is_few_lines_in_the_log(void **state)
{
    struct fixture *f = *state;
    struct desk desk;
    struct log *log;
    char path[128];
    uint32_t lines;

    (void)snprintf(path, sizeof(path), "%s/log", f->root);
    f->meta->log = log_open("test", path, LOG_LEVEL_INFO);
    assert_non_null(f->meta->log);
    desk_open(&desk, f, 1, 7);
    f->meta->donors_lines = (struct donors_lines){ .began_ms = UINT64_MAX / 2, .written = 1 };
    for (uint32_t directory = 1; directory <= CROWD; directory++) {
        desk.directory = (uint8_t)directory;
        desk.id = 0;
        f->meta->donors_lines.began_ms = meta_now_ms(f->meta); /* One long second. */
        assert_int_equal(join(&desk), 0);
    }
    lines = count_lines(path, "is here and donates");
    assert_int_equal(lines, DONORS_LINES_MAX - 1);
    while (count_lines(path, " more benefactors came") == 0) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(count_lines(path, "26 more benefactors came, 0 more went away"), 1);
    client_close(&desk.c);
    log = f->meta->log;
    f->meta->log = NULL;
    log_close(log);
}

/* The database has no room at first: who is new waits for it, as changes do. */
static uint32_t no_room_left;
static bool (*real_has_room)(struct kv *kv);

static bool has_room_later(struct kv *kv)
{
    if (no_room_left > 0) {
        no_room_left--;
        return false;
    }
    return real_has_room(kv);
}

static void who_is_new_waits_for_room(void **state)
{
    struct fixture *f = *state;
    struct desk desk;

    desk_open(&desk, f, 1, 7);
    real_has_room = f->meta->kv->has_room;
    f->meta->kv->has_room = has_room_later;
    no_room_left = 1;
    assert_int_equal(join(&desk), 0);
    assert_int_equal(no_room_left, 0);
    assert_int_equal(f->meta->loads.rooms, 1);
    no_room_left = 1; /* Who is known needs none. */
    assert_int_equal(join(&desk), 0);
    assert_int_equal(no_room_left, 1);
    no_room_left = 0;
    client_close(&desk.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_joins_is_listed_with_what_it_reports),
        TEST(numbers_outlive_the_manager),
        TEST(who_is_silent_is_asked_and_then_hung_up_on),
        TEST(a_connection_that_ends_makes_room_for_the_next_process),
        TEST(the_same_process_is_welcome_on_another_connection),
        TEST(the_end_of_an_older_process_says_nothing_of_its_successor),
        TEST(strange_words_are_refused_or_made_harmless),
        TEST(thousands_come_in_pages),
        TEST(a_crowd_is_few_lines_in_the_log),
        TEST(who_is_new_waits_for_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
