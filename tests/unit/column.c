/* Which reads of a file with copies may go to any member of its group: the rules `settle` and `beside` of
 * tests/model/read_model.py, and what is believed of an answer when the lease went meanwhile. The test plays
 * groups and leases. */
#include "client/data/column_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/manager/servers_uv.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INODE = 70, GROUP = 3, COLUMN = 1, CALLS_MAX = 8 };

struct client_group
{
    int unused;
};

static struct
{
    uint64_t lease;
    bool sure;
    uint32_t members;
    struct group_call *asked[CALLS_MAX];
    group_call_cb done[CALLS_MAX];
    enum message_type types[CALLS_MAX];
    uint32_t count;
    uint64_t key;
    int refuse;
} world;

static struct client_group the_group;
static char other_peer;

/* ---- The rest of the client ---- */

uint64_t client_lease_since(const struct client *client, inode_id inode)
{
    (void)client;
    assert_int_equal(inode, INODE);
    return world.lease;
}

bool lease_is_sure(const struct client *client)
{
    (void)client;
    return world.sure;
}

struct rpc_peer *client_peer(struct client *client, server_id id)
{
    (void)client;
    (void)id;
    return NULL;
}

int servers_why_none(struct client *client, server_id id, inode_id inode)
{
    (void)client;
    (void)id;
    (void)inode;
    return MORSEL_UNREACHABLE;
}

struct client_group *client_groups_find(struct client *client, group_number number)
{
    (void)client;
    return number == GROUP ? &the_group : NULL;
}

uint32_t group_servers(const struct client_group *group, server_id servers[REPLICAS_MAX])
{
    (void)group;
    memset(servers, 0, REPLICAS_MAX * sizeof(servers[0]));
    return world.members;
}

struct rpc_peer *group_peer(struct client *client, const struct client_group *group)
{
    (void)client;
    (void)group;
    return NULL;
}

struct rpc_peer *group_member_peer(struct client *client, const struct client_group *group,
                                   uint32_t member)
{
    (void)client;
    (void)group;
    return member == 1 ? (struct rpc_peer *)(void *)&other_peer : NULL;
}

uint32_t group_spread(struct client *client, const struct client_group *group, uint64_t key)
{
    (void)client;
    (void)group;
    world.key = key;
    return (uint32_t)(key % 2);
}

int group_call_start(struct group_call *call, struct client *client, struct client_group *group,
                     enum message_type type, const ProtobufCMessage *request,
                     const struct rpc_piece *piece, group_call_cb done)
{
    (void)client;
    (void)group;
    (void)request;
    (void)piece;
    assert_true(world.count < CALLS_MAX);
    if (world.refuse != 0) {
        return world.refuse;
    }
    world.asked[world.count] = call;
    world.types[world.count] = type;
    world.done[world.count++] = done;
    return 0;
}

void group_call_cancel(struct group_call *call)
{
    (void)call;
}

const char *group_call_address(const struct group_call *call)
{
    (void)call;
    return "";
}

/* ---- A file with one column on a group ---- */

struct one
{
    struct client client;
    struct columns columns;
    struct column_call read, change, settle;
    bool believed;
    unsigned done;
};

static void on_ended(struct columns *columns, int status)
{
    (void)columns;
    (void)status;
}

static void on_changed(struct columns *columns, uint32_t column, const struct rpc_reply *reply,
                       bool durable)
{
    (void)columns;
    (void)column;
    (void)reply;
    (void)durable;
}

static const struct column_hooks hooks = { .ended = on_ended, .changed = on_changed };

static void on_done(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct one *o = call->data;

    (void)reply;
    o->believed = status == 0 && column_is_current(call);
    o->done++;
}

static int begin(void **state)
{
    struct one *o = calloc(1, sizeof(*o));

    CHECK(o != NULL);
    memset(&world, 0, sizeof(world));
    world.lease = 5;
    world.sure = true;
    world.members = 2;
    o->columns.client = &o->client;
    o->columns.inode = INODE;
    o->columns.stripe.width = 2;
    o->columns.groups[COLUMN] = GROUP;
    o->columns.hooks = &hooks;
    *state = o;
    return 0;
}

static int end(void **state)
{
    free(*state);
    return 0;
}

static void ask(struct one *o, struct column_call *call, enum column_kind kind)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;

    *call = (struct column_call){ .columns = &o->columns, .column = COLUMN, .data = o };
    assert_int_equal(column_start(call, kind, MSG_READ, &request.base, NULL, on_done), 0);
}

static void answer(const struct column_call *call, int status)
{
    struct rpc_reply reply = { .text = "" };

    for (uint32_t i = 0; i < world.count; i++) {
        if (world.asked[i] == &call->group) {
            struct group_call *group = world.asked[i];
            group_call_cb done = world.done[i];

            world.count--;
            world.asked[i] = world.asked[world.count];
            world.done[i] = world.done[world.count];
            done(group, status, &reply);
            return;
        }
    }
    fail_msg("it was not asked");
}

/* Is a read asked of any member now? */
static bool any(struct one *o)
{
    bool settled;

    ask(o, &o->read, COLUMN_READ_ANY);
    settled = o->read.group.settled;
    assert_int_equal(settled, column_is_settled(&o->columns, COLUMN));
    answer(&o->read, 0);
    assert_true(o->believed);
    return settled;
}

static void start_settle(struct one *o)
{
    o->settle = (struct column_call){ .columns = &o->columns, .column = COLUMN, .data = o };
    assert_int_equal(column_settle(&o->settle, on_done), 0);
    assert_false(o->settle.group.settled); /* Of who orders. */
}

static void settle(struct one *o)
{
    start_settle(o);
    answer(&o->settle, 0);
}

/* ---- Tests ---- */

static void a_lease_alone_is_not_enough(void **state)
{
    struct one *o = *state;

    assert_false(any(o));
    assert_false(column_wants_settle(&o->columns, COLUMN)); /* Perhaps it is the only one. */
    assert_true(column_wants_settle(&o->columns, COLUMN));
    start_settle(o);
    assert_false(column_wants_settle(&o->columns, COLUMN));
    assert_false(any(o));
    answer(&o->settle, MORSEL_TIMEDOUT);
    assert_false(any(o));
    assert_true(column_wants_settle(&o->columns, COLUMN));
    settle(o);
    assert_true(any(o));
    assert_false(column_wants_settle(&o->columns, COLUMN));
    ask(o, &o->read, COLUMN_READ_PRIMARY);
    assert_false(o->read.group.settled);
    answer(&o->read, 0);
    assert_ptr_equal(column_read_peer(&o->columns, COLUMN, COLUMN_REGION_BYTES), &other_peer);
    assert_int_equal(world.key, INODE + 1);
    assert_null(column_read_peer(&o->columns, COLUMN, 2 * COLUMN_REGION_BYTES));
}

static void another_lease_is_settled_anew(void **state)
{
    struct one *o = *state;

    settle(o);
    assert_true(any(o));
    world.lease = 0;
    assert_false(any(o));
    assert_false(column_wants_settle(&o->columns, COLUMN));
    world.lease = 6;
    assert_false(any(o));
    start_settle(o);
    world.lease = 7; /* It was given back and taken again meanwhile. */
    answer(&o->settle, 0);
    assert_false(any(o));
    settle(o);
    assert_true(any(o));
    world.members = 1; /* No group of one is settled. */
    world.lease = 8;
    assert_false(column_wants_settle(&o->columns, COLUMN));
    assert_false(column_wants_settle(&o->columns, COLUMN));
}

static void beside_changes_of_its_own_who_orders_is_asked(void **state)
{
    Morsel__PunchRequest request = MORSEL__PUNCH_REQUEST__INIT;
    struct one *o = *state;

    settle(o);
    ask(o, &o->change, COLUMN_CHANGE);
    assert_false(any(o));
    start_settle(o); /* It was begun beside a change: it says nothing. */
    answer(&o->settle, 0);
    answer(&o->change, 0);
    assert_true(any(o)); /* What was acknowledged is everywhere. */
    ask(o, &o->change, COLUMN_CHANGE);
    answer(&o->change, MORSEL_TIMEDOUT);
    assert_false(any(o)); /* It may be under way for ever. */
    world.sure = false;
    assert_false(column_wants_settle(&o->columns, COLUMN));
    assert_false(column_wants_settle(&o->columns, COLUMN));
    start_settle(o);
    answer(&o->settle, 0);
    world.sure = true;
    assert_false(any(o));
    settle(o);
    assert_true(any(o));
    world.refuse = MORSEL_NOMEM; /* One that was never sent is none. */
    o->change = (struct column_call){ .columns = &o->columns, .column = COLUMN, .data = o };
    assert_int_equal(
        column_start(&o->change, COLUMN_CHANGE, MSG_PUNCH, &request.base, NULL, on_done),
        MORSEL_NOMEM);
    world.refuse = 0;
    assert_true(any(o));
}

static void an_answer_is_believed_if_all_is_as_it_was(void **state)
{
    struct one *o = *state;

    settle(o);
    ask(o, &o->read, COLUMN_READ_ANY);
    world.lease = 6;
    answer(&o->read, 0);
    assert_false(o->believed);
    settle(o);
    ask(o, &o->read, COLUMN_READ_ANY);
    ask(o, &o->change, COLUMN_CHANGE);
    answer(&o->change, 0);
    answer(&o->read, 0);
    assert_false(o->believed); /* It may be of before the change, or of a copy that had it early. */
    ask(o, &o->read, COLUMN_READ_ANY);
    world.lease = 0;
    answer(&o->read, 0);
    assert_false(o->believed);
    ask(o, &o->read, COLUMN_READ_ANY); /* Of who orders: as ever. */
    world.lease = 9;
    answer(&o->read, 0);
    assert_true(o->believed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lease_alone_is_not_enough, begin, end),
        cmocka_unit_test_setup_teardown(another_lease_is_settled_anew, begin, end),
        cmocka_unit_test_setup_teardown(beside_changes_of_its_own_who_orders_is_asked, begin, end),
        cmocka_unit_test_setup_teardown(an_answer_is_believed_if_all_is_as_it_was, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
