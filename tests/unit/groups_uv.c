/* The manager makes groups, tells them and places files on them, with storage servers that say in their
 * heartbeats what they have. */
#include "meta/cluster/groups_uv.h"
#include "common/base/status.h"
#include "meta/cluster/groups_inner_uv.h"
#include "meta/storage/kv_leveldb.h"
#include "tests/lib/meta_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS = 3, WIDE = 8 };

struct world
{
    struct fixture *f;
    struct client iod, c;
    uint64_t has[SERVERS + 1];           /* Version of the table on its disk, by server. */
    uint32_t groups[SERVERS + 1];        /* Of the table that it was told last. */
    char peer[SERVERS + 1][SERVERS + 1]; /* Last letter of the addresses that it was told. */
    Morsel__CopyState *unwell;           /* Said by each server of its copies. */
};

static void world_open(struct world *w, struct fixture *f, uint8_t servers)
{
    memset(w, 0, sizeof(*w));
    w->f = f;
    client_open(&w->iod, f, ROLE_IOD, 0);
    for (uint8_t i = 1; i <= servers; i++) {
        assert_int_equal(register_server(&w->iod, i), i);
    }
    client_join(&w->c, f, 41);
}

static void world_close(struct world *w)
{
    client_close(&w->c);
    client_close(&w->iod);
}

/* One heartbeat. Was it told a table? It keeps it. */
static bool heartbeat(struct world *w, uint32_t server)
{
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    Morsel__HeartbeatReply *reply;
    bool told;

    request.id = server;
    request.bytes_total = request.bytes_free = UINT64_C(1) << 40;
    request.groups_version = w->has[server];
    request.n_copies = w->unwell != NULL;
    request.copies = &w->unwell;
    assert_int_equal(
        call(&w->iod, MSG_HEARTBEAT, &request.base, &morsel__heartbeat_reply__descriptor, &reply),
        0);
    told = reply->groups != NULL;
    if (told) {
        w->has[server] = reply->groups->version;
        w->groups[server] = (uint32_t)reply->groups->n_groups;
        for (size_t i = 0; i < reply->groups->n_groups; i++) {
            const Morsel__Group *g = reply->groups->groups[i];

            assert_int_equal(g->n_since, g->n_servers);
            assert_in_range(g->since[0], 1, reply->groups->version);
            assert_true(g->copies == 2 && g->leaving == 0);
        }
        for (size_t i = 0; i < reply->groups->n_servers; i++) {
            const Morsel__Member *m = reply->groups->servers[i];

            assert_in_range(m->id, 1, SERVERS);
            w->peer[server][m->id] = m->address[strlen(m->address) - 1];
        }
    }
    morsel__heartbeat_reply__free_unpacked(reply, NULL);
    return told;
}

static void wait_until_told(struct world *w, uint32_t server)
{
    while (!heartbeat(w, server)) {
        uv_run(&w->f->loop, UV_RUN_ONCE);
    }
}

/* A policy of so many copies. */
static void start_policy(struct world *w, struct waiting_call *call, const char *replicas)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__OpId op = next_op(&w->c);

    request.op = &op;
    request.inode = INODE_ROOT;
    request.name = bytes("user.morsel.replicas");
    request.value = bytes(replicas);
    start(&w->c, call, MSG_XATTR_SET, &request.base);
}

static int wait_for(struct world *w, const struct waiting_call *call)
{
    while (!call->done) {
        uv_run(&w->f->loop, UV_RUN_ONCE);
    }
    return call->status;
}

static void set_policy(struct world *w, const char *replicas, uint32_t servers)
{
    struct waiting_call policy;

    start_policy(w, &policy, replicas);
    for (uint32_t i = 1; i <= servers; i++) {
        wait_until_told(w, i);
        (void)heartbeat(w, i);
    }
    assert_int_equal(wait_for(w, &policy), 0);
}

static void assert_layout(struct world *w, inode_id inode, const char *value)
{
    Morsel__XattrGetRequest request = MORSEL__XATTR_GET_REQUEST__INIT;
    Morsel__XattrReply *reply;

    request.inode = inode;
    request.name = bytes("user.morsel.layout");
    assert_int_equal(
        call(&w->c, MSG_XATTR_GET, &request.base, &morsel__xattr_reply__descriptor, &reply), 0);
    assert_int_equal(reply->value.len, strlen(value));
    assert_memory_equal(reply->value.data, value, strlen(value));
    morsel__xattr_reply__free_unpacked(reply, NULL);
}

static void more_copies_than_servers_are_refused(void **state)
{
    struct errmsg err = { "" };
    struct waiting_call policy;
    struct world w;

    world_open(&w, *state, 1);
    start_policy(&w, &policy, "2");
    assert_int_equal(wait_for(&w, &policy), MORSEL_NO_SERVERS);
    assert_int_equal(groups_want(w.f->meta, 2, &err), MORSEL_NO_SERVERS);
    assert_string_equal(
        err.text,
        "2 copies need 2 storage servers, and 1 is up: start more, or use fewer replicas");
    (void)register_server(&w.iod, 2);
    start_policy(&w, &policy, "3");
    assert_int_equal(wait_for(&w, &policy), MORSEL_NO_SERVERS);
    assert_int_equal(ns_groups(w.f->meta->ns)->version, 0); /* Nobody made anything. */
    assert_false(heartbeat(&w, 1));
    world_close(&w);
}

/* The policy holds when each server has each group on its disk; until then it waits. */
static void a_policy_waits_for_its_groups(void **state)
{
    struct waiting_call policy;
    struct world w;
    inode_id file;

    world_open(&w, *state, 2);
    start_policy(&w, &policy, "2");
    wait_until_told(&w, 1);
    assert_true(sync_is_done(&w.f->meta->sync)); /* Not before the manager has it on its own. */
    assert_int_equal(w.groups[1], 2);
    assert_true(w.peer[1][1] == '1' && w.peer[1][2] == '2');
    assert_false(heartbeat(&w, 1)); /* It has it. */
    assert_true(heartbeat(&w, 2));
    assert_false(policy.done);
    assert_false(heartbeat(&w, 2));
    assert_int_equal(wait_for(&w, &policy), 0);
    file = make(&w.c, INODE_ROOT, "f", 0100644, false);
    assert_int_equal(file % 2, 0);
    assert_layout(&w, file,
                  "class=durable replicas=2 morsel_size=1048576 stripe_size=1 servers=1,2 "
                  "groups=1:1/2,2:2/1");
    start_policy(&w, &policy, "2"); /* They are there. */
    assert_int_equal(wait_for(&w, &policy), 0);
    world_close(&w);
}

/* Behind a restart of the manager too, before any server has said anything again. */
static void what_is_told_stays_told(void **state)
{
    struct world w;

    world_open(&w, *state, 2);
    set_policy(&w, "2", 2);
    client_close(&w.iod);
    client_close(&w.c);
    meta_down(w.f);
    meta_up(w.f);
    client_join(&w.c, w.f, 42);
    assert_layout(&w, make(&w.c, INODE_ROOT, "f", 0100644, false),
                  "class=durable replicas=2 morsel_size=1048576 stripe_size=1 servers=1,2 "
                  "groups=1:1/2,2:2/1");
    client_open(&w.iod, w.f, ROLE_IOD, 0);
    assert_int_equal(register_server(&w.iod, 1), 1);
    assert_false(heartbeat(&w, 1)); /* It has it. */
    assert_int_equal(ns_groups(w.f->meta->ns)->count, 2);
    world_close(&w);
}

static void nobody_waits_for_ever(void **state)
{
    struct waiting_call policy;
    struct world w;

    world_open(&w, *state, 2);
    w.f->meta->members.heartbeat_ms = 10;
    start_policy(&w, &policy, "2");
    while (ns_groups(w.f->meta->ns)->version == 0) {
        uv_run(&w.f->loop, UV_RUN_ONCE);
    }
    w.f->meta->members.heartbeat_ms = 60000;
    assert_int_equal(wait_for(&w, &policy), MORSEL_NO_SERVERS);
    wait_until_told(&w, 1);
    wait_until_told(&w, 2);
    (void)heartbeat(&w, 1);
    (void)heartbeat(&w, 2);
    start_policy(&w, &policy, "2");
    assert_int_equal(wait_for(&w, &policy), 0);
    world_close(&w);
}

static void a_server_that_joins_gets_groups(void **state)
{
    struct waiting_call policy;
    struct world w;

    world_open(&w, *state, 2);
    set_policy(&w, "2", 2);
    (void)register_server(&w.iod, 3);
    for (uint32_t i = 1; i <= 3; i++) {
        wait_until_told(&w, i);
    }
    assert_int_equal(w.groups[1], 3); /* (1, 2), (2, 1), (3, 1) */
    assert_int_equal(w.groups[2], 3); /* And (2, 3). */
    assert_int_equal(w.groups[3], 2);
    start_policy(&w, &policy, "2"); /* Files are to lie on its groups as well. */
    for (uint32_t i = 1; i <= 3; i++) {
        assert_false(ns_groups(w.f->meta->ns)->items[3].told);
        assert_false(policy.done);
        (void)heartbeat(&w, i);
    }
    assert_int_equal(wait_for(&w, &policy), 0);
    assert_true(ns_groups(w.f->meta->ns)->items[3].told);
    world_close(&w);
}

/* With the mark of a start (starts.h), or with 0 none. */
static void register_started(struct world *w, uint8_t number, const char *address, uint64_t mark)
{
    Morsel__RegisterRequest request = MORSEL__REGISTER_REQUEST__INIT;
    uint8_t token[16] = { number };

    request.id = number;
    request.token = (ProtobufCBinaryData){ sizeof(token), token };
    request.address = (char *)(uintptr_t)address;
    request.bytes_total = request.bytes_free = UINT64_C(1) << 40;
    request.mark = mark;
    assert_int_equal(call(&w->iod, MSG_REGISTER, &request.base, NULL, NULL), 0);
}

static void register_at(struct world *w, uint8_t number, const char *address)
{
    register_started(w, number, address, 0);
}

/* Those that share its groups learn where it is. */
static void a_server_that_moves_is_told_to_its_groups(void **state)
{
    struct world w;
    uint64_t before;

    world_open(&w, *state, 2);
    set_policy(&w, "2", 2);
    before = w.has[1];
    client_close(&w.iod);
    client_open(&w.iod, w.f, ROLE_IOD, 0);
    while (members_find(&w.f->meta->members, 2)->connected) {
        uv_run(&w.f->loop, UV_RUN_ONCE);
    }
    (void)register_server(&w.iod, 1);
    register_at(&w, 2, "127.0.0.1:10007");
    wait_until_told(&w, 1);
    assert_true(w.has[1] > before && w.peer[1][2] == '7');
    assert_true(ns_groups(w.f->meta->ns)->items[0].told);
    before = w.has[1];
    register_at(&w, 2, "127.0.0.1:10007");
    assert_false(heartbeat(&w, 1));
    client_close(&w.iod); /* It starts anew, where it was. */
    client_open(&w.iod, w.f, ROLE_IOD, 0);
    while (members_find(&w.f->meta->members, 2)->connected) {
        uv_run(&w.f->loop, UV_RUN_ONCE);
    }
    register_started(&w, 2, "127.0.0.1:10007", 77);
    assert_int_equal(members_find(&w.f->meta->members, 2)->record.starts.tentative, 77);
    assert_int_equal(ns_groups(w.f->meta->ns)->version, before);
    world_close(&w);
}

/* ---- Status ---- */

static Morsel__StatusReply *status_of(struct world *w)
{
    Morsel__StatusReply *reply;

    assert_int_equal(call(&w->iod, MSG_STATUS, NULL, &morsel__status_reply__descriptor, &reply), 0);
    return reply;
}

static void assert_progress(struct world *w, Morsel__CopyState *said, uint64_t left, uint64_t given,
                            uint64_t begun)
{
    Morsel__StatusReply *status;

    said->bytes_left = left;
    said->bytes_given = given;
    (void)heartbeat(w, 1);
    status = status_of(w);
    assert_int_equal(status->groups[1]->copies[0]->bytes_left, left);
    assert_int_equal(status->groups[1]->copies[0]->bytes_begun, begun);
    morsel__status_reply__free_unpacked(status, NULL);
}

/* What is left is known better and better, and grows with what clients write: what has been given stays given. */
static void status_shows_how_far_a_rebuild_is(void **state)
{
    Morsel__CopyState said = MORSEL__COPY_STATE__INIT;
    struct world w;

    world_open(&w, *state, 2);
    set_policy(&w, "2", 2);
    said.group = 2;
    said.state = 1;
    said.set = 1;
    w.unwell = &said;
    assert_progress(&w, &said, 0, 0, 0);
    assert_progress(&w, &said, 100, 1000, 100);
    assert_progress(&w, &said, 120, 1000, 120); /* More is known of. */
    assert_progress(&w, &said, 300, 1050, 350);
    assert_progress(&w, &said, 200, 1150, 350);
    assert_progress(&w, &said, 150, 1150, 300);
    assert_progress(&w, &said, 10, 1350, 360);
    assert_progress(&w, &said, 400, 20, 400); /* Another one has begun. */
    assert_progress(&w, &said, 0, 420, 0);
    world_close(&w);
}

static void status_shows_what_is_not_well(void **state)
{
    Morsel__CopyState stale = MORSEL__COPY_STATE__INIT;
    Morsel__StatusReply *status;
    struct world w;

    world_open(&w, *state, 2);
    status = status_of(&w);
    assert_int_equal(status->n_groups, 0);
    morsel__status_reply__free_unpacked(status, NULL);
    set_policy(&w, "2", 2);
    status = status_of(&w);
    assert_int_equal(status->n_groups, 2);
    assert_int_equal(status->groups[1]->group->servers[0], 2);
    assert_true(status->groups[0]->told && status->groups[0]->n_copies == 0);
    morsel__status_reply__free_unpacked(status, NULL);
    stale.group = 2;
    stale.state = 2;
    stale.set = 1;
    stale.bytes_left = 99;
    stale.opening = true;
    stale.trouble = (char *)(uintptr_t) "b\033d";
    w.unwell = &stale;
    (void)heartbeat(&w, 1);
    status = status_of(&w);
    assert_int_equal(status->groups[0]->n_copies, 0);
    assert_int_equal(status->groups[1]->n_copies, 1);
    assert_int_equal(status->groups[1]->places[0], 1); /* (2, 1) */
    assert_int_equal(status->groups[1]->copies[0]->state, 2);
    assert_int_equal(status->groups[1]->copies[0]->bytes_left, 99);
    assert_true(status->groups[1]->copies[0]->opening);
    assert_string_equal(status->groups[1]->copies[0]->trouble, "b?d");
    morsel__status_reply__free_unpacked(status, NULL);
    world_close(&w);
}

/* The database was put back to an older state: what a server knows of is not what there is. */
static void a_table_of_the_future_does_not_count(void **state)
{
    struct waiting_call policy;
    Morsel__StatusReply *status;
    struct world w;

    world_open(&w, *state, 2);
    w.has[1] = 99;
    assert_false(heartbeat(&w, 1));
    start_policy(&w, &policy, "2");
    wait_until_told(&w, 2);
    (void)heartbeat(&w, 2);
    assert_false(heartbeat(&w, 1));
    assert_false(ns_groups(w.f->meta->ns)->items[0].told);
    assert_false(policy.done);
    status = status_of(&w);
    assert_false(status->groups[0]->told);
    assert_int_equal(status->groups[0]->n_copies, 1);
    assert_non_null(strstr(status->groups[0]->copies[0]->trouble, "newer groups"));
    morsel__status_reply__free_unpacked(status, NULL);
    world_close(&w);
}

/* ---- Files ---- */

/* Which of the objects of column 0 in these groups belong to no file, on that server? */
static uint32_t strays(struct world *w, uint32_t server, inode_id inode, uint32_t groups)
{
    Morsel__FsckObjects objects = MORSEL__FSCK_OBJECTS__INIT, *found;
    uint64_t inodes[WIDE];
    uint32_t columns[WIDE], bits = 0;

    objects.server = server;
    objects.n_inode = objects.n_column = groups + 1;
    objects.inode = inodes;
    objects.column = columns;
    for (uint32_t i = 0; i <= groups; i++) {
        inodes[i] = inode;
        columns[i] = placing_object(i, 0);
    }
    assert_int_equal(
        call(&w->iod, MSG_FSCK_OBJECTS, &objects.base, &morsel__fsck_objects__descriptor, &found),
        0);
    for (size_t i = 0; i < found->n_inode; i++) {
        bits |= 1U << placing_group(found->column[i]);
    }
    morsel__fsck_objects__free_unpacked(found, NULL);
    return bits;
}

static void what_a_file_has_is_known_and_collected(void **state)
{
    Morsel__HeartbeatReply *last;
    Morsel__Removed *removed;
    struct world w;
    inode_id file;

    world_open(&w, *state, 3);
    set_policy(&w, "2", 3);
    do {
        char name[2] = "a";

        name[0] = (char)('a' + w.c.sequence % 26);
        file = make(&w.c, INODE_ROOT, name, 0100644, false);
        if (file % 3 == 0) {
            wrote(&w.c, file, 5);
            assert_int_equal(strays(&w, 1, file, 3), 1 << 0 | 1 << 2 | 1 << 3);
            assert_int_equal(strays(&w, 2, file, 3), 1 << 0 | 1 << 2 | 1 << 3);
            assert_int_equal(strays(&w, 3, file, 3), 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3);
            assert_int_equal(unlink_with(&w.c, next_op(&w.c), name, &removed), 0);
            morsel__removed__free_unpacked(removed, NULL);
        }
    } while (file % 3 != 0);
    for (uint32_t i = 1; i <= 3; i++) {
        last = NULL;
        assert_int_equal(beat(&w.iod, i, &last), i < 3);
        assert_true(i == 3 || (last->collect_inode[0] == file &&
                               last->collect_column[0] == placing_object(1, 0)));
        assert_int_equal(beat(&w.iod, i, &last), 0);
        morsel__heartbeat_reply__free_unpacked(last, NULL);
        /* Server 1 may have been given it again while server 2 still has to delete it in the group's order. */
        assert_int_equal(strays(&w, 1, file, 1), 1 << 0 | (i > 1 ? 1 << 1 : 0));
    }
    assert_int_equal(garbage_of(w.f), 0);
    world_close(&w);
}

/* ---- Without a policy ---- */

/* Restart the manager with that setting; slow enough that no server is down in a test, and quick enough
 * that who makes a file waits. */
static void set_rule(struct fixture *f, const char *rule)
{
    meta_down(f);
    (void)snprintf(f->settings.replicas, sizeof(f->settings.replicas), "%s", rule);
    f->settings.heartbeat_ms = 2000;
    meta_up(f);
}

static void start_make(struct world *w, struct waiting_call *call, const char *name)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT;
    Morsel__OpId op = next_op(&w->c);

    request.op = &op;
    request.who = &who;
    request.parent = INODE_ROOT;
    request.name = bytes(name);
    request.mode = 0100644;
    start(&w->c, call, MSG_CREATE, &request.base);
    call->reply_type = &morsel__node__descriptor;
}

/* How many copies the file has got. */
static uint32_t copies_of(struct world *w, struct waiting_call *call)
{
    Morsel__Node *node;
    uint32_t copies;

    assert_int_equal(wait_for(w, call), 0);
    node = call->reply;
    copies = node->layout->replicas;
    morsel__node__free_unpacked(node, NULL);
    return copies;
}

static uint32_t copies_of_new(struct world *w, const char *name)
{
    struct waiting_call call;

    start_make(w, &call, name);
    return copies_of(w, &call);
}

static void assert_shown(struct world *w, uint32_t copies, uint32_t rule)
{
    Morsel__StatusReply *status = status_of(w);

    assert_int_equal(status->new_copies, copies);
    assert_int_equal(status->new_copies_rule, rule);
    morsel__status_reply__free_unpacked(status, NULL);
}

static void take_over_groups(struct world *w, uint32_t servers)
{
    for (uint32_t i = 1; i <= servers; i++) {
        wait_until_told(w, i);
    }
    for (uint32_t i = 1; i <= servers; i++) {
        (void)heartbeat(w, i);
    }
}

/* One server: one copy. With the second one comes the moment in which its groups are not told: nobody
 * gets one copy for good because he was quick. */
static void files_have_two_copies_as_soon_as_there_are_two_servers(void **state)
{
    struct waiting_call early;
    struct world w;

    set_rule(*state, "auto");
    world_open(&w, *state, 1);
    assert_int_equal(copies_of_new(&w, "alone"), 1);
    assert_shown(&w, 1, 0);
    assert_int_equal(register_server(&w.iod, 2), 2);
    start_make(&w, &early, "early");
    wait_until_told(&w, 1);
    wait_until_told(&w, 2);
    (void)heartbeat(&w, 2);
    assert_false(early.done);
    assert_shown(&w, 2, 0);
    (void)heartbeat(&w, 1);
    assert_int_equal(copies_of(&w, &early), 2);
    assert_int_equal(copies_of_new(&w, "later"), 2);
    set_policy(&w, "1", 0);
    assert_int_equal(copies_of_new(&w, "said"), 1);
    assert_shown(&w, 2, 0); /* Elsewhere. */
    world_close(&w);
}

/* Groups that do not come are waited for once. */
static void nobody_waits_for_ever_for_a_default(void **state)
{
    struct waiting_call first;
    struct world w;

    set_rule(*state, "auto");
    world_open(&w, *state, 2);
    w.f->meta->members.heartbeat_ms = 10;
    start_make(&w, &first, "first");
    assert_int_equal(copies_of(&w, &first), 1);
    w.f->meta->members.heartbeat_ms = 2000;
    assert_int_equal(copies_of_new(&w, "next"), 1); /* Would wait 10 s. */
    assert_false(uv_is_active((uv_handle_t *)&w.f->meta->groups->timer));
    assert_shown(&w, 1, 0);
    take_over_groups(&w, 2);
    assert_int_equal(copies_of_new(&w, "then"), 2);
    world_close(&w);
}

/* Heartbeats that take minutes are not waited for. */
static void slow_heartbeats_are_not_waited_for(void **state)
{
    struct world w;

    set_rule(*state, "auto");
    world_open(&w, *state, 2);
    w.f->meta->members.heartbeat_ms = COPIES_WAIT_MS_MAX / GROUPS_WAIT_HEARTBEATS + 1;
    assert_int_equal(copies_of_new(&w, "first"), 1);
    world_close(&w);
}

/* Planned, not told, and the manager starts anew: who makes a file waits until the servers are back. */
static void a_restart_in_between_costs_no_copy(void **state)
{
    struct waiting_call first;
    struct world w;

    set_rule(*state, "auto");
    world_open(&w, *state, 2);
    wait_until_told(&w, 1);
    client_close(&w.iod);
    client_close(&w.c);
    meta_down(w.f);
    meta_up(w.f);
    client_join(&w.c, w.f, 42);
    start_make(&w, &first, "first");
    client_open(&w.iod, w.f, ROLE_IOD, 0);
    assert_int_equal(register_server(&w.iod, 1), 1);
    assert_false(heartbeat(&w, 1)); /* It has it. */
    assert_false(first.done);
    assert_int_equal(register_server(&w.iod, 2), 2);
    wait_until_told(&w, 2);
    assert_false(first.done);
    (void)heartbeat(&w, 2);
    assert_int_equal(copies_of(&w, &first), 2);
    world_close(&w);
}

static void a_number_is_kept_to(void **state)
{
    struct waiting_call call;
    struct world w;

    set_rule(*state, "2");
    world_open(&w, *state, 1);
    assert_shown(&w, 2, 2);
    start_make(&w, &call, "alone");
    assert_int_equal(wait_for(&w, &call), MORSEL_NO_SERVERS);
    assert_int_equal(register_server(&w.iod, 2), 2);
    start_make(&w, &call, "both");
    take_over_groups(&w, 2);
    assert_int_equal(copies_of(&w, &call), 2);
    world_close(&w);
}

/* Groups of two and of three are made for the same server, in one go: neither takes those of the other
 * back. */
static void both_numbers_of_copies_get_groups_at_once(void **state)
{
    const struct groups_record *groups;
    uint32_t of_two = 0, of_three = 0;
    struct world w;

    set_rule(*state, "3");
    world_open(&w, *state, 2);
    set_policy(&w, "2", 2);
    assert_int_equal(ns_groups(w.f->meta->ns)->count, 2);
    (void)register_server(&w.iod, 3);
    groups = ns_groups(w.f->meta->ns);
    for (uint32_t i = 0; i < groups->count; i++) {
        of_two += groups->items[i].copies == 2;
        of_three += groups->items[i].copies == 3;
    }
    assert_int_equal(of_two, 4); /* (1, 2), (2, 1), (2, 3), (3, 1) */
    assert_in_range(of_three, 1, 3);
    world_close(&w);
}

/* Make the database one of an older version. */
static void make_older(struct fixture *f)
{
    struct errmsg err = { "" };
    struct record_key key = key_super();
    struct super super = *ns_super(f->meta->ns);
    struct kv_batch batch;
    struct kv *kv;
    char path[sizeof(f->settings.data_dir) + 4];
    struct buf b;

    meta_down(f);
    super.auto_copies = false;
    buf_init(&b);
    super_encode(&super, &b);
    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), buf_slice(&b));
    (void)snprintf(path, sizeof(path), "%s/db", f->settings.data_dir);
    assert_int_equal(kv_leveldb_open(path, false, &kv, &err), 0);
    assert_int_equal(kv->commit(kv, &batch, true, &err), 0);
    kv->close(kv);
    kv_batch_free(&batch);
    buf_free(&b);
    f->settings.replicas[0] = '\0';
    meta_up(f);
}

/* Where nothing is set, a new database has the new default, and an older one that of its time. */
static void an_older_database_keeps_its_default(void **state)
{
    struct fixture *f = *state;
    struct world w;

    set_rule(f, "");
    assert_int_equal(f->meta->groups->rule, COPIES_AUTO);
    make_older(f);
    world_open(&w, f, 2);
    assert_int_equal(copies_of_new(&w, "file"), 1);
    assert_shown(&w, 1, 1);
    assert_int_equal(ns_groups(f->meta->ns)->version, 0);
    client_close(&w.iod);
    client_close(&w.c);
    set_rule(f, "auto");
    client_open(&w.iod, f, ROLE_IOD, 0);
    client_join(&w.c, f, 43);
    assert_int_equal(register_server(&w.iod, 1), 1);
    assert_int_equal(register_server(&w.iod, 2), 2);
    take_over_groups(&w, 2);
    assert_int_equal(copies_of_new(&w, "new"), 2);
    assert_false(ns_super(f->meta->ns)->auto_copies); /* It was only set. */
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(more_copies_than_servers_are_refused),
        TEST(a_policy_waits_for_its_groups),
        TEST(what_is_told_stays_told),
        TEST(nobody_waits_for_ever),
        TEST(a_server_that_joins_gets_groups),
        TEST(a_server_that_moves_is_told_to_its_groups),
        TEST(status_shows_what_is_not_well),
        TEST(status_shows_how_far_a_rebuild_is),
        TEST(a_table_of_the_future_does_not_count),
        TEST(what_a_file_has_is_known_and_collected),
        TEST(files_have_two_copies_as_soon_as_there_are_two_servers),
        TEST(nobody_waits_for_ever_for_a_default),
        TEST(slow_heartbeats_are_not_waited_for),
        TEST(a_restart_in_between_costs_no_copy),
        TEST(a_number_is_kept_to),
        TEST(both_numbers_of_copies_get_groups_at_once),
        TEST(an_older_database_keeps_its_default),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
