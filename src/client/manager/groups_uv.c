/* Whom a call asks, how often, and under which number. */
#include "client/manager/groups_uv.h"

#include "client/coherence/lease_uv.h"
#include "client/manager/servers_uv.h"
#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/op_numbers.h"
#include "replica.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum {
    ONCE_BYTES = 27,         /* Three fixed64 fields, data.proto, Change. */
    ZOMBIE_MARGIN_MS = 2000, /* Clocks drift. */
    NS_PER_MS = 1000000,
    LONGER_MAX = 3 /* An attempt becomes twice as long this often at most. */
};

struct client_group
{
    UT_hash_handle hh;
    group_number number;
    uint32_t count;
    server_id servers[REPLICAS_MAX];
    uint32_t believed;
    uint64_t avoid_ms[REPLICAS_MAX]; /* Not asked first before that. */
    uint64_t verifier;
    struct op_numbers numbers;
    op_sequence out[GROUP_CHANGES_MAX];
    struct list waiting; /* struct group_call, for a number. */
};

/* The number of a change that was given up, and may still be carried out until then. */
struct zombie
{
    struct list node;
    struct client_group *group;
    op_sequence number;
    uint64_t due_ms;
};

struct client_groups
{
    struct client_group *table;
    struct list pausing; /* struct group_call */
    struct list zombies;
    uv_timer_t timer;
    bool timer_open;
};

/* ---- Groups ---- */

struct client_group *client_groups_find(struct client *client, group_number number)
{
    struct client_group *g;

    HASH_FIND(hh, client->groups->table, &number, sizeof(number), g);
    return g;
}

/* Places may be vacant, but not all of them. */
static bool names_group(const Morsel__Group *group)
{
    bool held = false;

    if (group->number == 0 || group->number >= PLACING_GROUPS_MAX || group->n_servers < 1 ||
        group->n_servers > REPLICAS_MAX) {
        return false;
    }
    for (size_t i = 0; i < group->n_servers; i++) {
        for (size_t j = 0; j < i; j++) {
            if (group->servers[j] == group->servers[i] && group->servers[i] != 0) {
                return false;
            }
        }
        held |= group->servers[i] != 0;
    }
    return held;
}

/* Who holds its places, and who is believed to order if he still does. */
static void servers_take(struct client_group *g, const Morsel__Group *group)
{
    server_id believed = g->servers[g->believed];

    memset(g->servers, 0, sizeof(g->servers));
    g->count = g->believed = 0;
    for (size_t i = 0; i < group->n_servers; i++) {
        if (group->servers[i] != 0) {
            g->believed = group->servers[i] == believed ? g->count : g->believed;
            g->servers[g->count++] = group->servers[i];
        }
    }
}

int client_groups_learn(struct client *client, const Morsel__Group *group)
{
    struct client_group *g = client_groups_find(client, group->number);

    if (!names_group(group)) {
        return MORSEL_CORRUPT;
    }
    if (g == NULL) {
        g = calloc(1, sizeof(*g));
        if (g == NULL) {
            return MORSEL_NOMEM;
        }
        g->number = group->number;
        list_init(&g->waiting);
        op_numbers_init(&g->numbers, g->out, GROUP_CHANGES_MAX);
        HASH_ADD(hh, client->groups->table, number, sizeof(g->number), g);
        if (!TABLE_ADDED(g)) {
            free(g);
            return MORSEL_NOMEM;
        }
    }
    servers_take(g, group);
    return MORSEL_OK;
}

void client_groups_changed(struct client *client, Morsel__Group *const *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (client_groups_find(client, groups[i]->number) != NULL) {
            (void)client_groups_learn(client, groups[i]);
        }
    }
}

uint32_t group_servers(const struct client_group *group, server_id servers[REPLICAS_MAX])
{
    memcpy(servers, group->servers, sizeof(group->servers));
    return group->count;
}

struct rpc_peer *group_peer(struct client *client, const struct client_group *group)
{
    return client_peer(client, group->servers[group->believed]);
}

struct rpc_peer *group_member_peer(struct client *client, const struct client_group *group,
                                   uint32_t member)
{
    return client_peer(client, group->servers[member]);
}

uint32_t group_spread(struct client *client, const struct client_group *group, uint64_t key)
{
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t member = (uint32_t)((key + i) % group->count);

        if (uv_now(client->loop) >= group->avoid_ms[member] &&
            !servers_is_silent(client, group->servers[member]) &&
            client_peer(client, group->servers[member]) != NULL) {
            return member;
        }
    }
    return group->believed;
}

uint64_t group_verifier(const struct client_group *group)
{
    return group->verifier;
}

bool group_note_verifier(struct client_group *group, uint64_t verifier)
{
    bool newer = group->verifier != 0 && verifier > group->verifier;

    group->verifier = verifier > group->verifier ? verifier : group->verifier;
    return newer;
}

/* ---- Ends of calls ---- */

static void go_on(struct group_call *call);
static void arm(struct client *client);

static bool number_take(struct group_call *call);

/* It goes on, or ends, with the timer. */
static void go_on_later(struct group_call *call)
{
    call->state = GROUP_CALL_PAUSING;
    call->due_ms = 0;
    list_push_back(&call->client->groups->pausing, &call->node);
    arm(call->client);
}

/* The number is free again: who waits longest gets its place. */
static void number_return(struct client_group *g, op_sequence number)
{
    struct list *node;

    op_numbers_return(&g->numbers, number);
    node = list_pop_front(&g->waiting);
    if (node != NULL) {
        struct group_call *next = LIST_ENTRY(node, struct group_call, node);

        CHECK(number_take(next));
        go_on_later(next);
    }
}

/* May it still be carried out by somebody? */
static bool is_open(int status)
{
    return status == MORSEL_CANCELED || status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE ||
           status == MORSEL_UNSURE || status == MORSEL_SHUTDOWN || status == MORSEL_NOMEM;
}

static void number_leave(struct group_call *call, int status)
{
    struct zombie *z;

    if (call->number == 0) {
        return;
    }
    z = call->sent && is_open(status) ? calloc(1, sizeof(*z)) : NULL;
    if (z == NULL) {
        /* Without memory it is said to have ended a moment too early: a copy that is still on its way
         * is then refused, for its time or for that. */
        number_return(call->group, call->number);
    } else {
        list_init(&z->node);
        z->group = call->group;
        z->number = call->number;
        z->due_ms = lease_until_ns(call->client) / NS_PER_MS + ZOMBIE_MARGIN_MS;
        list_push_back(&call->client->groups->zombies, &z->node);
    }
    call->number = 0;
}

static void end(struct group_call *call, int status, struct rpc_reply *reply)
{
    number_leave(call, status);
    call->state = GROUP_CALL_IDLE;
    payload_drop(call->piece.payload);
    call->piece.payload = NULL;
    free(call->body);
    call->body = NULL;
    call->done(call, status, reply);
}

static void end_alone(struct group_call *call, int status)
{
    struct rpc_reply none = { .text = "" };

    end(call, status, &none);
}

/* ---- Asking ---- */

/* Nobody answers for the group now: another member may. */
static bool goes_elsewhere(int status)
{
    return status == MORSEL_NOT_HERE || status == MORSEL_OVERLOAD || status == MORSEL_SHUTDOWN ||
           status == MORSEL_UNREACHABLE || status == MORSEL_TIMEDOUT || status == MORSEL_REMOVED;
}

static uint64_t now_ms(const struct group_call *call)
{
    return uv_now(call->client->loop);
}

/* Has it had its time? */
static bool is_over(const struct group_call *call)
{
    return call->timeout_ms != RPC_NO_DEADLINE &&
           now_ms(call) >= call->started_ms + call->timeout_ms;
}

static bool is_heard(const struct group_call *call)
{
    return servers_is_heard(call->client, call->group->servers[call->member]);
}

/* How long this attempt may be silent. Who is not heard may be away; while somebody is, all the more. Longer than
 * GROUP_ATTEMPT_MS only who is heard is waited for: the others would go on meanwhile without one that is away. */
static uint64_t attempt_ms(const struct group_call *call)
{
    uint32_t longer = call->silences / call->group->count;
    uint64_t ms = (uint64_t)GROUP_ATTEMPT_MS << (longer < LONGER_MAX ? longer : LONGER_MAX);
    uint64_t left_ms = call->started_ms + call->timeout_ms - now_ms(call);

    if (!is_heard(call)) {
        ms = longer > 0 ? GROUP_ATTEMPT_MS : call->lost ? GROUP_GLANCE_MS : GROUP_SILENT_MS;
    }
    if (call->settled && call->silences == 0 && call->group->count > 1) {
        ms = call->hedge_ms;
    }
    return call->timeout_ms == RPC_NO_DEADLINE || ms < left_ms ? ms : left_ms;
}

static void pause_call(struct group_call *call)
{
    struct client_groups *groups = call->client->groups;

    call->tried = 0;
    call->state = GROUP_CALL_PAUSING;
    call->due_ms = now_ms(call) + call->pause_ms;
    call->pause_ms =
        call->pause_ms * 2 < GROUP_PAUSE_MS_MAX ? call->pause_ms * 2 : GROUP_PAUSE_MS_MAX;
    list_push_back(&groups->pausing, &call->node);
    arm(call->client);
}

static bool is_silent(const struct group_call *call, uint32_t member)
{
    return servers_is_silent(call->client, call->group->servers[member]);
}

/* The first one from `member` on who is not silent; if all are, `member`. */
static uint32_t talking_from(const struct group_call *call, uint32_t member)
{
    uint32_t count = call->group->count;

    CHECK(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_silent(call, (member + i) % count)) {
            return (member + i) % count;
        }
    }
    return member % count;
}

/* It does not answer us: others may reach it. */
static void note_lost(struct group_call *call, int status)
{
    bool lost = status == MORSEL_TIMEDOUT || status == MORSEL_UNREACHABLE;

    call->silences += status == MORSEL_TIMEDOUT;
    call->lost = call->lost || lost;
    if (lost && call->group->count > 1 && now_ms(call) >= call->asked_ms + GROUP_GLANCE_MS &&
        !is_heard(call)) {
        servers_note_silent(call->client, call->group->servers[call->member]);
    }
}

/* It is there, and somebody else is in its way for a moment: until the others go on without him. */
static bool stays(struct group_call *call, int status)
{
    call->stayed = status == MORSEL_TIMEDOUT && !call->stayed && !call->settled && is_heard(call);
    return call->stayed;
}

/* Another member, now or later; or its time is over. */
static void ask_next(struct group_call *call, int status)
{
    uint32_t before = call->member;

    call->status = status;
    note_lost(call, status);
    call->not_here = call->not_here || status == MORSEL_NOT_HERE;
    if (call->settled) {
        call->group->avoid_ms[before] = now_ms(call) + GROUP_AVOID_MS;
    }
    call->member = stays(call, status) ? before : talking_from(call, before + 1);
    if (client_is_ending(call->client)) {
        end_alone(call, MORSEL_SHUTDOWN);
    } else if (is_over(call)) {
        end_alone(call, status == MORSEL_UNREACHABLE ? status : MORSEL_TIMEDOUT);
    } else if (call->stayed) {
        go_on(call);
    } else if (++call->tried >= call->group->count || call->member == before) {
        servers_refresh(call->client); /* Perhaps others hold its places by now. */
        pause_call(call);
    } else {
        go_on(call);
    }
}

/* May an earlier copy of a change that came too late have been carried out, and not once more? */
static bool is_in_doubt(const struct group_call *call)
{
    return call->doubt && !call->exclusive;
}

/* The lease has been renewed since it was sent: what is sent now is valid for longer. */
static bool may_be_sent_again(const struct group_call *call)
{
    return lease_until_ns(call->client) > call->until_ns && !is_over(call) &&
           !client_is_ending(call->client);
}

/* It waited there for longer than it was valid. Who is asked again knows whether it was made, or makes it. */
static void came_too_late(struct group_call *call, struct rpc_reply *reply)
{
    if (is_in_doubt(call) && may_be_sent_again(call)) {
        go_on(call);
    } else {
        end(call, is_in_doubt(call) ? MORSEL_UNSURE : MORSEL_TOO_LATE, reply);
    }
}

static void on_answer(struct rpc_call *rpc, int status, struct rpc_reply *reply)
{
    struct group_call *call = CONTAINER_OF(rpc, struct group_call, rpc);

    if (call->canceled) {
        end_alone(call, MORSEL_CANCELED);
    } else if (goes_elsewhere(status)) {
        call->doubt = true; /* Who says that it is not there may have begun it when it was. */
        ask_next(call, status);
    } else {
        if (status != MORSEL_CANCELED && status != MORSEL_NOMEM && !call->settled &&
            call->member < call->group->count) {
            call->group->believed = call->member;
        }
        if (status == MORSEL_TOO_LATE) {
            came_too_late(call, reply);
        } else {
            end(call, status, reply);
        }
    }
}

/* Why it must not be sent any more; 0: it may. */
static int has_ended(const struct group_call *call)
{
    if (!call->changes || call->lease_epoch == lease_epoch(call->client)) {
        return 0;
    }
    return call->doubt ? MORSEL_UNSURE : MORSEL_TOO_LATE;
}

/* Is whom it asks to hand it on? Not what it may answer itself. */
static bool wants_hand_on(const struct group_call *call)
{
    bool wants = call->lost && call->group->count > 1;

    if (call->settled && !call->not_here) {
        return false;
    }

    for (uint32_t i = 0; i < call->group->count; i++) {
        wants = wants || (i != call->member && is_silent(call, i));
    }
    return wants;
}

static int ask(struct group_call *call, struct rpc_peer *peer)
{
    const struct rpc_piece *piece = call->piece.payload != NULL ? &call->piece : NULL;
    Morsel__HandOnRequest hand_on = MORSEL__HAND_ON_REQUEST__INIT;

    call->state = GROUP_CALL_ASKING;
    call->asked_ms = now_ms(call);
    call->until_ns = lease_until_ns(call->client);
    call->rpc =
        (struct rpc_call){ .bounded = call->changes, .impatient = true, .fetches = call->fetches };
    if (!wants_hand_on(call)) {
        return rpc_call_start_packed(&call->rpc, peer, call->type,
                                     (struct slice){ call->body, call->body_count }, piece,
                                     piece != NULL, attempt_ms(call), on_answer);
    }
    hand_on.request = call->type;
    hand_on.body.data = call->body;
    hand_on.body.len = call->body_count;
    return rpc_call_start(&call->rpc, peer, MSG_HAND_ON, &hand_on.base, piece, piece != NULL,
                          attempt_ms(call), on_answer);
}

/* Ends nothing at once: its start may not have returned. */
static void go_on(struct group_call *call)
{
    struct client *client = call->client;
    struct rpc_peer *peer;

    call->member %= call->group->count; /* They may have become fewer. */
    peer = client_peer(client, call->group->servers[call->member]);
    call->failed = has_ended(call);
    if (call->failed == 0 && peer == NULL) {
        servers_refresh(client);
        ask_next(call, MORSEL_UNREACHABLE);
        return;
    }
    if (call->failed == 0) {
        call->failed = ask(call, peer);
        call->sent = call->sent || call->failed == 0;
    }
    if (call->failed != 0) {
        go_on_later(call);
    }
}

/* ---- Starting ---- */

static void put_fixed64(uint8_t **at, unsigned field, uint64_t value)
{
    *(*at)++ = (uint8_t)(field << 3 | 1);
    put_le64(*at, value);
    *at += 8;
}

/* The request, and behind it what makes it a change. */
static bool pack(struct group_call *call, const ProtobufCMessage *request)
{
    size_t count = protobuf_c_message_get_packed_size(request);
    uint8_t *at;

    call->body = malloc(count + ONCE_BYTES + 1);
    if (call->body == NULL) {
        return false;
    }
    (void)protobuf_c_message_pack(request, call->body);
    call->body_count = count;
    if (call->changes) {
        at = call->body + count;
        put_fixed64(&at, 12, 0);
        put_fixed64(&at, 13, 0);
        put_fixed64(&at, 14, 0);
        call->body_count += ONCE_BYTES;
    }
    return true;
}

/* False: none is free. */
static bool number_take(struct group_call *call)
{
    struct client_group *g = call->group;
    uint8_t *tail = call->body + call->body_count - ONCE_BYTES;

    call->number = op_numbers_take(&g->numbers, 0);
    if (call->number == 0) {
        return false;
    }
    put_le64(tail + 1, g->verifier);
    put_le64(tail + 10, call->number);
    put_le64(tail + 19, g->numbers.answered);
    call->lease_epoch = lease_epoch(call->client);
    return true;
}

int group_call_start(struct group_call *call, struct client *client, struct client_group *group,
                     enum message_type type, const ProtobufCMessage *request,
                     const struct rpc_piece *piece, group_call_cb done)
{
    call->client = client;
    call->group = group;
    call->type = type;
    call->done = done;
    call->number = 0;
    call->tried = call->silences = 0;
    call->status = call->failed = 0;
    call->sent = call->doubt = call->canceled = false;
    call->lost = call->stayed = call->not_here = false;
    call->member = call->settled && call->first < group->count
                       ? call->first
                       : talking_from(call, group->believed);
    call->pause_ms = GROUP_PAUSE_MS_MIN;
    call->started_ms = call->asked_ms = uv_now(client->loop);
    call->piece = (struct rpc_piece){ .payload = NULL };
    list_init(&call->node);
    if (client_is_ending(client)) {
        return MORSEL_SHUTDOWN;
    }
    if (!pack(call, request)) {
        return MORSEL_NOMEM;
    }
    if (piece != NULL) {
        call->piece = *piece;
        payload_ref(piece->payload);
    }
    if (call->changes && !(list_empty(&group->waiting) && number_take(call))) {
        call->state = GROUP_CALL_WAITING;
        list_push_back(&group->waiting, &call->node);
    } else if (client_peer(client, group->servers[call->member]) != NULL) {
        go_on(call);
    } else {
        go_on_later(call);
    }
    return MORSEL_OK;
}

void group_call_cancel(struct group_call *call)
{
    if (call->state == GROUP_CALL_IDLE || call->canceled) {
        return;
    }
    call->canceled = true;
    if (call->state == GROUP_CALL_ASKING) {
        rpc_call_cancel(&call->rpc);
        return;
    }
    list_remove(&call->node);
    go_on_later(call);
}

const char *group_call_address(const struct group_call *call)
{
    const char *address = servers_address(call->client, call->group->servers[call->member]);

    return address != NULL ? address : "an unknown address";
}

/* ---- Time ---- */

static void wake(struct group_call *call)
{
    if (call->canceled) {
        end_alone(call, MORSEL_CANCELED);
    } else if (call->failed != 0) {
        end_alone(call, call->failed);
    } else if (client_is_ending(call->client)) {
        end_alone(call, MORSEL_SHUTDOWN);
    } else if (is_over(call)) {
        end_alone(call, call->status == MORSEL_UNREACHABLE || call->status == 0 ? MORSEL_UNREACHABLE
                                                                                : MORSEL_TIMEDOUT);
    } else {
        go_on(call);
    }
}

/* Those that are due; what is due anew meanwhile waits for the next time. */
static void on_timer(uv_timer_t *timer)
{
    struct client *client = timer->data;
    uint64_t now = uv_now(client->loop);
    struct list due, *node;

    list_init(&due);
    LIST_FOREACH_SAFE(each, &client->groups->pausing)
    {
        struct group_call *call = LIST_ENTRY(each, struct group_call, node);

        if (call->due_ms <= now || client_is_ending(client)) {
            list_remove(each);
            list_push_back(&due, each);
        }
    }
    while ((node = list_pop_front(&due)) != NULL) {
        wake(LIST_ENTRY(node, struct group_call, node));
    }
    arm(client);
}

static void arm(struct client *client)
{
    struct client_groups *groups = client->groups;
    uint64_t now = uv_now(client->loop), due_ms = UINT64_MAX;

    LIST_FOREACH(node, &groups->pausing)
    {
        const struct group_call *call = LIST_ENTRY(node, struct group_call, node);

        due_ms = call->due_ms < due_ms ? call->due_ms : due_ms;
    }
    if (due_ms != UINT64_MAX && groups->timer_open) {
        (void)uv_timer_start(&groups->timer, on_timer, due_ms > now ? due_ms - now : 0, 0);
    }
}

/* Those whose time is over while they wait for a number. */
static void waiting_expire(struct client_group *g)
{
    LIST_FOREACH_SAFE(node, &g->waiting)
    {
        struct group_call *call = LIST_ENTRY(node, struct group_call, node);

        if (is_over(call) || client_is_ending(call->client)) {
            list_remove(node);
            go_on_later(call);
        }
    }
}

void client_groups_tick(struct client *client)
{
    uint64_t now = rpc_boot_ms();
    struct client_group *g, *next;

    LIST_FOREACH_SAFE(node, &client->groups->zombies)
    {
        struct zombie *z = LIST_ENTRY(node, struct zombie, node);

        if (z->due_ms <= now) {
            list_remove(node);
            number_return(z->group, z->number);
            free(z);
        }
    }
    HASH_ITER(hh, client->groups->table, g, next)
    {
        waiting_expire(g);
    }
}

/* ---- Beginning and end ---- */

int client_groups_open(struct client *client)
{
    struct client_groups *groups = calloc(1, sizeof(*groups));

    if (groups == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&groups->pausing);
    list_init(&groups->zombies);
    (void)uv_timer_init(client->loop, &groups->timer);
    groups->timer.data = client;
    groups->timer_open = true;
    client->groups = groups;
    return MORSEL_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(CONTAINER_OF(handle, struct client_groups, timer));
}

void client_groups_close(struct client *client)
{
    struct client_groups *groups = client->groups;
    struct client_group *g, *next;
    struct list *node;

    if (groups == NULL) {
        return;
    }
    CHECK(list_empty(&groups->pausing));
    while ((node = list_pop_front(&groups->zombies)) != NULL) {
        free(LIST_ENTRY(node, struct zombie, node));
    }
    HASH_ITER(hh, groups->table, g, next)
    {
        HASH_DEL(groups->table, g);
        free(g);
    }
    client->groups = NULL;
    groups->timer_open = false;
    uv_close((uv_handle_t *)&groups->timer, on_closed);
}
