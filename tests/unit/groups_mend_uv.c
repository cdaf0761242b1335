/* The manager replaces servers in their groups: on command, and when they are away; with storage servers whose
 * copies are at once as the table wants them. */
#include "common/base/status.h"
#include "meta/cluster/groups_uv.h"
#include "meta/service/reply_uv.h"
#include "tests/lib/meta_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVERS = 4, AWAY_MS = 150, BEAT_MS = 20, STEP_MS_MAX = 2000 };

struct world
{
    struct fixture *f;
    struct client iod, c;
    Morsel__GroupSet *tables[SERVERS + 1]; /* As each server was told last. */
    bool down[SERVERS + 1];
    uint64_t used[SERVERS + 1]; /* Bytes of each disk. */
    uint32_t servers;
};

/* ---- Storage servers ---- */

/* Places of the group that are in sync: who holds one lives, and is not to leave. */
static uint32_t set_of(const struct world *w, const Morsel__Group *g)
{
    uint32_t set = 0;

    for (size_t i = 0; i < g->n_servers; i++) {
        set |= g->servers[i] != 0 && !w->down[g->servers[i]] && (g->leaving >> i & 1) == 0 ? 1U << i
                                                                                           : 0;
    }
    return set;
}

/* What the server says of its copies: those that are not in sync with all places. */
static size_t states_of(const struct world *w, uint32_t server, Morsel__CopyState *states)
{
    const Morsel__GroupSet *t = w->tables[server];
    size_t count = 0;

    for (size_t i = 0; t != NULL && i < t->n_groups; i++) {
        const Morsel__Group *g = t->groups[i];
        uint32_t set = set_of(w, g), mine = 0;

        for (size_t p = 0; p < g->n_servers; p++) {
            mine |= g->servers[p] == server ? 1U << p : 0;
        }
        if (set != (1U << g->n_servers) - 1) {
            morsel__copy_state__init(&states[count]);
            states[count].group = g->number;
            states[count].set = set;
            states[count].serves = (set & mine) != 0;
            states[count].state = (set & mine) != 0 ? COPY_STANDALONE : COPY_STALE;
            states[count++].epoch = 1;
        }
    }
    return count;
}

static void heartbeat(struct world *w, uint32_t server)
{
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    Morsel__CopyState states[SERVER_GROUPS_MAX], *pointers[SERVER_GROUPS_MAX];
    Morsel__HeartbeatReply *reply;

    request.id = server;
    request.bytes_total = UINT64_C(1) << 40;
    request.bytes_free = request.bytes_total - w->used[server];
    request.groups_version = w->tables[server] != NULL ? w->tables[server]->version : 0;
    request.n_copies = states_of(w, server, states);
    request.copies = pointers;
    for (size_t i = 0; i < request.n_copies; i++) {
        pointers[i] = &states[i];
    }
    assert_int_equal(
        call(&w->iod, MSG_HEARTBEAT, &request.base, &morsel__heartbeat_reply__descriptor, &reply),
        0);
    if (reply->groups != NULL) {
        message_free(w->tables[server]);
        w->tables[server] = reply->groups;
        reply->groups = NULL;
    }
    morsel__heartbeat_reply__free_unpacked(reply, NULL);
}

static void beat_all(struct world *w)
{
    for (uint32_t i = 1; i <= w->servers; i++) {
        if (!w->down[i]) {
            heartbeat(w, i);
        }
    }
    uv_run(&w->f->loop, UV_RUN_NOWAIT);
}

/* ---- Worlds ---- */

static void join(struct world *w)
{
    client_open(&w->iod, w->f, ROLE_IOD, 0);
    for (uint32_t i = 1; i <= w->servers; i++) {
        if (!w->down[i]) {
            assert_int_equal(register_server(&w->iod, (uint8_t)i), i);
        }
    }
    client_join(&w->c, w->f, 41 + w->servers);
}

static const struct groups_record *record(const struct world *w)
{
    return ns_groups(w->f->meta->ns);
}

static bool all_told(const struct world *w)
{
    bool told = record(w)->count > 0;

    for (uint32_t i = 0; i < record(w)->count; i++) {
        told &= record(w)->items[i].told;
    }
    return told;
}

/* New files have so many copies. */
static void want(struct world *w, const char *copies)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    struct waiting_call policy;
    Morsel__OpId op = next_op(&w->c);

    request.op = &op;
    request.inode = INODE_ROOT;
    request.name = bytes("user.morsel.replicas");
    request.value = bytes(copies);
    start(&w->c, &policy, MSG_XATTR_SET, &request.base);
    while (!policy.done || !all_told(w)) {
        beat_all(w);
    }
    assert_int_equal(policy.status, 0);
}

/* Groups of so many, of all servers. */
static void world_open(struct world *w, struct fixture *f, uint32_t servers, const char *copies)
{
    memset(w, 0, sizeof(*w));
    w->f = f;
    w->servers = servers;
    join(w);
    want(w, copies);
}

static void world_close(struct world *w)
{
    for (uint32_t i = 0; i <= SERVERS; i++) {
        message_free(w->tables[i]);
    }
    client_close(&w->c);
    client_close(&w->iod);
}

/* The manager starts again on its directory. */
static void manager_restarts(struct world *w)
{
    client_close(&w->iod);
    client_close(&w->c);
    meta_down(w->f);
    meta_up(w->f);
    join(w);
}

/* From now on who is silent is down soon. */
static void notices_soon(struct world *w)
{
    w->f->settings.heartbeat_ms = BEAT_MS;
    manager_restarts(w);
}

static int recover(struct world *w, enum recover_what what, uint32_t server, uint32_t to,
                   Morsel__RecoverReply *said)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply = NULL;
    int rv;

    request.what = what;
    request.server = server;
    request.to = to;
    rv = call(&w->c, MSG_RECOVER, &request.base, &morsel__recover_reply__descriptor, &reply);
    if (said != NULL) {
        *said = rv == 0 ? *reply : (Morsel__RecoverReply)MORSEL__RECOVER_REPLY__INIT;
    }
    message_free(reply);
    return rv;
}

static uint32_t holds(const struct world *w, uint32_t server)
{
    uint32_t both;

    return groups_places(w->f->meta, server, 0, &both);
}

/* At each moment as many copies as are wanted are in sync, but for the one of a server that is down, and the one of
 * three that is to leave. */
static void check_copies(const struct world *w, uint32_t missing)
{
    for (uint32_t i = 0; i < record(w)->count; i++) {
        const struct group_made *g = &record(w)->items[i];
        uint32_t there = 0;

        for (uint32_t p = 0; p < g->now.count; p++) {
            there += g->now.servers[p] != 0 && !w->down[g->now.servers[p]];
        }
        assert_true(there + missing >= g->copies);
    }
}

static bool is_settled(const struct world *w)
{
    for (uint32_t i = 0; i < record(w)->count; i++) {
        const struct group_made *g = &record(w)->items[i];
        uint32_t held = 0;

        for (uint32_t p = 0; p < g->now.count; p++) {
            held += g->now.servers[p] != 0;
        }
        if (g->formers_count != 0 || held != g->copies || !g->told) {
            return false;
        }
    }
    return true;
}

static void until_left(struct world *w, uint32_t server, uint32_t missing)
{
    while (holds(w, server) > 0 || !is_settled(w)) {
        beat_all(w);
        check_copies(w, missing);
    }
}

/* ---- Tests ---- */

static void a_drained_server_leaves_without_a_copy_less(void **state)
{
    Morsel__RecoverReply said;
    struct world w;

    world_open(&w, *state, 4, "2");
    assert_int_equal(holds(&w, 2), 2);
    assert_int_equal(recover(&w, RECOVER_LEAVE, 2, 0, &said), 0);
    assert_int_equal(said.places, 2);
    assert_int_equal(recover(&w, RECOVER_LEAVE, 2, 0, NULL), 0); /* Asked again. */
    until_left(&w, 2, 0);
    while (w.tables[2]->n_groups > 0) {
        beat_all(&w); /* It is told in the end, when that is on the manager's disk. */
    }
    assert_int_equal(holds(&w, 1) + holds(&w, 3) + holds(&w, 4), record(&w)->count * 2);
    world_close(&w);
}

/* Not even when the manager starts again between any two steps; and it knows who leaves. */
static void restarts_of_the_manager_change_nothing(void **state)
{
    struct world w;
    uint64_t seen, until_ms;

    world_open(&w, *state, 4, "3");
    assert_int_equal(recover(&w, RECOVER_LEAVE, 3, 0, NULL), 0);
    while (holds(&w, 3) > 0 || !is_settled(&w)) {
        seen = record(&w)->version;
        until_ms = meta_now_ms(w.f->meta) + STEP_MS_MAX;
        while (record(&w)->version == seen && meta_now_ms(w.f->meta) < until_ms) {
            beat_all(&w);
            check_copies(&w, 1);
        }
        manager_restarts(&w);
        assert_true(members_find(&w.f->meta->members, 3)->leaves);
    }
    assert_int_equal(recover(&w, RECOVER_STAY, 3, 0, NULL), 0);
    assert_false(members_find(&w.f->meta->members, 3)->leaves);
    assert_int_equal(recover(&w, RECOVER_STAY, 3, 0, NULL), MORSEL_INVAL);
    world_close(&w);
}

static void a_server_that_is_away_is_replaced(void **state)
{
    struct world w;

    world_open(&w, *state, 4, "2");
    assert_int_equal(recover(&w, RECOVER_PAUSE, 0, 0, NULL), 0);
    notices_soon(&w);
    assert_true(record(&w)->paused);
    w.f->settings.rebuild_after_ms = AWAY_MS;
    w.down[2] = true;
    while (members_find(&w.f->meta->members, 2)->up ||
           meta_now_ms(w.f->meta) < members_find(&w.f->meta->members, 2)->heard_ms + 2 * AWAY_MS) {
        beat_all(&w);
    }
    assert_int_equal(holds(&w, 2), 2);
    assert_int_equal(recover(&w, RECOVER_START, 0, 0, NULL), 0);
    until_left(&w, 2, 1);
    world_close(&w);
}

/* By a named one, where that has no copy already; and at once. */
static void a_lost_server_is_replaced_by_a_named_one(void **state)
{
    Morsel__RecoverReply said;
    struct world w;
    uint32_t before;

    world_open(&w, *state, 4, "2");
    notices_soon(&w);
    w.down[2] = true;
    while (members_find(&w.f->meta->members, 2)->up) {
        beat_all(&w);
    }
    before = holds(&w, 4);
    assert_int_equal(recover(&w, RECOVER_LEAVE, 2, 4, &said), 0);
    assert_int_equal(said.places, 2);
    assert_int_equal(said.elsewhere, 0);
    until_left(&w, 2, 1);
    assert_true(holds(&w, 4) >= before + 2);
    world_close(&w);
}

static void what_cannot_be_done_is_refused(void **state)
{
    struct errmsg err = { "" };
    struct world w;

    world_open(&w, *state, 2, "2");
    assert_int_equal(recover(&w, RECOVER_LEAVE, 9, 0, NULL), MORSEL_INVAL);
    assert_int_equal(recover(&w, RECOVER_LEAVE, 1, 9, NULL), MORSEL_INVAL);
    assert_int_equal(recover(&w, 77, 1, 0, NULL), MORSEL_NOTSUP);
    assert_int_equal(groups_leave(w.f->meta, 1, 1, &err), MORSEL_INVAL);
    assert_string_equal(err.text, "server 1 cannot be replaced by itself");
    assert_int_equal(groups_leave(w.f->meta, 1, 0, &err), MORSEL_INVAL);
    assert_non_null(strstr(err.text, "has 2 copies, and 1 other storage server is up"));
    assert_int_equal(record(&w)->leavers_count, 0);
    world_close(&w);
}

/* Groups of that many copies in which the server has a place. */
static uint32_t count_of(const struct world *w, uint32_t server, uint32_t copies)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < record(w)->count; i++) {
        count +=
            record(w)->items[i].copies == copies && group_concerns(&record(w)->items[i], server);
    }
    return count;
}

/* Of each kind that is wanted. */
static void a_new_server_gets_groups_of_all_kinds(void **state)
{
    struct world w;
    uint32_t twos;

    world_open(&w, *state, 3, "2");
    want(&w, "3");
    twos = count_of(&w, 1, 2);
    w.servers = 4;
    assert_int_equal(register_server(&w.iod, 4), 4);
    assert_true(count_of(&w, 4, 2) > 0);
    assert_true(count_of(&w, 4, 3) > 0);
    assert_true(count_of(&w, 1, 2) >= twos);
    for (uint32_t i = 1; i < record(&w)->count; i++) {
        assert_true(record(&w)->items[i].number > record(&w)->items[i - 1].number);
    }
    world_close(&w);
}

/* ---- Space is evened out ---- */

/* Of copies of 100 GiB. With `look` the plan of that number is carried out. */
static int rebalance(struct world *w, enum recover_what what, uint64_t look,
                     Morsel__RecoverReply **reply)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    uint32_t groups[16];
    uint64_t sizes[16];

    assert_true(record(w)->count <= 16);
    for (uint32_t i = 0; i < record(w)->count; i++) {
        groups[i] = record(w)->items[i].number;
        sizes[i] = UINT64_C(100) << 30;
    }
    request.what = what;
    request.look = look;
    request.sized_groups = groups;
    request.sizes = sizes;
    request.n_sized_groups = request.n_sizes = record(w)->count;
    *reply = NULL;
    return call(&w->c, MSG_RECOVER, &request.base, &morsel__recover_reply__descriptor, reply);
}

/* Three that are fuller than the fourth, which has groups by then. */
static void uneven_open(struct world *w, struct fixture *f, const char *copies)
{
    world_open(w, f, 4, copies);
    w->used[1] = w->used[2] = w->used[3] = UINT64_C(700) << 30;
    for (int i = 0; i < 10; i++) {
        beat_all(w);
    }
}

/* The moves of a plan, to be compared. */
static void words(const Morsel__RecoverReply *plan, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < plan->n_moves; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%u:%u-%u ", plan->moves[i]->group,
                                 plan->moves[i]->from, plan->moves[i]->to);
    }
}

/* As it was shown, and although the manager starts again between any two steps. */
static void space_is_evened_out_as_it_was_shown(void **state)
{
    Morsel__RecoverReply *plan, *reply;
    char shown[256], again[256];
    uint32_t places, moves;
    struct world w;
    uint64_t seen, until_ms;

    uneven_open(&w, *state, "2");
    places = holds(&w, 4);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, 0, &plan), 0);
    moves = (uint32_t)plan->n_moves;
    assert_true(moves > 0 && plan->look != 0 && !plan->done);
    assert_int_equal(plan->n_disks, 4);
    words(plan, shown, sizeof(shown));
    assert_int_equal(groups_moves_left(w.f->meta), 0);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, plan->look + 1, &reply), MORSEL_STALE);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, plan->look, &reply), 0);
    assert_true(reply->done);
    words(reply, again, sizeof(again));
    assert_string_equal(again, shown);
    message_free(reply);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, plan->look, &reply), MORSEL_STALE);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, 0, &reply), MORSEL_INVAL);
    message_free(plan);
    assert_int_equal(groups_moves_left(w.f->meta), moves);
    while (groups_moves_left(w.f->meta) > 0 || !is_settled(&w)) {
        seen = record(&w)->version;
        until_ms = meta_now_ms(w.f->meta) + STEP_MS_MAX;
        while (record(&w)->version == seen && meta_now_ms(w.f->meta) < until_ms &&
               groups_moves_left(w.f->meta) > 0) {
            beat_all(&w);
            check_copies(&w, 0);
        }
        manager_restarts(&w);
        beat_all(&w);
    }
    assert_int_equal(holds(&w, 4), places + moves);
    assert_int_equal(record(&w)->rebalance.moves, moves);
    assert_int_equal(record(&w)->rebalance.given_up, 0);
    world_close(&w);
}

static bool all_wait(const struct world *w)
{
    bool wait = true;

    for (uint32_t i = 0; i < record(w)->count; i++) {
        const struct group_made *g = &record(w)->items[i];

        wait &= g->moves_from == 0 || group_move_waits(g);
    }
    return wait;
}

static void it_stops_with_those_that_have_begun(void **state)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *plan, *reply;
    struct errmsg err = { "" };
    uint32_t moves, left;
    struct world w;

    uneven_open(&w, *state, "3");
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE_STOP, 0, &reply), MORSEL_INVAL);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, 0, &plan), 0);
    moves = (uint32_t)plan->n_moves;
    request.look = plan->look;
    message_free(plan);
    assert_int_equal(groups_rebalance(w.f->meta, &request, &err), 0);
    assert_int_equal(groups_rebalance_stop(w.f->meta, &err), 0); /* At once. */
    assert_int_equal(groups_moves_left(w.f->meta), 0);
    assert_int_equal(record(&w)->rebalance.given_up, moves);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, 0, &plan), 0);
    assert_int_equal(plan->n_moves, moves);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, plan->look, &reply), 0);
    message_free(reply);
    message_free(plan);
    while (all_wait(&w) && groups_moves_left(w.f->meta) > 0) {
        beat_all(&w);
    }
    if (rebalance(&w, RECOVER_REBALANCE_STOP, 0, &reply) == 0) { /* It may be over. */
        left = reply->moves_left;
        assert_int_equal(record(&w)->rebalance.given_up, moves - left);
    }
    message_free(reply);
    while (groups_moves_left(w.f->meta) > 0 || !is_settled(&w)) {
        beat_all(&w);
        check_copies(&w, 1);
    }
    assert_true(record(&w)->rebalance.given_up < moves);
    world_close(&w);
}

/* What was shown does not count any more when the groups have changed. */
static void a_plan_of_other_groups_is_refused(void **state)
{
    Morsel__RecoverReply *plan, *reply;
    struct world w;

    uneven_open(&w, *state, "2");
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, 0, &plan), 0);
    assert_int_equal(recover(&w, RECOVER_LEAVE, 2, 0, NULL), 0);
    until_left(&w, 2, 0);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, plan->look, &reply), MORSEL_STALE);
    message_free(plan);
    manager_restarts(&w);
    beat_all(&w);
    assert_int_equal(rebalance(&w, RECOVER_REBALANCE, 1, &reply), MORSEL_STALE);
    world_close(&w);
}

/* ---- What is left of a copy ---- */

/* The group of a new file, and its object there. */
static const struct group_made *new_file(struct world *w, struct object_id *object)
{
    struct errmsg err;
    struct inode inode;

    object->inode = make(&w->c, INODE_ROOT, "f", 0100644, false);
    assert_int_equal(ns_inode(w->f->meta->ns, object->inode, &inode, &err), 0);
    assert_int_equal(inode.layout.replicas, 2);
    object->column = placing_object(inode.layout.groups[0], 0);
    return groups_record_find(record(w), inode.layout.groups[0]);
}

/* How many objects that server is to delete. */
static size_t collects(struct world *w, uint32_t server)
{
    Morsel__HeartbeatReply *last = NULL;
    size_t count = beat(&w->iod, server, &last);

    message_free(last);
    return count;
}

/* Its file is there, and so are the copies of those who have places: it is deleted where it was found, and nowhere else. */
static void what_is_left_of_a_copy_is_collected_there_alone(void **state)
{
    Morsel__FsckObjects request = MORSEL__FSCK_OBJECTS__INIT, *strays;
    struct object_id object;
    const struct group_made *g;
    uint32_t column, other = 0;
    struct world w;

    world_open(&w, *state, 3, "2");
    g = new_file(&w, &object);
    for (uint32_t i = 1; i <= 3; i++) {
        other = group_place(g, i) == g->now.count ? i : other;
    }
    assert_int_not_equal(other, 0);
    column = object.column;
    request.server = other;
    request.n_inode = request.n_column = 1;
    request.inode = &object.inode;
    request.column = &column;
    request.repair = true;
    assert_int_equal(
        call(&w.c, MSG_FSCK_OBJECTS, &request.base, &morsel__fsck_objects__descriptor, &strays), 0);
    assert_int_equal(strays->n_inode, 1);
    message_free(strays);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(collects(&w, i), i == other);
    }
    world_close(&w);
}

/* A database that has room for one change at a time. */
static bool has_room;

static bool room_once(struct kv *kv)
{
    bool had = has_room;

    (void)kv;
    has_room = false;
    return had;
}

static void make_room(struct kv *kv)
{
    (void)kv;
    has_room = true;
}

/* It is queued for all servers of its group, whoever is asked first: only who orders deletes it. */
static void what_belongs_to_nobody_is_queued_for_all(void **state)
{
    Morsel__FsckObjects request = MORSEL__FSCK_OBJECTS__INIT, *strays;
    struct object_id object;
    const struct group_made *g;
    uint32_t column;
    struct world w;

    world_open(&w, *state, 3, "2");
    g = new_file(&w, &object);
    object.inode += 1000;
    column = object.column;
    request.n_inode = request.n_column = 1;
    request.inode = &object.inode;
    request.column = &column;
    request.repair = true;
    request.server = g->now.servers[0] > g->now.servers[1] ? g->now.servers[0] : g->now.servers[1];
    has_room = false;
    w.f->meta->kv->has_room = room_once;
    w.f->meta->kv->make_room = make_room;
    assert_int_equal(
        call(&w.c, MSG_FSCK_OBJECTS, &request.base, &morsel__fsck_objects__descriptor, &strays), 0);
    assert_int_equal(strays->n_inode, 1);
    message_free(strays);
    assert_int_equal(collects(&w, g->now.servers[0]), 1);
    assert_int_equal(collects(&w, g->now.servers[1]), 1);
    world_close(&w);
}

/* It was queued when that server had no place in the group, and now it has one: in its order all would delete it. */
static void what_belongs_to_a_file_is_not_collected(void **state)
{
    struct meta_op op = { .kind = OP_GARBAGE, .time_ns = 1 };
    struct object_id object, gone;
    const struct group_made *g;
    struct errmsg err;
    struct world w;
    struct buf list;

    world_open(&w, *state, 3, "2");
    g = new_file(&w, &object);
    gone = (struct object_id){ object.inode + 1000, object.column };
    buf_init(&list);
    op_objects_put(&list, object);
    op_objects_put(&list, gone);
    op_objects_sort(&list);
    op.objects.server = g->now.servers[0];
    op.objects.objects = buf_slice(&list);
    assert_int_equal(meta_execute(w.f->meta, &op, &err), 0);
    assert_int_equal(garbage_of(w.f), 2);
    assert_int_equal(collects(&w, g->now.servers[0]), 1);
    assert_int_equal(garbage_of(w.f), 1);
    buf_free(&list);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_drained_server_leaves_without_a_copy_less),
        TEST(restarts_of_the_manager_change_nothing),
        TEST(a_server_that_is_away_is_replaced),
        TEST(a_lost_server_is_replaced_by_a_named_one),
        TEST(what_cannot_be_done_is_refused),
        TEST(a_new_server_gets_groups_of_all_kinds),
        TEST(space_is_evened_out_as_it_was_shown),
        TEST(it_stops_with_those_that_have_begun),
        TEST(a_plan_of_other_groups_is_refused),
        TEST(what_is_left_of_a_copy_is_collected_there_alone),
        TEST(what_belongs_to_nobody_is_queued_for_all),
        TEST(what_belongs_to_a_file_is_not_collected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
